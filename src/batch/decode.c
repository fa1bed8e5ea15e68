/*
 * decode.c - column batches to rows, read in place.
 *
 * Does: check a batch once, then return its rows with one load per by-value column; by-reference
 * values point into the batch. Values that travelled converted go through receive or input
 * functions. Does not: keep, copy (except a batch that is not 8-aligned) or fetch batches.
 *
 * Nothing that came over a wire is used before it was checked to lie within the batch, and a
 * column's kind must suit the reader's type: raw images are taken only for built-in types, so a
 * node cannot smuggle a local OID or an unchecked domain value in. Each image is checked to be one
 * that the type itself could have made (image.c); where that check is not complete (image_type.c),
 * images are taken from trusted nodes only, and values of other nodes come through receive
 * functions.
 *
 * A batch may be read in a receive buffer, which the peer's engine maps (same host) or its device
 * can write: an honest peer does not write to it until its credit comes back, a hostile or broken
 * one may. So header and descriptors are copied when the batch is loaded, and every offset, length
 * and bit that determines an address is loaded once (rf_load8, rf_load32). Hence, even if the bytes
 * change: this file and image.c read inside the batch only; by-value columns return some value of
 * their type; fixed-length values lie inside the batch; converted values go through a private copy.
 * There is no guarantee for a varlena or a name: it is returned in place, and the executor reads
 * its header or searches for its end again. A peer that changes it after the check here can make
 * that code read elsewhere. Reading in place therefore trusts the peer's engine, which has proved a
 * token that an authenticated session carried. The option read_in_place 'false' has each batch
 * copied to private memory before it is loaded, for peers that are not trusted that far.
 *
 * All other memory belongs to one backend.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "rdma_fdw/batch.h"
#include "batch_check.h"
#include "rdma_fdw/compat.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "decoder.h"

#define ASCII_STRIDE	4096	/* bytes between two looks at the result */
#define ASCII_WAIT		15		/* batches after one with characters beyond ASCII */

RfDecoder *
rf_decoder_create(TupleDesc desc, int column_count, const AttrNumber *attnums, const char *source,
				  bool trusted)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw decoder",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	RfDecoder  *decoder = palloc0(sizeof(RfDecoder));

	decoder->context = context;
	decoder->scratch = AllocSetContextCreate(context, "rdma_fdw decoded values",
											 ALLOCSET_DEFAULT_SIZES);
	decoder->column_count = column_count;
	decoder->columns = palloc0(sizeof(DecodeColumn) * Max(column_count, 1));
	decoder->types = palloc0(sizeof(DecodeType) * Max(column_count, 1));
	decoder->descriptors = palloc0(sizeof(RfBatchColumn) * Max(column_count, 1));
	decoder->natts = desc->natts;
	decoder->filled = palloc0(sizeof(bool) * Max(desc->natts, 1));
	decoder->source = pstrdup(source);

	for (int i = 0; i < column_count; i++)
	{
		DecodeType *type = &decoder->types[i];
		Form_pg_attribute att;
		bool		text;

		if (attnums[i] < 1 || attnums[i] > desc->natts)
			elog(ERROR, "column %d of a batch has no attribute %d to fill", i + 1, attnums[i]);
		att = TupleDescAttr(desc, attnums[i] - 1);
		type->type = att->atttypid;
		type->typmod = att->atttypmod;
		type->name = pstrdup(NameStr(att->attname));
		type->raw = rf_type_is_raw(att->atttypid, &text) &&
			(rf_image_describe(att->atttypid, &type->image) || trusted);
		if (type->raw)
			rf_raw_layout(att->attlen, att->attbyval, &type->raw_kind, &type->raw_width);
		if (trusted && rf_image_is_plain(type->image.kind))
			type->image.kind = RF_IMAGE_BYTES;
		type->limit = RF_UNLIMITED;
		if (!trusted && !rf_image_limit(att->atttypid, att->atttypmod, &type->limit))
			type->raw = false;
		type->length = att->attlen;
		type->align = rf_align_bytes(att->attalign);
		type->short_headers = att->attlen == -1 &&
			get_typstorage(att->atttypid) != TYPSTORAGE_PLAIN;
		decoder->columns[i].attr = attnums[i] - 1;
		decoder->filled[attnums[i] - 1] = true;
	}
	MemoryContextSwitchTo(caller);
	return decoder;
}

