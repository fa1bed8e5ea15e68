/*
 * image_type.c - the required form of the raw image of a built-in type (image.c).
 *
 * Does: describe it, and say whether the check covers everything that the type's functions rely on.
 * Does not: check.
 *
 * A type is listed as completely checked only if image.c checks everything that functions of the
 * type rely on. A type that is not listed is not.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/jsonapi.h"
#include "mb/pg_wchar.h"
#include "rdma_fdw/compat.h"
#include "utils/lsyscache.h"

#include "batch_check.h"
#include "coding.h"

/* Does not stop at a NUL, but rejects it. */
static bool
is_server_text(const uint8_t *bytes, uint32_t length)
{
	return pg_verify_mbstr(GetDatabaseEncoding(), (const char *) bytes, length, true);
}

static bool
is_server_json(const uint8_t *bytes, uint32_t length)
{
	bool		valid;
	JsonLexContext *lex;

	if (!is_server_text(bytes, length))
		return false;
	lex = rf_json_lex(unconstify(char *, (const char *) bytes), length, GetDatabaseEncoding());
	valid = pg_parse_json(lex, &nullSemAction) == JSON_SUCCESS;
	rf_json_lex_free(lex);
	return valid;
}

/* For arrays and vectors, ranges and multiranges: the image of their elements. */
static bool
describe_element(Oid element, RfImage *image)
{
	RfImage    *inner = palloc(sizeof(RfImage));
	bool		complete = rf_image_describe(element, inner);
	bool		by_value;
	char		align;

	get_typlenbyvalalign(element, &image->element_length, &by_value, &align);
	image->element_align = rf_align_bytes(align);
	if (inner->kind != RF_IMAGE_BYTES)
		image->element = inner;
	else
		pfree(inner);
	return complete;
}

/* Characters of a text, or digits before (high half) and behind the decimal point of a number. */
bool
rf_image_limit(Oid type, int32 typmod, uint32 *limit)
{
	int			precision;
	int			scale;

	*limit = RF_UNLIMITED;
	if (typmod < VARHDRSZ)
		return typmod < 0;
	switch (type)
	{
		case VARCHAROID:
		case BPCHAROID:
			*limit = typmod - VARHDRSZ;
			return true;
		case NUMERICOID:
			/* as numeric_typmod_precision() and numeric_typmod_scale() */
			precision = ((typmod - VARHDRSZ) >> 16) & 0xffff;
			scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
			if (scale < 0 || scale > precision)
				return false;
			*limit = (uint32) (precision - scale) << 16 | scale;
			return true;
		default:
			return false;
	}
}

bool
rf_image_describe(Oid type, RfImage *image)
{
	Oid			element;

	memset(image, 0, sizeof(*image));
	image->is_text = is_server_text;
	switch (type)
	{
			/* All bytes are valid values. */
		case CHAROID:
		case INT2OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case OIDOID:
		case XIDOID:
		case XID8OID:
		case CIDOID:
		case TIDOID:
		case CASHOID:
		case UUIDOID:
		case INTERVALOID:
		case POINTOID:
		case LSEGOID:
		case MACADDROID:
		case MACADDR8OID:
		case PG_LSNOID:
		case BYTEAOID:
			return true;

		case INT4OID:
			image->kind = RF_IMAGE_INT4;
			return true;
		case INT8OID:
			image->kind = RF_IMAGE_INT8;
			return true;
		case BOOLOID:
			image->kind = RF_IMAGE_BOOL;
			return true;
		case NAMEOID:
			image->kind = RF_IMAGE_NAME;
			return true;
		case DATEOID:
			image->kind = RF_IMAGE_DATE;
			return true;
		case TIMEOID:
			image->kind = RF_IMAGE_TIME;
			return true;
		case TIMETZOID:
			image->kind = RF_IMAGE_TIMETZ;
			return true;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			image->kind = RF_IMAGE_TIMESTAMP;
			return true;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case REFCURSOROID:
			image->kind = RF_IMAGE_TEXT;
			return true;
		case NUMERICOID:
			image->kind = RF_IMAGE_NUMERIC;
			return true;
		case INETOID:
			image->kind = RF_IMAGE_INET;
			return true;
		case CIDROID:
			image->kind = RF_IMAGE_CIDR;
			return true;
		case BITOID:
		case VARBITOID:
			image->kind = RF_IMAGE_BITS;
			return true;
		case PATHOID:
			image->kind = RF_IMAGE_PATH;
			return true;
		case JSONBOID:
			image->kind = RF_IMAGE_JSONB;
			return true;

		case JSONOID:
			image->kind = RF_IMAGE_JSON;
			image->is_text = is_server_json;
			return true;

			/* Only their receive functions check order, form or syntax of these. */
		case XMLOID:
			image->kind = RF_IMAGE_TEXT;
			return false;
		case POLYGONOID:
			image->kind = RF_IMAGE_POLYGON;
			return false;
		case PG_SNAPSHOTOID:
		case TXID_SNAPSHOTOID:
			image->kind = RF_IMAGE_SNAPSHOT;
			return false;
		case TSVECTOROID:
			image->kind = RF_IMAGE_TSVECTOR;
			return false;

		case INT2VECTOROID:
		case OIDVECTOROID:
			image->kind = RF_IMAGE_VECTOR;
			image->type = get_element_type(type);
			return describe_element(image->type, image);
		default:
			break;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_RANGE:
			image->kind = RF_IMAGE_RANGE;
			image->type = type;
			return describe_element(get_range_subtype(type), image);
		case TYPTYPE_MULTIRANGE:
			image->kind = RF_IMAGE_MULTIRANGE;
			image->type = type;
			return describe_element(get_range_subtype(get_multirange_range(type)), image);
		default:
			element = get_element_type(type);
			if (!OidIsValid(element))
				return false;
			image->kind = RF_IMAGE_ARRAY;
			image->type = element;
			return describe_element(element, image);
	}
}
