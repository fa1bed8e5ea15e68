/*
 * remote.h - the coordinator's sessions on data nodes (libpq): connections, transactions, streams,
 * cancel.
 *
 * One session per user mapping, kept for the life of the backend. Its remote transaction begins
 * with the first command that needs it, in the same round trip, and follows the local one: there is
 * a savepoint for each subtransaction that used it. Rows travel by libpq only if a result is small.
 * Does not decode batches (batch/) and knows nothing of foreign tables (fdw/).
 *
 * Everything here belongs to one backend. Needs PostgreSQL.
 */
#ifndef RF_REMOTE_H
#define RF_REMOTE_H

#include "postgres.h"

#include "catalog/objectaccess.h"
#include "executor/tuptable.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "nodes/nodes.h"
#include "port/atomics.h"

#include "rdma_fdw/wire.h"

typedef struct RfSession RfSession;
typedef struct RfStream RfStream;

/*
 * The user's mapping, or the one for PUBLIC. ERROR, with the server's name, if there is neither:
 * GetUserMapping() does not name it before release 17.
 */
extern UserMapping *rf_user_mapping(Oid userid, Oid serverid);

/*
 * Returns the OID of the user's mapping for the server, else the OID of the mapping for PUBLIC;
 * InvalidOid if the server has neither.
 */
extern Oid	rf_mapping_id(Oid userid, Oid serverid);

/* Returns true for a server of this wrapper without the option `nodes`. */
extern bool rf_is_node(const ForeignServer *server);

/*
 * OIDs of a server's foreign tables, of all servers for InvalidOid. Sorted, so that two sessions
 * that lock them do not wait for each other.
 */
extern List *rf_foreign_tables(Oid serverid);

/*
 * The session of a user mapping, connected. in_transaction: commands run inside the remote
 * transaction (and savepoints) that belongs to the local one. Valid until the local transaction
 * ends.
 */
extern RfSession *rf_session_get(UserMapping *user, bool in_transaction);

/*
 * The same in the remote transaction, for a statement (rf_statement_begin; 0: for something else).
 * If its node could not be connected when the statement began, raises the error of that attempt,
 * however the node is now.
 */
extern RfSession *rf_statement_session(uint64 statement, UserMapping *user);

/*
 * The session of the user's mapping for one of these servers, all of which have the same rows, in
 * the remote transaction; *user: set to the mapping, in the current memory context. A transaction
 * stays with the server that it was given first. Otherwise it is a server that the transaction uses
 * already, or that is connected, or that can be connected, in the order given, but no server that
 * could not be connected when the statement began (0: there is no statement). ERROR when no server
 * is left, or no server has a mapping.
 */
extern RfSession *rf_session_get_any(uint64 statement, Oid userid, List *servers,
									 UserMapping **user);

/* Changes whenever something is done in the session, but not when results are read. */
extern uint32 rf_session_uses(RfSession *session);

/*
 * In a PG_CATCH: closes a session whose remote transaction began with the failed command, and is
 * good for nothing else, if it failed because the connection was lost. From then on
 * rf_session_get_any prefers other servers. False: the error is of another kind, or the session was
 * used for more, as its number of uses tells.
 */
extern bool rf_session_forsake(UserMapping *user, uint32 uses);

/*
 * Run one query that writes nothing and wait, interruptibly. Raises the remote error. The caller
 * PQclears. rf_session_execute: the same for a command that may write. The text is one statement:
 * the node refuses a second one.
 */
extern PGresult *rf_session_query(RfSession *session, const char *sql);
extern PGresult *rf_session_execute(RfSession *session, const char *sql);

/*
 * rf_session_query for a question of our own: ERROR that names the server unless the answer has so
 * many columns, and at least and at most so many rows.
 */
extern PGresult *rf_session_ask(RfSession *session, const char *sql, int columns, int least,
								int most);

/*
 * ERROR, and the result is cleared, if what came as text is not valid in this database's encoding.
 */
extern void rf_session_check_text(RfSession *session, PGresult *result, const char *sql);

extern void rf_session_set_search_path(RfSession *session, const char *path);

/*
 * rf_session_execute on sessions that differ, at the same time. Raises the error of the first
 * session that has one, in the order given, unless that takes long; the abort cancels the rest.
 * by_user: the user wrote the text, which may be several statements.
 */
