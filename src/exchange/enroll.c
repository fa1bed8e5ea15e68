/*
 * enroll.c - makes the databases of a server's nodes known to both sides.
 *
 * A database that takes part in a set of nodes is told which set it belongs to, and which of its
 * nodes it is (rdma_internal.join_set). It returns a UUID, which is recorded here. From then on
 * each session asks for it (src/remote/placement.c).
 *
 * Runs in the caller's transaction here and on the nodes. The nodes are asked with the caller's
 * user mappings. The record is written with the rights of its owner: everybody who may use a server
 * may enroll its nodes, once.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"
#include "remote/placement.h"

#include "enroll.h"

PG_FUNCTION_INFO_V1(rdma_placement_changed);
PG_FUNCTION_INFO_V1(rdma_record_nodes);
PG_FUNCTION_INFO_V1(rdma_enroll_nodes);
PG_FUNCTION_INFO_V1(rdma_replace_node);
PG_FUNCTION_INFO_V1(rdma_read_placement);

#define SET_MEMBER_SQL \
	"UPDATE rdma.placement SET members[$2] = $3, versions[$2] = version," \
	" timelines[$2] = CASE WHEN $3 IS NULL THEN timelines[$2] ELSE 0 END " \
	"WHERE server OPERATOR(pg_catalog.=) $1"

void
rf_record_execute(const char *sql, int count, Oid *types, Datum *values, const char *nulls)
{
	(void) rf_execute_as_owner("placement", sql, count, types, values, nulls);
	/* the records are read again */
	CommandCounterIncrement();
}

/*
 * Runs a statement on one server's record: $1 is the server, $2 a node's number from 1, $3 a UUID.
 */
static void
write_record(const char *sql, ForeignServer *server, int number, const char *member)
{
	Oid			types[3] = {NAMEOID, INT4OID, UUIDOID};
	Datum		values[3];
	char		nulls[3] = {' ', ' ', member != NULL ? ' ' : 'n'};

	values[0] = DirectFunctionCall1(namein, CStringGetDatum(server->servername));
	values[1] = Int32GetDatum(number + 1);
	values[2] = member != NULL ? DirectFunctionCall1(uuid_in, CStringGetDatum(member)) : (Datum) 0;
	rf_record_execute(sql, lengthof(types), types, values, nulls);
}

static char *
ask(RfSession *session, const char *sql, bool writes)
{
	PGresult   *result = writes ? rf_session_execute(session, sql) : rf_session_query(session, sql);
	char	   *answer = pstrdup(PQntuples(result) == 1 && PQnfields(result) == 1 ?
								 PQgetvalue(result, 0, 0) :
								 "");

	PQclear(result);
	return answer;
}

char *
rf_node_join(ForeignServer *server, const char *node, const char *set_id, int number,
			 const char *version, bool replace)
{
	RfSession  *session = rf_session_get(rf_node_mapping(server, node), true);

	return ask(session, psprintf("SELECT rdma_internal.join_set('%s', %d, %s, %s)", set_id, number,
								 version,
								 replace ? "true" : "false"), true);
}

/*
 * The database's report about its part (rdma_internal.memberships), for the database that a node's
 * server leads to.
 */
static char *
ask_membership(const RfPlacementRecord *record, int number)
{
	ForeignServer *server = GetForeignServerByName(record->nodes[number], false);
	RfSession  *session = rf_session_get(rf_user_mapping(GetUserId(), server->serverid), true);

	return ask(session, psprintf("SELECT rdma_internal.memberships('{%s}')", record->set_id),
			   false);
}

/* The version that it has of the placement; 0: it is no node of this set. */
static int64
membership_version(const RfPlacementRecord *record, int number, const char *answer)
{
	RfPlacementPart part = {record, number};
	const char *version = rf_placement_version(&part, answer);

	return version != NULL ? strtoll(version, NULL, 10) : 0;
}

static void
enroll(ForeignServer *server, const RfPlacementRecord *record, int number, bool replace)
{
	char	   *member = rf_node_join(server, record->nodes[number], record->set_id, number,
									  record->version, replace);

	write_record(SET_MEMBER_SQL, server, number, member);
}

static void
must_have_nodes(ForeignServer *server)
{
	if (rf_option_find(server->options, "nodes") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" has no nodes", server->servername)));
}

RfPlacementRecord *
rf_record_lock(ForeignServer *server, bool write)
{
	RfPlacementRecord *record;

	must_have_nodes(server);
	rf_placement_use(server->serverid);
	write_record(write ?
				 "SELECT FROM rdma.placement WHERE server OPERATOR(pg_catalog.=) $1 FOR UPDATE" :
				 "SELECT FROM rdma.placement WHERE server OPERATOR(pg_catalog.=) $1 FOR SHARE",
				 server, 0, NULL);
	record = rf_placement_find(server->servername);
	if (record == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nodes of server \"%s\" are not on record", server->servername),
				 errhint("rdma.record_nodes() puts them there.")));
	return record;
}

static bool
all_known(const RfPlacementRecord *record)
{
	for (int i = 0; i < record->node_count; i++)
	{
		if (record->members[i] == NULL)
			return false;
	}
	return true;
}

/* Trigger on rdma.placement: plans, sessions and cached records are out of date. */
Datum
rdma_placement_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("rdma_internal.placement_changed was not called as a trigger")));
	rf_placement_invalidate();
	return PointerGetDatum(NULL);
}

