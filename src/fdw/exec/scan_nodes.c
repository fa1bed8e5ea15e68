/*
 * scan_nodes.c - a statement that runs on several nodes at once, read by one foreign scan: takes
 * batches from any node that has one, or merges rows in a common order.
 *
 * scan_start.c starts it, scan_exec.c has rescans and the row path. The streams are tied
 * (remote.h): while this waits for one node no other node may wait for us, since nodes may depend
 * on each other.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/sql_text.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "scan_state.h"

/*
 * A merge waits for one node at a time. If it sends nothing for this long although the other nodes
 * have filled their buffers, it may be waiting for them: then all rows are spooled here.
 */
#define MERGE_PATIENCE_MS	200

/*
 * After the first node has rows, the other nodes' rows are awaited this long before rows are
 * spooled.
 */
#define FIRST_BATCHES_MS	1000

static int	compare_rows(Datum a, Datum b, void *arg);

const char *
rf_scan_place_sql(ForeignScan *plan, int place, bool *sends_only)
{
	RfScanPlan *scan = rf_scan_plan(plan);
	RfComputePlan *compute = scan->nodes->compute;

	*sends_only = false;
	if (scan->nodes->node_sql != NIL)
		return strVal(list_nth(scan->nodes->node_sql, place));
	if (compute == NULL)
		return scan->sql;
	if (!list_member_int(compute->places, place))
	{
		*sends_only = true;
		return compute->send_sql;
	}
	return place < compute->holders ? scan->sql : compute->join_sql;
}

void
rf_scan_nodes_begin(RfScanState *state, ForeignScan *plan, TupleDesc desc)
{
	RfNodesPlan *nodes = rf_scan_plan(plan)->nodes;
	ListCell   *lc;

	state->part_count = list_length(nodes->places);
	state->parts = palloc0(sizeof(RfScanPart) * state->part_count);
	state->exchanges = nodes->exchanges;
	state->pruning.places = nodes->prune;
	state->pruning.keys = nodes->keys;
	foreach(lc, nodes->places)
	{
		RfScanPart *part = &state->parts[foreach_current_index(lc)];

		part->scan = state;
		part->serverid = list_nth_oid(nodes->servers, lfirst_int(lc));
		part->any = rf_scan_any(plan);
		part->sql = rf_scan_place_sql(plan, lfirst_int(lc), &part->sends_only);
		state->reader_count += part->sends_only ? 0 : 1;
	}

	/* one node's rows are in order already */
	if (nodes->merge == NIL || state->reader_count == 1)
		return;
	state->merge = palloc0(sizeof(RfScanMerge));
	state->merge->key_count = list_length(nodes->merge);
	state->merge->keys = palloc0(sizeof(SortSupportData) * list_length(nodes->merge));
	state->merge->heap = binaryheap_allocate(state->part_count, compare_rows, state);
	foreach(lc, nodes->merge)
	{
		RfMergeKey *key = lfirst(lc);
		SortSupport support = &state->merge->keys[foreach_current_index(lc)];

		support->ssup_cxt = state->context;
		support->ssup_attno = key->attno;
		support->ssup_nulls_first = key->nulls_first;
		support->ssup_collation = key->collation;
		PrepareSortSupportFromOrderingOp(key->operator, support);
	}
	for (int i = 0; i < state->part_count; i++)
	{
		state->parts[i].need_batch = true;
		state->parts[i].slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	}
}

/*
 * The exchanges had their buffers, but a node found no buffers for its rows to us: other statements
 * hold them and wait for ours. Release all and begin again. No row was read yet.
 */
static void
begin_again(RfScanState *state)
{
	RfSession **sessions;

	for (int i = 0; i < state->part_count; i++)
	{
		if (state->parts[i].stream)
			rf_stream_close(state->parts[i].stream, NULL);
		state->parts[i].stream = NULL;
		state->parts[i].ended = false;
		state->parts[i].first = NULL;
		state->parts[i].put_aside = false;
	}
	sessions = palloc(sizeof(RfSession *) * state->part_count);
	for (int i = 0; i < state->part_count; i++)
		sessions[i] = rf_scan_part_session(&state->parts[i]);
	rf_statement_restart(sessions, state->part_count, state->statement);
	pfree(sessions);
	rf_exchange_take_turn(state->retry.attempts++);
	rf_scan_start(state);
	rf_scan_nodes_send(state);
}

static uint64
to_uint64(PGresult *result, int row, int column)
{
	int64		number = 0;

	(void) rf_answer_int64(result, row, column, 0, PG_INT64_MAX, &number);
	return number;
}

