/*
 * node.c - one run: two nodes, their lanes, their flows, and threads that stand for the backends.
 *
 * Group 0's flows come first in both nodes' tables, at the same index on both sides; flow i belongs
 * to peer i mod peers. Everything stands before the clock starts; producers stop when the time is
 * over and end their streams, and the run ends when the consumers have seen all ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node.h"
#include "base/clock.h"
#include "engine/admit.h"
#include "shmem/ring.h"
#include "shmem/slots.h"
#include "sim.h"

#define MAX_RECV		512
#define SLEEP_MS		100

/* The engines' messages to each other, in place of the handshake; shared by the processes. */
typedef struct Meeting
{
	uint8_t		blob[2][RF_MAX_PEERS][RF_MAX_LANES][RF_QP_BLOB_SIZE];
	uint32_t	rkey[2][RF_MAX_PEERS];
	uint64_t	addr[2][RF_MAX_PEERS];
	atomic_int	step[2];		/* how far a node has come */
	atomic_int	failed;
	int64_t		begin_ns;
	int64_t		end_ns[2];
	double		cpu[2];
	BenchResult result[2];		/* the counters of each node */
} Meeting;

Node		bench_nodes[2];
static Meeting *meeting;
static int	socks[2][RF_MAX_PEERS][RF_MAX_LANES];

int64_t
bench_now_ns(void)
{
	return rf_clock_ns(CLOCK_MONOTONIC);
}

void
bench_part_cores(bool first_half)
{
	cpu_set_t	cores;
	cpu_set_t	mine;
	int			left;

	if (sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) < 2)
		return;
	CPU_ZERO(&mine);
	left = CPU_COUNT(&cores) / 2;
	for (int cpu = 0; left > 0; cpu++)
		if (CPU_ISSET(cpu, &cores))
		{
			CPU_SET(cpu, &mine);
			left--;
		}
	if (!first_half)
		CPU_XOR(&mine, &cores, &mine);
	(void) sched_setaffinity(0, sizeof(mine), &mine);
}

