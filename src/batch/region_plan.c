/*
 * region_plan.c - chooses the cheapest way: copying, gathering work requests, the box with its
 * gaps, or strided entries where a device has them (D-RDMA, section 4.1), by costs that were
 * measured on this machine.
 *
 * Only costs that differ between the ways are compared; each is a sum of the work of sender,
 * transport and reader for the same rows, so a cheaper way takes less time of all processors
 * together.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "region_int.h"

/* ---------- costs ---------- */

const float rf_cost_lengths[RF_COST_LENGTHS] = {4, 16, 64, 256, 1024};
const float rf_cost_gaps[RF_COST_GAPS] = {4, 64, 1024};

/* Linear between measured lengths; beyond them in proportion to the last step. */
static double
by_length(const float *at, double length)
{
	int			i = 1;

	if (length <= rf_cost_lengths[0])
		return at[0];
	while (i < RF_COST_LENGTHS - 1 && length > rf_cost_lengths[i])
		i++;
	return at[i - 1] + (at[i] - at[i - 1]) * (length - rf_cost_lengths[i - 1]) /
		(rf_cost_lengths[i] - rf_cost_lengths[i - 1]);
}

/* The measured gap below this one, and the fraction of the distance to the next. */
static int
gap_class(double gap, double *part)
{
	int			i = 0;

	*part = 0;
	if (gap <= rf_cost_gaps[0])
		return 0;
	while (i < RF_COST_GAPS - 1 && gap >= rf_cost_gaps[i + 1])
		i++;
	if (i < RF_COST_GAPS - 1)
		*part = (gap - rf_cost_gaps[i]) / (rf_cost_gaps[i + 1] - rf_cost_gaps[i]);
	return i;
}

static double
by_both(const float (*at)[RF_COST_LENGTHS], double gap, double length)
{
	double		part;
	int			i = gap_class(gap, &part);
	double		low = by_length(at[i], length);

	return part == 0 ? low : low + part * (by_length(at[i + 1], length) - low);
}

RfRegionMode
rf_region_choose(const RfRegionCosts *costs, RfRegionMode mode, int max_sge,
				 const RfRegionShape *shape, RfRegionEstimate *estimate)
{
	double		fragments = (double) shape->fragments;
	double		rows = shape->rows == 0 ? 1 : (double) shape->rows;
	double		useful = (double) shape->useful;
	double		gaps = (double) shape->box - useful;
	double		row = useful / rows;
	double		longest = rf_cost_lengths[RF_COST_LENGTHS - 1];
	double		read;
	double		packed = rows * by_length(costs->read[0], row);
	RfRegionEstimate e = {0};
	RfRegionMode best = RF_REGION_COPY;

	if (max_sge < 2 && mode == RF_REGION_GATHER)
		mode = RF_REGION_COPY;
	if (shape->useful == 0 || shape->fragments == 0)
	{
		if (estimate != NULL)
			*estimate = e;
		return mode == RF_REGION_AUTO ? RF_REGION_COPY : mode;
	}

	/* By bitmap, narrow elements are moved one by one, even if they are adjacent. */
	if (shape->mask_words > 0 && row <= 16)
	{
		double		all = (double) shape->mask_words * costs->shuffle * (row > 4 ? row / 4 : 1);

		e.copy = rows * by_both(costs->copy, gaps / rows, row);
		if (row <= 8)
			e.copy = fmin(e.copy, all + useful * costs->byte);
	}
	else
		e.copy = fragments * by_both(costs->copy, gaps / fragments, useful / fragments);
	e.copy = fmax(e.copy, useful * costs->byte);

	/* Packed rows cost the reader the same on each way. */
	e.copy += packed + costs->request + (double) shape->mask_words * costs->select +
		useful * costs->wire;
	e.gather = fragments *
		by_both(costs->gather, gaps / fragments, fmin(useful / fragments, longest)) +
			fmax(useful - fragments * longest, 0) * costs->byte +
			ceil(fragments / (max_sge < 1 ? 1 : max_sge)) * costs->request + packed +
			(double) shape->mask_words * costs->select + useful * costs->wire;
	if (shape->strided > 0 && costs->strided[0][0] > 0)
		e.strided = fmax(fragments * by_both(costs->strided, gaps / fragments, useful / fragments),
						 useful * costs->byte) +
			(double) shape->strided * costs->entry + costs->request + packed +
			useful * costs->wire;
	if (e.strided == 0 && mode == RF_REGION_STRIDED)
		mode = RF_REGION_COPY;
	read = by_both(costs->read, gaps / rows, row);
	if (shape->mask_words > 0)
		read = fmax(read, costs->pick);
	e.box = costs->request + rows * read + (double) shape->mask_words * costs->select +
		(double) (shape->box + shape->description) * (costs->byte + costs->wire);

	if (mode != RF_REGION_AUTO)
		best = mode;
	else
	{
		if (e.box <= e.copy)
			best = RF_REGION_BOX;
		if (max_sge >= 2 && costs->gather[0][0] > 0 &&
			e.gather <= (best == RF_REGION_BOX ? e.box : e.copy))
			best = RF_REGION_GATHER;
		if (e.strided > 0 && e.strided < rf_region_cost(&e, best))
			best = RF_REGION_STRIDED;
	}
	e.chosen = rf_region_cost(&e, best);
	if (estimate != NULL)
		*estimate = e;
	return best;
}

/* ---------- measuring ---------- */

#define AREA		(1u << 20)	/* bytes that are read: larger than the nearest cache */
#define WORDS		1024
#define TIMES		7			/* the best of so many: disturbances only add */

static double
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

/* The reader's loop: one load per row, as in decoding one value. */
static uint64_t
skim(const uint8_t *from, uint32_t stride, uint32_t rows)
{
	uint64_t	sum = 0;

	for (uint32_t i = 0; i < rows; i++, from += stride)
	{
		uint32_t	value;

		memcpy(&value, from, sizeof(value));
		sum += value;
	}
	return sum;
}

/*
 * For the compiler, the result is used here and the memory may have changed: the measured code is
 * neither removed nor moved across a reading of the clock.
 */
static inline void
keep(void *memory, uint64_t made)
{
	__asm__ volatile (""::"r" (memory), "r"(made):"memory");
}

bool
rf_region_measure(RfRegionCosts *costs)
{
	uint8_t    *area = malloc(AREA);
	uint8_t    *to = malloc(AREA);
	uint64_t	mask[WORDS];

	if (area == NULL || to == NULL)
	{
		free(area);
		free(to);
		return false;
	}
	memset(area, 1, AREA);
	memset(to, 1, AREA);
	/* Alternating, so that a disturbance does not affect all times of one of them. */
	for (int i = 0; i < TIMES; i++)
	{
		for (int k = 0; k < RF_COST_GAPS * RF_COST_LENGTHS; k++)
		{
			int			g = k / RF_COST_LENGTHS;
			int			l = k % RF_COST_LENGTHS;
			uint32_t	stride = (uint32_t) rf_cost_lengths[l] +
				(g == 0 ? 0 : (uint32_t) rf_cost_gaps[g]);
			uint32_t	rows = AREA / stride < 8192 ? AREA / stride : 8192;

			/* The first rounds bring into the caches what the other measurements evicted. */
			for (int again = 0; again < 5; again++)
			{
				double		begin = now_ns();
				float		took;

				keep(area, skim(area, stride, rows));
				took = (float) ((now_ns() - begin) / rows);
				if (i + again == 0 || took < costs->read[g][l])
					costs->read[g][l] = took;
			}
		}
	}

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
