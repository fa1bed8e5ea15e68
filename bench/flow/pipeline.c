/*
 * pipeline.c - what the flow machinery alone costs: two engines and two backends as four processes of one host, joined by the soft
 * provider, with a producer that writes every byte of its slots and a consumer that copies every byte out of its buffers.
 *
 *		cc -O2 -Iinclude -D_GNU_SOURCE bench/flow/pipeline.c src/engine/lane*.c src/flow/ring.c src/flow/slots.c src/provider/soft*.c src/provider/error.c -lpthread -lcrypto
 *		./a.out [buffers] [buffer kB] [MB to send] [poll us] [extra ns per kB on each side] [tcp]
 *
 * Prints GB/s, seconds of CPU of each process, sleeps and doorbells. The backends' sleep is an eventfd, which costs what a latch costs.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rdma_fdw/engine.h"

#define ARENA_SIZE	(64u << 20)

typedef struct Node
{
	RfShared   *shared;
	uint8_t    *arena;
	int			arena_fd;
	int			owner_fd;		/* eventfd of its backend */
} Node;

/* What the engines tell each other, in place of the handshake. */
typedef struct Meeting
{
	uint8_t		blob[2][RF_QP_BLOB_SIZE];
	uint32_t	rkey[2];
	uint32_t	lkey[2];
	atomic_int	ready[2];
	atomic_int	attached[2];
	atomic_int	stop;
	double		cpu[4];
	uint64_t	waits[2];
} Meeting;

static Node nodes[2];
static Meeting *meeting;
static int	socks[2];
static uint32_t slot_count = 4;
static uint32_t slot_size = 256 << 10;
static uint64_t total_bytes = 4096ull << 20;
static uint32_t poll_us = 30;
static uint32_t extra_ns = 0;

static double
seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void
fail(const char *what)
{
	fprintf(stderr, "pipeline: %s\n", what);
	exit(1);
}

static void
wake_owner(RfFlow *flow)
{
	uint64_t	one = 1;

	if (write(nodes[flow->owner_proc].owner_fd, &one, sizeof(one)) < 0)
		fail("wake");
}

static void
engine(int me)
{
	const RfProvider *soft = &rf_provider_soft;
	RfProviderConfig provider = {0};
	RfError		error = {0};
	RfDevice   *device = soft->device_open(&provider, &error);
	RfDomain   *domain = device ? soft->domain_create(device, &error) : NULL;
	RfLaneConfig config = {
		.shared = nodes[me].shared, .provider = soft, .device = device, .cq_depth = 1024, .max_wr = 128,
		.poll_batch = 32, .poll_us = poll_us, .probe_ms = 1000, .merge_limit = 1 << 20, .chain_limit = 16,
		.main_wake_fd = eventfd(0, 0), .wake_owner = wake_owner
	};
	RfQpConfig	qp_config = {.max_wr = 128, .max_recv = 512, .context = NULL};
	RfLaneThread *lane;
	RfRegion   *region;
	RfQp	   *qp;

	if (domain == NULL)
		fail(error.message);
	lane = rf_lane_start(&config, &error);
	if (lane == NULL)
		fail(error.message);
	region = soft->region_register(domain, nodes[me].arena, ARENA_SIZE, nodes[me].arena_fd, &error);
	qp = region ? soft->qp_create(domain, rf_lane_cq(lane), &qp_config, &error) : NULL;
	if (qp == NULL)
		fail(error.message);
	soft->qp_local(qp, meeting->blob[me]);
	meeting->rkey[me] = region->rkey;
	meeting->lkey[me] = region->lkey;
	atomic_store(&meeting->ready[me], 1);
	while (atomic_load(&meeting->ready[1 - me]) == 0)
		usleep(100);
	close(socks[1 - me]);
	if (!soft->qp_connect(qp, meeting->blob[1 - me], socks[me], &error))
		fail(error.message);
	rf_lane_add_connection(lane, 0, qp);

	{
		RfFlow	   *flow = &nodes[me].shared->flows[0];

		flow->role = me == 0 ? RF_FLOW_PRODUCER : RF_FLOW_CONSUMER;
		flow->key = 1;
		flow->owner_proc = me;
		flow->slot_count = slot_count;
		flow->slot_size = slot_size;
		flow->buffers = nodes[me].arena;
		flow->lkey = meeting->lkey[me];
		flow->remote_addr = (uint64_t) (uintptr_t) nodes[1 - me].arena;
		flow->remote_rkey = meeting->rkey[1 - me];
		atomic_store(&flow->state, RF_FLOW_OPEN);
		rf_lane_attach_flow(lane, 0);
		atomic_store(&meeting->attached[me], 1);
	}
	while (atomic_load(&meeting->stop) == 0)
		usleep(2000);
	meeting->cpu[me] = seconds(CLOCK_PROCESS_CPUTIME_ID);
	_exit(0);
}

