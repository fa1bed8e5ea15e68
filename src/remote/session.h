/*
 * session.h - shared by the files of src/remote/: the session and its streams. Nobody outside the
 * room includes it.
 *
 * From the bottom to the top, each calls those before it only:
 *
 * gate.c           keeps commits and snapshots of several nodes apart
 * commit_state.c   of transactions over several nodes: the shared state, and the
 * decision.c       table of committed transactions
 * waiting.c        which backends wait for nodes
 * cancel.c         cancel requests
 * session.c        the table of sessions; closing them and making them free
 * wait.c           waiting for them
 * remote_error.c   errors of nodes become errors here
 * serializable.c   which nodes SERIALIZABLE transactions may use
 * other_coordinators.c  checks that snapshots agree on commits of other coordinators
 * snapshot.c       the beginning of remote transactions, with one snapshot of all nodes
 * pipeline.c       several commands in one round trip, beginning the remote transaction
 * statement_snapshot.c  in READ COMMITTED, one snapshot of all nodes for a statement
 * query.c          commands, the greeting
 * placement.c      which databases the nodes of servers with nodes are
 * session_settings.c  settings of sessions, and whose database it is
 * credentials.c    which roles may connect
 * command.c        statements with parameters
 * peer.c           the engine of a session's node
 * link.c           how fast the network is
 * load.c           rows to a data node
 * stream_set.c     streams of one statement: waiting for any of them
 * stream_end.c     the end of streams, and the count of their rows
 * stream_answer.c  the data node's answers to their requests
 * stream.c         rows from a data node
 * stream_share.c   the same, read by several processes
 * commit.c         the atomic commit over all nodes
 * transaction.c    remote transactions follow the local one
 * connection.c     connecting, handing out
 * statement_begin.c  the nodes of a statement begin together
 * recover.c        finishing on a node the parts that transactions left there
 * restore_point.c  one point of the histories of all nodes
 * deadlock.c       circles of transactions that wait for each other
 * resolver.c       the background workers for both
 */
#ifndef RF_SESSION_H
#define RF_SESSION_H

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/batches.h"
#include "rdma_fdw/reader.h"
#include "rdma_fdw/remote.h"

#include "lib/ilist.h"
#include "lib/stringinfo.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "rdma_fdw/compat.h"

#include "rdma_fdw/reassemble.h"
#include "shmem/share.h"

#include "commit.h"

/* How long an abort may spend on one remote session before it gives the connection up. */
#define RF_ABORT_TIMEOUT_MS		30000
/* The same when this backend is ending anyway, or the data node seems to be gone. */
#define RF_SHORT_ABORT_TIMEOUT_MS	2000
/*
 * How long a cancel request may take: a connection that the data node accepts and closes. Without
 * an answer by then the session is given up.
 */
#define RF_CANCEL_TIMEOUT_MS	10000
/* At commit: how long a scan that was told to stop may take before it is cancelled. */
#define RF_STOP_PATIENCE_MS		200
/* So many tokens for one connection: an engine that is restarted takes the attempt with it. */
#define RF_ENGINE_TRIES			3
/* Engines that could not connect try again after this many times rdma_fdw.connect_timeout. */
#define RF_ENGINE_RETRY			6

/*
 * A node's answer about other coordinators when it took a snapshot: how long before that a part of
 * their transactions was committed there, in microseconds. 0: one is prepared, or it did not say;
 * PG_INT64_MAX: no part was committed.
 */
typedef struct RfOthers
{
	int64		asked_us;		/* rf_now_us, before it was asked for the snapshot */
	int64		taken_us;		/* and when it had answered */
	int64		age_us;
} RfOthers;

/* A session's part of a transaction that commits on several nodes. */
typedef enum RfCommitPart
{
	RF_PART_NONE,				/* it has no part, or its part is finished */
	RF_PART_SENT,				/* told to prepare: it may be prepared */
	RF_PART_PREPARED
} RfCommitPart;

/* Options of the server, read when it is connected (connection.c) */
typedef struct RfSessionOptions
{
	bool		keep;			/* option keep_connections */
	bool		parallel_commit;	/* options of the same names: no waiting for one server before
									 * the next is told */
	bool		parallel_abort;
	bool		require_encryption; /* option encryption */
} RfSessionOptions;

