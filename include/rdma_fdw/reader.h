/*
 * reader.h - one process's part in reading a shared flow; shmem/share.h has the protocol.
 */
#ifndef RF_READER_H
#define RF_READER_H

#include "rdma_fdw/flow.h"
#include "shmem/share.h"

/* Sets the latches of the readers to be woken. */
extern void rf_wake_readers(const RfShareWakes *wakes);

/* A member, this process's own memory; pfree it. */
typedef struct RfFlowReader RfFlowReader;

/*
 * Called by the owner of an open consumer's flow: from now on only readers read it; the owner
 * becomes one, too. *share and *key are for rf_reader_join.
 */
extern void rf_flow_share(RfFlowHandle *flow, uint32_t *share, uint64_t *key);
extern bool rf_flow_share_stop(RfFlowHandle *flow);
extern void rf_flow_share_totals(RfFlowHandle *flow, RfShareTotals *totals);

/* As this member, in the current memory context. NULL: it is over, or has enough readers. */
extern RfFlowReader *rf_reader_join(uint32_t share, uint64_t key, int member);

/* Never blocks. ERROR for a bad slot. RF_TAKE_NOTHING: see rf_reader_wait and rf_reader_pass. */
extern RfShareTake rf_reader_poll(RfFlowReader *reader, RfBuffer *buffer);

/*
 * Called after the buffer's bytes were copied. False: the copy is invalid, because the flow was
 * closed.
 */
extern bool rf_reader_copied(RfFlowReader *reader, const RfBuffer *buffer);

/*
 * Called when another flow of this process had something: if the last poll of this flow found
 * nothing, its other readers must not rely on this process to poll again.
 */
extern void rf_reader_pass(RfFlowReader *reader);

/* ERROR when the engine is gone, for callers that sleep on something else. */
extern void rf_reader_require_engine(RfFlowReader *reader);

/*
 * Sleep, after a poll that found nothing (here, and in all other flows that are read), until there
 * may be something, `socket`, whose `wait` is given (NULL: no socket), is readable or timeout_ms
 * passed. Returns the WL_* events. Services interrupts. ERROR when the engine is gone.
 */
extern int	rf_reader_wait(RfFlowReader *reader, RfSocketWait *wait, int socket, long timeout_ms);

extern void rf_reader_waits(RfFlowReader *reader, uint64_t *waits, uint64_t *wait_us);

/* Set the leader's latch. */
extern void rf_reader_call_leader(RfFlowReader *reader);

#endif
