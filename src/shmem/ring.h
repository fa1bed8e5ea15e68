/*
 * ring.h - the doorbell ring of a lane; ring.c says why no doorbell is lost. Plain C.
 */
#ifndef RF_RING_H
#define RF_RING_H

#include "layout.h"

/* Puts a flow into its lane's ring and wakes the lane if it sleeps. Any thread or process. */
extern void rf_lane_ring(RfLane *lane, RfFlow *flows, uint32_t flow_index);

/*
 * The first half of it, for several flows at once: call rf_lane_wake for each lane after the last.
 */
extern void rf_lane_queue(RfLane *lane, RfFlow *flows, uint32_t flow_index);

/* Wakes a lane that sleeps. The caller has stored its change before. */
extern void rf_lane_wake(RfLane *lane);

/*
 * Lane: takes the next rung flow, clearing its bit of the `queued` word first; returns false if no
 * flow is rung.
 */
extern bool rf_lane_take(RfLane *lane, RfFlow *flows, uint32_t *flow_index);

#endif
