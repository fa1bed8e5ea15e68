/*
 * lock_row.c - locks a row that is to be written by its place (ctid), as another node has read it.
 *
 * Mostly the writer has locked such rows when it read them. Rows that it found by a join of several
 * nodes it has not. In REPEATABLE READ a write fails if the row has changed since. In READ
 * COMMITTED it would wait for the change, and then write the row's next version, or nothing; but
 * the writer's new values came from the version that it has read. So that version is locked first,
 * and if it is not the last one, that is an error.
 *
 * It is none if the transaction itself has written the row before: one that was joined with several
 * others is written once.
 *
 * Only rows that the caller may write, and that the table's policies show it, are locked. Of others
 * it is as if they were not there.
 *
 * rdma.lock_version() does for a reader what LockRows does in one server's plan: SELECT ... LIMIT 1
 * FOR UPDATE over several nodes reads rows without locks, and locks those that it returns
 * (fdw/exec/lock_rows.c). It runs under the snapshot that the row was read with. A change that has
 * committed since is followed to the row's last version, which the next statement reads; the reader
 * looks at its conditions again.
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
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "rdma_fdw/compat.h"
#include "store.h"

PG_FUNCTION_INFO_V1(rdma_lock_row);
PG_FUNCTION_INFO_V1(rdma_lock_version);
PG_FUNCTION_INFO_V1(rdma_locked_place);
PG_FUNCTION_INFO_V1(rdma_locked_table);

/* The row that rdma.lock_version() has locked last; InvalidOid: none. */
static Oid	locked_table = InvalidOid;
static ItemPointerData locked_place;

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
		(delete ||
		 pg_attribute_aclcheck_all(relid, GetUserId(), ACL_UPDATE, ACLMASK_ANY) != ACLCHECK_OK))
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

RfRowLocker *
rf_row_locker_create(Oid relid, bool delete)
{
	RfRowLocker *locker;
	List	   *members;
	ListCell   *lc;

	check_privilege(relid, delete);
	locker = palloc0(sizeof(RfRowLocker));
	/* who names a table by its OID has not locked it; its children are locked below */
	LockRelationOid(relid, RowExclusiveLock);
	members = find_all_inheritors(relid, RowExclusiveLock, NULL);
	locker->relid = relid;
	locker->policies = check_enable_rls(relid, InvalidOid, false) == RLS_ENABLED;
	foreach(lc, members)
	{
		Relation	rel = table_open(lfirst_oid(lc), NoLock);

		if (rel->rd_rel->relkind == RELKIND_RELATION &&
			rel->rd_tableam == GetHeapamTableAmRoutine())
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
	return (tuple->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		!HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_infomask) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(tuple));
}

/* Do the policies show it to the caller? read_only: in the caller's own snapshot. */
static bool
is_shown(Oid relid, Relation rel, ItemPointer ctid, bool read_only)
{
	Oid			types[] = {TIDOID, OIDOID};
	Datum		values[] = {PointerGetDatum(ctid), ObjectIdGetDatum(RelationGetRelid(rel))};
	char	   *query = psprintf("SELECT FROM %s WHERE ctid OPERATOR(pg_catalog.=) $1 AND tableoid OPERATOR(pg_catalog.=) $2",
								 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
															get_rel_name(relid)));
	bool		shown;

	SPI_connect();
	if (SPI_execute_with_args(query, 2, types, values, NULL, read_only, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for a row of \"%s\"", get_rel_name(relid));
	shown = SPI_processed > 0;
	SPI_finish();
	pfree(query);
	return shown;
}

/* Is it a place of the table's at all? Access methods take no other. */
static bool
may_exist(Relation rel, ItemPointer place)
{
	return ItemPointerIsValid(place) &&
		ItemPointerGetBlockNumberNoCheck(place) < RelationGetNumberOfBlocks(rel);
}

/*
 * False: there is no such version that the caller may see, or another transaction has replaced it.
 */
