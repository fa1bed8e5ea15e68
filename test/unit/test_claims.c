/*
 * test_claims.c - entries of peers and tokens (src/shmem/claims.c) that a process takes and that is
 * stopped, or dies, between any two of its instructions: other processes never wait for it, never
 * get its entry, and never see a half filled entry.
 *
 * A child takes the entry, and this process has it go on one instruction at a time (ptrace). In
 * between this process does the same over the same shared memory.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shmem/claims.h"

#define HOUR	INT64_C(3600000000)
#define STEPS	2000000			/* a processor that cannot finish an atomic operation in steps goes
								 * on at once */

typedef struct Result
{
	volatile int index;
	volatile uint32_t attempt;
	volatile bool good;
} Result;

static int	failures;
static RfShared *shared;
static Result *result;			/* the child's */
static const RfNodeId self = {{1, 1}};
static const RfNodeId mine = {{2, 1}};
static const RfNodeId its = {{3, 1}};

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static void *
shared_memory(size_t size)
{
	void	   *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
							  0);

	if (memory == MAP_FAILED)
		exit(2);
	return memory;
}

static void
clear(void)
{
	memset((void *) shared, 0, sizeof(*shared));
	memset(result, 0, sizeof(*result));
	shared->node = self;
}

/* A child that stands before the first instruction of job. */
static pid_t
begin(void (*job) (void))
{
	pid_t		child;

	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		(void) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void) raise(SIGSTOP);
		job();
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		exit(2);
	return child;
}

/* False: it has ended. */
static bool
step(pid_t child)
{
	int			status;

	if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child)
	{
		perror("ptrace");
		exit(2);
	}
	return WIFSTOPPED(status);
}

static void
finish(pid_t child)
{
	(void) ptrace(PTRACE_CONT, child, NULL, NULL);
	(void) waitpid(child, NULL, 0);
}

static void
die(pid_t child)
{
	(void) kill(child, SIGKILL);
	(void) waitpid(child, NULL, 0);
}

/* ---------- tokens ---------- */

static void
fill(uint8_t *id, uint8_t *secret, int number)
{
	memset(id, number & 255, 16);
	memset(secret, number & 255, RF_TOKEN_SIZE);
	id[0] = number >> 8;
}

static bool
put_as(int number, const RfNodeId *client, uint32_t role, uint32_t limit)
{
	uint8_t		id[16];
	uint8_t		secret[RF_TOKEN_SIZE];

	fill(id, secret, number);
	return rf_token_put(shared, id, secret, client, role, limit, HOUR);
}

static bool
put(int number, const RfNodeId *client)
{
	return put_as(number, client, 1, RF_MAX_TOKENS);
}

/* 1: it is there, 0: it is not, -1: the entry under its name is something else. */
static int
take(int number, const RfNodeId *client, bool keep)
{
	uint8_t		id[16];
	uint8_t		secret[RF_TOKEN_SIZE];
	uint8_t		found[RF_TOKEN_SIZE];
	RfNodeId	whose;

	fill(id, secret, number);
	if (!rf_token_take(shared, id, found, &whose, keep))
		return 0;
	return memcmp(found, secret, sizeof(found)) == 0 && rf_same_node(&whose, client) ? 1 : -1;
}

static void
child_puts(void)
{
	result->good = put(0x777, &its);
}

static void
child_takes(void)
{
	result->good = take(0x777, &its, false) == 1;
}

static bool
a_token_is_busy(void)
{
	for (int i = 0; i < RF_MAX_TOKENS; i++)
	{
		if (atomic_load(&shared->tokens[i].expires_us) == RF_TOKEN_BUSY)
			return true;
	}
	return false;
}

/* full: all places are taken, and it is the oldest that gives way */
static void
tokens(bool full, const char *what)
{
	pid_t		child;
	int			number = 0;
	int			seen = 0;
	bool		others = true;
	bool		whole = true;
	bool		busy = false;
	int			steps = 0;

	clear();
	for (int i = 0; full && i < RF_MAX_TOKENS; i++)
		(void) put(0x1000 + i, &mine);
	child = begin(child_puts);
	while (steps++ < STEPS && step(child))
	{
		int			found;

		others &= put(number, &mine) && take(number, &mine, false) == 1;
		found = take(0x777, &its, true);
		whole &= found >= seen;
		seen = found;
		busy |= a_token_is_busy();
		number = (number + 1) % 0x700;
	}
	if (steps > STEPS)
		finish(child);
	printf("# %s: %d steps\n", what, steps);
	check(others, "others issue tokens and use them while one stands anywhere in issuing");
	check(whole, "its token is not seen before it is whole");
	check(busy, "and has been seen half filled in");
	check(result->good && take(0x777, &its, false) == 1 && take(0x777, &its, false) == 0,
		  "then it can be used, once");
}

