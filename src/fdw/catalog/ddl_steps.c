/*
 * ddl_steps.c - splits commands into what core does here and what only the nodes can do.
 *
 * A table that rdma.distribute_table made was an ordinary one before, and programs go on to call it
 * TABLE and to give it indexes and keys. Core refuses both for a foreign table, before a wrapper is
 * asked. So a command is replaced by steps, which are commands themselves. Core runs a step that it
 * accepts; rf_ddl_on_nodes() (ddl_nodes.c) runs a step all of whose parts are for the nodes.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "catalog.h"

static Oid
relation_named(RangeVar *name)
{
	return name != NULL ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;
}

static PlannedStmt *
with_statement(const PlannedStmt *planned, Node *statement)
{
	PlannedStmt *copy = makeNode(PlannedStmt);

	*copy = *planned;
	copy->utilityStmt = statement;
	return copy;
}

/* ---------- parts of ALTER TABLE ---------- */

static bool
is_key(const Constraint *constraint)
{
	return constraint->contype == CONSTR_PRIMARY || constraint->contype == CONSTR_UNIQUE ||
		constraint->contype == CONSTR_EXCLUSION || constraint->contype == CONSTR_FOREIGN;
}

/* Is it a constraint that only the nodes can know? */
static bool
unknown_here(Oid relid, const char *name)
{
	return !OidIsValid(get_relation_constraint_oid(relid, name, true)) &&
		strcmp(name, RF_PLACEMENT_CONSTRAINT) != 0;
}

bool
rf_ddl_is_for_nodes(Oid relid, const AlterTableCmd *part)
{
	bool		here = !rf_is_propagated(relid);

	switch (part->subtype)
	{
		case AT_AddConstraint:
			if (part->def == NULL || !IsA(part->def, Constraint))
				return false;
			return here ? castNode(Constraint, part->def)->contype == CONSTR_FOREIGN &&
				rf_names_propagated(castNode(Constraint, part->def)->pktable) :
				is_key(castNode(Constraint, part->def));
		case AT_DropConstraint:
			return here ? rf_has_noted_key(relid, part->name) : unknown_here(relid, part->name);
		case AT_ValidateConstraint:
			return !here && unknown_here(relid, part->name);
		case AT_AttachPartition:
		case AT_DetachPartition:
			return !here;
		default:
			return !here && rf_switches_triggers_there(relid, part);
	}
}

static AlterTableCmd *
add_constraint(Constraint *constraint)
{
	AlterTableCmd *part = makeNode(AlterTableCmd);

	part->subtype = AT_AddConstraint;
	part->def = (Node *) constraint;
	part->behavior = DROP_RESTRICT;
	return part;
}

static Constraint *
not_null(void)
{
	Constraint *constraint = makeNode(Constraint);

	constraint->contype = CONSTR_NOTNULL;
	constraint->location = -1;
	constraint->initially_valid = true;
#if PG_VERSION_NUM >= 180000
	constraint->is_enforced = true;
#endif
	return constraint;
}

/* DEFERRABLE and the like follow the constraint of a column that they belong to. */
static bool
take_attribute(Constraint *key, const Constraint *attribute)
{
	switch (attribute->contype)
	{
		case CONSTR_ATTR_DEFERRABLE:
			key->deferrable = true;
			return true;
		case CONSTR_ATTR_DEFERRED:
			key->deferrable = true;
			key->initdeferred = true;
			return true;
		case CONSTR_ATTR_NOT_DEFERRABLE:
		case CONSTR_ATTR_IMMEDIATE:
			return true;
		default:
			return false;
	}
}

/*
 * Takes the keys out of a column's definition, foreign ones to distributed tables only if `only`
 * says so. Returns them as parts of ALTER TABLE.
 */
