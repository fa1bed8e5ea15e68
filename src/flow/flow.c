/*
 * flow.c - a backend's side of a flow: claim an entry, wait, consume, and close it in any case.
 *
 * The transitions of the slots are in slots.c, the lanes' side in src/engine/. This file has the
 * parts that need PostgreSQL: latches, interrupts, errors, and the list of open handles. A handle
 * is closed with the resource owner in which it was made, so an error, a rolled back subtransaction
 * or a dropped cursor closes exactly its own flows.
 *
 * Handles are this backend's own memory. The shared entry belongs to this backend from the claim to
 * the store of FREE or CLOSING; after that the engine frees it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "base/clock.h"
#include "shmem/life.h"
#include "shmem/ring.h"
#include "rdma_fdw/client.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/reader.h"
#include "rdma_fdw/reassemble.h"

#include "flow_int.h"

/* Interval at which a sleeper checks that the engine still runs: a dead engine wakes no one. */
#define ENGINE_CHECK_MS		1000

/* A shared receive pool of this backend. */
typedef struct RfReceiveHandle
{
	dlist_node	node;
	ResourceOwner owner;
	RfReceivePool *pool;
} RfReceiveHandle;

void		(*rf_flow_woken) (void) = NULL;

static dlist_head handles = DLIST_STATIC_INIT(handles);
static dlist_head pool_handles = DLIST_STATIC_INIT(pool_handles);
static bool callbacks_registered = false;
static uint32 next_entry = 0;	/* where the next search begins */

static uint32 wait_receive = 0;
static uint32 wait_group = 0;
static uint32 wait_send = 0;

/* ---------- handles and their end ---------- */

void
rf_wake_readers(const RfShareWakes *wakes)
{
	for (int i = 0; i < wakes->count; i++)
		SetLatch(rf_proc_latch(wakes->procs[i]));
}

/*
 * Called when the flow is closed, also after an error. Withdraws slots that have not been sent
 * (rf_slots_withdraw) and waits for slots that are being sent: until then their pages must not
 * change. The wait ends when the transport is done with them, or when the engine gives up a peer
 * that is gone or silent after rdma_fdw.peer_timeout, so that the flow has failed. Services no
 * interrupt and raises no error.
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
			/* The waker stored its change before; read it now. */
			atomic_store(&flow->waiting, RF_WAIT_LANDED);
			if (atomic_load(&flow->completed) >= end || atomic_load(&flow->state) == RF_FLOW_FAILED)
				break;
			waited = true;
			if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, RF_PIN_CHECK_MS,
						  named_wait_event(&wait_send, "RdmaFlowSend")) & WL_POSTMASTER_DEATH)
				break;
			ResetLatch(MyLatch);
		}
		atomic_store(&flow->waiting, RF_WAIT_NONE);
		/* It may have been set for another reason. */
		if (waited)
			SetLatch(MyLatch);
	}
	rf_pins_destroy(handle->pins);
	handle->pins = NULL;
}

static void close_pool(RfReceiveHandle *handle);

/* Closes the flows and pools of a resource owner that ends, before its locks are released. */
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
			rf_flow_close_as(handle, !is_commit);
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
		rf_flow_close_as(dlist_container(RfFlowHandle, node, iter.cur), true);
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
 * Entries may change meanwhile, by which the count is off by the few that other backends claim at
 * the same moment.
 */
static void
check_role_share(void)
{
	Oid			user = GetUserId();
	uint32		limit = rf_role_limit(rf_shared->max_flows);
	uint32		count = 0;

	/* While fewer are in use in all there is nothing to count. */
	if (limit >= rf_shared->max_flows ||
		atomic_load_explicit(&rf_shared->flow_counts.used, memory_order_relaxed) < limit)
		return;
	for (uint32 i = 0; i < rf_shared->max_flows; i++)
	{
		const RfFlow *flow = &rf_shared->flows[i];

		count += atomic_load_explicit(&flow->state, memory_order_relaxed) != RF_FLOW_FREE &&
			flow->role_oid == user;
	}
	if (count < limit)
		return;
	atomic_fetch_add_explicit(&rf_shared->counters.flows_refused, 1, memory_order_relaxed);
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("role \"%s\" has %u flows of rdma_fdw, as many as one role may have",
					GetUserNameFromId(user, false), count),
			 errdetail("There are %u, of which a role that is no superuser may have %d %%.",
					   rf_shared->max_flows, rf_role_share),
			 errhint("Run fewer foreign scans and statements over several nodes at a time as "
					 "this role, or increase rdma_fdw.max_flows or rdma_fdw.role_share.")));
}

