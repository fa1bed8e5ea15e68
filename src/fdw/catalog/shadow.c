/*
 * shadow.c - how core would define an index, a constraint or a trigger of a distributed table.
 *
 * It is created here, on a temporary table with the columns of the foreign table (its shadow), in a
 * subtransaction that is rolled back: core finds the faults, looks names up as the caller means
 * them, and its ruleutils write what the nodes get, with all schemas. The nodes are asked with the
 * rights and the user mapping of the table's owner.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"

#include "catalog.h"
#include "fdw/deparse/deparse.h"

/* ---------- tables of the nodes ---------- */

char *
rf_remote_table(Oid relid)
{
	ForeignTable *table = GetForeignTable(relid);
	RfTableOptions options;

	rf_table_options(table, GetForeignServer(table->serverid), &options);
	return rf_remote_relation_name(&options);
}

void
rf_run_there_as(Oid role, Oid relid, const char *command)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(relid)->serverid);

	(void) rf_ask_as(role, "SELECT pg_catalog.count(*) FROM rdma.run_on($1, $2)", 2,
					 NAMEOID, DirectFunctionCall1(namein, CStringGetDatum(server->servername)),
					 TEXTOID, CStringGetTextDatum(command));
}

void
rf_run_there(Oid relid, const char *command)
{
	rf_run_there_as(rf_relation_owner(relid), relid, command);
}

/* No other session alters it from here on. ERROR if it is not the caller's. */
void
rf_lock_own(Oid relid)
{
	if (!rf_relation_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	LockRelationOid(relid, ShareUpdateExclusiveLock);
}

/* A hint with the command to use instead. */
void
rf_refuse_there(Oid relid, const char *what, const char *detail, const char *remote)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(relid)->serverid);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot create %s on the nodes' tables of foreign table \"%s\"", what,
					get_rel_name(relid)),
			 errdetail("%s", detail),
			 errhint("On the nodes: SELECT rdma.run_on(%s, %s).",
					 quote_literal_cstr(server->servername),
					 quote_literal_cstr(psprintf(remote, rf_remote_table(relid))))));
}

/* ---------- the shadow of a table ---------- */

/* The shadow's text names columns as they are here. */
void
rf_check_column_names(Oid relid, const char *what, const char *remote)
{
	Relation	rel = relation_open(relid, NoLock);
	ListCell   *lc;

	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), i);

		if (column->attisdropped)
			continue;
		foreach(lc, GetForeignColumnOptions(relid, column->attnum))
		{
			DefElem    *option = lfirst_node(DefElem, lc);

			if (strcmp(option->defname, "column_name") == 0 &&
				strcmp(defGetString(option), NameStr(column->attname)) != 0)
				rf_refuse_there(relid, what, "Columns have other names there.", remote);
		}
	}
	relation_close(rel, NoLock);
}

/* The owner makes it: its indexes run the owner's code, as those of the table would. */
static Oid
create_shadow(Oid relid)
{
	char	   *name = get_rel_name(relid);
	char	   *space = get_namespace_name(get_rel_namespace(relid));
	Oid			temporary = LookupExplicitNamespace("pg_temp", true);
	RfRole		before;

	if (OidIsValid(temporary) && OidIsValid(get_relname_relid(name, temporary)))
		name = psprintf("rdma_shadow_%u", relid);
	rf_role_begin_making(&before, rf_relation_owner(relid));
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute(psprintf("CREATE TEMPORARY TABLE %s (LIKE %s)", quote_identifier(name),
							 quote_qualified_identifier(space, get_rel_name(relid))),
					false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create a table like \"%s\"", get_rel_name(relid));
	SPI_finish();
	rf_role_end(&before);
	return get_relname_relid(name, LookupExplicitNamespace("pg_temp", false));
}

/* The statement, or a part of ALTER TABLE, for the shadow instead of its table. */
static void
run_on_shadow(Node *statement, Oid shadow, const char *source)
{
	RangeVar   *name = makeRangeVar("pg_temp", get_rel_name(shadow), -1);
	PlannedStmt *planned = makeNode(PlannedStmt);

	statement = copyObject(statement);
	if (IsA(statement, IndexStmt))
	{
		((IndexStmt *) statement)->relation = name;
		((IndexStmt *) statement)->concurrent = false;
		((IndexStmt *) statement)->if_not_exists = false;
	}
	else if (IsA(statement, CreateTrigStmt))
	{
		((CreateTrigStmt *) statement)->relation = name;
		((CreateTrigStmt *) statement)->replace = false;
	}
	else
		castNode(AlterTableStmt, statement)->relation = name;
	planned->commandType = CMD_UTILITY;
	planned->utilityStmt = statement;
	planned->stmt_location = -1;
	ProcessUtility(planned, source, false, PROCESS_UTILITY_SUBCOMMAND, NULL, NULL, None_Receiver,
				   NULL);
	CommandCounterIncrement();
}

