/*
 * ddl_nodes.c - commands that only the nodes can run for a distributed table: indexes, keys,
 * VACUUM, LOCK.
 *
 * What travels is not the caller's text: core has written it (shadow.c). A foreign key has nothing
 * but names, and is told by them (src/sql/40_foreign_keys.sql). Commands that name an index which
 * is not here are for the table that has it on the nodes.
 *
 * The nodes are asked with the rights and the user mapping of the table's owner, as by ddl.c; for
 * locks, of the caller.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
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
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/serve.h"

#include "catalog.h"
#include "fdw/deparse/deparse.h"

/* ---------- names that only the nodes know ---------- */

/*
 * Returns the caller's distributed table that has an index, a partition or a constraint (kind) of
 * this name on the nodes, and stores the name that it has there, with its schema; InvalidOid if no
 * table has one. A constraint that is here is not looked for there; the name of a foreign key that
 * is noted is empty. In a database without the extension no table is distributed.
 */
static Oid
table_with(const char *kind, RangeVar *name, char **name_there)
{
	Datum		found;
	Datum	   *schemas;
	Datum	   *pair;
	int			count = 0;
	ListCell   *lc;
	List	   *path;

	if (!rf_is_installed())
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
	found = rf_ask_as(GetUserId(), "SELECT (SELECT ARRAY[tab::pg_catalog.oid::text, remote] FROM "
					  "rdma_internal.table_with($1, $2, $3))", 3,
					  TEXTOID, CStringGetTextDatum(kind),
					  NAMEARRAYOID, PointerGetDatum(construct_array(schemas, count, NAMEOID,
																	NAMEDATALEN, false,
																	TYPALIGN_CHAR)),
					  NAMEOID, DirectFunctionCall1(namein, CStringGetDatum(name->relname)));
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
 * index, or for what it needs there, used one.
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

/*
 * Looks for a partition of this name on the nodes, if no relation here has the name. Returns the
 * caller's distributed table that it belongs to, locked, and stores the partition's name there.
 * Returns InvalidOid if the nodes have no such partition.
 */
static Oid
table_of_partition(RangeVar *name, char **partition)
{
	Oid			relid = InvalidOid;

	if (!OidIsValid(RangeVarGetRelid(name, NoLock, true)))
		relid = table_with("partition", name, partition);
	if (OidIsValid(relid))
		rf_lock_own(relid);
	return relid;
}

/* ---------- indexes and keys ---------- */

static bool
create_index(IndexStmt *statement, const char *source, bool top)
{
	Oid			relid;
	RfShadowAnswer index;
	char	   *table;

	if (rf_names_propagated(statement->relation))
	{
		if (statement->concurrent)
			PreventInTransactionBlock(top, "CREATE INDEX CONCURRENTLY");
		relid = RangeVarGetRelid(statement->relation, NoLock, false);
		table = rf_remote_table(relid);
	}
	else
	{
		relid = table_of_partition(statement->relation, &table);
		if (!OidIsValid(relid))
			return false;
		if (statement->concurrent)
			end_search(top, "CREATE INDEX CONCURRENTLY");
	}
	rf_lock_own(relid);
	if (statement->tableSpace != NULL)
		rf_refuse_there(relid, "this index",
						"It names a tablespace, which each node has of its own.",
						"CREATE INDEX ... ON %s ...");
	rf_check_column_names(relid, "this index", "CREATE INDEX ... ON %s ...");
	index = rf_defined_by(relid, (Node *) statement, source);
	if (statement->unique && index.problem != NULL)
		rf_refuse_there(relid, "this index", index.problem, "CREATE UNIQUE INDEX ... ON %s ...");
	rf_send_needed(relid, &index);
	if (statement->concurrent)
	{
		end_search(top, "CREATE INDEX CONCURRENTLY");
		rf_lock_own(relid);
	}
	rf_run_there(relid, psprintf("CREATE %sINDEX %s%s%s ON %s%s %s",
								 statement->unique ? "UNIQUE " : "",
								 statement->concurrent ? "CONCURRENTLY " : "",
								 statement->if_not_exists ? "IF NOT EXISTS " : "",
								 statement->idxname != NULL ?
								 quote_identifier(statement->idxname) : "",
								 statement->relation->inh ? "" : "ONLY ",
								 table, index.definition));
	return true;
}

/* A primary key, a unique or an exclusion constraint. */
static void
add_key(Oid relid, AlterTableStmt *statement, AlterTableCmd *part, const char *source)
{
	Constraint *constraint = castNode(Constraint, part->def);
	AlterTableStmt *alone = makeNode(AlterTableStmt);
	RfShadowAnswer key;
	const char *name = "";

	if (constraint->indexname != NULL)
		rf_refuse_there(relid, "this constraint", "It takes an index over.",
						"ALTER TABLE %s ADD ...");
	if (constraint->indexspace != NULL)
		rf_refuse_there(relid, "this constraint",
						"It names a tablespace, which each node has of its own.",
						"ALTER TABLE %s ADD ...");
	rf_check_column_names(relid, "this constraint", "ALTER TABLE %s ADD ...");
	*alone = *statement;
	alone->cmds = list_make1(part);
	key = rf_defined_by(relid, (Node *) alone, source);
	if (key.problem != NULL)
		rf_refuse_there(relid, "this constraint", key.problem, "ALTER TABLE %s ADD ...");
	if (constraint->conname != NULL)
		name = psprintf("CONSTRAINT %s ", quote_identifier(constraint->conname));
	rf_send_needed(relid, &key);
	rf_run_there(relid, psprintf("ALTER TABLE %s ADD %s%s", rf_remote_table(relid), name,
								 key.definition));
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

	check_may_refer(other, key);
	(void) rf_ask_as(rf_relation_owner(relid),
					 "SELECT pg_catalog.count(*) FROM rdma_internal.add_foreign_key($1, $2, $3)", 3,
					 REGCLASSOID, ObjectIdGetDatum(relid), REGCLASSOID, ObjectIdGetDatum(other),
					 JSONBOID, key_in_words(key));
}

static void
drop_noted_key(Oid relid, const char *name)
{
	(void) rf_ask_as(rf_relation_owner(relid),
					 "SELECT pg_catalog.count(*) FROM rdma_internal.forget_keys($1, $2)", 2,
					 REGCLASSOID, ObjectIdGetDatum(relid), TEXTOID, CStringGetTextDatum(name));
}

/* ---------- by the name of an index or a constraint ---------- */

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
	rf_lock_own(relid);
	rf_run_there(relid, psprintf("DROP INDEX %s%s%s%s",
								 statement->concurrent ? "CONCURRENTLY " : "",
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

	if (list_length(statement->objects) != 1)
		return false;
	relid = table_of_partition(name, &partition);
	if (!OidIsValid(relid))
		return false;
	rf_run_there(relid, psprintf("DROP TABLE %s%s", partition,
								 statement->behavior == DROP_CASCADE ? " CASCADE" : ""));
	return true;
}

static bool
drop_there(DropStmt *statement, bool top)
{
	switch (statement->removeType)
	{
		case OBJECT_INDEX:
			return drop_index(statement, top);
		case OBJECT_TABLE:
			return drop_partition(statement);
		case OBJECT_TRIGGER:
			return rf_drop_trigger(statement);
		default:
			return false;
	}
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
	rf_lock_own(relid);
	table = GetForeignTable(relid);
	rf_table_options(table, GetForeignServer(table->serverid), &options);
	if (statement->tableElts != NIL || statement->constraints != NIL ||
		statement->options != NIL || statement->partspec != NULL ||
		statement->tablespacename != NULL || statement->accessMethod != NULL)
		rf_refuse_there(relid, "this partition", "It is more than bounds.",
						"CREATE TABLE ... PARTITION OF %s ...");
	if (RangeVarGetCreationNamespace(statement->relation) != get_rel_namespace(relid))
		rf_refuse_there(relid, "this partition", "It is in another schema than the table.",
						"CREATE TABLE ... PARTITION OF %s ...");
	rf_run_there(relid, psprintf("CREATE TABLE %s%s PARTITION OF %s %s",
								 statement->if_not_exists ? "IF NOT EXISTS " : "",
								 quote_qualified_identifier(options.schema_name,
															statement->relation->relname),
								 rf_remote_table(relid), bound_text(statement->partbound)));
	return true;
}

/* TRUNCATE of one partition. */
static bool
truncate_partition(TruncateStmt *statement)
{
	RangeVar   *name = linitial_node(RangeVar, statement->relations);
	char	   *partition;
	Oid			relid;

	if (list_length(statement->relations) != 1)
		return false;
	relid = table_of_partition(name, &partition);
	if (!OidIsValid(relid))
		return false;
	rf_run_there(relid, psprintf("TRUNCATE %s%s%s%s", name->inh ? "" : "ONLY ", partition,
								 statement->restart_seqs ? " RESTART IDENTITY" : "",
								 statement->behavior == DROP_CASCADE ? " CASCADE" : ""));
	return true;
}

/* COMMENT ON TABLE of a partition. */
static bool
comment_on_partition(CommentStmt *statement)
{
	char	   *partition;
	Oid			relid;

	if (statement->objtype != OBJECT_TABLE)
		return false;
	relid = table_of_partition(makeRangeVarFromNameList(castNode(List, statement->object)),
							   &partition);
	if (!OidIsValid(relid))
		return false;
	rf_run_there(relid, psprintf("COMMENT ON TABLE %s IS %s", partition,
								 statement->comment != NULL ?
								 quote_literal_cstr(statement->comment) : "NULL"));
	return true;
}

/* A foreign table here becomes a partition there: the nodes' tables have its rows, and its name. */
static void
attach_partition(Oid relid, const PartitionCmd * command)
{
	Oid			other = RangeVarGetRelid(command->name, AccessShareLock, false);

	if (!rf_is_propagated(other))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a distributed table", command->name->relname),
				 errdetail("Only such tables become partitions of foreign table \"%s\".",
						   get_rel_name(relid)),
				 errhint("Distribute it by the same columns first: rdma.distribute_table.")));
	rf_lock_own(other);
	LockRelationOid(other, AccessExclusiveLock);
	(void) rf_ask_as(GetUserId(), "SELECT pg_catalog.count(*) FROM "
					 "rdma_internal.check_partition($1, $2)", 2,
					 REGCLASSOID, ObjectIdGetDatum(relid), REGCLASSOID, ObjectIdGetDatum(other));
	rf_run_there(relid, psprintf("ALTER TABLE %s ATTACH PARTITION %s %s", rf_remote_table(relid),
								 rf_remote_table(other), bound_text(command->bound)));
	(void) rf_ask_as(rf_relation_owner(other), "SELECT pg_catalog.count(*) FROM "
					 "rdma_internal.partition_attached($1)", 1,
					 REGCLASSOID, ObjectIdGetDatum(other));
}