static void
sleep_for(int me, RfSlotCursor *cursor, RfFlowWaiting waiting)
{
	RfFlow	   *flow = &nodes[me].shared->flows[0];
	uint64_t	value;

	atomic_store(&flow->waiting, waiting);
	if (rf_slots_ready(flow, cursor, waiting))
	{
		atomic_store(&flow->waiting, RF_WAIT_NONE);
		return;
	}
	meeting->waits[me]++;
	if (read(nodes[me].owner_fd, &value, sizeof(value)) < 0)
		fail("sleep");
}

/* Stands for the work of an encoder or an executor. */
static void
work(uint32_t bytes)
{
	struct timespec now;
	int64_t		until;

	if (extra_ns == 0)
		return;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	until = now.tv_sec * 1000000000ll + now.tv_nsec + (int64_t) extra_ns * (bytes >> 10);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (now.tv_sec * 1000000000ll + now.tv_nsec < until);
}

static void
ring(int me)
{
	rf_lane_ring(&nodes[me].shared->lanes[0], nodes[me].shared->flows, 0);
}

static void
producer(void)
{
	RfFlow	   *flow = &nodes[0].shared->flows[0];
	RfSlotCursor cursor = {0};
	uint32_t	room = slot_size - 64;
	char	   *source = malloc(room);

	memset(source, 7, room);
	for (uint64_t sent = 0; sent < total_bytes; sent += room)
	{
		uint8_t    *slot;

		while ((slot = rf_slot_fill(flow, &cursor)) == NULL)
			sleep_for(0, &cursor, RF_WAIT_SLOTS);
		memcpy(slot + 64, source, room);
		work(room);
		if (rf_slot_submit(flow, &cursor, room, RF_SLOT_FIRST | RF_SLOT_LAST, 1))
			ring(0);
	}
	while (rf_slot_fill(flow, &cursor) == NULL)
		sleep_for(0, &cursor, RF_WAIT_SLOTS);
	if (rf_slot_submit(flow, &cursor, 0, RF_SLOT_END, 0))
		ring(0);
	while (!rf_slot_acked(flow))
		sleep_for(0, &cursor, RF_WAIT_ACK);
	meeting->cpu[2] = seconds(CLOCK_PROCESS_CPUTIME_ID);
	_exit(0);
}

static void
consumer(void)
{
	RfFlow	   *flow = &nodes[1].shared->flows[0];
	RfSlotCursor cursor = {0};
	RfSlotHeader header;
	RfError		error = {0};
	uint8_t    *payload;
	char	   *target = malloc(slot_size);

	for (;;)
	{
		RfSlotRead	result = rf_slot_read(flow, &cursor, &header, &payload, &error);

		if (result == RF_READ_NOTHING)
		{
			sleep_for(1, &cursor, RF_WAIT_ANY);
			continue;
		}
		if (result == RF_READ_BAD)
			fail(error.message);
		if (result == RF_READ_END)
			break;
		memcpy(target, payload, header.length);
		__asm__ volatile("" : : "r" (target) : "memory");
		work(header.length);
		if (rf_slot_release(flow, &cursor))
			ring(1);
	}
	ring(1);
	meeting->cpu[3] = seconds(CLOCK_PROCESS_CPUTIME_ID);
	_exit(0);
}

