/*
 * wait.c - waits for sessions, in two ways: interruptibly, raising errors, and with a deadline,
 * never raising errors, for aborts.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "rdma_fdw/compat.h"
#include "session.h"
#include "waiting.h"

/* How long nodes that still work may delay the error of another node. */
#define ERROR_PATIENCE_MS	1000

uint32
rf_session_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = rf_wait_event_new("RdmaFdwQuery");
	return event;
}

int
rf_session_wait(RfSession *session, int events, long timeout_ms)
{
	int			got;

	rf_waiting_begin();
	got = rf_socket_wait(&session->wait, PQsocket(session->conn), events, timeout_ms,
						 rf_session_wait_event());
	if (got & WL_LATCH_SET)
		ResetLatch(MyLatch);
	rf_waiting_check();
	if (got != WL_TIMEOUT)
		rf_waiting_end();		/* else it is the same wait that goes on */
	CHECK_FOR_INTERRUPTS();
	return got;
}

void
rf_session_pause(uint32 wait_event, long timeout_ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout_ms,
					 wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

void
rf_session_await_input(RfSession *session)
{
	int			got = rf_session_wait(session, WL_SOCKET_READABLE, -1);

	if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
		rf_session_lost(session);
}

/*
 * Sends everything that is queued. The server may be writing, too: its output is read meanwhile, or
 * both sides would wait for ever.
 */
void
rf_session_flush(RfSession *session)
{
	int			left;

	while ((left = PQflush(session->conn)) > 0)
	{
		int			got = rf_session_wait(session, WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE, -1);

		if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
			rf_session_lost(session);
	}
	if (left < 0)
		rf_session_lost(session);
}

bool
rf_session_send(RfSession *session, const char *sql)
{
	return PQsendQueryParams(session->conn, sql, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

bool
rf_result_is_copy(const PGresult *result)
{
	return PQresultStatus(result) == PGRES_COPY_IN || PQresultStatus(result) == PGRES_COPY_OUT ||
		PQresultStatus(result) == PGRES_COPY_BOTH;
}

bool
rf_result_succeeded(const PGresult *result)
{
	return PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;
}

void
rf_session_start(RfSession *session, const char *sql)
{
	if (!PQsendQuery(session->conn, sql))
		rf_session_lost(session);
	rf_session_flush(session);
}

PGresult *
rf_session_last_result(RfSession *session)
{
	PGresult   *last = NULL;

	do
	{
		PGresult   *result;

		while (PQisBusy(session->conn))
			rf_session_await_input(session);
		result = PQgetResult(session->conn);
		if (result == NULL)
			break;
		PQclear(last);
		last = result;
	} while (!rf_result_is_copy(last));
	/* no command of ours copies; a server that goes away closes the connection behind its words */
	if (last == NULL || rf_result_is_copy(last) || PQstatus(session->conn) != CONNECTION_OK)
	{
		PQclear(last);
		rf_session_lost(session);
	}
	return last;
}

/*
 * Answers are taken in order, and so are errors: which of several nodes' errors is raised must not
 * depend on their speed. But one node may have failed while those before it still work. They have
 * ERROR_PATIENCE_MS to end with an error of their own.
 */
int
rf_sessions_await(RfSession *const *sessions, int count, bool (*take) (void *answers, int i),
				  bool (*is_error) (void *answers, int i), void *answers)
{
	for (int i = 0; i < count; i++)
	{
		while (!take(answers, i))
		{
			int			got = rf_session_wait(sessions[i], WL_SOCKET_READABLE, ERROR_PATIENCE_MS);

			if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(sessions[i]->conn))
				rf_session_lost(sessions[i]);
			for (int j = i + 1; (got & WL_TIMEOUT) && j < count; j++)
			{
				if (!PQconsumeInput(sessions[j]->conn))
					rf_session_lost(sessions[j]);
				if (take(answers, j) && is_error(answers, j))
					return j;
			}
		}
		if (is_error(answers, i))
			return i;
	}
	return -1;
}

/* ---------- for aborts: nothing here raises an error ---------- */

/* Sleeps until something may have come. False: the time is up, or the connection is lost. */
static bool
await_input_until(PGconn *conn, TimestampTz deadline)
{
	long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
	int			got;

	if (left <= 0)
		return false;
	got = WaitLatchOrSocket(MyLatch,
							WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							PQsocket(conn), left, rf_session_wait_event());
	if (got & WL_LATCH_SET)
		ResetLatch(MyLatch);
	return (got & WL_SOCKET_READABLE) == 0 || PQconsumeInput(conn);
}

/* Takes answers until the remote server is ready for a command. False: it was not ready in time. */
bool
rf_session_drain_deadline(RfSession *session, TimestampTz deadline)
{
	PGconn	   *conn = session->conn;
	bool		synced = PQpipelineStatus(conn) == PQ_PIPELINE_OFF;

	do
	{
		if (PQstatus(conn) != CONNECTION_OK || PQflush(conn) < 0)
			return false;
		while (!PQisBusy(conn))
		{
			PGresult   *result = PQgetResult(conn);

			/* libpq gives nothing else before data have been copied */
			if (rf_result_is_copy(result))
			{
				PQclear(result);
				return false;
			}
			if (result == NULL && synced)
			{
				if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF && !PQexitPipelineMode(conn))
					return false;
				return PQtransactionStatus(conn) != PQTRANS_ACTIVE &&
					PQtransactionStatus(conn) != PQTRANS_UNKNOWN;
			}
			if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
				synced = true;
			PQclear(result);
			if (PQstatus(conn) != CONNECTION_OK)
				return false;
		}
	} while (await_input_until(conn, deadline));
	return false;
}

/*
 * Runs a command (NULL: it was sent already) and returns its result, of any status; NULL when it
 * did not come in time.
 */
PGresult *
rf_session_command_deadline(RfSession *session, const char *sql, TimestampTz deadline)
{
	PGconn	   *conn = session->conn;
	PGresult   *last = NULL;

	if (sql && !rf_session_send(session, sql))
		return NULL;
	do
	{
		if (PQflush(conn) < 0)
			break;
		while (!PQisBusy(conn))
		{
			PGresult   *result = PQgetResult(conn);

			if (result == NULL)
				return last;
			PQclear(last);
			last = result;
			session->broken |= rf_result_is_copy(last);
			if (PQstatus(conn) != CONNECTION_OK || rf_result_is_copy(last))
				return last;
		}
	} while (await_input_until(conn, deadline));
	PQclear(last);
	return NULL;
}
