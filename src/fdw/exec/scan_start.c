/*
 * scan_start.c - starts a foreign scan: evaluates its parameters, selects its nodes, forms their
 * exchanges, opens the streams, and decides whether rows may stay in receive buffers. Also closes
 * the streams.
 *
 * scan_exec.c, scan_nodes.c, scan_async.c and scan_parallel.c call this; it does not call them, and
 * does nothing per row.
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "nodes/plannodes.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "scan_state.h"

dlist_head	rf_open_scans = DLIST_STATIC_INIT(rf_open_scans);
dlist_head	rf_open_writes = DLIST_STATIC_INIT(rf_open_writes);
uint64		rf_scan_starts = 0;

/*
 * The executor state whose plan runs to its end in one call, NULL when rows are fetched in portions
 * (cursors, SQL functions).
 */
static EState *whole_run = NULL;
PlanState  *rf_early_start = NULL;

static void begin_together(EState *estate, RfScanState *scan);
static void use_inputs(RfScanState *state);
static void prepare_nodes(RfScanState *state);
static void start_part(RfScanPart *part, int neighbours);
static bool rows_may_stay_in_place(RfScanState *state);
static void batch_moved(void *owner, const void *batch, uint32 length);
static int	sent_params(RfScanState *state);
static const char **evaluate_params(RfScanState *state, const Datum *local_values);

/* ---------- whole queries ---------- */

/* Only ExecutorRun knows whether a query runs to its end in one call. */
void
rf_scan_run_begins(RfWholeRun *around, QueryDesc *query, uint64 count)
{
	around->estate = whole_run;
	around->plan = rf_early_start;
	whole_run = count == 0 ? query->estate : NULL;
	rf_early_start = count == 0 ? query->planstate : NULL;
}

void
rf_scan_run_ended(const RfWholeRun *around)
{
	whole_run = around->estate;
	rf_early_start = around->plan;
}

bool
rf_scan_whole_run(EState *estate)
{
	return whole_run == estate;
}

static void
add_open(RfOpenStatements *open, uint64 statement)
{
	if (statement != 0 && (open->oldest == 0 || statement < open->oldest))
		open->oldest = statement;
	open->newest = Max(open->newest, statement);
}

RfOpenStatements
rf_scan_open_statements(void)
{
	RfOpenStatements open = {0, 0};
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
		add_open(&open, dlist_container(RfScanState, node, iter.cur)->statement);
	dlist_foreach(iter, &rf_open_writes)
		add_open(&open, dlist_container(RfDirectWrite, node, iter.cur)->statement);
	return open;
}

/* ---------- streams ---------- */

UserMapping *
rf_scan_part_user(RfScanPart *part)
{
	if (part->user == NULL)
	{
		MemoryContext save = MemoryContextSwitchTo(part->scan->context);

		part->user = rf_user_mapping(part->scan->userid, part->serverid);
		MemoryContextSwitchTo(save);
	}
	return part->user;
}

RfSession *
rf_scan_part_session(RfScanPart *part)
{
	RfScanState *state = part->scan;
	MemoryContext save;
	RfSession  *session;

	if (part->any == NIL)
		return rf_node_session(state->statement, rf_scan_part_user(part),
							   ((ForeignScan *) state->scan->ss.ps.plan)->fs_server);
	if (part->user != NULL)
		return rf_statement_session(state->statement, part->user);
	save = MemoryContextSwitchTo(state->context);
	session = rf_session_get_any(state->statement, state->userid, part->any, &part->user);
	part->serverid = part->user->serverid;
	MemoryContextSwitchTo(save);
	return session;
}

/*
 * How many parts run on the machine of each; 0: not looked at, as there is one only, or the nodes'
 * exchanges know better. Other names of one machine count as other machines.
 */
static int *
count_neighbours(RfScanState *state)
{
	int		   *counts = palloc0_array(int, state->part_count);
	const char **hosts;

	if (state->part_count == 1 || state->exchanges != NIL)
		return counts;
	hosts = palloc0_array(const char *, state->part_count);
	for (int i = 0; i < state->part_count; i++)
	{
		if (!state->parts[i].ended)
			hosts[i] = rf_session_host(rf_scan_part_session(&state->parts[i]));
	}
	for (int i = 0; i < state->part_count; i++)
	{
		for (int j = 0; hosts[i] != NULL && j < state->part_count; j++)
			counts[i] += hosts[j] != NULL && strcmp(hosts[i], hosts[j]) == 0;
	}
	pfree(hosts);
	return counts;
}

