/*
 * scan_state.h - the executor's state of one foreign scan, and declarations shared by the files
 * that run it: scan_start.c, scan_nodes.c, scan_async.c, scan_parallel.c, scan_exec.c, explain.c.
 */
#ifndef RF_SCAN_STATE_H
#define RF_SCAN_STATE_H

#include "postgres.h"

#include "lib/binaryheap.h"
#include "lib/ilist.h"
#include "utils/sortsupport.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"
#include "fdw/options/option.h"

struct RfScanState;

/* The statement on one node; a scan of an ordinary server has one. */
typedef struct RfScanPart
{
	struct RfScanState *scan;
	Oid			serverid;
	List	   *any;			/* OidList: servers any of which will do, serverid is the last one
								 * used; or NIL */
	UserMapping *user;			/* looked up at the first start; with `any`, of the chosen server,
								 * NULL before the choice */
	bool		fresh;			/* the session's remote transaction began with the stream */
	uint32		uses;			/* rf_session_uses() then */
	const char *sql;			/* its statement */
	const char **param_values;	/* of its last start, often shared by all parts */
	Datum	   *local_values;	/* as the scan's, where parts have their own; NULL: the part does
								 * not run */
	bool		sends_only;		/* to other nodes: it returns no rows, only its end */
	RfStream   *stream;			/* NULL: not started, or pruned */
	bool		ended;
	RfDecoder  *decoder;		/* the scan's; in a merge only the first part's is, every other
								 * part has its own */
	/* of a merge: */
	bool		need_batch;		/* the decoder has no rows */
	TupleTableSlot *slot;		/* its next row */
	RfStreamStats stats;		/* of streams that are closed */
	StringInfo	plan;			/* EXPLAIN wants the node's plan as it ran; else NULL */
	const void *first;			/* its first batch, held back while other parts have no batch yet;
								 * or NULL */
	uint32		first_length;
	bool		put_aside;		/* while other parts have no batch yet: it and later batches are
								 * spooled */
	struct RfExchangeStats *exchanges;	/* the node's report at the end; NULL: not fetched */
} RfScanPart;

/* The result of rdma_internal.exchange_stats() for one exchange at one node */
typedef struct RfExchangeStats
{
	uint64		rows_out;
	uint64		bytes_out;
	uint64		rows_in;
	uint64		bytes_in;
	uint64		rows_kept;		/* rows that stayed on the node */
	uint64		rows_filtered;	/* rows that went nowhere, because they had no partners */
	uint64		stalls;
	uint64		spilled_bytes;
	char		transport[32];
	char		encryption[64]; /* "": the rows crossed no network */
	char	   *process_rows;	/* "5/7/6": the rows of the node's leader and workers; NULL: not
								 * shared */
	char	   *taken_rows;		/* the same of the rows that they sent; NULL: only the leader */
} RfExchangeStats;

/*
 * A write of a statement that is one remote statement, for as long as the executor has it
 * (modify_direct.c).
 */
typedef struct RfDirectWrite
{
	dlist_node	node;
	EState	   *estate;
	Oid			userid;
	List	   *servers;		/* OidList: where it may run */
	uint64		statement;		/* of all parts of the statement, if there are several that write;
								 * 0: its own */
} RfDirectWrite;

/* Rows of this node that the statement reads (local_rows_exec.c), or values that it is asked for */
typedef struct RfScanLocal
{
	Datum	   *values;			/* of the parameters that are columns of such rows: set by their
								 * node; or NULL */
	bool		by_part;		/* each part has its own instead */
	PlanState **inputs;			/* or, set instead, plans whose rows go by flow: one for each of
								 * the plan's local exchanges; NULL: the values */
	int			sender_count;	/* open for these */
	RfSender  **senders;
	uint64		rows_sent;		/* by flow, for EXPLAIN */
	uint64		bytes_sent;
} RfScanLocal;

/* How the rows of several sorted parts become one sequence (scan_nodes.c) */
typedef struct RfScanMerge
{
	int			key_count;
	SortSupport keys;
	binaryheap *heap;			/* indexes of the parts that have a row */
	bool		begun;
	bool		given;			/* the heap's first row was returned: advance it next */
	bool		ended;
} RfScanMerge;

/* How decoded columns become rows of the scan's slot (scan_exec.c) */
typedef struct RfScanRows
{
	int			column_count;
	AttrNumber *attnums;		/* attribute for each remote column; ctid comes after the last */
	RfStreamColumn *columns;
	int			natts;
	bool		has_ctid;
	bool		has_table;		/* and the remote tableoid behind it: rows are locked one by one */
	bool		has_system_columns; /* system columns other than ctid and tableoid are used */
	bool		plain_slot;		/* rows go to a heap tuple slot, directly */
	bool		by_value;		/* all columns are: rows do not point into batches */
	bool		need_batch;		/* the decoder's rows, if any, precede a rescan */
	Oid			row_table;		/* of the last row */
	RfDecoder  *decoder;
	Datum	   *values;			/* natts (+ 2 for ctid and tableoid) long: rows that are not stored
								 * directly */
	bool	   *isnull;
} RfScanRows;