static double
cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static size_t
allocated(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* CPU time of the lanes alone. */
static double
lane_seconds(Node *node)
{
	double		sum = 0;

	for (int lane = 0; lane < node->load->lanes; lane++)
		sum += (double) atomic_load(&node->shared->lanes[lane].busy_us) * 1e-6;
	return sum;
}

void
bench_fail(const char *what, const char *detail)
{
	fprintf(stderr, "bench: %s: %s\n", what, detail);
	if (meeting != NULL)
		atomic_store(&meeting->failed, 1);
	_exit(1);
}

int64_t
bench_stop_at(const Node *node)
{
	return meeting->begin_ns + (int64_t) node->load->milliseconds * 1000000;
}

/* Both nodes come here. */
static void
meet(Node *node, int step)
{
	atomic_store(&meeting->step[node->me], step);
	while (atomic_load(&meeting->step[1 - node->me]) < step)
	{
		if (atomic_load(&meeting->failed) != 0)
			_exit(1);
		usleep(1000);
	}
}

RfLaneConfig
bench_defaults(void)
{
	RfLaneConfig config = {
		.max_wr = 128, .poll_batch = 32, .poll_us = 30, .probe_ms = 1000,
		.merge_limit = 1 << 20, .chain_limit = 16
	};

	return config;
}

static uint32_t
flow_count(const BenchLoad *load)
{
	uint32_t	count = 0;

	for (int g = 0; g < BENCH_GROUPS; g++)
		count += (uint32_t) load->groups[g].flows;
	return count;
}

static const BenchGroup *
group_of(const BenchLoad *load, uint32_t index)
{
	const BenchGroup *group = load->groups;

	while (index >= (uint32_t) group->flows)
		index -= (uint32_t) (group++)->flows;
	return group;
}

/* Its flows belong together: producers x consumers. */
static bool
is_group(const BenchGroup *group)
{
	return group->kind != BENCH_FLOWS && group->kind != BENCH_VALUES;
}

/* ---------- backends ---------- */

static void
wake_owner(RfFlow *flow)
{
	uint64_t	one = 1;
	Node	   *node = &bench_nodes[flow->owner_pid];

	if (write(node->backends[flow->owner_proc].wake_fd, &one, sizeof(one)) < 0)
		bench_fail("wake", strerror(errno));
}

void
bench_ring(Node *node, uint32_t index)
{
	RfFlow	   *flows = node->shared->flows;

	rf_lane_ring(&node->shared->lanes[flows[index].memory.lane], flows, index);
}

/* Sleep until one of these flows has something, or a while. */
void
bench_sleep(Backend *backend, RfSlotCursor *cursors, uint32_t first, uint32_t end,
			RfFlowWaiting waiting)
{
	RfFlow	   *flows = backend->node->shared->flows;
	struct pollfd fd = {.fd = backend->wake_fd, .events = POLLIN};
	bool		ready = false;
	uint64_t	value;

	for (uint32_t i = first; i < end && !ready; i += backend->step)
	{
		if (cursors[i].ended)
			continue;
		atomic_store(&flows[i].waiting, waiting);
		ready = rf_slots_ready(&flows[i], &cursors[i], waiting);
	}
	if (!ready && poll(&fd, 1, SLEEP_MS) > 0 && read(backend->wake_fd, &value, sizeof(value)) < 0)
		bench_fail("sleep", strerror(errno));
	for (uint32_t i = first; i < end; i += backend->step)
		atomic_store_explicit(&flows[i].waiting, RF_WAIT_NONE, memory_order_relaxed);
}

void
bench_submit(Backend *backend, RfSlotCursor *cursor, uint32_t index, uint32_t length,
			 uint32_t flags)
{
	if (rf_slot_submit(&backend->node->shared->flows[index], cursor, length, flags, 1))
		bench_ring(backend->node, index);
}

/* Put a message into the flow if it has a free slot. */
static bool
produce(Backend *backend, RfSlotCursor *cursor, uint32_t index, const uint8_t *source)
{
	const BenchGroup *group = backend->group;
	uint32_t	room = group->slot_size - (uint32_t) sizeof(RfSlotHeader);
	uint32_t	length = group->length != 0 ? group->length : room;
	uint8_t    *slot = rf_slot_fill(&backend->node->shared->flows[index], cursor);

	if (slot == NULL)
		return false;
	if (group->fill)
		memcpy(slot + sizeof(RfSlotHeader), source, length);
	if (group->latency)
	{
		int64_t		stamp = bench_now_ns();

		memcpy(slot + sizeof(RfSlotHeader), &stamp, sizeof(stamp));
	}
	bench_submit(backend, cursor, index, length, RF_SLOT_FIRST | RF_SLOT_LAST);
	return true;
}

static uint64_t
random_u64(uint64_t *state)
{
	uint64_t	x = (*state += 0x9e3779b97f4a7c15ull);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	return x ^ (x >> 31);
}

static void *
producer_main(void *argument)
{
	Backend    *backend = argument;
	Node	   *node = backend->node;
	const BenchGroup *group = backend->group;
	RfSlotCursor *cursors = calloc(BENCH_MAX_FLOWS, sizeof(RfSlotCursor));
	uint8_t    *source = malloc(group->slot_size);
	uint64_t	random = (uint64_t) backend->number + 1;
	int64_t		stop_at = bench_stop_at(node);
	int64_t		burst_at = bench_now_ns();
	uint32_t	index = backend->first;

	memset(source, 7, group->slot_size);
	while (bench_now_ns() < stop_at)
	{
		bool		moved = false;

		if (group->burst > 0)
		{
			/* A burst goes to the next flow; messages without room are waited for. */
			for (uint32_t i = 0; i < group->burst; i++)
				while (!produce(backend, &cursors[index], index, source))
					bench_sleep(backend, cursors, index, index + 1, RF_WAIT_SLOTS);
			index = index + backend->step < backend->end ? index + backend->step : backend->first;
			burst_at += (int64_t) group->gap_us * 500 +
				(int64_t) (random_u64(&random) % (group->gap_us + 1)) * 1000;
			if (burst_at < bench_now_ns())
				burst_at = bench_now_ns();
			while (bench_now_ns() < burst_at)
			{
				struct timespec until = {.tv_sec = burst_at / 1000000000,
				.tv_nsec = burst_at % 1000000000};

				clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
			}
			continue;
		}
		for (uint32_t i = backend->first; i < backend->end; i += backend->step)
			moved |= produce(backend, &cursors[i], i, source);
		if (!moved)
			bench_sleep(backend, cursors, backend->first, backend->end, RF_WAIT_SLOTS);
	}

	/* The end of every stream. */
	for (uint32_t i = backend->first; i < backend->end; i += backend->step)
	{
		while (rf_slot_fill(&node->shared->flows[i], &cursors[i]) == NULL)
			bench_sleep(backend, cursors, i, i + 1, RF_WAIT_SLOTS);
		bench_submit(backend, &cursors[i], i, 0, RF_SLOT_END);
	}
	free(cursors);
	free(source);
	return NULL;
}

static void *
consumer_main(void *argument)
{
	Backend    *backend = argument;
	Node	   *node = backend->node;
	const BenchGroup *group = backend->group;
	RfSlotCursor *cursors = calloc(BENCH_MAX_FLOWS, sizeof(RfSlotCursor));
	uint8_t    *target = malloc(group->slot_size);
	uint32_t	open = 0;

	memset(target, 0, group->slot_size);
	if (group->latency)
		backend->samples = malloc(BENCH_MAX_SAMPLES * sizeof(uint32_t));
	for (uint32_t i = backend->first; i < backend->end; i += backend->step)
		open++;
	while (open > 0)
	{
		bool		moved = false;

		for (uint32_t i = backend->first; i < backend->end; i += backend->step)
		{
			RfFlow	   *flow = &node->shared->flows[i];
			RfSlotHeader header;
			RfError		error = {0};
			uint8_t    *payload;
			RfSlotRead	result;

			if (cursors[i].ended)
				continue;
			result = rf_slot_read(flow, &cursors[i], &header, &payload, &error);
			if (result == RF_READ_NOTHING)
			{
				if (atomic_load(&flow->state) != RF_FLOW_OPEN)
					bench_fail("a flow failed", rf_flow_error(node->shared, flow)->message);
				continue;
			}
			moved = true;
			if (result == RF_READ_BAD)
				bench_fail("bad slot", error.message);
			if (result == RF_READ_END)
			{
				bench_ring(node, i);
				open--;
				continue;
			}
			if (group->latency)
			{
				int64_t		stamp;
				int64_t		took;

				memcpy(&stamp, payload, sizeof(stamp));
				took = bench_now_ns() - stamp;
				backend->samples[backend->sample_count++ % BENCH_MAX_SAMPLES] =
					took < UINT32_MAX ? (uint32_t) took : UINT32_MAX;
			}
			backend->messages++;
			backend->bytes += header.length;
			if (group->copy)
			{
				memcpy(target, payload, header.length);
				__asm__ volatile (""::"r" (target):"memory");
			}
			if (rf_slot_release(flow, &cursors[i]))
				bench_ring(node, i);
		}
		if (!moved && open > 0)
			bench_sleep(backend, cursors, backend->first, backend->end, RF_WAIT_ANY);
	}
	free(cursors);
	free(target);
	return NULL;
}

typedef void *(*ThreadBody) (void *backend);

static ThreadBody
body_of(const Node *node, const Backend *backend)
{
	if (backend->group->kind == BENCH_VALUES && node->me == 0)
		return bench_value_producer;
	if (!is_group(backend->group))
		return node->me == 0 ? producer_main : consumer_main;
	return node->me == 0 ? bench_kind_producer : bench_kind_consumer;
}

/* ---------- a node ---------- */

static void
open_device(Node *node)
{
	const char *transport = node->load->transport;
	RfProviderConfig config = {
		.gid_index = -1, .timeout = 14,
		.memory_to_register =
			node->arena_size * (size_t) node->load->peers + 2 * BENCH_VALUE_MEMORY,
		.soft_tcp_only = strcmp(transport, "tcp") == 0
	};
	RfError		error = {0};

	node->provider = strcmp(transport, "verbs") == 0 ? &rf_provider_verbs :
		strcmp(transport, "sim") == 0 ? &rf_provider_sim : &rf_provider_soft;
	node->device = node->provider->device_open(&config, &error);
	if (node->device == NULL)
		bench_fail(error.message, error.detail);
	node->provider->device_caps(node->device, &node->shared->device);
}

/* Every connection costs this much beside the buffers; told per peer by the scale row. */
static void
open_peer(Node *node, int peer)
{
	const RfProvider *provider = node->provider;
	RfError		error = {0};
	int			fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t) node->arena_size) != 0)
		bench_fail("arena", strerror(errno));
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	node->arenas[peer] = mmap(NULL, node->arena_size, PROT_READ | PROT_WRITE,
							  MAP_SHARED | MAP_POPULATE, fd, 0);
	if (node->arenas[peer] == MAP_FAILED)
		bench_fail("arena", strerror(errno));
	node->domains[peer] = provider->domain_create(node->device, &error);
	if (node->domains[peer] == NULL)
		bench_fail(error.message, error.detail);
	node->regions[peer] = provider->region_register(node->domains[peer], node->arenas[peer],
													node->arena_size, fd, &error);
	if (node->regions[peer] == NULL)
		bench_fail(error.message, error.detail);
	close(fd);
	meeting->rkey[node->me][peer] = node->regions[peer]->rkey;
	meeting->addr[node->me][peer] = (uint64_t) (uintptr_t) node->arenas[peer];
}

