/*
 * region_wire.c - descriptions as bytes of a message, and back with every length checked.
 */
#include "rdma_fdw/batch_check.h"

#include "region_int.h"

#define ALIGN8(n)	(((uint64_t) (n) + 7) & ~(uint64_t) 7)
#define ALIGN64(n)	(((uint64_t) (n) + 63) & ~(uint64_t) 63)

const char *const RF_NCR_MORE_MEMORY = "more memory is needed to read the description";

/* ---------- writing ---------- */

/* Do the region's pointers lie in the box? Then they need not be sent apart. */
static bool
pointers_inside(const RfNcr *region, const uint8_t *box, uint64_t length)
{
	const uint8_t *pointers = region->pointers;

	return pointers >= box && pointers <= box + length &&
		(uint64_t) region->count * rf_pointer_size(region->format) <= (uint64_t) (box + length - pointers);
}

/*
 * The rows that a message describes: from the first selected one to the last. False: there is none.
 */
static bool
selected_range(const RfNcr *region, uint32_t *first, uint32_t *end)
{
	*first = rf_ncr_next_row(region, 0);
	*end = region->count;
	if (*first >= region->count)
		return false;
	if (region->rows != NULL)
	{
		size_t		word = RF_MASK_WORDS(region->count) - 1;
		uint64_t	bits;

		while ((bits = rf_mask_word(region->rows, region->count, word)) == 0)
			word--;
		*end = (uint32_t) (word * 64 + 64 - (uint32_t) __builtin_clzll(bits));
	}
	return true;
}

bool
rf_ncr_box(const RfNcrSet *set, const uint8_t **box, uint64_t *length)
{
	const uint8_t *begin = NULL;
	const uint8_t *end = NULL;

	for (uint32_t i = 0; i < set->count; i++)
	{
		const RfNcr *region = &set->regions[i];
		uint32_t	first;
		uint32_t	last;
		const uint8_t *low = region->base;
		const uint8_t *high = region->base + region->span;

		if (!selected_range(region, &first, &last))
			continue;
		if (region->kind != RF_NCR_POINTERS)
		{
			low = rf_ncr_at(region, first).at;
			high = rf_ncr_at(region, last - 1).at + region->width;
		}
		begin = begin == NULL || low < begin ? low : begin;
		end = end == NULL || high > end ? high : end;
	}
	*box = begin;
	*length = (uint64_t) (end - begin);
	return begin != NULL;
}

/* The bits from `first` to `end` as the first of a bitmap. */
static void
write_rows(uint8_t *to, const RfNcr *region, uint32_t first, uint32_t end)
{
	unsigned	shift = first % 64;

	for (size_t word = 0; word < RF_MASK_WORDS(end - first); word++)
	{
		size_t		from = first / 64 + word;
		uint64_t	bits = rf_mask_word(region->rows, end, from) >> shift;

		if (shift > 0 && from + 1 < RF_MASK_WORDS(end))
			bits |= rf_mask_word(region->rows, end, from + 1) << (64 - shift);
		memcpy(to + word * sizeof(bits), &bits, sizeof(bits));
	}
}

/*
 * Lay the description out; with `to` NULL only measure it. Returns where the payload begins; 0: it
 * cannot be described.
 */