/* The engine looks at entries below that. */
static void
reach(uint32 count)
{
	uint32		reached = atomic_load(&rf_shared->flow_counts.reached);

	while (reached < count &&
		   !atomic_compare_exchange_weak(&rf_shared->flow_counts.reached, &reached, count))
		;
}

/* A free one of the entries [from, to). */
static bool
claim_entry(uint32 from, uint32 to, uint32 *index)
{
	for (uint32 tries = from; tries < to; tries++)
	{
		RfFlow	   *flow;
		uint32		state = RF_FLOW_FREE;

		*index = from + next_entry++ % (to - from);
		flow = &rf_shared->flows[*index];
		if (atomic_load_explicit(&flow->state, memory_order_relaxed) != RF_FLOW_FREE)
			continue;
		reach(*index + 1);
		if (atomic_compare_exchange_strong(&flow->state, &state, RF_FLOW_CLAIMED))
			return true;
	}
	return false;
}

RfFlowHandle *
rf_flow_claim(int peer, RfFlowRole role)
{
	RfFlowHandle *handle;
	RfFlow	   *flow;
	uint32		index;

	rf_engine_require();
	register_callbacks();
	check_role_share();
	handle = MemoryContextAllocZero(TopMemoryContext, sizeof(RfFlowHandle));
	atomic_fetch_add(&rf_shared->flow_counts.used, 1);
	if (!claim_entry(0, Min(rf_shared->max_flows, RF_FIRST_FLOWS), &index) &&
		!claim_entry(RF_FIRST_FLOWS, rf_shared->max_flows, &index))
	{
		pfree(handle);
		atomic_fetch_sub(&rf_shared->flow_counts.used, 1);
		atomic_fetch_add_explicit(&rf_shared->counters.flows_refused, 1, memory_order_relaxed);
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("all %u flows of rdma_fdw are in use",
						rf_shared->max_flows),
				 errhint("Increase rdma_fdw.max_flows and restart, or run fewer foreign scans at "
						 "a time.")));
	}

	flow = &rf_shared->flows[index];
	handle->flow = flow;
	handle->index = index;
	handle->owner = CurrentResourceOwner;
	handle->engine_epoch = atomic_load(&rf_shared->engine_epoch);
	dlist_push_tail(&handles, &handle->node);

	rf_slots_reset(flow);
	flow->role = role;
	flow->key = 0;
	atomic_store(&flow->lease, 0);
	flow->peer = peer;
	flow->owner_pid = MyProcPid;
	flow->owner_proc = rf_my_proc_number();
	flow->role_oid = GetUserId();
	flow->role_share = rf_role_limit(100);
	flow->database_oid = MyDatabaseId;
	flow->remote_flow = 0;
	flow->slot_count = flow->window = 0;
	flow->memory.fewer_slots = false;
	flow->slot_size = 0;
	flow->estimated_rows = 0;
	flow->buffer_wait_ms = (uint32) rf_buffer_wait;
	atomic_store(&flow->weight, (uint32) rf_flow_weight);
	flow->start_us = rf_wall_us();
	return handle;
}

/*
 * Returns true if it is still open. During abort the resource owner may have closed it before its
 * user does.
 */
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
		rf_flow_close_as(handle, false);
}

/* False: the engine has taken it back. */
static bool
keep_own(RfFlowHandle *handle)
{
	if (!handle->lent)
		return true;
	if (!rf_flow_keep(handle->flow, handle->key))
		return false;
	handle->lent = false;
	atomic_fetch_sub(&rf_shared->flow_counts.lent, 1);
	return true;
}

__attribute__((noreturn)) static void
raise_taken_back(RfFlowHandle *handle)
{
	RfError		error;
	char		detail[sizeof(error.detail)];

	snprintf(detail, sizeof(detail),
			 "Stream %u of this session was to be opened within %u ms after it began to listen.",
			 handle->index, handle->lent_ms);
	(void) rf_error(&error, RF_ERROR_CONFIGURATION, detail,
					"Repeat the statement. Increase rdma_fdw.connect_timeout in the configuration "
					"of this server, of which this is six times, if setting it up takes longer.",
					"no other node has opened this session's stream in time");
	rf_raise(&error, handle->peer);
}

/*
 * Before the entry is read or written, if it may be lent. ERROR when the engine has taken it back.
 */
static void
require_own(RfFlowHandle *handle)
{
	if (!keep_own(handle))
		raise_taken_back(handle);
}

void
rf_flow_lend_for(RfFlowHandle *handle, uint32 ms)
{
	handle->key = handle->flow->key;
	handle->peer = handle->flow->peer;
	handle->lent_ms = ms;
	handle->lent = true;
	/* without leases it may sleep for long */
	if (atomic_fetch_add(&rf_shared->flow_counts.lent, 1) == 0)
		rf_engine_wake_main();
	rf_flow_lend(handle->flow, rf_now_us() + (int64) ms * 1000);
}

