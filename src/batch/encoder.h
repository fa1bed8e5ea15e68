/*
 * encoder.h - inside the batch room: the encoder's state, and storing one value.
 *
 * Shared by encode.c (rows from slots) and encode_heap.c (rows from a heap page). All of it belongs
 * to one backend.
 */
#ifndef RF_ENCODER_H
#define RF_ENCODER_H

#include "postgres.h"

#include "fmgr.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"

typedef enum RfEncodeOp
{
	RF_ENCODE_OP_1,
	RF_ENCODE_OP_2,
	RF_ENCODE_OP_4,
	RF_ENCODE_OP_8,
	RF_ENCODE_OP_16,
	RF_ENCODE_OP_REF,
	RF_ENCODE_OP_VARLENA,
	RF_ENCODE_OP_CONVERTED		/* send or output function */
} RfEncodeOp;

/* All that is needed to store one value. */
typedef struct RfEncodeColumn
{
	uint8	   *vector;
	uint8	   *nulls;
	RfEncodeOp	op;
	int			attr;			/* index into the slot's arrays */
	uint32		width;			/* stride */
	uint32		size;			/* bytes of a fixed-length value */
	bool		has_nulls;		/* in this batch */
} RfEncodeColumn;

/* Needed only for conversion and description. */
typedef struct RfEncodeConversion
{
	RfColumnKind kind;
	int			depends;		/* RF_TEXT_*, of its text */
	FmgrInfo	function;
	const char *name;			/* column's, for errors */
	char	   *made;			/* large row: value already converted */
	uint32		made_size;
} RfEncodeConversion;

/* The places of the wanted attributes in a heap tuple (encode_heap.c). */
typedef struct RfHeapMap RfHeapMap;

struct RfEncoder
{
	uint8	   *base;			/* the batch being filled */
	uint32		capacity;
	uint32		rows;
	uint32		max_rows;
	uint32		heap;			/* offset of the first free byte */
	uint32		heap_start;
	int			column_count;
	int			last_attr;		/* deform up to this attribute */
	RfEncodeColumn *columns;
	RfEncodeConversion *conversions;

	uint32		fixed_width;	/* sum of strides */
	double		heap_per_row;	/* running average */
	RfHeapMap  *heap_map;		/* NULL: not used */
	bool		uses_scratch;	/* since its last reset */
	bool		uses_made;		/* converted values are in conversions[] */
	int			reader_encoding;
	bool		recode;			/* the databases' encodings differ */
	bool		switch_client;	/* send functions would use another client's encoding */
	MemoryContext context;
	MemoryContext scratch;		/* results of detoasting and conversion */
	uint8	   *large;			/* the last large row, if it was not stored elsewhere */
	uint32		large_size;
};

/* Copies a short value without a call; both ranges lie within their objects. */
static inline void
rf_copy_value(uint8 *to, const void *from, uint32 size)
{
	const uint8 *source = from;

	if (size <= 16)
	{
		if (size >= 8)
		{
			uint64		head;
			uint64		tail;

			memcpy(&head, source, 8);
			memcpy(&tail, source + size - 8, 8);
			memcpy(to, &head, 8);
			memcpy(to + size - 8, &tail, 8);
			return;
		}
		if (size >= 4)
		{
			uint32		head;
			uint32		tail;

			memcpy(&head, source, 4);
			memcpy(&tail, source + size - 4, 4);
			memcpy(to, &head, 4);
			memcpy(to + size - 4, &tail, 4);
			return;
		}
		if (size > 0)
		{
			uint8		head = source[0];
			uint8		middle = source[size / 2];
			uint8		tail = source[size - 1];

			to[0] = head;
			to[size / 2] = middle;
			to[size - 1] = tail;
		}
		return;
	}
	if (size <= 32)
	{
		uint8		head[16];
		uint8		tail[16];

		memcpy(head, source, 16);
		memcpy(tail, source + size - 16, 16);
		memcpy(to, head, 16);
		memcpy(to + size - 16, tail, 16);
		return;
	}
	memcpy(to, source, size);
}

/*
 * Reserves `size` bytes at a multiple of `align` in the heap: their offset, or 0 if they do not
 * fit. The gap before them is cleared, so that a batch contains only its values.
 */
static inline uint32
rf_reserve(RfEncoder *encoder, uint64 size, uint32 align, uint32 *heap)
{
	uint32		at = TYPEALIGN(align, *heap);

	if (at + size > encoder->capacity)
		return 0;
	while (*heap < at)
		encoder->base[(*heap)++] = 0;
	*heap = at + size;
	return at;
}

/* A varlena that is toasted, compressed or expanded (encode.c). 0: it does not fit. */
extern uint32 rf_store_toasted(RfEncoder *encoder, Datum value, uint32 *heap);

/* A value of a column that travels converted (encode.c). 0: it does not fit. */
extern uint32 rf_store_converted(RfEncoder *encoder, int column, Datum value, uint32 *heap);

/* Any varlena: its offset in the batch; 0: it does not fit. */
static inline uint32
rf_store_varlena(RfEncoder *encoder, const char *value, uint32 *heap)
{
	uint32		size;
	uint32		at;

	/* A toast pointer has a one-byte header, too. */
	if (VARATT_IS_SHORT(value) && !VARATT_IS_EXTERNAL(value))
	{
		size = VARSIZE_SHORT(value);
		at = *heap;
		if (at + size > encoder->capacity)
			return 0;
		*heap = at + size;
	}
	else if (VARATT_IS_4B_U(value))
	{
		size = VARSIZE_4B(value);
		at = rf_reserve(encoder, size, 8, heap);
		if (at == 0)
			return 0;
	}
	else
		return rf_store_toasted(encoder, PointerGetDatum(value), heap);
	rf_copy_value(encoder->base + at, value, size);
	return at;
}

#endif
