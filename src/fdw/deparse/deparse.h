/*
 * deparse.h
 *		What may be in a remote statement, and its text, for the rest of src/fdw.
 */
#ifndef RF_DEPARSE_H
#define RF_DEPARSE_H

#include "postgres.h"

#include "statement.h"

/* Sorts RestrictInfos into those the data node can evaluate and the rest. */
extern void rf_classify_conditions(PlannerInfo *root, RelOptInfo *baserel, List *conditions,
								   List **remote_conds, List **local_conds);

/*
 * can the data node evaluate this expression and give the same answer?  Refuses every
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
 * sub-selects in expressions (scalar, EXISTS, IN, ANY, ALL, ARRAY), correlated or not,
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

/* the remote statement of one relation */
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
extern RfRemoteQuery *rf_build_query(PlannerInfo *root, RelOptInfo *rel, List *conditions, List *pathkeys,
									 bool limit, const char *locking, bool for_estimate);

/*
 * Prints a shippable expression over one foreign table for a statement that is put together
 * elsewhere; what is only known here becomes $n, and is added to *params and *param_types.
 */
extern char *rf_print_expr(Index relid, Oid foreigntableid, Expr *expr, List **params, List **param_types);

/* A statement that the data node runs in place of a ModifyTable and its scan. */
typedef struct RfDirectModify
{
	CmdType		operation;		/* CMD_UPDATE or CMD_DELETE */
	List	   *targets;		/* TargetEntries of new values, */
	List	   *target_attrs;	/* and the columns they are for */
	List	   *returning;		/* of the query's RETURNING, or NIL */
	char	   *sql;			/* these are made of them */
	List	   *params;
	List	   *param_types;
	List	   *retrieved;		/* attribute numbers of what it returns */
} RfDirectModify;

/*
 * UPDATE ... FROM or DELETE ... USING of one of a join's tables, giving back these columns of the
 * join (TargetEntries): sets sql, params and param_types.  False when that table is not inner-joined
 * with the rest.
 */
extern bool rf_build_join_modify(PlannerInfo *root, RelOptInfo *joinrel, Index target, List *returning,
								 RfDirectModify *statement);

/* Quoted and qualified remote name of a foreign table. */
extern char *rf_remote_relation_name(const RfTableOptions *opts);

/* What stands for a pathkey in a relation's statement. */
typedef struct RfSortKey
{
	Expr	   *expr;			/* of DISTINCT and set operations a column; NULL: all rows are equal */
	Oid			sortop;
} RfSortKey;

/*
 * fills *key with what the data node sorts by.  A pathkey names a class of equal
 * expressions: of a base or join relation any member made of its columns will do that is still to
 * be had above its joins, of an upper relation one that its SELECT computes.  False: the data node
 * cannot sort by any of them as we would.
 */
extern bool rf_sort_key(PlannerInfo *root, RelOptInfo *rel, PathKey *pathkey, RfSortKey *key);
extern bool rf_pathkeys_shippable(PlannerInfo *root, RelOptInfo *rel, List *pathkeys);

/*
 * Where a placeholder is computed, NULL if it needs columns of others (LATERAL); and are there FROM
 * items, of whose columns only those in info->tlist can be had?
 */
extern Relids rf_evaluated_at(PlannerInfo *root, PlaceHolderVar *placeholder);
extern bool rf_reads_items(PlannerInfo *root, RfRelInfo *info);

/*
 * Can the state of this partial aggregate (one of a partial target) be had from the relation's data
 * node, or from all of them?  Its arguments are rf_is_shippable_expr()'s business.  May ask them for
 * their version; info->states keeps the answer.
 */
extern bool rf_partial_agg_is_shippable(PlannerInfo *root, RfRelInfo *info, Aggref *agg);

/* The text to send for it: the plain aggregate, or rdma.partialize(aggregate, NULL::type). */
extern Expr *rf_partial_agg_expr(Aggref *agg);

/* For rf_decoder_expect_state(): InvalidOid if a column needs no check of that kind. */
extern Oid	rf_state_deserialfn(Expr *expr);

/* The columns of it that something above may want, as Exprs. */
extern List *rf_visible_columns(PlannerInfo *root, RfRelInfo *info);

#endif
