/*
 * node_out.c - takes one exchange's rows from its query and sends them to their nodes.
 *
 * Rows are taken from the query until there are enough of them (state->rows), and then routed
 * together: the keys' hashes column by column, and for each consumer a list of the rows that go
 * there. Each consumer's batch takes its rows column by column; all batches that are full then are
 * handed to the engine in one call. The first rows do not wait for many more: few are routed
 * together at first, and the first batches are small.
 *
 * Rows for all consumers are encoded once (a parcel), in memory that all their flows send from, or
 * while there is no such memory, in private memory, from which the bytes are copied to each. So is
 * a row that does not fit a buffer. One call hands a parcel to all consumers that have a buffer for
 * it.
 *
 * Nothing here waits. Rows for which there is no send buffer now stay in `rows`, and in the lists,
 * and stop the query; rows that other nodes sent can still be read. Rows for this node itself are
 * returned from there as they are.
 *
 * Memory: all of it lives in the outer statement's context.
 */
#include "node.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "executor/execParallel.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"

/* Rows of the query in one step, between two checks for arrivals. */
#define ROWS_PER_STEP	64

/* Number of rows that are routed together at first, and the factor by which it grows. */
#define FIRST_ROWS		64
#define FIRST_ROOM		8192
#define ROOM_GROWTH		4

/* ---------- buffers ---------- */

/*
 * Gets a send buffer for the consumer; returns false if there is no buffer now, or never
 * (outlet->stopped).
 */
static bool
get_buffer(ExchangeState *state, int consumer)
{
	ExchangeOutlet *outlet = &state->outlets[consumer];

	if (outlet->has_buffer)
		return true;
	if (outlet->stopped)
		return false;
	switch (state->outbox != NULL ? rf_outbox_acquire(state->outbox, consumer, &outlet->buffer) :
			rf_group_try_acquire(state->member->out, consumer, &outlet->buffer))
	{
		case RF_ACQUIRED:
			outlet->has_buffer = true;
			return true;
		case RF_ACQUIRE_STOPPED:
			outlet->stopped = true;
			state->live_outlets--;
			return false;
		case RF_ACQUIRE_FULL:
			return false;
	}
	pg_unreachable();
}

static void
submit(ExchangeState *state, int count)
{
	if (count == 0)
		return;
	if (state->outbox != NULL)
		rf_outbox_submit(state->outbox, state->submits, count);
	else
		rf_group_submit_all(state->member->out, state->submits, count);
}

/* The outlet's buffer has a batch, or a part of one; the caller submits it. */
static RfGroupSubmit
take_buffer(ExchangeState *state, ExchangeOutlet *outlet, uint32 length, uint32 flags, uint64 rows)
{
	outlet->has_buffer = false;
	outlet->filling = false;
	outlet->room = Min((uint64) outlet->room * ROOM_GROWTH, PG_UINT32_MAX);
	state->member->counters.rows_out += rows;
	state->member->counters.bytes_out += length;
	return (RfGroupSubmit) {&outlet->buffer, NULL, length, flags, rows};
}

static RfGroupSubmit
finish_batch(ExchangeState *state, ExchangeOutlet *outlet)
{
	uint32		rows = rf_encoder_rows(outlet->encoder);

	return take_buffer(state, outlet, rf_encoder_finish(outlet->encoder),
					   RF_SLOT_FIRST | RF_SLOT_LAST, rows);
}

/*
 * Send the rows encoded for the consumers, full batches or not; or only to consumers that still
 * lack the parcel.
 */
static void
send_begun(ExchangeState *state, bool before_parcel)
{
	int			count = 0;

	for (int consumer = 0; consumer < state->destinations; consumer++)
	{
		ExchangeOutlet *outlet = &state->outlets[consumer];

		if (before_parcel && outlet->parcel_left == 0)
			continue;
		if (outlet->filling && rf_encoder_rows(outlet->encoder) > 0)
			state->submits[count++] = finish_batch(state, outlet);
		if (before_parcel)
			outlet->filling = false;
	}
	submit(state, count);
}

/* ---------- parcels ---------- */

