/*
 * peer.c - control connections from connect or accept to their end, and the entries of the peer
 * table that they own.
 *
 * Here: bytes in and out, deadlines, signs of life, what happens when one is lost. What the
 * messages between proof and CONNECTED mean is in setup.c, those about flows in open.c. A
 * connection that dies keeps its memory until the end of the round, and its peer entry until all
 * lanes have let go of its queue pairs.
 */
#include "postgres.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "miscadmin.h"

#include "rdma_fdw/guc.h"

#include "engine_int.h"

#define RF_HANDSHAKE_LIMIT_US	10000000
#define RF_PING_MAX_US			5000000
#define RF_CROSSING_RETRY_US	300000
#define RF_CROSSING_RETRIES		6
#define RF_STEPS_AT_ONCE		512
#define RF_BYE_LIMIT_US			200000
#define RF_SETTLE_FIRST_US		2000
#define RF_SETTLE_MAX_US		1000000

static void connection_finish(RfConnection *connection);

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
	connection->deadline_us = connection->started_us + RF_HANDSHAKE_LIMIT_US;
	for (i = 0; i < RF_MAX_LANES; i++)
	{
		connection->sockets[i].source.kind = RF_SOURCE_DATA;
		connection->sockets[i].source.fd = -1;
		connection->sockets[i].connection = connection;
		connection->sockets[i].lane = i;
		connection->waiting_socket[i] = -1;
	}
	if (accepted)
	{
		RfControlHello hello;

		rf_own_hello(&hello);
		rf_handshake_acceptor(&connection->handshake, &hello);
		if (!rf_watch(&connection->source, EPOLLIN))
		{
			free(connection);
			return NULL;
		}
		rf_engine->unauthenticated++;
	}
	connection->next = rf_engine->connections;
	rf_engine->connections = connection;
	return connection;
}

static void
close_fd(RfConnection *connection)
{
	rf_unwatch(&connection->source);
	if (connection->source.fd >= 0)
		close(connection->source.fd);
	connection->source.fd = -1;
}

/* ---------- bytes ---------- */

static void
flush_out(RfConnection *connection)
{
	RfHandshake *hs = &connection->handshake;
	RfError		error;

	while (hs->out_used > 0)
	{
		ssize_t		sent = send(connection->source.fd, hs->out, hs->out_used, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0)
			rf_handshake_sent(hs, sent);
		else if (sent < 0 && errno == EINTR)
			continue;
		else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		else
		{
			memset(&error, 0, sizeof(error));
			rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "%s", strerror(errno));
			rf_connection_fail(connection, &error);
			return;
		}
	}
	if (connection->source.fd >= 0 && !rf_watch(&connection->source, EPOLLIN | (hs->out_used > 0 ? EPOLLOUT : 0)))
	{
		memset(&error, 0, sizeof(error));
		rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL, "could not watch a socket: %s", strerror(errno));
		rf_connection_fail(connection, &error);
	}
}

void
rf_connection_send(RfConnection *connection, RfControlType type, const void *payload, uint32_t length)
{
	RfError		error;

	if (connection->dead || connection->source.fd < 0)
		return;
	if (!rf_handshake_put(&connection->handshake, type, payload, length))
	{
		memset(&error, 0, sizeof(error));
		rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "the other engine does not read what it is sent");
		rf_connection_fail(connection, &error);
		return;
	}
	flush_out(connection);
}

/* Say no to a connection that has no peer entry yet, and count it. */
void
rf_connection_refuse(RfConnection *connection, uint32_t reason, const char *message)
{
	RfError		error;
	char		address[64];

	atomic_fetch_add(&rf_shared->handshakes_refused, 1);
	rf_socket_address(connection->source.fd, address, sizeof(address));
	if (reason != RF_REFUSED_CROSSING)
		ereport(LOG,
				(errmsg("rdma_fdw engine: refused a connection from %s: %s", address, message)));
	rf_handshake_refuse(&connection->handshake, reason, message);

	/* What fits into the socket's buffer is enough; nobody waits for a reader who may not come. */
	(void) send(connection->source.fd, connection->handshake.out, connection->handshake.out_used, MSG_NOSIGNAL | MSG_DONTWAIT);
	memset(&error, 0, sizeof(error));
	connection->crossed = true; /* told already */
	rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "%s", message);
	rf_connection_fail(connection, &error);
}

