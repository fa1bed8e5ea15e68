/*
 * batch_copy.c - batches that are copied out of receive buffers, because they came in several or
 * because the buffer must not be held.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "session.h"

/* A batch grows by its fragments; what its header announces is not believed before it came. */
void
rf_batch_copy_reserve(RfBatchCopy *copy, Size size)
{
	Size		room = Max(copy->size * 2, copy->first);

	if (size <= copy->size)
		return;
	room = Max(room, size);
	if (copy->data)
		copy->data = repalloc_huge(copy->data, room);
	else
		copy->data = MemoryContextAllocHuge(copy->context, room);
	copy->size = room;
}

/* True when the batch is complete: data and length. `server` may be NULL. */
bool
rf_batch_copy_add(RfBatchCopy *copy, const RfBuffer *buffer, const char *source, const char *server)
{
	bool		first = (buffer->flags & RF_SLOT_FIRST) != 0;

	if (first == copy->assembling)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("received a part of a column batch out of order"),
				 server ? errdetail("Rows of \"%s\" from server \"%s\".", source, server) :
				 errdetail("Rows of \"%s\".", source)));
	if (first)
		copy->length = 0;
	if (copy->length + buffer->length > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a row of \"%s\" is too large", source)));
	rf_batch_copy_reserve(copy, copy->length + buffer->length);
	memcpy(copy->data + copy->length, buffer->data, buffer->length);
	copy->length += buffer->length;
	copy->assembling = (buffer->flags & RF_SLOT_LAST) == 0;
	return !copy->assembling;
}
