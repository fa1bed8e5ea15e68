/*
 * pick.c - by list or by bitmap: fixed-width columns of rows that come from tuples, divided among a
 * few destinations.
 *
 *   list     values row by row, the rows' numbers sorted by destination, columns picked by them:
 *   src/batch/encode_rows.c
 *   vectors  the same from column vectors
 *   bitmap   column vectors, a bitmap per destination made with vector compares, columns gathered
 *   by it (ncr_mask.c)
 *
 * With `own` the first destination's rows are read one by one from where they are kept: the
 * producer's own node reads them like that. Nanoseconds of CPU per row, medians of interleaved
 * rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "ncr.h"

#include "../region/route.h"

#define ROWS		49152
#define BATCH		512			/* divided together: the size of rows.c for few destinations */
#define TOGETHER	64			/* tuples read together */
#define MAX_COLUMNS 10
#define MAX_TO		16
#define ROOM		8192		/* rows of one output */
#define ROUNDS		31

typedef enum Way
{
	BY_LIST = 0,
	BY_LIST_FROM_VECTORS,
	BY_BITMAP
} Way;

static int	columns;
static int	widths[MAX_COLUMNS];
static int	offsets[MAX_COLUMNS];
static int	tuple_bytes;
static char *tuples;
static uint16_t places[ROWS];
static int	destinations;
static bool own;

static uint64_t values[BATCH * MAX_COLUMNS];
static uint64_t vectors[MAX_COLUMNS][BATCH];
static uint16_t numbers[BATCH];
static uint32_t starts[MAX_TO];
static uint32_t counts[MAX_TO];
static uint64_t masks[MAX_TO][RF_MASK_WORDS(BATCH)];
static uint64_t out[MAX_TO][MAX_COLUMNS][ROOM + 64];
static uint32_t filled[MAX_TO];
static volatile uint64_t own_row[MAX_COLUMNS];

static double
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void
read_tuples(Way way, uint32_t first)
{
	for (uint32_t at = 0; at < BATCH; at += TOGETHER)
		for (int c = 0; c < columns; c++)
		{
			const char *from = tuples + (size_t) (first + at) * tuple_bytes + offsets[c];

			for (uint32_t i = 0; i < TOGETHER; i++, from += tuple_bytes)
			{
				if (way == BY_LIST)
					values[(at + i) * columns + c] = widths[c] == 4 ? *(const uint32_t *) from :
						*(const uint64_t *) from;
				else if (widths[c] == 4)
					((uint32_t *) vectors[c])[at + i] = *(const uint32_t *) from;
				else
					vectors[c][at + i] = *(const uint64_t *) from;
			}
		}
}

/* As rf_rows_divide, in halves: a counter that goes up twice in a row waits for itself. */
static void
sort_numbers(const uint16_t *to)
{
	uint32_t	second[MAX_TO] = {0};
	uint32_t	start = 0;

	memset(starts, 0, sizeof(starts));
	for (uint32_t row = 0; row < BATCH / 2; row++)
	{
		starts[to[row]]++;
		second[to[BATCH / 2 + row]]++;
	}
	for (int d = 0; d < destinations; d++)
	{
		uint32_t	first = starts[d];

		counts[d] = first + second[d];
		starts[d] = start;
		second[d] = start + first;
		start += counts[d];
	}
	for (uint32_t row = 0; row < BATCH / 2; row++)
	{
		numbers[starts[to[row]]++] = (uint16_t) row;
		numbers[second[to[BATCH / 2 + row]]++] = (uint16_t) (BATCH / 2 + row);
	}
	for (int d = 0; d < destinations; d++)
		starts[d] = second[d] - counts[d];
}

static void
make_masks(const uint16_t *to)
{
#if defined(__SSE2__)
	for (size_t word = 0; word < RF_MASK_WORDS(BATCH); word++, to += 64)
		for (int d = 0; d < destinations; d++)
		{
			__m128i		wanted = _mm_set1_epi16((short) d);
			uint64_t	bits = 0;

			for (int i = 0; i < 4; i++)
			{
				__m128i		low = _mm_loadu_si128((const __m128i *) (to + 16 * i));
				__m128i		high = _mm_loadu_si128((const __m128i *) (to + 16 * i + 8));

				bits |= (uint64_t) (uint32_t) _mm_movemask_epi8(_mm_packs_epi16(
																				_mm_cmpeq_epi16(low, wanted), _mm_cmpeq_epi16(high, wanted)))
					<< (16 * i);
			}
			masks[d][word] = bits;
		}
	for (int d = 0; d < destinations; d++)
		counts[d] = rf_mask_count(masks[d], BATCH);
#else
	mask_route(to, BATCH, (uint32_t) destinations, masks[0], RF_MASK_WORDS(BATCH), counts);
#endif
}

