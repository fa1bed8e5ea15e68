/*
 * key_types.c - types of distribution keys keep their columns.
 *
 * The hash of a row value depends on the columns of its type. After ALTER TYPE ... ADD ATTRIBUTE
 * the rows of a table that is distributed by such values would belong to other nodes than the nodes
 * which have them: nothing would find them by their keys, and a write of single rows would go to
 * another node's rows. So types of keys, and types of parts of them (domains, arrays, ranges,
 * columns of row types), are not changed, neither here nor on a node.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "rdma_fdw/exchange.h"

#include "catalog.h"

bool
rf_is_own_table(Oid relid)
{
	Oid			handler;
	const char *name;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	handler = GetForeignDataWrapper(GetForeignServer(GetForeignTable(relid)->serverid)->fdwid)
		->fdwhandler;
	name = OidIsValid(handler) ? get_func_name(handler) : NULL;
	return name != NULL && strcmp(name, "rdma_fdw_handler") == 0;
}

/*
 * Returns true if the column is a part of a distribution key: of a foreign table here, or of a
 * node's table with the constraint of its placement.
 */
static bool
is_key(Oid relid, AttrNumber attnum)
{
	const RfDistribution *distribution;
	Oid			constraint;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber,
							 get_relation_constraint_attnos(relid, RF_PLACEMENT_CONSTRAINT,
															true, &constraint));
	if (!rf_is_own_table(relid))
		return false;
	distribution = rf_table_distribution(relid);
	for (int i = 0; i < distribution->key_count; i++)
	{
		if (distribution->keys[i] == attnum)
			return true;
	}
	return false;
}

static void
refuse(Oid type, Oid relid, AttrNumber attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 get_typtype(type) == TYPTYPE_ENUM ?
			 errmsg("cannot rename values of type %s", format_type_be(type)) :
			 errmsg("cannot change columns of type %s", format_type_be(type)),
			 errdetail("Rows of table \"%s\" are distributed by column \"%s\", whose values "
					   "would hash to other nodes.",
					   get_rel_name(relid), get_attname(relid, attnum, false)),
			 errhint("Take the table back with rdma.undistribute_table() first, or distribute it "
					 "by other columns with rdma.alter_distribution().")));
}

/* ERROR if values of the type, which have some of `changed` in them, are keys. */
static void
check_uses(Oid type, Oid changed)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;

	check_stack_depth();
	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(TypeRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend user = (Form_pg_depend) GETSTRUCT(tuple);
		Oid			row_type;

		if (user->classid == TypeRelationId)
			check_uses(user->objid, changed);
		if (user->classid != RelationRelationId || user->objsubid <= 0)
			continue;
		if (is_key(user->objid, user->objsubid))
			refuse(changed, user->objid, user->objsubid);
		row_type = get_rel_type_id(user->objid);
		if (OidIsValid(row_type))
			check_uses(row_type, changed);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
}

/*
 * Returns true if the running command has given the column another type or collation. It has not
 * been seen by the caches yet.
 */
static bool
has_new_type(Oid relid, AttrNumber attnum)
{
	Relation	attribute = table_open(AttributeRelationId, AccessShareLock);
	HeapTuple	old = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attnum));
	SysScanDesc scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	bool		changed = false;

	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(attnum));
	scan = systable_beginscan(attribute, AttributeRelidNumIndexId, true, SnapshotSelf, 2, keys);
	while (HeapTupleIsValid(old) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_attribute was = (Form_pg_attribute) GETSTRUCT(old);
		Form_pg_attribute is = (Form_pg_attribute) GETSTRUCT(tuple);

		changed |= was->atttypid != is->atttypid || was->attcollation != is->attcollation;
	}
	systable_endscan(scan);
	if (HeapTupleIsValid(old))
		ReleaseSysCache(old);
	table_close(attribute, AccessShareLock);
	return changed;
}

void
rf_check_key_labels(Oid type)
{
	if (!IsBinaryUpgrade)
		check_uses(type, type);
}

void
rf_check_key_types(ObjectAccessType access, Oid relid, AttrNumber attnum)
{
	Oid			type;

	if (attnum <= 0 || IsBinaryUpgrade ||
		(access != OAT_POST_CREATE && access != OAT_DROP && access != OAT_POST_ALTER))
		return;
	type = get_rel_type_id(relid);
	if (OidIsValid(type) && (access != OAT_POST_ALTER || has_new_type(relid, attnum)))
		check_uses(type, type);
}
