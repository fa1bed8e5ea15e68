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
	RF_FIELD(RfModifyPlan, do_nothing, BOOL),
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
	RF_FIELD(RfPlannedExchange, producers, NODE),
	RF_FIELD(RfPlannedExchange, consumers, NODE),
};

static const RfPlanNode types[] = {
	RF_PLAN_NODE(RfModifyPlan, modify_fields),
	RF_PLAN_NODE(RfDirectPlan, direct_fields),
	RF_PLAN_NODE(RfPlannedExchange, exchange_fields),
};

void
rf_plan_private_register(void)
{
	rf_plan_nodes_register(types, lengthof(types));
}
