/*
 * test_throttle.c - credit throttling: the automatic choice against every fixed limit, over a
 * simulated adapter whose capacity depends on the outstanding requests; and a lane that keeps its
 * limit. RF_TSAN: the lane has threads.
 *
 * One step of the simulated fabric stands for a microsecond, so nothing here depends on the
 * machine.
 */
#include <string.h>
#include <unistd.h>

#include "../../src/engine/throttle.h"
#include "lane_rig.h"
#include "pair.h"

#define BACKLOG		64			/* outstanding on a queue pair without a limit, at most */
#define MAX_PAIRS	16
#define PAYLOAD		4096
#define EPOCH_US	(480000 + RF_CREDIT_CANDIDATES * 8000)

static int	pairs;
static Pair pair[MAX_PAIRS];
static uint64_t outstanding[MAX_PAIRS];
static uint64_t load = BACKLOG; /* outstanding on each in run() */
static RfThrottle throttle;
static RfLaneThrottle shown;

static void
begin(int count, const RfSimConfig *config, int32_t setting)
{
	rf_sim_reset(config);
	pairs = count;
	for (int i = 0; i < count; i++)
	{
		pair_open_as(&pair[i], PAIR_SIM, 1 << 16, BACKLOG, 4 * BACKLOG, false);
		outstanding[i] = 0;
	}
	memset(&shown, 0, sizeof(shown));
	rf_throttle_init(&throttle, &shown);
	rf_throttle_set(&throttle, setting);
}

static void
end(void)
{
	for (int i = 0; i < pairs; i++)
		pair_close(&pair[i]);
}

/*
 * Posts all that there is room for, in a load that keeps up to `backlog` on each queue pair; makes
 * one step; takes completions.
 */
static uint64_t
turn(uint64_t backlog)
{
	uint64_t	done = 0;

	for (int i = 0; i < pairs; i++)
	{
		RfWc		wc[64];
		int			count;

		while (outstanding[i] < backlog)
		{
			RfSge		sge = {pair[i].a.memory, PAYLOAD, pair[i].a.region->lkey};
			RfWr		wr = {.opcode = RF_WR_WRITE, .signaled = true, .num_sge = 1, .sge = &sge,
			.remote_addr = (uint64_t) (uintptr_t) pair[i].b.memory, .rkey = pair[i].b.region->rkey};

			if (!rf_throttle_room(&throttle, outstanding[i]))
			{
				rf_throttle_wait(&throttle);
				break;
			}
			rf_throttle_post(&throttle, ++outstanding[i], (int64_t) rf_sim_now());
			rf_provider_sim.qp_post(pair[i].a.qp, &wr);
		}
		count = rf_provider_sim.cq_poll(pair[i].a.cq, wc, 64);
		for (int k = 0; k < count; k++)
			CHECK(wc[k].status == RF_WC_SUCCESS);
		outstanding[i] -= (uint64_t) count;
		if (count > 0)
			rf_throttle_complete(&throttle, (uint64_t) count, (uint64_t) count * PAYLOAD,
								 (int64_t) rf_sim_now());
		done += (uint64_t) count;
	}
	(void) rf_sim_step();
	return done;
}

/* Requests per second of simulated time. */
static double
run(uint64_t us)
{
	uint64_t	start = rf_sim_now();
	uint64_t	done = 0;

	while (rf_sim_now() - start < us)
		done += turn(load);
	return (double) done * 1e6 / (double) (rf_sim_now() - start);
}

static double
fixed(int count, const RfSimConfig *config, int32_t setting)
{
	double		rate;

	begin(count, config, setting);
	(void) run(10000);
	rate = run(60000);
	end();
	return rate;
}

static double
best_fixed(int count, const RfSimConfig *config, int32_t *which)
{
	static const int32_t all[RF_CREDIT_CANDIDATES] = {0, 1, 2, 4, 6, 8, 10, 12};
	double		best = 0;

	for (int i = 0; i < RF_CREDIT_CANDIDATES; i++)
	{
		double		rate = fixed(count, config, all[i]);

		if (rate > best)
		{
			best = rate;
			*which = all[i];
		}
	}
	return best;
}

/* The sum over epochs, with all that the trials cost, against the best that never tries. */
static void
test_choice(int count, uint64_t each, const RfSimConfig *config, int32_t expected)
{
	int32_t		which = -1;
	double		best;
	double		rate;

	load = each;
	best = best_fixed(count, config, &which);
	CHECK(which == expected);
	begin(count, config, RF_CREDIT_AUTO);
	while (atomic_load(&shown.epoch) == 0)
		CHECK(run(10000) > 0 && rf_sim_now() < 2 * EPOCH_US);
	rate = run(3 * EPOCH_US);
	CHECK(atomic_load(&shown.epoch) >= 3);
	CHECK(atomic_load(&shown.peak_all) > RF_CREDIT_FEWEST);
	CHECK(atomic_load(&shown.waits) > 0);
	printf("# found by trying: %.0f requests/s, best fixed (%d): %.0f, ratio %.3f\n", rate,
		   (int) which, best, rate / best);
	CHECK(rate >= 0.95 * best);
	end();
	load = BACKLOG;
}

