/*
 * stream_rows.c - rdma_internal.stream(): run a query for a reader and send its rows.
 *
 * Does: check the request, run the statement with the caller's rights and transaction, and its
 * active snapshot or a kept snapshot (kept_snapshot.c), answer with the totals, and for EXPLAIN
 * with the plan as it ran. Does not: decide how rows travel (dest.c) or keep plans (plan.c).
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/clock.h"
#include "base/kept_memory.h"

#include "kept_snapshot.h"
#include "part_log.h"
#include "request.h"

PG_FUNCTION_INFO_V1(rdma_stream);

static const RfRequestKind stream_request = {
	"rdma_internal.stream", "reading", sizeof(RfStreamRequest),
	offsetof(RfStreamRequest, column_count),
	sizeof(RfStreamSnapshot)
};

#define SNAPSHOT_FLAGS	(RF_STREAM_KEEP | RF_STREAM_KEPT)
#define EXPLAIN_FLAGS \
	(RF_STREAM_EXPLAIN | RF_STREAM_EXPLAIN_TIMING | RF_STREAM_EXPLAIN_BUFFERS | \
	 RF_STREAM_EXPLAIN_COSTS | RF_STREAM_EXPLAIN_VERBOSE)
#define KNOWN_FLAGS \
	(RF_STREAM_PORTABLE | RF_STREAM_FLOW | RF_STREAM_PAGES | RF_STREAM_INLINE | SNAPSHOT_FLAGS | \
	 RF_STREAM_NO_QUERY | EXPLAIN_FLAGS | (uint32) RF_STREAM_NODES_MAX << RF_STREAM_NODES_SHIFT)

static RfStreamRequest *
read_request(bytea * bytes, RfStreamColumn **columns, RfStreamSnapshot *snapshot)
{
	void	   *trailer;
	RfStreamRequest *request = rf_request_read(&stream_request, bytes, columns, &trailer);

	if ((request->flags & ~(uint32) KNOWN_FLAGS) != 0)
		rf_request_bad(&stream_request, "It has unknown flags.");
	if ((trailer != NULL) != ((request->flags & SNAPSHOT_FLAGS) != 0) ||
		(request->flags & SNAPSHOT_FLAGS) == SNAPSHOT_FLAGS ||
		((request->flags & RF_STREAM_NO_QUERY) != 0 && trailer == NULL))
		rf_request_bad(&stream_request, "It does not say which snapshot it means.");
	if (trailer != NULL)
		memcpy(snapshot, trailer, sizeof(RfStreamSnapshot));
	if ((request->flags & RF_STREAM_FLOW) != 0 && (request->flags & RF_STREAM_INLINE) != 0)
		rf_request_bad(&stream_request, "It wants a flow and does not name it.");
	if (request->inline_limit > RF_MAX_INLINE)
		rf_request_bad(&stream_request, "Its inline limit is too large.");
	if (!PG_VALID_BE_ENCODING((int) request->encoding))
		rf_request_bad(&stream_request, "Its encoding is not one of a database.");
	return request;
}

/* The InstrumentOption bits of a request. */
static int
instruments(uint32 flags)
{
	if ((flags & RF_STREAM_EXPLAIN) == 0)
		return 0;
	return ((flags & RF_STREAM_EXPLAIN_TIMING) != 0 ? INSTRUMENT_TIMER : INSTRUMENT_ROWS) |
		((flags & RF_STREAM_EXPLAIN_BUFFERS) != 0 ? INSTRUMENT_BUFFERS : 0);
}

/* The EXPLAIN (ANALYZE) of a query that has run, as the reader wants it and in its encoding. */
static const char *
explain(QueryDesc *query, const RfStreamRequest *request)
{
	ExplainState *es = NewExplainState();

	es->analyze = true;
	es->timing = (request->flags & RF_STREAM_EXPLAIN_TIMING) != 0;
	es->buffers = (request->flags & RF_STREAM_EXPLAIN_BUFFERS) != 0;
	es->costs = (request->flags & RF_STREAM_EXPLAIN_COSTS) != 0;
	es->verbose = (request->flags & RF_STREAM_EXPLAIN_VERBOSE) != 0;
	ExplainBeginOutput(es);
	ExplainPrintPlan(es, query);
	ExplainEndOutput(es);
	return pg_server_to_any(es->str->data, es->str->len, request->encoding);
}