/* rdma.record_nodes(server): records the nodes where no event trigger did */
Datum
rdma_record_nodes(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);

	if (!rf_server_ownercheck(server->serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	must_have_nodes(server);
	if (rf_placement_find(server->servername) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nodes of server \"%s\" are on record already", server->servername),
				 errhint("rdma.nodes() lists them.")));
	write_record("INSERT INTO rdma.placement (server) VALUES ($1)", server, 0, NULL);
	PG_RETURN_VOID();
}

/* rdma.enroll_nodes(server): returns how many nodes it enrolled */
Datum
rdma_enroll_nodes(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	AclResult	aclresult = rf_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);
	RfPlacementRecord *record;
	int			count = 0;

	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_FOREIGN_SERVER, server->servername);
	if (rf_server_nodes(server) == NIL)
		PG_RETURN_INT32(0);
	/* the stronger lock at once: two sessions with the weaker one would wait for each other */
	record = rf_placement_find(server->servername);
	record = rf_record_lock(server, record == NULL || !all_known(record));
	for (int i = 0; i < record->node_count; i++)
	{
		if (record->members[i] != NULL)
			continue;
		enroll(server, record, i, false);
		count++;
	}
	PG_RETURN_INT32(count);
}

/*
 * rdma.replace_node(server, node): the database that the node's server leads to takes the node's
 * place
 */
Datum
rdma_replace_node(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	const char *node = NameStr(*PG_GETARG_NAME(1));
	RfPlacementRecord *record;
	int64		version;
	int			number = 0;

	if (!rf_server_ownercheck(server->serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	record = rf_record_lock(server, true);
	while (number < record->node_count && strcmp(record->nodes[number], node) != 0)
		number++;
	if (number == record->node_count)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" is no node of server \"%s\"", node, server->servername),
				 errhint("rdma.nodes() lists them.")));
	/* unknown first, or opening a session would fail */
	write_record(SET_MEMBER_SQL, server, number, NULL);
	version = membership_version(record, number, ask_membership(record, number));
	if (version > strtoll(record->version, NULL, 10))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the database of server \"%s\" has a later placement than server \"%s\"",
						node, server->servername),
				 errdetail("It has version " INT64_FORMAT
						   ", version %s is on record here, which does not say where rows lie now.",
						   version, record->version),
				 errhint("Read it from the nodes: SELECT rdma.read_placement(%s)",
						 quote_literal_cstr(server->servername))));
	enroll(server, record, number, true);
	PG_RETURN_VOID();
}

#define WRITE_PLACEMENT_SQL \
	"UPDATE rdma.placement SET buckets = $2, members = $3, versions = $4, version = $5 WHERE " \
	"server OPERATOR(pg_catalog.=) $1"

/* An array in the caller's memory. */
static Datum
buckets_of_nodes(ForeignServer *server)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext old;
	Oid			types[1] = {NAMEOID};
	Datum		name[1];
	Datum		buckets;
	bool		isnull;

	name[0] = DirectFunctionCall1(namein, CStringGetDatum(server->servername));
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args("SELECT rdma_internal.buckets_of_nodes($1)", 1, types, name, NULL,
							  false, 0) !=
		SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not ask the nodes of server \"%s\"", server->servername);
	buckets = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	if (isnull)
		elog(ERROR, "the nodes of server \"%s\" have no buckets", server->servername);
	old = MemoryContextSwitchTo(caller);
	buckets = PointerGetDatum(DatumGetArrayTypePCopy(buckets));
	MemoryContextSwitchTo(old);
	SPI_finish();
	return buckets;
}

/*
 * rdma.read_placement(server): takes the placement over from the nodes, where a coordinator was
 * restored from a backup that is older than a move of rows. Writes nothing on the nodes, so that
 * another coordinator that has the same record remains right.
 */
Datum
rdma_read_placement(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	Oid			types[5] = {NAMEOID, INT2ARRAYOID, UUIDARRAYOID, INT8ARRAYOID, INT8OID};
	Datum		values[5];
	RfPlacementRecord *record;
	int64		latest;
	Datum	   *members;
	Datum	   *versions;

	if (!rf_server_ownercheck(server->serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	record = rf_record_lock(server, true);
	latest = strtoll(record->version, NULL, 10);
	members = palloc_array(Datum, record->node_count);
	versions = palloc_array(Datum, record->node_count);
	for (int i = 0; i < record->node_count; i++)
	{
		if (record->members[i] == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the database of server \"%s\" is not known", record->nodes[i]),
					 errhint("rdma.enroll_nodes() makes the nodes known.")));
		/* unknown for now, or opening a session would fail */
		write_record(SET_MEMBER_SQL, server, i, NULL);
	}
	for (int i = 0; i < record->node_count; i++)
	{
		RfPlacementPart part = {record, i};
		char	   *answer = ask_membership(record, i);

		rf_placement_check(list_make1(&part), answer);
		members[i] = DirectFunctionCall1(uuid_in, CStringGetDatum(record->members[i]));
		versions[i] = Int64GetDatum(membership_version(record, i, answer));
		latest = Max(latest, DatumGetInt64(versions[i]));
	}
	values[0] = DirectFunctionCall1(namein, CStringGetDatum(server->servername));
	values[1] = buckets_of_nodes(server);
	values[2] = PointerGetDatum(construct_array(members, record->node_count, UUIDOID,
												UUID_LEN, false, TYPALIGN_CHAR));
	values[3] = PointerGetDatum(construct_array(versions, record->node_count, INT8OID,
												sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[4] = Int64GetDatum(latest);
	rf_record_execute(WRITE_PLACEMENT_SQL, lengthof(types), types, values, NULL);
	PG_RETURN_VOID();
}
