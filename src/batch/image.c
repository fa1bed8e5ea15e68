/*
 * image.c - do the insides of a value's raw image hold together? Plain C, so that it can be fuzzed
 * alone.
 *
 * PostgreSQL's code for structured types (arrays, ranges, jsonb, ...) believes the counts, lengths
 * and offsets inside their images, because it wrote them itself. Those that come from another node
 * are checked here before anything else sees them.
 *
 * Does: bound every count, length and offset by the image. Does not: check that the value makes
 * sense (order of keys, canonical form): code that meets nonsense gives a wrong answer or an error,
 * but reads nothing outside the value.
 *
 * Offsets in this file count from the varlena's start with a four-byte header, as PostgreSQL's
 * structures do.
 */
#include "batch_check.h"

#define HEADER				4u
#define MAX_DEPTH			10000	/* of nested jsonb; PostgreSQL's own limit is the stack */
#define MAX_DIMENSIONS		6
#define MAX_ARRAY_ITEMS		0x07ffffff

typedef struct Bytes
{
	const uint8_t *payload;
	uint32_t	length;			/* with the four-byte header: offsets are below it */
} Bytes;

/* The bytes may change while they are looked at: what is checked is what these return, once. */
static inline uint32_t
get32(const Bytes *bytes, uint64_t offset)
{
	return rf_load32(bytes->payload + offset - HEADER);
}

static inline uint8_t
get8(const Bytes *bytes, uint64_t offset)
{
	return rf_load8(bytes->payload + offset - HEADER);
}

static inline uint64_t
align_up(uint64_t offset, uint32_t align)
{
	return (offset + align - 1) & ~(uint64_t) (align - 1);
}

/*
 * A value of the element type at *offset, which is moved behind it. Varlenas are aligned unless
 * they have a one-byte header, as a byte that is not zero shows. `first`: nothing is skipped in
 * front.
 */
static bool
pass_element(const RfImage *image, const Bytes *bytes, uint64_t *offset, uint64_t end, bool first)
{
	uint64_t	at = *offset;
	uint32_t	header_size;
	uint32_t	size;
	uint8_t		byte;

	if (image->element_length > 0)
	{
		at = align_up(at, image->element_align);
		*offset = at + image->element_length;
		return *offset <= end;
	}
	if (at >= end)
		return false;
	if (!first && get8(bytes, at) == 0)
		at = align_up(at, image->element_align);
	if (at >= end)
		return false;
	byte = get8(bytes, at);
	if (byte & 1)
	{
		header_size = 1;
		size = byte >> 1;
	}
	else
	{
		uint32_t	header;

		if (end - at < HEADER || at % 4 != 0)
			return false;
		header = get32(bytes, at);
		if (header & 3)
			return false;
		header_size = HEADER;
		size = header >> 2;
	}
	if (size < header_size || size > end - at)
		return false;
	*offset = at + size;
	return image->element == NULL ||
		rf_image_check(image->element, bytes->payload + at - HEADER + header_size, size - header_size);
}

static bool
is_array(const RfImage *image, const Bytes *bytes)
{
	uint64_t	items = 1;
	uint64_t	offset;
	uint64_t	nulls = 0;
	uint32_t	dimensions;
	uint32_t	data_offset;

	if (bytes->length < 16)
		return false;
	dimensions = get32(bytes, 4);
	data_offset = get32(bytes, 8);
	if (dimensions > MAX_DIMENSIONS || get32(bytes, 12) != image->type)
		return false;
	if (image->kind == RF_IMAGE_VECTOR && (dimensions != 1 || data_offset != 0))
		return false;
	offset = 16 + 8 * dimensions;
	if (offset > bytes->length)
		return false;
	if (dimensions == 0)
		return data_offset == 0;
	for (uint32_t i = 0; i < dimensions; i++)
	{
		uint32_t	size = get32(bytes, 16 + 4 * i);
		int32_t		lower = (int32_t) get32(bytes, 16 + 4 * (dimensions + i));

		/* An array without items has no dimensions; only the vector types break that rule. */
		if (size > MAX_ARRAY_ITEMS || (size == 0 && image->kind != RF_IMAGE_VECTOR) ||
			(int64_t) lower + size > INT32_MAX)
			return false;
		items *= size;
		if (items > MAX_ARRAY_ITEMS)
			return false;
	}
	if (data_offset != 0)
	{
		nulls = offset;
		offset += (items + 7) / 8;
	}
	offset = align_up(offset, 8);
	if ((data_offset != 0 && data_offset != offset) || (offset > bytes->length && items > 0))
		return false;
	if (nulls == 0 && image->element_length > 0)
		return offset + (items - (items > 0)) * align_up(image->element_length, image->element_align) +
			(items > 0) * image->element_length <= bytes->length;
	for (uint64_t i = 0; i < items; i++)
	{
		/* Here a set bit is a value. */
		if (nulls != 0 && ((get8(bytes, nulls + i / 8) >> (i % 8)) & 1) == 0)
			continue;
		if (!pass_element(image, bytes, &offset, bytes->length, false))
			return false;
	}
	return true;
}

