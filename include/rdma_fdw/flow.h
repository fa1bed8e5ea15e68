/*
 * flow.h - flows in shared memory: the arena, the flow table, slots and their status words.
 *
 * A flow is one directed stream of batches between one producer backend and one consumer backend on
 * two nodes (DESIGN: gather). Each side has its own entry in its own node's flow table; the
 * engines' lanes connect the two. Backends touch only their entry and their buffers, with loads,
 * stores and atomics; the lane that owns the flow does all the sending.
 *
 * This header is plain C11 (the lanes and the unit tests include it without PostgreSQL), except the
 * backend API at the end, which is declared under RF_FLOW_BACKEND.
 */
#ifndef RF_FLOW_H
#define RF_FLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma_fdw/admission.h"
#include "shmem/peers.h"
#include "rdma_fdw/provider.h"
#include "shmem/receive.h"
#include "rdma_fdw/region.h"
#include "shmem/segment.h"
#include "rdma_fdw/wire.h"

#define RF_CACHE_LINE		64
#define RF_MAX_LANES		16
#define RF_MAX_CHAIN		64			/* work requests in one post, at most */
#define RF_MAX_WEIGHT		100
#define RF_DEFAULT_WEIGHT	10

typedef enum RfFlowRole
{
	RF_FLOW_CONSUMER = 1,
	RF_FLOW_PRODUCER
} RfFlowRole;

/*
 * Life of an entry. Every change is a compare-and-swap by the party named.
 *
 *   FREE -> CLAIMED             backend: takes the entry, fills in identity and geometry
 *   CLAIMED -> LISTENING        consumer backend: a producer with the right key may open it. No buffers yet, no engine involved
 *   CLAIMED -> OPENING          producer backend: asks its engine to open (and rings the engine's main thread)
 *   LISTENING <-> OPENING       consumer's engine (main thread): holds the entry while it looks at it, see life.c
 *   OPENING -> OPEN             engine: buffers and lane are assigned; producer: OPENED came; consumer: OPEN with its key came
 *   OPENING -> FAILED           engine: OPEN_FAILED came, peer lost (one that was stopped or cut off says nothing over libpq either), buffer_wait
 *                               over; rf_flow_error is set before
 *   OPEN -> FAILED              engine: peer lost, protocol error; rf_flow_error is set before
 *   LISTENING -> FREE           consumer backend: nothing ever came
 *   OPENING, OPEN, FAILED -> CLOSING   backend: done with it, for whatever reason; will not touch it or its buffers again
 *   CLOSING -> FREE             engine: END sent and received or the connection is gone; buffers returned
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
 *   send:    FREE -> FILLING -> READY, PLACED or GATHERED (producer backend), these -> IN_FLIGHT -> FREE (lane)
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
	RF_SLOT_PLACED,				/* READY, but of the slot only the header: the payload is sent from value memory */
	RF_SLOT_GATHERED			/* READY, with parts that are sent from pages in shared buffers */
} RfSlotStatus;

/*
 * RfFlow.waiting: what the owner sleeps for. The sleeper stores it, then re-checks; whoever changes
 * a word that a sleeper may look at stores that word, then loads this one; all four are
 * sequentially consistent, so one of the two sees the other. The waker takes it back to NONE by an
 * exchange and wakes only when that returned something else.
 */
typedef enum RfFlowWaiting
{
	RF_WAIT_NONE = 0,
	RF_WAIT_ANY,				/* whatever comes: a buffer, a state */
	RF_WAIT_SLOTS,				/* producer: half of its slots (at least one), so that it runs for a while once woken */
	RF_WAIT_ACK,				/* producer: everything it handed over is released by the reader */
	RF_WAIT_OPEN,				/* producer: the engines have opened it, or have not */
	RF_WAIT_CREDIT,				/* producer: the reader has a free buffer, and a slot is free */
	RF_WAIT_LANDED,				/* producer: everything it handed over has landed in the reader's buffers */
	RF_WAIT_VALUE				/* producer: an answer about value memory, or room in its piece (RfValueCursor.wait) */
} RfFlowWaiting;

/*
 * Value memory: large rows are laid out in it and leave from where they lie, without the copy into
 * the slots (RDMAbox, figure 5: dynamic registration against copying to registered memory). Here is
 * what the two sides of one node share; src/shmem/value.c has the backend's part with the rule that
 * chooses, src/engine/values.c the engine's with the cache of registrations.
 *
 * Several flows of one producer may have the same piece (value_of), for what all of them send: see
 * rf_value_common.
 *
 * A producer's piece of it belongs to its flow's entry like the slots: the engine's main thread
 * takes it from the pool when the backend asks, and takes it back when it frees the entry. Nothing
 * but the entry says where in it a slot's payload is: what lies in the segments a peer on the same
 * host can write, and must not be able to choose what is sent to it.
 *
 * RfFlow.value_state. NONE, GRANTED, REFUSED -> WANTED: backend, with value_wanted stored before
 * and nothing in flight that reads the old piece. WANTED -> GRANTED, REFUSED: engine's main thread,
 * with the piece stored before. So each side writes only what the other is not looking at.
 */
typedef enum RfValueState
{
	RF_VALUE_NONE = 0,
	RF_VALUE_WANTED,
	RF_VALUE_GRANTED,
	RF_VALUE_REFUSED			/* not now: it is used up, or the device registers no more */
} RfValueState;

#define RF_VALUE_UNIT		(1u << 20)	/* value memory is handed out in whole ones */

