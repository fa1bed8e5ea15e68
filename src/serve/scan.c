/*
 * scan.c - bare sequential scans, straight from the table to the encoder.
 *
 * A SELECT of plain columns of one table makes the executor project every row into a narrower slot,
 * which the encoder takes apart again. Here the encoder is given the table's own slot and a map of
 * the wanted attributes instead, and without quals whole pages of tuples; where the administrator
 * allows it (permit.c), pages may travel as they are. Quals are the executor's own.
 *
 * Does: run a query that ExecutorStart has prepared, so permissions, row security, locks and
 * snapshot are the executor's. Does not: know plans other than one sequential scan at the top;
 * those run the usual way.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/region.h"
#include "rdma_fdw/serve.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
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

/* The visible tuples of one page, which stays pinned. */
typedef struct PageTuples
{
	int			count;
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lengths[MaxHeapTuplesPerPage];
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} PageTuples;

/*
 * The work of heap scans on a page: prune it, and check each tuple under the share lock. With
 * `whole`, a page whose tuples are all visible is sent as it is instead: returns its rows,
 * otherwise -1.
 */
static int
collect_visible(Relation rel, Snapshot snapshot, Buffer buffer, RfStreamDest *whole,
				PageTuples *found)
{
	BlockNumber block = BufferGetBlockNumber(buffer);
	Page		page;
	OffsetNumber last;
	bool		all_visible;

	heap_page_prune_opt(rel, buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
#if PG_VERSION_NUM < 170000
	TestForOldSnapshot(snapshot, rel, page);	/* 17 removed old_snapshot_threshold */
#endif
	last = PageGetMaxOffsetNumber(page);

	/* A snapshot from recovery may not trust a flag that was set on the primary. */
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery;
	found->count = 0;
	if (whole != NULL && all_visible && !IsolationIsSerializable())
	{
		int			rows = rf_stream_dest_add_page(whole, buffer);

		if (rows >= 0)
		{
			LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
			return rows;
		}
	}
	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		if (!all_visible || IsolationIsSerializable())
		{
			bool		visible = all_visible;

			tuple.t_tableOid = RelationGetRelid(rel);
			tuple.t_len = ItemIdGetLength(item);
			ItemPointerSet(&tuple.t_self, block, offset);
			if (!visible)
				visible = HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer);
			HeapCheckForSerializableConflictOut(visible, rel, &tuple, buffer, snapshot);
			if (!visible)
				continue;
		}
		found->tuples[found->count] = tuple.t_data;
		found->lengths[found->count] = ItemIdGetLength(item);
		found->offsets[found->count] = offset;
		found->count++;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return -1;
}

/* Hand a page's tuples over; false: the reader has stopped. */
static bool
send_page(Relation rel, Buffer buffer, const PageTuples *found, TupleTableSlot *slot,
		  RfStreamDest *dest)
{
	DestReceiver *receiver = rf_stream_dest_receiver(dest);
	int			at = 0;

	for (;;)
	{
		HeapTupleData tuple;
		bool		more;

		at += rf_stream_dest_add_tuples(dest, found->tuples + at, found->count - at);
		if (at == found->count)
			return true;
		tuple.t_tableOid = RelationGetRelid(rel);
		tuple.t_data = found->tuples[at];
		tuple.t_len = found->lengths[at];
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), found->offsets[at]);
		ExecStoreBufferHeapTuple(&tuple, slot, buffer);
		more = receiver->receiveSlot(slot, receiver);
		ExecClearTuple(slot);
		if (!more)
			return false;
		at++;
	}
}

/* Leave the tuples that pass. */
static void
filter(Relation rel, Buffer buffer, PageTuples *found, TupleTableSlot *slot, ExprState *qual,
	   ExprContext *econtext)
{
	int			passed = 0;

	for (int i = 0; i < found->count; i++)
	{
		HeapTupleData tuple;

		tuple.t_tableOid = RelationGetRelid(rel);
		tuple.t_data = found->tuples[i];
		tuple.t_len = found->lengths[i];
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), found->offsets[i]);
		ExecStoreBufferHeapTuple(&tuple, slot, buffer);
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = slot;
		if (!ExecQual(qual, econtext))
			continue;
		found->tuples[passed] = found->tuples[i];
		found->lengths[passed] = found->lengths[i];
		found->offsets[passed++] = found->offsets[i];
	}
	ExecClearTuple(slot);
	found->count = passed;
}

/* Core's rule for a ring of buffers. */
static bool
is_large(Relation rel, BlockNumber blocks)
{
	return !RelationUsesLocalBuffers(rel) && blocks > NBuffers / 4;
}

/*
 * Pages of the 256 kB ring that may stay pinned. With more, the ring would replace pinned buffers
 * until it used all of shared_buffers.
 */
#define RING_PINS			(Max(224 * 1024 / BLCKSZ, 1))

