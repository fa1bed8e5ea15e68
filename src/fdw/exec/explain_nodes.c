/*
 * explain_nodes.c - EXPLAIN of a statement that runs on several nodes: the nodes, how its inputs
 * move between them, the work of each, and the nodes' own plans.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/sql_text.h"

#include "fdw/plan/plan_private.h"
#include "scan_state.h"

static char *
place_name(ForeignScan *plan, int place)
{
	return GetForeignServer(list_nth_oid(rf_scan_plan(plan)->nodes->servers, place))->servername;
}

static char *
part_name(RfScanPart *part)
{
	return GetForeignServer(part->serverid)->servername;
}

static char *
node_name(ForeignScan *plan, int part)
{
	return place_name(plan, list_nth_int(rf_scan_plan(plan)->nodes->places, part));
}

/* A part's statistics so far, of its closed streams and the open one */
static RfStreamStats
part_stats(RfScanPart *part)
{
	RfStreamStats stats = part->stats;

	if (part->stream)
		rf_stream_stats(part->stream, &stats);
	return stats;
}

void
rf_explain_finish(RfScanState *state)
{
	RfStream  **streams = palloc(sizeof(RfStream *) * state->part_count);

	for (int i = 0; i < state->part_count; i++)
		streams[i] = state->parts[i].plan != NULL ? state->parts[i].stream : NULL;
	rf_streams_finish(streams, state->part_count);
	pfree(streams);
}

static void
print_plan(const char *server, const char *which, List *lines, ExplainState *es)
{
	ListCell   *lc;

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyList("Plan", lines, es);
		return;
	}
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Plan on %s%s:\n", server, which);
	foreach(lc, lines)
	{
		appendStringInfoSpaces(es->str, es->indent * 2 + 2);
		appendStringInfo(es->str, "%s\n", (char *) lfirst(lc));
	}
}

/* The plan that the node has sent, of its last execution; it may have run several times. */
static void
explain_executed(RfScanPart *part, ExplainState *es)
{
	RfStreamStats stats = part_stats(part);
	char	   *text = pstrdup(part->plan->data);
	List	   *lines = NIL;

	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		lines = lappend(lines, line);
	print_plan(part_name(part),
			   stats.streams > 1 ? psprintf(", last of " UINT64_FORMAT " executions",
											stats.streams) : "",
			   lines, es);
}

/*
 * The node's current plan for the statement. It is a generic plan, so parameters need no values.
 */
static void
explain_on_node(ForeignScanState *node, int part, ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	RfNodesPlan *nodes = rf_scan_plan(plan)->nodes;
	List	   *types = rf_scan_plan(plan)->param_types;
	int			place = list_nth_int(nodes->places, part);
	Oid			serverid = list_nth_oid(nodes->servers, place);
	UserMapping *user = NULL;
	RfSession  *session = rf_session_get_any(
											 0, rf_scan_userid(plan),
											 rf_scan_any(plan) != NIL ? rf_scan_any(plan) :
											 list_make1_oid(serverid),
											 &user);
	int			flags = FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY;
	static uint32 count = 0;
	char	   *name = psprintf("rdma_fdw_explain%u", ++count); /* a failed one may be left there */
	bool		sends_only;
	StringInfoData sql;
	PGresult   *result;
	List	   *lines = NIL;
	ListCell   *lc;

	initStringInfo(&sql);
	appendStringInfo(&sql, "PREPARE %s", name);
	foreach(lc, types)
		appendStringInfo(&sql, "%s%s", foreach_current_index(lc) == 0 ? "(" : ", ",
						 format_type_extended(lfirst_oid(lc), -1, flags));
	appendStringInfo(&sql, "%s AS %s", types == NIL ? "" : ")",
					 rf_scan_place_sql(plan, place, &sends_only));
	PQclear(rf_session_query(session, sql.data));

	resetStringInfo(&sql);
	PQclear(rf_session_query(session, "SET LOCAL plan_cache_mode = force_generic_plan"));
	appendStringInfo(&sql, "EXPLAIN (COSTS %s, VERBOSE %s) EXECUTE %s",
					 es->costs ? "on" : "off", es->verbose ? "on" : "off", name);
	foreach(lc, types)
		appendStringInfoString(&sql, foreach_current_index(lc) == 0 ? "(NULL" : ", NULL");
	if (types != NIL)
		appendStringInfoChar(&sql, ')');
	result = rf_session_ask(session, sql.data, 1, 1, PG_INT32_MAX);
	for (int i = 0; i < PQntuples(result); i++)
		lines = lappend(lines, pstrdup(PQgetvalue(result, i, 0)));
	PQclear(result);
	resetStringInfo(&sql);
	PQclear(rf_session_query(session, "SET LOCAL plan_cache_mode TO DEFAULT"));
	appendStringInfo(&sql, "DEALLOCATE %s", name);
	PQclear(rf_session_query(session, sql.data));

	print_plan(GetForeignServer(user->serverid)->servername, "", lines, es);
}

