/*
 * test_receive_seeds.c - shared receive pools between the lanes of two nodes over the simulated
 * fabric, by the seed.
 *
 * Each seed runs groups: several producers, one consumer that reads whole batches of them in turn
 * out of one pool. Batches may be larger than the pool. Buffers are claimed, granted, or both;
 * producers pause, give up in the middle, are cut off; consumers stop early. Every word of every
 * slot is checked, a group that nothing happened to must end with all batches, and afterwards every
 * buffer of its pool is free.
 *
 *		test_receive_seeds [first seed [seeds [times each]]]
 *
 * Without arguments: as many seeds as fit into a check. Threads make two runs of one seed differ; a
 * failure says how to repeat it.
 */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lane_rig.h"
#include "shmem/group_turn.h"

#define MAX_PRODUCERS	14
#define MAX_GROUPS		2
#define MAX_BATCH		12		/* slots */
#define NEVER			UINT64_MAX
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CHECK_SEEDS		80
#else
#define CHECK_SEEDS		120
#endif
#define CHECK_SECONDS	15		/* then no further seed, if all cases were met */
#define SEED_SECONDS	120		/* no seed takes that long: a thread hangs */

struct Group;

typedef struct Producer
{
	struct Group *group;
	int			number;
	uint64_t	seed;
	uint64_t	batches;
	uint64_t	quit_at;		/* slot before which it gives up; NEVER */
	bool		lazy;			/* long pauses */
	uint64_t	key;
	uint32_t	flow;			/* the consumer's */
	pthread_t	thread;
} Producer;

typedef struct Group
{
	int			number;
	uint64_t	seed;
	int			rounds;
	bool		faults;
	pthread_t	thread;

	int			producers;
	uint32_t	slot_count;
	uint32_t	slot_size;
	RfReceivePool *pool;
	Producer	all[MAX_PRODUCERS];
	atomic_int	not_open;		/* producers that have not tried yet */
	atomic_bool refused;

	uint64_t	complete;
	uint64_t	stopped;
	uint64_t	broken;
	uint64_t	slots;
} Group;

static volatile uint64_t current_seed;
static struct
{
	uint64_t	seeds,
				complete,
				stopped,
				broken,
				slots,
				claims,
				lost,
				asked,
				grants;
}			totals;

static uint64_t
below(uint64_t *state, uint64_t limit)
{
	return rig_random(state) % limit;
}

static uint32_t
pick(uint64_t *state, const uint32_t *values, int count)
{
	return values[below(state, (uint64_t) count)];
}

#define PICK(state, ...) \
	pick(state, (const uint32_t[]){__VA_ARGS__}, \
		 (int) (sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))

/* ---------- the contents of a slot ---------- */

static uint32_t
slot_length(uint64_t seed, uint64_t slot, uint32_t room)
{
	uint64_t	state = seed * 31 + slot;
	uint64_t	r = rig_random(&state);

	return r % 2 == 0 ? (uint32_t) ((r >> 8) % (room + 1)) : room;
}

static uint32_t
batch_slots(uint64_t seed, uint64_t batch)
{
	uint64_t	state = seed * 17 + batch;
	uint64_t	r = rig_random(&state);

	return r % 3 != 0 ? 1 : 1 + (uint32_t) (r >> 8) % MAX_BATCH;
}

static uint64_t
word_of(uint64_t seed, uint64_t slot, uint32_t i)
{
	return (seed ^ (slot << 40)) * 0x9e3779b97f4a7c15ull + i;
}

static void
fill(uint8_t *data, uint32_t length, uint64_t seed, uint64_t slot)
{
	for (uint32_t i = 0; i < length; i += 8)
	{
		uint64_t	word = word_of(seed, slot, i);

		memcpy(data + i, &word, length - i < 8 ? length - i : 8);
	}
}

static bool
same(const uint8_t *data, uint32_t length, uint64_t seed, uint64_t slot)
{
	for (uint32_t i = 0; i < length; i += 8)
	{
		uint64_t	word = word_of(seed, slot, i);

		if (memcmp(data + i, &word, length - i < 8 ? length - i : 8) != 0)
			return false;
	}
	return true;
}

/* ---------- producers, node 0 ---------- */

