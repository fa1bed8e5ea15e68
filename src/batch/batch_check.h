/*
 * batch_check.h - checks of column batches that came over a wire (wire.h, section 3). Plain C: the
 * decoder, the fuzzer and tools use it.
 *
 * Does: check that a batch's header, descriptors, extents and variable-length values lie within the
 * batch (check_columns.c), and that the type of a value could have made the value's image
 * (image.c), because PostgreSQL's own code trusts images. Does not: know SQL types by name; the
 * decoder describes them.
 */
#ifndef RF_BATCH_CHECK_H
#define RF_BATCH_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "rdma_fdw/wire.h"

/*
 * A batch may lie in memory that its sender can still write (a receive buffer: a peer's engine on
 * the same host maps it, a device writes it). Each word that determines a later address is
 * therefore loaded once, checked, and used as loaded. These loads are done exactly once: the
 * compiler cannot go back to memory for a value that it believes was changed in a register.
 */
static inline uint8_t
rf_load8(const uint8_t *from)
{
	uint8_t		value = *from;

	__asm__ volatile ("":"+r" (value));

	return value;
}

/*
 * The same for a structure: after this the compiler assumes nothing about the copy but its address.
 */
static inline void
rf_copy_once(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
	__asm__ volatile (""::"r" (to):"memory");
}

/* Needs no alignment. */
static inline uint32_t
rf_load32(const uint8_t *from)
{
	uint32_t	value;

	memcpy(&value, from, sizeof(value));
	__asm__ volatile ("":"+r" (value));

	return value;
}

static inline int64_t
rf_load64(const uint8_t *from)
{
	int64_t		value;

	memcpy(&value, from, sizeof(value));
	__asm__ volatile ("":"+r" (value));

	return value;
}

/*
 * Copies a batch's header and column descriptors once, and checks the copies. Returns NULL if the
 * bitmaps and vectors that they describe lie within `length` bytes at `batch` (8-aligned),
 * otherwise the error's text, with the column's index (or UINT32_MAX) in *column. `columns` has
 * room for column_count descriptors; another number of columns is an error. Values behind offsets
 * are not checked.
 */
extern const char *rf_batch_open(const void *batch, uint32_t length, uint32_t column_count,
								 RfBatchHeader *header, RfBatchColumn *columns, uint32_t *column);

static inline bool
rf_batch_is_null(const uint8_t *nulls, uint32_t row)
{
	return (rf_load8(&nulls[row >> 3]) >> (row & 7)) & 1;
}

/*
 * Size of the varlena at `offset`, its header of *header bytes (1 or 4) included; 0 when it does
 * not lie within the batch, is not aligned, or is of a kind that never travels (compressed,
 * external, expanded). Little-endian headers: bit 0 set = one-byte header, 0x01 alone = a toast
 * pointer; low bits 00 = four-byte header, 10 = compressed.
 */
static inline uint32_t
rf_batch_varlena(const uint8_t *batch, uint32_t length, uint32_t offset, uint32_t *header)
{
	uint32_t	word;
	uint32_t	size;

	if (offset >= length)
		return 0;
	word = rf_load8(batch + offset);
	if (word & 1)
	{
		*header = 1;
		size = word >> 1;
		return size != 0 && size <= length - offset ? size : 0;
	}
	if ((offset & 7) != 0 || length - offset < 4)
		return 0;
	*header = 4;
	word = rf_load32(batch + offset);
	size = word >> 2;
	return (word & 3) == 0 && size >= 4 && size <= length - offset ? size : 0;
}

/*
 * Bytes of the value of a BINARY or TEXT column at `offset`, with its length in *size; NULL when it
 * does not lie within the batch. The NUL behind a text was there at the check only: copy the value
 * before calling code that searches for it.
 */
static inline const uint8_t *
rf_batch_blob(const uint8_t *batch, uint32_t length, uint32_t offset, bool text, uint32_t *size)
{
	uint32_t	have;
	uint32_t	want;

	if ((offset & 3) != 0 || offset >= length || length - offset < 4)
		return NULL;
	have = length - offset - 4;
	want = rf_load32(batch + offset);
	if (want > have || (text && (want == have || rf_load8(batch + offset + 4 + want) != 0)))
		return NULL;
	*size = want;
	return batch + offset + 4;
}

/* ---------- batches of heap tuples ---------- */

static inline uint16_t
rf_load16(const uint8_t *from)
{
	uint16_t	value;

	memcpy(&value, from, sizeof(value));
	__asm__ volatile ("":"+r" (value));

	return value;
}

