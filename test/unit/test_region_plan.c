/*
 * test_region_plan.c - which way a region goes (region.h), by costs made up here, and that costs
 * can be measured over providers (src/engine/regions.h); with the argument "verbs", only over a
 * device.
 *
 * RF_TSAN is not asked for: nothing here is shared between threads.
 */
#include <math.h>

#include "pair.h"

#include "region_sets.h"
#include "../../src/engine/regions.h"

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
static RfRegionCosts
made_up(void)
{
	RfRegionCosts costs = {.pick = 0.5f, .select = 2, .shuffle = 10, .request = 500, .byte = 0.1f};

	for (int g = 0; g < RF_COST_GAPS; g++)
	{
		for (int l = 0; l < RF_COST_LENGTHS; l++)
		{
			costs.read[g][l] = 0.5f;
			costs.copy[g][l] = 3 + rf_cost_lengths[l] * 0.35f;
			costs.gather[g][l] = 30 + rf_cost_lengths[l] * 0.1f;
		}
	}
	return costs;
}

static RfRegionMode
chosen(const RfRegionCosts *costs, RfRegionMode mode, int max_sge, const RfNcr *region,
	   RfRegionEstimate *estimate)
{
	RfNcrSet	set = {region, 1, RF_NCR_COLUMNAR};
	RfRegionShape shape;

	check(rf_region_shape(&set, &shape), "a shape");
	return rf_region_choose(costs, mode, max_sge, &shape, estimate);
}

static void
test_choice(uint8_t *memory)
{
	RfRegionCosts costs = made_up();
	RfRegionCosts far = costs;
	RfNcr		sparse = RF_NCR_STRIDED_INIT(memory, 4, 400, 1000, NULL);
	RfNcr		dense = RF_NCR_STRIDED_INIT(memory, 16, 20, 10000, NULL);
	RfNcr		wide = RF_NCR_STRIDED_INIT(memory, 512, 8192, 100, NULL);
	RfNcr		whole = RF_NCR_STRIDED_INIT(memory, 8, 8, 10000, NULL);
	RfRegionEstimate estimate;

	check(chosen(&costs, RF_REGION_AUTO, 30, &sparse, &estimate) == RF_REGION_COPY &&
		  estimate.chosen == estimate.copy && estimate.copy < estimate.gather &&
		  estimate.copy < estimate.box,
		  "few narrow fields are copied out");
	check(chosen(&costs, RF_REGION_AUTO, 30, &dense, &estimate) == RF_REGION_BOX &&
		  estimate.chosen == estimate.box,
		  "small gaps travel with their box");
	check(chosen(&costs, RF_REGION_AUTO, 30, &wide, &estimate) == RF_REGION_GATHER &&
		  estimate.chosen == estimate.gather,
		  "wide fields far apart are gathered");
	check(chosen(&costs, RF_REGION_AUTO, 1, &wide, &estimate) != RF_REGION_GATHER,
		  "but not where a request has one entry");
	check(chosen(&costs, RF_REGION_AUTO, 30, &whole, &estimate) != RF_REGION_COPY &&
		  estimate.gather < estimate.copy, "what has no gap goes from where it lies");
	check(chosen(&costs, RF_REGION_COPY, 30, &dense, &estimate) == RF_REGION_COPY &&
		  estimate.chosen == estimate.copy &&
		  chosen(&costs, RF_REGION_GATHER, 30, &dense, NULL) == RF_REGION_GATHER &&
		  chosen(&costs, RF_REGION_BOX, 30, &sparse, NULL) == RF_REGION_BOX,
		  "each can be forced");
	check(chosen(&costs, RF_REGION_GATHER, 1, &dense, NULL) == RF_REGION_COPY,
		  "what cannot be gathered is copied");
	far.wire = 2;				/* 500 MB/s */
	check(chosen(&far, RF_REGION_AUTO, 30, &dense, NULL) == RF_REGION_COPY,
		  "over a slow wire gaps do not pay");
	whole.count = 0;
	check(chosen(&costs, RF_REGION_AUTO, 30, &whole, &estimate) == RF_REGION_COPY &&
		  estimate.chosen == 0,
		  "nothing costs nothing");
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
		RfRegionShape shape;
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
		near = near && fabs((double) shape.useful - (double) gaps.useful) <= allowed &&
			fabs((double) shape.fragments - (double) gaps.fragments) <=
			(allowed == 0 ? 0 : 0.5 * (double) gaps.fragments + 100) &&
			shape.box == (uint64_t) count * 4 && shape.rows * 4 == shape.useful;
	}
	check(near, "the shape of a random bitmap is near what counting finds");
}

