/*
 * rows.c - rows kept together on their way to several encoders (the bitmapped regions of D-RDMA,
 * section 3.2, with a bitmap per destination).
 *
 * A row comes in once, with its values as datums: row by row, which is what one who wants a single
 * row reads. When all have come, columns that are passed by value are laid out once more by column
 * in the width that they travel in, for the gathering by bitmap (encode_rows.c).
 *
 * What a datum points to must outlive the row it came with. Values on a heap page stay where they
 * are: the page is pinned until the rows go. All others are copied into `space`.
 *
 * Bounded: `size` rows, RF_ROWS_PINS pages, RF_ROWS_SPACE bytes of values and one row more. Pins belong
 * to the resource owner that is current while rows come in, and go with it after an error.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "encoder.h"

/* Rows, as many as take about this much, within these limits. */
#define ROWS_BYTES			(128 * 1024)
#define MIN_ROWS			64

RfRows *
rf_rows_create(TupleDesc desc, int column_count, const AttrNumber *attmap)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw rows",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	RfRows	   *rows = palloc0(sizeof(RfRows));
	int			row_bytes = 1 + Max(column_count, 1) * (2 * sizeof(Datum) + sizeof(bool));

	rows->context = context;
	rows->odd_values = AllocSetContextCreate(context, "rdma_fdw large values",
											 ALLOCSET_DEFAULT_SIZES);
	rows->column_count = column_count;
	/* A multiple of 64: bitmaps have no last word in part. */
	rows->size = Min(Max(ROWS_BYTES / row_bytes, MIN_ROWS), RF_ROWS_MAX) & ~63;
	rows->columns = palloc0(Max(column_count, 1) * sizeof(RfRowsColumn));
	rows->values = palloc(Max(column_count, 1) * rows->size * sizeof(Datum));
	rows->isnull = palloc0(Max(column_count, 1) * rows->size * sizeof(bool));
	rows->refs = palloc(Max(column_count, 1) * sizeof(int));
	rows->numbers = palloc(rows->size * sizeof(uint32));
	for (int i = 0; i < column_count; i++)
	{
		RfRowsColumn *column = &rows->columns[i];
		Form_pg_attribute att;

		column->attr = attmap != NULL ? attmap[i] - 1 : i;
		att = TupleDescAttr(desc, column->attr);
		column->length = att->attlen;
		column->by_value = att->attbyval;
		rows->last_attr = Max(rows->last_attr, column->attr + 1);
		if (column->by_value)
			column->vector = palloc(rows->size * column->length);
		else
			rows->refs[rows->ref_count++] = i;
		column->nulls = palloc(rows->size / 8);
	}
	if (rows->ref_count > 0)
	{
		rows->space = palloc(RF_ROWS_SPACE);
		rows->pins = palloc(RF_ROWS_PINS * sizeof(Buffer));
	}
	MemoryContextSwitchTo(caller);
	return rows;
}

