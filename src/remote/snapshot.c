/*
 * snapshot.c - the beginning of remote transactions, so that their snapshots are one.
 *
 * A remote transaction has the isolation level of the local one. In READ COMMITTED each statement
 * has a snapshot of its own (statement_snapshot.c). From REPEATABLE READ on the first query takes
 * the snapshot that all later queries see. Where a statement reads several nodes, the transactions
 * there begin together in the gate (gate.c), each with a query, as START TRANSACTION alone takes no
 * snapshot. Everything before that may take long, connecting for example, and is done before.
 *
 * A node alone is used without the gate. Commits since then are known by the gate's count; if that
 * is still the same when another node is needed, its snapshot matches the first node's. If not, and
 * nothing was done in the first transaction, it begins again. Else the snapshots cannot be one,
 * which is an error. The same goes for commits of other coordinators (other_coordinators.c).
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "base/clock.h"
#include "gate.h"
#include "session.h"

/* How long to wait for transactions in doubt to be finished, and how often to look. */
#define RF_DOUBT_TIMEOUT_MS		10000
#define RF_DOUBT_LOOK_MS		50

/* The work for the snapshots of several nodes. */
typedef struct SnapshotPlan
{
	bool		begin;			/* transactions are missing */
	bool		renew;			/* the existing transactions begin again */
	bool		verify;			/* existing snapshots must be of the count that the gate has now */
	RfSession  *fixed;			/* cannot begin again; NULL: all can */
	uint64		count;			/* of the gate, when this was found */
} SnapshotPlan;

static List *remembered = NIL;	/* RfRemembered; for the life of the backend */

int
rf_transaction_target(RfSession *session)
{
	return GetCurrentTransactionNestLevel();
}

/*
 * A subtransaction may be read-only by itself inside a transaction that writes, so its mode is not
 * taken for the whole remote transaction. deferrable: it may wait for other transactions.
 */
static char *
begin_sql(bool deferrable)
{
	bool		read_only = XactReadOnly && GetCurrentTransactionNestLevel() == 1;

	return psprintf("START TRANSACTION ISOLATION LEVEL %s%s%s",
					IsolationIsSerializable() ? "SERIALIZABLE" :
					IsolationUsesXactSnapshot() ? "REPEATABLE READ" :
					"READ COMMITTED",
					read_only ? " READ ONLY" : "",
					read_only && deferrable && XactDeferrable && IsolationIsSerializable() ?
					" DEFERRABLE" :
					"");
}

char *
rf_transaction_begin_sql(RfSession *session, int level)
{
	return level > 1 ? psprintf("SAVEPOINT s%d", level) : begin_sql(true);
}

/* ---------- SET CONSTRAINTS ALL ---------- */

/*
 * What this transaction said, for nodes that it uses later: a list of integers, for each level that
 * said so, in their order, twice the level, and 1 if DEFERRED.
 */
static List *constraint_modes = NIL;

void
rf_constraints_remember(int level, bool deferred)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);

	if (constraint_modes != NIL && llast_int(constraint_modes) / 2 == level)
		constraint_modes = list_delete_last(constraint_modes);
	constraint_modes = lappend_int(constraint_modes, 2 * level + deferred);
	MemoryContextSwitchTo(caller);
}

void
rf_constraints_end(int level, bool commit)
{
	bool		deferred;

	if (level == 1)
		constraint_modes = NIL;
	if (constraint_modes == NIL || llast_int(constraint_modes) / 2 < level)
		return;
	deferred = llast_int(constraint_modes) % 2 == 1;
	constraint_modes = list_delete_last(constraint_modes);
	if (commit)
		rf_constraints_remember(level - 1, deferred);
}

const char *
rf_constraints_sql(int level)
{
	ListCell   *lc;

	foreach(lc, constraint_modes)
	{
		if (lfirst_int(lc) / 2 == level)
			return lfirst_int(lc) % 2 == 1 ? "SET CONSTRAINTS ALL DEFERRED;" :
				"SET CONSTRAINTS ALL IMMEDIATE;";
	}
	return NULL;
}

/* ---------- transactions in doubt ---------- */

/*
 * Returns true if something was decided before the server started, and is not finished on one of
 * the nodes. Rows of that time only go.
 */
