/*
 * group_int.h - shared by the PostgreSQL files of a group: one member and its pairs. Nobody else
 * includes it.
 *
 * group.c          descriptions, peers, waiting, closing
 * group_produce.c  a producer: open, route, end
 * group_consume.c  a consumer: listen, take in turn
 *
 * Everything here belongs to one backend.
 */
#ifndef RF_GROUP_INT_H
#define RF_GROUP_INT_H

#include "rdma_fdw/group.h"

typedef enum GroupPairState
{
	PAIR_NONE = 0,				/* no flow: the backend's own, see rf_group_listen */
	PAIR_OPENING,				/* producing end: the engines are opening it */
	PAIR_LIVE,
	PAIR_ENDING,				/* producing end: the end was handed over, not acknowledged yet */
	PAIR_ENDED,					/* the end was acknowledged, or seen */
	PAIR_STOPPED				/* producing end: the reader wants no more */
} GroupPairState;

/* One flow of the member. */
typedef struct GroupPair
{
	RfFlowHandle *flow;			/* NULL: closed */
	GroupPairState state;
	bool		wanted;			/* producing end: an acquire was refused */
} GroupPair;

/* The functions that a producing and a consuming member implement each in their own way. */
typedef struct RfGroupEnd
{
	RfFlowRole	role;

	/* The group has more members at the other end. */
	void		(*join) (RfGroup *group, RfGroupDesc *desc);

	/*
	 * Collects the flows that it waits for now; there is room for all of its pairs. Returns how
	 * many.
	 */
	int			(*sleeps) (RfGroup *group, RfFlowSleep *sleeps);
} RfGroupEnd;

struct RfGroup
{
	MemoryContext context;
	RfGroupKind kind;
	RfFlowRole	role;
	const RfGroupEnd *end;
	uint32		member;
	uint8		id[16];
	uint32		slot_count;
	uint32		slot_size;
	uint32		pair_count;		/* producers of a consumer, consumers of a producer */
	GroupPair  *pairs;
	RfTurn		turn;			/* of the pairs: a consumer's, a balancing producer's */
	bool		finishing;
	uint32	   *free_buffers;	/* balance, producer: scratch */

	/* Producer, repartition: the batch for all consumers. */
	uint8_t    *common;			/* NULL: not granted */
	uint64		common_number;	/* of the batch */
	uint64		common_copied;	/* bytes to each consumer that were not sent from there */
	RfReceivePool *pool;		/* consumer: of the pairs that began with it; NULL: each pair has
								 * its own buffers */
};

/* group.c */
extern RfGroup *rf_group_new(const RfGroupDesc *desc, const RfGroupEnd *end, uint32 member);
extern void rf_group_grow(RfGroup *group, uint32 pair_count);
extern int	rf_group_peer(const RfNodeId *node, bool producer_side);
extern void rf_group_fail(const GroupPair *pair, const char *format,
						  uint32 member) __attribute__((noreturn, format(printf, 2, 0)));
extern void rf_group_begin_context(ErrorContextCallback *context, RfGroup *group);
extern void rf_group_end_context(ErrorContextCallback *context);

#endif