/* A column of which the first half goes whole and the second by a row in a hundred. */
static void
test_parts(uint8_t *memory, uint64_t *mask)
{
	RfRegionCosts costs = made_up();
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

	costs.request = 1e9f;
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

static void
test_counts(void)
{
	RfRegionCounts counts = {0};

	rf_region_count(&counts, RF_REGION_COPY, 100, 900);
	rf_region_count(&counts, RF_REGION_BOX, 1, 9);
	check(counts.copies == 1 && counts.boxes == 1 && counts.useful_bytes == 101 &&
		  counts.gap_bytes == 9, "only a box moves gaps");
}

static void
test_measuring(void)
{
	static const char *const names[] = {"shm", "tcp"};
	RfProviderConfig settings = {.gid_index = -1};
	RfError		error = {0};
	RfDevice   *device = rf_provider_soft.device_open(&settings, &error);
	RfRegionCosts costs;
	int			fds = open_fds();

	memset(&costs, 0, sizeof(costs));
	check(rf_region_measure(&costs), "costs of this machine");
	for (int g = 0; g < RF_COST_GAPS; g++)
		for (int l = 0; l < RF_COST_LENGTHS; l++)
			check(costs.read[g][l] > 0, "reading costs something");
	check(costs.pick > 0 && costs.select > 0, "and so do bitmaps");
	for (int tcp = 0; tcp < 2; tcp++)
	{
		double		deadline = now_seconds() + PATIENCE;
		bool		positive = true;
		bool		good;
		int			socks[2];

		check_prefix = names[tcp];
		/* It gives up after a second, which may go by on a busy machine. */
		do
		{
			good = rf_regions_sockets(tcp, socks) &&
				rf_regions_measure(&rf_provider_soft, device, socks, &costs, &error);
		} while (!good && now_seconds() < deadline);
		check(good, "is measured");
		check(costs.strided[0][0] == 0, "without what the device does not have");
		for (int g = 0; g < RF_COST_GAPS; g++)
			for (int l = 0; l < RF_COST_LENGTHS; l++)
				positive = positive && costs.gather[g][l] > 0 && costs.copy[g][l] >= 0;
		check(positive && costs.request > 0 && costs.byte >= 0, "and costs something");
		check(open_fds() == fds, "nothing stays open");
	}
	check_prefix = NULL;
	check(!rf_regions_measure(&rf_provider_soft, device, (int[]) {-1, -1}, &costs, &error) &&
		  error.kind != RF_ERROR_NONE, "without sockets it says why not");
	check(open_fds() == fds, "and leaves nothing open");
	rf_provider_soft.device_close(device);
}

/* The engine's measurement at its start, with the machine's own device. */
static void
test_verbs(void)
{
#ifdef WITH_VERBS
	RfProviderConfig settings = {.gid_index = -1, .timeout = 14, .retry_count = 7};
	RfError		error = {0};
	RfDevice   *device = rf_provider_verbs.device_open(&settings, &error);
	double		deadline = now_seconds() + PATIENCE;
	int			fds = open_fds();
	int			times = 0;
	RfDeviceCaps caps;
	RfRegionCosts costs;
	bool		good;

	check_prefix = "verbs";
	if (device == NULL)
		die("device_open", error.message);
	rf_provider_verbs.device_caps(device, &caps);
	memset(&costs, 0, sizeof(costs));
	do
	{
		good = rf_regions_measure(&rf_provider_verbs, device, (int[]) {-1, -1}, &costs, &error);
		times++;
	} while (!good && now_seconds() < deadline);
	check(good, "is measured");
	printf(
		   "# at the %d. time; a request %.0f ns, a byte %.3f, an entry of 4 bytes %.0f, copied "
		   "%.0f\n",
		   times, costs.request, costs.byte, costs.gather[1][0], costs.copy[1][0]);
	for (int g = 0; g < RF_COST_GAPS; g++)
		for (int l = 0; l < RF_COST_LENGTHS; l++)
			good = good && costs.copy[g][l] >= 0 &&
				(costs.gather[g][l] > 0) == (caps.max_sge > 1) &&
				(costs.strided[g][l] > 0) == (caps.max_strided > 0);
	check(good && costs.request > 0 && costs.byte > 0, "and costs something");
	check(costs.copy[1][RF_COST_LENGTHS - 1] > costs.copy[1][0], "more bytes more");
	check(open_fds() == fds, "nothing stays open");
	rf_provider_verbs.device_close(device);
#else
	die("test_region_plan", "made without verbs");
#endif
}

/* The simulated fabric moves when it is looked at. */
static int
step_and_poll(RfCq *cq, RfWc *wc, int max)
{
	(void) rf_sim_run(64);
	return rf_provider_sim.cq_poll(cq, wc, max);
}

/*
 * A device with strided entries: measured, then chosen where it costs less; and one without them.
 */
static void
test_strided(uint8_t *memory, uint64_t *mask)
{
	RfProvider	stepping = rf_provider_sim;
	RfRegionCosts costs = made_up();
	RfField		field = {8, 4};
	RfField		fields[2] = {{8, 4}, {16, 4}};
	RfNcr		sparse = RF_NCR_STRIDED_INIT(memory, 4, 400, 1000, NULL);
	RfNcr		far = RF_NCR_STRIDED_INIT(memory, 4, 70000, 20, NULL);
	RfNcr		one_field = RF_NCR_STRIDED_INIT(memory, 32, 40, 1000, NULL);
	RfNcr		bitmap = RF_NCR_BITMAP_INIT(memory, 4, 1000, mask);
	RfNcr		both[2];
	RfNcrSet	set = {both, 2, RF_NCR_COLUMNAR};
	RfRegionShape shape;
	RfRegionEstimate estimate;
	const uint8_t *first;
	uint32_t	element;
	uint32_t	stride;
	RfError		error = {0};
	double		deadline = now_seconds() + PATIENCE;

	check(chosen(&costs, RF_REGION_AUTO, 30, &sparse, &estimate) == RF_REGION_COPY &&
		  estimate.strided == 0 &&
		  chosen(&costs, RF_REGION_STRIDED, 30, &sparse, NULL) == RF_REGION_COPY,
		  "without the device, never strided entries, also when forced");
	for (int g = 0; g < RF_COST_GAPS; g++)
		for (int l = 0; l < RF_COST_LENGTHS; l++)
			costs.strided[g][l] = 1 + rf_cost_lengths[l] * 0.1f;
	costs.entry = 400;
	check(chosen(&costs, RF_REGION_AUTO, 30, &sparse, &estimate) == RF_REGION_STRIDED &&
		  estimate.chosen == estimate.strided && estimate.strided < estimate.copy,
		  "with it, where it costs least");
	costs.entry = 1e6f;
	check(chosen(&costs, RF_REGION_AUTO, 30, &sparse, &estimate) == RF_REGION_COPY,
		  "not for the price of the key");
	check(chosen(&costs, RF_REGION_STRIDED, 30, &sparse, &estimate) == RF_REGION_STRIDED &&
		  estimate.chosen == estimate.strided,
		  "unless forced");
	costs.entry = 0;
	check(chosen(&costs, RF_REGION_STRIDED, 30, &far, NULL) == RF_REGION_COPY,
		  "never too far apart");
	check(chosen(&costs, RF_REGION_STRIDED, 30, &bitmap, NULL) == RF_REGION_COPY,
		  "nor by a bitmap");
	one_field.fields = &field;
	one_field.field_count = 1;
	check(chosen(&costs, RF_REGION_STRIDED, 30, &one_field, NULL) == RF_REGION_STRIDED &&
		  rf_ncr_strided(&one_field, &first, &element, &stride) && first == memory + 8 &&
		  element == 4 && stride == 40,
		  "one field of each row is strided");
	both[0] = one_field;
	one_field.fields = fields;
	one_field.field_count = 2;
	check(chosen(&costs, RF_REGION_STRIDED, 30, &one_field, NULL) == RF_REGION_COPY, "two are not");
	both[1] = both[0];
	both[1].fields = &fields[1];
	check(rf_region_shape(&set, &shape) && shape.strided == 2,
		  "column by column they are two entries");
	set.order = RF_NCR_TRANSPOSED;
	check(rf_region_shape(&set, &shape) && shape.strided == 0, "row by row none");

	stepping.cq_poll = step_and_poll;
	for (int has = 0; has < 2; has++)
	{
		RfDevice   *device;
		bool		good;

		rf_sim_reset(&(RfSimConfig) {.seed = 9, .strided = has ? 4 : 0});
		device = stepping.device_open(NULL, &error);
		memset(&costs, 0, sizeof(costs));
		do
			good = rf_regions_measure(&stepping, device, (int[]) {-1, -1}, &costs, &error);
		while (!good && now_seconds() < deadline);
		check(good && costs.gather[0][0] > 0, "the simulated device is measured");
		for (int g = 0; g < RF_COST_GAPS; g++)
			for (int l = 0; l < RF_COST_LENGTHS; l++)
				good = good && (costs.strided[g][l] > 0) == has;
		check(good, has ? "strided entries cost something" : "and has no strided entries");
		check((chosen(&costs, RF_REGION_STRIDED, 30, &sparse, NULL) == RF_REGION_STRIDED) == has,
			  "which decides");
		stepping.device_close(device);
	}
	rf_sim_reset(NULL);
}

int
main(int argc, char **argv)
{
	uint8_t    *memory = calloc(2, ROWS * 32);
	uint64_t   *mask = calloc(RF_MASK_WORDS(ROWS), sizeof(uint64_t));

	if (argc > 1 && strcmp(argv[1], "verbs") == 0)
		test_verbs();
	else
	{
		test_choice(memory);
		test_shape(memory, mask);
		test_parts(memory, mask);
		test_counts();
		test_measuring();
		test_strided(memory, mask);
	}
	free(memory);
	free(mask);
	return failures > 0;
}