static void
connect_all(Node *node)
{
	const BenchLoad *load = node->load;
	const RfProvider *provider = node->provider;
	RfQp	   *qps[RF_MAX_PEERS][RF_MAX_LANES];
	RfError		error = {0};

	for (int peer = 0; peer < load->peers; peer++)
	{
		RfQpConfig	config = {.max_wr = (int) load->lane.max_wr,
			.max_recv = MAX_RECV,
		.context = (void *) (intptr_t) peer};

		if (node->shared->device.max_qp_wr > 0 && config.max_recv > node->shared->device.max_qp_wr)
			config.max_recv = node->shared->device.max_qp_wr;
		open_peer(node, peer);
		for (int lane = 0; lane < load->lanes; lane++)
		{
			RfCq	   *cq = node->drive_cq != NULL ? node->drive_cq :
				rf_lane_cq(node->lanes[lane]);

			qps[peer][lane] = provider->qp_create(node->domains[peer], cq, &config, &error);
			if (qps[peer][lane] == NULL)
				bench_fail(error.message, error.detail);
			provider->qp_local(qps[peer][lane], meeting->blob[node->me][peer][lane]);
		}
	}
	meet(node, 1);
	for (int peer = 0; peer < load->peers; peer++)
		for (int lane = 0; lane < load->lanes; lane++)
			if (!provider->qp_connect(qps[peer][lane], meeting->blob[1 - node->me][peer][lane],
									  socks[node->me][peer][lane], NULL, &error))
				bench_fail(error.message, error.detail);
	node->drive_qp = qps[0][0];
	for (int peer = 0; peer < load->peers && node->drive_cq == NULL; peer++)
		for (int lane = 0; lane < load->lanes; lane++)
			rf_lane_add_connection(node->lanes[lane], peer, qps[peer][lane], NULL);
}

