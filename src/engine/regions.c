/*
 * regions.c - measures the costs of a work request, of its entries, strided or not, and of a byte
 * over a transport.
 *
 * Two queue pairs of this process write to each other's memory on one completion queue and one
 * thread, so the costs of sender, transport and receiver add up; a device's own time is hidden
 * behind them where they overlap. Nothing else uses the queue pairs or their memory.
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

#include "base/clock.h"

#include "regions.h"

#define AREA		(1u << 20)	/* source; as much for the destination and copies */
#define CHAIN		32
#define MOST_ROWS	4096
#define ROUNDS		9			/* at most, */
#define LEAST_ROUNDS 2			/* and at least, */
#define ENOUGH_US	200000		/* else for so long */
#define SLOW_NS		1e6			/* if it takes longer, less of a series is sent */
#define PATIENCE_US 1000000

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

		/* Another process may have connected first. */
		socks[1] = accept4(listener, (struct sockaddr *) &peer, &peer_length,
						   SOCK_CLOEXEC | SOCK_NONBLOCK);
		good = socks[1] >= 0 &&
			getsockname(socks[0], (struct sockaddr *) &ours, &ours_length) == 0 &&
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

/* Polls until the chain that ends with `wr_id` has completed here and arrived there. */
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

/* One way to send one shape. */
typedef enum Way
{
	TOGETHER,					/* copied out */
	STRIDED,
	GATHERED
} Way;

typedef struct Series
{
	Way			way;
	int			requests;		/* GATHERED: so many work requests, */
	int			entries;		/* of so many fragments */
	uint32_t	length;			/* bytes of a fragment, */
	uint32_t	stride;			/* from one to the next, */
	uint32_t	rows;			/* and how many there are */
	double		best;			/* ns for listing and sending them, the minimum so far */
} Series;

/* Returns the number of work requests. */
static int
list_fragments(Probe *probe, const Series *series, RfWr *wrs, RfSge (*sges)[RF_MAX_SGE])
{
	const uint8_t *from = probe->memory;
	uint32_t	to = 0;

	for (int i = 0; i < series->requests; i++)
	{
		wrs[i] = (RfWr)
		{
			.next = i + 1 < series->requests ? &wrs[i + 1] : NULL, .opcode = RF_WR_WRITE,
				.sge = sges[i],
				.remote_addr = (uint64_t) (uintptr_t) (probe->memory + AREA + to),
				.rkey = probe->region->rkey
		};
		for (int k = 0; k < series->entries; k++, from += series->stride)
		{
			sges[i][wrs[i].num_sge++] = (RfSge)
			{
				from, series->length, probe->region->lkey
			};
			to += series->length;
		}
	}
	return series->requests;
}

static inline __attribute__((always_inline))
void
copy_each(uint8_t *to, const uint8_t *from, size_t length, const Series *series)
{
	for (uint32_t i = 0; i < series->rows; i++, from += series->stride, to += length)
		memcpy(to, from, length);
}

/* As rows are copied out: short ones by a load and a store. */
static void
copy_out(uint8_t *to, const uint8_t *from, const Series *series)
{
	if (series->length == 4)
		copy_each(to, from, 4, series);
	else if (series->length == 16)
		copy_each(to, from, 16, series);
	else
		copy_each(to, from, series->length, series);
}

/*
 * Sends it twice, since the first time brings into the caches the lines that the other series
 * evicted. False: it failed.
 */
static bool
visit(Probe *probe, Series *series)
{
	RfStrided	strided = {.element = series->length, .stride = series->stride};
	RfWr		wrs[CHAIN];
	RfSge		sges[CHAIN][RF_MAX_SGE];

	for (int i = 0; i < 2; i++)
	{
		int64_t		begin = rf_clock_ns(CLOCK_MONOTONIC);
		int			count = 1;
		RfWr	   *last;

		if (series->way == GATHERED)
			count = list_fragments(probe, series, wrs, sges);
		else
		{
			sges[0][0] = (RfSge)
			{
				probe->memory, series->length * series->rows,
					probe->region->lkey
			};
			if (series->way == TOGETHER)
			{
				sges[0][0].addr = probe->memory + 2 * AREA;
				copy_out(probe->memory + 2 * AREA, probe->memory, series);
			}
			wrs[0] = (RfWr)
			{
				.num_sge = 1,
					.sge = sges[0],
					.num_strided = series->way == STRIDED,
					.strided = &strided,
					.remote_addr = (uint64_t) (uintptr_t) (probe->memory + AREA),
					.rkey = probe->region->rkey
			};
		}
		last = &wrs[count - 1];
		last->opcode = RF_WR_WRITE_IMM;
		last->signaled = true;
		last->wr_id = ++probe->posted;
		last->imm = (uint32_t) probe->posted;
		probe->provider->qp_post(probe->qps[0], wrs);
		if (!finish(probe, probe->posted))
			return false;
		series->best = fmin(series->best, (double) (rf_clock_ns(CLOCK_MONOTONIC) - begin));
	}
	return true;
}

/*
 * Round by round through all series, so that a disturbance affects some times of many series and
 * not all times of one.
 */
static bool
visit_all(Probe *probe, Series *all, int count)
{
	int64_t		begin = rf_now_us();

	for (int round = 0; round < ROUNDS && (round < LEAST_ROUNDS || rf_now_us() - begin < ENOUGH_US);
		 round++)
		for (int i = 0; i < count; i++)
			if (!visit(probe, &all[i]))
				return false;
	return true;
}

