/*
 * encode.c - rows to column batches, written in place.
 *
 * Does: lay a batch out over the given memory for the expected number of rows, store each row's
 * values directly into the vectors and the heap behind them, close the gaps if fewer rows fit. Does
 * not: know where the memory comes from or where the batch goes.
 *
 * Layout while filling: header, descriptors, null bitmaps of all columns (zeroed at the start),
 * vectors, heap. The number of rows follows from a running average of heap bytes per row.
 *
 * Memory: the encoder and values derived by it (detoasted copies, send and output results: reset
 * with each batch) live in a context of its own below the caller's. All of it belongs to one
 * backend.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/table.h"
#include "access/tableam.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "coding.h"
#include "encoder.h"

/*
 * First estimate of heap bytes per value, and the maximum of rows in a batch (so that rows without
 * columns are also sent from time to time).
 */
#define FIRST_GUESS_BYTES	24
#define MAX_BATCH_ROWS		65536

static void
conversion_error_context(void *arg)
{
	errcontext("column \"%s\" of the query's result", (const char *) arg);
}

static RfEncodeOp
choose_op(RfColumnKind kind, uint32 size)
{
	switch (kind)
	{
		case RF_COLUMN_BYVAL:
			return size == 1 ? RF_ENCODE_OP_1 :
				size == 2 ? RF_ENCODE_OP_2 :
				size == 4 ? RF_ENCODE_OP_4 :
				RF_ENCODE_OP_8;
		case RF_COLUMN_BYREF:
			return size == 16 ? RF_ENCODE_OP_16 : RF_ENCODE_OP_REF;
		case RF_COLUMN_VARLENA:
			return RF_ENCODE_OP_VARLENA;
		default:
			return RF_ENCODE_OP_CONVERTED;
	}
}

RfEncoder *
rf_encoder_create(TupleDesc desc, int column_count, const AttrNumber *attmap,
				  const RfStreamColumn *wanted, uint32 flags, int reader_encoding)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw encoder",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	RfEncoder  *encoder = palloc0(sizeof(RfEncoder));
	bool		has_binary = false;
	int			offsets = 0;

	encoder->context = context;
	encoder->scratch = AllocSetContextCreate(context, "rdma_fdw encoded values",
											 ALLOCSET_DEFAULT_SIZES);
	encoder->column_count = column_count;
	encoder->columns = palloc0(sizeof(RfEncodeColumn) * Max(column_count, 1));
	encoder->conversions = palloc0(sizeof(RfEncodeConversion) * Max(column_count, 1));
	encoder->reader_encoding = reader_encoding;
	encoder->recode = reader_encoding != GetDatabaseEncoding();

	for (int i = 0; i < column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];
		RfEncodeConversion *conversion = &encoder->conversions[i];
		int			attr = attmap != NULL ? attmap[i] - 1 : i;
		Form_pg_attribute att = TupleDescAttr(desc, attr);
		RfCoding	coding = rf_coding_choose(att, &wanted[i], flags, !encoder->recode);
		Oid			function;
		bool		is_varlena;

		column->attr = attr;
		column->width = coding.width;
		column->size = coding.kind == RF_COLUMN_BYREF ? att->attlen : coding.width;
		column->op = choose_op(coding.kind, column->size);
		conversion->kind = coding.kind;
		conversion->name = pstrdup(NameStr(att->attname));
		encoder->fixed_width += coding.width;
		encoder->last_attr = Max(encoder->last_attr, attr + 1);
		if (coding.kind == RF_COLUMN_VARLENA || column->op == RF_ENCODE_OP_CONVERTED)
			offsets++;
		if (column->op == RF_ENCODE_OP_CONVERTED)
		{
			ErrorContextCallback callback = {error_context_stack, conversion_error_context,
			unconstify(char *, conversion->name)};

			error_context_stack = &callback;
			if (coding.kind == RF_COLUMN_BINARY)
				getTypeBinaryOutputInfo(att->atttypid, &function, &is_varlena);
			else
				getTypeOutputInfo(att->atttypid, &function, &is_varlena);
			error_context_stack = callback.previous;
			fmgr_info_cxt(function, &conversion->function, context);
			conversion->depends = rf_text_depends(att->atttypid);
			has_binary |= coding.kind == RF_COLUMN_BINARY;
		}
	}
	encoder->heap_per_row = (double) offsets * FIRST_GUESS_BYTES;

	/*
	 * Send functions encode text for the session's client: so the client encoding must equal the
	 * encoding of the reader's database.
	 */
	if (has_binary && pg_get_client_encoding() != reader_encoding)
	{
		if (PrepareClientEncoding(reader_encoding) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("conversion between %s and %s is not supported",
							GetDatabaseEncodingName(), pg_encoding_to_char(reader_encoding))));
		encoder->switch_client = true;
	}
	MemoryContextSwitchTo(caller);
	return encoder;
}

