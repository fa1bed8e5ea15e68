/*
 * group_consume.c - a consumer of a group: listen for all producers, take their batches in turn;
 * for replicate also the consumers' talk with each other.
 *
 * The order itself is decided in group_order.c; here its messages are carried and its verdicts
 * carried out.
 */
#include "postgres.h"

#include "group_int.h"

#include "storage/latch.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#define CONTROL_ROOM	(RF_GROUP_CONTROL_SIZE - (uint32_t) sizeof(RfSlotHeader))

/* ---------- listening ---------- */

static void
tell_address(RfFlowHandle *flow, RfGroupAddress *address)
{
	rf_flow_address(flow, &address->flow, &address->key);
	address->known = 1;
}

static RfFlowHandle *
listen_for(const RfNodeId *node, uint32_t slot_count, uint32_t slot_size, RfGroupAddress *address)
{
	RfFlowHandle *flow = rf_flow_listen_all(rf_group_peer(node, false), slot_count, slot_size);

	tell_address(flow, address);
	return flow;
}

/*
 * Makes flows for the producers from `from` on to open, out of the shared pool if there is one, and
 * fills their addresses into the description.
 */
static void
listen_pairs(RfGroup *group, RfGroupDesc *desc, uint32_t from, int own)
{
	for (uint32 producer = from; producer < group->pair_count; producer++)
	{
		GroupPair  *pair = &group->pairs[producer];
		const RfNodeId *node = rf_group_desc_node(desc, RF_FLOW_PRODUCER, producer);
		RfGroupAddress *address = rf_group_desc_pair(desc, producer, group->member);

		if ((int) producer == own)
			continue;
		if (group->pool != NULL && from == 0)
		{
			pair->flow = rf_flow_listen_pooled(rf_group_peer(node, false), group->pool,
											   group->slot_count);
			tell_address(pair->flow, address);
		}
		else
			pair->flow = listen_for(node, group->slot_count, group->slot_size, address);
		pair->state = PAIR_LIVE;
		if (group->kind == RF_GROUP_REPLICATE)
			pair->held = MemoryContextAlloc(group->context, group->slot_count * sizeof(RfBuffer));
	}
}

/* A shared set of receive buffers is as large as those of this many producers. */
#define POOL_STREAMS	4

/*
 * One set of receive buffers for all producers that are there from the beginning; one that joins
 * later brings its own. It has the buffers of a few of them, and one for each of many, since these
 * have smaller ones: together never more memory than a few have with buffers of full size, and no
 * more than a segment. It is not used where it saves nothing.
 */
static void
open_pool(RfGroup *group, const RfGroupDesc *desc, int own)
{
	uint64		most = (uint64) rf_receive_buffers * POOL_STREAMS;
	uint64		memory = Min(most * rf_receive_buffer_size * 1024,
							 rf_shared->segment_size - RF_RECEIVE_WORDS);
	uint32		producers = desc->producers - (own >= 0 ? 1 : 0);
	uint32		count = (uint32) Min(Min(Max(most, producers), RF_RECEIVE_MAX),
									 memory / group->slot_size);
	RfPeerSet	peers = {0};

	if (rf_is_disabled(RF_RECEIVE_POOL) || count < RF_RECEIVE_MIN || producers == 0 ||
		(!rf_is_disabled(RF_RECEIVE_POOL_COSTS) && producers * group->slot_count <= count))
		return;
	for (uint32 producer = 0; producer < desc->producers; producer++)
	{
		if ((int) producer != own)
			rf_peers_add(&peers, rf_group_peer(rf_group_desc_node(
																  desc, RF_FLOW_PRODUCER, producer),
											   false));
	}
	group->pool = rf_receive_open(count, group->slot_size, &peers,
								  !rf_is_disabled(RF_RECEIVE_CLAIMS));
}

static void
join(RfGroup *group, RfGroupDesc *desc)
{
	uint32		known = group->pair_count;

	if (desc->producers <= known)
		return;
	if (group->kind == RF_GROUP_REPLICATE)
		elog(ERROR, "producers cannot join a replicating flow");
	rf_group_grow(group, desc->producers);
	listen_pairs(group, desc, known, RF_GROUP_ANY);
}

