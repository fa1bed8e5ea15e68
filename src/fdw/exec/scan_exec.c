/*
 * scan_exec.c - execution of a foreign scan: turns batches of a remote stream into rows in the
 * scan's slot.
 *
 * The remote query starts with the first request for a row. Rows are read in place: a slot's
 * by-reference values point into the batch, which stays valid until a row of another batch is
 * requested. scan_plan.c plans the scan, remote/ has the connection and the stream, batch/ the
 * format of the bytes.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "base/kept_memory.h"
#include "fdw/deparse/statement.h"
#include "fdw/plan/plan_private.h"
#include "remote/placement.h"
#include "exec.h"
#include "scan_state.h"

static void query_memory_gone(void *arg);
static TupleDesc with_row_types(TupleDesc desc, ForeignScan *plan, EState *estate);
static TupleDesc with_place(TupleDesc desc);
static void set_up_columns(RfScanRows *rows, TupleDesc desc, List *attrs, bool trusted);
static void set_up_params(RfScanParams *params, ForeignScanState *node, EState *estate);
static TupleTableSlot *iterate_merge(ForeignScanState *node, RfScanState *state);
static void start_once(RfScanState *state);
static bool next_batch(ForeignScanState *node, RfScanState *state);

/* Names the column as in the query, with postgres_fdw's wording. */
static void
scan_error_context(void *arg, int i)
{
	RfScanState *state = arg;
	ForeignScan *plan = (ForeignScan *) state->scan->ss.ps.plan;
	int			attno = list_nth_int(rf_scan_plan(plan)->attrs, i);
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

/* Returns true if it uses system columns other than ctid and tableoid, which the slot holds. */
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

static RfDecoder *
create_decoder(RfScanState *state, ForeignScan *plan, TupleDesc desc)
{
	RfDecoder  *decoder = rf_decoder_create(desc, state->rows.column_count, state->rows.attnums,
											state->relation, state->fetch.trusted);
	ListCell   *lc;

	rf_decoder_set_context(decoder, scan_error_context, state);
	foreach(lc, rf_scan_plan(plan)->states)
	{
		if (OidIsValid(lfirst_oid(lc)))
			rf_decoder_expect_state(decoder, foreach_current_index(lc), lfirst_oid(lc));
	}
	return decoder;
}

void
rf_use_servers(EState *estate, Oid relid)
{
	ListCell   *lc;

	if (!rf_placement_may_use())
		return;
	if (OidIsValid(relid))
		rf_placement_use(GetForeignTable(relid)->serverid);
	foreach(lc, estate->es_range_table)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE)
			rf_placement_use(GetForeignTable(rte->relid)->serverid);
	}
}

/*
 * Builds the scan's state from the plan: options with the session's defaults, columns, parameters,
 * nodes and their order. Nothing is sent before the first row is wanted.
 */
