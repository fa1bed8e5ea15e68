/*
 * plan.h
 *		Planning: the wrapper's callbacks, and what the files of this folder need of each other.
 *
 * Several data nodes can run one statement at once. Every node runs the same SQL text, but for the
 * names of partitions (nodes_partitions.c). A relation of a server with nodes has one or more
 * statements, RfRelInfo, that differ in where their rows lie: its choices. What must move between
 * nodes is an RfRelInfo of its own, over another one whose rows it moves; in the text it is a call of
 * rdma.exchange() in FROM.
 */
#ifndef RF_PLAN_H
#define RF_PLAN_H

#include "postgres.h"

#include "foreign/fdwapi.h"
#include "lib/stringinfo.h"

#include "rdma_fdw/guc.h"
#include "fdw/deparse/statement.h"

/* Reads table, server and options and sorts the conditions */
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

extern bool rf_merge_keys(PlannerInfo *root, RelOptInfo *rel, List *columns, List *pathkeys, List **keys);

/*
 * Adds paths of a base or join relation that are sorted on the data node, where that may help.
 * local_join: of joins whose rows may be rechecked, see join.c; else NULL.
 */
extern void rf_add_sorted_paths(PlannerInfo *root, RelOptInfo *rel, Path *local_join, List *fdw_restrictinfo);

/* Costs that no option gives: the defaults, or those of the network's round trip and bandwidth. */
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
 * Rows, width and costs of scanning rel, with these pushed join conditions (base relations only), in
 * this order and with the query's LIMIT (NULL: without).
 */
extern void rf_estimate(PlannerInfo *root, RelOptInfo *rel, List *join_conds, List *pathkeys,
						const FinalPathExtraData *limit, RfEstimate *est);

/* the same without order and limit, kept in RfRelInfo */
extern void rf_estimate_rel(PlannerInfo *root, RelOptInfo *rel);

/*
 * aggregates in two steps; data nodes give transition states of groups, and Finalize
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
 * GROUP BY and aggregates over a relation that consists of foreign tables on several servers: each
 * gives its states, and they are combined here.
 */
extern void rf_group_over_append(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel,
								 GroupPathExtraData *extra);

/* Correlated aggregates become joins where that is better. */
extern void rf_decorrelate_install_hook(void);

/*
 * One participant's share of a scan that `divisor` of them do together; from RfRelInfo, which
 * rf_estimate_rel filled.
 */
extern void rf_estimate_partial(RfRelInfo *info, double divisor, RfEstimate *est);

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
 * gives the partitioned tables of this query level that have partitions on
 * several servers statements that these run together.
 */
extern void rf_place_partitioned_tables(PlannerInfo *root);

/* The plan reads these subqueries through the statement: it has no plan of theirs. */
extern void rf_subqueries_are_remote(RfRelInfo *info);

/*
 * is a constant among what GROUP BY names?  Where its columns have to be named by expression
 * a constant cannot be.
 */
extern bool rf_groups_by_constant(PlannerInfo *root);

/* one statement gets the options of two */
extern void rf_merge_options(RfRelInfo *info, RfRelInfo *outer, RfRelInfo *inner);

extern void rdmaGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
									RelOptInfo *innerrel, JoinType jointype,
									JoinPathExtraData *extra);
extern void rdmaGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
									 RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);

extern bool rdmaIsForeignScanParallelSafe(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/*
 * Adds a path of which each parallel worker gets a part of the rows, where that may be worth it.
 * relids: the base relations that the statement reads.
 */
extern void rf_add_partial_path(PlannerInfo *root, RelOptInfo *rel, Relids relids,
								PathTarget *target, List *fdw_restrictinfo);

extern void rdmaGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void rdmaGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern ForeignScan *rdmaGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid foreigntableid,
									   ForeignPath *best_path, List *tlist, List *scan_clauses,
									   Plan *outer_plan);

/* Is it a relation of this wrapper's? */
extern bool rf_is_our_rel(RelOptInfo *rel);

/* which statements write, and how */
extern void rdmaAddForeignUpdateTargets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte,
										Relation target_relation);
extern List *rdmaPlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index);
extern int	rdmaIsForeignRelUpdatable(Relation rel);

extern bool rdmaPlanDirectModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index);

/* What a statement that writes single rows is made of. */
typedef struct RfRowWrite
{
	Relation	rel;
	const RfTableOptions *opts;
	Index		rti;			/* what the following two call the relation */
	List	   *check_options;
	List	   *returning;
	List	   *target_attrs;	/* columns that are written; not of DELETE */
} RfRowWrite;

/* The remote INSERT; *retrieved_attrs is what its RETURNING gives, in order. */
extern char *rf_insert_sql(const RfRowWrite *write, bool do_nothing, List **retrieved_attrs);
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