void
rf_scan_close_senders(RfScanState *state)
{
	for (int i = 0; i < state->local.sender_count; i++)
		rf_sender_close(state->local.senders[i]);
	state->local.sender_count = 0;
}

/* Begins to read the rows that come by flow, and has the exchanges of such a statement. */
static void
use_inputs(RfScanState *state)
{
	RfScanPlan *plan = rf_scan_plan((ForeignScan *) state->scan->ss.ps.plan);
	MemoryContext caller = MemoryContextSwitchTo(state->context);
	ListCell   *lc;

	rf_scan_close_senders(state);
	if (plan->flow != NULL)
		state->exchanges = state->local.inputs != NULL ? plan->flow->exchanges :
			plan->nodes != NULL ? plan->nodes->exchanges : NIL;
	foreach(lc, state->local.inputs != NULL ? plan->flow->exchanges : NIL)
	{
		const char *spec = ((RfPlannedExchange *) lfirst(lc))->spec;
		PlanState  *input = state->local.inputs[state->local.sender_count];

		if (spec[0] == '\0')
			break;
		if (state->local.senders == NULL)
			state->local.senders = palloc_array(RfSender *, list_length(plan->flow->exchanges));
		ExecReScan(input);
		state->local.senders[state->local.sender_count++] = rf_sender_create(spec, input);
	}
	MemoryContextSwitchTo(caller);
}

/*
 * All parts start before any is read. Other streams on their sessions are finished before the first
 * part starts: otherwise a later part would have to wait for them while earlier parts already run.
 */
void
rf_scan_start(RfScanState *state)
{
	RfStream  **streams = palloc(sizeof(RfStream *) * state->part_count);
	int		   *neighbours;
	int			running = 0;
	const char **params = NULL;

	rf_scan_starts++;
	state->keys_changed = false;
	if (state->params.context != NULL)
		MemoryContextReset(state->params.context);
	use_inputs(state);
	if (!state->local.by_part)
		params = evaluate_params(state, state->local.values);
	if (state->part_count > 1 || state->exchanges != NIL)
		prepare_nodes(state);
	else if (state->statement == 0)
		begin_together(state->estate, state);
	neighbours = count_neighbours(state);
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (part->ended)
			continue;
		part->param_values = state->local.by_part ? evaluate_params(state, part->local_values) :
			params;
		start_part(part, neighbours[i]);
		streams[running++] = part->stream;
	}
	if (state->part_count > 1)
		rf_stream_tie(streams, running,
					  state->retry.possible && GetCurrentTimestamp() < state->retry.until);
	pfree(streams);
	pfree(neighbours);
	state->started = true;
}

/* The statement as it reads rows of this node by flow. */
static const char *
flow_sql(RfScanPart *part)
{
	RfScanPlan *plan = rf_scan_plan((ForeignScan *) part->scan->scan->ss.ps.plan);
	int			place;

	if (plan->flow->node_sql == NIL)
		return plan->flow->sql;
	place = list_nth_int(plan->nodes->places, part - part->scan->parts);
	return strVal(list_nth(plan->flow->node_sql, place));
}

const Node *rf_running_command = NULL;

/* The value of an option of the EXPLAIN that runs; unless it is there, `otherwise`. */
static bool
command_has(const char *option, bool otherwise)
{
	ListCell   *lc;

	if (rf_running_command == NULL || !IsA(rf_running_command, ExplainStmt))
		return otherwise;
	foreach(lc, ((const ExplainStmt *) rf_running_command)->options)
	{
		DefElem    *element = lfirst_node(DefElem, lc);

		if (strcmp(element->defname, option) == 0)
			otherwise = defGetBoolean(element);
	}
	return otherwise;
}

/*
 * RF_STREAM_EXPLAIN and what the EXPLAIN that runs wants of the nodes' plans; 0: nothing.
 */
static uint32
explain_flags(RfScanState *state)
{
	int			measured = state->estate->es_instrument;

	if (!rf_explain_nodes || state->scan->ss.ps.instrument == NULL)
		return 0;
	return RF_STREAM_EXPLAIN |
		((measured & INSTRUMENT_TIMER) != 0 ? RF_STREAM_EXPLAIN_TIMING : 0) |
		((measured & INSTRUMENT_BUFFERS) != 0 ? RF_STREAM_EXPLAIN_BUFFERS : 0) |
		(command_has("costs", true) ? RF_STREAM_EXPLAIN_COSTS : 0) |
		(command_has("verbose", false) ? RF_STREAM_EXPLAIN_VERBOSE : 0);
}

