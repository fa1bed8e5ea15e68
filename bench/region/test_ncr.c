/*
 * test_ncr.c - non-contiguous regions (region.h) against a reference that looks at every byte.
 *
 * Random sets of regions are made in one buffer. The reference enumerates the meaning of a
 * description row by row and byte by byte; packing, fragments, gaps and overlaps have to agree with
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ncr.h"

#include "../../bench/region/route.h"

#define MEMORY		(96 * 1024)
#define MAX_REGIONS	6
#define MAX_ROWS	700
#define MAX_FIELDS	3

static int	failures;
static int	reported;

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static uint64_t random_state = 88172645463325252ULL;

static uint64_t
pick(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* A random set and its parts. */
typedef struct Case
{
	uint8_t		memory[MEMORY];
	RfNcr		regions[MAX_REGIONS];
	RfNcrSet	set;
	uint64_t	masks[MAX_REGIONS][RF_MASK_WORDS(MAX_ROWS)];
	uint8_t		pointers[MAX_REGIONS][MAX_ROWS * sizeof(RfPointer) + 1];
	RfField		fields[MAX_REGIONS][MAX_FIELDS];
} Case;

static void
random_mask(uint64_t *mask, uint32_t count)
{
	uint32_t	of_100 = (uint32_t) pick(4) == 0 ? (uint32_t) pick(2) * 100 : (uint32_t) pick(101);

	for (size_t word = 0; word < RF_MASK_WORDS(count); word++)
	{
		mask[word] = 0;
		for (int bit = 0; bit < 64; bit++)
			mask[word] |= (uint64_t) (pick(100) < of_100) << bit;	/* also behind the last row */
	}
}

/* Fields within `width` bytes; the number of them. */
static uint16_t
random_fields(RfField *fields, uint32_t width, bool rest)
{
	uint32_t	at = 0;
	uint16_t	count = 0;

	while (count < MAX_FIELDS && at < width)
	{
		uint32_t	offset = at + (uint32_t) pick((width - at + 2) / 2);
		uint32_t	bytes;

		if (offset >= width)
			break;
		bytes = 1 + (uint32_t) pick(width - offset);
		fields[count++] = (RfField) {offset, bytes};
		at = offset + bytes;
	}
	if (rest && count > 0 && pick(2) == 0)
		fields[count - 1].width = RF_FIELD_REST;
	return count;
}

