/*
 * scan_exec.c - running a foreign scan: batches of a remote stream become rows in the scan's slot.
 *
 * The remote query starts with the first row that is asked for. Rows are read in place: a slot's
 * by-reference values point into the batch, which stays until the next row of another batch is
 * asked for. Planning is scan_plan.c's, the connection and the stream remote/'s, the bytes batch/'s
 * business.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "scan_state.h"

dlist_head	rf_open_scans = DLIST_STATIC_INIT(rf_open_scans);
uint64		rf_scan_starts = 0;

/*
 * The executor state whose plan runs to its end in one go, NULL when rows are taken in portions
 * (cursors, SQL functions).
 */
static EState *whole_run = NULL;
static PlanState *early_start = NULL;	/* that plan, until its first scan has started */
static ExecutorRun_hook_type previous_executor_run = NULL;

static void watch_executor(void);
static void query_memory_gone(void *arg);
static TupleDesc with_row_types(TupleDesc desc, ForeignScan *plan, EState *estate);
static TupleDesc with_ctid(TupleDesc desc);
static void set_up_columns(RfScanState *state, TupleDesc desc, List *attrs);
static void set_up_params(RfScanState *state, ForeignScanState *node, ForeignScan *plan);
static TupleTableSlot *iterate_merge(ForeignScanState *node, RfScanState *state);
static void start_once(RfScanState *state);
static bool next_batch(ForeignScanState *node, RfScanState *state);
static void start_part(RfScanPart *part);
static bool rows_may_stay_in_place(RfScanState *state);
static void batch_moved(void *owner, const void *batch, uint32 length);
static void evaluate_params(ForeignScanState *node, RfScanState *state);

/* Names the column as the query does, in the words of postgres_fdw. */
void
rf_scan_error_context(void *arg, int i)
{
	RfScanState *state = arg;
	ForeignScan *plan = (ForeignScan *) state->scan->ss.ps.plan;
	int			attno = list_nth_int(rf_scan_attrs(plan), i);
	Var		   *var = NULL;
	RangeTblEntry *rte;
	Index		relid = plan->scan.scanrelid;
	int			column = attno;

	if (relid == 0 && attno > 0 && attno <= list_length(plan->fdw_scan_tlist))
	{
		var = (Var *) list_nth_node(TargetEntry, plan->fdw_scan_tlist, attno - 1)->expr;
		if (IsA(var, Var))
		{
			relid = var->varno;
			column = var->varattno;
		}
	}
	if (relid == 0)
	{
		errcontext("processing expression at position %d in select list", attno);
		return;
	}
	rte = exec_rt_fetch(relid, state->estate);
	if (column == 0)
		errcontext("whole-row reference to foreign table \"%s\"", rte->eref->aliasname);
	else if (column == SelfItemPointerAttributeNumber)
		errcontext("column \"ctid\" of foreign table \"%s\"", rte->eref->aliasname);
	else if (column > 0 && column <= list_length(rte->eref->colnames))
		errcontext("column \"%s\" of foreign table \"%s\"",
				   strVal(list_nth(rte->eref->colnames, column - 1)), rte->eref->aliasname);
}

/* Others than ctid and tableoid, which the slot holds. */
static bool
uses_system_columns(ForeignScan *plan)
{
	static const AttrNumber absent[] = {
		MinTransactionIdAttributeNumber, MinCommandIdAttributeNumber,
		MaxTransactionIdAttributeNumber, MaxCommandIdAttributeNumber
	};
	Index		relid = plan->scan.scanrelid;
	Bitmapset  *used = NULL;

	if (!plan->fsSystemCol)
		return false;
	pull_varattnos((Node *) plan->scan.plan.targetlist, relid, &used);
	pull_varattnos((Node *) plan->scan.plan.qual, relid, &used);
	for (int i = 0; i < lengthof(absent); i++)
	{
		if (bms_is_member(absent[i] - FirstLowInvalidHeapAttributeNumber, used))
			return true;
	}
	return false;
}

