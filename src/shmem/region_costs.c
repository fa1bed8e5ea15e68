/*
 * region_costs.c - the costs of moving regions to a peer, for the choice in region.h. Plain C.
 */
#include <string.h>

#include "region_costs.h"


bool
rf_region_costs(const RfShared *shared, int peer, uint64_t bandwidth, RfRegionCosts *costs)
{
	const char *transport = shared->peers[peer].transport;
	RfRegionTransport kind = strcmp(transport, "shm") == 0 ? RF_OVER_SHM :
		strcmp(transport, "tcp") == 0 ? RF_OVER_TCP : RF_OVER_VERBS;

	*costs = shared->calibration.regions[kind];
	if (bandwidth > 0 && 1e9 / (double) bandwidth > costs->byte)
		costs->wire = (float) (1e9 / (double) bandwidth) - costs->byte;
	return costs->request > 0;
}