void
rf_decoder_destroy(RfDecoder *decoder)
{
	MemoryContextDelete(decoder->context);
}

const RfImage *
rf_state_image(Oid deserialfn)
{
	static const RfImage numeric_sum = {RF_IMAGE_NUMERIC_SUM};
	static const RfImage numeric_squares = {RF_IMAGE_NUMERIC_SQUARES};
#if PG_VERSION_NUM >= 190000	/* before, as numerics */
	static const RfImage integer_sum = {RF_IMAGE_WIDE_SUM};
	static const RfImage integer_squares = {RF_IMAGE_WIDE_SQUARES};
#else
	static const RfImage integer_sum = {RF_IMAGE_INTEGER_SUM};
	static const RfImage integer_squares = {RF_IMAGE_INTEGER_SQUARES};
#endif
#if PG_VERSION_NUM >= 170000
	static const RfImage interval_sum = {RF_IMAGE_INTERVAL_SUM};
#endif

	switch (deserialfn)
	{
		case F_NUMERIC_AVG_DESERIALIZE:
			return &numeric_sum;
		case F_NUMERIC_DESERIALIZE:
			return &numeric_squares;
		case F_INT8_AVG_DESERIALIZE:
			return &integer_sum;
		case F_NUMERIC_POLY_DESERIALIZE:
			return &integer_squares;
#if PG_VERSION_NUM >= 170000
		case F_INTERVAL_AVG_DESERIALIZE:	/* before, its state was an array */
			return &interval_sum;
#endif
		default:
			return NULL;
	}
}

void
rf_decoder_expect_state(RfDecoder *decoder, int i, Oid deserialfn)
{
	const RfImage *image = rf_state_image(deserialfn);

	if (image == NULL || decoder->types[i].type != BYTEAOID)
		elog(ERROR, "the states of function %u cannot be checked", deserialfn);
	decoder->types[i].image = *image;
	decoder->types[i].state = true;
}

uint32
rf_decoder_remaining(RfDecoder *decoder)
{
	return decoder->rows - decoder->row;
}

pg_noinline void
rf_decoder_bad_batch(RfDecoder *decoder, uint32 column, const char *problem)
{
	decoder->row = decoder->rows = 0;
	if (column < (uint32) decoder->column_count)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("received a damaged column batch for \"%s\"", decoder->source),
				 errdetail("Column \"%s\": %s.", decoder->types[column].name, problem)));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("received a damaged column batch for \"%s\"", decoder->source),
			 errdetail("Batch: %s.", problem)));
}

/* Decides how a column of the batch is read; looks up the conversion that it needs. */
static void
prepare_column(RfDecoder *decoder, int i, const RfBatchColumn *descriptor)
{
	DecodeColumn *column = &decoder->columns[i];
	DecodeType *type = &decoder->types[i];
	Oid			function;

	column->width = descriptor->width;
	column->limit = type->limit;
	column->vector = decoder->base + descriptor->data_offset;
	column->nulls = descriptor->nulls_offset != 0 ? decoder->base + descriptor->nulls_offset : NULL;
	type->kind = descriptor->kind;
	switch (type->kind)
	{
		case RF_COLUMN_BYVAL:
		case RF_COLUMN_BYREF:
		case RF_COLUMN_VARLENA:
			if (!type->raw || type->raw_kind != type->kind || type->raw_width != column->width)
				rf_decoder_bad_batch(decoder, i, "its values are not images of the column's type");
			column->op = rf_decode_raw_op(type);
			break;
		case RF_COLUMN_BINARY:
			if (!OidIsValid(type->receive.fn_oid))
			{
				getTypeBinaryInputInfo(type->type, &function, &type->receive_param);
				fmgr_info_cxt(function, &type->receive, decoder->context);
			}
			column->op = OP_CONVERTED;
			break;
		case RF_COLUMN_TEXT:
			if (!OidIsValid(type->input.fn_oid))
			{
				getTypeInputInfo(type->type, &function, &type->input_param);
				fmgr_info_cxt(function, &type->input, decoder->context);
				type->input_depends = rf_text_depends(type->type) & ~RF_TEXT_NAMES;
			}
			column->op = OP_CONVERTED;
			break;
	}
}

