/*
 * slots.c - one backend's operations on the slots of its flow: fill, submit, read, check, release.
 *
 * Plain C, shared by the backend API (flow.c) and the unit tests. It never sleeps, never rings and
 * never raises: the caller does. The lane's transitions of the same status words are in
 * src/engine/lane_flow.c.
 */
#include <string.h>

#include "layout.h"
#include "slots.h"


static uint8_t *
slot_address(const RfFlow *flow, uint64_t slot)
{
	if (flow->pool != NULL)
		return rf_receive_buffer(flow->pool,
								 atomic_load_explicit(&flow->place[slot % flow->slot_count],
													  memory_order_relaxed));
	return flow->memory.buffers + (size_t) (slot % flow->slot_count) * flow->slot_size;
}

void
rf_slots_reset(RfFlow *flow)
{
	RfFlowStats *stats = &flow->stats;
	_Atomic uint64_t *counters[] = {
		&stats->rows, &stats->bytes, &stats->slots,
		&stats->waits, &stats->wait_us, &stats->work_requests,
		&stats->merged, &stats->chained, &stats->credit_stalls,
		&stats->credits_sent, &stats->probes, &stats->claims,
		&stats->claims_lost, &stats->region_copies, &stats->region_gathers,
		&stats->region_strided, &stats->region_boxes, &stats->useful_bytes,
		&stats->gap_bytes, &stats->uncopied_bytes, &flow->handed,
	&flow->completed, &flow->credit};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		atomic_store_explicit(counters[i], 0, memory_order_relaxed);
	for (int i = 0; i < RF_MAX_SLOTS; i++)
		atomic_store_explicit(&flow->status[i], RF_SLOT_FREE, memory_order_relaxed);
	atomic_store_explicit(&flow->stop, RF_STOP_NONE, memory_order_relaxed);
	atomic_store_explicit(&flow->leaving, 0, memory_order_relaxed);
	atomic_store_explicit(&flow->abandoned, 0, memory_order_relaxed);
	atomic_store_explicit(&flow->remote_end, 0, memory_order_relaxed);
	atomic_store_explicit(&flow->waiting, RF_WAIT_NONE, memory_order_relaxed);
	atomic_store_explicit(&flow->value.state, RF_VALUE_NONE, memory_order_relaxed);
	flow->value.memory = NULL;
	flow->value_of = 0;
	/* `queued` stays: an old doorbell may still lie in a ring. */
	flow->memory.buffers = NULL;
	flow->memory.lkey = 0;
	flow->memory.lane = 0;
	flow->memory.remote_addr = 0;
	flow->memory.remote_rkey = 0;
	flow->pool = NULL;
	flow->memory.pool_buffers = flow->memory.pool_claimable = 0;
	flow->memory.wants_pages = flow->memory.has_pages = false;
}

void
rf_slots_opened(RfFlow *flow, const RfControlOpened *opened)
{
	flow->slot_count = flow->window = opened->slot_count;
	flow->slot_size = opened->slot_size;
	flow->memory.remote_addr = opened->remote_addr;
	flow->memory.remote_rkey = opened->rkey;
	flow->memory.pool_buffers = opened->pool_buffers;
	flow->memory.pool_claimable = opened->pool_claimable;
}

uint8_t *
rf_slot_fill(RfFlow *flow, RfSlotCursor *cursor)
{
	_Atomic uint32_t *status = &flow->status[cursor->next % flow->slot_count];
	uint32_t	now = atomic_load(status);

	if (now == RF_SLOT_FREE)
		atomic_store_explicit(status, RF_SLOT_FILLING, memory_order_relaxed);
	else if (now != RF_SLOT_FILLING)
		return NULL;
	return slot_address(flow, cursor->next);
}

/*
 * Fills the header of the cursor's next slot and hands it over with this status. Returns true if
 * the lane has something to do, so that a doorbell is worth it.
 */
static bool
submit(RfFlow *flow, RfSlotCursor *cursor, RfSlotStatus status, uint32_t length, uint32_t flags,
	   uint64_t rows)
{
	RfSlotHeader *header = (RfSlotHeader *) slot_address(flow, cursor->next);
	uint64_t	slot = cursor->next++;

	memset(header, 0, sizeof(*header));
	header->magic = RF_SLOT_MAGIC;
	header->flags = flags;
	header->key = flow->key;
	header->sequence = slot;
	header->length = length;
	header->offset = (flags & RF_SLOT_FIRST) != 0 ? 0 : (uint32_t) cursor->offset;
	cursor->offset = (flags & (RF_SLOT_LAST | RF_SLOT_END)) != 0 ? 0 : header->offset + length;
	header->checksum = (flags & RF_SLOT_LAST) != 0 ? cursor->checksum : 0;
	if (flags & RF_SLOT_END)
	{
		header->rows = cursor->rows;
		header->bytes = cursor->bytes;
		cursor->ended = true;
	}
	else
	{
		header->rows = rows;
		cursor->rows += rows;
		cursor->bytes += length;
	}
	atomic_store_explicit(&flow->status[slot % flow->slot_count], status, memory_order_release);
	atomic_store(&flow->handed, cursor->next);

	/* Without credit the lane can do nothing; it checks the flow after every credit that comes. */
	return slot < atomic_load(&flow->credit) + flow->window;
}

