/*
 * partial.c
 *		Aggregates in two steps: data nodes compute transition states of groups, and this node
 *		combines and finishes them, as core does with the states of parallel workers.
 *
 * Decides which aggregates qualify and whether the data node's states are compatible, and does the
 * planner's part: the columns of the partial relation, its scan, and Finalize Aggregate above an
 * Append of such scans.  Core makes these itself for the children of a partitioned table, but only
 * with enable_partitionwise_aggregate, and it is off by default.
 *
 * A state that is also the result (count, sum of integer, min, max) is the plain aggregate's
 * result. Other states are asked for as rdma_internal.partialize(avg(x), NULL::bytea), see
 * serve/partialize.c. States of type internal travel in the form of their serial function. Core's
 * deserial functions trust those bytes, so only formats are accepted that the decoder knows how to
 * check (batch/state.c); all other states, and states of another major version, which may mean
 * something else there, are left to be computed here from all rows.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/selfuncs.h"

#include "rdma_fdw/compat.h"

#include "plan.h"


/* ---------------------------------------------------------------------------------------------
 * Paths
 * ---------------------------------------------------------------------------------------------
 */

typedef struct PartsContext
{
	List	   *grouped;
	List	   *parts;
} PartsContext;

/*
 * The parts of an expression above the grouping: aggregates, and whole grouping expressions. A data
 * node does not return the columns inside of the latter.
 */
static bool
collect_parts(Node *node, PartsContext *cxt)
{
	if (node == NULL || list_member(cxt->grouped, node))
		return false;
	if (IsA(node, Aggref) || IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		cxt->parts = lappend(cxt->parts, node);
		return false;
	}
	return expression_tree_walker(node, collect_parts, cxt);
}

PathTarget *
rf_partial_grouping_target(PlannerInfo *root, PathTarget *grouping_target, Node *having)
{
	PathTarget *target = create_empty_pathtarget();
	List	   *others = NIL;
	PartsContext parts = {NIL, NIL};
	ListCell   *lc;
	int			i = 0;

	foreach(lc, grouping_target->exprs)
	{
		Expr	   *expr = (Expr *) lfirst(lc);
		Index		ref = get_pathtarget_sortgroupref(grouping_target, i++);

		/* all as written, also columns that the planner found redundant: see append_group_by() */
		if (ref != 0 && get_sortgroupref_clause_noerr(ref, root->parse->groupClause) != NULL)
			add_column_to_pathtarget(target, expr, ref);
		else
			others = lappend(others, expr);
	}
	if (having != NULL)
		others = lappend(others, having);
	parts.grouped = target->exprs;
	(void) collect_parts((Node *) others, &parts);
	add_new_columns_to_pathtarget(target, parts.parts);

	foreach(lc, target->exprs)
	{
		Aggref	   *agg = (Aggref *) lfirst(lc);

		if (IsA(agg, Aggref))
		{
			Aggref	   *partial = makeNode(Aggref);

			/* flat, so that the arguments stay equal; core compares them */
			memcpy(partial, agg, sizeof(Aggref));
			mark_partial_aggref(partial, AGGSPLIT_INITIAL_SERIAL);
			lfirst(lc) = partial;
		}
	}
	return set_pathtarget_cost_width(root, target);
}

/* A relation of its own, which nothing finds but paths. */
static RelOptInfo *
partial_rel(RelOptInfo *input_rel, PathTarget *target)
{
	RelOptInfo *rel = makeNode(RelOptInfo);

	rel->reloptkind = RELOPT_OTHER_UPPER_REL;
	rel->relids = input_rel->relids;
	rel->reltarget = target;
	rf_allow_strategies(rel, input_rel);
	return rel;
}

RelOptInfo *
rf_partial_grouped_rel(PlannerInfo *root, RelOptInfo *input_rel, PathTarget *target, void *extra)
{
	RelOptInfo *rel;

	/* rdma_internal.partialize() takes the callback away from relations whose rows it wants */
	if (!rf_is_our_rel(input_rel) || input_rel->fdwroutine->GetForeignUpperPaths == NULL)
		return NULL;

	rel = partial_rel(input_rel, target);
	rel->serverid = input_rel->serverid;
	rel->userid = input_rel->userid;
	rel->useridiscurrent = input_rel->useridiscurrent;
	rel->fdwroutine = input_rel->fdwroutine;
	rel->fdwroutine->GetForeignUpperPaths(root, UPPERREL_PARTIAL_GROUP_AGG, input_rel, rel, extra);
	if (rel->pathlist == NIL)
		return NULL;
	set_cheapest(rel);
	return rel;
}

/* Grouping columns that 16 found redundant need not be compared. */
static List *
group_clause(PlannerInfo *root)
{
#if PG_VERSION_NUM >= 160000
	return root->processed_groupClause;
#else
	return root->parse->groupClause;
#endif
}

void
rf_add_finalize_paths(PlannerInfo *root, RelOptInfo *grouped_rel, Path *partial,
					  GroupPathExtraData *extra)
{
	Query	   *parse = root->parse;
	List	   *clause = group_clause(root);
	List	   *having = (List *) extra->havingQual;
	AggClauseCosts costs = {0};
	double		groups = 1;

	if (parse->hasAggs)
		get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	if (parse->groupClause == NIL)
	{
		rf_add_path(root, grouped_rel, (Path *)
					create_agg_path(root, grouped_rel, partial, grouped_rel->reltarget, AGG_PLAIN,
									AGGSPLIT_FINAL_DESERIAL, NIL, having, &costs, 1));
		return;
	}

	if (clause != NIL)
		groups = estimate_num_groups(root, get_sortgrouplist_exprs(clause, root->processed_tlist),
									 partial->rows, NULL, NULL);
	if ((extra->flags & GROUPING_CAN_USE_HASH) != 0 && clause != NIL)
		rf_add_path(root, grouped_rel, (Path *)
					create_agg_path(root, grouped_rel, partial, grouped_rel->reltarget, AGG_HASHED,
									AGGSPLIT_FINAL_DESERIAL, clause, having, &costs, groups));
	if ((extra->flags & GROUPING_CAN_USE_SORT) != 0)
	{
		if (!pathkeys_contained_in(root->group_pathkeys, partial->pathkeys))
			partial = (Path *) create_sort_path(root, grouped_rel, partial, root->group_pathkeys,
												-1);
		rf_add_path(root, grouped_rel, (Path *)
					create_agg_path(root, grouped_rel, partial, grouped_rel->reltarget, AGG_SORTED,
									AGGSPLIT_FINAL_DESERIAL, clause, having, &costs, groups));
	}
}

