/*
 * node_move.c - one exchange's rows: out of its query to the nodes they belong to, and in from
 * theirs.
 *
 * Nothing here waits. A row of the query stays in state->row until it has been encoded for every
 * consumer that gets it; one for which there is no send buffer now stops the query there, and what
 * other nodes sent can still be read. Rows for this node itself are handed up as they are.
 *
 * Memory: encoders and decoder live in the outer statement's context; what hashing a toasted key
 * leaves goes with the query's next row.
 */
#include "node.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"

/* Rows of the query in one step, before somebody looks for what has arrived. */
#define ROWS_PER_STEP	64

/* ---------- out ---------- */

static void
stop_outlet(ExchangeState *state, int consumer)
{
	state->outlets[consumer].stopped = true;
	state->live_outlets--;
}

/* A send buffer towards the consumer; false: not now (false) or never (outlet->stopped). */
static bool
get_buffer(ExchangeState *state, int consumer)
{
	ExchangeOutlet *outlet = &state->outlets[consumer];

	if (outlet->has_buffer)
		return true;
	switch (rf_group_try_acquire(state->member->out, consumer, &outlet->buffer))
	{
		case RF_ACQUIRED:
			outlet->has_buffer = true;
			return true;
		case RF_ACQUIRE_STOPPED:
			stop_outlet(state, consumer);
			return false;
		case RF_ACQUIRE_FULL:
			return false;
	}
	pg_unreachable();
}

static void
send_buffer(ExchangeState *state, int consumer, uint32 length, uint32 flags, uint64 rows)
{
	ExchangeOutlet *outlet = &state->outlets[consumer];

	rf_group_submit(state->member->out, &outlet->buffer, length, flags, rows);
	outlet->has_buffer = false;
	outlet->filling = false;
	state->member->counters.rows_out += rows;
	state->member->counters.bytes_out += length;
}

static void
send_batch(ExchangeState *state, int consumer)
{
	RfEncoder  *encoder = state->outlets[consumer].encoder;
	uint32		rows = rf_encoder_rows(encoder);

	send_buffer(state, consumer, rf_encoder_finish(encoder), RF_SLOT_FIRST | RF_SLOT_LAST, rows);
}

/* The rest of a row that needs several buffers; false: there is no buffer now. */
static bool
send_large(ExchangeState *state, int consumer)
{
	ExchangeOutlet *outlet = &state->outlets[consumer];

	while (state->large != NULL)
	{
		uint32		part;
		uint32		flags;

		if (!get_buffer(state, consumer))
		{
			if (!outlet->stopped)
				return false;
			break;
		}
		part = Min(state->large_length - state->large_sent, outlet->buffer.buffer.length);
		flags = state->large_sent == 0 ? RF_SLOT_FIRST : 0;
		memcpy(outlet->buffer.buffer.data, state->large + state->large_sent, part);
		state->large_sent += part;
		if (state->large_sent == state->large_length)
		{
			flags |= RF_SLOT_LAST;
			state->large = NULL;
		}
		send_buffer(state, consumer, part, flags, flags & RF_SLOT_LAST ? 1 : 0);
	}
	state->large = NULL;
	return true;
}

/* Encode state->row for a consumer; false: there is no buffer now. */
static bool
send_row(ExchangeState *state, int consumer)
{
	ExchangeOutlet *outlet = &state->outlets[consumer];

	if (unlikely(state->large != NULL))
		return send_large(state, consumer);
	for (;;)
	{
		if (!outlet->filling)
		{
			if (outlet->stopped)
				return true;
			if (!get_buffer(state, consumer))
				return outlet->stopped;
			rf_encoder_begin(outlet->encoder, outlet->buffer.buffer.data,
							 outlet->buffer.buffer.length);
			outlet->filling = true;
		}
		switch (rf_encoder_add(outlet->encoder, state->row))
		{
			case RF_ENCODE_DONE:
				return true;
			case RF_ENCODE_FULL:
				send_batch(state, consumer);
				break;
			case RF_ENCODE_TOO_LARGE:
				outlet->filling = false;
				state->large_length = rf_encoder_measure_large(outlet->encoder, state->row);
				state->large = (const char *) rf_encoder_large_row(outlet->encoder, state->row,
																   NULL, state->large_length,
																   &state->large_length);
				state->large_sent = 0;
				return send_large(state, consumer);
		}
	}
}

