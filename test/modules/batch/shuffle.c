/*
 * shuffle.c - rows of a query to many destinations within one backend: by bitmaps of rows kept
 * together, as the exchange's producer does it, or one after the other.
 *
 *   batch_shuffle(query text, keys int[], destinations int, capacity int)  returns setof record
 *       the rows after a trip by bitmaps through each destination's batches; checks that each came
 *       out where its hash belongs
 *   batch_shuffle_time(query text, keys int[], destinations int, capacity int, rounds int)
 *       returns table (bitmaps float8, by_row float8): nanoseconds of CPU per row, of which the
 *       query's own are no part: its rows are kept, and given `rounds` times to each in turn
 */
#include "postgres.h"

#include <time.h>

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/exchange.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(batch_shuffle);
PG_FUNCTION_INFO_V1(batch_shuffle_time);

typedef struct Outlet
{
	RfEncoder  *encoder;
	char	   *buffer;
	bool		filling;
} Outlet;

typedef struct Shuffle
{
	DestReceiver pub;
	int			key_count;
	AttrNumber	keys[8];
	int			destinations;
	uint32		capacity;
	TupleDesc	desc;
	RfRoute    *route;
	Outlet	   *outlets;
	RfRows	   *rows;
	uint64	   *hashes;
	uint16	   *places;
	uint16	   *numbers;
	uint32	   *next;
	uint32	   *left;
	TupleTableSlot *slot;
	MemoryContext scratch;
	MemoryContext context;		/* the function's */

	/* the trip */
	RfDecoder  *decoder;		/* NULL: batches are dropped */
	Datum	   *values;
	bool	   *isnull;
	Tuplestorestate *store;
	TupleDesc	result;

	/* the clock */
	bool		collect;
	uint32		collected;
	uint32		room;
	Datum	   *all_values;
	bool	   *all_isnull;
} Shuffle;

static uint64
hash_row(Shuffle *shuffle, const Datum *values, const bool *isnull)
{
	Datum		key_values[8];
	bool		key_isnull[8];

	for (int i = 0; i < shuffle->key_count; i++)
	{
		key_values[i] = values[shuffle->keys[i] - 1];
		key_isnull[i] = isnull[shuffle->keys[i] - 1];
	}
	return rf_route_hash(shuffle->route, key_values, key_isnull);
}

static void
take_batch(Shuffle *shuffle, int to, const void *batch, uint32 length)
{
	if (shuffle->decoder == NULL)
		return;
	rf_decoder_load(shuffle->decoder, batch, length);
	while (rf_decoder_next(shuffle->decoder, shuffle->values, shuffle->isnull))
	{
		if (hash_row(shuffle, shuffle->values, shuffle->isnull) % shuffle->destinations != to)
			elog(ERROR, "a row came to destination %d, where it does not belong", to);
		tuplestore_putvalues(shuffle->store, shuffle->result, shuffle->values, shuffle->isnull);
	}
}

static void
begin_batch(Shuffle *shuffle, Outlet *outlet)
{
	rf_encoder_begin(outlet->encoder, outlet->buffer, shuffle->capacity);
	outlet->filling = true;
}

static void
end_batch(Shuffle *shuffle, int to)
{
	Outlet	   *outlet = &shuffle->outlets[to];

	if (outlet->filling && rf_encoder_rows(outlet->encoder) > 0)
		take_batch(shuffle, to, outlet->buffer, rf_encoder_finish(outlet->encoder));
	outlet->filling = false;
}

static void
large_row(Shuffle *shuffle, int to, TupleTableSlot *slot)
{
	RfEncoder  *encoder = shuffle->outlets[to].encoder;
	uint32		length = rf_encoder_measure_large(encoder, slot);
	const uint8 *batch = rf_encoder_large_row(encoder, slot, NULL, length, &length);

	take_batch(shuffle, to, batch, length);
	shuffle->outlets[to].filling = false;
}

static void
send_rows(Shuffle *shuffle)
{
	RfRows	   *rows = shuffle->rows;

	rf_rows_complete(rows);
	rf_route_hash_rows(shuffle->route, shuffle->keys, rows, shuffle->hashes, shuffle->scratch);
	if ((shuffle->destinations & (shuffle->destinations - 1)) == 0)
		for (uint32 row = 0; row < rows->count; row++)
			shuffle->places[row] = shuffle->hashes[row] & (shuffle->destinations - 1);
	else
		for (uint32 row = 0; row < rows->count; row++)
			shuffle->places[row] = shuffle->hashes[row] % shuffle->destinations;
	rf_rows_divide(shuffle->places, rows->count, shuffle->destinations, shuffle->numbers,
				   shuffle->next, shuffle->left);
	for (int to = 0; to < shuffle->destinations; to++)
	{
		Outlet	   *outlet = &shuffle->outlets[to];
		const uint16 *numbers = shuffle->numbers + shuffle->next[to];
		uint32		left = shuffle->left[to];

		while (left > 0)
		{
			uint32		added;

			if (!outlet->filling)
				begin_batch(shuffle, outlet);
			added = rf_encoder_add_rows(outlet->encoder, rows, numbers, left);
			numbers += added;
			left -= added;
			if (left == 0)
				break;
			if (rf_encoder_rows(outlet->encoder) == 0)
			{
				rf_rows_get(rows, *numbers++, shuffle->slot);
				left--;
				large_row(shuffle, to, shuffle->slot);
			}
			end_batch(shuffle, to);
		}
	}
	rf_rows_reset(rows);
}

