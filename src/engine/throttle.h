/*
 * throttle.h - limits the work requests that a lane has outstanding on each queue pair.
 *
 * Credit throttling of SMART (Ren et al., ASPLOS 2024, section 4.2, algorithm 1). The lane asks
 * before it posts, and reports its posts and completions with their times; no timer, no thread, no
 * system call. One RfThrottle belongs to one lane and its thread. Plain C.
 */
#ifndef RF_THROTTLE_H
#define RF_THROTTLE_H

#include "shmem/layout.h"


typedef struct RfThrottle
{
	int32_t		setting;		/* RfLaneConfig.credit_limit: RF_CREDIT_AUTO, 0 = no limit, or the
								 * limit */
	uint32_t	c_max;			/* in force; UINT32_MAX = no limit */
	RfLaneThrottle *shown;		/* in shared memory; may be NULL */

	/* All queue pairs of the lane together. */
	uint64_t	posted;
	uint64_t	completed;		/* or given up */
	uint64_t	work;			/* completed bytes, see throttle.c */
	uint32_t	peak;			/* maximum on one queue pair in this phase */
	uint32_t	peak_all;		/* maximum in all */
	uint32_t	demand;			/* both in the window without a limit */
	uint32_t	demand_all;
	bool		waited;			/* a request was held back in this phase */

	/* A clock that runs only while something is outstanding, us. */
	int64_t		active_us;
	int64_t		active_since;

	/* Automatic choice. */
	int			trying;			/* candidate on trial; -1 = stable phase */
	int			kept;			/* candidate of the stable phase */
	bool		settling;		/* requests posted under the previous value are not complete yet */
	uint64_t	settled_at;		/* `completed` at that time */
	int64_t		phase_start;	/* active time */
	uint64_t	phase_work;
	uint64_t	best_rate;		/* of the previous stable phase and of the candidates so far */
	uint64_t	rate[RF_CREDIT_CANDIDATES]; /* of this update phase and those before, bytes per
											 * second; 0 = not tried */
} RfThrottle;

extern void rf_throttle_init(RfThrottle *throttle, RfLaneThrottle *shown);

/* Also while running; the same setting again changes nothing. */
extern void rf_throttle_set(RfThrottle *throttle, int32_t setting);

/* Returns true if a queue pair with that many outstanding may have another. */
static inline bool
rf_throttle_room(const RfThrottle *throttle, uint64_t outstanding)
{
	return outstanding < throttle->c_max;
}

/* A request was held back because there was no room. */
extern void rf_throttle_wait(RfThrottle *throttle);

/*
 * Reports one request that was posted, or put into a chain, on a queue pair that has `outstanding`
 * now, this one included. `now`: us, monotonic.
 */
extern void rf_throttle_post(RfThrottle *throttle, uint64_t outstanding, int64_t now);

/* Reports completions: their number and their bytes of payload. */
extern void rf_throttle_complete(RfThrottle *throttle, uint64_t requests, uint64_t bytes,
								 int64_t now);

/* Reports requests that will never complete: their queue pair is gone. */
extern void rf_throttle_forget(RfThrottle *throttle, uint64_t requests, int64_t now);

#endif
