/*
 * batch_reader.h - reads a batch to the last byte of its last value as src/batch/decode.c does, for the fuzzer and the tests: a
 * sanitizer sees a bound that is too wide.
 */
#ifndef BATCH_READER_H
#define BATCH_READER_H

#include <stdlib.h>

#include "rdma_fdw/batch_check.h"

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

#endif
