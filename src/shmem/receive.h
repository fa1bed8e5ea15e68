/*
 * receive.h - the shared receive pool: receive buffers that all producers of one consumer claim
 * from, so that the consumer's memory does not grow with their number.
 *
 * The consumer's backend makes a pool (flow.c), its engine's main thread supplies the memory
 * (src/engine/receive_memory.c), the producers' lanes claim buffers and the consumer's lanes grant
 * them (src/engine/lane_claim.c), and the consumer's backend releases them. The operations on its
 * words are here and in src/shmem/receive.c, plain C.
 *
 * Memory: one block that is registered for every peer of the pool: RF_RECEIVE_WORDS bytes with a
 * word per buffer (buffer info), then the buffers. So the peers of one pool can reach each other's
 * batches, and nothing else; rdma_fdw.disable = receive_pool separates them.
 *
 * How a producer gets a buffer, only when it has a slot READY and credit for it:
 *   claim   compare-and-swap of a word, RF_RECEIVE_FREE to its own mark, by its lane. It is the
 *           producer's until its DATA immediate names the buffer.
 *   grant   it asks (RF_IMM_CLAIM) and the consumer's lane answers (RF_IMM_GRANT) with a buffer
 *           out of `free`. For providers without atomics, and for a producer that lost too many
 *           claims.
 *
 * Writers. A word is FREE only while no flow holds its buffer, and only a compare-and-swap changes
 * it then. The holder of the buffer stores the word when it releases the buffer: the consumer's
 * processor stores only over a word that is not FREE, and a compare-and-swap that finds such a word
 * stores nothing. So processor and adapter never write the same word at the same time, and need not
 * be atomic towards each other (RfDeviceCaps.atomics promises no more than that between requests of
 * adapters). `free`, `owner`, `turn` and `lanes_waiting` are not registered: no peer can reach
 * them.
 *
 * Why a buffer has one holder. It is FREE, or marked by the flow whose compare-and-swap succeeded,
 * or RESERVED; a RESERVED one is in `free`, from which one atomic operation takes it, or granted to
 * one flow, or full. It leaves its holder by one of: DATA (then it is `owner`'s, until the
 * consumer's backend releases it), END (src/engine/lane_claim.c), and the end of the flow
 * (rf_receive_forget).
 *
 * Why no flow waits forever. RF_RECEIVE_RESERVE buffers are never FREE, only granted; the last
 * buffer in `free` is granted only to the flow that the consumer waits for (`turn`), and only for
 * the slot that it waits for.
 *   - A consumer that waits for no particular producer takes any full buffer. If no buffer is full
 *     or on its way, all buffers are free, and claims and grants succeed.
 *   - A flow that waits for the rest of a batch (RfTurn.torn) may leave all buffers full of other
 *     flows' batches. Then the producer's claims lose, it asks, and gets the last buffer; the part
 *     that lands there is read at once and released before the consumer waits for the next one, so
 *     the last buffer is available for each part. Slots of a flow use its buffers in the order in
 *     which it gets them, and it asks only when it has no buffer and no claim under way, so the
 *     buffer cannot go to a later slot.
 *   - A producer holds a buffer only for a slot that is READY and has credit, so it waits only for
 *     the network before it hands it over. A silent producer holds nothing.
 *   - Flows that ask wait in line (per lane), so claims do not starve them: while any waits,
 *     released buffers go to the line.
 */
#ifndef RF_RECEIVE_H
#define RF_RECEIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peers.h"

#define RF_RECEIVE_POOLS	256 /* in one cluster at a time; more groups use buffers of their own */
#define RF_RECEIVE_MIN		4	/* buffers of a pool */
#define RF_RECEIVE_MAX		64	/* the bits of RfReceivePool.free */
#define RF_RECEIVE_RESERVE	2	/* of these, never claimed, only granted */
#define RF_RECEIVE_WORDS	4096	/* bytes before the first buffer */

/* A word. Other values: 1 + the consumer's flow index of the pair that claimed it. */
#define RF_RECEIVE_FREE		UINT64_C(0)
#define RF_RECEIVE_RESERVED	UINT64_MAX

