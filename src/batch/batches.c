/*
 * batches.c - a store of batches (see batches.h).
 *
 * Does: keep bytes. Does not: read their contents, or know of plans.
 *
 * The creator reads batches as soon as they are put in, also from the file that it still writes.
 * Other processes take those in memory at once, and those in the file, which must be exported
 * first, when the store is complete.
 *
 * Shared memory: a segment of its own, because plans may read one exchange's rows below one Gather
 * and another's below a second one that starts later, and the rows must be there before either
 * makes its segment. The statement's resource owner holds it, and each worker's; the last that lets
 * go removes it, the memory of the batches, and the files. A process that takes batches writes the
 * cursor's `next`, atomically, and its own count of rows; the creator writes everything else. It
 * writes a batch and its place before it raises `count` (with a barrier, as readers have one behind
 * it), and nothing of them afterwards; the rest, and cursors, before any other process knows of
 * them. A store that is not shared has the same structures in its creator's memory.
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/buffile.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/sharedfileset.h"
#include "utils/memutils.h"

#include "rdma_fdw/batches.h"
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

struct RfBatches
{
	RfBatchesKind kind;
	slist_node	node;			/* in a worker that has attached to it: of `attached` */
	int			users;			/* there: cursors that came with it */
	MemoryContext context;
	ResourceOwner owner;
	bool		created;		/* by this process, which knows all batches */
	dsm_segment *segment;		/* NULL: not shared */
	SharedBatches *shared;
	dsa_area   *area;			/* NULL: not shared */
	BatchPlace *places[MOST_PIECES];	/* NULL: this process has not looked yet */
	uint32		count;			/* of the batches that were put in */
	Size		memory;			/* bytes of batches there */
	bool		in_file;		/* shared: since a batch did not fit there */
	BufFile    *file;			/* NULL: not used, or not opened here */
	int			end_fileno;		/* where the next batch is written */
	off_t		end_offset;
};

/* One in each process that shares it. */
struct RfBatchCursor
{
	RfBatches  *batches;
	SharedCursor *shared;
	char	   *buffer;			/* of the batch that it read last from the file */
	Size		buffer_size;
};

/*
 * Batches that this worker has attached, since a process cannot map a segment twice: plan nodes
 * below one Gather may read the same batches.
 */
static slist_head attached = SLIST_STATIC_INIT(attached);

