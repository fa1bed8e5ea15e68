/*
 * test_ncr_plan.c - the shapes of sets of regions, and the way of each part of them, by costs made up
 * here.
 */
#include <math.h>

#include "pair.h"

#include "ncr.h"

#define ROWS	65536

static uint64_t random_state = 88172645463325252ULL;

static uint64_t
pick(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* A sender that copies slowly, an adapter that gathers at 30 ns an entry, a wire of 10 GB/s. */
static NcrCosts
made_up(void)
{
	NcrCosts	costs = {
		.region = {.request = 500, .byte = 0.1f}, .pick = 0.5f, .select = 2, .shuffle = 10
	};

	for (int g = 0; g < RF_COST_GAPS; g++)
	{
		for (int l = 0; l < RF_COST_LENGTHS; l++)
		{
			costs.region.read[g][l] = 0.5f;
			costs.region.copy[g][l] = 3 + rf_cost_lengths[l] * 0.35f;
			costs.region.gather[g][l] = 30 + rf_cost_lengths[l] * 0.1f;
		}
	}
	return costs;
}

/* An estimate from a sample is close to the true value. */
static void
test_shape(uint8_t *memory, uint64_t *mask)
{
	bool		near = true;

	for (int i = 0; i < 200; i++)
	{
		uint32_t	count = 1 + (uint32_t) pick(ROWS);
		uint32_t	of_100 = 5 + (uint32_t) pick(95);
		RfNcr		region = RF_NCR_BITMAP_INIT(memory, 4, count, mask);
		RfNcrSet	set = {&region, 1, RF_NCR_COLUMNAR};
		NcrShape	shape;
		RfGaps		gaps;
		double		allowed;

		for (size_t word = 0; word < RF_MASK_WORDS(count); word++)
		{
			mask[word] = 0;
			for (int bit = 0; bit < 64; bit++)
				mask[word] |= (uint64_t) (pick(100) < of_100) << bit;
		}
		(void) rf_ncr_gaps(&set, &gaps);
		(void) rf_region_shape(&set, &shape);
		allowed = count < 1024 ? 0 : 0.5 * (double) gaps.useful;
		near = near && fabs((double) shape.region.useful - (double) gaps.useful) <= allowed &&
			fabs((double) shape.region.fragments - (double) gaps.fragments) <=
			(allowed == 0 ? 0 : 0.5 * (double) gaps.fragments + 100) &&
			shape.region.box == (uint64_t) count * 4 && shape.region.rows * 4 == shape.region.useful;
	}
	check(near, "the shape of a random bitmap is near what counting finds");
}

/* A column of which the first half goes whole and the second by a row in a hundred. */
static void
test_parts(uint8_t *memory, uint64_t *mask)
{
	NcrCosts	costs = made_up();
	RfNcr		region = RF_NCR_BITMAP_INIT(memory, 64, ROWS / 4, mask);
	RfNcr		two[2];
	RfNcr		part_regions[2];
	RfNcrSet	set = {&region, 1, RF_NCR_COLUMNAR};
	RfNcrSet	part;
	RfRegionPart parts[RF_REGION_MAX_PARTS];
	uint64_t	bytes = 0;
	uint8_t    *whole = malloc(ROWS * 32);
	uint8_t    *pieces = malloc(ROWS * 32);
	int			count;
	bool		follows = true;

	for (size_t word = 0; word < RF_MASK_WORDS(ROWS / 4); word++)
		mask[word] = word < ROWS / 512 ? ~(uint64_t) 0 : (uint64_t) 1 << pick(64);
	count = rf_region_plan(&costs, RF_REGION_AUTO, 30, &set, parts);
	check(count == 2 && parts[0].mode != RF_REGION_COPY && parts[1].mode == RF_REGION_COPY &&
		  parts[0].end >= ROWS / 8 - 2048 && parts[0].end <= ROWS / 8 + 2048,
		  "where a bitmap changes, so does the way");
	for (int i = 0; i < count; i++)
	{
		follows = follows && parts[i].first == (i == 0 ? 0 : parts[i - 1].end) &&
			parts[i].first % 64 == 0;
		rf_region_part(&set, parts[i].first, parts[i].end, part_regions, &part);
		bytes += rf_ncr_pack(&part, pieces + bytes, ROWS * 32 - bytes);
	}
	check(follows && parts[count - 1].end == ROWS / 4, "parts follow each other to the last row");
	check(rf_ncr_pack(&set, whole, ROWS * 32) == bytes && memcmp(whole, pieces, bytes) == 0,
		  "and are together what the region is");

	costs.region.request = 1e9f;
	check(rf_region_plan(&costs, RF_REGION_AUTO, 30, &set, parts) == 1,
		  "but not when a request more costs more");
	costs = made_up();
	check(rf_region_plan(&costs, RF_REGION_COPY, 30, &set, parts) == 1 &&
		  parts[0].mode == RF_REGION_COPY && parts[0].end == ROWS / 4,
		  "forced, it is one part");

	/* Two columns of it, row by row. */
	two[0] = region;
	two[1] = region;
	two[1].base += ROWS / 4 * 64;
	set = (RfNcrSet) {two, 2, RF_NCR_TRANSPOSED};
	count = rf_region_plan(&costs, RF_REGION_AUTO, 30, &set, parts);
	bytes = 0;
	for (int i = 0; i < count; i++)
	{
		rf_region_part(&set, parts[i].first, parts[i].end, part_regions, &part);
		bytes += rf_ncr_pack(&part, pieces + bytes, ROWS * 32 - bytes);
	}
	check(count >= 1 && rf_ncr_pack(&set, whole, ROWS * 32) == bytes &&
		  memcmp(whole, pieces, bytes) == 0,
		  "parts of a transposed set");
	free(whole);
	free(pieces);
}

/* Which regions a strided entry can say. */
static void
test_strided(uint8_t *memory, uint64_t *mask)
{
	RfField		field = {8, 4};
	RfField		fields[2] = {{8, 4}, {16, 4}};
	RfNcr		far = RF_NCR_STRIDED_INIT(memory, 4, 70000, 20, NULL);
	RfNcr		one_field = RF_NCR_STRIDED_INIT(memory, 32, 40, 1000, NULL);
	RfNcr		bitmap = RF_NCR_BITMAP_INIT(memory, 4, 1000, mask);
	RfNcr		both[2];
	RfNcrSet	set = {both, 2, RF_NCR_COLUMNAR};
	NcrShape	shape;
	const uint8_t *first;
	uint32_t	element;
	uint32_t	stride;

	check(!rf_ncr_strided(&far, &first, &element, &stride), "not rows too far apart");
	check(!rf_ncr_strided(&bitmap, &first, &element, &stride), "nor a bitmap's");
	one_field.fields = &field;
	one_field.field_count = 1;
	check(rf_ncr_strided(&one_field, &first, &element, &stride) && first == memory + 8 &&
		  element == 4 && stride == 40,
		  "one field of each row is strided");
	both[0] = one_field;
	one_field.fields = fields;
	one_field.field_count = 2;
	check(!rf_ncr_strided(&one_field, &first, &element, &stride), "two are not");
	both[1] = both[0];
	both[1].fields = &fields[1];
	check(rf_region_shape(&set, &shape) && shape.region.strided == 2,
		  "column by column they are two entries");
	set.order = RF_NCR_TRANSPOSED;
	check(rf_region_shape(&set, &shape) && shape.region.strided == 0, "row by row none");
}

static void
test_measuring(void)
{
	NcrCosts	costs;

	memset(&costs, 0, sizeof(costs));
	check(ncr_measure(&costs) && costs.pick > 0 && costs.select > 0, "bitmaps cost something");
}

int
main(void)
{
	uint8_t    *memory = calloc(2, ROWS * 32);
	uint64_t   *mask = calloc(RF_MASK_WORDS(ROWS), sizeof(uint64_t));

	test_shape(memory, mask);
	test_parts(memory, mask);
	test_strided(memory, mask);
	test_measuring();
	free(memory);
	free(mask);
	return failures > 0;
}
