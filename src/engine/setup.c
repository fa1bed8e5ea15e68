/*
 * setup.c - from the proof of a token to a connected set of queue pairs.
 *
 * The acceptor looks up the token, decides between several connections of one node (contest.c), and
 * sends WELCOME. Then both sides create one queue pair per lane, exchange their descriptions,
 * connect data sockets if the transport needs them, and prove to each other that data gets through
 * (prove.c). path.c determines the order. If the device fails and both ends have the software
 * transport, the connection begins again over that.
 *
 * The domain and the regions of a peer belong to its connection: keys that one peer learns are
 * useless over another peer's queue pairs.
 */
#include "postgres.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "miscadmin.h"

#include "rdma_fdw/guc.h"

#include "engine_int.h"

static void try_lane(RfConnection *connection, uint32_t lane);

static void
fail(RfConnection *connection, const RfError *error)
{
	rf_connection_fail(connection, error);
}

static void
protocol_error(RfConnection *connection, const char *what)
{
	RfError		error;

	memset(&error, 0, sizeof(error));
	rf_error(&error, RF_ERROR_PROTOCOL, NULL, NULL, "%s", what);
	fail(connection, &error);
}

/* Why the device is not used: path_error. */
static void
say_fallback(const RfConnection *connection)
{
	const RfError *error = &connection->path_error;

	ereport(WARNING,
			(errcode(rf_error_sqlstate(error->kind)),
			 errmsg("rdma_fdw engine: using TCP for %s: %s",
					rf_shared->peers[connection->peer].host, error->message),
			 error->detail[0] ? errdetail_internal("%s", error->detail) : 0,
			 error->hint[0] ? errhint("%s", error->hint) : 0));
}

static const char *
who_requires(const RfHandshake *hs)
{
	return hs->own.encryption == RF_ENCRYPTION_REQUIRE ? "this" : "the other";
}

/* The provider to use, from the offers and demands of both ends. */
static uint32_t
choose_offer(const RfHandshake *hs)
{
	uint32_t	both = hs->own.provider & hs->remote.provider;

	if (rf_handshake_encryption(hs) == RF_ENCRYPTION_REQUIRE)
		both &= RF_OFFER_SOFT;
	return both & RF_OFFER_VERBS ? RF_OFFER_VERBS : both;
}

/*
 * Creates domain and queue pairs, and sends our half of the exchange. False: the connection has
 * failed.
 */
static bool
make_queue_pairs(RfConnection *connection)
{
	const RfProvider *provider = rf_engine->provider;
	RfQpConfig	config = rf_engine->qp_config;
	RfError		error;
	uint32_t	i;

	connection->local_sockets = rf_provider != RF_PROVIDER_TCP &&
		memcmp(connection->handshake.remote.host, rf_engine->boot_id, sizeof(rf_engine->boot_id)) ==
		0 &&
		connection->handshake.remote.local_name[0] != '\0' &&
		rf_shared->engine_local_name[0] != '\0';
	memset(&error, 0, sizeof(error));
	connection->domain = connection->over_sockets && provider->domain_fallback != NULL ?
		provider->domain_fallback(rf_engine->device, &error) :
		provider->domain_create(rf_engine->device, &error);
	if (connection->domain == NULL || !rf_prove_begin(connection, &error))
	{
		fail(connection, &error);
		return false;
	}
	config.context = (void *) (intptr_t) connection->peer;
	for (i = 0; i < connection->lanes; i++)
	{
		RfConnectionLane *lane = &connection->by_lane[i];
		RfControlQp qp;

		lane->qp = provider->qp_create(connection->domain, rf_lane_cq(rf_engine->lanes[i]),
									   &config, &error);
		if (lane->qp == NULL)
		{
			fail(connection, &error);
			return false;
		}
		memset(&qp, 0, sizeof(qp));
		qp.lane = i;
		provider->qp_local(lane->qp, qp.blob);
		rf_connection_send(connection, RF_CONTROL_QP, &qp, sizeof(qp));
		if (connection->phase != RF_PHASE_SETUP)
			return false;
	}
	return true;
}

/*
 * Handshake done: chooses sockets or the device for the data path, and begins to set it up, under
 * TLS where the policy wants that.
 */
