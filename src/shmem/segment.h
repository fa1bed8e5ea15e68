/*
 * segment.h - a segment of the arena, and the memory under it, which changes with its borrower.
 *
 * A peer on this host writes into borrowed memory by its own memcpy. The end of a connection or of
 * an engine does not stop a copy that has begun: a peer that was stopped in it finishes it when it
 * continues. And a peer can keep a descriptor that it was given. So memory of one node is never
 * lent to another, and the next engine never lends memory that an earlier one lent: a segment gets
 * new memory, a new memfd at the same addresses, before it is lent to another node than the last
 * time, and before the first loan of an engine that was restarted. A peer that still has the old
 * memory writes to memory that nobody reads. (Within one life of an engine an ended connection
 * keeps its segments until the provider reports that it is quiet: only then may the same node have
 * them again unchanged.) Over TCP this process writes, and a device writes by keys that end with
 * their process: there the same rule costs page faults instead of wiping.
 *
 * Writers: the postmaster makes the memory of generation 0, which every process has by fork. The
 * engine's main thread renews a segment that is lent to nobody and in which no flow has buffers, so
 * nobody reads it; its words below are stored before the state of the first flow in it is OPEN.
 * Readers: a backend that finds its flow OPEN calls rf_segment_attach once, before it touches the
 * buffers, and maps the memory that the words describe: the memory cannot change again before that
 * backend has released the flow, not even if the engine is restarted, as the next one finds the
 * buffers in use (rf_pool_mark). A backend does not read memory of an older generation that it
 * still maps. Freeing: renewing gives the pages of the old memory back at once, whichever process
 * maps it; the memfd goes with its last mapping. Pages of an engine that has ended stay until then.
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
	int32_t		peer;			/* RF_NO_PEER = free, RF_SEVERAL_PEERS; the main thread writes */
	_Atomic uint32_t used_pages;	/* allocation units in use */

	/* The memory. */
	_Atomic uint32_t generation;	/* how often it was renewed */
	int			fd;				/* memfd. Generation 0: the postmaster's, valid in every process;
								 * else the engine's; -1: an earlier engine's */
	uint64_t	inode;			/* of the memfd, unless it is of generation 0 */
} RfSegment;

/*
 * A memfd of `size` bytes that cannot shrink, of huge pages if they are wanted and there, mapped at
 * addr instead of the previous mapping. -1 and *error: the previous mapping may be gone. Other
 * threads may map memory meanwhile: at no time do they get these addresses.
 */
extern int	rf_segment_create(uint8_t *addr, size_t size, bool huge_pages, RfError *error);

/* Engine's main thread, for an unused segment: new memory, all zeros. */
extern bool rf_segment_renew(RfSegment *segments, uint32_t index, size_t size, bool huge_pages,
							 RfError *error);

/* A new engine begins: it does not have the descriptor that the previous one made. */
extern void rf_segment_forget(RfSegment *segment);

/*
 * Backend: maps the segment's current memory, from the engine with this process id. False:
 * impossible, with the reason in *error; usually the engine has ended.
 */
extern bool rf_segment_attach(RfSegment *segments, uint32_t index, size_t size,
							  int32_t engine_pid, RfError *error);

#endif
