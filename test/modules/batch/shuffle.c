/*
 * shuffle.c - rows of a query to many destinations within one backend: kept together and divided,
 * as the exchange's producer does it, or one after the other.
 *
 *   batch_shuffle(query text, keys int[], destinations int, capacity int)  returns setof record
 *       the rows after a trip together through each destination's batches; checks that each came
 *       out
 *       where its hash belongs
 *   batch_shuffle_time(query text, keys int[], destinations int, capacity int, rounds int, scan
 *   bool,
 *       OUT together float8, OUT by_row float8): nanoseconds of CPU per row. The query's own are no
 *       part: its rows are kept as values, and given `rounds` times to each in turn. With `scan` it
 *       is plain columns of a table, and scanning that is a part of both
 */
#include "postgres.h"

#include <time.h>

#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
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
	AttrNumber	keys[8];		/* columns */
	AttrNumber	slot_keys[8];	/* attributes of the slots */
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
	SeqScanState *scan;			/* NULL: rows are values */
	AttrNumber *attmap;			/* of its slots */
	int			last_attr;
	uint32		collected;
	uint32		given;
	Datum	   *all_values;
	bool	   *all_isnull;
} Shuffle;

/* The keys are at these places of the arrays. */
static inline uint64
hash_row(Shuffle *shuffle, const AttrNumber *keys, const Datum *values, const bool *isnull)
{
	Datum		key_values[8];
	bool		key_isnull[8];

	for (int i = 0; i < shuffle->key_count; i++)
	{
		key_values[i] = values[keys[i] - 1];
		key_isnull[i] = isnull[keys[i] - 1];
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
		if (hash_row(shuffle, shuffle->keys, shuffle->values, shuffle->isnull) %
			shuffle->destinations !=
				to)
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
	Outlet	   *outlet;
	uint64		hash;
	int			to;

	slot_getsomeattrs(slot, shuffle->last_attr);
	hash = hash_row(shuffle, shuffle->slot_keys, slot->tts_values, slot->tts_isnull);
	to = (shuffle->destinations & (shuffle->destinations - 1)) == 0 ?
		hash & (shuffle->destinations - 1) : hash % shuffle->destinations;
	outlet = &shuffle->outlets[to];
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

/*
 * Few enough to stay in the cache, as rows that a query has just made; each round gives them many
 * times.
 */
#define KEPT_ROWS		4096
#define ROWS_PER_ROUND	(16 * KEPT_ROWS)

static void
keep(Shuffle *shuffle, TupleTableSlot *slot)
{
	int			natts = shuffle->desc->natts;
	size_t		at = (size_t) shuffle->collected * natts;

	if (shuffle->collected == KEPT_ROWS)
		return;
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

/* For rows of `desc`, which come in slots of `slots`. */
static void
prepare(Shuffle *shuffle, TupleDesc desc, TupleDesc slots)
{
	RfStreamColumn *wanted = palloc0(sizeof(RfStreamColumn) * desc->natts);
	MemoryContext caller = MemoryContextSwitchTo(shuffle->context);
	AttrNumber *attnums = palloc0(sizeof(AttrNumber) * desc->natts);
	Oid			types[8];
	Oid			collations[8];

	shuffle->desc = CreateTupleDescCopy(desc);
	for (int i = 0; i < desc->natts; i++)
	{
		rf_column_wanted(TupleDescAttr(desc, i)->atttypid, -1, false, &wanted[i]);
		attnums[i] = i + 1;
	}
	for (int i = 0; i < shuffle->key_count; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, shuffle->keys[i] - 1);

		shuffle->slot_keys[i] = shuffle->attmap != NULL ? shuffle->attmap[shuffle->keys[i] - 1] :
			shuffle->keys[i];
		types[i] = att->atttypid;
		collations[i] = att->attcollation;
	}
	shuffle->route = rf_route_create(shuffle->key_count, types, collations);
	shuffle->outlets = palloc0(shuffle->destinations * sizeof(Outlet));
	for (int to = 0; to < shuffle->destinations; to++)
	{
		shuffle->outlets[to].encoder = rf_encoder_create(slots, desc->natts, shuffle->attmap,
														 wanted, 0, GetDatabaseEncoding());
		shuffle->outlets[to].buffer = palloc(shuffle->capacity);
	}
	shuffle->rows = rf_rows_create(slots, desc->natts, shuffle->attmap, shuffle->destinations);
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
	shuffle->decoder = rf_decoder_create(shuffle->result, desc->natts, attnums, "shuffle", false);
	shuffle->values = palloc0(sizeof(Datum) * desc->natts);
	shuffle->isnull = palloc0(sizeof(bool) * desc->natts);
	MemoryContextSwitchTo(caller);
}

static void
startup(DestReceiver *self, int operation, TupleDesc desc)
{
	prepare((Shuffle *) self, desc, desc);
}

static void
nothing(DestReceiver *self)
{
}

static QueryDesc *
begin_query(Shuffle *shuffle, FunctionCallInfo fcinfo)
{
	const char *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));
	List	   *parsed = pg_parse_query(sql);
	List	   *queries = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, parsed), sql,
															 NULL, 0, NULL);
	PlannedStmt *plan = rf_plan_query(linitial_node(Query, queries), sql, 0);
	Datum	   *keys;
	QueryDesc  *query;

	/* Used until the end of the run. */
	shuffle->context = CurrentMemoryContext;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), INT4OID, 4, true, TYPALIGN_INT, &keys, NULL,
					  &shuffle->key_count);
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
	query = CreateQueryDesc(plan, sql, GetActiveSnapshot(), InvalidSnapshot, &shuffle->pub, NULL,
							NULL, 0);
	ExecutorStart(query, 0);
	return query;
}