/*
 * Half way down to a shorter one, an eighth of the way up to a longer: what delays a message most is
 * an engine that is busy or not on the processor, and that is not the network's.
 */
static void
smooth_round_trip(RfPeer *peer)
{
	int64_t		usual = atomic_load(&peer->usual_round_trip_us);
	int64_t		last = Max(peer->round_trip_us, 1);

	if (usual == 0)
		usual = last;
	else
		usual += (last - usual) / (last < usual ? 2 : 8);
	atomic_store(&peer->usual_round_trip_us, (uint32_t) usual);
}

static void
handle_message(RfConnection *connection, const RfControlMessage *message)
{
	switch (message->type)
	{
		case RF_CONTROL_PROOF:
			rf_setup_proof(connection, &message->u.proof);
			break;
		case RF_CONTROL_WELCOME:
			rf_setup_welcome(connection, &message->u.welcome);
			break;
		case RF_CONTROL_ATTACH:
			rf_setup_attach(connection, &message->u.attach);
			break;
		case RF_CONTROL_QP:
			rf_setup_qp(connection, &message->u.qp);
			break;
		case RF_CONTROL_LINKED:
			rf_prove_linked(connection, &message->u.linked);
			break;
		case RF_CONTROL_READY:
			rf_prove_event(connection, RF_PATH_READY, NULL);
			break;
		case RF_CONTROL_BROKEN:
			rf_prove_broken(connection);
			break;
		case RF_CONTROL_OPEN:
			rf_flow_handle_open(connection, &message->u.open);
			break;
		case RF_CONTROL_OPENED:
			rf_flow_handle_opened(connection, &message->u.opened);
			break;
		case RF_CONTROL_OPEN_FAILED:
			rf_flow_handle_open_failed(connection, &message->u.open_failed);
			break;
		case RF_CONTROL_PONG:
			{
				uint64_t	elapsed = (uint64_t) rf_now_us() - message->u.stamp;

				/*
				 * The stamp is what the peer says it was: unsigned, and a senseless one is only a
				 * senseless number.
				 */
				if (connection->peer != RF_NO_PEER)
				{
					RfPeer	   *peer = &rf_shared->peers[connection->peer];

					peer->round_trip_us = Min(elapsed, INT_MAX);
					smooth_round_trip(peer);
				}
				break;
			}
		case RF_CONTROL_BYE:
			{
				RfError		error;

				memset(&error, 0, sizeof(error));
				rf_error(&error, RF_ERROR_CONNECTION, NULL, "Repeat the query; the engine starts again by itself unless its server was shut down.",
						 "the other engine was stopped");
				rf_connection_fail(connection, &error);
				break;
			}
		default:
			break;
	}
}