/* consumer RF_GROUP_ANY: to all */
static void
begin_parcel(ExchangeState *state, const uint8 *bytes, uint32 length, uint64 rows, int consumer)
{
	state->parcel = bytes;
	state->parcel_placed = false;
	state->parcel_length = length;
	state->parcel_rows = rows;
	for (int i = 0; i < state->destinations; i++)
	{
		if (i != state->member->consumer && (consumer == RF_GROUP_ANY || consumer == i))
			state->outlets[i].parcel_left = length;
	}
}

/* The consumer's next part of the parcel, for which it has a buffer. */
static RfGroupSubmit
take_part(ExchangeState *state, ExchangeOutlet *outlet)
{
	const uint8 *bytes = state->parcel + (state->parcel_length - outlet->parcel_left);
	uint32		part = Min(outlet->parcel_left, outlet->buffer.buffer.length);
	uint32		flags = outlet->parcel_left == state->parcel_length ? RF_SLOT_FIRST : 0;
	RfGroupSubmit submit;

	if (!state->parcel_placed)
		memcpy(outlet->buffer.buffer.data, bytes, part);
	outlet->parcel_left -= part;
	if (outlet->parcel_left == 0)
		flags |= RF_SLOT_LAST;
	submit = take_buffer(state, outlet, part, flags,
						 flags & RF_SLOT_LAST ? state->parcel_rows : 0);
	if (state->parcel_placed)
		submit.placed = bytes;
	return submit;
}

/* False: some consumer has no buffer now. */
static bool
send_parcel(ExchangeState *state, bool *moved)
{
	int			count;
	bool		waiting;

	if (state->parcel == NULL)
		return true;
	/* Rows encoded for one consumer alone are sent before it: their buffer is the next. */
	send_begun(state, true);
	do
	{
		count = 0;
		waiting = false;
		for (int consumer = 0; consumer < state->destinations; consumer++)
		{
			ExchangeOutlet *outlet = &state->outlets[consumer];

			if (outlet->parcel_left == 0)
				continue;
			if (get_buffer(state, consumer))
				state->submits[count++] = take_part(state, outlet);
			else if (outlet->stopped)
				outlet->parcel_left = 0;
			waiting |= outlet->parcel_left > 0;
		}
		submit(state, count);
		*moved |= count > 0;
	} while (waiting && count > 0);
	if (waiting)
		return false;
	state->parcel = NULL;
	if (state->parcel_from != NULL)
		rf_outboxes_sent(state->outboxes, state->parcel_from);
	state->parcel_from = NULL;
	return true;
}

/*
 * Sends the rows of the query's workers for other nodes. Returns false if some of them cannot be
 * sent now.
 */
static bool
send_from_workers(ExchangeState *state, bool *moved)
{
	while (send_parcel(state, moved))
	{
		const ExchangeWorkerBatch *batch;

		*moved |= rf_outboxes_take(state->outboxes);
		batch = rf_outboxes_next_to_send(state->outboxes);
		if (batch == NULL)
			return true;
		begin_parcel(state, batch->data, batch->length, batch->rows,
					 batch->consumer == state->consumers ? RF_GROUP_ANY : batch->consumer);
		state->parcel_from = batch;
	}
	return false;
}

/* The next row for that consumer does not fit into an empty buffer. */
static void
begin_large_row(ExchangeState *state, RfEncoder *encoder, int place, int consumer)
{
	const uint8 *batch;
	uint32		length;

	rf_rows_get(state->rows, state->numbers[state->next[place]++], state->large);
	state->left[place]--;
	length = rf_encoder_measure_large(encoder, state->large);
	batch = rf_encoder_large_row(encoder, state->large, NULL, length, &length);
	begin_parcel(state, batch, length, 1, consumer);
}

/* ---------- rows into batches ---------- */

/* Encodes as many rows for that consumer as fit; returns false if not even one fits. */
static bool
add_rows(ExchangeState *state, RfEncoder *encoder, int place)
{
	uint32		added = rf_encoder_add_rows(encoder, state->rows,
											state->numbers + state->next[place],
											state->left[place]);

	state->next[place] += added;
	state->left[place] -= added;
	return added > 0;
}

