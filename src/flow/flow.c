/*
 * flow.c - a backend's side of a flow: claim an entry, wait, and close it whatever happens.
 *
 * The transitions of the slots are in slots.c, the lanes' side in src/engine/. Here is what needs
 * PostgreSQL: latches, interrupts, errors, and the list of open handles that is closed with the
 * resource owner in which they were made, so that an error, a rolled back subtransaction or a
 * dropped cursor closes exactly its own flows.
 *
 * Handles are this backend's own memory. The shared entry belongs to this backend from the claim to
 * the store of FREE or CLOSING; after that the engine frees it.
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "rdma_fdw/clock.h"
#include "rdma_fdw/compat.h"
#define RF_FLOW_BACKEND
#include "rdma_fdw/engine.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/share.h"

#include "pins.h"

/* While asleep, look this often whether the engine still runs: a dead one wakes nobody. */
#define ENGINE_CHECK_MS		1000

/* While asleep with pages pinned, look this often which of them were sent. */
#define PIN_CHECK_MS		10

/* A backend with a smaller share of the buffers copies pages. */
#define MIN_PINS			4

struct RfFlowHandle
{
	dlist_node	node;
	ResourceOwner owner;
	RfFlow	   *flow;
	uint32		index;
	uint32		engine_epoch;	/* of the engine that ran when the entry was claimed */
	bool		acked;			/* producer: the reader has everything */
	RfSlotCursor cursor;
	RfPins	   *pins;			/* producer: of pages that are sent from where they lie; NULL = none yet */
	RfShare    *share;			/* readers have the cursor until the flow is closed; see share.h */
	WaitEventSet *set;			/* latch and `socket`, made at the first wait for both */
	int			socket;
};

/* A shared receive pool of this backend. */
typedef struct RfReceiveHandle
{
	dlist_node	node;
	ResourceOwner owner;
	RfReceivePool *pool;
} RfReceiveHandle;

static dlist_head handles = DLIST_STATIC_INIT(handles);
static dlist_head pool_handles = DLIST_STATIC_INIT(pool_handles);
static bool callbacks_registered = false;
static uint32 next_entry = 0;	/* where the next search begins */

static uint32 wait_open = 0;
static uint32 wait_send = 0;
static uint32 wait_receive = 0;
static uint32 wait_group = 0;
static uint32 wait_value = 0;

static uint32
named_wait_event(uint32 *event, const char *name)
{
	if (*event == 0)
		*event = rf_wait_event_new(name);
	return *event;
}

/* Statistics have one writer, this backend. */
static void
count(_Atomic uint64_t *counter, uint64 add)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
						  memory_order_relaxed);
}

static void
ring(RfFlowHandle *handle)
{
	rf_lane_ring(&rf_shared->lanes[handle->flow->lane % RF_MAX_LANES], rf_shared->flows, handle->index);
}

/* ---------- handles and their end ---------- */

static void close_handle(RfFlowHandle *handle, bool failed);
static void drop_pins(RfFlowHandle *handle);
static void close_pool(RfReceiveHandle *handle);

static void
release_handles(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *argument)
{
	dlist_mutable_iter iter;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	dlist_foreach_modify(iter, &handles)
	{
		RfFlowHandle *handle = dlist_container(RfFlowHandle, node, iter.cur);

		if (handle->owner == CurrentResourceOwner)
			close_handle(handle, !is_commit);
	}
	dlist_foreach_modify(iter, &pool_handles)
	{
		RfReceiveHandle *handle = dlist_container(RfReceiveHandle, node, iter.cur);

		if (handle->owner == CurrentResourceOwner)
			close_pool(handle);
	}
}

static void
close_all_handles(int code, Datum argument)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &handles)
		close_handle(dlist_container(RfFlowHandle, node, iter.cur), true);
	dlist_foreach_modify(iter, &pool_handles)
		close_pool(dlist_container(RfReceiveHandle, node, iter.cur));
}

static void
register_callbacks(void)
{
	if (callbacks_registered)
		return;
	RegisterResourceReleaseCallback(release_handles, NULL);
	before_shmem_exit(close_all_handles, (Datum) 0);
	callbacks_registered = true;
	/* Backends begin at different places, so that they do not fight for the same entries. */
	next_entry = (uint32) rf_my_proc_number() * 7;
}

/*
 * Take a free entry. It is CLAIMED and in the list of handles, so any ERROR from here on gives it
 * back.
 */
