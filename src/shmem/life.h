/*
 * life.h - the changes of a flow's state that both its sides may attempt at once; see life.c. Plain
 * C.
 */
#ifndef RF_LIFE_H
#define RF_LIFE_H

#include "layout.h"

/*
 * Engine's main thread: LISTENING -> OPENING. True: the entry keeps its owner until it is OPEN,
 * FAILED or let go.
 */
extern bool rf_flow_hold(RfFlow *flow);

/*
 * Back to LISTENING. True: it is FREE instead, because its backend has left meanwhile. Only before
 * it got buffers.
 */
extern bool rf_flow_let_go(RfFlow *flow);

/*
 * Backend: releases the entry, and must not use it any more. Returns the state it had, and the lane
 * to ring when that was OPEN or FAILED. After OPENING and FAILED the engine's main thread has to be
 * woken.
 */
extern RfFlowState rf_flow_leave(RfFlow *flow, uint32_t *lane);

/*
 * Backend: from now on the engine may take the listening entry back after that time (rf_now_us).
 * Until it has kept it the backend neither reads nor writes it, nor leaves it.
 */
extern void rf_flow_lend(RfFlow *flow, int64_t until_us);

/* Backend, with the key of its entry. False: the engine has it back, and it may be another's. */
extern bool rf_flow_keep(RfFlow *flow, uint64_t key);

/*
 * Engine's main thread, of an entry that it knows nothing of. True: its time was over, and it is
 * FREE.
 */
extern bool rf_flow_take_back(RfFlow *flow, int64_t now_us);

#endif