/* The payload of a PLACED slot, in the flow's piece. */
typedef struct RfPlaced
{
	uint32_t	offset;
	uint32_t	length;
} RfPlaced;

/*
 * Pages in shared buffers: a producer's slot may hold a batch of which the largest parts stay where
 * they are, on pages that its backend has pinned. The engine's work request gathers them. Where
 * they are is said in the main shared memory (rf_flow_parts), not in the slot, which a peer on this
 * host can write; rf_parts_describe (src/shmem/pages.c) checks it against the pool of buffers.
 *
 * A page must stay pinned until no work request reads it any more, or its buffer might hold
 * something else by then that this reader has no right to. Who may decide is told by the status
 * word, which both sides change by compare-and-swap: GATHERED -> IN_FLIGHT is the lane's promise
 * that the slot is sent, and from then on the backend keeps its pins until `completed` is beyond
 * it, or the flow FAILED, which the lane stores after the queue pair is destroyed. GATHERED ->
 * FILLING is the closing backend taking it back; the lane sends nothing from there on. So one of
 * them has it.
 *
 * The producer makes such a slot only when the reader has a free buffer for it
 * (rf_flow_await_credit). Then nothing but the transport stands between it and its completion, and
 * a reader at rest leaves no page pinned. Not with shared receive pools, whose buffers others may
 * hold.
 */
typedef struct RfPart
{
	uint32_t	own;			/* bytes of the slot that come first, */
	uint32_t	buffer;			/* then `length` bytes from this buffer on (0 is the first), which may reach into the next */
	uint16_t	offset;
	uint16_t	length;
	uint16_t	element;		/* with a stride: elements of so many bytes, `length` in all, so far */
	uint16_t	stride;			/* from one to the next; 0: one run */
} RfPart;

#define RF_SLOT_PARTS		RF_MAX_SGE

/* RfFlow.stop */
typedef enum RfStopReason
{
	RF_STOP_NONE = 0,
	RF_STOP_CLEAN,				/* the reader wants no more: a LIMIT, an early end above it */
	RF_STOP_FAILED				/* the reader failed; its own session says why */
} RfStopReason;

typedef struct RfFlowStats		/* written by the party named; read by anybody, relaxed */
{
	_Atomic uint64_t rows;			/* backend */
	_Atomic uint64_t bytes;			/* backend: payload bytes submitted or consumed */
	_Atomic uint64_t slots;			/* backend */
	_Atomic uint64_t waits;			/* backend: times it slept for a slot, an RB or the END ack */
	_Atomic uint64_t wait_us;		/* backend */
	_Atomic uint64_t work_requests; /* lane */
	_Atomic uint64_t merged;		/* lane: slots that left within another slot's work request */
	_Atomic uint64_t chained;		/* lane: work requests that shared a doorbell with an earlier one */
	_Atomic uint64_t credit_stalls; /* lane: visits that found READY slots and no credit */
	_Atomic uint64_t credits_sent;	/* lane */
	_Atomic uint64_t probes;		/* lane */
	_Atomic uint64_t claims;		/* lane: receive buffers that it got from a shared pool */
	_Atomic uint64_t claims_lost;	/* lane: compare-and-swaps that found the buffer taken */
	_Atomic uint64_t region_copies; /* backend: RfRegionCounts, of a producer */
	_Atomic uint64_t region_gathers;
	_Atomic uint64_t region_strided;
	_Atomic uint64_t region_boxes;
	_Atomic uint64_t useful_bytes;
	_Atomic uint64_t gap_bytes;
	_Atomic uint64_t uncopied_bytes;
} RfFlowStats;