/* Regions side by side, within each other, or (rarely) anywhere. */
static void
random_case(Case *c)
{
	bool		transposed = pick(2) == 0;
	bool		row_wise = pick(3) == 0;	/* columns of one row-wise table */
	bool		anywhere = pick(6) == 0;	/* may overlap */
	uint32_t	count = 1 + (uint32_t) pick(MAX_REGIONS);
	uint32_t	rows = (uint32_t) pick(MAX_ROWS);
	uint32_t	stride = 8 + (uint32_t) pick(120);
	uint32_t	column = 0;
	uint32_t	at = (uint32_t) pick(64);

	for (size_t i = 0; i < MEMORY; i += sizeof(uint64_t))
	{
		uint64_t	word = pick(UINT64_MAX);

		memcpy(c->memory + i, &word, sizeof(word));
	}
	c->set = (RfNcrSet) {c->regions, 0, transposed ? RF_NCR_TRANSPOSED : RF_NCR_COLUMNAR};
	for (uint32_t i = 0; i < count; i++)
	{
		RfNcr	   *region = &c->regions[i];
		uint32_t	n = transposed || row_wise ? rows : (uint32_t) pick(MAX_ROWS);
		uint32_t	width = 1 + (uint32_t) pick(pick(4) == 0 ? 40 : 8);
		const uint64_t *mask = NULL;
		int			kind = row_wise ? 0 : (int) pick(3);
		uint64_t	size;

		if (pick(3) == 0)
			width = 1u << pick(5);
		if (transposed && i > 0)
			mask = c->regions[0].rows;
		else if (kind == 2 || pick(2) == 0)
			mask = c->masks[i];
		if (mask == c->masks[i])
			random_mask(c->masks[i], n);
		if (mask == NULL && kind == 2)
			kind = 0;
		if (anywhere)
			at = (uint32_t) pick(MEMORY / 2);
		if (row_wise)
		{
			if (column + width > stride)
				break;
			*region = RF_NCR_STRIDED_INIT(c->memory + column, width, stride, n, mask);
			if ((uint64_t) n * stride > MEMORY - 256)
				region->count = rows = 100;
			column += width + (uint32_t) pick(3) * 4;
			region->field_count = random_fields(c->fields[i], width, false);
			region->fields = c->fields[i];
			c->set.count++;
			continue;
		}
		if (kind == 0)
		{
			uint32_t	step = width + (uint32_t) pick(3) * (uint32_t) pick(30);

			size = (uint64_t) n * step;
			*region = RF_NCR_STRIDED_INIT(c->memory + at, width, step, n, mask);
		}
		else if (kind == 2)
		{
			size = (uint64_t) n * width;
			*region = RF_NCR_BITMAP_INIT(c->memory + at, width, n, mask);
		}
		else
		{
			uint32_t	format = (uint32_t) pick(3);
			uint8_t    *pointers = c->pointers[i] + pick(2);
			uint32_t	shortest = UINT32_MAX;
			bool		falling = pick(2) == 0;
			bool		shuffled = pick(3) == 0;
			uint32_t	records[MAX_ROWS][2];

			size = 0;
			for (uint32_t k = 0; k < n; k++)
			{
				uint32_t	length = (uint32_t) pick(30) + (pick(8) != 0);

				size += pick(2) * pick(20);
				records[k][0] = (uint32_t) size;
				records[k][1] = length;
				size += length;
				shortest = length < shortest ? length : shortest;
			}
			for (uint32_t k = 0; shuffled && k < n; k++)
			{
				uint32_t	other = (uint32_t) pick(n);
				uint32_t	swap[2] = {records[k][0], records[k][1]};

				memcpy(records[k], records[other], sizeof(swap));
				memcpy(records[other], swap, sizeof(swap));
			}
			for (uint32_t k = 0; k < n; k++)
			{
				const uint32_t *record = records[falling ? n - 1 - k : k];
				uint32_t	item = record[0] | 1 << 15 | record[1] << 17;
				uint16_t	pair[2] = {(uint16_t) record[0], (uint16_t) record[1]};

				if (format == RF_POINTER_32)
					memcpy(pointers + k * 8, record, 8);
				else if (format == RF_POINTER_16)
					memcpy(pointers + k * 4, pair, 4);
				else
					memcpy(pointers + k * 4, &item, 4);
			}
			*region = RF_NCR_POINTERS_INIT(c->memory + at, (uint32_t) size, format, pointers, n,
										   mask);
			width = n == 0 ? 8 : shortest;
		}
		if (at + size > MEMORY)
			break;
		if (width > 0 && pick(3) == 0)
		{
			region->field_count = random_fields(c->fields[i], width, kind == 1);
			region->fields = c->fields[i];
		}
		at += (uint32_t) (size + pick(2) * pick(100));
		c->set.count++;
	}
}

/* ---------- the reference ---------- */

typedef struct Reference
{
	uint8_t		bytes[4 * MEMORY];	/* packed */
	size_t		length;
	uint8_t		times[MEMORY];	/* each byte is wanted */
} Reference;

