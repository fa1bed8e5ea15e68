/*
 * ddl.c - propagates DROP, ALTER and RENAME of foreign tables with option "propagate_ddl" to the
 * tables there.
 *
 * PostgreSQL itself runs the command. Its effect on a table follows from the catalog before and
 * after it, where columns have numbers and constraints have OIDs, under any name:
 * rdma_internal.table_definition() and rdma_internal.propagate_table() compare and send, in the
 * transaction's sessions. CASCADE and the expression of ALTER COLUMN ... TYPE ... USING do not show
 * there and are taken from the command. The hook of object accesses sees every table that is
 * dropped, in whatever way, while it still exists; after the command these tables are dropped on
 * the nodes.
 *
 * The nodes are asked with the rights and the user mapping of the table's owner: the options say
 * which tables these are, and the owner wrote them. A superuser who drops another role's schema
 * must not drop on the nodes what that role could not.
 *
 * Commands that core refuses for foreign tables are split off before (ddl_steps.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/seclabel.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"

#include "catalog.h"
#include "fdw/deparse/deparse.h"

/* A table that a command may change, as it was before. */
typedef struct Altered
{
	Oid			relid;
	AttrNumber	columns;		/* number of columns before, including dropped ones */
	Datum		definition;		/* jsonb */
} Altered;

/*
 * Tables of one server and one owner that a command dropped; there is one session per node for
 * them.
 */
typedef struct Dropped
{
	Oid			serverid;
	Oid			owner;
	StringInfoData tables;		/* remote names */
} Dropped;

/* A check that a command dropped with something else. */
typedef struct DroppedCheck
{
	Oid			relid;
	char	   *name;
} DroppedCheck;

/* The innermost command that may drop or alter such tables. */
static RfDdlCommand *current = NULL;

/* ---------- which tables ---------- */

static Form_pg_class
relation_form(Oid relid, HeapTuple *tuple)
{
	*tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(*tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	return (Form_pg_class) GETSTRUCT(*tuple);
}

static AttrNumber
columns_of(Oid relid)
{
	HeapTuple	tuple;
	AttrNumber	columns = relation_form(relid, &tuple)->relnatts;

	ReleaseSysCache(tuple);
	return columns;
}

/* ---------- asking SQL ---------- */

bool
rf_has_noted_key(Oid relid, const char *name)
{
	ObjectAddress table = {RelationRelationId, relid, 0};

	if (GetSecurityLabel(&table, "rdma_fdw") == NULL)
		return false;
	return DatumGetBool(rf_ask_as(GetUserId(), "SELECT EXISTS (SELECT FROM "
								  "rdma_internal.noted_keys() k WHERE k.tab = $1 "
								  "AND k.key->>'name' = $2)", 2,
								  REGCLASSOID, ObjectIdGetDatum(relid),
								  TEXTOID, CStringGetTextDatum(name)));
}

static bool
is_remembered(const RfDdlCommand *command, Oid relid)
{
	ListCell   *lc;

	foreach(lc, command->altered)
	{
		if (((Altered *) lfirst(lc))->relid == relid)
			return true;
	}
	return false;
}

/*
 * Notes a table that the command may alter, with its definition before the command. Each table is
 * noted once.
 */
static void
remember(RfDdlCommand *command, Oid relid)
{
	MemoryContext caller;
	Altered    *table;

	if (is_remembered(command, relid))
		return;
	caller = MemoryContextSwitchTo(command->context);
	table = palloc(sizeof(Altered));
	table->relid = relid;
	table->columns = columns_of(relid);
	table->definition = rf_ask_as(GetUserId(), "SELECT rdma_internal.table_definition($1)", 1,
								  REGCLASSOID, ObjectIdGetDatum(relid));
	command->altered = lappend(command->altered, table);
	MemoryContextSwitchTo(caller);
}

/* ---------- before a command ---------- */

/*
 * Takes the expression of ALTER COLUMN ... TYPE ... USING out of the command: core refuses it, as a
 * foreign table has no rows here. The nodes compute it. It is written for their sessions.
 */
static void
take_using(RfDdlCommand *command, Oid relid, AlterTableCmd *part)
{
	ColumnDef  *column = castNode(ColumnDef, part->def);
	Relation	rel = relation_open(relid, NoLock);
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node	   *expr;
	RfRole		before;

	item = addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true);
	addNSItemToQuery(pstate, item, false, true, true);
	expr = transformExpr(pstate, column->raw_default, EXPR_KIND_ALTER_COL_TRANSFORM);
	assign_expr_collations(pstate, expr);
	if (contain_volatile_functions(expr))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" of foreign table \"%s\" cannot be converted with this "
						"expression",
						part->name, RelationGetRelationName(rel)),
				 errdetail("It has another value each time, and each node would compute it."),
				 errhint("Add a column of the new type, fill it with UPDATE, drop this one, and "
						 "rename the new one.")));
	rf_role_begin(&before, GetUserId());
	rf_add_json(&command->usings, part->name,
				deparse_expression(expr, deparse_context_for(RelationGetRelationName(rel), relid),
								   false, false));
	rf_role_end(&before);
	column->raw_default = NULL;
	relation_close(rel, NoLock);
}

