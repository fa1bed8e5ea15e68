/*
 * layout.h - the contents of shared memory: the arena, the flow table, slots and their status
 * words, lanes, peers, tokens. Each word's comment names its writers and readers; the functions for
 * it are in the other headers of this folder.
 *
 * A flow is one directed stream of batches between one producer backend and one consumer backend on
 * two nodes. Each side has its own entry in its own node's flow table; the
 * engines' lanes connect the two. Backends touch only their entry and their buffers, with loads,
 * stores and atomics; the lane that owns the flow does all the sending.
 *
 * Plain C11: the lanes and the unit tests include it without PostgreSQL.
 */
#ifndef RF_LAYOUT_H
#define RF_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma_fdw/provider.h"
#include "rdma_fdw/region.h"
#include "rdma_fdw/wire.h"

#include "peers.h"
#include "receive.h"
#include "segment.h"

#define RF_CACHE_LINE		64
#define RF_MAX_LANES		16
#define RF_MAX_CHAIN		64	/* work requests in one post, at most */

typedef enum RfFlowRole
{
	RF_FLOW_CONSUMER = 1,
	RF_FLOW_PRODUCER
} RfFlowRole;

/*
 * Life of an entry. Every change is a compare-and-swap by the party named.
 *
 *   FREE -> CLAIMED             backend: takes the entry, fills in identity and geometry
 *   CLAIMED -> LISTENING        consumer backend: a producer with the right key may open it. No
 *   buffers yet, no engine involved
 *   CLAIMED -> OPENING          producer backend: asks its engine to open (and rings the engine's
 *   main thread)
 *   LISTENING <-> OPENING       consumer's engine (main thread): holds the entry while it looks at
 *   it, see life.c
 *   OPENING -> OPEN             engine: buffers and lane are assigned; producer: OPENED came;
 *   consumer: OPEN with its key came
 *   OPENING -> FAILED           engine: OPEN_FAILED came, peer lost (a peer that was stopped or cut
 *   off says nothing over libpq either), buffer_wait
 *                               over; rf_flow_error is set before
 *   OPEN -> FAILED              engine: peer lost, protocol error; rf_flow_error is set before
 *   LISTENING -> FREE           consumer backend: nothing ever came
 *   OPENING, OPEN, FAILED -> CLOSING   backend: done with it, for any reason; will not touch
 *   it or its buffers again
 *   CLOSING -> FREE             engine: END sent and received or the connection is gone; buffers
 *   returned
 */
typedef enum RfFlowState
{
	RF_FLOW_FREE = 0,
	RF_FLOW_CLAIMED,
	RF_FLOW_LISTENING,
	RF_FLOW_OPENING,
	RF_FLOW_OPEN,
	RF_FLOW_FAILED,
	RF_FLOW_CLOSING
} RfFlowState;

/*
 * Buffer info: one status word per send buffer slot or receive buffer. Each transition has one
 * writer.
 *   send:    FREE -> FILLING -> READY, PLACED or GATHERED (producer backend), these -> IN_FLIGHT ->
 *   FREE (lane)
 *            GATHERED -> FILLING (producer backend, when it closes; see below)
 *   receive: FREE -> FULL (lane, at the immediate), FULL -> READING -> FREE (consumer backend)
 * A store that hands a buffer over is a release, the load that takes it an acquire.
 */
typedef enum RfSlotStatus
{
	RF_SLOT_FREE = 0,
	RF_SLOT_FILLING,
	RF_SLOT_READY,
	RF_SLOT_IN_FLIGHT,
	RF_SLOT_FULL,
	RF_SLOT_READING,
	RF_SLOT_PLACED,				/* READY, but of the slot only the header: the payload is sent from
								 * value memory */
	RF_SLOT_GATHERED			/* READY, with parts that are sent from pages in shared buffers */
} RfSlotStatus;

/*
 * RfFlow.waiting: the event that the owner sleeps for. The sleeper stores it, then re-checks; a
 * process that changes a word that a sleeper may wait for stores that word, then loads this one;
 * all four accesses are sequentially consistent, so one of the two processes sees the other's
 * store. The waker takes it back to NONE by an exchange and wakes only when that returned a
 * different value.
 */
