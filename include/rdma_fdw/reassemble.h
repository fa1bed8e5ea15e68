/*
 * reassemble.h - a batch that comes in several slots, put together in the reader's own memory.
 *
 * One reassembly belongs to one stream of slots. Once it has a batch's first piece, all other
 * pieces must be added, or the stream must be given up. While it is `open` nothing else may be done
 * with `data`; only these functions write the fields.
 *
 * Each piece says how many bytes of its batch come before it (RfSlotHeader.offset), and is refused
 * when they are missing. Where PostgreSQL is built with assertions, on both nodes, the batch's
 * checksum is compared, too, also of a batch in one slot that is read where it lies.
 *
 * Needs PostgreSQL; one process's own memory.
 */
#ifndef RF_REASSEMBLE_H
#define RF_REASSEMBLE_H

#include "postgres.h"

#include "rdma_fdw/flow.h"

typedef struct RfReassembly
{
	MemoryContext context;		/* of `data` */
	const char *source;			/* name of the rows' source, for messages */
	Size		first;			/* room to begin with */
	char	   *data;			/* the pieces so far; NULL: no memory yet */
	Size		size;			/* of `data` */
	Size		length;			/* of the pieces so far */
	bool		open;			/* FIRST was seen, LAST was not */
} RfReassembly;

extern void rf_reassembly_init(RfReassembly *batch, MemoryContext context, const char *source,
							   Size first);

/* A whole batch in one slot, which may be read where it lies. */
static inline bool
rf_reassembly_is_whole(const RfReassembly *batch, const RfBuffer *piece)
{
	return !batch->open &&
		(piece->flags & (RF_SLOT_FIRST | RF_SLOT_LAST)) == (RF_SLOT_FIRST | RF_SLOT_LAST);
}

/*
 * Add a piece, or copy a whole batch. True: the batch is complete, `data` and `length`, and stays
 * so until the next call. ERROR when the piece does not continue the batch.
 */
extern bool rf_reassembly_add(RfReassembly *batch, const RfBuffer *piece);

/*
 * Passes the memory of the complete batch, or of an earlier one, to the caller, which must pfree
 * it; NULL if there is no batch, or it holds pieces of a batch that is not complete.
 */
extern char *rf_reassembly_detach(RfReassembly *batch);

/* The stream is given up: discard the pieces of an incomplete batch. */
extern void rf_reassembly_void(RfReassembly *batch);

/* ERROR unless the bytes have that checksum. Without assertions it does nothing. */
extern void rf_check_batch(const void *data, Size length, uint32 checksum);

#endif
