/*
 * lane_thread.h - the interface of a lane for the engine's main thread: start, connections, flows,
 * events, stop. A lane is a thread that moves data. Plain C (lane.c).
 */
#ifndef RF_LANE_THREAD_H
#define RF_LANE_THREAD_H

#include "rdma_fdw/guc.h"
#include "shmem/layout.h"


typedef struct RfLaneThread RfLaneThread;

/* Events of a lane for the main thread: read by rf_lane_event. */
typedef enum RfLaneEventKind
{
	RF_LANE_CONNECTION_LOST = 1,	/* qp context's peer; error says why. Told once */
	RF_LANE_CONNECTION_PROVEN,	/* answer to rf_lane_prove: bytes get through both ways */
	RF_LANE_CONNECTION_DROPPED, /* answer to rf_lane_drop_connection: its queue pair is destroyed,
								 * no flow of it is attached */
	RF_LANE_FLOW_DETACHED		/* the flow's ENDs are exchanged and its backend let go (CLOSING):
								 * buffers may be freed, set it FREE */
} RfLaneEventKind;

typedef struct RfLaneEvent
{
	RfLaneEventKind kind;
	int			peer;
	uint32_t	flow;
	RfError		error;
} RfLaneEvent;

/*
 * The proof that a queue pair's data path works: RF_PROOF_SIZE bytes each way, consisting of the
 * receiver's number. The main thread owns it, and does not change it from the hand-over until the
 * lane has released the connection; the lane reads it.
 */
typedef struct RfLaneProof
{
	const uint64_t *landing;	/* where the peer's comes */
	uint64_t	number;			/* the contents it must have */
	RfSge		source;			/* ours; this and the rest are valid from rf_lane_prove on */
	uint64_t	remote_addr;
	uint32_t	rkey;
} RfLaneProof;

typedef struct RfLaneConfig
{
	RfShared   *shared;
	int			lane;
	const RfProvider *provider;
	RfDevice   *device;
	int			cq_depth;
	uint32_t	max_wr;			/* of every queue pair (RfQpConfig.max_wr); the lane never has more
								 * outstanding */
	uint32_t	poll_batch;		/* MAX_POLL_WC */
	RfPollingMode polling_mode;
	uint32_t	poll_us;		/* adaptive: keep trying this long after the last success before
								 * arming */
	uint32_t	probe_ms;		/* wait for credit this long before a PROBE */
	uint32_t	peer_timeout_ms;	/* a connection is lost if its work requests do not complete
									 * for so long; 0 = never */
	uint32_t	merge_limit;	/* bytes one merged work request may have; 0 = never merge */
	uint32_t	chain_limit;	/* work requests per post; 1 = never chain */
	bool		signal_all;		/* ask for a completion of every work request */
	bool		claim_at_once;	/* a lost claim of a shared receive pool's buffer is tried again at
								 * once, without backoff */
	uint64_t	admission_window;	/* bytes in flight on the device; 0 = no limit */
	int32_t		credit_limit;	/* work requests outstanding on a queue pair; 0 = up to max_wr,
								 * RF_CREDIT_AUTO = by trying */
	int			main_wake_fd;	/* eventfd: the main thread has events to read */
	void		(*wake_owner) (RfFlow *flow);	/* SetLatch of the flow's backend; called with
												 * waiting == 1 cleared */
} RfLaneConfig;

/*
 * Create the lane's completion queue and start its thread (all signals blocked in it). NULL and
 * *error on failure.
 */
extern RfLaneThread *rf_lane_start(const RfLaneConfig *config, RfError *error);
extern RfCq *rf_lane_cq(RfLaneThread *lane);

/*
 * Sets the settings that may change while the lane runs: polling_mode, poll_batch, poll_us,
 * probe_ms, peer_timeout_ms, merge_limit, chain_limit, signal_all, claim_at_once,
 * admission_window, credit_limit.
 */
extern void rf_lane_tune(RfLaneThread *lane, const RfLaneConfig *config);

/*
 * Hands a connected queue pair to the lane, before the peer may send anything that names a flow.
 * Its RfQpConfig.context must be the peer's index: (void *) (intptr_t) peer. A queue pair whose
 * handshake fails half-way is added and dropped too, since only the lane may destroy it. `proof`:
 * the expected proof of the peer, handed over before the peer may send it; NULL: no proof.
 */
extern void rf_lane_add_connection(RfLaneThread *lane, int peer, RfQp *qp,
								   const RfLaneProof *proof);

/*
 * The peer is ready for our proof: sends it. RF_LANE_CONNECTION_PROVEN follows when it was
 * acknowledged and the peer's has come. The lane does not give up by itself: the main thread drops
 * a connection that takes too long.
 */
extern void rf_lane_prove(RfLaneThread *lane, int peer);

/*
 * Destroys the peer's queue pair and fails its attached flows: OPEN becomes FAILED with the error
 * and its backend is woken; a flow that is CLOSING gets RF_LANE_FLOW_DETACHED. Then
 * RF_LANE_CONNECTION_DROPPED: nothing of the peer is attached any more.
 */
extern void rf_lane_drop_connection(RfLaneThread *lane, int peer, const RfError *error);

/*
 * From now on the lane serves this flow. It is OPEN with buffers, or already CLOSING if the backend
 * was faster, or FAILED without buffers (buffers NULL): then only the ENDs are exchanged once it is
 * CLOSING. Called after the change of state, because a consumer may win LISTENING -> FREE; so the
 * lane ignores rings of unattached flows, and checks a flow at its attachment as if it had been
 * rung. The peer learns the flow's address only afterwards. A producer is attached also when its
 * backend is CLOSING already: the reader's side is open and must get an END.
 *
 * The main thread may set an attached flow FREE after RF_LANE_FLOW_DETACHED only. A flow that a
 * dropped connection made FAILED, or found FAILED, is not attached any more and has no event; its
 * backend wakes the main thread when it makes it CLOSING.
 */
extern void rf_lane_attach_flow(RfLaneThread *lane, uint32_t flow_index);

/* Next event; returns false at the end. Main thread only. */
extern bool rf_lane_event(RfLaneThread *lane, RfLaneEvent *event);

/* Stops and joins the thread. Remaining queue pairs are destroyed. */
extern void rf_lane_stop(RfLaneThread *lane);

#endif
