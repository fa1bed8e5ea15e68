/*
 * test_lane_load.c - new flows go to the lane with the least load: that with the least processor
 * time lately, whatever number of flows it has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/engine/lane_load.h"

#define LANES	4

static int	failures;
static RfLaneLoad load;
static RfLane *lanes;			/* LANES */
static uint32_t flows[LANES];
static int64_t now;				/* us */

static void
check(bool good, const char *name)
{
	printf("%s - %s\n", good ? "ok" : "not ok", name);
	failures += !good;
}

/* Idle lanes without flows, long after the last look. */
static void
reset(void)
{
	memset(&load, 0, sizeof(load));
	memset(flows, 0, sizeof(flows));
	now = 1000000;
	for (int i = 0; i < LANES; i++)
		atomic_store(&lanes[i].busy_us, 0);
	(void) rf_lane_choose(&load, lanes, flows, LANES, LANES, now);
	now += LANE_LOAD_US;
}

/* The lanes take so much processor time, us, until the next look. */
static void
work(const uint64_t busy[LANES])
{
	for (int i = 0; i < LANES; i++)
		atomic_fetch_add(&lanes[i].busy_us, busy[i]);
	now += LANE_LOAD_US;
}

/* Opens `count` flows at once; got[] is how many each lane got. */
static void
open_flows(int count, uint32_t usable, uint32_t got[LANES])
{
	memset(got, 0, LANES * sizeof(got[0]));
	for (int i = 0; i < count; i++)
	{
		uint32_t	lane = rf_lane_choose(&load, lanes, flows, LANES, usable, now);

		got[lane]++;
		flows[lane]++;
	}
}

static bool
are(const uint32_t got[LANES], uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	return got[0] == a && got[1] == b && got[2] == c && got[3] == d;
}

static void
test_idle(void)
{
	uint32_t	got[LANES];

	reset();
	open_flows(16, LANES, got);
	check(are(got, 4, 4, 4, 4), "idle lanes get equally many");
	now += LANE_LOAD_US;
	open_flows(4, LANES, got);
	check(are(got, 1, 1, 1, 1), "and later flows go on with that");
	flows[2] = 0;
	now += LANE_LOAD_US;
	open_flows(1, LANES, got);
	check(are(got, 0, 0, 1, 0), "of equally idle lanes that with fewer flows comes first");
}

static void
test_busy(void)
{
	uint32_t	got[LANES];

	reset();
	flows[0] = 1;
	flows[1] = 5;
	flows[2] = flows[3] = 3;
	work((const uint64_t[LANES]) {90000, 10, 40000, 40000});
	open_flows(1, LANES, got);
	check(are(got, 0, 1, 0, 0), "many idle flows do not count, one busy flow does");

	reset();
	flows[0] = flows[1] = flows[2] = flows[3] = 4;
	work((const uint64_t[LANES]) {80000, 80000, 0, 0});
	open_flows(12, LANES, got);
	check(got[2] == got[3] && got[2] >= 5 && got[0] <= 1 && got[1] <= 1,
		  "flows that come at once go to the idle lanes until these are expected to be as busy");
}

static void
test_looks(void)
{
	uint32_t	got[LANES];

	reset();
	flows[0] = flows[1] = flows[2] = flows[3] = 1;
	work((const uint64_t[LANES]) {90000, 80000, 70000, 60000});
	open_flows(1, LANES, got);
	check(are(got, 0, 0, 0, 1), "the least busy lane");
	work((const uint64_t[LANES]) {0, 90000, 90000, 90000});
	now--;
	open_flows(1, LANES, got);
	check(are(got, 0, 0, 1, 0), "nothing is measured anew too soon: then the second");
	now++;
	open_flows(1, LANES, got);
	check(are(got, 1, 0, 0, 0), "what was long ago is forgotten");

	/* An engine that begins anew finds the counters of the one before. */
	reset();
	memset(&load, 0, sizeof(load));
	work((const uint64_t[LANES]) {0, 5000000, 5000000, 5000000});
	open_flows(4, LANES, got);
	check(are(got, 1, 1, 1, 1), "nor does the load before the first look count");
}

static void
test_usable(void)
{
	uint32_t	got[LANES];

	reset();
	work((const uint64_t[LANES]) {90000, 80000, 0, 0});
	open_flows(1, 2, got);
	check(are(got, 0, 1, 0, 0), "the least busy of the lanes that the peer has, too");
	open_flows(8, 2, got);
	check(got[0] > 0 && got[2] == 0 && got[3] == 0, "however many flows these have");
	open_flows(1, 1, got);
	check(are(got, 1, 0, 0, 0), "and the only one, however busy");
}

int
main(void)
{
	lanes = aligned_alloc(RF_CACHE_LINE, LANES * sizeof(RfLane));
	if (lanes == NULL)
		return 1;
	memset((void *) lanes, 0, LANES * sizeof(RfLane));
	test_idle();
	test_busy();
	test_looks();
	test_usable();
	free(lanes);
	return failures > 0;
}
