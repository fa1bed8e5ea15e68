/*
 * hooks.c - all hooks of PostgreSQL that this library sets: one function each, which calls the
 * rooms in a fixed order. No other file sets a hook; test/static/rooms.pl checks that.
 *
 * Modules that were loaded before this one come first wherever the order does not matter: they see
 * what core passes on. Where this library changes the input of core, or its result, its part
 * encloses the call of the previous hook.
 *
 * A hook is installed when the library is loaded, not when a session first needs it: how hooks nest
 * then depends on the order of shared_preload_libraries alone.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/serve.h"
#include "rdma_fdw/vector.h"

#include "fdw/catalog/catalog.h"
#include "fdw/exec/exec.h"
#include "fdw/plan/plan.h"
#include "hooks.h"
#include "shmem/arena.h"

static planner_hook_type previous_planner = NULL;
static set_rel_pathlist_hook_type previous_rel_pathlist = NULL;
static set_join_pathlist_hook_type previous_join_pathlist = NULL;
static create_upper_paths_hook_type previous_upper_paths = NULL;
static get_relation_stats_hook_type previous_relation_stats = NULL;
static ExecutorStart_hook_type previous_executor_start = NULL;
static ExecutorRun_hook_type previous_executor_run = NULL;
static ExecutorFinish_hook_type previous_executor_finish = NULL;
static ProcessUtility_hook_type previous_process_utility = NULL;
static object_access_hook_type previous_object_access = NULL;
static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/* ---------- planning ---------- */

static PlannedStmt *
plan_next(Query *query, const char *source, int options, ParamListInfo params RF_EXPLAIN_PARAM)
{
	return previous_planner ? previous_planner(query, source, options, params RF_EXPLAIN) :
		standard_planner(query, source, options, params RF_EXPLAIN);
}

/*
 * Plans one form of a statement. rdma_internal.partialize() gives way to its aggregate before core
 * sees it, and the plan's aggregates are changed directly afterwards, while each is where core put
 * it. Looking ahead moves expressions between the nodes of the finished plan, so it comes last.
 */
static PlannedStmt *
plan_form(Query *query, const char *source, int options, ParamListInfo params RF_EXPLAIN_PARAM)
{
	uint64		lookups = rf_batch_statements;
	CmdType		command = query->commandType;
	PlannedStmt *plan = rf_partialize_plan(query, source, options, params, plan_next RF_EXPLAIN);

	rf_look_ahead(plan, command, options, lookups);
	return plan;
}

static PlannedStmt *
plan_forms(Query *query, const char *source, int options, ParamListInfo params RF_EXPLAIN_PARAM)
{
	return rf_plan_forms(query, source, options, params, plan_form RF_EXPLAIN);
}

/*
 * Exchanges enclose the rest: they are found in the statement as it was sent, and those that the
 * chosen plan does not have are added to it, whichever form it is of.
 */
static PlannedStmt *
plan_statement(Query *query, const char *source, int options, ParamListInfo params RF_EXPLAIN_PARAM)
{
	return rf_exchange_plan(query, source, options, params, plan_forms RF_EXPLAIN);
}

/*
 * Subqueries and parents of tables are not foreign tables to core, so it asks no wrapper about
 * them. rdma_internal.partialize() hides what a wrapper could compute above the relation before
 * anything asks the wrapper. When the last base relation has its paths, all have: then tables and
 * local rows are given to other servers. The functions that stand for rows of other nodes get their
 * only path.
 */
static void
rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (previous_rel_pathlist)
		previous_rel_pathlist(root, rel, rti, rte);
	rf_partialize_rel(rel);
	if (rf_push_down == RF_PUSH_DOWN_ALL)
	{
		rf_select_paths(root, rel, rte);
		if (rti == bms_prev_member(root->all_baserels, -1))
		{
			rf_place_tables_of_nodes(root);
			rf_place_local_rows(root);
		}
	}
	rf_exchange_paths(root, rel, rte);
	rf_store_paths(rel, rte);
}

/* Joins of a foreign table with anything else; index probes of a data node in the index's order. */
static void
join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
			  JoinType jointype, JoinPathExtraData *extra)
{
	if (previous_join_pathlist)
		previous_join_pathlist(root, joinrel, outerrel, innerrel, jointype, extra);
	if (rf_is_grouped_early(joinrel))
		return;
	if (rf_push_down == RF_PUSH_DOWN_ALL)
	{
		rf_note_unasked_join(root, joinrel, outerrel, innerrel);
		rf_lookup_paths(root, joinrel, outerrel, innerrel, jointype, extra);
	}
	rf_exchange_join_paths(root, joinrel, outerrel, innerrel, jointype, extra);
}

/* Core asks a wrapper only if all input rows come from one of its servers. */
static void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
			RelOptInfo *output_rel, void *extra)
{
	if (previous_upper_paths)
		previous_upper_paths(root, stage, input_rel, output_rel, extra);
	if (rf_push_down == RF_PUSH_DOWN_ALL && stage == UPPERREL_SETOP)
		rf_set_operation_paths(root, output_rel);
	if (rf_push_down == RF_PUSH_DOWN_ALL && stage == UPPERREL_GROUP_AGG)
		rf_group_over_append(root, input_rel, output_rel, (GroupPathExtraData *) extra);
	rf_exchange_upper_paths(root, stage, input_rel, output_rel, extra);
}

/* A column of a function's rows: at most one of these knows it. */
static bool
relation_stats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attnum, VariableStatData *vardata)
{
	return (previous_relation_stats && previous_relation_stats(root, rte, attnum, vardata)) ||
		rf_array_stats(rte, attnum, vardata) || rf_exchange_stats(rte, attnum, vardata);
}