/* The entry of an offset column. Vectors are 8-aligned. */
static inline uint32
vector_offset(const uint8 *vector, uint32 row)
{
	return rf_load32(vector + (size_t) row * sizeof(uint32));
}

/*
 * Texts of a batch lie one behind the other at its end. If all of them are short and ASCII, their
 * headers are ASCII too, and one pass over all these bytes costs less than a look at each text.
 */
static void
find_ascii(RfDecoder *decoder, uint32 rows)
{
	uint32		start = PG_UINT32_MAX;

	decoder->ascii_start = PG_UINT32_MAX;
	if (decoder->ascii_wait > 0)
	{
		decoder->ascii_wait--;
		return;
	}
	for (int i = 0; i < decoder->column_count && rows > 0; i++)
	{
		const DecodeColumn *column = &decoder->columns[i];

		if (column->op == OP_TEXT)
		{
			if (column->nulls == NULL)
				start = Min(start, vector_offset(column->vector, 0));
		}
		else if (column->op >= OP_VARLENA)
			return;
	}
	for (uint32 at = start; at < decoder->length; at += ASCII_STRIDE)
		if (!rf_image_is_ascii(decoder->base + at, Min(ASCII_STRIDE, decoder->length - at)))
		{
			decoder->ascii_wait = ASCII_WAIT;
			return;
		}
	decoder->ascii_start = start;
}

void
rf_decoder_load(RfDecoder *decoder, const void *batch, uint32 length)
{
	RfBatchHeader header;
	const char *problem;
	uint32_t	column;

	decoder->row = decoder->rows = 0;
	MemoryContextReset(decoder->scratch);
	if (((uintptr_t) batch & 7) != 0)
	{
		if (decoder->copy != NULL)
			pfree(decoder->copy);
		decoder->copy = NULL;
		decoder->copy = MemoryContextAllocHuge(decoder->context, Max(length, 1));
		memcpy(decoder->copy, batch, length);
		batch = decoder->copy;
	}
	decoder->fresh = true;
	decoder->has_tuples = rf_decoder_load_tuples(decoder, batch, length);
	if (decoder->has_tuples)
		return;
	problem = rf_batch_open(batch, length, decoder->column_count, &header, decoder->descriptors,
							&column);
	if (problem != NULL)
		rf_decoder_bad_batch(decoder, column, problem);

	decoder->base = batch;
	decoder->length = length;
	for (int i = 0; i < decoder->column_count; i++)
		prepare_column(decoder, i, &decoder->descriptors[i]);
	find_ascii(decoder, header.row_count);
	decoder->rows = header.row_count;
}

static void
conversion_error_context(void *arg)
{
	RfDecoder  *decoder = arg;

	if (decoder->error_context)
		decoder->error_context(decoder->owner, decoder->current);
	else
		errcontext("column \"%s\" of \"%s\"",
				   decoder->types[decoder->current].name, decoder->source);
}

void
rf_decoder_set_context(RfDecoder *decoder, void (*context) (void *owner, int i), void *owner)
{
	decoder->error_context = context;
	decoder->owner = owner;
}

