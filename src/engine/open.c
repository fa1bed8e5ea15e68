/*
 * open.c - opening and freeing of flows, by the engine's main thread.
 *
 * A producer's backend asks for a flow (OPENING); its engine asks the reader's engine (OPEN), which
 * finds receive buffers, hands the flow to a lane and answers (OPENED); the producer's engine finds
 * send buffers and hands its side to a lane. From then on the lanes work alone until they say that
 * a flow is detached; its buffers then go back to the pool. If there are no buffers, a side waits
 * for at most its session's rdma_fdw.buffer_wait.
 *
 * Flow indexes in messages come from the peer: a flow is touched only if its entry, its peer and
 * its key match.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/life.h"
#include "shmem/slots.h"

#include "engine_int.h"

static void try_consumer(uint32_t index);
static void try_producer(uint32_t index);
static void forget_stale(uint32_t index);

/* With two slots, one is filled while the other is read; more slots smooth uneven speeds. */
#define FEWEST_SLOTS	2

/* How often to look whether entries are lent for too long. */
#define LEASE_LOOK_US	1000000

static int64_t next_look_us = 0;

static const char reader_gone[] = "the reader does not wait for this stream any more";

static RfConnection *
connection_up(int peer)
{
	RfConnection *connection = peer >= 0 && peer < RF_MAX_PEERS ? rf_engine->by_peer[peer] : NULL;

	return connection && connection->phase == RF_PHASE_UP ? connection : NULL;
}

static void
set_phase(uint32_t index, RfFlowPhase phase)
{
	RfFlowWork *work = &rf_engine->flows[index];

	if (work->phase == RF_OPEN_BUFFERS)
		atomic_fetch_sub(&rf_shared->waiting_for_buffers, 1);
	if (phase == RF_OPEN_BUFFERS)
		atomic_fetch_add(&rf_shared->waiting_for_buffers, 1);
	if (work->phase == RF_OPEN_ATTACHED)
		rf_engine->lane_flows[work->lane]--;
	if (phase == RF_OPEN_ATTACHED)
		rf_engine->lane_flows[work->lane]++;
	work->phase = phase;
}

static void
set_free(RfFlow *flow)
{
	atomic_store(&flow->state, RF_FLOW_FREE);
	atomic_fetch_sub(&rf_shared->flow_counts.used, 1);
}

/* An entry that listens was held, and does not get buffers now. */
static void
let_go(RfFlow *flow)
{
	if (rf_flow_let_go(flow))
		atomic_fetch_sub(&rf_shared->flow_counts.used, 1);
}

/*
 * Only the main thread uses the entry now (CLOSING, and no lane knows it): returns its buffers and
 * frees it.
 */
static void
free_flow(uint32_t index)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	RfFlowWork *work = &rf_engine->flows[index];

	set_phase(index, RF_OPEN_NONE);
	rf_pool_return(rf_engine->pool, &work->block);
	rf_values_return(rf_engine->values, &work->piece);
	if (work->pool != NULL)
		rf_receive_unuse(work->pool, index);
	work->pool = NULL;
	flow->memory.buffers = NULL;
	set_free(flow);
}

/*
 * To FAILED from a state in which the entry cannot change its owner: OPENING (also a listening
 * entry that is held) or OPEN. False: it is not in that state; a backend that was faster has set
 * CLOSING itself.
 */
static bool
fail_flow(uint32_t index, RfFlowState from, const RfError *error)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	uint32_t	expected = from;

	/* Not for a FAILED one: its backend may be reading the error. */
	if (atomic_load(&flow->state) != from)
		return false;
	*rf_flow_error(rf_shared, flow) = *error;
	if (!atomic_compare_exchange_strong(&flow->state, &expected, RF_FLOW_FAILED))
		return false;
	rf_flow_wake(flow);
	return true;
}

