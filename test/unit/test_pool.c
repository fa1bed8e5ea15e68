/*
 * test_pool.c - lending segments and cutting buffers (src/engine/pool.c) over a provider that only
 * counts: nothing overlaps, a peer's buffers lie in its own segments, memory is wiped before
 * another node sees it, used memory is never taken back, and everything comes back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../src/engine/pool.h"

#define SEGMENTS		4
#define SEGMENT_SIZE	(2u << 20)
#define PEERS			3
#define BLOCKS			64

static int	failures;
static int	registered;
static bool refuse;
static int	domains;			/* destroyed */
static bool loud;				/* no domain is quiet */

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static RfRegion *
region_register(RfDomain *domain, void *addr, size_t length, int fd, RfError *error)
{
	RfRegion   *region;

	if (refuse)
	{
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "no more regions");
		return NULL;
	}
	region = calloc(1, sizeof(*region));
	region->addr = addr;
	region->length = length;
	region->lkey = region->rkey = 1;
	registered++;
	return region;
}

static void
region_deregister(RfDomain *domain, RfRegion *region)
{
	registered--;
	free(region);
}

static void
domain_destroy(RfDomain *domain)
{
	domains++;
}

static bool
domain_quiet(RfDomain *domain)
{
	return !loud;
}

static const RfProvider provider = {.name = "counting",
	.region_register = region_register,
	.region_deregister = region_deregister,
	.domain_destroy = domain_destroy,
.domain_quiet = domain_quiet};

static RfShared *shared;
static uint8_t *arena;

static RfPool *
fresh(void)
{
	uint32_t	i;

	free(shared);
	shared = aligned_alloc(64, sizeof(RfShared));
	memset((void *) shared, 0, sizeof(RfShared));
	if (arena == NULL)
		arena = mmap(NULL, (size_t) SEGMENTS * SEGMENT_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
					 -1, 0);
	shared->segment_count = SEGMENTS;
	shared->segment_size = SEGMENT_SIZE;
	for (i = 0; i < SEGMENTS; i++)
	{
		RfError		error;

		shared->segments[i].addr = arena + (size_t) i * SEGMENT_SIZE;
		shared->segments[i].fd =
			rf_segment_create(shared->segments[i].addr, SEGMENT_SIZE, false, &error);
		shared->segments[i].peer = RF_NO_PEER;
	}
	for (i = 0; i < RF_MAX_PEERS; i++)
		shared->peers[i].node.words[0] = i + 1;
	atomic_store(&shared->engine_epoch, 1);
	registered = domains = 0;
	refuse = loud = false;
	return rf_pool_create(shared, &provider);
}

static RfPoolResult
take(RfPool *pool, int peer, size_t size, RfBlock *block)
{
	RfError		error;

	return rf_pool_take(pool, peer, (RfDomain *) shared, size, block, &error);
}

static void
limits(void)
{
	RfPool	   *pool = fresh();
	RfBlock		blocks[SEGMENTS + 1];
	RfError		error = {0};
	int			i;

	check(rf_pool_take(pool, 0, NULL, SEGMENT_SIZE + 1, &blocks[0], &error) == RF_POOL_FAILED &&
		  error.kind == RF_ERROR_CONFIGURATION && strstr(error.hint, "buffer_memory"),
		  "buffers larger than a segment name the setting");
	for (i = 0; i < SEGMENTS; i++)
		check(take(pool, 0, SEGMENT_SIZE, &blocks[i]) == RF_POOL_TAKEN, "a whole segment");
	check(take(pool, 0, 4096, &blocks[SEGMENTS]) == RF_POOL_NONE_FREE, "no page is left");
	check(take(pool, 1, 4096, &blocks[SEGMENTS]) == RF_POOL_NONE_FREE, "nor for another peer");
	rf_pool_return(pool, &blocks[2]);
	check(blocks[2].segment == -1, "a returned block is none");
	rf_pool_return(pool, &blocks[2]);
	check(take(pool, 1, 4096, &blocks[SEGMENTS]) == RF_POOL_TAKEN && blocks[SEGMENTS].segment == 2,
		  "an unused segment is taken back from its peer");
	check(atomic_load(&shared->peers[0].segments) == SEGMENTS - 1 &&
		  atomic_load(&shared->peers[1].segments) == 1,
		  "and counted");
	check(take(pool, 0, 4096, &blocks[2]) == RF_POOL_NONE_FREE, "one in use is not");
	refuse = true;
	rf_pool_return(pool, &blocks[SEGMENTS]);
	check(rf_pool_take(pool, 0, NULL, 4096, &blocks[2], &error) == RF_POOL_FAILED &&
		  error.kind == RF_ERROR_RESOURCES,
		  "a registration that fails is told");
	rf_pool_destroy(pool);
}

