/*
 * query.c - commands on a session, and the greeting of the extension on the other side.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"
#include "shmem/peer_table.h"
#include "session.h"

#define OLDEST_EXTENSION	"1.1"	/* that has all functions which are called here */

const Oid	rf_stream_types[4] = {BYTEAOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID};

/*
 * A command under way on one session. A pipeline runs one statement of each text. A command that
 * the user wrote may be several, and may be of a kind that the protocol has for simple queries
 * only.
 */
typedef struct RemoteQuery
{
	RfSession  *session;
	const char *sql;
	bool		simple;			/* it was sent as one text with the commands that open remote
								 * (sub)transactions */
	int			opening;		/* then: results to come of these */
	bool		answered;
	PGresult   *last;			/* the last result counts, or the error that kept it from coming */
	RfPipeline	pipeline;		/* otherwise */
} RemoteQuery;

/* Whose command it is. */
typedef enum CommandKind
{
	OUR_STATEMENT,
	USER_COMMAND,
	USER_COMMAND_BARE			/* nothing is sent in front of it: it may refuse to run in a
								 * transaction block */
} CommandKind;

/* Statements of one string are one round trip, and one transaction if they do not say otherwise. */
static void
send_simple(RemoteQuery *query, int target, bool bare)
{
	RfSession  *session = query->session;
	StringInfoData buf;

	if (session->xact.depth == 0 && target > 0)
		rf_snapshot_begin(session);
	session->xact.untouched = false;
	initStringInfo(&buf);
	if (session->node.pooled && target == 0 && !bare)
		appendStringInfo(&buf, "%s;", RF_LOCAL_SETTINGS_SQL);
	for (int level = session->xact.depth + 1; level <= target && !bare; level++)
	{
		char	   *begin = rf_transaction_begin_sql(session, level);
		const char *constraints = rf_constraints_sql(level);

		query->opening += constraints ? 2 : 1;
		appendStringInfo(&buf, "%s;%s", begin, constraints ? constraints : "");
		pfree(begin);
		session->xact.depth = level;
		if (level == 1 && session->node.pooled)
			appendStringInfo(&buf, "%s;", RF_LOCAL_SETTINGS_SQL);
	}
	appendStringInfoString(&buf, query->sql);
	session->xact.unsure |= query->opening > 0;
	rf_session_start(session, buf.data);
	pfree(buf.data);
}

/* On a session that is settled. */
static void
send_query(RemoteQuery *query, RfSession *session, const char *sql, CommandKind kind)
{
	int			target = session->xact.wanted ? rf_transaction_target(session) :
		session->xact.depth;
	bool		sent;

	memset(query, 0, sizeof(*query));
	query->session = session;
	query->sql = sql;
	query->simple = kind != OUR_STATEMENT;
	if (query->simple)
	{
		send_simple(query, target, kind == USER_COMMAND_BARE);
		return;
	}
	sent = rf_pipeline_begin(session, target, &query->pipeline);
	if (sent && session->node.pooled && target == 0)
	{
		query->pipeline.before++;
		sent = rf_session_send(session, RF_LOCAL_SETTINGS_SQL);
	}
	rf_pipeline_send(session, sent && rf_session_send(session, sql));
}

/* Takes the results that libpq has received. True: all is here. */
static bool
take_results(void *queries, int i)
{
	RemoteQuery *query = (RemoteQuery *) queries + i;
	PGconn	   *conn = query->session->conn;

	if (!query->simple && !query->answered && rf_pipeline_take(query->session, &query->pipeline))
	{
		query->last = rf_pipeline_result(&query->pipeline);
		query->answered = true;
	}
	while (query->simple && !query->answered && !PQisBusy(conn))
	{
		PGresult   *result = PQgetResult(conn);

		if (result == NULL)
		{
			query->answered = true;
			break;
		}
		if (query->opening > 0 && PQresultStatus(result) == PGRES_COMMAND_OK &&
			--query->opening == 0)
			query->session->xact.unsure = false;
		if (query->last && PQresultStatus(query->last) == PGRES_FATAL_ERROR)
			PQclear(result);
		else
		{
			PQclear(query->last);
			query->last = result;
		}
		/* libpq returns no other result before the data are copied, and nothing copies them here */
		query->session->broken |= rf_result_is_copy(query->last);
		query->answered = PQstatus(conn) != CONNECTION_OK || rf_result_is_copy(query->last);
	}
	return query->answered;
}

static bool
result_is_error(void *queries, int i)
{
	RemoteQuery *query = (RemoteQuery *) queries + i;

	return PQstatus(query->session->conn) != CONNECTION_OK || !rf_result_succeeded(query->last);
}