/* A partition there becomes a table of its own, which gets its foreign table here. */
static void
detach_partition(Oid relid, const PartitionCmd * command)
{
	char	   *partition = NULL;
	Oid			parent = table_with("partition", command->name, &partition);

	if (parent != relid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" is not a partition of relation \"%s\"",
						command->name->relname, get_rel_name(relid))));
	if (command->concurrent)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("partitions of foreign table \"%s\" cannot be detached concurrently",
						get_rel_name(relid)),
				 errhint("Leave CONCURRENTLY out.")));
	rf_run_there(relid, psprintf("ALTER TABLE %s DETACH PARTITION %s", rf_remote_table(relid),
								 partition));
	(void) rf_ask_as(rf_relation_owner(relid), "SELECT pg_catalog.count(*) FROM "
					 "rdma_internal.partition_detached($1, $2, $3)", 3,
					 REGCLASSOID, ObjectIdGetDatum(relid), TEXTOID, CStringGetTextDatum(partition),
					 NAMEOID, DirectFunctionCall1(namein, CStringGetDatum(command->name->relname)));
}

/* ---------- ALTER TABLE ---------- */

static void
drop_constraint(Oid relid, const AlterTableCmd *part)
{
	if (rf_has_noted_key(relid, part->name))
		drop_noted_key(relid, part->name);
	else
		rf_run_there(relid, psprintf("ALTER TABLE %s DROP CONSTRAINT %s%s%s",
									 rf_remote_table(relid),
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
	rf_lock_own(relid);
	foreach(lc, statement->cmds)
	{
		AlterTableCmd *part = lfirst_node(AlterTableCmd, lc);

		if (part->subtype == AT_DropConstraint)
			drop_constraint(relid, part);
		else if (rf_switches_triggers_there(relid, part))
			rf_switch_triggers(relid, part);
		else if (part->subtype == AT_AttachPartition)
			attach_partition(relid, castNode(PartitionCmd, part->def));
		else if (part->subtype == AT_DetachPartition)
			detach_partition(relid, castNode(PartitionCmd, part->def));
		else if (part->subtype == AT_ValidateConstraint)
			rf_run_there(relid, psprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s",
										 rf_remote_table(relid),
										 quote_identifier(part->name)));
		else if (castNode(Constraint, part->def)->contype == CONSTR_FOREIGN)
			add_foreign_key(relid, castNode(Constraint, part->def));
		else
			add_key(relid, statement, part, source);
	}
	return true;
}

/* REINDEX of a distributed table, or of an index or a partition that is not here. */
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
		name = rf_remote_table(relid);
	}
	else if (statement->kind == REINDEX_OBJECT_INDEX &&
			 !OidIsValid(RangeVarGetRelid(statement->relation, NoLock, true)))
		relid = table_with("index", statement->relation, &name);
	else if (statement->kind == REINDEX_OBJECT_TABLE)
		relid = table_of_partition(statement->relation, &name);
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
	rf_lock_own(relid);
	rf_run_there(relid, psprintf("REINDEX %s %s%s",
								 statement->kind == REINDEX_OBJECT_TABLE ? "TABLE" : "INDEX",
								 concurrently ? "CONCURRENTLY " : "", name));
	return true;
}