bool
rf_slot_submit(RfFlow *flow, RfSlotCursor *cursor, uint32_t length, uint32_t flags, uint64_t rows)
{
	return submit(flow, cursor, RF_SLOT_READY, length, flags, rows);
}

bool
rf_slot_place(RfFlow *flow, RfSlotCursor *cursor, const uint8_t *payload, uint32_t length,
			  uint32_t flags, uint64_t rows)
{
	RfPlaced   *placed = &flow->placed[cursor->next % flow->slot_count];

	placed->offset = (uint32_t) (payload - flow->value.memory);
	placed->length = length;
	cursor->value.until[cursor->value.half] = cursor->next + 1;
	return submit(flow, cursor, RF_SLOT_PLACED, length, flags, rows);
}

void
rf_slot_gather(RfFlow *flow, RfFlowParts *to, const RfSlotCursor *cursor, const RfPart *parts,
			   int count)
{
	uint32_t	place = (uint32_t) (cursor->next % flow->slot_count);

	memcpy(to->slots[place], parts, (size_t) count * sizeof(RfPart));
	flow->part_count[place] = (uint8_t) count;
}

bool
rf_slot_submit_gathered(RfFlow *flow, RfSlotCursor *cursor, uint32_t length, uint32_t flags,
						uint64_t rows)
{
	return submit(flow, cursor, RF_SLOT_GATHERED, length, flags, rows);
}

uint64_t
rf_slots_withdraw(RfFlow *flow, const RfSlotCursor *cursor, uint64_t first)
{
	uint64_t	completed = atomic_load(&flow->completed);
	uint64_t	end = first < completed ? completed : first;

	/*
	 * The lane takes slots in order. From the oldest on: if we get a slot, the lane takes no slot
	 * from there on; a slot that we do not get is being sent, or was sent.
	 */
	for (uint64_t slot = end; slot < cursor->next; slot++)
	{
		uint32_t	status = RF_SLOT_GATHERED;

		if (atomic_compare_exchange_strong(&flow->status[slot % flow->slot_count], &status,
										   RF_SLOT_FILLING) ||
			status == RF_SLOT_FILLING)
			return end;
		/* A slot without pages may be sent or not; it matters only for later slots. */
		if (status != RF_SLOT_READY && status != RF_SLOT_PLACED)
			end = slot + 1;
	}
	return end;
}

bool
rf_slot_acked(RfFlow *flow)
{
	return atomic_load(&flow->credit) == atomic_load_explicit(&flow->handed, memory_order_relaxed);
}

/*
 * Checks that the header is valid for the next slot of this flow. If not, sets *error and returns
 * false.
 */
static bool
check_header(const RfFlow *flow, const RfSlotCursor *cursor, const RfSlotHeader *header,
			 RfError *error)
{
	const char *what = NULL;
	uint32_t	flags = header->flags;

	if (header->magic != RF_SLOT_MAGIC)
		what = "It does not begin with a slot header.";
	else if (header->key != flow->key)
		what = "Its key is another flow's.";
	else if (header->sequence != cursor->next)
		what = "It is out of sequence.";
	else if (header->length > flow->slot_size - sizeof(RfSlotHeader))
		what = "Its length is larger than the buffer.";
	else if (flags & ~(uint32_t) (RF_SLOT_FIRST | RF_SLOT_LAST | RF_SLOT_END))
		what = "It has unknown flags.";
	else if (flags & RF_SLOT_END)
	{
		if (flags != RF_SLOT_END || header->length != 0 || cursor->in_batch)
			what = "The stream ends within a batch.";
		else if (header->rows != cursor->rows || header->bytes != cursor->bytes)
			return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
							"rows were lost on the way: the data node sent %llu rows in %llu "
							"bytes, %llu rows in %llu bytes came",
							(unsigned long long) header->rows, (unsigned long long) header->bytes,
							(unsigned long long) cursor->rows, (unsigned long long) cursor->bytes);
	}
	else if (((flags & RF_SLOT_FIRST) != 0) == cursor->in_batch || header->offset != cursor->offset)
		what = "The parts of a batch do not fit together.";

	if (what == NULL)
		return true;
	return rf_error(error, RF_ERROR_PROTOCOL, what, NULL, "a receive buffer holds invalid data");
}

