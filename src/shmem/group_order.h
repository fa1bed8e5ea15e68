/*
 * group_order.h - selects the next member of a group of flows: turns, the consumer with most room,
 * and the order of replicate as one consumer knows it. Plain C, one thread.
 */
#ifndef RF_GROUP_ORDER_H
#define RF_GROUP_ORDER_H

#include "group_desc.h"

/*
 * Whole batches in turn. A partly transferred batch is torn: its member keeps the turn until its
 * last part.
 */
typedef struct RfTurn
{
	uint32_t	next;			/* member to try first */
	int			torn;			/* -1 at the beginning */
} RfTurn;

static inline uint32_t
rf_turn_look(const RfTurn *turn, uint32_t i, uint32_t count)
{
	return turn->torn >= 0 ? (uint32_t) turn->torn : (turn->next + i) % count;
}

static inline void
rf_turn_take(RfTurn *turn, uint32_t member, bool last)
{
	turn->torn = last ? -1 : (int) member;
	turn->next = member + 1;
}

/*
 * Returns the member with most free buffers of `count`; among equals the first from `turn` on.
 * RF_GROUP_ANY: all have 0.
 */
extern int	rf_group_most_free(const uint32_t *free_buffers, uint32_t count, uint32_t turn);

/* ---------- the order of replicate, as one consumer knows it ---------- */

typedef struct RfOrder RfOrder;

typedef enum RfOrderNext
{
	RF_ORDER_SLOT,				/* deliver the next slot of *producer */
	RF_ORDER_NOTHING,
	RF_ORDER_END,				/* all was delivered */
	RF_ORDER_STOP				/* no consumer wants more */
} RfOrderNext;

extern size_t rf_order_size(uint32_t producers, uint32_t consumers, uint32_t slot_count);
extern void rf_order_init(RfOrder *order, uint32_t producers, uint32_t consumers, uint32_t me,
						  uint32_t slot_count);

/*
 * The next slot of a producer has arrived here; `last`: a batch ends with it. And: its stream has
 * ended.
 */
extern void rf_order_arrived(RfOrder *order, uint32_t producer, bool last);
extern void rf_order_ended(RfOrder *order, uint32_t producer);

/* This consumer wants no more. */
extern void rf_order_drain(RfOrder *order);

/*
 * The first consumer: appends to the log the slots that have arrived everywhere. False: the
 * consumers contradict each other.
 */
extern bool rf_order_decide(RfOrder *order, RfError *error);

/*
 * The next message for consumer `to` (the first consumer's log; all other consumers have only to ==
 * 0, their arrivals) into `room` bytes, at least RF_GROUP_CONTROL_SIZE less the slot header. Its
 * length, 0: nothing to tell.
 */
extern uint32_t rf_order_write(RfOrder *order, uint32_t to, void *message, uint32_t room);

/* A message came from consumer `from`. False: it is invalid. */
extern bool rf_order_read(RfOrder *order, uint32_t from, const void *message, uint32_t length,
						  RfError *error);

/* Nothing will be written to `to` any more, and its messages are ignored. */
extern bool rf_order_told(const RfOrder *order, uint32_t to);

extern RfOrderNext rf_order_next(RfOrder *order, uint32_t *producer);

#endif
