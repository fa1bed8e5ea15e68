/*
 * kept_memory.c - freed memory that a session keeps for its next statement.
 *
 * A statement's hash tables and sorts take megabytes, which it frees at its end. The C library
 * gives memory from the top of the heap, and large blocks, back to the kernel then, and the next
 * statement gets it again page by page, each by a fault and filled with zeros: of short statements
 * that can be half of the time. glibc adapts its limits to the largest block that it saw freed, 32
 * MB at most, so whether it happens is chance. Sessions of data nodes run one statement after the
 * other of the same kind; they, and sessions of coordinators that read from them, have the limits
 * that glibc would end with.
 */
#include "postgres.h"

#include <malloc.h>

#include "rdma_fdw/guc.h"

#include "kept_memory.h"

/*
 * Blocks from here on have a mapping of their own; glibc refuses more. It keeps twice as much as
 * the largest block that it has seen.
 */
#define LARGEST_HEAP_BLOCK	(32 * 1024 * 1024)
#define KEPT				(2 * LARGEST_HEAP_BLOCK)

/* glibc's limits, both of them, before they adapt */
#define INITIAL_LIMIT		(128 * 1024)

void
rf_keep_memory(void)
{
#ifdef M_TRIM_THRESHOLD
	static bool kept = false;
	bool		keep = !rf_is_disabled(RF_KEPT_MEMORY);

	if (keep == kept)
		return;

	/* once set, the library does not go back to limits that adapt */
	(void) mallopt(M_TRIM_THRESHOLD, keep ? KEPT : INITIAL_LIMIT);
	(void) mallopt(M_MMAP_THRESHOLD, keep ? LARGEST_HEAP_BLOCK : INITIAL_LIMIT);
	kept = keep;
#endif
}