static void
read_in(RfConnection *connection)
{
	RfHandshake *hs = &connection->handshake;
	RfError		error;
	int			steps = 0;

	/*
	 * Not without end: a peer that sends without pause must not keep the others waiting. What is
	 * left wakes us again.
	 */
	memset(&error, 0, sizeof(error));
	while (!connection->dead && connection->source.fd >= 0 && steps++ < RF_STEPS_AT_ONCE)
	{
		uint8_t    *place;
		uint32_t	room = rf_handshake_room(hs, &place);
		RfControlMessage message;

		if (room > 0)
		{
			ssize_t		got = recv(connection->source.fd, place, room, MSG_DONTWAIT);

			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
				break;
			if (got <= 0)
			{
				rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "%s",
						 got == 0 ? "the other side closed the connection" : strerror(errno));
				rf_connection_fail(connection, &error);
				return;
			}
			rf_handshake_filled(hs, got);
			connection->heard_us = rf_now_us();
			if ((uint32_t) got < room)
				continue;
		}
		switch (rf_handshake_step(hs, &message, &error))
		{
			case RF_STEP_MORE:
				break;
			case RF_STEP_MESSAGE:
				handle_message(connection, &message);
				break;
			case RF_STEP_FAILED:
				if (hs->out_used > 0)
					(void) send(connection->source.fd, hs->out, hs->out_used, MSG_NOSIGNAL | MSG_DONTWAIT);
				if (hs->crossing && connection->retries < RF_CROSSING_RETRIES)
				{
					/*
					 * The token is still good. Normally the other side's connection is here before
					 * we try again.
					 */
					connection->retries++;
					connection->retry_us = rf_now_us() + RF_CROSSING_RETRY_US;
					close_fd(connection);
					return;
				}
				rf_connection_fail(connection, &error);
				return;
		}
	}
	if (!connection->dead && connection->source.fd >= 0 && hs->out_used > 0)
		flush_out(connection);
}

/* ---------- the initiator's beginning ---------- */

/* Try the addresses of the peer's list from connection->address on. */
static void
connect_next(RfConnection *connection, RfError *error)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];

	for (;;)
	{
		char		address[64];
		const char *from = peer->addresses;
		int			i;

		for (i = 0; i < connection->address && from; i++)
		{
			from = strchr(from, ',');
			from = from ? from + 1 : NULL;
		}
		if (from == NULL)
		{
			rf_connection_fail(connection, error);
			return;
		}
		strlcpy(address, from, Min(sizeof(address), strcspn(from, ",") + 1));
		connection->source.fd = rf_start_connect(address, peer->port, error);
		if (connection->source.fd >= 0 && rf_watch(&connection->source, EPOLLOUT))
		{
			/* One that does not answer leaves the others their share of the time. */
			int64_t		now = rf_now_us();
			int			left = 1;

			for (from = strchr(from, ','); from; from = strchr(from + 1, ','))
				left++;
			connection->attempt_us = now + (connection->deadline_us - now) / left;
			return;
		}
		close_fd(connection);
		connection->address++;
	}
}

static void
start_initiator(RfConnection *connection)
{
	RfError		error;

	connection->phase = RF_PHASE_CONNECTING;
	connection->address = 0;
	memset(&error, 0, sizeof(error));
	rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "it has no address");
	connect_next(connection, &error);
}

static void
connected(RfConnection *connection)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];
	int			problem = 0;
	socklen_t	length = sizeof(problem);
	RfControlHello hello;

	if (getsockopt(connection->source.fd, SOL_SOCKET, SO_ERROR, &problem, &length) != 0)
		problem = errno;
	if (problem != 0)
	{
		RfError		error;

		memset(&error, 0, sizeof(error));
		rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "%s", strerror(problem));
		close_fd(connection);
		connection->address++;
		connect_next(connection, &error);
		return;
	}
	connection->phase = RF_PHASE_HANDSHAKE;
	connection->deadline_us = rf_now_us() + RF_HANDSHAKE_LIMIT_US;
	rf_own_hello(&hello);
	rf_handshake_free(&connection->handshake);
	rf_handshake_initiator(&connection->handshake, &hello, peer->token_id, peer->token);
	flush_out(connection);
}

/*
 * Is there another connection with that node, up or coming up? This node itself has one of each
 * direction: of these, one that begins here.
 */
static bool
already_connecting(const RfNodeId *node)
{
	bool		self = memcmp(node, &rf_shared->node, sizeof(*node)) == 0;
	int			i;

	for (i = 0; i < RF_MAX_PEERS; i++)
	{
		if (rf_engine->by_peer[i] && rf_engine->by_peer[i]->phase != RF_PHASE_DROPPING &&
			memcmp(&rf_shared->peers[i].node, node, sizeof(*node)) == 0 &&
			(!self || !rf_shared->peers[i].accepted))
			return true;
	}
	return false;
}