void
rf_encoder_destroy(RfEncoder *encoder)
{
	MemoryContextDelete(encoder->context);
}

uint32
rf_encoder_rows(RfEncoder *encoder)
{
	return encoder->rows;
}

/* Bytes of everything before the heap in a batch laid out for `rows` rows. */
static uint64
fixed_part(const RfEncoder *encoder, uint64 rows)
{
	uint64		bytes = sizeof(RfBatchHeader) +
		(uint64) encoder->column_count * sizeof(RfBatchColumn);

	bytes += encoder->column_count * TYPEALIGN64(8, (rows + 7) / 8);
	for (int i = 0; i < encoder->column_count; i++)
		bytes += TYPEALIGN64(8, rows * encoder->columns[i].width);
	return bytes;
}

static void
lay_out(RfEncoder *encoder, uint32 max_rows)
{
	uint32		bitmap = TYPEALIGN(8, (max_rows + 7) / 8);
	uint8	   *at = encoder->base + sizeof(RfBatchHeader) +
		encoder->column_count * sizeof(RfBatchColumn);

	encoder->max_rows = max_rows;
	memset(at, 0, (size_t) bitmap * encoder->column_count);
	for (int i = 0; i < encoder->column_count; i++)
	{
		encoder->columns[i].nulls = at;
		encoder->columns[i].has_nulls = false;
		at += bitmap;
	}
	for (int i = 0; i < encoder->column_count; i++)
	{
		encoder->columns[i].vector = at;
		at += TYPEALIGN(8, max_rows * encoder->columns[i].width);
		memset(at - 8, 0, 8);	/* otherwise the padding would never be written */
	}
	encoder->heap_start = encoder->heap = at - encoder->base;
}

void
rf_encoder_begin(RfEncoder *encoder, void *buffer, uint32 capacity)
{
	double		per_row = encoder->fixed_width + encoder->column_count / 8.0 +
		encoder->heap_per_row;
	double		room = (double) capacity - fixed_part(encoder, 0);
	uint32		rows;

	Assert(((uintptr_t) buffer & 7) == 0);
	encoder->base = buffer;
	encoder->capacity = capacity & ~(uint32) 7;
	encoder->rows = 0;
	if (encoder->uses_scratch)
	{
		MemoryContextReset(encoder->scratch);
		encoder->uses_scratch = false;
	}

	/* Bitmaps and vectors are rounded up to 8 bytes each. */
	room -= encoder->column_count * 16.0;
	if (room < per_row || per_row <= 0)
		rows = per_row <= 0 ? MAX_BATCH_ROWS : 1;
	else
		rows = Min(room / per_row, MAX_BATCH_ROWS);
	if (fixed_part(encoder, rows) > encoder->capacity)
		rows = 0;
	if (rows > 0)
		lay_out(encoder, rows);
	else
		encoder->max_rows = 0;
}

/*
 * Calls the column's send or output function. The result lives in the scratch context until the
 * batch ends.
 */