static void
tokens_of_the_dead(void)
{
	pid_t		child;
	bool		good = true;
	int			held = 0;

	clear();
	child = begin(child_puts);
	while (!a_token_is_busy() && step(child))
		;
	die(child);
	for (int i = 0; i < 3 * RF_MAX_TOKENS; i++)
		good &= put(i, &mine) && take(i, &mine, false) == 1;
	for (int i = 0; i < RF_MAX_TOKENS; i++)
		held += atomic_load(&shared->tokens[i].expires_us) == RF_TOKEN_BUSY;
	check(held == 1 && good, "one that dies with a place keeps that place, and no other");

	for (int i = 0; i < RF_MAX_TOKENS; i++)
		atomic_store(&shared->tokens[i].expires_us, RF_TOKEN_BUSY);
	check(!put(1, &mine), "when nobody goes on there is an end to looking");
}

/* Regardless of one role, entries of other roles stay, and other roles find places. */
static void
tokens_of_roles(void)
{
	bool		good = true;
	int			left = 0;

	clear();
	for (int i = 0; i < 10; i++)
		good &= put_as(i, &its, 7, RF_MAX_TOKENS / 2);
	for (int i = 0; i < 3 * RF_MAX_TOKENS; i++)
		good &= put_as(0x1000 + i, &mine, 8, RF_MAX_TOKENS / 2);
	for (int i = 0; i < 3 * RF_MAX_TOKENS; i++)
		left += take(0x1000 + i, &mine, true) == 1;
	check(good && left == RF_MAX_TOKENS / 2, "a role has no more than its share");
	for (int i = 0; i < RF_MAX_TOKENS; i++)
		good &= put_as(0x2000 + i, &mine, 9, RF_MAX_TOKENS);
	for (int i = 10; i < 20; i++)
		good &= put_as(i, &its, 7, RF_MAX_TOKENS / 2);
	for (int i = 0; i < 20; i++)
		good &= take(i, &its, true) == 1;
	check(good, "with all places taken those of the role with most give way");
}

static void
engine_stops(void)
{
	pid_t		child;
	bool		good = true;
	int			steps = 0;

	clear();
	for (int i = 0; i < RF_MAX_TOKENS / 2; i++)
		(void) put(0x1000 + i, &mine);
	(void) put(0x777, &its);
	child = begin(child_takes);
	for (int i = 0; steps++ < STEPS && step(child); i++)
		good &= i % 64 != 0 || i / 64 >= RF_MAX_TOKENS / 4 || put(i & 15, &mine);
	if (steps > STEPS)
		finish(child);
	check(good, "tokens are issued while the engine stands anywhere in taking one");
	check(result->good && take(0x777, &its, false) == 0, "and it gets the one that it wants");
}

/* ---------- peers ---------- */

static int
claim(const RfNodeId *node)
{
	int			index;

	for (int tries = 0; tries < 1000; tries++)
	{
		if (rf_claim_peer(shared, node, false, &index))
			return index;
	}
	return -1000;
}

static void
child_claims(void)
{
	result->index = claim(&its);
}

static void
child_waits(void)
{
	uint32_t	attempt = 0;

	result->index = rf_claim_wait(shared, &its, false, &attempt);
	result->attempt = attempt;
	result->good = true;
}

/* Another node's and its own node's entries are claimed and given back while it claims one. */
static void
claims(const RfNodeId *wanted, const char *what)
{
	pid_t		child;
	bool		good = true;
	int			steps = 0;
	int			got;

	clear();
	child = begin(child_claims);
	while (steps++ < STEPS && step(child))
	{
		got = claim(wanted);
		good &= got >= 0 && rf_same_node(&shared->peers[got].node, wanted);
		if (got >= 0)
			atomic_store(&shared->peers[got].state, RF_PEER_FREE);
	}
	if (steps > STEPS)
		finish(child);
	got = result->index;
	check(good, what);
	check(got >= 0 && atomic_load(&shared->peers[got].state) == RF_PEER_CLAIMED &&
		  rf_same_node(&shared->peers[got].node, &its), "and what it claims is its own");
}

