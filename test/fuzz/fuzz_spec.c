/*
 * fuzz_spec.c - the text that describes an exchange, of which any role may send one: whatever it is, it is refused, or every number in
 * it is within its limits.
 */
#include "backend.h"

#include "../../src/exchange/spec.c"

RfRoute *
rf_route_create(int count, const Oid *types, const Oid *collations)
{
	return NULL;
}

static void
check_spec(const ExchangeSpec *spec)
{
	require(spec->number >= 1 && spec->number <= EXCHANGE_MAX);
	require(spec->rows >= 0 && spec->rows <= 1e300);
	require(spec->replicate ? spec->key_count == 0 && spec->map == NULL && spec->heavy == HEAVY_NONE : spec->key_count > 0);
	require(spec->filter == 0 || (!spec->replicate && spec->filter >= 1 && spec->filter < spec->number));
	require(spec->reader >= 0 && spec->reader <= PG_INT16_MAX);
	for (int i = 0; i < spec->key_count; i++)
		require(spec->keys[i] >= 1 && spec->keys[i] <= MaxTupleAttributeNumber);
	for (int i = 0; i < spec->map_count; i++)
		require(spec->map[i] < RF_MAX_PEERS);
	require((spec->map == NULL) == (spec->map_count == 0) && (spec->heavy == HEAVY_NONE) == (spec->heavy_count == 0));
	for (int i = 1; i < spec->heavy_count; i++)
		require(spec->heavy_hashes[i - 1] <= spec->heavy_hashes[i]);
	for (int i = 0; i < spec->distinct_count; i++)
		require(spec->distinct[i] >= -1e300 && spec->distinct[i] <= 1e300);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	if (setjmp(error_place) == 0)
	{
		const ExchangeSpec *spec = rf_exchange_spec_parse(text);

		check_spec(spec);
		require(strlen(rf_exchange_describe(spec)) > 0);
	}
	free_all();
	free(text);
	return 0;
}
