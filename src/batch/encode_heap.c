/*
 * encode_heap.c - encodes rows directly from the tuples of a heap page.
 *
 * Attributes before the first variable-length one have the same offset in every tuple without
 * NULLs: they are copied column by column for a whole page. The remaining attributes are found by
 * walking each tuple, and stored on the way. There is no slot and no array of datums in between.
 *
 * Does: plain tuples. Does not: NULLs among the attributes it walks, tuples older than a column;
 * the caller passes these in slots.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"

#include "coding.h"
#include "encoder.h"

/* Tuples per round: more than a page has. */
#define MAX_TUPLES			MaxHeapTuplesPerPage

typedef struct FixedAttr
{
	int			column;			/* of the batch */
	uint32		offset;			/* from the start of the tuple's data */
} FixedAttr;

typedef struct WalkedAttr
{
	int16		length;			/* -1: varlena */
	uint8		align;
	bool		by_value;
	int			column;			/* -1: not wanted */
} WalkedAttr;

struct RfHeapMap
{
	bool		usable;
	int			natts;			/* attributes that must be present, without NULLs */
	int			fixed_count;
	FixedAttr  *fixed;
	uint32		walk_start;		/* offset of the first walked attribute before alignment */
	int			walked_count;
	WalkedAttr *walked;
};

/*
 * Decides how each wanted attribute is found in a tuple: at a fixed offset as long as only
 * fixed-length attributes are before it, by walking the tuple behind these. Returns a map that is
 * not usable if an attribute has no such way.
 */
static RfHeapMap *
build_map(RfEncoder *encoder, TupleDesc table)
{
	RfHeapMap  *map = palloc0(sizeof(RfHeapMap));
	int		   *column_of = palloc(sizeof(int) * Max(encoder->last_attr, 1));
	uint32		offset = 0;
	bool		walking = false;

	map->natts = encoder->last_attr;
	map->fixed = palloc(sizeof(FixedAttr) * Max(map->natts, 1));
	map->walked = palloc(sizeof(WalkedAttr) * Max(map->natts, 1));
	for (int i = 0; i < map->natts; i++)
		column_of[i] = -1;
	for (int i = 0; i < encoder->column_count; i++)
	{
		int			attr = encoder->columns[i].attr;

		/* An attribute selected twice is too rare for a list per attribute. */
		if (column_of[attr] >= 0)
			return map;
		column_of[attr] = i;
	}

	for (int i = 0; i < map->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(table, i);
		int			column = column_of[i];
		uint8		align = rf_align_bytes(att->attalign);

		if (att->attlen < -1)
			return map;
		if (att->attlen == -1 ||
			(column >= 0 && encoder->columns[column].op == RF_ENCODE_OP_CONVERTED))
			walking = true;
		if (!walking)
		{
			offset = TYPEALIGN(align, offset);
			if (column >= 0)
			{
				map->fixed[map->fixed_count].column = column;
				map->fixed[map->fixed_count++].offset = offset;
			}
			offset += att->attlen;
			map->walk_start = offset;
		}
		else
		{
			WalkedAttr *walked = &map->walked[map->walked_count++];

			walked->length = att->attlen;
			walked->align = align;
			walked->by_value = att->attbyval;
			walked->column = column;
		}
	}
	map->usable = true;
	return map;
}

bool
rf_encoder_takes_tuples(RfEncoder *encoder, TupleDesc table)
{
	if (encoder->heap_map == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(encoder->context);

		encoder->heap_map = build_map(encoder, table);
		MemoryContextSwitchTo(caller);
	}
	return encoder->heap_map->usable;
}

/* Stores a fixed-length value of one row. */
static inline void
store_fixed(RfEncodeColumn *column, uint32 row, const char *from)
{
	uint8	   *to = column->vector + (size_t) row * column->width;

	switch (column->op)
	{
		case RF_ENCODE_OP_1:
			*to = *from;
			break;
		case RF_ENCODE_OP_2:
			memcpy(to, from, 2);
			break;
		case RF_ENCODE_OP_4:
			memcpy(to, from, 4);
			break;
		case RF_ENCODE_OP_8:
			memcpy(to, from, 8);
			break;
		case RF_ENCODE_OP_16:
			memcpy(to, from, 16);
			break;
		default:
			memcpy(to, from, column->size);
			memset(to + column->size, 0, column->width - column->size);
			break;
	}
}

