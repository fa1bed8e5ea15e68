/*
 * test_provider_life.c - the contract of provider.h, against every provider: ends of queue pairs,
 * peers and processes, sleeping and waking, and the main thread beside the lanes. Arguments: see
 * conformance.h.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "conformance.h"

/* ---------- the end of things ---------- */

static int
shared_mappings(void)
{
	FILE	   *maps = fopen("/proc/self/maps", "r");
	char		line[512];
	int			count = 0;

	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "memfd:") != NULL;
	fclose(maps);
	return count;
}

static void
test_destroy(void)
{
	Pair		pair;
	int			fds;
	int			mappings;

	/* librdmacm opens every device once, and keeps it. */
	pair_open(&pair, kind);
	pair_close(&pair);
	fds = open_fds();
	mappings = shared_mappings();
	for (int round = 0; round < 20; round++)
	{
		pair_open(&pair, kind);
		for (int i = 0; i < 50; i++)
		{
			send_one(&pair.a, &pair.b, 0, 100000, true, i, true, i);
			send_one(&pair.b, &pair.a, 0, 100000, true, i, true, i);
		}
		for (int i = 0; i < round; i++)
			pair_pump(&pair);
		pair.a.provider->qp_destroy(pair.a.qp);
		pair.a.qp = NULL;
		pair.a.logged = 0;
		pair_settle(&pair);
		if (pair.a.logged > 0)
			break;
		pair_close(&pair);
	}
	check(pair.a.logged == 0, "nothing of a destroyed queue pair is polled");
	check(open_fds() == fds, "no descriptor is left");
	check(shared_mappings() == mappings, "no mapping is left");
}

static void
test_peer_destroyed(void)
{
	Pair		pair;
	int			order = 0;
	double		deadline;

	pair_open(&pair, kind);
	for (int i = 0; i < 10; i++)
		send_one(&pair.b, &pair.a, 0, 1000, true, i, true, i);
	if (kind == PAIR_SIM)
		rf_sim_run(1000);
	else
		pair_wait(&pair, &pair.b, 10);
	pair.b.provider->qp_destroy(pair.b.qp);
	pair.b.qp = NULL;
	if (kind != PAIR_VERBS)
		await_disconnect(&pair, &pair.a);
	pair_settle(&pair);
	for (int i = 0; i < pair.a.logged; i++)
	{
		if (pair.a.log[i].opcode == RF_WC_RECV_IMM && pair.a.log[i].imm == order)
			order++;
	}
	if (kind != PAIR_VERBS)
		check(order == 10 && pair.a.logged == 11 && pair.a.log[10].opcode == RF_WC_DISCONNECTED,
			  "what the peer sent before it left is delivered, then one DISCONNECTED");
	pair.a.logged = 0;
	for (int i = 0; i < 5; i++)
		send_one(&pair.a, &pair.b, 0, 1000, true, i, i == 4, i);
	check(pair_wait(&pair, &pair.a, 5), "work posted to a peer that left completes");
	pair_settle(&pair);
	check(pair.a.logged <= 6 && count_of(&pair.a, RF_WC_WRITE, RF_WC_SUCCESS) == 0 &&
		  disconnects(&pair.a) <= 1,
		  "and fails");
	deadline = now_seconds() + PATIENCE;
	while (!pair.b.provider->domain_quiet(pair.b.domain) && now_seconds() < deadline)
		pair_pump(&pair);
	check(pair.b.provider->domain_quiet(pair.b.domain),
		  "the memory of who left is quiet when its peer has noticed");
	pair_close(&pair);
}

/* ---------- another process ---------- */

/* One end in a child; the blobs and the region cross by a socket of ours. */
typedef struct Introduction
{
	uint8_t		blob[RF_QP_BLOB_SIZE];
	uint64_t	addr;
	uint32_t	rkey;
	uint32_t	size;
} Introduction;

static void
introduce(End *end, int talk, Introduction *other)
{
	Introduction mine = {
	.addr = (uint64_t) (uintptr_t) end->memory, .rkey = end->region->rkey, .size = end->size};

	end->provider->qp_local(end->qp, mine.blob);
	if (send(talk, &mine, sizeof(mine), 0) != sizeof(mine) ||
		recv(talk, other, sizeof(*other), MSG_WAITALL) != sizeof(*other))
		die("introduce", strerror(errno));
}

