/*
 * import_statistics.c - copies the results of a data node's ANALYZE of a table into the catalog
 * here, as ANALYZE of the foreign table would write them, without fetching rows.
 *
 * The source is the view pg_stats, which shows a user the columns that the user may read, in the
 * text form of the types' output functions. Statistics that depend on the type (most common values,
 * histogram, elements) are taken only if the column has the same type there; a histogram only if it
 * is sorted in our order, as collations and enumerations may differ. Rows of pg_statistic have the
 * same layout from PostgreSQL 15 to 19, so they are written directly, in the transaction.
 */
#include "postgres.h"

#include <float.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "libpq-fe.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/sql_text.h"

#include "fdw/deparse/deparse.h"

#include "catalog.h"

/* No column is taken to be wider */
#define MOST_WIDTH	(64 * 1024 * 1024)

/* Columns of the answer */
enum
{
	COL_NAME,
	COL_TYPE,
	COL_NULL_FRAC,
	COL_WIDTH,
	COL_DISTINCT,
	COL_VALUES,
	COL_FREQS,
	COL_BOUNDS,
	COL_CORRELATION,
	COL_ELEMS,
	COL_ELEM_FREQS,
	COL_ELEM_COUNTS,
	COL_N
};

/* One row of pg_statistic in the making */
typedef struct StatisticRow
{
	Datum		values[Natts_pg_statistic];
	bool		nulls[Natts_pg_statistic];
	int			slots;			/* slots used so far */
} StatisticRow;

static const char *
field(PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

/*
 * An array of the type from its text, as ANALYZE makes them: a list of values without NULL.
 * Otherwise, and for a missing value, NULL. Elements may be arrays as well.
 */
static ArrayType *
read_array(const char *text, Oid type, int32 typmod)
{
	ArrayType  *array;

	if (text == NULL)
		return NULL;
	array = DatumGetArrayTypeP(OidFunctionCall3(F_ARRAY_IN, CStringGetDatum(text),
												ObjectIdGetDatum(type), Int32GetDatum(typmod)));
	return ARR_NDIM(array) == 1 && ARR_LBOUND(array)[0] == 1 && !array_contains_nulls(array) ?
		array :
		NULL;
}

static int
element_count(ArrayType *array)
{
	return ARR_DIMS(array)[0];
}

/*
 * The same of numbers from 0 to `most`. NULL also if one is outside, or if one is less than that
 * before it, but for the last `not_sorted` of them.
 */
static ArrayType *
read_numbers(const char *text, float4 most, int not_sorted)
{
	ArrayType  *array = read_array(text, FLOAT4OID, -1);
	int			count = array != NULL ? element_count(array) : 0;

	for (int i = 0; i < count; i++)
	{
		float4		number = ((float4 *) ARR_DATA_PTR(array))[i];

		/* NaN is neither */
		if (!(number >= 0 && number <= most) ||
			(i > 0 && i < count - not_sorted && number < ((float4 *) ARR_DATA_PTR(array))[i - 1]))
			return NULL;
	}
	return array;
}

static void
add_slot(StatisticRow *row, int kind, Oid operator, Oid collation, ArrayType *numbers,
		 ArrayType *values)
{
	int			n = row->slots++;

	Assert(n < STATISTIC_NUM_SLOTS);
	row->values[Anum_pg_statistic_stakind1 - 1 + n] = Int16GetDatum(kind);
	row->values[Anum_pg_statistic_staop1 - 1 + n] = ObjectIdGetDatum(operator);
	row->values[Anum_pg_statistic_stacoll1 - 1 + n] = ObjectIdGetDatum(collation);
	row->values[Anum_pg_statistic_stanumbers1 - 1 + n] = PointerGetDatum(numbers);
	row->nulls[Anum_pg_statistic_stanumbers1 - 1 + n] = numbers == NULL;
	row->values[Anum_pg_statistic_stavalues1 - 1 + n] = PointerGetDatum(values);
	row->nulls[Anum_pg_statistic_stavalues1 - 1 + n] = values == NULL;
}

/* Returns true if the values are sorted by our operator. */
static bool
is_sorted(ArrayType *array, TypeCacheEntry *type, Oid collation)
{
	Datum	   *values;
	int			n;

	deconstruct_array(array, ARR_ELEMTYPE(array), type->typlen, type->typbyval, type->typalign,
					  &values, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && DatumGetInt32(FunctionCall2Coll(&type->cmp_proc_finfo, collation,
													 values[i - 1], values[i])) > 0)
			return false;
	}
	return true;
}