extern void rf_sessions_execute(RfSession *const *sessions, int count, const char *sql,
								bool by_user, PGresult **results);

/*
 * The same for a command that cannot run in a transaction block: outside of the remote transaction
 * if that has not begun, else the data node refuses it. path: the search_path for it, which a
 * pooler that shares sessions cannot be given.
 */
extern void rf_sessions_execute_bare(RfSession *const *sessions, int count, const char *path,
									 const char *sql, PGresult **results);

/* Raise a remote error with its SQLSTATE, detail, hint and context; clears result. */
extern void rf_session_raise(RfSession *session, PGresult *result, const char *sql)
			__attribute__((noreturn));

/*
 * Reports an answer that our function on the server would not have given. ERROR that names the
 * server; clears result, which may be NULL.
 */
extern void rf_session_bad_answer(RfSession *session, PGresult *result, const char *sql)
			__attribute__((noreturn));

/* PG_VERSION_NUM of the data node. */
extern int	rf_session_server_version(RfSession *session);

/*
 * For forming exchanges: the session's node (whose engine is then connected with ours), the host
 * where libpq found it, the server's name, and whether the remote transaction has begun.
 */
extern const RfNodeId *rf_session_node(RfSession *session);

/*
 * After that: the encoding of its database. *portable: values cannot be sent to it as they are
 * stored, see RF_STREAM_PORTABLE.
 */
extern int	rf_session_encoding(RfSession *session, bool *portable);
extern const char *rf_session_host(RfSession *session);
extern const char *rf_session_server_name(RfSession *session);
extern bool rf_session_in_transaction(RfSession *session);

/*
 * Each transaction may get another session on the data node: there is a connection pooler in
 * between.
 */
extern bool rf_session_is_pooled(RfSession *session);

/* Returns true if nothing has been done in the remote transaction, if it has begun at all. */
extern bool rf_session_is_fresh(RfSession *session);

/*
 * The lowest and the highest number of statements that may still go on; 0 if there is no such
 * statement.
 */
typedef struct RfOpenStatements
{
	uint64		oldest;
	uint64		newest;
} RfOpenStatements;

/* A statement uses one of several nodes, which have the same rows. */
typedef struct RfNodeChoice
{
	Oid			userid;
	List	   *servers;		/* OidList */
	UserMapping **user;			/* set to the chosen server, in the current memory context */
} RfNodeChoice;

/*
 * A statement is about to use these nodes, as these users (UserMapping, of servers without
 * `nodes`), and one node of each of the choices (RfNodeChoice). It sees all of them in one
 * snapshot.
 *
 * Which nodes it can use is decided here, once: connects and begins remote transactions where
 * several nodes are used, and costs nothing otherwise. A node that cannot be connected is down for
 * this statement, which goes on if it does not need the node; rf_statement_session() raises the
 * error if it does. Statements that begin later try again, including statements that this statement
 * calls. A choice falls on a node that the statement uses anyway, if it can.
 *
 * Raises an ERROR where there is no common snapshot any more (40001), while a transaction on one of
 * the nodes is in doubt (55P03), or where no node of a choice can be connected. Returns the number
 * of the statement, for its commands, never 0. open: other statements that go on, namely callers of
 * this one and cursors.
 */
extern uint64 rf_statement_begin(List *users, List *choices, RfOpenStatements open);

/*
 * The transaction is about to write. Commands that the statement sends to these nodes later see
 * them as they are now. A round trip where a node has kept no snapshot of it yet.
 */
extern void rf_statement_keep(List *users, uint64 statement);

/*
 * Returns true if the transaction begins on all nodes of a server with `nodes` of which it uses
 * one.
 */
extern bool rf_statement_wants_all(void);

/*
 * Ends the remote transactions of a statement's sessions, in which nothing of importance was done,
 * and begins them again, in one snapshot (statement: 0 if it began no statement). Their resources
 * on the nodes are free then. Closes their streams and waits for running commands.
 */
extern void rf_statement_restart(RfSession *const *sessions, int count, uint64 statement);

/* Returns true if its database connection is under TLS or GSSAPI encryption. */
extern bool rf_session_encrypted(RfSession *session);

