/*
 * part_log.c - which parts of distributed transactions are prepared here, and which were committed
 * lately, with their transaction IDs. For readers that compare their snapshots:
 * compare_snapshots.c.
 *
 * Written by the backends that prepare a part, or finish it, under the lock; read under it. Parts
 * are found by PREPARE TRANSACTION and COMMIT PREPARED of names that coordinators give
 * (RF_GID_PREFIX). A backend whose PREPARE fails takes its part out. Parts from before a restart
 * come from pg_prepared_xacts. It lasts as long as the server runs; the oldest commit makes room.
 */
#include "postgres.h"

#include <inttypes.h>

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parse_func.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"
#include "base/clock.h"
#include "part_log.h"

#define LOCK_NAME		"rdma_fdw_part_log"

/*
 * Size of the ring of committed parts: how many may commit between a snapshot and its comparison.
 */
#define ENDED_PARTS		8192

/* So many may be committed between a snapshot and the function that looks where the log is. */
#define POSITION_SLACK	1024

typedef struct PartLog
{
	LWLock	   *lock;
	bool		recovered;		/* has the parts that were prepared before the server started, */
	int64		since_us;		/* since then; of earlier commits it knows nothing */

	/* The newest commit of each of the last two coordinators, the later one first. */
	uint64		newest[2];
	int64		newest_us[2];	/* 0 if no part was */

	uint64		ended_count;	/* since it began; the last ENDED_PARTS of them are in `ended`, a
								 * ring */
	int64		lost_us;		/* when the last one ended that is not; 0: all are */
	FullTransactionId lost_xid; /* the newest of those */
	int			prepared_count;
	RfTransactionPart *prepared;	/* prepared_limit() of them */
	RfTransactionPart ended[ENDED_PARTS];
} PartLog;

static PartLog *part_log = NULL;	/* NULL: the library was not preloaded */
static char asked_for[GIDSIZE] = "";	/* what this transaction is to be prepared as; "": not */
static uint64 preparing = 0;	/* the gid that this transaction is about to prepare; 0: none */

/* Each backend may be about to prepare one, or have committed one that is not moved yet. */
static int
prepared_limit(void)
{
	return max_prepared_xacts + MaxBackends;
}

static Size
log_size(void)
{
	return add_size(MAXALIGN(sizeof(PartLog)),
					mul_size(prepared_limit(), sizeof(RfTransactionPart)));
}

void
rf_part_log_shmem_request(void)
{
	RequestAddinShmemSpace(log_size());
	RequestNamedLWLockTranche(LOCK_NAME, 1);
}

