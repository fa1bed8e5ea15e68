/*
 * nodes.c - an exchange between many nodes, each of which sends the same number of rows to all of
 * them.
 *
 * All nodes are real and in one process, over the simulated fabric, without sockets. Of the
 * product: the lanes (a thread each) with their queues, chains, credits and claims, the flow tables
 * and slots, shared receive pools, segments lent to each peer alone (pool.c), descriptions of
 * groups, and the control protocol of every pair of engines, frame by frame, with its proofs
 * (handshake.c). This file replaces the engine's main thread and the backend, whose code needs
 * PostgreSQL. A thread of each node is producer and consumer at once; it routes rows of 64 bytes by
 * a hash, and its batches grow as in an exchange (src/exchange/node_out.c). Nothing is measured in
 * time that the product would have with machines of its own: all of them share this one's cores.
 * nodes_growth.c counts what it costs.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/engine/handshake.h"
#include "nodes.h"
#include "sim.h"

#include "shmem/life.h"
#include "shmem/ring.h"

SimNode    *bench_sim_nodes;
int			bench_node_count;
int			bench_lane_count;

static pthread_barrier_t begin;

void
bench_nodes_stop(const char *what, const RfError *error)
{
	fprintf(stderr, "bench: %d nodes: %s: %s\n", bench_node_count, what,
			error != NULL ? error->message : strerror(errno));
	_exit(1);
}

static uint64_t
hash64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* The place of `other` in a node's peer table, its flow towards it, and the one from it. */
static int
peer_of(const SimNode *node, int other)
{
	return other < node->me ? other : other - 1;
}

static uint32_t
flow_to(const SimNode *node, int other)
{
	return (uint32_t) peer_of(node, other);
}

static uint32_t
flow_from(const SimNode *node, int other)
{
	return (uint32_t) (bench_node_count - 1 + peer_of(node, other));
}

/* ---------- nodes and connections ---------- */

static void
wake_owner(RfFlow *flow)
{
	uint64_t	one = 1;

	if (write(bench_sim_nodes[flow->owner_proc].wake_fd, &one, sizeof(one)) < 0)
		bench_nodes_stop("wake", NULL);
}

