/*
 * node_plan.c - replaces rdma_internal.exchange() in a query by a custom scan.
 *
 * The function itself only declares its purpose. Wherever it stands in FROM with constant
 * arguments, the planner gets a custom scan instead, with the rows and numbers of distinct values
 * that the coordinator estimated: this node sees its own part of the input only, and the arriving
 * rows come from all nodes. The query inside is planned when the scan starts, by the same cache of
 * statements as rdma_internal.stream's: only then are the parameters' types known, and only a plan
 * that the cache hands out is locked and checked against changes of the catalog.
 *
 * A planner that can prove that a join has no rows leaves its inputs out of the plan. Other nodes
 * may still wait for this node's rows, as their tables differ: so an exchange that is in the
 * statement but not in its plan becomes a sub-plan that nothing refers to. It is started with all
 * the others, driven while others wait, and ended with the statement.
 */
#include "node.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"

PG_FUNCTION_INFO_V1(rdma_exchange);
PG_FUNCTION_INFO_V1(rdma_exchange_support);

/* More than any other cost; the plan without it always exists. */
#define IMPOSSIBLE_COST	1e30

/*
 * Whether the statement that is being planned, which has exchanges, must not run in parallel mode.
 */
static bool planned_is_unsafe = false;

static Plan *plan_exchange(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						   List *clauses, List *plans);

static const CustomPathMethods path_methods = {rf_exchange_name, plan_exchange, NULL};
static const CustomScanMethods scan_methods = {rf_exchange_name, rf_exchange_create_state};

/* Called only if no custom scan could replace it. */
Datum
rdma_exchange(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rdma_internal.exchange cannot be called like other functions"),
			 errhint("It stands in FROM, with constant arguments and a column definition list; "
					 "rdma_fdw must be in shared_preload_libraries.")));
	PG_RETURN_NULL();
}

/*
 * The number of rows. It is needed before the paths of any table are made, because paths that probe
 * an index are priced by the number of probes.
 */
Datum
rdma_exchange_support(PG_FUNCTION_ARGS)
{
	SupportRequestRows *request = (SupportRequestRows *) PG_GETARG_POINTER(0);
	FuncExpr   *call;
	Const	   *spec;

	if (!IsA(request, SupportRequestRows) || !is_funcclause(request->node))
		PG_RETURN_POINTER(NULL);
	call = (FuncExpr *) request->node;
	spec = (Const *) linitial(call->args);
	if (!IsA(spec, Const) || spec->constisnull)
		PG_RETURN_POINTER(NULL);
	request->rows = rf_exchange_spec_parse(TextDatumGetCString(spec->constvalue))->rows;
	PG_RETURN_POINTER(request);
}

/*
 * Returns true for our function, with constant arguments. The name is compared first, which is
 * cheap for all other functions.
 */
static bool
is_exchange(RangeTblEntry *rte, char **spec, char **query)
{
	RangeTblFunction *function;
	FuncExpr   *call;
	char	   *name;
	FmgrInfo	flinfo;

	if (rte->rtekind != RTE_FUNCTION || list_length(rte->functions) != 1 || rte->funcordinality)
		return false;
	function = linitial_node(RangeTblFunction, rte->functions);
	call = (FuncExpr *) function->funcexpr;
	if (!IsA(call, FuncExpr) || call->funcresulttype != RECORDOID || list_length(call->args) != 2 ||
		function->funccoltypes == NIL)
		return false;
	name = get_func_name(call->funcid);
	if (name == NULL || strcmp(name, "exchange") != 0)
		return false;
	fmgr_info(call->funcid, &flinfo);
	if (flinfo.fn_addr != rdma_exchange)
		return false;
	for (int i = 0; i < 2; i++)
	{
		Const	   *argument = (Const *) list_nth(call->args, i);

		if (!IsA(argument, Const) || argument->constisnull)
			return false;
		*(i == 0 ? spec : query) = TextDatumGetCString(argument->constvalue);
	}
	return true;
}

/*
 * Core plans a copy of the query for each MIN and MAX, to take its first row by an index. The plan
 * of such copies would read the exchange several times. A query that only resembles the outer one
 * does not contain the same exchange, whose number is in its arguments.
 */
