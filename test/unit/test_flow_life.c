/*
 * test_flow_life.c - entries of the flow table that change owners all the time, as several lanes
 * and the engine's main thread see them: no doorbell is lost while stale doorbells lie in the rings
 * of other lanes, and no entry is opened, failed or taken back for somebody else.
 *
 * Argument: lives per owner.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "shmem/life.h"
#include "shmem/ring.h"
#include "shmem/slots.h"


#define LANES		4
#define ENTRIES		8			/* few, so that they are claimed again at once */
#define OWNERS		6
#define PATIENCE_S	60

#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

static RfShared *shared;
static atomic_bool stop;
static int	lives;

/* An owner's requests of its lane, and the requests that the lane has seen; by entry. */
static _Atomic uint64_t asked[ENTRIES];
static _Atomic uint64_t seen[ENTRIES];
static _Atomic uint64_t stale;	/* doorbells of flows that the lane does not have */

/* A key as an OPEN message on its way carries it; by entry. */
static _Atomic uint64_t told[ENTRIES];
static _Atomic uint64_t next_key = 1;
static _Atomic uint64_t opened;
static _Atomic uint64_t failed;
static _Atomic uint64_t let_go;
static _Atomic uint64_t taken_back;
static _Atomic uint64_t not_kept;
static _Atomic int64_t lease_clock = 1;

