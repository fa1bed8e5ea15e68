/*
 * test_share.c - several readers of one flow: every batch goes to one of them, whole and in order, nobody sleeps for ever, buffers come
 * back, and all learn of the end, of a stream that breaks, and of a leader that stops or closes while others read.
 *
 * Argument: rounds.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rdma_fdw/share.h"

#define READERS		6
#define SLOT_SIZE	4096
#define ROOM		(SLOT_SIZE - (uint32_t) sizeof(RfSlotHeader))
#define MAX_BATCHES	400
#define PATIENCE_S	60

#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: failed: %s (round %d)\n", __FILE__, __LINE__, #condition, round_number); \
			abort(); \
		} \
	} while (0)

typedef enum Ending
{
	AT_END,
	BROKEN,						/* the producer's END comes without an END slot */
	FAILED,						/* the connection is gone */
	STOPPED,					/* the leader wants no more */
	CLOSED,						/* the leader closes the flow */
	ENDINGS
} Ending;

static const char *const ending_names[ENDINGS] = {"all is read", "the producer gives up", "the connection is lost", "the leader stops", "the leader closes"};

static RfShare shares[RF_MAX_SHARES];
static RfShare *share;
static RfFlow *flow;
static sem_t latches[READERS];
static Ending ending;
static int	batches;
static int	readers;
static uint64_t key;
static atomic_int got[MAX_BATCHES];
static atomic_int got_all;
static atomic_bool given_up;	/* the leader stopped or closed */
static int	round_number;

static uint64_t
random_of(uint64_t *state)
{
	uint64_t	x = (*state += 0x9e3779b97f4a7c15ull);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Batch b has this many parts; its bytes say which batch and part they belong to. */
static uint32_t
parts_of(int batch)
{
	return batch % 7 == 3 ? 1 + (uint32_t) batch % 5 : 1;
}

/* ---------- the lane ---------- */

static void
wake_owner(void)
{
	if (atomic_exchange(&flow->waiting, RF_WAIT_NONE) != RF_WAIT_NONE)
		sem_post(&latches[atomic_load(&flow->owner_proc)]);
}

static void
write_slot(uint64_t *sequence, uint32_t flags, int batch, uint32_t part, uint64_t rows, uint64_t bytes)
{
	uint64_t	slot = (*sequence)++;
	uint8_t    *place = flow->buffers + slot % flow->slot_count * SLOT_SIZE;
	RfSlotHeader header = {.magic = RF_SLOT_MAGIC, .flags = flags, .key = key, .sequence = slot};

	while (slot >= atomic_load(&flow->handed) + flow->slot_count)
	{
		if (atomic_load(&given_up))
			return;
		sched_yield();
	}
	header.length = (flags & RF_SLOT_END) ? 0 : ROOM;
	header.rows = rows;
	header.bytes = bytes;
	memcpy(place, &header, sizeof(header));
	if (header.length > 0)
	{
		memset(place + sizeof(header), (batch + (int) part) & 0xff, header.length);
		memcpy(place + sizeof(header), &batch, sizeof(batch));
	}
	atomic_store(&flow->status[slot % flow->slot_count], RF_SLOT_FULL);
	atomic_store(&flow->completed, slot + 1);
	wake_owner();
}

static void *
lane_main(void *argument)
{
	uint64_t	random = (uint64_t) (uintptr_t) argument;
	uint64_t	sequence = 0;
	uint64_t	rows = 0;
	uint64_t	bytes = 0;

	for (int batch = 0; batch < batches; batch++)
	{
		for (uint32_t part = 0; part < parts_of(batch); part++)
		{
			bool		last = part + 1 == parts_of(batch);

			write_slot(&sequence, (part == 0 ? RF_SLOT_FIRST : 0) | (last ? RF_SLOT_LAST : 0), batch, part, last, 0);
			bytes += ROOM;
			if (atomic_load(&given_up))
				return NULL;
			if (random_of(&random) % 16 == 0)
				usleep(random_of(&random) % 50);
		}
		rows++;
	}
	switch (ending)
	{
		case BROKEN:
			atomic_store(&flow->remote_end, 1 + RF_END_FAILED);
			wake_owner();
			break;
		case FAILED:
			atomic_store(&flow->state, RF_FLOW_FAILED);
			wake_owner();
			break;
		default:
			write_slot(&sequence, RF_SLOT_END, 0, 0, rows, bytes);
			break;
	}
	return NULL;
}

/* ---------- readers ---------- */

static void
wake(const RfShareWakes *wakes)
{
	for (int i = 0; i < wakes->count; i++)
		sem_post(&latches[wakes->procs[i]]);
}

static void
sleep_on(int proc)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += PATIENCE_S;
	while (sem_timedwait(&latches[proc], &limit) != 0)
		CHECK(errno == EINTR);
	/* a latch is set or not */
	while (sem_trywait(&latches[proc]) == 0)
		;
}