void
rdmaBeginForeignScan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	TupleDesc	desc = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	RfScanPlan *ours = rf_scan_plan(plan);
	RfScanState *state;

	rf_explain_prepare(plan);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	rf_keep_memory();
	rf_use_servers(estate, InvalidOid);
	state = palloc0(sizeof(RfScanState));
	state->context = estate->es_query_cxt;
	state->scan = node;
	state->estate = estate;
	state->userid = rf_scan_userid(plan);
	state->relation = ours->relation;
	state->expected_rows = ours->rows;
	state->fetch = ours->fetch;
	state->keys.all_sql = ours->all_sql;
	if (state->fetch.receive_buffers < 0)
		state->fetch.receive_buffers = rf_receive_buffers;
	if (state->fetch.receive_buffer_size < 0)
		state->fetch.receive_buffer_size = rf_receive_buffer_size * 1024;
	if (state->fetch.inline_limit < 0)
		state->fetch.inline_limit = rf_inline_limit * 1024;
	state->fetch.receive_buffer_size = TYPEALIGN(4096, state->fetch.receive_buffer_size);

	desc = with_row_types(desc, plan, estate);
	set_up_columns(&state->rows, desc, ours->attrs, state->fetch.trusted);
	set_up_params(&state->params, node, estate);
	if (state->rows.has_ctid)
		desc = with_place(desc);
	state->rows.decoder = create_decoder(state, plan, desc);
	state->rows.need_batch = true;
	state->rows.has_system_columns = uses_system_columns(plan);
	state->rows.plain_slot = TTS_IS_HEAPTUPLE(node->ss.ss_ScanTupleSlot) && !state->rows.has_ctid &&
		!state->rows.has_system_columns;
	if (ours->nodes != NULL)
		rf_scan_nodes_begin(state, plan, desc);
	else
	{
		state->part_count = 1;
		state->parts = palloc0(sizeof(RfScanPart));
		state->parts->scan = state;
		state->reader_count = 1;
		state->parts->serverid = plan->fs_server;
		state->parts->sql = ours->sql;
	}
	for (int i = 0; i < state->part_count; i++)
		state->parts[i].decoder = i > 0 && state->merge ? create_decoder(state, plan, desc) :
			state->rows.decoder;

	dlist_push_tail(&rf_open_scans, &state->node);
	state->gone.func = query_memory_gone;
	state->gone.arg = state;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &state->gone);
	node->fdw_state = state;
}

/* After an error core does not call End, but frees the query's memory. */
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

/* ---------- set-up ---------- */

/*
 * The planner requests the old row of an UPDATE's target as an anonymous record; the value has the
 * table's row type.
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

		/* the whole row of a sub-select is not used */
		if (!IsA(var, Var) || var->varattno != 0 || var->vartype != RECORDOID ||
			exec_rt_fetch(var->varno, estate)->rtekind != RTE_RELATION)
			continue;
		if (result == desc)
			result = CreateTupleDescCopy(desc);
		TupleDescInitEntry(result, tle->resno,
						   NameStr(TupleDescAttr(desc, tle->resno - 1)->attname),
						   get_rel_type_id(exec_rt_fetch(var->varno, estate)->relid), -1, 0);
	}
	if (result != desc)
		rf_tupdesc_finish(result);
	return result;
}

/* A row type with ctid and tableoid as two more columns. */
static TupleDesc
with_place(TupleDesc desc)
{
	TupleDesc	extended = CreateTemplateTupleDesc(desc->natts + 2);

	for (int i = 1; i <= desc->natts; i++)
		TupleDescCopyEntry(extended, i, desc, i);
	TupleDescInitEntry(extended, desc->natts + 1, "ctid", TIDOID, -1, 0);
	TupleDescInitEntry(extended, desc->natts + 2, "tableoid", OIDOID, -1, 0);
	rf_tupdesc_finish(extended);
	return extended;
}

/*
 * Fills the columns that the node is asked for from the plan's list of attributes, and notes where
 * ctid and tableoid go.
 */
static void
set_up_columns(RfScanRows *rows, TupleDesc desc, List *attrs, bool trusted)
{
	ListCell   *lc;
	int			i = 0;

	rows->column_count = list_length(attrs);
	rows->attnums = palloc(sizeof(AttrNumber) * Max(rows->column_count, 1));
	rows->columns = palloc0(sizeof(RfStreamColumn) * Max(rows->column_count, 1));
	rows->natts = desc->natts;
	rows->by_value = true;

	foreach(lc, attrs)
	{
		int			attno = lfirst_int(lc);
		Oid			type = TIDOID;
		int32		typmod = -1;

		if (attno == SelfItemPointerAttributeNumber)
		{
			rows->has_ctid = true;
			rows->by_value = false; /* a merge keeps a row's ctid where the batch has it */
			rows->attnums[i] = desc->natts + 1;
		}
		else if (attno == RF_ROW_TABLE)
		{
			type = OIDOID;
			rows->has_table = true;
			rows->attnums[i] = desc->natts + 2;
		}
		else
		{
			Form_pg_attribute att;

			if (attno < 1 || attno > desc->natts)
				elog(ERROR, "a foreign scan has no attribute %d", attno);
			att = TupleDescAttr(desc, attno - 1);
			type = att->atttypid;
			typmod = att->atttypmod;
			rows->attnums[i] = attno;
			if (!att->attbyval)
				rows->by_value = false;
		}
		rf_column_wanted(type, typmod, trusted, &rows->columns[i]);
		i++;
	}
	rows->values = palloc0(sizeof(Datum) * (desc->natts + 2));
	rows->isnull = palloc0(sizeof(bool) * (desc->natts + 2));
}

