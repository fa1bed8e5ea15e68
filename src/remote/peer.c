/*
 * peer.c - the connection between this node's engine and that of a session's node, as far as a
 * session has to do with it: libpq carries the greeting and the token that the engines need.
 */
#include "postgres.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/guc.h"
#include "shmem/peer_table.h"
#include "session.h"

/*
 * The engine's connection to the session's node, made if there is none. A token is asked for in the
 * first greeting only when it looks as if it would be needed: it costs the data node an entry in a
 * small table.
 */
int
rf_session_peer(RfSession *session)
{
	int			peer;
	bool		fresh = false;

	if (!session->hello_valid)
	{
		fresh = true;
		for (int i = 0; rf_shared && i < RF_MAX_PEERS; i++)
		{
			RfPeer	   *p = &rf_shared->peers[i];

			if (atomic_load_explicit(&p->state, memory_order_acquire) == RF_PEER_CONNECTED &&
				!p->accepted && strncmp(p->host, session->host, sizeof(p->host)) == 0)
				fresh = false;
		}
		rf_session_hello(session, fresh);
	}

	peer = rf_peer_find(&session->hello.node, false);
	if (peer == RF_NO_PEER)
	{
		if (!fresh)
			rf_session_hello(session, true);
		peer = rf_peer_find(&session->hello.node, false);
		if (peer == RF_NO_PEER)
			peer = rf_peer_connect(session->host, &session->hello, NULL);
	}
	explicit_bzero(session->hello.token, sizeof(session->hello.token));
	return peer;
}

/*
 * Rows that fit libpq's answer need no engine. Where the engines cannot connect (a firewall), those
 * come: RF_NO_PEER, with a warning for the first time. Each attempt may take connect_timeout, so
 * there are few. What else is wrong is raised.
 */
int
rf_session_try_peer(RfSession *session)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile int peer = RF_NO_PEER;
	bool		told = session->engine_error != NULL;

	if (told && GetCurrentTimestamp() < session->engine_retry)
	{
		if (!session->hello_valid)
			rf_session_hello(session, false);
		if (rf_peer_find(&session->hello.node, false) == RF_NO_PEER)
			return RF_NO_PEER;
	}
	PG_TRY();
	{
		peer = rf_session_peer(session);
	}
	PG_CATCH();
	{
		/* of the engines' connection, and not of libpq's */
		if (session->broken || !session->hello_valid ||
			(geterrcode() != ERRCODE_CONNECTION_FAILURE &&
			 geterrcode() != ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION))
			PG_RE_THROW();
		MemoryContextSwitchTo(TopMemoryContext);
		if (told)
			FreeErrorData(session->engine_error);
		session->engine_error = CopyErrorData();
		FlushErrorState();
		MemoryContextSwitchTo(caller);
	}
	PG_END_TRY();
	if (peer == RF_NO_PEER)
	{
		session->engine_retry = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
															(int64) rf_connect_timeout * RF_ENGINE_RETRY);
		if (!told)
			ereport(WARNING,
					(errcode(session->engine_error->sqlerrcode),
					 errmsg("only rows that fit option inline_limit can come from server \"%s\"", session->server_name),
					 errdetail("The engines cannot connect: %s", session->engine_error->message),
					 session->engine_error->hint ? errhint("%s", session->engine_error->hint) : 0));
	}
	else if (told)
	{
		FreeErrorData(session->engine_error);
		session->engine_error = NULL;
	}
	return peer;
}