void
rdmaBeginForeignScan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	TupleDesc	desc = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	RfScanState *state;
	ListCell   *lc;

	rf_explain_prepare(plan);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	watch_executor();
	state = palloc0(sizeof(RfScanState));
	state->context = estate->es_query_cxt;
	state->scan = node;
	state->estate = estate;
	state->userid = rf_scan_userid(plan);
	state->relation = rf_scan_relation(plan);
	state->expected_rows = rf_scan_expected_rows(plan);
	state->fetch = rf_scan_fetch_options(plan);
	if (state->fetch.receive_buffers < 0)
		state->fetch.receive_buffers = rf_receive_buffers;
	if (state->fetch.receive_buffer_size < 0)
		state->fetch.receive_buffer_size = rf_receive_buffer_size * 1024;
	if (state->fetch.inline_limit < 0)
		state->fetch.inline_limit = rf_inline_limit * 1024;
	state->fetch.receive_buffer_size = TYPEALIGN(4096, state->fetch.receive_buffer_size);

	desc = with_row_types(desc, plan, estate);
	set_up_columns(state, desc, rf_scan_attrs(plan));
	set_up_params(state, node, plan);
	if (state->has_ctid)
		desc = with_ctid(desc);
	state->decoder = rf_decoder_create(desc, state->column_count, state->attnums, state->relation,
									   state->fetch.trusted);
	rf_decoder_set_context(state->decoder, rf_scan_error_context, state);
	foreach(lc, rf_scan_states(plan))
	{
		if (OidIsValid(lfirst_oid(lc)))
			rf_decoder_expect_state(state->decoder, foreach_current_index(lc), lfirst_oid(lc));
	}
	state->need_batch = true;
	state->has_system_columns = uses_system_columns(plan);
	state->plain_slot = TTS_IS_HEAPTUPLE(node->ss.ss_ScanTupleSlot) && !state->has_ctid &&
		!state->has_system_columns;
	if (rf_scan_nodes(plan) != NIL)
		rf_scan_nodes_begin(state, plan, desc);
	else
	{
		state->part_count = 1;
		state->parts = palloc0(sizeof(RfScanPart));
		state->parts->scan = state;
		state->reader_count = 1;
		state->parts->serverid = plan->fs_server;
		state->parts->sql = rf_scan_sql(plan);
		state->parts->decoder = state->decoder;
	}

	dlist_push_tail(&rf_open_scans, &state->node);
	state->gone.func = query_memory_gone;
	state->gone.arg = state;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &state->gone);
	node->fdw_state = state;
}

/* After an error nobody calls End; the query's memory goes nevertheless. */
static void
query_memory_gone(void *arg)
{
	RfScanState *state = arg;

	if (state->node.next != NULL)
		dlist_delete(&state->node);
	state->node.next = NULL;
	for (int i = 0; i < state->part_count; i++)
	{
		if (state->parts[i].stream)
			rf_stream_orphan(state->parts[i].stream);
		state->parts[i].stream = NULL;
	}
}

/*
 * Whether a query runs in one go is known to ExecutorRun only. Hooked by the first scan of a
 * backend: its ExecutorRun is still to come.
 */
static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count
#if PG_VERSION_NUM < 180000
			 ,bool execute_once
#endif
)
{
	EState	   *saved = whole_run;
	PlanState  *saved_plan = early_start;

	whole_run = count == 0 ? query->estate : NULL;
	early_start = count == 0 ? query->planstate : NULL;
	PG_TRY();
	{
#if PG_VERSION_NUM >= 180000
		if (previous_executor_run)
			previous_executor_run(query, direction, count);
		else
			standard_ExecutorRun(query, direction, count);
#else
		if (previous_executor_run)
			previous_executor_run(query, direction, count, execute_once);
		else
			standard_ExecutorRun(query, direction, count, execute_once);
#endif
	}
	PG_FINALLY();
	{
		whole_run = saved;
		early_start = saved_plan;
	}
	PG_END_TRY();
}

static void
watch_executor(void)
{
	static bool watching = false;

	if (watching)
		return;
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	watching = true;
}

/* ---------- set-up ---------- */

/*
 * The planner asks for the old row of an UPDATE's target as a record of no definite type; what comes
 * is one of the table.
 */