static void
wiping(void)
{
	RfPool	   *pool = fresh();
	RfBlock		block;
	RfBlock		mine;
	int			i;

	take(pool, 0, SEGMENT_SIZE, &block);
	memset(rf_pool_address(pool, &block), 'x', SEGMENT_SIZE);
	rf_pool_return(pool, &block);
	rf_pool_peer_gone(pool, 0, (RfDomain *) shared);
	check(registered == 0 && atomic_load(&shared->peers[0].segments) == 0,
		  "a peer that is gone has no segment");
	check(take(pool, 0, 4096, &block) == RF_POOL_TAKEN && *rf_pool_address(pool, &block) == 'x',
		  "the same node gets its own segment back as it is");
	rf_pool_return(pool, &block);
	rf_pool_peer_gone(pool, 0, (RfDomain *) shared);
	for (i = 0; i < SEGMENTS; i++)
	{
		uint8_t    *bytes;
		bool		clean;

		take(pool, 1, SEGMENT_SIZE, &mine);
		bytes = rf_pool_address(pool, &mine);
		clean = bytes[0] == 0 && memcmp(bytes, bytes + 1, SEGMENT_SIZE - 1) == 0;
		check(clean, "another node sees nothing of it");
	}
	rf_pool_destroy(pool);

	/* Pages that a backend still reads after its peer went. */
	pool = fresh();
	take(pool, 0, 8192, &block);
	rf_pool_peer_gone(pool, 0, (RfDomain *) shared);
	check(registered == 0, "the segment is not registered any more");
	for (i = 0; i < SEGMENTS; i++)
		check((take(pool, 1, SEGMENT_SIZE, &mine) == RF_POOL_TAKEN) == (i < SEGMENTS - 1),
			  "and not lent while a page of it is in use");
	rf_pool_return(pool, &block);
	check(take(pool, 1, SEGMENT_SIZE, &mine) == RF_POOL_TAKEN, "but afterwards");
	rf_pool_destroy(pool);
}

static void
restart(void)
{
	RfPool	   *pool = fresh();
	RfBlock		block;
	RfBlock		again;
	RfBlock		mine;
	uint8_t    *address;
	int			taken = 0;

	take(pool, 0, 12288, &again);
	take(pool, 0, 12288, &block);
	address = rf_pool_address(pool, &block);
	memset(arena, 'x', (size_t) SEGMENTS * SEGMENT_SIZE);
	rf_pool_destroy(pool);
	atomic_store(&shared->engine_epoch, 2);
	pool = rf_pool_create(shared, &provider);
	rf_pool_mark(pool, address, 12288, &block);
	check(rf_pool_address(pool, &block) == address && block.pages == 3,
		  "a new engine finds what is still read");
	rf_pool_mark(pool, arena - 4096, 4096, &again);
	check(again.segment == -1, "an address outside is nothing");
	rf_pool_mark(pool, arena + (size_t) SEGMENTS * SEGMENT_SIZE - 4096, 8192, &again);
	check(again.segment == -1, "nor is one that ends outside");
	while (take(pool, 0, SEGMENT_SIZE, &mine) == RF_POOL_TAKEN)
	{
		taken++;
		if (rf_pool_address(pool, &mine)[0] != 0)
			failures++;
	}
	check(taken == SEGMENTS - 1, "and lends the others, wiped");
	rf_pool_return(pool, &block);
	rf_pool_destroy(pool);
}

/*
 * A peer that may still write into its segments after its end: nobody gets them, neither it nor
 * another, until it is quiet.
 */