typedef enum RfFlowWaiting
{
	RF_WAIT_NONE = 0,
	RF_WAIT_ANY,				/* any event: a buffer, a state */
	RF_WAIT_SLOTS,				/* producer: half of its slots (at least one), so that it runs for
								 * a while once woken */
	RF_WAIT_ACK,				/* producer: everything it handed over is released by the reader */
	RF_WAIT_OPEN,				/* producer: the engines have opened it, or have not */
	RF_WAIT_CREDIT,				/* producer: the reader has a free buffer, and a slot is free */
	RF_WAIT_LANDED,				/* producer: everything it handed over has landed in the reader's
								 * buffers */
	RF_WAIT_VALUE				/* producer: an answer about value memory, or room in its piece
								 * (RfValueCursor.wait) */
} RfFlowWaiting;

/*
 * Value memory: large rows are built in it and sent from there, without the copy into the slots
 * (RDMAbox, figure 5: dynamic registration against copying to registered memory). Here are the
 * words that the two sides of one node share; src/shmem/value.c has the backend's part with the
 * rule of choice, src/engine/values.c the engine's with the cache of registrations.
 *
 * Several flows of one producer may have the same piece (value_of), for data that all of them send:
 * see rf_value_common.
 *
 * A producer's piece of it belongs to its flow's entry like the slots: the engine's main thread
 * takes it from the pool when the backend asks, and takes it back when it frees the entry. Only the
 * entry has the place of a slot's payload in it: a peer on the same host can write to the segments,
 * and must not be able to choose the bytes that are sent to it.
 *
 * RfFlow.value_state. NONE, GRANTED, REFUSED -> WANTED: backend, with value_wanted stored before
 * and nothing in flight that reads the old piece. WANTED -> GRANTED, REFUSED: engine's main thread,
 * with the piece stored before. So each side writes only words that the other does not read at that
 * time.
 */
typedef enum RfValueState
{
	RF_VALUE_NONE = 0,
	RF_VALUE_WANTED,
	RF_VALUE_GRANTED,
	RF_VALUE_REFUSED			/* not now: it is used up, or the device registers no more */
} RfValueState;

#define RF_VALUE_UNIT		(1u << 20)	/* unit of allocation of value memory */

/* The payload of a PLACED slot, in the flow's piece. */
typedef struct RfPlaced
{
	uint32_t	offset;
	uint32_t	length;
} RfPlaced;

/*
 * Pages in shared buffers: the largest parts of a producer's batch may stay on pages that its
 * backend has pinned. The engine's work request gathers them. Their addresses are in the main
 * shared memory (rf_flow_parts), not in the slot, which a peer on this host can write;
 * rf_parts_describe (src/shmem/slot_parts.c) checks it against the pool of buffers.
 *
 * A page must stay pinned until no work request reads it any more, or its buffer might then hold
 * other data that this reader must not see. The status word decides which side acts; both sides
 * change it by compare-and-swap: GATHERED -> IN_FLIGHT is the lane's promise that the slot is sent,
 * and from then on the backend keeps its pins until `completed` is beyond it, or the flow FAILED,
 * which the lane stores after the queue pair is destroyed. GATHERED -> FILLING is the closing
 * backend taking it back; the lane sends nothing from there on. So exactly one of them gets the
 * slot.
 *
 * The producer makes such a slot only when the reader has a free buffer for it
 * (rf_flow_await_credit). Then its completion depends on the transport only, and an idle reader
 * leaves no page pinned. Not used with shared receive pools, whose buffers other flows may hold.
 */
typedef struct RfPart
{
	uint32_t	own;			/* bytes of the slot that come first, */
	uint32_t	buffer;			/* then `length` bytes from this buffer on (0 is the first), which
								 * may reach into the next */
	uint16_t	offset;
	uint16_t	length;
	uint16_t	element;		/* with a stride: elements of so many bytes, `length` in all, so
								 * far */
	uint16_t	stride;			/* from one to the next; 0: one run */
} RfPart;

#define RF_SLOT_PARTS		RF_MAX_SGE

/* RfFlow.stop: why the reader stopped */
typedef enum RfStopReason
{
	RF_STOP_NONE = 0,
	RF_STOP_CLEAN,				/* the reader wants no more: a LIMIT, an early end above it */
	RF_STOP_FAILED				/* the reader failed; its own session says why */
} RfStopReason;

