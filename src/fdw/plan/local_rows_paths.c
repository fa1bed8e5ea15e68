/*
 * local_rows_paths.c
 *		The custom path of a statement that gets rows of this node (local_rows.c), and its plan.
 *
 * Its first child runs the statement, maybe with sorting, grouping or a limit above it. The second
 * gives the same rows in another way, without sending any: an estimate of how many there are may be
 * wrong. The remaining children are the paths of the relations whose rows are sent.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"

#include "rdma_fdw/compat.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

static Plan *plan_local_rows(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
							 List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {RF_LOCAL_ROWS_NAME, plan_local_rows, NULL};

/*
 * The statement waits for the rows, and estimates are rough: it must be worth so many round trips.
 */
#define LEAST_GAIN		1.0

Path *
rf_cheapest_path(RelOptInfo *rel)
{
	Path	   *best = NULL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = (Path *) lfirst(lc);

		if (path->param_info == NULL && (best == NULL || path->total_cost < best->total_cost))
			best = path;
	}
	return best;
}

/* The only input of a path; NULL if it has no input, or several. */
static Path *
input_of(Path *path)
{
	switch (nodeTag(path))
	{
		case T_AggPath:
			return ((AggPath *) path)->subpath;
		case T_GroupPath:
			return ((GroupPath *) path)->subpath;
		case T_GroupingSetsPath:
			return ((GroupingSetsPath *) path)->subpath;
		case T_WindowAggPath:
			return ((WindowAggPath *) path)->subpath;
		case T_SortPath:
			return ((SortPath *) path)->subpath;
		case T_IncrementalSortPath:
			return ((IncrementalSortPath *) path)->spath.subpath;
		case T_LimitPath:
			return ((LimitPath *) path)->subpath;
		case T_ProjectionPath:
			return ((ProjectionPath *) path)->subpath;
		default:
			return NULL;
	}
}

/* The statement below the path; NULL if there is no statement. */
static RfRelInfo *
statement_of(Path *path)
{
	while (input_of(path) != NULL)
		path = input_of(path);
	return IsA(path, ForeignPath) ? rf_path_info((ForeignPath *) path) : NULL;
}

/*
 * The planner frees paths that it finds better paths for, but not the paths below them. NULL:
 * unknown.
 */
static Path *
copy_path(Path *path)
{
	Size		size;
	Path	   *copy;

	switch (nodeTag(path))
	{
		case T_NestPath:
			size = sizeof(NestPath);
			break;
		case T_MergePath:
			size = sizeof(MergePath);
			break;
		case T_HashPath:
			size = sizeof(HashPath);
			break;
		case T_AggPath:
			size = sizeof(AggPath);
			break;
		case T_GroupPath:
			size = sizeof(GroupPath);
			break;
		case T_GroupingSetsPath:
			size = sizeof(GroupingSetsPath);
			break;
		case T_WindowAggPath:
			size = sizeof(WindowAggPath);
			break;
		case T_SortPath:
			size = sizeof(SortPath);
			break;
		case T_IncrementalSortPath:
			size = sizeof(IncrementalSortPath);
			break;
		case T_LimitPath:
			size = sizeof(LimitPath);
			break;
		case T_ProjectionPath:
			size = sizeof(ProjectionPath);
			break;
		default:
			return NULL;
	}
	copy = palloc(size);
	memcpy(copy, path, size);
	return copy;
}

static bool
sends_local_rows(Path *path)
{
	return IsA(path, CustomPath) && ((CustomPath *) path)->methods == &path_methods;
}

/* Returns true if there is such a path below it. */
static bool
has_local_rows(Path *path)
{
	while (input_of(path) != NULL)
		path = input_of(path);
	return sends_local_rows(path);
}

/*
 * The relation's cheapest path with these columns that does not send the rows itself, if possible
 * without any that does below; NULL if there is no such path.
 */
static Path *
path_instead(RelOptInfo *rel, PathTarget *target)
{
	Path	   *best = NULL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = (Path *) lfirst(lc);

		if (sends_local_rows(path))
			path = lsecond(((CustomPath *) path)->custom_paths);
		if (path->param_info != NULL || !equal(path->pathtarget->exprs, target->exprs) ||
			(best != NULL && (has_local_rows(path) != has_local_rows(best) ? has_local_rows(path) :
							  path->total_cost >= best->total_cost)))
			continue;
		path = copy_path(path);
		if (path != NULL)
			best = path;
	}
	return best;
}

/* It gives the same rows in the order of these keys. */
static Path *
in_order(PlannerInfo *root, RelOptInfo *rel, Path *path, List *pathkeys)
{
	return pathkeys_contained_in(pathkeys, path->pathkeys) ? path :
		(Path *) create_sort_path(root, rel, path, pathkeys, -1);
}