static void
run_query(Shuffle *shuffle, QueryDesc *query)
{
#if PG_VERSION_NUM >= 180000
	ExecutorRun(query, ForwardScanDirection, 0);
#else
	ExecutorRun(query, ForwardScanDirection, 0, true);
#endif
	end_rows(shuffle);
}

static void
end_query(QueryDesc *query)
{
	ExecutorFinish(query);
	ExecutorEnd(query);
	FreeQueryDesc(query);
}

Datum
batch_shuffle(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Shuffle		shuffle = {0};
	QueryDesc  *query;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	shuffle.result = rsinfo->setDesc;
	shuffle.store = rsinfo->setResult;
	query = begin_query(&shuffle, fcinfo);
	run_query(&shuffle, query);
	end_query(query);
	return (Datum) 0;
}

static double
cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

typedef void (*Take) (Shuffle *shuffle, TupleTableSlot *slot);

static void
give_values(Shuffle *shuffle, Take take)
{
	int			natts = shuffle->desc->natts;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(shuffle->desc, &TTSOpsVirtual);

	uint32		kept = 0;

	for (shuffle->given = 0; shuffle->given < ROWS_PER_ROUND; shuffle->given++)
	{
		size_t		at = (size_t) kept * natts;

		kept = kept + 1 == shuffle->collected ? 0 : kept + 1;
		/* As a virtual slot whose values lie there already. */
		slot->tts_values = shuffle->all_values + at;
		slot->tts_isnull = shuffle->all_isnull + at;
		slot->tts_nvalid = natts;
		take(shuffle, slot);
	}
}

static void
give_tuples(Shuffle *shuffle, Take take)
{
	TupleTableSlot *slot = shuffle->scan->ss.ss_ScanTupleSlot;
	TableScanDesc scan = rf_table_beginscan(shuffle->scan->ss.ss_currentRelation,
											GetActiveSnapshot());

	shuffle->given = 0;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		shuffle->given++;
		take(shuffle, slot);
	}
	ExecClearTuple(slot);
	table_endscan(scan);
}

static double
round_of(Shuffle *shuffle, Take take)
{
	double		start = cpu_now();

	if (shuffle->scan != NULL)
		give_tuples(shuffle, take);
	else
		give_values(shuffle, take);
	end_rows(shuffle);
	return (cpu_now() - start) / Max(shuffle->given, 1);
}

/* The query's plain columns of one table. */
static void
begin_scan(Shuffle *shuffle, QueryDesc *query)
{
	SeqScanState *scan = (SeqScanState *) query->planstate;
	List	   *targets;
	int			count = 0;

	if (!IsA(scan, SeqScanState) || scan->ss.ps.qual != NULL)
		elog(ERROR, "not a plain scan");
	targets = scan->ss.ps.plan->targetlist;
	shuffle->scan = scan;
	shuffle->attmap = palloc(list_length(targets) * sizeof(AttrNumber));
	for (int i = 0; i < list_length(targets); i++)
		shuffle->attmap[count++] = castNode(Var, list_nth_node(TargetEntry, targets, i)->expr)
			->varattno;
	prepare(shuffle, query->tupDesc, RelationGetDescr(scan->ss.ss_currentRelation));
	for (int i = 0; i < count; i++)
		shuffle->last_attr = Max(shuffle->last_attr, shuffle->attmap[i]);
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
	QueryDesc  *query;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	shuffle.collect = !PG_GETARG_BOOL(5);
	query = begin_query(&shuffle, fcinfo);
	shuffle.all_values = palloc(KEPT_ROWS * query->tupDesc->natts * sizeof(Datum));
	shuffle.all_isnull = palloc(KEPT_ROWS * query->tupDesc->natts * sizeof(bool));
	if (shuffle.collect)
		run_query(&shuffle, query);
	else
		begin_scan(&shuffle, query);
	if (shuffle.collect && shuffle.collected == 0)
		elog(ERROR, "no rows");
	for (int round = 0; round <= rounds; round++)
	{
		CHECK_FOR_INTERRUPTS();
		times[round] = round_of(&shuffle, together);
		times[rounds + 1 + round] = round_of(&shuffle, by_row);
	}
	end_query(query);
	/* The first runs warm up. */
	for (int i = 0; i < 2; i++)
	{
		double	   *one = times + i * (rounds + 1) + 1;

		qsort(one, rounds, sizeof(double), compare_times);
		values[i] = Float8GetDatum(one[rounds / 2]);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