static Datum
receive_value(RfDecoder *decoder, DecodeType *type)
{
	Datum		result = ReceiveFunctionCall(&type->receive, &decoder->wire, type->receive_param,
											 type->typmod);

	if (decoder->wire.cursor != decoder->wire.len)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("incorrect binary data format")));
	return result;
}

/*
 * Receive functions expect text in the session's client encoding, but the sender used this
 * database's.
 */
static pg_noinline Datum
receive_as_server(RfDecoder *decoder, DecodeType *type)
{
	int			client = pg_get_client_encoding();
	volatile Datum result = (Datum) 0;

	if (PrepareClientEncoding(GetDatabaseEncoding()) < 0 ||
		SetClientEncoding(GetDatabaseEncoding()) < 0)
		elog(ERROR, "cannot set the client encoding to the database's");
	PG_TRY();
	{
		result = receive_value(decoder, type);
	}
	PG_FINALLY();
	{
		SetClientEncoding(client);
	}
	PG_END_TRY();
	return result;
}

/*
 * Converts a value. NULLs go only through the functions of domains, which may reject them.
 */
static pg_noinline Datum
convert(RfDecoder *decoder, int i, uint32 row)
{
	DecodeType *type = &decoder->types[i];
	uint32		offset = vector_offset(decoder->columns[i].vector, row);
	ErrorContextCallback callback = {error_context_stack, conversion_error_context, decoder};
	MemoryContext caller;
	const uint8 *bytes;
	uint32		size;
	Datum		result;

	bytes = rf_batch_blob(decoder->base, decoder->length, offset, type->kind == RF_COLUMN_TEXT,
						  &size);
	if (bytes == NULL)
		rf_decoder_bad_batch(decoder, i, "a value lies outside the batch");
	if (size >= MaxAllocSize)
		rf_decoder_bad_batch(decoder, i, "a value is too long");

	decoder->current = i;
	error_context_stack = &callback;
	caller = MemoryContextSwitchTo(decoder->context);
	if (decoder->wire.data == NULL)
		initStringInfo(&decoder->wire);
	resetStringInfo(&decoder->wire);
	appendBinaryStringInfo(&decoder->wire, (const char *) bytes, size);
	MemoryContextSwitchTo(decoder->scratch);
	if (type->kind == RF_COLUMN_TEXT)
	{
		int			nestlevel;

		/* as receive functions do */
		(void) pg_verifymbstr(decoder->wire.data, size, false);
		nestlevel = rf_neutral_settings(type->input_depends);
		result = InputFunctionCall(&type->input, decoder->wire.data, type->input_param,
								   type->typmod);
		AtEOXact_GUC(true, nestlevel);
	}
	else if (pg_get_client_encoding() == GetDatabaseEncoding())
		result = receive_value(decoder, type);
	else
		result = receive_as_server(decoder, type);
	if (type->state &&
		!rf_image_check(&type->image, (const uint8_t *) VARDATA_ANY(DatumGetPointer(result)),
						VARSIZE_ANY_EXHDR(DatumGetPointer(result))))
		rf_decoder_bad_batch(decoder, i, "it is no transition state of this aggregate");
	MemoryContextSwitchTo(caller);
	error_context_stack = callback.previous;
	return result;
}

/* A NULL of a converted column: its domain may not allow it. */
static pg_noinline void
check_null(RfDecoder *decoder, int i)
{
	DecodeType *type = &decoder->types[i];
	ErrorContextCallback callback = {error_context_stack, conversion_error_context, decoder};
	MemoryContext caller = MemoryContextSwitchTo(decoder->scratch);

	decoder->current = i;
	error_context_stack = &callback;
	if (type->kind == RF_COLUMN_TEXT)
		(void) InputFunctionCall(&type->input, NULL, type->input_param, type->typmod);
	else
		(void) ReceiveFunctionCall(&type->receive, NULL, type->receive_param, type->typmod);
	error_context_stack = callback.previous;
	MemoryContextSwitchTo(caller);
}

