/*
 * engine_int.h - inside the engine's room only: declarations shared by its PostgreSQL files.
 *
 * From the bottom to the top, each calls those before it only:
 *
 * support.c             epoll, the log, our hello
 * socket.c              sockets to other engines
 * receive_memory.c      memory for shared receive pools
 * pages.c               shared buffers as a source for a peer's queue pairs
 * prove.c               that data gets through a connection: the proofs of the two ends
 * control_connection.c  a control connection: bytes, end, its entry of the peer table
 * contest.c             a second connection of a node
 * places.c              how many nodes' connections a role may have
 * open.c                opening and freeing of flows
 * setup.c               from the proof of the token to queue pairs that data gets through
 * control_events.c      events of control connections: requests, messages, timers, loss
 * listener.c            listening and accepting
 * main.c                the worker: start, loop, timers, end
 *
 * Everything in RfEngine and below it belongs to the engine's main thread. Backends see RfShared
 * only.
 */
#ifndef RF_ENGINE_INT_H
#define RF_ENGINE_INT_H

#include "postgres.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "shmem/arena.h"
#include "shmem/claims.h"
#include "shmem/peer_table.h"

#include "handshake.h"
#include "lane_load.h"
#include "lane_thread.h"
#include "path.h"
#include "pool.h"
#include "values.h"

/* ---------- the engine's main thread ---------- */

/* Something in the epoll set. The address of one of these is the event's data. */
typedef enum RfSourceKind
{
	RF_SOURCE_WAKE,				/* backends: requests */
	RF_SOURCE_LANES,			/* lanes: events */
	RF_SOURCE_DEVICE,			/* the RDMA device: its own events */
	RF_SOURCE_LISTEN,
	RF_SOURCE_CONTROL,			/* a control connection, RfConnection */
	RF_SOURCE_DATA				/* a data socket that we connect: waiting for ATTACHED,
								 * RfDataSocket */
} RfSourceKind;

typedef struct RfSource
{
	RfSourceKind kind;
	int			fd;
	uint32_t	events;			/* the events that epoll watches now */
} RfSource;

typedef struct RfConnection RfConnection;

/*
 * A socket that will carry one queue pair: opened by the initiator, announced by ATTACH, handed
 * over after ATTACHED.
 */
typedef struct RfDataSocket
{
	RfSource	source;
	RfConnection *connection;
	uint32_t	lane;
	bool		local;			/* AF_UNIX; falls back to TCP when it cannot connect */
	bool		attach_sent;
	uint8_t		in[sizeof(RfControlHeader) + sizeof(RfControlAttached)];
	uint32_t	in_done;
} RfDataSocket;

#define RF_ROUND_TRIPS		8	/* that the usual one is the shortest of */

typedef enum RfConnectionPhase
{
	RF_PHASE_CONNECTING,		/* initiator: TCP connect under way */
	RF_PHASE_HANDSHAKE,			/* until PROOF and WELCOME */
	RF_PHASE_SETUP,				/* queue pairs */
	RF_PHASE_UP,
	RF_PHASE_DROPPING			/* lanes are letting go */
} RfConnectionPhase;

/* What an initiator tries, and tries again. */
typedef struct RfAttempt
{
	int			address;		/* which address of the peer's list is being tried */
	int64_t		until_us;		/* until when, if there is another */
	int64_t		retry_us;		/* refused for a connection the other way: try again then; 0 = no */
	int			retries;
	bool		crossed;		/* failed only because both nodes connected at once */
} RfAttempt;

/* A connection's queue pair of one lane, while it is set up. */
typedef struct RfConnectionLane
{
	RfQp	   *qp;				/* the lane's, once it is told of it; NULL before and after */
	bool		have_blob;
	uint8_t		blob[RF_QP_BLOB_SIZE];	/* of the peer's queue pair */
	RfDataSocket socket;		/* initiator: on the way */
	int			waiting_socket; /* acceptor: attached before its blob came; -1 if not */
	bool		connected;
	RfLaneProof proof;			/* the lane reads it */
} RfConnectionLane;

