/*
 * region_bench.c - regions over a provider, without PostgreSQL: the cost of a row copied out,
 * gathered by work requests, as a box with its gaps, as strided entries where the device has them,
 * as one request per field, and the way that the measured costs choose (D-RDMA, section 5).
 *
 * One thread is sender, transport (as far as that is a processor's work) and reader, so a time is
 * the cost of the row for all of them together; the reader loads four bytes of every row, where
 * they lie. Ways are interleaved, and of each the best round counts; of the chosen way, also the
 * best round together with the time for the choice.
 *
 * region_bench [-r rounds] [-u microseconds per run] [-f most fragments] [transport ...]
 */
#include <math.h>
#include <stdint.h>
#include <sys/resource.h>

#include "pair.h"

#include "base/clock.h"
#include "ncr.h"
#include "../../src/engine/regions.h"
#include "route.h"

#define MOST_ROUNDS	101
#define AREA		(8u << 20)	/* a source; as much again each for the packed rows and for the
								 * arriving rows */
#define SEND_QUEUE	256
#define MOST_ROWS	65536
#define MOST_EACH	1024		/* fragments that go by a request each; more of them cost each the
								 * same */

enum
{
	COPY, GATHER, BOX, CHOSEN, EACH, STRIDED, WAYS
};

static const char *const mode_names[] = {[RF_REGION_COPY] = "copy",
	[RF_REGION_GATHER] = "gather",
	[RF_REGION_BOX] = "box",
[RF_REGION_STRIDED] = "strided"};
static int	rounds = 7;
static double began;
static int	run_us = 1000;
static uint64_t most_fragments = 1u << 20;
static volatile uint64_t sink;

typedef struct Bench
{
	Pair		pair;
	const char *transport;
	uint8_t    *source;
	uint8_t    *packed;			/* copied out, or a description */
	uint8_t    *target;			/* at the reader's */
	NcrCosts	costs;
	int			max_sge;
	bool		strided;		/* the device has strided entries */
	RfWr		wrs[SEND_QUEUE];
	RfSge		sges[SEND_QUEUE][RF_MAX_SGE];
	uint64_t	posted;
	RfRegionMode mode;			/* chosen last */
	int			parts;
} Bench;

static double
now_ns(void)
{
	return (double) rf_clock_ns(CLOCK_MONOTONIC);
}

static int
compare(const void *a, const void *b)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return left < right ? -1 : left > right;
}

