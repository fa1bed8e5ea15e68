/*
 * deparse.h
 * 		Decides which operations a remote statement may contain, and writes its text, for the rest
 * 		of src/fdw.
 */
#ifndef RF_DEPARSE_H
#define RF_DEPARSE_H

#include "postgres.h"

#include "planned_exchange.h"
#include "statement.h"

/* Sorts RestrictInfos into conditions that the data node can evaluate and the rest. */
extern void rf_classify_conditions(PlannerInfo *root, RelOptInfo *baserel, List *conditions,
								   List **remote_conds, List **local_conds);

/*
 * Returns true if the data node can evaluate this expression with the same result. False also for
 * each node that the deparser cannot print. Aggregates are allowed in grouped relations and above,
 * window functions in windowed ones.
 */
extern bool rf_is_shippable_expr(PlannerInfo *root, RelOptInfo *rel, Expr *expr);

/* The same for what there is no other way to do: rdma_fdw.push_down does not count. */
extern bool rf_nodes_can_evaluate(PlannerInfo *root, RelOptInfo *rel, Expr *expr);

/* Why it cannot evaluate one, for EXPLAIN: "function f(integer) is volatile" */
extern char *rf_why_not_shippable(PlannerInfo *root, RelOptInfo *rel, Expr *expr);

/*
 * For EXPLAIN (VERBOSE): the different reasons, Strings, why these conditions (bare) of a scan are
 * evaluated here. NIL where a setting is the only one.
 */
extern List *rf_filtered_here(PlannerInfo *root, RelOptInfo *rel, List *conditions);

/* Returns true if a column of the data node supplies the collation of this shippable expression. */
extern bool rf_is_known_collation(PlannerInfo *root, RelOptInfo *rel, Expr *expr);

/*
 * Return true if values of this type have the same meaning on every node. Has the data node this
 * function, or operator?
 */
extern bool rf_is_shippable_type(Oid type, RfRelInfo *info);
extern bool rf_is_shippable_function(Oid funcid, RfRelInfo *info);
extern bool rf_is_shippable_operator(Oid opno, RfRelInfo *info);

/*
 * Returns true if sorting by this expression with this operator gives the same order on the data
 * node.
 */
extern bool rf_is_shippable_sort(PlannerInfo *root, RelOptInfo *rel, Expr *expr, Oid sortop);

/*
 * Returns true for a value that is constant during the query and known to this node only: a stable
 * expression without columns, such as now() - '1 day'. It is computed here and sent as a parameter.
 */
extern bool rf_is_local_value(Node *node);

/*
 * Returns true for a relabelling or a constant with an explicit COLLATE "C" or "POSIX". Those two
 * collations are the same everywhere.
 */
extern bool rf_is_explicit_collation(Node *node);

/*
 * sub-selects in expressions (scalar, EXISTS, IN, ANY, ALL, ARRAY), correlated or not, that one
 * data node can evaluate as part of the statement around them. The planner has turned each into a
 * sub-plan before expressions are examined.
 */

/*
 * The relation whose statement does all the work of the sub-plan, and the query that it belongs to.
 * NULL: part of the work is done here.
 */
extern RfRelInfo *rf_subselect(PlannerInfo *root, SubPlan *subplan, PlannerInfo **subroot);

/* The columns of that statement, which may be computed from the relation's own. */
extern List *rf_subselect_columns(RfRelInfo *info);

/*
 * Returns true if the data node can evaluate it in a statement of this relation. Does not examine
 * its arguments and its left side.
 */
extern bool rf_subselect_is_shippable(PlannerInfo *root, RfRelInfo *info, SubPlan *subplan);

/*
 * The cost of conditions on the data node, and a cost corrected for cheaper sub-selects there: the
 * planner assumes that each sub-plan is a query of its own, sent once per row.
 */
extern void rf_remote_qual_cost(QualCost *cost, List *quals, PlannerInfo *root);
extern void rf_discount_subselects(QualCost *cost, Node *expr);

/* the remote statement of one relation */
typedef struct RfRemoteQuery
{
	char	   *sql;
	List	   *retrieved_attrs;	/* IntList, see RfScanPlan.attrs */
	List	   *params;			/* expressions behind $1, $2, ... */
	List	   *param_types;	/* OidList */
	List	   *exchanges;		/* RfPlannedExchanges */
	List	   *node_sql;		/* as RfNodesPlan.node_sql */
	char	   *send_sql;		/* as in RfComputePlan; or NULL */
	char	   *join_sql;
} RfRemoteQuery;

/*
 * conditions: a base relation's WHERE, bare expressions that passed rf_is_shippable_expr(); joins
 * and upper relations have theirs in RfRelInfo, and joins those on keys (lookup_paths.c) beside.
 * locking: text such as "FOR UPDATE", or NULL. for_estimate: parameters become unknown values
 * instead of $n, so that the text can stand after EXPLAIN. flow_rels: RelOptInfos, in order, whose
 * rows are this node's and come by flow.
 */
extern RfRemoteQuery *rf_build_query(PlannerInfo *root, RelOptInfo *rel, List *conditions,
									 List *pathkeys, bool limit, const char *locking,
									 bool for_estimate, List *flow_rels);

