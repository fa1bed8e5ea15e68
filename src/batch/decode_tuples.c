/*
 * decode_tuples.c - rows directly from heap tuples, unchanged from the data node's pages.
 *
 * Does: deform tuples, for the wanted columns only, and with every length checked: the bytes came
 * over a wire, and in a receive buffer they may still change (decode.c has the guarantees). Each
 * word that determines a later address is loaded once (batch_check.h). Values that were compressed
 * in place are decompressed from a private copy. Does not: fetch values from a TOAST table
 * elsewhere; the sender puts such rows into column batches.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/toast_internals.h"

#include "decoder.h"

/* No compression method expands a byte to more. */
#define MAX_EXPANSION		300

/* A wanted attribute. */
typedef struct WantedAttr
{
	int			column;			/* of the batch; -1: not wanted */
	int			attr;			/* index into values and isnull */
	DecodeOp	op;
	uint32		limit;			/* of its type */
	uint32		offset;			/* before the first varlena: from the tuple's data, without NULLs */
} WantedAttr;

typedef struct TupleMap
{
	uint32		room;			/* capacity in attributes */
	uint32		attr_count;
	RfTupleAttr *attrs;			/* the loaded batch's, copied */
	WantedAttr *wanted;			/* attr_count long */
	uint32		fixed_count;
	WantedAttr *fixed;			/* wanted attributes before the first varlena */
	uint32		walk_first;		/* the first varlena */
	uint32		walk_start;		/* end of the attributes before it */
} TupleMap;

static TupleMap *
map_with_room(RfDecoder *decoder, uint32 attr_count)
{
	TupleMap   *map = decoder->map;

	if (map == NULL || map->room < attr_count)
	{
		MemoryContext caller = MemoryContextSwitchTo(decoder->context);

		map = palloc0(sizeof(TupleMap));
		map->room = attr_count;
		map->attrs = palloc(sizeof(RfTupleAttr) * attr_count);
		map->wanted = palloc(sizeof(WantedAttr) * attr_count);
		map->fixed = palloc(sizeof(WantedAttr) * attr_count);
		decoder->map = map;
		MemoryContextSwitchTo(caller);
	}
	return map;
}

bool
rf_decoder_load_tuples(RfDecoder *decoder, const uint8 *batch, uint32 length)
{
	uint32		attr_count = rf_tuples_attr_count(batch, length);
	RfBatchHeader header;
	TupleMap   *map;
	const char *problem;
	uint32		offset = 0;
	bool		walking = false;

	if (attr_count == 0)
		return false;
	map = map_with_room(decoder, attr_count);
	problem = rf_tuples_open(batch, length, decoder->column_count, attr_count, &header, map->attrs,
							 &decoder->reader);
	if (problem != NULL)
		rf_decoder_bad_batch(decoder, PG_UINT32_MAX, problem);

	map->attr_count = map->walk_first = attr_count;
	map->fixed_count = 0;
	for (uint32 i = 0; i < attr_count; i++)
	{
		const RfTupleAttr *attr = &map->attrs[i];
		WantedAttr *wanted = &map->wanted[i];

		if (!walking && attr->length == -1)
		{
			walking = true;
			map->walk_first = i;
		}
		if (!walking)
			offset = TYPEALIGN(attr->align, offset);
		wanted->column = attr->column - 1;
		wanted->offset = offset;
		if (wanted->column >= 0)
		{
			DecodeType *type = &decoder->types[wanted->column];

			if (!type->raw || !rf_same_image(attr->type, type->type) ||
				attr->length != type->length || attr->align != type->align ||
				attr->by_value != (type->raw_kind == RF_COLUMN_BYVAL))
				rf_decoder_bad_batch(decoder, wanted->column,
									 "its values are not images of the column's type");
			wanted->attr = decoder->columns[wanted->column].attr;
			wanted->op = rf_decode_raw_op(type);
			wanted->limit = type->limit;
			if (!walking)
				map->fixed[map->fixed_count++] = *wanted;
		}
		if (!walking)
			offset += attr->length;
	}
	map->walk_start = offset;
	decoder->base = batch;
	decoder->length = length;
	decoder->rows = header.row_count;
	return true;
}

static pg_noinline void
bad_tuple(RfDecoder *decoder)
{
	rf_decoder_bad_batch(decoder, PG_UINT32_MAX, "a row lies outside the batch");
}