/* One slot. False: the flow is over. */
static bool
send_slot(Producer *me, int backend, uint32_t index, RfSlotCursor *cursor, uint32_t flags)
{
	RfFlow	   *flow = &rig_nodes[0].shared->flows[index];
	uint64_t	slot = cursor->next;
	uint8_t    *data = rig_acquire(0, backend, index, cursor);
	uint32_t	length = slot_length(me->seed, slot,
									 flow->slot_size - (uint32_t) sizeof(RfSlotHeader));

	if (data == NULL)
		return false;
	fill(data + sizeof(RfSlotHeader), length, me->seed, slot);
	if (rf_slot_submit(flow, cursor, length, flags, slot))
		rig_ring(0, index);
	return true;
}

static void *
produce(void *argument)
{
	Producer   *me = argument;
	Group	   *group = me->group;
	int			backend = group->number * 20 + me->number;
	uint64_t	state = me->seed + 5;
	RfSlotCursor cursor = {0};
	uint32_t	flow = rig_open(0, backend, me->flow, me->key);
	uint64_t	sent = 0;
	bool		alive = true;

	if (flow == UINT32_MAX)
		atomic_store(&group->refused, true);
	atomic_fetch_sub(&group->not_open, 1);
	if (flow == UINT32_MAX)
		return NULL;
	for (uint64_t batch = 0; batch < me->batches && alive && sent < me->quit_at; batch++)
	{
		uint32_t	parts = batch_slots(me->seed, batch);

		for (uint32_t part = 0; part < parts && alive && sent < me->quit_at; part++, sent++)
		{
			uint32_t	flags = (part == 0 ? RF_SLOT_FIRST : 0) |
				(part == parts - 1 ? RF_SLOT_LAST : 0);

			alive = send_slot(me, backend, flow, &cursor, flags);
			if (below(&state, 8) == 0)
				usleep((useconds_t) below(&state, me->lazy ? 3000 : 100));
		}
	}
	alive = alive && me->quit_at == NEVER;
	alive = alive && rig_finish(0, backend, flow, &cursor);
	rig_close(0, flow, false, !alive);
	return NULL;
}

/* ---------- consumers, node 1: one thread ---------- */

typedef struct End
{
	RfSlotCursor cursor;
	uint64_t	taken;			/* slots */
	uint64_t	given;			/* of them, released */
	bool		ended;
	bool		last[64];		/* of each taken slot, does a batch end with it; ring */
} End;

static RfFlow *
flow_of(Group *group, int producer)
{
	return &rig_nodes[1].shared->flows[group->all[producer].flow];
}

/* A slot that came, checked. False: nothing there. */
static bool
take(Group *group, int producer, End *end, bool *failed)
{
	Producer   *from = &group->all[producer];
	RfFlow	   *flow = flow_of(group, producer);
	bool		over = atomic_load(&flow->remote_end) != 0 ||
		atomic_load(&flow->state) == RF_FLOW_FAILED;
	RfSlotHeader header;
	uint8_t    *payload;
	RfError		error = {0};

	switch (rf_slot_read(flow, &end->cursor, &header, &payload, &error))
	{
		case RF_READ_DATA:
			CHECK(header.length == slot_length(from->seed, end->taken,
											   flow->slot_size - (uint32_t) sizeof(RfSlotHeader)));
			CHECK(header.rows == end->taken);
			CHECK(same(payload, header.length, from->seed, end->taken));
			end->last[end->taken++ % 64] = (header.flags & RF_SLOT_LAST) != 0;
			group->slots++;
			return true;
		case RF_READ_END:
			end->ended = true;
			CHECK(from->quit_at == NEVER);
			rig_ring(1, from->flow);
			rf_receive_wake(rig_nodes[1].shared->lanes, group->pool);
			return false;
		case RF_READ_BAD:
			fprintf(stderr, "%s: %s\n", error.message, error.detail);
			CHECK(!"a slot is bad");
		case RF_READ_NOTHING:
			*failed = *failed || (over && !end->ended);
	}
	return false;
}

static void
release(Group *group, int producer, End *end)
{
	end->given++;
	if (rf_slot_release(flow_of(group, producer), &end->cursor))
		rig_ring(1, group->all[producer].flow);
	rf_receive_wake(rig_nodes[1].shared->lanes, group->pool);
}