static RfFlowHandle *
claim(int peer, RfFlowRole role)
{
	RfFlowHandle *handle;
	RfFlow	   *flow;
	uint32		index = 0;
	bool		found = false;

	rf_engine_require();
	register_callbacks();
	handle = MemoryContextAllocZero(TopMemoryContext, sizeof(RfFlowHandle));
	for (uint32 tries = 0; tries < rf_shared->max_flows && !found; tries++)
	{
		uint32		state = RF_FLOW_FREE;

		index = next_entry++ % rf_shared->max_flows;
		flow = &rf_shared->flows[index];
		found = atomic_load_explicit(&flow->state, memory_order_relaxed) == RF_FLOW_FREE &&
			atomic_compare_exchange_strong(&flow->state, &state, RF_FLOW_CLAIMED);
	}
	if (!found)
	{
		pfree(handle);
		atomic_fetch_add_explicit(&rf_shared->flows_refused, 1, memory_order_relaxed);
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("all %u flows of rdma_fdw are in use", rf_shared->max_flows),
				 errhint("Increase rdma_fdw.max_flows and restart, or run fewer foreign scans at a time.")));
	}

	flow = &rf_shared->flows[index];
	handle->flow = flow;
	handle->index = index;
	handle->owner = CurrentResourceOwner;
	handle->engine_epoch = atomic_load(&rf_shared->engine_epoch);
	handle->socket = PGINVALID_SOCKET;
	dlist_push_tail(&handles, &handle->node);

	rf_slots_reset(flow);
	flow->role = role;
	flow->key = 0;
	flow->peer = peer;
	flow->owner_pid = MyProcPid;
	flow->owner_proc = rf_my_proc_number();
	flow->role_oid = GetUserId();
	flow->database_oid = MyDatabaseId;
	flow->remote_flow = 0;
	flow->slot_count = 0;
	flow->slot_size = 0;
	flow->estimated_rows = 0;
	flow->buffer_wait_ms = (uint32) rf_buffer_wait;
	atomic_store(&flow->weight, (uint32) rf_flow_weight);
	flow->start_us = rf_wall_us();
	return handle;
}

/* Is it still open? At an abort its resource owner may have been faster than its user. */
static bool
is_handle(const RfFlowHandle *handle)
{
	dlist_iter	iter;

	dlist_foreach(iter, &handles)
	{
		if (dlist_container(RfFlowHandle, node, iter.cur) == handle)
			return true;
	}
	return false;
}

void
rf_flow_close(RfFlowHandle *handle)
{
	if (is_handle(handle))
		close_handle(handle, false);
}

/*
 * `failed`: its owner did not come to its end, so a producer must not take the reader's STOP for a
 * wish.
 */
static void
close_handle(RfFlowHandle *handle, bool failed)
{
	RfFlow	   *flow = handle->flow;
	RfFlowState state;
	uint32		lane;

	if (handle->share != NULL)
	{
		RfShareWakes wakes;

		rf_share_end(handle->share, flow->key, &handle->cursor, &wakes);
		rf_wake_readers(&wakes);
	}

	/*
	 * Before the change of state: the lane reads them after it. An END that was seen but not
	 * released is not acknowledged, and never will be: then only STOP lets the producer go.
	 */
	if (flow->role == RF_FLOW_CONSUMER &&
		(!handle->cursor.ended || handle->cursor.released != handle->cursor.next))
		atomic_store(&flow->stop, failed ? RF_STOP_FAILED : RF_STOP_CLEAN);
	if (flow->role == RF_FLOW_PRODUCER && !handle->acked)
		atomic_store(&flow->abandoned, 1);
	atomic_store(&flow->waiting, RF_WAIT_NONE);
	drop_pins(handle);

	/*
	 * From here the entry may be somebody else's; a ring that comes too late is for nothing and
	 * does no harm.
	 */
	state = rf_flow_leave(flow, &lane);
	if (state == RF_FLOW_OPEN || state == RF_FLOW_FAILED)
		rf_lane_ring(&rf_shared->lanes[lane % RF_MAX_LANES], rf_shared->flows, handle->index);
	if (state == RF_FLOW_OPENING || state == RF_FLOW_FAILED ||
		(state == RF_FLOW_LISTENING && atomic_load(&rf_shared->waiting_for_buffers) > 0))
		rf_engine_wake_main();

	if (handle->set != NULL)
		FreeWaitEventSet(handle->set);
	dlist_delete(&handle->node);
	pfree(handle);
}

const RfFlow *
rf_flow_entry(RfFlowHandle *handle)
{
	return handle->flow;
}