/*
 * Prints the plan's exchanges in the order of their numbers: how rows move, and how many are
 * expected.
 */
void
rf_explain_exchanges(List *exchanges, ExplainState *es)
{
	ListCell   *lc;

	if (exchanges == NIL)
		return;
	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainOpenGroup("Exchanges", "Exchanges", false, es);
	foreach(lc, exchanges)
	{
		RfPlannedExchange *exchange = lfirst(lc);

		if (es->format == EXPLAIN_FORMAT_TEXT)
		{
			char	   *label = psprintf("Exchange %d", foreach_current_index(lc) + 1);

			ExplainPropertyText(label,
								es->costs ?
								psprintf("%s (rows=%.0f)", exchange->description, exchange->rows) :
								exchange->description,
								es);
			continue;
		}
		ExplainOpenGroup("Exchange", NULL, true, es);
		ExplainPropertyText("Kind", exchange->replicate ? "replicate" : "repartition", es);
		ExplainPropertyText("Movement", exchange->description, es);
		if (es->costs)
			ExplainPropertyFloat("Plan Rows", NULL, exchange->rows, 0, es);
		ExplainCloseGroup("Exchange", NULL, true, es);
	}
	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainCloseGroup("Exchanges", "Exchanges", false, es);
}

/*
 * The nodes' names: the nodes that run, or that may run in a pruned scan; and the compute nodes.
 */
void
rf_explain_nodes_plan(ForeignScanState *node, ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	RfNodesPlan *nodes = rf_scan_plan(plan)->nodes;
	RfComputePlan *compute = nodes->compute;
	int			count = compute != NULL ? compute->holders : list_length(nodes->places);
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, rf_scan_any(plan))
		names = lappend(names, place_name(plan, foreach_current_index(lc)));
	for (int i = 0; i < count && rf_scan_any(plan) == NIL; i++)
		names = lappend(names, node_name(plan, i));
	ExplainPropertyList(rf_scan_any(plan) != NIL ? "Any of Nodes" :
						nodes->prune != NIL ? "One of Nodes" :
						"Nodes",
						names, es);
	if (compute != NULL)
	{
		names = NIL;
		foreach(lc, compute->places)
			names = lappend(names, place_name(plan, lfirst_int(lc)));
		ExplainPropertyList("Compute Nodes", names, es);
	}
	if (nodes->strategy[0] != '\0')
		ExplainPropertyText("Strategy", nodes->strategy, es);
	rf_explain_exchanges(nodes->exchanges, es);
}

/* Statements that name partitions, one for each node; false: all nodes run the same one. */
bool
rf_explain_nodes_sql(ForeignScanState *node, ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	RfNodesPlan *nodes = rf_scan_plan(plan)->nodes;
	ListCell   *lc;

	if (nodes == NULL || nodes->node_sql == NIL)
		return false;
	foreach(lc, nodes->node_sql)
		ExplainPropertyText(psprintf("Remote SQL on %s",
									 place_name(plan, foreach_current_index(lc))),
							strVal(lfirst(lc)), es);
	return true;
}

/*
 * Prints the counters of one exchange: a line or group per node that takes part, and how unevenly
 * rows are spread over the consumers.
 */
