/*
 * node_share.c - the leader and the workers of a Gather read one exchange's rows together.
 *
 * Each process takes the next batch that is here and not taken yet, decodes it, and does with the
 * rows what the plan above says. The leader alone moves rows: it receives batches, runs the exchange's
 * query, sends, and keeps for all what is for this node (node_collect.c). It takes batches itself when
 * all rows of all exchanges below the Gather are here. Workers touch no flow and no query. The number of
 * workers, and the time at which they start, change only the speed.
 *
 * Why nothing hangs: collecting is a wait for one exchange like any other (node_drive.c), in the
 * one process that waits for exchanges. To keep batches never blocks: what has no room in memory goes to
 * a file, which the processes read when it is complete. Workers wait for batches, so the leader must not
 * wait for workers before all have come. It would in nodes of core: at the barrier of a hash table that
 * has to grow, for all that fill it. But it has no row to fill it with before it has read an exchange
 * below it, and by then it has collected all. Only Append has rows from elsewhere first: exchanges below
 * it are collected before the workers start. So are those that the leader may be asked for again before
 * it has read them to the end, and all if it takes no part in the plan.
 *
 * A Gather that runs without workers does not collect: its leader reads as if it were alone.
 */
#include "postgres.h"

#include "node.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"

/* One step of the leader's. True: something has moved, or the last row is here. */
static bool
collect_some(ExchangeState *state)
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
	if (moved || !rf_exchange_all_read(state))
		return moved;
	state->reading_over = true;
	state->set->unread--;
	rf_exchange_end_collecting(state);
	return true;
}

/* Begin with it. Are there rows to be collected? */
static bool
begin_collecting(ExchangeState *state)
{
	if (state->collected)
		return false;
	if (rf_exchange_collects(state))
		return true;
	if (!state->reading_over)
		elog(ERROR, "rows of exchange %d are being read already", state->spec->number);
	/* no rows come to this node */
	rf_exchange_begin_collecting(state);
	rf_exchange_end_collecting(state);
	return false;
}

/* All rows of the exchange, unless they are there already. */
static void
collect(ExchangeState *state)
{
	if (!begin_collecting(state))
		return;
	while (!state->collected)
	{
		if (!collect_some(state))
			rf_exchange_sleep(state);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Those of all exchanges below its Gather. */
static void
collect_all(ExchangeState *state)
{
	collect(state);
	for (int i = 0; i < state->set->count && state->shared; i++)
	{
		ExchangeState *other = state->set->members[i].state;

		if (other != NULL && other->shared && other->parallel == state->parallel)
			collect(other);
	}
	state->prepared = true;
}

static bool
take_batch(ExchangeState *state)
{
	const void *batch;
	uint32		length;

	if (!rf_batches_next(state->batches, &batch, &length))
		return false;
	rf_decoder_load(state->shared_decoder, batch, length);
	rf_batches_count(state->batches, ParallelWorkerNumber + 1,
					 rf_decoder_remaining(state->shared_decoder));
	state->taken = true;
	return true;
}

TupleTableSlot *
rf_exchange_next_shared(ExchangeState *state, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	if (!state->prepared && !IsParallelWorker())
		collect_all(state);
	for (;;)
	{
		if (state->taken)
		{
			if (rf_decoder_next(state->shared_decoder, slot->tts_values, slot->tts_isnull))
				return ExecStoreVirtualTuple(slot);
			state->taken = false;
		}
		CHECK_FOR_INTERRUPTS();
		if (!take_batch(state) && !(IsParallelWorker() && rf_batches_wait(state->batches)))
			return slot;
	}
}

void
rf_exchange_abandon_shared(ExchangeState *state)
{
	if (state->shared && !state->collected && !IsParallelWorker())
		rf_batches_abandon(state->batches);
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
	state->parallel = pcxt;
	state->prepared = false;
	if (state->keep || state->appended || !parallel_leader_participation)
		collect(state);
	else
		(void) begin_collecting(state);
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
