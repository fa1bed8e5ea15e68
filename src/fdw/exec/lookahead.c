/*
 * lookahead.c
 * 	Reads rows ahead, and tells batched lookups the values that will follow (plan/lookahead_plan.c).
 *
 * The first row is read alone, as no other may be wanted; then more and more. They are kept until
 * the last of them was handed on. All state is of one backend and one execution.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "lookahead.h"

/* So many times as many rows as the time before */
#define GROWTH		8
#define FIRST_SPACE	64

typedef struct LookaheadState
{
	CustomScanState css;		/* must be first */
	List	   *params;			/* IntList: numbers of parameters */
	List	   *values;			/* ExprStates: their values from a row */
	ParamExecData *saved;		/* their previous values */
	List	   *lookups;		/* of RfLookup; looked for when the first row is wanted */
	bool		begun;

	MemoryContext memory;		/* of the rows */
	TupleTableSlot *slot;
	MinimalTuple *rows;
	int			count;
	int			space;
	int			next;
	int			ahead;			/* so many were read last time */
	bool		started;		/* some were read */
	bool		ended;
} LookaheadState;

static void
begin_lookahead(CustomScanState *css, EState *estate, int eflags)
{
	LookaheadState *state = (LookaheadState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;

	outerPlanState(css) = ExecInitNode(outerPlan(plan), estate, eflags);
	state->space = FIRST_SPACE;
	state->rows = palloc_array(MinimalTuple, state->space);
	state->params = rf_plan_node_of(RfLookaheadPlan, plan->custom_private)->params;
	state->saved = palloc_array(ParamExecData, list_length(state->params));
	state->values = ExecInitExprList(plan->custom_exprs, &css->ss.ps);
	state->memory = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw rows read ahead",
										  ALLOCSET_DEFAULT_SIZES);
	state->slot = MakeSingleTupleTableSlot(css->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
										   &TTSOpsMinimalTuple);
}

static void
end_lookahead(CustomScanState *css)
{
	ExecDropSingleTupleTableSlot(((LookaheadState *) css)->slot);
	ExecEndNode(outerPlanState(css));
}

static void
rescan_lookahead(CustomScanState *css)
{
	LookaheadState *state = (LookaheadState *) css;

	state->count = state->next = 0;
	state->started = state->ended = false;
	/* core has told the node below of parameters that changed */
	if (outerPlanState(css)->chgParam == NULL)
		ExecReScan(outerPlanState(css));
}

/* A row of another slot, in place */
static TupleTableSlot *
store(TupleTableSlot *slot, TupleTableSlot *row)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	slot_getallattrs(row);
	memcpy(slot->tts_values, row->tts_values, sizeof(Datum) * natts);
	memcpy(slot->tts_isnull, row->tts_isnull, sizeof(bool) * natts);
	return ExecStoreVirtualTuple(slot);
}

static void
find_lookups(LookaheadState *state)
{
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	MemoryContext caller = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);
	ListCell   *lc;

	foreach(lc, rf_plan_node_of(RfLookaheadPlan, plan->custom_private)->lookups)
	{
		RfLookup   *lookup = rf_lookup_find(state->css.ss.ps.state, lfirst_int(lc));

		if (lookup != NULL)
			state->lookups = lappend(state->lookups, lookup);
	}
	state->begun = true;
	MemoryContextSwitchTo(caller);
}

/*
 * The lookups see the row's values in the parameters, which are as before afterwards: the plan
 * below goes on, and may have some of them. Returns false if one of them wants no more values.
 */
