/*
 * plan.h
 * 		Planning: the wrapper's callbacks, and the functions that the files of this folder share.
 *
 * Several data nodes can run one statement at once. Every node runs the same SQL text, except for
 * the names of partitions (nodes_partitions.c). A relation of a server with nodes has one or more
 * statements, RfRelInfo, that differ in the placement of their rows: its choices. A move of rows
 * between nodes is an RfRelInfo of its own, over the RfRelInfo of the moved rows; in the text it is
 * a call of rdma_internal.exchange() in FROM.
 */
#ifndef RF_PLAN_H
#define RF_PLAN_H

#include "postgres.h"

#include "foreign/fdwapi.h"
#include "lib/stringinfo.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "fdw/deparse/statement.h"

/*
 * The memory that lives as long as the relation. All data that a base relation keeps has to be
 * allocated there, as joins are planned in memory that may go before it does: GEQO clears all of an
 * attempt's, with the joins that it has built, and nothing that stays may point to those.
 */
static inline MemoryContext
rf_memory_of(RelOptInfo *rel)
{
	return GetMemoryChunkContext(rel);
}

/* Reads table, server and options and sorts the conditions */
extern RfRelInfo *rf_relinfo_build(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);

/* Returns true if the query locks or writes a local table, so that rows may be rechecked. */
extern bool rf_rows_may_be_rechecked(PlannerInfo *root);

/*
 * Returns true if whole rows of this relation are used. UPDATE and DELETE request whole rows of all
 * relations but the target, for rechecks.
 */
extern bool rf_row_is_wanted(PlannerInfo *root, Index relid);

/*
 * Rows that are locked when they are returned (late_locks.c): finds the tables concerned, in all
 * parts of a query that is not planned yet. rf_identify_rows: LockRows gets (ctid, RF_ROW_TABLE,
 * RF_ROW_PART) of the relation's rows, if it is such a table. An ERROR if the query itself reads
 * what these columns stand for, there and in tables that are written. Call it before the relation's
 * columns are looked at.
 */
extern void rf_mark_late_locks(Query *query);
extern bool rf_is_locked_late(PlannerInfo *root, RelOptInfo *rel);
extern void rf_identify_rows(PlannerInfo *root, RelOptInfo *rel);

/*
 * UPDATE or DELETE writes the relation: they look for rows by ctid, so these must stay where they
 * are.
 */
extern bool rf_is_written(PlannerInfo *root, Index relid);

/*
 * The cost for other transactions that a scan of the target of UPDATE or DELETE locks its rows; 0
 * for other relations.
 */
extern Cost rf_lock_cost(PlannerInfo *root, RelOptInfo *rel);

extern RowMarkType rdmaGetForeignRowMarkType(RangeTblEntry *rte, LockClauseStrength strength);

/* For EXPLAIN: "schema.table alias" */
extern char *rf_local_name(RangeTblEntry *rte);

/*
 * ForeignPath.fdw_private has two members: the statement, and an Integer, flags of the path's
 * remote query beyond it. NIL: the only statement of the relation, unchanged. Its order is in
 * path.pathkeys. Paths are never copied.
 */
#define RF_PATH_LIMIT	1		/* the query's LIMIT and OFFSET */

/*
 * A third one, of a scan below a lookup by keys: its condition on the keys, of which the node's
 * statement has the last parameter.
 */

static inline List *
rf_path_private(RfRelInfo *info, int what)
{
	return list_make2(info, makeInteger(what));
}

/*
 * One relation of a server with nodes may have several statements; code that works on one, or makes
 * its plan, first stores it in RelOptInfo.fdw_private, where all functions read it.
 */
static inline RfRelInfo *
rf_path_info(ForeignPath *path)
{
	return (RfRelInfo *) (path->fdw_private == NIL ? path->path.parent->fdw_private :
						  linitial(path->fdw_private));
}

/*
 * A table's own statement, also where it is a table of another server to the query; NULL if it has
 * no statement.
 */
