/*
 * control_events.c - events of control connections: backends' requests for a peer, connecting,
 * messages, deadlines, pings, loss of the data path.
 *
 * setup.c handles the messages between proof and CONNECTED, open.c those about flows;
 * control_connection.c has the end of a connection.
 */
#include "postgres.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma_fdw/guc.h"

#include "engine_int.h"

#define RF_PING_MAX_US			5000000
#define RF_FIRST_ROUND_TRIPS	4
#define RF_CROSSING_RETRY_US	300000
#define RF_CROSSING_RETRIES		6
#define RF_STEPS_AT_ONCE		512
#define RF_BYE_LIMIT_US			200000

/* ---------- bytes ---------- */

/*
 * The shortest of the last round trips counts: most delays come from an engine that is busy or not
 * scheduled, not from the network. Planners use the number. So it is not set before
 * RF_FIRST_ROUND_TRIPS are known, which are measured without a pause, and it does not change while
 * the network changes by less than a quarter.
 */
static void
note_round_trip(RfConnection *connection, RfPeer *peer)
{
	uint32_t	usual = atomic_load(&peer->usual_round_trip_us);
	uint32_t	shortest = Max(peer->round_trip_us, 1);

	connection->round_trips[connection->round_trip_count++ % RF_ROUND_TRIPS] = shortest;
	if (connection->round_trip_count < RF_FIRST_ROUND_TRIPS)
	{
		connection->ping_us = rf_now_us();
		return;
	}
	for (uint32_t i = 0; i < Min(connection->round_trip_count, RF_ROUND_TRIPS); i++)
		shortest = Min(shortest, connection->round_trips[i]);
	if (usual == 0 || shortest > usual + usual / 4 || shortest < usual - usual / 4)
		atomic_store(&peer->usual_round_trip_us, shortest);
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
			rf_setup_linked(connection, &message->u.linked);
			break;
		case RF_CONTROL_READY:
			rf_setup_event(connection, RF_PATH_READY, NULL);
			break;
		case RF_CONTROL_BROKEN:
			rf_setup_broken(connection);
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
				 * The peer returns the time stamp, perhaps changed: unsigned, so a wrong one only
				 * gives a wrong number.
				 */
				if (connection->peer != RF_NO_PEER)
				{
					RfPeer	   *peer = &rf_shared->peers[connection->peer];

					peer->round_trip_us = Min(elapsed, INT_MAX);
					note_round_trip(connection, peer);
					rf_contest_alive(connection, message->u.stamp);
				}
				break;
			}
		case RF_CONTROL_BYE:
			{
				RfError		error;

				memset(&error, 0, sizeof(error));
				rf_error(
						 &error, RF_ERROR_CONNECTION, NULL,
						 "Repeat the query; the engine starts again by itself unless its server "
						 "was shut down.",
						 "the other engine was stopped");
				rf_connection_fail(connection, &error);
				break;
			}
		default:
			break;
	}
}

/*
 * Reads and processes arriving messages of a control connection until the socket is empty, the
 * connection ends or it has had its turn.
 */
