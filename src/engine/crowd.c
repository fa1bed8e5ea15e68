/*
 * crowd.c - accepted connections that have shown nothing yet: which of them give way to new ones.
 *
 * Anybody can connect, as often and as fast as the network carries it. So there is room for some
 * connections that are nobody's, and the oldest of the address with most of them gives way: a flood
 * from one address pushes out its own. From the same address, as of engines behind one router or on
 * one host, it cannot push out an engine either: its first message names a token that this node has
 * issued, and with that, before any proof, its connection leaves the crowd. Each token does that for
 * one connection, and tokens are for roles that were given access. A socket hands its connection
 * over when the first bytes are there (listener.c), and they are read at once, so that an engine
 * spends no time in the crowd at all, whatever else goes on.
 */
#include "postgres.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/hashfn.h"

#include "engine_int.h"
#include "shmem/claims.h"

#define RF_CROWD_MAX	256		/* connections that have shown nothing */
#define RF_CROWD_PLACES	4096	/* that addresses are counted in; those that share one count as one */
#define RF_CROWD_LINES	20		/* of the log, at once */
#define RF_CROWD_LINE_US	1000000 /* and one for so long afterwards */

/* How many of the crowd are from each place. The engine's main thread only. */
static int	crowd[RF_CROWD_PLACES];

/*
 * Where a connection is counted: by all of an IPv4 address, by the network of an IPv6 address, and
 * all local sockets in one place.
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

/* The oldest connection of the place with most of them. */
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

/* Just accepted, from there. Returns which connection gives way to it; NULL: there is room. */
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

/* It has shown something, or is over. */
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

/* Strangers shall not fill the log: they get some lines, and one a second after these. */
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

/* Its HELLO has come. */
void
rf_crowd_hello(RfConnection *connection)
{
	const RfControlHello *hello = &connection->handshake.remote;
	uint8_t		secret[RF_TOKEN_SIZE];
	RfNodeId	client;

	for (RfConnection *other = rf_engine->connections; other; other = other->next)
	{
		if (other->accepted && !other->dead && !other->in_crowd && other->phase == RF_PHASE_HANDSHAKE &&
			memcmp(other->handshake.remote.nonce, hello->nonce, RF_TOKEN_ID_SIZE) == 0)
			return;
	}
	if (rf_token_take(rf_shared, hello->nonce, secret, &client, true) && rf_same_node(&client, &hello->node))
		rf_crowd_leave(connection);
	explicit_bzero(secret, sizeof(secret));
}