typedef struct RfFlowStats		/* each word has the named writer; any process reads, relaxed */
{
	_Atomic uint64_t rows;		/* backend */
	_Atomic uint64_t bytes;		/* backend: payload bytes submitted or consumed */
	_Atomic uint64_t slots;		/* backend */
	_Atomic uint64_t waits;		/* backend: times it slept for a slot, an RB or the END ack */
	_Atomic uint64_t wait_us;	/* backend */
	_Atomic uint64_t work_requests; /* lane */
	_Atomic uint64_t merged;	/* lane: slots that left within another slot's work request */
	_Atomic uint64_t chained;	/* lane: work requests that shared a doorbell with an earlier one */
	_Atomic uint64_t credit_stalls; /* lane: visits that found READY slots and no credit */
	_Atomic uint64_t credits_sent;	/* lane */
	_Atomic uint64_t probes;	/* lane */
	_Atomic uint64_t claims;	/* lane: receive buffers that it got from a shared pool */
	_Atomic uint64_t claims_lost;	/* lane: compare-and-swaps that found the buffer taken */
	_Atomic uint64_t region_copies; /* backend: RfRegionCounts, of a producer */
	_Atomic uint64_t region_gathers;
	_Atomic uint64_t region_strided;
	_Atomic uint64_t region_boxes;
	_Atomic uint64_t useful_bytes;
	_Atomic uint64_t gap_bytes;
	_Atomic uint64_t uncopied_bytes;
} RfFlowStats;

/* Where a flow's buffers are, and the reader's. Written by the engine before OPEN. */
typedef struct RfFlowMemory
{
	uint8_t    *buffers;		/* slot_count * slot_size contiguous bytes in the arena (same
								 * address in every process) */
	uint32_t	lkey;
	uint32_t	lane;
	uint64_t	remote_addr;	/* producer: receive buffer 0 */
	uint32_t	remote_rkey;
	uint32_t	pool_buffers;	/* producer: receive buffers in the reader's pool; 0 = it has
								 * `window` of its own */
	uint32_t	pool_claimable; /* how many of these, from buffer 0, compare-and-swap may claim */
	bool		fewer_slots;	/* backend, before anybody may open it: whether it may have fewer
								 * slots where buffers are short */
	bool		wants_pages;	/* producer: backend, before OPENING: whether rows come from shared
								 * buffers */
	bool		has_pages;		/* producer: it can, with this key */
	uint32_t	pages_lkey;
} RfFlowMemory;

/*
 * Value memory of a producer. The lane reads the piece when it finds a PLACED slot, which the
 * backend made after it had been GRANTED.
 */
typedef struct RfFlowValue
{
	_Atomic uint32_t state;		/* RfValueState */
	uint32_t	lkey;			/* engine */
	uint8_t    *memory;			/* engine: the piece; NULL without a piece */
	uint64_t	size;			/* engine: bytes */
	uint64_t	wanted;			/* backend */
} RfFlowValue;

