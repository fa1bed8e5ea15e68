/*
 * local_rows_paths.c
 *		The custom path of a statement that gets rows of this node (local_rows.c), and its plan.
 *
 * Its first child runs the statement, maybe with sorting, grouping or a limit above it. The
 * remaining children are the paths of the relations whose rows are sent.
 */
#include "postgres.h"

#include "access/transam.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"

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

void
rf_add_path(PlannerInfo *root, RelOptInfo *rel, Path *path)
{
	RfRelInfo  *info = statement_of(path);
	CustomPath *custom;
	ListCell   *lc;

	if (info == NULL || info->local_rels == NIL)
	{
		add_path(rel, path);
		return;
	}
	custom = makeNode(CustomPath);
	custom->path.pathtype = T_CustomScan;
	custom->path.parent = rel;
	custom->path.pathtarget = path->pathtarget;
	custom->path.rows = path->rows;
	custom->path.startup_cost = path->startup_cost + LEAST_GAIN * info->opts.fdw_startup_cost;
	custom->path.total_cost = path->total_cost + LEAST_GAIN * info->opts.fdw_startup_cost;
	custom->path.pathkeys = path->pathkeys;
	custom->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	custom->methods = &path_methods;
	custom->custom_paths = list_make1(path);
	rf_custom_join_path(custom, path, NIL);
	foreach(lc, info->local_rels)
		custom->custom_paths = lappend(custom->custom_paths,
									   rf_cheapest_path(lfirst_node(RelOptInfo, lc)));
	add_path(rel, (Path *) custom);
}

/* ---------- plan ---------- */

/*
 * Adds the column with this number to those of its relation, in whose plan it is found, and their
 * places to the plan's.
 */
static void
add_column(List *plans, int paramid, List **columns, RfLocalRowsPlan *to)
{
	ListCell   *plan;
	ListCell   *lc;

	foreach(plan, plans)
	{
		int			input = foreach_current_index(plan);

		foreach(lc, ((Plan *) lfirst(plan))->targetlist)
		{
			Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

			if (!IsA(var, Var) || RF_LOCAL_PARAM(var->varno, var->varattno) != paramid)
				continue;
			to->inputs = lappend_int(to->inputs, input);
			to->columns = lappend_int(to->columns, list_length(columns[input]));
			columns[input] = lappend(columns[input],
									 makeTargetEntry(copyObject((Expr *) var),
													 list_length(columns[input]) + 1, NULL,
													 false));
			return;
		}
	}
	elog(ERROR, "a column of the local rows is missing in their plans");
}

static bool
is_users_function(Oid function, void *context)
{
	return function >= FirstGenbkiObjectId;
}

/* Returns true for code that may use a session: of users, or of plans that are run by need. */
static bool
may_ask(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) || IsA(node, CoerceToDomain) ||
		(IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC))
		return true;
	return check_functions_in_node(node, is_users_function, NULL) ||
		expression_tree_walker(node, may_ask, context);
}

/* A plan that can be read while the statement runs. */
static bool
is_read_on(Plan *plan)
{
	return IsA(plan, SeqScan) && !may_ask((Node *) plan->qual, NULL);
}

/*
 * The places of the statement's columns of local rows. Their plans return just these, in the order
 * in which the statement names them, because an exchange has them so.
 */
static void
arrange_columns(ForeignScan *statement, List *plans, RfLocalRowsPlan *ours)
{
	List	  **columns = palloc0_array(List *, list_length(plans));
	ListCell   *lc;

	foreach(lc, rf_scan_plan(statement)->local_params)
		add_column(plans, lfirst_int(lc), columns, ours);
	foreach(lc, plans)
	{
		Plan	   *plan = (Plan *) lfirst(lc);

		plan = change_plan_targetlist(plan, columns[foreach_current_index(lc)],
									  plan->parallel_safe);
		lfirst(lc) = is_read_on(plan) ? plan : materialize_finished_plan(plan);
	}
}

/* The statement, and the plans that give the rows. */
static Plan *
plan_local_rows(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
				List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	RfLocalRowsPlan *ours = rf_make_plan_node(RfLocalRowsPlan);
	Plan	   *statement = linitial(custom_plans);
	List	   *columns = NIL;
	List	   *inputs;
	ListCell   *lc;

	foreach(lc, statement->targetlist)
	{
		TargetEntry *tle = copyObject(lfirst_node(TargetEntry, lc));

		tle->resjunk = false;
		columns = lappend(columns, tle);
	}
	while (!IsA(statement, ForeignScan))
		statement = outerPlan(statement);

	scan->methods = GetCustomScanMethods(RF_LOCAL_ROWS_NAME, false);
	scan->flags = path->flags;
	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->custom_scan_tlist = columns;
	inputs = list_copy_tail(custom_plans, 1);
	arrange_columns((ForeignScan *) statement, inputs, ours);
	ours->by_flow = rf_divides_local(statement_of(linitial(path->custom_paths)));
	scan->custom_plans = lcons(linitial(custom_plans), inputs);
	scan->custom_private = list_make1(ours);
	return &scan->scan.plan;
}
