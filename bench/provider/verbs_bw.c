/*
 * verbs_bw.c - write bandwidth of the verbs provider between two processes, measured as perftest's
 * ib_write_bw does it.
 *
 * The same queue depth (128), the same moderation of completions (one in 100), one message per
 * post, the same buffer every time, busy polling, MiB/s from the first post to the last completion.
 * The difference is the code in between: ours goes through provider.h.
 *
 * verbs_bw SIZE COUNT [imm | plain | chain]: prints one number. imm: every write announces itself
 * at the target. plain: the same, without provider.h: straight to libibverbs, on the device that
 * the provider would choose. chain: 16 writes per post.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs.h"

#include "rdma_fdw/provider.h"

#define DEPTH		128
#define MODERATION	100
#define CHAIN		16
#define RECEIVES	512
#define RECV_BATCH	32			/* as verbs.c has it */

typedef struct Hello
{
	uint8_t		blob[RF_QP_BLOB_SIZE];
	uint64_t	addr;
	uint32_t	rkey;
	uint32_t	qpn;			/* from here: plain */
	uint32_t	lid;
	union ibv_gid gid;
} Hello;

static const RfProvider *provider = &rf_provider_verbs;
static const RfProviderConfig config = {.gid_index = -1,.timeout = 14};
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
	RfQpConfig	qp_config = {.max_wr = DEPTH,.max_recv = RECEIVES};
	RfError		error;
	RfDomain   *domain;
	Hello		mine;
	void	   *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
							  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

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
	if (write(sock, &mine, sizeof(mine)) != sizeof(mine) ||
		read(sock, &peer, sizeof(peer)) != sizeof(peer))
		die("exchange", NULL);
	if (!provider->qp_connect(qp, peer.blob, -1, NULL, &error))
		die("connect", &error);
	if (write(sock, "c", 1) != 1 || read(sock, &mine, 1) != 1)
		die("exchange", NULL);
}

/*
 * The target of plain writes has nothing to do; the target of immediates takes them, asleep between
 * as an engine is.
 */
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

/* ---------- writes with an immediate, without the provider ---------- */

static struct ibv_cq *plain_cq;
static struct ibv_qp *plain_qp;

static void
plain_receives(int number)
{
	struct ibv_recv_wr list[RECV_BATCH] = {0};
	struct ibv_recv_wr *bad;

	for (int i = 1; i < number; i++)
		list[i - 1].next = &list[i];
	if (ibv_post_recv(plain_qp, list, &bad) != 0)
		die("ibv_post_recv", NULL);
}