__attribute__((noreturn)) static void
raise_failure(RemoteQuery *query)
{
	bool		copy = rf_result_is_copy(query->last);

	if (copy || PQstatus(query->session->conn) != CONNECTION_OK)
		PQclear(query->last);
	if (copy)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot copy from or to a client on server \"%s\"",
						query->session->server_name),
				 errcontext("remote SQL command: %s", query->sql)));
	if (PQstatus(query->session->conn) != CONNECTION_OK)
		rf_session_lost(query->session);
	rf_session_raise(query->session, query->last, query->sql);
}

static void
clear(RemoteQuery *query)
{
	PQclear(query->last);
	rf_pipeline_clear(&query->pipeline);
}

/* On sessions that are settled, at the same time. */
static void
run_queries(RfSession *const *sessions, int count, const char *sql, CommandKind kind,
			PGresult **results)
{
	RemoteQuery *queries = palloc0_array(RemoteQuery, count);
	volatile int failed = -1;

	if (count > 1 && kind != USER_COMMAND_BARE)
		rf_sessions_begin(sessions, count);
	PG_TRY();
	{
		for (int i = 0; i < count; i++)
			send_query(&queries[i], sessions[i], sql, kind);
		failed = rf_sessions_await(sessions, count, take_results, result_is_error, queries);
	}
	PG_CATCH();
	{
		for (int i = 0; i < count; i++)
			clear(&queries[i]);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (failed >= 0)
	{
		for (int i = 0; i < count; i++)
		{
			if (i != failed)
				clear(&queries[i]);
		}
		raise_failure(&queries[failed]);
	}
	for (int i = 0; i < count; i++)
	{
		if (rf_answer_is_valid(queries[i].last))
			continue;
		for (int j = 0; j < count; j++)
		{
			if (j != i)
				clear(&queries[j]);
		}
		rf_session_check_text(sessions[i], queries[i].last, sql);
	}
	for (int i = 0; i < count; i++)
		results[i] = queries[i].last;
	pfree(queries);
}

PGresult *
rf_session_query(RfSession *session, const char *sql)
{
	PGresult   *result;

	/* this may begin the remote transaction, for rows of loads */
	rf_session_settle(session);
	run_queries(&session, 1, sql, OUR_STATEMENT, &result);
	return result;
}

PGresult *
rf_session_ask(RfSession *session, const char *sql, int columns, int least, int most)
{
	PGresult   *result = rf_session_query(session, sql);

	if (!rf_answer_has(result, columns, least, most))
		rf_session_bad_answer(session, result, sql);
	return result;
}

PGresult *
rf_session_execute(RfSession *session, const char *sql)
{
	PGresult   *result;

	rf_sessions_execute(&session, 1, sql, false, &result);
	return result;
}

void
rf_sessions_execute(RfSession *const *sessions, int count, const char *sql, bool by_user,
					PGresult **results)
{
	for (int i = 0; i < count; i++)
	{
		rf_session_settle(sessions[i]);
		rf_session_will_write(sessions[i]);
	}
	run_queries(sessions, count, sql, by_user ? USER_COMMAND : OUR_STATEMENT, results);
}

void
rf_sessions_execute_bare(RfSession *const *sessions, int count, const char *path, const char *sql,
						 PGresult **results)
{
	bool	   *invalidated = palloc0_array(bool, count);
	RfSession **changed = palloc_array(RfSession *, count);
	PGresult  **set = palloc_array(PGresult *, count);
	char	   *command = psprintf("SELECT pg_catalog.set_config('search_path', %s, false)",
								   quote_literal_cstr(path));
	int			changed_count = 0;

	for (int i = 0; i < count; i++)
	{
		rf_session_settle(sessions[i]);
		if (sessions[i]->xact.depth > 0 || sessions[i]->node.pooled)
			continue;
		/* No abort reverts it: after an error the connection is used for nothing else. */
		invalidated[changed_count] = sessions[i]->invalidated;
		sessions[i]->invalidated = true;
		changed[changed_count++] = sessions[i];
	}
	run_queries(changed, changed_count, command, OUR_STATEMENT, set);
	for (int i = 0; i < changed_count; i++)
		PQclear(set[i]);
	run_queries(sessions, count, sql, USER_COMMAND_BARE, results);
	PG_TRY();
	{
		run_queries(changed, changed_count,
					"SELECT pg_catalog.set_config('search_path', '" RF_SEARCH_PATH "', false)",
					OUR_STATEMENT, set);
	}
	PG_CATCH();
	{
		for (int i = 0; i < count; i++)
			PQclear(results[i]);
		PG_RE_THROW();
	}
	PG_END_TRY();
	for (int i = 0; i < changed_count; i++)
	{
		PQclear(set[i]);
		changed[i]->invalidated = invalidated[i];
	}
	pfree(command);
	pfree(set);
	pfree(changed);
	pfree(invalidated);
}

/* ---------- hello ---------- */

/* A missing function of ours means that the extension is missing, or is another version. */
__attribute__((noreturn)) static void
raise_unless_missing(RfSession *session, PGresult *result, const char *sql)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (state == NULL || (strcmp(state, "42883") != 0 && strcmp(state, "3F000") != 0))
		rf_session_raise(session, result, sql);
	PQclear(result);
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION),
			 errmsg("server \"%s\" does not have the extension rdma_fdw of version %s or later",
					session->server_name, OLDEST_EXTENSION),
			 errdetail("Database \"%s\" there lacks the function that \"%s\" calls.",
					   PQdb(session->conn), sql),
			 errhint("Run CREATE EXTENSION rdma_fdw in that database, or ALTER EXTENSION "
					 "rdma_fdw UPDATE.")));
}

