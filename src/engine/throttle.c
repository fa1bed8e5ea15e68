/*
 * throttle.c - credit throttling: how many work requests may be outstanding on a queue pair (SMART,
 * section 4.2, algorithm 1).
 *
 * Too many outstanding requests evict each other's state from the adapter's cache; too few leave it
 * idle. The best number depends on the device and the load, so it is found by trying: an update
 * phase gives each candidate 8 ms and counts completions, and the best is kept for a stable phase
 * of 480 ms. What the adapter keeps is the state of all queue pairs, so whether there is anything
 * to try depends on the requests of all of them together.
 *
 * As in the authors' code, and unlike their text, "no limit" is a candidate too and is preferred
 * unless another is better by 5 %; and a rate is work divided by the elapsed time, because only a
 * completion notices the end of a window.
 *
 * Differences here, with reasons:
 *  - Time counts only while something is outstanding, and only a completion advances a phase. So no
 *    timer ever wakes a lane: a lane that sends nothing has nothing to decide. A request that waits
 *    for credit needs no timer either: credit is used up, so a completion is due.
 *  - A window begins when everything that was posted under the value before has completed. Else the
 *    backlog of "no limit", which may take longer than 8 ms to drain, would be counted for the
 *    candidate after it.
 *  - Each queue pair has the limit for itself. If the lane had one limit, a peer that does not
 *    answer would hold the credit of all other peers. A load with few requests on each of many
 *    queue pairs is limited only by 1 or 2, so these are candidates, below the authors' smallest.
 *  - "No limit" is tried first and shows how many requests the load really keeps outstanding. A
 *    candidate is skipped if no queue pair had more requests, because it would change nothing; and
 *    if it left fewer than RF_CREDIT_FEWEST requests of all queue pairs together, because the
 *    device would stand idle. If all candidates are skipped, there is no update phase.
 *  - A candidate that after a quarter of its window has not half the rate of the best so far is
 *    given up: on a link with high latency the small candidates would cost most of the possible
 *    gain.
 *  - A statement sends in bursts, so windows of 8 ms differ by chance. The rate of a candidate is
 *    the mean of its window and of its rate in the epoch before, if it was tried there; and for the
 *    candidate that was kept in a stable phase, that is the rate of the whole phase. If the phase
 *    had less than half or more than twice the rate that was expected, the load is another one, and
 *    earlier epochs do not count.
 *  - The measure is bytes, plus a fixed amount per request. A lower limit makes requests wait,
 *    waiting requests merge, and merged requests are fewer and larger: counting requests would
 *    punish exactly that.
 */
#include <string.h>

#include "shmem/layout.h"

#include "throttle.h"

#define NO_LIMIT			UINT32_MAX
#define WINDOW_US			8000
#define STABLE_US			480000
#define REQUEST_WORK		64	/* bytes that a request counts for in addition to its payload */
#define NO_LIMIT_BIAS		1.05

/* In the order in which they are tried. */
static const uint32_t candidates[RF_CREDIT_CANDIDATES] = {
	NO_LIMIT, 1, 2, 4, 6, 8, 10, 12
};

static void
show(_Atomic uint64_t *where, uint64_t value)
{
	atomic_store_explicit(where, value, memory_order_relaxed);
}

static void
set_c_max(RfThrottle *throttle, uint32_t c_max)
{
	throttle->c_max = c_max;
	if (throttle->shown != NULL)
		atomic_store_explicit(&throttle->shown->c_max, c_max == NO_LIMIT ? 0 : c_max,
							  memory_order_relaxed);
}

static void
start_phase(RfThrottle *throttle)
{
	throttle->phase_start = throttle->active_us;
	throttle->phase_work = throttle->work;
	throttle->peak = throttle->peak_all = 0;
	throttle->waited = false;
}

/*
 * The first candidate from `next` on that can matter to the load whose peaks these are, or
 * RF_CREDIT_CANDIDATES. A limit on queue pairs lowers the sum in the same proportion.
 */
static int
worth_trying(int next, uint32_t peak, uint32_t peak_all)
{
	while (next < RF_CREDIT_CANDIDATES &&
		   (candidates[next] >= peak ||
			(uint64_t) candidates[next] * peak_all < (uint64_t) RF_CREDIT_FEWEST * peak))
		next++;
	return next;
}

static void
start_window(RfThrottle *throttle, int candidate)
{
	throttle->trying = candidate;
	throttle->settling = true;
	throttle->settled_at = throttle->posted;
	set_c_max(throttle, candidates[candidate]);
}

/* Keeps the best, and begins the stable phase. */
static void
decide(RfThrottle *throttle)
{
	int			best = 0;

	for (int i = 1; i < RF_CREDIT_CANDIDATES; i++)
	{
		double		bias = best == 0 ? NO_LIMIT_BIAS : 1.0;

		if ((double) throttle->rate[i] > (double) throttle->rate[best] * bias)
			best = i;
	}
	throttle->trying = -1;
	throttle->kept = best;
	set_c_max(throttle, candidates[best]);
	start_phase(throttle);
	if (throttle->shown != NULL)
	{
		for (int i = 0; i < RF_CREDIT_CANDIDATES; i++)
			show(&throttle->shown->rate[i], throttle->rate[i]);
		show(&throttle->shown->epoch,
			 atomic_load_explicit(&throttle->shown->epoch, memory_order_relaxed) + 1);
	}
}

