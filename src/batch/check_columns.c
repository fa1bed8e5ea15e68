/*
 * check_columns.c - is this a column batch? Plain C, so that it can be fuzzed alone.
 *
 * Does: copy header and descriptors and check the copies and extents with 64-bit sums. Does not:
 * check values (batch_check.h has the checks for one value).
 */
#include "batch_check.h"

/*
 * Checks one column's descriptor. Returns NULL or the fault; all later reads rely on the extents
 * checked here.
 */
static const char *
check_column(const RfBatchColumn *column, uint32_t rows, uint64_t first, uint64_t length)
{
	switch (column->kind)
	{
		case RF_COLUMN_BYVAL:
			if (column->width != 1 && column->width != 2 && column->width != 4 &&
				column->width != 8)
				return "width of a by-value column is not 1, 2, 4 or 8";
			break;
		case RF_COLUMN_BYREF:
			if (column->width == 0 || column->width % 8 != 0 || column->width > 0x10000)
				return "width of a fixed-length column is not a multiple of 8";
			break;
		case RF_COLUMN_VARLENA:
		case RF_COLUMN_BINARY:
		case RF_COLUMN_TEXT:
			if (column->width != 4)
				return "width of an offset column is not 4";
			break;
		default:
			return "unknown kind of column";
	}
	if (column->reserved[0] != 0 || column->reserved[1] != 0 || column->reserved[2] != 0)
		return "reserved bytes are set";
	if (column->data_offset % 8 != 0 || column->data_offset < first ||
		column->data_offset + (uint64_t) rows * column->width > length)
		return "vector lies outside the batch";
	if (column->nulls_offset != 0 &&
		(column->nulls_offset < first || column->nulls_offset + ((uint64_t) rows + 7) / 8 > length))
		return "null bitmap lies outside the batch";
	return NULL;
}

const char *
rf_batch_open(const void *batch, uint32_t length, uint32_t column_count, RfBatchHeader *header,
			  RfBatchColumn *columns, uint32_t *column)
{
	uint64_t	first;

	*column = UINT32_MAX;
	if (length < sizeof(*header))
		return "shorter than a header";
	rf_copy_once(header, batch, sizeof(*header));
	if (header->magic != RF_BATCH_MAGIC)
		return "wrong magic number";
	if (header->flags != 0)
		return "unknown flags";
	if (header->length != length)
		return "length differs from the received bytes";
	if (header->column_count != column_count)
		return "it has another number of columns than was asked for";
	first = sizeof(*header) + (uint64_t) column_count * sizeof(RfBatchColumn);
	if (first > length)
		return "column descriptors lie outside the batch";
	rf_copy_once(columns, (const char *) batch + sizeof(*header),
				 column_count * sizeof(RfBatchColumn));

	for (uint32_t i = 0; i < column_count; i++)
	{
		const char *problem = check_column(&columns[i], header->row_count, first, length);

		if (problem != NULL)
		{
			*column = i;
			return problem;
		}
	}
	return NULL;
}
