/*
 * control_connection.c - a control connection: its beginning, its bytes, its end, and the entry of
 * the peer table that it owns from SETUP on.
 *
 * A connection that dies keeps its memory until the end of the round, and its peer entry until all
 * lanes have released its queue pairs. This file calls no file that uses it; rf_engine->peer_failed
 * and peer_gone tell the objects that depend on a peer.
 */
#include "postgres.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine_int.h"

#define RF_SETTLE_FIRST_US		2000
#define RF_SETTLE_MAX_US		1000000

RfConnection *
rf_connection_new(int fd, bool accepted)
{
	RfConnection *connection = calloc(1, sizeof(RfConnection));
	int			i;

	if (connection == NULL)
		return NULL;
	connection->source.kind = RF_SOURCE_CONTROL;
	connection->source.fd = fd;
	connection->peer = RF_NO_PEER;
	connection->accepted = accepted;
	connection->phase = accepted ? RF_PHASE_HANDSHAKE : RF_PHASE_CONNECTING;
	connection->started_us = rf_now_us();
	connection->deadline_us = connection->started_us + rf_handshake_limit_us();
	for (i = 0; i < RF_MAX_LANES; i++)
	{
		RfConnectionLane *lane = &connection->by_lane[i];

		lane->socket.source.kind = RF_SOURCE_DATA;
		lane->socket.source.fd = -1;
		lane->socket.connection = connection;
		lane->socket.lane = i;
		lane->waiting_socket = -1;
	}
	if (accepted)
	{
		RfControlHello hello;

		rf_own_hello(&hello, fd);
		rf_handshake_acceptor(&connection->handshake, &hello);
		if (!rf_watch(&connection->source, EPOLLIN))
		{
			free(connection);
			return NULL;
		}
	}
	connection->next = rf_engine->connections;
	rf_engine->connections = connection;
	return connection;
}

void
rf_connection_close_socket(RfConnection *connection)
{
	rf_unwatch(&connection->source);
	rf_tls_free(connection->tls);
	connection->tls = NULL;
	connection->unread = false;
	if (connection->source.fd >= 0)
		close(connection->source.fd);
	connection->source.fd = -1;
}

/* ---------- bytes ---------- */

bool
rf_connection_begin_tls(RfConnection *connection)
{
	RfHandshake *hs = &connection->handshake;
	RfTlsKey	key = {.client = !connection->accepted, .rekey_after = RF_REKEY_AFTER};
	RfError		error;

	if (rf_handshake_encryption(hs) == RF_ENCRYPTION_OFF)
		return true;
	rf_connection_flush(connection);
	if (connection->phase != RF_PHASE_SETUP)
		return false;
	memset(&error, 0, sizeof(error));
	if (hs->out_used > 0)
		rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
				 "the other engine does not read its messages");
	else if (!rf_handshake_tls_secret(hs, !connection->accepted, connection->secret, key.secret))
		rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL, "could not compute a key");
	else
		connection->tls = rf_tls_new(connection->source.fd, &key, 1, &error);
	explicit_bzero(&key, sizeof(key));
	if (connection->tls == NULL)
	{
		if (error.kind == RF_ERROR_RESOURCES)
			strlcpy(error.hint,
					"With rdma_fdw.encryption = off on both nodes there is no encryption.",
					sizeof(error.hint));
		rf_connection_fail(connection, &error);
	}
	return connection->tls != NULL;
}

ssize_t
rf_connection_receive(RfConnection *connection, void *to, size_t size)
{
	return connection->tls != NULL ? rf_tls_receive(connection->tls, to, size) :
		recv(connection->source.fd, to, size, MSG_DONTWAIT);
}

const char *
rf_connection_reason(const RfConnection *connection, int code)
{
	const char *reason = code == EPROTO && connection->tls != NULL ?
		rf_tls_reason(connection->tls) :
		NULL;

	return reason != NULL ? reason : strerror(code);
}

