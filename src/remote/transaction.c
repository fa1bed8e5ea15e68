/*
 * transaction.c - the remote transactions that belong to the local one.
 *
 * A session that is used gets one transaction of the same isolation level, in which all scans of a
 * statement, or of the transaction, see one snapshot (statement_snapshot.c, snapshot.c), and a
 * savepoint for every subtransaction in which it is used. Nothing is sent before it is needed.
 * Commit and abort follow the local transaction (commit.c has the commit of several nodes). PREPARE
 * TRANSACTION is refused.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/elog.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "placement.h"
#include "session.h"
#include "waiting.h"

static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId mine,
								  SubTransactionId parent, void *arg);
static void at_resource_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
								void *arg);
static void commit_all(void);
static void refuse_prepare(void);
static void finish_all(bool commit);
static void stop_all(int level);
static void stop_senders(RfSession *session);
static bool is_active(RfSession *session);
static bool concerns(RfSession *session, int level);
static bool quiesce(RfSession *session);
static bool send_abort(RfSession *session, const char *sql);
static void await_abort(RfSession *session, int depth);
static void abort_transactions(void);
static void release_savepoints(int level);
static void abort_savepoints(int level);

static TimestampTz abort_started;

/* ---------- streams and loads in a session ---------- */

/* The answer to the stream that runs there, if one does. */
static void
await_stream(RfSession *session)
{
	while (session->running && !rf_stream_collect(session->running))
		rf_session_await_input(session);
}

/* Raises the error that voided the remote transaction, as far as it is known. */
__attribute__((noreturn)) static void
raise_void(RfSession *session)
{
	PGresult   *result = session->failed ? session->failed->answer.result : NULL;

	if (result == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
				 errmsg("the transaction on server \"%s\" is aborted", session->server_name)));
	session->failed->answer.result = NULL;
	rf_session_raise(session, result, session->failed->sql);
}

/* RfSessionUsers.free */
static void
free_session(RfSession *session)
{
	if (session->load)
		rf_load_interrupt(session->load);

	/* an error of the drained query is one here as well: the remote transaction is void */
	if (session->running && session->running->state == RF_STREAM_RUNNING)
		rf_stream_store(session->running);

	await_stream(session);

	/*
	 * A query that was told to stop had failed before it heard that: nothing more can be done in
	 * this remote transaction.
	 */
	if (session->failed)
		raise_void(session);
}

/* RfSessionUsers.lose */
static void
lose_all(RfSession *session)
{
	while (!dlist_is_empty(&session->streams))
		rf_stream_free(dlist_container(RfStream, node, dlist_pop_head_node(&session->streams)));
	session->running = NULL;
	if (session->load)
		rf_load_lose(session->load);
}

static const RfSessionUsers users = {rf_load_write_all, free_session, lose_all};

/* ---------- the local transaction ---------- */

void
rf_transaction_register(void)
{
	if (rf_session_users)
		return;
	rf_session_users = &users;
	rf_flow_woken = rf_waiting_check;
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
	RegisterResourceReleaseCallback(at_resource_release, NULL);
}

void
rf_transaction_set_constraints(bool deferred)
{
	List	   *open = rf_session_list_open();
	ListCell   *lc;

	rf_transaction_register();
	rf_constraints_remember(GetCurrentTransactionNestLevel(), deferred);
	foreach(lc, open)
		PQclear(rf_session_query(lfirst(lc), deferred ? "SET CONSTRAINTS ALL DEFERRED" :
								 "SET CONSTRAINTS ALL IMMEDIATE"));
	list_free(open);
}