/*
 * Prepares the remote parameters: expressions, output functions, names of types, and the settings
 * on which their text depends.
 */
static void
set_up_params(RfScanParams *params, ForeignScanState *node, EState *estate)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *types = rf_scan_plan(plan)->param_types;
	ListCell   *lc;
	int			i = 0;

	/* initialized once, because it is expensive */
	params->exprs = ExecInitExprList(plan->fdw_exprs, (PlanState *) node);
	params->count = list_length(types);
	if (params->count == 0)
		return;
	params->out = palloc0(sizeof(FmgrInfo) * params->count);
	params->types = palloc0(sizeof(char *) * params->count);
	params->context = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw parameters",
											ALLOCSET_SMALL_SIZES);
	foreach(lc, types)
	{
		Oid			type = lfirst_oid(lc);
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(type, &function, &is_varlena);
		fmgr_info(function, &params->out[i]);

		/*
		 * "typmod given": without it char and bit would be printed as types of one character or
		 * bit
		 */
		params->types[i] = format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
												FORMAT_TYPE_FORCE_QUALIFY);
		params->depends |= rf_text_depends(type);
		i++;
	}
}

/* ---------- rows ---------- */

/* A row behind whose values are ctid and, maybe, tableoid */
static TupleTableSlot *
store_with_ctid(RfScanRows *rows, TupleTableSlot *slot, const Datum *values, const bool *isnull)
{
	memcpy(slot->tts_values, values, sizeof(Datum) * rows->natts);
	memcpy(slot->tts_isnull, isnull, sizeof(bool) * rows->natts);
	ExecStoreVirtualTuple(slot);
	if (!isnull[rows->natts])
		slot->tts_tid = *(ItemPointer) DatumGetPointer(values[rows->natts]);
	if (rows->has_table)
		rows->row_table = DatumGetObjectId(values[rows->natts + 1]);
	return slot;
}

/* ctid is not an attribute of the slot: such rows take a slower path. */
static TupleTableSlot *
iterate_with_ctid(ForeignScanState *node, RfScanState *state)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	RfScanRows *rows = &state->rows;

	while (rows->need_batch || !rf_decoder_next(rows->decoder, rows->values, rows->isnull))
	{
		if (!next_batch(node, state))
			return slot;
	}
	return store_with_ctid(rows, slot, rows->values, rows->isnull);
}

/* Rows of several nodes in their common order. Each stays in its node's slot until the next one. */
static TupleTableSlot *
iterate_merge(ForeignScanState *node, RfScanState *state)
{
	TupleTableSlot *row;

	start_once(state);
	row = rf_scan_merge_next(state);
	if (row != NULL && state->rows.has_ctid)
		return store_with_ctid(&state->rows, node->ss.ss_ScanTupleSlot, row->tts_values,
							   row->tts_isnull);
	return row;
}

/* The next row, if the slot is not ready for the fast path. */
static TupleTableSlot *
iterate(ForeignScanState *node, RfScanState *state)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	RfScanRows *rows = &state->rows;

	ExecClearTuple(slot);
	if (unlikely(state->merge != NULL))
		return iterate_merge(node, state);
	if (unlikely(rows->has_ctid))
		return iterate_with_ctid(node, state);
	while (unlikely(rows->need_batch) ||
		   unlikely(!rf_decoder_next(rows->decoder, slot->tts_values, slot->tts_isnull)))
	{
		if (!next_batch(node, state))
			return slot;
	}
	return ExecStoreVirtualTuple(slot);
}