/*
 * One flow's part of its peer's arena: slots, and behind the slots of a sender to a pool the place
 * for answers to its claims.
 */
static size_t
flow_bytes(const BenchGroup *group)
{
	return (size_t) group->slots * group->slot_size + (group->pool > 0 ? RF_RECEIVE_WORDS : 0);
}

/*
 * Where the reader receives: it has `place` bytes of its arena for the flow, or a pool for all
 * flows at the arena's beginning.
 */
static void
open_ends(Node *node, RfFlow *flow, const BenchGroup *group, size_t place)
{
	RfReceivePool *pool = &node->shared->receive_pools[0];
	RfControlOpened opened = {.slot_count = group->slots,
		.slot_size = group->slot_size,
		.remote_addr = meeting->addr[1 - node->me][flow->peer] + place,
	.rkey = meeting->rkey[1 - node->me][flow->peer]};

	if (group->pool > 0)
	{
		opened.remote_addr = meeting->addr[1][0] + RF_RECEIVE_WORDS;
		opened.pool_buffers = group->pool;
		opened.pool_claimable = node->shared->device.atomics && !group->granted ?
			group->pool - RF_RECEIVE_RESERVE :
			0;
	}
	if (node->me == 0)
		rf_slots_opened(flow, &opened);
	else
	{
		flow->slot_count = group->slots;
		flow->slot_size = group->slot_size;
		if (group->pool > 0)
		{
			flow->pool = pool;
			flow->memory.buffers = rf_receive_buffer(pool, 0);
		}
	}
}

