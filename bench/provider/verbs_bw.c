/*
 * verbs_bw.c - write bandwidth of the verbs provider between two processes, measured as perftest's ib_write_bw does it.
 *
 * The same queue depth (128), the same moderation of completions (one in 100), one message per post, the same buffer every time, busy
 * polling, MiB/s from the first post to the last completion. What differs is the code in between: ours goes through provider.h.
 *
 * verbs_bw SIZE COUNT [imm | chain]: prints one number. imm: every write announces itself at the target. chain: 16 writes per post.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rdma_fdw/provider.h"

#define DEPTH		128
#define MODERATION	100
#define CHAIN		16

typedef struct Hello
{
	uint8_t		blob[RF_QP_BLOB_SIZE];
	uint64_t	addr;
	uint32_t	rkey;
} Hello;

static const RfProvider *provider = &rf_provider_verbs;
static RfDevice *device;
static RfCq *cq;
static RfQp *qp;
static RfRegion *region;
static Hello peer;

static void
die(const char *what, const RfError *error)
{
	fprintf(stderr, "verbs_bw: %s: %s\n", what, error != NULL ? error->message : strerror(errno));
	exit(1);
}

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void
connect_to_peer(int sock, size_t size)
{
	RfProviderConfig config = {.gid_index = -1,.timeout = 14,.retry_count = 7,.rnr_retry = 7,.memory_to_register = size};
	RfQpConfig	qp_config = {.max_wr = DEPTH,.max_recv = 512};
	RfError		error;
	RfDomain   *domain;
	Hello		mine;
	void	   *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		die("memory", NULL);
	if ((device = provider->device_open(&config, &error)) == NULL ||
		(domain = provider->domain_create(device, &error)) == NULL ||
		(cq = provider->cq_create(device, 2048, &error)) == NULL ||
		(region = provider->region_register(domain, memory, size, -1, &error)) == NULL ||
		(qp = provider->qp_create(domain, cq, &qp_config, &error)) == NULL)
		die("set-up", &error);
	memset(&mine, 0, sizeof(mine));
	provider->qp_local(qp, mine.blob);
	mine.addr = (uint64_t) (uintptr_t) memory;
	mine.rkey = region->rkey;
	if (write(sock, &mine, sizeof(mine)) != sizeof(mine) || read(sock, &peer, sizeof(peer)) != sizeof(peer))
		die("exchange", NULL);
	if (!provider->qp_connect(qp, peer.blob, -1, &error))
		die("connect", &error);
	if (write(sock, "c", 1) != 1 || read(sock, &mine, 1) != 1)
		die("exchange", NULL);
}

/* The target of plain writes has nothing to do; that of immediates takes them, asleep between as an engine is. */
static void
be_target(int sock, long count, bool imm)
{
	char		byte;
	RfWc		wc[64];

	while (imm && count > 0)
	{
		struct pollfd fd = {.fd = provider->cq_fd(cq),.events = POLLIN};
		int			n = provider->cq_poll(cq, wc, 64);

		if (n == 0)
		{
			provider->cq_arm(cq);
			n = provider->cq_poll(cq, wc, 64);
			if (n == 0)
				(void) poll(&fd, 1, 1000);
		}
		for (int i = 0; i < n; i++)
		{
			if (wc[i].opcode != RF_WC_RECV_IMM)
				die("the writer failed", NULL);
		}
		count -= n;
	}
	while (read(sock, &byte, 1) > 0)
		;
}

static double
be_writer(uint32_t size, long count, bool imm, int chain)
{
	RfSge		sge = {region->addr, size, region->lkey};
	RfWr		wrs[CHAIN];
	RfWc		wc[64];
	long		posted = 0;
	long		done = 0;
	double		began = now();

	while (done < count)
	{
		while (posted < count && posted - done + chain <= DEPTH)
		{
			int			n = 0;

			memset(wrs, 0, sizeof(wrs));
			for (; n < chain && posted < count; n++, posted++)
			{
				wrs[n].opcode = imm ? RF_WR_WRITE_IMM : RF_WR_WRITE;
				wrs[n].sge = &sge;
				wrs[n].num_sge = 1;
				wrs[n].remote_addr = peer.addr;
				wrs[n].rkey = peer.rkey;
				wrs[n].imm = (uint32_t) posted;
				wrs[n].wr_id = (uint64_t) posted + 1;
				wrs[n].signaled = (posted + 1) % MODERATION == 0 || posted + 1 == count;
				if (n > 0)
					wrs[n - 1].next = &wrs[n];
			}
			provider->qp_post(qp, wrs);
		}
		for (int i = 0, n = provider->cq_poll(cq, wc, 64); i < n; i++)
		{
			if (wc[i].opcode != RF_WC_WRITE || wc[i].status != RF_WC_SUCCESS)
				die("a write failed", NULL);
			done = (long) wc[i].wr_id;
		}
	}
	return (double) size * count / (now() - began) / 1048576;
}

int
main(int argc, char **argv)
{
	uint32_t	size = argc > 2 ? (uint32_t) atol(argv[1]) : 0;
	long		count = argc > 2 ? atol(argv[2]) : 0;
	bool		imm = argc > 3 && strcmp(argv[3], "imm") == 0;
	int			chain = argc > 3 && strcmp(argv[3], "chain") == 0 ? CHAIN : 1;
	int			socks[2];
	pid_t		child;

	if (size == 0 || count <= 0)
	{
		fprintf(stderr, "usage: verbs_bw SIZE COUNT [imm | chain]\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, socks) != 0 || (child = fork()) < 0)
		die("fork", NULL);
	if (child == 0)
	{
		close(socks[0]);
		connect_to_peer(socks[1], size);
		be_target(socks[1], count, imm);
		_exit(0);
	}
	close(socks[1]);
	connect_to_peer(socks[0], size);
	printf("%.2f\n", be_writer(size, count, imm, chain));
	close(socks[0]);
	waitpid(child, NULL, 0);
	return 0;
}
