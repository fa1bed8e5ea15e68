/*
 * reader.c - one process's part in reading a shared flow (share.h): latches, sleeping, errors.
 *
 * A reader is this process's own memory. It owns nothing in shared memory: a process that ends
 * without a word leaves a member that nobody waits for, unless it ends while it copies, and then it
 * failed and takes the query with it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/proc.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/reader.h"
#include "shmem/ring.h"
#include "shmem/share.h"

#define ENGINE_CHECK_MS		1000

struct RfFlowReader
{
	RfShare    *share;
	uint64		key;
	int			member;
	int			peer;			/* for errors */
	uint32		lane;
	uint32		flow;
	uint32		engine_epoch;
	bool		asked;			/* the last poll found nothing: other readers may rely on us to
								 * look again */
	uint64		waits;
	uint64		wait_us;
};

/* The lock's holder does not go on. */
static void
wait_for_lock(uint32_t waited_ms)
{
	pg_usleep(1000);
	CHECK_FOR_INTERRUPTS();
	if (waited_ms >= (uint32_t) rf_peer_timeout && INTERRUPTS_CAN_BE_PROCESSED())
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("another process of this parallel query does not go on"),
				 errdetail("It has held a lock for %u ms, which takes some instructions.",
						   waited_ms),
				 errhint("It may be stopped (SIGSTOP, a debugger). rdma_fdw.peer_timeout is how "
						 "long it is waited for.")));
}

static void
ring(RfFlowReader *reader)
{
	rf_lane_ring(&rf_shared->lanes[reader->lane % RF_MAX_LANES], rf_shared->flows, reader->flow);
}

RfFlowReader *
rf_reader_join(uint32_t share, uint64_t key, int member)
{
	RfFlowReader *reader;

	rf_share_wait = wait_for_lock;
	if (rf_shares == NULL || share >= rf_shared->max_flows)
		elog(ERROR, "there is no shared flow %u", share);
	if (!rf_share_join(&rf_shares[share], key, member, rf_my_proc_number()))
		return NULL;
	if (!rf_flow_attach_memory(&rf_shared->flows[share]))
		return NULL;
	reader = palloc0(sizeof(RfFlowReader));
	reader->share = &rf_shares[share];
	reader->key = key;
	reader->member = member;
	reader->engine_epoch = atomic_load(&rf_shared->engine_epoch);

	/*
	 * Constant while the flow lives. Should it end now, these are another's: a ring is for nothing
	 * then, and every poll says that it is over.
	 */
	reader->flow = share;
	reader->peer = reader->share->flow->peer;
	reader->lane = reader->share->flow->memory.lane;
	return reader;
}

RfShareTake
rf_reader_poll(RfFlowReader *reader, RfBuffer *buffer)
{
	RfShareSlot slot;
	RfShareTake take = rf_share_take(reader->share, reader->key, reader->member, &slot);

	reader->asked = take == RF_TAKE_NOTHING;
	rf_wake_readers(&slot.wakes);
	if (slot.ring)
		ring(reader);
	if (take == RF_TAKE_BAD)
		rf_raise(&slot.error, reader->peer);
	if (take == RF_TAKE_DATA)
	{
		buffer->data = slot.payload;
		buffer->length = slot.header.length;
		buffer->flags = slot.header.flags;
		buffer->sequence = slot.slot;
		buffer->offset = slot.header.offset;
		buffer->checksum = slot.header.checksum;
	}
	return take;
}

bool
rf_reader_copied(RfFlowReader *reader, const RfBuffer *buffer)
{
	bool		rung;
	bool		valid = rf_share_copied(reader->share, reader->key, buffer->sequence, &rung);

	if (rung)
		ring(reader);
	return valid;
}

void
rf_reader_pass(RfFlowReader *reader)
{
	RfShareWakes wakes;

	if (!reader->asked)
		return;
	reader->asked = false;
	rf_share_pass(reader->share, reader->key, reader->member, &wakes);
	rf_wake_readers(&wakes);
}

void
rf_reader_require_engine(RfFlowReader *reader)
{
	rf_flow_require_engine(reader->engine_epoch);
}

int
rf_reader_wait(RfFlowReader *reader, RfSocketWait *wait, int socket, long timeout_ms)
{
	static uint32 wait_event = 0;
	bool		capped = timeout_ms < 0 || timeout_ms > ENGINE_CHECK_MS;
	long		timeout = capped ? ENGINE_CHECK_MS : timeout_ms;
	int			events;
	instr_time	since;
	instr_time	now;

	if (wait_event == 0)
		wait_event = rf_wait_event_new("RdmaFlowShared");
	INSTR_TIME_SET_CURRENT(since);
	if (wait == NULL)
		events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout,
						   wait_event);
	else
		events = rf_socket_wait(wait, socket, WL_SOCKET_READABLE, timeout, wait_event);
	if (events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	reader->waits++;
	reader->wait_us += INSTR_TIME_GET_MICROSEC(now);
	CHECK_FOR_INTERRUPTS();
	if (events & WL_TIMEOUT)
	{
		rf_flow_require_engine(reader->engine_epoch);
		if (capped)
			events &= ~WL_TIMEOUT;	/* ours, not the caller's */
	}
	return events;
}

void
rf_reader_waits(RfFlowReader *reader, uint64_t *waits, uint64_t *wait_us)
{
	*waits = reader->waits;
	*wait_us = reader->wait_us;
}

void
rf_reader_call_leader(RfFlowReader *reader)
{
	SetLatch(rf_proc_latch(reader->share->procs[0]));
}
