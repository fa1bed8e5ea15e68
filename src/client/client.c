/*
 * client.c - a backend's requests to the engine: is it running, this node's identity, connections
 * to other nodes, tokens for readers.
 *
 * Everything goes through shared memory: a request is written, the engine's main thread is woken,
 * the answer is waited for. A backend opens no socket to an engine and calls no provider.
 */
#include "postgres.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "pgstat.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "base/agree.h"
#include "shmem/arena.h"
#include "shmem/claims.h"
#include "shmem/layout.h"
#include "shmem/peer_table.h"

#define RF_RESTART_WAIT_MS	5000	/* an engine that was ended is back by then */
#define RF_RETURN_CHECK_MS	50	/* how often to look whether another node's engine has come back */

void
rf_raise(const RfError *error, int peer)
{
	/* The entry may be used for another node while we report: take a copy first. */
	RfError		copy = *error;
	char		node[160] = "";

	copy.message[sizeof(copy.message) - 1] = '\0';
	copy.detail[sizeof(copy.detail) - 1] = '\0';
	copy.hint[sizeof(copy.hint) - 1] = '\0';
	if (peer != RF_NO_PEER && rf_shared != NULL)
	{
		const RfPeer *entry = &rf_shared->peers[peer];

		/* unknown for a node that connected to us */
		if (entry->port != 0)
			snprintf(node, sizeof(node), "The other node is %.127s, port %u of its engine.",
					 entry->host, entry->port);
		else
			snprintf(node, sizeof(node), "The other node is %.127s.", entry->host);
	}
	ereport(ERROR,
			(errcode(rf_error_sqlstate(copy.kind)),
			 errmsg("%s", copy.message),
			 copy.detail[0] && node[0] ? errdetail("%s %s", copy.detail, node) :
			 copy.detail[0] ? errdetail("%s", copy.detail) :
			 node[0] ? errdetail("%s", node) : 0,
			 copy.hint[0] ? errhint("%s", copy.hint) : 0));
	pg_unreachable();
}

void
rf_engine_require(void)
{
	int			waited;

	if (rf_shared == NULL)
	{
		const char *others = GetConfigOption("shared_preload_libraries", true, false);

		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rdma_fdw must be loaded by shared_preload_libraries"),
				 errhint("Add this line to postgresql.conf and restart the server: "
						 "shared_preload_libraries = '%s%srdma_fdw'",
						 others ? others : "",
						 others && others[0] ? ", " : "")));
	}

	/* An engine that was terminated is started again at once; that is worth a moment. */
	for (waited = 0; atomic_load(&rf_shared->engine_pid) == 0; waited += 20)
	{
		if (waited >= RF_RESTART_WAIT_MS && rf_shared->start_error.kind != RF_ERROR_NONE)
			rf_raise(&rf_shared->start_error, RF_NO_PEER);
		if (waited >= RF_RESTART_WAIT_MS)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the rdma_fdw engine is not running"),
					 errhint("The server log says why. The engine needs a free slot of "
							 "max_worker_processes, and the port of rdma_fdw.engine_port.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 20,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	if (rf_shared->device.provider[0] == '\0')
		rf_raise(&rf_shared->device_error, RF_NO_PEER);
}

void
rf_engine_wake_main(void)
{
	uint64_t	one = 1;

	atomic_fetch_add(&rf_shared->main_requests, 1);

	/* Fails only when the counter is full, and then the engine is awake. */
	if (write(rf_shared->engine_wake_fd, &one, sizeof(one)) < 0)
		return;
}

/*
 * Names are looked up here and not in the engine, which must never wait for a name server. The
 * result is a list of numeric addresses: a name like localhost has several and the engine listens
 * on one. Addresses that are not allowed are left out.
 */
static bool
resolve(const char *host, RfAddressFilter allowed, char *list, size_t size, RfError *error)
{
	char		refused[64] = "";
	struct addrinfo hints;
	struct addrinfo *found = NULL;
	struct addrinfo *one;
	int			rc;

	list[0] = '\0';
	if (host[0] == '\0' || host[0] == '/' || host[0] == '@')
		host = "127.0.0.1";		/* libpq came over a local socket */
	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	rc = getaddrinfo(host, NULL, &hints, &found);
	if (rc != 0)
		return rf_error(error, RF_ERROR_NOT_CONNECTED, NULL,
						"The name comes from the server's option host, or from "
						"rdma_fdw.engine_address of that node.",
						"could not translate host name \"%s\" to an address: %s", host,
						gai_strerror(rc));
	for (one = found; one != NULL; one = one->ai_next)
	{
		char		text[64];

		if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), NULL, 0,
						NI_NUMERICHOST) != 0)
			continue;
		if (allowed != NULL && !allowed(one->ai_addr, one->ai_addrlen))
			strlcpy(refused, text, sizeof(refused));
		else if (strlen(list) + strlen(text) + 2 < size)
		{
			if (list[0])
				strlcat(list, ",", size);
			strlcat(list, text, size);
		}
	}
	freeaddrinfo(found);
	if (list[0] == '\0' && refused[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("this node's engine may not connect to %s",
						refused),
				 errdetail("A statement over several nodes asked for it; rdma_fdw.exchange_hosts "
						   "does not list the address."),
				 errhint("If that is a node that this one shall exchange rows with, add its "
						 "address or network to rdma_fdw.exchange_hosts in the configuration of "
						 "this node.")));
	return true;
}

