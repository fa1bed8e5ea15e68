/*
 * ddl_rights.c - owners and privileges of distributed tables reach the tables of the nodes.
 *
 * A role here is, on a node, the role of its user mapping there. Privileges are compared before and
 * after the command, as roles of the nodes: two roles here may be one there, which keeps what one
 * of them still has. Privileges go to roles that have a mapping of their own only: what the mapping
 * for PUBLIC names serves all other roles, too.
 *
 * The nodes are asked with the rights of the role that grants here: the owner of the table, if the
 * caller has the owner's rights, otherwise the caller. A change of the owner is
 * the former owner's.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/remote.h"

#include "catalog.h"

/* A table whose owner or privileges a command may change, as it was before. */
typedef struct Rights
{
	Oid			relid;
	Oid			owner;
	Oid			grantor;		/* whose grants change */
	Datum		before;			/* jsonb */
} Rights;

static bool
may_grant(Oid relid)
{
	AclMode		options = ACL_GRANT_OPTION_FOR(ACL_ALL_RIGHTS_RELATION);

	return rf_relation_ownercheck(relid, GetUserId()) ||
		pg_class_aclmask(relid, GetUserId(), options, ACLMASK_ANY) != 0;
}

PG_FUNCTION_INFO_V1(rdma_role_there);

/*
 * rdma_internal.role_there(tab, node, role, shared): the user of a role's mapping; NULL: it has no
 * mapping or the mapping names no user. shared: the mapping for PUBLIC counts, too. Only roles that
 * may grant privileges on the table are told: it is what the node would show them.
 */
Datum
rdma_role_there(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Oid			server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(1)), false)->serverid;
	Oid			role = PG_GETARG_OID(2);
	HeapTuple	tuple;
	DefElem    *user;

	if (!may_grant(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(role),
							ObjectIdGetDatum(server));
	if (!HeapTupleIsValid(tuple) && PG_GETARG_BOOL(3))
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
								ObjectIdGetDatum(server));
	if (!HeapTupleIsValid(tuple))
		PG_RETURN_NULL();
	ReleaseSysCache(tuple);
	user = rf_option_find(GetUserMapping(role, server)->options, "user");
	if (user == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(defGetString(user)));
}

static Datum
rights_of(Oid relid, Oid grantor)
{
	return rf_ask_as(grantor, "SELECT rdma_internal.rights_there($1, $2)", 2,
					 REGCLASSOID, ObjectIdGetDatum(relid), OIDOID, ObjectIdGetDatum(grantor));
}

/* Notes a table whose rights the command may change. */
static void
note_table(RfDdlCommand *command, Oid relid, Oid grantor)
{
	MemoryContext caller;
	Rights	   *rights;

	LockRelationOid(relid, ShareUpdateExclusiveLock);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) || !rf_is_propagated(relid))
		return;
	caller = MemoryContextSwitchTo(command->context);
	rights = palloc(sizeof(Rights));
	rights->relid = relid;
	rights->owner = rf_relation_owner(relid);
	rights->grantor = OidIsValid(grantor) ? grantor : rights->owner;
	rights->before = rights_of(relid, rights->grantor);
	command->rights = lappend(command->rights, rights);
	MemoryContextSwitchTo(caller);
}

/* A table in GRANT or REVOKE. A role that may grant nothing gets core's error, and no lock. */
static void
note_granted(RfDdlCommand *command, Oid relid)
{
	if (rf_is_propagated(relid) && may_grant(relid))
		note_table(command, relid, rf_relation_ownercheck(relid, GetUserId()) ?
				   InvalidOid : GetUserId());
}

typedef bool (*TableTest) (Oid relid, List *oids);

static bool
is_in_schemas(Oid relid, List *schemas)
{
	return list_member_oid(schemas, get_rel_namespace(relid));
}

static bool
belongs_to_roles(Oid relid, List *roles)
{
	return list_member_oid(roles, rf_relation_owner(relid));
}

/* The propagated tables that pass the test, in the order in which all sessions lock them. */
static List *
tables_that(TableTest passes, List *oids)
{
	List	   *tables = NIL;
	ListCell   *lc;

	foreach(lc, rf_foreign_tables(InvalidOid))
	{
		if (passes(lfirst_oid(lc), oids) && rf_is_propagated(lfirst_oid(lc)))
			tables = lappend_oid(tables, lfirst_oid(lc));
	}
	return tables;
}