static void
make_pool(Node *node, const BenchGroup *group)
{
	RfReceivePool *pool = &node->shared->receive_pools[0];

	pool->count = group->pool;
	pool->size = group->slot_size;
	pool->claim = !group->granted;
	rf_receive_init(pool, node->arenas[0], node->shared->device.atomics);
}

static void
open_flows(Node *node)
{
	const BenchLoad *load = node->load;
	size_t		used[RF_MAX_PEERS] = {0};

	if (load->groups[0].pool > 0 && node->me == 1)
		make_pool(node, &load->groups[0]);
	for (uint32_t i = 0; i < node->shared->max_flows; i++)
	{
		const BenchGroup *group = group_of(load, i);
		RfFlow	   *flow = &node->shared->flows[i];
		int			peer = (int) i % load->peers;
		size_t		place = used[peer];

		used[peer] += flow_bytes(group);
		rf_slots_reset(flow);
		flow->role = node->me == 0 ? RF_FLOW_PRODUCER : RF_FLOW_CONSUMER;
		flow->key = i + 1;
		flow->peer = peer;
		flow->remote_flow = i;
		flow->owner_pid = node->me;
		atomic_store(&flow->weight, group->weight);
		flow->memory.buffers = node->arenas[peer] + place;
		flow->memory.lkey = node->regions[peer]->lkey;
		flow->memory.lane = (i / (uint32_t) load->peers + (uint32_t) peer) % (uint32_t) load->lanes;
		open_ends(node, flow, group, place);
	}

	/* A group's flows are dealt out to its threads. */
	for (uint32_t g = 0, first = 0; g < BENCH_GROUPS; first += (uint32_t) load->groups[g++].flows)
	{
		const BenchGroup *group = &load->groups[g];

		int			threads = is_group(group) && node->me == 1 ? group->consumers : group->threads;

		for (int t = 0; t < threads; t++)
		{
			Backend    *backend = &node->backends[node->backend_count];

			backend->node = node;
			backend->number = node->backend_count++;
			backend->group = group;
			backend->first = first + (uint32_t) t;
			backend->member = (uint32_t) t;
			backend->step = (uint32_t) threads;
			backend->end = first + (uint32_t) group->flows;
			if (is_group(group) && node->me == 0)
			{
				/* One flow to each consumer. */
				backend->first = first + (uint32_t) (t * group->consumers);
				backend->step = 1;
				backend->end = backend->first + (uint32_t) group->consumers;
			}
			backend->wake_fd = eventfd(0, EFD_CLOEXEC);
			for (uint32_t i = backend->first; i < backend->end; i += backend->step)
				node->shared->flows[i].owner_proc = backend->number;
		}
	}
	for (uint32_t i = 0; i < node->shared->max_flows; i++)
	{
		atomic_store(&node->shared->flows[i].state, RF_FLOW_OPEN);
		if (node->drive_cq == NULL)
			rf_lane_attach_flow(node->lanes[node->shared->flows[i].memory.lane], i);
	}
}

