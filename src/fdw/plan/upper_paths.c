/*
 * upper_paths.c
 *		Paths for the statements of upper.c: grouping, windows, DISTINCT, ORDER BY and LIMIT on the
 *		data node. nodes_upper.c makes those over several nodes.
 */
#include "postgres.h"

#include "optimizer/clauses.h"
#include "optimizer/pathnode.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"

/* Adds a path to `rel`; the nodes run the statement of `scanned` for it. */
static void
add_statement_path(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *scanned, PathTarget *target,
				   const RfEstimate *est, List *pathkeys, List *private)
{
	rf_add_path(root, rel, (Path *)
				rf_create_foreign_upper_path(root, scanned, target, est->rows, est->startup_cost,
											 est->total_cost, pathkeys, private));
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
	add_statement_path(root, output_rel, output_rel, target, &info->est, NIL, NIL);
	if (stage != UPPERREL_PARTIAL_GROUP_AGG)
		rf_add_partial_path(root, output_rel, info->upper.scanrel->relids, target, NIL);
}

/* ORDER BY.  A sorted base or join relation already has such a path. */
static void
add_ordered_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *ordered_rel)
{
	RfRelInfo  *input = (RfRelInfo *) input_rel->fdw_private;
	PathTarget *target;
	RfEstimate	est;

	if (ordered_rel->fdw_private != NULL || root->sort_pathkeys == NIL ||
		!rf_pathkeys_shippable(root, input_rel, root->sort_pathkeys))
		return;

	rf_set_ordered(ordered_rel, input_rel);
	if (input->upper.scanrel == NULL && !rf_is_set_operation(input) &&
		pathkeys_contained_in(root->sort_pathkeys, root->query_pathkeys))
		return;

	rf_estimate(root, input_rel, NIL, root->sort_pathkeys, NULL, &est);
	target = rf_upper_target(root, UPPERREL_ORDERED, input_rel, &est);
	add_statement_path(root, ordered_rel, input_rel, target, &est, root->sort_pathkeys, NIL);
}

/* LIMIT and OFFSET, with or without ORDER BY below. */
static void
add_limit_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *final_rel,
			   FinalPathExtraData *extra)
{
	RfRelInfo  *info = (RfRelInfo *) input_rel->fdw_private;
	List	   *pathkeys = NIL;
	RelOptInfo *rel = input_rel;
	PathTarget *target;
	RfEstimate	est;

	if (info->upper.ordered != NULL)
	{
		rel = info->upper.ordered;
		pathkeys = root->sort_pathkeys;
	}
	/* of a partitioned table core has kept only Append paths of its partitions */
	if (!extra->limit_needed && IS_PARTITIONED_REL(rel) && info->select != NULL &&
		info->select->left != NULL && root->parse->sortClause == NIL)
		add_statement_path(root, final_rel, rf_scanned_rel(rel),
						   root->upper_targets[UPPERREL_FINAL], &info->est, NIL,
						   rf_path_private(info, 0));
	if (!rf_limit_is_shippable(root, rel, extra))
		return;

	rf_estimate(root, rel, NIL, pathkeys, extra, &est);
	target = rf_upper_target(root, UPPERREL_FINAL, rel, &est);
	add_statement_path(root, final_rel, rf_scanned_rel(rel), target, &est, pathkeys,
					   rf_path_private((RfRelInfo *) rel->fdw_private, RF_PATH_LIMIT));
}

/*
 * Sub-selects among the columns of a query without grouping and the like, in order and with LIMIT.
 */
static void
add_projected_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *final_rel,
				   FinalPathExtraData *extra)
{
	RfRelInfo  *info = (RfRelInfo *) input_rel->fdw_private;
	List	   *pathkeys = NIL;
	RelOptInfo *rel = input_rel;
	PathTarget *target;
	RfEstimate	est;

	if (info->upper.ordered != NULL)
	{
		rel = info->upper.ordered;
		info = (RfRelInfo *) rel->fdw_private;
		pathkeys = root->sort_pathkeys;
	}
	if (root->rowMarks != NIL || info->upper.scanrel != NULL ||
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
	rf_estimate(root, final_rel, NIL, pathkeys, extra->limit_needed ? extra : NULL, &est);
	add_statement_path(root, final_rel, final_rel, target, &est, pathkeys,
					   rf_path_private(info, extra->limit_needed ? RF_PATH_LIMIT : 0));
}

/*
 * Called by core for each stage above scans and joins. Adds paths if the input is a remote
 * statement and the data node, or each of several, can do the stage.
 */
void
rdmaGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
						 RelOptInfo *output_rel, void *extra)
{
	/*
	 * a step that the data node cannot do ends the series; set-returning functions are computed
	 * here
	 */
	if (rf_push_down != RF_PUSH_DOWN_ALL || input_rel->fdw_private == NULL ||
		root->parse->hasTargetSRFs)
		return;
	/* the last relation of INSERT and the like writes the rows of the relation before it */
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
			__attribute__((fallthrough));
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
