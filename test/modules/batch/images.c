/*
 * images.c - raw images that no type has made: which of them the decoder takes, and whether the
 * functions of the type survive them.
 *
 *   batch_raw(value anyelement)  returns bytea      the value's image, of a varlena without its
 *   header
 *   batch_image(image bytea, type anyelement, trusted bool)  returns anyelement
 *       the value of that type with this image, from a batch; ERROR when the decoder refuses it
 *   batch_mutate(query text, count int, seed int, probes text[])  returns text
 *       count times one of the query's values (of its only column) with some bytes of its image
 *       changed. Images that the decoder takes go through output, send, receive, the default comparison
 *       and
 *       hash functions of its type, and through the probes: expressions of $1, the mutant, and $2,
 *       the
 *       value that it was made from. They may raise errors, but not internal ones; receive must
 *       take
 *       what send made, and make the same image of it, or an equal value. Then: how many of them
 *       were
 *       taken. Anything else is an ERROR with the image that did it.
 *
 * Mutants end where a page begins that cannot be read, as close as alignment allows.
 */
#include "postgres.h"

#include <sys/mman.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(batch_raw);
PG_FUNCTION_INFO_V1(batch_image);
PG_FUNCTION_INFO_V1(batch_mutate);

#define MAX_PROBES	32

/* One value of one type on its way through a batch. */
typedef struct Image
{
	Oid			type;
	int16		length;
	bool		by_value;
	RfDecoder  *decoder;
	Datum		value;			/* the decoded one, in the batch */
} Image;

static void
prepare(Image *image, Oid type, bool trusted)
{
	TupleDesc	desc = CreateTemplateTupleDesc(1);
	AttrNumber	attnum = 1;

	image->type = type;
	get_typlenbyval(type, &image->length, &image->by_value);
	TupleDescInitEntry(desc, 1, "v", type, -1, 0);
	rf_tupdesc_finish(desc);
	image->decoder = rf_decoder_create(desc, 1, &attnum, "image", trusted);
}

/* Bytes of the image of a value. */
static bytea *
raw(Oid type, Datum value)
{
	int16		length;
	bool		by_value;
	bytea	   *result;

	get_typlenbyval(type, &length, &by_value);
	if (length == -1)
	{
		struct varlena *plain = PG_DETOAST_DATUM(value);

		result = palloc(VARSIZE(plain));
		memcpy(result, plain, VARSIZE(plain));
		return result;
	}
	result = palloc(VARHDRSZ + length);
	SET_VARSIZE(result, VARHDRSZ + length);
	if (by_value)
		store_att_byval(VARDATA(result), value, length);
	else
		memcpy(VARDATA(result), DatumGetPointer(value), length);
	return result;
}

/* A batch with this image at its end; `place` NULL: in memory of its own, else so much memory. */
static char *
make_batch(const Image *image, const char *payload, uint32 length, char *place, uint32 room,
		   uint32 *size)
{
	RfBatchHeader header = {0};
	RfBatchColumn column = {0};
	uint32		data = sizeof(header) + sizeof(column);
	uint32		value = data;
	char	   *batch;

	column.data_offset = data;
	if (image->length == -1)
	{
		column.kind = RF_COLUMN_VARLENA;
		column.width = sizeof(uint32);
		value = data + 8;
		*size = value + VARHDRSZ + length;
	}
	else
	{
		column.kind = image->by_value ? RF_COLUMN_BYVAL : RF_COLUMN_BYREF;
		column.width = image->by_value ? image->length : TYPEALIGN(8, image->length);
		*size = value + column.width;
	}
	batch = place == NULL ? palloc0(*size) : place + room - TYPEALIGN(8, *size);
	header.magic = RF_BATCH_MAGIC;
	header.length = *size;
	header.row_count = 1;
	header.column_count = 1;
	memset(batch, 0, *size);
	memcpy(batch, &header, sizeof(header));
	memcpy(batch + sizeof(header), &column, sizeof(column));
	if (image->length == -1)
	{
		memcpy(batch + data, &value, sizeof(value));
		SET_VARSIZE(batch + value, VARHDRSZ + length);
		memcpy(batch + value + VARHDRSZ, payload, length);
	}
	else
		memcpy(batch + value, payload, Min(length, column.width));
	return batch;
}

