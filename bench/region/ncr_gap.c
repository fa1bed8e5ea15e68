/*
 * ncr_gap.c - gap analysis: where a set's gaps are, how large, and whether bytes are described
 * twice (D-RDMA, sections 3.3 and 4.1).
 *
 * Arithmetic where a region's pattern allows it (strided), counting of bits for bitmaps, and the
 * records themselves for pointers. Only sets whose regions lie between each other are looked at
 * fragment by fragment.
 */
#include <stdlib.h>

#include "ncr.h"

/* Where the region begins and ends, first to last selected row; false: it has no byte. */
static bool
region_extent(const RfNcr *region, const uint8_t **begin, const uint8_t **end)
{
	uint32_t	first = rf_ncr_next_row(region, 0);
	RfNcrPiece	row;

	if (first >= region->count)
		return false;
	row = rf_ncr_at(region, first);
	if (region->kind != RF_NCR_POINTERS)
	{
		uint32_t	last = region->count - 1;
		uint64_t	head = 0;
		uint64_t	tail = region->width;

		if (region->rows != NULL)
		{
			size_t		word = RF_MASK_WORDS(region->count) - 1;

			while (rf_mask_word(region->rows, region->count, word) == 0)
				word--;
			last = (uint32_t) (word * 64 + 63 -
							   (uint32_t) __builtin_clzll(
														  rf_mask_word(region->rows, region->count,
																	   word)));
		}
		if (region->field_count > 0)
		{
			const RfField *field = &region->fields[region->field_count - 1];

			head = region->fields[0].offset;
			tail = field->offset + field->width;
		}
		*begin = row.at + head;
		*end = rf_ncr_at(region, last).at + tail;
		return true;
	}

	*begin = NULL;
	*end = NULL;
	for (uint32_t i = first; i < region->count; i = rf_ncr_next_row(region, i + 1))
	{
		const uint8_t *low;
		const uint8_t *high;

		row = rf_ncr_at(region, i);
		low = row.at;
		high = row.at + row.length;
		if (region->field_count > 0)
		{
			const RfField *field = &region->fields[region->field_count - 1];

			low += region->fields[0].offset;
			high = row.at + field->offset + rf_field_width(field, row.length);
		}
		if (low == high)
			continue;
		if (*begin == NULL || low < *begin)
			*begin = low;
		if (*end == NULL || high > *end)
			*end = high;
	}
	return *begin != NULL;
}

/*
 * The records as they are, in the order of the region, lie one behind the other (or in reverse).
 */
static bool
in_order(const RfNcr *region)
{
	bool		rising = true;
	bool		falling = true;
	uint32_t	row = rf_ncr_next_row(region, 0);
	RfNcrPiece	last;

	if (region->kind != RF_NCR_POINTERS || row >= region->count)
		return true;
	last = rf_ncr_at(region, row);
	while ((rising || falling) && (row = rf_ncr_next_row(region, row + 1)) < region->count)
	{
		RfNcrPiece	next = rf_ncr_at(region, row);

		rising = rising && next.at >= last.at + last.length;
		falling = falling && last.at >= next.at + next.length;
		last = next;
	}
	return rising || falling;
}

/* ---------- fragments by address ---------- */

static int
compare_fragments(const void *a, const void *b)
{
	const uint8_t *left = ((const RfNcrPiece *) a)->at;
	const uint8_t *right = ((const RfNcrPiece *) b)->at;

	return left < right ? -1 : left > right;
}

/*
 * All fragments, sorted, not joined yet: an allocated array, NULL when there is no memory for it.
 */
static RfNcrPiece *
sorted_fragments(const RfNcrSet *set, size_t *count)
{
	RfNcrCursor cursor;
	RfNcrPiece	fragment;
	RfNcrPiece *fragments;
	size_t		room = 0;
	bool		sorted = true;

	rf_ncr_begin(&cursor, set);
	while (rf_ncr_next(&cursor, &fragment))
		room++;
	fragments = malloc((room + 1) * sizeof(RfNcrPiece));
	*count = 0;
	if (fragments == NULL)
		return NULL;
	rf_ncr_begin(&cursor, set);
	while (rf_ncr_next(&cursor, &fragment))
	{
		sorted = sorted && (*count == 0 || fragments[*count - 1].at < fragment.at);
		fragments[(*count)++] = fragment;
	}
	if (!sorted)
		qsort(fragments, *count, sizeof(RfNcrPiece), compare_fragments);
	return fragments;
}