static void
held(void)
{
	RfPool	   *pool = fresh();
	RfBlock		block;
	RfBlock		reading;
	RfBlock		mine[SEGMENTS];
	int			i;

	take(pool, 0, SEGMENT_SIZE, &reading);
	take(pool, 0, SEGMENT_SIZE, &block);
	memset(rf_pool_address(pool, &block), 'x', SEGMENT_SIZE);
	rf_pool_return(pool, &block);
	loud = true;
	rf_pool_peer_gone(pool, 0, (RfDomain *) shared);
	check(registered == 0 && domains == 0 && atomic_load(&shared->segments_held) == 2,
		  "segments of a peer that is not quiet are held");
	for (i = 0; i < 2; i++)
		check(take(pool, 1, SEGMENT_SIZE, &mine[i]) == RF_POOL_TAKEN, "the others are lent");
	check(take(pool, 1, 4096, &mine[2]) == RF_POOL_NONE_FREE, "these are not lent to another node");
	check(take(pool, 0, 4096, &mine[2]) == RF_POOL_NONE_FREE, "nor to the same");
	rf_pool_return(pool, &reading);
	check(!rf_pool_settle(pool) && take(pool, 0, 4096, &mine[2]) == RF_POOL_NONE_FREE,
		  "not even when their last reader is done");
	loud = false;
	check(rf_pool_settle(pool) && domains == 1 && atomic_load(&shared->segments_held) == 0,
		  "when it is quiet they are free, and its domain is gone");
	check(!rf_pool_settle(pool) && domains == 1, "once");
	check(take(pool, 1, SEGMENT_SIZE, &mine[2]) == RF_POOL_TAKEN &&
		  *rf_pool_address(pool, &mine[2]) == 0,
		  "and lent, wiped");

	/* a flow that wants buffers does not wait for the next time somebody looks */
	loud = true;
	rf_pool_peer_gone(pool, 1, (RfDomain *) shared);
	for (i = 0; i < 3; i++)
		rf_pool_return(pool, &mine[i]);
	loud = false;
	for (i = 0; i < SEGMENTS; i++)
		check(take(pool, 0, SEGMENT_SIZE, &mine[i]) == RF_POOL_TAKEN,
			  "who needs one finds that it is quiet");
	check(domains == 2, "every domain is destroyed once");
	loud = true;
	rf_pool_peer_gone(pool, 0, (RfDomain *) shared);
	rf_pool_destroy(pool);
	check(domains == 3, "also with the pool");
}

/* Shared receive pools lie in segments that several peers have, and in nothing else. */
static void
several(void)
{
	RfPool	   *pool = fresh();
	RfDomain   *all[RF_MAX_PEERS] = {
	[0] = (RfDomain *) shared,[1] = (RfDomain *) arena,[2] = (RfDomain *) pool};
	RfBlock		both;
	RfBlock		again;
	RfBlock		other;
	RfBlock		own;
	RfBlock		none;
	RfPeerSet	two = {{3}};
	RfPeerSet	others = {{5}};
	RfPeerSet	high = {0};
	RfError		error;

	refuse = true;
	check(rf_pool_take_shared(pool, &two, all, 4096, &both, &error) == RF_POOL_FAILED &&
		  registered == 0,
		  "what cannot be registered for all is lent to none");
	refuse = false;
	check(rf_pool_take_shared(pool, &two, all, 8192, &both, &error) == RF_POOL_TAKEN &&
		  registered == 2,
		  "a segment for two peers is registered for both");
	check(rf_pool_region(pool, &both, 0) != NULL && rf_pool_region(pool, &both, 1) != NULL &&
		  rf_pool_region(pool, &both, 2) == NULL,
		  "each has its key, and nobody else");
	check(shared->segments[both.segment].peer == RF_SEVERAL_PEERS &&
		  atomic_load(&shared->peers[1].segments) == 1,
		  "and it shows");
	check(rf_pool_take_shared(pool, &two, all, 4096, &again, &error) == RF_POOL_TAKEN &&
		  again.segment == both.segment && registered == 2,
		  "the same two share it further");
	check(take(pool, 0, 4096, &own) == RF_POOL_TAKEN && own.segment != both.segment,
		  "what one of them has alone lies elsewhere");
	check(rf_pool_take_shared(pool, &others, all, 4096, &other, &error) == RF_POOL_TAKEN &&
		  other.segment != both.segment && other.segment != own.segment,
		  "and what it shares with a third");
	memset(rf_pool_address(pool, &both), 'x', 8192);

	loud = true;
	rf_pool_peer_gone(pool, 1, all[1]);
	loud = false;
	check(rf_pool_region(pool, &both, 1) == NULL && rf_pool_region(pool, &both, 0) != NULL &&
		  atomic_load(&shared->segments_held) == 1,
		  "one goes and may still write: the other keeps its access");
	rf_pool_return(pool, &both);
	rf_pool_return(pool, &again);
	loud = true;
	check(rf_pool_take_shared(pool, &two, all, SEGMENT_SIZE, &both, &error) == RF_POOL_TAKEN &&
		  both.segment != again.segment,
		  "nothing new comes into the segment meanwhile");
	rf_pool_return(pool, &both);
	loud = false;
	check(rf_pool_settle(pool) && atomic_load(&shared->segments_held) == 0 && domains == 1,
		  "it is quiet");
	check(take(pool, 2, SEGMENT_SIZE, &none) == RF_POOL_TAKEN &&
		  take(pool, 2, SEGMENT_SIZE, &again) == RF_POOL_TAKEN,
		  "and may be lent");
	check(*rf_pool_address(pool, &none) == 0 && *rf_pool_address(pool, &again) == 0, "wiped");
	rf_pool_return(pool, &none);
	rf_pool_return(pool, &again);
	rf_pool_return(pool, &own);
	rf_pool_return(pool, &other);
	rf_peers_add(&high, 2);
	rf_peers_add(&high, RF_MAX_PEERS - 1);
	all[RF_MAX_PEERS - 1] = all[1];
	check(rf_pool_take_shared(pool, &high, all, 4096, &both, &error) == RF_POOL_TAKEN &&
		  rf_pool_region(pool, &both, 2) != NULL &&
		  rf_pool_region(pool, &both, RF_MAX_PEERS - 1) != NULL &&
		  rf_pool_region(pool, &both, RF_MAX_PEERS - 1 - 64) == NULL,
		  "peers beyond the first 64");
	rf_pool_return(pool, &both);
	rf_pool_destroy(pool);
	check(registered == 0, "and all is given back");
}

