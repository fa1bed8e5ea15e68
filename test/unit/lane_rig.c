/*
 * lane_rig.c - see lane_rig.h.
 */
#include "engine/lane_thread.h"
#include "shmem/life.h"
#include "shmem/ring.h"
#include "shmem/slots.h"

#include "lane_rig.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A flow's buffers and the page behind them; behind all flows the pools. */
#define FLOW_BYTES		((size_t) RF_MAX_SLOTS * RIG_SLOT_MAX + 4096)
#define POOL_BYTES		(RF_RECEIVE_WORDS + (size_t) RF_RECEIVE_MAX * RIG_SLOT_MAX)
#define ARENA_BYTES		(RIG_FLOWS * FLOW_BYTES + RIG_POOLS * POOL_BYTES)
#define MEMORY_BYTES	(ARENA_BYTES + (size_t) 2 * RIG_MAX_LANES * RF_PROOF_SIZE)

RigNode		rig_nodes[2];
_Atomic int rig_pool_users[RIG_POOLS];
RfLaneConfig rig_config = {
	.max_wr = 32, .poll_batch = 16, .poll_us = 20, .probe_ms = 5,
	.merge_limit = 1 << 20, .chain_limit = 16
};
int			rig_lanes = 1;
int			rig_max_sge = RF_MAX_SGE;
int			rig_max_strided;
const RfProvider *rig_provider = &rf_provider_sim;
_Atomic uint64_t rig_wakes;
_Atomic uint64_t rig_lost;
bool		rig_reconnect = true;
void		(*rig_half_open) (uint32_t consumer_flow);
bool		rig_fewer_slots = false;

static pthread_mutex_t main_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t main_thread;
static atomic_bool main_stop;
static int	main_fd;
static sem_t sleepers[RIG_BACKENDS];

