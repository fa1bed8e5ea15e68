/*
 * lane_flow.c - the flows of a lane: their work requests, their arrivals, their end.
 *
 * Plain C, the lane's thread only. The lane's transitions of the status words are here (READY ->
 * IN_FLIGHT -> FREE of a send buffer, FREE -> FULL of a receive buffer); the backends' are in
 * src/shmem/slots.c. It posts nothing itself: requests go to the chain of their connection
 * (lane_chain.c), which is posted at the end of the round; slots only in the flow's turn (queue.c).
 *
 * Every word of an immediate is checked against this side's state before it changes anything.
 */
#include <stdlib.h>
#include <string.h>

#include "shmem/slot_parts.h"

#include "lane.h"

#define PROBE_BACKOFF_LIMIT		32	/* times probe_ms */

static void
wake(RfLaneThread *lane, RfFlow *flow)
{
	if (atomic_exchange(&flow->waiting, RF_WAIT_NONE) != RF_WAIT_NONE)
		lane->config.wake_owner(flow);
}

/* Wakes a producer if its condition holds. The words that it reads were stored before. */
static void
wake_producer(RfLaneThread *lane, const LaneFlow *local, RfFlow *flow)
{
	uint32_t	waiting = atomic_load(&flow->waiting);
	uint64_t	handed;

	if (waiting == RF_WAIT_NONE)
		return;
	handed = atomic_load_explicit(&flow->handed, memory_order_relaxed);
	if (atomic_load_explicit(&flow->stop, memory_order_relaxed) == 0)
	{
		/*
		 * Half of its slots, so that it does not switch context for each. It cannot wait forever:
		 * the reader releases all its buffers before it waits for us, and then all are free.
		 */
		if (waiting == RF_WAIT_SLOTS &&
			local->slot_count - (handed - local->done) < (local->slot_count + 1) / 2)
			return;
		if (waiting == RF_WAIT_ACK && local->credit != handed)
			return;
		if (waiting == RF_WAIT_CREDIT && handed == local->credit + local->window &&
			atomic_load_explicit(&flow->leaving, memory_order_relaxed) == 0)
			return;
	}
	wake(lane, flow);
}

/* ---------- waiting for credit ---------- */

static void
starving_add(RfLaneThread *lane, LaneFlow *local)
{
	local->starving = true;
	local->probe_at = lane->now + (int64_t) local->probe_wait_ms * 1000;
	lane_list_append(lane, &lane->starving, (int32_t) local->index);
}

static void
starving_remove(RfLaneThread *lane, LaneFlow *local)
{
	if (!local->starving)
		return;
	local->starving = false;
	lane_list_remove(lane, &lane->starving, (int32_t) local->index);
}

int
rf_lane_flow_probe(RfLaneThread *lane)
{
	int64_t		first = INT64_MAX;
	int32_t		next;

	for (int32_t index = lane->starving.head; index != LANE_NONE; index = next)
	{
		LaneFlow   *local = lane->local[index];

		next = lane_link(lane, LANE_LINK_STARVING, index)->next;
		if (local->probe_at <= lane->now && !lane->connections[local->peer].failed)
		{
			if (atomic_load(&lane->flows[index].handed) > local->moved &&
				rf_queue_message(lane, (uint32_t) index, RF_IMM_PROBE, 0))
			{
				lane_count(&lane->flows[index].stats.probes, 1);

				/*
				 * Counted here, too, without a ring of the sender: there are READY slots and no
				 * credit.
				 */
				lane_count(&lane->flows[index].stats.credit_stalls, 1);
			}
			/* A reader may be idle for hours (a cursor): probe it less and less often. */
			if (local->probe_wait_ms < lane->config.probe_ms * PROBE_BACKOFF_LIMIT)
				local->probe_wait_ms *= 2;
			local->probe_at = lane->now + (int64_t) local->probe_wait_ms * 1000;
		}
		if (local->probe_at > lane->now && local->probe_at < first)
			first = local->probe_at;
	}
	if (first == INT64_MAX)
		return -1;
	return (int) ((first - lane->now) / 1000) + 1;
}

