/*
 * ddl_nodes.c - commands that only the nodes can run for a distributed table: indexes, keys,
 * VACUUM, LOCK.
 *
 * What travels is not the caller's text. An index or a constraint is first created here, on a
 * temporary table with the columns of the foreign table (its shadow), in a subtransaction that is
 * rolled back: core finds the faults, looks names up as the caller means them, and its ruleutils
 * write what the nodes get, with all schemas. A foreign key has nothing but names, and is told by
 * them (src/sql/40_foreign_keys.sql). Commands that name an index which is not here are for the
 * table that has it on the nodes.
 *
 * The nodes are asked with the rights and the user mapping of the table's owner, as by ddl.c; for
 * locks, of the caller.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_expr.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/serve.h"

#include "catalog.h"
#include "fdw/deparse/deparse.h"

/* ---------- tables of the nodes ---------- */

static char *
remote_name(Oid relid)
{
	ForeignTable *table = GetForeignTable(relid);
	RfTableOptions options;

	rf_table_options(table, GetForeignServer(table->serverid), &options);
	return rf_remote_relation_name(&options);
}

static void
run_as(Oid role, Oid relid, const char *command)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(relid)->serverid);
	Oid			types[2] = {NAMEOID, TEXTOID};
	Datum		values[2];

	values[0] = DirectFunctionCall1(namein, CStringGetDatum(server->servername));
	values[1] = CStringGetTextDatum(command);
	(void) rf_ask_as(role, "SELECT pg_catalog.count(*) FROM rdma.run_on($1, $2)", 2, types, values);
}

static void
run_there(Oid relid, const char *command)
{
	run_as(rf_relation_owner(relid), relid, command);
}

/* No other session alters it from here on. ERROR if it is not the caller's. */
static void
lock_own(Oid relid)
{
	if (!rf_relation_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	LockRelationOid(relid, ShareUpdateExclusiveLock);
}

/* A hint with the command to use instead. */
static void
refuse(Oid relid, const char *what, const char *detail, const char *remote)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(relid)->serverid);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot create %s on the nodes' tables of foreign table \"%s\"", what,
					get_rel_name(relid)),
			 errdetail("%s", detail),
			 errhint("On the nodes: SELECT rdma.run_on(%s, %s).",
					 quote_literal_cstr(server->servername),
					 quote_literal_cstr(psprintf(remote, remote_name(relid))))));
}

/* ---------- the shadow of a table ---------- */

/* The shadow's text names columns as they are here. */
static void
check_column_names(Oid relid, const char *what, const char *remote)
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
				refuse(relid, what, "Columns have other names there.", remote);
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

/* Why its unique index would hold on each node only; NULL: it holds for the whole table. */
static char *
uniqueness_problem(Oid relid, Oid shadow)
{
	Oid			types[2] = {OIDOID, REGCLASSOID};
	Datum		values[2] = {ObjectIdGetDatum(shadow), ObjectIdGetDatum(relid)};
	Datum		problem;
	ForeignTable *table = GetForeignTable(relid);

	if (rf_server_nodes(GetForeignServer(table->serverid)) == NIL ||
		rf_table_distribution(relid)->placement == RF_PLACED_EVERYWHERE)
		return NULL;
	problem = rf_ask_as(GetUserId(), "SELECT (SELECT because FROM rdma_internal.unkept_keys("
						"ARRAY[$1], coalesce(rdma.distribution_key($2), '{}')) LIMIT 1)", 2, types,
						values);
	return problem != (Datum) 0 ? TextDatumGetCString(problem) : NULL;
}

typedef struct ShadowAnswer
{
	char	   *definition;
	char	   *problem;		/* why it would be unique on each node only, or NULL */
	Datum		objects;		/* jsonb: what it needs on the nodes */
} ShadowAnswer;

