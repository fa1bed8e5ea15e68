/*
 * nodes_upper.c
 *		Grouping, windows, DISTINCT, ORDER BY and LIMIT over the rows of several data nodes.
 *
 * A group, a partition or a set of equal rows that lies on one node can be dealt with there, as
 * upper.c does it for a single node. It does so if the keys that place the rows are among the
 * grouping keys, or after the rows have moved to their place by these. Otherwise each node does its
 * part and the coordinator finishes it: it combines transition states, drops duplicates, merges the
 * sorted rows of the nodes, and counts to the limit.
 */
#include "postgres.h"

#include <math.h>

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "utils/selfuncs.h"

#include "rdma_fdw/compat.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"


static List *
clause_exprs(PlannerInfo *root, List *clauses)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Index		ref = lfirst_node(SortGroupClause, lc)->tleSortGroupRef;

		exprs = lappend(exprs, get_sortgroupref_tle(ref, root->processed_tlist)->expr);
	}
	return exprs;
}

/*
 * The keys by which rows are brought together, in each of several ways: the common keys of all
 * grouping sets, or of all windows.
 */
static List *
gathering_exprs(PlannerInfo *root, UpperRelationKind stage)
{
	Query	   *parse = root->parse;
	List	   *exprs = NIL;
	ListCell   *lc;

	switch (stage)
	{
		case UPPERREL_GROUP_AGG:
			if (parse->groupingSets == NIL)
				return clause_exprs(root, parse->groupClause);
			foreach(lc, parse->groupingSets)
			{
				List	   *set = NIL;
				ListCell   *ref;

				foreach(ref, (List *) lfirst(lc))
					set = lappend(set, get_sortgroupref_tle(lfirst_int(ref),
															root->processed_tlist)
								  ->expr);
				exprs = lc == list_head(parse->groupingSets) ? set : list_intersection(exprs, set);
			}
			return exprs;
		case UPPERREL_WINDOW:
			foreach(lc, parse->windowClause)
			{
				WindowClause *window = lfirst_node(WindowClause, lc);
				List	   *partition = clause_exprs(root, window->partitionClause);

				exprs = lc == list_head(parse->windowClause) ? partition :
					list_intersection(exprs, partition);
			}
			return exprs;
		default:
			return clause_exprs(root, parse->distinctClause);
	}
}

/*
 * Returns true if each group lies on one node. Without grouping keys all rows form one group, and
 * nodes that have no rows must not say so: an aggregate has a result even then.
 */
static bool
is_whole(RfRelInfo *info, List *exprs)
{
	if (exprs == NIL && info->fragment->placement == RF_PLACED_BY_HASH)
		return info->fragment->single_node;
	return rf_placed_by(info, exprs);
}

/* The expressions by which rows can be moved so that the rows of a group meet. */
static List *
moving_keys(PlannerInfo *root, RelOptInfo *rel, List *exprs)
{
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, exprs)
	{
		Expr	   *key = rf_hashable_key(lfirst(lc), (RfRelInfo *) rel->fdw_private);

		if (key != NULL && rf_is_shippable_expr(root, rel, key) &&
			pull_var_clause((Node *) key, PVC_INCLUDE_AGGREGATES |
							PVC_INCLUDE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS) != NIL)
			keys = list_append_unique(keys, key);
	}
	return keys;
}

static void
remember(RfChoices *choices, RfRelInfo *info, RelOptInfo *rel, RfRelInfo **best)
{
	info->fragment->choices = choices;
	if (rf_add_choice(choices, info) && (*best == NULL ||
										 info->est.total_cost < (*best)->est.total_cost))
		*best = info;
}

/*
 * The grouping expressions that windows, or DISTINCT, of the groups need: rows brought together by
 * these need not be brought together again, and groups cannot be moved. NIL: by all of them, or no
 * such keys.
 */
