/*
 * fdw.h
 *		The room src/fdw/: planning and running a foreign scan in the coordinator's backend.
 *
 * Does: options and their checks, what may be sent to the data node, the remote SQL text, costs,
 * IMPORT FOREIGN SCHEMA, and the executor callbacks that return rows.
 * Does not: open connections or transactions (remote/), decode bytes (batch/), move data (flow/
 * and below).
 *
 * All memory of this header belongs to one backend; there is nothing shared in it.
 */
#ifndef RDMA_FDW_FDW_H
#define RDMA_FDW_FDW_H

#include "postgres.h"

#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "nodes/value.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "fdw/options/option.h"

/* hooks.c: at the start of each process, or of the server; never twice */
extern void rf_fdw_install_hooks(void);

/* ---------------------------------------------------------------------------------------------
 * Planner state of one foreign relation (RelOptInfo.fdw_private)
 *
 * Base relations, join relations and upper relations (grouping, windows, DISTINCT) all have one.
 * One remote SELECT stands for each: a join's FROM is made of its two sides, and an upper relation
 * adds its clause to the SELECT over "scanrel".  ORDER BY and LIMIT belong to paths.
 * ---------------------------------------------------------------------------------------------
 */
typedef enum RfStates
{
	RF_STATES_UNKNOWN,
	RF_STATES_OURS,				/* aggregates' states mean the same on the data nodes as here */
	RF_STATES_FOREIGN
} RfStates;

/*
 * A SELECT within a statement: of another query level, of one of the relations that an Append would
 * read, or a set operation of two of those.  (subquery.c)
 */
typedef struct RfSelect
{
	/* a set operation; left is NULL in others */
	SetOperation op;
	bool		all;
	bool		computed;		/* by the server's compute nodes */
	struct RfSelect *left;
	struct RfSelect *right;

	/* a SELECT */
	PlannerInfo *root;
	struct RfRelInfo *info;		/* its statement */
	List	   *tlist;			/* its columns, TargetEntries */
	List	   *pathkeys;		/* its order, if that matters */
	bool		limit;			/* with its query's LIMIT */
	Cost		startup_cost;
	Cost		total_cost;
	RelOptInfo *subquery;		/* what the query around it knows it as; NULL: part of that query */

	RelOptInfo *source;			/* whose server and user; of set operations, of one of them */
	Bitmapset  *collated;		/* columns, from 1, whose collation the data node knows as we do */
} RfSelect;

typedef struct RfRelInfo
{
	ForeignTable *table;		/* base relations only */
	ForeignServer *server;
	List	   *nodes;			/* OidList: the servers that the server stands for; NIL: an ordinary one */
	List	   *members;		/* OidList: these, and behind them compute nodes that are none of them */
	List	   *compute;		/* IntList: places of the compute nodes among the members; NIL: none */
	RfDistribution *distribution;	/* of base relations of such a server, else NULL */
	UserMapping *user;			/* only with use_remote_estimate, else NULL */
	List	   *indexes;		/* of base relations: RfIndex, those that ANALYZE found on the data node */
	RfTableOptions opts;
	char	   *relation_name;	/* remote name, quoted; of others than base relations: all of them */
	char	   *description;	/* for EXPLAIN: local names and how they are joined */

	List	   *remote_conds;	/* RestrictInfos evaluated on the data node */
	List	   *local_conds;	/* evaluated here; RestrictInfos, of upper relations bare */
	Bitmapset  *attrs_used;		/* base relations: columns wanted, offset by
								 * FirstLowInvalidHeapAttributeNumber */

	RelOptInfo *rel;			/* the relation that this is the statement of */
	struct RfFragment *fragment;	/* of a server with nodes: where its rows lie, see fragment.h */

	/*
	 * A table that is a SELECT: a subquery, or all children of a parent; its columns are named c1,
	 * c2, ... there.  Or the relation of set operations, whose statement it is.
	 */
	RfSelect   *select;

	/*
	 * A partitioned table with partitions on several servers, see nodes_partitions.c: for each of
	 * its nodes the SELECT of those that are there, NULL where there are none; one of them is "select".
	 */
	List	   *parts;

	/* join relations */
	struct RfRelInfo *outer;
	struct RfRelInfo *inner;
	JoinType	jointype;
	List	   *joinclauses;	/* RestrictInfos of ON, or of EXISTS */
	Relids		hidden_relids;	/* relations inside EXISTS, whose columns nothing outside can see */
	List	   *stand_ins;		/* of Lists: a Var inside EXISTS, and one that equals it and may be outside of it */

	/* upper relations */
	RelOptInfo *scanrel;		/* the base or join relation below; NULL in one of those */
	struct RfRelInfo *scan;		/* its statement */
	bool		grouped;		/* GROUP BY, HAVING, aggregates */
	List	   *having;			/* bare conditions that the data node evaluates */
	bool		partial;		/* grouped, but aggregates stop at their transition states */
	RfStates	states;			/* asked when first needed */
	bool		windowed;		/* window functions */
	bool		distinct;		/* DISTINCT */
	bool		projected;		/* the query's columns, with sub-selects */
	RelOptInfo *ordered;		/* of the ordered relation: the one whose statement is sorted */

	/*
	 * columns of the remote SELECT as TargetEntries; not for base relations unless they are a SELECT.
	 * Junk ones are not fetched.
	 */
	List	   *tlist;

	/* the plan that was made of it, and what went into its statement: see rf_subselect() */
	ForeignScan *plan;
	List	   *plan_conditions;
	List	   *plan_pathkeys;
	bool		plan_limit;

	Selectivity local_conds_sel;
	QualCost	local_conds_cost;

	double		rows;			/* after all conditions */
	double		retrieved_rows; /* rows that cross the wire */
	int			width;			/* bytes per row that cross it */
	Cost		startup_cost;
	Cost		total_cost;

	/* without our per-query and per-row charges; -1: not computed yet */
	Cost		rel_startup_cost;
	Cost		rel_total_cost;
} RfRelInfo;

