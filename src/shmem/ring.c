/*
 * ring.c - the doorbell ring of a lane: a backend asks a lane to check a flow.
 *
 * Any number of ringers, one taker per lane. Plain C: used by backends, by lanes and by the unit
 * tests. It does not know the purpose of a doorbell; a flow that is rung without a reason is
 * checked and left unchanged.
 *
 * Why no doorbell is lost. RfFlow.queued has one bit per lane, and the bit of a lane is set exactly
 * while the flow is in that lane's ring or on the way into it. A ringer stores its change first,
 * then sets the bit; the taker clears the bit, then reads the flow. Both are read-modify-writes of
 * one word, so a ringer that finds the bit set precedes the taker's clearing, and the taker sees
 * the ringer's store.
 *
 * Why lanes do not disturb each other. An entry may be freed and claimed again while a doorbell of
 * its old life still lies in the ring of its old lane. That doorbell holds only the old lane's bit:
 * a ring for the new lane finds its own bit clear and goes into the new lane's ring. The old lane
 * takes the stale one, clears its own bit, finds the flow not attached, and leaves it.
 */
#include <unistd.h>

#include "ring.h"


_Static_assert(RF_MAX_LANES <= 32, "RfFlow.queued has a bit per lane");

void
rf_lane_queue(RfLane *lane, RfFlow *flows, uint32_t flow_index)
{
	uint32_t	bit = 1u << lane->number;
	uint64_t	place;

	if ((atomic_fetch_or(&flows[flow_index].queued, bit) & bit) == 0)
	{
		/*
		 * The place is empty: at most max_flows <= RF_MAX_FLOWS flows are queued, and the taker
		 * empties a place before it lets that flow be queued again.
		 */
		place = atomic_fetch_add(&lane->head, 1);
		atomic_store(&lane->ring[place % RF_MAX_FLOWS], flow_index + 1);
	}
}

void
rf_lane_ring(RfLane *lane, RfFlow *flows, uint32_t flow_index)
{
	rf_lane_queue(lane, flows, flow_index);
	rf_lane_wake(lane);
}

void
rf_lane_wake(RfLane *lane)
{
	/* If several find it asleep, only one makes the system call. */
	if (atomic_load(&lane->asleep) != 0 && atomic_exchange(&lane->asleep, 0) != 0)
	{
		uint64_t	one = 1;

		/* Fails only when the counter is full, and then it is readable anyway. */
		if (write(lane->wake_fd, &one, sizeof(one)) < 0)
			return;
	}
}

bool
rf_lane_take(RfLane *lane, RfFlow *flows, uint32_t *flow_index)
{
	uint64_t	place = atomic_load_explicit(&lane->tail, memory_order_relaxed);
	uint32_t	entry = atomic_load(&lane->ring[place % RF_MAX_FLOWS]);

	/*
	 * Empty, or its ringer has taken the place and not filled it yet; it reads `asleep` after
	 * that.
	 */
	if (entry == 0)
		return false;

	atomic_store(&lane->ring[place % RF_MAX_FLOWS], 0);
	atomic_store_explicit(&lane->tail, place + 1, memory_order_release);
	atomic_fetch_and(&flows[entry - 1].queued, ~(1u << lane->number));
	*flow_index = entry - 1;
	return true;
}
