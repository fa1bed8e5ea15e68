/*
 * lane_claim.c - receive buffers of shared pools: a producer's lane claims them or asks for them, a
 * consumer's lane grants them. receive.h has the protocol and the proof that no flow waits forever.
 *
 * Plain C, the lane's thread only. It posts nothing itself, like lane_flow.c.
 *
 * Conflict avoidance after SMART (Ren et al., ASPLOS 2024, 4.3): a lost claim waits according to
 * backoff.h, which also limits the number of the flow's claims. There the limit is per thread, here
 * per flow: conflicts are in its pool, and contention in one pool is no reason to claim less in
 * another. A claim begins with a released buffer that this flow used before, so that in the long
 * run producers do not conflict if there are no more of them than buffers. A claim that lost
 * `patience` times in a row gives up, and the flow asks instead: then the pool is probably full,
 * and one message replaces any number of failing attempts.
 *
 * A flow asks for one buffer and only when it has no buffer and no claim under way; if it cannot
 * claim at all it asks for all it needs. Buffers are used for its slots in the order in which it
 * gets them. The rule of the consumer's last buffer relies on both (receive.h).
 */
#include <stdlib.h>

#include "shmem/ring.h"

#include "lane.h"

#define MAX_PATIENCE	16
#define MIN_PATIENCE	1
#define FIRST_PATIENCE	1		/* of many producers most have a few slots, too few to learn from */
#define AT_ONCE_PATIENCE	1000	/* attempts without backoff; in the end it asks, since the last
									 * buffer is granted only */
#define MAX_WAIT_US		2000	/* ask rather than wait longer for the next attempt */
#define FIRST_UNIT_NS	2000	/* t0 until round trips were measured */

/* ---------- lists ---------- */

static void
list_add(RfLaneThread *lane, LaneList *list, LaneFlow *local)
{
	lane_list_append(lane, list, (int32_t) local->index);
	local->claims->listed = true;
}

static void
list_remove(RfLaneThread *lane, LaneList *list, LaneFlow *local)
{
	lane_list_remove(lane, list, (int32_t) local->index);
	local->claims->listed = false;
}

static void
leave_line(RfLaneThread *lane, LaneFlow *local)
{
	RfReceivePool *pool = local->claims->pool;
	uint16_t   *waiting = &lane->asking_of[pool - lane->config.shared->receive_pools];

	list_remove(lane, &lane->asking, local);
	if (--*waiting == 0)
	{
		atomic_fetch_and(&pool->lanes_waiting, ~(1u << lane->lane->number));
		rf_receive_none_waits(pool);
	}
}

/* ---------- a producer's claims ---------- */

bool
rf_claims_attach(RfLaneThread *lane, LaneFlow *local, RfFlow *flow)
{
	LaneClaims *claims;

	if (local->producer ? flow->memory.pool_buffers == 0 : flow->pool == NULL)
		return true;
	claims = calloc(1, sizeof(*claims));
	if (claims == NULL)
		return false;
	local->claims = claims;
	claims->pool = flow->pool;
	claims->buffers = flow->memory.pool_buffers;
	if (lane->config.shared->device.atomics)
		claims->claimable = flow->memory.pool_claimable;
	claims->cursor = local->remote_flow * 5;	/* different starting points from the beginning */
	claims->patience = FIRST_PATIENCE;
	rf_backoff_init(&claims->backoff, FIRST_UNIT_NS, flow->slot_count, flow->key,
					(uint64_t) lane->now * 1000);
	if (local->producer && flow->memory.buffers != NULL)
		claims->results = (uint64_t *) (flow->memory.buffers +
										(size_t) flow->slot_count * flow->slot_size);
	return true;
}

static void
give_up(LaneClaims *claims, LaneClaim *claim)
{
	rf_backoff_gave_up(&claims->backoff);
	claim->state = CLAIM_NONE;
	claims->under_way--;
}

static void
give_up_due(LaneClaims *claims)
{
	for (uint32_t i = 0; i < RF_MAX_SLOTS; i++)
	{
		if (claims->claim[i].state == CLAIM_DUE)
			give_up(claims, &claims->claim[i]);
	}
}

