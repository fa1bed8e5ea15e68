/*
 * route.c - which node a row belongs to: PostgreSQL's own hash partitioning.
 *
 * Does: the same as compute_partition_hash_value() for a table partitioned by hash of the same
 * columns, with the extended hash functions of the types' default operator classes, so that a row's
 * node is the remainder that satisfies_hash_partition() tests. Values that are equal for operators
 * of such a class go to one node even when their types differ (int4 = int8). Does not: know
 * servers.
 *
 * A route and its function call data belong to one backend.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_enum.h"
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
#include "utils/syscache.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(rdma_hash_node);

/* The hash functions of most keys, which are inlined. */
typedef enum RouteOp
{
	ROUTE_INT4,
	ROUTE_INT8,
	ROUTE_CALL
} RouteOp;

/* The hash of an enumeration's value: the catalog is asked once for each. */
typedef struct LabelHash
{
	Oid			value;
	uint64		hash;
} LabelHash;

#define LABELS		64

typedef struct RouteKey
{
	RouteOp		op;
	FmgrInfo	function;
	FunctionCallInfo call;		/* its second argument is the seed */
	LabelHash  *labels;			/* instead, of an enumeration: [LABELS], by value */
} RouteKey;

struct RfRoute
{
	int			key_count;
	RouteKey	keys[FLEXIBLE_ARRAY_MEMBER];
};

/*
 * Returns true if all nodes compute the same hash for a value of this type by its own function. Not
 * if that hashes an OID that each node assigned itself: enumeration values, object identifiers, and
 * types that contain them.
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

/* Its values are hashed by their labels, since each node assigned OIDs of its own to these. */
static bool
is_enumeration(Oid type)
{
	return get_typtype(getBaseType(type)) == TYPTYPE_ENUM;
}

bool
rf_route_type(Oid type)
{
	return is_enumeration(type) ||
		(OidIsValid(lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC)->hash_extended_proc) &&
		 hashes_alike(type));
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
		if (is_enumeration(types[i]))
		{
			key->op = ROUTE_CALL;
			key->labels = palloc0_array(LabelHash, LABELS);
			continue;
		}
		if (!hashes_alike(types[i]))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("rows cannot be distributed by values of type %s",
							format_type_be(types[i])),
					 errdetail("Its hash depends on OIDs, which differ between nodes."),
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
 * hash_bytes_uint32_extended() (Jenkins' lookup3 of one word) with the seed of partitions, inlined:
 * the part that depends on the seed alone is a constant. For one number, or for vectors of them.
 */
#define ROTATE(x, k)	(((x) << (k)) | ((x) >> (32 - (k))))
#define MIX(a, b, c, k)	((a) -= (c), (a) ^= ROTATE(c, k), (c) += (b))
#define MIX_NUMBER(a, b, c, number) \
	((a) += (number), \
	 (c) ^= (b), (c) -= ROTATE(b, 14), \
	 (a) ^= (c), (a) -= ROTATE(c, 11), \
	 (b) ^= (a), (b) -= ROTATE(a, 25), \
	 (c) ^= (b), (c) -= ROTATE(b, 16), \
	 (a) ^= (c), (a) -= ROTATE(c, 4), \
	 (b) ^= (a), (b) -= ROTATE(a, 14), \
	 (c) ^= (b), (c) -= ROTATE(b, 24))

static inline void
mix_seed(uint32 *a, uint32 *b, uint32 *c)
{
	*a = *b = *c = 0x9e3779b9 + (uint32) sizeof(uint32) + 3923095;
	*a += (uint32) (HASH_PARTITION_SEED >> 32);
	*b += (uint32) HASH_PARTITION_SEED;
	MIX(*a, *b, *c, 4);
	MIX(*b, *c, *a, 6);
	MIX(*c, *a, *b, 8);
	MIX(*a, *b, *c, 16);
	MIX(*b, *c, *a, 19);
	MIX(*c, *a, *b, 4);
}

static inline uint64
hash_number(uint32 number)
{
	uint32		a;
	uint32		b;
	uint32		c;

	mix_seed(&a, &b, &c);
	MIX_NUMBER(a, b, c, number);
	return ((uint64) b << 32) | c;
}

/* The word that hashint8extended hashes: the value itself if int4 can hold it. */
static inline uint32
fold_number(int64 number)
{
	uint32		high = (uint32) ((uint64) number >> 32);

	return (uint32) number ^ (number >= 0 ? high : ~high);
}

static uint64
hash_label(Oid value)
{
	HeapTuple	tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(value));
	Form_pg_enum label;
	uint64		hash;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid internal value for enum: %u", value)));
	label = (Form_pg_enum) GETSTRUCT(tuple);
	hash = DatumGetUInt64(hash_any_extended((unsigned char *) NameStr(label->enumlabel),
											strlen(NameStr(label->enumlabel)),
											HASH_PARTITION_SEED));
	ReleaseSysCache(tuple);
	return hash;
}

