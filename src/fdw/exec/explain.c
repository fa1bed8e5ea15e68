/*
 * explain.c - EXPLAIN of a foreign scan: the remote statement with VERBOSE, and with ANALYZE, too,
 * the cost of fetching.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "scan_state.h"

static void explain_counters(RfScanState *state, ExplainState *es);

#if PG_VERSION_NUM >= 180000
static Node *
windows_as_calls(Node *node, void *context)
{
	if (node != NULL && IsA(node, WindowFunc))
	{
		WindowFunc *func = (WindowFunc *) node;

		return (Node *) makeFuncExpr(func->winfnoid, func->wintype, copyObject(func->args),
									 func->wincollid, func->inputcollid, COERCE_EXPLICIT_CALL);
	}
	return expression_tree_mutator(node, windows_as_calls, context);
}
#endif

/*
 * Changes columns that EXPLAIN could not print as the planner left them.
 *
 * EXPLAIN of 18 prints the window of a window function by the name that a WindowAgg above it has,
 * and fails without a WindowAgg, as when the data node computes the function. After planning the
 * list of columns serves only to describe rows and for EXPLAIN, which reads it from the plan, also
 * for the nodes above. So the plan shows such a column as a plain call; Remote SQL has the window.
 * The columns of set operations belong to no relation, and EXPLAIN cannot print those: it gets the
 * names of the first branch, as above core's own set operations. The changes live as long as the
 * plan, which may be cached for later executions; these find nothing left to change.
 */
void
rf_explain_prepare(ForeignScan *scan)
{
	ListCell   *lc;

	if (rf_scan_plan(scan)->set_operation)
	{
		/* relation 0, moved like any other when the planner merged the levels' range tables */
		foreach(lc, scan->fdw_scan_tlist)
		{
			TargetEntry *entry = lfirst_node(TargetEntry, lc);
			MemoryContext before = MemoryContextSwitchTo(GetMemoryChunkContext(scan));

			if (entry->resjunk)
				entry->expr = (Expr *) makeNullConst(INT4OID, -1, InvalidOid);
			else
				((Var *) entry->expr)->varno = ((Var *) entry->expr)->varnosyn;
			MemoryContextSwitchTo(before);
		}
	}
#if PG_VERSION_NUM >= 180000
	foreach(lc, scan->fdw_scan_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (contain_window_function((Node *) entry->expr))
		{
			MemoryContext before = MemoryContextSwitchTo(GetMemoryChunkContext(scan));

			entry->expr = (Expr *) windows_as_calls((Node *) entry->expr, NULL);
			MemoryContextSwitchTo(before);
		}
	}
#endif
}

/* With VERBOSE: a line for each in TEXT, a list in the other formats. */
static void
explain_reasons(const char *label, List *reasons, ExplainState *es)
{
	List	   *texts = NIL;
	ListCell   *lc;

	foreach(lc, es->verbose ? reasons : NIL)
	{
		if (es->format == EXPLAIN_FORMAT_TEXT)
			ExplainPropertyText(label, strVal(lfirst(lc)), es);
		else
			texts = lappend(texts, strVal(lfirst(lc)));
	}
	if (texts != NIL)
		ExplainPropertyList(label, texts, es);
}

/*
 * EXPLAIN of a scan: its relations, nodes and statement; with ANALYZE and VERBOSE the counters of
 * its streams.
 */