void
rf_peers_requested(void)
{
	int			i;

	for (i = 0; i < RF_MAX_PEERS; i++)
	{
		RfPeer	   *peer = &rf_shared->peers[i];
		RfConnection *connection;

		if (atomic_load(&peer->state) != RF_PEER_REQUESTED || rf_engine->by_peer[i] != NULL)
			continue;
		if (already_connecting(&peer->node))
		{
			/* The node was faster; who waits here will find its connection. */
			explicit_bzero(peer->token, sizeof(peer->token));
			atomic_store(&peer->state, RF_PEER_FREE);
			rf_peers_wake(i);
			continue;
		}
		atomic_store(&peer->state, RF_PEER_CONNECTING);
		if (rf_engine->provider == NULL)
		{
			peer->error = rf_shared->device_error;
			atomic_store(&peer->state, RF_PEER_FAILED);
			rf_peers_wake(i);
			continue;
		}
		connection = rf_connection_new(-1, false);
		if (connection == NULL)
		{
			rf_error(&peer->error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
			atomic_store(&peer->state, RF_PEER_FAILED);
			rf_peers_wake(i);
			continue;
		}
		connection->peer = i;
		rf_engine->by_peer[i] = connection;
		start_initiator(connection);
	}
}

void
rf_connection_event(RfConnection *connection, uint32_t events)
{
	if (connection->dead)
		return;
	if (connection->phase == RF_PHASE_CONNECTING)
	{
		connected(connection);
		return;
	}
	if (events & EPOLLOUT)
		flush_out(connection);
	if (!connection->dead && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		read_in(connection);
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
				 "lost the connection to the engine of %.40s: %.120s", peer->host, error->message);
	else if (peer && !connection->accepted)
		rf_error(&connection->error, error->kind, error->detail[0] ? error->detail : NULL,
				 hint ? hint : error->kind == RF_ERROR_CONNECTION ?
				 "The engine's port on the data node must be reachable; rdma_fdw.listen_address and rdma_fdw.engine_port set it." : NULL,
				 "could not connect to the engine at %.40s, port %u: %.110s", peer->host, peer->port, error->message);
	else
		connection->error = *error;

	if (connection->was_up)
	{
		atomic_fetch_add(&rf_shared->connections_lost, 1);
		ereport(LOG,
				(errcode(rf_error_sqlstate(error->kind)),
				 errmsg("rdma_fdw engine: %s", connection->error.message),
				 error->detail[0] ? errdetail_internal("%s", error->detail) : 0));
	}
	else if (peer)
		ereport(connection->crossed ? DEBUG1 : LOG,	/* one that was not needed any more is no failure */
				(errcode(rf_error_sqlstate(error->kind)),
				 errmsg("rdma_fdw engine: %s", connection->error.message)));
	else if (!connection->crossed)
	{
		char		address[64] = "unknown";

		/* Not an engine, or one that broke off. Whoever scans ports shall not fill the log. */
		if (connection->source.fd >= 0)
			rf_socket_address(connection->source.fd, address, sizeof(address));
		atomic_fetch_add(&rf_shared->garbage_connections, 1);
		ereport(DEBUG1,
				(errmsg_internal("rdma_fdw engine: closed a connection from %s: %s", address, error->message)));
	}
}

/* The connection is of no more use: whatever depends on it learns why. */
void
rf_connection_fail(RfConnection *connection, const RfError *error)
{
	if (connection->dead || connection->phase == RF_PHASE_DROPPING)
		return;
	tell_why(connection, error);
	if (connection->accepted && connection->phase == RF_PHASE_HANDSHAKE)
		rf_engine->unauthenticated--;
	close_fd(connection);
	rf_setup_close(connection);

	if (connection->peer == RF_NO_PEER)
	{
		connection->dead = true;
		return;
	}

	/* From CONNECTED no new flow may choose this peer. */
	if (connection->phase == RF_PHASE_UP)
	{
		rf_shared->peers[connection->peer].error = connection->error;
		atomic_store(&rf_shared->peers[connection->peer].state, RF_PEER_CLOSING);
		rf_flows_peer_failed(connection->peer, &connection->error);
	}

	(void) rf_prove_drop_lanes(connection, &connection->error);
	connection->phase = RF_PHASE_DROPPING;
	if (connection->lanes_dropping == 0)
		connection_finish(connection);
}

/*
 * A lane lost the data connection. What the other engine had to say before it went is the better
 * reason, so see whether it did; else it is the one that has to be told.
 */
void
rf_connection_lost(RfConnection *connection, const RfError *error)
{
	RfError		known = *error;

	if (connection->phase == RF_PHASE_SETUP)
	{
		rf_prove_event(connection, RF_PATH_DEAD, error);
		return;
	}
	if (connection->phase == RF_PHASE_UP)
		read_in(connection);
	if (connection->phase == RF_PHASE_UP)
		rf_connection_send(connection, RF_CONTROL_BROKEN, NULL, 0);
	if (known.kind == RF_ERROR_CONNECTION && rf_prove_hint(connection) != NULL)
		strlcpy(known.hint, rf_prove_hint(connection), sizeof(known.hint));
	rf_connection_fail(connection, &known);
}

void
rf_connections_reloaded(void)
{
	RfConnection *connection;

	for (connection = rf_engine->connections; connection; connection = connection->next)
	{
		if (connection->source.fd >= 0)
			rf_socket_options(connection->source.fd);
	}
}

/*
 * This engine ends in order: say so, and give the others a moment to take note before the data
 * connections break, so that their queries fail with that reason. They close when they have; nobody
 * waits long for one that hangs.
 */
void
rf_connections_bye(void)
{
	struct pollfd waiting[RF_MAX_PEERS];
	int			count = 0;
	int64_t		until = rf_now_us() + RF_BYE_LIMIT_US;
	int64_t		now;
	int			i;

	for (i = 0; i < RF_MAX_PEERS; i++)
	{
		RfConnection *connection = rf_engine->by_peer[i];

		if (connection == NULL || connection->phase != RF_PHASE_UP)
			continue;
		rf_connection_send(connection, RF_CONTROL_BYE, NULL, 0);
		if (connection->source.fd >= 0 && memcmp(&rf_shared->peers[i].node, &rf_shared->node, sizeof(RfNodeId)) != 0)
			waiting[count++] = (struct pollfd) {.fd = connection->source.fd, .events = POLLIN};
	}
	while (count > 0 && (now = rf_now_us()) < until)
	{
		if (poll(waiting, count, (until - now) / 1000 + 1) < 0 && errno != EINTR)
			return;
		for (i = count - 1; i >= 0; i--)
		{
			char		ignored[4096];
			ssize_t		got = waiting[i].revents == 0 ? 1 : recv(waiting[i].fd, ignored, sizeof(ignored), MSG_DONTWAIT);

			if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
				waiting[i] = waiting[--count];
		}
	}
}

void
rf_peer_lane_dropped(int peer)
{
	RfConnection *connection = rf_engine->by_peer[peer];

	if (connection == NULL || connection->lanes_dropping == 0 || --connection->lanes_dropping > 0)
		return;
	if (connection->phase == RF_PHASE_DROPPING)
		connection_finish(connection);
	else
		rf_prove_event(connection, RF_PATH_GONE, NULL);
}

/*
 * A peer whose connection is over need not have let go of our memory yet. That takes a moment, or
 * as long as somebody keeps it stopped: ask after pauses that grow, as long as there is something
 * to ask for.
 */
static int64_t settle_us = INT64_MAX;
static int64_t settle_pause_us;

static void
settle_again(int64_t now, int64_t pause)
{
	settle_pause_us = Min(pause, RF_SETTLE_MAX_US);
	settle_us = atomic_load(&rf_shared->segments_held) > 0 ? now + settle_pause_us : INT64_MAX;
}

/* No queue pair is left: give back memory and the peer entry. */
static void
connection_finish(RfConnection *connection)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];

	rf_flows_peer_gone(connection->peer);
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
	atomic_store(&peer->state, connection->crossed ? RF_PEER_FREE : RF_PEER_FAILED);
	rf_peers_wake(connection->peer);
	connection->dead = true;
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

