/*
 * rows_tuples.c - finds the values of rows that were added as tuples of heap pages, many together.
 *
 * Attributes before the first variable-length one have the same offset in every tuple without
 * NULLs: they are read column by column. The remaining attributes are found by walking each tuple;
 * a tuple that has NULLs is walked from its first attribute.
 *
 * Does: tuples on pages that are pinned. Does not: manage the pins.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"

#include "coding.h"
#include "rows.h"

typedef struct MapAttr
{
	int16		length;			/* -1: varlena */
	uint8		align;
	bool		by_value;
	int			column;			/* -1: not wanted */
} MapAttr;

typedef struct FixedColumn
{
	int			column;
	uint32		offset;			/* from the start of a tuple's data */
} FixedColumn;

struct RfRowsMap
{
	TupleDesc	desc;			/* the caller's, for attributes that older tuples lack */
	int			natts;			/* up to the last wanted one */
	MapAttr    *attrs;
	int			fixed_count;
	FixedColumn *fixed;
	int			first_walked;
	uint32		walk_start;		/* its offset before alignment, in a tuple without NULLs */
};

RfRowsMap *
rf_rows_map(TupleDesc desc, const RfRows *rows)
{
	RfRowsMap  *map = palloc0(sizeof(RfRowsMap));
	uint32		offset = 0;

	map->desc = desc;
	map->natts = rows->last_attr;
	map->attrs = palloc(sizeof(MapAttr) * Max(map->natts, 1));
	map->fixed = palloc(sizeof(FixedColumn) * Max(map->natts, 1));
	for (int i = 0; i < map->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attlen < -1)
			return NULL;
		map->attrs[i] = (MapAttr) {att->attlen, rf_align_bytes(att->attalign), att->attbyval, -1};
	}
	for (int i = 0; i < rows->column_count; i++)
	{
		MapAttr    *attr = &map->attrs[rows->columns[i].attr];

		/* An attribute selected twice is too rare for a list per attribute. */
		if (attr->column >= 0)
			return NULL;
		attr->column = i;
	}
	for (; map->first_walked < map->natts; map->first_walked++)
	{
		const MapAttr *attr = &map->attrs[map->first_walked];

		if (attr->length == -1)
			break;
		offset = TYPEALIGN(attr->align, offset);
		if (attr->column >= 0)
			map->fixed[map->fixed_count++] = (FixedColumn) {attr->column, offset};
		offset += attr->length;
	}
	map->walk_start = offset;
	return map;
}

#define READ(type, datum) \
	do { \
		for (uint32 i = 0; i < count; i++) \
			to[i * stride] = datum(*(const type *) (data[i] + offset)); \
	} while (0)

/* Reads one attribute at a fixed offset for several tuples into the column's datums. */
static void
read_fixed(RfRows *rows, const FixedColumn *fixed, const char *const *data, uint32 first,
		   uint32 count)
{
	const RfRowsColumn *column = &rows->columns[fixed->column];
	size_t		stride = rows->column_count;
	Datum	   *to = rows->values + first * stride + fixed->column;
	uint32		offset = fixed->offset;

	if (!column->by_value)
	{
		for (uint32 i = 0; i < count; i++)
			to[i * stride] = PointerGetDatum(data[i] + offset);
		return;
	}
	switch (column->length)
	{
		case 1:
			READ(char, CharGetDatum);
			break;
		case 2:
			READ(int16, Int16GetDatum);
			break;
		case 4:
			READ(int32, Int32GetDatum);
			break;
		default:
			READ(Datum, (Datum));
			break;
	}
}

static pg_noinline void
note_null(RfRows *rows, uint32 row, int column)
{
	size_t		at = (size_t) row * rows->column_count + column;

	rows->columns[column].has_nulls = rows->has_nulls = true;
	rows->isnull[at] = true;
	rows->values[at] = (Datum) 0;
}

/* The tuple is older than the column; returns the size of its value in a batch. */
static pg_noinline uint32
note_missing(RfRows *rows, uint32 row, int attr, int column)
{
	bool		is_null;
	Datum		value = getmissingattr(rows->map->desc, attr + 1, &is_null);
	Size		bytes;

	if (is_null)
		note_null(rows, row, column);
	else
		rows->values[(size_t) row * rows->column_count + column] = value;
	return is_null || rows->columns[column].length != -1 ? 0 :
		rf_rows_heap_bytes(rows, DatumGetPointer(value), &bytes);
}

/* The attributes of one tuple from `first` on. */
static inline void
walk(RfRows *rows, int first, uint32 offset, const HeapTupleHeaderData *tuple, bool has_nulls,
	 uint32 row)
{
	const RfRowsMap *map = rows->map;
	const char *data = (const char *) tuple + tuple->t_hoff;
	Datum	   *values = rows->values + (size_t) row * rows->column_count;
	int			there = Min(map->natts, (int) HeapTupleHeaderGetNatts(tuple));
	uint64		heap = 0;

	for (const MapAttr *attr = map->attrs + first; attr < map->attrs + there; attr++)
	{
		const char *value;
		Size		bytes;

		if (has_nulls && (tuple->t_infomask & HEAP_HASNULL) != 0 &&
			att_isnull(attr - map->attrs, tuple->t_bits))
		{
			if (attr->column >= 0)
				note_null(rows, row, attr->column);
			continue;
		}
		if (attr->length != -1)
		{
			offset = TYPEALIGN(attr->align, offset);
			if (attr->column >= 0)
				values[attr->column] = fetch_att(data + offset, attr->by_value, attr->length);
			offset += attr->length;
			continue;
		}
		/* A byte other than padding begins a short value, which is not aligned. */
		if (data[offset] == 0)
			offset = TYPEALIGN(attr->align, offset);
		value = data + offset;
		if (attr->column < 0)
		{
			offset += VARSIZE_ANY(value);
			continue;
		}
		values[attr->column] = PointerGetDatum(value);
		heap += rf_rows_heap_bytes(rows, value, &bytes);
		offset += bytes;
	}
	for (int i = there; i < map->natts; i++)
		if (map->attrs[i].column >= 0)
			heap += note_missing(rows, row, i, map->attrs[i].column);
	rf_rows_note_heap(rows, heap);
}

/* Tuples without NULLs. */
static void
find_plain(RfRows *rows, uint32 first, uint32 end)
{
	const RfRowsMap *map = rows->map;
	const char *data[RF_ROWS_TOGETHER];
	uint32		count = end - first;

	for (uint32 i = 0; i < count; i++)
		data[i] = (const char *) rows->tuples[first + i] + rows->tuples[first + i]->t_hoff;
	for (int i = 0; i < map->fixed_count; i++)
		read_fixed(rows, &map->fixed[i], data, first, count);
	if (map->first_walked == map->natts)
		return;
	for (uint32 row = first; row < end; row++)
		walk(rows, map->first_walked, map->walk_start, rows->tuples[row], false, row);
}

void
rf_rows_find_pending(RfRows *rows)
{
	uint32		first = rows->found;
	uint32		end = rows->count;

	Assert(end - first <= RF_ROWS_TOGETHER);
	while (first < end)
	{
		uint32		plain = first;

		while (plain < end && rf_tuple_is_plain(rows->tuples[plain], rows->map->natts))
			plain++;
		if (plain > first)
			find_plain(rows, first, plain);
		first = plain;
		for (; first < end && !rf_tuple_is_plain(rows->tuples[first], rows->map->natts); first++)
			walk(rows, 0, 0, rows->tuples[first], true, first);
	}
	rows->found = end;
}
