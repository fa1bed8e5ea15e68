/*
 * ddl_triggers.c - triggers of distributed tables.
 *
 * Row triggers run on the nodes, where the rows are and where writes run. Statement triggers run
 * here, once for each statement, as core has them: on a node a batch of rows is a statement. So do
 * row triggers of replicated tables, whose copies are the same only if what a trigger computes is
 * computed once.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"

#include "rdma_fdw/compat.h"

#include "catalog.h"

static bool
is_replicated(Oid relid)
{
	ForeignTable *table = GetForeignTable(relid);

	return rf_server_nodes(GetForeignServer(table->serverid)) != NIL &&
		rf_table_distribution(relid)->placement == RF_PLACED_EVERYWHERE;
}

bool
rf_create_trigger(CreateTrigStmt * statement, const char *source)
{
	static const char remote[] = "CREATE TRIGGER ... ON %s ...";
	RfShadowAnswer trigger;
	Oid			relid;

	/* transition tables, which a row trigger may have, core refuses */
	if (!statement->row || statement->transitionRels != NIL ||
		!rf_names_propagated(statement->relation))
		return false;
	relid = RangeVarGetRelid(statement->relation, NoLock, false);
	if (is_replicated(relid))
		return false;
	rf_lock_own(relid);
	if (statement->constrrel != NULL)
		rf_refuse_there(relid, "this trigger", "It names a second table.", remote);
	if (OidIsValid(get_trigger_oid(relid, statement->trigname, true)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("trigger \"%s\" for relation \"%s\" already exists",
						statement->trigname, get_rel_name(relid))));
	rf_check_column_names(relid, "this trigger", remote);
	trigger = rf_defined_by(relid, (Node *) statement, source);
	rf_send_needed(relid, &trigger);
	rf_run_there(relid, psprintf("CREATE %s%sTRIGGER %s %s ON %s %s",
								 statement->replace ? "OR REPLACE " : "",
								 statement->isconstraint ? "CONSTRAINT " : "",
								 quote_identifier(statement->trigname),
								 trigger.events, rf_remote_table(relid),
								 trigger.definition));
	return true;
}

/* The distributed table of this name, if it has no such trigger here; InvalidOid: it has. */
static Oid
table_without(RangeVar *name, const char *trigger)
{
	Oid			relid;

	if (!rf_names_propagated(name))
		return InvalidOid;
	relid = RangeVarGetRelid(name, NoLock, false);
	if (is_replicated(relid) || OidIsValid(get_trigger_oid(relid, trigger, true)))
		return InvalidOid;
	rf_lock_own(relid);
	return relid;
}

bool
rf_drop_trigger(DropStmt *statement)
{
	List	   *names = list_copy(linitial_node(List, statement->objects));
	char	   *trigger = strVal(llast(names));
	Oid			relid = table_without(makeRangeVarFromNameList(list_delete_last(names)), trigger);

	if (!OidIsValid(relid))
		return false;
	rf_run_there(relid, psprintf("DROP TRIGGER %s%s ON %s%s", statement->missing_ok ?
								 "IF EXISTS " : "", quote_identifier(trigger),
								 rf_remote_table(relid),
								 statement->behavior == DROP_CASCADE ? " CASCADE" : ""));
	return true;
}

bool
rf_rename_trigger(RenameStmt *statement)
{
	Oid			relid = table_without(statement->relation, statement->subname);

	if (!OidIsValid(relid))
		return false;
	rf_run_there(relid, psprintf("ALTER TRIGGER %s ON %s RENAME TO %s",
								 quote_identifier(statement->subname), rf_remote_table(relid),
								 quote_identifier(statement->newname)));
	return true;
}

/* The words of a part of ALTER TABLE that switches triggers; NULL: it is another one. */
static const char *
switch_words(const AlterTableCmd *part)
{
	switch (part->subtype)
	{
		case AT_EnableTrig:
			return "ENABLE TRIGGER";
		case AT_EnableAlwaysTrig:
			return "ENABLE ALWAYS TRIGGER";
		case AT_EnableReplicaTrig:
			return "ENABLE REPLICA TRIGGER";
		case AT_DisableTrig:
			return "DISABLE TRIGGER";
		case AT_EnableTrigAll:
			return "ENABLE TRIGGER ALL";
		case AT_DisableTrigAll:
			return "DISABLE TRIGGER ALL";
		case AT_EnableTrigUser:
			return "ENABLE TRIGGER USER";
		case AT_DisableTrigUser:
			return "DISABLE TRIGGER USER";
		default:
			return NULL;
	}
}

bool
rf_switches_triggers_there(Oid relid, const AlterTableCmd *part)
{
	Relation	rel;
	bool		here;

	if (switch_words(part) == NULL || is_replicated(relid))
		return false;
	if (part->name != NULL)
		return !OidIsValid(get_trigger_oid(relid, part->name, true));
	rel = relation_open(relid, AccessShareLock);
	here = rel->trigdesc != NULL;
	relation_close(rel, NoLock);
	if (here)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("foreign table \"%s\" has triggers here, and may have some on the nodes",
						get_rel_name(relid)),
				 errhint("Name the triggers: %s ...", switch_words(part))));
	return true;
}

void
rf_switch_triggers(Oid relid, const AlterTableCmd *part)
{
	rf_run_there(relid, psprintf("ALTER TABLE %s %s%s%s", rf_remote_table(relid),
								 switch_words(part), part->name != NULL ? " " : "",
								 part->name != NULL ? quote_identifier(part->name) : ""));
}