/* ---------------------------------------------------------------------------------------------
 * What planning hands to execution: ForeignScan.fdw_private
 *
 * A List with one member per value below, in this order.  The node types are copyable, so plans
 * can be cached.  The values of the remote parameters are ForeignScan.fdw_exprs, in the order of
 * $1, $2, ...; evaluate them when the scan starts and after every rescan with changed parameters.
 * ---------------------------------------------------------------------------------------------
 */
typedef enum RfScanPrivateIndex
{
	/* String: the complete remote statement, for a session with search_path = pg_catalog */
	RF_SCAN_SQL,
	/*
	 * IntList: for every remote output column, in order, the attribute number here that it fills
	 * (ctid is SelfItemPointerAttributeNumber).  Attributes not listed are NULL.  An empty list
	 * means rows without columns: only how many there are matters.
	 */
	RF_SCAN_ATTRS,
	/* OidList: type of each remote parameter; the data node is given their names */
	RF_SCAN_PARAM_TYPES,
	/* IntList: RfFetchOptions, made by rf_fetch_options_list() */
	RF_SCAN_FETCH,
	/* Float: rows the planner expects to cross the wire, for progress and for buffer choice */
	RF_SCAN_ROWS,
	/* Boolean: the statement takes row locks, so it must not run as read-only */
	RF_SCAN_LOCKS_ROWS,
	/* String: the remote relation's name, for error context */
	RF_SCAN_RELATION,
	/*
	 * OidList: for every remote output column the deserial function that its values, states of an
	 * aggregate, will go through; InvalidOid for others.  Empty: there are none.
	 */
	RF_SCAN_STATES,
	/* String: what EXPLAIN says of a join or an upper relation; empty for a table */
	RF_SCAN_DESCRIPTION,
	/* List: NIL for an ordinary server, else as RfScanNodesIndex says */
	RF_SCAN_NODES,
	/* OidList: whose rights it has; InvalidOid: whoever runs it */
	RF_SCAN_USER,
	/* Boolean: set operations, whose columns are nobody's for the planner */
	RF_SCAN_SET_OPERATION,
	RF_SCAN_NPRIVATE
} RfScanPrivateIndex;

/* RF_SCAN_NODES of a server that stands for many nodes: the statement runs on several of them. */
typedef enum RfScanNodesIndex
{
	/* OidList: the node servers, in order */
	RF_NODES_SERVERS,
	/* IntList: places in it of those that run the statement */
	RF_NODES_PLACES,
	/*
	 * List of the statement's exchanges, number = place + 1: each list_make3(String kind,
	 * "repartition" or "replicate"; Float: rows that move; String: what EXPLAIN says of it; two
	 * IntLists: the members (places in RF_NODES_PLACES) that run its query, and those that its rows
	 * come out on).
	 */
	RF_NODES_EXCHANGES,
	/*
	 * List of the keys by which every node's rows are sorted, so that they are merged; NIL: in any
	 * order. Each list_make2(IntList: attribute of the scan tuple, nulls first; OidList: sort
	 * operator, collation)
	 */
	RF_NODES_MERGE,
	/*
	 * IntList: places in ForeignScan.fdw_exprs of the values that all distribution keys have, in
	 * order, coerced to the keys' types: only the node that their hash says runs the statement.
	 * NIL: no such. They may stand behind the values of the remote parameters or among them.
	 */
	RF_NODES_PRUNE,
	/* OidList: types, then collations of the distribution keys; NIL with RF_NODES_PRUNE */
	RF_NODES_KEYS,
	/* String: the strategy, for EXPLAIN; empty for a plain scan */
	RF_NODES_STRATEGY,
	/* NIL: who holds the rows joins them, too; else as RfScanComputeIndex says */
	RF_NODES_COMPUTE,
	/* List of Strings, by place: where nodes have different tables; NIL: all run the same statement */
	RF_NODES_SQL,
	RF_NODES_N
} RfScanNodesIndex;