/* False: it would overwrite rows that are still being sent. */
static bool
begin_common(ExchangeState *state)
{
	uint32		room = Min(state->common_room, state->common_size);

	if (rf_group_common(state->member->out, room, &state->common_place) == RF_ACQUIRE_FULL)
		return false;
	rf_encoder_begin(state->common,
					 state->common_place != NULL ? state->common_place : state->common_space,
					 room);
	state->common_filling = true;
	return true;
}

static void
finish_common(ExchangeState *state)
{
	uint64		rows = rf_encoder_rows(state->common);
	uint32		length = rf_encoder_finish(state->common);

	state->common_filling = false;
	begin_parcel(state, state->common_place != NULL ? state->common_place : state->common_space,
				 length, rows, RF_GROUP_ANY);
	state->parcel_placed = state->common_place != NULL;
	if (state->parcel_placed)
		rf_group_common_next(state->member->out);
}

/* Encode rows for all consumers. False: rows encoded before must be sent first. */
static bool
send_common(ExchangeState *state, bool *moved)
{
	int			place = state->consumers;

	while (state->common != NULL && state->left[place] > 0)
	{
		if (!state->common_filling && !begin_common(state))
			return false;
		*moved = true;
		add_rows(state, state->common, place);
		if (state->left[place] == 0)
			break;
		state->common_filling = false;
		if (rf_encoder_rows(state->common) > 0)
			finish_common(state);
		else if (state->common_room >= state->common_size)
			begin_large_row(state, state->common, place, RF_GROUP_ANY);
		state->common_room = Min(state->common_room * ROOM_GROWTH, state->common_size);
		if (!send_parcel(state, moved))
			return false;
	}
	return true;
}

/* Encode one consumer's rows into its batch. True: the batch is full, or a parcel has begun. */
static bool
fill_batch(ExchangeState *state, int consumer, bool *moved)
{
	ExchangeOutlet *outlet = &state->outlets[consumer];

	for (;;)
	{
		uint32		room;

		if (!outlet->filling)
		{
			if (!get_buffer(state, consumer))
			{
				if (outlet->stopped)
					state->left[consumer] = 0;
				return false;
			}
			room = Min(outlet->room, outlet->buffer.buffer.length);
			rf_encoder_begin(outlet->encoder, outlet->buffer.buffer.data, room);
			outlet->filling = true;
		}
		if (add_rows(state, outlet->encoder, consumer))
			*moved = true;
		if (state->left[consumer] == 0)
			return false;
		if (rf_encoder_rows(outlet->encoder) > 0)
			return true;
		outlet->filling = false;
		if (outlet->room >= outlet->buffer.buffer.length)
		{
			begin_large_row(state, outlet->encoder, consumer, consumer);
			return true;
		}
		outlet->room = outlet->buffer.buffer.length;
	}
}

/* Send all rows for other nodes. False: some are not sent yet. */
static bool
send_rows(ExchangeState *state, bool *moved)
{
	if (!send_parcel(state, moved) || !send_common(state, moved))
		return false;
	for (;;)
	{
		int			full = 0;
		bool		waiting = false;

		for (int consumer = 0; consumer < state->destinations && state->parcel == NULL; consumer++)
		{
			if (consumer == state->member->consumer || state->left[consumer] == 0)
				continue;
			if (fill_batch(state, consumer, moved) && state->parcel == NULL)
				state->submits[full++] = finish_batch(state, &state->outlets[consumer]);
			else
				waiting |= state->left[consumer] > 0;
		}
		submit(state, full);
		if (state->parcel != NULL)
		{
			if (!send_parcel(state, moved))
				return false;
		}
		else if (full == 0)
			return !waiting;
	}
}

/* Send the batches after all rows were encoded. False: not all can be sent now. */
static bool
send_rest(ExchangeState *state, bool *moved)
{
	send_begun(state, false);
	if (state->common_filling)
		finish_common(state);
	return send_parcel(state, moved);
}

/* ---------- the query ---------- */