static void
child_end(int talk, int sock)
{
	RfQpConfig	config = {.max_wr = 64, .max_recv = 64};
	End			end;
	Introduction other;
	RfError		error;
	RfWc		wc;
	Request		r;

	end_open(&end, kind, NULL, 4 << 20, &config);
	introduce(&end, talk, &other);
	if (!end.provider->qp_connect(end.qp, other.blob, sock, pair_key(kind, false), &error))
		die("child connect", error.message);
	memset(end.memory, 0x5c, 1 << 20);
	request(&r, &end, &end, 0, 0, 1 << 20);
	r.wr.remote_addr = other.addr;
	r.wr.rkey = other.rkey;
	r.wr.opcode = RF_WR_WRITE_IMM;
	r.wr.imm = 42;
	end.provider->qp_post(end.qp, &r.wr);
	for (;;)
		end.provider->cq_poll(end.cq, &wc, 1);
}

static void
test_peer_killed(void)
{
	Pair		pair = {.kind = kind};
	RfQpConfig	config = {.max_wr = 64, .max_recv = 16, .context = &pair.a};
	Introduction other;
	RfError		error = {0};
	int			talk[2];
	int			socks[2];
	pid_t		child;
	Request		r;
	bool		good;

	if (kind == PAIR_SIM)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) != 0)
		die("socketpair", strerror(errno));
	pair_sockets(kind, socks);
	child = fork();
	if (child == 0)
	{
		close(talk[0]);
		if (socks[0] >= 0)
			close(socks[0]);
		child_end(talk[1], socks[1]);
	}
	close(talk[1]);
	if (socks[1] >= 0)
		close(socks[1]);
	end_open(&pair.a, kind, NULL, 4 << 20, &config);
	introduce(&pair.a, talk[0], &other);
	if (!pair.a.provider->qp_connect(pair.a.qp, other.blob, socks[0], pair_key(kind, true), &error))
		die("connect", error.message);
	check(pair_wait(&pair, &pair.a, 1) && pair.a.log[0].imm == 42 &&
		  pair.a.memory[(1 << 20) - 1] == 0x5c,
		  "another process writes here");
	pair.a.logged = 0;
	kill(child, SIGSTOP);
	for (int i = 0; i < 60; i++)
	{
		request(&r, &pair.a, &pair.a, 0, 0, 1 << 20);
		r.wr.remote_addr = other.addr;
		r.wr.rkey = other.rkey;
		r.wr.opcode = RF_WR_WRITE_IMM;
		r.wr.wr_id = i;
		r.wr.signaled = true;
		pair.a.provider->qp_post(pair.a.qp, &r.wr);
	}
	pair_settle(&pair);
	check(disconnects(&pair.a) == 0, "a stopped peer is no failure");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	good = pair_wait(&pair, &pair.a, kind == PAIR_VERBS ? 60 : 61);
	pair_settle(&pair);
	check(good && disconnects(&pair.a) <= 1, "a killed peer: every work request ends");
	if (kind != PAIR_VERBS)
		check(disconnects(&pair.a) == 1 && pair.a.logged == 61, "and one DISCONNECTED");
	close(talk[0]);
	end_close(&pair.a);
}

/* ---------- waking up ---------- */

typedef struct Racer
{
	End		   *me;
	End		   *other;
	uint64_t	rounds;
	unsigned	seed;
	bool		first;
	bool		lost;
} Racer;

/*
 * Wait for one immediate the way a lane does: poll, arm, poll once more, sleep. False when nothing
 * wakes it.
 */
static bool
sleep_for_imm(End *me, uint32_t *imm)
{
	const RfProvider *provider = me->provider;
	RfWc		wc;

	for (;;)
	{
		struct pollfd waiting = {.fd = provider->cq_fd(me->cq), .events = POLLIN};

		while (provider->cq_poll(me->cq, &wc, 1) == 1)
		{
			if (wc.opcode == RF_WC_RECV_IMM)
			{
				*imm = wc.imm;
				return true;
			}
			if (wc.status != RF_WC_SUCCESS)
				return false;
		}
		provider->cq_arm(me->cq);
		if (provider->cq_poll(me->cq, &wc, 1) == 1)
		{
			if (wc.opcode == RF_WC_RECV_IMM)
			{
				*imm = wc.imm;
				return true;
			}
			continue;
		}
		if (poll(&waiting, 1, PATIENCE * 1000) == 0)
			return false;
	}
}

