/*
 * remote_error.c - raises errors of a data node here, with the information that users of this side
 * need.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"
#include "session.h"

/*
 * The line of an error's context that says which of a load's rows it is about; NULL if there is no
 * such line.
 */
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
 * The hint for a remote role that lacks one of the functions of the extension: the server that
 * refuses the call does not know its purpose. NULL: the text of the message shows another error.
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
		{"for function join_set", "write"},
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
	if (strcmp(sql, RF_HELLO_SQL) == 0)
		access = "read";		/* in any language */
	for (int i = 0; i < (int) lengthof(functions) && access == NULL; i++)
	{
		int			before = (int) strlen(primary) - (int) strlen(functions[i].ending);

		if (before >= 0 && strcmp(primary + before, functions[i].ending) == 0)
			access = functions[i].access;
	}
	if (access == NULL)
		return NULL;
	return psprintf("A superuser can allow it in database \"%s\" of that server: "
					"SELECT rdma.grant_access(%s, '%s').", PQdb(session->conn),
					quote_literal_cstr(quote_identifier(PQuser(session->conn))), access);
}

/* The hint for a type that a node lacks; NULL: the text of the message shows another error. */
static char *
type_hint(RfSession *session, int code, const char *primary)
{
	if (code != ERRCODE_UNDEFINED_OBJECT || strncmp(primary, "type ", strlen("type ")) != 0)
		return NULL;
	return psprintf("Types have to be on all servers: SELECT rdma.run_on(%s, 'CREATE TYPE ...').",
					quote_literal_cstr(session->server_name));
}

/* The objects that an error is about, as the node names them: programs look for constraints. */
static const int field_codes[] =
{
	PG_DIAG_SCHEMA_NAME, PG_DIAG_TABLE_NAME, PG_DIAG_COLUMN_NAME, PG_DIAG_DATATYPE_NAME,
	PG_DIAG_CONSTRAINT_NAME
};

typedef struct ErrorFields
{
	const char *texts[lengthof(field_codes)];	/* NULL: not given */
} ErrorFields;

static ErrorFields
copy_fields(const PGresult *result)
{
	ErrorFields fields = {0};

	for (int i = 0; i < (int) lengthof(field_codes) && result != NULL; i++)
	{
		const char *text = PQresultErrorField(result, field_codes[i]);

		fields.texts[i] = text ? rf_message_text(pstrdup(text)) : NULL;
	}
	return fields;
}

static int
set_fields(const ErrorFields *fields)
{
	for (int i = 0; i < (int) lengthof(field_codes); i++)
	{
		if (fields->texts[i] != NULL)
			err_generic_string(field_codes[i], fields->texts[i]);
	}
	return 0;
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
	ErrorFields fields;
	int			code = ERRCODE_CONNECTION_FAILURE;

	if (state && strlen(state) == 5)
		code = MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);

	/* libpq's memory is freed before the error is raised */
	primary = primary ? pstrdup(primary) : pchomp(PQerrorMessage(session->conn));
	primary = rf_message_text(primary);
	detail = detail ? rf_message_text(pstrdup(detail)) : NULL;
	if (hint != NULL)
		hint = rf_message_text(pstrdup(hint));
	else if ((hint = access_hint(session, code, primary, sql)) == NULL)
		hint = type_hint(session, code, primary);
	fields = copy_fields(result);
	row_line = find_row(context, &row);
	if (row_line)
		context = row_line == context ? NULL : pnstrdup(context, row_line - 1 - context);
	else
		context = context ? pstrdup(context) : NULL;
	context = rf_message_text(context);
	PQclear(result);

	ereport(ERROR,
			(errcode(code),
			 primary[0] != '\0' ? errmsg_internal("%s", primary) :
			 errmsg("server \"%s\" gave no reason for an error", session->server_name),
			 detail ? errdetail_internal("%s", detail) : 0,
			 hint ? errhint("%s", hint) : 0,
			 set_fields(&fields),
			 context ? errcontext("%s", context) : 0,
			 errcontext("remote SQL command on server \"%s\": %s", session->server_name, sql)));
}

void
rf_session_check_text(RfSession *session, PGresult *result, const char *sql)
{
	if (rf_answer_is_valid(result))
		return;
	PQclear(result);
	ereport(ERROR,
			(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
			 errmsg("server \"%s\" sent text that is not valid in encoding %s",
					session->server_name, GetDatabaseEncodingName()),
			 errcontext("remote SQL command: %s", sql)));
}

void
rf_session_bad_answer(RfSession *session, PGresult *result, const char *sql)
{
	PQclear(result);
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("server \"%s\" answered a question of rdma_fdw with something else",
					session->server_name),
			 errhint("Its extension rdma_fdw may be of another version, or objects of its "
					 "database were replaced."),
			 errcontext("remote SQL command: %s", sql)));
}