static inline RfRelInfo *
rf_own_statement(RelOptInfo *rel)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;

	return info != NULL && info->alone != NULL ? info->alone : info;
}

static inline Expr *
rf_path_keys(ForeignPath *path)
{
	return list_length(path->fdw_private) < 3 ? NULL : (Expr *) lthird(path->fdw_private);
}

static inline bool
rf_path_has_limit(ForeignPath *path)
{
	return path->fdw_private != NIL && (intVal(lsecond(path->fdw_private)) & RF_PATH_LIMIT) != 0;
}

extern bool rf_merge_keys(PlannerInfo *root, RelOptInfo *rel, List *columns, List *pathkeys,
						  List **keys);

/*
 * Adds paths of a base or join relation that are sorted on the data node, where that may help.
 * local_join: for joins whose rows may be rechecked, see join.c; else NULL.
 */
extern void rf_add_sorted_paths(PlannerInfo *root, RelOptInfo *rel, Path *local_join,
								List *fdw_restrictinfo);

/*
 * Sets costs that no option gives: the defaults, or costs by the network's round trip and
 * bandwidth.
 */
extern void rf_transfer_costs(ForeignServer *server, RfTableOptions *opts);

/*
 * Rows, width and costs of scanning rel, with these pushed join conditions (base relations only),
 * in this order and with the query's LIMIT (NULL: without).
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
 * 		target = rf_partial_grouping_target(root, grouped_rel->reltarget, extra->havingQual);
 * 		partial = rf_partial_grouped_rel(root, input_rel, target, extra);
 * 		if (partial != NULL)
 * 			rf_add_finalize_paths(root, grouped_rel, partial->cheapest_total_path, extra);
 *
 * Between the last two there may be nodes that keep the target's columns and return a group more
 * than once: Append, or a scan of several nodes. rf_build_query() of the partial relation is the
 * statement for one node; its columns are the partial relation's RfRelInfo.tlist. Scans without
 * ForeignScan must have states checked: rf_state_deserialfn() of each column, and
 * rf_decoder_expect_state().
 */

/* The columns: grouping columns, and aggregates (also in HAVING) as partial aggregates. */
extern PathTarget *rf_partial_grouping_target(PlannerInfo *root, PathTarget *grouping_target,
											  Node *having);

/*
 * A relation with the target's columns, with one path, a ForeignPath; NULL when input_rel is not
 * ours or its data node cannot compute them. extra belongs to the stage.
 */
extern RelOptInfo *rf_partial_grouped_rel(PlannerInfo *root, RelOptInfo *input_rel,
										  PathTarget *target, void *extra);

/* Adds Finalize Aggregate over the path, by hashing and by sorting, with HAVING. */
extern void rf_add_finalize_paths(PlannerInfo *root, RelOptInfo *grouped_rel, Path *partial,
								  GroupPathExtraData *extra);

/*
 * GROUP BY and aggregates over a relation that consists of foreign tables on several servers: each
 * server returns its states, which are combined here.
 */
extern void rf_group_over_append(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel,
								 GroupPathExtraData *extra);

/*
 * Plans a statement in its cheapest form, each form by plan_one: correlated sub-selects as joins,
 * grouping sets in two steps.
 */
extern PlannedStmt *rf_plan_forms(Query *query, const char *text, int options, ParamListInfo params,
								  planner_hook_type plan_one RF_EXPLAIN_PARAM);

/*
 * Lets foreign scans that would run for each row of another plan run for many at once
 * (lookahead_plan.c). command: of the statement, before it was planned; before: rf_batch_statements
 * at that time, the number of scans planned so far that could.
 */
extern void rf_look_ahead(PlannedStmt *result, CmdType command, int cursor_options, uint64 before);
extern uint64 rf_batch_statements;

/*
 * One participant's share of a scan that `divisor` of them do together; from RfRelInfo, which
 * rf_estimate_rel filled.
 */