/*
 * xmin and similar columns have no meaning for a remote row: they are 0, as in postgres_fdw, unless
 * they tell where the row is, which is to be locked or written.
 */
static TupleTableSlot *
with_system_columns(RfScanState *state, TupleTableSlot *slot, TupleTableSlot *row)
{
	HeapTupleHeader header;

	if (TupIsNull(row))
		return row;
	if (row != slot)
		row = ExecCopySlot(slot, row);
	ExecMaterializeSlot(row);
	header = ((HeapTupleTableSlot *) row)->tuple->t_data;
	rf_clear_system_columns(header);
	if (state->rows.has_table)
		rf_set_row_place(header, state->rows.row_table, rf_scan_current_part(state));
	return row;
}

/*
 * Returns the next row. The first branch is the usual case, a row decoded into the slot that still
 * holds the last one.
 */
TupleTableSlot *
rdmaIterateForeignScan(ForeignScanState *node)
{
	RfScanState *state = (RfScanState *) node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	RfScanRows *rows = &state->rows;

	/*
	 * The slot still holds our previous row, unchanged: the next one uses the same arrays. Not if
	 * the slot is empty, or if an upper node materialized it.
	 */
	if (likely((slot->tts_flags & (TTS_FLAG_EMPTY | TTS_FLAG_SHOULDFREE)) == 0 &&
			   rows->plain_slot && ((HeapTupleTableSlot *) slot)->tuple == NULL &&
			   !rows->need_batch) &&
		likely(rf_decoder_next(rows->decoder, slot->tts_values, slot->tts_isnull)))
		return slot;

	if (unlikely(rows->has_system_columns))
		return with_system_columns(state, slot, iterate(node, state));
	return iterate(node, state);
}

/* Its statement runs, and has the rows of this node that it reads. */
static void
start(RfScanState *state)
{
	rf_scan_start(state);
	rf_scan_nodes_send(state);
}

/* The first row was requested. */
static void
start_once(RfScanState *state)
{
	if (!state->started)
		start(state);
	if (rf_early_start != NULL && rf_scan_whole_run(state->estate))
	{
		PlanState  *top = rf_early_start;

		rf_early_start = NULL;
		rf_scan_start_early(state->estate, top);
	}
}

/*
 * The first batch of a statement that any of several nodes can run. If its node is lost before that
 * has come, and the transaction did nothing else there, another node runs it.
 */
static RfStreamPoll
first_of_any(RfScanState *state, const void **batch, uint32 *length)
{
	RfScanPart *part = state->parts;
	MemoryContext context = CurrentMemoryContext;
	volatile RfStreamPoll got = RF_STREAM_NOTHING;

	while (got == RF_STREAM_NOTHING)
	{
		PG_TRY();
		{
			if (part->stream == NULL)
				start(state);
			got = rf_stream_next(part->stream, batch, length) ? RF_STREAM_BATCH : RF_STREAM_END;
		}
		PG_CATCH();
		{
			if (!part->fresh || part->stream == NULL ||
				state->retry.losses + 1 >= list_length(part->any) ||
				!rf_session_forsake(part->user, part->uses))
				PG_RE_THROW();
			MemoryContextSwitchTo(context);
			FlushErrorState();
			part->user = NULL;
			state->retry.losses++;
		}
		PG_END_TRY();
	}
	return got;
}

/*
 * Loads the next batch into the decoder. Returns false at the end, and also when an asynchronous
 * request has to wait for rows (async.starved).
 */