/*
 * The same command is about to be sent to all of these sessions: their remote transactions begin
 * together, before any of them runs it. Nothing to do in READ COMMITTED.
 */
extern void rf_sessions_begin(RfSession *const *sessions, int count);

/*
 * Returns true if a stream's query occupies the session. Another command would store the rest of
 * that stream first.
 */
extern bool rf_session_is_busy(RfSession *session);

/*
 * Make the session ready for another command: writes the rows of loads, finishes running commands,
 * and stores the rows of a stream here.
 */
extern void rf_session_settle(RfSession *session);

/*
 * Runs SET CONSTRAINTS ALL on each node that the transaction has used, and repeats it on each node
 * where a part of the transaction begins later.
 */
extern void rf_transaction_set_constraints(bool deferred);

/* ---------- statements with parameters (command.c) ---------- */

/*
 * A statement for a session that was obtained with in_transaction. It lives in the current memory
 * context. Values are text, NULL is NULL; the remote parser infers the types of $1, $2, ... writes:
 * it may write; pass true when in doubt. Execute waits, interruptibly; raises the remote error; the
 * caller PQclears.
 */
typedef struct RfCommand RfCommand;

extern RfCommand *rf_command_create(RfSession *session, const char *sql, int param_count,
									bool writes);
extern PGresult *rf_command_execute(RfCommand *command, const char *const *values);

/*
 * sql runs before it each time, in the same round trip; its parameters are the command's first
 * ones. The text has to live as long as the command.
 */
extern void rf_command_precede(RfCommand *command, const char *sql, int param_count);

/* It runs under the snapshot of the statement (rf_statement_begin) if that has one there. */
extern void rf_command_in_statement(RfCommand *command, uint64 statement);

/*
 * The two halves of rf_command_execute, for commands that run on several sessions at the same time.
 * The session must not be used between them. The result may be a remote error, which
 * rf_command_raise raises (and clears).
 */
extern void rf_command_send(RfCommand *command, const char *const *values);
extern PGresult *rf_command_receive(RfCommand *command);
extern void rf_command_raise(RfCommand *command, PGresult *result) __attribute__((noreturn));

/*
 * Commands on sessions that differ, run at the same time. Raises the error of the first session
 * that has one, in the order given, unless that takes long; the abort cancels the rest. The caller
 * PQclears.
 */
extern void rf_commands_execute(RfCommand **commands, int count, const char *const *values,
								PGresult **results);

/* ---------- streams: a query's rows as column batches ---------- */

typedef struct RfStreamSpec
{
	const char *sql;
	const char *source;			/* for messages: the remote relation */
	int			param_count;
	const char *const *param_types; /* type names, schema-qualified */
	const char *const *param_values;	/* text; NULL: NULL */
	int			column_count;
	const RfStreamColumn *columns;
	uint32		receive_buffers;
	uint32		receive_buffer_size;	/* bytes of each */
	uint32		inline_limit;	/* bytes of rows that may come within libpq's answer */
	double		estimated_rows;
	uint64		statement;		/* rf_statement_begin, whose snapshot it reads; 0: its own */
	bool		accept_pages;	/* batches of heap tuples will do, too */
	int			nodes_there;	/* that run this statement on one machine with this one; 0: not
								 * known */

	/*
	 * How long a batch must stay where it is. in_place: batches are read in the receive buffer.
	 * While one is held the session must not be used otherwise, unless `moved` is given: it tells
	 * the owner that the batch has been moved, or (NULL) is gone with the subtransaction in which
	 * the stream began. Otherwise every batch is copied first, which frees the buffer at once.
	 */
	bool		in_place;
	void		(*moved) (void *owner, const void *batch, uint32 length);
	void	   *owner;

	bool		keep;			/* fetch everything first and keep it, so that rf_stream_rewind
								 * works */

	/*
	 * rf_stream_share will be called: rows come by a flow however few they are, and the flow is
	 * opened before the query runs. Not with in_place, moved and keep.
	 */
	bool		shared;

	bool		timed;			/* EXPLAIN ANALYZE asks for first_batch_us to exchange_wait_us */
	uint32		explain;		/* RF_STREAM_EXPLAIN and what it has; 0: no */
	StringInfo	plan;			/* with it: gets the node's plan of the last execution that ended;
								 * lives as long as the owner */
} RfStreamSpec;