/* The bounds of one range at `offset`, as its flags say, in front of `end`. */
static bool
has_bounds(const RfImage *image, const Bytes *bytes, uint64_t offset, uint64_t end, uint8_t flags)
{
	const uint8_t empty = 0x01;
	const uint8_t no_lower = 0x08 | 0x20;
	const uint8_t no_upper = 0x10 | 0x40;
	bool		first = true;

	if (flags & empty)
		return true;
	if ((flags & no_lower) == 0)
	{
		if (!pass_element(image, bytes, &offset, end, true))
			return false;
		first = false;
	}
	return (flags & no_upper) != 0 || pass_element(image, bytes, &offset, end, first);
}

static bool
is_range(const RfImage *image, const Bytes *bytes)
{
	if (bytes->length < 9 || get32(bytes, 4) != image->type)
		return false;
	return has_bounds(image, bytes, 8, bytes->length - 1, get8(bytes, bytes->length - 1));
}

static bool
is_multirange(const RfImage *image, const Bytes *bytes)
{
	uint64_t	flags;
	uint64_t	start;
	uint64_t	offset = 0;
	uint32_t	count;

	if (bytes->length < 12 || get32(bytes, 4) != image->type)
		return false;
	count = get32(bytes, 8);
	if (count == 0)
		return true;
	if (count > bytes->length)
		return false;
	flags = 12 + 4 * ((uint64_t) count - 1);
	start = align_up(flags + count, image->element_align);
	if (flags + count > bytes->length)
		return false;
	for (uint32_t i = 0; i < count; i++)
	{
		if (i > 0)
		{
			uint32_t	item = get32(bytes, 12 + 4 * (i - 1));

			/* An offset of its own now and then, a length otherwise. */
			if (item & 0x80000000)
				offset = item & 0x7fffffff;
			else
				offset += item;
		}
		/*
		 * Bounds begin aligned; a fixed-length or four-byte-header lower bound is read right there.
		 */
		if (offset > bytes->length || (start + offset) % (image->element_length > 0 ? image->element_align : 1) != 0 ||
			!has_bounds(image, bytes, start + offset, bytes->length, get8(bytes, flags + i)))
			return false;
	}
	return true;
}

/* A jsonb container at `offset`, ending before `end`. */
static bool
is_container(const Bytes *bytes, uint64_t offset, uint64_t end, int depth)
{
	const uint32_t mask = 0x0fffffff;
	const uint32_t is_scalar = 0x10000000;
	const uint32_t is_object = 0x20000000;
	const uint32_t is_list = 0x40000000;
	uint32_t	header;
	uint64_t	keys;
	uint64_t	count;
	uint64_t	data;
	uint64_t	start = 0;

	if (depth > MAX_DEPTH || offset % 4 != 0 || offset > end || end - offset < 4)
		return false;
	header = get32(bytes, offset);
	count = header & mask;
	keys = 0;
	if ((header & (is_object | is_list)) == is_object)
		keys = count, count *= 2;
	else if ((header & (is_object | is_list)) != is_list)
		return false;
	if ((header & is_scalar) && (keys > 0 || (header & is_object) || count != 1 || depth > 0))
		return false;
	data = offset + 4 + 4 * count;
	if (data > end)
		return false;
	for (uint64_t i = 0; i < count; i++)
	{
		uint32_t	entry = get32(bytes, offset + 4 + 4 * i);
		uint32_t	type = entry & 0x70000000;
		uint64_t	stop = (entry & 0x80000000) ? (entry & mask) : start + (entry & mask);
		uint64_t	at = data + start;

		if (stop < start || stop > end - data || (i < keys && type != 0))
			return false;
		switch (type)
		{
			case 0x00000000:	/* string */
				break;
			case 0x10000000:	/* numeric, a varlena of its own */
				{
					static const RfImage numeric = {RF_IMAGE_NUMERIC, 0, 0, 0, NULL};
					RfImage		inside = {RF_IMAGE_BYTES, 0, -1, 4, &numeric};

					at = align_up(at, 4);
					if (!pass_element(&inside, bytes, &at, data + stop, true))
						return false;
					break;
				}
			case 0x20000000:	/* false, true, null */
			case 0x30000000:
			case 0x40000000:
				break;
			case 0x50000000:	/* container */
				if ((header & is_scalar) || !is_container(bytes, align_up(at, 4), data + stop, depth + 1))
					return false;
				break;
			default:
				return false;
		}
		start = stop;
	}
	return true;
}