static TupleDesc
with_row_types(TupleDesc desc, ForeignScan *plan, EState *estate)
{
	TupleDesc	result = desc;
	ListCell   *lc;

	foreach(lc, plan->fdw_scan_tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		/* nobody looks at the whole row of a sub-select */
		if (!IsA(var, Var) || var->varattno != 0 || var->vartype != RECORDOID ||
			exec_rt_fetch(var->varno, estate)->rtekind != RTE_RELATION)
			continue;
		if (result == desc)
			result = CreateTupleDescCopy(desc);
		TupleDescInitEntry(result, tle->resno, NameStr(TupleDescAttr(desc, tle->resno - 1)->attname),
						   get_rel_type_id(exec_rt_fetch(var->varno, estate)->relid), -1, 0);
	}
	return result;
}

/* A row type with ctid as one more column. */
static TupleDesc
with_ctid(TupleDesc desc)
{
	TupleDesc	extended = CreateTemplateTupleDesc(desc->natts + 1);

	for (int i = 1; i <= desc->natts; i++)
		TupleDescCopyEntry(extended, i, desc, i);
	TupleDescInitEntry(extended, desc->natts + 1, "ctid", TIDOID, -1, 0);
	return extended;
}

static void
set_up_columns(RfScanState *state, TupleDesc desc, List *attrs)
{
	ListCell   *lc;
	int			i = 0;

	state->column_count = list_length(attrs);
	state->attnums = palloc(sizeof(AttrNumber) * Max(state->column_count, 1));
	state->columns = palloc0(sizeof(RfStreamColumn) * Max(state->column_count, 1));
	state->natts = desc->natts;
	state->by_value = true;

	foreach(lc, attrs)
	{
		int			attno = lfirst_int(lc);
		Oid			type = TIDOID;
		int32		typmod = -1;

		if (attno == SelfItemPointerAttributeNumber)
		{
			state->has_ctid = true;
			state->attnums[i] = desc->natts + 1;
		}
		else
		{
			Form_pg_attribute att;

			if (attno < 1 || attno > desc->natts)
				elog(ERROR, "a foreign scan has no attribute %d", attno);
			att = TupleDescAttr(desc, attno - 1);
			type = att->atttypid;
			typmod = att->atttypmod;
			state->attnums[i] = attno;
			if (!att->attbyval)
				state->by_value = false;
		}
		rf_column_wanted(type, typmod, state->fetch.trusted, &state->columns[i]);
		i++;
	}
	state->values = palloc0(sizeof(Datum) * (desc->natts + 1));
	state->isnull = palloc0(sizeof(bool) * (desc->natts + 1));
}

static void
set_up_params(RfScanState *state, ForeignScanState *node, ForeignScan *plan)
{
	List	   *types = rf_scan_param_types(plan);
	ListCell   *lc;
	int			i = 0;

	/* made once, as nothing here is cheap */
	state->param_exprs = ExecInitExprList(plan->fdw_exprs, (PlanState *) node);
	state->param_count = list_length(types);
	if (state->param_count == 0)
		return;
	state->param_out = palloc0(sizeof(FmgrInfo) * state->param_count);
	state->param_types = palloc0(sizeof(char *) * state->param_count);
	state->param_values = palloc0(sizeof(char *) * state->param_count);
	state->param_context = AllocSetContextCreate(state->context, "rdma_fdw parameters", ALLOCSET_SMALL_SIZES);
	foreach(lc, types)
	{
		Oid			type = lfirst_oid(lc);
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(type, &function, &is_varlena);
		fmgr_info(function, &state->param_out[i]);
		/*
		 * "typmod given": without it char and bit would be named as what stands for one character
		 * or bit
		 */
		state->param_types[i] = format_type_extended(type, -1,
													 FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
		state->param_depends |= rf_text_depends(type);
		i++;
	}
}

/* ---------- rows ---------- */

/* A row whose last value is ctid */
static TupleTableSlot *
store_with_ctid(RfScanState *state, TupleTableSlot *slot, const Datum *values, const bool *isnull)
{
	memcpy(slot->tts_values, values, sizeof(Datum) * state->natts);
	memcpy(slot->tts_isnull, isnull, sizeof(bool) * state->natts);
	ExecStoreVirtualTuple(slot);
	if (!isnull[state->natts])
		slot->tts_tid = *(ItemPointer) DatumGetPointer(values[state->natts]);
	return slot;
}

/* ctid is no attribute of the slot: such rows take a way round. */
static TupleTableSlot *
iterate_with_ctid(ForeignScanState *node, RfScanState *state)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	while (state->need_batch || !rf_decoder_next(state->decoder, state->values, state->isnull))
	{
		if (!next_batch(node, state))
			return slot;
	}
	return store_with_ctid(state, slot, state->values, state->isnull);
}

