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
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"

#include "rdma_fdw/fdw.h"
#include "rdma_fdw/fragment.h"
#include "rdma_fdw/guc.h"

/* A relation above input_rel, with its clauses so far. */
static RfRelInfo *
upper_info(RelOptInfo *input_rel)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));

	*info = *input;
	if (info->scanrel == NULL)
	{
		info->scanrel = input_rel;
		info->scan = input;
		info->remote_conds = NIL;	/* they are in the scan's part of the statement */
		info->outer = NULL;
		info->inner = NULL;
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
	info->rel_total_cost = -1;
	return info;
}

static bool
has_columns(Node *expr)
{
	return pull_var_clause(expr, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
						   PVC_INCLUDE_PLACEHOLDERS) != NIL;
}

/* Adds a column to the SELECT list; one that has a number of its own in GROUP BY stands alone. */
static void
add_column(RfRelInfo *info, Expr *expr, Index sortgroupref)
{
	ListCell   *lc;
	TargetEntry *tle;

	foreach(lc, info->tlist)
	{
		tle = lfirst_node(TargetEntry, lc);
		if (equal(tle->expr, expr) &&
			(sortgroupref == 0 || tle->ressortgroupref == 0 || tle->ressortgroupref == sortgroupref))
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
 * Adds what the data node has to compute for an expression: all of it, or what it is made of.  What
 * has no columns is computed here.
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
		if ((IsA(part, Var) || IsA(part, PlaceHolderVar)) && info->grouped && !info->partial)
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
 * A grouping set may turn one column to NULL and not another one that is the same expression.
 * Would they be taken for each other?  The executor tells columns apart by their expressions.  The
 * planner does so by placeholders, of which nothing is left in the data node's statement.
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
	info->grouped = true;
	foreach(lc, target->exprs)
	{
		Expr	   *expr = (Expr *) lfirst(lc);
		Index		ref = get_pathtarget_sortgroupref(target, i++);

		if (ref != 0 && get_sortgroupref_clause_noerr(ref, parse->groupClause) != NULL)
		{
			/*
			 * A column is what the executor finds by its expression.  A parameter must not be one:
			 * as a parameter of the statement it would be taken for that column.
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
			info->having = lappend(info->having, expr);
		else if (add_expression(root, rel, (Node *) expr))
			info->local_conds = lappend(info->local_conds, expr);
		else
			return false;
	}

	/*
	 * All rows are one group only because of an aggregate, and the planner leaves out those that
	 * are not wanted: without any left the statement would give every row.
	 */
	return parse->groupClause != NIL || parse->groupingSets != NIL || info->having != NIL ||
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
	info->windowed = true;
	foreach(lc, target->exprs)
	{
		if (!add_expression(root, rel, (Node *) lfirst(lc)))
			return false;
	}
	return true;
}

/* Exactly the columns that must differ, so none of them may be computed from others here. */
static bool
make_distinct(PlannerInfo *root, RelOptInfo *rel, PathTarget *target)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	int			i = 0;
	ListCell   *lc;

	if (root->parse->hasDistinctOn)
		return false;
	info->distinct = true;
	foreach(lc, target->exprs)
	{
		Expr	   *expr = (Expr *) lfirst(lc);
		Index		ref = get_pathtarget_sortgroupref(target, i++);

		/*
		 * a value that is the same in all rows makes no difference, unless it is none of that kind
		 */
		if (!has_columns((Node *) expr))
		{
			if (contain_volatile_functions((Node *) expr))
				return false;
			continue;
		}
		/* nor may there be others, such as what was grouped or ordered by below */
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

	info->projected = true;
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

	if (input->local_conds != NIL || ((stage == UPPERREL_GROUP_AGG || stage == UPPERREL_PARTIAL_GROUP_AGG) &&
		 input->scanrel != NULL) ||
		(input->grouped && rf_groups_by_constant(root)))
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
			info->partial = true;
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

	info->description = psprintf("%s on (%s)", what, input->description);
	info->local_conds_sel = clauselist_selectivity(root, info->local_conds, 0, JOIN_INNER, NULL);
	cost_qual_eval(&info->local_conds_cost, info->local_conds, root);
	rf_estimate_rel(root, output_rel);
	*columns = target;
	return info;
}

static void
add_relation_path(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				  RelOptInfo *output_rel, void *extra)
{
	PathTarget *target;
	RfRelInfo  *info;

	if (output_rel->fdw_private != NULL)
		return;
	info = rf_build_upper(root, stage, input_rel, output_rel, extra, &target);
	if (info == NULL)
		return;
	add_path(output_rel, (Path *)
			 rf_create_foreign_upper_path(root, output_rel, target, info->rows,
										  info->startup_cost, info->total_cost, NIL, NIL));
	if (stage != UPPERREL_PARTIAL_GROUP_AGG)
		rf_add_partial_path(root, output_rel, info->scanrel->relids, target, NIL);
}

/* The ordered relation has no statement of its own. */
void
rf_set_ordered(RelOptInfo *ordered_rel, RelOptInfo *input_rel)
{
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));

	info->ordered = input_rel;
	info->fragment = ((RfRelInfo *) input_rel->fdw_private)->fragment;
	ordered_rel->fdw_private = info;
}

/* Above set operations there is none. */
PathTarget *
rf_upper_target(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *rel)
{
	return rf_is_set_operation((RfRelInfo *) rel->fdw_private) ? rel->reltarget : root->upper_targets[stage];
}

/* ORDER BY.  What sorts a base or join relation has a path among those of that relation already. */
static void
add_ordered_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *ordered_rel)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	RfEstimate	est;

	if (ordered_rel->fdw_private != NULL || root->sort_pathkeys == NIL ||
		!rf_pathkeys_shippable(root, input_rel, root->sort_pathkeys))
		return;

	rf_set_ordered(ordered_rel, input_rel);
	if (input->scanrel == NULL && !rf_is_set_operation(input) &&
		pathkeys_contained_in(root->sort_pathkeys, root->query_pathkeys))
		return;

	rf_estimate(root, input_rel, NIL, root->sort_pathkeys, false, 0, 0, &est);
	add_path(ordered_rel, (Path *)
			 rf_create_foreign_upper_path(root, input_rel, rf_upper_target(root, UPPERREL_ORDERED, input_rel),
										  est.rows, est.startup_cost, est.total_cost,
										  root->sort_pathkeys, NIL));
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