/* As compute_partition_hash_value() of PostgreSQL does it for one column. */
static inline uint64
hash_value(RouteKey *key, RouteOp op, Datum value)
{
	Datum		result;

	if (op == ROUTE_INT4)
		return hash_number((uint32) DatumGetInt32(value));
	if (op == ROUTE_INT8)
		return hash_number(fold_number(DatumGetInt64(value)));
	if (key->labels != NULL)
	{
		Oid			label = DatumGetObjectId(value);
		LabelHash  *known = &key->labels[label % LABELS];

		if (known->value != label)
			*known = (LabelHash)
		{
			label, hash_label(label)
		};
		return known->hash;
	}
	key->call->args[0].value = value;
	key->call->isnull = false;
	result = FunctionCallInvoke(key->call);
	if (key->call->isnull)
		elog(ERROR, "function %u returned NULL", key->function.fn_oid);
	return DatumGetUInt64(result);
}

/* Four numbers at once, in vectors that every supported compiler can translate. */
#define LANES	4
typedef uint32 Lanes __attribute__((vector_size(LANES * sizeof(uint32))));

#define BLOCK	64				/* rows; a multiple of LANES */

static inline void
hash_block(const uint32 *numbers, uint32 *high, uint32 *low)
{
	uint32		seed_a;
	uint32		seed_b;
	uint32		seed_c;

	mix_seed(&seed_a, &seed_b, &seed_c);
	for (int i = 0; i < BLOCK; i += LANES)
	{
		Lanes		a = {seed_a, seed_a, seed_a, seed_a};
		Lanes		b = {seed_b, seed_b, seed_b, seed_b};
		Lanes		c = {seed_c, seed_c, seed_c, seed_c};
		Lanes		number;

		memcpy(&number, numbers + i, sizeof(number));
		MIX_NUMBER(a, b, c, number);
		memcpy(high + i, &b, sizeof(b));
		memcpy(low + i, &c, sizeof(c));
	}
}

/*
 * A column of numbers into the hashes of all rows; `first`: these are 0 before. Inlined with
 * constants.
 */
static pg_attribute_always_inline void
hash_numbers(RouteOp op, bool first, bool has_nulls, const RfRows *rows, int column, uint64 *hashes)
{
	size_t		stride = rows->column_count;
	uint32		numbers[BLOCK] = {0};
	uint32		high[BLOCK];
	uint32		low[BLOCK];

	for (uint32 row = 0; row < rows->count; row += BLOCK, hashes += BLOCK)
	{
		const Datum *values = rows->values + row * stride + column;
		const bool *isnull = rows->isnull + row * stride + column;
		uint32		n = Min(rows->count - row, BLOCK);

		for (uint32 i = 0; i < n; i++)
			numbers[i] = op == ROUTE_INT4 ? (uint32) DatumGetInt32(values[i * stride]) :
				fold_number(DatumGetInt64(values[i * stride]));
		hash_block(numbers, high, low);
		for (uint32 i = 0; i < n; i++)
		{
			uint64		hash = first ? 0 : hashes[i];
			uint64		combined = hash_combine64(hash, ((uint64) high[i] << 32) | low[i]);

			hashes[i] = has_nulls && isnull[i * stride] ? hash : combined;
		}
	}
}

/* Called functions may allocate memory; it is freed after this many rows. */
#define ROWS_PER_RESET	16

static void
hash_called(RouteKey *key, const RfRows *rows, int column, uint64 *hashes, MemoryContext scratch)
{
	MemoryContext caller = MemoryContextSwitchTo(scratch);

	for (uint32 row = 0; row < rows->count; row++)
	{
		size_t		at = (size_t) row * rows->column_count + column;

		if (!rows->isnull[at])
			hashes[row] = hash_combine64(hashes[row],
										 hash_value(key, ROUTE_CALL, rows->values[at]));
		if ((row + 1) % ROWS_PER_RESET == 0)
			MemoryContextReset(scratch);
	}
	MemoryContextReset(scratch);
	MemoryContextSwitchTo(caller);
}

void
rf_route_hash_rows(RfRoute *route, const AttrNumber *keys, const RfRows *rows, uint64 *hashes,
				   MemoryContext scratch)
{
	for (int i = 0; i < route->key_count; i++)
	{
		RouteKey   *key = &route->keys[i];
		int			column = keys[i] - 1;
		bool		simple = i == 0 && !rows->columns[column].has_nulls;

		if (i == 0 && !(simple && key->op != ROUTE_CALL))
			memset(hashes, 0, rows->count * sizeof(uint64));
		if (key->op == ROUTE_CALL)
			hash_called(key, rows, column, hashes, scratch);
		else if (key->op == ROUTE_INT4 && simple)
			hash_numbers(ROUTE_INT4, true, false, rows, column, hashes);
		else if (key->op == ROUTE_INT4)
			hash_numbers(ROUTE_INT4, false, true, rows, column, hashes);
		else if (simple)
			hash_numbers(ROUTE_INT8, true, false, rows, column, hashes);
		else
			hash_numbers(ROUTE_INT8, false, true, rows, column, hashes);
	}
}

uint64
rf_route_hash(RfRoute *route, const Datum *values, const bool *isnull)
{
	int			key_count = route->key_count;
	uint64		hash = 0;

	for (int i = 0; i < key_count; i++)
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
	Assert(route->key_count == key_count);
	for (int i = 0; i < route->key_count; i++)
	{
		values[i] = PG_GETARG_DATUM(i + 1);
		isnull[i] = PG_ARGISNULL(i + 1);
	}
	PG_RETURN_INT32((int32) (rf_route_hash(route, values, isnull) % (uint64) nodes));
}