static void
begin_setup(RfConnection *connection, uint32_t lanes, uint32_t offer)
{
	const RfHandshake *hs = &connection->handshake;

	connection->phase = RF_PHASE_SETUP;
	connection->lanes = lanes;
	connection->over_sockets = offer == RF_OFFER_SOFT;
	if (connection->over_sockets && (hs->own.provider & hs->remote.provider & RF_OFFER_VERBS) != 0)
	{
		rf_error(&connection->path_error, RF_ERROR_CONFIGURATION, NULL,
				 "RDMA devices do not encrypt. If their network is protected by other means, list "
				 "it in rdma_fdw.trusted_networks on both nodes.",
				 "rdma_fdw.encryption = require on %s node", who_requires(hs));
		say_fallback(connection);
	}
	rf_path_init(&connection->path, !connection->accepted,
				 !connection->over_sockets &&
				 (hs->own.provider & hs->remote.provider & RF_OFFER_SOFT) != 0);
	if (rf_connection_begin_tls(connection))
		(void) make_queue_pairs(connection);
}

/* Admits the connection. connection->secret is its token's secret. */
static void
admit(RfConnection *connection)
{
	RfHandshake *hs = &connection->handshake;
	uint32_t	lanes = Min(hs->own.lanes, hs->remote.lanes);
	RfPeer	   *peer;
	int			index;

	if (!rf_places_make(connection->role, connection->role_limit))
	{
		rf_connection_refuse(connection, RF_ERROR_RESOURCES,
							 "its role has its share of the nodes connected here "
							 "(rdma_fdw.role_share)");
		return;
	}
	index = rf_peer_claim(&hs->remote.node, true);
	if (index == RF_NO_PEER)
	{
		rf_connection_refuse(connection, RF_ERROR_RESOURCES, "too many nodes are connected");
		return;
	}
	peer = &rf_shared->peers[index];
	rf_socket_address(connection->source.fd, peer->host, sizeof(peer->host));
	connection->peer = index;
	peer->role = connection->role;
	peer->role_limit = connection->role_limit;
	rf_engine->by_peer[index] = connection;
	connection->phase = RF_PHASE_SETUP;
	atomic_store(&peer->state, RF_PEER_CONNECTING);
	if (!pg_strong_random(connection->connection_id, sizeof(connection->connection_id)) ||
		!rf_handshake_welcome(hs, connection->secret, connection->connection_id, lanes,
							  choose_offer(hs)))
	{
		protocol_error(connection, "could not compute a proof");
		return;
	}
	begin_setup(connection, lanes, choose_offer(hs));
}

void
rf_setup_contest(RfConnection *connection, int64_t now)
{
	if (!rf_contest_goes_on(connection, now))
		admit(connection);
}

/* Acceptor: PROOF. */
void
rf_setup_proof(RfConnection *connection, const RfControlProof *proof)
{
	RfHandshake *hs = &connection->handshake;
	const RfNodeId *node = &hs->remote.node;
	uint8_t		secret[RF_TOKEN_SIZE];
	RfNodeId	client;

	if (!rf_token_take(rf_shared, proof->token_id, secret, &client, true) ||
		!rf_same_node(&client, node) || !rf_handshake_verify(hs, secret, proof))
	{
		/*
		 * Wrong, used or expired; the answer does not say which. An attempt with the right id and
		 * a wrong secret uses up the token.
		 */
		(void) rf_token_take(rf_shared, proof->token_id, secret, &client, false);
		explicit_bzero(secret, sizeof(secret));
		rf_connection_refuse(connection, RF_ERROR_AUTHENTICATION, "its token is not valid");
		return;
	}
	if (rf_engine->provider == NULL || choose_offer(hs) == 0)
	{
		char		message[160];

		if ((hs->own.provider & hs->remote.provider & RF_OFFER_VERBS) != 0)
			snprintf(message, sizeof(message),
					 "rdma_fdw.encryption = require on one of the two nodes, but rdma_fdw.provider "
					 "leaves only RDMA, which does not encrypt");
		else
			snprintf(
					 message, sizeof(message),
					 "the accepting node uses provider %s, the connecting node %s: set "
					 "rdma_fdw.provider alike on both",
					 rf_engine->provider == NULL ? "none (no usable device)" :
						 rf_offer_text(hs->own.provider),
					 rf_offer_text(hs->remote.provider));
		explicit_bzero(secret, sizeof(secret));
		rf_connection_refuse(connection, RF_ERROR_CONFIGURATION, message);
		return;
	}
	if (rf_contest_crosses(node))
	{
		explicit_bzero(secret, sizeof(secret));
		rf_connection_refuse(connection, RF_REFUSED_CROSSING,
							 "this node is connecting to the other one itself");
		return;
	}
	(void) rf_token_issuer(rf_shared, proof->token_id, &connection->role, &connection->role_limit);
	connection->role_limit = Max(connection->role_limit * RF_MAX_PEERS / RF_MAX_TOKENS, 1);
	(void) rf_token_take(rf_shared, proof->token_id, secret, &client, false);
	memcpy(connection->secret, secret, sizeof(secret));
	explicit_bzero(secret, sizeof(secret));
	rf_crowd_leave(connection);
	if (!rf_contest_begin(connection))
		admit(connection);
}

