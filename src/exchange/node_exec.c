/*
 * node_exec.c - Custom Scan (RdmaExchange): producer and consumer of one exchange at once.
 *
 * It returns first the rows in the store, then rows that have arrived from other nodes, then rows
 * that its own query makes for this node, and meanwhile sends rows for other nodes. It waits only
 * if nothing of this is possible, and then drives other exchanges of the statement (node_drive.c).
 * Rows that are read again, or by several, are collected first (node_share.c).
 *
 * The query's statement and plan come from the cache that rdma_internal.stream() uses
 * (serve/plan.c), with the outer statement's parameters; its executor runs inside this one's, under
 * its snapshot and with the caller's rights.
 */
#include "node.h"

#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"

/* Own rows returned between two checks for arrivals. */
#define ROWS_PER_POLL	64

/* So many times the rows of an average node are clearly more. */
#define MANY_ROWS		1.5

/* ---------- begin ---------- */

/*
 * The names of the parameters' types, which are part of the key in the cache of statements; NULL:
 * no parameters.
 */
static ArrayType *
parameter_types(ParamListInfo params)
{
	Datum	   *names;

	if (params == NULL || params->numParams == 0)
		return NULL;
	names = palloc(params->numParams * sizeof(Datum));
	for (int i = 0; i < params->numParams; i++)
	{
		ParamExternData space;
		ParamExternData *param = params->paramFetch != NULL ?
			params->paramFetch(params, i + 1, false, &space) : &params->params[i];

		/* A parameter without a type is not used anywhere. */
		Oid			type = OidIsValid(param->ptype) ? param->ptype : TEXTOID;

		names[i] = CStringGetTextDatum(format_type_extended(type, -1, FORMAT_TYPE_FORCE_QUALIFY));
	}
	return construct_array(names, params->numParams, TEXTOID, -1, false, TYPALIGN_INT);
}

static void
query_context(void *argument)
{
	errcontext("query of exchange %d", ((ExchangeState *) argument)->spec->number);
}

/* Check the number of columns against the column definition list, and the keys. */
static void
check_columns(const ExchangeState *state, TupleDesc made, TupleDesc promised)
{
	if (made->natts != promised->natts)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the query of exchange %d returns %d columns, but %d are defined",
						state->spec->number, made->natts, promised->natts)));
	for (int i = 0; i < state->spec->key_count; i++)
	{
		if (state->spec->keys[i] > promised->natts)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("exchange %d has no column %d to be routed by", state->spec->number,
							state->spec->keys[i])));
	}
}

/*
 * The query with its columns converted to the declared types. Conversion goes through text, as in a
 * scan whose column has another type here than there, because casts may change the text (casts of
 * boolean and character do). NULL: the columns have the declared types.
 */
static char *
in_promised_types(const char *query, TupleDesc made, TupleDesc promised)
{
	StringInfoData columns;
	StringInfoData names;
	bool		differ = false;

	initStringInfo(&columns);
	initStringInfo(&names);
	for (int i = 0; i < made->natts; i++)
	{
		Oid			from = TupleDescAttr(made, i)->atttypid;
		Oid			to = TupleDescAttr(promised, i)->atttypid;
		const char *separator = i == 0 ? "" : ", ";
		Oid			output;
		bool		varlena;

		appendStringInfo(&names, "%sc%d", separator, i + 1);
		if (from == to)
		{
			appendStringInfo(&columns, "%sc%d", separator, i + 1);
			continue;
		}
		differ = true;
		getTypeOutputInfo(from, &output, &varlena);
		/* the sender has applied the modifiers */
		appendStringInfo(&columns, "%spg_catalog.textin(%s(c%d))::%s", separator,
						 quote_qualified_identifier(get_namespace_name(get_func_namespace(output)),
													get_func_name(output)),
						 i + 1, format_type_extended(to, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
													 FORMAT_TYPE_FORCE_QUALIFY));
	}
	return differ ? psprintf("SELECT %s FROM (%s) q(%s)", columns.data, query, names.data) : NULL;
}

static void
plan_with(ExchangeState *state, ParamListInfo params, int workers)
{
	RfStatement *statement = rf_statement_get(state->query_text, parameter_types(params), workers);
	bool		around = rf_workers_wanted;

	rf_workers_wanted = true;
	PG_TRY();
	{
		state->input.plan = rf_statement_plan(statement, params);
	}
	PG_FINALLY();
	{
		rf_workers_wanted = around;
	}
	PG_END_TRY();
	if (state->set != NULL && rf_statement_is_unsafe(statement))
		state->set->serial = true;
}