/* What the node has said about itself and its session there (session_settings.c) */
typedef struct RfSessionNode
{
	uint64		cluster;		/* system identifier */
	int			max_prepared;	/* transactions that it can have prepared */
	bool		compares;		/* it can compare snapshots with other nodes: its database has the
								 * extension */
	bool		pooled;			/* a pooler may give every transaction another session over there,
								 * and that session to other clients: nothing of ours may stay in
								 * it */
	char	   *memberships;	/* in sets of nodes, as it reports them; compared with the records
								 * of */
	uint64		placement_generation;	/* this generation */
	bool		later_timeline; /* it is on a later timeline than those records say */
} RfSessionNode;

/*
 * The remote transaction (transaction.c, query.c): it begins with the first command that wants one,
 * and ends with the local one.
 */
typedef struct RfSessionXact
{
	bool		wanted;			/* commands run in one */
	int			depth;			/* levels that are open there (1: the transaction, n + 1: n
								 * savepoints). It lags behind the local nest level until something
								 * is sent */
	bool		unsure;			/* commands that change the depth were sent and not all of them
								 * answered */
	bool		untouched;		/* nothing but the beginning was sent */
	bool		wrote;			/* it may have written: it is never given up without an error */
	bool		reads_copies;	/* it reads copies of replicated tables here, and stays here */
	bool		aborting;		/* during an abort: told to roll back, and not heard yet */
} RfSessionXact;

/* Its snapshots, of the transaction or of statements (statement_snapshot.c), while it is open */
typedef struct RfSessionSnapshot
{
	/* of the transaction, from REPEATABLE READ on (snapshot.c) */
	uint64		count;			/* the gate's count, read before it was taken, */
	bool		exact;			/* or in the gate: nothing came between */
	RfOthers	others;			/* zeros: not known */
	List	   *of_statements;	/* RfStatementSnapshot, in TopMemoryContext */
} RfSessionSnapshot;

/* Its part of a commit on several nodes, from the first step to the end (commit.c) */
typedef struct RfSessionCommit
{
	RfCommitPart part;
	char		gid[RF_GID_SIZE];	/* the name that it is prepared under, unless NONE */
} RfSessionCommit;

/* The node could not be connected, or was lost (connection.c, statement_begin.c) */
typedef struct RfSessionLoss
{
	uint64		left_out;		/* statements up to this one, of this transaction, cannot use it:
								 * it could not be connected when they began. 0: all can */
	ErrorData  *why;			/* it could not be connected the last time, in TopMemoryContext;
								 * NULL: it was not tried in vain */
	TimestampTz at;				/* when that was, or it was lost while it read copies; 0: never */
} RfSessionLoss;

/* Prepared statements there (command.c, query.c) */
typedef struct RfSessionPrepared
{
	uint32		connection;		/* connections made so far: tells statements of an earlier one */
	uint32		count;			/* names given so far */
	List	   *garbage;		/* names of unused statements */
	bool		has_stream;		/* the statement for streams exists, under this name: */
	char		stream[NAMEDATALEN];
} RfSessionPrepared;

/* The engines of the two ends (peer.c, query.c) */
typedef struct RfSessionEngines
{
	char	   *host;			/* the address that libpq connected to */
	bool		hello_valid;
	RfHelloReply hello;
	RfError		error;			/* they could not connect lately; no kind: they could, or did not
								 * try */
	TimestampTz retry;			/* then they try again */
	bool		told_clear;		/* the user was warned that rows come in clear */
} RfSessionEngines;

/* A cancel request (cancel.c) */
typedef struct RfSessionCancel
{
	struct RfCancel *request;	/* under way; NULL without one */
	RfSession  *next;			/* during an abort: the next session with a request, in a ring;
								 * else NULL */
} RfSessionCancel;

/*
 * A session on a data node (session.c), for the life of the backend, which alone has it; its
 * connection may be closed and made again meanwhile.
 */
struct RfSession
{
	Oid			umid;			/* hash key, first */
	Oid			serverid;
	Oid			userid;			/* the local user that it was handed out for last */
	char	   *server_name;
	PGconn	   *conn;			/* NULL: not connected */
	RfSocketWait wait;			/* for its socket; as long as it is connected */

