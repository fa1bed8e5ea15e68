/*
 * regions.c - what a work request, an entry of it and a byte cost over a transport.
 *
 * Two queue pairs of this process write to each other's memory on one completion queue and one
 * thread, so what sender, transport and receiver spend adds up; a device's own time is hidden
 * behind it as far as it is in use. Nobody else uses the queue pairs or their memory.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma_fdw/clock.h"

#include "regions.h"

#define AREA		(1u << 20)		/* sent from, and as much again to write to, and for what is copied out */
#define CHAIN		32
#define MOST_ROWS	4096
#define TIMES		9
#define SLOW_NS		1e6				/* what takes longer is not disturbed by much */
#define PATIENCE_NS 20e6
#define PATIENCE_US 500000

typedef struct Probe
{
	const RfProvider *provider;
	RfDevice   *device;
	RfDomain   *domain;
	RfCq	   *cq;
	RfQp	   *qps[2];
	RfRegion   *region;
	uint8_t    *memory;
	int			fd;
	int64_t		deadline;
	uint64_t	posted;
} Probe;

bool
rf_regions_sockets(bool tcp, int socks[2])
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	length = sizeof(address);
	int			listener;
	bool		good;

	socks[0] = socks[1] = -1;
	if (!tcp)
		return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks) == 0;

	/* connect() of a blocking socket to our own backlog returns at once. */
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socks[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	good = listener >= 0 && socks[0] >= 0 &&
		bind(listener, (struct sockaddr *) &address, sizeof(address)) == 0 &&
		listen(listener, 1) == 0 &&
		getsockname(listener, (struct sockaddr *) &address, &length) == 0 &&
		connect(socks[0], (struct sockaddr *) &address, sizeof(address)) == 0;
	if (good)
	{
		struct sockaddr_in ours = {0};
		struct sockaddr_in peer = {0};
		socklen_t	ours_length = sizeof(ours);
		socklen_t	peer_length = sizeof(peer);

		/* Whoever else connected first is not who we are. */
		socks[1] = accept4(listener, (struct sockaddr *) &peer, &peer_length, SOCK_CLOEXEC | SOCK_NONBLOCK);
		good = socks[1] >= 0 && getsockname(socks[0], (struct sockaddr *) &ours, &ours_length) == 0 &&
			ours.sin_port == peer.sin_port && fcntl(socks[0], F_SETFL, O_NONBLOCK) == 0;
	}
	if (listener >= 0)
		close(listener);
	if (!good)
	{
		for (int i = 0; i < 2; i++)
			if (socks[i] >= 0)
				close(socks[i]);
		socks[0] = socks[1] = -1;
	}
	return good;
}

/* Poll until the chain that ends with `wr_id` has completed here and arrived there. */
static bool
finish(Probe *probe, uint64_t wr_id)
{
	bool		sent = false;
	bool		came = false;

	while (!sent || !came)
	{
		RfWc		wcs[16];
		int			count = probe->provider->cq_poll(probe->cq, wcs, 16);

		for (int i = 0; i < count; i++)
		{
			if (wcs[i].status != RF_WC_SUCCESS || wcs[i].opcode == RF_WC_DISCONNECTED)
				return false;
			sent = sent || (wcs[i].opcode == RF_WC_WRITE && wcs[i].wr_id == wr_id);
			came = came || (wcs[i].opcode == RF_WC_RECV_IMM && wcs[i].imm == (uint32_t) wr_id);
		}
		if (count == 0 && rf_now_us() > probe->deadline)
			return false;
	}
	return true;
}

/* Again and again, the least of it: what disturbs only adds. */
static bool
once_more(int times, double best, double spent)
{
	return times < TIMES && (times < 2 || best < SLOW_NS) && spent < PATIENCE_NS;
}

/*
 * The region's fragments in `requests` work requests of so many entries, `length` bytes each and
 * `stride` apart: ns for listing and sending them; negative: it failed.
 */