/*
 * Two sizes of segments: small buffers go into small segments, of which there are many, so that
 * large segments are left for large buffers.
 */
static void
sizes(void)
{
	RfPool	   *pool;
	RfBlock		blocks[SEGMENTS];
	RfBlock		large[2];
	RfBlock		small;
	RfError		error = {0};
	uint8_t    *address;

	rf_pool_destroy(fresh());
	/* one has the size of two small segments, which are the last */
	shared->segment_count = 3;
	shared->small_segments = 2;
	shared->segment_size = 2 * SEGMENT_SIZE;
	shared->segments[1] = shared->segments[2];
	shared->segments[2] = shared->segments[3];

	/*
	 * free addresses are left where the kernel refused a mapping; it likes to give them to the
	 * next mapping
	 */
	munmap(arena, 2 * SEGMENT_SIZE);
	shared->segments[0].fd = rf_segment_create(arena, 2 * SEGMENT_SIZE, false, &error);
	check(shared->segments[0].fd >= 0 &&
		  rf_segment_offset(shared, 3) == (uint64_t) SEGMENTS * SEGMENT_SIZE,
		  "three segments of two sizes");
	for (uint32_t i = 0; i < 3; i++)
		check(rf_segment_offset(shared, i) == (uint64_t) (shared->segments[i].addr - arena) &&
			  rf_segment_at(shared, rf_segment_offset(shared, i)) == i &&
			  rf_segment_at(shared, rf_segment_offset(shared, i) + rf_segment_bytes(shared, i) -
							1) == i,
			  "each is found by its addresses");
	pool = rf_pool_create(shared, &provider);
	check(take(pool, 0, 4096, &blocks[0]) == RF_POOL_TAKEN && blocks[0].segment > 0,
		  "what fits a small segment goes into one");
	check(take(pool, 1, 4096, &blocks[1]) == RF_POOL_TAKEN && blocks[1].segment > 0 &&
		  blocks[1].segment != blocks[0].segment,
		  "another peer's into another");
	check(take(pool, 1, SEGMENT_SIZE + 4096, &large[0]) == RF_POOL_TAKEN && large[0].segment == 0,
		  "what does not fit goes into a large one");
	check(take(pool, 2, 4096, &small) == RF_POOL_NONE_FREE, "a third peer finds none");
	memset(rf_pool_address(pool, &large[0]), 'l', SEGMENT_SIZE + 4096);
	memset(rf_pool_address(pool, &blocks[0]), 's', 4096);
	check(take(pool, 1, SEGMENT_SIZE - 4096, &blocks[2]) == RF_POOL_TAKEN &&
		  blocks[2].segment == blocks[1].segment,
		  "small ones are filled first");
	check(take(pool, 1, SEGMENT_SIZE - 4096, &blocks[3]) == RF_POOL_TAKEN && blocks[3].segment == 0,
		  "then large ones");
	check(take(pool, 1, 4096, &small) == RF_POOL_NONE_FREE, "until nothing is left");
	check(rf_pool_take(pool, 1, (RfDomain *) shared, 2 * SEGMENT_SIZE + 1, &small, &error) ==
		  RF_POOL_FAILED &&
		  error.kind == RF_ERROR_CONFIGURATION,
		  "more than a large one has never fits");
	check(rf_pool_address(pool, &blocks[0])[4095] == 's' &&
		  rf_pool_address(pool, &large[0])[SEGMENT_SIZE] == 'l',
		  "nothing overlaps");
	rf_pool_return(pool, &blocks[3]);
	rf_pool_return(pool, &large[0]);
	check(take(pool, 2, 4096, &small) == RF_POOL_TAKEN && small.segment == 0,
		  "a peer that finds no small one gets a large one");
	rf_pool_return(pool, &small);
	check(take(pool, 2, 2 * SEGMENT_SIZE, &large[1]) == RF_POOL_TAKEN, "all of it");
	address = rf_pool_address(pool, &blocks[0]);
	rf_pool_destroy(pool);
	check(registered == 0, "and all is given back");
	pool = rf_pool_create(shared, &provider);
	rf_pool_mark(pool, address, 4096, &small);
	check(small.segment == blocks[0].segment && rf_pool_address(pool, &small) == address,
		  "a new engine finds what lies in a small one");
	rf_pool_destroy(pool);
}

