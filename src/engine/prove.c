/*
 * prove.c - that data gets through a connection, in both directions, before any flow may use it;
 * and what happens when it does not.
 *
 * The control connection is TCP and proves nothing about the device's packets: a firewall that
 * drops UDP port 4791, another VLAN, a wrong GID or too large an MTU stop those alone. So each lane
 * writes a whole packet's worth of what the peer asked for to the peer, and waits for the peer's
 * (path.c has the order of things, lane_path.c the writing). Where the device fails and both ends
 * have the software transport, the connection begins again over that.
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "rdma_fdw/guc.h"

#include "engine_int.h"

static const char roce_hint[] = "RoCE needs UDP port 4791 open in both directions, and a GID (rdma_fdw.gid_index: "
	"address, VLAN) and MTU (rdma_fdw.mtu) that fit the network. See docs/rdma-hardware.md.";

StaticAssertDecl(sizeof(roce_hint) <= sizeof(((RfError *) 0)->hint), "the hint is cut");

const char *
rf_prove_hint(const RfConnection *connection)
{
	return connection->over_sockets ? NULL : roce_hint;
}

/* ---------- memory ---------- */

static size_t
memory_size(const RfConnection *connection)
{
	return (size_t) (connection->lanes + 1) * RF_PROOF_SIZE;
}

/*
 * A descriptor of its own, since the software transport has the peer map what it writes. What a
 * peer writes later than it may lands in memory that nobody reads.
 */
static bool
map_memory(RfConnection *connection, int *fd, RfError *error)
{
	size_t		size = memory_size(connection);
	void	   *memory = MAP_FAILED;

	*fd = memfd_create("rdma_fdw proof", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd >= 0 && ftruncate(*fd, size) == 0)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (memory == MAP_FAILED)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"no memory for the proof of a connection");
		if (*fd >= 0)
			close(*fd);
		return false;
	}
	connection->proof_memory = memory;
	return true;
}

bool
rf_prove_begin(RfConnection *connection, RfError *error)
{
	uint64_t	number;
	int			fd;

	if (!pg_strong_random(&number, sizeof(number)))
		return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "could not get random bytes");
	if (!map_memory(connection, &fd, error))
		return false;
	connection->proof_region =
		rf_engine->provider->region_register(connection->domain, connection->proof_memory,
											 memory_size(connection), fd, error);
	close(fd);
	if (connection->proof_region == NULL)
		return false;
	connection->lanes_proven = 0;
	for (uint32_t i = 0; i < connection->lanes; i++)
	{
		RfLaneProof *proof = &connection->proofs[i];

		memset(proof, 0, sizeof(*proof));
		proof->landing = (const uint64_t *) (connection->proof_memory + (size_t) i * RF_PROOF_SIZE);
		proof->number = number | 1;
	}
	return true;
}

/* No queue pair is left. */
void
rf_prove_release(RfConnection *connection)
{
	if (connection->proof_region != NULL)
		rf_engine->provider->region_deregister(connection->domain, connection->proof_region);
	if (connection->proof_memory != NULL)
		munmap(connection->proof_memory, memory_size(connection));
	connection->proof_region = NULL;
	connection->proof_memory = NULL;
}

/* ---------- what the path wants done ---------- */

static void
send_linked(RfConnection *connection)
{
	RfControlLinked linked;

	memset(&linked, 0, sizeof(linked));
	linked.remote_addr = (uint64_t) (uintptr_t) connection->proof_memory;
	linked.rkey = connection->proof_region->rkey;
	linked.number = connection->proofs[0].number;
	rf_connection_send(connection, RF_CONTROL_LINKED, &linked, sizeof(linked));
}

static void
prove(RfConnection *connection)
{
	for (uint32_t i = 0; i < connection->lanes; i++)
		rf_lane_prove(rf_engine->lanes[i], connection->peer);
}

bool
rf_prove_drop_lanes(RfConnection *connection, const RfError *error)
{
	bool		any = false;

	/* Only a lane may destroy a queue pair, also one it has not seen. */
	for (uint32_t i = 0; i < connection->lanes; i++)
	{
		if (connection->qps[i] == NULL)
			continue;
		if (!connection->with_lanes)
			rf_lane_add_connection(rf_engine->lanes[i], connection->peer, connection->qps[i], NULL);
		connection->qps[i] = NULL;
		connection->lanes_dropping++;
		any = true;
		rf_lane_drop_connection(rf_engine->lanes[i], connection->peer, error);
	}
	connection->with_lanes = false;
	return any;
}