static bool
past_in_doubt(const uint64 *nodes, int count)
{
	RfDecision *decisions;
	int			decision_count;
	bool		any = false;
	bool		found = false;

	if (rf_commit_past_is_over())
		return false;
	decision_count = rf_decision_read(&decisions);
	for (int i = 0; i < decision_count; i++)
	{
		RfGid		gid;

		if (!rf_gid_parse(decisions[i].gid, &gid) || gid.life == rf_commit_life())
			continue;
		any = true;
		for (int k = 0; k < count && !found; k++)
			found = decisions[i].node == nodes[k];
	}
	pfree(decisions);
	if (!any)
		rf_commit_past_over();
	return found;
}

bool
rf_snapshot_is_in_doubt(const uint64 *nodes, int count)
{
	return past_in_doubt(nodes, count) || rf_commit_in_doubt_on(nodes, count);
}

void
rf_snapshot_await_resolver(TimestampTz *deadline)
{
	TimestampTz now = GetCurrentTimestamp();

	if (*deadline == 0)
		*deadline = TimestampTzPlusMilliseconds(now, RF_DOUBT_TIMEOUT_MS);
	if (now >= *deadline)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not take one snapshot of several nodes"),
				 errdetail("A transaction that has committed is not finished on one of them."),
				 errhint("The view rdma.transactions shows it, and why it is not finished.")));
	rf_session_pause(rf_session_wait_event(), RF_DOUBT_LOOK_MS);
}

/* ---------- existing transactions ---------- */

/* Returns true if no work of it has to stay. Rows that were read stay, too. */
static bool
may_begin_again(RfSession *session)
{
	return session->xact.untouched && !session->xact.wrote && !session->running && !session->load &&
		!session->failed && !session->xact.unsure && dlist_is_empty(&session->collecting) &&
		dlist_is_empty(&session->streams) &&
		PQtransactionStatus(session->conn) == PQTRANS_INTRANS;
}

/* False: nothing is to be done. */
static bool
make_plan(List *sessions, SnapshotPlan *plan)
{
	bool		exact = true;
	bool		same = true;
	bool		current = true;
	RfSession  *first = NULL;
	ListCell   *lc;

	memset(plan, 0, sizeof(*plan));
	plan->count = rf_gate_count();
	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);
		const RfSessionSnapshot *snapshot = &session->snapshot;

		if (session->xact.depth == 0)
		{
			plan->begin = true;
			continue;
		}
		if (first == NULL)
			first = session;
		exact &= snapshot->exact && snapshot->count != RF_GATE_NEVER;
		same &= snapshot->count == first->snapshot.count;
		current &= snapshot->count == plan->count;
		if (!may_begin_again(session))
			plan->fixed = session;
	}

	if (!plan->begin && exact && same)
		return false;
	plan->verify = current && first != NULL;
	plan->renew = !current;
	return true;
}

/* Transactions that use one of them will begin with all. */
static void
remember(List *sessions)
{
	MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);

		if (!rf_snapshot_is_remembered(session->serverid, session->userid))
		{
			RfRemembered *entry = palloc(sizeof(RfRemembered));

			entry->serverid = session->serverid;
			entry->userid = session->userid;
			remembered = lappend(remembered, entry);
		}
	}
	MemoryContextSwitchTo(caller);
}

__attribute__((noreturn)) static void
raise_conflict(RfSession *fixed, List *sessions)
{
	remember(sessions);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not take one snapshot of several nodes"),
			 errdetail("Transactions have committed since this one began on server \"%s\".",
					   fixed->server_name),
			 errhint("Try the transaction again: this session will then begin it on all these "
					 "nodes together. "
					 "With rdma_fdw.snapshot = each_node each node has a snapshot of its own.")));
}

/* ---------- in the gate ---------- */

void
rf_snapshot_await_input(RfSession *session, TimestampTz deadline)
{
	long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
	int			got = left > 0 ? rf_session_wait(session, WL_SOCKET_READABLE, left) : 0;

	if (left <= 0)
	{
		session->broken = true;
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("server \"%s\" did not take a snapshot within %d seconds",
						session->server_name, RF_BEGIN_TIMEOUT_MS / 1000)));
	}
	if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
		rf_session_lost(session);
}

