/*
 * admit.h - the engine's accounting of bytes in flight: the admission window (RDMAbox, section
 * IV-A). Plain C.
 *
 * Payload is written only while fewer bytes than the window are in flight. Other payload waits in
 * the merge queues of the lanes, where requests can still merge. The accounting is for all lanes of
 * the device together. Messages without payload never wait, and one work request is always allowed
 * when nothing is in flight, so no window can stop a stream.
 */
#ifndef RF_ADMIT_H
#define RF_ADMIT_H

#include "shmem/layout.h"

/*
 * Bytes that this lane, which has `own` in flight, may send now; UINT64_MAX without a window (0).
 */
extern uint64_t rf_admission_room(uint64_t window, RfAdmissionStats *stats, uint32_t lane,
								  uint64_t own);

/*
 * Takes them; returns false if there is no room, or other lanes have precedence. Not without a
 * window.
 */
extern bool rf_admission_take(uint64_t window, RfAdmissionStats *stats, uint32_t lane, uint64_t own,
							  uint32_t bytes);

/*
 * No room: a lane that returns bytes wakes this lane, until it stops waiting. Both return the lanes
 * to wake, a bit each.
 */
extern void rf_admission_wait(RfAdmissionStats *stats, uint32_t lane);
extern uint32_t rf_admission_stop_waiting(RfAdmissionStats *stats, uint32_t lane);

/* `bytes` are not in flight any more. Returns the lanes to wake. */
extern uint32_t rf_admission_give(RfAdmissionStats *stats, uint64_t bytes);

#endif