#define RF_STREAM_SHARERS	32	/* processes that may read one: RF_SHARE_MEMBERS */

/* Counters of streams; a scan adds up the streams of its rescans. */
typedef struct RfStreamStats
{
	uint64		streams;		/* remote executions */
	uint64		inlined;		/* of them, answered within libpq's reply */
	uint64		rows;
	uint64		batches;
	uint64		bytes;			/* of batches */
	uint64		fragments;		/* slots of batches larger than one receive buffer */
	uint64		waits;			/* times the backend slept for data */
	uint64		wait_us;
	uint64		spooled_bytes;	/* stored here because the session was needed elsewhere, or for a
								 * rewind */
	uint64		credits;		/* messages that returned buffers to the sender */
	uint64		work_requests;	/* from here on: the sender's side, of streams that ended */
	uint64		merged;
	uint64		chained;
	uint64		credit_stalls;
	uint64		sender_waits;
	uint64		sender_wait_us;
	uint64		page_rows;		/* of `rows`, rows that came as tuples of heap pages, */
	uint64		pages_box;		/* pages with the bytes between their tuples, */
	uint64		pages_packed;	/* tuples alone, */
	uint64		useful_bytes;	/* bytes of these tuples */
	uint64		gap_bytes;		/* and bytes between */
	uint64		pages_gathered; /* pages whose tuples left from where they lay, */
	uint64		pages_strided;	/* of these the wanted bytes, at equal distances */
	uint64		uncopied_bytes; /* and bytes that did, of all pages */
	uint64		first_batch_us; /* of timed streams: from the request to the first batch, */
	uint64		last_batch_us;	/* or answer, and to the last one; */
	uint64		run_us;			/* of streams that ended, how long the sender ran, */
	uint64		reader_wait_us; /* waited for this reader, */
	uint64		exchange_wait_us;	/* and for other nodes */
	uint32		sharers;		/* a bit per process that joined a stream: the leader's, and worker
								 * i's is i + 1 */
	uint64		sharers_batches[RF_STREAM_SHARERS]; /* and how many of the batches it took */
	uint32		buffers;		/* of the last stream that used its flow */
	uint32		buffer_size;
	char		transport[16];	/* how those came: shm, tcp, verbs; "" = never */
	char		encryption[32]; /* how they were encrypted, "none"; "" = they crossed no network */
} RfStreamStats;

/*
 * Start a remote query in the session's transaction: sends it and returns. Finishes the session's
 * other commands first. The spec is needed during the call only. *stream is set to NULL when the
 * stream goes away by itself, at the end of the transaction; so the variable must live as long as
 * the stream, or rf_stream_orphan must be called before it goes.
 */
extern void rf_stream_start(RfSession *session, const RfStreamSpec *spec, RfStream **stream);

/*
 * Next batch, valid until the next call on this stream; false at the end, when all counts were
 * checked. A node that finds no buffers is an error here, also of tied streams.
 */
extern bool rf_stream_next(RfStream *stream, const void **batch, uint32 *length);

/*
 * The same without sleeping. RF_STREAM_NOTHING: nothing is here yet; something may be once the
 * process latch is set or the session's socket is readable.
 */
typedef enum RfStreamPoll
{
	RF_STREAM_BATCH,
	RF_STREAM_END,
	RF_STREAM_NOTHING,
	RF_STREAM_NO_BUFFERS		/* only of tied streams, see there */
} RfStreamPoll;

extern RfStreamPoll rf_stream_try(RfStream *stream, const void **batch, uint32 *length);

/*
 * How many nodes' streams one query may have open at a time. Each node's buffers are in segments of
 * their own, so a query over more nodes than segments would wait for itself.
 */
extern int	rf_stream_limit(void);

/*
 * Return the buffer of the current batch to the sender without asking for the next batch.
 */
extern void rf_stream_release(RfStream *stream);

/*
 * Store the rest of the stream here, which frees its session. Any other use of the session does
 * this.
 */
extern void rf_stream_store(RfStream *stream);

/*
 * Store the rows so far, the batch that was read last (NULL: no batch) and the data behind it, to
 * be read again first; for an owner that does not want it yet, but whose node waits for it to be
 * taken. RF_STREAM_NOTHING: the rest has not come yet. Not once its batches are used in place.
 */