#define STATS_SQL \
	"SELECT number, rows_out, bytes_out, rows_in, bytes_in, rows_kept_local, stalls, " \
	"spilled_bytes, transport, process_rows, encryption, rows_filtered, taken_rows " \
	"FROM rdma_internal.exchange_stats()"
#define STATS_COLUMNS 13

void
rf_scan_nodes_collect(RfScanState *state)
{
	int			count = list_length(state->exchanges);
	RfCommand **commands = palloc(sizeof(RfCommand *) * state->part_count);

	for (int i = 0; i < state->part_count; i++)
	{
		commands[i] = rf_command_create(rf_scan_part_session(&state->parts[i]), STATS_SQL, 0,
										false);
		rf_command_send(commands[i], NULL);
	}
	for (int i = 0; i < state->part_count; i++)
	{
		PGresult   *result = rf_command_receive(commands[i]);
		RfScanPart *part = &state->parts[i];

		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			rf_command_raise(commands[i], result);
		if (!rf_answer_has(result, STATS_COLUMNS, 0, PG_INT32_MAX))
			rf_session_bad_answer(rf_scan_part_session(part), result, STATS_SQL);
		part->exchanges = MemoryContextAllocZero(state->context, sizeof(RfExchangeStats) * count);
		for (int row = 0; row < PQntuples(result); row++)
		{
			uint64		number = to_uint64(result, row, 0);
			RfExchangeStats *stats;

			if (number < 1 || number > count)
				continue;
			stats = &part->exchanges[number - 1];
			stats->rows_out = to_uint64(result, row, 1);
			stats->bytes_out = to_uint64(result, row, 2);
			stats->rows_in = to_uint64(result, row, 3);
			stats->bytes_in = to_uint64(result, row, 4);
			stats->rows_kept = to_uint64(result, row, 5);
			stats->stalls = to_uint64(result, row, 6);
			stats->spilled_bytes = to_uint64(result, row, 7);
			strlcpy(stats->transport, PQgetvalue(result, row, 8), sizeof(stats->transport));
			if (!PQgetisnull(result, row, 9))
				stats->process_rows = MemoryContextStrdup(state->context,
														  PQgetvalue(result, row, 9));
			strlcpy(stats->encryption, PQgetvalue(result, row, 10), sizeof(stats->encryption));
			stats->rows_filtered = to_uint64(result, row, 11);
			if (!PQgetisnull(result, row, 12))
				stats->taken_rows = MemoryContextStrdup(state->context,
														PQgetvalue(result, row, 12));
		}
		PQclear(result);
	}
	pfree(commands);
}

/* All streams have ended: the next statements on the sessions may have exchanges of their own. */
static void
collect_at_end(RfScanState *state)
{
	if (state->exchanges != NIL && state->scan->ss.ps.instrument != NULL)
		rf_scan_nodes_collect(state);
}

/*
 * Polls the part for its first batch (RF_STREAM_BATCH), or its end. storing: its batches are
 * spooled, so that its node can send more.
 */
static RfStreamPoll
look_for_first(RfScanPart *part, bool storing)
{
	RfStreamPoll got;

	if (part->ended)
		return RF_STREAM_END;
	if (part->put_aside || (storing && part->first != NULL))
	{
		got = rf_stream_put_aside(part->stream, part->first, part->first_length);
		part->first = NULL;
		part->put_aside = true;
		return got == RF_STREAM_NO_BUFFERS ? got : RF_STREAM_BATCH;
	}
	if (part->first != NULL)
		return RF_STREAM_BATCH;
	got = rf_stream_try(part->stream, &part->first, &part->first_length);
	if (got != RF_STREAM_BATCH)
		part->first = NULL;
	part->ended = got == RF_STREAM_END;
	return got;
}

/*
 * The first batch of every part, or its end, before any is used: from then on every node has its
 * buffers, and until then the statement can begin again. A node that only sends to other nodes
 * needs no further buffers.
 *
 * Other nodes may wait for a node whose rows are not taken: the row that it sends may be lent from
 * the exchange that they read, and then it cannot drive that exchange (node_drive.c). So batches
 * are spooled if the wait takes long.
 */