/*
 * RF_NODES_COMPUTE: rows come from the compute nodes only. One that holds rows as well runs the
 * statement as it is.
 */
typedef enum RfScanComputeIndex
{
	/* IntList: their places */
	RF_COMPUTE_PLACES,
	/* Integer: the places before this one hold rows */
	RF_COMPUTE_HOLDERS,
	/* String: what those run that hold rows only: the exchanges that send them, no columns, no rows */
	RF_COMPUTE_SEND_SQL,
	/* String: what those run that hold none: the statement without the queries of these exchanges */
	RF_COMPUTE_JOIN_SQL
} RfScanComputeIndex;

/* Readers of the list, so that its layout is known in one place. */
static inline const char *
rf_scan_sql(ForeignScan *plan)
{
	return strVal(list_nth(plan->fdw_private, RF_SCAN_SQL));
}

static inline List *
rf_scan_attrs(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_ATTRS);
}

static inline List *
rf_scan_param_types(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_PARAM_TYPES);
}

static inline List *
rf_fetch_options_list(const RfFetchOptions *fetch)
{
	return lappend_int(lappend_int(list_make5_int(fetch->fetch_size, fetch->receive_buffers,
									  fetch->receive_buffer_size, fetch->inline_limit,
									  fetch->read_in_place), fetch->async_capable), fetch->accept_pages);
}

static inline RfFetchOptions
rf_scan_fetch_options(ForeignScan *plan)
{
	List	   *values = (List *) list_nth(plan->fdw_private, RF_SCAN_FETCH);
	RfFetchOptions fetch;

	fetch.fetch_size = list_nth_int(values, 0);
	fetch.receive_buffers = list_nth_int(values, 1);
	fetch.receive_buffer_size = list_nth_int(values, 2);
	fetch.inline_limit = list_nth_int(values, 3);
	fetch.read_in_place = list_nth_int(values, 4) != 0;
	fetch.async_capable = list_nth_int(values, 5);
	fetch.accept_pages = list_nth_int(values, 6) != 0;
	return fetch;
}

static inline double
rf_scan_expected_rows(ForeignScan *plan)
{
	return floatVal(list_nth(plan->fdw_private, RF_SCAN_ROWS));
}

static inline bool
rf_scan_locks_rows(ForeignScan *plan)
{
	return boolVal(list_nth(plan->fdw_private, RF_SCAN_LOCKS_ROWS));
}

static inline const char *
rf_scan_relation(ForeignScan *plan)
{
	return strVal(list_nth(plan->fdw_private, RF_SCAN_RELATION));
}

static inline List *
rf_scan_states(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_STATES);
}

static inline const char *
rf_scan_description(ForeignScan *plan)
{
	return strVal(list_nth(plan->fdw_private, RF_SCAN_DESCRIPTION));
}

static inline Oid
rf_scan_userid(ForeignScan *plan)
{
	Oid			userid = linitial_oid((List *) list_nth(plan->fdw_private, RF_SCAN_USER));

	return OidIsValid(userid) ? userid : GetUserId();
}

static inline bool
rf_scan_is_set_operation(ForeignScan *plan)
{
	return boolVal(list_nth(plan->fdw_private, RF_SCAN_SET_OPERATION));
}

/* NIL: an ordinary server */
static inline List *
rf_scan_nodes(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_NODES);
}

static inline List *
rf_scan_nodes_member(ForeignScan *plan, RfScanNodesIndex member)
{
	return (List *) list_nth(rf_scan_nodes(plan), member);
}

static inline const char *
rf_scan_strategy(ForeignScan *plan)
{
	return strVal(list_nth(rf_scan_nodes(plan), RF_NODES_STRATEGY));
}

/* ---------------------------------------------------------------------------------------------
 * Inside planning
 * ---------------------------------------------------------------------------------------------
 */

/* The column that a SortGroupClause refers to, or NULL. */
extern TargetEntry *rf_sortgroupref_tle(Index sortgroupref, List *tlist);

/* RestrictInfos or bare expressions to bare expressions */
extern List *rf_bare_clauses(List *clauses);

/* relinfo.c: reads table, server and options and sorts the conditions */
extern RfRelInfo *rf_relinfo_build(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);

/* Does the query lock or write a table that is here, so that rows may have to be looked at again? */
extern bool rf_rows_may_be_rechecked(PlannerInfo *root);

/*
 * Does anybody look at whole rows of this relation? UPDATE and DELETE ask for those of all relations
 * but the target, in case that rows have to be looked at again.
 */
extern bool rf_row_is_wanted(PlannerInfo *root, Index relid);

