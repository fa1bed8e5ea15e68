/*
 * polling.h - decides when a lane polls again, when it arms its queue, and when it sleeps.
 *
 * A state machine whose only system calls are the yield and the two clocks, so that tests can
 * supply the times of every mode. The lane executes a step and reports whether it found anything.
 * Plain C; one RfPolling belongs to one thread.
 */
#ifndef RF_POLLING_H
#define RF_POLLING_H

#include "shmem/layout.h"


typedef enum RfPollingStep
{
	RF_POLLING_LOOK,			/* poll again, without arming */
	RF_POLLING_ARM,				/* arm the queue, then poll once more */
	RF_POLLING_SLEEP			/* armed, and still nothing there: wait for the descriptor */
} RfPollingStep;

typedef struct RfPolling
{
	RfPollingMode mode;
	uint32_t	batch;
	int64_t		poll_us;
	bool		armed;			/* the last step was ARM */
	int64_t		last_success;	/* us */

	/* Adaptive mode: whether further trying pays, see polling.c. */
	bool		trying;			/* an attempt is under way */
	bool		decided;		/* since the last success */
	int			score;			/* 0 .. TRY_SCORE_MAX */
	int			passed;			/* chances not taken */
	int64_t		not_before;		/* us: no trying; 0 = the core was never taken */
	int64_t		pause_us;		/* length of the last pause */

	int64_t		tick_at;		/* us */
	int64_t		cpu_us;			/* the thread's CPU time at the last tick */
} RfPolling;

/* Called by the thread that owns it. */
extern void rf_polling_init(RfPolling *polling, int64_t now);

/* Also while running: the next step uses the new values. */
extern void rf_polling_set(RfPolling *polling, RfPollingMode mode, uint32_t batch,
						   uint32_t poll_us);

/* Completions to take in the next poll, at most. */
extern uint32_t rf_polling_batch(const RfPolling *polling);

/*
 * The last poll found something or nothing, at time `now` (us, monotonic): returns the next step.
 */
extern RfPollingStep rf_polling_next(RfPolling *polling, bool found, int64_t now);

/* Between two empty polls: yields the core, and notices if another thread took it. */
extern void rf_polling_yield(RfPolling *polling, int64_t now);
extern void rf_polling_yielded(RfPolling *polling, int64_t before, int64_t after);

/*
 * True about once a millisecond while the lane is awake, for work that need not be done in every
 * round: then *cpu_us is the CPU time (us) of the thread since the last time it was true.
 */
extern bool rf_polling_tick(RfPolling *polling, int64_t now, uint64_t *cpu_us);

/*
 * Measures the cost of sleeping on this machine: arm a completion queue of the device, block on a
 * descriptor, be woken through it by another thread (median), and the cost of one poll of an empty
 * queue. poll_us is the break-even: polling for as long as a sleep would have cost never takes more
 * than twice the optimum. Takes about 20 ms, at most 200 ms on a crowded machine. Returns false if
 * no thread, descriptor or queue was available; poll_us then has a default value and the rest is 0.
 */
extern bool rf_polling_calibrate(const RfProvider *provider, RfDevice *device,
								 RfCalibration *calibration);

#endif
