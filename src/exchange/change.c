/*
 * change.c
 *		Another placement: which nodes a server has, and which of them has which bucket.
 *
 * Rows move in one transaction with the placement that says where they are:
 * rdma_internal.begin_change keeps everybody out, the caller moves rows, and
 * rdma_internal.change_placement records where they are, here and on the nodes concerned. Such a
 * transaction commits on all of them or not at all.
 *
 * A session that plans or runs a statement on a table has a lock on it until the transaction ends.
 * So once all tables of the server are locked against all other sessions, no transaction has used
 * them and goes on, and later statements plan with the new placement. Other sessions' transactions
 * that have a snapshot on a node nevertheless are found by the version of the placement in it
 * (rf_session_verify_placement).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"

#include "enroll.h"

PG_FUNCTION_INFO_V1(rdma_begin_copy);
PG_FUNCTION_INFO_V1(rdma_begin_change);
PG_FUNCTION_INFO_V1(rdma_change_placement);

static ForeignServer *
owned_server(const char *name)
{
	ForeignServer *server = GetForeignServerByName(name, false);

	if (!rf_server_ownercheck(server->serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	return server;
}

/* For all locks here from now on, and for the nodes; 0 waits for ever. */
static int
milliseconds_left(TimestampTz deadline)
{
	return (int) Max(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline), 1);
}

static void
limit_waiting(TimestampTz deadline)
{
	char		value[32];

	snprintf(value, sizeof(value), "%d", milliseconds_left(deadline));
	(void) set_config_option("lock_timeout", value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
}

static const char *
option_or(List *options, const char *name, const char *otherwise)
{
	DefElem    *def = rf_option_find(options, name);

	return def != NULL ? defGetString(def) : otherwise;
}

/*
 * The tables of one node, before its transaction has a snapshot: transactions that committed there
 * before it had the locks are seen then.
 */
static void
lock_on_node(ForeignServer *server, const char *node, List *tables, bool replicated,
			 const char *mode, TimestampTz deadline)
{
	RfSession  *session = rf_session_get(rf_node_mapping(server, node), true);
	StringInfoData sql;
	ListCell   *lc;

	if (rf_session_in_transaction(session))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("this transaction has used server \"%s\" already", node),
				 errdetail("Its snapshot there may lack rows that have to be moved."),
				 errhint("Let nothing come before it in the transaction.")));
	if (rf_session_is_pooled(session))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rows cannot be moved through the connection pooler of server \"%s\"",
						node),
				 errhint("Give the server's options \"host\" and \"port\" the address of the "
						 "database server itself.")));
	initStringInfo(&sql);
	appendStringInfo(&sql, "SET LOCAL lock_timeout = %d", milliseconds_left(deadline));
	PQclear(rf_session_execute(session, sql.data));
	resetStringInfo(&sql);
	foreach(lc, tables)
	{
		Oid			relid = lfirst_oid(lc);
		List	   *options = GetForeignTable(relid)->options;
		RfPlacement placement = rf_table_distribution(relid)->placement;
		const char *schema = get_namespace_name(get_rel_namespace(relid));

		if (placement == RF_PLACED_ANYWHERE || (placement == RF_PLACED_EVERYWHERE) != replicated)
			continue;
		appendStringInfo(&sql, "%s%s", sql.len > 0 ? ", " : "LOCK TABLE ",
						 quote_qualified_identifier(option_or(options, "schema_name", schema),
													option_or(options, "table_name",
															  get_rel_name(relid))));
	}
	if (sql.len == 0)
		return;
	appendStringInfo(&sql, " IN %s MODE", mode);
	PQclear(rf_session_execute(session, sql.data));
}

/* The elements are names. */
static char **
name_array(ArrayType *array, int *count)
{
	Datum	   *values;
	bool	   *nulls;
	char	  **names;

	deconstruct_array(array, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &values, &nulls, count);
	names = palloc_array(char *, *count);
	for (int i = 0; i < *count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("name of a node is NULL")));
		names[i] = pstrdup(NameStr(*DatumGetName(values[i])));
	}
	return names;
}

/*
 * Locks the server, its record and its tables here, which it returns: against all other sessions,
 * or (writers_only) the replicated tables against writing, and the rest against nothing.
 */
static List *
lock_here(ForeignServer *server, bool writers_only, TimestampTz deadline)
{
	int			nest = NewGUCNestLevel();
	List	   *tables;
	ListCell   *lc;

	/* see await_move in src/remote/session_settings.c */
	limit_waiting(deadline);
	LockDatabaseObject(ForeignServerRelationId, server->serverid, 0,
					   writers_only ? ShareUpdateExclusiveLock : AccessExclusiveLock);
	limit_waiting(deadline);
	(void) rf_record_lock(server, true);
	tables = rf_foreign_tables(server->serverid);
	foreach(lc, tables)
	{
		Oid			relid = lfirst_oid(lc);

		limit_waiting(deadline);
		LockRelationOid(relid, writers_only ? AccessShareLock : AccessExclusiveLock);
		if (get_rel_name(relid) == NULL)
			tables = foreach_delete_current(tables, lc);	/* dropped meanwhile */
		else if (writers_only && rf_table_distribution(relid)->placement == RF_PLACED_EVERYWHERE)
			LockRelationOid(relid, ShareLock);
	}
	AtEOXact_GUC(true, nest);
	return tables;
}

/*
 * rdma_internal.begin_copy(server, node, wait): keeps all other sessions from writing the server's
 * replicated tables, here and on this node, and from moving its rows, until the transaction ends.
 * ERROR 55P03 if that takes longer than `wait` milliseconds. All tables may be read meanwhile, and
 * distributed tables written.
 */