static List *
take_keys(ColumnDef *column, bool only)
{
	List	   *kept = NIL;
	List	   *taken = NIL;
	Constraint *key = NULL;
	ListCell   *lc;

	foreach(lc, column->constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (key != NULL && take_attribute(key, constraint))
			continue;
		key = NULL;
		if (only ? constraint->contype != CONSTR_FOREIGN ||
			!rf_names_propagated(constraint->pktable) : !is_key(constraint))
		{
			kept = lappend(kept, constraint);
			continue;
		}
		key = constraint;
		if (key->contype == CONSTR_FOREIGN)
			key->fk_attrs = list_make1(makeString(pstrdup(column->colname)));
		else
			key->keys = list_make1(makeString(pstrdup(column->colname)));
		if (key->contype == CONSTR_PRIMARY)
			kept = lappend(kept, not_null());
		taken = lappend(taken, add_constraint(key));
	}
	column->constraints = kept;
	return taken;
}

/* A primary key's columns are NOT NULL, here as well. */
static List *
add_not_nulls(List *parts, const Constraint *key)
{
	ListCell   *lc;

	foreach(lc, key->contype == CONSTR_PRIMARY ? key->keys : NIL)
	{
		AlterTableCmd *part = makeNode(AlterTableCmd);

		part->subtype = AT_SetNotNull;
		part->name = strVal(lfirst(lc));
		parts = lappend(parts, part);
	}
	return parts;
}

static List *
add_alter(List *steps, const PlannedStmt *planned, const AlterTableStmt *whole, List *parts)
{
	AlterTableStmt *step = makeNode(AlterTableStmt);

	if (parts == NIL)
		return steps;
	*step = *whole;
	step->cmds = parts;
	return lappend(steps, with_statement(planned, (Node *) step));
}

/* Core drops before it adds, too. */
static List *
alter_steps(const PlannedStmt *planned, AlterTableStmt *statement)
{
	Oid			relid = relation_named(statement->relation);
	bool		propagated = OidIsValid(relid) && rf_is_propagated(relid);
	List	   *drops = NIL;
	List	   *here = NIL;
	List	   *adds = NIL;
	ListCell   *lc;

	if (!OidIsValid(relid) || (statement->objtype != OBJECT_TABLE &&
							   statement->objtype != OBJECT_FOREIGN_TABLE))
		return NIL;
	/* The statement may be run again; here and in ddl.c parts are taken out of it. */
	statement = copyObject(statement);
	foreach(lc, statement->cmds)
	{
		AlterTableCmd *part = lfirst_node(AlterTableCmd, lc);

		if (rf_ddl_is_for_nodes(relid, part))
		{
			if (part->subtype == AT_DropConstraint)
				drops = lappend(drops, part);
			else
				adds = lappend(adds, part);
			if (part->subtype == AT_AddConstraint)
				here = add_not_nulls(here, castNode(Constraint, part->def));
			continue;
		}
		if (part->subtype == AT_AddColumn)
			adds = list_concat(adds, take_keys(castNode(ColumnDef, part->def), !propagated));
		here = lappend(here, part);
	}
	if (drops == NIL && adds == NIL && !propagated)
		return NIL;
	return add_alter(add_alter(add_alter(NIL, planned, statement, drops),
							   planned, statement, here), planned, statement, adds);
}

/* ---------- other commands ---------- */

/* Foreign keys to distributed tables are taken out of CREATE TABLE, and added afterwards. */
static List *
create_steps(const PlannedStmt *planned, CreateStmt *statement)
{
	AlterTableStmt *alter = makeNode(AlterTableStmt);
	List	   *elements = NIL;
	List	   *keys = NIL;
	ListCell   *lc;

	if (statement->relation->relpersistence == RELPERSISTENCE_TEMP ||
		OidIsValid(relation_named(statement->relation)))
		return NIL;
	statement = copyObject(statement);
	foreach(lc, statement->tableElts)
	{
		Node	   *element = lfirst(lc);

		if (IsA(element, ColumnDef))
			keys = list_concat(keys, take_keys((ColumnDef *) element, true));
		if (IsA(element, Constraint) && ((Constraint *) element)->contype == CONSTR_FOREIGN &&
			rf_names_propagated(((Constraint *) element)->pktable))
			keys = lappend(keys, add_constraint((Constraint *) element));
		else
			elements = lappend(elements, element);
	}
	if (keys == NIL)
		return NIL;
	statement->tableElts = elements;
	alter->relation = copyObject(statement->relation);
	alter->objtype = OBJECT_TABLE;
	alter->cmds = keys;
	return list_make2(with_statement(planned, (Node *) statement),
					  with_statement(planned, (Node *) alter));
}

