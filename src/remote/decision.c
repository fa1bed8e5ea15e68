/*
 * decision.c - the table rdma.decisions: a row for each part of a transaction that committed on
 * several nodes.
 *
 * Rows are written and read below the executor, so other roles' rights, triggers and snapshots have
 * no effect. A transaction writes its rows in its own commit. A row is removed when its part is
 * finished.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "rdma_fdw/compat.h"

#include "commit.h"

enum
{
	COLUMN_GID, COLUMN_SERVER, COLUMN_USER, COLUMN_NODE, COLUMN_DECIDED, COLUMNS
};

Oid
rf_decision_table(void)
{
	Oid			schema = get_namespace_oid("rdma", true);

	return OidIsValid(schema) ? get_relname_relid("decisions", schema) : InvalidOid;
}

void
rf_decision_write(Oid table, const RfDecision *decisions, int count)
{
	Relation	relation = table_open(table, RowExclusiveLock);

	/*
	 * Commit has no snapshot any more, and PostgreSQL wants one for values that could go to a
	 * TOAST table.
	 */
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < count; i++)
	{
		Datum		values[COLUMNS];
		bool		nulls[COLUMNS] = {false};
		HeapTuple	tuple;

		values[COLUMN_GID] = CStringGetTextDatum(decisions[i].gid);
		values[COLUMN_SERVER] = ObjectIdGetDatum(decisions[i].serverid);
		values[COLUMN_USER] = ObjectIdGetDatum(decisions[i].userid);
		values[COLUMN_NODE] = Int64GetDatum((int64) decisions[i].node);
		values[COLUMN_DECIDED] = TimestampTzGetDatum(decisions[i].decided);
		tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
		/* not replicated to subscribers of all tables */
		heap_insert(relation, tuple, GetCurrentCommandId(true), HEAP_INSERT_NO_LOGICAL, NULL);
		heap_freetuple(tuple);
	}
	PopActiveSnapshot();
	table_close(relation, NoLock);
}

/*
 * Scans the rows that are committed now, for any snapshot of the transaction. SnapshotSelf checks
 * each row separately, so the scan sees all rows committed before it began.
 */
int
rf_decision_read(RfDecision **decisions)
{
	Oid			table = rf_decision_table();
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;
	int			count = 0;
	int			room = 64;

	*decisions = palloc(sizeof(RfDecision) * room);
	if (!OidIsValid(table))
		return 0;
	relation = table_open(table, AccessShareLock);
	scan = rf_table_beginscan(relation, SnapshotSelf);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Datum		values[COLUMNS];
		bool		nulls[COLUMNS];
		RfDecision *decision;

		if (count == room)
			*decisions = repalloc_huge(*decisions, sizeof(RfDecision) * (room *= 2));
		heap_deform_tuple(tuple, RelationGetDescr(relation), values, nulls);
		decision = &(*decisions)[count++];
		strlcpy(decision->gid, TextDatumGetCString(values[COLUMN_GID]), sizeof(decision->gid));
		decision->serverid = DatumGetObjectId(values[COLUMN_SERVER]);
		decision->userid = DatumGetObjectId(values[COLUMN_USER]);
		decision->node = (uint64) DatumGetInt64(values[COLUMN_NODE]);
		decision->decided = DatumGetTimestampTz(values[COLUMN_DECIDED]);
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	return count;
}

/* Conflicts with itself and not with writers. */
bool
rf_decision_lock(void)
{
	return ConditionalLockRelationOid(rf_decision_table(), ShareUpdateExclusiveLock);
}

static int
compare_gids(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

void
rf_decision_delete(const char *const *gids, int count)
{
	const char **sorted;
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;

	if (count == 0)
		return;
	sorted = palloc(sizeof(char *) * count);
	memcpy(sorted, gids, sizeof(char *) * count);
	qsort(sorted, count, sizeof(char *), compare_gids);
	relation = table_open(rf_decision_table(), RowExclusiveLock);
	scan = rf_table_beginscan(relation, SnapshotSelf);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, COLUMN_GID + 1, RelationGetDescr(relation),
										 &isnull);
		char	   *gid = TextDatumGetCString(value);

		if (bsearch(&gid, sorted, count, sizeof(char *), compare_gids) != NULL)
			simple_heap_delete(relation, &tuple->t_self);
		pfree(gid);
	}
	table_endscan(scan);
	table_close(relation, NoLock);
	pfree(sorted);
}