/*
 * Lists the events for which a consumer waits: slots of its producers, and for a replicating one
 * messages and room of the other consumers.
 */
static int
sleeps_of(RfGroup *group, RfFlowSleep *sleeps)
{
	int			count = 0;

	for (uint32 producer = 0; producer < group->pair_count; producer++)
	{
		if (group->pairs[producer].state == PAIR_LIVE &&
			(group->turn.torn < 0 || group->turn.torn == (int) producer))
			sleeps[count++] = (RfFlowSleep) {group->pairs[producer].flow, RF_WAIT_ANY};
	}
	for (uint32 other = 0; group->order != NULL && other < group->consumers; other++)
	{
		GroupPair  *pair = &group->tell[other];

		if (group->hear[other].flow != NULL && !rf_order_told(group->order, other))
			sleeps[count++] = (RfFlowSleep) {group->hear[other].flow, RF_WAIT_ANY};
		if (pair->state == PAIR_OPENING)
			sleeps[count++] = (RfFlowSleep) {pair->flow, RF_WAIT_OPEN};
		else if (pair->flow != NULL && group->member == 0 && rf_order_told(group->order, other))
			sleeps[count++] = (RfFlowSleep) {pair->flow, RF_WAIT_LANDED};
		else if (pair->wanted)
			sleeps[count++] = (RfFlowSleep) {pair->flow, RF_WAIT_SLOTS};
	}
	return count;
}

static const RfGroupEnd consuming = {RF_FLOW_CONSUMER, join, sleeps_of};

/* The order of a replicating group, and the flows on which its consumers talk about it. */
static void
listen_for_order(RfGroup *group, RfGroupDesc *desc)
{
	uint32		consumer = group->member;

	group->order = palloc_extended(rf_order_size(desc->producers, desc->consumers,
												 group->slot_count), MCXT_ALLOC_HUGE);
	rf_order_init(group->order, desc->producers, desc->consumers, consumer, group->slot_count);
	group->rest_of = -1;
	group->tell = palloc0(group->consumers * sizeof(GroupPair));
	group->hear = palloc0(group->consumers * sizeof(GroupPair));
	for (uint32 other = 1; other < group->consumers; other++)
	{
		GroupPair  *pair = &group->hear[consumer == 0 ? other : 0];
		uint32		speaker = consumer == 0 ? other : 0;

		if (consumer != 0 && other != consumer)
			continue;
		pair->flow = listen_for(
								rf_group_desc_node(desc, RF_FLOW_CONSUMER, speaker),
								RF_GROUP_CONTROL_SLOTS, RF_GROUP_CONTROL_SIZE,
								rf_group_desc_control(desc, other,
													  consumer == 0 ? RF_FLOW_PRODUCER :
													  RF_FLOW_CONSUMER));
		pair->state = PAIR_LIVE;
	}
}

