/*
 * reassemble.c - see reassemble.h.
 */
#include "postgres.h"

#include "port/pg_crc32c.h"

#include "rdma_fdw/reassemble.h"

void
rf_reassembly_init(RfReassembly *batch, MemoryContext context, const char *source, Size first)
{
	*batch = (RfReassembly)
	{
		.context = context, .source = source, .first = first
	};
}

/* It grows by its pieces; the length in its header is not believed before the bytes came. */
static void
reserve(RfReassembly *batch, Size size)
{
	Size		room = Max(Max(batch->size * 2, batch->first), size);

	if (size <= batch->size)
		return;
	if (batch->data)
		batch->data = repalloc_huge(batch->data, room);
	else
		batch->data = MemoryContextAllocHuge(batch->context, room);
	batch->size = room;
}

bool
rf_reassembly_add(RfReassembly *batch, const RfBuffer *piece)
{
	bool		first = (piece->flags & RF_SLOT_FIRST) != 0;

	if (first == batch->open || piece->offset != (first ? 0 : batch->length))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("received a part of a column batch out of order"),
				 errdetail("Rows of \"%s\".", batch->source)));
	if (first)
		batch->length = 0;
	if (batch->length + piece->length > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a row of \"%s\" is too large", batch->source)));
	reserve(batch, batch->length + piece->length);
	memcpy(batch->data + batch->length, piece->data, piece->length);
	batch->length += piece->length;
	batch->open = (piece->flags & RF_SLOT_LAST) == 0;
	if (batch->open)
		return false;
	rf_check_batch(batch->data, batch->length, piece->checksum);
	return true;
}

char *
rf_reassembly_detach(RfReassembly *batch)
{
	char	   *data = batch->data;

	if (batch->open)
		return NULL;
	batch->data = NULL;
	batch->size = batch->length = 0;
	return data;
}

void
rf_reassembly_void(RfReassembly *batch)
{
	batch->open = false;
}

void
rf_check_batch(const void *data, Size length, uint32 checksum)
{
#ifdef USE_ASSERT_CHECKING
	pg_crc32c	crc;

	if (checksum == 0)
		return;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data, length);
	FIN_CRC32C(crc);
	if (crc != checksum)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("received a column batch that differs from the sent batch"),
				 errdetail("Its checksum is %08X instead of %08X.", crc, checksum)));
#endif
}