	/* Hash values of the syscaches, to notice ALTER SERVER and ALTER USER MAPPING. */
	uint32		server_hash;
	uint32		mapping_hash;
	bool		own_credentials;	/* authenticated by the user's own, see credentials.c */
	bool		invalidated;	/* options changed: reconnect when no transaction is open */
	bool		suspect;		/* a flow from that node failed: do not wait long for it */
	bool		broken;			/* its state is unknown or it is gone: close at the end of the
								 * transaction */
	uint32		uses;			/* counts commands begun in it */

	RfSessionOptions options;
	RfSessionNode node;
	RfSessionXact xact;
	RfSessionSnapshot snapshot;
	RfSessionCommit commit;
	RfSessionLoss loss;
	RfSessionCancel cancel;
	RfSessionPrepared prepared;
	RfSessionEngines engines;

	/* The stream whose query runs there now; its libpq results are not collected yet. */
	RfStream   *running;
	dlist_head	streams;		/* all streams, for the end of the transaction */
	RfLoad	   *load;			/* the load whose request runs there now; never beside `running` */
	dlist_head	collecting;		/* loads with rows that were not sent, the oldest rows first */
	RfStream   *failed;			/* a stream whose error aborted the remote transaction */
};

typedef struct RfCancel RfCancel;

/* The users of sessions, as far as they concern it: streams and loads. transaction.c has it. */
typedef struct RfSessionUsers
{
	/* Write the rows that loads collected. */
	void		(*write) (RfSession *session);

	/*
	 * Finish running commands, and store rows of a stream. Raises the error that voided the remote
	 * transaction.
	 */
	void		(*free) (RfSession *session);

	/* The connection goes: streams and the load that runs go, too. Raises nothing. */
	void		(*lose) (RfSession *session);
} RfSessionUsers;

/* The results of a pipeline, as they come. */
typedef struct RfPipeline
{
	int			before;			/* commands to come whose success is all they have to say */
	int			opening;		/* of them, the first: commands that open the remote
								 * (sub)transactions */
	PGresult   *result;			/* of the command behind them; or the first error */
	PGresult   *later_error;	/* of a command behind that one */
} RfPipeline;

typedef enum RfStreamState
{
	RF_STREAM_RUNNING,			/* session->running is this one */
	RF_STREAM_STOPPING,			/* not read any more, only the libpq answer is awaited */
	RF_STREAM_ENDED,			/* everything is here: inline or stored, or read */
	RF_STREAM_LOST				/* the subtransaction that started it was rolled back */
} RfStreamState;

/*
 * Streams of one statement on several nodes (stream_set.c). It lives as long as one of them does.
 */
typedef struct RfStreamSet
{
	int			count;
	int			left;			/* members that are still there */
	RfStream  **members;		/* NULL: gone */
	WaitEventSet *waits;		/* the latch and the sockets of the members that run; NULL: to be
								 * made */
	int			waiting_for;	/* sockets in it */
	bool		may_retry;		/* its owner used no row yet, and can begin again */
} RfStreamSet;

struct RfStream
{
	dlist_node	node;
	RfSession  *session;
	MemoryContext context;		/* the stream and all it allocates, under TopMemoryContext */
	ResourceOwner resowner;		/* of the scan: temporary files and the flow belong to it */
	RfStreamState state;
	int			level;			/* nest level of the (sub)transaction it belongs to */
	RfStreamSet *set;			/* NULL: it depends on no other stream */
	RfStream  **owner_ref;		/* the owner's pointer to it, cleared when it goes; NULL: the owner
								 * went first */

	char	   *sql;
	char	   *source;
	bool		in_place;
	bool		keep;
	bool		shared;			/* workers read it, too, once rf_stream_share() was called: it can
								 * be put aside neither then nor before */
	void		(*moved) (void *owner, const void *batch, uint32 length);
	void	   *owner;
	uint32		receive_buffers;
	uint32		receive_buffer_size;

	RfFlowHandle *flow;			/* NULL if it is closed, or there is no flow: all rows must fit the
								 * answer */
	bool		inline_only;	/* the latter */
	bool		flow_ended;
	bool		holding;		/* `buffer` is read in place and not released yet */
	RfBuffer	buffer;

