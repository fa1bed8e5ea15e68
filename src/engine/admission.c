/*
 * admission.c - bytes in flight per device, and the window that limits them. See admit.h.
 *
 * Several lanes take and give. No wake-up is lost: a lane reads `given`, finds no room, sets its
 * bit in `waiting`, and reads `given` again before it sleeps; a lane that returns bytes counts that
 * in `given`, then reads `waiting`. All are sequentially consistent, so one of the two lanes sees
 * the other's store.
 *
 * No lane starves another: while other lanes wait, a lane gets no more than its share of the
 * window. A lane with nothing in flight may exceed its share for one work request, but not twice in
 * a row, so lanes alternate when the window is too small for all. One lane can always continue:
 * with nothing in flight any lane but the last may send, and the last one may once no other waits.
 */
#include "admit.h"

static inline uint64_t
window_room(uint64_t window, uint64_t in_flight)
{
	return in_flight < window ? window - in_flight : 0;
}

/*
 * The lane's share of the window, or of what is in flight if that is more; UINT64_MAX if no other
 * lane waits.
 */
static uint64_t
share(RfAdmissionStats *stats, uint32_t lane, uint64_t own, uint64_t total)
{
	uint32_t	others = atomic_load(&stats->waiting) & ~(1u << lane);
	uint64_t	part;

	if (others == 0)
		return UINT64_MAX;
	part = total / (1 + (uint32_t) __builtin_popcount(others));
	return part > own ? part - own : 0;
}

uint64_t
rf_admission_room(uint64_t window, RfAdmissionStats *stats, uint32_t lane, uint64_t own)
{
	uint64_t	in_flight;
	uint64_t	room;
	uint64_t	left;

	if (window == 0)
		return UINT64_MAX;
	in_flight = atomic_load(&stats->in_flight);
	room = window_room(window, in_flight);
	left = share(stats, lane, own, in_flight + room);
	return room < left ? room : left;
}

bool
rf_admission_take(uint64_t window, RfAdmissionStats *stats, uint32_t lane, uint64_t own,
				  uint32_t bytes)
{
	uint64_t	in_flight = atomic_load(&stats->in_flight);
	uint64_t	high;

	do
	{
		uint64_t	room = window_room(window, in_flight);

		/* Alone it may always send: a slot may be larger than the window. */
		if (in_flight > 0 && room < bytes)
			return false;
		if (share(stats, lane, own, in_flight + room) < bytes &&
			(own > 0 || atomic_load_explicit(&stats->last, memory_order_relaxed) == lane))
			return false;
	} while (!atomic_compare_exchange_weak(&stats->in_flight, &in_flight, in_flight + bytes));

	atomic_store_explicit(&stats->last, lane, memory_order_relaxed);
	high = atomic_load_explicit(&stats->high_water, memory_order_relaxed);
	while (in_flight + bytes > high &&
		   !atomic_compare_exchange_weak_explicit(&stats->high_water, &high, in_flight + bytes,
												  memory_order_relaxed, memory_order_relaxed));
	return true;
}

void
rf_admission_wait(RfAdmissionStats *stats, uint32_t lane)
{
	if ((atomic_load(&stats->waiting) & (1u << lane)) == 0)
		atomic_fetch_or(&stats->waiting, 1u << lane);
}

uint32_t
rf_admission_stop_waiting(RfAdmissionStats *stats, uint32_t lane)
{
	if ((atomic_load(&stats->waiting) & (1u << lane)) == 0)
		return 0;
	atomic_fetch_and(&stats->waiting, ~(1u << lane));
	atomic_fetch_add(&stats->given, 1);
	return atomic_load(&stats->waiting);
}

uint32_t
rf_admission_give(RfAdmissionStats *stats, uint64_t bytes)
{
	atomic_fetch_sub(&stats->in_flight, bytes);
	atomic_fetch_add(&stats->given, 1);
	return atomic_load(&stats->waiting);
}
