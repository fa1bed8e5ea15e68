/*
 * test_region_plan.c - which way a region goes (region.h), by costs made up here, and that costs
 * can be measured over providers (src/engine/regions.h); with the argument "verbs", only over a
 * device.
 *
 * RF_TSAN is not asked for: nothing here is shared between threads.
 */
#include <math.h>

#include "pair.h"

#include "../../src/engine/regions.h"

/* A sender that copies slowly, an adapter that gathers at 30 ns an entry, a wire of 10 GB/s. */
static RfRegionCosts
made_up(void)
{
	RfRegionCosts costs = {.request = 500, .byte = 0.1f};

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

/* `rows` pieces of `width` bytes, one every `stride` bytes. */
typedef struct Rows
{
	uint32_t	width;
	uint32_t	stride;
	uint32_t	rows;
	bool		regular;		/* a strided entry says all of it */
} Rows;

static RfRegionMode
chosen(const RfRegionCosts *costs, RfRegionMode mode, int max_sge, const Rows *rows,
	   RfRegionEstimate *estimate)
{
	RfRegionShape shape = {
		.rows = rows->rows,
		.useful = (uint64_t) rows->rows * rows->width,
		.fragments = rows->stride > rows->width ? rows->rows : rows->rows > 0,
		.box = rows->rows == 0 ? 0 : (uint64_t) (rows->rows - 1) * rows->stride + rows->width,
		.strided = rows->regular
	};

	return rf_region_choose(costs, mode, max_sge, &shape, estimate);
}

static void
test_choice(void)
{
	RfRegionCosts costs = made_up();
	RfRegionCosts far = costs;
	Rows		sparse = {4, 400, 1000, true};
	Rows		dense = {16, 20, 10000, true};
	Rows		wide = {512, 8192, 100, true};
	Rows		whole = {8, 8, 10000, true};
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
	whole.rows = 0;
	check(chosen(&costs, RF_REGION_AUTO, 30, &whole, &estimate) == RF_REGION_COPY &&
		  estimate.chosen == 0,
		  "nothing costs nothing");
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
	RfProviderConfig settings = {.gid_index = -1, .timeout = 14};
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
test_strided(void)
{
	RfProvider	stepping = rf_provider_sim;
	RfRegionCosts costs = made_up();
	Rows		sparse = {4, 400, 1000, true};
	Rows		far = {4, 70000, 20, false};
	RfRegionEstimate estimate;
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
		  "never where no strided entry says it");

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
	if (argc > 1 && strcmp(argv[1], "verbs") == 0)
		test_verbs();
	else
	{
		test_choice();
		test_counts();
		test_measuring();
		test_strided();
	}
	return failures > 0;
}