static List *
exprs_needed_above(PlannerInfo *root, UpperRelationKind stage, List *exprs)
{
	Query	   *parse = root->parse;
	List	   *above = NIL;

	if (stage != UPPERREL_GROUP_AGG)
		return NIL;
	if (parse->hasWindowFuncs)
		above = gathering_exprs(root, UPPERREL_WINDOW);
	else if (!parse->hasDistinctOn)
		above = gathering_exprs(root, UPPERREL_DISTINCT);
	above = list_intersection(exprs, above);
	return list_length(above) < list_length(exprs) ? above : NIL;
}

/* The rows moved by these keys; few groups of them cannot be spread evenly. */
static RfRelInfo *
move_by(PlannerInfo *root, RfRelInfo *below, List *keys)
{
	RfRelInfo  *move = rf_move(root, below, keys, below->fragment->computed);
	double		groups = estimate_num_groups(root, keys, below->est.retrieved_rows, NULL, NULL);

	move->fragment->largest_part = ceil(groups / rf_node_count(move)) / Max(groups, 1);
	rf_estimate_move(move);
	return move;
}

/*
 * The statements over which each node can complete the stage: this one, or those made from it by
 * moving its rows among the nodes, or to the compute nodes.
 */
static List *
whole_inputs(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RfRelInfo *below,
			 List *exprs)
{
	List	   *above = exprs_needed_above(root, stage, exprs);

	/* without aggregates it does not count how many rows are equal */
	bool		only_different = (stage == UPPERREL_GROUP_AGG && !root->parse->hasAggs) ||
		stage == UPPERREL_DISTINCT;
	List	   *inputs = NIL;
	List	   *keys;

	if (is_whole(below, exprs))
		inputs = list_make1(below);
	if (above != NIL && rf_placed_by(below, above))
		above = NIL;
	/* values computed below are not columns of a statement that can be moved */
	if (below->upper.scan != NULL || rf_exchange_strategy == RF_STRATEGY_PULL ||
		!rf_can_move(root, below) ||
		(inputs != NIL && above == NIL && (below->fragment->computed || !rf_may_compute(below))))
		return inputs;
	input_rel->fdw_private = below;
	keys = moving_keys(root, input_rel, exprs);
	if (keys == NIL)
		return inputs;
	if (inputs == NIL)
		inputs = list_make1(only_different ?
							rf_move_different(root, below, keys, below->fragment->computed) :
							rf_move(root, below, keys, below->fragment->computed));
	if (above != NIL && (above = moving_keys(root, input_rel, above)) != NIL)
		inputs = lappend(inputs, move_by(root, below, above));
	if (!below->fragment->computed && rf_may_compute(below))
		inputs = lappend(inputs, rf_move(root, below, keys, true));
	return inputs;
}

/* Grouping sets turn columns that are not in all of them to NULL, and leave the row on its node. */
static void
forget_nulled_keys(RfFragment *fragment, List *exprs)
{
	ListCell   *lc;

	foreach(lc, fragment->keys)
	{
		List	   *key = NIL;
		ListCell   *member;

		foreach(member, (List *) lfirst(lc))
		{
			if (!contain_var_clause(lfirst(member)) || list_member(exprs, lfirst(member)))
				key = lappend(key, lfirst(member));
		}
		lfirst(lc) = key;
	}
}

/* The stage whole on each node, over every statement there is. */
static void
add_whole_choices(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				  RelOptInfo *output_rel, void *extra)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	RfChoices  *choices = palloc0(sizeof(RfChoices));
	List	   *exprs = gathering_exprs(root, stage);
	RfRelInfo  *best = NULL;
	ListCell   *lc;

	foreach(lc, input->fragment->choices->infos)
	{
		ListCell   *whole;

		foreach(whole, whole_inputs(root, stage, input_rel, lfirst(lc), exprs))
		{
			PathTarget *target;
			RfRelInfo  *info;

			input_rel->fdw_private = lfirst(whole);
			info = rf_build_upper(root, stage, input_rel, output_rel, extra, &target);
			if (info == NULL)
				continue;
			if (stage == UPPERREL_GROUP_AGG && root->parse->groupingSets != NIL)
			{
				info->fragment->keys = list_copy(info->fragment->keys);
				forget_nulled_keys(info->fragment, exprs);
			}
			remember(choices, info, output_rel, &best);
			rf_add_path(root, output_rel, (Path *)
						rf_create_foreign_upper_path(root, output_rel, target, info->est.rows,
													 info->est.startup_cost, info->est.total_cost,
													 NIL,
													 rf_path_private(info, 0)));
			rf_add_partial_path(root, output_rel, info->upper.scanrel->relids, target, NIL);
		}
	}
	input_rel->fdw_private = input;
	output_rel->fdw_private = best;
}

