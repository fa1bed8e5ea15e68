/*
 * node_outbox.c - batches of the workers that run an exchange's query, on their way to their
 * leader.
 *
 * A flow has one writer: its slots are filled in order. So workers do not send themselves; they do
 * all that has to be done row by row, and hand whole batches to the leader, which copies their
 * bytes into send buffers, or reads batches for this node as if they had been received. The number
 * of flows, and the view of other nodes, do not depend on the number of workers.
 *
 * Shared: for each worker so many batches that it can fill one for each destination while the
 * leader has as many. A batch is the worker's from where it finds `free` set and clears it until it
 * writes its number into `order` and then raises `filled`; then the leader's, which reads these in
 * that order, until it sets `free`. Barriers stand between the bytes and these two words. Each side
 * sets the other's latch. The Gather owns the space and frees it.
 *
 * Nobody waits for the leader but the worker whose batches are all with it: node_drive.c has why
 * that cannot hang.
 */
#include "node.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "rdma_fdw/compat.h"

#define BATCH_ALIGN(size)	TYPEALIGN(64, size)

typedef struct SharedBatch
{
	pg_atomic_uint32 free;
	int32		consumer;
	uint32		length;
	uint32		flags;			/* RF_SLOT_FIRST, RF_SLOT_LAST */
	uint32		offset;			/* bytes of the pieces before it */
	uint64		rows;			/* with LAST */
} SharedBatch;

/* The outbox of one worker; its order, batches and their bytes follow. */
typedef struct SharedOutbox
{
	PGPROC	   *proc;			/* the worker's; NULL: it has not come yet */
	pg_atomic_uint32 filled;	/* batches handed over so far */
	pg_atomic_uint64 rows;		/* taken from the plan; each process writes its own */
	pg_atomic_uint64 filtered;
} SharedOutbox;

typedef struct SharedOutboxes
{
	ExchangeOutboxShape shape;
	uint32		batches;		/* of each worker */
	PGPROC	   *leader;
	pg_atomic_uint32 stop;		/* set by the leader once */
} SharedOutboxes;

struct ExchangeOutboxes
{
	MemoryContext context;
	SharedOutboxes *shared;
	uint32	   *taken;			/* of each worker's batches that it has handed over */
	RfReassembly *large;		/* of each worker: a row that comes in pieces */
	uint64		waiting;		/* batches in the lists, and given out */
	bool		reading;		/* rows for this node are wanted */
	dlist_head	to_send;
	dlist_head	to_read;
};

struct ExchangeOutbox
{
	SharedOutboxes *shared;
	SharedOutbox *own;
	int		   *filling;		/* for each destination the batch that it has, or -1 */
	uint32	   *done;			/* for each destination: bytes of the large row that were handed
								 * over */
};

/* ---------- layout ---------- */

/* Two for each destination: one is filled while the leader has the second. */
static uint32
batches_of(const ExchangeOutboxShape *shape)
{
	return shape->replicate ? 4 : 2 * (shape->consumers + 1);
}

static Size
outbox_size(const ExchangeOutboxShape *shape)
{
	uint32		batches = batches_of(shape);

	return BATCH_ALIGN(sizeof(SharedOutbox)) + BATCH_ALIGN(batches * sizeof(uint32)) +
		BATCH_ALIGN(batches * sizeof(SharedBatch)) +
		(Size) batches * BATCH_ALIGN(shape->batch_size);
}

Size
rf_outboxes_size(const ExchangeOutboxShape *shape)
{
	return 64 + BATCH_ALIGN(sizeof(SharedOutboxes)) + shape->workers * outbox_size(shape);
}

/* The space is 8-aligned only. */
static SharedOutboxes *
shared_at(void *space)
{
	return (SharedOutboxes *) BATCH_ALIGN((uintptr_t) space);
}

static SharedOutbox *
outbox_of(SharedOutboxes *shared, int worker)
{
	return (SharedOutbox *) ((char *) shared + BATCH_ALIGN(sizeof(SharedOutboxes)) +
							 worker * outbox_size(&shared->shape));
}

static uint32 *
order_of(SharedOutbox *outbox)
{
	return (uint32 *) ((char *) outbox + BATCH_ALIGN(sizeof(SharedOutbox)));
}

static SharedBatch *
batch_of(const SharedOutboxes *shared, SharedOutbox *outbox, uint32 number)
{
	return (SharedBatch *) ((char *) order_of(outbox) +
							BATCH_ALIGN(shared->batches * sizeof(uint32))) +
		number;
}

static uint8 *
bytes_of(const SharedOutboxes *shared, SharedOutbox *outbox, uint32 number)
{
	return (uint8 *) batch_of(shared, outbox, 0) +
		BATCH_ALIGN(shared->batches * sizeof(SharedBatch)) +
		(Size) number * BATCH_ALIGN(shared->shape.batch_size);
}

/* ---------- leader ---------- */

