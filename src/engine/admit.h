/*
 * admit.h - the engine's accounting of bytes in flight, by an admission policy (admission.h). Plain
 * C.
 */
#ifndef RF_ADMIT_H
#define RF_ADMIT_H

#include "rdma_fdw/admission.h"
#include "shmem/layout.h"

/* A policy in use. Shared by the lanes of one engine; the last one that releases it frees it. */
typedef struct RfAdmission
{
	_Alignas(64) unsigned char state[RF_ADMISSION_STATE];
	const RfAdmissionPolicy *policy;
	uint64_t	window;
	_Atomic uint32_t users;
} RfAdmission;

/* NULL: out of memory; treated as no policy. */
extern RfAdmission *rf_admission_new(const RfAdmissionPolicy *policy, uint64_t window);
extern RfAdmission *rf_admission_use(RfAdmission *admission);	/* accepts NULL, too */
extern void rf_admission_unuse(RfAdmission *admission);

/* Bytes that this lane, which has `own` in flight, may send now; UINT64_MAX without a policy. */
extern uint64_t rf_admission_room(RfAdmission *admission, RfAdmissionStats *stats, uint32_t lane,
								  uint64_t own);

/* Takes them; false: there is no room, or others have precedence. */
extern bool rf_admission_take(RfAdmission *admission, RfAdmissionStats *stats, uint32_t lane,
							  uint64_t own, uint32_t bytes);

/*
 * No room: a lane that returns bytes wakes this lane, until it stops waiting. Both return the lanes
 * to wake, a bit each.
 */
extern void rf_admission_wait(RfAdmissionStats *stats, uint32_t lane);
extern uint32_t rf_admission_stop_waiting(RfAdmissionStats *stats, uint32_t lane);

/*
 * `bytes` are not in flight any more. Returns the lanes to wake. `us` since the last of them were
 * posted; 0 = they were lost with their connection, and the policy learns nothing.
 */
extern uint32_t rf_admission_give(RfAdmission *admission, RfAdmissionStats *stats, uint64_t bytes,
								  uint32_t us);

#endif
