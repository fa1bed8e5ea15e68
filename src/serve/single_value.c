/*
 * single_value.c - rdma_internal.first_two(value) and rdma_internal.only_value(values).
 *
 * A sub-select in an expression gives one value, and is an error with more than one row, but only
 * for a row of the query around that asks for it. When it becomes a grouped sub-select that is
 * joined to the query (fdw/plan/decorrelate.c), each group keeps its first two values, in the order
 * that the aggregate asks for, and the user of the value of a group checks that it is the only one.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#define KEPT 2

/* How the elements look like; kept with the calling expression. */
typedef struct ElementType
{
	Oid			type;
	int16		length;
	bool		byval;
	char		align;
} ElementType;

static ElementType *
element_type(FunctionCallInfo fcinfo, Oid type)
{
	ElementType *result = fcinfo->flinfo->fn_extra;

	if (result == NULL || result->type != type)
	{
		result = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(ElementType));
		result->type = type;
		get_typlenbyvalalign(type, &result->length, &result->byval, &result->align);
		fcinfo->flinfo->fn_extra = result;
	}
	return result;
}

static int
take(ArrayType *array, ElementType *type, Datum *values, bool *nulls)
{
	Datum	   *elements;
	bool	   *are_null;
	int			n;

	deconstruct_array(array, type->type, type->length, type->byval, type->align, &elements,
					  &are_null, &n);
	n = Min(n, KEPT);
	memcpy(values, elements, n * sizeof(Datum));
	memcpy(nulls, are_null, n * sizeof(bool));
	return n;
}

static Datum
make(ElementType *type, Datum *values, bool *nulls, int n)
{
	int			first = 1;

	return PointerGetDatum(construct_md_array(values, nulls, 1, &n, &first, type->type,
											  type->length, type->byval, type->align));
}

static int
count(ArrayType *array)
{
	return ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
}

PG_FUNCTION_INFO_V1(rdma_first_two_state);

/* anyarray, anyelement: the array with one more value while it has less than two */
Datum
rdma_first_two_state(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_ARGISNULL(0) ? NULL : PG_GETARG_ARRAYTYPE_P(0);
	ElementType *type;
	Datum		values[KEPT];
	bool		nulls[KEPT];
	int			n = 0;

	if (array != NULL && count(array) >= KEPT)
		return PG_GETARG_DATUM(0);
	type = element_type(fcinfo, get_fn_expr_argtype(fcinfo->flinfo, 1));
	if (array != NULL)
		n = take(array, type, values, nulls);
	nulls[n] = PG_ARGISNULL(1);
	values[n] = nulls[n] ? (Datum) 0 : PG_GETARG_DATUM(1);
	return make(type, values, nulls, n + 1);
}

PG_FUNCTION_INFO_V1(rdma_first_two_merge);

/* anyarray, anyarray: the first two values of both */
Datum
rdma_first_two_merge(PG_FUNCTION_ARGS)
{
	ArrayType  *array;
	ElementType *type;
	Datum		values[2 * KEPT];
	bool		nulls[2 * KEPT];
	int			n;

	if (PG_ARGISNULL(0) && PG_ARGISNULL(1))
		PG_RETURN_NULL();
	if (PG_ARGISNULL(1))
		return PG_GETARG_DATUM(0);
	if (PG_ARGISNULL(0))
		return PG_GETARG_DATUM(1);
	array = PG_GETARG_ARRAYTYPE_P(0);
	if (count(array) >= KEPT)
		return PG_GETARG_DATUM(0);
	type = element_type(fcinfo, ARR_ELEMTYPE(array));
	n = take(array, type, values, nulls);
	n += take(PG_GETARG_ARRAYTYPE_P(1), type, values + n, nulls + n);
	return make(type, values, nulls, Min(n, KEPT));
}

PG_FUNCTION_INFO_V1(rdma_only_value);

/* anyarray: its only element; 21000 where there are more, as PostgreSQL says it of a sub-select */
Datum
rdma_only_value(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Datum		values[KEPT];
	bool		nulls[KEPT];
	int			n = take(array, element_type(fcinfo, ARR_ELEMTYPE(array)), values, nulls);

	if (n > 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("more than one row returned by a subquery used as an expression")));
	if (n == 0 || nulls[0])
		PG_RETURN_NULL();
	PG_RETURN_DATUM(values[0]);
}
