/*
 * test_share.c - several readers of one flow, or of several: every batch goes to one of them, whole
 * and in order, nobody sleeps for ever, buffers come back, and all learn of the end, of a stream
 * that breaks, and of a leader that stops or closes while others read.
 *
 * Argument: rounds.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shmem/share.h"

#define READERS		6
#define STREAMS		4
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

static const char *const ending_names[ENDINGS] = {"all is read", "the producer gives up",
	"the connection is lost", "the leader stops",
	"the leader closes"};

/* The part of one lane, which all readers read */
typedef struct Stream
{
	RfShare		share;
	RfFlow	   *flow;
	uint64_t	key;
	uint64_t	seed;
	int			batches;
	atomic_int	got[MAX_BATCHES];
} Stream;

static Stream streams[STREAMS];
static int	stream_count;
static sem_t latches[READERS];
static Ending ending;
static int	readers;
static bool deserters;			/* readers but one go when they have had some, without a word */
static int	total;				/* batches of all streams */
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
wake_owner(RfFlow *flow)
{
	if (atomic_exchange(&flow->waiting, RF_WAIT_NONE) != RF_WAIT_NONE)
		sem_post(&latches[atomic_load(&flow->owner_proc)]);
}

static void
write_slot(Stream *stream, uint64_t *sequence, uint32_t flags, int batch, uint32_t part,
		   uint64_t rows, uint64_t bytes)
{
	RfFlow	   *flow = stream->flow;
	uint64_t	slot = (*sequence)++;
	uint8_t    *place = flow->memory.buffers + slot % flow->slot_count * SLOT_SIZE;
	RfSlotHeader header = {
	.magic = RF_SLOT_MAGIC, .flags = flags, .key = stream->key, .sequence = slot};

	while (slot >= atomic_load(&flow->handed) + flow->slot_count)
	{
		if (atomic_load(&given_up))
			return;
		sched_yield();
	}
	header.length = (flags & RF_SLOT_END) ? 0 : ROOM;
	header.offset = (flags & RF_SLOT_END) ? 0 : part * ROOM;
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
	wake_owner(stream->flow);
}