/*
 * Callback of transactions: remote transactions commit before the local one, or prepare before it
 * and commit after it, and roll back with it.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		rf_constraints_end(1, false);
	if (!rf_session_in_use())
		return;

	switch (event)
	{
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_COMMIT:
			commit_all();
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			rf_commit_after();
			finish_all(true);
			break;
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_ABORT:
			finish_all(false);
			break;
	}
}

static void
at_resource_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS || !rf_session_in_use())
		return;
	rf_foreach_session(session)
		rf_stream_release_owner(session, CurrentResourceOwner);
}

static void
refuse_prepare(void)
{
	const char *used = NULL;

	rf_foreach_session(session)
		if (session->xact.depth > 0)
		used = session->server_name;
	if (used)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has operated on rdma_fdw foreign "
						"tables"),
				 errdetail("It used server \"%s\".", used)));
}

void
rf_session_abort_transaction(RfSession *session)
{
	const char *command = "ABORT TRANSACTION";

	await_stream(session);
	session->failed = NULL;
	session->xact.wrote = false;
	rf_statement_snapshots_forget(session);
	if (session->xact.depth == 0)
		return;
	rf_commit_send_end(session, command);
	rf_commit_await_end(session, command, 0, false);
}

/*
 * A scan that was told to stop may still be looking for a next row. A cancel voids the remote
 * transaction, so it is sent only where nothing is lost with that; else we wait, interruptibly.
 * statement_timeout does not run any more, so a node that does not even answer the cancel loses its
 * session here, and nothing else: all rows that the transaction wanted have come.
 */
static void
end_scan(RfSession *session)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RF_STOP_PATIENCE_MS);
	bool		cancelled = false;

	while (session->running && !rf_stream_collect(session->running))
	{
		long		left = -1;
		int			got;

		if (!rf_session_must_commit(session))
		{
			left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
			if (left <= 0 && !cancelled)
			{
				(void) rf_session_cancel(session, RF_CANCEL_TIMEOUT_MS);
				cancelled = true;
				left = RF_CANCEL_TIMEOUT_MS;
				deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), left);
			}
			else if (left <= 0)
				session->broken = true;
			if (session->broken)
			{
				session->xact.depth = 0;
				return;
			}
		}
		got = rf_session_wait(session, WL_SOCKET_READABLE, left);
		if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
			rf_session_lost(session);
	}
}

/*
 * Before the local commit: end or prepare all remote transactions. A failure is an error, which
 * aborts the local transaction. All failures that can be detected are detected before the first is
 * committed.
 */
static void
commit_all(void)
{
	/*
	 * scans that ended early: all are told before one is waited for, as they may wait for each
	 * other
	 */
	rf_foreach_session(session)
	{
		if (session->running)
			rf_stream_abandon(session->running);
	}
	rf_foreach_session(session)
	{
		if (session->xact.depth == 0)
			continue;
		if (session->broken || PQstatus(session->conn) != CONNECTION_OK)
			rf_session_lost(session);
		rf_serializable_commit(session);
		end_scan(session);
		if (session->xact.depth == 0)
			continue;
		if (session->load)
			rf_load_interrupt(session->load);
		if (session->xact.unsure)
			rf_session_lost(session);
		/* aborted by a scan that failed unread, or was cancelled */
		if (session->failed || PQtransactionStatus(session->conn) == PQTRANS_INERROR)
		{
			if (rf_session_must_commit(session))
				raise_void(session);
			rf_session_abort_transaction(session);
		}
		if (session->node.later_timeline)
			rf_timeline_keep(session->server_name, session->node.memberships);
	}

	rf_commit_before();
}

/*
 * After the local commit or abort: roll back all transactions that are still open, and close
 * unusable sessions.
 */
static void
finish_all(bool commit)
{
	if (!commit)
		abort_transactions();
	rf_commit_finish(commit);
	rf_waiting_end();
	rf_foreach_session(session)
	{
		session->loss.left_out = 0;
		if (session->loss.why != NULL)
			FreeErrorData(session->loss.why);
		session->loss.why = NULL;
		if (session->conn == NULL)
			continue;

		lose_all(session);
		session->xact.depth = 0;
		session->xact.wanted = false;
		session->xact.wrote = false;
		session->xact.reads_copies = false;
		session->suspect = false;

		if (session->broken || session->invalidated || session->xact.unsure ||
			!session->options.keep || PQstatus(session->conn) != CONNECTION_OK ||
			PQtransactionStatus(session->conn) != PQTRANS_IDLE)
			rf_session_disconnect(session);
	}
	rf_session_set_in_use(false);
}

/*
 * All sessions share the time of an abort, or of its cancel requests, but each gets a little of its
 * own.
 */