/* Tables that GRANT or REVOKE names, or that are in the schemas it names. */
static void
note_grant(RfDdlCommand *command, const GrantStmt * statement)
{
	List	   *schemas = NIL;
	ListCell   *lc;

	if (statement->objtype != OBJECT_TABLE)
		return;
	foreach(lc, statement->objects)
	{
		if (statement->targtype == ACL_TARGET_OBJECT)
		{
			Oid			relid = RangeVarGetRelid(lfirst_node(RangeVar, lc), NoLock, true);

			if (OidIsValid(relid))
				note_granted(command, relid);
		}
		else if (statement->targtype == ACL_TARGET_ALL_IN_SCHEMA)
			schemas = lappend_oid(schemas, get_namespace_oid(strVal(lfirst(lc)), true));
	}
	foreach(lc, schemas != NIL ? tables_that(is_in_schemas, schemas) : NIL)
		note_granted(command, lfirst_oid(lc));
}

static void
note_new_owner(RfDdlCommand *command, const AlterTableStmt *statement)
{
	Oid			relid = RangeVarGetRelid(statement->relation, NoLock, true);
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype == AT_ChangeOwner && OidIsValid(relid) &&
			rf_is_propagated(relid) && rf_relation_ownercheck(relid, GetUserId()))
			note_table(command, relid, InvalidOid);
	}
}

static void
note_reassigned(RfDdlCommand *command, const ReassignOwnedStmt * statement)
{
	List	   *owners = rf_owning_roles(statement->roles);
	ListCell   *lc;

	foreach(lc, tables_that(belongs_to_roles, owners))
		note_table(command, lfirst_oid(lc), InvalidOid);
}

static bool
is_listed(Oid relid, List *tables)
{
	return list_member_oid(tables, relid);
}

/* OIDs of the relations on which these roles have privileges. */
static List *
granted_to(List *roles)
{
	Datum		found;
	Datum	   *oids = palloc_array(Datum, list_length(roles));
	List	   *relids = NIL;
	int			count = 0;
	ListCell   *lc;

	foreach(lc, roles)
		oids[count++] = ObjectIdGetDatum(lfirst_oid(lc));
	found = rf_ask_as(GetUserId(), "SELECT array_agg(DISTINCT s.objid) FROM pg_shdepend s JOIN "
					  "pg_database d ON d.oid = s.dbid WHERE d.datname = current_database() AND "
					  "s.classid = 'pg_class'::regclass AND s.refclassid = 'pg_authid'::regclass "
					  "AND s.refobjid = ANY ($1) AND s.deptype = 'a'", 1, OIDARRAYOID,
					  PointerGetDatum(construct_array(oids, count, OIDOID, sizeof(Oid), true,
													  TYPALIGN_INT)));
	if (found == (Datum) 0)
		return NIL;
	deconstruct_array(DatumGetArrayTypeP(found), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &oids,
					  NULL, &count);
	for (int i = 0; i < count; i++)
		relids = lappend_oid(relids, DatumGetObjectId(oids[i]));
	return relids;
}

void
rf_rights_lose(RfDdlCommand *command, List *roles)
{
	ListCell   *lc;

	foreach(lc, roles != NIL ? tables_that(is_listed, granted_to(roles)) : NIL)
	{
		if (!list_member_oid(roles, rf_relation_owner(lfirst_oid(lc))))
			note_table(command, lfirst_oid(lc), InvalidOid);
	}
}

bool
rf_rights_begin(RfDdlCommand *command, Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_GrantStmt:
			note_grant(command, (GrantStmt *) statement);
			return true;
		case T_AlterTableStmt:
			note_new_owner(command, (AlterTableStmt *) statement);
			return true;
		case T_ReassignOwnedStmt:
			note_reassigned(command, (ReassignOwnedStmt *) statement);
			return true;
		default:
			return false;
	}
}

void
rf_rights_propagate(RfDdlCommand *command, Node *statement)
{
	bool		cascade = IsA(statement, GrantStmt) &&
		((GrantStmt *) statement)->behavior == DROP_CASCADE;
	ListCell   *lc;

	foreach(lc, command->rights)
	{
		Rights	   *rights = (Rights *) lfirst(lc);
		Oid			owner;
		Datum		after;

		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(rights->relid)))
			continue;
		owner = rf_relation_owner(rights->relid);
		after = rights_of(rights->relid, owner != rights->owner ? owner : rights->grantor);
		(void) rf_ask_as(rights->grantor,
						 "SELECT pg_catalog.count(*) FROM rdma_internal.propagate_rights("
						 "$1, $2, $3, $4)", 4, REGCLASSOID, ObjectIdGetDatum(rights->relid),
						 JSONBOID, rights->before, JSONBOID, after, BOOLOID, BoolGetDatum(cascade));
	}
}