void
rf_rows_reset(RfRows *rows)
{
	while (rows->pin_count > 0)
		ReleaseBuffer(rows->pins[--rows->pin_count]);
	if (rows->has_nulls)
	{
		memset(rows->isnull, 0, (size_t) rows->count * rows->column_count * sizeof(bool));
		for (int i = 0; i < rows->column_count; i++)
			rows->columns[i].has_nulls = false;
	}
	rows->has_nulls = false;
	rows->count = 0;
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

/* Does what the slot's values point to lie on a page? Then it is pinned from now on. */
static bool
pin_page(RfRows *rows, TupleTableSlot *slot)
{
	Buffer		buffer;

	if (!TTS_IS_BUFFERTUPLE(slot) || TTS_SHOULDFREE(slot))
		return false;
	buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;
	if (!BufferIsValid(buffer))
		return false;
	if (rows->pin_count > 0 && rows->pins[rows->pin_count - 1] == buffer)
		return true;
	IncrBufferRefCount(buffer);
	rows->pins[rows->pin_count++] = buffer;
	return true;
}

/* Room of the rows' own, 8-aligned unless the value says of itself that it need not be. */
static char *
reserve(RfRows *rows, Size bytes, bool aligned)
{
	uint32		at = aligned ? MAXALIGN(rows->space_used) : rows->space_used;

	if (at + bytes > RF_ROWS_SPACE)
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

static inline Datum
copy_value(RfRows *rows, int length, Datum value)
{
	const char *from = DatumGetPointer(value);
	Size		bytes = length;
	bool		aligned = true;
	char	   *to;

	if (length == -1)
	{
		/* A pointer to the TOAST table is as good as the value, for this snapshot. */
		if (VARATT_IS_EXTERNAL(from) && !VARATT_IS_EXTERNAL_ONDISK(from))
			return flatten(rows, value);
		bytes = VARSIZE_ANY(from);
		aligned = !VARATT_IS_1B(from);
	}
	else if (length == -2)
		bytes = strlen(from) + 1;
	to = reserve(rows, bytes, aligned);
	rf_copy_value((uint8 *) to, from, bytes);
	return PointerGetDatum(to);
}

/* The row has NULLs: its flags are kept, where all others have none. */
static pg_noinline void
note_nulls(RfRows *rows, TupleTableSlot *slot, Datum *to, bool *to_null)
{
	for (int i = 0; i < rows->column_count; i++)
	{
		to_null[i] = slot->tts_isnull[rows->columns[i].attr];
		if (!to_null[i])
			continue;
		rows->columns[i].has_nulls = rows->has_nulls = true;
		to[i] = (Datum) 0;
	}
}

void
rf_rows_add(RfRows *rows, TupleTableSlot *slot)
{
	int			count = rows->column_count;
	Datum	   *to = rows->values + (size_t) rows->count * count;
	bool	   *to_null = rows->isnull + (size_t) rows->count * count;
	const RfRowsColumn *column = rows->columns;
	bool		any_null = false;

	Assert(!rf_rows_full(rows));
	slot_getsomeattrs(slot, rows->last_attr);
	for (int i = 0; i < count; i++, column++)
	{
		to[i] = slot->tts_values[column->attr];
		any_null |= slot->tts_isnull[column->attr];
	}
	if (unlikely(any_null))
		note_nulls(rows, slot, to, to_null);
	if (rows->ref_count > 0 && !pin_page(rows, slot))
	{
		for (int n = 0; n < rows->ref_count; n++)
		{
			int			i = rows->refs[n];

			if (!to_null[i])
				to[i] = copy_value(rows, rows->columns[i].length, to[i]);
		}
	}
	rows->count++;
}

/* Rows whose columns are all laid out before the next ones': they stay in the first-level cache. */
#define BLOCK_ROWS	64

#define LAY_OUT(type) \
	do { \
		type	   *vector = (type *) column->vector; \
		for (uint32 row = first; row < end; row++) \
			vector[row] = (type) from[(size_t) row * stride]; \
	} while (0)

static void
lay_out(RfRows *rows, uint32 first, uint32 end)
{
	size_t		stride = rows->column_count;

	for (int i = 0; i < rows->column_count; i++)
	{
		RfRowsColumn *column = &rows->columns[i];
		const Datum *from = rows->values + i;

		if (!column->by_value)
			continue;
		switch (column->length)
		{
			case 1:
				LAY_OUT(uint8);
				break;
			case 2:
				LAY_OUT(uint16);
				break;
			case 4:
				LAY_OUT(uint32);
				break;
			default:
				LAY_OUT(uint64);
				break;
		}
	}
}

void
rf_rows_complete(RfRows *rows, int encoders)
{
	size_t		stride = rows->column_count;

	rows->has_vectors = encoders <= RF_ROWS_FEW;
	for (uint32 first = 0; first < rows->count && rows->has_vectors; first += BLOCK_ROWS)
		lay_out(rows, first, Min(first + BLOCK_ROWS, rows->count));
	for (int i = 0; i < rows->column_count && rows->has_nulls; i++)
	{
		RfRowsColumn *column = &rows->columns[i];
		const bool *isnull = rows->isnull + i;

		if (!column->has_nulls)
			continue;
		memset(column->nulls, 0, rows->size / 8);
		for (uint32 row = 0; row < rows->count; row++)
			column->nulls[row >> 3] |= isnull[row * stride] << (row & 7);
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