/*
 * The secret of a token, between this node's engine and the engine of the node that has that key.
 * Only the engine with the private key will be able to use it, so the key has to be the node's.
 */
static void
agree(const RfNodeId *other, const uint8_t other_key[RF_KEY_SIZE],
	  const uint8_t id[RF_TOKEN_ID_SIZE], const uint8_t initiator[RF_KEY_SIZE],
	  const uint8_t acceptor[RF_KEY_SIZE], uint8_t secret[RF_TOKEN_SIZE])
{
	RfNodeId	owner;

	if (!rf_key_identity(other_key, &owner) || !rf_same_node(&owner, other))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the other node does not have the identity that it claims"),
				 errdetail("A node's identity is a hash of its engine's key, and this is another "
						   "engine's key.")));
	if (!rf_key_agree(rf_shared->private_key, other_key, id, initiator, acceptor, secret))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the key of the other node's engine is not valid")));
}

/*
 * The entry for a node that we connect to, of which we are a waiter then: an existing entry, or a
 * new claim (*claimed) if we may.
 */
static int
find_or_claim(const char *host, const RfHelloReply *hello, const char *addresses, bool may_claim,
			  bool *claimed, uint32_t *attempt)
{
	uint8_t		secret[RF_TOKEN_SIZE];
	bool		has_token = false;
	int			found = rf_claim_wait(rf_shared, &hello->node, false, attempt);
	RfPeer	   *peer;

	for (int i = 0; i < (int) sizeof(hello->token_id); i++)
		has_token |= hello->token_id[i] != 0;

	*claimed = false;
	if (found != RF_NO_PEER || !has_token || !may_claim)
		return found;
	agree(&hello->node, hello->key, hello->token_id, rf_shared->public_key, hello->key, secret);
	found = rf_peer_claim(&hello->node, false);
	if (found == RF_NO_PEER)
	{
		explicit_bzero(secret, sizeof(secret));
		return found;
	}
	peer = &rf_shared->peers[found];
	strlcpy(peer->host, host, sizeof(peer->host));
	strlcpy(peer->addresses, addresses, sizeof(peer->addresses));
	peer->port = hello->port;
	peer->role = GetUserId();
	peer->role_limit = rf_role_limit(RF_MAX_PEERS);
	memcpy(peer->token_id, hello->token_id, sizeof(peer->token_id));
	memcpy(peer->token, secret, sizeof(peer->token));
	explicit_bzero(secret, sizeof(secret));
	*attempt = peer->attempt;
	atomic_fetch_add(&peer->waiters, 1);
	atomic_store(&peer->state, RF_PEER_REQUESTED);
	*claimed = true;
	return found;
}

/*
 * Also when the backend is terminated while it waits: an entry with waiters is never used for
 * another node.
 */
