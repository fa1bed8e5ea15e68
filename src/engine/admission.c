/*
 * admission.c - bytes in flight per device, and the engine's two policies. See admission.h.
 *
 * Several lanes take and give. No wake-up is lost: a lane reads `given`, finds no room, sets its
 * bit in `waiting`, and reads `given` again before it sleeps; a lane that returns bytes counts that
 * in `given`, then reads `waiting`. All are sequentially consistent, so one sees the other.
 *
 * No lane starves another: while others wait, a lane gets no more than its share of the policy's
 * window. A lane with nothing in flight may exceed its share for one work request, but not twice in
 * a row, so lanes alternate when the window is too small for all. One lane can always continue:
 * with nothing in flight any lane but the last may send, and the last one may once no other waits.
 */
#include <stdlib.h>
#include <string.h>

#include "rdma_fdw/admission.h"

#include "admit.h"

const RfAdmissionPolicy *rf_admission_hook = NULL;

RfAdmission *
rf_admission_new(const RfAdmissionPolicy *policy, uint64_t window)
{
	RfAdmission *admission = aligned_alloc(64, sizeof(RfAdmission));

	if (admission == NULL)
		return NULL;
	memset(admission, 0, sizeof(*admission));
	admission->policy = policy;
	admission->window = window;
	atomic_store(&admission->users, 1);
	policy->start(admission->state, window);
	return admission;
}

RfAdmission *
rf_admission_use(RfAdmission *admission)
{
	if (admission != NULL)
		atomic_fetch_add(&admission->users, 1);
	return admission;
}

void
rf_admission_unuse(RfAdmission *admission)
{
	if (admission != NULL && atomic_fetch_sub(&admission->users, 1) == 1)
		free(admission);
}

/* The lane's share of the policy's `*total` for all; UINT64_MAX if no other lane waits. */
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
rf_admission_room(RfAdmission *admission, RfAdmissionStats *stats, uint32_t lane, uint64_t own)
{
	uint64_t	in_flight;
	uint64_t	room;
	uint64_t	left;

	if (admission == NULL)
		return UINT64_MAX;
	in_flight = atomic_load(&stats->in_flight);
	room = admission->policy->room(admission->state, in_flight);
	left = share(stats, lane, own, in_flight + room);
	return room < left ? room : left;
}

bool
rf_admission_take(RfAdmission *admission, RfAdmissionStats *stats, uint32_t lane, uint64_t own,
				  uint32_t bytes)
{
	uint64_t	in_flight = atomic_load(&stats->in_flight);
	uint64_t	high;

	do
	{
		uint64_t	room = admission->policy->room(admission->state, in_flight);

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
rf_admission_give(RfAdmission *admission, RfAdmissionStats *stats, uint64_t bytes, uint32_t us)
{
	atomic_fetch_sub(&stats->in_flight, bytes);
	if (admission != NULL && admission->policy->completed != NULL && us > 0)
		admission->policy->completed(admission->state, bytes, us);
	atomic_fetch_add(&stats->given, 1);
	return atomic_load(&stats->waiting);
}

/* ---------- window ---------- */

static void
window_start(void *state, uint64_t window)
{
	*(uint64_t *) state = window;
}

static uint64_t
window_room(void *state, uint64_t in_flight)
{
	uint64_t	window = *(uint64_t *) state;

	return in_flight < window ? window - in_flight : 0;
}

const RfAdmissionPolicy rf_admission_window_policy = {"window", window_start, window_room, NULL};

/* ---------- delay ---------- */

typedef struct DelayState
{
	_Atomic uint64_t limit;		/* bytes; the updater writes, all read */
	uint64_t	window;
	atomic_flag updating;		/* guards the rest. A lane that finds it set leaves its sample out */
	uint64_t	acked;			/* bytes completed since the last step */
	double		previous;		/* us */
	double		least;			/* us: taken as the delay without a queue */
	double		difference;		/* us, smoothed */
	int			calm;			/* steps in a row without a positive gradient */
} DelayState;

_Static_assert(sizeof(DelayState) <= RF_ADMISSION_STATE, "a policy's state");

static void
delay_start(void *state, uint64_t window)
{
	DelayState *delay = state;

	delay->window = window > RF_DELAY_MIN ? window : RF_DELAY_MIN;
	atomic_store(&delay->limit, delay->window);
	atomic_flag_clear(&delay->updating);
}

static uint64_t
delay_room(void *state, uint64_t in_flight)
{
	DelayState *delay = state;
	uint64_t	limit = atomic_load_explicit(&delay->limit, memory_order_relaxed);

	return in_flight < limit ? limit - in_flight : 0;
}

static void
delay_completed(void *state, uint64_t bytes, uint32_t us)
{
	DelayState *delay = state;
	double		limit;
	double		gradient;

	if (atomic_flag_test_and_set_explicit(&delay->updating, memory_order_acquire))
		return;
	limit = (double) atomic_load_explicit(&delay->limit, memory_order_relaxed);
	if (delay->previous > 0)
		delay->difference += RF_DELAY_ALPHA * (us - delay->previous - delay->difference);
	delay->previous = us;
	if (delay->least == 0 || us < delay->least)
		delay->least = us;

	/*
	 * One step per limit's worth of completions: that is one per delay, so a step sees the effect
	 * of the last one.
	 */
	delay->acked += bytes;
	if (delay->acked >= limit)
	{
		delay->acked = 0;
		gradient = delay->difference / delay->least;
		if (us < RF_DELAY_LOW_US || (us <= RF_DELAY_HIGH_US && gradient <= 0))
		{
			delay->calm++;
			limit += delay->calm >= 5 ? 5.0 * RF_DELAY_STEP : RF_DELAY_STEP;
		}
		else
		{
			delay->calm = 0;
			if (us > RF_DELAY_HIGH_US)
				limit *= 1 - RF_DELAY_BETA * (1 - (double) RF_DELAY_HIGH_US / us);
			else
				limit *= 1 - RF_DELAY_BETA * (gradient < 1 ? gradient : 1);
		}
		limit = limit < RF_DELAY_MIN ? RF_DELAY_MIN : limit > delay->window ? delay->window : limit;
		atomic_store_explicit(&delay->limit, (uint64_t) limit, memory_order_relaxed);
	}
	atomic_flag_clear_explicit(&delay->updating, memory_order_release);
}

const RfAdmissionPolicy rf_admission_delay_policy = {"delay", delay_start, delay_room,
delay_completed};
