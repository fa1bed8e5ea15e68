/*
 * fuzz_region.c - a description of regions from the wire (region.h), fed with arbitrary bytes.
 * Whatever is accepted is read to its end, row by row and packed.
 */
#include <stdlib.h>
#include <string.h>

#include "rdma_fdw/region.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST	(1u << 20)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static volatile uint64_t sink;
	uint8_t    *message = malloc(size + 1);
	void	   *memory = NULL;
	uint8_t    *out = NULL;
	RfNcrSet	set;
	size_t		needed;
	const char *problem;

	if (message == NULL)
		return 0;
	memcpy(message, data, size);	/* of exactly that size, and aligned */
	problem = rf_ncr_read(message, (uint32_t) size, NULL, 0, &set, &needed);
	if (problem == RF_NCR_MORE_MEMORY && needed < MOST && (memory = malloc(needed)) != NULL)
		problem = rf_ncr_read(message, (uint32_t) size, memory, needed, &set, &needed);
	if (problem == NULL && rf_ncr_set_bytes(&set) <= MOST)
	{
		uint64_t	bytes = rf_ncr_set_bytes(&set);
		RfNcrCursor cursor;
		RfNcrPiece	fragment;
		RfGaps		gaps;

		out = malloc(bytes + 1);
		if (out != NULL && rf_ncr_pack(&set, out, bytes) != bytes)
			abort();
		rf_ncr_begin(&cursor, &set);
		while (rf_ncr_next(&cursor, &fragment))
		{
			if (fragment.at < message || fragment.at + fragment.length > message + size)
				abort();
			bytes -= fragment.length;
			for (uint64_t i = 0; i < fragment.length; i++)
				sink += fragment.at[i];
		}
		if (bytes != 0)
			abort();
		if (rf_ncr_check(&set) == NULL && rf_ncr_gaps(&set, &gaps) && gaps.useful != rf_ncr_set_bytes(&set))
			abort();
	}
	free(out);
	free(memory);
	free(message);
	return 0;
}