/* Returns the last result. */
static PGresult *
await_query(RfSession *session, const char *sql, TimestampTz deadline)
{
	PGresult   *last = NULL;

	for (;;)
	{
		PGresult   *result;

		while (PQisBusy(session->conn))
			rf_snapshot_await_input(session, deadline);
		result = PQgetResult(session->conn);
		if (result == NULL)
			break;
		if (!rf_result_succeeded(result))
		{
			PQclear(last);
			rf_session_raise(session, result, sql);
		}
		PQclear(last);
		last = result;
		if (PQstatus(session->conn) != CONNECTION_OK)
			break;
	}
	if (last == NULL || PQstatus(session->conn) != CONNECTION_OK)
	{
		PQclear(last);
		rf_session_lost(session);
	}
	session->xact.unsure = false;
	return last;
}

/*
 * To all of a kind at the same time. sql: begins a transaction, in place of the existing one; or
 * snapshot: a query takes it; or both.
 */
static void
run_on_all(List *sessions, bool poolers, const char *sql, bool snapshot)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RF_BEGIN_TIMEOUT_MS);
	const char *constraints = rf_constraints_sql(1);
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);
		StringInfoData text;

		if (session->node.pooled != poolers)
			continue;
		initStringInfo(&text);
		if (sql)
			appendStringInfo(&text, "%s%s;%s", session->xact.depth > 0 ? "ROLLBACK;" : "", sql,
							 constraints ? constraints : "");
		if (snapshot)
			appendStringInfo(&text, "%s%s", poolers ? RF_LOCAL_SETTINGS_SQL ";" : "",
							 rf_others_sql(session));
		session->xact.depth = 1;
		session->snapshot.others.asked_us = rf_now_us();
		session->xact.unsure = true;
		session->snapshot.exact = false;
		rf_session_start(session, text.data);
		pfree(text.data);
	}
	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);
		PGresult   *result;

		if (session->node.pooled != poolers)
			continue;
		result = await_query(session, sql ? sql : RF_LOCAL_SETTINGS_SQL, deadline);
		rf_others_note(session, result);
		PQclear(result);
	}
}

/*
 * The state that an error leaves below a savepoint would be taken for the transaction that the
 * savepoint is in: such connections are not used again.
 */
void
rf_snapshot_give_up(List *sessions)
{
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);

		if (session->xact.unsure && GetCurrentTransactionNestLevel() > 1)
		{
			session->xact.depth = 0;
			session->xact.unsure = false;
			session->broken = true;
		}
	}
}

/* False: something has come between, so that another plan is needed. */
static bool
take(List *sessions, List *beginning, const SnapshotPlan *plan, const uint64 *nodes,
	 const char *sql)
{
	volatile bool taken = false;
	ListCell   *lc;

	rf_gate_enter(RF_GATE_SNAPSHOT);
	PG_TRY();
	{
		uint64		count = rf_gate_count();

		if ((!plan->verify || count == plan->count) &&
			!rf_commit_in_doubt_on(nodes, list_length(sessions)))
		{
			run_on_all(beginning, false, sql, true);
			run_on_all(beginning, true, NULL, true);
			foreach(lc, sessions)
			{
				RfSession  *session = lfirst(lc);

				session->snapshot.count = count;
				session->snapshot.exact = true;
			}
			taken = true;
		}
	}
	PG_FINALLY();
	{
		rf_gate_leave(RF_GATE_SNAPSHOT);
	}
	PG_END_TRY();
	return taken;
}

/* As in statement_snapshot.c, of transactions' snapshots. */
static bool
agree(List *sessions)
{
	const RfOthers **others = palloc_array(const RfOthers *, list_length(sessions));
	bool		used = false;
	bool		agreed;
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);

		others[foreach_current_index(lc)] = &session->snapshot.others;
		used |= !may_begin_again(session);
	}
	agreed = rf_others_agree(sessions, others, 0);
	pfree(others);
	if (!agreed && used)
	{
		remember(sessions);
		rf_others_raise();
	}
	foreach(lc, sessions)
	{
		if (!agreed)
			((RfSession *) lfirst(lc))->snapshot.count = RF_GATE_NEVER;
	}
	return agreed;
}

