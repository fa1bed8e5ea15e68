/*
 * backoff.h - backoff for claims by remote compare-and-swap in competition with other flows:
 * conflict avoidance after SMART (Ren et al., ASPLOS 2024, 4.3).
 *
 * A claim that lost its compare-and-swap waits min(t0 * 2^i, limit) + rand(t0) before its next
 * attempt, i being the attempts it has lost so far. Every millisecond it checks its retry rate
 * (lost attempts of all attempts): above one half it allows fewer claims at once, and doubles the
 * limit when only one is left; below a tenth it reverses that: more claims, then half the limit.
 *
 * Plain C; one per claimant (src/engine/lane_claim.c: a flow), used by its thread only. Times are
 * nanoseconds of any monotonic clock, given by the caller.
 */
#ifndef RF_BACKOFF_H
#define RF_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define RF_BACKOFF_WINDOW_NS	1000000 /* interval between two checks of the retry rate */
#define RF_BACKOFF_LIMIT_SHIFT	10	/* the limit is at most t0 << this */

typedef struct RfBackoff
{
	uint64_t	unit_ns;		/* t0: about a round trip */
	uint64_t	limit_ns;		/* t_max in force, unit_ns .. unit_ns << RF_BACKOFF_LIMIT_SHIFT */
	uint32_t	most;			/* claims that may run at once, at most */
	uint32_t	allowed;		/* in force, 1 .. most */
	uint32_t	running;
	uint64_t	random;
	uint64_t	window_end_ns;
	uint64_t	window_attempts;
	uint64_t	window_lost;
	uint64_t	attempts;		/* counters, since the start */
	uint64_t	claims;
} RfBackoff;

/* seed: different for each claimant. */
extern void rf_backoff_init(RfBackoff *backoff, uint64_t unit_ns, uint32_t most, uint64_t seed,
							uint64_t now_ns);

/* Returns true if another claim may begin; it runs until rf_backoff_won or rf_backoff_gave_up. */
extern bool rf_backoff_begin(RfBackoff *backoff);

/*
 * An attempt was lost, the claim's `lost`-th so far (from 1): returns nanoseconds to wait before
 * the next.
 */
extern uint64_t rf_backoff_lost(RfBackoff *backoff, uint32_t lost, uint64_t now_ns);

/*
 * Reports an attempt's duration: the unit follows the round trips, and the limit stays within its
 * bounds of the unit.
 */
extern void rf_backoff_round_trip(RfBackoff *backoff, uint64_t ns);

extern void rf_backoff_won(RfBackoff *backoff, uint64_t now_ns);
extern void rf_backoff_gave_up(RfBackoff *backoff);

#endif
