/*
 * encode_rows.c - into a batch those of many rows that a bitmap selects.
 *
 * Column by column: the vectors of values that are passed by value, and null bitmaps, are gathered
 * by the bitmap (region_mask.c: with vector instructions where the processor has them). Values
 * that lie elsewhere are visited by the numbers of the selected rows; those of variable length
 * first, for they decide how many rows fit.
 */
#include "postgres.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/region.h"

#include "encoder.h"

static inline bool
is_in_heap(const RfEncodeColumn *column)
{
	return column->op == RF_ENCODE_OP_VARLENA || column->op == RF_ENCODE_OP_CONVERTED;
}

/* The values of one row that lie in the heap; false: they do not fit. */
static inline bool
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

#define PICK(type) \
	do { \
		type	   *to = (type *) column->vector + first; \
		for (uint32 n = 0; n < count; n++) \
			to[n] = (type) from[(size_t) rows->numbers[n] * stride]; \
	} while (0)

/* Values that are passed by value, by the numbers of their rows. */
static void
add_picked(RfEncodeColumn *column, const RfRows *rows, int i, uint32 first, uint32 count)
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
add_referenced(RfEncodeColumn *column, const RfRows *rows, int i, uint32 first, uint32 count)
{
	for (uint32 n = 0; n < count; n++)
	{
		size_t		at = (size_t) rows->numbers[n] * rows->column_count + i;
		uint8	   *to = column->vector + (size_t) (first + n) * column->width;

		if (rows->isnull[at])
		{
			memset(to, 0, column->width);
			continue;
		}
		rf_copy_value(to, DatumGetPointer(rows->values[at]), column->size);
		memset(to + column->size, 0, column->width - column->size);
	}
}

/* Nulls of the selected rows before `end`, behind the bits that the column has. */
static void
add_nulls(RfEncodeColumn *column, const uint8 *nulls, const uint64 *mask, uint32 end, uint32 first)
{
	uint8		gathered[RF_ROWS_MAX / 8];
	uint32		bytes = (rf_mask_gather_bits(gathered, nulls, mask, end) + 7) / 8;
	uint8	   *to = column->nulls + (first >> 3);
	int			shift = first & 7;

	for (uint32 i = 0; i < bytes; i++)
	{
		if (gathered[i] == 0)
			continue;
		column->has_nulls = true;
		to[i] |= gathered[i] << shift;
		/* What lies behind the last row is 0, and its byte may be another column's. */
		if (gathered[i] >> (8 - shift) != 0)
			to[i + 1] |= gathered[i] >> (8 - shift);
	}
}

uint32
rf_encoder_add_rows(RfEncoder *encoder, const RfRows *rows, uint64 *mask, uint32 *selected)
{
	uint32		first = encoder->rows;
	uint32		count = Min(*selected, encoder->max_rows - first);
	uint32		end = rows->count;
	bool		has_heap = false;
	bool		few = !rows->has_vectors || *selected < rows->count / RF_ROWS_FEW;
	bool		needs_numbers = few || count < *selected;

	if (count == 0)
		return 0;
	for (int i = 0; i < encoder->column_count; i++)
	{
		has_heap |= is_in_heap(&encoder->columns[i]);
		needs_numbers |= !rows->columns[i].by_value || has_heap;
	}
	if (needs_numbers)
		(void) rf_mask_rows(mask, rows->count, 0, rows->numbers);
	if (has_heap)
	{
		uint32		fit = 0;

		while (fit < count && add_to_heap(encoder, rows, rows->numbers[fit], first + fit))
			fit++;
		count = fit;
		if (count == 0)
			return 0;
	}
	if (count < *selected)
		end = rows->numbers[count];

	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];

		if (rows->columns[i].has_nulls)
			add_nulls(column, rows->columns[i].nulls, mask, end, first);
		if (is_in_heap(column))
			continue;
		if (rows->columns[i].by_value && few)
			add_picked(column, rows, i, first, count);
		else if (rows->columns[i].by_value)
			(void) rf_mask_gather(column->vector + (size_t) first * column->width,
								  rows->columns[i].vector, column->width, mask, end);
		else
			add_referenced(column, rows, i, first, count);
	}
	encoder->rows += count;

	*selected -= count;
	memset(mask, 0, (end / 64) * sizeof(uint64));
	if (end % 64 != 0)
		mask[end / 64] &= ~UINT64CONST(0) << (end % 64);
	return count;
}
