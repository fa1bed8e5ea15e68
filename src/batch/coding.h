/*
 * coding.h - inside the batch room: the encoding of a column's values, chosen by the type map.
 *
 * Does: declare the choice. Does not: convert values (encode.c, decode.c).
 */
#ifndef RF_CODING_H
#define RF_CODING_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"

#include "rdma_fdw/wire.h"

/* The alignment in bytes that typalign stands for. */
static inline uint8
rf_align_bytes(char typalign)
{
	switch (typalign)
	{
		case TYPALIGN_CHAR:
			return 1;
		case TYPALIGN_SHORT:
			return ALIGNOF_SHORT;
		case TYPALIGN_INT:
			return ALIGNOF_INT;
		default:
			return ALIGNOF_DOUBLE;
	}
}

/* Returns true if the tuple's first natts attributes are present, and all not NULL. */
static inline bool
rf_tuple_is_plain(const HeapTupleHeaderData *tuple, int natts)
{
	const uint8 *bits = tuple->t_bits;

	if ((int) HeapTupleHeaderGetNatts(tuple) < natts)
		return false;
	if (likely((tuple->t_infomask & HEAP_HASNULL) == 0))
		return true;
	for (; natts >= 8; natts -= 8)
		if (*bits++ != 0xff)
			return false;
	return natts == 0 || (*bits & ((1 << natts) - 1)) == (1 << natts) - 1;
}

typedef struct RfCoding
{
	RfColumnKind kind;
	uint32		width;			/* stride of the vector */
	Oid			type;			/* base type whose send or output function makes the value */
} RfCoding;

/*
 * The encoding of attribute `att` of a result for a reader that wants `wanted`. same_encoding: both
 * databases store text in the same encoding. Never fails: text is the last resort.
 */
extern RfCoding rf_coding_choose(Form_pg_attribute att, const RfStreamColumn *wanted,
								 uint32 flags, bool same_encoding);

/*
 * Returns true if the bytes of a value of this type may be copied unchanged. *text: they hold
 * characters in the database's encoding. *text: they hold characters in the database's encoding.
 */
extern bool rf_type_is_raw(Oid type, bool *text);

/*
 * The required form of the raw image of a built-in type. False: functions of the type rely on
 * something that the check does not cover, so only trusted nodes may send it. Descriptions of
 * elements are allocated in the current memory context.
 */
struct RfImage;
extern bool rf_image_describe(Oid type, struct RfImage *image);

/*
 * The limit of a type modifier, as rf_decoder_check_limit() reads it. False: no image is checked
 * for it, the type's receive function applies it.
 */
#define RF_UNLIMITED	PG_UINT32_MAX

extern bool rf_image_limit(Oid type, int32 typmod, uint32 *limit);

/* Returns true if an image of built-in type `type` is one of `wanted` too. */
extern bool rf_same_image(Oid type, Oid wanted);

/* Kind and stride of the raw image of a type with this length. */
extern void rf_raw_layout(int16 typlen, bool typbyval, RfColumnKind *kind, uint32 *width);

#endif