bool
rf_claims_stop(RfLaneThread *lane, LaneFlow *local)
{
	LaneClaims *claims = local->claims;

	if (claims == NULL)
		return true;
	give_up_due(claims);
	if (claims->listed)
		list_remove(lane, &lane->claiming, local);
	return claims->out == 0;
}

void
rf_claims_detach(RfLaneThread *lane, LaneFlow *local)
{
	LaneClaims *claims = local->claims;

	if (claims == NULL)
		return;
	if (!local->producer)
	{
		if (claims->listed)
			leave_line(lane, local);
	}
	else
	{
		(void) rf_claims_stop(lane, local);
		for (uint32_t i = 0; i < RF_MAX_SLOTS; i++)
		{
			if (claims->claim[i].state == CLAIM_OUT)
				give_up(claims, &claims->claim[i]);
		}
	}
	local->claims = NULL;
	free(claims);
}

/* Number of slots that are READY, have credit, and neither a buffer nor an attempt for one. */
static uint32_t
buffers_needed(const LaneFlow *local, const RfFlow *flow)
{
	const LaneClaims *claims = local->claims;
	uint64_t	limit = atomic_load(&flow->handed);
	uint64_t	have = local->moved + claims->held_count + claims->under_way + claims->asked -
		claims->granted;

	if (limit > local->credit + local->window)
		limit = local->credit + local->window;
	return limit > have ? (uint32_t) (limit - have) : 0;
}

/*
 * Returns a buffer that we neither have nor try: the last one that came back, else the next; -1 if
 * there is no such buffer.
 */
static int
choose_buffer(LaneClaims *claims)
{
	uint64_t	back = claims->back & ~claims->busy;

	if (back != 0)
	{
		int			buffer = __builtin_ctzll(back);

		claims->back &= ~(UINT64_C(1) << buffer);
		return buffer;
	}
	for (uint32_t i = 0; i < claims->claimable; i++)
	{
		uint32_t	buffer = claims->cursor++ % claims->claimable;

		if ((claims->busy >> buffer & 1) == 0)
			return (int) buffer;
	}
	return -1;
}

/* Posts one attempt. */
static void
attempt(RfLaneThread *lane, uint32_t index, uint32_t i, int buffer)
{
	LaneFlow   *local = lane->local[index];
	LaneClaims *claims = local->claims;
	LaneConnection *connection = &lane->connections[local->peer];
	RfWr	   *wr = rf_lane_request(lane, local->peer, (int32_t) index, LANE_POST_CLAIM, 0, 0, 0);
	RfSge	   *sge = (RfSge *) wr->sge;

	connection->posts[connection->posted % lane->config.max_wr].slots = (uint16_t) i;
	sge->addr = &claims->results[i];
	sge->length = sizeof(uint64_t);
	sge->lkey = local->lkey;
	wr->opcode = RF_WR_COMPARE_SWAP;
	wr->num_sge = 1;
	wr->remote_addr = local->remote_addr - RF_RECEIVE_WORDS + (uint64_t) buffer * sizeof(uint64_t);
	wr->rkey = local->rkey;
	wr->compare = RF_RECEIVE_FREE;
	wr->swap = (uint64_t) local->remote_flow + 1;
	/* The flow waits for its answer; the end of the chain may be megabytes away. */
	if (!wr->signaled)
	{
		wr->signaled = true;
		connection->unsignaled = 0;
		lane_count(&lane->lane->signaled, 1);
	}
	claims->busy |= UINT64_C(1) << buffer;
	claims->claim[i].state = CLAIM_OUT;
	claims->claim[i].buffer = (uint8_t) buffer;
	claims->claim[i].at = lane->now;
	claims->out++;
}

/* Asks the consumer's lane for so many. */
static void
ask(RfLaneThread *lane, uint32_t index, uint32_t count)
{
	LaneClaims *claims = lane->local[index]->claims;

	if (!rf_queue_message(lane, index, RF_IMM_CLAIM, claims->asked + count))
		return;					/* parked: it is served again */
	claims->asked += count;
	lane_count(&lane->lane->claims.asked, count);
}