/* Takes what its effect does not show out of the command, where core would refuse it. */
static void
take_usings(RfDdlCommand *command, Oid relid, AlterTableStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		AlterTableCmd *part = lfirst_node(AlterTableCmd, lc);

		if (part->subtype == AT_AlterColumnType &&
			castNode(ColumnDef, part->def)->raw_default != NULL)
			take_using(command, relid, part);
	}
}

static void
note_cascade(RfDdlCommand *command, AlterTableStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		AlterTableCmd *part = lfirst_node(AlterTableCmd, lc);

		if (part->subtype == AT_DropColumn && part->behavior == DROP_CASCADE)
			rf_add_json(&command->cascade, part->name, NULL);
	}
}

/* The table that a command names; NULL: none that is propagated. */
static RangeVar *
named_table(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:
			return ((AlterTableStmt *) statement)->relation;
		case T_RenameStmt:
			return ((RenameStmt *) statement)->relation;
		case T_AlterObjectSchemaStmt:
			return ((AlterObjectSchemaStmt *) statement)->relation;
		default:
			return NULL;
	}
}

/*
 * Remembers the tables that the command may alter: the named table, and its partitions and
 * children.
 */
static void
prepare(RfDdlCommand *command, Node *statement)
{
	RangeVar   *name = named_table(statement);
	Oid			relid = name != NULL ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;
	char		kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';
	List	   *relids = NIL;
	ListCell   *lc;

	/* a role that does not own it gets core's error, and no lock */
	if ((kind != RELKIND_FOREIGN_TABLE && kind != RELKIND_RELATION &&
		 kind != RELKIND_PARTITIONED_TABLE) || !rf_relation_ownercheck(relid, GetUserId()))
		return;
	if (IsA(statement, AlterTableStmt))
		note_cascade(command, (AlterTableStmt *) statement);
	if (kind == RELKIND_FOREIGN_TABLE)
		relids = list_make1_oid(relid);
	else if (has_subclass(relid))
		relids = find_all_inheritors(relid, NoLock, NULL);
	foreach(lc, relids)
	{
		Oid			member = lfirst_oid(lc);

		if (!rf_is_propagated(member))
			continue;

		/*
		 * no other session alters it from here on; the command itself takes the lock that it needs
		 */
		LockRelationOid(member, ShareUpdateExclusiveLock);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(member)) || !rf_is_propagated(member))
			continue;
		if (IsA(statement, AlterTableStmt) && member == relid)
			take_usings(command, member, (AlterTableStmt *) statement);
		remember(command, member);
	}
}

/* ---------- after the command ---------- */

