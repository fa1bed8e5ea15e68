/*
 * local_rows_exec.c
 *		Running a statement that gets rows of this node (plan/local_rows.c): reads them, and hands
 *		them to its foreign scan. Few go with the statement, as arrays in its parameters; many by
 *		flow, as the inputs of exchanges.
 *
 * The rows are read before the statement starts, and again only after a parameter of their plans
 * has changed. Plans that may use sessions have a Material node above them, and are read to their
 * end first; a plain scan of a table is read while the statement runs. All state is of one backend
 * and one execution.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"

#include "fdw/deparse/statement.h"
#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "scan_state.h"

/* Inputs of up to this many bytes and RF_FEW_LOCAL_ROWS rows go with the statement. */
#define MOST_BYTES		(1024 * 1024)

typedef struct LocalRowsState
{
	CustomScanState css;		/* must be first */
	PlanState  *statement;
	ForeignScanState *scan;		/* in it */
	int			input_count;
	PlanState **inputs;			/* give the rows */

	MemoryContext values;		/* of few rows */
	int			column_count;
	RfLocalRowsPlan *plan;
	ArrayBuildState **arrays;	/* of each */

	bool		read;			/* the scan has the rows, or reads them itself: */
	bool		few;
	uint64		rows;			/* of all inputs, while they are few */
	bool		asked;			/* the statement was used before */

	/* for EXPLAIN */
	uint64		rows_sent;
	uint64		bytes_sent;
} LocalRowsState;

/* ---------- begin and end ---------- */

static void
begin_local_rows(CustomScanState *css, EState *estate, int eflags)
{
	LocalRowsState *local = (LocalRowsState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	PlanState  *scan;

	local->input_count = list_length(plan->custom_plans) - 1;
	local->inputs = palloc_array(PlanState *, local->input_count);
	for (int i = 0; i < local->input_count; i++)
	{
		local->inputs[i] = ExecInitNode(list_nth(plan->custom_plans, i + 1), estate,
										eflags | EXEC_FLAG_REWIND);
		css->custom_ps = lappend(css->custom_ps, local->inputs[i]);
	}
	local->statement = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	css->custom_ps = lappend(css->custom_ps, local->statement);
	scan = local->statement;
	while (!IsA(scan, ForeignScanState))
		scan = outerPlanState(scan);
	local->scan = (ForeignScanState *) scan;
	local->plan = rf_plan_node_of(RfLocalRowsPlan, plan->custom_private);
	local->column_count = list_length(local->plan->columns);
	local->arrays = palloc0_array(ArrayBuildState *, local->column_count);
	local->values = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw local rows",
										  ALLOCSET_DEFAULT_SIZES);
	/* the statement's slots are handed on */
	if (css->ss.ps.ps_ProjInfo == NULL)
	{
		css->ss.ps.resultopsset = true;
		css->ss.ps.resultopsfixed = false;
		css->ss.ps.resultops = NULL;
	}
}

static void
end_local_rows(CustomScanState *css)
{
	ListCell   *lc;

	foreach(lc, css->custom_ps)
		ExecEndNode((PlanState *) lfirst(lc));
}

/* Reads inputs again only if their parameters changed; rows that are here stay. */
static void
rescan_local_rows(CustomScanState *css)
{
	LocalRowsState *local = (LocalRowsState *) css;
	ListCell   *lc;

	foreach(lc, css->ss.ps.chgParam != NULL ? css->custom_ps : NIL)
		UpdateChangedParamSet((PlanState *) lfirst(lc), css->ss.ps.chgParam);
	for (int i = 0; i < local->input_count; i++)
	{
		if (local->inputs[i]->chgParam != NULL)
			local->read = false;
	}

	/*
	 * plans that are not read again are not scanned again; the statement is, when the rows are
	 * there
	 */
	if (!local->read)
	{
		for (int i = 0; i < local->input_count; i++)
		{
			if (local->inputs[i]->chgParam == NULL)
				ExecReScan(local->inputs[i]);
		}
	}
	else if (local->statement->chgParam == NULL)
		ExecReScan(local->statement);
}

/* ---------- reading the rows ---------- */

static void
start_arrays(LocalRowsState *local)
{
	for (int i = 0; i < local->column_count; i++)
	{
		PlanState  *input = local->inputs[list_nth_int(local->plan->inputs, i)];
		TupleDesc	desc = ExecGetResultType(input);
		Oid			type = TupleDescAttr(desc, list_nth_int(local->plan->columns, i))->atttypid;

		local->arrays[i] = initArrayResult(type, local->values, false);
	}
}

