/*
 * trust.c - whose code would run: functions, types and operator classes that another server or
 * another role names.
 *
 * Trusted code belongs to the caller or to a superuser. A function that is called must also be
 * declared as free of effects: a built-in one as stable or immutable, any other one as immutable.
 * That is not enough for a few built-in functions, which run what their arguments name (see
 * runs_its_argument). All functions here return the reason as text; NULL: there is none.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_range.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "rdma_fdw/compat.h"

#include "catalog.h"

/* ---------- whose code ---------- */

static bool
is_trusted(Oid owner)
{
	return owner == GetUserId() || superuser_arg(owner);
}

static const char *
belongs_to(const char *kind, const char *name, Oid owner)
{
	return psprintf("%s %s belongs to role \"%s\"", kind, name, GetUserNameFromId(owner, true));
}

/* NULL if role and ACL_ID_PUBLIC are trusted with the objects of a schema. */
static const char *
changes_problem(Oid role, const char *schema)
{
	if (role == ROLE_PG_DATABASE_OWNER)
	{
		HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
		role = ((Form_pg_database) GETSTRUCT(tuple))->datdba;
		ReleaseSysCache(tuple);
	}
	if (role == ACL_ID_PUBLIC)
		return psprintf("all roles may create objects in schema %s", quote_identifier(schema));
	return is_trusted(role) ? NULL :
		psprintf("role \"%s\" may change objects in schema %s", GetUserNameFromId(role, true),
				 quote_identifier(schema));
}

/*
 * A command that was checked looks its names up again when it runs. They mean the same then in a
 * schema where only trusted roles can create, drop and rename objects.
 */
const char *
rf_schema_problem(List *names)
{
	const char *schema;
	const char *problem;
	Oid			nspid;
	HeapTuple	tuple;
	Datum		acl;
	bool		isnull;

	if (list_length(names) < 2)
		return NULL;			/* rdma_internal.define() has a search_path of its own */
	schema = strVal(list_nth(names, list_length(names) - 2));
	nspid = LookupExplicitNamespace(schema, true);
	if (!OidIsValid(nspid) || isTempNamespace(nspid))
		return NULL;
	if (isAnyTempNamespace(nspid))
		return "it names an object of another session";
	tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(nspid));
	if (!HeapTupleIsValid(tuple))
		return psprintf("schema %s does not exist", quote_identifier(schema));
	problem = changes_problem(((Form_pg_namespace) GETSTRUCT(tuple))->nspowner, schema);
	acl = SysCacheGetAttr(NAMESPACEOID, tuple, Anum_pg_namespace_nspacl, &isnull);
	for (int i = 0; !isnull && problem == NULL && i < ACL_NUM(DatumGetAclP(acl)); i++)
	{
		const		AclItem *item = &ACL_DAT(DatumGetAclP(acl))[i];

		if ((ACLITEM_GET_PRIVS(*item) & ACL_CREATE) != 0)
			problem = changes_problem(item->ai_grantee, schema);
	}
	ReleaseSysCache(tuple);
	return problem;
}

/* Built-in functions run nothing else, and belong to a superuser. */
const char *
rf_owner_problem(Oid funcid)
{
	HeapTuple	tuple;
	Oid			owner;

	if (funcid < FirstNormalObjectId)
		return NULL;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	if (!HeapTupleIsValid(tuple))
		return psprintf("function %u does not exist", funcid);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return is_trusted(owner) ? NULL : belongs_to("function", format_procedure(funcid), owner);
}

static const char *
composite_problem(Oid typid, bool all_owners)
{
	TupleDesc	columns = lookup_rowtype_tupdesc(typid, -1);
	const char *problem = NULL;

	for (int i = 0; i < columns->natts && problem == NULL; i++)
	{
		if (!TupleDescAttr(columns, i)->attisdropped)
			problem = rf_type_problem(TupleDescAttr(columns, i)->atttypid, all_owners);
	}
	ReleaseTupleDesc(columns);
	return problem;
}

