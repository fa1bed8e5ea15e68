/*
 * values.c - a producer of messages that need not fit a slot, and the engine's part in where it
 * lays them out: the work of src/flow/flow.c and src/engine/open.c with rf_value_place and the
 * cache of registrations, in one thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shmem/value.h"

#include "../../src/engine/values.h"
#include "node.h"

void
bench_values_open(Node *node)
{
	RfShared   *shared = node->shared;

	shared->value_memory = mmap(NULL, BENCH_VALUE_MEMORY, PROT_READ | PROT_WRITE,
								MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared->value_memory == MAP_FAILED)
		bench_fail("value memory", strerror(errno));
	shared->value_size = BENCH_VALUE_MEMORY;
	rf_values_calibrate(shared, node->provider, node->device);
	node->values = rf_values_create(shared, node->provider,
									node->load->groups[0].single ? 0 : BENCH_VALUE_MEMORY);
	if (node->values == NULL)
		bench_fail("value memory", strerror(errno));
}

void
bench_values_close(Node *node)
{
	rf_values_destroy(node->values);
	munmap(node->shared->value_memory, BENCH_VALUE_MEMORY);
}

static void
give_back(Node *node, RfFlow *flow, RfPiece *piece)
{
	rf_values_return(node->values, piece);
	flow->value.memory = NULL;
	atomic_store(&flow->value.state, RF_VALUE_NONE);
}

static void
answer(Node *node, RfFlow *flow, RfPiece *piece)
{
	RfError		error = {0};

	give_back(node, flow, piece);
	if (!rf_values_take(node->values, 0, node->domains[0], flow->value.wanted, piece, &error))
		bench_fail("a piece of value memory", error.message);
	flow->value.memory = rf_values_address(node->values, piece);
	flow->value.size = (uint64_t) piece->units * RF_VALUE_UNIT;
	flow->value.lkey = rf_values_lkey(node->values, piece);
	atomic_store(&flow->value.state, RF_VALUE_GRANTED);
}

/* A free slot of the flow. */
static uint8_t *
next_slot(Backend *backend, RfSlotCursor *cursor)
{
	RfFlow	   *flow = &backend->node->shared->flows[backend->first];
	uint8_t    *slot;

	while ((slot = rf_slot_fill(flow, cursor)) == NULL)
		bench_sleep(backend, cursor, 0, 1, RF_WAIT_SLOTS);
	return slot;
}

void *
bench_value_producer(void *argument)
{
	Backend    *backend = argument;
	Node	   *node = backend->node;
	const BenchGroup *group = backend->group;
	RfFlow	   *flow = &node->shared->flows[0];
	uint32_t	room = group->slot_size - (uint32_t) sizeof(RfSlotHeader);
	uint8_t    *source = malloc(group->length);
	uint8_t    *own = malloc(group->length);
	int64_t		stop_at = bench_stop_at(node);
	RfPiece		piece = {0};
	RfSlotCursor cursor = {0};

	memset(source, 7, group->length);
	memset(own, 0, group->length);
	while (bench_now_ns() < stop_at)
	{
		uint8_t    *place = own;
		RfValueStep step;

		while ((step = rf_value_place(node->shared, flow, &cursor, group->values, group->length,
									  &place)) > RF_VALUE_IN_PLACE)
		{
			if (step == RF_VALUE_ASKED)
				answer(node, flow, &piece);
			else
				bench_sleep(backend, &cursor, 0, 1, RF_WAIT_VALUE);
		}
		/* Makes the value: it is written once in either case. */
		memcpy(place, source, group->length);
		for (uint32_t at = 0; at < group->length; at += room)
		{
			uint32_t	part = group->length - at < room ? group->length - at : room;
			uint32_t	flags = (at == 0 ? RF_SLOT_FIRST : 0) |
				(at + part == group->length ? RF_SLOT_LAST : 0);
			uint8_t    *slot = next_slot(backend, &cursor);

			if (step == RF_VALUE_COPY)
			{
				memcpy(slot + sizeof(RfSlotHeader), place + at, part);
				bench_submit(backend, &cursor, 0, part, flags);
			}
			else if (rf_slot_place(flow, &cursor, place + at, part, flags, 1))
				bench_ring(node, 0);
		}
		if (group->single)
		{
			/* The end of a stream, and the next one's beginning. */
			while (atomic_load(&flow->completed) != cursor.next)
				bench_sleep(backend, &cursor, 0, 1, RF_WAIT_LANDED);
			give_back(node, flow, &piece);
			memset(&cursor.value, 0, sizeof(cursor.value));
		}
	}
	(void) next_slot(backend, &cursor);
	bench_submit(backend, &cursor, 0, 0, RF_SLOT_END);
	while (atomic_load(&flow->completed) != cursor.next)
		bench_sleep(backend, &cursor, 0, 1, RF_WAIT_LANDED);
	give_back(node, flow, &piece);
	free(source);
	free(own);
	return NULL;
}