static bool
next_batch(ForeignScanState *node, RfScanState *state)
{
	RfScanPart *part = state->parts;
	RfScanRows *rows = &state->rows;
	const void *batch;
	uint32		length;
	RfStreamPoll got;

	if (state->ended)
		return false;
	if (state->parallel.reader != NULL)
	{
		state->ended = !rf_scan_worker_batch(state, &batch, &length);
		if (!state->ended)
			rf_decoder_load(rows->decoder, batch, length);
		rows->need_batch = state->ended;
		return !state->ended;
	}
	start_once(state);
	if (state->part_count > 1)
	{
		rows->need_batch = !rf_scan_nodes_batch(state);
		state->ended = rows->need_batch;
		return !rows->need_batch;
	}
	if (part->stream == NULL)
		elog(ERROR, "the remote stream of a foreign scan ended with its transaction");
	if (state->async.request != NULL)
		got = rf_stream_try(part->stream, &batch, &length);
	else if (part->any != NIL && part->fresh && state->current == NULL)
		got = first_of_any(state, &batch, &length);
	else
		got = rf_stream_next(part->stream, &batch, &length) ? RF_STREAM_BATCH : RF_STREAM_END;
	if (got != RF_STREAM_BATCH)
	{
		state->async.starved = got == RF_STREAM_NOTHING;
		state->ended = got == RF_STREAM_END;
		rows->need_batch = true;
		return false;
	}
	rf_decoder_load(rows->decoder, batch, length);
	state->current = part;
	rows->need_batch = false;
	return true;
}

/*
 * EvalPlanQual, with other versions of some tables' rows: a table's scan has its row already, and
 * the local plan below a join computes the joined row.
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

/* Restarts all streams that ran at their first batch; false: they do not keep all batches. */
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
rf_scan_set_keys(ForeignScanState *node, Datum keys, bool again)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	state->keys.array = keys;
	state->keys.all_rows = false;
	state->keys.again = again;
	state->keys_changed = true;
}

void
rf_scan_set_local(ForeignScanState *node, Datum *values)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	state->local.values = values;
	state->local.by_part = false;
	state->local.inputs = NULL;
	state->keys_changed = true;
}

void
rf_scan_set_inputs(ForeignScanState *node, PlanState **inputs)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	state->local.values = NULL;
	state->local.inputs = inputs;
	state->keys_changed = true;
}

uint64
rf_scan_sent(ForeignScanState *node, uint64 *bytes)
{
	const RfScanLocal *local = &((RfScanState *) node->fdw_state)->local;

	*bytes = local->bytes_sent;
	return local->rows_sent;
}

void
rf_scan_set_local_by_part(ForeignScanState *node, Datum *const *values)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	for (int i = 0; i < state->part_count; i++)
		state->parts[i].local_values = values[i];
	state->local.by_part = true;
	state->keys_changed = true;
}

void
rf_scan_ask_all(ForeignScanState *node, bool again)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	state->keys_changed = !state->keys.all_rows;
	state->keys.all_rows = true;
	state->keys.again = again;
}

/*
 * Reads again from the start: the same rows if nothing they depend on has changed, kept here from
 * the second rescan on, and otherwise a new statement.
 */
void
rdmaReScanForeignScan(ForeignScanState *node)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	if (state == NULL || !state->started)
		return;

	state->rows.need_batch = true;
	if (state->parallel.shared != NULL)
	{
		/* the stream was restarted with the shared memory, or will be */
		state->ended = false;
		return;
	}
	state->current = NULL;
	if (state->merge)
		rf_scan_merge_reset(state);
	if ((node->ss.ps.chgParam != NULL && state->params.exprs != NIL) || state->keys_changed)
	{
		rf_scan_close(state);
		state->repeated = false;
	}
	else if (!rewind_streams(state))
	{
		/* The first rescan may be the only one; from the second on all rows are kept. */
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
	for (int i = 1; state->merge && i < state->part_count; i++)
		rf_decoder_destroy(state->parts[i].decoder);
	if (state->merge)
		rf_scan_merge_end(state);
	rf_decoder_destroy(state->rows.decoder);
	node->fdw_state = NULL;
}
