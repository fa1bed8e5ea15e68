/*
 * node_queues.c - queues of batches, from the workers that run an exchange's query to their leader.
 *
 * A flow has one writer: its slots are filled in order. So workers do not send themselves; they do
 * all that has to be done row by row, and pass whole batches to the leader, each by a shm_mq of its
 * own. The leader copies their bytes into send buffers, or reads batches for this node as if they
 * had been received. The number of flows, and the view of other nodes, do not depend on the number
 * of workers.
 *
 * The leader has one batch of each worker at a time: while it lies in the queue, the worker writes
 * behind it. A worker waits for room in its queue only; node_drive.c has why that cannot hang.
 *
 * Shared besides the queues: `stop`, which the leader sets once, and counters, which each worker
 * writes before it ends. The Gather owns the space and frees it.
 */
#include "node.h"

#include "access/parallel.h"
#include "storage/proc.h"
#include "storage/shm_mq.h"

#include "rdma_fdw/compat.h"

/* Batches that fit into a queue: the more, the fewer lie across its end and have to be copied. */
#define QUEUE_BATCHES	8

/* Written by the worker, before its end. */
typedef struct SharedCounts
{
	pg_atomic_uint64 rows;		/* taken from the plan */
	pg_atomic_uint64 filtered;
} SharedCounts;

typedef struct SharedQueues
{
	ExchangeQueueShape shape;
	pg_atomic_uint32 stop;
	SharedCounts counts[FLEXIBLE_ARRAY_MEMBER]; /* of each worker; their queues follow */
} SharedQueues;

/* A message is this and the batch. */
typedef struct BatchHeader
{
	int64		consumer;		/* 8 bytes, so that the batch is 8-aligned */
	uint64		rows;
} BatchHeader;

typedef enum BatchState
{
	BATCH_FREE,					/* there is no batch */
	BATCH_TO_SEND,
	BATCH_TO_READ,
	BATCH_TAKEN					/* by the caller */
} BatchState;

typedef struct WorkerQueue
{
	shm_mq_handle *queue;
	BatchState	state;
	ExchangeWorkerBatch batch;
} WorkerQueue;

struct ExchangeQueues
{
	SharedQueues *shared;
	int			turn;			/* the worker that is asked first */
	bool		reading;		/* rows for this node are wanted */
	WorkerQueue workers[FLEXIBLE_ARRAY_MEMBER];
};

struct ExchangeQueue
{
	SharedQueues *shared;
	SharedCounts *counts;
	shm_mq_handle *queue;
	uint8	  **buffers;		/* for each destination, made when it is first needed */
	bool		stopped;		/* the leader has gone */
};

/* ---------- layout ---------- */

static Size
header_size(const ExchangeQueueShape *shape)
{
	return MAXALIGN(offsetof(SharedQueues, counts) + shape->workers * sizeof(SharedCounts));
}

static Size
queue_size(const ExchangeQueueShape *shape)
{
	Size		batch = MAXALIGN(sizeof(Size)) + sizeof(BatchHeader) + MAXALIGN(shape->batch_size);

	return shm_mq_minimum_size + batch * Max(QUEUE_BATCHES, shape->consumers + 1);
}

Size
rf_queues_size(const ExchangeQueueShape *shape)
{
	return header_size(shape) + shape->workers * queue_size(shape);
}

static void *
queue_at(SharedQueues *shared, int worker)
{
	return (char *) shared + header_size(&shared->shape) + worker * queue_size(&shared->shape);
}

/* ---------- leader ---------- */

ExchangeQueues *
rf_queues_create(const ExchangeQueueShape *shape, void *space, dsm_segment * segment)
{
	SharedQueues *shared = space;
	ExchangeQueues *queues = palloc0(offsetof(ExchangeQueues, workers) +
									 shape->workers * sizeof(WorkerQueue));

	shared->shape = *shape;
	pg_atomic_init_u32(&shared->stop, 0);
	queues->shared = shared;
	queues->reading = shape->own >= 0;
	for (int worker = 0; worker < shape->workers; worker++)
	{
		shm_mq	   *queue = shm_mq_create(queue_at(shared, worker), queue_size(shape));

		shm_mq_set_receiver(queue, MyProc);
		queues->workers[worker].queue = shm_mq_attach(queue, segment, NULL);
		pg_atomic_init_u64(&shared->counts[worker].rows, 0);
		pg_atomic_init_u64(&shared->counts[worker].filtered, 0);
	}
	return queues;
}

/* Is the batch for this node, too? */
static BatchState
state_to_read(const ExchangeQueues *queues)
{
	return queues->reading ? BATCH_TO_READ : BATCH_FREE;
}

/* Takes the next batch out of the queue of a worker whose last batch is done with. */
static void
receive(ExchangeQueues *queues, WorkerQueue *worker)
{
	Size		size;
	void	   *data;
	BatchHeader *header;

	/* detached: it has ended */
	if (shm_mq_receive(worker->queue, &size, &data, true) != SHM_MQ_SUCCESS)
		return;
	header = data;
	worker->batch.consumer = (int) header->consumer;
	worker->batch.rows = header->rows;
	worker->batch.data = (const uint8 *) (header + 1);
	worker->batch.length = size - sizeof(BatchHeader);
	worker->state = worker->batch.consumer == queues->shared->shape.own ? state_to_read(queues) :
		BATCH_TO_SEND;
}

