/*
 * fallback.h - two providers as one, for tests: the engine uses rf_provider_fallback.
 */
#ifndef RF_FALLBACK_H
#define RF_FALLBACK_H

#include "rdma_fdw/provider.h"

/*
 * A device of rf_provider_fallback out of these two, which it owns from here, also on failure.
 * Domains are the first one's, those of domain_fallback the second one's.
 */
extern RfDevice *rf_fallback_device(const RfProvider *first, RfDevice *first_device,
									const RfProvider *second, RfDevice *second_device, RfError *error);

#endif