static void
release_one(RfFlow *flow, RfSlotCursor *cursor)
{
	uint32_t	slot = (uint32_t) (cursor->released % flow->slot_count);
	uint32_t	place = atomic_load_explicit(&flow->place[slot], memory_order_relaxed);

	atomic_store_explicit(&flow->status[slot], RF_SLOT_FREE, memory_order_release);
	cursor->released++;
	atomic_store(&flow->handed, cursor->released);
	/* A buffer of a pool may go to another producer at once; credit for the slot is sent later. */
	if (flow->pool != NULL)
		rf_receive_release(flow->pool, place);
}

RfSlotRead
rf_slot_read(RfFlow *flow, RfSlotCursor *cursor, RfSlotHeader *header, uint8_t **payload,
			 RfError *error)
{
	_Atomic uint32_t *status;
	uint8_t    *slot;

	if (cursor->ended)
		return RF_READ_END;

	/* All buffers are held by the caller: the next one is FULL only after a release. */
	if (cursor->next - cursor->released == flow->slot_count)
		return RF_READ_NOTHING;
	status = &flow->status[cursor->next % flow->slot_count];
	if (atomic_load(status) != RF_SLOT_FULL)
		return RF_READ_NOTHING;

	/* Copy first: a peer that violates the protocol may write during the check. */
	slot = slot_address(flow, cursor->next);
	memcpy(header, slot, sizeof(*header));
	if (!check_header(flow, cursor, header, error))
		return RF_READ_BAD;

	atomic_store_explicit(status, RF_SLOT_READING, memory_order_relaxed);
	*payload = slot + sizeof(RfSlotHeader);
	cursor->next++;
	if (header->flags & RF_SLOT_END)
	{
		/*
		 * The caller never gets the END slot: it is released at once, or with the buffer before
		 * it.
		 */
		cursor->ended = true;
		if (cursor->released + 1 == cursor->next)
			release_one(flow, cursor);
		return RF_READ_END;
	}
	cursor->rows += header->rows;
	cursor->bytes += header->length;
	cursor->in_batch = (header->flags & RF_SLOT_LAST) == 0;
	cursor->offset = cursor->in_batch ? cursor->offset + header->length : 0;
	return RF_READ_DATA;
}

bool
rf_slot_release(RfFlow *flow, RfSlotCursor *cursor)
{
	uint32_t	count = flow->slot_count;
	uint64_t	threshold = count >= 8 ? count / 4 : (count + 1) / 2;

	release_one(flow, cursor);
	if (cursor->ended && cursor->released + 1 == cursor->next)
		release_one(flow, cursor);

	/*
	 * At most threshold - 1 releases are kept back: a producer that waits for half of its slots
	 * gets them, and the end of the stream is acknowledged at once.
	 */
	if (cursor->released - cursor->rung < threshold && !cursor->ended)
		return false;
	cursor->rung = cursor->released;
	return true;
}

bool
rf_slots_ready(RfFlow *flow, const RfSlotCursor *cursor, RfFlowWaiting waiting)
{
	uint32_t	state = atomic_load(&flow->state);

	if (state != RF_FLOW_OPEN)
		return state == RF_FLOW_FAILED || (waiting == RF_WAIT_OPEN && state != RF_FLOW_OPENING);
	switch (waiting)
	{
		case RF_WAIT_SLOTS:
			return atomic_load(&flow->stop) != 0 ||
				atomic_load(&flow->status[cursor->next % flow->slot_count]) <= RF_SLOT_FILLING;
		case RF_WAIT_ACK:
			return atomic_load(&flow->stop) != 0 || rf_slot_acked(flow);
		case RF_WAIT_OPEN:
			return true;
		case RF_WAIT_CREDIT:
			return atomic_load(&flow->stop) != 0 || atomic_load(&flow->leaving) != 0 ||
				(cursor->next < atomic_load(&flow->credit) + flow->window &&
				 atomic_load(&flow->status[cursor->next % flow->slot_count]) <= RF_SLOT_FILLING);
		case RF_WAIT_LANDED:
			return atomic_load(&flow->stop) != 0 || atomic_load(&flow->remote_end) != 0 ||
				atomic_load(&flow->completed) == cursor->next;
		case RF_WAIT_VALUE:
			return atomic_load(&flow->stop) != 0 ||
				(atomic_load(&flow->value.state) != RF_VALUE_WANTED &&
				 atomic_load(&flow->completed) >= cursor->value.wait);
		default:
			if (atomic_load(&flow->remote_end) != 0 && !cursor->remote_end_noticed)
				return true;
			return cursor->next - cursor->released < flow->slot_count &&
				atomic_load(&flow->status[cursor->next % flow->slot_count]) == RF_SLOT_FULL;
	}
}
