/*
 * lane.h - shared by the files of a lane. No other file includes it.
 *
 * From the bottom to the top, each calls those before it only:
 *
 * lane_notice.c  notices to the main thread and to other lanes
 * lane_chain.c   work requests, and the chains in which they are posted
 * lane_mail.c    immediates of several flows in one work request
 * lane_path.c    proves connections, and gives up those without progress
 * queue.c        when a flow may send: turns, and waiting for room
 * lane_claim.c   the receive buffers of shared pools: claiming and granting
 * lane_flow.c    the flows: work requests for them, and their arrivals
 * lane.c         the thread: its loop, sleeping, commands, connections, completions
 *
 * Plain C.
 *
 * Everything here belongs to the lane's thread, except the fields marked as guarded by `lock`.
 */
#ifndef RF_LANE_H
#define RF_LANE_H

#include <pthread.h>

#include "admit.h"
#include "backoff.h"

#include "lane_thread.h"
#include "polling.h"
#include "queue.h"
#include "throttle.h"

#define LANE_MAX_POLL		256 /* completions in one poll */
#define LANE_SIGNAL_BYTES	(512u << 10)	/* within a long chain, ask for a completion after this
											 * much */
#define LANE_SGES			(RF_MAX_CHAIN + RF_MAX_SGE) /* a chain's last request may use all */
#define LANE_MERGE_GAP		4096	/* unused bytes that cost less than a work request */

#define LANE_POST_CLAIM		8	/* LanePost.kind: a compare-and-swap; the other kinds are
								 * immediates */
#define LANE_NO_FLOW		(-1)	/* LanePost.flow: a mail, or what it needs */

/* A posted work request, in order of posting. */
typedef struct LanePost
{
	int32_t		flow;
	uint16_t	slots;			/* data slots it carries; 0 = an immediate alone. LANE_POST_CLAIM:
								 * which claim; a mail: immediates */
	uint16_t	kind;			/* RfImmKind, LANE_POST_CLAIM */
	uint32_t	admitted;		/* bytes in flight under the admission window */
	uint32_t	bytes;
	uint32_t	strided;		/* entries that are */
} LanePost;

/* The mails of a connection; see lane_mail.c. */
typedef struct LaneMail
{
	RfMail	   *source;			/* [RF_MAILS] in registered memory; NULL: there are no mails */
	const RfMail *landing;		/* [RF_MAILS], the peer's; read once, since the peer can write it */
	uint64_t	remote_addr;
	uint32_t	lkey;
	uint32_t	rkey;
	uint32_t	sent;			/* numbers of mails: posted, */
	uint32_t	done;			/* completed, */
	uint32_t	read_there;		/* read by the peer; */
	uint32_t	read;			/* of the peer, read here, */
	uint32_t	told;			/* and the peer knows it */
	uint32_t	count;			/* words that wait for the end of the round */
	uint32_t	words[RF_MAIL_WORDS];
	int32_t		flows[RF_MAILS][RF_MAIL_WORDS]; /* of this side, of the words in each place; those
												 * that wait: in the place of the next mail */
} LaneMail;

/* One queue pair: this lane's connection to a peer. */
typedef struct LaneConnection
{
	RfQp	   *qp;				/* NULL if not connected */
	bool		failed;			/* reported; nothing is posted or accepted any more */
	bool		failed_early;	/* it failed before it was added */
	uint64_t	dropped_round;	/* this round's completions are the destroyed queue pair's */
	uint64_t	posted;			/* work requests so far, those in the chain included */
	uint64_t	completed;
	LanePost   *posts;			/* ring of max_wr */
	RfWr	   *wrs;			/* the chain being built: RF_MAX_CHAIN */
	RfSge	   *sges;			/* and its entries: LANE_SGES */
	RfStrided  *strided;		/* the strided ones of these: max_strided of the device */
	uint32_t	chain;
	uint32_t	chain_strided;	/* in the chain */
	uint32_t	strided_out;	/* outstanding, including the chain: at most max_strided */
	uint32_t	unsignaled;		/* bytes since the last signaled one */
	bool		touched;		/* in lane->touched */
	const RfLaneProof *proof;	/* the main thread's; NULL = nothing to prove */
	bool		proof_sent;		/* and acknowledged */
	bool		proof_seen;
	bool		overdue;		/* was found without progress once */
	int64_t		progress_at;	/* us: of the last completion, or of the first post after that */
	LaneList	parked;			/* flows that wait for room in the send queue */
	LaneMail	mail;
} LaneConnection;