static void
read_in(RfConnection *connection)
{
	RfHandshake *hs = &connection->handshake;
	RfError		error;
	int			steps = 0;

	/*
	 * Stop after some messages: a peer that sends without a pause must not keep the other peers
	 * waiting. Bytes left in the socket wake us again; bytes in memory have their turn in the next
	 * round.
	 */
	memset(&error, 0, sizeof(error));
	while (!connection->dead && connection->source.fd >= 0 && steps++ < RF_STEPS_AT_ONCE)
	{
		uint8_t    *place;
		uint32_t	room = rf_handshake_room(hs, &place);
		RfControlMessage message;

		if (room > 0)
		{
			ssize_t		got = rf_connection_receive(connection, place, room);

			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
				break;
			if (got <= 0)
			{
				rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "%s",
						 got == 0 ? "the other side closed the connection" :
						 rf_connection_reason(connection, errno));
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
				if (connection->in_crowd && hs->state == RF_HS_WAIT_PROOF)
					rf_crowd_hello(connection);
				break;
			case RF_STEP_MESSAGE:
				handle_message(connection, &message);
				break;
			case RF_STEP_FAILED:
				if (hs->out_used > 0 && connection->tls == NULL)
					(void) send(connection->source.fd, hs->out, hs->out_used,
								MSG_NOSIGNAL | MSG_DONTWAIT);
				if (hs->crossing && connection->attempt.retries < RF_CROSSING_RETRIES)
				{
					/*
					 * The token is still valid. Normally the other side's connection arrives
					 * before we try again.
					 */
					connection->attempt.retries++;
					connection->attempt.retry_us = rf_now_us() + RF_CROSSING_RETRY_US;
					rf_connection_close_socket(connection);
					return;
				}
				rf_connection_fail(connection, &error);
				return;
		}
	}
	if (connection->tls != NULL)
		connection->unread = rf_tls_unread(connection->tls);
	if (!connection->dead && connection->source.fd >= 0 &&
		(hs->out_used > 0 || (connection->tls != NULL && rf_tls_unsent(connection->tls))))
		rf_connection_flush(connection);
}

/* ---------- the initiator's beginning ---------- */

/* Tries the peer's addresses in order, beginning with connection->attempt.address. */
static void
connect_next(RfConnection *connection, RfError *error)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];

	for (;;)
	{
		char		address[64];
		const char *from = peer->addresses;
		int			i;

		for (i = 0; i < connection->attempt.address && from; i++)
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
			/* An address that does not answer must leave time for the next addresses. */
			int64_t		now = rf_now_us();
			int			left = 1;

			for (from = strchr(from, ','); from; from = strchr(from + 1, ','))
				left++;
			connection->attempt.until_us = now + (connection->deadline_us - now) / left;
			return;
		}
		rf_connection_close_socket(connection);
		connection->attempt.address++;
	}
}

static void
start_initiator(RfConnection *connection)
{
	RfError		error;

	connection->phase = RF_PHASE_CONNECTING;
	connection->attempt.address = 0;
	memset(&error, 0, sizeof(error));
	rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "it has no address");
	connect_next(connection, &error);
}

/*
 * The socket of an outgoing connection is ready or has failed: begins the handshake, or tries the
 * next address.
 */
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
		rf_connection_close_socket(connection);
		connection->attempt.address++;
		connect_next(connection, &error);
		return;
	}
	connection->phase = RF_PHASE_HANDSHAKE;
	connection->deadline_us = rf_now_us() + rf_handshake_limit_us();
	rf_own_hello(&hello, connection->source.fd);
	memcpy(hello.nonce, peer->token_id, RF_TOKEN_ID_SIZE);
	rf_handshake_free(&connection->handshake);
	rf_handshake_initiator(&connection->handshake, &hello, peer->token_id, peer->token);
	rf_connection_flush(connection);
}

/*
 * Returns true if there is another connection with that node, established or being established. A
 * node that connects to itself has one in each direction; then only a connection that begins here
 * counts.
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
			/* The node was faster; backends that wait here will find its connection. */
			explicit_bzero(peer->token, sizeof(peer->token));
			atomic_store(&peer->state, RF_PEER_FREE);
			rf_peers_wake(i);
			continue;
		}
		atomic_store(&peer->state, RF_PEER_CONNECTING);
		if (!rf_places_make(peer->role, peer->role_limit))
		{
			rf_error(&peer->error, RF_ERROR_RESOURCES, NULL,
					 "Raise rdma_fdw.role_share for this role.",
					 "the role has as many nodes connected as one role may have");
			atomic_store(&peer->state, RF_PEER_FAILED);
			rf_peers_wake(i);
			continue;
		}
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
		rf_connection_flush(connection);
	if (!connection->dead && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		read_in(connection);
}

/* ---------- the end ---------- */

/*
 * A lane lost the data connection. If the other engine gave a reason before it went, that is the
 * better one, so look for it; if not, tell the other engine ours.
 */