/* ---------- sending ---------- */

/* Slots [first, next) of a flow on their way into one work request. */
typedef struct Message
{
	uint64_t	first;
	uint64_t	next;
	uint32_t	bytes;			/* of all of them, headers and holes included */
	uint32_t	last_bytes;		/* of the last one */
	uint32_t	placed_count;	/* payloads in value memory, and their bytes */
	uint32_t	placed_bytes;
	RfPartsEntries parts;		/* count > 0: it is one slot with parts on pages */
} Message;

static bool
is_placed(const RfFlow *flow, const LaneFlow *local, uint64_t slot)
{
	return atomic_load_explicit(&flow->status[slot % local->slot_count],
								memory_order_relaxed) == RF_SLOT_PLACED;
}

/*
 * Returns true if the slot may be sent with an earlier slot, in the same work request. Not with
 * parts of its own, nor if it was taken back.
 */
static bool
may_merge(const RfFlow *flow, const LaneFlow *local, uint64_t slot)
{
	uint32_t	status = atomic_load_explicit(&flow->status[slot % local->slot_count],
											  memory_order_relaxed);

	return status == RF_SLOT_READY || status == RF_SLOT_PLACED;
}

/*
 * Bytes of a filled slot. The header is our own backend's; the bound prevents a bug from exposing
 * memory. A peer on this host can write the header, so it does not determine how much is sent from
 * other memory.
 */
static uint32_t
slot_bytes(const RfFlow *flow, const LaneFlow *local, uint64_t slot)
{
	const RfSlotHeader *header = (const RfSlotHeader *)
	(local->buffers + (size_t) (slot % local->slot_count) * local->slot_size);
	const RfPlaced *placed = &flow->placed[slot % local->slot_count];
	uint32_t	room = local->slot_size - (uint32_t) sizeof(RfSlotHeader);
	uint32_t	length = header->length;

	if (is_placed(flow, local, slot))
		length = (uint64_t) placed->offset + placed->length <= flow->value.size ?
			placed->length : 0;
	return (uint32_t) sizeof(RfSlotHeader) + (length < room ? length : room);
}

/*
 * Slots [first, next) as entries of a work request: adjacent bytes in the send buffer are one
 * entry; a payload in value memory is one of its own between its header and its neighbour.
 */
static int
describe_slots(const RfFlow *flow, const LaneFlow *local, uint64_t first, uint64_t next,
			   uint32_t last_bytes, RfSge *sge)
{
	int			count = 0;
	bool		open = false;	/* the last entry ends where the next slot begins */

	for (uint64_t slot = first; slot < next; slot++)
	{
		uint32_t	place = (uint32_t) (slot % local->slot_count);
		uint32_t	bytes = slot + 1 < next ? local->slot_size : last_bytes;
		bool		placed = is_placed(flow, local, slot);

		if (!open)
			sge[count++] = (RfSge)
		{
			.addr = local->buffers + (size_t) place * local->slot_size, .lkey = local->lkey
		};
		sge[count - 1].length += placed ? (uint32_t) sizeof(RfSlotHeader) : bytes;
		if (placed)
			sge[count++] = (RfSge)
		{
			.addr = flow->value.memory + flow->placed[place].offset,
				.length = bytes - (uint32_t) sizeof(RfSlotHeader), .lkey = flow->value.lkey
		};
		open = !placed;
	}
	return count;
}

