/*
 * pool.c - see pool.h.
 */
#include <stdlib.h>
#include <string.h>

#include "shmem/layout.h"

#include "pool.h"

/* A peer's access to a segment. */
typedef struct RfLoan
{
	int			peer;
	RfRegion   *region;			/* NULL: its connection is over, but the peer may still write; not
								 * to be lent */
	RfDomain   *domain;
} RfLoan;

typedef struct RfLent
{
	RfLoan	   *loans;			/* one, or one per peer of the shared receive pools in it */
	uint32_t	loan_count;
	uint32_t	held;			/* number of these without a region */
	bool		touched;		/* was ever lent */
	RfNodeId	last;			/* the last borrower; zeros: several */
	uint32_t	used;			/* pages */
	uint32_t	pages;
	uint8_t    *map;			/* a byte per page: 1 = in use */
} RfLent;

struct RfPool
{
	RfShared   *shared;
	const RfProvider *provider;
	RfLent		lent[];			/* segment_count */
};

RfPool *
rf_pool_create(RfShared *shared, const RfProvider *provider)
{
	size_t		pages = rf_segment_offset(shared, shared->segment_count) / RF_POOL_PAGE;
	uint32_t	i;
	RfPool	   *pool = calloc(1, sizeof(RfPool) + shared->segment_count * sizeof(RfLent) + pages);
	uint8_t    *maps;

	if (pool == NULL)
		return NULL;
	pool->shared = shared;
	pool->provider = provider;
	maps = (uint8_t *) &pool->lent[shared->segment_count];
	for (i = 0; i < shared->segment_count; i++)
	{
		pool->lent[i].pages = rf_segment_bytes(shared, i) / RF_POOL_PAGE;
		pool->lent[i].map = maps;
		maps += pool->lent[i].pages;

		/* An earlier engine of this arena may have lent it to any peer. */
		pool->lent[i].touched = atomic_load(&shared->engine_epoch) > 1;
		rf_segment_forget(&shared->segments[i]);
		shared->segments[i].peer = RF_NO_PEER;
		atomic_store(&shared->segments[i].used_pages, 0);
	}
	atomic_store(&shared->segments_held, 0);
	return pool;
}

static void
count_used(RfPool *pool, int segment, int32_t change)
{
	pool->lent[segment].used += change;
	atomic_store_explicit(&pool->shared->segments[segment].used_pages, pool->lent[segment].used,
						  memory_order_relaxed);
}

/*
 * Cuts so many adjoining pages out of a lent segment, first fit. Returns false if it has no such
 * run.
 */
static bool
cut(RfPool *pool, int segment, uint32_t pages, RfBlock *block)
{
	RfLent	   *lent = &pool->lent[segment];
	uint32_t	start = 0;
	uint32_t	page = 0;

	if (lent->pages - lent->used < pages)
		return false;
	while (start + pages <= lent->pages)
	{
		for (page = start; page < start + pages && !lent->map[page]; page++)
			;
		if (page == start + pages)
		{
			memset(lent->map + start, 1, pages);
			count_used(pool, segment, pages);
			block->segment = segment;
			block->page = start;
			block->pages = pages;
			return true;
		}
		start = page + 1;
	}
	return false;
}

/* Returns true if it is lent to exactly these peers. */
static bool
lent_to(const RfLent *lent, const RfPeerSet *peers)
{
	RfPeerSet	has = {0};

	for (uint32_t i = 0; i < lent->loan_count; i++)
		rf_peers_add(&has, lent->loans[i].peer);
	return memcmp(&has, peers, sizeof(has)) == 0 && lent->held == 0;
}

/* The only one of the set; RF_NO_PEER: there are several. */
static int
single(const RfPeerSet *peers)
{
	int			word = 0;

	if (rf_peers_count(peers) != 1)
		return RF_NO_PEER;
	while (peers->words[word] == 0)
		word++;
	return word * 64 + __builtin_ctzll(peers->words[word]);
}

/* The loan has no region any more: remove it, unless the peer may still write. */
static void
end_loan(RfPool *pool, int segment, uint32_t i)
{
	RfLent	   *lent = &pool->lent[segment];

	lent->loans[i] = lent->loans[--lent->loan_count];
	if (lent->loan_count > 0)
		return;
	free(lent->loans);
	lent->loans = NULL;
	pool->shared->segments[segment].peer = RF_NO_PEER;
}

static void
deregister(RfPool *pool, RfLoan *loan)
{
	pool->provider->region_deregister(loan->domain, loan->region);
	atomic_fetch_sub(&pool->shared->peers[loan->peer].segments, 1);
	loan->region = NULL;
}

static void
take_back(RfPool *pool, int segment)
{
	RfLent	   *lent = &pool->lent[segment];

	for (uint32_t i = lent->loan_count; i-- > 0;)
	{
		if (lent->loans[i].region == NULL)
			continue;
		deregister(pool, &lent->loans[i]);
		end_loan(pool, segment, i);
	}
}

