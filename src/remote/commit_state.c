/*
 * commit_state.c - atomic commit: the messages of backends and the resolver to each other in shared
 * memory.
 *
 * The transactions that commit now, the parts that were left unfinished, and the databases that
 * have something to do. All of it but the numbers of active transactions is under one lock, which
 * is held for some hundred instructions. A crash restart empties it and begins another life;
 * transactions that were going on then are found in the tables and on the nodes, because every
 * database is asked once after a start.
 *
 * When there is no room for another unfinished part it is left out, and all nodes are asked
 * instead.
 */
#include "postgres.h"

#include <inttypes.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "rdma_fdw/compat.h"
#include "shmem/layout.h"

#include "commit.h"
#include "gate.h"

#define RF_COMMIT_LOCK		"rdma_fdw_commit"
#define RF_MAX_UNRESOLVED	512
#define RF_MAX_DATABASES	1024

typedef struct RfCommitShared
{
	LWLock	   *lock;
	TimestampTz start;			/* of this life */
	pg_atomic_uint64 last_number;
	int			launcher;		/* its place among the processes, or -1 */
	int			unresolved_count;
	RfUnresolved unresolved[RF_MAX_UNRESOLVED];
	int			database_count;
	RfCommitWork databases[RF_MAX_DATABASES];

	/*
	 * By process: the number of the transaction whose parts it prepares, commits or rolls back; 0
	 * without such a transaction. Written by that process alone: set before the first part is
	 * prepared, cleared after the last is finished or in `unresolved`. The resolver reads it
	 * without the lock. A process that finds a part prepared first, then its number gone, and then
	 * looks for the row, finds the row if the transaction has committed.
	 */
	pg_atomic_uint64 active[FLEXIBLE_ARRAY_MEMBER];
} RfCommitShared;

static RfCommitShared *state = NULL;
static bool exit_registered = false;

static Size
state_size(void)
{
	return add_size(offsetof(RfCommitShared, active),
					mul_size(MaxBackends, sizeof(pg_atomic_uint64)));
}

void
rf_commit_shmem_request(void)
{
	RequestAddinShmemSpace(state_size());
	RequestNamedLWLockTranche(RF_COMMIT_LOCK, 1);
}