/* A buffer that a producer tries to claim, until it has one, or asks instead. */
typedef enum LaneClaimState
{
	CLAIM_NONE = 0,
	CLAIM_DUE,					/* to be posted at `at` */
	CLAIM_OUT
} LaneClaimState;

typedef struct LaneClaim
{
	uint8_t		state;			/* LaneClaimState */
	uint8_t		buffer;
	uint16_t	lost;			/* attempts in a row */
	int64_t		at;				/* us; CLAIM_OUT: when it was posted */
} LaneClaim;

/* Further state of a flow with a shared receive pool; receive.h has the protocol. */
typedef struct LaneClaims
{
	bool		listed;			/* in lane->claiming (producer) or lane->asking (consumer) */
	uint32_t	asked;			/* number of buffers asked for; 16 bits are sent */
	uint32_t	granted;

	/* Consumer. */
	RfReceivePool *pool;
	uint64_t	granted_unused; /* a bit each: granted, and no slot has arrived in it yet */

	/* Producer. */
	uint32_t	buffers;
	uint32_t	claimable;
	uint64_t   *results;		/* [RF_MAX_SLOTS] of compare-and-swaps, in the flow's registered
								 * memory */
	uint64_t	busy;			/* a bit each: tried, held, or written and not released */
	uint64_t	holding;		/* of these, the claims in held[] */
	uint64_t	back;			/* recently ours, and released: likely to be free */
	uint32_t	cursor;			/* else the next one to try */
	uint32_t	patience;		/* attempts lost in a row after which we ask */
	bool		impatient;
	uint32_t	out;
	uint32_t	under_way;		/* claims that are not CLAIM_NONE */
	RfBackoff	backoff;
	int64_t		due;			/* us: the next attempt */
	uint32_t	held_first;		/* buffers to fill, in order */
	uint32_t	held_count;
	uint8_t		held[RF_MAX_SLOTS];
	uint8_t		place[RF_MAX_SLOTS];	/* the buffers of slots whose credit is not back */
	LaneClaim	claim[RF_MAX_SLOTS];
} LaneClaims;

/*
 * A lane's state of a flow; identity and placement are copied at attach. Allocated then, freed at
 * detach: most entries of the table are idle.
 */
typedef struct LaneFlow
{
	bool		attached;
	uint32_t	index;
	bool		producer;
	bool		starving;		/* in lane->starving */
	bool		stop_sent;
	bool		leave_sent;
	bool		end_sent;
	bool		end_done;		/* our END has completed */
	bool		end_received;
	int32_t		peer;
	uint32_t	remote_flow;
	uint32_t	slot_count;
	uint32_t	window;			/* slots that may be sent beyond credit */
	uint32_t	slot_size;
	uint8_t    *buffers;
	uint32_t	lkey;
	uint32_t	rkey;
	uint64_t	remote_addr;
	uint64_t	moved;			/* producer: slots posted. consumer: slots arrived */
	uint64_t	credit;			/* producer: known releases. consumer: reported releases */
	uint64_t	done;			/* producer: slots whose work request completed */
	int64_t		probe_at;		/* us */
	uint32_t	probe_wait_ms;
	QueueEntry	waiting;
	LaneLink	links[LANE_LINKS];
	LaneClaims *claims;			/* NULL: it has receive buffers of its own */
} LaneFlow;

