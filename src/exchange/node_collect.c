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
	if (!rf_batches_put(state->sharing.batches, batch, length))
		state->member->counters.spilled_bytes += length;
}

static void
begin_own_batch(ExchangeState *state)
{
	rf_encoder_begin(state->sharing.own_encoder, state->sharing.own_space, OWN_BATCH);
}

static void
keep_own_batch(ExchangeState *state)
{
	if (rf_encoder_rows(state->sharing.own_encoder) > 0)
		keep(state, state->sharing.own_space, rf_encoder_finish(state->sharing.own_encoder));
	begin_own_batch(state);
}

void
rf_exchange_begin_collecting(ExchangeState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

	state->sharing.batches = rf_batches_create(RF_BATCHES_SHARED, estate->es_query_cxt, state->owner);
	state->sharing.own_encoder =
		rf_exchange_make_encoder(state->store.arriving->tts_tupleDescriptor);
	state->sharing.own_space = palloc(OWN_BATCH);
	state->sharing.decoder =
		rf_exchange_make_decoder(state, state->store.arriving->tts_tupleDescriptor);
	begin_own_batch(state);
	MemoryContextSwitchTo(caller);
}

/* A row for which the empty batch has no room. */
static void
collect_large(ExchangeState *state, TupleTableSlot *row)
{
	uint32		length = rf_encoder_measure_large(state->sharing.own_encoder, row);
	const uint8 *batch =
		rf_encoder_large_row(state->sharing.own_encoder, row, NULL, length, &length);

	keep(state, batch, length);
	begin_own_batch(state);
}

static void
collect_row(ExchangeState *state, TupleTableSlot *row)
{
	slot_getallattrs(row);
	if (rf_encoder_add(state->sharing.own_encoder, row) == RF_ENCODE_DONE)
		return;
	keep_own_batch(state);
	if (rf_encoder_add(state->sharing.own_encoder, row) != RF_ENCODE_DONE)
		collect_large(state, row);
}

/* Rows that were stored one by one, before several processes were known to read them. */
static void
take_over_rows(ExchangeState *state)
{
	while (rf_exchange_next_received(state, state->store.arriving))
		collect_row(state, state->store.arriving);
	for (; state->store.waiting > 0; state->store.waiting--)
	{
		if (!tuplestore_gettupleslot(state->store.tuples, true, false, state->store.stored))
			elog(ERROR, "exchange %d has lost a row", state->spec->number);
		collect_row(state, state->store.stored);
	}
	ExecClearTuple(state->store.stored);
	if (state->store.tuples != NULL)
		tuplestore_end(state->store.tuples);
	state->store.tuples = NULL;
	state->store.bytes = state->store.spilled = 0;
}

bool
rf_exchange_collects(ExchangeState *state)
{
	if (state->reader.over)
		return false;
	if (state->sharing.batches != NULL)
		return true;
	/* rows that were returned already, and are to be read again, would be missing */
	if (!state->css.ss.ps.plan->parallel_aware || !state->css.ss.ps.state->es_use_parallel_mode ||
		state->reader.given)
		return false;
	rf_exchange_begin_collecting(state);
	take_over_rows(state);
	return true;
}

void
rf_exchange_collect_received(ExchangeState *state)
{
	keep(state, state->in.batch, state->in.length);
	rf_exchange_drop_batch(state);
}

void
rf_exchange_collect_own(ExchangeState *state)
{
	if (rf_exchange_encode_own(state, state->sharing.own_encoder) > 0)
		return;
	if (rf_encoder_rows(state->sharing.own_encoder) > 0)
	{
		keep_own_batch(state);
		return;
	}
	rf_exchange_take_own(state, state->store.arriving);
	collect_large(state, state->store.arriving);
}

void
rf_exchange_end_collecting(ExchangeState *state)
{
	keep_own_batch(state);
	rf_batches_complete(state->sharing.batches);
	rf_encoder_destroy(state->sharing.own_encoder);
	pfree(state->sharing.own_space);
	state->sharing.own_encoder = NULL;
	state->sharing.own_space = NULL;
	state->sharing.collected = true;
}