	int64		started;		/* rf_now_us(), of a timed stream; else 0 */
	StringInfo	plan;			/* the owner's, for the node's plan; NULL: not asked for */
	instr_time	first_time;		/* of the first buffer: see link.c */
	uint64		first_wait_us;	/* waited until then */
	RfFlowReader *reader;		/* the flow is shared with workers, and this is our part in it */
	RfReassembly copy;			/* batches that came in pieces, or are not read in place */

	char	   *retained;		/* the batch that the owner read when the stream was drained */
	bool		replied;		/* the libpq answer is here and was checked */
	RfStreamReply reply;
	RfPipeline	answer;			/* its result: the reply, kept while an inline batch is read; or
								 * the error */
	const char *inline_batch;
	bool		inline_read;

	int			storing;		/* attempts to store the rest that have not come to their end */
	RfBatchCursor *stored;		/* batches that are here, and are read first; NULL without them */

	RfStreamStats stats;
};

/* session.c; NULL until a session is handed out */
extern const RfSessionUsers *rf_session_users;

/* The session of a user mapping, made if it is missing; it need not be connected. */
extern RfSession *rf_session_find(Oid umid);

/* One session after the other; NULL at the end. Only one walk at a time, always to its end. */
extern RfSession *rf_session_iterate(bool restart);
#define rf_foreach_session(session) \
	for (RfSession *session = rf_session_iterate(true); session != NULL; \
		 session = rf_session_iterate(false))
extern bool rf_session_in_use(void);

/*
 * For rows; NULL: the node cannot be connected, and the transaction has not used it yet;
 * session->loss.why tells why.
 */
extern RfSession *rf_session_try(UserMapping *user);

/*
 * Abort the remote transaction, in which nothing of importance was done. Closes its streams and
 * waits for running commands.
 */
extern void rf_session_abort_transaction(RfSession *session);

/*
 * Returns true if the remote transaction must commit, too, at the local commit (commit.c). A
 * transaction that only read may end in any way, unless it is serializable: then its rows are valid
 * only once it has committed.
 */
extern bool rf_session_must_commit(RfSession *session);

/* Those with a remote transaction. */
extern List *rf_session_list_open(void);

/* Another one with a remote transaction; NULL if there is no such session. */
extern RfSession *rf_session_other(RfSession *session);
extern void rf_session_set_in_use(bool in_use);
extern void rf_session_disconnect(RfSession *session);

/*
 * Something that may write is about to be sent. Raises an ERROR with rdma_fdw.commit = required
 * where that could not be committed together with earlier writes elsewhere.
 */
extern void rf_session_will_write(RfSession *session);

/*
 * The reason that keeps the session from preparing its transaction: a detail and a hint; NULL:
 * nothing.
 */
extern const char *rf_session_unpreparable(RfSession *session, const char **hint);
extern void rf_session_lost(RfSession *session) __attribute__((noreturn));

/* Like rf_session_settle but keeps buffered loads; for commands that touch no table. */
extern void rf_session_free(RfSession *session);

/*
 * wait.c: for the session's socket (WL_SOCKET_* bits; services interrupts, returns the events); for
 * input, which is taken; until everything queued went out. Raise an error when the connection is
 * lost.
 */
extern uint32 rf_session_wait_event(void);
extern void rf_session_pause(uint32 wait_event, long timeout_ms);	/* for nothing but time, and
																	 * interrupts */
extern int	rf_session_wait(RfSession *session, int events, long timeout_ms);
extern void rf_session_await_input(RfSession *session);
extern void rf_session_flush(RfSession *session);

/*
 * Sends a text, which may have several statements; waits for their results, and returns the last
 * one: the session is free then. Raise an error when the connection is lost.
 */
extern void rf_session_start(RfSession *session, const char *sql);
extern PGresult *rf_session_last_result(RfSession *session);

/*
 * Gives libpq a statement without waiting for anything; false: it refuses. There is one statement
 * in the text, for any values: the node refuses a second one.
 */
extern bool rf_session_send(RfSession *session, const char *sql);

/* Data would have to be copied before libpq has another result. */
extern bool rf_result_is_copy(const PGresult *result);
extern bool rf_result_succeeded(const PGresult *result);

