/*
 * test_backoff.c - claims by compare-and-swap that many lanes want (src/engine/backoff.c), in a
 * simulation of time: 16 and 48 lanes with up to four claims each want the receive buffers of one
 * pool. An attempt swaps the word of a buffer, takes a round trip and is decided in its middle; a
 * buffer that was claimed is free again after a while. Counted: lost attempts per claim, with
 * backoff and with immediate retries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backoff.h"

#define ROUND_TRIP_NS	2000
#define BUFFERS			16
#define HOLD_NS			20000	/* a buffer is filled and read: 256 kB at 12 GB/s */
#define TASKS			4
#define MAX_LANES		48
#define RUN_NS			(30 * 1000 * 1000ULL)

static int	failures;

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

typedef enum TaskState
{
	IDLE,						/* wants to begin a claim at `due` */
	TRYING,						/* its attempt reaches the word at `due` */
	ANSWER						/* and its answer the lane */
} TaskState;

typedef struct Task
{
	TaskState	state;
	uint64_t	due;
	uint32_t	lost;
	bool		won;
} Task;

typedef struct Result
{
	double		lost_per_claim;
	double		claims;
	double		least_share;	/* of a lane, of the average */
	uint32_t	least_allowed;
} Result;

static uint64_t random_state = 88172645463325252ULL;

static uint64_t
pick(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

static Result
simulate(uint32_t lanes, bool backoff)
{
	static Task tasks[MAX_LANES][TASKS];
	RfBackoff	policies[MAX_LANES];
	uint64_t	won[MAX_LANES] = {0};
	uint64_t	free_at[BUFFERS] = {0};
	uint64_t	lost = 0;
	uint64_t	claims = 0;
	Result		result = {.least_share = 1e9,.least_allowed = TASKS};

	memset(tasks, 0, sizeof(tasks));
	for (uint32_t i = 0; i < lanes; i++)
	{
		rf_backoff_init(&policies[i], ROUND_TRIP_NS, TASKS, i + 1, 0);
		for (int t = 0; t < TASKS; t++)
			tasks[i][t].due = pick(HOLD_NS);
	}
	for (;;)
	{
		uint32_t	lane = 0;
		Task	   *task = &tasks[0][0];
		uint64_t	now;

		for (uint32_t i = 0; i < lanes; i++)
		{
			for (int t = 0; t < TASKS; t++)
			{
				if (tasks[i][t].due < task->due)
				{
					task = &tasks[i][t];
					lane = i;
				}
			}
		}
		now = task->due;
		if (now > RUN_NS)
			break;
		switch (task->state)
		{
			case IDLE:
				if (backoff && !rf_backoff_begin(&policies[lane]))
				{
					task->due = now + ROUND_TRIP_NS;	/* in a lane: when another claim of its own
														 * is done */
					break;
				}
				task->lost = 0;
				task->state = TRYING;
				task->due = now + ROUND_TRIP_NS / 2;
				break;
			case TRYING:
				{
					uint64_t   *buffer = &free_at[pick(BUFFERS)];

					task->won = *buffer <= now;
					if (task->won)
						*buffer = now + HOLD_NS / 2 + pick(HOLD_NS);
				}
				task->state = ANSWER;
				task->due = now + ROUND_TRIP_NS / 2;
				break;
			case ANSWER:
				if (task->won)
				{
					claims++;
					won[lane]++;
					if (backoff)
						rf_backoff_won(&policies[lane], now);
					task->state = IDLE;
					task->due = now + HOLD_NS;
				}
				else
				{
					uint64_t	wait = backoff ? rf_backoff_lost(&policies[lane], ++task->lost,
																 now) : 0;

					lost++;
					task->state = TRYING;
					task->due = now + wait + ROUND_TRIP_NS / 2 + pick(100);
				}
				if (policies[lane].allowed < result.least_allowed)
					result.least_allowed = policies[lane].allowed;
				break;
		}
	}
	result.lost_per_claim = (double) lost / (double) claims;
	result.claims = (double) claims;
	for (uint32_t i = 0; i < lanes; i++)
	{
		double		share = (double) won[i] * lanes / (double) claims;

		result.least_share = share < result.least_share ? share : result.least_share;
	}
	return result;
}

int
main(void)
{
	RfBackoff	one;
	bool		in_range = true;
	uint64_t	now = 0;

	/* The formula and its bounds. */
	rf_backoff_init(&one, 100, 4, 7, 0);
	for (uint32_t lost = 1; lost < 5000; lost++)
	{
		uint64_t	wait = rf_backoff_lost(&one, lost, now += 50000);
		uint64_t	full = 100ULL << (lost < 10 ? lost : 10);

		in_range = in_range && wait >= (full < one.limit_ns ?
										full : one.limit_ns) && wait < one.limit_ns + 100;
	}
	check(in_range, "a lost attempt waits min(t0 * 2^i, limit) and up to t0 more");
	check(one.allowed == 1 && one.limit_ns == 100 << RF_BACKOFF_LIMIT_SHIFT,
		  "conflicts without end: one claim at once, then the longest limit");
	check(rf_backoff_begin(&one) && !rf_backoff_begin(&one), "a second claim has to wait");
	one.running = 0;
	for (int i = 0; i < 100000; i++)
	{
		(void) rf_backoff_begin(&one);
		rf_backoff_won(&one, now += 1000);
	}
	check(one.allowed == 4 && one.limit_ns == 100, "without conflicts all of it is taken back");
	for (int i = 0; i < 200; i++)
		rf_backoff_round_trip(&one, 3000);
	check(one.unit_ns > 2900 && one.unit_ns <= 3000 && one.limit_ns >= one.unit_ns,
		  "the unit follows the round trips, and the limit is not below it");
	one.limit_ns = one.unit_ns << RF_BACKOFF_LIMIT_SHIFT;
	for (int i = 0; i < 200; i++)
		rf_backoff_round_trip(&one, 0);
	check(one.unit_ns == 1 && one.limit_ns == 1 << RF_BACKOFF_LIMIT_SHIFT, "nor too many units");

	for (uint32_t lanes = 16; lanes <= MAX_LANES; lanes += 32)
	{
		Result		immediate = simulate(lanes, false);
		Result		with = simulate(lanes, true);
		char		what[200];

		printf(
			   "# %u lanes: lost attempts per claim %.2f immediately, %.2f with backoff; claims "
			   "%.2f x; least lane %.2f of the average\n",
			   lanes, immediate.lost_per_claim, with.lost_per_claim, with.claims / immediate.claims,
			   with.least_share);
		snprintf(what, sizeof(what),
				 "%u lanes: at most a fifth of the retries of immediate retrying", lanes);
		check(with.lost_per_claim <= 0.2 * immediate.lost_per_claim, what);
		snprintf(what, sizeof(what), "%u lanes: no lane starves, and concurrency went down first",
				 lanes);
		check(with.least_share > 0.2 && with.least_allowed == 1, what);
	}
	return failures != 0;
}