/* A table is about to be dropped. */
static void
add_dropped(RfDdlCommand *command, Oid relid)
{
	MemoryContext caller = MemoryContextSwitchTo(command->context);
	ForeignTable *table = GetForeignTable(relid);
	Oid			owner = rf_relation_owner(relid);
	Dropped    *group = NULL;
	RfTableOptions options;
	ListCell   *lc;

	rf_table_options(table, GetForeignServer(table->serverid), &options);
	foreach(lc, command->dropped)
	{
		Dropped    *candidate = (Dropped *) lfirst(lc);

		if (candidate->serverid == table->serverid && candidate->owner == owner)
			group = candidate;
	}
	if (group == NULL)
	{
		group = palloc(sizeof(Dropped));
		group->serverid = table->serverid;
		group->owner = owner;
		initStringInfo(&group->tables);
		command->dropped = lappend(command->dropped, group);
	}
	appendStringInfo(&group->tables, "%s%s", group->tables.len > 0 ? ", " : "",
					 rf_remote_relation_name(&options));
	MemoryContextSwitchTo(caller);
}

/* A check goes with a function or an operator that it uses: DROP ... CASCADE. */
static void
add_check(RfDdlCommand *command, Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Form_pg_constraint form;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_constraint) GETSTRUCT(tuple);
	if (form->contype == CONSTRAINT_CHECK && OidIsValid(form->conrelid) &&
		rf_is_propagated(form->conrelid))
	{
		MemoryContext caller = MemoryContextSwitchTo(command->context);
		DroppedCheck *check = palloc(sizeof(DroppedCheck));

		check->relid = form->conrelid;
		check->name = pstrdup(NameStr(form->conname));
		command->checks = lappend(command->checks, check);
		MemoryContextSwitchTo(caller);
	}
	ReleaseSysCache(tuple);
}

void
rf_ddl_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id)
{
	if (class_id == RelationRelationId)
		rf_check_key_types(access, object_id, sub_id);
	if (current != NULL && sub_id == 0)
		rf_note_changed(current, access, class_id, object_id);
	if (current != NULL && access == OAT_DROP && class_id == ConstraintRelationId)
		add_check(current, object_id);
	if (access != OAT_DROP || class_id != RelationRelationId || current == NULL ||
		list_member_oid(current->sent, object_id) || !rf_is_propagated(object_id))
		return;
	if (sub_id == 0)
		add_dropped(current, object_id);
	else
		remember(current, object_id);	/* a column goes with its type */
}

static void
error_context(void *arg)
{
	errcontext("propagation of the command to the nodes; "
			   "SET rdma_fdw.propagate_ddl = off has it change things here only");
}

static void
begin_context(ErrorContextCallback *callback)
{
	callback->callback = error_context;
	callback->arg = NULL;
	callback->previous = error_context_stack;
	error_context_stack = callback;
}

/*
 * Drops the tables on the nodes, server by server, with the rights of the dropped table's owner
 * here.
 */
static void
propagate_drops(RfDdlCommand *command, bool cascade)
{
	ListCell   *lc;

	foreach(lc, command->dropped)
	{
		Dropped    *group = (Dropped *) lfirst(lc);
		ForeignServer *server;
		char	   *drop;

		/* Dropping the server detaches the nodes, with the tables that they have. */
		if (!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(group->serverid)))
			continue;
		server = GetForeignServer(group->serverid);
		drop = psprintf("DROP TABLE IF EXISTS %s%s", group->tables.data,
						cascade ? " CASCADE" : "");
		(void) rf_ask_as(group->owner, "SELECT pg_catalog.count(*) FROM rdma.run_on($1, $2)", 2,
						 NAMEOID, DirectFunctionCall1(namein, CStringGetDatum(server->servername)),
						 TEXTOID, CStringGetTextDatum(drop));
	}
}

/*
 * DROP OWNED takes the owner's rights on servers and the owner's user mappings before the tables,
 * so the nodes could not be asked as the owner afterwards. They are asked before. If the command
 * fails, nothing is committed there.
 */
