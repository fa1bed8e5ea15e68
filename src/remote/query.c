/*
 * query.c - commands on a session, remote errors, and the greeting of the extension on the other
 * side.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "shmem/peer_table.h"
#include "session.h"

#define HELLO_SQL	"SELECT rdma.hello($1)"
#define OLDEST_EXTENSION	"1.0"	/* that has all functions which are called here */

const Oid	rf_stream_types[4] = {BYTEAOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID};

/* On a session that is settled. */
static PGresult *
run_query(RfSession *session, const char *sql)
{
	int			target = session->transactional ? rf_transaction_target(session) : session->depth;
	char	   *begin = NULL;
	const char *text = sql;
	PGresult   *volatile last = NULL;
	int			opening = target - session->depth;

	/* Statements of one string are one round trip, and one transaction if they do not say otherwise. */
	if (opening > 0 || (session->shared && target == 0))
	{
		StringInfoData buf;

		initStringInfo(&buf);
		if (target == 0)
			appendStringInfo(&buf, "%s;", RF_LOCAL_SETTINGS_SQL);
		for (int level = session->depth + 1; level <= target; level++)
		{
			begin = rf_transaction_begin_sql(session, level);
			appendStringInfo(&buf, "%s;", begin);
			pfree(begin);
			if (level == 1 && session->shared)
				appendStringInfo(&buf, "%s;", RF_LOCAL_SETTINGS_SQL);
		}
		appendStringInfoString(&buf, sql);
		text = buf.data;
		session->unsure |= opening > 0;
		session->depth = target;
	}

	if (!PQsendQuery(session->conn, text))
		rf_session_lost(session);
	rf_session_flush(session);

	PG_TRY();
	{
		PGresult   *result;

		while ((result = rf_session_result(session)) != NULL)
		{
			if (opening > 0 && PQresultStatus(result) == PGRES_COMMAND_OK && --opening == 0)
				session->unsure = false;
			/* the last result counts, or the error that kept it from coming */
			if (last && PQresultStatus(last) == PGRES_FATAL_ERROR)
				PQclear(result);
			else
			{
				PQclear(last);
				last = result;
			}
			if (PQstatus(session->conn) != CONNECTION_OK)
				break;
		}
	}
	PG_CATCH();
	{
		PQclear(last);
		PG_RE_THROW();
	}
	PG_END_TRY();

	if (text != sql)
		pfree(unconstify(char *, text));
	if (PQstatus(session->conn) != CONNECTION_OK)
	{
		PQclear(last);
		rf_session_lost(session);
	}
	if (PQresultStatus(last) != PGRES_TUPLES_OK && PQresultStatus(last) != PGRES_COMMAND_OK)
		rf_session_raise(session, last, sql);
	return last;
}

PGresult *
rf_session_query(RfSession *session, const char *sql)
{
	/* this may begin the remote transaction, for rows of loads */
	rf_session_settle(session);
	return run_query(session, sql);
}

PGresult *
rf_session_execute(RfSession *session, const char *sql)
{
	rf_session_settle(session);
	session->wrote = true;
	return run_query(session, sql);
}

/* The line of an error's context that says which of a load's rows it is about; NULL: there is none. */
static const char *
find_row(const char *context, uint64 *row)
{
	const char *line = context ? strrchr(context, '\n') : NULL;
	unsigned long long number;
	int			length = 0;

	*row = 0;
	if (context == NULL)
		return NULL;
	line = line ? line + 1 : context;
	if (sscanf(line, RF_STORE_ROW_CONTEXT "%n", &number, &length) != 1 ||
		length == 0 || line[length] != '\0')
		return NULL;
	*row = number;
	return line;
}

uint64
rf_error_row(const PGresult *result)
{
	uint64		row;

	(void) find_row(result ? PQresultErrorField(result, PG_DIAG_CONTEXT) : NULL, &row);
	return row;
}

/*
 * What to do when the remote role lacks one of the functions that it serves us with: the server that
 * refuses the call knows nothing of what it is for. NULL: that is not the error, as far as the text
 * of the message tells.
 */
static char *
access_hint(RfSession *session, int code, const char *primary, const char *sql)
{
	static const struct
	{
		const char *ending;
		const char *access;
	}			functions[] = {
		{"for function hello", "read"},
		{"for function stream", "read"},
		{"for function zero_pages", "read"},
		{"for function store", "write"},
		{"for function exchange", "exchange"},
		{"for function exchange_greet", "exchange"},
		{"for function exchange_connect", "exchange"},
		{"for function exchange_listen", "exchange"},
		{"for function exchange_open", "exchange"},
		{"for function exchange_stats", "exchange"}
	};
	const char *access = NULL;

	if (code != ERRCODE_INSUFFICIENT_PRIVILEGE)
		return NULL;
	if (strcmp(sql, HELLO_SQL) == 0)
		access = "read";		/* in whatever language */
	for (int i = 0; i < (int) lengthof(functions) && access == NULL; i++)
	{
		int			before = (int) strlen(primary) - (int) strlen(functions[i].ending);

		if (before >= 0 && strcmp(primary + before, functions[i].ending) == 0)
			access = functions[i].access;
	}
	if (access == NULL)
		return NULL;
	return psprintf("A superuser can allow it in database \"%s\" of that server: SELECT rdma.grant_access(%s, '%s').",
					PQdb(session->conn), quote_literal_cstr(quote_identifier(PQuser(session->conn))), access);
}

