/*
 * waiting.c - backends publish in shared memory which nodes they are connected with, and whether
 * they wait for one.
 *
 * A backend writes when it connects and once for each wait. A wait takes no lock, and wakes the
 * launcher only if that sleeps. So an idle server does nothing, and a busy one reads this memory
 * twice a second.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "rdma_fdw/compat.h"
#include "waiting.h"

#define RF_WAITING_LOCK		"rdma_fdw_waiting"
#define RF_LOOK_MS			500

/* The slot of one process. */
typedef struct WaiterSlot
{
	/* by the process itself, under the lock: */
	int			pid;			/* 0: no connections */
	Oid			database;
	int			session_count;
	RfWaitingSession sessions[RF_WAITING_SESSIONS];

	/* by the process itself, without it; `started` is stored first, and valid while `since` is */
	pg_atomic_uint64 started;
	pg_atomic_uint64 since;

	/*
	 * by the process that chose it, under the lock: the wait that is to end, or 0; cleared by its
	 * owner
	 */
	pg_atomic_uint64 victim;
	char		detail[RF_DEADLOCK_DETAIL];
} WaiterSlot;

typedef struct WaitingShared
{
	LWLock	   *lock;
	pg_atomic_uint32 sleeper;	/* 1 + the launcher's place if it sleeps until somebody waits; else
								 * 0 */
	WaiterSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} WaitingShared;

static WaitingShared *waiting = NULL;
static bool exit_registered = false;

static Size
waiting_size(void)
{
	return add_size(offsetof(WaitingShared, slots), mul_size(MaxBackends, sizeof(WaiterSlot)));
}

void
rf_waiting_shmem_request(void)
{
	RequestAddinShmemSpace(waiting_size());
	RequestNamedLWLockTranche(RF_WAITING_LOCK, 1);
}

