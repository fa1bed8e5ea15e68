/*
 * route.c - which node a row belongs to: PostgreSQL's own hash partitioning.
 *
 * Does: what compute_partition_hash_value() does for a table partitioned by hash of the same
 * columns, with the extended hash functions of the types' default operator classes, so that a row's
 * node is the remainder that satisfies_hash_partition() tests. Values that are equal for operators
 * of such a class go to one node even when their types differ (int4 = int8). Does not: know
 * servers.
 *
 * A route and its function call data belong to one backend.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "partitioning/partbounds.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(rdma_hash_node);

/* The two hash functions that most keys have are done without a call. */
typedef enum RouteOp
{
	ROUTE_INT4,
	ROUTE_INT8,
	ROUTE_CALL
} RouteOp;

typedef struct RouteKey
{
	RouteOp		op;
	FmgrInfo	function;
	FunctionCallInfo call;		/* its second argument is the seed */
} RouteKey;

struct RfRoute
{
	int			key_count;
	RouteKey	keys[FLEXIBLE_ARRAY_MEMBER];
};

/*
 * Do all nodes hash a value of this type to the same? Not where the hash is that of an OID which
 * each node gave by itself: enumeration values, names of objects, and whatever is made of them.
 */
static bool
hashes_alike(Oid type)
{
	Oid			element;
	TupleDesc	desc;
	bool		alike = true;

	type = getBaseType(type);
	if (rf_type_names_objects(type))
		return false;
	switch (get_typtype(type))
	{
		case TYPTYPE_BASE:
			element = get_base_element_type(type);
			return !OidIsValid(element) || hashes_alike(element);
		case TYPTYPE_RANGE:
			return hashes_alike(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return hashes_alike(get_range_subtype(get_multirange_range(type)));
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc(type, -1);
			for (int i = 0; i < desc->natts && alike; i++)
				alike = TupleDescAttr(desc, i)->attisdropped ||
					hashes_alike(TupleDescAttr(desc, i)->atttypid);
			ReleaseTupleDesc(desc);
			return alike;
		default:
			return false;
	}
}

bool
rf_route_type(Oid type)
{
	return OidIsValid(lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC)->hash_extended_proc) &&
		hashes_alike(type);
}

RfRoute *
rf_route_create(int key_count, const Oid *types, const Oid *collations)
{
	RfRoute    *route = palloc0(offsetof(RfRoute, keys) + key_count * sizeof(RouteKey));

	route->key_count = key_count;
	for (int i = 0; i < key_count; i++)
	{
		RouteKey   *key = &route->keys[i];
		Oid			function = lookup_type_cache(types[i],
												 TYPECACHE_HASH_EXTENDED_PROC)->hash_extended_proc;

		if (!OidIsValid(function))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("could not identify an extended hash function for type %s",
							format_type_be(types[i]))));
		if (!hashes_alike(types[i]))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("rows cannot be distributed by values of type %s",
							format_type_be(types[i])),
					 errdetail("Its hash depends on OIDs, which are others on each node."),
					 errhint("Distribute by the value's text.")));
		key->op = function == F_HASHINT4EXTENDED ? ROUTE_INT4 :
			function == F_HASHINT8EXTENDED ? ROUTE_INT8 : ROUTE_CALL;
		if (key->op != ROUTE_CALL)
			continue;
		fmgr_info(function, &key->function);
		key->call = palloc0(SizeForFunctionCallInfo(2));
		InitFunctionCallInfoData(*key->call, &key->function, 2, collations[i], NULL, NULL);
		key->call->args[1].value = UInt64GetDatum(HASH_PARTITION_SEED);
	}
	return route;
}

/*
 * hash_bytes_uint32_extended() (Jenkins' lookup3 of one word) with the seed of partitions, in
 * place: what is mixed of the seed alone is a constant, and the hashes of many rows overlap.
 */
#define ROTATE(x, k)	(((x) << (k)) | ((x) >> (32 - (k))))
#define MIX(a, b, c, k)	((a) -= (c), (a) ^= ROTATE(c, k), (c) += (b))

static inline uint64
hash_number(uint32 number)
{
	uint32		a;
	uint32		b;
	uint32		c;

	a = b = c = 0x9e3779b9 + (uint32) sizeof(uint32) + 3923095;
	a += (uint32) (HASH_PARTITION_SEED >> 32);
	b += (uint32) HASH_PARTITION_SEED;
	MIX(a, b, c, 4);
	MIX(b, c, a, 6);
	MIX(c, a, b, 8);
	MIX(a, b, c, 16);
	MIX(b, c, a, 19);
	MIX(c, a, b, 4);

	a += number;
	c ^= b;
	c -= ROTATE(b, 14);
	a ^= c;
	a -= ROTATE(c, 11);
	b ^= a;
	b -= ROTATE(a, 25);
	c ^= b;
	c -= ROTATE(b, 16);
	a ^= c;
	a -= ROTATE(c, 4);
	b ^= a;
	b -= ROTATE(a, 14);
	c ^= b;
	c -= ROTATE(b, 24);
	return ((uint64) b << 32) | c;
}

