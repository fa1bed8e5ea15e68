/*
 * spool.c - keeps batches: of a scan whose session another scan needs, and of a scan that is read
 * again (see spool.h).
 *
 * It copies whole batches and does not read their contents.
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
	SpoolChunk *given;			/* the chunk read last; NULL before the first */
	uint64		memory;			/* bytes in chunks */
	BufFile    *file;			/* NULL: everything is in memory */
	uint64		in_file;		/* batches there */
	uint64		read_from_file;
	bool		reading;		/* the file's position: behind the batch read last, or at its end; */
	int			other_fileno;	/* and the second of these positions */
	off_t		other_offset;
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

static void
seek_file(RfSpool *spool, int fileno, off_t offset)
{
	if (BufFileSeek(spool->file, fileno, offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of a foreign scan")));
}

/* The file goes to where it is read, or to where it is written. */
static void
turn_file(RfSpool *spool, bool reading)
{
	int			fileno;
	off_t		offset;

	if (spool->reading == reading)
		return;
	BufFileTell(spool->file, &fileno, &offset);
	seek_file(spool, spool->other_fileno, spool->other_offset);
	spool->other_fileno = fileno;
	spool->other_offset = offset;
	spool->reading = reading;
}

void
rf_spool_put(RfSpool *spool, const void *data, uint32 length)
{
	if (spool->file == NULL && spool->memory + length <= (uint64) work_mem * 1024)
	{
		SpoolChunk *chunk = MemoryContextAllocHuge(spool->context,
												   offsetof(SpoolChunk, data) + (Size) length);

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
	turn_file(spool, false);
	BufFileWrite(spool->file, &length, sizeof(length));
	/* unconst: the parameter of release 15 is not const */
	BufFileWrite(spool->file, unconstify(void *, data), length);
	spool->in_file++;
}

void
rf_spool_rewind(RfSpool *spool)
{
	spool->given = NULL;
	spool->read_from_file = 0;
	if (spool->file == NULL)
		return;
	turn_file(spool, true);
	seek_file(spool, 0, 0);
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
	SpoolChunk *next = spool->given != NULL ? spool->given->next : spool->first;

	if (next != NULL)
	{
		*data = next->data;
		*length = next->length;
		spool->given = next;
		return true;
	}
	if (spool->read_from_file == spool->in_file)
		return false;

	turn_file(spool, true);
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

void
rf_spool_close(RfSpool *spool)
{
	if (spool->file)
		BufFileClose(spool->file);
	spool->file = NULL;
}