static void
reference_row(const Case *c, Reference *r, const RfNcr *region, uint32_t row)
{
	uint64_t	offset = (uint64_t) row * region->stride;
	uint64_t	length = region->width;

	if (region->kind == RF_NCR_POINTERS)
	{
		uint32_t	words[2];
		uint16_t	pair[2];

		memcpy(words,
			   (const uint8_t *) region->pointers +
			   (size_t) row * (region->format == RF_POINTER_32 ? 8 : 4),
			   4);
		if (region->format == RF_POINTER_32)
		{
			memcpy(words, (const uint8_t *) region->pointers + (size_t) row * 8, 8);
			offset = words[0];
			length = words[1];
		}
		else if (region->format == RF_POINTER_16)
		{
			memcpy(pair, words, 4);
			offset = pair[0];
			length = pair[1];
		}
		else
		{
			offset = words[0] % 32768;
			length = words[0] / 131072;
		}
	}
	for (uint64_t byte = 0; byte < length; byte++)
	{
		bool		wanted = region->field_count == 0;

		for (int f = 0; f < region->field_count; f++)
			wanted = wanted || (byte >= region->fields[f].offset &&
								(region->fields[f].width == RF_FIELD_REST ||
								 byte < region->fields[f].offset + region->fields[f].width));
		if (!wanted)
			continue;
		r->bytes[r->length++] = region->base[offset + byte];
		r->times[region->base + offset + byte - c->memory]++;
	}
}

static bool
selected(const RfNcr *region, uint32_t row)
{
	return region->rows == NULL || (region->rows[row / 64] >> (row % 64) & 1) != 0;
}

static void
reference(const Case *c, Reference *r)
{
	r->length = 0;
	memset(r->times, 0, sizeof(r->times));
	if (c->set.order == RF_NCR_TRANSPOSED)
	{
		for (uint32_t row = 0; row < c->regions[0].count; row++)
			for (uint32_t i = 0; i < c->set.count; i++)
				if (selected(&c->regions[i], row))
					reference_row(c, r, &c->regions[i], row);
	}
	else
	{
		for (uint32_t i = 0; i < c->set.count; i++)
			for (uint32_t row = 0; row < c->regions[i].count; row++)
				if (selected(&c->regions[i], row))
					reference_row(c, r, &c->regions[i], row);
	}
}

/* ---------- properties ---------- */

static bool
same(const char *what, bool good, uint64_t seed)
{
	if (!good && reported++ < 10)
		printf("# %s is wrong, case %llu\n", what, (unsigned long long) seed);
	return good;
}

static bool
check_pack(const Case *c, const Reference *r)
{
	uint8_t    *out = malloc(r->length + 1);
	bool		good;

	out[r->length] = 0xa5;
	good = rf_ncr_set_bytes(&c->set) == r->length &&
		rf_ncr_pack(&c->set, out, r->length) == r->length &&
		memcmp(out, r->bytes, r->length) == 0 && out[r->length] == 0xa5;
	if (r->length > 0)
	{
		out[0] ^= 0xff;
		good = good && rf_ncr_pack(&c->set, out, r->length - 1) == r->length &&
			out[0] == (r->bytes[0] ^ 0xff);
	}
	free(out);
	return good;
}

static bool
check_fragments(const Case *c, const Reference *r)
{
	RfNcrCursor cursor;
	RfNcrPiece	fragment;
	const uint8_t *end = NULL;
	size_t		at = 0;

	rf_ncr_begin(&cursor, &c->set);
	while (rf_ncr_next(&cursor, &fragment))
	{
		if (fragment.length == 0 || fragment.at == end || at + fragment.length > r->length ||
			memcmp(r->bytes + at, fragment.at, fragment.length) != 0)
			return false;
		at += fragment.length;
		end = fragment.at + fragment.length;
	}
	return at == r->length && !rf_ncr_next(&cursor, &fragment);
}