/* In a subtransaction: the shadow, and what is on it then, as the nodes are told it. */
static ShadowAnswer
ask_shadow(Oid relid, Node *statement, const char *source)
{
	ShadowAnswer answer;
	Oid			shadow = create_shadow(relid);
	Oid			types[1] = {OIDARRAYOID};
	Datum		values[1];
	Datum		oid = ObjectIdGetDatum(shadow);
	int			nest;

	CommandCounterIncrement();
	run_on_shadow(statement, shadow, source);
	nest = NewGUCNestLevel();
	rf_restrict_search_path();
	answer.definition = shadow_definition(shadow, !IsA(statement, IndexStmt));
	AtEOXact_GUC(false, nest);
	answer.problem = uniqueness_problem(relid, shadow);
	values[0] = PointerGetDatum(construct_array(&oid, 1, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	answer.objects = rf_ask_as(rf_relation_owner(relid),
							   "SELECT rdma_internal.needed_objects($1)", 1, types, values);
	return answer;
}

/* The definition, after the table's name, of the index or constraint that the statement creates. */
static ShadowAnswer
defined_by(Oid relid, Node *statement, const char *source)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ShadowAnswer answer;

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

/* Functions and types that it needs come first. */
static void
define_there(Oid relid, const ShadowAnswer *what, const char *command)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(relid)->serverid);
	Oid			types[2] = {NAMEOID, JSONBOID};
	Datum		values[2];

	values[0] = DirectFunctionCall1(namein, CStringGetDatum(server->servername));
	values[1] = what->objects;
	(void) rf_ask_as(rf_relation_owner(relid),
					 "SELECT pg_catalog.count(*) FROM rdma_internal.send_objects($1, $2)", 2,
					 types, values);
	run_there(relid, command);
}

/* ---------- indexes and keys ---------- */

static bool
create_index(IndexStmt *statement, const char *source, bool top)
{
	Oid			relid;
	ShadowAnswer index;

	if (!rf_names_propagated(statement->relation))
		return false;
	if (statement->concurrent)
		PreventInTransactionBlock(top, "CREATE INDEX CONCURRENTLY");
	relid = RangeVarGetRelid(statement->relation, NoLock, false);
	lock_own(relid);
	if (statement->tableSpace != NULL)
		refuse(relid, "this index", "It names a tablespace, which each node has of its own.",
			   "CREATE INDEX ... ON %s ...");
	check_column_names(relid, "this index", "CREATE INDEX ... ON %s ...");
	index = defined_by(relid, (Node *) statement, source);
	if (statement->unique && index.problem != NULL)
		refuse(relid, "this index", index.problem, "CREATE UNIQUE INDEX ... ON %s ...");
	define_there(relid, &index, psprintf("CREATE %sINDEX %s%s%s ON %s%s %s",
										 statement->unique ? "UNIQUE " : "",
										 statement->concurrent ? "CONCURRENTLY " : "",
										 statement->if_not_exists ? "IF NOT EXISTS " : "",
										 statement->idxname != NULL ?
										 quote_identifier(statement->idxname) : "",
										 statement->relation->inh ? "" : "ONLY ",
										 remote_name(relid), index.definition));
	return true;
}

/* A primary key, a unique or an exclusion constraint. */
static void
add_key(Oid relid, AlterTableStmt *statement, AlterTableCmd *part, const char *source)
{
	Constraint *constraint = castNode(Constraint, part->def);
	AlterTableStmt *alone = makeNode(AlterTableStmt);
	ShadowAnswer key;

	if (constraint->indexname != NULL || constraint->indexspace != NULL)
		refuse(relid, "this constraint", constraint->indexname != NULL ?
			   "It takes an index over." : "It names a tablespace, which each node has of its own.",
			   "ALTER TABLE %s ADD ...");
	check_column_names(relid, "this constraint", "ALTER TABLE %s ADD ...");
	*alone = *statement;
	alone->cmds = list_make1(part);
	key = defined_by(relid, (Node *) alone, source);
	if (key.problem != NULL)
		refuse(relid, "this constraint", key.problem, "ALTER TABLE %s ADD ...");
	define_there(relid, &key, psprintf("ALTER TABLE %s ADD %s%s %s", remote_name(relid),
									   constraint->conname != NULL ? "CONSTRAINT " : "",
									   constraint->conname != NULL ?
									   quote_identifier(constraint->conname) : "", key.definition));
}

