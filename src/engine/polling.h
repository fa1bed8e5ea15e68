/*
 * polling.h - when a lane looks for completions again, when it arms its queue, and when it sleeps.
 *
 * A state machine without a system call of its own but the yield and the two clocks, so that every
 * mode is tested by hand-made times. The lane does what a step says and reports whether it found
 * anything. Plain C; one RfPolling belongs to one thread.
 */
#ifndef RF_POLLING_H
#define RF_POLLING_H

#include "shmem/layout.h"


typedef enum RfPollingStep
{
	RF_POLLING_LOOK,			/* poll again, without arming */
	RF_POLLING_ARM,				/* arm the queue, then poll: the descriptor tells only of what comes later */
	RF_POLLING_SLEEP			/* armed, and still nothing there: wait for the descriptor */
} RfPollingStep;

typedef struct RfPolling
{
	RfPollingMode mode;
	uint32_t	batch;
	int64_t		poll_us;
	bool		armed;			/* the last step was ARM */
	int64_t		last_success;	/* us */

	/* Adaptive mode: whether trying on pays, see polling.c. */
	bool		trying;			/* an attempt is under way */
	bool		decided;		/* since the last success */
	int			score;			/* 0 .. TRY_SCORE_MAX */
	int			passed;			/* chances not taken */
	int64_t		not_before;		/* us: no trying; 0 = the core was never taken */
	int64_t		pause_us;		/* how long the last time */

	int64_t		tick_at;		/* us */
	int64_t		cpu_us;			/* the thread's CPU time at the last tick */
} RfPolling;

/* Called by the thread that it belongs to. */
extern void rf_polling_init(RfPolling *polling, int64_t now);

/* Also in mid-run: the next step goes by the new values. */
extern void rf_polling_set(RfPolling *polling, RfPollingMode mode, uint32_t batch,
						   uint32_t poll_us);

/* Completions to take in the next poll, at most. */
extern uint32_t rf_polling_batch(const RfPolling *polling);

/* The last poll found something or nothing, and it is `now` (us, monotonic): what next. */
extern RfPollingStep rf_polling_next(RfPolling *polling, bool found, int64_t now);

/* Between two empty polls: let others have the core, and notice when somebody took it. */
extern void rf_polling_yield(RfPolling *polling, int64_t now);
extern void rf_polling_yielded(RfPolling *polling, int64_t before, int64_t after);

/*
 * True about once a millisecond while the lane is awake, for what need not be done in every round:
 * then *cpu_us is the CPU time (us) that the thread has used since the last time it was true.
 */
extern bool rf_polling_tick(RfPolling *polling, int64_t now, uint64_t *cpu_us);

/*
 * Measure on this machine what sleeping costs: arm a completion queue of the device, block on a
 * descriptor, be woken through it by another thread (median), and what one poll of an empty queue
 * costs. poll_us is the break-even: who polls as long as a sleep would have cost never pays more
 * than twice the best. Takes about 20 ms, at most 200 ms on a crowded machine. False: a thread, a
 * descriptor or a queue could not be had; poll_us then is a usual value and the others are 0.
 */
extern bool rf_polling_calibrate(const RfProvider *provider, RfDevice *device,
								 RfCalibration *calibration);

#endif