static void
release_held(RfPool *pool, RfDomain *domain)
{
	for (uint32_t segment = 0; segment < pool->shared->segment_count; segment++)
	{
		RfLent	   *lent = &pool->lent[segment];

		for (uint32_t i = lent->loan_count; i-- > 0;)
		{
			if (lent->loans[i].region != NULL || lent->loans[i].domain != domain)
				continue;
			end_loan(pool, (int) segment, i);
			if (--lent->held == 0)
				atomic_fetch_sub(&pool->shared->segments_held, 1);
		}
	}
	pool->provider->domain_destroy(domain);
}

/* A domain that a segment is held for; NULL if there is no such domain from `*segment` on. */
static RfDomain *
held_domain(RfPool *pool, uint32_t *segment, bool quiet_only)
{
	for (; *segment < pool->shared->segment_count; (*segment)++)
	{
		RfLent	   *lent = &pool->lent[*segment];

		for (uint32_t i = 0; i < lent->loan_count; i++)
		{
			if (lent->loans[i].region == NULL &&
				(!quiet_only || pool->provider->domain_quiet(lent->loans[i].domain)))
				return lent->loans[i].domain;
		}
	}
	return NULL;
}

bool
rf_pool_settle(RfPool *pool)
{
	bool		freed = false;
	uint32_t	segment = 0;
	RfDomain   *domain;

	if (atomic_load_explicit(&pool->shared->segments_held, memory_order_relaxed) == 0)
		return false;
	while ((domain = held_domain(pool, &segment, true)) != NULL)
	{
		release_held(pool, domain);
		freed = true;
	}
	return freed;
}

void
rf_pool_destroy(RfPool *pool)
{
	uint32_t	segment = 0;
	RfDomain   *domain;

	for (uint32_t i = 0; i < pool->shared->segment_count; i++)
		take_back(pool, (int) i);
	while ((domain = held_domain(pool, &segment, false)) != NULL)
		release_held(pool, domain);
	free(pool);
}

/*
 * Lends a free segment to the peers: renews its memory if another node had it, and registers it for
 * each. Returns false with *error and an unlent segment on failure.
 */
static bool
lend(RfPool *pool, int segment, const RfPeerSet *peers, RfDomain *const *domains, RfError *error)
{
	RfLent	   *lent = &pool->lent[segment];
	RfSegment  *shared = &pool->shared->segments[segment];
	int			only = single(peers);
	bool		several = only == RF_NO_PEER;
	RfNodeId	node = {{0, 0}};
	size_t		bytes = rf_segment_bytes(pool->shared, (uint32_t) segment);

	if (!several)
		node = pool->shared->peers[only].node;
	if (lent->touched && (several || memcmp(&lent->last, &node, sizeof(node)) != 0))
	{
		/* In any case the former content of the segment is gone. */
		lent->last = (RfNodeId) {{0, 0}};
		if (!rf_segment_renew(pool->shared->segments, (uint32_t) segment, bytes,
							  pool->shared->huge_pages, error))
			return false;
	}
	lent->loans = calloc(rf_peers_count(peers), sizeof(RfLoan));
	if (lent->loans == NULL)
		return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL,
						"out of memory for lending a segment");
	for (int peer = 0; peer < RF_MAX_PEERS; peer++)
	{
		RfLoan	   *loan = &lent->loans[lent->loan_count];

		if (!rf_peers_has(peers, peer))
			continue;
		loan->peer = peer;
		loan->domain = domains[peer];
		loan->region = pool->provider->region_register(loan->domain, shared->addr, bytes,
													   shared->fd, error);
		if (loan->region == NULL)
		{
			take_back(pool, segment);
			free(lent->loans);
			lent->loans = NULL;
			return false;
		}
		lent->loan_count++;
		atomic_fetch_add(&pool->shared->peers[peer].segments, 1);
	}
	lent->touched = true;
	lent->last = node;
	shared->peer = several ? RF_SEVERAL_PEERS : only;
	return true;
}