typedef struct RfFlow
{
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t state;	/* RfFlowState */

	/* Identity: written by the claiming backend before it leaves CLAIMED, constant until FREE. */
	uint32_t	role;
	uint64_t	key;			/* random; both ends know it */
	int32_t		peer;			/* index into the peer table */
	int32_t		owner_pid;
	_Atomic int32_t owner_proc; /* whom to wake: index into ProcGlobal->allProcs. Constant but for a shared flow (share.h) */
	uint32_t	role_oid;		/* SQL role, for who may see it */
	uint32_t	database_oid;
	uint32_t	remote_flow;	/* producer: the consumer's index, from the stream request; consumer: set by the engine at OPEN */
	uint32_t	slot_count;		/* consumer: wanted by the backend. producer: set by the engine at OPENED */
	uint32_t	slot_size;		/* the same; bytes, header included, multiple of 4096 */
	uint64_t	estimated_rows; /* consumer: the planner's estimate, for progress */
	uint32_t	buffer_wait_ms; /* the claiming session's rdma_fdw.buffer_wait */
	RfReceivePool *pool;		/* consumer: where it takes buffers from; NULL = it has its own. The engine makes it NULL when there is none to be had */
	_Atomic uint32_t claim_after;	/* producer: 1 + the flow that must have got a buffer for a slot first (receive.h); 0 = none */
	_Atomic uint32_t claim_before;	/* and 1 + the flow for which this is that one. Both before the first slot is handed over */
	int64_t		start_us;		/* CLOCK_REALTIME at claim */

	/* Placement: written by the engine before OPEN. */
	uint8_t    *buffers;		/* slot_count * slot_size contiguous bytes in the arena (same address in every process) */
	uint32_t	lkey;
	uint32_t	lane;
	uint64_t	remote_addr;	/* producer: receive buffer 0 */
	uint32_t	remote_rkey;
	uint32_t	pool_buffers;	/* producer: receive buffers in the reader's pool; 0 = slot_count of its own */
	uint32_t	pool_claimable; /* the first so many of them may be claimed by compare-and-swap */
	bool		wants_pages;	/* producer: the backend, before OPENING, would send from shared buffers */
	bool		has_pages;		/* producer: it can, with this key */
	uint32_t	pages_lkey;

	/*
	 * Backend's words. `handed`: producer: slots submitted so far; consumer: receive buffers
	 * released so far.
	 */
	_Alignas(RF_CACHE_LINE) _Atomic uint64_t handed;
	_Atomic uint32_t stop;		/* RfStopReason. consumer backend: wants no more. producer: the lane sets it on STOP */
	_Atomic uint32_t leaving;	/* consumer backend: reads what was sent and wants to be sent an end then. producer: the lane sets it */
	_Atomic uint32_t abandoned; /* producer backend: closing without an acknowledged end: END says FAILED or STOPPED */
	_Atomic uint32_t weight;	/* 1..RF_MAX_WEIGHT, 0 stands for the default. Reader: its setting. Sender: the reader's, or what
								 * rdma.set_flow_weight stored since; the lane reads it each turn */

	/*
	 * Lane's words. `completed`: producer: slots sent and reusable; consumer: slots arrived.
	 * `credit`: producer: buffers the reader released. `claimed`: producer: slots that got a buffer
	 * of the pool. `place`: consumer with a pool: in which buffer each slot lies, by status[].
	 */
	_Alignas(RF_CACHE_LINE) _Atomic uint64_t completed;
	_Atomic uint64_t credit;		/* consumer: releases the producer was told of */
	_Atomic uint64_t claimed;
	_Atomic uint32_t remote_end;	/* 1 + RF_END_* once the peer's END came */
	_Atomic uint8_t place[RF_MAX_SLOTS];

	/*
	 * The owner sleeps (RfFlowWaiting): set by the backend before it re-checks and waits, cleared
	 * by whoever wakes it.
	 */
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t waiting;
	_Atomic uint32_t queued;	/* a bit per lane whose ring it is in: set by whoever rings, cleared by that lane before it looks */

	/*
	 * Value memory, producers only. The lane reads the piece when it finds a PLACED slot, which the
	 * backend made after it had been GRANTED.
	 */
	_Atomic uint32_t value_state;	/* RfValueState */
	uint32_t	value_lkey;		/* engine */
	uint8_t    *value;			/* engine: the piece; NULL = none */
	uint64_t	value_size;		/* engine: bytes */
	uint64_t	value_wanted;	/* backend */
	uint32_t	value_of;		/* backend, with it: 1 + the flow whose piece it shall be, too; 0 = one of its own */
	RfPlaced	placed[RF_MAX_SLOTS];	/* backend, before the slot is PLACED */
	uint8_t		part_count[RF_MAX_SLOTS];	/* backend, before the slot is GATHERED, as its parts */

	_Alignas(RF_CACHE_LINE) _Atomic uint32_t status[RF_MAX_SLOTS];	/* RfSlotStatus, the BI */

	RfFlowStats stats;
} RfFlow;

/* ---------- lanes, as shared memory sees them ---------- */

#define RF_CREDIT_AUTO			(-1)
#define RF_CREDIT_CANDIDATES	6		/* no limit, 4, 6, 8, 10, 12 (src/engine/throttle.c) */

/*
 * What a lane's credit throttle decided. The lane writes, anybody reads; words of one decision may
 * be seen mixed with the next one's.
 */
typedef struct RfLaneThrottle
{
	_Atomic uint32_t c_max;		/* work requests outstanding on a queue pair, at most; 0 = no limit */
	_Atomic uint64_t epoch;		/* decisions so far */
	_Atomic uint64_t waits;		/* times that a flow had to wait for credit */
	_Atomic uint64_t rate[RF_CREDIT_CANDIDATES];	/* of the last decision, bytes per second; 0 = not tried, it could not matter */
} RfLaneThrottle;

/* A queue pair of a lane, by peer. The lane writes, anybody reads. */
typedef struct RfLaneQp
{
	_Atomic uint32_t number;	/* 0 = there is none; stored last when it is made, first when it goes */
	_Atomic uint32_t thread_domain; /* 1: on a thread domain, which is the lane's own */
	_Atomic uint32_t outstanding;
	_Atomic uint32_t outstanding_max;
	_Atomic uint64_t work_requests;
	_Atomic uint64_t bytes;
	_Atomic uint64_t waits;		/* for credit */
} RfLaneQp;

/*
 * Doorbell ring: a multi-producer, single-consumer ring of flow indexes. A flow is in at most one
 * place of each lane's ring (RfFlow.queued), so it never fills; in two rings it is when its entry
 * got a new life on another lane before the old one took it out (ring.c). The lane sets `asleep`,
 * re-checks everything, then blocks; whoever rings and sees it writes `wake_fd`, an eventfd made
 * before fork.
 */
