/*
 * plain_fdw.c - a foreign data wrapper that does as little as one may: it keeps nothing in a
 * relation's fdw_private, has no user mapping, and pushes nothing down.
 *
 * Every foreign table has the rows 1, 2, 3 in its only column, an integer.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(plain_handler);

#define ROWS	3

static void
rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table)
{
	rel->rows = ROWS;
}

static void
paths(PlannerInfo *root, RelOptInfo *rel, Oid table)
{
	add_path(rel, (Path *)
			 create_foreignscan_path(root, rel, NULL, rel->rows,
#if PG_VERSION_NUM >= 180000
									 0,
#endif
									 0, rel->rows, NIL, rel->lateral_relids, NULL,
#if PG_VERSION_NUM >= 170000
									 NIL,
#endif
									 NIL));
}

static ForeignScan *
plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path, List *tlist, List *clauses,
	 Plan *outer)
{
	return make_foreignscan(tlist, extract_actual_clauses(clauses, false), rel->relid, NIL, NIL,
							NIL, NIL, outer);
}

static void
begin_scan(ForeignScanState *node, int eflags)
{
	node->fdw_state = palloc0(sizeof(int));
}

static TupleTableSlot *
iterate(ForeignScanState *node)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	int		   *row = node->fdw_state;

	ExecClearTuple(slot);
	if (*row == ROWS)
		return slot;
	slot->tts_values[0] = Int32GetDatum(++*row);
	slot->tts_isnull[0] = false;
	return ExecStoreVirtualTuple(slot);
}

static void
rescan(ForeignScanState *node)
{
	*(int *) node->fdw_state = 0;
}

static void
end_scan(ForeignScanState *node)
{
}

Datum
plain_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = rel_size;
	routine->GetForeignPaths = paths;
	routine->GetForeignPlan = plan;
	routine->BeginForeignScan = begin_scan;
	routine->IterateForeignScan = iterate;
	routine->ReScanForeignScan = rescan;
	routine->EndForeignScan = end_scan;
	PG_RETURN_POINTER(routine);
}
