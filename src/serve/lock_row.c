/*
 * lock_row.c - locks a row that is to be written by its place (ctid), as another node has read it.
 *
 * Mostly the writer has locked such rows when it read them. Rows that it found by a join of several
 * nodes it has not. In REPEATABLE READ a write fails if the row has changed since. In READ COMMITTED it
 * would wait for the change, and then write the row's next version, or nothing; but the writer's new
 * values came from the version that it has read. So that version is locked first, and if it is not the
 * last one, that is an error.
 *
 * It is none if the transaction itself has written the row before: one that was joined with several
 * others is written once.
 *
 * Only rows that the caller may write, and that the table's policies show it, are locked. Of others it is as
 * if they were not there.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "rdma_fdw/compat.h"
#include "store.h"

PG_FUNCTION_INFO_V1(rdma_lock_row);

struct RfRowLocker
{
	Oid			relid;
	List	   *members;		/* Relations, of heaps */
	List	   *slots;
	bool		others;			/* there are members whose rows have no place, or have it elsewhere */
	bool		policies;		/* row security applies */
};

/* The caller may write some column of it, or delete its rows. */
static void
check_privilege(Oid relid, bool delete)
{
	if (pg_class_aclmask(relid, GetUserId(), delete ? ACL_DELETE : ACL_UPDATE, ACLMASK_ANY) == 0 &&
		(delete || pg_attribute_aclcheck_all(relid, GetUserId(), ACL_UPDATE, ACLMASK_ANY) != ACLCHECK_OK))
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
}

RfRowLocker *
rf_row_locker_create(Oid relid, bool delete)
{
	RfRowLocker *locker;
	List	   *members;
	ListCell   *lc;

	check_privilege(relid, delete);
	locker = palloc0(sizeof(RfRowLocker));
	members = find_all_inheritors(relid, RowExclusiveLock, NULL);
	locker->relid = relid;
	locker->policies = check_enable_rls(relid, InvalidOid, false) == RLS_ENABLED;
	foreach(lc, members)
	{
		Relation	rel = table_open(lfirst_oid(lc), NoLock);

		if (rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_tableam == GetHeapamTableAmRoutine())
		{
			locker->members = lappend(locker->members, rel);
			locker->slots = lappend(locker->slots, table_slot_create(rel, NULL));
			continue;
		}
		locker->others |= rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE;
		table_close(rel, NoLock);
	}
	list_free(members);
	return locker;
}

void
rf_row_locker_end(RfRowLocker *locker)
{
	ListCell   *lc;

	foreach(lc, locker->slots)
		ExecDropSingleTupleTableSlot(lfirst(lc));
	foreach(lc, locker->members)
		table_close(lfirst(lc), NoLock);
}

static bool
is_ours(HeapTupleHeader tuple)
{
	return (tuple->t_infomask & HEAP_XMAX_INVALID) == 0 && !HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_infomask) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(tuple));
}

/* Do the policies show it to the caller? */
static bool
is_shown(const RfRowLocker *locker, Relation rel, ItemPointer ctid)
{
	Oid			types[] = {TIDOID, OIDOID};
	Datum		values[] = {PointerGetDatum(ctid), ObjectIdGetDatum(RelationGetRelid(rel))};
	char	   *query = psprintf("SELECT FROM %s WHERE ctid OPERATOR(pg_catalog.=) $1 AND tableoid OPERATOR(pg_catalog.=) $2",
								 quote_qualified_identifier(get_namespace_name(get_rel_namespace(locker->relid)),
															get_rel_name(locker->relid)));
	bool		shown;

	SPI_connect();
	if (SPI_execute_with_args(query, 2, types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for a row of \"%s\"", get_rel_name(locker->relid));
	shown = SPI_processed > 0;
	SPI_finish();
	pfree(query);
	return shown;
}

/* False: there is no such version that the caller may see, or another transaction has replaced it. */
static bool
lock_version(const RfRowLocker *locker, Relation rel, ItemPointer ctid, LockTupleMode mode, TupleTableSlot *slot)
{
	HeapTupleData tuple;
	Buffer		buffer;
	TM_FailureData failure;
	TM_Result	result = TM_Ok;
	bool		ours;
	bool		allowed;

	if (ItemPointerGetBlockNumberNoCheck(ctid) >= RelationGetNumberOfBlocks(rel))
		return false;
	tuple.t_self = *ctid;
	if (!heap_fetch(rel, SnapshotAny, &tuple, &buffer, false))
		return false;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	ours = is_ours(tuple.t_data);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	/* the pin keeps the version there until it is locked, whoever named the place */
	allowed = ours || !locker->policies || is_shown(locker, rel, ctid);
	if (allowed && !ours)
		result = table_tuple_lock(rel, ctid, GetActiveSnapshot(), slot, GetCurrentCommandId(false),
								  mode, LockWaitBlock, 0, &failure);
	ReleaseBuffer(buffer);
	ExecClearTuple(slot);
	return allowed && (result == TM_Ok || result == TM_SelfModified);
}

void
rf_lock_row(RfRowLocker *locker, ItemPointer ctid, bool delete)
{
	bool		locked = locker->others;
	ListCell   *lc;

	foreach(lc, locker->members)
		locked |= lock_version(locker, lfirst(lc), ctid, delete ? LockTupleExclusive : LockTupleNoKeyExclusive,
							   list_nth(locker->slots, foreach_current_index(lc)));
	if (!locked)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("A row of \"%s\" has been changed since the statement found it by a join of several nodes.",
						   get_rel_name(locker->relid)),
				 errhint("Try the transaction again.")));
}

Datum
rdma_lock_row(PG_FUNCTION_ARGS)
{
	bool		delete = PG_GETARG_BOOL(2);
	RfRowLocker *locker = rf_row_locker_create(PG_GETARG_OID(0), delete);

	rf_lock_row(locker, (ItemPointer) PG_GETARG_POINTER(1), delete);
	rf_row_locker_end(locker);
	PG_RETURN_VOID();
}
