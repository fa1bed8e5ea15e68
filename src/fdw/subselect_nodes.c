/*
 * subselect_nodes.c
 *		Sub-selects in FROM that data nodes run as part of a larger statement.
 *
 * A sub-select with grouping, windows or DISTINCT is planned by itself, and what reads its rows is
 * planned as if they came from nowhere. If each node can compute its part of them whole, they are
 * like a table of the nodes: then their relation gets the server and the statements that joins and
 * upper relations look for. Its scan, which the planner has made before, stays the alternative.
 *
 * The relation's conditions that the planner has not moved into the sub-select stand around it.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/fdw.h"
#include "rdma_fdw/fragment.h"

static set_rel_pathlist_hook_type previous_pathlist_hook = NULL;

/*
 * The relation of the sub-select's last stage, if what it gives are all rows. What is only known
 * when the query runs (an uncorrelated sub-select inside) belongs to the plan of the sub-select.
 */
static RelOptInfo *
last_stage(PlannerInfo *subroot)
{
	Query	   *parse = subroot->parse;

	if (parse->commandType != CMD_SELECT || parse->setOperations != NULL || parse->rowMarks != NIL ||
		parse->limitCount != NULL || parse->limitOffset != NULL || parse->hasTargetSRFs ||
		subroot->init_plans != NIL || rf_groups_by_constant(subroot))
		return NULL;
	if (parse->distinctClause != NIL)
		return fetch_upper_rel(subroot, UPPERREL_DISTINCT, NULL);
	if (parse->hasWindowFuncs)
		return fetch_upper_rel(subroot, UPPERREL_WINDOW, NULL);
	if (parse->groupClause != NIL || parse->groupingSets != NIL || parse->hasAggs ||
		subroot->hasHavingQual)
		return fetch_upper_rel(subroot, UPPERREL_GROUP_AGG, NULL);
	return NULL;
}

/* Does the statement give all columns of the sub-select? */
static bool
gives_columns(PlannerInfo *subroot, RelOptInfo *subrel)
{
	RfRelInfo  *info = (RfRelInfo *) subrel->fdw_private;
	ListCell   *lc;

	if (info->local_conds != NIL)
		return false;
	foreach(lc, subroot->processed_tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->resjunk)
			continue;
		if (!rf_is_shippable_type(exprType((Node *) tle->expr), info) ||
			(!IsA(tle->expr, Const) && !rf_is_shippable_expr(subroot, subrel, tle->expr)))
			return false;
		/* outside, a column's collation counts as one that both sides know */
		if (OidIsValid(exprCollation((Node *) tle->expr)) && !IsA(tle->expr, Const) &&
			pull_var_clause((Node *) tle->expr, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
							PVC_RECURSE_PLACEHOLDERS) == NIL)
			return false;
	}
	return true;
}

/* A key in terms of the sub-select's columns, and values that are the same in all rows. */
static List *
outer_key(PlannerInfo *subroot, Index relid, List *key)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, key)
	{
		Expr	   *expr = (Expr *) lfirst(lc);
		ListCell   *column;

		if (!contain_var_clause((Node *) expr))
			result = lappend(result, expr);
		foreach(column, subroot->processed_tlist)
		{
			TargetEntry *tle = lfirst_node(TargetEntry, column);

			if (!tle->resjunk && equal(tle->expr, expr))
				result = lappend(result, makeVar(relid, tle->resno, exprType((Node *) expr),
												 exprTypmod((Node *) expr),
												 exprCollation((Node *) expr), 0));
		}
	}
	return result;
}

static void
place_rows(RfFragment *fragment, RfFragment *inside, Index relid)
{
	ListCell   *lc;

	fragment->placement = inside->placement;
	foreach(lc, inside->keys)
	{
		List	   *key = outer_key(fragment->subroot, relid, (List *) lfirst(lc));

		if (key == NIL)
		{
			fragment->placement = RF_PLACED_ANYWHERE;
			fragment->keys = NIL;
			return;
		}
		fragment->keys = lappend(fragment->keys, key);
	}
}