/* Buffers came back: flows that wait for buffers may try again. */
void
rf_flows_retry(void)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	uint32_t	i;

	for (i = 0; i < flows && atomic_load(&rf_shared->waiting_for_buffers) > 0; i++)
	{
		if (rf_engine->flows[i].phase != RF_OPEN_BUFFERS)
			continue;
		if (rf_engine->flows[i].producer)
			try_producer(i);
		else
			try_consumer(i);
	}
}

static void
wait_for_buffers(uint32_t index)
{
	RfFlowWork *work = &rf_engine->flows[index];

	if (work->phase == RF_OPEN_BUFFERS)
		return;
	atomic_fetch_add(&rf_shared->buffer_waits, 1);
	work->deadline_us = rf_now_us() + (int64_t) rf_shared->flows[index].buffer_wait_ms * 1000;
	set_phase(index, RF_OPEN_BUFFERS);
}

/* Bytes of buffer memory that flows have: the flows of one role, or all (0). */
static size_t
buffers_held(uint32_t role)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	size_t		pages = 0;

	if (role == 0)
	{
		for (uint32_t i = 0; i < rf_shared->segment_count; i++)
			pages += atomic_load_explicit(&rf_shared->segments[i].used_pages, memory_order_relaxed);
		return pages * RF_POOL_PAGE;
	}
	for (uint32_t i = 0; i < flows; i++)
	{
		if (rf_engine->flows[i].block.segment >= 0 && rf_shared->flows[i].role_oid == role)
			pages += rf_engine->flows[i].block.pages;
	}
	for (int i = 0; i < RF_RECEIVE_POOLS; i++)
	{
		if (rf_engine->receive[i].users > 0 && rf_engine->receive[i].role_oid == role)
			pages += rf_engine->receive[i].block.pages;
	}
	return pages * RF_POOL_PAGE;
}

/*
 * Returns true if `size` more bytes would exceed the share of the flow's role. A role without
 * buffers may always have enough for one flow.
 */
static bool
over_share(const RfFlow *flow, size_t size)
{
	size_t		limit = rf_segment_offset(rf_shared, rf_shared->segment_count) / 100 *
	flow->role_share;
	size_t		held;

	if (flow->role_share >= 100 || size == 0 || buffers_held(0) + size <= limit)
		return false;
	held = buffers_held(flow->role_oid);
	return held > 0 && held + size > limit;
}

/*
 * Takes memory for `count` slots, and `more` bytes behind them. Where there is not so much free
 * memory, or not within the role's share, a flow that can do with fewer slots gets half as many,
 * and so on: to wait for more would be to wait with the buffers of the same statement's other
 * streams in hand.
 */
static RfPoolResult
take_slots(uint32_t index, RfConnection *connection, uint32_t count, size_t more, bool *share,
		   RfError *error)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	RfFlowWork *work = &rf_engine->flows[index];

	for (;; count = Max(count / 2, FEWEST_SLOTS))
	{
		size_t		size = (size_t) count * flow->slot_size + more;
		RfPoolResult result = RF_POOL_NONE_FREE;

		*share = over_share(flow, size);
		if (!*share)
			result = rf_pool_take(rf_engine->pool, work->peer, connection->domain, size,
								  &work->block, error);
		if (result == RF_POOL_TAKEN)
			flow->slot_count = count;
		if (result != RF_POOL_NONE_FREE || !flow->memory.fewer_slots || count <= FEWEST_SLOTS)
			return result;
	}
}

static void
no_buffers(RfError *error, uint32_t index, const char *where, bool share)
{
	memset(error, 0, sizeof(*error));
	if (share)
		rf_error(error, RF_ERROR_RESOURCES, NULL,
				 "Raise rdma_fdw.role_share for this role, or rdma_fdw.buffer_memory.",
				 "no buffer memory for a stream on the %s node within %u ms: the role has its "
				 "share of it (rdma_fdw.role_share)",
				 where, rf_shared->flows[index].buffer_wait_ms);
	else
		rf_error(error, RF_ERROR_RESOURCES, NULL,
				 "Raise rdma_fdw.buffer_memory or rdma_fdw.buffer_wait there, "
				 "or lower rdma_fdw.receive_buffers or rdma_fdw.receive_buffer_size.",
				 "no free buffer memory for a stream on the %s node within %u ms",
				 where, rf_shared->flows[index].buffer_wait_ms);
}

