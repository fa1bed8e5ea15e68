/*
 * group_produce.c - a producer of a group: open towards all consumers at once, route batches, end
 * all streams.
 *
 * Only calls whose comments say so wait. A refused request is remembered (`wanted`), so that
 * rf_groups_wait sleeps for it and for nothing else.
 */
#include "postgres.h"

#include "group_int.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/guc.h"
#include "shmem/value.h"

/* The next buffer of one pair, which is opening or open. The reader's STOP for a failure raises. */
static RfAcquire
acquire(GroupPair *pair, uint32 member, RfBuffer *buffer)
{
	RfAcquire	result;

	if (pair->state == PAIR_OPENING)
	{
		if (!rf_flow_opened(pair->flow))
		{
			pair->wanted = true;
			return RF_ACQUIRE_FULL;
		}
		pair->state = PAIR_LIVE;
	}
	if (pair->state != PAIR_LIVE)
		return RF_ACQUIRE_STOPPED;

	result = rf_flow_try_acquire(pair->flow, buffer);
	if (result == RF_ACQUIRE_STOPPED)
	{
		if (rf_flow_stop_reason(pair->flow) == RF_STOP_FAILED)
			rf_group_fail(pair, "consumer %u of the flow failed", member);
		pair->state = PAIR_STOPPED;
	}
	pair->wanted = result == RF_ACQUIRE_FULL;
	return result;
}

/* ---------- opening ---------- */

static void
open_pairs(RfGroup *group, RfGroupDesc *desc, uint32 from, int own)
{
	for (uint32 consumer = from; consumer < group->pair_count; consumer++)
	{
		const RfGroupAddress *address = rf_group_desc_pair(desc, group->member, consumer);
		int			peer;

		if ((int) consumer == own)
			continue;
		if (!address->known)
			elog(ERROR, "consumer %u of the flow does not listen yet", consumer);
		peer = rf_group_peer(rf_group_desc_node(desc, RF_FLOW_CONSUMER, consumer), true);
		group->pairs[consumer].flow = rf_flow_open_begin(peer, address->flow, address->key);
		group->pairs[consumer].state = PAIR_OPENING;
		group->pairs[consumer].wanted = true;
	}
}

static void
join(RfGroup *group, RfGroupDesc *desc)
{
	uint32		known = group->pair_count;

	if (desc->consumers <= known)
		return;
	if (group->kind != RF_GROUP_BALANCE)
		elog(ERROR, "consumers join balancing flows only");
	rf_group_grow(group, desc->consumers);
	open_pairs(group, desc, known, RF_GROUP_ANY);
}

/*
 * Lists the events for which a producer waits, one per pair that refused a request or is opening or
 * ending.
 */
static int
sleeps_of(RfGroup *group, RfFlowSleep *sleeps)
{
	int			count = 0;

	for (uint32 consumer = 0; consumer < group->pair_count; consumer++)
	{
		GroupPair  *pair = &group->pairs[consumer];
		RfFlowWaiting waiting = RF_WAIT_NONE;

		if (pair->state == PAIR_OPENING)
			waiting = RF_WAIT_OPEN;
		else if (pair->state == PAIR_LIVE && pair->wanted)
			waiting = group->kind == RF_GROUP_BALANCE && group->turn.torn < 0 &&
				!group->finishing && atomic_load(&rf_flow_entry(pair->flow)->leaving) == 0 ?
				RF_WAIT_CREDIT : RF_WAIT_SLOTS;
		else if (pair->state == PAIR_ENDING && group->finishing)
			waiting = RF_WAIT_ACK;
		if (waiting != RF_WAIT_NONE && (group->turn.torn < 0 || group->turn.torn == (int) consumer))
			sleeps[count++] = (RfFlowSleep) {pair->flow, waiting};

		/*
		 * A caller that still wants it will be refused again; a request that nobody repeats must
		 * not end the sleep at once.
		 */
		pair->wanted = false;
	}
	return count;
}

static const RfGroupEnd producing = {RF_FLOW_PRODUCER, join, sleeps_of};