/*
 * The scan's next row, before the executor's projection; NULL if there is no more row, or (input
 * not over) not yet.
 */
static TupleTableSlot *
scan_row(ExchangeState *state)
{
	SeqScanState *node = state->scan;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	ExprState  *qual = node->ss.ps.qual;

	/* Stored in its usual place, so that ExecutorEnd closes it. */
	if (node->ss.ss_currentScanDesc == NULL)
		node->ss.ss_currentScanDesc = table_beginscan(node->ss.ss_currentRelation,
													  node->ss.ps.state->es_snapshot, 0, NULL);
	while (table_scan_getnextslot(node->ss.ss_currentScanDesc, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (qual == NULL)
			return slot;
		if (likely(!state->asks_first) || rf_filter_passes(state, slot))
		{
			ResetExprContext(econtext);
			econtext->ecxt_scantuple = slot;
			if (ExecQual(qual, econtext))
				return slot;
		}
		if (unlikely(rf_flush_ticks != state->flush_seen))
			return NULL;
	}
	ExecClearTuple(slot);
	state->input_over = true;
	return NULL;
}

/* As ExecutePlan does: the query runs only once. */
static void
start(ExchangeState *state)
{
	QueryDesc  *query = state->query;

	state->started = true;
	query->estate->es_use_parallel_mode = query->plannedstmt->parallelModeNeeded &&
		!state->set->serial;
	if (query->estate->es_use_parallel_mode)
		EnterParallelMode();
}

/* Starts the query's workers, or sees which have ended. False: all of them have. */
static bool
poll_gather(ExchangeState *state)
{
	MemoryContext caller = MemoryContextSwitchTo(state->query->estate->es_query_cxt);
	TupleTableSlot *slot;

	state->inside = true;
	slot = ExecProcNode(&state->gather->ps);
	state->inside = false;
	MemoryContextSwitchTo(caller);
	return !TupIsNull(slot);
}

/* NULL: no more, or (input not over) not yet */
static TupleTableSlot *
next_row(ExchangeState *state)
{
	EState	   *estate = state->input->state;
	MemoryContext caller;
	TupleTableSlot *slot;

	if (!state->started)
	{
		start(state);
		if (state->gather != NULL)
			(void) poll_gather(state);
	}
	caller = MemoryContextSwitchTo(estate->es_query_cxt);
	state->inside = true;
	if (state->scan != NULL)
		slot = scan_row(state);
	else
	{
		ResetPerTupleExprContext(estate);
		/* as Gather does for its part of the plan */
		if (state->gather != NULL && state->gather->pei != NULL)
			estate->es_query_dsa = state->gather->pei->area;
		slot = ExecProcNode(state->input);
		if (state->gather != NULL)
			estate->es_query_dsa = NULL;
		if (TupIsNull(slot))
		{
			slot = NULL;
			state->input_over = true;
		}
		else if (estate->es_junkFilter != NULL)
			slot = ExecFilterJunk(estate->es_junkFilter, slot);
	}
	state->inside = false;
	MemoryContextSwitchTo(caller);
	return slot;
}

/* Nobody wants rows any more. */
static void
stop_input(ExchangeState *state)
{
	state->input_over = true;
	if (state->outboxes != NULL)
		rf_outboxes_stop(state->outboxes);
}

/* Collects rows until they are to be routed. False: the step ended before. */
static bool
take_rows(ExchangeState *state)
{
	RfRows	   *rows = state->rows;

	if (state->live_outlets == 0 && state->reading_over)
		stop_input(state);
	if (state->outbox != NULL && rf_outbox_is_stopped(state->outbox))
		state->input_over = true;
	for (int n = 0; n < ROWS_PER_STEP; n++)
	{
		TupleTableSlot *slot;

		if (state->input_over || state->flush || rows->count >= state->rows_wanted ||
			rf_rows_full(rows))
			return true;
		if (unlikely(rf_flush_ticks != state->flush_seen))
			return false;
		if ((slot = next_row(state)) != NULL)
		{
			if (rows->count == 0)
				rf_start_flush_timer();
			rf_rows_add(rows, slot);
		}
	}
	return false;
}

/*
 * This process has no more rows of the query, and has sent all. Have its workers, too? Their
 * batches lie in memory that goes with them.
 */
static bool
workers_are_done(ExchangeState *state, bool *moved)
{
	if (state->gather == NULL || !state->started)
		return true;
	if (poll_gather(state))
		return false;
	if (state->outboxes == NULL)
		return true;
	return send_from_workers(state, moved) && rf_outboxes_are_empty(state->outboxes);
}

/* The query has no more rows, or no more are needed, and all its rows were sent. */
static void
end_query(ExchangeState *state)
{
	if (state->started && state->query != NULL)
	{
		(void) ExecShutdownNode(state->query->planstate);
		if (state->query->estate->es_use_parallel_mode)
			ExitParallelMode();
		state->query->estate->es_use_parallel_mode = false;
	}
	state->outboxes = NULL;
	state->production = PRODUCTION_ENDING;
}

/* ---------- routing ---------- */

static bool
is_heavy(const ExchangeSpec *spec, uint64 hash)
{
	int			low = 0;
	int			high = spec->heavy_count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (spec->heavy_hashes[middle] < hash)
			low = middle + 1;
		else
			high = middle;
	}
	return low < spec->heavy_count && spec->heavy_hashes[low] == hash;
}

