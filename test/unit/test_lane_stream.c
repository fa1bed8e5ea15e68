/* needs: src/engine/lane.c src/engine/lane_flow.c src/flow/ring.c src/flow/slots.c src/provider/error.c test/unit/sim.c test/unit/lane_rig.c; tsan: yes */
/*
 * test_lane_stream.c - whole streams between two lanes over the simulated fabric: sizes, buffer counts, early stops, producers that
 * give up, failing queue pairs, reuse of entries. Every byte is checked, every stream ends as it must, every entry comes back.
 *
 * Arguments: [seed] [streams per thread].
 */
#include <string.h>
#include <unistd.h>

#include "lane_rig.h"

#define PAIRS		6

typedef struct Stream
{
	uint64_t	key;
	uint32_t	flow;			/* the consumer's */
	uint64_t	seed;
	sem_t		ready;			/* consumer listens */
	sem_t		over;			/* consumer has closed */
	bool		stopped;		/* by the consumer */
	bool		quits;			/* the producer will give up */
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
} Pair;

static void
fill(uint8_t *data, uint32_t length, uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		data[i] = (uint8_t) (seed + i * 7 + (i >> 8));
}

static bool
same(const uint8_t *data, uint32_t length, uint64_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		if (data[i] != (uint8_t) (seed + i * 7 + (i >> 8)))
			return false;
	return true;
}

/* Length of slot k of a stream: mostly full ones (they merge), some odd, some empty. */
static uint32_t
slot_length(uint64_t seed, uint64_t slot, uint32_t room)
{
	uint64_t	state = seed * 31 + slot;
	uint64_t	r = rig_random(&state);

	return r % 4 == 0 ? (uint32_t) ((r >> 8) % (room + 1)) : r % 16 == 1 ? 0 : room;
}

static void *
producer(void *argument)
{
	Pair	   *pair = argument;
	Stream	   *stream = &pair->stream;
	int			node = pair->number % 2;
	int			backend = pair->number * 2;

	for (int i = 0; i < pair->streams; i++)
	{
		uint64_t	seed;
		uint64_t	state;
		uint64_t	slots;
		uint64_t	quit_at = UINT64_MAX;
		RfSlotCursor cursor = {0};
		RfFlow	   *flow;
		uint32_t	index;
		bool		alive = true;

		while (sem_wait(&stream->ready) != 0);
		/* Once the flow is open, the consumer may be over with it and at the next stream. */
		state = seed = stream->seed;
		slots = rig_random(&state) % 60;
		if (stream->quits)
			quit_at = rig_random(&state) % (slots + 1);
		index = rig_open(node, backend, stream->flow, stream->key);
		if (index == UINT32_MAX)
			atomic_store(&stream->refused, true);
		else
		{
			flow = &rig_nodes[node].shared->flows[index];
			for (uint64_t slot = 0; alive && slot < slots && slot < quit_at; slot++)
			{
				uint8_t    *data = rig_acquire(node, backend, index, &cursor);
				uint32_t	length;

				if (data == NULL)
				{
					alive = false;
					break;
				}
				length = slot_length(seed, slot, flow->slot_size - 64);
				fill(data + 64, length, seed + slot);
				if (rf_slot_submit(flow, &cursor, length, RF_SLOT_FIRST | RF_SLOT_LAST, slot))
					rig_ring(node, index);
				if (rig_random(&state) % 8 == 0)
					usleep((useconds_t) (rig_random(&state) % 200));
			}
			if (alive && quit_at == UINT64_MAX)
				alive = rig_finish(node, backend, index, &cursor);
			else
				alive = false;
			rig_close(node, index, false, !alive);
		}
		while (sem_wait(&stream->over) != 0);
	}
	return NULL;
}