/* LIMIT and OFFSET, with or without ORDER BY below. */
static void
add_limit_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *final_rel,
			   FinalPathExtraData *extra)
{
	RfRelInfo  *info = (RfRelInfo *) input_rel->fdw_private;
	List	   *pathkeys = NIL;
	RelOptInfo *rel = input_rel;
	RfEstimate	est;

	if (info->ordered != NULL)
	{
		rel = info->ordered;
		pathkeys = root->sort_pathkeys;
	}
	/* of a partitioned table core has thrown away what is no Append of its partitions */
	if (!extra->limit_needed && IS_PARTITIONED_REL(rel) && info->select != NULL &&
		info->select->left != NULL && root->parse->sortClause == NIL)
		add_path(final_rel, (Path *)
				 rf_create_foreign_upper_path(root, rf_scanned_rel(rel), root->upper_targets[UPPERREL_FINAL],
											  info->rows, info->startup_cost, info->total_cost, NIL,
											  rf_path_private(info, 0)));
	if (!rf_limit_is_shippable(root, rel, extra))
		return;

	rf_estimate(root, rel, NIL, pathkeys, true, extra->offset_est, extra->count_est, &est);
	add_path(final_rel, (Path *)
			 rf_create_foreign_upper_path(root, rf_scanned_rel(rel), rf_upper_target(root, UPPERREL_FINAL, rel),
										  est.rows, est.startup_cost, est.total_cost,
										  pathkeys,
										  rf_path_private((RfRelInfo *) rel->fdw_private, RF_PATH_LIMIT)));
}

/* Sub-selects among the columns of a query without grouping and the like, in order and with LIMIT. */
static void
add_projected_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *final_rel, FinalPathExtraData *extra)
{
	RfRelInfo  *info = (RfRelInfo *) input_rel->fdw_private;
	List	   *pathkeys = NIL;
	RelOptInfo *rel = input_rel;
	PathTarget *target;
	RfEstimate	est;

	if (info->ordered != NULL)
	{
		rel = info->ordered;
		info = (RfRelInfo *) rel->fdw_private;
		pathkeys = root->sort_pathkeys;
	}
	if (root->rowMarks != NIL || info->scanrel != NULL ||
		info->select != NULL || !(IS_SIMPLE_REL(rel) || IS_JOIN_REL(rel)) ||
		!contain_subplans((Node *) root->upper_targets[UPPERREL_FINAL]->exprs) ||
		(extra->limit_needed && !rf_limit_is_shippable(root, rel, extra)))
		return;
	info = rf_build_upper(root, UPPERREL_FINAL, rel, final_rel, extra, &target);
	if (info == NULL)
		return;
	if (!rf_pathkeys_shippable(root, final_rel, pathkeys))
	{
		final_rel->fdw_private = NULL;
		return;
	}
	rf_estimate(root, final_rel, NIL, pathkeys, extra->limit_needed, extra->offset_est, extra->count_est, &est);
	add_path(final_rel, (Path *)
			 rf_create_foreign_upper_path(root, final_rel, target, est.rows, est.startup_cost, est.total_cost,
										  pathkeys, rf_path_private(info, extra->limit_needed ? RF_PATH_LIMIT : 0)));
}

void
rdmaGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
						 RelOptInfo *output_rel, void *extra)
{
	/* what the data node cannot do ends the series; functions that return sets are computed here */
	if (rf_push_down != RF_PUSH_DOWN_ALL || input_rel->fdw_private == NULL ||
		root->parse->hasTargetSRFs)
		return;
	/* the last relation of INSERT and the like writes what the one before gives */
	if (stage == UPPERREL_FINAL && root->parse->commandType != CMD_SELECT)
		return;
	if (((RfRelInfo *) input_rel->fdw_private)->fragment != NULL)
	{
		rf_upper_choices(root, stage, input_rel, output_rel, extra);
		return;
	}

	switch (stage)
	{
		case UPPERREL_PARTIAL_GROUP_AGG:
			/*
			 * only as a child of a partitioned relation: nobody would combine the states otherwise
			 */
			if (!IS_OTHER_REL(output_rel))
				break;
			/* FALLTHROUGH */
		case UPPERREL_GROUP_AGG:
		case UPPERREL_WINDOW:
		case UPPERREL_DISTINCT:
			add_relation_path(root, stage, input_rel, output_rel, extra);
			break;
		case UPPERREL_ORDERED:
			add_ordered_path(root, input_rel, output_rel);
			break;
		case UPPERREL_FINAL:
			add_limit_path(root, input_rel, output_rel, (FinalPathExtraData *) extra);
			add_projected_path(root, input_rel, output_rel, (FinalPathExtraData *) extra);
			break;
		default:
			break;
	}
}