/* Rows of heavy keys go to the nodes in turn, or to all of them. */
static void
place_heavy(ExchangeState *state)
{
	const ExchangeSpec *spec = state->spec;

	for (uint32 row = 0; row < state->rows->count; row++)
	{
		if (!is_heavy(spec, state->hashes[row]))
			continue;
		if (spec->heavy == HEAVY_SPREAD)
			state->places[row] = state->spread_turn++ % (uint32) state->consumers;
		else
			state->places[row] = state->consumers;
	}
}

/*
 * Rows for all consumers are for this one, too: write its list again at `to`, in the order of the
 * rows.
 */
static void
add_common(ExchangeState *state, int consumer, uint32 to)
{
	const uint16 *own = state->numbers + state->next[consumer];
	const uint16 *own_end = own + state->left[consumer];
	const uint16 *common = state->numbers + state->next[state->consumers];
	const uint16 *common_end = common + state->left[state->consumers];
	uint16	   *numbers = state->numbers + to;

	state->next[consumer] = to;
	state->left[consumer] += state->left[state->consumers];
	while (own < own_end && common < common_end)
		*numbers++ = *own < *common ? *own++ : *common++;
	memcpy(numbers, own, (own_end - own) * sizeof(uint16));
	numbers += own_end - own;
	memcpy(numbers, common, (common_end - common) * sizeof(uint16));
}

/* Finds the nodes that the rows go to. */
static void
route_rows(ExchangeState *state)
{
	const ExchangeSpec *spec = state->spec;
	RfRows	   *rows = state->rows;
	uint64		consumers = state->consumers;
	int			lists = state->consumers + 1;

	rf_rows_complete(rows);
	if (spec->replicate)
		for (uint32 row = 0; row < rows->count; row++)
			state->places[row] = state->consumers;
	else
	{
		rf_route_hash_rows(state->route, spec->keys, rows, state->hashes, state->hashing);
		if (spec->map != NULL)
			for (uint32 row = 0; row < rows->count; row++)
				state->places[row] = spec->map[state->hashes[row] % (uint64) spec->map_count];
		else if (state->consumer_mask != 0)
			for (uint32 row = 0; row < rows->count; row++)
				state->places[row] = state->hashes[row] & state->consumer_mask;
		else
			for (uint32 row = 0; row < rows->count; row++)
				state->places[row] = state->hashes[row] % consumers;
		if (unlikely(spec->heavy_count > 0))
			place_heavy(state);
		if (unlikely(state->filters != NULL) && rf_filter_is_on(state))
		{
			rf_filter_drop(state);
			lists++;
		}
	}
	if (unlikely(state->keys != NULL))
		rf_filter_add_own(state);
	rf_rows_divide(state->places, rows->count, lists, state->numbers, state->next, state->left);
	if (state->left[state->consumers] > 0)
	{
		uint32		to = rows->size;

		for (int consumer = 0; consumer < state->consumers; consumer++)
		{
			if (consumer != state->member->consumer && state->common_list)
				continue;
			add_common(state, consumer, to);
			to += rows->size;
		}
		if (!state->common_list)
			state->left[state->consumers] = 0;
	}
	state->routed = true;
	state->rows_wanted = Min(state->rows_wanted * 2, rows->size);
}

