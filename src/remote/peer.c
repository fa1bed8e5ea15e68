/*
 * peer.c - the connection between this node's engine and the engine of a session's node, as far as
 * a session has to do with it: libpq carries the greeting and the token that the engines need.
 */
#include "postgres.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/guc.h"
#include "shmem/peer_table.h"
#include "session.h"

/*
 * The engine's connection to the session's node, made if it is missing; RF_NO_PEER when the engines
 * do not come together, and *error says why. A token is asked for in the first greeting only when
 * it looks as if it would be needed: it costs the data node an entry in a small table.
 */
static int
connect_peer(RfSession *session, RfError *error)
{
	RfSessionEngines *engines = &session->engines;
	int			peer;
	bool		fresh = false;
	bool		again = true;

	if (!engines->hello_valid)
	{
		fresh = true;
		for (int i = 0; rf_shared && i < RF_MAX_PEERS; i++)
		{
			RfPeer	   *p = &rf_shared->peers[i];

			if (atomic_load_explicit(&p->state, memory_order_acquire) == RF_PEER_CONNECTED &&
				!p->accepted && strncmp(p->host, engines->host, sizeof(p->host)) == 0)
				fresh = false;
		}
		rf_session_hello(session, fresh);
	}

	peer = rf_peer_find(&engines->hello.node, false);
	for (int tries = 0; peer == RF_NO_PEER && again && tries < RF_ENGINE_TRIES; tries++)
	{
		if (!fresh)
			rf_session_hello(session, true);
		fresh = again = false;
		peer = rf_peer_find(&engines->hello.node, false);
		if (peer == RF_NO_PEER)
			peer = rf_peer_connect(engines->host, &engines->hello, NULL, &again, error);
	}
	return peer;
}

/*
 * Rows are about to go to or come from the peer. A user that encrypts the database connection, or
 * says so, learns when rows are not encrypted.
 */
static void
check_encryption(RfSession *session, int peer)
{
	RfSessionEngines *engines = &session->engines;
	bool		required = session->options.require_encryption;
	bool		device = strcmp(rf_shared->peers[peer].transport, "tcp") != 0;

	if (strcmp(rf_shared->peers[peer].encryption, "none") != 0 ||
		(!required && (engines->told_clear || !rf_session_encrypted(session))))
		return;
	engines->told_clear = true;
	ereport(
			required ? ERROR : WARNING,
			(errcode(ERRCODE_FDW_ERROR),
			 errmsg("rows are not encrypted between this node and server \"%s\"",
					session->server_name),
			 required ?
			 errdetail("Option encryption of the server is \"require\".") :
			 errdetail("Its database connection is."),
			 device ?
			 errhint("RDMA devices do not encrypt. With rdma_fdw.encryption = require on one of "
					 "the two nodes their engines use TCP, which does. If the network is "
					 "protected by other means, list it in rdma_fdw.trusted_networks.") :
			 errhint("Both nodes have rdma_fdw.encryption = off. Change it on one of them.")));
}

int
rf_session_peer(RfSession *session)
{
	RfError		error = {0};
	int			peer = connect_peer(session, &error);

	if (peer == RF_NO_PEER)
		rf_raise(&error, RF_NO_PEER);
	check_encryption(session, peer);
	return peer;
}

bool
rf_session_encrypted(RfSession *session)
{
	return PQsslInUse(session->conn) || PQgssEncInUse(session->conn);
}

/*
 * Rows that fit libpq's answer need no engine. If the engines cannot connect (a firewall), such
 * rows still come: RF_NO_PEER, with a warning the first time. Each attempt may take
 * connect_timeout, so attempts are rare. Other failures are raised.
 */
int
rf_session_try_peer(RfSession *session)
{
	RfSessionEngines *engines = &session->engines;
	RfError		error = {0};
	bool		told = engines->error.kind != RF_ERROR_NONE;
	int64		pause = (int64) rf_connect_timeout * RF_ENGINE_RETRY;
	int			peer;

	if (told && GetCurrentTimestamp() < engines->retry)
	{
		if (!engines->hello_valid)
			rf_session_hello(session, false);
		if (rf_peer_find(&engines->hello.node, false) == RF_NO_PEER)
			return RF_NO_PEER;
	}
	peer = connect_peer(session, &error);
	if (peer != RF_NO_PEER)
	{
		engines->error.kind = RF_ERROR_NONE;
		check_encryption(session, peer);
		return peer;
	}
	if (error.kind != RF_ERROR_CONNECTION && error.kind != RF_ERROR_GONE &&
		error.kind != RF_ERROR_NOT_CONNECTED)
		rf_raise(&error, RF_NO_PEER);

	engines->error = error;
	engines->retry = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), pause);
	if (!told)
		ereport(WARNING,
				(errcode(rf_error_sqlstate(error.kind)),
				 errmsg("only rows that fit option inline_limit can come from server \"%s\"",
						session->server_name),
				 errdetail("The engines cannot connect: %s", error.message),
				 error.hint[0] ? errhint("%s", error.hint) : 0));
	return RF_NO_PEER;
}

const RfNodeId *
rf_session_node(RfSession *session)
{
	rf_engine_require();
	(void) rf_session_peer(session);
	return &session->engines.hello.node;
}

int
rf_session_encoding(RfSession *session, bool *portable)
{
	RfTypeImage image;
	RfNodeId	node;

	rf_node_self(&node, &image);
	*portable = memcmp(&image, &session->engines.hello.image, sizeof(image)) != 0;
	return session->engines.hello.encoding;
}