typedef struct RfFlow
{
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t state; /* RfFlowState */

	/* Identity: written by the claiming backend before it leaves CLAIMED, constant until FREE. */
	uint32_t	role;
	uint64_t	key;			/* random; both ends know it */
	int32_t		peer;			/* index into the peer table */
	int32_t		owner_pid;
	_Atomic int32_t owner_proc; /* to wake: ProcGlobal->allProcs[]; changes if shared (share.h) */
	uint32_t	role_oid;		/* SQL role: decides which roles may see it; flows are counted by
								 * it (rdma_fdw.role_share) */
	uint32_t	role_share;		/* percent of the buffer memory that this role may have */
	uint32_t	database_oid;
	uint32_t	remote_flow;	/* producer: the consumer's index, from the stream request;
								 * consumer: set by the engine at OPEN */
	uint32_t	slot_count;		/* receive buffers that the backend wants, send buffers of a
								 * producer. The engine sets it before OPEN */
	uint32_t	window;			/* producer: slots that may be sent beyond `credit`: the reader's
								 * buffers. Set at OPENED */
	uint32_t	slot_size;		/* the same; bytes, header included, multiple of 4096 */
	uint64_t	estimated_rows; /* consumer: the planner's estimate, for progress */
	uint32_t	buffer_wait_ms; /* the claiming session's rdma_fdw.buffer_wait */
	RfReceivePool *pool;		/* consumer: where it takes buffers from; NULL = it has its own.
								 * The engine makes it NULL when no pool is to be had */
	int64_t		start_us;		/* CLOCK_REALTIME at claim */

	/*
	 * Consumer: not 0: the backend lent the entry to itself until then (rf_now_us), and the
	 * process that makes it 0, by compare-and-swap, has it alone: the backend to use it, the
	 * engine to free it (life.h). The key, so that no two uses of the entry have the same.
	 * lease_until_us before lease, and that after LISTENING.
	 */
	_Atomic uint64_t lease;
	_Atomic int64_t lease_until_us;

	RfFlowMemory memory;

	/*
	 * Backend's words. `handed`: producer: slots submitted so far; consumer: receive buffers
	 * released so far.
	 */
				_Alignas(RF_CACHE_LINE) _Atomic uint64_t handed;
	_Atomic uint32_t stop;		/* RfStopReason. consumer backend: wants no more. producer: the
								 * lane sets it on STOP */
	_Atomic uint32_t leaving;	/* consumer backend: reads the slots sent so far and wants to be
								 * sent an end then. producer: the lane sets it */
	_Atomic uint32_t abandoned; /* producer backend: closing without an acknowledged end: END says
								 * FAILED or STOPPED */
	_Atomic uint32_t weight;	/* 1..RF_MAX_WEIGHT, 0 stands for the default. Reader: its setting.
								 * Sender: the reader's, or the value that rdma.set_flow_weight
								 * stored since; the lane reads it each turn */

	/*
	 * Lane's words. `completed`: producer: slots sent and reusable; consumer: slots arrived.
	 * `credit`: producer: buffers the reader released. `place`: consumer with a pool: in which
	 * buffer each slot lies, by status[].
	 */
				_Alignas(RF_CACHE_LINE) _Atomic uint64_t completed;
	_Atomic uint64_t credit;	/* consumer: releases the producer was told of */
	_Atomic uint32_t remote_end;	/* 1 + RF_END_* once the peer's END came */
	_Atomic uint8_t place[RF_MAX_SLOTS];

	/*
	 * The owner sleeps (RfFlowWaiting): set by the backend before it re-checks and waits, cleared
	 * by the process that wakes it.
	 */
				_Alignas(RF_CACHE_LINE) _Atomic uint32_t waiting;
	_Atomic uint32_t queued;	/* bit per lane's ring: ringer sets; lane clears, then checks */

	RfFlowValue value;
	uint32_t	value_of;		/* backend, with it: 1 + the flow whose piece it shall be, too; 0 =
								 * one of its own */
	RfPlaced	placed[RF_MAX_SLOTS];	/* backend, before the slot is PLACED */
	uint8_t		part_count[RF_MAX_SLOTS];	/* backend, before the slot is GATHERED, as its parts */

	/* RfSlotStatus of each buffer: the buffer indicators of the paper. */
				_Alignas(RF_CACHE_LINE) _Atomic uint32_t status[RF_MAX_SLOTS];

	RfFlowStats stats;
} RfFlow;

/* ---------- lanes, as shared memory sees them ---------- */

#define RF_CREDIT_CANDIDATES	8	/* no limit, 1, 2, 4, 6, 8, 10, 12 (src/engine/throttle.c) */
#define RF_CREDIT_FEWEST	4	/* requests of all queue pairs that a limit leaves a lane */

/*
 * The decisions of a lane's credit throttle. The lane writes, any process reads; words of one
 * decision may be seen mixed with the next one's.
 */
typedef struct RfLaneThrottle
{
	_Atomic uint32_t c_max;		/* limit of requests outstanding on a queue pair; 0 = no limit */
	_Atomic uint64_t epoch;		/* decisions so far */
	_Atomic uint32_t peak;		/* most requests that were outstanding on one queue pair */
	_Atomic uint32_t peak_all;	/* and on all of the lane together */
	_Atomic uint64_t waits;		/* times that a flow had to wait for credit */
	_Atomic uint64_t rate[RF_CREDIT_CANDIDATES];	/* of the last decision, bytes per second; 0 =
													 * not tried, it could not matter */
} RfLaneThrottle;

/* A queue pair of a lane, by peer. The lane writes, any process reads. */
typedef struct RfLaneQp
{
	_Atomic uint32_t number;	/* 0 = there is no queue pair; stored last when it is made, first
								 * when it goes */
	_Atomic uint32_t thread_domain; /* 1: on a thread domain, which is the lane's own */
	_Atomic uint32_t outstanding;
	_Atomic uint32_t outstanding_max;
	_Atomic uint64_t work_requests;
	_Atomic uint64_t bytes;
	_Atomic uint64_t waits;		/* for credit */
} RfLaneQp;