/* Checks the reply's version before the rest of it. Clears both results when it raises an error. */
static void
read_hello(RfSession *session, PGresult *answer, PGresult *prepare_error)
{
	int			length = 0;
	uint32		version = 0;

	if (PQntuples(answer) == 1 && PQnfields(answer) == 1)
		length = PQgetlength(answer, 0, 0);
	if (length >= (int) sizeof(version))
		memcpy(&version, PQgetvalue(answer, 0, 0), sizeof(version));
	if (length == (int) sizeof(RfHelloReply) && version == RF_WIRE_VERSION)
	{
		memcpy(&session->engines.hello, PQgetvalue(answer, 0, 0), sizeof(RfHelloReply));
		PQclear(answer);
		return;
	}

	PQclear(answer);
	PQclear(prepare_error);
	if (length >= (int) sizeof(version) && version != RF_WIRE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION),
				 errmsg("server \"%s\" speaks version %u of rdma_fdw's wire format, this one "
						"version %u",
						session->server_name, version, RF_WIRE_VERSION),
				 errhint("Upgrade rdma_fdw on %s server.",
						 RF_WIRE_BEHIND(version, "that", "this"))));
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("server \"%s\" answered the greeting with something else",
					session->server_name)));
}

/*
 * Introduce this node, and learn the other node's identity and where its engine listens. The
 * statement that starts streams is prepared in the same round trip the first time, under a new name
 * at each attempt: if an attempt's answer was not awaited it is not known whether the statement
 * exists. Inside a remote transaction, an error here must not abort more of it than of the local
 * one.
 */
void
rf_session_hello(RfSession *session, bool need_token)
{
	RfHelloReply *hello = &session->engines.hello;
	static const Oid hello_types[] = {BYTEAOID};
	RfHelloRequest request;
	const char *value = (const char *) &request;
	int			length = sizeof(request);
	int			format = 1;
	bool		prepare = !session->prepared.has_stream && !session->node.pooled;
	RfPipeline	pipeline;
	bool		sent;

	rf_session_free(session);
	rf_hello_request(&request, need_token);
	session->engines.hello_valid = false;
	if (prepare)
		snprintf(session->prepared.stream, sizeof(session->prepared.stream), "rdma_fdw_stream%u",
				 ++session->prepared.count);

	sent = rf_pipeline_begin(session, session->xact.depth == 0 ? 0 : rf_transaction_target(session),
							 &pipeline) &&
		PQsendQueryParams(session->conn, RF_HELLO_SQL, 1, hello_types, &value, &length, &format,
						  1) &&
		(!prepare || PQsendPrepare(session->conn, session->prepared.stream, RF_STREAM_SQL, 4,
								   rf_stream_types));
	rf_pipeline_send(session, sent);
	rf_pipeline_finish(session, &pipeline);

	if (PQresultStatus(pipeline.result) != PGRES_TUPLES_OK)
	{
		PQclear(pipeline.later_error);
		raise_unless_missing(session, pipeline.result, RF_HELLO_SQL);
	}
	read_hello(session, pipeline.result, pipeline.later_error);
	if (pipeline.later_error)
		raise_unless_missing(session, pipeline.later_error, RF_STREAM_SQL);
	hello->extension_version[sizeof(hello->extension_version) - 1] = '\0';
	hello->address[sizeof(hello->address) - 1] = '\0';
	session->engines.hello_valid = true;
	session->prepared.has_stream = !session->node.pooled;
}