/* Changes the adapter: within two epochs the limit is chosen, and nothing is tried any more. */
static void
change_to(const RfSimConfig *config, uint32_t limit)
{
	int64_t		since = rf_sim_now();

	rf_sim_configure(config);
	while (atomic_load(&shown.c_max) != limit || throttle.trying >= 0)
	{
		(void) turn(BACKLOG);
		CHECK(rf_sim_now() - since < 2 * EPOCH_US);
	}
}

static void
test_change(void)
{
	RfSimConfig config = {.seed = 1, .service = 10, .latency = 70, .cache = 8};
	uint64_t	epoch;

	begin(1, &config, RF_CREDIT_AUTO);
	(void) run(2 * EPOCH_US);
	CHECK(atomic_load(&shown.c_max) == 8);
	config.latency = 30;
	config.cache = 4;
	change_to(&config, 4);
	CHECK(atomic_load(&shown.rate[3]) > atomic_load(&shown.rate[0]));

	/* Ten times slower, and no limit helps: what was measured before must not count. */
	config.service = 100;
	config.latency = 1000;
	config.cache = 0;
	change_to(&config, 0);
	epoch = atomic_load(&shown.epoch);
	while (atomic_load(&shown.epoch) < epoch + 3)
	{
		(void) turn(BACKLOG);
		CHECK(atomic_load(&shown.c_max) == 0 || throttle.trying >= 0);
	}

	/* And fast again, where nothing thrashes. */
	config.service = 10;
	config.latency = 400;
	config.cache = 0;
	change_to(&config, 0);
	end();
}

/* A load that never has more than four outstanding: nothing can matter, nothing is tried. */
static void
test_light(void)
{
	RfSimConfig config = {.seed = 1, .service = 10, .latency = 70, .cache = 8};

	begin(1, &config, RF_CREDIT_AUTO);
	while (rf_sim_now() < 3 * EPOCH_US)
		(void) turn(4);
	CHECK(atomic_load(&shown.epoch) == 0 && atomic_load(&shown.waits) == 0);
	CHECK(atomic_load(&shown.c_max) == 0 && throttle.trying == -1);

	/* With seven requests, limits of 8 and more change nothing, and 1 and 2 leave too few. */
	while (atomic_load(&shown.epoch) == 0)
	{
		(void) turn(7);
		CHECK(rf_sim_now() < 6 * EPOCH_US);
	}
	for (int i = 0; i < RF_CREDIT_CANDIDATES; i++)
		CHECK((atomic_load(&shown.rate[i]) > 0) == (i == 0 || i == 3 || i == 4));
	end();
}

/* Few requests on each of many queue pairs: what counts is their sum. */
static void
test_sum(void)
{
	RfSimConfig config = {.seed = 1, .service = 10, .latency = 70};

	/* One on each cannot be made fewer. */
	begin(8, &config, RF_CREDIT_AUTO);
	while (rf_sim_now() < 3 * EPOCH_US)
		(void) turn(1);
	CHECK(atomic_load(&shown.epoch) == 0 && atomic_load(&shown.waits) == 0);
	CHECK(atomic_load(&shown.peak) == 1 && atomic_load(&shown.peak_all) == 8);

	/* Three on each of eight: the limits of one and of two. */
	while (atomic_load(&shown.epoch) == 0)
	{
		(void) turn(3);
		CHECK(rf_sim_now() < 6 * EPOCH_US);
	}
	for (int i = 0; i < RF_CREDIT_CANDIDATES; i++)
		CHECK((atomic_load(&shown.rate[i]) > 0) == (i < 3));
	end();
}

/* Time passes only while something is outstanding. */
static void
test_idle(void)
{
	rf_throttle_init(&throttle, &shown);
	rf_throttle_set(&throttle, RF_CREDIT_AUTO);
	for (int64_t hour = 0; hour < 1000; hour++)
	{
		int64_t		now = hour * 3600 * 1000000;

		for (uint64_t i = 1; i <= 8; i++)
			rf_throttle_post(&throttle, i, now);
		rf_throttle_complete(&throttle, 8, 8 * PAYLOAD, now + 100);
	}
	CHECK(throttle.active_us == 1000 * 100);
	CHECK(throttle.trying == -1 && throttle.c_max == UINT32_MAX);

	/* Requests lost with their queue pair do not keep the clock running. */
	rf_throttle_post(&throttle, 1, 1000);
	rf_throttle_forget(&throttle, 1, 1500);
	rf_throttle_post(&throttle, 1, 1000000);
	rf_throttle_complete(&throttle, 1, 0, 1000010);
	CHECK(throttle.active_us == 1000 * 100 + 510);
}

static void
test_setting(void)
{
	rf_throttle_init(&throttle, NULL);
	CHECK(rf_throttle_room(&throttle, 1000000));
	rf_throttle_set(&throttle, 3);
	CHECK(rf_throttle_room(&throttle, 2) && !rf_throttle_room(&throttle, 3));
	rf_throttle_set(&throttle, 0);
	CHECK(rf_throttle_room(&throttle, 1000000));
}