static double
gathered_ns(Probe *probe, int requests, int entries, uint32_t length, uint32_t stride)
{
	RfNcr		region = RF_NCR_STRIDED_INIT(probe->memory, length, stride, (uint32_t) (requests * entries), NULL);
	RfNcrSet	set = {&region, 1, RF_NCR_COLUMNAR};
	double		best = INFINITY;
	double		spent = 0;
	RfWr		wrs[CHAIN];
	RfSge		sges[CHAIN][RF_MAX_SGE];

	for (int times = 0; once_more(times, best, spent); times++)
	{
		int64_t		begin = rf_clock_ns(CLOCK_MONOTONIC);
		uint32_t	to = 0;
		RfNcrCursor cursor;
		RfNcrPiece	fragment;
		double		took;

		rf_ncr_begin(&cursor, &set);
		for (int i = 0; i < requests; i++)
		{
			wrs[i] = (RfWr) {
				.next = i + 1 < requests ? &wrs[i + 1] : NULL, .opcode = RF_WR_WRITE, .sge = sges[i],
				.remote_addr = (uint64_t) (uintptr_t) (probe->memory + AREA + to), .rkey = probe->region->rkey
			};
			for (int k = 0; k < entries && rf_ncr_next(&cursor, &fragment); k++)
			{
				sges[i][wrs[i].num_sge++] = (RfSge) {fragment.at, (uint32_t) fragment.length, probe->region->lkey};
				to += (uint32_t) fragment.length;
			}
		}
		wrs[requests - 1].opcode = RF_WR_WRITE_IMM;
		wrs[requests - 1].signaled = true;
		wrs[requests - 1].wr_id = ++probe->posted;
		wrs[requests - 1].imm = (uint32_t) probe->posted;
		probe->provider->qp_post(probe->qps[0], wrs);
		if (!finish(probe, probe->posted))
			return -1;
		took = (double) (rf_clock_ns(CLOCK_MONOTONIC) - begin);
		spent += took;
		best = fmin(best, took);
	}
	return best;
}

/* So many fragments copied out and sent as one: ns; negative: it failed. */
static double
copied_ns(Probe *probe, uint32_t length, uint32_t stride, uint32_t rows)
{
	RfNcr		region = RF_NCR_STRIDED_INIT(probe->memory, length, stride, rows, NULL);
	RfNcrSet	set = {&region, 1, RF_NCR_COLUMNAR};
	double		best = INFINITY;
	double		spent = 0;

	for (int times = 0; once_more(times, best, spent); times++)
	{
		RfSge		sge = {probe->memory + 2 * AREA, 0, probe->region->lkey};
		RfWr		wr = {.opcode = RF_WR_WRITE_IMM, .signaled = true, .num_sge = 1, .sge = &sge,
			.remote_addr = (uint64_t) (uintptr_t) (probe->memory + AREA), .rkey = probe->region->rkey};
		int64_t		begin = rf_clock_ns(CLOCK_MONOTONIC);
		double		took;

		sge.length = (uint32_t) rf_ncr_pack(&set, probe->memory + 2 * AREA, AREA);
		wr.wr_id = ++probe->posted;
		wr.imm = (uint32_t) probe->posted;
		probe->provider->qp_post(probe->qps[0], &wr);
		if (!finish(probe, probe->posted))
			return -1;
		took = (double) (rf_clock_ns(CLOCK_MONOTONIC) - begin);
		spent += took;
		best = fmin(best, took);
	}
	return best;
}