/* An open batch and the position in it. Its fields keep the values that were loaded and checked. */
typedef struct RfTupleReader
{
	const uint8_t *batch;
	uint32_t	length;			/* of the batch */
	uint32_t	next_run;		/* offset of the run behind this one */
	uint32_t	runs_left;
	const uint8_t *items;		/* of this run, not read yet */
	uint32_t	items_left;
	const uint8_t *data;		/* of this run */
	uint32_t	data_length;
	uint32_t	base;			/* the page's byte that data begins with */
} RfTupleReader;

/* One tuple: where its attributes are. */
typedef struct RfTuple
{
	const uint8_t *bytes;		/* from the 16th on */
	uint32_t	length;
	uint32_t	data;			/* offset of the first attribute */
	uint32_t	natts;
	const uint8_t *bits;		/* set = not NULL; NULL if all are not NULL */
} RfTuple;

/*
 * rf_tuples_attr_count: the number of attributes that this batch describes; 0: not a batch of
 * tuples. rf_tuples_open: copies header and description once, and checks the copies, for that many
 * attributes. NULL, or the error's text.
 */
extern uint32_t rf_tuples_attr_count(const void *batch, uint32_t length);
extern const char *rf_tuples_open(const void *batch, uint32_t length, uint32_t column_count,
								  uint32_t attr_count, RfBatchHeader *header, RfTupleAttr *attrs,
								  RfTupleReader *reader);

/* Goes to the next run; returns false at the end, or if the run does not lie within the batch. */
extern bool rf_tuples_next_run(RfTupleReader *reader);

/*
 * The next tuple, whose header and null bitmap lie within it; false: no more tuples, or a bad one.
 */
static inline bool
rf_tuples_next(RfTupleReader *reader, RfTuple *tuple)
{
	uint32_t	item;
	uint32_t	offset;
	uint32_t	flags;
	uint32_t	hoff;

	do
	{
		while (reader->items_left == 0)
			if (!rf_tuples_next_run(reader))
				return false;
		item = rf_load32(reader->items);
		reader->items += sizeof(uint32_t);
		reader->items_left--;
	} while (RF_ITEM_STATE(item) != RF_ITEM_NORMAL);
	if (RF_ITEM_LENGTH(item) < RF_TUPLE_SKIPPED + 8 ||
		RF_ITEM_OFFSET(item) + RF_TUPLE_SKIPPED < reader->base)
		return false;
	offset = RF_ITEM_OFFSET(item) + RF_TUPLE_SKIPPED - reader->base;
	tuple->length = RF_ITEM_LENGTH(item) - RF_TUPLE_SKIPPED;
	if ((offset & 7) != 0 || offset + tuple->length > reader->data_length)
		return false;
	tuple->bytes = reader->data + offset;
	tuple->natts = rf_load16(tuple->bytes + 2) & 0x07ff;
	flags = rf_load16(tuple->bytes + 4);
	hoff = rf_load8(tuple->bytes + 6);
	if ((hoff & 7) != 0 || hoff < RF_TUPLE_SKIPPED + 8 || hoff - RF_TUPLE_SKIPPED > tuple->length)
		return false;
	tuple->data = hoff - RF_TUPLE_SKIPPED;
	tuple->bits = NULL;
	if (flags & 0x0001)
	{
		if (7 + (tuple->natts + 7) / 8 > tuple->data)
			return false;
		tuple->bits = tuple->bytes + 7;
	}
	return true;
}

/*
 * The header of an attribute. An attribute of fixed length has no header. A toast pointer refers to
 * a value stored elsewhere.
 */
#define RF_HEADER_NONE		0
#define RF_HEADER_SHORT		1
#define RF_HEADER_PLAIN		4
#define RF_HEADER_COMPRESSED 8
#define RF_HEADER_POINTER	18

/*
 * The offset of attribute `attr`, the next one at or after *offset; UINT32_MAX if it is not within
 * the tuple. Sets *size to its size in bytes, and *offset to its end.
 */
static inline uint32_t
rf_tuple_attribute(const RfTuple *tuple, const RfTupleAttr *attr, uint32_t *offset, uint32_t *size,
				   uint32_t *header)
{
	uint32_t	mask = attr->align - 1;
	uint32_t	at = *offset;
	uint32_t	word;

	if (attr->length >= 0)
	{
		at = (at + mask) & ~mask;
		*header = RF_HEADER_NONE;
		*size = attr->length;
		*offset = at + attr->length;
		return *offset <= tuple->length ? at : UINT32_MAX;
	}

	/* A byte other than padding begins a short value, which is not aligned. */
	if (at >= tuple->length)
		return UINT32_MAX;
	word = rf_load8(tuple->bytes + at);
	if (word == 0)
	{
		at = (at + mask) & ~mask;
		if (at >= tuple->length)
			return UINT32_MAX;
		word = rf_load8(tuple->bytes + at);
	}
	if (word == 0x01)
	{
		*header = RF_HEADER_POINTER;
		*size = 18;				/* of the only kind that is stored */
	}
	else if (word & 1)
	{
		*header = RF_HEADER_SHORT;
		*size = word >> 1;
	}
	else
	{
		if ((at & mask) != 0 || tuple->length - at < 4)
			return UINT32_MAX;
		word = rf_load32(tuple->bytes + at);
		*header = (word & 3) == 0 ? RF_HEADER_PLAIN : RF_HEADER_COMPRESSED;
		*size = word >> 2;
		if ((word & 1) || *size < *header)
			return UINT32_MAX;
	}
	if (*size > tuple->length - at)
		return UINT32_MAX;
	*offset = at + *size;
	return at;
}