/* One control connection, from connect or accept to its end; from SETUP on it owns a peer entry. */
struct RfConnection
{
	RfSource	source;
	RfConnection *next;
	RfConnectionPhase phase;
	RfHandshake handshake;
	RfTls	   *tls;			/* TLS from SETUP on; NULL = both ends want it in clear */
	bool		unread;			/* it has read more than was dealt with */
	int			peer;			/* RF_NO_PEER until known */
	bool		accepted;
	bool		in_crowd;		/* accepted, and has shown nothing yet: crowd.c */
	uint32_t	place;			/* where crowd.c counts it */
	bool		dead;			/* closed; freed at the end of the round */
	int64_t		started_us;
	int64_t		deadline_us;	/* of connecting, handshake and set-up */
	int64_t		heard_us;
	int64_t		ping_us;		/* when the next PING is due */
	uint32_t	round_trips[RF_ROUND_TRIPS];	/* microseconds, the latest, in a ring */
	uint32_t	round_trip_count;	/* so far */
	int64_t		asked_us;		/* proven, and its node's old connection was asked then for a sign
								 * of life; 0 = it does not wait */
	uint32_t	role;			/* accepted: of its token, see RfToken */
	uint32_t	role_limit;
	bool		was_up;
	RfAttempt	attempt;
	uint8_t		connection_id[16];
	uint8_t		secret[RF_TOKEN_SIZE];	/* until the connection set is up */
	uint32_t	lanes;
	RfDomain   *domain;
	bool		over_sockets;	/* its queue pairs want them: the software transport */
	RfPath		path;			/* SETUP: both ends' messages about the queue pairs */
	uint8_t    *proof_memory;	/* RF_PROOF_SIZE bytes for each lane to receive proof and mails,
								 * and behind them as many to send from; NULL without proofs */
	RfRegion   *proof_region;	/* registration of it */
	uint32_t	lanes_proven;
	bool		with_lanes;		/* the lanes have the queue pairs */
	RfError		path_error;		/* why the device was given up for the software transport */
	RfRegion   *pages;			/* shared buffers, as a source; NULL = not registered */
	bool		pages_refused;	/* the device cannot */
	RfConnectionLane by_lane[RF_MAX_LANES];
	bool		local_sockets;
	uint32_t	lanes_dropping;
	RfError		error;			/* why it is being dropped */
};

/* The main thread's data of a flow beside its entry. */
typedef enum RfFlowPhase
{
	RF_OPEN_NONE = 0,
	RF_OPEN_SENT,				/* producer: OPEN sent */
	RF_OPEN_BUFFERS,			/* either side: waits for buffers until the deadline */
	RF_OPEN_ATTACHED,			/* the lane has it */
	RF_OPEN_ORPHAN				/* its connection is gone; only buffers are left to free */
} RfFlowPhase;

typedef struct RfFlowWork
{
	uint8_t		phase;
	bool		producer;
	int			peer;
	int64_t		deadline_us;
	RfBlock		block;			/* buffers; block.segment < 0: not allocated */
	RfPiece		piece;			/* of value memory; piece.units == 0: not allocated */
	RfReceivePool *pool;		/* consumer side: its buffers are this pool's instead */
	uint32_t	lane;
	RfControlOpen open;			/* consumer side: the requesting connection */
	RfControlOpened opened;		/* producer side: the contents of OPENED */
} RfFlowWork;

/* The memory of a shared receive pool, as long as flows use it. */
typedef struct RfReceiveWork
{
	RfBlock		block;
	uint32_t	users;			/* flows that have it: from the opening until they are freed */
	uint32_t	role_oid;		/* of these */
	bool		refused;		/* no pool is possible; its flows get buffers of their own */
} RfReceiveWork;

typedef struct RfEngine
{
	int			epoll_fd;
	RfSource	wake;
	RfSource	lane_events;
	RfSource	device_events;
	RfSource	listen_tcp;
	RfSource	listen_local;
	const RfProvider *provider; /* NULL: no device as configured, shared->device_error says why */
	RfDevice   *device;
	RfDeviceCaps caps;
	uint32_t	lane_count;
	RfLaneThread *lanes[RF_MAX_LANES];
	RfLaneConfig lane_config;
	RfQpConfig	qp_config;
	RfConnection *connections;
	RfConnection *by_peer[RF_MAX_PEERS];	/* the connection that owns the entry */
	RfPool	   *pool;
	RfValues   *values;
	RfFlowWork *flows;			/* max_flows */
	RfReceiveWork receive[RF_RECEIVE_POOLS];
	uint32_t	lane_flows[RF_MAX_LANES];	/* attached to each */
	RfLaneLoad	lane_load;
	uint8_t		boot_id[16];
	uint32_t	unauthenticated;	/* accepted connections in the crowd */

	/*
	 * Tell the objects that depend on a peer (open.c): its connection failed; no lane has a queue
	 * pair of it left.
	 */
	void		(*peer_failed) (int peer, const RfError *error);
	void		(*peer_gone) (int peer);
} RfEngine;

