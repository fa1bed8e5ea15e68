/*
 * session_settings.c - sets the settings on which the meaning of statements and the text of values
 * depend, in sessions on data nodes.
 *
 * Statements qualify all names that are not in pg_catalog. Values travel as text in forms that mean
 * the same everywhere (rf_neutral_settings() sets our side). Settings of a role or a database over
 * there must not change the meaning, so all of these have fixed values in our sessions.
 *
 * If the other end is a server session of our own, they are set when it is made. A connection
 * pooler may give each transaction another session, which later serves other clients: then they are
 * set within each transaction, in the same round trip that begins it. The backend process ID
 * distinguishes the two: a pooler cannot name a server process when a client connects, because it
 * chooses the server session later.
 */
#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"
#include "placement.h"
#include "session.h"

/* How long to wait for a node to finish a move that was decided, and how often to check. */
#define MOVE_TIMEOUT_MS	60000
#define MOVE_LOOK_MS	50

static void
remember(RfSession *session, const char *memberships)
{
	char	   *copy = MemoryContextStrdup(TopMemoryContext, memberships);

	if (session->node.memberships != NULL)
		pfree(session->node.memberships);
	session->node.memberships = copy;
	session->node.placement_generation = 0;
}

/*
 * Without the function the database is not a node, or its extension is older than sets of nodes.
 * Without the schema it has no extension.
 */
static PGresult *
ask_node(RfSession *session, const char *sql, List *parts, int columns, int most)
{
	PGresult   *volatile result = NULL;
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		result = rf_session_ask(session, sql, columns + (parts != NIL), 1, most);
	}
	PG_CATCH();
	{
		if (parts == NIL || (geterrcode() != ERRCODE_UNDEFINED_FUNCTION &&
							 geterrcode() != ERRCODE_INVALID_SCHEMA_NAME))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		rf_placement_check(parts, NULL);
	}
	PG_END_TRY();
	return result;
}

/*
 * Finds out whose session it is and which node it is on, sets the settings that may stay in our own
 * session, and checks that the values arrived. A server that is a node of another server must lead
 * to the database that is this node.
 */
void
rf_session_pin_settings(RfSession *session)
{
	List	   *parts = rf_placement_parts(session->server_name);
	char	   *shared = psprintf("pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %d",
								  PQbackendPID(session->conn));
	char	   *sql = psprintf("SELECT name, value, pg_catalog.set_config(name, value, %s), %s,"
							   " pg_catalog.current_setting('max_prepared_transactions'),"
							   " (SELECT system_identifier FROM pg_catalog.pg_control_system()),"
							   " pg_catalog.to_regprocedure("
							   "'rdma_internal.other_parts_age(bigint)') IS NOT NULL"
							   "%s FROM " RF_PINNED_SETTINGS,
							   shared, shared, rf_placement_question(parts));
	PGresult   *result;
	int64		max_prepared;
	int64		cluster;

	session->node.pooled = false;
	session->xact.wanted = false;
	result = ask_node(session, sql, parts, 7, PG_INT32_MAX);
	for (int i = 0; i < PQntuples(result); i++)
	{
		const char *name = PQgetvalue(result, i, 0);
		const char *value = PQgetvalue(result, i, 1);
		const char *arrived = PQgetvalue(result, i, 2);

		/* datestyle includes the order of input fields, which does not matter here */
		if (strncmp(arrived, value, strlen(value)) != 0)
		{
			char	   *detail = psprintf("%s is \"%s\" instead of \"%s\".", rf_message_text(name),
										  rf_message_text(arrived), rf_message_text(value));

			PQclear(result);
			ereport(ERROR,
					(errcode(ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION),
					 errmsg("server \"%s\" does not keep a setting that statements depend on",
							session->server_name),
					 errdetail_internal("%s", detail),
					 errhint("A connection pooler in between must let set_config() through.")));
		}
	}
	if (!rf_answer_int64(result, 0, 4, 0, PG_INT32_MAX, &max_prepared) ||
		!rf_answer_int64(result, 0, 5, PG_INT64_MIN, PG_INT64_MAX, &cluster))
		rf_session_bad_answer(session, result, sql);
	session->node.pooled = rf_answer_is_true(result, 0, 3);
	session->node.max_prepared = max_prepared;
	session->node.cluster = (uint64) cluster;
	session->node.compares = rf_answer_is_true(result, 0, 6);
	remember(session, PQnfields(result) > 7 ? PQgetvalue(result, 0, 7) : "");
	PQclear(result);
	rf_placement_check(parts, session->node.memberships);
	pfree(sql);
	pfree(shared);
}

