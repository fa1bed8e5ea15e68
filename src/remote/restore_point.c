/*
 * restore_point.c - rdma.create_restore_point(): one point of the histories of the coordinator and
 * of all its nodes, for point-in-time recovery.
 *
 * It is made here first, and then on the nodes, in the gate (gate.c). So when it is made nobody is
 * in the second phase of a commit, except parts that were left to the resolver. Clusters that are
 * recovered to the point have of each transaction through this coordinator
 *
 *	- all, if its commit came out of the gate before;
 *	- nothing, if it was not decided: parts that nodes have prepared of it have no row in
 *	  rdma.decisions here, so the resolver rolls them back; parts that they had not prepared have
 *	  gone with the recovery;
 * - all, if it was decided and had not come in, or was left unfinished on a node: the row was
 *   written before the point here, and the part was prepared before the row, so the resolver
 *   commits it, and readers of several nodes wait for that (snapshot.c). The resolver passes no
 *   gate, but removes the row only after the node has committed. As the point is made here first, a
 *   node whose point is older than that commit belongs to a coordinator that still has the row.
 *
 * A commit on one node that has passed the gate may come before or after the point there. Every
 * transaction that depends on it begins to commit later, and so after the points on all nodes.
 * Commits of local tables pass no gate: if nodes' commits depend on them they are before the point
 * here, and if they depend on a commit that came after a node's point they are behind it.
 *
 * Recovery stops at the first point of a name. A name that was used twice could be another moment
 * on each cluster, so names are recorded on all (rdma.restore_points) before the points are made,
 * by transactions of their own: a name is used up even if a node fails meanwhile.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"
#include "base/result_row.h"
#include "gate.h"
#include "session.h"

/* How long nodes may take: commits wait for them. */
#define RF_POINT_TIMEOUT_MS		10000

/* The commit that comes with it is flushed on the node, and all before it. */
#define RF_DURABLE_SQL	"FROM pg_catalog.set_config('synchronous_commit', 'local', true)"

PG_FUNCTION_INFO_V1(rdma_create_restore_point);

/* A server, and the point on its node. */
typedef struct Point
{
	ForeignServer *server;
	RfSession  *session;
	const struct Point *same;	/* an earlier one leads to the same cluster; NULL if there is no
								 * such server */
	bool		here;			/* it leads to this cluster */
	bool		waiting;		/* a command was sent, and its answer is to come */
	const char *sql;			/* the next command */
	XLogRecPtr	lsn;
	const char *problem;		/* why a command failed; NULL if it succeeded */
} Point;

/* ---------- before anything is made ---------- */

static void
check_here(const char *name)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("Restore points are created on the primary.")));
	if (!XLogIsNeeded())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("WAL level not sufficient for creating a restore point"),
				 errhint("wal_level must be set to \"replica\" or \"logical\" at server start.")));
	if (name[0] == '\0' || strlen(name) >= MAXFNAMELEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the name of a restore point has 1 to %d bytes", MAXFNAMELEN - 1)));
}

static int
compare_servers(const ListCell *a, const ListCell *b)
{
	const ForeignServer *first = lfirst(a);
	const ForeignServer *second = lfirst(b);

	return strcmp(first->servername, second->servername);
}

/* The servers that are nodes, by name. */
static List *
list_servers(void)
{
	Relation	relation = table_open(ForeignServerRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(relation, 0, NULL);
	HeapTuple	tuple;
	List	   *servers = NIL;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		ForeignServer *server = GetForeignServer(((Form_pg_foreign_server) GETSTRUCT(tuple))->oid);

		if (rf_is_node(server))
			servers = lappend(servers, server);
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	list_sort(servers, compare_servers);
	return servers;
}

static void
check_server(ForeignServer *server)
{
	AclResult	allowed = rf_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);

	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FOREIGN_SERVER, server->servername);
	if (!OidIsValid(rf_mapping_id(GetUserId(), server->serverid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("user \"%s\" has no user mapping for server \"%s\"",
						GetUserNameFromId(GetUserId(), false), server->servername),
				 errdetail("A restore point needs the nodes of all servers.")));
}

