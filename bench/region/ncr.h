/*
 * ncr.h - non-contiguous regions, described once and not row by row (D-RDMA, section 3), for bench/region
 * and bench/join/pick.c. Plain C.
 *
 * A non-contiguous region (NCR) describes wanted bytes and the gaps between them with one
 * descriptor, however many rows it has: 64 Ki rows of five columns for two destinations are ten
 * descriptors and two bitmaps, where scatter-gather entries would be 327,680. From the same
 * description the wanted bytes are copied out, listed as fragments, or sent as a box.
 *
 * The extension sends heap pages, whose shape it knows (rdma_fdw/region.h), so this is no part of it.
 * Everything may be called by any thread; nothing here is shared.
 */
#ifndef NCR_H
#define NCR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "rdma_fdw/region.h"

/* ---------- descriptions (ncr.c) ---------- */

typedef enum RfNcrKind
{
	RF_NCR_STRIDED = 1,			/* elements of `width` bytes, one every `stride` bytes */
	RF_NCR_POINTERS,			/* records, each at an offset from the base and with a length of
								 * its own */
	RF_NCR_BITMAP				/* a column: elements of `width` bytes without a gap, of which
								 * `rows` selects */
} RfNcrKind;

typedef enum RfPointerFormat
{
	RF_POINTER_32 = 0,			/* RfPointer */
	RF_POINTER_16,				/* two uint16: offset, length */
	RF_POINTER_ITEM				/* uint32, from the low bits: offset 15, state 2 (1 = in use),
								 * length 15: PostgreSQL's ItemIdData */
} RfPointerFormat;

typedef struct RfPointer
{
	uint32_t	offset;
	uint32_t	length;
} RfPointer;

/* Part of every element or record; ascending, and apart from each other. */
typedef struct RfField
{
	uint32_t	offset;
	uint32_t	width;			/* RF_FIELD_REST: to the end of the record; the last field of
								 * pointer-mapped regions only */
} RfField;

#define RF_FIELD_REST		UINT32_MAX

/*
 * The caller owns what is pointed to; all of it stays as it is while the description is used.
 *
 * A row is what one message of a reader's has: of a strided region an element, of a pointer-mapped
 * one a record, of a bitmapped one a selected element; each reduced to `fields` when there are any.
 * `rows` selects among `count` (bit row % 64 of word row / 64; bits behind the last row mean
 * nothing); without it all rows are selected. "One element in every k, beginning with the s-th" is
 * a stride of k elements and a base that is s elements further.
 */
typedef struct RfNcr
{
	uint8_t		kind;			/* RfNcrKind */
	uint8_t		format;			/* RfPointerFormat */
	uint16_t	field_count;	/* 0: all of it */
	uint32_t	count;			/* rows, before `rows` selects */
	uint32_t	width;			/* not of pointer-mapped regions */
	uint32_t	stride;			/* at least `width`; bitmapped: `width` */
	uint32_t	span;			/* pointer-mapped: bytes from the base that records may lie in */
	const uint8_t *base;
	const void *pointers;		/* of `format`; need not be aligned */
	const uint64_t *rows;		/* NULL: all; bitmapped: never NULL */
	const RfField *fields;
} RfNcr;

/*
 * Regions that go to one reader together. COLUMNAR: one region after the other. TRANSPOSED: row by
 * row, of each region its part; they all have the same count and select the same rows.
 */
typedef enum RfNcrOrder
{
	RF_NCR_COLUMNAR = 0,
	RF_NCR_TRANSPOSED
} RfNcrOrder;

typedef struct RfNcrSet
{
	const RfNcr *regions;
	uint32_t	count;
	RfNcrOrder	order;
} RfNcrSet;

#define RF_NCR_STRIDED_INIT(base_, width_, stride_, count_, rows_) \
	((RfNcr) {.kind = RF_NCR_STRIDED, .base = (base_), .width = (width_), .stride = (stride_), \
	 .count = (count_), .rows = (rows_)})
#define RF_NCR_BITMAP_INIT(base_, width_, count_, rows_) \
	((RfNcr) {.kind = RF_NCR_BITMAP, .base = (base_), .width = (width_), .stride = (width_), \
	 .count = (count_), .rows = (rows_)})
#define RF_NCR_POINTERS_INIT(base_, span_, format_, pointers_, count_, rows_) \
	((RfNcr) {.kind = RF_NCR_POINTERS, .base = (base_), .span = (span_), .format = (format_), \
	 .pointers = (pointers_), .count = (count_), .rows = (rows_)})

/* Words of a bitmap of so many rows. */
#define RF_MASK_WORDS(rows)	(((size_t) (rows) + 63) / 64)

/* Selected rows, and their bytes. */
extern uint32_t rf_ncr_rows(const RfNcr *region);
extern uint64_t rf_ncr_set_bytes(const RfNcrSet *set);

/* A run of wanted bytes without a gap. */
typedef struct RfNcrPiece
{
	const uint8_t *at;
	uint64_t	length;
} RfNcrPiece;

/*
 * All fragments in the order of the set, those that touch each other as one; begin, then next until
 * it is false.
 */
typedef struct RfNcrCursor
{
	RfNcrSet	set;
	RfNcrPiece	ahead;			/* read already */
	uint32_t	region;
	uint32_t	row;
	uint32_t	field;
} RfNcrCursor;

extern void rf_ncr_begin(RfNcrCursor *cursor, const RfNcrSet *set);
extern bool rf_ncr_next(RfNcrCursor *cursor, RfNcrPiece *fragment);

/* The next selected row from `row` on; region->count when there is none. */
extern uint32_t rf_ncr_next_row(const RfNcr *region, uint32_t row);