/* ---------- which placement the node has ---------- */

/*
 * A move of rows changes the placement on the nodes and here in one transaction
 * (docs/transactions.md). The change becomes visible here a little later; on a node that was lost
 * meanwhile, when the resolver has finished the move there. Waits for moves that are under way.
 * Returns false if there are no moves.
 */
static bool
await_move(RfSession *session, const RfPlacementPart *part)
{
	Oid			serverid = get_foreign_server_oid(part->record->server, true);
	RfDecision *decisions;
	int			count;
	bool		pending = false;
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = rf_wait_event_new("RdmaFdwMove");
	if (OidIsValid(serverid))
	{
		/* a mover holds it until all sessions here can see the move */
		LockDatabaseObject(ForeignServerRelationId, serverid, 0, AccessShareLock);
		UnlockDatabaseObject(ForeignServerRelationId, serverid, 0, AccessShareLock);
	}
	count = rf_decision_read(&decisions);
	for (int i = 0; i < count; i++)
		pending |= decisions[i].serverid == session->serverid;
	pfree(decisions);
	if (pending)
		rf_session_pause(wait_event, MOVE_LOOK_MS);
	return pending;
}

/* Within a remote transaction the answer is from its snapshot, as its rows will be. */
static void
ask_again(RfSession *session, List *parts)
{
	char	   *sql = psprintf("SELECT NULL%s", rf_placement_question(parts));
	PGresult   *result;

	if (session->xact.depth == 0)
		session->xact.wanted = false;
	result = ask_node(session, sql, parts, 1, 1);
	session->xact.wanted = true;
	remember(session, result != NULL && PQnfields(result) > 1 ? PQgetvalue(result, 0, 1) : "");
	PQclear(result);
	pfree(sql);
}

void
rf_session_verify_placement(RfSession *session)
{
	TimestampTz deadline = 0;
	bool		last = false;
	uint64		generation;
	List	   *parts;
	RfPlacementPart *part;
	char	   *there;

	while (session->node.placement_generation != (generation = rf_placement_generation()))
	{
		parts = rf_placement_parts(session->server_name);
		part = rf_placement_differs(parts, session->node.memberships, &there);
		if (part == NULL)
		{
			session->node.placement_generation = generation;
			session->node.later_timeline = rf_placement_is_later(parts, session->node.memberships);
			break;
		}
		ask_again(session, parts);
		part = rf_placement_differs(parts, session->node.memberships, &there);
		if (part == NULL)
			continue;
		rf_placement_check(parts, session->node.memberships);
		if (session->xact.depth > 0)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("rows of server \"%s\" were moved since this transaction began",
							part->record->server),
					 errdetail("Its snapshot on server \"%s\" is older.", session->server_name),
					 errhint("Repeat the transaction.")));
		if (last)
			rf_placement_complain(part, there);
		if (deadline == 0)
			deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), MOVE_TIMEOUT_MS);
		last = !await_move(session, part) || GetCurrentTimestamp() > deadline;
	}
}

/*
 * Sets the search_path for a user's statement in the current remote transaction; NULL sets the
 * search_path that our own statements are written for.
 */
void
rf_session_set_search_path(RfSession *session, const char *path)
{
	bool		local = path != NULL || session->node.pooled;
	char	   *sql = psprintf("SELECT pg_catalog.set_config('search_path', %s, %s)",
							   path != NULL ? quote_literal_cstr(path) : "'" RF_SEARCH_PATH "'",
							   local ? "true" : "false");

	PQclear(rf_session_query(session, sql));
	pfree(sql);
}
