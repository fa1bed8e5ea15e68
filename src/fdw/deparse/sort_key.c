/*
 * sort_key.c
 * 		The sort key of a data node that gives the order of a pathkey.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

#include "rdma_fdw/compat.h"

#include "deparse.h"

/* Returns true if all its parts are among these columns. */
static bool
are_columns(Expr *expr, List *tlist)
{
	ListCell   *lc;

	/* the class may have aggregates and windows of the query above as members */
	foreach(lc, pull_var_clause((Node *) expr, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		if (!tlist_member(lfirst(lc), tlist))
			return false;
	}
	return true;
}

/*
 * A SELECT that stands for a relation has the columns that are used above it. A class may have
 * other members that only a condition inside the SELECT compares.
 */
static bool
selects_have_columns(RfRelInfo *info, List *vars)
{
	ListCell   *lc;

	if (info->join.outer != NULL)
		return selects_have_columns(info->join.outer, vars) &&
			selects_have_columns(info->join.inner, vars);
	foreach(lc, info->select != NULL ? vars : NIL)
	{
		Var		   *var = lfirst_node(Var, lc);

		if (var->varno == info->rel->relid &&
			!bms_is_member(var->varattno - FirstLowInvalidHeapAttributeNumber, info->attrs_used))
			return false;
	}
	return true;
}

/* Returns true if the statement of a relation can sort by this at its level. */
static bool
has_columns(RfRelInfo *info, Expr *expr, bool reads_items)
{
	if (reads_items)
		return are_columns(expr, info->tlist);
	return selects_have_columns(info, pull_var_clause((Node *) expr, PVC_RECURSE_AGGREGATES |
													  PVC_RECURSE_WINDOWFUNCS |
													  PVC_RECURSE_PLACEHOLDERS));
}

/*
 * Returns true if the data node's order by this equals ours by a member of a class with this
 * collation.
 */
static bool
sorts_alike(PlannerInfo *root, RelOptInfo *rel, Expr *expr, Oid collation, Oid sortop)
{
	return exprCollation((Node *) expr) == collation &&
		rf_is_shippable_sort(root, rel, expr, sortop);
}

/*
 * A member without the relabellings that do not change the order: varchar sorts like text, but an
 * int4 sorts differently as oid, and so may a text with another collation.
 */
static Expr *
bare_member(PlannerInfo *root, RelOptInfo *rel, Expr *expr, Oid collation, Oid sortop)
{
	while (IsA(expr, RelabelType) &&
		   sorts_alike(root, rel, ((RelabelType *) expr)->arg, collation, sortop))
		expr = ((RelabelType *) expr)->arg;
	return expr;
}

/*
 * The expression for a member in the SELECT of an upper relation: its column, possibly with
 * relabellings, or the member itself if the column sorts differently; the latter is impossible with
 * DISTINCT and set operations, whose keys are columns. Returns NULL if there is no such expression.
 */
static Expr *
selected_member(PlannerInfo *root, RelOptInfo *rel, Expr *member, Oid collation, Oid sortop)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	ListCell   *lc;

	foreach(lc, info->tlist)
	{
		Expr	   *column = lfirst_node(TargetEntry, lc)->expr;
		Expr	   *expr = member;

		while (!equal(column, expr) && IsA(expr, RelabelType))
			expr = ((RelabelType *) expr)->arg;
		if (!equal(column, expr))
			continue;
		if (sorts_alike(root, rel, column, collation, sortop))
			return column;
		if (!info->upper.distinct && !rf_is_set_operation(info))
			return member;
	}
	return NULL;
}

bool
rf_sort_key(PlannerInfo *root, RelOptInfo *rel, PathKey *pathkey, RfSortKey *key)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	EquivalenceClass *ec = pathkey->pk_eclass;
	bool		upper = info->upper.scanrel != NULL || rf_is_set_operation(info);
	RelOptInfo *scanrel = info->upper.scanrel ? info->upper.scanrel : rel;
	bool		reads_items = rf_reads_items(root, info);
	ListCell   *lc;

	if (ec->ec_has_volatile)
		return false;

	foreach(lc, rf_ec_members(ec, scanrel->relids))
	{
		EquivalenceMember *em = (EquivalenceMember *) lfirst(lc);

		key->sortop = rf_pathkey_operator(pathkey, em->em_datatype);
		if (upper)
		{
			if (em->em_is_const || em->em_is_child)
				continue;
			key->expr = selected_member(root, rel, em->em_expr, ec->ec_collation, key->sortop);
		}
		else
		{
			if (bms_is_empty(em->em_relids) || !bms_is_subset(em->em_relids, rel->relids) ||
				bms_overlap(em->em_relids, info->join.hidden_relids) ||
				!has_columns(info, em->em_expr, reads_items))
				continue;

			/*
			 * A branch of UNION ALL may have a constant as a column. Its rows are then in that
			 * order anyway; printed, an integer would be the number of a column. The relation that
			 * scans a SELECT is not the relation that the SELECT replaces.
			 */
			if (em->em_is_child && IS_SIMPLE_REL(info->rel) &&
				bms_is_empty(pull_varnos(root, (Node *) em->em_expr)))
			{
				key->expr = NULL;
				return true;
			}
			key->expr = bare_member(root, rel, em->em_expr, ec->ec_collation, key->sortop);
		}
		if (key->expr != NULL && rf_is_shippable_sort(root, rel, key->expr, key->sortop))
			return true;
	}
	return false;
}

bool
rf_pathkeys_shippable(PlannerInfo *root, RelOptInfo *rel, List *pathkeys)
{
	ListCell   *lc;
	RfSortKey	key;

	foreach(lc, pathkeys)
	{
		if (!rf_sort_key(root, rel, lfirst_node(PathKey, lc), &key))
			return false;
	}
	return true;
}