/* ---------- the producer's side ---------- */

/* Chooses a lane for the flow, and asks the reader's engine to open its side. */
static void
start_open(uint32_t index)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	RfFlowWork *work = &rf_engine->flows[index];
	RfConnection *connection = connection_up(flow->peer);
	RfControlOpen open;

	work->producer = true;
	work->peer = flow->peer;
	work->pool = NULL;
	work->block.segment = -1;
	work->lane = 0;
	if (connection == NULL)
	{
		RfError		error;

		memset(&error, 0, sizeof(error));
		rf_error(&error, RF_ERROR_CONNECTION, NULL, "Repeat the query.",
				 "the connection to the reader's engine is gone");
		(void) fail_flow(index, RF_FLOW_OPENING, &error);
		return;
	}
	work->lane = rf_lane_choose(&rf_engine->lane_load, rf_shared->lanes, rf_engine->lane_flows,
								rf_engine->lane_count, connection->lanes, rf_now_us());
	memset(&open, 0, sizeof(open));
	open.producer_flow = index;
	open.consumer_flow = flow->remote_flow;
	open.key = flow->key;
	open.lane = work->lane;
	set_phase(index, RF_OPEN_SENT);
	rf_connection_send(connection, RF_CONTROL_OPEN, &open, sizeof(open));
}

/*
 * OPENED came: gets send buffers, then attaches the lane. If the backend has left already, the lane
 * only exchanges the ENDs.
 */
static void
try_producer(uint32_t index)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	RfFlowWork *work = &rf_engine->flows[index];
	RfConnection *connection = rf_engine->by_peer[work->peer];
	RfError		error;
	uint32_t	expected = RF_FLOW_OPENING;
	bool		share;

	memset(&error, 0, sizeof(error));

	/* All of it before OPEN and FAILED: a backend that sees these and leaves rings flow->lane. */
	flow->memory.buffers = NULL;
	rf_slots_opened(flow, &work->opened);
	flow->memory.lane = work->lane;
	if (flow->memory.wants_pages && flow->memory.pool_buffers == 0)
	{
		RfRegion   *pages = rf_pages_register(connection);

		flow->memory.has_pages = pages != NULL;
		flow->memory.pages_lkey = pages != NULL ? pages->lkey : 0;
	}
	atomic_store(&flow->weight, work->opened.weight);
	if (atomic_load(&flow->state) == RF_FLOW_OPENING)
	{
		/* Answers to compare-and-swaps arrive behind the slots (lane_claim.c). */
		size_t		answers = work->opened.pool_claimable > 0 ? RF_POOL_PAGE : 0;

		switch (take_slots(index, connection, flow->window, answers, &share, &error))
		{
			case RF_POOL_TAKEN:
				flow->memory.buffers = rf_pool_address(rf_engine->pool, &work->block);
				flow->memory.lkey = rf_pool_region(rf_engine->pool, &work->block, work->peer)->lkey;
				break;
			case RF_POOL_NONE_FREE:
				if (work->phase != RF_OPEN_BUFFERS || rf_now_us() < work->deadline_us)
				{
					wait_for_buffers(index);
					return;
				}
				no_buffers(&error, index, "sending", share);
				(void) fail_flow(index, RF_FLOW_OPENING, &error);
				break;
			case RF_POOL_FAILED:
				(void) fail_flow(index, RF_FLOW_OPENING, &error);
				break;
		}
	}
	if (flow->memory.buffers && atomic_compare_exchange_strong(&flow->state, &expected,
															   RF_FLOW_OPEN))
		atomic_fetch_add(&rf_shared->peers[work->peer].flows_opened, 1);
	set_phase(index, RF_OPEN_ATTACHED);
	rf_lane_attach_flow(rf_engine->lanes[work->lane], index);
	rf_flow_wake(flow);
}

