/*
 * modify_direct.c - UPDATE, DELETE and INSERT ... SELECT that the data node does by itself: one
 * remote statement, no rows here but those of RETURNING. modify_direct_plan.c and
 * insert_direct_plan.c decide which, and write the statement.
 *
 * On a server with nodes each of them runs the statement over its rows, or over its copy of all of
 * them, at the same time; rows to be inserted may move from node to node by exchanges.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"

#include "fdw/plan/plan_private.h"

#include "exec.h"
#include "scan_state.h"

typedef struct DirectState
{
	RfDirectWrite write;		/* in rf_open_writes */
	Oid			serverid;		/* of the table */
	Oid			userid;
	List	   *nodes;			/* OIDs of servers */
	UserMapping **users;		/* one per node; NULL: not asked for yet, see user_of() */
	int			node_count;
	RfSingleNode *single;		/* NULL: all nodes run the statement */
	bool		everywhere;		/* all nodes have the same rows */
	const char *sql;
	List	   *params;			/* ExprStates */
	RfValueWriter *writer;
	Datum	   *values;
	bool	   *isnull;
	List	   *exchanges;		/* RfPlannedExchanges: to be formed before it runs */
	uint32		buffers;		/* of each pair of nodes, */
	uint32		buffer_size;	/* of so many bytes */
	List	   *retrieved;
	RfResultReader *reader;		/* NULL: nothing is retrieved */
	TupleTableSlot *target;		/* of a join: the target's part of a row, for RETURNING; or NULL */
	AttrNumber *target_attrs;	/* of each column retrieved: of the target, or 0 */
	bool		set_processed;
	MemoryContext context;		/* of the query */

	uint64		statement;		/* rf_statement_begin */
	bool		executed;
	PGresult  **results;		/* one per node; of a replicated table only the first one's rows
								 * count */
	int			result;			/* RETURNING goes on with this one */
	int			next;			/* and this row of it */
	MemoryContextCallback gone;
} DirectState;

static void
clear_result(void *arg)
{
	DirectState *state = arg;

	if (state->write.node.next != NULL)
		dlist_delete(&state->write.node);
	state->write.node.next = NULL;
	for (int i = 0; i < state->node_count; i++)
	{
		PQclear(state->results[i]);
		state->results[i] = NULL;
	}
}

/* Called in the query's context, where the mapping stays. */
static UserMapping *
user_of(DirectState *state, int node)
{
	if (state->users[node] == NULL)
		state->users[node] = rf_user_mapping(state->userid, list_nth_oid(state->nodes, node));
	return state->users[node];
}

/* RETURNING of a join looks for the target's columns in a row of the target's own. */
static void
set_up_target(DirectState *state, ForeignScan *plan, Relation rel, EState *estate)
{
	ListCell   *lc;

	state->target = ExecInitExtraTupleSlot(estate, RelationGetDescr(rel), &TTSOpsVirtual);
	state->target_attrs = palloc0_array(AttrNumber, Max(list_length(state->retrieved), 1));
	foreach(lc, state->retrieved)
	{
		TargetEntry *tle = list_nth_node(TargetEntry, plan->fdw_scan_tlist, lfirst_int(lc) - 1);
		Var		   *var = castNode(Var, tle->expr);

		if (var->varno == plan->resultRelation)
			state->target_attrs[foreach_current_index(lc)] = var->varattno;
	}
}

/* The target's part of the row in slot, which must stay. */
static TupleTableSlot *
target_row(DirectState *state, TupleTableSlot *slot)
{
	TupleTableSlot *target = state->target;

	slot_getallattrs(slot);
	ExecStoreAllNullTuple(target);
	for (int i = 0; i < list_length(state->retrieved); i++)
	{
		AttrNumber	attno = state->target_attrs[i];

		if (attno == 0)
			continue;
		target->tts_values[attno - 1] = slot->tts_values[i];
		target->tts_isnull[attno - 1] = slot->tts_isnull[i];
	}
	return target;
}

