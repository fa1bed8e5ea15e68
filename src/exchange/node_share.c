/*
 * node_share.c - reads one exchange's stored rows: alone, together with the workers of a Gather, or
 * as one of several plan nodes, each of which gets all of them.
 *
 * Rows that are read again, or by several, are collected first: all of them are stored before one
 * is returned. The rest is about a Gather.
 *
 * Each process takes the next batch that is here and not taken yet, decodes it, and does with the
 * rows what the plan above says. The leader alone moves rows: it receives batches, runs the
 * exchange's query, sends, and keeps for all processes the rows for this node (node_collect.c). It
 * takes batches itself when all rows of all exchanges below the Gather are here. Workers touch no
 * flow and no query. The number of workers, and the time at which they start, change only the
 * speed.
 *
 * Why nothing hangs: docs/architecture.md, "Why exchanges cannot deadlock". Workers wait for stored
 * batches, so the leader must not wait for workers before all are stored: it collects all exchanges
 * below the Gather when it first reads one of them. Exchanges below Append, which brings other rows
 * first, are collected before the workers start; so are exchanges that the leader may be asked for
 * again before it has read them to the end, and all if it takes no part in the plan.
 *
 * A Gather that runs without workers does not collect: its leader reads as if it were alone.
 *
 * Several plan nodes. Where a statement needs the same rows in several places, also in queries of
 * other exchanges, they move once. One plan node is the exchange, the source of the others' rows.
 * The first reader collects all of its rows; each plan node has a cursor, which it may share with
 * workers.
 */
#include "postgres.h"

#include "node.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"

static inline ExchangeState *
source_of(ExchangeState *state)
{
	return state->sharing.source != NULL ? state->sharing.source : state;
}

/* One step of the leader's. True: something has moved, or the last row is here. */
static bool
collect_some(ExchangeState *state)
{
	bool		moved;

	/* a coordinator makes no such statement */
	if (state->input.inside)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("exchange %d is read by its own query", state->spec->number)));
	moved = rf_exchange_receive(state);
	if (state->in.loaded)
		rf_exchange_store_received(state);
	switch (rf_exchange_produce(state))
	{
		case STEP_OWN_ROW:
			rf_exchange_store_own(state);
			moved = true;
			break;
		case STEP_MOVED:
			moved = true;
			break;
		case STEP_STUCK:
			break;
	}
	if (moved || !rf_exchange_has_arrived(state))
		return moved;
	state->reader.over = true;
	state->set->unread--;
	rf_exchange_complete_store(state);
	return true;
}

