/*
 * scan_parallel.c - a foreign scan below Gather: the leader and its workers take batches of one
 * stream, whoever is free.
 *
 * The leader starts the stream when the workers' shared memory is made, before they run, because it
 * may never come to read itself (parallel_leader_participation, Parallel Append); and it looks at
 * the data node's answer when it has read to the end, or at the latest when the plan shuts down.
 * Workers never talk to a data node.
 *
 * Does: the callbacks of parallel execution. Does not: decide to use it (parallel_plan.c), share
 * out batches (flow/share.c).
 */
#include "postgres.h"

#include "access/parallel.h"

#include "scan_state.h"

/*
 * In dynamic shared memory, one per scan node, which has one part. The leader writes it while no
 * worker of the node runs.
 */
typedef struct RfScanShared
{
	RfStreamAddress stream;
} RfScanShared;

Size
rdmaEstimateDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt)
{
	return sizeof(RfScanShared);
}

static void
start(RfScanState *state)
{
	rf_scan_close(state);
	state->need_batch = true;
	rf_scan_start(state);
	rf_stream_share(state->parts->stream, &state->shared->stream);
}

void
rdmaInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt, void *coordinate)
{
	RfScanState *state = (RfScanState *) node->fdw_state;
	RfScanShared *shared = coordinate;

	shared->stream.shared = false;
	/* no workers: the leader reads as if it were alone */
	state->shared = pcxt->nworkers > 0 ? shared : NULL;
	if (state->shared != NULL)
		start(state);
}

void
rdmaReInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt, void *coordinate)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	if (state->shared != NULL)
		start(state);
}

void
rdmaInitializeWorkerForeignScan(ForeignScanState *node, shm_toc *toc, void *coordinate)
{
	RfScanState *state = (RfScanState *) node->fdw_state;
	RfScanShared *shared = coordinate;
	MemoryContext save = MemoryContextSwitchTo(state->context);

	state->reader = rf_stream_join(&shared->stream, state->relation);
	MemoryContextSwitchTo(save);
}

bool
rf_scan_worker_batch(RfScanState *state, const void **batch, uint32 *length)
{
	return state->reader != NULL && rf_stream_reader_next(state->reader, batch, length);
}

/* Called once for all in each process, early too. The shared memory goes after that. */
void
rdmaShutdownForeignScan(ForeignScanState *node)
{
	RfScanState *state = (RfScanState *) node->fdw_state;

	/* also called for UPDATE and DELETE on the data node, whose state is another */
	if (!node->ss.ps.plan->parallel_aware || state == NULL || state->shared == NULL)
		return;
	if (state->parts->stream != NULL)
		rf_stream_share_end(state->parts->stream);
	state->shared = NULL;
}
