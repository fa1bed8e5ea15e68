/*
 * decoder.h - inside the batch room: the decoder's state.
 *
 * Shared by decode.c (column batches) and decode_tuples.c (batches of heap tuples). All of it
 * belongs to one backend.
 */
#ifndef RF_DECODER_H
#define RF_DECODER_H

#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "rdma_fdw/batch.h"
#include "batch_check.h"
#include "rdma_fdw/compat.h"

#include "coding.h"

/* How a value is read from its place in the batch. */
typedef enum DecodeOp
{
	OP_1,
	OP_2,
	OP_4,
	OP_8,
	OP_BOOL,
	OP_DATE,
	OP_TIME,
	OP_TIMESTAMP,
	OP_REF,
	OP_CHECKED_REF,				/* not all bytes are valid */
	OP_VARLENA,					/* all bytes are valid */
	OP_TEXT,
	OP_NUMERIC,
	OP_IMAGE,					/* varlena with a structure that must be checked */
	OP_CONVERTED
} DecodeOp;

/* All that is needed to read one value of the loaded batch. */
typedef struct DecodeColumn
{
	const uint8 *vector;
	const uint8 *nulls;			/* NULL: no values in this batch */
	DecodeOp	op;
	int			attr;			/* index into values and isnull */
	uint32		width;
	uint32		limit;			/* of its type */
} DecodeColumn;

/* Properties of the column's local type. */
typedef struct DecodeType
{
	Oid			type;
	int32		typmod;
	const char *name;			/* column's, for errors */
	bool		state;			/* an aggregate's state: `image` holds in any encoding */
	bool		raw;			/* raw images are accepted, of this kind and stride: */
	RfColumnKind raw_kind;
	uint32		raw_width;
	int16		length;			/* of the type, as in pg_type, */
	uint8		align;			/* and its alignment */
	bool		short_headers;	/* code of the type expects one-byte headers */
	RfImage		image;			/* the form of raw images */
	uint32		limit;			/* their limit: rf_image_limit() */
	RfColumnKind kind;			/* of the loaded batch */
	FmgrInfo	receive;		/* looked up at first use */
	FmgrInfo	input;
	Oid			receive_param;
	Oid			input_param;
	int			input_depends;	/* RF_TEXT_*, of text that `input` reads */
} DecodeType;

struct RfDecoder
{
	const uint8 *base;			/* the loaded batch */
	uint32		length;
	uint32		row;
	uint32		rows;
	bool		fresh;			/* no row of it was read yet */
	uint32		ascii_start;	/* all bytes from here to its end are ASCII; PG_UINT32_MAX: not
								 * known */
	uint32		ascii_wait;		/* so many batches are not looked at as a whole */
	int			column_count;
	DecodeColumn *columns;
	DecodeType *types;
	RfBatchColumn *descriptors; /* the loaded batch's, copied */

	int			natts;
	bool	   *filled;			/* natts long: is it filled by a column */
	const char *source;
	StringInfoData wire;		/* a value being converted: private, NUL-terminated */
	uint8	   *copy;			/* of a batch that is not aligned */
	MemoryContext context;
	MemoryContext scratch;		/* converted values, until the next load */
	int			current;		/* column being converted, for the error context */
	void		(*error_context) (void *owner, int i);	/* NULL: ours */
	void	   *owner;

	/* The loaded batch holds tuples (decode_tuples.c): */
	bool		has_tuples;
	RfTupleReader reader;
	struct TupleMap *map;		/* NULL: no such batch came yet */
};

/* ERROR: column `column` of the batch (any other number: the batch) is invalid. */
extern pg_noinline void rf_decoder_bad_batch(RfDecoder *decoder, uint32 column, const char *problem)
			__attribute__((noreturn));

/* ERROR unless these bytes are text in the database's encoding. */
extern pg_noinline void rf_decoder_check_text(RfDecoder *decoder, int column, const uint8 *bytes,
											  uint32 size);

/* ERROR if a text or number is larger than its column's type modifier allows. */
extern pg_noinline void rf_decoder_check_limit(RfDecoder *decoder, int column, const uint8 *payload,
											   uint32 size);

/*
 * Returns true if a number may exceed the limit. Its first digit to base 10000 counts as four, and
 * a number that is not short is taken for one exceeding the limit. (A text may if it has more
 * bytes.)
 */
static inline bool
rf_number_may_exceed(const uint8 *payload, uint32 limit)
{
	uint16		word = rf_load16(payload);

	return (word & 0xc000) != 0x8000 ||
		((word & 0x40) == 0 && ((word & 0x3f) + 1u) * 4 > limit >> 16) ||
		((word >> 7) & 0x3fu) > (limit & 0xffff);
}

/* The operation that reads raw images of a type. */
static inline DecodeOp
rf_decode_raw_op(const DecodeType *type)
{
	switch (type->raw_kind)
	{
		case RF_COLUMN_VARLENA:
			return type->image.kind == RF_IMAGE_BYTES ? OP_VARLENA :
				type->image.kind == RF_IMAGE_TEXT ? OP_TEXT :
				type->image.kind == RF_IMAGE_NUMERIC ? OP_NUMERIC : OP_IMAGE;
		case RF_COLUMN_BYREF:
			return type->image.kind == RF_IMAGE_BYTES ? OP_REF : OP_CHECKED_REF;
		default:
			break;
	}
	switch (type->image.kind)
	{
		case RF_IMAGE_BOOL:
			return OP_BOOL;
		case RF_IMAGE_DATE:
			return OP_DATE;
		case RF_IMAGE_TIME:
			return OP_TIME;
		case RF_IMAGE_TIMESTAMP:
			return OP_TIMESTAMP;
		default:
			return type->raw_width == 1 ? OP_1 :
				type->raw_width == 2 ? OP_2 :
				type->raw_width == 4 ? OP_4 :
				OP_8;
	}
}

static inline bool
rf_decode_is_time(DecodeOp op, int64 value)
{
	return op == OP_TIME ? rf_image_is_time(value) : rf_image_is_timestamp(value);
}

/* False: the batch holds columns. ERROR if it holds tuples that do not match. */
extern bool rf_decoder_load_tuples(RfDecoder *decoder, const uint8 *batch, uint32 length);

/* Reads one more row, decoder->row (counted already). */
extern void rf_decoder_next_tuple(RfDecoder *decoder, Datum *values, bool *isnull);

#endif
