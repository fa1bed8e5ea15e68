/*
 * share.h - a consumer's flow that several processes of one query read: the leader, which owns it,
 * and parallel workers. Each batch goes to the first reader that asks.
 *
 * The flow stays one flow: one queue of receive buffers, one producer that does not know about it.
 * The readers' common state, above all the position in the stream (RfSlotCursor), lies in an
 * RfShare of the extension's main shared memory, not in the query's dynamic segment: that is freed
 * before the flow is closed, and workers that end late must find out without touching freed memory.
 *
 * A reader takes a slot, copies it to memory of its own and gives it back. It holds no buffer while
 * it is busy elsewhere: with its rows, a full tuple queue, a barrier of a parallel hash join. So a
 * reader that waits for data waits for the producer alone, never for another reader (but for the
 * copying of slots taken before). Were slots read in place, a worker that sleeps until the leader
 * empties its queue would keep the leader from getting data.
 *
 * Nothing is assigned in advance: a worker that starts late, never, or ends early affects only the
 * speed.
 *
 * One process may read several such flows, of a statement that runs on several nodes: it checks
 * each in turn and sleeps if no flow has a slot. When it has found one it reports to the readers of
 * the remaining flows (rf_share_pass) that it will not check them soon, because it may not return
 * until other processes, which may sleep there, have made progress.
 *
 * Plain C. A process's part in it, with latches and errors, is rdma_fdw/reader.h.
 */
#ifndef RF_SHARE_H
#define RF_SHARE_H

#include "slots.h"

#define RF_SHARE_MEMBERS	32	/* of one flow, the leader is number 0 */
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
 * across a call that may block or raise. There is one per flow, at the same place. The leader takes
 * it into use (key), and frees it before it releases the flow's entry; a process that finds another
 * key under the lock must leave and not touch the flow.
 */
typedef struct RfShare
{
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t lock;
	uint32_t	state;			/* RfShareState */
	uint64_t	key;			/* the flow's; 0 = free */
	RfFlow	   *flow;
	uint32_t	joined;			/* a bit per member that joined */
	uint32_t	idle;			/* a bit per member that will sleep until a member wakes it */
	uint32_t	copied;			/* a bit per buffer that was copied while one before it was not */
	int32_t		assembler;		/* member that has the first parts of a batch: the next part is for
								 * it */
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
	RF_TAKE_END,				/* all batches were taken, and counts are right */
	RF_TAKE_BROKEN,				/* nothing more will come; the session or the flow has the reason */
	RF_TAKE_OVER,				/* the leader stopped, or is done */
	RF_TAKE_BAD					/* the slot is invalid, see *error */
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
 * millisecond, or raises an error. waited_ms: number of earlier calls for this lock.
 */
extern void (*rf_share_wait) (uint32_t waited_ms);

/* Leader, which owns the flow's entry: the flow is OPEN, and no slot was read from it. */
extern void rf_share_begin(RfShare *share, RfFlow *flow, uint64_t key);

/* Joins under this number, which is unique; false: it is over, or the number is too large. */
extern bool rf_share_join(RfShare *share, uint64_t key, int member, int32_t proc);

/*
 * The next slot for this member. After RF_TAKE_NOTHING its latch will be set when there may be one.
 */
extern RfShareTake rf_share_take(RfShare *share, uint64_t key, int member, RfShareSlot *slot);

/*
 * The slot was copied. False: the flow was closed meanwhile, and the copy may be garbage. *ring as
 * above.
 */
extern bool rf_share_copied(RfShare *share, uint64_t key, uint64_t slot, bool *ring);

/*
 * The member, after RF_TAKE_NOTHING, found a slot elsewhere: it does not check here again before it
 * has processed that.
 */
extern void rf_share_pass(RfShare *share, uint64_t key, int member, RfShareWakes *wakes);

/* Leader: no reader may go on. True: all had been read. */
extern bool rf_share_stop(RfShare *share, uint64_t key, RfShareWakes *wakes);

/* Leader, before it releases the flow: nobody touches it from here on. Returns the cursor. */
extern void rf_share_end(RfShare *share, uint64_t key, RfSlotCursor *cursor, RfShareWakes *wakes);

/* Leader: totals so far; of batches, by member; and the members that joined, a bit each. */
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