static void
decode(Image *image, const char *batch, uint32 size)
{
	bool		isnull;

	rf_decoder_load(image->decoder, batch, size);
	if (!rf_decoder_next(image->decoder, &image->value, &isnull) || isnull)
		elog(ERROR, "the batch holds no value");
}

Datum
batch_raw(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(raw(get_fn_expr_argtype(fcinfo->flinfo, 0), PG_GETARG_DATUM(0)));
}

Datum
batch_image(PG_FUNCTION_ARGS)
{
	bytea	   *payload = PG_GETARG_BYTEA_PP(0);
	Image		image;
	uint32		size;
	char	   *batch;

	prepare(&image, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_BOOL(2));
	batch = make_batch(&image, VARDATA_ANY(payload), VARSIZE_ANY_EXHDR(payload), NULL, 0, &size);
	decode(&image, batch, size);
	PG_RETURN_DATUM(datumCopy(image.value, image.by_value, image.length));
}

/* ---------- mutants ---------- */

static uint32
next_random(uint32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Change the payload here and there; so may its length, for a varlena. */
static void
mutate(StringInfo payload, bool varlena, uint32 *state)
{
	static const uint8 odd[] = {0, 1, 2, 0x20, 0x40, 0x7f, 0x80, 0xfe, 0xff};

	for (int count = 1 + next_random(state) % 3; count > 0; count--)
	{
		uint32		at = payload->len > 0 ? next_random(state) % payload->len : 0;
		uint32		other = payload->len > 0 ? next_random(state) % payload->len : 0;
		uint32		how = next_random(state) % (varlena ? 9 : 6);
		uint32		length;
		uint32		word;

		if (payload->len == 0)
			how = 8;
		switch (how)
		{
			case 0:
				payload->data[at] = next_random(state);
				break;
			case 1:
				payload->data[at] ^= 1 << next_random(state) % 8;
				break;
			case 2:
				payload->data[at] = odd[next_random(state) % lengthof(odd)];
				break;
			case 3:				/* one more or less of something that counts */
				at &= ~3;
				if (at + sizeof(word) > payload->len)
					break;
				memcpy(&word, payload->data + at, sizeof(word));
				word += next_random(state) % 9 - 4;
				memcpy(payload->data + at, &word, sizeof(word));
				break;
			case 4:				/* bytes from another place */
				length = 1 + next_random(state) % 8;
				length = Min(length, payload->len - Max(at, other));
				memmove(payload->data + at, payload->data + other, length);
				break;
			case 5:				/* a flag of a byte's */
				payload->data[payload->len - 1] ^= 1 << next_random(state) % 8;
				break;
			case 6:
				length = 1 + next_random(state) % 8;
				payload->len -= Min(length, payload->len);
				break;
			case 7:				/* without some bytes in the middle */
				length = 1 + next_random(state) % 8;
				length = Min(length, payload->len - at);
				memmove(payload->data + at, payload->data + at + length,
						payload->len - at - length);
				payload->len -= length;
				break;
			default:
				for (length = 1 + next_random(state) % 8; length > 0; length--)
					appendStringInfoChar(payload,
										 next_random(state) % 4 == 0 ? next_random(state) : 0);
				break;
		}
	}
}

/* The functions of its type that each mutant goes through after it was taken. */
typedef struct Functions
{
	FmgrInfo	output;
	FmgrInfo	send;
	FmgrInfo	receive;
	Oid			receive_param;
	TypeCacheEntry *typcache;
	Oid			collation;
	int			probe_count;
	SPIPlanPtr	probes[MAX_PROBES];
} Functions;

static void
look_up(Functions *functions, Oid type, ArrayType *probes)
{
	Datum	   *texts;
	Oid			types[2] = {type, type};
	Oid			function;
	bool		is_varlena;

	getTypeOutputInfo(type, &function, &is_varlena);
	fmgr_info(function, &functions->output);
	getTypeBinaryOutputInfo(type, &function, &is_varlena);
	fmgr_info(function, &functions->send);
	getTypeBinaryInputInfo(type, &function, &functions->receive_param);
	fmgr_info(function, &functions->receive);
	functions->typcache = lookup_type_cache(
											type, TYPECACHE_CMP_PROC_FINFO | TYPECACHE_HASH_PROC_FINFO |
											TYPECACHE_HASH_EXTENDED_PROC_FINFO | TYPECACHE_EQ_OPR_FINFO);
	functions->collation = get_typcollation(type);
	deconstruct_array(probes, TEXTOID, -1, false, TYPALIGN_INT, &texts, NULL,
					  &functions->probe_count);
	if (functions->probe_count > MAX_PROBES)
		elog(ERROR, "too many probes");
	for (int i = 0; i < functions->probe_count; i++)
	{
		char	   *sql = psprintf("SELECT %s", TextDatumGetCString(texts[i]));

		functions->probes[i] = SPI_prepare(sql, 2, types);
		if (functions->probes[i] == NULL)
			elog(ERROR, "cannot prepare: %s", sql);
	}
}

static void
use(const Functions *functions, const Image *image, Datum value, Datum original, int step)
{
	TypeCacheEntry *typcache = functions->typcache;
	Datum		values[2] = {value, original};
	Datum		received;
	bytea	   *sent;
	bytea	   *before;
	bytea	   *after;
	StringInfoData wire;

	switch (step)
	{
		case 0:
			/* They refuse empty values, which there are. */
			if (image->type == INT2VECTOROID || image->type == OIDVECTOROID)
				break;
			sent = SendFunctionCall((FmgrInfo *) &functions->send, value);
			initStringInfo(&wire);
			appendBinaryStringInfo(&wire, VARDATA(sent), VARSIZE(sent) - VARHDRSZ);
			received = ReceiveFunctionCall((FmgrInfo *) &functions->receive, &wire,
										   functions->receive_param, -1);
			before = raw(image->type, value);
			after = raw(image->type, received);
			if ((VARSIZE(before) != VARSIZE(after) ||
				 memcmp(before, after, VARSIZE(before)) != 0) &&
				!(OidIsValid(typcache->eq_opr) ?
				  DatumGetBool(FunctionCall2Coll(&typcache->eq_opr_finfo, functions->collation,
												 value, received)) :
				  strcmp(OutputFunctionCall((FmgrInfo *) &functions->output, value),
						 OutputFunctionCall((FmgrInfo *) &functions->output, received)) == 0))
				elog(ERROR, "send and receive make another value of it");
			break;
		case 1:
			(void) OutputFunctionCall((FmgrInfo *) &functions->output, value);
			break;
		case 2:
			if (OidIsValid(typcache->cmp_proc))
			{
				int			one = DatumGetInt32(FunctionCall2Coll(
																  &typcache->cmp_proc_finfo, functions->collation, value, original));
				int			other = DatumGetInt32(FunctionCall2Coll(
																	&typcache->cmp_proc_finfo, functions->collation, original, value));

				if ((one < 0) != (other > 0) || (one > 0) != (other < 0))
					elog(ERROR, "the order of two values depends on which is the first");
			}
			if (OidIsValid(typcache->hash_proc))
				(void) FunctionCall1Coll(&typcache->hash_proc_finfo, functions->collation, value);
			if (OidIsValid(typcache->hash_extended_proc))
				(void) FunctionCall2Coll(&typcache->hash_extended_proc_finfo, functions->collation,
										 value, Int64GetDatum(1));
			break;
		default:
			if (SPI_execute_plan(functions->probes[step - 3], values, NULL, true, 0) < 0)
				elog(ERROR, "a probe failed");
			SPI_freetuptable(SPI_tuptable);
			break;
	}
}

/*
 * Errors of any class but internal ones are fine for functions of the type: the value is out of
 * their domain. Not so for receive, in step 0, nor for the decoder, which may only say that the
 * batch is damaged or its text is invalid (step -1). True: there was no error.
 */
static bool
try_step(const Functions *functions, Image *image, Datum original, int step, const char *batch,
		 uint32 size)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		if (step < 0)
			decode(image, batch, size);
		else
			use(functions, image, image->value, original, step);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	if (error == NULL)
		return true;
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		(step < 0 ? error->sqlerrcode != ERRCODE_DATA_CORRUPTED &&
		 error->sqlerrcode != ERRCODE_CHARACTER_NOT_IN_REPERTOIRE :
		 step == 0 || ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		 ERRCODE_TO_CATEGORY(ERRCODE_INTERNAL_ERROR)))
		ThrowErrorData(error);
	return false;
}