/*
 * A block, which is likely to be in the buffer behind the buffer of the block before (in a table
 * that was read from front to back): looking there saves the look into the table of buffers, which
 * costs as much as all else that is done to a page that is sent as it is. Not with a ring, whose
 * buffers are reused.
 */
#define PREFETCHED_BYTES	640

static Buffer
read_block(Relation rel, BlockNumber block, Buffer before, BufferAccessStrategy strategy)
{
	Buffer		guess = before + 1;

	if (strategy == NULL && before > 0 && before < NBuffers &&
		ReadRecentBuffer(rf_relation_locator(rel), MAIN_FORKNUM, block, guess))
	{
		pgstat_count_buffer_read(rel);
		pgstat_count_buffer_hit(rel);

		/*
		 * The next page's line pointers, which a sender of pages looks at, come meanwhile; if it
		 * is another page, in vain.
		 */
		if (guess < NBuffers)
			for (int i = 0; i < PREFETCHED_BYTES; i += PG_CACHE_LINE_SIZE / 2)
				__builtin_prefetch(BufferGetPage(guess) + BLCKSZ + i);
		return guess;
	}
	return ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
}

/*
 * All pages of a heap; with quals only where pages are shipped. Large tables use a ring of buffers
 * and keep step with other scans, as core's scans do.
 */
static uint64
run_heap(SeqScanState *node, Snapshot snapshot, RfStreamDest *dest)
{
	Relation	rel = node->ss.ss_currentRelation;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprState  *qual = node->ss.ps.qual;
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	bool		large = is_large(rel, blocks);
	bool		keep_step = large && synchronize_seqscans;
	BufferAccessStrategy strategy = large ? GetAccessStrategy(BAS_BULKREAD) : NULL;
	BlockNumber block = keep_step ? ss_get_location(rel, blocks) : 0;
	PageTuples *found = palloc(sizeof(PageTuples));
	Buffer		buffer = InvalidBuffer;
	uint64		rows = 0;

	PredicateLockRelation(rel, snapshot);
	pgstat_count_heap_scan(rel);
	for (BlockNumber n = 0; n < blocks; n++)
	{
		bool		pages;
		bool		more;
		int			whole;
		int			count;

		CHECK_FOR_INTERRUPTS();
		pages = rf_stream_dest_takes_page(dest);	/* may wait, so before there is a pin */
		buffer = read_block(rel, block, buffer, strategy);
		whole = collect_visible(
								rel, snapshot, buffer,
								pages && qual == NULL && rf_stream_dest_takes_whole(dest) ? dest :
								NULL,
								found);
		count = whole >= 0 ? whole : found->count;
		rf_count_rows_read(rel, count);
		more = true;
		if (whole < 0)
		{
			if (qual != NULL)
				filter(rel, buffer, found, slot, qual, node->ss.ps.ps_ExprContext);
			count = found->count;
			if (!pages)
				rf_stream_dest_saw_page(dest, found->lengths, count);
			if (!pages || !rf_stream_dest_add_page_tuples(dest, buffer, found->tuples,
														  found->lengths, count))
				more = send_page(rel, buffer, found, slot, dest);
		}
		ReleaseBuffer(buffer);
		if (unlikely(rf_stream_tick) && more)
			more = rf_stream_dest_flush(dest);
		rows += count;
		if (!more)
			break;
		block = block + 1 == blocks ? 0 : block + 1;
		if (keep_step)
			ss_report_location(rel, block);
	}
	if (strategy != NULL)
		FreeAccessStrategy(strategy);
	pfree(found);
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
	TableScanDesc scan = table_beginscan(node->ss.ss_currentRelation, snapshot, 0, NULL);
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
	SeqScanState *node = (SeqScanState *) plan;

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
	if (query->totaltime)
		InstrStartNode(query->totaltime);
	rf_stream_dest_start_raw(dest, RelationGetDescr(rel), map, count);
	pages = rel->rd_tableam == GetHeapamTableAmRoutine() && IsMVCCSnapshot(estate->es_snapshot) &&
		rf_stream_dest_takes_tuples(dest, RelationGetDescr(rel));
	if (pages && rf_stream_dest_wants_pages(dest) && rf_may_ship_pages(query->plannedstmt, rel) &&
		wants_most(rel, map, count))
		rf_stream_dest_offer_pages(dest, rel, map, count,
								   is_large(rel, RelationGetNumberOfBlocks(rel)) ? RING_PINS :
								   INT_MAX);
	else if (node->ss.ps.qual != NULL)
		pages = false;
	if (pages)
		estate->es_processed = run_heap(node, estate->es_snapshot, dest);
	else
		estate->es_processed = run_rows(node, estate->es_snapshot, dest);
	receiver->rShutdown(receiver);
	if (query->totaltime)
		InstrStopNode(query->totaltime, estate->es_processed);
	return true;
}
