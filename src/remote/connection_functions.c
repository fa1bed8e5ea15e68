/*
 * connection_functions.c - rdma_internal.connections(), rdma.disconnect() and
 * rdma.disconnect_all(): they show and close the sessions of this backend.
 *
 * Every role may list and close the sessions of its own backend. Sessions of other backends are not
 * visible.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_user_mapping.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include <poll.h>

#include "rdma_fdw/compat.h"
#include "base/result_row.h"
#include "session.h"

PG_FUNCTION_INFO_V1(rdma_connections);
PG_FUNCTION_INFO_V1(rdma_disconnect);
PG_FUNCTION_INFO_V1(rdma_disconnect_all);

static bool
in_use(RfSession *session)
{
	return session->xact.depth > 0 || session->running != NULL || session->load != NULL ||
		!dlist_is_empty(&session->collecting);
}

/* The owner of the mapping: a role's name, "public", or NULL if the mapping was dropped. */
static char *
mapping_user(Oid umid)
{
	HeapTuple	tuple = SearchSysCache1(USERMAPPINGOID, ObjectIdGetDatum(umid));
	Oid			role;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	role = ((Form_pg_user_mapping) GETSTRUCT(tuple))->umuser;
	ReleaseSysCache(tuple);
	return OidIsValid(role) ? GetUserNameFromId(role, true) : "public";
}

/*
 * Returns true if the other side has closed the connection. Data that it sent before does not
 * matter.
 */
static bool
hung_up(RfSession *session)
{
	struct pollfd fd = {.fd = PQsocket(session->conn), .events = POLLRDHUP};

	return PQstatus(session->conn) != CONNECTION_OK ||
		(poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
}

/* rdma.connections: a row per connected session of this backend. */
Datum
rdma_connections(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);

	InitMaterializedSRF(fcinfo, 0);
	rf_foreach_session(session)
	{
		ForeignServer *server;
		char	   *user;

		if (session->conn == NULL)
			continue;
		/* a session in use outlives the server and the mapping that it was made for */
		server = GetForeignServerExtended(session->serverid, FSV_MISSING_OK);
		user = mapping_user(session->umid);
		rf_put_text(&row, server ? server->servername : NULL);
		rf_put_text(&row, user);
		rf_put(&row, BoolGetDatum(!session->invalidated && !session->broken && server != NULL &&
								  user != NULL));
		rf_put(&row, BoolGetDatum(in_use(session)));
		rf_put(&row, BoolGetDatum(hung_up(session)));
		rf_put_int(&row, PQbackendPID(session->conn));
		rf_end_row(&row);
	}
	return (Datum) 0;
}

/*
 * Closes the unused sessions of one server (InvalidOid: of all servers). Returns whether it closed
 * any.
 */
static bool
disconnect(Oid serverid)
{
	bool		closed = false;

	rf_foreach_session(session)
	{
		if (session->conn == NULL || (OidIsValid(serverid) && session->serverid != serverid))
			continue;
		if (in_use(session))
			ereport(WARNING,
					(errmsg("cannot close connection for server \"%s\" because it is still in use",
							session->server_name)));
		else
		{
			rf_session_disconnect(session);
			closed = true;
		}
	}
	return closed;
}

Datum
rdma_disconnect(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);

	PG_RETURN_BOOL(disconnect(server->serverid));
}

Datum
rdma_disconnect_all(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(disconnect(InvalidOid));
}
