/*
 * kept_snapshot.c - the snapshots that statements of a reader have here.
 *
 * In READ COMMITTED each command of a session takes a snapshot of its own, and in every level it
 * sees the writes of the commands before it. But a statement of the reader may need several
 * commands, on several nodes, and wants one moment. So the first keeps its snapshot under the
 * reader's number of the statement, and the later commands run under that. In READ COMMITTED rows
 * are then updated and locked as usual: a row that has changed since is looked at again.
 *
 * Rows that the transaction wrote after the snapshot was taken are not visible to it, as in any
 * statement. Rows that parts of the statement write have the snapshot's command number, as if they
 * were one command: a row is written once.
 *
 * Everything belongs to this backend, and ends with its transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "tcop/pquery.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"
#include "kept_snapshot.h"
#include "part_log.h"

/*
 * So many statements that go on, one inside the other or as cursors: no honest reader comes near.
 */
#define MAX_KEPT	10000

typedef struct KeptSnapshot
{
	uint64		statement;
	Snapshot	snapshot;		/* registered with the top transaction */
	uint64		position;		/* of the log of parts behind it */
} KeptSnapshot;

static List *kept = NIL;		/* KeptSnapshot, in TopTransactionContext */
static uint64 next = 0;			/* whose snapshot the session's next statement runs under; 0: its
								 * own */
static QueryDesc *running = NULL;	/* that statement */

static KeptSnapshot *
find(uint64 statement)
{
	ListCell   *lc;

	foreach(lc, kept)
	{
		if (((KeptSnapshot *) lfirst(lc))->statement == statement)
			return lfirst(lc);
	}
	return NULL;
}

void
rf_kept_snapshot_writes(QueryDesc *query)
{
	query->estate->es_output_cid = query->snapshot->curcid;
}

/*
 * The portal's statement, not one of a function that the planner evaluates before it. The executor
 * wants the query's snapshot to be the active one.
 */
bool
rf_kept_snapshot_start(QueryDesc *query)
{
	KeptSnapshot *mine = next != 0 && ActivePortal != NULL ? find(next) : NULL;

	if (mine == NULL)
		return false;
	PushActiveSnapshot(mine->snapshot);
	UnregisterSnapshot(query->snapshot);
	query->snapshot = RegisterSnapshot(mine->snapshot);
	next = 0;
	running = query;
	return true;
}

void
rf_kept_snapshot_started(QueryDesc *query)
{
	rf_kept_snapshot_writes(query);
	PopActiveSnapshot();
}

bool
rf_kept_snapshot_run(QueryDesc *query)
{
	if (query != running)
		return false;
	PushActiveSnapshot(query->snapshot);
	running = NULL;
	return true;
}

static bool
is_over(uint64 statement, const RfStreamSnapshot *request)
{
	return statement < request->oldest ||
		(statement > request->outer && statement < request->statement);
}

/* Forgets the snapshots of statements that are over; NULL: all. */
static void
forget(const RfStreamSnapshot *request)
{
	ListCell   *lc;

	foreach(lc, kept)
	{
		KeptSnapshot *entry = lfirst(lc);

		if (request != NULL && !is_over(entry->statement, request))
			continue;
		UnregisterSnapshotFromOwner(entry->snapshot, TopTransactionResourceOwner);
		kept = foreach_delete_current(kept, lc);
		pfree(entry);
	}
}

/* An abort unregisters them by itself, and frees the memory. */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			forget(NULL);
			break;
		case XACT_EVENT_ABORT:
			kept = NIL;
			break;
		default:
			return;
	}
	next = 0;
	running = NULL;
}

/*
 * Statements that were interrupted between the request and their start, or their start and their
 * run.
 */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	next = 0;
	running = NULL;
}

static void
watch_transactions(void)
{
	static bool watching = false;

	if (watching)
		return;
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
	watching = true;
}

void
rf_kept_snapshot_keep(const RfStreamSnapshot *request)
{
	MemoryContext caller;
	KeptSnapshot *entry;

	watch_transactions();
	forget(request);
	entry = find(request->statement);
	if (entry == NULL)
	{
		if (list_length(kept) >= MAX_KEPT)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("the reading node keeps too many snapshots"),
					 errdetail("At most %d statements can go on at the same time in one "
							   "transaction.",
							   MAX_KEPT)));
		caller = MemoryContextSwitchTo(TopTransactionContext);
		entry = palloc(sizeof(KeptSnapshot));
		entry->statement = request->statement;
		entry->snapshot = NULL;
		kept = lappend(kept, entry);
		MemoryContextSwitchTo(caller);
	}
	else
		UnregisterSnapshotFromOwner(entry->snapshot, TopTransactionResourceOwner);
	entry->snapshot = RegisterSnapshotOnOwner(GetActiveSnapshot(), TopTransactionResourceOwner);
	entry->position = rf_part_log_position();
}

Snapshot
rf_kept_snapshot(const RfStreamSnapshot *request, uint64 *position)
{
	KeptSnapshot *entry = find(request->statement);

	if (entry == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the snapshot of the reading node's statement is gone"),
				 errhint("Try the transaction again.")));
	if (position)
		*position = entry->position;
	return entry->snapshot;
}

void
rf_kept_snapshot_next(const RfStreamSnapshot *request)
{
	(void) rf_kept_snapshot(request, NULL);
	next = request->statement;
}