void
rf_commit_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	state = ShmemInitStruct("rdma_fdw commit", state_size(), &found);
	if (!found)
	{
		memset(state, 0, offsetof(RfCommitShared, active));
		state->lock = &GetNamedLWLockTranche(RF_COMMIT_LOCK)->lock;
		state->launcher = -1;
		state->start = GetCurrentTimestamp();
		pg_atomic_init_u64(&state->last_number, 0);
		for (int i = 0; i < MaxBackends; i++)
			pg_atomic_init_u64(&state->active[i], 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

bool
rf_commit_available(void)
{
	return state != NULL;
}

uint64
rf_commit_life(void)
{
	return rf_shared->node.words[0];
}

TimestampTz
rf_commit_life_start(void)
{
	return state->start;
}

/* ---------- names ---------- */

void
rf_gid_print(const RfGid *gid, char *text)
{
	snprintf(text, RF_GID_SIZE, RF_GID_PREFIX "%016" PRIx64 "_%u_%016" PRIx64 "_%" PRIu64 "_%u",
			 gid->cluster, gid->database, gid->life, gid->number, gid->part);
}

char *
rf_gid_prefix(void)
{
	return psprintf(RF_GID_PREFIX "%016" PRIx64 "_%u_", GetSystemIdentifier(),
					MyDatabaseId);
}

bool
rf_gid_parse(const char *text, RfGid *gid)
{
	char		again[RF_GID_SIZE];

	if (sscanf(text, RF_GID_PREFIX "%16" SCNx64 "_%u_%16" SCNx64 "_%20" SCNu64 "_%u",
			   &gid->cluster, &gid->database, &gid->life, &gid->number, &gid->part) != 5)
		return false;
	rf_gid_print(gid, again);
	return strcmp(text, again) == 0 && gid->cluster == GetSystemIdentifier() &&
		gid->database == MyDatabaseId;
}

/* ---------- databases; all under the lock ---------- */

/* NULL: there is no room for another. */
static RfCommitWork *
find_database(Oid database, bool make)
{
	RfCommitWork *work;

	for (int i = 0; i < state->database_count; i++)
	{
		if (state->databases[i].database == database)
			return &state->databases[i];
	}
	if (!make || state->database_count == RF_MAX_DATABASES)
		return NULL;
	work = &state->databases[state->database_count++];
	memset(work, 0, sizeof(*work));
	work->database = database;
	return work;
}

static void
wake_launcher(void)
{
	if (state->launcher >= 0)
		SetLatch(rf_proc_latch(state->launcher));
}

static bool
has_unresolved(Oid database)
{
	for (int i = 0; i < state->unresolved_count; i++)
	{
		if (state->unresolved[i].database == database)
			return true;
	}
	return false;
}

/* ---------- backends ---------- */

static void
at_exit(int code, Datum arg)
{
	rf_commit_end();
}

uint64
rf_commit_begin(void)
{
	RfCommitWork *work;
	uint64		number;

	if (!exit_registered)
		on_shmem_exit(at_exit, (Datum) 0);
	exit_registered = true;

	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	work = find_database(MyDatabaseId, true);
	LWLockRelease(state->lock);
	if (work == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("more than %d databases commit on several nodes", RF_MAX_DATABASES),
				 errhint("Set rdma_fdw.commit to best_effort, or restart the server, "
						 "which forgets databases that were dropped.")));
	number = pg_atomic_add_fetch_u64(&state->last_number, 1);
	pg_atomic_write_u64(&state->active[rf_my_proc_number()], number);
	pg_memory_barrier();
	return number;
}

void
rf_commit_written(void)
{
	RfCommitWork *work;

	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	work = find_database(MyDatabaseId, true);
	if (work != NULL && !work->rows)
	{
		work->rows = true;
		wake_launcher();
	}
	LWLockRelease(state->lock);
}

/* Under the lock: an entry, new if it is not there. NULL: no room, and all nodes will be asked. */
static RfUnresolved *
add_unresolved(const RfUnresolved *part)
{
	RfCommitWork *work;

	for (int i = 0; i < state->unresolved_count; i++)
	{
		RfUnresolved *other = &state->unresolved[i];

		if (strcmp(other->gid, part->gid) == 0 && other->database == part->database &&
			other->serverid == part->serverid && other->userid == part->userid)
			return other;
	}
	work = find_database(part->database, true);
	if (state->unresolved_count == RF_MAX_UNRESOLVED)
	{
		if (work != NULL)
			work->ask_all = true;
		return NULL;
	}
	state->unresolved[state->unresolved_count] = *part;
	return &state->unresolved[state->unresolved_count++];
}

void
rf_commit_unresolved(Oid serverid, Oid userid, uint64 node, const char *gid, bool commit)
{
	RfUnresolved part;

	memset(&part, 0, sizeof(part));
	part.database = MyDatabaseId;
	part.serverid = serverid;
	part.userid = userid;
	part.node = node;
	part.commit = commit;
	part.since = GetCurrentTimestamp();
	strlcpy(part.gid, gid, sizeof(part.gid));
	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	(void) add_unresolved(&part);
	wake_launcher();
	LWLockRelease(state->lock);
}

void
rf_commit_end(void)
{
	if (state == NULL || MyProc == NULL)
		return;
	pg_memory_barrier();
	pg_atomic_write_u64(&state->active[rf_my_proc_number()], 0);
}

/* ---------- the resolver ---------- */

bool
rf_commit_is_active(const RfGid *gid)
{
	pg_memory_barrier();
	if (gid->life != rf_commit_life())
		return false;
	for (int i = 0; i < MaxBackends; i++)
	{
		if (pg_atomic_read_u64(&state->active[i]) == gid->number)
			return true;
	}
	pg_memory_barrier();
	return false;
}

bool
rf_commit_in_doubt_on(const uint64 *nodes, int count)
{
	bool		found = false;

	if (state == NULL)
		return false;
	LWLockAcquire(state->lock, LW_SHARED);
	/* if all places are taken a process may have found no place */
	found = state->unresolved_count == RF_MAX_UNRESOLVED;
	for (int i = 0; i < state->unresolved_count && !found; i++)
	{
		RfUnresolved *part = &state->unresolved[i];

		for (int k = 0; k < count && part->commit && !found; k++)
			found = part->node == nodes[k];
	}
	LWLockRelease(state->lock);
	return found;
}

bool
rf_commit_past_is_over(void)
{
	RfCommitWork *work;
	bool		over;

	if (state == NULL)
		return true;
	LWLockAcquire(state->lock, LW_SHARED);
	work = find_database(MyDatabaseId, false);
	over = work != NULL && work->past_is_over;
	LWLockRelease(state->lock);
	return over;
}

void
rf_commit_past_over(void)
{
	RfCommitWork *work;

	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	work = find_database(MyDatabaseId, true);
	if (work != NULL)
		work->past_is_over = true;
	LWLockRelease(state->lock);
}

int
rf_commit_list(RfUnresolved **list)
{
	int			count = 0;

	*list = NULL;
	if (state == NULL)
		return 0;
	*list = palloc(sizeof(RfUnresolved) * RF_MAX_UNRESOLVED);
	LWLockAcquire(state->lock, LW_SHARED);
	for (int i = 0; i < state->unresolved_count; i++)
	{
		if (state->unresolved[i].database == MyDatabaseId)
			(*list)[count++] = state->unresolved[i];
	}
	LWLockRelease(state->lock);
	return count;
}

void
rf_commit_resolved(const char *gid)
{
	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	for (int i = 0; i < state->unresolved_count; i++)
	{
		if (strcmp(state->unresolved[i].gid, gid) == 0)
		{
			state->unresolved[i] = state->unresolved[--state->unresolved_count];
			break;
		}
	}
	LWLockRelease(state->lock);
	rf_gate_finished();
}

void
rf_commit_asked(Oid serverid, Oid userid, bool gone)
{
	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	for (int i = 0; i < state->unresolved_count;)
	{
		RfUnresolved *part = &state->unresolved[i];

		if (part->database == MyDatabaseId && part->serverid == serverid &&
			part->userid == userid && (gone || part->gid[0] == '\0'))
			*part = state->unresolved[--state->unresolved_count];
		else
			i++;
	}
	LWLockRelease(state->lock);
}

bool
rf_commit_is_unresolved(Oid database)
{
	bool		found = false;

	LWLockAcquire(state->lock, LW_SHARED);
	for (int i = 0; i < state->unresolved_count && !found; i++)
		found = state->unresolved[i].database == database && state->unresolved[i].gid[0] != '\0';
	LWLockRelease(state->lock);
	return found;
}

void
rf_commit_forget_database(Oid database)
{
	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	for (int i = 0; i < state->unresolved_count;)
	{
		if (state->unresolved[i].database == database)
			state->unresolved[i] = state->unresolved[--state->unresolved_count];
		else
			i++;
	}
	for (int i = 0; i < state->database_count; i++)
	{
		if (state->databases[i].database == database)
		{
			state->databases[i] = state->databases[--state->database_count];
			break;
		}
	}
	LWLockRelease(state->lock);
	rf_gate_finished();
}

void
rf_commit_problem(const RfUnresolved *part, const char *problem)
{
	RfUnresolved *entry;

	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	entry = add_unresolved(part);
	if (entry != NULL)
		strlcpy(entry->problem, problem, sizeof(entry->problem));
	LWLockRelease(state->lock);
}

void
rf_commit_launcher(bool here)
{
	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	state->launcher = here ? rf_my_proc_number() : -1;
	LWLockRelease(state->lock);
}

int
rf_commit_work(RfCommitWork **list)
{
	int			count = 0;

	*list = palloc(sizeof(RfCommitWork) * RF_MAX_DATABASES);
	LWLockAcquire(state->lock, LW_SHARED);
	for (int i = 0; i < state->database_count; i++)
	{
		RfCommitWork work = state->databases[i];

		work.unresolved = has_unresolved(work.database);
		if (work.ask_all || work.rows || work.unresolved)
			(*list)[count++] = work;
	}
	LWLockRelease(state->lock);
	return count;
}

void
rf_commit_ask_all(Oid database)
{
	RfCommitWork *work;

	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	work = find_database(database, true);
	if (work != NULL)
		work->ask_all = true;
	LWLockRelease(state->lock);
}

void
rf_commit_take(RfCommitWork *work)
{
	RfCommitWork *entry;

	memset(work, 0, sizeof(*work));
	LWLockAcquire(state->lock, LW_EXCLUSIVE);
	entry = find_database(MyDatabaseId, false);
	if (entry != NULL)
	{
		*work = *entry;
		entry->ask_all = entry->rows = false;
	}
	LWLockRelease(state->lock);
}
