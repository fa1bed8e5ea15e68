/*
 * batch_test.c - rows through encoder and decoder within one backend, for tests and profiles of the
 * batch room.
 *
 *   batch_round_trip(query text, capacity int, portable bool, encoding text, damage int)  returns
 *   setof record
 *       rows of the query after a trip through batches of `capacity` bytes. damage > 0: seed of
 *       flipped bytes in every batch.
 *   batch_kinds(query text, portable bool, encoding text)  returns text      how each column
 *   travels to a reader with the same types
 *   batch_pages(tab regclass, way text, damage int)  returns setof record
 *       rows of the table through batches of heap tuples: page by page as they are ("box") or
 *       packed
 *       ("copy"), or with bytes that stay on their pages until the batch is put together: whole
 *       pages
 *       ("stays"), what touches of two thirds and of one third of the tuples ("gather"), all of
 *       these
 *       in turn ("mixed"), or what counts of tuples at equal distances ("strided", of which there
 *       must
 *       be some); all rows that have a line pointer
 *   batch_time(query text, capacity int, decode bool)  returns float8  seconds, nothing kept
 *
 * Does not: touch flows or the network.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "storage/bufmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(batch_round_trip);
PG_FUNCTION_INFO_V1(batch_kinds);
PG_FUNCTION_INFO_V1(batch_pages);
PG_FUNCTION_INFO_V1(batch_time);

typedef struct TripDest
{
	DestReceiver pub;
	uint32		capacity;
	uint32		flags;
	int			encoding;
	uint32		damage;			/* 0 without damage, else the generator's state */
	TupleDesc	result;			/* NULL: the query's own */
	Tuplestorestate *store;		/* NULL: do not keep rows */
	bool		decode;
	bool		trusted;		/* images whose check is not complete go raw */
	RfEncoder  *encoder;
	RfDecoder  *decoder;
	char	   *buffer;
	bool		filling;
	Datum	   *values;
	bool	   *isnull;
	StringInfo	kinds;			/* not NULL: describe the first batch */
	uint64		bytes;
	uint64		strided;		/* parts that were */
} TripDest;

enum
{
	WAY_BOX, WAY_COPY, WAY_STAYS, WAY_GATHER, WAY_MIXED, WAY_STRIDED
};

static uint32
next_random(uint32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void
take_batch(TripDest *dest, const char *batch, uint32 length)
{
	static const char *const names[] = {"?", "byval", "byref", "varlena", "binary", "text"};

	dest->bytes += length;
	if (dest->kinds != NULL)
	{
		for (int i = 0; i < dest->result->natts; i++)
		{
			RfBatchColumn column;

			memcpy(&column, batch + sizeof(RfBatchHeader) + i * sizeof(column), sizeof(column));
			appendStringInfo(dest->kinds, "%s%s", i > 0 ? " " : "", names[column.kind]);
		}
		dest->kinds = NULL;
	}
	if (!dest->decode)
		return;
	if (dest->damage != 0)
	{
		int			count = next_random(&dest->damage) % 3;
		char	   *bad = palloc(length);

		memcpy(bad, batch, length);
		while (count-- > 0)
		{
			uint32		reach = next_random(&dest->damage) % 8 == 0 ? Min(length, 512) : length;

			bad[next_random(&dest->damage) % reach] = next_random(&dest->damage);
		}
		batch = bad;
	}
	rf_decoder_load(dest->decoder, batch, length);
	while (rf_decoder_next(dest->decoder, dest->values, dest->isnull))
	{
		if (dest->store != NULL)
			tuplestore_putvalues(dest->store, dest->result, dest->values, dest->isnull);
	}
}

static void
trip_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	TripDest   *dest = (TripDest *) self;
	RfStreamColumn *wanted = palloc0(sizeof(RfStreamColumn) * Max(desc->natts, 1));
	AttrNumber *attnums = palloc0(sizeof(AttrNumber) * Max(desc->natts, 1));

	if (dest->result == NULL)
		dest->result = CreateTupleDescCopy(desc);
	if (dest->result->natts != desc->natts)
		elog(ERROR, "%d columns wanted, query has %d", dest->result->natts, desc->natts);
	for (int i = 0; i < desc->natts; i++)
	{
		rf_column_wanted(TupleDescAttr(dest->result, i)->atttypid,
						 TupleDescAttr(dest->result, i)->atttypmod, dest->trusted, &wanted[i]);
		attnums[i] = i + 1;
	}
	dest->encoder = rf_encoder_create(desc, desc->natts, NULL, wanted, dest->flags, dest->encoding);
	dest->decoder = rf_decoder_create(dest->result, desc->natts, attnums, "trip", dest->trusted);
	dest->buffer = palloc_extended(dest->capacity, MCXT_ALLOC_HUGE);
	dest->values = palloc0(sizeof(Datum) * Max(desc->natts, 1));
	dest->isnull = palloc0(sizeof(bool) * Max(desc->natts, 1));
}