/*
 * Measures what a byte, a gap and an entry of each way to send a region cost on this device. False:
 * an operation failed.
 */
static bool
measure(Probe *probe, RfRegionCosts *costs)
{
	enum
	{
		SMALL, ONE, LARGE, ENTRY, SHAPES
	};
	Series		all[SHAPES + 3 * RF_COST_GAPS * RF_COST_LENGTHS] = {
		[SMALL] = {GATHERED, CHAIN, 1, 4, 68, CHAIN, INFINITY},
		[ONE] = {GATHERED, 1, 1, 4, 68, 1, INFINITY},	/* with the delay that a chain shares */
		[LARGE] = {GATHERED, 1, 1, AREA, AREA, 1, INFINITY},
		[ENTRY] = {STRIDED, 0, 0, 4, 68, 1, INFINITY}
	};
	Series	   *next = &all[SHAPES];
	RfDeviceCaps caps;
	uint32_t	most = AREA;	/* bytes */
	int			entries;
	double		one;

	probe->provider->device_caps(probe->device, &caps);
	entries = caps.max_sge < RF_MAX_SGE ? caps.max_sge : RF_MAX_SGE;
	if (caps.max_strided == 0)
		all[ENTRY] = all[ONE];
	if (!visit(probe, &all[LARGE]))
		return false;
	if (all[LARGE].best > SLOW_NS)
		most = (uint32_t) fmax(AREA * SLOW_NS / all[LARGE].best, AREA / 16);
	for (int g = 0; g < RF_COST_GAPS; g++)
	{
		for (int l = 0; l < RF_COST_LENGTHS; l++)
		{
			uint32_t	length = (uint32_t) rf_cost_lengths[l];
			uint32_t	stride = length + (uint32_t) rf_cost_gaps[g];
			uint32_t	rows = AREA / stride < MOST_ROWS ? AREA / stride : MOST_ROWS;
			int			chain;

			rows = rows * length > most ? most / length : rows;
			chain = (int) rows / entries < CHAIN ? (int) rows / entries : CHAIN;
			*next++ = (Series)
			{
				TOGETHER, 0, 0, length, stride, rows, INFINITY
			};
			if (entries > 1)
				*next++ = (Series)
			{
				GATHERED, chain, entries, length, stride, (uint32_t) (chain * entries), INFINITY
			};
			if (caps.max_strided > 0)
				*next++ = (Series)
			{
				STRIDED, 0, 0, length, stride, rows, INFINITY
			};
		}
	}
	if (!visit_all(probe, all, (int) (next - all)))
		return false;

	one = all[ONE].best;
	costs->request = (float) (all[SMALL].best / CHAIN);
	costs->byte = (float) (fmax(all[LARGE].best - one, 0) / AREA);
	costs->entry = (float) fmax(all[ENTRY].best - one, 0);
	memset(costs->gather, 0, sizeof(costs->gather));
	memset(costs->strided, 0, sizeof(costs->strided));
	next = &all[SHAPES];
	for (int g = 0; g < RF_COST_GAPS; g++)
	{
		for (int l = 0; l < RF_COST_LENGTHS; l++)
		{
			costs->copy[g][l] = (float) (fmax(next->best - one, 0) / next->rows);
			next++;
			/* 0 would mean that it is impossible. */
			if (entries > 1)
			{
				costs->gather[g][l] = (float) (fmax(next->best - one -
													(next->requests - 1) * costs->request,
													1) /
											   next->rows);
				next++;
			}
			if (caps.max_strided > 0)
			{
				costs->strided[g][l] = (float) fmax((next->best - all[ENTRY].best) / next->rows,
													1e-3);
				next++;
			}
		}
	}
	return true;
}

/*
 * Two queue pairs of one domain, connected to each other later, and the memory that they copy.
 * False: the device gave an error; the caller frees the parts that are there.
 */
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
rf_regions_measure(const RfProvider *provider, RfDevice *device, const int socks[2],
				   RfRegionCosts *costs, RfError *error)
{
	Probe		probe = {
	.provider = provider, .device = device, .deadline = rf_now_us() + PATIENCE_US};
	RfRegionCosts measured = *costs;
	uint8_t		blobs[2][RF_QP_BLOB_SIZE];
	bool		good = false;
	int			given = 0;

	probe.fd = memfd_create("rdma_fdw measure", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	probe.memory = MAP_FAILED;
	if (probe.fd >= 0 && ftruncate(probe.fd, 3 * AREA) == 0)
		probe.memory = mmap(NULL, 3 * AREA, PROT_READ | PROT_WRITE, MAP_SHARED, probe.fd, 0);
	if (probe.memory == MAP_FAILED)
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "could not map memory to measure with: %s",
				 strerror(errno));
	else
	{
		memset(probe.memory, 1, 3 * AREA);
		good = open_probe(&probe, socks, error);
		for (int i = 0; i < 2 && good; i++)
		{
			provider->qp_local(probe.qps[1 - i], blobs[i]);
			good = provider->qp_connect(probe.qps[i], blobs[i], socks[i], NULL, error);
			given++;
		}
		if (good && !measure(&probe, &measured))
			good = rf_error(error, RF_ERROR_CONNECTION, NULL, NULL,
							"writes to this node itself did not arrive");
	}

	/* A queue pair owns its socket from the hand-over on, even if that failed. */
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