uint64_t
rig_random(uint64_t *state)
{
	uint64_t	x = (*state += 0x9e3779b97f4a7c15ull);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

double
rig_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void
wake_owner(RfFlow *flow)
{
	atomic_fetch_add(&rig_wakes, 1);
	sem_post(&sleepers[flow->owner_proc]);
}

void
rig_sleep(int backend, int timeout_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long) (timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	if (sem_timedwait(&sleepers[backend], &until) != 0 && errno != EINTR)
		CHECK(!"a wake-up was lost");
}

/* ---------- the main threads of both nodes, as one ---------- */

/* Proof and mails of a lane lie behind the arena: what is received, then what is sent. */
static uint8_t *
proof_memory(const RigNode *node, int lane, bool sent)
{
	return node->arena + ARENA_BYTES + (size_t) (sent * RIG_MAX_LANES + lane) * RF_PROOF_SIZE;
}

static void
prepare_proof(int n, int lane)
{
	RigNode    *node = &rig_nodes[n];
	const RigNode *other = &rig_nodes[1 - n];
	uint8_t    *source = proof_memory(node, lane, true);

	memset(source, 0x5a, RF_PROOF_SIZE);
	node->proofs[lane] = (RfLaneProof)
	{
		.landing = (const uint64_t *) proof_memory(node, lane, false),
			.number = UINT64_C(0x5a5a5a5a5a5a5a5a),
			.source = {source, RF_PROOF_SIZE, node->region->lkey},
			.remote_addr = (uint64_t) (uintptr_t) proof_memory(other, lane, false),
			.rkey = other->region->rkey
	};
}

static void
connect_nodes(void)
{
	RfError		error;
	RfQpConfig	config = {
	.max_wr = (int) rig_config.max_wr, .max_recv = 256, .context = (void *) (intptr_t) 1};

	for (int lane = 0; lane < rig_lanes; lane++)
	{
		for (int i = 0; i < 2; i++)
		{
			rig_nodes[i].qps[lane] = rf_provider_sim.qp_create(
															   rig_nodes[i].domain, rf_lane_cq(rig_nodes[i].lanes[lane]), &config, &error);
			CHECK(rig_nodes[i].qps[lane] != NULL);
		}
		rf_sim_connect(rig_nodes[0].qps[lane], rig_nodes[1].qps[lane]);
	}
	for (int i = 0; i < 2; i++)
	{
		rig_nodes[i].linked = true;
		rig_nodes[i].proven = 0;
		for (int lane = 0; lane < rig_lanes; lane++)
		{
			prepare_proof(i, lane);
			rf_lane_add_connection(rig_nodes[i].lanes[lane], 1, rig_nodes[i].qps[lane],
								   &rig_nodes[i].proofs[lane]);
		}
	}
	for (int i = 0; i < 2; i++)
	{
		for (int lane = 0; lane < rig_lanes; lane++)
			rf_lane_prove(rig_nodes[i].lanes[lane], 1);
	}
}

static void
free_flow(RigNode *node, uint32_t index)
{
	RfFlow	   *flow = &node->shared->flows[index];

	CHECK(atomic_load(&flow->state) == RF_FLOW_CLOSING);
	node->attached[index] = false;
	if (flow->pool != NULL)
	{
		rf_receive_forget(flow->pool, index);
		rf_receive_wake(node->shared->lanes, flow->pool);
		atomic_fetch_sub(&rig_pool_users[flow->pool - node->shared->receive_pools], 1);
	}
	atomic_store(&flow->state, RF_FLOW_FREE);
}

/* With main_lock held. */
static void
handle_event(int n, int lane, const RfLaneEvent *event)
{
	RigNode    *node = &rig_nodes[n];

	switch (event->kind)
	{
		case RF_LANE_FLOW_DETACHED:
			CHECK(node->attached[event->flow] &&
				  node->shared->flows[event->flow].memory.lane == (uint32_t) lane);
			free_flow(node, event->flow);
			break;
		case RF_LANE_CONNECTION_LOST:
			CHECK(event->peer == 1 && event->error.message[0] != 0);
			atomic_fetch_add(&rig_lost, 1);
			/* As the control connection would tell the other engine. */
			for (int i = 0; i < 2; i++)
			{
				rig_nodes[i].connected = false;
				if (!rig_nodes[i].linked)
					continue;
				rig_nodes[i].linked = false;
				rig_nodes[i].dropping = rig_lanes;
				for (int l = 0; l < rig_lanes; l++)
					rf_lane_drop_connection(rig_nodes[i].lanes[l], 1, &event->error);
			}
			break;
		case RF_LANE_CONNECTION_PROVEN:
			node->proven++;
			rig_nodes[0].connected = rig_nodes[1].connected = node->linked &&
				rig_nodes[0].proven == rig_lanes && rig_nodes[1].proven == rig_lanes;
			break;
		case RF_LANE_CONNECTION_DROPPED:
			for (uint32_t i = 0; i < RIG_FLOWS; i++)
				if (node->attached[i] && node->shared->flows[i].memory.lane == (uint32_t) lane)
					node->attached[i] = false;
			node->dropping--;
			if (rig_reconnect && node->dropping == 0 && rig_nodes[1 - n].dropping == 0)
				connect_nodes();
			break;
	}
}

/* With main_lock held. */
static void
handle_events(void)
{
	for (int n = 0; n < 2; n++)
	{
		RigNode    *node = &rig_nodes[n];
		RfLaneEvent event;

		for (int lane = 0; lane < rig_lanes; lane++)
			while (rf_lane_event(node->lanes[lane], &event))
				handle_event(n, lane, &event);
		for (uint32_t i = 0; i < RIG_FLOWS; i++)
		{
			if (!node->attached[i] && node->dropping == 0 &&
				atomic_load(&node->shared->flows[i].state) == RF_FLOW_CLOSING)
				free_flow(node, i);
		}
	}
}

static void *
main_loop(void *argument)
{
	while (!atomic_load(&main_stop))
	{
		uint64_t	value;

		if (read(main_fd, &value, sizeof(value)) < 0)
			CHECK(errno == EINTR);
		pthread_mutex_lock(&main_lock);
		handle_events();
		pthread_mutex_unlock(&main_lock);
	}
	return NULL;
}

static void
wake_main(void)
{
	uint64_t	one = 1;

	CHECK(write(main_fd, &one, sizeof(one)) == sizeof(one));
}

void
rig_start(const RfSimConfig *sim)
{
	RfError		error;

	rf_sim_reset(sim);
	main_fd = eventfd(0, 0);
	atomic_store(&main_stop, false);
	for (int i = 0; i < RIG_BACKENDS; i++)
		sem_init(&sleepers[i], 0, 0);
	for (int n = 0; n < 2; n++)
	{
		RigNode    *node = &rig_nodes[n];
		size_t		length = MEMORY_BYTES;
		RfLaneConfig config = rig_config;

		memset(node, 0, sizeof(*node));
		node->shared = aligned_alloc(RF_CACHE_LINE, RF_SHARED_SIZE(RIG_FLOWS));
		memset(node->shared, 0, RF_SHARED_SIZE(RIG_FLOWS));
		node->shared->max_flows = RIG_FLOWS;
		node->shared->lane_count = (uint32_t) rig_lanes;
		node->shared->device.max_sge = rig_max_sge;
		node->shared->device.max_strided = rig_max_strided;
		node->arena = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		node->device = rf_provider_sim.device_open(NULL, &error);
		node->domain = rf_provider_sim.domain_create(node->device, &error);
		node->region = rf_provider_sim.region_register(node->domain, node->arena, length, -1,
													   &error);
		node->values = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
							0);
		node->source = rf_provider_sim.source_register(node->domain, node->values, length, &error);
		node->shared->page_memory = node->values;
		node->shared->page_memory_size = length;
		node->shared->page_size = RIG_PAGE_SIZE;
		CHECK(node->region != NULL && node->source != NULL);
		config.shared = node->shared;
		config.provider = rig_provider;
		config.device = node->device;
		config.cq_depth = 4096;
		config.main_wake_fd = main_fd;
		config.wake_owner = wake_owner;
		for (int lane = 0; lane < rig_lanes; lane++)
		{
			node->shared->lanes[lane].wake_fd = eventfd(0, 0);
			node->shared->lanes[lane].number = (uint32_t) lane;
			config.lane = lane;
			node->lanes[lane] = rf_lane_start(&config, &error);
			CHECK(node->lanes[lane] != NULL);
		}
	}
	connect_nodes();
	CHECK(rf_sim_start());
	CHECK(pthread_create(&main_thread, NULL, main_loop, NULL) == 0);
	while (!rig_connected())
		usleep(100);
}