typedef struct RfLane
{
	_Alignas(RF_CACHE_LINE) _Atomic uint64_t head;	/* ringers: next place to fill */
	_Alignas(RF_CACHE_LINE) _Atomic uint64_t tail;	/* lane */
	_Atomic uint32_t asleep;
	uint32_t	number;			/* its place in RfShared.lanes */
	int			wake_fd;		/* same number in every process of the cluster */
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t ring[RF_MAX_FLOWS];	/* flow index + 1; 0 = not filled yet */

	/* Counters: the lane writes, anybody reads. */
	_Atomic uint64_t doorbells;
	_Atomic uint64_t requests;	/* slots and messages that were to be sent */
	_Atomic uint64_t work_requests; /* that carried them: requests - merged */
	_Atomic uint64_t merged;	/* requests that left within another's work request */
	_Atomic uint64_t merged_while_throttled;	/* those of them that had to wait for the window or for room in the send queue */
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
	_Atomic uint64_t claims;	/* shared receive pools: buffers won by compare-and-swap */
	_Atomic uint64_t claims_lost;	/* attempts that found the buffer taken */
	_Atomic uint64_t claims_held_up;	/* times that a claim could not begin because enough were under way */
	_Atomic uint64_t claims_asked;	/* buffers asked for instead */
	_Atomic uint64_t grants;	/* buffers granted to those that asked */
	_Atomic uint64_t backoff_us;	/* waited between attempts, in all */
	_Atomic uint32_t backoff_limit_us;	/* t_max of the flow that claimed last */
	_Atomic uint32_t claims_at_once;	/* and how many claims of it may be under way */
} RfLane;

/*
 * A backend or the engine's main thread claims an entry: it makes the state CLAIMED by a
 * compare-and-swap from FREE or FAILED, and has the entry alone until it stores the next state.
 * Only in between does it write node, accepted and attempt. There is no lock, so no stopped process
 * can hold one: it keeps one entry, and nobody waits for that.
 *
 * A backend that is to wait for a node's entry counts itself in `waiters` first and looks at state
 * and node then. A claimer looks at `waiters` after its compare-and-swap, and puts the entry back
 * if there are any. All of these are sequentially consistent, so one of the two sees the other. Two
 * backends may claim an entry each for the same node; the engine connects for the first and frees
 * the second.
 */
typedef enum RfPeerState
{
	RF_PEER_FREE = 0,
	RF_PEER_CLAIMED,			/* a backend fills in address and token */
	RF_PEER_REQUESTED,			/* the engine shall connect */
	RF_PEER_CONNECTING,
	RF_PEER_CONNECTED,
	RF_PEER_FAILED,				/* `error` says why; the entry may be claimed again */
	RF_PEER_CLOSING				/* lanes are letting go */
} RfPeerState;

/* Can shared buffers be sent to a peer from where they are? */
typedef enum RfPeerPages
{
	RF_PAGES_NOT_ASKED = 0,
	RF_PAGES_REGISTERED,
	RF_PAGES_REFUSED
} RfPeerPages;

typedef struct RfPeer
{
	_Alignas(RF_CACHE_LINE) _Atomic uint32_t state;	/* RfPeerState */
	RfNodeId	node;
	uint32_t	accepted;		/* 1: the other side connected to us. A node connected to itself has two entries, one of each */
	char		host[128];		/* as the user names it; of an accepted one, its address */
	char		addresses[128]; /* numeric, with commas between: where the engine connects to */
	uint32_t	port;
	uint8_t		token_id[16];
	uint8_t		token[RF_TOKEN_SIZE];	/* wiped when used */
	RfError		error;			/* FAILED, CLOSING: why. CONNECTED: why it does without the RDMA device, else empty */
	char		transport[16];	/* "shm", "tcp", "verbs" */
	_Atomic uint32_t fell_back; /* 1: nobody was warned yet that it does without. The engine sets it, one backend clears it */
	uint32_t	attempt;		/* counts claims of this entry: a waiter knows by it whether the failure is its own */
	uint32_t	connections;	/* connection sets made so far: reconnects + 1 */
	int64_t		since_us;
	uint32_t	handshake_us;
	uint32_t	round_trip_us;	/* last PING */
	_Atomic uint32_t usual_round_trip_us;	/* smoothed, see smooth_round_trip(); 0 = not known. The engine writes */
	_Atomic uint64_t bandwidth; /* bytes per second, smoothed, of pulls that waited for the network; 0 = none did. Backends
								 * write (src/remote/link.c); of two at the same time one is lost */
	_Atomic uint64_t bytes_sent;
	_Atomic uint64_t bytes_received;
	_Atomic uint64_t flows_opened;
	_Atomic uint32_t segments;	/* lent to it */
	_Atomic uint64_t value_registered;	/* bytes: most value memory that is registered for it and free. Engine's main thread writes */
	_Atomic uint32_t pages;		/* RfPeerPages. Engine's main thread writes */
	char		pages_error[192];	/* REFUSED: why */
	_Atomic uint32_t waiters;	/* backends that wait for its state */
} RfPeer;

/*
 * A process takes a token by a compare-and-swap of expires_us from the value that it saw to
 * RF_TOKEN_BUSY, and has it until it stores another value; nobody waits for that. A backend that
 * loses the oldest one takes the next; the engine passes over a busy one, which is being replaced.
 * So a process that is stopped meanwhile keeps one place, and holds up nobody.
 */
typedef struct RfToken
{
	_Atomic int64_t expires_us; /* 0 = free */
	uint8_t		id[16];
	uint8_t		secret[RF_TOKEN_SIZE];
	RfNodeId	client;
} RfToken;

#define RF_TOKEN_BUSY		INT64_C(-1)
#define RF_MAX_TOKENS		256

/* Kinds of transport that a region's bytes cost differently over: RfPeer.transport. */
typedef enum RfRegionTransport
{
	RF_OVER_SHM = 0,
	RF_OVER_TCP,
	RF_OVER_VERBS,
	RF_OVER_KINDS
} RfRegionTransport;

/*
 * What sleeping, polling (rf_polling_calibrate), copying and registering (rf_values_calibrate), and
 * moving regions (rf_regions_calibrate) cost on this machine. Written by the engine before
 * engine_pid.
 */