RfGroup *
rf_group_open_begin(RfGroupDesc *desc, uint32_t producer, int own)
{
	RfGroup    *group = rf_group_new(desc, &producing, producer);
	ErrorContextCallback context;

	PG_TRY();
	{
		rf_group_begin_context(&context, group);
		open_pairs(group, desc, 0, own);
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

/*
 * Returns true if all pairs are open. Marks every open pair as live, so that rf_groups_wait() does
 * not return for it again.
 */
static bool
all_opened(RfGroup *group)
{
	bool		all = true;

	for (uint32 consumer = 0; consumer < group->pair_count; consumer++)
	{
		GroupPair  *pair = &group->pairs[consumer];

		if (pair->state != PAIR_OPENING)
			continue;
		if (rf_flow_opened(pair->flow))
		{
			pair->state = PAIR_LIVE;
			pair->wanted = false;
		}
		else
			all = false;
	}
	return all;
}

void
rf_group_open_end(RfGroup *group)
{
	ErrorContextCallback context;

	rf_group_begin_context(&context, group);
	while (!all_opened(group))
		(void) rf_groups_wait(&group, 1, PGINVALID_SOCKET, -1);
	rf_group_end_context(&context);
}

/* ---------- batches for all consumers ---------- */

/* Ask for memory that all pairs send from, or look whether it was granted. */
static uint8_t *
common_memory(RfGroup *group, uint32_t bytes)
{
	RfFlow	  **flows = palloc(group->pair_count * sizeof(RfFlow *));
	uint32		count = 0;
	bool		ask = false;
	uint8_t    *memory = NULL;

	for (uint32 consumer = 0; consumer < group->pair_count; consumer++)
	{
		if (group->pairs[consumer].state == PAIR_LIVE)
			flows[count++] = unconstify(RfFlow *, rf_flow_entry(group->pairs[consumer].flow));
		else if (group->pairs[consumer].state != PAIR_NONE)
		{
			count = 0;			/* a reader has stopped: not worth it any more */
			break;
		}
	}
	if (count > 1)
		memory = rf_value_common(rf_shared, flows, count, rf_value_mode(),
								 group->common_copied, &ask);
	if (ask)
		rf_engine_wake_main();
	if (memory == NULL)
		group->common_copied += bytes;
	pfree(flows);
	return memory;
}

RfAcquire
rf_group_common(RfGroup *group, uint32_t bytes, uint8_t **place)
{
	ErrorContextCallback context;
	RfAcquire	result = RF_ACQUIRED;
	bool		sent = true;

	Assert(group->kind == RF_GROUP_REPARTITION);
	*place = NULL;
	rf_group_begin_context(&context, group);
	if (group->common == NULL)
		group->common = common_memory(group, bytes);
	for (uint32 consumer = 0; consumer < group->pair_count && group->common != NULL; consumer++)
	{
		GroupPair  *pair = &group->pairs[consumer];
		RfBuffer	buffer;

		if (pair->state == PAIR_NONE)
			continue;
		switch (acquire(pair, consumer, &buffer))
		{
			case RF_ACQUIRED:
				break;
			case RF_ACQUIRE_FULL:
				result = RF_ACQUIRE_FULL;
				break;
			case RF_ACQUIRE_STOPPED:
				sent = sent && rf_flow_landed(pair->flow);
				break;
		}
	}
	if (group->common != NULL && result == RF_ACQUIRED && sent)
		*place = group->common + group->common_number % group->slot_count * group->slot_size;
	rf_group_end_context(&context);
	return result;
}

void
rf_group_common_next(RfGroup *group)
{
	group->common_number++;
}

/* ---------- routing ---------- */

/* Hand over the end of the stream when there is a slot for it. */
static void
end_pair(RfGroup *group, uint32 consumer)
{
	GroupPair  *pair = &group->pairs[consumer];
	RfBuffer	buffer;

	if (acquire(pair, consumer, &buffer) == RF_ACQUIRED)
	{
		rf_flow_finish_begin(pair->flow);
		pair->state = PAIR_ENDING;
	}
}

/*
 * To the consumer with most free receive buffers: it has released most since its last batch, so
 * batches go where they are consumed. Nothing is queued for a consumer that has no free buffer.
 */
static RfAcquire
acquire_balanced(RfGroup *group, RfGroupBuffer *buffer)
{
	bool		some_live = false;
	int			best;

	if (group->turn.torn >= 0)
	{
		buffer->member = group->turn.torn;
		return acquire(&group->pairs[group->turn.torn], group->turn.torn, &buffer->buffer);
	}

	for (uint32 consumer = 0; consumer < group->pair_count; consumer++)
	{
		GroupPair  *pair = &group->pairs[consumer];

		group->free_buffers[consumer] = 0;
		if (pair->state == PAIR_STOPPED)
			return RF_ACQUIRE_STOPPED;	/* rows that it did not read are lost */
		if (pair->state == PAIR_OPENING && rf_flow_opened(pair->flow))
			pair->state = PAIR_LIVE;
		if (pair->state == PAIR_LIVE && atomic_load(&rf_flow_entry(pair->flow)->leaving) != 0)
			end_pair(group, consumer);
		else if (pair->state == PAIR_LIVE)
			group->free_buffers[consumer] = rf_flow_credit(pair->flow);

		/*
		 * One whose end waits for a slot takes nothing either, but it may still be told that all
		 * is over.
		 */
		if (pair->state == PAIR_LIVE && rf_flow_stop_reason(pair->flow) != RF_STOP_NONE)
			return acquire(pair, consumer, &buffer->buffer);
		some_live = some_live || pair->state == PAIR_LIVE || pair->state == PAIR_OPENING;
		pair->wanted = pair->state == PAIR_LIVE || pair->state == PAIR_OPENING;
	}
	while ((best = rf_group_most_free(group->free_buffers, group->pair_count,
									  group->turn.next)) >= 0)
	{
		RfAcquire	result = acquire(&group->pairs[best], best, &buffer->buffer);

		if (result != RF_ACQUIRE_FULL)
		{
			buffer->member = best;
			rf_turn_take(&group->turn, best, false);
			return result;
		}
		group->free_buffers[best] = 0;	/* the slot's last write has not completed */
	}
	return some_live ? RF_ACQUIRE_FULL : RF_ACQUIRE_STOPPED;
}

RfAcquire
rf_group_try_acquire(RfGroup *group, int consumer, RfGroupBuffer *buffer)
{
	ErrorContextCallback context;
	RfAcquire	result;

	if (group->finishing || (group->kind == RF_GROUP_REPARTITION) != (consumer >= 0) ||
		consumer >= (int) group->pair_count)
		elog(ERROR, "invalid use of a flow: consumer %d", consumer);
	rf_group_begin_context(&context, group);
	if (group->kind == RF_GROUP_BALANCE)
		result = acquire_balanced(group, buffer);
	else
	{
		buffer->member = consumer;
		result = acquire(&group->pairs[consumer], consumer, &buffer->buffer);
	}
	rf_group_end_context(&context);
	return result;
}

void
rf_group_submit(RfGroup *group, const RfGroupBuffer *buffer, uint32_t length, uint32_t flags,
				uint64_t rows)
{
	rf_flow_submit(group->pairs[buffer->member].flow, &buffer->buffer, length, flags, rows);
	if (flags & RF_SLOT_LAST)
		group->turn.torn = -1;
}

void
rf_group_submit_all(RfGroup *group, const RfGroupSubmit *submits, int count)
{
	RfFlowSubmit *all = palloc(count * sizeof(RfFlowSubmit));

	Assert(group->kind == RF_GROUP_REPARTITION);
	for (int i = 0; i < count; i++)
		all[i] = (RfFlowSubmit)
	{
		group->pairs[submits[i].buffer->member].flow, &submits[i].buffer->buffer,
			submits[i].placed, submits[i].length, submits[i].flags, submits[i].rows
	};
	rf_flow_submit_all(all, count);
	pfree(all);
}

/* ---------- the end ---------- */

RfAcquire
rf_group_try_finish(RfGroup *group)
{
	ErrorContextCallback context;
	bool		waiting = false;
	bool		acknowledged = false;

	rf_group_begin_context(&context, group);
	group->finishing = true;
	for (uint32 consumer = 0; consumer < group->pair_count; consumer++)
	{
		GroupPair  *pair = &group->pairs[consumer];

		if (pair->state == PAIR_OPENING || pair->state == PAIR_LIVE)
			end_pair(group, consumer);
		if (pair->state == PAIR_ENDING)
		{
			RfAcquire	result = rf_flow_finished(pair->flow);

			if (result == RF_ACQUIRE_STOPPED && rf_flow_stop_reason(pair->flow) == RF_STOP_FAILED)
				rf_group_fail(pair, "consumer %u of the flow failed", consumer);
			if (result != RF_ACQUIRE_FULL)
				pair->state = result == RF_ACQUIRED ? PAIR_ENDED : PAIR_STOPPED;
		}
		acknowledged = acknowledged || pair->state == PAIR_ENDED;
		waiting = waiting || (pair->state != PAIR_ENDED && pair->state != PAIR_STOPPED &&
							  pair->state != PAIR_NONE);
	}
	rf_group_end_context(&context);
	return waiting ? RF_ACQUIRE_FULL : acknowledged ? RF_ACQUIRED : RF_ACQUIRE_STOPPED;
}