static char *
convert(RfEncoder *encoder, RfEncodeConversion *conversion, Datum value, uint32 *size)
{
	MemoryContext caller = MemoryContextSwitchTo(encoder->scratch);
	ErrorContextCallback callback = {error_context_stack, conversion_error_context,
	unconstify(char *, conversion->name)};
	char	   *volatile result = NULL;

	encoder->uses_scratch = true;
	error_context_stack = &callback;
	if (conversion->kind == RF_COLUMN_TEXT)
	{
		int			nestlevel = rf_neutral_settings(conversion->depends);
		char	   *text = OutputFunctionCall(&conversion->function, value);

		AtEOXact_GUC(true, nestlevel);
		result = text;
		*size = strlen(text);
		if (encoder->recode)
		{
			text = pg_server_to_any(text, *size, encoder->reader_encoding);
			if (text != result)
				*size = strlen(text);
			result = text;
		}
	}
	else
	{
		bytea	   *bytes;

		if (encoder->switch_client)
		{
			int			client = pg_get_client_encoding();

			SetClientEncoding(encoder->reader_encoding);
			PG_TRY();
			{
				result = (char *) SendFunctionCall(&conversion->function, value);
			}
			PG_FINALLY();
			{
				SetClientEncoding(client);
			}
			PG_END_TRY();
			bytes = (bytea *) result;
		}
		else
			bytes = SendFunctionCall(&conversion->function, value);
		result = VARDATA(bytes);
		*size = VARSIZE(bytes) - VARHDRSZ;
	}
	error_context_stack = callback.previous;
	MemoryContextSwitchTo(caller);
	return result;
}

/* A value stored uncompressed in the TOAST table: its chunks are assembled at their destination. */
static uint32
fetch_plain(RfEncoder *encoder, const struct varatt_external *toast, uint32 *heap)
{
	uint32		length = VARATT_EXTERNAL_GET_EXTSIZE(*toast);
	uint32		at = rf_reserve(encoder, (uint64) length + VARHDRSZ, 8, heap);
	Relation	relation;

	if (at == 0)
		return 0;
	SET_VARSIZE(encoder->base + at, length + VARHDRSZ);
	relation = table_open(toast->va_toastrelid, AccessShareLock);
	table_relation_fetch_toast_slice(relation, toast->va_valueid, length, 0, length,
									 (struct varlena *) (encoder->base + at));
	table_close(relation, AccessShareLock);
	return at;
}

/*
 * A varlena that is not plain: fetches, decompresses or flattens it if it fits. 0: it does not fit.
 */
uint32
rf_store_toasted(RfEncoder *encoder, Datum value, uint32 *heap)
{
	struct varlena *plain;
	MemoryContext caller;
	uint64		size = toast_raw_datum_size(value);
	uint32		at;

	/* Reject before doing the work. A short value has a header of 3 bytes less. */
	if (TYPEALIGN64(8, (uint64) *heap) + size - (VARHDRSZ - VARHDRSZ_SHORT) > encoder->capacity)
		return 0;
	if (VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
	{
		struct varatt_external toast;

		VARATT_EXTERNAL_GET_POINTER(toast, DatumGetPointer(value));
		if (!VARATT_EXTERNAL_IS_COMPRESSED(toast))
			return fetch_plain(encoder, &toast, heap);
	}
	caller = MemoryContextSwitchTo(encoder->scratch);
	encoder->uses_scratch = true;
	plain = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(value));
	MemoryContextSwitchTo(caller);
	size = VARSIZE_ANY(plain);
	at = rf_reserve(encoder, size, VARATT_IS_SHORT(plain) ? 1 : 8, heap);
	if (at != 0)
		memcpy(encoder->base + at, plain, size);
	return at;
}

/* A value of a converted column. 0: it does not fit. */
uint32
rf_store_converted(RfEncoder *encoder, int i, Datum value, uint32 *heap)
{
	RfEncodeConversion *conversion = &encoder->conversions[i];
	uint32		terminator = conversion->kind == RF_COLUMN_TEXT ? 1 : 0;
	uint32		size;
	uint32		at;
	char	   *bytes;

	if (encoder->uses_made)
	{
		bytes = conversion->made;
		size = conversion->made_size;
	}
	else
		bytes = convert(encoder, conversion, value, &size);
	at = rf_reserve(encoder, (uint64) size + sizeof(uint32) + terminator, 4, heap);
	if (at != 0)
	{
		memcpy(encoder->base + at, &size, sizeof(uint32));
		memcpy(encoder->base + at + sizeof(uint32), bytes, size + terminator);
	}
	return at;
}

static pg_noinline void
store_null(RfEncodeColumn *column, uint32 row)
{
	column->nulls[row >> 3] |= 1 << (row & 7);
	column->has_nulls = true;
	memset(column->vector + (size_t) row * column->width, 0, column->width);
}