/*
 * Returns true if this node has clearly more rows to send than the average node. Both the
 * coordinator and this node's planner have to expect so: either alone may be far off for rows of
 * joins.
 */
static bool
makes_more_than_others(const ExchangeState *state)
{
	const RfGroupDesc *desc = state->member != NULL ? state->member->desc : NULL;
	double		rows =
		linitial_node(PlannedStmt, state->input.plan->stmt_list)->planTree->plan_rows;

	if (desc == NULL || !state->spec->uneven)
		return false;
	return rows * desc->producers >
		MANY_ROWS * state->spec->rows * (state->spec->replicate ? 1 : desc->consumers);
}

/*
 * Nodes that share the cores of one machine may have no core left for workers. A node with clearly
 * more rows finishes last, so one worker pays off there.
 */
static void
plan_query(ExchangeState *state, ParamListInfo params)
{
	plan_with(state, params, rf_statement_workers);
	if (rf_statement_workers == 0 && makes_more_than_others(state))
	{
		ReleaseCachedPlan(state->input.plan, CurrentResourceOwner);
		state->input.plan = NULL;
		plan_with(state, params, 1);
	}
}

/*
 * Plans and starts the inner query. If its columns have other types than the exchange promises, it
 * is planned again with conversions.
 */
static void
start_query(ExchangeState *state, EState *estate, int eflags, TupleDesc promised)
{
	ParamListInfo params = estate->es_param_list_info;
	ErrorContextCallback callback = {error_context_stack, query_context, state};
	PlannedStmt *planned;
	TupleDesc	made;
	char	   *query;

	error_context_stack = &callback;
	plan_query(state, params);
	planned = linitial_node(PlannedStmt, state->input.plan->stmt_list);
	made = ExecCleanTypeFromTL(planned->planTree->targetlist);
	check_columns(state, made, promised);
	query = in_promised_types(state->query_text, made, promised);
	if (query != NULL)
	{
		ReleaseCachedPlan(state->input.plan, CurrentResourceOwner);
		state->input.plan = NULL;
		state->query_text = query;
		plan_query(state, params);
		planned = linitial_node(PlannedStmt, state->input.plan->stmt_list);
	}
	state->input.query = CreateQueryDesc(planned, state->query_text, estate->es_snapshot,
										 InvalidSnapshot, None_Receiver, params,
										 estate->es_queryEnv, estate->es_instrument);
	if (state->set != NULL)
		state->set->starting++;
	ExecutorStart(state->input.query, eflags & EXEC_FLAG_EXPLAIN_ONLY);
	if (state->set != NULL)
		state->set->starting--;
	state->input.node = state->input.query->planstate;
	if (state->set != NULL)
		rf_workers_link(state);
	error_context_stack = callback.previous;
}

static void
check_rights(Oid function)
{
	AclResult	result = rf_function_aclcheck(function, GetUserId());

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
}

/*
 * Starts the custom scan: parses the specification, takes the exchange from the session's set, and
 * starts the inner query if this node sends rows. Later plan nodes and processes join the exchange
 * that is there.
 */
