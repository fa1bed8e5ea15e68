/*
 * group_turn.h - selects the next member of a group of flows: turns, and the consumer with most
 * room. Plain C, one thread.
 */
#ifndef RF_GROUP_TURN_H
#define RF_GROUP_TURN_H

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
static inline int
rf_group_most_free(const uint32_t *free_buffers, uint32_t count, uint32_t turn)
{
	int			best = RF_GROUP_ANY;

	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	member = (turn + i) % count;

		if (free_buffers[member] > (best < 0 ? 0 : free_buffers[best]))
			best = (int) member;
	}
	return best;
}

#endif