static uint64_t
lay_out(const RfNcrSet *set, const uint8_t *box, uint64_t length, uint8_t *to, uint64_t payload_offset)
{
	uint64_t	at = ALIGN8(sizeof(RfNcrWireHeader) + (uint64_t) set->count * sizeof(RfNcrWire));
	RfNcrWire  *wires = to == NULL ? NULL : (RfNcrWire *) (to + sizeof(RfNcrWireHeader));

	for (uint32_t i = 0; i < set->count; i++)
	{
		const RfNcr *region = &set->regions[i];
		RfNcrWire	wire = {.kind = region->kind, .format = region->format,
			.field_count = region->field_count, .width = region->width,
		.stride = region->stride, .span = region->span};
		uint32_t	first;
		uint32_t	end;
		uint64_t	bytes;

		if (!selected_range(region, &first, &end))
			first = end = 0;
		wire.count = end - first;
		if (wire.count > RF_NCR_MAX_ROWS)
			return 0;
		if (wire.count == 0)
			wire.span = 0;
		else
			wire.base = (uint32_t) ((region->kind == RF_NCR_POINTERS ? region->base : rf_ncr_at(region, first).at) - box);
		if (region->field_count > 0)
		{
			bytes = region->field_count * sizeof(RfField);
			wire.fields = (uint32_t) at;
			if (to != NULL)
				memcpy(to + at, region->fields, bytes);
			at += bytes;
		}
		if (region->rows != NULL && wire.count > 0)
		{
			uint32_t	same = 0;

			while (same < i && (set->regions[same].rows != region->rows || set->regions[same].count != region->count))
				same++;
			if (same < i)
				wire.rows = to == NULL ? 0 : wires[same].rows;
			else
			{
				wire.rows = (uint32_t) at;
				if (to != NULL)
					write_rows(to + at, region, first, end);
				at += RF_MASK_WORDS(wire.count) * sizeof(uint64_t);
			}
		}
		if (region->kind == RF_NCR_POINTERS && wire.count > 0)
		{
			const uint8_t *pointers = region->pointers;

			pointers += (size_t) first * rf_pointer_size(region->format);
			bytes = (uint64_t) wire.count * rf_pointer_size(region->format);
			if (pointers_inside(region, box, length))
				wire.pointers = (uint32_t) (payload_offset + (uint64_t) (pointers - box));
			else
			{
				wire.pointers = (uint32_t) at;
				if (to != NULL)
					memcpy(to + at, pointers, bytes);
				at += ALIGN8(bytes);
			}
		}
		if (wires != NULL)
			wires[i] = wire;
	}
	at = ALIGN64(at);
	return at + length > UINT32_MAX ? 0 : at;
}

uint32_t
rf_ncr_write(const RfNcrSet *set, const uint8_t *box, uint64_t length, void *to, uint32_t room)
{
	uint64_t	payload_offset;

	if (set->count > RF_NCR_MAX_REGIONS || length > UINT32_MAX / 2)
		return 0;
	payload_offset = lay_out(set, box, length, NULL, 0);
	if (payload_offset == 0 || payload_offset > room)
		return (uint32_t) payload_offset;
	memset(to, 0, payload_offset);
	*(RfNcrWireHeader *) to = (RfNcrWireHeader) {
		.magic = RF_NCR_MAGIC,
		.regions = (uint16_t) set->count,
		.order = (uint16_t) set->order,
		.payload_offset = (uint32_t) payload_offset,
		.payload_length = (uint32_t) length
	};
	lay_out(set, box, length, to, payload_offset);
	return (uint32_t) payload_offset;
}

/* ---------- what was packed ---------- */

size_t
rf_ncr_packed_pointers(const RfNcrSet *set)
{
	size_t		pointers = 0;
	bool		any = false;

	for (uint32_t i = 0; i < set->count; i++)
	{
		any = any || set->regions[i].kind == RF_NCR_POINTERS;
		if (set->order == RF_NCR_TRANSPOSED || set->regions[i].kind == RF_NCR_POINTERS)
			pointers += rf_ncr_rows(&set->regions[i]);
	}
	return any ? pointers : 0;
}

