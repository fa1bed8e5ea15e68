/*
 * route.h - rows divided among destinations by a bitmap for each (D-RDMA, section 3.2), as
 * bench/region and bench/join/pick.c measure it. The exchange divides them by lists
 * (src/batch/encode_rows.c says why), so this is no part of the product.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include <string.h>

#include "ncr.h"

/* The selected rows as numbers; returns how many. `rows` has room for rf_mask_count of them. */
static inline uint32_t
mask_rows(const uint64_t *mask, uint32_t count, uint32_t *rows)
{
	uint32_t	selected = 0;

	for (size_t word = 0; word < RF_MASK_WORDS(count); word++)
		for (uint64_t rest = rf_mask_word(mask, count, word); rest != 0; rest &= rest - 1)
			rows[selected++] = (uint32_t) (word * 64 + (size_t) __builtin_ctzll(rest));
	return selected;
}

/*
 * Row i goes to destination[i]; mask d, at masks + d * words, gets a bit for each of its rows,
 * counts[d] how many. A row whose destination is not below `destinations` goes nowhere.
 */
static inline void
mask_route(const uint16_t *destination, uint32_t count, uint32_t destinations, uint64_t *masks,
		   size_t words, uint32_t *counts)
{
	memset(masks, 0, destinations * words * sizeof(uint64_t));
	memset(counts, 0, destinations * sizeof(uint32_t));
	for (uint32_t row = 0; row < count; row++)
	{
		uint32_t	to = destination[row];

		if (to >= destinations)
			continue;
		masks[to * words + row / 64] |= (uint64_t) 1 << (row % 64);
		counts[to]++;
	}
}

#endif
