/*
 * ncr.c - non-contiguous regions: the meaning of a description, row by row.
 */
#include "ncr.h"

uint32_t
rf_ncr_next_row(const RfNcr *region, uint32_t row)
{
	uint64_t	bits;
	size_t		word;

	if (row >= region->count || region->rows == NULL)
		return row < region->count ? row : region->count;
	word = row / 64;
	bits = rf_mask_word(region->rows, region->count, word) & (~(uint64_t) 0 << (row % 64));
	while (bits == 0)
	{
		if (++word >= RF_MASK_WORDS(region->count))
			return region->count;
		bits = rf_mask_word(region->rows, region->count, word);
	}
	return (uint32_t) (word * 64 + (uint32_t) __builtin_ctzll(bits));
}

uint32_t
rf_ncr_rows(const RfNcr *region)
{
	return region->rows == NULL ? region->count : rf_mask_count(region->rows, region->count);
}

static uint64_t
region_bytes(const RfNcr *region)
{
	uint64_t	bytes = 0;

	if (region->kind != RF_NCR_POINTERS)
		return rf_ncr_rows(region) * rf_ncr_row_bytes(region, region->width);
	for (uint32_t row = rf_ncr_next_row(region, 0); row < region->count;
		 row = rf_ncr_next_row(region, row + 1))
		bytes += rf_ncr_row_bytes(region, rf_ncr_pointer(region, row).length);
	return bytes;
}

uint64_t
rf_ncr_set_bytes(const RfNcrSet *set)
{
	uint64_t	bytes = 0;

	for (uint32_t i = 0; i < set->count; i++)
		bytes += region_bytes(&set->regions[i]);
	return bytes;
}

/* ---------- fragments in the order of the set ---------- */

void
rf_ncr_begin(RfNcrCursor *cursor, const RfNcrSet *set)
{
	*cursor = (RfNcrCursor)
	{
		.set = *set
	};
	if (set->count > 0)
		cursor->row = rf_ncr_next_row(&set->regions[0], 0);
}

/* The first row after `row`, which is selected, that is not selected. */
static uint32_t
run_end(const RfNcr *region, uint32_t row)
{
	size_t		word = row / 64;
	uint64_t	bits;

	if (region->rows == NULL)
		return region->count;
	bits = ~region->rows[word] & (~(uint64_t) 0 << (row % 64));
	while (bits == 0)
	{
		if (++word >= RF_MASK_WORDS(region->count))
			return region->count;
		bits = ~region->rows[word];
	}
	row = (uint32_t) (word * 64 + (uint32_t) __builtin_ctzll(bits));
	return row < region->count ? row : region->count;
}

/*
 * The next piece of the description: a row's part of one region, or one field of it. May be empty.
 */
static bool
next_piece(RfNcrCursor *cursor, RfNcrPiece *piece)
{
	const RfNcr *region;

	if (cursor->region >= cursor->set.count)
		return false;
	region = &cursor->set.regions[cursor->region];
	while (cursor->row >= region->count)
	{
		if (cursor->set.order == RF_NCR_TRANSPOSED || ++cursor->region >= cursor->set.count)
		{
			cursor->region = cursor->set.count;
			return false;
		}
		region = &cursor->set.regions[cursor->region];
		cursor->row = rf_ncr_next_row(region, 0);
	}

	*piece = rf_ncr_at(region, cursor->row);

	/* Adjacent rows are one piece. */
	if (cursor->set.order == RF_NCR_COLUMNAR && region->field_count == 0 &&
		region->kind != RF_NCR_POINTERS && region->stride == region->width)
	{
		uint32_t	end = run_end(region, cursor->row);

		piece->length *= end - cursor->row;
		cursor->row = rf_ncr_next_row(region, end);
		return true;
	}
	if (region->field_count > 0)
	{
		const RfField *field = &region->fields[cursor->field];

		piece->at += field->offset;
		piece->length = rf_field_width(field, piece->length);
		if (++cursor->field < region->field_count)
			return true;
		cursor->field = 0;
	}
	if (cursor->set.order == RF_NCR_COLUMNAR)
		cursor->row = rf_ncr_next_row(region, cursor->row + 1);
	else if (++cursor->region == cursor->set.count)
	{
		cursor->region = 0;
		cursor->row = rf_ncr_next_row(&cursor->set.regions[0], cursor->row + 1);
	}
	return true;
}

bool
rf_ncr_next(RfNcrCursor *cursor, RfNcrPiece *fragment)
{
	RfNcrPiece	piece;

	*fragment = cursor->ahead;
	cursor->ahead.length = 0;
	while (next_piece(cursor, &piece))
	{
		if (piece.length == 0)
			continue;
		if (fragment->length == 0)
			*fragment = piece;
		else if (fragment->at + fragment->length == piece.at)
			fragment->length += piece.length;
		else
		{
			cursor->ahead = piece;
			break;
		}
	}
	return fragment->length > 0;
}