/* Runs the statement. Returns its plan with what happened, if that was asked for, else "". */
static const char *
run(PlannedStmt *stmt, const char *sql, ParamListInfo params, const RfStreamRequest *request,
	RfStreamDest *dest)
{
	QueryDesc  *query = CreateQueryDesc(stmt, sql, GetActiveSnapshot(), InvalidSnapshot,
										rf_stream_dest_receiver(dest), params, NULL,
										instruments(request->flags));
	const char *plan = "";

	pgstat_report_query_id(stmt->queryId, true);
	ExecutorStart(query, 0);
	if (request->flags & RF_STREAM_KEPT)
		rf_kept_snapshot_writes(query);
	if (!rf_run_bare_scan(query, dest))
		rf_executor_run(query, ForwardScanDirection, 0);
	ExecutorFinish(query);
	if (request->flags & RF_STREAM_EXPLAIN)
		plan = explain(query, request);
	ExecutorEnd(query);
	FreeQueryDesc(query);
	return plan;
}

static bytea *
keep_reply(uint64 coordinator)
{
	RfKeepReply reply = {rf_part_log_others_age(coordinator)};
	bytea	   *bytes = palloc(VARHDRSZ + sizeof(reply));

	SET_VARSIZE(bytes, VARHDRSZ + sizeof(reply));
	memcpy(VARDATA(bytes), &reply, sizeof(reply));
	return bytes;
}

/*
 * rdma_internal.stream(): runs the reader's query and sends its rows to the reader, inline with the
 * answer or over a flow. The flags of the request say which snapshot it uses, and whether there is
 * a query at all.
 */
Datum
rdma_stream(PG_FUNCTION_ARGS)
{
	RfStreamRequest *request;
	RfStreamColumn *columns;
	RfStreamSnapshot snapshot;
	RfStatement *statement;
	RfStreamDest *dest;
	ParamListInfo params;
	CachedPlan *plan;
	const char *explained;
	char	   *sql;
	RfRole		before;
	bool		as_owner;
	int64		since = rf_now_us();

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		rf_request_bad(&stream_request, "Request and query must not be NULL.");
	rf_keep_memory();
	request = read_request(PG_GETARG_BYTEA_PP(0), &columns, &snapshot);
	if (request->flags & RF_STREAM_KEEP)
		rf_kept_snapshot_keep(&snapshot);
	if (request->flags & RF_STREAM_NO_QUERY)
	{
		if (request->flags & RF_STREAM_KEEP)
			PG_RETURN_BYTEA_P(keep_reply(snapshot.coordinator));
		rf_kept_snapshot_next(&snapshot);
		PG_RETURN_NULL();
	}
	if (request->flags & RF_STREAM_KEPT)
		PushActiveSnapshot(rf_kept_snapshot(&snapshot, NULL));
	sql = text_to_cstring(PG_GETARG_TEXT_PP(1));
	rf_request_show(&stream_request, sql);
	/* planning has code run, too: constant parts of index expressions and constraints */
	as_owner = rf_owner_begin_if_set(&before);
	statement = rf_statement_get(sql, PG_ARGISNULL(2) ? NULL : PG_GETARG_ARRAYTYPE_P(2),
								 rf_statement_workers != RF_WORKERS_UNKNOWN ? rf_statement_workers :
								 rf_workers_allowed(request->flags >> RF_STREAM_NODES_SHIFT));
	params = rf_statement_params(statement, PG_ARGISNULL(3) ? NULL : PG_GETARG_ARRAYTYPE_P(3));
	plan = rf_statement_plan(statement, params);

	/*
	 * The query may itself call this function and push its statement out of the list; the plan
	 * stays.
	 */
	dest = rf_stream_dest_create(request, columns, since);
	explained = run(linitial_node(PlannedStmt, plan->stmt_list), sql, params, request, dest);
	ReleaseCachedPlan(plan, CurrentResourceOwner);
	if (as_owner)
		rf_role_end(&before);
	if (request->flags & RF_STREAM_KEPT)
		PopActiveSnapshot();
	PG_RETURN_BYTEA_P(rf_stream_dest_reply(dest, explained));
}