void
rf_ncr_packed(const RfNcrSet *set, const uint8_t *payload, RfNcr *regions, RfPointer *pointers,
			  RfNcrSet *packed)
{
	uint64_t	total = rf_ncr_set_bytes(set);
	uint64_t	at = 0;
	uint64_t	row_bytes = 0;	/* of a transposed set without records */
	bool		by_pointer = rf_ncr_packed_pointers(set) > 0;

	for (uint32_t i = 0; i < set->count; i++)
		row_bytes += set->regions[i].kind == RF_NCR_POINTERS ? 0 : rf_ncr_row_bytes(&set->regions[i], set->regions[i].width);
	for (uint32_t i = 0; i < set->count; i++)
	{
		const RfNcr *region = &set->regions[i];
		bool		mapped = region->kind == RF_NCR_POINTERS || (by_pointer && set->order == RF_NCR_TRANSPOSED);
		uint32_t	rows = rf_ncr_rows(region);

		regions[i] = (RfNcr) {.kind = mapped ? RF_NCR_POINTERS : RF_NCR_STRIDED, .count = rows};
		if (mapped)
		{
			regions[i].base = payload;
			regions[i].span = (uint32_t) total;
			regions[i].pointers = pointers;
			pointers += rows;
		}
		else
		{
			regions[i].base = payload + at;
			regions[i].width = (uint32_t) rf_ncr_row_bytes(region, region->width);
			regions[i].stride = set->order == RF_NCR_TRANSPOSED ? (uint32_t) row_bytes : regions[i].width;
			at += set->order == RF_NCR_TRANSPOSED ? regions[i].width : (uint64_t) rows * regions[i].width;
		}
		if (mapped && set->order == RF_NCR_COLUMNAR)
		{
			RfPointer  *pointer = (RfPointer *) regions[i].pointers;

			for (uint32_t row = rf_ncr_next_row(region, 0); row < region->count;
				 row = rf_ncr_next_row(region, row + 1))
			{
				uint64_t	bytes = rf_ncr_row_bytes(region, rf_ncr_at(region, row).length);

				*pointer++ = (RfPointer) {(uint32_t) at, (uint32_t) bytes};
				at += bytes;
			}
		}
	}
	if (by_pointer && set->order == RF_NCR_TRANSPOSED)
	{
		const RfNcr *first = &set->regions[0];
		uint32_t	number = 0;

		for (uint32_t row = rf_ncr_next_row(first, 0); row < first->count;
			 row = rf_ncr_next_row(first, row + 1), number++)
			for (uint32_t i = 0; i < set->count; i++)
			{
				const RfNcr *region = &set->regions[i];
				uint64_t	bytes = rf_ncr_row_bytes(region, rf_ncr_at(region, row).length);

				((RfPointer *) regions[i].pointers)[number] = (RfPointer) {(uint32_t) at, (uint32_t) bytes};
				at += bytes;
			}
	}
	*packed = (RfNcrSet) {regions, set->count, set->order};
}

/* ---------- reading ---------- */

/*
 * From memory that may change: after this the compiler knows nothing of the copy but where it lies.
 */
static inline void
copy_once(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
	__asm__ volatile("" : : "r"(to) : "memory");
}

/*
 * The last selected byte of a strided or bitmapped region, relative to its base. Selected or not:
 * every row that `count` names lies inside.
 */
static uint64_t
periodic_span(const RfNcr *region)
{
	return region->count == 0 ? 0 : (uint64_t) (region->count - 1) * region->stride + region->width;
}