static bool
lock_version(const RfRowLocker *locker, Relation rel, ItemPointer ctid, LockTupleMode mode,
			 TupleTableSlot *slot)
{
	HeapTupleData tuple;
	Buffer		buffer;
	TM_FailureData failure;
	TM_Result	result = TM_Ok;
	bool		ours;
	bool		allowed;

	if (!may_exist(rel, ctid))
		return false;
	tuple.t_self = *ctid;
	if (!heap_fetch(rel, SnapshotAny, &tuple, &buffer, false))
		return false;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	ours = is_ours(tuple.t_data);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	/* the pin keeps the version there until it is locked, whoever named the place */
	allowed = ours || !locker->policies || is_shown(locker->relid, rel, ctid, false);
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
		locked |= lock_version(locker, lfirst(lc), ctid,
							   delete ? LockTupleExclusive : LockTupleNoKeyExclusive,
							   list_nth(locker->slots, foreach_current_index(lc)));
	if (!locked)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("A row of \"%s\" has been changed since the statement found it by a "
						   "join of several nodes.",
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

/* ---------- for a reader ---------- */

/* As SELECT ... FOR UPDATE asks for it. */
static void
check_reader(Oid relid)
{
	if ((pg_class_aclmask(relid, GetUserId(), ACL_SELECT, ACLMASK_ANY) == 0 &&
		 pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT, ACLMASK_ANY) != ACLCHECK_OK) ||
		(pg_class_aclmask(relid, GetUserId(), ACL_UPDATE, ACLMASK_ANY) == 0 &&
		 pg_attribute_aclcheck_all(relid, GetUserId(), ACL_UPDATE, ACLMASK_ANY) != ACLCHECK_OK))
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

/* The table of the relation that has the row; both stay locked until the transaction ends. */
static Relation
open_member(Oid relid, Oid member)
{
	Relation	rel;

	LockRelationOid(relid, RowShareLock);
	if (member != relid && !list_member_oid(find_all_inheritors(relid, RowShareLock, NULL), member))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the table with OID %u is not a part of \"%s\"", member,
						get_rel_name(relid))));
	rel = table_open(member, RowShareLock);
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("rows of \"%s\" cannot be locked one by one", RelationGetRelationName(rel)),
				 errdetail("It is not a table that stores rows.")));
	return rel;
}

static LockTupleMode
lock_mode(const char *strength)
{
	if (strcmp(strength, "update") == 0)
		return LockTupleExclusive;
	if (strcmp(strength, "no key update") == 0)
		return LockTupleNoKeyExclusive;
	if (strcmp(strength, "share") == 0)
		return LockTupleShare;
	if (strcmp(strength, "key share") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown strength of a row lock: \"%s\"", strength)));
	return LockTupleKeyShare;
}

static LockWaitPolicy
wait_policy(const char *waiting)
{
	if (strcmp(waiting, "skip locked") == 0)
		return LockWaitSkip;
	return strcmp(waiting, "nowait") == 0 ? LockWaitError : LockWaitBlock;
}

/* As ExecLockRows() has it. False: the row is not to be returned. */
static bool
is_locked(TM_Result result, Relation rel)
{
	switch (result)
	{
		case TM_Ok:
			return true;
		case TM_WouldBlock:
		case TM_SelfModified:
			return false;
		case TM_Updated:
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				ereport(ERROR,
						(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						 errmsg(result == TM_Updated ?
								"could not serialize access due to concurrent update" :
								"could not serialize access due to concurrent delete")));
			if (result == TM_Deleted)
				return false;
			break;
		default:
			break;
	}
	elog(ERROR, "unexpected result %d of locking a row of \"%s\"", (int) result,
		 RelationGetRelationName(rel));
}

Datum
rdma_lock_version(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Snapshot	snapshot = GetActiveSnapshot();
	LockTupleMode mode = lock_mode(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	LockWaitPolicy policy = wait_policy(text_to_cstring(PG_GETARG_TEXT_PP(4)));
	ItemPointerData place = *(ItemPointer) PG_GETARG_POINTER(2);
	Relation	rel;
	TupleTableSlot *slot;
	TM_FailureData failure;

	locked_table = InvalidOid;
	check_reader(relid);
	rel = open_member(relid, PG_GETARG_OID(1));
	slot = table_slot_create(rel, NULL);
	/* no other version is locked than one that the snapshot shows, whoever named the place */
	if (may_exist(rel, &place) &&
		table_tuple_fetch_row_version(rel, &place, snapshot, slot) &&
		(check_enable_rls(relid, InvalidOid, false) != RLS_ENABLED ||
		 is_shown(relid, rel, &place, true)) &&
		is_locked(table_tuple_lock(rel, &place, snapshot, slot,
								   snapshot->curcid, mode, policy,
								   IsolationUsesXactSnapshot() ?
								   0 :
								   TUPLE_LOCK_FLAG_FIND_LAST_VERSION,
								   &failure),
				  rel))
	{
		locked_table = RelationGetRelid(rel);
		locked_place = slot->tts_tid;
	}
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	PG_RETURN_BOOL(OidIsValid(locked_table));
}

Datum
rdma_locked_place(PG_FUNCTION_ARGS)
{
	ItemPointer place;

	if (!OidIsValid(locked_table))
		PG_RETURN_NULL();
	place = palloc(sizeof(ItemPointerData));
	*place = locked_place;
	PG_RETURN_POINTER(place);
}

Datum
rdma_locked_table(PG_FUNCTION_ARGS)
{
	if (!OidIsValid(locked_table))
		PG_RETURN_NULL();
	PG_RETURN_OID(locked_table);
}