static const char *
range_problem(Oid typid, bool all_owners)
{
	HeapTuple	tuple = SearchSysCache1(RANGETYPE, ObjectIdGetDatum(typid));
	FormData_pg_range range;
	const char *problem;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for range type %u", typid);
	range = *(Form_pg_range) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	problem = rf_type_problem(range.rngsubtype, all_owners);
	if (problem == NULL && OidIsValid(range.rngcanonical))
		problem = rf_owner_problem(range.rngcanonical);
	if (problem == NULL && OidIsValid(range.rngsubdiff))
		problem = rf_owner_problem(range.rngsubdiff);
	return problem;
}

static const char *
base_problem(Form_pg_type type)
{
	Oid			functions[] = {type->typinput, type->typoutput, type->typreceive, type->typsend,
	type->typmodin, type->typmodout, type->typanalyze, type->typsubscript};
	const char *problem = NULL;

	for (int i = 0; i < lengthof(functions) && problem == NULL; i++)
	{
		if (OidIsValid(functions[i]))
			problem = rf_owner_problem(functions[i]);
	}
	return problem;
}

const char *
rf_type_problem(Oid typid, bool all_owners)
{
	HeapTuple	tuple;
	FormData_pg_type type;
	bool		is_array;
	bool		has_code;

	check_stack_depth();
	if (typid < FirstNormalObjectId)
		return NULL;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	if (!HeapTupleIsValid(tuple))
		return psprintf("type %u does not exist", typid);
	memcpy(&type, GETSTRUCT(tuple), sizeof(type));
	ReleaseSysCache(tuple);

	is_array = type.typtype == TYPTYPE_BASE && IsTrueArrayType(&type);
	has_code = type.typtype == TYPTYPE_DOMAIN || (type.typtype == TYPTYPE_BASE && !is_array);
	if ((all_owners || has_code) && !is_trusted(type.typowner))
		return belongs_to("type", format_type_be_qualified(typid), type.typowner);
	switch (type.typtype)
	{
		case TYPTYPE_DOMAIN:
			return rf_type_problem(type.typbasetype, all_owners);
		case TYPTYPE_COMPOSITE:
			return composite_problem(typid, all_owners);
		case TYPTYPE_RANGE:
			return range_problem(typid, all_owners);
		case TYPTYPE_MULTIRANGE:
			return rf_type_problem(get_multirange_range(typid), all_owners);
		case TYPTYPE_BASE:
			return is_array ? rf_type_problem(type.typelem, all_owners) : base_problem(&type);
		default:
			return NULL;
	}
}

/* ---------- which functions ---------- */

/*
 * Built-in functions that are not volatile and yet run code that their arguments name, or read
 * tables with all that belongs to them.
 */
