/*
 * image.c - is this the raw image of a value? Plain C, so that it can be fuzzed alone.
 *
 * PostgreSQL's code for structured types (arrays, ranges, jsonb, ...) trusts the counts, lengths
 * and offsets inside their images, and the order and form of their parts, because it wrote them
 * itself. Images from another node are checked here before other code reads them.
 *
 * Does: accept only images that functions of the type could have made, so that every function may
 * be applied to them; except for polygons, snapshots and tsvectors, for which only counts, lengths
 * and offsets are checked: images of these are accepted from trusted nodes only (typemap.c). Does
 * not: check type modifiers.
 *
 * Offsets in this file count from the varlena's start with a four-byte header, as PostgreSQL's
 * structures do.
 */
#include "batch_check.h"

#define HEADER				4u
#define MAX_DEPTH			10000	/* of nested jsonb; PostgreSQL's own limit is the stack */
#define MAX_DIMENSIONS		6
#define MAX_ARRAY_ITEMS		0x07ffffff
#define MAX_ZONE			(16 * 3600) /* seconds */

typedef struct Bytes
{
	const uint8_t *payload;
	uint32_t	length;			/* including the four-byte header: offsets are below it */
} Bytes;

/* The bytes may change during the check: only the values that these return, once, are checked. */
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

static bool
is_text(const RfImage *image, const uint8_t *bytes, uint64_t length)
{
	return rf_image_is_ascii(bytes, length) ||
		(image->is_text != NULL ? image->is_text(bytes, length) : memchr(bytes, 0, length) == NULL);
}

/* A value of the element type that is not a varlena. */
static bool
pass_fixed(const RfImage *image, const Bytes *bytes, uint64_t *offset, uint64_t end)
{
	uint64_t	at = align_up(*offset, image->element_align);

	*offset = at + image->element_length;
	return *offset <= end &&
		(image->element == NULL ||
		 rf_image_check(image->element, bytes->payload + at - HEADER, image->element_length));
}

/* A varlena at `at` with a four-byte header; its size, or 0. */
static uint32_t
plain_varlena(const Bytes *bytes, uint64_t at, uint64_t end)
{
	uint32_t	header;
	uint32_t	size;

	if (at > end || end - at < HEADER || at % 4 != 0)
		return 0;
	header = get32(bytes, at);
	size = header >> 2;
	return (header & 3) == 0 && size >= HEADER && size <= end - at ? size : 0;
}

/*
 * An array's value at *offset, which is moved behind it and its padding. Arrays hold varlenas with
 * four-byte headers only.
 */
static bool
pass_item(const RfImage *image, const Bytes *bytes, uint64_t *offset)
{
	uint64_t	at = *offset;
	uint32_t	size;

	if (image->element_length > 0)
	{
		if (!pass_fixed(image, bytes, offset, bytes->length))
			return false;
	}
	else
	{
		size = plain_varlena(bytes, at, bytes->length);
		if (size == 0)
			return false;
		*offset = at + size;
		if (image->element != NULL &&
			!rf_image_check(image->element, bytes->payload + at, size - HEADER))
			return false;
	}
	*offset = align_up(*offset, image->element_align);
	return true;
}

static bool
takes_any_bytes(const RfImage *image)
{
	return image == NULL || image->kind == RF_IMAGE_INT4 || image->kind == RF_IMAGE_INT8;
}

/*
 * An array: header, dimensions, null bitmap and items have to fit the bytes exactly, and each item
 * is checked as an image of the element type.
 */
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
		return data_offset == 0 && bytes->length == 16;
	for (uint32_t i = 0; i < dimensions; i++)
	{
		uint32_t	size = get32(bytes, 16 + 4 * i);
		int32_t		lower = (int32_t) get32(bytes, 16 + 4 * (dimensions + i));

		/* An array without items has no dimensions, except for the vector types. */
		if (size > MAX_ARRAY_ITEMS || (size == 0 && image->kind != RF_IMAGE_VECTOR) ||
			(int64_t) lower + size > INT32_MAX || (lower != 0 && image->kind == RF_IMAGE_VECTOR))
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
	if ((data_offset != 0 && data_offset != offset) || offset > bytes->length)
		return false;

	/*
	 * Nothing may follow the last one: functions that concatenate arrays would take it for an
	 * item.
	 */
	if (nulls == 0 && image->element_length > 0 && takes_any_bytes(image->element))
		return offset + items * align_up(image->element_length, image->element_align) ==
			bytes->length;
	for (uint64_t i = 0; i < items; i++)
	{
		/* Here a set bit is a value. */
		if (nulls != 0 && ((get8(bytes, nulls + i / 8) >> (i % 8)) & 1) == 0)
			continue;
		if (!pass_item(image, bytes, &offset))
			return false;
	}
	return offset == bytes->length;
}

