/*
 * columns.c - Custom Scan (RdmaColumns): a sequential scan whose conditions run on columns, and the
 * aggregates of the Agg node above it, too, where these have kernels.
 *
 * No plan has such a node. When a statement has started, it takes the place of a sequential scan in
 * the state of the plan: slots, conditions, projection, sub-plans and counters are the scan's. So
 * the planner's choice, its costs, kept plans and the check of permissions stay as they are, and a
 * plan that EvalPlanQual starts for one row is core's alone.
 *
 * In a parallel plan each process decides for itself. What they share is core's: the description of
 * a parallel scan, which gives out blocks, and the counters of the plan's node.
 *
 * Left to core: tables of other access methods, and statements that write, lock rows, or may be
 * read backwards.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/tableam.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/nodeSeqscan.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "optimizer/optimizer.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "utils/ruleutils.h"

#include "kernels.h"

/* A scan of fewer rows than this is not worth the preparation. */
#define ENOUGH_ROWS		10000

typedef struct ColumnsState
{
	CustomScanState css;		/* first */
	SeqScanState *scan;			/* no node of the plan's state any more */
	ExecProcNodeMtd gather;		/* how the Gather above runs; NULL: it is another node */
	RfRowFilter *filter;
	RfGroups   *groups;			/* NULL: rows go to the node above */
	Aggref	   *without;		/* an aggregate of that node that has no kernel; or NULL */
	AggState   *agg;
	RfPageScan *pages;			/* NULL: not begun */
	bool		over;
	int			next;			/* place in the batch's selection */
	int			first_taken;	/* place of the first row that `groups` holds */
	int			returned;		/* the row that the Agg node got last; -1 before the first */
	uint64		passed;			/* in this call */
} ColumnsState;

static void end_columns(CustomScanState *node);
static void rescan_columns(CustomScanState *node);
static Size estimate_shared(CustomScanState *node, ParallelContext *parallel);
static void begin_shared(CustomScanState *node, ParallelContext *parallel, void *shared);
static void restart_shared(CustomScanState *node, ParallelContext *parallel, void *shared);
static void join_shared(CustomScanState *node, shm_toc * toc, void *shared);
static void explain_columns(CustomScanState *node, List *ancestors, ExplainState *es);

static const CustomScanMethods scan_methods = {"RdmaColumns", NULL};
static const CustomExecMethods exec_methods = {
	.CustomName = "RdmaColumns",
	.EndCustomScan = end_columns,
	.ReScanCustomScan = rescan_columns,
	.EstimateDSMCustomScan = estimate_shared,
	.InitializeDSMCustomScan = begin_shared,
	.ReInitializeDSMCustomScan = restart_shared,
	.InitializeWorkerCustomScan = join_shared,
	.ExplainCustomScan = explain_columns,
};

static ColumnsState *
columns_of(PlanState *node)
{
	return IsA(node, CustomScanState) && ((CustomScanState *) node)->methods == &exec_methods ?
		(ColumnsState *) node : NULL;
}

/* ---------- rows ---------- */

/*
 * False: there is no more page. The first page is core's, unless an Agg node reads all: many scans
 * end there, below EXISTS or LIMIT, and have no use for the rest of the page.
 */
static bool
next_batch(ColumnsState *state)
{
	bool		by_core;

	CHECK_FOR_INTERRUPTS();
	if (state->pages == NULL)
	{
		EState	   *estate = state->scan->ss.ps.state;
		MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

		state->pages = rf_page_scan_begin(state->scan->ss.ss_currentRelation,
										  estate->es_snapshot,
										  state->scan->ss.ss_currentScanDesc);
		MemoryContextSwitchTo(caller);
	}
	state->next = 0;
	if (!rf_page_scan_read(state->pages))
	{
		state->filter->batch.selected = 0;
		return false;
	}
	(void) rf_page_scan_collect(state->pages, NULL, NULL);
	by_core = state->groups == NULL && state->pages->read == 1 &&
		!rf_is_disabled(RF_COLUMN_COSTS);
	rf_row_filter_select(state->filter, state->pages, by_core);
	InstrCountFiltered1(state->scan, state->pages->count - state->filter->batch.selected);
	if (state->groups != NULL)
		rf_groups_begin_batch(state->groups);
	return true;
}