static uint64_t
random_of(uint64_t *state)
{
	uint64_t	x = (*state += 0x9e3779b97f4a7c15ull);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint32_t
claim(uint64_t *random)
{
	for (;;)
	{
		uint32_t	index = (uint32_t) (random_of(random) % ENTRIES);
		uint32_t	state = RF_FLOW_FREE;

		if (atomic_compare_exchange_strong(&shared->flows[index].state, &state, RF_FLOW_CLAIMED))
		{
			rf_slots_reset(&shared->flows[index]);
			return index;
		}
		sched_yield();
	}
}

/* ---------- doorbells ---------- */

static void *
lane_main(void *argument)
{
	uint32_t	number = (uint32_t) (intptr_t) argument;
	RfLane	   *lane = &shared->lanes[number];

	while (!atomic_load(&stop))
	{
		uint32_t	index;
		struct pollfd fd = {.fd = lane->wake_fd, .events = POLLIN};
		uint64_t	value;

		while (rf_lane_take(lane, shared->flows, &index))
		{
			RfFlow	   *flow = &shared->flows[index];

			/* As a lane: by its own state, which is here the entry's word. */
			if (atomic_load(&flow->state) == RF_FLOW_OPEN && atomic_load(&flow->credit) == number)
				atomic_store(&seen[index], atomic_load(&asked[index]));
			else
				atomic_fetch_add(&stale, 1);
		}
		atomic_store(&lane->asleep, 1);
		if (atomic_load(&lane->ring[atomic_load(&lane->tail) % RF_MAX_FLOWS]) == 0 &&
			!atomic_load(&stop))
			CHECK(poll(&fd, 1, PATIENCE_S * 1000) == 1);
		atomic_store(&lane->asleep, 0);
		if (fd.revents & POLLIN)
			CHECK(read(lane->wake_fd, &value, sizeof(value)) == sizeof(value));
	}
	return NULL;
}

static void *
ringing_owner(void *argument)
{
	uint64_t	random = (uint64_t) (intptr_t) argument;

	for (int life = 0; life < lives; life++)
	{
		uint32_t	index = claim(&random);
		uint32_t	lane = (uint32_t) (random_of(&random) % LANES);
		RfFlow	   *flow = &shared->flows[index];
		int			rings = (int) (random_of(&random) % 4);

		atomic_store(&flow->credit, lane);	/* stands for the attachment */
		atomic_store(&flow->state, RF_FLOW_OPEN);
		for (int i = 0; i < rings; i++)
		{
			uint64_t	number = atomic_load(&asked[index]) + 1;
			time_t		until = time(NULL) + PATIENCE_S;

			atomic_store(&asked[index], number);
			rf_lane_ring(&shared->lanes[lane], shared->flows, index);
			while (atomic_load(&seen[index]) != number)
			{
				CHECK(time(NULL) < until && "a doorbell was swallowed");
				sched_yield();
			}
		}
		/* Nobody waits for this one: it is in the ring when the entry has its next owner. */
		rf_lane_ring(&shared->lanes[lane], shared->flows, index);
		atomic_store(&flow->state, RF_FLOW_FREE);
	}
	return NULL;
}

static void
test_doorbells(void)
{
	pthread_t	lanes[LANES];
	pthread_t	owners[OWNERS];

	atomic_store(&stop, false);
	for (intptr_t i = 0; i < LANES; i++)
	{
		shared->lanes[i].number = (uint32_t) i;
		shared->lanes[i].wake_fd = eventfd(0, 0);
		CHECK(pthread_create(&lanes[i], NULL, lane_main, (void *) i) == 0);
	}
	for (intptr_t i = 0; i < OWNERS; i++)
		CHECK(pthread_create(&owners[i], NULL, ringing_owner, (void *) (i + 1)) == 0);
	for (int i = 0; i < OWNERS; i++)
		pthread_join(owners[i], NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < LANES; i++)
	{
		uint64_t	one = 1;

		CHECK(write(shared->lanes[i].wake_fd, &one, sizeof(one)) == sizeof(one));
		pthread_join(lanes[i], NULL);
		close(shared->lanes[i].wake_fd);
	}
	CHECK(atomic_load(&stale) > 0);
	printf("ok - %d lives in %d entries over %d lanes: no doorbell lost\n", lives * OWNERS, ENTRIES,
		   LANES);
}

/* ---------- listening entries ---------- */

/* The engine's main thread: opens and fails by old knowledge, and frees. */
static void *
main_thread(void *argument)
{
	uint64_t	random = 99;

	while (!atomic_load(&stop))
	{
		uint32_t	index = (uint32_t) (random_of(&random) % ENTRIES);
		RfFlow	   *flow = &shared->flows[index];
		uint64_t	key = atomic_load(&told[index]);
		uint32_t	held = RF_FLOW_OPENING;
		bool		fail = random_of(&random) % 4 == 0;

		if (atomic_load(&flow->state) == RF_FLOW_CLOSING)
		{
			atomic_store(&flow->state, RF_FLOW_FREE);
			continue;
		}
		if (random_of(&random) % 3 == 0)
		{
			if (rf_flow_take_back(flow, atomic_fetch_add(&lease_clock, 1)))
				atomic_fetch_add(&taken_back, 1);
			continue;
		}
		if (random_of(&random) % 2 == 0)
			sched_yield();		/* here the entry changes its owner */
		if (!rf_flow_hold(flow))
			continue;
		if (flow->key != key)
		{
			atomic_fetch_add(&let_go, 1);
			rf_flow_let_go(flow);
			continue;
		}
		flow->memory.remote_addr = key;
		flow->memory.lane = (uint32_t) (key % LANES);
		if (!atomic_compare_exchange_strong(&flow->state, &held,
											fail ? RF_FLOW_FAILED : RF_FLOW_OPEN))
			rf_flow_let_go(flow);
	}
	return NULL;
}

static void *
listening_owner(void *argument)
{
	uint64_t	random = 1000 + (uint64_t) (intptr_t) argument;

	for (int life = 0; life < lives; life++)
	{
		uint32_t	index = claim(&random);
		RfFlow	   *flow = &shared->flows[index];
		uint64_t	key = atomic_fetch_add(&next_key, 1);
		uint32_t	lane;
		bool		lends = random_of(&random) % 2 == 0;
		bool		patient = random_of(&random) % 4 == 0;
		time_t		until = time(NULL) + PATIENCE_S;
		RfFlowState state;

		flow->key = key;
		atomic_store(&flow->state, RF_FLOW_LISTENING);
		if (lends)
			rf_flow_lend(flow, atomic_load(&lease_clock) + (int64_t) (random_of(&random) % 100));
		atomic_store(&told[index], key);
		for (uint64_t spin = random_of(&random) % 4; spin > 0; spin--)
			sched_yield();
		/* an entry that was not kept belongs to somebody else */
		if (lends && !rf_flow_keep(flow, key))
		{
			atomic_fetch_add(&not_kept, 1);
			continue;
		}
		CHECK(flow->key == key);
		while (patient && (atomic_load(&flow->state) == RF_FLOW_LISTENING ||
						   atomic_load(&flow->state) == RF_FLOW_OPENING))
		{
			CHECK(time(NULL) < until && "nobody opened it");
			sched_yield();
		}
		if (atomic_load(&flow->state) == RF_FLOW_OPEN ||
			atomic_load(&flow->state) == RF_FLOW_FAILED)
		{
			CHECK(flow->memory.remote_addr == key);
			atomic_fetch_add(atomic_load(&flow->state) == RF_FLOW_OPEN ? &opened : &failed, 1);
			state = rf_flow_leave(flow, &lane);
			CHECK((state == RF_FLOW_OPEN || state == RF_FLOW_FAILED) && lane == key % LANES);
		}
		else
			(void) rf_flow_leave(flow, &lane);
	}
	return NULL;
}

static void
test_listening(void)
{
	pthread_t	engine;
	pthread_t	owners[OWNERS];

	atomic_store(&stop, false);
	for (int i = 0; i < ENTRIES; i++)
		CHECK(atomic_load(&shared->flows[i].state) == RF_FLOW_FREE);
	CHECK(pthread_create(&engine, NULL, main_thread, NULL) == 0);
	for (intptr_t i = 0; i < OWNERS; i++)
		CHECK(pthread_create(&owners[i], NULL, listening_owner, (void *) (i + 1)) == 0);
	for (int i = 0; i < OWNERS; i++)
		pthread_join(owners[i], NULL);
	for (time_t until = time(NULL) + PATIENCE_S;;)
	{
		int			busy = 0;

		for (int i = 0; i < ENTRIES; i++)
			busy += atomic_load(&shared->flows[i].state) != RF_FLOW_FREE;
		if (busy == 0)
			break;
		CHECK(time(NULL) < until);
		sched_yield();
	}
	atomic_store(&stop, true);
	pthread_join(engine, NULL);
	CHECK(atomic_load(&opened) > 0 && atomic_load(&failed) > 0);
	CHECK(atomic_load(&taken_back) > 0 && atomic_load(&taken_back) == atomic_load(&not_kept));
	for (int i = 0; i < ENTRIES; i++)
		CHECK(atomic_load(&shared->flows[i].lease) == 0);
	printf("ok - %d listeners in %d entries, each opened or failed as itself only\n",
		   lives * OWNERS, ENTRIES);
	printf("# %llu opened, %llu failed, %llu of another key let go, %llu taken back\n",
		   (unsigned long long) atomic_load(&opened), (unsigned long long) atomic_load(&failed),
		   (unsigned long long) atomic_load(&let_go),
		   (unsigned long long) atomic_load(&taken_back));
}

/* Which entries are taken back, and when: never an entry that a producer has opened, at any age. */
static void
test_lending(void)
{
	RfFlow	   *flow = &shared->flows[0];

	for (uint32_t state = RF_FLOW_FREE; state <= RF_FLOW_CLOSING; state++)
	{
		bool		unopened = state == RF_FLOW_LISTENING || state == RF_FLOW_FAILED;

		flow->key = 7;
		atomic_store(&flow->state, state);
		CHECK(!rf_flow_take_back(flow, 1000));	/* was not lent */
		rf_flow_lend(flow, 100);
		CHECK(!rf_flow_take_back(flow, 99));
		CHECK(rf_flow_take_back(flow, 100) == unopened);
		CHECK(atomic_load(&flow->state) == (unopened ? RF_FLOW_FREE : state));
		CHECK(rf_flow_keep(flow, 7) == !unopened);
		CHECK(!rf_flow_keep(flow, 7) && !rf_flow_take_back(flow, 1000));
	}
	atomic_store(&flow->state, RF_FLOW_FREE);
	printf("ok - a lent entry is taken back once, and only if nobody has opened it\n");
}

int
main(int argc, char **argv)
{
	size_t		size = RF_SHARED_SIZE(ENTRIES);

	lives = argc > 1 ? atoi(argv[1]) : 3000;
	shared = aligned_alloc(RF_CACHE_LINE, size);
	memset(shared, 0, size);
	shared->max_flows = ENTRIES;
	shared->lane_count = LANES;
	test_doorbells();
	test_lending();
	test_listening();
	free(shared);
	return 0;
}