/* For EXPLAIN: "schema.table alias" */
extern char *rf_local_name(RangeTblEntry *rte);

/* Sorts RestrictInfos into those the data node can evaluate and the rest. */
extern void rf_classify_conditions(PlannerInfo *root, RelOptInfo *baserel, List *conditions,
								   List **remote_conds, List **local_conds);

/*
 * shippable.c: can the data node evaluate this expression and give the same answer?  Refuses every
 * node that the deparser cannot print, too.  Aggregates pass in grouped relations and those above,
 * window functions in windowed ones.
 */
extern bool rf_is_shippable_expr(PlannerInfo *root, RelOptInfo *rel, Expr *expr);

/* Is the collation of this shippable expression one that a column of the data node brings? */
extern bool rf_is_known_collation(PlannerInfo *root, RelOptInfo *rel, Expr *expr);

/* Do values of this type mean the same on every node? */
extern bool rf_is_shippable_type(Oid type, RfRelInfo *info);

/* Would sorting by this expression with this operator give the same order on the data node? */
extern bool rf_is_shippable_sort(PlannerInfo *root, RelOptInfo *rel, Expr *expr, Oid sortop);

/*
 * Is this a value that the query does not change while it runs, and that only this node knows: a
 * stable expression without columns, such as now() - '1 day'?  It is computed here and sent as a
 * parameter.
 */
extern bool rf_is_local_value(Node *node);

/*
 * Is this a relabelling or a constant that says COLLATE "C" or "POSIX"?  Those two collations are
 * the same everywhere.
 */
extern bool rf_is_explicit_collation(Node *node);

/*
 * ForeignPath.fdw_private is made of two pointers: the statement, and an Integer, what the path's
 * remote query has beyond it.  NIL: the only statement of the relation, as it is.  Its order is in
 * path.pathkeys.  Paths are never copied.
 */
#define RF_PATH_LIMIT	1		/* the query's LIMIT and OFFSET */

static inline List *
rf_path_private(RfRelInfo *info, int what)
{
	return list_make2(info, makeInteger(what));
}

/*
 * Several statements may stand for one relation of a server with nodes; who works on one, or makes
 * its plan, first puts it into RelOptInfo.fdw_private, where everybody looks.
 */
static inline RfRelInfo *
rf_path_info(ForeignPath *path)
{
	return (RfRelInfo *) (path->fdw_private == NIL ? path->path.parent->fdw_private :
						  linitial(path->fdw_private));
}

static inline bool
rf_path_has_limit(ForeignPath *path)
{
	return path->fdw_private != NIL && (intVal(lsecond(path->fdw_private)) & RF_PATH_LIMIT) != 0;
}

/*
 * subselect.c: sub-selects in expressions (scalar, EXISTS, IN, ANY, ALL, ARRAY), correlated or not,
 * that one data node can evaluate as part of the statement around them.  By the time an expression is
 * looked at, the planner has made a sub-plan of each.
 */

/*
 * The relation whose statement is all that the sub-plan does, and the query it belongs to.  NULL: it
 * does something here.
 */
extern RfRelInfo *rf_subselect(PlannerInfo *root, SubPlan *subplan, PlannerInfo **subroot);

/* The columns of that statement, which may be made of the relation's own. */
extern List *rf_subselect_columns(RfRelInfo *info);

/* Can the data node evaluate it in a statement of this relation?  Its arguments and its left side aside. */
extern bool rf_subselect_is_shippable(PlannerInfo *root, RfRelInfo *info, SubPlan *subplan);

/*
 * What conditions cost on the data node, or a cost with what the sub-selects in it cost less there:
 * the planner thinks of sub-plans as of queries of their own, sent for each row.
 */
extern void rf_remote_qual_cost(QualCost *cost, List *quals, PlannerInfo *root);
extern void rf_discount_subselects(QualCost *cost, Node *expr);

/* querybuild.c: the remote statement of one relation */
typedef struct RfRemoteQuery
{
	char	   *sql;
	List	   *retrieved_attrs;	/* IntList, see RF_SCAN_ATTRS */
	List	   *params;			/* expressions behind $1, $2, ... */
	List	   *param_types;	/* OidList */
	List	   *exchanges;		/* RF_NODES_EXCHANGES */
	List	   *node_sql;		/* RF_NODES_SQL */
	char	   *send_sql;		/* RF_COMPUTE_SEND_SQL, RF_COMPUTE_JOIN_SQL; NULL: nothing goes to compute nodes */
	char	   *join_sql;
} RfRemoteQuery;

/*
 * conditions: a base relation's WHERE, bare expressions that passed rf_is_shippable_expr(); joins
 * and upper relations have theirs in RfRelInfo.  locking: text such as "FOR UPDATE", or NULL.
 * for_estimate: parameters become unknown values instead of $n, so that the text can stand after
 * EXPLAIN.
 */