static List *
add_drop(List *steps, const PlannedStmt *planned, List *objects, ObjectType type)
{
	DropStmt   *step = makeNode(DropStmt);

	if (objects == NIL)
		return steps;
	*step = *(const DropStmt *) planned->utilityStmt;
	step->objects = objects;
	step->removeType = type;
	return lappend(steps, with_statement(planned, (Node *) step));
}

/* Tables by their kind, and each index or partition that is not here by itself. */
static List *
drop_steps(const PlannedStmt *planned, const DropStmt *statement)
{
	List	   *steps = NIL;
	List	   *there = NIL;
	List	   *here = NIL;
	ListCell   *lc;

	foreach(lc, statement->objects)
	{
		RangeVar   *name = makeRangeVarFromNameList(lfirst_node(List, lc));

		if (!OidIsValid(relation_named(name)))
			steps = add_drop(steps, planned, list_make1(lfirst(lc)), statement->removeType);
		else if (rf_names_propagated(name))
			there = lappend(there, lfirst(lc));
		else
			here = lappend(here, lfirst(lc));
	}

	/* tables there first: with a partitioned table go its partitions */
	steps = add_drop(steps, planned, there, OBJECT_FOREIGN_TABLE);
	return there == NIL && steps == NIL ? NIL :
		add_drop(steps, planned, here, statement->removeType);
}

/* COPY t TO is COPY (SELECT columns FROM t) TO. */
static List *
copy_steps(const PlannedStmt *planned, const CopyStmt *statement)
{
	CopyStmt   *copy = makeNode(CopyStmt);
	SelectStmt *select = makeNode(SelectStmt);
	List	   *names = statement->attlist;
	Relation	rel = relation_openrv(statement->relation, AccessShareLock);
	ListCell   *lc;

	for (int i = 0; i < RelationGetNumberOfAttributes(rel) && statement->attlist == NIL; i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), i);

		if (!column->attisdropped && !column->attgenerated)
			names = lappend(names, makeString(pstrdup(NameStr(column->attname))));
	}
	relation_close(rel, NoLock);
	foreach(lc, names)
	{
		ResTarget  *target = makeNode(ResTarget);
		ColumnRef  *column = makeNode(ColumnRef);

		column->fields = list_make1(lfirst(lc));
		column->location = -1;
		target->val = (Node *) column;
		target->location = -1;
		select->targetList = lappend(select->targetList, target);
	}
	select->fromClause = list_make1(copyObject(statement->relation));
	*copy = *statement;
	copy->relation = NULL;
	copy->attlist = NIL;
	copy->query = (Node *) select;
	return list_make1(with_statement(planned, (Node *) copy));
}

/*
 * COPY t FROM ... FREEZE without it, as pgbench sends it. The nodes write the rows as those of an
 * INSERT; core would ask whether its own file of the table is new.
 */
static List *
unfrozen_steps(const PlannedStmt *planned, const CopyStmt *statement)
{
	CopyStmt   *copy = makeNode(CopyStmt);
	ListCell   *lc;

	*copy = *statement;
	copy->options = NIL;
	foreach(lc, statement->options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, "freeze") != 0)
			copy->options = lappend(copy->options, lfirst(lc));
	}
	return list_length(copy->options) == list_length(statement->options) ? NIL :
		list_make1(with_statement(planned, (Node *) copy));
}