static RfBatches *
make_handle(RfBatchesKind kind, MemoryContext context, ResourceOwner owner)
{
	RfBatches  *batches = MemoryContextAllocZero(context, sizeof(RfBatches));

	batches->kind = kind;
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
enter(RfBatches *batches)
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

/* ---------- memory, of either kind ---------- */

static dsa_pointer
allocate(RfBatches *batches, Size size)
{
	if (batches->area != NULL)
		return dsa_allocate_extended(batches->area, size, DSA_ALLOC_HUGE);
	return (dsa_pointer) (uintptr_t) MemoryContextAllocHuge(batches->context, size);
}

static void *
address_of(RfBatches *batches, dsa_pointer memory)
{
	return batches->area != NULL ? dsa_get_address(batches->area, memory) :
		(void *) (uintptr_t) memory;
}

/* The batch's place; with `make` the piece that it is in is allocated. */
static BatchPlace *
place_of(RfBatches *batches, uint32 number, bool make)
{
	int			piece = pg_leftmost_one_pos32(number / FIRST_PLACES + 1);
	uint32		size = FIRST_PLACES << piece;

	if (batches->places[piece] == NULL)
	{
		if (make && !DsaPointerIsValid(batches->shared->places[piece]))
			batches->shared->places[piece] = allocate(batches, size * sizeof(BatchPlace));
		batches->places[piece] = address_of(batches, batches->shared->places[piece]);
	}
	return &batches->places[piece][number + FIRST_PLACES - size];
}

/* ---------- the creator ---------- */

static void
make_segment(RfBatches *batches)
{
	Size		header = MAXALIGN(sizeof(SharedBatches));
	Size		space = Max(dsa_minimum_size(), FIRST_SPACE);

	batches->segment = dsm_create(header + space, 0);
	batches->shared = dsm_segment_address(batches->segment);
	SharedFileSetInit(&batches->shared->files, batches->segment);
	batches->area = dsa_create_in_place((char *) batches->shared + header, space,
										LWTRANCHE_PARALLEL_QUERY_DSA, batches->segment);
}

RfBatches *
rf_batches_create(RfBatchesKind kind, MemoryContext context, ResourceOwner owner)
{
	RfBatches  *batches = make_handle(kind, context, owner);
	Surroundings outside = enter(batches);

	batches->created = true;
	if (kind == RF_BATCHES_SHARED)
		make_segment(batches);
	else
		batches->shared = palloc(sizeof(SharedBatches));
	pg_atomic_init_u32(&batches->shared->count, 0);
	pg_atomic_init_u32(&batches->shared->over, 0);
	ConditionVariableInit(&batches->shared->more);
	batches->shared->shared = false;
	for (int i = 0; i < MOST_PIECES; i++)
		batches->shared->places[i] = InvalidDsaPointer;
	leave(outside);
	return batches;
}

/* Readers may take the first `count` batches. */
static void
publish(RfBatches *batches, uint32 count)
{
	pg_write_barrier();
	pg_atomic_write_u32(&batches->shared->count, count);
	if (batches->shared->shared)
		ConditionVariableBroadcast(&batches->shared->more);
}

static void
seek_file(RfBatches *batches, int fileno, off_t offset)
{
	if (BufFileSeek(batches->file, fileno, offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of batches")));
}

static void
append_to_file(RfBatches *batches, BatchPlace *place, const void *batch)
{
	if (batches->file == NULL)
		batches->file = batches->area != NULL ?
			BufFileCreateFileSet(&batches->shared->files.fs, FILE_NAME) : BufFileCreateTemp(false);
	place->fileno = batches->end_fileno;
	place->offset = batches->end_offset;
	seek_file(batches, place->fileno, place->offset);
	/* unconst: the parameter of release 15 is not const */
	BufFileWrite(batches->file, unconstify(void *, batch), place->length);
	BufFileTell(batches->file, &batches->end_fileno, &batches->end_offset);
}

bool
rf_batches_put(RfBatches *batches, const void *batch, uint32 length)
{
	Surroundings outside = enter(batches);
	BatchPlace *place = place_of(batches, batches->count, true);
	bool		fits = !batches->in_file &&
		batches->memory + length <= (Size) work_mem * 1024;

	place->memory = InvalidDsaPointer;
	place->length = length;
	if (fits)
	{
		place->memory = allocate(batches, length);
		memcpy(address_of(batches, place->memory), batch, length);
		batches->memory += length;
	}
	else
		append_to_file(batches, place, batch);
	batches->count++;
	/* workers take batches by their number */
	batches->in_file = !fits && batches->area != NULL;
	if (fits)
		publish(batches, batches->count);
	leave(outside);
	return fits;
}

void
rf_batches_complete(RfBatches *batches)
{
	Surroundings outside = enter(batches);

	if (batches->file != NULL && batches->area != NULL)
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
rf_batches_abandon(RfBatches *batches)
{
	pg_write_barrier();
	pg_atomic_write_u32(&batches->shared->over, 1);
	ConditionVariableBroadcast(&batches->shared->more);
}

static RfBatchCursor *
make_cursor(RfBatches *batches, dsa_pointer shared)
{
	RfBatchCursor *cursor = MemoryContextAllocZero(batches->context, sizeof(RfBatchCursor));

	/* may map the memory's segment */
	Surroundings outside = enter(batches);

	cursor->batches = batches;
	cursor->shared = address_of(batches, shared);
	leave(outside);
	return cursor;
}

RfBatchCursor *
rf_batches_open(RfBatches *batches, int processes, RfBatchesShare *share)
{
	Surroundings outside = enter(batches);
	dsa_pointer memory = allocate(batches, offsetof(SharedCursor, taken) +
								  processes * sizeof(pg_atomic_uint64));
	RfBatchCursor *cursor = make_cursor(batches, memory);

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

static RfBatches *
attach(dsm_handle segment, MemoryContext context, ResourceOwner owner)
{
	RfBatches  *batches = make_handle(RF_BATCHES_SHARED, context, owner);
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

RfBatchCursor *
rf_batches_attach(const RfBatchesShare *share, MemoryContext context, ResourceOwner owner)
{
	slist_iter	iter;

	slist_foreach(iter, &attached)
	{
		RfBatches  *batches = slist_container(RfBatches, node, iter.cur);

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
read_from_file(RfBatchCursor *cursor, const BatchPlace *place)
{
	RfBatches  *batches = cursor->batches;

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
	seek_file(batches, place->fileno, place->offset);
	if (BufFileRead(batches->file, cursor->buffer, place->length) != place->length)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of batches")));
	return cursor->buffer;
}

/* Batches that this process may take. */
static uint32
known(const RfBatches *batches)
{
	return batches->created ? batches->count : pg_atomic_read_u32(&batches->shared->count);
}

/*
 * Frees the batch that the only cursor has read last. With the last of all, the places and the file
 * are used again from their beginning.
 */
static void
free_read(RfBatchCursor *cursor)
{
	RfBatches  *batches = cursor->batches;
	uint32		next = pg_atomic_read_u32(&cursor->shared->next);
	BatchPlace *place;

	if (next == 0)
		return;
	place = place_of(batches, next - 1, false);
	if (DsaPointerIsValid(place->memory))
	{
		pfree(address_of(batches, place->memory));
		place->memory = InvalidDsaPointer;
		batches->memory -= place->length;
	}
	if (next < batches->count)
		return;
	batches->count = 0;
	batches->end_fileno = 0;
	batches->end_offset = 0;
	rf_batches_rewind(cursor);
}

bool
rf_batches_next(RfBatchCursor *cursor, const void **batch, uint32 *length)
{
	RfBatches  *batches = cursor->batches;
	uint32		number;
	BatchPlace *place;
	Surroundings outside;

	if (batches->kind == RF_BATCHES_ONCE)
		free_read(cursor);
	number = pg_atomic_read_u32(&cursor->shared->next);
	do
	{
		if (number >= known(batches))
			return false;
	} while (!pg_atomic_compare_exchange_u32(&cursor->shared->next, &number, number + 1));
	pg_read_barrier();
	/* maps the memory's segment, or opens the file */
	outside = enter(batches);
	place = place_of(batches, number, false);
	*length = place->length;
	*batch = DsaPointerIsValid(place->memory) ? address_of(batches, place->memory) :
		read_from_file(cursor, place);
	leave(outside);
	return true;
}

static bool
has_next(const RfBatchCursor *cursor)
{
	return pg_atomic_read_u32(&cursor->shared->next) < known(cursor->batches);
}

bool
rf_batches_wait(RfBatchCursor *cursor)
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
rf_batches_rewind(RfBatchCursor *cursor)
{
	pg_atomic_write_u32(&cursor->shared->next, 0);
}

void
rf_batches_count(RfBatchCursor *cursor, int process, uint64 rows)
{
	if (process < cursor->shared->processes)
		pg_atomic_write_u64(&cursor->shared->taken[process],
							pg_atomic_read_u64(&cursor->shared->taken[process]) + rows);
}

int
rf_batches_processes(const RfBatchCursor *cursor)
{
	return cursor->shared->processes;
}

uint64
rf_batches_taken(RfBatchCursor *cursor, int process)
{
	return pg_atomic_read_u64(&cursor->shared->taken[process]);
}

RfBatches *
rf_batches_of(const RfBatchCursor *cursor)
{
	return cursor->batches;
}

void
rf_batches_close(RfBatches *batches)
{
	if (--batches->users > 0)
		return;
	if (!batches->created)
		slist_delete(&attached, &batches->node);
	if (batches->file != NULL)
		BufFileClose(batches->file);
	batches->file = NULL;
	if (batches->area == NULL)
		return;
	dsa_detach(batches->area);
	dsm_detach(batches->segment);
}