extern void rf_build_query(PlannerInfo *root, RelOptInfo *rel, List *conditions, List *pathkeys,
						   bool limit, const char *locking, bool for_estimate,
						   RfRemoteQuery *out);

/*
 * Prints a shippable expression over one foreign table for a statement that is put together
 * elsewhere; what is only known here becomes $n, and is added to *params and *param_types.
 */
extern char *rf_print_expr(Index relid, Oid foreigntableid, Expr *expr, List **params, List **param_types);

/*
 * UPDATE ... FROM or DELETE ... USING of one of a join's tables: new values for these columns (lists
 * of TargetEntries and numbers), and columns of the join to return (TargetEntries).  NULL when that
 * table is not inner-joined with the rest.
 */
extern char *rf_build_join_modify(PlannerInfo *root, RelOptInfo *joinrel, Index target, CmdType operation,
								  List *values, List *attnums, List *returning, List **params,
								  List **param_types);

/* Quoted and qualified remote name of a foreign table. */
extern char *rf_remote_relation_name(const RfTableOptions *opts);

/* What stands for a pathkey in a relation's statement. */
typedef struct RfSortKey
{
	Expr	   *expr;			/* of DISTINCT and set operations a column; NULL: all rows are equal */
	Oid			sortop;
} RfSortKey;

/*
 * order.c: fills *key with what the data node sorts by.  A pathkey names a class of equal
 * expressions: of a base or join relation any member made of its columns will do that is still to
 * be had above its joins, of an upper relation one that its SELECT computes.  False: the data node
 * cannot sort by any of them as we would.
 */
extern bool rf_sort_key(PlannerInfo *root, RelOptInfo *rel, PathKey *pathkey, RfSortKey *key);
extern bool rf_pathkeys_shippable(PlannerInfo *root, RelOptInfo *rel, List *pathkeys);

extern bool rf_merge_keys(PlannerInfo *root, RelOptInfo *rel, List *columns, List *pathkeys, List **keys);

/*
 * Adds paths of a base or join relation that are sorted on the data node, where that may help.
 * local_join: of joins whose rows may be rechecked, see join.c; else NULL.
 */
extern void rf_add_sorted_paths(PlannerInfo *root, RelOptInfo *rel, Path *local_join, List *fdw_restrictinfo);

/* estimate.c */

/* What is not given by options: defaults, or what the network's round trip and bandwidth make it. */
extern void rf_transfer_costs(ForeignServer *server, RfTableOptions *opts);

typedef struct RfEstimate
{
	double		rows;
	double		retrieved_rows; /* that cross the wire */
	int			width;
	Cost		startup_cost;
	Cost		total_cost;
} RfEstimate;

/*
 * rows, width and costs of scanning rel, with these pushed join conditions (base relations only) in
 * this order and with the query's LIMIT (limit_tuples; -1: none)
 */
extern void rf_estimate(PlannerInfo *root, RelOptInfo *rel, List *join_conds, List *pathkeys,
						bool limit, int64 offset_est, int64 count_est, RfEstimate *est);

/* the same without order and limit, kept in RfRelInfo */
extern void rf_estimate_rel(PlannerInfo *root, RelOptInfo *rel);

/*
 * from_items.c: where a placeholder is computed, NULL if it needs columns of others (LATERAL);
 * those that something above this base or join relation wants and the data node can compute; and
 * are there FROM items, of whose columns only those in info->tlist can be had?
 */
extern Relids rf_evaluated_at(PlannerInfo *root, PlaceHolderVar *placeholder);
extern List *rf_placeholders_of(PlannerInfo *root, RfRelInfo *info);
extern bool rf_reads_items(PlannerInfo *root, RfRelInfo *info);

/*
 * join.c: the column that stands for this one of hidden_relids in the SELECT list, as a condition of the
 * join says that they are equal; or NULL
 */
extern Expr *rf_stand_in(RfRelInfo *info, Var *hidden);

/*
 * remote_index.c: indexes of the data node's table, as ANALYZE found them.  Those of the first node,
 * as the tables of the others are the same.
 */
typedef struct RfIndex
{
	int			column_count;
	AttrNumber *columns;		/* of the foreign table, the index's first ones, up to one that is not known here */
	bool		unique;
	double		correlation;	/* of the first column's order and the table's */
} RfIndex;

extern List *rf_remote_indexes(Oid relid);

/* The catalog gets those that the table has on the data node. */
extern void rf_import_indexes(Relation relation, struct RfSession *session, const RfTableOptions *opts);

typedef struct RfProbeCost
{
	Cost		cost;			/* of one probe */
	double		tuples;			/* that it finds, before other conditions */
} RfProbeCost;

/*
 * What it costs a data node to find rows of the table by an index: by these clauses (RestrictInfos) of
 * a join for each of `count` rows of its other side, in the index's order or not, or, without clauses,
 * once by the table's own conditions.  part: how much of what there is for one row is on the node that
 * looks for it.  False: no index serves.
 */
