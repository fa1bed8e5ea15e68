/*
 * queue.c - the merge queue of a lane, see queue.h.
 */
#include "lane.h"

/* ---------- lists ---------- */

static void
append(RfLaneThread *lane, LaneList *list, int32_t index, QueuePlace place)
{
	lane_list_append(lane, list, index);
	lane->local[index]->waiting.place = (uint8_t) place;
}

static void
unlink_entry(RfLaneThread *lane, LaneList *list, int32_t index)
{
	lane_list_remove(lane, list, index);
	lane->local[index]->waiting.place = QUEUE_NOWHERE;
}

void
rf_queue_init(RfLaneThread *lane)
{
	lane_list_init(&lane->queue.list, LANE_LINK_QUEUE);
	for (int peer = 0; peer < RF_MAX_PEERS; peer++)
		lane_list_init(&lane->connections[peer].parked, LANE_LINK_QUEUE);
}

void
rf_queue_add(RfLaneThread *lane, uint32_t index)
{
	QueueEntry *entry = &lane->local[index]->waiting;

	if (entry->place != QUEUE_NOWHERE)
		return;
	append(lane, &lane->queue.list, (int32_t) index, QUEUE_LANE);
	entry->since_round = lane->round;
}

void
rf_queue_remove(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];

	if (local->waiting.place == QUEUE_PARKED)
	{
		unlink_entry(lane, &lane->connections[local->peer].parked, (int32_t) index);
		lane->queue.parked--;
	}
	else if (local->waiting.place == QUEUE_LANE)
		unlink_entry(lane, &lane->queue.list, (int32_t) index);
	local->waiting.held_up = false;
}

void
rf_queue_park(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];

	if (local->waiting.place == QUEUE_PARKED)
		return;
	rf_lane_no_room(lane, local->peer);
	rf_queue_remove(lane, index);
	append(lane, &lane->connections[local->peer].parked, (int32_t) index, QUEUE_PARKED);
	local->waiting.held_up = true;
	lane->queue.parked++;
}

void
rf_queue_unpark(RfLaneThread *lane, LaneConnection *connection, LaneServe *serve)
{
	/* A flow that finds it full again goes to the end. */
	for (uint32_t i = connection->parked.count; i > 0; i--)
	{
		int32_t		index = connection->parked.head;
		bool		held_up;

		held_up = lane->local[index]->waiting.held_up;
		rf_queue_remove(lane, (uint32_t) index);
		serve(lane, (uint32_t) index);
		if (lane->local[index]->waiting.place != QUEUE_NOWHERE)
			lane->local[index]->waiting.held_up = held_up;
	}
}

bool
rf_queue_message(RfLaneThread *lane, uint32_t index, RfImmKind kind, uint64_t value)
{
	if (rf_lane_mail_add(lane, index, kind, value))
		return true;
	rf_queue_park(lane, index);
	return false;
}

/* ---------- turns ---------- */

/*
 * Returns the bytes that the flow at the head may send in its turn; 0 if it is another flow's turn.
 */
static uint64_t
turn(RfLaneThread *lane, int32_t index)
{
	LaneQueue  *queue = &lane->queue;
	QueueEntry *entry = &lane->local[index]->waiting;
	uint32_t	weight = atomic_load_explicit(&lane->flows[index].weight, memory_order_relaxed);
	uint32_t	unit;

	if (!queue->contended || queue->list.count + queue->parked < 2)
		return UINT64_MAX;
	if (entry->contention != queue->contention)
	{
		entry->contention = queue->contention;
		entry->deficit = 0;
	}
	/* The weight is read in each turn, so a change takes effect with the next one. */
	if (weight == 0)
		weight = RF_DEFAULT_WEIGHT;
	if (weight > queue->heaviest)
		queue->heaviest = weight;
	unit = QUEUE_TURN_MAX / queue->heaviest;
	if (unit > QUEUE_TURN_BYTES)
		unit = QUEUE_TURN_BYTES;
	if (entry->deficit <= 0)
		entry->deficit += (int64_t) weight * unit;
	return entry->deficit > 0 ? (uint64_t) entry->deficit : 0;
}

static void
rotate(RfLaneThread *lane, int32_t index)
{
	unlink_entry(lane, &lane->queue.list, index);
	append(lane, &lane->queue.list, index, QUEUE_LANE);
}

static void
set_throttled(RfLaneThread *lane, bool now)
{
	RfAdmissionStats *stats = &lane->config.shared->admission;
	LaneQueue  *queue = &lane->queue;

	if (now)
		rf_admission_wait(stats, lane->lane->number);
	if (now && queue->throttled_at == 0)
	{
		queue->throttled_at = lane->now;
		lane_count(&lane->lane->throttled, 1);
	}
	else if (!now && queue->throttled_at != 0)
	{
		lane_count(&lane->lane->throttled_us, (uint64_t) (lane->now - queue->throttled_at));
		queue->throttled_at = 0;
		rf_lane_wake_others(lane, rf_admission_stop_waiting(stats, lane->lane->number));
	}
}

bool
rf_queue_run(RfLaneThread *lane, LaneSend *send)
{
	LaneQueue  *queue = &lane->queue;
	bool		full = false;
	bool		sent = false;

	if (queue->list.count == 0 && !queue->contended && queue->throttled_at == 0)
		return false;
	queue->given = atomic_load(&lane->config.shared->admission.given);

	/* Terminates: a flow that stays in the list has bytes to send, or gets more until it has. */
	while (queue->list.head != LANE_NONE && !full)
	{
		int32_t		index = queue->list.head;
		QueueEntry *entry = &lane->local[index]->waiting;
		uint64_t	budget;
		uint64_t	bytes = 0;

		/*
		 * Before its turn: a flow that cannot send must not fall behind, nor other flows get more
		 * turns meanwhile.
		 */
		if (!rf_lane_has_room(lane, lane->local[index]->peer))
		{
			rf_queue_park(lane, (uint32_t) index);
			continue;
		}
		budget = turn(lane, index);
		if (budget == 0)
		{
			rotate(lane, index);
			continue;
		}
		if (entry->since_round != lane->round)
			entry->held_up = true;
		switch (send(lane, (uint32_t) index, budget, &bytes))
		{
			case QUEUE_DONE:
				rf_queue_remove(lane, (uint32_t) index);
				break;
			case QUEUE_SPENT:
				rotate(lane, index);
				break;
			case QUEUE_PARK:
				rf_queue_park(lane, (uint32_t) index);
				break;
			case QUEUE_THROTTLED:
				full = true;
				break;
		}
		if (budget != UINT64_MAX)
			entry->deficit -= (int64_t) bytes;
		sent = sent || bytes > 0;
	}
	set_throttled(lane, full);
	if (queue->list.count + queue->parked == 0)
		queue->contended = false;
	else if (!queue->contended)
	{
		queue->contended = true;
		queue->contention++;
		queue->heaviest = 0;
	}
	return sent;
}

bool
rf_queue_may_continue(RfLaneThread *lane)
{
	return lane->queue.throttled_at != 0 &&
		atomic_load(&lane->config.shared->admission.given) != lane->queue.given;
}