/* ---------- the query ---------- */

static TupleTableSlot *
next_row(ExchangeState *state)
{
	QueryDesc  *query = state->query;
	EState	   *estate = query->estate;
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	TupleTableSlot *slot;

	if (!state->started)
	{
		/* What ExecutePlan does: the query runs once, to its end or never again. */
		state->started = true;
		estate->es_use_parallel_mode = query->plannedstmt->parallelModeNeeded;
		if (estate->es_use_parallel_mode)
			EnterParallelMode();
	}
	ResetPerTupleExprContext(estate);
	state->inside = true;
	slot = ExecProcNode(query->planstate);
	state->inside = false;
	if (!TupIsNull(slot) && estate->es_junkFilter != NULL)
		slot = ExecFilterJunk(estate->es_junkFilter, slot);
	MemoryContextSwitchTo(caller);
	return TupIsNull(slot) ? NULL : slot;
}

/* It gives no more rows, or none are wanted. */
static void
end_rows(ExchangeState *state)
{
	if (state->started)
	{
		(void) ExecShutdownNode(state->query->planstate);
		if (state->query->estate->es_use_parallel_mode)
			ExitParallelMode();
		state->query->estate->es_use_parallel_mode = false;
	}
	for (int consumer = 0; consumer < state->consumers; consumer++)
	{
		ExchangeOutlet *outlet = &state->outlets[consumer];

		if (outlet->filling && rf_encoder_rows(outlet->encoder) > 0)
			send_batch(state, consumer);
	}
	state->row = NULL;
	state->large = NULL;
	state->production = PRODUCTION_ENDING;
}

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

/* Where state->row goes. */
static void
route_row(ExchangeState *state)
{
	const ExchangeSpec *spec = state->spec;
	TupleTableSlot *slot = state->row;
	bool		everywhere = spec->replicate;

	if (!everywhere)
	{
		MemoryContext caller =
			MemoryContextSwitchTo(GetPerTupleMemoryContext(state->query->estate));
		uint64		hash;

		slot_getsomeattrs(slot, state->last_key);
		hash = rf_route_hash_row(state->route, spec->keys, slot->tts_values, slot->tts_isnull);
		MemoryContextSwitchTo(caller);
		if (unlikely(spec->heavy_count > 0) && is_heavy(spec, hash))
		{
			everywhere = spec->heavy == HEAVY_BROADCAST;
			hash = state->spread_turn;
			state->spread_turn += everywhere ? 0 : 1;
		}
		state->to = state->last = (int) (state->consumer_mask != 0 ? hash & state->consumer_mask :
										 hash % (uint64) state->consumers);
	}
	if (everywhere)
	{
		state->to = 0;
		state->last = state->consumers - 1;
	}
	state->row_is_ours = state->to <= state->member->consumer &&
		state->member->consumer <= state->last;
}

void
exchange_row_taken(ExchangeState *state)
{
	state->row = NULL;
	state->member->counters.rows_local++;
}

