/*
 * forms.c
 * 	The forms that a statement may have (decorrelate.c, grouping_sets.c), of which the cheapest is
 * 	run. Plans every form and keeps the cheapest plan.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "fdw/catalog/catalog.h"
#include "forms.h"
#include "plan.h"

/* ---------- which forms there are ---------- */

/*
 * Returns true if there is such a query in FROM or WITH. This costs next to nothing for statements
 * without.
 */
static bool
has_query(Query *query, bool (*is_one) (const Query *query))
{
	ListCell   *lc;

	if (is_one(query))
		return true;
	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY && has_query(rte->subquery, is_one))
			return true;
	}
	foreach(lc, query->cteList)
	{
		if (has_query((Query *) lfirst_node(CommonTableExpr, lc)->ctequery, is_one))
			return true;
	}
	return false;
}

static bool
has_sublinks(const Query *query)
{
	return query->hasSubLinks;
}

static bool
has_grouping_sets(const Query *query)
{
	return query->groupingSets != NIL;
}

/* An equality of both sides, by which the rows of a FULL JOIN can be matched. */
static bool
compares_sides(Node *clause, Relids left, Relids right)
{
	OpExpr	   *op = (OpExpr *) clause;
	Relids		first;
	Relids		second;

	if (!IsA(clause, OpExpr) || list_length(op->args) != 2 ||
		!(op_mergejoinable(op->opno, exprType(linitial(op->args))) ||
		  op_hashjoinable(op->opno, exprType(linitial(op->args)))))
		return false;
	first = pull_varnos(NULL, linitial(op->args));
	second = pull_varnos(NULL, lsecond(op->args));
	return !bms_is_empty(first) && !bms_is_empty(second) &&
		((bms_is_subset(first, left) && bms_is_subset(second, right)) ||
		 (bms_is_subset(first, right) && bms_is_subset(second, left)));
}

/*
 * A FULL JOIN with another condition can be planned only where the planner finds that it need not
 * be one, or that nothing is to be read. It may not find that for a statement with more joins.
 */
static bool
has_fragile_join(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_fragile_join, NULL, 0);
	if (IsA(node, JoinExpr) && ((JoinExpr *) node)->jointype == JOIN_FULL)
	{
		JoinExpr   *join = (JoinExpr *) node;
		Relids		left = rf_relations_of(join->larg);
		Relids		right = rf_relations_of(join->rarg);
		List	   *conjuncts = NIL;
		bool		found = false;
		ListCell   *lc;

		rf_collect_conjuncts(join->quals, &conjuncts);
		foreach(lc, conjuncts)
			found |= compares_sides(lfirst(lc), left, right);
		if (!found)
			return true;
	}
	return expression_tree_walker(node, has_fragile_join, NULL);
}

/*
 * Rows that a join finds for UPDATE or DELETE are locked when they are written, not when they are
 * read, so a row that has changed in between is an error. That has to be worth it: few rows are
 * better asked for one by one.
 */
#define WRITES_GAIN		10

static bool
is_worth_it(PlannedStmt *join, PlannedStmt *plain)
{
	bool		writes = plain->commandType == CMD_UPDATE || plain->commandType == CMD_DELETE ||
		plain->hasModifyingCTE;

	return join->planTree->total_cost * (writes ? WRITES_GAIN : 1) < plain->planTree->total_cost;
}

/* As joins of its sub-selects, if it has any. */
static PlannedStmt *
plan_joins(Query *query, const char *text, int options, ParamListInfo params,
		   planner_hook_type plan_one RF_EXPLAIN_PARAM)
{
	Query	   *joins;
	Query	   *reduced_joins;
	PlannedStmt *best = NULL;
	int			joined;
	int			reduced;
	int			unused;

	if (rf_is_disabled(RF_DECORRELATION) || !has_query(query, has_sublinks) ||
		has_fragile_join((Node *) query, NULL))
		return plan_one(query, text, options, params RF_EXPLAIN);

	joins = rf_decorrelated(query, false, &joined, &unused);
	reduced_joins = rf_decorrelated(query, true, &unused, &reduced);
	if (joined == 0 && reduced == 0)
		return plan_one(query, text, options, params RF_EXPLAIN);

	/* the planner scribbles on its input */
	if (joined > 0)
		best = plan_one(joins, text, options, params RF_EXPLAIN);
	if (reduced > 0)
	{
		PlannedStmt *other = plan_one(reduced_joins, text, options, params RF_EXPLAIN);

		if (best == NULL || other->planTree->total_cost < best->planTree->total_cost)
			best = other;
	}
	Assert(best != NULL);
	if (!rf_is_disabled(RF_DECORRELATION_COSTS) || joined == 0)
	{
		PlannedStmt *plain = plan_one(query, text, options, params RF_EXPLAIN);

		if (!is_worth_it(best, plain))
			best = plain;
	}
	return best;
}

/*
 * Functions in FROM whose query core would put into the statement later: only then their tables
 * would be part of it, unseen by all that looks at the statement as a whole.
 */
static bool
inline_functions(Node *node, PlannerInfo *root)
{
	RangeTblEntry *rte = (RangeTblEntry *) node;
	Query	   *query;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, inline_functions, root,
								 QTW_EXAMINE_RTES_BEFORE);
	if (!IsA(node, RangeTblEntry))
		return expression_tree_walker(node, inline_functions, root);
	if (rte->rtekind != RTE_FUNCTION)
		return false;
	/* gives it all its arguments, in their order */
	rte->functions = (List *) eval_const_expressions(root, (Node *) rte->functions);
	query = rf_inline_function(root, rte);
	if (query != NULL)
	{
		rte->rtekind = RTE_SUBQUERY;
		rte->subquery = query;
		rte->security_barrier = false;
		rte->functions = NIL;
		rte->funcordinality = false;
	}
	return false;
}

static PlannedStmt *
plan_all(Query *query, const char *text, int options, ParamListInfo params,
		 planner_hook_type plan_one RF_EXPLAIN_PARAM)
{
	Query	   *steps;
	PlannedStmt *best;
	PlannedStmt *plain;

	rf_check_row_names(query);
	rf_take_conflicts(query);
	rf_mark_late_locks(query);
	if (rf_push_down != RF_PUSH_DOWN_ALL)
		return plan_one(query, text, options, params RF_EXPLAIN);
	if (!has_query(query, has_grouping_sets) || !rf_reads_nodes((Node *) query))
		return plan_joins(query, text, options, params, plan_one RF_EXPLAIN);

	steps = copyObject(query);
	if (rf_group_in_steps(steps) == 0)
		return plan_joins(query, text, options, params, plan_one RF_EXPLAIN);
	best = plan_joins(steps, text, options, params, plan_one RF_EXPLAIN);
	plain = plan_joins(query, text, options, params, plan_one RF_EXPLAIN);
	return best->planTree->total_cost < plain->planTree->total_cost ? best : plain;
}

PlannedStmt *
rf_plan_forms(Query *query, const char *text, int options, ParamListInfo params,
			  planner_hook_type plan_one RF_EXPLAIN_PARAM)
{
	PlannerInfo root = {.type = T_PlannerInfo, .parse = query, .query_level = 1};
	PlannerGlobal glob = {.type = T_PlannerGlobal, .boundParams = params};
	PlannedStmt *plan;

	root.glob = &glob;
	(void) inline_functions((Node *) query, &root);
	plan = plan_all(query, text, options, params, plan_one RF_EXPLAIN);
	/* a plan that is kept ends with the functions that it consists of */
	plan->invalItems = list_concat(plan->invalItems, glob.invalItems);
	return plan;
}