/* The entries of a slot with parts on pages, its header first. */
static void
gather_parts(RfLaneThread *lane, const RfFlow *flow, const LaneFlow *local, Message *message)
{
	RfShared   *shared = lane->config.shared;
	uint32_t	place = (uint32_t) (message->first % local->slot_count);
	const uint8_t *header = local->buffers + (size_t) place * local->slot_size;
	RfPartsPlace where = {
		.slot = header + sizeof(RfSlotHeader), .slot_lkey = local->lkey,
		.room = local->slot_size - (uint32_t) sizeof(RfSlotHeader),
		.pages = shared->page_memory, .pages_size = flow->memory.has_pages ?
			shared->page_memory_size : 0,
		.page_size = shared->page_size, .pages_lkey = flow->memory.pages_lkey,
		.max_entries = (int) lane->max_sge, .max_strided = (int) lane->max_strided
	};
	RfPartsEntries *parts = &message->parts;
	RfSge	   *head = &parts->sge[0];

	if (rf_parts_describe(rf_flow_parts(shared, flow)->slots[place], flow->part_count[place],
						  &where, parts) > 0 &&
		head->addr == where.slot)
	{
		head->addr = header;
		head->length += (uint32_t) sizeof(RfSlotHeader);
	}
	else
	{
		/* Invalid parts are a bug; then the header goes alone, and the reader reports an error. */
		*head = (RfSge)
		{
			header, sizeof(RfSlotHeader), local->lkey
		};
		parts->count = 1;
		parts->strided_count = 0;
		parts->bytes = parts->page_bytes = 0;
	}
	message->bytes = message->last_bytes = (uint32_t) sizeof(RfSlotHeader) + parts->bytes;
}

/*
 * All credit is used: the backend does not ring again until credit comes, so the time until a probe
 * begins now.
 */
static void
probe_if_starving(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];

	if (local->moved == local->credit + local->window && !local->starving)
	{
		local->probe_wait_ms = lane->config.probe_ms;
		starving_add(lane, local);
	}
}

/*
 * The end of the slots that may be sent: all with credit, and with a buffer if those come from a
 * pool.
 */
static uint64_t
send_limit(const LaneFlow *local)
{
	uint64_t	limit = local->credit + local->window;

	if (local->claims != NULL && limit > local->moved + local->claims->held_count)
		limit = local->moved + local->claims->held_count;
	return limit;
}

/* A message of the flow's next slot alone; false if its closing backend has taken it back. */
static bool
begin_message(RfLaneThread *lane, const RfFlow *flow, const LaneFlow *local, Message *message)
{
	uint64_t	first = local->moved;
	uint32_t	status = atomic_load_explicit(&flow->status[first % local->slot_count],
											  memory_order_acquire);

	if (status == RF_SLOT_FILLING)
		return false;
	message->first = first;
	message->next = first + 1;
	message->parts.count = message->parts.strided_count = 0;
	message->placed_count = message->placed_bytes = 0;
	if (status == RF_SLOT_GATHERED)
		gather_parts(lane, flow, local, message);
	else
	{
		message->bytes = message->last_bytes = slot_bytes(flow, local, first);
		if (status == RF_SLOT_PLACED)
		{
			message->placed_count = 1;
			message->placed_bytes = message->bytes - (uint32_t) sizeof(RfSlotHeader);
		}
	}
	return true;
}

/*
 * Returns true if the slot after the message lands behind the message's last slot. A flow's own
 * receive buffers are adjacent except for the last and the first; buffers of a pool are if the flow
 * happened to get adjacent ones.
 */
static bool
is_adjacent_there(const LaneFlow *local, const Message *message)
{
	if (local->claims == NULL)
		return message->next % local->window != 0;
	return rf_claims_are_adjacent(local->claims, (uint32_t) (message->next - message->first));
}

/*
 * Slots before end join the message within all limits, and as many as would be sent in this turn
 * one by one: a turn ends with the slot that uses up its bytes (budget).
 */
static void
merge_slots(RfLaneThread *lane, const RfFlow *flow, const LaneFlow *local, Message *message,
			uint64_t end, uint64_t budget)
{
	uint64_t	most = lane->config.merge_limit;
	uint64_t	room;
	bool		placed = message->placed_count > 0;

	if (message->parts.count > 0)
		return;
	room = rf_admission_room(lane->config.admission_window, &lane->config.shared->admission,
							 lane->lane->number,
							 lane->queue.in_flight);
	if (most > lane->max_message)
		most = lane->max_message;
	if (most > room)
		most = room;
	while (message->next < end && message->next % local->slot_count != 0 &&
		   is_adjacent_there(local, message) &&
		   message->bytes < budget && may_merge(flow, local, message->next) &&
		   local->slot_size - message->last_bytes <= (placed ? 0 : LANE_MERGE_GAP))
	{
		uint32_t	next_bytes = slot_bytes(flow, local, message->next);
		uint64_t	merged = (message->next - message->first) * local->slot_size + next_bytes;

		/* Each placed one has at most two entries of its own, and one for the slots after it. */
		placed = is_placed(flow, local, message->next);
		if (merged > most || 2 * (message->placed_count + placed) + 1 > lane->max_sge)
			break;
		message->bytes = (uint32_t) merged;
		message->last_bytes = next_bytes;
		message->placed_count += placed;
		message->placed_bytes += placed ? next_bytes - (uint32_t) sizeof(RfSlotHeader) : 0;
		message->next++;
	}
}