static List *
those_that_begin(List *sessions, bool all)
{
	List	   *beginning = NIL;
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);

		if (all || session->xact.depth == 0)
			beginning = lappend(beginning, session);
	}
	return beginning;
}

/* One attempt; false: in doubt, or something has come between. */
static bool
attempt(List *sessions, const SnapshotPlan *plan, const uint64 *nodes)
{
	List	   *volatile beginning = those_that_begin(sessions, plan->renew);
	char	   *sql = begin_sql(false);
	volatile bool taken = false;
	ListCell   *lc;

	PG_TRY();
	{
		/* a pooler may have us wait for one of its connections */
		run_on_all(beginning, true, sql, false);
		foreach(lc, beginning)
		{
			RfSession  *session = lfirst(lc);

			session->xact.untouched = true;
			session->snapshot.exact = false;
			session->snapshot.count = 0;	/* of no snapshot */
		}
		taken = take(sessions, beginning, plan, nodes, sql);
	}
	PG_CATCH();
	{
		rf_snapshot_give_up(beginning);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (taken)
		rf_gate_note_snapshots(plan->renew);
	pfree(sql);
	list_free(beginning);
	return taken;
}

/* The sessions have connections, and there are several. */
static void
take_together(List *sessions)
{
	uint64	   *nodes = palloc(sizeof(uint64) * list_length(sessions));
	TimestampTz deadline = 0;
	TimestampTz others_deadline = 0;
	SnapshotPlan plan;
	ListCell   *lc;

	foreach(lc, sessions)
		nodes[foreach_current_index(lc)] = ((RfSession *) lfirst(lc))->node.cluster;
	while (make_plan(sessions, &plan))
	{
		if (plan.renew && plan.fixed != NULL)
			raise_conflict(plan.fixed, sessions);
		if (rf_snapshot_is_in_doubt(nodes, list_length(sessions)))
			rf_snapshot_await_resolver(&deadline);
		else if (attempt(sessions, &plan, nodes))
		{
			if (agree(sessions))
				break;
			rf_others_await(&others_deadline);
		}
	}
	pfree(nodes);
}

/* ---------- for other files ---------- */

List *
rf_snapshot_remembered(void)
{
	return remembered;
}

bool
rf_snapshot_is_remembered(Oid serverid, Oid userid)
{
	ListCell   *lc;

	foreach(lc, remembered)
	{
		RfRemembered *entry = lfirst(lc);

		if (entry->serverid == serverid && entry->userid == userid)
			return true;
	}
	return false;
}

void
rf_snapshot_forget(void)
{
	list_free_deep(remembered);
	remembered = NIL;
}

bool
rf_snapshot_is_common(void)
{
	return rf_snapshot_mode == RF_SNAPSHOT_COMMON && !IsParallelWorker() &&
		(!IsolationIsSerializable() || rf_allow_snapshot_isolation);
}

/* Returns these and all other sessions with a remote transaction. */
static List *
add_open(List *sessions)
{
	List	   *open = rf_session_list_open();

	sessions = list_concat_unique_ptr(sessions, open);
	list_free(open);
	return sessions;
}

void
rf_sessions_begin(RfSession *const *sessions, int count)
{
	List	   *all = NIL;

	if (!IsolationUsesXactSnapshot() || !rf_snapshot_is_common())
		return;
	for (int i = 0; i < count; i++)
	{
		if (!sessions[i]->xact.wanted)
			continue;
		all = list_append_unique_ptr(all, sessions[i]);
		if (sessions[i]->xact.depth == 0)
			rf_session_settle(sessions[i]);
	}
	if (all == NIL)
		return;
	all = add_open(all);
	if (list_length(all) > 1)
		take_together(all);
	list_free(all);
}

void
rf_snapshot_begin(RfSession *session)
{
	List	   *all;

	rf_serializable_begin(session);
	session->xact.untouched = false;
	session->snapshot.exact = false;
	session->snapshot.count = rf_gate_count();
	memset(&session->snapshot.others, 0, sizeof(session->snapshot.others));
	if (!IsolationUsesXactSnapshot() || !rf_snapshot_is_common() ||
		rf_session_other(session) == NULL)
		return;
	all = add_open(list_make1(session));
	take_together(all);
	list_free(all);
}
