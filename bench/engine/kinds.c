/*
 * kinds.c - groups of producers and consumers, with the rules of include/rdma_fdw/group.h that need
 * no server: which consumer gets a message, and in which order replicating consumers give out their
 * messages. Each pair has a flow of its own through the lanes; messages between replicating
 * consumers go through the memory of their process, in place of the flows that carry them between
 * servers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "node.h"
#include "shmem/group_order.h"
#include "shmem/slots.h"

#define MAIL_SLOTS		4
#define MAIL_ROOM		(RF_GROUP_CONTROL_SIZE - sizeof(RfSlotHeader))

typedef struct Mail
{
	pthread_mutex_t lock;
	uint32_t	sent;
	uint32_t	read;
	uint32_t	lengths[MAIL_SLOTS];
	uint64_t	messages[MAIL_SLOTS][RF_GROUP_CONTROL_SIZE / 8];
} Mail;

static Mail mail[BENCH_MAX_CONSUMERS][BENCH_MAX_CONSUMERS] = {
	[0 ... BENCH_MAX_CONSUMERS -
		 1] = {[0 ... BENCH_MAX_CONSUMERS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}}};

/* ---------- producer ---------- */

static uint32_t
free_buffers(RfFlow *flow, const RfSlotCursor *cursor)
{
	if (atomic_load(&flow->status[cursor->next % flow->slot_count]) != RF_SLOT_FREE)
		return 0;
	return flow->slot_count - (uint32_t) (cursor->next - atomic_load(&flow->credit));
}

/*
 * Which consumer gets the next message; RF_GROUP_ANY if no consumer can take it now. Replicate: 0
 * when all can.
 */
