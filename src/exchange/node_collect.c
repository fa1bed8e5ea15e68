/*
 * node_collect.c - keeps one exchange's rows as batches for all processes of a Gather.
 *
 * Batches of other nodes are kept as they arrive: the process that reads one decodes it. Rows that
 * stay on this node are encoded for that. Nothing here waits, and only the backend that runs the
 * statement calls it.
 *
 * Memory: the statement's.
 */
#include "node.h"

#include "executor/executor.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"

/*
 * Batch size for local rows: large enough to encode column by column, small enough to share evenly.
 */
#define OWN_BATCH		(128 * 1024)

static void
keep(ExchangeState *state, const void *batch, uint32 length)
{
	if (!rf_batches_put(state->batches, batch, length))
		state->member->counters.spilled_bytes += length;
}

static void
begin_own_batch(ExchangeState *state)
{
	rf_encoder_begin(state->own_encoder, state->own_space, OWN_BATCH);
}

static void
keep_own_batch(ExchangeState *state)
{
	if (rf_encoder_rows(state->own_encoder) > 0)
		keep(state, state->own_space, rf_encoder_finish(state->own_encoder));
	begin_own_batch(state);
}

void
rf_exchange_begin_collecting(ExchangeState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

	state->batches = rf_batches_create(estate->es_query_cxt, state->owner);
	state->own_encoder = rf_exchange_make_encoder(state->arriving->tts_tupleDescriptor);
	state->own_space = palloc(OWN_BATCH);
	state->shared_decoder = rf_exchange_make_decoder(state, state->arriving->tts_tupleDescriptor);
	begin_own_batch(state);
	MemoryContextSwitchTo(caller);
}

/* A row for which the empty batch has no room. */
static void
collect_large(ExchangeState *state, TupleTableSlot *row)
{
	uint32		length = rf_encoder_measure_large(state->own_encoder, row);
	const uint8 *batch = rf_encoder_large_row(state->own_encoder, row, NULL, length, &length);

	keep(state, batch, length);
	begin_own_batch(state);
}

static void
collect_row(ExchangeState *state, TupleTableSlot *row)
{
	slot_getallattrs(row);
	if (rf_encoder_add(state->own_encoder, row) == RF_ENCODE_DONE)
		return;
	keep_own_batch(state);
	if (rf_encoder_add(state->own_encoder, row) != RF_ENCODE_DONE)
		collect_large(state, row);
}

/* Rows that were stored one by one, before several processes were known to read them. */
static void
take_over_rows(ExchangeState *state)
{
	while (rf_exchange_next_received(state, state->arriving))
		collect_row(state, state->arriving);
	for (; state->waiting > 0; state->waiting--)
	{
		if (!tuplestore_gettupleslot(state->store, true, false, state->stored))
			elog(ERROR, "exchange %d has lost a row", state->spec->number);
		collect_row(state, state->stored);
	}
	ExecClearTuple(state->stored);
	if (state->store != NULL)
		tuplestore_end(state->store);
	state->store = NULL;
	state->store_bytes = state->store_spilled = 0;
}

bool
rf_exchange_collects(ExchangeState *state)
{
	if (state->reading_over)
		return false;
	if (state->batches != NULL)
		return true;
	/* rows that were returned already, and are to be read again, would be missing */
	if (!state->css.ss.ps.plan->parallel_aware || !state->css.ss.ps.state->es_use_parallel_mode ||
		state->given)
		return false;
	rf_exchange_begin_collecting(state);
	take_over_rows(state);
	return true;
}

void
rf_exchange_collect_received(ExchangeState *state)
{
	keep(state, state->batch, state->batch_length);
	rf_exchange_drop_batch(state);
}

void
rf_exchange_collect_own(ExchangeState *state)
{
	if (rf_exchange_encode_own(state, state->own_encoder) > 0)
		return;
	if (rf_encoder_rows(state->own_encoder) > 0)
	{
		keep_own_batch(state);
		return;
	}
	rf_exchange_take_own(state, state->arriving);
	collect_large(state, state->arriving);
}

void
rf_exchange_end_collecting(ExchangeState *state)
{
	keep_own_batch(state);
	rf_batches_complete(state->batches);
	rf_encoder_destroy(state->own_encoder);
	pfree(state->own_space);
	state->own_encoder = NULL;
	state->own_space = NULL;
	state->collected = true;
}