static int
compare_samples(const void *a, const void *b)
{
	uint32_t	x = *(const uint32_t *) a;
	uint32_t	y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

static void
collect(Node *node)
{
	BenchResult *result = &meeting->result[node->me];
	uint32_t   *samples = NULL;
	size_t		count = 0;

	for (int b = 0; b < node->backend_count; b++)
	{
		Backend    *backend = &node->backends[b];
		uint32_t	more = backend->sample_count < BENCH_MAX_SAMPLES ? backend->sample_count :
			BENCH_MAX_SAMPLES;

		result->messages += backend->messages;
		result->bytes += backend->bytes;
		result->group_bytes[backend->group - node->load->groups] += backend->bytes;
		if (more == 0)
			continue;
		samples = realloc(samples, (count + more) * sizeof(uint32_t));
		memcpy(samples + count, backend->samples, more * sizeof(uint32_t));
		count += more;
		free(backend->samples);
	}
	if (count > 0)
	{
		qsort(samples, count, sizeof(uint32_t), compare_samples);
		result->p50 = samples[count / 2] / 1e3;
		result->p99 = samples[count - 1 - count / 100] / 1e3;
	}
	free(samples);
	for (int l = 0; l < node->load->lanes; l++)
	{
		RfLane	   *lane = &node->shared->lanes[l];

		result->work_requests += atomic_load(&lane->work_requests);
		result->in_place += atomic_load(&lane->in_place_bytes);
		result->throttled += atomic_load(&lane->throttled);
		result->merged_while_throttled += atomic_load(&lane->merged_while_throttled);
		result->doorbells += atomic_load(&lane->doorbells);
		result->claims += atomic_load(&lane->claims.won);
		result->claims_lost += atomic_load(&lane->claims.lost);
		result->claims_asked += atomic_load(&lane->claims.asked);
		result->polls += atomic_load(&lane->polls);
		result->sleeps += atomic_load(&lane->sleeps);
	}
	for (uint32_t i = 0; i < node->shared->max_flows; i++)
	{
		RfFlowStats *stats = &node->shared->flows[i].stats;

		result->merged += atomic_load(&stats->merged);
		result->chained += atomic_load(&stats->chained);
		result->credit_stalls += atomic_load(&stats->credit_stalls);
	}
	for (int g = 0; g < BENCH_GROUPS; g++)
	{
		const BenchGroup *group = &node->load->groups[g];

		result->receive_memory += group->pool > 0 ?
			rf_receive_bytes(group->pool, group->slot_size) :
			(uint64_t) group->flows * group->slots * group->slot_size;
	}
	result->registrations = atomic_load(&node->shared->values.registrations);
	result->calibration = node->shared->calibration;
	result->high_water = atomic_load(&node->shared->admission.high_water);
	result->memory = node->memory;
}

static void *
node_main(void *argument)
{
	Node	   *node = argument;
	const BenchLoad *load = node->load;
	RfError		error = {0};
	RfLaneConfig config = load->lane;
	uint32_t	flows = flow_count(load);
	int			main_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	bool		driving = load->drive && node->me == 0;
	size_t		sizes[RF_MAX_PEERS] = {0};
	size_t		before;
	double		cpu;

	if (load->apart)
		bench_part_cores(node->me == 0);
	before = allocated();
	for (uint32_t i = 0; i < flows; i++)
	{
		size_t	   *peer_size = &sizes[i % (uint32_t) load->peers];

		*peer_size += flow_bytes(group_of(load, i));
		if (*peer_size > node->arena_size)
			node->arena_size = *peer_size;
	}
	if (load->groups[0].pool > 0 &&
		node->arena_size < rf_receive_bytes(load->groups[0].pool, load->groups[0].slot_size))
		node->arena_size = rf_receive_bytes(load->groups[0].pool, load->groups[0].slot_size);
	open_device(node);
	config.shared = node->shared;
	config.provider = node->provider;
	config.device = node->device;
	config.cq_depth = load->peers * ((int) config.max_wr + MAX_RECV);
	if (node->me == 0)
		config.admission_window = load->window;
	config.main_wake_fd = main_fd;
	config.wake_owner = wake_owner;
	if (node->shared->device.max_qp_wr > 0 &&
		config.max_wr > (uint32_t) node->shared->device.max_qp_wr)
		config.max_wr = (uint32_t) node->shared->device.max_qp_wr;
	if (driving)
	{
		node->drive_cq = node->provider->cq_create(node->device, config.cq_depth, &error);
		if (node->drive_cq == NULL)
			bench_fail(error.message, error.detail);
	}
	for (int lane = 0; lane < load->lanes && !driving; lane++)
	{
		config.lane = lane;
		node->lanes[lane] = rf_lane_start(&config, &error);
		if (node->lanes[lane] == NULL)
			bench_fail(error.message, error.detail);
	}
	connect_all(node);
	if (load->groups[0].kind == BENCH_VALUES && node->me == 0)
		bench_values_open(node);
	meet(node, 2);
	open_flows(node);
	node->memory = allocated() - before;
	meet(node, 3);

	if (node->me == 0)
		meeting->begin_ns = bench_now_ns();
	meet(node, 4);
	cpu = load->drive ? lane_seconds(node) : cpu_seconds();
	if (driving)
		bench_drive(node);
	for (int b = 0; b < node->backend_count && !load->drive; b++)
		if (pthread_create(&node->backends[b].thread, NULL, body_of(node, &node->backends[b]),
						   &node->backends[b]) != 0)
			bench_fail("thread", strerror(errno));
	for (int b = 0; b < node->backend_count && !load->drive; b++)
		pthread_join(node->backends[b].thread, NULL);
	if (load->drive)
		meet(node, 5);
	meeting->end_ns[node->me] = bench_now_ns();
	meeting->cpu[node->me] = (load->drive ? lane_seconds(node) : cpu_seconds()) - cpu;
	meet(node, 6);

	collect(node);
	for (int lane = 0; lane < load->lanes && !driving; lane++)
		rf_lane_stop(node->lanes[lane]);
	if (driving)
	{
		node->provider->qp_destroy(node->drive_qp);
		node->provider->cq_destroy(node->drive_cq);
	}
	meet(node, 7);
	if (node->values != NULL)
		bench_values_close(node);
	for (int peer = 0; peer < load->peers; peer++)
	{
		node->provider->region_deregister(node->domains[peer], node->regions[peer]);
		node->provider->domain_destroy(node->domains[peer]);
		munmap(node->arenas[peer], node->arena_size);
	}
	node->provider->device_close(node->device);
	for (int b = 0; b < node->backend_count; b++)
		close(node->backends[b].wake_fd);
	close(main_fd);
	return NULL;
}

/* ---------- a run ---------- */

static bool
socket_pair(bool tcp, int pair[2])
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	length = sizeof(address);
	int			one = 1;
	int			listener;

	if (!tcp && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return false;
	if (tcp)
	{
		listener = socket(AF_INET, SOCK_STREAM, 0);
		pair[0] = socket(AF_INET, SOCK_STREAM, 0);
		if (listener < 0 || pair[0] < 0 ||
			bind(listener, (struct sockaddr *) &address, length) != 0 || listen(listener, 1) != 0 ||
			getsockname(listener, (struct sockaddr *) &address, &length) != 0 ||
			connect(pair[0], (struct sockaddr *) &address, length) != 0)
			return false;
		pair[1] = accept(listener, NULL, NULL);
		close(listener);
		for (int i = 0; i < 2; i++)
			setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	for (int i = 0; i < 2; i++)
		fcntl(pair[i], F_SETFL, O_NONBLOCK);
	return pair[1] >= 0;
}

static bool
make_sockets(const BenchLoad *load)
{
	bool		soft = strcmp(load->transport, "shm") == 0 || strcmp(load->transport, "tcp") == 0;

	for (int peer = 0; peer < load->peers; peer++)
		for (int lane = 0; lane < load->lanes; lane++)
		{
			int			pair[2] = {-1, -1};

			if (soft && !socket_pair(strcmp(load->transport, "tcp") == 0, pair))
			{
				fprintf(stderr, "bench: sockets: %s\n", strerror(errno));
				return false;
			}
			socks[0][peer][lane] = pair[0];
			socks[1][peer][lane] = pair[1];
		}
	return true;
}

static void
close_sockets(const BenchLoad *load, int side)
{
	for (int peer = 0; peer < load->peers; peer++)
		for (int lane = 0; lane < load->lanes; lane++)
			if (socks[side][peer][lane] >= 0)
				close(socks[side][peer][lane]);
}

static bool
run_processes(const BenchLoad *load)
{
	pid_t		pids[2];
	bool		good = true;

	fflush(NULL);
	for (int me = 0; me < 2; me++)
	{
		pids[me] = fork();
		if (pids[me] == 0)
		{
			close_sockets(load, 1 - me);

			/*
			 * A node that waits for ever ends by a signal. Under emulation a run takes ten times
			 * as long.
			 */
			alarm(60 + load->milliseconds / 50);
			node_main(&bench_nodes[me]);
			_exit(0);
		}
	}
	for (int side = 0; side < 2; side++)
		close_sockets(load, side);
	for (int me = 0; me < 2; me++)
	{
		int			status = 1;

		if (pids[me] < 0 || waitpid(pids[me], &status, 0) < 0 || status != 0)
		{
			if (WIFSIGNALED(status))
				fprintf(stderr, "bench: node %d: signal %d\n", me, WTERMSIG(status));
			good = false;
			atomic_store(&meeting->failed, 1);
		}
	}
	return good;
}

static bool
run_threads(void)
{
	RfSimConfig sim = {.seed = 1};
	pthread_t	threads[2];

	rf_sim_reset(&sim);
	if (!rf_sim_start())
		return false;
	for (int me = 0; me < 2; me++)
		if (pthread_create(&threads[me], NULL, node_main, &bench_nodes[me]) != 0)
			bench_fail("thread", strerror(errno));
	for (int me = 0; me < 2; me++)
		pthread_join(threads[me], NULL);
	rf_sim_stop();
	return true;
}

bool
bench_run(const BenchLoad *load, BenchResult *result)
{
	bool		simulated = strcmp(load->transport, "sim") == 0;
	uint32_t	flows = flow_count(load);
	bool		good;

	meeting = mmap(NULL, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
				   0);
	if (meeting == MAP_FAILED || !make_sockets(load))
		return false;
	memset(bench_nodes, 0, sizeof(bench_nodes));
	for (int me = 0; me < 2; me++)
	{
		RfShared   *shared = mmap(NULL, RF_SHARED_SIZE(flows), PROT_READ | PROT_WRITE,
								  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (shared == MAP_FAILED)
			return false;
		shared->max_flows = flows;
		shared->lane_count = (uint32_t) load->lanes;
		for (int lane = 0; lane < load->lanes; lane++)
		{
			shared->lanes[lane].number = (uint32_t) lane;
			shared->lanes[lane].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		}
		bench_nodes[me].me = me;
		bench_nodes[me].load = load;
		bench_nodes[me].shared = shared;
	}
	good = simulated ? run_threads() : run_processes(load);

	*result = meeting->result[load->drive ? 0 : 1];
	result->seconds = (double) (meeting->end_ns[1] - meeting->begin_ns) * 1e-9;
	result->cpu[0] = meeting->cpu[0];
	result->cpu[1] = simulated ? 0 : meeting->cpu[1];
	result->work_requests = meeting->result[0].work_requests;
	result->doorbells = meeting->result[0].doorbells;
	result->merged = meeting->result[0].merged;
	result->chained = meeting->result[0].chained;
	result->credit_stalls = meeting->result[0].credit_stalls;
	result->throttled = meeting->result[0].throttled;
	result->merged_while_throttled = meeting->result[0].merged_while_throttled;
	result->high_water = meeting->result[0].high_water;
	result->in_place = meeting->result[0].in_place;
	result->claims = meeting->result[0].claims;
	result->claims_lost = meeting->result[0].claims_lost;
	result->claims_asked = meeting->result[0].claims_asked;
	result->registrations = meeting->result[0].registrations;
	result->calibration = meeting->result[0].calibration;
	result->polls = meeting->result[0].polls + meeting->result[1].polls;
	result->sleeps = meeting->result[0].sleeps + meeting->result[1].sleeps;
	result->memory = meeting->result[0].memory;
	for (int me = 0; me < 2; me++)
	{
		for (int lane = 0; lane < load->lanes; lane++)
			close(bench_nodes[me].shared->lanes[lane].wake_fd);
		munmap(bench_nodes[me].shared, RF_SHARED_SIZE(flows));
	}
	munmap(meeting, sizeof(Meeting));
	meeting = NULL;
	return good;
}
