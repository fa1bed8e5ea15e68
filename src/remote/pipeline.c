/*
 * pipeline.c - several commands of a session in one round trip: the commands that begin the remote
 * transaction and its savepoints, other preparations, and one command whose result counts.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/clock.h"
#include "session.h"

/* Counts the statement. False when libpq refuses. */
static bool
send_opening(RfSession *session, const char *sql, RfPipeline *pipeline)
{
	pipeline->before++;
	pipeline->opening++;
	return rf_session_send(session, sql);
}

/*
 * The transaction's snapshot may be compared with the snapshots of other nodes: see
 * other_coordinators.c.
 */
static bool
send_others(RfSession *session, RfPipeline *pipeline)
{
	char	   *sql = rf_others_sql(session);
	bool		sent;

	session->snapshot.others.asked_us = rf_now_us();
	sent = send_opening(session, sql, pipeline);
	pfree(sql);
	return sent;
}

bool
rf_pipeline_begin(RfSession *session, int target, RfPipeline *pipeline)
{
	memset(pipeline, 0, sizeof(*pipeline));
	if (session->xact.depth == 0 && target > 0)
		rf_snapshot_begin(session);
	session->xact.untouched = false;
	if (PQenterPipelineMode(session->conn) != 1)
		return false;
	for (int level = session->xact.depth + 1; level <= target; level++)
	{
		char	   *begin = rf_transaction_begin_sql(session, level);
		const char *constraints = rf_constraints_sql(level);
		bool		sent = send_opening(session, begin, pipeline) &&
			(constraints == NULL || send_opening(session, constraints, pipeline));

		pfree(begin);
		session->xact.unsure = true;
		session->xact.depth = level;
		if (sent && level == 1 && session->node.pooled)
			sent = send_opening(session, RF_LOCAL_SETTINGS_SQL, pipeline);
		if (sent && level == 1 && IsolationUsesXactSnapshot() && session->node.compares &&
			rf_snapshot_is_common())
			sent = send_others(session, pipeline);
		if (!sent)
			return false;
	}
	return true;
}

void
rf_pipeline_send(RfSession *session, bool sent)
{
	if (!sent || !PQpipelineSync(session->conn))
		rf_session_lost(session);
	rf_session_flush(session);
}

bool
rf_pipeline_take(RfSession *session, RfPipeline *pipeline)
{
	PGconn	   *conn = session->conn;
	int			empty = 0;

	while (!PQisBusy(conn))
	{
		PGresult   *result = PQgetResult(conn);
		ExecStatusType status = PQresultStatus(result);

		if (result == NULL)
		{
			/* one stands behind every command */
			if (++empty > 1 || PQstatus(conn) != CONNECTION_OK)
				rf_session_lost(session);
			continue;
		}
		empty = 0;
		if (rf_result_is_copy(result))
		{
			PQclear(result);
			rf_session_lost(session);
		}
		if (status == PGRES_PIPELINE_SYNC)
		{
			PQclear(result);
			if (!PQexitPipelineMode(conn))
				rf_session_lost(session);
			return true;
		}
		/* commands that begin a transaction, or prepare; there may be a query among them */
		if (pipeline->before > 0 && rf_result_succeeded(result) && PQstatus(conn) == CONNECTION_OK)
		{
			pipeline->before--;
			if (pipeline->opening > 0)
				rf_others_note(session, result);
			if (pipeline->opening > 0 && --pipeline->opening == 0)
				session->xact.unsure = false;
			PQclear(result);
		}
		else if (pipeline->result == NULL && status != PGRES_PIPELINE_ABORTED)
			pipeline->result = result;
		else if (pipeline->later_error == NULL && status == PGRES_FATAL_ERROR)
			pipeline->later_error = result;
		else
			PQclear(result);
		if (PQstatus(conn) != CONNECTION_OK)
			rf_session_lost(session);
	}
	return false;
}

void
rf_pipeline_clear(RfPipeline *pipeline)
{
	PQclear(pipeline->result);
	PQclear(pipeline->later_error);
	pipeline->result = pipeline->later_error = NULL;
}

void
rf_pipeline_finish(RfSession *session, RfPipeline *pipeline)
{
	PG_TRY();
	{
		while (!rf_pipeline_take(session, pipeline))
			rf_session_await_input(session);
	}
	PG_CATCH();
	{
		rf_pipeline_clear(pipeline);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

PGresult *
rf_pipeline_result(RfPipeline *pipeline)
{
	PGresult   *result = pipeline->result;

	pipeline->result = NULL;
	rf_pipeline_clear(pipeline);
	return result;
}
