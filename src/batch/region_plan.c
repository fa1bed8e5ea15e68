/*
 * region_plan.c - which way costs least: copying out, gathering work requests, the box with its gaps,
 * or strided entries where a device has them (D-RDMA, section 4.1), by costs that were measured on
 * this machine.
 *
 * Only what differs between the ways is weighed; all are sums of what sender, transport and
 * reader do for the same rows, so a cheaper one takes less of all processors together.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "rdma_fdw/provider.h"
#include "region_int.h"

#define MIN_PART		256			/* rows: a multiple of 64 */
#define SAMPLES			16			/* places of a bitmap that are looked at */
#define SAMPLE_WORDS	4

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
	return at[i - 1] + (at[i] - at[i - 1]) * (length - rf_cost_lengths[i - 1]) / (rf_cost_lengths[i] - rf_cost_lengths[i - 1]);
}

/* Which measured gap is below this one, and how far it is to the next. */
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

static double
cost_of(const RfRegionEstimate *e, RfRegionMode mode)
{
	return mode == RF_REGION_COPY ? e->copy : mode == RF_REGION_BOX ? e->box : mode == RF_REGION_GATHER ? e->gather : e->strided;
}

RfRegionMode
rf_region_choose(const RfRegionCosts *costs, RfRegionMode mode, int max_sge, const RfRegionShape *shape,
				 RfRegionEstimate *estimate)
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

	/* By bitmap, narrow elements are moved one by one, also those that lie side by side. */
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

	/* Packed rows are read alike however they came. */
	e.copy += packed + costs->request + (double) shape->mask_words * costs->select + useful * costs->wire;
	e.gather = fragments * by_both(costs->gather, gaps / fragments, fmin(useful / fragments, longest)) +
		fmax(useful - fragments * longest, 0) * costs->byte +
		ceil(fragments / (max_sge < 1 ? 1 : max_sge)) * costs->request +
		packed + (double) shape->mask_words * costs->select + useful * costs->wire;
	if (shape->strided > 0 && costs->strided[0][0] > 0)
		e.strided = fmax(fragments * by_both(costs->strided, gaps / fragments, useful / fragments), useful * costs->byte) +
			(double) shape->strided * costs->entry + costs->request + packed + useful * costs->wire;
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
		if (max_sge >= 2 && costs->gather[0][0] > 0 && e.gather <= (best == RF_REGION_BOX ? e.box : e.copy))
			best = RF_REGION_GATHER;
		if (e.strided > 0 && e.strided < cost_of(&e, best))
			best = RF_REGION_STRIDED;
	}
	e.chosen = cost_of(&e, best);
	if (estimate != NULL)
		*estimate = e;
	return best;
}

/* ---------- shapes ---------- */

bool
rf_ncr_strided(const RfNcr *region, const uint8_t **first, uint32_t *element, uint32_t *stride)
{
	if (region->kind != RF_NCR_STRIDED || region->rows != NULL || region->field_count > 1 || region->stride > RF_MAX_STRIDE)
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
		*runs = rf_mask_runs(rows, count, false);
		return;
	}
	*selected = *runs = 0;
	for (size_t i = 0; i < SAMPLES; i++)
	{
		const uint64_t *at = rows + i * step;

		found[i] = rf_mask_count(at, (uint32_t) place * 64);
		*selected += found[i];
		*runs += rf_mask_runs(at, (uint32_t) place * 64, i > 0 && (at[-1] >> 63) != 0);
	}

	/* What chance alone brings about is three times the root of what is expected. */
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
shape_of(const RfNcrSet *set, RfRegionShape *shape, bool *uneven)
{
	const uint8_t *begin = NULL;
	const uint8_t *end = NULL;
	const uint64_t *sampled = NULL;
	uint64_t	selected = 0;
	uint64_t	runs = 0;

	bool		regular = true;

	*uneven = false;
	*shape = (RfRegionShape) {.description = set->count * sizeof(RfNcr)};
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
		shape->strided++;
		if (region->kind == RF_NCR_POINTERS)
		{
			RfNcrSet	one = {region, 1, RF_NCR_COLUMNAR};
			const uint8_t *pointers = region->pointers;
			RfGaps		gaps;

			if (!rf_ncr_gaps(&one, &gaps))
				return false;
			shape->rows += rf_ncr_rows(region);
			shape->useful += gaps.useful;
			shape->fragments += gaps.fragments;
			if (pointers < region->base || pointers >= high)
				shape->description += (uint64_t) region->count * rf_pointer_size(region->format);
		}
		else
		{
			uint64_t	row = rf_ncr_row_bytes(region, region->width);
			uint32_t	pieces = 1;	/* of a row */

			high = region->base + (uint64_t) (region->count - 1) * region->stride + region->width;
			for (uint32_t f = 1; f < region->field_count; f++)
				pieces += region->fields[f].offset > region->fields[f - 1].offset + region->fields[f - 1].width;
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
			shape->rows += selected;
			shape->useful += selected * row;
			shape->fragments += row == region->stride ? runs : selected * pieces;
		}
		begin = begin == NULL || region->base < begin ? region->base : begin;
		end = end == NULL || high > end ? high : end;
	}
	/* Row by row, one entry would have to go through several regions. */
	if (!regular || (set->order == RF_NCR_TRANSPOSED && set->count > 1))
		shape->strided = 0;
	shape->box = (uint64_t) (end - begin);
	if (shape->box < shape->useful)
		shape->box = shape->useful;
	return true;
}