/* Posts the message, which has been admitted; its slots are in flight from here on. */
static void
post_message(RfLaneThread *lane, uint32_t index, const Message *message)
{
	LaneFlow   *local = lane->local[index];
	RfFlow	   *flow = &lane->flows[index];
	uint32_t	slots = (uint32_t) (message->next - message->first);
	uint32_t	place = (uint32_t) (message->first % local->window);
	RfWr	   *wr = rf_lane_request(lane, local->peer, (int32_t) index, RF_IMM_DATA,
									 slots, message->bytes,
									 lane->config.admission_window > 0 ? message->bytes : 0);

	if (message->parts.count > 0)
	{
		memcpy((RfSge *) wr->sge, message->parts.sge,
			   (size_t) message->parts.count * sizeof(RfSge));
		wr->num_sge = message->parts.count;
		rf_lane_stride(lane, local->peer, wr, message->parts.strided, message->parts.strided_count);
	}
	else
		wr->num_sge = describe_slots(flow, local, message->first, message->next,
									 message->last_bytes, (RfSge *) wr->sge);
	for (uint64_t slot = message->first; slot < message->next; slot++)
		atomic_store_explicit(&flow->status[slot % local->slot_count], RF_SLOT_IN_FLIGHT,
							  memory_order_relaxed);
	if (local->claims != NULL)
		place = rf_claims_use(local, slots);
	wr->remote_addr = local->remote_addr + (uint64_t) place * local->slot_size;
	wr->rkey = local->rkey;
	wr->imm = RF_IMM(RF_IMM_DATA, local->remote_flow,
					 local->claims != NULL ? RF_IMM_PLACED(place, slots) : message->next);
	local->moved = message->next;
}

/* Counts a posted message in the statistics of the lane and of the flow. */
static void
count_message(RfLaneThread *lane, uint32_t index, const Message *message)
{
	RfFlow	   *flow = &lane->flows[index];
	uint64_t	merged = message->next - message->first - 1;

	if (message->parts.count > 0)
	{
		lane_count(&lane->lane->from_pages, 1);
		lane_count(&lane->lane->from_pages_bytes, message->parts.page_bytes);
	}
	if (message->placed_count > 0)
	{
		lane_count(&lane->lane->in_place, message->placed_count);
		lane_count(&lane->lane->in_place_bytes, message->placed_bytes);
	}
	if (merged > 0)
	{
		lane_count(&flow->stats.merged, merged);
		lane_count(&lane->lane->merged, merged);
		if (lane->local[index]->waiting.held_up)
			lane_count(&lane->lane->merged_while_throttled, merged);
	}
}

/*
 * Send the READY slots that have credit. Neighbours go as one work request when the first of them
 * is (almost) full, since the gap between their payloads is sent as well.
 */