static pg_noinline void
bad_value(RfDecoder *decoder, int column)
{
	rf_decoder_bad_batch(decoder, column, "a value lies outside the batch or is damaged");
}

/*
 * A value that was compressed in place; the result is in the scratch context, like a converted one.
 */
static pg_noinline Datum
decompress(RfDecoder *decoder, int column, const uint8 *value, uint32 size)
{
	MemoryContext caller = MemoryContextSwitchTo(decoder->scratch);
	struct varlena *copy = palloc(size);
	struct varlena *result;

	memcpy(copy, value, size);
	SET_VARSIZE_COMPRESSED(copy, size);
	if (VARDATA_COMPRESSED_GET_EXTSIZE(copy) > MAX_EXPANSION * (uint64) size)
		bad_value(decoder, column);
	result = pg_detoast_datum(copy);
	pfree(copy);
	MemoryContextSwitchTo(caller);
	return PointerGetDatum(result);
}

/*
 * The value of a variable-length attribute of a tuple, decompressed if necessary, and checked as
 * its type wants: text, number, image, limit.
 */
static pg_attribute_always_inline Datum
read_varlena(RfDecoder *decoder, const WantedAttr *wanted, const uint8 *value, uint32 size,
			 uint32 header)
{
	Datum		result = PointerGetDatum(value);

	if (unlikely(header == RF_HEADER_POINTER))
		bad_value(decoder, wanted->column);
	if (unlikely(header == RF_HEADER_COMPRESSED))
	{
		result = decompress(decoder, wanted->column, value, size);
		value = (const uint8 *) DatumGetPointer(result);
		size = VARSIZE(value);
		header = VARHDRSZ;
	}
	if (wanted->op == OP_TEXT)
	{
		if (!rf_image_is_ascii(value + header, size - header))
			rf_decoder_check_text(decoder, wanted->column, value + header, size - header);
		if (size - header > wanted->limit)
			rf_decoder_check_limit(decoder, wanted->column, value + header, size - header);
	}
	else if (wanted->op == OP_NUMERIC)
	{
		if (!rf_image_is_numeric(value + header, size - header))
			bad_value(decoder, wanted->column);
		if (rf_number_may_exceed(value + header, wanted->limit))
			rf_decoder_check_limit(decoder, wanted->column, value + header, size - header);
	}
	else if (wanted->op == OP_IMAGE)
	{
		DecodeType *type = &decoder->types[wanted->column];

		if ((header == VARHDRSZ_SHORT && !type->short_headers) ||
			!rf_image_check(&type->image, value + header, size - header))
			bad_value(decoder, wanted->column);
	}
	return result;
}

/*
 * The value of a fixed-length attribute at this place of a tuple. Types whose bytes may be invalid
 * are checked; an invalid value is an ERROR.
 */
static pg_attribute_always_inline Datum
read_fixed(RfDecoder *decoder, const WantedAttr *wanted, const uint8 *value)
{
	switch (wanted->op)
	{
		case OP_1:
			return CharGetDatum(*(const char *) value);
		case OP_2:
			return Int16GetDatum(*(const int16 *) value);
		case OP_4:
			return Int32GetDatum(*(const int32 *) value);
		case OP_8:
			return *(const Datum *) value;
		case OP_BOOL:
			{
				uint8		byte = rf_load8(value);

				if (unlikely(byte > 1))
					bad_value(decoder, wanted->column);
				return BoolGetDatum(byte);
			}
		case OP_DATE:
			{
				int32		date = rf_load32(value);

				if (unlikely(!rf_image_is_date(date)))
					bad_value(decoder, wanted->column);
				return Int32GetDatum(date);
			}
		case OP_TIME:
		case OP_TIMESTAMP:
			{
				int64		stamp = rf_load64(value);

				if (unlikely(!rf_decode_is_time(wanted->op, stamp)))
					bad_value(decoder, wanted->column);
				return Int64GetDatum(stamp);
			}
		case OP_CHECKED_REF:
			{
				DecodeType *type = &decoder->types[wanted->column];

				if (!rf_image_check(&type->image, value, type->length))
					bad_value(decoder, wanted->column);
				return PointerGetDatum(value);
			}
		default:
			return PointerGetDatum(value);
	}
}

/*
 * A column added after the tuple was stored; bytes that were checked with the batch may have
 * changed.
 */
