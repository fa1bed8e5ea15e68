/*
 * values.h - the engine's part of value memory: pieces for flows, and a cache of registrations.
 *
 * A piece is registered for the peer that its flow sends to, as a source (provider.h): only this
 * engine's queue pairs read it, so unlike segments it may serve one peer after another. When a flow
 * is done its piece is returned, but the registration stays for the next flow to that peer; beyond
 * a limit the least recently used unused registrations are dropped. Registrations never exceed the
 * memory itself plus that limit; a request for more is refused.
 *
 * The danger of registration caches elsewhere, memory that is unmapped while its registration
 * persists, does not exist here: value memory is mapped before the engine starts and outlives it. A
 * peer's domain may end before the cache, and its registrations end with it, even those in use: its
 * queue pairs are gone by then.
 *
 * Main thread of the engine only; plain C. The figures in RfShared.values and
 * RfPeer.value_registered are written here.
 */
#ifndef RF_VALUES_H
#define RF_VALUES_H

#include "rdma_fdw/provider.h"
#include "shmem/layout.h"

typedef struct RfValues RfValues;

typedef struct RfPiece
{
	uint32_t	unit;			/* first of `units` in the memory */
	uint32_t	units;			/* 0 if unused */
	int32_t		registration;	/* -1: its peer is gone */
} RfPiece;

/*
 * NULL: out of memory. The memory is the one of `shared`, possibly none. limit: bytes of
 * registrations that are kept although they are unused.
 */
extern RfValues *rf_values_create(RfShared *shared, const RfProvider *provider, uint64_t limit);
extern void rf_values_destroy(RfValues *values);

/*
 * `size` bytes, registered for the peer; false: there is no room, or the device refuses (then
 * *error has the reason, else its kind is RF_ERROR_NONE).
 */
extern bool rf_values_take(RfValues *values, int peer, RfDomain *domain, uint64_t size,
						   RfPiece *piece, RfError *error);

/*
 * The same memory as another piece, registered for another peer. It is free when all its pieces
 * were returned.
 */
extern bool rf_values_share(RfValues *values, int peer, RfDomain *domain, const RfPiece *of,
							RfPiece *piece, RfError *error);
extern uint8_t *rf_values_address(RfValues *values, const RfPiece *piece);
extern uint32_t rf_values_lkey(RfValues *values, const RfPiece *piece);

/* Requires that no outstanding work request reads it, or that its peer is gone. */
extern void rf_values_return(RfValues *values, RfPiece *piece);

/* After a restart of the engine: a backend still writes there. */
extern void rf_values_mark(RfValues *values, const uint8_t *address, uint64_t size, RfPiece *piece);

/* The peer's queue pairs are gone, its domain is about to be destroyed. */
extern void rf_values_peer_gone(RfValues *values, RfDomain *domain);

/*
 * Stores the costs of copying and registering here in shared->calibration; leaves it unchanged if
 * the measurement fails.
 */
extern void rf_values_calibrate(RfShared *shared, const RfProvider *provider, RfDevice *device);

#endif