extern RfStreamPoll rf_stream_put_aside(RfStream *stream, const void *batch, uint32 length);

/*
 * Streams, just started, of one statement on several nodes, which depend on each other
 * (stream_set.c): no stream may be left unread while another is waited for, so that storing one
 * stores all; and when one fails because another stream's node did, the error is that node's. Their
 * owners close all of them together. may_retry: when a node finds no buffers, that is no error but
 * RF_STREAM_NO_BUFFERS: the owner closes all of them, gives their transactions up, which began with
 * them, and starts again later. Until it says that it has used a row, or one is stored whole.
 */
extern void rf_stream_tie(RfStream *const *streams, int count, bool may_retry);

extern void rf_stream_set_used(RfStream *stream);

/*
 * Sleep until one of the streams tied to this one may have something, or timeout_ms passed (-1: no
 * limit); all streams of interest were polled before and had nothing. False: the time passed.
 */
extern bool rf_stream_set_wait(RfStream *stream, long timeout_ms);

/*
 * Returns true if its query occupies the session. And that session's socket, for callers that sleep
 * on something else.
 */
extern bool rf_stream_is_running(const RfStream *stream);
extern pgsocket rf_stream_socket(const RfStream *stream);

/*
 * Begin again with the first batch. False: the stream does not keep its rows, so start another one.
 */
extern bool rf_stream_rewind(RfStream *stream);

/* Close the stream, at any time: tells the sender to stop if it has not ended. */
extern void rf_stream_close(RfStream *stream, RfStreamStats *stats);

/*
 * Ends streams of one statement that nobody reads further, so that their plans are here; they stay
 * open for rf_stream_close. NULL entries are skipped.
 */
extern void rf_streams_finish(RfStream *const *streams, int count);

/* Called before the owner's memory is freed. Raises no error. */
extern void rf_stream_orphan(RfStream *stream);

/* Adds the stream's counters to *stats; rf_stream_close does it too. */
extern void rf_stream_stats(RfStream *stream, RfStreamStats *stats);
extern void rf_stream_stats_add(const RfStreamStats *from, RfStreamStats *to);

/* ---------- streams that parallel workers read, too (stream_share.c) ---------- */

/* The address of a shared stream, for the query's shared memory. */
typedef struct RfStreamAddress
{
	bool		shared;
	uint32		share;
	uint64		key;
} RfStreamAddress;

/*
 * Leader, for a stream started with RfStreamSpec.shared and not read yet: waits until the data node
 * has opened its flow, and raises its error if it has not. From then on each batch goes to one of
 * the processes that ask for one, the leader or a worker.
 */
extern void rf_stream_share(RfStream *stream, RfStreamAddress *address);

/*
 * Leader: ends the workers' reading. If everything was read, waits for the data node's answer and
 * checks its counts.
 */
extern void rf_stream_share_end(RfStream *stream);

/*
 * Worker, in the current memory context: joins the streams of one statement, on several nodes or
 * one. Streams that are not shared have no rows.
 */
typedef struct RfStreamReader RfStreamReader;

extern RfStreamReader *rf_stream_join(const RfStreamAddress *addresses, int count,
									  const char *source);

/*
 * Next batch of any of the streams, valid until the next call; false: all batches were read, or the
 * leader has stopped. If a stream fails the leader raises the error; ERROR here after a while if it
 * does not.
 */
extern bool rf_stream_reader_next(RfStreamReader *reader, const void **batch, uint32 *length);

/* ---------- the network between this node and a server's (link.c) ---------- */

typedef struct RfLink
{
	uint32		round_trip_us;	/* 0: not known */
	uint64		bandwidth;		/* bytes per second; 0 if not known because no pull waited for it */
} RfLink;

/* The measurements of the engine and of pulls. Opens no connection. */
extern void rf_server_link(ForeignServer *server, RfLink *link);

/*
 * ---------- loads: rows to a table there, new or to be changed, as column batches (load.c)
 * ----------
 */

typedef struct RfLoad RfLoad;

