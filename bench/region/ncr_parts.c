/*
 * ncr_parts.c - the shape of a set of regions, and the way of each part of it.
 */
#include <math.h>
#include <stdlib.h>

#include "ncr.h"
#include "rdma_fdw/provider.h"
#include "ncr.h"

#define MIN_PART		256		/* rows: a multiple of 64 */
#define SAMPLES			16		/* places of a bitmap that are looked at */
#define SAMPLE_WORDS	4

/* ---------- shapes ---------- */

/*
 * Runs of selected rows, of which the first is not counted when it begins at row 0 and `before` is
 * set.
 */
static uint32_t
count_runs(const uint64_t *mask, uint32_t count, bool before)
{
	uint64_t	carry = before;
	uint32_t	runs = 0;

	for (size_t word = 0; word < RF_MASK_WORDS(count); word++)
	{
		uint64_t	bits = rf_mask_word(mask, count, word);

		runs += (uint32_t) __builtin_popcountll(bits & ~(bits << 1 | carry));
		carry = bits >> 63;
	}
	return runs;
}

bool
rf_ncr_strided(const RfNcr *region, const uint8_t **first, uint32_t *element, uint32_t *stride)
{
	if (region->kind != RF_NCR_STRIDED || region->rows != NULL || region->field_count > 1 ||
		region->stride > RF_MAX_STRIDE)
		return false;
	*first = region->base + (region->field_count == 0 ? 0 : region->fields[0].offset);
	*element = region->field_count == 0 ? region->width : region->fields[0].width;
	*stride = region->stride;
	return true;
}

/*
 * Selected rows, and runs of them without a row between that is not: of a small bitmap all, else of
 * SAMPLES places in it, multiplied. `uneven`: there are clearly more of them in some places.
 */
static void
sample_rows(const uint64_t *rows, uint32_t count, uint64_t *selected, uint64_t *runs, bool *uneven)
{
	size_t		words = RF_MASK_WORDS(count);
	size_t		step = words / SAMPLES;
	size_t		place = step < SAMPLE_WORDS ? step : SAMPLE_WORDS;
	uint32_t	found[SAMPLES];
	double		average;
	double		far;

	*uneven = false;
	if (step <= 1)
	{
		*selected = rf_mask_count(rows, count);
		*runs = count_runs(rows, count, false);
		return;
	}
	*selected = *runs = 0;
	for (size_t i = 0; i < SAMPLES; i++)
	{
		const uint64_t *at = rows + i * step;

		found[i] = rf_mask_count(at, (uint32_t) place * 64);
		*selected += found[i];
		*runs += count_runs(at, (uint32_t) place * 64, i > 0 && (at[-1] >> 63) != 0);
	}

	/* Chance alone deviates by at most three times the root of the expectation. */
	average = (double) *selected / SAMPLES;
	far = average / 2 + 3 * sqrt(average);
	for (size_t i = 0; i < SAMPLES; i++)
		*uneven = *uneven || fabs(found[i] - average) > far;
	*selected = *selected * words / (SAMPLES * place);
	*runs = *runs * words / (SAMPLES * place);
	if (*selected > count)
		*selected = count;
	if (*runs == 0 && *selected > 0)
		*runs = 1;
}

static bool
shape_of(const RfNcrSet *set, NcrShape *shape, bool *uneven)
{
	const uint8_t *begin = NULL;
	const uint8_t *end = NULL;
	const uint64_t *sampled = NULL;
	uint64_t	selected = 0;
	uint64_t	runs = 0;

	bool		regular = true;

	*uneven = false;
	*shape = (NcrShape)
	{
		.description = set->count * sizeof(RfNcr)
	};
	for (uint32_t i = 0; i < set->count; i++)
	{
		const RfNcr *region = &set->regions[i];
		const uint8_t *high = region->base + region->span;
		const uint8_t *first;
		uint32_t	element;
		uint32_t	stride;

		if (region->count == 0)
			continue;
		regular = regular && rf_ncr_strided(region, &first, &element, &stride);
		shape->region.strided++;
		if (region->kind == RF_NCR_POINTERS)
		{
			RfNcrSet	one = {region, 1, RF_NCR_COLUMNAR};
			const uint8_t *pointers = region->pointers;
			RfGaps		gaps;

			if (!rf_ncr_gaps(&one, &gaps))
				return false;
			shape->region.rows += rf_ncr_rows(region);
			shape->region.useful += gaps.useful;
			shape->region.fragments += gaps.fragments;
			if (pointers < region->base || pointers >= high)
				shape->description += (uint64_t) region->count * rf_pointer_size(region->format);
		}
		else
		{
			uint64_t	row = rf_ncr_row_bytes(region, region->width);
			uint32_t	pieces = 1; /* of a row */

			high = region->base + (uint64_t) (region->count - 1) * region->stride + region->width;
			for (uint32_t f = 1; f < region->field_count; f++)
				pieces += region->fields[f].offset >
					region->fields[f - 1].offset + region->fields[f - 1].width;
			if (region->rows == NULL)
			{
				selected = region->count;
				runs = 1;
				sampled = NULL;
			}
			else if (region->rows != sampled)
			{
				bool		here;

				sample_rows(region->rows, region->count, &selected, &runs, &here);
				*uneven = *uneven || here;
				sampled = region->rows;
				shape->mask_words += RF_MASK_WORDS(region->count);
				shape->description += RF_MASK_WORDS(region->count) * sizeof(uint64_t);
			}
			else
				shape->mask_words += RF_MASK_WORDS(region->count);
			shape->region.rows += selected;
			shape->region.useful += selected * row;
			shape->region.fragments += row == region->stride ? runs : selected * pieces;
		}
		begin = begin == NULL || region->base < begin ? region->base : begin;
		end = end == NULL || high > end ? high : end;
	}
	/* Row by row, one entry would have to go through several regions. */
	if (!regular || (set->order == RF_NCR_TRANSPOSED && set->count > 1))
		shape->region.strided = 0;
	shape->region.box = (uint64_t) (end - begin);
	if (shape->region.box < shape->region.useful)
		shape->region.box = shape->region.useful;
	return true;
}