ExchangeOutboxes *
rf_outboxes_create(const ExchangeOutboxShape *shape, void *space)
{
	ExchangeOutboxes *outboxes = palloc0(sizeof(ExchangeOutboxes));
	SharedOutboxes *shared = shared_at(space);

	outboxes->context = CurrentMemoryContext;
	shared->shape = *shape;
	shared->batches = batches_of(shape);
	shared->leader = MyProc;
	pg_atomic_init_u32(&shared->stop, 0);
	outboxes->shared = shared;
	outboxes->taken = palloc0(shape->workers * sizeof(uint32));
	outboxes->large = palloc0(shape->workers * sizeof(RfReassembly));
	outboxes->reading = shape->own >= 0;
	dlist_init(&outboxes->to_send);
	dlist_init(&outboxes->to_read);
	for (int worker = 0; worker < shape->workers; worker++)
	{
		SharedOutbox *outbox = outbox_of(shared, worker);

		outbox->proc = NULL;
		pg_atomic_init_u32(&outbox->filled, 0);
		pg_atomic_init_u64(&outbox->rows, 0);
		pg_atomic_init_u64(&outbox->filtered, 0);
		for (uint32 i = 0; i < shared->batches; i++)
			pg_atomic_init_u32(&batch_of(shared, outbox, i)->free, 1);
		rf_reassembly_init(&outboxes->large[worker], CurrentMemoryContext, "a worker's row", 0);
	}
	return outboxes;
}

static void
give_back(ExchangeOutboxes *outboxes, int worker, int number)
{
	SharedOutboxes *shared = outboxes->shared;
	SharedOutbox *outbox = outbox_of(shared, worker);

	pg_memory_barrier();
	pg_atomic_write_u32(&batch_of(shared, outbox, number)->free, 1);
	SetLatch(&outbox->proc->procLatch);
}

static void
forget(ExchangeOutboxes *outboxes, const ExchangeWorkerBatch *batch)
{
	if (batch->worker >= 0)
		give_back(outboxes, batch->worker, batch->number);
	else
		pfree(unconstify(uint8 *, batch->data));
	pfree(unconstify(ExchangeWorkerBatch *, batch));
	outboxes->waiting--;
}

static void
enlist_to_read(ExchangeOutboxes *outboxes, ExchangeWorkerBatch *batch)
{
	if (outboxes->reading)
		dlist_push_tail(&outboxes->to_read, &batch->node);
	else
		forget(outboxes, batch);
}

/*
 * Takes over one batch that a worker has handed over. Pieces of a large row are put together in
 * private memory first.
 */
static void
enlist(ExchangeOutboxes *outboxes, int worker, int number)
{
	SharedOutboxes *shared = outboxes->shared;
	SharedOutbox *outbox = outbox_of(shared, worker);
	SharedBatch *from = batch_of(shared, outbox, number);
	ExchangeWorkerBatch *batch = MemoryContextAllocZero(outboxes->context,
														sizeof(ExchangeWorkerBatch));

	batch->worker = worker;
	batch->number = number;
	batch->consumer = from->consumer;
	batch->data = bytes_of(shared, outbox, number);
	batch->length = from->length;
	batch->rows = from->rows;
	if ((from->flags & (RF_SLOT_FIRST | RF_SLOT_LAST)) != (RF_SLOT_FIRST | RF_SLOT_LAST))
	{
		RfBuffer	piece = {
		bytes_of(shared, outbox, number), from->length, from->flags, 0, from->offset, 0};
		RfReassembly *large = &outboxes->large[worker];
		bool		complete = rf_reassembly_add(large, &piece);

		give_back(outboxes, worker, number);
		if (!complete)
		{
			pfree(batch);
			return;
		}
		batch->worker = -1;
		batch->length = (uint32) large->length;
		batch->data = (uint8 *) rf_reassembly_detach(large);
	}
	outboxes->waiting++;
	if (batch->consumer == shared->shape.own)
		enlist_to_read(outboxes, batch);
	else
		dlist_push_tail(&outboxes->to_send, &batch->node);
}

/* Batches that a worker has handed over and the leader has not taken yet. */
static uint32
untaken(const ExchangeOutboxes *outboxes, int worker)
{
	return pg_atomic_read_u32(&outbox_of(outboxes->shared, worker)->filled) -
		outboxes->taken[worker];
}

bool
rf_outboxes_take(ExchangeOutboxes *outboxes)
{
	SharedOutboxes *shared = outboxes->shared;
	bool		any = false;

	if (!dlist_is_empty(&outboxes->to_send))
		return false;
	for (int worker = 0; worker < shared->shape.workers; worker++)
	{
		for (uint32 count = untaken(outboxes, worker); count > 0; count--)
		{
			uint32		turn = outboxes->taken[worker]++ % shared->batches;

			pg_read_barrier();
			enlist(outboxes, worker, order_of(outbox_of(shared, worker))[turn]);
			any = true;
		}
	}
	return any;
}

const ExchangeWorkerBatch *
rf_outboxes_next_to_send(ExchangeOutboxes *outboxes)
{
	return dlist_is_empty(&outboxes->to_send) ? NULL :
		dlist_container(ExchangeWorkerBatch, node, dlist_pop_head_node(&outboxes->to_send));
}