void
rig_stop(void)
{
	atomic_store(&main_stop, true);
	wake_main();
	pthread_join(main_thread, NULL);
	for (int n = 0; n < 2; n++)
		for (int lane = 0; lane < rig_lanes; lane++)
			rf_lane_stop(rig_nodes[n].lanes[lane]);
	rf_sim_stop();
	for (int n = 0; n < 2; n++)
	{
		RigNode    *node = &rig_nodes[n];

		rf_provider_sim.region_deregister(node->domain, node->region);
		rf_provider_sim.region_deregister(node->domain, node->source);
		rf_provider_sim.domain_destroy(node->domain);
		rf_provider_sim.device_close(node->device);
		munmap(node->arena, MEMORY_BYTES);
		munmap(node->values, MEMORY_BYTES);
		for (int lane = 0; lane < rig_lanes; lane++)
			close(node->shared->lanes[lane].wake_fd);
		free(node->shared);
	}
	close(main_fd);
}

bool
rig_connected(void)
{
	bool		both;

	pthread_mutex_lock(&main_lock);
	both = rig_nodes[0].connected && rig_nodes[1].connected;
	pthread_mutex_unlock(&main_lock);
	return both;
}

/* While it is connected, no lane was told to destroy its queue pairs. */
void
rig_cut(int lane)
{
	pthread_mutex_lock(&main_lock);
	if (rig_nodes[0].connected)
		rf_sim_cut(rig_nodes[0].qps[lane]);
	pthread_mutex_unlock(&main_lock);
}