/* ---------- insides of values ---------- */

typedef enum RfImageKind
{
	RF_IMAGE_BYTES,				/* any bytes are valid */
	RF_IMAGE_NUMERIC,
	RF_IMAGE_INET,
	RF_IMAGE_BITS,
	RF_IMAGE_PATH,
	RF_IMAGE_POLYGON,
	RF_IMAGE_SNAPSHOT,
	RF_IMAGE_TSVECTOR,
	RF_IMAGE_JSONB,
	RF_IMAGE_ARRAY,
	RF_IMAGE_VECTOR,			/* int2vector, oidvector: one dimension, no NULL */
	RF_IMAGE_RANGE,
	RF_IMAGE_MULTIRANGE,
	/* results of serial functions, aggregates' states in a bytea (state.c): */
	RF_IMAGE_NUMERIC_SUM,
	RF_IMAGE_NUMERIC_SQUARES,	/* sum and sum of squares */
	RF_IMAGE_INTEGER_SUM,
	RF_IMAGE_INTEGER_SQUARES,
	RF_IMAGE_WIDE_SUM,			/* integers, as PostgreSQL 19 adds them up in 128 bits */
	RF_IMAGE_WIDE_SQUARES,
	RF_IMAGE_INTERVAL_SUM,
	RF_IMAGE_CIDR,
	RF_IMAGE_TEXT,				/* characters in the database's encoding */
	RF_IMAGE_JSON,				/* characters that is_text accepts, even if all are ASCII */
	/* of fixed length: */
	RF_IMAGE_NAME,
	RF_IMAGE_BOOL,
	RF_IMAGE_INT4,				/* any 4 bytes, in this order; */
	RF_IMAGE_INT8,				/* any 8 */
	RF_IMAGE_DATE,
	RF_IMAGE_TIME,
	RF_IMAGE_TIMETZ,
	RF_IMAGE_TIMESTAMP,			/* with time zone or without */
	RF_IMAGE_LAST = RF_IMAGE_TIMESTAMP
} RfImageKind;

/*
 * The required form of a value's image. Element: of arrays and vectors, or the subtype of ranges
 * and multiranges.
 */
typedef struct RfImage
{
	RfImageKind kind;
	uint32_t	type;			/* OID that the image must name: element type, range or multirange
								 * type */
	int16_t		element_length; /* -1: varlena */
	uint8_t		element_align;
	const struct RfImage *element;	/* NULL: any bytes are valid. Ranges have one */

	/*
	 * Checks that these bytes are characters of the database's encoding. NULL: accept all but NUL.
	 */
	bool		(*is_text) (const uint8_t *bytes, uint32_t length);
} RfImage;

/*
 * Checks that this is the image of a value. `payload` follows a varlena's header of either size;
 * structures are aligned as if it had four bytes. Values of fixed length have no header. Reads
 * nothing outside `length` bytes, even if they change meanwhile.
 */
extern bool rf_image_check(const RfImage *image, const uint8_t *payload, uint32_t length);

/* The part of the check for states of aggregates. */
extern bool rf_state_check(RfImageKind kind, const uint8_t *payload, uint32_t length);

/*
 * Returns true if it has no inner structure. Then any bytes are safe: no function of its type reads
 * beyond them.
 */
static inline bool
rf_image_is_plain(RfImageKind kind)
{
	return kind == RF_IMAGE_TEXT || kind == RF_IMAGE_JSON || kind == RF_IMAGE_BOOL ||
		kind == RF_IMAGE_DATE || kind == RF_IMAGE_TIME || kind == RF_IMAGE_TIMESTAMP;
}

/* The common parts, inlined for values that occur in rows by the million. */

/*
 * Header forms by the two top bits of the first word: 10 = short (sign, scale and weight in it), 11
 * = NaN or an infinity, otherwise a long one, with its weight in the second word. Then digits to
 * base 10000, without zeros at either end, as many as numeric_recv takes at most, and no digit that
 * the scale (of decimal digits) would hide. Zero has no digits, weight or sign.
 */
