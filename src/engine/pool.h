/*
 * pool.h - lends segments of the arena to peers, and allocates buffers in them.
 *
 * A segment is registered in one peer's domain at a time, and gets new memory before another node
 * gets it, or any node from a new engine (segment.h). Only shared receive pools (receive.h) are in
 * segments that several peers have at the same time: these hold pools of exactly these peers, and
 * get new memory before another node gets them. Buffers of a flow are contiguous, in units of 4 kB,
 * first fit. A segment of a peer whose connection is over is not lent to any node, not even to the
 * same one, before the provider reports that no request of that connection can still write to it
 * (provider.h, domain_quiet). Main thread of the engine only; plain C. The visible figures
 * (RfSegment.peer, used_pages, RfPeer.segments, RfShared.segments_held) are written here and read
 * by the views.
 */
#ifndef RF_POOL_H
#define RF_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "rdma_fdw/provider.h"
#include "shmem/layout.h"

#define RF_POOL_PAGE	4096u

typedef struct RfPool RfPool;

typedef struct RfBlock
{
	int32_t		segment;		/* -1 if not allocated */
	uint32_t	page;
	uint32_t	pages;
} RfBlock;

typedef enum RfPoolResult
{
	RF_POOL_TAKEN,
	RF_POOL_NONE_FREE,			/* try again when something is returned */
	RF_POOL_FAILED				/* *error: impossible, or registration failed */
} RfPoolResult;

extern RfPool *rf_pool_create(RfShared *shared, const RfProvider *provider);
extern void rf_pool_destroy(RfPool *pool);

/* `size` bytes of a segment that is or can be lent to the peer. */
extern RfPoolResult rf_pool_take(RfPool *pool, int peer, RfDomain *domain, size_t size,
								 RfBlock *block, RfError *error);

/* The same for several peers, whose domains are domains[peer]. */
extern RfPoolResult rf_pool_take_shared(RfPool *pool, const RfPeerSet *peers,
										RfDomain *const *domains, size_t size, RfBlock *block,
										RfError *error);
extern uint8_t *rf_pool_address(RfPool *pool, const RfBlock *block);

/* NULL: the peer has no access to it, or no longer. */
extern const RfRegion *rf_pool_region(RfPool *pool, const RfBlock *block, int peer);
extern void rf_pool_return(RfPool *pool, RfBlock *block);

/* After a restart of the engine: a backend still reads this memory. */
extern void rf_pool_mark(RfPool *pool, const uint8_t *address, size_t size, RfBlock *block);

/*
 * The peer's queue pairs are gone: takes back its segments. Pages still in use stay so until they
 * are returned. The pool owns the domain from here on, and destroys it when it is quiet.
 */
extern void rf_pool_peer_gone(RfPool *pool, int peer, RfDomain *domain);

/* Checks domains that were not quiet again. True if segments became free. */
extern bool rf_pool_settle(RfPool *pool);

#endif