/* RENAME of an index, a partition or a constraint that is not here. */
static bool
rename_there(RenameStmt *statement)
{
	char	   *index;
	Oid			relid = InvalidOid;
	char	   *command = NULL;

	if (statement->renameType == OBJECT_TRIGGER)
		return rf_rename_trigger(statement);
	if (statement->renameType == OBJECT_INDEX &&
		!OidIsValid(RangeVarGetRelid(statement->relation, NoLock, true)))
	{
		relid = table_with("index", statement->relation, &index);
		if (OidIsValid(relid))
			command = psprintf("ALTER INDEX %s RENAME TO %s", index,
							   quote_identifier(statement->newname));
	}
	else if (statement->renameType == OBJECT_TABLE)
	{
		relid = table_of_partition(statement->relation, &index);
		if (OidIsValid(relid))
			command = psprintf("ALTER TABLE %s RENAME TO %s", index,
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
		command = psprintf("ALTER TABLE %s RENAME CONSTRAINT %s TO %s", rf_remote_table(relid),
						   quote_identifier(statement->subname),
						   quote_identifier(statement->newname));
	}
	if (command == NULL)
		return false;
	rf_lock_own(relid);
	rf_run_there(relid, command);
	return true;
}

/* ---------- row security ---------- */

/*
 * A policy on the nodes would be about the roles of user mappings. Whether it holds would depend on
 * mappings and roles there that change later, unseen: a mapping for PUBLIC, a role that owns the
 * table, or may bypass it.
 */
static void
refuse_row_security(RangeVar *name)
{
	if (!rf_names_propagated(name))
		return;
	rf_lock_own(RangeVarGetRelid(name, NoLock, false));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("distributed table \"%s\" cannot have row security", name->relname),
			 errdetail("The nodes see the role of the user mapping, not the role that asks here."),
			 errhint("Let views with security_barrier show the rows that a role may see. Or create "
					 "policies on the nodes by rdma.run_on, if each role has a user mapping of its "
					 "own there.")));
}