/* Does core's part of the conditions leave this row? */
static inline bool
passes(ColumnsState *state, int row)
{
	if (likely(state->filter->rest == NULL && !state->filter->batch.marks[row]))
		return true;
	if (rf_row_filter_ask(state->filter, state->pages, row))
		return true;
	InstrCountFiltered1(state->scan, 1);
	return false;
}

static TupleTableSlot *
give(ColumnsState *state, int row)
{
	TupleTableSlot *slot = state->scan->ss.ss_ScanTupleSlot;

	if (state->filter->asked != row)
		rf_page_scan_store(state->pages, row, slot);
	state->filter->asked = row;
	return slot;
}

/* The next row of this page that the conditions leave, in the scan's slot; NULL: no more. */
static TupleTableSlot *
next_row(ColumnsState *state)
{
	const RfBatch *batch = &state->filter->batch;

	while (state->next < batch->selected)
	{
		int			row = batch->selection[state->next++];

		if (passes(state, row))
		{
			state->passed++;
			return give(state, row);
		}
	}
	return NULL;
}

/* The next row of the whole table that the conditions leave; NULL at its end. */
static TupleTableSlot *
next_of_all(ColumnsState *state)
{
	TupleTableSlot *slot;

	while ((slot = next_row(state)) == NULL && !state->over)
		state->over = !next_batch(state);
	if (slot == NULL)
		ExecClearTuple(state->scan->ss.ss_ScanTupleSlot);
	return slot;
}

/* Adds rows that `groups` holds to states. False: it has given them back, to go to the Agg node. */
static bool
settle(ColumnsState *state)
{
	int			back = rf_groups_settle(state->groups);

	if (back == 0)
		return true;
	state->passed -= back;
	state->next = state->first_taken;
	return false;
}

/* The same, but for rows that `groups` takes. */
static TupleTableSlot *
next_for_agg(ColumnsState *state)
{
	const RfBatch *batch = &state->filter->batch;
	bool		taken = false;	/* some row is held */

	if (state->returned >= 0)
		rf_groups_returned(state->groups, state->returned);
	state->returned = -1;
	while (!state->over)
	{
		while (state->next < batch->selected)
		{
			int			place = state->next++;
			int			row = batch->selection[place];

			if (!passes(state, row))
				continue;
			state->passed++;
			if (rf_groups_take(state->groups, row))
			{
				if (!taken)
					state->first_taken = place;
				taken = true;
				continue;
			}
			if (taken && !settle(state))
			{
				state->passed--;
				taken = false;
				continue;
			}
			if (state->filter->rest == NULL && !batch->marks[row])
				InstrCountFiltered2(state->scan, 1);
			state->returned = row;
			return give(state, row);
		}
		taken = false;
		if (settle(state))
			state->over = !next_batch(state);
	}
	rf_groups_finish(state->groups);
	ExecClearTuple(state->scan->ss.ss_ScanTupleSlot);
	return NULL;
}

/* What core calls for a row, and counts as one. */
static TupleTableSlot *
exec_columns(PlanState *node)
{
	ColumnsState *state = (ColumnsState *) node;
	PlanState  *scan = &state->scan->ss.ps;
	TupleTableSlot *slot;

	state->passed = 0;
	slot = state->groups != NULL ? next_for_agg(state) : next_of_all(state);
	if (node->instrument != NULL)
		InstrUpdateTupleCount(node->instrument, (double) state->passed - (slot != NULL));
	if (slot == NULL)
		return scan->ps_ProjInfo == NULL ? NULL :
			ExecClearTuple(scan->ps_ProjInfo->pi_state.resultslot);
	if (scan->ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(scan->ps_ExprContext);
	scan->ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(scan->ps_ProjInfo);
}

static void
rescan_columns(CustomScanState *node)
{
	ColumnsState *state = (ColumnsState *) node;

	ReScanExprContext(state->scan->ss.ps.ps_ExprContext);
	ExecReScanSeqScan(state->scan);
	if (state->pages != NULL)
		rf_page_scan_restart(state->pages);
	state->filter->batch.selected = 0;
	state->next = 0;
	state->over = false;
	state->returned = -1;
	if (state->groups != NULL)
		rf_groups_reset(state->groups);
}

static void
end_columns(CustomScanState *node)
{
	ColumnsState *state = (ColumnsState *) node;

	ExecClearTuple(state->scan->ss.ss_ScanTupleSlot);
	if (state->pages != NULL)
		rf_page_scan_end(state->pages);
	state->pages = NULL;
	ExecEndSeqScan(state->scan);
}

/* ---------- parallel plans: as core's sequential scan ---------- */

static Size
estimate_shared(CustomScanState *node, ParallelContext *parallel)
{
	return table_parallelscan_estimate(node->ss.ss_currentRelation,
									   node->ss.ps.state->es_snapshot);
}

/* The leader's. */
static void
begin_shared(CustomScanState *node, ParallelContext *parallel, void *shared)
{
	table_parallelscan_initialize(node->ss.ss_currentRelation, shared,
								  node->ss.ps.state->es_snapshot);
	join_shared(node, parallel->toc, shared);
}

static void
restart_shared(CustomScanState *node, ParallelContext *parallel, void *shared)
{
	table_parallelscan_reinitialize(node->ss.ss_currentRelation, shared);
}

/* In the scan's own state, for a reader that goes past this node, and for ExecEndSeqScan(). */
static void
join_shared(CustomScanState *node, shm_toc * toc, void *shared)
{
	((ColumnsState *) node)->scan->ss.ss_currentScanDesc =
		rf_table_beginscan_parallel(node->ss.ss_currentRelation, shared);
}

/* ---------- EXPLAIN ---------- */

static char *
in_words(Node *node, Plan *plan, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, plan, ancestors);

	return deparse_expression(node, context, list_length(es->rtable) > 1 || es->verbose, false);
}

