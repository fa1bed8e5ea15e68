/*
 * fuzz_batch.c - everything the decoder believes about a batch, fed with arbitrary bytes.
 *
 * First byte of the input: 0 = a whole batch, read value by value as the decoder does; otherwise an
 * image of kind (byte mod number of kinds). Whatever the checks accept is then read to its end, so
 * that a sanitizer sees a bound that is too wide.
 */
#include <stdlib.h>

#include "rdma_fdw/batch_check.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint32_t sink;

static void
touch(const uint8_t *bytes, uint32_t size)
{
	uint32_t	sum = 0;

	for (uint32_t i = 0; i < size; i++)
		sum += bytes[i];
	sink += sum;
}

static void
read_batch(const uint8_t *batch, uint32_t length)
{
	RfBatchHeader header;
	uint32_t	bad;
	uint32_t	rows;

	if (rf_batch_check(batch, length, &bad) != NULL)
		return;
	memcpy(&header, batch, sizeof(header));

	/* Rows without columns, or without bytes, cost nothing to claim. */
	rows = header.row_count < 10000 ? header.row_count : 10000;
	for (uint32_t i = 0; i < header.column_count; i++)
	{
		RfBatchColumn column;

		rf_batch_column(batch, i, &column);
		for (uint32_t row = 0; row < rows; row++)
		{
			const uint8_t *entry = batch + column.data_offset + (size_t) row * column.width;
			const uint8_t *value;
			uint32_t	offset;
			uint32_t	size;

			if (column.nulls_offset != 0 && rf_batch_is_null(batch + column.nulls_offset, row))
				continue;
			touch(entry, column.width);
			if (column.width != 4)
				continue;
			memcpy(&offset, entry, 4);
			if (column.kind == RF_COLUMN_VARLENA)
			{
				size = rf_batch_varlena_size(batch, length, offset);
				touch(batch + (size > 0 ? offset : 0), size);
			}
			else if (column.kind == RF_COLUMN_BINARY || column.kind == RF_COLUMN_TEXT)
			{
				value = rf_batch_blob(batch, length, offset, column.kind == RF_COLUMN_TEXT, &size);
				if (value != NULL)
					touch(value, size + (column.kind == RF_COLUMN_TEXT));
			}
		}
	}
}

static void
read_image(uint8_t selector, const uint8_t *payload, uint32_t length)
{
	static const RfImage numeric = {RF_IMAGE_NUMERIC, 0, 0, 0, NULL};
	static const uint8_t aligns[] = {1, 2, 4, 8};
	RfImage		image = {0};

	image.kind = selector % (RF_IMAGE_MULTIRANGE + 1);
	selector /= RF_IMAGE_MULTIRANGE + 1;
	image.type = 23;
	image.element_align = aligns[selector % 4];
	if ((selector / 4) % 2 == 0)
		image.element_length = (selector / 8) % 2 == 0 ? image.element_align : 16;
	else
	{
		image.element_length = -1;
		if (image.element_align < 4)
			image.element_align = 4;
		image.element = (selector / 8) % 2 == 0 ? &numeric : NULL;
	}
	sink += rf_image_check(&image, payload, length);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *copy;

	if (size < 1)
		return 0;
	/* Of exactly that size, and aligned, as the decoder makes sure. */
	copy = malloc(size > 1 ? size - 1 : 1);
	if (copy == NULL)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (data[0] == 0)
		read_batch(copy, size - 1);
	else
		read_image(data[0], copy, size - 1);
	free(copy);
	return 0;
}
