/*
 * ncr_choose.c - the choice of region.h for regions of which bitmaps select rows, and what bitmaps
 * cost on this machine.
 */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "ncr.h"

/* A box with its description, of which a bitmap says what to read. */
static double
box_cost(const NcrCosts *costs, const NcrShape *shape, double box)
{
	double		rows = shape->region.rows == 0 ? 1 : (double) shape->region.rows;
	double		moved = costs->region.byte + costs->region.wire;
	double		read = (box - costs->region.request - (double) shape->region.box * moved) / rows;

	if (shape->mask_words > 0)
		read = fmax(read, costs->pick);
	return costs->region.request + rows * read +
		(double) (shape->region.box + shape->description) * moved;
}

/* Narrow elements are moved one by one, even if they are adjacent, or all of a word at once. */
static double
copy_cost(const NcrCosts *costs, int max_sge, const NcrShape *shape)
{
	RfRegionShape each = shape->region;
	RfRegionCosts free_copies = costs->region;
	RfRegionEstimate one_by_one;
	RfRegionEstimate without;
	double		row = (double) each.useful / (double) each.rows;
	double		all = (double) shape->mask_words * costs->shuffle * (row > 4 ? row / 4 : 1);

	each.fragments = each.rows;
	(void) rf_region_choose(&costs->region, RF_REGION_COPY, max_sge, &each, &one_by_one);
	memset(free_copies.copy, 0, sizeof(free_copies.copy));
	(void) rf_region_choose(&free_copies, RF_REGION_COPY, max_sge, &each, &without);
	return row <= 8 ? fmin(one_by_one.copy, without.copy + all) : one_by_one.copy;
}

RfRegionMode
ncr_choose(const NcrCosts *costs, RfRegionMode mode, int max_sge, const NcrShape *shape,
		   RfRegionEstimate *estimate)
{
	RfRegionMode way = rf_region_choose(&costs->region, mode, max_sge, &shape->region, estimate);
	const RfRegionShape *region = &shape->region;

	if (region->useful == 0 || region->fragments == 0)
		return way;
	if (shape->mask_words > 0 && region->useful <= 16 * region->rows)
		estimate->copy = copy_cost(costs, max_sge, shape);
	estimate->box = box_cost(costs, shape, estimate->box);
	if (mode == RF_REGION_AUTO)
	{
		way = estimate->box <= estimate->copy ? RF_REGION_BOX : RF_REGION_COPY;
		if (max_sge >= 2 && costs->region.gather[0][0] > 0 &&
			estimate->gather <= rf_region_cost(estimate, way))
			way = RF_REGION_GATHER;
		if (estimate->strided > 0 && estimate->strided < rf_region_cost(estimate, way))
			way = RF_REGION_STRIDED;
	}
	estimate->copy += (double) shape->mask_words * costs->select;
	estimate->gather += (double) shape->mask_words * costs->select;
	estimate->box += (double) shape->mask_words * costs->select;
	estimate->chosen = rf_region_cost(estimate, way);
	return way;
}

/* ---------- measuring ---------- */

#define AREA		(1u << 20)
#define WORDS		1024
#define TIMES		7			/* the best of so many: disturbances only add */

static double
now_ns(void)
{
	return (double) rf_clock_ns(CLOCK_MONOTONIC);
}

/* For the compiler, the result is used here and the memory may have changed. */
static inline void
keep(void *memory, uint64_t made)
{
	__asm__ volatile("" : : "r"(memory), "r"(made) : "memory");
}

bool
ncr_measure(NcrCosts *costs)
{
	uint8_t    *area = malloc(AREA);
	uint8_t    *to = malloc(AREA);
	uint64_t	mask[WORDS];

	if (area == NULL || to == NULL || !rf_region_measure(&costs->region))
	{
		free(area);
		free(to);
		return false;
	}
	memset(area, 1, AREA);
	memset(to, 1, AREA);
	/* One row of each word, and half of them in random order; these are read in place. */
	costs->select = costs->shuffle = 0;
	for (int half = 0; half < 2; half++)
	{
		double		best = INFINITY;
		uint64_t	state = 88172645463325252ULL;

		for (int i = 0; i < WORDS; i++)
		{
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			mask[i] = half ? state : (uint64_t) 1 << (state % 64);
		}
		for (int i = 0; i < TIMES; i++)
		{
			double		begin = now_ns();

			keep(to, rf_mask_gather(to, area, 4, mask, WORDS * 64));
			best = fmin(best, (now_ns() - begin) / WORDS);
		}
		costs->pick = INFINITY;
		for (int i = 0; i < TIMES; i++)
		{
			double		begin = now_ns();
			uint64_t	sum = 0;

			for (int k = 0; k < WORDS; k++)
				for (uint64_t bits = mask[k]; bits != 0; bits &= bits - 1)
					sum += area[(k * 64 + __builtin_ctzll(bits)) * 4];
			keep(area, sum);
			costs->pick = fminf(costs->pick,
								(float) ((now_ns() - begin) / rf_mask_count(mask, WORDS * 64)));
		}
		if (half)
			costs->shuffle = (float) fmax(best - costs->select, 0);
		else
			costs->select = (float) best;
	}
	free(area);
	free(to);
	return true;
}
