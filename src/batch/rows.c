/*
 * rows.c - rows kept together on their way to several encoders (D-RDMA, section 3.2: the sender
 * keeps a column batch once and records which of its rows go to each destination).
 *
 * A row is added once, its values as datums: row by row, so that the columns of the rows for one
 * destination are read from few cache lines. For a tuple on a heap page only its address is kept at
 * first; its values are found together with the values of the next tuples (rows_tuples.c).
 *
 * The target of a datum's pointer must outlive its row. Values on a heap page stay there, with the
 * page pinned, as long as these are few pages; beyond that they are copied into `space`, as are all
 * other values at once.
 *
 * Bounded: `size` rows, RF_ROWS_PINS pages, RF_ROWS_SPACE bytes of values and one row more. Pins
 * belong to the resource owner that is current while rows are added, and are released with it after
 * an error.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "encoder.h"
#include "rows.h"

/* As many rows as take about this much, within these limits. */
#define ROWS_BYTES			(256 * 1024)
#define MIN_ROWS			64
#define ROWS_PER_ENCODER	64
#define ENOUGH_PER_ENCODER	32

/* Bytes of a tuple that is read later. */
#define PREFETCH_BYTES		512

RfRows *
rf_rows_create(TupleDesc desc, int column_count, const AttrNumber *attmap, int encoders)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw rows",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	RfRows	   *rows = palloc0(sizeof(RfRows));
	int			row_bytes = Max(column_count, 1) * (sizeof(Datum) + sizeof(bool));

	rows->context = context;
	rows->odd_values = AllocSetContextCreate(context, "rdma_fdw large values",
											 ALLOCSET_DEFAULT_SIZES);
	rows->column_count = column_count;
	rows->size = Min(Max(ROWS_BYTES / row_bytes, MIN_ROWS),
					 Min(Max(512, encoders * ROWS_PER_ENCODER), RF_ROWS_MAX));
	rows->enough = Min(Max(MIN_ROWS, encoders * ENOUGH_PER_ENCODER), rows->size);
	rows->columns = palloc0(Max(column_count, 1) * sizeof(RfRowsColumn));
	rows->in_order = true;
	rows->values = palloc(Max(column_count, 1) * rows->size * sizeof(Datum));
	rows->isnull = palloc0(Max(column_count, 1) * rows->size * sizeof(bool));
	rows->refs = palloc(Max(column_count, 1) * sizeof(int));
	for (int i = 0; i < column_count; i++)
	{
		RfRowsColumn *column = &rows->columns[i];
		Form_pg_attribute att;

		column->attr = attmap != NULL ? attmap[i] - 1 : i;
		att = TupleDescAttr(desc, column->attr);
		column->length = att->attlen;
		column->by_value = att->attbyval;
		rows->in_order &= column->attr == i;
		rows->last_attr = Max(rows->last_attr, column->attr + 1);
		if (!column->by_value)
			rows->refs[rows->ref_count++] = i;
	}
	if (rows->ref_count > 0)
		rows->space = palloc(RF_ROWS_SPACE);
	rows->pins = palloc(RF_ROWS_PINS * sizeof(Buffer));
	rows->tuples = palloc(rows->size * sizeof(HeapTupleHeader));
	rows->map = rf_rows_map(desc, rows);
	MemoryContextSwitchTo(caller);
	return rows;
}

static void
drop_pins(RfRows *rows)
{
	while (rows->pin_count > 0)
		ReleaseBuffer(rows->pins[--rows->pin_count]);
}

void
rf_rows_reset(RfRows *rows)
{
	drop_pins(rows);
	if (rows->has_nulls)
	{
		memset(rows->isnull, 0, (size_t) rows->count * rows->column_count * sizeof(bool));
		for (int i = 0; i < rows->column_count; i++)
			rows->columns[i].has_nulls = false;
	}
	rows->has_nulls = false;
	rows->toasted = false;
	rows->heap_bytes = 0;
	rows->count = 0;
	rows->found = 0;
	rows->settled = 0;
	rows->space_used = 0;
	if (rows->uses_odd)
		MemoryContextReset(rows->odd_values);
	rows->uses_odd = false;
}

void
rf_rows_destroy(RfRows *rows)
{
	rf_rows_reset(rows);
	MemoryContextDelete(rows->context);
}

/* Space of the rows' own, 8-aligned unless the value's header shows that it need not be. */
static inline char *
reserve(RfRows *rows, Size bytes, bool aligned)
{
	uint32		at = aligned ? MAXALIGN(rows->space_used) : rows->space_used;

	if (unlikely(at + bytes > RF_ROWS_SPACE))
	{
		rows->space_used = RF_ROWS_SPACE;
		rows->uses_odd = true;
		return MemoryContextAllocHuge(rows->odd_values, bytes);
	}
	rows->space_used = at + bytes;
	return rows->space + at;
}

