/*
 * commit.c - the end of a transaction on its nodes: all commit, or all roll back.
 *
 * One node that wrote, and nothing written here: it commits in one step, last. Otherwise
 *
 * 1. before the local commit: nodes that only read commit, nodes that wrote prepare;
 * 2. a row for each of these is written to rdma.decisions, and the local commit, which takes it
 *    along, is flushed for any synchronous_commit: that is the decision;
 * 3. after it they commit their prepared parts.
 *
 * In 3 it is in the gate (gate.c), so that no statement has snapshots of before on one node and of
 * after on another. From 2 on if something was written here, as a statement that enters later has a
 * local snapshot from before; else statements need not wait for the flush. Nodes that commit one by
 * one (rdma_fdw.commit = best_effort) do so in the gate, too.
 *
 * An error before 2 is done rolls all back. From then on nothing raises an error: a node that does
 * not answer in time is left to the resolver, with a warning. The parts that a crash leaves are
 * its, too; a part that is prepared is committed if its row is there and its backend is not, and
 * else rolled back.
 */
#include "postgres.h"

#include <poll.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/steps.h"
#include "gate.h"
#include "session.h"

/*
 * How long nodes may take to commit their prepared parts before these are left to the resolver.
 */
#define RF_COMMIT_TIMEOUT_MS	10000
#define RF_COMMIT_LOOK_MS		500 /* a cancel may come between a look and a sleep */

#define COMMIT_SQL	"COMMIT TRANSACTION"

/* State of the transaction that commits; in its own memory. */
static uint64 number = 0;		/* 0: it does not prepare */
static RfSession **parts = NULL;
static struct pollfd *polls = NULL;
static int	part_count = 0;
static bool decided = false;	/* rows were written */
static bool gated = false;		/* it is in the gate */
static bool late = false;		/* it will enter after the local commit */

void
rf_commit_await_end(RfSession *session, const char *sql, int depth, bool commit)
{
	PGresult   *result = rf_session_last_result(session);
	bool		rolled_back;

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		rf_session_raise(session, result, sql);
	rolled_back = strcmp(PQcmdStatus(result), "ROLLBACK") == 0;
	PQclear(result);
	session->xact.depth = depth;
	session->xact.unsure = false;

	/* COMMIT of a failed transaction, which rolls back; something here caught its error */
	if (rolled_back && commit)
		ereport(ERROR,
				(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
				 errmsg("the transaction on server \"%s\" is aborted", session->server_name),
				 errcontext("remote SQL command: %s", sql)));
}

void
rf_commit_send_end(RfSession *session, const char *sql)
{
	session->xact.unsure = true;
	rf_session_start(session, sql);
}

bool
rf_session_must_commit(RfSession *session)
{
	return session->xact.wrote || IsolationIsSerializable();
}

/*
 * Waits until the transaction of a session has ended. One that only read may end in any way, also
 * with its connection: its node has until the deadline to say so.
 */
static void
await_end(RfSession *session, TimestampTz deadline)
{
	while (!rf_session_must_commit(session) && PQisBusy(session->conn))
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
		int			got = 0;

		if (left > 0)
			got = rf_session_wait(session, WL_SOCKET_READABLE, left);
		if (left <= 0 || ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn)))
		{
			session->broken = true;
			session->xact.depth = 0;
			return;
		}
	}
	rf_commit_await_end(session, COMMIT_SQL, 0, true);
}

/*
 * Ends the transactions of sessions that wrote, or of sessions that did not, sending to every
 * server before waiting for any (sessions whose option parallel_commit is off are waited for at
 * once).
 */
static void
commit_sessions(bool wrote)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RF_CANCEL_TIMEOUT_MS);

	rf_foreach_session(session)
	{
		if (session->xact.depth == 0 || session->xact.wrote != wrote)
			continue;
		rf_commit_send_end(session, COMMIT_SQL);
		if (!session->options.parallel_commit)
			await_end(session, deadline);
	}
	rf_foreach_session(session)
	{
		if (session->xact.depth > 0 && session->xact.wrote == wrote)
			await_end(session, deadline);
	}
}

static int
count_writers(void)
{
	int			count = 0;

	rf_foreach_session(session)
		count += session->xact.depth > 0 && session->xact.wrote;
	return count;
}

/*
 * A session has written only if its transaction has a transaction ID. An UPDATE that went to all
 * nodes and found its row on one of them commits there in one step.
 */
static void
find_writers(void)
{
	rf_foreach_session(session)
	{
		if (session->xact.depth == 0 || !session->xact.wrote)
			continue;
		rf_session_start(session, RF_WROTE_SQL);
	}
	rf_foreach_session(session)
	{
		PGresult   *result;

		if (session->xact.depth == 0 || !session->xact.wrote)
			continue;
		result = rf_session_last_result(session);
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			rf_session_raise(session, result, RF_WROTE_SQL);
		if (PQntuples(result) != 1 || PQnfields(result) != 1)
			rf_session_bad_answer(session, result, RF_WROTE_SQL);
		session->xact.wrote = PQgetvalue(result, 0, 0)[0] != 'f';
		PQclear(result);
	}
}