static bool
is_in_copy(PlannerInfo *root)
{
	for (; root->parent_root != NULL; root = root->parent_root)
	{
		List	   *outer = root->parent_root->parse->rtable;

		if (root->parse->limitCount != NULL &&
			list_length(root->parse->rtable) >= list_length(outer) &&
			equal(list_copy_head(root->parse->rtable, list_length(outer)), outer))
			return true;
	}
	return false;
}

/*
 * Returns true if a worker may decode values of this type. The leader alone may run checks of
 * domains, as in core, and input functions that are not parallel safe.
 */
static bool
is_made_safely(Oid type)
{
	HeapTuple	tuple;
	Form_pg_type form;
	bool		result;

	if (OidIsValid(get_element_type(type)))
		return is_made_safely(get_element_type(type));
	if (type < FirstGenbkiObjectId && type != RECORDOID)
		return true;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	form = (Form_pg_type) GETSTRUCT(tuple);
	result = form->typtype == TYPTYPE_ENUM ||
		(form->typtype == TYPTYPE_BASE && func_parallel(form->typinput) == PROPARALLEL_SAFE &&
		 (!OidIsValid(form->typreceive) || func_parallel(form->typreceive) == PROPARALLEL_SAFE));
	ReleaseSysCache(tuple);
	return result;
}

/*
 * The path for the processes of a Gather: they share rows that the leader keeps, and it moves all
 * that it can before it takes one, so the first row is late. Only this path may run in a worker.
 * The leader stores each row and one of the processes reads it, at half of the cost each; rows
 * beyond work_mem go to disk and back. It has as many workers as a table of this size, but at least
 * one, because a worker cannot join rows of a small exchange to rows of a large one otherwise.
 */
static void
add_shared_path(RelOptInfo *rel, RangeTblEntry *rte, const CustomPath *path)
{
	double		pages = ceil(rel->tuples * (rel->reltarget->width + SizeofHeapTupleHeader) /
							 BLCKSZ);
	double		spilled = Max(rel->tuples * rel->reltarget->width - work_mem * 1024.0, 0) / BLCKSZ;
	Cost		row_costs = path->path.total_cost - path->path.startup_cost;
	Cost		file_costs = spilled * seq_page_cost;
	int			workers;
	double		divisor;
	CustomPath *shared;
	ListCell   *lc;

	if (!rel->consider_parallel || max_parallel_workers_per_gather == 0)
		return;
	foreach(lc, linitial_node(RangeTblFunction, rte->functions)->funccoltypes)
	{
		if (!is_made_safely(lfirst_oid(lc)))
			return;
	}
	workers = Max(compute_parallel_worker(rel, pages, -1, max_parallel_workers_per_gather), 1);
	divisor = rf_parallel_divisor(workers);
	shared = makeNode(CustomPath);
	*shared = *path;
	shared->path.parallel_aware = true;
	shared->path.parallel_safe = true;
	shared->path.parallel_workers = workers;
	shared->path.rows = clamp_row_est(path->path.rows / divisor);
	shared->path.startup_cost += row_costs / 2 + file_costs;
	shared->path.total_cost = shared->path.startup_cost + (row_costs / 2 + file_costs) / divisor;
	add_partial_path(rel, &shared->path);
}

void
rf_exchange_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	char	   *text;
	char	   *query;
	CustomPath *path;

	/*
	 * The planner proved it empty, so not even its columns are known. rf_exchange_plan() makes it
	 * take part nevertheless.
	 */
	if (IS_DUMMY_REL(rel) || !is_exchange(rte, &text, &query))
		return;
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;

	/* The query's cost is the same in every plan; the first row comes once it has made some. */
	path->path.startup_cost = 100 * cpu_tuple_cost;
	if (is_in_copy(root))
		path->path.startup_cost = IMPOSSIBLE_COST;
	path->path.total_cost = path->path.startup_cost + rel->tuples * 4 * cpu_tuple_cost;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make2(makeString(text), makeString(query));
	path->methods = &path_methods;
	rel->pathlist = NIL;
	rel->partial_pathlist = NIL;
	add_path(rel, &path->path);
	add_shared_path(rel, rte, path);
}