static Datum
read_missing(RfDecoder *decoder, const RfTupleAttr *attr, const WantedAttr *wanted)
{
	const uint8 *value = decoder->base + attr->missing_offset;
	uint32		header;
	uint32		size;

	if (attr->length != -1)
		return read_fixed(decoder, wanted, value);
	size = rf_batch_varlena(decoder->base, decoder->length, attr->missing_offset, &header);
	if (size == 0)
		bad_value(decoder, wanted->column);
	return read_varlena(decoder, wanted, value, size, header);
}

/* Attributes from the first-th on, which lies at or behind `offset`. All of them are not NULL. */
static pg_attribute_always_inline void
walk(RfDecoder *decoder, const TupleMap *map, const RfTuple *tuple, uint32 first, uint32 offset,
	 Datum *values, bool *isnull)
{
	const RfTupleAttr *attr = &map->attrs[first];
	const WantedAttr *wanted = &map->wanted[first];
	const RfTupleAttr *end = map->attrs + map->attr_count;

	for (; attr < end; attr++, wanted++)
	{
		uint32		size;
		uint32		header;
		uint32		at = rf_tuple_attribute(tuple, attr, &offset, &size, &header);

		if (unlikely(at == UINT32_MAX))
			bad_tuple(decoder);
		if (wanted->column < 0)
			continue;
		isnull[wanted->attr] = false;
		values[wanted->attr] = header == RF_HEADER_NONE ?
			read_fixed(decoder, wanted, tuple->bytes + at) :
			read_varlena(decoder, wanted, tuple->bytes + at, size, header);
	}
}

/* Tuples with NULLs, or older than a column. */
static pg_noinline void
walk_odd(RfDecoder *decoder, const TupleMap *map, const RfTuple *tuple, Datum *values, bool *isnull)
{
	uint32		offset = tuple->data;

	for (uint32 i = 0; i < map->attr_count; i++)
	{
		const RfTupleAttr *attr = &map->attrs[i];
		const WantedAttr *wanted = &map->wanted[i];
		uint32		size;
		uint32		header;
		uint32		at;

		if (i >= tuple->natts ? attr->missing_offset == 0 :
			tuple->bits != NULL && (rf_load8(&tuple->bits[i >> 3]) & (1 << (i & 7))) == 0)
		{
			if (wanted->column >= 0)
			{
				values[wanted->attr] = (Datum) 0;
				isnull[wanted->attr] = true;
			}
			continue;
		}
		if (i >= tuple->natts)
		{
			if (wanted->column >= 0)
			{
				values[wanted->attr] = read_missing(decoder, attr, wanted);
				isnull[wanted->attr] = false;
			}
			continue;
		}
		at = rf_tuple_attribute(tuple, attr, &offset, &size, &header);
		if (at == UINT32_MAX)
			bad_tuple(decoder);
		if (wanted->column < 0)
			continue;
		isnull[wanted->attr] = false;
		values[wanted->attr] = header == RF_HEADER_NONE ?
			read_fixed(decoder, wanted, tuple->bytes + at) :
			read_varlena(decoder, wanted, tuple->bytes + at, size, header);
	}
}

/* Returns true if one of the first `count` attributes is NULL. */
static inline bool
has_nulls(const uint8 *bits, uint32 count)
{
	for (; count >= 8; count -= 8)
		if (rf_load8(bits++) != 0xff)
			return true;
	return count > 0 && (rf_load8(bits) & ((1 << count) - 1)) != (1 << count) - 1;
}

void
rf_decoder_next_tuple(RfDecoder *decoder, Datum *values, bool *isnull)
{
	const TupleMap *map = decoder->map;
	const WantedAttr *fixed = map->fixed;
	const WantedAttr *end = fixed + map->fixed_count;
	RfTuple		tuple;
	const uint8 *data;

	if (unlikely(!rf_tuples_next(&decoder->reader, &tuple)))
		bad_tuple(decoder);
	if (unlikely(tuple.natts < map->attr_count ||
				 (tuple.bits != NULL && has_nulls(tuple.bits, map->attr_count))))
	{
		walk_odd(decoder, map, &tuple, values, isnull);
		return;
	}
	if (unlikely(tuple.data + map->walk_start > tuple.length))
		bad_tuple(decoder);
	data = tuple.bytes + tuple.data;
	for (; fixed < end; fixed++)
	{
		isnull[fixed->attr] = false;
		values[fixed->attr] = read_fixed(decoder, fixed, data + fixed->offset);
	}
	if (map->walk_first < map->attr_count)
		walk(decoder, map, &tuple, map->walk_first, tuple.data + map->walk_start, values, isnull);
}