typedef enum RfReceiveState
{
	RF_RECEIVE_UNUSED = 0,
	RF_RECEIVE_CLAIMED,			/* a consumer's backend has it: UNUSED -> CLAIMED by its
								 * compare-and-swap */
	RF_RECEIVE_LEFT				/* done, as are its flows; the main thread makes it UNUSED */
} RfReceiveState;

typedef struct RfReceivePool
{
	_Alignas(64) _Atomic uint32_t state;	/* RfReceiveState */

	/* The backend writes these before a flow names the pool. */
	uint32_t	count;			/* buffers */
	uint32_t	size;			/* of each; bytes */
	uint32_t	claim;			/* 0: grant all, also where there are atomics */
	RfPeerSet	peers;			/* peers that may get access */

	/* The engine's main thread writes these before the first flow with it is OPEN. */
	uint32_t	claimable;		/* buffers below this number may be FREE; 0 = no atomics */
	uint8_t    *memory;

				_Alignas(64) _Atomic uint64_t free; /* to grant: releaser sets a bit, granting lane
													 * clears */
	_Atomic uint64_t turn;		/* consumer's backend: the flow it waits for and the slot, see
								 * RF_RECEIVE_TURN */
	_Atomic uint32_t lanes_waiting; /* a bit per lane that has flows in line: that lane writes its
									 * own */
	_Atomic uint32_t owner[RF_RECEIVE_MAX]; /* 1 + flow of its slot: lane sets, releaser clears */
} RfReceivePool;

#define RF_RECEIVE_TURN(flow, slot) (((uint64_t) (flow) + 1) << 32 | (uint32_t) (slot))

static inline size_t
rf_receive_bytes(uint32_t count, uint32_t size)
{
	return RF_RECEIVE_WORDS + (size_t) count * size;
}

static inline uint8_t *
rf_receive_buffer(const RfReceivePool *pool, uint32_t buffer)
{
	return pool->memory + RF_RECEIVE_WORDS + (size_t) buffer * pool->size;
}

static inline _Atomic uint64_t *
rf_receive_word(const RfReceivePool *pool, uint32_t buffer)
{
	return (_Atomic uint64_t *) pool->memory + buffer;
}

/* Engine's main thread: `memory` has rf_receive_bytes(); all buffers are free. */
extern void rf_receive_init(RfReceivePool *pool, uint8_t *memory, bool atomics);

/*
 * Lane: a slot of `flow` has landed in the buffer; `granted`: this lane gave it the buffer. False:
 * it had no right to it.
 */
extern bool rf_receive_arrived(RfReceivePool *pool, uint32_t buffer, uint32_t flow, bool granted);

/*
 * The buffer's slot was read (consumer's backend), or will never be read. Then rf_receive_wake
 * where lanes can be woken (layout.h).
 */
extern void rf_receive_release(RfReceivePool *pool, uint32_t buffer);

/* Lane: an unused buffer of a flow that has ended. */
extern void rf_receive_unused(RfReceivePool *pool, uint32_t flow, uint64_t granted);

/* Releases all slots of an ended flow without a reader; called by the flow's last user. */
extern void rf_receive_forget(RfReceivePool *pool, uint32_t flow);

/*
 * Lane: takes a buffer for a flow in line; returns -1 if there is no buffer for it. `slot`: the
 * next to arrive. rf_receive_may_grant: would it find one?
 */
extern int	rf_receive_grant(RfReceivePool *pool, uint32_t flow, uint64_t slot);
extern bool rf_receive_may_grant(RfReceivePool *pool, uint32_t flow, uint64_t slot);

/* Lane: no flow is in line any more; the buffers kept for them may be claimed again. */
extern void rf_receive_none_waits(RfReceivePool *pool);

struct RfLane;

/*
 * A buffer of the pool was released, or `turn` was stored: wakes the lanes that have flows in line.
 */
extern void rf_receive_wake(struct RfLane *lanes, RfReceivePool *pool);

#endif