void
rf_flow_show_regions(RfFlowHandle *flow, const RfRegionCounts *counts)
{
	RfFlowStats *stats = &flow->flow->stats;

	atomic_store_explicit(&stats->region_copies, counts->copies, memory_order_relaxed);
	atomic_store_explicit(&stats->region_gathers, counts->gathers, memory_order_relaxed);
	atomic_store_explicit(&stats->region_strided, counts->strided, memory_order_relaxed);
	atomic_store_explicit(&stats->region_boxes, counts->boxes, memory_order_relaxed);
	atomic_store_explicit(&stats->useful_bytes, counts->useful_bytes, memory_order_relaxed);
	atomic_store_explicit(&stats->gap_bytes, counts->gap_bytes, memory_order_relaxed);
	atomic_store_explicit(&stats->uncopied_bytes, counts->uncopied_bytes, memory_order_relaxed);
}

bool
rf_flow_is_open(RfFlowHandle *handle)
{
	uint32		state = atomic_load(&handle->flow->state);

	return state == RF_FLOW_OPEN || (state == RF_FLOW_FAILED && handle->flow->buffers != NULL);
}

/* ---------- failing and sleeping ---------- */

static void
raise_if_failed(RfFlowHandle *handle)
{
	RfFlow	   *flow = handle->flow;
	RfError		error;

	if (atomic_load(&flow->state) == RF_FLOW_FAILED)
	{
		error = *rf_flow_error(rf_shared, flow);
		rf_raise(&error, flow->peer);
	}
}

/*
 * A flow whose engine is gone gets neither data nor a word about it until the next engine starts.
 */
void
rf_flow_require_engine(uint32_t epoch)
{
	RfError		error;

	if (atomic_load(&rf_shared->engine_pid) != 0 && atomic_load(&rf_shared->engine_epoch) == epoch)
		return;
	(void) rf_error(&error, RF_ERROR_CONNECTION, NULL, "The next query will use the new one.",
					"the rdma_fdw engine stopped");
	rf_raise(&error, RF_NO_PEER);
}

static void
raise_if_engine_gone(RfFlowHandle *handle)
{
	rf_flow_require_engine(handle->engine_epoch);
}

/* Begin and end of every sleep. The sleeper checks again between begin_sleep and blocking. */
static int64
begin_sleep(RfFlowHandle *handle, RfFlowWaiting waiting)
{
	atomic_store(&handle->flow->waiting, waiting);
	return rf_now_us();
}

static void
end_sleep(RfFlowHandle *handle, int64 since)
{
	RfFlow	   *flow = handle->flow;
	int64		elapsed = rf_now_us() - since;

	atomic_store(&flow->waiting, RF_WAIT_NONE);
	count(&flow->stats.waits, 1);
	count(&flow->stats.wait_us, elapsed > 0 ? (uint64) elapsed : 0);
}

/* Sleep until what `waiting` names may be there. The caller looks and comes back if it is not. */
static void
sleep_for(RfFlowHandle *handle, RfFlowWaiting waiting, uint32 wait_event)
{
	RfFlow	   *flow = handle->flow;
	int64		since = begin_sleep(handle, waiting);
	uint64		pinned;
	bool		ready;
	int			events = 0;

	ready = rf_slots_ready(flow, &handle->cursor, waiting);
	if (!ready)
	{
		events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						   handle->pins != NULL && rf_pins_first(handle->pins, &pinned) ? PIN_CHECK_MS : ENGINE_CHECK_MS,
						   wait_event);
		ResetLatch(MyLatch);
	}
	end_sleep(handle, since);
	if (handle->pins != NULL)
		rf_pins_release(handle->pins, atomic_load(&flow->completed));
	CHECK_FOR_INTERRUPTS();
	if (events & WL_TIMEOUT)
		raise_if_engine_gone(handle);
}

/* ---------- pages that are sent from where they lie ---------- */

/*
 * The flow is closed, at an error, too. What is not sent yet never will be (rf_slots_withdraw); what
 * is being sent is waited for: until then a page must not become another one. That takes as long as
 * the transport has it, and a peer that is gone or silent is given up by the engine after
 * rdma_fdw.peer_timeout; then the flow has failed. No interrupt is serviced, nothing is raised.
 */