/* ---------- foreign keys ---------- */

static void
add_letter(StringInfo json, const char *name, char letter)
{
	char		value[2] = {letter, '\0'};

	rf_add_json(json, name, value);
}

static void
add_names(StringInfo json, const char *name, List *names)
{
	StringInfoData array;
	ListCell   *lc;

	initStringInfo(&array);
	foreach(lc, names)
		rf_add_json(&array, strVal(lfirst(lc)), NULL);
	rf_add_json(json, name, NULL);
	appendStringInfo(json, ": [%s]", array.data);
}

/* As rdma_internal.foreign_keys() tells it, with names of here; without "name" nodes choose it. */
static Datum
key_in_words(const Constraint *key)
{
	StringInfoData json;

	initStringInfo(&json);
	if (key->conname != NULL)
		rf_add_json(&json, "name", key->conname);
	add_letter(&json, "match", key->fk_matchtype);
	add_letter(&json, "on_update", key->fk_upd_action);
	add_letter(&json, "on_delete", key->fk_del_action);
	add_names(&json, "columns", key->fk_attrs);
	add_names(&json, "other_columns", key->pk_attrs);
	add_names(&json, "set", key->fk_del_set_cols);
	appendStringInfo(&json, ", \"deferrable\": %s, \"deferred\": %s, \"valid\": %s",
					 key->deferrable ? "true" : "false", key->initdeferred ? "true" : "false",
					 key->skip_validation ? "false" : "true");
#if PG_VERSION_NUM >= 180000
	appendStringInfo(&json, ", \"enforced\": %s, \"period\": %s",
					 key->is_enforced ? "true" : "false", key->fk_with_period ? "true" : "false");
#endif
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(psprintf("{%s}", json.data)));
}

static void
check_may_refer(Oid relid, const Constraint *key)
{
	ListCell   *lc;

	if (pg_class_aclcheck(relid, GetUserId(), ACL_REFERENCES) == ACLCHECK_OK)
		return;
	foreach(lc, key->pk_attrs)
	{
		AttrNumber	column = get_attnum(relid, strVal(lfirst(lc)));

		if (column == InvalidAttrNumber ||
			pg_attribute_aclcheck(relid, column, GetUserId(), ACL_REFERENCES) != ACLCHECK_OK)
			break;
	}
	if (key->pk_attrs == NIL || lc != NULL)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

/* Created on the nodes, or noted until both tables are distributed. */
static void
add_foreign_key(Oid relid, const Constraint *key)
{
	Oid			other = RangeVarGetRelid(key->pktable, AccessShareLock, false);
	Oid			types[3] = {REGCLASSOID, REGCLASSOID, JSONBOID};
	Datum		values[3];

	check_may_refer(other, key);
	values[0] = ObjectIdGetDatum(relid);
	values[1] = ObjectIdGetDatum(other);
	values[2] = key_in_words(key);
	(void) rf_ask_as(rf_relation_owner(relid),
					 "SELECT pg_catalog.count(*) FROM rdma_internal.add_foreign_key($1, $2, $3)", 3,
					 types, values);
}

static void
drop_noted_key(Oid relid, const char *name)
{
	Oid			types[2] = {REGCLASSOID, TEXTOID};
	Datum		values[2];

	values[0] = ObjectIdGetDatum(relid);
	values[1] = CStringGetTextDatum(name);
	(void) rf_ask_as(rf_relation_owner(relid),
					 "SELECT pg_catalog.count(*) FROM rdma_internal.forget_keys($1, $2)", 2, types,
					 values);
}

/* ---------- ALTER TABLE ---------- */

static void
drop_constraint(Oid relid, const AlterTableCmd *part)
{
	if (rf_has_noted_key(relid, part->name))
		drop_noted_key(relid, part->name);
	else
		run_there(relid, psprintf("ALTER TABLE %s DROP CONSTRAINT %s%s%s", remote_name(relid),
								  part->missing_ok ? "IF EXISTS " : "",
								  quote_identifier(part->name),
								  part->behavior == DROP_CASCADE ? " CASCADE" : ""));
}

/* ALTER TABLE with parts for the nodes only; see rf_ddl_is_for_nodes. */
static bool
alter(AlterTableStmt *statement, const char *source)
{
	Oid			relid = RangeVarGetRelid(statement->relation, NoLock, true);
	ListCell   *lc;

	if (!OidIsValid(relid) || !rf_ddl_is_for_nodes(relid, linitial(statement->cmds)))
		return false;
	lock_own(relid);
	foreach(lc, statement->cmds)
	{
		AlterTableCmd *part = lfirst_node(AlterTableCmd, lc);

		if (part->subtype == AT_DropConstraint)
			drop_constraint(relid, part);
		else if (part->subtype == AT_ValidateConstraint)
			run_there(relid, psprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s", remote_name(relid),
									  quote_identifier(part->name)));
		else if (castNode(Constraint, part->def)->contype == CONSTR_FOREIGN)
			add_foreign_key(relid, castNode(Constraint, part->def));
		else
			add_key(relid, statement, part, source);
	}
	return true;
}