QueueResult
rf_lane_flow_send(RfLaneThread *lane, uint32_t index, uint64_t budget, uint64_t *sent)
{
	LaneFlow   *local = lane->local[index];
	RfFlow	   *flow = &lane->flows[index];
	RfAdmissionStats *admission = &lane->config.shared->admission;
	uint64_t	handed = atomic_load(&flow->handed);
	uint64_t	limit = send_limit(local);
	uint64_t	end = handed < limit ? handed : limit;

	if (lane->connections[local->peer].failed || atomic_load(&flow->state) == RF_FLOW_CLOSING ||
		atomic_load(&flow->stop) != 0)
		return QUEUE_DONE;

	for (*sent = 0; local->moved < end;)
	{
		Message		message;
		uint32_t	gathered = RF_SLOT_GATHERED;

		if (!begin_message(lane, flow, local, &message))
			return QUEUE_DONE;
		if (*sent >= budget)
		{
			lane_count(&lane->lane->turns, 1);
			return QUEUE_SPENT;
		}
		if (!rf_lane_has_room(lane, local->peer) ||
			lane->connections[local->peer].strided_out + (uint32_t) message.parts.strided_count >
			lane->max_strided)
			return QUEUE_PARK;
		merge_slots(lane, flow, local, &message, end, budget - *sent);
		if (lane->config.admission_window > 0 &&
			!rf_admission_take(lane->config.admission_window, admission, lane->lane->number,
							   lane->queue.in_flight, message.bytes))
			return QUEUE_THROTTLED;

		/* From here on its pages stay pinned until the request is done; see layout.h. */
		if (message.parts.count > 0 &&
			!atomic_compare_exchange_strong(&flow->status[message.first % local->slot_count],
											&gathered, RF_SLOT_IN_FLIGHT))
		{
			if (lane->config.admission_window > 0)
				rf_lane_wake_others(lane, rf_admission_give(admission, message.bytes));
			return QUEUE_DONE;
		}

		post_message(lane, index, &message);
		count_message(lane, index, &message);
		*sent += message.bytes;
	}
	if (handed > local->moved && local->moved == local->credit + local->window)
		lane_count(&flow->stats.credit_stalls, 1);
	probe_if_starving(lane, index);
	if (local->claims != NULL)
		rf_claims_sent(lane, index);
	return QUEUE_DONE;
}

/*
 * Sends the one END of our side; the flow is over when the peer's has arrived and ours has
 * completed.
 */
static void
send_end(RfLaneThread *lane, uint32_t index, LaneFlow *local, uint32_t value)
{
	if (rf_queue_message(lane, index, RF_IMM_END, value))
		local->end_sent = true;
}

static void
detach(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];

	if (!local->attached)
		return;
	starving_remove(lane, local);
	rf_queue_remove(lane, index);
	rf_claims_detach(lane, local);
	lane->local[index] = &lane->nothing;
	free(local);
}

static void
detach_if_over(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];

	if (!local->end_done || !local->end_received)
		return;
	detach(lane, index);
	rf_lane_notice(lane, RF_LANE_FLOW_DETACHED, lane->flows[index].peer, index);
}

/*
 * Moves a producer's flow on: queues its next slots as far as there is credit, or takes it out of
 * the queue and ends it when it is closing or stopped.
 */
static void
serve_producer(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];
	RfFlow	   *flow = &lane->flows[index];
	bool		closing = atomic_load(&flow->state) == RF_FLOW_CLOSING;
	bool		stopped = atomic_load(&flow->stop) != 0;
	uint64_t	handed = atomic_load(&flow->handed);

	if (local->end_sent)
		return;

	if (!closing && !stopped)
	{
		/* First, so that the claims are sent before the slots. */
		if (local->claims != NULL)
			rf_claims_want(lane, index);
		if (local->moved < handed && local->moved < send_limit(local))
			rf_queue_add(lane, index);
		else
		{
			if (handed > local->moved && local->moved == local->credit + local->window)
				lane_count(&flow->stats.credit_stalls, 1);
			probe_if_starving(lane, index);
		}
		return;
	}

	/*
	 * Unsent slots are discarded; slots in flight must have landed before the peer may reuse
	 * anything.
	 */
	rf_queue_remove(lane, index);
	starving_remove(lane, local);
	if (rf_claims_stop(lane, local) && closing && local->done == local->moved)
		send_end(lane, index, local,
				 atomic_load(&flow->abandoned) == 0 ? RF_END_CLEAN :
				 stopped ? RF_END_STOPPED : RF_END_FAILED);
}