void
rdmaExplainForeignScan(ForeignScanState *node, ExplainState *es)
{
	RfScanState *state = (RfScanState *) node->fdw_state;
	RfScanPlan *plan = rf_scan_plan((ForeignScan *) node->ss.ps.plan);

	explain_reasons("Filtered Here", plan->filtered_here, es);
	/* core prints the table of a plain scan */
	if (plan->description[0] != '\0')
		ExplainPropertyText("Relations", plan->description, es);
	if (plan->nodes != NULL)
		rf_explain_nodes_plan(node, es);
	explain_reasons("Joined Here", plan->joined_here, es);
	if (plan->late_lock[0] != '\0')
		ExplainPropertyText("Rows Returned Are Locked", plan->late_lock, es);
	if (es->verbose && !rf_explain_nodes_sql(node, es))
		ExplainPropertyText("Remote SQL", plan->sql, es);
	if (es->analyze && state != NULL)
		rf_explain_finish(state);
	if (es->analyze && state != NULL && plan->nodes != NULL)
		rf_explain_nodes_counters(state, es);
	if (es->verbose && es->analyze && state != NULL)
		explain_counters(state, es);
	if (plan->nodes != NULL)
		rf_explain_nodes_plans(node, es);
}

/* Adds the part's statistics so far. */
static void
part_stats(RfScanPart *part, RfStreamStats *stats)
{
	rf_stream_stats_add(&part->stats, stats);
	if (part->stream)
		rf_stream_stats(part->stream, stats);
}

/* The number of batches per process: the leader, and worker 0, worker 1, ... */
static void
explain_sharers(const RfStreamStats *total, ExplainState *es)
{
	uint64		by_workers = 0;
	List	   *each = NIL;
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 1; i < RF_STREAM_SHARERS; i++)
	{
		if ((total->sharers & (1u << i)) == 0)
			continue;
		by_workers += total->sharers_batches[i];
		each = lappend(each, psprintf(UINT64_FORMAT, total->sharers_batches[i]));
		appendStringInfo(&text, "%s" UINT64_FORMAT, text.len == 0 ? "" : "+",
						 total->sharers_batches[i]);
	}
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Shared",
							psprintf("workers=%d batches by leader=" UINT64_FORMAT
									 " by workers=" UINT64_FORMAT "%s",
									 list_length(each), total->batches - by_workers, by_workers,
									 list_length(each) > 1 ? psprintf(" (%s)", text.data) : ""),
							es);
		return;
	}
	ExplainPropertyUInteger("Sharing Workers", NULL, list_length(each), es);
	ExplainPropertyUInteger("Batches by Workers", NULL, by_workers, es);
	ExplainPropertyList("Batches by Worker", each, es);
}

/*
 * One line per subject in TEXT, single values in the other formats. Timings follow the TIMING
 * option, so that output can be compared.
 */