/* ---------- ranges ---------- */

#define RANGE_EMPTY			0x01
#define RANGE_LOWER_INC		0x02
#define RANGE_UPPER_INC		0x04
#define RANGE_LOWER_INF		0x08
#define RANGE_UPPER_INF		0x10

/* A bound: the offset after a varlena's header. */
typedef struct Bound
{
	const uint8_t *at;
	uint32_t	length;
	bool		inclusive;
	bool		infinite;
} Bound;

/* Integers and dates have a next value; their ranges have one canonical form: [lower, upper). */
static bool
is_discrete(const RfImage *image, const Bound *bound)
{
	switch (image->element->kind)
	{
		case RF_IMAGE_INT4:
		case RF_IMAGE_INT8:
			return true;
		case RF_IMAGE_DATE:
			{
				uint32_t	date = rf_load32(bound->at);

				return date != (uint32_t) INT32_MIN && date != INT32_MAX;
			}
		default:
			return false;
	}
}

/* A numeric's parts. The digits are contiguous, the first has weight `weight`. */
typedef struct Number
{
	int			rank;			/* NaN above infinities above numbers: 2, 1, 0, -1 */
	bool		negative;
	int32_t		weight;
	uint32_t	count;
	const uint8_t *digits;
} Number;

/*
 * Reads the header of a checked numeric. Its bytes may have changed since the check, so lengths are
 * limited by the bound again.
 */
static Number
read_number(const Bound *bound)
{
	uint32_t	header = rf_load16(bound->at);
	Number		number = {0};

	switch (header)
	{
		case 0xc000:
			number.rank = 2;
			return number;
		case 0xd000:
			number.rank = 1;
			return number;
		case 0xf000:
			number.rank = -1;
			return number;
	}
	if ((header & 0xc000) == 0x8000)
	{
		number.negative = (header & 0x2000) != 0;
		number.weight = (int32_t) (header & 0x3f) - ((header & 0x40) != 0 ? 64 : 0);
		number.digits = bound->at + 2;
		number.count = (bound->length - 2) / 2;
	}
	else if (bound->length >= 4)	/* unless it changed after the check */
	{
		number.negative = (header & 0x4000) != 0;
		number.weight = (int16_t) rf_load16(bound->at + 2);
		number.digits = bound->at + 4;
		number.count = (bound->length - 4) / 2;
	}
	return number;
}