static void
connect_sockets(int tcp)
{
	if (tcp)
	{
		struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		socklen_t	length = sizeof(address);
		int			listener = socket(AF_INET, SOCK_STREAM, 0);

		if (listener < 0 || bind(listener, (struct sockaddr *) &address, length) != 0 ||
			listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *) &address, &length) != 0)
			fail("listen");
		socks[0] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(socks[0], (struct sockaddr *) &address, length) != 0)
			fail("connect");
		socks[1] = accept(listener, NULL, NULL);
	}
	else if (socketpair(AF_UNIX, SOCK_STREAM, 0, socks) != 0)
		fail("socketpair");
	for (int i = 0; i < 2; i++)
		fcntl(socks[i], F_SETFL, O_NONBLOCK);
}

static pid_t
start(void (*body) (void), void (*engine_body) (int), int me)
{
	pid_t		pid = fork();

	if (pid == 0 && body != NULL)
		body();
	else if (pid == 0)
		engine_body(me);
	return pid;
}

int
main(int argc, char **argv)
{
	pid_t		engines[2];
	pid_t		backends[2];
	double		begin;
	double		elapsed;

	if (argc > 1)
		slot_count = (uint32_t) atoi(argv[1]);
	if (argc > 2)
		slot_size = (uint32_t) atoi(argv[2]) << 10;
	if (argc > 3)
		total_bytes = strtoull(argv[3], NULL, 0) << 20;
	if (argc > 4)
		poll_us = (uint32_t) atoi(argv[4]);
	if (argc > 5)
		extra_ns = (uint32_t) atoi(argv[5]);
	connect_sockets(argc > 6);

	meeting = mmap(NULL, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++)
	{
		nodes[i].shared = mmap(NULL, RF_SHARED_SIZE(1), PROT_READ | PROT_WRITE,
							   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		nodes[i].shared->max_flows = 1;
		nodes[i].shared->lanes[0].wake_fd = eventfd(0, EFD_NONBLOCK);
		nodes[i].owner_fd = eventfd(0, 0);
		nodes[i].arena_fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (ftruncate(nodes[i].arena_fd, ARENA_SIZE) != 0)
			fail("arena");
		fcntl(nodes[i].arena_fd, F_ADD_SEALS, F_SEAL_SHRINK);
		nodes[i].arena = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
							  nodes[i].arena_fd, 0);
		if (nodes[i].arena == MAP_FAILED)
			fail("arena");
	}
	for (int i = 0; i < 2; i++)
		engines[i] = start(NULL, engine, i);
	while (atomic_load(&meeting->attached[0]) == 0 || atomic_load(&meeting->attached[1]) == 0)
		usleep(1000);
	begin = seconds(CLOCK_MONOTONIC);
	backends[1] = start(consumer, NULL, 0);
	backends[0] = start(producer, NULL, 0);
	for (int i = 0; i < 2; i++)
	{
		int			status;

		waitpid(backends[i], &status, 0);
		if (status != 0)
			fail("a backend failed");
	}
	elapsed = seconds(CLOCK_MONOTONIC) - begin;
	atomic_store(&meeting->stop, 1);
	for (int i = 0; i < 2; i++)
		waitpid(engines[i], NULL, 0);

	printf("%2u x %4u kB, poll %2u us: %6.2f GB/s, %.3f s; CPU: engines %.3f %.3f, producer %.3f, consumer %.3f; "
		   "lane sleeps %llu %llu, doorbells %llu, requests %llu, merged %llu, backend waits %llu %llu\n",
		   slot_count, slot_size >> 10, poll_us, total_bytes / elapsed / 1e9, elapsed,
		   meeting->cpu[0], meeting->cpu[1], meeting->cpu[2], meeting->cpu[3],
		   (unsigned long long) atomic_load(&nodes[0].shared->lanes[0].sleeps),
		   (unsigned long long) atomic_load(&nodes[1].shared->lanes[0].sleeps),
		   (unsigned long long) atomic_load(&nodes[0].shared->lanes[0].doorbells),
		   (unsigned long long) atomic_load(&nodes[0].shared->lanes[0].work_requests),
		   (unsigned long long) atomic_load(&nodes[0].shared->flows[0].stats.merged),
		   (unsigned long long) meeting->waits[0], (unsigned long long) meeting->waits[1]);
	return 0;
}
