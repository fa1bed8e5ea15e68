/*
 * scan_state.h - the executor's state of one foreign scan, shared by scan_exec.c and explain.c.
 */
#ifndef RF_SCAN_STATE_H
#define RF_SCAN_STATE_H

#include "postgres.h"

#include "lib/ilist.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/fdw.h"
#include "rdma_fdw/remote.h"

typedef struct RfScanState
{
	dlist_node	node;			/* in the list of open scans of this backend */
	ForeignScanState *scan;
	EState	   *estate;
	Oid			serverid;
	Oid			userid;
	UserMapping *user;			/* looked up at the first start */
	const char *sql;
	const char *relation;
	RfFetchOptions fetch;		/* resolved: nothing is -1; sizes in bytes */
	double		expected_rows;
	MemoryContext context;		/* per query */

	int			column_count;
	AttrNumber *attnums;		/* what each remote column fills; ctid comes as an attribute behind the last */
	RfStreamColumn *columns;
	int			natts;
	bool		has_ctid;
	bool		plain_slot;		/* rows go to a heap tuple slot, directly */
	bool		by_value;		/* every column is passed by value: rows do not point into batches */
	Datum	   *values;			/* natts (+ 1 for ctid) long: rows that do not go to the slot directly */
	bool	   *isnull;
	RfDecoder  *decoder;

	int			param_count;
	List	   *param_exprs;	/* ExprStates */
	FmgrInfo   *param_out;
	const char **param_types;
	const char **param_values;
	bool		param_has_names;	/* some parameter prints names of objects */
	MemoryContext param_context;

	RfStream   *stream;
	bool		started;
	bool		ended;
	bool		need_batch;		/* the decoder's rows, if any, are of before a rescan */
	AsyncRequest *request;		/* of the Append that asks asynchronously; NULL: rows are waited for */
	bool		starved;		/* with a request: no row was there */
	uint64		requests;		/* how often it was asked */
	struct RfScanState *seen;	/* queued: the scan in front, when it was not asked for anything, */
	uint64		seen_requests;	/* and its `requests` then */
	PlanState  *append;			/* the Append or MergeAppend that it was found under, to start it early */
	bool		repeated;		/* was rescanned with the same parameters: worth keeping the rows */

	RfStreamStats stats;		/* of streams that are closed */
	MemoryContextCallback gone; /* the query's memory goes */
} RfScanState;

/* scan_exec.c: scans between Begin and End in this backend */
extern dlist_head rf_open_scans;
extern void rf_explain_prepare(ForeignScan *scan);
extern UserMapping *rf_scan_user(RfScanState *state);
extern void rf_scan_start(RfScanState *state);

/* scan_async.c: start what the query will read anyway */
extern void rf_scan_start_early(EState *estate, PlanState *top);

#endif
