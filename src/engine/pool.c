/*
 * pool.c - see pool.h.
 */
#include <stdlib.h>
#include <string.h>

#include "pool.h"

typedef struct RfLent
{
	RfRegion   *region;			/* NULL: not lent */
	RfDomain   *domain;
	RfDomain   *held_by;		/* it was lent there and the peer may still write: not to be lent */
	int			peer;			/* whom it is lent to, RF_NO_PEER when not */
	bool		touched;		/* was ever lent */
	RfNodeId	last;			/* to whom last */
	uint32_t	used;			/* pages */
	uint8_t    *map;			/* a byte per page: 1 = in use */
} RfLent;

struct RfPool
{
	RfShared   *shared;
	const RfProvider *provider;
	uint32_t	pages;			/* per segment */
	RfLent		lent[];			/* segment_count */
};

RfPool *
rf_pool_create(RfShared *shared, const RfProvider *provider)
{
	uint32_t	pages = shared->segment_size / RF_POOL_PAGE;
	uint32_t	i;
	RfPool	   *pool = calloc(1, sizeof(RfPool) + shared->segment_count * (sizeof(RfLent) + pages));
	uint8_t    *maps;

	if (pool == NULL)
		return NULL;
	pool->shared = shared;
	pool->provider = provider;
	pool->pages = pages;
	maps = (uint8_t *) &pool->lent[shared->segment_count];
	for (i = 0; i < shared->segment_count; i++)
	{
		pool->lent[i].peer = RF_NO_PEER;
		pool->lent[i].map = maps + (size_t) i * pages;

		/* An earlier engine of this arena may have lent it to anybody. */
		pool->lent[i].touched = atomic_load(&shared->engine_epoch) > 1;
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
	atomic_store_explicit(&pool->shared->segments[segment].used_pages, pool->lent[segment].used, memory_order_relaxed);
}

static bool
cut(RfPool *pool, int segment, uint32_t pages, RfBlock *block)
{
	RfLent	   *lent = &pool->lent[segment];
	uint32_t	start = 0;
	uint32_t	page = 0;

	if (pool->pages - lent->used < pages)
		return false;
	while (start + pages <= pool->pages)
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

static void
take_back(RfPool *pool, int segment)
{
	RfLent	   *lent = &pool->lent[segment];

	pool->provider->region_deregister(lent->domain, lent->region);
	atomic_fetch_sub(&pool->shared->peers[lent->peer].segments, 1);
	lent->region = NULL;
	lent->domain = NULL;
	lent->peer = RF_NO_PEER;
	pool->shared->segments[segment].peer = RF_NO_PEER;
}

static void
release_held(RfPool *pool, RfDomain *domain)
{
	uint32_t	i;

	for (i = 0; i < pool->shared->segment_count; i++)
	{
		if (pool->lent[i].held_by == domain)
		{
			pool->lent[i].held_by = NULL;
			atomic_fetch_sub(&pool->shared->segments_held, 1);
		}
	}
	pool->provider->domain_destroy(domain);
}

bool
rf_pool_settle(RfPool *pool)
{
	bool		freed = false;
	uint32_t	i;

	if (atomic_load_explicit(&pool->shared->segments_held, memory_order_relaxed) == 0)
		return false;
	for (i = 0; i < pool->shared->segment_count; i++)
	{
		RfDomain   *domain = pool->lent[i].held_by;

		if (domain != NULL && pool->provider->domain_quiet(domain))
		{
			release_held(pool, domain);
			freed = true;
		}
	}
	return freed;
}

void
rf_pool_destroy(RfPool *pool)
{
	uint32_t	i;

	for (i = 0; i < pool->shared->segment_count; i++)
	{
		if (pool->lent[i].region != NULL)
			take_back(pool, i);
		if (pool->lent[i].held_by != NULL)
			release_held(pool, pool->lent[i].held_by);
	}
	free(pool);
}

static bool
lend(RfPool *pool, int segment, int peer, RfDomain *domain, RfError *error)
{
	RfLent	   *lent = &pool->lent[segment];
	RfSegment  *shared = &pool->shared->segments[segment];
	const RfNodeId *node = &pool->shared->peers[peer].node;

	if (lent->touched && memcmp(&lent->last, node, sizeof(*node)) != 0)
		memset(shared->addr, 0, pool->shared->segment_size);
	lent->region = pool->provider->region_register(domain, shared->addr, pool->shared->segment_size, shared->fd, error);
	if (lent->region == NULL)
		return false;
	lent->domain = domain;
	lent->peer = peer;
	lent->touched = true;
	lent->last = *node;
	shared->peer = peer;
	atomic_fetch_add(&pool->shared->peers[peer].segments, 1);
	return true;
}

RfPoolResult
rf_pool_take(RfPool *pool, int peer, RfDomain *domain, size_t size, RfBlock *block, RfError *error)
{
	uint32_t	pages = (size + RF_POOL_PAGE - 1) / RF_POOL_PAGE;
	const RfNodeId *node = &pool->shared->peers[peer].node;
	int			best = -1;
	int			best_rank = 4;
	uint32_t	i;

	if (pages > pool->pages)
	{
		rf_error(error, RF_ERROR_CONFIGURATION, NULL, "Raise rdma_fdw.segment_size, or lower rdma_fdw.receive_buffers or rdma_fdw.receive_buffer_size.",
				 "the buffers of one stream need %zu kB, more than a segment of %zu kB",
				 size / 1024, (size_t) pool->shared->segment_size / 1024);
		return RF_POOL_FAILED;
	}
	for (i = 0; i < pool->shared->segment_count; i++)
	{
		if (pool->lent[i].peer == peer && pool->lent[i].region != NULL && cut(pool, i, pages, block))
			return RF_POOL_TAKEN;
	}

	(void) rf_pool_settle(pool);

	/*
	 * One more segment: one this node had before (warm, no wiping), a new one, one to be wiped,
	 * else one that another peer has and does not use.
	 */
	for (i = 0; i < pool->shared->segment_count; i++)
	{
		RfLent	   *lent = &pool->lent[i];
		int			rank;

		if (lent->used > 0 || lent->held_by != NULL || lent->peer == peer)
			continue;
		rank = lent->region != NULL ? 3 : !lent->touched ? 1 : memcmp(&lent->last, node, sizeof(*node)) == 0 ? 0 : 2;
		if (rank < best_rank)
		{
			best = i;
			best_rank = rank;
		}
	}
	if (best < 0)
		return RF_POOL_NONE_FREE;
	if (pool->lent[best].region != NULL)
		take_back(pool, best);
	if (!lend(pool, best, peer, domain, error))
		return RF_POOL_FAILED;
	return cut(pool, best, pages, block) ? RF_POOL_TAKEN : RF_POOL_NONE_FREE;
}

uint8_t *
rf_pool_address(RfPool *pool, const RfBlock *block)
{
	return pool->shared->segments[block->segment].addr + (size_t) block->page * RF_POOL_PAGE;
}

const RfRegion *
rf_pool_region(RfPool *pool, const RfBlock *block)
{
	return pool->lent[block->segment].region;
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
	if (address < base || offset + size > pool->shared->segment_size * pool->shared->segment_count)
		return;
	block->segment = offset / pool->shared->segment_size;
	block->page = offset % pool->shared->segment_size / RF_POOL_PAGE;
	block->pages = (size + RF_POOL_PAGE - 1) / RF_POOL_PAGE;
	if (block->page + block->pages > pool->pages)
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
	uint32_t	i;

	for (i = 0; i < pool->shared->segment_count; i++)
	{
		if (pool->lent[i].peer != peer || pool->lent[i].region == NULL)
			continue;
		take_back(pool, i);
		if (!quiet)
		{
			pool->lent[i].held_by = domain;
			atomic_fetch_add(&pool->shared->segments_held, 1);
			held = true;
		}
	}
	if (!held)
		pool->provider->domain_destroy(domain);
}
