/*
 * stream_set.c - waits for any of the streams of one statement that runs on several nodes.
 *
 * It moves no batches; stream.c does.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "session.h"
#include "waiting.h"

/* How often a sleeping reader checks that the engine still runs. */
#define SET_CHECK_MS	1000

static uint32
set_wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = rf_wait_event_new("RdmaFdwNodes");
	return event;
}

void
rf_stream_tie(RfStream *const *streams, int count, bool may_retry)
{
	RfStreamSet *set;

	if (count == 0)
		return;
	set = MemoryContextAllocZero(TopMemoryContext,
								 sizeof(RfStreamSet) + count * sizeof(RfStream *));
	set->members = (RfStream **) (set + 1);
	set->count = set->left = count;
	set->may_retry = may_retry;
	for (int i = 0; i < count; i++)
	{
		Assert(streams[i]->set == NULL);
		set->members[i] = streams[i];
		streams[i]->set = set;
	}
}

void
rf_stream_set_used(RfStream *stream)
{
	stream->set->may_retry = false;
}

static void
forget_waits(RfStreamSet *set)
{
	if (set->waits)
		FreeWaitEventSet(set->waits);
	set->waits = NULL;
}

void
rf_stream_set_leave(RfStream *stream)
{
	RfStreamSet *set = stream->set;

	forget_waits(set);
	for (int i = 0; i < set->count; i++)
	{
		if (set->members[i] == stream)
			set->members[i] = NULL;
	}
	stream->set = NULL;
	if (--set->left == 0)
		pfree(set);
}

bool
rf_stream_is_awaited(const RfStream *member)
{
	return member != NULL && member->session->running == member && member->session->conn != NULL;
}

/*
 * Sockets only of members that still run: an idle session's would be readable for ever once its
 * server closes it. Members only ever stop running, so their number tells whether it is the same
 * set.
 */
static void
make_waits(RfStreamSet *set)
{
	int			running = 0;

	for (int i = 0; i < set->count; i++)
		running += rf_stream_is_awaited(set->members[i]);
	if (set->waits != NULL && running == set->waiting_for)
		return;
	forget_waits(set);
	set->waits = rf_create_lasting_wait_event_set(running + 2);
	set->waiting_for = running;
	AddWaitEventToSet(set->waits, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set->waits, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < set->count; i++)
	{
		if (rf_stream_is_awaited(set->members[i]))
			AddWaitEventToSet(set->waits, WL_SOCKET_READABLE,
							  PQsocket(set->members[i]->session->conn), NULL,
							  set->members[i]->session);
	}
}

/*
 * Each stream that was polled without result has asked its lane to set the latch
 * (rf_flow_prepare_wait), so no later event is missed.
 */
bool
rf_stream_set_wait(RfStream *stream, long timeout_ms)
{
	RfStreamSet *set = stream->set;
	WaitEvent	event;
	TimestampTz since = GetCurrentTimestamp();
	bool		capped = timeout_ms < 0 || timeout_ms > SET_CHECK_MS;
	int			count;

	make_waits(set);
	rf_waiting_begin();
	count = WaitEventSetWait(set->waits, capped ? SET_CHECK_MS : timeout_ms, &event, 1,
							 set_wait_event());
	if (count > 0 && (event.events & WL_LATCH_SET))
		ResetLatch(MyLatch);
	/* an answer may not be handled now; it must not wake us again */
	if (count > 0 && (event.events & WL_SOCKET_READABLE) &&
		!PQconsumeInput(((RfSession *) event.user_data)->conn))
		rf_session_lost(event.user_data);
	stream->stats.waits++;
	stream->stats.wait_us += GetCurrentTimestamp() - since;
	rf_waiting_check();
	if (count > 0)
		rf_waiting_end();
	CHECK_FOR_INTERRUPTS();
	return count > 0 || capped;
}
