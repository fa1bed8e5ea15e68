/*
 * ring.h - the doorbell ring of a lane; ring.c says why no doorbell is lost. Plain C.
 */
#ifndef RF_RING_H
#define RF_RING_H

#include "layout.h"

/*
 * Put a flow into its lane's ring and wake the lane if it sleeps. Any thread or process.
 */
extern void rf_lane_ring(RfLane *lane, RfFlow *flows, uint32_t flow_index);

/* The first half of it, for several flows at once: rf_lane_wake each lane after the last. */
extern void rf_lane_queue(RfLane *lane, RfFlow *flows, uint32_t flow_index);

/* Wake a lane that sleeps. What it shall see was stored before. */
extern void rf_lane_wake(RfLane *lane);

/*
 * Lane: take the next rung flow, clearing its bit of the `queued` word first; false when there is
 * none.
 */
extern bool rf_lane_take(RfLane *lane, RfFlow *flows, uint32_t *flow_index);

#endif