/*
 * The answers to commands that run on several sessions at the same time. take: takes the results
 * that libpq has of the i-th without waiting; true once it is complete, also when asked again.
 * Returns the place of the first error in the order given, or of a later error that is here while
 * the answers before it take long; -1 if all are here without an error.
 */
extern int	rf_sessions_await(RfSession *const *sessions, int count,
							  bool (*take) (void *answers, int i),
							  bool (*is_error) (void *answers, int i), void *answers);
extern PGresult *rf_session_command_deadline(RfSession *session, const char *sql,
											 TimestampTz deadline);
extern bool rf_session_drain_deadline(RfSession *session, TimestampTz deadline);

/*
 * serializable.c: before the remote transaction begins, and before the local one commits that has
 * one there. Raise an ERROR where a SERIALIZABLE transaction uses more than one node, or one and
 * local tables.
 */
extern void rf_serializable_begin(RfSession *session);
extern void rf_serializable_commit(RfSession *session);

/* other_coordinators.c */

/*
 * From REPEATABLE READ on. rf_others_sql returns the command (palloc'd) that takes the snapshot and
 * asks for a report on other coordinators, if the node can give it; the command's sender sets
 * snapshot.others.asked_us. rf_others_note reads the report from the result of that command.
 */
extern char *rf_others_sql(const RfSession *session);
extern void rf_others_note(RfSession *session, const PGresult *result);

/*
 * The snapshots that the sessions have of a statement (0: of the transaction), each with its node's
 * report: returns true if each transaction of another coordinator shows in all of them or nowhere.
 * Asks the nodes where that may be otherwise. If not, new snapshots are needed. Nodes that cannot
 * say are left out.
 */
extern bool rf_others_agree(List *sessions, const RfOthers *const *others, uint64 statement);

/*
 * Before they are taken: wait a little. *deadline: 0 before the first wait; ERROR (55P03) after it.
 */
extern void rf_others_await(TimestampTz *deadline);

/* Snapshots that cannot be taken again do not agree. */
extern void rf_others_raise(void) __attribute__((noreturn));

/* snapshot.c */

/*
 * How deep the remote transaction must be for the next command; the command that opens one level.
 */
extern int	rf_transaction_target(RfSession *session);
extern char *rf_transaction_begin_sql(RfSession *session, int level);

/*
 * What SET CONSTRAINTS ALL has said at a level of the transaction: kept; for the outer level from
 * now on, or forgotten, with all levels if it is 1; as a statement, NULL: nothing.
 */
extern void rf_constraints_remember(int level, bool deferred);
extern void rf_constraints_end(int level, bool commit);
extern const char *rf_constraints_sql(int level);

/*
 * Before the remote transaction begins, wherever that is: every way to begin one calls it. From
 * REPEATABLE READ on, if other sessions have begun, it begins here, with a snapshot that matches
 * theirs. Raises an ERROR where that is impossible.
 */
extern void rf_snapshot_begin(RfSession *session);

/* Returns true if the snapshots of several nodes are to be one. */
extern bool rf_snapshot_is_common(void);

/*
 * How long a node may take for its part in the gate, as commits on other nodes wait for it. The
 * wait for something from it raises an ERROR after the deadline; the session is broken then.
 */
#define RF_BEGIN_TIMEOUT_MS		10000
extern void rf_snapshot_await_input(RfSession *session, TimestampTz deadline);

/*
 * Returns true if a transaction has committed on one of these nodes (by system identifier) that is
 * not finished there. Then wait a little for the resolver to do so. *deadline: 0 before the first
 * wait; ERROR (55P03) after it.
 */
extern bool rf_snapshot_is_in_doubt(const uint64 *nodes, int count);
extern void rf_snapshot_await_resolver(TimestampTz *deadline);

/*
 * After an error in a beginning: connections of which it is not known how deep they are are not
 * used again.
 */
extern void rf_snapshot_give_up(List *sessions);

/* A server and a local user, whose session some transaction needed too late. */
typedef struct RfRemembered
{
	Oid			serverid;
	Oid			userid;
} RfRemembered;

extern List *rf_snapshot_remembered(void);