static void
explain_exchange(RfScanState *state, int number, ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) state->scan->ss.ps.plan;
	RfPlannedExchange *exchange = list_nth(state->exchanges, number);
	uint64		most = 0;
	uint64		total = 0;

	for (int i = 0; i < state->part_count; i++)
	{
		RfExchangeStats *stats = &state->parts[i].exchanges[number];
		uint64		rows = stats->rows_in + stats->rows_kept;

		if (!list_member_int(exchange->producers, i) && !list_member_int(exchange->consumers, i))
			continue;
		most = Max(most, rows);
		total += rows;
		if (es->format == EXPLAIN_FORMAT_TEXT)
		{
			StringInfoData line;

			initStringInfo(&line);
			appendStringInfo(&line,
							 "sent rows=" UINT64_FORMAT " received rows=" UINT64_FORMAT
							 " kept rows=" UINT64_FORMAT,
							 stats->rows_out, stats->rows_in, stats->rows_kept);
			if (stats->rows_filtered > 0)
				appendStringInfo(&line, " filtered rows=" UINT64_FORMAT, stats->rows_filtered);
			if (stats->spilled_bytes > 0)
				appendStringInfo(&line, " spilled=" UINT64_FORMAT "kB",
								 (stats->spilled_bytes + 1023) / 1024);
			/* batch boundaries, and so bytes, depend on timing */
			if (es->timing)
				appendStringInfo(&line,
								 " bytes=" UINT64_FORMAT "/" UINT64_FORMAT " stalls=" UINT64_FORMAT,
								 stats->bytes_out, stats->bytes_in, stats->stalls);
			if (es->timing && stats->process_rows != NULL)
				appendStringInfo(&line, " rows per process=%s", stats->process_rows);
			if (es->timing && stats->taken_rows != NULL)
				appendStringInfo(&line, " taken per process=%s", stats->taken_rows);
			if (stats->transport[0] != '\0')
				appendStringInfo(&line, " %s", stats->transport);
			if (es->verbose && es->timing && stats->encryption[0] != '\0')
				appendStringInfo(&line, " encryption=%s", stats->encryption);
			ExplainPropertyText(psprintf("Exchange %d on %s", number + 1, node_name(plan, i)),
								line.data, es);
			continue;
		}
		ExplainOpenGroup("Exchange", NULL, true, es);
		ExplainPropertyInteger("Number", NULL, number + 1, es);
		ExplainPropertyText("Node", node_name(plan, i), es);
		ExplainPropertyUInteger("Rows Sent", NULL, stats->rows_out, es);
		ExplainPropertyUInteger("Rows Received", NULL, stats->rows_in, es);
		ExplainPropertyUInteger("Rows Kept", NULL, stats->rows_kept, es);
		ExplainPropertyUInteger("Rows Filtered", NULL, stats->rows_filtered, es);
		ExplainPropertyUInteger("Spilled Bytes", NULL, stats->spilled_bytes, es);
		if (es->timing)
		{
			ExplainPropertyUInteger("Bytes Sent", NULL, stats->bytes_out, es);
			ExplainPropertyUInteger("Bytes Received", NULL, stats->bytes_in, es);
			ExplainPropertyUInteger("Stalls", NULL, stats->stalls, es);
			if (stats->process_rows != NULL)
				ExplainPropertyText("Rows per Process", stats->process_rows, es);
			if (stats->taken_rows != NULL)
				ExplainPropertyText("Rows Taken per Process", stats->taken_rows, es);
		}
		ExplainPropertyText("Transport", stats->transport, es);
		if (es->verbose && es->timing && stats->encryption[0] != '\0')
			ExplainPropertyText("Encryption", stats->encryption, es);
		ExplainCloseGroup("Exchange", NULL, true, es);
	}
	if (es->format == EXPLAIN_FORMAT_TEXT && total > 0)
		ExplainPropertyText(psprintf("Exchange %d Skew", number + 1),
							psprintf("%.2f",
									 (double) most * list_length(exchange->consumers) / total),
							es);
}

static double
computed_ms(const RfStreamStats *stats)
{
	return (stats->run_us - stats->exchange_wait_us - stats->reader_wait_us) / 1000.0;
}

/*
 * When a node's batches came, and what it did meanwhile. A node that was stopped early does not say
 * the latter. line: for TEXT.
 */
static void
explain_times(const RfStreamStats *stats, StringInfo line, ExplainState *es)
{
	double		first = stats->first_batch_us / 1000.0;
	double		last = stats->last_batch_us / 1000.0;
	double		nodes = stats->exchange_wait_us / 1000.0;
	double		reader = stats->reader_wait_us / 1000.0;

	if (!es->timing || stats->first_batch_us == 0)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfo(line, " time=%.3f..%.3f ms", first, last);
		if (stats->run_us > 0)
			appendStringInfo(line, " computed=%.3f ms waited for nodes=%.3f ms for reader=%.3f ms",
							 computed_ms(stats), nodes, reader);
		return;
	}
	ExplainPropertyFloat("First Batch Time", "ms", first, 3, es);
	ExplainPropertyFloat("Last Batch Time", "ms", last, 3, es);
	if (stats->run_us == 0)
		return;
	ExplainPropertyFloat("Compute Time", "ms", computed_ms(stats), 3, es);
	ExplainPropertyFloat("Node Wait Time", "ms", nodes, 3, es);
	ExplainPropertyFloat("Reader Wait Time", "ms", reader, 3, es);
}

/*
 * Names the node that computed longest: nodes that wait for a slow one, or for the reader, run as
 * long as it does.
 */