/* Initiator: WELCOME, whose proof and numbers have been checked. */
void
rf_setup_welcome(RfConnection *connection, const RfControlWelcome *welcome)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];

	if (!rf_same_node(&connection->handshake.remote.node, &peer->node))
	{
		protocol_error(connection, "another node answers at its address");
		return;
	}
	memcpy(connection->secret, peer->token, sizeof(connection->secret));
	explicit_bzero(peer->token, sizeof(peer->token));
	memcpy(connection->connection_id, welcome->connection_id, sizeof(connection->connection_id));
	begin_setup(connection, welcome->lanes, welcome->provider);
}

void
rf_setup_qp(RfConnection *connection, const RfControlQp *qp)
{
	if (rf_path_void(&connection->path))
		return;
	if (qp->lane >= connection->lanes || connection->by_lane[qp->lane].have_blob)
	{
		protocol_error(connection, "it described a queue pair that is not expected");
		return;
	}
	connection->by_lane[qp->lane].have_blob = true;
	memcpy(connection->by_lane[qp->lane].blob, qp->blob, RF_QP_BLOB_SIZE);
	try_lane(connection, qp->lane);
}

/* Returns true if a lane's socket uses TLS. Not if shared memory is passed over it. */
static bool
lane_encrypted(const RfConnection *connection, int socket)
{
	struct sockaddr_storage address = {0};
	socklen_t	length = sizeof(address);

	return connection->tls != NULL && socket >= 0 &&
		(getsockname(socket, (struct sockaddr *) &address, &length) != 0 ||
		 address.ss_family != AF_UNIX);
}

/*
 * The peer's description of the queue pair came under TLS, so TLS is established and exports a key.
 */
static bool
lane_key(const RfConnection *connection, uint32_t lane, RfTlsKey *key)
{
	uint8_t		context[sizeof(connection->connection_id) + sizeof(lane)];

	memcpy(context, connection->connection_id, sizeof(connection->connection_id));
	memcpy(context + sizeof(connection->connection_id), &lane, sizeof(lane));
	key->client = !connection->accepted;
	key->rekey_after = RF_REKEY_AFTER;
	return rf_tls_export(connection->tls, context, sizeof(context), key->secret);
}

/*
 * Connects one lane's queue pair over its socket, or without a socket, to the peer's. When all are
 * connected they go to the lanes, which prove the path.
 */
static void
connect_lane(RfConnection *connection, uint32_t lane, int socket)
{
	RfConnectionLane *setup = &connection->by_lane[lane];
	bool		encrypted = lane_encrypted(connection, socket);
	RfTlsKey	key;
	bool		good;
	RfError		error;
	uint32_t	i;

	memset(&error, 0, sizeof(error));
	setup->connected = true;
	if (encrypted && !lane_key(connection, lane, &key))
	{
		close(socket);
		protocol_error(connection, "could not compute the key of a data connection");
		return;
	}
	good = rf_engine->provider->qp_connect(setup->qp, setup->blob, socket,
										   encrypted ? &key : NULL, &error);
	explicit_bzero(&key, sizeof(key));
	if (!good)
	{
		/* A peer that describes its queue pair wrongly does not get a second chance. */
		if (error.kind == RF_ERROR_PROTOCOL)
			fail(connection, &error);
		else
			rf_setup_event(connection, RF_PATH_DEAD, &error);
		return;
	}
	for (i = 0; i < connection->lanes; i++)
	{
		if (!connection->by_lane[i].connected)
			return;
	}
	for (i = 0; i < connection->lanes; i++)
		rf_lane_add_connection(rf_engine->lanes[i], connection->peer, connection->by_lane[i].qp,
							   &connection->by_lane[i].proof);
	connection->with_lanes = true;
	rf_setup_event(connection, RF_PATH_CONNECTED, NULL);
}