static void *
lane_main(void *argument)
{
	Stream	   *stream = argument;
	uint64_t	random = stream->seed;
	uint64_t	sequence = 0;
	uint64_t	rows = 0;
	uint64_t	bytes = 0;

	for (int batch = 0; batch < stream->batches; batch++)
	{
		for (uint32_t part = 0; part < parts_of(batch); part++)
		{
			bool		last = part + 1 == parts_of(batch);

			write_slot(stream, &sequence,
					   (part == 0 ? RF_SLOT_FIRST : 0) | (last ? RF_SLOT_LAST : 0), batch, part,
					   last, 0);
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
			atomic_store(&stream->flow->remote_end, 1 + RF_END_FAILED);
			wake_owner(stream->flow);
			break;
		case FAILED:
			atomic_store(&stream->flow->state, RF_FLOW_FAILED);
			wake_owner(stream->flow);
			break;
		default:
			write_slot(stream, &sequence, RF_SLOT_END, 0, 0, rows, bytes);
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

typedef struct Reader
{
	int			proc;
	int			batch;			/* whose first parts it has, or -1 */
	uint32_t	part;
	bool		over[STREAMS];
	bool		asked[STREAMS]; /* the last look found nothing */
} Reader;

/* A slot was taken and copied; true: it was a batch's last. */
static bool
check_slot(Reader *reader, Stream *stream, const RfShareSlot *slot, const uint8_t *copy)
{
	CHECK(slot->header.length == ROOM);
	CHECK(((slot->header.flags & RF_SLOT_FIRST) != 0) == (reader->batch < 0));
	if (reader->batch < 0)
	{
		memcpy(&reader->batch, copy, sizeof(reader->batch));
		reader->part = 0;
	}
	CHECK(memcmp(copy, &reader->batch, sizeof(reader->batch)) == 0);
	CHECK(reader->batch >= 0 && reader->batch < stream->batches);
	CHECK(copy[sizeof(reader->batch)] == ((reader->batch + (int) reader->part) & 0xff));
	CHECK(copy[ROOM - 1] == copy[sizeof(reader->batch)]);
	reader->part++;
	if ((slot->header.flags & RF_SLOT_LAST) == 0)
		return false;
	CHECK(reader->part == parts_of(reader->batch));
	CHECK(atomic_fetch_add(&stream->got[reader->batch], 1) == 0);
	reader->batch = -1;
	return true;
}

/* As a reader does when it has taken something from one of several. */
static void
pass_others(Reader *reader, int but)
{
	RfShareWakes wakes;

	for (int i = 0; i < stream_count; i++)
	{
		if (i == but || !reader->asked[i])
			continue;
		reader->asked[i] = false;
		rf_share_pass(&streams[i].share, streams[i].key, reader->proc, &wakes);
		wake(&wakes);
	}
}

static void
give_up(void)
{
	RfShareWakes wakes;
	RfSlotCursor cursor;

	atomic_store(&given_up, true);
	for (int i = 0; i < stream_count; i++)
	{
		if (ending == STOPPED)
			(void) rf_share_stop(&streams[i].share, streams[i].key, &wakes);
		else
			rf_share_end(&streams[i].share, streams[i].key, &cursor, &wakes);
		wake(&wakes);
	}
}

/*
 * Takes batches from all streams in turn until there are no more. Stays with one only while it has
 * the first parts of a batch.
 */
static void *
reader_main(void *argument)
{
	Reader		reader = {.proc = (int) (intptr_t) argument, .batch = -1};
	uint64_t	random = (uint64_t) round_number * 100 + (uint64_t) reader.proc;
	int			first = reader.proc % stream_count;
	int			patience = 1 + (int) (random_of(&random) % 20);
	static _Thread_local uint8_t copy[ROOM];

	if (reader.proc > 0)
		usleep(random_of(&random) % 300);
	/* a stream that has ended cannot be joined */
	for (int i = 0; i < stream_count; i++)
		reader.over[i] = !rf_share_join(&streams[i].share, streams[i].key, reader.proc,
										reader.proc);

	for (;;)
	{
		bool		starved = false;
		bool		taken = false;

		for (int i = 0; i < stream_count && !taken; i++)
		{
			int			at = (first + i) % stream_count;
			Stream	   *stream = &streams[at];
			RfShareSlot slot;
			RfShareTake take;
			bool		ring;

			if (reader.over[at])
				continue;
			take = rf_share_take(&stream->share, stream->key, reader.proc, &slot);
			reader.asked[at] = take == RF_TAKE_NOTHING;
			wake(&slot.wakes);
			switch (take)
			{
				case RF_TAKE_DATA:
					pass_others(&reader, at);
					taken = true;
					memcpy(copy, slot.payload, slot.header.length);
					if (!rf_share_copied(&stream->share, stream->key, slot.slot, &ring))
					{
						CHECK(ending == CLOSED);
						return NULL;
					}
					if (!check_slot(&reader, stream, &slot, copy))
					{
						first = at;
						break;
					}
					first = at + 1;
					/* the leader has had enough at some time */
					if (atomic_fetch_add(&got_all, 1) + 1 >= total / 2 && reader.proc == 0 &&
						(ending == STOPPED || ending == CLOSED))
						give_up();
					if (deserters && reader.proc != 0 && --patience == 0)
						return NULL;
					if (random_of(&random) % 4 == 0)
						usleep(random_of(&random) % 100);
					break;
				case RF_TAKE_NOTHING:
					starved = true;
					if (reader.batch >= 0)
						i = stream_count;
					break;
				case RF_TAKE_END:
					CHECK(ending == AT_END || ending == STOPPED || ending == CLOSED);
					reader.over[at] = true;
					break;
				case RF_TAKE_BROKEN:
					CHECK(ending == BROKEN || ending == FAILED);
					reader.over[at] = true;
					break;
				case RF_TAKE_OVER:
					CHECK(ending == STOPPED || ending == CLOSED);
					reader.over[at] = true;
					break;
				case RF_TAKE_BAD:
					CHECK(!"a bad slot");
			}
		}
		if (taken)
			continue;
		if (!starved)
			return NULL;
		sleep_on(reader.proc);
	}
}

static void
begin_stream(Stream *stream, uint64_t *random)
{
	RfFlow	   *flow = stream->flow;

	stream->batches = 1 + (int) (random_of(random) % MAX_BATCHES);
	stream->key = random_of(random) | 1;
	stream->seed = random_of(random);
	total += stream->batches;
	rf_slots_reset(flow);
	flow->slot_count = 1 + (uint32_t) (random_of(random) % RF_MAX_SLOTS);
	flow->slot_size = SLOT_SIZE;
	flow->role = RF_FLOW_CONSUMER;
	flow->key = stream->key;
	CHECK(posix_memalign((void **) &flow->memory.buffers, 64,
						 (size_t) flow->slot_count * SLOT_SIZE) == 0);
	atomic_store(&flow->state, RF_FLOW_OPEN);
	for (int i = 0; i < stream->batches; i++)
		atomic_store(&stream->got[i], 0);
	rf_share_begin(&stream->share, flow, stream->key);
	CHECK(!rf_share_join(&stream->share, stream->key + 2, 0, 0));
}

static void
end_stream(Stream *stream)
{
	RfSlotCursor cursor;
	RfShareWakes wakes;
	RfShareTotals totals;
	int			taken = 0;

	rf_share_totals(&stream->share, &totals);
	for (int i = 0; i < RF_SHARE_MEMBERS; i++)
		taken += (int) totals.batches[i];
	rf_share_end(&stream->share, stream->key, &cursor, &wakes);
	CHECK(wakes.count == 0);
	if (ending == AT_END)
	{
		for (int i = 0; i < stream->batches; i++)
			CHECK(atomic_load(&stream->got[i]) == 1);
		CHECK(taken == stream->batches && totals.rows == (uint64_t) stream->batches);
		CHECK(cursor.ended && cursor.released == cursor.next);
		CHECK(atomic_load(&stream->flow->handed) == cursor.next);
	}
	else if (ending == BROKEN)
		CHECK(cursor.released == cursor.next);
	free(stream->flow->memory.buffers);
}

static void
one_round(uint64_t *random)
{
	pthread_t	lanes[STREAMS];
	pthread_t	threads[READERS];

	ending = (Ending) (round_number % ENDINGS);
	stream_count = round_number % 2 == 0 ? 1 : 1 + (int) (random_of(random) % STREAMS);
	readers = 1 + (int) (random_of(random) % READERS);
	deserters = random_of(random) % 2 == 0;
	total = 0;
	atomic_store(&given_up, false);
	atomic_store(&got_all, 0);
	for (int i = 0; i < READERS; i++)
		CHECK(sem_init(&latches[i], 0, 0) == 0);
	for (int i = 0; i < stream_count; i++)
		begin_stream(&streams[i], random);

	for (int i = 0; i < stream_count; i++)
		CHECK(pthread_create(&lanes[i], NULL, lane_main, &streams[i]) == 0);
	for (int i = 0; i < readers; i++)
		CHECK(pthread_create(&threads[i], NULL, reader_main, (void *) (intptr_t) i) == 0);
	for (int i = 0; i < readers; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	/* other readers may have taken all before the leader had its last batch */
	atomic_store(&given_up, true);
	for (int i = 0; i < stream_count; i++)
		CHECK(pthread_join(lanes[i], NULL) == 0);
	if (ending == AT_END || ending == BROKEN)
		CHECK(atomic_load(&got_all) == total);
	for (int i = 0; i < stream_count; i++)
		end_stream(&streams[i]);
}

/* As a backend: the lock's holder goes on after a while, or never. */
static uint32_t waited;
static bool goes_on;
static jmp_buf gave_up;

static void
wait_for_holder(uint32_t waited_ms)
{
	CHECK(waited_ms == waited++);
	if (goes_on && waited == 3)
		atomic_store(&streams[0].share.lock, 0);
	if (waited == 5)
		longjmp(gave_up, 1);
}

/* A member was stopped while it held the lock: the other members wait, and may give up. */
static void
stopped_holder(RfShare *share)
{
	void		(*before) (uint32_t waited_ms) = rf_share_wait;

	rf_share_wait = wait_for_holder;
	atomic_store(&share->lock, 1);
	goes_on = true;
	CHECK(rf_share_join(share, 1, 0, 0) && waited == 3);
	atomic_store(&share->lock, 1);
	goes_on = false;
	waited = 0;
	if (setjmp(gave_up) == 0)
	{
		(void) rf_share_join(share, 1, 0, 0);
		CHECK(false);
	}
	CHECK(waited == 5);
	atomic_store(&share->lock, 0);
	rf_share_wait = before;
	printf("ok - a lock whose holder does not go on is waited for as long as its waiter likes\n");
}

int
main(int argc, char **argv)
{
	int			rounds = argc > 1 ? atoi(argv[1]) : 150;
	uint64_t	random = 20;
	size_t		size = (sizeof(RfFlow) + RF_CACHE_LINE - 1) / RF_CACHE_LINE * RF_CACHE_LINE;
	RfShare    *share = &streams[0].share;

	for (int i = 0; i < STREAMS; i++)
	{
		streams[i].flow = aligned_alloc(RF_CACHE_LINE, size);
		memset(streams[i].flow, 0, size);
	}
	for (round_number = 0; round_number < rounds; round_number++)
		one_round(&random);
	for (int i = 0; i < ENDINGS; i++)
		printf("ok - every batch of one or several streams is read by one reader until %s\n",
			   ending_names[i]);

	/* all places are taken */
	rf_share_begin(share, streams[0].flow, 1);
	for (int i = 0; i < RF_SHARE_MEMBERS; i++)
		CHECK(rf_share_join(share, 1, i, i));
	CHECK(!rf_share_join(share, 1, RF_SHARE_MEMBERS, 0));
	printf("ok - a flow has no more readers than there are places\n");
	stopped_holder(share);
	for (int i = 0; i < STREAMS; i++)
		free(streams[i].flow);
	return 0;
}