bool
rf_region_shape(const RfNcrSet *set, NcrShape *shape)
{
	bool		uneven;

	return shape_of(set, shape, &uneven);
}

void
rf_region_part(const RfNcrSet *set, uint32_t first, uint32_t end, RfNcr *regions, RfNcrSet *part)
{
	for (uint32_t i = 0; i < set->count; i++)
	{
		RfNcr	   *region = &regions[i];

		*region = set->regions[i];
		region->count = end - first;
		if (region->rows != NULL)
			region->rows += first / 64;
		if (region->kind == RF_NCR_POINTERS)
			region->pointers = (const uint8_t *) region->pointers +
				(size_t) first * rf_pointer_size(region->format);
		else
			region->base += (size_t) first * region->stride;
	}
	*part = (RfNcrSet)
	{
		regions, set->count, set->order
	};
}

/* ---------- part by part ---------- */

int
rf_region_plan(const NcrCosts *costs, RfRegionMode mode, int max_sge, const RfNcrSet *set,
			   RfRegionPart parts[RF_REGION_MAX_PARTS])
{
	enum
	{
	WAYS = RF_REGION_BOX + 1};
	RfRegionEstimate estimates[RF_REGION_MAX_PARTS];
	NcrShape	shapes[RF_REGION_MAX_PARTS];
	RfRegionMode from[RF_REGION_MAX_PARTS][WAYS];
	double		total[WAYS] = {0};
	uint32_t	count = set->count == 0 ? 0 : set->regions[0].count;
	uint32_t	rows;			/* of a piece */
	int			pieces;
	int			used = 0;
	bool		uneven;
	RfRegionMode way;
	RfNcr	   *regions;

	if (!shape_of(set, &shapes[0], &uneven))
		return 0;
	way = ncr_choose(costs, mode, max_sge, &shapes[0], &estimates[0]);

	/* Pointer-mapped regions share their span: a part of one is no smaller box. */
	uneven = uneven && mode == RF_REGION_AUTO &&
		(set->count == 1 || set->order == RF_NCR_TRANSPOSED);
	for (uint32_t i = 0; i < set->count; i++)
		uneven = uneven && set->regions[i].kind != RF_NCR_POINTERS;
	rows = ((count + RF_REGION_MAX_PARTS - 1) / RF_REGION_MAX_PARTS + 63) / 64 * 64;
	rows = rows < MIN_PART ? MIN_PART : rows;
	pieces = (int) ((count + rows - 1) / rows);
	if (!uneven || pieces < 2)
	{
		parts[0] = (RfRegionPart)
		{
			0, count, way, shapes[0].region.useful,
				way == RF_REGION_BOX ? shapes[0].region.box - shapes[0].region.useful : 0
		};
		return 1;
	}
	regions = malloc((set->count + 1) * sizeof(RfNcr));
	if (regions == NULL)
		return 0;
	for (int i = 0; i < pieces; i++)
	{
		RfNcrSet	part;

		rf_region_part(set, i * rows, (i + 1) * rows < count ? (i + 1) * rows : count, regions,
					   &part);
		(void) rf_region_shape(&part, &shapes[i]);	/* needs no memory without pointers */
		ncr_choose(costs, mode, max_sge, &shapes[i], &estimates[i]);
	}
	free(regions);

	/*
	 * The cheapest ways for all pieces: to go on as in the piece before saves the work request
	 * that the estimate of each has (total[w]: the pieces so far with the last of them by way w).
	 */
	for (int i = 0; i < pieces; i++)
	{
		double		next[WAYS];

		for (int w = RF_REGION_COPY; w < WAYS; w++)
		{
			double		least = INFINITY;

			for (int v = RF_REGION_COPY; v < WAYS; v++)
			{
				double		cost = total[v] -
					(i > 0 && v == w && w != RF_REGION_GATHER ? costs->region.request : 0);

				if (cost < least)
				{
					least = cost;
					from[i][w] = (RfRegionMode) v;
				}
			}
			next[w] = least + rf_region_cost(&estimates[i], (RfRegionMode) w);
			if (w == RF_REGION_GATHER && (max_sge < 2 || costs->region.gather[0][0] == 0))
				next[w] = INFINITY;
		}
		memcpy(total, next, sizeof(total));
	}
	way = RF_REGION_COPY;
	for (int w = RF_REGION_COPY; w < WAYS; w++)
		if (total[w] < total[way])
			way = (RfRegionMode) w;

	/* Back to front, then joins equal pieces. */
	for (int i = pieces - 1; i >= 0; i--)
	{
		RfRegionMode before = from[i][way];

		parts[i] = (RfRegionPart)
		{
			(uint32_t) i * rows,
				(uint32_t) (i + 1) * rows < count ? (uint32_t) (i + 1) * rows : count, way,
				shapes[i].region.useful, way == RF_REGION_BOX ?
				shapes[i].region.box - shapes[i].region.useful : 0
		};
		way = before;
	}
	for (int i = 0; i < pieces; i++)
	{
		if (used > 0 && parts[used - 1].mode == parts[i].mode)
		{
			parts[used - 1].end = parts[i].end;
			parts[used - 1].useful += parts[i].useful;
			parts[used - 1].gap += parts[i].gap;
		}
		else
			parts[used++] = parts[i];
	}
	return used;
}