/* Rows of several nodes in their common order. Each stays in a slot of its node's until the next one. */
static TupleTableSlot *
iterate_merge(ForeignScanState *node, RfScanState *state)
{
	TupleTableSlot *row;

	start_once(state);
	row = rf_scan_merge_next(state);
	if (row != NULL && state->has_ctid)
		return store_with_ctid(state, node->ss.ss_ScanTupleSlot, row->tts_values, row->tts_isnull);
	return row;
}

/* The next row, where the slot is not ready for the fast way. */
static TupleTableSlot *
iterate(ForeignScanState *node, RfScanState *state)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (unlikely(state->merge != NULL))
		return iterate_merge(node, state);
	if (unlikely(state->has_ctid))
		return iterate_with_ctid(node, state);
	while (unlikely(state->need_batch) ||
		   unlikely(!rf_decoder_next(state->decoder, slot->tts_values, slot->tts_isnull)))
	{
		if (!next_batch(node, state))
			return slot;
	}
	return ExecStoreVirtualTuple(slot);
}

/* xmin and the like say nothing about a row that is elsewhere: they are 0, as in postgres_fdw. */
static TupleTableSlot *
with_system_columns(TupleTableSlot *slot, TupleTableSlot *row)
{
	if (TupIsNull(row))
		return row;
	if (row != slot)
		row = ExecCopySlot(slot, row);
	ExecMaterializeSlot(row);
	rf_clear_system_columns(((HeapTupleTableSlot *) row)->tuple->t_data);
	return row;
}

TupleTableSlot *
rdmaIterateForeignScan(ForeignScanState *node)
{
	RfScanState *state = (RfScanState *) node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	/*
	 * The slot still holds our previous row, unchanged: the next one goes into the same places. It
	 * does not when it is empty, or when somebody made it a tuple of its own.
	 */
	if (likely((slot->tts_flags & (TTS_FLAG_EMPTY | TTS_FLAG_SHOULDFREE)) == 0 && state->plain_slot &&
			   ((HeapTupleTableSlot *) slot)->tuple == NULL && !state->need_batch) &&
		likely(rf_decoder_next(state->decoder, slot->tts_values, slot->tts_isnull)))
		return slot;

	if (unlikely(state->has_system_columns))
		return with_system_columns(slot, iterate(node, state));
	return iterate(node, state);
}

/* The first row was asked for. */
static void
start_once(RfScanState *state)
{
	if (!state->started)
		rf_scan_start(state);
	if (early_start != NULL && whole_run == state->estate)
	{
		PlanState  *top = early_start;

		early_start = NULL;
		rf_scan_start_early(state->estate, top);
	}
}

static bool
next_batch(ForeignScanState *node, RfScanState *state)
{
	RfScanPart *part = state->parts;
	const void *batch;
	uint32		length;
	RfStreamPoll got;

	if (state->ended)
		return false;
	if (state->reader != NULL)
	{
		state->ended = !rf_scan_worker_batch(state, &batch, &length);
		if (!state->ended)
			rf_decoder_load(state->decoder, batch, length);
		state->need_batch = state->ended;
		return !state->ended;
	}
	start_once(state);
	if (state->part_count > 1)
	{
		state->need_batch = !rf_scan_nodes_batch(state);
		state->ended = state->need_batch;
		return !state->need_batch;
	}
	if (part->stream == NULL)
		elog(ERROR, "the remote stream of a foreign scan ended with its transaction");
	if (state->request != NULL)
		got = rf_stream_try(part->stream, &batch, &length);
	else
		got = rf_stream_next(part->stream, &batch, &length) ? RF_STREAM_BATCH : RF_STREAM_END;
	if (got != RF_STREAM_BATCH)
	{
		state->starved = got == RF_STREAM_NOTHING;
		state->ended = got == RF_STREAM_END;
		state->need_batch = true;
		return false;
	}
	rf_decoder_load(state->decoder, batch, length);
	state->current = part;
	state->need_batch = false;
	return true;
}

UserMapping *
rf_scan_part_user(RfScanPart *part)
{
	if (part->user == NULL)
	{
		MemoryContext save = MemoryContextSwitchTo(part->scan->context);

		part->user = GetUserMapping(part->scan->userid, part->serverid);
		MemoryContextSwitchTo(save);
	}
	return part->user;
}