static void
resolve_buffers(DirectState *state, const RfFetchOptions *fetch)
{
	state->buffers = fetch->receive_buffers < 0 ? rf_receive_buffers : fetch->receive_buffers;
	state->buffer_size = TYPEALIGN(4096, fetch->receive_buffer_size < 0 ?
								   rf_receive_buffer_size * 1024 : fetch->receive_buffer_size);
}

/*
 * Prepares a write that the data nodes do by themselves; it is sent by the first call of Iterate.
 */
void
rdmaBeginDirectModify(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = castNode(ForeignScan, node->ss.ps.plan);
	EState	   *estate = node->ss.ps.state;
	Relation	rel = node->resultRelInfo->ri_RelationDesc;
	RfDirectPlan *direct = rf_direct_plan(plan);
	List	   *types = direct->param_types;
	List	   *keys = direct->keys;
	DirectState *state;
	List	   *exprs;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	rf_use_servers(estate, RelationGetRelid(rel));
	state = palloc0(sizeof(DirectState));
	state->context = estate->es_query_cxt;
	state->serverid = plan->fs_server;
	state->userid = rf_modify_userid(node->resultRelInfo, estate);
	state->nodes = rf_server_nodes(GetForeignServer(plan->fs_server));
	if (state->nodes == NIL)
		state->nodes = list_make1_oid(plan->fs_server);
	else
		state->everywhere = keys == NIL &&
			rf_table_distribution(RelationGetRelid(rel))->placement == RF_PLACED_EVERYWHERE;
	state->node_count = list_length(state->nodes);
	state->users = palloc0_array(UserMapping *, state->node_count);
	state->results = palloc0_array(PGresult *, state->node_count);
	state->sql = direct->sql;
	exprs = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	if (keys != NIL)
		state->single = rf_single_node_create(list_copy_tail(exprs, list_length(types)), keys,
											  plan->fs_server);
	state->params = list_truncate(exprs, list_length(types));
	state->writer = rf_value_writer_create(types);
	state->values = palloc0(sizeof(Datum) * Max(list_length(types), 1));
	state->isnull = palloc0(sizeof(bool) * Max(list_length(types), 1));
	state->retrieved = direct->retrieved;
	if (state->retrieved != NIL)
		state->reader = rf_result_reader_create(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
												RelationGetRelationName(rel), state->retrieved);
	if (plan->scan.scanrelid == 0)
		set_up_target(state, plan, rel, estate);
	state->exchanges = direct->exchanges;
	if (state->exchanges != NIL)
		resolve_buffers(state, &direct->fetch);
	state->set_processed = direct->set_processed;
	state->write.estate = estate;
	state->write.userid = state->userid;
	state->write.servers = state->nodes;
	dlist_push_tail(&rf_open_writes, &state->write.node);
	state->gone.func = clear_result;
	state->gone.arg = state;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &state->gone);
	node->fdw_state = state;
}

/* 0 for a node that did not run the statement. */
static int
rows_written(DirectState *state, int i)
{
	PGresult   *result = state->results[i];

	if (result == NULL)
		return 0;
	return state->reader ? PQntuples(result) : atoi(PQcmdTuples(result));
}

/* All nodes run the statement then. */
static void
form_exchanges(DirectState *state)
{
	RfSession **sessions = palloc_array(RfSession *, state->node_count);
	RfExchangeSpec *specs = palloc0_array(RfExchangeSpec, list_length(state->exchanges));
	ListCell   *lc;

	for (int i = 0; i < state->node_count; i++)
	{
		sessions[i] = rf_node_session(state->statement, user_of(state, i), state->serverid);
		rf_session_settle(sessions[i]);
	}
	foreach(lc, state->exchanges)
	{
		RfPlannedExchange *exchange = lfirst(lc);

		specs[foreach_current_index(lc)] = (RfExchangeSpec)
		{
			exchange->producers, exchange->consumers, state->buffers, state->buffer_size
		};
	}
	rf_exchange_form(sessions, state->node_count, specs, list_length(state->exchanges),
					 state->statement);
	rf_exchange_end_turn();
	pfree(sessions);
	pfree(specs);
}