RfGroup *
rf_group_listen(RfGroupDesc *desc, uint32_t consumer, int own)
{
	RfGroup    *group = rf_group_new(desc, &consuming, consumer);
	ErrorContextCallback context;

	if (own >= 0 && group->kind == RF_GROUP_REPLICATE)
		elog(ERROR, "a replicating flow needs all of its pairs");
	PG_TRY();
	{
		rf_group_begin_context(&context, group);
		rf_engine_require();
		open_pool(group, desc, own);
		listen_pairs(group, desc, 0, own);
		if (group->kind == RF_GROUP_REPLICATE)
			listen_for_order(group, desc);
		rf_group_end_context(&context);
	}
	PG_CATCH();
	{
		rf_group_close(group);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return group;
}

void
rf_group_lend_for(RfGroup *group, uint32 ms)
{
	for (uint32 producer = 0; producer < group->pair_count; producer++)
	{
		if (group->pairs[producer].flow != NULL)
			rf_flow_lend_for(group->pairs[producer].flow, ms);
	}
}

void
rf_group_require_lent(RfGroup *group)
{
	ErrorContextCallback context;

	rf_group_begin_context(&context, group);
	for (uint32 producer = 0; producer < group->pair_count; producer++)
	{
		if (group->pairs[producer].flow != NULL)
			rf_flow_require_lent(group->pairs[producer].flow);
	}
	rf_group_end_context(&context);
}

void
rf_group_begin(RfGroup *group, RfGroupDesc *desc)
{
	ErrorContextCallback context;

	if (group->order == NULL)
		return;
	rf_group_begin_context(&context, group);
	for (uint32 other = 1; other < group->consumers; other++)
	{
		uint32		listener = group->member == 0 ? other : 0;
		GroupPair  *pair = &group->tell[listener];
		const RfGroupAddress *address = rf_group_desc_control(desc, other, group->member == 0 ?
															  RF_FLOW_CONSUMER : RF_FLOW_PRODUCER);

		if (group->member != 0 && other != group->member)
			continue;
		if (!address->known)
			elog(ERROR, "consumer %u of the flow does not listen yet", listener);
		pair->flow = rf_flow_open_begin(rf_group_peer(rf_group_desc_node(desc, RF_FLOW_CONSUMER,
																		 listener), true),
										address->flow, address->key);
		pair->state = PAIR_OPENING;
	}
	rf_group_end_context(&context);
}

/* ---------- taking arrived batches ---------- */

/*
 * The next buffer of a reading end. An end that comes before the end of the stream is the other
 * member's failure.
 */
__attribute__((format(printf, 2, 0)))
static RfFlowPoll
poll_pair(GroupPair *pair, const char *failed, uint32 member, RfBuffer *buffer)
{
	/* Read first: when it is set, no more slots come than are there. */
	bool		ended = atomic_load(&rf_flow_entry(pair->flow)->remote_end) != 0;
	RfFlowPoll	result = rf_flow_poll(pair->flow, buffer);

	if (result == RF_POLL_EMPTY && ended)
		rf_group_fail(pair, failed, member);
	if (result == RF_POLL_BUFFER)
		pair->polled++;
	return result;
}

static RfFlowPoll
poll_producer(RfGroup *group, uint32 producer, RfBuffer *buffer)
{
	RfFlowPoll	result = poll_pair(&group->pairs[producer],
								   "producer %u ended before the end of its stream",
								   producer, buffer);

	if (result == RF_POLL_END)
	{
		group->pairs[producer].state = PAIR_ENDED;
		if (group->order != NULL)
			rf_order_ended(group->order, producer);
	}
	return result;
}

/* A batch of each producer in turn. */
static RfFlowPoll
poll_in_turn(RfGroup *group, RfGroupBuffer *buffer)
{
	bool		some_live = false;

	for (uint32 i = 0; i < group->pair_count; i++)
	{
		uint32		producer = rf_turn_look(&group->turn, i, group->pair_count);
		GroupPair  *pair = &group->pairs[producer];

		if (pair->state != PAIR_LIVE)
			continue;
		switch (poll_producer(group, producer, &buffer->buffer))
		{
			case RF_POLL_BUFFER:
				buffer->member = (int) producer;
				pair->given++;
				rf_turn_take(&group->turn, producer, (buffer->buffer.flags & RF_SLOT_LAST) != 0);
				return RF_POLL_BUFFER;
			case RF_POLL_EMPTY:
				if (group->turn.torn >= 0)
				{
					rf_flow_await_next(pair->flow);
					return RF_POLL_EMPTY;
				}
				some_live = true;
				break;
			case RF_POLL_END:
				break;
		}
	}
	if (some_live)
		return RF_POLL_EMPTY;
	group->finishing = true;
	return RF_POLL_END;
}

/* ---------- replicate ---------- */

static void
check_order(RfGroup *group, bool good, const GroupPair *pair, const RfError *error)
{
	if (!good)
		rf_raise(error, pair != NULL ? rf_flow_entry(pair->flow)->peer : RF_NO_PEER);
}

static void
hear(RfGroup *group, uint32 speaker)
{
	GroupPair  *pair = &group->hear[speaker];
	RfBuffer	buffer;
	RfError		error;

	while (!rf_order_told(group->order, speaker) &&
		   poll_pair(pair, "consumer %u of the flow failed", speaker, &buffer) == RF_POLL_BUFFER)
	{
		bool		good = rf_order_read(group->order, speaker, buffer.data, buffer.length, &error);

		check_order(group, good, pair, &error);
		rf_flow_release(pair->flow, &buffer);
	}
}

/*
 * Sends a member's news about the order to one listener, as far as there are slots; the rest is
 * told later.
 */
static void
tell(RfGroup *group, uint32 listener)
{
	GroupPair  *pair = &group->tell[listener];
	RfBuffer	buffer;

	/*
	 * Until it is acquired nothing is written, so that all news waiting for a slot is told in one
	 * message.
	 */
	while (!rf_order_told(group->order, listener))
	{
		uint8_t		message[CONTROL_ROOM];
		uint32		length;
		RfAcquire	result = rf_group_pair_acquire(pair, listener, &buffer);

		/*
		 * The first consumer may have told how it ended and be gone: that, or that it ended
		 * without telling, is heard next.
		 */
		if (result == RF_ACQUIRE_STOPPED && group->member == 0)
			rf_group_fail(pair, "consumer %u of the flow failed", listener);
		if (result != RF_ACQUIRED)
			return;
		length = rf_order_write(group->order, listener, message, CONTROL_ROOM);
		if (length == 0)
			return;
		memcpy(buffer.data, message, length);
		rf_flow_submit(pair->flow, &buffer, length, RF_SLOT_FIRST | RF_SLOT_LAST, 0);
	}
}

/* Exchange all news with the other consumers now. */
static void
exchange_order(RfGroup *group)
{
	RfError		error;

	for (uint32 producer = 0; producer < group->pair_count; producer++)
	{
		GroupPair  *pair = &group->pairs[producer];
		RfBuffer	buffer;

		while (pair->state == PAIR_LIVE &&
			   poll_producer(group, producer, &buffer) == RF_POLL_BUFFER)
		{
			pair->held[(pair->polled - 1) % group->slot_count] = buffer;
			rf_order_arrived(group->order, producer, (buffer.flags & RF_SLOT_LAST) != 0);
		}
	}

	if (group->member != 0)
	{
		tell(group, 0);
		hear(group, 0);
		return;
	}
	for (uint32 other = 1; other < group->consumers; other++)
		hear(group, other);
	check_order(group, rf_order_decide(group->order, &error), NULL, &error);
	for (uint32 other = 1; other < group->consumers; other++)
		tell(group, other);
}

/* All other consumers know how it ended: then the first consumer may go. */
static bool
others_know(RfGroup *group)
{
	for (uint32 other = 1; group->member == 0 && other < group->consumers; other++)
	{
		if (!rf_order_told(group->order, other) || !rf_flow_landed(group->tell[other].flow))
			return false;
	}
	return true;
}

/*
 * A replicating consumer's next slot: the next one in the order that the first consumer decided.
 * Talks with the other consumers when there is nothing to give out, or enough to report.
 */
static RfFlowPoll
poll_ordered(RfGroup *group, RfGroupBuffer *buffer)
{
	uint32_t	producer;
	RfOrderNext next;
	GroupPair  *pair;

	/*
	 * Not only when nothing is left: the other consumers wait for news of the slots that have
	 * arrived here meanwhile. But not for every slot either.
	 */
	next = RF_ORDER_NOTHING;
	if (group->unreported < Max(group->slot_count / 2, 1))
		next = rf_order_next(group->order, &producer);
	if (next != RF_ORDER_SLOT)
	{
		exchange_order(group);
		group->unreported = 0;
		next = rf_order_next(group->order, &producer);
	}
	switch (next)
	{
		case RF_ORDER_SLOT:
			pair = &group->pairs[producer];
			buffer->member = (int) producer;
			buffer->buffer = pair->held[pair->given++ % group->slot_count];
			group->unreported++;
			group->rest_of = (buffer->buffer.flags & RF_SLOT_LAST) != 0 ? -1 : (int) producer;
			return RF_POLL_BUFFER;
		case RF_ORDER_NOTHING:

			/*
			 * The log goes on with the rest of a batch. When that is here it waits for other
			 * batches.
			 */
			if (group->rest_of >= 0 &&
				group->pairs[group->rest_of].given == group->pairs[group->rest_of].polled)
				rf_flow_await_next(group->pairs[group->rest_of].flow);
			return RF_POLL_EMPTY;
		case RF_ORDER_END:
		case RF_ORDER_STOP:
			if (!others_know(group))
				return RF_POLL_EMPTY;
			group->finishing = true;
			return RF_POLL_END;
	}
	pg_unreachable();
}

/* ---------- the caller's side ---------- */

RfFlowPoll
rf_group_poll(RfGroup *group, RfGroupBuffer *buffer)
{
	ErrorContextCallback context;
	RfFlowPoll	result;

	rf_group_begin_context(&context, group);
	if (group->finishing)
		result = RF_POLL_END;
	else if (group->order != NULL)
		result = poll_ordered(group, buffer);
	else
		result = poll_in_turn(group, buffer);
	rf_group_end_context(&context);
	return result;
}

/* The next part, waiting for it. False: the end. */
static bool
read_part(RfGroup *group, RfGroupBuffer *buffer)
{
	RfFlowPoll	result;

	while ((result = rf_group_poll(group, buffer)) == RF_POLL_EMPTY)
		(void) rf_groups_wait(&group, 1, PGINVALID_SOCKET, -1);
	return result == RF_POLL_BUFFER;
}

void
rf_group_release(RfGroup *group, const RfGroupBuffer *buffer)
{
	GroupPair  *pair = &group->pairs[buffer->member];

	rf_flow_release(pair->flow, &buffer->buffer);
	pair->released++;
}

void
rf_group_totals(RfGroup *group, uint32_t producer, uint64_t *rows, uint64_t *bytes)
{
	rf_flow_totals(group->pairs[producer].flow, rows, bytes);
}

void
rf_group_leave(RfGroup *group)
{
	if (group->kind != RF_GROUP_BALANCE || group->role != RF_FLOW_CONSUMER)
		elog(ERROR, "only a consumer of a balancing flow can leave it");
	for (uint32 producer = 0; producer < group->pair_count; producer++)
	{
		if (group->pairs[producer].state == PAIR_LIVE)
			rf_flow_withdraw(group->pairs[producer].flow);
	}
}

/*
 * A producer that has not opened its pair yet would find nobody there, and take that for a failure.
 */
static void
wait_until_opened(RfGroup *group)
{
	RfFlowSleep *sleeps = palloc(group->pair_count * sizeof(RfFlowSleep));
	int			count;

	for (;;)
	{
		count = 0;
		for (uint32 producer = 0; producer < group->pair_count; producer++)
		{
			RfFlowHandle *flow = group->pairs[producer].flow;

			if (flow == NULL)
				continue;
			(void) rf_flow_opened(flow);	/* raises the error of the flow */
			if (!rf_flow_is_open(flow))
				sleeps[count++] = (RfFlowSleep) {flow, RF_WAIT_ANY};
		}
		if (count == 0)
			break;
		(void) rf_flow_wait_any(sleeps, count, PGINVALID_SOCKET, -1);
	}
	pfree(sleeps);
}

void
rf_group_stop(RfGroup *group)
{
	ErrorContextCallback context;
	RfGroupBuffer buffer;

	if (group->finishing)
		return;
	if (group->order != NULL)
	{
		/* Slots that the caller still holds go back first: the other members may wait for them. */
		for (uint32 producer = 0; producer < group->pair_count; producer++)
		{
			GroupPair  *pair = &group->pairs[producer];

			for (; pair->released < pair->given; pair->released++)
				rf_flow_release(pair->flow, &pair->held[pair->released % group->slot_count]);
		}
		rf_order_drain(group->order);
		while (read_part(group, &buffer))
			rf_group_release(group, &buffer);
	}
	rf_group_begin_context(&context, group);
	wait_until_opened(group);
	rf_group_end_context(&context);
	group->finishing = true;
	rf_group_close(group);
}