extern bool rf_snapshot_is_remembered(Oid serverid, Oid userid);
extern void rf_snapshot_forget(void);

/* pipeline.c */

/*
 * Enter pipeline mode, and begin the remote (sub)transactions that are missing to be `target`
 * levels deep. False when libpq refuses. Raises an ERROR where that may not begin.
 */
extern bool rf_pipeline_begin(RfSession *session, int target, RfPipeline *pipeline);

/* All commands were given to libpq: send them. !sent: it refused one, the session is lost. */
extern void rf_pipeline_send(RfSession *session, bool sent);

/*
 * Takes the results that libpq has, without waiting. True when all is here, and the session is out
 * of pipeline mode. Raises an error when the connection is lost.
 */
extern bool rf_pipeline_take(RfSession *session, RfPipeline *pipeline);

/* Wait for all of it; results are cleared when an error is raised. */
extern void rf_pipeline_finish(RfSession *session, RfPipeline *pipeline);
extern void rf_pipeline_clear(RfPipeline *pipeline);

/* Take the result out of it: the caller clears that, the rest is cleared here. */
extern PGresult *rf_pipeline_result(RfPipeline *pipeline);

/* statement_snapshot.c */

/* The snapshot that a statement has on the session's node. */
typedef struct RfStatementSnapshot
{
	uint64		statement;
	uint64		count;			/* the gate's count, as in RfSession */
	bool		used;			/* something was read or written under it */
	RfOthers	others;
} RfStatementSnapshot;

/* How a command of a statement uses the statement's snapshot. */
typedef enum RfSnapshotUse
{
	RF_SNAPSHOT_OWN,			/* its own will do */
	RF_SNAPSHOT_KEEP,			/* its own becomes the statement's: it is the first one */
	RF_SNAPSHOT_KEPT			/* the statement's */
} RfSnapshotUse;

/*
 * A stream of the statement (rf_statement_begin; 0 if it has no statement) is about to be sent to
 * the session, which is settled. Raises an ERROR where other nodes have a snapshot of it and this
 * node does not. *snapshot: unless OWN.
 */
extern RfSnapshotUse rf_statement_snapshot(RfSession *session, uint64 statement,
										   RfStreamSnapshot *snapshot);

/* The same for another command, which cannot keep its own. False: its own will do. */
extern bool rf_statement_snapshot_join(RfSession *session, uint64 statement,
									   RfStreamSnapshot *snapshot);

/* The statement has one snapshot on all of these sessions, which are connected. The same error. */
extern void rf_statement_snapshot_together(RfSession *const *sessions, int count, uint64 statement);

/*
 * Each of these has kept a snapshot of the statement when this returns, and it is one where that is
 * common.
 */
extern void rf_statement_snapshot_keep(RfSession *const *sessions, int count, uint64 statement);

/* A next statement begins; all statements but these are over. */
extern void rf_statement_snapshots_end(RfOpenStatements open);

/* The remote transaction is given up, and they with it. */
extern void rf_statement_snapshots_forget(RfSession *session);

/*
 * In a pipeline: a command that has the node keep the snapshot that it takes (flags:
 * RF_STREAM_KEEP), or run the session's next command under it (RF_STREAM_KEPT). False when libpq
 * refuses.
 */
extern bool rf_statement_snapshot_send(RfSession *session, const RfStreamSnapshot *snapshot,
									   uint32 flags);

/*
 * credentials.c: adds the connection options for the user's own SCRAM keys (returns how many, at
 * most RF_CREDENTIAL_OPTIONS); raises an ERROR if the user has no credentials; finds the
 * credentials that were used; raises an ERROR if they were not the user's own.
 */
#define RF_CREDENTIAL_OPTIONS	3
extern int	rf_credentials_options(ForeignServer *server, UserMapping *user, const char **keywords,
								   const char **values);
extern void rf_credentials_check(ForeignServer *server, UserMapping *user);
extern void rf_credentials_connected(RfSession *session, ForeignServer *server, UserMapping *user);
extern void rf_credentials_check_session(RfSession *session, UserMapping *user);

/* session_settings.c */

/*
 * Settings that change how text is read or written: names, literals, dates and times, floating
 * point numbers, bytea, xml, arrays, money; the meaning of "= NULL"; and whether an index may leave
 * rows out.
 */