void
rf_session_raise(RfSession *session, PGresult *result, const char *sql)
{
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	const char *primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	const char *detail = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL) : NULL;
	const char *hint = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_HINT) : NULL;
	const char *context = result ? PQresultErrorField(result, PG_DIAG_CONTEXT) : NULL;
	const char *row_line;
	uint64		row;
	int			code = ERRCODE_CONNECTION_FAILURE;

	if (state && strlen(state) == 5)
		code = MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);

	/* libpq's memory goes before the error leaves */
	if (primary)
		primary = pstrdup(primary);
	else
		primary = pchomp(PQerrorMessage(session->conn));
	detail = detail ? pstrdup(detail) : NULL;
	hint = hint ? pstrdup(hint) : access_hint(session, code, primary, sql);
	row_line = find_row(context, &row);
	if (row_line)
		context = row_line == context ? NULL : pnstrdup(context, row_line - 1 - context);
	else
		context = context ? pstrdup(context) : NULL;
	PQclear(result);

	ereport(ERROR,
			(errcode(code),
			 primary[0] != '\0' ? errmsg_internal("%s", primary) :
			 errmsg("server \"%s\" gave no reason for an error", session->server_name),
			 detail ? errdetail_internal("%s", detail) : 0,
			 hint ? errhint("%s", hint) : 0,
			 context ? errcontext("%s", context) : 0,
			 errcontext("remote SQL command: %s", sql)));
}

void
rf_append_text_array(StringInfo buf, int count, const char *const *values)
{
	bool		nulls = false;

#define PUT32(v) do { uint32 be_ = pg_hton32((uint32) (v)); appendBinaryStringInfo(buf, (char *) &be_, 4); } while (0)
	for (int i = 0; i < count; i++)
		nulls |= values[i] == NULL;
	PUT32(count > 0 ? 1 : 0);
	PUT32(nulls);
	PUT32(TEXTOID);
	if (count > 0)
	{
		PUT32(count);
		PUT32(1);
	}
	for (int i = 0; i < count; i++)
	{
		if (values[i] == NULL)
			PUT32(-1);
		else
		{
			uint32		length = strlen(values[i]);

			PUT32(length);
			appendBinaryStringInfo(buf, values[i], length);
		}
	}
#undef PUT32
}

/* ---------- hello ---------- */

/*
 * A function of ours that is not there means that the extension is not, or that it is another one.
 */
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
			 errdetail("Database \"%s\" there lacks the function that \"%s\" calls.", PQdb(session->conn), sql),
			 errhint("Run CREATE EXTENSION rdma_fdw in that database, or ALTER EXTENSION rdma_fdw UPDATE.")));
}

/*
 * Checks the reply's version before anything else of it; clears both results when it raises an
 * error.
 */
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
		memcpy(&session->hello, PQgetvalue(answer, 0, 0), sizeof(RfHelloReply));
		PQclear(answer);
		return;
	}

	PQclear(answer);
	PQclear(prepare_error);
	if (length >= (int) sizeof(version) && version != RF_WIRE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION),
				 errmsg("server \"%s\" speaks version %u of rdma_fdw's wire format, this one version %u",
						session->server_name, version, RF_WIRE_VERSION),
				 errhint("Upgrade rdma_fdw on %s server.",
						 RF_WIRE_BEHIND(version, "that", "this"))));
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("server \"%s\" answered the greeting with something else", session->server_name)));
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
	static const Oid hello_types[] = {BYTEAOID};
	RfHelloRequest request;
	const char *value = (const char *) &request;
	int			length = sizeof(request);
	int			format = 1;
	bool		prepare = !session->prepared && !session->shared;
	RfPipeline	pipeline;
	bool		sent;

	rf_session_free(session);
	rf_hello_request(&request, need_token);
	session->hello_valid = false;
	if (prepare)
		snprintf(session->stream_statement, sizeof(session->stream_statement), "rdma_fdw_stream%u",
				 ++session->statement_count);

	sent = rf_pipeline_begin(session, session->depth == 0 ? 0 : rf_transaction_target(session), &pipeline) &&
		PQsendQueryParams(session->conn, HELLO_SQL, 1, hello_types, &value, &length, &format, 1) &&
		(!prepare || PQsendPrepare(session->conn, session->stream_statement, RF_STREAM_SQL, 4,
								   rf_stream_types));
	rf_pipeline_send(session, sent);
	rf_pipeline_finish(session, &pipeline);

	if (PQresultStatus(pipeline.result) != PGRES_TUPLES_OK)
	{
		PQclear(pipeline.later_error);
		raise_unless_missing(session, pipeline.result, HELLO_SQL);
	}
	read_hello(session, pipeline.result, pipeline.later_error);
	if (pipeline.later_error)
		raise_unless_missing(session, pipeline.later_error, RF_STREAM_SQL);
	session->hello.extension_version[sizeof(session->hello.extension_version) - 1] = '\0';
	session->hello.address[sizeof(session->hello.address) - 1] = '\0';
	session->hello_valid = true;
	session->prepared = !session->shared;
}
