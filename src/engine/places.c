/*
 * places.c - how many of the places for peers each role may have.
 *
 * A node gets its place by a token, which was issued to an SQL role there, or because a session
 * here asked for it. One role has at most its share (rdma_fdw.role_share), so that engines that a
 * role starts or names do not keep other nodes out. Connections that no stream uses give way, the
 * oldest first: the next query makes such a connection anew. Before all places are taken,
 * connections of the role with most give way.
 */
#include "postgres.h"

#include "engine_int.h"

#define RF_SPARE_PLACES		8	/* a place is free again only when the lanes have let go */

/* Returns true if anything here needs the connection. */
static bool
in_use(int index)
{
	if (atomic_load(&rf_shared->peers[index].waiters) > 0)
		return true;
	for (uint32_t i = 0; i < rf_shared->max_flows; i++)
	{
		if ((rf_engine->flows[i].phase != RF_OPEN_NONE && rf_engine->flows[i].peer == index) ||
			(rf_shared->flows[i].peer == index &&
			 atomic_load(&rf_shared->flows[i].state) != RF_FLOW_FREE))
			return true;
	}
	return false;
}

static uint32_t
count_places(uint32_t role)
{
	uint32_t	count = 0;

	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		const RfConnection *connection = rf_engine->by_peer[i];

		count += connection != NULL && connection->phase != RF_PHASE_DROPPING &&
			rf_shared->peers[i].role == role;
	}
	return count;
}

/*
 * The role's oldest connection that nothing needs ends. Returns false if it has no such connection.
 */
static bool
give_way(uint32_t role)
{
	RfConnection *oldest = NULL;
	RfError		error = {0};

	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		RfConnection *connection = rf_engine->by_peer[i];

		if (connection != NULL && rf_shared->peers[i].role == role &&
			(connection->phase == RF_PHASE_UP ||
			 (connection->phase == RF_PHASE_SETUP && connection->accepted)) &&
			(oldest == NULL || connection->started_us < oldest->started_us) && !in_use(i))
			oldest = connection;
	}
	if (oldest == NULL)
		return false;
	(void) rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
					"nothing used it, and a node of the same role takes its place");
	rf_connection_fail(oldest, &error);
	return true;
}

/* Keeps some places free by closing a connection of the role that has most. */
static void
keep_spare(void)
{
	uint32_t	taken = 0;
	uint32_t	most = 0;
	uint32_t	role = 0;

	for (int i = 0; i < RF_MAX_PEERS; i++)
		taken += rf_engine->by_peer[i] != NULL;
	if (taken < RF_MAX_PEERS - RF_SPARE_PLACES)
		return;
	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		uint32_t	count = rf_engine->by_peer[i] != NULL ?
			count_places(rf_shared->peers[i].role) :
			0;

		if (count > most)
		{
			most = count;
			role = rf_shared->peers[i].role;
		}
	}
	if (most > 0)
		(void) give_way(role);
}

bool
rf_places_make(uint32_t role, uint32_t limit)
{
	if (count_places(role) >= limit && !give_way(role))
		return false;
	keep_spare();
	return true;
}
