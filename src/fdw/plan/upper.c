/*
 * upper.c
 *		Grouping, aggregates, window functions, DISTINCT, ORDER BY and LIMIT on the data node.
 *
 * SQL's order of evaluation is also the planner's order of stages, so each stage adds its clause to
 * the SELECT of the stage before, as long as nothing in between has to be done here.  Grouping,
 * windows and DISTINCT have relations of their own with an RfRelInfo; ORDER BY and LIMIT only make
 * other paths of the relation before.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"


/* A relation above input_rel, with its clauses so far. */
static RfRelInfo *
upper_info(RelOptInfo *input_rel)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));

	*info = *input;
	if (info->upper.scanrel == NULL)
	{
		info->upper.scanrel = input_rel;
		info->upper.scan = input;
		info->remote_conds = NIL;	/* they are in the scan's part of the statement */
		info->join.outer = NULL;
		info->join.inner = NULL;
		info->select = NULL;
		info->parts = NIL;
	}
	if (info->fragment != NULL)
	{
		info->fragment = palloc(sizeof(RfFragment));
		*info->fragment = *input->fragment;
		info->fragment->moved = NULL;
	}
	info->tlist = NIL;
	info->movable = RF_ANSWER_UNKNOWN;
	info->rel_total_cost = -1;
	return info;
}

static bool
has_columns(Node *expr)
{
	return pull_var_clause(expr, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
						   PVC_INCLUDE_PLACEHOLDERS) != NIL;
}

/*
 * Adds a column to the SELECT list; a column that has a number of its own in GROUP BY stands alone.
 */
static void
add_column(RfRelInfo *info, Expr *expr, Index sortgroupref)
{
	ListCell   *lc;
	TargetEntry *tle;

	foreach(lc, info->tlist)
	{
		tle = lfirst_node(TargetEntry, lc);
		if (equal(tle->expr, expr) && (sortgroupref == 0 || tle->ressortgroupref == 0 ||
									   tle->ressortgroupref == sortgroupref))
		{
			if (sortgroupref != 0)
				tle->ressortgroupref = sortgroupref;
			return;
		}
	}
	tle = makeTargetEntry(copyObject(expr), list_length(info->tlist) + 1, NULL, false);
	tle->ressortgroupref = sortgroupref;
	info->tlist = lappend(info->tlist, tle);
}

/*
 * Adds the parts of an expression that the data node computes: all of it, or its parts. Parts
 * without columns are computed here.
 */
static bool
add_expression(PlannerInfo *root, RelOptInfo *rel, Node *expr)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	ListCell   *lc;

	if (!has_columns(expr))
		return true;
	if (rf_is_shippable_expr(root, rel, (Expr *) expr))
	{
		add_column(info, (Expr *) expr, 0);
		return true;
	}

	foreach(lc, pull_var_clause(expr, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		Node	   *part = (Node *) lfirst(lc);

		/* outside of aggregates it can only be a grouped column or part of a grouped expression */
		if ((IsA(part, Var) || IsA(part, PlaceHolderVar)) && info->upper.grouped &&
			!info->upper.partial)
			continue;
		/* columns can be fetched even when the data node could do nothing with them */
		if (!(IsA(part, Var) && ((Var *) part)->varattno > 0) &&
			!rf_is_shippable_expr(root, rel, (Expr *) part))
			return false;
		add_column(info, (Expr *) part, 0);
	}
	return true;
}

/*
 * A grouping set may turn one column to NULL and not a second column of the same expression.
 * Returns true if they would be taken for each other. The executor tells columns apart by their
 * expressions. The planner does so by placeholders, of which nothing is left in the data node's
 * statement.
 */
static bool
sets_are_ambiguous(PlannerInfo *root, List *exprs)
{
	List	   *grouped = NIL;
	ListCell   *lc;

	foreach(lc, root->parse->groupClause)
	{
		Expr	   *expr = get_sortgroupref_tle(lfirst_node(SortGroupClause, lc)->tleSortGroupRef,
												root->processed_tlist)->expr;

		if (list_member(grouped, expr))
			return true;
		grouped = lappend(grouped, expr);
	}
	foreach(lc, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS))
	{
		if (IsA(lfirst(lc), PlaceHolderVar))
			return true;
	}
	return false;
}

/*
 * GROUP BY, HAVING, aggregates.  Partial: core combines the states of several foreign tables, and
 * HAVING comes after that.
 */
