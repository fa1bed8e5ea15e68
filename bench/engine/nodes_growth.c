/*
 * nodes_growth.c - what an exchange between 2 to 256 nodes (nodes.c) costs: connections, memory,
 * messages, and how they grow with the number of nodes.
 *
 * Each size runs in a process of its own, so that nothing is left of the one before.
 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nodes.h"

#include "shmem/group_desc.h"
#include "techniques.h"

#define PATIENCE		8		/* attempts to claim a buffer, after which a lane asks for one:
								 * MAX_PATIENCE there */
#define BOUNDS			9

/* Results of one size: of the node that has most of it, but for the totals. */
typedef struct Growth
{
	int			nodes;
	int			lanes;
	bool		pooled;
	uint64_t	qps;
	uint64_t	qps_of_lane;
	uint64_t	flows;
	uint64_t	setup_messages; /* of control connections, sent */
	uint64_t	setup_bytes;
	uint64_t	description;	/* bytes of the group's */
	uint64_t	receive_bytes;	/* receive buffers */
	uint64_t	send_bytes;
	uint64_t	segments;		/* lent, and so registered */
	uint64_t	registrations;
	uint64_t	memory;			/* bytes of all nodes' engines and of the fabric's queue pairs
								 * beyond buffers */
	uint64_t	slots;			/* sent, ends included */
	uint64_t	slots_most;		/* that the rows of a node can need by design */
	uint64_t	requests;
	uint64_t	work_requests;
	uint64_t	doorbells;
	uint64_t	control;		/* immediates alone: credits, ends, and asking for buffers */
	uint64_t	credits;
	uint64_t	claims;			/* compare-and-swaps, including lost attempts */
	uint64_t	grants;
	uint64_t	bytes;			/* of rows to other nodes, all nodes together */
	double		seconds;
	bool		right;			/* every row came exactly where it should */
} Growth;

static void
most(uint64_t *into, uint64_t value)
{
	if (value > *into)
		*into = value;
}

/* While the buffers are still theirs. */
static void
count_memory(Growth *growth)
{
	for (int n = 0; n < bench_node_count; n++)
	{
		SimNode    *node = &bench_sim_nodes[n];
		uint64_t	send = 0;
		uint64_t	receive = (uint64_t) (node->receive != NULL ? node->receive_block.pages : 0) *
		RF_POOL_PAGE;
		uint64_t	segments = 0;
		uint64_t	registrations = 0;

		for (uint32_t i = 0; i < node->shared->max_flows; i++)
			if (node->blocks[i].segment >= 0)
				*(node->shared->flows[i].role == RF_FLOW_PRODUCER ?
					  &send :
					  &receive) += (uint64_t) node->blocks[i].pages * RF_POOL_PAGE;
		for (uint32_t i = 0; i < node->shared->segment_count; i++)
			segments += node->shared->segments[i].peer != RF_NO_PEER;
		for (int peer = 0; peer < RF_MAX_PEERS; peer++)
			registrations += atomic_load(&node->shared->peers[peer].segments);
		most(&growth->send_bytes, send);
		most(&growth->receive_bytes, receive);
		most(&growth->segments, segments);
		most(&growth->registrations, registrations);
	}
}

static void
count_messages(Growth *growth)
{
	uint64_t	rows_to[MAX_NODES] = {0};
	uint64_t	sum_to[MAX_NODES] = {0};

	growth->right = true;
	for (int n = 0; n < bench_node_count; n++)
	{
		SimNode    *node = &bench_sim_nodes[n];
		uint64_t	qps = 0;
		uint64_t	requests = 0;
		uint64_t	work_requests = 0;
		uint64_t	doorbells = 0;
		uint64_t	claims = 0;
		uint64_t	grants = 0;
		uint64_t	credits = 0;

		for (int l = 0; l < bench_lane_count; l++)
		{
			RfLane	   *lane = &node->shared->lanes[l];
			uint64_t	of_lane = 0;

			for (int peer = 0; peer < RF_MAX_PEERS; peer++)
				of_lane += atomic_load(&lane->qps[peer].number) != 0;
			most(&growth->qps_of_lane, of_lane);
			qps += of_lane;
			requests += atomic_load(&lane->requests);
			work_requests += atomic_load(&lane->work_requests);
			doorbells += atomic_load(&lane->doorbells);
			claims += atomic_load(&lane->claims.won) + atomic_load(&lane->claims.lost);
			grants += atomic_load(&lane->claims.grants);
			growth->right &= atomic_load(&lane->protocol_errors) == 0;
		}
		for (uint32_t i = 0; i < node->shared->max_flows; i++)
			credits += atomic_load(&node->shared->flows[i].stats.credits_sent);
		most(&growth->qps, qps);
		most(&growth->flows, node->shared->max_flows);
		most(&growth->setup_messages, node->setup_messages);
		most(&growth->setup_bytes, node->setup_bytes);
		most(&growth->slots, node->slots);
		most(&growth->slots_most, node->slots_most);
		most(&growth->requests, requests);
		most(&growth->work_requests, work_requests);
		most(&growth->doorbells, doorbells);
		most(&growth->control, requests - node->slots - claims);
		most(&growth->credits, credits);
		most(&growth->claims, claims);
		most(&growth->grants, grants);
		growth->bytes += node->bytes;
		for (int to = 0; to < bench_node_count; to++)
		{
			rows_to[to] += node->rows_to[to];
			sum_to[to] += node->sum_to[to];
		}
	}
	for (int n = 0; n < bench_node_count; n++)
		growth->right &= rows_to[n] == bench_sim_nodes[n].rows &&
			sum_to[n] == bench_sim_nodes[n].sum;
}

