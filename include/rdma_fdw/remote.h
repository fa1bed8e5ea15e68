/*
 * remote.h - the coordinator's sessions on data nodes (libpq): connections, transactions, streams,
 * cancel.
 *
 * One session per user mapping, kept for the life of the backend. Its remote transaction begins
 * with the first command that needs it, in the same round trip, and follows the local one: a
 * savepoint per subtransaction that used it. Rows do not travel by libpq except the small-result
 * path. Does not decode batches (batch/) and knows nothing of foreign tables (fdw/).
 *
 * Everything here belongs to one backend. Needs PostgreSQL.
 */
#ifndef RF_REMOTE_H
#define RF_REMOTE_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "foreign/foreign.h"
#include "libpq-fe.h"
#include "nodes/nodes.h"

#include "rdma_fdw/wire.h"

typedef struct RfSession RfSession;
typedef struct RfStream RfStream;

/*
 * The session of a user mapping, connected. in_transaction: what follows runs inside the remote
 * transaction (and savepoints) that belongs to the local one. Stays valid until the local
 * transaction ends.
 */
extern RfSession *rf_session_get(UserMapping *user, bool in_transaction);

/*
 * Run one query that writes nothing and wait, interruptibly. Raises the remote error. The caller
 * PQclears. rf_session_execute: the same for a command that may write.
 */
extern PGresult *rf_session_query(RfSession *session, const char *sql);
extern PGresult *rf_session_execute(RfSession *session, const char *sql);
extern void rf_session_set_search_path(RfSession *session, const char *path);

/* Raise a remote error with its SQLSTATE, detail, hint and context; clears result. */
extern void rf_session_raise(RfSession *session, PGresult *result, const char *sql) __attribute__((noreturn));

/* PG_VERSION_NUM of the data node. */
extern int	rf_session_server_version(RfSession *session);

/*
 * What forming exchanges needs to know: the node that it is connected to (whose engine is connected
 * with ours then), as libpq found it and as it calls itself; and has its remote transaction begun?
 */
extern const RfNodeId *rf_session_node(RfSession *session);
extern const char *rf_session_host(RfSession *session);
extern const char *rf_session_server_name(RfSession *session);
extern bool rf_session_in_transaction(RfSession *session);

/*
 * The remote transaction, in which nothing was done that matters, is given up; another may begin.
 * Its streams are closed; what runs is waited for.
 */
extern void rf_session_abort_transaction(RfSession *session);

/* Does a stream's query occupy it? Whatever is started now would store the rest of that first. */
extern bool rf_session_is_busy(RfSession *session);

/*
 * Make it ready for something else: rows of loads are written, what runs there is finished, and
 * rows of a stream are stored here.
 */
extern void rf_session_settle(RfSession *session);

/* ---------- statements with parameters (command.c) ---------- */

/*
 * A statement for a session that was got with in_transaction, in the current memory context. Values
 * are text, NULL is NULL; their types are what the remote parser makes of $1, $2, ... It goes with
 * its memory context. writes: it may write; when in doubt it does. Execute waits, interruptibly;
 * raises the remote error; the caller PQclears.
 */
typedef struct RfCommand RfCommand;

extern RfCommand *rf_command_create(RfSession *session, const char *sql, int param_count, bool writes);
/* Before the first execution: types of the parameters that it is told, InvalidOid for others. Kept, not copied. */
extern void rf_command_set_types(RfCommand *command, const Oid *types);
extern PGresult *rf_command_execute(RfCommand *command, const char *const *values);

/*
 * The two halves of that, for commands that run on several sessions at the same time. Between them
 * nothing else happens on the session. The result may be a remote error, which rf_command_raise
 * raises (and clears).
 */
extern void rf_command_send(RfCommand *command, const char *const *values);
extern PGresult *rf_command_receive(RfCommand *command);
extern void rf_command_raise(RfCommand *command, PGresult *result) __attribute__((noreturn));

/* ---------- streams: a query's rows as column batches ---------- */

typedef struct RfStreamSpec
{
	const char *sql;
	const char *source;			/* what the rows are, for messages: the remote relation */
	int			param_count;
	const char *const *param_types; /* type names, schema-qualified */
	const char *const *param_values;	/* text; NULL: NULL */
	int			column_count;
	const RfStreamColumn *columns;
	uint32		receive_buffers;
	uint32		receive_buffer_size;	/* bytes of each */
	uint32		inline_limit;	/* bytes of rows that may come within libpq's answer */
	double		estimated_rows;
	bool		accept_pages;	/* batches of heap tuples will do, too */

	/*
	 * How long a batch must stay where it is. in_place: batches are read in the receive buffer;
	 * nobody else may use the session while one is held, unless `moved` is given: it tells the
	 * owner that the batch it reads lies elsewhere now, or (NULL) is gone with the subtransaction in
	 * which the stream began. Otherwise every batch is copied first, which frees the buffer at once.
	 */
	bool		in_place;
	void		(*moved) (void *owner, const void *batch, uint32 length);
	void	   *owner;

	bool		keep;			/* fetch everything first and keep it, so that rf_stream_rewind works */

	/*
	 * rf_stream_share will be called: rows come by a flow however few they are, and the flow is
	 * opened before the query runs. Not with in_place, moved and keep.
	 */
	bool		shared;
} RfStreamSpec;

