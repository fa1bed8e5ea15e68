/*
 * test_polling.c - the polling modes: the behaviour of each by times made up here; no wake-up lost
 * in any of them, over every provider that needs no device, also while the mode changes; and the
 * cost of an idle lane.
 *
 * test_polling [gaps]             total of random gaps over providers and modes; without it up to a
 * million, as far as some seconds go
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "../../src/engine/polling.h"
#include "lane_rig.h"
#include "pair.h"

#if defined(__SANITIZE_THREAD__)
#define SLOWER		20
#elif defined(__SANITIZE_ADDRESS__)
#define SLOWER		4
#else
#define SLOWER		1
#endif

#define DEADLINE_S	60.0

/* Waits for a condition; gives up after a minute. */
#define AWAIT(condition) \
	do { \
		double		end_ = now_seconds() + DEADLINE_S; \
		while (!(condition)) \
		{ \
			usleep(100); \
			if (now_seconds() > end_) \
			{ \
				fprintf(stderr, "%s:%d: never came: %s\n", __FILE__, __LINE__, #condition); \
				abort(); \
			} \
		} \
	} while (0)

static const RfPollingMode modes[] = {RF_POLLING_ADAPTIVE, RF_POLLING_BUSY, RF_POLLING_EVENT,
RF_POLLING_EVENT_BATCH, RF_POLLING_HYBRID};

/* ---------- the state machine ---------- */

static RfPolling
machine(RfPollingMode mode, uint32_t poll_us)
{
	RfPolling	polling = {0};

	rf_polling_init(&polling, 1000);
	rf_polling_set(&polling, mode, 32, poll_us);
	return polling;
}

static void
test_modes(void)
{
	RfPolling	polling = machine(RF_POLLING_BUSY, 30);

	for (int64_t now = 1000; now < 100000000; now += 1000000)
		CHECK(rf_polling_next(&polling, now % 2 == 0, now) == RF_POLLING_LOOK);

	/*
	 * One completion per event, each with an arming; the poll after the arming finds earlier
	 * completions.
	 */
	polling = machine(RF_POLLING_EVENT, 30);
	CHECK(rf_polling_batch(&polling) == 1);
	CHECK(rf_polling_next(&polling, true, 1000) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, true, 1000) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_SLEEP);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_SLEEP);

	polling = machine(RF_POLLING_EVENT_BATCH, 30);
	CHECK(rf_polling_batch(&polling) == 32);
	CHECK(rf_polling_next(&polling, true, 1000) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, true, 1000) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_SLEEP);

	polling = machine(RF_POLLING_HYBRID, 30);
	CHECK(rf_polling_batch(&polling) == 32);
	CHECK(rf_polling_next(&polling, true, 1000) == RF_POLLING_LOOK);
	CHECK(rf_polling_next(&polling, true, 1000) == RF_POLLING_LOOK);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, true, 1000) == RF_POLLING_LOOK);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_SLEEP);

	/* A change of mode between arming and the poll after it. */
	polling = machine(RF_POLLING_HYBRID, 30);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_ARM);
	rf_polling_set(&polling, RF_POLLING_BUSY, 32, 30);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_LOOK);
	rf_polling_set(&polling, RF_POLLING_HYBRID, 32, 30);
	CHECK(rf_polling_next(&polling, false, 1000) == RF_POLLING_ARM);
}

/* Polls after a success until the machine arms; each takes a microsecond. */
static int
polls_until_armed(RfPolling *polling, int64_t *now)
{
	int			polls = 0;

	CHECK(rf_polling_next(polling, true, *now) == RF_POLLING_LOOK);
	for (;;)
	{
		RfPollingStep step = rf_polling_next(polling, false, ++*now);

		if (step == RF_POLLING_ARM)
			break;
		CHECK(step == RF_POLLING_LOOK);
		polls++;
	}
	CHECK(rf_polling_next(polling, false, *now) == RF_POLLING_SLEEP);
	return polls;
}

/* Whether it goes on looking after a success; if so, that pays. */
static bool
tries(RfPolling *polling, int64_t now)
{
	bool		tried;

	CHECK(rf_polling_next(polling, true, now) == RF_POLLING_LOOK);
	tried = rf_polling_next(polling, false, now + 1) == RF_POLLING_LOOK;
	CHECK(rf_polling_next(polling, true, now + 2) == RF_POLLING_LOOK);
	return tried;
}

/*
 * A yield that takes 4 ms: how long (us) there is no trying after it. Goes on to the end of that.
 */
static int64_t
pause_after(RfPolling *polling, int64_t *now)
{
	int64_t		end = *now + 4000;

	rf_polling_yielded(polling, *now, end);
	for (*now = end; !tries(polling, *now); *now += 500)
		CHECK(*now - end < 1000000);
	return *now - end;
}

