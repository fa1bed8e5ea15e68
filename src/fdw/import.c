/*
 * import.c
 *		IMPORT FOREIGN SCHEMA: asks the data node for its tables and writes CREATE FOREIGN TABLE.
 *
 * Core runs the commands, and throws away those that LIMIT TO and EXCEPT exclude; here these lists
 * only spare the data node and the wire the work.
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "libpq-fe.h"
#include "utils/builtins.h"

#include "rdma_fdw/fdw.h"
#include "rdma_fdw/remote.h"

typedef struct ImportOptions
{
	bool		collate;
	bool		defaults;
	bool		generated;
	bool		not_null;
} ImportOptions;

/* Columns of the query below */
enum
{
	COL_RELNAME,
	COL_ATTNAME,				/* NULL: a table without columns */
	COL_TYPE,
	COL_NOT_NULL,
	COL_DEFAULT,
	COL_GENERATED,
	COL_COLLATION,
	COL_COLLATION_SCHEMA,
	NUM_IMPORT_COLS
};

static ImportOptions
read_import_options(List *options)
{
	ImportOptions result = {.collate = true, .generated = true, .not_null = true};
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "import_collate") == 0)
			result.collate = defGetBoolean(def);
		else if (strcmp(def->defname, "import_default") == 0)
			result.defaults = defGetBoolean(def);
		else if (strcmp(def->defname, "import_generated") == 0)
			result.generated = defGetBoolean(def);
		else if (strcmp(def->defname, "import_not_null") == 0)
			result.not_null = defGetBoolean(def);
		else
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\"", def->defname),
					 errhint("Valid options in this context are: import_collate, import_default, "
							 "import_generated, import_not_null")));
	}
	return result;
}

/* A literal that is right whatever the remote session's standard_conforming_strings is. */
static void
append_literal(StringInfo buf, const char *value)
{
	appendStringInfoString(buf, quote_literal_cstr(value));
}

static char *
columns_query(ImportForeignSchemaStmt *stmt)
{
	bool		limited = stmt->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO;
	StringInfoData buf;
	ListCell   *lc;

	/*
	 * A collation is worth naming only if it is not the one the type has anyway.  Types print with
	 * their schema unless they are in pg_catalog, the remote session's search_path.
	 */
	initStringInfo(&buf);
	appendStringInfoString(&buf,
						   "SELECT c.relname, a.attname,"
						   " pg_catalog.format_type(a.atttypid, a.atttypmod),"
						   " a.attnotnull,"
						   " pg_catalog.pg_get_expr(d.adbin, d.adrelid),"
						   " a.attgenerated,"
						   " co.collname, con.nspname"
						   " FROM pg_catalog.pg_class c"
						   " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
						   " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid"
						   " AND a.attnum > 0 AND NOT a.attisdropped"
						   " LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
						   " LEFT JOIN pg_catalog.pg_attrdef d"
						   " ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
						   " LEFT JOIN pg_catalog.pg_collation co"
						   " ON co.oid = a.attcollation AND a.attcollation <> t.typcollation"
						   " LEFT JOIN pg_catalog.pg_namespace con ON con.oid = co.collnamespace"
						   " WHERE c.relkind IN ('r', 'v', 'f', 'm', 'p') AND n.nspname = ");
	append_literal(&buf, stmt->remote_schema);

	/* Partitions come with their parent, so by themselves only if asked for by name. */
	if (!limited)
		appendStringInfoString(&buf, " AND NOT c.relispartition");

	if (stmt->list_type != FDW_IMPORT_SCHEMA_ALL)
	{
		appendStringInfo(&buf, " AND c.relname %s (", limited ? "IN" : "NOT IN");
		foreach(lc, stmt->table_list)
		{
			RangeVar   *rv = lfirst_node(RangeVar, lc);

			if (lc != list_head(stmt->table_list))
				appendStringInfoString(&buf, ", ");
			append_literal(&buf, rv->relname);
		}
		appendStringInfoChar(&buf, ')');
	}

	appendStringInfoString(&buf, " ORDER BY c.relname, a.attnum");
	return buf.data;
}