static void
refuse_policies(const AlterTableStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		AlterTableType type = lfirst_node(AlterTableCmd, lc)->subtype;

		if (type == AT_EnableRowSecurity || type == AT_ForceRowSecurity)
			refuse_row_security(statement->relation);
	}
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

static char *
vacuum_options(const VacuumStmt *statement)
{
	StringInfoData options;
	ListCell   *lc;

	initStringInfo(&options);
	foreach(lc, statement->options)
		add_option(&options, lfirst_node(DefElem, lc));
	if (options.len > 0)
		appendStringInfoString(&options, ") ");
	return options.data;
}

/* VACUUM or ANALYZE of one partition that is not here. */
static bool
vacuum_partition(const VacuumStmt *statement, bool top)
{
	VacuumRelation *named = linitial_node(VacuumRelation, statement->rels);
	const char *columns = "";
	char	   *partition;
	Oid			relid = InvalidOid;
	ListCell   *lc;

	if (list_length(statement->rels) == 1 && named->relation != NULL)
		relid = table_of_partition(named->relation, &partition);
	if (!OidIsValid(relid))
		return false;
	foreach(lc, named->va_cols)
		columns = psprintf("%s%s %s", columns, columns[0] != '\0' ? "," : " (",
						   quote_identifier(strVal(lfirst(lc))));
	if (statement->is_vacuumcmd)
		end_search(top, "VACUUM");
	rf_run_there(relid, psprintf("%s %s%s%s%s", statement->is_vacuumcmd ? "VACUUM" : "ANALYZE",
								 vacuum_options(statement), partition, columns,
								 columns[0] != '\0' ? ")" : ""));
	return true;
}

