/*
 * plan_private.c - the fields of the structures that planning passes to execution.
 */
#include "postgres.h"

#include "plan_private.h"

/* RfFetchOptions, which are part of the structure */
#define FETCH_FIELDS(type) \
	RF_FIELD(type, fetch.fetch_size, INT), \
	RF_FIELD(type, fetch.receive_buffers, INT), \
	RF_FIELD(type, fetch.receive_buffer_size, INT), \
	RF_FIELD(type, fetch.inline_limit, INT), \
	RF_FIELD(type, fetch.async_capable, INT), \
	RF_FIELD(type, fetch.read_in_place, BOOL), \
	RF_FIELD(type, fetch.accept_pages, BOOL), \
	RF_FIELD(type, fetch.trusted, BOOL)

static const RfField modify_fields[] = {
	RF_FIELD(RfModifyPlan, sql, STRING),
	RF_FIELD(RfModifyPlan, targets, NODE),
	RF_FIELD(RfModifyPlan, retrieved, NODE),
	RF_FIELD(RfModifyPlan, conflict.sql, STRING),
	RF_FIELD(RfModifyPlan, conflict.columns, NODE),
	RF_FIELD(RfModifyPlan, conflict.params, NODE),
	RF_FIELD(RfModifyPlan, conflict.param_types, NODE),
	RF_FIELD(RfModifyPlan, move_delete, STRING),
	RF_FIELD(RfModifyPlan, move_insert, STRING),
	RF_FIELD(RfModifyPlan, key, NODE),
	RF_FIELD(RfModifyPlan, copy_sql, STRING),
};

static const RfField direct_fields[] = {
	RF_FIELD(RfDirectPlan, sql, STRING),
	RF_FIELD(RfDirectPlan, param_types, NODE),
	RF_FIELD(RfDirectPlan, retrieved, NODE),
	RF_FIELD(RfDirectPlan, set_processed, BOOL),
	RF_FIELD(RfDirectPlan, keys, NODE),
	RF_FIELD(RfDirectPlan, exchanges, NODE),
	FETCH_FIELDS(RfDirectPlan),
	RF_FIELD(RfDirectPlan, strategy, STRING),
};

static const RfField exchange_fields[] = {
	RF_FIELD(RfPlannedExchange, replicate, BOOL),
	RF_FIELD(RfPlannedExchange, rows, DOUBLE),
	RF_FIELD(RfPlannedExchange, description, STRING),
	RF_FIELD(RfPlannedExchange, spec, STRING),
	RF_FIELD(RfPlannedExchange, producers, NODE),
	RF_FIELD(RfPlannedExchange, consumers, NODE),
};

static const RfField merge_fields[] = {
	RF_FIELD(RfMergeKey, attno, INT),
	RF_FIELD(RfMergeKey, nulls_first, BOOL),
	RF_FIELD(RfMergeKey, operator, OID),
	RF_FIELD(RfMergeKey, collation, OID),
};

static const RfField compute_fields[] = {
	RF_FIELD(RfComputePlan, places, NODE),
	RF_FIELD(RfComputePlan, holders, INT),
	RF_FIELD(RfComputePlan, send_sql, STRING),
	RF_FIELD(RfComputePlan, join_sql, STRING),
};

static const RfField nodes_fields[] = {
	RF_FIELD(RfNodesPlan, servers, NODE),
	RF_FIELD(RfNodesPlan, places, NODE),
	RF_FIELD(RfNodesPlan, exchanges, NODE),
	RF_FIELD(RfNodesPlan, merge, NODE),
	RF_FIELD(RfNodesPlan, prune, NODE),
	RF_FIELD(RfNodesPlan, keys, NODE),
	RF_FIELD(RfNodesPlan, strategy, STRING),
	RF_FIELD(RfNodesPlan, compute, NODE),
	RF_FIELD(RfNodesPlan, node_sql, NODE),
	RF_FIELD(RfNodesPlan, any, BOOL),
};

static const RfField flow_fields[] = {
	RF_FIELD(RfFlowPlan, sql, STRING),
	RF_FIELD(RfFlowPlan, node_sql, NODE),
	RF_FIELD(RfFlowPlan, exchanges, NODE),
};

static const RfField scan_fields[] = {
	RF_FIELD(RfScanPlan, sql, STRING),
	RF_FIELD(RfScanPlan, attrs, NODE),
	RF_FIELD(RfScanPlan, param_types, NODE),
	FETCH_FIELDS(RfScanPlan),
	RF_FIELD(RfScanPlan, rows, DOUBLE),
	RF_FIELD(RfScanPlan, relation, STRING),
	RF_FIELD(RfScanPlan, states, NODE),
	RF_FIELD(RfScanPlan, description, STRING),
	RF_FIELD(RfScanPlan, nodes, NODE),
	RF_FIELD(RfScanPlan, userid, OID),
	RF_FIELD(RfScanPlan, set_operation, BOOL),
	RF_FIELD(RfScanPlan, all_sql, STRING),
	RF_FIELD(RfScanPlan, joined_here, NODE),
	RF_FIELD(RfScanPlan, filtered_here, NODE),
	RF_FIELD(RfScanPlan, local_places, NODE),
	RF_FIELD(RfScanPlan, local_params, NODE),
	RF_FIELD(RfScanPlan, flow, NODE),
	RF_FIELD(RfScanPlan, batch_sql, STRING),
	RF_FIELD(RfScanPlan, late_lock, STRING),
};

static const RfField local_rows_fields[] = {
	RF_FIELD(RfLocalRowsPlan, inputs, NODE),
	RF_FIELD(RfLocalRowsPlan, columns, NODE),
	RF_FIELD(RfLocalRowsPlan, by_flow, BOOL),
};

static const RfField lookahead_fields[] = {
	RF_FIELD(RfLookaheadPlan, params, NODE),
	RF_FIELD(RfLookaheadPlan, lookups, NODE),
};

static const RfField lookup_fields[] = {
	RF_FIELD(RfLookupPlan, number, INT),
	RF_FIELD(RfLookupPlan, columns, INT),
	RF_FIELD(RfLookupPlan, sort, NODE),
	RF_FIELD(RfLookupPlan, prune, NODE),
	RF_FIELD(RfLookupPlan, keys, NODE),
	RF_FIELD(RfLookupPlan, server, OID),
	RF_FIELD(RfLookupPlan, operator, NODE),
	RF_FIELD(RfLookupPlan, column, INT),
	RF_FIELD(RfLookupPlan, key_rows, DOUBLE),
	RF_FIELD(RfLookupPlan, most, DOUBLE),
	RF_FIELD(RfLookupPlan, first_rows, BOOL),
};

static const RfPlanNode types[] = {
	RF_PLAN_NODE(RfModifyPlan, modify_fields),
	RF_PLAN_NODE(RfDirectPlan, direct_fields),
	RF_PLAN_NODE(RfPlannedExchange, exchange_fields),
	RF_PLAN_NODE(RfMergeKey, merge_fields),
	RF_PLAN_NODE(RfComputePlan, compute_fields),
	RF_PLAN_NODE(RfNodesPlan, nodes_fields),
	RF_PLAN_NODE(RfFlowPlan, flow_fields),
	RF_PLAN_NODE(RfScanPlan, scan_fields),
	RF_PLAN_NODE(RfLocalRowsPlan, local_rows_fields),
	RF_PLAN_NODE(RfLookaheadPlan, lookahead_fields),
	RF_PLAN_NODE(RfLookupPlan, lookup_fields),
};

void
rf_plan_private_register(void)
{
	rf_plan_nodes_register(types, lengthof(types));
}