/*
 * Starts the stream of one part on its session, with buffers as the part needs them: a node that
 * only sends to other nodes gets the least.
 */
static void
start_part(RfScanPart *part, int neighbours)
{
	RfScanState *state = part->scan;
	RfSession  *session = rf_scan_part_session(part);
	RfStreamSpec spec;

	part->fresh = rf_session_is_fresh(session);
	memset(&spec, 0, sizeof(spec));
	spec.sql = state->keys.all_rows ? state->keys.all_sql :
		state->local.inputs != NULL ? flow_sql(part) : part->sql;
	spec.source = state->relation;
	spec.param_count = sent_params(state);
	spec.param_types = state->params.types;
	spec.param_values = part->param_values;
	spec.column_count = part->sends_only ? 0 : state->rows.column_count;
	spec.columns = state->rows.columns;
	spec.receive_buffers = part->sends_only ? 1 : state->fetch.receive_buffers;
	spec.receive_buffer_size = part->sends_only ? RF_MIN_SLOT_SIZE :
		state->fetch.receive_buffer_size;
	spec.inline_limit = state->fetch.inline_limit;
	spec.accept_pages = state->fetch.accept_pages;
	spec.nodes_there = neighbours;
	spec.statement = state->statement;
	spec.estimated_rows = part->sends_only ? 0 : state->expected_rows / state->reader_count;
	spec.shared = state->parallel.shared != NULL;
	spec.in_place = !spec.shared && rows_may_stay_in_place(state);
	if (state->rows.by_value)
		spec.moved = batch_moved;
	spec.owner = part;
	spec.timed = rf_is_timed(&state->scan->ss.ps);
	spec.explain = explain_flags(state);
	if (spec.explain != 0 && part->plan == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(state->context);

		part->plan = makeStringInfo();
		MemoryContextSwitchTo(caller);
	}
	spec.plan = part->plan;
	/* rows are stored while rows of this node are sent, which are there again */
	spec.keep = !spec.shared && (state->repeated || state->keys.again) &&
		state->local.inputs == NULL;

	rf_stream_start(session, &spec, &part->stream);
	part->uses = rf_session_uses(session);
}

/* Returns true if the part may run on a server that this one runs on, or may run on. */
static bool
parts_share_node(const RfScanPart *one, const RfScanPart *other)
{
	ListCell   *lc;

	if (one->any == NIL)
		return one->serverid == other->serverid || list_member_oid(other->any, one->serverid);
	foreach(lc, one->any)
	{
		if (lfirst_oid(lc) == other->serverid || list_member_oid(other->any, lfirst_oid(lc)))
			return true;
	}
	return false;
}

bool
rf_scans_share_node(const RfScanState *one, const RfScanState *other)
{
	for (int i = 0; i < one->part_count; i++)
	{
		for (int j = 0; j < other->part_count; j++)
		{
			if (parts_share_node(&one->parts[i], &other->parts[j]))
				return true;
		}
	}
	return false;
}

/*
 * Returns true if rows may point into receive buffers. Not if the session may be used otherwise
 * while such a row exists: then the stream is spooled, which frees its buffers, and rows that upper
 * nodes still hold would have dangling pointers. That use can be another scan of the same server in
 * this plan, a user's function, a trigger, or a client's command between two portions of a cursor.
 * Rows that are passed by value have no pointers. When in doubt, or when the data node's engine is
 * not trusted to leave a buffer alone while it is read (option read_in_place), batches are copied,
 * at the speed of memcpy.
 */
static bool
rows_may_stay_in_place(RfScanState *state)
{
	PlannedStmt *plan = state->estate->es_plannedstmt;
	ListCell   *lc;
	dlist_iter	iter;

	if (state->rows.by_value)
		return true;
	/* a merge may have to spool rows that it did not read yet */
	if (state->merge != NULL && state->exchanges != NIL)
		return false;
	if (!state->fetch.read_in_place || state->fetch.receive_buffers == 1 ||
		whole_run != state->estate || plan == NULL || plan->commandType != CMD_SELECT ||
		plan->hasModifyingCTE || plan->rowMarks != NIL)
		return false;

	/*
	 * The planner lists all functions that are not built in, including the functions of operators,
	 * as dependencies of a cached plan.
	 */
	foreach(lc, plan->invalItems)
	{
		if (lfirst_node(PlanInvalItem, lc)->cacheId == PROCOID)
			return false;
	}
	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *other = dlist_container(RfScanState, node, iter.cur);

		if (other != state && other->estate == state->estate && rf_scans_share_node(other, state))
			return false;
	}
	return true;
}