/* Most common values, histogram and correlation */
static void
add_scalar_slots(StatisticRow *row, Form_pg_attribute attribute, PGresult *result, int n)
{
	TypeCacheEntry *type = lookup_type_cache(attribute->atttypid,
											 TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR |
											 TYPECACHE_CMP_PROC_FINFO);
	Oid			collation = attribute->attcollation;
	ArrayType  *values = NULL;
	ArrayType  *freqs = NULL;
	ArrayType  *bounds = NULL;
	double		correlation;

	if (!OidIsValid(type->eq_opr))
		return;
	values = read_array(field(result, n, COL_VALUES), attribute->atttypid, attribute->atttypmod);
	freqs = read_numbers(field(result, n, COL_FREQS), 1, INT_MAX);
	if (values != NULL && freqs != NULL && element_count(values) == element_count(freqs))
		add_slot(row, STATISTIC_KIND_MCV, type->eq_opr, collation, freqs, values);

	if (!OidIsValid(type->lt_opr) || !OidIsValid(type->cmp_proc_finfo.fn_oid))
		return;
	bounds = read_array(field(result, n, COL_BOUNDS), attribute->atttypid, attribute->atttypmod);
	if (bounds != NULL && (element_count(bounds) < 2 || !is_sorted(bounds, type, collation)))
		return;
	if (bounds != NULL)
		add_slot(row, STATISTIC_KIND_HISTOGRAM, type->lt_opr, collation, NULL, bounds);
	if (rf_answer_double(result, n, COL_CORRELATION, -1.01, 1.01, &correlation))
	{
		/* it may be rounded */
		Datum		number = Float4GetDatum(Max(Min(correlation, 1), -1));

		add_slot(row, STATISTIC_KIND_CORRELATION, type->lt_opr, collation,
				 construct_array(&number, 1, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT), NULL);
	}
}

/* Elements of arrays and lexemes of documents */
static void
add_element_slots(StatisticRow *row, Form_pg_attribute attribute, PGresult *result, int n)
{
	Oid			element = get_base_element_type(attribute->atttypid);
	Oid			collation = attribute->attcollation;
	ArrayType  *elems;
	ArrayType  *freqs;
	ArrayType  *counts;
	Oid			eq_opr;

	if (attribute->atttypid == TSVECTOROID)
	{
		element = TEXTOID;
		collation = DEFAULT_COLLATION_OID;
	}
	if (!OidIsValid(element))
		return;
	eq_opr = lookup_type_cache(element, TYPECACHE_EQ_OPR)->eq_opr;
	elems = read_array(field(result, n, COL_ELEMS), element, -1);
	freqs = read_numbers(field(result, n, COL_ELEM_FREQS), 1, INT_MAX);
	/* the average stands behind them */
	counts = read_numbers(field(result, n, COL_ELEM_COUNTS), MaxArraySize, 1);
	if (!OidIsValid(eq_opr))
		return;

	/*
	 * the frequencies are followed by the least, the greatest, and for arrays the frequency of
	 * NULL
	 */
	if (elems != NULL && freqs != NULL &&
		element_count(freqs) == element_count(elems) + (attribute->atttypid == TSVECTOROID ? 2 : 3))
		add_slot(row, STATISTIC_KIND_MCELEM, eq_opr, collation, freqs, elems);
	if (counts != NULL && element_count(counts) > 1)
		add_slot(row, STATISTIC_KIND_DECHIST, eq_opr, collation, counts, NULL);
}

static void
describe_column(void *arg)
{
	errcontext("importing statistics of column \"%s\"", (char *) arg);
}