extern void rf_estimate_partial(RfRelInfo *info, double divisor, RfEstimate *est);

/* Adds paths of a subquery or parent whose rows come from one statement. */
extern void rf_select_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/* For set operations whose branches are planned: adds the path that runs them on the data node. */
extern void rf_set_operation_paths(PlannerInfo *root, RelOptInfo *rel);

/*
 * The relation that a ForeignPath scans: the relation itself, unless it is a base relation that a
 * SELECT replaces.
 */
extern RelOptInfo *rf_scanned_rel(RelOptInfo *rel);

/* A path of a base relation that a SELECT replaces. */
extern Path *rf_create_select_path(PlannerInfo *root, RelOptInfo *rel, RfEstimate *est,
								   List *pathkeys);

/*
 * The SELECT of these columns from a statement; rel is the relation of the statement. NULL: the
 * data node cannot compute them.
 */
extern RfSelect *rf_make_select(PlannerInfo *root, RelOptInfo *rel, List *tlist, List *pathkeys,
								bool limit);

/* NULL if one of them is NULL, or if they cannot be in one statement. */
extern RfSelect *rf_combine_selects(SetOperation op, bool all, RfSelect *left, RfSelect *right);

/* The columns that the query uses of it, plus these; false if it uses anything else. */
extern bool rf_wanted_columns(PlannerInfo *root, RelOptInfo *rel, List *more, List **columns);

/*
 * makes a common statement for each partitioned table of this query level that has partitions on
 * several servers.
 */
extern void rf_place_partitioned_tables(PlannerInfo *root);

/*
 * Treats tables of servers whose nodes, or which themselves, are among the nodes of another server
 * that the query reads, as tables of that server (nodes_common.c); when all base relations have
 * their paths.
 */
extern void rf_place_tables_of_nodes(PlannerInfo *root);

/*
 * Before a table is assigned to another server: existing paths keep their statement.
 */
extern void rf_keep_statement(List *paths, RfRelInfo *info);

/*
 * Relations whose rows are here, as tables of the server that most of the query's come from
 * (local_rows.c); when all base relations have their paths.
 */
extern void rf_place_local_rows(PlannerInfo *root);

/*
 * add_path() of a path that runs a statement, maybe with sorting, grouping or a limit above it. A
 * path that gets local rows becomes the custom path which reads them (local_rows_paths.c).
 */
extern void rf_add_path(PlannerInfo *root, RelOptInfo *rel, Path *path);

/* The cheapest way to read a relation by itself; NULL if there is no path. */
extern Path *rf_cheapest_path(RelOptInfo *rel);

/* The place of a server, which has to be one of the nodes, among them. */
static inline int
rf_place_of(List *nodes, Oid serverid)
{
	int			place = 0;

	while (list_nth_oid(nodes, place) != serverid)
		place++;
	return place;
}

/* Returns true if all of these servers are among `others`. */
static inline bool
rf_are_among(List *nodes, List *others)
{
	return list_difference_oid(nodes, others) == NIL;
}

/* The plan reads these subqueries through the statement: it has no plan for them. */
extern void rf_subqueries_are_remote(RfRelInfo *info);

/*
 * Returns true if a constant is among the grouping columns. Where they must be named by expression
 * a constant cannot be.
 */
extern bool rf_groups_by_constant(PlannerInfo *root);

/* merges the options of two into one statement */
extern void rf_merge_options(RfRelInfo *info, RfRelInfo *outer, RfRelInfo *inner);

extern void rdmaGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
									RelOptInfo *innerrel, JoinType jointype,
									JoinPathExtraData *extra);
extern void rdmaGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
									 RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);

/* Adds paths of a join that send keys of one side to the data node of the other, a table. */
extern void rf_lookup_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
							RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra);

/*
 * Returns true if the statement said ONLY of this foreign table, whose server has nodes.
 * row_names.c has noted it.
 */