/*
 * The batch being read was moved: continue with the same row at the new address. Rows are passed by
 * value. NULL: the batch is lost, and so is the rest of the stream, which the request for the next
 * batch will report.
 */
static void
batch_moved(void *owner, const void *batch, uint32 length)
{
	RfScanPart *part = owner;
	RfScanState *state = part->scan;
	RfBatchHeader header;
	uint32		left = rf_decoder_remaining(part->decoder);

	if (batch == NULL)
	{
		part->first = NULL;
		part->need_batch = true;
		if (state->current == part)
			state->rows.need_batch = true;
		return;
	}
	if (part->first != NULL)
	{
		part->first = batch;
		return;
	}
	if ((state->merge ? part->need_batch : state->rows.need_batch || state->current != part) ||
		left == 0)
		return;
	memcpy(&header, batch, sizeof(header));
	rf_decoder_load(part->decoder, batch, length);
	for (uint32 i = left; i < header.row_count; i++)
		(void) rf_decoder_next(part->decoder, state->rows.values, state->rows.isnull);
}

void
rf_scan_close(RfScanState *state)
{
	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (part->stream)
			rf_stream_close(part->stream, &part->stats);
		part->stream = NULL;
		part->ended = false;
		part->first = NULL;
	}
	rf_scan_close_senders(state);
	state->started = false;
	state->ended = false;
}

/* ---------- several nodes ---------- */

/* The only node that can have rows with these values of the distribution key. */
static void
prune(RfScanState *state)
{
	RfScanPruning *pruning = &state->pruning;
	int			only;

	if (pruning->single == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(state->context);
		ForeignScan *plan = castNode(ForeignScan, state->scan->ss.ps.plan);
		List	   *values = NIL;
		ListCell   *lc;

		foreach(lc, pruning->places)
			values = lappend(values, list_nth(state->params.exprs, lfirst_int(lc)));
		pruning->single = rf_single_node_create(values, pruning->keys, plan->fs_server);
		MemoryContextSwitchTo(caller);
	}
	only = rf_single_node(pruning->single, state->scan->ss.ps.ps_ExprContext, state->part_count);
	for (int i = 0; i < state->part_count; i++)
		state->parts[i].ended = i != only;
}

/*
 * Servers of partitions need to reach each other for this only, so the error's hint says how to do
 * without it.
 */
static void
form_exchanges(RfScanState *state, RfSession *const *sessions, int count,
			   const RfExchangeSpec *specs)
{
	ForeignScan *plan = (ForeignScan *) state->scan->ss.ps.plan;
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		rf_exchange_form(sessions, count, specs, list_length(state->exchanges), state->statement);
	}
	PG_CATCH();
	{
		ErrorData  *edata;
		int			category = ERRCODE_TO_CATEGORY(geterrcode());

		if (rf_scan_plan(plan)->nodes->node_sql == NIL ||
			(category != ERRCODE_CONNECTION_EXCEPTION &&
			 geterrcode() != ERRCODE_INSUFFICIENT_PRIVILEGE &&
			 category != ERRCODE_FEATURE_NOT_SUPPORTED))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		edata->hint = psprintf("%s%sWith rdma_fdw.disable = partitions these servers' rows are "
							   "joined here.",
							   edata->hint ? edata->hint : "", edata->hint ? " " : "");
		ReThrowError(edata);
	}
	PG_END_TRY();
}

/*
 * Collects the servers of a scan that the statement may read, and the RfNodeChoice of each part
 * that any of several nodes can run. all: all of the servers, it does not matter which.
 */
static void
add_nodes(RfScanState *state, bool only_current, bool all, List **users, List **choices)
{
	RfNodesPlan *nodes = rf_scan_plan((ForeignScan *) state->scan->ss.ps.plan)->nodes;
	ListCell   *lc;

	for (int i = 0; i < state->part_count; i++)
	{
		RfScanPart *part = &state->parts[i];

		if (only_current && part->ended)
			continue;
		if (part->any != NIL)
		{
			RfNodeChoice *choice = palloc(sizeof(RfNodeChoice));

			choice->userid = state->userid;
			choice->servers = part->any;
			choice->user = &part->user;
			*choices = lappend(*choices, choice);
		}
		else
			*users = lappend(*users, rf_scan_part_user(part));
	}
	if (!all || nodes == NULL)
		return;
	foreach(lc, nodes->servers)
		* users = lappend(*users, rf_user_mapping(state->userid, lfirst_oid(lc)));
}

