/*
 * value.h - the memory in which a producer builds rows that do not fit a slot; see value.c. Plain
 * C.
 */
#ifndef RF_VALUE_H
#define RF_VALUE_H

#include "slots.h"

typedef enum RfValueStep
{
	RF_VALUE_COPY,				/* in private memory; it goes through the slots */
	RF_VALUE_IN_PLACE,			/* at *place */
	RF_VALUE_ASKED,				/* wake the engine's main thread; then as RF_VALUE_WAIT */
	RF_VALUE_WAIT				/* sleep for RF_WAIT_VALUE, and ask here again */
} RfValueStep;

/*
 * The memory for a row of `bytes` bytes that does not fit a slot: 64-aligned. The row must be
 * handed over by rf_slot_place before this is called for another one.
 */
extern RfValueStep rf_value_place(const RfShared *shared, RfFlow *flow, RfSlotCursor *cursor,
								  RfValueMode mode, uint64_t bytes, uint8_t **place);

/*
 * Data that is the same for all of a producer's flows is stored once in a piece that they share,
 * and each flow's slot carries only its own header (RF_SLOT_PLACED).
 *
 * The piece has as many parts as a flow has slots; message number m of all messages that all flows
 * send lies in part m modulo that, in one slot of each flow. There is no count of the flows that
 * still send from a part: their slots show it. The producer builds message m only when every flow's
 * next slot is FREE (or its own to fill). A lane frees a flow's slots in order, and each of the
 * messages m - slots .. m - 1 took one of the flow's; so the slot of m - slots, the last one to use
 * this part, is FREE in every flow. A flow that takes no more messages, because its reader has
 * stopped, must have sent all its slots.
 *
 * Ordering. A lane, or the adapter for it, reads the part before the completion of its work
 * request; the lane sees that before it stores FREE; the producer loads FREE in rf_slot_fill, then
 * writes the part: both sequentially consistent, for each flow and lane by itself. In the other
 * direction the producer's stores into the part precede its release of each PLACED, which each lane
 * acquires.
 *
 * Release. Each flow's entry holds the piece until the engine's main thread frees the entry: when
 * its lane has detached it, or its queue pairs are gone. That is so after an end, a cancel, an
 * error and a lost peer alike. The last entry that is freed frees the memory.
 *
 * The first call requests it, for the first flow and then for all other flows; NULL: refused, copy
 * to each flow's slot. `copied`: bytes that were copied to each. *ask: wake the engine's main
 * thread. Never waits.
 */
extern uint8_t *rf_value_common(const RfShared *shared, RfFlow *const *flows, uint32_t count,
								RfValueMode mode, uint64_t copied, bool *ask);

#endif
