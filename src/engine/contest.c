/*
 * contest.c - a connection comes from a node that has one already: which of the two stays.
 *
 * The newcomer has proved that it is the same engine (its key is the node's identity), so nobody
 * else can take a node's place. But an engine may have lost its old connection without our
 * noticing, when a link or a machine between is gone; or two connections of a node crossed each
 * other. A connection that works is never given up: it is asked for a sign of life, and the
 * newcomer waits. An answer, and the newcomer is refused. The end of the old one, or silence, and
 * the newcomer takes over.
 *
 * Does: choose, ask, refuse. Does not: admit; that is setup.c's.
 */
#include "postgres.h"

#include "engine_int.h"

/* A connection of ours that is younger than this may be crossing one of the peer's. */
#define RF_CROSSING_US		1000000

/* How long the old connection has for an answer. The newcomer's own engine waits longer. */
#define RF_SIGN_OF_LIFE_US	2000000

/*
 * Two nodes may connect to each other at the same moment: the connection begun by the node with the
 * smaller identity stays. True: refuse the one from there.
 */
bool
rf_contest_crosses(const RfNodeId *node)
{
	const RfNodeId *own = &rf_shared->node;
	bool		ours_first = own->words[0] != node->words[0] ?
		own->words[0] < node->words[0] : own->words[1] < node->words[1];
	int			i;

	if (rf_same_node(own, node))
		return false;
	for (i = 0; i < RF_MAX_PEERS; i++)
	{
		RfConnection *other = rf_engine->by_peer[i];

		if (other && !other->accepted && other->phase != RF_PHASE_DROPPING &&
			rf_same_node(&rf_shared->peers[i].node, node) && other->attempt.retry_us == 0 &&
			ours_first &&
			(other->phase != RF_PHASE_UP || rf_now_us() - other->deadline_us < RF_CROSSING_US))
			return true;
	}
	return false;
}

/* The node's connection, up or proven; of this node itself, the accepted one. */
static RfConnection *
holder(const RfNodeId *node)
{
	bool		self = rf_same_node(&rf_shared->node, node);

	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		RfConnection *other = rf_engine->by_peer[i];

		if (other != NULL && rf_same_node(&rf_shared->peers[i].node, node) &&
			(other->phase == RF_PHASE_UP || (other->phase == RF_PHASE_SETUP && other->accepted)) &&
			(!self || other->accepted))
			return other;
	}
	return NULL;
}

/* Attempts of ours to connect to the node are not needed any more. */
static void
give_up_attempts(const RfNodeId *node)
{
	RfError		error = {0};

	if (rf_same_node(&rf_shared->node, node))
		return;
	(void) rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
					"the other engine made a new connection");
	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		RfConnection *other = rf_engine->by_peer[i];

		if (other == NULL || other->accepted || other->phase == RF_PHASE_UP ||
			other->phase == RF_PHASE_DROPPING || !rf_same_node(&rf_shared->peers[i].node, node))
			continue;
		other->attempt.crossed = true;
		rf_connection_fail(other, &error);
	}
}

/* Its token is proven. True: it waits for the node's old connection, see rf_contest_goes_on(). */
bool
rf_contest_begin(RfConnection *newcomer)
{
	const RfNodeId *node = &newcomer->handshake.remote.node;
	RfConnection *old;
	uint64_t	stamp;

	give_up_attempts(node);
	old = holder(node);
	if (old == NULL)
		return false;
	newcomer->asked_us = rf_now_us();
	stamp = (uint64_t) newcomer->asked_us;
	rf_connection_send(old, RF_CONTROL_PING, &stamp, sizeof(stamp));
	return true;
}

/* The old connection answered a PING, so the waiting new one is refused. */
void
rf_contest_alive(const RfConnection *old, uint64_t stamp)
{
	for (RfConnection *one = rf_engine->connections; one; one = one->next)
	{
		if (one->asked_us == 0 || one->dead || (uint64_t) one->asked_us != stamp ||
			!rf_same_node(&one->handshake.remote.node, &rf_shared->peers[old->peer].node))
			continue;
		one->asked_us = 0;
		rf_connection_refuse(one, RF_ERROR_CONNECTION,
							 "there is a connection of the same engine, which works and is kept");
	}
}

/* When the old connection's time is over; INT64_MAX: this one does not wait for any. */
int64_t
rf_contest_deadline(const RfConnection *newcomer)
{
	return newcomer->asked_us == 0 ? INT64_MAX : newcomer->asked_us + RF_SIGN_OF_LIFE_US;
}

/* False: the old connection is over, or has said nothing, and the newcomer takes its place. */
bool
rf_contest_goes_on(RfConnection *newcomer, int64_t now)
{
	RfConnection *old = holder(&newcomer->handshake.remote.node);
	RfError		error = {0};

	if (old != NULL && now < rf_contest_deadline(newcomer))
		return true;
	newcomer->asked_us = 0;
	if (old != NULL)
	{
		(void) rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
						"it gave no sign of life, and the other engine made a new connection");
		rf_connection_fail(old, &error);
	}
	return false;
}