ExchangeStep
exchange_produce(ExchangeState *state)
{
	if (state->production == PRODUCTION_OVER)
		return STEP_STUCK;
	for (int rows = 0; state->production == PRODUCTION_RUNNING && rows < ROWS_PER_STEP; rows++)
	{
		if (state->row == NULL)
		{
			if (unlikely(state->live_outlets == 0 && state->reading_over) ||
				(state->row = next_row(state)) == NULL)
			{
				end_rows(state);
				break;
			}
			route_row(state);
		}
		for (; state->to <= state->last; state->to++)
		{
			if (state->to != state->member->consumer && !send_row(state, state->to))
				return rows > 0 ? STEP_MOVED : STEP_STUCK;
		}
		if (state->row_is_ours)
		{
			if (!state->reading_over)
				return STEP_OWN_ROW;
		}
		state->row = NULL;
	}
	if (state->production == PRODUCTION_ENDING)
	{
		if (state->member->out != NULL &&
			rf_group_try_finish(state->member->out) == RF_ACQUIRE_FULL)
			return STEP_STUCK;
		if (state->member->out != NULL)
			rf_group_close(state->member->out);
		state->member->out = NULL;
		state->production = PRODUCTION_OVER;
	}
	return STEP_MOVED;
}

/* ---------- in ---------- */

/* A batch that needed several buffers is put together in memory of our own. */
static void
append_part(ExchangeState *state)
{
	Size		length = state->copy_length + state->buffer.buffer.length;

	if (length > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a row of exchange %d is too large", state->spec->number)));
	if (length > state->copy_size)
	{
		Size		size = Max(state->copy_size * 2, length);

		state->copy = state->copy != NULL ? repalloc_huge(state->copy, size) :
			MemoryContextAllocHuge(state->css.ss.ps.state->es_query_cxt, size);
		state->copy_size = size;
	}
	memcpy(state->copy + state->copy_length, state->buffer.buffer.data,
		   state->buffer.buffer.length);
	state->copy_length = length;
}

static void
drop_batch(ExchangeState *state)
{
	if (state->holding)
		rf_group_release(state->member->in, &state->buffer);
	state->holding = false;
	state->loaded = false;
}

static void
load_batch(ExchangeState *state, const void *batch, uint32 length)
{
	rf_decoder_load(state->decoder, batch, length);
	state->loaded = true;
	state->member->counters.rows_in += rf_decoder_remaining(state->decoder);
	state->member->counters.bytes_in += length;
}

bool
exchange_receive(ExchangeState *state)
{
	RfGroup    *in = state->member->in;

	state->unpolled = 0;
	while (!state->loaded && !state->in_ended)
	{
		bool		first;
		bool		last;

		switch (rf_group_poll(in, &state->buffer))
		{
			case RF_POLL_EMPTY:
				return false;
			case RF_POLL_END:
				state->in_ended = true;
				rf_group_close(in);
				state->member->in = NULL;
				return true;
			case RF_POLL_BUFFER:
				break;
		}
		state->holding = true;
		first = (state->buffer.buffer.flags & RF_SLOT_FIRST) != 0;
		last = (state->buffer.buffer.flags & RF_SLOT_LAST) != 0;
		if (first == state->assembling)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("received a part of a column batch of exchange %d out of order",
							state->spec->number)));
		if (first && last)
		{
			load_batch(state, state->buffer.buffer.data, state->buffer.buffer.length);
			return true;
		}
		if (first)
			state->copy_length = 0;
		append_part(state);
		state->assembling = !last;
		drop_batch(state);
		if (last)
			load_batch(state, state->copy, (uint32) state->copy_length);
	}
	return state->loaded;
}

bool
exchange_next_received(ExchangeState *state, TupleTableSlot *slot)
{
	if (!state->loaded)
		return false;
	ExecClearTuple(slot);
	if (rf_decoder_next(state->decoder, slot->tts_values, slot->tts_isnull))
	{
		ExecStoreVirtualTuple(slot);
		return true;
	}
	drop_batch(state);
	return false;
}

/* ---------- rows that wait for the reader ---------- */

