/*
 * receive.c - the words of a shared receive pool. See receive.h for the protocol and its proof.
 *
 * Plain C: consumers' backends, lanes, the engine's main thread and the unit tests.
 */
#include "ring.h"


void
rf_receive_init(RfReceivePool *pool, uint8_t *memory, bool atomics)
{
	uint64_t	all = pool->count < 64 ? (UINT64_C(1) << pool->count) - 1 : UINT64_MAX;

	pool->memory = memory;
	pool->claimable = atomics && pool->claim != 0 ? pool->count - RF_RECEIVE_RESERVE : 0;
	for (uint32_t i = 0; i < RF_RECEIVE_WORDS / sizeof(uint64_t); i++)
		atomic_store(rf_receive_word(pool, i),
					 i < pool->claimable ? RF_RECEIVE_FREE : RF_RECEIVE_RESERVED);
	for (uint32_t i = 0; i < RF_RECEIVE_MAX; i++)
		atomic_store(&pool->owner[i], 0);
	atomic_store(&pool->turn, 0);
	atomic_store(&pool->lanes_waiting, 0);
	atomic_store(&pool->free, all & ~((UINT64_C(1) << pool->claimable) - 1));
}

/* Its holder releases a buffer: to those in line if there are any. */
static void
give_back(RfReceivePool *pool, uint32_t buffer)
{
	if (buffer < pool->claimable && atomic_load(&pool->lanes_waiting) == 0)
	{
		atomic_store(rf_receive_word(pool, buffer), RF_RECEIVE_FREE);
		return;
	}
	if (buffer < pool->claimable)
		atomic_store(rf_receive_word(pool, buffer), RF_RECEIVE_RESERVED);
	atomic_fetch_or(&pool->free, UINT64_C(1) << buffer);
}

bool
rf_receive_arrived(RfReceivePool *pool, uint32_t buffer, uint32_t flow, bool granted)
{
	uint32_t	nobody = 0;

	/*
	 * The claim was executed, and its producer told so, before the DATA was posted. Any other
	 * writer of the word is a peer that violates the protocol.
	 */
	if (!granted &&
		(buffer >= pool->claimable || atomic_load(rf_receive_word(pool, buffer)) != flow + 1))
		return false;
	return atomic_compare_exchange_strong(&pool->owner[buffer], &nobody, flow + 1);
}

void
rf_receive_release(RfReceivePool *pool, uint32_t buffer)
{
	atomic_store(&pool->owner[buffer], 0);
	give_back(pool, buffer);
}

void
rf_receive_unused(RfReceivePool *pool, uint32_t flow, uint64_t granted)
{
	for (uint32_t i = 0; i < pool->count; i++)
	{
		if ((granted >> i & 1) != 0 ||
			(i < pool->claimable && atomic_load(rf_receive_word(pool, i)) == flow + 1 &&
			 atomic_load(&pool->owner[i]) != flow + 1))
			give_back(pool, i);
	}
}

void
rf_receive_forget(RfReceivePool *pool, uint32_t flow)
{
	for (uint32_t i = 0; i < pool->count; i++)
	{
		if (atomic_load(&pool->owner[i]) == flow + 1)
			rf_receive_release(pool, i);
	}
}

/* Takes a buffer if there are at least so many; the claimable buffers first. */
static int
take(RfReceivePool *pool, int at_least, uint64_t of)
{
	uint64_t	now = atomic_load(&pool->free);

	while (__builtin_popcountll(now) >= at_least && (now & of) != 0)
	{
		int			buffer = __builtin_ctzll(now & of);

		if (atomic_compare_exchange_weak(&pool->free, &now, now & ~(UINT64_C(1) << buffer)))
			return buffer;
	}
	return -1;
}

/* The last buffer is for the flow that the consumer waits for. */
static int
least_for(RfReceivePool *pool, uint32_t flow, uint64_t slot)
{
	return atomic_load(&pool->turn) == RF_RECEIVE_TURN(flow, slot) ? 1 : 2;
}

int
rf_receive_grant(RfReceivePool *pool, uint32_t flow, uint64_t slot)
{
	return take(pool, least_for(pool, flow, slot), UINT64_MAX);
}

bool
rf_receive_may_grant(RfReceivePool *pool, uint32_t flow, uint64_t slot)
{
	return __builtin_popcountll(atomic_load(&pool->free)) >= least_for(pool, flow, slot);
}

void
rf_receive_none_waits(RfReceivePool *pool)
{
	uint64_t	claimable = (UINT64_C(1) << pool->claimable) - 1;
	int			buffer;

	/*
	 * Another lane may have flows in line again: then buffers of the reserve suffice, and releases
	 * follow.
	 */
	while (atomic_load(&pool->lanes_waiting) == 0 && (buffer = take(pool, 2, claimable)) >= 0)
		atomic_store(rf_receive_word(pool, (uint32_t) buffer), RF_RECEIVE_FREE);
}

void
rf_receive_wake(RfLane *lanes, RfReceivePool *pool)
{
	/*
	 * A releaser stores, then reads this; a lane sets its bit, then checks for free buffers: one
	 * of the two sees the other.
	 */
	uint32_t	waiting = atomic_load(&pool->lanes_waiting);

	for (uint32_t lane = 0; waiting >> lane != 0; lane++)
	{
		if ((waiting >> lane & 1) != 0)
			rf_lane_wake(&lanes[lane]);
	}
}