/* ---------- time ---------- */

static int64_t
peer_timeout_us(void)
{
	return (int64_t) rf_peer_timeout * 1000;
}

static int64_t
ping_interval_us(void)
{
	return Min(peer_timeout_us() / 6, RF_PING_MAX_US);
}

void
rf_connections_timers(int64_t now)
{
	RfConnection *connection;

	if (now >= settle_us)
	{
		(void) rf_pool_settle(rf_engine->pool);
		rf_flows_retry();
		settle_again(now, settle_pause_us * 2);
	}
	for (connection = rf_engine->connections; connection; connection = connection->next)
	{
		RfError		error;

		if (connection->dead || connection->phase == RF_PHASE_DROPPING)
			continue;
		memset(&error, 0, sizeof(error));
		if (connection->phase == RF_PHASE_UP)
		{
			if (now - connection->heard_us >= peer_timeout_us())
			{
				rf_error(&error, RF_ERROR_CONNECTION, NULL, "rdma_fdw.peer_timeout is how long a silent engine is waited for.",
						 "it has not answered for %d ms", rf_peer_timeout);
				rf_connection_fail(connection, &error);
			}
			else if (now >= connection->ping_us)
			{
				uint64_t	stamp = now;

				connection->ping_us = now + ping_interval_us();
				rf_connection_send(connection, RF_CONTROL_PING, &stamp, sizeof(stamp));
			}
			continue;
		}
		if (connection->retry_us != 0 && now >= connection->retry_us)
		{
			RfPeer	   *peer = &rf_shared->peers[connection->peer];

			connection->retry_us = 0;
			if (rf_peer_find(&peer->node, false) != RF_NO_PEER)
			{
				/* As expected: its connection is there and ours is not needed. */
				connection->crossed = true;
				rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "the other node's connection is used");
				rf_connection_fail(connection, &error);
			}
			else
				start_initiator(connection);
			continue;
		}
		if (connection->phase == RF_PHASE_CONNECTING && connection->source.fd >= 0 &&
			now >= connection->attempt_us && now < connection->deadline_us)
		{
			rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "timeout");
			close_fd(connection);
			connection->address++;
			connect_next(connection, &error);
			continue;
		}
		if (now >= connection->deadline_us && !rf_prove_timeout(connection))
		{
			rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
					 connection->phase == RF_PHASE_CONNECTING ? "timeout" : "timeout in the handshake");
			rf_connection_fail(connection, &error);
		}
	}
}

int64_t
rf_connections_deadline(void)
{
	RfConnection *connection;
	int64_t		first = settle_us;

	for (connection = rf_engine->connections; connection; connection = connection->next)
	{
		int64_t		due = connection->deadline_us;

		if (connection->dead || connection->phase == RF_PHASE_DROPPING)
			continue;
		if (connection->phase == RF_PHASE_UP)
			due = Min(connection->ping_us, connection->heard_us + peer_timeout_us());
		else if (connection->retry_us != 0)
			due = Min(due, connection->retry_us);
		else if (connection->phase == RF_PHASE_CONNECTING)
			due = Min(due, connection->attempt_us);
		first = Min(first, due);
	}
	return first;
}