/* Raises an ERROR if this node cannot take part in a restore point, naming the missing part. */
static void
check_node(Point *point)
{
	static const char *sql =
		"SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('wal_level') = "
	"'minimal',"
	" pg_catalog.to_regclass('rdma.restore_points') IS NULL,"
	" NOT pg_catalog.has_function_privilege('pg_catalog.pg_create_restore_point(text)', 'EXECUTE')"
	" OR EXISTS (SELECT FROM (VALUES ('SELECT'), ('INSERT'), ('UPDATE')) v(privilege)"
	" WHERE NOT pg_catalog.has_table_privilege(pg_catalog.to_regclass('rdma.restore_points'),"
	" privilege))";
	static const char *const problems[] = {
		"It is in recovery.",
		"Its wal_level is minimal.",
		"It has no extension rdma_fdw.",
		"Its role may not create restore points.",
	};
	static const char *const hints[] = {
		"Let the server lead to the primary.",
		"Set wal_level there to replica, and restart it.",
		"Run CREATE EXTENSION rdma_fdw there.",
		("Run there: GRANT EXECUTE ON FUNCTION pg_create_restore_point(text) TO ...; "
		 "GRANT SELECT, INSERT, UPDATE ON rdma.restore_points TO ..."),
	};
	PGresult   *result = rf_session_ask(point->session, sql, lengthof(problems), 1, 1);
	int			wrong = -1;

	for (int i = 0; i < (int) lengthof(problems) && wrong < 0; i++)
	{
		if (rf_answer_is_true(result, 0, i))
			wrong = i;
	}
	PQclear(result);
	if (wrong >= 0)
		ereport(ERROR,
				(errcode(wrong == 3 ? ERRCODE_INSUFFICIENT_PRIVILEGE :
						 ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot create a restore point on server \"%s\"",
						point->server->servername),
				 errdetail_internal("%s", problems[wrong]), errhint("%s", hints[wrong])));
}

/* Connects to all, and finds out whether they can. */
static Point *
connect_all(int *count)
{
	List	   *servers = list_servers();
	Point	   *points = palloc0_array(Point, list_length(servers) + 1);
	ListCell   *lc;

	foreach(lc, servers)
		check_server(lfirst(lc));
	*count = 0;
	foreach(lc, servers)
	{
		Point	   *point = &points[(*count)++];

		point->server = lfirst(lc);
		point->session = rf_session_get(rf_user_mapping(GetUserId(), point->server->serverid),
										false);
		if (rf_session_in_transaction(point->session))
			ereport(ERROR,
					(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
					 errmsg("rdma.create_restore_point cannot run in a transaction that has used "
							"server \"%s\"", point->server->servername)));
		point->here = point->session->node.cluster == GetSystemIdentifier();
		for (const Point *other = points; other < point && point->same == NULL; other++)
		{
			if (other->session->node.cluster == point->session->node.cluster)
				point->same = other;
		}
		if (!point->here && point->same == NULL)
			check_node(point);
	}
	return points;
}

/* ---------- the names ---------- */

__attribute__((noreturn)) static void
raise_used(const char *name, const char *server)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("a restore point \"%s\" was created before", name),
			 server ? errdetail("Server \"%s\" has it in rdma.restore_points.", server) :
			 errdetail("It is in rdma.restore_points."),
			 errhint("Recovery stops at the first one of a name: use another name.")));
}

/* Callers were given the function, not its table. Returns whether a row was written. */
static bool
run_here(const char *sql, const char *name, XLogRecPtr lsn)
{
	Oid			types[] = {TEXTOID, LSNOID};
	Datum		values[] = {CStringGetTextDatum(name), LSNGetDatum(lsn)};

	return rf_execute_as_owner("restore_points", sql, 2, types, values, NULL) > 0;
}

/*
 * Records the name here and on all nodes, and raises an ERROR if one of them knows it already: a
 * name leads to one point only.
 */
static void
record_name(Point *points, int count, const char *name)
{
	char	   *sql = psprintf("INSERT INTO rdma.restore_points (name) SELECT %s " RF_DURABLE_SQL
							   " ON CONFLICT DO NOTHING RETURNING true", quote_literal_cstr(name));

	/* other sessions with the same name wait here for the end of this transaction */
	if (!run_here(
				  "INSERT INTO rdma.restore_points (name, lsn) VALUES ($1, $2) ON CONFLICT DO "
				  "NOTHING",
				  name, InvalidXLogRecPtr))
		raise_used(name, NULL);
	for (int i = 0; i < count; i++)
	{
		PGresult   *result;
		bool		used;

		if (points[i].here || points[i].same != NULL)
			continue;
		result = rf_session_ask(points[i].session, sql, 1, 0, 1);
		used = PQntuples(result) == 0;
		PQclear(result);
		if (used)
			raise_used(name, points[i].server->servername);
	}
	pfree(sql);
}

/* ---------- the points ---------- */