/*
 * Random takes and returns of three peers. Each block is filled with its own mark and must still
 * have it when it is returned.
 */
static void
random_life(void)
{
	RfPool	   *pool = fresh();
	RfBlock		blocks[BLOCKS];
	int			owner[BLOCKS];
	unsigned	seed = 4711;
	bool		intact = true;
	bool		own_segment = true;
	int			i;
	int			step;

	for (i = 0; i < BLOCKS; i++)
		owner[i] = -1;
	for (step = 0; step < 20000; step++)
	{
		i = rand_r(&seed) % BLOCKS;
		if (owner[i] >= 0)
		{
			uint8_t    *bytes = rf_pool_address(pool, &blocks[i]);
			size_t		size = (size_t) blocks[i].pages * RF_POOL_PAGE;

			intact &= bytes[0] == i + 1 && bytes[size - 1] == i + 1 && bytes[size / 2] == i + 1;
			own_segment &= shared->segments[blocks[i].segment].peer == owner[i];
			rf_pool_return(pool, &blocks[i]);
			owner[i] = -1;
		}
		else
		{
			int			peer = rand_r(&seed) % PEERS;
			size_t		size = (size_t) (1 + rand_r(&seed) % 64) * RF_POOL_PAGE;

			if (take(pool, peer, size, &blocks[i]) == RF_POOL_TAKEN)
			{
				memset(rf_pool_address(pool, &blocks[i]), i + 1, size);
				owner[i] = peer;
			}
		}
	}
	check(intact, "20000 random steps: no block touches another");
	check(own_segment, "and every block lies in a segment of its peer");
	for (i = 0; i < BLOCKS; i++)
	{
		if (owner[i] >= 0)
			rf_pool_return(pool, &blocks[i]);
	}
	for (i = 0; i < PEERS; i++)
		rf_pool_peer_gone(pool, i, (RfDomain *) shared);
	for (i = 0; i < SEGMENTS; i++)
		intact &= atomic_load(&shared->segments[i].used_pages) == 0 &&
			shared->segments[i].peer == RF_NO_PEER;
	check(intact && registered == 0, "and everything comes back");
	rf_pool_destroy(pool);
}

int
main(void)
{
	limits();
	wiping();
	restart();
	held();
	several();
	random_life();
	sizes();
	free(shared);
	return failures ? 1 : 0;
}