/* One batch was copied whole? Reads the next of its parts until it is. */
static void *
reader_main(void *argument)
{
	int			proc = (int) (intptr_t) argument;
	uint64_t	random = (uint64_t) round_number * 100 + proc;
	static _Thread_local uint8_t copy[ROOM];
	int			member;
	int			batch = -1;
	uint32_t	part = 0;

	if (proc > 0)
		usleep(random_of(&random) % 300);
	member = rf_share_join(share, key, proc);
	if (member == RF_NO_MEMBER)
		return NULL;			/* it was over before we came */

	for (;;)
	{
		RfShareSlot slot;
		RfShareTake take = rf_share_take(share, key, member, &slot);
		bool		ring;

		wake(&slot.wakes);
		switch (take)
		{
			case RF_TAKE_DATA:
				memcpy(copy, slot.payload, slot.header.length);
				if (!rf_share_copied(share, key, slot.slot, &ring))
				{
					CHECK(ending == CLOSED);
					return NULL;
				}
				CHECK(slot.header.length == ROOM);
				CHECK(((slot.header.flags & RF_SLOT_FIRST) != 0) == (batch < 0));
				if (batch < 0)
				{
					memcpy(&batch, copy, sizeof(batch));
					part = 0;
				}
				CHECK(memcmp(copy, &batch, sizeof(batch)) == 0 && batch >= 0 && batch < batches);
				CHECK(copy[sizeof(batch)] == ((batch + (int) part) & 0xff) && copy[ROOM - 1] == copy[sizeof(batch)]);
				part++;
				if (slot.header.flags & RF_SLOT_LAST)
				{
					CHECK(part == parts_of(batch));
					CHECK(atomic_fetch_add(&got[batch], 1) == 0);
					batch = -1;
					/* the leader has had enough at some time */
					if (atomic_fetch_add(&got_all, 1) + 1 >= batches / 2 && proc == 0 && (ending == STOPPED || ending == CLOSED))
					{
						RfShareWakes wakes;
						RfSlotCursor cursor;

						atomic_store(&given_up, true);
						if (ending == STOPPED)
							(void) rf_share_stop(share, key, &wakes);
						else
							rf_share_end(share, key, &cursor, &wakes);
						wake(&wakes);
					}
					if (random_of(&random) % 4 == 0)
						usleep(random_of(&random) % 100);
				}
				break;
			case RF_TAKE_NOTHING:
				sleep_on(proc);
				break;
			case RF_TAKE_END:
				CHECK(ending == AT_END || ending == STOPPED || ending == CLOSED);
				return NULL;
			case RF_TAKE_BROKEN:
				CHECK(ending == BROKEN || ending == FAILED);
				return NULL;
			case RF_TAKE_OVER:
				CHECK(ending == STOPPED || ending == CLOSED);
				return NULL;
			case RF_TAKE_BAD:
				CHECK(!"a bad slot");
		}
	}
}

static void
one_round(uint64_t *random)
{
	pthread_t	lane;
	pthread_t	threads[READERS];
	RfSlotCursor cursor;
	RfShareWakes wakes;
	RfShareTotals totals;

	ending = (Ending) (round_number % ENDINGS);
	batches = 1 + (int) (random_of(random) % MAX_BATCHES);
	readers = 1 + (int) (random_of(random) % READERS);
	rf_slots_reset(flow);
	flow->slot_count = 1 + (uint32_t) (random_of(random) % RF_MAX_SLOTS);
	flow->slot_size = SLOT_SIZE;
	flow->role = RF_FLOW_CONSUMER;
	flow->key = key = random_of(random) | 1;
	CHECK(posix_memalign((void **) &flow->buffers, 64, (size_t) flow->slot_count * SLOT_SIZE) == 0);
	atomic_store(&flow->state, RF_FLOW_OPEN);
	atomic_store(&given_up, false);
	atomic_store(&got_all, 0);
	for (int i = 0; i < batches; i++)
		atomic_store(&got[i], 0);
	for (int i = 0; i < READERS; i++)
		CHECK(sem_init(&latches[i], 0, 0) == 0);

	share = rf_share_claim(shares, flow, key);
	CHECK(share != NULL && rf_share_join(share, key + 2, 0) == RF_NO_MEMBER);
	CHECK(pthread_create(&lane, NULL, lane_main, (void *) (uintptr_t) random_of(random)) == 0);
	for (int i = 0; i < readers; i++)
		CHECK(pthread_create(&threads[i], NULL, reader_main, (void *) (intptr_t) i) == 0);
	for (int i = 0; i < readers; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	/* others may have taken all before the leader had its last batch */
	atomic_store(&given_up, true);
	CHECK(pthread_join(lane, NULL) == 0);

	rf_share_totals(share, &totals);
	rf_share_end(share, key, &cursor, &wakes);
	CHECK(wakes.count == 0);
	if (ending == AT_END)
	{
		for (int i = 0; i < batches; i++)
			CHECK(atomic_load(&got[i]) == 1);
		CHECK(totals.batches == (uint64_t) batches && totals.rows == (uint64_t) batches);
		CHECK(cursor.ended && cursor.released == cursor.next && atomic_load(&flow->handed) == cursor.next);
	}
	else if (ending == BROKEN)
		CHECK(atomic_load(&got_all) == batches && cursor.released == cursor.next);
	free(flow->buffers);
}

int
main(int argc, char **argv)
{
	int			rounds = argc > 1 ? atoi(argv[1]) : 150;
	uint64_t	random = 20;

	flow = aligned_alloc(RF_CACHE_LINE, (sizeof(RfFlow) + RF_CACHE_LINE - 1) / RF_CACHE_LINE * RF_CACHE_LINE);
	memset(flow, 0, sizeof(*flow));
	for (round_number = 0; round_number < rounds; round_number++)
		one_round(&random);
	for (int i = 0; i < ENDINGS; i++)
		printf("ok - every batch is read by one reader until %s\n", ending_names[i]);

	/* all places are taken */
	for (int i = 0; i < RF_MAX_SHARES; i++)
		CHECK(rf_share_claim(shares, flow, 1 + i) != NULL);
	CHECK(rf_share_claim(shares, flow, 1000) == NULL);
	for (int i = 0; i < RF_SHARE_MEMBERS; i++)
		CHECK(rf_share_join(&shares[0], 1, i) == i);
	CHECK(rf_share_join(&shares[0], 1, 0) == RF_NO_MEMBER);
	printf("ok - a flow has no more readers than there are places\n");
	free(flow);
	return 0;
}
