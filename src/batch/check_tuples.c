/*
 * check_tuples.c - is this a batch of heap tuples? Plain C, so that it can be fuzzed alone.
 *
 * Does: copy header and description, check the copies, and walk the runs. Does not: check values
 * (batch_check.h finds them in a tuple).
 */
#include "batch_check.h"

#define MAX_RUN_BYTES		32768u	/* PostgreSQL's largest page */
#define MAX_ATTRIBUTES		1600u
#define MAX_COLUMNS			1664u

uint32_t
rf_tuples_attr_count(const void *batch, uint32_t length)
{
	const uint8_t *bytes = batch;
	uint32_t	count;

	if (length < sizeof(RfBatchHeader) + sizeof(RfTupleLayout) ||
		rf_load16(bytes + offsetof(RfBatchHeader, flags)) != RF_BATCH_PAGES)
		return 0;
	count = rf_load32(bytes + sizeof(RfBatchHeader));
	return count <= MAX_ATTRIBUTES ? count : 0;
}

/*
 * Checks the description of one attribute of the tuples, with its value for older rows. Returns
 * NULL or the fault.
 */
static const char *
check_attr(const RfTupleAttr *attr, const uint8_t *batch, uint32_t first, uint32_t length)
{
	uint32_t	header;

	if (attr->align != 1 && attr->align != 2 && attr->align != 4 && attr->align != 8)
		return "alignment of an attribute is not 1, 2, 4 or 8";
	if (attr->length < -1 || attr->length == 0)
		return "length of an attribute is not possible";
	if (attr->length == -1 && (attr->align < 4 || attr->by_value))
		return "a variable-length attribute has the alignment of another kind";
	if (attr->by_value > 1 || (attr->by_value && attr->length != 1 && attr->length != 2 &&
							   attr->length != 4 && attr->length != 8))
		return "length of a by-value attribute is not 1, 2, 4 or 8";
	if (attr->reserved != 0)
		return "reserved bytes are set";
	if (attr->missing_offset == 0)
		return NULL;
	if (attr->missing_offset < first || attr->missing_offset % 8 != 0 ||
		attr->missing_offset >= length)
		return "value of older rows lies outside the batch";
	if (attr->length > 0 ? (uint32_t) attr->length > length - attr->missing_offset :
		rf_batch_varlena(batch, length, attr->missing_offset, &header) == 0)
		return "value of older rows lies outside the batch";
	return NULL;
}

const char *
rf_tuples_open(const void *batch, uint32_t length, uint32_t column_count, uint32_t attr_count,
			   RfBatchHeader *header, RfTupleAttr *attrs, RfTupleReader *reader)
{
	const uint8_t *bytes = batch;
	RfTupleLayout layout;
	uint64_t	first = sizeof(*header) + sizeof(layout) +
		(uint64_t) attr_count * sizeof(RfTupleAttr);
	uint8_t		seen[MAX_COLUMNS / 8 + 1] = {0};
	uint32_t	filled = 0;

	memset(reader, 0, sizeof(*reader));
	if (length < first)
		return "shorter than its description";
	rf_copy_once(header, bytes, sizeof(*header));
	rf_copy_once(&layout, bytes + sizeof(*header), sizeof(layout));
	rf_copy_once(attrs, bytes + sizeof(*header) + sizeof(layout), attr_count * sizeof(RfTupleAttr));
	if (header->magic != RF_BATCH_MAGIC)
		return "wrong magic number";
	if (header->flags != RF_BATCH_PAGES)
		return "unknown flags";
	if (header->length != length)
		return "length differs from the received bytes";
	if (header->column_count != column_count)
		return "it has another number of columns than was asked for";
	if (layout.attr_count != attr_count)
		return "its description changed";
	reader->next_run = first;
	for (uint32_t i = 0; i < attr_count; i++)
	{
		const char *problem = check_attr(&attrs[i], bytes, first, length);
		uint64_t	end;

		if (problem != NULL)
			return problem;
		if (attrs[i].column > column_count || attrs[i].column > MAX_COLUMNS)
			return "an attribute fills a column that is not there";
		if (attrs[i].column != 0)
		{
			uint8_t		bit = 1 << (attrs[i].column & 7);

			filled += (seen[attrs[i].column >> 3] & bit) == 0;
			seen[attrs[i].column >> 3] |= bit;
		}
		if (attrs[i].missing_offset == 0)
			continue;

		/* The runs begin after these. */
		end = attrs[i].missing_offset;
		if (attrs[i].length > 0)
			end += attrs[i].length;
		else
		{
			uint32_t	varlena_header;

			end += rf_batch_varlena(bytes, length, attrs[i].missing_offset, &varlena_header);
		}
		end = (end + 7) & ~(uint64_t) 7;
		if (end > length)
			return "value of older rows lies outside the batch";
		if (end > reader->next_run)
			reader->next_run = end;
	}
	if (filled != column_count || column_count == 0)
		return "not every column is filled by one attribute";
	reader->batch = bytes;
	reader->length = length;
	reader->runs_left = layout.run_count;
	return NULL;
}

bool
rf_tuples_next_run(RfTupleReader *reader)
{
	uint64_t	at = reader->next_run;
	uint64_t	data;
	uint64_t	end;
	RfTupleRun	run;

	if (reader->runs_left == 0 || at + sizeof(run) > reader->length)
		return false;
	rf_copy_once(&run, reader->batch + at, sizeof(run));
	if (run.length > MAX_RUN_BYTES || run.base % 8 != 0)
		return false;
	data = (at + sizeof(run) + (uint64_t) run.item_count * sizeof(uint32_t) + 7) & ~(uint64_t) 7;
	end = (data + run.length + 7) & ~(uint64_t) 7;
	if (end > reader->length)
		return false;
	reader->items = reader->batch + at + sizeof(run);
	reader->items_left = run.item_count;
	reader->data = reader->batch + data;
	reader->data_length = run.length;
	reader->base = run.base;
	reader->next_run = end;
	reader->runs_left--;
	return true;
}