size_t
rf_ncr_by_address(const RfNcrSet *set, RfNcrPiece *fragments, size_t max)
{
	size_t		count;
	size_t		joined = 0;
	RfNcrPiece *all = sorted_fragments(set, &count);

	if (all == NULL)
		return SIZE_MAX;
	for (size_t i = 0; i < count; i++)
	{
		if (joined > 0 && all[joined - 1].at + all[joined - 1].length == all[i].at)
			all[joined - 1].length += all[i].length;
		else
			all[joined++] = all[i];
	}
	if (max > 0)
		memcpy(fragments, all, (joined < max ? joined : max) * sizeof(RfNcrPiece));
	free(all);
	return joined;
}

/* ---------- checks ---------- */

/* The error in this region alone, except overlaps; NULL if it has no error. */
static const char *
check_shape(const RfNcr *region)
{
	uint64_t	before = 0;

	switch (region->kind)
	{
		case RF_NCR_BITMAP:
			if (region->rows == NULL && region->count > 0)
				return "a bitmapped region has no bitmap";
			if (region->stride != region->width)
				return "the stride of a bitmapped region is not its width";
			/* FALLTHROUGH */
		case RF_NCR_STRIDED:
			if (region->width == 0)
				return "elements have no bytes";
			if (region->stride < region->width)
				return "elements overlap: the stride is less than the width";
			break;
		case RF_NCR_POINTERS:
			if (region->format > RF_POINTER_ITEM)
				return "unknown format of pointers";
			if (region->pointers == NULL && region->count > 0)
				return "a pointer-mapped region has no pointers";
			break;
		default:
			return "unknown kind of region";
	}
	if (region->base == NULL && region->count > 0)
		return "a region has no base";
	for (uint32_t i = 0; i < region->field_count; i++)
	{
		const RfField *field = &region->fields[i];
		bool		rest = field->width == RF_FIELD_REST;

		if (field->offset < before || field->width == 0)
			return "fields overlap or are empty";
		if (rest && (region->kind != RF_NCR_POINTERS || i + 1 < region->field_count))
			return "only the last field of a record may be its rest";
		before = (uint64_t) field->offset + (rest ? 0 : field->width);
		if (region->kind != RF_NCR_POINTERS && before > region->width)
			return "a field lies outside its element";
	}
	if (region->kind == RF_NCR_POINTERS)
	{
		for (uint32_t row = rf_ncr_next_row(region, 0); row < region->count;
			 row = rf_ncr_next_row(region, row + 1))
		{
			RfPointer	pointer = rf_ncr_pointer(region, row);

			if ((uint64_t) pointer.offset + pointer.length > region->span)
				return "a record lies outside its span";
			if (region->field_count > 0 && before > pointer.length)
				return "a field lies outside its record";
			if (region->format == RF_POINTER_ITEM)
			{
				uint32_t	item;

				memcpy(&item, (const uint8_t *) region->pointers + (size_t) row * sizeof(item),
					   sizeof(item));
				if (((item >> 15) & 3) != 1)
					return "a line pointer is not in use";
			}
		}
	}
	return NULL;
}

/* Returns true if arithmetic can tell that two regions share no byte. */
static bool
surely_disjoint(const RfNcr *a, const RfNcr *b)
{
	const uint8_t *begin[2];
	const uint8_t *end[2];
	uint64_t	distance;

	if (!region_extent(a, &begin[0], &end[0]) || !region_extent(b, &begin[1], &end[1]) ||
		end[0] <= begin[1] || end[1] <= begin[0])
		return true;
	if (a->kind == RF_NCR_POINTERS || b->kind == RF_NCR_POINTERS || a->stride != b->stride)
		return false;

	/* Columns of one row-wise table: the same stride, apart within it. */
	distance = a->base < b->base ? (uint64_t) (b->base - a->base) % a->stride :
		(a->stride - (uint64_t) (a->base - b->base) % a->stride) % a->stride;
	return distance >= a->width && distance + b->width <= a->stride;
}

