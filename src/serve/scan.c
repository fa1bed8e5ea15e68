/*
 * scan.c - bare sequential scans, straight from the table to the encoder.
 *
 * A SELECT of plain columns of one table makes the executor project every row into a narrower slot,
 * which the encoder takes apart again. Here the encoder is given the table's own slot and a map of
 * the wanted attributes instead, and without quals whole pages of tuples; where the administrator
 * allows it (permit.c), pages may travel as they are. Pages are read, and quals checked, by
 * vector/page_scan.c and vector/row_filter.c.
 *
 * Does: run a query that ExecutorStart has prepared, so permissions, row security, locks and
 * snapshot are the executor's. Does not: know plans other than one sequential scan at the top;
 * those run the usual way.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "rdma_fdw/region.h"
#include "rdma_fdw/serve.h"
#include "rdma_fdw/vector.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* The table's attribute behind every result column; NULL when some column is not just that. */
static AttrNumber *
plain_columns(SeqScan *scan, TupleDesc table, int *count)
{
	List	   *targets = scan->scan.plan.targetlist;
	AttrNumber *map = palloc(sizeof(AttrNumber) * Max(list_length(targets), 1));
	ListCell   *cell;

	*count = 0;
	foreach(cell, targets)
	{
		TargetEntry *target = lfirst_node(TargetEntry, cell);
		Var		   *var = (Var *) target->expr;

		if (!IsA(var, Var) || target->resjunk || var->varno != scan->scan.scanrelid ||
			var->varattno < 1 || var->varattno > table->natts ||
			TupleDescAttr(table, var->varattno - 1)->atttypid != var->vartype)
		{
			pfree(map);
			return NULL;
		}
		map[(*count)++] = var->varattno;
	}
	return map;
}

/*
 * Pages of rows of which little is wanted cost the engines and the network more than their sender
 * saves, which is not much then: with 20 bytes wanted of 165, engines took four times as long for
 * 0.8 of the sender's time.
 */
#define MAX_STORED_RATIO	6

/*
 * Returns true if enough of the table's bytes are wanted to send pages. By statistics; without them
 * yes.
 */
static bool
wants_most(Relation rel, const AttrNumber *map, int count)
{
	double		stored = (double) rel->rd_rel->relpages * BLCKSZ;
	double		wanted = 0;

	for (int i = 0; i < count; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), map[i] - 1);
		int32		width = att->attlen > 0 ? att->attlen :
			get_attavgwidth(RelationGetRelid(rel), map[i]);

		if (width <= 0)
			return true;
		wanted += width;
	}
	return rel->rd_rel->reltuples <= 0 ||
		stored <= MAX_STORED_RATIO * wanted * rel->rd_rel->reltuples;
}

static int
send_whole(void *dest, Buffer buffer)
{
	return rf_stream_dest_add_page(dest, buffer);
}

/* Hand a page's tuples over; false: the reader has stopped. */
static bool
send_page(RfPageScan *scan, TupleTableSlot *slot, RfStreamDest *dest)
{
	DestReceiver *receiver = rf_stream_dest_receiver(dest);
	int			at = 0;

	for (;;)
	{
		bool		more;

		at += rf_stream_dest_add_tuples(dest, scan->tuples + at, scan->count - at);
		if (at == scan->count)
			return true;
		rf_page_scan_store(scan, at, slot);
		more = receiver->receiveSlot(slot, receiver);
		ExecClearTuple(slot);
		if (!more)
			return false;
		at++;
	}
}

/*
 * Pages of the 256 kB ring that may stay pinned. With more, the ring would replace pinned buffers
 * until it used all of shared_buffers.
 */
#define RING_PINS			(Max(224 * 1024 / BLCKSZ, 1))

static int
most_pins(Relation rel)
{
	return rf_scan_is_large(rel, RelationGetNumberOfBlocks(rel)) ? RING_PINS : INT_MAX;
}

