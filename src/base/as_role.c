/*
 * as_role.c - runs something with the rights of another role than the caller, and in background
 * workers.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"

void
rf_role_begin(RfRole *before, Oid role)
{
	GetUserIdAndSecContext(&before->user, &before->context);
	SetUserIdAndSecContext(role, before->context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	before->nest = NewGUCNestLevel();
	rf_restrict_search_path();
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
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
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