static void *
race_main(void *argument)
{
	Racer	   *racer = argument;
	uint32_t	imm;

	for (uint64_t i = 0; i < racer->rounds && !racer->lost; i++)
	{
		if (racer->first || i > 0)
		{
			for (volatile int gap = rand_r(&racer->seed) % 400; gap > 0; gap--)
				;
			send_one(racer->me, racer->other, 64, 64, true, (uint32_t) i, i % 32 == 0, i);
		}
		if (!sleep_for_imm(racer->me, &imm))
			racer->lost = true;
	}
	if (!racer->first)
		send_one(racer->me, racer->other, 64, 64, true, 0, true, 0);
	return NULL;
}

static void
test_race(void)
{
	Pair		pair;
	Racer		a = {.rounds = race_rounds, .seed = 1, .first = true};
	Racer		b = {.rounds = race_rounds, .seed = 2};
	pthread_t	thread;
	RfProviderStats stats;

	pair_open(&pair, kind);
	a.me = b.other = &pair.a;
	b.me = a.other = &pair.b;
	if (kind == PAIR_SIM)
		rf_sim_start();
	pthread_create(&thread, NULL, race_main, &b);
	race_main(&a);
	pthread_join(thread, NULL);
	if (kind == PAIR_SIM)
		rf_sim_stop();
	pair.a.provider->cq_stats(pair.a.cq, &stats);
	check(!a.lost && !b.lost, "arming and polling lose no wake-up");
	check(stats.events > 0, "and sleeping did happen");
	pair_close(&pair);
}

