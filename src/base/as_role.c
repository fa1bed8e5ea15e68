/*
 * as_role.c - runs something with the rights of another role than the caller, and in background
 * workers.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

static void
begin(RfRole *before, Oid role, int restriction)
{
	GetUserIdAndSecContext(&before->user, &before->context);
	SetUserIdAndSecContext(role, before->context | SECURITY_LOCAL_USERID_CHANGE | restriction);
	before->nest = NewGUCNestLevel();
	rf_restrict_search_path();
}

void
rf_role_begin(RfRole *before, Oid role)
{
	begin(before, role, SECURITY_RESTRICTED_OPERATION);
}

void
rf_role_begin_making(RfRole *before, Oid role)
{
	begin(before, role, 0);
}

void
rf_role_end(const RfRole *before)
{
	AtEOXact_GUC(false, before->nest);
	SetUserIdAndSecContext(before->user, before->context);
}

Oid
rf_relation_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

static void
begin_as_owner(RfRole *before, Oid relid)
{
	Oid			owner = rf_relation_owner(relid);

	if (!has_privs_of_role(GetUserId(), owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	if (owner != GetUserId())
	{
		rf_role_begin(before, owner);
		return;
	}
	/* its own code needs no restriction, which would refuse deferred foreign keys, too */
	GetUserIdAndSecContext(&before->user, &before->context);
	before->nest = NewGUCNestLevel();
	rf_restrict_search_path();
}

bool
rf_owner_begin_if_set(RfRole *before)
{
	List	   *names;

	if (rf_as_owner_of == NULL || rf_as_owner_of[0] == '\0')
		return false;
	names = textToQualifiedNameList(cstring_to_text(rf_as_owner_of));
	begin_as_owner(before, RangeVarGetRelid(makeRangeVarFromNameList(names), NoLock, false));
	return true;
}

PG_FUNCTION_INFO_V1(rdma_run_as_owner);

/* rdma_internal.run_as_owner(tab, command): how many rows it had to do with. */
Datum
rdma_run_as_owner(PG_FUNCTION_ARGS)
{
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	RfRole		before;
	uint64		processed;

	begin_as_owner(&before, PG_GETARG_OID(0));
	SPI_connect();
	if (SPI_execute(command, false, 0) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a table's owner cannot run \"%s\" here", command)));
	processed = SPI_processed;
	SPI_finish();
	rf_role_end(&before);
	PG_RETURN_INT64(processed);
}

uint64
rf_execute_as_owner(const char *table, const char *sql, int count, Oid *types, Datum *values,
					const char *nulls)
{
	RfRole		before;
	uint64		processed;

	rf_role_begin(&before,
				  rf_relation_owner(get_relname_relid(table, get_namespace_oid("rdma", false))));
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sql, count, types, values, nulls, false, 0) < 0)
		elog(ERROR, "could not write to rdma.%s", table);
	processed = SPI_processed;
	SPI_finish();
	rf_role_end(&before);
	return processed;
}

void
rf_worker_settings(void)
{
	/* as autovacuum has them */
	static const char *const settings[][2] = {
		{"search_path", RF_SEARCH_PATH},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
#if PG_VERSION_NUM >= 170000
		{"transaction_timeout", "0"},
#endif
	};

	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}