static void
await(Group *group, int producer, const End *end)
{
	uint64_t	turn = RF_RECEIVE_TURN(group->all[producer].flow, end->cursor.next);

	if (atomic_exchange(&group->pool->turn, turn) == turn)
		return;
	rf_receive_wake(rig_nodes[1].shared->lanes, group->pool);
}

/* Until one of the flows that may be read next has something. */
static void
sleep_all(Group *group, End *ends, const RfTurn *turn, int backend)
{
	bool		ready = false;

	for (int p = 0; p < group->producers; p++)
		if (turn->torn < 0 || turn->torn == p)
			atomic_store(&flow_of(group, p)->waiting, RF_WAIT_ANY);
	for (int p = 0; p < group->producers; p++)
		if ((turn->torn < 0 || turn->torn == p) && !ends[p].ended)
			ready = ready || rf_slots_ready(flow_of(group, p), &ends[p].cursor, RF_WAIT_ANY);
	if (!ready)
		rig_sleep(backend, RIG_PATIENCE * 1000);
	for (int p = 0; p < group->producers; p++)
		atomic_store(&flow_of(group, p)->waiting, RF_WAIT_NONE);
}

/* Whole batches in turn, as group_consume.c does it. True: something was read. */
static bool
read_in_turn(Group *group, End *ends, RfTurn *turn, uint64_t *state, bool *failed)
{
	for (uint32_t i = 0; i < (uint32_t) group->producers; i++)
	{
		int			p = (int) rf_turn_look(turn, i, (uint32_t) group->producers);

		if (ends[p].ended)
			continue;
		if (take(group, p, &ends[p], failed))
		{
			rf_turn_take(turn, (uint32_t) p, ends[p].last[(ends[p].taken - 1) % 64]);
			if (below(state, 16) == 0)
				usleep((useconds_t) below(state, 200));
			release(group, p, &ends[p]);
			return true;
		}
		if (turn->torn >= 0)
		{
			await(group, p, &ends[p]);
			return false;
		}
	}
	return false;
}

static void
run_group(Group *group, uint64_t *state)
{
	static _Thread_local End ends[MAX_PRODUCERS];
	int			backend = group->number * 20 + 19;
	uint64_t	stop_at = below(state, 4) == 0 ? below(state, 200) : NEVER;
	uint64_t	begun = group->slots;
	RfTurn		turn = {.torn = -1};
	bool		failed = false;
	bool		all_ended = false;

	memset(ends, 0, sizeof(ends));
	atomic_store(&group->not_open, group->producers);
	atomic_store(&group->refused, false);
	for (int p = 0; p < group->producers; p++)
	{
		Producer   *one = &group->all[p];

		one->key = rig_random(state);
		one->flow = rig_listen_pooled(1, backend, group->pool, group->slot_count, one->key);
		CHECK(pthread_create(&one->thread, NULL, produce, one) == 0);
	}
	while (atomic_load(&group->not_open) > 0)
		usleep(100);
	CHECK(group->faults || !atomic_load(&group->refused));

	while (!atomic_load(&group->refused) && !failed && !all_ended && group->slots - begun < stop_at)
	{
		bool		some = read_in_turn(group, ends, &turn, state, &failed);

		all_ended = true;
		for (int p = 0; p < group->producers; p++)
			all_ended = all_ended && ends[p].ended && ends[p].given == ends[p].taken;
		if (!some && !failed && !all_ended)
			sleep_all(group, ends, &turn, backend);
	}

	for (int p = 0; p < group->producers; p++)
	{
		Producer   *one = &group->all[p];

		if (all_ended)
		{
			uint64_t	slots = 0;

			for (uint64_t batch = 0; batch < one->batches; batch++)
				slots += batch_slots(one->seed, batch);
			CHECK(ends[p].taken == slots);
		}
		rig_close(1, one->flow, !all_ended, false);
	}
	for (int p = 0; p < group->producers; p++)
		pthread_join(group->all[p].thread, NULL);
	if (all_ended)
		group->complete++;
	else if (group->slots - begun >= stop_at)
		group->stopped++;
	else
	{
		bool		quits = false;

		for (int p = 0; p < group->producers; p++)
			quits = quits || group->all[p].quit_at != NEVER;
		CHECK(group->faults || quits);
		group->broken++;
	}
}