/* The remote parameters (scan_start.c) */
typedef struct RfScanParams
{
	int			count;			/* with the keys, which are the last */
	List	   *exprs;			/* ExprStates: remote parameters, then further fdw_exprs */
	FmgrInfo   *out;
	const char **types;
	int			depends;		/* RF_TEXT_*, of any parameter's text */
	MemoryContext context;		/* of their text, emptied at each start; NULL without parameters */
} RfScanParams;

/* Below a lookup by keys (batched_lookup.c), which sets all but the first */
typedef struct RfScanKeys
{
	const char *all_sql;		/* the statement for all rows; NULL: there is no such lookup */
	Datum		array;
	bool		all_rows;		/* it wants all rows instead */
	bool		again;			/* and that more than once: they are kept here */
} RfScanKeys;

/* The only one of several nodes that has the rows (scan_start.c) */
typedef struct RfScanPruning
{
	List	   *places;			/* IntList: in the parameters' exprs, of the distribution key; NIL:
								 * all parts run */
	List	   *keys;			/* as RfNodesPlan.keys */
	struct RfSingleNode *single;	/* made by the first pruning */
} RfScanPruning;

/*
 * A statement begins again: where a node had no buffers for its exchanges (scan_nodes.c), or where
 * the node of a part with `any` was lost before its first batch (scan_exec.c)
 */
typedef struct RfScanRetry
{
	bool		possible;		/* with exchanges: the remote transactions began with this start,
								 * and no row was used yet */
	TimestampTz until;			/* 0: not started yet */
	int			attempts;
	int			losses;			/* lost sessions */
} RfScanRetry;

/* Scans of one plan that run at the same time (scan_async.c) */
typedef struct RfScanAsync
{
	AsyncRequest *request;		/* of an Append that asks asynchronously; NULL: the scan waits */
	bool		starved;		/* with a request: no row was available */
	uint64		requests;		/* number of requests */
	struct RfScanState *seen;	/* queued: the scan in front, when it had no request, */
	uint64		seen_requests;	/* and its `requests` then */
	PlanState  *append;			/* the Append or MergeAppend above it, for the early start */
} RfScanAsync;

/* Below a Gather (scan_parallel.c) */
typedef struct RfScanParallel
{
	RfStreamAddress *shared;	/* of each part, in the query's dynamic shared memory; the leader
								 * writes it while no worker of the node runs; else NULL */
	RfStreamReader *reader;		/* in a worker: reads its share of the streams; NULL: elsewhere */
} RfScanParallel;

/*
 * One foreign scan, from Begin to End, in the query's memory; all of it belongs to the backend or
 * worker that runs the plan node. Several jobs, each with its files.
 */
typedef struct RfScanState
{
	dlist_node	node;			/* in the list of open scans of this backend */
	ForeignScanState *scan;
	EState	   *estate;
	Oid			userid;
	const char *relation;
	RfFetchOptions fetch;		/* resolved: no field is -1; sizes in bytes */
	double		expected_rows;
	MemoryContext context;		/* per query */

	int			part_count;
	int			reader_count;	/* number of parts that return rows */
	RfScanPart *parts;
	RfScanPart *current;		/* the part whose batch is being read; NULL before the first. Not
								 * in a merge */
	RfScanMerge *merge;			/* NULL: rows come in any order */
	List	   *exchanges;		/* RfPlannedExchanges */
	RfScanPruning pruning;
	RfScanRetry retry;

	RfScanRows	rows;
	RfScanParams params;
	RfScanKeys	keys;
	RfScanLocal local;
	bool		keys_changed;	/* or local rows, since the last start */

	uint64		statement;		/* rf_statement_begin; 0: it has not begun */
	bool		started;
	bool		ended;
	bool		repeated;		/* rescanned with the same parameters: keep the rows */
	RfScanAsync async;
	RfScanParallel parallel;

	MemoryContextCallback gone; /* the query's memory goes */
} RfScanState;

/* ---------- scan_start.c ---------- */

/* The scans between Begin and End in this backend. scan_exec.c adds and removes them. */
extern dlist_head rf_open_scans;

/* Writes between Begin and End. modify_direct.c adds and removes them. */
extern dlist_head rf_open_writes;

/* The number of scans started in this backend. */
extern uint64 rf_scan_starts;

