/*
 * test_soft_quiet.c - memory that was lent to a process of this host is lent again only when that
 * process has let go of it.
 *
 * The peer is a child with the real provider that writes into our segments without pause over two
 * queue pairs. It is stopped, wherever it happens to be, its queue pairs are destroyed here as an
 * engine does it whose peer_timeout is over, and the pool is asked for the memory.
 */
#include <signal.h>
#include <sys/wait.h>

#include "../../src/engine/pool.h"
#include "pair.h"

#define SEGMENTS		2
#define SEGMENT_SIZE	(4u << 20)
#define LANES			2

typedef struct Introduction
{
	uint8_t		blobs[LANES][RF_QP_BLOB_SIZE];
	uint64_t	addr[SEGMENTS];
	uint32_t	rkey[SEGMENTS];
} Introduction;

static RfShared *shared;

/*
 * Writes 0x5c into both segments, over both queue pairs, as long as they take it; then waits to be
 * killed.
 */
static void
child_main(int talk, int socks[LANES])
{
	const RfProvider *provider = &rf_provider_soft;
	RfQpConfig	config = {.max_wr = 16, .max_recv = 16};
	RfError		error;
	Introduction mine = {0};
	Introduction other;
	RfQp	   *qps[LANES];
	RfDevice   *device = provider->device_open(NULL, &error);
	RfDomain   *domain = provider->domain_create(device, &error);
	RfCq	   *cq = provider->cq_create(device, 64, &error);
	int			fd;
	char	   *memory = shared_memory(SEGMENT_SIZE, &fd);
	RfRegion   *region = provider->region_register(domain, memory, SEGMENT_SIZE, fd, &error);
	bool		alive = true;

	memset(memory, 0x5c, SEGMENT_SIZE);
	for (int i = 0; i < LANES; i++)
	{
		qps[i] = provider->qp_create(domain, cq, &config, &error);
		provider->qp_local(qps[i], mine.blobs[i]);
	}
	if (send(talk, &mine, sizeof(mine), 0) != sizeof(mine) ||
		recv(talk, &other, sizeof(other), MSG_WAITALL) != sizeof(other))
		die("child", strerror(errno));
	for (int i = 0; i < LANES; i++)
	{
		if (!provider->qp_connect(qps[i], other.blobs[i], socks[i], NULL, &error))
			die("child connect", error.message);
	}
	for (int round = 0; alive; round++)
	{
		RfSge		sge = {memory, SEGMENT_SIZE, region->lkey};
		RfWr		wr = {.opcode = RF_WR_WRITE,
			.num_sge = 1,
			.sge = &sge,
			.signaled = true,
			.remote_addr = other.addr[round / LANES % SEGMENTS],
		.rkey = other.rkey[round / LANES % SEGMENTS]};
		RfWc		wc;

		provider->qp_post(qps[round % LANES], &wr);
		while (alive && provider->cq_poll(cq, &wc, 1) == 1)
			alive = wc.status == RF_WC_SUCCESS;
	}
	/* the other queue pair hears of the end in its own time */
	for (;;)
	{
		RfWc		wc;

		provider->cq_poll(cq, &wc, 1);
	}
}

static void
wait_until_written(RfPool *pool, const RfBlock *block)
{
	volatile uint8_t *last = rf_pool_address(pool, block) + SEGMENT_SIZE - 1;
	double		deadline = now_seconds() + PATIENCE;

	while (*last != 0x5c && now_seconds() < deadline)
		;
}