static void *
consume(void *argument)
{
	Group	   *group = argument;
	uint64_t	state = group->seed;

	for (int round = 0; round < group->rounds; round++)
	{
		bool		claim = below(&state, 4) != 0;
		bool		quits = below(&state, 4) == 0;

		group->producers = 1 + (int) below(&state, MAX_PRODUCERS);
		group->slot_count = 1 + (uint32_t) below(&state, 6);
		group->slot_size = 4096 * (1 + (uint32_t) below(&state, 2));
		group->pool = rig_pool(1, group->number,
							   PICK(&state, RF_RECEIVE_MIN, 5, 8, 16, 33, RF_RECEIVE_MAX),
							   group->slot_size, claim);
		for (int p = 0; p < group->producers; p++)
		{
			Producer   *one = &group->all[p];

			one->group = group;
			one->number = p;
			one->seed = rig_random(&state);
			one->batches = below(&state, 12);
			one->lazy = below(&state, 8) == 0;
			one->quit_at = quits && below(&state, 3) == 0 ? below(&state, 30) : NEVER;
		}
		while (!rig_connected())
			usleep(100);
		run_group(group, &state);

		/* The pool's memory is used again when no flow has it any more. */
		while (atomic_load(&rig_pool_users[group->number]) > 0)
			usleep(100);

		/* A lost connection may still write to the buffers that it held. */
		if (!group->faults)
		{
			if (rig_pool_idle(group->pool) != group->pool->count)
				fprintf(stderr, "%u of %u buffers came back\n", rig_pool_idle(group->pool),
						group->pool->count);
			CHECK(rig_pool_idle(group->pool) == group->pool->count);
			CHECK(atomic_load(&group->pool->lanes_waiting) == 0);
		}
	}
	return NULL;
}

/* ---------- one seed ---------- */

typedef struct Trouble
{
	uint64_t	seed;
	atomic_bool over;
} Trouble;

static void *
make_trouble(void *argument)
{
	Trouble    *trouble = argument;
	uint64_t	state = trouble->seed;

	while (!atomic_load(&trouble->over))
	{
		int			lane = (int) below(&state, (uint64_t) rig_lanes);

		usleep((useconds_t) below(&state, 8000));
		if (below(&state, 4) == 0)
			rig_cut(lane);
		else
		{
			rig_hold(lane, true);
			usleep((useconds_t) below(&state, 2000));
			rig_hold(lane, false);
		}
	}
	return NULL;
}

static void
run_seed(uint64_t seed)
{
	static Group groups[MAX_GROUPS];
	pthread_t	trouble_thread;
	Trouble		trouble = {.seed = seed * 977 + 1};
	uint64_t	state = seed;
	bool		faults = below(&state, 2) == 0;
	int			group_count = 1 + (int) below(&state, MAX_GROUPS);
	RfSimConfig sim = {
		.seed = seed,
		.delay_max = (uint32_t) below(&state, 40),
		.tear = below(&state, 4) != 0,
		.step_sleep_us = PICK(&state, 0, 0, 0, 20),
		.fail_ppm = faults ? PICK(&state, 0, 200, 2000) : 0,
		.check_payload = true
	};
	RfSimCounters counters;

	current_seed = seed;
	alarm(SEED_SECONDS);
	rig_lanes = 1 + (int) below(&state, RIG_MAX_LANES);
	rig_config.max_wr = PICK(&state, 2, 3, 32, 128);
	rig_config.poll_batch = PICK(&state, 1, 16, 256);
	rig_config.polling_mode = PICK(&state, RF_POLLING_ADAPTIVE, RF_POLLING_ADAPTIVE,
								   RF_POLLING_EVENT, RF_POLLING_EVENT_BATCH);
	rig_config.poll_us = PICK(&state, 0, 0, 20, 200);
	rig_config.probe_ms = PICK(&state, 1, 5, 50);
	rig_config.chain_limit = PICK(&state, 1, 2, 16, RF_MAX_CHAIN);
	rig_config.credit_limit = PICK(&state, 0, RF_CREDIT_AUTO, 1, 3, 8);
	rig_fewer_slots = below(&state, 2) == 0;
	rig_start(&sim);
	for (int n = 0; n < 2; n++)
		rig_nodes[n].shared->device.atomics = n == 1 || below(&state, 8) != 0;

	memset(groups, 0, sizeof(groups));
	for (int i = 0; i < group_count; i++)
	{
		groups[i].number = i;
		groups[i].seed = rig_random(&state);
		groups[i].rounds = 1 + (int) below(&state, 4);
		groups[i].faults = faults;
		CHECK(pthread_create(&groups[i].thread, NULL, consume, &groups[i]) == 0);
	}
	if (faults)
		CHECK(pthread_create(&trouble_thread, NULL, make_trouble, &trouble) == 0);
	for (int i = 0; i < group_count; i++)
		pthread_join(groups[i].thread, NULL);
	atomic_store(&trouble.over, true);
	if (faults)
		pthread_join(trouble_thread, NULL);

	CHECK(rig_all_free());
	rf_sim_counters(&counters);
	CHECK(counters.cq_overflows == 0 && counters.wr_overflows == 0 &&
		  counters.payload_changed == 0);
	for (int n = 0; n < 2; n++)
		CHECK(rig_lane_sum(n, offsetof(RfLane, protocol_errors)) == 0);
	totals.claims += rig_lane_sum(0, offsetof(RfLane, claims));
	totals.lost += rig_lane_sum(0, offsetof(RfLane, claims.lost));
	totals.asked += rig_lane_sum(0, offsetof(RfLane, claims.asked));
	totals.grants += rig_lane_sum(1, offsetof(RfLane, claims.grants));
	rig_stop();
	for (int i = 0; i < group_count; i++)
	{
		totals.complete += groups[i].complete;
		totals.stopped += groups[i].stopped;
		totals.broken += groups[i].broken;
		totals.slots += groups[i].slots;
	}
	totals.seeds++;
}