/* ---------- one step ---------- */

/*
 * Exchanges filters with all nodes before sending rows. Returns false until that is done.
 */
static bool
has_filters(ExchangeState *state, bool *moved)
{
	if (!state->filter_sent && state->parcel == NULL)
	{
		uint32		length;
		const void *message = rf_filter_message(state, &length);

		if (message == NULL)
			return false;
		begin_parcel(state, message, length, 0, RF_GROUP_ANY);
		state->filter_sent = true;
	}
	if (!send_parcel(state, moved) || !rf_filter_is_complete(state))
		return false;
	state->input_over |= rf_filter_is_empty(state);
	return true;
}

void
rf_exchange_take_own(ExchangeState *state, TupleTableSlot *slot)
{
	int			own = state->member->consumer;

	rf_rows_get(state->rows, state->numbers[state->next[own]++], slot);
	state->left[own]--;
	state->member->counters.rows_local++;
}

uint32
rf_exchange_encode_own(ExchangeState *state, RfEncoder *encoder)
{
	int			own = state->member->consumer;
	uint32		before = state->left[own];

	(void) add_rows(state, encoder, own);
	state->member->counters.rows_local += before - state->left[own];
	return before - state->left[own];
}

static inline bool
has_own_row(const ExchangeState *state)
{
	return state->routed && !state->reading_over && state->left[state->member->consumer] > 0;
}

