/*
 * node_out.c - takes one exchange's rows from its query and sends them to their nodes.
 *
 * Rows are taken from the query until there are enough of them (state->routing.rows), and then
 * routed together: the keys' hashes column by column, and for each consumer a list of the rows that
 * go there. Each consumer's batch takes its rows column by column; all batches that are full then
 * are handed to the engine in one call. The first rows do not wait for many more: few are routed
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
#include "rdma_fdw/vector.h"

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
	ExchangeOutlet *outlet = &state->sending.outlets[consumer];

	if (outlet->has_buffer)
		return true;
	if (outlet->stopped)
		return false;
	if (state->workers.queue != NULL)
	{
		rf_queue_buffer(state->workers.queue, consumer, &outlet->buffer);
		outlet->has_buffer = true;
		return true;
	}
	switch (rf_group_try_acquire(state->member->out, consumer, &outlet->buffer))
	{
		case RF_ACQUIRED:
			outlet->has_buffer = true;
			return true;
		case RF_ACQUIRE_STOPPED:
			outlet->stopped = true;
			state->sending.live_outlets--;
			return false;
		case RF_ACQUIRE_FULL:
			return false;
	}
	pg_unreachable();
}

static void
submit(ExchangeState *state, int count)
{
	if (state->workers.queue == NULL && count > 0)
		rf_group_submit_all(state->member->out, state->sending.submits, count);
	for (int i = 0; i < count && state->workers.queue != NULL; i++)
	{
		const RfGroupSubmit *batch = &state->sending.submits[i];

		rf_queue_put(state->workers.queue, batch->buffer->member, batch->buffer->buffer.data,
					 batch->length, batch->rows);
	}
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

	for (int consumer = 0; consumer < state->routing.destinations; consumer++)
	{
		ExchangeOutlet *outlet = &state->sending.outlets[consumer];

		if (before_parcel && outlet->parcel_left == 0)
			continue;
		if (outlet->filling && rf_encoder_rows(outlet->encoder) > 0)
			state->sending.submits[count++] = finish_batch(state, outlet);
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
	state->sending.parcel.data = bytes;
	state->sending.parcel.placed = false;
	state->sending.parcel.length = length;
	state->sending.parcel.rows = rows;
	for (int i = 0; i < state->routing.destinations; i++)
	{
		if (i != state->member->consumer && (consumer == RF_GROUP_ANY || consumer == i))
			state->sending.outlets[i].parcel_left = length;
	}
}

/* The consumer's next part of the parcel, for which it has a buffer. */
static RfGroupSubmit
take_part(ExchangeState *state, ExchangeOutlet *outlet)
{
	const uint8 *bytes = state->sending.parcel.data +
		(state->sending.parcel.length - outlet->parcel_left);
	uint32		part = Min(outlet->parcel_left, outlet->buffer.buffer.length);
	uint32		flags = outlet->parcel_left == state->sending.parcel.length ? RF_SLOT_FIRST : 0;
	RfGroupSubmit submit;

	if (!state->sending.parcel.placed)
		memcpy(outlet->buffer.buffer.data, bytes, part);
	outlet->parcel_left -= part;
	if (outlet->parcel_left == 0)
		flags |= RF_SLOT_LAST;
	submit = take_buffer(state, outlet, part, flags,
						 flags & RF_SLOT_LAST ? state->sending.parcel.rows : 0);
	if (state->sending.parcel.placed)
		submit.placed = bytes;
	return submit;
}

/* A worker passes it on whole: it is a large row. */
static void
put_parcel(ExchangeState *state)
{
	for (int consumer = 0; consumer < state->routing.destinations; consumer++)
	{
		if (state->sending.outlets[consumer].parcel_left == 0)
			continue;
		rf_queue_put(state->workers.queue, consumer, state->sending.parcel.data,
					 state->sending.parcel.length, state->sending.parcel.rows);
		state->sending.outlets[consumer].parcel_left = 0;
	}
}

