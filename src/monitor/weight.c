/*
 * weight.c - rdma.set_flow_weight: another weight for a stream that runs.
 *
 * The lane that sends the stream reads the word in each turn, so the change takes effect with the
 * next one.
 */
#include "postgres.h"

#include "fmgr.h"

#include "shmem/layout.h"


PG_FUNCTION_INFO_V1(rdma_set_flow_weight);

Datum
rdma_set_flow_weight(PG_FUNCTION_ARGS)
{
	int32		index = PG_GETARG_INT32(0);
	int32		weight = PG_GETARG_INT32(1);
	RfFlow	   *flow;

	if (weight < 1 || weight > RF_MAX_WEIGHT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the weight of a stream must be between 1 and %d", RF_MAX_WEIGHT)));
	if (rf_shared == NULL || index < 0 || index >= rf_shared->max_flows)
		PG_RETURN_BOOL(false);
	flow = &rf_shared->flows[index];
	if (atomic_load(&flow->state) != RF_FLOW_OPEN || flow->role != RF_FLOW_PRODUCER)
		PG_RETURN_BOOL(false);
	atomic_store(&flow->weight, weight);
	PG_RETURN_BOOL(true);
}