static TimestampTz
abort_deadline(RfSession *session, int timeout_ms)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(abort_started,
													   proc_exit_inprogress || session->suspect ?
													   RF_SHORT_ABORT_TIMEOUT_MS : timeout_ms);
	TimestampTz own = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RF_SHORT_ABORT_TIMEOUT_MS);

	return Max(deadline, own);
}

/*
 * The first half of quiesce(), for all sessions before the second of any, so that a node that does
 * not answer does not keep the other nodes from hearing that they shall stop. level: of the
 * sessions concerned.
 */
static void
stop_all(int level)
{
	RfSession  *first = NULL;
	RfSession  *last = NULL;

	abort_started = GetCurrentTimestamp();
	if (in_error_recursion_trouble())
		return;
	rf_foreach_session(session)
	{
		session->cancel.next = NULL;
		if (session->conn == NULL || !concerns(session, level))
			continue;
		stop_senders(session);
		if (session->broken || !is_active(session))
			continue;

		/*
		 * an answer may be on its way already, without which the cancel would hit nothing:
		 * harmless
		 */
		rf_session_cancel_start(session);
		if (session->cancel.request == NULL)
			continue;
		if (last)
			last->cancel.next = session;
		else
			first = session;
		last = session;
		last->cancel.next = first;
	}
}

static void
stop_senders(RfSession *session)
{
	if (session->running)
		rf_stream_lose(session->running);
	if (session->load)
		rf_load_lose(session->load);
}

/* Returns true if something runs there. */
static bool
is_active(RfSession *session)
{
	return PQstatus(session->conn) == CONNECTION_OK &&
		(PQtransactionStatus(session->conn) == PQTRANS_ACTIVE ||
		 PQpipelineStatus(session->conn) != PQ_PIPELINE_OFF);
}

/*
 * Returns true if the abort of this level affects the session. Yes also for an interrupted query
 * outside a remote transaction. Commands of an outer level continue.
 */
static bool
concerns(RfSession *session, int level)
{
	return level == 1 || session->xact.depth >= level ||
		(session->running == NULL && session->load == NULL &&
		 PQtransactionStatus(session->conn) == PQTRANS_ACTIVE);
}

/*
 * Make a session ready for commands: tell senders to stop, cancel its command, receive the answers.
 * False if that fails; the session is broken then. Raises no error.
 */
static bool
quiesce(RfSession *session)
{
	TimestampTz deadline = abort_deadline(session, RF_ABORT_TIMEOUT_MS);

	stop_senders(session);
	if (session->broken || PQstatus(session->conn) != CONNECTION_OK)
	{
		session->broken = true;
		return false;
	}
	if (session->cancel.request != NULL || is_active(session))
	{
		rf_session_cancel_start(session);	/* nothing if it was */
		if (!rf_session_cancel_finish(session, abort_deadline(session, RF_CANCEL_TIMEOUT_MS)))
			ereport(LOG,
					(errmsg("could not send a cancel request to server \"%s\"",
							session->server_name)));
		if (session->broken || !rf_session_drain_deadline(session, deadline))
		{
			session->broken = true;
			return false;
		}
	}
	return true;
}

/* Send a command that undoes something. False, and broken, when that fails. Raises nothing. */
static bool
send_abort(RfSession *session, const char *sql)
{
	if (!PQsendQuery(session->conn, sql) || PQflush(session->conn) < 0)
	{
		session->broken = true;
		return false;
	}
	return true;
}

static void
await_abort(RfSession *session, int depth)
{
	PGresult   *result = rf_session_command_deadline(session, NULL,
													 abort_deadline(session, RF_ABORT_TIMEOUT_MS));

	if (session->commit.part != RF_PART_NONE && rf_commit_rolled_back(result))
		session->commit.part = RF_PART_NONE;
	else if (PQresultStatus(result) != PGRES_COMMAND_OK)
		session->broken = true;
	PQclear(result);
	session->xact.depth = depth;
	session->xact.unsure = false;
}