static void
plain_connect(int sock, size_t size)
{
	void	   *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
							  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_comp_channel *channel;
	RfDomain   *domain;
	RfError		error;
	Hello		mine = {0};

	if (memory == MAP_FAILED)
		die("memory", NULL);
	if ((device = rf_verbs_device_open(&config, &error)) == NULL ||
		(domain = rf_verbs_domain_create(device, &error)) == NULL ||
		(region = rf_verbs_region_register(domain, memory, size, -1, &error)) == NULL)
		die("set-up", &error);
	if ((channel = ibv_create_comp_channel(device->context)) == NULL ||
		fcntl(channel->fd, F_SETFL, O_NONBLOCK) != 0 ||
		(plain_cq = ibv_create_cq(device->context, 2048, NULL, channel, 0)) == NULL)
		die("completion queue", NULL);

	struct ibv_qp_init_attr create = {
		.send_cq = plain_cq, .recv_cq = plain_cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,.max_recv_wr = RECEIVES,.max_send_sge = 1,.max_recv_sge = 1}
	};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
		.port_num = device->port,
	.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	if ((plain_qp = ibv_create_qp(domain->pd, &create)) == NULL ||
		ibv_modify_qp(plain_qp, &init,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
		die("queue pair", NULL);
	for (int i = 0; i < RECEIVES / RECV_BATCH; i++)
		plain_receives(RECV_BATCH);
	mine.addr = (uint64_t) (uintptr_t) memory;
	mine.rkey = region->rkey;
	mine.qpn = plain_qp->qp_num;
	mine.lid = device->port_attr.lid;
	mine.gid = device->gid;
	if (write(sock, &mine, sizeof(mine)) != sizeof(mine) ||
		read(sock, &peer, sizeof(peer)) != sizeof(peer))
		die("exchange", NULL);

	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = device->port_attr.active_mtu,
		.dest_qp_num = peer.qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.dlid = (uint16_t) peer.lid,
			.port_num = device->port,
			.is_global = device->ethernet,
	.grh = {.dgid = peer.gid, .sgid_index = (uint8_t) device->gid_index, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {
	.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	if (ibv_modify_qp(plain_qp, &rtr,
					  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0 ||
		ibv_modify_qp(plain_qp, &rts,
					  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0)
		die("connect", NULL);
	if (write(sock, "c", 1) != 1 || read(sock, &mine, 1) != 1)
		die("exchange", NULL);
}

static void
plain_target(int sock, long count)
{
	struct ibv_wc wc[64];
	struct ibv_cq *source;
	void	   *context;
	int			taken = 0;
	char		byte;

	while (count > 0)
	{
		struct pollfd fd = {.fd = plain_cq->channel->fd,.events = POLLIN};
		int			n = ibv_poll_cq(plain_cq, 64, wc);

		if (n == 0)
		{
			while (ibv_get_cq_event(plain_cq->channel, &source, &context) == 0)
				ibv_ack_cq_events(source, 1);
			if (ibv_req_notify_cq(plain_cq, 0) != 0)
				die("ibv_req_notify_cq", NULL);
			n = ibv_poll_cq(plain_cq, 64, wc);
			if (n == 0)
				(void) poll(&fd, 1, 1000);
		}
		for (int i = 0; i < n; i++)
		{
			if (wc[i].status != IBV_WC_SUCCESS)
				die(ibv_wc_status_str(wc[i].status), NULL);
			if (++taken % RECV_BATCH == 0)
				plain_receives(RECV_BATCH);
		}
		count -= n;
	}
	while (read(sock, &byte, 1) > 0)
		;
}

static double
plain_writer(uint32_t size, long count)
{
	struct ibv_sge sge = {(uint64_t) (uintptr_t) region->addr, size, region->lkey};
	struct ibv_wc wc[64];
	struct ibv_send_wr *bad;
	long		posted = 0;
	long		done = 0;
	double		began = now();

	while (done < count)
	{
		for (; posted < count && posted - done < DEPTH; posted++)
		{
			struct ibv_send_wr wr = {.wr_id = (uint64_t) posted + 1,
				.sg_list = &sge,
				.num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				.send_flags = (posted + 1) % MODERATION == 0 ||
				posted + 1 == count ?
				IBV_SEND_SIGNALED :
				0,
				.imm_data = htonl((uint32_t) posted),
			.wr.rdma = {peer.addr, peer.rkey}};

			if (ibv_post_send(plain_qp, &wr, &bad) != 0)
				die("ibv_post_send", NULL);
		}
		for (int i = 0, n = ibv_poll_cq(plain_cq, 64, wc); i < n; i++)
		{
			if (wc[i].status != IBV_WC_SUCCESS)
				die(ibv_wc_status_str(wc[i].status), NULL);
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
	bool		plain = argc > 3 && strcmp(argv[3], "plain") == 0;
	int			chain = argc > 3 && strcmp(argv[3], "chain") == 0 ? CHAIN : 1;
	int			socks[2];
	pid_t		child;

	if (size == 0 || count <= 0)
	{
		fprintf(stderr, "usage: verbs_bw SIZE COUNT [imm | plain | chain]\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, socks) != 0 || (child = fork()) < 0)
		die("fork", NULL);
	if (child == 0)
	{
		close(socks[0]);
		(plain ? plain_connect : connect_to_peer) (socks[1], size);
		if (plain)
			plain_target(socks[1], count);
		else
			be_target(socks[1], count, imm);
		_exit(0);
	}
	close(socks[1]);
	(plain ? plain_connect : connect_to_peer) (socks[0], size);
	printf("%.2f\n", plain ? plain_writer(size, count) : be_writer(size, count, imm, chain));
	close(socks[0]);
	waitpid(child, NULL, 0);
	return 0;
}