void
exchange_store(ExchangeState *state, TupleTableSlot *row)
{
	TupleDesc	desc = state->arriving->tts_tupleDescriptor;

	if (state->store == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

		state->store = tuplestore_begin_heap(false, false, work_mem);
		if (state->keep)
			tuplestore_set_eflags(state->store, EXEC_FLAG_REWIND);
		MemoryContextSwitchTo(caller);
	}
	slot_getallattrs(row);
	tuplestore_putvalues(state->store, desc, row->tts_values, row->tts_isnull);
	state->waiting++;
	state->store_bytes += MAXALIGN(SizeofMinimalTupleHeader) +
		heap_compute_data_size(desc, row->tts_values, row->tts_isnull);
	if (!tuplestore_in_memory(state->store))
	{
		state->member->counters.spilled_bytes += state->store_bytes - state->store_spilled;
		state->store_spilled = state->store_bytes;
	}
}

void
exchange_stop_reading(ExchangeState *state)
{
	state->lent = false;
	if (!state->reading_over)
	{
		state->reading_over = true;
		if (state->set != NULL && state->member->consumer >= 0)
			state->set->unread--;
	}
	drop_batch(state);
	if (state->member->in != NULL)
	{
		rf_group_stop(state->member->in);
		state->member->in = NULL;
	}
	state->in_ended = true;
	if (state->store != NULL)
		tuplestore_end(state->store);
	state->store = NULL;
	state->waiting = 0;
}

/* ---------- begin and end ---------- */

static void
make_outlets(ExchangeState *state, TupleDesc desc)
{
	RfStreamColumn *wanted = palloc(sizeof(RfStreamColumn) * Max(desc->natts, 1));

	/* Columns of the same types on all nodes; values have their modifiers' form already. */
	for (int i = 0; i < desc->natts; i++)
		rf_column_wanted(TupleDescAttr(desc, i)->atttypid, -1, &wanted[i]);
	state->consumers = state->member->desc->consumers;
	if ((state->consumers & (state->consumers - 1)) == 0)
		state->consumer_mask = state->consumers - 1;
	state->outlets = palloc0(state->consumers * sizeof(ExchangeOutlet));
	state->spread_turn = Max(state->member->consumer, 0);
	for (int consumer = 0; consumer < state->consumers; consumer++)
	{
		if (consumer == state->member->consumer)
			continue;
		state->outlets[consumer].encoder = rf_encoder_create(desc, desc->natts, NULL, wanted, 0,
															 GetDatabaseEncoding());
		state->live_outlets++;
	}
	pfree(wanted);
}

static void
make_route(ExchangeState *state, TupleDesc desc)
{
	const ExchangeSpec *spec = state->spec;
	Oid			types[MaxTupleAttributeNumber];
	Oid			collations[MaxTupleAttributeNumber];

	for (int i = 0; i < spec->key_count; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, spec->keys[i] - 1);

		types[i] = att->atttypid;
		collations[i] = att->attcollation;
		state->last_key = Max(state->last_key, spec->keys[i]);
	}
	state->route = rf_route_create(spec->key_count, types, collations);
}

void
exchange_begin_moving(ExchangeState *state, TupleDesc desc)
{
	ExchangeMember *member = state->member;
	AttrNumber *attnums = palloc(sizeof(AttrNumber) * Max(desc->natts, 1));

	for (int i = 0; i < desc->natts; i++)
		attnums[i] = i + 1;
	state->production = PRODUCTION_OVER;
	if (member->producer >= 0)
	{
		state->production = PRODUCTION_RUNNING;
		make_outlets(state, desc);
		if (!state->spec->replicate)
			make_route(state, desc);
	}
	if (member->consumer < 0)
		state->reading_over = state->in_ended = true;
	else
		state->decoder = rf_decoder_create(desc, desc->natts, attnums,
										   psprintf("exchange %d", state->spec->number));
}

void
exchange_end_moving(ExchangeState *state)
{
	if (state->started && state->query->estate->es_use_parallel_mode)
		ExitParallelMode();
	if (state->store != NULL)
		tuplestore_end(state->store);
	state->store = NULL;
	if (state->decoder != NULL)
		rf_decoder_destroy(state->decoder);
	state->decoder = NULL;
}