/* For digits without leading and trailing zeros. */
static int
compare_digits(const Number *a, const Number *b)
{
	uint32_t	both = a->count < b->count ? a->count : b->count;

	if (a->weight != b->weight)
		return a->weight < b->weight ? -1 : 1;
	for (uint32_t i = 0; i < both; i++)
	{
		uint32_t	x = rf_load16(a->digits + 2 * i);
		uint32_t	y = rf_load16(b->digits + 2 * i);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return a->count == b->count ? 0 : a->count < b->count ? -1 : 1;
}

static int
compare_numerics(const Bound *one, const Bound *other)
{
	Number		a = read_number(one);
	Number		b = read_number(other);
	int			sign_a = a.count == 0 ? 0 : a.negative ? -1 : 1;
	int			sign_b = b.count == 0 ? 0 : b.negative ? -1 : 1;

	if (a.rank != b.rank)
		return a.rank < b.rank ? -1 : 1;
	if (sign_a != sign_b || sign_a == 0)
		return sign_a - sign_b;
	return sign_a * compare_digits(&a, &b);
}

/* Values of two bounds that are not infinite. */
static int
compare_values(const RfImage *image, const Bound *a, const Bound *b)
{
	int64_t		x;
	int64_t		y;

	switch (image->element->kind)
	{
		case RF_IMAGE_NUMERIC:
			return compare_numerics(a, b);
		case RF_IMAGE_INT4:
		case RF_IMAGE_DATE:
			x = (int32_t) rf_load32(a->at);
			y = (int32_t) rf_load32(b->at);
			break;
		default:
			x = rf_load64(a->at);
			y = rf_load64(b->at);
			break;
	}
	return x == y ? 0 : x < y ? -1 : 1;
}

/*
 * A bound's value at *offset, which is advanced past it. Varlenas are aligned unless they have a
 * one-byte header, as a byte that is not zero shows. `first`: nothing is skipped in front.
 */
static bool
pass_bound(const RfImage *image, const Bytes *bytes, uint64_t *offset, uint64_t end, bool first,
		   Bound *bound)
{
	uint64_t	at = *offset;
	uint32_t	header_size = HEADER;
	uint32_t	size;

	if (image->element_length > 0)
	{
		if (!pass_fixed(image, bytes, offset, end))
			return false;
		bound->at = bytes->payload + *offset - image->element_length - HEADER;
		bound->length = image->element_length;
		return true;
	}
	if (at >= end)
		return false;
	if (!first && get8(bytes, at) == 0)
		at = align_up(at, image->element_align);
	if (at >= end)
		return false;
	size = get8(bytes, at);
	if (size & 1)
	{
		header_size = 1;
		size >>= 1;
		if (size < header_size || size > end - at)
			return false;
	}
	else if ((size = plain_varlena(bytes, at, end)) == 0)
		return false;
	*offset = at + size;
	bound->at = bytes->payload + at - HEADER + header_size;
	bound->length = size - header_size;
	return rf_image_check(image->element, bound->at, bound->length);
}

/*
 * One range that is not empty, according to its flags, at *offset, which is advanced past it. Its
 * bounds must be in order, and in canonical form.
 */
static bool
pass_range(const RfImage *image, const Bytes *bytes, uint64_t *offset, uint64_t end, uint8_t flags,
		   Bound *lower, Bound *upper)
{
	int			order;

	if (image->element == NULL ||
		(flags & ~(RANGE_LOWER_INC | RANGE_UPPER_INC | RANGE_LOWER_INF | RANGE_UPPER_INF)) != 0)
		return false;
	lower->inclusive = (flags & RANGE_LOWER_INC) != 0;
	lower->infinite = (flags & RANGE_LOWER_INF) != 0;
	upper->inclusive = (flags & RANGE_UPPER_INC) != 0;
	upper->infinite = (flags & RANGE_UPPER_INF) != 0;
	if ((lower->infinite && lower->inclusive) || (upper->infinite && upper->inclusive))
		return false;
	if (!lower->infinite && !pass_bound(image, bytes, offset, end, true, lower))
		return false;
	if (!upper->infinite && !pass_bound(image, bytes, offset, end, lower->infinite, upper))
		return false;
	if ((!lower->infinite && !lower->inclusive && is_discrete(image, lower)) ||
		(!upper->infinite && upper->inclusive && is_discrete(image, upper)))
		return false;
	if (lower->infinite || upper->infinite)
		return true;
	order = compare_values(image, lower, upper);
	return order < 0 || (order == 0 && lower->inclusive && upper->inclusive);
}

static bool
is_range(const RfImage *image, const Bytes *bytes)
{
	uint64_t	offset = 8;
	uint64_t	end = (uint64_t) bytes->length - 1;
	uint8_t		flags;
	Bound		lower;
	Bound		upper;

	if (bytes->length < 9 || get32(bytes, 4) != image->type)
		return false;
	flags = get8(bytes, end);
	if (flags == RANGE_EMPTY)
		return offset == end;
	return pass_range(image, bytes, &offset, end, flags, &lower, &upper) && offset == end;
}

/*
 * A multirange: flags and offsets have to fit, each range is checked, and ranges have to be ordered
 * with a gap between them, as the type's own functions make them.
 */
static bool
is_multirange(const RfImage *image, const Bytes *bytes)
{
	Bound		before = {0};
	uint64_t	flags;
	uint64_t	start;
	uint64_t	offset;
	uint32_t	count;

	if (image->element == NULL || bytes->length < 12 || get32(bytes, 4) != image->type)
		return false;
	count = get32(bytes, 8);
	if (count > bytes->length)
		return false;
	flags = 12 + 4 * ((uint64_t) count - (count > 0));
	start = align_up(flags + count, image->element_align);
	if (start > bytes->length)
		return false;
	offset = start;
	for (uint32_t i = 0; i < count; i++)
	{
		uint64_t	own = offset;
		Bound		lower;
		Bound		upper;

		if (!pass_range(image, bytes, &offset, bytes->length, get8(bytes, flags + i), &lower,
						&upper))
			return false;

		/* There must be a gap between two of them. */
		if (i > 0)
		{
			int			order;

			if (before.infinite || lower.infinite)
				return false;
			order = compare_values(image, &before, &lower);
			if (order > 0 || (order == 0 && (before.inclusive || lower.inclusive)))
				return false;
		}
		before = upper;
		offset = align_up(offset, image->element_align);

		/* The next one's offset: the length of this one or, at some items, of all so far. */
		if (i + 1 < count)
		{
			uint32_t	item = get32(bytes, 12 + 4 * (uint64_t) i);
			uint64_t	next = (item & 0x80000000) ? start + (item & 0x7fffffff) : own + item;

			if (next != offset)
				return false;
		}
	}
	return offset == bytes->length;
}

/* ---------- jsonb ---------- */

#define JSONB_COUNT			0x0fffffff
#define JSONB_SCALAR		0x10000000
#define JSONB_OBJECT		0x20000000
#define JSONB_LIST			0x40000000

static bool is_container(const RfImage *image, const Bytes *bytes, uint64_t offset, uint64_t end,
						 int depth);

/* An entry's value that is not a container, in bytes [at, end). */
static bool
is_scalar(const RfImage *image, const Bytes *bytes, uint32_t type, uint64_t at, uint64_t end)
{
	uint32_t	size;

	switch (type)
	{
		case 0x00000000:		/* string */
			return is_text(image, bytes->payload + at - HEADER, end - at);
		case 0x10000000:		/* numeric, a varlena of its own; no NaN, no infinity */
			at = align_up(at, 4);
			size = plain_varlena(bytes, at, end);
			return size == end - at && size > HEADER &&
				rf_image_is_numeric(bytes->payload + at, size - HEADER) &&
				(rf_load8(bytes->payload + at + 1) & 0xc0) != 0xc0;
		case 0x20000000:		/* false, true, null */
		case 0x30000000:
		case 0x40000000:
			return at == end;
		default:
			return false;
	}
}

/* Keys of an object, in its storage order: by length, then by bytes. */
static bool
in_order(const Bytes *bytes, uint64_t at, uint64_t length, uint64_t next, uint64_t next_length)
{
	if (length != next_length)
		return length < next_length;
	return memcmp(bytes->payload + at - HEADER, bytes->payload + next - HEADER, length) < 0;
}

/*
 * A container from `offset` to `end`: a header, an entry for each value with its type and its
 * length or end, and the contiguous values, an object's keys first.
 */
static bool
is_container(const RfImage *image, const Bytes *bytes, uint64_t offset, uint64_t end, int depth)
{
	uint32_t	header;
	uint64_t	keys = 0;
	uint64_t	count;
	uint64_t	data;
	uint64_t	at;
	uint64_t	last_key = 0;
	uint64_t	last_length = 0;

	if (depth > MAX_DEPTH || offset % 4 != 0 || offset > end || end - offset < 4)
		return false;
	header = get32(bytes, offset);
	count = header & JSONB_COUNT;
	switch (header & ~JSONB_COUNT)
	{
		case JSONB_OBJECT:
			keys = count;
			count *= 2;
			break;
		case JSONB_LIST:
			break;
		case JSONB_LIST | JSONB_SCALAR:
			if (count != 1 || depth > 0)
				return false;
			break;
		default:
			return false;
	}
	data = at = offset + 4 + 4 * count;
	if (data > end)
		return false;
	for (uint64_t i = 0; i < count; i++)
	{
		uint32_t	entry = get32(bytes, offset + 4 + 4 * i);
		uint32_t	type = entry & 0x70000000;
		uint64_t	stop = (entry & JSONB_COUNT) + ((entry & 0x80000000) ? data : at);

		if (stop < at || stop > end)
			return false;
		if (i < keys)
		{
			if (type != 0 || (i > 0 && !in_order(bytes, last_key, last_length, at, stop - at)))
				return false;
			last_key = at;
			last_length = stop - at;
		}
		if (type == 0x50000000)
		{
			if ((header & JSONB_SCALAR) ||
				!is_container(image, bytes, align_up(at, 4), stop, depth + 1))
				return false;
		}
		else if (!is_scalar(image, bytes, type, at, stop))
			return false;
		at = stop;
	}
	return at == end;
}

/* ---------- other types ---------- */

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

/* Bits, and zeros that fill the last byte up. */
static bool
is_bits(const Bytes *bytes)
{
	uint32_t	bits;

	if (bytes->length < 8)
		return false;
	bits = get32(bytes, 4);
	return bits <= INT32_MAX - 7 && 8 + ((uint64_t) bits + 7) / 8 == bytes->length &&
		(bits % 8 == 0 || (get8(bytes, bytes->length - 1) & (0xff >> bits % 8)) == 0);
}

/* Family, bits of the mask, address; a network's address has no bits beyond its mask. */
static bool
is_inet(const Bytes *bytes, bool network)
{
	uint32_t	address = bytes->length - HEADER - 2;
	uint32_t	mask;

	if (bytes->length < HEADER + 2)
		return false;
	mask = get8(bytes, HEADER + 1);
	switch (get8(bytes, HEADER))
	{
		case 2:
			if (address != 4)
				return false;
			break;
		case 3:
			if (address != 16)
				return false;
			break;
		default:
			return false;
	}
	if (mask > 8 * address)
		return false;
	for (uint32_t i = mask / 8; network && i < address; i++)
		if ((get8(bytes, HEADER + 2 + i) & (i == mask / 8 ? 0xff >> mask % 8 : 0xff)) != 0)
			return false;
	return true;
}

/* Points after `fixed` bytes; the first word has their number. */
static bool
is_points(const Bytes *bytes, uint32_t fixed, uint32_t item)
{
	if (bytes->length < fixed)
		return false;
	return fixed + (uint64_t) get32(bytes, 4) * item == bytes->length;
}

/* Time of day, and seconds west of Greenwich. */
static bool
is_timetz(const uint8_t *payload)
{
	int32_t		zone = (int32_t) rf_load32(payload + 8);

	return rf_image_is_time(rf_load64(payload)) && zone > -MAX_ZONE && zone < MAX_ZONE;
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
		case RF_IMAGE_TEXT:
			return is_text(image, payload, length);
		case RF_IMAGE_JSON:
			return image->is_text != NULL && image->is_text(payload, length);
		case RF_IMAGE_NUMERIC:
			return rf_image_is_numeric(payload, length);
		case RF_IMAGE_INET:
			return is_inet(&bytes, false);
		case RF_IMAGE_CIDR:
			return is_inet(&bytes, true);
		case RF_IMAGE_BITS:
			return is_bits(&bytes);
		case RF_IMAGE_PATH:
			return is_points(&bytes, 16, 16) && get32(&bytes, 4) > 0 && get32(&bytes, 8) <= 1;
		case RF_IMAGE_POLYGON:
			return is_points(&bytes, 40, 16) && get32(&bytes, 4) > 0;
		case RF_IMAGE_SNAPSHOT:
			return is_points(&bytes, 24, 8);
		case RF_IMAGE_TSVECTOR:
			return is_tsvector(&bytes);
		case RF_IMAGE_JSONB:
			return is_container(image, &bytes, 4, bytes.length, 0);
		case RF_IMAGE_ARRAY:
		case RF_IMAGE_VECTOR:
			return is_array(image, &bytes);
		case RF_IMAGE_RANGE:
			return is_range(image, &bytes);
		case RF_IMAGE_MULTIRANGE:
			return is_multirange(image, &bytes);
		case RF_IMAGE_NAME:
			return length == 64 && rf_image_is_name(payload) &&
				is_text(image, payload, strnlen((const char *) payload, 63));
		case RF_IMAGE_BOOL:
			return length == 1 && rf_load8(payload) <= 1;
		case RF_IMAGE_INT4:
			return length == 4;
		case RF_IMAGE_INT8:
			return length == 8;
		case RF_IMAGE_DATE:
			return length == 4 && rf_image_is_date((int32_t) rf_load32(payload));
		case RF_IMAGE_TIME:
			return length == 8 && rf_image_is_time(rf_load64(payload));
		case RF_IMAGE_TIMETZ:
			return length == 12 && is_timetz(payload);
		case RF_IMAGE_TIMESTAMP:
			return length == 8 && rf_image_is_timestamp(rf_load64(payload));
		default:
			return rf_state_check(image->kind, payload, length);
	}
	return false;
}