void
rf_part_log_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	part_log = ShmemInitStruct("rdma_fdw part log", log_size(), &found);
	if (!found)
	{
		memset(part_log, 0, log_size());
		part_log->lock = &GetNamedLWLockTranche(LOCK_NAME)->lock;
		part_log->prepared = (RfTransactionPart *) ((char *) part_log + MAXALIGN(sizeof(PartLog)));
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ---------- the log; all under the lock ---------- */

static bool
parse_gid(const char *gid, RfTransactionPart *part)
{
	const char *end = strrchr(gid, '_');

	memset(part, 0, sizeof(*part));
	if (sscanf(gid, RF_GID_PREFIX "%16" SCNx64, &part->coordinator) != 1)
		return false;
	part->name = hash_bytes_extended((const unsigned char *) gid, end - gid, 0);
	part->gid = hash_bytes_extended((const unsigned char *) gid, strlen(gid), 0);
	return true;
}

static RfTransactionPart *
find_prepared(uint64 gid)
{
	for (int i = 0; i < part_log->prepared_count; i++)
	{
		if (part_log->prepared[i].gid == gid)
			return &part_log->prepared[i];
	}
	return NULL;
}

static void
remove_prepared(RfTransactionPart *part)
{
	*part = part_log->prepared[--part_log->prepared_count];
}

static void
add_prepared(const RfTransactionPart *part)
{
	RfTransactionPart *known = find_prepared(part->gid);

	if (known)
		*known = *part;
	else if (part_log->prepared_count < prepared_limit())
		part_log->prepared[part_log->prepared_count++] = *part;
}

static void
note_newest(const RfTransactionPart *part)
{
	if (part_log->newest[0] != part->coordinator)
	{
		part_log->newest[1] = part_log->newest[0];
		part_log->newest_us[1] = part_log->newest_us[0];
		part_log->newest[0] = part->coordinator;
	}
	part_log->newest_us[0] = part->ended_us;
}

static void
add_ended(const RfTransactionPart *part)
{
	RfTransactionPart *place = &part_log->ended[part_log->ended_count % ENDED_PARTS];

	if (part_log->ended_count >= ENDED_PARTS)
	{
		part_log->lost_us = place->ended_us;
		if (FullTransactionIdPrecedes(part_log->lost_xid, place->xid))
			part_log->lost_xid = place->xid;
	}
	*place = *part;
	part_log->ended_count++;
	note_newest(part);
}

/* ---------- parts prepared before the server started ---------- */

static FullTransactionId
widen(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

/*
 * The transaction ID of each, its name, when it was prepared, its database; for any search_path.
 */
#define RECOVER_SQL \
	"SELECT p.transaction, p.gid, p.prepared, d.oid" \
	" FROM pg_catalog.pg_prepared_xacts AS p JOIN pg_catalog.pg_database AS d" \
	" ON d.datname OPERATOR(pg_catalog.=) p.database" \
	" WHERE pg_catalog.starts_with(p.gid, '" RF_GID_PREFIX "')"

/*
 * The parts of transactions that are prepared now, from pg_prepared_xacts; allocated in the
 * caller's context.
 */
static RfTransactionPart *
read_prepared(int *count)
{
	MemoryContext caller = CurrentMemoryContext;
	int64		now = rf_now_us();
	TimestampTz wall = GetCurrentTimestamp();
	RfTransactionPart *parts;

	SPI_connect();
	if (SPI_execute(RECOVER_SQL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read pg_prepared_xacts");
	parts = MemoryContextAlloc(caller, sizeof(RfTransactionPart) * (SPI_processed + 1));
	*count = 0;
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		RfTransactionPart *part = &parts[*count];
		bool		isnull;

		if (!parse_gid(SPI_getvalue(row, desc, 2), part))
			continue;
		part->xid = widen(DatumGetTransactionId(SPI_getbinval(row, desc, 1, &isnull)));
		part->prepared_us = now -
			(wall - DatumGetTimestampTz(SPI_getbinval(row, desc, 3, &isnull)));
		part->database = DatumGetObjectId(SPI_getbinval(row, desc, 4, &isnull));
		++*count;
	}
	SPI_finish();
	return parts;
}

/*
 * Every backend that reads the log, or finishes a part, does this first. So nothing that was read
 * here has been finished by somebody who found no trace of it. A standby has the parts when it is
 * promoted.
 */
static void
recover(void)
{
	RfTransactionPart *parts;
	int			count;
	bool		done;

	LWLockAcquire(part_log->lock, LW_SHARED);
	done = part_log->recovered;
	LWLockRelease(part_log->lock);
	if (done || RecoveryInProgress())
		return;
	parts = read_prepared(&count);
	LWLockAcquire(part_log->lock, LW_EXCLUSIVE);
	if (!part_log->recovered)
	{
		for (int i = 0; i < count; i++)
			add_prepared(&parts[i]);
		part_log->since_us = rf_now_us();
		part_log->recovered = true;
	}
	LWLockRelease(part_log->lock);
	pfree(parts);
}

/* ---------- PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED ---------- */

static void
forget_preparing(void)
{
	RfTransactionPart *part;

	LWLockAcquire(part_log->lock, LW_EXCLUSIVE);
	part = find_prepared(preparing);
	if (part)
		remove_prepared(part);
	LWLockRelease(part_log->lock);
	preparing = 0;
}

/* May the caller prepare parts of transactions? False: the extension is not in this database. */
static bool
check_access(const char *gid)
{
	/* whatever its arguments: another list of them must not open this; core wants a pointer */
	Oid			store = LookupFuncName(list_make2(makeString("rdma_internal"), makeString("store")),
									   -1, (const Oid[]) {InvalidOid}, true);

	if (!OidIsValid(store))
		return false;
	if (rf_function_aclcheck(store, GetUserId()) != ACLCHECK_OK)
	{
		const char *role = quote_identifier(GetUserNameFromId(GetUserId(), false));

		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to prepare transaction \"%s\"", gid),
				 errdetail("Coordinators give such names to the parts of their transactions "
						   "over several nodes."),
				 errhint("A superuser can allow it in this database: "
						 "SELECT rdma.grant_access(%s, 'write').",
						 quote_literal_cstr(role))));
	}
	return true;
}

/* The transaction is about to be prepared. */
static void
add_part(const char *gid)
{
	RfTransactionPart part;
	bool		used;

	if (!check_access(gid) || !parse_gid(gid, &part))
		return;
	part.xid = GetTopFullTransactionIdIfAny();
	part.database = MyDatabaseId;
	part.prepared_us = rf_now_us();
	LWLockAcquire(part_log->lock, LW_EXCLUSIVE);
	used = find_prepared(part.gid) != NULL;
	if (!used)
		add_prepared(&part);
	LWLockRelease(part_log->lock);
	/* core would refuse it, too, but then the abort would take the other one out */
	if (used)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("transaction identifier \"%s\" is already in use", gid)));
	preparing = part.gid;
}

