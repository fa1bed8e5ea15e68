/*
 * share.h - a consumer's flow that several processes of one query read: the leader, to whom it
 * belongs, and parallel workers. Each batch goes to whoever asks first.
 *
 * The flow stays one flow: one queue of receive buffers, one producer that knows nothing of it.
 * What its readers have in common, above all the place in the stream (RfSlotCursor), lies in an
 * RfShare of the extension's main shared memory, not in the query's dynamic segment: that goes
 * before the flow is closed, and workers that end late must find out without touching what is gone.
 *
 * A reader takes a slot, copies it to memory of its own and gives it back. It holds nothing while
 * it is away: rows in the making, a full tuple queue, a barrier of a parallel hash join. So a
 * reader that waits for data waits for the producer alone, never for another reader (but for the
 * copying of slots taken before). Were slots read in place, a worker that sleeps until the leader
 * empties its queue would keep the leader from getting data.
 *
 * Nothing is given out in advance: a worker that starts late, never, or ends early changes nothing
 * but the speed.
 *
 * One process may read several such flows, of a statement that runs on several nodes: it looks at
 * each in turn and sleeps when none has anything. When it has found something it tells the others
 * (rf_share_pass) that it will not look there soon, for it may not come back until other processes
 * have got on, which may sleep there.
 *
 * Plain C. A process's part in it, with latches and errors, is rdma_fdw/reader.h.
 */
#ifndef RF_SHARE_H
#define RF_SHARE_H

#include "slots.h"

#define RF_SHARE_MEMBERS	32		/* of one flow, the leader is number 0 */
#define RF_NO_MEMBER		(-1)

typedef enum RfShareState
{
	RF_SHARE_READING = 0,
	RF_SHARE_ENDED,				/* the END slot came, counts are right */
	RF_SHARE_BROKEN,			/* nothing more will come, and there was no END */
	RF_SHARE_STOPPED			/* the leader wants no more */
} RfShareState;

/*
 * Everything is read and written under `lock`, which is held for some loads and stores and never
 * across a call that may block or raise. There is one per flow, at the same place. Taken into use
 * by the leader (key), freed by the leader before it lets go of the flow's entry; whoever finds
 * another key under the lock has nothing to do here any more and must not touch the flow.
 */
typedef struct RfShare
{
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t lock;
	uint32_t	state;			/* RfShareState */
	uint64_t	key;			/* the flow's; 0 = free */
	RfFlow	   *flow;
	uint32_t	joined;			/* a bit per member that did */
	uint32_t	idle;			/* a bit per member that will sleep until a member wakes it */
	uint32_t	copied;			/* a bit per buffer that was copied while one before it was not */
	int32_t		assembler;		/* member that has the first parts of a batch: the next part is for it */
	int32_t		watcher;		/* member that the lane wakes: RfFlow.owner_proc */
	RfSlotCursor cursor;
	int32_t		procs[RF_SHARE_MEMBERS];
	uint64_t	batches[RF_SHARE_MEMBERS];
} RfShare;

/* Processes whose latches are to be set, once the lock is released. */
typedef struct RfShareWakes
{
	int			count;
	int32_t		procs[RF_SHARE_MEMBERS];
} RfShareWakes;

typedef enum RfShareTake
{
	RF_TAKE_DATA,
	RF_TAKE_NOTHING,			/* sleep until the latch is set, then look again */
	RF_TAKE_END,				/* all batches were taken, by whomever, and counts are right */
	RF_TAKE_BROKEN,				/* nothing more will come; the producer's session, or the flow, says why */
	RF_TAKE_OVER,				/* the leader stopped, or is done */
	RF_TAKE_BAD					/* *error says what is wrong with the slot */
} RfShareTake;

typedef struct RfShareSlot
{
	RfSlotHeader header;
	uint8_t    *payload;
	uint64_t	slot;
	bool		ring;			/* ring the flow's lane */
	RfShareWakes wakes;
	RfError		error;
} RfShareSlot;

/*
 * Called while another member holds the lock for much longer than it takes; waits for a
 * millisecond, or raises. waited_ms: how often it was called for this lock before.
 */
extern void (*rf_share_wait) (uint32_t waited_ms);

/* Leader, which has the flow's entry: the flow is OPEN, and nobody has read from it. */
extern void rf_share_begin(RfShare *share, RfFlow *flow, uint64_t key);

/* Join under this number, which is nobody else's; false: it is over, or there is no such place. */
extern bool rf_share_join(RfShare *share, uint64_t key, int member, int32_t proc);

/*
 * The next slot for this member. After RF_TAKE_NOTHING its latch will be set when there may be one.
 */
extern RfShareTake rf_share_take(RfShare *share, uint64_t key, int member, RfShareSlot *slot);

/*
 * The slot was copied. False: the flow was closed meanwhile, and what was copied may be anything.
 * *ring as above.
 */
extern bool rf_share_copied(RfShare *share, uint64_t key, uint64_t slot, bool *ring);

/*
 * The member, after RF_TAKE_NOTHING, found something elsewhere: it does not look here again before
 * it has dealt with that.
 */
extern void rf_share_pass(RfShare *share, uint64_t key, int member, RfShareWakes *wakes);

/* Leader: nobody shall read on. True: all had been read. */
extern bool rf_share_stop(RfShare *share, uint64_t key, RfShareWakes *wakes);

/* Leader, before it lets go of the flow: nobody touches it from here on. Gives the cursor back. */
extern void rf_share_end(RfShare *share, uint64_t key, RfSlotCursor *cursor, RfShareWakes *wakes);

/* Leader: what was taken so far; of batches, by whom; and who joined, a bit per member. */
typedef struct RfShareTotals
{
	uint64_t	rows;
	uint64_t	bytes;
	uint64_t	batches[RF_SHARE_MEMBERS];
	uint32_t	joined;
} RfShareTotals;

extern void rf_share_totals(RfShare *share, RfShareTotals *totals);

extern RfShare *rf_shares;		/* one per flow, in main shared memory */

#endif
