/*
 * kinds.c - groups of producers and consumers, with the rules of include/rdma_fdw/group.h that need
 * no server: which consumer gets a message. Each pair has a flow of its own through the lanes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "node.h"
#include "shmem/group_turn.h"
#include "shmem/slots.h"

/* ---------- producer ---------- */

static uint32_t
free_buffers(RfFlow *flow, const RfSlotCursor *cursor)
{
	if (atomic_load(&flow->status[cursor->next % flow->slot_count]) != RF_SLOT_FREE)
		return 0;
	return flow->slot_count - (uint32_t) (cursor->next - atomic_load(&flow->credit));
}

/* Which consumer gets the next message; RF_GROUP_ANY if no consumer can take it now. */
static int
choose(Backend *backend, const RfSlotCursor *cursors, uint32_t turn)
{
	uint32_t	count = backend->end - backend->first;
	uint32_t	room[BENCH_MAX_CONSUMERS];

	for (uint32_t i = 0; i < count; i++)
		room[i] = free_buffers(&backend->node->shared->flows[backend->first + i],
							   &cursors[backend->first + i]);
	if (backend->group->kind == BENCH_BALANCE)
		return rf_group_most_free(room, count, turn % count);
	return room[turn % count] > 0 ? (int) (turn % count) : RF_GROUP_ANY;
}

static void
send_message(Backend *backend, RfSlotCursor *cursors, uint32_t to, uint64_t number)
{
	const BenchGroup *group = backend->group;
	uint32_t	index = backend->first + to;
	uint8_t    *slot = rf_slot_fill(&backend->node->shared->flows[index], &cursors[index]);
	uint64_t	what = ((uint64_t) backend->member << 48) + number;

	memcpy(slot + sizeof(RfSlotHeader), &what, sizeof(what));
	bench_submit(backend, &cursors[index], index,
				 group->slot_size - (uint32_t) sizeof(RfSlotHeader), RF_SLOT_FIRST | RF_SLOT_LAST);
}

/* Wait as long as a flow is full: with a static choice that flow, otherwise any. */
static void
wait_for_room(Backend *backend, RfSlotCursor *cursors, uint32_t turn)
{
	uint32_t	count = backend->end - backend->first;
	uint32_t	first = backend->first;
	uint32_t	end = backend->end;

	if (backend->group->kind == BENCH_STATIC)
	{
		first += turn % count;
		end = first + 1;
	}
	bench_sleep(backend, cursors, first, end, RF_WAIT_CREDIT);
}

void *
bench_kind_producer(void *argument)
{
	Backend    *backend = argument;
	RfSlotCursor *cursors = calloc(BENCH_MAX_FLOWS, sizeof(RfSlotCursor));
	int64_t		stop_at = bench_stop_at(backend->node);
	uint32_t	turn = 0;

	while (bench_now_ns() < stop_at)
	{
		int			to = choose(backend, cursors, turn);

		if (to == RF_GROUP_ANY)
		{
			wait_for_room(backend, cursors, turn);
			continue;
		}
		send_message(backend, cursors, (uint32_t) to, turn);
		turn++;
	}
	for (uint32_t i = backend->first; i < backend->end; i++)
	{
		while (rf_slot_fill(&backend->node->shared->flows[i], &cursors[i]) == NULL)
			bench_sleep(backend, cursors, i, i + 1, RF_WAIT_SLOTS);
		bench_submit(backend, &cursors[i], i, 0, RF_SLOT_END);
	}
	free(cursors);
	return NULL;
}

/* ---------- consumer ---------- */

typedef struct Reader
{
	Backend    *backend;
	RfSlotCursor *cursors;
	uint32_t	open;
} Reader;

/* As long as the message takes this consumer. */
static void
work(const Backend *backend)
{
	int64_t		pause = (int64_t) backend->group->pause_us[backend->member] * 1000;
	struct timespec time = {.tv_sec = pause / 1000000000, .tv_nsec = pause % 1000000000};

	if (pause > 0)
		nanosleep(&time, NULL);
}

/* Producers that have asked for a buffer of the pool. */
static void
wake_line(Node *node, uint32_t index)
{
	RfReceivePool *pool = node->shared->flows[index].pool;

	if (pool != NULL)
		rf_receive_wake(node->shared->lanes, pool);
}

static void
use(Reader *reader, uint32_t index, uint32_t length)
{
	Backend    *backend = reader->backend;

	work(backend);
	backend->messages++;
	backend->bytes += length;
	if (rf_slot_release(&backend->node->shared->flows[index], &reader->cursors[index]))
		bench_ring(backend->node, index);
	wake_line(backend->node, index);
}

static uint32_t
flow_of(const Backend *backend, uint32_t producer)
{
	return backend->first + producer * backend->step;
}

/* Uses the next message of one producer. False: nothing came. */
static bool
take(Reader *reader, uint32_t producer)
{
	Backend    *backend = reader->backend;
	uint32_t	index = flow_of(backend, producer);
	RfSlotCursor *cursor = &reader->cursors[index];
	RfFlow	   *flow = &backend->node->shared->flows[index];
	RfSlotHeader header;
	RfError		error = {0};
	uint8_t    *payload;

	if (cursor->ended)
		return false;
	switch (rf_slot_read(flow, cursor, &header, &payload, &error))
	{
		case RF_READ_NOTHING:
			if (atomic_load(&flow->state) != RF_FLOW_OPEN)
				bench_fail("a flow failed", rf_flow_error(backend->node->shared, flow)->message);
			return false;
		case RF_READ_BAD:
			bench_fail("bad slot", error.message);
			return false;
		case RF_READ_END:
			bench_ring(backend->node, index);
			wake_line(backend->node, index);
			reader->open--;
			return true;
		case RF_READ_DATA:
			break;
	}
	use(reader, index, header.length);
	return true;
}

void *
bench_kind_consumer(void *argument)
{
	Backend    *backend = argument;
	const BenchGroup *group = backend->group;
	Reader	   *reader = calloc(1, sizeof(Reader));
	bool		over = false;

	reader->backend = backend;
	reader->cursors = calloc(BENCH_MAX_FLOWS, sizeof(RfSlotCursor));
	reader->open = (uint32_t) group->threads;
	while (!over)
	{
		bool		moved = false;

		for (uint32_t producer = 0; producer < (uint32_t) group->threads; producer++)
			moved |= take(reader, producer);
		over = reader->open == 0;
		if (!moved && !over)
			bench_sleep(backend, reader->cursors, backend->first, backend->end, RF_WAIT_ANY);
	}
	free(reader->cursors);
	free(reader);
	return NULL;
}
