/*
 * batches.h - a store of batches: in memory up to work_mem, beyond that in a temporary file.
 *
 * Used for rows of an exchange that wait for their reader, and for streams that are set aside or
 * read again. One backend puts batches in. A reader has a cursor, which it may share with parallel
 * workers where the store is shared: each of these processes takes a batch when it is free.
 */
#ifndef RF_BATCHES_H
#define RF_BATCHES_H

#include "postgres.h"

#include "storage/dsm.h"
#include "utils/dsa.h"
#include "utils/resowner.h"

typedef struct RfBatches RfBatches;
typedef struct RfBatchCursor RfBatchCursor;

typedef enum RfBatchesKind
{
	RF_BATCHES_ONCE,			/* one cursor, of this process; what it has read is freed */
	RF_BATCHES_KEPT,			/* cursors of this process */
	RF_BATCHES_SHARED			/* also of parallel workers */
} RfBatchesKind;

/* A worker's description of a store and of a cursor. */
typedef struct RfBatchesShare
{
	dsm_handle	segment;
	dsa_pointer cursor;
} RfBatchesShare;

/*
 * Handles, and batches that are not shared, live in the memory context; shared memory and files
 * belong to the resource owner. ERROR when there is no more of either.
 */
extern RfBatches *rf_batches_create(RfBatchesKind kind, MemoryContext context, ResourceOwner owner);

/*
 * A copy, which this process may read at once. Returns false if it went to disk: workers may take
 * it when the store is complete.
 */
extern bool rf_batches_put(RfBatches *batches, const void *batch, uint32 length);

/* There are no more; from now on all processes may take all batches. */
extern void rf_batches_complete(RfBatches *batches);

/* No more batches are added or read from the file; wakes all waiters. */
extern void rf_batches_abandon(RfBatches *batches);

/*
 * Opens a cursor at the first batch. With `share`, up to `processes` processes may share it, this
 * one included: workers attach by what is written to *share. The cursor lives as long as the store.
 */
extern RfBatchCursor *rf_batches_open(RfBatches *batches, int processes, RfBatchesShare *share);
extern RfBatchCursor *rf_batches_attach(const RfBatchesShare *share, MemoryContext context,
										ResourceOwner owner);
extern RfBatches *rf_batches_of(const RfBatchCursor *cursor);

/*
 * Takes the next batch, 8-aligned and valid until this process's next call. Returns false if there
 * is no batch now.
 */
extern bool rf_batches_next(RfBatchCursor *cursor, const void **batch, uint32 *length);

/* Sleeps until there may be one. Returns false if there will be no batch. */
extern bool rf_batches_wait(RfBatchCursor *cursor);

/* All may be taken again. No worker may be taking any. */
extern void rf_batches_rewind(RfBatchCursor *cursor);

/* Rows that process 0 .. `processes` - 1 took, summed up; each counts its own. */
extern void rf_batches_count(RfBatchCursor *cursor, int process, uint64 rows);
extern int	rf_batches_processes(const RfBatchCursor *cursor);
extern uint64 rf_batches_taken(RfBatchCursor *cursor, int process);

/*
 * Called once by the creator, and once per attach by a worker. Other processes may go on reading;
 * the last frees it all. Memory that is not shared goes with the context. Not after an abort: then
 * file and shared memory are gone already.
 */
extern void rf_batches_close(RfBatches *batches);

#endif