typedef struct RfCalibration
{
	uint32_t	sleep_ns;		/* arm, block and be woken; 0 = not measured */
	uint32_t	empty_poll_ns;
	uint32_t	poll_us;		/* how long to poll before sleeping is cheaper */
	uint32_t	copy_ns;		/* a MB from memory into slots; 0 = not measured */
	uint32_t	register_ns;	/* registering and deregistering, whatever the size */
	uint32_t	register_mb_ns; /* and for each MB */
	RfRegionCosts regions[RF_OVER_KINDS];	/* request 0 = not measured */
} RfCalibration;

/* Of value memory. The engine's main thread writes, anybody reads. */
typedef struct RfValueStats
{
	_Atomic uint64_t used;		/* bytes that flows have */
	_Atomic uint64_t registered;	/* bytes that are registered; what is registered for two peers counts twice */
	_Atomic uint64_t registrations;
	_Atomic uint64_t hits;		/* pieces that were registered already */
	_Atomic uint64_t evictions; /* registrations given up for the limit of those not in use */
	_Atomic uint64_t refused;
} RfValueStats;

/*
 * The extension's main shared memory, laid out by the engine's shmem start-up hook; flows[] follows
 * it.
 */
typedef struct RfShared
{
	RfNodeId	node;			/* ours; generation is new with every arena */
	uint32_t	max_flows;
	uint32_t	segment_count;
	uint64_t	segment_size;
	RfHugePages huge_pages;		/* for segments */
	uint32_t	lane_count;
	uint8_t    *value_memory;	/* the same address in every process; NULL = there is none */
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
	RfDeviceCaps device;		/* written by the engine before engine_pid */
	RfError		device_error;	/* why verbs was not taken, for rdma.check */
	RfError		start_error;	/* why engine_pid is 0 though an engine runs; kind NONE: unknown. The engine writes */
	RfCalibration calibration;
	RfAdmissionStats admission;
	_Atomic uint32_t waiting_for_buffers;	/* flows for which the engine's main thread wants buffers: who lets go of a LISTENING one tells it */
	_Atomic uint32_t main_requests; /* bumped with engine_wake_fd: flows OPENING, peers REQUESTED or flows to free */

	/* Counters of the main thread. */
	_Atomic uint64_t handshakes;
	_Atomic uint64_t handshakes_refused;
	_Atomic uint64_t garbage_connections;
	_Atomic uint64_t connections_lost;
	_Atomic uint64_t flows_refused;
	_Atomic uint64_t buffer_waits;
	_Atomic uint32_t segments_held; /* taken back from peers that may still write into them: see pool.h */

	RfToken		tokens[RF_MAX_TOKENS];
	RfSegment	segments[RF_MAX_SEGMENTS];
	RfPeer		peers[RF_MAX_PEERS];
	RfReceivePool receive_pools[RF_RECEIVE_POOLS];
	RfLane		lanes[RF_MAX_LANES];
	RfFlow		flows[];		/* max_flows; behind them for each an RfError (rf_flow_error) and parts (rf_flow_parts) */
} RfShared;

/*
 * Why a flow is FAILED: written by the engine before the store of that state, read after it. They
 * are apart from the flows because they are large and seldom written: what was never touched is
 * address space, not memory.
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
	((sizeof(RfShared) + (size_t) (flow_count) * (sizeof(RfFlow) + sizeof(RfError) + sizeof(RfFlowParts)) + \
	  RF_CACHE_LINE - 1) & ~(size_t) (RF_CACHE_LINE - 1))

extern RfShared *rf_shared;		/* NULL when not in shared_preload_libraries */

/*
 * What moving regions to a peer costs; false: not measured over its transport. `bandwidth`: bytes
 * per second that it was seen to get, which is less than what this machine can when it is far away;
 * 0 = not known. (src/shmem/region_costs.c, plain C)
 */
extern bool rf_region_costs(const RfShared *shared, int peer, uint64_t bandwidth, RfRegionCosts *costs);

/*
 * Put a flow into its lane's ring and wake the lane if it sleeps. Any thread or process.
 * (src/shmem/ring.c, plain C)
 */
extern void rf_lane_ring(RfLane *lane, RfFlow *flows, uint32_t flow_index);

/* The first half of it, for several flows at once: rf_lane_wake each lane after the last. */
extern void rf_lane_queue(RfLane *lane, RfFlow *flows, uint32_t flow_index);

/* Wake a lane that sleeps. What it shall see was stored before. */
extern void rf_lane_wake(RfLane *lane);

/*
 * A buffer of the pool was given back, or `turn` was stored: wake the lanes that have flows in
 * line. (src/shmem/receive.c)
 */
extern void rf_receive_wake(RfLane *lanes, RfReceivePool *pool);

/*
 * Lane: take the next rung flow, clearing its bit of the `queued` word first; false when there is
 * none.
 */
extern bool rf_lane_take(RfLane *lane, RfFlow *flows, uint32_t *flow_index);

/* ---------- states that both sides change (src/shmem/life.c, plain C) ---------- */

/*
 * Engine's main thread: LISTENING -> OPENING. True: the entry keeps its owner until it is OPEN,
 * FAILED or let go.
 */
extern bool rf_flow_hold(RfFlow *flow);

/* Back to LISTENING; FREE when its backend has left meanwhile. Only before it got buffers. */
extern void rf_flow_let_go(RfFlow *flow);

/*
 * Backend: done with the entry, which is not its own any more. Returns the state it had, and the
 * lane to ring when that was OPEN or FAILED. After OPENING and FAILED the engine's main thread has
 * to be woken.
 */