static pg_noinline Datum
flatten(RfRows *rows, Datum value)
{
	MemoryContext caller = MemoryContextSwitchTo(rows->odd_values);
	struct varlena *flat = detoast_external_attr((struct varlena *) DatumGetPointer(value));

	MemoryContextSwitchTo(caller);
	rows->uses_odd = true;
	/* It counts as if it lay in `space`. */
	rows->space_used = Min((Size) rows->space_used + VARSIZE_ANY(flat), RF_ROWS_SPACE);
	return PointerGetDatum(flat);
}

/* A value that is not a short varlena; returns its size in a batch. */
static pg_noinline uint32
keep_odd_value(RfRows *rows, int length, Datum *value)
{
	const char *from = DatumGetPointer(*value);
	uint32		heap = 0;
	Size		bytes;
	char	   *to;

	if (length == -1)
	{
		heap = rf_rows_heap_bytes(rows, from, &bytes);
		/* A pointer to the TOAST table is valid as long as this snapshot. */
		if (VARATT_IS_EXTERNAL(from) && !VARATT_IS_EXTERNAL_ONDISK(from))
		{
			*value = flatten(rows, *value);
			return 0;
		}
	}
	else if (length == -2)
		bytes = strlen(from) + 1;
	else
		bytes = length;
	to = reserve(rows, bytes, length != -1 || !VARATT_IS_1B(from));
	rf_copy_value((uint8 *) to, from, bytes);
	*value = PointerGetDatum(to);
	return heap;
}

/* Copies a row's by-reference values. */
static inline void
keep_values(RfRows *rows, uint32 row)
{
	Datum	   *values = rows->values + (size_t) row * rows->column_count;
	uint32		used = rows->space_used;
	uint64		heap = 0;

	for (int n = 0; n < rows->ref_count; n++)
	{
		Datum	   *value = &values[rows->refs[n]];
		int			length = rows->columns[rows->refs[n]].length;
		const char *from = DatumGetPointer(*value);
		char	   *to = rows->space + used;
		uint32		bytes;

		if (unlikely(from == NULL))
			continue;
		if (unlikely(length != -1 || !VARATT_IS_SHORT(from) || VARATT_IS_EXTERNAL(from) ||
					 used + VARSIZE_SHORT(from) > RF_ROWS_SPACE))
		{
			rows->space_used = used;
			heap += keep_odd_value(rows, length, value);
			used = rows->space_used;
			continue;
		}
		bytes = VARSIZE_SHORT(from);
		rf_copy_value((uint8 *) to, from, bytes);
		*value = PointerGetDatum(to);
		used += bytes;
		heap += bytes;
	}
	rows->space_used = used;
	rf_rows_note_heap(rows, heap);
}

/* After this no value of the rows is on a page. */
static void
settle(RfRows *rows)
{
	rf_rows_find(rows);
	for (; rows->ref_count > 0 && rows->settled < rows->count; rows->settled++)
		keep_values(rows, rows->settled);
	rows->settled = rows->count;
	drop_pins(rows);
}

/* The size of a row's values on a page in a batch. */
static void
measure_values(RfRows *rows, const Datum *values)
{
	uint64		heap = 0;

	for (int n = 0; n < rows->ref_count; n++)
	{
		const char *value = DatumGetPointer(values[rows->refs[n]]);
		Size		bytes;

		if (value != NULL && rows->columns[rows->refs[n]].length == -1)
			heap += rf_rows_heap_bytes(rows, value, &bytes);
	}
	rf_rows_note_heap(rows, heap);
}

/* Checks whether the buffer slot's values point into a page. Then it is pinned from now on. */
static inline bool
pin_page(RfRows *rows, TupleTableSlot *slot)
{
	Buffer		buffer;

	if (TTS_SHOULDFREE(slot))
		return false;
	buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;
	if (!BufferIsValid(buffer))
		return false;
	if (rows->pin_count > 0 && rows->pins[rows->pin_count - 1] == buffer)
		return true;
	if (rows->pin_count == RF_ROWS_PINS)
		settle(rows);
	IncrBufferRefCount(buffer);
	rows->pins[rows->pin_count++] = buffer;
	return true;
}

/* The row has NULLs: keeps its flags, which rows without NULLs do not have. */
static pg_noinline void
note_nulls(RfRows *rows, TupleTableSlot *slot, Datum *to)
{
	bool	   *to_null = rows->isnull + (size_t) rows->count * rows->column_count;

	for (int i = 0; i < rows->column_count; i++)
	{
		to_null[i] = slot->tts_isnull[rows->columns[i].attr];
		if (!to_null[i])
			continue;
		rows->columns[i].has_nulls = rows->has_nulls = true;
		to[i] = (Datum) 0;
	}
}

