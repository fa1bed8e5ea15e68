/*
 * stream_set.c - streams of one statement that runs on several nodes: waiting for any of them, and
 * which of their errors is the one that made the others.
 *
 * It moves no batches; that is stream.c's business.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "session.h"

/* How often a sleeper looks whether the engine is still there. */
#define SET_CHECK_MS	1000
/* How long one that lost its connection waits for another one's reason. */
#define BLAME_MS		1000

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
	set = MemoryContextAllocZero(TopMemoryContext, sizeof(RfStreamSet) + count * sizeof(RfStream *));
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

static bool
is_awaited(const RfStream *member)
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
		running += is_awaited(set->members[i]);
	if (set->waits != NULL && running == set->waiting_for)
		return;
	forget_waits(set);
#if PG_VERSION_NUM >= 170000
	set->waits = CreateWaitEventSet(NULL, running + 2);
#else
	set->waits = CreateWaitEventSet(TopMemoryContext, running + 2);
#endif
	set->waiting_for = running;
	AddWaitEventToSet(set->waits, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set->waits, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < set->count; i++)
	{
		if (is_awaited(set->members[i]))
			AddWaitEventToSet(set->waits, WL_SOCKET_READABLE, PQsocket(set->members[i]->session->conn), NULL,
							  set->members[i]->session);
	}
}

/*
 * What was tried and had nothing has asked its lane to set the latch (rf_flow_prepare_wait), so
 * nothing that came since is missed.
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
	count = WaitEventSetWait(set->waits, capped ? SET_CHECK_MS : timeout_ms, &event, 1, set_wait_event());
	if (count > 0 && (event.events & WL_LATCH_SET))
		ResetLatch(MyLatch);
	/* an answer may be one that nobody looks at now; it must not wake us again */
	if (count > 0 && (event.events & WL_SOCKET_READABLE) &&
		!PQconsumeInput(((RfSession *) event.user_data)->conn))
		rf_session_lost(event.user_data);
	stream->stats.waits++;
	stream->stats.wait_us += GetCurrentTimestamp() - since;
	CHECK_FOR_INTERRUPTS();
	return count > 0 || capped;
}

/* ---------- who is to blame ---------- */

static bool
has_class(const PGresult *result, const char *class)
{
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;

	return state != NULL && strncmp(state, class, 2) == 0;
}

/*
 * The stream's statement has failed (stream->result). When it lost the connection to another node,
 * that node's own error is the one to show, if it comes soon. Returns whose it is.
 */
static RfStream *
find_culprit(RfStream *stream)
{
	RfStreamSet *set = stream->set;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), BLAME_MS);

	while (has_class(stream->result, "08"))
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
		bool		running = false;

		for (int i = 0; i < set->count; i++)
		{
			RfStream   *other = set->members[i];

			if (other == NULL || other == stream)
				continue;
			if (is_awaited(other))
			{
				if (!PQconsumeInput(other->session->conn))
					rf_session_lost(other->session);
				if (!rf_stream_collect(other))
				{
					running = true;
					continue;
				}
				other = set->members[i];	/* one that nobody reads may be gone */
			}
			if (other != NULL && other->result != NULL && PQresultStatus(other->result) != PGRES_TUPLES_OK &&
				!has_class(other->result, "08"))
				return other;
		}
		if (!running || left <= 0)
			break;
		(void) rf_stream_set_wait(stream, left);
	}
	return stream;
}

/* Is that for lack of buffers, and nobody knows yet? */
bool
rf_stream_set_lacks_buffers(RfStream *stream)
{
	return stream->set->may_retry && has_class(find_culprit(stream)->result, "53");
}

void
rf_stream_set_blame(RfStream *stream)
{
	RfStream   *culprit = find_culprit(stream);
	ErrorContextCallback callback = {error_context_stack, rf_stream_error_context, culprit};
	PGresult   *result = culprit->result;

	error_context_stack = &callback;
	culprit->result = NULL;
	rf_session_raise(culprit->session, result, culprit->sql);
}