/* What a lane did for shared receive pools. The lane writes, any process reads. */
typedef struct RfLaneClaimStats
{
	_Atomic uint64_t won;		/* buffers, by compare-and-swap */
	_Atomic uint64_t lost;		/* attempts that found the buffer taken */
	_Atomic uint64_t held_up;	/* times that enough were under way for one to wait */
	_Atomic uint64_t asked;		/* buffers asked for instead */
	_Atomic uint64_t grants;	/* buffers granted to flows that asked */
	_Atomic uint64_t backoff_us;	/* waited between attempts, in all */
	_Atomic uint32_t backoff_limit_us;	/* t_max of the flow that claimed last */
	_Atomic uint32_t at_once;	/* and how many claims of it may be under way */
} RfLaneClaimStats;

/*
 * Doorbell ring: a multi-producer, single-consumer ring of flow indexes. A flow is in at most one
 * place of each lane's ring (RfFlow.queued), so it never fills; it is in two rings if its entry was
 * reused on another lane before the old lane took it out (ring.c). The lane sets `asleep`,
 * re-checks everything, then blocks; a ringer that sees it writes `wake_fd`, an eventfd made before
 * fork.
 */
typedef struct RfLane
{
	_Alignas(RF_CACHE_LINE) _Atomic uint64_t head;	/* ringers: next place to fill */
				_Alignas(RF_CACHE_LINE) _Atomic uint64_t tail;	/* lane */
	_Atomic uint32_t asleep;
	uint32_t	number;			/* its place in RfShared.lanes */
	int			wake_fd;		/* same number in every process of the cluster */

	/* The index of a flow + 1; 0: not filled yet. */
				_Alignas(RF_CACHE_LINE) _Atomic uint32_t ring[RF_MAX_FLOWS];

	/* Counters: the lane writes, any process reads. */
	_Atomic uint64_t doorbells;
	_Atomic uint64_t requests;	/* slots and messages to be sent */
	_Atomic uint64_t work_requests; /* that carried them: requests - merged */
	_Atomic uint64_t merged;	/* requests that left within another's work request */
	_Atomic uint64_t merged_while_throttled;	/* merged writes that had to wait for the window or
												 * for room in the send queue */
	_Atomic uint64_t chained;	/* work requests that shared a doorbell with an earlier one */
	_Atomic uint64_t signaled;	/* work requests that asked for a completion */
	_Atomic uint64_t turns;		/* turns that were cut short for other flows */
	_Atomic uint64_t throttled; /* times the admission window was full */
	_Atomic uint64_t throttled_us;	/* and how long, in all */
	_Atomic uint64_t bytes_sent;
	_Atomic uint64_t in_place;	/* slots whose payload was sent from value memory */
	_Atomic uint64_t in_place_bytes;
	_Atomic uint64_t from_pages;	/* slots of which parts were sent from shared buffers */
	_Atomic uint64_t from_pages_bytes;
	_Atomic uint64_t immediates;	/* received */
	_Atomic uint64_t polls;
	_Atomic uint64_t empty_polls;
	_Atomic uint64_t completions;	/* immediates and completions of its own requests */
	_Atomic uint64_t armed;
	_Atomic uint64_t sleeps;
	_Atomic uint64_t busy_us;	/* CPU time; up to a millisecond behind */
	_Atomic uint32_t polling_mode;	/* RfPollingMode in force */
	_Atomic uint32_t poll_us;	/* adaptive: in force */
	RfLaneThrottle throttle;
	RfLaneQp	qps[RF_MAX_PEERS];
	_Atomic uint64_t protocol_errors;
	RfLaneClaimStats claims;
} RfLane;

/* Bytes in flight, one per device (engine/admit.h). The lanes write, any process reads. */
typedef struct RfAdmissionStats
{
	_Alignas(64) _Atomic uint64_t in_flight;	/* bytes */
	_Atomic uint64_t high_water;	/* most that was ever in flight */
	_Atomic uint64_t given;		/* counts returns of bytes and withdrawals */
	_Atomic uint32_t waiting;	/* bit per lane that found no room */
	_Atomic uint32_t last;		/* lane that took something last */
} RfAdmissionStats;

/*
 * A backend or the engine's main thread claims an entry: it makes the state CLAIMED by a
 * compare-and-swap from FREE or FAILED, and owns the entry until it stores the next state. Only in
 * between does it write node, accepted and attempt. There is no lock that a stopped process could
 * hold: it keeps one entry, and no process waits for that.
 *
 * A backend that must wait for a node's entry increments `waiters` first and reads state and node
 * then. A claimer reads `waiters` after its compare-and-swap, and restores the entry if there are
 * any. All of these are sequentially consistent, so one of the two sees the other's store. Two
 * backends may claim an entry each for the same node; the engine connects for the first and frees
 * the second.
 */