/* On abort and on the alarm. No stdio: it may be stuck itself. */
static void
tell_seed(int signal_number)
{
	static const char before[] = "not ok - seed ";
	static const char hangs[] = " hangs";
	static const char after[] = "; repeat it: test_receive_seeds SEED 1 100\n";
	char		digits[20];
	int			at = sizeof(digits);
	uint64_t	seed = current_seed;

	do
		digits[--at] = (char) ('0' + seed % 10);
	while ((seed /= 10) != 0);
	if (write(1, before, sizeof(before) - 1) < 0 ||
		write(1, digits + at, sizeof(digits) - (size_t) at) < 0 ||
		(signal_number == SIGALRM && write(1, hangs, sizeof(hangs) - 1) < 0) ||
		write(1, after, sizeof(after) - 1) < 0)
		_exit(2);
	signal(SIGABRT, SIG_DFL);
	if (signal_number == SIGALRM)
		abort();
}

/* Whether a group has ended well, and buffers were claimed, contested and granted. */
static bool
met_all_cases(void)
{
	return totals.complete > 0 && totals.claims > 0 && totals.lost > 0 && totals.grants > 0;
}

int
main(int argc, char **argv)
{
	uint64_t	first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t	seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : argc > 1 ? 1 : CHECK_SEEDS;
	int			times = argc > 3 ? atoi(argv[3]) : 1;
	time_t		began = time(NULL);

	signal(SIGABRT, tell_seed);
	signal(SIGALRM, tell_seed);
	for (uint64_t seed = first;
		 seed < first + seeds &&
			 (argc > 1 || time(NULL) - began < CHECK_SECONDS || !met_all_cases()); seed++)
		for (int i = 0; i < times; i++)
			run_seed(seed);

	CHECK(met_all_cases() || argc > 1);
	printf(
		   "ok - %llu seeds in %d s: %llu slots; groups: %llu complete, %llu stopped, %llu broken "
		   "off, %llu connections lost; "
		   "%llu buffers claimed, %llu attempts lost, %llu asked for, %llu granted\n",
		   (unsigned long long) totals.seeds, (int) (time(NULL) - began),
		   (unsigned long long) totals.slots, (unsigned long long) totals.complete,
		   (unsigned long long) totals.stopped, (unsigned long long) totals.broken,
		   (unsigned long long) atomic_load(&rig_lost), (unsigned long long) totals.claims,
		   (unsigned long long) totals.lost, (unsigned long long) totals.asked,
		   (unsigned long long) totals.grants);
	return 0;
}