void
rf_add_path(PlannerInfo *root, RelOptInfo *rel, Path *path)
{
	RfRelInfo  *info = statement_of(path);
	Path	   *instead;
	CustomPath *custom;
	ListCell   *lc;

	if (info == NULL || info->local_rels == NIL)
	{
		add_path(rel, path);
		return;
	}
	instead = path_instead(rel, path->pathtarget);
	if (instead == NULL ||
		(!has_local_rows(instead) &&
		 path->total_cost + LEAST_GAIN * info->opts.fdw_startup_cost > instead->total_cost))
		return;
	custom = makeNode(CustomPath);
	custom->path.pathtype = T_CustomScan;
	custom->path.parent = rel;
	custom->path.pathtarget = path->pathtarget;
	custom->path.rows = path->rows;
	custom->path.startup_cost = path->startup_cost;
	custom->path.total_cost = path->total_cost;
	custom->path.pathkeys = path->pathkeys;
	custom->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	custom->methods = &path_methods;
	custom->custom_paths = list_make2(path, in_order(root, rel, instead, path->pathkeys));
	rf_custom_join_path(custom, path, NIL);
	foreach(lc, info->local_rels)
		custom->custom_paths = lappend(custom->custom_paths,
									   rf_cheapest_path(lfirst_node(RelOptInfo, lc)));
	add_path(rel, (Path *) custom);
}

/* ---------- plan ---------- */

/*
 * Adds the place of the column with this number among the plans of the relations, and in its plan.
 */
static void
add_column(List *plans, int paramid, RfLocalRowsPlan *to)
{
	ListCell   *plan;
	ListCell   *lc;

	foreach(plan, plans)
	{
		foreach(lc, ((Plan *) lfirst(plan))->targetlist)
		{
			Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

			if (!IsA(var, Var) || RF_LOCAL_PARAM(var->varno, var->varattno) != paramid)
				continue;
			to->inputs = lappend_int(to->inputs, foreach_current_index(plan));
			to->columns = lappend_int(to->columns, foreach_current_index(lc));
			return;
		}
	}
	elog(ERROR, "a column of the local rows is missing in their plans");
}

/* Adds the subqueries of this query level that the plan scans, RelOptInfos. */
static void
add_scanned_subqueries(PlannerInfo *root, Plan *plan, List **subqueries)
{
	List	   *children = NIL;
	ListCell   *lc;

	if (plan == NULL)
		return;
	switch (nodeTag(plan))
	{
		case T_SubqueryScan:
			*subqueries = lappend(*subqueries,
								  root->simple_rel_array[((SubqueryScan *) plan)->scan.scanrelid]);
			return;
		case T_Append:
			children = ((Append *) plan)->appendplans;
			break;
		case T_MergeAppend:
			children = ((MergeAppend *) plan)->mergeplans;
			break;
		case T_CustomScan:
			children = ((CustomScan *) plan)->custom_plans;
			break;
		default:
			break;
	}
	foreach(lc, children)
		add_scanned_subqueries(root, lfirst(lc), subqueries);
	add_scanned_subqueries(root, outerPlan(plan), subqueries);
	add_scanned_subqueries(root, innerPlan(plan), subqueries);
}

/* The statement, the plan that runs instead, and the plans that give the rows. */
static Plan *
plan_local_rows(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
				List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	RfLocalRowsPlan *ours = rf_make_plan_node(RfLocalRowsPlan);
	Plan	   *statement = linitial(custom_plans);
	List	   *columns = NIL;
	List	   *subqueries = NIL;
	ListCell   *lc;

	foreach(lc, statement->targetlist)
	{
		TargetEntry *tle = copyObject(lfirst_node(TargetEntry, lc));

		tle->resjunk = false;
		columns = lappend(columns, tle);
	}
	while (!IsA(statement, ForeignScan))
		statement = outerPlan(statement);
	foreach(lc, custom_plans)
		add_scanned_subqueries(root, lfirst(lc), &subqueries);
	rf_subqueries_are_remote(statement_of(linitial(path->custom_paths)), subqueries);

	scan->methods = GetCustomScanMethods(RF_LOCAL_ROWS_NAME, false);
	scan->flags = path->flags;
	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->custom_scan_tlist = columns;
	scan->custom_plans = custom_plans;
	foreach(lc, rf_scan_plan((ForeignScan *) statement)->local_params)
		add_column(list_copy_tail(custom_plans, 2), lfirst_int(lc), ours);
	scan->custom_private = list_make1(ours);
	return &scan->scan.plan;
}