/* The walked attributes of one tuple; false: they do not fit. */
static inline bool
walk(RfEncoder *encoder, const RfHeapMap *map, const char *data, uint32 row)
{
	const WalkedAttr *att = map->walked;
	const WalkedAttr *end = att + map->walked_count;
	uint32		offset = map->walk_start;
	uint32		heap = encoder->heap;

	for (; att < end; att++)
	{
		const char *value;

		if (att->length == -1)
		{
			uint32		at;

			/* A byte other than padding begins a short value, which is not aligned. */
			if (data[offset] == 0)
				offset = TYPEALIGN(att->align, offset);
			value = data + offset;
			offset += VARSIZE_ANY(value);
			if (att->column < 0)
				continue;
			if (encoder->columns[att->column].op == RF_ENCODE_OP_VARLENA)
				at = rf_store_varlena(encoder, value, &heap);
			else
				at = rf_store_converted(encoder, att->column, PointerGetDatum(value), &heap);
			if (at == 0)
				return false;
			((uint32 *) encoder->columns[att->column].vector)[row] = at;
			continue;
		}
		offset = TYPEALIGN(att->align, offset);
		value = data + offset;
		offset += att->length;
		if (att->column < 0)
			continue;
		if (encoder->columns[att->column].op == RF_ENCODE_OP_CONVERTED)
		{
			uint32		at = rf_store_converted(encoder, att->column,
												fetch_att(value, att->by_value, att->length),
												&heap);

			if (at == 0)
				return false;
			((uint32 *) encoder->columns[att->column].vector)[row] = at;
		}
		else
			store_fixed(&encoder->columns[att->column], row, value);
	}
	encoder->heap = heap;
	return true;
}

#define COPY_COLUMN(type) \
	do { \
		type	   *to = (type *) column->vector + first; \
		for (int i = 0; i < count; i++) \
			to[i] = *(const type *) (data[i] + offset); \
	} while (0)

/* Copies one attribute, at the same offset in all of these tuples, into its column. */
static void
copy_fixed(RfEncodeColumn *column, uint32 offset, const char *const *data, uint32 first, int count)
{
	switch (column->op)
	{
		case RF_ENCODE_OP_1:
			COPY_COLUMN(uint8);
			break;
		case RF_ENCODE_OP_2:
			COPY_COLUMN(uint16);
			break;
		case RF_ENCODE_OP_4:
			COPY_COLUMN(uint32);
			break;
		case RF_ENCODE_OP_8:
			COPY_COLUMN(uint64);
			break;
		default:
			for (int i = 0; i < count; i++)
				store_fixed(column, first + i, data[i] + offset);
			break;
	}
}

int
rf_encoder_add_tuples(RfEncoder *encoder, const HeapTupleHeader *tuples, int count)
{
	const RfHeapMap *map = encoder->heap_map;
	uint32		first = encoder->rows;
	const char *data[MAX_TUPLES];
	int			plain;

	count = Min(count, (int) Min(encoder->max_rows - first, MAX_TUPLES));
	for (plain = 0; plain < count; plain++)
	{
		if (!rf_tuple_is_plain(tuples[plain], map->natts))
			break;
		data[plain] = (const char *) tuples[plain] + tuples[plain]->t_hoff;
	}
	count = plain;

	if (map->walked_count > 0)
	{
		int			walked;

		for (walked = 0; walked < count; walked++)
			if (!walk(encoder, map, data[walked], first + walked))
				break;
		count = walked;
	}
	for (int i = 0; i < map->fixed_count; i++)
		copy_fixed(&encoder->columns[map->fixed[i].column], map->fixed[i].offset, data, first,
				   count);
	encoder->rows += count;
	return count;
}