/*
 * All parts start before anything is read. Whatever else runs on their sessions is finished before
 * the first of them starts: were it found by a later one, then that would have to wait, while those
 * before it run.
 */
void
rf_scan_start(RfScanState *state)
{
	RfStream  **streams = palloc(sizeof(RfStream *) * state->part_count);
	int			running = 0;

	rf_scan_starts++;
	evaluate_params(state->scan, state);
	if (state->part_count > 1 || state->exchanges != NIL)
		rf_scan_nodes_prepare(state);
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (part->ended)
			continue;
		start_part(part);
		streams[running++] = part->stream;
	}
	if (state->part_count > 1)
		rf_stream_tie(streams, running, state->may_retry && GetCurrentTimestamp() < state->retry_until);
	pfree(streams);
	state->started = true;
}

static void
start_part(RfScanPart *part)
{
	RfScanState *state = part->scan;
	RfSession  *session = rf_session_get(rf_scan_part_user(part), true);
	RfStreamSpec spec;

	memset(&spec, 0, sizeof(spec));
	spec.sql = part->sql;
	spec.source = state->relation;
	spec.param_count = state->param_count;
	spec.param_types = state->param_types;
	spec.param_values = state->param_values;
	spec.column_count = part->sends_only ? 0 : state->column_count;
	spec.columns = state->columns;
	spec.receive_buffers = part->sends_only ? 1 : state->fetch.receive_buffers;
	spec.receive_buffer_size = part->sends_only ? RF_MIN_SLOT_SIZE : state->fetch.receive_buffer_size;
	spec.inline_limit = state->fetch.inline_limit;
	spec.accept_pages = state->fetch.accept_pages;
	spec.estimated_rows = part->sends_only ? 0 : state->expected_rows / state->reader_count;
	spec.shared = state->shared != NULL;
	spec.in_place = !spec.shared && rows_may_stay_in_place(state);
	if (state->by_value)
		spec.moved = batch_moved;
	spec.owner = part;
	spec.keep = !spec.shared && state->repeated;

	rf_stream_start(session, &spec, &part->stream);
}

bool
rf_scans_share_node(const RfScanState *one, const RfScanState *other)
{
	for (int i = 0; i < one->part_count; i++)
	{
		for (int j = 0; j < other->part_count; j++)
		{
			if (one->parts[i].serverid == other->parts[j].serverid)
				return true;
		}
	}
	return false;
}

/*
 * May rows point into receive buffers? Not if something else may use the session while one is held:
 * then the stream must be stored away, which frees its buffers, but rows that upper nodes still
 * hold would lose what they point to. That can be another scan of the same server in this plan, a
 * function of the user's, a trigger, or whatever a client does between two portions of a cursor.
 * Rows that are passed by value point to nothing. When in doubt, or when the data node's engine is
 * not trusted to leave a buffer alone while it is read (option read_in_place), batches are copied,
 * at the speed of memcpy.
 */
static bool
rows_may_stay_in_place(RfScanState *state)
{
	PlannedStmt *plan = state->estate->es_plannedstmt;
	ListCell   *lc;
	dlist_iter	iter;

	if (state->by_value)
		return true;
	/* a merge may have to store what it did not read yet */
	if (state->merge != NULL && state->exchanges != NIL)
		return false;
	if (!state->fetch.read_in_place || state->fetch.receive_buffers == 1 || whole_run != state->estate ||
		plan == NULL || plan->commandType != CMD_SELECT || plan->hasModifyingCTE || plan->rowMarks != NIL)
		return false;

	/*
	 * The planner lists all functions that are not built in, operators' included, as what a cached
	 * plan depends on.
	 */
	foreach(lc, plan->invalItems)
	{
		if (lfirst_node(PlanInvalItem, lc)->cacheId == PROCOID)
			return false;
	}
	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *other = dlist_container(RfScanState, node, iter.cur);

		if (other != state && other->estate == state->estate && rf_scans_share_node(other, state))
			return false;
	}
	return true;
}

/*
 * The batch being read lies elsewhere now: go on there with the same row. Rows are passed by value.
 * NULL: it is gone, and so is the rest of the stream, as asking it for the next batch will tell.
 */
