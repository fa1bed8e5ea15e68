/*
 * region_costs.h - what moving regions costs, by what the engine measured at its start. Plain C.
 */
#ifndef RF_REGION_COSTS_H
#define RF_REGION_COSTS_H

#include "layout.h"

/*
 * What moving regions to a peer costs; false: not measured over its transport. `bandwidth`: bytes
 * per second that it was seen to get, which is less than what this machine can when it is far away;
 * 0 = not known.
 */
extern bool rf_region_costs(const RfShared *shared, int peer, uint64_t bandwidth, RfRegionCosts *costs);

#endif
