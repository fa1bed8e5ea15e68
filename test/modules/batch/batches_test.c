/*
 * batches_test.c - a store of batches, put into and read in random order.
 *
 *   batch_store(kind text, puts int, largest int, seed int)  returns text
 *       kind: once, kept or shared. Every batch must come once to every cursor, in order and as it
 *       was put in. Returns what was read, and whether a file was used.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "rdma_fdw/batches.h"
#include "utils/builtins.h"

#define CURSORS		3

PG_FUNCTION_INFO_V1(batch_store);

static uint32
length_of(uint32 number, int seed, int largest)
{
	return 8 + (number * 2654435761u ^ (uint32) seed * 40503u) % (uint32) largest;
}

static char
byte_of(uint32 number, uint32 place)
{
	return (char) (number * 31 + place);
}

static void
put(RfBatches *batches, uint32 number, uint32 length, bool *in_file)
{
	char	   *bytes = palloc(length);

	for (uint32 i = 0; i < length; i++)
		bytes[i] = byte_of(number, i);
	*in_file |= !rf_batches_put(batches, bytes, length);
	memset(bytes, 0, length);
	pfree(bytes);
}

static void
check(const char *bytes, uint32 length, uint32 number, int seed, int largest)
{
	if ((uintptr_t) bytes % 8 != 0 || length != length_of(number, seed, largest))
		elog(ERROR, "batch %u has another place or length", number);
	for (uint32 i = 0; i < length; i++)
	{
		if (bytes[i] != byte_of(number, i))
			elog(ERROR, "batch %u has another byte %u", number, i);
	}
}

Datum
batch_store(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	uint32		puts = PG_GETARG_INT32(1);
	int			largest = PG_GETARG_INT32(2);
	int			seed = PG_GETARG_INT32(3);
	RfBatchesKind kind = name[0] == 'o' ? RF_BATCHES_ONCE :
		name[0] == 'k' ? RF_BATCHES_KEPT : RF_BATCHES_SHARED;
	int			cursors = kind == RF_BATCHES_ONCE ? 1 : CURSORS;
	RfBatches  *batches = rf_batches_create(kind, CurrentMemoryContext, CurrentResourceOwner);
	RfBatchCursor *cursor[CURSORS];
	uint32		read[CURSORS] = {0};
	const char *held[CURSORS] = {0};
	uint32		held_length[CURSORS];
	uint32		done = 0;
	uint64		total = 0;
	uint32		rewinds = kind == RF_BATCHES_ONCE ? 0 : 2;
	bool		in_file = false;
	bool		complete = false;
	pg_prng_state random;

	pg_prng_seed(&random, seed);
	for (int i = 0; i < cursors; i++)
		cursor[i] = rf_batches_open(batches, 1, NULL);
	for (;;)
	{
		int			i = pg_prng_uint64_range(&random, 0, cursors - 1);
		bool		all = complete;

		if (done < puts && pg_prng_double(&random) < 0.6)
		{
			for (uint32 burst = pg_prng_uint64_range(&random, 1, 20); burst > 0 && done < puts;
				 burst--, done++)
				put(batches, done, length_of(done, seed, largest), &in_file);
			/* what a reader has stays */
			if (held[i] != NULL)
				check(held[i], held_length[i], read[i] - 1, seed, largest);
			continue;
		}
		if (done == puts && !complete && pg_prng_double(&random) < 0.1)
		{
			rf_batches_complete(batches);
			complete = true;
		}
		if (rf_batches_next(cursor[i], (const void **) &held[i], &held_length[i]))
		{
			check(held[i], held_length[i], read[i]++, seed, largest);
			total++;
		}
		else
		{
			held[i] = NULL;
			if (read[i] != done)
				elog(ERROR, "cursor %d ends at batch %u of %u", i, read[i], done);
			if (rewinds > 0)
			{
				rf_batches_rewind(cursor[i]);
				read[i] = 0;
				rewinds--;
			}
		}
		for (int each = 0; each < cursors; each++)
			all = all && read[each] == puts;
		if (all && rewinds == 0)
			break;
	}
	rf_batches_close(batches);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s%s", total >= (uint64) cursors * puts ? "all" :
											  "some", in_file ? ", in a file" : "")));
}
