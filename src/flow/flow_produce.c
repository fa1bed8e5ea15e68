/*
 * flow_produce.c - the producing end of a flow: open it, fill its slots, end it, and keep the pages
 * that leave from where they lie until they have left.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "port/pg_crc32c.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/guc.h"
#include "shmem/value.h"

#include "flow_int.h"

/* A backend with a smaller share of the buffers copies pages. */
#define MIN_PINS			4

static uint32 wait_open = 0;
static uint32 wait_send = 0;
static uint32 wait_value = 0;

/* ---------- pages that are sent from where they lie ---------- */

int
rf_flow_takes_pages(RfFlowHandle *handle, int pin_limit)
{
	int			entries = Min(rf_shared->device.max_sge, RF_MAX_SGE);

	pin_limit = Min(pin_limit, rf_pins_share());
	if (!handle->flow->memory.has_pages || pin_limit < MIN_PINS || entries < 2)
		return 0;
	if (handle->pins == NULL)
		handle->pins = rf_pins_create(pin_limit);
	return entries;
}

bool
rf_flow_await_credit(RfFlowHandle *handle)
{
	RfFlow	   *flow = handle->flow;

	while (rf_flow_credit(handle) == 0 && atomic_load(&flow->leaving) == 0)
	{
		rf_flow_raise_if_failed(handle);
		if (atomic_load(&flow->stop) != RF_STOP_NONE)
			return false;
		rf_flow_sleep(handle, RF_WAIT_CREDIT, named_wait_event(&wait_send, "RdmaFlowSend"));
	}
	return true;
}

bool
rf_flow_pin(RfFlowHandle *handle, int buffer)
{
	rf_pins_release(handle->pins, atomic_load(&handle->flow->completed));
	return rf_pins_add(handle->pins, buffer, handle->cursor.next);
}

bool
rf_flow_is_pinning(RfFlowHandle *handle)
{
	return rf_pins_half(handle->pins, handle->cursor.next);
}

/* ---------- producer ---------- */

static RfFlowHandle *
open_begin(int peer, uint32_t consumer_flow, uint64_t key, bool fewer_slots, bool pages)
{
	RfFlowHandle *handle = rf_flow_claim(peer, RF_FLOW_PRODUCER);

	handle->flow->key = key;
	handle->flow->remote_flow = consumer_flow;
	handle->flow->memory.fewer_slots = fewer_slots;
	handle->flow->memory.wants_pages = pages;
	atomic_store(&handle->flow->state, RF_FLOW_OPENING);
	rf_engine_wake_main();
	return handle;
}

RfFlowHandle *
rf_flow_open_begin(int peer, uint32_t consumer_flow, uint64_t key)
{
	return open_begin(peer, consumer_flow, key, false, false);
}

bool
rf_flow_opened(RfFlowHandle *handle)
{
	rf_flow_raise_if_failed(handle);
	return atomic_load(&handle->flow->state) != RF_FLOW_OPENING;
}

static RfFlowHandle *
open_and_wait(RfFlowHandle *handle)
{
	for (;;)
	{
		if (atomic_load(&handle->flow->state) == RF_FLOW_FAILED &&
			rf_flow_error(rf_shared, handle->flow)->kind == RF_ERROR_GONE)
		{
			rf_flow_close_as(handle, true);
			return NULL;
		}
		if (rf_flow_opened(handle))
			return handle;
		rf_flow_sleep(handle, RF_WAIT_OPEN, named_wait_event(&wait_open, "RdmaFlowOpen"));
	}
}

RfFlowHandle *
rf_flow_open(int peer, uint32_t consumer_flow, uint64_t key)
{
	return open_and_wait(open_begin(peer, consumer_flow, key, true, false));
}

RfFlowHandle *
rf_flow_open_pages(int peer, uint32_t consumer_flow, uint64_t key)
{
	return open_and_wait(open_begin(peer, consumer_flow, key, true, true));
}