static bool
expect(LookaheadState *state, TupleTableSlot *row)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	bool		go_on = true;
	ListCell   *param;
	ListCell   *value;
	ListCell   *lc;

	ResetExprContext(econtext);
	econtext->ecxt_scantuple = row;
	forboth(param, state->params, value, state->values)
	{
		ParamExecData *data = &econtext->ecxt_param_exec_vals[lfirst_int(param)];

		state->saved[foreach_current_index(param)] = *data;
		data->execPlan = NULL;
		data->value = ExecEvalExprSwitchContext((ExprState *) lfirst(value), econtext,
												&data->isnull);
	}
	foreach(lc, state->lookups)
		go_on = rf_lookup_expect(lfirst(lc)) && go_on;
	foreach(lc, state->params)
		econtext->ecxt_param_exec_vals[lfirst_int(lc)] = state->saved[foreach_current_index(lc)];
	return go_on;
}

/* Keeps a row; false: memory is full. */
static bool
add_row(LookaheadState *state, TupleTableSlot *row)
{
	MemoryContext caller = MemoryContextSwitchTo(state->memory);

	if (state->count == state->space)
	{
		state->space *= 2;
		state->rows = repalloc_huge(state->rows, sizeof(MinimalTuple) * state->space);
	}
	state->rows[state->count++] = ExecCopySlotMinimalTuple(row);
	MemoryContextSwitchTo(caller);
	return state->count < INT_MAX / 2 &&
		MemoryContextMemAllocated(state->memory, false) < get_hash_memory_limit();
}

/*
 * Reads the next rows, each time more than before as far as the lookups want to know values in
 * advance, and tells these the values.
 */
static void
read_ahead(LookaheadState *state)
{
	int			wanted = state->ahead == 0 ? 1 :
		state->ahead > INT_MAX / GROWTH ? INT_MAX : state->ahead * GROWTH;
	bool		go_on = true;
	ListCell   *lc;

	if (!state->begun)
		find_lookups(state);
	if (state->lookups == NIL)
		wanted = 1;
	foreach(lc, state->lookups)
		wanted = rf_lookup_begin(lfirst(lc), wanted, !state->started);
	state->ahead = wanted;
	state->count = state->next = 0;
	state->started = true;
	MemoryContextReset(state->memory);
	while (state->count < wanted && go_on)
	{
		TupleTableSlot *row = ExecProcNode(outerPlanState(state));

		if (TupIsNull(row))
		{
			state->ended = true;
			break;
		}
		go_on = add_row(state, row);
		if (wanted > 1)
			go_on = expect(state, store(state->css.ss.ss_ScanTupleSlot, row)) && go_on;
	}
	foreach(lc, state->lookups)
		rf_lookup_expected(lfirst(lc), !state->ended);
}

static TupleTableSlot *
next_row(ScanState *ss)
{
	LookaheadState *state = (LookaheadState *) ss;

	if (state->next == state->count && !state->ended)
		read_ahead(state);
	if (state->next == state->count)
		return NULL;
	ExecStoreMinimalTuple(state->rows[state->next++], state->slot, false);
	return store(ss->ss_ScanTupleSlot, state->slot);
}

/* EvalPlanQual: the plan below gives the row that is looked at again. */
static bool
recheck(ScanState *ss, TupleTableSlot *slot)
{
	TupleTableSlot *row = ExecProcNode(outerPlanState(ss));

	if (TupIsNull(row))
		return false;
	store(slot, row);
	return true;
}

static TupleTableSlot *
exec_lookahead(CustomScanState *css)
{
	return ExecScan(&css->ss, next_row, recheck);
}

static const CustomExecMethods exec_methods = {
	.CustomName = RF_LOOKAHEAD_NAME,
	.BeginCustomScan = begin_lookahead,
	.ExecCustomScan = exec_lookahead,
	.EndCustomScan = end_lookahead,
	.ReScanCustomScan = rescan_lookahead
};

static Node *
create_state(CustomScan *plan)
{
	LookaheadState *state = (LookaheadState *) newNode(sizeof(LookaheadState), T_CustomScanState);

	state->css.methods = &exec_methods;
	return (Node *) state;
}

static const CustomScanMethods scan_methods = {RF_LOOKAHEAD_NAME, create_state};

void
rf_lookahead_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
