/*
 * group.h - flows between P producers and C consumers: balance and repartition (two of the flow
 * kinds of Jasny et al., "Zero-sided RDMA", 5).
 *
 * A group is made of pair flows (flow.h), one per producer and consumer; each pair has its own
 * buffers at both ends, so memory is bounded by pairs x slot_count x slot_size, and a consumer that
 * does not read stops only its own batches. A member is one backend; the same backend may be a
 * producer and a consumer, and members may share a node (whose engine must then be connected to
 * itself).
 *
 *   balance       a batch goes to the consumer with most free receive buffers: each gets what it
 *                 can take
 *   repartition   the producer names the consumer of each batch; rows for all consumers are a batch
 *                 for each, which lies once where their flows can send from one memory
 *                 (shmem/value.h, rf_value_common)
 *
 * Forming a group. The coordinator makes a description (rf_group_desc_init), every consumer listens
 * and fills in its addresses (rf_group_listen), the answers are merged (rf_group_desc_merge), and
 * the result goes to the producers (rf_group_open_begin). The engines of all pairs of nodes must be
 * connected before (rf_group_greet, rdma_internal.hello, rf_group_connect).
 *
 * Ending. Each pair ends with counts that its consumer checks; a consumer's end is the end of all
 * its pairs. A consumer that wants no more says so (rf_group_stop): producers get
 * RF_ACQUIRE_STOPPED. In repartition that is meant for this consumer alone; in balance for all. A
 * member that ends without end, stop or leave causes an error at its peers.
 *
 * Plain C parts: shmem/group_desc.h and shmem/group_turn.h.
 */
#ifndef RF_GROUP_H
#define RF_GROUP_H

#include "rdma_fdw/client.h"
#include "rdma_fdw/flow.h"
#include "shmem/group_turn.h"

/*
 * Other modules use it (test/modules/flow_kinds); since PostgreSQL 16 extensions are built with
 * hidden symbols.
 */
#pragma GCC visibility push(default)

/*
 * A member. It lives in the memory context it was made in. Its flows belong to the resource owner
 * that was current then and are closed with it; on abort the other members get errors. A member
 * that could not be made has closed its flows, for any owner: it may outlive the error.
 */
typedef struct RfGroup RfGroup;

typedef struct RfGroupBuffer
{
	RfBuffer	buffer;
	int			member;			/* the sender; for a producer the receiver */
} RfGroupBuffer;

/*
 * Checks and copies a description received from another node. ERROR when the bytes are not a
 * description.
 */
extern RfGroupDesc *rf_group_desc_parse(const void *bytes, size_t length);

/* A description with a random id, palloc'd. ERROR for a shape that cannot be. */
extern RfGroupDesc *rf_group_desc_make(const RfGroupShape *shape, const RfNodeId *nodes);

/*
 * Connect this node's engine with another's. The request goes to rdma_internal.hello() there, and
 * its answer, and the host where libpq found that node, to rf_group_connect here. One of two nodes
 * does it for both directions. Returns the peer. allowed: as for rf_peer_connect. ERROR with
 * SQLSTATE
 * 08003 when it needs another answer, since the token of this one may have been used.
 */
extern void rf_group_greet(RfHelloRequest *request);
extern int	rf_group_connect(const char *host, const void *hello, size_t length,
							 RfAddressFilter allowed);

/*
 * Consumer: listen for all producers; fills in the consumer's addresses in *desc. A backend that is
 * also producer `own` (RF_GROUP_ANY: it is not a producer) needs no flow for its rows to itself:
 * that pair's address stays unknown, and the caller hands rows over by itself.
 */
extern RfGroup *rf_group_listen(RfGroupDesc *desc, uint32_t consumer, int own);

/*
 * Consumer, before the description is given to anybody: producers have so much time to open their
 * pairs, see rf_flow_lend_for(). The second raises an ERROR if they did not in time.
 */
extern void rf_group_lend_for(RfGroup *group, uint32 ms);
extern void rf_group_require_lent(RfGroup *group);

/*
 * Producer: opens all pairs at once, but for the pair with consumer `own`, which is this backend,
 * too (RF_GROUP_ANY: no such consumer); and waits for all. In two steps, so that several groups
 * open at the same time. ERROR when one fails; after an error of the second the caller closes the
 * group, or its resource owner does.
 */
