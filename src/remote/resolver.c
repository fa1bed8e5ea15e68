/*
 * resolver.c - finishes in the background the parts that transactions over several nodes left
 * prepared.
 *
 * A launcher, which the postmaster restarts when it ends, starts a worker for each database that
 * has work. A worker examines its database once and ends, so that databases can be dropped. After a
 * start the launcher examines every database once, and all nodes that its users have mappings for,
 * because nobody here may know which parts a crash left prepared. Later there is work when a
 * backend left a part, when a node could not be asked the last time, and when transactions left
 * rows to be removed. Otherwise the launcher sleeps. It also starts the workers that detect
 * deadlocks (deadlock.c).
 *
 * Workers are superusers here, but connect to nodes with the mapping of the user whose transaction
 * it was, and by the rules for that user.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "catalog/pg_user_mapping.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/steps.h"
#include "session.h"
#include "waiting.h"

#define RF_RESOLVER_RESTART_S	1
#define RF_ROWS_MS			5000	/* how long rows of finished transactions are collected */
#define RF_RETRY_MS			3000	/* before a node is asked again */
#define RF_NODE_MS			5000	/* for one node */

PGDLLEXPORT void rf_resolver_main(Datum arg);
PGDLLEXPORT void rf_resolver_worker_main(Datum arg);

/* ---------- the launcher ---------- */

/* The launcher's knowledge of a database. */
typedef struct Watched
{
	Oid			database;
	bool		due;			/* start a worker at `when` */
	TimestampTz when;
	TimestampTz last;			/* a worker was started */
	BackgroundWorkerHandle *handle; /* NULL while no worker runs */
	BackgroundWorkerHandle *detector;	/* likewise, of deadlocks */
} Watched;

static List *watched = NIL;

static Watched *
watch(Oid database)
{
	ListCell   *lc;
	Watched    *entry;

	foreach(lc, watched)
	{
		entry = lfirst(lc);
		if (entry->database == database)
			return entry;
	}
	entry = MemoryContextAllocZero(TopMemoryContext, sizeof(Watched));
	entry->database = database;
	watched = lappend(watched, entry);
	return entry;
}

/* After a start all databases are examined. */
static void
ask_databases(void)
{
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	relation = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(relation, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext inner;

		if (!database->datallowconn || database->datconnlimit == -2)
			continue;			/* -2: being dropped, from 15.4 on */
		rf_commit_ask_all(database->oid);
		inner = MemoryContextSwitchTo(TopMemoryContext);
		(void) watch(database->oid);
		MemoryContextSwitchTo(inner);
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	CommitTransactionCommand();
}

static void
describe_worker(BackgroundWorker *worker, const char *function, const char *name, int restart)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = restart;
	strlcpy(worker->bgw_library_name, "rdma_fdw", sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, function, sizeof(worker->bgw_function_name));
	strlcpy(worker->bgw_name, name, sizeof(worker->bgw_name));
	strlcpy(worker->bgw_type, name, sizeof(worker->bgw_type));
}

/* False: there is no room for another worker now. */
static bool
start_worker(Oid database, const char *function, const char *name, BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker;

	describe_worker(&worker, function, name, BGW_NEVER_RESTART);
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

/* The worker is starting or running. The handle of an ended worker is freed. */
static bool
is_running(BackgroundWorkerHandle **handle)
{
	pid_t		pid;

	if (*handle == NULL || GetBackgroundWorkerPid(*handle, &pid) != BGWH_STOPPED)
		return *handle != NULL;
	pfree(*handle);
	*handle = NULL;
	return false;
}

/* As start_due, for deadlocks. */
static long
start_detectors(void)
{
	Oid		   *databases;
	long		sleep;
	int			count = rf_waiting_databases(&databases, &sleep);

	for (int i = 0; i < count; i++)
	{
		Watched    *entry = watch(databases[i]);

		if (!is_running(&entry->detector))
			(void) start_worker(entry->database, "rf_deadlock_worker_main",
								"rdma_fdw deadlock detector", &entry->detector);
	}
	pfree(databases);
	return sleep;
}

/* When a database with this work is to be examined. */
static TimestampTz
due_time(const RfCommitWork *work, const Watched *entry, TimestampTz now)
{
	if (entry->last == 0 && (work->ask_all || work->unresolved))
		return now;
	if (work->ask_all || work->unresolved)
		return TimestampTzPlusMilliseconds(entry->last, RF_RETRY_MS);
	return TimestampTzPlusMilliseconds(now, RF_ROWS_MS);
}

/* Some databases may have been dropped: their entries are forgotten. */
static bool
is_gone(Oid database)
{
	bool		gone;

	StartTransactionCommand();
	gone = !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database));
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	if (gone)
		rf_commit_forget_database(database);
	return gone;
}

/*
 * Starts the workers that are due. Returns the milliseconds until the next worker is due; -1:
 * nothing is known.
 */
