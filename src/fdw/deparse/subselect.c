/*
 * subselect.c
 * 		Sub-selects in expressions that a data node evaluates as part of the statement around them.
 *
 * The planner plans each sub-select before the query around it. If that plan is only a scan of
 * ours, of the same server and user, it has a statement, which can be a sub-select in the outer
 * statement; querybuild.c prints it there, with columns of the outer query in place of parameters.
 * Otherwise the condition would stay here, and need one remote query per row.
 *
 * The sub-plan remains in the plan without references to it, and is never executed.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

#include "rdma_fdw/guc.h"

#include "deparse.h"

/*
 * A sub-select that the data node evaluates needs no round trip, and the data node may have an
 * index where we assume a scan of the whole table. The savings are unknown here; the cost only
 * needs to be lower by more than the planner's fuzz factor.
 */
#define SUBSELECT_COST_SHARE	0.5

/* The relation whose statement the plan runs; its fdw_private remembers. */
static RfRelInfo *
info_of_plan(PlannerInfo *root, ForeignScan *plan)
{
	RelOptInfo *rel;
	ListCell   *lc;

	if (plan->scan.scanrelid > 0)
	{
		rel = root->simple_rel_array[plan->scan.scanrelid];
		return rel != NULL && rel->fdw_private != NULL &&
			((RfRelInfo *) rel->fdw_private)->planned.plan == plan ? rel->fdw_private : NULL;
	}
	foreach(lc, root->join_rel_list)
	{
		rel = lfirst_node(RelOptInfo, lc);
		if (rel->serverid == plan->fs_server && rel->fdw_private != NULL &&
			((RfRelInfo *) rel->fdw_private)->planned.plan == plan)
			return rel->fdw_private;
	}
	for (int stage = 0; stage <= UPPERREL_FINAL; stage++)
	{
		foreach(lc, root->upper_rels[stage])
		{
			rel = lfirst_node(RelOptInfo, lc);
			if (rel->serverid == plan->fs_server && rel->fdw_private != NULL &&
				((RfRelInfo *) rel->fdw_private)->planned.plan == plan)
				return rel->fdw_private;
		}
	}
	return NULL;
}

RfRelInfo *
rf_subselect(PlannerInfo *root, SubPlan *subplan, PlannerInfo **subroot)
{
	Plan	   *plan = (Plan *) list_nth(root->glob->subplans, subplan->plan_id - 1);

	*subroot = list_nth_node(PlannerInfo, root->glob->subroots, subplan->plan_id - 1);
	/* it does nothing but store the scan's rows */
	if (IsA(plan, Material) && plan->initPlan == NIL)
		plan = outerPlan(plan);
	if (!IsA(plan, ForeignScan) || plan->initPlan != NIL || plan->qual != NIL)
		return NULL;
	return info_of_plan(*subroot, (ForeignScan *) plan);
}

List *
rf_subselect_columns(RfRelInfo *info)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, info->planned.plan->scan.plan.targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!tle->resjunk)
			columns = lappend(columns, tle->expr);
	}
	return columns;
}

/*
 * Columns that GROUP BY and DISTINCT name by number in a statement must be there, or need no
 * number.
 */
static bool
columns_can_differ(PlannerInfo *root, RfRelInfo *info, List *columns)
{
	ListCell   *lc;

	if (info->upper.distinct)
	{
		if (list_length(columns) != list_length(info->tlist))
			return false;
		foreach(lc, info->tlist)
		{
			if (!list_member(columns, lfirst_node(TargetEntry, lc)->expr))
				return false;
		}
	}
	/* a constant would be read as a number */
	foreach(lc, info->upper.grouped ? root->parse->groupClause : NIL)
	{
		Index		ref = lfirst_node(SortGroupClause, lc)->tleSortGroupRef;

		if (IsA(get_sortgroupref_tle(ref, root->processed_tlist)->expr, Const))
			return false;
	}
	return true;
}

static bool
reads_params(Node *node, void *ids)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC &&
		list_member_int((List *) ids, ((Param *) node)->paramid))
		return true;
	return expression_tree_walker(node, reads_params, ids);
}

typedef struct RowValues
{
	PlannerInfo *root;
	List	   *params;			/* IntList: parameters that stand for columns of the row */
} RowValues;

static bool values_need_row(RfRelInfo *sub, RowValues *cxt);