static void
begin_exchange(CustomScanState *node, EState *estate, int eflags)
{
	ExchangeState *state = (ExchangeState *) node;
	ExchangePlan *plan = rf_exchange_plan_of(node->ss.ps.plan);
	TupleDesc	desc = CreateTupleDescCopy(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);

	/* Values come from the query with their modifiers already applied. */
	for (int i = 0; i < desc->natts; i++)
	{
		TupleDescAttr(desc, i)->atttypmod = -1;
		state->by_reference |= !TupleDescAttr(desc, i)->attbyval;
	}
	check_rights(plan->function);
	state->owner = CurrentResourceOwner;
	state->spec = rf_exchange_spec_parse(plan->spec);
	state->query_text = plan->query;
	if (state->spec->reader > 0 || (IsParallelWorker() && node->ss.ps.plan->parallel_aware))
	{
		/* another plan node, or process, takes part in the exchange; see node_share.c */
		state->sharing.decoder = rf_exchange_make_decoder(state, desc);
		if (!IsParallelWorker() && (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
			rf_exchange_join(state, estate);
		return;
	}
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		state->member = rf_exchange_take(state, estate);
	if (state->query_text[0] != '\0')
		start_query(state, estate, eflags, desc);
	else if (state->member != NULL && state->member->producer >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("exchange %d has no query, but this node is to send its rows",
						state->spec->number)));
	if (state->member == NULL)
		return;

	state->set->serial |= plan->unsafe;
	state->reader.keep = (eflags & (EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)) != 0;
	state->store.arriving = ExecInitExtraTupleSlot(estate, desc, &TTSOpsVirtual);
	rf_exchange_begin_moving(state, desc);
	rf_filter_begin(state, desc);
	if (state->input.query != NULL)
		rf_exchange_inspect(state->input.query->planstate, true);
}

/* ---------- rows ---------- */

/*
 * Returns true if other exchanges may wait while its row is in use. A row of a nested exchange may
 * be part of a row that the outer query has made and cannot send yet, even if nothing else reads
 * it.
 */
static inline bool
must_copy(const ExchangeState *state)
{
	return state->reader.exposed &&
		(state->set->unread > 1 || (state->reader.nested && !state->reader.copied));
}

/* Called before returning a row in memory of the query or of a batch. */
static TupleTableSlot *
give(ExchangeState *state, TupleTableSlot *slot)
{
	state->reader.given = true;
	if (state->by_reference)
	{
		if (must_copy(state))
			ExecMaterializeSlot(slot);
		else
			state->reader.lent = true;
	}
	return slot;
}

/*
 * The scan's next row, from the first source that has one: the store, batches that arrived, the own
 * query. If there is no row anywhere it waits, driving the statement's other exchanges meanwhile.
 */
static TupleTableSlot *
next_row(ScanState *node)
{
	ExchangeState *state = (ExchangeState *) node;
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	state->reader.lent = false;
	if (state->sharing.source != NULL || rf_exchange_collects(state))
		return rf_exchange_next_collected(state, slot);
	for (;;)
	{
		if (unlikely(state->store.waiting) && rf_exchange_next_stored(state, slot))
		{
			/* it stays while the exchange is driven, which takes no batch out of the store */
			state->reader.given = true;
			return slot;
		}
		if (rf_exchange_next_received(state, slot))
			return give(state, slot);
		if (state->reader.over)
			return ExecClearTuple(slot);
		if (state->in.unpolled >= ROWS_PER_POLL && rf_exchange_receive(state))
			continue;

		switch (rf_exchange_produce(state))
		{
			case STEP_OWN_ROW:
				state->in.unpolled++;
				rf_exchange_take_own(state, slot);
				return give(state, slot);
			case STEP_MOVED:
				(void) rf_exchange_receive(state);
				continue;
			case STEP_STUCK:
				if (rf_exchange_receive(state))
					continue;
				break;
		}
		if (rf_exchange_has_arrived(state) && !state->store.waiting)
		{
			state->reader.over = true;
			state->set->unread--;
			return ExecClearTuple(slot);
		}
		rf_exchange_sleep(state);
		CHECK_FOR_INTERRUPTS();
	}
}

static bool
recheck_row(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
exec_exchange(CustomScanState *node)
{
	return ExecScan(&node->ss, next_row, recheck_row);
}

/* Starts again with the first row, which is possible for rows that are kept only. */
static void
rescan_exchange(CustomScanState *node)
{
	ExchangeState *state = (ExchangeState *) node;

	ExecScanReScan(&node->ss);
	if (state->sharing.source != NULL || rf_exchange_collects(state))
		rf_exchange_rescan_collected(state);
	else if (state->reader.given || state->reader.over)
		elog(ERROR, "rows of exchange %d cannot be read again", state->spec->number);
}

/* ---------- the end ---------- */

/*
 * Runs when the surrounding query ends. Rows that other nodes wait for are sent during waits, and
 * at the end. The statement itself may run in pieces, each of which ends with this call; it is over
 * when the executor finishes (rf_exchange_finish_all).
 */
static void
shutdown_exchange(CustomScanState *node)
{
	ExchangeState *state = (ExchangeState *) node;

	rf_exchange_abandon_shared(state);
	if (state->member != NULL && state->reader.nested && !state->reader.keep && !state->reader.over)
		rf_exchange_stop_reading(state);
}

/* Ends the scan: gives back its place in the set, frees what it has, and ends the inner query. */
static void
end_exchange(CustomScanState *node)
{
	ExchangeState *state = (ExchangeState *) node;

	rf_exchange_abandon_shared(state);
	if (state->member != NULL)
	{
		state->member->counters.process_rows = rf_exchange_process_rows(state, state->set->context);
		rf_exchange_end_sending(state);
	}
	if (state->store.batches != NULL)
		rf_batches_close(state->store.batches);
	if (state->in.decoder != NULL)
		rf_decoder_destroy(state->in.decoder);
	if (state->sharing.decoder != NULL)
		rf_decoder_destroy(state->sharing.decoder);
	if (state->store.encoder != NULL)
		rf_encoder_destroy(state->store.encoder);
	state->store.batches = NULL;
	state->in.decoder = state->sharing.decoder = NULL;
	state->store.encoder = NULL;
	if (state->input.query != NULL)
	{
		if ((state->input.query->estate->es_top_eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
			ExecutorFinish(state->input.query);
		ExecutorEnd(state->input.query);
		FreeQueryDesc(state->input.query);
		ReleaseCachedPlan(state->input.plan, state->owner);
	}
	if (state->member != NULL)
		rf_exchange_give_back(state->member);
	state->member = NULL;
	state->input.query = NULL;
}

/* The query's own plan, as a child of this node. */
static void
explain_query(ExchangeState *state, ExplainState *es)
{
	ExplainState outer = *es;

	es->rtable_names = NIL;
	es->deparse_cxt = NIL;
	es->printed_subplans = NULL;
	es->hide_workers = false;
	ExplainPrintPlan(es, state->input.query);
	outer.str = es->str;
	outer.grouping_stack = es->grouping_stack;
	*es = outer;
}

static void
explain_processes(ExchangeState *state, ExplainState *es)
{
	char	   *rows = rf_exchange_process_rows(state, CurrentMemoryContext);

	if (rows != NULL)
		ExplainPropertyText("Rows per Process", rows, es);
}

/*
 * EXPLAIN of the custom scan: the exchange, with ANALYZE its counters, and the plan of its query.
 */
static void
explain_exchange(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ExchangeState *state = (ExchangeState *) node;

	ExplainPropertyText("Exchange", rf_exchange_describe(state->spec), es);
	if (es->analyze && es->timing && state->sharing.source != NULL)
		explain_processes(state, es);
	if (es->analyze && state->member != NULL)
	{
		const ExchangeCounters *counters = &state->member->counters;

		ExplainPropertyUInteger("Rows Sent", NULL, counters->rows_out, es);
		ExplainPropertyUInteger("Rows Received", NULL, counters->rows_in, es);
		ExplainPropertyUInteger("Rows Kept", NULL, counters->rows_local, es);
		if (state->spec->filter > 0)
			ExplainPropertyUInteger("Rows Filtered", NULL, counters->rows_filtered, es);
		if (es->timing || counters->spilled_bytes > 0)
			ExplainPropertyUInteger("Spilled", "bytes", counters->spilled_bytes, es);
		if (es->timing)
		{
			explain_processes(state, es);
			ExplainPropertyUInteger("Stalls", NULL, counters->stalls, es);
		}
	}
	if (state->input.query != NULL)
		explain_query(state, es);
}

/* ---------- its methods ---------- */

static const CustomExecMethods exec_methods = {
	.CustomName = rf_exchange_name,
	.BeginCustomScan = begin_exchange,
	.ExecCustomScan = exec_exchange,
	.EndCustomScan = end_exchange,
	.ReScanCustomScan = rescan_exchange,
	.ShutdownCustomScan = shutdown_exchange,
	.ExplainCustomScan = explain_exchange,
	.EstimateDSMCustomScan = rf_exchange_estimate_shared,
	.InitializeDSMCustomScan = rf_exchange_initialize_shared,
	.ReInitializeDSMCustomScan = rf_exchange_reinitialize_shared,
	.InitializeWorkerCustomScan = rf_exchange_initialize_worker,
};

Node *
rf_exchange_create_state(CustomScan *scan)
{
	ExchangeState *state = (ExchangeState *) newNode(sizeof(ExchangeState), T_CustomScanState);

	state->css.methods = &exec_methods;
	return (Node *) state;
}