static void
explain_slowest(RfScanState *state, ExplainState *es)
{
	const char *slowest = NULL;
	double		most = 0;
	double		total = 0;
	int			count = 0;

	for (int i = 0; i < state->part_count; i++)
	{
		RfStreamStats stats = part_stats(&state->parts[i]);

		if (stats.run_us == 0)
			continue;
		if (slowest == NULL || computed_ms(&stats) > most)
		{
			slowest = part_name(&state->parts[i]);
			most = computed_ms(&stats);
		}
		total += computed_ms(&stats);
		count++;
	}
	if (count < 2 || total == 0)
		return;
	ExplainPropertyText("Slowest Node",
						es->format == EXPLAIN_FORMAT_TEXT ?
						psprintf("%s (%.2f times the average)", slowest, most * count / total) :
						slowest, es);
}

/*
 * The nodes' lines add up all executions, as "Pulled" does; the exchanges' lines are of the last
 * one. Skew is the ratio of the busiest node to the mean. Times follow the TIMING option.
 */
void
rf_explain_nodes_counters(RfScanState *state, ExplainState *es)
{
	bool		text = es->format == EXPLAIN_FORMAT_TEXT;

	if (!text)
		ExplainOpenGroup("Node Counters", "Node Counters", false, es);
	for (int i = 0; i < state->part_count; i++)
	{
		RfStreamStats stats = part_stats(&state->parts[i]);
		StringInfoData line;

		if (text)
		{
			initStringInfo(&line);
			if (stats.streams == 0)
				appendStringInfoString(&line, "not executed");
			else
				appendStringInfo(&line,
								 "rows=" UINT64_FORMAT " batches=" UINT64_FORMAT
								 " bytes=" UINT64_FORMAT,
								 stats.rows, stats.batches, stats.bytes);
			explain_times(&stats, &line, es);
			ExplainPropertyText(psprintf("Node %s", part_name(&state->parts[i])), line.data, es);
			continue;
		}
		ExplainOpenGroup("Node", NULL, true, es);
		ExplainPropertyText("Node", part_name(&state->parts[i]), es);
		ExplainPropertyUInteger("Streams", NULL, stats.streams, es);
		ExplainPropertyUInteger("Remote Rows", NULL, stats.rows, es);
		ExplainPropertyUInteger("Batches", NULL, stats.batches, es);
		ExplainPropertyUInteger("Bytes", NULL, stats.bytes, es);
		explain_times(&stats, NULL, es);
		ExplainCloseGroup("Node", NULL, true, es);
	}
	if (!text)
		ExplainCloseGroup("Node Counters", "Node Counters", false, es);
	explain_slowest(state, es);

	if (state->exchanges == NIL || !state->started)
		return;
	if (state->parts->exchanges == NULL)
	{
		/* it ended early: nodes that still send are stopped, and report their statistics so far */
		for (int i = 0; i < state->part_count; i++)
		{
			RfScanPart *part = &state->parts[i];

			if (part->stream)
				rf_stream_close(part->stream, &part->stats);
			part->stream = NULL;
		}
		rf_scan_nodes_collect(state);
	}
	if (!text)
		ExplainOpenGroup("Exchange Counters", "Exchange Counters", false, es);
	for (int i = 0; i < list_length(state->exchanges); i++)
		explain_exchange(state, i, es);
	if (!text)
		ExplainCloseGroup("Exchange Counters", "Exchange Counters", false, es);
}

/*
 * With rdma_fdw.explain_nodes, adds each node's own plan of the statement: with ANALYZE, of nodes
 * that have run it, as they did.
 */
void
rf_explain_nodes_plans(ForeignScanState *node, ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	RfScanState *state = es->analyze ? node->fdw_state : NULL;
	int			count = state != NULL ? state->part_count :
		list_length(rf_scan_plan(plan)->nodes->places);

	if (!rf_explain_nodes)
		return;
	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainOpenGroup("Node Plans", "Node Plans", false, es);
	for (int i = 0; i < count; i++)
	{
		if (state != NULL && (state->parts[i].plan == NULL || state->parts[i].plan->len == 0))
			continue;
		if (es->format != EXPLAIN_FORMAT_TEXT)
		{
			ExplainOpenGroup("Node Plan", NULL, true, es);
			ExplainPropertyText("Node",
								state != NULL ? part_name(&state->parts[i]) : node_name(plan, i),
								es);
		}
		if (state != NULL)
			explain_executed(&state->parts[i], es);
		else
			explain_on_node(node, i, es);
		if (es->format != EXPLAIN_FORMAT_TEXT)
			ExplainCloseGroup("Node Plan", NULL, true, es);
	}
	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainCloseGroup("Node Plans", "Node Plans", false, es);
}