static void
read_own(Way way, uint32_t row)
{
	for (int c = 0; c < columns; c++)
		own_row[c] = way == BY_LIST ? values[row * columns + c] :
			widths[c] == 4 ? ((uint32_t *) vectors[c])[row] : vectors[c][row];
}

static void
read_all_own(Way way)
{
	if (way != BY_BITMAP)
		for (uint32_t n = 0; n < counts[0]; n++)
			read_own(way, numbers[starts[0] + n]);
	else
		for (uint32_t word = 0; word < RF_MASK_WORDS(BATCH); word++)
			for (uint64_t bits = masks[0][word]; bits != 0; bits &= bits - 1)
				read_own(way, word * 64 + (uint32_t) __builtin_ctzll(bits));
}

#define PICK(type, from, stride) \
	for (uint32_t n = 0; n < counts[d]; n++) \
		((type *) to)[n] = (type) (from)[list[n] * (size_t) (stride)]

static void
pick(Way way, int d, int c)
{
	uint8_t    *to = (uint8_t *) out[d][c] + (size_t) filled[d] * widths[c];
	const uint16_t *list = numbers + starts[d];

	if (way == BY_BITMAP)
		rf_mask_gather(to, vectors[c], (uint32_t) widths[c], masks[d], BATCH);
	else if (way == BY_LIST && widths[c] == 4)
		PICK(uint32_t, values + c, columns);
	else if (way == BY_LIST)
		PICK(uint64_t, values + c, columns);
	else if (widths[c] == 4)
		PICK(uint32_t, (uint32_t *) vectors[c], 1);
	else
		PICK(uint64_t, vectors[c], 1);
}

static double
round_of(Way way)
{
	double		begin = now_ns();

	for (uint32_t first = 0; first < ROWS; first += BATCH)
	{
		read_tuples(way, first);
		if (way == BY_BITMAP)
			make_masks(places + first);
		else
			sort_numbers(places + first);
		if (own)
			read_all_own(way);
		for (int d = own; d < destinations; d++)
		{
			if (filled[d] + BATCH > ROOM)
				filled[d] = 0;
			for (int c = 0; c < columns; c++)
				pick(way, d, c);
			filled[d] += counts[d];
		}
	}
	return (now_ns() - begin) / ROWS;
}

static int
compare(const void *a, const void *b)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return left < right ? -1 : left > right;
}

static void
measure(void)
{
	double		times[3][ROUNDS];

	for (uint32_t row = 0; row < ROWS; row++)
		places[row] = (uint16_t) (rand() % destinations);
	for (int round = 0; round < ROUNDS; round++)
		for (int way = BY_LIST; way <= BY_BITMAP; way++)
			times[way][round] = round_of((Way) way);
	for (int way = BY_LIST; way <= BY_BITMAP; way++)
		qsort(times[way], ROUNDS, sizeof(double), compare);
	printf("%7d | %12d | %-3s | %5.1f | %7.1f | %6.1f | %15.2f | %14.2f\n", columns, destinations,
		   own ? "yes" : "no", times[0][ROUNDS / 2], times[1][ROUNDS / 2], times[2][ROUNDS / 2],
		   times[0][ROUNDS / 2] / times[2][ROUNDS / 2],
		   times[1][ROUNDS / 2] / times[2][ROUNDS / 2]);
}

int
main(void)
{
	static const int counts_of_columns[] = {2, 5, 10};
	static const int counts_of_destinations[] = {2, 4, 8, 16};

	printf(
		   "columns | destinations | own |  list | vectors | bitmap | list / bitmap (%s) | vectors "
		   "/ bitmap\n",
		   rf_mask_vectors());
	for (int i = 0; i < 3; i++)
	{
		int			bytes = 24;

		columns = counts_of_columns[i];
		for (int c = 0; c < columns; c++)
		{
			widths[c] = c % 5 == 0 || c % 5 == 3 ? 8 : 4;
			bytes = (bytes + widths[c] - 1) / widths[c] * widths[c];
			offsets[c] = bytes;
			bytes += widths[c];
		}
		tuple_bytes = (bytes + 7) / 8 * 8;
		tuples = calloc(ROWS, (size_t) tuple_bytes);
		if (tuples == NULL)
			return 1;
		for (size_t at = 0; at < (size_t) ROWS * tuple_bytes; at++)
			tuples[at] = (char) rand();
		for (int n = 0; n < 8; n++)
		{
			own = n % 2 != 0;
			destinations = counts_of_destinations[n / 2];
			measure();
		}
		free(tuples);
	}
	return 0;
}