static void
await_all(RfScanState *state)
{
	TimestampTz came = 0;		/* the first batch of any part */
	bool		storing = false;

	for (;;)
	{
		RfStream   *starved = NULL;

		for (int i = 0; i < state->part_count; i++)
		{
			RfScanPart *part = &state->parts[i];

			switch (look_for_first(part, storing))
			{
				case RF_STREAM_BATCH:
					if (came == 0)
						came = GetCurrentTimestamp();
					break;
				case RF_STREAM_END:
					break;
				case RF_STREAM_NOTHING:
					if (!part->sends_only)
						starved = part->stream;
					break;
				case RF_STREAM_NO_BUFFERS:
					begin_again(state);
					starved = NULL;
					came = 0;
					storing = false;
					i = -1;		/* from the first */
					break;
			}
		}
		if (starved == NULL)
			break;
		if (storing || came == 0)
			(void) rf_stream_set_wait(starved, -1);
		else
		{
			(void) rf_stream_set_wait(starved, FIRST_BATCHES_MS);
			storing = TimestampDifferenceExceeds(came, GetCurrentTimestamp(), FIRST_BATCHES_MS);
		}
	}
	for (int i = 0; i < state->part_count; i++)
		state->parts[i].put_aside = false;
	rf_stream_set_used(state->parts->stream);
	state->retry.possible = false;
	rf_exchange_end_turn();
}

/* Rows of this node on their way to the nodes */

/* Stores the rows that have come. False: a node has no buffers, so the statement begins again. */
static bool
store_coming(RfScanState *state)
{
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];
		RfStreamPoll got = look_for_first(part, true);

		if (got == RF_STREAM_BATCH && !part->put_aside)
			got = look_for_first(part, true);
		if (got == RF_STREAM_NO_BUFFERS)
			return false;
	}
	return true;
}

/* Returns false if the statement has to begin again. */
static bool
send_all(RfScanState *state)
{
	for (;;)
	{
		bool		moved = false;
		bool		left = false;

		for (int i = 0; i < state->local.sender_count; i++)
			left |= rf_sender_send(state->local.senders[i], &moved);
		if (!left)
			break;
		CHECK_FOR_INTERRUPTS();
		if (moved)
			continue;
		if (!store_coming(state))
			return false;
		rf_senders_wait(state->local.senders, state->local.sender_count);
	}
	return true;
}

/* A node does not take rows any more: it has an error, which its stream raises. */
static void
raise_of_node(RfScanState *state)
{
	RfScanPart *running = NULL;

	rf_scan_close_senders(state);
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (part->stream == NULL || part->ended)
			continue;
		if (part->first != NULL)
			(void) rf_stream_put_aside(part->stream, part->first, part->first_length);
		part->first = NULL;
		if (rf_stream_is_running(part->stream))
			running = part;
	}
	if (running != NULL)
		rf_stream_store(running->stream);
}

/*
 * A node that waits for us to take its rows may not take ours, and other nodes then wait for it. So
 * while a row cannot be sent, all rows that have come are stored.
 */
void
rf_scan_nodes_send(RfScanState *state)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool sent = false;

	if (state->local.sender_count == 0)
		return;
	PG_TRY();
	{
		sent = send_all(state);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_CONNECTION_EXCEPTION)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		raise_of_node(state);
		ReThrowError(error);
	}
	PG_END_TRY();
	if (!sent)
	{
		begin_again(state);
		return;
	}
	for (int i = 0; i < state->local.sender_count; i++)
		rf_sender_count(state->local.senders[i], &state->local.rows_sent,
						&state->local.bytes_sent);
	rf_scan_close_senders(state);
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (part->first != NULL)
			(void) look_for_first(part, true);
		part->put_aside &= state->retry.possible;
	}
}

/* The next batch of a part: the batch that was held back, or a new one. */
static RfStreamPoll
try_part(RfScanPart *part, const void **batch, uint32 *length)
{
	if (part->stream == NULL)
		elog(ERROR, "the remote stream of a foreign scan ended with its transaction");
	if (part->first == NULL)
		return rf_stream_try(part->stream, batch, length);
	*batch = part->first;
	*length = part->first_length;
	part->first = NULL;
	return RF_STREAM_BATCH;
}

/* ---------- rows in any order ---------- */