static inline bool
rf_says_only(const RangeTblEntry *rte)
{
	return !rte->inFromCl;
}

/* Why a relation, by any of its statements, does not join another: see joined_here.c. */
struct RfJoinNotes
{
	List	   *notes;			/* one for each table */
};

static inline struct RfJoinNotes *
rf_make_join_notes(void)
{
	return palloc0(sizeof(struct RfJoinNotes));
}

/*
 * For EXPLAIN (VERBOSE): why a data node does not join these two, or the first with the second;
 * reason NULL: it can. rf_joined_here() gives the lines, Strings.
 */
extern void rf_note_join(RelOptInfo *outerrel, RelOptInfo *innerrel, const char *reason);
extern void rf_note_join_of(RelOptInfo *rel, RelOptInfo *other, const char *reason);
extern List *rf_joined_here(PlannerInfo *root, RfRelInfo *info);

/*
 * Why a statement cannot be joined with a relation that is not on its server; NULL: nobody expects
 * that it can.
 */
extern const char *rf_why_apart(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *other);

/*
 * Notes joins with relations that are no statement of the same server, for which core does not ask
 * a wrapper.
 */
extern void rf_note_unasked_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
								 RelOptInfo *innerrel);

extern bool rdmaIsForeignScanParallelSafe(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/*
 * Adds a path that shares its rows among parallel workers, where that may be profitable. relids:
 * the base relations that the statement reads.
 */
extern void rf_add_partial_path(PlannerInfo *root, RelOptInfo *rel, Relids relids,
								PathTarget *target, List *fdw_restrictinfo);

extern void rdmaGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void rdmaGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern ForeignScan *rdmaGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid foreigntableid,
									   ForeignPath *best_path, List *tlist, List *scan_clauses,
									   Plan *outer_plan);

/* Returns true if the relation belongs to this wrapper. */
extern bool rf_is_our_rel(RelOptInfo *rel);
extern bool rf_is_our_scan(ForeignScan *plan);

/* statements that write */
extern void rdmaAddForeignUpdateTargets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte,
										Relation target_relation);
extern List *rdmaPlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation,
								   int subplan_index);
extern int	rdmaIsForeignRelUpdatable(Relation rel);

/* insert_direct_plan.c: the same for INSERT ... SELECT, whose only target that is */
extern bool rf_plan_direct_insert(PlannerInfo *root, ModifyTable *plan, Index target);

/* The strategies of a fragment as one text. */
extern char *rf_join_strategies(List *names);
extern bool rdmaPlanDirectModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation,
								 int subplan_index);

struct RfConflict;

/* The parts of a statement that writes single rows. */
typedef struct RfRowWrite
{
	Relation	rel;
	const RfTableOptions *opts;
	Index		rti;			/* range table index of the relation in the following two */
	List	   *check_options;
	List	   *returning;
	List	   *target_attrs;	/* written columns; not for DELETE */
	List	   *key;			/* columns that name a row beside its place; not for INSERT */
	bool		copy;			/* the statement is for a copy of a replicated table's row on
								 * another node than the first, where its ctid is another one */
} RfRowWrite;

/* relinfo.c: where the rows of a foreign table lie; NULL: its server has no nodes. */
extern const RfDistribution *rf_distribution_of(Relation rel);

/*
 * Returns true if the table is a partition, and one of these columns is in its bounds. Core does
 * not move rows out of foreign partitions, so an UPDATE may leave a row in a partition where no
 * query finds it.
 */
extern bool rf_writes_partition_key(Relation rel, List *target_attrs);

/*
 * conflict.c: takes ON CONFLICT out of a query and its WITH queries where their target is a foreign
 * table. rf_conflict: fills in *result from the clause that was taken out, or from the action that
 * core plans, for a remote INSERT with so many parameters for a row's values. ERROR if the nodes
 * cannot do what the clause says. In its text the target's name is t.
 */
