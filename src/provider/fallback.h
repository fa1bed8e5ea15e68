/*
 * fallback.h - two providers as one, for tests: the engine uses rf_provider_fallback.
 */
#ifndef RF_FALLBACK_H
#define RF_FALLBACK_H

#include "rdma_fdw/provider.h"

/*
 * A device of rf_provider_fallback out of these two, which it owns from here, also on failure.
 * Domains belong to the first, domains of domain_fallback to the second.
 */
extern RfDevice *rf_fallback_device(const RfProvider *first, RfDevice *first_device,
									const RfProvider *second, RfDevice *second_device,
									RfError *error);

#endif