static void
drop_owned(RfDdlCommand *command, const DropOwnedStmt *statement)
{
	List	   *owners = rf_owning_roles(statement->roles);
	ErrorContextCallback callback;
	ListCell   *lc;

	foreach(lc, owners != NIL ? rf_foreign_tables(InvalidOid) : NIL)
	{
		Oid			relid = lfirst_oid(lc);

		/* a server of theirs goes as well, and leaves the nodes what they have */
		if (list_member_oid(owners, rf_relation_owner(relid)) && rf_is_propagated(relid) &&
			!list_member_oid(owners, GetForeignServer(GetForeignTable(relid)->serverid)->owner))
			command->sent = lappend_oid(command->sent, relid);
	}

	/* first here, as all others do */
	foreach(lc, command->sent)
	{
		Oid			relid = lfirst_oid(lc);

		LockRelationOid(relid, AccessExclusiveLock);
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) && rf_is_propagated(relid) &&
			list_member_oid(owners, rf_relation_owner(relid)))
			add_dropped(command, relid);
		else
			command->sent = foreach_delete_current(command->sent, lc);
	}
	begin_context(&callback);
	propagate_drops(command, statement->behavior == DROP_CASCADE);
	error_context_stack = callback.previous;
	command->dropped = NIL;
	rf_rights_lose(command, owners);
}

/*
 * Existing rows get the value that the default has now, the same on all nodes. Adds to a list of
 * JSON those new columns whose default has another value for each row: it is computed here, as for
 * new rows. Triggers here would see the UPDATE that does it.
 */
static void
add_fills(StringInfo fills, Oid relid, AttrNumber columns)
{
	Relation	relation = relation_open(relid, NoLock);

	for (int i = columns; i < RelationGetNumberOfAttributes(relation); i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(relation), i);
		Node	   *expr = NULL;

		if (!column->attisdropped && !column->attgenerated)
			expr = build_column_default(relation, i + 1);
		if (expr == NULL || !contain_volatile_functions(expr))
			continue;
		if (relation->trigdesc != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column \"%s\" cannot be added with this default to foreign table "
							"\"%s\"",
							NameStr(column->attname), RelationGetRelationName(relation)),
					 errdetail("It has another value for each row, and triggers here would see how "
							   "rows get it."),
					 errhint("Drop the triggers, and create them again afterwards.")));
		rf_add_json(fills, NameStr(column->attname), NULL);
	}
	relation_close(relation, NoLock);
}

/* See rdma_internal.propagate_table. cascade: all that is dropped. */
static Datum
how_changed(const RfDdlCommand *command, const Altered *table, bool cascade)
{
	StringInfoData json;
	StringInfoData fills;

	initStringInfo(&fills);
	if (columns_of(table->relid) > table->columns)
		add_fills(&fills, table->relid, table->columns);

	initStringInfo(&json);
	if (cascade)
		appendStringInfoString(&json, "{\"cascade\": true");
	else
		appendStringInfo(&json, "{\"cascade\": [%s]", command->cascade.data);
	if (command->usings.len > 0)
		appendStringInfo(&json, ", \"using\": {%s}", command->usings.data);
	appendStringInfo(&json, ", \"fill\": [%s]}", fills.data);
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/* Alters the tables on the nodes as they were altered here, each with the rights of its owner. */
static void
propagate_changes(RfDdlCommand *command, bool cascade)
{
	static const char propagation[] =
		"SELECT pg_catalog.count(*) FROM rdma_internal.propagate_table($1, $2, $3)";
	ListCell   *lc;

	foreach(lc, command->altered)
	{
		Altered    *table = (Altered *) lfirst(lc);

		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table->relid)))
			(void) rf_ask_as(rf_relation_owner(table->relid), propagation, 3,
							 REGCLASSOID, ObjectIdGetDatum(table->relid),
							 JSONBOID, table->definition,
							 JSONBOID, how_changed(command, table, cascade));
	}
}

/* Checks of tables that the command did not alter otherwise. */
static void
propagate_checks(RfDdlCommand *command)
{
	ListCell   *lc;

	foreach(lc, command->checks)
	{
		DroppedCheck *check = lfirst(lc);

		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(check->relid)) &&
			!is_remembered(command, check->relid))
			rf_run_there(check->relid, psprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s",
												rf_remote_table(check->relid),
												quote_identifier(check->name)));
	}
}

static bool
says_cascade(Node *statement)
{
	return IsA(statement, DropStmt) ? ((DropStmt *) statement)->behavior == DROP_CASCADE :
		IsA(statement, DropOwnedStmt) ? ((DropOwnedStmt *) statement)->behavior == DROP_CASCADE :
		false;
}