/* Sends the queued bytes. Returns as send() does; 0: nothing was queued. */
static ssize_t
send_queued(RfConnection *connection)
{
	const RfHandshake *hs = &connection->handshake;
	struct iovec piece = {hs->out, hs->out_used};

	return connection->tls != NULL ?
		rf_tls_send(connection->tls, &piece, hs->out_used > 0 ? 1 : 0) :
		send(connection->source.fd, hs->out, hs->out_used, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * Returns true if bytes wait for room in the socket. Under TLS it may wait for the other end's
 * handshake message instead.
 */
static bool
wants_room(const RfConnection *connection)
{
	return connection->tls != NULL ? rf_tls_unsent(connection->tls) :
		connection->handshake.out_used > 0;
}

void
rf_connection_flush(RfConnection *connection)
{
	RfHandshake *hs = &connection->handshake;
	RfError		error;

	while (hs->out_used > 0 || wants_room(connection))
	{
		ssize_t		sent = send_queued(connection);

		if (sent >= 0)
			rf_handshake_sent(hs, sent);
		else if (sent < 0 && errno == EINTR)
			continue;
		else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		else
		{
			memset(&error, 0, sizeof(error));
			rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "%s",
					 rf_connection_reason(connection, errno));
			rf_connection_fail(connection, &error);
			return;
		}
	}
	if (connection->source.fd >= 0 &&
		!rf_watch(&connection->source, EPOLLIN | (wants_room(connection) ? EPOLLOUT : 0)))
	{
		memset(&error, 0, sizeof(error));
		rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL, "could not watch a socket: %s",
				 strerror(errno));
		rf_connection_fail(connection, &error);
	}
}

void
rf_connection_send(RfConnection *connection, RfControlType type, const void *payload,
				   uint32_t length)
{
	RfError		error;

	if (connection->dead || connection->source.fd < 0)
		return;
	if (!rf_handshake_put(&connection->handshake, type, payload, length))
	{
		memset(&error, 0, sizeof(error));
		rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
				 "the other engine does not read its messages");
		rf_connection_fail(connection, &error);
		return;
	}
	rf_connection_flush(connection);
}

void
rf_connection_refuse(RfConnection *connection, uint32_t reason, const char *message)
{
	RfError		error;
	char		address[64];

	atomic_fetch_add(&rf_shared->counters.handshakes_refused, 1);
	rf_socket_address(connection->source.fd, address, sizeof(address));
	if (reason != RF_REFUSED_CROSSING)
		ereport(rf_crowd_may_log() ? LOG : DEBUG1,
				(errmsg("rdma_fdw engine: refused a connection from %s: %s", address, message)));
	rf_handshake_refuse(&connection->handshake, reason, message);

	/* Send only as many bytes as fit into the socket's buffer: the other side may never read it. */
	(void) send(connection->source.fd, connection->handshake.out, connection->handshake.out_used,
				MSG_NOSIGNAL | MSG_DONTWAIT);
	memset(&error, 0, sizeof(error));
	connection->attempt.crossed = true; /* told already */
	rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "%s", message);
	rf_connection_fail(connection, &error);
}

/* ---------- the end ---------- */

static void
tell_why(RfConnection *connection, const RfError *error)
{
	RfPeer	   *peer = connection->peer == RF_NO_PEER ? NULL : &rf_shared->peers[connection->peer];
	const char *hint = error->hint[0] ? error->hint : NULL;

	memset(&connection->error, 0, sizeof(connection->error));
	if (connection->was_up)
		rf_error(&connection->error, error->kind, error->detail[0] ? error->detail : NULL, hint,
				 "lost the connection to the engine of %s: %s", peer->host, error->message);
	else if (peer && !connection->accepted)
		rf_error(
				 &connection->error, error->kind, error->detail[0] ? error->detail : NULL,
				 hint ? hint :
				 error->kind == RF_ERROR_CONNECTION ?
				 "The engine's port on the data node must be reachable; rdma_fdw.listen_address "
				 "and rdma_fdw.engine_port set it." :
					 NULL,
				 "could not connect to the engine at %s, port %u: %s", peer->host, peer->port,
				 error->message);
	else
		connection->error = *error;

	if (connection->was_up)
	{
		atomic_fetch_add(&rf_shared->counters.connections_lost, 1);
		ereport(LOG,
				(errcode(rf_error_sqlstate(error->kind)),
				 errmsg("rdma_fdw engine: %s", connection->error.message),
				 error->detail[0] ? errdetail_internal("%s", error->detail) : 0));
	}
	else if (peer)
		ereport(connection->attempt.crossed ? DEBUG1 : LOG, /* a connection that is no longer
															 * needed has not failed */
				(errcode(rf_error_sqlstate(error->kind)),
				 errmsg("rdma_fdw engine: %s", connection->error.message)));
	else if (!connection->attempt.crossed)
	{
		char		address[64] = "unknown";

		/* Not an engine, or an engine that gave up. Port scans must not fill the log. */
		if (connection->source.fd >= 0)
			rf_socket_address(connection->source.fd, address, sizeof(address));
		atomic_fetch_add(&rf_shared->counters.garbage_connections, 1);
		ereport(DEBUG1,
				(errmsg_internal("rdma_fdw engine: closed a connection from %s: %s",
								 address, error->message)));
	}
}