/* In an error within an error there is nothing to gain from talking to other servers. */
static bool
ready_to_abort(RfSession *session)
{
	if (in_error_recursion_trouble())
	{
		session->broken = true;
		return false;
	}
	return quiesce(session);
}

/*
 * Sessions that were told and not heard yet have `aborting` set, in the second round of the two
 * functions below only.
 */
static void
abort_transactions(void)
{
	char		sql[RF_GID_SIZE + 32];

	stop_all(1);
	rf_foreach_session(session)
	{
		session->xact.aborting = false;
		if (session->conn == NULL || !ready_to_abort(session))
			continue;
		if (PQtransactionStatus(session->conn) == PQTRANS_IDLE)
		{
			session->xact.depth = 0;
			session->xact.unsure = false;
			if (session->commit.part == RF_PART_NONE)
				continue;
			snprintf(sql, sizeof(sql), "ROLLBACK PREPARED '%s'", session->commit.gid);
		}
		else
		{
			session->commit.part = RF_PART_NONE;	/* an open transaction was not prepared */
			strlcpy(sql, "ABORT TRANSACTION", sizeof(sql));
		}
		session->xact.aborting = send_abort(session, sql);
		if (session->xact.aborting && !session->options.parallel_abort)
		{
			await_abort(session, 0);
			session->xact.aborting = false;
		}
	}
	rf_foreach_session(session)
	{
		if (session->xact.aborting)
			await_abort(session, 0);
		session->xact.aborting = false;
	}
}

/*
 * Callback of subtransactions: the remote savepoints of this level are released or rolled back, and
 * its streams end or move up one level.
 */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level;

	if (event != SUBXACT_EVENT_PRE_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	level = GetCurrentTransactionNestLevel();
	rf_constraints_end(level, event == SUBXACT_EVENT_PRE_COMMIT_SUB);
	if (!rf_session_in_use())
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		abort_savepoints(level);
	else
		release_savepoints(level);
	rf_foreach_session(session)
	{
		if (session->conn)
			rf_stream_end_level(session, level, event == SUBXACT_EVENT_PRE_COMMIT_SUB);
	}
}

/*
 * A scan that was begun in the subtransaction may be read on by the outer one (a cursor): its rows
 * come here first.
 */
static void
release_savepoints(int level)
{
	char	   *sql = psprintf("RELEASE SAVEPOINT s%d", level);

	rf_foreach_session(session)
	{
		if (session->conn == NULL || session->xact.depth < level)
			continue;
		if (!session->broken && PQstatus(session->conn) == CONNECTION_OK)
			rf_session_settle(session);
		if (session->broken || session->xact.unsure || PQstatus(session->conn) != CONNECTION_OK)
			rf_session_lost(session);
		rf_commit_send_end(session, sql);
		if (!session->options.parallel_commit)
			rf_commit_await_end(session, sql, level - 1, false);
	}
	rf_foreach_session(session)
	{
		if (session->conn && session->xact.depth >= level)
			rf_commit_await_end(session, sql, level - 1, false);
	}
	pfree(sql);
}

/*
 * A running command was begun in this subtransaction or a deeper one if the session has a savepoint
 * for it, because a new command starts only after the previous one is finished. Otherwise it
 * belongs to an outer subtransaction and continues.
 */
static void
abort_savepoints(int level)
{
	char		sql[128];

	stop_all(level);
	snprintf(sql, sizeof(sql), "ROLLBACK TO SAVEPOINT s%d; RELEASE SAVEPOINT s%d", level, level);
	rf_foreach_session(session)
	{
		session->xact.aborting = false;
		if (session->conn == NULL)
			continue;
		if (session->xact.depth < level)
		{
			if (concerns(session, level))
				(void) quiesce(session);
			continue;
		}
		if (!ready_to_abort(session))
			continue;
		/* if it was not even made there, this fails */
		session->failed = NULL;
		session->xact.aborting = send_abort(session, sql);
		if (session->xact.aborting && !session->options.parallel_abort)
		{
			await_abort(session, level - 1);
			session->xact.aborting = false;
		}
	}
	rf_foreach_session(session)
	{
		if (session->xact.aborting)
			await_abort(session, level - 1);
		session->xact.aborting = false;
	}
}