/* Several parts of the statement write. */
static bool
has_writing_parts(EState *estate)
{
	return estate->es_plannedstmt != NULL && estate->es_plannedstmt->hasModifyingCTE;
}

/* The nodes of all the statement's scans but this one. */
static void
add_scans(EState *estate, const RfScanState *except, bool all, List **users, List **choices)
{
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *scan = dlist_container(RfScanState, node, iter.cur);

		if (scan->estate == estate && scan != except)
			add_nodes(scan, false, all, users, choices);
	}
}

static List *
add_writes(List *users, EState *estate)
{
	dlist_iter	iter;
	ListCell   *lc;

	dlist_foreach(iter, &rf_open_writes)
	{
		RfDirectWrite *write = dlist_container(RfDirectWrite, node, iter.cur);

		foreach(lc, write->estate == estate ? write->servers : NIL)
			users = lappend(users, rf_user_mapping(write->userid, lfirst_oid(lc)));
	}
	return users;
}

/*
 * Gives all open scans and writes of this plan the statement's number, and scans that any node can
 * run the node that was chosen.
 */
static void
set_statement(EState *estate, uint64 statement)
{
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *scan = dlist_container(RfScanState, node, iter.cur);

		if (scan->estate != estate)
			continue;
		scan->statement = statement;
		for (int i = 0; i < scan->part_count; i++)
		{
			if (scan->parts[i].any != NIL && scan->parts[i].user != NULL)
				scan->parts[i].serverid = scan->parts[i].user->serverid;
		}
	}
	dlist_foreach(iter, &rf_open_writes)
	{
		RfDirectWrite *write = dlist_container(RfDirectWrite, node, iter.cur);

		if (write->estate == estate && has_writing_parts(estate))
			write->statement = statement;
	}
}

/*
 * The statement's scans begin with the first of them. A scan alone that was pruned does so with its
 * node; if it depends on other rows of the statement, or on values that it is given in portions, it
 * may read any. scan: the scan that begins; NULL: the statement is about to write.
 */
static void
begin_together(EState *estate, RfScanState *scan)
{
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	bool		all = rf_statement_wants_all();
	bool		parts = has_writing_parts(estate);
	List	   *users = NIL;
	List	   *choices = NIL;
	uint64		statement;
	bool		alone;
	ListCell   *lc;

	add_scans(estate, scan, all, &users, &choices);
	alone = users == NIL && choices == NIL && !parts;
	if (scan != NULL)
		add_nodes(scan,
				  alone && bms_is_empty(scan->scan->ss.ps.plan->extParam) && !scan->local.by_part,
				  all, &users, &choices);
	if (parts)
		users = add_writes(users, estate);
	statement = rf_statement_begin(users, choices, rf_scan_open_statements());
	set_statement(estate, statement);
	foreach(lc, parts ? choices : NIL)
		users = lappend(users, *((RfNodeChoice *) lfirst(lc))->user);
	if (parts)
		rf_statement_keep(users, statement);
	list_free(users);
	list_free_deep(choices);
	MemoryContextSwitchTo(caller);
}

/*
 * Returns true if its parts have the same number already. Parts that are begun later take it from
 * the earlier ones.
 */
static bool
has_begun(EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *scan = dlist_container(RfScanState, node, iter.cur);

		if (scan->estate == estate && scan->statement != 0)
			return true;
	}
	dlist_foreach(iter, &rf_open_writes)
	{
		RfDirectWrite *write = dlist_container(RfDirectWrite, node, iter.cur);

		if (write->estate == estate && write->statement != 0)
			return true;
	}
	return false;
}

void
rf_scan_before_write(EState *estate)
{
	dlist_iter	iter;

	if (has_writing_parts(estate) && !has_begun(estate))
		begin_together(estate, NULL);
	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *scan = dlist_container(RfScanState, node, iter.cur);
		MemoryContext caller;
		List	   *users = NIL;

		if (scan->started || scan->estate->es_epq_active != NULL)
			continue;
		if (scan->statement == 0)
			begin_together(scan->estate, scan);
		caller = MemoryContextSwitchTo(scan->context);
		for (int i = 0; i < scan->part_count; i++)
			users = lappend(users, rf_scan_part_user(&scan->parts[i]));
		rf_statement_keep(users, scan->statement);
		list_free(users);
		MemoryContextSwitchTo(caller);
	}
}