/* Returns true if any of these flags is set. */
static inline bool
any_set(const bool *flags, int count)
{
	uint64		word = 0;
	uint64		last;

	if (count < 8)
	{
		for (int i = 0; i < count; i++)
			word |= flags[i];
		return word != 0;
	}
	memcpy(&last, flags + count - 8, 8);
	for (int i = 0; i + 8 < count; i += 8)
	{
		memcpy(&word, flags + i, 8);
		last |= word;
	}
	return last != 0;
}

static inline void
copy_datums(Datum *to, const Datum *from, int count)
{
	int			i = 0;

	for (; i + 4 <= count; i += 4)
		memcpy(to + i, from + i, 4 * sizeof(Datum));
	for (; i < count; i++)
		to[i] = from[i];
}

/* A tuple on a page. */
static inline void
add_tuple(RfRows *rows, const HeapTupleData *tuple)
{
	const char *data = (const char *) tuple->t_data;

	/* The tuple of an all-visible page was not read yet: it may be in no cache. */
	for (uint32 at = 0; at < Min(tuple->t_len, PREFETCH_BYTES); at += 64)
		__builtin_prefetch(data + at);
	rows->tuples[rows->count++] = tuple->t_data;
	if (rows->count - rows->found == RF_ROWS_TOGETHER)
		rf_rows_find(rows);
}

/* Values of a slot. */
static inline void
add_values(RfRows *rows, TupleTableSlot *slot, bool on_page)
{
	Datum	   *to = rows->values + (size_t) rows->count * rows->column_count;
	bool		has_null = false;

	slot_getsomeattrs(slot, rows->last_attr);
	if (rows->in_order)
	{
		copy_datums(to, slot->tts_values, rows->column_count);
		has_null = any_set(slot->tts_isnull, rows->column_count);
	}
	else
		for (int i = 0; i < rows->column_count; i++)
		{
			to[i] = slot->tts_values[rows->columns[i].attr];
			has_null |= slot->tts_isnull[rows->columns[i].attr];
		}
	if (unlikely(has_null))
		note_nulls(rows, slot, to);
	rows->found = rows->count + 1;
	if (on_page)
		measure_values(rows, to);
	else
	{
		if (rows->ref_count > 0)
			keep_values(rows, rows->count);
		rows->settled = rows->found;
	}
	rows->count = rows->found;
}

void
rf_rows_add(RfRows *rows, TupleTableSlot *slot)
{
	bool		on_page;

	Assert(!rf_rows_full(rows));
	on_page = TTS_IS_BUFFERTUPLE(slot) && pin_page(rows, slot);
	if (on_page && rows->map != NULL && slot->tts_nvalid < rows->last_attr)
	{
		add_tuple(rows, ((HeapTupleTableSlot *) slot)->tuple);
		return;
	}
	/* Only the last rows have values on pages. */
	if (on_page)
		rf_rows_find(rows);
	else if (rows->settled < rows->count)
		settle(rows);
	add_values(rows, slot, on_page);
}

void
rf_rows_complete(RfRows *rows)
{
	rf_rows_find(rows);
	if (rows->ref_count == 0)
		drop_pins(rows);
}

void
rf_rows_divide(const uint16 *places, uint32 count, int destinations, uint16 *numbers,
			   uint32 *starts, uint32 *counts)
{
	uint32		half = count / 2;
	uint32		start = 0;

	/*
	 * Two halves at once, each with counters of its own, since incrementing the same one twice in
	 * a row stalls: first they count, then they are the positions of the next numbers.
	 */
	memset(starts, 0, destinations * sizeof(uint32));
	memset(counts, 0, destinations * sizeof(uint32));
	for (uint32 row = 0; row < half; row++)
	{
		starts[places[row]]++;
		counts[places[half + row]]++;
	}
	if (count % 2 != 0)
		counts[places[count - 1]]++;
	for (int i = 0; i < destinations; i++)
	{
		uint32		first = starts[i];
		uint32		second = counts[i];

		starts[i] = start;
		counts[i] = start + first;
		start += first + second;
	}
	for (uint32 row = 0; row < half; row++)
	{
		numbers[starts[places[row]]++] = row;
		numbers[counts[places[half + row]]++] = half + row;
	}
	if (count % 2 != 0)
		numbers[counts[places[count - 1]]++] = count - 1;
	/* The rows of the second half are at their ends now. */
	start = 0;
	for (int i = 0; i < destinations; i++)
	{
		uint32		end = counts[i];

		starts[i] = start;
		counts[i] = end - start;
		start = end;
	}
}

void
rf_rows_get(const RfRows *rows, uint32 row, TupleTableSlot *slot)
{
	size_t		at = (size_t) row * rows->column_count;

	ExecClearTuple(slot);
	memcpy(slot->tts_values, rows->values + at, rows->column_count * sizeof(Datum));
	memcpy(slot->tts_isnull, rows->isnull + at, rows->column_count * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}