extern void rf_take_conflicts(Query *query);
extern void rf_conflict(PlannerInfo *root, Relation rel, Index target, OnConflictAction core,
						int row_params, struct RfConflict *result);

/* The remote INSERT; *retrieved_attrs: the columns of its RETURNING, in order. */
extern char *rf_insert_sql(const RfRowWrite *write, const struct RfConflict *conflict,
						   List **retrieved_attrs);
extern void rf_append_returning(StringInfo buf, Relation rel, Index rti, bool whole_row,
								List *check_options, List *returning, List **retrieved_attrs);

/* Name of the junk column that holds the remote table of a row to be written. */
#define RF_TABLE_JUNK_NAME	"rdma_table"

/*
 * Name of the junk column that holds a key column of a row to be written. One statement may write
 * tables with keys of different types; and the key of a replicated table may be another one a
 * moment later, when ANALYZE has ended.
 */
extern void rf_key_junk_name(Oid relid, AttrNumber attno, char *name);

/*
 * Returns true if the UPDATE of the relation assigns a column of the key by which its rows are
 * distributed. distribution: NULL where the server has no nodes.
 */
extern bool rf_assigns_key(PlannerInfo *root, Index rti, const RfDistribution *distribution);

/* For a foreign table whose info has nodes; sets info->fragment. */
extern void rf_place_table(PlannerInfo *root, RfRelInfo *info);

/* Expressions known to equal a key because of these conditions (RestrictInfos). */
extern List *rf_key_members(Expr *key, List *rinfos);

/* Returns true if rows may go to the server's compute nodes. */
static inline bool
rf_may_compute(const RfRelInfo *info)
{
	return info->compute != NIL && !rf_is_disabled(RF_COMPUTE_NODES);
}

/*
 * Returns true if the hash of a key names the same node with the buckets of either's server. Both
 * servers have nodes.
 */
extern bool rf_have_same_buckets(const RfRelInfo *a, const RfRelInfo *b);

/* Returns true if both layouts have rows with equal keys in the same place. */
extern bool rf_same_layout(const RfLayout *a, const RfLayout *b);

/* The place of the only node that has to run the statement, if known; else -1. */
extern int	rf_only_place(const RfFragment *fragment);

/*
 * Returns the places of the nodes that must run the statement, an IntList; NIL if all must or it is
 * unknown.
 */
extern List *rf_only_places(const RfFragment *fragment);

/* Returns true if one node has all rows, and runs the statement alone. */
extern bool rf_has_single_node(RfFragment *fragment);

/*
 * Adds a statement to the choices of its relation unless there is one at least as good; true if it
 * was added.
 */
extern bool rf_add_choice(RfChoices *choices, RfRelInfo *info);

/*
 * A statement whose rows lie as this fragment's is not added by rf_add_choice() if it costs as much
 * as this. Statements that cost more than `least` are not looked at.
 */
extern Cost rf_dearer_choice(RfChoices *choices, RfFragment *fragment, Cost least);

/* Infinity, if there are no choices yet. */
extern Cost rf_cheapest_choice(RfChoices *choices);

/*
 * Returns true if no node's server runs out of flows for the statement's exchanges. It is not asked
 * how many it has, but taken to have as many as this one. Where it has fewer, the statement fails
 * at once.
 */
extern bool rf_has_flows(const RfRelInfo *info);

/*
 * From unique_key.c: tells the core the sizes of joins by unique keys of several columns of this
 * table. After its equivalence classes and the size of the table are known, and before any join is
 * built.
 */
extern void rf_note_unique_keys(PlannerInfo *root, RfRelInfo *info);

/* A hashable equality between expressions of the two sides, both without casts. */
typedef struct RfEquality
{
	Expr	   *outer;
	Expr	   *inner;
	Expr	   *clause;			/* as it stands in the query */
} RfEquality;

/* nodes_placement.c: one side of each of these. */
extern List *rf_equal_exprs(List *equalities, bool outer);