/* ---------- in a lane ---------- */

/* Streams of `count` slots each over one connection; every slot arrives, and the limit is kept. */
static void
stream(uint64_t count)
{
	enum
	{
		FLOWS = 4
	};
	uint32_t	consumer[FLOWS];
	uint32_t	producer[FLOWS];
	RfSlotCursor sent[FLOWS];
	RfSlotCursor got[FLOWS];
	uint64_t	done = 0;

	memset(sent, 0, sizeof(sent));
	memset(got, 0, sizeof(got));
	for (int i = 0; i < FLOWS; i++)
	{
		consumer[i] = rig_listen(1, i, 8, 4096, 77 + i);
		producer[i] = rig_open(0, FLOWS + i, consumer[i], 77 + i);
		CHECK(producer[i] != UINT32_MAX);
	}
	while (done < FLOWS * count)
	{
		for (int i = 0; i < FLOWS; i++)
		{
			RfFlow	   *from = &rig_nodes[0].shared->flows[producer[i]];
			RfFlow	   *to = &rig_nodes[1].shared->flows[consumer[i]];
			RfSlotHeader header;
			uint8_t    *payload;
			RfError		error;

			while (sent[i].next < count && rf_slot_fill(from, &sent[i]) != NULL)
			{
				if (rf_slot_submit(from, &sent[i], 100, RF_SLOT_FIRST | RF_SLOT_LAST, 1))
					rig_ring(0, producer[i]);
			}
			while (rf_slot_read(to, &got[i], &header, &payload, &error) == RF_READ_DATA)
			{
				if (rf_slot_release(to, &got[i]))
					rig_ring(1, consumer[i]);
				done++;
			}
			CHECK(atomic_load(&from->state) == RF_FLOW_OPEN);
		}
		sched_yield();
	}
	for (int i = 0; i < FLOWS; i++)
	{
		rig_close(1, consumer[i], true, false);
		rig_close(0, producer[i], false, true);
	}
	CHECK(rig_all_free());
}

static void
test_lane(int32_t limit)
{
	RfSimConfig sim = {.seed = 3, .delay_max = 3};
	RfLane	   *lane;
	RfLaneQp   *qp;
	double		deadline;

	rig_config.merge_limit = 0;
	rig_config.chain_limit = 16;
	rig_config.credit_limit = limit;
	rig_start(&sim);
	lane = &rig_nodes[0].shared->lanes[0];
	qp = &lane->qps[1];
	stream(2000);
	CHECK(atomic_load(&qp->number) != 0);
	CHECK(atomic_load(&qp->work_requests) >= 4 * 2000);
	if (limit > 0)
	{
		CHECK(atomic_load(&qp->outstanding_max) <= (uint32_t) limit);
		CHECK(atomic_load(&lane->throttle.c_max) == (uint32_t) limit);
		CHECK(atomic_load(&qp->waits) > 0 && atomic_load(&lane->throttle.waits) > 0);
	}
	else
	{
		CHECK(atomic_load(&lane->throttle.c_max) == 0 || limit < 0);
		CHECK(atomic_load(&lane->throttle.waits) == 0 || limit < 0);
	}
	deadline = now_seconds() + RIG_PATIENCE;
	while (atomic_load(&qp->outstanding) > 0)
	{
		usleep(100);
		CHECK(now_seconds() < deadline);
	}
	rig_stop();
}

#define RUN(what, call) (call, printf("ok - %s\n", what))

int
main(void)
{
	RfSimConfig eight = {.seed = 1, .service = 10, .latency = 70, .cache = 8};
	RfSimConfig shared_cache = {.seed = 2, .service = 5, .latency = 115, .cache = 24};
	RfSimConfig many = {.seed = 4, .service = 5, .latency = 115, .cache = 24};
	RfSimConfig flat = {.seed = 3, .service = 10, .latency = 600};

	setvbuf(stdout, NULL, _IOLBF, 0);
	RUN("a fixed limit, and none", test_setting());
	RUN("idle time decides nothing", test_idle());
	RUN("where one candidate can matter none is tried", test_light());
	RUN("many queue pairs with few requests each", test_sum());
	RUN("one queue pair: found is 0.95 of the best", test_choice(1, BACKLOG, &eight, 8));
	RUN("four queue pairs that share a cache", test_choice(4, BACKLOG, &shared_cache, 6));
	RUN("16 that share it, with four requests each", test_choice(16, 4, &many, 2));
	RUN("no limit where nothing thrashes", test_choice(1, BACKLOG, &flat, 0));
	RUN("decided again within two epochs of a change", test_change());
	RUN("a lane keeps a limit of 1", test_lane(1));
	RUN("a lane keeps a limit of 3", test_lane(3));
	RUN("a lane without a limit", test_lane(0));
	RUN("a lane that tries", test_lane(RF_CREDIT_AUTO));
	return 0;
}