/*
 * EXPLAIN: how many conditions and aggregates have kernels, the expressions without, and with
 * ANALYZE the rows that core decided about.
 */
static void
explain_columns(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ColumnsState *state = (ColumnsState *) node;
	List	   *kept = NIL;
	ListCell   *lc;

	ExplainPropertyInteger("Conditions", NULL, list_length(state->filter->conditions), es);
	if (state->groups != NULL)
		ExplainPropertyInteger("Aggregates", NULL, state->agg->numtrans, es);
	foreach(lc, state->filter->kept)
		kept = lappend(kept, in_words(lfirst(lc), node->ss.ps.plan, ancestors, es));
	if (state->without != NULL)
		kept = lappend(kept, in_words((Node *) state->without, state->agg->ss.ps.plan, ancestors,
									  es));
	if (kept != NIL)
		ExplainPropertyList("Kept Back", kept, es);
	if (es->analyze && node->ss.ps.instrument != NULL)
		ExplainPropertyFloat("Rows by Core", NULL,
							 node->ss.ps.instrument->nfiltered2 /
							 Max(node->ss.ps.instrument->nloops, 1), 0, es);
}

/* ---------- in the place of scans ---------- */

/* Is it worth it? */
static bool
pays(const SeqScanState *scan)
{
	const Plan *plan = scan->ss.ps.plan;

	return rf_is_disabled(RF_COLUMN_COSTS) || plan->total_cost >= ENOUGH_ROWS * cpu_tuple_cost;
}

/* The scan's plan as a CustomScan, which EXPLAIN shows. */
static Plan *
make_plan(const Scan *scan)
{
	CustomScan *plan = makeNode(CustomScan);

	plan->scan = *scan;
	NodeSetTag(plan, T_CustomScan);
	plan->custom_relids = bms_make_singleton(scan->scanrelid);
	plan->methods = &scan_methods;
	return &plan->scan.plan;
}

/*
 * The node for a scan, whose state its own is but for what belongs to a node; NULL: core's way is
 * as good. agg: the node above, or NULL.
 */
static PlanState *
make_columns(SeqScanState *scan, AggState * agg)
{
	EState	   *estate = scan->ss.ps.state;
	ColumnsState *state;
	RfRowFilter *filter;
	RfGroups   *groups = NULL;
	Aggref	   *without = NULL;
	PlanState  *node;

	if (!pays(scan) || !rf_page_scan_possible(scan->ss.ss_currentRelation, estate->es_snapshot))
		return NULL;
	filter = rf_row_filter_create(scan);
	if (agg != NULL)
		groups = rf_groups_create(agg, filter, &without);
	if (filter->conditions == NIL && groups == NULL)
		return NULL;
	state = (ColumnsState *) newNode(sizeof(ColumnsState), T_CustomScanState);
	state->css.ss = scan->ss;
	state->css.methods = &exec_methods;
	state->scan = scan;
	state->filter = filter;
	state->groups = groups;
	state->without = without;
	state->agg = agg;
	state->returned = -1;
	node = &state->css.ss.ps;
	NodeSetTag(node, T_CustomScanState);
	node->plan = make_plan((Scan *) scan->ss.ps.plan);
	node->qual = NULL;
	node->ps_ProjInfo = NULL;
	node->ps_ExprContext = NULL;
	if (node->ps_ResultTupleSlot == NULL)
		node->ps_ResultTupleSlot = scan->ss.ss_ScanTupleSlot;
	ExecSetExecProcNode(node, exec_columns);
	return node;
}

