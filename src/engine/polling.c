/*
 * polling.c - the polling modes of a lane (RDMAbox, Bae et al., III-B, IV-B and algorithm 3).
 *
 * Every mode keeps one rule: arm, poll once more, and only then block. A completion that comes
 * before the arming is found by that poll, a later completion makes the descriptor readable; the
 * published code blocks right after arming and can miss a completion.
 *
 *   busy         never arms, never sleeps
 *   event        one completion per poll, and the queue is armed again before each
 *   event_batch  up to poll_batch completions per event, then armed again, even if more have come
 *   hybrid       polls until a poll finds nothing, then arms at once
 *   adaptive     as hybrid, but goes on trying for poll_us after a success before it arms
 *
 * Where adaptive departs from algorithm 3, and why:
 *  - Every success renews the retry budget. As printed (and in the published code) it is never
 *    reset, so a thread that has seen MAX_RETRY empty polls in its life is in event mode forever.
 *  - The budget is a time, not a number of polls: 120 polls of a device's queue take some 5 us, and
 *    sleeping and waking takes 20 to 40 us on a virtual machine. The time is measured at start
 *    (rf_polling_calibrate).
 *  - Trying must pay. If nothing ever comes within the time, as between the requests of an
 *    interactive session, each success would waste that time. A score counts the last attempts;
 *    while it is 0 only every TRY_EVERY-th chance is taken, to detect a change.
 *  - No other thread must need the core: a yield gives it away for a whole time slice, whereas a
 *    thread that sleeps preempts when it is woken. So after such a yield there is no trying for a
 *    while: for a millisecond or two the first time, since a stray one is over by then and a burst
 *    must not lose its rest; longer each time that it happens again soon after.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "polling.h"

#define TRY_SCORE_MAX	8
#define TRY_EVERY		32
#define YIELD_TAKEN_US	200		/* a longer yield gave the core to a busy thread */
#define PAUSE_MIN_US	2000	/* no trying after that: the first time */
#define PAUSE_MAX_US	256000
#define PAUSE_MEMORY	32		/* it doubles unless so many times its length have passed since */
#define TICK_US			1000

#define CALIBRATE_ROUNDS	200
#define CALIBRATE_POLLS		1000
#define CALIBRATE_LIMIT_US	200000
#define CALIBRATE_GAP_US	20
#define POLL_US_DEFAULT		30	/* where nothing could be measured */

/*
 * Between idle cores a wake-up takes 20 us and more; less is measured on a busy machine, where both
 * threads share a core. More than 100 is caused by load as well, and lasts only as long as it.
 */
#define POLL_US_MIN			20
#define POLL_US_MAX			100

void
rf_polling_init(RfPolling *polling, int64_t now)
{
	polling->armed = false;
	polling->last_success = now;
	polling->score = TRY_SCORE_MAX / 2;
	polling->tick_at = now + TICK_US;
	polling->cpu_us = rf_clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1000;
}

void
rf_polling_set(RfPolling *polling, RfPollingMode mode, uint32_t batch, uint32_t poll_us)
{
	polling->mode = mode;
	polling->batch = batch;
	polling->poll_us = poll_us;
}

uint32_t
rf_polling_batch(const RfPolling *polling)
{
	return polling->mode == RF_POLLING_EVENT ? 1 : polling->batch;
}

/* ---------- the modes ---------- */

static void
trying_succeeded(RfPolling *polling)
{
	if (polling->trying && polling->score < TRY_SCORE_MAX)
		polling->score++;
	polling->trying = polling->decided = false;
}

/* An empty poll in adaptive mode: true to try again. */
static bool
keep_trying(RfPolling *polling, int64_t now)
{
	if (now - polling->last_success >= polling->poll_us)
	{
		if (polling->trying && polling->score > 0)
			polling->score--;
		polling->trying = false;
		return false;
	}
	if (!polling->decided)
	{
		polling->decided = true;
		polling->trying = now >= polling->not_before &&
			(polling->score > 0 || ++polling->passed >= TRY_EVERY);
		if (polling->trying)
			polling->passed = 0;
	}
	return polling->trying;
}

RfPollingStep
rf_polling_next(RfPolling *polling, bool found, int64_t now)
{
	bool		armed = polling->armed;
	bool		look = false;

	polling->armed = false;
	if (found)
	{
		trying_succeeded(polling);
		polling->last_success = now;
	}
	switch (polling->mode)
	{
		case RF_POLLING_BUSY:
			look = true;
			break;
		case RF_POLLING_EVENT:
		case RF_POLLING_EVENT_BATCH:
			break;
		case RF_POLLING_HYBRID:
			look = found;
			break;
		case RF_POLLING_ADAPTIVE:
			/* A wake-up that finds nothing is not a success: the lane sleeps again at once. */
			look = found || (!armed && keep_trying(polling, now));
			break;
	}
	if (look)
		return RF_POLLING_LOOK;
	if (armed && !found)
		return RF_POLLING_SLEEP;
	polling->armed = true;
	return RF_POLLING_ARM;
}

void
rf_polling_yielded(RfPolling *polling, int64_t before, int64_t after)
{
	if (after - before <= YIELD_TAKEN_US)
		return;
	if (polling->not_before == 0 || after - polling->not_before >= PAUSE_MEMORY * polling->pause_us)
		polling->pause_us = PAUSE_MIN_US;
	else if (polling->pause_us < PAUSE_MAX_US)
		polling->pause_us *= 2;
	polling->not_before = after + polling->pause_us;
	polling->trying = false;
}