/* Every node gives the states of its part of each group. */
static void
add_partial_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel,
				  GroupPathExtraData *extra)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	List	   *exprs = gathering_exprs(root, UPPERREL_GROUP_AGG);
	PathTarget *target;
	ListCell   *lc;

	if ((extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
		return;
	target = rf_partial_grouping_target(root, grouped_rel->reltarget, extra->havingQual);
	foreach(lc, input->fragment->choices->infos)
	{
		RelOptInfo *partial;

		if (is_whole(lfirst(lc), exprs))
			continue;
		input_rel->fdw_private = lfirst(lc);
		partial = rf_partial_grouped_rel(root, input_rel, target, extra);
		if (partial != NULL)
			rf_add_finalize_paths(root, grouped_rel, partial->cheapest_total_path, extra);
	}
	input_rel->fdw_private = input;
}

/* The states of one statement's rows, see rf_partial_grouped_rel(). */
static void
add_states_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *partial_rel, void *extra)
{
	PathTarget *target;
	RfRelInfo  *info;

	if (!IS_OTHER_REL(partial_rel))
		return;
	info = rf_build_upper(root, UPPERREL_PARTIAL_GROUP_AGG, input_rel, partial_rel, extra, &target);
	if (info == NULL)
		return;
	info->fragment->choices = palloc0(sizeof(RfChoices));
	info->fragment->choices->infos = list_make1(info);
	add_path(partial_rel, (Path *)
			 rf_create_foreign_upper_path(root, partial_rel, target, info->est.rows,
										  info->est.startup_cost,
										  info->est.total_cost, NIL, rf_path_private(info, 0)));
}

/* Every node drops its duplicates, and the coordinator drops the rest. */
static void
add_distinct_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	RfRelInfo  *whole = (RfRelInfo *) output_rel->fdw_private;
	List	   *clause = root->parse->distinctClause;
	ListCell   *lc;

	foreach(lc, input->fragment->choices->infos)
	{
		PathTarget *target;
		RfRelInfo  *info;
		Path	   *path;

		input_rel->fdw_private = lfirst(lc);
		info = is_whole(lfirst(lc), clause_exprs(root, clause)) ? NULL :
			rf_build_upper(root, UPPERREL_DISTINCT, input_rel, output_rel, NULL, &target);
		if (info == NULL || !grouping_is_hashable(clause))
			continue;
		path = (Path *) rf_create_foreign_upper_path(root, output_rel, target, info->est.rows,
													 info->est.startup_cost, info->est.total_cost,
													 NIL,
													 rf_path_private(info, 0));
		rf_add_path(root, output_rel, (Path *)
					create_agg_path(root, output_rel, path, target, AGG_HASHED, AGGSPLIT_SIMPLE,
									clause, NIL, NULL,
									clamp_row_est(info->est.rows / rf_node_count(info))));
	}
	input_rel->fdw_private = input;
	output_rel->fdw_private = whole;
}

/*
 * Returns true if the rows of several nodes may be merged. Here they are compared by our
 * collations.
 */
static bool
can_merge(PlannerInfo *root, RelOptInfo *rel, List *pathkeys)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	List	   *keys;

	return info->fragment->placement == RF_PLACED_EVERYWHERE ||
		rf_merge_keys(root, rel, info->tlist, pathkeys, &keys);
}