void
rf_flow_require_lent(RfFlowHandle *handle)
{
	if (handle->lent && atomic_load(&handle->flow->lease) != handle->key)
		raise_taken_back(handle);
}

static void
forget_handle(RfFlowHandle *handle)
{
	dlist_delete(&handle->node);
	pfree(handle);
}

void
rf_flow_close_as(RfFlowHandle *handle, bool failed)
{
	RfFlow	   *flow = handle->flow;
	RfFlowState state;
	uint32		lane;

	if (!keep_own(handle))
	{
		forget_handle(handle);
		return;
	}
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
	 * From here on the entry may belong to another backend; a doorbell that comes too late has no
	 * effect.
	 */
	state = rf_flow_leave(flow, &lane);
	if (state == RF_FLOW_CLAIMED || state == RF_FLOW_LISTENING)
		atomic_fetch_sub(&rf_shared->flow_counts.used, 1);
	if (state == RF_FLOW_OPEN || state == RF_FLOW_FAILED)
		rf_lane_ring(&rf_shared->lanes[lane % RF_MAX_LANES], rf_shared->flows, handle->index);
	if (state == RF_FLOW_OPENING || state == RF_FLOW_FAILED ||
		(state == RF_FLOW_LISTENING && atomic_load(&rf_shared->waiting_for_buffers) > 0))
		rf_engine_wake_main();
	forget_handle(handle);
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
	uint32		state;

	require_own(handle);
	state = atomic_load(&handle->flow->state);
	return state == RF_FLOW_OPEN || (state == RF_FLOW_FAILED &&
									 handle->flow->memory.buffers != NULL);
}

/* ---------- failing and sleeping ---------- */

void
rf_flow_raise_if_failed(RfFlowHandle *handle)
{
	RfFlow	   *flow = handle->flow;
	RfError		error;

	require_own(handle);
	if (atomic_load(&flow->state) == RF_FLOW_FAILED)
	{
		error = *rf_flow_error(rf_shared, flow);
		rf_raise(&error, flow->peer);
	}
}

bool
rf_flow_attach_memory(const RfFlow *flow)
{
	const uint8_t *buffers = flow->memory.buffers;
	uint32		index;
	RfError		error;

	if (buffers == NULL)
		return false;
	index = rf_segment_at(rf_shared, buffers - rf_shared->segments[0].addr);
	if (!rf_segment_attach(rf_shared->segments, index, rf_segment_bytes(rf_shared, index),
						   atomic_load(&rf_shared->engine_pid), &error))
		rf_raise(&error, RF_NO_PEER);
	return true;
}

void
rf_flow_attach(RfFlowHandle *handle)
{
	handle->attached = rf_flow_attach_memory(handle->flow);
	if (!handle->attached)
		elog(ERROR, "an open flow has no buffers");
}

/*
 * A flow whose engine is gone gets neither data nor an error until the next engine starts.
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
	require_own(handle);
	atomic_store(&handle->flow->waiting, waiting);
	return rf_now_us();
}

/* `elapsed`: microseconds. */
static void
end_sleep(RfFlowHandle *handle, int64 elapsed)
{
	RfFlow	   *flow = handle->flow;

	atomic_store(&flow->waiting, RF_WAIT_NONE);
	count(&flow->stats.waits, 1);
	count(&flow->stats.wait_us, elapsed > 0 ? (uint64) elapsed : 0);
}

void
rf_flow_sleep(RfFlowHandle *handle, RfFlowWaiting waiting, uint32 wait_event)
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
						   handle->pins != NULL && rf_pins_first(handle->pins, &pinned) ?
						   RF_PIN_CHECK_MS :
						   ENGINE_CHECK_MS,
						   wait_event);
		ResetLatch(MyLatch);
	}
	end_sleep(handle, rf_now_us() - since);
	if (handle->pins != NULL)
		rf_pins_release(handle->pins, atomic_load(&flow->completed));
	if (rf_flow_woken != NULL)
		rf_flow_woken();
	CHECK_FOR_INTERRUPTS();
	if (events & WL_TIMEOUT)
		raise_if_engine_gone(handle);
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

/*
 * Called after its flows are closed: once it is LEFT, the lanes use it only for flows that the
 * engine still knows.
 */
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