void
rig_hold(int lane, bool hold)
{
	pthread_mutex_lock(&main_lock);
	if (rig_nodes[0].connected)
		rf_sim_hold(rig_nodes[0].qps[lane], hold);
	pthread_mutex_unlock(&main_lock);
}

void
rig_drop(int n, int lane, bool drop)
{
	pthread_mutex_lock(&main_lock);
	if (rig_nodes[n].connected)
		rf_sim_drop(rig_nodes[n].qps[lane], drop);
	pthread_mutex_unlock(&main_lock);
}

/* ---------- backends ---------- */

static uint32_t
claim(int n, int backend)
{
	RfShared   *shared = rig_nodes[n].shared;

	for (;;)
	{
		for (uint32_t i = 0; i < RIG_FLOWS; i++)
		{
			RfFlow	   *flow = &shared->flows[i];
			uint32_t	state = RF_FLOW_FREE;

			if (atomic_compare_exchange_strong(&flow->state, &state, RF_FLOW_CLAIMED))
			{
				rf_slots_reset(flow);
				flow->owner_proc = backend;
				flow->peer = 1;
				return i;
			}
		}
		usleep(50);
	}
}

RfReceivePool *
rig_pool(int n, int number, uint32_t count, uint32_t size, bool claim_them)
{
	RigNode    *node = &rig_nodes[n];
	RfReceivePool *pool = &node->shared->receive_pools[number];

	CHECK(number < RIG_POOLS && size <= RIG_SLOT_MAX && count <= RF_RECEIVE_MAX);
	pool->count = count;
	pool->size = size;
	pool->claim = claim_them;
	rf_receive_init(pool, node->arena + RIG_FLOWS * FLOW_BYTES + (size_t) number * POOL_BYTES,
					node->shared->device.atomics);
	return pool;
}

uint32_t
rig_pool_idle(const RfReceivePool *pool)
{
	uint32_t	idle = (uint32_t) __builtin_popcountll(atomic_load(&pool->free));

	for (uint32_t i = 0; i < pool->claimable; i++)
		idle += atomic_load(rf_receive_word(pool, i)) == RF_RECEIVE_FREE;
	return idle;
}

static uint32_t
listen_with(int n, int backend, RfReceivePool *pool, uint32_t slot_count, uint32_t slot_size,
			uint64_t key)
{
	uint32_t	index = claim(n, backend);
	RfFlow	   *flow = &rig_nodes[n].shared->flows[index];

	CHECK(slot_size <= RIG_SLOT_MAX && slot_count <= RF_MAX_SLOTS);
	flow->role = RF_FLOW_CONSUMER;
	flow->key = key;
	flow->slot_count = slot_count;
	flow->slot_size = slot_size;
	flow->pool = pool;
	atomic_store(&flow->state, RF_FLOW_LISTENING);
	return index;
}

uint32_t
rig_listen(int n, int backend, uint32_t slot_count, uint32_t slot_size, uint64_t key)
{
	return listen_with(n, backend, NULL, slot_count, slot_size, key);
}

uint32_t
rig_listen_pooled(int n, int backend, RfReceivePool *pool, uint32_t slot_count, uint64_t key)
{
	atomic_fetch_add(&rig_pool_users[pool - rig_nodes[n].shared->receive_pools], 1);
	return listen_with(n, backend, pool, slot_count, pool->size, key);
}

static void
place(RigNode *node, uint32_t index, uint32_t lane)
{
	RfFlow	   *flow = &node->shared->flows[index];

	flow->memory.buffers = flow->pool != NULL ? rf_receive_buffer(flow->pool, 0) :
		node->arena + index * FLOW_BYTES;
	flow->memory.lkey = node->region->lkey;
	flow->memory.lane = lane;
}

