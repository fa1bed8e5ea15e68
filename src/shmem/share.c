/*
 * share.c - one consumer's flow, several readers (share.h).
 *
 * Plain C, used by the backends (reader.c) and the unit tests. It never sleeps, never rings and
 * sets no latch: the caller does, when the lock is released.
 *
 * Order. Slots are taken in the order in which they were written, under the lock, by rf_slot_read;
 * so counts, sequence numbers and the END slot are checked as for a single reader. They are copied
 * side by side. Buffers go back to the producer in order (credit is a number), each when it and all
 * before it were copied; since copying waits for nothing, no buffer is kept for long. The END slot
 * goes back last: the producer's acknowledgement still means that every byte was copied.
 *
 * A batch in several slots belongs to the reader that took its first: no other reader takes a slot
 * until the last one.
 *
 * Sleeping. The lane wakes one process, RfFlow.owner_proc. Of the readers that find nothing the
 * first becomes the watcher: under the lock it makes itself the owner_proc, stores `waiting`, and
 * looks once more (RfFlow.waiting's rule). All other readers become idle and rely on the watcher. A
 * reader that takes a slot stops watching and wakes an idle reader, which checks the stream and, if
 * it finds nothing, becomes the watcher; a reader that sees the end, or that no slot will come,
 * wakes all. So while any reader is idle there is a watcher, an assembler, or a reader that was
 * woken and has not checked yet. A watcher that wakes up and finds a part for the assembler, which
 * may be idle, wakes the assembler and becomes idle.
 *
 * A reader of several streams sleeps in all of them at once, as watcher of some and idle in the
 * rest, and is woken by any. It then checks all of them before it sleeps again, or takes a slot and
 * passes its roles in the other streams on (rf_share_pass): it is neither watcher nor idle there
 * any more, and where no watcher is left one of the idle is woken, as above, or the assembler if
 * there is one. It also passes on where it was woken and has not checked yet, so the invariant
 * above holds while it is away. As assembler it checks no other stream until it has the last part:
 * no other reader can take that, and its arrival depends on no other reader.
 *
 * The owner_proc is stored before `waiting`. A lane that read an older `waiting` may wake either
 * process: the old watcher is not asleep any more, the new one looks after its store, which comes
 * after the lane's exchange, and sees the value that the lane stored before that.
 *
 * The end. The leader closes the flow regardless of workers. It takes the key out under the lock
 * first. A worker that is copying then may copy from a buffer with new content; it learns so when
 * it gives the slot back, before it reads its copy, and it touches neither the buffer nor the
 * flow's entry.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "share.h"

#define SPINS	1000			/* far more than a running holder needs */

_Static_assert(RF_MAX_SLOTS <= 32 && RF_SHARE_MEMBERS <= 32, "sets of them are 32 bits");

static void
wait_a_millisecond(uint32_t waited_ms)
{
	struct timespec pause = {0, 1000000};

	(void) nanosleep(&pause, NULL);
}

void		(*rf_share_wait) (uint32_t waited_ms) = wait_a_millisecond;

/*
 * Not an s_lock: those may PANIC if the holder is not scheduled for long. A stopped holder is never
 * scheduled: then the lock is tried once a millisecond, and rf_share_wait may give up.
 */
static void
lock(RfShare *share)
{
	uint32_t	tries = 0;

	for (; atomic_exchange_explicit(&share->lock, 1, memory_order_acquire) != 0; tries++)
	{
		if (tries < SPINS)
			sched_yield();
		else
			rf_share_wait(tries - SPINS);
	}
}

static void
unlock(RfShare *share)
{
	atomic_store_explicit(&share->lock, 0, memory_order_release);
}

void
rf_share_begin(RfShare *share, RfFlow *flow, uint64_t key)
{
	lock(share);
	share->state = RF_SHARE_READING;
	share->flow = flow;
	share->joined = 0;
	share->idle = 0;
	share->copied = 0;
	share->assembler = RF_NO_MEMBER;
	share->watcher = RF_NO_MEMBER;
	memset(&share->cursor, 0, sizeof(share->cursor));
	memset(share->batches, 0, sizeof(share->batches));
	share->key = key;
	unlock(share);
}

bool
rf_share_join(RfShare *share, uint64_t key, int member, int32_t proc)
{
	bool		joined = false;

	if (member < 0 || member >= RF_SHARE_MEMBERS)
		return false;
	lock(share);
	if (share->key == key)
	{
		joined = true;
		share->joined |= 1u << member;
		share->procs[member] = proc;
	}
	unlock(share);
	return joined;
}

static void
wake_member(RfShare *share, int member, RfShareWakes *wakes)
{
	if ((share->idle & (1u << member)) == 0)
		return;
	share->idle &= ~(1u << member);
	wakes->procs[wakes->count++] = share->procs[member];
}

static void
wake_one(RfShare *share, RfShareWakes *wakes)
{
	if (share->idle != 0)
		wake_member(share, __builtin_ctz(share->idle), wakes);
}

/* The watcher sleeps without being idle. */
static void
wake_all(RfShare *share, RfShareWakes *wakes)
{
	while (share->idle != 0)
		wake_one(share, wakes);
	if (share->watcher != RF_NO_MEMBER)
		wakes->procs[wakes->count++] = share->procs[share->watcher];
	share->watcher = RF_NO_MEMBER;
}

/* Only the holder of the lock writes the flow's statistics. */
static void
count(_Atomic uint64_t *counter, uint64_t add)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
						  memory_order_relaxed);
}