extern RfEngine *rf_engine;

/* crowd.c */
struct sockaddr_storage;
extern RfConnection *rf_crowd_enter(RfConnection *connection,
									const struct sockaddr_storage *address);
extern void rf_crowd_leave(RfConnection *connection);
extern void rf_crowd_hello(RfConnection *connection);
extern bool rf_crowd_may_log(void);

/* receive_memory.c */

/*
 * Memory that the peer can write for a flow that listens with the pool, which is a user of it then.
 * NULL with RF_POOL_TAKEN: the flow needs buffers of its own.
 */
extern RfPoolResult rf_receive_use(RfReceivePool *pool, int peer, const RfRegion **region,
								   RfError *error);
extern void rf_receive_unuse(RfReceivePool *pool, uint32_t flow);

/* Backends have left pools; a new engine begins, and this flow is still read. */
extern void rf_receive_left(void);
extern void rf_receive_start(void);
extern void rf_receive_mark(RfReceivePool *pool);

/* support.c */
extern bool rf_watch(RfSource *source, uint32_t events);
extern void rf_unwatch(RfSource *source);
extern void rf_own_hello(RfControlHello *hello, int fd);	/* fd: the socket that it goes to */
extern const char *rf_offer_text(uint32_t offer);
extern void rf_log_error(int level, const char *what, const RfError *error);

/* SetLatch of the flow's backend: only stores a flag and sends a signal, so lanes call it too. */
extern void rf_flow_wake_owner(RfFlow *flow);
extern void rf_flow_wake(RfFlow *flow);

/* socket.c */

/* Begin to connect; the result shows when the socket becomes writable. -1: *error says why. */
extern int	rf_start_connect(const char *address, uint32_t port, RfError *error);	/* numeric */
extern int	rf_start_connect_local(const char *name);	/* -1: also when it is another user's */
extern int	rf_start_connect_like(int control_fd, RfError *error);	/* to where this one goes */

/* For a local socket: returns true if a process of this server's user made the other end. */
extern bool rf_socket_same_user(int fd);

/* Its peer's address as text. */
extern void rf_socket_address(int fd, char *text, size_t size);
extern socklen_t rf_socket_local_address(struct sockaddr_un *address, const char *name);
extern void rf_socket_options(int fd);

/* Returns true if it crosses a network that protects its traffic (rdma_fdw.trusted_networks). */
extern bool rf_socket_trusted(int fd);

/* listener.c */
extern bool rf_listen(RfError *error);
extern void rf_listener_event(RfSource *source);
extern void rf_listener_timers(int64_t now);
extern int64_t rf_listener_deadline(void);

/* pages.c: shared buffers as a source for a peer's queue pairs */
extern RfRegion *rf_pages_register(RfConnection *connection);
extern void rf_pages_deregister(RfConnection *connection);

/* prove.c */

/* Memory for the proofs, in the connection's domain; and back, when no queue pair is left. */
extern bool rf_prove_begin(RfConnection *connection, RfError *error);
extern void rf_prove_release(RfConnection *connection);

/*
 * The bytes that the peer shall write, and where: for LINKED. Stores the peer's request;
 * rf_prove_begin was before.
 */
extern void rf_prove_ask(const RfConnection *connection, RfControlLinked *linked);
extern void rf_prove_asked(RfConnection *connection, const RfControlLinked *linked);

/* A hint for the case that data does not get through; NULL: nothing in particular. */
extern const char *rf_prove_hint(const RfConnection *connection);

/* control_connection.c */

/*
 * Time for a handshake. A backend that waits for the connection may wait longer than the
 * configuration says, so a short value there does not end it.
 */
#define RF_HANDSHAKE_LIMIT_MS	10000

static inline int64_t
rf_handshake_limit_us(void)
{
	return (int64_t) (rf_connect_timeout > RF_HANDSHAKE_LIMIT_MS ? rf_connect_timeout :
					  RF_HANDSHAKE_LIMIT_MS) *
		1000;
}

/*
 * fd: -1, or a socket that is connected and belongs to the connection from here on. NULL: no
 * memory.
 */
extern RfConnection *rf_connection_new(int fd, bool accepted);

/*
 * Send a message, and the bytes that wait to be sent. A peer that does not read ends its
 * connection.
 */
extern void rf_connection_send(RfConnection *connection, RfControlType type, const void *payload,
							   uint32_t length);
extern void rf_connection_flush(RfConnection *connection);