/* Posts due attempts, and notes when the next one is due. */
static void
run_attempts(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];
	LaneClaims *claims = local->claims;

	claims->due = INT64_MAX;
	for (uint32_t i = 0; i < RF_MAX_SLOTS; i++)
	{
		LaneClaim  *claim = &claims->claim[i];
		int			buffer;

		if (claim->state != CLAIM_DUE)
			continue;
		if (claim->at > lane->now)
		{
			if (claim->at < claims->due)
				claims->due = claim->at;
			continue;
		}
		/* Without room it is served again when there is some. */
		if (!rf_lane_has_room(lane, local->peer))
		{
			rf_queue_park(lane, index);
			break;
		}
		buffer = choose_buffer(claims);
		if (buffer >= 0)
			attempt(lane, index, i, buffer);
		else
		{
			/* All are ours already, as far as we know. */
			claims->impatient = true;
			give_up(claims, claim);
		}
	}
	if ((claims->due != INT64_MAX) != claims->listed)
	{
		if (claims->due != INT64_MAX)
			list_add(lane, &lane->claiming, local);
		else
			list_remove(lane, &lane->claiming, local);
	}
	if (claims->due < lane->claim_at)
		lane->claim_at = claims->due;
}

void
rf_claims_want(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];
	LaneClaims *claims = local->claims;
	uint32_t	needed = buffers_needed(local, &lane->flows[index]);

	if (claims->claimable == 0)
	{
		if (needed > 0)
			ask(lane, index, needed);
		return;
	}
	if (claims->asked != claims->granted)
		return;

	/* A question costs nothing where other immediates leave for that peer in this round. */
	if (needed > 0 && lane->connections[local->peer].mail.count > 0)
		claims->impatient = true;
	for (uint32_t i = 0; i < RF_MAX_SLOTS && needed > 0 && !claims->impatient; i++)
	{
		if (claims->claim[i].state != CLAIM_NONE)
			continue;
		if (!rf_backoff_begin(&claims->backoff))
		{
			lane_count(&lane->lane->claims.held_up, 1);
			break;
		}
		claims->claim[i] = (LaneClaim) {.state = CLAIM_DUE, .at = lane->now};
		claims->under_way++;
		needed--;
	}
	if (!claims->impatient)
		run_attempts(lane, index);
	if (!claims->impatient)
		return;

	/* Nothing new begins; outstanding attempts may still win, and then there is no need to ask. */
	give_up_due(claims);
	if (claims->listed)
		list_remove(lane, &lane->claiming, local);
	if (claims->out == 0 && claims->held_count == 0 &&
		buffers_needed(local, &lane->flows[index]) > 0)
		ask(lane, index, 1);
}

void
rf_claims_sent(RfLaneThread *lane, uint32_t index)
{
	LaneFlow   *local = lane->local[index];
	LaneClaims *claims = local->claims;

	if (!claims->impatient || claims->held_count > 0 || claims->listed)
		return;
	claims->due = lane->claim_at = lane->now;
	list_add(lane, &lane->claiming, local);
}

/* The flow has one more buffer to fill. */
static void
hold(RfLaneThread *lane, uint32_t index, uint32_t buffer)
{
	LaneFlow   *local = lane->local[index];
	LaneClaims *claims = local->claims;

	claims->held[(claims->held_first + claims->held_count++) % RF_MAX_SLOTS] = (uint8_t) buffer;
	claims->busy |= UINT64_C(1) << buffer;
	claims->holding |= UINT64_C(1) << buffer;
	lane_count(&lane->flows[index].stats.claims, 1);
}

bool
rf_claims_are_adjacent(const LaneClaims *claims, uint32_t slots)
{
	return slots < claims->held_count &&
		claims->held[(claims->held_first + slots) % RF_MAX_SLOTS] ==
		claims->held[claims->held_first % RF_MAX_SLOTS] + slots;
}