const char *
rf_ncr_check(const RfNcrSet *set)
{
	bool		sure = true;
	const char *problem = NULL;
	RfNcrPiece *fragments;
	size_t		count;

	for (uint32_t i = 0; i < set->count; i++)
	{
		problem = check_shape(&set->regions[i]);
		if (problem != NULL)
			return problem;
		sure = sure && in_order(&set->regions[i]);
	}
	if (set->order == RF_NCR_TRANSPOSED && set->count > 0)
	{
		const RfNcr *first = &set->regions[0];

		for (uint32_t i = 1; i < set->count; i++)
		{
			const RfNcr *other = &set->regions[i];

			if (other->count != first->count)
				return "regions of a transposed set have different counts";
			if (other->rows == first->rows)
				continue;
			if (other->rows == NULL || first->rows == NULL)
				return "regions of a transposed set select different rows";
			for (size_t word = 0; word < RF_MASK_WORDS(first->count); word++)
				if (rf_mask_word(other->rows, other->count, word) !=
					rf_mask_word(first->rows, first->count, word))
					return "regions of a transposed set select different rows";
		}
	}
	for (uint32_t i = 0; i < set->count && sure; i++)
		for (uint32_t k = 0; k < i && sure; k++)
			sure = surely_disjoint(&set->regions[k], &set->regions[i]);
	if (sure)
		return NULL;

	fragments = sorted_fragments(set, &count);
	if (fragments == NULL)
		return "out of memory";
	for (size_t i = 1; i < count && problem == NULL; i++)
		if (fragments[i - 1].at + fragments[i - 1].length > fragments[i].at)
			problem = "regions overlap";
	free(fragments);
	return problem;
}

/* ---------- summaries ---------- */

static void
add_gap(RfGaps *gaps, uint64_t size, uint64_t times)
{
	if (size == 0 || times == 0)
		return;
	gaps->gap += size * times;
	if (gaps->smallest == 0 || size < gaps->smallest)
		gaps->smallest = size;
	if (size > gaps->largest)
		gaps->largest = size;
}

/* A strided or bitmapped region; it has a selected row. */
static void
periodic_gaps(const RfNcr *region, RfGaps *gaps)
{
	uint64_t	rows = 0;
	uint64_t	runs = 0;		/* of selected rows */
	uint64_t	first = 0;		/* byte of a row that is wanted first */
	uint64_t	end = region->width;	/* and behind the last */
	uint64_t	between;		/* from the end of a row's wanted bytes to the next row's */

	region_extent(region, &gaps->begin, &gaps->end);
	if (region->field_count > 0)
	{
		first = region->fields[0].offset;
		end = region->fields[region->field_count - 1].offset +
			region->fields[region->field_count - 1].width;
	}
	between = region->stride - end + first;

	/* Gaps between rows: of runs of rows that are not selected. */
	if (region->rows == NULL)
	{
		rows = region->count;
		runs = 1;
	}
	else
	{
		uint32_t	last = UINT32_MAX;	/* selected row before */

		for (size_t word = 0; word < RF_MASK_WORDS(region->count); word++)
		{
			uint64_t	bits = rf_mask_word(region->rows, region->count, word);

			rows += (uint64_t) __builtin_popcountll(bits);
			while (bits != 0)
			{
				uint32_t	begin = (uint32_t) __builtin_ctzll(bits);
				uint64_t	rest = ~(bits >> begin);
				uint32_t	length = rest == 0 ? 64 : (uint32_t) __builtin_ctzll(rest);
				uint32_t	row = (uint32_t) (word * 64) + begin;

				if (last == UINT32_MAX)
					runs = 1;
				else if (row != last + 1)
				{
					add_gap(gaps, between + (uint64_t) (row - last - 1) * region->stride, 1);
					runs++;
				}
				last = row + length - 1;
				bits = begin + length >= 64 ? 0 : bits & (~(uint64_t) 0 << (begin + length));
			}
		}
	}
	add_gap(gaps, between, rows - runs);
	gaps->fragments = between == 0 ? runs : rows;

	/* And within each row. */
	for (uint32_t i = 1; i < region->field_count; i++)
	{
		uint64_t	size = region->fields[i].offset - region->fields[i - 1].offset -
			region->fields[i - 1].width;

		add_gap(gaps, size, rows);
		gaps->fragments += size > 0 ? rows : 0;
	}
	gaps->useful = rows * rf_ncr_row_bytes(region, region->width);
}

