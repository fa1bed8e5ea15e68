/*
 * encode_rows.c - encodes the rows that a list of row numbers selects.
 *
 * It works column by column. Variable-length values come first, because they determine how many
 * rows fit: while even rows of the largest size would fit, there is no check per row; the last rows
 * are added one by one.
 *
 * Lists, not a bitmap per destination (D-RDMA, section 3.2): the lists are needed anyway, for
 * variable-length values, for rows that are too large and for the rows of the producer's own node,
 * and bitmaps in addition to them, with columns kept as vectors to be gathered from, gain nothing
 * with two or three nodes (2 to 4 % where many values are NULL) and cost more with more nodes:
 * bench/join/shuffle.txt.
 */
#include "postgres.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"

#include "encoder.h"

static inline bool
is_in_heap(const RfEncodeColumn *column)
{
	return column->op == RF_ENCODE_OP_VARLENA || column->op == RF_ENCODE_OP_CONVERTED;
}

/* One row's values in the heap; false: they do not fit. */
static bool
add_to_heap(RfEncoder *encoder, const RfRows *rows, uint32 from, uint32 to)
{
	const Datum *values = rows->values + (size_t) from * rows->column_count;
	const bool *isnull = rows->isnull + (size_t) from * rows->column_count;
	uint32		heap = encoder->heap;

	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];
		uint32		at;

		if (!is_in_heap(column))
			continue;
		if (isnull[i])
		{
			((uint32 *) column->vector)[to] = 0;
			continue;
		}
		if (column->op == RF_ENCODE_OP_VARLENA)
			at = rf_store_varlena(encoder, DatumGetPointer(values[i]), &heap);
		else
			at = rf_store_converted(encoder, i, values[i], &heap);
		if (at == 0)
			return false;
		((uint32 *) column->vector)[to] = at;
	}
	encoder->heap = heap;
	return true;
}

/* Plain values of one column, for which there is enough space. */
static void
add_plain(RfEncoder *encoder, const RfRows *rows, int i, const uint16 *numbers, uint32 first,
		  uint32 count)
{
	uint32	   *offsets = (uint32 *) encoder->columns[i].vector + first;
	const Datum *from = rows->values + i;
	size_t		stride = rows->column_count;
	uint8	   *base = encoder->base;
	uint32		heap = encoder->heap;

	for (uint32 n = 0; n < count; n++)
	{
		const char *value = DatumGetPointer(from[numbers[n] * stride]);
		uint32		size;

		if (unlikely(value == NULL))
		{
			offsets[n] = 0;
			continue;
		}
		if (VARATT_IS_1B(value))
			size = VARSIZE_1B(value);
		else
		{
			size = VARSIZE_4B(value);
			while (heap % 8 != 0)
				base[heap++] = 0;
		}
		offsets[n] = heap;
		rf_copy_value(base + heap, value, size);
		heap += size;
	}
	encoder->heap = heap;
}

/* Returns the number of rows that fit. */
static uint32
add_heap(RfEncoder *encoder, const RfRows *rows, const uint16 *numbers, uint32 first, uint32 count,
		 bool converts)
{
	uint32		done = 0;

	while (!converts && !rows->toasted && done < count)
	{
		uint32		fit = Min((encoder->capacity - encoder->heap) / Max(rows->heap_bytes, 1),
							  count - done);

		if (fit == 0)
			break;
		for (int i = 0; i < encoder->column_count; i++)
		{
			if (is_in_heap(&encoder->columns[i]))
				add_plain(encoder, rows, i, numbers + done, first + done, fit);
		}
		done += fit;
	}
	while (done < count && add_to_heap(encoder, rows, numbers[done], first + done))
		done++;
	return done;
}

#define PICK(type) \
	do { \
		type	   *to = (type *) column->vector + first; \
		for (uint32 n = 0; n < count; n++) \
			to[n] = (type) from[numbers[n] * stride]; \
	} while (0)

/* Values that are passed by value. */
static inline void
add_picked(RfEncodeColumn *column, const RfRows *rows, int i, const uint16 *numbers, uint32 first,
		   uint32 count)
{
	const Datum *from = rows->values + i;
	size_t		stride = rows->column_count;

	switch (column->width)
	{
		case 1:
			PICK(uint8);
			break;
		case 2:
			PICK(uint16);
			break;
		case 4:
			PICK(uint32);
			break;
		default:
			PICK(uint64);
			break;
	}
}

/* Fixed-length values that are passed by reference. */
static void
add_referenced(RfEncodeColumn *column, const RfRows *rows, int i, const uint16 *numbers,
			   uint32 first, uint32 count)
{
	const Datum *from = rows->values + i;
	size_t		stride = rows->column_count;
	uint8	   *to = column->vector + (size_t) first * column->width;

	for (uint32 n = 0; n < count; n++, to += column->width)
	{
		const char *value = DatumGetPointer(from[numbers[n] * stride]);

		if (value == NULL)
		{
			memset(to, 0, column->width);
			continue;
		}
		rf_copy_value(to, value, column->size);
		memset(to + column->size, 0, column->width - column->size);
	}
}

static void
add_nulls(RfEncodeColumn *column, const RfRows *rows, int i, const uint16 *numbers, uint32 first,
		  uint32 count)
{
	const bool *isnull = rows->isnull + i;
	size_t		stride = rows->column_count;

	for (uint32 n = 0; n < count; n++)
	{
		if (!isnull[numbers[n] * stride])
			continue;
		column->nulls[(first + n) >> 3] |= 1 << ((first + n) & 7);
		column->has_nulls = true;
	}
}

uint32
rf_encoder_add_rows(RfEncoder *encoder, const RfRows *rows, const uint16 *numbers, uint32 count)
{
	uint32		first = encoder->rows;
	bool		has_heap = false;
	bool		converts = false;

	count = Min(count, encoder->max_rows - first);
	if (count == 0)
		return 0;
	for (int i = 0; i < encoder->column_count; i++)
	{
		has_heap |= is_in_heap(&encoder->columns[i]);
		converts |= encoder->columns[i].op == RF_ENCODE_OP_CONVERTED;
	}
	if (has_heap)
		count = add_heap(encoder, rows, numbers, first, count, converts);
	if (count == 0)
		return 0;

	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];

		if (rows->columns[i].has_nulls)
			add_nulls(column, rows, i, numbers, first, count);
		if (is_in_heap(column))
			continue;
		if (rows->columns[i].by_value)
			add_picked(column, rows, i, numbers, first, count);
		else
			add_referenced(column, rows, i, numbers, first, count);
	}
	encoder->rows += count;
	return count;
}