/* The sub-select's statement as that of a table. */
static RfRelInfo *
table_info(PlannerInfo *root, RelOptInfo *rel, RfRelInfo *inside, RfChoices *choices)
{
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));
	RfFragment *fragment = palloc0(sizeof(RfFragment));
	char	   *alias = planner_rt_fetch(rel->relid, root)->eref->aliasname;

	info->rel = rel;
	info->server = inside->server;
	info->nodes = inside->nodes;
	info->members = inside->members;
	info->compute = inside->compute;
	info->opts = inside->opts;
	info->relation_name = inside->relation_name;
	info->description = psprintf("(%s) %s", inside->description, quote_identifier(alias));
	info->fragment = fragment;
	fragment->choices = choices;
	fragment->subselect = inside;
	fragment->subroot = rel->subroot;
	fragment->computed = inside->fragment->computed;
	fragment->sending = inside->fragment->sending;
	fragment->exchanges = inside->fragment->exchanges;
	fragment->strategies = inside->fragment->strategies;
	place_rows(fragment, inside->fragment, rel->relid);
	fragment->single_node = rf_single_node_values(fragment) != NIL;

	rel->fdw_private = info;
	rf_classify_conditions(root, rel, rel->baserestrictinfo, &info->remote_conds, &info->local_conds);
	info->local_conds_sel = clauselist_selectivity(root, info->local_conds, rel->relid, JOIN_INNER, NULL);
	cost_qual_eval(&info->local_conds_cost, info->local_conds, root);
	info->tlist = add_to_flat_tlist(NIL, rel->reltarget->exprs);
	info->tlist = add_to_flat_tlist(info->tlist,
									pull_var_clause((Node *) extract_actual_clauses(info->local_conds, false),
													PVC_RECURSE_PLACEHOLDERS));
	info->rows = rel->rows;
	info->width = rel->reltarget->width;
	info->retrieved_rows = clamp_row_est(rel->rows / Max(info->local_conds_sel, 1e-10));
	info->rel_startup_cost = inside->rel_startup_cost;
	info->rel_total_cost = inside->rel_total_cost +
		rel->baserestrictcost.per_tuple * inside->retrieved_rows * rf_node_share(inside);
	rf_estimate_rel(root, rel);
	return info;
}

/* Plain columns of it are all that there is outside. */
static bool
only_columns(List *exprs)
{
	ListCell   *lc;

	foreach(lc, exprs)
	{
		if (!IsA(lfirst(lc), Var) || lfirst_node(Var, lc)->varattno <= 0)
			return false;
	}
	return true;
}

static void
make_fragment(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	RelOptInfo *subrel;
	RfRelInfo  *inside;
	RfRelInfo  *best = NULL;
	RfChoices  *choices;
	ListCell   *lc;

	/* behind a security barrier conditions keep an order that no statement promises */
	if (rel->reloptkind != RELOPT_BASEREL || rel->subroot == NULL || rte->security_barrier ||
		root->qual_security_level > 0 || !bms_is_empty(rel->lateral_relids) ||
		rel->fdw_private != NULL || IS_DUMMY_REL(rel) || !only_columns(rel->reltarget->exprs))
		return;
	subrel = last_stage(rel->subroot);
	if (subrel == NULL || subrel->fdwroutine == NULL || subrel->fdw_private == NULL ||
		subrel->fdwroutine->GetForeignUpperPaths != rdmaGetForeignUpperPaths)
		return;
	inside = (RfRelInfo *) subrel->fdw_private;
	if (inside->fragment == NULL || !gives_columns(rel->subroot, subrel))
		return;

	choices = palloc0(sizeof(RfChoices));
	foreach(lc, inside->fragment->choices->infos)
	{
		RfRelInfo  *info;

		subrel->fdw_private = lfirst(lc);
		info = table_info(root, rel, lfirst(lc), choices);
		if (rf_add_choice(choices, info) && (best == NULL || info->total_cost < best->total_cost))
			best = info;
	}
	subrel->fdw_private = inside;
	rel->fdw_private = best;
	rel->serverid = subrel->serverid;
	rel->userid = subrel->userid;
	rel->useridiscurrent = subrel->useridiscurrent;
	rel->fdwroutine = subrel->fdwroutine;
#if PG_VERSION_NUM < 160000
	/* whose rights a scan uses is what its first relation says */
	rte->checkAsUser = rel->userid;
#endif
}

static void
subselect_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	/* before derived.c, which knows one statement of what it finds only */
	if (rte->rtekind == RTE_SUBQUERY)
		make_fragment(root, rel, rte);
	if (previous_pathlist_hook)
		previous_pathlist_hook(root, rel, rti, rte);
}

void
rf_watch_subselects_nodes(void)
{
	previous_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = subselect_pathlist;
}