/* The next batch in that state, of the workers in turn. */
static const ExchangeWorkerBatch *
take(ExchangeQueues *queues, BatchState state)
{
	int			count = queues->shared->shape.workers;

	for (int i = 0; i < count; i++)
	{
		WorkerQueue *worker = &queues->workers[queues->turn];

		queues->turn = (queues->turn + 1) % count;
		if (worker->state == BATCH_FREE)
			receive(queues, worker);
		if (worker->state != state)
			continue;
		worker->state = BATCH_TAKEN;
		return &worker->batch;
	}
	return NULL;
}

const ExchangeWorkerBatch *
rf_queues_next_to_send(ExchangeQueues *queues)
{
	return take(queues, BATCH_TO_SEND);
}

const ExchangeWorkerBatch *
rf_queues_next_to_read(ExchangeQueues *queues)
{
	return queues->reading ? take(queues, BATCH_TO_READ) : NULL;
}

static WorkerQueue *
worker_of(const ExchangeWorkerBatch *batch)
{
	return (WorkerQueue *) ((char *) unconstify(ExchangeWorkerBatch *, batch) -
							offsetof(WorkerQueue, batch));
}

void
rf_queues_sent(ExchangeQueues *queues, const ExchangeWorkerBatch *batch)
{
	worker_of(batch)->state = batch->consumer == queues->shared->shape.consumers ?
		state_to_read(queues) : BATCH_FREE;
}

void
rf_queues_read(ExchangeQueues *queues, const ExchangeWorkerBatch *batch)
{
	worker_of(batch)->state = BATCH_FREE;
}

bool
rf_queues_are_empty(ExchangeQueues *queues)
{
	for (int i = 0; i < queues->shared->shape.workers; i++)
	{
		WorkerQueue *worker = &queues->workers[i];

		if (worker->state == BATCH_FREE)
			receive(queues, worker);
		if (worker->state != BATCH_FREE)
			return false;
	}
	return true;
}

void
rf_queues_stop(ExchangeQueues *queues)
{
	pg_atomic_write_u32(&queues->shared->stop, 1);
}

void
rf_queues_stop_reading(ExchangeQueues *queues)
{
	queues->reading = false;
	for (int i = 0; i < queues->shared->shape.workers; i++)
	{
		if (queues->workers[i].state == BATCH_TO_READ)
			queues->workers[i].state = BATCH_FREE;
	}
}

void
rf_queues_count(ExchangeQueues *queues, uint64 *rows, uint64 *filtered)
{
	*filtered = 0;
	for (int worker = 0; worker < queues->shared->shape.workers; worker++)
	{
		SharedCounts *counts = &queues->shared->counts[worker];

		rows[worker] = pg_atomic_read_u64(&counts->rows);
		*filtered += pg_atomic_read_u64(&counts->filtered);
	}
}

/* ---------- worker ---------- */

ExchangeQueue *
rf_queue_attach(void *space, int worker)
{
	ExchangeQueue *queue = palloc0(sizeof(ExchangeQueue));
	SharedQueues *shared = space;
	shm_mq	   *mq = queue_at(shared, worker);

	queue->shared = shared;
	queue->counts = &shared->counts[worker];
	shm_mq_set_sender(mq, MyProc);
	queue->queue = shm_mq_attach(mq, NULL, NULL);
	queue->buffers = palloc0((shared->shape.consumers + 1) * sizeof(uint8 *));
	return queue;
}

void
rf_queue_buffer(ExchangeQueue *queue, int consumer, RfGroupBuffer *buffer)
{
	uint32		size = queue->shared->shape.batch_size;

	if (queue->buffers[consumer] == NULL)
		queue->buffers[consumer] = palloc(size);
	buffer->buffer.data = queue->buffers[consumer];
	buffer->buffer.length = size;
	buffer->member = consumer;
}

void
rf_queue_put(ExchangeQueue *queue, int consumer, const uint8 *batch, uint32 length, uint64 rows)
{
	BatchHeader header = {consumer, rows};
	shm_mq_iovec parts[] = {
		{(const char *) &header, sizeof(header)},
		{(const char *) batch, length}
	};

	queue->stopped = queue->stopped ||
		shm_mq_sendv(queue->queue, parts, 2, false, true) == SHM_MQ_DETACHED;
}

bool
rf_queue_is_stopped(const ExchangeQueue *queue)
{
	return queue->stopped || pg_atomic_read_u32(&queue->shared->stop) != 0;
}

void
rf_queue_end(ExchangeQueue *queue, uint64 rows, uint64 filtered)
{
	pg_atomic_write_u64(&queue->counts->rows, rows);
	pg_atomic_write_u64(&queue->counts->filtered, filtered);
	shm_mq_detach(queue->queue);
}