/* All pages of a heap. */
static uint64
run_heap(SeqScanState *node, Snapshot snapshot, RfStreamDest *dest)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	RfRowFilter *filter = node->ss.ps.qual != NULL ? rf_row_filter_create(node) : NULL;
	RfPageScan *scan = rf_page_scan_begin(node->ss.ss_currentRelation, snapshot, NULL);
	uint64		rows = 0;
	bool		more = true;

	while (more && scan->left > 0)
	{
		bool		pages;
		int			whole;

		CHECK_FOR_INTERRUPTS();
		pages = rf_stream_dest_takes_page(dest);	/* may wait, so before there is a pin */
		(void) rf_page_scan_read(scan);
		whole = rf_page_scan_collect(scan,
									 pages && filter == NULL && rf_stream_dest_takes_whole(dest) ?
									 send_whole : NULL,
									 dest);
		if (whole >= 0)
			rows += whole;
		else
		{
			if (filter != NULL)
				rf_row_filter_page(filter, scan);
			rows += scan->count;
			if (!pages)
				rf_stream_dest_saw_page(dest, scan->lengths, scan->count);
			if (!pages || !rf_stream_dest_add_page_tuples(dest, scan->buffer, scan->tuples,
														  scan->lengths, scan->count))
				more = send_page(scan, slot, dest);
		}
		rf_page_scan_release(scan);
		if (unlikely(rf_stream_tick) && more)
			more = rf_stream_dest_flush(dest);
	}
	rf_page_scan_end(scan);
	return rows;
}

/* Any table, row by row past the projection. */
static uint64
run_rows(SeqScanState *node, Snapshot snapshot, RfStreamDest *dest)
{
	DestReceiver *receiver = rf_stream_dest_receiver(dest);
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprState  *qual = node->ss.ps.qual;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	TableScanDesc scan = rf_table_beginscan(node->ss.ss_currentRelation, snapshot);
	uint64		rows = 0;

	/* In its usual place, so that ExecutorEnd closes it. */
	node->ss.ss_currentScanDesc = scan;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (unlikely(rf_stream_tick) && !rf_stream_dest_flush(dest))
			break;
		if (qual != NULL)
		{
			ResetExprContext(econtext);
			econtext->ecxt_scantuple = slot;
			if (!ExecQual(qual, econtext))
				continue;
		}
		if (!receiver->receiveSlot(slot, receiver))
			break;
		rows++;
	}
	ExecClearTuple(slot);
	return rows;
}

SeqScanState *
rf_bare_scan(PlanState *plan, AttrNumber **attmap, int *count)
{
	SeqScanState *columns = rf_columns_scan(plan);
	SeqScanState *node = columns != NULL ? columns : (SeqScanState *) plan;

	if (!IsA(node, SeqScanState) || plan->state->es_plannedstmt->rowMarks != NIL ||
		plan->state->es_junkFilter != NULL || plan->instrument != NULL)
		return NULL;
	*attmap = plain_columns((SeqScan *) node->ss.ps.plan,
							RelationGetDescr(node->ss.ss_currentRelation), count);
	return *attmap != NULL ? node : NULL;
}

bool
rf_run_bare_scan(QueryDesc *query, RfStreamDest *dest)
{
	EState	   *estate = query->estate;
	DestReceiver *receiver = rf_stream_dest_receiver(dest);
	Relation	rel;
	AttrNumber *map;
	bool		pages;
	int			count;
	SeqScanState *node = rf_bare_scan(query->planstate, &map, &count);

	if (node == NULL || query->plannedstmt->parallelModeNeeded || node->ss.ps.plan->parallel_aware)
		return false;
	rel = node->ss.ss_currentRelation;
	rf_instrument_start(query);
	rf_stream_dest_start_raw(dest, RelationGetDescr(rel), map, count);
	pages = rf_page_scan_possible(rel, estate->es_snapshot) &&
		rf_stream_dest_takes_tuples(dest, RelationGetDescr(rel));
	if (pages && rf_stream_dest_wants_pages(dest) && rf_may_ship_pages(query->plannedstmt, rel) &&
		wants_most(rel, map, count))
		rf_stream_dest_offer_pages(dest, rel, map, count, most_pins(rel));
	else if (node->ss.ps.qual != NULL && !IsA(query->planstate, CustomScanState))
		pages = false;
	if (pages)
		estate->es_processed = run_heap(node, estate->es_snapshot, dest);
	else
		estate->es_processed = run_rows(node, estate->es_snapshot, dest);
	receiver->rShutdown(receiver);
	rf_instrument_stop(query);
	return true;
}