static void
flush(TripDest *dest)
{
	if (dest->filling && rf_encoder_rows(dest->encoder) > 0)
		take_batch(dest, dest->buffer, rf_encoder_finish(dest->encoder));
	dest->filling = false;
}

static bool
trip_receive(TupleTableSlot *slot, DestReceiver *self)
{
	TripDest   *dest = (TripDest *) self;

	for (;;)
	{
		if (!dest->filling)
		{
			rf_encoder_begin(dest->encoder, dest->buffer, dest->capacity);
			dest->filling = true;
		}
		switch (rf_encoder_add(dest->encoder, slot))
		{
			case RF_ENCODE_DONE:
				return true;
			case RF_ENCODE_FULL:
				flush(dest);
				break;
			case RF_ENCODE_TOO_LARGE:
				{
					uint32		length = rf_encoder_measure_large(dest->encoder, slot);
					const uint8 *batch = rf_encoder_large_row(dest->encoder, slot, NULL, length,
															  &length);

					take_batch(dest, (const char *) batch, length);
					dest->filling = false;
					return true;
				}
		}
	}
}

static void
trip_nothing(DestReceiver *self)
{
}

static void
run(TripDest *dest, const char *sql)
{
	List	   *parsed = pg_parse_query(sql);
	List	   *queries = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, parsed), sql,
															 NULL, 0, NULL);
	PlannedStmt *plan = rf_plan_query(linitial_node(Query, queries), sql, CURSOR_OPT_PARALLEL_OK);
	QueryDesc  *query;

	dest->pub.receiveSlot = trip_receive;
	dest->pub.rStartup = trip_startup;
	dest->pub.rShutdown = trip_nothing;
	dest->pub.rDestroy = trip_nothing;
	dest->pub.mydest = DestCopyOut;
	query = CreateQueryDesc(plan, sql, GetActiveSnapshot(), InvalidSnapshot, &dest->pub, NULL, NULL,
							0);
	ExecutorStart(query, 0);
#if PG_VERSION_NUM >= 180000
	ExecutorRun(query, ForwardScanDirection, 0);
#else
	ExecutorRun(query, ForwardScanDirection, 0, true);
#endif
	flush(dest);
	ExecutorFinish(query);
	ExecutorEnd(query);
	FreeQueryDesc(query);
}

static int
encoding_arg(text * name)
{
	int			encoding = pg_char_to_encoding(text_to_cstring(name));

	return encoding < 0 ? GetDatabaseEncoding() : encoding;
}