static void
batch_moved(void *owner, const void *batch, uint32 length)
{
	RfScanPart *part = owner;
	RfScanState *state = part->scan;
	RfBatchHeader header;
	uint32		left = rf_decoder_remaining(part->decoder);

	if (batch == NULL)
	{
		part->first = NULL;
		part->need_batch = true;
		if (state->current == part)
			state->need_batch = true;
		return;
	}
	if (part->first != NULL)
	{
		part->first = batch;
		return;
	}
	if ((state->merge ? part->need_batch : state->need_batch || state->current != part) || left == 0)
		return;
	memcpy(&header, batch, sizeof(header));
	rf_decoder_load(part->decoder, batch, length);
	for (uint32 i = left; i < header.row_count; i++)
		(void) rf_decoder_next(part->decoder, state->values, state->isnull);
}

/* ---------- parameters ---------- */

static void
evaluate_params(ForeignScanState *node, RfScanState *state)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	MemoryContext save;
	Datum	   *values;
	bool	   *isnull;
	int			nest_level;

	if (state->param_count == 0)
		return;

	MemoryContextReset(state->param_context);
	save = MemoryContextSwitchTo(state->param_context);
	values = palloc(sizeof(Datum) * state->param_count);
	isnull = palloc(sizeof(bool) * state->param_count);
	for (int i = 0; i < state->param_count; i++)
		values[i] = ExecEvalExpr((ExprState *) list_nth(state->param_exprs, i), econtext, &isnull[i]);

	/*
	 * Text that means the same on the other side, whatever this session's user likes to see. That
	 * must not change what the values are: they may come from functions that look at settings.
	 */
	nest_level = rf_neutral_settings(state->param_depends);
	for (int i = 0; i < state->param_count; i++)
		state->param_values[i] = isnull[i] ? NULL : OutputFunctionCall(&state->param_out[i], values[i]);
	AtEOXact_GUC(true, nest_level);
	MemoryContextSwitchTo(save);
}

/*
 * EvalPlanQual, with other versions of some tables' rows: a table's scan has been given its row, and
 * a join is made here by the plan below it.
 */
bool
rdmaRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot)
{
	TupleTableSlot *row;

	if (((ForeignScan *) node->ss.ps.plan)->scan.scanrelid > 0)
		return true;
	if (outerPlanState(node) == NULL)
		elog(ERROR, "a foreign join has no plan to recheck a row with");
	row = ExecProcNode(outerPlanState(node));
	if (TupIsNull(row))
		return false;
	ExecCopySlot(slot, row);
	return true;
}

/* ---------- again, and the end ---------- */

void
rf_scan_close(RfScanState *state)
{
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (part->stream)
			rf_stream_close(part->stream, &part->stats);
		part->stream = NULL;
		part->ended = false;
		part->first = NULL;
	}
	state->started = false;
	state->ended = false;
}

/* All that ran begin again with the first batch; false: they do not keep them all. */
static bool
rewind_streams(RfScanState *state)
{
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (part->stream == NULL ? !part->ended : !rf_stream_rewind(part->stream))
			return false;
	}
	for (int i = 0; i < state->part_count; i++)
	{
		state->parts[i].ended = state->parts[i].stream == NULL;
		state->parts[i].first = NULL;
	}
	state->ended = false;
	return true;
}

void
rdmaReScanForeignScan(ForeignScanState *node)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	if (state == NULL || !state->started)
		return;

	state->need_batch = true;
	if (state->shared != NULL)
	{
		/* the stream was started anew with the shared memory, or will be */
		state->ended = false;
		return;
	}
	state->current = NULL;
	if (state->merge)
		rf_scan_merge_reset(state);
	if (node->ss.ps.chgParam != NULL && state->param_exprs != NIL)
	{
		rf_scan_close(state);
		state->repeated = false;
	}
	else if (!rewind_streams(state))
	{
		/* Once may be chance; the second time all rows are kept. */
		rf_scan_close(state);
		state->repeated = true;
	}
}

void
rdmaEndForeignScan(ForeignScanState *node)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	if (state == NULL)
		return;
	rf_scan_close(state);
	if (state->node.next != NULL)
		dlist_delete(&state->node);
	state->node.next = NULL;
	if (state->merge)
		rf_scan_merge_end(state);
	rf_decoder_destroy(state->decoder);
	node->fdw_state = NULL;
}
