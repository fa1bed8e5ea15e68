/*
 * test_engine_seeds.c - whole streams between the lanes of two nodes over the simulated fabric, by
 * the seed.
 *
 * A seed decides everything that can be decided: lanes, their settings, delays, torn payloads,
 * failing requests, cut and silent links, and for many streams at once their sizes, buffers, pauses
 * and ends: complete, stopped by the reader, given up by the sender, cancelled while asleep.
 * Entries are used again and again, also on another lane. Each slot says which stream and place it
 * is of, and each of its words is checked: nothing may be lost, doubled or reordered within a flow,
 * no entry may stay behind, every thread must end.
 *
 *		test_engine_seeds [first seed [seeds [times each]]]
 *
 * Without arguments: as many seeds as fit into a check. Threads make two runs of one seed differ; a
 * failure says how to repeat it.
 */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shmem/ring.h"

#include "lane_rig.h"

#define MAX_PAIRS		8
#define ALWAYS			UINT64_MAX
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CHECK_SEEDS		120
#else
#define CHECK_SEEDS		150
#endif
#define CHECK_SECONDS	15		/* the rest of them is left out on a machine that is too slow */
/* A word that the lanes bring to zero; the alarm rings when they do not. */
#define AWAIT_ZERO(word) while (atomic_load(&(word)) != 0) usleep(100)

#define LARGEST_SLOT	(4 * 4096)
#define SEED_SECONDS	120		/* no seed takes that long: a thread hangs */

typedef struct Stream
{
	uint64_t	key;
	uint32_t	flow;			/* the consumer's */
	uint64_t	seed;
	uint64_t	slots;
	uint64_t	quit_at;		/* the producer gives up here; ALWAYS: never */
	sem_t		ready;			/* consumer listens */
	sem_t		over;			/* consumer has closed */
	atomic_bool refused;		/* the producer could not open; its session would say so */
} Stream;

typedef struct Pair
{
	int			number;
	uint64_t	seed;
	int			streams;
	bool		faults;
	Stream		stream;
	uint64_t	complete;
	uint64_t	stopped;
	uint64_t	gave_up;
	uint64_t	failed;
	uint64_t	slots;
} Pair;

typedef struct Totals
{
	uint64_t	seeds;
	uint64_t	complete;
	uint64_t	stopped;
	uint64_t	gave_up;
	uint64_t	failed;
	uint64_t	slots;
	uint64_t	requests;
	uint64_t	in_place;
	uint64_t	from_pages;
	uint64_t	doorbells;
} Totals;

static volatile uint64_t current_seed;
static Totals totals;

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

static void
pause_sometimes(uint64_t *state)
{
	if (below(state, 8) == 0)
		usleep((useconds_t) below(state, 200));
}

/* ---------- the contents of a slot ---------- */

