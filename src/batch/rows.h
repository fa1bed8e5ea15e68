/*
 * rows.h - inside the batch room: rows on their way to several encoders, from tuples of heap pages.
 */
#ifndef RF_ROWS_H
#define RF_ROWS_H

#include "postgres.h"

#include "access/htup_details.h"
#include "rdma_fdw/batch.h"

/* Tuples whose values are found together: this many are still in the first-level cache. */
#define RF_ROWS_TOGETHER	64

/* The places of attributes in a heap tuple. */
typedef struct RfRowsMap RfRowsMap;

/* rows_tuples.c. In the current memory context; NULL: these columns cannot be found in tuples. */
extern RfRowsMap *rf_rows_map(TupleDesc desc, const RfRows *rows);

/* Finds the values of all pending tuples. */
extern void rf_rows_find_pending(RfRows *rows);

static inline void
rf_rows_find(RfRows *rows)
{
	if (rows->found < rows->count)
		rf_rows_find_pending(rows);
}

/* Upper bound of a varlena's bytes in the heap of a batch; notes it if that is not known. */
static inline uint32
rf_rows_heap_bytes(RfRows *rows, const char *value, Size *bytes)
{
	if (VARATT_IS_1B(value) && !VARATT_IS_1B_E(value))
		return *bytes = VARSIZE_1B(value);
	*bytes = VARSIZE_ANY(value);
	if (VARATT_IS_4B_U(value))
		return *bytes + 7;
	rows->toasted = true;
	return 0;
}

static inline void
rf_rows_note_heap(RfRows *rows, uint64 bytes)
{
	if (unlikely(bytes > rows->heap_bytes))
		rows->heap_bytes = Min(bytes, PG_UINT32_MAX);
}

#endif