void
rf_flow_handle_opened(RfConnection *connection, const RfControlOpened *opened)
{
	RfFlowWork *work;

	if (opened->producer_flow >= rf_shared->max_flows ||
		(work = &rf_engine->flows[opened->producer_flow])->phase != RF_OPEN_SENT ||
		work->peer != connection->peer ||
		rf_shared->flows[opened->producer_flow].remote_flow != opened->consumer_flow)
	{
		RfError		error;

		memset(&error, 0, sizeof(error));
		rf_error(&error, RF_ERROR_PROTOCOL, NULL, NULL,
				 "it opened a stream that was not asked for");
		rf_connection_fail(connection, &error);
		return;
	}
	work->opened = *opened;
	try_producer(opened->producer_flow);
}

void
rf_flow_handle_open_failed(RfConnection *connection, const RfControlOpenFailed *failed)
{
	uint32_t	index = failed->producer_flow;
	RfFlowWork *work;
	RfError		error;

	memset(&error, 0, sizeof(error));
	if (index >= rf_shared->max_flows || (work = &rf_engine->flows[index])->phase != RF_OPEN_SENT ||
		work->peer != connection->peer)
	{
		rf_error(&error, RF_ERROR_PROTOCOL, NULL, NULL,
				 "it refused a stream that was not asked for");
		rf_connection_fail(connection, &error);
		return;
	}
	rf_error(&error, failed->reason, NULL,
			 failed->reason == RF_ERROR_RESOURCES ?
			 "Raise rdma_fdw.buffer_memory or rdma_fdw.buffer_wait on the reading node." :
			 failed->reason == RF_ERROR_CONFIGURATION ?
			 "See rdma_fdw.buffer_memory, rdma_fdw.receive_buffers and "
			 "rdma_fdw.receive_buffer_size on the reading node." : NULL,
			 "%s", failed->message);
	set_phase(index, RF_OPEN_NONE);
	if (!fail_flow(index, RF_FLOW_OPENING, &error))
		free_flow(index);
}

/* ---------- the consumer's side ---------- */

static void
refuse_open(RfConnection *connection, uint32_t producer_flow, RfErrorKind reason,
			const char *message)
{
	RfControlOpenFailed failed;

	atomic_fetch_add(&rf_shared->counters.flows_refused, 1);
	memset(&failed, 0, sizeof(failed));
	failed.producer_flow = producer_flow;
	failed.reason = reason;
	strlcpy(failed.message, message, sizeof(failed.message));
	rf_connection_send(connection, RF_CONTROL_OPEN_FAILED, &failed, sizeof(failed));
}

/*
 * Holds the entry if it listens to this peer and with this key, else leaves it untouched. The key
 * is random, so it identifies this use of the entry.
 */
static bool
hold_listening(uint32_t index, const RfControlOpen *open, int peer)
{
	RfFlow	   *flow = &rf_shared->flows[index];

	if (!rf_flow_hold(flow))
		return false;
	if (flow->key == open->key && flow->peer == peer)
		return true;
	let_go(flow);
	return false;
}

/* A receive pool's memory is there already for all of its flows but the first. */
static size_t
pool_bytes(const RfFlow *flow)
{
	return rf_engine->receive[flow->pool - rf_shared->receive_pools].users > 0 ? 0 :
		rf_receive_bytes(flow->pool->count, flow->pool->size);
}

/*
 * Answers a peer's OPEN for a flow that listens here: holds the entry, gives it buffers (its own or
 * a pool's) and tells the peer where they are. If there are no buffers it waits for some, and if
 * the reader has gone it refuses.
 */
