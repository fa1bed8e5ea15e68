/*
 * flow_int.h - shared by the PostgreSQL files of a flow: the handle. Nobody else includes it.
 *
 * flow.c           claim, sleep, close; the consumer
 * flow_produce.c   the producer, and the pages that it has pinned
 *
 * Handles belong to one backend.
 */
#ifndef RF_FLOW_INT_H
#define RF_FLOW_INT_H

#include "lib/ilist.h"
#include "storage/latch.h"
#include "utils/resowner.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/flow.h"
#include "shmem/ring.h"
#include "shmem/share.h"

#include "pins.h"

/* While asleep with pages pinned, look this often which of them were sent. */
#define RF_PIN_CHECK_MS		10

struct RfFlowHandle
{
	dlist_node	node;
	ResourceOwner owner;
	RfFlow	   *flow;
	uint32		index;
	uint32		engine_epoch;	/* of the engine that ran when the entry was claimed */
	bool		attached;		/* this process has mapped the memory that its buffers lie in */
	bool		acked;			/* producer: the reader has everything */
	bool		lent;			/* consumer: the engine may have taken the entry back, see life.h */
	uint32		lent_ms;		/* for this time */
	int			peer;			/* of a flow that is lent */
	uint64		key;
	RfSlotCursor cursor;
	RfPins	   *pins;			/* producer: of pages that are sent from where they lie; NULL until
								 * the first page */
	RfShare    *share;			/* readers have the cursor until the flow is closed; see share.h */
};

static inline uint32
named_wait_event(uint32 *event, const char *name)
{
	if (*event == 0)
		*event = rf_wait_event_new(name);
	return *event;
}

/* Statistics have one writer, this backend. */
static inline void
count(_Atomic uint64_t *counter, uint64 add)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
						  memory_order_relaxed);
}

static inline void
ring(RfFlowHandle *handle)
{
	rf_lane_ring(&rf_shared->lanes[handle->flow->memory.lane % RF_MAX_LANES], rf_shared->flows,
				 handle->index);
}

/*
 * Takes a free entry, which is CLAIMED and in the list of handles, so that any ERROR from then on
 * gives it back.
 */
extern RfFlowHandle *rf_flow_claim(int peer, RfFlowRole role);

/*
 * failed: its owner did not come to its end, so a producer must not take the reader's STOP for a
 * wish.
 */
extern void rf_flow_close_as(RfFlowHandle *handle, bool failed);

extern void rf_flow_raise_if_failed(RfFlowHandle *handle);

/* The flow has got buffers: map them, before the first look. ERROR when their engine has ended. */
extern void rf_flow_attach(RfFlowHandle *handle);

/*
 * Sleeps until the event that `waiting` names may have happened. The caller looks and comes back if
 * it is not.
 */
extern void rf_flow_sleep(RfFlowHandle *handle, RfFlowWaiting waiting, uint32 wait_event);

/* The flow is being closed: waits until no page of it is being sent any more. Never raises. */

#endif