/* Returns true if a part of it is computed here, and from the row. */
static bool
computes_from_row(Node *node, RowValues *cxt)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
	{
		PlannerInfo *subroot;
		RfRelInfo  *sub = rf_subselect(cxt->root, (SubPlan *) node, &subroot);

		if (sub != NULL && values_need_row(sub, cxt))
			return true;
	}
	if (rf_is_local_value(node))
		return reads_params(node, cxt->params);
	return expression_tree_walker(node, computes_from_row, cxt);
}

/*
 * As a statement of its own the sub-select gets values that are computed here, like "$1 < now()",
 * and its columns are computed here. Values that depend on the outer query's row cannot be computed
 * here when that row is not here.
 */
static bool
values_need_row(RfRelInfo *sub, RowValues *cxt)
{
	ListCell   *lc;

	foreach(lc, sub->planned.plan->fdw_exprs)
	{
		if (!IsA(lfirst(lc), Param) && reads_params((Node *) lfirst(lc), cxt->params))
			return true;
	}
	return computes_from_row((Node *) rf_subselect_columns(sub), cxt);
}

static bool
reads_any_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		return true;
	return expression_tree_walker(node, reads_any_param, context);
}

/*
 * Returns true if there is an aggregate whose arguments all come from outside. Printed, these are
 * columns of the outer query, and an aggregate belongs to the query of its columns: that query's
 * rows would be aggregated. The parser makes no such aggregate, but pulling up a sub-select in FROM
 * does.
 */
static bool
aggregates_outside(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
		return !contain_var_clause(node) && reads_any_param(node, NULL);
	return expression_tree_walker(node, aggregates_outside, context);
}

bool
rf_subselect_is_shippable(PlannerInfo *root, RfRelInfo *info, SubPlan *subplan)
{
	PlannerInfo *subroot;
	RfRelInfo  *sub;
	RowValues	values = {root, subplan->parParam};
	List	   *columns;
	ListCell   *lc;

	if (rf_push_down != RF_PUSH_DOWN_ALL)
		return false;
	switch (subplan->subLinkType)
	{
		case EXISTS_SUBLINK:
		case ALL_SUBLINK:
		case ANY_SUBLINK:
		case EXPR_SUBLINK:
		case ARRAY_SUBLINK:
			break;
		default:
			return false;
	}
	sub = rf_subselect(root, subplan, &subroot);
	if (sub == NULL || sub->nodes != NIL || info->nodes != NIL || sub->upper.partial ||
		rf_reads_select(sub) || sub->server->serverid != info->server->serverid ||
		(sub->upper.scan ? sub->upper.scan : sub)->rel->userid != (info->upper.scan ?
																   info->upper.scan :
																   info)->rel->userid)
		return false;
	if (values_need_row(sub, &values) ||
		aggregates_outside((Node *) subroot->processed_tlist, NULL) ||
		aggregates_outside(subroot->parse->havingQual, NULL))
		return false;
	columns = rf_subselect_columns(sub);
	if (!columns_can_differ(subroot, sub, columns))
		return false;
	foreach(lc, columns)
	{
		if (!rf_is_shippable_expr(subroot, sub->rel, (Expr *) lfirst(lc)))
			return false;
	}
	return true;
}

static bool
subtract_subplans(Node *node, QualCost *cost)
{
	if (node == NULL)
		return false;
	if (IsA(node, AlternativeSubPlan))
		node = (Node *) linitial(((AlternativeSubPlan *) node)->subplans);
	if (IsA(node, SubPlan))
	{
		SubPlan    *subplan = (SubPlan *) node;

		cost->startup -= subplan->startup_cost * (1 - SUBSELECT_COST_SHARE);
		cost->per_tuple -= subplan->per_call_cost * (1 - SUBSELECT_COST_SHARE);
		return false;
	}
	return expression_tree_walker(node, subtract_subplans, cost);
}

void
rf_discount_subselects(QualCost *cost, Node *expr)
{
	(void) subtract_subplans(expr, cost);
	cost->startup = Max(cost->startup, 0);
	cost->per_tuple = Max(cost->per_tuple, 0);
}

void
rf_remote_qual_cost(QualCost *cost, List *quals, PlannerInfo *root)
{
	cost_qual_eval(cost, quals, root);
	if (root->glob->subplans != NIL)
		rf_discount_subselects(cost, (Node *) rf_bare_clauses(quals));
}