static void
drop_pins(RfFlowHandle *handle)
{
	RfFlow	   *flow = handle->flow;
	uint64		first;
	bool		waited = false;

	if (handle->pins == NULL)
		return;
	if (rf_pins_first(handle->pins, &first) && first < handle->cursor.next)
	{
		uint64		end = rf_slots_withdraw(flow, &handle->cursor, first);

		while (atomic_load(&flow->completed) < end)
		{
			/* Whoever wakes us has stored before what we look at now. */
			atomic_store(&flow->waiting, RF_WAIT_LANDED);
			if (atomic_load(&flow->completed) >= end || atomic_load(&flow->state) == RF_FLOW_FAILED)
				break;
			waited = true;
			if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, PIN_CHECK_MS,
						  named_wait_event(&wait_send, "RdmaFlowSend")) & WL_POSTMASTER_DEATH)
				break;
			ResetLatch(MyLatch);
		}
		atomic_store(&flow->waiting, RF_WAIT_NONE);
		/* It may have been set for somebody else. */
		if (waited)
			SetLatch(MyLatch);
	}
	rf_pins_destroy(handle->pins);
	handle->pins = NULL;
}

int
rf_flow_takes_pages(RfFlowHandle *handle, int pin_limit)
{
	int			entries = Min(rf_shared->device.max_sge, RF_MAX_SGE);

	pin_limit = Min(pin_limit, rf_pins_share());
	if (!handle->flow->has_pages || pin_limit < MIN_PINS || entries < 2)
		return 0;
	if (handle->pins == NULL)
		handle->pins = rf_pins_create(pin_limit);
	return entries;
}

bool
rf_flow_await_credit(RfFlowHandle *handle)
{
	RfFlow	   *flow = handle->flow;

	while (rf_flow_credit(handle) == 0 && atomic_load(&flow->leaving) == 0)
	{
		raise_if_failed(handle);
		if (atomic_load(&flow->stop) != RF_STOP_NONE)
			return false;
		sleep_for(handle, RF_WAIT_CREDIT, named_wait_event(&wait_send, "RdmaFlowSend"));
	}
	return true;
}

bool
rf_flow_pin(RfFlowHandle *handle, int buffer)
{
	rf_pins_release(handle->pins, atomic_load(&handle->flow->completed));
	return rf_pins_add(handle->pins, buffer, handle->cursor.next);
}

bool
rf_flow_is_pinning(RfFlowHandle *handle)
{
	return rf_pins_half(handle->pins, handle->cursor.next);
}

/* ---------- shared receive pools ---------- */

RfReceivePool *
rf_receive_open(uint32_t buffer_count, uint32_t buffer_size, const RfPeerSet *peers,
				bool claim_them)
{
	RfReceiveHandle *handle;

	rf_engine_require();
	register_callbacks();
	handle = MemoryContextAllocZero(TopMemoryContext, sizeof(RfReceiveHandle));
	for (int i = 0; i < RF_RECEIVE_POOLS; i++)
	{
		RfReceivePool *pool = &rf_shared->receive_pools[i];
		uint32_t	state = RF_RECEIVE_UNUSED;

		if (!atomic_compare_exchange_strong(&pool->state, &state, RF_RECEIVE_CLAIMED))
			continue;
		pool->count = buffer_count;
		pool->size = buffer_size;
		pool->peers = *peers;
		pool->claim = claim_them;
		handle->pool = pool;
		handle->owner = CurrentResourceOwner;
		dlist_push_tail(&pool_handles, &handle->node);
		return pool;
	}
	pfree(handle);
	return NULL;
}

/* After its flows: who sees it LEFT uses it for nobody but those the engine still knows. */
static void
close_pool(RfReceiveHandle *handle)
{
	atomic_store(&handle->pool->state, RF_RECEIVE_LEFT);
	rf_engine_wake_main();
	dlist_delete(&handle->node);
	pfree(handle);
}

void
rf_receive_close(RfReceivePool *pool)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pool_handles)
	{
		RfReceiveHandle *handle = dlist_container(RfReceiveHandle, node, iter.cur);

		if (handle->pool == pool)
			close_pool(handle);
	}
}

/* The lanes that have producers of this flow's pool in line: what they wait for may be there. */
static void
wake_line(RfFlowHandle *handle)
{
	if (handle->flow->pool != NULL)
		rf_receive_wake(rf_shared->lanes, handle->flow->pool);
}

void
rf_flow_await_next(RfFlowHandle *handle)
{
	RfFlow	   *flow = handle->flow;
	uint64		turn = RF_RECEIVE_TURN(handle->index, handle->cursor.next);

	if (flow->pool == NULL || atomic_load(&flow->state) != RF_FLOW_OPEN ||
		atomic_load(&flow->pool->turn) == turn)
		return;
	atomic_store(&flow->pool->turn, turn);
	wake_line(handle);
}

/* ---------- consumer ---------- */