static long
start_due(void)
{
	TimestampTz now = GetCurrentTimestamp();
	RfCommitWork *works;
	int			count = rf_commit_work(&works);
	long		sleep = -1;
	ListCell   *lc;

	for (int i = 0; i < count; i++)
	{
		Watched    *entry = watch(works[i].database);
		TimestampTz when = due_time(&works[i], entry, now);

		if (!entry->due || when < entry->when)
			entry->when = when;
		entry->due = true;
	}
	pfree(works);
	foreach(lc, watched)
	{
		Watched    *entry = lfirst(lc);
		long		left;

		if (is_running(&entry->handle) || !entry->due)
			continue;			/* the end of a worker wakes us */
		left = TimestampDifferenceMilliseconds(now, entry->when);
		if (left <= 0 && is_gone(entry->database))
		{
			entry->due = false;
			if (!is_running(&entry->detector))
			{
				watched = foreach_delete_current(watched, lc);
				pfree(entry);
			}
			continue;
		}
		if (left <= 0 && start_worker(entry->database, "rf_resolver_worker_main",
									  "rdma_fdw resolver worker", &entry->handle))
		{
			entry->due = false;
			entry->last = now;
			continue;
		}
		if (left <= 0)
			left = RF_RETRY_MS;
		sleep = sleep < 0 ? left : Min(sleep, left);
	}
	return sleep;
}

static void
leave(int code, Datum arg)
{
	rf_commit_launcher(false);
}

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = rf_wait_event_new("RdmaFdwResolver");
	return event;
}

/*
 * The launcher: starts workers for databases in which something has to be finished, and deadlock
 * detectors. It has no database of its own.
 */
void
rf_resolver_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	before_shmem_exit(leave, (Datum) 0);
	rf_commit_launcher(true);
	ask_databases();
	MemoryContextSwitchTo(TopMemoryContext);	/* all its allocations are kept */

	while (!ShutdownRequestPending)
	{
		long		sleep = rf_resolve ? start_due() : -1;
		long		look_again = start_detectors();

		if (look_again >= 0)
			sleep = sleep < 0 ? look_again : Min(sleep, look_again);
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (sleep >= 0 ? WL_TIMEOUT : 0), sleep,
						 wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	proc_exit(1);				/* the postmaster restarts it, unless it ends by itself */
}

void
rf_resolver_register(void)
{
	BackgroundWorker worker;

	describe_worker(&worker, "rf_resolver_main", "rdma_fdw resolver", RF_RESOLVER_RESTART_S);
	RegisterBackgroundWorker(&worker);
}

/* ---------- a worker ---------- */

typedef struct Target
{
	Oid			serverid;
	Oid			userid;
} Target;

static void
add_target(List **targets, Oid serverid, Oid userid)
{
	ListCell   *lc;
	Target	   *target;

	foreach(lc, *targets)
	{
		target = lfirst(lc);
		if (target->serverid == serverid && target->userid == userid)
			return;
	}
	target = palloc(sizeof(Target));
	target->serverid = serverid;
	target->userid = userid;
	*targets = lappend(*targets, target);
}

/* The nodes on which parts are known. */
static void
add_known(List **targets)
{
	RfUnresolved *unresolved;
	RfDecision *decisions;
	int			count = rf_commit_list(&unresolved);

	for (int i = 0; i < count; i++)
		add_target(targets, unresolved[i].serverid, unresolved[i].userid);
	count = rf_decision_read(&decisions);
	for (int i = 0; i < count; i++)
	{
		RfGid		gid;

		if (rf_gid_parse(decisions[i].gid, &gid) && gid.life != rf_commit_life())
			add_target(targets, decisions[i].serverid, decisions[i].userid);
	}
}