static bool
check_gaps(const Case *c, const Reference *r)
{
	static RfNcrPiece found[MEMORY];
	RfGaps		gaps;
	RfGaps		wanted = {0};
	size_t		fragments = rf_ncr_by_address(&c->set, found, MEMORY);
	size_t		run = 0;

	for (size_t i = 0; i < MEMORY; i++)
	{
		if (r->times[i] == 0)
			continue;
		wanted.useful++;
		if (wanted.fragments == 0 || c->memory + i != wanted.end)
		{
			if (wanted.fragments == 0)
				wanted.begin = c->memory + i;
			else
			{
				run = (size_t) (c->memory + i - wanted.end);
				wanted.gap += run;
				wanted.smallest = wanted.smallest == 0 || run < wanted.smallest ? run :
					wanted.smallest;
				wanted.largest = run > wanted.largest ? run : wanted.largest;
			}
			if (wanted.fragments >= fragments || found[wanted.fragments].at != c->memory + i)
				return false;
			wanted.fragments++;
		}
		wanted.end = c->memory + i + 1;
		if (found[wanted.fragments - 1].at + found[wanted.fragments - 1].length < wanted.end)
			return false;
	}
	if (fragments != wanted.fragments || !rf_ncr_gaps(&c->set, &gaps))
		return false;
	if (wanted.useful == 0)
		return gaps.useful == 0 && gaps.gap == 0 && gaps.fragments == 0;
	return gaps.begin == wanted.begin && gaps.end == wanted.end && gaps.useful == wanted.useful &&
		gaps.gap == wanted.gap && gaps.fragments == wanted.fragments &&
		gaps.smallest == wanted.smallest && gaps.largest == wanted.largest;
}

static void
properties(int cases)
{
	static Case c;
	static Reference r;
	bool		pack = true;
	bool		fragments = true;
	bool		gaps = true;
	bool		overlaps = true;
	int			overlapping = 0;

	for (int i = 0; i < cases; i++)
	{
		uint64_t	seed = random_state;
		bool		twice = false;
		const char *problem;

		random_case(&c);
		if (c.set.count == 0)
			continue;
		reference(&c, &r);
		for (size_t k = 0; k < MEMORY; k++)
			twice = twice || r.times[k] > 1;
		problem = rf_ncr_check(&c.set);
		overlapping += twice;
		overlaps = same("check", (problem != NULL) == twice, seed) && overlaps;
		if (problem != NULL && !twice)
			printf("# refused: %s\n", problem);
		pack = same("pack", check_pack(&c, &r), seed) && pack;
		if (twice)
			continue;
		fragments = same("fragments", check_fragments(&c, &r), seed) && fragments;
		gaps = same("gaps", check_gaps(&c, &r), seed) && gaps;
	}
	printf("# %d cases, %d with overlaps\n", cases, overlapping);
	check(overlapping > cases / 100, "random sets overlap at times");
	check(pack, "packing copies the wanted bytes, in order, and nothing else");
	check(fragments, "fragments are the wanted bytes, touching ones joined");
	check(gaps, "gap analysis agrees with a map of bytes");
	check(overlaps, "overlaps, and only they, are refused");
}

/* ---------- bitmaps ---------- */

static bool
gather_agrees(uint32_t width, uint32_t count)
{
	uint64_t	mask[RF_MASK_WORDS(MAX_ROWS)];
	uint8_t    *from = malloc((size_t) count * width + 1);
	uint8_t    *to;
	size_t		wanted = 0;
	bool		good;

	random_mask(mask, count);
	for (size_t i = 0; i < (size_t) count * width; i++)
		from[i] = (uint8_t) pick(256);
	for (uint32_t row = 0; row < count; row++)
		wanted += (mask[row / 64] >> (row % 64) & 1) * width;
	to = malloc(wanted + 1);	/* ASan sees a byte too far */
	good = rf_mask_gather(to, from, width, mask, count) == wanted;
	wanted = 0;
	for (uint32_t row = 0; row < count; row++)
		for (uint32_t k = 0; (mask[row / 64] >> (row % 64) & 1) != 0 && k < width; k++)
			good = good && to[wanted++] == from[(size_t) row * width + k];
	free(from);
	free(to);
	return good;
}