/* `woken`: the peer goes on after a while; else it is killed as it lies there. */
static void
run(bool woken)
{
	const RfProvider *provider = &rf_provider_soft;
	RfQpConfig	config = {.max_wr = 16, .max_recv = 16};
	RfError		error;
	RfDevice   *device = provider->device_open(NULL, &error);
	RfDomain   *domain = provider->domain_create(device, &error);
	RfDomain   *next_domain = provider->domain_create(device, &error);
	RfCq	   *cq = provider->cq_create(device, 64, &error);
	RfPool	   *pool = rf_pool_create(shared, provider);
	RfBlock		blocks[SEGMENTS];
	RfBlock		again;
	RfQp	   *qps[LANES];
	Introduction mine = {0};
	Introduction other;
	int			talk[2];
	int			here[LANES];
	int			there[LANES];
	pid_t		child;
	int			status;
	double		deadline;
	bool		refused = true;
	bool		clean = true;
	RfWc		wc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) != 0)
		die("socketpair", strerror(errno));
	for (int i = 0; i < LANES; i++)
	{
		int			socks[2];

		pair_sockets(PAIR_SHM, socks);
		here[i] = socks[0];
		there[i] = socks[1];
	}
	child = fork();
	if (child == 0)
	{
		close(talk[0]);
		for (int i = 0; i < LANES; i++)
			close(here[i]);
		child_main(talk[1], there);
	}
	close(talk[1]);
	for (int i = 0; i < LANES; i++)
	{
		close(there[i]);
		qps[i] = provider->qp_create(domain, cq, &config, &error);
		provider->qp_local(qps[i], mine.blobs[i]);
	}
	for (int i = 0; i < SEGMENTS; i++)
	{
		if (rf_pool_take(pool, 0, domain, SEGMENT_SIZE, &blocks[i], &error) != RF_POOL_TAKEN)
			die("rf_pool_take", error.message);
		memset(rf_pool_address(pool, &blocks[i]), 0, SEGMENT_SIZE);
		mine.addr[i] = (uint64_t) (uintptr_t) rf_pool_address(pool, &blocks[i]);
		mine.rkey[i] = rf_pool_region(pool, &blocks[i], 0)->rkey;
	}
	if (recv(talk[0], &other, sizeof(other), MSG_WAITALL) != sizeof(other))
		die("recv", strerror(errno));
	for (int i = 0; i < LANES; i++)
	{
		if (!provider->qp_connect(qps[i], other.blobs[i], here[i], NULL, &error))
			die("connect", error.message);
	}
	if (send(talk[0], &mine, sizeof(mine), 0) != sizeof(mine))
		die("send", strerror(errno));
	for (int i = 0; i < SEGMENTS; i++)
		wait_until_written(pool, &blocks[i]);

	kill(child, SIGSTOP);
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		die("waitpid", strerror(errno));
	while (provider->cq_poll(cq, &wc, 1) > 0)
		;
	for (int i = 0; i < LANES; i++)
		provider->qp_destroy(qps[i]);
	for (int i = 0; i < SEGMENTS; i++)
		rf_pool_return(pool, &blocks[i]);
	rf_pool_peer_gone(pool, 0, domain);
	check(atomic_load(&shared->segments_held) == SEGMENTS,
		  "the segments of a stopped peer are held");
	for (int i = 0; i < 100; i++)
		refused &= rf_pool_take(pool, 1, next_domain, 4096, &again, &error) == RF_POOL_NONE_FREE &&
			rf_pool_take(pool, 0, next_domain, 4096, &again, &error) == RF_POOL_NONE_FREE;
	check(refused, "and lent to nobody");

	kill(child, woken ? SIGCONT : SIGKILL);
	deadline = now_seconds() + PATIENCE;
	while (!rf_pool_settle(pool) && now_seconds() < deadline)
		;
	check(atomic_load(&shared->segments_held) == 0,
		  woken ? "until it goes on" : "until it is dead");
	for (int i = 0; i < SEGMENTS; i++)
	{
		if (rf_pool_take(pool, 1, next_domain, SEGMENT_SIZE, &blocks[i], &error) != RF_POOL_TAKEN)
			die("rf_pool_take", "not reusable");
	}
	for (int times = 0; times < 20; times++)
	{
		for (int i = 0; i < SEGMENTS; i++)
		{
			uint8_t    *bytes = rf_pool_address(pool, &blocks[i]);

			clean &= bytes[0] == 0 && memcmp(bytes, bytes + 1, SEGMENT_SIZE - 1) == 0;
		}
		usleep(1000);
	}
	check(clean, "and then nothing of it arrives any more");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	rf_pool_destroy(pool);
	provider->domain_destroy(next_domain);
	provider->cq_destroy(cq);
	provider->device_close(device);
	close(talk[0]);
}

int
main(void)
{
	shared = aligned_alloc(64, sizeof(RfShared));
	memset((void *) shared, 0, sizeof(RfShared));
	shared->segment_count = SEGMENTS;
	shared->segment_size = SEGMENT_SIZE;
	for (int i = 0; i < SEGMENTS; i++)
	{
		shared->segments[i].addr = (uint8_t *) shared_memory(SEGMENT_SIZE, &shared->segments[i].fd);
		shared->segments[i].peer = RF_NO_PEER;
	}
	for (int i = 0; i < 2; i++)
		shared->peers[i].node.words[0] = i + 1;
	atomic_store(&shared->engine_epoch, 2);
	for (int i = 0; i < 6; i++)
		run(i % 2 == 0);
	free(shared);
	return failures > 0;
}