/*
 * The plan that is being run to its end in one go, until its first scan has started and reset this;
 * NULL without such a plan
 */
extern PlanState *rf_early_start;

/* Is this query's plan run so, and nothing of the client's comes between? */
extern bool rf_scan_whole_run(EState *estate);

/* The user mapping of a part's server, looked up at the first call. */
extern UserMapping *rf_scan_part_user(RfScanPart *part);

/*
 * The session for it; with `any`, of the chosen server, or else of the most suitable server now.
 */
extern RfSession *rf_scan_part_session(RfScanPart *part);

/*
 * Evaluates the parameters and starts the streams of all parts that may have rows. An error leaves
 * streams that have started to rf_scan_close(), or to the query's memory context.
 */
extern void rf_scan_start(RfScanState *state);

/* Ends the streams, also streams that were never started, and adds up their counts. */
extern void rf_scan_close(RfScanState *state);

/* Ends the flows of rows of this node. */
extern void rf_scan_close_senders(RfScanState *state);

/* Returns true if both need the same session. */
extern bool rf_scans_share_node(const RfScanState *one, const RfScanState *other);

/* ---------- scan_nodes.c: one scan over several nodes ---------- */

/*
 * Sets up the parts and the merge of a statement that runs on several nodes, except for their
 * decoders, which return rows with this descriptor.
 */
extern void rf_scan_nodes_begin(RfScanState *state, ForeignScan *plan, TupleDesc desc);

/* The statement of the server at this place; *sends_only: it returns no rows. */
extern const char *rf_scan_place_sql(ForeignScan *plan, int place, bool *sends_only);

/* The next batch of any part, loaded into the scan's decoder; false: all have ended. */
extern bool rf_scan_nodes_batch(RfScanState *state);

/* The next row of a merge, in a slot of its part; NULL at the end. */
extern TupleTableSlot *rf_scan_merge_next(RfScanState *state);
extern void rf_scan_merge_reset(RfScanState *state);

/*
 * After each start: sends the rows of this node that go by flow, all, and stores what comes
 * meanwhile.
 */
extern void rf_scan_nodes_send(RfScanState *state);

/* The number of the part that the row returned last came from, also where there is only one. */
extern int	rf_scan_current_part(RfScanState *state);

extern void rf_scan_merge_end(RfScanState *state);

/*
 * EXPLAIN ANALYZE: fetches the nodes' statistics of exchanges, after all streams have ended and
 * before the next run.
 */
extern void rf_scan_nodes_collect(RfScanState *state);

/* ---------- scan_async.c ---------- */

/* Starts the scans below top that the query will read anyway. */
extern void rf_scan_start_early(EState *estate, PlanState *top);

/* ---------- scan_parallel.c ---------- */

/* The next batch in a worker; false: the streams have ended. */
extern bool rf_scan_worker_batch(RfScanState *state, const void **batch, uint32 *length);

/* ---------- scan_exec.c ---------- */

/*
 * For a lookup by keys: the rows that the scan asks for from its next start or rescan on, rows with
 * keys in this array, which must live until then. rf_scan_ask_all: all rows. again: they are read
 * more than once, so that they are kept here.
 */
extern void rf_scan_set_keys(ForeignScanState *node, Datum keys, bool again);
extern void rf_scan_ask_all(ForeignScanState *node, bool again);

/*
 * For local rows: the values of the statement's local_places, which live until the next values are
 * set.
 */
extern void rf_scan_set_local(ForeignScanState *node, Datum *values);

/*
 * Instead of them: the inputs of the plan's local exchanges, in order. Each start of the scan reads
 * them from their start.
 */
extern void rf_scan_set_inputs(ForeignScanState *node, PlanState **inputs);

/* The rows that went by flow so far, and their bytes. */
extern uint64 rf_scan_sent(ForeignScanState *node, uint64 *bytes);

/* As rf_scan_set_local, but for each part its own values, or NULL where it shall not run. */
extern void rf_scan_set_local_by_part(ForeignScanState *node, Datum *const *values);

/* ---------- explain.c and explain_nodes.c ---------- */

extern void rf_explain_prepare(ForeignScan *scan);
extern void rf_explain_nodes_plan(ForeignScanState *node, ExplainState *es);
extern void rf_explain_exchanges(List *exchanges, ExplainState *es);
extern bool rf_explain_nodes_sql(ForeignScanState *node, ExplainState *es);
extern void rf_explain_nodes_counters(RfScanState *state, ExplainState *es);
extern void rf_explain_nodes_plans(ForeignScanState *node, ExplainState *es);

/* Ends streams that are still open, such as below LIMIT, for the nodes' plans. */
extern void rf_explain_finish(RfScanState *state);

#endif