/* All rows of the exchange, unless they are there already. */
static void
collect(ExchangeState *state)
{
	if (!state->store.complete && state->reader.over)
		rf_exchange_complete_store(state);	/* no rows come to this node */
	while (!state->store.complete)
	{
		if (!collect_some(state))
			rf_exchange_sleep(state);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Collects all exchanges below its Gather, unless they are there already. */
static void
collect_all(ExchangeState *state)
{
	ExchangeSet *set = source_of(state)->set;

	collect(source_of(state));
	for (int i = 0; i < set->count && state->sharing.shared; i++)
	{
		ExchangeState *other = set->members[i].state;

		if (other != NULL && other->sharing.shared &&
			other->sharing.parallel == state->sharing.parallel)
			collect(other);
	}
}

static bool
take_batch(ExchangeState *state)
{
	const void *batch;
	uint32		length;

	if (state->sharing.cursor == NULL)
		state->sharing.cursor = rf_batches_open(source_of(state)->store.batches, 1, NULL);
	if (!rf_batches_next(state->sharing.cursor, &batch, &length))
		return false;
	rf_decoder_load(state->sharing.decoder, batch, length);
	rf_batches_count(state->sharing.cursor, ParallelWorkerNumber + 1,
					 rf_decoder_remaining(state->sharing.decoder));
	state->sharing.taken = true;
	return true;
}

/* The next row of the batch that this process took last. */
static bool
next_taken(ExchangeState *state, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	state->sharing.taken = state->sharing.taken &&
		rf_decoder_next(state->sharing.decoder, slot->tts_values, slot->tts_isnull);
	if (state->sharing.taken)
		ExecStoreVirtualTuple(slot);
	return state->sharing.taken;
}

bool
rf_exchange_next_stored(ExchangeState *state, TupleTableSlot *slot)
{
	while (!next_taken(state, slot))
	{
		if (take_batch(state) || rf_exchange_store_begun(state))
			continue;
		state->store.waiting = false;
		return false;
	}
	return true;
}

TupleTableSlot *
rf_exchange_next_collected(ExchangeState *state, TupleTableSlot *slot)
{
	while (!next_taken(state, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (!IsParallelWorker())
			collect_all(state);
		if (!take_batch(state) && !(IsParallelWorker() && rf_batches_wait(state->sharing.cursor)))
			break;
	}
	return slot;
}

void
rf_exchange_abandon_shared(ExchangeState *state)
{
	if (state->sharing.shared && state->sharing.source == NULL && !state->store.complete &&
		!IsParallelWorker())
		rf_batches_abandon(state->store.batches);
}

/* The rest of a batch is forgotten; the shared place begins anew with the Gather, or here. */
void
rf_exchange_rescan_collected(ExchangeState *state)
{
	state->sharing.taken = false;
	if (!state->sharing.shared && state->sharing.cursor != NULL)
		rf_batches_rewind(state->sharing.cursor);
}

/* ---------- several plan nodes ---------- */

static bool
have_same_types(const ExchangeState *a, const ExchangeState *b)
{
	TupleDesc	left = a->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	TupleDesc	right = b->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	if (left->natts != right->natts)
		return false;
	for (int i = 0; i < left->natts; i++)
	{
		if (TupleDescAttr(left, i)->atttypid != TupleDescAttr(right, i)->atttypid)
			return false;
	}
	return true;
}

void
rf_exchange_link_readers(ExchangeSet *set)
{
	for (int i = 0; i < set->count; i++)
	{
		ExchangeState *source = set->members[i].state;
		ListCell   *lc;

		if (set->members[i].readers == NIL)
			continue;
		foreach(lc, set->members[i].readers)
		{
			ExchangeState *reader = lfirst(lc);

			if (source == NULL || !have_same_types(source, reader))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("reader %d of exchange %d finds no such rows",
								reader->spec->reader, reader->spec->number),
						 errdetail("The exchange is not in the statement, or has columns of "
								   "other types.")));
		}
		/* the end of one reader does not end it, and it is whole before workers of another start */
		source->reader.keep = true;
		foreach(lc, set->members[i].readers)
		{
			ExchangeState *reader = lfirst(lc);

			reader->sharing.source = source;
			reader->reader.keep = true;
		}
	}
}

/* ---------- callbacks of parallel execution, which share a cursor ---------- */

Size
rf_exchange_estimate_shared(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(RfBatchesShare);
}

void
rf_exchange_initialize_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	ExchangeState *state = (ExchangeState *) node;
	ExchangeState *source = source_of(state);

	if (pcxt->nworkers == 0)
		return;
	if (source->reader.given && !rf_exchange_collects(source))
		elog(ERROR, "rows of exchange %d are being read already", state->spec->number);
	state->sharing.parallel = pcxt;
	if (state->reader.keep || source->reader.over || state->sharing.appended ||
		!parallel_leader_participation)
		collect(source);
	rf_exchange_require_store(source);
	state->sharing.cursor = rf_batches_open(source->store.batches, pcxt->nworkers + 1, coordinate);
	state->sharing.shared = true;
}

void
rf_exchange_reinitialize_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	ExchangeState *state = (ExchangeState *) node;

	if (state->sharing.shared)
		rf_batches_rewind(state->sharing.cursor);
}

void
rf_exchange_initialize_worker(CustomScanState *node, shm_toc * toc, void *coordinate)
{
	ExchangeState *state = (ExchangeState *) node;

	state->sharing.cursor =
		rf_batches_attach(coordinate, node->ss.ps.state->es_query_cxt, state->owner);
	state->store.batches = rf_batches_of(state->sharing.cursor);
	state->sharing.shared = true;
}

char *
rf_exchange_process_rows(ExchangeState *state, MemoryContext context)
{
	StringInfoData rows;
	MemoryContext caller;

	if (state->sharing.cursor == NULL || !state->sharing.shared)
		return NULL;
	caller = MemoryContextSwitchTo(context);
	initStringInfo(&rows);
	for (int i = 0; i < rf_batches_processes(state->sharing.cursor); i++)
		appendStringInfo(&rows, "%s" UINT64_FORMAT, i == 0 ? "" : "/",
						 rf_batches_taken(state->sharing.cursor, i));
	MemoryContextSwitchTo(caller);
	return rows.data;
}