/* unsafe: the statement around it must not run in parallel mode. */
static CustomScan *
make_exchange(RangeTblEntry *rte, Index relid, char *text, char *query, bool unsafe)
{
	CustomScan *scan = makeNode(CustomScan);
	ExchangePlan *plan = rf_make_plan_node(ExchangePlan);
	RangeTblFunction *function = linitial_node(RangeTblFunction, rte->functions);

	scan->methods = &scan_methods;
	scan->scan.scanrelid = 0;
	for (int i = 0; i < list_length(function->funccoltypes); i++)
	{
		Var		   *column = makeVar(relid, i + 1, list_nth_oid(function->funccoltypes, i),
									 list_nth_int(function->funccoltypmods, i),
									 list_nth_oid(function->funccolcollations, i), 0);

		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  makeTargetEntry((Expr *) column, i + 1, NULL, false));
	}
	plan->function = castNode(FuncExpr, function->funcexpr)->funcid;
	plan->spec = text;
	plan->query = query;
	plan->unsafe = unsafe;
	scan->custom_private = list_make1(plan);
	return scan;
}

/*
 * Makes the custom scan of an exchange's path. Whole rows are refused, since the function's row
 * type exists on this node only.
 */
static Plan *
plan_exchange(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			  List *plans)
{
	CustomScan *scan = make_exchange(planner_rt_fetch(rel->relid, root), rel->relid,
									 strVal(linitial(path->custom_private)),
									 strVal(lsecond(path->custom_private)), planned_is_unsafe);
	List	   *quals = extract_actual_clauses(clauses, false);
	List	   *used = list_concat(pull_var_clause((Node *) tlist, PVC_RECURSE_PLACEHOLDERS),
								   pull_var_clause((Node *) quals, PVC_RECURSE_PLACEHOLDERS));
	ListCell   *lc;

	foreach(lc, used)
	{
		if (IsA(lfirst(lc), Var) && lfirst_node(Var, lc)->varattno == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("whole rows of an exchange are not supported"),
					 errhint("Name its columns.")));
	}
	scan->flags = path->flags;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = quals;
	scan->custom_relids = bms_make_singleton(rel->relid);
	return &scan->scan.plan;
}

/* ---------- exchanges that the planner left out ---------- */

typedef struct MissingContext
{
	List	   *calls;			/* of the statement: copies of their range table entries */
	Bitmapset  *planned;		/* their numbers that are in a plan */
} MissingContext;

static bool
find_calls(Node *node, MissingContext *context)
{
	char	   *text;
	char	   *query;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		if (is_exchange((RangeTblEntry *) node, &text, &query))
			context->calls = lappend(context->calls, copyObject(node));
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, find_calls, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, find_calls, context);
}

/*
 * Collects the numbers of the exchanges that the plan runs itself, so that the remaining ones can
 * be added.
 */
static void
find_planned(Plan *plan, MissingContext *context)
{
	List	   *children = NIL;
	ListCell   *lc;

	if (plan == NULL)
		return;
	switch (nodeTag(plan))
	{
		case T_CustomScan:
			if (((CustomScan *) plan)->methods == &scan_methods)
			{
				ExchangeSpec *spec = rf_exchange_spec_parse(rf_exchange_plan_of(plan)->spec);

				if (spec->reader == 0)
					context->planned = bms_add_member(context->planned, spec->number);
			}
			children = ((CustomScan *) plan)->custom_plans;
			break;
		case T_Append:
			children = ((Append *) plan)->appendplans;
			break;
		case T_MergeAppend:
			children = ((MergeAppend *) plan)->mergeplans;
			break;
		case T_SubqueryScan:
			find_planned(((SubqueryScan *) plan)->subplan, context);
			break;
		default:
			break;
	}
	foreach(lc, children)
		find_planned((Plan *) lfirst(lc), context);
	find_planned(outerPlan(plan), context);
	find_planned(innerPlan(plan), context);
}

