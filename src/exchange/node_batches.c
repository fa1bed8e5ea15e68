/*
 * node_batches.c - batches of one exchange that several processes read, each batch once, or several
 * readers, each all of them.
 *
 * The backend that runs the statement puts batches in, and announces when there are no more. A
 * reader has a cursor, which the backend may share with parallel workers: each of these processes
 * takes a batch when it is free. Batches in memory may be taken at once. Beyond work_mem they go to
 * a shared temporary file, which can be read when nothing more is written to it.
 *
 * Does: keep bytes. Does not: read their contents, or know of plans.
 *
 * Shared memory: a segment of its own, because plans may read one exchange's rows below one Gather
 * and another's below a second one that starts later, and the rows must be there before either
 * makes its segment. The statement's resource owner holds it, and each worker's; the last that lets
 * go removes it, the memory of the batches, and the files. A process that takes batches writes the
 * cursor's `next`, atomically, and its own count of rows; the putting backend writes everything
 * else. It writes a batch and its place before it raises `count` (with a barrier, as readers have
 * one behind it), and nothing of them afterwards; the rest, and cursors, before any other process
 * knows of them.
 */
#include "postgres.h"

#include "node.h"

#include "access/parallel.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/buffile.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/sharedfileset.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"

#define FILE_NAME		"batches"

/* Room in the segment itself for the batches of small exchanges. */
#define FIRST_SPACE		((Size) 256 * 1024)

/* Places lie in pieces, each twice as large as the one before, that stay where they are. */
#define FIRST_PLACES	64
#define MOST_PIECES		26

typedef struct BatchPlace
{
	dsa_pointer memory;			/* InvalidDsaPointer: it is in the file, here: */
	int			fileno;
	off_t		offset;
	uint32		length;
} BatchPlace;

typedef struct SharedBatches
{
	SharedFileSet files;
	pg_atomic_uint32 count;		/* of the batches that may be taken */
	pg_atomic_uint32 over;		/* these are all */
	ConditionVariable more;		/* one of these two was written */
	bool		shared;			/* other processes may wait for that */
	dsa_pointer places[MOST_PIECES];	/* BatchPlace of each */
} SharedBatches;

typedef struct SharedCursor
{
	pg_atomic_uint32 next;		/* the batch that is taken next */
	int			processes;
	pg_atomic_uint64 taken[FLEXIBLE_ARRAY_MEMBER];	/* rows of each process, written by it alone */
} SharedCursor;

struct ExchangeBatches
{
	slist_node	node;			/* in a worker: of the batches that it has attached to */
	int			users;			/* there: cursors that came with it */
	MemoryContext context;
	ResourceOwner owner;
	dsm_segment *segment;
	SharedBatches *shared;
	dsa_area   *area;
	BatchPlace *places[MOST_PIECES];	/* NULL: this process has not looked yet */
	uint32		count;			/* of the batches that were put in */
	Size		memory;			/* bytes of batches there */
	bool		in_file;		/* since a batch did not fit there */
	BufFile    *file;			/* NULL: not used, or not opened here */
};

/* One in each process that shares it. */
struct ExchangeCursor
{
	ExchangeBatches *batches;
	SharedCursor *shared;
	char	   *buffer;			/* of the batch that it read last from the file */
	Size		buffer_size;
};

/*
 * Batches that this worker has attached, since a process cannot map a segment twice: plan nodes
 * below one Gather may read the same batches.
 */
static slist_head attached = SLIST_STATIC_INIT(attached);

static ExchangeBatches *
make_handle(MemoryContext context, ResourceOwner owner)
{
	ExchangeBatches *batches = MemoryContextAllocZero(context, sizeof(ExchangeBatches));

	batches->users = 1;
	batches->context = context;
	batches->owner = owner;
	return batches;
}

typedef struct Surroundings
{
	MemoryContext context;
	ResourceOwner owner;
} Surroundings;

/* Everything allocated between here and `leave` belongs to the handle. */
static Surroundings
enter(ExchangeBatches *batches)
{
	Surroundings outside = {MemoryContextSwitchTo(batches->context), CurrentResourceOwner};

	CurrentResourceOwner = batches->owner;
	return outside;
}

static void
leave(Surroundings outside)
{
	MemoryContextSwitchTo(outside.context);
	CurrentResourceOwner = outside.owner;
}