static void
claims_of_the_dead(void)
{
	pid_t		child;
	int			free_entries = 0;
	bool		busy = false;

	clear();
	child = begin(child_claims);
	while (!busy && step(child))
	{
		for (int i = 0; i < RF_MAX_PEERS; i++)
			busy |= atomic_load(&shared->peers[i].state) == RF_PEER_CLAIMED;
	}
	die(child);
	while (claim(&its) >= 0)
		free_entries++;
	check(busy && free_entries == RF_MAX_PEERS - 1,
		  "one that dies with an entry keeps that entry, and no other");
}

/* All entries are in use but the first, which belongs to a different node. */
static void
one_entry(RfPeerState state)
{
	clear();
	for (int i = 0; i < RF_MAX_PEERS; i++)
	{
		shared->peers[i].node = i == 0 ? its : mine;
		atomic_store(&shared->peers[i].state, i == 0 ? state : RF_PEER_CONNECTED);
	}
}

static pid_t
begin_steps(void (*job) (void), int steps)
{
	pid_t		child = begin(job);

	while (steps-- > 0)
		(void) step(child);
	return child;
}

/*
 * The entry fails and is wanted for another node when its waiter has done n instructions, for each
 * n: either it is waited for and stays, or it is claimed and not waited for.
 */
static void
waiters(void)
{
	bool		good = true;
	bool		done = false;
	int			stayed = 0;
	int			claimed = 0;

	for (int n = 0; !done; n++)
	{
		pid_t		child;
		int			got;

		one_entry(RF_PEER_CONNECTED);
		child = begin_steps(child_waits, n);
		done = result->good;
		atomic_store(&shared->peers[0].state, RF_PEER_FAILED);
		if (!rf_claim_peer(shared, &mine, false, &got))
			got = RF_NO_PEER;
		claimed += got == 0;
		finish(child);
		if (result->index == 0)
		{
			stayed++;
			good &= got == RF_NO_PEER && atomic_load(&shared->peers[0].waiters) == 1 &&
				result->attempt == shared->peers[0].attempt;
		}
		else
			good &= atomic_load(&shared->peers[0].waiters) == 0;
	}
	printf("# %d times it was claimed, %d times waited for\n", claimed, stayed);
	check(good && claimed > 0 && stayed > 0,
		  "an entry is claimed or waited for, whichever instruction came last");
}

/*
 * A process that claims the entry has seen it free, looks at the other entries, and is stopped.
 * Another claims it meanwhile, somebody waits for that, and it fails: then it is the waiter's.
 */
static void
claimed_meanwhile(void)
{
	pid_t		child;
	bool		others;
	uint32_t	attempt = 0;
	int			steps = 0;

	one_entry(RF_PEER_FAILED);
	child = begin(child_claims);
	while (atomic_load(&shared->peers[0].state) == RF_PEER_FAILED && steps < STEPS && step(child))
		steps++;
	die(child);

	one_entry(RF_PEER_FAILED);
	child = begin_steps(child_claims, steps / 2);
	others = claim(&its) == 0;
	atomic_store(&shared->peers[0].state, RF_PEER_REQUESTED);
	others &= rf_claim_wait(shared, &its, false, &attempt) == 0;
	atomic_store(&shared->peers[0].state, RF_PEER_FAILED);
	finish(child);
	check(others && result->index == RF_NO_PEER && shared->peers[0].attempt == attempt &&
		  atomic_load(&shared->peers[0].state) == RF_PEER_FAILED,
		  "an entry that somebody waits for is not claimed by one that saw it free before");
}

int
main(void)
{
	shared = shared_memory(sizeof(*shared));
	result = shared_memory(sizeof(*result));
	tokens(false, "places are free");
	tokens(true, "all places are taken");
	tokens_of_the_dead();
	tokens_of_roles();
	engine_stops();
	claims(&mine, "others claim entries while one stands anywhere in claiming");
	claims(&its, "also for the same node");
	claims_of_the_dead();
	waiters();
	claimed_meanwhile();
	return failures > 0;
}