static void
start_node(SimNode *node)
{
	uint32_t	flows = 2 * (uint32_t) (bench_node_count - 1);
	uint32_t	segments = 2 * (uint32_t) bench_node_count;
	size_t		shared_size = RF_SHARED_SIZE(flows);
	RfError		error = {0};
	RfLaneConfig config = bench_defaults();
	uint8_t    *arena = mmap(NULL, (size_t) segments * SEGMENT_SIZE, PROT_READ | PROT_WRITE,
							 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	node->shared = mmap(NULL, shared_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
						0);
	if (arena == MAP_FAILED || node->shared == MAP_FAILED)
		bench_nodes_stop("memory", NULL);
	node->shared->node = (RfNodeId) {.words = {(uint64_t) node->me + 1, 1}};
	node->shared->max_flows = flows;
	node->shared->lane_count = (uint32_t) bench_lane_count;
	node->shared->segment_count = segments;
	node->shared->segment_size = SEGMENT_SIZE;
	for (uint32_t i = 0; i < segments; i++)
		node->shared->segments[i].addr = arena + (size_t) i * SEGMENT_SIZE;
	for (int other = 0; other < bench_node_count; other++)
		if (other != node->me)
			node->shared->peers[peer_of(node, other)].node = (RfNodeId)
		{
			.words = {(uint64_t) other + 1, 1}
		};
	node->device = rf_provider_sim.device_open(NULL, &error);
	rf_provider_sim.device_caps(node->device, &node->shared->device);
	node->pool = rf_pool_create(node->shared, &rf_provider_sim);
	node->main_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	node->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (node->pool == NULL || node->main_fd < 0 || node->wake_fd < 0)
		bench_nodes_stop("start", NULL);
	config.shared = node->shared;
	config.provider = &rf_provider_sim;
	config.device = node->device;
	config.cq_depth = bench_node_count * (MAX_WR + MAX_RECV);
	config.max_wr = MAX_WR;
	config.polling_mode = RF_POLLING_EVENT;
	config.main_wake_fd = node->main_fd;
	config.wake_owner = wake_owner;
	for (int lane = 0; lane < bench_lane_count; lane++)
	{
		node->shared->lanes[lane].number = (uint32_t) lane;
		node->shared->lanes[lane].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		config.lane = lane;
		node->lanes[lane] = rf_lane_start(&config, &error);
		if (node->lanes[lane] == NULL)
			bench_nodes_stop("lane", &error);
	}
	for (int other = 0; other < bench_node_count; other++)
		if (other != node->me &&
			(node->domains[other] = rf_provider_sim.domain_create(node->device, &error)) == NULL)
			bench_nodes_stop("domain", &error);
}

/*
 * All messages that one engine has queued for the other; *last is the last message that its caller
 * gets.
 */
static void
deliver(SimNode *sender, RfHandshake *from, RfHandshake *to, RfControlMessage *last)
{
	RfControlHeader header;
	RfError		error = {0};

	for (uint32_t at = 0; at < from->out_used; at += (uint32_t) sizeof(header) + header.length)
	{
		memcpy(&header, from->out + at, sizeof(header));
		sender->setup_messages++;
		sender->setup_bytes += sizeof(header) + header.length;
	}
	while (from->out_used > 0)
	{
		uint8_t    *place;
		uint32_t	length = rf_handshake_room(to, &place);

		if (length > from->out_used)
			length = from->out_used;
		memcpy(place, from->out, length);
		rf_handshake_filled(to, length);
		rf_handshake_sent(from, length);
		if (rf_handshake_step(to, last, &error) == RF_STEP_FAILED)
			bench_nodes_stop("control message", &error);
	}
}

static void
connect_pair(SimNode *a, SimNode *b, RfHandshake *ours, RfHandshake *theirs)
{
	RfControlHello hello[2] = {{.node = a->shared->node}, {.node = b->shared->node}};
	RfControlMessage message;
	uint8_t		token[16] = {1};
	uint8_t		secret[RF_TOKEN_SIZE] = {2};
	uint8_t		connection[16] = {3};
	RfError		error = {0};

	for (int i = 0; i < 2; i++)
	{
		hello[i].image.byte_order_mark = 0x01020304;
		hello[i].lanes = (uint32_t) bench_lane_count;
		hello[i].provider = 1;
		hello[i].nonce[0] = (uint8_t) (i + 1);
	}
	rf_handshake_initiator(ours, &hello[0], token, secret);
	rf_handshake_acceptor(theirs, &hello[1]);
	deliver(a, ours, theirs, &message);
	deliver(b, theirs, ours, &message);
	deliver(a, ours, theirs, &message);
	if (!rf_handshake_verify(theirs, secret, &message.u.proof) ||
		!rf_handshake_welcome(theirs, secret, connection, (uint32_t) bench_lane_count, 1))
		bench_nodes_stop("proof", NULL);
	deliver(b, theirs, ours, &message);
	for (int lane = 0; lane < bench_lane_count; lane++)
	{
		SimNode    *ends[2] = {a, b};
		RfQp	   *qps[2];
		RfControlQp blob = {.lane = (uint32_t) lane};

		for (int i = 0; i < 2; i++)
		{
			int			peer = peer_of(ends[i], ends[1 - i]->me);
			RfQpConfig	config = {
			.max_wr = MAX_WR, .max_recv = MAX_RECV, .context = (void *) (intptr_t) peer};

			qps[i] = rf_provider_sim.qp_create(ends[i]->domains[ends[1 - i]->me],
											   rf_lane_cq(ends[i]->lanes[lane]), &config, &error);
			if (qps[i] == NULL)
				bench_nodes_stop("queue pair", &error);
			rf_provider_sim.qp_local(qps[i], blob.blob);
			rf_handshake_put(i == 0 ? ours : theirs, RF_CONTROL_QP, &blob, sizeof(blob));
		}
		deliver(a, ours, theirs, &message);
		deliver(b, theirs, ours, &message);
		rf_sim_connect(qps[0], qps[1]);
		for (int i = 0; i < 2; i++)
			rf_lane_add_connection(ends[i]->lanes[lane], peer_of(ends[i], ends[1 - i]->me), qps[i],
								   NULL);
	}
	rf_handshake_put(ours, RF_CONTROL_READY, NULL, 0);
	deliver(a, ours, theirs, &message);
	rf_handshake_put(theirs, RF_CONTROL_READY, NULL, 0);
	deliver(b, theirs, ours, &message);
	rf_handshake_up(ours);
	rf_handshake_up(theirs);
}

/* ---------- flows ---------- */

/*
 * Receive buffers for all producers of a node, where they are fewer than separate buffers for each.
 */
static void
make_receive_pool(SimNode *node)
{
	RfReceivePool *pool = &node->shared->receive_pools[0];
	RfPeerSet	peers = {0};
	RfDomain   *domains[RF_MAX_PEERS];
	RfError		error = {0};

	if ((bench_node_count - 1) * SLOTS <= POOL_BUFFERS)
		return;
	for (int other = 0; other < bench_node_count; other++)
	{
		if (other == node->me)
			continue;
		rf_peers_add(&peers, peer_of(node, other));
		domains[peer_of(node, other)] = node->domains[other];
	}
	pool->count = POOL_BUFFERS;
	pool->size = SLOT_SIZE;
	pool->claim = true;
	if (rf_pool_take_shared(node->pool, &peers, domains, rf_receive_bytes(POOL_BUFFERS, SLOT_SIZE),
							&node->receive_block, &error) != RF_POOL_TAKEN)
		bench_nodes_stop("receive pool", &error);
	rf_receive_init(pool, rf_pool_address(node->pool, &node->receive_block),
					node->shared->device.atomics);
	node->receive = pool;
}

/* Buffers that only this peer can reach. */
static void
take_buffers(SimNode *node, int other, uint32_t index, size_t size)
{
	RfFlow	   *flow = &node->shared->flows[index];
	RfError		error = {0};

	if (rf_pool_take(node->pool, peer_of(node, other), node->domains[other], size,
					 &node->blocks[index], &error) != RF_POOL_TAKEN)
		bench_nodes_stop("buffers", &error);
	flow->memory.buffers = rf_pool_address(node->pool, &node->blocks[index]);
	flow->memory.lkey = rf_pool_region(node->pool, &node->blocks[index],
									   peer_of(node, other))->lkey;
}

static RfFlow *
new_flow(SimNode *node, int other, uint32_t index, RfFlowRole role, uint32_t lane)
{
	RfFlow	   *flow = &node->shared->flows[index];

	rf_slots_reset(flow);
	node->blocks[index].segment = -1;
	flow->role = role;
	flow->peer = peer_of(node, other);
	flow->owner_proc = node->me;
	flow->memory.lane = lane;
	node->lane_flows[lane]++;
	return flow;
}

/* The work of both engines' main threads for a flow that has a listener. */
static void
open_flow(SimNode *from, SimNode *to, RfHandshake *producer, RfHandshake *consumer)
{
	RfControlOpen open = {.producer_flow = flow_to(from, to->me),
	.consumer_flow = flow_from(to, from->me)};
	RfControlOpened opened = {.producer_flow = open.producer_flow,
	.consumer_flow = open.consumer_flow};
	RfControlMessage message;
	const RfRegion *region;
	RfFlow	   *flow;

	for (int lane = 1; lane < bench_lane_count; lane++)
		if (from->lane_flows[lane] < from->lane_flows[open.lane])
			open.lane = (uint32_t) lane;
	open.key = hash64((uint64_t) from->me * MAX_NODES + (uint64_t) to->me + 1);
	rf_handshake_put(producer, RF_CONTROL_OPEN, &open, sizeof(open));
	deliver(from, producer, consumer, &message);

	flow = new_flow(to, from->me, open.consumer_flow, RF_FLOW_CONSUMER, message.u.open.lane);
	flow->key = open.key;
	flow->slot_count = SLOTS;
	flow->slot_size = SLOT_SIZE;
	flow->remote_flow = open.producer_flow;
	if (to->receive != NULL)
	{
		flow->pool = to->receive;
		flow->memory.buffers = rf_receive_buffer(to->receive, 0);
		region = rf_pool_region(to->pool, &to->receive_block, flow->peer);
		flow->memory.lkey = region->lkey;
		opened.pool_buffers = to->receive->count;
		opened.pool_claimable = to->receive->claimable;
	}
	else
	{
		take_buffers(to, from->me, open.consumer_flow, (size_t) SLOTS * SLOT_SIZE);
		region = rf_pool_region(to->pool, &to->blocks[open.consumer_flow], flow->peer);
	}
	opened.remote_addr = (uint64_t) (uintptr_t) flow->memory.buffers;
	opened.rkey = region->rkey;
	opened.slot_count = SLOTS;
	opened.slot_size = SLOT_SIZE;
	opened.weight = RF_DEFAULT_WEIGHT;
	atomic_store(&flow->state, RF_FLOW_OPEN);
	rf_lane_attach_flow(to->lanes[flow->memory.lane], open.consumer_flow);
	rf_handshake_put(consumer, RF_CONTROL_OPENED, &opened, sizeof(opened));
	deliver(to, consumer, producer, &message);

	flow = new_flow(from, to->me, open.producer_flow, RF_FLOW_PRODUCER, open.lane);
	flow->key = open.key;
	flow->remote_flow = open.consumer_flow;
	rf_slots_opened(flow, &message.u.opened);
	take_buffers(from, to->me, open.producer_flow,
				 (size_t) SLOTS * SLOT_SIZE + (flow->memory.pool_claimable > 0 ? RF_POOL_PAGE : 0));
	atomic_store(&flow->state, RF_FLOW_OPEN);
	rf_lane_attach_flow(from->lanes[flow->memory.lane], open.producer_flow);
}

static void
connect_nodes(void)
{
	RfHandshake *ends = calloc(2, sizeof(RfHandshake));

	for (int a = 0; a < bench_node_count; a++)
		make_receive_pool(&bench_sim_nodes[a]);
	for (int a = 0; a < bench_node_count; a++)
		for (int b = a + 1; b < bench_node_count; b++)
		{
			connect_pair(&bench_sim_nodes[a], &bench_sim_nodes[b], &ends[0], &ends[1]);
			open_flow(&bench_sim_nodes[a], &bench_sim_nodes[b], &ends[0], &ends[1]);
			open_flow(&bench_sim_nodes[b], &bench_sim_nodes[a], &ends[1], &ends[0]);
			rf_handshake_free(&ends[0]);
			rf_handshake_free(&ends[1]);
		}
	free(ends);
}

/* ---------- a node's backend ---------- */

static void
ring(SimNode *node, uint32_t index)
{
	RfFlow	   *flow = &node->shared->flows[index];

	rf_lane_queue(&node->shared->lanes[flow->memory.lane], node->shared->flows, index);
	node->lanes_to_wake |= 1u << flow->memory.lane;
}

/* One wake-up for all that was handed over. */
static void
wake_lanes(SimNode *node)
{
	for (; node->lanes_to_wake != 0; node->lanes_to_wake &= node->lanes_to_wake - 1)
		rf_lane_wake(&node->shared->lanes[__builtin_ctz(node->lanes_to_wake)]);
}

static void
submit(SimNode *node, int to, uint32_t flags)
{
	Outlet	   *outlet = &node->out[to];
	uint32_t	index = flow_to(node, to);

	if (rf_slot_submit(&node->shared->flows[index], &outlet->cursor, outlet->used, flags,
					   outlet->rows))
		ring(node, index);
	node->slots++;
	node->bytes += outlet->used;
	outlet->slot = NULL;
	outlet->used = outlet->rows = 0;
	outlet->room = outlet->room * ROOM_GROWTH < CAPACITY ? outlet->room * ROOM_GROWTH : CAPACITY;
}

/* False: its slots are all on their way. */
static bool
send_row(SimNode *node, int to, const uint64_t *row)
{
	Outlet	   *outlet = &node->out[to];

	if (outlet->slot == NULL &&
		(outlet->slot = rf_slot_fill(&node->shared->flows[flow_to(node, to)], &outlet->cursor)) ==
		NULL)
		return false;
	memcpy(outlet->slot + sizeof(RfSlotHeader) + outlet->used, row, ROW_BYTES);
	outlet->used += ROW_BYTES;
	outlet->rows++;
	if (outlet->used + ROW_BYTES > outlet->room)
		submit(node, to, RF_SLOT_FIRST | RF_SLOT_LAST);
	return true;
}

/* Takes arrivals. True: there were some. */
static bool
receive(SimNode *node, int *open)
{
	bool		moved = false;

	for (int from = 0; from < bench_node_count; from++)
	{
		uint32_t	index = flow_from(node, from);
		RfFlow	   *flow = &node->shared->flows[index];
		RfSlotHeader header;
		uint8_t    *payload;
		RfError		error = {0};
		RfSlotRead	result;

		if (from == node->me || node->in[from].ended)
			continue;
		while ((result = rf_slot_read(flow, &node->in[from], &header, &payload, &error)) ==
			   RF_READ_DATA)
		{
			for (uint32_t at = 0; at < header.length; at += ROW_BYTES)
			{
				uint64_t	row;

				memcpy(&row, payload + at, sizeof(row));
				node->sum += hash64(row);
			}
			node->rows += header.rows;
			if (rf_slot_release(flow, &node->in[from]))
				ring(node, index);
			if (flow->pool != NULL)
				rf_receive_wake(node->shared->lanes, flow->pool);
			moved = true;
		}
		if (result == RF_READ_BAD)
			bench_nodes_stop("bad slot", &error);
		if (result == RF_READ_END)
		{
			ring(node, index);
			if (flow->pool != NULL)
				rf_receive_wake(node->shared->lanes, flow->pool);
			(*open)--;
			moved = true;
		}
		else if (atomic_load(&flow->state) != RF_FLOW_OPEN)
			bench_nodes_stop("a flow failed", rf_flow_error(node->shared, flow));
	}
	return moved;
}

/* Until something has arrived, or a sender's flow (all_to: any) can go on. */
static void
sleep_node(SimNode *node, int to, bool all_to)
{
	RfFlow	   *flows = node->shared->flows;
	struct pollfd fd = {.fd = node->wake_fd, .events = POLLIN};
	bool		ready = false;
	uint64_t	value;
	int			got;

	for (int other = 0; other < bench_node_count && !ready; other++)
	{
		uint32_t	in = flow_from(node, other);
		uint32_t	out = flow_to(node, other);
		RfFlowWaiting waiting = node->out[other].cursor.ended ? RF_WAIT_ACK : RF_WAIT_SLOTS;

		if (other == node->me)
			continue;
		if (!node->in[other].ended)
		{
			atomic_store(&flows[in].waiting, RF_WAIT_ANY);
			ready = rf_slots_ready(&flows[in], &node->in[other], RF_WAIT_ANY);
		}
		if (!ready && (other == to ||
					   (all_to && !(node->out[other].cursor.ended && rf_slot_acked(&flows[out])))))
		{
			atomic_store(&flows[out].waiting, waiting);
			ready = rf_slots_ready(&flows[out], &node->out[other].cursor, waiting);
		}
	}
	if (!ready && (got = poll(&fd, 1, PATIENCE_MS)) <= 0)
		bench_nodes_stop(got == 0 ? "a node was not woken" : "sleep", NULL);
	if (!ready && read(node->wake_fd, &value, sizeof(value)) < 0)
		bench_nodes_stop("sleep", NULL);
	for (int other = 0; other < bench_node_count; other++)
	{
		if (other == node->me)
			continue;
		atomic_store_explicit(&flows[flow_from(node, other)].waiting, RF_WAIT_NONE,
							  memory_order_relaxed);
		atomic_store_explicit(&flows[flow_to(node, other)].waiting, RF_WAIT_NONE,
							  memory_order_relaxed);
	}
}

/*
 * The last rows and the end for flows that have a slot for them. Returns true when all of it has
 * been read.
 */
static bool
finish(SimNode *node, bool *moved)
{
	bool		acked = true;

	for (int to = 0; to < bench_node_count; to++)
	{
		Outlet	   *outlet = &node->out[to];
		RfFlow	   *flow = &node->shared->flows[flow_to(node, to)];

		if (to == node->me)
			continue;
		if (outlet->slot != NULL && outlet->used > 0)
			submit(node, to, RF_SLOT_FIRST | RF_SLOT_LAST);
		if (!outlet->cursor.ended && rf_slot_fill(flow, &outlet->cursor) != NULL)
		{
			submit(node, to, RF_SLOT_END);
			*moved = true;
		}
		acked &= outlet->cursor.ended && rf_slot_acked(flow);
	}
	return acked;
}

static void *
node_main(void *argument)
{
	SimNode    *node = argument;
	uint64_t	row[ROW_BYTES / sizeof(uint64_t)] = {0};
	uint32_t	next = 0;
	int			open = bench_node_count - 1;
	bool		acked = false;

	for (int to = 0; to < bench_node_count; to++)
		node->out[to].room = FIRST_ROOM;
	pthread_barrier_wait(&begin);
	while (open > 0 || !acked)
	{
		int			full = -1;
		bool		moved = next < ROWS;

		for (uint32_t i = 0; i < STEP_ROWS && next < ROWS && full < 0; i++)
		{
			int			to;

			row[0] = (uint64_t) node->me * ROWS + next + 1;
			to = (int) (hash64(row[0]) % (uint64_t) bench_node_count);
			if (to == node->me)
			{
				node->sum += hash64(row[0]);
				node->rows++;
			}
			else if (!send_row(node, to, row))
			{
				full = to;
				break;
			}
			node->rows_to[to]++;
			node->sum_to[to] += hash64(row[0]);
			next++;
		}
		if (full >= 0)
			moved = false;
		if (next == ROWS && !acked)
			acked = finish(node, &moved);
		moved |= receive(node, &open);
		wake_lanes(node);
		if (!moved && (open > 0 || !acked))
			sleep_node(node, full, next == ROWS);
	}
	for (int to = 0; to < bench_node_count; to++)
		if (to != node->me)
			node->slots_most += node->rows_to[to] * ROW_BYTES / (CAPACITY / ROW_BYTES * ROW_BYTES) +
				GROWING + 2;
	return NULL;
}

/* ---------- all nodes ---------- */

void
bench_nodes_start(int nodes, int lanes)
{
	bench_node_count = nodes;
	bench_lane_count = lanes;
	bench_sim_nodes = calloc((size_t) nodes, sizeof(SimNode));
	rf_sim_reset(&(RfSimConfig) {.seed = 1, .in_turn = true});
	for (int n = 0; n < nodes; n++)
	{
		bench_sim_nodes[n].me = n;
		start_node(&bench_sim_nodes[n]);
	}
	if (!rf_sim_start())
		bench_nodes_stop("fabric", NULL);
	connect_nodes();
}

double
bench_nodes_exchange(void)
{
	int64_t		started;

	pthread_barrier_init(&begin, NULL, (unsigned) bench_node_count + 1);
	for (int n = 0; n < bench_node_count; n++)
		if ((errno = pthread_create(&bench_sim_nodes[n].thread, NULL, node_main,
									&bench_sim_nodes[n])) != 0)
			bench_nodes_stop("thread", NULL);
	pthread_barrier_wait(&begin);
	started = bench_now_ns();
	for (int n = 0; n < bench_node_count; n++)
		pthread_join(bench_sim_nodes[n].thread, NULL);
	return (double) (bench_now_ns() - started) * 1e-9;
}

void
bench_nodes_close(void)
{
	uint32_t	flows = 2 * (uint32_t) (bench_node_count - 1);
	uint32_t	left = (uint32_t) bench_node_count * flows;
	int64_t		until = bench_now_ns() + (int64_t) PATIENCE_MS * 1000000;

	for (int n = 0; n < bench_node_count; n++)
		for (uint32_t i = 0; i < flows; i++)
		{
			uint32_t	lane;

			(void) rf_flow_leave(&bench_sim_nodes[n].shared->flows[i], &lane);
			rf_lane_ring(&bench_sim_nodes[n].shared->lanes[lane],
						 bench_sim_nodes[n].shared->flows, i);
		}
	while (left > 0)
	{
		for (int n = 0; n < bench_node_count; n++)
			for (int lane = 0; lane < bench_lane_count; lane++)
			{
				RfLaneEvent event;

				while (rf_lane_event(bench_sim_nodes[n].lanes[lane], &event))
				{
					if (event.kind != RF_LANE_FLOW_DETACHED)
						bench_nodes_stop("a connection was lost", &event.error);
					rf_pool_return(bench_sim_nodes[n].pool, &bench_sim_nodes[n].blocks[event.flow]);
					left--;
				}
			}
		if (bench_now_ns() > until)
		{
			fprintf(stderr, "bench: %d nodes: %u flows did not end\n", bench_node_count, left);
			_exit(1);
		}
		usleep(1000);
	}
}