/* Fragment by fragment. */
static bool
exact_gaps(const RfNcrSet *set, RfGaps *gaps)
{
	size_t		count;
	RfNcrPiece *fragments = sorted_fragments(set, &count);

	if (fragments == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
	{
		if (i == 0)
			gaps->begin = fragments[i].at;
		else
			add_gap(gaps, (uint64_t) (fragments[i].at - gaps->end), 1);
		gaps->fragments += i == 0 || gaps->end != fragments[i].at;
		gaps->useful += fragments[i].length;
		gaps->end = fragments[i].at + fragments[i].length;
	}
	free(fragments);
	return true;
}

/* Records in order of address, whichever way they run. */
static void
record_gaps(const RfNcr *region, RfGaps *gaps)
{
	const uint8_t *low = NULL;
	const uint8_t *high = NULL;

	for (uint32_t row = rf_ncr_next_row(region, 0); row < region->count;
		 row = rf_ncr_next_row(region, row + 1))
	{
		RfNcrPiece	record = rf_ncr_at(region, row);

		if (record.length == 0)
			continue;
		gaps->useful += record.length;
		gaps->fragments++;
		if (low == NULL)
			low = record.at;
		else if (record.at >= high)
		{
			gaps->fragments -= record.at == high;
			add_gap(gaps, (uint64_t) (record.at - high), 1);
		}
		else
		{
			gaps->fragments -= record.at + record.length == low;
			add_gap(gaps, (uint64_t) (low - record.at - record.length), 1);
			low = record.at;
			continue;
		}
		high = record.at + record.length;
	}
	gaps->begin = low;
	gaps->end = high;
}

static bool
region_gaps(const RfNcr *region, RfGaps *gaps)
{
	memset(gaps, 0, sizeof(*gaps));
	if (rf_ncr_next_row(region, 0) >= region->count)
		return true;
	if (region->kind != RF_NCR_POINTERS)
		periodic_gaps(region, gaps);
	else if (region->field_count == 0 && in_order(region))
		record_gaps(region, gaps);
	else
		return exact_gaps(&(RfNcrSet) {region, 1, RF_NCR_COLUMNAR}, gaps);
	return true;
}

bool
rf_ncr_gaps(const RfNcrSet *set, RfGaps *gaps)
{
	memset(gaps, 0, sizeof(*gaps));

	/* Adjacent regions, in the order of the set: each by itself, and the bytes between. */
	for (uint32_t i = 0; i < set->count; i++)
	{
		RfGaps		one;

		if (!region_gaps(&set->regions[i], &one))
			return false;
		if (one.useful == 0)
			continue;
		if (gaps->useful > 0 && one.begin < gaps->end)
		{
			memset(gaps, 0, sizeof(*gaps));
			return exact_gaps(set, gaps);
		}
		if (gaps->useful == 0)
			gaps->begin = one.begin;
		else
		{
			add_gap(gaps, (uint64_t) (one.begin - gaps->end), 1);
			gaps->fragments -= one.begin == gaps->end;
		}
		gaps->useful += one.useful;
		gaps->fragments += one.fragments;
		gaps->gap += one.gap;
		gaps->end = one.end;
		if (one.smallest > 0 && (gaps->smallest == 0 || one.smallest < gaps->smallest))
			gaps->smallest = one.smallest;
		if (one.largest > gaps->largest)
			gaps->largest = one.largest;
	}
	return true;
}