uint32_t
rig_open(int n, int backend, uint32_t remote_flow, uint64_t key)
{
	RigNode    *here = &rig_nodes[n];
	RigNode    *there = &rig_nodes[1 - n];
	RfFlow	   *consumer = &there->shared->flows[remote_flow];
	uint32_t	index = claim(n, backend);
	RfFlow	   *flow = &here->shared->flows[index];
	uint32_t	held = RF_FLOW_OPENING;
	RfControlOpened opened;

	flow->role = RF_FLOW_PRODUCER;
	flow->key = key;
	flow->remote_flow = remote_flow;
	atomic_store(&flow->state, RF_FLOW_OPENING);

	pthread_mutex_lock(&main_lock);
	if (!here->connected || !there->connected || !rf_flow_hold(consumer))
	{
		pthread_mutex_unlock(&main_lock);
		atomic_store(&flow->state, RF_FLOW_FREE);
		return UINT32_MAX;
	}
	if (consumer->key == key)
	{
		place(there, remote_flow, remote_flow % (uint32_t) rig_lanes);
		consumer->remote_flow = index;
	}
	if (consumer->key != key ||
		!atomic_compare_exchange_strong(&consumer->state, &held, RF_FLOW_OPEN))
	{
		rf_flow_let_go(consumer);
		pthread_mutex_unlock(&main_lock);
		atomic_store(&flow->state, RF_FLOW_FREE);
		return UINT32_MAX;
	}
	there->attached[remote_flow] = true;
	rf_lane_attach_flow(there->lanes[consumer->memory.lane], remote_flow);
	if (rig_half_open != NULL)
		rig_half_open(remote_flow);

	place(here, index, consumer->memory.lane);
	opened = (RfControlOpened)
	{
		.slot_count = consumer->slot_count, .slot_size = consumer->slot_size,
			.remote_addr = (uint64_t) (uintptr_t) consumer->memory.buffers,
			.rkey = there->region->rkey
	};
	if (consumer->pool != NULL)
	{
		opened.pool_buffers = consumer->pool->count;
		opened.pool_claimable = consumer->pool->claimable;
	}
	rf_slots_opened(flow, &opened);
	if (rig_fewer_slots)
		flow->slot_count = 1 + (uint32_t) (key % flow->window);
	flow->value.memory = here->values + (size_t) index * RF_MAX_SLOTS * RIG_SLOT_MAX;
	flow->value.size = (uint64_t) RF_MAX_SLOTS * RIG_SLOT_MAX;
	flow->value.lkey = here->source->lkey;
	flow->memory.has_pages = true;
	flow->memory.pages_lkey = here->source->lkey;
	atomic_store(&flow->state, RF_FLOW_OPEN);
	here->attached[index] = true;
	rf_lane_attach_flow(here->lanes[flow->memory.lane], index);
	pthread_mutex_unlock(&main_lock);
	return index;
}

void
rig_ring(int n, uint32_t flow)
{
	RfShared   *shared = rig_nodes[n].shared;

	rf_lane_ring(&shared->lanes[shared->flows[flow].memory.lane], shared->flows, flow);
}

void
rig_close(int n, uint32_t index, bool stop, bool abandoned)
{
	RfFlow	   *flow = &rig_nodes[n].shared->flows[index];
	RfReceivePool *pool = flow->pool;
	RfFlowState state;
	uint32_t	lane;

	if (stop)
		atomic_store(&flow->stop, 1);
	if (abandoned)
		atomic_store(&flow->abandoned, 1);
	state = rf_flow_leave(flow, &lane);
	if (state == RF_FLOW_OPEN || state == RF_FLOW_FAILED)
		rf_lane_ring(&rig_nodes[n].shared->lanes[lane], rig_nodes[n].shared->flows, index);
	if (state != RF_FLOW_LISTENING)
		wake_main();
	else if (pool != NULL)
		atomic_fetch_sub(&rig_pool_users[pool - rig_nodes[n].shared->receive_pools], 1);
}

static void
wait_for(RfFlow *flow, int backend, RfSlotCursor *cursor, RfFlowWaiting waiting)
{
	atomic_store(&flow->waiting, waiting);
	if (rf_slots_ready(flow, cursor, waiting))
	{
		/* The side that changed the word has posted or will post the semaphore: take that too. */
		if (atomic_exchange(&flow->waiting, RF_WAIT_NONE) == RF_WAIT_NONE)
			rig_sleep(backend, RIG_PATIENCE * 1000);
		return;
	}
	rig_sleep(backend, RIG_PATIENCE * 1000);
}