/* Sends the producer the number of released buffers. False: no room, it is parked. */
static bool
send_credit(RfLaneThread *lane, LaneFlow *local)
{
	RfFlow	   *flow = &lane->flows[local->index];
	uint64_t	released = atomic_load(&flow->handed);

	if (!rf_queue_message(lane, local->index, RF_IMM_CREDIT, released))
		return false;
	local->credit = released;
	atomic_store(&flow->credit, released);
	lane_count(&flow->stats.credits_sent, 1);
	return true;
}

/*
 * Sends the messages that a consumer's flow owes its producer: credit, a leave, a stop, and at last
 * the end. Each is sent once; a message that finds no room is tried again when there is some.
 */
static void
serve_consumer(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];
	RfFlow	   *flow = &lane->flows[index];
	bool		closing = atomic_load(&flow->state) == RF_FLOW_CLOSING;

	if (local->end_sent)
		return;

	/* Also when closing: the last credit acknowledges the end of the stream. */
	if (atomic_load(&flow->handed) > local->credit && !local->end_received &&
		!send_credit(lane, local))
		return;

	/* The same holds for a reader that leaves: see below. */
	if (atomic_load(&flow->leaving) != 0 && !closing && local->moved > 0 && !local->end_received &&
		!local->leave_sent)
	{
		if (!rf_queue_message(lane, index, RF_IMM_STOP, RF_STOP_IMM_LEAVE))
			return;
		local->leave_sent = true;
	}
	if (!closing)
		return;

	/*
	 * Not before the first arrival: the message that the flow is open takes another path to the
	 * producer's engine, and a STOP that overtakes it would name a flow that is not attached
	 * there.
	 */
	if (atomic_load(&flow->stop) != 0 && local->moved > 0 && !local->end_received &&
		!local->stop_sent)
	{
		if (!rf_queue_message(lane, index, RF_IMM_STOP,
							  atomic_load(&flow->stop) == RF_STOP_FAILED ?
							  RF_STOP_IMM_FAILED : RF_STOP_IMM_CLEAN))
			return;
		local->stop_sent = true;
	}
	if (local->end_received)
		send_end(lane, index, local, local->stop_sent ? RF_END_STOPPED : RF_END_CLEAN);
}

void
rf_lane_flow_serve(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];

	if (!local->attached || lane->connections[local->peer].failed)
		return;
	if (local->producer)
		serve_producer(lane, index);
	else
		serve_consumer(lane, index);
}

/* ---------- arriving slots and credit ---------- */

void
rf_lane_flow_posted(RfLaneThread *lane, const LanePost *post)
{
	LaneFlow   *local = lane->local[post->flow];
	RfFlow	   *flow = &lane->flows[post->flow];

	if (post->kind == RF_IMM_END)
	{
		local->end_done = true;
		detach_if_over(lane, (uint32_t) post->flow);
		return;
	}
	if (post->kind == LANE_POST_CLAIM)
	{
		rf_claims_done(lane, (uint32_t) post->flow, post->slots);
		rf_lane_flow_serve(lane, (uint32_t) post->flow);
		return;
	}
	if (post->kind != RF_IMM_DATA)
		return;

	for (uint32_t i = 0; i < post->slots; i++, local->done++)
		atomic_store(&flow->status[local->done % local->slot_count], RF_SLOT_FREE);
	atomic_store(&flow->completed, local->done);
	if (atomic_load_explicit(&flow->state, memory_order_relaxed) == RF_FLOW_CLOSING)
		rf_lane_flow_serve(lane, (uint32_t) post->flow);
	else
		wake_producer(lane, local, flow);
}

/*
 * A slot has landed in a buffer of the pool. A peer that had no right to the buffer, or finds it
 * taken, makes an error of this flow and not of the connection: another producer of the pool may
 * have caused it by writing words that are not its own.
 */
