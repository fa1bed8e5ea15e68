/*
 * backoff.c - the wait after a lost remote compare-and-swap, and the number of simultaneous claims.
 * See backoff.h.
 */
#include <string.h>

#include "backoff.h"

void
rf_backoff_init(RfBackoff *backoff, uint64_t unit_ns, uint32_t most, uint64_t seed, uint64_t now_ns)
{
	memset(backoff, 0, sizeof(*backoff));
	backoff->unit_ns = unit_ns > 0 ? unit_ns : 1;
	backoff->limit_ns = backoff->unit_ns;
	backoff->most = most > 0 ? most : 1;
	backoff->allowed = backoff->most;
	backoff->random = seed * 0x9E3779B97F4A7C15ULL | 1;
	backoff->window_end_ns = now_ns + RF_BACKOFF_WINDOW_NS;
}

/*
 * A window has passed: one step towards fewer conflicts, or back. A window without attempts changes
 * nothing.
 */
static void
adjust(RfBackoff *backoff, uint64_t now_ns)
{
	if (now_ns < backoff->window_end_ns)
		return;
	if (backoff->window_lost * 2 > backoff->window_attempts)
	{
		if (backoff->allowed > 1)
			backoff->allowed /= 2;
		else if (backoff->limit_ns < backoff->unit_ns << RF_BACKOFF_LIMIT_SHIFT)
			backoff->limit_ns *= 2;
	}
	else if (backoff->window_attempts > 0 && backoff->window_lost * 10 < backoff->window_attempts)
	{
		if (backoff->allowed < backoff->most)
			backoff->allowed = backoff->allowed * 2 < backoff->most ?
				backoff->allowed * 2 : backoff->most;
		else if (backoff->limit_ns > backoff->unit_ns)
			backoff->limit_ns /= 2;
	}
	backoff->window_attempts = backoff->window_lost = 0;
	backoff->window_end_ns = now_ns + RF_BACKOFF_WINDOW_NS;
}

static void
attempted(RfBackoff *backoff, bool lost, uint64_t now_ns)
{
	backoff->attempts++;
	backoff->window_attempts++;
	backoff->window_lost += lost;
	adjust(backoff, now_ns);
}

bool
rf_backoff_begin(RfBackoff *backoff)
{
	if (backoff->running >= backoff->allowed)
		return false;
	backoff->running++;
	return true;
}

uint64_t
rf_backoff_lost(RfBackoff *backoff, uint32_t lost, uint64_t now_ns)
{
	uint32_t	shift = lost < RF_BACKOFF_LIMIT_SHIFT ? lost : RF_BACKOFF_LIMIT_SHIFT;
	uint64_t	wait;

	attempted(backoff, true, now_ns);
	wait = backoff->unit_ns << shift;
	if (wait > backoff->limit_ns)
		wait = backoff->limit_ns;

	/* xorshift64*: good enough to separate claimants */
	backoff->random ^= backoff->random >> 12;
	backoff->random ^= backoff->random << 25;
	backoff->random ^= backoff->random >> 27;
	return wait + ((backoff->random * 0x2545F4914F6CDD1DULL) >> 11) % backoff->unit_ns;
}

void
rf_backoff_round_trip(RfBackoff *backoff, uint64_t ns)
{
	uint64_t	unit = (backoff->unit_ns * 7 + ns) / 8;

	backoff->unit_ns = unit > 0 ? unit : 1;
	if (backoff->limit_ns < backoff->unit_ns)
		backoff->limit_ns = backoff->unit_ns;
	else if (backoff->limit_ns > backoff->unit_ns << RF_BACKOFF_LIMIT_SHIFT)
		backoff->limit_ns = backoff->unit_ns << RF_BACKOFF_LIMIT_SHIFT;
}

void
rf_backoff_won(RfBackoff *backoff, uint64_t now_ns)
{
	backoff->claims++;
	backoff->running--;
	attempted(backoff, false, now_ns);
}

void
rf_backoff_gave_up(RfBackoff *backoff)
{
	backoff->running--;
}
