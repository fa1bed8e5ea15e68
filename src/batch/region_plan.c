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
#include <string.h>
#include <time.h>

#include "rdma_fdw/region.h"

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

	e.copy = fragments * by_both(costs->copy, gaps / fragments, useful / fragments);
	e.copy = fmax(e.copy, useful * costs->byte);

	/* Packed rows cost the reader the same on each way. */
	e.copy += packed + costs->request + useful * costs->wire;
	e.gather = fragments *
		by_both(costs->gather, gaps / fragments, fmin(useful / fragments, longest)) +
			fmax(useful - fragments * longest, 0) * costs->byte +
			ceil(fragments / (max_sge < 1 ? 1 : max_sge)) * costs->request + packed +
			useful * costs->wire;
	if (shape->strided > 0 && costs->strided[0][0] > 0)
		e.strided = fmax(fragments * by_both(costs->strided, gaps / fragments, useful / fragments),
						 useful * costs->byte) +
			(double) shape->strided * costs->entry + costs->request + packed +
			useful * costs->wire;
	if (e.strided == 0 && mode == RF_REGION_STRIDED)
		mode = RF_REGION_COPY;
	read = by_both(costs->read, gaps / rows, row);
	e.box = costs->request + rows * read + (double) shape->box * (costs->byte + costs->wire);

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

	if (area == NULL)
		return false;
	memset(area, 1, AREA);
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

			/*
			 * The first rounds bring into the caches the lines that the other measurements
			 * evicted.
			 */
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
	free(area);
	return true;
}