static void
place_slot(RfLaneThread *lane, LaneFlow *local, RfFlow *flow, uint64_t slot, uint32_t buffer)
{
	LaneClaims *claims = local->claims;
	uint64_t	bit = UINT64_C(1) << buffer;
	bool		granted = (claims->granted_unused & bit) != 0;
	uint32_t	state = RF_FLOW_OPEN;

	claims->granted_unused &= ~bit;
	atomic_store_explicit(&flow->place[slot % local->slot_count], (uint8_t) buffer,
						  memory_order_relaxed);
	if (rf_receive_arrived(claims->pool, buffer, local->index, granted) ||
		atomic_load(&flow->state) != RF_FLOW_OPEN)
		return;
	(void) rf_error(rf_flow_error(lane->config.shared, flow), RF_ERROR_PROTOCOL, NULL, NULL,
					"a slot came into a receive buffer that its producer had not claimed");
	if (atomic_compare_exchange_strong(&flow->state, &state, RF_FLOW_FAILED))
		wake(lane, flow);
}

/*
 * An immediate says that slots have arrived: checks the number against the credit, hands the slots
 * to the readers and wakes them. Returns false with *error if the peer breaks the rules.
 */
static bool
data_arrived(RfLaneThread *lane, LaneFlow *local, RfFlow *flow, uint32_t value, RfError *error)
{
	uint32_t	slots = local->claims != NULL ? RF_IMM_PLACED_SLOTS(value) :
		(uint16_t) (value - (uint16_t) local->moved);
	uint64_t	arrived = local->moved + slots;

	if (local->claims != NULL && RF_IMM_PLACE(value) + slots > local->claims->pool->count)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer wrote into a buffer that does not exist");
	if (slots == 0 || arrived > local->credit + local->window || local->end_received)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer wrote into buffers it has no credit for");

	for (uint32_t i = 0; local->claims != NULL && i < slots; i++)
		place_slot(lane, local, flow, local->moved + i, RF_IMM_PLACE(value) + i);
	if (atomic_load(&flow->state) == RF_FLOW_OPEN)
	{
		for (uint64_t slot = local->moved; slot < arrived; slot++)
			atomic_store(&flow->status[slot % local->slot_count], RF_SLOT_FULL);
		local->moved = arrived;
		atomic_store(&flow->completed, arrived);
		wake(lane, flow);
		if (atomic_load(&flow->leaving) != 0 && !local->leave_sent)
			rf_lane_flow_serve(lane, local->index);
	}
	else
	{
		/* Its slots are not read any more; a STOP may have waited for it. */
		local->moved = arrived;
		rf_lane_flow_serve(lane, local->index);
	}
	return true;
}

static bool
credit_arrived(RfLaneThread *lane, LaneFlow *local, RfFlow *flow, uint32_t value, RfError *error)
{
	uint32_t	released = (uint16_t) (value - (uint16_t) local->credit);

	if (local->credit + released > local->moved)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer released buffers that were not written");
	if (released == 0)
		return true;			/* answer to a probe: it is alive and has not moved */
	for (uint32_t i = 0; local->claims != NULL && i < released; i++)
		rf_claims_released(local, local->credit + i);
	local->credit += released;
	atomic_store(&flow->credit, local->credit);
	starving_remove(lane, local);
	wake_producer(lane, local, flow);
	return true;
}

