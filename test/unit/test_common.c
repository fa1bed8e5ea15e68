/*
 * test_common.c - messages that lie once for all flows of a producer (shmem/value.h,
 * rf_value_common): through real lanes over the simulated fabric, every reader gets every message
 * whole, although parts are used again as soon as all flows' slots say so; also between messages
 * for one reader alone, when a reader stops and when a connection is lost. The payload of a work
 * request never changes before its completion.
 *
 * Argument: rounds. RF_TSAN: the lanes have threads.
 */
#include <string.h>
#include <unistd.h>

#include "shmem/ring.h"

#include "lane_rig.h"

#define READERS		5
#define MESSAGES	300
#define SIZE		4096
#define ROOM		(SIZE - (uint32_t) sizeof(RfSlotHeader))
#define ALONE		UINT64_C(1) << 40	/* numbers of messages for one reader alone */

typedef struct Reader
{
	int			number;
	uint32_t	flow;
	uint64_t	stop_after;		/* messages; 0: reads all */
	uint64_t	read;
	bool		ended;
	pthread_t	thread;
} Reader;

static Reader readers[READERS];
static uint32_t producers[READERS];
static RfSlotCursor cursors[READERS];
static uint64_t alone[READERS]; /* of these the producer has sent */
static uint32_t slots;
static bool cutting;
static uint64_t placed;			/* messages that lay once */
static uint64_t copied;
static uint64_t seed;
static int	round_number;

static RfFlow *
flow_of(int i)
{
	return &rig_nodes[0].shared->flows[producers[i]];
}

static void
write_message(uint8_t *place, uint64_t number, uint32_t length)
{
	memcpy(place, &number, sizeof(number));
	memset(place + sizeof(number), (int) (number * 7 % 251), length - sizeof(number));
}

static uint32_t
length_of(uint64_t number)
{
	return 8 + (uint32_t) (number * 977 % (ROOM - 8));
}

static void *
reader_main(void *argument)
{
	Reader	   *reader = argument;
	RfSlotCursor cursor = {0};
	uint64_t	next = 1;
	uint64_t	next_alone = 1;

	for (;;)
	{
		RfSlotHeader header;
		uint8_t    *payload;
		uint64_t	number;
		RfSlotRead	result = rig_read(1, reader->number + 1, reader->flow, &cursor, &header,
									  &payload);

		CHECK(result != RF_READ_BAD);
		if (result != RF_READ_DATA)
		{
			reader->ended = result == RF_READ_END;
			break;
		}
		memcpy(&number, payload, sizeof(number));
		if (number >= (ALONE))
			CHECK(number == (ALONE) + next_alone++);
		else
			CHECK(number == next++);
		CHECK(header.length == length_of(number));
		for (uint32_t i = sizeof(number); i < header.length; i++)
			CHECK(payload[i] == number * 7 % 251);
		reader->read++;
		if (rf_slot_release(&rig_nodes[1].shared->flows[reader->flow], &cursor))
			rig_ring(1, reader->flow);
		if (reader->read == reader->stop_after)
			break;
	}
	rig_close(1, reader->flow, !reader->ended, false);
	return NULL;
}

static bool
has_slot(int i)
{
	return rf_slot_fill(flow_of(i), &cursors[i]) != NULL;
}

static bool
is_live(int i)
{
	return atomic_load(&flow_of(i)->stop) == 0 && atomic_load(&flow_of(i)->state) == RF_FLOW_OPEN;
}

static void
send_alone(int i)
{
	uint64_t	number = (ALONE) + alone[i] + 1;
	uint8_t    *slot;

	if (!is_live(i) || (slot = rig_acquire(0, 0, producers[i], &cursors[i])) == NULL)
		return;
	alone[i]++;
	write_message(slot + sizeof(RfSlotHeader), number, length_of(number));
	if (rf_slot_submit(flow_of(i), &cursors[i], length_of(number), RF_SLOT_FIRST | RF_SLOT_LAST, 1))
		rig_ring(0, producers[i]);
}

/* As rf_group_common does it: where message `number` may be laid out, NULL: it has to be copied. */
static uint8_t *
common_place(uint8_t *memory, uint64_t number)
{
	for (int i = 0; i < READERS; i++)
	{
		if (is_live(i))
			(void) rig_acquire(0, 0, producers[i], &cursors[i]);
		if (!is_live(i) && atomic_load(&flow_of(i)->completed) != cursors[i].next)
			return NULL;
	}
	/* A flow that has stopped since has a slot, or has sent all. */
	for (int i = 0; i < READERS; i++)
		if (!has_slot(i) && atomic_load(&flow_of(i)->completed) != cursors[i].next)
			return NULL;
	return memory + number % slots * SIZE;
}

