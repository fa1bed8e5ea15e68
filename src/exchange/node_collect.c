/*
 * node_collect.c - stores one exchange's rows until the reader takes them.
 *
 * Batches of other nodes are stored as they arrive: the process that reads one decodes it. Rows
 * that stay on this node are encoded for that, and so is the rest of a batch that the reader has
 * begun. Nothing here waits, and only the backend that runs the statement calls it.
 *
 * Memory: the statement's.
 */
#include "node.h"

#include "mb/pg_wchar.h"
#include "executor/executor.h"

#include "rdma_fdw/compat.h"

/*
 * Batch size for local rows: large enough to encode column by column, small enough to share evenly.
 */
#define OWN_BATCH		(128 * 1024)

/* Workers may read them later, of this plan node's Gather or of the one above another reader. */
static RfBatchesKind
kind_of_store(const ExchangeState *state)
{
	bool		shared = state->css.ss.ps.plan->parallel_aware;
	ListCell   *lc;

	foreach(lc, state->member->readers)
		shared |= ((ExchangeState *) lfirst(lc))->css.ss.ps.plan->parallel_aware;
	return shared ? RF_BATCHES_SHARED : state->reader.keep ? RF_BATCHES_KEPT : RF_BATCHES_ONCE;
}

static void
begin_own_batch(ExchangeState *state)
{
	rf_encoder_begin(state->store.encoder, state->store.space, OWN_BATCH);
}

void
rf_exchange_require_store(ExchangeState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	TupleDesc	desc = state->store.arriving->tts_tupleDescriptor;
	MemoryContext caller;

	if (state->store.batches != NULL)
		return;
	caller = MemoryContextSwitchTo(estate->es_query_cxt);
	state->store.batches = rf_batches_create(kind_of_store(state), estate->es_query_cxt,
											 state->owner);
	state->store.encoder = rf_exchange_make_encoder(desc, 0, GetDatabaseEncoding());
	state->store.space = palloc(OWN_BATCH);
	if (state->sharing.decoder == NULL)
		state->sharing.decoder = rf_exchange_make_decoder(state, desc);
	begin_own_batch(state);
	MemoryContextSwitchTo(caller);
}

static void
store(ExchangeState *state, const void *batch, uint32 length)
{
	if (!rf_batches_put(state->store.batches, batch, length))
		state->member->counters.spilled_bytes += length;
	state->store.waiting = true;
}

bool
rf_exchange_store_begun(ExchangeState *state)
{
	if (state->store.encoder == NULL || rf_encoder_rows(state->store.encoder) == 0)
		return false;
	store(state, state->store.space, rf_encoder_finish(state->store.encoder));
	begin_own_batch(state);
	return true;
}

/* A row for which the empty batch has no room. */
static void
store_large(ExchangeState *state, TupleTableSlot *row)
{
	uint32		length = rf_encoder_measure_large(state->store.encoder, row);
	const uint8 *batch = rf_encoder_large_row(state->store.encoder, row, NULL, length, &length);

	store(state, batch, length);
	begin_own_batch(state);
}

static void
store_row(ExchangeState *state, TupleTableSlot *row)
{
	slot_getallattrs(row);
	state->store.waiting = true;
	if (rf_encoder_add(state->store.encoder, row) == RF_ENCODE_DONE)
		return;
	(void) rf_exchange_store_begun(state);
	if (rf_encoder_add(state->store.encoder, row) != RF_ENCODE_DONE)
		store_large(state, row);
}

void
rf_exchange_store_received(ExchangeState *state)
{
	rf_exchange_require_store(state);
	if (rf_decoder_remaining(state->in.decoder) == state->in.rows)
	{
		store(state, state->in.batch, state->in.length);
		rf_exchange_drop_batch(state);
		return;
	}
	while (rf_exchange_next_received(state, state->store.arriving))
		store_row(state, state->store.arriving);
}

void
rf_exchange_store_own(ExchangeState *state)
{
	rf_exchange_require_store(state);
	state->store.waiting = true;
	if (rf_exchange_encode_own(state, state->store.encoder) > 0 || rf_exchange_store_begun(state))
		return;
	rf_exchange_take_own(state, state->store.arriving);
	store_large(state, state->store.arriving);
}

void
rf_exchange_complete_store(ExchangeState *state)
{
	rf_exchange_require_store(state);
	(void) rf_exchange_store_begun(state);
	rf_batches_complete(state->store.batches);
	rf_encoder_destroy(state->store.encoder);
	pfree(state->store.space);
	state->store.encoder = NULL;
	state->store.space = NULL;
	state->store.complete = true;
}