static Oid
enum_type(const AlterEnumStmt * statement)
{
	return typenameTypeId(NULL, makeTypeNameFromNameList(statement->typeName));
}

/* The nodes' tables that have such columns take the new value, too. */
static void
propagate_value(const AlterEnumStmt * statement)
{
	const char *neighbor = statement->newValNeighbor != NULL ? statement->newValNeighbor : "";

	if (statement->oldVal != NULL || !rf_is_installed())
		return;
	(void) rf_ask_as(GetUserId(),
					 "SELECT pg_catalog.count(*) FROM rdma_internal.add_value($1, $2, $3, $4)", 4,
					 REGTYPEOID, ObjectIdGetDatum(enum_type(statement)),
					 TEXTOID, CStringGetTextDatum(statement->newVal),
					 TEXTOID, CStringGetTextDatum(neighbor),
					 BOOLOID, BoolGetDatum(statement->newValIsAfter));
}

/* The TRUNCATE that runs; NULL if no TRUNCATE runs. */
static const TruncateStmt *truncating = NULL;

bool
rf_truncates_only(Oid relid)
{
	ListCell   *lc;

	foreach(lc, truncating != NULL ? truncating->relations : NIL)
	{
		RangeVar   *name = lfirst_node(RangeVar, lc);

		if (!name->inh && RangeVarGetRelid(name, NoLock, true) == relid)
			return true;
	}
	return false;
}

/*
 * Makes the command current if it may drop or alter distributed tables; the command around it is
 * current again when it ends.
 */
void
rf_ddl_begin(RfDdlCommand *command, Node *statement, ProcessUtilityContext context)
{
	bool		drops = IsA(statement, DropStmt) || IsA(statement, DropOwnedStmt);

	if (IsA(statement, AlterEnumStmt) && ((AlterEnumStmt *) statement)->oldVal != NULL)
		rf_check_key_labels(enum_type((AlterEnumStmt *) statement));
	*command = (RfDdlCommand)
	{
		.context = CurrentMemoryContext, .outer = current, .truncating = truncating
	};
	truncating = IsA(statement, TruncateStmt) ? (TruncateStmt *) statement : NULL;
	if (!rf_propagate_ddl || IsBinaryUpgrade || context == PROCESS_UTILITY_SUBCOMMAND)
		return;
	command->watched = rf_rights_begin(command, statement) || drops ||
		named_table(statement) != NULL || IsA(statement, AlterEnumStmt) ||
		rf_changes_object(statement);
	if (command->watched)
	{
		initStringInfo(&command->cascade);
		initStringInfo(&command->usings);
	}
	if (command->watched && IsA(statement, DropOwnedStmt))
		drop_owned(command, (DropOwnedStmt *) statement);
	else if (command->watched && !drops)
		prepare(command, statement);
	if (command->watched)
		current = command;
}

void
rf_ddl_end(const RfDdlCommand *command)
{
	current = command->outer;
	truncating = command->truncating;
}

/* What the command did here is done on the nodes, or told. */
void
rf_ddl_propagate(RfDdlCommand *command, Node *statement)
{
	ErrorContextCallback callback;

	if (command->altered == NIL && command->dropped == NIL && command->rights == NIL &&
		command->functions == NIL && command->types == NIL && command->checks == NIL &&
		!(command->watched && IsA(statement, AlterEnumStmt)))
		return;
	CommandCounterIncrement();
	begin_context(&callback);
	if (IsA(statement, AlterEnumStmt))
		propagate_value((AlterEnumStmt *) statement);
	propagate_drops(command, says_cascade(statement));
	rf_rights_propagate(command, statement);
	propagate_changes(command, says_cascade(statement));
	propagate_checks(command);
	rf_functions_propagate(command);
	/* new values follow */
	if (!IsA(statement, AlterEnumStmt) || ((AlterEnumStmt *) statement)->oldVal != NULL)
		rf_types_tell(command);
	error_context_stack = callback.previous;
}