uint8_t *
rig_acquire(int n, int backend, uint32_t index, RfSlotCursor *cursor)
{
	RfFlow	   *flow = &rig_nodes[n].shared->flows[index];

	for (;;)
	{
		uint8_t    *slot;

		if (atomic_load(&flow->state) != RF_FLOW_OPEN || atomic_load(&flow->stop) != 0)
			return NULL;
		slot = rf_slot_fill(flow, cursor);
		if (slot != NULL)
			return slot;
		wait_for(flow, backend, cursor, RF_WAIT_SLOTS);
	}
}

bool
rig_finish(int n, int backend, uint32_t index, RfSlotCursor *cursor)
{
	RfFlow	   *flow = &rig_nodes[n].shared->flows[index];

	if (rig_acquire(n, backend, index, cursor) == NULL)
		return false;
	if (rf_slot_submit(flow, cursor, 0, RF_SLOT_END, 0))
		rig_ring(n, index);
	while (!rf_slot_acked(flow))
	{
		if (atomic_load(&flow->state) != RF_FLOW_OPEN || atomic_load(&flow->stop) != 0)
			return false;
		wait_for(flow, backend, cursor, RF_WAIT_ACK);
	}
	return true;
}

RfSlotRead
rig_read(int n, int backend, uint32_t index, RfSlotCursor *cursor, RfSlotHeader *header,
		 uint8_t **payload)
{
	RfFlow	   *flow = &rig_nodes[n].shared->flows[index];
	RfError		error = {0};

	for (;;)
	{
		RfSlotRead	result = rf_slot_read(flow, cursor, header, payload, &error);

		if (result == RF_READ_BAD)
			fprintf(stderr, "%s: %s\n", error.message, error.detail);
		if (result == RF_READ_END)
			rig_ring(n, index);
		if (result != RF_READ_NOTHING)
			return result;
		if (atomic_load(&flow->state) == RF_FLOW_FAILED)
			return RF_READ_NOTHING;
		if (atomic_load(&flow->remote_end) != 0 && cursor->remote_end_noticed)
			return RF_READ_NOTHING;
		if (atomic_load(&flow->remote_end) != 0)
			cursor->remote_end_noticed = true;
		else
			wait_for(flow, backend, cursor, RF_WAIT_ANY);
	}
}

uint64_t
rig_lane_sum(int n, size_t counter)
{
	uint64_t	sum = 0;

	for (int lane = 0; lane < rig_lanes; lane++)
		sum += atomic_load(
						   (_Atomic uint64_t *) ((char *) &rig_nodes[n].shared->lanes[lane] +
												 counter));
	return sum;
}

bool
rig_all_free(void)
{
	for (double deadline = rig_seconds() + RIG_PATIENCE; rig_seconds() < deadline;)
	{
		bool		all = true;

		for (int n = 0; n < 2; n++)
			for (uint32_t i = 0; i < RIG_FLOWS; i++)
				if (atomic_load(&rig_nodes[n].shared->flows[i].state) != RF_FLOW_FREE)
					all = false;
		if (all)
			return true;
		wake_main();
		usleep(1000);
	}
	for (int n = 0; n < 2; n++)
		for (uint32_t i = 0; i < RIG_FLOWS; i++)
		{
			RfFlow	   *flow = &rig_nodes[n].shared->flows[i];

			if (atomic_load(&flow->state) != RF_FLOW_FREE)
				fprintf(
						stderr,
						"node %d flow %u role %u state %u remote_end %u handed %llu completed %llu "
						"credit %llu\n",
						n, i, flow->role, atomic_load(&flow->state), atomic_load(&flow->remote_end),
						(unsigned long long) atomic_load(&flow->handed),
						(unsigned long long) atomic_load(&flow->completed),
						(unsigned long long) atomic_load(&flow->credit));
		}
	return false;
}
