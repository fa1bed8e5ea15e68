/*
 * propagated.c - the tables whose commands reach the nodes, and questions to SQL about them.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/remote.h"

#include "catalog.h"

bool
rf_is_installed(void)
{
	return OidIsValid(get_extension_oid("rdma_fdw", true));
}

bool
rf_is_propagated(Oid relid)
{
	DefElem    *option;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	option = rf_option_find(GetForeignTable(relid)->options, "propagate_ddl");
	return option != NULL && defGetBoolean(option) && rf_is_own_table(relid);
}

bool
rf_names_propagated(RangeVar *name)
{
	Oid			relid = name != NULL ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;

	return OidIsValid(relid) && rf_is_propagated(relid);
}

Datum
rf_ask_as(Oid role, const char *sql, int count,...)
{
	MemoryContext context = CurrentMemoryContext;
	Oid		   *types = palloc_array(Oid, count);
	Datum	   *values = palloc_array(Datum, count);
	RfRole		before;
	bool		isnull = true;
	Datum		value = (Datum) 0;
	va_list		args;

	va_start(args, count);
	for (int i = 0; i < count; i++)
	{
		types[i] = va_arg(args, Oid);
		values[i] = va_arg(args, Datum);
	}
	va_end(args);
	rf_role_begin(&before, role);
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sql, count, types, values, NULL, false, 0) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not run \"%s\"", sql);
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	if (!isnull && TupleDescAttr(SPI_tuptable->tupdesc, 0)->attlen == -1)
	{
		MemoryContext inner = MemoryContextSwitchTo(context);

		value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
		MemoryContextSwitchTo(inner);
	}
	SPI_finish();
	rf_role_end(&before);
	return isnull ? (Datum) 0 : value;
}

void
rf_add_json(StringInfo json, const char *name, const char *value)
{
	if (json->len > 0)
		appendStringInfoString(json, ", ");
	escape_json(json, name);
	if (value != NULL)
	{
		appendStringInfoString(json, ": ");
		escape_json(json, value);
	}
}

List *
rf_owning_roles(List *names)
{
	List	   *owners = NIL;
	ListCell   *lc;

	foreach(lc, names)
	{
		Oid			role = get_rolespec_oid(lfirst_node(RoleSpec, lc), true);

		if (!OidIsValid(role) || !has_privs_of_role(GetUserId(), role))
			return NIL;
		owners = lappend_oid(owners, role);
	}
	return owners;
}
