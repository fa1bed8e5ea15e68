/*
 * claims.c - see claims.h.
 */
#include <string.h>

#include "base/clock.h"
#include "claims.h"

/* ---------- peers ---------- */

/* An entry that is, or will be, the node's connection. */
static bool
is_coming(const RfShared *shared, const RfPeer *peer, const RfNodeId *node, bool accepted)
{
	uint32_t	state = atomic_load(&peer->state);

	return (state == RF_PEER_REQUESTED || state == RF_PEER_CONNECTING ||
			state == RF_PEER_CONNECTED) &&
		rf_same_node(&peer->node, node) &&
		(!rf_same_node(node, &shared->node) || (peer->accepted != 0) == accepted);
}

int
rf_claim_wait(RfShared *shared, const RfNodeId *node, bool accepted, uint32_t *attempt)
{
	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		RfPeer	   *peer = &shared->peers[i];

		if (!is_coming(shared, peer, node, accepted))
			continue;
		/* From here on nobody claims it, if its state is unchanged. */
		atomic_fetch_add(&peer->waiters, 1);
		if (is_coming(shared, peer, node, accepted))
		{
			*attempt = peer->attempt;
			return i;
		}
		atomic_fetch_sub(&peer->waiters, 1);
	}
	return RF_NO_PEER;
}

/* The best entry that may be claimed, and its state when it was read. */
static int
claimable(const RfShared *shared, const RfNodeId *node, bool accepted, uint32_t *seen)
{
	int			best = RF_NO_PEER;
	int			best_rank = 3;

	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		const RfPeer *peer = &shared->peers[i];
		uint32_t	state = atomic_load(&peer->state);
		int			rank;

		if ((state != RF_PEER_FREE && state != RF_PEER_FAILED) || atomic_load(&peer->waiters) > 0)
			continue;
		rank = rf_same_node(&peer->node, node) && (peer->accepted != 0) == accepted ? 0 :
			state == RF_PEER_FREE ? 1 : 2;
		if (rank < best_rank)
		{
			best = i;
			best_rank = rank;
			*seen = state;
		}
	}
	return best;
}

/*
 * A failed entry counts as free unless a process still has to read its error; one of the same node
 * is preferred, so that a node that comes and goes does not occupy several.
 */
bool
rf_claim_peer(RfShared *shared, const RfNodeId *node, bool accepted, int *index)
{
	uint32_t	seen;
	uint32_t	connections = 0;
	RfPeer	   *peer;

	do
	{
		*index = claimable(shared, node, accepted, &seen);
		if (*index == RF_NO_PEER)
			return true;
		peer = &shared->peers[*index];
	} while (!atomic_compare_exchange_strong(&peer->state, &seen, RF_PEER_CLAIMED));

	if (atomic_load(&peer->waiters) > 0)
	{
		atomic_store(&peer->state, seen);
		return false;
	}

	if (rf_same_node(&peer->node, node) && (peer->accepted != 0) == accepted)
		connections = peer->connections;
	peer->node = *node;
	peer->accepted = accepted;
	peer->host[0] = '\0';
	peer->port = 0;
	peer->role = 0;
	peer->role_limit = 0;
	memset(&peer->error, 0, sizeof(peer->error));
	memset(peer->token, 0, sizeof(peer->token));
	peer->transport[0] = '\0';
	peer->encryption[0] = '\0';
	atomic_store(&peer->fell_back, 0);
	peer->attempt++;
	peer->connections = connections;
	peer->since_us = 0;
	peer->handshake_us = 0;
	peer->round_trip_us = 0;
	atomic_store(&peer->usual_round_trip_us, 0);
	atomic_store(&peer->bandwidth, 0);
	atomic_store(&peer->bytes_sent, 0);
	atomic_store(&peer->bytes_received, 0);
	atomic_store(&peer->flows_opened, 0);
	atomic_store(&peer->segments, 0);
	return true;
}

/* ---------- tokens ---------- */

/* The oldest token of the role that has most; NULL: all entries are busy. */
static RfToken *
oldest_of_most(RfShared *shared, int64_t *seen)
{
	RfToken    *place = NULL;
	int			most = 0;

	for (int i = 0; i < RF_MAX_TOKENS; i++)
	{
		uint32_t	role = atomic_load(&shared->tokens[i].role);
		RfToken    *oldest = NULL;
		int64_t		its_end = 0;
		int			count = 0;

		for (int j = 0; j < RF_MAX_TOKENS; j++)
		{
			RfToken    *token = &shared->tokens[j];
			int64_t		end = atomic_load(&token->expires_us);

			if (end == RF_TOKEN_BUSY || atomic_load(&token->role) != role)
				continue;
			count++;
			if (oldest == NULL || end < its_end)
			{
				oldest = token;
				its_end = end;
			}
		}
		if (count > most)
		{
			most = count;
			place = oldest;
			*seen = its_end;
		}
	}
	return place;
}