/* Wake the lanes in which producers of this flow's pool are queued: buffers may be free now. */
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
listen_with(int peer, RfReceivePool *pool, uint32_t slot_count, uint32_t slot_size,
			uint64_t estimated_rows, bool fewer_slots)
{
	RfFlowHandle *handle;
	uint64		key;

	if (slot_count < 1 || slot_count > RF_MAX_SLOTS || slot_size < 4096 || slot_size % 4096 != 0)
		elog(ERROR, "invalid geometry of a flow: %u buffers of %u bytes", slot_count, slot_size);
	if (!pg_strong_random(&key, sizeof(key)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random key for a flow")));

	handle = rf_flow_claim(peer, RF_FLOW_CONSUMER);
	handle->flow->key = key;
	handle->flow->slot_count = slot_count;
	handle->flow->slot_size = slot_size;
	handle->flow->estimated_rows = estimated_rows;
	handle->flow->pool = pool;
	handle->flow->memory.fewer_slots = fewer_slots;
	atomic_store(&handle->flow->state, RF_FLOW_LISTENING);
	return handle;
}

RfFlowHandle *
rf_flow_listen(int peer, uint32_t slot_count, uint32_t slot_size, uint64_t estimated_rows)
{
	return listen_with(peer, NULL, slot_count, slot_size, estimated_rows, true);
}

RfFlowHandle *
rf_flow_listen_all(int peer, uint32_t slot_count, uint32_t slot_size)
{
	return listen_with(peer, NULL, slot_count, slot_size, 0, false);
}

RfFlowHandle *
rf_flow_listen_pooled(int peer, RfReceivePool *pool, uint32_t slot_count)
{
	return listen_with(peer, pool, slot_count, pool->size, 0, false);
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

	if (unlikely(!handle->attached))
	{
		if (!rf_flow_is_open(handle))
		{
			rf_flow_raise_if_failed(handle);
			return RF_POLL_EMPTY;
		}
		rf_flow_attach(handle);
	}
	switch (rf_slot_read(flow, &handle->cursor, &header, &payload, &error))
	{
		case RF_READ_DATA:
			buffer->data = payload;
			buffer->length = header.length;
			buffer->flags = header.flags;
			buffer->sequence = header.sequence;
			buffer->offset = header.offset;
			buffer->checksum = header.checksum;
			if ((header.flags & RF_SLOT_FIRST) && (header.flags & RF_SLOT_LAST))
				rf_check_batch(payload, header.length, header.checksum);
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
	rf_flow_raise_if_failed(handle);
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
	require_own(handle);
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
 * `waiting` stays set if something else wakes the caller: the lane then sets a latch needlessly.
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
rf_flow_wait(RfFlowHandle *handle, RfSocketWait *wait, int socket, long timeout_ms)
{
	RfFlow	   *flow = handle->flow;
	uint32		wait_event = named_wait_event(&wait_receive, "RdmaFlowReceive");
	bool		capped = timeout_ms < 0 || timeout_ms > ENGINE_CHECK_MS;
	long		timeout = capped ? ENGINE_CHECK_MS : timeout_ms;
	int64		since = begin_sleep(handle, RF_WAIT_ANY);
	int			events;

	if (rf_slots_ready(flow, &handle->cursor, RF_WAIT_ANY))
		events = WL_LATCH_SET;
	else if (wait == NULL)
		events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						   timeout, wait_event);
	else
		events = rf_socket_wait(wait, socket, WL_SOCKET_READABLE, timeout, wait_event);

	if (events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	end_sleep(handle, rf_now_us() - since);

	/*
	 * Reported once: the caller looks at remote_end, and then waits for libpq to give the reason.
	 */
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

/* ---------- several flows ---------- */

/* For this process's client, whose socket is open as long as the process runs. */
static RfSocketWait client_wait;

int
rf_flow_wait_any(const RfFlowSleep *sleeps, int sleep_count, int socket, long timeout_ms)
{
	uint32		wait_event = named_wait_event(&wait_group, "RdmaFlowGroup");
	bool		capped = timeout_ms < 0 || timeout_ms > ENGINE_CHECK_MS;
	long		timeout = capped ? ENGINE_CHECK_MS : timeout_ms;
	int			events = WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH;
	int64		since = rf_now_us();
	int64		elapsed;
	bool		ready = false;

	for (int i = 0; i < sleep_count; i++)
		require_own(sleeps[i].flow);

	/* First announce all, then check all: an event in between sets the latch. */
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
			events = rf_socket_wait(&client_wait, socket, WL_SOCKET_READABLE, timeout, wait_event);
		if (events & WL_LATCH_SET)
			ResetLatch(MyLatch);
	}

	elapsed = rf_now_us() - since;
	for (int i = 0; i < sleep_count; i++)
	{
		end_sleep(sleeps[i].flow, elapsed);
		sleeps[i].flow->cursor.remote_end_noticed =
			atomic_load(&sleeps[i].flow->flow->remote_end) != 0;
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