extern bool rf_probe_cost(PlannerInfo *root, RfRelInfo *info, List *clauses, double count, double part,
						  bool sorted, RfProbeCost *result);

/*
 * partial.c: aggregates in two steps; data nodes give transition states of groups, and Finalize
 * Aggregate here combines them.  To put it over any scan of a relation of ours, when called for
 * UPPERREL_GROUP_AGG with GROUPING_CAN_PARTIAL_AGG among extra->flags:
 *
 *		target = rf_partial_grouping_target(root, grouped_rel->reltarget, extra->havingQual);
 *		partial = rf_partial_grouped_rel(root, input_rel, target, extra);
 *		if (partial != NULL)
 *			rf_add_finalize_paths(root, grouped_rel, partial->cheapest_total_path, extra);
 *
 * Between the last two may stand whatever keeps the target's columns and may give a group more than
 * once: Append, or a scan of several nodes.  rf_build_query() of the partial relation is the
 * statement for one node; its columns are the partial relation's RfRelInfo.tlist.  Who scans
 * without ForeignScan must have states checked: rf_state_deserialfn() of each column, and
 * rf_decoder_expect_state().
 */

/* The columns: what is grouped by, and aggregates (also those in HAVING) as partial ones. */
extern PathTarget *rf_partial_grouping_target(PlannerInfo *root, PathTarget *grouping_target, Node *having);

/*
 * A relation that gives the target's columns, with one path, a ForeignPath; NULL when input_rel is
 * not ours or its data node cannot compute them.  extra is the stage's.
 */
extern RelOptInfo *rf_partial_grouped_rel(PlannerInfo *root, RelOptInfo *input_rel, PathTarget *target, void *extra);

/* Adds Finalize Aggregate over the path, by hashing and by sorting, with HAVING. */
extern void rf_add_finalize_paths(PlannerInfo *root, RelOptInfo *grouped_rel, Path *partial,
								  GroupPathExtraData *extra);

/*
 * Can the state of this partial aggregate (one of a partial target) be had from the relation's data
 * node, or from all of them?  Its arguments are rf_is_shippable_expr()'s business.  May ask them for
 * their version; info->states keeps the answer.
 */
extern bool rf_partial_agg_is_shippable(PlannerInfo *root, RfRelInfo *info, Aggref *agg);

/* What has to be printed for it: the plain aggregate, or rdma.partialize(aggregate, NULL::type). */
extern Expr *rf_partial_agg_expr(Aggref *agg);

/* For rf_decoder_expect_state(): InvalidOid if a column needs no check of that kind. */
extern Oid	rf_state_deserialfn(Expr *expr);

/*
 * GROUP BY and aggregates over a relation that consists of foreign tables on several servers: each
 * gives its states, and they are combined here.
 */
extern void rf_group_over_append(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel,
								 GroupPathExtraData *extra);

/* Correlated aggregates become joins where that is better. (decorrelate.c) */
extern void rf_decorrelate_install_hook(void);

/*
 * One participant's share of a scan that `divisor` of them do together; from RfRelInfo, which
 * rf_estimate_rel filled.
 */
extern void rf_estimate_partial(RfRelInfo *info, double divisor, RfEstimate *est);

/* ---------- subquery.c: sub-selects and set operations ---------- */

/* Adds paths of a subquery or parent whose rows are those of one statement. */
extern void rf_select_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/* Of set operations whose branches are planned: adds the path that leaves them to the data node. */
extern void rf_set_operation_paths(PlannerInfo *root, RelOptInfo *rel);

/* What a ForeignPath can be a scan of: the relation, unless it is a base relation that is a SELECT. */
extern RelOptInfo *rf_scanned_rel(RelOptInfo *rel);

/* A path of a base relation that is a SELECT. */
extern Path *rf_create_select_path(PlannerInfo *root, RelOptInfo *rel, RfEstimate *est, List *pathkeys);

/*
 * The SELECT of these columns from a statement; rel is the relation that the statement is of.  NULL:
 * the data node cannot compute them.
 */
extern RfSelect *rf_make_select(PlannerInfo *root, RelOptInfo *rel, List *tlist, List *pathkeys, bool limit);

/* NULL if one of them is, or they cannot be in one statement. */
extern RfSelect *rf_combine_selects(SetOperation op, bool all, RfSelect *left, RfSelect *right);

/* The columns that the query wants of it, with these; false if there is something else. */
extern bool rf_wanted_columns(PlannerInfo *root, RelOptInfo *rel, List *more, List **columns);

/*
 * nodes_partitions.c: gives the partitioned tables of this query level that have partitions on
 * several servers statements that these run together.
 */
extern void rf_place_partitioned_tables(PlannerInfo *root);

/* Is it the relation of set operations? */
static inline bool
rf_is_set_operation(RfRelInfo *info)
{
	return info->select != NULL && info->rel->reloptkind == RELOPT_UPPER_REL;
}

