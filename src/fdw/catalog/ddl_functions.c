/*
 * ddl_functions.c - functions and types that a command changes here while the nodes have copies,
 * which the checks, generated columns, domains and triggers of their tables use.
 *
 * A function goes to the nodes again as it went there first: with the rights of the owner of the
 * tables that use it, if it belongs to that owner or to a superuser. What does not go is told, and
 * so are types.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"

#include "catalog.h"

/* A function that a command changes or drops, as it was before. */
typedef struct ChangedFunction
{
	Oid			oid;
	Oid			owner;
	bool		of_triggers;
	char	   *name;			/* with its schema and the types of its arguments */
} ChangedFunction;

bool
rf_changes_object(Node *statement)
{
	bool		changes = (IsA(statement, CreateFunctionStmt) &&
						   ((CreateFunctionStmt *) statement)->replace) ||
		IsA(statement, AlterFunctionStmt) || IsA(statement, AlterDomainStmt) ||
		IsA(statement, RenameStmt) || IsA(statement, AlterObjectSchemaStmt);

	/* Other commands run in failed transactions, too, where catalogs cannot be read. */
	return changes && rf_is_installed();
}

/*
 * Remembers a function as the catalog still shows it, before the command. The catalog does not show
 * a function that the command creates, so nothing is remembered then.
 */
static void
note_function(RfDdlCommand *command, Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	ChangedFunction *function;
	Form_pg_proc form;
	ListCell   *lc;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	foreach(lc, command->functions)
	{
		if (((ChangedFunction *) lfirst(lc))->oid == funcid)
			break;
	}
	if (lc == NULL)
	{
		function = palloc(sizeof(ChangedFunction));
		function->oid = funcid;
		function->owner = form->proowner;
		/* those of extensions do not go to the nodes */
		function->of_triggers = form->prorettype == TRIGGEROID && !creating_extension;
		function->name = format_procedure_qualified(funcid);
		command->functions = lappend(command->functions, function);
	}
	ReleaseSysCache(tuple);
}

void
rf_note_changed(RfDdlCommand *command, ObjectAccessType access, Oid class_id, Oid object_id)
{
	MemoryContext caller = MemoryContextSwitchTo(command->context);
	bool		written = access == OAT_POST_CREATE || access == OAT_POST_ALTER;

	/* what checks use is dropped with them; only a node knows its triggers */
	if (class_id == ProcedureRelationId &&
		(written || (access == OAT_DROP && get_func_rettype(object_id) == TRIGGEROID)))
		note_function(command, object_id);
	else if (class_id == TypeRelationId && written && !OidIsValid(get_element_type(object_id)))
		command->types = list_append_unique_oid(command->types, object_id);
	MemoryContextSwitchTo(caller);
}

static void
tell(Oid class_id, Oid object_id, const char *servers)
{
	ObjectAddress address;

	ObjectAddressSet(address, class_id, object_id);
	ereport(NOTICE,
			(errmsg("%s is changed here only", getObjectDescription(&address, false)),
			 errdetail("Tables of server %s use it, whose nodes have their own.", servers),
			 errhint("Change it there in the same way: rdma.run_on.")));
}

/*
 * Returns "changed", "left" if the nodes of a server keep using what they have, or NULL if they do
 * not use the function. Errors: of the nodes; it was dropped, and triggers there use it.
 */
static const char *
change_there(const ChangedFunction *function, Oid owner, const char *server)
{
	Datum		answer;

	answer = rf_ask_as(owner, "SELECT rdma_internal.change_function($1, $2, $3)", 3,
					   NAMEOID, DirectFunctionCall1(namein, CStringGetDatum(server)),
					   OIDOID, ObjectIdGetDatum(function->oid),
					   TEXTOID, CStringGetTextDatum(function->name));
	return answer != (Datum) 0 ? TextDatumGetCString(answer) : NULL;
}

/*
 * Sends a function to each server. Several roles may own tables there that use the function; the
 * first owner with the right to change it does so for all. If two owners did, their sessions would
 * wait for each other.
 */
static void
propagate_function(const ChangedFunction *function)
{
	Datum		found = rf_ask_as(GetUserId(), "SELECT rdma_internal.function_users($1, $2, $3)", 3,
								  OIDOID, ObjectIdGetDatum(function->oid),
								  OIDOID, ObjectIdGetDatum(function->owner),
								  BOOLOID, BoolGetDatum(function->of_triggers));
	List	   *changed = NIL;
	List	   *left = NIL;
	Datum	   *users;
	int			count;
	ListCell   *lc;

	deconstruct_array(DatumGetArrayTypeP(found), TEXTOID, -1, false, TYPALIGN_INT, &users, NULL,
					  &count);
	for (int i = 0; i < count; i++)
	{
		char	   *name;
		Oid			owner = strtoul(TextDatumGetCString(users[i]), &name, 10);
		String	   *server = makeString(name + 1);
		const char *answer = NULL;

		if (!list_member(changed, server))
			answer = change_there(function, owner, strVal(server));
		if (answer != NULL && strcmp(answer, "changed") == 0)
			changed = lappend(changed, server);
		else if (answer != NULL)
			left = list_append_unique(left, server);
	}
	left = list_difference(left, changed);
	foreach(lc, left)
		tell(ProcedureRelationId, function->oid, quote_literal_cstr(strVal(lfirst(lc))));
}

void
rf_functions_propagate(const RfDdlCommand *command)
{
	ListCell   *lc;

	if (command->functions == NIL || !rf_is_installed())
		return;
	foreach(lc, command->functions)
		propagate_function(lfirst(lc));
}

void
rf_types_tell(const RfDdlCommand *command)
{
	ListCell   *lc;

	if (command->types == NIL || !rf_is_installed())
		return;
	foreach(lc, command->types)
	{
		Datum		servers = rf_ask_as(GetUserId(), "SELECT rdma_internal.servers_with($1, $2)", 2,
										OIDOID, ObjectIdGetDatum(TypeRelationId),
										OIDOID, ObjectIdGetDatum(lfirst_oid(lc)));

		if (servers != (Datum) 0)
			tell(TypeRelationId, lfirst_oid(lc), TextDatumGetCString(servers));
	}
}
