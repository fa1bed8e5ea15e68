/*
 * settings.c - the settings of sessions on data nodes that the meaning of statements and the text
 * of values depend on.
 *
 * Statements qualify all names that are not in pg_catalog; values travel as text in forms that mean
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

#include "utils/builtins.h"

#include "session.h"

/* Finds out whose session it is, sets what may stay in our own, checks that the values arrived. */
void
rf_session_pin_settings(RfSession *session)
{
	char	   *shared = psprintf("pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %d",
								 PQbackendPID(session->conn));
	char	   *sql = psprintf("SELECT name, value, pg_catalog.set_config(name, value, %s), %s FROM " RF_PINNED_SETTINGS,
							   shared, shared);
	PGresult   *result;

	session->shared = false;
	session->transactional = false;
	result = rf_session_query(session, sql);
	for (int i = 0; i < PQntuples(result); i++)
	{
		const char *name = PQgetvalue(result, i, 0);
		const char *value = PQgetvalue(result, i, 1);
		const char *arrived = PQgetvalue(result, i, 2);

		/* datestyle comes with the order of fields that input has, which is of no concern here */
		if (strncmp(arrived, value, strlen(value)) != 0)
		{
			char	   *detail = psprintf("%s is \"%s\" instead of \"%s\".", name, arrived, value);

			PQclear(result);
			ereport(ERROR,
					(errcode(ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION),
					 errmsg("server \"%s\" does not keep a setting that statements depend on",
							session->server_name),
					 errdetail_internal("%s", detail),
					 errhint("A connection pooler in between must let set_config() through.")));
		}
	}
	session->shared = PQntuples(result) > 0 && PQgetvalue(result, 0, 3)[0] == 't';
	PQclear(result);
	pfree(sql);
	pfree(shared);
}

/*
 * A search_path for a statement of the user's, in the remote transaction that is under way; NULL:
 * the one that our own statements are written for.
 */
void
rf_session_set_search_path(RfSession *session, const char *path)
{
	bool		local = path != NULL || session->shared;
	char	   *sql = psprintf("SELECT pg_catalog.set_config('search_path', %s, %s)",
							   path != NULL ? quote_literal_cstr(path) : "'pg_catalog'", local ? "true" : "false");

	PQclear(rf_session_query(session, sql));
	pfree(sql);
}
