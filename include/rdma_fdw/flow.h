/*
 * flow.h - a backend's streams, as src/flow/ offers them to the rooms above. Slots and their words
 * are described in shmem/layout.h.
 *
 * A handle belongs to the resource owner that was current when it was made, and is closed with it.
 * All functions raise errors unless they say otherwise.
 */
#ifndef RF_FLOW_H
#define RF_FLOW_H

#include "postgres.h"

#include "base/socket_wait.h"
#include "shmem/layout.h"

/* Local to the backend; its resource owner closes it on error. */
typedef struct RfFlowHandle RfFlowHandle;

typedef struct RfBuffer
{
	uint8_t    *data;			/* payload, behind the slot header; 64-aligned */
	uint32_t	length;			/* consumer: payload bytes; producer: capacity */
	uint32_t	flags;			/* RF_SLOT_FIRST, RF_SLOT_LAST */
	uint64_t	sequence;
	uint32_t	offset;			/* consumer: bytes of the batch that came before these */
	uint32_t	checksum;		/* consumer, LAST: of the whole batch; 0 if unknown */
} RfBuffer;

typedef enum RfFlowPoll
{
	RF_POLL_BUFFER,				/* *buffer is filled in */
	RF_POLL_EMPTY,				/* nothing there now */
	RF_POLL_END					/* end-of-stream: counts were checked, rf_flow_totals() */
} RfFlowPoll;

/*
 * Consumer: claim an entry that a producer on `peer` may open. No round trip, no buffers until
 * then. ERROR when the table is full. Where buffers are short the flow has fewer slots than
 * slot_count, but at least two, in the end; rf_flow_listen_all waits for them all.
 */
extern RfFlowHandle *rf_flow_listen(int peer, uint32_t slot_count, uint32_t slot_size,
									uint64_t estimated_rows);
extern RfFlowHandle *rf_flow_listen_all(int peer, uint32_t slot_count, uint32_t slot_size);
extern void rf_flow_address(RfFlowHandle *flow, uint32_t *index, uint64_t *key);

/*
 * Consumer, before anybody knows the address: unless a producer opens the flow within that time the
 * engine takes the entry back, even if this backend is idle. Then everything that would use the
 * flow is an ERROR, but closing it. For flows that are opened at once or never; a flow that waits
 * for a producer's first rows may wait for ever.
 */
extern void rf_flow_lend_for(RfFlowHandle *flow, uint32 ms);

/* ERROR if that has happened. */
extern void rf_flow_require_lent(RfFlowHandle *flow);

/*
 * A shared receive pool for the flows that are made to listen with it (receive.h), for producers on
 * `peers`. It belongs to the current resource owner, as its flows must, and is closed
 * after them. NULL: all pools are in use.
 */
extern RfReceivePool *rf_receive_open(uint32_t count, uint32_t size, const RfPeerSet *peers,
									  bool claim);
extern void rf_receive_close(RfReceivePool *pool);
extern RfFlowHandle *rf_flow_listen_pooled(int peer, RfReceivePool *pool, uint32_t slot_count);

/*
 * Tells the engine that the consumer waits for this flow's next slot and reads nothing else before
 * it.
 */
extern void rf_flow_await_next(RfFlowHandle *flow);

/* Never blocks. Checks every word of the slot header; ERROR for a failed flow or a bad header. */
extern RfFlowPoll rf_flow_poll(RfFlowHandle *flow, RfBuffer *buffer);

/* Buffers are released in the order of their arrival. */
extern void rf_flow_release(RfFlowHandle *flow, const RfBuffer *buffer);

/*
 * Ask the producer to end its stream after the batch it sends now; nothing is discarded. The
 * producer learns of it once it has sent something.
 */
extern void rf_flow_withdraw(RfFlowHandle *flow);
extern void rf_flow_totals(RfFlowHandle *flow, uint64_t *rows, uint64_t *bytes);
extern bool rf_flow_is_open(RfFlowHandle *flow);	/* a producer has opened it */

/*
 * For callers that sleep on something else: from now on the process latch is set when the flow may
 * have something new. True: it already has; poll instead of sleeping.
 */
extern bool rf_flow_prepare_wait(RfFlowHandle *flow);

/*
 * Sleep until the flow may have something new, `socket`, whose `wait` is given (NULL: no socket),
 * is readable, or timeout_ms passed (-1: no limit). Returns the WL_* events. Services interrupts.
 */
extern int	rf_flow_wait(RfFlowHandle *flow, RfSocketWait *wait, int socket, long timeout_ms);

/*
 * Called when a wait for a free slot was woken; it may raise an ERROR. NULL: nothing is to be done.
 */
extern void (*rf_flow_woken) (void);

/*
 * Producer: open towards the consumer's entry; waits for the engines. NULL: the consumer has gone.
 * ERROR when it fails otherwise. Where buffers are short it has fewer slots than the consumer.
 */
extern RfFlowHandle *rf_flow_open(int peer, uint32_t consumer_flow, uint64_t key);

/* Wait for a free slot; false: the reader sent STOP. */
extern bool rf_flow_acquire(RfFlowHandle *flow, RfBuffer *buffer);
extern void rf_flow_submit(RfFlowHandle *flow, const RfBuffer *buffer, uint32_t length,
						   uint32_t flags, uint64_t rows);