static bool
group(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *having)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	Query	   *parse = root->parse;
	int			i = 0;
	ListCell   *lc;

	if (parse->groupingSets != NIL &&
		sets_are_ambiguous(root, list_concat_copy(target->exprs, having)))
		return false;
	info->upper.grouped = true;
	foreach(lc, target->exprs)
	{
		Expr	   *expr = (Expr *) lfirst(lc);
		Index		ref = get_pathtarget_sortgroupref(target, i++);

		if (ref != 0 && get_sortgroupref_clause_noerr(ref, parse->groupClause) != NULL)
		{
			/*
			 * The executor finds a column by its expression.  A parameter must not be one: as a
			 * parameter of the statement it would be taken for that column.
			 */
			if (!rf_is_shippable_expr(root, rel, expr) ||
				!(has_columns((Node *) expr) || (IsA(expr, Const) && parse->groupingSets == NIL)))
				return false;
			add_column(info, expr, ref);
		}
		else if (!add_expression(root, rel, (Node *) expr))
			return false;
	}
	foreach(lc, parse->groupClause)
	{
		if (rf_sortgroupref_tle(lfirst_node(SortGroupClause, lc)->tleSortGroupRef,
								info->tlist) == NULL)
			return false;
	}

	foreach(lc, having)
	{
		Expr	   *expr = (Expr *) lfirst(lc);

		if (rf_is_shippable_expr(root, rel, expr))
			info->upper.having = lappend(info->upper.having, expr);
		else if (add_expression(root, rel, (Node *) expr))
			info->local_conds = lappend(info->local_conds, expr);
		else
			return false;
	}

	/*
	 * All rows are one group only because of an aggregate, and the planner leaves out unwanted
	 * aggregates: without any left the statement would give every row.
	 */
	return parse->groupClause != NIL || parse->groupingSets != NIL || info->upper.having != NIL ||
		contain_agg_clause((Node *) info->tlist);
}

/*
 * A window function that a condition outside stops early is left alone: the planner may have taken
 * the condition away from where it was.
 */
static bool
has_run_condition(Query *parse, List *exprs)
{
	ListCell   *lc;

#if PG_VERSION_NUM >= 170000
	foreach(lc, pull_var_clause((Node *) exprs, PVC_RECURSE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
								PVC_RECURSE_PLACEHOLDERS))
	{
		if (IsA(lfirst(lc), WindowFunc) && lfirst_node(WindowFunc, lc)->runCondition != NIL)
			return true;
	}
#else
	foreach(lc, parse->windowClause)
	{
		if (lfirst_node(WindowClause, lc)->runCondition != NIL)
			return true;
	}
#endif
	return false;
}

static bool
window(PlannerInfo *root, RelOptInfo *rel, PathTarget *target)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	ListCell   *lc;

	if (has_run_condition(root->parse, target->exprs))
		return false;
	info->upper.windowed = true;
	foreach(lc, target->exprs)
	{
		if (!add_expression(root, rel, (Node *) lfirst(lc)))
			return false;
	}
	return true;
}

/* Exactly the columns that must differ, so they may not be computed from other columns here. */
static bool
make_distinct(PlannerInfo *root, RelOptInfo *rel, PathTarget *target)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	int			i = 0;
	ListCell   *lc;

	if (root->parse->hasDistinctOn)
		return false;
	info->upper.distinct = true;
	foreach(lc, target->exprs)
	{
		Expr	   *expr = (Expr *) lfirst(lc);
		Index		ref = get_pathtarget_sortgroupref(target, i++);

		/*
		 * a value that is the same in all rows makes no difference, unless it is a key of another
		 * kind
		 */
		if (!has_columns((Node *) expr))
		{
			if (contain_volatile_functions((Node *) expr))
				return false;
			continue;
		}
		/* nor may there be further columns, such as grouping or sort columns below */
		if (ref == 0 || get_sortgroupref_clause_noerr(ref, root->parse->distinctClause) == NULL ||
			!rf_is_shippable_expr(root, rel, expr))
			return false;
		add_column(info, expr, 0);
	}
	return info->tlist != NIL;
}

/*
 * The query's own columns, when there are sub-selects among them: here they would be a remote query
 * for each row.
 */