ExchangeBatches *
rf_batches_create(MemoryContext context, ResourceOwner owner)
{
	ExchangeBatches *batches = make_handle(context, owner);
	Size		header = MAXALIGN(sizeof(SharedBatches));
	Size		space = Max(dsa_minimum_size(), FIRST_SPACE);
	Surroundings outside = enter(batches);

	batches->segment = dsm_create(header + space, 0);
	batches->shared = dsm_segment_address(batches->segment);
	SharedFileSetInit(&batches->shared->files, batches->segment);
	pg_atomic_init_u32(&batches->shared->count, 0);
	pg_atomic_init_u32(&batches->shared->over, 0);
	ConditionVariableInit(&batches->shared->more);
	batches->shared->shared = false;
	for (int i = 0; i < MOST_PIECES; i++)
		batches->shared->places[i] = InvalidDsaPointer;
	batches->area = dsa_create_in_place((char *) batches->shared + header, space,
										LWTRANCHE_PARALLEL_QUERY_DSA, batches->segment);
	leave(outside);
	return batches;
}

/* The batch's place; with `make` the piece that it is in is allocated. */
static BatchPlace *
place_of(ExchangeBatches *batches, uint32 number, bool make)
{
	int			piece = pg_leftmost_one_pos32(number / FIRST_PLACES + 1);
	uint32		size = FIRST_PLACES << piece;

	if (batches->places[piece] == NULL)
	{
		if (make && !DsaPointerIsValid(batches->shared->places[piece]))
			batches->shared->places[piece] = dsa_allocate_extended(
																   batches->area,
																   size * sizeof(BatchPlace),
																   DSA_ALLOC_HUGE);
		batches->places[piece] = dsa_get_address(batches->area, batches->shared->places[piece]);
	}
	return &batches->places[piece][number + FIRST_PLACES - size];
}

/* Readers may take the first `count` batches. */
static void
publish(ExchangeBatches *batches, uint32 count)
{
	pg_write_barrier();
	pg_atomic_write_u32(&batches->shared->count, count);
	if (batches->shared->shared)
		ConditionVariableBroadcast(&batches->shared->more);
}

bool
rf_batches_put(ExchangeBatches *batches, const void *batch, uint32 length)
{
	Surroundings outside = enter(batches);
	BatchPlace *place = place_of(batches, batches->count, true);

	batches->in_file |= batches->memory + length > (Size) work_mem * 1024;
	place->memory = InvalidDsaPointer;
	place->fileno = 0;
	place->offset = 0;
	place->length = length;
	batches->count++;
	if (!batches->in_file)
	{
		place->memory = dsa_allocate_extended(batches->area, length, DSA_ALLOC_HUGE);
		memcpy(dsa_get_address(batches->area, place->memory), batch, length);
		batches->memory += length;
		publish(batches, batches->count);
	}
	else
	{
		if (batches->file == NULL)
			batches->file = BufFileCreateFileSet(&batches->shared->files.fs, FILE_NAME);
		BufFileTell(batches->file, &place->fileno, &place->offset);
		/* unconst: the parameter of release 15 is not const */
		BufFileWrite(batches->file, unconstify(void *, batch), length);
	}
	leave(outside);
	return !batches->in_file;
}

void
rf_batches_complete(ExchangeBatches *batches)
{
	Surroundings outside = enter(batches);

	if (batches->file != NULL)
	{
		BufFileExportFileSet(batches->file);
		BufFileClose(batches->file);
		batches->file = NULL;
	}
	publish(batches, batches->count);
	leave(outside);
	rf_batches_abandon(batches);
}

void
rf_batches_abandon(ExchangeBatches *batches)
{
	pg_write_barrier();
	pg_atomic_write_u32(&batches->shared->over, 1);
	ConditionVariableBroadcast(&batches->shared->more);
}

static ExchangeCursor *
make_cursor(ExchangeBatches *batches, dsa_pointer shared)
{
	ExchangeCursor *cursor = MemoryContextAllocZero(batches->context, sizeof(ExchangeCursor));

	/* may map the memory's segment */
	Surroundings outside = enter(batches);

	cursor->batches = batches;
	cursor->shared = dsa_get_address(batches->area, shared);
	leave(outside);
	return cursor;
}

ExchangeCursor *
rf_batches_open(ExchangeBatches *batches, int processes, ExchangeBatchesShare *share)
{
	Surroundings outside = enter(batches);
	dsa_pointer memory = dsa_allocate(batches->area, offsetof(SharedCursor, taken) +
									  processes * sizeof(pg_atomic_uint64));
	ExchangeCursor *cursor = make_cursor(batches, memory);

	pg_atomic_init_u32(&cursor->shared->next, 0);
	cursor->shared->processes = processes;
	for (int i = 0; i < processes; i++)
		pg_atomic_init_u64(&cursor->shared->taken[i], 0);
	leave(outside);
	if (share != NULL)
	{
		batches->shared->shared = true;
		share->segment = dsm_segment_handle(batches->segment);
		share->cursor = memory;
	}
	return cursor;
}

