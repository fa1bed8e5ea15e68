/*
 * node_move.c - receives one exchange's rows from other nodes. Nothing here waits itself. The
 * decoder lives in the outer statement's context.
 */
#include "node.h"

#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "rdma_fdw/compat.h"

void
rf_exchange_drop_batch(ExchangeState *state)
{
	if (state->in.holding)
		rf_group_release(state->member->in, &state->in.buffer);
	if (state->in.from != NULL)
		rf_queues_read(state->workers.queues, state->in.from);
	state->in.from = NULL;
	state->in.holding = false;
	state->in.loaded = false;
}

static void
load_batch(ExchangeState *state, const void *batch, uint32 length)
{
	rf_decoder_load(state->in.decoder, batch, length);
	if (unlikely(state->partners.keys != NULL))
	{
		rf_filter_add_batch(state);
		rf_decoder_load(state->in.decoder, batch, length);
	}
	state->in.batch = batch;
	state->in.length = length;
	state->in.rows = rf_decoder_remaining(state->in.decoder);
	state->in.loaded = true;
}

static void
load_received(ExchangeState *state, const void *batch, uint32 length)
{
	load_batch(state, batch, length);
	state->member->counters.rows_in += state->in.rows;
	state->member->counters.bytes_in += length;
}

/*
 * Batches that workers of this node's query have made for this node come as if they had been
 * received.
 */
static bool
load_from_workers(ExchangeState *state)
{
	const ExchangeWorkerBatch *batch = rf_queues_next_to_read(state->workers.queues);

	if (batch == NULL)
		return false;
	state->in.from = batch;
	load_batch(state, batch->data, batch->length);
	state->member->counters.rows_local += batch->rows;
	return true;
}

/*
 * Takes a message that is no batch but its sender's filter of this exchange. Then that is known
 * now.
 */
static inline bool
is_filter(ExchangeState *state, const void *message, uint32 length)
{
	if (likely(state->partners.filters == NULL) ||
		!rf_filter_receive(state, state->in.buffer.member, message, length))
		return false;
	state->member->counters.bytes_in += length;
	return true;
}

bool
rf_exchange_receive(ExchangeState *state)
{
	RfGroup    *in = state->member->in;

	state->in.unpolled = 0;
	if (!state->in.loaded && state->workers.queues != NULL && load_from_workers(state))
		return true;
	while (!state->in.loaded && !state->in.ended)
	{
		bool		complete;

		switch (rf_group_poll(in, &state->in.buffer))
		{
			case RF_POLL_EMPTY:
				return false;
			case RF_POLL_END:
				state->in.ended = true;
				rf_group_close(in);
				state->member->in = NULL;
				return true;
			case RF_POLL_BUFFER:
				break;
		}
		state->in.holding = true;
		if (rf_reassembly_is_whole(&state->in.copy, &state->in.buffer.buffer))
		{
			if (!is_filter(state, state->in.buffer.buffer.data, state->in.buffer.buffer.length))
				load_received(state, state->in.buffer.buffer.data, state->in.buffer.buffer.length);
			else
				rf_exchange_drop_batch(state);
			return true;
		}
		complete = rf_reassembly_add(&state->in.copy, &state->in.buffer.buffer);
		rf_exchange_drop_batch(state);
		if (complete && is_filter(state, state->in.copy.data, (uint32) state->in.copy.length))
			return true;
		if (complete)
			load_received(state, state->in.copy.data, (uint32) state->in.copy.length);
	}
	return state->in.loaded;
}

bool
rf_exchange_next_received(ExchangeState *state, TupleTableSlot *slot)
{
	if (!state->in.loaded)
		return false;
	ExecClearTuple(slot);
	if (rf_decoder_next(state->in.decoder, slot->tts_values, slot->tts_isnull))
	{
		ExecStoreVirtualTuple(slot);
		return true;
	}
	rf_exchange_drop_batch(state);
	return false;
}

void
rf_exchange_stop_reading(ExchangeState *state)
{
	state->reader.lent = false;
	state->partners.cut_short |= !rf_exchange_has_arrived(state);
	if (!state->reader.over)
	{
		state->reader.over = true;
		if (state->set != NULL && state->member->consumer >= 0)
			state->set->unread--;
	}
	rf_exchange_drop_batch(state);
	if (state->workers.queues != NULL)
		rf_queues_stop_reading(state->workers.queues);
	if (state->member->in != NULL)
	{
		rf_group_stop(state->member->in);
		state->member->in = NULL;
	}
	state->in.ended = true;
}

/* ---------- begin and end ---------- */

RfDecoder *
rf_exchange_make_decoder(ExchangeState *state, TupleDesc desc)
{
	AttrNumber *attnums = palloc(sizeof(AttrNumber) * Max(desc->natts, 1));

	for (int i = 0; i < desc->natts; i++)
		attnums[i] = i + 1;
	return rf_decoder_create(desc, desc->natts, attnums,
							 psprintf("exchange %d", state->spec->number), false);
}

void
rf_exchange_begin_moving(ExchangeState *state, TupleDesc desc)
{
	ExchangeMember *member = state->member;

	state->sending.production = PRODUCTION_OVER;
	if (member->producer >= 0)
	{
		state->sending.production = PRODUCTION_RUNNING;
		state->sending.encoding = GetDatabaseEncoding();
		rf_exchange_begin_sending(state, desc);
	}
	if (member->consumer < 0)
		state->reader.over = state->in.ended = true;
	else
	{
		state->in.decoder = rf_exchange_make_decoder(state, desc);
		rf_reassembly_init(&state->in.copy, state->css.ss.ps.state->es_query_cxt,
						   psprintf("exchange %d", state->spec->number), 0);
	}
}