/* Is there a SELECT in its FROM, or is it made of such?  Those refer to nothing outside of them. */
extern bool rf_reads_select(RfRelInfo *info);

/* The plan reads these subqueries through the statement: it has no plan of theirs. */
extern void rf_subqueries_are_remote(RfRelInfo *info);

/*
 * upper.c: is a constant among what GROUP BY names?  Where its columns have to be named by expression
 * a constant cannot be.
 */
extern bool rf_groups_by_constant(PlannerInfo *root);

/* join.c: one statement gets the options of two */
extern void rf_merge_options(RfRelInfo *info, RfRelInfo *outer, RfRelInfo *inner);

/* join.c, upper.c */
extern void rdmaGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
									RelOptInfo *innerrel, JoinType jointype,
									JoinPathExtraData *extra);
extern void rdmaGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
									 RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);

/* parallel_plan.c */
extern bool rdmaIsForeignScanParallelSafe(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/*
 * Adds a path of which each parallel worker gets a part of the rows, where that may be worth it.
 * relids: the base relations that the statement reads.
 */
extern void rf_add_partial_path(PlannerInfo *root, RelOptInfo *rel, Relids relids,
								PathTarget *target, List *fdw_restrictinfo);

/* scan_plan.c */
extern void rdmaGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void rdmaGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern ForeignScan *rdmaGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid foreigntableid,
									   ForeignPath *best_path, List *tlist, List *scan_clauses,
									   Plan *outer_plan);

/* Is it a relation of this wrapper's? */
extern bool rf_is_our_rel(RelOptInfo *rel);

/*
 * copy.c: COPY FROM into foreign tables.  It counts the rows that it hands over; rf_copy_drop()
 * says how many of them were not written after all.  rf_copy_counts(): is that number used now?
 */
extern void rf_copy_install_hook(void);
extern bool rf_copy_counts(void);
extern void rf_copy_drop(uint64 rows);

/*
 * Which lines the rows of a load came from, in the current memory context.  rf_copy_line: its next
 * row, whose number counts from 1, is of COPY's current line.  rf_copy_failed (RfLoadSpec.failed):
 * lets COPY's error context name a row's line; rf_copy_error_context is that context for when
 * COPY's own is not there any more.
 */
typedef struct RfCopyLines RfCopyLines;

extern RfCopyLines *rf_copy_lines_create(void);
extern void rf_copy_line(RfCopyLines *lines, uint64 row);
extern void rf_copy_failed(void *lines, uint64 row);
extern void rf_copy_error_context(void *lines);

/* modify_plan.c: which statements write, and how */
extern void rdmaAddForeignUpdateTargets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte,
										Relation target_relation);
extern List *rdmaPlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index);
extern int	rdmaIsForeignRelUpdatable(Relation rel);

/* modify_direct_plan.c */
extern bool rdmaPlanDirectModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index);

/* The remote INSERT; *retrieved_attrs is what its RETURNING gives, in order. */
extern char *rf_insert_sql(Relation rel, const RfTableOptions *opts, Index rti, List *target_attrs, bool do_nothing,
						   List *check_options, List *returning, List **retrieved_attrs);
extern void rf_append_returning(StringInfo buf, Relation rel, Index rti, bool whole_row, List *check_options,
								List *returning, List **retrieved_attrs);

/*
 * Is the table a partition, and is one of these columns in its bounds?  Core moves no rows out of
 * foreign partitions, so an UPDATE may leave one where nobody looks for it.
 */
extern bool rf_writes_partition_key(Relation rel, List *target_attrs);

/*
 * Name of the junk column that holds a distribution key of a row to be written. Tables that are
 * written by one statement may have keys of different types.
 */
extern void rf_key_junk_name(Oid relid, int key, char *name);

/* ERROR when a table of a server with nodes cannot be written so. direct: by one statement per node. */
extern void rf_check_distributed_write(Relation rel, CmdType operation, List *target_attrs, bool direct);

/* What takes the scan's place in ForeignScan.fdw_private where data nodes write by themselves. */
typedef enum RfDirectPrivateIndex
{
	RF_DIRECT_SQL,				/* String */
	RF_DIRECT_PARAM_TYPES,		/* OidList */
	RF_DIRECT_RETRIEVED,		/* IntList: attributes that RETURNING gives, in order */
	RF_DIRECT_SET_PROCESSED		/* Boolean: rows count for the statement */
} RfDirectPrivateIndex;

/* ModifyTable's fdw_private: what planning hands to execution */
typedef enum RfModifyPrivateIndex
{
	RF_MODIFY_SQL,				/* String */
	RF_MODIFY_TARGETS,			/* IntList: attributes that are written */
	RF_MODIFY_RETRIEVED,		/* IntList: attributes that RETURNING gives, in order */
	RF_MODIFY_DO_NOTHING,		/* Boolean: ON CONFLICT DO NOTHING */
	RF_MODIFY_NPRIVATE
} RfModifyPrivateIndex;