static void
try_consumer(uint32_t index)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	RfFlowWork *work = &rf_engine->flows[index];
	RfConnection *connection = rf_engine->by_peer[work->peer];
	uint32_t	expected = RF_FLOW_OPENING;
	const RfRegion *region = NULL;
	RfPoolResult result = RF_POOL_TAKEN;
	RfControlOpened opened;
	RfError		error;
	bool		share = false;

	memset(&error, 0, sizeof(error));
	if (!hold_listening(index, &work->open, work->peer))
	{
		set_phase(index, RF_OPEN_NONE);
		refuse_open(connection, work->open.producer_flow, RF_ERROR_GONE, reader_gone);
		return;
	}

	/*
	 * As long as it is held only we write to the entry: its backend can only make it CLOSING, and
	 * leaves it to us.
	 */
	memset(&opened, 0, sizeof(opened));
	opened.producer_flow = work->open.producer_flow;
	opened.consumer_flow = index;
	if (flow->pool != NULL)
	{
		share = over_share(flow, pool_bytes(flow));
		result = share ? RF_POOL_NONE_FREE :
			rf_receive_use(flow->pool, work->peer, &region, &error);
	}
	if (result == RF_POOL_TAKEN && region != NULL)
	{
		work->pool = flow->pool;
		rf_engine->receive[flow->pool - rf_shared->receive_pools].role_oid = flow->role_oid;
	}
	else if (result == RF_POOL_TAKEN)
	{
		flow->pool = NULL;
		result = take_slots(index, connection, flow->slot_count, 0, &share, &error);
	}
	switch (result)
	{
		case RF_POOL_TAKEN:
			break;
		case RF_POOL_NONE_FREE:
			if (work->phase != RF_OPEN_BUFFERS || rf_now_us() < work->deadline_us)
			{
				/*
				 * Its backend reads waiting_for_buffers after it has released the entry, so check
				 * the entry again.
				 */
				wait_for_buffers(index);
				let_go(flow);
				forget_stale(index);
				return;
			}
			no_buffers(&error, index, "reading", share);
			__attribute__((fallthrough));
		case RF_POOL_FAILED:
			let_go(flow);
			set_phase(index, RF_OPEN_NONE);
			refuse_open(connection, work->open.producer_flow, error.kind, error.message);
			return;
	}
	if (region != NULL)
	{
		flow->memory.buffers = rf_receive_buffer(flow->pool, 0);
		opened.pool_buffers = flow->pool->count;

		/*
		 * Compare-and-swaps of the device and of the second transport are not atomic to each
		 * other.
		 */
		opened.pool_claimable = connection->over_sockets && !rf_engine->caps.needs_socket ?
			0 :
			flow->pool->claimable;
	}
	else
	{
		flow->memory.buffers = rf_pool_address(rf_engine->pool, &work->block);
		region = rf_pool_region(rf_engine->pool, &work->block, work->peer);
	}
	flow->memory.lkey = region->lkey;
	flow->memory.lane = work->lane;
	flow->remote_flow = work->open.producer_flow;
	opened.slot_count = flow->slot_count;
	opened.slot_size = flow->slot_size;
	opened.weight = atomic_load(&flow->weight);
	opened.remote_addr = (uint64_t) (uintptr_t) flow->memory.buffers;
	opened.rkey = region->rkey;
	if (!atomic_compare_exchange_strong(&flow->state, &expected, RF_FLOW_OPEN))
	{
		free_flow(index);
		refuse_open(connection, opened.producer_flow, RF_ERROR_GONE, reader_gone);
		return;
	}
	atomic_fetch_add(&rf_shared->peers[work->peer].flows_opened, 1);
	set_phase(index, RF_OPEN_ATTACHED);
	rf_lane_attach_flow(rf_engine->lanes[work->lane], index);
	rf_flow_wake(flow);
	rf_connection_send(connection, RF_CONTROL_OPENED, &opened, sizeof(opened));
}

