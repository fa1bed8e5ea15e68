/*
 * crowd.c - the crowd: accepted connections that have not identified themselves yet, and which of
 * them are closed to make room for new ones.
 *
 * Anybody can connect, as often and as fast as the network allows. So the crowd has a limit, and
 * when it is reached, the oldest connection of the address that has the most is closed: a flood
 * from one address displaces only itself. Nor can it displace an engine at the same address, for
 * example behind the same router or on the same host: an engine's first message names a token that
 * this node has issued, which takes its connection out of the crowd even before the proof. A token
 * does that for one connection, and only roles that were given access get tokens. A socket is
 * accepted when its first bytes have arrived (listener.c), and these are read at once. So an engine
 * spends no time in the crowd, however large the flood.
 */
#include "postgres.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/hashfn.h"

#include "engine_int.h"
#include "shmem/claims.h"

#define RF_CROWD_MAX	256		/* connections that have not identified themselves */
#define RF_CROWD_PLACES	4096	/* counters of addresses; addresses that share one count as one */
#define RF_CROWD_LINES	20		/* lines of the log at once */
#define RF_CROWD_LINE_US	1000000 /* and then one per this interval */

/* How many of the crowd come from each place. Used by the engine's main thread only. */
static int	crowd[RF_CROWD_PLACES];

/*
 * The place where a connection is counted: one for an IPv4 address, one for the network of an IPv6
 * address, and one for all local sockets.
 */
static uint32_t
crowd_place(const struct sockaddr_storage *address)
{
	uint64_t	key = 0;

	if (address->ss_family == AF_INET)
	{
		uint32_t	ip = ((const struct sockaddr_in *) address)->sin_addr.s_addr;

		key = UINT64_C(1) << 32 | ip;
	}
	else if (address->ss_family == AF_INET6)
	{
		const struct in6_addr *ip = &((const struct sockaddr_in6 *) address)->sin6_addr;

		if (IN6_IS_ADDR_V4MAPPED(ip))
		{
			uint32_t	mapped;

			memcpy(&mapped, ip->s6_addr + 12, sizeof(mapped));
			key = UINT64_C(1) << 32 | mapped;
		}
		else
			memcpy(&key, ip->s6_addr, sizeof(key));
	}
	return hash_bytes((const unsigned char *) &key, sizeof(key)) % RF_CROWD_PLACES;
}

/* The oldest connection of the place that has the most. */
static RfConnection *
who_gives_way(void)
{
	RfConnection *victim = NULL;

	for (RfConnection *other = rf_engine->connections; other; other = other->next)
	{
		if (!other->in_crowd)
			continue;
		if (victim == NULL || crowd[other->place] > crowd[victim->place] ||
			(crowd[other->place] == crowd[victim->place] && other->started_us < victim->started_us))
			victim = other;
	}
	return victim;
}

/*
 * Adds a connection that was accepted from this address. Returns the connection to close for it;
 * NULL: there is room.
 */
RfConnection *
rf_crowd_enter(RfConnection *connection, const struct sockaddr_storage *address)
{
	RfConnection *victim = NULL;

	connection->place = crowd_place(address);
	if (rf_engine->unauthenticated >= RF_CROWD_MAX)
		victim = who_gives_way();
	connection->in_crowd = true;
	crowd[connection->place]++;
	rf_engine->unauthenticated++;
	return victim;
}

/* The connection has identified itself, or has ended. */
void
rf_crowd_leave(RfConnection *connection)
{
	if (connection->in_crowd)
	{
		crowd[connection->place]--;
		rf_engine->unauthenticated--;
	}
	connection->in_crowd = false;
}

/* Strangers must not fill the log: they get a few lines, then one a second. */
bool
rf_crowd_may_log(void)
{
	static int64_t paid_until = 0;
	int64_t		now = rf_now_us();

	paid_until = Max(paid_until, now);
	if (paid_until - now > RF_CROWD_LINES * RF_CROWD_LINE_US)
		return false;
	paid_until += RF_CROWD_LINE_US;
	return true;
}

/* The connection's HELLO has arrived. */
void
rf_crowd_hello(RfConnection *connection)
{
	const RfControlHello *hello = &connection->handshake.remote;
	uint8_t		secret[RF_TOKEN_SIZE];
	RfNodeId	client;

	for (RfConnection *other = rf_engine->connections; other; other = other->next)
	{
		if (other->accepted && !other->dead && !other->in_crowd &&
			other->phase == RF_PHASE_HANDSHAKE &&
			memcmp(other->handshake.remote.nonce, hello->nonce, RF_TOKEN_ID_SIZE) == 0)
			return;
	}
	if (rf_token_take(rf_shared, hello->nonce, secret, &client, true) &&
		rf_same_node(&client, &hello->node))
		rf_crowd_leave(connection);
	explicit_bzero(secret, sizeof(secret));
}
