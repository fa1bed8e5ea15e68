/*
 * pair.h - two connected queue pairs of one process, for tests and benches of providers; how those
 * tests report, and which state they look at.
 *
 * Header only. Keeps the completions that both ends polled in logs, and drives the simulated fabric
 * where there is one.
 */
#ifndef RF_PAIR_H
#define RF_PAIR_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rdma_fdw/provider.h"
#include "sim.h"

typedef enum PairKind
{
	PAIR_SIM,
	PAIR_SHM,
	PAIR_TCP,
	PAIR_STREAM,				/* the stream protocol over a local socket */
	PAIR_TLS,					/* and over TCP, under TLS whose keys change often */
	PAIR_VERBS
} PairKind;

#define LOG_MAX 100000
#define PATIENCE 60				/* seconds until something that must come has failed to; only
								 * reached on failure */

typedef struct End
{
	const RfProvider *provider;
	RfDevice   *device;
	RfDomain   *domain;
	RfCq	   *cq;
	RfQp	   *qp;
	char	   *memory;
	size_t		size;
	int			fd;
	RfRegion   *region;
	RfWc	   *log;
	int			logged;
	bool		cq_shared;
} End;

typedef struct Pair
{
	PairKind	kind;
	End			a;
	End			b;
} Pair;

static const char *check_prefix;	/* prefix of the names of checks, or NULL */
static int	test_number;
static int	failures;

static inline void
check(bool good, const char *name)
{
	printf("%s %d - %s%s%s\n", good ? "ok" : "not ok", ++test_number,
		   check_prefix ? check_prefix : "", check_prefix ? ": " : "", name);
	fflush(stdout);
	if (!good)
		failures++;
}

static inline double
now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static inline void
die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(2);
}

static inline const RfProvider *
pair_provider(PairKind kind)
{
	switch (kind)
	{
		case PAIR_SIM:
			return &rf_provider_sim;
#ifdef WITH_VERBS
		case PAIR_VERBS:
			return &rf_provider_verbs;
#endif
		default:
			return &rf_provider_soft;
	}
}

/* Descriptors of this process, to see that all are closed. */
static inline int
open_fds(void)
{
	DIR		   *directory = opendir("/proc/self/fd");
	int			count = 0;

	while (readdir(directory) != NULL)
		count++;
	closedir(directory);
	return count;
}

/* A memfd that can be sealed further. */
static inline int
memfd(size_t size, int seals)
{
	int			fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, size) != 0 || (seals && fcntl(fd, F_ADD_SEALS, seals) != 0))
		die("memfd", strerror(errno));
	return fd;
}

/* A memfd and its mapping. */
static inline char *
shared_memory(size_t size, int *fd)
{
	char	   *memory;

	*fd = memfd(size, 0);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (memory == MAP_FAILED)
		die("mmap", strerror(errno));
	return memory;
}

/* Two connected non-blocking sockets, or -1 twice where the provider needs no sockets. */
static inline void
pair_sockets(PairKind kind, int socks[2])
{
	socks[0] = socks[1] = -1;
	if (kind == PAIR_SHM || kind == PAIR_STREAM)
	{
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks) != 0)
			die("socketpair", strerror(errno));
	}
	else if (kind == PAIR_TCP || kind == PAIR_TLS)
	{
		struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		socklen_t	length = sizeof(address);
		int			listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (listener < 0 || bind(listener, (struct sockaddr *) &address, length) != 0 ||
			listen(listener, 1) != 0 ||
			getsockname(listener, (struct sockaddr *) &address, &length) != 0)
			die("listen", strerror(errno));
		socks[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(socks[0], (struct sockaddr *) &address, length) != 0)
			die("connect", strerror(errno));
		socks[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		fcntl(socks[0], F_SETFL, fcntl(socks[0], F_GETFL) | O_NONBLOCK);
		close(listener);
	}
}

static inline void
end_open(End *end, PairKind kind, End *shared, size_t size, const RfQpConfig *config)
{
	RfProviderConfig settings = {.gid_index = -1, .timeout = 14,
	.traffic_class = 0, .memory_to_register = size, .soft_tcp_only = kind == PAIR_STREAM};
	RfError		error = {0};

	memset(end, 0, sizeof(*end));
	end->provider = pair_provider(kind);
	end->size = size;
	end->memory = shared_memory(size, &end->fd);
	end->log = calloc(LOG_MAX, sizeof(RfWc));
	end->device = shared ? shared->device : end->provider->device_open(&settings, &error);
	if (end->device == NULL)
		die("device_open", error.message);
	end->domain = end->provider->domain_create(end->device, &error);
	if (end->domain == NULL)
		die("domain_create", error.message);
	end->cq_shared = shared != NULL;
	end->cq = shared ? shared->cq : end->provider->cq_create(end->device, 4096, &error);
	if (end->cq == NULL)
		die("cq_create", error.message);
	end->region = end->provider->region_register(end->domain, end->memory, size, end->fd, &error);
	if (end->region == NULL)
		die("region_register", error.message);
	end->qp = end->provider->qp_create(end->domain, end->cq, config, &error);
	if (end->qp == NULL)
		die("qp_create", error.message);
}