typedef enum RfPeerState
{
	RF_PEER_FREE = 0,
	RF_PEER_CLAIMED,			/* a backend fills in address and token */
	RF_PEER_REQUESTED,			/* the engine must connect */
	RF_PEER_CONNECTING,
	RF_PEER_CONNECTED,
	RF_PEER_FAILED,				/* `error` has the reason; the entry may be claimed again */
	RF_PEER_CLOSING				/* lanes are detaching */
} RfPeerState;

/* Whether shared buffers can be sent to a peer in place */
typedef enum RfPeerPages
{
	RF_PAGES_NOT_ASKED = 0,
	RF_PAGES_REGISTERED,
	RF_PAGES_REFUSED
} RfPeerPages;

typedef struct RfPeer
{
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t state; /* RfPeerState */
	RfNodeId	node;
	uint32_t	accepted;		/* 1: the other side connected to us. A node connected to itself
								 * has two entries, one of each */
	char		host[128];		/* as the user names it; of an accepted one, its address */
	char		addresses[128]; /* numeric, with commas between: where the engine connects to */
	uint32_t	port;
	uint32_t	role;			/* SQL role whose token or session brought it; by the claimer of
								 * the entry */
	uint32_t	role_limit;		/* and of how many of these places it may have */
	uint8_t		token_id[16];
	uint8_t		token[RF_TOKEN_SIZE];	/* wiped when used */
	RfError		error;			/* FAILED, CLOSING: why. CONNECTED: why without RDMA, or empty */
	char		transport[16];	/* "shm", "tcp", "verbs" */
	char		encryption[32]; /* of rows on the network: how, or "none"; "" if they cross no
								 * network */
	_Atomic uint32_t fell_back; /* 1: no warning of it yet. Engine sets, one backend clears */
	uint32_t	attempt;		/* counts claims of this entry: a waiter knows by it whether the
								 * failure is its own */
	uint32_t	connections;	/* connection sets made so far: reconnects + 1 */
	int64_t		since_us;
	uint32_t	handshake_us;
	uint32_t	round_trip_us;	/* last PING */
	_Atomic uint32_t usual_round_trip_us;	/* see note_round_trip(); 0 = not known. The engine
											 * writes */
	_Atomic uint64_t bandwidth; /* bytes per second, smoothed, of pulls that waited for the
								 * network; 0 if no pull did. Backends write (src/remote/link.c);
								 * of two at the same time one is lost Backends write
								 * (src/remote/link.c); of two at the same time one is lost */
	_Atomic uint64_t bytes_sent;
	_Atomic uint64_t bytes_received;
	_Atomic uint64_t flows_opened;
	_Atomic uint32_t segments;	/* lent to it */
	_Atomic uint64_t value_registered;	/* bytes: most value memory that is registered for it and
										 * free. Engine's main thread writes */
	_Atomic uint32_t pages;		/* RfPeerPages. Engine's main thread writes */
	char		pages_error[192];	/* REFUSED: why */
	_Atomic uint32_t waiters;	/* backends that wait for its state */
} RfPeer;

/*
 * A process takes a token by a compare-and-swap of expires_us from the value that it saw to
 * RF_TOKEN_BUSY, and owns it until it stores another value; no process waits for that. A backend
 * that loses the oldest one takes the next; the engine skips a busy one, which is being replaced.
 * So a process that is stopped meanwhile keeps one entry and delays nobody.
 */
typedef struct RfToken
{
	_Atomic int64_t expires_us; /* 0 = free */
	uint8_t		id[16];
	uint8_t		secret[RF_TOKEN_SIZE];
	RfNodeId	client;
	_Atomic uint32_t role;		/* SQL role that it was issued to; read to share places fairly */
	uint32_t	role_limit;		/* of how many tokens that role may have */
} RfToken;

#define RF_TOKEN_BUSY		INT64_C(-1)
#define RF_MAX_TOKENS		256

/* Kinds of transport, which differ in the costs of a region's bytes: RfPeer.transport. */
typedef enum RfRegionTransport
{
	RF_OVER_SHM = 0,
	RF_OVER_TCP,
	RF_OVER_VERBS,
	RF_OVER_KINDS
} RfRegionTransport;