static pg_noinline void
bad_value(RfDecoder *decoder, const DecodeColumn *column)
{
	rf_decoder_bad_batch(decoder, column - decoder->columns,
						 "a value lies outside the batch or is damaged");
}

/*
 * The error names the invalid bytes, as for a client's input; they may have changed since the
 * check.
 */
pg_noinline void
rf_decoder_check_text(RfDecoder *decoder, int column, const uint8 *bytes, uint32 size)
{
	if (pg_verify_mbstr(GetDatabaseEncoding(), (const char *) bytes, size, true))
		return;
	if (AllocSizeIsValid(size))
	{
		char	   *copy = palloc(Max(size, 1));

		/* All of it, including bytes after a NUL. */
		memcpy(copy, bytes, size);
		(void) pg_verify_mbstr(GetDatabaseEncoding(), copy, size, false);
	}
	rf_decoder_bad_batch(decoder, column, "a value lies outside the batch or is damaged");
}

pg_noinline void
rf_decoder_check_limit(RfDecoder *decoder, int column, const uint8 *payload, uint32 size)
{
	DecodeType *type = &decoder->types[column];
	uint32		limit = type->limit;

	if (limit == RF_UNLIMITED)
		return;
	if (type->type == NUMERICOID)
	{
		uint16		word = rf_load16(payload);
		bool		brief = (word & 0xc000) == 0x8000;
		uint32		start = brief ? 2 : 4;
		int32		scale = brief ? (word >> 7) & 0x3f : word & 0x3fff;
		int32		before = 0;

		if (word == 0xc000)		/* NaN */
			return;
		if (size >= start + 2)
		{
			int32		weight = brief ? (int32) (word & 0x3f) - (int32) (word & 0x40) :
				(int16) rf_load16(payload + 2);
			uint16		first = rf_load16(payload + start);

			before = weight * 4 + (first >= 1000 ? 4 : first >= 100 ? 3 : first >= 10 ? 2 : 1);
		}
		if ((word & 0xc000) != 0xc000 && before <= (int32) (limit >> 16) &&
			scale <= (int32) (limit & 0xffff))
			return;
	}
	else if (pg_mbstrlen_with_len((const char *) payload, size) <= (int) limit)
		return;
	rf_decoder_bad_batch(decoder, column,
						 "a value is larger than the column's type modifier allows");
}

static pg_noinline Datum
checked_ref(RfDecoder *decoder, const DecodeColumn *column, const uint8 *value)
{
	DecodeType *type = &decoder->types[column - decoder->columns];

	if (!rf_image_check(&type->image, value, type->length))
		bad_value(decoder, column);
	return PointerGetDatum(value);
}

static pg_noinline Datum
structured_value(RfDecoder *decoder, const DecodeColumn *column, uint32 offset)
{
	DecodeType *type = &decoder->types[column - decoder->columns];
	uint32		header;
	uint32		size = rf_batch_varlena(decoder->base, decoder->length, offset, &header);
	const uint8 *value = decoder->base + offset;

	if (size == 0)
		bad_value(decoder, column);
	if ((header == VARHDRSZ_SHORT && !type->short_headers) ||
		!rf_image_check(&type->image, value + header, size - header))
		bad_value(decoder, column);
	return PointerGetDatum(value);
}