static void
gathering(void)
{
	static const char *const kinds[] = {"plain", "ssse3", "avx2"};

	for (int k = 0; k < 3; k++)
	{
		bool		good = true;
		char		what[64];

		if (!rf_mask_limit(kinds[k]))
		{
			printf("ok - %s # SKIP not here\n", kinds[k]);
			continue;
		}
		good = strcmp(rf_mask_vectors(), kinds[k]) == 0;
		for (int i = 0; i < 3000; i++)
			good = gather_agrees(pick(4) == 0 ? 1 + (uint32_t) pick(70) : 1u << pick(5),
								 (uint32_t) pick(MAX_ROWS)) &&
				good;
		snprintf(what, sizeof(what), "gathering by bitmap, %s", kinds[k]);
		check(good, what);
	}
	check(rf_mask_limit(NULL) && !rf_mask_limit("none such"),
		  "vectors that are there are used again");
}

static void
bitmaps(void)
{
	bool		rows = true;
	bool		route = true;

	for (int i = 0; i < 2000; i++)
	{
		uint32_t	count = (uint32_t) pick(MAX_ROWS);
		uint32_t	destinations = 1 + (uint32_t) pick(70);
		size_t		words = RF_MASK_WORDS(count) + pick(2);
		uint64_t	mask[RF_MASK_WORDS(MAX_ROWS)];
		uint16_t	destination[MAX_ROWS];
		uint64_t   *masks = malloc((destinations * words + 1) * sizeof(uint64_t));
		uint32_t	counts[71];
		uint32_t	numbers[MAX_ROWS];
		uint32_t	n = 0;

		random_mask(mask, count);
		rows = rows && mask_rows(mask, count, numbers) == rf_mask_count(mask, count);
		for (uint32_t row = 0; row < count; row++)
		{
			if ((mask[row / 64] >> (row % 64) & 1) == 0)
				continue;
			rows = rows && numbers[n] == row;
			n++;
		}

		for (uint32_t row = 0; row < count; row++)
			destination[row] = (uint16_t) pick(destinations + 1);
		mask_route(destination, count, destinations, masks, words, counts);
		for (uint32_t d = 0; d < destinations; d++)
		{
			n = 0;
			for (uint32_t row = 0; row < count; row++)
			{
				bool		set = (masks[d * words + row / 64] >> (row % 64) & 1) != 0;

				route = route && set == (destination[row] == d);
				n += set;
			}
			route = route && n == counts[d];
		}
		free(masks);
	}
	check(rows, "rows of a bitmap as numbers");
	check(route, "one bitmap per destination");
}

/* 64 Ki rows of five columns for two destinations (D-RDMA, section 2.1). */
static void
compactness(void)
{
	const uint32_t rows = 64 * 1024;
	int32_t    *columns = calloc(5 * rows, sizeof(int32_t));
	uint16_t   *destination = malloc(rows * sizeof(uint16_t));
	uint64_t   *masks = malloc(2 * RF_MASK_WORDS(rows) * sizeof(uint64_t));
	RfNcr		regions[10];
	uint32_t	counts[2];
	size_t		descriptors = 0;
	uint64_t	entries = 0;
	uint64_t	bytes = 0;
	bool		good = true;

	for (uint32_t row = 0; row < rows; row++)
		destination[row] = row % 2;
	mask_route(destination, rows, 2, masks, RF_MASK_WORDS(rows), counts);
	for (int d = 0; d < 2; d++)
	{
		RfNcrSet	set = {regions + 5 * d, 5, RF_NCR_TRANSPOSED};
		RfNcrCursor cursor;
		RfNcrPiece	fragment;

		for (int i = 0; i < 5; i++, descriptors++)
			regions[5 * d + i] = RF_NCR_BITMAP_INIT((const uint8_t *) (columns + i * rows), 4, rows,
													masks + d * RF_MASK_WORDS(rows));
		good = good && rf_ncr_check(&set) == NULL;
		bytes += rf_ncr_set_bytes(&set);
		rf_ncr_begin(&cursor, &set);
		while (rf_ncr_next(&cursor, &fragment))
			entries++;
	}
	printf("# %zu descriptors of %zu bytes and 2 bitmaps of %zu for %llu entries\n", descriptors,
		   sizeof(RfNcr), RF_MASK_WORDS(rows) * 8, (unsigned long long) entries);
	check(good && descriptors == 10 && entries == 327680 && bytes == 5 * 4 * (uint64_t) rows,
		  "64 Ki rows x 5 columns x 2 destinations: 10 descriptors stand for 327,680 entries");
	free(columns);
	free(destination);
	free(masks);
}