static void
explain_counters(RfScanState *state, ExplainState *es)
{
	RfStreamStats total;

	memset(&total, 0, sizeof(total));
	for (int i = 0; i < state->part_count; i++)
		part_stats(&state->parts[i], &total);

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Pulled",
							psprintf("rows=" UINT64_FORMAT " batches=" UINT64_FORMAT
									 " bytes=" UINT64_FORMAT " streams=" UINT64_FORMAT
									 " inline=" UINT64_FORMAT,
									 total.rows, total.batches, total.bytes,
									 total.streams, total.inlined),
							es);
		if (total.transport[0] != '\0')
			ExplainPropertyText("Transport",
								psprintf("%s buffers=%ux%ukB fragments=" UINT64_FORMAT,
										 total.transport, total.buffers, total.buffer_size / 1024,
										 total.fragments), es);
		if (es->verbose && es->timing && total.encryption[0] != '\0')
			ExplainPropertyText("Encryption", total.encryption, es);
		if (total.page_rows > 0)
			ExplainPropertyText("Pages",
								psprintf("rows=" UINT64_FORMAT " boxes=" UINT64_FORMAT
										 " gathered=" UINT64_FORMAT " strided=" UINT64_FORMAT
										 " packed=" UINT64_FORMAT " useful bytes=" UINT64_FORMAT
										 " gap bytes=" UINT64_FORMAT
										 " uncopied bytes=" UINT64_FORMAT,
										 total.page_rows, total.pages_box, total.pages_gathered,
										 total.pages_strided, total.pages_packed,
										 total.useful_bytes, total.gap_bytes, total.uncopied_bytes),
								es);
		if (state->scan->ss.ps.plan->parallel_aware && es->timing)
			explain_sharers(&total, es);
		if (total.spooled_bytes > 0)
			ExplainPropertyText("Stored Locally",
								psprintf(UINT64_FORMAT "kB", (total.spooled_bytes + 1023) / 1024),
								es);
		/* values that vary from run to run are hidden with the timings */
		if (es->timing && total.transport[0] != '\0')
			ExplainPropertyText("Sender",
								psprintf("work requests=" UINT64_FORMAT
										 " merged=" UINT64_FORMAT " chained=" UINT64_FORMAT
										 " stalls=" UINT64_FORMAT " credits=" UINT64_FORMAT
										 " waited %.3f ms in " UINT64_FORMAT " waits",
										 total.work_requests, total.merged, total.chained,
										 total.credit_stalls, total.credits,
										 total.sender_wait_us / 1000.0, total.sender_waits),
								es);
		/* an asynchronous scan does not wait: Append does, for all its children */
		if (es->timing && !state->scan->ss.ps.async_capable)
			ExplainPropertyText("Waited",
								psprintf("%.3f ms in " UINT64_FORMAT " waits",
										 total.wait_us / 1000.0, total.waits),
								es);
		return;
	}

	ExplainPropertyUInteger("Streams", NULL, total.streams, es);
	ExplainPropertyUInteger("Inline Streams", NULL, total.inlined, es);
	ExplainPropertyUInteger("Remote Rows", NULL, total.rows, es);
	ExplainPropertyUInteger("Batches", NULL, total.batches, es);
	ExplainPropertyUInteger("Bytes", NULL, total.bytes, es);
	ExplainPropertyText("Transport", total.transport[0] != '\0' ? total.transport : "libpq", es);
	if (es->verbose && es->timing && total.encryption[0] != '\0')
		ExplainPropertyText("Encryption", total.encryption, es);
	ExplainPropertyUInteger("Receive Buffers", NULL, total.buffers, es);
	ExplainPropertyUInteger("Receive Buffer Size", "B", total.buffer_size, es);
	ExplainPropertyUInteger("Fragments", NULL, total.fragments, es);
	ExplainPropertyUInteger("Stored Bytes", NULL, total.spooled_bytes, es);
	if (total.page_rows > 0)
	{
		ExplainPropertyUInteger("Page Rows", NULL, total.page_rows, es);
		ExplainPropertyUInteger("Page Boxes", NULL, total.pages_box, es);
		ExplainPropertyUInteger("Pages Packed", NULL, total.pages_packed, es);
		ExplainPropertyUInteger("Useful Bytes", NULL, total.useful_bytes, es);
		ExplainPropertyUInteger("Gap Bytes", NULL, total.gap_bytes, es);
		ExplainPropertyUInteger("Pages Gathered", NULL, total.pages_gathered, es);
		ExplainPropertyUInteger("Pages Strided", NULL, total.pages_strided, es);
		ExplainPropertyUInteger("Uncopied Bytes", NULL, total.uncopied_bytes, es);
	}
	if (state->scan->ss.ps.plan->parallel_aware && es->timing)
	{
		explain_sharers(&total, es);
	}
	if (es->timing)
	{
		ExplainPropertyUInteger("Work Requests", NULL, total.work_requests, es);
		ExplainPropertyUInteger("Merged", NULL, total.merged, es);
		ExplainPropertyUInteger("Chained", NULL, total.chained, es);
		ExplainPropertyUInteger("Credit Stalls", NULL, total.credit_stalls, es);
		ExplainPropertyUInteger("Credits", NULL, total.credits, es);
		ExplainPropertyUInteger("Sender Waits", NULL, total.sender_waits, es);
		ExplainPropertyFloat("Sender Wait Time", "ms", total.sender_wait_us / 1000.0, 3, es);
		if (!state->scan->ss.ps.async_capable)
		{
			ExplainPropertyUInteger("Waits", NULL, total.waits, es);
			ExplainPropertyFloat("Wait Time", "ms", total.wait_us / 1000.0, 3, es);
		}
	}
}
