/*
 * array_stats.c - how many different values arrays have that a statement unnests, for its planner.
 *
 * The coordinator sends rows of its own as arrays, one for each column (fdw/plan/local_rows.c). The
 * planner sees how many they are, but considers nothing of the results of unnest() known, and so
 * does not build hash tables of it. While a statement of rdma_internal.stream is planned with
 * values, these are looked at: a sample of them, as ANALYZE would. Statements of other clients keep
 * their estimates.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_statistic.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"

#define SAMPLE	1000

static int
compare_hashes(const void *a, const void *b)
{
	uint32		left = *(const uint32 *) a;
	uint32		right = *(const uint32 *) b;

	return left < right ? -1 : left > right;
}

/*
 * From the hashes of the non-NULL values of a sample of n: how many different values all have, by
 * the estimator of Haas and Stokes that ANALYZE uses.
 */
static double
different_values(uint32 *hashes, int n, double all)
{
	int			different = 0;
	int			once = 0;

	qsort(hashes, n, sizeof(uint32), compare_hashes);
	for (int i = 0; i < n;)
	{
		int			end = i + 1;

		while (end < n && hashes[end] == hashes[i])
			end++;
		different++;
		once += end == i + 1;
		i = end;
	}
	return (double) n * different / (n - once + once * n / Max(all, 1));
}

/*
 * The array that this column of the function's rows is unnested from; NULL if there is no such
 * array, or it is not known.
 */
static ArrayType *
unnested_array(RangeTblEntry *rte, AttrNumber attnum)
{
	FuncExpr   *call = NULL;
	Const	   *array;
	ListCell   *lc;

	if (rte->rtekind != RTE_FUNCTION)
		return NULL;
	foreach(lc, rte->functions)
	{
		RangeTblFunction *function = lfirst_node(RangeTblFunction, lc);

		if (function->funccolcount != 1)
			return NULL;
		if (foreach_current_index(lc) == attnum - 1)
			call = (FuncExpr *) function->funcexpr;
	}
	if (call == NULL || !IsA(call, FuncExpr) || call->funcid != F_UNNEST_ANYARRAY)
		return NULL;
	array = linitial(call->args);
	return IsA(array, Const) && !array->constisnull ? DatumGetArrayTypeP(array->constvalue) : NULL;
}

void
rf_set_distinct_stats(VariableStatData *vardata, AttrNumber attnum, double distinct,
					  double null_part)
{
	Datum		values[Natts_pg_statistic] = {0};
	bool		nulls[Natts_pg_statistic];
	Relation	rel;

	memset(nulls, true, sizeof(nulls));
	for (int i = 0; i < Anum_pg_statistic_stakind1 + STATISTIC_NUM_SLOTS * 3 - 1; i++)
		nulls[i] = false;		/* NOT NULL up to the collations; 0: no column */
	values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(attnum);
	values[Anum_pg_statistic_stanullfrac - 1] = Float4GetDatum((float4) null_part);
	values[Anum_pg_statistic_stadistinct - 1] = Float4GetDatum((float4) distinct);
	rel = table_open(StatisticRelationId, AccessShareLock);
	vardata->statsTuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	table_close(rel, AccessShareLock);
	vardata->freefunc = heap_freetuple;
	vardata->acl_ok = true;
}

bool
rf_array_stats(RangeTblEntry *rte, AttrNumber attnum, VariableStatData *vardata)
{
	ArrayType  *array;
	Datum	   *values;
	bool	   *nulls;
	int			all;
	uint32		hashes[SAMPLE];
	int			sampled = 0;
	int			n = 0;
	int16		length;
	bool		by_value;
	char		align;

	array = rf_statement_is_planned ? unnested_array(rte, attnum) : NULL;
	if (array == NULL)
		return false;
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls, &all);
	for (double place = 0; place < all; place += Max((double) all / SAMPLE, 1))
	{
		int			i = (int) place;

		if (sampled++ < SAMPLE && !nulls[i])
			hashes[n++] = datum_image_hash(values[i], by_value, length);
	}
	if (n == 0)
		return false;
	sampled = Min(sampled, SAMPLE);
	rf_set_distinct_stats(vardata, attnum, different_values(hashes, n, (double) all * n / sampled),
						  1 - (double) n / sampled);
	return true;
}
