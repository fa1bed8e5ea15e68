/*
 * segment.h - a segment of the arena, and the memory under it, which changes with its borrower.
 *
 * A peer on this host writes into borrowed memory by its own memcpy. No end of a connection or of
 * an engine stops one that is under way: a peer that was stopped in it finishes it whenever it goes
 * on. And a peer that was given a descriptor can keep it. So memory that was one node's is never
 * another's, and the next engine never lends the memory that an earlier one lent: a segment gets
 * new memory, a new memfd at the same addresses, before it is lent to another node than the last
 * time, and before the first loan of an engine that was restarted. A peer that still has the old
 * memory writes where nobody reads. (Within one life of an engine a connection that is over holds
 * its segments until the provider says that it is quiet: only then may the same node have them
 * again as they are.) Over TCP this process writes, and a device writes by keys that end with their
 * process: there the same rule costs page faults instead of wiping.
 *
 * Who writes: the postmaster makes the memory of generation 0, which every process has by fork. The
 * engine's main thread renews a segment that is lent to nobody and in which no flow has buffers, so
 * nobody reads it; its words below are stored before the state of the first flow in it is OPEN.
 * Who reads: a backend that finds its flow OPEN calls rf_segment_attach once, before it touches the
 * buffers, and maps what the words say: the memory cannot change again before that backend has let
 * go of the flow, also not when the engine is restarted, as the next one finds the buffers in use
 * (rf_pool_mark). What a backend still maps of an older generation it does not look at any more.
 * Who frees: renewing gives the pages of the old memory back at once, whichever process maps it; the memfd
 * goes with its last mapping. Of an engine that has ended the pages stay until then.
 *
 * Plain C.
 */
#ifndef RF_SEGMENT_H
#define RF_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rdma_fdw/guc.h"

#define RF_MAX_SEGMENTS		1024

typedef struct RfSegment
{
	uint8_t    *addr;			/* the same in every process; fixed */
	int32_t		peer;			/* RF_NO_PEER = free, RF_SEVERAL_PEERS. Engine's main thread writes */
	_Atomic uint32_t used_pages;	/* allocation units in use */

	/* The memory. */
	_Atomic uint32_t generation;	/* how often it was renewed */
	int			fd;				/* memfd. Generation 0: the postmaster's, valid in every process; else
								 * the engine's; -1: an earlier engine's */
	uint64_t	inode;			/* of the memfd, unless it is of generation 0 */
} RfSegment;

/*
 * A memfd of `size` bytes that cannot shrink, mapped at addr in the place of what was there. -1 and
 * *error: what was there may be gone.
 */
extern int	rf_segment_create(uint8_t *addr, size_t size, RfHugePages huge, RfError *error);

/* Engine's main thread, segment in nobody's use: new memory, all zeros. */
extern bool rf_segment_renew(RfSegment *segments, uint32_t index, size_t size, RfHugePages huge,
							 RfError *error);

/* A new engine begins: what the one before it renewed is not at hand any more. */
extern void rf_segment_forget(RfSegment *segment);

/*
 * Backend: the segment's memory as it is now, from the engine with this process id. False: it could
 * not be had, and *error says why; mostly that the engine has ended.
 */
extern bool rf_segment_attach(RfSegment *segments, uint32_t index, size_t size,
							  int32_t engine_pid, RfError *error);

#endif