static void
stop_waiting(int code, Datum arg)
{
	ConditionVariableCancelSleep();
	atomic_fetch_sub(&rf_shared->peers[DatumGetInt32(arg)].waiters, 1);
}

static uint32
connect_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = rf_wait_event_new("RdmaConnect");
	return event;
}

/*
 * Wait until the entry, of which we are a waiter already, is no longer on its way. Returns its last
 * state; *error is why it failed. False in *same: the entry is used for something else now.
 */
static uint32_t
wait_for_entry(int index, uint32_t attempt, TimestampTz start, bool *same, RfError *error)
{
	RfPeer	   *peer = &rf_shared->peers[index];
	volatile uint32_t state = RF_PEER_FREE;

	PG_ENSURE_ERROR_CLEANUP(stop_waiting, Int32GetDatum(index));
	{
		ConditionVariablePrepareToSleep(&rf_wait_points->peer[index]);
		for (;;)
		{
			long		left;

			state = atomic_load(&peer->state);
			if (peer->attempt != attempt || atomic_load(&rf_shared->engine_pid) == 0 ||
				(state != RF_PEER_CLAIMED && state != RF_PEER_REQUESTED &&
				 state != RF_PEER_CONNECTING))
				break;
			left = rf_connect_timeout -
				TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());
			if (left <= 0)
				break;
			(void) ConditionVariableTimedSleep(&rf_wait_points->peer[index], Min(left, 1000),
											   connect_wait_event());
		}
		*same = peer->attempt == attempt;
		*error = peer->error;
		error->message[sizeof(error->message) - 1] = '\0';
		error->detail[sizeof(error->detail) - 1] = '\0';
		error->hint[sizeof(error->hint) - 1] = '\0';
	}
	PG_END_ENSURE_ERROR_CLEANUP(stop_waiting, Int32GetDatum(index));
	stop_waiting(0, Int32GetDatum(index));
	return state;
}

/* A connection without the RDMA device works, but was not configured: warn once. */
static void
warn_of_fallback(int index, const char *host)
{
	RfPeer	   *peer = &rf_shared->peers[index];
	RfError		error;

	if (atomic_exchange(&peer->fell_back, 0) == 0)
		return;
	error = peer->error;
	error.message[sizeof(error.message) - 1] = '\0';
	error.hint[sizeof(error.hint) - 1] = '\0';
	ereport(WARNING,
			(errmsg("the connection to the engine of node \"%s\" goes over TCP instead of RDMA: %s",
					host, error.message),
			 error.hint[0] ? errhint("%s", error.hint) : 0));
}

