/*
 * vector.h - a statement's part that works on columns of heap pages. Needs PostgreSQL.
 *
 * Does: read pages, find the rows of a page that a scan's conditions leave, and take the place of
 * sequential scans in the state of a plan. Does not: change plans, or know how rows travel.
 *
 * The rule of this room: a kernel computes exactly what core computes, or marks the row. It raises
 * no error. Core's own expressions and transition functions take the marked rows, in the order of
 * the scan.
 */
#ifndef RF_VECTOR_H
#define RF_VECTOR_H

#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "executor/execdesc.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* ---------- page_scan.c: the visible tuples of a heap's pages, page by page ---------- */

typedef struct RfPageScan
{
	Relation	rel;
	Snapshot	snapshot;
	BlockNumber blocks;
	HeapScanDesc parallel;		/* core's scan, which gives out the blocks; NULL: not parallel */
	BlockNumber first;			/* not parallel: the block where the scan begins, */
	BlockNumber next;			/* the next block, */
	BlockNumber left;			/* and the number of blocks not read yet */
	BlockNumber read;			/* number of blocks read since the scan began */
	bool		keep_step;		/* with other scans of the table */
	BufferAccessStrategy strategy;
	Buffer		buffer;			/* pinned; or invalid */
	Buffer		before;			/* the last one */
	HeapTupleData stored;		/* in a slot */
	int			count;			/* of visible tuples on the page */
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lengths[MaxHeapTuplesPerPage];
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} RfPageScan;

/* Sends a locked page whose tuples are all visible as it is; returns its rows, or less than 0. */
typedef int (*RfWholePage) (void *receiver, Buffer buffer);

/* Returns true if pages of this table can be read under this snapshot. */
extern bool rf_page_scan_possible(Relation rel, Snapshot snapshot);

/*
 * In the current memory context; rf_page_scan_end() releases the page, as an error does. parallel:
 * core's scan of a heap that takes part in a parallel scan, or NULL.
 */
extern RfPageScan *rf_page_scan_begin(Relation rel, Snapshot snapshot, TableScanDesc parallel);
extern void rf_page_scan_restart(RfPageScan *scan);
extern void rf_page_scan_end(RfPageScan *scan);

/* Pins the next page. Returns false if there is no more page. */
extern bool rf_page_scan_read(RfPageScan *scan);

/*
 * Collects the page's visible tuples and returns -1. If `whole` is given and takes the page as it
 * is, returns its number of rows instead, and collects no tuple.
 */
extern int	rf_page_scan_collect(RfPageScan *scan, RfWholePage whole, void *receiver);
extern void rf_page_scan_release(RfPageScan *scan);

/* Stores a tuple of the pinned page in a slot of buffer tuples, until the next call. */
extern void rf_page_scan_store(RfPageScan *scan, int tuple, TupleTableSlot *slot);

/* Returns true if core would read a table of this size through a ring of buffers. */
extern bool rf_scan_is_large(Relation rel, BlockNumber blocks);

/* ---------- row_filter.c: the conditions of a sequential scan ---------- */

typedef struct RfRowFilter RfRowFilter;

/* For a started scan, with or without conditions; in the current memory context. */
extern RfRowFilter *rf_row_filter_create(SeqScanState *node);

/* Keeps only those of the page's tuples that the conditions leave. */
extern void rf_row_filter_page(RfRowFilter *filter, RfPageScan *scan);

/* ---------- columns.c: Custom Scan (RdmaColumns), in the place of a sequential scan ---------- */

/* A statement has started: sequential scans that pay on columns run so. */
extern void rf_columns_started(QueryDesc *query, int eflags);

/* The same for the part of a started plan at *place, below another node of this library. */
extern void rf_columns_below(PlanState **place);

/* The scan whose place it took, or NULL: it is another node. */
extern SeqScanState *rf_columns_scan(PlanState *node);

/*
 * Returns the next row that passes the conditions of such a node, in the scan's slot of buffer
 * tuples and not projected. Looks at the current page and the next page only: returns NULL if no
 * row of these passes. Sets *over to true after the last page.
 */
extern TupleTableSlot *rf_columns_next(PlanState *node, bool *over);

#endif