/*
 * Before the parts start: prunes some, and frees the sessions of the rest and forms the exchanges
 * between them. Other streams on these sessions are finished first: otherwise a later part would
 * have to wait for them while earlier parts already run.
 */
static void
prepare_nodes(RfScanState *state)
{
	RfSession **sessions = palloc(sizeof(RfSession *) * state->part_count);
	RfExchangeSpec *specs = palloc0(sizeof(RfExchangeSpec) * Max(list_length(state->exchanges), 1));
	RfScanRetry *retry = &state->retry;
	List	   *all = NIL;
	int			count = 0;
	ListCell   *lc;

	if (state->pruning.places != NIL)
		prune(state);
	for (int i = 0; state->local.by_part && i < state->part_count; i++)
		state->parts[i].ended = state->parts[i].local_values == NULL;
	if (state->statement == 0)
		begin_together(state->estate, state);
	for (int i = 0; i < state->part_count; i++)
	{
		if (state->parts[i].ended)
			continue;
		sessions[count] = rf_scan_part_session(&state->parts[i]);
		all = lappend_int(all, count);
		rf_session_settle(sessions[count++]);
	}
	foreach(lc, state->exchanges)
	{
		RfExchangeSpec *spec = &specs[foreach_current_index(lc)];
		RfPlannedExchange *exchange = lfirst(lc);

		spec->producers = exchange->producers;
		spec->consumers = exchange->spec[0] == '\0' ? exchange->consumers : all;
		if (exchange->spec[0] != '\0')
			spec->sender = state->local.senders[foreach_current_index(lc)];
		spec->buffers = state->fetch.receive_buffers;
		spec->buffer_size = state->fetch.receive_buffer_size;
	}
	if (retry->until == 0)
		retry->until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), rf_exchange_wait());
	retry->possible = state->exchanges != NIL;
	for (int i = 0; i < count; i++)
		retry->possible = retry->possible && rf_session_is_fresh(sessions[i]);
	if (state->exchanges != NIL)
		form_exchanges(state, sessions, count, specs);
	if (state->exchanges != NIL && (!retry->possible || state->part_count == 1))
		rf_exchange_end_turn();
	pfree(sessions);
	pfree(specs);
}

/* ---------- parameters ---------- */

/* All rows are asked for without the keys. */
static int
sent_params(RfScanState *state)
{
	return state->params.count - (state->keys.all_rows ? 1 : 0);
}

/* Their text, in the context for it. */
static const char **
evaluate_params(RfScanState *state, const Datum *local_values)
{
	ExprContext *econtext = state->scan->ss.ps.ps_ExprContext;
	const RfScanParams *params = &state->params;
	MemoryContext save;
	const char **result;
	Datum	   *values;
	bool	   *isnull;
	int			nest_level;
	int			count = sent_params(state);
	ListCell   *lc;

	if (count == 0)
		return NULL;

	save = MemoryContextSwitchTo(params->context);
	result = palloc(sizeof(char *) * count);
	values = palloc(sizeof(Datum) * count);
	isnull = palloc(sizeof(bool) * count);
	for (int i = 0; i < count; i++)
		values[i] = ExecEvalExpr((ExprState *) list_nth(params->exprs, i), econtext,
								 &isnull[i]);

	/*
	 * Text that has the same meaning on the other side, independent of this session's settings.
	 * The values are computed before, since they may come from functions that read settings.
	 */
	if (count == params->count && state->keys.all_sql != NULL)
	{
		values[count - 1] = state->keys.array;
		isnull[count - 1] = false;
	}
	foreach(lc, local_values != NULL ?
			rf_scan_plan((ForeignScan *) state->scan->ss.ps.plan)->local_places :
			NIL)
	{
		int			place = lfirst_int(lc);

		values[place] = local_values[foreach_current_index(lc)];
		isnull[place] = false;
	}
	nest_level = rf_neutral_settings(params->depends);
	for (int i = 0; i < count; i++)
		result[i] = isnull[i] ? NULL : OutputFunctionCall(&params->out[i], values[i]);
	AtEOXact_GUC(true, nest_level);
	MemoryContextSwitchTo(save);
	return result;
}
