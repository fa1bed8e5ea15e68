/*
 * import.c - IMPORT FOREIGN SCHEMA: asks the data node for its tables and writes CREATE FOREIGN
 * TABLE.
 *
 * Core runs the commands, and drops commands that LIMIT TO and EXCEPT exclude; here these lists
 * only reduce the work of the data node and the data sent.
 *
 * For a server with nodes each node is queried; a table must be the same everywhere.
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/sql_text.h"

#include "catalog.h"

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

/* The options of IMPORT FOREIGN SCHEMA, with postgres_fdw's names and defaults. */
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

/*
 * The query for the columns of all tables that IMPORT FOREIGN SCHEMA may create: a row per column,
 * ordered by table and column.
 */
static char *
columns_query(ImportForeignSchemaStmt *stmt)
{
	bool		limited = stmt->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO;
	StringInfoData buf;
	ListCell   *lc;

	/*
	 * A collation is named only if it differs from the type's own. Types print with their schema
	 * unless they are in pg_catalog, the remote session's search_path.
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
	rf_append_literal(&buf, stmt->remote_schema);

	/* Partitions are imported as parts of their parent; alone only if requested by name. */
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
			rf_append_literal(&buf, rv->relname);
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

/*
 * Appends a column's definition. Types and expressions come from another server, so they are only
 * used after the parser has read them whole.
 */
static void
append_column(StringInfo buf, PGresult *result, int row, const ImportOptions *options)
{
	const char *name = PQgetvalue(result, row, COL_ATTNAME);
	const char *default_expr = value_or_null(result, row, COL_DEFAULT);
	const char *generated = value_or_null(result, row, COL_GENERATED);
	const char *collation = value_or_null(result, row, COL_COLLATION);
	bool		is_generated = generated != NULL && generated[0] == 's';

	appendStringInfo(buf, "\n  %s ", quote_identifier(name));
	rf_append_type(buf, PQgetvalue(result, row, COL_TYPE));

	/* The remote name is stored separately, so that the column can be renamed here. */
	appendStringInfoString(buf, " OPTIONS (column_name ");
	rf_append_literal(buf, name);
	appendStringInfoChar(buf, ')');

	if (options->collate && collation != NULL)
		appendStringInfo(buf, " COLLATE %s.%s",
						 quote_identifier(PQgetvalue(result, row, COL_COLLATION_SCHEMA)),
						 quote_identifier(collation));

	if (options->defaults && default_expr != NULL && (generated == NULL || generated[0] == '\0'))
	{
		appendStringInfoString(buf, " DEFAULT ");
		rf_append_expression(buf, default_expr);
	}
	if (options->generated && default_expr != NULL && is_generated)
	{
		appendStringInfoString(buf, " GENERATED ALWAYS AS ");
		rf_append_expression(buf, default_expr);
		appendStringInfoString(buf, " STORED");
	}

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
		rf_append_literal(&buf, stmt->remote_schema);
		appendStringInfoString(&buf, ", table_name ");
		rf_append_literal(&buf, table);
		appendStringInfoString(&buf, ");");

		commands = lappend(commands, buf.data);
	}
	return commands;
}

/* The node's answer. The caller PQclears it. */
static PGresult *
ask_columns(ImportForeignSchemaStmt *stmt, ForeignServer *node)
{
	RfSession  *session = rf_session_get(rf_user_mapping(GetUserId(), node->serverid), false);
	PGresult   *result;
	StringInfoData buf;
	bool		found;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ");
	rf_append_literal(&buf, stmt->remote_schema);
	result = rf_session_ask(session, buf.data, 1, 0, 1);
	found = PQntuples(result) == 1;
	PQclear(result);
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_SCHEMA_NOT_FOUND),
				 errmsg("schema \"%s\" is not present on foreign server \"%s\"",
						stmt->remote_schema, node->servername)));

	return rf_session_ask(session, columns_query(stmt), NUM_IMPORT_COLS, 0, PG_INT32_MAX);
}

static bool
same_value(PGresult *a, PGresult *b, int row, int col)
{
	return PQgetisnull(a, row, col) == PQgetisnull(b, row, col) &&
		strcmp(PQgetvalue(a, row, col), PQgetvalue(b, row, col)) == 0;
}

/* Both are sorted by table and column, so the first difference names a table that differs. */
static void
check_same(PGresult *a, ForeignServer *node_a, PGresult *b, ForeignServer *node_b)
{
	int			rows = Min(PQntuples(a), PQntuples(b));
	int			row = 0;
	PGresult   *longer = PQntuples(a) > PQntuples(b) ? a : b;
	const char *table;

	for (; row < rows; row++)
	{
		bool		same = true;

		for (int col = 0; col < NUM_IMPORT_COLS; col++)
			same = same && same_value(a, b, row, col);
		if (!same)
			break;
	}
	if (row == rows && PQntuples(a) == PQntuples(b))
		return;

	/* if two differ, the table that sorts first may be missing on the other node */
	table = PQgetvalue(row < rows ? a : longer, row, COL_RELNAME);
	if (row < rows && strcmp(PQgetvalue(b, row, COL_RELNAME), table) < 0)
		table = PQgetvalue(b, row, COL_RELNAME);
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_COLUMN_NAME),
			 errmsg("table \"%s\" is not the same on servers \"%s\" and \"%s\"",
					pstrdup(table), node_a->servername, node_b->servername),
			 errdetail("Columns, types, constraints NOT NULL, defaults or their order differ, or "
					   "one has no such table."),
			 errhint("Make the tables the same, or leave this one out with EXCEPT.")));
}

static void
ask_other_node(ImportForeignSchemaStmt *stmt, PGresult *result, ForeignServer *first,
			   ForeignServer *node)
{
	PGresult   *other = ask_columns(stmt, node);

	PG_TRY();
	{
		check_same(result, first, other, node);
	}
	PG_FINALLY();
	{
		PQclear(other);
	}
	PG_END_TRY();
}

/*
 * Returns the CREATE FOREIGN TABLE commands for a schema of the server. With several nodes a table
 * has to be the same on all of them.
 */
List *
rdmaImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverOid)
{
	ImportOptions options = read_import_options(stmt->options);
	ForeignServer *server = GetForeignServer(serverOid);
	List	   *nodes = rf_server_nodes(server);
	ForeignServer *first;
	PGresult   *result;
	List	   *commands = NIL;

	if (nodes == NIL)
		nodes = list_make1_oid(serverOid);
	first = GetForeignServer(linitial_oid(nodes));

	result = ask_columns(stmt, first);
	PG_TRY();
	{
		for (int i = 1; i < list_length(nodes); i++)
			ask_other_node(stmt, result, first, GetForeignServer(list_nth_oid(nodes, i)));
		commands = build_commands(stmt, server, result, &options);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();

	return commands;
}