static void
add_row(LocalRowsState *local, int input, TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	for (int i = 0; i < local->column_count; i++)
	{
		int			attno = list_nth_int(local->plan->columns, i);
		ArrayBuildState *array = local->arrays[i];

		if (list_nth_int(local->plan->inputs, i) == input)
			accumArrayResult(array, slot->tts_values[attno], slot->tts_isnull[attno],
							 array->element_type, local->values);
	}
}

/* Adds its rows to the arrays while all are few, and has a Material node keep them. */
static void
read_input(LocalRowsState *local, int number)
{
	PlanState  *input = local->inputs[number];

	while (local->few || IsA(input, MaterialState))
	{
		TupleTableSlot *slot = ExecProcNode(input);

		if (TupIsNull(slot))
			return;
		if (!local->few)
			continue;
		add_row(local, number, slot);
		local->few = ++local->rows <= RF_FEW_LOCAL_ROWS &&
			MemoryContextMemAllocated(local->values, false) <= MOST_BYTES;
	}
}

static void
hand_over(LocalRowsState *local)
{
	MemoryContext caller = MemoryContextSwitchTo(local->values);
	Datum	   *values = palloc_array(Datum, local->column_count);

	for (int i = 0; i < local->column_count; i++)
	{
		values[i] = makeArrayResult(local->arrays[i], local->values);
		local->bytes_sent += VARSIZE_ANY(DatumGetPointer(values[i]));
	}
	local->rows_sent += local->rows;
	MemoryContextSwitchTo(caller);
	rf_scan_set_local(local->scan, values);
}

/*
 * Before the first row, and for each new value of the parameters: few rows are read and handed to
 * the statement as arrays; more become inputs of its exchanges, which read them when they run.
 */
static void
prepare(LocalRowsState *local)
{
	MemoryContextReset(local->values);
	start_arrays(local);
	local->few = !local->plan->by_flow;
	local->rows = 0;
	for (int i = 0; i < local->input_count; i++)
		read_input(local, i);
	local->read = true;
	if (local->few)
		hand_over(local);
	else
	{
		MemoryContextReset(local->values);
		rf_scan_set_inputs(local->scan, local->inputs);
	}
	if (local->asked)
		ExecReScan(local->statement);
	local->asked = true;
}

/* ---------- rows ---------- */

static TupleTableSlot *
exec_local_rows(CustomScanState *css)
{
	LocalRowsState *local = (LocalRowsState *) css;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;
	TupleTableSlot *slot;
	TupleTableSlot *row = css->ss.ss_ScanTupleSlot;
	int			natts = row->tts_tupleDescriptor->natts;

	CHECK_FOR_INTERRUPTS();
	if (!local->read)
		prepare(local);
	slot = ExecProcNode(local->statement);
	if (TupIsNull(slot) || css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(econtext);
	ExecClearTuple(row);
	slot_getallattrs(slot);
	memcpy(row->tts_values, slot->tts_values, sizeof(Datum) * natts);
	memcpy(row->tts_isnull, slot->tts_isnull, sizeof(bool) * natts);
	econtext->ecxt_scantuple = ExecStoreVirtualTuple(row);
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

/* ---------- EXPLAIN ---------- */

static void
explain_local_rows(CustomScanState *css, List *ancestors, ExplainState *es)
{
	LocalRowsState *local = (LocalRowsState *) css;
	uint64		rows;
	uint64		bytes;

	if (!es->analyze)
		return;
	rows = rf_scan_sent(local->scan, &bytes) + local->rows_sent;
	bytes += local->bytes_sent;
	ExplainPropertyUInteger("Rows Sent", NULL, rows, es);
	if (local->read)
		ExplainPropertyText("Rows Sent By", local->few ? "statement" : "flow", es);
	if (es->verbose && (local->few || es->timing))
		ExplainPropertyUInteger("Bytes Sent", NULL, bytes, es);
}

/* ---------- registration ---------- */

static const CustomExecMethods exec_methods = {
	.CustomName = RF_LOCAL_ROWS_NAME,
	.BeginCustomScan = begin_local_rows,
	.ExecCustomScan = exec_local_rows,
	.EndCustomScan = end_local_rows,
	.ReScanCustomScan = rescan_local_rows,
	.ExplainCustomScan = explain_local_rows
};

static Node *
create_state(CustomScan *plan)
{
	LocalRowsState *local = (LocalRowsState *) newNode(sizeof(LocalRowsState), T_CustomScanState);

	local->css.methods = &exec_methods;
	return (Node *) local;
}

static const CustomScanMethods scan_methods = {RF_LOCAL_ROWS_NAME, create_state};

void
rf_local_rows_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
