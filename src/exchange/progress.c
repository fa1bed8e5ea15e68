/*
 * progress.c
 * 	The current moves of this server: rdma.stat_moves.
 *
 * A process that moves rows says in shared memory which step it is at. The SQL functions that move
 * rows call the rdma_internal.note_... functions for that; how many rows have left is counted where
 * they leave (rf_load_watch). A move's entry ends with its transaction, or the subtransaction in
 * which it began. The entry of a command that consists of many moves outlives their commits, and
 * ends with the first abort, with the process, or when the command says so. So nothing is left in
 * any case.
 *
 * Without the library in shared_preload_libraries nothing is noted, and there is nothing to see.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/steps.h"
#include "base/result_row.h"

#include "enroll.h"

PG_FUNCTION_INFO_V1(rdma_note_job);
PG_FUNCTION_INFO_V1(rdma_note_move);
PG_FUNCTION_INFO_V1(rdma_note_phase);
PG_FUNCTION_INFO_V1(rdma_stat_moves);

#define RF_MOVES_LOCK	"rdma_fdw_moves"
#define RF_PHASE_SIZE	32

/* Two quoted names and a dot, if no byte of them has to be escaped; more is cut. */
#define RF_RELATION_SIZE	(2 * NAMEDATALEN + 4)

/* The move of one process. Written by that process alone; all but the counters under the lock. */
typedef struct MoveEntry
{
	int			pid;			/* 0: nothing */
	Oid			database;
	Oid			role;
	bool		job;			/* a command of many moves */
	bool		moving;			/* a move has begun: the fields from `source` on are its */
	char		server[NAMEDATALEN];
	char		command[RF_PHASE_SIZE];
	char		phase[RF_PHASE_SIZE];
	TimestampTz started;
	int64		moves;			/* of the job, that have committed */
	int64		earlier_rows;	/* of these */
	int64		earlier_bytes;
	int			buckets_left;	/* when the move began, its own included; -1: not known */

	char		source[NAMEDATALEN];
	char		target[NAMEDATALEN];
	int			buckets;		/* that move; -1: it is not about buckets */
	int			first_bucket;
	int			last_bucket;
	char		relation[RF_RELATION_SIZE];
	int64		estimated_rows; /* -1: not known */
	TimestampTz move_started;

	/* without the lock: sent by this move */
	pg_atomic_uint64 rows;
	pg_atomic_uint64 bytes;
} MoveEntry;

typedef struct MovesShared
{
	LWLock	   *lock;
	MoveEntry	entries[FLEXIBLE_ARRAY_MEMBER];
} MovesShared;

static MovesShared *moves = NULL;
static bool callbacks_registered = false;

/* The subtransaction in which the move of this process began. */
static SubTransactionId move_level = InvalidSubTransactionId;

static Size
moves_size(void)
{
	return add_size(offsetof(MovesShared, entries), mul_size(MaxBackends, sizeof(MoveEntry)));
}

void
rf_moves_shmem_request(void)
{
	RequestAddinShmemSpace(moves_size());
	RequestNamedLWLockTranche(RF_MOVES_LOCK, 1);
}