bool
rf_scan_nodes_batch(RfScanState *state)
{
	int			first = 0;

	if (state->retry.possible)
		await_all(state);
	/* from here on the rows of the previous batch are not read */
	if (state->current != NULL)
	{
		first = state->current - state->parts + 1;
		if (state->current->stream)
			rf_stream_release(state->current->stream);
		state->current = NULL;
	}
	for (;;)
	{
		RfStream   *starved = NULL;

		for (int i = 0; i < state->part_count; i++)
		{
			RfScanPart *part = &state->parts[(first + i) % state->part_count];
			const void *batch;
			uint32		length;

			if (part->ended)
				continue;
			switch (try_part(part, &batch, &length))
			{
				case RF_STREAM_BATCH:
					rf_decoder_load(state->rows.decoder, batch, length);
					state->current = part;
					return true;
				case RF_STREAM_END:
					part->ended = true;
					break;
				case RF_STREAM_NOTHING:
					starved = part->stream;
					break;
				case RF_STREAM_NO_BUFFERS:
					elog(ERROR, "a foreign scan cannot begin again");
			}
		}
		if (starved == NULL)
		{
			collect_at_end(state);
			return false;
		}
		(void) rf_stream_set_wait(starved, -1);
	}
}

/* ---------- rows in a common order ---------- */

static int
compare_rows(Datum a, Datum b, void *arg)
{
	RfScanState *state = arg;
	TupleTableSlot *one = state->parts[DatumGetInt32(a)].slot;
	TupleTableSlot *other = state->parts[DatumGetInt32(b)].slot;

	for (int i = 0; i < state->merge->key_count; i++)
	{
		SortSupport key = &state->merge->keys[i];
		int			at = key->ssup_attno - 1;
		int			order = ApplySortComparator(one->tts_values[at], one->tts_isnull[at],
												other->tts_values[at], other->tts_isnull[at], key);

		/* the heap has the greatest on top */
		if (order != 0)
			return order > 0 ? -1 : 1;
	}
	return 0;
}

/* A part's next row into its slot; false at its end. */
static bool
advance(RfScanPart *part)
{
	TupleTableSlot *slot = part->slot;

	ExecClearTuple(slot);
	while (part->need_batch || !rf_decoder_next(part->decoder, slot->tts_values, slot->tts_isnull))
	{
		const void *batch;
		uint32		length;
		RfStreamPoll got;

		part->need_batch = true;
		if (part->ended)
			return false;
		while ((got = try_part(part, &batch, &length)) == RF_STREAM_NOTHING)
		{
			/* without exchanges each node goes on by itself */
			if (!rf_stream_set_wait(part->stream,
									part->scan->exchanges != NIL ? MERGE_PATIENCE_MS : -1))
				rf_stream_store(part->stream);
		}
		if (got == RF_STREAM_END)
		{
			part->ended = true;
			return false;
		}
		if (got == RF_STREAM_NO_BUFFERS)
			elog(ERROR, "a foreign scan cannot begin again");
		rf_decoder_load(part->decoder, batch, length);
		part->need_batch = false;
	}
	ExecStoreVirtualTuple(slot);
	return true;
}

TupleTableSlot *
rf_scan_merge_next(RfScanState *state)
{
	RfScanMerge *merge = state->merge;

	if (!merge->begun)
	{
		if (state->retry.possible)
			await_all(state);
		for (int i = 0; i < state->part_count; i++)
		{
			if (!state->parts[i].sends_only && advance(&state->parts[i]))
				binaryheap_add_unordered(merge->heap, Int32GetDatum(i));
		}
		binaryheap_build(merge->heap);
		merge->begun = true;
	}
	else if (merge->given)
	{
		Datum		first = binaryheap_first(merge->heap);

		if (advance(&state->parts[DatumGetInt32(first)]))
			binaryheap_replace_first(merge->heap, first);
		else
			(void) binaryheap_remove_first(merge->heap);
	}
	merge->given = !binaryheap_empty(merge->heap);
	if (!merge->given && !merge->ended)
	{
		merge->ended = true;
		for (int i = 0; i < state->part_count; i++)
		{
			if (state->parts[i].sends_only && advance(&state->parts[i]))
				elog(ERROR, "rows came from a node that sends only to other nodes");
		}
		collect_at_end(state);
	}
	return merge->given ? state->parts[DatumGetInt32(binaryheap_first(merge->heap))].slot : NULL;
}

int
rf_scan_current_part(RfScanState *state)
{
	return state->merge ? DatumGetInt32(binaryheap_first(state->merge->heap)) :
		(int) (state->current - state->parts);
}

void
rf_scan_merge_reset(RfScanState *state)
{
	binaryheap_reset(state->merge->heap);
	state->merge->begun = false;
	state->merge->given = false;
	state->merge->ended = false;
	for (int i = 0; i < state->part_count; i++)
	{
		ExecClearTuple(state->parts[i].slot);
		state->parts[i].need_batch = true;
	}
}

void
rf_scan_merge_end(RfScanState *state)
{
	for (int i = 0; i < state->part_count; i++)
		ExecDropSingleTupleTableSlot(state->parts[i].slot);
}
