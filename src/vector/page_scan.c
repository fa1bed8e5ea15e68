/*
 * page_scan.c - reads a heap page by page: the work of core's sequential scan on a page.
 *
 * Each page is pruned, and each tuple is checked under the page's share lock. Large tables use a
 * ring of buffers and keep step with other scans, as core's scans do.
 *
 * Does: heap tables under MVCC snapshots, serializable ones, too. Does not: look at values.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/vector.h"
#include "storage/predicate.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

bool
rf_page_scan_possible(Relation rel, Snapshot snapshot)
{
	return rel->rd_tableam == GetHeapamTableAmRoutine() && IsMVCCSnapshot(snapshot);
}

/* Core's rule for a ring of buffers. */
bool
rf_scan_is_large(Relation rel, BlockNumber blocks)
{
	return !RelationUsesLocalBuffers(rel) && blocks > NBuffers / 4;
}

RfPageScan *
rf_page_scan_begin(Relation rel, Snapshot snapshot, TableScanDesc parallel)
{
	RfPageScan *scan = palloc(sizeof(RfPageScan));
	bool		large;

	scan->rel = rel;
	scan->snapshot = snapshot;
	scan->blocks = RelationGetNumberOfBlocks(rel);
	if (parallel != NULL && parallel->rs_parallel == NULL)
		parallel = NULL;
	scan->parallel = (HeapScanDesc) parallel;
	large = rf_scan_is_large(rel, scan->blocks);
	scan->keep_step = large && synchronize_seqscans;
	scan->strategy = large ? GetAccessStrategy(BAS_BULKREAD) : NULL;
	scan->first = scan->keep_step ? ss_get_location(rel, scan->blocks) : 0;
	scan->buffer = scan->before = InvalidBuffer;
	PredicateLockRelation(rel, snapshot);
	rf_page_scan_restart(scan);
	return scan;
}

void
rf_page_scan_restart(RfPageScan *scan)
{
	rf_page_scan_release(scan);
	scan->next = scan->first;
	scan->left = scan->blocks;
	scan->read = 0;
	scan->count = 0;
	/* core has counted a parallel scan */
	if (scan->parallel == NULL)
		pgstat_count_heap_scan(scan->rel);
}

void
rf_page_scan_release(RfPageScan *scan)
{
	if (BufferIsValid(scan->buffer))
		ReleaseBuffer(scan->buffer);
	scan->buffer = InvalidBuffer;
}

void
rf_page_scan_end(RfPageScan *scan)
{
	rf_page_scan_release(scan);
	if (scan->strategy != NULL)
		FreeAccessStrategy(scan->strategy);
	pfree(scan);
}

/*
 * A block, which is likely to be in the buffer behind the buffer of the block before (in a table
 * that was read from front to back): looking there saves the look into the table of buffers, which
 * costs as much as all else that is done to a page that is sent as it is. Not with a ring, whose
 * buffers are reused.
 */
#define PREFETCHED_BYTES	640

/* Reads and pins a block; `before` is the buffer of the block before. */
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

/* This process's next block of a parallel scan. */
static BlockNumber
next_of_parallel(RfPageScan *scan)
{
	ParallelBlockTableScanWorker own = scan->parallel->rs_parallelworkerdata;
	ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc)
	scan->parallel->rs_base.rs_parallel;

	if (scan->read == 0)
		rf_parallel_scan_begin(scan->rel, own, shared);
	return table_block_parallelscan_nextpage(scan->rel, own, shared);
}

/* The next block otherwise. */
static BlockNumber
next_block(RfPageScan *scan)
{
	BlockNumber block = scan->next;

	if (scan->left == 0)
		return InvalidBlockNumber;
	scan->next = block + 1 == scan->blocks ? 0 : block + 1;
	scan->left--;
	if (scan->keep_step)
		ss_report_location(scan->rel, scan->next);
	return block;
}

bool
rf_page_scan_read(RfPageScan *scan)
{
	BlockNumber block;

	rf_page_scan_release(scan);
	block = scan->parallel != NULL ? next_of_parallel(scan) : next_block(scan);
	if (block == InvalidBlockNumber)
		return false;
	scan->buffer = scan->before = read_block(scan->rel, block, scan->before, scan->strategy);
	scan->read++;
	return true;
}

int
rf_page_scan_collect(RfPageScan *scan, RfWholePage whole, void *receiver)
{
	Relation	rel = scan->rel;
	Snapshot	snapshot = scan->snapshot;
	Buffer		buffer = scan->buffer;
	BlockNumber block = BufferGetBlockNumber(buffer);
	bool		serializable = IsolationIsSerializable();
	Page		page;
	OffsetNumber last;
	bool		all_visible;
	int			count = 0;

	rf_page_prune(rel, buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
#if PG_VERSION_NUM < 170000
	TestForOldSnapshot(snapshot, rel, page);	/* 17 removed old_snapshot_threshold */
#endif
	last = PageGetMaxOffsetNumber(page);

	/* A snapshot from recovery may not trust a flag that was set on the primary. */
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery;
	scan->count = 0;
	if (whole != NULL && all_visible && !serializable)
	{
		int			rows = whole(receiver, buffer);

		if (rows >= 0)
		{
			LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
			rf_count_rows_read(rel, rows);
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
		if (!all_visible || serializable)
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
		scan->tuples[count] = tuple.t_data;
		scan->lengths[count] = ItemIdGetLength(item);
		scan->offsets[count] = offset;
		count++;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	scan->count = count;
	rf_count_rows_read(rel, count);
	return -1;
}

void
rf_page_scan_store(RfPageScan *scan, int number, TupleTableSlot *slot)
{
	HeapTuple	tuple = &scan->stored;

	tuple->t_tableOid = RelationGetRelid(scan->rel);
	tuple->t_data = scan->tuples[number];
	tuple->t_len = scan->lengths[number];
	ItemPointerSet(&tuple->t_self, BufferGetBlockNumber(scan->buffer), scan->offsets[number]);
	ExecStoreBufferHeapTuple(tuple, slot, scan->buffer);
}