static RfCommand *
create_command(DirectState *state, int node)
{
	RfSession  *session = rf_node_session(state->statement, user_of(state, node), state->serverid);
	RfCommand  *command = rf_command_create(session, state->sql, list_length(state->params), true);

	rf_command_in_statement(command, state->statement);
	return command;
}

/*
 * Runs the statement on all nodes, between which rows move. What one node fails with ends it on all
 * of them: the error that is raised is one that does not just say so.
 */
static void
execute_exchanging(DirectState *state, const char *const *values)
{
	RfCommand **commands = palloc_array(RfCommand *, state->node_count);
	int			failed = -1;
	bool		only_lost = false;

	form_exchanges(state);
	for (int i = 0; i < state->node_count; i++)
		commands[i] = create_command(state, i);
	for (int i = 0; i < state->node_count; i++)
		rf_command_send(commands[i], values);
	for (int i = 0; i < state->node_count; i++)
	{
		const char *sqlstate;

		state->results[i] = rf_command_receive(commands[i]);
		if (PQresultStatus(state->results[i]) == PGRES_COMMAND_OK)
			continue;
		sqlstate = PQresultErrorField(state->results[i], PG_DIAG_SQLSTATE);
		if (failed < 0 || (only_lost && sqlstate != NULL && strncmp(sqlstate, "08", 2) != 0))
		{
			failed = i;
			only_lost = sqlstate == NULL || strncmp(sqlstate, "08", 2) == 0;
		}
	}
	if (failed >= 0)
	{
		PGresult   *result = state->results[failed];

		state->results[failed] = NULL;
		rf_command_raise(commands[failed], result);
	}
}

/*
 * Runs the statement on the nodes from `first` on, before `last`, at the same time. A node that is
 * down is an error before any of them starts.
 */
static void
execute_on(DirectState *state, int first, int last, const char *const *values)
{
	RfCommand **commands = palloc_array(RfCommand *, last - first);

	for (int i = first; i < last; i++)
		commands[i - first] = create_command(state, i);
	rf_commands_execute(commands, last - first, values, state->results + first);
}

/* Runs the statement on the nodes that can have its rows; returns the number of rows it wrote. */
static uint64
execute(ForeignScanState *node, DirectState *state)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	MemoryContext caller;
	const char *const *values;
	int			only = -1;
	bool		all;
	List	   *users = NIL;
	uint64		rows = 0;
	ListCell   *lc;

	foreach(lc, state->params)
	{
		int			i = foreach_current_index(lc);

		state->values[i] = ExecEvalExpr((ExprState *) lfirst(lc), econtext, &state->isnull[i]);
	}
	if (state->single != NULL)
		only = rf_single_node(state->single, econtext, state->node_count);
	rf_scan_before_write(node->ss.ps.state);
	caller = MemoryContextSwitchTo(state->context);
	all = rf_statement_wants_all();
	for (int i = 0; i < state->node_count; i++)
	{
		if (all || only < 0 || i == only)
			users = lappend(users, user_of(state, i));
	}
	state->statement = state->write.statement;
	if (state->statement == 0)
		state->statement = rf_statement_begin(users, NIL, rf_scan_open_statements());
	list_free(users);
	values = rf_write_values(state->writer, state->values, state->isnull);
	if (state->exchanges != NIL)
		execute_exchanging(state, values);
	else if (only >= 0)
		execute_on(state, only, only + 1, values);
	else if (state->everywhere)
	{
		/*
		 * the statement that has locked the first copies locks the rest: otherwise two statements
		 * could each have some
		 */
		execute_on(state, 0, 1, values);
		execute_on(state, 1, state->node_count, values);
	}
	else
		execute_on(state, 0, state->node_count, values);
	for (int i = 0; i < state->node_count; i++)
	{
		if (!state->everywhere || i == 0)
			rows += rows_written(state, i);
		else if (rows_written(state, i) != rows)
			rf_complain_of_copies(node->resultRelInfo->ri_RelationDesc, state->users[0], rows,
								  state->users[i], rows_written(state, i));
	}
	MemoryContextSwitchTo(caller);
	state->executed = true;
	return rows;
}

