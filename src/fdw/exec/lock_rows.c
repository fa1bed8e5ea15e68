/*
 * lock_rows.c - locks a row when it is returned, by its node and its place there; late_locks.c
 * plans that.
 *
 * LockRows calls this for one row after the other, until Limit has enough. The node locks the row's
 * last version (serve/lock_row.c), under the snapshot that the scan read it with, and gives that
 * version as it is now. If it is not the version that was read, core looks at the query's
 * conditions again.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "libpq-fe.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"

#include "fdw/deparse/deparse.h"
#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "modify_state.h"
#include "scan_state.h"

/* ExecRowMark.ermExtra, in the query's memory */
typedef struct RowLocks
{
	RfScanState *scan;
	const char *relation;		/* remote name, as a literal */
	const char *sql;			/* gives the row that was locked last */
	RfResultReader *reader;
	RfCommand **commands;		/* of each part of the scan; NULL: not made yet */
} RowLocks;

static RfScanState *
find_scan(EState *estate, Index relid)
{
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *state = dlist_container(RfScanState, node, iter.cur);

		if (state->estate == estate &&
			((ForeignScan *) state->scan->ss.ps.plan)->scan.scanrelid == relid)
			return state;
	}
	elog(ERROR, "there is no scan whose rows are to be locked");
}

/*
 * The statement that returns the locked row: all columns of the table, whose attributes go to
 * *attrs, and its place.
 */
static char *
row_sql(Relation rel, const RfTableOptions *opts, const char *locking, List **attrs)
{
	StringInfoData sql;
	ListCell   *lc;

	*attrs = rf_all_columns(rel);
	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	foreach(lc, *attrs)
		appendStringInfo(&sql, "%s, ",
						 quote_identifier(rf_column_name(RelationGetRelid(rel), lfirst_int(lc))));
	*attrs = lappend_int(*attrs, SelfItemPointerAttributeNumber);
	/* the same lock again: policies and rights of the query apply */
	appendStringInfo(&sql, "ctid FROM %s WHERE ctid = rdma_internal.locked_place() AND "
					 "tableoid = $1 %s", rf_remote_relation_name(opts), locking);
	return sql.data;
}

/* Prepares the locking of one table's rows, when its first row is to be locked. */
static RowLocks *
set_up(EState *estate, ExecRowMark *erm)
{
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	RowLocks   *locks = palloc0(sizeof(RowLocks));
	ForeignTable *table = GetForeignTable(erm->relid);
	RfTableOptions opts;
	List	   *attrs;

	locks->scan = find_scan(estate, erm->rti);
	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	locks->relation = quote_literal_cstr(rf_remote_relation_name(&opts));
	locks->sql = row_sql(erm->relation, &opts,
						 rf_scan_plan((ForeignScan *) locks->scan->scan->ss.ps.plan)->late_lock,
						 &attrs);
	locks->reader = rf_result_reader_create(RelationGetDescr(erm->relation),
											RelationGetRelationName(erm->relation), attrs);
	locks->commands = palloc0_array(RfCommand *, locks->scan->part_count);
	MemoryContextSwitchTo(caller);
	return locks;
}

static const char *
strength_name(LockClauseStrength strength)
{
	return strength == LCS_FORUPDATE ? "update" : strength == LCS_FORNOKEYUPDATE ? "no key update" :
		strength == LCS_FORSHARE ? "share" : "key share";
}

static const char *
waiting_name(LockWaitPolicy policy)
{
	return policy == LockWaitSkip ? "skip locked" : policy == LockWaitError ? "nowait" : "block";
}

/*
 * Locks one row by its place on its node, in one round trip that also returns the columns of its
 * current version.
 */
static PGresult *
lock(RowLocks *locks, ExecRowMark *erm, int part, Oid table, Datum ctid)
{
	RfScanState *scan = locks->scan;
	const char *values[2];
	char	   *before;
	PGresult   *result;

	if (locks->commands[part] == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(scan->context);

		locks->commands[part] = rf_command_create(rf_scan_part_session(&scan->parts[part]),
												  locks->sql, 1, true);
		rf_command_in_statement(locks->commands[part], scan->statement);
		MemoryContextSwitchTo(caller);
	}
	values[0] = psprintf("%u", table);
	values[1] = DatumGetCString(DirectFunctionCall1(tidout, ctid));
	before = psprintf("SELECT rdma_internal.lock_version(%s, $1, $2, '%s', '%s')", locks->relation,
					  strength_name(erm->strength), waiting_name(erm->waitPolicy));
	rf_command_precede(locks->commands[part], before, 2);
	result = rf_command_execute(locks->commands[part], values);
	pfree(before);
	return result;
}

/* The row comes to lie where the scan's would, for a recheck. */
static bool
take_row(RowLocks *locks, PGresult *result, ExecRowMark *erm, TupleTableSlot *slot, Oid table,
		 int part)
{
	if (PQntuples(result) == 0)
		return false;
	if (PQntuples(result) > 1)
		rf_modify_ambiguous(erm->relation, PQntuples(result), InvalidOid);
	rf_read_result(locks->reader, result, 0, slot);
	slot->tts_tableOid = erm->relid;
	ExecMaterializeSlot(slot);
	rf_set_row_place(((HeapTupleTableSlot *) slot)->tuple->t_data, table, part);
	return true;
}

/*
 * Called by LockRows for a row that was read without a lock: locks it on its node, and returns its
 * current version in slot. An empty slot stands for a row that is gone.
 */
void
rdmaRefetchForeignRow(EState *estate, ExecRowMark *erm, Datum rowid, TupleTableSlot *slot,
					  bool *updated)
{
	HeapTupleHeader row = DatumGetHeapTupleHeader(rowid);
	RowLocks   *locks = erm->ermExtra;
	PGresult   *volatile result = NULL;
	bool		isnull;
	ItemPointer ctid = (ItemPointer) DatumGetPointer(GetAttributeByNum(row, 1, &isnull));
	Oid			table = DatumGetObjectId(GetAttributeByNum(row, 2, &isnull));
	int			part = DatumGetCommandId(GetAttributeByNum(row, 3, &isnull));

	ExecClearTuple(slot);
	*updated = false;
	if (locks == NULL)
		erm->ermExtra = locks = set_up(estate, erm);
	if (part < 0 || part >= locks->scan->part_count)
		elog(ERROR, "a row to be locked comes from part %d of %d", part, locks->scan->part_count);
	PG_TRY();
	{
		result = lock(locks, erm, part, table, PointerGetDatum(ctid));
		if (take_row(locks, result, erm, slot, table, part))
			*updated = !ItemPointerEquals(&slot->tts_tid, ctid);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();
}
