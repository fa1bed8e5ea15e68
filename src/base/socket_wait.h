/*
 * socket_wait.h - waits for a socket and the process latch, many times.
 *
 * WaitLatchOrSocket makes a set of wait events and frees it, which are five system calls, each
 * time. A caller that waits again and again for the same socket keeps one of these beside it, in
 * zeroed memory; it has no owner, and is let go before the socket is closed: another socket of the
 * same number would not be in the set. A process has 64 sets at most, the waits for further sockets
 * are WaitLatchOrSocket's.
 */
#ifndef RF_SOCKET_WAIT_H
#define RF_SOCKET_WAIT_H

#include "storage/latch.h"

typedef struct RfSocketWait
{
	WaitEventSet *set;			/* latch, postmaster, socket; NULL: no wait yet */
	pgsocket	socket;
	uint32		events;			/* of the socket */
} RfSocketWait;

/*
 * Sleeps until the latch is set, the socket is ready for one of `events` (WL_SOCKET_*), or
 * timeout_ms passed (-1: no limit); exits when the postmaster has died. Returns the WL_* events
 * that happened, the latch not reset. ERROR if there is no file descriptor for it.
 */
extern int	rf_socket_wait(RfSocketWait *wait, pgsocket socket, uint32 events, long timeout_ms,
						   uint32 wait_event);
extern void rf_socket_wait_end(RfSocketWait *wait);

#endif
