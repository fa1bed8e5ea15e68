/*
 * region.h - how the rows of a heap page get to a reader (D-RDMA, section 4.1). Plain C.
 *
 * A page is a region of wanted bytes with gaps between them: rows that are not visible or do not
 * pass, and columns that nobody asked for. The wanted bytes are copied out one behind the other, or
 * listed as fragments for a gathering work request, or sent with the gaps between them (a box),
 * which the reader leaves out, or taken apart by a device that has strided entries.
 *
 * Does: choose the way by measured costs (src/batch/region_plan.c). Does not: know tuples, columns
 * or SQL, send, or look at memory. Everything may be called by any thread; nothing here is shared.
 */
#ifndef RF_REGION_H
#define RF_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma_fdw/guc.h"

/*
 * The cost of moving regions over one kind of transport, in ns: sender, transport and reader
 * together. Fragments cost by their length and by how far they are apart, since a fragment that
 * lies alone in its cache line, or in its page, brings that in, too (D-RDMA, section 5.4); between
 * the measured points costs are interpolated.
 */
#define RF_COST_LENGTHS		5	/* 4, 16, 64, 256, 1024 bytes */
#define RF_COST_GAPS		3	/* gaps of 4, 64, 1024 bytes; less and more cost the same */

typedef struct RfRegionCosts
{
	float		read[RF_COST_GAPS][RF_COST_LENGTHS];	/* a row of a box is read where it lies */
	float		copy[RF_COST_GAPS][RF_COST_LENGTHS];	/* a fragment is copied out and sent */
	float		gather[RF_COST_GAPS][RF_COST_LENGTHS];	/* is an entry of a work request and sent;
														 * 0 = cannot be */
	float		strided[RF_COST_GAPS][RF_COST_LENGTHS]; /* is an element of a strided entry and
														 * sent; 0 = cannot be */
	float		entry;			/* a strided entry of any contents */
	float		request;		/* a work request with its completion */
	float		byte;			/* a byte on the way, in one large piece */
	float		wire;			/* and besides, where the peer is farther away than in the
								 * measurement */
} RfRegionCosts;

/* The properties on which the costs depend. */
typedef struct RfRegionShape
{
	uint64_t	rows;
	uint64_t	useful;			/* wanted bytes */
	uint64_t	fragments;
	uint64_t	box;			/* bytes of the box around them */
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
 * work request may have; less than 2 means that nothing can be gathered, and a forced gather is
 * copied. *estimate may be NULL.
 */
extern RfRegionMode rf_region_choose(const RfRegionCosts *costs, RfRegionMode mode, int max_sge,
									 const RfRegionShape *shape, RfRegionEstimate *estimate);

/*
 * Measures the costs of reading, which takes a few ms; src/engine/regions.c measures those of the
 * transport. Returns false without memory.
 */
extern bool rf_region_measure(RfRegionCosts *costs);

/* Bytes of a fragment, and between two, of each place in the costs. */
extern const float rf_cost_lengths[RF_COST_LENGTHS];
extern const float rf_cost_gaps[RF_COST_GAPS];

/* Counts for rdma.stat_flows and EXPLAIN (ANALYZE, VERBOSE). */
typedef struct RfRegionCounts
{
	uint64_t	copies;			/* regions, or parts of them, copied out */
	uint64_t	gathers;		/* sent as entries of work requests */
	uint64_t	strided;		/* as strided entries */
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