uint32_t
rf_claims_use(LaneFlow *local, uint32_t slots)
{
	LaneClaims *claims = local->claims;
	uint32_t	first = claims->held[claims->held_first % RF_MAX_SLOTS];

	for (uint32_t i = 0; i < slots; i++)
	{
		claims->holding &= ~(UINT64_C(1) << (first + i));
		claims->place[(local->moved + i) % local->window] = (uint8_t) (first + i);
	}
	claims->held_first += slots;
	claims->held_count -= slots;
	return first;
}

void
rf_claims_released(LaneFlow *local, uint64_t slot)
{
	LaneClaims *claims = local->claims;
	uint32_t	buffer = claims->place[slot % local->window];
	uint64_t	bit = UINT64_C(1) << buffer;

	/* A buffer may be free before we have credit for its slot: we may have got it again. */
	if ((claims->holding & bit) != 0)
		return;
	for (uint64_t later = slot + 1; later < local->moved; later++)
	{
		if (claims->place[later % local->window] == buffer)
			return;
	}
	claims->busy &= ~bit;
	if (buffer < claims->claimable)
		claims->back |= bit;
}

void
rf_claims_done(RfLaneThread *lane, uint32_t index, uint32_t i)
{
	LaneClaims *claims = lane->local[index]->claims;
	RfFlow	   *flow = &lane->flows[index];
	LaneClaim  *claim = &claims->claim[i];
	uint64_t	now_ns = (uint64_t) lane->now * 1000;
	uint64_t	wait_us;

	claims->out--;
	rf_backoff_round_trip(&claims->backoff, (uint64_t) (lane->now - claim->at) * 1000);
	if (claims->results[i] == RF_RECEIVE_FREE)
	{
		rf_backoff_won(&claims->backoff, now_ns);
		claim->state = CLAIM_NONE;
		claims->under_way--;
		if (claims->patience < MAX_PATIENCE)
			claims->patience *= 2;
		lane_count(&lane->lane->claims.won, 1);
		hold(lane, index, claim->buffer);
	}
	else
	{
		claims->busy &= ~(UINT64_C(1) << claim->buffer);
		lane_count(&lane->lane->claims.lost, 1);
		lane_count(&flow->stats.claims_lost, 1);
		if (lane->config.claim_at_once && claim->lost < AT_ONCE_PATIENCE)
		{
			claim->lost++;
			claim->state = CLAIM_DUE;
			claim->at = lane->now;
			return;
		}
		wait_us = rf_backoff_lost(&claims->backoff, ++claim->lost, now_ns) / 1000;
		if (lane->config.claim_at_once || claim->lost >= claims->patience ||
			(claim->lost > 1 && wait_us > MAX_WAIT_US))
		{
			if (claims->patience > MIN_PATIENCE)
				claims->patience /= 2;
			claims->impatient = true;
			give_up(claims, claim);
		}
		else
		{
			claim->state = CLAIM_DUE;
			claim->at = lane->now + (int64_t) wait_us;
			lane_count(&lane->lane->claims.backoff_us, wait_us);
		}
	}
	atomic_store_explicit(&lane->lane->claims.backoff_limit_us,
						  (uint32_t) (claims->backoff.limit_ns / 1000), memory_order_relaxed);
	atomic_store_explicit(&lane->lane->claims.at_once, claims->backoff.allowed,
						  memory_order_relaxed);
}

bool
rf_claims_granted(RfLaneThread *lane, uint32_t index, uint32_t buffer, RfError *error)
{
	LaneClaims *claims = lane->local[index]->claims;

	if (buffer >= claims->buffers || claims->asked == claims->granted ||
		claims->held_count == RF_MAX_SLOTS || (claims->holding >> buffer & 1) != 0)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer granted a receive buffer that was not asked for");
	claims->granted++;
	claims->impatient = false;
	hold(lane, index, buffer);
	return true;
}