/*
 * A reader that waits for buffers may release its entry (LISTENING -> FREE), which may have a new
 * owner by now. Then the sender is refused at once: it must not wait in vain, and the state of the
 * old owner must not block the new one.
 */
static void
forget_stale(uint32_t index)
{
	RfFlowWork *work = &rf_engine->flows[index];

	if (work->phase != RF_OPEN_BUFFERS || work->producer)
		return;
	if (hold_listening(index, &work->open, work->peer))
		let_go(&rf_shared->flows[index]);
	else
		try_consumer(index);
}

void
rf_flow_handle_open(RfConnection *connection, const RfControlOpen *open)
{
	uint32_t	index = open->consumer_flow;
	RfFlowWork *work;

	if (index < rf_shared->max_flows)
		forget_stale(index);
	if (index >= rf_shared->max_flows || open->lane >= connection->lanes ||
		rf_engine->flows[index].phase != RF_OPEN_NONE)
	{
		refuse_open(connection, open->producer_flow, RF_ERROR_GONE, reader_gone);
		return;
	}
	work = &rf_engine->flows[index];
	work->producer = false;
	work->peer = connection->peer;
	work->pool = NULL;
	work->block.segment = -1;
	work->lane = open->lane;
	work->open = *open;
	try_consumer(index);
}

/* ---------- value memory ---------- */

/*
 * For a flow that sends from another flow's piece: that one belongs to the same backend, which
 * therefore still has it.
 */
static bool
share_value(uint32_t index, RfConnection *connection, RfError *error)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	uint32_t	of = flow->value_of - 1;

	return of < rf_shared->max_flows && of != index &&
		rf_shared->flows[of].owner_pid == flow->owner_pid &&
		rf_engine->flows[of].phase == RF_OPEN_ATTACHED && rf_engine->flows[of].producer &&
		(uint64_t) rf_engine->flows[of].piece.units * RF_VALUE_UNIT >= flow->value.wanted &&
		rf_values_share(rf_engine->values, rf_engine->flows[index].peer, connection->domain,
						&rf_engine->flows[of].piece, &rf_engine->flows[index].piece, error);
}

/*
 * A producer requests a piece of it. Its former piece is unused, or it would not ask.
 */
static void
grant_value(uint32_t index)
{
	RfFlow	   *flow = &rf_shared->flows[index];
	RfFlowWork *work = &rf_engine->flows[index];
	RfConnection *connection = connection_up(work->peer);
	RfError		error;

	memset(&error, 0, sizeof(error));
	flow->value.memory = NULL;
	flow->value.size = 0;
	rf_values_return(rf_engine->values, &work->piece);
	if (connection != NULL && rf_engine->caps.max_sge >= 2 &&
		(flow->value_of != 0 ? share_value(index, connection, &error) :
		 rf_values_take(rf_engine->values, work->peer, connection->domain, flow->value.wanted,
						&work->piece, &error)))
	{
		flow->value.memory = rf_values_address(rf_engine->values, &work->piece);
		flow->value.size = (uint64_t) work->piece.units * RF_VALUE_UNIT;
		flow->value.lkey = rf_values_lkey(rf_engine->values, &work->piece);
		atomic_store(&flow->value.state, RF_VALUE_GRANTED);
	}
	else
	{
		/* No error: the rows are copied instead. The device's reason is worth a line, once. */
		static bool told = false;

		if (error.kind != RF_ERROR_NONE && !told)
			rf_log_error(LOG, "large rows are copied, because value memory cannot be registered",
						 &error);
		told |= error.kind != RF_ERROR_NONE;
		atomic_store(&flow->value.state, RF_VALUE_REFUSED);
	}
	rf_flow_wake(flow);
}

/* ---------- both sides ---------- */