/*
 * The costs of sleeping, polling (rf_polling_calibrate), copying and registering
 * (rf_values_calibrate), and moving regions (rf_regions_measure) on this machine. Written by the
 * engine before engine_pid.
 */
typedef struct RfCalibration
{
	uint32_t	sleep_ns;		/* arm, block and be woken; 0 = not measured */
	uint32_t	empty_poll_ns;
	uint32_t	poll_us;		/* how long to poll before sleeping is cheaper */
	uint32_t	copy_ns;		/* a MB from memory into slots; 0 = not measured */
	uint32_t	register_ns;	/* registering and deregistering, any size */
	uint32_t	register_mb_ns; /* and for each MB */
	RfRegionCosts regions[RF_OVER_KINDS];	/* request 0 = not measured */
} RfCalibration;

/* Statistics of value memory. The engine's main thread writes, any process reads. */
typedef struct RfValueStats
{
	_Atomic uint64_t used;		/* bytes that flows have */
	_Atomic uint64_t registered;	/* bytes that are registered; memory that is registered for two
									 * peers counts twice */
	_Atomic uint64_t registrations;
	_Atomic uint64_t hits;		/* pieces that were registered already */
	_Atomic uint64_t evictions; /* registrations dropped for the limit of unused registrations */
	_Atomic uint64_t refused;
} RfValueStats;

/* The main thread writes, any process reads. */
typedef struct RfMainCounters
{
	_Atomic uint64_t handshakes;
	_Atomic uint64_t handshakes_refused;
	_Atomic uint64_t garbage_connections;
	_Atomic uint64_t connections_lost;
	_Atomic uint64_t flows_refused;
} RfMainCounters;

typedef struct RfFlowCounts
{
	/*
	 * Entries of flows[] that are not FREE, or somewhat more: counted before one is claimed and
	 * after it is freed, by the same process. As long as it is below a role's share, no role has
	 * its share.
	 */
	_Atomic uint32_t used;

	/* Entries with a lease: counted before it is set and after it is taken, by the same process. */
	_Atomic uint32_t lent;

	/*
	 * Entries from here on were never claimed, so that the main thread need not look at them:
	 * raised by a backend before it claims an entry beyond, which it does when it finds no free
	 * entry below.
	 */
	_Atomic uint32_t reached;
} RfFlowCounts;

/* An event of the device, in the words of the log; time 0: no event yet. See RfShared. */
typedef struct RfDeviceEventNote
{
	char		text[256];
	int64_t		time;			/* in seconds since 1970 */
} RfDeviceEventNote;

/*
 * The extension's main shared memory, laid out by the engine's shmem start-up hook; flows[] follows
 * it.
 */
typedef struct RfShared
{
	RfNodeId	node;			/* ours: of public_key, new with every arena */

	/*
	 * For this life of the node: the postmaster writes it together with `node`, backends read it
	 * (base/agree.h).
	 */
	uint8_t		private_key[RF_KEY_SIZE];
	uint8_t		public_key[RF_KEY_SIZE];
	uint32_t	max_flows;
	uint32_t	segment_count;
	uint32_t	small_segments; /* the last so many of them have RF_SMALL_SEGMENT bytes, */
	uint64_t	segment_size;	/* the others so many */
	bool		huge_pages;		/* for segments, where there are some */
	uint32_t	lane_count;
	uint8_t    *value_memory;	/* the same address in every process; NULL without value memory */
	uint64_t	value_size;		/* bytes, whole units */
	RfValueStats values;
	uint8_t    *page_memory;	/* PostgreSQL's shared buffers, the same address in every process */
	uint64_t	page_memory_size;	/* bytes */
	uint32_t	page_size;
	int			engine_wake_fd; /* eventfd: wakes the engine's main thread */
	_Atomic int32_t engine_pid; /* 0 = not running */
	_Atomic uint32_t engine_epoch;	/* counts engine starts within this arena */
	_Atomic uint32_t engine_port;
	int64_t		engine_start_us;
	char		engine_local_name[64];

	/*
	 * Written by the engine before engine_pid. At events of the device the engine's main thread
	 * writes device_event, and in `device` gid, gid_index, port_state, partitions and
	 * limited_member. Only views and rdma.check read these later, without a lock: they may see
	 * half of a change, in which each text still ends within its array.
	 */
	RfDeviceCaps device;
	RfError		device_error;	/* why verbs was not chosen, for rdma.check */
	RfDeviceEventNote device_event; /* the last event, for rdma.check */

	/* Why engine_pid is 0 though an engine runs; kind NONE: unknown. Written by the engine. */
	RfError		start_error;
	RfCalibration calibration;
	RfAdmissionStats admission;

	/*
	 * flows that wait for buffers from the engine's main thread; a backend that leaves a LISTENING
	 * flow wakes it then
	 */
	_Atomic uint32_t waiting_for_buffers;
	_Atomic uint32_t main_requests; /* bumped with engine_wake_fd: flows OPENING, peers REQUESTED
									 * or flows to free */

	/*
	 * How long a token is valid, and how long a flow waits for the producer that was told of it:
	 * written by the engine before engine_pid and when the configuration changes, read by
	 * backends.
	 */
	_Atomic uint32_t invited_ms;

	RfMainCounters counters;

	RfFlowCounts flow_counts;
	_Atomic uint64_t buffer_waits;
	_Atomic uint32_t segments_held; /* taken back from peers that may still write into them: see
									 * pool.h */

	RfToken		tokens[RF_MAX_TOKENS];
	RfSegment	segments[RF_MAX_SEGMENTS];
	RfPeer		peers[RF_MAX_PEERS];
	RfReceivePool receive_pools[RF_RECEIVE_POOLS];
	RfLane		lanes[RF_MAX_LANES];
	RfFlow		flows[];		/* max_flows; behind them for each an RfError (rf_flow_error) and
								 * parts (rf_flow_parts) */
} RfShared;