static inline uint64
hash_value(RouteKey *key, RouteOp op, Datum value)
{
	Datum		result;

	if (op == ROUTE_INT4)
		return hash_number((uint32) DatumGetInt32(value));
	if (op == ROUTE_INT8)
	{
		/* as hashint8extended, which gives what hashint4extended does where int4 has the value */
		int64		number = DatumGetInt64(value);
		uint32		low = (uint32) number;
		uint32		high = (uint32) (number >> 32);

		low ^= number >= 0 ? high : ~high;
		return hash_number(low);
	}
	key->call->args[0].value = value;
	key->call->isnull = false;
	result = FunctionCallInvoke(key->call);
	if (key->call->isnull)
		elog(ERROR, "function %u returned NULL", key->function.fn_oid);
	return DatumGetUInt64(result);
}

/* One column into the hashes of all rows. */
static inline void
hash_column(RouteKey *key, RouteOp op, const Datum *values, const bool *isnull, int stride,
			uint32 count, uint64 *hashes)
{
	for (uint32 row = 0; row < count; row++)
	{
		size_t		at = (size_t) row * stride;

		if (likely(!isnull[at]))
			hashes[row] = hash_combine64(hashes[row], hash_value(key, op, values[at]));
	}
}

/* Called functions may leave something; it is thrown away after so many rows. */
#define ROWS_PER_RESET	16

void
rf_route_hash_rows(RfRoute *route, const AttrNumber *keys, const Datum *values, const bool *isnull,
				   int stride, uint32 count, uint64 *hashes, MemoryContext scratch)
{
	memset(hashes, 0, count * sizeof(uint64));
	for (int i = 0; i < route->key_count; i++)
	{
		RouteKey   *key = &route->keys[i];
		const Datum *column = values + keys[i] - 1;
		const bool *nulls = isnull + keys[i] - 1;

		if (key->op == ROUTE_INT4)
			hash_column(key, ROUTE_INT4, column, nulls, stride, count, hashes);
		else if (key->op == ROUTE_INT8)
			hash_column(key, ROUTE_INT8, column, nulls, stride, count, hashes);
		else
		{
			MemoryContext caller = MemoryContextSwitchTo(scratch);

			for (uint32 row = 0; row < count; row += ROWS_PER_RESET)
			{
				size_t		at = (size_t) row * stride;

				hash_column(key, ROUTE_CALL, column + at, nulls + at, stride,
							Min(count - row, ROWS_PER_RESET), hashes + row);
				MemoryContextReset(scratch);
			}
			MemoryContextSwitchTo(caller);
		}
	}
}

uint64
rf_route_hash(RfRoute *route, const Datum *values, const bool *isnull)
{
	uint64		hash = 0;

	for (int i = 0; i < route->key_count; i++)
	{
		if (!isnull[i])
			hash = hash_combine64(hash, hash_value(&route->keys[i], route->keys[i].op, values[i]));
	}
	return hash;
}

/* hash_node(nodes integer, VARIADIC "any") integer: the place of the row's node, from 0 */
Datum
rdma_hash_node(PG_FUNCTION_ARGS)
{
	RfRoute    *route = fcinfo->flinfo->fn_extra;
	int			key_count = PG_NARGS() - 1;
	Datum		values[FUNC_MAX_ARGS];
	bool		isnull[FUNC_MAX_ARGS];
	int32		nodes;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	nodes = PG_GETARG_INT32(0);
	if (nodes < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of nodes must be at least 1")));
	if (route == NULL)
	{
		FuncExpr   *call = (FuncExpr *) fcinfo->flinfo->fn_expr;
		Oid			types[FUNC_MAX_ARGS];
		Oid			collations[FUNC_MAX_ARGS];
		MemoryContext caller;

		if (get_fn_expr_variadic(fcinfo->flinfo) || call == NULL || !IsA(call, FuncExpr))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("rdma.hash_node takes the key's columns one by one")));
		for (int i = 0; i < key_count; i++)
		{
			types[i] = get_fn_expr_argtype(fcinfo->flinfo, i + 1);
			collations[i] = exprCollation(list_nth(call->args, i + 1));
		}
		caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
		route = rf_route_create(key_count, types, collations);
		MemoryContextSwitchTo(caller);
		fcinfo->flinfo->fn_extra = route;
	}
	for (int i = 0; i < key_count; i++)
	{
		values[i] = PG_GETARG_DATUM(i + 1);
		isnull[i] = PG_ARGISNULL(i + 1);
	}
	PG_RETURN_INT32((int32) (rf_route_hash(route, values, isnull) % (uint64) nodes));
}