static RfFlowHandle *
listen_with(int peer, RfReceivePool *pool, uint32_t slot_count, uint32_t slot_size, uint64_t estimated_rows)
{
	RfFlowHandle *handle;
	uint64		key;

	if (slot_count < 1 || slot_count > RF_MAX_SLOTS || slot_size < 4096 || slot_size % 4096 != 0)
		elog(ERROR, "invalid geometry of a flow: %u buffers of %u bytes", slot_count, slot_size);
	if (!pg_strong_random(&key, sizeof(key)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random key for a flow")));

	handle = claim(peer, RF_FLOW_CONSUMER);
	handle->flow->key = key;
	handle->flow->slot_count = slot_count;
	handle->flow->slot_size = slot_size;
	handle->flow->estimated_rows = estimated_rows;
	handle->flow->pool = pool;
	atomic_store(&handle->flow->state, RF_FLOW_LISTENING);
	return handle;
}

RfFlowHandle *
rf_flow_listen(int peer, uint32_t slot_count, uint32_t slot_size, uint64_t estimated_rows)
{
	return listen_with(peer, NULL, slot_count, slot_size, estimated_rows);
}

RfFlowHandle *
rf_flow_listen_pooled(int peer, RfReceivePool *pool, uint32_t slot_count)
{
	return listen_with(peer, pool, slot_count, pool->size, 0);
}

void
rf_flow_address(RfFlowHandle *handle, uint32_t *index, uint64_t *key)
{
	*index = handle->index;
	*key = handle->flow->key;
}

RfFlowPoll
rf_flow_poll(RfFlowHandle *handle, RfBuffer *buffer)
{
	RfFlow	   *flow = handle->flow;
	RfSlotHeader header;
	RfError		error;
	uint8_t    *payload;

	switch (rf_slot_read(flow, &handle->cursor, &header, &payload, &error))
	{
		case RF_READ_DATA:
			buffer->data = payload;
			buffer->length = header.length;
			buffer->flags = header.flags;
			buffer->sequence = header.sequence;
			count(&flow->stats.slots, 1);
			count(&flow->stats.bytes, header.length);
			count(&flow->stats.rows, header.rows);
			return RF_POLL_BUFFER;

		case RF_READ_END:
			ring(handle);		/* the producer waits for the acknowledgement */
			wake_line(handle);
			return RF_POLL_END;

		case RF_READ_BAD:
			rf_raise(&error, flow->peer);

		case RF_READ_NOTHING:
			break;
	}
	raise_if_failed(handle);
	return RF_POLL_EMPTY;
}

void
rf_flow_release(RfFlowHandle *handle, const RfBuffer *buffer)
{
	if (buffer->sequence != handle->cursor.released)
		elog(ERROR, "receive buffers must be released in order");
	if (rf_slot_release(handle->flow, &handle->cursor))
		ring(handle);
	wake_line(handle);
}

void
rf_flow_withdraw(RfFlowHandle *handle)
{
	atomic_store(&handle->flow->leaving, 1);
	if (atomic_load(&handle->flow->state) == RF_FLOW_OPEN)
		ring(handle);
}

void
rf_flow_share(RfFlowHandle *handle, uint32_t *share, uint64_t *key)
{
	Assert(handle->share == NULL && handle->cursor.next == 0);
	handle->share = &rf_shares[handle->index];
	rf_share_begin(handle->share, handle->flow, handle->flow->key);
	*share = handle->index;
	*key = handle->flow->key;
}

bool
rf_flow_share_stop(RfFlowHandle *handle)
{
	RfShareWakes wakes;
	bool		ended = rf_share_stop(handle->share, handle->flow->key, &wakes);

	rf_wake_readers(&wakes);
	return ended;
}

void
rf_flow_share_totals(RfFlowHandle *handle, RfShareTotals *totals)
{
	rf_share_totals(handle->share, totals);
}

void
rf_flow_totals(RfFlowHandle *handle, uint64_t *rows, uint64_t *bytes)
{
	if (handle->share != NULL)
	{
		RfShareTotals totals;

		rf_share_totals(handle->share, &totals);
		*rows = totals.rows;
		*bytes = totals.bytes;
		return;
	}
	*rows = handle->cursor.rows;
	*bytes = handle->cursor.bytes;
}

/*
 * `waiting` stays set if the caller is woken by something else: the lane then sets a latch in vain.
 */
bool
rf_flow_prepare_wait(RfFlowHandle *handle)
{
	RfFlow	   *flow = handle->flow;
	bool		ready;

	atomic_store(&flow->waiting, RF_WAIT_ANY);
	ready = rf_slots_ready(flow, &handle->cursor, RF_WAIT_ANY);
	handle->cursor.remote_end_noticed = atomic_load(&flow->remote_end) != 0;
	if (!ready && atomic_load(&flow->state) == RF_FLOW_OPEN)
		raise_if_engine_gone(handle);
	return ready;
}

int
rf_flow_wait(RfFlowHandle *handle, int socket, long timeout_ms)
{
	RfFlow	   *flow = handle->flow;
	uint32		wait_event = named_wait_event(&wait_receive, "RdmaFlowReceive");
	bool		capped = timeout_ms < 0 || timeout_ms > ENGINE_CHECK_MS;
	long		timeout = capped ? ENGINE_CHECK_MS : timeout_ms;
	int64		since = begin_sleep(handle, RF_WAIT_ANY);
	int			events;

	if (rf_slots_ready(flow, &handle->cursor, RF_WAIT_ANY))
		events = WL_LATCH_SET;
	else if (socket == PGINVALID_SOCKET)
		events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						   timeout, wait_event);
	else
	{
		WaitEvent	occurred[2];
		int			occurred_count;

		/* One set for the life of the flow: WaitLatchOrSocket would make and drop one each time. */
		if (handle->set != NULL && handle->socket != socket)
		{
			FreeWaitEventSet(handle->set);
			handle->set = NULL;
		}
		if (handle->set == NULL)
		{
#if PG_VERSION_NUM >= 170000
			WaitEventSet *set = CreateWaitEventSet(NULL, 3);
#else
			WaitEventSet *set = CreateWaitEventSet(TopMemoryContext, 3);
#endif

			handle->set = set;
			handle->socket = socket;
			AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
			AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
			AddWaitEventToSet(set, WL_SOCKET_READABLE, socket, NULL, NULL);
		}
		occurred_count = WaitEventSetWait(handle->set, timeout, occurred, lengthof(occurred), wait_event);
		events = occurred_count == 0 ? WL_TIMEOUT : 0;
		for (int i = 0; i < occurred_count; i++)
			events |= occurred[i].events;
	}

	if (events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	end_sleep(handle, since);
	/* Told once: the caller looks at remote_end, and then waits for libpq to say why. */
	handle->cursor.remote_end_noticed = atomic_load(&flow->remote_end) != 0;
	CHECK_FOR_INTERRUPTS();
	if (events & WL_TIMEOUT)
	{
		if (atomic_load(&flow->state) == RF_FLOW_OPEN)
			raise_if_engine_gone(handle);
		if (capped)
			events &= ~WL_TIMEOUT;	/* ours, not the caller's */
	}
	return events;
}

/* ---------- producer ---------- */

static RfFlowHandle *
open_begin(int peer, uint32_t consumer_flow, uint64_t key, bool pages)
{
	RfFlowHandle *handle = claim(peer, RF_FLOW_PRODUCER);

	handle->flow->key = key;
	handle->flow->remote_flow = consumer_flow;
	handle->flow->wants_pages = pages;
	atomic_store(&handle->flow->state, RF_FLOW_OPENING);
	rf_engine_wake_main();
	return handle;
}

RfFlowHandle *
rf_flow_open_begin(int peer, uint32_t consumer_flow, uint64_t key)
{
	return open_begin(peer, consumer_flow, key, false);
}

bool
rf_flow_opened(RfFlowHandle *handle)
{
	raise_if_failed(handle);
	return atomic_load(&handle->flow->state) != RF_FLOW_OPENING;
}

static RfFlowHandle *
open_and_wait(RfFlowHandle *handle)
{
	for (;;)
	{
		if (atomic_load(&handle->flow->state) == RF_FLOW_FAILED &&
			rf_flow_error(rf_shared, handle->flow)->kind == RF_ERROR_GONE)
		{
			close_handle(handle, true);
			return NULL;
		}
		if (rf_flow_opened(handle))
			return handle;
		sleep_for(handle, RF_WAIT_OPEN, named_wait_event(&wait_open, "RdmaFlowOpen"));
	}
}

RfFlowHandle *
rf_flow_open(int peer, uint32_t consumer_flow, uint64_t key)
{
	return open_and_wait(open_begin(peer, consumer_flow, key, false));
}

RfFlowHandle *
rf_flow_open_pages(int peer, uint32_t consumer_flow, uint64_t key)
{
	return open_and_wait(open_begin(peer, consumer_flow, key, true));
}

RfAcquire
rf_flow_try_acquire(RfFlowHandle *handle, RfBuffer *buffer)
{
	RfFlow	   *flow = handle->flow;
	uint8_t    *slot;

	raise_if_failed(handle);
	if (atomic_load(&flow->stop) != RF_STOP_NONE)
		return RF_ACQUIRE_STOPPED;
	slot = rf_slot_fill(flow, &handle->cursor);
	if (slot == NULL)
		return RF_ACQUIRE_FULL;
	buffer->data = slot + sizeof(RfSlotHeader);
	buffer->length = flow->slot_size - (uint32) sizeof(RfSlotHeader);
	buffer->flags = 0;
	buffer->sequence = handle->cursor.next;
	return RF_ACQUIRED;
}

bool
rf_flow_acquire(RfFlowHandle *handle, RfBuffer *buffer)
{
	RfAcquire	result;

	while ((result = rf_flow_try_acquire(handle, buffer)) == RF_ACQUIRE_FULL)
		sleep_for(handle, RF_WAIT_SLOTS, named_wait_event(&wait_send, "RdmaFlowSend"));
	return result == RF_ACQUIRED;
}

static void
check_submit(RfFlowHandle *handle, const RfBuffer *buffer, uint32_t length)
{
	if (buffer->sequence != handle->cursor.next || length > buffer->length)
		elog(ERROR, "a send buffer was submitted out of order or is too long");
}

static void
count_slot(RfFlowHandle *handle, uint32_t length, uint64_t rows)
{
	RfFlowStats *stats = &handle->flow->stats;

	count(&stats->slots, 1);
	count(&stats->bytes, length);
	count(&stats->rows, rows);
}

static void
submitted(RfFlowHandle *handle, bool wanted, uint32_t length, uint64_t rows)
{
	if (wanted)
		ring(handle);
	count_slot(handle, length, rows);
}

void
rf_flow_submit(RfFlowHandle *handle, const RfBuffer *buffer, uint32_t length, uint32_t flags,
			   uint64_t rows)
{
	check_submit(handle, buffer, length);
	submitted(handle, rf_slot_submit(handle->flow, &handle->cursor, length, flags, rows), length, rows);
}

void
rf_flow_submit_parts(RfFlowHandle *handle, const RfBuffer *buffer, const RfPart *parts, int part_count,
					 uint32_t length, uint32_t flags, uint64_t rows)
{
	check_submit(handle, buffer, length);
	submitted(handle, rf_slot_gather(handle->flow, rf_flow_parts(rf_shared, handle->flow), &handle->cursor, parts,
									 part_count, length, flags, rows), length, rows);
}

void
rf_flow_submit_all(const RfFlowSubmit *submits, int submit_count)
{
	uint32		lanes = 0;

	/* Nothing raises once the first is handed over: a lane that was not woken would sleep on. */
	for (int i = 0; i < submit_count; i++)
		check_submit(submits[i].flow, submits[i].buffer, submits[i].length);
	for (int i = 0; i < submit_count; i++)
	{
		const RfFlowSubmit *submit = &submits[i];
		RfFlow	   *flow = submit->flow->flow;
		uint32		lane = flow->lane % RF_MAX_LANES;

		if (submit->placed != NULL ?
			rf_slot_place(flow, &submit->flow->cursor, submit->placed, submit->length,
						  submit->flags, submit->rows) :
			rf_slot_submit(flow, &submit->flow->cursor, submit->length, submit->flags,
						   submit->rows))
		{
			rf_lane_queue(&rf_shared->lanes[lane], rf_shared->flows, submit->flow->index);
			lanes |= 1u << lane;
		}
		count_slot(submit->flow, submit->length, submit->rows);
	}
	for (; lanes != 0; lanes &= lanes - 1)
		rf_lane_wake(&rf_shared->lanes[pg_rightmost_one_pos32(lanes)]);
}

void
rf_flow_submit_from(RfFlowHandle *handle, const RfBuffer *buffer, const uint8_t *part, bool placed,
					uint32_t length, uint32_t flags, uint64_t rows)
{
	if (!placed)
	{
		memcpy(buffer->data, part, Min(length, buffer->length));
		rf_flow_submit(handle, buffer, length, flags, rows);
		return;
	}
	check_submit(handle, buffer, length);
	submitted(handle, rf_slot_place(handle->flow, &handle->cursor, part, length, flags, rows), length, rows);
}

uint8_t *
rf_flow_place(RfFlowHandle *handle, uint64_t bytes)
{
	int64		threshold = rf_dynamic_threshold < 0 ? -1 : (int64) rf_dynamic_threshold * 1024;
	uint8_t    *place = NULL;

	for (;;)
	{
		raise_if_failed(handle);
		switch (rf_value_place(rf_shared, handle->flow, &handle->cursor, rf_dynamic_registration,
							   threshold, bytes, &place))
		{
			case RF_VALUE_COPY:
				return NULL;
			case RF_VALUE_IN_PLACE:
				return place;
			case RF_VALUE_ASKED:
				rf_engine_wake_main();
				break;
			case RF_VALUE_WAIT:
				break;
		}
		sleep_for(handle, RF_WAIT_VALUE, named_wait_event(&wait_value, "RdmaFlowValue"));
	}
}

void
rf_flow_finish_begin(RfFlowHandle *handle)
{
	if (rf_slot_submit(handle->flow, &handle->cursor, 0, RF_SLOT_END, 0))
		ring(handle);
}

RfAcquire
rf_flow_finished(RfFlowHandle *handle)
{
	if (rf_slot_acked(handle->flow))
	{
		handle->acked = true;
		return RF_ACQUIRED;
	}
	raise_if_failed(handle);
	return atomic_load(&handle->flow->stop) != RF_STOP_NONE ? RF_ACQUIRE_STOPPED : RF_ACQUIRE_FULL;
}

bool
rf_flow_finish(RfFlowHandle *handle)
{
	RfBuffer	buffer;
	RfAcquire	result;

	if (!rf_flow_acquire(handle, &buffer))
		return false;
	rf_flow_finish_begin(handle);
	while ((result = rf_flow_finished(handle)) == RF_ACQUIRE_FULL)
		sleep_for(handle, RF_WAIT_ACK, named_wait_event(&wait_send, "RdmaFlowSend"));
	return result == RF_ACQUIRED;
}

bool
rf_flow_landed(RfFlowHandle *handle)
{
	raise_if_failed(handle);
	return atomic_load(&handle->flow->completed) == handle->cursor.next;
}

uint32_t
rf_flow_credit(RfFlowHandle *handle)
{
	uint64		limit = atomic_load(&handle->flow->credit) + handle->flow->slot_count;

	return limit > handle->cursor.next ? (uint32_t) (limit - handle->cursor.next) : 0;
}

bool
rf_flow_is_pooled(RfFlowHandle *handle)
{
	return handle->flow->pool_buffers > 0;
}

void
rf_flow_claim_in_order(RfFlowHandle *first, RfFlowHandle *then)
{
	atomic_store(&then->flow->claim_after, first->index + 1);
	atomic_store(&first->flow->claim_before, then->index + 1);
}

RfStopReason
rf_flow_stop_reason(RfFlowHandle *handle)
{
	return atomic_load(&handle->flow->stop);
}

/* ---------- several flows ---------- */

int
rf_flow_wait_any(const RfFlowSleep *sleeps, int sleep_count, int socket, long timeout_ms)
{
	uint32		wait_event = named_wait_event(&wait_group, "RdmaFlowGroup");
	bool		capped = timeout_ms < 0 || timeout_ms > ENGINE_CHECK_MS;
	long		timeout = capped ? ENGINE_CHECK_MS : timeout_ms;
	int			events = WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH;
	int64		since = rf_now_us();
	bool		ready = false;

	/* First all are announced, then all are looked at: what comes in between sets the latch. */
	for (int i = 0; i < sleep_count; i++)
		atomic_store(&sleeps[i].flow->flow->waiting, sleeps[i].waiting);
	for (int i = 0; i < sleep_count && !ready; i++)
		ready = rf_slots_ready(sleeps[i].flow->flow, &sleeps[i].flow->cursor, sleeps[i].waiting);

	if (ready)
		events = WL_LATCH_SET;
	else
	{
		if (socket == PGINVALID_SOCKET)
			events = WaitLatch(MyLatch, events, timeout, wait_event);
		else
			events = WaitLatchOrSocket(MyLatch, events | WL_SOCKET_READABLE, socket, timeout, wait_event);
		if (events & WL_LATCH_SET)
			ResetLatch(MyLatch);
	}

	for (int i = 0; i < sleep_count; i++)
	{
		end_sleep(sleeps[i].flow, since);
		sleeps[i].flow->cursor.remote_end_noticed = atomic_load(&sleeps[i].flow->flow->remote_end) != 0;
	}
	CHECK_FOR_INTERRUPTS();
	if (events & WL_TIMEOUT)
	{
		for (int i = 0; i < sleep_count; i++)
			raise_if_engine_gone(sleeps[i].flow);
		if (capped)
			events &= ~WL_TIMEOUT;	/* ours, not the caller's */
	}
	return events;
}