/* ---------- data sockets ---------- */

/* Initiator: opens the socket of one lane, locally when both engines are on one host. */
static void
open_socket(RfConnection *connection, uint32_t lane)
{
	RfDataSocket *socket = &connection->by_lane[lane].socket;
	RfError		error;

	memset(&error, 0, sizeof(error));
	rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "could not open a data connection");
	socket->attach_sent = false;
	socket->in_done = 0;
	socket->local = connection->local_sockets;
	if (socket->local)
	{
		socket->source.fd = rf_start_connect_local(connection->handshake.remote.local_name);

		/*
		 * Same kernel, but another user's engine, or another network namespace, as in a container.
		 */
		if (socket->source.fd < 0)
			connection->local_sockets = socket->local = false;
	}
	if (!socket->local)
		socket->source.fd = rf_start_connect_like(connection->source.fd, &error);
	if (socket->source.fd < 0 || !rf_watch(&socket->source, EPOLLOUT))
		fail(connection, &error);
}

/*
 * Goes on with one lane of a connection that is being set up, if its queue pair and the peer's
 * description are there: connects it, opens its socket, or answers the peer's.
 */
static void
try_lane(RfConnection *connection, uint32_t lane)
{
	RfConnectionLane *setup = &connection->by_lane[lane];

	if (connection->phase != RF_PHASE_SETUP || !setup->have_blob || setup->connected ||
		setup->qp == NULL)
		return;
	if (!connection->over_sockets)
		connect_lane(connection, lane, -1);
	else if (!connection->accepted)
	{
		if (setup->socket.source.fd < 0)
			open_socket(connection, lane);
	}
	else if (setup->waiting_socket >= 0)
	{
		int			fd = setup->waiting_socket;
		uint8_t		out[sizeof(RfControlHeader) + sizeof(RfControlAttached)];
		RfControlAttached attached;
		uint32_t	length;

		rf_attached_fill(&attached, connection->secret, connection->connection_id, lane);
		length = rf_control_frame(out, RF_CONTROL_ATTACHED, &attached, sizeof(attached));
		setup->waiting_socket = -1;
		if (send(fd, out, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t) length)
		{
			close(fd);
			protocol_error(connection, "a data connection broke while it was set up");
			return;
		}
		connect_lane(connection, lane, fd);
	}
}

/*
 * Acceptor: a connection claims to be the data socket of one of our lanes. `attaching` gives up its
 * socket, or is refused.
 */
void
rf_setup_attach(RfConnection *attaching, const RfControlAttach *attach)
{
	RfConnection *connection;
	RfConnectionLane *lane;
	int			fd;

	for (connection = rf_engine->connections; connection; connection = connection->next)
	{
		if (connection->accepted && !connection->dead && connection->phase == RF_PHASE_SETUP &&
			memcmp(connection->connection_id, attach->connection_id,
				   sizeof(attach->connection_id)) == 0)
			break;
	}
	lane = connection != NULL && connection->over_sockets && attach->lane < connection->lanes ?
		&connection->by_lane[attach->lane] : NULL;
	if (lane == NULL || lane->connected || lane->waiting_socket >= 0 ||
		!rf_attach_verify(attach, connection->secret))
	{
		rf_connection_refuse(attaching, RF_ERROR_AUTHENTICATION,
							 "it names no connection that waits for it");
		return;
	}

	{
		struct sockaddr_storage address;
		socklen_t	length = sizeof(address);

		if (getsockname(attaching->source.fd, (struct sockaddr *) &address, &length) == 0 &&
			address.ss_family != AF_UNIX)
			connection->local_sockets = false;
	}
	rf_unwatch(&attaching->source);
	fd = attaching->source.fd;
	attaching->source.fd = -1;
	attaching->dead = true;
	rf_crowd_leave(attaching);
	lane->waiting_socket = fd;
	try_lane(connection, attach->lane);
}