/* VACUUM of distributed tables, with the caller's options. */
static bool
vacuum_there(VacuumStmt *statement, bool top)
{
	char	   *options;
	ListCell   *lc;

	if (statement->rels == NIL)
		return false;
	if (!statement->is_vacuumcmd ||
		!rf_names_propagated(linitial_node(VacuumRelation, statement->rels)->relation))
		return vacuum_partition(statement, top);
	PreventInTransactionBlock(top, "VACUUM");
	options = vacuum_options(statement);
	foreach(lc, statement->rels)
	{
		Oid			relid = RangeVarGetRelid(lfirst_node(VacuumRelation, lc)->relation, NoLock,
											 false);

		rf_lock_own(relid);
		rf_run_there(relid, psprintf("VACUUM %s%s", options, rf_remote_table(relid)));
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

		rf_run_there_as(GetUserId(), relid,
						psprintf("LOCK TABLE %s%s IN %s MODE%s", name->inh ? "" : "ONLY ",
								 rf_remote_table(relid), modes[statement->mode],
								 statement->nowait ? " NOWAIT" : ""));
	}
	return true;
}

/*
 * SET CONSTRAINTS: the nodes check the deferrable keys. ALL goes to all nodes of the transaction. A
 * name that is no constraint of this server goes to the nodes of the table that has it there.
 */
static bool
set_constraints(ConstraintsSetStmt * statement, bool top)
{
	ConstraintsSetStmt here = *statement;
	ListCell   *lc;

	if (statement->constraints == NIL)
	{
		rf_transaction_set_constraints(statement->deferred);
		return false;
	}
	here.constraints = NIL;
	foreach(lc, statement->constraints)
	{
		char	   *name;
		Oid			relid = table_with("constraint", lfirst_node(RangeVar, lc), &name);

		if (!OidIsValid(relid))
			here.constraints = lappend(here.constraints, lfirst(lc));
		/* a key that is noted only is not checked anywhere */
		else if (*name != '\0')
			rf_run_there_as(GetUserId(), relid, psprintf("SET CONSTRAINTS %s %s", name,
														 statement->deferred ? "DEFERRED" :
														 "IMMEDIATE"));
	}
	if (list_length(here.constraints) == list_length(statement->constraints))
		return false;
	WarnNoTransactionBlock(top, "SET CONSTRAINTS");
	if (here.constraints != NIL)
		AfterTriggerSetState(&here);
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
		case T_CreatePolicyStmt:
			refuse_row_security(((CreatePolicyStmt *) statement)->table);
			return false;
		case T_AlterTableStmt:
			refuse_policies((AlterTableStmt *) statement);
			return alter((AlterTableStmt *) statement, source);
		case T_CreateStmt:
			return create_partition((CreateStmt *) statement);
		case T_CreateTrigStmt:
			return rf_create_trigger((CreateTrigStmt *) statement, source);
		case T_DropStmt:
			return drop_there((DropStmt *) statement, top);
		case T_ReindexStmt:
			return reindex((ReindexStmt *) statement, top);
		case T_RenameStmt:
			return rename_there((RenameStmt *) statement);
		case T_TruncateStmt:
			return truncate_partition((TruncateStmt *) statement);
		case T_CommentStmt:
			return comment_on_partition((CommentStmt *) statement);
		case T_VacuumStmt:
			return vacuum_there((VacuumStmt *) statement, top);
		case T_LockStmt:
			return lock_there((LockStmt *) statement, top);
		case T_ConstraintsSetStmt:
			return set_constraints((ConstraintsSetStmt *) statement, top);
		default:
			return false;
	}
}
