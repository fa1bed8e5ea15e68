/*
 * fuzz_soft_frames.c - for any bytes from a peer, the software provider neither crashes nor writes
 * outside its regions.
 *
 * The first input byte selects the receiver of the rest: bit 0 the byte stream (0) or the notes of
 * shared memory (1); bit 1 whether work requests of ours are outstanding, so that acknowledgements
 * mean something; bit 2 whether the input arrives in small pieces; bit 3 whether two of ours are
 * compare-and-swaps, so that answers mean something. The only region lies at a fixed address, so
 * that inputs can name it, between two pages that may not be touched.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdma_fdw/provider.h"

#define REGION_ADDR		0x200000000000ull
#define REGION_SIZE		8192
#define OUTSTANDING		5

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static RfDevice *stream_device;
static RfDevice *shm_device;
static RfDomain *domains[2];
static RfCq *queues[2];
static RfRegion *regions[2];

static void
require(bool good)
{
	if (!good)
		abort();
}

static void
start(void)
{
	static const RfProviderConfig stream = {.soft_tcp_only = true};
	static const RfProviderConfig shm = {.soft_tcp_only = false};
	const RfProvider *provider = &rf_provider_soft;
	int			fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char	   *memory = mmap((void *) (REGION_ADDR - 4096), REGION_SIZE + 8192, PROT_NONE,
							  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	require(fd >= 0 && ftruncate(fd, REGION_SIZE) == 0 && memory == (char *) (REGION_ADDR - 4096));
	require(mmap((void *) REGION_ADDR, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				 fd, 0) == (void *) REGION_ADDR);
	stream_device = provider->device_open(&stream, NULL);
	shm_device = provider->device_open(&shm, NULL);
	for (int i = 0; i < 2; i++)
	{
		domains[i] = provider->domain_create(i ? shm_device : stream_device, NULL);
		queues[i] = provider->cq_create(i ? shm_device : stream_device, 64, NULL);
		regions[i] = provider->region_register(domains[i], (void *) REGION_ADDR, REGION_SIZE, fd,
											   NULL);
		require(regions[i] != NULL && regions[i]->rkey == 1);
	}
}

/* Poll until nothing comes; completions must make sense. */
static void
drain(RfCq *cq, int *ours)
{
	RfWc		wc[16];
	int			count;

	while ((count = rf_provider_soft.cq_poll(cq, wc, 16)) > 0)
	{
		for (int i = 0; i < count; i++)
		{
			require(wc[i].opcode >= RF_WC_WRITE && wc[i].opcode <= RF_WC_DISCONNECTED);
			require(wc[i].status <= RF_WC_LOCAL);
			if (wc[i].opcode == RF_WC_RECV_IMM)
				require(wc[i].byte_len <= REGION_SIZE);
			if (wc[i].opcode == RF_WC_WRITE)
				++* ours;
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const RfProvider *provider = &rf_provider_soft;
	RfQpConfig	config = {.max_wr = 16, .max_recv = 16};
	uint8_t		blob[RF_QP_BLOB_SIZE];
	int			socks[2];
	int			kind;
	int			ours = 0;
	uint8_t		mode;
	RfQp	   *qp;

	if (queues[0] == NULL)
		start();
	if (size < 1)
		return 0;
	mode = *data++;
	size--;
	kind = mode & 1;
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, socks) == 0);
	qp = provider->qp_create(domains[kind], queues[kind], &config, NULL);
	require(qp != NULL);
	provider->qp_local(qp, blob);
	require(provider->qp_connect(qp, blob, socks[0], NULL, NULL));
	for (int i = 0; (mode & 2) && i < OUTSTANDING; i++)
	{
		RfSge		sge = {(void *) REGION_ADDR, 100, regions[kind]->lkey};
		RfWr		wr = {.wr_id = i,
			.opcode = RF_WR_WRITE_IMM,
			.signaled = i & 1,
			.num_sge = 1,
			.sge = &sge,
			.remote_addr = REGION_ADDR,
			.rkey = 1,
		.imm = i};

		if ((mode & 8) && (i == 1 || i == 3))
		{
			wr.opcode = RF_WR_COMPARE_SWAP;
			sge.length = sizeof(uint64_t);
		}
		provider->qp_post(qp, &wr);
	}
	while (size > 0)
	{
		size_t		part = (mode & 4) && size > 7 ? 7 : size;
		ssize_t		sent = send(socks[1], data, part, MSG_NOSIGNAL | MSG_DONTWAIT);
		char		echo[4096];

		drain(queues[kind], &ours);
		while (recv(socks[1], echo, sizeof(echo), MSG_DONTWAIT) > 0)
			;
		if (sent <= 0)
			break;
		data += sent;
		size -= sent;
	}

	/*
	 * nothing of ours ends twice, and with the peer gone all of it has failed or succeeded
	 * silently
	 */
	close(socks[1]);
	provider->cq_arm(queues[kind]);
	drain(queues[kind], &ours);
	require(ours <= OUTSTANDING);
	provider->qp_destroy(qp);
	drain(queues[kind], &ours);
	require(provider->domain_quiet(domains[kind]));
	return 0;
}