/* Initiator: the socket is connected, or the answer to ATTACH is there. */
void
rf_setup_socket_event(RfDataSocket *socket, uint32_t events)
{
	RfConnection *connection = socket->connection;
	RfControlAttached attached;
	RfError		error;
	ssize_t		got;

	if (connection->dead || connection->phase != RF_PHASE_SETUP || socket->source.fd < 0)
		return;
	memset(&error, 0, sizeof(error));
	if (!socket->attach_sent)
	{
		uint8_t		out[sizeof(RfControlHeader) + sizeof(RfControlAttach)];
		RfControlAttach attach;
		uint32_t	length;
		int			problem = 0;
		socklen_t	size = sizeof(problem);

		if (getsockopt(socket->source.fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0)
			problem = errno;
		rf_attach_fill(&attach, connection->secret, connection->connection_id, socket->lane);
		length = rf_control_frame(out, RF_CONTROL_ATTACH, &attach, sizeof(attach));
		if (problem == 0 &&
			send(socket->source.fd, out, length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t) length &&
			rf_watch(&socket->source, EPOLLIN))
		{
			socket->attach_sent = true;
			return;
		}
		rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "could not open a data connection: %s",
				 strerror(problem ? problem : errno));
		fail(connection, &error);
		return;
	}

	/* Read exactly the answer: the next bytes belong to the queue pair. */
	got = recv(socket->source.fd, socket->in + socket->in_done,
			   sizeof(socket->in) - socket->in_done, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	if (got <= 0)
	{
		rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
				 "a data connection was closed while it was set up");
		fail(connection, &error);
		return;
	}
	socket->in_done += got;
	if (socket->in_done < sizeof(socket->in))
		return;
	memcpy(&attached, socket->in + sizeof(RfControlHeader), sizeof(attached));
	if (!rf_control_is(socket->in, RF_CONTROL_ATTACHED, sizeof(attached)))
	{
		protocol_error(connection, "a data connection was refused");
		return;
	}
	if (!rf_attached_verify(&attached, connection->secret, connection->connection_id, socket->lane))
	{
		rf_error(&error, RF_ERROR_AUTHENTICATION, NULL, NULL,
				 "a data connection leads to somebody else");
		fail(connection, &error);
		return;
	}
	rf_unwatch(&socket->source);
	{
		int			fd = socket->source.fd;

		socket->source.fd = -1;
		connect_lane(connection, socket->lane, fd);
	}
}

/* ---------- the data path, step by step ---------- */

/* Both ends know that data gets through: the queue pairs are usable. */
static void
set_up(RfConnection *connection)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];
	int64_t		now = rf_now_us();

	explicit_bzero(connection->secret, sizeof(connection->secret));
	rf_handshake_up(&connection->handshake);
	strlcpy(peer->transport, !connection->over_sockets ? rf_engine->provider->name :
			connection->local_sockets ? "shm" : "tcp", sizeof(peer->transport));
	strlcpy(peer->encryption,
			strcmp(peer->transport, "shm") == 0 ? "" :
			connection->over_sockets && connection->tls != NULL ? RF_TLS_TEXT :
			rf_socket_trusted(connection->source.fd) ? "trusted network" :
			"none",
			sizeof(peer->encryption));
	peer->error = connection->path_error;
	atomic_store(&peer->fell_back, connection->path_error.kind != RF_ERROR_NONE);
	peer->connections++;
	peer->since_us = rf_wall_us();
	peer->handshake_us = now - connection->started_us;
	connection->phase = RF_PHASE_UP;
	connection->was_up = true;
	connection->deadline_us = now;	/* from here on: when it was established */
	connection->heard_us = now;
	connection->ping_us = now;	/* the first PING measures the round trip */
	atomic_fetch_add(&rf_shared->counters.handshakes, 1);
	atomic_store(&peer->state, RF_PEER_CONNECTED);
	rf_peers_wake(connection->peer);
	ereport(DEBUG1,
			(errmsg_internal("rdma_fdw engine: connected with %s over %s, %u lanes",
							 peer->host, peer->transport, connection->lanes)));
}

