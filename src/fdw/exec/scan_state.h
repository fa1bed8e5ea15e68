/*
 * scan_state.h - the executor's state of one foreign scan, shared by scan_exec.c, scan_nodes.c,
 * scan_async.c and explain.c.
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
	UserMapping *user;			/* looked up at the first start */
	const char *sql;			/* what it runs */
	bool		sends_only;		/* to other nodes: no rows come from it, only how it ended */
	RfStream   *stream;			/* NULL: not started, or pruned */
	bool		ended;
	RfDecoder  *decoder;		/* the scan's; its own where rows are merged */
	/* of a merge: */
	bool		need_batch;		/* the decoder has no rows */
	TupleTableSlot *slot;		/* its next row */
	RfStreamStats stats;		/* of streams that are closed */
	const void *first;			/* its first batch, while others have none yet; NULL: nothing is held back */
	uint32		first_length;
	bool		put_aside;		/* while others have none yet: it and what came behind it were stored */
	struct RfExchangeStats *exchanges;	/* what the node says of each exchange at the end; NULL: not asked */
} RfScanPart;

/* What rdma.exchange_stats() gives, of one exchange at one node */
typedef struct RfExchangeStats
{
	uint64		rows_out;
	uint64		bytes_out;
	uint64		rows_in;
	uint64		bytes_in;
	uint64		rows_kept;		/* that stayed on the node */
	uint64		stalls;
	uint64		spilled_bytes;
	char		transport[16];
} RfExchangeStats;

/* How the rows of several sorted parts become one sequence (scan_nodes.c) */
typedef struct RfScanMerge
{
	int			key_count;
	SortSupport keys;
	binaryheap *heap;			/* places of the parts that have a row */
	bool		begun;
	bool		given;			/* the first of the heap was returned: its next row is due */
	bool		ended;
} RfScanMerge;

typedef struct RfScanState
{
	dlist_node	node;			/* in the list of open scans of this backend */
	ForeignScanState *scan;
	EState	   *estate;
	Oid			userid;
	const char *relation;
	RfFetchOptions fetch;		/* resolved: nothing is -1; sizes in bytes */
	double		expected_rows;
	MemoryContext context;		/* per query */

	int			part_count;
	int			reader_count;	/* of them, those that rows come from */
	RfScanPart *parts;
	RfScanPart *current;		/* whose batch is being read; NULL: none. Not in a merge */
	RfScanMerge *merge;			/* NULL: rows come in any order */
	List	   *exchanges;		/* RF_NODES_EXCHANGES */
	List	   *prune;			/* IntList: places in param_exprs of the distribution key; NIL: all parts run */
	List	   *prune_keys;		/* RF_NODES_KEYS */
	RfRoute    *route;			/* made by the first pruning */
	bool		may_retry;		/* with exchanges: the remote transactions began with this start */
	TimestampTz retry_until;	/* 0: nothing was tried yet */
	int			attempts;

	int			column_count;
	AttrNumber *attnums;		/* what each remote column fills; ctid comes as an attribute behind the last */
	RfStreamColumn *columns;
	int			natts;
	bool		has_ctid;
	bool		has_system_columns; /* others than that and tableoid are looked at */
	bool		plain_slot;		/* rows go to a heap tuple slot, directly */
	bool		by_value;		/* every column is passed by value: rows do not point into batches */
	Datum	   *values;			/* natts (+ 1 for ctid) long: rows that do not go to the slot directly */
	bool	   *isnull;
	RfDecoder  *decoder;

	int			param_count;
	List	   *param_exprs;	/* ExprStates: those of the remote parameters, then others of fdw_exprs */
	FmgrInfo   *param_out;
	const char **param_types;
	const char **param_values;
	int			param_depends;	/* RF_TEXT_*, of any parameter's text */
	MemoryContext param_context;

	bool		started;
	bool		ended;
	bool		need_batch;		/* the decoder's rows, if any, are of before a rescan */
	AsyncRequest *request;		/* of the Append that asks asynchronously; NULL: rows are waited for */
	bool		starved;		/* with a request: no row was there */
	uint64		requests;		/* how often it was asked */
	struct RfScanState *seen;	/* queued: the scan in front, when it was not asked for anything, */
	uint64		seen_requests;	/* and its `requests` then */
	PlanState  *append;			/* the Append or MergeAppend that it was found under, to start it early */
	RfStreamAddress *shared;	/* parallel: of each part, in the query's dynamic shared memory, which the leader
								 * writes while no worker of the node runs; NULL: there is none */
	RfStreamReader *reader;		/* in a worker: its part of what the leader started; NULL: elsewhere */
	bool		repeated;		/* was rescanned with the same parameters: worth keeping the rows */

	MemoryContextCallback gone; /* the query's memory goes */
} RfScanState;

/* scan_exec.c: scans between Begin and End in this backend */
/* scan_exec.c: for an error in a value of the i-th column that a scan (RfScanState) fetches */
extern void rf_scan_error_context(void *state, int i);

extern dlist_head rf_open_scans;

/* How often any of them was started. */
extern uint64 rf_scan_starts;
extern void rf_explain_prepare(ForeignScan *scan);
extern UserMapping *rf_scan_part_user(RfScanPart *part);
extern void rf_scan_start(RfScanState *state);
extern void rf_scan_close(RfScanState *state);

/* scan_parallel.c: the next batch in a worker */
extern bool rf_scan_worker_batch(RfScanState *state, const void **batch, uint32 *length);

/* Does one of them need a session that the other needs? */
extern bool rf_scans_share_node(const RfScanState *one, const RfScanState *other);

/* scan_async.c: start what the query will read anyway */
extern void rf_scan_start_early(EState *estate, PlanState *top);

/* scan_nodes.c: what differs when the statement runs on several nodes. desc: of the decoders */
extern void rf_scan_nodes_begin(RfScanState *state, ForeignScan *plan, TupleDesc desc);

/* What the server at this place runs; *sends_only: and gives no rows of. */
extern const char *rf_scan_place_sql(ForeignScan *plan, int place, bool *sends_only);

/* Before the parts start: which of them do not, and free sessions and exchanges for the others. */
extern void rf_scan_nodes_prepare(RfScanState *state);

/*
 * EXPLAIN ANALYZE: ask the nodes what the exchanges did, when all streams have ended and before
 * others run.
 */
extern void rf_scan_nodes_collect(RfScanState *state);

/* explain_nodes.c */
extern void rf_explain_nodes_plan(ForeignScanState *node, ExplainState *es);
extern bool rf_explain_nodes_sql(ForeignScanState *node, ExplainState *es);
extern void rf_explain_nodes_counters(RfScanState *state, ExplainState *es);
extern void rf_explain_nodes_plans(ForeignScanState *node, ExplainState *es);

/* The next batch of any part, loaded into the scan's decoder; false: all have ended. */
extern bool rf_scan_nodes_batch(RfScanState *state);

/* The next row of a merge, in a slot of its part; NULL at the end. */
extern TupleTableSlot *rf_scan_merge_next(RfScanState *state);
extern void rf_scan_merge_reset(RfScanState *state);
extern void rf_scan_merge_end(RfScanState *state);

#endif