int
rf_peer_connect(const char *host, const RfHelloReply *hello, RfAddressFilter allowed,
				bool *spent, RfError *error)
{
	char		addresses[sizeof(rf_shared->peers[0].addresses)];
	TimestampTz start = GetCurrentTimestamp();
	bool		may_claim = true;

	*spent = false;
	rf_engine_require();
	if (!resolve(hello->address[0] ? hello->address : host, allowed, addresses, sizeof(addresses),
				 error))
		return RF_NO_PEER;

	for (;;)
	{
		bool		claimed;
		bool		same;
		uint32_t	attempt = 0;
		uint32_t	state;
		int			index = find_or_claim(host, hello, addresses, may_claim, &claimed, &attempt);

		if (index == RF_NO_PEER && !may_claim)
		{
			*spent = true;
			(void) rf_error(
							error, RF_ERROR_NOT_CONNECTED,
							"The engine of this node stopped, or the other one ended the "
							"connection at once.",
							NULL,
							"the connection attempt to the engine of node \"%s\" was given up",
							host);
			return RF_NO_PEER;
		}
		if (index == RF_NO_PEER)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("no engine connection to node \"%s\" can be made",
							host),
					 errdetail("At most %d nodes can be connected at one time, and the node must "
							   "have issued a token.",
							   RF_MAX_PEERS)));
		if (claimed)
		{
			may_claim = false;	/* the token may be used once */
			rf_engine_wake_main();
		}
		state = wait_for_entry(index, attempt, start, &same, error);
		if (state == RF_PEER_CONNECTED && same)
		{
			warn_of_fallback(index, host);
			return index;
		}

		/*
		 * The node may have connected to us meanwhile, and its connection was taken instead of
		 * ours.
		 */
		index = rf_peer_find(&hello->node, false);
		if (index != RF_NO_PEER)
		{
			warn_of_fallback(index, host);
			return index;
		}
		if (state == RF_PEER_FAILED && same)
			return RF_NO_PEER;
		if (TimestampDifferenceMilliseconds(start, GetCurrentTimestamp()) >= rf_connect_timeout)
		{
			char		detail[sizeof(error->detail)];
			char		hint[sizeof(error->hint)];

			snprintf(detail, sizeof(detail), "Its engine should answer at %s, port %u.", addresses,
					 hello->port);
			snprintf(hint, sizeof(hint),
					 "See that the port is not blocked by a firewall; rdma_fdw.engine_port fixes "
					 "it, rdma_fdw.connect_timeout is %d ms.",
					 rf_connect_timeout);
			(void) rf_error(error, RF_ERROR_NOT_CONNECTED, detail, hint,
							"timeout while the engine connects to node \"%s\"", host);
			return RF_NO_PEER;
		}

		/*
		 * The attempt vanished, ours or another session's, perhaps in favour of the other node's:
		 * look again.
		 */
		CHECK_FOR_INTERRUPTS();
		rf_engine_require();
	}
}

/* Returns true if the node was connected before, by an entry that is not reused since. */
static bool
was_connected(const RfNodeId *node)
{
	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		if (rf_shared->peers[i].connections > 0 && rf_same_node(&rf_shared->peers[i].node, node))
			return true;
	}
	return false;
}

int
rf_peer_missing_sqlstate(const RfNodeId *node)
{
	return was_connected(node) ? ERRCODE_CONNECTION_FAILURE : ERRCODE_CONNECTION_DOES_NOT_EXIST;
}

int
rf_peer_wait(const RfNodeId *node, bool producer_side)
{
	TimestampTz start = GetCurrentTimestamp();

	for (;;)
	{
		int			index = rf_peer_find(node, producer_side);
		uint32_t	attempt = 0;
		bool		same;
		RfError		error;

		if (index != RF_NO_PEER)
			return index;
		rf_engine_require();	/* without one nobody is found */
		if (TimestampDifferenceMilliseconds(start, GetCurrentTimestamp()) >= rf_connect_timeout)
			return RF_NO_PEER;
		index = rf_claim_wait(rf_shared, node, producer_side, &attempt);
		if (index != RF_NO_PEER)
			(void) wait_for_entry(index, attempt, start, &same, &error);
		else if (!was_connected(node))
			return RF_NO_PEER;
		else
		{
			/* Its engine is stopped, say, and its backends do not know yet. It may come back. */
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 RF_RETURN_CHECK_MS, connect_wait_event());
			ResetLatch(MyLatch);
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---------- tokens ---------- */

/*
 * How many of `total` places in shared memory the current role may have: an ordinary role must not
 * keep other roles from working.
 */
uint32
rf_role_limit(uint32 total)
{
	return superuser() ? total : Max(total * rf_role_share / 100, 1);
}

void
rf_token_issue(const RfHelloRequest *request, uint8_t id[RF_TOKEN_ID_SIZE])
{
	uint8_t		secret[RF_TOKEN_SIZE];
	bool		put;

	if (!pg_strong_random(id, RF_TOKEN_ID_SIZE))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not get random bytes for a token")));
	agree(&request->node, request->key, id, request->key, rf_shared->public_key, secret);
	put = rf_token_put(rf_shared, id, secret, &request->node, GetUserId(),
					   rf_role_limit(RF_MAX_TOKENS),
					   (int64_t) atomic_load(&rf_shared->invited_ms) * 1000);
	explicit_bzero(secret, sizeof(secret));
	if (!put)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("processes that do not go on hold all places for tokens"),
				 errhint("See whether processes of this server are stopped.")));
}