/* ---------- a heap page brings its own line pointers ---------- */

static void
page(void)
{
	_Alignas(64) uint8_t page[8192];
	uint64_t	visible = 0x2d; /* rows 0, 2, 3, 5 */
	RfNcr		region;
	RfNcrSet	set = {&region, 1, RF_NCR_COLUMNAR};
	uint8_t		wanted[4 * 40];
	uint8_t		out[4 * 40];
	uint32_t	item;
	int			n = 0;

	for (int i = 0; i < 8192; i++)
		page[i] = (uint8_t) pick(256);
	for (uint32_t i = 0; i < 6; i++)
	{
		item = (8192 - 40 * (i + 1)) | (i == 1 ? 3u : 1u) << 15 | 40u << 17;
		memcpy(page + 24 + 4 * i, &item, 4);
		if (visible >> i & 1)
			memcpy(wanted + 40 * n++, page + 8192 - 40 * (i + 1), 40);
	}
	region = RF_NCR_POINTERS_INIT(page, 8192, RF_POINTER_ITEM, page + 24, 6, &visible);
	check(rf_ncr_check(&set) == NULL, "a page and its visible line pointers");
	check(rf_ncr_pack(&set, out, sizeof(out)) == sizeof(out) &&
		  memcmp(out, wanted, sizeof(out)) == 0,
		  "are its visible rows");

	item = (8192 - 20) | 1u << 15 | 40u << 17;
	memcpy(page + 24 + 8, &item, 4);
	check(rf_ncr_check(&set) != NULL, "a line pointer to behind the page is refused");
	item = 100 | 3u << 15 | 40u << 17;
	memcpy(page + 24 + 8, &item, 4);
	check(rf_ncr_check(&set) != NULL, "and a dead one");
}

static void
refusals(void)
{
	uint8_t		memory[256];
	RfField		fields[2] = {{0, 4}, {2, 2}};
	RfNcr		two[2];
	RfNcrSet	set = {two, 1, RF_NCR_COLUMNAR};
	uint64_t	rows[2] = {5, 6};

	two[0] = RF_NCR_STRIDED_INIT(memory, 8, 4, 10, NULL);
	check(rf_ncr_check(&set) != NULL, "a stride less than the width");
	two[0] = RF_NCR_STRIDED_INIT(memory, 8, 8, 10, NULL);
	two[0].fields = fields;
	two[0].field_count = 2;
	check(rf_ncr_check(&set) != NULL, "fields that overlap");
	fields[1] = (RfField) {6, 4};
	check(rf_ncr_check(&set) != NULL, "a field outside its element");
	two[0] = RF_NCR_BITMAP_INIT(memory, 4, 4, NULL);
	check(rf_ncr_check(&set) != NULL, "a bitmapped region without a bitmap");
	two[0] = RF_NCR_BITMAP_INIT(memory, 4, 4, &rows[0]);
	two[1] = RF_NCR_BITMAP_INIT(memory + 16, 4, 4, &rows[1]);
	set = (RfNcrSet) {two, 2, RF_NCR_TRANSPOSED};
	check(rf_ncr_check(&set) != NULL, "a transposed set of different rows");
	set.order = RF_NCR_COLUMNAR;
	check(rf_ncr_check(&set) == NULL, "which a columnar one may have");
	two[1].base = memory;
	rows[1] = 10;
	check(rf_ncr_check(&set) == NULL, "complementary bitmaps of one column do not overlap");
	rows[1] = 11;
	check(rf_ncr_check(&set) != NULL, "others do");
}

int
main(void)
{
	refusals();
	page();
	compactness();
	bitmaps();
	gathering();
	properties(3000);
	return failures > 0;
}
