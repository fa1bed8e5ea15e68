/*
 * ncr_copy.c - copies the wanted bytes of a set to contiguous memory.
 */
#include "ncr.h"

static inline __attribute__((always_inline))
uint8_t *
copy_elements(uint8_t *to, const uint8_t *from, size_t width, size_t stride, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, from += stride, to += width)
		memcpy(to, from, width);
	return to;
}

/* Every element of a strided region without fields. */
static uint8_t *
copy_strided(uint8_t *to, const RfNcr *region)
{
	switch (region->width)
	{
		case 1:
			return copy_elements(to, region->base, 1, region->stride, region->count);
		case 2:
			return copy_elements(to, region->base, 2, region->stride, region->count);
		case 4:
			return copy_elements(to, region->base, 4, region->stride, region->count);
		case 8:
			return copy_elements(to, region->base, 8, region->stride, region->count);
		case 16:
			return copy_elements(to, region->base, 16, region->stride, region->count);
		default:
			return copy_elements(to, region->base, region->width, region->stride, region->count);
	}
}

/* A short piece of any length, without a call for each. */
static inline uint8_t *
copy_piece(uint8_t *to, const uint8_t *from, uint64_t length)
{
	switch (length)
	{
		case 1:
			*to = *from;
			break;
		case 2:
			memcpy(to, from, 2);
			break;
		case 4:
			memcpy(to, from, 4);
			break;
		case 8:
			memcpy(to, from, 8);
			break;
		default:
			memcpy(to, from, length);
			break;
	}
	return to + length;
}

static uint8_t *
copy_row(uint8_t *to, const RfNcr *region, uint32_t row)
{
	RfNcrPiece	record = rf_ncr_at(region, row);

	if (region->field_count == 0)
		return copy_piece(to, record.at, record.length);
	for (uint32_t i = 0; i < region->field_count; i++)
		to = copy_piece(to, record.at + region->fields[i].offset,
						rf_field_width(&region->fields[i], record.length));
	return to;
}

static uint8_t *
copy_region(uint8_t *to, const RfNcr *region)
{
	if (region->kind != RF_NCR_POINTERS && region->field_count == 0)
	{
		if (region->stride == region->width && region->rows == NULL)
		{
			memcpy(to, region->base, (size_t) region->count * region->width);
			return to + (size_t) region->count * region->width;
		}
		if (region->stride == region->width)
			return to +
				rf_mask_gather(to, region->base, region->width, region->rows, region->count);
		if (region->rows == NULL)
			return copy_strided(to, region);
	}
	for (uint32_t row = rf_ncr_next_row(region, 0); row < region->count;
		 row = rf_ncr_next_row(region, row + 1))
		to = copy_row(to, region, row);
	return to;
}

uint64_t
rf_ncr_pack(const RfNcrSet *set, void *to, uint64_t room)
{
	uint64_t	bytes = rf_ncr_set_bytes(set);
	uint8_t    *out = to;

	if (bytes > room || bytes == 0)
		return bytes;
	if (set->order == RF_NCR_COLUMNAR || set->count == 1)
	{
		for (uint32_t i = 0; i < set->count; i++)
			if (set->regions[i].count > 0)
				out = copy_region(out, &set->regions[i]);
	}
	else
	{
		const RfNcr *first = &set->regions[0];

		for (uint32_t row = rf_ncr_next_row(first, 0); row < first->count;
			 row = rf_ncr_next_row(first, row + 1))
			for (uint32_t i = 0; i < set->count; i++)
				out = copy_row(out, &set->regions[i], row);
	}
	return bytes;
}
