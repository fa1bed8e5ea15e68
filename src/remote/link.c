/*
 * link.c - the speed of the network between this node and a data node, measured by pulls, for the
 * planner.
 *
 * A pull is as fast as the slowest of the data node's query, the network and the reader. The
 * network was the slowest if both ends waited most of the time: the sender for returned buffers,
 * the reader for arriving ones. Then bytes per second of the pull are the network's; otherwise the
 * pull only shows that the network is not slower, and is counted only if it was faster than the
 * current estimate.
 *
 * Kept per peer in shared memory, since all backends share the engine's connection.
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "port/pg_bitutils.h"

#include "rdma_fdw/compat.h"
#include "shmem/peer_table.h"
#include "session.h"

/* Less is over before it tells anything. */
#define LINK_MIN_BYTES		(1024 * 1024)
/* The weight of a new measurement. */
#define LINK_WEIGHT			8

static uint64
waited(RfStream *stream)
{
	return atomic_load_explicit(&rf_flow_entry(stream->flow)->stats.wait_us, memory_order_relaxed);
}

/* The first buffer came: the time before it was the data node's planning. */
void
rf_link_begin(RfStream *stream)
{
	INSTR_TIME_SET_CURRENT(stream->first_time);
	stream->first_wait_us = waited(stream);
}

/* All came, and the answer as well. The flow is still there. */
void
rf_link_observe(RfStream *stream)
{
	const RfFlow *flow = rf_flow_entry(stream->flow);
	uint64		bytes = stream->reply.bytes;
	instr_time	now;
	uint64		elapsed;
	uint64		both;
	uint64		rate;
	uint64		known;
	RfPeer	   *peer;

	if (bytes < LINK_MIN_BYTES || stream->reader != NULL ||
		INSTR_TIME_IS_ZERO(stream->first_time) || flow->peer < 0 || flow->peer >= RF_MAX_PEERS)
		return;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, stream->first_time);
	elapsed = Max(INSTR_TIME_GET_MICROSEC(now), 1);
	both = waited(stream) - stream->first_wait_us + stream->reply.wait_us;
	rate = Max(bytes * 1000000 / elapsed, 1);
	peer = &rf_shared->peers[flow->peer];
	known = atomic_load(&peer->bandwidth);
	if (both > elapsed + elapsed / 2)
	{
		if (known == 0)
			known = rate;
		else
			known = (known * (LINK_WEIGHT - 1) + rate) / LINK_WEIGHT;
	}
	else if (known == 0 || rate <= known)
		return;
	else
		known = rate;
	atomic_store(&peer->bandwidth, Max(known, 1));
}

/* ---------- for the planner ---------- */

static const char *
host_option(ForeignServer *server)
{
	ListCell   *lc;

	foreach(lc, server->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "host") == 0 || strcmp(def->defname, "hostaddr") == 0)
			return defGetString(def);
	}
	return "";
}

/*
 * The peer of a server: by the session that this backend has with it; before it has one, by the
 * host, if only one peer is there.
 */
static int
find_peer(ForeignServer *server)
{
	const char *host;
	int			found = RF_NO_PEER;

	rf_foreach_session(session)
	{
		if (found == RF_NO_PEER && session->serverid == server->serverid &&
			session->engines.hello_valid)
			found = rf_peer_find(&session->engines.hello.node, false);
	}
	if (found != RF_NO_PEER)
		return found;

	host = host_option(server);
	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		RfPeer	   *peer = &rf_shared->peers[i];

		if (atomic_load(&peer->state) != RF_PEER_CONNECTED || peer->accepted ||
			strncmp(peer->host, host, sizeof(peer->host)) != 0)
			continue;
		if (found != RF_NO_PEER)
			return RF_NO_PEER;
		found = i;
	}
	return found;
}

/*
 * Pulls differ a little from each other: round to a power of two, so that plans do not change with
 * each pull.
 */
static uint64
stepped(uint64 bandwidth)
{
	return bandwidth == 0 || bandwidth > UINT64_C(1) << 62 ? bandwidth :
		pg_nextpower2_64(bandwidth);
}

void
rf_server_link(ForeignServer *server, RfLink *link)
{
	int			peer = rf_shared != NULL ? find_peer(server) : RF_NO_PEER;

	link->round_trip_us = 0;
	link->bandwidth = 0;
	if (peer == RF_NO_PEER)
		return;
	link->round_trip_us = atomic_load(&rf_shared->peers[peer].usual_round_trip_us);
	link->bandwidth = stepped(atomic_load(&rf_shared->peers[peer].bandwidth));
}
