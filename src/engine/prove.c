/*
 * prove.c - proves that data gets through a connection, in both directions, before any flow may use
 * it: the memory of the proofs and the requests of the two ends. After the proof lanes use the same
 * memory for mails (lane_mail.c).
 *
 * The control connection is TCP and proves nothing about the device's packets: a firewall that
 * drops UDP port 4791, another VLAN, a wrong GID or too large an MTU stop only those. So each lane
 * writes a whole packet with the value that the peer requested to the peer, and waits for the
 * peer's (path.c has the order of steps, lane_path.c the writing). setup.c acts on the result.
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "engine_int.h"

static const char roce_hint[] =
	"RoCE needs UDP port 4791 open in both directions, and a GID (rdma_fdw.gid_index: "
	"address, VLAN) and interface MTU that fit the network. See docs/rdma-hardware.md.";

static const char iwarp_hint[] =
	"iWARP is TCP between the devices' addresses, at ports that the kernel chooses: a firewall "
	"must let them through in both directions. See docs/rdma-hardware.md.";

StaticAssertDecl(sizeof(roce_hint) <= sizeof(((RfError *) 0)->hint), "the hint is cut");

const char *
rf_prove_hint(const RfConnection *connection)
{
	return connection->over_sockets ? NULL :
		strcmp(rf_engine->caps.gid_type, "iWARP") == 0 ? iwarp_hint : roce_hint;
}

/* ---------- memory ---------- */

static size_t
memory_size(const RfConnection *connection)
{
	return (size_t) connection->lanes * 2 * RF_PROOF_SIZE;
}

/*
 * A descriptor of its own, since with the software transport the peer maps the memory that it
 * writes. Late writes of a peer land in memory that nobody reads.
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
		RfLaneProof *proof = &connection->by_lane[i].proof;

		memset(proof, 0, sizeof(*proof));
		proof->landing = (const uint64_t *) (connection->proof_memory + (size_t) i * RF_PROOF_SIZE);
		proof->number = number | 1;
	}
	return true;
}

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

/* ---------- the two ends' memory ---------- */

void
rf_prove_ask(const RfConnection *connection, RfControlLinked *linked)
{
	memset(linked, 0, sizeof(*linked));
	linked->remote_addr = (uint64_t) (uintptr_t) connection->proof_memory;
	linked->rkey = connection->proof_region->rkey;
	linked->number = connection->by_lane[0].proof.number;
}

void
rf_prove_asked(RfConnection *connection, const RfControlLinked *linked)
{
	size_t		words = RF_PROOF_SIZE / sizeof(uint64_t);

	for (uint32_t i = 0; i < connection->lanes; i++)
	{
		RfLaneProof *proof = &connection->by_lane[i].proof;
		uint64_t   *source = (uint64_t *) (connection->proof_memory +
										   (size_t) (connection->lanes + i) * RF_PROOF_SIZE);

		for (size_t word = 0; word < words; word++)
			source[word] = linked->number;
		proof->source = (RfSge) {source, RF_PROOF_SIZE, connection->proof_region->lkey};
		proof->remote_addr = linked->remote_addr + (uint64_t) i * RF_PROOF_SIZE;
		proof->rkey = linked->rkey;
	}
}
