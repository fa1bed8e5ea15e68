/*
 * session.c - the backend's sessions on data nodes: the table of them, losing and closing their
 * connections, and making them free for something else.
 *
 * What runs in sessions, streams and loads, is told through rf_session_users; nothing here knows
 * them.
 */
#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "session.h"

const RfSessionUsers *rf_session_users = NULL;

/*
 * Sessions by user mapping OID; entries stay for the life of the backend, their connections do not.
 */
static HTAB *sessions = NULL;

/* A session was handed out in this transaction, so its end concerns us. */
static bool in_use = false;

static HASH_SEQ_STATUS iteration;

/* ---------- the table ---------- */

static void
options_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	RfSession  *session;
	HASH_SEQ_STATUS seq;

	/* not rf_session_iterate: invalidations arrive in the middle of such a walk, too */
	hash_seq_init(&seq, sessions);
	while ((session = hash_seq_search(&seq)) != NULL)
	{
		if (session->conn == NULL)
			continue;
		if (hashvalue == 0 ||
			(cacheid == FOREIGNSERVEROID && session->server_hash == hashvalue) ||
			(cacheid == USERMAPPINGOID && session->mapping_hash == hashvalue))
		{
			/*
			 * closed at the end of this or the next transaction, even if nobody asks for it again
			 */
			session->invalidated = true;
			in_use = true;
		}
	}
}

RfSession *
rf_session_find(Oid umid)
{
	RfSession  *session;
	bool		found;

	if (sessions == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(RfSession);
		sessions = hash_create("rdma_fdw sessions", 8, &ctl, HASH_ELEM | HASH_BLOBS);
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, options_changed, (Datum) 0);
		CacheRegisterSyscacheCallback(USERMAPPINGOID, options_changed, (Datum) 0);
	}
	session = hash_search(sessions, &umid, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) session + sizeof(Oid), 0, sizeof(RfSession) - sizeof(Oid));
		dlist_init(&session->streams);
		dlist_init(&session->collecting);
	}
	return session;
}

RfSession *
rf_session_iterate(bool restart)
{
	if (sessions == NULL)
		return NULL;
	if (restart)
		hash_seq_init(&iteration, sessions);
	return (RfSession *) hash_seq_search(&iteration);
}

bool
rf_session_in_use(void)
{
	return in_use;
}

void
rf_session_set_in_use(bool value)
{
	in_use = value;
}

int
rf_session_server_version(RfSession *session)
{
	return PQserverVersion(session->conn);
}

bool
rf_session_is_busy(RfSession *session)
{
	return session->running != NULL;
}

const char *
rf_session_host(RfSession *session)
{
	return session->host;
}

const char *
rf_session_server_name(RfSession *session)
{
	return session->server_name;
}

bool
rf_session_in_transaction(RfSession *session)
{
	return session->depth > 0;
}

/* ---------- what runs there ---------- */

void
rf_session_settle(RfSession *session)
{
	rf_session_users->write(session);
	rf_session_users->free(session);
}

void
rf_session_free(RfSession *session)
{
	rf_session_users->free(session);
}

/* ---------- the end of a connection ---------- */

/*
 * The remote transaction is gone with its connection: nothing can go on, but the next transaction
 * can connect again.
 */
void
rf_session_lost(RfSession *session)
{
	RfStream   *stream = session->running;
	bool		known = session->broken;	/* the command that lost it has failed already */
	char	   *detail;

	session->broken = true;
	/*
	 * the other side may have said why before it went; its SQLSTATE would say that this session was
	 * shut down
	 */
	if (stream && stream->answer.result && PQresultErrorField(stream->answer.result, PG_DIAG_MESSAGE_PRIMARY))
		detail = pstrdup(PQresultErrorField(stream->answer.result, PG_DIAG_MESSAGE_PRIMARY));
	else
		detail = session->conn ? pchomp(PQerrorMessage(session->conn)) : "";
	ereport(ERROR,
			(errcode(known ? ERRCODE_CONNECTION_EXCEPTION : ERRCODE_CONNECTION_FAILURE),
			 errmsg("connection to server \"%s\" was lost", session->server_name),
			 detail[0] != '\0' ? errdetail_internal("%s", detail) : 0,
			 stream ? errcontext("remote SQL command: %s", stream->sql) : 0));
}

void
rf_session_disconnect(RfSession *session)
{
	rf_session_users->lose(session);
	if (session->conn)
	{
		(void) rf_session_cancel_finish(session, 0);
		PQfinish(session->conn);
		session->conn = NULL;
		ReleaseExternalFD();
	}
	session->depth = 0;
	session->unsure = false;
	session->broken = false;
	session->invalidated = false;
	session->prepared = false;
	session->wrote = false;
	list_free_deep(session->garbage);
	session->garbage = NIL;
	session->hello_valid = false;
	explicit_bzero(&session->hello, sizeof(session->hello));
}