/* ---------- by the name of an index or a constraint ---------- */

/*
 * Returns the caller's distributed table that has an index or a partition (kind) of this name on
 * the nodes, and stores the name that the index or the partition has there; InvalidOid if no table
 * has one. In a database without the extension no table is distributed.
 */
static Oid
table_with(const char *kind, RangeVar *name, char **name_there)
{
	Oid			types[3] = {TEXTOID, NAMEARRAYOID, NAMEOID};
	Datum		values[3];
	Datum		found;
	Datum	   *schemas;
	Datum	   *pair;
	int			count = 0;
	ListCell   *lc;
	List	   *path;

	if (!OidIsValid(get_extension_oid("rdma_fdw", true)))
		return InvalidOid;
	path = name->schemaname == NULL ? fetch_search_path(false) :
		list_make1_oid(LookupExplicitNamespace(name->schemaname, true));
	schemas = palloc_array(Datum, list_length(path));
	foreach(lc, path)
	{
		char	   *schema = OidIsValid(lfirst_oid(lc)) ? get_namespace_name(lfirst_oid(lc)) : NULL;

		if (schema != NULL)
			schemas[count++] = DirectFunctionCall1(namein, CStringGetDatum(schema));
	}
	values[0] = CStringGetTextDatum(kind);
	values[1] = PointerGetDatum(construct_array(schemas, count, NAMEOID, NAMEDATALEN, false,
												TYPALIGN_CHAR));
	values[2] = DirectFunctionCall1(namein, CStringGetDatum(name->relname));
	found = rf_ask_as(GetUserId(), "SELECT (SELECT ARRAY[tab::pg_catalog.oid::text, remote] FROM "
					  "rdma_internal.table_with($1, $2, $3))", 3, types, values);
	if (found == (Datum) 0)
		return InvalidOid;
	deconstruct_array(DatumGetArrayTypeP(found), TEXTOID, -1, false, TYPALIGN_INT, &pair, NULL,
					  &count);
	*name_there = TextDatumGetCString(pair[1]);
	return DatumGetObjectId(DirectFunctionCall1(oidin,
												CStringGetDatum(TextDatumGetCString(pair[0]))));
}

/*
 * A command that waits for transactions runs outside of one on the nodes, and the search for its
 * index used one.
 */
static void
end_search(bool top, const char *command)
{
	PreventInTransactionBlock(top, command);
	if (ActiveSnapshotSet())
		PopActiveSnapshot();
	CommitTransactionCommand();
	StartTransactionCommand();
}