/* The device's queue pairs are gone: begin again over the software transport. */
static void
begin_again(RfConnection *connection)
{
	rf_prove_release(connection);
	rf_engine->provider->domain_destroy(connection->domain);
	connection->domain = NULL;
	connection->over_sockets = true;
	if (!make_queue_pairs(connection))
		return;
	for (uint32_t i = 0; i < connection->lanes; i++)
		try_lane(connection, i);
}

static void
let_go(RfConnection *connection, const RfError *error)
{
	/* Only RF_PATH_BROKEN and RF_PATH_DEAD lead here, and both set it. */
	Assert(error != NULL);
	connection->path_error = *error;
	for (uint32_t i = 0; i < connection->lanes; i++)
		connection->by_lane[i].have_blob = connection->by_lane[i].connected = false;
	say_fallback(connection);
	if (!rf_connection_drop_lanes(connection, error))
		rf_setup_event(connection, RF_PATH_GONE, NULL);
}

/* Sending may end the connection if the peer does not read. */
void
rf_setup_event(RfConnection *connection, RfPathEvent event, const RfError *error)
{
	RfControlLinked linked;
	uint32_t	actions;

	if (connection->dead || connection->phase != RF_PHASE_SETUP)
		return;
	actions = rf_path_event(&connection->path, event);
	if (actions & RF_PATH_WAIT)
		connection->deadline_us = rf_now_us() + (int64_t) rf_connect_timeout * 1000 *
			connection->path.tenths / 10;
	if (actions & RF_PATH_SEND_LINKED)
	{
		rf_prove_ask(connection, &linked);
		rf_connection_send(connection, RF_CONTROL_LINKED, &linked, sizeof(linked));
	}
	if ((actions & RF_PATH_PROVE) && connection->phase == RF_PHASE_SETUP)
	{
		for (uint32_t i = 0; i < connection->lanes; i++)
			rf_lane_prove(rf_engine->lanes[i], connection->peer);
	}
	if (actions & RF_PATH_UP)
		set_up(connection);
	if (actions & RF_PATH_SEND_READY)
		rf_connection_send(connection, RF_CONTROL_READY, NULL, 0);
	if (actions & RF_PATH_SEND_BROKEN)
		rf_connection_send(connection, RF_CONTROL_BROKEN, NULL, 0);
	if ((actions & RF_PATH_LET_GO) && connection->phase == RF_PHASE_SETUP)
		let_go(connection, error);
	if (actions & RF_PATH_AGAIN)
		begin_again(connection);
	if (actions & RF_PATH_FAIL)
		rf_connection_fail(connection, error);
	if (actions & RF_PATH_WRONG)
		protocol_error(connection, "it sent a message of the connection's set-up out of turn");
}

void
rf_setup_linked(RfConnection *connection, const RfControlLinked *linked)
{
	if (!rf_path_void(&connection->path) && !connection->path.linked &&
		connection->proof_region != NULL)
		rf_prove_asked(connection, linked);
	rf_setup_event(connection, RF_PATH_LINKED, NULL);
}

void
rf_setup_lane_proven(RfConnection *connection)
{
	if (connection->path.state != RF_PATH_SETTING_UP)
		return;
	if (++connection->lanes_proven < connection->lanes)
		return;
	rf_setup_event(connection, RF_PATH_PROVEN, NULL);
}

void
rf_setup_broken(RfConnection *connection)
{
	RfError		error;

	memset(&error, 0, sizeof(error));
	(void) rf_error(&error, RF_ERROR_CONNECTION, "The other engine says so.",
					rf_prove_hint(connection),
					connection->phase == RF_PHASE_UP ? "the data connection broke" :
					"data does not get through");
	if (connection->phase == RF_PHASE_UP)
		rf_connection_fail(connection, &error);
	else
		rf_setup_event(connection, RF_PATH_BROKEN, &error);
}

bool
rf_setup_timeout(RfConnection *connection)
{
	RfError		error;

	if (connection->phase != RF_PHASE_SETUP || !rf_path_unproven(&connection->path))
		return false;
	memset(&error, 0, sizeof(error));
	(void) rf_error(&error, RF_ERROR_CONNECTION,
					"The engines reach each other, but not all that is written over the data "
					"connection arrives.",
					rf_prove_hint(connection), "data does not get through");
	rf_setup_event(connection, RF_PATH_DEAD, &error);
	return true;
}