static void
test_idle(void)
{
	Pair		pair;
	struct rusage before;
	struct rusage after;
	struct pollfd waiting;
	RfWc		wc;
	double		used;
	bool		quiet = true;

	pair_open(&pair, kind);
	send_one(&pair.a, &pair.b, 0, 64, true, 1, true, 1);
	pair_wait(&pair, &pair.b, 1);
	pair_settle(&pair);
	waiting = (struct pollfd)
	{
		.fd = pair.b.provider->cq_fd(pair.b.cq), .events = POLLIN
	};
	getrusage(RUSAGE_SELF, &before);
	/* a wake-up left over from before is allowed once */
	for (int i = 0; i < 3; i++)
	{
		pair.b.provider->cq_arm(pair.b.cq);
		if (pair.b.provider->cq_poll(pair.b.cq, &wc, 1) != 0)
			quiet = false;
		if (poll(&waiting, 1, 100) != 0 && i > 0)
			quiet = false;
	}
	getrusage(RUSAGE_SELF, &after);
	used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
		(after.ru_utime.tv_usec - before.ru_utime.tv_usec) * 1e-6 +
		(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
		(after.ru_stime.tv_usec - before.ru_stime.tv_usec) * 1e-6;
	check(quiet && used < 0.15, "nothing happens, nothing wakes");

	pair.b.provider->cq_arm(pair.b.cq);
	pair.b.provider->cq_poll(pair.b.cq, &wc, 1);
	send_one(&pair.a, &pair.b, 0, 64, true, 2, true, 2);
	if (kind == PAIR_SIM)
		rf_sim_run(100);
	check(poll(&waiting, 1, PATIENCE * 1000) == 1, "an immediate wakes a sleeper");
	while (pair.b.provider->cq_poll(pair.b.cq, &wc, 1) != 1)
		if (kind == PAIR_SIM)
			rf_sim_step();
	pair.a.logged = 0;
	pair.b.provider->cq_arm(pair.b.cq);
	pair.b.provider->cq_poll(pair.b.cq, &wc, 1);
	pair.a.provider->qp_destroy(pair.a.qp);
	pair.a.qp = NULL;
	if (kind != PAIR_VERBS)
	{
		check(poll(&waiting, 1, PATIENCE * 1000) == 1, "so does the peer's end");
		await_disconnect(&pair, &pair.b);
		pair_settle(&pair);
		check(disconnects(&pair.b) == 1, "which is told once");
		pair.b.provider->cq_arm(pair.b.cq);
		pair_settle(&pair);
		pair.b.provider->cq_arm(pair.b.cq);
		check(poll(&waiting, 1, 50) == 0, "and does not wake again");
	}
	pair_close(&pair);

	/* one's own completion wakes as well when it comes after the arming */
	pair_open(&pair, kind);
	pair_settle(&pair);
	waiting.fd = pair.a.provider->cq_fd(pair.a.cq);
	pair.a.provider->cq_arm(pair.a.cq);
	pair.a.provider->cq_poll(pair.a.cq, &wc, 1);
	send_one(&pair.a, &pair.b, 0, 64, false, 0, true, 5);
	for (double deadline = now_seconds() + PATIENCE;
		 poll(&waiting, 1, 0) == 0 && now_seconds() < deadline;)
	{
		struct pollfd pause = {.fd = -1};

		if (kind == PAIR_SIM)
			rf_sim_step();
		pair.b.provider->cq_poll(pair.b.cq, &wc, 1);
		poll(&pause, 1, 5);
	}
	check(poll(&waiting, 1, 0) == 1, "a completion of one's own wakes");
	pair_close(&pair);
}

/* ---------- main thread and lanes at once ---------- */

typedef struct Worker
{
	Pair	   *pair;
	atomic_bool stop;
	bool		good;
	_Atomic uint64_t sent;
} Worker;

static void *
lane_main(void *argument)
{
	Worker	   *worker = argument;
	Pair	   *pair = worker->pair;
	uint64_t	done = 0;
	uint64_t	received = 0;

	worker->good = true;
	while (!atomic_load(&worker->stop) || received < worker->sent)
	{
		RfWc		wc[16];
		int			count;

		if (!atomic_load(&worker->stop) && worker->sent - done < 16)
		{
			worker->sent++;
			send_one(&pair->a, &pair->b, 4096 * (worker->sent % 16), 4096, true, worker->sent, true,
					 worker->sent);
		}
		count = pair->a.provider->cq_poll(pair->a.cq, wc, 16);
		for (int i = 0; i < count; i++)
		{
			worker->good &= wc[i].status == RF_WC_SUCCESS;
			done++;
		}
		count = pair->b.provider->cq_poll(pair->b.cq, wc, 16);
		for (int i = 0; i < count; i++)
		{
			worker->good &= wc[i].opcode == RF_WC_RECV_IMM && wc[i].imm == (uint32_t) ++received;
		}
		if (!worker->good)
			break;
	}
	return NULL;
}

static void
test_threads(void)
{
	Pair		pair;
	Worker		worker = {.pair = &pair};
	pthread_t	thread;
	RfError		error = {0};
	bool		good = true;
	int			fd;
	char	   *memory = shared_memory(1 << 20, &fd);

	pair_open(&pair, kind);
	if (kind == PAIR_SIM)
		rf_sim_start();
	pthread_create(&thread, NULL, lane_main, &worker);
	for (int i = 0; (i < 500 || atomic_load(&worker.sent) == 0) && good; i++)
	{
		RfRegion   *here = pair.a.provider->region_register(pair.a.domain, memory, 1 << 20, fd,
															&error);
		RfRegion   *there = pair.b.provider->region_register(pair.b.domain, memory, 1 << 20, fd,
															 &error);

		good = here != NULL && there != NULL;
		if (here)
			pair.a.provider->region_deregister(pair.a.domain, here);
		if (there)
			pair.b.provider->region_deregister(pair.b.domain, there);
		if (i % 16 == 0)
			usleep(200);
	}
	atomic_store(&worker.stop, true);
	pthread_join(thread, NULL);
	if (kind == PAIR_SIM)
		rf_sim_stop();
	check(good && worker.good && worker.sent > 0, "regions come and go while a lane sends");
	pair_close(&pair);
	munmap(memory, 1 << 20);
	close(fd);
}

/* ---------- all of it ---------- */

static void
all(void)
{
	test_destroy();
	test_peer_destroyed();
	test_peer_killed();
	test_idle();
	test_race();
	test_threads();
}

int
main(int argc, char **argv)
{
	return conformance_main(argc, argv, all);
}