/*
 * From here on the connection is under TLS, if its ends want it so. False: it has failed. After
 * WELCOME, which is the last that was sent or came in clear.
 */
extern bool rf_connection_begin_tls(RfConnection *connection);

/* As recv(), under TLS if it is. -1 with errno; rf_connection_reason says it in words. */
extern ssize_t rf_connection_receive(RfConnection *connection, void *to, size_t size);
extern const char *rf_connection_reason(const RfConnection *connection, int code);

/* Say no to a connection that has no peer entry yet, and count it. */
extern void rf_connection_refuse(RfConnection *connection, uint32_t reason, const char *message);

/*
 * The connection is of no more use: tells the objects that depend on it why. Its entry and its
 * memory are given back by rf_connection_finish once no queue pair is left, which may be at once.
 */
extern void rf_connection_fail(RfConnection *connection, const RfError *error);
extern void rf_connection_finish(RfConnection *connection);

/*
 * Let go of queue pairs that the lanes may or may not know. Returns false if there is no such queue
 * pair.
 */
extern bool rf_connection_drop_lanes(RfConnection *connection, const RfError *error);
extern void rf_connection_close_socket(RfConnection *connection);

/* Frees the connections that died in this round. */
extern void rf_connections_reap(void);

/*
 * Ask whether peers that are gone have let go of our memory. True: it was time to, and it was
 * asked.
 */
extern bool rf_connections_settle(int64_t now);
extern int64_t rf_connections_settle_due(void);

/* contest.c */

/* A connection from that node is not wanted: the connection that we make to it stays. */
extern bool rf_contest_crosses(const RfNodeId *node);

/*
 * For a connection whose proof is right. True: it waits until its node's old connection was refused
 * or answered, which rf_setup_contest() sees after.
 */
extern bool rf_contest_begin(RfConnection *newcomer);
extern bool rf_contest_goes_on(RfConnection *newcomer, int64_t now);
extern int64_t rf_contest_deadline(const RfConnection *newcomer);

/* PONG with this stamp came over a connection that has an entry. */
extern void rf_contest_alive(const RfConnection *old, uint64_t stamp);

/* places.c */

/*
 * One more connection for that role, which may have so many: another may end for it. False: the
 * role has as many, and uses all of them.
 */
extern bool rf_places_make(uint32_t role, uint32_t limit);

/* setup.c: from the proof of the token to queue pairs that data gets through */
extern void rf_setup_proof(RfConnection *connection, const RfControlProof *proof);

/* It waits for its node's old connection: checks whether it still has to. */
extern void rf_setup_contest(RfConnection *connection, int64_t now);
extern void rf_setup_welcome(RfConnection *connection, const RfControlWelcome *welcome);
extern void rf_setup_qp(RfConnection *connection, const RfControlQp *qp);
extern void rf_setup_linked(RfConnection *connection, const RfControlLinked *linked);
extern void rf_setup_attach(RfConnection *attaching, const RfControlAttach *attach);
extern void rf_setup_socket_event(RfDataSocket *socket, uint32_t events);

/* Something has happened to the data path: act on it. error: why, of RF_PATH_DEAD. */
extern void rf_setup_event(RfConnection *connection, RfPathEvent event, const RfError *error);
extern void rf_setup_lane_proven(RfConnection *connection);

/* BROKEN came; also of a connection that is up. */
extern void rf_setup_broken(RfConnection *connection);

/* The connection's deadline has passed during the proof. False: it is about something else. */
extern bool rf_setup_timeout(RfConnection *connection);

/* control_events.c */
extern void rf_peers_requested(void);
extern void rf_peer_lane_dropped(int peer);
extern void rf_connection_event(RfConnection *connection, uint32_t events);
extern void rf_connection_lost(RfConnection *connection, const RfError *error);
extern void rf_connections_timers(int64_t now);
extern int64_t rf_connections_deadline(void);
extern void rf_connections_reloaded(void);
extern void rf_connections_bye(void);

/* open.c */
extern bool rf_flows_start(void);
extern void rf_flows_requested(void);
extern void rf_flow_handle_open(RfConnection *connection, const RfControlOpen *open);
extern void rf_flow_handle_opened(RfConnection *connection, const RfControlOpened *opened);
extern void rf_flow_handle_open_failed(RfConnection *connection, const RfControlOpenFailed *failed);
extern void rf_flow_detached(uint32_t index);
extern void rf_flows_retry(void);
extern void rf_flows_timers(int64_t now);
extern int64_t rf_flows_deadline(void);
extern void rf_flows_fail_all(const RfError *error);

#endif