static bool
measure(Probe *probe, int max_sge, RfRegionCosts *costs)
{
	int			entries = max_sge < RF_MAX_SGE ? max_sge : RF_MAX_SGE;
	double		small = gathered_ns(probe, CHAIN, 1, 4, 68);
	double		one = gathered_ns(probe, 1, 1, 4, 68);	/* with the delay that a chain shares */
	double		large = gathered_ns(probe, 1, 1, AREA, AREA);

	if (small < 0 || one < 0 || large < 0)
		return false;
	costs->request = (float) (small / CHAIN);
	costs->byte = (float) (fmax(large - one, 0) / AREA);
	memset(costs->gather, 0, sizeof(costs->gather));
	for (int g = 0; g < RF_COST_GAPS; g++)
	{
		for (int l = 0; l < RF_COST_LENGTHS; l++)
		{
			uint32_t	length = (uint32_t) rf_cost_lengths[l];
			uint32_t	stride = length + (uint32_t) rf_cost_gaps[g];
			uint32_t	rows = AREA / stride < MOST_ROWS ? AREA / stride : MOST_ROWS;
			int			chain = (int) rows / entries < CHAIN ? (int) rows / entries : CHAIN;
			double		copied = copied_ns(probe, length, stride, rows);
			double		gathered = entries < 2 ? 0 : gathered_ns(probe, chain, entries, length, stride);

			if (copied < 0 || gathered < 0)
				return false;
			costs->copy[g][l] = (float) (fmax(copied - one, 0) / rows);
			if (entries > 1)
				costs->gather[g][l] = (float) (fmax(gathered - one - (chain - 1) * costs->request, 1) / (chain * entries));
		}
	}
	return true;
}

static bool
open_probe(Probe *probe, const int socks[2], RfError *error)
{
	const RfProvider *provider = probe->provider;
	RfQpConfig	config = {.max_wr = 2 * CHAIN, .max_recv = 2 * CHAIN};
	uint8_t		blobs[2][RF_QP_BLOB_SIZE];

	probe->domain = provider->domain_create(probe->device, error);
	probe->cq = probe->domain == NULL ? NULL : provider->cq_create(probe->device, 8 * CHAIN, error);
	probe->region = probe->cq == NULL ? NULL :
		provider->region_register(probe->domain, probe->memory, 3 * AREA, probe->fd, error);
	if (probe->region == NULL)
		return false;
	for (int i = 0; i < 2; i++)
	{
		config.context = &probe->qps[i];
		probe->qps[i] = provider->qp_create(probe->domain, probe->cq, &config, error);
		if (probe->qps[i] == NULL)
			return false;
		provider->qp_local(probe->qps[i], blobs[i]);
	}
	return true;
}

bool
rf_regions_measure(const RfProvider *provider, RfDevice *device, const int socks[2], int max_sge,
				   RfRegionCosts *costs, RfError *error)
{
	Probe		probe = {.provider = provider, .device = device, .deadline = rf_now_us() + PATIENCE_US};
	RfRegionCosts measured = *costs;
	uint8_t		blobs[2][RF_QP_BLOB_SIZE];
	bool		good = false;
	int			given = 0;

	probe.fd = memfd_create("rdma_fdw measure", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	probe.memory = MAP_FAILED;
	if (probe.fd >= 0 && ftruncate(probe.fd, 3 * AREA) == 0)
		probe.memory = mmap(NULL, 3 * AREA, PROT_READ | PROT_WRITE, MAP_SHARED, probe.fd, 0);
	if (probe.memory == MAP_FAILED)
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "could not map memory to measure with: %s", strerror(errno));
	else
	{
		memset(probe.memory, 1, 3 * AREA);
		good = open_probe(&probe, socks, error);
		for (int i = 0; i < 2 && good; i++)
		{
			provider->qp_local(probe.qps[1 - i], blobs[i]);
			good = provider->qp_connect(probe.qps[i], blobs[i], socks[i], error);
			given++;
		}
		if (good && !measure(&probe, max_sge, &measured))
			good = rf_error(error, RF_ERROR_CONNECTION, NULL, NULL, "writes to this node itself did not arrive");
	}

	/* A queue pair owns its socket once it was given it, also when that failed. */
	for (int i = given; i < 2; i++)
		if (socks[i] >= 0)
			close(socks[i]);
	for (int i = 0; i < 2; i++)
		if (probe.qps[i] != NULL)
			provider->qp_destroy(probe.qps[i]);
	if (probe.region != NULL)
		provider->region_deregister(probe.domain, probe.region);
	if (probe.domain != NULL)
		provider->domain_destroy(probe.domain);
	if (probe.cq != NULL)
		provider->cq_destroy(probe.cq);
	if (probe.memory != MAP_FAILED)
		munmap(probe.memory, 3 * AREA);
	if (probe.fd >= 0)
		close(probe.fd);
	if (good)
		*costs = measured;
	return good;
}