/* The answer, or the reason why it is missing. */
static void
take_answer(Point *point, PGresult *result)
{
	unsigned	high;
	unsigned	low;

	if (rf_answer_has(result, 1, 1, 1) &&
		sscanf(PQgetvalue(result, 0, 0), "%8X/%8X", &high, &low) == 2)
		point->lsn = (uint64) high << 32 | low;
	else if (PQresultStatus(result) == PGRES_TUPLES_OK)
		point->problem = "it answered with something else";
	else if (result != NULL && PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) != NULL)
	{
		const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

		point->problem = pstrdup(rf_message_text(message));
	}
	else if (PQstatus(point->session->conn) != CONNECTION_OK)
		point->problem = "the connection was lost";
	else
		point->problem = psprintf("it did not answer within %d seconds",
								  RF_POINT_TIMEOUT_MS / 1000);
	if (result == NULL || PQstatus(point->session->conn) != CONNECTION_OK)
		point->session->broken = true;
}

/* Their next commands, which return LSNs, at the same time; but on those where one has failed. */
static void
run_on_all(Point *points, int count)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RF_POINT_TIMEOUT_MS);

	for (int i = 0; i < count; i++)
	{
		Point	   *point = &points[i];

		point->waiting = point->sql != NULL && point->problem == NULL;
		if (point->waiting && (!rf_session_send(point->session, point->sql) ||
							   PQflush(point->session->conn) < 0))
		{
			point->waiting = false;
			take_answer(point, NULL);
		}
	}
	for (int i = 0; i < count; i++)
	{
		PGresult   *result;

		if (!points[i].waiting)
			continue;
		result = rf_session_command_deadline(points[i].session, NULL, deadline);
		take_answer(&points[i], result);
		PQclear(result);
	}
}

static XLogRecPtr
make_all(Point *points, int count, const char *name)
{
	const char *sql = psprintf("SELECT pg_catalog.pg_create_restore_point(%s)",
							   quote_literal_cstr(name));
	XLogRecPtr	here;

	for (int i = 0; i < count; i++)
		points[i].sql = points[i].here || points[i].same != NULL ? NULL : sql;

	/* an error leaves it, too: with the (sub)transaction */
	rf_gate_enter(RF_GATE_SNAPSHOT);
	here = XLogRestorePoint(name);
	run_on_all(points, count);
	rf_gate_leave(RF_GATE_SNAPSHOT);
	return here;
}

/* Until then a crash of a node may take its point away. */
static void
flush_all(Point *points, int count, const char *name, XLogRecPtr here)
{
	for (int i = 0; i < count; i++)
	{
		if (points[i].sql != NULL && points[i].problem == NULL)
			points[i].sql = psprintf("UPDATE rdma.restore_points SET lsn = '%X/%X' " RF_DURABLE_SQL
									 " WHERE name OPERATOR(pg_catalog.=) %s RETURNING lsn",
									 LSN_FORMAT_ARGS(points[i].lsn), quote_literal_cstr(name));
	}
	XLogFlush(here);
	run_on_all(points, count);
	(void) run_here("UPDATE rdma.restore_points SET lsn = $2 WHERE name OPERATOR(pg_catalog.=) $1",
					name, here);
}

/* Some nodes have it, and some may not. */
static void
check_all(const Point *points, int count, const char *name)
{
	StringInfoData detail;

	initStringInfo(&detail);
	for (int i = 0; i < count; i++)
	{
		if (points[i].problem != NULL)
			appendStringInfo(&detail, "%sServer \"%s\": %s.", detail.len > 0 ? " " : "",
							 points[i].server->servername, points[i].problem);
	}
	if (detail.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("restore point \"%s\" is not on all nodes", name),
				 errdetail_internal("%s", detail.data),
				 errhint("Do not recover to it. Create a new restore point, with another name.")));
	pfree(detail.data);
}

/*
 * rdma.create_restore_point(name): a row for each server; the first, without a name, is of this
 * one.
 */
Datum
rdma_create_restore_point(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	XLogRecPtr	here;
	Point	   *points;
	int			count;

	InitMaterializedSRF(fcinfo, 0);
	check_here(name);
	points = connect_all(&count);
	record_name(points, count, name);
	here = make_all(points, count, name);
	check_all(points, count, name);
	flush_all(points, count, name, here);
	check_all(points, count, name);

	rf_put_if(&row, false, (Datum) 0);
	rf_put(&row, LSNGetDatum(here));
	rf_end_row(&row);
	for (int i = 0; i < count; i++)
	{
		const Point *point = points[i].same != NULL ? points[i].same : &points[i];

		rf_put(&row, DirectFunctionCall1(namein, CStringGetDatum(points[i].server->servername)));
		rf_put(&row, LSNGetDatum(point->here ? here : point->lsn));
		rf_end_row(&row);
	}
	return (Datum) 0;
}