static void
test_adaptive(void)
{
	RfPolling	polling = machine(RF_POLLING_ADAPTIVE, 30);
	int64_t		now = 1000000;
	int			tried = 0;

	/*
	 * Successes 20 us apart: it never arms, however long that goes on. The published rule counts
	 * all its life's empty polls.
	 */
	for (int i = 0; i < 100000; i++, now++)
		CHECK(rf_polling_next(&polling, i % 20 == 0, now) == RF_POLLING_LOOK);

	/* Then one second apart: it tries on for 30 us a few times, then only now and then. */
	for (int i = 0; i < 3200; i++)
	{
		int			polls = polls_until_armed(&polling, &now);

		CHECK(polls == 0 || polls == 29);
		tried += polls > 0;
		now += 1000000;
	}
	CHECK(tried >= 100 && tried <= 110);

	/* A wake-up that brings nothing goes straight back. */
	CHECK(rf_polling_next(&polling, false, now) == RF_POLLING_ARM);
	CHECK(rf_polling_next(&polling, false, now) == RF_POLLING_SLEEP);

	/* Close together again: the next try that pays brings it back. */
	for (int i = 0; i < 64; i++)
	{
		(void) rf_polling_next(&polling, true, now);
		now += 10;
		(void) rf_polling_next(&polling, false, now);
		now += 10;
	}
	CHECK(polls_until_armed(&polling, &now) > 0);

	/* Another thread took the core: trying pauses, but not for a burst of some milliseconds. */
	CHECK(pause_after(&polling, &now) == 2000);

	/* Again and again, soon after each pause: longer each time, up to a quarter of a second. */
	for (int64_t pause = 4000; pause < 256000; pause *= 2)
		CHECK(pause_after(&polling, &now) == pause);
	for (int i = 0; i < 3; i++)
		CHECK(pause_after(&polling, &now) == 256000);

	/* Long after the last time it is forgotten. A yield that comes back at once changes nothing. */
	now += 32 * 256000;
	rf_polling_yielded(&polling, now, now + 200);
	CHECK(tries(&polling, now));
	CHECK(pause_after(&polling, &now) == 2000);

	/* No time to try, no trying. */
	polling = machine(RF_POLLING_ADAPTIVE, 0);
	CHECK(polls_until_armed(&polling, &now) == 0);
}

static void
test_calibration(void)
{
	RfCalibration calibration;
	RfError		error;
	RfProviderConfig settings = {.gid_index = -1};
	RfDevice   *device = rf_provider_soft.device_open(&settings, &error);

	CHECK(device != NULL);
	CHECK(rf_polling_calibrate(&rf_provider_soft, device, &calibration));
	CHECK(calibration.sleep_ns > 0 && calibration.poll_us >= 20 && calibration.poll_us <= 100);
	printf("# sleep and wake %.1f us, empty poll %.2f us, poll for %u us\n",
		   calibration.sleep_ns / 1000.0, calibration.empty_poll_ns / 1000.0, calibration.poll_us);
	rf_provider_soft.device_close(device);
}

/* ---------- no lost wake-up ---------- */

static Pair pair;
static _Atomic uint32_t wanted_mode;
static _Atomic uint64_t seen;
static atomic_bool finish;

/*
 * Wait for the descriptor: mostly by looking at it, which meets the same races as sleeping and
 * takes a fiftieth of the time, and sometimes really.
 */
static void
wait_for_descriptor(int fd, uint64_t *random)
{
	struct pollfd waiting = {.fd = fd, .events = POLLIN};

	if (rig_random(random) % 32 == 0)
		CHECK(poll(&waiting, 1, (int) (DEADLINE_S * 1000)) == 1);
	else
	{
		double		end = now_seconds() + DEADLINE_S;

		while (poll(&waiting, 1, 0) == 0)
		{
			sched_yield();
			CHECK(now_seconds() < end);
		}
	}
}

static void *
sleeper_main(void *argument)
{
	const RfProvider *provider = pair.b.provider;
	RfPolling	polling = {0};
	uint64_t	random = 3;
	uint32_t	expected = 0;

	rf_polling_init(&polling, 0);
	while (!atomic_load(&finish))
	{
		RfWc		wc[32];
		int64_t		now = (int64_t) (now_seconds() * 1e6);
		int			count;

		rf_polling_set(&polling, (RfPollingMode) atomic_load(&wanted_mode), 32, 5);
		count = provider->cq_poll(pair.b.cq, wc, (int) rf_polling_batch(&polling));
		for (int i = 0; i < count; i++)
		{
			CHECK(wc[i].opcode == RF_WC_RECV_IMM && wc[i].imm == expected);
			expected++;
		}
		if (count > 0)
			atomic_store(&seen, expected);
		switch (rf_polling_next(&polling, count > 0, now))
		{
			case RF_POLLING_LOOK:
				if (count == 0)
					rf_polling_yield(&polling, now);
				break;
			case RF_POLLING_ARM:
				provider->cq_arm(pair.b.cq);
				break;
			case RF_POLLING_SLEEP:
				if (!atomic_load(&finish))
					wait_for_descriptor(provider->cq_fd(pair.b.cq), &random);
				break;
		}
	}
	return NULL;
}