/*
 * The same statement for many values of its parameters: "SELECT q.c1, batch.place FROM unnest($1,
 * $2) AS batch(p1, place), LATERAL (...) AS q(c1)". $1 is the array of the values of the
 * statement's $1, $2, after all of them, an array of int8, and place is the member of it that is
 * beside the values that the row was found for. Returns NULL if there is no such statement. query:
 * the result of rf_build_query() for the other arguments; it moves no rows, and all nodes have the
 * same text. Other values may follow its parameters in the list.
 */
extern char *rf_batch_statement(PlannerInfo *root, RelOptInfo *rel, List *conditions,
								List *pathkeys, bool limit, const RfRemoteQuery *query);

/*
 * Prints a shippable expression over one foreign table for a statement that the caller assembles.
 * Values known only here become $n, with a cast to their type, and are added to *params and
 * *param_types. assigned: UPDATE assigns the expression to a column, see rf_print_assigned().
 */
extern char *rf_print_expr(Index relid, Oid foreigntableid, Expr *expr, bool assigned,
						   List **params, List **param_types);

/*
 * The same for an expression of ON CONFLICT: columns of relid are the stored row's, named t, those
 * of excluded the row's that the INSERT was to store, named excluded.
 */
extern char *rf_print_of_rows(Index relid, Index excluded, Oid foreigntableid, Expr *expr,
							  bool assigned, List **params, List **param_types);

/* The statement with literals in place of its parameters $first, ...; NULL: it is NULL. */
extern char *rf_with_literals(const char *sql, int first, int count, const char *const *values);

/* A statement that the data node runs in place of a ModifyTable and its scan. */
typedef struct RfDirectModify
{
	CmdType		operation;
	List	   *targets;		/* TargetEntries of new values, */
	List	   *target_attrs;	/* and the columns they are for */
	List	   *returning;		/* of the query's RETURNING, or NIL */
	char	   *sql;			/* made from these fields */
	List	   *params;
	List	   *param_types;
	List	   *retrieved;		/* attribute numbers of the columns it returns */
	List	   *exchanges;		/* of INSERT: RfPlannedExchanges */
} RfDirectModify;

/*
 * UPDATE ... FROM or DELETE ... USING of one of a join's tables, returning these columns of the
 * join (TargetEntries): sets sql, params and param_types. False when that table is not inner-joined
 * with the rest.
 */
extern bool rf_build_join_modify(PlannerInfo *root, RelOptInfo *joinrel, Index target,
								 List *returning, RfDirectModify *statement);

/*
 * INSERT of the rows of info's relation, its statement's targets, into a foreign table: sets sql,
 * params, param_types and exchanges. conflict: text of its ON CONFLICT, or NULL; named: there the
 * table is t.
 */
extern void rf_build_insert(PlannerInfo *root, RfRelInfo *info, Oid relid, const char *conflict,
							bool named, RfDirectModify *statement);

/* Quoted and qualified remote name of a foreign table. */
extern char *rf_remote_relation_name(const RfTableOptions *opts);

/* The form of a pathkey in a relation's statement. */
typedef struct RfSortKey
{
	Expr	   *expr;			/* DISTINCT, set operations: a column; NULL: all equal */
	Oid			sortop;
} RfSortKey;

/*
 * sets *key to the sort key of the data node. A pathkey names a class of equal expressions. For a
 * base or join relation any member computed from its columns is suitable if it is still visible
 * above its joins; for an upper relation, a member that its SELECT computes. False: the data node
 * cannot sort by any of them with our order.
 */
extern bool rf_sort_key(PlannerInfo *root, RelOptInfo *rel, PathKey *pathkey, RfSortKey *key);
extern bool rf_pathkeys_shippable(PlannerInfo *root, RelOptInfo *rel, List *pathkeys);

/*
 * The relations at whose level a placeholder is computed, NULL if it needs columns of relations
 * outside (LATERAL); and whether there are FROM items, which have no columns outside info->tlist.
 */
extern Relids rf_evaluated_at(PlannerInfo *root, PlaceHolderVar *placeholder);
extern bool rf_reads_items(PlannerInfo *root, RfRelInfo *info);

/*
 * Returns true if the relation's data node, or each of its nodes, can supply the state of this
 * partial aggregate (of a partial target). rf_is_shippable_expr() checks its arguments. May query
 * the nodes for their version; info->states caches the answer.
 */
extern bool rf_partial_agg_is_shippable(PlannerInfo *root, RfRelInfo *info, Aggref *agg);

/*
 * The text to send for it: the plain aggregate, or rdma_internal.partialize(aggregate, NULL::type).
 */
extern Expr *rf_partial_agg_expr(Aggref *agg);

/* For rf_decoder_expect_state(): InvalidOid if a column needs no such check. */
extern Oid	rf_state_deserialfn(Expr *expr);

/* Its columns that upper plan nodes may need, as Exprs. */
extern List *rf_visible_columns(PlannerInfo *root, RfRelInfo *info);

#endif
