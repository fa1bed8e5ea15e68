/*
 * test_lane_pages.c - slots of which parts are sent from pages, some of them strided (layout.h,
 * provider.h): the arriving bytes compared one by one with the parts, beside other slots, with as
 * many strided entries out as may be and with fewer; and parts that are refused. RF_TSAN: the lanes
 * have threads.
 */
#include <string.h>

#include "shmem/slot_parts.h"

#include "lane_rig.h"

#define SLOTS		4
#define SLOT_SIZE	8192
#define ROUNDS		3000

static uint64_t state = 7;

static uint32_t
pick(uint32_t below)
{
	return (uint32_t) (rig_random(&state) % below);
}

/* The slot's content at the reader. */
static uint32_t
put_together(const uint8_t *slot, const RfPart *parts, int count, const uint8_t *pages, uint8_t *to)
{
	uint32_t	length = 0;
	uint32_t	own = 0;

	for (int i = 0; i < count; i++)
	{
		const uint8_t *from = pages + parts[i].buffer * RIG_PAGE_SIZE + parts[i].offset;
		uint32_t	element = parts[i].stride > 0 ? parts[i].element : parts[i].length;

		memcpy(to + length, slot + own, parts[i].own);
		own += parts[i].own;
		length += parts[i].own;
		for (uint32_t done = 0; done < parts[i].length; done += element, from += parts[i].stride)
		{
			memcpy(to + length, from, element);
			length += element;
		}
	}
	return length;
}

/* Random parts, all at most a seventh of the slot. */
static int
make_parts(RfPart *parts, int most_strided)
{
	int			count = 1 + (int) pick(6);
	int			strided = 0;

	for (int i = 0; i < count; i++)
	{
		uint32_t	element = 1 + pick(60);
		uint32_t	stride = element + pick(60);
		uint32_t	elements = 1 + pick(1000 / stride);

		parts[i] = (RfPart)
		{
			.own = i == 0 ? 16 : pick(2) * pick(300),
				.buffer = pick(RIG_PAGES - 1),
				.offset = (uint16_t) pick(RIG_PAGE_SIZE)
		};
		parts[i].length = (uint16_t) (element * elements);
		if (strided < most_strided && pick(2) == 0)
		{
			parts[i].element = (uint16_t) element;
			parts[i].stride = (uint16_t) stride;
			strided++;
		}
	}
	return count;
}