PlannedStmt *
rf_exchange_plan(Query *parse, const char *query_string, int cursor_options, ParamListInfo params,
				 planner_hook_type plan RF_EXPLAIN_PARAM)
{
	MissingContext context = {NIL, NULL};
	PlannedStmt *result;
	bool		around = planned_is_unsafe;
	bool		unsafe;
	ListCell   *lc;

	/* this session runs its next plan before the set ends */
	if (rf_exchange_set != NULL && parse->commandType != CMD_UTILITY)
		(void) find_calls((Node *) parse, &context);
	/* statements that write may not do so while one of its exchanges is in parallel mode */
	unsafe = parse->commandType != CMD_SELECT || parse->hasModifyingCTE ||
		(context.calls != NIL && max_parallel_hazard(parse) == PROPARALLEL_UNSAFE);

	/*
	 * core does not look where it may use no workers itself; after an error the next statement
	 * sets it again
	 */
	planned_is_unsafe = unsafe;
	result = plan(parse, query_string, cursor_options, params RF_EXPLAIN);
	planned_is_unsafe = around;
	if (context.calls == NIL)
		return result;

	find_planned(result->planTree, &context);
	foreach(lc, result->subplans)
		find_planned((Plan *) lfirst(lc), &context);
	foreach(lc, context.calls)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		ExchangeSpec *spec;
		char	   *text;
		char	   *query;

		if (!is_exchange(rte, &text, &query))
			continue;
		spec = rf_exchange_spec_parse(text);
		/* other readers of an exchange may be missing */
		if (spec->reader == 0 && !bms_is_member(spec->number, context.planned))
			result->subplans = lappend(result->subplans,
									   make_exchange(rte, 1, text, query, unsafe));
	}
	return result;
}

bool
rf_exchange_stats(RangeTblEntry *rte, AttrNumber attnum, VariableStatData *vardata)
{
	char	   *text;
	char	   *query;
	ExchangeSpec *spec;

	if (!is_exchange(rte, &text, &query))
		return false;
	spec = rf_exchange_spec_parse(text);
	if (attnum < 1 || attnum > spec->distinct_count || spec->distinct[attnum - 1] <= 0)
		return false;
	rf_set_distinct_stats(vardata, attnum, spec->distinct[attnum - 1], 0);
	return true;
}

/* ---------- the statement's start and end ---------- */

/*
 * While the statement runs, the queries of its exchanges run in the same process. As soon as one of
 * them is in parallel mode, so is the process, and that mode forbids more than parallel workers do
 * (subtransactions of a function, for example). So if one of them is unsafe, all run without
 * workers: its plan, which is cached and not changed, too.
 */
static void
run_serially(QueryDesc *query)
{
	PlannedStmt *serial = makeNode(PlannedStmt);

	*serial = *query->plannedstmt;
	serial->parallelModeNeeded = false;
	query->plannedstmt = serial;
}

void
rf_exchange_started(QueryDesc *query)
{
	if (rf_exchange_set != NULL && rf_exchange_set->estate != NULL &&
		rf_exchange_set->estate == query->estate)
	{
		rf_exchange_inspect(query->planstate, false);
		rf_exchange_link_readers(rf_exchange_set);
		if (rf_exchange_set->serial)
			run_serially(query);
	}
}

void
rf_exchange_finish(QueryDesc *query)
{
	if (rf_exchange_set != NULL && rf_exchange_set->estate != NULL &&
		rf_exchange_set->estate == query->estate)
	{
		/*
		 * A portal is finished without an active snapshot, but queries inside may begin only now.
		 */
		PushActiveSnapshot(query->snapshot);
		rf_exchange_finish_all(rf_exchange_set);
		PopActiveSnapshot();
	}
}

static const RfField plan_fields[] = {
	RF_FIELD(ExchangePlan, function, OID),
	RF_FIELD(ExchangePlan, spec, STRING),
	RF_FIELD(ExchangePlan, query, STRING),
	RF_FIELD(ExchangePlan, unsafe, BOOL),
};

static const RfPlanNode plan_node = RF_PLAN_NODE(ExchangePlan, plan_fields);

void
rf_exchange_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
	rf_plan_nodes_register(&plan_node, 1);
	rf_workers_register();
	rf_stream_acquire = rf_exchange_acquire;
}