/* DROP INDEX of one index that is not here. */
static bool
drop_index(DropStmt *statement, bool top)
{
	RangeVar   *name = makeRangeVarFromNameList(linitial_node(List, statement->objects));
	char	   *index;
	Oid			relid;

	if (list_length(statement->objects) != 1 || OidIsValid(RangeVarGetRelid(name, NoLock, true)))
		return false;
	relid = table_with("index", name, &index);
	if (!OidIsValid(relid))
		return false;
	if (statement->concurrent)
		end_search(top, "DROP INDEX CONCURRENTLY");
	lock_own(relid);
	run_there(relid, psprintf("DROP INDEX %s%s%s%s", statement->concurrent ? "CONCURRENTLY " : "",
							  statement->missing_ok ? "IF EXISTS " : "", index,
							  statement->behavior == DROP_CASCADE ? " CASCADE" : ""));
	return true;
}

/* DROP TABLE of one partition that is not here. */
static bool
drop_partition(DropStmt *statement)
{
	RangeVar   *name = makeRangeVarFromNameList(linitial_node(List, statement->objects));
	char	   *partition;
	Oid			relid;

	if (list_length(statement->objects) != 1 || OidIsValid(RangeVarGetRelid(name, NoLock, true)))
		return false;
	relid = table_with("partition", name, &partition);
	if (!OidIsValid(relid))
		return false;
	lock_own(relid);
	run_there(relid, psprintf("DROP TABLE %s%s", partition,
							  statement->behavior == DROP_CASCADE ? " CASCADE" : ""));
	return true;
}

/* ---------- partitions ---------- */

/* MINVALUE and MAXVALUE, which the grammar takes for columns; NULL: it is another value. */
static const char *
unbounded(Node *value)
{
	Node	   *field;

	if (!IsA(value, ColumnRef) || list_length(((ColumnRef *) value)->fields) != 1)
		return NULL;
	field = linitial(((ColumnRef *) value)->fields);
	if (!IsA(field, String))
		return NULL;
	return strcmp(strVal(field), "minvalue") == 0 ? "MINVALUE" :
		strcmp(strVal(field), "maxvalue") == 0 ? "MAXVALUE" : NULL;
}

/* Bounds are constants: the nodes get what ruleutils write of each. */
static void
add_bounds(StringInfo text, const char *word, List *values)
{
	ParseState *pstate = make_parsestate(NULL);
	ListCell   *lc;

	appendStringInfo(text, " %s (", word);
	foreach(lc, values)
	{
		const char *value = unbounded(lfirst(lc));
		Node	   *expr;

		if (value == NULL)
		{
			expr = transformExpr(pstate, copyObject(lfirst(lc)), EXPR_KIND_PARTITION_BOUND);
			if (contain_mutable_functions(expr))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("bounds of partitions on the nodes have to be constants"),
						 errhint("Nodes would compute different values. Write the value.")));
			value = deparse_expression(expr, NIL, false, false);
		}
		appendStringInfo(text, "%s%s", foreach_current_index(lc) > 0 ? ", " : "", value);
	}
	appendStringInfoChar(text, ')');
}

