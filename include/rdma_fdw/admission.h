/*
 * admission.h - the policies that limit the bytes in flight, and the hook for policies of other
 * modules.
 *
 * Payload is written only while the policy allows it. Other payload waits in the merge queues of
 * the lanes, where requests can still merge (RDMAbox, section IV-A). The engine does the
 * accounting, for all lanes of the device together; a policy answers one question and is told about
 * completions. Messages without payload never wait, and one work request is always allowed when
 * nothing is in flight, so no policy can stop a stream.
 *
 * A module that brings its own policy includes this header, is listed behind rdma_fdw in
 * shared_preload_libraries, and sets rf_admission_hook in its _PG_init. Its policy then takes the
 * place of the built-in ones, unless rdma_fdw.admission_policy is none. Its functions are called by
 * the engine's lanes, which are threads: they must not call PostgreSQL functions. Several lanes
 * call them at the same time, so accesses to `state` must be atomic.
 *
 * Plain C.
 */
#ifndef RF_ADMISSION_H
#define RF_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#define RF_ADMISSION_STATE	256 /* bytes of a policy's own, zeroed and 64-aligned */

typedef struct RfAdmissionPolicy
{
	const char *name;

	/* Before any other call. `window` is rdma_fdw.admission_window in bytes. */
	void		(*start) (void *state, uint64_t window);

	/* The bytes that may be sent now, while `in_flight` bytes are unacknowledged; 0 = none. */
	uint64_t	(*room) (void *state, uint64_t in_flight);

	/*
	 * A completion covered `bytes`, the last of which were posted `us` microseconds ago. May be
	 * NULL.
	 */
	void		(*completed) (void *state, uint64_t bytes, uint32_t us);
} RfAdmissionPolicy;

extern __attribute__((visibility("default")))
const RfAdmissionPolicy *rf_admission_hook;

/* Never more than `window` bytes. The default. */
extern const RfAdmissionPolicy rf_admission_window_policy;

/*
 * A limit that follows the delay of completions, after TIMELY (Mittal et al., SIGCOMM 2015), at
 * most `window`. Smoothed differences of successive delays give a gradient. Below RF_DELAY_LOW_US
 * the limit grows by RF_DELAY_STEP per window's worth of completions, above RF_DELAY_HIGH_US it
 * shrinks by up to the factor 1 - RF_DELAY_BETA; between them it grows while the gradient is not
 * positive (five times as fast after five such steps), else shrinks by BETA times the gradient. The
 * thresholds are of delays that include the payload's own transfer.
 */
extern const RfAdmissionPolicy rf_admission_delay_policy;

#define RF_DELAY_LOW_US		500
#define RF_DELAY_HIGH_US	5000
#define RF_DELAY_STEP		(128u << 10)
#define RF_DELAY_MIN		(128u << 10)	/* the limit is never less */
#define RF_DELAY_BETA		0.5
#define RF_DELAY_ALPHA		0.125	/* weight of a new difference */

#endif