typedef enum LaneCommandKind
{
	LANE_ADD = 1,
	LANE_PROVE,
	LANE_DROP,
	LANE_ATTACH
} LaneCommandKind;

typedef struct LaneCommand
{
	LaneCommandKind kind;
	int32_t		peer;
	uint32_t	flow;
	RfQp	   *qp;
	const RfLaneProof *proof;
} LaneCommand;

typedef struct LaneNotice
{
	RfLaneEventKind kind;
	int32_t		peer;
	uint32_t	flow;
} LaneNotice;

/* Between the main thread and the lane; `lock` guards all but `pending`. */
typedef struct LaneTalk
{
	_Atomic uint32_t pending;	/* commands or tuned settings wait; raised under `lock` */
	pthread_mutex_t lock;
	LaneCommand *commands;		/* ring */
	uint32_t	command_size;
	uint64_t	command_head;
	uint64_t	command_tail;
	LaneNotice *notices;		/* ring */
	uint32_t	notice_size;
	uint64_t	notice_head;
	uint64_t	notice_tail;
	RfError		lost_errors[RF_MAX_PEERS];	/* of RF_LANE_CONNECTION_LOST */
	RfError		drop_errors[RF_MAX_PEERS];	/* of LANE_DROP */
	bool		tuned;
	RfLaneConfig tune;
} LaneTalk;

struct RfLaneThread
{
	RfLaneConfig config;
	RfLane	   *lane;
	RfFlow	   *flows;
	RfCq	   *cq;
	pthread_t	thread;
	uint32_t	max_message;
	uint32_t	max_sge;
	uint32_t	max_strided;

	LaneConnection connections[RF_MAX_PEERS];
	LaneFlow  **local;			/* max_flows; `nothing` for flows that are not attached here */
	LaneFlow	nothing;
	RfWc	   *wcs;
	int32_t		touched[RF_MAX_PEERS];
	int			touched_count;
	LaneQueue	queue;
	LaneList	starving;		/* producers' flows without credit, roughly by probe_at */
	LaneList	claiming;		/* producers' flows with scheduled attempts */
	int64_t		claim_at;		/* us: the first of them is due */
	LaneList	asking;			/* consumers' flows that asked for buffers and have too few */
	uint16_t	asking_of[RF_RECEIVE_POOLS];	/* number of these by pool */
	uint64_t	round;
	int64_t		now;			/* us, monotonic; read once per round */
	int64_t		watch_at;		/* us: time to check progress; INT64_MAX = nothing is out */
	RfPolling	polling;
	RfThrottle	throttle;
	uint32_t	numbered;		/* queue pairs that got a number from us */

	atomic_bool stop;			/* the main thread sets it */
	LaneTalk	talk;
};

static inline void
lane_list_init(LaneList *list, LaneLinkKind kind)
{
	*list = (LaneList)
	{
		kind, LANE_NONE, LANE_NONE, 0
	};
}

static inline LaneLink *
lane_link(RfLaneThread *lane, LaneLinkKind kind, int32_t flow)
{
	return &lane->local[flow]->links[kind];
}

static inline void
lane_list_append(RfLaneThread *lane, LaneList *list, int32_t flow)
{
	LaneLink   *link = lane_link(lane, list->kind, flow);

	link->next = LANE_NONE;
	link->previous = list->tail;
	if (list->tail == LANE_NONE)
		list->head = flow;
	else
		lane_link(lane, list->kind, list->tail)->next = flow;
	list->tail = flow;
	list->count++;
}

static inline void
lane_list_remove(RfLaneThread *lane, LaneList *list, int32_t flow)
{
	LaneLink   *link = lane_link(lane, list->kind, flow);

	if (link->previous == LANE_NONE)
		list->head = link->next;
	else
		lane_link(lane, list->kind, link->previous)->next = link->next;
	if (link->next == LANE_NONE)
		list->tail = link->previous;
	else
		lane_link(lane, list->kind, link->next)->previous = link->previous;
	list->count--;
}