bool
rf_region_shape(const RfNcrSet *set, RfRegionShape *shape)
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
			region->pointers = (const uint8_t *) region->pointers + (size_t) first * rf_pointer_size(region->format);
		else
			region->base += (size_t) first * region->stride;
	}
	*part = (RfNcrSet) {regions, set->count, set->order};
}

/* ---------- part by part ---------- */

int
rf_region_plan(const RfRegionCosts *costs, RfRegionMode mode, int max_sge, const RfNcrSet *set,
			   RfRegionPart parts[RF_REGION_MAX_PARTS])
{
	enum {WAYS = RF_REGION_BOX + 1};
	RfRegionEstimate estimates[RF_REGION_MAX_PARTS];
	RfRegionShape shapes[RF_REGION_MAX_PARTS];
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
	way = rf_region_choose(costs, mode, max_sge, &shapes[0], NULL);

	/* Pointer-mapped regions share their span: a part of one is no smaller box. */
	uneven = uneven && mode == RF_REGION_AUTO && (set->count == 1 || set->order == RF_NCR_TRANSPOSED);
	for (uint32_t i = 0; i < set->count; i++)
		uneven = uneven && set->regions[i].kind != RF_NCR_POINTERS;
	rows = ((count + RF_REGION_MAX_PARTS - 1) / RF_REGION_MAX_PARTS + 63) / 64 * 64;
	rows = rows < MIN_PART ? MIN_PART : rows;
	pieces = (int) ((count + rows - 1) / rows);
	if (!uneven || pieces < 2)
	{
		parts[0] = (RfRegionPart) {0, count, way, shapes[0].useful,
			way == RF_REGION_BOX ? shapes[0].box - shapes[0].useful : 0};
		return 1;
	}
	regions = malloc((set->count + 1) * sizeof(RfNcr));
	if (regions == NULL)
		return 0;
	for (int i = 0; i < pieces; i++)
	{
		RfNcrSet	part;

		rf_region_part(set, i * rows, (i + 1) * rows < count ? (i + 1) * rows : count, regions, &part);
		(void) rf_region_shape(&part, &shapes[i]);	/* needs no memory without pointers */
		rf_region_choose(costs, mode, max_sge, &shapes[i], &estimates[i]);
	}
	free(regions);

	/*
	 * The cheapest ways for all pieces: to go on as in the piece before saves the work request that
	 * the estimate of each has (total[w]: the pieces so far with the last of them by way w).
	 */
	for (int i = 0; i < pieces; i++)
	{
		double		next[WAYS];

		for (int w = RF_REGION_COPY; w < WAYS; w++)
		{
			double		least = INFINITY;

			for (int v = RF_REGION_COPY; v < WAYS; v++)
			{
				double		cost = total[v] - (i > 0 && v == w && w != RF_REGION_GATHER ? costs->request : 0);

				if (cost < least)
				{
					least = cost;
					from[i][w] = (RfRegionMode) v;
				}
			}
			next[w] = least + cost_of(&estimates[i], (RfRegionMode) w);
			if (w == RF_REGION_GATHER && (max_sge < 2 || costs->gather[0][0] == 0))
				next[w] = INFINITY;
		}
		memcpy(total, next, sizeof(total));
	}
	way = RF_REGION_COPY;
	for (int w = RF_REGION_COPY; w < WAYS; w++)
		if (total[w] < total[way])
			way = (RfRegionMode) w;

	/* Back to front, then join what is alike. */
	for (int i = pieces - 1; i >= 0; i--)
	{
		RfRegionMode before = from[i][way];

		parts[i] = (RfRegionPart) {(uint32_t) i * rows, (uint32_t) (i + 1) * rows < count ? (uint32_t) (i + 1) * rows : count,
			way, shapes[i].useful, way == RF_REGION_BOX ? shapes[i].box - shapes[i].useful : 0};
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

/* ---------- measuring ---------- */

#define AREA		(1u << 20)		/* bytes that are read: larger than what is nearest to a processor */
#define WORDS		1024
#define TIMES		7				/* the best of so many: what disturbs only adds */

static double
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

/* The reader's loop: one load per row, as decoding one value of it takes. */
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
 * To the compiler, what was made of the memory is used here, and the memory may be different from
 * now on: what is measured is neither left out nor moved to before or behind a clock's reading.
 */
static inline void
keep(void *memory, uint64_t made)
{
	__asm__ volatile("" : : "r"(memory), "r"(made) : "memory");
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
	/* Round by round, so that a disturbance does not spoil all times of one of them. */
	for (int i = 0; i < TIMES; i++)
	{
		for (int k = 0; k < RF_COST_GAPS * RF_COST_LENGTHS; k++)
		{
			int			g = k / RF_COST_LENGTHS;
			int			l = k % RF_COST_LENGTHS;
			uint32_t	stride = (uint32_t) rf_cost_lengths[l] + (g == 0 ? 0 : (uint32_t) rf_cost_gaps[g]);
			uint32_t	rows = AREA / stride < 8192 ? AREA / stride : 8192;

			/* The first times bring into the caches what the others left outside. */
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

	/* One row of each word, and half of them in no order; and these read where they lie. */
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
			costs->pick = fminf(costs->pick, (float) ((now_ns() - begin) / rf_mask_count(mask, WORDS * 64)));
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
