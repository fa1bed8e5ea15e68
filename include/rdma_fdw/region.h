/*
 * region.h - say which bytes go to a reader, and how they get there (D-RDMA, sections 3 and 4.1).
 *
 * A non-contiguous region (NCR) describes wanted bytes and the gaps between them with one
 * descriptor, however many rows it has: 64 Ki rows of five columns for two destinations are ten
 * descriptors and two bitmaps, where scatter-gather entries would be 327,680. From the same
 * description the wanted bytes are copied out one behind the other, or listed as fragments for a
 * gathering work request, or sent with the gaps between them (a box), which the reader leaves out.
 *
 * Does: descriptions (region.c); copying out, with vector instructions where the processor has them
 * (region_copy.c, region_mask.c); choosing the way (region_plan.c). Does not: know tuples, columns
 * or SQL; allocate anything that it does not free before it returns; send. A description stays with
 * its sender: what a reader gets is a batch (wire.h), which has a form of its own for rows among
 * gaps.
 *
 * Plain C without PostgreSQL. Everything may be called by any thread; nothing here is shared.
 */
#ifndef RF_REGION_H
#define RF_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma_fdw/guc.h"

/* ---------- descriptions (src/batch/region.c) ---------- */

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

/* ---------- copying out (src/batch/region_copy.c) ---------- */

/*
 * The wanted bytes of the set in its order, one behind the other without padding: what a gathering
 * work request would write, byte for byte. Returns how many there are; nothing is written when they
 * are more than `room`.
 */
extern uint64_t rf_ncr_pack(const RfNcrSet *set, void *to, uint64_t room);

/* ---------- bitmaps of rows (src/batch/region_mask.c) ---------- */

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

/* ---------- how it is moved (src/batch/region_plan.c) ---------- */

/*
 * What it costs to move regions over one kind of transport, in ns: sender, transport and reader
 * together. Fragments cost by their length and by how far they are apart, since one that lies alone
 * in its cache line, or in its page, brings that in, too (D-RDMA, section 5.4); between the
 * measured points costs are interpolated.
 */
#define RF_COST_LENGTHS		5	/* 4, 16, 64, 256, 1024 bytes */
#define RF_COST_GAPS		3	/* 4, 64, 1024 bytes between fragments; less and more cost the same */

typedef struct RfRegionCosts
{
	float		read[RF_COST_GAPS][RF_COST_LENGTHS];	/* a row of a box is read where it lies */
	float		pick;			/* and at least, when a bitmap says which */
	float		select;			/* of a bitmap: a word of 64 rows, of which at least one is
								 * selected */
	float		shuffle;		/* and at most for 64 rows of 4 bytes, however many are selected */
	float		copy[RF_COST_GAPS][RF_COST_LENGTHS];	/* a fragment is copied out and sent */
	float		gather[RF_COST_GAPS][RF_COST_LENGTHS];	/* is an entry of a work request and sent;
														 * 0 = cannot be */
	float		strided[RF_COST_GAPS][RF_COST_LENGTHS]; /* is an element of a strided entry and
														 * sent; 0 = cannot be */
	float		entry;			/* a strided entry, whatever is in it */
	float		request;		/* a work request with its completion */
	float		byte;			/* a byte on the way, in one large piece */
	float		wire;			/* and besides, where the peer is farther away than what was
								 * measured */
} RfRegionCosts;

/* What the costs depend on. */
typedef struct RfRegionShape
{
	uint64_t	rows;
	uint64_t	useful;			/* wanted bytes */
	uint64_t	fragments;
	uint64_t	box;			/* bytes of the box around them */
	uint64_t	mask_words;		/* bitmapped regions: words of the bitmaps */
	uint64_t	description;	/* bytes that a box needs besides */
	uint64_t	strided;		/* strided entries that say all of it, in the same order; 0 = none
								 * do */
} RfRegionShape;

/* Costs in ns, of which the mode or the smallest decides. */
typedef struct RfRegionEstimate
{
	double		copy;
	double		gather;
	double		box;
	double		strided;		/* 0: cannot be */
	double		chosen;
} RfRegionEstimate;

static inline double
rf_region_cost(const RfRegionEstimate *e, RfRegionMode mode)
{
	return mode == RF_REGION_COPY ? e->copy : mode == RF_REGION_BOX ? e->box :
		mode == RF_REGION_GATHER ? e->gather : e->strided;
}

/*
 * COPY, GATHER, BOX or STRIDED for the whole shape (D-RDMA, section 4.1). `max_sge`: entries that a
 * work request may have; less than 2 = nothing can be gathered, and what is forced to be is copied.
 * *estimate may be NULL.
 */
extern RfRegionMode rf_region_choose(const RfRegionCosts *costs, RfRegionMode mode, int max_sge,
									 const RfRegionShape *shape, RfRegionEstimate *estimate);

/*
 * What of the costs is not the transport's (read to shuffle): takes a few ms; the others are
 * left as they are (src/engine/regions.c measures them). False: out of memory.
 */
extern bool rf_region_measure(RfRegionCosts *costs);

/* Bytes of a fragment, and between two, of each place in the costs. */
extern const float rf_cost_lengths[RF_COST_LENGTHS];
extern const float rf_cost_gaps[RF_COST_GAPS];

/* Counts of what was done, for rdma.stat_flows and EXPLAIN (ANALYZE, VERBOSE). */
typedef struct RfRegionCounts
{
	uint64_t	copies;			/* regions, or parts of them, copied out */
	uint64_t	gathers;		/* sent as entries of work requests */
	uint64_t	strided;		/* as strided ones */
	uint64_t	boxes;			/* sent with their gaps */
	uint64_t	useful_bytes;
	uint64_t	gap_bytes;		/* that travelled in boxes */
	uint64_t	uncopied_bytes; /* that left from where they lay */
} RfRegionCounts;

static inline void
rf_region_count(RfRegionCounts *counts, RfRegionMode mode, uint64_t useful, uint64_t gap)
{
	counts->copies += mode == RF_REGION_COPY;
	counts->gathers += mode == RF_REGION_GATHER;
	counts->strided += mode == RF_REGION_STRIDED;
	counts->boxes += mode == RF_REGION_BOX;
	counts->useful_bytes += useful;
	counts->gap_bytes += mode == RF_REGION_BOX ? gap : 0;
}

#endif
