/*
 * shippable_object.c
 *		Which types, functions and operators a data node has, with the same meaning as here.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "rdma_fdw/batch.h"

#include "deparse.h"

/*
 * All objects of template databases have OIDs below this and are the same on every node of one
 * version. Other objects qualify if the server's option lists their extension.
 */
static bool
is_shippable_object(Oid objectid, Oid classid, RfRelInfo *info)
{
	Oid			extension;

	if (objectid < FirstGenbkiObjectId)
		return true;
	if (info->opts.extensions == NIL)
		return false;
	extension = getExtensionOfObject(classid, objectid);
	return OidIsValid(extension) && list_member_oid(info->opts.extensions, extension);
}

/*
 * False for types whose values have another meaning on another node (OIDs of objects), whose text
 * depends on a setting that we cannot fix (money), or that are pseudo-types.
 */
bool
rf_is_shippable_type(Oid type, RfRelInfo *info)
{
	Oid			element;

	if (rf_type_names_objects(type))
		return false;
	switch (type)
	{
		case MONEYOID:
		case RECORDOID:
		case RECORDARRAYOID:
		case UNKNOWNOID:
			return false;
		default:
			break;
	}
	if (get_typtype(type) == TYPTYPE_PSEUDO)
		return false;
	/* An array is shippable if its elements are; it is not a member of an extension by itself. */
	element = get_element_type(type);
	if (OidIsValid(element))
		return rf_is_shippable_type(element, info);
	return is_shippable_object(type, TypeRelationId, info);
}

/* Functions of the extension that is_own_function() has found, by their place in its list. */
static Oid	own_functions[3];

/* A function was made, changed or dropped. */
static void
forget_own_functions(Datum arg, int cache, uint32 hash)
{
	memset(own_functions, 0, sizeof(own_functions));
}

/*
 * Ours, which every node has: the value of a sub-select that has become a join, and the bucket of a
 * row. To which extension a function belongs no cache knows, and one planning asks hundreds of
 * times.
 */
static bool
is_own_function(Oid funcid)
{
	static const char *const names[lengthof(own_functions)] = {"first_two", "only_value",
	"hash_node"};
	static bool registered = false;
	char	   *name;
	Oid			schema;

	for (int i = 0; i < lengthof(names); i++)
	{
		if (own_functions[i] == funcid)
			return true;
	}
	schema = get_func_namespace(funcid);
	if (schema != get_namespace_oid("rdma_internal", true) &&
		schema != get_namespace_oid("rdma", true))
		return false;
	name = get_func_name(funcid);
	for (int i = 0; i < lengthof(names); i++)
	{
		if (strcmp(name, names[i]) != 0)
			continue;
		if (getExtensionOfObject(ProcedureRelationId, funcid) !=
			get_extension_oid("rdma_fdw", true))
			return false;
		if (!registered)
			CacheRegisterSyscacheCallback(PROCOID, forget_own_functions, (Datum) 0);
		registered = true;
		own_functions[i] = funcid;
		return true;
	}
	return false;
}

bool
rf_is_shippable_function(Oid funcid, RfRelInfo *info)
{
	return is_shippable_object(funcid, ProcedureRelationId, info) || is_own_function(funcid);
}

bool
rf_is_shippable_operator(Oid opno, RfRelInfo *info)
{
	return is_shippable_object(opno, OperatorRelationId, info);
}