/*
 * Writes the part that the statement asked for when the transaction is prepared, and forgets it
 * when the transaction ends in another way.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (asked_for[0] != '\0')
				add_part(asked_for);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_COMMIT:
			if (preparing != 0)
				forget_preparing();
			__attribute__((fallthrough));
		case XACT_EVENT_PREPARE:
			preparing = 0;
			asked_for[0] = '\0';
			break;
		default:
			break;
	}
}

/* The statement only asks for it: it is done when the statement has ended. */
static void
will_prepare(const char *gid)
{
	static bool watching = false;
	RfTransactionPart part;

	if (!parse_gid(gid, &part) || IsAbortedTransactionBlockState())
		return;
	recover();
	if (!watching)
		RegisterXactCallback(at_transaction_end, NULL);
	watching = true;
	strlcpy(asked_for, gid, sizeof(asked_for));
}

void
rf_part_log_ended(const RfPreparedEnd *end)
{
	RfTransactionPart name;
	RfTransactionPart *part;

	if (end->gid == NULL || !parse_gid(end->gid, &name))
		return;
	LWLockAcquire(part_log->lock, LW_EXCLUSIVE);
	part = find_prepared(name.gid);
	if (part && end->commit)
	{
		part->ended_us = rf_now_us();
		add_ended(part);
	}
	if (part)
		remove_prepared(part);
	LWLockRelease(part_log->lock);
}

void
rf_part_log_begin(RfPreparedEnd *end, Node *statement)
{
	TransactionStmt *transaction = (TransactionStmt *) statement;

	end->gid = NULL;
	if (!IsA(statement, TransactionStmt) || part_log == NULL)
		return;
	if (transaction->kind == TRANS_STMT_PREPARE)
		will_prepare(transaction->gid);
	end->commit = transaction->kind == TRANS_STMT_COMMIT_PREPARED;
	if (!end->commit && transaction->kind != TRANS_STMT_ROLLBACK_PREPARED)
		return;
	end->gid = pstrdup(transaction->gid);
	recover();
}

/* ---------- readers' questions ---------- */

uint64
rf_part_log_position(void)
{
	uint64		position;

	if (part_log == NULL)
		return 0;
	LWLockAcquire(part_log->lock, LW_SHARED);
	position = part_log->ended_count;
	LWLockRelease(part_log->lock);
	return position;
}

int64
rf_part_log_others_age(uint64 coordinator)
{
	int64		ended_us;
	bool		prepared = false;

	if (part_log == NULL)
		return PG_INT64_MAX;
	recover();
	LWLockAcquire(part_log->lock, LW_SHARED);
	for (int i = 0; i < part_log->prepared_count && !prepared; i++)
		prepared = part_log->prepared[i].coordinator != coordinator &&
			part_log->prepared[i].database == MyDatabaseId;
	ended_us = part_log->newest_us[part_log->newest[0] == coordinator ? 1 : 0];
	LWLockRelease(part_log->lock);
	if (prepared)
		return 0;
	return ended_us == 0 ? PG_INT64_MAX : Max(rf_now_us() - ended_us, 1);
}

RfTransactionPart *
rf_part_log_collect(bool (*wanted) (const RfTransactionPart *part, const void *arg),
					const void *arg, int *count)
{
	RfTransactionPart *parts;
	uint64		ended;

	*count = 0;
	if (part_log == NULL)
		return palloc0(1);
	recover();
	parts = palloc(sizeof(RfTransactionPart) * (prepared_limit() + ENDED_PARTS));
	LWLockAcquire(part_log->lock, LW_SHARED);
	ended = Min(part_log->ended_count, ENDED_PARTS);
	for (int i = 0; i < part_log->prepared_count; i++)
	{
		if (part_log->prepared[i].database == MyDatabaseId && wanted(&part_log->prepared[i], arg))
			parts[(*count)++] = part_log->prepared[i];
	}
	for (uint64 i = 0; i < ended; i++)
	{
		if (part_log->ended[i].database == MyDatabaseId && wanted(&part_log->ended[i], arg))
			parts[(*count)++] = part_log->ended[i];
	}
	LWLockRelease(part_log->lock);
	return parts;
}

bool
rf_part_log_is_complete(Snapshot snapshot, uint64 position)
{
	uint64		lost;
	FullTransactionId lost_xid;

	if (part_log == NULL)
		return true;
	LWLockAcquire(part_log->lock, LW_SHARED);
	lost = part_log->ended_count > ENDED_PARTS ? part_log->ended_count - ENDED_PARTS : 0;
	lost_xid = part_log->lost_xid;
	LWLockRelease(part_log->lock);
	return lost == 0 || lost + POSITION_SLACK <= position ||
		TransactionIdPrecedes(XidFromFullTransactionId(lost_xid), snapshot->xmin);
}

bool
rf_part_log_reaches(int64 age)
{
	int64		since;

	if (part_log == NULL)
		return true;
	LWLockAcquire(part_log->lock, LW_SHARED);
	since = Max(part_log->since_us, part_log->lost_us);
	LWLockRelease(part_log->lock);
	return since < rf_now_us() - age - RF_PARTS_SLACK_US;
}