ExchangeStep
rf_exchange_produce(ExchangeState *state)
{
	bool		moved = false;

	/* While there are own rows, other nodes are not checked again. */
	if (has_own_row(state))
		return STEP_OWN_ROW;
	if (state->production == PRODUCTION_RUNNING)
	{
		bool		new_rows = !state->routed;
		bool		all_sent;

		if (unlikely(state->filters != NULL) && !state->started && !has_filters(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		if (unlikely(rf_flush_ticks != state->flush_seen))
		{
			state->flush_seen = rf_flush_ticks;
			state->flush = true;
		}
		if (new_rows)
		{
			if (!take_rows(state))
				return STEP_MOVED;
			moved = state->rows->count > 0;
			state->input_rows += state->rows->count;
			route_rows(state);
		}
		if (state->outboxes != NULL && !send_from_workers(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		all_sent = send_rows(state, &moved);
		if (new_rows && has_own_row(state))
			return STEP_OWN_ROW;
		if (!all_sent)
		{
			if (state->flush)
				send_begun(state, false);
			return moved ? STEP_MOVED : STEP_STUCK;
		}
		if ((state->input_over || state->flush) && !send_rest(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		state->flush = false;
		state->routed = false;
		rf_rows_reset(state->rows);
		if (!state->input_over)
			return STEP_MOVED;
		if (!workers_are_done(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		end_query(state);
	}
	if (state->production == PRODUCTION_OVER)
		return STEP_STUCK;
	if (state->member->out != NULL &&
		rf_group_try_finish(state->member->out) == RF_ACQUIRE_FULL)
		return moved ? STEP_MOVED : STEP_STUCK;
	if (state->member->out != NULL)
		rf_group_close(state->member->out);
	state->member->out = NULL;
	state->production = PRODUCTION_OVER;
	return STEP_MOVED;
}

/* ---------- begin and end ---------- */

static void
make_route(ExchangeState *state, TupleDesc desc)
{
	const ExchangeSpec *spec = state->spec;

	for (int i = 0; i < spec->map_count; i++)
	{
		if (spec->map[i] >= state->consumers)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("exchange %d has a map to node %d, but its rows go to %d nodes",
							spec->number, spec->map[i], state->consumers)));
	}
	state->route = rf_exchange_spec_route(spec, desc);
	state->hashes = palloc(state->rows->size * sizeof(uint64));
	state->hashing = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw hashing",
										   ALLOCSET_SMALL_SIZES);
}

static void
make_lists(ExchangeState *state)
{
	state->places = palloc(state->rows->size * sizeof(uint16));
	state->numbers = palloc(3 * state->rows->size * sizeof(uint16));
	state->next = palloc0((state->consumers + 2) * sizeof(uint32));
	state->left = palloc0((state->consumers + 2) * sizeof(uint32));
}

RfEncoder *
rf_exchange_make_encoder(TupleDesc desc)
{
	RfStreamColumn *wanted = palloc(sizeof(RfStreamColumn) * Max(desc->natts, 1));
	RfEncoder  *encoder;

	/*
	 * The columns have the same types on all nodes; modifiers were applied to the values already.
	 */
	for (int i = 0; i < desc->natts; i++)
		rf_column_wanted(TupleDescAttr(desc, i)->atttypid, -1, false, &wanted[i]);
	encoder = rf_encoder_create(desc, desc->natts, NULL, wanted, 0, GetDatabaseEncoding());
	pfree(wanted);
	return encoder;
}

/*
 * Makes the encoders of this node's or worker's rows: one per destination, and one for rows that
 * all consumers get.
 */
static void
make_outlets(ExchangeState *state, TupleDesc desc)
{
	const ExchangeSpec *spec = state->spec;
	int			own = state->member->consumer;

	state->live_outlets = state->consumers - (own >= 0 ? 1 : 0);
	state->destinations = state->consumers;
	if (state->outbox != NULL)
	{
		/* rows for all consumers are one more destination: the leader sends them to each */
		state->common_list = true;
		state->destinations++;
	}
	else if ((spec->replicate || spec->heavy == HEAVY_BROADCAST) && state->live_outlets > 1)
	{
		state->common_list = true;
		state->common = rf_exchange_make_encoder(desc);
		state->common_size = state->member->desc->slot_size - sizeof(RfSlotHeader);
		state->common_space = palloc_extended(state->common_size, MCXT_ALLOC_HUGE);
		state->common_room = FIRST_ROOM;
	}
	state->outlets = palloc0(state->destinations * sizeof(ExchangeOutlet));
	state->submits = palloc(state->destinations * sizeof(RfGroupSubmit));
	for (int consumer = 0; consumer < state->destinations; consumer++)
	{
		state->outlets[consumer].room = FIRST_ROOM;
		if (consumer != own &&
			(!spec->replicate || !state->common_list || consumer == state->consumers))
			state->outlets[consumer].encoder = rf_exchange_make_encoder(desc);
	}
}

/*
 * Prepares this node, or a worker, to send the exchange's rows: rows of a bare scan are read from
 * their pages, other rows as the query returns them.
 */
void
rf_exchange_begin_sending(ExchangeState *state, TupleDesc desc)
{
	AttrNumber *attmap;
	int			count;

	state->consumers = state->member->desc->consumers;
	state->scan = rf_bare_scan(state->input, &attmap, &count);
	if (state->scan != NULL)
		state->rows = rf_rows_create(RelationGetDescr(state->scan->ss.ss_currentRelation), count,
									 attmap, state->consumers);
	else
		state->rows = rf_rows_create(desc, desc->natts, NULL, state->consumers);
	state->rows_wanted = FIRST_ROWS;
	state->large = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	if ((state->consumers & (state->consumers - 1)) == 0)
		state->consumer_mask = state->consumers - 1;
	state->spread_turn = Max(state->member->consumer, 0);
	state->flush_seen = rf_flush_ticks;
	make_lists(state);
	make_outlets(state, desc);
	if (!state->spec->replicate)
		make_route(state, desc);
}

void
rf_exchange_end_sending(ExchangeState *state)
{
	if (state->started && state->query != NULL && state->query->estate->es_use_parallel_mode)
		ExitParallelMode();
	if (state->rows != NULL)
		rf_rows_destroy(state->rows);
	state->rows = NULL;
}