/* A counter that only this thread writes: no locked instruction. */
static inline void
lane_count(_Atomic uint64_t *counter, uint64_t add)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
						  memory_order_relaxed);
}

/* ---------- lane_notice.c ---------- */

/* Queues an event for the main thread, which reads it by rf_lane_event. */
extern void rf_lane_notice(RfLaneThread *lane, RfLaneEventKind kind, int peer, uint32_t flow);

/* The connection is not usable any more; reported once. */
extern void rf_lane_lost(RfLaneThread *lane, int peer, const RfError *error);

/* Wakes other lanes of this engine, a bit each. */
extern void rf_lane_wake_others(RfLaneThread *lane, uint32_t mask);

/* ---------- lane_chain.c ---------- */

/*
 * Returns true if there is room for another work request, in the send queue and under the throttle.
 */
extern bool rf_lane_has_room(RfLaneThread *lane, int peer);

/* Records that a flow has to wait because there is no room. */
extern void rf_lane_no_room(RfLaneThread *lane, int peer);

/*
 * Returns a work request to fill in, at the end of the chain to the peer, where there must be room:
 * opcode WRITE_IMM, no payload, room for RF_MAX_SGE entries. `flow`: whose it is, or LANE_NO_FLOW;
 * `kind`: of LanePost. `bytes` is the size of its payload, `admitted` the bytes taken from the
 * window.
 */
extern RfWr *rf_lane_request(RfLaneThread *lane, int peer, int32_t flow, uint32_t kind,
							 uint32_t slots, uint32_t bytes, uint32_t admitted);

/* Has rf_lane_post_chains() post the chain of this peer at the end of the round. */
extern void rf_lane_touch(RfLaneThread *lane, int peer);

/*
 * Stores strided entries of the last request; the caller keeps to the limit of outstanding entries.
 */
extern void rf_lane_stride(RfLaneThread *lane, int peer, RfWr *wr, const RfStrided *strided,
						   int count);

/* Post all chains. */
extern void rf_lane_post_chains(RfLaneThread *lane);

/* ---------- lane_mail.c ---------- */

/* The connection is proven: its memory is for mails from now on. */
extern void rf_lane_mail_begin(LaneConnection *connection);

/* Sends an immediate of a flow to its peer this round; false: there is no room. */
extern bool rf_lane_mail_add(RfLaneThread *lane, uint32_t index, RfImmKind kind, uint64_t value);

/* Put immediates that wait into the chains; rf_lane_post_chains follows. */
extern void rf_lane_mail_close(RfLaneThread *lane);

/* A mail, or what was posted instead, is complete: `done` gets each END in it. */
extern void rf_lane_mail_posted(RfLaneThread *lane, LaneConnection *connection,
								const LanePost *post,
								void (*done) (RfLaneThread *lane, const LanePost *post));

/*
 * Takes an immediate of kind PATH that is no proof. Copies the words of a mail and returns how many
 * there are; 0 for RF_PATH_READ; -1 with *error if the peer breaks the rules.
 */
extern int	rf_lane_mail_arrived(RfLaneThread *lane, int peer, const RfWc *wc, uint32_t *words,
								 RfError *error);

/* ---------- lane_path.c ---------- */

#define LANE_PROOF_ID	0		/* RfWr.wr_id; other work requests begin with 1 */

/* Posts the proof, unless the connection has failed. */
extern void rf_lane_path_prove(RfLaneThread *lane, int peer);

/* Our proof was acknowledged; the peer's has come. False: it is invalid, *error has the reason. */
extern void rf_lane_path_acknowledged(RfLaneThread *lane, int peer);
extern bool rf_lane_path_seen(RfLaneThread *lane, int peer, const RfWc *wc, RfError *error);

/* lane->watch_at has come: gives up connections without progress. */
extern void rf_lane_path_watch(RfLaneThread *lane);