static bool
runs_its_argument(const char *name)
{
	static const char *const names[] = {
		/* they read tables, views and schemas by name */
		"table_to_xml", "table_to_xmlschema", "table_to_xml_and_xmlschema",
		"schema_to_xml", "schema_to_xmlschema", "schema_to_xml_and_xmlschema",
		"database_to_xml", "database_to_xmlschema", "database_to_xml_and_xmlschema",
		/* they convert to a type that they are given the name of: a domain has checks */
		"pg_input_is_valid", "pg_input_error_info",
		/* it opens a partitioned table and uses its key */
		"satisfies_hash_partition"
	};

	for (int i = 0; i < lengthof(names); i++)
	{
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Does a built-in function look for a cast of its argument's type? The cast's function may be
 * anybody's. Those that are written in SQL have casts in their text.
 */
static bool
looks_for_casts(Form_pg_proc function)
{
	if (function->prolang != SQLlanguageId && function->prorettype != JSONOID &&
		function->prorettype != JSONBOID)
		return false;
	for (int i = 0; i < function->pronargs; i++)
	{
		Oid			argument = function->proargtypes.values[i];

		if (argument == ANYOID || argument == RECORDOID || IsPolymorphicType(argument))
			return true;
	}
	return false;
}

static const char *
cast_problem(const char *name, List *types)
{
	const char *problem = NULL;
	ListCell   *lc;

	foreach(lc, types)
	{
		Oid			typid = lfirst_oid(lc);

		if (problem != NULL)
			break;
		if (typid == RECORDOID || typid == RECORDARRAYOID)
			problem = psprintf("function %s has a row without a type", name);
		else
			problem = rf_type_problem(typid, true);
	}
	return problem;
}

/* What its constants are converted to before the function is chosen, and what it returns. */
static const char *
signature_problem(Form_pg_proc function, const char *name)
{
	const char *problem = rf_type_problem(function->prorettype, false);

	for (int i = 0; i < function->pronargs && problem == NULL; i++)
	{
		Oid			argument = function->proargtypes.values[i];

		if (argument == CSTRINGOID || argument == INTERNALOID)
			problem = psprintf("function %s is not for expressions", name);
		else
			problem = rf_type_problem(argument, false);
	}
	return problem;
}

const char *
rf_call_problem(Oid funcid, List *types)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	Form_pg_proc function;
	const char *name = format_procedure(funcid);
	const char *problem = NULL;
	bool		builtin = funcid < FirstNormalObjectId;

	if (!HeapTupleIsValid(tuple))
		return psprintf("function %u does not exist", funcid);
	function = (Form_pg_proc) GETSTRUCT(tuple);
	if (!is_trusted(function->proowner))
		problem = belongs_to("function", name, function->proowner);
	else if (function->provolatile == PROVOLATILE_VOLATILE)
		problem = psprintf("function %s is volatile", name);
	else if (!builtin && function->provolatile != PROVOLATILE_IMMUTABLE)
		problem = psprintf("function %s is not immutable", name);
	else if (builtin && runs_its_argument(NameStr(function->proname)))
		problem = psprintf("function %s runs what its arguments name", name);
	if (problem == NULL)
		problem = signature_problem(function, name);
	if (problem == NULL && builtin && looks_for_casts(function))
		problem = cast_problem(name, types);
	ReleaseSysCache(tuple);
	return problem;
}

/*
 * Why a support function or operator of the class's family may run code of an untrusted owner;
 * NULL: no one of them does.
 */
static const char *
opclass_procs_problem(Form_pg_opclass opclass)
{
	CatCList   *list = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(opclass->opcfamily));
	const char *problem = NULL;

	for (int i = 0; i < list->n_members && problem == NULL; i++)
		problem = rf_owner_problem(((Form_pg_amproc) GETSTRUCT(&list->members[i]->tuple))->amproc);
	ReleaseSysCacheList(list);
	if (problem != NULL)
		return problem;
	list = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(opclass->opcfamily));
	for (int i = 0; i < list->n_members && problem == NULL; i++)
	{
		Form_pg_amop member = (Form_pg_amop) GETSTRUCT(&list->members[i]->tuple);

		problem = rf_owner_problem(get_opcode(member->amopopr));
	}
	ReleaseSysCacheList(list);
	return problem;
}

const char *
rf_opclass_problem(Oid opcid)
{
	HeapTuple	tuple;
	Form_pg_opclass opclass;
	const char *problem;

	if (opcid < FirstNormalObjectId)
		return NULL;
	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opcid));
	if (!HeapTupleIsValid(tuple))
		return psprintf("operator class %u does not exist", opcid);
	opclass = (Form_pg_opclass) GETSTRUCT(tuple);
	problem = is_trusted(opclass->opcowner) ? opclass_procs_problem(opclass) :
		belongs_to("operator class", NameStr(opclass->opcname), opclass->opcowner);
	ReleaseSysCache(tuple);
	return problem;
}

/* ---------- types that a node names ---------- */

PG_FUNCTION_INFO_V1(rdma_known_type);

/*
 * rdma_internal.known_type(type): the type that another server names, in the words of this one; of
 * a domain, the type below it. An error if its values may have code run that the caller does not
 * trust.
 */
Datum
rdma_known_type(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	TypeName   *parsed = typeStringToTypeName(name
#if PG_VERSION_NUM >= 160000
											  ,NULL
#endif
	);
	Oid			typid = LookupTypeNameOid(NULL, parsed, false);
	int32		typmod;
	const char *problem = rf_type_problem(getBaseType(typid), false);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("values of type %s would have code of other roles run with your rights",
						name),
				 errdetail_internal("%s.", problem)));
	typenameTypeIdAndMod(NULL, parsed, &typid, &typmod);
	typid = getBaseTypeAndTypmod(typid, &typmod);
	name = format_type_extended(typid, typmod,
								FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
	PG_RETURN_TEXT_P(cstring_to_text(name));
}
