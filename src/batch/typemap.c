/*
 * typemap.c - chooses whether values are sent as raw images, through send and receive, or as text.
 *
 * Raw is correct only if the bytes mean the same on both nodes: both sides have the same built-in
 * type, and its image holds no OID of an object that only one of the nodes assigned. A user-defined
 * type has another OID on the other node, so it is matched by name and goes through send and
 * receive; arrays and rows of such types contain OIDs even there, and are sent as text. For
 * built-in types whose images it does not accept from an untrusted node (image_type.c) a reader
 * asks by name, too.
 *
 * Does: choose. Does not: convert.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "rdma_fdw/batch.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "batch_check.h"
#include "coding.h"

/* Built-in types have hand-assigned OIDs, the same on every node and in every release. */
#define IS_BUILT_IN(type)	((type) < FirstGenbkiObjectId)

bool
rf_type_names_objects(Oid type)
{
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGCOLLATIONOID:
			return true;
		default:
			return false;
	}
}

/* Built-in types whose values name local objects, or whose input functions reject them. */
static bool
means_something_else_elsewhere(Oid type)
{
	if (rf_type_names_objects(type))
		return true;
	switch (type)
	{
		case ACLITEMOID:
		case PG_NODE_TREEOID:
		case PG_NDISTINCTOID:
		case PG_DEPENDENCIESOID:
		case PG_MCV_LISTOID:
		case PG_BRIN_BLOOM_SUMMARYOID:
		case PG_BRIN_MINMAX_MULTI_SUMMARYOID:
		case GTSVECTOROID:
			return true;
		default:
			return false;
	}
}

static bool
holds_text(Oid type)
{
	switch (type)
	{
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case JSONOID:
		case JSONBOID:
		case JSONPATHOID:
		case XMLOID:
		case TSVECTOROID:
		case TSQUERYOID:
		case REFCURSOROID:
			return true;
		default:
			return false;
	}
}

bool
rf_type_is_raw(Oid type, bool *text)
{
	Oid			element;

	*text = false;
	if (!IS_BUILT_IN(type) || means_something_else_elsewhere(type))
		return false;

	/*
	 * These are programs: trees of offsets that their code follows without checks. Their receive
	 * functions check them, and columns of them are short.
	 */
	if (type == JSONPATHOID || type == TSQUERYOID)
		return false;
	switch (get_typtype(type))
	{
		case TYPTYPE_BASE:
			element = get_element_type(type);
			if (OidIsValid(element))
				return rf_type_is_raw(element, text);
			*text = holds_text(type);
			return get_typlen(type) != -2;
		case TYPTYPE_RANGE:
		case TYPTYPE_MULTIRANGE:

			/*
			 * Their images hold the range type's OID, and built-in ranges are over built-in types
			 * without text.
			 */
			return true;
		default:
			return false;
	}
}

void
rf_raw_layout(int16 typlen, bool typbyval, RfColumnKind *kind, uint32 *width)
{
	if (typbyval)
	{
		*kind = RF_COLUMN_BYVAL;
		*width = typlen;
	}
	else if (typlen > 0)
	{
		*kind = RF_COLUMN_BYREF;
		*width = TYPEALIGN(8, typlen);
	}
	else
	{
		*kind = RF_COLUMN_VARLENA;
		*width = sizeof(uint32);
	}
}

/*
 * Returns true if the type of the same name on the other node can read the result of this type's
 * send function. array_recv and record_recv compare the OIDs in their input with their own, so
 * their elements must be built in; send of a reg* type is a local OID.
 */