typedef struct Where
{
	Oid			type;
	int			step;
	uint32		seed;
	int			number;
	StringInfo	payload;
} Where;

static void
say_where(void *arg)
{
	Where	   *where = arg;
	StringInfoData hex;

	initStringInfo(&hex);
	for (int i = 0; i < where->payload->len; i++)
		appendStringInfo(&hex, "%02x", (uint8) where->payload->data[i]);
	errcontext("image %d of %s (seed %u), step %d: \\x%s", where->number,
			   format_type_be(where->type), where->seed, where->step, hex.data);
}

Datum
batch_mutate(PG_FUNCTION_ARGS)
{
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int			count = PG_GETARG_INT32(1);
	uint32		seed = PG_GETARG_INT32(2);
	uint32		state = (seed + 1) * 2654435761u;
	uint32		room = 1 << 20;
	int			taken = 0;
	int			errors = 0;
	Image		image = {0};
	Functions	functions = {0};
	Where		where = {0};
	ErrorContextCallback callback = {error_context_stack, say_where, &where};
	StringInfoData payload;
	Datum	   *originals;
	uint64		original_count;
	MemoryContext context;
	MemoryContext caller;
	char	   *place;

	if (SPI_connect() != SPI_OK_CONNECT || SPI_execute(query, true, 0) != SPI_OK_SELECT ||
		SPI_processed == 0 || SPI_tuptable->tupdesc->natts != 1)
		elog(ERROR, "the query gives no values of one column");
	prepare(&image, SPI_gettypeid(SPI_tuptable->tupdesc, 1), false);
	original_count = SPI_processed;
	originals = palloc(sizeof(Datum) * original_count);
	for (uint64 i = 0; i < original_count; i++)
	{
		bool		isnull;
		Datum		value = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);

		if (isnull)
			elog(ERROR, "a value is NULL");
		originals[i] = image.length == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value)) :
			datumCopy(value, image.by_value, image.length);
	}
	look_up(&functions, image.type, PG_GETARG_ARRAYTYPE_P(3));

	place = mmap(NULL, room + 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED || mprotect(place + room, 65536, PROT_NONE) != 0)
		elog(ERROR, "mmap: %m");

	initStringInfo(&payload);
	where.type = image.type;
	where.seed = seed;
	where.payload = &payload;
	error_context_stack = &callback;
	context = AllocSetContextCreate(CurrentMemoryContext, "mutant", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	for (int i = 0; i < count; i++)
	{
		Datum		original = originals[next_random(&state) % original_count];
		bytea	   *bytes;
		uint32		size;
		char	   *batch;

		/* The first images as they are: all honest values are taken. */
		if (i < (int) original_count)
			original = originals[i];
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(context);
		bytes = raw(image.type, original);
		resetStringInfo(&payload);
		appendBinaryStringInfo(&payload, VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ);

		if (i >= (int) original_count)
			mutate(&payload, image.length == -1, &state);
		if (payload.len > room / 2)
			elog(ERROR, "a value is too long");
		where.number = i;
		where.step = -1;
		batch = make_batch(&image, payload.data, payload.len, place, room, &size);
		if (!try_step(&functions, &image, original, -1, batch, size))
		{
			if (i < (int) original_count)
				elog(ERROR, "an image as it was is refused");
			continue;
		}
		taken++;
		for (where.step = 0; where.step < 3 + functions.probe_count; where.step++)
			errors += !try_step(&functions, &image, original, where.step, NULL, 0);
	}
	MemoryContextSwitchTo(caller);
	error_context_stack = callback.previous;
	munmap(place, room + 65536);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%d of %d, %d errors", taken, count, errors)));
}