extern RfFlowState rf_flow_leave(RfFlow *flow, uint32_t *lane);

/* ---------- slots, as one backend sees them (src/shmem/slots.c, plain C) ---------- */

/*
 * A producer's place in its piece of value memory: two halves, of which one is filled while the
 * other leaves.
 */
typedef struct RfValueCursor
{
	uint64_t	copied;			/* bytes of large rows that went through the slots since it last asked for a piece */
	uint64_t	wait;			/* RF_WAIT_VALUE: until so many slots are sent */
	uint64_t	used;			/* bytes of the half that is being filled */
	uint64_t	until[2];		/* of each half: slots handed over when its last row was */
	uint32_t	half;
} RfValueCursor;

/* A backend's place in its flow; nobody else sees it. */
typedef struct RfSlotCursor
{
	RfValueCursor value;
	uint64_t	next;			/* producer: slot to fill next. consumer: slot to read next */
	uint64_t	released;		/* consumer: slots given back */
	uint64_t	rung;			/* consumer: releases the lane was rung for */
	uint64_t	rows;			/* of the data slots so far */
	uint64_t	bytes;
	uint64_t	offset;			/* bytes of the batch whose LAST is not handed over, or read, yet */
	uint32_t	checksum;		/* producer: of the same, see rf_flow_submit; 0 = none */
	bool		in_batch;		/* between FIRST and LAST */
	bool		remote_end_noticed; /* consumer: its owner knows that remote_end is set */
	bool		ended;			/* the END slot was submitted (producer) or seen (consumer) */
} RfSlotCursor;

typedef enum RfSlotRead
{
	RF_READ_NOTHING,
	RF_READ_DATA,
	RF_READ_END,				/* the END slot, counts checked; it is released already: ring the lane */
	RF_READ_BAD					/* *error says what is wrong with the slot */
} RfSlotRead;

/*
 * Empty every word but the identity for a new life of the entry. Claiming backend, state CLAIMED.
 */
extern void rf_slots_reset(RfFlow *flow);

/*
 * Producer. Take the next slot (FREE -> FILLING; taking it twice is the same slot); its address or
 * NULL when it is not free.
 */
extern uint8_t *rf_slot_fill(RfFlow *flow, RfSlotCursor *cursor);

/*
 * Write the slot's header and hand it over (FILLING -> READY). True: ring the lane, which has
 * credit to send it.
 */
extern bool rf_slot_submit(RfFlow *flow, RfSlotCursor *cursor, uint32_t length, uint32_t flags, uint64_t rows);

/*
 * The same for a payload that lies in the flow's piece of value memory and stays there until the
 * slot is sent.
 */
extern bool rf_slot_place(RfFlow *flow, RfSlotCursor *cursor, const uint8_t *payload, uint32_t length,
						  uint32_t flags, uint64_t rows);

/*
 * The same for a payload of `length` bytes of which parts lie in shared buffers: count <=
 * RF_SLOT_PARTS, at `to`.
 */
extern bool rf_slot_gather(RfFlow *flow, RfFlowParts *to, RfSlotCursor *cursor, const RfPart *parts, int count,
						   uint32_t length, uint32_t flags, uint64_t rows);

/*
 * Producer that closes: take back what it has handed over of GATHERED slots from `first` on, as far
 * as no work request reads them. Returns the number of the first slot that none reads and none
 * will.
 */
extern uint64_t rf_slots_withdraw(RfFlow *flow, const RfSlotCursor *cursor, uint64_t first);

/* The reader has released everything that was handed over. */
extern bool rf_slot_acked(RfFlow *flow);

/* Consumer. Look at the next slot: FULL -> READING, header copied to *header and checked. */
extern RfSlotRead rf_slot_read(RfFlow *flow, RfSlotCursor *cursor, RfSlotHeader *header, uint8_t **payload,
							   RfError *error);

/*
 * READING -> FREE for the oldest slot not released yet. True: ring the lane, for it is time to tell
 * the producer (half of the buffers, a quarter of many, or the end of the stream).
 */
extern bool rf_slot_release(RfFlow *flow, RfSlotCursor *cursor);

/*
 * True when the owner of a flow beyond OPENING has something to look at, for the check between
 * storing `waiting` and sleeping.
 */
extern bool rf_slots_ready(RfFlow *flow, const RfSlotCursor *cursor, RfFlowWaiting waiting);

/* ---------- parts of a slot that lie on pages (src/shmem/pages.c, plain C) ---------- */

/* Where the two kinds of parts lie, and what one work request and the reader's buffer hold. */
typedef struct RfPartsPlace
{
	const uint8_t *slot;		/* its payload */
	uint32_t	slot_lkey;
	uint32_t	room;			/* bytes of payload, its own and all together */
	const uint8_t *pages;
	uint64_t	pages_size;
	uint32_t	page_size;
	uint32_t	pages_lkey;
	int			max_entries;
	int			max_strided;	/* of these entries, RfDeviceCaps */
} RfPartsPlace;

/*
 * The entries of a work request for a slot's payload; returns how many, *bytes in all and
 * *page_bytes of them from pages. *strided_count of them are strided, as `strided` says, which has
 * room for max_entries. 0: a part is not within the slot or the pool, or they are too many. Each
 * part is read once.
 */
extern int	rf_parts_describe(const RfPart *parts, int count, const RfPartsPlace *place, RfSge *sge,
							  RfStrided *strided, int *strided_count, uint32_t *bytes, uint32_t *page_bytes);

/* ---------- where a large row is laid out (src/shmem/value.c, plain C) ---------- */