static double
median(const double *values, int count)
{
	double		sorted[MOST_ROUNDS];

	memcpy(sorted, values, (size_t) count * sizeof(double));
	qsort(sorted, (size_t) count, sizeof(double), compare);
	return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* The minimum of the times: other load disturbs it least. */
static double
least(const double *values, int count)
{
	double		best = values[0];

	for (int i = 1; i < count; i++)
		best = fmin(best, values[i]);
	return best;
}

static uint64_t random_state = 88172645463325252ULL;

static uint64_t
pick(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* ---------- sending ---------- */

/* Post the chain of `count` work requests and wait until it has arrived. */
static void
post(Bench *b, int count)
{
	RfWr	   *last = &b->wrs[count - 1];
	bool		sent = false;
	bool		came = false;

	for (int i = 0; i < count; i++)
		b->wrs[i].next = i + 1 < count ? &b->wrs[i + 1] : NULL;
	last->opcode = RF_WR_WRITE_IMM;
	last->signaled = true;
	last->wr_id = ++b->posted;
	last->imm = (uint32_t) b->posted;
	b->pair.a.provider->qp_post(b->pair.a.qp, b->wrs);
	while (!sent || !came)
	{
		RfWc		wcs[16];
		int			n = b->pair.a.provider->cq_poll(b->pair.a.cq, wcs, 16);

		for (int i = 0; i < n; i++)
		{
			if (wcs[i].status != RF_WC_SUCCESS || wcs[i].opcode == RF_WC_DISCONNECTED)
				die("region_bench", "a write failed");
			sent = sent || (wcs[i].opcode == RF_WC_WRITE && wcs[i].wr_id == b->posted);
			came = came || (wcs[i].opcode == RF_WC_RECV_IMM && wcs[i].imm == (uint32_t) b->posted);
		}
	}
}

static RfWr *
request_to(Bench *b, int i, uint64_t to)
{
	b->wrs[i] = (RfWr)
	{
		.opcode = RF_WR_WRITE,
			.sge = b->sges[i],
			.remote_addr = (uint64_t) (uintptr_t) (b->target + to),
			.rkey = b->pair.b.region->rkey
	};
	return &b->wrs[i];
}

static void
send_one_piece(Bench *b, const uint8_t *head, uint32_t head_length, const uint8_t *body,
			   uint64_t length)
{
	RfWr	   *wr = request_to(b, 0, 0);

	if (head_length > 0)
		b->sges[0][wr->num_sge++] = (RfSge) {head, head_length, b->pair.a.region->lkey};
	b->sges[0][wr->num_sge++] = (RfSge) {body, (uint32_t) length, b->pair.a.region->lkey};
	post(b, 1);
}

/* All elements as one entry, which the device takes apart. */
static void
send_strided(Bench *b, const RfNcr *region)
{
	RfStrided	strided = {0};
	RfWr	   *wr = request_to(b, 0, 0);
	const uint8_t *first;

	if (!rf_ncr_strided(region, &first, &strided.element, &strided.stride))
		die("region_bench", "not a strided region");
	b->sges[0][wr->num_sge++] = (RfSge)
	{
		first, strided.element * region->count,
			b->pair.a.region->lkey
	};
	wr->strided = &strided;
	wr->num_strided = 1;
	post(b, 1);
}

/* So many fragments per work request. */
static void
send_fragments(Bench *b, const RfNcrSet *set, int entries)
{
	RfNcrCursor cursor;
	RfNcrPiece	fragment;
	uint64_t	to = 0;
	int			count = 0;

	rf_ncr_begin(&cursor, set);
	while (rf_ncr_next(&cursor, &fragment))
	{
		RfWr	   *wr = &b->wrs[count - 1];

		if (count == 0 || wr->num_sge == entries)
		{
			if (count == SEND_QUEUE / 4)
			{
				post(b, count);
				count = 0;
			}
			wr = request_to(b, count++, to);
		}
		b->sges[count - 1][wr->num_sge++] = (RfSge)
		{
			fragment.at, (uint32_t) fragment.length,
				b->pair.a.region->lkey
		};
		to += fragment.length;
	}
	if (count > 0)
		post(b, count);
}

/* ---------- reading ---------- */

static inline uint64_t
value_at(const uint8_t *at)
{
	uint32_t	value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static void
skim_packed(const uint8_t *from, uint32_t width, uint64_t rows)
{
	uint64_t	sum = 0;

	for (uint64_t i = 0; i < rows; i++)
		sum += value_at(from + i * width);
	sink += sum;
}

/*
 * Before a box goes its description: the RfNcr as the sender has it, and the bitmap when there is
 * one; the box begins at the next cache line.
 */
static uint32_t
head_length(const RfNcr *region)
{
	size_t		mask = region->rows == NULL ? 0 : RF_MASK_WORDS(region->count) * sizeof(uint64_t);

	return (uint32_t) (sizeof(RfNcr) + mask + 63) / 64 * 64;
}

static void
write_head(void *to, const RfNcr *region)
{
	memcpy(to, region, sizeof(*region));
	if (region->rows != NULL)
		memcpy((RfNcr *) to + 1, region->rows, RF_MASK_WORDS(region->count) * sizeof(uint64_t));
}

/*
 * The region as it lies in the target, by a copy of its description, as a reader makes one whose
 * peer can still write there.
 */
static void
read_head(Bench *b, RfNcr *region)
{
	static uint64_t mask[RF_MASK_WORDS(MOST_ROWS * 4)];

	memcpy(region, b->target, sizeof(*region));
	region->base = b->target + head_length(region);
	if (region->rows != NULL)
	{
		memcpy(mask, b->target + sizeof(*region), RF_MASK_WORDS(region->count) * sizeof(uint64_t));
		region->rows = mask;
	}
}

static void
skim_box(Bench *b)
{
	RfNcr		region;
	uint64_t	sum = 0;

	read_head(b, &region);
	if (region.rows == NULL)
		for (uint32_t row = 0; row < region.count; row++)
			sum += value_at(region.base + (size_t) row * region.stride);
	else
		for (size_t word = 0; word < RF_MASK_WORDS(region.count); word++)
			for (uint64_t bits = region.rows[word]; bits != 0; bits &= bits - 1)
			{
				size_t		row = word * 64 + (size_t) __builtin_ctzll(bits);

				if (row < region.count)
					sum += value_at(region.base + row * region.stride);
			}
	sink += sum;
}

/* ---------- the ways ---------- */

static void
move_set(Bench *b, const RfNcrSet *set, RfRegionMode mode, uint64_t rows)
{
	const RfNcr *region = set->regions;

	switch (mode)
	{
		case RF_REGION_GATHER:
			send_fragments(b, set, b->max_sge);
			break;
		case RF_REGION_BOX:
			write_head(b->packed, region);
			send_one_piece(b, b->packed, head_length(region), region->base,
						   (uint64_t) (region->count - 1) * region->stride + region->width);
			skim_box(b);
			return;
		case RF_REGION_STRIDED:
			send_strided(b, region);
			break;
		default:
			send_one_piece(b, NULL, 0, b->packed, rf_ncr_pack(set, b->packed, AREA));
			break;
	}
	skim_packed(b->target, region->width, rows);
}

static void
move(Bench *b, const RfNcrSet *set, int way, uint64_t rows)
{
	RfRegionPart parts[RF_REGION_MAX_PARTS];
	RfNcr		regions[1];

	switch (way)
	{
		case COPY:
			move_set(b, set, RF_REGION_COPY, rows);
			break;
		case GATHER:
			move_set(b, set, RF_REGION_GATHER, rows);
			break;
		case BOX:
			move_set(b, set, RF_REGION_BOX, rows);
			break;
		case STRIDED:
			move_set(b, set, RF_REGION_STRIDED, rows);
			break;
		case EACH:
			send_fragments(b, set, 1);
			skim_packed(b->target, set->regions[0].width, rows);
			break;
		default:
			b->parts = rf_region_plan(&b->costs, RF_REGION_AUTO, b->max_sge, set, parts);
			for (int i = 0; i < b->parts; i++)
			{
				RfNcrSet	part = *set;

				if (b->parts > 1)
					rf_region_part(set, parts[i].first, parts[i].end, regions, &part);
				b->mode = parts[i].mode;
				if (parts[i].useful > 0)
					move_set(b, &part, parts[i].mode, parts[i].useful / set->regions[0].width);
			}
			break;
	}
}

/* Returns true if the region can go this way. */
static bool
is_there(const Bench *b, const RfNcrSet *set, int way)
{
	const uint8_t *first;
	uint32_t	element;
	uint32_t	stride;

	return way != STRIDED ||
		(b->strided && rf_ncr_strided(set->regions, &first, &element, &stride));
}

/*
 * Checks that the receiver would get the same rows. Once per way and shape, outside the
 * measurement.
 */
static void
verify(Bench *b, const RfNcrSet *set, uint64_t rows)
{
	uint64_t	bytes = rf_ncr_set_bytes(set);
	uint8_t    *wanted = malloc(bytes + 1);
	uint8_t    *found = malloc(bytes + 1);

	rf_ncr_pack(set, wanted, bytes);
	for (int way = COPY; way < WAYS; way++)
	{
		if (way == CHOSEN || way == EACH || !is_there(b, set, way))
			continue;
		memset(b->target, 0, AREA);
		move(b, set, way, rows);
		if (way != BOX)
			memcpy(found, b->target, bytes);
		else
		{
			RfNcr		back;

			read_head(b, &back);
			if (rf_ncr_pack(&(RfNcrSet) {&back, 1, RF_NCR_COLUMNAR}, found, bytes) != bytes)
				die("region_bench", "a box does not come back");
		}
		if (memcmp(wanted, found, bytes) != 0)
			die("region_bench", "other bytes arrived than were sent");
	}
	free(wanted);
	free(found);
}

/* The cost of the choice itself. */
static double
choice_ns(Bench *b, const RfNcrSet *set)
{
	RfRegionPart parts[RF_REGION_MAX_PARTS];
	double		best = INFINITY;

	for (int i = 0; i < 20; i++)
	{
		double		begin = now_ns();

		sink += (uint64_t) rf_region_plan(&b->costs, RF_REGION_AUTO, b->max_sge, set, parts);
		best = fmin(best, now_ns() - begin);
	}
	return best;
}

static void
measure(Bench *b, const char *layout, uint32_t width, double density)
{
	static uint64_t mask[RF_MASK_WORDS(MOST_ROWS * 4)];
	bool		bitmap = strcmp(layout, "bitmap") == 0;
	uint32_t	stride = bitmap ? width : (uint32_t) ((double) width / density + 0.5);
	uint32_t	count = (1u << 20) / stride;
	RfNcr		region;
	RfNcrSet	set = {&region, 1, RF_NCR_COLUMNAR};
	RfGaps		gaps;
	uint64_t	rows;
	double		ns[WAYS][MOST_ROUNDS];
	int			best = COPY;
	RfNcr		few;			/* of it, for one request per field */
	RfNcrSet	one_by_one = {&few, 1, RF_NCR_COLUMNAR};
	uint64_t	few_rows;
	double		chosen;

	/* A MB, or as much more as 512 rows need. */
	while (count * (bitmap ? density : 1) < 512 && 2 * (uint64_t) count * stride <= AREA / 2)
		count *= 2;
	count = count < 128 ? 128 : count > MOST_ROWS * 4 ? MOST_ROWS * 4 : count;
	if (bitmap)
	{
		memset(mask, 0, sizeof(mask));
		for (uint32_t row = 0; row < count; row++)
			if ((double) (pick() >> 11) / 9007199254740992.0 < density)
				mask[row / 64] |= (uint64_t) 1 << (row % 64);
		region = RF_NCR_BITMAP_INIT(b->source, width, count, mask);
	}
	else
		region = RF_NCR_STRIDED_INIT(b->source, width, stride, count, NULL);
	while (rf_ncr_gaps(&set, &gaps) && gaps.fragments > most_fragments && region.count > 256)
		region.count /= 2;
	rows = rf_ncr_rows(&region);
	if (rows == 0)
		return;
	few = region;
	while (rf_ncr_gaps(&one_by_one, &gaps) && gaps.fragments > MOST_EACH)
		few.count /= 2;
	few_rows = rf_ncr_rows(&few);
	verify(b, &set, rows);
	for (int round = -1; round < rounds; round++)
	{
		for (int i = 0; i < WAYS; i++)
		{
			int			way = (i + round + WAYS) % WAYS;	/* no way is always first */
			double		begin = now_ns();
			int			times = 0;

			if (!is_there(b, &set, way))
			{
				ns[way][round < 0 ? 0 : round] = NAN;
				continue;
			}
			do
				move(b, way == EACH ? &one_by_one : &set, way, way == EACH ? few_rows : rows);
			while (++times < 2 || now_ns() - begin < run_us * 1000.0);
			if (round >= 0)
				ns[way][round] = (now_ns() - begin) / times *
					(way == EACH ? (double) rows / few_rows : 1);
		}
	}
	for (int way = COPY; way < WAYS; way++)
		if (way != CHOSEN && way != EACH && least(ns[way], rounds) < least(ns[best], rounds))
			best = way;

	/*
	 * Moved whole, the chosen way takes its way's time, and the choice: the load that was
	 * disturbed less.
	 */
	chosen = least(ns[CHOSEN], rounds);
	if (b->parts == 1)
		chosen = fmin(
					  chosen, choice_ns(b, &set) +
					  least(ns[b->mode == RF_REGION_STRIDED ? STRIDED : b->mode - RF_REGION_COPY],
							rounds));
	printf("row\t%s\t%s\t%u\t%.3f\t%llu", b->transport, layout, width, density,
		   (unsigned long long) rows);
	for (int way = 0; way <= EACH; way++)
		printf("\t%.2f", least(ns[way], rounds) / (double) rows);
	printf("\t%s%s\t%s\t%.2f", mode_names[b->mode], b->parts > 1 ? "+" : "",
		   best == STRIDED ? "strided" : mode_names[best + RF_REGION_COPY],
		   chosen / least(ns[best], rounds));
	printf("\t%.1f\t%.2f\n", least(ns[EACH], rounds) / least(ns[COPY], rounds),
		   least(ns[STRIDED], rounds) / (double) rows);
	fflush(stdout);
}

static void
over(const char *transport)
{
	static const uint32_t widths[] = {4, 8, 16, 32, 64, 128, 256, 512};
	static const double densities[] = {0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1};
	static Bench b;
	PairKind	kind = strcmp(transport, "shm") == 0 ? PAIR_SHM :
		strcmp(transport, "tcp") == 0 ? PAIR_TCP :
		PAIR_VERBS;
	RfDeviceCaps caps;
	RfError		error = {0};
	int			socks[2];

	memset(&b, 0, sizeof(b));
	b.transport = transport;
	pair_open_as(&b.pair, kind, 3 * (size_t) AREA, SEND_QUEUE, SEND_QUEUE, true);
	b.source = (uint8_t *) b.pair.a.memory;
	b.packed = b.source + AREA;
	b.target = (uint8_t *) b.pair.b.memory + 2 * AREA;
	for (size_t i = 0; i < AREA; i += 8)
	{
		uint64_t	word = pick();

		memcpy(b.source + i, &word, 8);
	}
	memset(b.packed, 0, AREA);
	memset(b.target, 0, AREA);
	b.pair.a.provider->device_caps(b.pair.a.device, &caps);
	b.max_sge = caps.max_sge < RF_MAX_SGE ? caps.max_sge : RF_MAX_SGE;
	b.strided = caps.max_strided > 0;
	pair_sockets(kind, socks);
	if (!ncr_measure(&b.costs) ||
		!rf_regions_measure(b.pair.a.provider, b.pair.a.device, socks, &b.costs.region, &error))
		die("region_bench", error.message);
	printf(
		   "costs\t%s\trequest %.0f ns, byte %.4f, pick %.1f, select %.1f, shuffle %.1f, vectors "
		   "%s\n",
		   transport, b.costs.region.request, b.costs.region.byte, b.costs.pick, b.costs.select,
		   b.costs.shuffle,
		   rf_mask_vectors());
	for (int i = 0; i < RF_COST_GAPS; i++)
	{
		const float *rows[] =
		{b.costs.region.copy[i], b.costs.region.gather[i], b.costs.region.read[i],
		b.costs.region.strided[i]};

		for (int k = 0; k < (b.strided ? 4 : 3); k++)
		{
			printf("costs\t%s\tgap %.0f: %s of 4 to 1024 bytes", transport, rf_cost_gaps[i],
				   ((const char *[]) {"copy", "gather", "read", "strided"})[k]);
			for (int l = 0; l < RF_COST_LENGTHS; l++)
				printf(" %.2f", rows[k][l]);
			printf("\n");
		}
	}
	for (int layout = 0; layout < 2; layout++)
		for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++)
		{
			int			seconds = (int) ((now_ns() - began) / 1e9);

			fprintf(stderr, "%d:%02d  %s, %s, %u bytes: %zu of %zu\n", seconds / 60, seconds % 60,
					transport, layout ? "bitmap" : "strided", widths[w],
					layout * sizeof(widths) / sizeof(widths[0]) + w + 1,
					2 * sizeof(widths) / sizeof(widths[0]));
			for (size_t d = 0; d < sizeof(densities) / sizeof(densities[0]); d++)
				measure(&b, layout ? "bitmap" : "strided", widths[w], densities[d]);
		}
	pair_close(&b.pair);
}

/* ---------- routing: five columns of 4 bytes (D-RDMA, section 2.1) ---------- */

#define COLUMNS		5
#define BATCH		8192

static double
cpu_ns(void)
{
	return (double) rf_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* A few rows, by their numbers. */
static void
pick_rows(uint32_t *to, const uint32_t *from, const uint32_t *numbers, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		to[i] = from[numbers[i]];
}

static void
route(uint32_t destinations)
{
	uint32_t   *columns = malloc((size_t) COLUMNS * BATCH * sizeof(uint32_t));
	uint32_t   *out = malloc((size_t) COLUMNS * BATCH * destinations * sizeof(uint32_t));
	uint16_t   *destination = malloc(BATCH * sizeof(uint16_t));
	uint64_t   *masks = malloc(destinations * RF_MASK_WORDS(BATCH) * sizeof(uint64_t));
	uint32_t   *counts = malloc(destinations * sizeof(uint32_t));
	uint32_t   *numbers = malloc(BATCH * sizeof(uint32_t));
	double		ns[2][MOST_ROUNDS];
	double		ratios[MOST_ROUNDS];

	for (size_t i = 0; i < (size_t) COLUMNS * BATCH; i++)
		columns[i] = (uint32_t) pick();
	for (int i = 0; i < BATCH; i++)
		destination[i] = (uint16_t) (pick() % destinations);
	memset(out, 0, (size_t) COLUMNS * BATCH * destinations * sizeof(uint32_t));
	for (int round = 0; round < rounds; round++)
	{
		for (int way = 0; way < 2; way++)
		{
			double		begin = cpu_ns();
			int			times = 0;

			do
			{
				if (way == 0)
				{
					memset(counts, 0, destinations * sizeof(uint32_t));
					for (uint32_t row = 0; row < BATCH; row++)
					{
						uint32_t	d = destination[row];
						uint32_t	n = counts[d]++;

						for (uint32_t c = 0; c < COLUMNS; c++)
							out[((size_t) d * COLUMNS + c) * BATCH + n] = columns[c * BATCH + row];
					}
				}
				else
				{
					mask_route(destination, BATCH, destinations, masks, RF_MASK_WORDS(BATCH),
							   counts);
					for (uint32_t d = 0; d < destinations; d++)
					{
						const uint64_t *mask = masks + d * RF_MASK_WORDS(BATCH);
						uint32_t   *to = out + (size_t) d * COLUMNS * BATCH;

						/* Few rows: their numbers once, for all columns. */
						if (counts[d] < BATCH / 8)
							mask_rows(mask, BATCH, numbers);
						for (uint32_t c = 0; c < COLUMNS; c++)
						{
							if (counts[d] < BATCH / 8)
								pick_rows(to + c * BATCH, columns + c * BATCH, numbers, counts[d]);
							else
								rf_mask_gather(to + c * BATCH, columns + c * BATCH, 4, mask, BATCH);
						}
					}
				}
				sink += out[0];
			} while (++times < 2 || cpu_ns() - begin < run_us * 1000.0);
			ns[way][round] = (cpu_ns() - begin) / times / BATCH;
		}
		ratios[round] = ns[0][round] / ns[1][round];
	}
	printf("route\t%u\t%.1f\t%.1f\t%.2f\n", destinations, 1e3 / median(ns[0], rounds),
		   1e3 / median(ns[1], rounds), median(ratios, rounds));
	fflush(stdout);
	free(columns);
	free(out);
	free(destination);
	free(masks);
	free(counts);
	free(numbers);
}

int
main(int argc, char **argv)
{
	int			option;

	while ((option = getopt(argc, argv, "r:u:f:")) != -1)
	{
		if (option == 'r')
			rounds = atoi(optarg) < 1 ? 1 : atoi(optarg) > MOST_ROUNDS ? MOST_ROUNDS : atoi(optarg);
		else if (option == 'u')
			run_us = atoi(optarg);
		else if (option == 'f')
			most_fragments = (uint64_t) atoll(optarg);
		else
			return 2;
	}
	began = now_ns();
	if (optind == argc)
	{
		over("shm");
		over("tcp");
	}
	for (int i = optind; i < argc; i++)
		over(argv[i]);
	route(2);
	route(8);
	route(64);
	return 0;
}