RfAcquire
rf_flow_try_acquire(RfFlowHandle *handle, RfBuffer *buffer)
{
	RfFlow	   *flow = handle->flow;
	uint8_t    *slot;

	rf_flow_raise_if_failed(handle);
	if (atomic_load(&flow->stop) != RF_STOP_NONE)
		return RF_ACQUIRE_STOPPED;
	if (unlikely(!handle->attached))
		rf_flow_attach(handle);
	slot = rf_slot_fill(flow, &handle->cursor);
	if (slot == NULL)
		return RF_ACQUIRE_FULL;
	buffer->data = slot + sizeof(RfSlotHeader);
	buffer->length = flow->slot_size - (uint32) sizeof(RfSlotHeader);
	buffer->flags = 0;
	buffer->sequence = handle->cursor.next;
	return RF_ACQUIRED;
}

bool
rf_flow_acquire(RfFlowHandle *handle, RfBuffer *buffer)
{
	RfAcquire	result;

	while ((result = rf_flow_try_acquire(handle, buffer)) == RF_ACQUIRE_FULL)
		rf_flow_sleep(handle, RF_WAIT_SLOTS, named_wait_event(&wait_send, "RdmaFlowSend"));
	return result == RF_ACQUIRED;
}

static void
check_submit(RfFlowHandle *handle, const RfBuffer *buffer, uint32_t length)
{
	if (buffer->sequence != handle->cursor.next || length > buffer->length)
		elog(ERROR, "a send buffer was submitted out of order or is too long");
}

static void
count_slot(RfFlowHandle *handle, uint32_t length, uint64_t rows)
{
	RfFlowStats *stats = &handle->flow->stats;

	count(&stats->slots, 1);
	count(&stats->bytes, length);
	count(&stats->rows, rows);
}

/*
 * The payload of the slot that is submitted next: its batch's checksum goes on. NULL: it cannot be
 * had, and the batch is sent without one.
 */
static inline void
add_to_checksum(RfFlowHandle *handle, const void *payload, uint32_t length, uint32_t flags)
{
#ifdef USE_ASSERT_CHECKING
	RfSlotCursor *cursor = &handle->cursor;

	if (payload == NULL)
	{
		cursor->checksum = 0;
		return;
	}
	if (flags & RF_SLOT_FIRST)
		INIT_CRC32C(cursor->checksum);
	COMP_CRC32C(cursor->checksum, payload, length);
	if (flags & RF_SLOT_LAST)
		FIN_CRC32C(cursor->checksum);
#endif
}

static void
submitted(RfFlowHandle *handle, bool wanted, uint32_t length, uint64_t rows)
{
	if (wanted)
		ring(handle);
	count_slot(handle, length, rows);
}

void
rf_flow_submit(RfFlowHandle *handle, const RfBuffer *buffer, uint32_t length, uint32_t flags,
			   uint64_t rows)
{
	check_submit(handle, buffer, length);
	add_to_checksum(handle, buffer->data, length, flags);
	submitted(handle, rf_slot_submit(handle->flow, &handle->cursor, length, flags, rows), length,
			  rows);
}

void
rf_flow_submit_parts(RfFlowHandle *handle, const RfBuffer *buffer, const RfPart *parts,
					 int part_count, uint32_t length, uint32_t flags, uint64_t rows)
{
	check_submit(handle, buffer, length);
	add_to_checksum(handle, NULL, length, flags);
	rf_slot_gather(handle->flow, rf_flow_parts(rf_shared, handle->flow), &handle->cursor, parts,
				   part_count);
	submitted(handle, rf_slot_submit_gathered(handle->flow, &handle->cursor, length, flags, rows),
			  length, rows);
}