void
rf_moves_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	moves = ShmemInitStruct("rdma_fdw moves", moves_size(), &found);
	if (!found)
	{
		memset(moves, 0, moves_size());
		moves->lock = &GetNamedLWLockTranche(RF_MOVES_LOCK)->lock;
		for (int i = 0; i < MaxBackends; i++)
		{
			pg_atomic_init_u64(&moves->entries[i].rows, 0);
			pg_atomic_init_u64(&moves->entries[i].bytes, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ---------- the process that moves ---------- */

static MoveEntry *
my_entry(void)
{
	return moves != NULL && MyProc != NULL ? &moves->entries[rf_my_proc_number()] : NULL;
}

/* The move has ended, or it and the command that it is one of. Raises no error. */
static void
end_move(bool done, bool job_too)
{
	MoveEntry  *entry = my_entry();

	rf_load_watch(NULL, NULL);
	move_level = InvalidSubTransactionId;
	if (entry == NULL || entry->pid == 0)
		return;
	LWLockAcquire(moves->lock, LW_EXCLUSIVE);
	if (entry->moving && done)
	{
		entry->moves++;
		entry->earlier_rows += (int64) pg_atomic_read_u64(&entry->rows);
		entry->earlier_bytes += (int64) pg_atomic_read_u64(&entry->bytes);
	}
	entry->moving = false;
	pg_atomic_write_u64(&entry->rows, 0);
	pg_atomic_write_u64(&entry->bytes, 0);
	if (job_too || !entry->job)
		entry->pid = 0;
	LWLockRelease(moves->lock);
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	MoveEntry  *entry = my_entry();

	if (entry == NULL || entry->pid == 0)
		return;
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		end_move(false, true);
	else if (event == XACT_EVENT_COMMIT && (entry->moving || !entry->job))
		end_move(true, false);
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (move_level != mine)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		end_move(false, false);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		move_level = parent;
}

static void
at_exit(int code, Datum arg)
{
	end_move(false, true);
}

/* At most `size` - 1 bytes of whole characters. */
static void
copy_text(char *target, const char *value, int size)
{
	int			length = pg_mbcliplen(value, strlen(value), size - 1);

	memcpy(target, value, length);
	target[length] = '\0';
}

/*
 * This process's entry, locked, of that server: the entry of its command, or a new one. NULL:
 * nothing can be noted. ERROR unless the caller owns the server, as only the owner may move rows.
 */
static MoveEntry *
lock_entry(const char *name, const char *command)
{
	ForeignServer *server = GetForeignServerByName(name, false);
	MoveEntry  *entry = my_entry();
	TimestampTz now = GetCurrentTimestamp();

	if (!rf_server_ownercheck(server->serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	if (entry == NULL)
		return NULL;
	if (!callbacks_registered)
	{
		RegisterXactCallback(at_transaction_end, NULL);
		RegisterSubXactCallback(at_subtransaction_end, NULL);
		on_shmem_exit(at_exit, (Datum) 0);
		callbacks_registered = true;
	}
	LWLockAcquire(moves->lock, LW_EXCLUSIVE);
	if (entry->pid == 0 || strcmp(entry->server, name) != 0)
	{
		entry->database = MyDatabaseId;
		entry->role = GetUserId();
		entry->job = entry->moving = false;
		strlcpy(entry->server, name, sizeof(entry->server));
		copy_text(entry->command, command, sizeof(entry->command));
		entry->phase[0] = '\0';
		entry->started = now;
		entry->moves = entry->earlier_rows = entry->earlier_bytes = 0;
		entry->buckets_left = -1;
		pg_atomic_write_u64(&entry->rows, 0);
		pg_atomic_write_u64(&entry->bytes, 0);
		entry->pid = MyProcPid;
	}
	return entry;
}

static const char *
server_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the server must not be null")));
	return NameStr(*PG_GETARG_NAME(0));
}

static char *
text_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

/*
 * rdma_internal.note_job(server, command, buckets_left): this process begins, or goes on with, a
 * command of many moves, each a transaction; with command NULL it has ended.
 */
Datum
rdma_note_job(PG_FUNCTION_ARGS)
{
	char	   *command = text_argument(fcinfo, 1);
	MoveEntry  *entry;

	if (command == NULL)
	{
		end_move(false, true);
		PG_RETURN_VOID();
	}
	entry = lock_entry(server_argument(fcinfo), command);
	if (entry == NULL)
		PG_RETURN_VOID();
	entry->job = true;
	entry->buckets_left = PG_ARGISNULL(2) ? -1 : PG_GETARG_INT32(2);
	strlcpy(entry->phase, "choosing", sizeof(entry->phase));
	LWLockRelease(moves->lock);
	PG_RETURN_VOID();
}

/* The number of buckets, and the lowest and highest of them; -1 if they are not named. */
static int
bucket_range(FunctionCallInfo fcinfo, int number, int *first, int *last)
{
	Datum	   *values;
	bool	   *nulls;
	int			count;

	*first = *last = -1;
	if (PG_ARGISNULL(number))
		return -1;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(number), INT4OID, sizeof(int32), true, TYPALIGN_INT,
					  &values, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			continue;
		*first = *first < 0 ? DatumGetInt32(values[i]) : Min(*first, DatumGetInt32(values[i]));
		*last = Max(*last, DatumGetInt32(values[i]));
	}
	return count;
}

/*
 * rdma_internal.note_move(server, command, source, target, moved): a move begins, which waits for
 * locks first. The command is the function's name if it is not part of a job.
 */
Datum
rdma_note_move(PG_FUNCTION_ARGS)
{
	char	   *command = PG_ARGISNULL(1) ? "" : text_argument(fcinfo, 1);
	int			first;
	int			last;
	int			buckets = bucket_range(fcinfo, 4, &first, &last);
	TimestampTz now = GetCurrentTimestamp();
	MoveEntry  *entry = lock_entry(server_argument(fcinfo), command);

	if (entry == NULL)
		PG_RETURN_VOID();
	if (!entry->job)
	{
		copy_text(entry->command, command, sizeof(entry->command));
		entry->started = now;
	}
	strlcpy(entry->phase, "waiting for locks", sizeof(entry->phase));
	strlcpy(entry->source, PG_ARGISNULL(2) ? "" : NameStr(*PG_GETARG_NAME(2)),
			sizeof(entry->source));
	strlcpy(entry->target, PG_ARGISNULL(3) ? "" : NameStr(*PG_GETARG_NAME(3)),
			sizeof(entry->target));
	entry->buckets = buckets;
	entry->first_bucket = first;
	entry->last_bucket = last;
	entry->relation[0] = '\0';
	entry->estimated_rows = -1;
	entry->move_started = now;
	entry->moving = true;
	pg_atomic_write_u64(&entry->rows, 0);
	pg_atomic_write_u64(&entry->bytes, 0);
	LWLockRelease(moves->lock);
	move_level = GetCurrentSubTransactionId();
	PG_RETURN_VOID();
}

/*
 * rdma_internal.note_phase(phase, relation, estimated_rows): its current phase, and the table on
 * the nodes. Rows that leave in the phase "copying" are counted. An estimate of NULL changes
 * nothing.
 */
Datum
rdma_note_phase(PG_FUNCTION_ARGS)
{
	char	   *phase = PG_ARGISNULL(0) ? "" : text_argument(fcinfo, 0);
	char	   *relation = text_argument(fcinfo, 1);
	MoveEntry  *entry = my_entry();
	bool		copying = strcmp(phase, "copying") == 0;
	bool		moving;

	if (entry == NULL || entry->pid == 0)
		PG_RETURN_VOID();
	LWLockAcquire(moves->lock, LW_EXCLUSIVE);
	copy_text(entry->phase, phase, sizeof(entry->phase));
	copy_text(entry->relation, relation != NULL ? relation : "", sizeof(entry->relation));
	if (!PG_ARGISNULL(2))
		entry->estimated_rows = PG_GETARG_INT64(2);
	moving = entry->moving;
	LWLockRelease(moves->lock);
	copying = copying && moving;
	if (moving && rf_step_hook != NULL)
		rf_step(psprintf("move_%s", phase), 0);
	rf_load_watch(copying ? &entry->rows : NULL, copying ? &entry->bytes : NULL);
	PG_RETURN_VOID();
}

/* ---------- readers of the moves ---------- */

/*
 * Adds the columns of one entry to a row of rdma.stat_moves; columns about a move are NULL between
 * moves.
 */
static void
put_entry(RfRow *row, const MoveEntry *entry, int64 rows, int64 bytes)
{
	bool		moving = entry->moving;

	rf_put_text(row, entry->server);
	rf_put_text(row, entry->command);
	rf_put_text(row, entry->phase);
	rf_put_text(row, moving ? entry->source : "");
	rf_put_text(row, moving ? entry->target : "");
	rf_put_if(row, moving && entry->buckets >= 0, Int32GetDatum(entry->buckets));
	rf_put_if(row, moving && entry->first_bucket >= 0, Int32GetDatum(entry->first_bucket));
	rf_put_if(row, moving && entry->last_bucket >= 0, Int32GetDatum(entry->last_bucket));
	rf_put_text(row, moving ? entry->relation : "");
	rf_put_if(row, moving, Int64GetDatum(rows));
	rf_put_if(row, moving, Int64GetDatum(bytes));
	rf_put_if(row, moving && entry->estimated_rows >= 0, Int64GetDatum(entry->estimated_rows));
	rf_put_if(row, moving, TimestampTzGetDatum(entry->move_started));
	rf_put_number(row, entry->moves);
	rf_put_number(row, entry->earlier_rows + rows);
	rf_put_number(row, entry->earlier_bytes + bytes);
	rf_put_if(row, entry->buckets_left >= 0, Int32GetDatum(entry->buckets_left));
}

/*
 * rdma_internal.stat_moves(): moves of this database; without privileges on the role, it shows only
 * that one is running
 */
Datum
rdma_stat_moves(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	bool		sees_all = is_member_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; moves != NULL && i < MaxBackends; i++)
	{
		MoveEntry  *shared = &moves->entries[i];
		MoveEntry	entry;
		int64		rows;
		int64		bytes;

		LWLockAcquire(moves->lock, LW_SHARED);
		memcpy(&entry, shared, offsetof(MoveEntry, rows));
		rows = (int64) pg_atomic_read_u64(&shared->rows);
		bytes = (int64) pg_atomic_read_u64(&shared->bytes);
		LWLockRelease(moves->lock);
		if (entry.pid == 0 || entry.database != MyDatabaseId)
			continue;
		rf_put_int(&row, entry.pid);
		rf_put(&row, ObjectIdGetDatum(entry.role));
		if (sees_all || has_privs_of_role(GetUserId(), entry.role))
			put_entry(&row, &entry, rows, bytes);
		rf_end_row(&row);
	}
	return (Datum) 0;
}
