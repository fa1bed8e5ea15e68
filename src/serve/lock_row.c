/*
 * lock_row.c - locks a row that is to be written by its place (table and ctid), as another node has
 * read it.
 *
 * Mostly the writer has locked such rows when it read them. Rows that it found by a join of several
 * nodes it has not. A write would wait for a change of such a row, and then write the row's next
 * version, or nothing; but the writer's new values came from the version that it has read. So that
 * version is locked first, and if it is not the last one, that is an error. It also is one if there
 * is no row at that place: the write would pass over it without a word.
 *
 * The writer takes the node from the row's distribution key. Where that says another one than the
 * row is on, as after rows were written past it, another row may be at that place:
 * rdma_internal.is_key() is part of the write's condition, and an error for a row with another key.
 *
 * It is none if the transaction itself has written the row before: one that was joined with several
 * others is written once.
 *
 * Only rows that the caller may write, and that the table's policies show it, are locked. Of others
 * it is as if they were not there.
 *
 * rdma_internal.lock_version() does for a reader what LockRows does in one server's plan: SELECT
 * ... LIMIT 1 FOR UPDATE over several nodes reads rows without locks, and locks those that it
 * returns (fdw/exec/lock_rows.c). It runs under the snapshot that the row was read with. A change
 * that has committed since is followed to the row's last version, which the next statement reads;
 * the reader looks at its conditions again.
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
#include "utils/typcache.h"

#include "rdma_fdw/compat.h"
#include "store.h"

PG_FUNCTION_INFO_V1(rdma_lock_row);
PG_FUNCTION_INFO_V1(rdma_is_key);
PG_FUNCTION_INFO_V1(rdma_lock_version);
PG_FUNCTION_INFO_V1(rdma_locked_place);

/* The row that the last rdma_internal.lock_version() locked; not valid: it locked no row. */
static ItemPointerData locked_place;

/* One of the tables that have the rows */
typedef struct Member
{
	Relation	rel;
	TupleTableSlot *slot;		/* NULL: its rows have no place, or have it elsewhere, and are not
								 * locked here */
} Member;

struct RfRowLocker
{
	Oid			relid;
	MemoryContext context;
	List	   *inheritors;		/* NIL: not looked for yet */
	List	   *members;		/* that were needed so far */
	Member	   *last;
	bool		delete;
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

	check_privilege(relid, delete);
	locker = palloc0(sizeof(RfRowLocker));
	locker->relid = relid;
	locker->context = CurrentMemoryContext;
	locker->delete = delete;
	locker->policies = check_enable_rls(relid, InvalidOid, false) == RLS_ENABLED;
	return locker;
}

void
rf_row_locker_end(RfRowLocker *locker)
{
	ListCell   *lc;

	foreach(lc, locker->members)
	{
		Member	   *member = lfirst(lc);

		if (member->slot != NULL)
			ExecDropSingleTupleTableSlot(member->slot);
		table_close(member->rel, NoLock);
	}
}

/* A coordinator has told this node to lock or write a row that is on another node. */
__attribute__((noreturn)) static void
refuse_misplaced(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a row is not on the node that its distribution key says"),
			 errdetail_internal("%s", detail),
			 errhint("On the coordinator, rdma.check_distribution() finds the tables with such "
					 "rows.")));
}

/*
 * The table of the relation that has the row. It, the relation and its other tables stay locked
 * until the transaction ends. *inheritors: those of the relation, found once.
 */
static Relation
open_member(Oid relid, Oid member, List **inheritors)
{
	LockRelationOid(relid, RowShareLock);
	if (member != relid && *inheritors == NIL)
		*inheritors = find_all_inheritors(relid, RowShareLock, NULL);
	if (member != relid && !list_member_oid(*inheritors, member))
		refuse_misplaced(psprintf("Its table, with OID %u, is not a part of \"%s\" on this node.",
								  member, get_rel_name(relid)));
	return table_open(member, RowShareLock);
}

/*
 * Finds the table with this OID among the tables that the locker has opened, or opens it. It must
 * be the locker's own table, or inherit from that.
 */