Datum
rdma_begin_copy(PG_FUNCTION_ARGS)
{
	ForeignServer *server = owned_server(NameStr(*PG_GETARG_NAME(0)));
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PG_GETARG_INT32(2));
	List	   *tables = lock_here(server, true, deadline);

	lock_on_node(server, NameStr(*PG_GETARG_NAME(1)), tables, true, "SHARE", deadline);
	PG_RETURN_VOID();
}

/*
 * rdma_internal.begin_change(server, nodes, replicated, wait): locks all other sessions out of the
 * server's tables here, and on these nodes out of the replicated or the distributed tables, until
 * the transaction ends. ERROR 55P03 if that takes longer than `wait` milliseconds.
 */
Datum
rdma_begin_change(PG_FUNCTION_ARGS)
{
	ForeignServer *server = owned_server(NameStr(*PG_GETARG_NAME(0)));
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PG_GETARG_INT32(3));
	int			node_count;
	char	  **nodes = name_array(PG_GETARG_ARRAYTYPE_P(1), &node_count);
	List	   *tables = lock_here(server, false, deadline);

	for (int i = 0; i < node_count; i++)
		lock_on_node(server, nodes[i], tables, PG_GETARG_BOOL(2), "ACCESS EXCLUSIVE", deadline);
	PG_RETURN_VOID();
}

/* ---------- recording ---------- */

static int
find_node(const RfPlacementRecord *record, const char *node)
{
	for (int i = 0; i < record->node_count; i++)
	{
		if (strcmp(record->nodes[i], node) == 0)
			return i;
	}
	return -1;
}

/* Returns true if node `before` of the record has the same buckets as node `now` of the array. */
static bool
same_buckets(const RfPlacementRecord *record, int before, const Datum *buckets, int now)
{
	for (int i = 0; i < record->bucket_count; i++)
	{
		if ((record->buckets[i] == before) != (DatumGetInt16(buckets[i]) == now))
			return false;
	}
	return true;
}

/* ERROR if it is not a node of this server. */
static Datum *
check_buckets(ArrayType *array, const RfPlacementRecord *record, int node_count)
{
	Datum	   *buckets;
	bool	   *nulls;
	int			count;

	deconstruct_array(array, INT2OID, sizeof(int16), true, TYPALIGN_SHORT, &buckets, &nulls,
					  &count);
	for (int i = 0; i < count; i++)
	{
		if (nulls[i] || DatumGetInt16(buckets[i]) < 0 || DatumGetInt16(buckets[i]) >= node_count)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("bucket %d is on no node", i)));
	}
	if (count != record->bucket_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("server \"%s\" has %d buckets, not %d", record->server,
						record->bucket_count, count)));
	return buckets;
}

/*
 * rdma_internal.change_placement(server, nodes, buckets): updates the record, and tells the nodes
 * whose part of it changes. A node that is left out is told by the caller.
 */
Datum
rdma_change_placement(PG_FUNCTION_ARGS)
{
	ForeignServer *server = owned_server(NameStr(*PG_GETARG_NAME(0)));
	RfPlacementRecord *record = rf_record_lock(server, true);
	int			count;
	char	  **nodes = name_array(PG_GETARG_ARRAYTYPE_P(1), &count);
	Datum	   *buckets = check_buckets(PG_GETARG_ARRAYTYPE_P(2), record, count);
	int64		number = pg_strtoint64(record->version) + 1;
	char	   *version = psprintf(INT64_FORMAT, number);
	Datum	   *members = palloc_array(Datum, count);
	Datum	   *versions = palloc_array(Datum, count);
	Datum	   *timelines = palloc_array(Datum, count);
	Oid			types[7] = {NAMEOID, INT8OID, NAMEARRAYOID, UUIDARRAYOID, INT8ARRAYOID,
	INT2ARRAYOID, INT8ARRAYOID};
	Datum		values[7];

	for (int i = 0; i < count; i++)
	{
		int			before = find_node(record, nodes[i]);
		char	   *member = before >= 0 ? record->members[before] : NULL;

		versions[i] = Int64GetDatum(before >= 0 ? pg_strtoint64(record->versions[before]) : number);
		timelines[i] = Int64GetDatum(before >= 0 ? record->timelines[before] : 0);
		if (before != i || member == NULL || !same_buckets(record, before, buckets, i))
		{
			member = rf_node_join(server, nodes[i], record->set_id, i, version, before >= 0);
			versions[i] = Int64GetDatum(number);
		}
		members[i] = DirectFunctionCall1(uuid_in, CStringGetDatum(member));
	}
	values[0] = DirectFunctionCall1(namein, CStringGetDatum(server->servername));
	values[1] = Int64GetDatum(number);
	values[2] = PG_GETARG_DATUM(1);
	values[3] = PointerGetDatum(construct_array(members, count, UUIDOID, UUID_LEN, false,
												TYPALIGN_CHAR));
	values[4] = PointerGetDatum(construct_array(versions, count, INT8OID, sizeof(int64),
												FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[5] = PG_GETARG_DATUM(2);
	values[6] = PointerGetDatum(construct_array(timelines, count, INT8OID, sizeof(int64),
												FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	rf_record_execute(
					  "UPDATE rdma.placement SET version = $2, nodes = $3, members = $4, versions "
					  "= $5, buckets = $6, timelines = $7,"
					  " nodeids = ARRAY(SELECT s.oid FROM pg_catalog.unnest($3) WITH ORDINALITY "
					  "n(name, number)"
					  " LEFT JOIN pg_catalog.pg_foreign_server s ON s.srvname "
					  "OPERATOR(pg_catalog.=) n.name ORDER BY n.number)"
					  " WHERE server OPERATOR(pg_catalog.=) $1",
					  lengthof(types), types, values, NULL);
	PG_RETURN_INT64(number);
}