#define RF_PINNED_SETTINGS \
	"(VALUES ('search_path', '" RF_SEARCH_PATH "'), ('standard_conforming_strings', 'on'), " \
	"('timezone', 'UTC'), ('datestyle', 'ISO'), ('intervalstyle', 'postgres'), " \
	"('extra_float_digits', '1'), ('bytea_output', 'hex'), ('xmloption', 'content'), " \
	"('array_nulls', 'on'), ('lc_monetary', 'C'), ('transform_null_equals', 'off'), " \
	"('gin_fuzzy_search_limit', '0')) AS s(name, value)"

/* For the transaction that it runs in. set_config() raises an error there if it refuses a value. */
#define RF_LOCAL_SETTINGS_SQL \
	"SELECT pg_catalog.set_config(name, value, true) FROM " RF_PINNED_SETTINGS

extern void rf_session_pin_settings(RfSession *session);

/*
 * Rows will be read or written: the node must have the placement that is on record, and so must the
 * snapshot of a remote transaction that is under way. Waits for a move of rows that is about to be
 * finished there. ERROR if the placements differ.
 */
extern void rf_session_verify_placement(RfSession *session);

/* remote_error.c: the row of a load that an error is about, counted from 1; 0: not known */
extern uint64 rf_error_row(const PGresult *result);

/* query.c */
#define RF_HELLO_SQL		"SELECT rdma_internal.hello($1)"
#define RF_STREAM_SQL		"SELECT rdma_internal.stream($1, $2, $3, $4)"
extern const Oid rf_stream_types[4];
extern void rf_session_hello(RfSession *session, bool need_token);

/* peer.c */
extern int	rf_session_peer(RfSession *session);
extern int	rf_session_try_peer(RfSession *session);

/*
 * cancel.c: start, then wait; or both. False: the request was not sent, or is still under way. As
 * it might then cancel a later command, the session is broken.
 */
extern void rf_session_cancel_start(RfSession *session);
extern bool rf_session_cancel_finish(RfSession *session, TimestampTz deadline);
extern bool rf_session_cancel(RfSession *session, int timeout_ms);

/* transaction.c: once per backend; sets rf_session_users, too */
extern void rf_transaction_register(void);

/* load.c */
extern void rf_load_interrupt(RfLoad *load);
extern void rf_load_write_all(RfSession *session);
extern void rf_load_lose(RfLoad *load);

/* link.c */
extern void rf_link_begin(RfStream *stream);
extern void rf_link_observe(RfStream *stream);

/* stream_set.c: does it run, so that its socket can be waited for? */
extern bool rf_stream_is_awaited(const RfStream *member);
extern void rf_stream_set_leave(RfStream *stream);

/* stream_end.c */
extern void rf_stream_error_context(void *arg);

/* Raises the error that made the flow fail, if it did. */
extern void rf_stream_check_flow(RfStream *stream);

/* A batch or the answer of a timed stream came; and its reply, with the node's own times. */
extern void rf_stream_note_time(RfStream *stream);
extern void rf_stream_note_run(RfStream *stream);

/* All readers of a shared stream together; also the share of each. */
extern void rf_stream_share_stats(RfStream *stream);

/* Ours goes back; the sender is told to stop if it has not ended. */
extern void rf_stream_close_flow(RfStream *stream);

/* A stream that was taken out of its session's list. */
extern void rf_stream_free(RfStream *stream);
extern void rf_stream_abandon(RfStream *stream);
extern void rf_stream_lose(RfStream *stream);
extern void rf_stream_release_owner(RfSession *session, ResourceOwner owner);
extern void rf_stream_end_level(RfSession *session, int level, bool commit);

/* stream_answer.c */

/*
 * Takes the results that libpq has, without waiting. True when the answer is complete and the
 * session is free again; its contents are in stream->answer. Raises an error when the connection is
 * lost.
 */
extern bool rf_stream_collect(RfStream *stream);

/*
 * The remote command ended: with an error, or with counts that must equal the counts of the rows
 * that came.
 */
extern void rf_stream_answered(RfStream *stream);
extern bool rf_stream_set_lacks_buffers(RfStream *stream);

#endif