/* False: some consumer has no buffer now. */
static bool
send_parcel(ExchangeState *state, bool *moved)
{
	int			count;
	bool		waiting;

	if (state->sending.parcel.data == NULL)
		return true;
	/* Rows encoded for one consumer alone are sent before it: their buffer is the next. */
	send_begun(state, true);
	if (state->workers.queue != NULL)
		put_parcel(state);
	do
	{
		count = 0;
		waiting = false;
		for (int consumer = 0; consumer < state->routing.destinations; consumer++)
		{
			ExchangeOutlet *outlet = &state->sending.outlets[consumer];

			if (outlet->parcel_left == 0)
				continue;
			if (get_buffer(state, consumer))
				state->sending.submits[count++] = take_part(state, outlet);
			else if (outlet->stopped)
				outlet->parcel_left = 0;
			waiting |= outlet->parcel_left > 0;
		}
		submit(state, count);
		*moved |= count > 0;
	} while (waiting && count > 0);
	if (waiting)
		return false;
	state->sending.parcel.data = NULL;
	if (state->sending.parcel.from != NULL)
		rf_queues_sent(state->workers.queues, state->sending.parcel.from);
	state->sending.parcel.from = NULL;
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

		batch = rf_queues_next_to_send(state->workers.queues);
		if (batch == NULL)
			return true;
		begin_parcel(state, batch->data, batch->length, batch->rows,
					 batch->consumer == state->routing.consumers ? RF_GROUP_ANY : batch->consumer);
		state->sending.parcel.from = batch;
	}
	return false;
}

/* The next row for that consumer does not fit into an empty buffer. */
static void
begin_large_row(ExchangeState *state, RfEncoder *encoder, int place, int consumer)
{
	const uint8 *batch;
	uint32		length;

	rf_rows_get(state->routing.rows, state->routing.numbers[state->routing.next[place]++],
				state->sending.large);
	state->routing.left[place]--;
	length = rf_encoder_measure_large(encoder, state->sending.large);
	batch = rf_encoder_large_row(encoder, state->sending.large, NULL, length, &length);
	begin_parcel(state, batch, length, 1, consumer);
}

/* ---------- rows into batches ---------- */

/* Encodes as many rows for that consumer as fit; returns false if not even one fits. */
static bool
add_rows(ExchangeState *state, RfEncoder *encoder, int place)
{
	uint32		added = rf_encoder_add_rows(encoder, state->routing.rows,
											state->routing.numbers + state->routing.next[place],
											state->routing.left[place]);

	state->routing.next[place] += added;
	state->routing.left[place] -= added;
	return added > 0;
}

/* False: it would overwrite rows that are still being sent. */
static bool
begin_common(ExchangeState *state)
{
	uint32		room = Min(state->sending.common.room, state->sending.common.size);

	if (rf_group_common(state->member->out, room, &state->sending.common.place) == RF_ACQUIRE_FULL)
		return false;
	rf_encoder_begin(state->sending.common.encoder,
					 state->sending.common.place != NULL ? state->sending.common.place :
					 state->sending.common.space,
					 room);
	state->sending.common.filling = true;
	return true;
}

static void
finish_common(ExchangeState *state)
{
	uint64		rows = rf_encoder_rows(state->sending.common.encoder);
	uint32		length = rf_encoder_finish(state->sending.common.encoder);

	state->sending.common.filling = false;
	begin_parcel(state,
				 state->sending.common.place != NULL ? state->sending.common.place :
				 state->sending.common.space,
				 length, rows, RF_GROUP_ANY);
	state->sending.parcel.placed = state->sending.common.place != NULL;
	if (state->sending.parcel.placed)
		rf_group_common_next(state->member->out);
}

/* Encode rows for all consumers. False: rows encoded before must be sent first. */
static bool
send_common(ExchangeState *state, bool *moved)
{
	int			place = state->routing.consumers;

	while (state->sending.common.encoder != NULL && state->routing.left[place] > 0)
	{
		if (!state->sending.common.filling && !begin_common(state))
			return false;
		*moved = true;
		add_rows(state, state->sending.common.encoder, place);
		if (state->routing.left[place] == 0)
			break;
		state->sending.common.filling = false;
		if (rf_encoder_rows(state->sending.common.encoder) > 0)
			finish_common(state);
		else if (state->sending.common.room >= state->sending.common.size)
			begin_large_row(state, state->sending.common.encoder, place, RF_GROUP_ANY);
		state->sending.common.room =
			Min(state->sending.common.room * ROOM_GROWTH, state->sending.common.size);
		if (!send_parcel(state, moved))
			return false;
	}
	return true;
}