/* `last`: the receiver need not be there to acknowledge it. */
static void
send_immediate(uint32_t imm, bool last)
{
	const RfProvider *provider = pair.a.provider;
	RfWr		wr = {.opcode = RF_WR_WRITE_IMM, .imm = imm, .signaled = true};
	RfWc		wc;
	double		end = now_seconds() + DEADLINE_S;

	provider->qp_post(pair.a.qp, &wr);
	if (pair.kind == PAIR_SIM)
		(void) rf_sim_run(1000);
	while (!last && provider->cq_poll(pair.a.cq, &wc, 1) == 0)
	{
		sched_yield();
		CHECK(now_seconds() < end);
	}
	CHECK(last || wc.status == RF_WC_SUCCESS);
}

/*
 * The next message leaves when the last was seen, after a gap around the time in which the other
 * side arms and goes to sleep.
 */
static uint64_t
gaps(PairKind kind, int mode, uint64_t count, double seconds)
{
	uint64_t	random = 11;
	double		end = now_seconds() + seconds;
	pthread_t	sleeper;
	uint64_t	sent;

	rf_sim_reset(NULL);
	pair_open(&pair, kind);
	atomic_store(&seen, 0);
	atomic_store(&finish, false);
	atomic_store(&wanted_mode, (uint32_t) (mode >= 0 ? mode : 0));
	CHECK(pthread_create(&sleeper, NULL, sleeper_main, NULL) == 0);
	for (sent = 0; sent < count && (sent % 64 != 0 || now_seconds() < end); sent++)
	{
		double		deadline = now_seconds() + DEADLINE_S;

		for (volatile uint64_t spin = rig_random(&random) % 3000; spin > 0; spin--);
		if (mode < 0 && sent % 16 == 0)
			atomic_store(&wanted_mode, modes[rig_random(&random) % 5]);
		send_immediate((uint32_t) sent, false);
		while (atomic_load(&seen) != sent + 1)
		{
			sched_yield();
			CHECK(now_seconds() < deadline);
		}
	}
	atomic_store(&finish, true);
	send_immediate((uint32_t) sent, true);	/* it may sleep */
	pthread_join(sleeper, NULL);
	pair_close(&pair);
	return sent;
}

static void
test_gaps(uint64_t total, double seconds)
{
	static const PairKind kinds[] = {PAIR_SHM, PAIR_TCP, PAIR_SIM};
	static const char *kind_names[] = {"shm", "tcp", "sim"};
	static const struct
	{
		const char *name;
		int			mode;
		int			share;		/* of 16 */
	}			runs[] = {{"adaptive", RF_POLLING_ADAPTIVE, 5}, {"hybrid", RF_POLLING_HYBRID, 3},
	{"event", RF_POLLING_EVENT, 3}, {"event_batch", RF_POLLING_EVENT_BATCH, 2},
	{"busy", RF_POLLING_BUSY, 1}, {"changing", -1, 2}};
	uint64_t	done = 0;

	for (int k = 0; k < 3; k++)
	{
		for (int r = 0; r < 6; r++)
		{
			uint64_t	some = gaps(kinds[k], runs[r].mode, total * runs[r].share / 48,
									seconds * runs[r].share / 48);

			printf("# %s, %s: %llu gaps\n", kind_names[k], runs[r].name, (unsigned long long) some);
			done += some;
		}
	}
	printf("ok - no wake-up lost in %llu random gaps\n", (unsigned long long) done);
}

/* ---------- lanes ---------- */

static void
tune(RfPollingMode mode)
{
	RfLaneConfig config = rig_config;

	config.polling_mode = mode;
	rf_lane_tune(rig_nodes[0].lanes[0], &config);
	rf_lane_tune(rig_nodes[1].lanes[0], &config);
}

