/*
 * nodes.h - simulated nodes that exchange rows (nodes.c), and what that costs (nodes_growth.c).
 */
#ifndef BENCH_NODES_H
#define BENCH_NODES_H

#include <pthread.h>

#include "../../src/engine/pool.h"
#include "bench.h"

#include "shmem/slots.h"

#define MAX_NODES		256
#define ROWS			65536	/* of each node */
#define ROW_BYTES		64
#define SLOTS			4		/* rdma_fdw.receive_buffers */
#define SLOT_SIZE		(64u << 10) /* rdma_fdw.receive_buffer_size */
#define POOL_BUFFERS	16		/* four streams' */
#define SEGMENT_SIZE	(2u << 20)
#define CAPACITY		(SLOT_SIZE - (uint32_t) sizeof(RfSlotHeader))
#define FIRST_ROOM		8192u	/* of a flow's first batch, and the factor by which the next
								 * batches are larger */
#define ROOM_GROWTH		4u
#define GROWING			2		/* batches until they fill a slot */
#define STEP_ROWS		1024	/* interval between two checks for arrivals */
#define MAX_WR			512
#define MAX_RECV		1024
#define PATIENCE_MS		60000	/* only reached on failure */

typedef struct Outlet
{
	RfSlotCursor cursor;
	uint8_t    *slot;			/* being filled */
	uint32_t	used;
	uint32_t	room;
	uint32_t	rows;
} Outlet;

typedef struct SimNode
{
	int			me;
	RfShared   *shared;
	RfDevice   *device;
	RfPool	   *pool;
	RfLaneThread *lanes[RF_MAX_LANES];
	RfDomain   *domains[MAX_NODES];
	RfReceivePool *receive;		/* NULL: each producer has receive buffers of its own here */
	RfBlock		receive_block;
	RfBlock		blocks[2 * MAX_NODES];	/* by flow */
	uint32_t	lane_flows[RF_MAX_LANES];
	int			main_fd;
	int			wake_fd;
	pthread_t	thread;
	Outlet		out[MAX_NODES];
	RfSlotCursor in[MAX_NODES];
	uint32_t	lanes_to_wake;
	uint64_t	setup_messages;
	uint64_t	setup_bytes;
	uint64_t	slots;
	uint64_t	slots_most;
	uint64_t	bytes;
	uint64_t	rows_to[MAX_NODES]; /* sent, and a checksum of their contents */
	uint64_t	sum_to[MAX_NODES];
	uint64_t	rows;			/* that came, own messages included */
	uint64_t	sum;
} SimNode;

extern SimNode *bench_sim_nodes;
extern int	bench_node_count;
extern int	bench_lane_count;

/*
 * bench_nodes_start() starts `nodes` nodes of `lanes` lanes each, connects each node with each, and
 * opens a flow from each node to each. bench_nodes_exchange() sends the rows over the flows, and
 * returns the seconds that this took. bench_nodes_close() ends the flows. When one of them fails it
 * calls bench_nodes_stop(), which prints what failed and the error, or errno's text if the error is
 * NULL, and ends the process.
 */
extern void bench_nodes_start(int nodes, int lanes);
extern double bench_nodes_exchange(void);
extern void bench_nodes_close(void);
extern void bench_nodes_stop(const char *what, const RfError *error);

#endif							/* BENCH_NODES_H */
