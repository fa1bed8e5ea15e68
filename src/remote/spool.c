/*
 * spool.c - batches that must be kept: of a scan whose session another scan needs, and of one that
 * is read again (see spool.h).
 *
 * It copies whole batches and does not look into them.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#include "spool.h"

typedef struct SpoolChunk
{
	struct SpoolChunk *next;
	uint64		length;			/* a multiple of 8 bytes in front of the data keeps it aligned */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} SpoolChunk;

struct RfSpool
{
	MemoryContext context;
	ResourceOwner owner;
	SpoolChunk *first;
	SpoolChunk *last;
	SpoolChunk *at;				/* next chunk to read, NULL: go on in the file */
	uint64		memory;			/* bytes in chunks */
	uint64		bytes;
	BufFile    *file;			/* NULL: everything is in memory */
	uint64		in_file;		/* batches there */
	uint64		read_from_file;
	char	   *buffer;			/* the batch read last from the file */
	Size		buffer_size;
};

RfSpool *
rf_spool_create(MemoryContext context, ResourceOwner owner)
{
	RfSpool    *spool = MemoryContextAllocZero(context, sizeof(RfSpool));

	spool->context = context;
	spool->owner = owner;
	return spool;
}

/*
 * Temporary files go to the resource owner that is current when they are made, and to the current
 * memory context.
 */
static void
open_file(RfSpool *spool)
{
	ResourceOwner save_owner = CurrentResourceOwner;
	MemoryContext save_context = MemoryContextSwitchTo(spool->context);

	CurrentResourceOwner = spool->owner;
	PG_TRY();
	{
		spool->file = BufFileCreateTemp(false);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = save_owner;
		MemoryContextSwitchTo(save_context);
	}
	PG_END_TRY();
}

void
rf_spool_put(RfSpool *spool, const void *data, uint32 length)
{
	spool->bytes += length;
	if (spool->file == NULL && spool->memory + length <= (uint64) work_mem * 1024)
	{
		SpoolChunk *chunk = MemoryContextAllocHuge(spool->context, offsetof(SpoolChunk, data) + (Size) length);

		chunk->next = NULL;
		chunk->length = length;
		memcpy(chunk->data, data, length);
		if (spool->last)
			spool->last->next = chunk;
		else
			spool->first = chunk;
		spool->last = chunk;
		spool->memory += length;
		return;
	}

	if (spool->file == NULL)
		open_file(spool);
	BufFileWrite(spool->file, &length, sizeof(length));
	/* unconst: the parameter of release 15 is not const */
	BufFileWrite(spool->file, unconstify(void *, data), length);
	spool->in_file++;
}

void
rf_spool_rewind(RfSpool *spool)
{
	spool->at = spool->first;
	spool->read_from_file = 0;
	if (spool->file && BufFileSeek(spool->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file of a foreign scan")));
}

static void
read_exact(RfSpool *spool, void *to, Size length)
{
	if (BufFileRead(spool->file, to, length) != length)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of a foreign scan")));
}

bool
rf_spool_get(RfSpool *spool, const void **data, uint32 *length)
{
	if (spool->at)
	{
		*data = spool->at->data;
		*length = spool->at->length;
		spool->at = spool->at->next;
		return true;
	}
	if (spool->read_from_file == spool->in_file)
		return false;

	read_exact(spool, length, sizeof(*length));
	if (spool->buffer_size < *length)
	{
		if (spool->buffer)
			pfree(spool->buffer);
		spool->buffer = NULL;
		spool->buffer_size = 0;
		spool->buffer = MemoryContextAllocHuge(spool->context, *length);
		spool->buffer_size = *length;
	}
	read_exact(spool, spool->buffer, *length);
	spool->read_from_file++;
	*data = spool->buffer;
	return true;
}

uint64
rf_spool_bytes(RfSpool *spool)
{
	return spool->bytes;
}

void
rf_spool_close(RfSpool *spool)
{
	if (spool->file)
		BufFileClose(spool->file);
	spool->file = NULL;
}