/* Bytes per second since the phase began. */
static uint64_t
phase_rate(const RfThrottle *throttle, int64_t elapsed)
{
	return (throttle->work - throttle->phase_work) * 1000000 / (uint64_t) elapsed;
}

/*
 * A candidate's time is over: selects the next candidate that can matter, or ends the update phase.
 */
static void
end_window(RfThrottle *throttle, uint64_t rate)
{
	uint64_t   *known = &throttle->rate[throttle->trying];
	int			next;

	if (rate > throttle->best_rate)
		throttle->best_rate = rate;
	*known = *known == 0 ? rate : (*known + rate) / 2;
	if (throttle->trying == 0)
	{
		throttle->demand = throttle->peak;
		throttle->demand_all = throttle->peak_all;
	}
	next = worth_trying(throttle->trying + 1, throttle->demand, throttle->demand_all);
	for (int skipped = throttle->trying + 1; skipped < next; skipped++)
		throttle->rate[skipped] = 0;
	if (next < RF_CREDIT_CANDIDATES)
		start_window(throttle, next);
	else
		decide(throttle);
}

/* The stable phase is over and had that rate: begins an update phase. */
static void
try_again(RfThrottle *throttle, uint64_t rate)
{
	uint64_t	expected = throttle->rate[throttle->kept];

	if (rate < expected / 2 || rate > expected * 2)
		memset(throttle->rate, 0, sizeof(throttle->rate));
	throttle->rate[throttle->kept] = throttle->best_rate = rate;
	start_window(throttle, 0);
}

/*
 * Ends the settling, the window of a candidate or the stable phase if its time is over; called on
 * completions only.
 */
static void
advance(RfThrottle *throttle)
{
	int64_t		elapsed;
	uint64_t	rate;

	if (throttle->settling)
	{
		if (throttle->completed < throttle->settled_at)
			return;
		throttle->settling = false;
		start_phase(throttle);
		return;
	}
	elapsed = throttle->active_us - throttle->phase_start;
	if (throttle->trying >= 0)
	{
		if (elapsed < WINDOW_US / 4)
			return;
		rate = phase_rate(throttle, elapsed);
		if (elapsed >= WINDOW_US || rate < throttle->best_rate / 2)
			end_window(throttle, rate);
	}
	else if (elapsed >= STABLE_US)
	{
		if (throttle->waited ||
			worth_trying(1, throttle->peak, throttle->peak_all) < RF_CREDIT_CANDIDATES)
			try_again(throttle, phase_rate(throttle, elapsed));
		else
			start_phase(throttle);
	}
}

void
rf_throttle_init(RfThrottle *throttle, RfLaneThrottle *shown)
{
	memset(throttle, 0, sizeof(*throttle));
	throttle->shown = shown;
	throttle->trying = -1;
	set_c_max(throttle, NO_LIMIT);
}

void
rf_throttle_set(RfThrottle *throttle, int32_t setting)
{
	if (setting == throttle->setting)
		return;
	throttle->setting = setting;
	throttle->trying = -1;
	throttle->kept = 0;
	throttle->settling = false;
	set_c_max(throttle, setting > 0 ? (uint32_t) setting : NO_LIMIT);
	start_phase(throttle);
}

void
rf_throttle_wait(RfThrottle *throttle)
{
	throttle->waited = true;
	if (throttle->shown != NULL)
		show(&throttle->shown->waits,
			 atomic_load_explicit(&throttle->shown->waits, memory_order_relaxed) + 1);
}

/*
 * Raises *peak, of the current phase, and *shown, of all phases in shared memory, to `outstanding`
 * if that is more.
 */
static void
raise_peak(uint32_t *peak, _Atomic uint32_t *shown, uint64_t outstanding)
{
	if (outstanding <= *peak)
		return;
	*peak = (uint32_t) outstanding;
	if (shown != NULL && outstanding > atomic_load_explicit(shown, memory_order_relaxed))
		atomic_store_explicit(shown, (uint32_t) outstanding, memory_order_relaxed);
}

void
rf_throttle_post(RfThrottle *throttle, uint64_t outstanding, int64_t now)
{
	RfLaneThrottle *shown = throttle->shown;

	if (throttle->posted == throttle->completed)
		throttle->active_since = now;
	throttle->posted++;
	raise_peak(&throttle->peak, shown == NULL ? NULL : &shown->peak, outstanding);
	raise_peak(&throttle->peak_all, shown == NULL ? NULL : &shown->peak_all,
			   throttle->posted - throttle->completed);
}

void
rf_throttle_complete(RfThrottle *throttle, uint64_t requests, uint64_t bytes, int64_t now)
{
	throttle->work += bytes + requests * REQUEST_WORK;
	rf_throttle_forget(throttle, requests, now);
	if (throttle->setting == RF_CREDIT_AUTO)
		advance(throttle);
}

void
rf_throttle_forget(RfThrottle *throttle, uint64_t requests, int64_t now)
{
	if (requests == 0)
		return;
	throttle->completed += requests;
	throttle->active_us += now - throttle->active_since;
	throttle->active_since = now;
}