static void
together(Shuffle *shuffle, TupleTableSlot *slot)
{
	if (rf_rows_full(shuffle->rows))
		send_rows(shuffle);
	rf_rows_add(shuffle->rows, slot);
}

static void
by_row(Shuffle *shuffle, TupleTableSlot *slot)
{
	uint64		hash = hash_row(shuffle, slot->tts_values, slot->tts_isnull);
	int			to = (shuffle->destinations & (shuffle->destinations - 1)) == 0 ?
		hash & (shuffle->destinations - 1) : hash % shuffle->destinations;
	Outlet	   *outlet = &shuffle->outlets[to];

	for (;;)
	{
		if (!outlet->filling)
			begin_batch(shuffle, outlet);
		switch (rf_encoder_add(outlet->encoder, slot))
		{
			case RF_ENCODE_DONE:
				return;
			case RF_ENCODE_FULL:
				end_batch(shuffle, to);
				break;
			case RF_ENCODE_TOO_LARGE:
				large_row(shuffle, to, slot);
				return;
		}
	}
}

static void
end_rows(Shuffle *shuffle)
{
	if (shuffle->rows->count > 0)
		send_rows(shuffle);
	for (int to = 0; to < shuffle->destinations; to++)
		end_batch(shuffle, to);
}

/* ---------- the query ---------- */

static void
keep(Shuffle *shuffle, TupleTableSlot *slot)
{
	int			natts = shuffle->desc->natts;
	size_t		at = (size_t) shuffle->collected * natts;

	if (shuffle->collected == shuffle->room)
	{
		shuffle->room = Max(1024, shuffle->room * 2);
		shuffle->all_values = shuffle->all_values == NULL ? palloc_extended(shuffle->room * natts * sizeof(Datum), MCXT_ALLOC_HUGE) :
			repalloc_huge(shuffle->all_values, shuffle->room * natts * sizeof(Datum));
		shuffle->all_isnull = shuffle->all_isnull == NULL ? palloc_extended(shuffle->room * natts, MCXT_ALLOC_HUGE) :
			repalloc_huge(shuffle->all_isnull, shuffle->room * natts);
	}
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(shuffle->desc, i);

		shuffle->all_isnull[at + i] = slot->tts_isnull[i];
		shuffle->all_values[at + i] = slot->tts_isnull[i] ? 0 :
			datumCopy(slot->tts_values[i], att->attbyval, att->attlen);
	}
	shuffle->collected++;
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	Shuffle    *shuffle = (Shuffle *) self;

	if (shuffle->collect)
	{
		MemoryContext caller = MemoryContextSwitchTo(shuffle->context);

		slot_getallattrs(slot);
		keep(shuffle, slot);
		MemoryContextSwitchTo(caller);
	}
	else
		together(shuffle, slot);
	return true;
}

static void
startup(DestReceiver *self, int operation, TupleDesc desc)
{
	Shuffle    *shuffle = (Shuffle *) self;
	RfStreamColumn *wanted = palloc0(sizeof(RfStreamColumn) * desc->natts);
	MemoryContext caller = MemoryContextSwitchTo(shuffle->context);
	AttrNumber *attnums = palloc0(sizeof(AttrNumber) * desc->natts);
	Oid			types[8];
	Oid			collations[8];

	shuffle->desc = CreateTupleDescCopy(desc);
	for (int i = 0; i < desc->natts; i++)
	{
		rf_column_wanted(TupleDescAttr(desc, i)->atttypid, -1, &wanted[i]);
		attnums[i] = i + 1;
	}
	for (int i = 0; i < shuffle->key_count; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, shuffle->keys[i] - 1);

		types[i] = att->atttypid;
		collations[i] = att->attcollation;
	}
	shuffle->route = rf_route_create(shuffle->key_count, types, collations);
	shuffle->outlets = palloc0(shuffle->destinations * sizeof(Outlet));
	for (int to = 0; to < shuffle->destinations; to++)
	{
		shuffle->outlets[to].encoder = rf_encoder_create(shuffle->desc, desc->natts, NULL, wanted, 0,
														 GetDatabaseEncoding());
		shuffle->outlets[to].buffer = palloc(shuffle->capacity);
	}
	shuffle->rows = rf_rows_create(shuffle->desc, desc->natts, NULL, shuffle->destinations);
	shuffle->hashes = palloc(shuffle->rows->size * sizeof(uint64));
	shuffle->places = palloc(shuffle->rows->size * sizeof(uint16));
	shuffle->numbers = palloc(shuffle->rows->size * sizeof(uint16));
	shuffle->next = palloc(shuffle->destinations * sizeof(uint32));
	shuffle->left = palloc(shuffle->destinations * sizeof(uint32));
	shuffle->slot = MakeSingleTupleTableSlot(shuffle->desc, &TTSOpsVirtual);
	shuffle->scratch = AllocSetContextCreate(CurrentMemoryContext, "shuffle", ALLOCSET_SMALL_SIZES);
	if (shuffle->result == NULL)
	{
		MemoryContextSwitchTo(caller);
		return;
	}
	if (shuffle->result->natts != desc->natts)
		elog(ERROR, "%d columns wanted, query has %d", shuffle->result->natts, desc->natts);
	shuffle->decoder = rf_decoder_create(shuffle->result, desc->natts, attnums, "shuffle");
	shuffle->values = palloc0(sizeof(Datum) * desc->natts);
	shuffle->isnull = palloc0(sizeof(bool) * desc->natts);
	MemoryContextSwitchTo(caller);
}