static bool
is_binary(Oid type)
{
	HeapTuple	tuple;
	Form_pg_type form;
	bool		has_functions;
	char		typtype;
	Oid			base;
	Oid			element;
	TupleDesc	desc;
	bool		good = true;

	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_type) GETSTRUCT(tuple);
	has_functions = OidIsValid(form->typsend) && OidIsValid(form->typreceive);
	typtype = form->typtype;
	base = form->typbasetype;
	ReleaseSysCache(tuple);

	switch (typtype)
	{
		case TYPTYPE_BASE:

			/*
			 * Their receive functions reject empty values (tsquery's since 17, though it sends
			 * them).
			 */
			if (type == INT2VECTOROID || type == OIDVECTOROID || type == TSQUERYOID)
				return false;
			element = get_element_type(type);
			if (OidIsValid(element))
				return IS_BUILT_IN(element) && is_binary(element);
			/* The result of its receive function depends on a setting of the reader. */
			if (type == XMLOID)
				return false;
			return has_functions && !means_something_else_elsewhere(type);
		case TYPTYPE_ENUM:
			return true;
		case TYPTYPE_DOMAIN:
			return is_binary(base);
		case TYPTYPE_RANGE:
			return is_binary(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return is_binary(get_multirange_range(type));
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc(type, -1);
			for (int i = 0; i < desc->natts && good; i++)
			{
				Form_pg_attribute att = TupleDescAttr(desc, i);

				good = att->attisdropped ||
					(IS_BUILT_IN(att->atttypid) && is_binary(att->atttypid));
			}
			ReleaseTupleDesc(desc);
			return good;
		default:
			return false;
	}
}

bool
rf_same_image(Oid type, Oid wanted)
{
	if (type == wanted)
		return true;
	return (wanted == TEXTOID || wanted == VARCHAROID) &&
		(type == TEXTOID || type == VARCHAROID || type == BPCHAROID);
}

static bool
same_name(Oid type, const char *name)
{
	char	   *ours = format_type_extended(type, -1, FORMAT_TYPE_FORCE_QUALIFY);
	bool		same = strcmp(ours, name) == 0;

	pfree(ours);
	return same;
}

RfCoding
rf_coding_choose(Form_pg_attribute att, const RfStreamColumn *wanted, uint32 flags,
				 bool same_encoding)
{
	RfCoding	coding;
	int32		typmod = att->atttypmod;
	bool		text;
	bool		same_type;

	coding.type = getBaseTypeAndTypmod(att->atttypid, &typmod);
	if (wanted->type_oid != 0)
	{
		/* A reader whose column has a modifier of its own applies it itself. */
		bool		same_typmod = wanted->typmod == -1 || wanted->typmod == typmod;

		if (rf_same_image(coding.type, wanted->type_oid) && same_typmod &&
			rf_type_is_raw(coding.type, &text) && (same_encoding || !text))
		{
			rf_raw_layout(att->attlen, att->attbyval, &coding.kind, &coding.width);
			if (coding.kind != RF_COLUMN_VARLENA || (flags & RF_STREAM_PORTABLE) == 0)
				return coding;
		}
		same_type = coding.type == wanted->type_oid;
	}
	else
		same_type = wanted->type_name[0] != '\0' && same_name(att->atttypid, wanted->type_name);

	coding.width = sizeof(uint32);
	coding.kind = same_type && is_binary(att->atttypid) ? RF_COLUMN_BINARY : RF_COLUMN_TEXT;
	return coding;
}

void
rf_column_wanted(Oid type, int32 typmod, bool trusted, RfStreamColumn *wanted)
{
	RfImage		image;
	uint32		limit;
	char	   *name = format_type_extended(type, -1, FORMAT_TYPE_FORCE_QUALIFY);

	memset(wanted, 0, sizeof(*wanted));
	if (IS_BUILT_IN(type) &&
		(trusted || (rf_image_limit(type, typmod, &limit) && rf_image_describe(type, &image))))
		wanted->type_oid = type;
	wanted->typmod = typmod;
	/* A name that does not fit matches nothing: such a column travels as text. */
	if (strlen(name) < sizeof(wanted->type_name))
		strlcpy(wanted->type_name, name, sizeof(wanted->type_name));
	pfree(name);
}
