/*
 * bench_soft.c - the software provider alone, between two processes of this machine, against the
 * bare operations under it.
 *
 *   put     one process writes messages into memory of the other, which only counts them:
 *             memcpy    memcpy into a shared mapping and a counter
 *             shm       the software provider over shared memory, WRITE_IMM
 *             socket    plain TCP, write() of a message and read() of it into place
 *             tcp       the software provider over TCP, WRITE_IMM
 *   buffers the reader copies every message out and then gives its buffer back; 1, 2 and 4 receive
 *   buffers (shm)
 *
 * All variants of a size run in turn, round after round; the ratios of one round are compared, and
 * the median of these is printed. Output: one line per variant and size: test, variant, bytes, GB/s
 * (median), CPU seconds per GB (median), ratio; then the best GB/s of all rounds and the ratio of
 * bests, which other load on the machine disturbs least.
 *
 * Arguments: [rounds] [milliseconds per run].
 */
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../../test/unit/pair.h"

#define MAX_ROUNDS	101
#define DEPTH		128			/* messages in flight */
#define SLOTS		4			/* places they go to, in turn */
#define WARM_UP		(2 * SLOTS) /* messages that are not timed: they meet pages not mapped yet */
#define LAST		0xffffffffu

typedef enum Variant
{
	MEMCPY,
	SHM,
	SOCKET,
	TCP,
	BUFFERS_1,
	BUFFERS_2,
	BUFFERS_4
} Variant;

static const char *const variant_name[] = {"memcpy", "shm", "socket", "tcp",
	"1 buffer", "2 buffers", "4 buffers"};

/* Parent and child, in shared memory. */
typedef struct Shared
{
	alignas(64) _Atomic uint64_t written;	/* memcpy: sender */
				alignas(64) _Atomic uint64_t released;	/* memcpy: receiver */
				alignas(64) _Atomic int ready;	/* receiver */
	double		started;		/* sender, before its first message after the warm-up */
	double		ended;			/* receiver, at the last message */
	double		child_cpu;		/* receiver */
} Shared;

typedef struct Result
{
	double		bandwidth;		/* GB/s */
	double		cpu;			/* seconds per GB */
} Result;

static Shared *shared;
static double run_seconds = 0.1;
static size_t size;