RfPoolResult
rf_pool_take_shared(RfPool *pool, const RfPeerSet *peers, RfDomain *const *domains, size_t size,
					RfBlock *block, RfError *error)
{
	uint32_t	pages = (size + RF_POOL_PAGE - 1) / RF_POOL_PAGE;
	int			only = single(peers);
	const RfNodeId *node = only != RF_NO_PEER ? &pool->shared->peers[only].node : NULL;
	int			best = -1;
	int			best_rank = 8;
	uint32_t	i;

	if (pages > pool->shared->segment_size / RF_POOL_PAGE)
	{
		rf_error(error, RF_ERROR_CONFIGURATION, NULL,
				 "Raise rdma_fdw.buffer_memory, or lower rdma_fdw.receive_buffers or "
				 "rdma_fdw.receive_buffer_size.",
				 "the buffers of one stream need %zu kB, more than a segment of %zu kB",
				 size / 1024, (size_t) pool->shared->segment_size / 1024);
		return RF_POOL_FAILED;
	}
	/* The small segments are the last. */
	for (i = pool->shared->segment_count; i-- > 0;)
	{
		if (lent_to(&pool->lent[i], peers) && cut(pool, i, pages, block))
			return RF_POOL_TAKEN;
	}

	(void) rf_pool_settle(pool);

	/*
	 * One more segment, a large one only if a small one is not enough: a segment this node had
	 * before (warm), a new one, one to be renewed, else one that another peer has and does not
	 * use.
	 */
	for (i = 0; i < pool->shared->segment_count; i++)
	{
		RfLent	   *lent = &pool->lent[i];
		int			rank;

		if (lent->pages < pages || lent->used > 0 || lent->held > 0 || lent_to(lent, peers))
			continue;
		rank = lent->loan_count > 0 ? 3 : !lent->touched ? 1 :
			node != NULL && memcmp(&lent->last, node, sizeof(*node)) == 0 ? 0 : 2;
		if (i < rf_large_segments(pool->shared) && pages <= RF_SMALL_SEGMENT / RF_POOL_PAGE)
			rank += 4;
		if (rank < best_rank)
		{
			best = i;
			best_rank = rank;
		}
	}
	if (best < 0)
		return RF_POOL_NONE_FREE;
	take_back(pool, best);
	if (!lend(pool, best, peers, domains, error))
		return RF_POOL_FAILED;
	return cut(pool, best, pages, block) ? RF_POOL_TAKEN : RF_POOL_NONE_FREE;
}

RfPoolResult
rf_pool_take(RfPool *pool, int peer, RfDomain *domain, size_t size, RfBlock *block, RfError *error)
{
	RfDomain   *domains[RF_MAX_PEERS];
	RfPeerSet	peers = {0};

	domains[peer] = domain;
	rf_peers_add(&peers, peer);
	return rf_pool_take_shared(pool, &peers, domains, size, block, error);
}

uint8_t *
rf_pool_address(RfPool *pool, const RfBlock *block)
{
	return pool->shared->segments[block->segment].addr + (size_t) block->page * RF_POOL_PAGE;
}

const RfRegion *
rf_pool_region(RfPool *pool, const RfBlock *block, int peer)
{
	RfLent	   *lent = &pool->lent[block->segment];

	for (uint32_t i = 0; i < lent->loan_count; i++)
	{
		if (lent->loans[i].peer == peer && lent->loans[i].region != NULL)
			return lent->loans[i].region;
	}
	return NULL;
}

void
rf_pool_return(RfPool *pool, RfBlock *block)
{
	if (block->segment < 0)
		return;
	memset(pool->lent[block->segment].map + block->page, 0, block->pages);
	count_used(pool, block->segment, -(int32_t) block->pages);
	block->segment = -1;
}

void
rf_pool_mark(RfPool *pool, const uint8_t *address, size_t size, RfBlock *block)
{
	const uint8_t *base = pool->shared->segments[0].addr;
	size_t		offset = address - base;
	uint32_t	i;

	block->segment = -1;
	if (address < base ||
		offset + size > rf_segment_offset(pool->shared, pool->shared->segment_count))
		return;
	block->segment = rf_segment_at(pool->shared, offset);
	block->page = (offset - rf_segment_offset(pool->shared, block->segment)) / RF_POOL_PAGE;
	block->pages = (size + RF_POOL_PAGE - 1) / RF_POOL_PAGE;
	if (block->page + block->pages > pool->lent[block->segment].pages)
	{
		block->segment = -1;
		return;
	}
	for (i = 0; i < block->pages; i++)
		pool->lent[block->segment].map[block->page + i] = 1;
	count_used(pool, block->segment, block->pages);
}

void
rf_pool_peer_gone(RfPool *pool, int peer, RfDomain *domain)
{
	bool		quiet = pool->provider->domain_quiet(domain);
	bool		held = false;

	for (uint32_t segment = 0; segment < pool->shared->segment_count; segment++)
	{
		RfLent	   *lent = &pool->lent[segment];

		for (uint32_t i = lent->loan_count; i-- > 0;)
		{
			RfLoan	   *loan = &lent->loans[i];

			if (loan->peer != peer || loan->region == NULL)
				continue;
			deregister(pool, loan);
			if (quiet)
				end_loan(pool, (int) segment, i);
			else
			{
				if (lent->held++ == 0)
					atomic_fetch_add(&pool->shared->segments_held, 1);
				if (lent->held == lent->loan_count)
					pool->shared->segments[segment].peer = RF_NO_PEER;
				held = true;
			}
		}
	}
	if (!held)
		pool->provider->domain_destroy(domain);
}