/* Of a foreign table whose info has nodes; sets info->fragment. */
extern void rf_place_table(PlannerInfo *root, RfRelInfo *info);

/* Expressions known to equal a key, by what these conditions (RestrictInfos) say of its value. */
extern List *rf_key_members(Expr *key, List *rinfos);

/* May the server's compute nodes get rows? */
static inline bool
rf_may_compute(const RfRelInfo *info)
{
	return info->compute != NIL && rf_compute_nodes != RF_COMPUTE_OFF;
}

/* Are rows that are equal in the keys in the same place by both layouts? */
extern bool rf_same_layout(const RfLayout *a, const RfLayout *b);

/* The place of the only node that has to run the statement, if that is known; else -1. */
extern int	rf_only_place(const RfFragment *fragment);

/* Has one node all rows, and runs the statement alone? */
extern bool rf_has_single_node(RfFragment *fragment);

/*
 * Adds a statement to the choices of its relation unless there is one at least as good; true if it
 * was added.
 */
extern bool rf_add_choice(RfChoices *choices, RfRelInfo *info);

/* An equality of an expression of either side, both without casts, that a hash can serve. */
typedef struct RfEquality
{
	Expr	   *outer;
	Expr	   *inner;
} RfEquality;

/* Those among RestrictInfos of a join, as a List of RfEquality. */
extern List *rf_hashable_equalities(List *rinfos, Relids outer, Relids inner);

/* Without casts, if rows can be hashed by it such that all nodes agree; else NULL. */
extern Expr *rf_hashable_key(Expr *expr, RfRelInfo *info);

/* Have equal values of both the same hash? False if there is none for one of them. */
extern bool rf_same_hash(Expr *a, Expr *b);

/* The same hash for equal values: one list of expressions has a member of the other, or a partner. */
extern bool rf_keys_agree(List *outer_key, List *inner_key, List *equalities);

/* Are all keys among these expressions?  Then rows that agree in those are on one node. */
extern bool rf_placed_by(RfRelInfo *info, List *exprs);

/*
 * If nothing moves and all keys have fixed values, these, in order: the statement needs to run only
 * on the node that their hash says; else NIL.
 */
extern List *rf_single_node_values(RfFragment *fragment);

/*
 * The rows of this, sent to all nodes (keys NIL) or to where the hash of the keys says: among the
 * nodes where they are, or, computed, among the compute nodes. Of rows that are everywhere, which can
 * only be sent by keys or to others, one node sends its own.
 */
extern RfRelInfo *rf_move(PlannerInfo *root, RfRelInfo *info, List *keys, bool computed);

/* Its costs; those of all nodes together for a statement without bringing the result here. */
extern void rf_estimate_move(RfRelInfo *move);
extern Cost rf_nodes_cost(const RfRelInfo *info);

/*
 * Hashes of the values of this key that are so frequent that the node they belong to would have much
 * more to do than others, as text; NULL: there are none.
 */
extern char *rf_heavy_keys(PlannerInfo *root, RfRelInfo *info, Expr *key);

/* Can they be moved at all? */
extern bool rf_can_move(PlannerInfo *root, RfRelInfo *info);

/*
 * Makes all statements for this join out of those of its sides; joined says how, apart from where.
 * known is what stood for joinrel before, found with other sides, or NULL.
 */
extern void rf_join_choices(PlannerInfo *root, RelOptInfo *joinrel, RfRelInfo *joined,
							RfRelInfo *known, List *fdw_restrictinfo);

/* Not where rows are locked, or may have to be looked at again here. */
extern bool rf_nodes_may_join(PlannerInfo *root);

/*
 * Where the rows of it lie, after some of it has been moved if need be; relid: the relation that it is
 * the statement of. Keys of set operations are numbers of columns until rf_name_select_keys(). NULL:
 * the nodes cannot run it each for itself.
 */
extern RfFragment *rf_place_select(RfSelect *select, Index relid);

/* The keys in terms of info->tlist, which is complete. One that nobody wants equals nothing. */
extern void rf_name_select_keys(RfRelInfo *info);

extern void rf_upper_choices(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
							 RelOptInfo *output_rel, void *extra);

/*
 * From upper.c, also for one node: the statement with the stage's clause over the one in
 * input_rel->fdw_private, which becomes output_rel's; NULL when the data node cannot do it.
 */
extern RfRelInfo *rf_build_upper(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
								 RelOptInfo *output_rel, void *extra, PathTarget **columns);
extern void rf_set_ordered(RelOptInfo *ordered_rel, RelOptInfo *input_rel);
extern PathTarget *rf_upper_target(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *rel);
extern bool rf_limit_is_shippable(PlannerInfo *root, RelOptInfo *rel, FinalPathExtraData *extra);

#endif