/* A backend rang: flows to open, and flows it has left. */
void
rf_flows_requested(void)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	uint32_t	i;
	bool		freed = false;

	for (i = 0; i < flows; i++)
	{
		RfFlowWork *work = &rf_engine->flows[i];
		uint32_t	state;

		if (work->phase == RF_OPEN_BUFFERS)
			forget_stale(i);
		state = atomic_load(&rf_shared->flows[i].state);
		if (state == RF_FLOW_OPENING && work->phase == RF_OPEN_NONE)
			start_open(i);
		else if (state == RF_FLOW_CLOSING &&
				 (work->phase == RF_OPEN_NONE || work->phase == RF_OPEN_ORPHAN))
		{
			free_flow(i);
			freed = true;
		}
		else if (state == RF_FLOW_CLOSING && work->phase == RF_OPEN_BUFFERS)
			try_producer(i);
		else if (state == RF_FLOW_OPEN && work->phase == RF_OPEN_ATTACHED && work->producer &&
				 atomic_load(&rf_shared->flows[i].value.state) == RF_VALUE_WANTED)
			grant_value(i);
	}
	rf_receive_left();
	if (freed)
		rf_flows_retry();
}

void
rf_flow_detached(uint32_t index)
{
	if (index >= rf_shared->max_flows || rf_engine->flows[index].phase != RF_OPEN_ATTACHED)
		return;
	free_flow(index);
	rf_flows_retry();
}

/*
 * The connection failed: fails flows that no lane knows yet here, all other flows in their lanes.
 */
static void
peer_failed(int peer, const RfError *error)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	uint32_t	i;

	for (i = 0; i < flows; i++)
	{
		RfFlow	   *flow = &rf_shared->flows[i];
		RfFlowWork *work = &rf_engine->flows[i];
		uint32_t	state = atomic_load(&flow->state);

		if ((work->phase == RF_OPEN_SENT || work->phase == RF_OPEN_BUFFERS) && work->peer == peer)
		{
			bool		producer = work->producer;

			set_phase(i, RF_OPEN_NONE);
			if (producer && !fail_flow(i, RF_FLOW_OPENING, error) &&
				atomic_load(&flow->state) == RF_FLOW_CLOSING)
				free_flow(i);
		}
		else if (work->phase == RF_OPEN_NONE && state == RF_FLOW_OPENING && flow->peer == peer)
			(void) fail_flow(i, RF_FLOW_OPENING, error);
		if (atomic_load(&flow->state) == RF_FLOW_LISTENING && rf_flow_hold(flow) &&
			(flow->peer != peer || !fail_flow(i, RF_FLOW_OPENING, error)))
			let_go(flow);
	}
}

/* All lanes have let go: attached flows have only their buffers left. */
static void
peer_gone(int peer)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	uint32_t	i;

	for (i = 0; i < flows; i++)
	{
		RfFlowWork *work = &rf_engine->flows[i];

		if (work->phase != RF_OPEN_ATTACHED || work->peer != peer)
			continue;
		set_phase(i, RF_OPEN_ORPHAN);
		if (atomic_load(&rf_shared->flows[i].state) == RF_FLOW_CLOSING)
			free_flow(i);
	}
	rf_flows_retry();
}

/* Entries that their backends lent, and nobody has opened in time. */
static void
take_back(int64_t now)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	uint32_t	count = 0;
	int32_t		pid = 0;

	if (atomic_load(&rf_shared->flow_counts.lent) == 0 || now < next_look_us)
		return;
	next_look_us = now + LEASE_LOOK_US;
	for (uint32_t i = 0; i < flows; i++)
	{
		RfFlow	   *flow = &rf_shared->flows[i];
		int32_t		owner = flow->owner_pid;

		if (rf_engine->flows[i].phase != RF_OPEN_NONE || !rf_flow_take_back(flow, now))
			continue;
		atomic_fetch_sub(&rf_shared->flow_counts.lent, 1);
		atomic_fetch_sub(&rf_shared->flow_counts.used, 1);
		pid = owner;
		count++;
	}
	if (count > 0)
		ereport(LOG,
				(errmsg("rdma_fdw engine: took %u streams back that nobody opened, of process %d%s",
						count, pid, count > 1 ? " and perhaps others" : "")));
}

