/*
 * modify_direct.c - UPDATE and DELETE that the data node does by itself: one remote statement, no
 * rows here but those of RETURNING. modify_direct_plan.c decides which, and writes the statement.
 *
 * On a server with nodes each of them runs the statement over its rows, or over its copy of all of
 * them.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"

#include "fdw/plan/plan_private.h"

#include "exec.h"

typedef struct DirectState
{
	UserMapping **users;		/* one per node */
	int			node_count;
	bool		everywhere;		/* all nodes have the same rows */
	const char *sql;
	List	   *params;			/* ExprStates */
	RfValueWriter *writer;
	Oid		   *types;			/* of params, as far as the data nodes are told: see told_type() */
	Datum	   *values;
	bool	   *isnull;
	List	   *retrieved;
	RfResultReader *reader;		/* NULL: nothing is retrieved */
	TupleTableSlot *target;		/* of a join: the target's part of a row, for RETURNING; else NULL */
	AttrNumber *target_attrs;	/* of each column retrieved: of the target, or 0 */
	bool		set_processed;
	MemoryContext context;		/* of the query */

	bool		executed;
	PGresult  **results;		/* one per node; of a replicated table only the first one's rows count */
	int			result;			/* RETURNING goes on with this one */
	int			next;			/* and this row of it */
	MemoryContextCallback gone;
} DirectState;

/*
 * The data node finds a parameter's type by itself, as its columns may have other types than ours, but
 * for functions of any array or range it has nothing to go by.  These have the same OIDs everywhere if
 * they are built in.
 */
static Oid
told_type(Oid type)
{
	char		category;
	bool		preferred;

	get_type_category_preferred(type, &category, &preferred);
	return type < FirstGenbkiObjectId && (category == TYPCATEGORY_ARRAY || category == TYPCATEGORY_RANGE) ?
		type : InvalidOid;
}

static void
clear_result(void *arg)
{
	DirectState *state = arg;

	for (int i = 0; i < state->node_count; i++)
	{
		PQclear(state->results[i]);
		state->results[i] = NULL;
	}
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

void
rdmaBeginDirectModify(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = castNode(ForeignScan, node->ss.ps.plan);
	EState	   *estate = node->ss.ps.state;
	Relation	rel = node->resultRelInfo->ri_RelationDesc;
	DirectState *state;
	List	   *types;
	List	   *nodes;
	ListCell   *lc;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state = palloc0(sizeof(DirectState));
	types = (List *) list_nth(plan->fdw_private, RF_DIRECT_PARAM_TYPES);
	state->context = estate->es_query_cxt;
	nodes = rf_server_nodes(GetForeignServer(plan->fs_server));
	if (nodes == NIL)
		nodes = list_make1_oid(plan->fs_server);
	else
		state->everywhere = rf_table_distribution(RelationGetRelid(rel))->placement == RF_PLACED_EVERYWHERE;
	state->node_count = list_length(nodes);
	state->users = palloc_array(UserMapping *, state->node_count);
	state->results = palloc0_array(PGresult *, state->node_count);
	foreach(lc, nodes)
		state->users[foreach_current_index(lc)] =
			GetUserMapping(rf_modify_userid(node->resultRelInfo, estate), lfirst_oid(lc));
	state->sql = strVal(list_nth(plan->fdw_private, RF_DIRECT_SQL));
	state->params = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	state->writer = rf_value_writer_create(types);
	state->types = palloc0(sizeof(Oid) * Max(list_length(types), 1));
	foreach(lc, types)
		state->types[foreach_current_index(lc)] = told_type(lfirst_oid(lc));
	state->values = palloc0(sizeof(Datum) * Max(list_length(types), 1));
	state->isnull = palloc0(sizeof(bool) * Max(list_length(types), 1));
	state->retrieved = (List *) list_nth(plan->fdw_private, RF_DIRECT_RETRIEVED);
	if (state->retrieved != NIL)
		state->reader = rf_result_reader_create(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
												RelationGetRelationName(rel), state->retrieved);
	if (plan->scan.scanrelid == 0)
		set_up_target(state, plan, rel, estate);
	state->set_processed = boolVal(list_nth(plan->fdw_private, RF_DIRECT_SET_PROCESSED));
	state->gone.func = clear_result;
	state->gone.arg = state;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &state->gone);
	node->fdw_state = state;
}

static int
rows_written(DirectState *state, int i)
{
	return state->reader ? PQntuples(state->results[i]) : atoi(PQcmdTuples(state->results[i]));
}

/* Runs the statement on all nodes; how many rows the statement wrote. */
static uint64
execute(ForeignScanState *node, DirectState *state)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	MemoryContext caller;
	const char *const *values;
	uint64		rows = 0;
	ListCell   *lc;

	foreach(lc, state->params)
	{
		int			i = foreach_current_index(lc);

		state->values[i] = ExecEvalExpr((ExprState *) lfirst(lc), econtext, &state->isnull[i]);
	}
	caller = MemoryContextSwitchTo(state->context);
	values = rf_write_values(state->writer, state->values, state->isnull);
	for (int i = 0; i < state->node_count; i++)
	{
		RfCommand  *command = rf_command_create(rf_session_get(state->users[i], true), state->sql,
												list_length(state->params), true);

		rf_command_set_types(command, state->types);
		state->results[i] = rf_command_execute(command, values);
		if (!state->everywhere || i == 0)
			rows += rows_written(state, i);
		else if (rows_written(state, i) != rows)
			rf_complain_of_copies(node->resultRelInfo->ri_RelationDesc, state->users[0], rows, state->users[i],
								  rows_written(state, i));
	}
	MemoryContextSwitchTo(caller);
	state->executed = true;
	return rows;
}

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

void
rdmaExplainDirectModify(ForeignScanState *node, ExplainState *es)
{
	if (es->verbose)
		ExplainPropertyText("Remote SQL",
							strVal(list_nth(castNode(ForeignScan, node->ss.ps.plan)->fdw_private, RF_DIRECT_SQL)), es);
}