/* ---------- copying out (ncr_copy.c) ---------- */

/*
 * The wanted bytes of the set in its order, one behind the other without padding: what a gathering
 * work request would write, byte for byte. Returns how many there are; nothing is written when they
 * are more than `room`.
 */
extern uint64_t rf_ncr_pack(const RfNcrSet *set, void *to, uint64_t room);

/* ---------- bitmaps of rows (ncr_mask.c) ---------- */

/* Selected rows among the first `count`. */
extern uint32_t rf_mask_count(const uint64_t *mask, uint32_t count);

/*
 * Elements of `width` bytes whose bit is set, one behind the other; returns bytes. Writes nothing
 * behind them and reads nothing behind the column, `count` elements at `from`. 1, 2, 4, 8 and 16
 * bytes go through vector registers where the processor can; neither address need be aligned.
 */
extern size_t rf_mask_gather(void *to, const void *from, uint32_t width, const uint64_t *mask,
							 uint32_t count);

/* "avx2", "ssse3" or "plain": what rf_mask_gather uses here. */
extern const char *rf_mask_vectors(void);

/* For tests and benches: use no more than that; NULL = whatever there is. False: not there. */
extern bool rf_mask_limit(const char *vectors);

/* ---------- for the files of this folder ---------- */


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

/* ---------- checks and gaps (ncr_gap.c) ---------- */


/*
 * NULL, or what is wrong: extents that do not fit each other, a record outside its span, fields
 * outside their element, and bytes that are described twice, by one region or by two. Costs a few
 * operations per region where arithmetic can tell, else up to a sort of all fragments: ask once
 * for a shape, not for every batch.
 */
extern const char *rf_ncr_check(const RfNcrSet *set);

/* ---------- gap analysis (ncr_gap.c) ---------- */

/*
 * A set sorted by address, in any order of the input: the space between two regions is a gap like
 * any other (D-RDMA, section 4.1).
 */
typedef struct RfGaps
{
	const uint8_t *begin;		/* of the box around it all */
	const uint8_t *end;
	uint64_t	useful;			/* wanted bytes */
	uint64_t	gap;			/* the others in the box */
	uint64_t	fragments;		/* contiguous runs of wanted bytes */
	uint64_t	smallest;		/* gap; 0 = there is none */
	uint64_t	largest;
} RfGaps;

/*
 * False: out of memory, which it needs (and gives back) only for regions whose extents intersect
 * and for records that are in no order.
 */
extern bool rf_ncr_gaps(const RfNcrSet *set, RfGaps *gaps);

/*
 * The fragments of a set by address, those that touch as one; the gap behind each but the last is
 * what is between it and the next. Returns how many there are, of which at most `max` are stored;
 * SIZE_MAX: out of memory.
 */
extern size_t rf_ncr_by_address(const RfNcrSet *set, RfNcrPiece *fragments, size_t max);

/* ---------- costs of bitmaps, and the choice with them (ncr_choose.c) ---------- */

typedef struct NcrCosts
{
	RfRegionCosts region;
	float		pick;			/* a row of a box is read, at least, when a bitmap says which */
	float		select;			/* a word of 64 rows, of which at least one is selected */
	float		shuffle;		/* and at most for 64 rows of 4 bytes, however many are selected */
} NcrCosts;

typedef struct NcrShape
{
	RfRegionShape region;
	uint64_t	mask_words;		/* words of the bitmaps */
	uint64_t	description;	/* bytes that a box needs besides */
} NcrShape;

/* Sets pick, select and shuffle, and the costs of reading. False: out of memory. */
extern bool ncr_measure(NcrCosts *costs);

/* As rf_region_choose; estimate is not NULL. */
extern RfRegionMode ncr_choose(const NcrCosts *costs, RfRegionMode mode, int max_sge,
							   const NcrShape *shape, RfRegionEstimate *estimate);

/* ---------- shapes, and parts (ncr_parts.c) ---------- */

/*
 * Quickly: of a bitmap, words here and there are looked at, and boxes are whole regions. False: out
 * of memory (rf_ncr_gaps, for pointer-mapped regions).
 */
extern bool rf_region_shape(const RfNcrSet *set, NcrShape *shape);

/*
 * The selected bytes of a region as elements at equal distances, for a strided entry: where the
 * first one is, bytes of each, bytes from one to the next. False: they are not, or are too far
 * apart for a device (RF_MAX_STRIDE).
 */
extern bool rf_ncr_strided(const RfNcr *region, const uint8_t **first, uint32_t *element,
						   uint32_t *stride);

/* Rows [first, end) of every region of a set, moved one way. */
typedef struct RfRegionPart
{
	uint32_t	first;
	uint32_t	end;
	RfRegionMode mode;
	uint64_t	useful;			/* bytes */
	uint64_t	gap;			/* of a box: bytes that travel in vain */
} RfRegionPart;

#define RF_REGION_MAX_PARTS		8

/*
 * The same for a region or a transposed set part by part, where a bitmap selects more here than
 * there: rows are looked at in equal pieces, of which neighbours that are best moved alike stay
 * together, as do those where to change would not pay for the work request more. Other sets are one
 * part. Returns the number of parts, in order of rows; 0: out of memory.
 */
extern int	rf_region_plan(const NcrCosts *costs, RfRegionMode mode, int max_sge,
						   const RfNcrSet *set, RfRegionPart parts[RF_REGION_MAX_PARTS]);

/*
 * The rows of a part as regions of their own: set->count of them; `first` must be a multiple of 64.
 */
extern void rf_region_part(const RfNcrSet *set, uint32_t first, uint32_t end, RfNcr *regions,
						   RfNcrSet *part);

#endif