/* Checks the stream once; the lock is held. */
static RfShareTake
look(RfShare *share, int member, RfShareSlot *slot)
{
	RfFlow	   *flow = share->flow;
	RfSlotCursor *cursor = &share->cursor;
	bool		failed;
	bool		remote_end;

	switch ((RfShareState) share->state)
	{
		case RF_SHARE_READING:
			break;
		case RF_SHARE_ENDED:
			return RF_TAKE_END;
		case RF_SHARE_BROKEN:
			return RF_TAKE_BROKEN;
		case RF_SHARE_STOPPED:
			return RF_TAKE_OVER;
	}
	if (share->assembler != RF_NO_MEMBER && share->assembler != member)
		return RF_TAKE_NOTHING;

	/* Before the slots: the lane stores slots first, and then that no more will come. */
	failed = atomic_load(&flow->state) == RF_FLOW_FAILED;
	remote_end = atomic_load(&flow->remote_end) != 0;
	switch (rf_slot_read(flow, cursor, &slot->header, &slot->payload, &slot->error))
	{
		case RF_READ_DATA:
			slot->slot = cursor->next - 1;
			share->assembler = cursor->in_batch ? member : RF_NO_MEMBER;
			if (!cursor->in_batch)
				share->batches[member]++;
			count(&flow->stats.slots, 1);
			count(&flow->stats.bytes, slot->header.length);
			count(&flow->stats.rows, slot->header.rows);
			wake_one(share, &slot->wakes);
			return RF_TAKE_DATA;

		case RF_READ_END:
			share->state = RF_SHARE_ENDED;
			slot->ring = true;
			wake_all(share, &slot->wakes);
			return RF_TAKE_END;

		case RF_READ_BAD:
			return RF_TAKE_BAD;

		case RF_READ_NOTHING:
			break;
	}
	if (failed || (remote_end && cursor->next == atomic_load(&flow->completed)))
	{
		share->state = RF_SHARE_BROKEN;
		wake_all(share, &slot->wakes);
		return RF_TAKE_BROKEN;
	}
	return RF_TAKE_NOTHING;
}

RfShareTake
rf_share_take(RfShare *share, uint64_t key, int member, RfShareSlot *slot)
{
	RfShareTake take = RF_TAKE_OVER;

	slot->ring = false;
	slot->wakes.count = 0;
	lock(share);
	if (share->key == key)
	{
		share->idle &= ~(1u << member);
		if (share->watcher == member)
			share->watcher = RF_NO_MEMBER;
		take = look(share, member, slot);
		if (take == RF_TAKE_NOTHING)
		{
			bool		foreign = share->assembler != RF_NO_MEMBER && share->assembler != member;

			if (foreign && share->watcher == RF_NO_MEMBER)
				wake_member(share, share->assembler, &slot->wakes);
			if (!foreign && share->watcher == RF_NO_MEMBER)
			{
				share->watcher = member;
				atomic_store(&share->flow->owner_proc, share->procs[member]);
				atomic_store(&share->flow->waiting, RF_WAIT_ANY);
				take = look(share, member, slot);
				if (take != RF_TAKE_NOTHING && share->watcher == member)
					share->watcher = RF_NO_MEMBER;
			}
			else
				share->idle |= 1u << member;
		}
	}
	unlock(share);
	return take;
}

void
rf_share_pass(RfShare *share, uint64_t key, int member, RfShareWakes *wakes)
{
	wakes->count = 0;
	lock(share);
	if (share->key == key)
	{
		share->idle &= ~(1u << member);
		if (share->watcher == member)
			share->watcher = RF_NO_MEMBER;
		if (share->watcher == RF_NO_MEMBER && share->assembler != RF_NO_MEMBER)
			wake_member(share, share->assembler, wakes);
		else if (share->watcher == RF_NO_MEMBER)
			wake_one(share, wakes);
	}
	unlock(share);
}

bool
rf_share_copied(RfShare *share, uint64_t key, uint64_t slot, bool *ring)
{
	bool		valid = false;

	*ring = false;
	lock(share);
	if (share->key == key)
	{
		RfFlow	   *flow = share->flow;
		RfSlotCursor *cursor = &share->cursor;

		valid = true;
		share->copied |= 1u << (slot % flow->slot_count);
		while (cursor->released < cursor->next &&
			   (share->copied & (1u << (cursor->released % flow->slot_count))) != 0)
		{
			share->copied &= ~(1u << (cursor->released % flow->slot_count));
			*ring |= rf_slot_release(flow, cursor);
		}
	}
	unlock(share);
	return valid;
}

bool
rf_share_stop(RfShare *share, uint64_t key, RfShareWakes *wakes)
{
	bool		ended = false;

	wakes->count = 0;
	lock(share);
	if (share->key == key)
	{
		ended = share->state == RF_SHARE_ENDED;
		if (!ended)
			share->state = RF_SHARE_STOPPED;
		wake_all(share, wakes);
	}
	unlock(share);
	return ended;
}

void
rf_share_end(RfShare *share, uint64_t key, RfSlotCursor *cursor, RfShareWakes *wakes)
{
	wakes->count = 0;
	lock(share);
	if (share->key == key)
	{
		*cursor = share->cursor;
		wake_all(share, wakes);
		share->key = 0;
	}
	unlock(share);
}

void
rf_share_totals(RfShare *share, RfShareTotals *totals)
{
	lock(share);
	totals->rows = share->cursor.rows;
	totals->bytes = share->cursor.bytes;
	totals->joined = share->joined;
	memcpy(totals->batches, share->batches, sizeof(totals->batches));
	unlock(share);
}
