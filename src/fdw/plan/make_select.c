/*
 * make_select.c
 *		SELECTs within a statement: of one relation's statement, and set operations of them.
 */
#include "postgres.h"

#include "optimizer/optimizer.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"


RfSelect *
rf_make_select(PlannerInfo *root, RelOptInfo *rel, List *tlist, List *pathkeys, bool limit)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfSelect   *select = palloc0(sizeof(RfSelect));
	ListCell   *lc;

	if (info->local_conds != NIL || info->upper.partial || info->local_rels != NIL)
		return NULL;
	foreach(lc, tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		/* set operations give their columns as they are */
		if (rf_is_set_operation(info) && !(IsA(tle->expr, Var) && ((Var *) tle->expr)->varno == 0))
			return NULL;
		if (!rf_is_shippable_expr(root, rel, tle->expr))
			return NULL;
		if (rf_is_known_collation(root, rel, tle->expr))
			select->collated = bms_add_member(select->collated, tle->resno);
	}
	select->root = root;
	select->info = info;
	select->tlist = tlist;
	select->pathkeys = pathkeys;
	select->limit = limit;
	select->source = rel;
	select->startup_cost = info->rel_startup_cost;
	select->total_cost = info->rel_total_cost;
	return select;
}

static RfRelInfo *
first_info(RfSelect *select)
{
	while (select->left != NULL)
		select = select->left;
	return select->info;
}

/*
 * Returns true if both servers are equally good: with the same nodes, which the keys' hash names
 * alike.
 */
static bool
are_servers_alike(RfSelect *a, RfSelect *b)
{
	RfRelInfo  *one = first_info(a);
	RfRelInfo  *other = first_info(b);

	if (!equal(one->nodes, other->nodes))
		return false;
	if (a->source->serverid == b->source->serverid)
		return true;
	/* a partitioned table's nodes are not those of a server */
	return !rf_is_disabled(RF_PARTITIONS) && one->nodes != NIL && one->compute == NIL &&
		other->compute == NIL &&
		!list_member_oid(one->nodes, a->source->serverid) &&
		!list_member_oid(other->nodes, b->source->serverid) &&
		rf_have_same_buckets(one, other);
}

/* Returns true if both use the same servers as the same user. */
static bool
have_one_source(RfSelect *a, RfSelect *b)
{
	return a->source->userid == b->source->userid &&
		a->source->useridiscurrent == b->source->useridiscurrent && are_servers_alike(a, b);
}

RfSelect *
rf_combine_selects(SetOperation op, bool all, RfSelect *left, RfSelect *right)
{
	RfSelect   *select;

	if (left == NULL || right == NULL || !have_one_source(left, right))
		return NULL;
	select = palloc0(sizeof(RfSelect));
	select->op = op;
	select->all = all;
	select->left = left;
	select->right = right;
	select->tlist = left->tlist;
	select->source = left->source;
	select->collated = bms_intersect(left->collated, right->collated);
	return select;
}

void
rf_subqueries_are_remote(RfRelInfo *info)
{
	RfSelect   *select = info->select;

	if (info->join.outer != NULL)
	{
		rf_subqueries_are_remote(info->join.outer);
		rf_subqueries_are_remote(info->join.inner);
	}
	if (info->upper.scan != NULL)
		rf_subqueries_are_remote(info->upper.scan);
	if (info->fragment != NULL && info->fragment->moved != NULL)
		rf_subqueries_are_remote(info->fragment->moved);
	for (; select != NULL; select = select->left)
	{
		RfSelect   *branch = select->left ? select->right : select;

		if (branch->left != NULL)
		{
			RfRelInfo	nested = {0};

			nested.select = branch;
			rf_subqueries_are_remote(&nested);
		}
		else if (branch->subquery == NULL)
			rf_subqueries_are_remote(branch->info);
		else
			branch->subquery->subroot = NULL;
	}
}

bool
rf_wanted_columns(PlannerInfo *root, RelOptInfo *rel, List *more, List **columns)
{
	List	   *exprs = list_concat_copy(rel->reltarget->exprs, more);
	ListCell   *lc;

	*columns = NIL;
	foreach(lc, pull_var_clause((Node *) exprs, PVC_RECURSE_PLACEHOLDERS))
	{
		Var		   *var = (Var *) lfirst(lc);

		if (IsA(var, Var) && var->varattno == 0 && !rf_row_is_wanted(root, rel->relid))
			continue;
		if (!IsA(var, Var) || var->varno != rel->relid || var->varattno <= 0)
			return false;
		*columns = list_append_unique(*columns, var);
	}
	return true;
}