/* The connection fails: close the sockets that no queue pair owns yet. */
static void
close_data_sockets(RfConnection *connection)
{
	uint32_t	i;

	for (i = 0; i < RF_MAX_LANES; i++)
	{
		RfConnectionLane *lane = &connection->by_lane[i];

		rf_unwatch(&lane->socket.source);
		if (lane->socket.source.fd >= 0)
			close(lane->socket.source.fd);
		lane->socket.source.fd = -1;
		if (lane->waiting_socket >= 0)
			close(lane->waiting_socket);
		lane->waiting_socket = -1;
	}
}

bool
rf_connection_drop_lanes(RfConnection *connection, const RfError *error)
{
	bool		any = false;

	/* Only a lane may destroy a queue pair, even if it has not seen it yet. */
	for (uint32_t i = 0; i < connection->lanes; i++)
	{
		RfConnectionLane *lane = &connection->by_lane[i];

		if (lane->qp == NULL)
			continue;
		if (!connection->with_lanes)
			rf_lane_add_connection(rf_engine->lanes[i], connection->peer, lane->qp, NULL);
		lane->qp = NULL;
		connection->lanes_dropping++;
		any = true;
		rf_lane_drop_connection(rf_engine->lanes[i], connection->peer, error);
	}
	connection->with_lanes = false;
	return any;
}

/*
 * A peer whose connection has ended may still hold our memory, usually for a moment, but for as
 * long as its process is stopped. Check after growing pauses until it is released.
 */
static int64_t settle_us = INT64_MAX;
static int64_t settle_pause_us;

static void
settle_again(int64_t now, int64_t pause)
{
	settle_pause_us = Min(pause, RF_SETTLE_MAX_US);
	settle_us = atomic_load(&rf_shared->segments_held) > 0 ? now + settle_pause_us : INT64_MAX;
}

bool
rf_connections_settle(int64_t now)
{
	if (now < settle_us)
		return false;
	(void) rf_pool_settle(rf_engine->pool);
	settle_again(now, settle_pause_us * 2);
	return true;
}

int64_t
rf_connections_settle_due(void)
{
	return settle_us;
}

void
rf_connection_finish(RfConnection *connection)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];

	rf_engine->peer_gone(connection->peer);
	if (connection->domain)
	{
		rf_pages_deregister(connection);
		rf_prove_release(connection);
		rf_values_peer_gone(rf_engine->values, connection->domain);
		rf_pool_peer_gone(rf_engine->pool, connection->peer, connection->domain);
	}
	connection->domain = NULL;
	settle_again(rf_now_us(), RF_SETTLE_FIRST_US);

	rf_engine->by_peer[connection->peer] = NULL;
	explicit_bzero(peer->token, sizeof(peer->token));
	peer->error = connection->error;
	atomic_store(&peer->state, connection->attempt.crossed ? RF_PEER_FREE : RF_PEER_FAILED);
	rf_peers_wake(connection->peer);
	connection->dead = true;
}

void
rf_connection_fail(RfConnection *connection, const RfError *error)
{
	if (connection->dead || connection->phase == RF_PHASE_DROPPING)
		return;
	tell_why(connection, error);
	rf_crowd_leave(connection);
	rf_connection_close_socket(connection);
	close_data_sockets(connection);

	if (connection->peer == RF_NO_PEER)
	{
		connection->dead = true;
		return;
	}

	/* Once it is no longer CONNECTED, no new flow may choose this peer. */
	if (connection->phase == RF_PHASE_UP)
	{
		rf_shared->peers[connection->peer].error = connection->error;
		atomic_store(&rf_shared->peers[connection->peer].state, RF_PEER_CLOSING);
		rf_engine->peer_failed(connection->peer, &connection->error);
	}

	(void) rf_connection_drop_lanes(connection, &connection->error);
	connection->phase = RF_PHASE_DROPPING;
	if (connection->lanes_dropping == 0)
		rf_connection_finish(connection);
}

void
rf_connections_reap(void)
{
	RfConnection **link = &rf_engine->connections;

	while (*link)
	{
		RfConnection *connection = *link;

		if (connection->dead)
		{
			*link = connection->next;
			rf_handshake_free(&connection->handshake);
			explicit_bzero(connection->secret, sizeof(connection->secret));
			free(connection);
		}
		else
			link = &connection->next;
	}
}