void
rf_flow_submit_all(const RfFlowSubmit *submits, int submit_count)
{
	uint32		lanes = 0;

	/* Nothing raises once the first is handed over: a lane that was not woken would sleep on. */
	for (int i = 0; i < submit_count; i++)
		check_submit(submits[i].flow, submits[i].buffer, submits[i].length);
	for (int i = 0; i < submit_count; i++)
	{
		const RfFlowSubmit *submit = &submits[i];
		RfFlow	   *flow = submit->flow->flow;
		uint32		lane = flow->memory.lane % RF_MAX_LANES;

		add_to_checksum(submit->flow,
						submit->placed != NULL ? submit->placed : submit->buffer->data,
						submit->length, submit->flags);
		if (submit->placed != NULL ?
			rf_slot_place(flow, &submit->flow->cursor, submit->placed, submit->length,
						  submit->flags, submit->rows) :
			rf_slot_submit(flow, &submit->flow->cursor, submit->length, submit->flags,
						   submit->rows))
		{
			rf_lane_queue(&rf_shared->lanes[lane], rf_shared->flows, submit->flow->index);
			lanes |= 1u << lane;
		}
		count_slot(submit->flow, submit->length, submit->rows);
	}
	for (; lanes != 0; lanes &= lanes - 1)
		rf_lane_wake(&rf_shared->lanes[pg_rightmost_one_pos32(lanes)]);
}

void
rf_flow_submit_from(RfFlowHandle *handle, const RfBuffer *buffer, const uint8_t *part, bool placed,
					uint32_t length, uint32_t flags, uint64_t rows)
{
	if (!placed)
	{
		memcpy(buffer->data, part, Min(length, buffer->length));
		rf_flow_submit(handle, buffer, length, flags, rows);
		return;
	}
	check_submit(handle, buffer, length);
	add_to_checksum(handle, part, length, flags);
	submitted(handle, rf_slot_place(handle->flow, &handle->cursor, part, length, flags, rows),
			  length, rows);
}

uint8_t *
rf_flow_place(RfFlowHandle *handle, uint64_t bytes)
{
	uint8_t    *place = NULL;

	for (;;)
	{
		rf_flow_raise_if_failed(handle);
		switch (rf_value_place(rf_shared, handle->flow, &handle->cursor, rf_value_mode(),
							   bytes, &place))
		{
			case RF_VALUE_COPY:
				return NULL;
			case RF_VALUE_IN_PLACE:
				return place;
			case RF_VALUE_ASKED:
				rf_engine_wake_main();
				break;
			case RF_VALUE_WAIT:
				break;
		}
		rf_flow_sleep(handle, RF_WAIT_VALUE, named_wait_event(&wait_value, "RdmaFlowValue"));
	}
}

void
rf_flow_finish_begin(RfFlowHandle *handle)
{
	if (rf_slot_submit(handle->flow, &handle->cursor, 0, RF_SLOT_END, 0))
		ring(handle);
}

RfAcquire
rf_flow_finished(RfFlowHandle *handle)
{
	if (rf_slot_acked(handle->flow))
	{
		handle->acked = true;
		return RF_ACQUIRED;
	}
	rf_flow_raise_if_failed(handle);
	return atomic_load(&handle->flow->stop) != RF_STOP_NONE ? RF_ACQUIRE_STOPPED : RF_ACQUIRE_FULL;
}

bool
rf_flow_finish(RfFlowHandle *handle)
{
	RfBuffer	buffer;
	RfAcquire	result;

	if (!rf_flow_acquire(handle, &buffer))
		return false;
	rf_flow_finish_begin(handle);
	while ((result = rf_flow_finished(handle)) == RF_ACQUIRE_FULL)
		rf_flow_sleep(handle, RF_WAIT_ACK, named_wait_event(&wait_send, "RdmaFlowSend"));
	return result == RF_ACQUIRED;
}

bool
rf_flow_landed(RfFlowHandle *handle)
{
	rf_flow_raise_if_failed(handle);
	return atomic_load(&handle->flow->completed) == handle->cursor.next;
}

uint32_t
rf_flow_credit(RfFlowHandle *handle)
{
	uint64		limit = atomic_load(&handle->flow->credit) + handle->flow->window;

	return limit > handle->cursor.next ? (uint32_t) (limit - handle->cursor.next) : 0;
}

RfStopReason
rf_flow_stop_reason(RfFlowHandle *handle)
{
	return atomic_load(&handle->flow->stop);
}