static void *
consumer(void *argument)
{
	Pair	   *pair = argument;
	Stream	   *stream = &pair->stream;
	int			node = 1 - pair->number % 2;
	int			backend = pair->number * 2 + 1;
	uint64_t	state = pair->seed;

	for (int i = 0; i < pair->streams; i++)
	{
		RfSlotCursor cursor = {0};
		uint32_t	slot_count = 1 + (uint32_t) (rig_random(&state) % RF_MAX_SLOTS);
		uint32_t	slot_size = 4096 * (1 + (uint32_t) (rig_random(&state) % 4));
		uint64_t	stop_at = UINT64_MAX;
		uint64_t	slots;
		uint64_t	slot = 0;
		uint64_t	peek;
		RfFlow	   *flow;
		RfSlotRead	result = RF_READ_NOTHING;

		while (!rig_connected())
			usleep(100);
		stream->key = rig_random(&state);
		stream->seed = rig_random(&state);
		stream->quits = rig_random(&state) % 8 == 0;
		peek = stream->seed;
		slots = rig_random(&peek) % 60;
		if (rig_random(&state) % 4 == 0)
			stop_at = rig_random(&state) % (slots + 1);
		atomic_store(&stream->refused, false);
		stream->flow = rig_listen(node, backend, slot_count, slot_size, stream->key);
		flow = &rig_nodes[node].shared->flows[stream->flow];
		sem_post(&stream->ready);

		while (atomic_load(&flow->state) == RF_FLOW_LISTENING && !atomic_load(&stream->refused))
			usleep(100);
		if (atomic_load(&flow->state) != RF_FLOW_LISTENING)
		{
			while (slot < stop_at)
			{
				RfSlotHeader header;
				uint8_t    *payload;

				result = rig_read(node, backend, stream->flow, &cursor, &header, &payload);
				CHECK(result != RF_READ_BAD);
				if (result != RF_READ_DATA)
					break;
				CHECK(header.length == slot_length(stream->seed, slot, flow->slot_size - 64));
				CHECK(same(payload, header.length, stream->seed + slot));
				CHECK(header.rows == slot);
				if (rig_random(&state) % 8 == 0)
					usleep((useconds_t) (rig_random(&state) % 200));
				CHECK(same(payload, header.length, stream->seed + slot));
				slot++;
				if (rf_slot_release(flow, &cursor))
					rig_ring(node, stream->flow);
			}
			if (result == RF_READ_END)
			{
				CHECK(slot == slots && !stream->quits);
				pair->complete++;
			}
			else if (slot >= stop_at)
				pair->stopped++;
			else if (atomic_load(&flow->remote_end) == 1 + RF_END_FAILED)
			{
				CHECK(stream->quits);
				pair->gave_up++;
			}
			else
			{
				CHECK(pair->faults && atomic_load(&flow->state) == RF_FLOW_FAILED);
				CHECK(flow->error.kind == RF_ERROR_CONNECTION);
				pair->failed++;
			}
		}
		else
		{
			/* Only faults make that happen. */
			pair->failed++;
		}
		rig_close(node, stream->flow, !cursor.ended, false);
		sem_post(&stream->over);
	}
	return NULL;
}

static void
run(const char *name, uint64_t seed, int streams, const RfSimConfig *sim, bool faults)
{
	Pair		pairs[PAIRS];
	pthread_t	threads[2 * PAIRS];
	uint64_t	sums[4] = {0};
	RfSimCounters counters;

	memset(pairs, 0, sizeof(pairs));
	rig_start(sim);
	for (int i = 0; i < PAIRS; i++)
	{
		pairs[i].number = i;
		pairs[i].seed = seed * 1000 + (uint64_t) i;
		pairs[i].streams = streams;
		pairs[i].faults = faults;
		sem_init(&pairs[i].stream.ready, 0, 0);
		sem_init(&pairs[i].stream.over, 0, 0);
		CHECK(pthread_create(&threads[2 * i], NULL, producer, &pairs[i]) == 0);
		CHECK(pthread_create(&threads[2 * i + 1], NULL, consumer, &pairs[i]) == 0);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		pthread_join(threads[i], NULL);
	CHECK(rig_all_free());
	rf_sim_counters(&counters);
	CHECK(counters.cq_overflows == 0 && counters.wr_overflows == 0 && counters.payload_changed == 0);
	for (int i = 0; i < PAIRS; i++)
	{
		sums[0] += pairs[i].complete;
		sums[1] += pairs[i].stopped;
		sums[2] += pairs[i].gave_up;
		sums[3] += pairs[i].failed;
	}
	printf("ok - streams, %s: %llu complete, %llu stopped, %llu given up, %llu failed, %llu connections lost, %llu doorbells for %llu requests\n",
		   name, (unsigned long long) sums[0], (unsigned long long) sums[1],
		   (unsigned long long) sums[2], (unsigned long long) sums[3],
		   (unsigned long long) atomic_load(&rig_lost),
		   (unsigned long long) atomic_load(&rig_nodes[0].shared->lanes[0].doorbells),
		   (unsigned long long) atomic_load(&rig_nodes[0].shared->lanes[0].work_requests));
	CHECK(atomic_load(&rig_nodes[0].shared->lanes[0].protocol_errors) == 0);
	CHECK(atomic_load(&rig_nodes[1].shared->lanes[0].protocol_errors) == 0);
	CHECK(faults || sums[3] == 0);
	rig_stop();
}

int
main(int argc, char **argv)
{
	uint64_t	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	int			streams = argc > 2 ? atoi(argv[2]) : 60;
	RfSimConfig sim = {.seed = seed, .delay_max = 20, .tear = true, .check_payload = true};

	run("plain", seed, streams, &sim, false);

	/* No merging, no chaining, a send queue that is always full, no spinning. */
	rig_config.merge_limit = 0;
	rig_config.chain_limit = 1;
	rig_config.max_wr = 2;
	rig_config.poll_us = 0;
	sim.step_sleep_us = 20;
	run("narrow", seed + 1, streams, &sim, false);

	rig_config.merge_limit = 1 << 20;
	rig_config.chain_limit = 16;
	rig_config.max_wr = 32;
	rig_config.poll_us = 20;
	sim.step_sleep_us = 0;
	sim.fail_ppm = 3000;
	run("faults", seed + 2, streams, &sim, true);
	CHECK(atomic_load(&rig_lost) > 0);
	return 0;
}