/* The key of one end; one of the two is the first. */
static inline const RfTlsKey *
pair_key(PairKind kind, bool first)
{
	static const RfTlsKey keys[] = {
		{.secret = "both ends know this", .client = false, .rekey_after = 1 << 20},
		{.secret = "both ends know this", .client = true, .rekey_after = 3 << 20}
	};

	return kind == PAIR_TLS ? &keys[first] : NULL;
}

static inline void
end_connect(End *end, RfQp *peer, int sock, const RfTlsKey *key)
{
	uint8_t		blob[RF_QP_BLOB_SIZE];
	RfError		error = {0};

	end->provider->qp_local(peer, blob);
	if (!end->provider->qp_connect(end->qp, blob, sock, key, &error))
		die("qp_connect", error.message);
}

/* `shared`: both ends on one completion queue, so of one device. */
static inline void
pair_open_as(Pair *pair, PairKind kind, size_t size, int max_wr, int max_recv, bool shared)
{
	RfQpConfig	config = {.max_wr = max_wr, .max_recv = max_recv};
	int			socks[2];

	pair->kind = kind;
	config.context = &pair->a;
	end_open(&pair->a, kind, NULL, size, &config);
	config.context = &pair->b;
	end_open(&pair->b, kind, shared ? &pair->a : NULL, size, &config);
	pair_sockets(kind, socks);
	end_connect(&pair->a, pair->b.qp, socks[0], pair_key(kind, true));
	end_connect(&pair->b, pair->a.qp, socks[1], pair_key(kind, false));
}

static inline void
pair_open(Pair *pair, PairKind kind)
{
	pair_open_as(pair, kind, 16 << 20, 256, 256, false);
}

static inline void
end_close(End *end)
{
	if (end->qp)
		end->provider->qp_destroy(end->qp);
	if (end->region)
		end->provider->region_deregister(end->domain, end->region);
	end->provider->domain_destroy(end->domain);
	if (!end->cq_shared)
	{
		end->provider->cq_destroy(end->cq);
		end->provider->device_close(end->device);
	}
	munmap(end->memory, end->size);
	close(end->fd);
	free(end->log);
}

static inline void
pair_close(Pair *pair)
{
	if (pair->a.qp)
		pair->a.provider->qp_destroy(pair->a.qp);
	pair->a.qp = NULL;
	end_close(&pair->b);
	end_close(&pair->a);
}

/* One round: let the fabric make a step, poll both ends. */
static inline int
pair_pump(Pair *pair)
{
	RfWc		wc[32];
	int			count;
	int			total = 0;

	if (pair->kind == PAIR_SIM)
		total += rf_sim_step();
	for (int side = 0; side < 2; side++)
	{
		End		   *end = side ? &pair->b : &pair->a;

		if (end->cq == NULL || (side == 1 && end->cq_shared))
			continue;
		count = end->provider->cq_poll(end->cq, wc, 32);
		for (int i = 0; i < count; i++)
		{
			End		   *owner = wc[i].qp_context;

			if (owner->logged == LOG_MAX)
				die("test", "log is full");
			owner->log[owner->logged++] = wc[i];
		}
		total += count;
	}
	return total;
}

/* Pump until that many completions of an end are logged; false when they never come. */
static inline bool
pair_wait(Pair *pair, End *end, int count)
{
	double		deadline = now_seconds() + PATIENCE;

	while (end->logged < count)
	{
		if (pair_pump(pair) == 0 && now_seconds() > deadline)
			return false;
	}
	return true;
}

/*
 * Pump until nothing has happened for a while, to see that something does not happen. Use pair_wait
 * for events that must happen: how long they take depends on other work of the processor.
 */
static inline void
pair_settle(Pair *pair)
{
	double		quiet = now_seconds() + (pair->kind == PAIR_VERBS ? 0.2 : 0.01);

	while (now_seconds() < quiet)
	{
		if (pair_pump(pair) > 0)
			quiet = now_seconds() + (pair->kind == PAIR_VERBS ? 0.2 : 0.01);
	}
}

#endif
