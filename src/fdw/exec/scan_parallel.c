/*
 * scan_parallel.c - a foreign scan below Gather: the leader and its workers share the batches of
 * one stream, or of one per node; each takes the next one when it is free.
 *
 * The leader starts the streams when the workers' shared memory is made, before they run, because
 * it may never read by itself (parallel_leader_participation, Parallel Append); and it reads the
 * data node's answer at the end of the rows, or at the latest when the plan shuts down. Workers
 * never talk to a data node.
 *
 * Does: the callbacks of parallel execution. Does not: decide to use it (parallel_plan.c), share
 * out batches (src/shmem/share.c).
 */
#include "postgres.h"

#include "access/parallel.h"

#include "exec.h"
#include "scan_state.h"

Size
rdmaEstimateDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	return sizeof(RfStreamAddress) * state->part_count;
}

/* Starts all parts before waiting for the first flow. Pruned parts do not run. */
static void
start(RfScanState *state)
{
	rf_scan_close(state);
	state->rows.need_batch = true;
	state->current = NULL;
	rf_scan_start(state);
	for (int i = 0; i < state->part_count; i++)
	{
		state->parallel.shared[i].shared = false;
		if (state->parts[i].stream != NULL)
			rf_stream_share(state->parts[i].stream, &state->parallel.shared[i]);
	}
}

void
rdmaInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt, void *coordinate)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	/* without workers the leader reads as in a serial plan */
	state->parallel.shared = pcxt->nworkers > 0 ? coordinate : NULL;
	if (state->parallel.shared != NULL)
		start(state);
}

void
rdmaReInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt, void *coordinate)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	if (state->parallel.shared != NULL)
		start(state);
}

void
rdmaInitializeWorkerForeignScan(ForeignScanState *node, shm_toc * toc, void *coordinate)
{
	RfScanState *state = (RfScanState *) node->fdw_state;
	MemoryContext save = MemoryContextSwitchTo(state->context);

	state->parallel.reader = rf_stream_join(coordinate, state->part_count, state->relation);
	MemoryContextSwitchTo(save);
}

bool
rf_scan_worker_batch(RfScanState *state, const void **batch, uint32 *length)
{
	return rf_stream_reader_next(state->parallel.reader, batch, length);
}

/*
 * Core calls this in each process, possibly more than once, and before it frees the shared memory.
 */
void
rdmaShutdownForeignScan(ForeignScanState *node)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	/* also called for direct UPDATE and DELETE, which have another state */
	if (!node->ss.ps.plan->parallel_aware || state == NULL || state->parallel.shared == NULL)
		return;
	for (int i = 0; i < state->part_count; i++)
	{
		if (state->parts[i].stream != NULL)
			rf_stream_share_end(state->parts[i].stream);
	}
	state->parallel.shared = NULL;
}