const ExchangeWorkerBatch *
rf_outboxes_next_to_read(ExchangeOutboxes *outboxes)
{
	return dlist_is_empty(&outboxes->to_read) ? NULL :
		dlist_container(ExchangeWorkerBatch, node, dlist_pop_head_node(&outboxes->to_read));
}

void
rf_outboxes_sent(ExchangeOutboxes *outboxes, const ExchangeWorkerBatch *batch)
{
	if (batch->consumer == outboxes->shared->shape.consumers)
		enlist_to_read(outboxes, unconstify(ExchangeWorkerBatch *, batch));
	else
		forget(outboxes, batch);
}

void
rf_outboxes_read(ExchangeOutboxes *outboxes, const ExchangeWorkerBatch *batch)
{
	forget(outboxes, batch);
}

bool
rf_outboxes_are_empty(const ExchangeOutboxes *outboxes)
{
	for (int worker = 0; worker < outboxes->shared->shape.workers; worker++)
	{
		if (untaken(outboxes, worker) > 0)
			return false;
	}
	return outboxes->waiting == 0;
}

void
rf_outboxes_stop(ExchangeOutboxes *outboxes)
{
	pg_atomic_write_u32(&outboxes->shared->stop, 1);
}

void
rf_outboxes_stop_reading(ExchangeOutboxes *outboxes)
{
	const ExchangeWorkerBatch *batch;

	outboxes->reading = false;
	while ((batch = rf_outboxes_next_to_read(outboxes)) != NULL)
		forget(outboxes, batch);
}

void
rf_outboxes_count(ExchangeOutboxes *outboxes, uint64 *rows, uint64 *filtered)
{
	*filtered = 0;
	for (int worker = 0; worker < outboxes->shared->shape.workers; worker++)
	{
		SharedOutbox *outbox = outbox_of(outboxes->shared, worker);

		rows[worker] = pg_atomic_read_u64(&outbox->rows);
		*filtered += pg_atomic_read_u64(&outbox->filtered);
	}
}

/* ---------- worker ---------- */

ExchangeOutbox *
rf_outbox_attach(void *space, int worker)
{
	ExchangeOutbox *outbox = palloc0(sizeof(ExchangeOutbox));
	SharedOutboxes *shared = shared_at(space);
	int			destinations = shared->shape.consumers + 1;

	outbox->shared = shared;
	outbox->own = outbox_of(shared, worker);
	outbox->filling = palloc(destinations * sizeof(int));
	outbox->done = palloc0(destinations * sizeof(uint32));
	for (int i = 0; i < destinations; i++)
		outbox->filling[i] = -1;
	outbox->own->proc = MyProc;
	return outbox;
}

RfAcquire
rf_outbox_acquire(ExchangeOutbox *outbox, int consumer, RfGroupBuffer *buffer)
{
	SharedOutboxes *shared = outbox->shared;

	for (uint32 i = 0; i < shared->batches && outbox->filling[consumer] < 0; i++)
	{
		SharedBatch *batch = batch_of(shared, outbox->own, i);

		if (pg_atomic_read_u32(&batch->free) == 0)
			continue;
		pg_memory_barrier();
		pg_atomic_write_u32(&batch->free, 0);
		outbox->filling[consumer] = i;
	}
	if (outbox->filling[consumer] < 0)
		return RF_ACQUIRE_FULL;
	buffer->buffer.data = bytes_of(shared, outbox->own, outbox->filling[consumer]);
	buffer->buffer.length = shared->shape.batch_size;
	buffer->member = consumer;
	return RF_ACQUIRED;
}

void
rf_outbox_submit(ExchangeOutbox *outbox, const RfGroupSubmit *submits, int count)
{
	SharedOutboxes *shared = outbox->shared;
	uint32		filled = pg_atomic_read_u32(&outbox->own->filled);

	for (int i = 0; i < count; i++)
	{
		int			consumer = submits[i].buffer->member;
		int			number = outbox->filling[consumer];
		SharedBatch *batch = batch_of(shared, outbox->own, number);

		if (submits[i].flags & RF_SLOT_FIRST)
			outbox->done[consumer] = 0;
		batch->consumer = consumer;
		batch->length = submits[i].length;
		batch->flags = submits[i].flags;
		batch->offset = outbox->done[consumer];
		batch->rows = submits[i].rows;
		outbox->done[consumer] += submits[i].length;
		outbox->filling[consumer] = -1;
		order_of(outbox->own)[filled % shared->batches] = number;
		pg_write_barrier();
		pg_atomic_write_u32(&outbox->own->filled, ++filled);
	}
	SetLatch(&shared->leader->procLatch);
}

bool
rf_outbox_is_stopped(const ExchangeOutbox *outbox)
{
	return pg_atomic_read_u32(&outbox->shared->stop) != 0;
}

void
rf_outbox_wait(ExchangeOutbox *outbox)
{
	static uint32 event = 0;

	if (event == 0)
		event = rf_wait_event_new("RdmaFdwOutbox");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1, event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

void
rf_outbox_count(ExchangeOutbox *outbox, uint64 rows, uint64 filtered)
{
	pg_atomic_write_u64(&outbox->own->rows, rows);
	pg_atomic_write_u64(&outbox->own->filtered, filtered);
}