#define RF_STREAM_SHARERS	32	/* processes that may read one: RF_SHARE_MEMBERS */

/* What streams did; a scan adds up those of its rescans. */
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
	uint64		spooled_bytes;	/* stored here because the session was needed elsewhere, or for a rewind */
	uint64		credits;		/* messages that returned buffers to the sender */
	uint64		work_requests;	/* from here on: the sender's side, of streams that ended */
	uint64		merged;
	uint64		chained;
	uint64		credit_stalls;
	uint64		sender_waits;
	uint64		sender_wait_us;
	uint64		page_rows;		/* of `rows`, those that came as tuples of heap pages, */
	uint64		pages_box;		/* pages with what lay between their tuples, */
	uint64		pages_packed;	/* tuples alone, */
	uint64		useful_bytes;	/* bytes of these tuples */
	uint64		gap_bytes;		/* and bytes between */
	uint64		pages_gathered; /* pages whose tuples left from where they lay, */
	uint64		pages_strided;	/* of which what counts did, at equal distances */
	uint64		uncopied_bytes; /* and bytes that did, of all pages */
	uint32		sharers;		/* a bit per process that joined a stream: the leader's, and worker i's is i + 1 */
	uint64		sharers_batches[RF_STREAM_SHARERS];	/* and how many of the batches it took */
	uint32		buffers;		/* of the last stream that used its flow */
	uint32		buffer_size;
	char		transport[16];	/* how those came: shm, tcp, verbs; "" = never */
} RfStreamStats;

/*
 * Start a remote query in the session's transaction: sends it and returns. Finishes what else runs
 * on the session first. The spec is needed during the call only. *stream is set to NULL when the
 * stream goes away by itself, at the end of the transaction; so the variable must live as long as
 * the stream, or rf_stream_orphan must be called before it goes.
 */
extern void rf_stream_start(RfSession *session, const RfStreamSpec *spec, RfStream **stream);

/*
 * Next batch, valid until the next call on this stream; false at the end, when all counts were
 * checked.
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
 * How many nodes' streams one query may have open at a time. Every node's buffers lie in segments
 * of their own, so a query over more nodes than there are segments would wait for itself.
 */
extern int	rf_stream_limit(void);

/*
 * Its batch is not read any more, although the next one is not wanted now: the sender gets the
 * buffer back.
 */
extern void rf_stream_release(RfStream *stream);

/* Store the rest of it here, which frees its session: what any other use of the session does. */
extern void rf_stream_store(RfStream *stream);

/*
 * Store what has come of it, the batch that was read last (NULL: none) and what is behind that, to
 * be read again first; for an owner that does not want it yet, but whose node waits for it to be
 * taken. RF_STREAM_NOTHING: the rest has not come yet. Not once its batches are used in place.
 */
extern RfStreamPoll rf_stream_put_aside(RfStream *stream, const void *batch, uint32 length);

/*
 * Streams, just started, of one statement on several nodes, which depend on each other (stream_set.c):
 * none may be left unread while another one is waited for, so that storing one stores all; and when
 * one fails because another one's node did, the error is the other one's. All or none of their owners
 * close them. may_retry: when a node finds no buffers, that is no error but RF_STREAM_NO_BUFFERS: the
 * owner closes all of them, gives their transactions up, which began with them, and starts again
 * later. Until it says that it has used a row, or one is stored whole.
 */
extern void rf_stream_tie(RfStream *const *streams, int count, bool may_retry);

extern void rf_stream_set_used(RfStream *stream);

/*
 * Sleep until one of the streams tied to this one may have something, or timeout_ms passed (-1:
 * none); every one that is wanted was tried before, and had nothing. False: the time passed.
 */
extern bool rf_stream_set_wait(RfStream *stream, long timeout_ms);

/* Its query occupies the session; and that session's socket, for who sleeps elsewhere. */
extern bool rf_stream_is_running(const RfStream *stream);
extern pgsocket rf_stream_socket(const RfStream *stream);

/* Begin again with the first batch. False when the stream does not keep its rows: start another. */
extern bool rf_stream_rewind(RfStream *stream);

/* Done with it, at any time: tells the sender to stop if it has not ended. */
extern void rf_stream_close(RfStream *stream, RfStreamStats *stats);

/* The memory of the owner is about to be freed. Raises nothing. */
extern void rf_stream_orphan(RfStream *stream);

