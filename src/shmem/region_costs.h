/*
 * region_costs.h - the costs of moving regions, from the engine's measurements at its start. Plain
 * C.
 */
#ifndef RF_REGION_COSTS_H
#define RF_REGION_COSTS_H

#include "layout.h"

/*
 * The costs of moving regions to a peer; false: not measured over its transport. `bandwidth`:
 * measured bytes per second to it, less than this machine's own maximum if the peer is far away; 0
 * = not known.
 */
extern bool rf_region_costs(const RfShared *shared, int peer, uint64_t bandwidth,
							RfRegionCosts *costs);

#endif
