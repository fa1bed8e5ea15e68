/*
 * socket_wait.c - see socket_wait.h.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "rdma_fdw/compat.h"
#include "socket_wait.h"

/* Places in the set, in the order in which they are added. */
#define SOCKET_PLACE	2
#define PLACES			3

/* Each has a file descriptor, and core may use a third of the process's descriptors for them. */
#define MOST_SETS		64

static int	set_count = 0;

void
rf_socket_wait_end(RfSocketWait *wait)
{
	if (wait->set == NULL)
		return;
	FreeWaitEventSet(wait->set);
	wait->set = NULL;
	set_count--;
}

int
rf_socket_wait(RfSocketWait *wait, pgsocket socket, uint32 events, long timeout_ms,
			   uint32 wait_event)
{
	WaitEvent	occurred[PLACES];
	int			count;
	int			result = 0;

	if (wait->set != NULL && wait->socket != socket)
		rf_socket_wait_end(wait);
	if (wait->set == NULL && set_count >= MOST_SETS)
		return WaitLatchOrSocket(MyLatch,
								 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | events |
								 (timeout_ms >= 0 ? WL_TIMEOUT : 0),
								 socket, timeout_ms, wait_event);
	if (wait->set == NULL)
	{
		WaitEventSet *set = rf_create_lasting_wait_event_set(PLACES);

		AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
		AddWaitEventToSet(set, events, socket, NULL, NULL);
		*wait = (RfSocketWait)
		{
			set, socket, events
		};
		set_count++;
	}
	else if (wait->events != events)
	{
		ModifyWaitEvent(wait->set, SOCKET_PLACE, events, NULL);
		wait->events = events;
	}
	count = WaitEventSetWait(wait->set, timeout_ms, occurred, PLACES, wait_event);
	if (count == 0)
		return WL_TIMEOUT;
	for (int i = 0; i < count; i++)
		result |= occurred[i].events;
	return result;
}