bool
rf_claims_run(RfLaneThread *lane, LaneServe *serve)
{
	uint32_t	count = lane->claiming.count;
	uint64_t	before = lane->lane->work_requests;
	int32_t		index = lane->claiming.head;

	if (count == 0 || lane->now < lane->claim_at)
		return false;
	lane->claim_at = INT64_MAX;
	while (count-- > 0 && index != LANE_NONE)
	{
		LaneClaims *claims = lane->local[index]->claims;
		int32_t		next = lane_link(lane, LANE_LINK_CLAIM, index)->next;

		if (claims->due <= lane->now)
			serve(lane, (uint32_t) index);
		else if (claims->due < lane->claim_at)
			lane->claim_at = claims->due;
		index = next;
	}
	return lane->lane->work_requests != before;
}

/* ---------- a consumer's grants ---------- */

bool
rf_claims_asked(RfLaneThread *lane, uint32_t index, uint32_t value, RfError *error)
{
	LaneFlow   *local = lane->local[index];
	LaneClaims *claims = local->claims;
	uint32_t	more = (uint16_t) (value - claims->asked);

	/* It asks for slots that have credit. */
	if (more == 0 || claims->asked + more - claims->granted +
		(uint32_t) __builtin_popcountll(claims->granted_unused) +
		local->moved >
		local->credit + local->window)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer asked for receive buffers that it has no credit for");
	claims->asked += more;
	if (!claims->listed)
	{
		uint16_t   *waiting = &lane->asking_of[claims->pool - lane->config.shared->receive_pools];

		list_add(lane, &lane->asking, local);
		if ((*waiting)++ == 0)
			atomic_fetch_or(&claims->pool->lanes_waiting, 1u << lane->lane->number);
	}
	return true;
}

void
rf_claims_ended(RfLaneThread *lane, LaneFlow *local)
{
	LaneClaims *claims = local->claims;

	if (claims == NULL)
		return;
	if (claims->listed)
		leave_line(lane, local);
	rf_receive_unused(claims->pool, local->index, claims->granted_unused);
	claims->granted_unused = 0;
	rf_receive_wake(lane->config.shared->lanes, claims->pool);
}

/* The slot for its next buffer. */
static uint64_t
next_slot(const LaneFlow *local)
{
	return local->moved + (uint32_t) __builtin_popcountll(local->claims->granted_unused);
}

bool
rf_claims_grant(RfLaneThread *lane)
{
	uint32_t	count = lane->asking.count;
	int32_t		index = lane->asking.head;
	bool		some = false;

	/* One each, in line; a flow that needs more goes to the end. */
	while (count-- > 0)
	{
		LaneFlow   *local = lane->local[index];
		LaneClaims *claims = local->claims;
		int32_t		next = lane_link(lane, LANE_LINK_CLAIM, index)->next;
		uint32_t	flow = (uint32_t) index;
		int			buffer = -1;

		index = next;
		if (lane->connections[local->peer].failed)
			continue;
		if (!rf_receive_may_grant(claims->pool, flow, next_slot(local)))
			continue;
		if (!rf_lane_has_room(lane, local->peer))
		{
			rf_queue_park(lane, flow);
			continue;
		}
		buffer = rf_receive_grant(claims->pool, flow, next_slot(local));
		if (buffer < 0)
			continue;
		(void) rf_queue_message(lane, flow, RF_IMM_GRANT, (uint32_t) buffer);
		claims->granted_unused |= UINT64_C(1) << buffer;
		claims->granted++;
		lane_count(&lane->lane->claims.grants, 1);
		some = true;
		if (claims->granted == claims->asked)
			leave_line(lane, local);
		else
		{
			list_remove(lane, &lane->asking, local);
			list_add(lane, &lane->asking, local);
		}
	}
	return some;
}

bool
rf_claims_may_grant(RfLaneThread *lane)
{
	for (int32_t index = lane->asking.head; index != LANE_NONE;
		 index = lane_link(lane, LANE_LINK_CLAIM, index)->next)
	{
		LaneFlow   *local = lane->local[index];

		if (!lane->connections[local->peer].failed && local->waiting.place == QUEUE_NOWHERE &&
			rf_receive_may_grant(local->claims->pool, (uint32_t) index, next_slot(local)))
			return true;
	}
	return false;
}