void
rf_flows_timers(int64_t now)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	uint32_t	i;

	take_back(now);
	if (atomic_load(&rf_shared->waiting_for_buffers) == 0)
		return;
	for (i = 0; i < flows; i++)
	{
		if (rf_engine->flows[i].phase != RF_OPEN_BUFFERS || rf_engine->flows[i].deadline_us > now)
			continue;
		if (rf_engine->flows[i].producer)
			try_producer(i);
		else
			try_consumer(i);
	}
}

int64_t
rf_flows_deadline(void)
{
	uint32_t	flows = atomic_load(&rf_shared->flow_counts.reached);
	int64_t		first = atomic_load(&rf_shared->flow_counts.lent) > 0 ? next_look_us : INT64_MAX;
	uint32_t	i;

	if (atomic_load(&rf_shared->waiting_for_buffers) == 0)
		return first;
	for (i = 0; i < flows; i++)
	{
		if (rf_engine->flows[i].phase == RF_OPEN_BUFFERS)
			first = Min(first, rf_engine->flows[i].deadline_us);
	}
	return first;
}

/* ---------- start and end of the engine ---------- */

/*
 * Nothing is open in a new engine: flows that still wait for the old one fail, and memory that a
 * backend still reads stays allocated.
 */
bool
rf_flows_start(void)
{
	RfError		error;
	uint32_t	i;

	rf_engine->peer_failed = peer_failed;
	rf_engine->peer_gone = peer_gone;
	atomic_store(&rf_shared->waiting_for_buffers, 0);
	for (i = 0; i < rf_shared->max_flows; i++)
		rf_engine->flows[i].block.segment = -1;
	rf_receive_start();
	memset(&error, 0, sizeof(error));
	rf_error(&error, RF_ERROR_CONNECTION, NULL, "Repeat the query.",
			 "the rdma_fdw engine of this node was restarted");
	rf_flows_fail_all(&error);
	for (i = 0; i < rf_shared->max_flows; i++)
	{
		RfFlow	   *flow = &rf_shared->flows[i];

		if (atomic_load(&flow->state) == RF_FLOW_FAILED && flow->memory.buffers != NULL)
		{
			rf_engine->flows[i].pool = flow->role == RF_FLOW_CONSUMER ? flow->pool : NULL;
			if (rf_engine->flows[i].pool != NULL)
				rf_receive_mark(flow->pool);
			else
				rf_pool_mark(rf_engine->pool, flow->memory.buffers,
							 (size_t) flow->slot_count * flow->slot_size,
							 &rf_engine->flows[i].block);
			if (flow->value.memory != NULL)
				rf_values_mark(rf_engine->values, flow->value.memory, flow->value.size,
							   &rf_engine->flows[i].piece);
			rf_engine->flows[i].phase = RF_OPEN_ORPHAN;
		}
	}
	rf_receive_left();
	return true;
}

void
rf_flows_fail_all(const RfError *error)
{
	uint32_t	i;

	for (i = 0; i < rf_shared->max_flows; i++)
	{
		RfFlow	   *flow = &rf_shared->flows[i];

		/* Held entries are OPENING. */
		(void) rf_flow_hold(flow);
		(void) (fail_flow(i, RF_FLOW_OPENING, error) || fail_flow(i, RF_FLOW_OPEN, error));
		if (atomic_load(&flow->state) == RF_FLOW_CLOSING)
		{
			flow->memory.buffers = NULL;
			set_free(flow);
		}
	}
}