Datum
batch_round_trip(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TripDest	dest = {0};

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	dest.capacity = PG_GETARG_INT32(1);
	dest.flags = PG_GETARG_BOOL(2) ? RF_STREAM_PORTABLE : 0;
	dest.encoding = encoding_arg(PG_GETARG_TEXT_PP(3));
	dest.damage = PG_GETARG_INT32(4);
	dest.result = rsinfo->setDesc;
	dest.store = rsinfo->setResult;
	dest.decode = true;
	run(&dest, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	return (Datum) 0;
}

Datum
batch_kinds(PG_FUNCTION_ARGS)
{
	TripDest	dest = {0};
	StringInfoData out;

	initStringInfo(&out);
	dest.capacity = 1 << 20;
	dest.flags = PG_GETARG_BOOL(1) ? RF_STREAM_PORTABLE : 0;
	dest.encoding = encoding_arg(PG_GETARG_TEXT_PP(2));
	dest.kinds = &out;
	run(&dest, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_TEXT_P(cstring_to_text(out.data));
}

/* The batch in one piece. */
static void
take_pages(TripDest *dest, RfTupleWriter *writer)
{
	uint32		length = rf_tuples_finish(writer);
	const RfTuplePart *parts;
	int			count = rf_tuples_parts(writer, &parts);
	char	   *batch = dest->buffer;

	if (count > 0)
	{
		uint32		own = 0;
		uint32		at = 0;
		int			entries = 0;

		batch = palloc(length);
		for (int i = 0; i < count; at += parts[i].own + parts[i].length, i++)
		{
			if (at + parts[i].own + parts[i].length > length)
				elog(ERROR, "parts of a batch are longer than it is");
			memcpy(batch + at, dest->buffer + own, parts[i].own);
			if (parts[i].stride > 0)
			{
				for (uint32 k = 0; k * parts[i].element < parts[i].length; k++)
					memcpy(batch + at + parts[i].own + k * parts[i].element,
						   parts[i].at + k * parts[i].stride, parts[i].element);
				dest->strided++;
			}
			else if (parts[i].length > 0)
				memcpy(batch + at + parts[i].own, parts[i].at, parts[i].length);
			own += parts[i].own;
			entries += (parts[i].own > 0) + (parts[i].length > 0);
		}
		if (at != length || entries > RF_TUPLE_PARTS)
			elog(ERROR, "a batch of %u bytes has parts of %u in %d entries", length, at, entries);
	}
	take_batch(dest, batch, length);
	dest->filling = false;
	if (count > 0)
		pfree(batch);
}

/* Some of a page's tuples, from the first-th on every step-th, or the rest. */
static void
add_some(TripDest *dest, RfTupleWriter *writer, Page page, int way, int first, int step,
		 bool others)
{
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lengths[MaxHeapTuplesPerPage];
	RfPageTuples set;
	RfTupleExtent extent;
	RfTupleFragments fragments;
	RfTupleStride stride;
	int			count = 0;

	for (OffsetNumber i = FirstOffsetNumber; i <= PageGetMaxOffsetNumber(page); i++)
	{
		ItemId		item = PageGetItemId(page, i);

		if (!ItemIdIsNormal(item) || (i % step == first) == others)
			continue;
		tuples[count] = (HeapTupleHeader) PageGetItem(page, item);
		lengths[count++] = ItemIdGetLength(item);
	}
	set = (RfPageTuples)
	{
		page, tuples, lengths, count
	};
	if (count == 0)
		return;
	if (!rf_tuples_measure(writer, &set, &extent))
		elog(ERROR, "a value lies elsewhere");
	rf_tuples_fragments(&set, &fragments);
	if (way == WAY_STRIDED && rf_tuples_entries(writer) > 0 && rf_tuples_regular(&set, &stride))
		rf_tuples_stride(writer, &set, &stride);
	else if (way == WAY_GATHER && fragments.count <= rf_tuples_entries(writer))
		rf_tuples_gather(writer, &set, &fragments);
	else
		rf_tuples_add(writer, &set, &extent, way == WAY_STAYS, way == WAY_STAYS);
}

/* There is room for one page. */
static void
make_room(TripDest *dest, RfTupleWriter *writer, int way)
{
	if (dest->filling && !rf_tuples_has_room(writer))
		take_pages(dest, writer);
	if (!dest->filling && !rf_tuples_begin(writer, dest->buffer, dest->capacity,
										   way >= WAY_STAYS ? RF_TUPLE_PARTS : 0))
		elog(ERROR, "batches of %u bytes are too small for pages", dest->capacity);
	dest->filling = true;
}

/* One page's tuples, to the writer; a full batch goes to the decoder first. */
static void
add_page(TripDest *dest, RfTupleWriter *writer, Page page, int way, int number)
{
	RfTupleExtent extent;
	int			rows;

	make_room(dest, writer, way);
	if (way == WAY_MIXED)
		way = number % 5 == 4 ? WAY_GATHER : number % 3 == 2 ? WAY_COPY : WAY_STAYS;
	if (way == WAY_COPY || (way == WAY_STRIDED && number % 7 != 5))
		add_some(dest, writer, page, way, 0, 1, false);
	else if (way == WAY_STRIDED)
	{
		add_some(dest, writer, page, way, 0, 2, true);
		make_room(dest, writer, way);
		add_some(dest, writer, page, way, 0, 2, false);
	}
	else if (way == WAY_GATHER || number % 7 == 5)
	{
		add_some(dest, writer, page, way, 0, 3, true);
		make_room(dest, writer, WAY_MIXED);
		add_some(dest, writer, page, way, 0, 3, false);
	}
	else
	{
		rows = rf_tuples_look(writer, page, &extent);
		if (rows < 0)
			elog(ERROR, "a value lies elsewhere");
		if (rows > 0)
			rf_tuples_add_page(writer, page, rows, &extent, way == WAY_STAYS);
	}
}

Datum
batch_pages(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	TripDest	dest = {0};
	AttrNumber *attmap = palloc(sizeof(AttrNumber) * desc->natts);
	AttrNumber *attnums = palloc(sizeof(AttrNumber) * desc->natts);
	RfStreamColumn *wanted = palloc0(sizeof(RfStreamColumn) * desc->natts);
	RfTupleWriter *writer;
	static const char *const ways[] = {"box", "copy", "stays", "gather", "mixed", "strided"};
	const char *name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int			way = WAY_BOX;
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	char	   *copies = palloc_extended((Size) blocks * BLCKSZ, MCXT_ALLOC_HUGE);
	int			count = 0;

	while (strcmp(ways[way], name) != 0)
		if (++way == lengthof(ways))
			elog(ERROR, "no such way");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	dest.capacity = 65536;
	dest.damage = PG_GETARG_INT32(2);
	dest.result = rsinfo->setDesc;
	dest.store = rsinfo->setResult;
	dest.decode = true;
	dest.buffer = palloc(dest.capacity);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		rf_column_wanted(att->atttypid, att->atttypmod, true, &wanted[count]);
		attmap[count] = i + 1;
		attnums[count] = count + 1;
		count++;
	}
	if (dest.result->natts != count)
		elog(ERROR, "%d columns wanted, the table has %d", dest.result->natts, count);
	writer = rf_tuples_create(desc, OidIsValid(rel->rd_rel->reltoastrelid), count, attmap, wanted,
							  0, GetDatabaseEncoding());
	if (writer == NULL)
		elog(ERROR, "some column has no image");
	dest.decoder = rf_decoder_create(dest.result, count, attnums, "trip", true);
	dest.values = palloc0(sizeof(Datum) * count);
	dest.isnull = palloc0(sizeof(bool) * count);
	for (BlockNumber block = 0; block < blocks; block++)
	{
		Buffer		buffer = ReadBuffer(rel, block);
		char	   *copy = copies + (Size) block * BLCKSZ;

		/* They lie side by side, but for some, which exchange places. */
		if (block % 10 == 8 && block + 1 < blocks)
			copy += BLCKSZ;
		else if (block % 10 == 9)
			copy -= BLCKSZ;
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		memcpy(copy, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
		add_page(&dest, writer, copy, way, block);
	}
	if (dest.filling && rf_tuples_rows(writer) > 0)
		take_pages(&dest, writer);
	if (way == WAY_STRIDED && dest.strided == 0)
		elog(ERROR, "no tuples of this table lie at equal distances");
	table_close(rel, AccessShareLock);
	return (Datum) 0;
}

Datum
batch_time(PG_FUNCTION_ARGS)
{
	TripDest	dest = {0};
	instr_time	start;
	instr_time	stop;

	dest.capacity = PG_GETARG_INT32(1);
	dest.encoding = GetDatabaseEncoding();
	dest.decode = PG_GETARG_BOOL(2);
	INSTR_TIME_SET_CURRENT(start);
	run(&dest, text_to_cstring(PG_GETARG_TEXT_PP(0)));
	INSTR_TIME_SET_CURRENT(stop);
	INSTR_TIME_SUBTRACT(stop, start);
	PG_RETURN_FLOAT8(INSTR_TIME_GET_DOUBLE(stop));
}
