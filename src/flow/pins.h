/*
 * pins.h - pages that a flow keeps pinned while they are sent from where they lie. src/flow only.
 *
 * In the order of their slots: a ring. They belong to a resource owner of their own, since the
 * owner of a transaction or subtransaction lets go of its pins before it tells us of its end, and a
 * page that is being sent has to be waited for first (flow.c).
 */
#ifndef RF_PINS_H
#define RF_PINS_H

#include "postgres.h"

#include "storage/buf.h"

typedef struct RfPins RfPins;

/* A backend's share of the shared buffers, as far as one flow uses it. */
extern int	rf_pins_share(void);
extern RfPins *rf_pins_create(int limit);

/* One more of a page that is pinned, for this slot; false: there are enough. */
extern bool rf_pins_add(RfPins *pins, Buffer buffer, uint64 slot);

/* Let go of pins of slots before `end`. */
extern void rf_pins_release(RfPins *pins, uint64 end);

/* The oldest pin's slot; returns false without pins. */
extern bool rf_pins_first(const RfPins *pins, uint64 *slot);

/* Returns true if this slot, the newest, has half of the pins that there may be. */
extern bool rf_pins_half(const RfPins *pins, uint64 slot);
extern void rf_pins_destroy(RfPins *pins);

#endif