/* Before a work request is posted. */
static inline void
lane_path_posting(RfLaneThread *lane, LaneConnection *connection)
{
	if (connection->posted != connection->completed || lane->config.peer_timeout_ms == 0)
		return;
	connection->progress_at = lane->now;
	connection->overdue = false;
	if (lane->watch_at == INT64_MAX)
		lane->watch_at = lane->now + (int64_t) lane->config.peer_timeout_ms * 1000;
}

/* Work requests have completed. */
static inline void
lane_path_progress(RfLaneThread *lane, LaneConnection *connection)
{
	connection->progress_at = lane->now;
	connection->overdue = false;
}

/* ---------- lane_flow.c ---------- */

extern void rf_lane_flow_attach(RfLaneThread *lane, uint32_t flow);

/* Checks a flow: sends its messages, queues its slots. */
extern void rf_lane_flow_serve(RfLaneThread *lane, uint32_t flow);

/* Its turn in the queue: sends slots, until at least `budget` bytes are sent. */
extern QueueResult rf_lane_flow_send(RfLaneThread *lane, uint32_t flow, uint64_t budget,
									 uint64_t *bytes);

/* The peer's immediate. False: it is invalid; *error has the reason. */
extern bool rf_lane_flow_immediate(RfLaneThread *lane, int peer, const RfWc *wc, RfError *error);

/* A work request of the flow has completed. */
extern void rf_lane_flow_posted(RfLaneThread *lane, const LanePost *post);

/* Its connection is gone. */
extern void rf_lane_flow_fail(RfLaneThread *lane, uint32_t flow, const RfError *error);

/*
 * Sends due probes; returns milliseconds until the next one, -1 if no flow waits for credit.
 */
extern int	rf_lane_flow_probe(RfLaneThread *lane);

/* ---------- lane_claim.c ---------- */

/* A flow with a pool is attached, or released. False: out of memory. */
extern bool rf_claims_attach(RfLaneThread *lane, LaneFlow *local, RfFlow *flow);
extern void rf_claims_detach(RfLaneThread *lane, LaneFlow *local);

/* Producer: gets buffers for the slots that have credit and no buffer yet. */
extern void rf_claims_want(RfLaneThread *lane, uint32_t flow);

/*
 * Returns true if the receive buffers that the flow holds for its next slots + 1 slots are
 * adjacent, given that the first `slots` of them are.
 */
extern bool rf_claims_are_adjacent(const LaneClaims *claims, uint32_t slots);

/*
 * Takes the buffers of the flow's next slots, which are about to be sent together: adjacent ones.
 * Returns the first.
 */
extern uint32_t rf_claims_use(LaneFlow *local, uint32_t slots);

/* Producer: some were used; if it needs to ask for more, it is checked again soon. */
extern void rf_claims_sent(RfLaneThread *lane, uint32_t flow);

/* Producer: the reader has released this slot. */
extern void rf_claims_released(LaneFlow *local, uint64_t slot);

/*
 * Producer: the flow ends; no attempt begins any more. Returns true if no attempt is outstanding
 * either.
 */
extern bool rf_claims_stop(RfLaneThread *lane, LaneFlow *local);

/* Producer: a compare-and-swap is done; a buffer was granted. False: invalid. */
extern void rf_claims_done(RfLaneThread *lane, uint32_t flow, uint32_t claim);
extern bool rf_claims_granted(RfLaneThread *lane, uint32_t flow, uint32_t buffer, RfError *error);

/* Serves the flows with due attempts. True if any of them sent something. */
extern bool rf_claims_run(RfLaneThread *lane, LaneServe *serve);

/* Consumer: the producer asks; false: more than it may. Its END came: takes back unused buffers. */
extern bool rf_claims_asked(RfLaneThread *lane, uint32_t flow, uint32_t value, RfError *error);
extern void rf_claims_ended(RfLaneThread *lane, LaneFlow *local);

/* Grants free buffers to the flows in line. Would it grant anything? */
extern bool rf_claims_grant(RfLaneThread *lane);
extern bool rf_claims_may_grant(RfLaneThread *lane);

#endif