bool
rf_lane_flow_immediate(RfLaneThread *lane, int peer, const RfWc *wc, RfError *error)
{
	uint32_t	index = RF_IMM_FLOW(wc->imm);
	uint32_t	kind = RF_IMM_KIND(wc->imm);
	uint32_t	value = RF_IMM_VALUE(wc->imm);
	LaneFlow   *local;
	RfFlow	   *flow;

	if (index >= lane->config.shared->max_flows || !lane->local[index]->attached ||
		lane->local[index]->peer != peer)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer sent an immediate for flow %u, which is not open towards it",
						index);
	local = lane->local[index];
	flow = &lane->flows[index];

	switch (kind)
	{
		case RF_IMM_DATA:
			if (local->producer)
				break;
			return data_arrived(lane, local, flow, value, error);

		case RF_IMM_CREDIT:
			if (!local->producer || local->end_received)
				break;
			if (!credit_arrived(lane, local, flow, value, error))
				return false;
			rf_lane_flow_serve(lane, index);
			return true;

		case RF_IMM_PROBE:
			if (local->producer || local->end_received)
				break;

			/*
			 * Answer with the released buffers, even if no buffer was released: the producer then
			 * knows. If there is no room now, the next probe will come.
			 */
			(void) send_credit(lane, local);
			return true;

		case RF_IMM_CLAIM:
			if (local->producer || local->claims == NULL || local->end_received)
				break;
			return rf_claims_asked(lane, index, value, error);

		case RF_IMM_GRANT:
			if (!local->producer || local->claims == NULL || local->end_received)
				break;
			if (!rf_claims_granted(lane, index, value, error))
				return false;
			rf_lane_flow_serve(lane, index);
			return true;

		case RF_IMM_STOP:
			if (!local->producer || local->end_received || value > RF_STOP_IMM_LEAVE)
				break;
			if (value == RF_STOP_IMM_LEAVE)
				atomic_store(&flow->leaving, 1);
			else
				atomic_store(&flow->stop,
							 value == RF_STOP_IMM_FAILED ? RF_STOP_FAILED : RF_STOP_CLEAN);
			wake_producer(lane, local, flow);
			rf_lane_flow_serve(lane, index);
			return true;

		case RF_IMM_END:
			/* The reader's END answers the producer's. */
			if (local->end_received || value > RF_END_FAILED ||
				(local->producer && !local->end_sent))
				break;
			local->end_received = true;
			atomic_store(&flow->remote_end, 1 + value);
			if (local->producer)
			{
				detach_if_over(lane, index);
				return true;
			}
			rf_claims_ended(lane, local);
			wake(lane, flow);
			rf_lane_flow_serve(lane, index);
			return true;
	}
	return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
					"the peer sent an immediate of kind %u that flow %u does not expect", kind,
					index);
}

/* ---------- life ---------- */

void
rf_lane_flow_attach(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = calloc(1, sizeof(*local));
	RfFlow	   *flow = &lane->flows[index];

	if (local == NULL)
	{
		RfError		error;

		/* A flow that fails without being attached belongs to the dropped connection. */
		(void) rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a flow");
		rf_lane_flow_fail(lane, index, &error);
		rf_lane_lost(lane, flow->peer, &error);
		return;
	}
	lane->local[index] = local;
	local->attached = true;
	local->index = index;
	local->producer = flow->role == RF_FLOW_PRODUCER;
	local->peer = flow->peer;
	local->remote_flow = flow->remote_flow;
	local->slot_count = flow->slot_count;
	local->window = local->producer ? flow->window : flow->slot_count;
	local->slot_size = flow->slot_size;
	local->buffers = flow->memory.buffers;
	local->lkey = flow->memory.lkey;
	local->rkey = flow->memory.remote_rkey;
	local->remote_addr = flow->memory.remote_addr;
	if (!rf_claims_attach(lane, local, flow))
	{
		RfError		error;

		(void) rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a flow");
		rf_lane_flow_fail(lane, index, &error);
		rf_lane_lost(lane, flow->peer, &error);
		return;
	}

	if (lane->connections[local->peer].qp == NULL)
	{
		RfError		error;

		(void) rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
						"the connection to the peer is gone");
		rf_lane_flow_fail(lane, index, &error);
		return;
	}
	/* The backend may have rung, or left, before we knew the flow. */
	rf_lane_flow_serve(lane, index);
}

void
rf_lane_flow_fail(RfLaneThread *lane, uint32_t index, const RfError *error)
{
	RfFlow	   *flow = &lane->flows[index];
	uint32_t	state = atomic_load(&flow->state);

	/*
	 * The backend may change to CLOSING at any time; a FAILED flow keeps its first error.
	 */
	detach(lane, index);
	if (state == RF_FLOW_OPEN)
	{
		*rf_flow_error(lane->config.shared, flow) = *error;
		if (atomic_compare_exchange_strong(&flow->state, &state, RF_FLOW_FAILED))
			wake(lane, flow);
	}
	if (state == RF_FLOW_CLOSING)
		rf_lane_notice(lane, RF_LANE_FLOW_DETACHED, flow->peer, index);
}