/* analyze.c */
/*
 * import_statistics.c: writes pg_statistic of a foreign table from what the data node's ANALYZE found;
 * how many columns there was something for.  Takes effect in the next command.
 */
struct RfSession;
extern AttrNumber rf_find_column(Relation relation, const char *remote_name);
extern int	rf_import_statistics(Relation relation, struct RfSession *session, const RfTableOptions *opts);

extern bool rdmaAnalyzeForeignTable(Relation relation, AcquireSampleRowsFunc *func,
									BlockNumber *totalpages);

/* import.c */
extern List *rdmaImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverOid);

/* ---------------------------------------------------------------------------------------------
 * Execution (scan_exec.c, explain.c)
 * ---------------------------------------------------------------------------------------------
 */
struct ExplainState;

extern void rdmaBeginForeignScan(ForeignScanState *node, int eflags);
extern TupleTableSlot *rdmaIterateForeignScan(ForeignScanState *node);
extern bool rdmaRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot);
extern void rdmaReScanForeignScan(ForeignScanState *node);
extern void rdmaEndForeignScan(ForeignScanState *node);
extern void rdmaExplainForeignScan(ForeignScanState *node, struct ExplainState *es);

/* modify.c */
extern void rdmaBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *result_rel, List *fdw_private,
								   int subplan_index, int eflags);
extern TupleTableSlot *rdmaExecForeignInsert(EState *estate, ResultRelInfo *result_rel, TupleTableSlot *slot,
											 TupleTableSlot *plan_slot);
extern TupleTableSlot *rdmaExecForeignUpdate(EState *estate, ResultRelInfo *result_rel, TupleTableSlot *slot,
											 TupleTableSlot *plan_slot);
extern TupleTableSlot *rdmaExecForeignDelete(EState *estate, ResultRelInfo *result_rel, TupleTableSlot *slot,
											 TupleTableSlot *plan_slot);
extern void rdmaEndForeignModify(EState *estate, ResultRelInfo *result_rel);
extern void rdmaBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *result_rel);
extern void rdmaEndForeignInsert(EState *estate, ResultRelInfo *result_rel);
extern void rdmaExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *result_rel, List *fdw_private,
									 int subplan_index, struct ExplainState *es);
extern void rdmaExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs);

/* Nodes did not do the same to their copies of a replicated table. */
extern void rf_complain_of_copies(Relation rel, UserMapping *first, uint64 first_rows, UserMapping *other,
								  uint64 rows) __attribute__((noreturn));

/* modify_direct.c */
extern void rdmaBeginDirectModify(ForeignScanState *node, int eflags);
extern TupleTableSlot *rdmaIterateDirectModify(ForeignScanState *node);
extern void rdmaEndDirectModify(ForeignScanState *node);
extern void rdmaExplainDirectModify(ForeignScanState *node, struct ExplainState *es);

/*
 * modify_convert.c: values to the text of remote parameters, rows of libpq results to tuples.  Both
 * live in the memory context that is current when they are made; what they return lives until their
 * next call.
 */
typedef struct RfValueWriter RfValueWriter;

extern RfValueWriter *rf_value_writer_create(List *types);	/* OidList */
/* Text of values[i], NULL for a NULL one. */
extern const char *const *rf_write_values(RfValueWriter *writer, const Datum *values, const bool *isnull);

typedef struct RfResultReader RfResultReader;
struct pg_result;

/* attnums: what the result's columns fill; relation is for messages */
extern RfResultReader *rf_result_reader_create(TupleDesc desc, const char *relation, List *attnums);
/* One row of the result, in a slot of that row type. */
extern void rf_read_result(RfResultReader *reader, struct pg_result *result, int row, TupleTableSlot *slot);

/* For a tuple that heap_form_tuple() made: xmin, xmax, cmin and cmax are 0, as in postgres_fdw. */
extern void rf_clear_system_columns(HeapTupleHeader row);

/* scan_parallel.c */
extern Size rdmaEstimateDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt);
extern void rdmaInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt,
										 void *coordinate);
extern void rdmaReInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt,
										   void *coordinate);
extern void rdmaInitializeWorkerForeignScan(ForeignScanState *node, shm_toc *toc, void *coordinate);
extern void rdmaShutdownForeignScan(ForeignScanState *node);

/* scan_async.c */
extern bool rdmaIsForeignPathAsyncCapable(ForeignPath *path);
extern void rdmaForeignAsyncRequest(AsyncRequest *areq);
extern void rdmaForeignAsyncConfigureWait(AsyncRequest *areq);
extern void rdmaForeignAsyncNotify(AsyncRequest *areq);

#endif							/* RDMA_FDW_FDW_H */