static bool
project(PlannerInfo *root, RelOptInfo *rel, PathTarget *target)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	ListCell   *lc;

	info->upper.projected = true;
	foreach(lc, target->exprs)
	{
		if (!add_expression(root, rel, (Node *) lfirst(lc)))
			return false;
	}
	return contain_subplans((Node *) info->tlist);
}

bool
rf_groups_by_constant(PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->parse->groupClause)
	{
		Index		ref = lfirst_node(SortGroupClause, lc)->tleSortGroupRef;

		if (IsA(get_sortgroupref_tle(ref, root->processed_tlist)->expr, Const))
			return true;
	}
	return false;
}

/* One of the four above: a new relation over input_rel. *target are its columns. */
RfRelInfo *
rf_build_upper(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
			   RelOptInfo *output_rel, void *extra, PathTarget **columns)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	PathTarget *target;
	RfRelInfo  *info;
	const char *what;
	bool		ok;

	if (input->local_conds != NIL ||
		((stage == UPPERREL_GROUP_AGG || stage == UPPERREL_PARTIAL_GROUP_AGG) &&
		 input->upper.scanrel != NULL) ||
		(input->upper.grouped && rf_groups_by_constant(root)))
		return NULL;

	info = upper_info(input_rel);
	info->rel = output_rel;
	output_rel->fdw_private = info;
	switch (stage)
	{
		case UPPERREL_GROUP_AGG:
			/* children of a partitioned relation have their own columns here */
			target = output_rel->reltarget;
			what = "Aggregate";
			ok = group(root, output_rel, target,
					   (List *) ((GroupPathExtraData *) extra)->havingQual);
			break;
		case UPPERREL_PARTIAL_GROUP_AGG:
			target = output_rel->reltarget;
			what = "Partial Aggregate";
			info->upper.partial = true;
			ok = group(root, output_rel, target, NIL);
			break;
		case UPPERREL_WINDOW:
			target = root->upper_targets[stage];
			what = "Window";
			ok = window(root, output_rel, target);
			break;
		case UPPERREL_FINAL:
			target = root->upper_targets[stage];
			what = "Projection";
			ok = project(root, output_rel, target);
			break;
		default:
			target = root->upper_targets[stage];
			what = "Unique";
			ok = make_distinct(root, output_rel, target);
			break;
	}
	if (!ok)
	{
		output_rel->fdw_private = NULL;
		return NULL;
	}

	info->description = psprintf("%s on (%s)", what, rf_description(input));
	info->local_conds_sel = clauselist_selectivity(root, info->local_conds, 0, JOIN_INNER, NULL);
	cost_qual_eval(&info->local_conds_cost, info->local_conds, root);
	rf_estimate_rel(root, output_rel);
	*columns = target;
	return info;
}

/* The ordered relation has no statement of its own. */
void
rf_set_ordered(RelOptInfo *ordered_rel, RelOptInfo *input_rel)
{
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));

	info->upper.ordered = input_rel;
	info->fragment = ((RfRelInfo *) input_rel->fdw_private)->fragment;
	ordered_rel->fdw_private = info;
}

/* Above set operations there is no such target. */
PathTarget *
rf_upper_target(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *rel, RfEstimate *est)
{
	PathTarget *target = rf_is_set_operation((RfRelInfo *) rel->fdw_private) ?
		rel->reltarget :
		root->upper_targets[stage];

	/* those above a grouping and the like are columns of the statement */
	if ((IS_SIMPLE_REL(rel) || IS_JOIN_REL(rel)) && contain_subplans((Node *) target->exprs))
	{
		est->startup_cost += target->cost.startup;
		est->total_cost += target->cost.startup + target->cost.per_tuple * est->rows;
	}
	return target;
}

static bool
is_shippable_value(PlannerInfo *root, RelOptInfo *rel, Node *value)
{
	return value == NULL || rf_is_shippable_expr(root, rel, (Expr *) value);
}

bool
rf_limit_is_shippable(PlannerInfo *root, RelOptInfo *rel, FinalPathExtraData *extra)
{
	Query	   *parse = root->parse;

	return parse->commandType == CMD_SELECT && extra->limit_needed &&
		parse->limitOption != LIMIT_OPTION_WITH_TIES &&
		((RfRelInfo *) rel->fdw_private)->local_conds == NIL &&
		is_shippable_value(root, rel, parse->limitCount) &&
		is_shippable_value(root, rel, parse->limitOffset);
}
