/*
 * command.c - statements with parameters on a session: single-row writes, and all other commands
 * that send values.
 *
 * A statement that runs once is sent as it is; from its second run on it is prepared there, unless
 * there is a connection pooler, behind which a prepared statement may not be found again. Commands
 * that must come before it (BEGIN, savepoints, PREPARE) travel in the same round trip. Prepared
 * statements that are no longer used are dropped along with a later command, so ending a statement
 * costs no round trip.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"
#include "session.h"

struct RfCommand
{
	RfSession  *session;
	uint32		connection;		/* number of the session's connection on which `name` is prepared;
								 * 0 if it is not prepared */
	char	   *sql;
	int			param_count;
	bool		writes;
	const char *before;			/* rf_command_precede; NULL: nothing */
	int			before_params;
	bool		used;			/* ran once */
	uint64		statement;		/* whose snapshot it runs under; 0: its own */
	char		name[NAMEDATALEN];
	/* of the execution under way: */
	RfPipeline	pipeline;
	bool		preparing;
	MemoryContextCallback gone;
};

/*
 * Runs when the statement's memory is freed, perhaps after an error: a later command drops the
 * prepared statement, and an answer that was not read is discarded.
 */
static void
command_gone(void *arg)
{
	RfCommand  *command = arg;
	RfSession  *session = command->session;
	MemoryContext caller;

	rf_pipeline_clear(&command->pipeline);
	if (command->connection == 0 || session->conn == NULL ||
		command->connection != session->prepared.connection)
		return;
	caller = MemoryContextSwitchTo(TopMemoryContext);
	session->prepared.garbage = lappend(session->prepared.garbage, pstrdup(command->name));
	MemoryContextSwitchTo(caller);
}

RfCommand *
rf_command_create(RfSession *session, const char *sql, int param_count, bool writes)
{
	RfCommand  *command = palloc0(sizeof(RfCommand));

	command->session = session;
	command->sql = pstrdup(sql);
	command->param_count = param_count;
	command->writes = writes;
	command->gone.func = command_gone;
	command->gone.arg = command;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &command->gone);
	return command;
}

void
rf_command_precede(RfCommand *command, const char *sql, int param_count)
{
	command->before = sql;
	command->before_params = param_count;
}

void
rf_command_in_statement(RfCommand *command, uint64 statement)
{
	command->statement = statement;
}

/* Drop the rest of earlier statements, inside a pipeline. */
static bool
send_garbage(RfSession *session, RfPipeline *pipeline)
{
	ListCell   *lc;

	foreach(lc, session->prepared.garbage)
	{
		char	   *sql = psprintf("DEALLOCATE %s", (char *) lfirst(lc));
		bool		sent = rf_session_send(session, sql);

		pfree(sql);
		if (!sent)
			return false;
		pipeline->before++;
	}
	list_free_deep(session->prepared.garbage);
	session->prepared.garbage = NIL;
	return true;
}

void
rf_command_send(RfCommand *command, const char *const *values)
{
	RfSession  *session = command->session;
	PGconn	   *conn = session->conn;
	RfStreamSnapshot snapshot;
	bool		under;
	bool		sent;

	rf_session_settle(session);
	if (session->conn == NULL || session->broken)
		rf_session_lost(session);

	if (command->writes)
		rf_session_will_write(session);
	command->preparing = false;
	under = rf_statement_snapshot_join(session, command->statement, &snapshot);
	sent = rf_pipeline_begin(session, rf_transaction_target(session), &command->pipeline) &&
		send_garbage(session, &command->pipeline);
	if (under)
	{
		command->pipeline.before++;
		sent = sent && rf_statement_snapshot_send(session, &snapshot, RF_STREAM_KEPT);
	}
	if (command->before != NULL)
	{
		command->pipeline.before++;
		sent = sent && PQsendQueryParams(conn, command->before, command->before_params, NULL,
										 values, NULL, NULL, 0) == 1;
	}
	if (!command->used || session->node.pooled)
		sent = sent && PQsendQueryParams(conn, command->sql, command->param_count, NULL,
										 values, NULL, NULL, 0) == 1;
	else
	{
		command->preparing = command->connection != session->prepared.connection;
		if (command->preparing)
		{
			snprintf(command->name, sizeof(command->name), "rdma_fdw_s%u",
					 ++session->prepared.count);
			command->pipeline.before++;
			sent = sent && PQsendPrepare(conn, command->name, command->sql, 0, NULL) == 1;
		}
		sent = sent && PQsendQueryPrepared(conn, command->name, command->param_count, values, NULL,
										   NULL, 0) == 1;
	}
	command->used = true;
	rf_pipeline_send(session, sent);
}

PGresult *
rf_command_receive(RfCommand *command)
{
	RfSession  *session = command->session;
	PGresult   *result;

	rf_pipeline_finish(session, &command->pipeline);
	result = rf_pipeline_result(&command->pipeline);
	rf_session_check_text(session, result, command->sql);
	if (command->preparing && rf_result_succeeded(result))
		command->connection = session->prepared.connection;
	return result;
}

void
rf_command_raise(RfCommand *command, PGresult *result)
{
	rf_session_raise(command->session, result, command->sql);
}

PGresult *
rf_command_execute(RfCommand *command, const char *const *values)
{
	PGresult   *result;

	rf_command_send(command, values);
	result = rf_command_receive(command);
	if (!rf_result_succeeded(result))
		rf_command_raise(command, result);
	return result;
}

/* ---------- several nodes at once ---------- */

static bool
take_answer(void *commands, int i)
{
	RfCommand  *command = ((RfCommand *const *) commands)[i];

	return PQpipelineStatus(command->session->conn) == PQ_PIPELINE_OFF ||
		rf_pipeline_take(command->session, &command->pipeline);
}

static bool
answer_is_error(void *commands, int i)
{
	return !rf_result_succeeded(((RfCommand *const *) commands)[i]->pipeline.result);
}

void
rf_commands_execute(RfCommand **commands, int count, const char *const *values, PGresult **results)
{
	RfSession **sessions = palloc_array(RfSession *, count);
	int			failed;

	for (int i = 0; i < count; i++)
	{
		sessions[i] = commands[i]->session;
		rf_session_settle(sessions[i]);
	}
	if (count > 1)
		rf_sessions_begin(sessions, count);
	for (int i = 0; i < count; i++)
		rf_command_send(commands[i], values);
	failed = rf_sessions_await(sessions, count, take_answer, answer_is_error, commands);
	if (failed >= 0)
		rf_command_raise(commands[failed], rf_pipeline_result(&commands[failed]->pipeline));
	for (int i = 0; i < count; i++)
	{
		if (!rf_answer_is_valid(commands[i]->pipeline.result))
			rf_session_check_text(sessions[i], rf_pipeline_result(&commands[i]->pipeline),
								  commands[i]->sql);
	}
	for (int i = 0; i < count; i++)
	{
		if (commands[i]->preparing)
			commands[i]->connection = sessions[i]->prepared.connection;
		results[i] = rf_pipeline_result(&commands[i]->pipeline);
	}
	pfree(sessions);
}
