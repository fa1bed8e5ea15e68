/*
 * batch_check.h - checks of column batches that came over a wire (wire.h, section 3). Plain C: the
 * decoder, the fuzzer and tools use it.
 *
 * Does: say whether a batch's header, descriptors and extents, and single variable-length values,
 * lie within its bytes (check.c), and whether lengths and offsets inside the images of structured
 * types stay inside them (image.c): PostgreSQL's own code trusts these. Does not: know SQL types by
 * name; the decoder describes them.
 */
#ifndef RF_BATCH_CHECK_H
#define RF_BATCH_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "rdma_fdw/wire.h"

/*
 * A batch may lie in memory that its sender can still write (a receive buffer: a peer's engine on
 * the same host maps it, a device writes it). What decides where we read next is therefore loaded
 * once, checked, and used as it was loaded. These loads are done exactly once: the compiler cannot
 * go back to memory for a value that it believes was changed in a register.
 */
static inline uint8_t
rf_load8(const uint8_t *from)
{
	uint8_t		value = *from;

	__asm__ volatile("" : "+r"(value));
	return value;
}

/* Needs no alignment. */
static inline uint32_t
rf_load32(const uint8_t *from)
{
	uint32_t	value;

	memcpy(&value, from, sizeof(value));
	__asm__ volatile("" : "+r"(value));
	return value;
}

/*
 * Copies a batch's header and column descriptors out, once, and checks the copies: NULL when
 * bitmaps and vectors, as the copies describe them, all lie within `length` bytes at `batch`
 * (8-aligned), otherwise what is wrong, with the column's index (or UINT32_MAX) in *column.
 * `columns` takes column_count descriptors; another number of columns is wrong. Values behind
 * offsets are not looked at.
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
 * does not lie within the batch. The NUL behind a text is only known to have been there: copy the
 * value before calling anything that looks for it.
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

/* ---------- insides of values ---------- */

typedef enum RfImageKind
{
	RF_IMAGE_BYTES,				/* any bytes do */
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
	/* what serial functions make of aggregates' states, in a bytea (state.c): */
	RF_IMAGE_NUMERIC_SUM,
	RF_IMAGE_NUMERIC_SQUARES,	/* sum and sum of squares */
	RF_IMAGE_INTEGER_SUM,
	RF_IMAGE_INTEGER_SQUARES,
	RF_IMAGE_INTERVAL_SUM,
	RF_IMAGE_LAST = RF_IMAGE_INTERVAL_SUM
} RfImageKind;

/*
 * How a value's image has to look. Element: of arrays and vectors, or the subtype of ranges and
 * multiranges.
 */
typedef struct RfImage
{
	RfImageKind kind;
	uint32_t	type;			/* OID that the image must name: element type, range or multirange type */
	int16_t		element_length; /* -1: varlena */
	uint8_t		element_align;
	const struct RfImage *element;	/* NULL: any bytes do */
} RfImage;

/*
 * Do lengths and offsets inside a varlena stay inside it? `payload` lies behind the header,
 * whatever size that has; structures are aligned as if it had four bytes. Reads nothing outside
 * `length` bytes, even if they change meanwhile.
 */
extern bool rf_image_check(const RfImage *image, const uint8_t *payload, uint32_t length);

/* The part of it that is for states of aggregates. */
extern bool rf_state_check(RfImageKind kind, const uint8_t *payload, uint32_t length);

/* The same for numeric, which is common. */
static inline bool
rf_image_is_numeric(const uint8_t *payload, uint32_t length)
{
	/*
	 * Two top bits: 11 = special, 10 = short header; otherwise the long one. Then base-10000
	 * digits.
	 */
	if (length < 2 || (length & 1) != 0)
		return false;
	return (rf_load8(payload + 1) & 0x80) != 0 || length >= 4;
}

#endif