RfEncodeResult
rf_encoder_add(RfEncoder *encoder, TupleTableSlot *slot)
{
	uint32		row = encoder->rows;
	uint32		heap = encoder->heap;
	RfEncodeColumn *column = encoder->columns;
	RfEncodeColumn *end = column + encoder->column_count;
	const Datum *values;
	const bool *isnull;

	if (row >= encoder->max_rows)
		return row == 0 ? RF_ENCODE_TOO_LARGE : RF_ENCODE_FULL;
	slot_getsomeattrs(slot, encoder->last_attr);
	values = slot->tts_values;
	isnull = slot->tts_isnull;

	for (; column < end; column++)
	{
		Datum		value = values[column->attr];
		uint32		at;

		if (unlikely(isnull[column->attr]))
		{
			store_null(column, row);
			continue;
		}
		switch (column->op)
		{
			case RF_ENCODE_OP_1:
				column->vector[row] = (uint8) value;
				continue;
			case RF_ENCODE_OP_2:
				((uint16 *) column->vector)[row] = (uint16) value;
				continue;
			case RF_ENCODE_OP_4:
				((uint32 *) column->vector)[row] = (uint32) value;
				continue;
			case RF_ENCODE_OP_8:
				((uint64 *) column->vector)[row] = (uint64) value;
				continue;
			case RF_ENCODE_OP_16:
				memcpy(column->vector + (size_t) row * 16, DatumGetPointer(value), 16);
				continue;
			case RF_ENCODE_OP_REF:
				{
					uint8	   *to = column->vector + (size_t) row * column->width;

					memcpy(to, DatumGetPointer(value), column->size);
					memset(to + column->size, 0, column->width - column->size);
					continue;
				}
			case RF_ENCODE_OP_VARLENA:
				at = rf_store_varlena(encoder, DatumGetPointer(value), &heap);
				break;
			default:
				at = rf_store_converted(encoder, column - encoder->columns, value, &heap);
				break;
		}
		if (at == 0)
			goto full;
		((uint32 *) column->vector)[row] = at;
	}
	encoder->heap = heap;
	encoder->rows = row + 1;
	return RF_ENCODE_DONE;

full:
	/* The row's entries in bitmaps and vectors are overwritten, or dropped with the slack. */
	return row == 0 ? RF_ENCODE_TOO_LARGE : RF_ENCODE_FULL;
}

/*
 * Closes the gaps of a batch that got fewer rows than planned. Bitmaps and vectors move to the
 * front in their order, then the heap, whose offsets change by as much.
 */
static void
close_gaps(RfEncoder *encoder)
{
	uint32		rows = encoder->rows;
	uint8	   *at = encoder->base + sizeof(RfBatchHeader) +
		encoder->column_count * sizeof(RfBatchColumn);
	uint32		heap_start;

	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];

		if (!column->has_nulls)
			continue;
		memmove(at, column->nulls, (rows + 7) / 8);
		column->nulls = at;
		at += (rows + 7) / 8;
		while ((at - encoder->base) % 8 != 0)
			*at++ = 0;
	}
	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];

		memmove(at, column->vector, (size_t) rows * column->width);
		column->vector = at;
		at += (size_t) rows * column->width;
		while ((at - encoder->base) % 8 != 0)
			*at++ = 0;
	}
	heap_start = at - encoder->base;
	memmove(at, encoder->base + encoder->heap_start, encoder->heap - encoder->heap_start);
	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];
		uint32	   *offsets = (uint32 *) column->vector;

		if (column->op != RF_ENCODE_OP_VARLENA && column->op != RF_ENCODE_OP_CONVERTED)
			continue;
		/* The offset of NULL is 0 and stays 0. */
		for (uint32 row = 0; row < rows; row++)
			if (offsets[row] != 0)
				offsets[row] -= encoder->heap_start - heap_start;
	}
	encoder->heap -= encoder->heap_start - heap_start;
	encoder->heap_start = heap_start;
}