/* All mappings of our servers. Those for PUBLIC are used as the server's owner would use them. */
static void
add_all(List **targets)
{
	Relation	relation = table_open(UserMappingRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(relation, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_user_mapping mapping = (Form_pg_user_mapping) GETSTRUCT(tuple);
		ForeignServer *server = GetForeignServer(mapping->umserver);

		if (rf_is_node(server))
			add_target(targets, mapping->umserver,
					   OidIsValid(mapping->umuser) ? mapping->umuser : server->owner);
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
}

/*
 * Removes rows of this life whose transactions have ended and left nothing: these are finished, and
 * no node needs to be asked. The order matters: first the rows are read, then the active
 * transactions, then the unfinished parts.
 */
static void
remove_rows(void)
{
	RfDecision *decisions;
	int			count = rf_decision_read(&decisions);
	const char **done = palloc(sizeof(char *) * (count + 1));
	int			done_count = 0;
	RfUnresolved *unresolved;
	int			unresolved_count;

	for (int i = 0; i < count; i++)
	{
		RfGid		gid;

		if (rf_gid_parse(decisions[i].gid, &gid) && gid.life == rf_commit_life() &&
			!rf_commit_is_active(&gid))
			done[done_count++] = decisions[i].gid;
	}
	unresolved_count = rf_commit_list(&unresolved);
	for (int i = 0; i < done_count;)
	{
		bool		left = false;

		for (int k = 0; k < unresolved_count && !left; k++)
			left = strcmp(unresolved[k].gid, done[i]) == 0;
		if (left)
			done[i] = done[--done_count];
		else
			i++;
	}
	rf_decision_delete(done, done_count);
}

static volatile sig_atomic_t late = false;

static void
time_is_up(void)
{
	late = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

/* The node will be asked again. The parts that are known there get the reason. */
static void
note_failure(const Target *target, const char *problem)
{
	RfUnresolved *unresolved;
	RfDecision *decisions;
	RfUnresolved part;
	int			count = rf_commit_list(&unresolved);

	for (int i = 0; i < count; i++)
	{
		if (unresolved[i].serverid == target->serverid && unresolved[i].userid == target->userid)
			rf_commit_problem(&unresolved[i], problem);
	}
	memset(&part, 0, sizeof(part));
	part.database = MyDatabaseId;
	part.serverid = target->serverid;
	part.userid = target->userid;
	part.since = GetCurrentTimestamp();
	rf_commit_problem(&part, problem);
	count = rf_decision_read(&decisions);
	for (int i = 0; i < count; i++)
	{
		RfGid		gid;

		if (decisions[i].serverid != target->serverid || decisions[i].userid != target->userid ||
			!rf_gid_parse(decisions[i].gid, &gid) || gid.life == rf_commit_life())
			continue;
		part.commit = true;
		part.node = decisions[i].node;
		part.since = decisions[i].decided;
		strlcpy(part.gid, decisions[i].gid, sizeof(part.gid));
		rf_commit_problem(&part, problem);
	}
}

static void
begin(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
end(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

static bool
is_there(const Target *target)
{
	return SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(target->serverid)) &&
		OidIsValid(rf_mapping_id(target->userid, target->serverid));
}

/* In a transaction of its own. */
static void
visit(const Target *target, TimeoutId timeout)
{
	MemoryContext caller = CurrentMemoryContext;

	begin();
	PG_TRY();
	{
		late = false;
		enable_timeout_after(timeout, RF_NODE_MS);
		if (!rf_decision_lock())
			note_failure(target, "rdma.resolve is at work");
		else if (!is_there(target))
			rf_recover_gone(target->serverid, target->userid);
		else
		{
			UserMapping *user = rf_user_mapping(target->userid, target->serverid);
			RfSession  *session = rf_session_get(user, false);
			int			finished;

			session->options.keep = false;
			session->suspect = true;	/* an error waits only briefly for it */
			finished = rf_recover_node(session, target->serverid, target->userid);
			if (finished > 0)
				ereport(LOG,
						(errmsg("rdma_fdw resolver: finished %d transactions on server \"%s\"",
								finished, session->server_name)));
		}
		disable_timeout(timeout, false);
		end();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		disable_timeout(timeout, false);
		QueryCancelPending = false;
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		begin();
		note_failure(target, late ? "it did not answer in time" : error->detail ?
					 psprintf("%s: %s", error->message, error->detail) : error->message);
		end();
		MemoryContextSwitchTo(caller);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
}

/* A worker that does not reach its end has asked no node. */
static void
not_done(int code, Datum arg)
{
	const RfCommitWork *work = (const RfCommitWork *) DatumGetPointer(arg);

	if (work->ask_all)
		rf_commit_ask_all(work->database);
	if (work->rows)
		rf_commit_written();
}

/*
 * The resolver's worker for one database: visits each node on which something is to be finished,
 * removes rows of finished transactions, and ends. Work that it does not get done goes back to
 * shared memory.
 */
void
rf_resolver_worker_main(Datum arg)
{
	MemoryContext context;
	static RfCommitWork work;	/* for not_done */
	List	   *targets = NIL;
	ListCell   *lc;
	TimeoutId	timeout;
	bool		ours;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	rf_worker_settings();
	rf_commit_take(&work);
	before_shmem_exit(not_done, PointerGetDatum(&work));
	rf_step("resolver", 0);
	timeout = RegisterTimeout(USER_TIMEOUT, time_is_up);
	context = AllocSetContextCreate(TopMemoryContext, "rdma_fdw resolver", ALLOCSET_DEFAULT_SIZES);

	begin();
	ours = OidIsValid(get_extension_oid("rdma_fdw", true)) && OidIsValid(rf_decision_table());
	if (ours)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		add_known(&targets);
		if (work.ask_all)
			add_all(&targets);
		MemoryContextSwitchTo(old);
	}
	end();
	MemoryContextSwitchTo(context);
	foreach(lc, targets)
		visit(lfirst(lc), timeout);
	work.ask_all = false;
	begin();
	if (!ours)
		work.rows = false;
	else if (rf_decision_lock())
	{
		rf_step("resolver_rows", 0);
		remove_rows();
		work.rows = false;
	}
	end();
	proc_exit(0);
}