const char *
rf_ncr_read(const void *message, uint32_t length, void *memory, size_t room, RfNcrSet *set, size_t *needed)
{
	const uint8_t *bytes = message;
	RfNcrWireHeader header;
	RfNcr	   *regions = memory;
	uint64_t	used;
	const uint8_t *payload;

	*needed = 0;
	*set = (RfNcrSet) {0};
	if (length < sizeof(header))
		return "shorter than a header";
	copy_once(&header, bytes, sizeof(header));
	if (header.magic != RF_NCR_MAGIC)
		return "not a description of regions";
	if (header.order > RF_NCR_TRANSPOSED || header.regions > RF_NCR_MAX_REGIONS)
		return "unknown order, or too many regions";
	if (header.payload_offset % 64 != 0 ||
		header.payload_offset < sizeof(header) + header.regions * sizeof(RfNcrWire) ||
		header.payload_offset > length || length - header.payload_offset != header.payload_length)
		return "the payload does not fill the rest of the message";
	payload = bytes + header.payload_offset;

	/*
	 * Room for everything first, from one reading of the descriptors; they are read again below, and
	 * what they say then is checked against what is left.
	 */
	used = ALIGN8(header.regions * sizeof(RfNcr));
	for (uint32_t i = 0; i < header.regions; i++)
	{
		RfNcrWire	wire;

		copy_once(&wire, bytes + sizeof(header) + i * sizeof(wire), sizeof(wire));
		if (wire.count > RF_NCR_MAX_ROWS)
			return "too many rows";
		used += ALIGN8(wire.field_count * sizeof(RfField));
		if (wire.rows != 0)
			used += RF_MASK_WORDS(wire.count) * sizeof(uint64_t);
		if (wire.kind == RF_NCR_POINTERS)
			used += ALIGN8((uint64_t) wire.count * sizeof(RfPointer));
	}
	*needed = used;
	if (used > room)
		return RF_NCR_MORE_MEMORY;

	used = ALIGN8(header.regions * sizeof(RfNcr));
	for (uint32_t i = 0; i < header.regions; i++)
	{
		RfNcrWire	wire;
		RfNcr	   *region = &regions[i];
		uint64_t	size;
		const char *problem;

		copy_once(&wire, bytes + sizeof(header) + i * sizeof(wire), sizeof(wire));
		*region = (RfNcr) {.kind = wire.kind, .format = wire.format, .field_count = wire.field_count,
			.count = wire.count, .width = wire.width, .stride = wire.stride, .span = wire.span};
		if (wire.count > RF_NCR_MAX_ROWS || wire.format > RF_POINTER_ITEM || wire.reserved != 0)
			return "a descriptor is damaged";
		if (wire.base > header.payload_length)
			return "a base lies outside the payload";
		region->base = payload + wire.base;

		size = wire.field_count * sizeof(RfField);
		if (size > 0)
		{
			if (wire.fields < sizeof(header) || wire.fields > length || size > length - wire.fields)
				return "fields lie outside the message";
			if (size > room - used)
				return "the description changed while it was read";
			copy_once((uint8_t *) memory + used, bytes + wire.fields, size);
			region->fields = (const RfField *) ((uint8_t *) memory + used);
			used += ALIGN8(size);
		}
		if (wire.rows != 0)
		{
			size = RF_MASK_WORDS(wire.count) * sizeof(uint64_t);
			if (wire.rows % 8 != 0 || wire.rows > length || size > length - wire.rows)
				return "a bitmap lies outside the message";
			if (size > room - used)
				return "the description changed while it was read";
			copy_once((uint8_t *) memory + used, bytes + wire.rows, size);
			region->rows = (const uint64_t *) ((uint8_t *) memory + used);
			used += size;
		}
		if (wire.kind == RF_NCR_POINTERS)
		{
			size = (uint64_t) wire.count * rf_pointer_size(wire.format);
			if (wire.pointers > length || size > length - wire.pointers)
				return "pointers lie outside the message";
			if (ALIGN8(size) > room - used)
				return "the description changed while it was read";
			copy_once((uint8_t *) memory + used, bytes + wire.pointers, size);
			region->pointers = (uint8_t *) memory + used;
			used += ALIGN8(size);
			if (wire.span > header.payload_length - wire.base)
				return "the span of records is larger than the payload";
		}
		problem = rf_ncr_check_shape(region);
		if (problem != NULL)
			return problem;
		if (region->kind != RF_NCR_POINTERS && periodic_span(region) > header.payload_length - wire.base)
			return "a region is larger than the payload";
		if (header.order == RF_NCR_TRANSPOSED && i > 0)
		{
			if (region->count != regions[0].count || (region->rows == NULL) != (regions[0].rows == NULL))
				return "regions of a transposed set select different rows";
			if (region->rows != NULL)
			{
				for (size_t word = 0; word < RF_MASK_WORDS(region->count); word++)
					if (rf_mask_word(region->rows, region->count, word) !=
						rf_mask_word(regions[0].rows, region->count, word))
						return "regions of a transposed set select different rows";
			}
		}
	}
	*set = (RfNcrSet) {regions, header.regions, (RfNcrOrder) header.order};
	return NULL;
}