static ExchangeBatches *
attach(dsm_handle segment, MemoryContext context, ResourceOwner owner)
{
	ExchangeBatches *batches = make_handle(context, owner);
	Surroundings outside = enter(batches);

	batches->segment = dsm_attach(segment);
	if (batches->segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not map dynamic shared memory segment")));
	batches->shared = dsm_segment_address(batches->segment);
	SharedFileSetAttach(&batches->shared->files, batches->segment);
	batches->area = dsa_attach_in_place((char *) batches->shared + MAXALIGN(sizeof(SharedBatches)),
										batches->segment);
	leave(outside);
	slist_push_head(&attached, &batches->node);
	return batches;
}

ExchangeCursor *
rf_batches_attach(const ExchangeBatchesShare *share, MemoryContext context, ResourceOwner owner)
{
	slist_iter	iter;

	slist_foreach(iter, &attached)
	{
		ExchangeBatches *batches = slist_container(ExchangeBatches, node, iter.cur);

		if (dsm_segment_handle(batches->segment) != share->segment)
			continue;
		batches->users++;
		return make_cursor(batches, share->cursor);
	}
	return make_cursor(attach(share->segment, context, owner), share->cursor);
}

/*
 * Reads a batch from the file into the cursor's own buffer, where it stays until the cursor's next
 * batch.
 */
static const void *
read_from_file(ExchangeCursor *cursor, const BatchPlace *place)
{
	ExchangeBatches *batches = cursor->batches;

	if (batches->file == NULL)
		batches->file = BufFileOpenFileSet(&batches->shared->files.fs, FILE_NAME, O_RDONLY, false);
	if (cursor->buffer_size < place->length)
	{
		if (cursor->buffer != NULL)
			pfree(cursor->buffer);
		cursor->buffer = NULL;
		cursor->buffer_size = 0;
		cursor->buffer = palloc_extended(place->length, MCXT_ALLOC_HUGE);
		cursor->buffer_size = place->length;
	}
	if (BufFileSeek(batches->file, place->fileno, place->offset, SEEK_SET) != 0 ||
		BufFileRead(batches->file, cursor->buffer, place->length) != place->length)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of an exchange")));
	return cursor->buffer;
}

bool
rf_batches_next(ExchangeCursor *cursor, const void **batch, uint32 *length)
{
	ExchangeBatches *batches = cursor->batches;
	uint32		number = pg_atomic_read_u32(&cursor->shared->next);
	BatchPlace *place;
	Surroundings outside;

	do
	{
		if (number >= pg_atomic_read_u32(&batches->shared->count))
			return false;
	} while (!pg_atomic_compare_exchange_u32(&cursor->shared->next, &number, number + 1));
	pg_read_barrier();
	/* maps the memory's segment, or opens the file */
	outside = enter(batches);
	place = place_of(batches, number, false);
	*length = place->length;
	*batch = DsaPointerIsValid(place->memory) ? dsa_get_address(batches->area, place->memory) :
		read_from_file(cursor, place);
	leave(outside);
	return true;
}

static bool
has_next(const ExchangeCursor *cursor)
{
	return pg_atomic_read_u32(&cursor->shared->next) <
		pg_atomic_read_u32(&cursor->batches->shared->count);
}

bool
rf_batches_wait(ExchangeCursor *cursor)
{
	SharedBatches *shared = cursor->batches->shared;
	static uint32 event = 0;
	bool		more = true;

	if (event == 0)
		event = rf_wait_event_new("RdmaFdwBatches");
	ConditionVariablePrepareToSleep(&shared->more);
	while (!has_next(cursor))
	{
		if (pg_atomic_read_u32(&shared->over) != 0)
		{
			/* which was written after the last of them */
			pg_read_barrier();
			more = has_next(cursor);
			break;
		}
		ConditionVariableSleep(&shared->more, event);
	}
	ConditionVariableCancelSleep();
	return more;
}

void
rf_batches_rewind(ExchangeCursor *cursor)
{
	pg_atomic_write_u32(&cursor->shared->next, 0);
}

void
rf_batches_count(ExchangeCursor *cursor, int process, uint64 rows)
{
	if (process < cursor->shared->processes)
		pg_atomic_write_u64(&cursor->shared->taken[process],
							pg_atomic_read_u64(&cursor->shared->taken[process]) + rows);
}

int
rf_batches_processes(const ExchangeCursor *cursor)
{
	return cursor->shared->processes;
}

uint64
rf_batches_taken(ExchangeCursor *cursor, int process)
{
	return pg_atomic_read_u64(&cursor->shared->taken[process]);
}

ExchangeBatches *
rf_batches_of(const ExchangeCursor *cursor)
{
	return cursor->batches;
}

void
rf_batches_close(ExchangeBatches *batches)
{
	if (--batches->users > 0)
		return;
	if (IsParallelWorker())
		slist_delete(&attached, &batches->node);
	if (batches->file != NULL)
		BufFileClose(batches->file);
	dsa_detach(batches->area);
	dsm_detach(batches->segment);
}