void
rf_waiting_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	waiting = ShmemInitStruct("rdma_fdw waiting", waiting_size(), &found);
	if (!found)
	{
		memset(waiting, 0, waiting_size());
		waiting->lock = &GetNamedLWLockTranche(RF_WAITING_LOCK)->lock;
		pg_atomic_init_u32(&waiting->sleeper, 0);
		for (int i = 0; i < MaxBackends; i++)
		{
			pg_atomic_init_u64(&waiting->slots[i].started, 0);
			pg_atomic_init_u64(&waiting->slots[i].since, 0);
			pg_atomic_init_u64(&waiting->slots[i].victim, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ---------- the backend ---------- */

static WaiterSlot *
my_slot(void)
{
	return waiting != NULL && MyProc != NULL ? &waiting->slots[rf_my_proc_number()] : NULL;
}

static void
at_exit(int code, Datum arg)
{
	WaiterSlot *slot = my_slot();

	LWLockAcquire(waiting->lock, LW_EXCLUSIVE);
	slot->pid = 0;
	slot->session_count = 0;
	pg_atomic_write_u64(&slot->since, 0);
	pg_atomic_write_u64(&slot->victim, 0);
	LWLockRelease(waiting->lock);
}

void
rf_waiting_connected(const RfWaitingSession *session)
{
	WaiterSlot *slot = my_slot();

	if (slot == NULL)
		return;
	if (!exit_registered)
		on_shmem_exit(at_exit, (Datum) 0);
	exit_registered = true;
	LWLockAcquire(waiting->lock, LW_EXCLUSIVE);
	slot->pid = MyProcPid;
	slot->database = MyDatabaseId;
	if (slot->session_count < RF_WAITING_SESSIONS)
		slot->sessions[slot->session_count++] = *session;
	LWLockRelease(waiting->lock);
}

void
rf_waiting_disconnected(uint64 cluster, int remote_pid)
{
	WaiterSlot *slot = my_slot();

	if (slot == NULL)
		return;
	LWLockAcquire(waiting->lock, LW_EXCLUSIVE);
	for (int i = 0; i < slot->session_count; i++)
	{
		if (slot->sessions[i].cluster == cluster && slot->sessions[i].remote_pid == remote_pid)
		{
			slot->sessions[i] = slot->sessions[--slot->session_count];
			break;
		}
	}
	LWLockRelease(waiting->lock);
}

void
rf_waiting_begin(void)
{
	WaiterSlot *slot = my_slot();
	uint32		sleeper;

	if (slot == NULL || pg_atomic_read_u64(&slot->since) != 0)
		return;
	pg_atomic_write_u64(&slot->started, (uint64) GetCurrentTransactionStartTimestamp());
	pg_write_barrier();
	pg_atomic_write_u64(&slot->since, (uint64) GetCurrentTimestamp());
	pg_memory_barrier();		/* the launcher announces its sleep before it examines us */
	sleeper = pg_atomic_read_u32(&waiting->sleeper);
	if (sleeper != 0)
		SetLatch(rf_proc_latch(sleeper - 1));
}

void
rf_waiting_end(void)
{
	WaiterSlot *slot = my_slot();

	if (slot != NULL)
		pg_atomic_write_u64(&slot->since, 0);
}

void
rf_waiting_check(void)
{
	WaiterSlot *slot = my_slot();
	uint64		since;
	char		detail[RF_DEADLOCK_DETAIL];

	if (slot == NULL || pg_atomic_read_u64(&slot->victim) == 0)
		return;
	LWLockAcquire(waiting->lock, LW_EXCLUSIVE);
	since = pg_atomic_exchange_u64(&slot->victim, 0);
	strlcpy(detail, slot->detail, sizeof(detail));
	LWLockRelease(waiting->lock);
	if (since != pg_atomic_read_u64(&slot->since))
		return;					/* that wait has ended */
	rf_waiting_end();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail_internal("%s", detail),
			 errhint("The view rdma.locks shows which backend waits for which.")));
}

/* ---------- the processes that look ---------- */

static bool
is_long(TimestampTz since)
{
	return since != 0 && TimestampDifferenceExceeds(since, GetCurrentTimestamp(), DeadlockTimeout);
}

bool
rf_waiting_is_long(const RfWaiter *waiter)
{
	return is_long(waiter->since);
}

int
rf_waiting_databases(Oid **databases, long *look_again_ms)
{
	int			count = 0;
	bool		anybody = false;

	*databases = palloc(sizeof(Oid) * MaxBackends);
	pg_atomic_write_u32(&waiting->sleeper, rf_my_proc_number() + 1);
	pg_memory_barrier();
	LWLockAcquire(waiting->lock, LW_SHARED);
	for (int i = 0; i < MaxBackends; i++)
	{
		WaiterSlot *slot = &waiting->slots[i];
		TimestampTz since = (TimestampTz) pg_atomic_read_u64(&slot->since);
		bool		known = false;

		anybody |= since != 0;

		/*
		 * a backend that waits for its first connection keeps nobody waiting on a node, and has no
		 * database here yet
		 */
		if (slot->session_count == 0 || !is_long(since))
			continue;
		for (int k = 0; k < count; k++)
			known |= (*databases)[k] == slot->database;
		if (!known)
			(*databases)[count++] = slot->database;
	}
	LWLockRelease(waiting->lock);
	if (anybody)
		pg_atomic_write_u32(&waiting->sleeper, 0);
	*look_again_ms = anybody ? RF_LOOK_MS : -1;
	return count;
}

int
rf_waiting_list(RfWaiter **waiters)
{
	int			count = 0;

	*waiters = palloc(sizeof(RfWaiter) * MaxBackends);
	LWLockAcquire(waiting->lock, LW_SHARED);
	for (int i = 0; i < MaxBackends; i++)
	{
		WaiterSlot *slot = &waiting->slots[i];
		RfWaiter   *waiter = &(*waiters)[count];

		if (slot->pid == 0 || slot->database != MyDatabaseId || slot->session_count == 0)
			continue;
		waiter->procno = i;
		waiter->pid = slot->pid;
		waiter->since = (TimestampTz) pg_atomic_read_u64(&slot->since);
		pg_read_barrier();
		waiter->started = (TimestampTz) pg_atomic_read_u64(&slot->started);
		waiter->session_count = slot->session_count;
		waiter->sessions = palloc(sizeof(RfWaitingSession) * slot->session_count);
		memcpy(waiter->sessions, slot->sessions, sizeof(RfWaitingSession) * slot->session_count);
		count++;
	}
	LWLockRelease(waiting->lock);
	return count;
}

void
rf_waiting_cancel(const RfWaiter *waiter, const char *detail)
{
	WaiterSlot *slot = &waiting->slots[waiter->procno];

	LWLockAcquire(waiting->lock, LW_EXCLUSIVE);
	if (slot->pid == waiter->pid && (TimestampTz) pg_atomic_read_u64(&slot->since) == waiter->since)
	{
		strlcpy(slot->detail, detail, sizeof(slot->detail));
		pg_atomic_write_u64(&slot->victim, (uint64) waiter->since);
		SetLatch(rf_proc_latch(waiter->procno));
	}
	LWLockRelease(waiting->lock);
}