/* FOR VALUES ... or DEFAULT, for sessions of nodes. */
static char *
bound_text(const PartitionBoundSpec *bound)
{
	StringInfoData text;
	int			nest = NewGUCNestLevel();

	rf_restrict_search_path();
	(void) set_config_option("datestyle", "ISO", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	initStringInfo(&text);
	if (bound->is_default)
		appendStringInfoString(&text, "DEFAULT");
	else if (bound->strategy == PARTITION_STRATEGY_HASH)
		appendStringInfo(&text, "FOR VALUES WITH (MODULUS %d, REMAINDER %d)", bound->modulus,
						 bound->remainder);
	else if (bound->strategy == PARTITION_STRATEGY_LIST)
		add_bounds(&text, "FOR VALUES IN", bound->listdatums);
	else
	{
		add_bounds(&text, "FOR VALUES FROM", bound->lowerdatums);
		add_bounds(&text, "TO", bound->upperdatums);
	}
	AtEOXact_GUC(false, nest);
	return text.data;
}

/* CREATE TABLE ... PARTITION OF a distributed table: in the schema of the table there. */
static bool
create_partition(CreateStmt *statement)
{
	RangeVar   *parent;
	ForeignTable *table;
	RfTableOptions options;
	Oid			relid;

	if (statement->partbound == NULL)
		return false;
	parent = linitial_node(RangeVar, statement->inhRelations);
	if (!rf_names_propagated(parent))
		return false;
	relid = RangeVarGetRelid(parent, NoLock, false);
	lock_own(relid);
	table = GetForeignTable(relid);
	rf_table_options(table, GetForeignServer(table->serverid), &options);
	if (statement->tableElts != NIL || statement->constraints != NIL ||
		statement->options != NIL || statement->partspec != NULL ||
		statement->tablespacename != NULL || statement->accessMethod != NULL)
		refuse(relid, "this partition", "It is more than bounds.",
			   "CREATE TABLE ... PARTITION OF %s ...");
	if (RangeVarGetCreationNamespace(statement->relation) != get_rel_namespace(relid))
		refuse(relid, "this partition", "It is in another schema than the table.",
			   "CREATE TABLE ... PARTITION OF %s ...");
	run_there(relid, psprintf("CREATE TABLE %s%s PARTITION OF %s %s",
							  statement->if_not_exists ? "IF NOT EXISTS " : "",
							  quote_qualified_identifier(options.schema_name,
														 statement->relation->relname),
							  remote_name(relid), bound_text(statement->partbound)));
	return true;
}

/* REINDEX of a distributed table, or of an index that is not here. */
static bool
reindex(ReindexStmt *statement, bool top)
{
	bool		concurrently = false;
	Oid			relid = InvalidOid;
	char	   *name = NULL;
	ListCell   *lc;

	if (statement->kind == REINDEX_OBJECT_TABLE && rf_names_propagated(statement->relation))
	{
		relid = RangeVarGetRelid(statement->relation, NoLock, false);
		name = remote_name(relid);
	}
	else if (statement->kind == REINDEX_OBJECT_INDEX &&
			 !OidIsValid(RangeVarGetRelid(statement->relation, NoLock, true)))
		relid = table_with("index", statement->relation, &name);
	if (!OidIsValid(relid))
		return false;
	foreach(lc, statement->params)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "concurrently") == 0)
			concurrently = defGetBoolean(option);
	}
	if (concurrently)
		end_search(top, "REINDEX CONCURRENTLY");
	lock_own(relid);
	run_there(relid, psprintf("REINDEX %s %s%s",
							  statement->kind == REINDEX_OBJECT_TABLE ? "TABLE" : "INDEX",
							  concurrently ? "CONCURRENTLY " : "", name));
	return true;
}

/* ALTER INDEX ... RENAME and RENAME CONSTRAINT of what is not here. */
static bool
rename_there(RenameStmt *statement)
{
	char	   *index;
	Oid			relid = InvalidOid;
	char	   *command = NULL;

	if (statement->renameType == OBJECT_INDEX &&
		!OidIsValid(RangeVarGetRelid(statement->relation, NoLock, true)))
	{
		relid = table_with("index", statement->relation, &index);
		if (OidIsValid(relid))
			command = psprintf("ALTER INDEX %s RENAME TO %s", index,
							   quote_identifier(statement->newname));
	}
	else if (statement->renameType == OBJECT_TABCONSTRAINT &&
			 rf_names_propagated(statement->relation))
	{
		Oid			table = RangeVarGetRelid(statement->relation, NoLock, false);

		if (OidIsValid(get_relation_constraint_oid(table, statement->subname, true)) ||
			strcmp(statement->subname, RF_PLACEMENT_CONSTRAINT) == 0)
			return false;
		relid = table;
		command = psprintf("ALTER TABLE %s RENAME CONSTRAINT %s TO %s", remote_name(relid),
						   quote_identifier(statement->subname),
						   quote_identifier(statement->newname));
	}
	if (command == NULL)
		return false;
	lock_own(relid);
	run_there(relid, command);
	return true;
}