/*
 * Returns true if all sessions that wrote can prepare. Otherwise reports the obstacle, as the
 * setting wants.
 */
static bool
can_prepare(void)
{
	const char *detail = NULL;
	const char *hint = NULL;

	rf_foreach_session(session)
	{
		if (session->xact.depth > 0 && session->xact.wrote && detail == NULL)
			detail = rf_session_unpreparable(session, &hint);
	}
	if (detail == NULL)
		return true;
	if (rf_commit_mode == RF_COMMIT_REQUIRED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot commit on all nodes atomically"),
				 errdetail_internal("%s", detail),
				 errhint("%s Or set rdma_fdw.commit to atomic or best_effort.", hint)));
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("the transaction commits on each node for itself"),
			 errdetail_internal("%s", detail),
			 errhint("%s Set rdma_fdw.commit to best_effort for no warning.", hint)));
	return false;
}

/* Adds a hint if PREPARE fails because of a feature that two-phase commit lacks. */
static void
await_prepared(RfSession *session)
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		rf_commit_await_end(session, "PREPARE TRANSACTION", 0, true);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		if (geterrcode() != ERRCODE_FEATURE_NOT_SUPPORTED)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		if (error->hint == NULL)
			error->hint = "With rdma_fdw.commit = best_effort each node commits in one step, "
				"for itself.";
		ReThrowError(error);
	}
	PG_END_TRY();
	session->commit.part = RF_PART_PREPARED;
}

/* In the order of their sessions, each with the number of its place in its name. */
static void
list_parts(int count)
{
	RfGid		gid = {GetSystemIdentifier(), MyDatabaseId, rf_commit_life(), number, 0};

	parts = MemoryContextAlloc(TopTransactionContext, sizeof(RfSession *) * count);
	polls = MemoryContextAllocZero(TopTransactionContext, sizeof(struct pollfd) * count);
	part_count = 0;
	rf_foreach_session(session)
	{
		if (session->xact.depth == 0 || !session->xact.wrote)
			continue;
		parts[part_count++] = session;
		gid.part = part_count;
		rf_gid_print(&gid, session->commit.gid);
	}
}

/*
 * First phase: has every node that wrote prepare its part, all at the same time, and writes the
 * rows that decide. An error here rolls everything back.
 */
static void
prepare_all(int count)
{
	Oid			table = rf_decision_table();
	RfDecision *decisions = palloc0(sizeof(RfDecision) * count);
	TimestampTz now = GetCurrentTimestamp();
	char		sql[RF_GID_SIZE + 32];

	/* steps that may fail here fail before a node has prepared */
	LockRelationOid(table, RowExclusiveLock);
	number = rf_commit_begin();
	list_parts(count);

	for (int i = 0; i < part_count; i++)
	{
		rf_step("prepare", i + 1);
		parts[i]->commit.part = RF_PART_SENT;
		snprintf(sql, sizeof(sql), RF_PREPARE_SQL "'%s'", parts[i]->commit.gid);
		rf_commit_send_end(parts[i], sql);
		rf_step("prepare_sent", i + 1);
		if (!parts[i]->options.parallel_commit)
			await_prepared(parts[i]);
	}
	for (int i = 0; i < part_count; i++)
	{
		if (parts[i]->commit.part != RF_PART_PREPARED)
			await_prepared(parts[i]);
		rf_step("prepared", i + 1);
		strlcpy(decisions[i].gid, parts[i]->commit.gid, sizeof(decisions[i].gid));
		decisions[i].serverid = parts[i]->serverid;
		decisions[i].userid = parts[i]->userid;
		decisions[i].node = parts[i]->node.cluster;
		decisions[i].decided = now;
	}
	rf_decision_write(table, decisions, part_count);
	ForceSyncCommit();
	decided = true;
	pfree(decisions);
	rf_step("rows_written", 0);
}

static void
enter_gate(void)
{
	rf_gate_enter(RF_GATE_COMMIT);
	gated = true;
}

/*
 * The same after the local commit. A backend that waits there takes no cancel request, and no
 * deadlock is possible: nobody in the gate waits for a lock. lock_timeout is for locks that can
 * still fail.
 */
static void
enter_gate_decided(void)
{
	int			timeout = LockTimeout;

	LockTimeout = 0;
	enter_gate();
	LockTimeout = timeout;
}

/* Deferred constraints wait for rows, which COMMIT must not do in the gate. */
static void
check_constraints(void)
{
	const char *sql = "SET CONSTRAINTS ALL IMMEDIATE";

	rf_foreach_session(session)
	{
		if (session->xact.depth > 0 && session->xact.wrote)
			rf_commit_send_end(session, sql);
	}
	rf_foreach_session(session)
	{
		if (session->xact.depth > 0 && session->xact.wrote)
			rf_commit_await_end(session, sql, session->xact.depth, false);
	}
}

/* Nodes that wrote, in one step each. several: there are more, or something was written here. */
static void
commit_writers(bool several)
{
	if (several)
	{
		check_constraints();
		enter_gate();
	}
	else
		rf_gate_pass();
	commit_sessions(true);
}

