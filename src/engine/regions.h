/*
 * regions.h - the costs of a region's bytes over this node's transports: measured when the engine
 * starts, for the choice in region.h.
 *
 * Plain C.
 */
#ifndef RF_REGIONS_H
#define RF_REGIONS_H

#include "rdma_fdw/provider.h"
#include "rdma_fdw/region.h"

/*
 * Sets copy, gather, request and byte of the costs and, if the device has them, strided and entry
 * (the rest, measured by rf_region_measure, stays unchanged), with two queue pairs of this device
 * that are connected to each other. `socks`: two connected non-blocking stream sockets where the
 * device needs them, else -1; they are closed. Takes a few ms, more over an emulated device, and
 * gives up after a second. False: the measurement failed, and *error has the reason.
 */
extern bool rf_regions_measure(const RfProvider *provider, RfDevice *device, const int socks[2],
							   RfRegionCosts *costs, RfError *error);

/* Such sockets: of one machine's engines (shared memory), or TCP. */
extern bool rf_regions_sockets(bool tcp, int socks[2]);

#endif
