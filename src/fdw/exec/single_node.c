/*
 * single_node.c - which of several nodes alone has the rows of a statement, by its values of the
 * distribution key.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "rdma_fdw/exchange.h"

#include "exec.h"

struct RfSingleNode
{
	List	   *values;			/* ExprStates */
	RfRoute    *route;
	RfBuckets  *buckets;		/* NULL: of partitions on ordinary servers, which are on them in
								 * turn */
};

RfSingleNode *
rf_single_node_create(List *values, List *keys, Oid serverid)
{
	RfSingleNode *single = palloc(sizeof(RfSingleNode));
	int			count = list_length(values);
	Oid		   *types = palloc(sizeof(Oid) * count);
	Oid		   *collations = palloc(sizeof(Oid) * count);

	for (int i = 0; i < count; i++)
	{
		types[i] = list_nth_oid(keys, i);
		collations[i] = list_nth_oid(keys, count + i);
	}
	single->values = values;
	single->route = rf_route_create(count, types, collations);
	single->buckets = rf_server_buckets(GetForeignServer(serverid));
	return single;
}

/* Evaluates the key's values and hashes them as rows are routed. */
int
rf_single_node(RfSingleNode *single, ExprContext *econtext, int node_count)
{
	MemoryContext caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	Datum	   *values = palloc(sizeof(Datum) * list_length(single->values));
	bool	   *isnull = palloc(sizeof(bool) * list_length(single->values));
	ListCell   *lc;
	uint64		hash;

	foreach(lc, single->values)
	{
		int			i = foreach_current_index(lc);

		values[i] = ExecEvalExpr((ExprState *) lfirst(lc), econtext, &isnull[i]);
	}
	hash = rf_route_hash(single->route, values, isnull);
	MemoryContextSwitchTo(caller);
	return single->buckets != NULL ? rf_bucket_place(single->buckets, hash) :
		(int) (hash % (uint64) node_count);
}
