/*
 * sql_text.c - text of SQL statements, and data of other servers that goes into it.
 *
 * A server that runs a statement for another server trusts that server's role, not the values that
 * are in the text. So every value has one way into a text, and it is in this file or is one of
 * PostgreSQL's own quoting functions.
 */
#include "postgres.h"

#include <errno.h>
#include <math.h>

#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"

/* ---------- text ---------- */

const char *
rf_message_text(const char *text)
{
	char	   *copy;

	if (text == NULL || pg_verifymbstr(text, strlen(text), true))
		return text;
	copy = pstrdup(text);
	for (char *c = copy; *c != '\0'; c++)
	{
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	}
	return copy;
}

/* ---------- the form of an answer ---------- */

bool
rf_answer_has(const PGresult *result, int columns, int least, int most)
{
	return PQresultStatus(result) == PGRES_TUPLES_OK && PQnfields(result) == columns &&
		PQntuples(result) >= least && PQntuples(result) <= most;
}

bool
rf_answer_is_valid(const PGresult *result)
{
	for (int column = 0; column < PQnfields(result); column++)
	{
		if (PQfformat(result, column) != 0)
			continue;
		for (int row = 0; row < PQntuples(result); row++)
		{
			if (!pg_verifymbstr(PQgetvalue(result, row, column), PQgetlength(result, row, column),
								true))
				return false;
		}
	}
	return true;
}

/* ---------- numbers ---------- */

static bool
to_int64(const char *text, int64 least, int64 most, int64 *value)
{
	const char *digits = text[0] == '-' ? text + 1 : text;
	long long	number;

	if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits))
		return false;
	errno = 0;
	number = strtoll(text, NULL, 10);
	if (errno != 0 || number < least || number > most)
		return false;
	*value = number;
	return true;
}

static bool
to_double(const char *text, double least, double most, double *value)
{
	char	   *end;
	double		number;

	/* strtod() would also take blanks, hexadecimal digits and words */
	if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))
		return false;
	number = strtod(text, &end);
	if (*end != '\0' || !isfinite(number) || number < least || number > most)
		return false;
	*value = number;
	return true;
}

/* Returns NULL if the field is missing. */
static const char *
field(const PGresult *result, int row, int column)
{
	if (row >= PQntuples(result) || column >= PQnfields(result) || PQgetisnull(result, row, column))
		return NULL;
	return PQgetvalue(result, row, column);
}

bool
rf_answer_int64(const PGresult *result, int row, int column, int64 least, int64 most, int64 *value)
{
	const char *text = field(result, row, column);

	return text != NULL && to_int64(text, least, most, value);
}

bool
rf_answer_double(const PGresult *result, int row, int column, double least, double most,
				 double *value)
{
	const char *text = field(result, row, column);

	return text != NULL && to_double(text, least, most, value);
}

bool
rf_answer_is_true(const PGresult *result, int row, int column)
{
	const char *text = field(result, row, column);

	return text != NULL && strcmp(text, "t") == 0;
}

/* ---------- statements ---------- */

void
rf_append_literal(StringInfo buf, const char *value)
{
	/* correct under any standard_conforming_strings of the remote session */
	char	   *literal = quote_literal_cstr(value);

	appendStringInfoString(buf, literal);
	pfree(literal);
}

void
rf_append_type(StringInfo buf, const char *name)
{
	Oid			type;
	int32		modifier;

	rf_parse_type(name, &type, &modifier);
	appendStringInfoString(buf, format_type_extended(type, modifier,
													 FORMAT_TYPE_TYPEMOD_GIVEN |
													 FORMAT_TYPE_FORCE_QUALIFY));
}

/* Returns true if the parsed text has anything but one expression. */
static bool
has_more(const SelectStmt *select)
{
	return select->op != SETOP_NONE || select->distinctClause != NIL || select->fromClause != NIL ||
		select->whereClause != NULL || select->groupClause != NIL ||
		select->havingClause != NULL || select->windowClause != NIL ||
		select->sortClause != NIL || select->limitOffset != NULL || select->limitCount != NULL ||
		select->lockingClause != NIL || list_length(select->targetList) != 1 ||
		linitial_node(ResTarget, select->targetList)->name != NULL;
}

void
rf_append_expression(StringInfo buf, const char *expression)
{
	List	   *parsed = raw_parser(expression, RAW_PARSE_PLPGSQL_EXPR);

	if (has_more(castNode(SelectStmt, linitial_node(RawStmt, parsed)->stmt)))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("\"%s\" is not one expression", rf_message_text(expression))));
	/* it may end in a comment */
	appendStringInfo(buf, "(%s\n)", expression);
}

void
rf_append_array_member(StringInfo array, const char *text)
{
	appendStringInfoString(array, array->len == 0 ? "{\"" : ",\"");
	for (const char *p = text; *p; p++)
	{
		if (*p == '"' || *p == '\\')
			appendStringInfoChar(array, '\\');
		appendStringInfoChar(array, *p);
	}
	appendStringInfoChar(array, '"');
}

void
rf_append_text_array(StringInfo buf, int count, const char *const *values)
{
	bool		nulls = false;

	for (int i = 0; i < count; i++)
		nulls |= values[i] == NULL;
	pq_sendint32(buf, count > 0 ? 1 : 0);
	pq_sendint32(buf, nulls);
	pq_sendint32(buf, TEXTOID);
	if (count > 0)
	{
		pq_sendint32(buf, count);
		pq_sendint32(buf, 1);
	}
	for (int i = 0; i < count; i++)
	{
		if (values[i] == NULL)
			pq_sendint32(buf, -1);
		else
		{
			uint32		length = strlen(values[i]);

			pq_sendint32(buf, length);
			appendBinaryStringInfo(buf, values[i], length);
		}
	}
}