void
rf_connection_lost(RfConnection *connection, const RfError *error)
{
	RfError		known = *error;

	if (connection->phase == RF_PHASE_SETUP)
	{
		rf_setup_event(connection, RF_PATH_DEAD, error);
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
 * This engine shuts down: announce it, and give the peers a moment to read that before the data
 * connections break, so that their queries fail with this reason. They close their side once they
 * have read it; a peer that hangs is not waited for long.
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
		if (connection->source.fd >= 0 &&
			memcmp(&rf_shared->peers[i].node, &rf_shared->node, sizeof(RfNodeId)) != 0)
			waiting[count++] = (struct pollfd) {.fd = connection->source.fd, .events = POLLIN};
	}
	while (count > 0 && (now = rf_now_us()) < until)
	{
		if (poll(waiting, count, (until - now) / 1000 + 1) < 0 && errno != EINTR)
			return;
		for (i = count - 1; i >= 0; i--)
		{
			char		ignored[4096];
			ssize_t		got = waiting[i].revents == 0 ?
				1 :
				recv(waiting[i].fd, ignored, sizeof(ignored), MSG_DONTWAIT);

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
		rf_connection_finish(connection);
	else
		rf_setup_event(connection, RF_PATH_GONE, NULL);
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

	if (rf_connections_settle(now))
		rf_flows_retry();
	for (connection = rf_engine->connections; connection; connection = connection->next)
	{
		RfError		error;

		if (connection->unread)
			read_in(connection);
		if (connection->dead || connection->phase == RF_PHASE_DROPPING)
			continue;
		if (connection->asked_us != 0)
		{
			rf_setup_contest(connection, now);
			continue;
		}
		memset(&error, 0, sizeof(error));
		if (connection->phase == RF_PHASE_UP)
		{
			if (now - connection->heard_us >= peer_timeout_us())
			{
				rf_error(&error, RF_ERROR_CONNECTION, NULL,
						 "rdma_fdw.peer_timeout is how long a silent engine is waited for.",
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
		if (connection->attempt.retry_us != 0 && now >= connection->attempt.retry_us)
		{
			RfPeer	   *peer = &rf_shared->peers[connection->peer];

			connection->attempt.retry_us = 0;
			if (rf_peer_find(&peer->node, false) != RF_NO_PEER)
			{
				/* As expected: its connection exists and ours is not needed. */
				connection->attempt.crossed = true;
				rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
						 "the other node's connection is used");
				rf_connection_fail(connection, &error);
			}
			else
				start_initiator(connection);
			continue;
		}
		if (connection->phase == RF_PHASE_CONNECTING && connection->source.fd >= 0 &&
			now >= connection->attempt.until_us && now < connection->deadline_us)
		{
			rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "timeout");
			rf_connection_close_socket(connection);
			connection->attempt.address++;
			connect_next(connection, &error);
			continue;
		}
		if (now >= connection->deadline_us && !rf_setup_timeout(connection))
		{
			rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
					 connection->phase == RF_PHASE_CONNECTING ? "timeout" :
					 "timeout in the handshake");
			rf_connection_fail(connection, &error);
		}
	}
}

int64_t
rf_connections_deadline(void)
{
	RfConnection *connection;
	int64_t		first = rf_connections_settle_due();

	for (connection = rf_engine->connections; connection; connection = connection->next)
	{
		int64_t		due = Min(connection->deadline_us, rf_contest_deadline(connection));

		if (connection->dead || connection->phase == RF_PHASE_DROPPING)
			continue;
		if (connection->unread)
			return 0;
		if (connection->phase == RF_PHASE_UP)
			due = Min(connection->ping_us, connection->heard_us + peer_timeout_us());
		else if (connection->attempt.retry_us != 0)
			due = Min(due, connection->attempt.retry_us);
		else if (connection->phase == RF_PHASE_CONNECTING)
			due = Min(due, connection->attempt.until_us);
		first = Min(first, due);
	}
	return first;
}