static const char *
value_or_null(PGresult *result, int row, int col)
{
	return PQgetisnull(result, row, col) ? NULL : PQgetvalue(result, row, col);
}

static void
append_column(StringInfo buf, PGresult *result, int row, const ImportOptions *options)
{
	const char *name = PQgetvalue(result, row, COL_ATTNAME);
	const char *default_expr = value_or_null(result, row, COL_DEFAULT);
	const char *generated = value_or_null(result, row, COL_GENERATED);
	const char *collation = value_or_null(result, row, COL_COLLATION);
	bool		is_generated = generated != NULL && generated[0] == 's';

	appendStringInfo(buf, "\n  %s %s", quote_identifier(name), PQgetvalue(result, row, COL_TYPE));

	/* The remote name is kept apart, so that renaming the column here breaks nothing. */
	appendStringInfoString(buf, " OPTIONS (column_name ");
	append_literal(buf, name);
	appendStringInfoChar(buf, ')');

	if (options->collate && collation != NULL)
		appendStringInfo(buf, " COLLATE %s.%s",
						 quote_identifier(PQgetvalue(result, row, COL_COLLATION_SCHEMA)),
						 quote_identifier(collation));

	if (options->defaults && default_expr != NULL && (generated == NULL || generated[0] == '\0'))
		appendStringInfo(buf, " DEFAULT %s", default_expr);
	if (options->generated && default_expr != NULL && is_generated)
		appendStringInfo(buf, " GENERATED ALWAYS AS (%s) STORED", default_expr);

	if (options->not_null && PQgetvalue(result, row, COL_NOT_NULL)[0] == 't')
		appendStringInfoString(buf, " NOT NULL");
}

/* One command per table; rows of one table are adjacent. */
static List *
build_commands(ImportForeignSchemaStmt *stmt, ForeignServer *server, PGresult *result,
			   const ImportOptions *options)
{
	List	   *commands = NIL;
	int			nrows = PQntuples(result);
	int			row = 0;

	while (row < nrows)
	{
		const char *table = PQgetvalue(result, row, COL_RELNAME);
		StringInfoData buf;
		bool		first = true;

		initStringInfo(&buf);
		appendStringInfo(&buf, "CREATE FOREIGN TABLE %s (", quote_identifier(table));
		for (; row < nrows && strcmp(PQgetvalue(result, row, COL_RELNAME), table) == 0; row++)
		{
			if (PQgetisnull(result, row, COL_ATTNAME))
				continue;
			if (!first)
				appendStringInfoChar(&buf, ',');
			append_column(&buf, result, row, options);
			first = false;
		}
		appendStringInfo(&buf, "\n) SERVER %s\nOPTIONS (schema_name ",
						 quote_identifier(server->servername));
		append_literal(&buf, stmt->remote_schema);
		appendStringInfoString(&buf, ", table_name ");
		append_literal(&buf, table);
		appendStringInfoString(&buf, ");");

		commands = lappend(commands, buf.data);
	}
	return commands;
}

List *
rdmaImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverOid)
{
	ImportOptions options = read_import_options(stmt->options);
	ForeignServer *server = GetForeignServer(serverOid);
	UserMapping *user = GetUserMapping(GetUserId(), serverOid);
	RfSession  *session = rf_session_get(user, false);
	PGresult   *volatile result = NULL;
	List	   *commands = NIL;
	StringInfoData buf;

	PG_TRY();
	{
		initStringInfo(&buf);
		appendStringInfoString(&buf,
							   "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ");
		append_literal(&buf, stmt->remote_schema);
		result = rf_session_query(session, buf.data);
		if (PQntuples(result) != 1)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_SCHEMA_NOT_FOUND),
					 errmsg("schema \"%s\" is not present on foreign server \"%s\"",
							stmt->remote_schema, server->servername)));
		PQclear(result);
		result = NULL;

		result = rf_session_query(session, columns_query(stmt));
		if (PQnfields(result) != NUM_IMPORT_COLS)
			elog(ERROR, "unexpected number of columns in the remote catalog's answer");
		commands = build_commands(stmt, server, result, &options);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();

	return commands;
}
