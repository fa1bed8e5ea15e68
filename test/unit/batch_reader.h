/*
 * batch_reader.h - reads a batch to the last byte of its last value as src/batch/decode.c does, for
 * the fuzzer and the tests: a sanitizer sees a bound that is too wide.
 */
#ifndef BATCH_READER_H
#define BATCH_READER_H

#include <stdlib.h>

#include "batch/batch_check.h"

static volatile uint32_t sink;
static uint32_t rejected;		/* values that did not pass their check */

static inline void
touch(const uint8_t *bytes, uint32_t size)
{
	uint32_t	sum = 0;

	for (uint32_t i = 0; i < size; i++)
		sum += bytes[i];
	sink += sum;
}

static inline void
read_column(const uint8_t *batch, uint32_t length, const RfBatchColumn *column, uint32_t rows,
			const RfImage *image)
{
	for (uint32_t row = 0; row < rows; row++)
	{
		const uint8_t *entry = batch + column->data_offset + (size_t) row * column->width;
		const uint8_t *value;
		uint32_t	header;
		uint32_t	offset;
		uint32_t	size;

		if (column->nulls_offset != 0 && rf_batch_is_null(batch + column->nulls_offset, row))
			continue;
		touch(entry, column->width);
		if (column->width != 4)
			continue;
		offset = rf_load32(entry);
		if (column->kind == RF_COLUMN_VARLENA)
		{
			size = rf_batch_varlena(batch, length, offset, &header);
			if (size == 0)
			{
				rejected++;
				continue;
			}
			touch(batch + offset, size);
			if (image != NULL)
				rejected += !rf_image_check(image, batch + offset + header, size - header);
		}
		else if (column->kind == RF_COLUMN_BINARY || column->kind == RF_COLUMN_TEXT)
		{
			value = rf_batch_blob(batch, length, offset, column->kind == RF_COLUMN_TEXT, &size);
			if (value == NULL)
				rejected++;
			else
				touch(value, size + (column->kind == RF_COLUMN_TEXT));
		}
	}
}

/* images: one per column, or NULL. True when the batch was one. */
static inline bool
read_batch(const uint8_t *batch, uint32_t length, const RfImage *const *images)
{
	RfBatchHeader header = {0};
	RfBatchColumn *columns;
	uint32_t	count;
	uint32_t	bad;
	bool		good;

	if (length >= sizeof(header))
		memcpy(&header, batch, sizeof(header));
	count = header.column_count;
	columns = malloc((count + 1) * sizeof(RfBatchColumn));
	if (columns == NULL)
		return false;
	good = rf_batch_open(batch, length, count, &header, columns, &bad) == NULL;

	/* Rows without columns, or without bytes, cost nothing to claim. */
	for (uint32_t i = 0; good && i < count; i++)
		read_column(batch, length, &columns[i], header.row_count < 10000 ? header.row_count : 10000,
					images != NULL ? images[i] : NULL);
	free(columns);
	return good;
}

/* The same for a batch of heap tuples, as src/batch/decode_tuples.c reads them. */
static inline bool
read_tuples(const uint8_t *batch, uint32_t length)
{
	uint32_t	attr_count = rf_tuples_attr_count(batch, length);
	RfBatchHeader header = {0};
	RfTupleAttr *attrs;
	RfTupleReader reader;
	RfTuple		tuple;
	bool		good;
	uint32_t	rows = 0;

	if (attr_count == 0)
		return false;
	memcpy(&header, batch, sizeof(header));
	attrs = malloc(attr_count * sizeof(RfTupleAttr));
	if (attrs == NULL)
		return false;
	good = rf_tuples_open(batch, length, header.column_count, attr_count, &header, attrs,
						  &reader) == NULL;
	while (good && rows < header.row_count && rf_tuples_next(&reader, &tuple))
	{
		uint32_t	offset = tuple.data;

		rows++;
		for (uint32_t i = 0; i < attr_count; i++)
		{
			const RfTupleAttr *attr = &attrs[i];
			uint32_t	size;
			uint32_t	kind;
			uint32_t	at;

			if (i >= tuple.natts)
			{
				if (attr->missing_offset != 0 && attr->length > 0)
					touch(batch + attr->missing_offset, attr->length);
				else if (attr->missing_offset != 0)
				{
					size = rf_batch_varlena(batch, length, attr->missing_offset, &kind);
					touch(batch + attr->missing_offset, size);
				}
				continue;
			}
			if (tuple.bits != NULL && (rf_load8(&tuple.bits[i >> 3]) & (1 << (i & 7))) == 0)
				continue;
			at = rf_tuple_attribute(&tuple, attr, &offset, &size, &kind);
			if (at == UINT32_MAX)
			{
				rejected++;
				break;
			}
			if (((uintptr_t) (tuple.bytes + at) & (attr->align - 1)) != 0 &&
				kind != RF_HEADER_SHORT && kind != RF_HEADER_POINTER)
				abort();
			touch(tuple.bytes + at, size);
		}
	}
	free(attrs);
	return good && rows == header.row_count;
}

#endif
