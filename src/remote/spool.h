/*
 * spool.h - a sequence of batches kept here: in memory up to work_mem, behind that in a temporary
 * file. It grows at its end, also while it is read, and can be read any number of times.
 */
#ifndef RF_SPOOL_H
#define RF_SPOOL_H

#include "postgres.h"

#include "utils/resowner.h"

typedef struct RfSpool RfSpool;

/* Lives in `context`; a temporary file belongs to `owner`. */
extern RfSpool *rf_spool_create(MemoryContext context, ResourceOwner owner);
extern void rf_spool_put(RfSpool *spool, const void *data, uint32 length);
extern void rf_spool_rewind(RfSpool *spool);

/* Next batch, 8-aligned and valid until the next call; false behind the last one. */
extern bool rf_spool_get(RfSpool *spool, const void **data, uint32 *length);

/*
 * Closes the file. The memory goes with the context. Not after an abort: then the file is gone
 * already.
 */
extern void rf_spool_close(RfSpool *spool);

#endif