static Member *
find_member(RfRowLocker *locker, Oid table)
{
	MemoryContext caller;
	Member	   *member;
	ListCell   *lc;

	foreach(lc, locker->members)
	{
		member = lfirst(lc);
		if (RelationGetRelid(member->rel) == table)
			return member;
	}
	caller = MemoryContextSwitchTo(locker->context);
	member = palloc0_object(Member);
	member->rel = open_member(locker->relid, table, &locker->inheritors);
	if (member->rel->rd_rel->relkind == RELKIND_RELATION &&
		member->rel->rd_tableam == GetHeapamTableAmRoutine())
		member->slot = table_slot_create(member->rel, NULL);
	locker->members = lappend(locker->members, member);
	MemoryContextSwitchTo(caller);
	return member;
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
	char	   *schema = get_namespace_name(get_rel_namespace(relid));
	char	   *query = psprintf("SELECT FROM %s WHERE ctid OPERATOR(pg_catalog.=) $1 "
								 "AND tableoid OPERATOR(pg_catalog.=) $2",
								 quote_qualified_identifier(schema, get_rel_name(relid)));
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
lock_version(const RfRowLocker *locker, const Member *member, ItemPointer ctid)
{
	LockTupleMode mode = locker->delete ? LockTupleExclusive : LockTupleNoKeyExclusive;
	Relation	rel = member->rel;
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
		result = table_tuple_lock(rel, ctid, GetActiveSnapshot(), member->slot,
								  GetCurrentCommandId(false), mode, LockWaitBlock, 0, &failure);
	ReleaseBuffer(buffer);
	ExecClearTuple(member->slot);
	return allowed && (result == TM_Ok || result == TM_SelfModified);
}

void
rf_lock_row(RfRowLocker *locker, Oid table, ItemPointer ctid)
{
	if (locker->last == NULL || RelationGetRelid(locker->last->rel) != table)
		locker->last = find_member(locker, table);
	if (locker->last->slot != NULL && !lock_version(locker, locker->last, ctid))
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
	RfRowLocker *locker = rf_row_locker_create(PG_GETARG_OID(0), PG_GETARG_BOOL(3));

	rf_lock_row(locker, PG_GETARG_OID(1), (ItemPointer) PG_GETARG_POINTER(2));
	rf_row_locker_end(locker);
	PG_RETURN_VOID();
}

/*
 * True: a column of the row that is about to be written has the value that the writer has read.
 * Otherwise an ERROR. NULL is equal to NULL.
 */
Datum
rdma_is_key(PG_FUNCTION_ARGS)
{
	TypeCacheEntry *type = fcinfo->flinfo->fn_extra;
	bool		equal;

	if (type == NULL)
	{
		type = lookup_type_cache(get_fn_expr_argtype(fcinfo->flinfo, 0), TYPECACHE_EQ_OPR_FINFO);
		if (!OidIsValid(type->eq_opr_finfo.fn_oid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("could not identify an equality operator for type %s",
							format_type_be(type->type_id))));
		fcinfo->flinfo->fn_extra = type;
	}
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		equal = PG_ARGISNULL(0) && PG_ARGISNULL(1);
	else
		equal = DatumGetBool(FunctionCall2Coll(&type->eq_opr_finfo, PG_GET_COLLATION(),
											   PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
	if (!equal)
		refuse_misplaced(_("Another row is at its place (ctid) on this node."));
	PG_RETURN_BOOL(true);
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

/*
 * rdma_internal.lock_version(): locks the row of which the statement's snapshot shows a version at
 * this place, and notes where the row is then. False: there is no such version, or the row was
 * skipped.
 */
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
	List	   *inheritors = NIL;

	ItemPointerSetInvalid(&locked_place);
	check_reader(relid);
	rel = open_member(relid, PG_GETARG_OID(1), &inheritors);
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("rows of \"%s\" cannot be locked one by one", RelationGetRelationName(rel)),
				 errdetail("It is not a table that stores rows.")));
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
		locked_place = slot->tts_tid;
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	PG_RETURN_BOOL(ItemPointerIsValid(&locked_place));
}

Datum
rdma_locked_place(PG_FUNCTION_ARGS)
{
	ItemPointer place;

	if (!ItemPointerIsValid(&locked_place))
		PG_RETURN_NULL();
	place = palloc(sizeof(ItemPointerData));
	*place = locked_place;
	PG_RETURN_POINTER(place);
}
