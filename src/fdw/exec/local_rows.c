/*
 * local_rows.c
 *		Running a statement that gets rows of this node (plan/local_rows.c): reads them into arrays,
 *		one for each
 *		column, which its foreign scan has for parameters. If there are too many, another plan runs
 *		instead.
 *
 * That plan is set up with the statement: all scans of a query have to be known when the first of
 * them starts, as they read the same snapshot.
 *
 * The rows are read once, before the statement starts, and again only after a parameter of their
 * plans has changed. All state is of one backend and one execution.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "scan_state.h"

typedef struct LocalRowsState
{
	CustomScanState css;		/* must be first */
	PlanState  *statement;
	ForeignScanState *scan;		/* in it */
	PlanState  *instead;
	int			input_count;
	PlanState **inputs;			/* give the rows */

	MemoryContext values;		/* of the rows */
	int			column_count;
	RfLocalRowsPlan *plan;
	ArrayBuildState **arrays;	/* of each */

	bool		read;			/* the rows are in the arrays, or there are too many */
	bool		too_many;
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

	local->input_count = list_length(plan->custom_plans) - 2;
	local->inputs = palloc_array(PlanState *, local->input_count);
	for (int i = 0; i < local->input_count; i++)
	{
		local->inputs[i] = ExecInitNode(list_nth(plan->custom_plans, i + 2), estate, eflags);
		css->custom_ps = lappend(css->custom_ps, local->inputs[i]);
	}
	local->statement = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	css->custom_ps = lappend(css->custom_ps, local->statement);
	scan = local->statement;
	while (!IsA(scan, ForeignScanState))
		scan = outerPlanState(scan);
	local->scan = (ForeignScanState *) scan;
	local->instead = ExecInitNode(lsecond(plan->custom_plans), estate, eflags);
	css->custom_ps = lappend(css->custom_ps, local->instead);
	local->plan = rf_plan_node_of(RfLocalRowsPlan, plan->custom_private);
	local->column_count = list_length(local->plan->columns);
	local->arrays = palloc0_array(ArrayBuildState *, local->column_count);
	local->values = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw local rows",
										  ALLOCSET_DEFAULT_SIZES);
	/* the children's slots are handed on */
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

/*
 * Reads inputs again only if their parameters changed; rows that are here stay, and so does the
 * decision that they are too many.
 */
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
	else if (!local->too_many && local->statement->chgParam == NULL)
		ExecReScan(local->statement);
	if (local->instead->chgParam == NULL)
		ExecReScan(local->instead);
}

/* ---------- reading the rows ---------- */

static void
start_arrays(LocalRowsState *local)
{
	MemoryContextReset(local->values);
	for (int i = 0; i < local->column_count; i++)
	{
		TupleDesc	desc = ExecGetResultType(local->inputs[list_nth_int(local->plan->inputs, i)]);
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

/* False: there are too many. Nothing but the values is in their context. */
static bool
read_rows(LocalRowsState *local)
{
	uint64		sent = 0;

	start_arrays(local);
	for (int i = 0; i < local->input_count; i++)
	{
		uint64		rows = 0;

		for (;;)
		{
			TupleTableSlot *slot = ExecProcNode(local->inputs[i]);

			if (TupIsNull(slot))
				break;
			if (++rows > RF_LOCAL_ROWS_MAX ||
				MemoryContextMemAllocated(local->values, false) > RF_LOCAL_BYTES_MAX)
				return false;
			add_row(local, i, slot);
		}
		sent += rows;
	}
	local->rows_sent += sent;
	return true;
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
	MemoryContextSwitchTo(caller);
	rf_scan_set_local(local->scan, values);
}

static void
prepare(LocalRowsState *local)
{
	local->too_many = !read_rows(local);
	local->read = true;
	if (local->too_many)
	{
		MemoryContextReset(local->values);
		return;
	}
	hand_over(local);
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
	slot = ExecProcNode(local->too_many ? local->instead : local->statement);
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

	ExplainPropertyText("Last Plan Instead", psprintf("above %d rows or %d MB", RF_LOCAL_ROWS_MAX,
													  RF_LOCAL_BYTES_MAX / (1024 * 1024)), es);
	if (!es->analyze)
		return;
	ExplainPropertyUInteger("Rows Sent", NULL, local->rows_sent, es);
	if (es->verbose)
		ExplainPropertyUInteger("Bytes Sent", NULL, local->bytes_sent, es);
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