typedef struct RfFlowSubmit
{
	RfFlowHandle *flow;
	const RfBuffer *buffer;
	const uint8_t *placed;		/* the payload in the flow's value memory; NULL: it is in the
								 * buffer */
	uint32_t	length;
	uint32_t	flags;
	uint64_t	rows;
} RfFlowSubmit;

/* Submit to several flows: each lane is woken once, after all of its slots are in place. */
extern void rf_flow_submit_all(const RfFlowSubmit *submits, int count);

/*
 * Where to lay out a row that does not fit a buffer, so that it is sent from there;
 * NULL: anywhere. May wait for earlier rows to leave.
 * rf_flow_submit_from hands over a part of the row: it leaves from there if it was placed, else by
 * way of the buffer.
 */
extern uint8_t *rf_flow_place(RfFlowHandle *flow, uint64_t bytes);
extern void rf_flow_submit_from(RfFlowHandle *flow, const RfBuffer *buffer, const uint8_t *part,
								bool placed, uint32_t length, uint32_t flags, uint64_t rows);

/*
 * Pages in shared buffers, from which parts of a payload are sent without a copy. Request it before
 * opening, by rf_flow_open_pages. rf_flow_takes_pages returns the number of entries per work
 * request, or 0 if pages cannot be sent; the first call sets the limit of pinned pages. Before a
 * slot gets such parts, rf_flow_await_credit waits until the reader has a buffer; false: the reader
 * sent STOP. rf_flow_pin takes the flow's own pin of a page for the slot that is being filled;
 * false: the limit is reached. Pins are released when the slot was sent, or when the flow is
 * closed, which waits for requests that are being sent.
 */
extern RfFlowHandle *rf_flow_open_pages(int peer, uint32_t consumer_flow, uint64_t key);
extern int	rf_flow_takes_pages(RfFlowHandle *flow, int pin_limit);
extern bool rf_flow_await_credit(RfFlowHandle *flow);
extern bool rf_flow_pin(RfFlowHandle *flow, int buffer);
extern bool rf_flow_is_pinning(RfFlowHandle *flow); /* the slot that is being filled has half of
													 * the pins */
extern void rf_flow_submit_parts(RfFlowHandle *flow, const RfBuffer *buffer, const RfPart *parts,
								 int count, uint32_t length, uint32_t flags, uint64_t rows);

/*
 * End of stream: send the counts and wait until the reader acknowledged them; false: STOP came
 * instead.
 */
extern bool rf_flow_finish(RfFlowHandle *flow);

/*
 * The same in steps that never wait, for a producer of several flows (group.h), each with as many
 * slots as its consumer has. rf_flow_open_begin is followed by rf_flow_opened until that is true;
 * rf_flow_finish_begin needs a slot from rf_flow_try_acquire, and is followed by rf_flow_finished
 * until that is not RF_ACQUIRE_FULL. All but the first raise the flow's error.
 */
typedef enum RfAcquire
{
	RF_ACQUIRED,				/* *buffer is filled in; rf_flow_finished: acknowledged */
	RF_ACQUIRE_FULL,			/* not now */
	RF_ACQUIRE_STOPPED			/* the reader sent STOP; rf_flow_stop_reason() */
} RfAcquire;

extern RfFlowHandle *rf_flow_open_begin(int peer, uint32_t consumer_flow, uint64_t key);
extern bool rf_flow_opened(RfFlowHandle *flow);
extern RfAcquire rf_flow_try_acquire(RfFlowHandle *flow, RfBuffer *buffer);
extern void rf_flow_finish_begin(RfFlowHandle *flow);
extern RfAcquire rf_flow_finished(RfFlowHandle *flow);
extern bool rf_flow_landed(RfFlowHandle *flow); /* all is in the reader's buffers */
extern uint32_t rf_flow_credit(RfFlowHandle *flow); /* receive buffers that nothing was submitted
													 * for yet */
extern RfStopReason rf_flow_stop_reason(RfFlowHandle *flow);

/*
 * Sleep until one of several flows has the event that its entry waits for, `socket` is readable, or
 * timeout_ms passed; as rf_flow_wait otherwise. A producer's flow must be beyond CLAIMED.
 */
typedef struct RfFlowSleep
{
	RfFlowHandle *flow;
	RfFlowWaiting waiting;
} RfFlowSleep;

extern int	rf_flow_wait_any(const RfFlowSleep *sleeps, int count, int socket, long timeout_ms);

/*
 * Either side, any state, also at abort (never throws): consumer sends STOP if the stream has not
 * ended. Frees the handle; does nothing when its resource owner has closed it already.
 */
extern void rf_flow_close(RfFlowHandle *flow);

/*
 * Map the memory of the flow's buffers (segment.h). Returns false if it has no memory, or no
 * longer. ERROR when their engine has ended.
 */
extern bool rf_flow_attach_memory(const RfFlow *flow);

/* ERROR when the engine of that epoch has ended: no process would wake a sleeper. */
extern void rf_flow_require_engine(uint32_t epoch);
extern const RfFlow *rf_flow_entry(RfFlowHandle *flow); /* for counters */

/*
 * Producer: show in rdma.stat_flows how regions were moved; the total counts so far, not the
 * increase.
 */
extern void rf_flow_show_regions(RfFlowHandle *flow, const RfRegionCounts *counts);

#endif
