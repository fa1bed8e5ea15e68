/*
 * receive_memory.c - memory for shared receive pools (src/shmem/receive.h), by the engine's main
 * thread.
 *
 * A pool gets its block when the first of its flows is opened, in a segment that is lent exactly to
 * the connected peers that may be its producers' nodes; the block is returned when the last of its
 * flows is freed. A flow from a peer that connected later, or if the memory cannot be registered
 * for all of them, has buffers of its own as without a pool.
 *
 * Life of the entry: a backend takes it (UNUSED -> CLAIMED), makes flows that name it, releases
 * these and then the entry (LEFT). Only the main thread makes it UNUSED again, when no flow uses
 * it. So the pool named by a flow beyond LISTENING is the pool that its backend meant.
 */
#include "postgres.h"

#include "engine_int.h"

static RfReceiveWork *
work_of(const RfReceivePool *pool)
{
	return &rf_engine->receive[pool - rf_shared->receive_pools];
}

static void
forget_if_left(RfReceivePool *pool)
{
	if (atomic_load(&pool->state) == RF_RECEIVE_LEFT && work_of(pool)->users == 0)
	{
		work_of(pool)->refused = false;
		atomic_store(&pool->state, RF_RECEIVE_UNUSED);
	}
}

RfPoolResult
rf_receive_use(RfReceivePool *pool, int peer, const RfRegion **region, RfError *error)
{
	RfReceiveWork *work = work_of(pool);

	*region = NULL;
	if (work->users == 0 && !work->refused)
	{
		RfDomain   *domains[RF_MAX_PEERS];
		RfPeerSet	peers = {0};
		RfPoolResult result;

		for (int i = 0; i < RF_MAX_PEERS; i++)
		{
			RfConnection *connection = rf_engine->by_peer[i];

			if (!rf_peers_has(&pool->peers, i) || connection == NULL ||
				connection->phase != RF_PHASE_UP)
				continue;
			rf_peers_add(&peers, i);
			domains[i] = connection->domain;
		}
		if (!rf_peers_has(&peers, peer))
			return RF_POOL_TAKEN;
		result = rf_pool_take_shared(rf_engine->pool, &peers, domains,
									 rf_receive_bytes(pool->count, pool->size), &work->block,
									 error);
		if (result == RF_POOL_NONE_FREE)
			return result;
		work->refused = result == RF_POOL_FAILED;
		if (!work->refused)
			rf_receive_init(pool, rf_pool_address(rf_engine->pool, &work->block),
							rf_engine->caps.atomics);
	}
	if (work->refused)
		return RF_POOL_TAKEN;
	*region = rf_pool_region(rf_engine->pool, &work->block, peer);
	if (*region != NULL)
		work->users++;
	else if (work->users == 0)
		rf_pool_return(rf_engine->pool, &work->block);
	return RF_POOL_TAKEN;
}

/* No lane and no backend knows the flow any more. */
void
rf_receive_unuse(RfReceivePool *pool, uint32_t flow)
{
	RfReceiveWork *work = work_of(pool);

	rf_receive_forget(pool, flow);
	rf_receive_wake(rf_shared->lanes, pool);
	if (--work->users == 0)
		rf_pool_return(rf_engine->pool, &work->block);
	forget_if_left(pool);
}

void
rf_receive_left(void)
{
	for (int i = 0; i < RF_RECEIVE_POOLS; i++)
		forget_if_left(&rf_shared->receive_pools[i]);
}

void
rf_receive_start(void)
{
	for (int i = 0; i < RF_RECEIVE_POOLS; i++)
		rf_engine->receive[i].block.segment = -1;
}

void
rf_receive_mark(RfReceivePool *pool)
{
	RfReceiveWork *work = work_of(pool);

	/* It is the old engine's memory: flows that open from now on have buffers of their own. */
	if (work->users++ == 0)
		rf_pool_mark(rf_engine->pool, pool->memory, rf_receive_bytes(pool->count, pool->size),
					 &work->block);
	work->refused = true;
}