static inline bool
rf_image_is_numeric(const uint8_t *payload, uint32_t length)
{
	const uint8_t *digits;
	uint32_t	start = 2;
	uint32_t	count;
	uint32_t	wrong;
	uint32_t	sign;
	int32_t		scale;
	int32_t		weight;
	int32_t		fraction;
	uint16_t	word;

	/* These bytes determine no later address: they may be loaded in any way. */
	if (length < 2 || (length & 1) != 0 || length > 4 + 2 * 65535)
		return false;
	memcpy(&word, payload, 2);
	if ((word & 0xc000) == 0x8000)
	{
		sign = word & 0x2000;
		scale = (word >> 7) & 0x3f;
		weight = (int32_t) (word & 0x3f) - (int32_t) (word & 0x40);
	}
	else if ((word & 0xc000) == 0xc000)
		return (word == 0xc000 || word == 0xd000 || word == 0xf000) &&
			(length == 2 || (length == 4 && rf_load16(payload + 2) == 0));
	else
	{
		if (length < 4)
			return false;
		start = 4;
		sign = word & 0x4000;
		scale = word & 0x3fff;
		weight = (int16_t) rf_load16(payload + 2);
	}
	if (length == start)
		return sign == 0 && weight == 0;
	count = (length - start) / 2;
	digits = payload + start;

	/* Subtractions below zero set the top bit. Three digits or fewer need no loop. */
	memcpy(&word, digits, 2);
	wrong = (word - 1u) | (9999u - word);
	memcpy(&word, digits + count / 2 * 2, 2);
	wrong |= 9999u - word;
	for (uint32_t i = 1; count > 3 && i + 1 < count; i++)
	{
		memcpy(&word, digits + 2 * i, 2);
		wrong |= 9999u - word;
	}
	memcpy(&word, digits + 2 * (count - 1), 2);
	wrong |= (word - 1u) | (9999u - word);
	if (wrong & 0x80000000)
		return false;
	fraction = (int32_t) count - weight - 1;
	if (4 * fraction <= scale)
		return true;
	if (4 * fraction >= scale + 4)
		return false;
	switch (scale & 3)
	{
		case 1:
			return word % 1000 == 0;
		case 2:
			return word % 100 == 0;
		default:
			return word % 10 == 0;
	}
}

/*
 * Finds bytes of a word that are not ASCII, or are NUL. Sets their top bits, and maybe the top bits
 * of bytes after a NUL.
 */
static inline uint64_t
rf_odd_bytes(const uint8_t *at)
{
	uint64_t	word;

	/* A NUL borrows from its top bit. */
	memcpy(&word, at, 8);
	return word | (word - UINT64_C(0x0101010101010101));
}

/*
 * Returns true if there are only ASCII characters, and no NUL. Such bytes are text in every server
 * encoding. Most texts are short: checking some bytes twice is faster than one by one.
 */
static inline bool
rf_image_is_ascii(const uint8_t *bytes, uint32_t length)
{
	uint64_t	odd = 0;

	if (length < 8)
	{
		uint64_t	word = UINT64_C(0x0101010101010101);
		uint32_t	low;
		uint32_t	high;

		if (length >= 4)
		{
			memcpy(&low, bytes, 4);
			memcpy(&high, bytes + length - 4, 4);
			word = (uint64_t) high << 32 | low;
		}
		else if (length > 0)
			word = word << 24 | (uint32_t) bytes[0] << 16 | (uint32_t) bytes[length / 2] << 8 |
				bytes[length - 1];
		odd = rf_odd_bytes((const uint8_t *) &word);
	}
	else
	{
		const uint8_t *last = bytes + length - 8;

		if (length > 16)
		{
			for (; length > 32; bytes += 16, length -= 16)
				odd |= rf_odd_bytes(bytes) | rf_odd_bytes(bytes + 8);
			odd |= rf_odd_bytes(bytes + 8) | rf_odd_bytes(last - 8);
		}
		odd |= rf_odd_bytes(bytes) | rf_odd_bytes(last);
	}
	return (odd & UINT64_C(0x8080808080808080)) == 0;
}

/*
 * The limits are the same as in the types' receive functions; the ends of the integers are
 * infinities.
 */
static inline bool
rf_image_is_date(int32_t value)
{
	return (uint32_t) value + 2451545u < 2147483494u || value == INT32_MIN || value == INT32_MAX;
}

static inline bool
rf_image_is_timestamp(int64_t value)
{
	return (uint64_t) value + UINT64_C(211813488000000000) < UINT64_C(9435184819200000000) ||
		value == INT64_MIN || value == INT64_MAX;
}

static inline bool
rf_image_is_time(int64_t value)
{
	return (uint64_t) value <= UINT64_C(86400000000);
}

static inline bool
rf_image_is_name(const uint8_t *value)
{
	return rf_load8(value + 63) == 0;
}

#endif