/*
 * Runs the statement at the first call, and returns the rows of RETURNING one by one; without
 * RETURNING it adds the rows of all nodes to the statement's count.
 */
TupleTableSlot *
rdmaIterateDirectModify(ForeignScanState *node)
{
	DirectState *state = node->fdw_state;
	EState	   *estate = node->ss.ps.state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ProjectionInfo *returning = node->resultRelInfo->ri_projectReturning;
	TupleTableSlot *target;

	ExecClearTuple(slot);
	if (!state->executed)
	{
		uint64		rows = execute(node, state);

		if (state->set_processed)
			estate->es_processed += rows;
		/* rows that nobody sees are this node's all the same */
		if (returning == NULL && node->ss.ps.instrument)
			node->ss.ps.instrument->tuplecount += rows;
	}
	if (returning == NULL)
		return slot;
	while (state->next >= rows_written(state, state->result))
	{
		if (state->everywhere || state->result + 1 >= state->node_count)
			return slot;
		state->result++;
		state->next = 0;
	}

	if (state->reader)
		rf_read_result(state->reader, state->results[state->result], state->next, slot);
	else
		ExecStoreAllNullTuple(slot);
	state->next++;
	target = state->target != NULL ? target_row(state, slot) : slot;
	target->tts_tableOid = RelationGetRelid(node->resultRelInfo->ri_RelationDesc);
	returning->pi_exprContext->ecxt_scantuple = target;
	return slot;
}

void
rdmaEndDirectModify(ForeignScanState *node)
{
	if (node->fdw_state)
		clear_result(node->fdw_state);
}

/* The nodes that ran the statement, and how many rows each wrote. */
static void
explain_nodes_written(DirectState *state, ExplainState *es)
{
	bool		text = es->format == EXPLAIN_FORMAT_TEXT;

	if (!text)
		ExplainOpenGroup("Node Counters", "Node Counters", false, es);
	for (int i = 0; i < state->node_count; i++)
	{
		char	   *name = GetForeignServer(list_nth_oid(state->nodes, i))->servername;
		int			rows = rows_written(state, i);

		if (text)
		{
			ExplainPropertyText(psprintf("Node %s", name), state->results[i] == NULL ?
								"not executed" : psprintf("rows=%d", rows), es);
			continue;
		}
		ExplainOpenGroup("Node", NULL, true, es);
		ExplainPropertyText("Node", name, es);
		ExplainPropertyBool("Executed", state->results[i] != NULL, es);
		ExplainPropertyInteger("Rows Written", NULL, rows, es);
		ExplainCloseGroup("Node", NULL, true, es);
	}
	if (!text)
		ExplainCloseGroup("Node Counters", "Node Counters", false, es);
}

/* Nodes and statement; with ANALYZE also which of the nodes wrote. */
void
rdmaExplainDirectModify(ForeignScanState *node, ExplainState *es)
{
	ForeignScan *plan = castNode(ForeignScan, node->ss.ps.plan);
	RfDirectPlan *direct = rf_direct_plan(plan);
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, rf_server_nodes(GetForeignServer(plan->fs_server)))
		names = lappend(names, GetForeignServer(lfirst_oid(lc))->servername);
	if (names != NIL)
		ExplainPropertyList(direct->keys != NIL ? "One of Nodes" : "Nodes", names, es);
	if (direct->strategy[0] != '\0')
		ExplainPropertyText("Strategy", direct->strategy, es);
	rf_explain_exchanges(direct->exchanges, es);
	if (es->verbose)
		ExplainPropertyText("Remote SQL", direct->sql, es);
	if (names != NIL && es->analyze && node->fdw_state != NULL)
		explain_nodes_written(node->fdw_state, es);
}
