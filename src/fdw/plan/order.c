/*
 * order.c
 *		Sorting on the data node: which pathkeys it can serve, and paths that do.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_collation.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

/*
 * Returns true if our own sort would put the values into the same order. A merge join compares rows
 * sorted by the data node with rows sorted here, and a different order gives wrong rows; so does
 * merging rows that several nodes have sorted. Nodes may have other default collations.
 */
static bool
merges_safely(PathKey *pathkey)
{
	return pathkey->pk_eclass->ec_collation != DEFAULT_COLLATION_OID;
}

/*
 * Returns true if the nodes can join all tables of the class. Then no join here needs their rows
 * sorted, and each order that is offered is one more path in each of the joins above.
 */
static bool
nodes_join_all(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	int			relid = -1;

	if (info->nodes == NIL || rf_exchange_strategy == RF_STRATEGY_PULL || !rf_nodes_may_join(root))
		return false;
	while ((relid = bms_next_member(ec->ec_relids, relid)) >= 0)
	{
		RelOptInfo *table = root->simple_rel_array[relid];
		RfRelInfo  *other;

		/* an outer join's number */
		if (table == NULL)
			continue;
		other = table->serverid == rel->serverid && table->userid == rel->userid ?
			(RfRelInfo *) table->fdw_private : NULL;
		if (other == NULL || other->local || !equal(other->nodes, info->nodes) ||
			!bms_is_empty(table->lateral_relids) || !rf_can_move(root, other))
			return false;
	}
	return true;
}

/*
 * The orders that may be useful: the query's, and the orders of merge joins with other relations.
 */
static List *
useful_orders(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *orders = NIL;
	int			i = -1;

	if (root->query_pathkeys != NIL && rf_pathkeys_shippable(root, rel, root->query_pathkeys))
		orders = list_make1(root->query_pathkeys);

	if (!rel->has_eclass_joins)
		return orders;

	/* of joins with relations that this one is not joined with on the data node anyway */
	while ((i = bms_next_member(rel->eclass_indexes, i)) >= 0)
	{
		EquivalenceClass *ec = (EquivalenceClass *) list_nth(root->eq_classes, i);
		List	   *pathkeys;
		PathKey    *pathkey;

		if (!eclass_useful_for_merging(root, ec, rel) ||
			bms_is_subset(ec->ec_relids, rel->relids) || nodes_join_all(root, rel, ec))
			continue;
		pathkey = make_canonical_pathkey(root, ec, linitial_oid(ec->ec_opfamilies),
										 RF_SORT_ASCENDING, false);
		if (!merges_safely(pathkey))
			continue;
		pathkeys = list_make1(pathkey);
		if (root->query_pathkeys != NIL && linitial(root->query_pathkeys) == pathkey &&
			orders != NIL)
			continue;
		if (rf_pathkeys_shippable(root, rel, pathkeys))
			orders = lappend(orders, pathkeys);
	}
	return orders;
}

/*
 * The rows of several nodes, each sorted by these pathkeys, are merged by columns that they have:
 * fills *keys with RfMergeKeys. columns: the scan tuple's, NIL: the table's. False when a
 * pathkey is no such column.
 */
bool
rf_merge_keys(PlannerInfo *root, RelOptInfo *rel, List *columns, List *pathkeys, List **keys)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	ListCell   *lc;

	*keys = NIL;
	foreach(lc, pathkeys)
	{
		PathKey    *pathkey = lfirst_node(PathKey, lc);
		RfSortKey	key;
		RfMergeKey *merge;
		Expr	   *expr;
		int			attno = 0;
		ListCell   *column;

		if (!rf_sort_key(root, rel, pathkey, &key))
			return false;
		if (key.expr == NULL)
			continue;
		if (!merges_safely(pathkey))
			return false;
		expr = key.expr;
		while (IsA(expr, RelabelType))
			expr = ((RelabelType *) expr)->arg;
		foreach(column, columns)
		{
			if (equal(lfirst_node(TargetEntry, column)->expr, expr))
				attno = lfirst_node(TargetEntry, column)->resno;
		}
		if (columns == NIL && IsA(expr, Var) && ((Var *) expr)->varattno > 0 &&
			bms_is_member(((Var *) expr)->varattno - FirstLowInvalidHeapAttributeNumber,
						  info->attrs_used))
			attno = ((Var *) expr)->varattno;
		if (attno == 0)
			return false;
		merge = rf_make_plan_node(RfMergeKey);
		merge->attno = attno;
		merge->nulls_first = pathkey->pk_nulls_first;
		merge->operator = key.sortop;
		merge->collation = pathkey->pk_eclass->ec_collation;
		*keys = lappend(*keys, merge);
	}
	return true;
}

void
rf_add_sorted_paths(PlannerInfo *root, RelOptInfo *rel, Path *local_join, List *fdw_restrictinfo)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	ListCell   *lc;

	if (rf_push_down != RF_PUSH_DOWN_ALL)
		return;
	foreach(lc, useful_orders(root, rel))
	{
		List	   *pathkeys = (List *) lfirst(lc);
		RfEstimate	est;
		ForeignPath *path;
		List	   *keys;

		if (info->nodes != NIL && !rf_merge_keys(root, rel, info->tlist, pathkeys, &keys))
			continue;
		rf_estimate(root, rel, NIL, pathkeys, NULL, &est);
		if (IS_JOIN_REL(rel))
		{
			Path	   *local = local_join;

			/* it may come to stand below a merge join in turn */
			if (local != NULL && !pathkeys_contained_in(pathkeys, local->pathkeys))
				local = (Path *) create_sort_path(root, rel, local, pathkeys, -1);
			path = rf_create_foreign_join_path(root, rel, est.rows, est.startup_cost,
											   est.total_cost, pathkeys, local, fdw_restrictinfo,
											   rf_path_private(info, 0));
		}
		else if (info->select != NULL)
		{
			add_path(rel, rf_create_select_path(root, rel, &est, pathkeys));
			continue;
		}
		else
			path = rf_create_foreignscan_path(root, rel, NULL, est.rows, est.startup_cost,
											  est.total_cost + rf_lock_cost(root, rel), pathkeys,
											  rel->lateral_relids, NULL, NIL);
		rf_add_path(root, rel, (Path *) path);
	}
}