/* The values of rdma_fdw.dynamic_registration. */
typedef enum RfValueMode
{
	RF_VALUES_OFF = 0,			/* never in value memory */
	RF_VALUES_AUTO,				/* when that is cheaper than to copy */
	RF_VALUES_ON				/* whenever there is room */
} RfValueMode;

typedef enum RfValueStep
{
	RF_VALUE_COPY,				/* in private memory; it goes through the slots */
	RF_VALUE_IN_PLACE,			/* at *place */
	RF_VALUE_ASKED,				/* wake the engine's main thread; then as RF_VALUE_WAIT */
	RF_VALUE_WAIT				/* sleep for RF_WAIT_VALUE, and ask here again */
} RfValueStep;

/*
 * Where to lay out a row of `bytes` bytes that does not fit a slot: 64-aligned. The row must be
 * handed over by rf_slot_place before this is called for another one. `threshold`: automatic choice
 * takes rows from so many bytes on; -1 = as the costs measured at start have it.
 */
extern RfValueStep rf_value_place(const RfShared *shared, RfFlow *flow, RfSlotCursor *cursor,
								  RfValueMode mode, int64_t threshold, uint64_t bytes, uint8_t **place);

/* ---------- backend API (src/flow/flow.c; needs PostgreSQL) ---------- */
/*
 * What is the same for all of a producer's flows lies once in a piece that all of them have, and
 * each flow's slot carries only its own header (RF_SLOT_PLACED).
 *
 * The piece has as many parts as a flow has slots; message number m of those that all flows send
 * lies in part m modulo that, in one slot of each flow. There is no count of those who still send
 * from a part: the flows' slots say it. The producer lays out message m only when every flow's next
 * slot is FREE (or its own to fill). A lane frees a flow's slots in order, and each of the messages
 * m - slots .. m - 1 took one of the flow's; so the slot of m - slots, the last one to use this
 * part, is FREE in every flow. A flow that takes no more messages, because its reader has stopped,
 * must have sent all it was handed over.
 *
 * Ordering. A lane, or the adapter for it, reads the part before the completion of its work
 * request; the lane sees that before it stores FREE; the producer loads FREE in rf_slot_fill, then
 * writes the part: both sequentially consistent, for each flow and lane by itself. In the other
 * direction the producer's stores into the part precede its release of each PLACED, which each lane
 * acquires.
 *
 * Who gives it back. Each flow's entry holds the piece until the engine's main thread frees the
 * entry: when its lane has detached it, or its queue pairs are gone. That is so after an end, a
 * cancel, an error and a lost peer alike. The last one that is freed frees the memory.
 *
 * The first call asks for it, for the first flow and then for the others; they may be refused, and
 * NULL stands for that: copy to each flow's slot. `copied`: bytes that were, to each. *ask: wake
 * the engine's main thread. Never waits.
 */
extern uint8_t *rf_value_common(const RfShared *shared, RfFlow *const *flows, uint32_t count,
								RfValueMode mode, uint64_t copied, bool *ask);

#ifdef RF_FLOW_BACKEND

#include "postgres.h"

/* May an engine connect to this address? */
struct sockaddr;
typedef bool (*RfAddressFilter) (const struct sockaddr *address, size_t length);

typedef struct RfFlowHandle RfFlowHandle;	/* backend-local; closed by its resource owner on error */

typedef struct RfBuffer
{
	uint8_t    *data;			/* payload, behind the slot header; 64-aligned */
	uint32_t	length;			/* consumer: payload bytes; producer: capacity */
	uint32_t	flags;			/* RF_SLOT_FIRST, RF_SLOT_LAST */
	uint64_t	sequence;
	uint32_t	offset;			/* consumer: bytes of the batch that came before these */
	uint32_t	checksum;		/* consumer, LAST: of the whole batch; 0 = none */
} RfBuffer;

typedef enum RfFlowPoll
{
	RF_POLL_BUFFER,				/* *buffer is filled in */
	RF_POLL_EMPTY,				/* nothing there now */
	RF_POLL_END					/* end-of-stream: counts were checked, rf_flow_totals() */
} RfFlowPoll;

/*
 * Consumer: claim an entry that a producer on `peer` may open. No round trip, no buffers until
 * then. ERROR when the table is full.
 */
extern RfFlowHandle *rf_flow_listen(int peer, uint32_t slot_count, uint32_t slot_size, uint64_t estimated_rows);
extern void rf_flow_address(RfFlowHandle *flow, uint32_t *index, uint64_t *key);

/*
 * A shared receive pool for the flows that are made to listen with it (receive.h), for producers on
 * `peers`. It belongs to the current resource owner, as its flows must, and is closed
 * after them. NULL: all pools are in use.
 */
extern RfReceivePool *rf_receive_open(uint32_t count, uint32_t size, const RfPeerSet *peers, bool claim);
extern void rf_receive_close(RfReceivePool *pool);
extern RfFlowHandle *rf_flow_listen_pooled(int peer, RfReceivePool *pool, uint32_t slot_count);

/* The next slot of this flow is what its consumer waits for, and it reads nothing else before. */
extern void rf_flow_await_next(RfFlowHandle *flow);

/* Never blocks. Checks every word of the slot header; ERROR for a failed flow or a bad header. */
extern RfFlowPoll rf_flow_poll(RfFlowHandle *flow, RfBuffer *buffer);
extern void rf_flow_release(RfFlowHandle *flow, const RfBuffer *buffer);	/* in order of arrival */

/*
 * Ask the producer to end its stream after the batch it sends now; nothing is discarded. It hears
 * of it once it has sent something.
 */