/* Slots and credits between two lanes; mode -1: it changes on the way. */
static void
lane_gaps(int mode, int rounds)
{
	uint64_t	random = 5;
	RfSlotCursor sent = {0};
	RfSlotCursor got = {0};
	uint32_t	consumer = rig_listen(1, 1, 2, 4096, 77);
	uint32_t	producer = rig_open(0, 0, consumer, 77);

	CHECK(producer != UINT32_MAX);
	if (mode >= 0)
		tune((RfPollingMode) mode);
	for (int i = 0; i < rounds; i++)
	{
		RfSlotHeader header;
		uint8_t    *payload;

		if (mode < 0 && i % 8 == 0)
			tune(modes[rig_random(&random) % 5]);
		CHECK(rig_acquire(0, 0, producer, &sent) != NULL);
		if (rf_slot_submit(&rig_nodes[0].shared->flows[producer], &sent, 8,
						   RF_SLOT_FIRST | RF_SLOT_LAST, 1))
			rig_ring(0, producer);
		for (volatile uint64_t spin = rig_random(&random) % 4000; spin > 0; spin--);
		CHECK(rig_read(1, 1, consumer, &got, &header, &payload) == RF_READ_DATA);
		if (rf_slot_release(&rig_nodes[1].shared->flows[consumer], &got))
			rig_ring(1, consumer);
	}
	rig_close(1, consumer, true, false);
	rig_close(0, producer, false, true);
	CHECK(rig_all_free());
}

static void
wake_lane(RfLane *lane)
{
	uint64_t	one = 1;

	CHECK(write(lane->wake_fd, &one, sizeof(one)) == sizeof(one));
}

/*
 * Wake-ups that bring nothing cost two polls each, though a success would be followed by a tenth of
 * a second of them.
 */
static void
test_idle(void)
{
	enum
	{
		WAKES = 200
	};
	RfLane	   *lane = &rig_nodes[0].shared->lanes[0];
	uint64_t	polls;
	uint64_t	cpu;

	tune(RF_POLLING_ADAPTIVE);
	AWAIT(atomic_load(&lane->polling_mode) == RF_POLLING_ADAPTIVE &&
		  atomic_load(&lane->asleep) == 1);
	usleep(200000);				/* the change itself was something to do */
	AWAIT(atomic_load(&lane->asleep) == 1);
	polls = atomic_load(&lane->polls);
	cpu = atomic_load(&lane->busy_us);
	for (int i = 0; i < WAKES; i++)
	{
		uint64_t	sleeps = atomic_load(&lane->sleeps);

		wake_lane(lane);
		AWAIT(atomic_load(&lane->sleeps) > sleeps);
	}
	CHECK(atomic_load(&lane->polls) - polls <= 3 * WAKES);
	cpu = atomic_load(&lane->busy_us) - cpu;
	printf("# %.1f us of CPU per idle wake-up\n", (double) cpu / WAKES);
	CHECK(cpu < WAKES * 5000);
}

static void
test_busy(void)
{
	RfLane	   *lane = &rig_nodes[0].shared->lanes[0];
	uint64_t	sleeps;
	uint64_t	polls;
	uint64_t	cpu;

	tune(RF_POLLING_BUSY);
	AWAIT(atomic_load(&lane->polling_mode) == RF_POLLING_BUSY);
	AWAIT(atomic_load(&lane->asleep) == 0);
	sleeps = atomic_load(&lane->sleeps);
	polls = atomic_load(&lane->polls);
	cpu = atomic_load(&lane->busy_us);
	AWAIT(atomic_load(&lane->polls) > polls + 1000 && atomic_load(&lane->busy_us) > cpu + 2000);
	CHECK(atomic_load(&lane->sleeps) == sleeps);
	CHECK(atomic_load(&lane->empty_polls) > 0);
	tune(RF_POLLING_ADAPTIVE);
	AWAIT(atomic_load(&lane->asleep) == 1);
}

#define RUN(what, call) (call, printf("ok - %s\n", what))

int
main(int argc, char **argv)
{
	RfSimConfig sim = {.seed = 3, .delay_max = 3};
	uint64_t	total = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000 / SLOWER;

	setvbuf(stdout, NULL, _IOLBF, 0);
	RUN("what each mode does next", test_modes());
	RUN("adaptive: the budget is opened by every success, and trying must pay", test_adaptive());
	RUN("calibration", test_calibration());
	test_gaps(total, argc > 1 ? 1e9 : 8.0);

	rig_config.poll_us = 100000;
	rig_start(&sim);
	RUN("a busy lane never sleeps", test_busy());
	RUN("an idle lane goes back to sleep at once", test_idle());
	rig_stop();

	rig_config.poll_us = 20;
	rig_start(&sim);
	for (int i = 0; i < 5; i++)
		lane_gaps((int) modes[i], 1000 / SLOWER);
	RUN("lanes lose no wake-up in any mode", (void) 0);
	RUN("nor while it changes", lane_gaps(-1, 3000 / SLOWER));
	rig_stop();
	return 0;
}