/* Encode one consumer's rows into its batch. True: the batch is full, or a parcel has begun. */
static bool
fill_batch(ExchangeState *state, int consumer, bool *moved)
{
	ExchangeOutlet *outlet = &state->sending.outlets[consumer];

	for (;;)
	{
		uint32		room;

		if (!outlet->filling)
		{
			if (!get_buffer(state, consumer))
			{
				if (outlet->stopped)
					state->routing.left[consumer] = 0;
				return false;
			}
			room = Min(outlet->room, outlet->buffer.buffer.length);
			rf_encoder_begin(outlet->encoder, outlet->buffer.buffer.data, room);
			outlet->filling = true;
		}
		if (add_rows(state, outlet->encoder, consumer))
			*moved = true;
		if (state->routing.left[consumer] == 0)
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

		for (int consumer = 0; consumer < state->routing.destinations &&
			 state->sending.parcel.data == NULL; consumer++)
		{
			if (consumer == state->member->consumer || state->routing.left[consumer] == 0)
				continue;
			if (fill_batch(state, consumer, moved) && state->sending.parcel.data == NULL)
				state->sending.submits[full++] =
					finish_batch(state, &state->sending.outlets[consumer]);
			else
				waiting |= state->routing.left[consumer] > 0;
		}
		submit(state, full);
		if (state->sending.parcel.data != NULL)
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
	if (state->sending.common.filling)
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
	SeqScanState *node = state->input.scan;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	ExprState  *qual = node->ss.ps.qual;

	/* Stored in its usual place, so that ExecutorEnd closes it. */
	if (node->ss.ss_currentScanDesc == NULL)
		node->ss.ss_currentScanDesc = rf_table_beginscan(node->ss.ss_currentRelation,
														 node->ss.ps.state->es_snapshot);
	while (table_scan_getnextslot(node->ss.ss_currentScanDesc, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (qual == NULL)
			return slot;
		if (likely(!state->partners.asks_first) || rf_filter_passes(state, slot))
		{
			ResetExprContext(econtext);
			econtext->ecxt_scantuple = slot;
			if (ExecQual(qual, econtext))
				return slot;
		}
		if (unlikely(rf_flush_ticks != state->sending.flush_seen))
			return NULL;
	}
	ExecClearTuple(slot);
	state->input.over = true;
	return NULL;
}

/* The same, by columns. */
static TupleTableSlot *
column_row(ExchangeState *state)
{
	TupleTableSlot *slot;

	while ((slot = rf_columns_next(state->input.columns, &state->input.over)) == NULL &&
		   !state->input.over)
	{
		if (unlikely(rf_flush_ticks != state->sending.flush_seen))
			return NULL;
	}
	return slot;
}

/* As ExecutePlan does: the query runs only once. */
static void
start(ExchangeState *state)
{
	QueryDesc  *query = state->input.query;

	state->input.started = true;
	/* a filter that may come before the conditions looks at rows one by one, and may stop that */
	if (state->partners.asks_first)
		state->input.columns = NULL;
	query->estate->es_use_parallel_mode = query->plannedstmt->parallelModeNeeded &&
		!state->set->serial;
	if (query->estate->es_use_parallel_mode)
		EnterParallelMode();
}

/* Starts the query's workers, or sees which have ended. False: all of them have. */
static bool
poll_gather(ExchangeState *state)
{
	MemoryContext caller = MemoryContextSwitchTo(state->input.query->estate->es_query_cxt);
	TupleTableSlot *slot;

	state->input.inside = true;
	slot = ExecProcNode(&state->workers.gather->ps);
	state->input.inside = false;
	MemoryContextSwitchTo(caller);
	return !TupIsNull(slot);
}

/* NULL: no more, or (input not over) not yet */
static TupleTableSlot *
next_row(ExchangeState *state)
{
	EState	   *estate = state->input.node->state;
	MemoryContext caller;
	TupleTableSlot *slot;

	if (!state->input.started)
	{
		start(state);
		if (state->workers.gather != NULL)
			(void) poll_gather(state);
	}
	caller = MemoryContextSwitchTo(estate->es_query_cxt);
	state->input.inside = true;
	if (state->input.columns != NULL)
		slot = column_row(state);
	else if (state->input.scan != NULL)
		slot = scan_row(state);
	else
	{
		if (!state->input.local)
			ResetPerTupleExprContext(estate);
		/* as Gather does for its part of the plan */
		if (state->workers.gather != NULL && state->workers.gather->pei != NULL)
			estate->es_query_dsa = state->workers.gather->pei->area;
		slot = ExecProcNode(state->input.node);
		if (state->workers.gather != NULL)
			estate->es_query_dsa = NULL;
		if (TupIsNull(slot))
		{
			slot = NULL;
			state->input.over = true;
		}
		else if (estate->es_junkFilter != NULL && !state->input.local)
			slot = ExecFilterJunk(estate->es_junkFilter, slot);
	}
	state->input.inside = false;
	MemoryContextSwitchTo(caller);
	return slot;
}

/* Nobody wants rows any more. */
static void
stop_input(ExchangeState *state)
{
	state->input.over = true;
	if (state->workers.queues != NULL)
		rf_queues_stop(state->workers.queues);
}

/* Collects rows until they are to be routed. False: the step ended before. */
static bool
take_rows(ExchangeState *state)
{
	RfRows	   *rows = state->routing.rows;

	if (state->sending.live_outlets == 0 && state->reader.over)
		stop_input(state);
	if (state->workers.queue != NULL && rf_queue_is_stopped(state->workers.queue))
		state->input.over = true;
	for (int n = 0; n < ROWS_PER_STEP; n++)
	{
		TupleTableSlot *slot;

		if (state->input.over || state->sending.flush ||
			rows->count >= state->routing.rows_wanted ||
			rf_rows_full(rows))
			return true;
		if (unlikely(rf_flush_ticks != state->sending.flush_seen))
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
	if (state->workers.gather == NULL || !state->input.started)
		return true;
	if (poll_gather(state))
		return false;
	if (state->workers.queues == NULL)
		return true;
	return send_from_workers(state, moved) && rf_queues_are_empty(state->workers.queues);
}

/* The query has no more rows, or no more are needed, and all its rows were sent. */
static void
end_query(ExchangeState *state)
{
	if (state->input.started && state->input.query != NULL)
	{
		(void) ExecShutdownNode(state->input.query->planstate);
		if (state->input.query->estate->es_use_parallel_mode)
			ExitParallelMode();
		state->input.query->estate->es_use_parallel_mode = false;
	}
	state->workers.queues = NULL;
	state->sending.production = PRODUCTION_ENDING;
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

	for (uint32 row = 0; row < state->routing.rows->count; row++)
	{
		if (!is_heavy(spec, state->routing.hashes[row]))
			continue;
		if (spec->heavy == HEAVY_SPREAD)
			state->routing.places[row] = state->routing.spread_turn++ %
				(uint32) state->routing.consumers;
		else
			state->routing.places[row] = state->routing.consumers;
	}
}

/*
 * Rows for all consumers are for this one, too: write its list again at `to`, in the order of the
 * rows.
 */
static void
add_common(ExchangeState *state, int consumer, uint32 to)
{
	const uint16 *own = state->routing.numbers + state->routing.next[consumer];
	const uint16 *own_end = own + state->routing.left[consumer];
	const uint16 *common = state->routing.numbers + state->routing.next[state->routing.consumers];
	const uint16 *common_end = common + state->routing.left[state->routing.consumers];
	uint16	   *numbers = state->routing.numbers + to;

	state->routing.next[consumer] = to;
	state->routing.left[consumer] += state->routing.left[state->routing.consumers];
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
	RfRows	   *rows = state->routing.rows;
	uint64		consumers = state->routing.consumers;
	int			lists = state->routing.consumers + 1;

	rf_rows_complete(rows);
	if (spec->replicate)
		for (uint32 row = 0; row < rows->count; row++)
			state->routing.places[row] = state->routing.consumers;
	else
	{
		rf_route_hash_rows(state->routing.route, spec->keys, rows, state->routing.hashes,
						   state->routing.hashing);
		if (spec->map != NULL)
			for (uint32 row = 0; row < rows->count; row++)
				state->routing.places[row] =
					spec->map[state->routing.hashes[row] % (uint64) spec->map_count];
		else if (state->routing.consumer_mask != 0)
			for (uint32 row = 0; row < rows->count; row++)
				state->routing.places[row] =
					state->routing.hashes[row] & state->routing.consumer_mask;
		else
			for (uint32 row = 0; row < rows->count; row++)
				state->routing.places[row] = state->routing.hashes[row] % consumers;
		if (unlikely(spec->heavy_count > 0))
			place_heavy(state);
		if (unlikely(state->partners.filters != NULL) && rf_filter_is_on(state))
		{
			rf_filter_drop(state);
			lists++;
		}
	}
	if (unlikely(state->partners.keys != NULL))
		rf_filter_add_own(state);
	rf_rows_divide(state->routing.places, rows->count, lists, state->routing.numbers,
				   state->routing.next, state->routing.left);
	if (state->routing.left[state->routing.consumers] > 0)
	{
		uint32		to = rows->size;

		for (int consumer = 0; consumer < state->routing.consumers; consumer++)
		{
			if (consumer != state->member->consumer && state->sending.common.list)
				continue;
			add_common(state, consumer, to);
			to += rows->size;
		}
		if (!state->sending.common.list)
			state->routing.left[state->routing.consumers] = 0;
	}
	state->routing.routed = true;
	state->routing.rows_wanted = Min(state->routing.rows_wanted * 2, rows->size);
}

/* ---------- one step ---------- */

/*
 * Exchanges filters with all nodes before sending rows. Returns false until that is done.
 */
static bool
has_filters(ExchangeState *state, bool *moved)
{
	if (!state->partners.sent && state->sending.parcel.data == NULL)
	{
		uint32		length;
		const void *message = rf_filter_message(state, &length);

		if (message == NULL)
			return false;
		begin_parcel(state, message, length, 0, RF_GROUP_ANY);
		state->partners.sent = true;
	}
	if (!send_parcel(state, moved) || !rf_filter_is_complete(state))
		return false;
	state->input.over |= rf_filter_is_empty(state);
	return true;
}

void
rf_exchange_take_own(ExchangeState *state, TupleTableSlot *slot)
{
	int			own = state->member->consumer;

	rf_rows_get(state->routing.rows, state->routing.numbers[state->routing.next[own]++], slot);
	state->routing.left[own]--;
	state->member->counters.rows_local++;
}

uint32
rf_exchange_encode_own(ExchangeState *state, RfEncoder *encoder)
{
	int			own = state->member->consumer;
	uint32		before = state->routing.left[own];

	(void) add_rows(state, encoder, own);
	state->member->counters.rows_local += before - state->routing.left[own];
	return before - state->routing.left[own];
}

static inline bool
has_own_row(const ExchangeState *state)
{
	return state->routing.routed && !state->reader.over &&
		state->routing.left[state->member->consumer] > 0;
}

ExchangeStep
rf_exchange_produce(ExchangeState *state)
{
	bool		moved = false;

	/* While there are own rows, other nodes are not checked again. */
	if (has_own_row(state))
		return STEP_OWN_ROW;
	if (state->sending.production == PRODUCTION_RUNNING)
	{
		bool		new_rows = !state->routing.routed;
		bool		all_sent;

		if (unlikely(state->partners.filters != NULL) && !state->input.started &&
			!has_filters(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		if (unlikely(rf_flush_ticks != state->sending.flush_seen))
		{
			state->sending.flush_seen = rf_flush_ticks;
			state->sending.flush = true;
		}
		if (new_rows)
		{
			if (!take_rows(state))
				return STEP_MOVED;
			moved = state->routing.rows->count > 0;
			state->input.rows += state->routing.rows->count;
			route_rows(state);
		}
		if (state->workers.queues != NULL && !send_from_workers(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		all_sent = send_rows(state, &moved);
		if (new_rows && has_own_row(state))
			return STEP_OWN_ROW;
		if (!all_sent)
		{
			if (state->sending.flush)
				send_begun(state, false);
			return moved ? STEP_MOVED : STEP_STUCK;
		}
		if ((state->input.over || state->sending.flush) && !send_rest(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		state->sending.flush = false;
		state->routing.routed = false;
		rf_rows_reset(state->routing.rows);
		if (!state->input.over)
			return STEP_MOVED;
		if (!workers_are_done(state, &moved))
			return moved ? STEP_MOVED : STEP_STUCK;
		end_query(state);
	}
	if (state->sending.production == PRODUCTION_OVER)
		return STEP_STUCK;
	if (state->member->out != NULL &&
		rf_group_try_finish(state->member->out) == RF_ACQUIRE_FULL)
		return moved ? STEP_MOVED : STEP_STUCK;
	if (state->member->out != NULL)
		rf_group_close(state->member->out);
	state->member->out = NULL;
	state->sending.production = PRODUCTION_OVER;
	return STEP_MOVED;
}

/* ---------- begin and end ---------- */

static void
make_route(ExchangeState *state, TupleDesc desc)
{
	const ExchangeSpec *spec = state->spec;

	for (int i = 0; i < spec->map_count; i++)
	{
		if (spec->map[i] >= state->routing.consumers)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("exchange %d has a map to node %d, but its rows go to %d nodes",
							spec->number, spec->map[i], state->routing.consumers)));
	}
	state->routing.route = rf_exchange_spec_route(spec, desc);
	state->routing.hashes = palloc(state->routing.rows->size * sizeof(uint64));
	state->routing.hashing = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw hashing",
												   ALLOCSET_SMALL_SIZES);
}

static void
make_lists(ExchangeState *state)
{
	state->routing.places = palloc(state->routing.rows->size * sizeof(uint16));
	state->routing.numbers = palloc(3 * state->routing.rows->size * sizeof(uint16));
	state->routing.next = palloc0((state->routing.consumers + 2) * sizeof(uint32));
	state->routing.left = palloc0((state->routing.consumers + 2) * sizeof(uint32));
}

RfEncoder *
rf_exchange_make_encoder(TupleDesc desc, uint32 flags, int encoding)
{
	RfStreamColumn *wanted = palloc(sizeof(RfStreamColumn) * Max(desc->natts, 1));
	RfEncoder  *encoder;

	/*
	 * The columns have the same types on all nodes; modifiers were applied to the values already.
	 */
	for (int i = 0; i < desc->natts; i++)
		rf_column_wanted(TupleDescAttr(desc, i)->atttypid, -1, false, &wanted[i]);
	encoder = rf_encoder_create(desc, desc->natts, NULL, wanted, flags, encoding);
	pfree(wanted);
	return encoder;
}

static RfEncoder *
make_encoder(const ExchangeState *state, TupleDesc desc)
{
	return rf_exchange_make_encoder(desc, state->sending.flags, state->sending.encoding);
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

	state->sending.live_outlets = state->routing.consumers - (own >= 0 ? 1 : 0);
	state->routing.destinations = state->routing.consumers;
	if (state->workers.queue != NULL)
	{
		/* rows for all consumers are one more destination: the leader sends them to each */
		state->sending.common.list = true;
		state->routing.destinations++;
	}
	else if ((spec->replicate || spec->heavy == HEAVY_BROADCAST) && state->sending.live_outlets > 1)
	{
		state->sending.common.list = true;
		state->sending.common.encoder = make_encoder(state, desc);
		state->sending.common.size = state->member->desc->slot_size - sizeof(RfSlotHeader);
		state->sending.common.space = palloc_extended(state->sending.common.size, MCXT_ALLOC_HUGE);
		state->sending.common.room = FIRST_ROOM;
	}
	state->sending.outlets = palloc0(state->routing.destinations * sizeof(ExchangeOutlet));
	state->sending.submits = palloc(state->routing.destinations * sizeof(RfGroupSubmit));
	for (int consumer = 0; consumer < state->routing.destinations; consumer++)
	{
		state->sending.outlets[consumer].room = FIRST_ROOM;
		if (consumer != own &&
			(!spec->replicate || !state->sending.common.list ||
			 consumer == state->routing.consumers))
			state->sending.outlets[consumer].encoder = make_encoder(state, desc);
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

	state->routing.consumers = state->member->desc->consumers;
	state->input.scan = rf_bare_scan(state->input.node, &attmap, &count);
	if (state->input.scan != NULL && rf_columns_scan(state->input.node) != NULL)
		state->input.columns = state->input.node;
	if (state->input.scan != NULL)
		state->routing.rows =
			rf_rows_create(RelationGetDescr(state->input.scan->ss.ss_currentRelation), count,
						   attmap, state->routing.consumers);
	else
		state->routing.rows = rf_rows_create(desc, desc->natts, NULL, state->routing.consumers);
	state->routing.rows_wanted = FIRST_ROWS;
	state->sending.large = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	if ((state->routing.consumers & (state->routing.consumers - 1)) == 0)
		state->routing.consumer_mask = state->routing.consumers - 1;
	state->routing.spread_turn = Max(state->member->consumer, 0);
	state->sending.flush_seen = rf_flush_ticks;
	make_lists(state);
	make_outlets(state, desc);
	if (!state->spec->replicate)
		make_route(state, desc);
}

void
rf_exchange_end_sending(ExchangeState *state)
{
	if (state->input.started && state->input.query != NULL &&
		state->input.query->estate->es_use_parallel_mode)
		ExitParallelMode();
	if (state->routing.rows != NULL)
		rf_rows_destroy(state->routing.rows);
	state->routing.rows = NULL;
}