/* Those among the RestrictInfos of a join, as a List of RfEquality. */
extern List *rf_hashable_equalities(List *rinfos, Relids outer, Relids inner);

/* The expression without casts, if all nodes hash rows by it alike; else NULL. */
extern Expr *rf_hashable_key(Expr *expr, RfRelInfo *info);

/* Returns true if equal values of both have the same hash, false if one of them has no hash. */
extern bool rf_same_hash(Expr *a, Expr *b);

/*
 * Returns true if the hash of equal values is the same: one list contains a member of the other, or
 * its partner.
 */
extern bool rf_keys_agree(List *outer_key, List *inner_key, List *equalities);

/*
 * Returns true if all keys are among these expressions. Then rows that are equal in those are on
 * one node.
 */
extern bool rf_placed_by(RfRelInfo *info, List *exprs);

/*
 * If no rows move and all keys have fixed values, these, in order: the statement needs to run only
 * on the node given by their hash; else NIL.
 */
extern List *rf_single_node_values(RfFragment *fragment);

/*
 * Adds these values to expressions that the executor evaluates. Returns their types, then their
 * collations: the hash of a value depends on its type only within families that rows are not placed
 * across (scan_plan.c).
 */
extern List *rf_prune_nodes(RfRelInfo *info, List **exprs);

/*
 * The rows of this, sent to all nodes (keys NIL) or by the hash of the keys: among the nodes that
 * have them, or, computed, among the compute nodes. Replicated rows, which can only be sent by keys
 * or to other nodes, are sent by one node.
 */
extern RfRelInfo *rf_move(PlannerInfo *root, RfRelInfo *info, List *keys, bool computed);

/*
 * The same where only different rows count: if it costs less each node sends rows that are equal
 * once.
 */
extern RfRelInfo *rf_move_different(PlannerInfo *root, RfRelInfo *info, List *keys, bool computed);

/* The statement of its rows without duplicates on a node, compared by these columns. */
extern RfRelInfo *rf_different_rows(PlannerInfo *root, RfRelInfo *info, List *columns);

/*
 * Returns true if nothing can tell two equal values of the type apart, as btree calls them equal.
 */
extern bool rf_equal_is_same(Oid type, Oid collation);

/*
 * The costs of the move; the costs of a statement on all nodes together, without its result's
 * transfer here.
 */
extern void rf_estimate_move(RfRelInfo *move);

/*
 * nodes_filter.c: the part of a side's rows that have partners in the other one, by these
 * equalities alone
 */
extern double rf_survivors(PlannerInfo *root, RelOptInfo *side, RelOptInfo *other,
						   List *equalities);

/*
 * Returns true if the moved rows can be filtered by `other`, which move, too, and that would pay if
 * no row had partners there. Filters go the way of rows, so each node must have some.
 */
extern bool rf_can_filter(const RfRelInfo *move, const RfRelInfo *other);

/* estimate.c: the second half of that */
extern bool rf_filter_may_pay(const RfRelInfo *move, const RfRelInfo *filter);

/*
 * The moved rows, which can be filtered, as they cost when only those move that have partners, this
 * part of them.
 * NULL: it does not pay.
 */
extern RfRelInfo *rf_filtered_move(RfRelInfo *move, RfRelInfo *other, double survivors);

/*
 * Lets the rows filter other rows: these move for that, but not where they are in place.
 */
extern void rf_note_rows(RfRelInfo *move);

/*
 * The inner side, which is where the outer one is, of a join that needs no rows without partners,
 * as it costs when it is a sub-select whose rows move before it groups them, and only those do that
 * have partners in the moved rows that the outer side comes from. If there is no such statement
 * *outer becomes it. NULL: it is not, or it does not pay.
 */
extern RfRelInfo *rf_filtered_select(PlannerInfo *root, RfRelInfo **outer, RfRelInfo *inner,
									 List *equalities);

/*
 * Rows of an exchange that come to one node and can be told apart by a filter; see node_filter.c.
 */