/* All pointers must stay valid as long as the load. */
typedef struct RfLoadSpec
{
	/*
	 * CMD_INSERT; CMD_UPDATE or CMD_DELETE: the first place_count columns are ctid and tableoid of
	 * a row there, and the columns of its distribution key, the others are its new values.
	 */
	CmdType		operation;
	int			place_count;
	const char *sql;			/* what writes one of the rows, for messages */
	const void *part;			/* of the statement: loads with the same part need no order */
	const char *relation;		/* remote name, quoted and qualified */
	int			column_count;
	const char *const *column_names;	/* remote names, bare */
	TupleDesc	desc;			/* of the slots that come */
	const AttrNumber *attnums;	/* source of the columns' values */
	const char *conflict;		/* INSERT: its ON CONFLICT, where the table is t; or NULL */
	uint32		receive_buffers;
	uint32		receive_buffer_size;	/* bytes of each */
	uint32		inline_limit;	/* bytes of rows that travel within one command */

	/* NULL, or called before an error is raised that is about this row, counted from 1 */
	void		(*failed) (void *owner, uint64 row);
	void	   *owner;
} RfLoadSpec;

typedef struct RfLoadStats
{
	uint64		rows;			/* of requests that were answered */
	uint64		batches;
	uint64		bytes;			/* of batches */
	uint64		requests;		/* calls of rdma_internal.store() */
	uint64		flows;			/* of them, by flow */
	uint64		refused;		/* rows, see rf_load_add */
	uint64		waits;			/* times the backend slept for a free slot */
	uint64		wait_us;
	uint32		buffers;		/* of the last flow */
	uint32		buffer_size;
} RfLoadStats;

/*
 * All rows go to all of these nodes, and are locked on the first one first. Sends nothing yet. The
 * load lives in the current memory context; rows not sent by rf_load_finish are lost with it. The
 * sessions were obtained with in_transaction. Errors of the data nodes may be raised by any later
 * call.
 */
extern RfLoad *rf_load_create(RfSession *const *sessions, int count, const RfLoadSpec *spec);

/*
 * Add a row. False: each of the latest rows was followed by another use of a session, so a separate
 * statement is cheaper, or the nodes' encodings differ; the caller must write this row so.
 */
extern bool rf_load_add(RfLoad *load, TupleTableSlot *slot);

/*
 * Write all rows added so far; *written: for each node, the number of rows written since the last
 * call. More rows may follow.
 */
extern void rf_load_finish(RfLoad *load, uint64 *written);
extern const RfLoadStats *rf_load_stats(RfLoad *load, int node);

/*
 * Until the next call, rows and bytes that loads of this process send are added to these counters,
 * batch by batch; NULL stops counting. Only this process writes them.
 */
extern void rf_load_watch(pg_atomic_uint64 *rows, pg_atomic_uint64 *bytes);

/*
 * The options that libpq understands and a server or user mapping may hold (conninfo.c). Kept for
 * the life of the backend.
 */
typedef struct RfConnectionOption
{
	const char *name;
	bool		in_user_mapping;	/* identity and secrets; false: of the server */
} RfConnectionOption;

extern const RfConnectionOption *rf_connection_options(int *count);

/*
 * Picks them out of a server's or a user mapping's options into the arrays that
 * PQconnectStartParams() wants; the caller provides room for list_length(options) entries. Returns
 * how many were stored. The strings belong to the list.
 */
extern int	rf_extract_connection_options(List *options, const char **keywords,
										  const char **values);

/*
 * Atomic commit and deadlocks over nodes: shared memory, asked for and made when the library is
 * preloaded; the background worker that starts others (resolver.c); and what the hook of object
 * accesses saw, where servers must not be dropped while a transaction is to be finished there.
 */
extern void rf_commit_shmem_request(void);
extern void rf_commit_shmem_startup(void);
extern void rf_gate_shmem_request(void);
extern void rf_gate_shmem_startup(void);
extern void rf_waiting_shmem_request(void);
extern void rf_waiting_shmem_startup(void);
extern void rf_resolver_register(void);
extern void rf_commit_object_access(ObjectAccessType access, Oid class_id, Oid object_id);

/* Parts of transactions of this database that are to be finished on nodes, as far as is known. */
extern int	rf_commit_in_doubt(void);

/* One of a server's, a user mapping's or a foreign table's options; NULL: it is not given. */
extern DefElem *rf_option_find(List *options, const char *name);

#endif