extern void rf_flow_withdraw(RfFlowHandle *flow);
extern void rf_flow_totals(RfFlowHandle *flow, uint64_t *rows, uint64_t *bytes);
extern bool rf_flow_is_open(RfFlowHandle *flow);	/* a producer has opened it */

/*
 * For who sleeps elsewhere: from now on the process latch is set when the flow may have something
 * new. True: it has already; poll instead of sleeping.
 */
extern bool rf_flow_prepare_wait(RfFlowHandle *flow);

/*
 * Sleep until the flow may have something new, `socket` (PGINVALID_SOCKET: none) is readable, or
 * timeout_ms passed (-1: none). Returns the WL_* events. Services interrupts.
 */
extern int	rf_flow_wait(RfFlowHandle *flow, int socket, long timeout_ms);

/*
 * Producer: open towards the consumer's entry; waits for the engines. NULL: the consumer has gone.
 * ERROR when it fails otherwise.
 */
extern RfFlowHandle *rf_flow_open(int peer, uint32_t consumer_flow, uint64_t key);

/* Wait for a free slot; false: the reader sent STOP. */
extern bool rf_flow_acquire(RfFlowHandle *flow, RfBuffer *buffer);
extern void rf_flow_submit(RfFlowHandle *flow, const RfBuffer *buffer, uint32_t length, uint32_t flags, uint64_t rows);

/* The same for several flows: each lane is woken once, when all it shall see is there. */
typedef struct RfFlowSubmit
{
	RfFlowHandle *flow;
	const RfBuffer *buffer;
	const uint8_t *placed;		/* the payload in the flow's value memory; NULL: it is in the buffer */
	uint32_t	length;
	uint32_t	flags;
	uint64_t	rows;
} RfFlowSubmit;

extern void rf_flow_submit_all(const RfFlowSubmit *submits, int count);

/*
 * Where to lay out a row that does not fit a buffer, so that it is sent from there, by
 * rdma_fdw.dynamic_registration; NULL: anywhere. May wait for earlier rows to leave.
 * rf_flow_submit_from hands over a part of the row: it leaves from there if it was placed, else by
 * way of the buffer.
 */
extern uint8_t *rf_flow_place(RfFlowHandle *flow, uint64_t bytes);
extern void rf_flow_submit_from(RfFlowHandle *flow, const RfBuffer *buffer, const uint8_t *part, bool placed,
								uint32_t length, uint32_t flags, uint64_t rows);

/*
 * Pages in shared buffers, from which parts of a payload are sent without a copy. Ask for it before
 * opening (rf_flow_open_pages); rf_flow_takes_pages: it can be, with so many entries per work
 * request, else 0, and no more than pin_limit pages pinned, as the first call has it. Wait for the
 * reader to have a buffer before a slot gets such parts; false: it sent STOP. A page needs a pin of
 * the flow's own for the slot that is being filled: false: there are enough. They are released when
 * the slot was sent, or by closing the flow, which waits for what is being sent.
 */
extern RfFlowHandle *rf_flow_open_pages(int peer, uint32_t consumer_flow, uint64_t key);
extern int	rf_flow_takes_pages(RfFlowHandle *flow, int pin_limit);
extern bool rf_flow_await_credit(RfFlowHandle *flow);
extern bool rf_flow_pin(RfFlowHandle *flow, int buffer);
extern bool rf_flow_is_pinning(RfFlowHandle *flow); /* the slot that is being filled has half of the pins */
extern void rf_flow_submit_parts(RfFlowHandle *flow, const RfBuffer *buffer, const RfPart *parts, int count,
								 uint32_t length, uint32_t flags, uint64_t rows);

/*
 * End of stream: send the counts and wait until the reader acknowledged them; false: STOP came
 * instead.
 */
extern bool rf_flow_finish(RfFlowHandle *flow);

/*
 * The same in steps that never wait, for a producer of several flows (group.h). rf_flow_open_begin
 * is followed by rf_flow_opened until that is true; rf_flow_finish_begin needs what
 * rf_flow_try_acquire gives, and is followed by rf_flow_finished until that is not RF_ACQUIRE_FULL.
 * All but the first raise what made the flow fail.
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
extern bool rf_flow_landed(RfFlowHandle *flow); /* all that was submitted lies in the reader's buffers */
extern uint32_t rf_flow_credit(RfFlowHandle *flow); /* receive buffers that nothing was submitted for yet */
extern RfStopReason rf_flow_stop_reason(RfFlowHandle *flow);

/*
 * Of two producer's flows, both open: each slot gets a pool's buffer at the first one first
 * (receive.h).
 */
extern void rf_flow_claim_in_order(RfFlowHandle *first, RfFlowHandle *then);
extern bool rf_flow_is_pooled(RfFlowHandle *flow);

/*
 * Sleep until one of several flows has what its entry waits for, `socket` is readable, or
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
 * Map the memory that the flow's buffers lie in (segment.h). False: it has none, or not any more.
 * ERROR when their engine has ended.
 */
extern bool rf_flow_attach_memory(const RfFlow *flow);

/* ERROR when the engine of that epoch does not run any more: nobody would wake a sleeper. */
extern void rf_flow_require_engine(uint32_t epoch);
extern const RfFlow *rf_flow_entry(RfFlowHandle *flow);	/* for counters */

/*
 * Producer: show in rdma.stat_flows how regions were moved; the counts so far, not what came since.
 */
extern void rf_flow_show_regions(RfFlowHandle *flow, const RfRegionCounts *counts);

#endif							/* RF_FLOW_BACKEND */
#endif