#define RF_FILTER_ROWS(nodes)	(8e6 / Max(nodes, 8))
extern Cost rf_nodes_cost(const RfRelInfo *info);

/* Less than that no join of these two costs, which is known without estimating it. */
extern Cost rf_least_join_cost(RfRelInfo *outer, RfRelInfo *inner);

/*
 * A closer limit, without making what it is of: of the rows of one side of a join, read where they
 * are, or moved to all nodes or by keys, and of the join itself. filters: where one of the sides
 * may be filtered by the other one; different: where it may be that only different rows move.
 */
typedef struct RfLeast
{
	Cost		total;
	Cost		probed;			/* instead, where rows may be looked up in it; infinity: they
								 * cannot */
	double		rows;			/* on one node */
} RfLeast;

typedef struct RfLeastJoin
{
	bool		hashable;
	Cost		pair;			/* of each pair of rows, if it is not */
	Cost		fixed;
} RfLeastJoin;

extern void rf_least_read(RfRelInfo *info, RfLeast *least);
extern void rf_least_move(const RfRelInfo *info, bool replicate, bool filters, bool different,
						  RfLeast *least);
extern void rf_least_of_join(PlannerInfo *root, const RfRelInfo *joined, RfLeastJoin *least);
extern Cost rf_least_cost(const RfLeastJoin *join, const RfLeast *outer, const RfLeast *inner);
extern bool rf_may_be_filtered(const RfRelInfo *info);

/*
 * Hashes of the most frequent values of this key, the values that would give their node much more
 * work than the average, as text; NULL if there are no such values.
 */
extern char *rf_heavy_keys(PlannerInfo *root, RfRelInfo *info, Expr *key);

/* Returns true if its rows can be moved at all. */
extern bool rf_can_move(PlannerInfo *root, RfRelInfo *info);

/*
 * Makes all statements for this join from the statements of its sides; joined has all but the
 * placement. known is the earlier statement of joinrel, made with other sides, or NULL.
 */
extern void rf_join_choices(PlannerInfo *root, RelOptInfo *joinrel, RfRelInfo *joined,
							RfRelInfo *known, List *fdw_restrictinfo);

/*
 * join_memory.c: keys, and a side of a join with all that it was made of for this pair of sides,
 * copied as far as they are in the pair's memory. known: Lists of what was copied, and its copy.
 */
extern List *rf_keep_keys(List *keys, MemoryContext pair);
extern RfRelInfo *rf_keep_side(RfRelInfo *side, MemoryContext pair, List **known);

/* Not if rows are locked, or may have to be rechecked here. */
extern bool rf_nodes_may_join(PlannerInfo *root);

/*
 * The placement of its rows, after moves of its inputs if needed; relid: the relation of this
 * statement. Keys of set operations are numbers of columns until rf_name_select_keys(). NULL: the
 * nodes cannot run it independently.
 */
extern RfFragment *rf_place_select(RfSelect *select, Index relid);

/* The keys in terms of info->tlist, which is complete. An unused key equals nothing. */
extern void rf_name_select_keys(RfRelInfo *info);

extern void rf_upper_choices(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
							 RelOptInfo *output_rel, void *extra);

/*
 * From upper.c, also for one node: the statement with the stage's clause over the one in
 * input_rel->fdw_private; it becomes output_rel's. NULL: the data node cannot run it.
 */
extern RfRelInfo *rf_build_upper(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
								 RelOptInfo *output_rel, void *extra, PathTarget **columns);
extern void rf_set_ordered(RelOptInfo *ordered_rel, RelOptInfo *input_rel);

/* The stage's columns; *est gets the costs of sub-plans among it, which run here for each row. */
extern PathTarget *rf_upper_target(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *rel,
								   RfEstimate *est);
extern bool rf_limit_is_shippable(PlannerInfo *root, RelOptInfo *rel, FinalPathExtraData *extra);

#endif