static void
run(int max_strided)
{
	static uint8_t wanted[SLOTS][SLOT_SIZE];
	RfSimConfig config = {
	.seed = 11, .delay_max = 20, .tear = true, .check_payload = true, .strided = max_strided};
	uint32_t	lengths[SLOTS];
	RfSlotCursor sent;
	RfSlotCursor got;
	uint32_t	consumer;
	uint32_t	producer;
	RfFlow	   *flow;
	RfSimCounters counters;
	uint64_t	from_pages = 0;
	double		deadline = rig_seconds() + RIG_PATIENCE;

	memset(&sent, 0, sizeof(sent));
	memset(&got, 0, sizeof(got));
	rig_max_strided = max_strided;
	rig_start(&config);
	while (!rig_connected())
		CHECK(rig_seconds() < deadline);
	consumer = rig_listen(1, 1, SLOTS, SLOT_SIZE, 77);
	producer = rig_open(0, 0, consumer, 77);
	CHECK(producer != UINT32_MAX);
	flow = &rig_nodes[0].shared->flows[producer];
	flow->memory.has_pages = true;
	flow->memory.pages_lkey = rig_nodes[0].source->lkey;
	for (uint32_t i = 0; i < RIG_PAGES * RIG_PAGE_SIZE; i++)
		rig_nodes[0].values[i] = (uint8_t) (i * 31 + (i >> 8) * 7);

	for (uint64_t round = 0; round < ROUNDS; round++)
	{
		/* Several out at a time, read behind them. */
		for (; sent.next < round + SLOTS && sent.next < ROUNDS;)
		{
			uint8_t    *slot = rig_acquire(0, 0, producer, &sent);
			uint32_t	place = (uint32_t) (sent.next % SLOTS);
			RfPart		parts[RF_SLOT_PARTS];
			bool		ring;

			CHECK(slot != NULL);
			for (int i = 0; i < 2000; i++)
				slot[sizeof(RfSlotHeader) + i] = (uint8_t) pick(256);
			if (pick(4) == 0)
			{
				lengths[place] = 1 + pick(2000);
				memcpy(wanted[place], slot + sizeof(RfSlotHeader), lengths[place]);
				ring = rf_slot_submit(flow, &sent, lengths[place], RF_SLOT_FIRST | RF_SLOT_LAST, 1);
			}
			else
			{
				int			count = make_parts(parts, max_strided);

				lengths[place] = put_together(slot + sizeof(RfSlotHeader), parts, count,
											  rig_nodes[0].values, wanted[place]);
				rf_slot_gather(flow, rf_flow_parts(rig_nodes[0].shared, flow), &sent, parts, count);
				ring = rf_slot_submit_gathered(flow, &sent, lengths[place],
											   RF_SLOT_FIRST | RF_SLOT_LAST, 1);
				from_pages++;
			}
			if (ring)
				rig_ring(0, producer);
		}

		{
			RfSlotHeader header;
			uint8_t    *payload;
			uint32_t	place = (uint32_t) (got.next % SLOTS);

			CHECK(rig_read(1, 1, consumer, &got, &header, &payload) == RF_READ_DATA);
			CHECK(header.length == lengths[place] &&
				  memcmp(payload, wanted[place], lengths[place]) == 0);
			if (rf_slot_release(&rig_nodes[1].shared->flows[consumer], &got))
				rig_ring(1, consumer);
		}
	}
	CHECK(rig_lane_sum(0, offsetof(RfLane, from_pages)) == from_pages);
	rf_sim_counters(&counters);
	CHECK((counters.strided > 0) == (max_strided > 0) && counters.failures == 0 &&
		  counters.payload_changed == 0);
	rig_close(1, consumer, true, false);
	rig_close(0, producer, false, true);
	CHECK(rig_all_free());
	rig_stop();
	printf("ok - %d strided entries at a time, %llu in all\n", max_strided,
		   (unsigned long long) counters.strided);
}

/* Returns true if the part is described. */
static bool
takes(RfPart part, int max_strided)
{
	static uint8_t slot[1000];
	static uint8_t pages[4 * RIG_PAGE_SIZE];
	RfPartsPlace place = {.slot = slot,
		.room = 100 * 1000,
		.pages = pages,
		.pages_size = sizeof(pages),
		.page_size = RIG_PAGE_SIZE,
		.max_entries = 30,
	.max_strided = max_strided};
	RfPartsEntries found;

	return rf_parts_describe(&part, 1, &place, &found) > 0 &&
		found.bytes == part.own + part.length && found.strided_count == (part.stride > 0);
}

static void
refused(void)
{
	RfPart		good = {.own = 8,
		.buffer = 3,
		.offset = RIG_PAGE_SIZE - 95,
		.length = 50,
		.element = 5,
	.stride = 10};
	RfPart		part = good;

	CHECK(takes(good, 1));		/* to the last byte */
	CHECK(!takes(good, 0));
	part.offset++;
	CHECK(!takes(part, 1));
	part = good;
	part.element = 0;
	CHECK(!takes(part, 1));
	part = good;
	part.stride = 4;
	CHECK(!takes(part, 1));
	part = good;
	part.length = 51;
	CHECK(!takes(part, 1));
	part = good;
	part.buffer = 4;
	CHECK(!takes(part, 1));
	part = (RfPart)
	{
		.buffer = 0, .length = 2, .element = 1, .stride = 4 * (uint16_t) RIG_PAGE_SIZE - 1
	};
	CHECK(takes(part, 1));
	part.offset = 1;
	CHECK(!takes(part, 1));
	printf("ok - parts outside the pool, and strided ones that make no sense\n");
}

int
main(void)
{
	refused();
	run(6);
	run(3);
	run(0);
	return 0;
}
