/*
 * row_filter.c - the conditions of a sequential scan, for all rows of a page.
 *
 * The conditions that stand first and have kernels run on columns, one after another. Core's
 * expressions decide about the rest, and about marked rows, for which they begin anew: row by row,
 * in the order of the plan, so that each error is core's and comes for the row that core would have
 * found first.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "optimizer/clauses.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "utils/rel.h"

#include "kernels.h"

/* With the kernels of these rows disabled: each so manieth. */
#define LEFT_TO_CORE	7

/* When half of so many rows were marked, kernels stop. */
#define LOOK_ROWS		4096

RfRowFilter *
rf_row_filter_create(SeqScanState *node)
{
	RfRowFilter *filter = palloc0(sizeof(RfRowFilter));
	Scan	   *scan = (Scan *) node->ss.ps.plan;
	ListCell   *lc;

	filter->node = node;
	filter->context.relid = scan->scanrelid;
	filter->context.desc = RelationGetDescr(node->ss.ss_currentRelation);
	filter->context.params = node->ss.ps.state->es_param_list_info;
	if (RF_KERNELS_KNOW_SERVER && !rf_is_disabled(RF_COLUMNS))
		filter->context.deform = rf_deform_create(filter->context.desc);
	foreach(lc, scan->plan.qual)
	{
		RfCondition *condition = NULL;

		if (filter->kept == NIL && filter->context.deform != NULL)
			condition = rf_condition_compile(&filter->context, lfirst(lc));
		if (condition != NULL)
			filter->conditions = lappend(filter->conditions, condition);
		else
			filter->kept = lappend(filter->kept, lfirst(lc));
	}
	/* sub-plans belong to the state that core has made: then all conditions are asked again */
	if (filter->kept != NIL && (filter->conditions == NIL ||
								contain_subplans((Node *) filter->kept)))
		filter->rest = node->ss.ps.qual;
	else if (filter->kept != NIL)
		filter->rest = ExecInitQual(filter->kept, &node->ss.ps);
	return filter;
}

/* Marks rows at the same places of the table in each scan, and at other ones of each page. */
static void
mark_some(RfBatch *batch, const RfPageScan *scan)
{
	uint32		block = BufferGetBlockNumber(scan->buffer);

	for (int i = 0; i < batch->rows; i++)
		batch->marks[i] = (block + i) % LEFT_TO_CORE == 0;
}

void
rf_row_filter_select(RfRowFilter *filter, RfPageScan *scan, bool by_core)
{
	RfBatch    *batch = &filter->batch;
	ListCell   *lc;

	filter->asked = -1;
	batch->number++;
	batch->rows = batch->selected = scan->count;
	batch->page = BufferGetPage(scan->buffer);
	for (int i = 0; i < batch->rows; i++)
		batch->selection[i] = i;
	by_core |= filter->hopeless;
	/* without a condition there is nothing to ask core */
	memset(batch->marks, by_core && filter->node->ss.ps.qual != NULL, batch->rows);
	if (filter->context.deform == NULL || by_core)
		return;
	if (rf_is_disabled(RF_COLUMN_KERNELS))
		mark_some(batch, scan);
	rf_deform_page(filter->context.deform, scan);
	foreach(lc, filter->conditions)
		rf_condition_apply(lfirst(lc), batch);
	if (filter->rows < LOOK_ROWS)
	{
		filter->rows += batch->rows;
		RF_ROWS(batch, row)
			filter->marked += batch->marks[row];
		filter->hopeless = filter->rows >= LOOK_ROWS && filter->marked > filter->rows / 2;
	}
}

bool
rf_row_filter_ask(RfRowFilter *filter, RfPageScan *scan, int row)
{
	PlanState  *node = &filter->node->ss.ps;
	ExprState  *qual = filter->batch.marks[row] ? node->qual : filter->rest;

	InstrCountFiltered2(filter->node, 1);
	filter->asked = row;
	rf_page_scan_store(scan, row, filter->node->ss.ss_ScanTupleSlot);
	if (qual == NULL)
		return true;
	ResetExprContext(node->ps_ExprContext);
	node->ps_ExprContext->ecxt_scantuple = filter->node->ss.ss_ScanTupleSlot;
	return ExecQual(qual, node->ps_ExprContext);
}

void
rf_row_filter_page(RfRowFilter *filter, RfPageScan *scan)
{
	const RfBatch *batch = &filter->batch;
	int			passed = 0;

	rf_row_filter_select(filter, scan, false);
	for (int i = 0; i < batch->selected; i++)
	{
		int			row = batch->selection[i];

		if ((filter->rest != NULL || batch->marks[row]) &&
			!rf_row_filter_ask(filter, scan, row))
			continue;
		scan->tuples[passed] = scan->tuples[row];
		scan->lengths[passed] = scan->lengths[row];
		scan->offsets[passed++] = scan->offsets[row];
	}
	ExecClearTuple(filter->node->ss.ss_ScanTupleSlot);
	scan->count = passed;
}
