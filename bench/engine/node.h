/* node.h - shared by the files that run a load. */
#ifndef BENCH_NODE_H
#define BENCH_NODE_H

#include <pthread.h>

#include "shmem/slots.h"

#include "bench.h"

#define BENCH_MAX_SAMPLES		(1u << 18)

typedef struct Backend
{
	struct Node *node;
	int			number;
	const BenchGroup *group;
	uint32_t	first;			/* its flows: first, first + step, ... below end */
	uint32_t	step;
	uint32_t	end;
	int			wake_fd;
	pthread_t	thread;
	uint32_t	member;			/* among its group's threads on this node */
	uint64_t	messages;
	uint64_t	bytes;
	uint32_t   *samples;		/* ns */
	uint32_t	sample_count;
} Backend;

typedef struct Node
{
	int			me;				/* 0 produces, 1 consumes */
	const BenchLoad *load;
	const RfProvider *provider;
	RfShared   *shared;
	RfLaneThread *lanes[RF_MAX_LANES];
	RfDevice   *device;
	RfDomain   *domains[RF_MAX_PEERS];
	RfRegion   *regions[RF_MAX_PEERS];
	uint8_t    *arenas[RF_MAX_PEERS];
	RfCq	   *drive_cq;		/* of a node that has no lane */
	RfQp	   *drive_qp;
	size_t		arena_size;
	struct RfValues *values;	/* NULL: no large values */
	Backend		backends[BENCH_MAX_THREADS];
	int			backend_count;
	uint64_t	memory;
} Node;

extern Node bench_nodes[2];

extern int64_t bench_stop_at(const Node *node);
extern void bench_fail(const char *what, const char *detail);

/* Sleep until one of these flows has something, or a while. */
extern void bench_sleep(Backend *backend, RfSlotCursor *cursors, uint32_t first, uint32_t end,
						RfFlowWaiting waiting);
extern void bench_ring(Node *node, uint32_t index);
extern void bench_submit(Backend *backend, RfSlotCursor *cursor, uint32_t index, uint32_t length,
						 uint32_t flags);

/* values.c */
extern void bench_values_open(Node *node);
extern void bench_values_close(Node *node);
extern void *bench_value_producer(void *backend);

/* drive.c */
extern void bench_drive(Node *node);

/* kinds.c */
extern void *bench_kind_producer(void *backend);
extern void *bench_kind_consumer(void *backend);

#endif