/* Adds paths in which each node sorts its rows and the coordinator merges them. */
static void
add_ordered_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *ordered_rel)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	ListCell   *lc;

	if (root->sort_pathkeys == NIL || !rf_pathkeys_shippable(root, input_rel, root->sort_pathkeys))
		return;
	rf_set_ordered(ordered_rel, input_rel);
	if (input->upper.scan == NULL && !rf_is_set_operation(input))
		return;

	foreach(lc, input->fragment->choices->infos)
	{
		RfRelInfo  *info = (RfRelInfo *) lfirst(lc);
		PathTarget *target;
		RfEstimate	est;

		input_rel->fdw_private = info;
		if (!can_merge(root, input_rel, root->sort_pathkeys))
			continue;
		rf_estimate(root, input_rel, NIL, root->sort_pathkeys, NULL, &est);
		target = rf_upper_target(root, UPPERREL_ORDERED, input_rel, &est);
		rf_add_path(root, ordered_rel, (Path *)
					rf_create_foreign_upper_path(root, input_rel, target,
												 est.rows, est.startup_cost, est.total_cost,
												 root->sort_pathkeys, rf_path_private(info, 0)));
	}
	input_rel->fdw_private = input;
}

/*
 * Each node gives as many rows as there may be, and the coordinator counts. It would lock as many,
 * too: where rows are locked one node has to have them all.
 */
static void
add_limit_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *final_rel,
				FinalPathExtraData *extra)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	Query	   *parse = root->parse;
	RelOptInfo *rel = input_rel;
	List	   *pathkeys = NIL;
	RfRelInfo  *before;
	ListCell   *lc;

	if (input->upper.ordered != NULL)
	{
		rel = input->upper.ordered;
		pathkeys = root->sort_pathkeys;
	}
	if (!rf_limit_is_shippable(root, rel, extra))
		return;

	before = (RfRelInfo *) rel->fdw_private;
	foreach(lc, before->fragment->choices->infos)
	{
		RfRelInfo  *info = (RfRelInfo *) lfirst(lc);
		bool		everywhere = info->fragment->placement == RF_PLACED_EVERYWHERE;
		PathTarget *target;
		RfEstimate	est;
		Path	   *path;

		rel->fdw_private = info;
		if ((pathkeys != NIL && !can_merge(root, rel, pathkeys)) ||
			(root->rowMarks != NIL && !everywhere && rf_single_node_values(info->fragment) == NIL))
			continue;
		rf_estimate(root, rel, NIL, pathkeys, extra, &est);
		target = rf_upper_target(root, UPPERREL_FINAL, rel, &est);
		path = (Path *) rf_create_foreign_upper_path(root, rf_scanned_rel(rel), target, est.rows,
													 est.startup_cost, est.total_cost, pathkeys,
													 rf_path_private(info, RF_PATH_LIMIT));
		if (!everywhere)
			path = (Path *) create_limit_path(root, final_rel, path, parse->limitOffset,
											  parse->limitCount, parse->limitOption,
											  extra->offset_est, extra->count_est);
		rf_add_path(root, final_rel, path);
	}
	rel->fdw_private = before;
}

/*
 * Adds the paths of a stage above an input that runs on several nodes: where the nodes can do all
 * of it, and where they do a part that is finished here.
 */
void
rf_upper_choices(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				 RelOptInfo *output_rel, void *extra)
{
	if (stage != UPPERREL_FINAL && output_rel->fdw_private != NULL)
		return;

	switch (stage)
	{
		case UPPERREL_PARTIAL_GROUP_AGG:
			add_states_path(root, input_rel, output_rel, extra);
			break;
		case UPPERREL_GROUP_AGG:
			add_whole_choices(root, stage, input_rel, output_rel, extra);
			add_partial_paths(root, input_rel, output_rel, (GroupPathExtraData *) extra);
			break;
		case UPPERREL_WINDOW:
			add_whole_choices(root, stage, input_rel, output_rel, extra);
			break;
		case UPPERREL_DISTINCT:
			add_whole_choices(root, stage, input_rel, output_rel, extra);
			add_distinct_paths(root, input_rel, output_rel);
			break;
		case UPPERREL_ORDERED:
			add_ordered_paths(root, input_rel, output_rel);
			break;
		case UPPERREL_FINAL:
			add_limit_paths(root, input_rel, output_rel, (FinalPathExtraData *) extra);
			break;
		default:
			break;
	}
}
