/*
 * timeline.c - keeps the newest timeline that each node was seen on.
 *
 * A standby that is promoted begins a new timeline, and is the same database otherwise. If the
 * primary that it took the place of comes back, it is on the old one and lacks what was committed
 * since. rf_placement_check refuses it if the record says that the node has been on a later one.
 *
 * A transaction that has used such a node writes its timeline to rdma.placement, in its own commit
 * and below the executor, as decision.c does: also a transaction that only reads, and whatever
 * rights its role has. It never waits for that: if it cannot lock the row, the next one tries.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "placement.h"
#include "session.h"

PG_FUNCTION_INFO_V1(rdma_timeline);

/* rdma_internal.timeline(): on a node */
Datum
rdma_timeline(PG_FUNCTION_ARGS)
{
	TimeLineID	timeline;

	if (RecoveryInProgress())
		(void) GetXLogReplayRecPtr(&timeline);
	else
		timeline = GetWALInsertionTimeLine();
	PG_RETURN_INT64(timeline);
}

/* May have been replaced since the records were read. */
static bool
is_member(const RfPlacementPart *part, Datum members)
{
	int			place = part->number + 1;
	bool		isnull;
	char	   *known = part->record->members[part->number];
	Datum		member;

	member = array_get_element(members, 1, &place, -1, UUID_LEN, false, TYPALIGN_CHAR, &isnull);
	return !isnull && strcmp(DatumGetCString(DirectFunctionCall1(uuid_out, member)), known) == 0;
}

/* Whoever has locked the row is about to change it, or writes the same. */
static void
write_timeline(Relation rel, HeapTuple row, const RfPlacementPart *part, int64 timeline)
{
	HeapTupleData locked = *row;
	TM_FailureData failure;
	Buffer		buffer;

	if (heap_lock_tuple(rel, &locked, GetCurrentCommandId(true), LockTupleNoKeyExclusive,
						LockWaitSkip, false, &buffer, &failure) == TM_Ok)
	{
		Datum		values[PLACEMENT_COLUMNS];
		bool		nulls[PLACEMENT_COLUMNS];
		bool		replaces[PLACEMENT_COLUMNS] = {false};
		Datum	   *timelines = &values[PLACEMENT_TIMELINES - 1];
		int			place = part->number + 1;

		heap_deform_tuple(&locked, RelationGetDescr(rel), values, nulls);
		if (is_member(part, values[PLACEMENT_MEMBERS - 1]))
		{
			*timelines = array_set_element(*timelines, 1, &place, Int64GetDatum(timeline), false,
										   -1, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
			replaces[PLACEMENT_TIMELINES - 1] = true;
			CatalogTupleUpdate(rel, &locked.t_self,
							   heap_modify_tuple(&locked, RelationGetDescr(rel), values, nulls,
												 replaces));
		}
	}
	ReleaseBuffer(buffer);
}

static void
keep(Relation rel, const RfPlacementPart *part, int64 timeline)
{
	NameData	server;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;

	namestrcpy(&server, part->record->server);
	ScanKeyInit(&key, PLACEMENT_SERVER, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&server));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	row = systable_getnext(scan);
	if (HeapTupleIsValid(row))
		write_timeline(rel, row, part, timeline);
	systable_endscan(scan);
}

void
rf_timeline_keep(const char *node, const char *answer)
{
	Oid			table = rf_placement_table();
	Relation	rel;
	ListCell   *lc;

	/* serializable transactions that only read must not write even this */
	if (IsParallelWorker() || RecoveryInProgress() || (XactReadOnly && IsolationIsSerializable()) ||
		!ConditionalLockRelationOid(table, RowExclusiveLock))
		return;
	rel = table_open(table, NoLock);
	/* see rf_decision_write */
	PushActiveSnapshot(GetTransactionSnapshot());
	foreach(lc, rf_placement_parts(node))
	{
		const RfPlacementPart *part = lfirst(lc);
		int64		timeline = rf_placement_timeline(part, answer);

		if (timeline > Max(part->record->timelines[part->number], 1))
		{
			keep(rel, part, timeline);
			CommandCounterIncrement();	/* the same row may have other nodes */
		}
	}
	PopActiveSnapshot();
	table_close(rel, NoLock);
	rf_placement_invalidate();
}