/*
 * The entry for one more token of a role: its own oldest if it is at its limit; else a free one;
 * else the oldest of the role that has most. NULL: all entries are busy.
 */
static RfToken *
token_place(RfShared *shared, uint32_t role, uint32_t role_limit, int64_t *seen)
{
	int64_t		now = rf_now_us();
	RfToken    *unused = NULL;
	RfToken    *own = NULL;
	int64_t		unused_end = 0;
	int64_t		own_end = 0;
	uint32_t	own_count = 0;

	for (int i = 0; i < RF_MAX_TOKENS; i++)
	{
		RfToken    *token = &shared->tokens[i];
		int64_t		end = atomic_load(&token->expires_us);

		if (end == RF_TOKEN_BUSY)
			continue;
		if (end <= now)
		{
			unused = token;
			unused_end = end;
		}
		else if (atomic_load_explicit(&token->role, memory_order_relaxed) == role)
		{
			own_count++;
			if (own == NULL || end < own_end)
			{
				own = token;
				own_end = end;
			}
		}
	}
	if (own_count >= role_limit)
	{
		*seen = own_end;
		return own;
	}
	if (unused != NULL)
	{
		*seen = unused_end;
		return unused;
	}
	return oldest_of_most(shared, seen);
}

bool
rf_token_put(RfShared *shared, const uint8_t id[16], const uint8_t secret[RF_TOKEN_SIZE],
			 const RfNodeId *client, uint32_t role, uint32_t role_limit, int64_t lifetime_us)
{
	RfToken    *place;
	int64_t		seen;

	do
	{
		place = token_place(shared, role, role_limit, &seen);
		if (place == NULL)
			return false;
	} while (!atomic_compare_exchange_strong(&place->expires_us, &seen, RF_TOKEN_BUSY));

	memcpy(place->id, id, sizeof(place->id));
	memcpy(place->secret, secret, sizeof(place->secret));
	place->client = *client;
	place->role_limit = role_limit;
	atomic_store(&place->role, role);
	atomic_store(&place->expires_us, rf_now_us() + lifetime_us);
	return true;
}

bool
rf_token_issuer(RfShared *shared, const uint8_t id[16], uint32_t *role, uint32_t *role_limit)
{
	for (int i = 0; i < RF_MAX_TOKENS; i++)
	{
		RfToken    *token = &shared->tokens[i];
		int64_t		expires_us = atomic_load(&token->expires_us);
		bool		found;

		if (expires_us == RF_TOKEN_BUSY || expires_us == 0 ||
			!atomic_compare_exchange_strong(&token->expires_us, &expires_us, RF_TOKEN_BUSY))
			continue;
		found = memcmp(token->id, id, sizeof(token->id)) == 0;
		if (found)
		{
			*role = atomic_load(&token->role);
			*role_limit = token->role_limit;
		}
		atomic_store(&token->expires_us, expires_us);
		if (found)
			return true;
	}
	return false;
}

bool
rf_token_take(RfShared *shared, const uint8_t id[16], uint8_t secret[RF_TOKEN_SIZE],
			  RfNodeId *client, bool keep)
{
	int64_t		now = rf_now_us();
	bool		found = false;

	for (int i = 0; i < RF_MAX_TOKENS && !found; i++)
	{
		RfToken    *token = &shared->tokens[i];
		int64_t		expires_us = atomic_load(&token->expires_us);

		if (expires_us == RF_TOKEN_BUSY || expires_us <= now ||
			!atomic_compare_exchange_strong(&token->expires_us, &expires_us, RF_TOKEN_BUSY))
			continue;
		if (memcmp(token->id, id, sizeof(token->id)) == 0)
		{
			found = true;
			memcpy(secret, token->secret, RF_TOKEN_SIZE);
			*client = token->client;
			if (!keep)
			{
				explicit_bzero(token->secret, sizeof(token->secret));
				expires_us = 0;
			}
		}
		atomic_store(&token->expires_us, expires_us);
	}
	return found;
}