/*
 * A Gather hands the plan of the node below it to its workers, whenever it starts them. They know
 * the scan's plan, and not the plan that EXPLAIN shows.
 */
static TupleTableSlot *
exec_gather(PlanState *node)
{
	ColumnsState *state = (ColumnsState *) outerPlanState(node);
	Plan	   *shown = state->css.ss.ps.plan;
	TupleTableSlot *slot;

	state->css.ss.ps.plan = state->scan->ss.ps.plan;
	slot = state->gather(node);
	state->css.ss.ps.plan = shown;
	return slot;
}

static void visit_below(PlanState *node);

static void
visit(PlanState **place, AggState * agg)
{
	PlanState  *node = *place;

	if (node == NULL)
		return;
	check_stack_depth();
	if (IsA(node, SeqScanState))
	{
		PlanState  *columns = make_columns((SeqScanState *) node, agg);

		if (columns != NULL)
			*place = columns;
		return;
	}
	visit_below(node);
}

/* Nodes of extensions keep their scans, unless they call rf_columns_below(). */
static void
visit_below(PlanState *node)
{
	switch (nodeTag(node))
	{
		case T_CustomScanState:
		case T_ForeignScanState:
			return;
		case T_AppendState:
			for (int i = 0; i < ((AppendState *) node)->as_nplans; i++)
				visit(&((AppendState *) node)->appendplans[i], NULL);
			break;
		case T_SubqueryScanState:
			visit(&((SubqueryScanState *) node)->subplan, NULL);
			break;
		default:
			break;
	}
	visit(&outerPlanState(node), IsA(node, AggState) ? (AggState *) node : NULL);
	visit(&innerPlanState(node), NULL);
	if (IsA(node, GatherState) || IsA(node, GatherMergeState))
	{
		ColumnsState *columns = columns_of(outerPlanState(node));

		if (columns != NULL)
		{
			columns->gather = node->ExecProcNodeReal;
			ExecSetExecProcNode(node, exec_gather);
		}
	}
}

void
rf_columns_below(PlanState **place)
{
	EState	   *estate = (*place)->state;
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

	if (!rf_is_disabled(RF_COLUMNS) && estate->es_snapshot != NULL)
		visit(place, NULL);
	MemoryContextSwitchTo(caller);
}

void
rf_columns_started(QueryDesc *query, int eflags)
{
	EState	   *estate = query->estate;
	PlannedStmt *statement = query->plannedstmt;
	MemoryContext caller;
	ListCell   *lc;

	if (rf_is_disabled(RF_COLUMNS) || query->operation != CMD_SELECT ||
		statement->rowMarks != NIL || statement->hasModifyingCTE ||
		(eflags & EXEC_FLAG_BACKWARD) != 0 || query->planstate == NULL ||
		estate->es_snapshot == NULL)
		return;
	rf_columns_below(&query->planstate);
	caller = MemoryContextSwitchTo(estate->es_query_cxt);
	foreach(lc, estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL)
			visit_below(lfirst(lc));
	}
	MemoryContextSwitchTo(caller);
}

/* ---------- for senders of rows ---------- */

SeqScanState *
rf_columns_scan(PlanState *node)
{
	ColumnsState *state = columns_of(node);

	return state == NULL ? NULL : state->scan;
}

TupleTableSlot *
rf_columns_next(PlanState *node, bool *over)
{
	ColumnsState *state = columns_of(node);
	TupleTableSlot *slot = next_row(state);

	if (slot == NULL && !state->over)
	{
		state->over = !next_batch(state);
		slot = next_row(state);
	}
	if (state->over)
		ExecClearTuple(state->scan->ss.ss_ScanTupleSlot);
	*over = state->over;
	return slot;
}