static double
cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
		(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* One more fruitless look. The machine may have fewer idle cores than we have processes. */
static inline void
relax(unsigned *idle)
{
	if (++*idle % 256 == 0)
		sched_yield();
	else
		__builtin_ia32_pause();
}

/* ---------- bare memcpy ---------- */

static void
memcpy_send(char *memory, char *source)
{
	double		end = now_seconds() + run_seconds;
	unsigned	idle = 0;
	uint64_t	number = 0;
	bool		last = false;

	for (; !last; number++)
	{
		if (number == WARM_UP)
			shared->started = now_seconds();
		last = (number & 15) == 15 && now_seconds() > end;
		while (number - atomic_load_explicit(&shared->released, memory_order_acquire) >= DEPTH)
			relax(&idle);
		memcpy(memory + (number % SLOTS) * size, source + (number % SLOTS) * size, size);
		atomic_store_explicit(&shared->written, (number + 1) | (last ? 1ull << 63 : 0),
							  memory_order_release);
	}
}

static uint64_t
memcpy_receive(void)
{
	unsigned	idle = 0;
	uint64_t	seen = 0;

	for (;;)
	{
		uint64_t	written = atomic_load_explicit(&shared->written, memory_order_acquire);

		if ((written & ~(1ull << 63)) == seen)
		{
			relax(&idle);
			continue;
		}
		seen = written & ~(1ull << 63);
		atomic_store_explicit(&shared->released, seen, memory_order_release);
		if (written >> 63)
			return seen;
	}
}

/* ---------- plain TCP ---------- */

static void
socket_send(int sock, char *source)
{
	double		end = now_seconds() + run_seconds;
	uint64_t	number = 0;

	for (;; number++)
	{
		size_t		done = 0;

		if (number == WARM_UP)
			shared->started = now_seconds();
		while (done < size)
		{
			ssize_t		n = write(sock, source + (number % SLOTS) * size + done, size - done);

			if (n < 0)
				die("write", strerror(errno));
			done += n;
		}
		if ((number & 15) == 15 && now_seconds() > end)
			break;
	}
	shutdown(sock, SHUT_WR);
}

static uint64_t
socket_receive(int sock, char *memory)
{
	uint64_t	number = 0;

	for (;; number++)
	{
		size_t		done = 0;

		while (done < size)
		{
			ssize_t		n = read(sock, memory + (number % SLOTS) * size + done, size - done);

			if (n < 0)
				die("read", strerror(errno));
			if (n == 0)
				return number;
			done += n;
		}
	}
}

/* ---------- the provider ---------- */

static void
post(End *end, const RfSge *sge, uint64_t remote, uint32_t rkey, uint32_t imm, bool signaled)
{
	RfWr		wr = {
		.opcode = RF_WR_WRITE_IMM,
		.signaled = signaled,
		.num_sge = sge ? 1 : 0,
		.sge = sge,
		.remote_addr = remote,
		.rkey = rkey,
		.imm = imm
	};

	end->provider->qp_post(end->qp, &wr);
}

/*
 * Poll as lanes do: try for a while, then arm, look once more and sleep. Against memcpy, whose
 * reader spins, we spin in the same way. Returns completions.
 */
static int
poll_lane(End *end, RfWc *wc, int max, bool spin)
{
	double		until = 0;
	unsigned	looks = 0;

	while (spin)
	{
		int			count = end->provider->cq_poll(end->cq, wc, max);

		if (count > 0)
			return count;
		relax(&looks);
	}
	for (unsigned idle = 1;; idle++)
	{
		struct pollfd waiting = {.fd = end->provider->cq_fd(end->cq), .events = POLLIN};
		int			count = end->provider->cq_poll(end->cq, wc, max);

		if (count > 0)
			return count;
		if (idle % 16 != 0)
			continue;
		if (until == 0)
			until = now_seconds() + 40e-6;
		else if (now_seconds() > until)
		{
			end->provider->cq_arm(end->cq);
			count = end->provider->cq_poll(end->cq, wc, max);
			if (count > 0)
				return count;
			poll(&waiting, 1, 1000);
			until = 0;
		}
	}
}

/* `buffers` 0: no credits, only completions limit the data in flight. */
static void
provider_send(End *end, uint64_t remote, uint32_t rkey, int buffers, bool spin)
{
	double		stop = now_seconds() + run_seconds;
	int			slots = buffers ? buffers : SLOTS;
	uint64_t	number = 0;
	uint64_t	finished = 0;
	bool		last = false;
	RfWc		wc[32];

	while (finished < number || !last)
	{
		while (!last && number - finished < (buffers ? buffers : DEPTH))
		{
			RfSge		sge = {end->memory + (number % slots) * size, (uint32_t) size,
			end->region->lkey};

			if (number == WARM_UP)
				shared->started = now_seconds();
			last = (number & 15) == 15 && now_seconds() > stop;
			post(end, &sge, remote + (number % slots) * size, rkey, last ? LAST : 0,
				 buffers ? number % 16 == 0 : number % 4 == 3);
			number++;
			if (last && !buffers)
				break;
		}
		if (last)
			break;
		for (int i = 0, count = poll_lane(end, wc, 32, spin); i < count; i++)
		{
			if (wc[i].status != RF_WC_SUCCESS)
				die("bench", "work request failed");
			if (buffers)
				finished += wc[i].opcode == RF_WC_RECV_IMM;
			else
				finished += 4;
		}
	}
}

static uint64_t
provider_receive(End *end, int buffers, char *sink, bool spin)
{
	uint64_t	number = 0;
	RfWc		wc[32];

	for (;;)
	{
		for (int i = 0, count = poll_lane(end, wc, 32, spin); i < count; i++)
		{
			if (wc[i].opcode == RF_WC_DISCONNECTED)
				die("bench", "peer left early");
			if (wc[i].opcode != RF_WC_RECV_IMM)
				continue;
			if (buffers)
			{
				memcpy(sink + (number % SLOTS) * size, end->memory + (number % buffers) * size,
					   size);
				post(end, NULL, 0, 0, 0, number % 16 == 0);
			}
			number++;
			if (wc[i].imm == LAST)
				return number;
		}
	}
}

/* ---------- one run: a child receives, we send ---------- */

typedef struct Hello
{
	uint8_t		blob[RF_QP_BLOB_SIZE];
	uint64_t	addr;
	uint32_t	rkey;
} Hello;

static Hello
introduce(End *end, int talk)
{
	Hello		mine = {.addr = (uint64_t) (uintptr_t) end->memory, .rkey = end->region->rkey};
	Hello		other;

	end->provider->qp_local(end->qp, mine.blob);
	if (send(talk, &mine, sizeof(mine), 0) != sizeof(mine) ||
		recv(talk, &other, sizeof(other), MSG_WAITALL) != sizeof(other))
		die("introduce", strerror(errno));
	return other;
}

static Hello
provider_open(End *end, PairKind kind, int talk, int sock)
{
	RfQpConfig	config = {.max_wr = DEPTH * 2, .max_recv = DEPTH};
	RfError		error;
	Hello		other;

	end_open(end, kind, NULL, SLOTS * size, &config);
	memset(end->memory, 1, SLOTS * size);
	other = introduce(end, talk);
	if (!end->provider->qp_connect(end->qp, other.blob, sock, NULL, &error))
		die("connect", error.message);
	return other;
}

static int
buffers_of(Variant variant)
{
	return variant == BUFFERS_1 ? 1 : variant == BUFFERS_2 ? 2 : variant == BUFFERS_4 ? 4 : 0;
}

static void
receiver(Variant variant, char *memory, int talk, int sock)
{
	char	   *sink = aligned_alloc(4096, SLOTS * size);
	uint64_t	number = 0;
	double		cpu;
	End			end;

	memset(sink, 2, SLOTS * size);
	if (variant != MEMCPY && variant != SOCKET)
		provider_open(&end, variant == TCP ? PAIR_TCP : PAIR_SHM, talk, sock);
	cpu = cpu_seconds();
	atomic_store(&shared->ready, 1);
	if (variant == MEMCPY)
		number = memcpy_receive();
	else if (variant == SOCKET)
		number = socket_receive(sock, memory);
	else
		number = provider_receive(&end, buffers_of(variant), sink, variant == SHM);
	shared->ended = now_seconds();
	shared->child_cpu = cpu_seconds() - cpu;
	atomic_store(&shared->released, number);
	_exit(0);
}

static Result
run(Variant variant)
{
	/*
	 * memory of the same sort on all sides: huge pages under one of them would decide the
	 * comparison
	 */
	int			fds[2];
	char	   *memory = shared_memory(SLOTS * size, &fds[0]);
	char	   *source = shared_memory(SLOTS * size, &fds[1]);
	int			talk[2];
	int			socks[2] = {-1, -1};
	pid_t		child;
	double		cpu;
	double		bytes;
	Hello		other = {.rkey = 0};
	End			end;

	memset(memory, 3, SLOTS * size);
	memset(source, 4, SLOTS * size);
	memset(shared, 0, sizeof(*shared));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, talk) != 0)
		die("socketpair", strerror(errno));
	if (variant != MEMCPY)
		pair_sockets(variant == SOCKET || variant == TCP ? PAIR_TCP : PAIR_SHM, socks);
	if (variant == SOCKET)
	{
		int			one = 1;

		for (int i = 0; i < 2; i++)
		{
			fcntl(socks[i], F_SETFL, fcntl(socks[i], F_GETFL) & ~O_NONBLOCK);
			setsockopt(socks[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		}
	}
	child = fork();
	if (child == 0)
	{
		close(talk[0]);
		close(socks[0]);
		receiver(variant, memory, talk[1], socks[1]);
	}
	close(talk[1]);
	close(socks[1]);
	if (variant != MEMCPY && variant != SOCKET)
		other = provider_open(&end, variant == TCP ? PAIR_TCP : PAIR_SHM, talk[0], socks[0]);
	while (!atomic_load(&shared->ready))
		sched_yield();
	cpu = cpu_seconds();
	if (variant == MEMCPY)
		memcpy_send(memory, source);
	else if (variant == SOCKET)
		socket_send(socks[0], source);
	else
		provider_send(&end, other.addr, other.rkey, buffers_of(variant), variant == SHM);
	/* data that the peer had no room for yet moves only while we poll */
	while (waitpid(child, NULL, WNOHANG) == 0)
	{
		RfWc		wc[8];

		if (variant != MEMCPY && variant != SOCKET)
			end.provider->cq_poll(end.cq, wc, 8);
		sched_yield();
	}
	cpu = cpu_seconds() - cpu;
	bytes = (double) (atomic_load(&shared->released) - WARM_UP) * size;
	if (variant != MEMCPY && variant != SOCKET)
		end_close(&end);
	else if (variant == SOCKET)
		close(socks[0]);
	close(talk[0]);
	munmap(memory, SLOTS * size);
	munmap(source, SLOTS * size);
	close(fds[0]);
	close(fds[1]);
	return (Result)
	{
		bytes / (shared->ended - shared->started) / 1e9, (cpu + shared->child_cpu) / (bytes / 1e9)
	};
}

/* ---------- tables ---------- */

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

static double
median(const double *values, int count)
{
	double		sorted[MAX_ROUNDS];

	memcpy(sorted, values, count * sizeof(double));
	qsort(sorted, count, sizeof(double), compare);
	return sorted[count / 2];
}

static double
best(const double *values, int count)
{
	double		found = values[0];

	for (int i = 1; i < count; i++)
		found = values[i] > found ? values[i] : found;
	return found;
}

/* Variants in turn; each is compared with `base` of the same round. */
static void
measure(const char *test, const Variant *variants, const int *base, int count, int rounds)
{
	static double bandwidth[4][MAX_ROUNDS];
	static double cpu[4][MAX_ROUNDS];
	static double ratio[4][MAX_ROUNDS];

	for (int round = 0; round < rounds; round++)
	{
		for (int v = 0; v < count; v++)
		{
			Result		result = run(variants[v]);

			bandwidth[v][round] = result.bandwidth;
			cpu[v][round] = result.cpu;
		}
		for (int v = 0; v < count; v++)
			ratio[v][round] = bandwidth[v][round] / bandwidth[base[v]][round];
	}
	for (int v = 0; v < count; v++)
		printf("%s\t%s\t%zu\t%.2f\t%.3f\t%.2f\t%.2f\t%.2f\n", test, variant_name[variants[v]], size,
			   median(bandwidth[v], rounds), median(cpu[v], rounds), median(ratio[v], rounds),
			   best(bandwidth[v], rounds),
			   best(bandwidth[v], rounds) / best(bandwidth[base[v]], rounds));
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	static const size_t sizes[] = {4096, 16384, 65536, 262144, 524288, 1048576};
	static const Variant put[] = {MEMCPY, SHM, SOCKET, TCP};
	static const int put_base[] = {0, 0, 2, 2};
	static const Variant buffers[] = {BUFFERS_1, BUFFERS_2, BUFFERS_4};
	static const int buffers_base[] = {0, 0, 0};
	int			rounds = argc > 1 ? atoi(argv[1]) : 9;

	if (rounds < 1 || rounds > MAX_ROUNDS)
		die("rounds", "1 to 101");
	if (argc > 2)
		run_seconds = atof(argv[2]) / 1000;
	signal(SIGPIPE, SIG_IGN);
	shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	printf("test\tvariant\tbytes\tGB/s\tCPU s/GB\tratio\tbest GB/s\tratio of bests\n");
	for (int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		size = sizes[i];
		measure("put", put, put_base, 4, rounds);
		if (size >= 65536)
			measure("buffers", buffers, buffers_base, 3, rounds);
	}
	return 0;
}