static void
describe_group(Growth *growth)
{
	uint8_t		id[16] = {1};
	RfNodeId	members[2 * MAX_NODES];
	RfGroupShape shape = {RF_GROUP_REPARTITION, (uint32_t) bench_node_count,
		(uint32_t) bench_node_count, SLOTS,
	SLOT_SIZE};
	RfGroupDesc *desc = malloc(rf_group_desc_size(shape.kind, shape.producers, shape.consumers));
	RfError		error = {0};

	for (int i = 0; i < 2 * bench_node_count; i++)
		members[i] = bench_sim_nodes[i % bench_node_count].shared->node;
	if (!rf_group_desc_init(desc, &shape, id, members, &error))
		bench_nodes_stop("description", &error);
	growth->description = desc->length;
	free(desc);
}

static size_t
allocated(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void
run(Growth *growth)
{
	size_t		before = allocated();

	bench_nodes_start(growth->nodes, growth->lanes);
	growth->memory = allocated() - before - (size_t) growth->nodes * sizeof(SimNode) +
		(uint64_t) growth->nodes * RF_SHARED_SIZE(bench_sim_nodes[0].shared->max_flows);
	growth->pooled = bench_sim_nodes[0].receive != NULL;
	describe_group(growth);
	growth->seconds = bench_nodes_exchange();
	count_memory(growth);
	bench_nodes_close();
	count_messages(growth);
}

/* False: it failed, and has said why. */
static bool
run_apart(Growth *growth)
{
	Growth	   *shared = mmap(NULL, sizeof(*growth), PROT_READ | PROT_WRITE,
							  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int			status = 1;
	pid_t		pid;

	if (shared == MAP_FAILED)
		return false;
	*shared = *growth;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
	{
		run(shared);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return false;
	*growth = *shared;
	munmap(shared, sizeof(*growth));
	return status == 0;
}

static double
over(uint64_t value, uint64_t other)
{
	return (double) value / (double) other;
}

void
bench_nodes_growth(const char *transport)
{
	static const int sizes[][2] = {{2, 1}, {4, 1}, {8, 1}, {16, 1}, {32, 1},
	{64, 1}, {128, 1}, {256, 1}, {16, 4}};
	double		worst[BOUNDS] = {0};
	Growth		before = {0};
	bool		right = true;

	if (bench_counting)
	{
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			if (sizes[i][0] <= bench_most_nodes)
				bench_step("nodes", transport, "", (uint64_t) (sizes[i][0] * sizes[i][0]));
		return;
	}
	printf(
		   "nodes\tnodes\tlanes\tqueue pairs\tof a lane\tgrowth (N-1)\tset-up messages\tset-up "
		   "kB\tdescription kB\treceive kB\tsend kB\tsegments\t"
		   "engine kB/peer\tslots\twork "
		   "requests\tgrowth\tdoorbells\tcontrol\tcredits\tclaims\tgrants\tMB/s/node\n");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		Growth		g = {.nodes = sizes[i][0], .lanes = sizes[i][1]};
		uint64_t	peers = (uint64_t) g.nodes - 1;
		char		growth[2][48] = {"-", "-"};
		double		bounds[BOUNDS];
		char		what[32];

		if (g.nodes > bench_most_nodes)
			continue;
		snprintf(what, sizeof(what), "%d nodes", g.nodes);
		bench_step("nodes", transport, what, (uint64_t) (g.nodes * g.nodes));
		if (!run_apart(&g))
		{
			fprintf(stderr, "bench: the exchange between %d nodes failed\n", g.nodes);
			exit(1);
		}
		if (before.nodes > 0 && before.lanes == g.lanes)
		{
			snprintf(growth[0], sizeof(growth[0]), "%.2f (%.2f)", over(g.qps, before.qps),
					 over(peers, (uint64_t) before.nodes - 1));
			snprintf(growth[1], sizeof(growth[1]), "%.2f",
					 over(g.work_requests, before.work_requests));
		}
		printf(
			   "nodes\t%d\t%d\t%lu\t%lu\t%s\t%lu\t%.1f\t%.1f\t%lu\t%lu\t%lu\t%.1f\t"
			   "%lu\t%lu\t%s\t%lu\t%lu\t%lu\t%lu\t%lu\t%.2f\n",
			   g.nodes, g.lanes, g.qps, g.qps_of_lane, growth[0], g.setup_messages,
			   (double) g.setup_bytes / 1024, (double) g.description / 1024,
			   g.receive_bytes / 1024, g.send_bytes / 1024, g.segments,
			   (double) g.memory / 1024 / (double) g.nodes / (double) peers, g.slots,
			   g.work_requests, growth[1], g.doorbells, g.control, g.credits, g.claims,
			   g.grants, (double) g.bytes / (double) g.nodes / g.seconds / 1e6);
		fflush(stdout);
		bounds[0] = over(g.qps, peers * (uint64_t) g.lanes);
		bounds[1] = over(g.setup_messages, peers * (5 + (uint64_t) g.lanes));
		bounds[2] = over(g.receive_bytes, g.pooled ? rf_receive_bytes(POOL_BUFFERS, SLOT_SIZE) :
						 peers * SLOTS * SLOT_SIZE);
		bounds[3] = over(g.send_bytes, peers * (SLOTS * SLOT_SIZE + RF_POOL_PAGE));
		bounds[4] = over(g.segments, peers + g.pooled);
		bounds[5] = over(g.slots, g.slots_most);
		bounds[6] = over(g.claims, PATIENCE * g.slots_most);
		bounds[7] = over(g.control, 2 * peers + 3 * g.slots_most);
		bounds[8] = over(g.work_requests, 2 * peers + (4 + PATIENCE) * g.slots_most);
		for (int b = 0; b < BOUNDS; b++)
			worst[b] = fmax(worst[b], bounds[b]);
		right &= g.right;
		before = g;
	}
	bench_row("nodes", transport, "queue pairs over lanes x (N - 1)", worst[0], false, 1, "-");
	bench_row("nodes", transport, "set-up messages over (N - 1) x (5 + lanes)", worst[1], false, 1,
			  "-");
	bench_row("nodes", transport,
			  "receive buffers over the pool's setting, or what fewer producers have", worst[2],
			  false, 1, "-");
	bench_row("nodes", transport, "send buffers over (N - 1) x (buffers of a stream + 4 kB)",
			  worst[3], false, 1, "-");
	bench_row("nodes", transport, "lent segments over (N - 1) + 1", worst[4], false, 1, "-");
	bench_row("nodes", transport, "slots over rows / slot + 4 x (N - 1)", worst[5], false, 1, "-");
	bench_row("nodes", transport, "attempts to claim a receive buffer over 16 x slots", worst[6],
			  false, 1, "-");
	bench_row("nodes", transport, "control messages over 2 x (N - 1) + 3 x slots", worst[7], false,
			  1, "-");
	bench_row("nodes", transport, "work requests over 2 x (N - 1) + 20 x slots", worst[8], false, 1,
			  "-");
	bench_row("nodes", transport, "every row where it belongs, no protocol error", right, true, 1,
			  "-");
	bench_note(
			   "nodes",
			   "real at every size: all nodes with all their lanes, queue pairs' state, flows, "
			   "buffers and control messages; in place of adapters and "
			   "wires the simulated fabric, of the engine's main thread and the backend a "
			   "stand-in. %d rows of %d bytes per node, streams of %d buffers of "
			   "%u kB, %d receive buffers in a pool, segments of %u MB",
			   ROWS, ROW_BYTES, SLOTS, SLOT_SIZE >> 10, POOL_BUFFERS, SEGMENT_SIZE >> 20);
	bench_note(
			   "nodes",
			   "growth is per doubling of the nodes, in brackets that of N - 1. Slots grow with N "
			   "- 1 once a node has less than a few buffers of "
			   "rows for each other. MB/s are of all nodes on this machine's cores together, so "
			   "they say nothing of machines of their own");
	bench_note(
			   "nodes",
			   "a group's description holds 16 bytes for each pair and every node gets it: the one "
			   "thing that grows by N x N, 1 MB at 256 nodes");
	bench_note(
			   "nodes",
			   "engine kB/peer has all of a node's shared and private memory beyond buffers, so it "
			   "falls to what one more peer costs, %zu bytes of "
			   "it in shared memory",
			   sizeof(RfPeer) + sizeof(RfLaneQp) + 2 * (sizeof(RfFlow) + sizeof(RfError)));
}