uint32
rf_encoder_finish(RfEncoder *encoder)
{
	RfBatchHeader header = {0};
	uint8	   *descriptor = encoder->base + sizeof(header);
	uint32		rows = encoder->rows;
	uint64		slack = fixed_part(encoder, encoder->max_rows) - fixed_part(encoder, rows);

	Assert(rows > 0);
	if (encoder->heap > encoder->heap_start)
	{
		double		seen = (double) (encoder->heap - encoder->heap_start) / rows;

		encoder->heap_per_row = (encoder->heap_per_row + 3 * seen) / 4;
	}
	if (slack > encoder->heap / 8)
		close_gaps(encoder);
	else if (rows < encoder->max_rows)
		for (int i = 0; i < encoder->column_count; i++)
		{
			RfEncodeColumn *column = &encoder->columns[i];

			memset(column->vector + (size_t) rows * column->width, 0,
				   TYPEALIGN(8, encoder->max_rows * column->width) - (size_t) rows * column->width);
		}

	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];
		RfBatchColumn out = {0};

		out.kind = encoder->conversions[i].kind;
		out.width = column->width;
		out.nulls_offset = column->has_nulls ? column->nulls - encoder->base : 0;
		out.data_offset = column->vector - encoder->base;
		memcpy(descriptor, &out, sizeof(out));
		descriptor += sizeof(out);
	}
	header.magic = RF_BATCH_MAGIC;
	header.length = encoder->heap;
	header.row_count = rows;
	header.column_count = encoder->column_count;
	memcpy(encoder->base, &header, sizeof(header));
	return encoder->heap;
}

/* Upper bound of the row's variable-length bytes; converted values are computed and kept. */
static uint64
measure_row(RfEncoder *encoder, TupleTableSlot *slot)
{
	uint64		bytes = 0;

	slot_getsomeattrs(slot, encoder->last_attr);
	for (int i = 0; i < encoder->column_count; i++)
	{
		RfEncodeColumn *column = &encoder->columns[i];
		RfEncodeConversion *conversion = &encoder->conversions[i];
		Datum		value = slot->tts_values[column->attr];

		if (slot->tts_isnull[column->attr])
			continue;
		if (column->op == RF_ENCODE_OP_VARLENA)
			bytes += toast_raw_datum_size(value) + MAXIMUM_ALIGNOF;
		else if (column->op == RF_ENCODE_OP_CONVERTED)
		{
			conversion->made = convert(encoder, conversion, value, &conversion->made_size);
			bytes += (uint64) conversion->made_size + 2 * sizeof(uint32) + 1;
		}
	}
	return bytes;
}

uint32
rf_encoder_measure_large(RfEncoder *encoder, TupleTableSlot *slot)
{
	uint64		bytes;

	MemoryContextReset(encoder->scratch);
	bytes = TYPEALIGN64(8, fixed_part(encoder, 1) + measure_row(encoder, slot) + 8);
	if (bytes > PG_UINT32_MAX - 8)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a row of the query's result is too large to be sent"),
				 errdetail("It takes " UINT64_FORMAT " bytes; the limit is 4 GB.", bytes)));
	return bytes;
}

const uint8 *
rf_encoder_large_row(RfEncoder *encoder, TupleTableSlot *slot, uint8 *place, uint32 bytes,
					 uint32 *length)
{
	double		heap_per_row = encoder->heap_per_row;

	/* Kept for the next row: allocating this much costs more than filling it. */
	if (place == NULL && encoder->large_size < bytes)
	{
		if (encoder->large != NULL)
			pfree(encoder->large);
		encoder->large = NULL;
		encoder->large_size = 0;
		encoder->large = MemoryContextAllocHuge(encoder->context, bytes);
		encoder->large_size = bytes;
	}
	encoder->base = place != NULL ? place : encoder->large;
	encoder->capacity = bytes;
	encoder->rows = 0;
	lay_out(encoder, 1);
	encoder->uses_made = true;
	if (rf_encoder_add(encoder, slot) != RF_ENCODE_DONE)
		elog(ERROR, "large row does not fit the memory measured for it");
	encoder->uses_made = false;
	*length = rf_encoder_finish(encoder);

	/* One unusual row must not change the estimate for the next rows. */
	encoder->heap_per_row = heap_per_row;
	MemoryContextReset(encoder->scratch);
	encoder->uses_scratch = false;
	encoder->max_rows = 0;
	encoder->rows = 0;
	return encoder->base;
}