static void
produce(uint8_t *memory, uint64_t *random)
{
	uint64_t	number_placed = 0;

	for (uint64_t number = 1; number <= MESSAGES; number++)
	{
		uint8_t    *place = common_place(memory, number_placed);
		uint32_t	length = length_of(number);

		if (place != NULL)
			write_message(place, number, length);
		if (rig_random(random) % 4 == 0)
			send_alone((int) (rig_random(random) % READERS));
		for (int i = 0; i < READERS; i++)
		{
			uint8_t    *slot = is_live(i) ? rig_acquire(0, 0, producers[i], &cursors[i]) : NULL;
			bool		ring;

			if (slot == NULL)
				continue;
			if (place != NULL)
				ring = rf_slot_place(flow_of(i), &cursors[i], place, length,
									 RF_SLOT_FIRST | RF_SLOT_LAST, 1);
			else
			{
				write_message(slot + sizeof(RfSlotHeader), number, length);
				ring = rf_slot_submit(flow_of(i), &cursors[i], length, RF_SLOT_FIRST | RF_SLOT_LAST,
									  1);
			}
			if (ring)
				rf_lane_queue(&rig_nodes[0].shared->lanes[flow_of(i)->memory.lane],
							  rig_nodes[0].shared->flows, producers[i]);
		}
		/* One wake-up for all. */
		for (int lane = 0; lane < rig_lanes; lane++)
			rf_lane_wake(&rig_nodes[0].shared->lanes[lane]);
		if (place != NULL)
			number_placed++;
		*(place != NULL ? &placed : &copied) += 1;
		if (cutting && number == MESSAGES / 2)
			rig_cut((int) (rig_random(random) % (uint64_t) rig_lanes));
	}
}

static void
play(int round)
{
	uint64_t	random = seed = 7919u * (uint64_t) round + 1;
	RfSimConfig sim = {.seed = seed,
		.delay_max = (uint32_t) (rig_random(&random) % 30),
		.tear = true,
	.check_payload = true};
	RfSimCounters counters;
	int			stopping = 0;

	round_number = round;
	slots = 1 + (uint32_t) (rig_random(&random) % 6);
	rig_lanes = 1 + round % 3;
	cutting = round % 5 == 4;
	rig_config.merge_limit = round % 2 == 0 ? 0 : 1 << 20;
	rig_reconnect = false;
	rig_start(&sim);
	for (int i = 0; i < READERS; i++)
	{
		Reader	   *reader = &readers[i];
		uint64_t	key = rig_random(&random);

		*reader = (Reader)
		{
			.number = i
		};
		if (round % 5 == 3 && i % 2 == 1 && ++stopping > 0)
			reader->stop_after = 1 + rig_random(&random) % MESSAGES / 2;
		reader->flow = rig_listen(1, i + 1, slots, SIZE, key);
		producers[i] = rig_open(0, 0, reader->flow, key);
		CHECK(producers[i] != UINT32_MAX);
		cursors[i] = (RfSlotCursor)
		{
			0
		};
		alone[i] = 0;
		/* The piece that the engine's main thread gives to all of them. */
		flow_of(i)->value.memory = rig_nodes[0].values;
	}
	for (int i = 0; i < READERS; i++)
		CHECK(pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]) == 0);
	produce(rig_nodes[0].values, &random);
	for (int i = 0; i < READERS; i++)
	{
		bool		finished = rig_finish(0, 0, producers[i], &cursors[i]);

		CHECK(finished || cutting || readers[i].stop_after > 0);
		rig_close(0, producers[i], false, !finished);
	}
	for (int i = 0; i < READERS; i++)
	{
		pthread_join(readers[i].thread, NULL);
		if (!cutting && readers[i].stop_after == 0)
			CHECK(readers[i].ended && readers[i].read == MESSAGES + alone[i]);
	}
	CHECK(rig_all_free());
	rf_sim_counters(&counters);
	CHECK(counters.payload_changed == 0);
	rig_stop();
}

int
main(int argc, char **argv)
{
	int			rounds = argc > 1 ? atoi(argv[1]) : 20;

	for (int round = 0; round < rounds; round++)
		play(round);
	CHECK(placed > copied);
	printf("ok - %d rounds: every reader got every message (%llu lay once, %llu were copied)\n",
		   rounds, (unsigned long long) placed, (unsigned long long) copied);
	return 0;
}