static int
choose(Backend *backend, const RfSlotCursor *cursors, uint32_t turn)
{
	uint32_t	count = backend->end - backend->first;
	uint32_t	room[BENCH_MAX_CONSUMERS];
	bool		all = true;

	for (uint32_t i = 0; i < count; i++)
	{
		room[i] = free_buffers(&backend->node->shared->flows[backend->first + i],
							   &cursors[backend->first + i]);
		all &= room[i] > 0;
	}
	if (backend->group->kind == BENCH_BALANCE)
		return rf_group_most_free(room, count, turn % count);
	if (backend->group->kind == BENCH_REPLICATE)
		return all ? 0 : RF_GROUP_ANY;
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
	for (uint32_t i = first; backend->group->kind == BENCH_REPLICATE && i < end; i++)
		if (free_buffers(&backend->node->shared->flows[i], &cursors[i]) == 0)
		{
			first = i;
			end = i + 1;
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
		if (backend->group->kind == BENCH_REPLICATE)
			for (uint32_t i = 0; i < backend->end - backend->first; i++)
				send_message(backend, cursors, i, turn);
		else
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
	RfOrder    *order;			/* replicate */
	uint64_t	held[BENCH_MAX_THREADS][RF_MAX_SLOTS];	/* replicate: slots that arrived from each
														 * producer */
	uint32_t	lengths[BENCH_MAX_THREADS][RF_MAX_SLOTS];
	uint64_t	given[BENCH_MAX_THREADS];
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
use(Reader *reader, uint32_t index, uint64_t what, uint32_t length)
{
	Backend    *backend = reader->backend;

	work(backend);
	backend->messages++;
	backend->bytes += length;
	backend->hash = (backend->hash ^ what) * 1099511628211ull;
	if (rf_slot_release(&backend->node->shared->flows[index], &reader->cursors[index]))
		bench_ring(backend->node, index);
	wake_line(backend->node, index);
}

static uint32_t
flow_of(const Backend *backend, uint32_t producer)
{
	return backend->first + producer * backend->step;
}

/* Takes the arrivals from one producer: uses them, or, in replicate, reports their order. */
static bool
take(Reader *reader, uint32_t producer)
{
	Backend    *backend = reader->backend;
	uint32_t	index = flow_of(backend, producer);
	RfSlotCursor *cursor = &reader->cursors[index];
	RfFlow	   *flow = &backend->node->shared->flows[index];
	uint64_t	place = cursor->next % flow->slot_count;
	RfSlotHeader header;
	RfError		error = {0};
	uint8_t    *payload;
	uint64_t	what;

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
			if (reader->order != NULL)
				rf_order_ended(reader->order, producer);
			return true;
		case RF_READ_DATA:
			break;
	}
	memcpy(&what, payload, sizeof(what));
	if (reader->order == NULL)
		use(reader, index, what, header.length);
	else
	{
		reader->held[producer][place] = what;
		reader->lengths[producer][place] = header.length;
		rf_order_arrived(reader->order, producer, true);
	}
	return true;
}

static void
wake(Backend *backend, uint32_t consumer)
{
	uint64_t	one = 1;

	for (int b = 0; b < backend->node->backend_count; b++)
		if (backend->node->backends[b].member == consumer &&
			write(backend->node->backends[b].wake_fd, &one, sizeof(one)) < 0)
			bench_fail("wake", strerror(errno));
}

/* Exchanges the consumers' messages. */
static bool
exchange(Reader *reader)
{
	uint32_t	me = reader->backend->member;
	bool		moved = false;
	RfError		error = {0};

	for (uint32_t from = 0; from < (uint32_t) reader->backend->group->consumers; from++)
	{
		Mail	   *box = &mail[from][me];
		bool		heard = false;

		pthread_mutex_lock(&box->lock);
		for (; from != me && box->read != box->sent; box->read++, heard = true)
			if (!rf_order_told(reader->order, from) &&
				!rf_order_read(reader->order, from, box->messages[box->read % MAIL_SLOTS],
							   box->lengths[box->read % MAIL_SLOTS], &error))
				bench_fail("order", error.message);
		pthread_mutex_unlock(&box->lock);
		if (heard)
			wake(reader->backend, from);
		moved |= heard;
	}
	if (me == 0 && !rf_order_decide(reader->order, &error))
		bench_fail("order", error.message);
	for (uint32_t to = 0; to < (uint32_t) reader->backend->group->consumers; to++)
	{
		Mail	   *box = &mail[me][to];
		bool		told = false;

		pthread_mutex_lock(&box->lock);
		while (to != me && box->sent - box->read < MAIL_SLOTS && !rf_order_told(reader->order, to))
		{
			uint32_t	length = rf_order_write(reader->order, to,
												box->messages[box->sent % MAIL_SLOTS], MAIL_ROOM);

			if (length == 0)
				break;
			box->lengths[box->sent++ % MAIL_SLOTS] = length;
			told = true;
		}
		pthread_mutex_unlock(&box->lock);
		if (told)
			wake(reader->backend, to);
		moved |= told;
	}
	return moved;
}

/* Replicate: delivers in the decided order. True: the end. */
static bool
give_out(Reader *reader, bool *moved)
{
	uint32_t	producer;

	for (;;)
	{
		uint32_t	index;
		uint64_t	place;

		switch (rf_order_next(reader->order, &producer))
		{
			case RF_ORDER_NOTHING:
				return false;
			case RF_ORDER_END:
			case RF_ORDER_STOP:
				return true;
			case RF_ORDER_SLOT:
				break;
		}
		index = flow_of(reader->backend, producer);
		place = reader->given[producer]++ % reader->backend->group->slots;
		use(reader, index, reader->held[producer][place], reader->lengths[producer][place]);
		*moved = true;
		if (reader->given[producer] % 2 == 0)
			(void) exchange(reader);
	}
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
	if (group->kind == BENCH_REPLICATE)
	{
		for (int to = 0; to < BENCH_MAX_CONSUMERS; to++)
			mail[backend->member][to].sent = mail[backend->member][to].read = 0;
		reader->order = malloc(rf_order_size((uint32_t) group->threads,
											 (uint32_t) group->consumers, group->slots));
		rf_order_init(reader->order, (uint32_t) group->threads, (uint32_t) group->consumers,
					  backend->member, group->slots);
	}
	while (!over)
	{
		bool		moved = false;

		for (uint32_t producer = 0; producer < (uint32_t) group->threads; producer++)
			moved |= take(reader, producer);
		if (reader->order != NULL)
		{
			moved |= exchange(reader);
			over = give_out(reader, &moved);
		}
		else
			over = reader->open == 0;
		if (!moved && !over)
			bench_sleep(backend, reader->cursors, backend->first, backend->end, RF_WAIT_ANY);
	}
	/* The first consumer goes when all consumers know how it ended. */
	for (uint32_t to = 1;
		 group->kind == BENCH_REPLICATE && backend->member == 0 && to < (uint32_t) group->consumers;
		 to++)
		while (!rf_order_told(reader->order, to))
			if (!exchange(reader))
				usleep(100);
	free(reader->order);
	free(reader->cursors);
	free(reader);
	return NULL;
}
