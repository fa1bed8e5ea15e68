/*
 * life.c - the changes of an entry's state that a backend and its engine's main thread may attempt
 * at the same time.
 *
 * Plain C: used by the backend API (flow.c), by the engine (open.c) and by the unit tests.
 *
 * Which side may free an entry. An entry becomes FREE either by its backend, from CLAIMED and
 * LISTENING (the engine does not know it), or by the engine, from CLOSING. So in OPENING, OPEN,
 * FAILED and CLOSING the entry cannot change its owner behind the engine's back, whereas an entry
 * that the engine sees LISTENING may have been released, claimed and made LISTENING again by
 * another backend between any two reads. The engine therefore holds a listening entry (LISTENING ->
 * OPENING) before it reads or writes anything in it, and releases a wrong one; its owner does not
 * notice, since it waits for OPEN or FAILED.
 *
 * A backend that is idle cannot release an entry that nobody opens. So it may lend it for a time:
 * then the engine frees it from LISTENING and FAILED. The process that takes the lease has the
 * entry, as if the backend had released it: neither does anything to the entry before.
 */
#include "life.h"


bool
rf_flow_hold(RfFlow *flow)
{
	uint32_t	expected = RF_FLOW_LISTENING;

	return atomic_compare_exchange_strong(&flow->state, &expected, RF_FLOW_OPENING);
}

bool
rf_flow_let_go(RfFlow *flow)
{
	uint32_t	expected = RF_FLOW_OPENING;

	/* Its backend left meanwhile: then only we know the entry, and it has no buffers. */
	if (atomic_compare_exchange_strong(&flow->state, &expected, RF_FLOW_LISTENING))
		return false;
	atomic_store(&flow->state, RF_FLOW_FREE);
	return true;
}

RfFlowState
rf_flow_leave(RfFlow *flow, uint32_t *lane)
{
	uint32_t	state = atomic_load(&flow->state);
	uint32_t	next;

	/* The engine may hold, open or fail it at the same time; then try again. */
	do
	{
		/*
		 * Before the exchange, since afterwards the entry may be another backend's. The engine
		 * stored it before the state became OPEN, or FAILED with a lane attached.
		 */
		*lane = state == RF_FLOW_OPEN || state == RF_FLOW_FAILED ? flow->memory.lane : 0;
		next = state == RF_FLOW_CLAIMED || state == RF_FLOW_LISTENING ? RF_FLOW_FREE :
			RF_FLOW_CLOSING;
	} while (!atomic_compare_exchange_strong(&flow->state, &state, next));
	return (RfFlowState) state;
}

void
rf_flow_lend(RfFlow *flow, int64_t until_us)
{
	atomic_store(&flow->lease_until_us, until_us);
	atomic_store(&flow->lease, flow->key);
}

bool
rf_flow_keep(RfFlow *flow, uint64_t key)
{
	return atomic_compare_exchange_strong(&flow->lease, &key, 0);
}

bool
rf_flow_take_back(RfFlow *flow, int64_t now_us)
{
	uint64_t	lease = atomic_load(&flow->lease);
	uint32_t	state;

	if (lease == 0 || atomic_load(&flow->lease_until_us) > now_us)
		return false;
	/* Only we change it, as long as there is this lease. */
	state = atomic_load(&flow->state);
	if ((state != RF_FLOW_LISTENING && state != RF_FLOW_FAILED) ||
		!atomic_compare_exchange_strong(&flow->lease, &lease, 0))
		return false;
	flow->memory.buffers = NULL;
	atomic_store(&flow->state, RF_FLOW_FREE);
	return true;
}
