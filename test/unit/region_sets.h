/*
 * region_sets.h - any set of regions (rdma_fdw/region.h) looked at as a whole: checks, gaps, and
 * which way each part of it goes. For tests and bench/region.
 *
 * The extension itself sends pages whose shape it knows, and never looks at a set. The shapes that
 * are computed here are the input of rf_region_choose, as there.
 */
#ifndef RF_REGION_SETS_H
#define RF_REGION_SETS_H

#include "rdma_fdw/region.h"

/*
 * NULL, or what is wrong: extents that do not fit each other, a record outside its span, fields
 * outside their element, and bytes that are described twice, by one region or by two. Costs a few
 * operations per region where arithmetic can tell, else up to a sort of all fragments: ask once
 * for a shape, not for every batch.
 */
extern const char *rf_ncr_check(const RfNcrSet *set);

/* ---------- gap analysis (region_gap.c) ---------- */

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

/* ---------- shapes, and parts (region_parts.c) ---------- */

/*
 * Quickly: of a bitmap, words here and there are looked at, and boxes are whole regions. False: out
 * of memory (rf_ncr_gaps, for pointer-mapped regions).
 */
extern bool rf_region_shape(const RfNcrSet *set, RfRegionShape *shape);

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
extern int	rf_region_plan(const RfRegionCosts *costs, RfRegionMode mode, int max_sge,
						   const RfNcrSet *set, RfRegionPart parts[RF_REGION_MAX_PARTS]);

/*
 * The rows of a part as regions of their own: set->count of them; `first` must be a multiple of 64.
 */
extern void rf_region_part(const RfNcrSet *set, uint32_t first, uint32_t end, RfNcr *regions,
						   RfNcrSet *part);

#endif
