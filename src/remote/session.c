/*
 * session.c - the backend's sessions on data nodes: the table of them, losing and closing their
 * connections, and freeing them for another use.
 *
 * It calls the users of sessions, which are streams and loads, through rf_session_users only.
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "rdma_fdw/guc.h"
#include "rdma_fdw/sql_text.h"
#include "session.h"
#include "waiting.h"

const RfSessionUsers *rf_session_users = NULL;

/*
 * Sessions by user mapping OID; entries stay for the life of the backend, their connections do not.
 */
static HTAB *sessions = NULL;

/* A session was handed out in this transaction, so the callbacks at its end have work. */
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

List *
rf_session_list_open(void)
{
	HASH_SEQ_STATUS seq;
	RfSession  *session;
	List	   *open = NIL;

	if (sessions == NULL)
		return NIL;
	/* not rf_session_iterate: remote transactions begin in the middle of such a walk, too */
	hash_seq_init(&seq, sessions);
	while ((session = hash_seq_search(&seq)) != NULL)
	{
		if (session->xact.depth > 0)
			open = lappend(open, session);
	}
	return open;
}

RfSession *
rf_session_other(RfSession *session)
{
	HASH_SEQ_STATUS seq;
	RfSession  *other;

	/* not rf_session_iterate: remote transactions begin in the middle of such a walk, too */
	hash_seq_init(&seq, sessions);
	while ((other = hash_seq_search(&seq)) != NULL)
	{
		if (other != session && other->xact.depth > 0)
		{
			hash_seq_term(&seq);
			return other;
		}
	}
	return NULL;
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
	return session->engines.host;
}

const char *
rf_session_server_name(RfSession *session)
{
	return session->server_name;
}

bool
rf_session_is_pooled(RfSession *session)
{
	return session->node.pooled;
}

bool
rf_session_in_transaction(RfSession *session)
{
	return session->xact.depth > 0;
}

bool
rf_session_is_fresh(RfSession *session)
{
	return session->xact.depth == 0 || session->xact.untouched;
}

/* ---------- commands that run in the session ---------- */

void
rf_session_settle(RfSession *session)
{
	rf_session_users->write(session);
	rf_session_free(session);
}

void
rf_session_free(RfSession *session)
{
	session->uses++;
	rf_session_users->free(session);
}

/* ---------- writing in several sessions ---------- */

const char *
rf_session_unpreparable(RfSession *session, const char **hint)
{
	if (!rf_commit_available())
	{
		*hint = "Add rdma_fdw to shared_preload_libraries here, and restart the server.";
		return "rdma_fdw was not loaded when the server started.";
	}
	if (session->node.max_prepared == 0)
	{
		*hint = "Set max_prepared_transactions there, or add rdma_fdw to shared_preload_libraries, "
			"which does so, and restart that server.";
		return psprintf("Server \"%s\" has no prepared transactions.", session->server_name);
	}
	return NULL;
}

static void
require_preparable(RfSession *session)
{
	const char *hint;
	const char *detail = rf_session_unpreparable(session, &hint);

	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot write elsewhere and on server \"%s\" in one transaction",
						session->server_name),
				 errdetail_internal("%s", detail),
				 errhint("%s Or set rdma_fdw.commit to atomic or best_effort.", hint)));
}

void
rf_session_will_write(RfSession *session)
{
	HASH_SEQ_STATUS seq;
	RfSession  *other;
	bool		elsewhere = TransactionIdIsValid(GetTopTransactionIdIfAny());

	if (session->xact.wrote)
		return;
	if (rf_commit_mode == RF_COMMIT_REQUIRED)
	{
		/* not rf_session_iterate: this happens in the middle of such a walk, too */
		hash_seq_init(&seq, sessions);
		while ((other = hash_seq_search(&seq)) != NULL)
			elsewhere |= other->xact.wrote && other != session;
		if (elsewhere)
			require_preparable(session);
	}
	session->xact.wrote = true;
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
	 * the other side may have sent its reason before it closed; that SQLSTATE would mean that this
	 * session was shut down
	 */
	if (stream && stream->answer.result &&
		PQresultErrorField(stream->answer.result, PG_DIAG_MESSAGE_PRIMARY))
		detail = pstrdup(PQresultErrorField(stream->answer.result, PG_DIAG_MESSAGE_PRIMARY));
	else
		detail = session->conn ? pchomp(PQerrorMessage(session->conn)) : "";
	ereport(ERROR,
			(errcode(known ? ERRCODE_CONNECTION_EXCEPTION : ERRCODE_CONNECTION_FAILURE),
			 errmsg("connection to server \"%s\" was lost", session->server_name),
			 detail[0] != '\0' ? errdetail_internal("%s", rf_message_text(detail)) : 0,
			 stream ? errcontext("remote SQL command: %s", stream->sql) : 0));
}

void
rf_session_disconnect(RfSession *session)
{
	rf_session_users->lose(session);
	if (session->conn)
	{
		rf_waiting_disconnected(session->node.cluster, PQbackendPID(session->conn));
		(void) rf_session_cancel_finish(session, 0);
		rf_socket_wait_end(&session->wait);
		PQfinish(session->conn);
		session->conn = NULL;
		ReleaseExternalFD();
	}
	session->xact.depth = 0;
	session->xact.unsure = false;
	session->broken = false;
	session->invalidated = false;
	session->prepared.has_stream = false;
	session->xact.wrote = false;
	session->xact.reads_copies = false;
	list_free_deep(session->prepared.garbage);
	session->prepared.garbage = NIL;
	session->engines.hello_valid = false;
	explicit_bzero(&session->engines.hello, sizeof(session->engines.hello));
}