/* The target of a parent in terms of its child. */
static PathTarget *
child_target(PlannerInfo *root, RelOptInfo *child, PathTarget *target)
{
	PathTarget *result = copy_pathtarget(target);
	int			count;
	AppendRelInfo **infos = find_appinfos_by_relids(root, child->relids, &count);

	result->exprs = (List *) adjust_appendrel_attrs(root, (Node *) target->exprs, count, infos);
	pfree(infos);
	return result;
}

typedef struct AppendContext
{
	GroupPathExtraData *extra;
	List	   *paths;
	bool		remote;			/* some of them is a scan of ours */
	bool		partitioned;	/* the whole is a partitioned table */
} AppendContext;

static bool append_partial_paths(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
								 AppendContext *cxt);

static bool
append_partial_child(PlannerInfo *root, RelOptInfo *child, PathTarget *target, AppendContext *cxt)
{
	if (child == NULL || IS_DUMMY_REL(child))
		return true;
	return append_partial_paths(root, child, child_target(root, child, target), cxt);
}

/*
 * The states of a partition that is here, or whose data node cannot compute them.  Its paths return
 * the grouping columns: the planner ensures that for partitions.
 */
static Path *
local_partial_path(PlannerInfo *root, RelOptInfo *child, PathTarget *target, AppendContext *cxt)
{
	List	   *clause = group_clause(root);
	Path	   *path = child->cheapest_total_path;
	AggClauseCosts costs = {0};
	RelOptInfo *rel = partial_rel(child, target);
	double		groups = 1;

	if (root->parse->hasAggs)
		get_agg_clause_costs(root, AGGSPLIT_INITIAL_SERIAL, &costs);
	if (root->parse->groupClause == NIL)
		return (Path *) create_agg_path(root, rel, path, target, AGG_PLAIN, AGGSPLIT_INITIAL_SERIAL,
										NIL, NIL, &costs, 1);
	if (clause == NIL || (cxt->extra->flags & GROUPING_CAN_USE_HASH) == 0)
		return NULL;
	groups = estimate_num_groups(
								 root,
								 get_sortgrouplist_exprs(clause,
														 make_tlist_from_pathtarget(target)),
								 path->rows, NULL, NULL);
	return (Path *) create_agg_path(root, rel, path, target, AGG_HASHED, AGGSPLIT_INITIAL_SERIAL,
									clause, NIL, &costs, groups);
}

/* Paths that give the states of all parts of rel.  False: some part cannot. */
static bool
append_partial_paths(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, AppendContext *cxt)
{
	RelOptInfo *partial = rf_partial_grouped_rel(root, rel, target, cxt->extra);
	Path	   *path;
	ListCell   *lc;

	if (partial != NULL)
	{
		cxt->paths = lappend(cxt->paths, partial->cheapest_total_path);
		cxt->remote = true;
		return true;
	}

	/* a partitioned table, or a join of some that was split up */
	if (rel->part_scheme != NULL && rel->nparts > 0 && rel->part_rels != NULL)
	{
		for (int i = 0; i < rel->nparts; i++)
		{
			if (!append_partial_child(root, rel->part_rels[i], target, cxt))
				return false;
		}
		return true;
	}

	/* other parents, and UNION ALL */
	if (IS_SIMPLE_REL(rel) && planner_rt_fetch(rel->relid, root)->inh)
	{
		foreach(lc, root->append_rel_list)
		{
			AppendRelInfo *info = lfirst_node(AppendRelInfo, lc);

			if (info->parent_relid == rel->relid &&
				!append_partial_child(root, root->simple_rel_array[info->child_relid], target, cxt))
				return false;
		}
		return true;
	}

	if (!cxt->partitioned)
		return false;
	path = local_partial_path(root, rel, target, cxt);
	if (path == NULL)
		return false;
	cxt->paths = lappend(cxt->paths, path);
	return true;
}

void
rf_group_over_append(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel,
					 GroupPathExtraData *extra)
{
	AppendContext cxt = {extra, NIL, false, IS_PARTITIONED_REL(input_rel)};
	PathTarget *target;
	double		rows = 0;
	ListCell   *lc;

	/* core's behaviour with the setting, or one server for all of it */
	if (extra->patype != PARTITIONWISE_AGGREGATE_NONE || input_rel->fdw_private != NULL ||
		(extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0 || root->parse->hasTargetSRFs ||
		IS_DUMMY_REL(input_rel))
		return;

	target = rf_partial_grouping_target(root, grouped_rel->reltarget, extra->havingQual);
	if (!append_partial_paths(root, input_rel, target, &cxt) || !cxt.remote)
		return;
	foreach(lc, cxt.paths)
		rows += ((Path *) lfirst(lc))->rows;
	rf_add_finalize_paths(root, grouped_rel,
						  rf_create_append_path(root, partial_rel(input_rel, target), cxt.paths,
												rows),
						  extra);
}