void
rf_polling_yield(RfPolling *polling, int64_t now)
{
	sched_yield();
	rf_polling_yielded(polling, now, rf_now_us());
}

bool
rf_polling_tick(RfPolling *polling, int64_t now, uint64_t *cpu_us)
{
	int64_t		cpu;

	if (now < polling->tick_at)
		return false;
	polling->tick_at = now + TICK_US;
	cpu = rf_clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1000;
	*cpu_us = (uint64_t) (cpu - polling->cpu_us);
	polling->cpu_us = cpu;
	return true;
}

/* ---------- calibration ---------- */

typedef struct Echo
{
	int			ping;			/* eventfds, blocking */
	int			pong;
	_Atomic int64_t woken;		/* ns */
} Echo;

static bool
wait_and_take(int fd)
{
	struct pollfd descriptor = {.fd = fd, .events = POLLIN};
	uint64_t	value;

	while (poll(&descriptor, 1, -1) < 0)
	{
		if (errno != EINTR)
			return false;
	}
	return read(fd, &value, sizeof(value)) == sizeof(value);
}

static bool
ring(int fd, uint64_t value)
{
	return write(fd, &value, sizeof(value)) == sizeof(value);
}

/* Answers every ping; a ping of 2 ends it. */
static void *
echo_main(void *argument)
{
	Echo	   *echo = argument;
	struct pollfd descriptor = {.fd = echo->ping, .events = POLLIN};

	for (;;)
	{
		uint64_t	value;

		if (poll(&descriptor, 1, -1) < 0)
			continue;
		if (read(echo->ping, &value, sizeof(value)) != sizeof(value) || value >= 2)
			return NULL;
		atomic_store(&echo->woken, rf_clock_ns(CLOCK_MONOTONIC));
		if (!ring(echo->pong, 1))
			return NULL;
	}
}

static int
compare_times(const void *a, const void *b)
{
	int64_t		left = *(const int64_t *) a;
	int64_t		right = *(const int64_t *) b;

	return left < right ? -1 : left > right;
}

/*
 * Time from writing a descriptor until the thread that slept on it runs, ns; 0 = could not be
 * measured.
 */
static uint32_t
measure_wake(void)
{
	Echo		echo = {.ping = eventfd(0, EFD_CLOEXEC), .pong = eventfd(0, EFD_CLOEXEC)};
	int64_t		times[CALIBRATE_ROUNDS];
	int64_t		start = rf_clock_ns(CLOCK_MONOTONIC);
	int			rounds = 0;
	pthread_t	thread;
	sigset_t	all;
	sigset_t	before;
	int			failed = 1;

	/* Signal handlers belong to the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (echo.ping >= 0 && echo.pong >= 0)
		failed = pthread_create(&thread, NULL, echo_main, &echo);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed == 0)
	{
		int64_t		now = rf_clock_ns(CLOCK_MONOTONIC);

		while (rounds < CALIBRATE_ROUNDS && now - start < (int64_t) CALIBRATE_LIMIT_US * 1000)
		{
			int64_t		sent;

			/* Long enough for the other core to become idle, as it does between a lane's events. */
			while ((sent = rf_clock_ns(CLOCK_MONOTONIC)) - now < CALIBRATE_GAP_US * 1000);
			if (!ring(echo.ping, 1) || !wait_and_take(echo.pong))
				break;
			times[rounds++] = atomic_load(&echo.woken) - sent;
			now = rf_clock_ns(CLOCK_MONOTONIC);
		}
		(void) ring(echo.ping, 2);
		pthread_join(thread, NULL);
	}
	if (echo.ping >= 0)
		close(echo.ping);
	if (echo.pong >= 0)
		close(echo.pong);
	if (rounds == 0)
		return 0;
	qsort(times, rounds, sizeof(times[0]), compare_times);
	return (uint32_t) times[rounds / 2];
}

bool
rf_polling_calibrate(const RfProvider *provider, RfDevice *device, RfCalibration *calibration)
{
	uint32_t	wake_ns = measure_wake();
	RfError		error;
	RfCq	   *cq;
	RfWc		wc;
	int64_t		start;
	int64_t		polled;
	int64_t		armed;
	uint32_t	us;

	memset(calibration, 0, sizeof(*calibration));
	calibration->poll_us = POLL_US_DEFAULT;
	if (wake_ns == 0 || (cq = provider->cq_create(device, 16, &error)) == NULL)
		return false;
	start = rf_clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < CALIBRATE_POLLS; i++)
		(void) provider->cq_poll(cq, &wc, 1);
	polled = rf_clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < CALIBRATE_POLLS; i++)
		provider->cq_arm(cq);
	armed = rf_clock_ns(CLOCK_MONOTONIC);
	provider->cq_destroy(cq);

	calibration->empty_poll_ns = (uint32_t) ((polled - start) / CALIBRATE_POLLS);
	calibration->sleep_ns = wake_ns + (uint32_t) ((armed - polled) / CALIBRATE_POLLS);
	us = (calibration->sleep_ns + 999) / 1000;
	calibration->poll_us = us < POLL_US_MIN ? POLL_US_MIN : us > POLL_US_MAX ? POLL_US_MAX : us;
	return true;
}