static List *
add_vacuum(List *steps, const PlannedStmt *planned, List *rels, bool analyze)
{
	VacuumStmt *step = makeNode(VacuumStmt);

	if (rels == NIL)
		return steps;
	*step = *(const VacuumStmt *) planned->utilityStmt;
	step->rels = rels;
	if (analyze)
	{
		step->is_vacuumcmd = false;
		step->options = NIL;
	}
	return lappend(steps, with_statement(planned, (Node *) step));
}

/* The nodes vacuum; what the planner knows of the tables is here. */
static List *
vacuum_steps(const PlannedStmt *planned, const VacuumStmt *statement)
{
	List	   *there = NIL;
	List	   *here = NIL;
	bool		analyze = false;
	ListCell   *lc;

	foreach(lc, statement->rels)
	{
		if (rf_names_propagated(lfirst_node(VacuumRelation, lc)->relation))
			there = lappend(there, lfirst(lc));
		else
			here = lappend(here, lfirst(lc));
	}
	foreach(lc, statement->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "analyze") == 0)
			analyze = defGetBoolean(option);
	}
	if (!statement->is_vacuumcmd || there == NIL)
		return NIL;
	return add_vacuum(add_vacuum(add_vacuum(NIL, planned, there, false), planned, here, false),
					  planned, analyze ? there : NIL, true);
}

/* Core locks no foreign tables. */
static List *
lock_steps(const PlannedStmt *planned, const LockStmt * statement)
{
	LockStmt   *parts[2] = {makeNode(LockStmt), makeNode(LockStmt)};
	List	   *steps = NIL;
	ListCell   *lc;

	*parts[0] = *parts[1] = *statement;
	parts[0]->relations = parts[1]->relations = NIL;
	foreach(lc, statement->relations)
	{
		LockStmt   *part = parts[rf_names_propagated(lfirst_node(RangeVar, lc)) ? 1 : 0];

		part->relations = lappend(part->relations, lfirst(lc));
	}
	if (parts[1]->relations == NIL)
		return NIL;
	for (int i = 0; i < lengthof(parts); i++)
	{
		if (parts[i]->relations != NIL)
			steps = lappend(steps, with_statement(planned, (Node *) parts[i]));
	}
	return steps;
}

static List *
comment_steps(const PlannedStmt *planned, const CommentStmt *statement)
{
	CommentStmt *copy = makeNode(CommentStmt);

	if (statement->objtype != OBJECT_TABLE ||
		!rf_names_propagated(makeRangeVarFromNameList(castNode(List, statement->object))))
		return NIL;
	*copy = *statement;
	copy->objtype = OBJECT_FOREIGN_TABLE;
	return list_make1(with_statement(planned, (Node *) copy));
}

List *
rf_ddl_steps(const PlannedStmt *planned)
{
	Node	   *statement = planned->utilityStmt;

	if (!rf_propagate_ddl || IsBinaryUpgrade)
		return NIL;
	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:
			return alter_steps(planned, (AlterTableStmt *) statement);
		case T_CreateStmt:
			return create_steps(planned, (CreateStmt *) statement);
		case T_VacuumStmt:
			return vacuum_steps(planned, (VacuumStmt *) statement);
		case T_LockStmt:
			return lock_steps(planned, (LockStmt *) statement);
		case T_DropStmt:
			return ((DropStmt *) statement)->removeType == OBJECT_TABLE ||
				((DropStmt *) statement)->removeType == OBJECT_INDEX ?
				drop_steps(planned, (DropStmt *) statement) : NIL;
		case T_CopyStmt:
			return !rf_names_propagated(((CopyStmt *) statement)->relation) ? NIL :
				((CopyStmt *) statement)->is_from ?
				unfrozen_steps(planned, (CopyStmt *) statement) :
				copy_steps(planned, (CopyStmt *) statement);
		case T_CommentStmt:
			return comment_steps(planned, (CommentStmt *) statement);
		default:
			return NIL;
	}
}