/* ---------- VACUUM, LOCK ---------- */

static void
add_option(StringInfo options, DefElem *option)
{
	appendStringInfo(options, "%s%s", options->len > 0 ? ", " : "(",
					 quote_identifier(option->defname));
	if (option->arg != NULL)
		appendStringInfo(options, " %s", IsA(option->arg, Integer) ? defGetString(option) :
						 quote_literal_cstr(defGetString(option)));
}

/* VACUUM of distributed tables, with the caller's options. */
static bool
vacuum_there(VacuumStmt *statement, bool top)
{
	StringInfoData options;
	ListCell   *lc;

	if (!statement->is_vacuumcmd || statement->rels == NIL ||
		!rf_names_propagated(linitial_node(VacuumRelation, statement->rels)->relation))
		return false;
	PreventInTransactionBlock(top, "VACUUM");
	initStringInfo(&options);
	foreach(lc, statement->options)
		add_option(&options, lfirst_node(DefElem, lc));
	if (options.len > 0)
		appendStringInfoString(&options, ") ");
	foreach(lc, statement->rels)
	{
		Oid			relid = RangeVarGetRelid(lfirst_node(VacuumRelation, lc)->relation, NoLock,
											 false);

		lock_own(relid);
		run_there(relid, psprintf("VACUUM %s%s", options.data, remote_name(relid)));
	}
	return true;
}

/*
 * LOCK of distributed tables. The nodes check the caller's privileges, and other coordinators find
 * the locks there.
 */
static bool
lock_there(LockStmt * statement, bool top)
{
	static const char *const modes[] = {
		"", "ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE",
		"SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"
	};
	ListCell   *lc;

	if (statement->relations == NIL ||
		!rf_names_propagated(linitial_node(RangeVar, statement->relations)))
		return false;
	RequireTransactionBlock(top, "LOCK TABLE");
	foreach(lc, statement->relations)
	{
		RangeVar   *name = lfirst_node(RangeVar, lc);
		Oid			relid = RangeVarGetRelid(name, NoLock, false);

		run_as(GetUserId(), relid, psprintf("LOCK TABLE %s%s IN %s MODE%s",
											name->inh ? "" : "ONLY ", remote_name(relid),
											modes[statement->mode],
											statement->nowait ? " NOWAIT" : ""));
	}
	return true;
}

bool
rf_ddl_on_nodes(PlannedStmt *planned, const char *source, ProcessUtilityContext context)
{
	Node	   *statement = planned->utilityStmt;
	bool		top = context == PROCESS_UTILITY_TOPLEVEL;

	if (!rf_propagate_ddl || IsBinaryUpgrade)
		return false;
	switch (nodeTag(statement))
	{
		case T_IndexStmt:
			return create_index((IndexStmt *) statement, source, top);
		case T_AlterTableStmt:
			return alter((AlterTableStmt *) statement, source);
		case T_CreateStmt:
			return create_partition((CreateStmt *) statement);
		case T_DropStmt:
			return ((DropStmt *) statement)->removeType == OBJECT_INDEX ?
				drop_index((DropStmt *) statement, top) :
				((DropStmt *) statement)->removeType == OBJECT_TABLE &&
				drop_partition((DropStmt *) statement);
		case T_ReindexStmt:
			return reindex((ReindexStmt *) statement, top);
		case T_RenameStmt:
			return rename_there((RenameStmt *) statement);
		case T_VacuumStmt:
			return vacuum_there((VacuumStmt *) statement, top);
		case T_LockStmt:
			return lock_there((LockStmt *) statement, top);
		default:
			return false;
	}
}