/* ---------- execution ---------- */

/*
 * A reader's statement starts under the snapshot that was kept for it, and so do the queries of its
 * exchanges. They are found, and rows of rdma_internal.store() are told to come together, in the
 * state that core made; then scans in it change to columns.
 */
static void
executor_start(QueryDesc *query, int eflags)
{
	bool		kept = rf_kept_snapshot_start(query);

	if (previous_executor_start)
		previous_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	rf_exchange_started(query);
	rf_store_started(query);
	rf_columns_started(query, eflags);
	if (kept)
		rf_kept_snapshot_started(query);
}

/*
 * Writes that wait in buffers are done before the run's rows are counted, while the snapshot of the
 * statement is active.
 */
static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count RF_EXECUTE_ONCE_PARAM)
{
	bool		kept = rf_kept_snapshot_run(query);
	RfWholeRun	around;

	rf_scan_run_begins(&around, query, count);
	PG_TRY();
	{
		if (previous_executor_run)
			previous_executor_run(query, direction, count RF_EXECUTE_ONCE);
		else
			standard_ExecutorRun(query, direction, count RF_EXECUTE_ONCE);
	}
	PG_FINALLY();
	{
		rf_scan_run_ended(&around);
	}
	PG_END_TRY();
	rf_finish_loads(query->estate);
	if (kept)
		PopActiveSnapshot();
}

/*
 * Queries of exchanges may still have rows for other nodes. Triggers that fire here may write:
 * their rows leave afterwards.
 */
static void
executor_finish(QueryDesc *query)
{
	rf_exchange_finish(query);
	if (previous_executor_finish)
		previous_executor_finish(query);
	else
		standard_ExecutorFinish(query);
	rf_finish_loads(query->estate);
}

/* ---------- commands ---------- */

/*
 * What has to be known before the command runs: errors come before any state is set. Afterwards, in
 * the reverse order: COPY's count, the nodes' tables, and the end of a prepared transaction, which
 * holds once it is committed.
 */
static void
run_utility(PlannedStmt *planned, const char *source, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
			DestReceiver *dest, QueryCompletion *completion)
{
	Node	   *statement = planned->utilityStmt;
	const Node *around = rf_running_command;
	RfPreparedEnd prepared;
	RfDdlCommand ddl;
	RfCopyCommand copy;

	rf_part_log_begin(&prepared, statement);
	rf_permit_label(statement);
	rf_ddl_begin(&ddl, statement, context);
	rf_copy_begin(&copy, statement);
	PG_TRY();
	{
		rf_running_command = statement;
		if (previous_process_utility)
			previous_process_utility(planned, source, read_only_tree, context, params,
									 environment, dest, completion);
		else
			standard_ProcessUtility(planned, source, read_only_tree, context, params,
									environment, dest, completion);
	}
	PG_FINALLY();
	{
		rf_running_command = around;
		rf_copy_end(&copy);
		rf_ddl_end(&ddl);
	}
	PG_END_TRY();
	rf_copy_count(&copy, completion);
	rf_ddl_propagate(&ddl, statement);
	rf_part_log_ended(&prepared);
}

/* A command that core would refuse for a distributed table is run in steps. */
static void
process_utility(PlannedStmt *planned, const char *source, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	List	   *steps = rf_ddl_steps(planned);
	ListCell   *lc;

	if (steps == NIL && !rf_ddl_on_nodes(planned, source, context))
		run_utility(planned, source, read_only_tree, context, params, environment, dest,
					completion);
	foreach(lc, steps)
	{
		PlannedStmt *step = lfirst_node(PlannedStmt, lc);
		bool		first = foreach_current_index(lc) == 0;
		bool		pushed = !first && !ActiveSnapshotSet();

		if (!first)
			CommandCounterIncrement();
		/* The portal's snapshot is gone if the step before, a VACUUM, has used transactions. */
		if (pushed)
			PushActiveSnapshot(GetTransactionSnapshot());
		if (!rf_ddl_on_nodes(step, source, context))
			run_utility(step, source, read_only_tree, context, params, environment, dest,
						completion);
		if (pushed && ActiveSnapshotSet())
			PopActiveSnapshot();
	}
}

/* Each looks at other objects, or only notes what it sees. */
static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (previous_object_access)
		previous_object_access(access, class_id, object_id, sub_id, arg);
	rf_ddl_object_access(access, class_id, object_id, sub_id);
	rf_commit_object_access(access, class_id, object_id);
}

/* ---------- shared memory ---------- */

static void
shmem_request(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	rf_arena_request();
	rf_commit_shmem_request();
	rf_gate_shmem_request();
	rf_waiting_shmem_request();
	rf_moves_shmem_request();
	rf_part_log_shmem_request();
}

static void
shmem_startup(void)
{
	if (previous_shmem_startup)
		previous_shmem_startup();
	rf_arena_startup();
	rf_commit_shmem_startup();
	rf_gate_shmem_startup();
	rf_waiting_shmem_startup();
	rf_moves_shmem_startup();
	rf_part_log_shmem_startup();
}

/* ---------- all of them ---------- */

void
rf_install_hooks(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_statement;
	previous_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = rel_pathlist;
	previous_join_pathlist = set_join_pathlist_hook;
	set_join_pathlist_hook = join_pathlist;
	previous_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
	previous_relation_stats = get_relation_stats_hook;
	get_relation_stats_hook = relation_stats;
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	previous_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	previous_object_access = object_access_hook;
	object_access_hook = object_access;
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = shmem_request;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}