/* Adds the stream's counters to *stats; rf_stream_close does it too. */
extern void rf_stream_stats(RfStream *stream, RfStreamStats *stats);
extern void rf_stream_stats_add(const RfStreamStats *from, RfStreamStats *to);

/* ---------- streams that parallel workers read, too (stream_share.c) ---------- */

/* Where a stream is found; for shared memory of the query. */
typedef struct RfStreamAddress
{
	bool		shared;
	uint32		share;
	uint64		key;
} RfStreamAddress;

/*
 * Leader, for a stream started with RfStreamSpec.shared that nobody has read from: waits until the
 * data node has opened its flow; raises what kept it from that. From then on rf_stream_next gives
 * each batch to one of those that ask for one, here or in a worker.
 */
extern void rf_stream_share(RfStream *stream, RfStreamAddress *address);

/*
 * Leader: workers shall end. If they and the leader have read everything, waits for the data node's
 * answer and checks its counts.
 */
extern void rf_stream_share_end(RfStream *stream);

/*
 * Worker, in the current memory context: joins the streams of one statement, on several nodes or one.
 * Those that are not shared have no rows.
 */
typedef struct RfStreamReader RfStreamReader;

extern RfStreamReader *rf_stream_join(const RfStreamAddress *addresses, int count, const char *source);

/*
 * Next batch of whichever stream has one, valid until the next call; false: the leader and all workers
 * have them all, or the leader wants no more. If a stream breaks the leader says why; ERROR after a
 * while if it does not.
 */
extern bool rf_stream_reader_next(RfStreamReader *reader, const void **batch, uint32 *length);

/* ---------- the network between this node and a server's (link.c) ---------- */

typedef struct RfLink
{
	uint32		round_trip_us;	/* 0: not known */
	uint64		bandwidth;		/* bytes per second; 0: not known, it was never what a pull waited for */
} RfLink;

/* What the engine and pulls have measured. Connects to nobody. */
extern void rf_server_link(ForeignServer *server, RfLink *link);

/* ---------- loads: rows to a table there, new or to be changed, as column batches (load.c) ---------- */

typedef struct RfLoad RfLoad;

/* What it points to must live as long as the load. */
typedef struct RfLoadSpec
{
	/*
	 * CMD_INSERT; CMD_UPDATE or CMD_DELETE: the first column is the ctid of a row there, the others
	 * are its new values.
	 */
	CmdType		operation;
	const char *sql;			/* what writes one of the rows, for messages */
	const void *part;			/* of the statement: loads with the same need no order among them */
	const char *relation;		/* remote name, quoted and qualified */
	int			column_count;
	const char *const *column_names;	/* remote names, bare */
	TupleDesc	desc;			/* of the slots that come */
	const AttrNumber *attnums;	/* what of them fills the columns */
	bool		do_nothing;		/* INSERT: ON CONFLICT DO NOTHING */
	bool		may_refuse;		/* rf_load_add may return false */
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
	uint64		requests;		/* calls of rdma.store() */
	uint64		flows;			/* of them, by flow */
	uint64		refused;		/* rows, see rf_load_add */
	uint64		waits;			/* times the backend slept for a free slot */
	uint64		wait_us;
	uint32		buffers;		/* of the last flow */
	uint32		buffer_size;
} RfLoadStats;

/*
 * Sends nothing yet. It goes with the current memory context; finish it before, or what was not
 * sent is lost. The session was got with in_transaction. Errors of the data node may come with any
 * later row or at the end.
 */
extern RfLoad *rf_load_create(RfSession *session, const RfLoadSpec *spec);

/*
 * False, if the load may refuse rows: the session was needed for something else behind each of the
 * latest rows, so the caller is to write this one by a statement of its own, which is cheaper.
 */
extern bool rf_load_add(RfLoad *load, TupleTableSlot *slot);

/*
 * All rows so far are written there. Returns how many were since the last time. More rows may
 * follow.
 */
extern uint64 rf_load_finish(RfLoad *load);
extern const RfLoadStats *rf_load_stats(RfLoad *load);

/*
 * The options that libpq understands and a server or user mapping may hold (conninfo.c). Kept for
 * the life of the backend.
 */
typedef struct RfConnectionOption
{
	const char *name;
	bool		in_user_mapping;	/* who one is and secrets; all others belong to the server */
} RfConnectionOption;

extern const RfConnectionOption *rf_connection_options(int *count);

/*
 * Picks them out of a server's or a user mapping's options into the arrays that
 * PQconnectStartParams() wants; the caller provides room for list_length(options) entries. Returns
 * how many were stored. The strings belong to the list.
 */
extern int	rf_extract_connection_options(List *options, const char **keywords, const char **values);

/* One of a server's, a user mapping's or a foreign table's options; NULL: it is not given. */
extern DefElem *rf_option_find(List *options, const char *name);

#endif