/* Returns false if the node's statistics of the column are impossible. */
static bool
import_column(Relation catalog, CatalogIndexState indexes, Relation relation, AttrNumber attno,
			  PGresult *result, int n)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), attno - 1);
	StatisticRow row = {0};
	ErrorContextCallback context = {error_context_stack, describe_column,
	NameStr(attribute->attname)};
	HeapTuple	old;
	HeapTuple	tuple;
	double		null_frac;
	int64		width;
	double		distinct;

	if (!rf_answer_double(result, n, COL_NULL_FRAC, 0, 1, &null_frac) ||
		!rf_answer_int64(result, n, COL_WIDTH, 0, PG_INT32_MAX, &width) ||
		!rf_answer_double(result, n, COL_DISTINCT, -1, FLT_MAX, &distinct))
		return false;
	error_context_stack = &context;
	row.values[Anum_pg_statistic_starelid - 1] = ObjectIdGetDatum(RelationGetRelid(relation));
	row.values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(attno);
	row.values[Anum_pg_statistic_stainherit - 1] = BoolGetDatum(false);
	row.values[Anum_pg_statistic_stanullfrac - 1] = Float4GetDatum(null_frac);
	/* the planner adds widths of many columns up */
	row.values[Anum_pg_statistic_stawidth - 1] = Int32GetDatum(Min(width, MOST_WIDTH));
	row.values[Anum_pg_statistic_stadistinct - 1] = Float4GetDatum(distinct);
	if (strcmp(PQgetvalue(result, n, COL_TYPE), format_type_be(attribute->atttypid)) == 0)
	{
		add_scalar_slots(&row, attribute, result, n);
		add_element_slots(&row, attribute, result, n);
	}
	while (row.slots < STATISTIC_NUM_SLOTS)
		add_slot(&row, 0, InvalidOid, InvalidOid, NULL, NULL);

	old = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(RelationGetRelid(relation)),
						  Int16GetDatum(attno), BoolGetDatum(false));
	tuple = heap_form_tuple(RelationGetDescr(catalog), row.values, row.nulls);
	if (HeapTupleIsValid(old))
	{
		tuple->t_self = old->t_self;
		CatalogTupleUpdateWithInfo(catalog, &tuple->t_self, tuple, indexes);
		ReleaseSysCache(old);
	}
	else
		CatalogTupleInsertWithInfo(catalog, tuple, indexes);
	heap_freetuple(tuple);
	error_context_stack = context.previous;
	return true;
}

/* The foreign table's column for a remote one. */
AttrNumber
rf_find_column(Relation relation, const char *remote_name)
{
	TupleDesc	desc = RelationGetDescr(relation);

	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		if (!TupleDescAttr(desc, attno - 1)->attisdropped &&
			strcmp(rf_column_name(RelationGetRelid(relation), attno), remote_name) == 0)
			return attno;
	}
	return InvalidAttrNumber;
}

/* A column's statistics can be turned off. */
static bool
wants_statistics(Relation relation, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(relation)),
										Int16GetDatum(attno));
	Datum		target;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for attribute %d of relation %u", attno,
			 RelationGetRelid(relation));
	target = SysCacheGetAttr(ATTNUM, tuple, Anum_pg_attribute_attstattarget, &isnull);
	ReleaseSysCache(tuple);
	/* an int4 before 17, but never large */
	return isnull || DatumGetInt16(target) != 0;
}

int
rf_import_statistics(Relation relation, RfSession *session, const RfTableOptions *opts)
{
	char	   *name = quote_literal_cstr(rf_remote_relation_name(opts));
	PGresult   *volatile result = NULL;
	volatile int imported = 0;
	int			nestlevel;
	Bitmapset  *seen = NULL;
	StringInfoData sql;

	/* of a table with children there, the results that include them */
	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT s.attname, pg_catalog.format_type(a.atttypid, NULL), s.null_frac, "
					 "s.avg_width, s.n_distinct,"
					 " s.most_common_vals, s.most_common_freqs, s.histogram_bounds, s.correlation,"
					 " s.most_common_elems, s.most_common_elem_freqs, s.elem_count_histogram"
					 " FROM pg_catalog.pg_stats s JOIN pg_catalog.pg_attribute a ON a.attname = "
					 "s.attname AND NOT a.attisdropped"
					 " WHERE a.attrelid = %s::pg_catalog.regclass AND s.schemaname = %s AND "
					 "s.tablename = %s"
					 " AND s.inherited = EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE "
					 "inhparent = a.attrelid)",
					 name, quote_literal_cstr(opts->schema_name),
					 quote_literal_cstr(opts->table_name));
	nestlevel = rf_neutral_settings(RF_TEXT_ALL);
	PG_TRY();
	{
		Relation	catalog = table_open(StatisticRelationId, RowExclusiveLock);
		CatalogIndexState indexes = CatalogOpenIndexes(catalog);

		result = rf_session_ask(session, sql.data, COL_N, 0, PG_INT32_MAX);
		for (int n = 0; n < PQntuples(result); n++)
		{
			AttrNumber	attno = rf_find_column(relation, PQgetvalue(result, n, COL_NAME));

			if (attno == InvalidAttrNumber || !wants_statistics(relation, attno))
				continue;
			if (bms_is_member(attno, seen) ||
				!import_column(catalog, indexes, relation, attno, result, n))
				rf_session_bad_answer(session, NULL, sql.data);
			seen = bms_add_member(seen, attno);
			imported++;
		}
		CatalogCloseIndexes(indexes);
		table_close(catalog, RowExclusiveLock);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();
	AtEOXact_GUC(true, nestlevel);
	return imported;
}
