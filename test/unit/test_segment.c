/*
 * test_segment.c - memory of segments (src/shmem/segment.c) between processes: a process that
 * attaches sees the memory that the engine lends now, and nothing that is written into an older
 * one, at any time. The engine, its peer and its backends are processes of this test.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/engine/pool.h"

#define SEGMENTS	2
#define SIZE		(2u << 20)

static int	failures;
static RfShared *shared;
static uint8_t *arena;

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static RfRegion *
region_register(RfDomain *domain, void *addr, size_t length, int fd, RfError *error)
{
	RfRegion   *region = calloc(1, sizeof(*region));

	*region = (RfRegion)
	{
		addr, length, 1, 1
	};
	return region;
}

static void
region_deregister(RfDomain *domain, RfRegion *region)
{
	free(region);
}

static void
domain_destroy(RfDomain *domain)
{
}

static bool
domain_quiet(RfDomain *domain)
{
	return true;
}

static const RfProvider provider = {.name = "counting",
	.region_register = region_register,
	.region_deregister = region_deregister,
	.domain_destroy = domain_destroy,
.domain_quiet = domain_quiet};

/* As the postmaster: the mappings of this process and its children from the start. */
static void
postmaster(void)
{
	RfError		error;

	shared = mmap(NULL, sizeof(RfShared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
				  0);
	arena = mmap(NULL, (size_t) SEGMENTS * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared->segment_count = SEGMENTS;
	shared->segment_size = SIZE;
	for (int i = 0; i < SEGMENTS; i++)
	{
		shared->segments[i].addr = arena + (size_t) i * SIZE;
		shared->segments[i].fd = rf_segment_create(shared->segments[i].addr, SIZE, false, &error);
		shared->segments[i].peer = RF_NO_PEER;
	}
	for (int i = 0; i < 3; i++)
		shared->peers[i].node.words[0] = i + 1;
}

static bool
attach(int segment)
{
	RfError		error;

	return rf_segment_attach(shared->segments, segment, SIZE, atomic_load(&shared->engine_pid),
							 &error);
}

/*
 * A process that does as it is told, a byte each: 'a' attach to segment 0, 'w' write there, 'r'
 * read. given_fd: it is a peer that was given the descriptor, and writes and reads through that.
 */
static pid_t
start(int *talk, int given_fd)
{
	int			sockets[2];
	pid_t		child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		exit(1);
	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		char		order;
		volatile uint8_t *window = given_fd < 0 ? arena :
			mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, given_fd, 0);

		close(sockets[0]);
		while (read(sockets[1], &order, 1) == 1)
		{
			if (order == 'a')
				order = attach(0) ? 'y' : 'n';
			else if (order == 'w')
				memset((void *) window, 'p', SIZE);
			else
				order = (char) window[4096];
			if (write(sockets[1], &order, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(sockets[1]);
	*talk = sockets[0];
	return child;
}

static char
tell(int talk, char order)
{
	if (write(talk, &order, 1) != 1 || read(talk, &order, 1) != 1)
		return '?';
	return order;
}

static RfPool *
engine_starts(void)
{
	atomic_fetch_add(&shared->engine_epoch, 1);
	atomic_store(&shared->engine_pid, getpid());
	return rf_pool_create(shared, &provider);
}

static uint8_t *
lend(RfPool *pool, int peer, RfBlock *block)
{
	RfError		error;

	if (rf_pool_take(pool, peer, (RfDomain *) shared, SIZE, block, &error) != RF_POOL_TAKEN)
		return NULL;
	return rf_pool_address(pool, block);
}

static _Atomic bool renewing;
static _Atomic int inside;

/* A lane of the engine: maps memory of peers. */
static void *
lane(void *argument)
{
	while (atomic_load(&renewing))
	{
		uint8_t    *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
								  -1, 0);

		if (memory == MAP_FAILED)
			continue;
		if (memory + SIZE > arena && memory < arena + SEGMENTS * SIZE)
			atomic_fetch_add(&inside, 1);
		else
			(void) munmap(memory, SIZE);
	}
	return NULL;
}

/* With huge pages that the machine does not have, or has few of. */
static void
renew_beside_lane(void)
{
	pthread_t	thread;
	RfError		error;
	int			good = 0;

	atomic_store(&renewing, true);
	if (pthread_create(&thread, NULL, lane, NULL) != 0)
		exit(1);
	for (int i = 0; i < 5000; i++)
		good += rf_segment_renew(shared->segments, 1, SIZE, true, &error);
	atomic_store(&renewing, false);
	(void) pthread_join(thread, NULL);
	check(good == 5000 && atomic_load(&inside) == 0,
		  "while a segment is renewed its addresses are nobody else's");
}

/*
 * An engine that lends to a peer on this host, ends, and a second engine that lends the same
 * segment.
 */
int
main(void)
{
	int			backend_talk;
	int			peer_talk;
	int			late_talk;
	pid_t		backend;
	pid_t		peer;
	pid_t		late;
	int			status;

	postmaster();
	backend = start(&backend_talk, -1);

	/* The first life: peer 0 gets segment 0 and keeps its window. */
	if (fork() == 0)
	{
		RfPool	   *pool = engine_starts();
		RfBlock		block;

		_exit(lend(pool, 0, &block) == arena && atomic_load(&shared->segments[0].generation) == 0 ?
			  0 :
			  1);
	}
	(void) wait(&status);
	check(status == 0, "the first loan is of what all processes have");
	check(tell(backend_talk, 'a') == 'y' && tell(backend_talk, 'w') == 'w', "a backend attaches");
	peer = start(&peer_talk, shared->segments[0].fd);
	check(tell(peer_talk, 'r') == 'p', "a peer sees the same memory");

	/* The second life, in this process. */
	{
		RfPool	   *pool = engine_starts();
		RfBlock		block;
		uint8_t    *memory = lend(pool, 1, &block);

		check(memory == arena && memory[4096] == 0 &&
			  atomic_load(&shared->segments[0].generation) == 1,
			  "a new engine lends new memory");
		memset(memory, 'n', SIZE);
		check(tell(peer_talk, 'w') == 'w' && memory[4096] == 'n',
			  "the old peer's writes are not in it");
		check(tell(backend_talk, 'r') != 'n' && tell(backend_talk, 'a') == 'y' &&
			  tell(backend_talk, 'r') == 'n',
			  "a backend sees it when it attaches");
		late = start(&late_talk, -1);
		check(tell(late_talk, 'a') == 'y' && tell(late_talk, 'r') == 'n',
			  "so does one that started later");
		check(tell(late_talk, 'w') == 'w' && memory[8192] == 'p', "and the engine what they write");

		/*
		 * The same in one life: the next node gets new memory, too, the same node its old memory.
		 */
		rf_pool_return(pool, &block);
		rf_pool_peer_gone(pool, 1, (RfDomain *) shared);
		check(lend(pool, 1, &block) == arena && atomic_load(&shared->segments[0].generation) == 1,
			  "the same node gets its segment again");
		rf_pool_return(pool, &block);
		rf_pool_peer_gone(pool, 1, (RfDomain *) shared);
		memory = lend(pool, 2, &block);
		check(memory == arena && memory[4096] == 0 &&
			  atomic_load(&shared->segments[0].generation) == 2,
			  "another node gets new memory");
		memset(memory, 'm', SIZE);
		check(tell(late_talk, 'w') == 'w' && memory[4096] == 'm',
			  "a process that did not attach since writes elsewhere");
		check(tell(late_talk, 'a') == 'y' && tell(late_talk, 'r') == 'm', "until it attaches");
		rf_pool_return(pool, &block);
		rf_pool_destroy(pool);
	}

	renew_beside_lane();

	/* An engine that ended without the backend having attached. */
	atomic_store(&shared->engine_pid, 0);
	check(tell(backend_talk, 'a') == 'n', "attaching too late fails");
	atomic_store(&shared->engine_pid, backend);
	check(tell(backend_talk, 'a') == 'n', "also when another process has the engine's number");
	close(backend_talk);
	close(peer_talk);
	close(late_talk);
	(void) waitpid(backend, NULL, 0);
	(void) waitpid(peer, NULL, 0);
	(void) waitpid(late, NULL, 0);
	return failures > 0;
}