bool
rf_decoder_next(RfDecoder *decoder, Datum *values, bool *isnull)
{
	uint32		row = decoder->row;
	const DecodeColumn *column = decoder->columns;
	const DecodeColumn *end = column + decoder->column_count;

	if (row >= decoder->rows)
		return false;
	decoder->row = row + 1;
	if (unlikely(decoder->fresh))
	{
		decoder->fresh = false;
		for (int i = 0; i < decoder->natts; i++)
			if (!decoder->filled[i])
			{
				values[i] = (Datum) 0;
				isnull[i] = true;
			}
	}

	if (decoder->has_tuples)
	{
		rf_decoder_next_tuple(decoder, values, isnull);
		return true;
	}

	for (; column < end; column++)
	{
		const uint8 *vector = column->vector;
		Datum	   *value = &values[column->attr];

		if (column->nulls != NULL && rf_batch_is_null(column->nulls, row))
		{
			*value = (Datum) 0;
			isnull[column->attr] = true;
			if (column->op == OP_CONVERTED)
				check_null(decoder, column - decoder->columns);
			continue;
		}
		isnull[column->attr] = false;
		switch (column->op)
		{
			case OP_1:
				*value = CharGetDatum(((const char *) vector)[row]);
				break;
			case OP_2:
				*value = Int16GetDatum(((const int16 *) vector)[row]);
				break;
			case OP_4:
				*value = Int32GetDatum(((const int32 *) vector)[row]);
				break;
			case OP_8:
				*value = ((const Datum *) vector)[row];
				break;
			case OP_REF:
				*value = PointerGetDatum(vector + (size_t) row * column->width);
				break;
			case OP_CHECKED_REF:
				*value = checked_ref(decoder, column, vector + (size_t) row * column->width);
				break;
			case OP_BOOL:
				{
					uint8		byte = rf_load8(vector + row);

					if (unlikely(byte > 1))
						bad_value(decoder, column);
					*value = BoolGetDatum(byte);
					break;
				}
			case OP_DATE:
				{
					int32		date = rf_load32(vector + (size_t) row * sizeof(int32));

					if (unlikely(!rf_image_is_date(date)))
						bad_value(decoder, column);
					*value = Int32GetDatum(date);
					break;
				}
			case OP_TIME:
			case OP_TIMESTAMP:
				{
					int64		stamp = rf_load64(vector + (size_t) row * sizeof(int64));

					if (unlikely(!rf_decode_is_time(column->op, stamp)))
						bad_value(decoder, column);
					*value = Int64GetDatum(stamp);
					break;
				}
			case OP_VARLENA:
				{
					uint32		offset = vector_offset(vector, row);
					uint32		header;

					if (rf_batch_varlena(decoder->base, decoder->length, offset, &header) == 0)
						bad_value(decoder, column);
					*value = PointerGetDatum(decoder->base + offset);
					break;
				}
			case OP_TEXT:
				{
					uint32		offset = vector_offset(vector, row);
					uint32		header;
					uint32		size = rf_batch_varlena(decoder->base, decoder->length, offset,
														&header);

					if (size == 0)
						bad_value(decoder, column);
					if (offset < decoder->ascii_start &&
						!rf_image_is_ascii(decoder->base + offset + header, size - header))
						rf_decoder_check_text(decoder, column - decoder->columns,
											  decoder->base + offset + header, size - header);
					if (size - header > column->limit)
						rf_decoder_check_limit(decoder, column - decoder->columns,
											   decoder->base + offset + header, size - header);
					*value = PointerGetDatum(decoder->base + offset);
					break;
				}
			case OP_NUMERIC:
				{
					uint32		offset = vector_offset(vector, row);
					uint32		header;
					uint32		size = rf_batch_varlena(decoder->base, decoder->length, offset,
														&header);

					if (size == 0 ||
						!rf_image_is_numeric(decoder->base + offset + header, size - header))
						bad_value(decoder, column);
					if (rf_number_may_exceed(decoder->base + offset + header, column->limit))
						rf_decoder_check_limit(decoder, column - decoder->columns,
											   decoder->base + offset + header, size - header);
					*value = PointerGetDatum(decoder->base + offset);
					break;
				}
			case OP_IMAGE:
				*value = structured_value(decoder, column, vector_offset(vector, row));
				break;
			case OP_CONVERTED:
				*value = convert(decoder, column - decoder->columns, row);
				break;
		}
	}
	return true;
}
