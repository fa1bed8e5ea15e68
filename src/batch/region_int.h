/*
 * region_int.h - shared by the region sources. Plain C.
 */
#ifndef RF_REGION_INT_H
#define RF_REGION_INT_H

#include <string.h>

#include "rdma_fdw/region.h"

/* Record `row` of a pointer-mapped region: offset and length. */
static inline RfPointer
rf_ncr_pointer(const RfNcr *region, uint32_t row)
{
	RfPointer	pointer;
	uint32_t	item;
	uint16_t	pair[2];

	switch (region->format)
	{
		case RF_POINTER_16:
			memcpy(pair, (const uint8_t *) region->pointers + (size_t) row * sizeof(pair),
				   sizeof(pair));
			return (RfPointer) {pair[0], pair[1]};
		case RF_POINTER_ITEM:
			memcpy(&item, (const uint8_t *) region->pointers + (size_t) row * sizeof(item),
				   sizeof(item));
			return (RfPointer) {item & 0x7fff, item >> 17};
		default:
			memcpy(&pointer, (const uint8_t *) region->pointers + (size_t) row * sizeof(pointer),
				   sizeof(pointer));
			return pointer;
	}
}

/* Bytes of one pointer. */
static inline uint32_t
rf_pointer_size(uint8_t format)
{
	return format == RF_POINTER_32 ? 8 : 4;
}

static inline RfNcrPiece
rf_ncr_at(const RfNcr *region, uint32_t row)
{
	if (region->kind == RF_NCR_POINTERS)
	{
		RfPointer	pointer = rf_ncr_pointer(region, row);

		return (RfNcrPiece) {region->base + pointer.offset, pointer.length};
	}
	return (RfNcrPiece) {region->base + (size_t) row * region->stride, region->width};
}

static inline uint64_t
rf_mask_word(const uint64_t *mask, uint32_t count, size_t word)
{
	uint64_t	bits = mask[word];

	if (count - word * 64 < 64)
		bits &= ~(uint64_t) 0 >> (64 - (count - word * 64));
	return bits;
}

/* The bytes that the field takes of a row of `length` bytes. */
static inline uint64_t
rf_field_width(const RfField *field, uint64_t length)
{
	return field->width == RF_FIELD_REST ? length - field->offset : field->width;
}

/* The bytes that are sent of a row of `length` bytes. */
static inline uint64_t
rf_ncr_row_bytes(const RfNcr *region, uint64_t length)
{
	uint64_t	bytes = 0;

	if (region->field_count == 0)
		return length;
	for (uint32_t i = 0; i < region->field_count; i++)
		bytes += rf_field_width(&region->fields[i], length);
	return bytes;
}

#endif