/* What follows the table's name in the definition of the shadow's only index, or a constraint's. */
static char *
shadow_definition(Oid shadow, bool constraint)
{
	Relation	rel = relation_open(shadow, NoLock);
	Oid			index = linitial_oid(RelationGetIndexList(rel));
	Datum		oid = ObjectIdGetDatum(get_index_constraint(index));
	Form_pg_index form;
	HeapTuple	tuple;
	char	   *whole;
	char	   *start;

	relation_close(rel, NoLock);
	if (constraint)
		return TextDatumGetCString(DirectFunctionCall1(pg_get_constraintdef, oid));
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	form = (Form_pg_index) GETSTRUCT(tuple);
	start = psprintf("CREATE %sINDEX %s ON pg_temp.%s ", form->indisunique ? "UNIQUE " : "",
					 quote_identifier(get_rel_name(index)),
					 quote_identifier(get_rel_name(shadow)));
	ReleaseSysCache(tuple);
	whole = TextDatumGetCString(DirectFunctionCall1(pg_get_indexdef, ObjectIdGetDatum(index)));
	if (strncmp(whole, start, strlen(start)) != 0)
		elog(ERROR, "unexpected definition of an index: %s", whole);
	return whole + strlen(start);
}

/* The definition of the shadow's trigger, around the table's name. */
static void
trigger_definition(Oid shadow, const CreateTrigStmt * statement, RfShadowAnswer *answer)
{
	Oid			trigger = get_trigger_oid(shadow, statement->trigname, false);
	char	   *start = psprintf("CREATE %sTRIGGER %s ", statement->isconstraint ?
								 "CONSTRAINT " : "", quote_identifier(statement->trigname));
	char	   *table = psprintf(" ON pg_temp.%s ", quote_identifier(get_rel_name(shadow)));
	char	   *whole = TextDatumGetCString(DirectFunctionCall1(pg_get_triggerdef,
																ObjectIdGetDatum(trigger)));
	char	   *found = strstr(whole, table);

	if (strncmp(whole, start, strlen(start)) != 0 || found == NULL)
		elog(ERROR, "unexpected definition of a trigger: %s", whole);
	answer->definition = found + strlen(table);
	*found = '\0';
	answer->events = whole + strlen(start);
}

/* Why its unique index would hold on each node only; NULL: it holds for the whole table. */
static char *
uniqueness_problem(Oid relid, Oid shadow)
{
	Datum		problem;
	ForeignTable *table = GetForeignTable(relid);

	if (rf_server_nodes(GetForeignServer(table->serverid)) == NIL ||
		rf_table_distribution(relid)->placement == RF_PLACED_EVERYWHERE)
		return NULL;
	problem = rf_ask_as(GetUserId(), "SELECT (SELECT because FROM rdma_internal.unkept_keys("
						"ARRAY[$1], coalesce(rdma.distribution_key($2), '{}')) LIMIT 1)", 2,
						OIDOID, ObjectIdGetDatum(shadow), REGCLASSOID, ObjectIdGetDatum(relid));
	return problem != (Datum) 0 ? TextDatumGetCString(problem) : NULL;
}

/* In a subtransaction: the shadow, and what is on it then, as the nodes are told it. */
static RfShadowAnswer
ask_shadow(Oid relid, Node *statement, const char *source)
{
	RfShadowAnswer answer;
	Oid			shadow = create_shadow(relid);
	int			nest;

	CommandCounterIncrement();
	run_on_shadow(statement, shadow, source);
	nest = NewGUCNestLevel();
	rf_restrict_search_path();
	if (IsA(statement, CreateTrigStmt))
		trigger_definition(shadow, (CreateTrigStmt *) statement, &answer);
	else
		answer.definition = shadow_definition(shadow, !IsA(statement, IndexStmt));
	AtEOXact_GUC(false, nest);
	answer.problem = IsA(statement, CreateTrigStmt) ? NULL : uniqueness_problem(relid, shadow);
	answer.objects = rf_ask_as(rf_relation_owner(relid),
							   "SELECT rdma_internal.needed_objects(ARRAY[$1])", 1,
							   OIDOID, ObjectIdGetDatum(shadow));
	return answer;
}

/* The definition, after the table's name, of the index or constraint that the statement creates. */
RfShadowAnswer
rf_defined_by(Oid relid, Node *statement, const char *source)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	RfShadowAnswer answer;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		answer = ask_shadow(relid, statement, source);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(caller);
		CurrentResourceOwner = owner;
		ReThrowError(error);
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	return answer;
}

void
rf_send_needed(Oid relid, const RfShadowAnswer *what)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(relid)->serverid);

	(void) rf_ask_as(rf_relation_owner(relid),
					 "SELECT pg_catalog.count(*) FROM rdma_internal.send_objects($1, $2)", 2,
					 NAMEOID, DirectFunctionCall1(namein, CStringGetDatum(server->servername)),
					 JSONBOID, what->objects);
}