/* Length of a stream's slot: mostly full slots (they merge), some odd, some empty. */
static uint32_t
slot_length(uint64_t seed, uint64_t slot, uint32_t room)
{
	uint64_t	state = seed * 31 + slot;
	uint64_t	r = rig_random(&state);

	return r % 4 == 0 ? (uint32_t) ((r >> 8) % (room + 1)) : r % 16 == 1 ? 0 : room;
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

/* ---------- parts on pages ---------- */

/*
 * Hand over a slot of which `data`, in the flow's piece of the pool, is the payload: some of it
 * from there, some by way of the slot.
 */
static bool
gather(int node, RfFlow *flow, RfSlotCursor *cursor, uint8_t *slot, const uint8_t *data,
	   uint32_t length, uint64_t rows, uint64_t *state)
{
	RfShared   *shared = rig_nodes[node].shared;
	RfPart		parts[RF_SLOT_PARTS];
	int			count = 0;
	int			entries = 0;
	uint32_t	own_at = 0;

	for (uint32_t at = 0; at < length;)
	{
		uint64_t	place = (uint64_t) (data - shared->page_memory) + at;
		uint32_t	left = length - at;
		uint32_t	own = (count == 0) + (uint32_t) below(state, left < 3000 ? left : 3000);
		uint32_t	page = entries + 4 > rig_max_sge ?
			left - own :
			(uint32_t) below(state, left - own < 5000 ? left - own + 1 : 5000);

		memcpy(slot + own_at, data + at, own);
		place += own;
		parts[count++] = (RfPart)
		{
			own, (uint32_t) (place / shared->page_size),
				(uint16_t) (place % shared->page_size), (uint16_t) page
		};
		entries += (own > 0) + (page > 0);
		own_at += own;
		at += own + page;
		if (own + page == 0)
			count--;
	}
	rf_slot_gather(flow, rf_flow_parts(shared, flow), cursor, parts, count);
	return rf_slot_submit_gathered(flow, cursor, length, RF_SLOT_FIRST | RF_SLOT_LAST, rows);
}

/*
 * The backend's work before it lets go of its pages: they become something else at once, and the
 * fabric counts payload that changed while it was sent.
 */
static void
leave_pages(RfFlow *flow, const RfSlotCursor *cursor)
{
	uint64_t	end = rf_slots_withdraw(flow, cursor, 0);
	double		until = rig_seconds() + RIG_PATIENCE;

	while (atomic_load(&flow->completed) < end && atomic_load(&flow->state) != RF_FLOW_FAILED)
	{
		CHECK(rig_seconds() < until);
		usleep(50);
	}
	memset(flow->value.memory, 0x5a, flow->value.size);
}

/* ---------- the two backends of a stream ---------- */

/*
 * As a backend that is interrupted in its sleep: the lane may still find that it waits, and wake
 * it.
 */
static void
interrupted(RfFlow *flow, uint64_t *state)
{
	atomic_store(&flow->waiting, RF_WAIT_ANY);
	usleep((useconds_t) below(state, 300));
}

static void
produce(Pair *pair, uint64_t *state)
{
	Stream	   *stream = &pair->stream;
	int			node = pair->number % 2;
	int			backend = pair->number * 2;
	uint64_t	seed = stream->seed;
	uint64_t	slots = stream->slots;
	uint64_t	quit_at = stream->quit_at;
	RfSlotCursor cursor = {0};
	RfFlow	   *flow;
	uint32_t	index = rig_open(node, backend, stream->flow, stream->key);
	uint64_t	placed = below(state, 5);	/* of four slots */
	bool		gathers = below(state, 2) == 0;
	bool		alive = true;
	bool		ring;

	/* Once the flow is open, the consumer may be over with it and at the next stream. */
	if (index == UINT32_MAX)
	{
		atomic_store(&stream->refused, true);
		return;
	}
	flow = &rig_nodes[node].shared->flows[index];
	for (uint64_t slot = 0; slot < slots && slot < quit_at; slot++)
	{
		uint8_t    *data = rig_acquire(node, backend, index, &cursor);
		uint32_t	length;

		if (data == NULL)
		{
			alive = false;
			break;
		}
		length = slot_length(seed, slot, flow->slot_size - (uint32_t) sizeof(RfSlotHeader));
		if (rig_random(state) % 4 < placed)
		{
			/* Its bytes are not touched before the slot is free again. */
			uint8_t    *own = data + sizeof(RfSlotHeader);

			data = flow->value.memory +
				(size_t) (slot % flow->slot_count) * flow->slot_size + slot % 64;
			fill(data, length, seed, slot);
			if (gathers && length > 0)
				ring = gather(node, flow, &cursor, own, data, length, slot, state);
			else
				ring = rf_slot_place(flow, &cursor, data, length, RF_SLOT_FIRST | RF_SLOT_LAST,
									 slot);
		}
		else
		{
			fill(data + sizeof(RfSlotHeader), length, seed, slot);
			ring = rf_slot_submit(flow, &cursor, length, RF_SLOT_FIRST | RF_SLOT_LAST, slot);
		}
		if (ring)
			rig_ring(node, index);
		pause_sometimes(state);
	}
	if (alive && quit_at == ALWAYS)
		alive = rig_finish(node, backend, index, &cursor);
	else
	{
		alive = false;
		if (below(state, 2) == 0)
			interrupted(flow, state);
	}
	if (!alive && gathers)
		leave_pages(flow, &cursor);
	rig_close(node, index, false, !alive);
}

static void
consume(Pair *pair, uint64_t *state, uint64_t stop_at)
{
	Stream	   *stream = &pair->stream;
	int			node = 1 - pair->number % 2;
	int			backend = pair->number * 2 + 1;
	RfFlow	   *flow = &rig_nodes[node].shared->flows[stream->flow];
	RfSlotCursor cursor = {0};
	RfSlotRead	result = RF_READ_NOTHING;
	uint64_t	slot = 0;

	while (atomic_load(&flow->state) == RF_FLOW_LISTENING && !atomic_load(&stream->refused))
		usleep(100);
	if (atomic_load(&flow->state) == RF_FLOW_LISTENING)
	{
		CHECK(pair->faults);
		pair->failed++;
		rig_close(node, stream->flow, true, false);
		return;
	}

	while (slot < stop_at)
	{
		RfSlotHeader header;
		uint8_t    *payload;

		result = rig_read(node, backend, stream->flow, &cursor, &header, &payload);
		CHECK(result != RF_READ_BAD);
		if (result != RF_READ_DATA)
			break;
		CHECK(header.length ==
			  slot_length(stream->seed, slot, flow->slot_size - (uint32_t) sizeof(RfSlotHeader)));
		CHECK(header.rows == slot);
		CHECK(same(payload, header.length, stream->seed, slot));
		pause_sometimes(state);
		/* It stays as it is until it is released. */
		CHECK(same(payload, header.length, stream->seed, slot));
		slot++;
		if (rf_slot_release(flow, &cursor))
			rig_ring(node, stream->flow);
	}
	pair->slots += slot;
	if (result == RF_READ_END)
	{
		CHECK(slot == stream->slots && stream->quit_at == ALWAYS);
		pair->complete++;
	}
	else if (slot >= stop_at)
	{
		if (below(state, 2) == 0)
			interrupted(flow, state);
		pair->stopped++;
	}
	else if (atomic_load(&flow->remote_end) == 1 + RF_END_FAILED)
	{
		CHECK(stream->quit_at != ALWAYS && slot <= stream->quit_at);
		pair->gave_up++;
	}
	else
	{
		CHECK(pair->faults && atomic_load(&flow->state) == RF_FLOW_FAILED);
		CHECK(rf_flow_error(rig_nodes[node].shared, flow)->kind == RF_ERROR_CONNECTION);
		pair->failed++;
	}
	rig_close(node, stream->flow, !cursor.ended, false);
}

static void *
producer(void *argument)
{
	Pair	   *pair = argument;
	uint64_t	state = pair->seed + 1;

	for (int i = 0; i < pair->streams; i++)
	{
		while (sem_wait(&pair->stream.ready) != 0);
		produce(pair, &state);
		while (sem_wait(&pair->stream.over) != 0);
	}
	return NULL;
}

static void *
consumer(void *argument)
{
	Pair	   *pair = argument;
	Stream	   *stream = &pair->stream;
	uint64_t	state = pair->seed;

	for (int i = 0; i < pair->streams; i++)
	{
		uint32_t	slot_count = 1 + (uint32_t) below(&state, RF_MAX_SLOTS);
		uint32_t	slot_size = 4096 * (1 + (uint32_t) below(&state, 4));
		uint64_t	stop_at = ALWAYS;

		while (!rig_connected())
			usleep(100);
		stream->key = rig_random(&state);
		stream->seed = rig_random(&state);
		stream->slots = below(&state, 60);
		stream->quit_at = below(&state, 8) == 0 ? below(&state, stream->slots + 1) : ALWAYS;
		if (below(&state, 4) == 0)
			stop_at = below(&state, stream->slots + 1);
		atomic_store(&stream->refused, false);
		stream->flow = rig_listen(1 - pair->number % 2, pair->number * 2 + 1, slot_count, slot_size,
								  stream->key);
		sem_post(&stream->ready);
		consume(pair, &state, stop_at);
		sem_post(&stream->over);
	}
	return NULL;
}

/* ---------- one seed ---------- */

typedef struct Trouble
{
	uint64_t	seed;
	atomic_bool over;
} Trouble;

/* Links that are cut, and links on which nothing is heard for a while. */
static void *
make_trouble(void *argument)
{
	Trouble    *trouble = argument;
	uint64_t	state = trouble->seed;

	while (!atomic_load(&trouble->over))
	{
		int			lane = (int) below(&state, (uint64_t) rig_lanes);

		usleep((useconds_t) below(&state, 4000));
		if (below(&state, 3) == 0)
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
	static Pair pairs[MAX_PAIRS];
	pthread_t	threads[2 * MAX_PAIRS];
	pthread_t	trouble_thread;
	Trouble		trouble = {.seed = seed * 977 + 1};
	uint64_t	state = seed;
	bool		faults = below(&state, 2) == 0;
	int			pair_count = 1 + (int) below(&state, MAX_PAIRS);
	int			streams = below(&state, 40) == 0 ? 40 : 1 + (int) below(&state, 5);
	RfSimConfig sim = {
		.seed = seed,
		.delay_max = (uint32_t) below(&state, 40),
		.tear = below(&state, 4) != 0,
		.step_sleep_us = PICK(&state, 0, 0, 0, 20),
		.fail_ppm = faults ? PICK(&state, 0, 500, 3000, 20000) : 0,
		.check_payload = true
	};
	RfSimCounters counters;
	uint64_t	window;

	current_seed = seed;
	alarm(SEED_SECONDS);
	rig_lanes = 1 + (int) below(&state, RIG_MAX_LANES);
	rig_max_sge = (int) PICK(&state, 2, 3, 8, RF_MAX_SGE);
	rig_config.max_wr = PICK(&state, 2, 3, 32, 128);
	rig_config.poll_batch = PICK(&state, 1, 16, 256);
	rig_config.polling_mode = PICK(&state, RF_POLLING_ADAPTIVE, RF_POLLING_ADAPTIVE,
								   RF_POLLING_EVENT, RF_POLLING_EVENT_BATCH, RF_POLLING_HYBRID);
	rig_config.poll_us = PICK(&state, 0, 0, 20, 200);
	rig_config.probe_ms = PICK(&state, 1, 5, 50);
	rig_config.merge_limit = PICK(&state, 0, 8192, 1 << 20);
	rig_config.chain_limit = PICK(&state, 1, 2, 16, RF_MAX_CHAIN);
	rig_config.signal_all = below(&state, 4) == 0;
	rig_config.credit_limit = PICK(&state, 0, RF_CREDIT_AUTO, 1, 3, 8);
	window = PICK(&state, 0, 4096, 65536, 1 << 20);
	rig_config.admission_window = window;
	rig_fewer_slots = below(&state, 2) == 0;
	rig_start(&sim);

	memset(pairs, 0, sizeof(pairs));
	for (int i = 0; i < pair_count; i++)
	{
		pairs[i].number = i;
		pairs[i].seed = rig_random(&state);
		pairs[i].streams = streams;
		pairs[i].faults = faults;
		sem_init(&pairs[i].stream.ready, 0, 0);
		sem_init(&pairs[i].stream.over, 0, 0);
		CHECK(pthread_create(&threads[2 * i], NULL, producer, &pairs[i]) == 0);
		CHECK(pthread_create(&threads[2 * i + 1], NULL, consumer, &pairs[i]) == 0);
	}
	if (faults)
		CHECK(pthread_create(&trouble_thread, NULL, make_trouble, &trouble) == 0);
	for (int i = 0; i < 2 * pair_count; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&trouble.over, true);
	if (faults)
		pthread_join(trouble_thread, NULL);

	CHECK(rig_all_free());
	rf_sim_counters(&counters);
	CHECK(counters.cq_overflows == 0 && counters.wr_overflows == 0 &&
		  counters.payload_changed == 0);
	for (int n = 0; n < 2; n++)
	{
		RfAdmissionStats *admission = &rig_nodes[n].shared->admission;

		/* A slot that is larger than the window goes alone. */
		CHECK(window > 0 || atomic_load(&admission->high_water) == 0);
		CHECK(window == 0 ||
			  atomic_load(&admission->high_water) <=
			  (window > LARGEST_SLOT ? window : LARGEST_SLOT));
		AWAIT_ZERO(admission->in_flight);
		for (int lane = 0; lane < rig_lanes; lane++)
		{
			RfLane	   *shared = &rig_nodes[n].shared->lanes[lane];

			CHECK(atomic_load(&shared->protocol_errors) == 0);
			totals.requests += atomic_load(&shared->work_requests);
			totals.in_place += atomic_load(&shared->in_place);
			totals.from_pages += atomic_load(&shared->from_pages);
			totals.doorbells += atomic_load(&shared->doorbells);
		}
	}
	rig_stop();
	rig_config.admission_window = 0;
	for (int i = 0; i < pair_count; i++)
	{
		CHECK(faults || pairs[i].failed == 0);
		totals.complete += pairs[i].complete;
		totals.stopped += pairs[i].stopped;
		totals.gave_up += pairs[i].gave_up;
		totals.failed += pairs[i].failed;
		totals.slots += pairs[i].slots;
		sem_destroy(&pairs[i].stream.ready);
		sem_destroy(&pairs[i].stream.over);
	}
	totals.seeds++;
}

/* On abort and on the alarm. No stdio: it may be stuck itself. */
static void
tell_seed(int signal_number)
{
	static const char before[] = "not ok - seed ";
	static const char hangs[] = " hangs";
	static const char after[] = "; repeat it: test_engine_seeds SEED 1 100\n";
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

/*
 * An entry that is rung on one lane, freed, and rung on another before the first has looked: both
 * must find it.
 */
static void
test_two_rings(void)
{
	RfLane	   *lanes = aligned_alloc(RF_CACHE_LINE, 2 * sizeof(RfLane));
	RfFlow	   *flow = aligned_alloc(RF_CACHE_LINE, sizeof(RfFlow));
	uint32_t	index;

	memset(lanes, 0, 2 * sizeof(RfLane));
	memset(flow, 0, sizeof(RfFlow));
	lanes[1].number = 1;
	rf_lane_ring(&lanes[0], flow, 0);
	rf_lane_ring(&lanes[1], flow, 0);
	rf_lane_ring(&lanes[1], flow, 0);
	CHECK(rf_lane_take(&lanes[1], flow, &index) && index == 0 &&
		  !rf_lane_take(&lanes[1], flow, &index));
	CHECK(rf_lane_take(&lanes[0], flow, &index) && index == 0 &&
		  !rf_lane_take(&lanes[0], flow, &index));
	CHECK(atomic_load(&flow->queued) == 0);
	free(lanes);
	free(flow);
	printf("ok - an entry in the rings of two lanes\n");
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
	test_two_rings();
	for (uint64_t seed = first;
		 seed < first + seeds && (argc > 1 || time(NULL) - began < CHECK_SECONDS); seed++)
		for (int i = 0; i < times; i++)
			run_seed(seed);

	CHECK(totals.complete > 0 || argc > 1);
	printf(
		   "ok - %llu seeds in %d s: %llu slots; streams: %llu complete, %llu stopped, %llu given "
		   "up, %llu failed with one of %llu lost connections; "
		   "%llu requests, %llu doorbells, %llu slots from value memory, %llu with parts on "
		   "pages\n",
		   (unsigned long long) totals.seeds, (int) (time(NULL) - began),
		   (unsigned long long) totals.slots,
		   (unsigned long long) totals.complete,
		   (unsigned long long) totals.stopped,
		   (unsigned long long) totals.gave_up,
		   (unsigned long long) totals.failed,
		   (unsigned long long) atomic_load(&rig_lost),
		   (unsigned long long) totals.requests,
		   (unsigned long long) totals.doorbells,
		   (unsigned long long) totals.in_place,
		   (unsigned long long) totals.from_pages);
	return 0;
}