extern RfGroup *rf_group_open_begin(RfGroupDesc *desc, uint32_t producer, int own);
extern void rf_group_open_end(RfGroup *group);

/*
 * The group has more members: a consumer listens for the new producers and fills in its addresses,
 * a producer opens towards the new consumers (and does not wait). Must be called before the last
 * stream of the old producers has ended.
 */
extern void rf_group_join(RfGroup *group, RfGroupDesc *desc);

/*
 * Consumer: the next part of a batch, if there is one now. The parts of a batch come one after the
 * other; whole batches of the producers in turn. Valid until it is released; parts must be released
 * in the order in which they came. RF_POLL_END: all producers ended and all counts are right.
 */
extern RfFlowPoll rf_group_poll(RfGroup *group, RfGroupBuffer *buffer);
extern void rf_group_release(RfGroup *group, const RfGroupBuffer *buffer);

/* Balance: asks producers to send nothing new; the caller then reads on until the end. */
extern void rf_group_leave(RfGroup *group);

/*
 * Consumer: stops reading and releases all buffers. Only rf_group_close may follow. Waits until
 * every producer has opened its pair. Without this call, closing early is an error for a producer
 * that has not opened yet.
 */
extern void rf_group_stop(RfGroup *group);

/*
 * Producer: a buffer for the next part of a batch. repartition: towards `consumer`; a batch for
 * each may be under way. balance: RF_GROUP_ANY. Asking again before submitting gives the same
 * one. RF_ACQUIRE_STOPPED: this consumer (repartition) or all consumers have stopped.
 */
extern RfAcquire rf_group_try_acquire(RfGroup *group, int consumer, RfGroupBuffer *buffer);
extern void rf_group_submit(RfGroup *group, const RfGroupBuffer *buffer, uint32_t length,
							uint32_t flags, uint64_t rows);

/* Several of them, at most one for each consumer, in one call: each lane is woken once. */
typedef struct RfGroupSubmit
{
	const RfGroupBuffer *buffer;
	const uint8_t *placed;		/* the payload in memory of rf_group_common; NULL: it is in the
								 * buffer */
	uint32_t	length;
	uint32_t	flags;
	uint64_t	rows;
} RfGroupSubmit;

extern void rf_group_submit_all(RfGroup *group, const RfGroupSubmit *submits, int count);

/*
 * repartition: where to lay out a batch of up to `bytes` bytes, no more than a buffer has, that
 * every consumer gets: *place, from where it is submitted to each of them (shmem/value.h,
 * rf_value_common), and then rf_group_common_next. *place NULL: there is no such memory, or not
 * yet; copy it into their buffers. RF_ACQUIRE_FULL: some consumer has no send buffer for it now.
 * The same place until rf_group_common_next.
 */
extern RfAcquire rf_group_common(RfGroup *group, uint32_t bytes, uint8_t **place);
extern void rf_group_common_next(RfGroup *group);

/*
 * Producer: end all streams, and say again until all consumers have acknowledged it.
 * RF_ACQUIRE_FULL: not yet; RF_ACQUIRE_STOPPED: all consumers stopped without acknowledging. Never
 * waits.
 */
extern RfAcquire rf_group_try_finish(RfGroup *group);

/*
 * Sleep until a poll, an acquire that was refused or a finish under way of one of the groups may
 * succeed, `socket` (PGINVALID_SOCKET: no socket) is readable or timeout_ms passed (-1: no limit):
 * one latch for all. Returns WL_* events. Services interrupts.
 */
extern int	rf_groups_wait(RfGroup *const *groups, int count, int socket, long timeout_ms);

/* The same, also for a flow outside the groups (may be NULL). */
extern int	rf_groups_wait_also(RfGroup *const *groups, int count, const RfFlowSleep *also,
								int socket, long timeout_ms);

/*
 * Closes the group's flows. If a producer has not finished, its consumers get an error. A consumer
 * that has neither ended nor stopped stops now.
 */
extern void rf_group_close(RfGroup *group);

#pragma GCC visibility pop

#endif