static bool
is_tsvector(const Bytes *bytes)
{
	uint64_t	strings;
	uint32_t	count;

	if (bytes->length < 8)
		return false;
	count = get32(bytes, 4);
	strings = 8 + 4 * (uint64_t) count;
	if (count > bytes->length || strings > bytes->length)
		return false;
	for (uint32_t i = 0; i < count; i++)
	{
		/* One bit: positions follow; 11 bits: length; 20 bits: place. */
		uint32_t	entry = get32(bytes, 8 + 4 * i);
		uint64_t	end = strings + (entry >> 12) + ((entry >> 1) & 0x7ff);

		if (end > bytes->length)
			return false;
		if (entry & 1)
		{
			uint32_t	positions;

			end = strings + align_up(end - strings, 2);
			if (end + 2 > bytes->length)
				return false;
			positions = get8(bytes, end) | get8(bytes, end + 1) << 8;
			if (positions == 0 || end + 2 + 2 * (uint64_t) positions > bytes->length)
				return false;
		}
	}
	return true;
}

static bool
is_bits(const Bytes *bytes)
{
	uint32_t	bits;

	if (bytes->length < 8)
		return false;
	bits = get32(bytes, 4);
	return bits <= INT32_MAX && 8 + ((uint64_t) bits + 7) / 8 == bytes->length;
}

static bool
is_inet(const Bytes *bytes)
{
	uint32_t	address = bytes->length - HEADER - 2;

	if (bytes->length < HEADER + 2)
		return false;
	switch (get8(bytes, HEADER))
	{
		case 2:
			return address == 4 && get8(bytes, HEADER + 1) <= 32;
		case 3:
			return address == 16 && get8(bytes, HEADER + 1) <= 128;
		default:
			return false;
	}
}

/* Points behind `fixed` bytes, as many as the count in the first word says. */
static bool
is_points(const Bytes *bytes, uint32_t fixed, uint32_t item)
{
	if (bytes->length < fixed)
		return false;
	return fixed + (uint64_t) get32(bytes, 4) * item == bytes->length;
}

bool
rf_image_check(const RfImage *image, const uint8_t *payload, uint32_t length)
{
	Bytes		bytes = {payload, length + HEADER};

	if (length > UINT32_MAX - HEADER)
		return false;
	switch (image->kind)
	{
		case RF_IMAGE_BYTES:
			return true;
		case RF_IMAGE_NUMERIC:
			return rf_image_is_numeric(payload, length);
		case RF_IMAGE_INET:
			return is_inet(&bytes);
		case RF_IMAGE_BITS:
			return is_bits(&bytes);
		case RF_IMAGE_PATH:
			return is_points(&bytes, 16, 16) && get32(&bytes, 4) > 0;
		case RF_IMAGE_POLYGON:
			return is_points(&bytes, 40, 16) && get32(&bytes, 4) > 0;
		case RF_IMAGE_SNAPSHOT:
			return is_points(&bytes, 24, 8);
		case RF_IMAGE_TSVECTOR:
			return is_tsvector(&bytes);
		case RF_IMAGE_JSONB:
			return is_container(&bytes, 4, bytes.length, 0);
		case RF_IMAGE_ARRAY:
		case RF_IMAGE_VECTOR:
			return is_array(image, &bytes);
		case RF_IMAGE_RANGE:
			return is_range(image, &bytes);
		case RF_IMAGE_MULTIRANGE:
			return is_multirange(image, &bytes);
		default:
			return rf_state_check(image->kind, payload, length);
	}
	return false;
}