static void
nothing(DestReceiver *self)
{
}

static void
run(Shuffle *shuffle, FunctionCallInfo fcinfo)
{
	const char *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));
	List	   *parsed = pg_parse_query(sql);
	List	   *queries = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, parsed), sql, NULL, 0, NULL);
	PlannedStmt *plan = pg_plan_query(linitial_node(Query, queries), sql, 0, NULL);
	Datum	   *keys;
	QueryDesc  *query;

	/* What is made at the start is used after the end. */
	shuffle->context = CurrentMemoryContext;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), INT4OID, 4, true, TYPALIGN_INT, &keys, NULL, &shuffle->key_count);
	if (shuffle->key_count > (int) lengthof(shuffle->keys))
		elog(ERROR, "too many keys");
	for (int i = 0; i < shuffle->key_count; i++)
		shuffle->keys[i] = DatumGetInt32(keys[i]);
	shuffle->destinations = PG_GETARG_INT32(2);
	shuffle->capacity = PG_GETARG_INT32(3);
	shuffle->pub.receiveSlot = receive;
	shuffle->pub.rStartup = startup;
	shuffle->pub.rShutdown = nothing;
	shuffle->pub.rDestroy = nothing;
	shuffle->pub.mydest = DestCopyOut;
	query = CreateQueryDesc(plan, sql, GetActiveSnapshot(), InvalidSnapshot, &shuffle->pub, NULL, NULL, 0);
	ExecutorStart(query, 0);
#if PG_VERSION_NUM >= 180000
	ExecutorRun(query, ForwardScanDirection, 0);
#else
	ExecutorRun(query, ForwardScanDirection, 0, true);
#endif
	end_rows(shuffle);
	rf_rows_reset(shuffle->rows);
	ExecutorFinish(query);
	ExecutorEnd(query);
	FreeQueryDesc(query);
}

Datum
batch_shuffle(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Shuffle		shuffle = {0};

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	shuffle.result = rsinfo->setDesc;
	shuffle.store = rsinfo->setResult;
	run(&shuffle, fcinfo);
	return (Datum) 0;
}

static double
cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static double
round_of(Shuffle *shuffle, bool all)
{
	int			natts = shuffle->desc->natts;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(shuffle->desc, &TTSOpsVirtual);
	double		start = cpu_now();

	for (uint32 row = 0; row < shuffle->collected; row++)
	{
		size_t		at = (size_t) row * natts;

		/* As a virtual slot whose values lie there already. */
		slot->tts_values = shuffle->all_values + at;
		slot->tts_isnull = shuffle->all_isnull + at;
		slot->tts_nvalid = natts;
		if (all)
			together(shuffle, slot);
		else
			by_row(shuffle, slot);
	}
	end_rows(shuffle);
	return (cpu_now() - start) / Max(shuffle->collected, 1);
}

static int
compare_times(const void *a, const void *b)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return left < right ? -1 : left > right;
}

Datum
batch_shuffle_time(PG_FUNCTION_ARGS)
{
	Shuffle		shuffle = {0};
	int			rounds = PG_GETARG_INT32(4);
	double	   *times = palloc(2 * (rounds + 1) * sizeof(double));
	Datum		values[2];
	bool		nulls[2] = {false};
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	shuffle.collect = true;
	run(&shuffle, fcinfo);
	for (int round = 0; round <= rounds; round++)
	{
		CHECK_FOR_INTERRUPTS();
		times[round] = round_of(&shuffle, true);
		times[rounds + 1 + round] = round_of(&shuffle, false);
	}
	/* The first ones warm up. */
	for (int i = 0; i < 2; i++)
	{
		double	   *one = times + i * (rounds + 1) + 1;

		qsort(one, rounds, sizeof(double), compare_times);
		values[i] = Float8GetDatum(one[rounds / 2]);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
