/*
 * node_share.c - the leader and the workers of a Gather read one exchange's rows together.
 *
 * Collect, then share: before the workers start, the leader waits until all rows of the exchange
 * are here (node_collect.c). Then each process takes the next batch that is not taken yet, decodes
 * it, and does with the rows what the plan above says. Workers touch no flow and no query: all they
 * need is what was collected. The number of workers, and the time at which they start, change only
 * the speed.
 *
 * Why nothing hangs: collecting is a wait for one exchange like any other (node_drive.c), in the
 * one process that waits for exchanges. Below one Gather the exchanges are awaited one after the
 * other, never one inside the other. Workers wait only for each other and for their leader, inside
 * nodes of core that need no row for that which is not here yet: a node that waits for its workers
 * computes.
 *
 * A Gather that runs without workers does not collect: its leader reads as if it were alone.
 */
#include "postgres.h"

#include "node.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"

/* All rows of the exchange, unless they are there already. */
static void
collect(ExchangeState *state)
{
	if (state->collected)
		return;
	if (!rf_exchange_collects(state))
	{
		if (!state->reading_over)
			elog(ERROR, "rows of exchange %d are being read already", state->spec->number);
		/* no rows come to this node */
		rf_exchange_begin_collecting(state);
		rf_exchange_end_collecting(state);
		return;
	}
	for (;;)
	{
		bool		moved = rf_exchange_receive(state);

		if (state->loaded)
			rf_exchange_collect_received(state);
		switch (rf_exchange_produce(state))
		{
			case STEP_OWN_ROW:
				rf_exchange_collect_own(state);
				moved = true;
				break;
			case STEP_MOVED:
				moved = true;
				break;
			case STEP_STUCK:
				break;
		}
		if (!moved)
		{
			if (rf_exchange_all_read(state))
				break;
			rf_exchange_sleep(state);
		}
		CHECK_FOR_INTERRUPTS();
	}
	state->reading_over = true;
	state->set->unread--;
	rf_exchange_end_collecting(state);
}

TupleTableSlot *
rf_exchange_next_shared(ExchangeState *state, TupleTableSlot *slot)
{
	const void *batch;
	uint32		length;

	ExecClearTuple(slot);
	if (!state->shared)
		collect(state);
	for (;;)
	{
		if (state->taken)
		{
			if (rf_decoder_next(state->decoder, slot->tts_values, slot->tts_isnull))
				return ExecStoreVirtualTuple(slot);
			state->taken = false;
		}
		CHECK_FOR_INTERRUPTS();
		if (!rf_batches_next(state->batches, &batch, &length))
			return slot;
		rf_decoder_load(state->decoder, batch, length);
		rf_batches_count(state->batches, ParallelWorkerNumber + 1,
						 rf_decoder_remaining(state->decoder));
		state->taken = true;
	}
}

/* The rest of a batch is forgotten; the shared place begins anew with the Gather, or here. */
void
rf_exchange_rescan_shared(ExchangeState *state)
{
	state->taken = false;
	if (!state->shared)
		rf_batches_rewind(state->batches);
}

/* ---------- callbacks of parallel execution; what they share is the segment's handle ---------- */

Size
rf_exchange_estimate_shared(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(dsm_handle);
}

void
rf_exchange_initialize_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	ExchangeState *state = (ExchangeState *) node;

	if (pcxt->nworkers == 0)
		return;
	collect(state);
	*(dsm_handle *) coordinate = rf_batches_share(state->batches, pcxt->nworkers + 1);
	state->shared = true;
}

void
rf_exchange_reinitialize_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	ExchangeState *state = (ExchangeState *) node;

	if (state->shared)
		rf_batches_rewind(state->batches);
}

void
rf_exchange_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	ExchangeState *state = (ExchangeState *) node;

	state->batches = rf_batches_attach(*(dsm_handle *) coordinate, node->ss.ps.state->es_query_cxt,
									   state->owner);
	state->shared = true;
}

char *
rf_exchange_process_rows(ExchangeState *state, MemoryContext context)
{
	StringInfoData rows;
	MemoryContext caller;

	if (state->batches == NULL || !state->shared)
		return NULL;
	caller = MemoryContextSwitchTo(context);
	initStringInfo(&rows);
	for (int i = 0; i < rf_batches_processes(state->batches); i++)
		appendStringInfo(&rows, "%s" UINT64_FORMAT, i == 0 ? "" : "/",
						 rf_batches_taken(state->batches, i));
	MemoryContextSwitchTo(caller);
	return rows.data;
}