/*
 * Segments come in two sizes: a peer is usually lent small segments, so that there are enough of
 * them for many peers; large segments hold the buffers that do not fit.
 */
#define RF_SMALL_SEGMENT	(2u << 20)	/* a huge page */

static inline uint32_t
rf_large_segments(const RfShared *shared)
{
	return shared->segment_count - shared->small_segments;
}

static inline uint64_t
rf_segment_bytes(const RfShared *shared, uint32_t segment)
{
	return segment < rf_large_segments(shared) ? shared->segment_size : RF_SMALL_SEGMENT;
}

/* From the first one's address on; segment_count: the end of the last one. */
static inline uint64_t
rf_segment_offset(const RfShared *shared, uint32_t segment)
{
	uint32_t	large = rf_large_segments(shared);

	return segment <= large ? segment * shared->segment_size :
		large * shared->segment_size + (uint64_t) (segment - large) * RF_SMALL_SEGMENT;
}

/* The segment with so much before it. */
static inline uint32_t
rf_segment_at(const RfShared *shared, uint64_t offset)
{
	uint64_t	large = rf_large_segments(shared) * shared->segment_size;

	return (uint32_t) (offset < large ? offset / shared->segment_size :
					   rf_large_segments(shared) + (offset - large) / RF_SMALL_SEGMENT);
}

#define RF_FIRST_FLOWS		1024	/* to be claimed before any other */

/*
 * Why a flow is FAILED: written by the engine before the store of that state, read after it. They
 * are apart from the flows because they are large and seldom written: untouched errors take address
 * space, not memory.
 */
static inline RfError *
rf_flow_error(RfShared *shared, const RfFlow *flow)
{
	return (RfError *) (shared->flows + shared->max_flows) + (flow - shared->flows);
}

typedef struct RfFlowParts
{
	RfPart		slots[RF_MAX_SLOTS][RF_SLOT_PARTS];
} RfFlowParts;

/*
 * The parts of its GATHERED slots: written by its backend before that status, read by its lane
 * after it.
 */
static inline RfFlowParts *
rf_flow_parts(RfShared *shared, const RfFlow *flow)
{
	RfError    *end = (RfError *) (shared->flows + shared->max_flows) + shared->max_flows;

	return (RfFlowParts *) end + (flow - shared->flows);
}

_Static_assert(sizeof(RfError) % _Alignof(RfPart) == 0, "parts follow the errors");

/* Bytes of it all, in whole cache lines. */
#define RF_SHARED_SIZE(flow_count)	\
	((sizeof(RfShared) + \
	  (size_t) (flow_count) * (sizeof(RfFlow) + sizeof(RfError) + sizeof(RfFlowParts)) + \
	  RF_CACHE_LINE - 1) & ~(size_t) (RF_CACHE_LINE - 1))

extern RfShared *rf_shared;		/* NULL when not in shared_preload_libraries */

#endif