static void
let_go(RfConnection *connection, const RfError *error)
{
	Assert(error != NULL);		/* only RF_PATH_BROKEN and RF_PATH_DEAD lead here, and bring one */
	connection->path_error = *error;
	memset(connection->have_blob, 0, sizeof(connection->have_blob));
	memset(connection->connected, 0, sizeof(connection->connected));
	ereport(WARNING,
			(errcode(rf_error_sqlstate(error->kind)),
			 errmsg("rdma_fdw engine: using TCP for %s: %s", rf_shared->peers[connection->peer].host, error->message),
			 error->detail[0] ? errdetail_internal("%s", error->detail) : 0,
			 error->hint[0] ? errhint("%s", error->hint) : 0));
	if (!rf_prove_drop_lanes(connection, error))
		rf_prove_event(connection, RF_PATH_GONE, NULL);
}

static void
again(RfConnection *connection)
{
	rf_prove_release(connection);
	rf_engine->provider->domain_destroy(connection->domain);
	connection->domain = NULL;
	rf_setup_again(connection);
}

/* Sending may end the connection, when the peer does not read. */
void
rf_prove_event(RfConnection *connection, RfPathEvent event, const RfError *error)
{
	uint32_t	actions;
	RfError		wrong;

	if (connection->dead || connection->phase != RF_PHASE_SETUP)
		return;
	actions = rf_path_event(&connection->path, event);
	if (actions & RF_PATH_WAIT)
		connection->deadline_us = rf_now_us() + (int64_t) rf_connect_timeout * 1000 * connection->path.tenths / 10;
	if (actions & RF_PATH_SEND_LINKED)
		send_linked(connection);
	if ((actions & RF_PATH_PROVE) && connection->phase == RF_PHASE_SETUP)
		prove(connection);
	if (actions & RF_PATH_UP)
		rf_setup_up(connection);
	if (actions & RF_PATH_SEND_READY)
		rf_connection_send(connection, RF_CONTROL_READY, NULL, 0);
	if (actions & RF_PATH_SEND_BROKEN)
		rf_connection_send(connection, RF_CONTROL_BROKEN, NULL, 0);
	if ((actions & RF_PATH_LET_GO) && connection->phase == RF_PHASE_SETUP)
		let_go(connection, error);
	if (actions & RF_PATH_AGAIN)
		again(connection);
	if (actions & RF_PATH_FAIL)
		rf_connection_fail(connection, error);
	if (actions & RF_PATH_WRONG)
	{
		memset(&wrong, 0, sizeof(wrong));
		(void) rf_error(&wrong, RF_ERROR_PROTOCOL, NULL, NULL,
						"it sent a message of the connection's set-up out of turn");
		rf_connection_fail(connection, &wrong);
	}
}

/* ---------- what happens to the path ---------- */

void
rf_prove_linked(RfConnection *connection, const RfControlLinked *linked)
{
	size_t		words = RF_PROOF_SIZE / sizeof(uint64_t);
	uint64_t   *source = (uint64_t *) (connection->proof_memory + (size_t) connection->lanes * RF_PROOF_SIZE);

	if (!rf_path_void(&connection->path) && !connection->path.linked &&
		connection->proof_region != NULL)
	{
		for (size_t i = 0; i < words; i++)
			source[i] = linked->number;
		for (uint32_t i = 0; i < connection->lanes; i++)
		{
			RfLaneProof *proof = &connection->proofs[i];

			proof->source = (RfSge) {source, RF_PROOF_SIZE, connection->proof_region->lkey};
			proof->remote_addr = linked->remote_addr + (uint64_t) i * RF_PROOF_SIZE;
			proof->rkey = linked->rkey;
		}
	}
	rf_prove_event(connection, RF_PATH_LINKED, NULL);
}

void
rf_prove_lane(RfConnection *connection)
{
	if (connection->path.state != RF_PATH_SETTING_UP)
		return;
	if (++connection->lanes_proven < connection->lanes)
		return;
	rf_prove_event(connection, RF_PATH_PROVEN, NULL);
}

void
rf_prove_broken(RfConnection *connection)
{
	RfError		error;

	memset(&error, 0, sizeof(error));
	(void) rf_error(&error, RF_ERROR_CONNECTION, "The other engine says so.", rf_prove_hint(connection),
					connection->phase == RF_PHASE_UP ? "the data connection broke" : "data does not get through");
	if (connection->phase == RF_PHASE_UP)
		rf_connection_fail(connection, &error);
	else
		rf_prove_event(connection, RF_PATH_BROKEN, &error);
}

bool
rf_prove_timeout(RfConnection *connection)
{
	RfError		error;

	if (connection->phase != RF_PHASE_SETUP || !rf_path_unproven(&connection->path))
		return false;
	memset(&error, 0, sizeof(error));
	(void) rf_error(&error, RF_ERROR_CONNECTION,
					"The engines reach each other, but not all that is written over the data connection arrives.",
					rf_prove_hint(connection), "data does not get through");
	rf_prove_event(connection, RF_PATH_DEAD, &error);
	return true;
}