void
rf_commit_before(void)
{
	int			here = TransactionIdIsValid(GetTopTransactionIdIfAny());
	int			writers = count_writers();
	bool		atomic = rf_commit_mode != RF_COMMIT_BEST_EFFORT && !IsParallelWorker() &&
		writers > 0 && writers + here > 1;

	if (atomic)
	{
		find_writers();
		writers = count_writers();
		atomic = writers > 0 && writers + here > 1 && can_prepare();
	}
	commit_sessions(false);
	if (atomic)
	{
		prepare_all(writers);
		late = !here;
		if (late)
			rf_gate_reserve();
		else
			enter_gate();
		rf_step("commit_gate", 0);
	}
	else if (writers > 0)
		commit_writers(writers + here > 1);
}

bool
rf_commit_rolled_back(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	/* it may have heard of the cancel before it had prepared */
	return PQresultStatus(result) == PGRES_COMMAND_OK ||
		(sqlstate != NULL && strcmp(sqlstate, "42704") == 0);
}

/* ---------- the second step ---------- */

/* Takes the available part of the answer. True: that is all, or no more will come. */
static bool
take_answer(RfSession *session)
{
	PGconn	   *conn = session->conn;

	if (PQflush(conn) < 0)
		session->broken = true;
	while (!session->broken && !PQisBusy(conn))
	{
		PGresult   *result = PQgetResult(conn);

		if (result == NULL)
			return true;
		if (PQresultStatus(result) == PGRES_COMMAND_OK)
			session->commit.part = RF_PART_NONE;
		/* libpq gives nothing else before data have been copied, so this would go on for ever */
		session->broken |= rf_result_is_copy(result) || PQstatus(conn) != CONNECTION_OK;
		PQclear(result);
	}
	return session->broken;
}

/*
 * Waits for the answers of all that were told; by poll(2), as nothing may be allocated. A user that
 * cancels, or ends the session, does not wait for them: the decision does not change.
 */
static void
await_parts(TimestampTz deadline)
{
	int			waiting = part_count;

	while (waiting > 0)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

		waiting = 0;
		for (int i = 0; i < part_count; i++)
		{
			if (polls[i].fd < 0)
				continue;
			if ((polls[i].revents != 0 && !PQconsumeInput(parts[i]->conn)))
				parts[i]->broken = true;
			polls[i].revents = 0;
			if (take_answer(parts[i]))
				polls[i].fd = -1;
			else
				waiting++;
		}
		if (waiting == 0 || left <= 0 || QueryCancelPending || ProcDiePending)
			break;
		(void) poll(polls, part_count, (int) Min(left, RF_COMMIT_LOOK_MS));
	}
	for (int i = 0; i < part_count; i++)
	{
		if (polls[i].fd >= 0)
			parts[i]->broken = true;	/* an answer is still to come */
	}
}

void
rf_commit_after(void)
{
	char		sql[RF_GID_SIZE + 32];

	if (part_count == 0)
		return;
	if (late)
		enter_gate_decided();
	rf_step("decided", 0);
	for (int i = 0; i < part_count; i++)
	{
		RfSession  *session = parts[i];

		rf_step("commit_prepared", i + 1);
		snprintf(sql, sizeof(sql), "COMMIT PREPARED '%s'", session->commit.gid);
		polls[i].fd = -1;
		polls[i].events = POLLIN;
		if (session->broken || PQstatus(session->conn) != CONNECTION_OK ||
			!PQsendQuery(session->conn, sql))
			session->broken = true;
		else
			polls[i].fd = PQsocket(session->conn);
		rf_step("commit_sent", i + 1);
	}
	await_parts(TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RF_COMMIT_TIMEOUT_MS));
	rf_step("committed", 0);
}

void
rf_commit_finish(bool commit)
{
	rf_foreach_session(session)
	{
		if (session->commit.part == RF_PART_NONE)
			continue;
		rf_commit_unresolved(session->serverid, session->userid, session->node.cluster,
							 session->commit.gid, commit);
		session->commit.part = RF_PART_NONE;
		if (commit)
			ereport(WARNING,
					(errmsg("the transaction has committed, "
							"and server \"%s\" has not confirmed that",
							session->server_name),
					 errdetail("It is prepared there as \"%s\".", session->commit.gid),
					 errhint("It will be committed there in the background. See "
							 "rdma.transactions.")));
		else
			ereport(WARNING,
					(errmsg("the transaction was rolled back, "
							"and server \"%s\" has not confirmed that",
							session->server_name),
					 errdetail("It may be prepared there as \"%s\".", session->commit.gid),
					 errhint("It will be rolled back there in the background. See "
							 "rdma.transactions.")));
	}
	if (commit && part_count > 0)
		rf_step("commit_left", 0);
	if (gated)
		rf_gate_finished();		/* the lock goes with the transaction's remaining locks */
	gated = late = false;
	if (number != 0)
	{
		if (commit && decided)
			rf_commit_written();
		rf_commit_end();
	}
	number = 0;
	decided = false;
	parts = NULL;
	polls = NULL;
	part_count = 0;
}
