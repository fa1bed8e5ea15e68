/*
 * group_consume.c - a consumer of a group: listen for all producers, take their batches in turn.
 */
#include "postgres.h"

#include "group_int.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

/* ---------- listening ---------- */

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
			pair->flow = rf_flow_listen_pooled(rf_group_peer(node, false), group->pool,
											   group->slot_count);
		else
			pair->flow = rf_flow_listen_all(rf_group_peer(node, false), group->slot_count,
											group->slot_size);
		rf_flow_address(pair->flow, &address->flow, &address->key);
		address->known = 1;
		pair->state = PAIR_LIVE;
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
	rf_group_grow(group, desc->producers);
	listen_pairs(group, desc, known, RF_GROUP_ANY);
}

/* Lists the events for which a consumer waits: slots of its producers. */
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
	return count;
}

static const RfGroupEnd consuming = {RF_FLOW_CONSUMER, join, sleeps_of};

RfGroup *
rf_group_listen(RfGroupDesc *desc, uint32_t consumer, int own)
{
	RfGroup    *group = rf_group_new(desc, &consuming, consumer);
	ErrorContextCallback context;

	PG_TRY();
	{
		rf_group_begin_context(&context, group);
		rf_engine_require();
		open_pool(group, desc, own);
		listen_pairs(group, desc, 0, own);
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

/* ---------- taking arrived batches ---------- */

/*
 * The next buffer of a producer. An end of its flow that comes before the end of the stream is its
 * failure.
 */
static RfFlowPoll
poll_producer(RfGroup *group, uint32 producer, RfBuffer *buffer)
{
	GroupPair  *pair = &group->pairs[producer];

	/* Read first: when it is set, no more slots come than are there. */
	bool		ended = atomic_load(&rf_flow_entry(pair->flow)->remote_end) != 0;
	RfFlowPoll	result = rf_flow_poll(pair->flow, buffer);

	if (result == RF_POLL_EMPTY && ended)
		rf_group_fail(pair, "producer %u ended before the end of its stream", producer);
	if (result == RF_POLL_END)
		pair->state = PAIR_ENDED;
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

/* ---------- the caller's side ---------- */

RfFlowPoll
rf_group_poll(RfGroup *group, RfGroupBuffer *buffer)
{
	ErrorContextCallback context;
	RfFlowPoll	result;

	rf_group_begin_context(&context, group);
	result = group->finishing ? RF_POLL_END : poll_in_turn(group, buffer);
	rf_group_end_context(&context);
	return result;
}

void
rf_group_release(RfGroup *group, const RfGroupBuffer *buffer)
{
	rf_flow_release(group->pairs[buffer->member].flow, &buffer->buffer);
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

	if (group->finishing)
		return;
	rf_group_begin_context(&context, group);
	wait_until_opened(group);
	rf_group_end_context(&context);
	group->finishing = true;
	rf_group_close(group);
}
