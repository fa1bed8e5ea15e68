/*
 * dest.c - the DestReceiver of a stream: rows into batches, batches to the reader.
 *
 * Rows are first encoded into private memory of the request's inline limit. If all fit, they go
 * back inside the answer; else the flow is opened, that first batch is copied to its slots, and
 * from then on rows are encoded in the slots themselves.
 *
 * A batch that is not full waits for more rows, but not for long: a timer's handler sets a flag
 * every rdma_fdw.flush_time, and the next row sends the rows so far. Rows further apart than that
 * go one by one, rows that come fast meet the flag a few times a second. No clock is read per row.
 * It cannot send while the plan itself is busy or asleep between two rows; only a bare scan
 * (scan.c) looks at the flag also when its filter lets nothing through.
 *
 * Does: own that switch, fragments of rows larger than a slot, the reader's STOP, and the totals.
 * Does not: free the flow on error: its resource owner does, as receivers are not told of errors.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/serve.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/timeout.h"

#include "base/clock.h"
#include "shmem/region_costs.h"

bool		(*rf_stream_acquire) (RfFlowHandle *flow, RfBuffer *buffer) = rf_flow_acquire;

struct RfStreamDest
{
	DestReceiver pub;			/* first */
	const RfStreamRequest *request;
	const RfStreamColumn *columns;
	MemoryContext context;
	RfEncoder  *encoder;
	bool		filling;		/* a batch has been begun */
	RfTupleWriter *tuples;		/* NULL: rows travel as columns only */
	bool		with_tuples;	/* the batch that was begun holds tuples */
	bool		direct;			/* of which some may stay on their pages */
	int			pin_limit;		/* pages that may stay pinned for it */
	int			whole;			/* pages left to take as they are, since one was not best strided */
	int			hold;			/* pages left that go as columns, since one before them had to */
	bool		narrow;			/* encoding a row costs no more than copying it; see
								 * MAX_ENCODE_WEIGHT */
	bool		sparse;			/* and pages have few rows now: they go as columns */
	uint32		density;		/* bytes of rows to send per page, lately; 0: no page yet */
	RfRegionMode only_way;		/* that rdma_fdw.disable leaves to pages; RF_REGION_AUTO: several */
	RfTupleExtent decided;		/* the page for which a way was chosen last, and which */
	RfRegionMode decision;
	bool		decided_direct;
	int			decision_left;	/* pages like it that go the same way, or 0 */
	char	   *private_batch;	/* while nothing has been sent */
	RfFlowHandle *flow;			/* NULL: still private */
	RfBuffer	buffer;			/* slot being filled, with a flow */
	bool		stopped;		/* the reader wants no more */
	bool		waiting;		/* the private batch had rows when the timer went off last */
	uint64		rows;			/* encoded and sent, or in the private batch */
	uint64		batches;
	uint64		bytes;
	uint64		page_rows;
	RfRegionCounts regions;		/* of pages */
	RfRegionCosts costs;		/* of moving them to this reader */
	bool		costs_known;
	bool		by_device;		/* the flow's peer is reached through the RDMA device */
	int64		since;			/* rf_now_us() when the request came */
	uint64		exchange_wait_us;	/* rf_exchange_slept_us before the query */
};

/*
 * A page that has to go as columns is seldom alone, and each change of form sends a batch that is
 * not full. So many pages follow it.
 */
#define HOLD_PAGES			32

/*
 * For a page on which few rows are visible or pass, columns cost the sender no more where rows are
 * cheap to encode, and engines and reader less: there are many times as many rows in a batch. Few
 * is below a quarter of the page, until it is a third again, in the average of the last pages. A
 * row is cheap if it weighs no more than this, a variable-length value as much as four other
 * values: with three rows of four dead, senders of 16 bigint, or of one and three text, took as
 * long either way. Of lineitem, whose 16 columns weigh twice that, pages with one row in ten to
 * send cost their sender 0.8 to 0.95 of columns.
 */
#define SPARSE_PART			4
#define DENSE_PART			3
#define DENSITY_WEIGHT		8
#define MAX_ENCODE_WEIGHT	16
#define VARLENA_WEIGHT		4

uint64		rf_exchange_slept_us = 0;

volatile sig_atomic_t rf_stream_tick = false;
volatile uint32 rf_flush_ticks = 0;
static TimeoutId flush_timer = MAX_TIMEOUTS;

static void
flush_time_over(void)
{
	rf_stream_tick = true;
	rf_flush_ticks++;
}

/*
 * One shot, so that a stream that failed leaves nothing behind but a flag. A query within the query
 * may have stopped the timer: each batch looks.
 */
void
rf_start_flush_timer(void)
{
	if (flush_timer == MAX_TIMEOUTS)
		flush_timer = RegisterTimeout(USER_TIMEOUT, flush_time_over);
	if (rf_flush_time > 0 && !get_timeout_active(flush_timer))
		enable_timeout_after(flush_timer, rf_flush_time);
}

static void leave_private(RfStreamDest *dest);

static void
start(RfStreamDest *dest, TupleDesc desc, const AttrNumber *attmap, int column_count)
{
	MemoryContext caller = MemoryContextSwitchTo(dest->context);

	if (column_count != dest->request->column_count)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the query returns %d columns, but the reader expects %u",
						column_count, dest->request->column_count)));
	dest->encoder = rf_encoder_create(desc, column_count, attmap, dest->columns,
									  dest->request->flags, dest->request->encoding);
	if ((dest->request->flags & RF_STREAM_FLOW) == 0 &&
		dest->request->inline_limit >= sizeof(RfBatchHeader))
		dest->private_batch = palloc_extended(dest->request->inline_limit, MCXT_ALLOC_HUGE);
	MemoryContextSwitchTo(caller);
	if ((dest->request->flags & RF_STREAM_FLOW) != 0)
		leave_private(dest);
	rf_stream_tick = false;
}

bool
rf_stream_dest_wants_pages(const RfStreamDest *dest)
{
	return (dest->request->flags & RF_STREAM_PAGES) != 0;
}

void
rf_stream_dest_offer_pages(RfStreamDest *dest, Relation table, const AttrNumber *attmap,
						   int column_count, int pin_limit)
{
	MemoryContext caller = MemoryContextSwitchTo(dest->context);
	int			weight = 0;

	for (int i = 0; i < column_count; i++)
		weight += TupleDescAttr(RelationGetDescr(table), attmap[i] - 1)->attlen < 0 ?
			VARLENA_WEIGHT :
			1;
	dest->narrow = weight <= MAX_ENCODE_WEIGHT;
	dest->pin_limit = pin_limit;
	dest->tuples = rf_tuples_create(RelationGetDescr(table),
									OidIsValid(table->rd_rel->reltoastrelid), column_count, attmap,
									dest->columns, dest->request->flags, dest->request->encoding);
	MemoryContextSwitchTo(caller);
}

static void
stream_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	start((RfStreamDest *) self, desc, NULL, desc->natts);
}

void
rf_stream_dest_start_raw(RfStreamDest *dest, TupleDesc desc, const AttrNumber *attmap,
						 int column_count)
{
	start(dest, desc, attmap, column_count);
}

/* Send a batch that lies in private memory, in as many fragments as it needs. */
static void
send_copy(RfStreamDest *dest, const char *batch, uint32 length, uint32 rows)
{
	uint32		flags = RF_SLOT_FIRST;

	dest->batches++;
	dest->bytes += length;
	while (length > 0)
	{
		RfBuffer	buffer;
		uint32		part;

		CHECK_FOR_INTERRUPTS();
		if (!rf_stream_acquire(dest->flow, &buffer))
		{
			dest->stopped = true;
			return;
		}
		part = Min(length, buffer.length);
		if (part == length)
			flags |= RF_SLOT_LAST;
		memcpy(buffer.data, batch, part);
		rf_flow_submit(dest->flow, &buffer, part, flags, part == length ? rows : 0);
		batch += part;
		length -= part;
		flags = 0;
	}
}

/* From now on rows go over the flow. */
static void
leave_private(RfStreamDest *dest)
{
	int			peer;
	uint32		rows = dest->filling ? rf_encoder_rows(dest->encoder) : 0;

	if ((dest->request->flags & RF_STREAM_INLINE) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("the rows do not fit an answer of %u bytes", dest->request->inline_limit),
				 errdetail("The reading node's engine could not connect to this node.")));
	rf_engine_require();
	peer = rf_peer_wait(&dest->request->node, true);
	if (peer == RF_NO_PEER)
		ereport(ERROR,
				(errcode(rf_peer_missing_sqlstate(&dest->request->node)),
				 errmsg("the reading node's engine is not connected to this node"),
				 errhint("It connects when the next query begins; run the query again. "
						 "rdma_fdw.connect_timeout is how long it is waited for.")));
	if (rf_stream_dest_wants_pages(dest) && rf_allow_page_shipping)
		dest->flow = rf_flow_open_pages(peer, dest->request->consumer_flow, dest->request->key);
	else
		dest->flow = rf_flow_open(peer, dest->request->consumer_flow, dest->request->key);
	dest->costs_known = rf_region_costs(rf_shared, peer, dest->request->bandwidth, &dest->costs);
	dest->by_device = strcmp(rf_shared->peers[peer].transport, "verbs") == 0;
	if (dest->flow == NULL)
		dest->stopped = true;	/* before the first row went */
	else if (rows > 0)
		send_copy(dest, dest->private_batch, rf_encoder_finish(dest->encoder), rows);
	dest->filling = false;
	if (dest->private_batch != NULL)
		pfree(dest->private_batch);
	dest->private_batch = NULL;
}

static uint32
batch_rows(RfStreamDest *dest)
{
	return dest->with_tuples ? rf_tuples_rows(dest->tuples) : rf_encoder_rows(dest->encoder);
}

/* Hand over a batch of which parts lie on pages; false: it does not. */
static bool
submit_parts(RfStreamDest *dest, uint32 length, uint32 rows)
{
	const RfTuplePart *from;
	int			count = rf_tuples_parts(dest->tuples, &from);
	RfPart		parts[RF_SLOT_PARTS];

	StaticAssertStmt(RF_TUPLE_PARTS <= RF_SLOT_PARTS, "a slot has too few parts for a batch");
	if (count == 0)
		return false;
	for (int i = 0; i < count; i++)
	{
		/* Where it is not on a page there are no bytes of it. */
		uint64		at = from[i].length > 0 ?
			from[i].at - (const char *) rf_shared->page_memory :
			0;

		parts[i] = (RfPart)
		{
			from[i].own, at / BLCKSZ, at % BLCKSZ,
				from[i].length, from[i].element, from[i].stride
		};
	}
	rf_flow_submit_parts(dest->flow, &dest->buffer, parts, count, length,
						 RF_SLOT_FIRST | RF_SLOT_LAST, rows);
	return true;
}

/* Hand the slot's batch over. */
static void
flush_slot(RfStreamDest *dest)
{
	uint32		rows = batch_rows(dest);
	uint32		length = dest->with_tuples ? rf_tuples_finish(dest->tuples) :
		rf_encoder_finish(dest->encoder);

	if (!dest->with_tuples || !submit_parts(dest, length, rows))
		rf_flow_submit(dest->flow, &dest->buffer, length, RF_SLOT_FIRST | RF_SLOT_LAST, rows);
	if (dest->with_tuples)
		rf_flow_show_regions(dest->flow, &dest->regions);
	dest->filling = false;
	dest->with_tuples = false;
	dest->batches++;
	dest->bytes += length;
}

/* Returns true if the device has strided entries, and their cost is known. */
static bool
may_stride(const RfStreamDest *dest)
{
	return dest->by_device && rf_shared->device.max_strided > 0 &&
		(dest->only_way == RF_REGION_STRIDED ||
		 (dest->costs_known && dest->costs.strided[0][0] > 0));
}

/* Begin a batch where rows go now; false: nowhere, the reader has stopped. */
static bool
begin_batch(RfStreamDest *dest)
{
	if (dest->flow == NULL)
	{
		if (dest->private_batch == NULL)
		{
			leave_private(dest);
			return !dest->stopped && begin_batch(dest);
		}
		rf_encoder_begin(dest->encoder, dest->private_batch, dest->request->inline_limit);
	}
	else
	{
		if (!rf_stream_acquire(dest->flow, &dest->buffer))
		{
			dest->stopped = true;
			return false;
		}
		rf_encoder_begin(dest->encoder, dest->buffer.data, dest->buffer.length);
	}
	dest->filling = true;
	rf_start_flush_timer();
	return true;
}

/*
 * The timer went off. Rows in private memory get a second chance to be all of the answer. Also the
 * time to see whether the reader still wants anything; false: it does not.
 */
bool
rf_stream_dest_flush(RfStreamDest *dest)
{
	rf_stream_tick = false;
	if (dest->flow != NULL && atomic_load(&rf_flow_entry(dest->flow)->stop) != 0)
		dest->stopped = true;
	else if (dest->filling && batch_rows(dest) > 0)
	{
		if (dest->flow != NULL)
			flush_slot(dest);
		else if (dest->waiting && (dest->request->flags & RF_STREAM_INLINE) == 0)
			leave_private(dest);
		dest->waiting = true;
	}
	rf_start_flush_timer();
	return !dest->stopped;
}

/*
 * A row that does not fit an empty batch. It travels as a batch of its own, from where it is laid
 * out or by way of the slots; the empty slot stays ours and takes the next rows, so fragments would
 * overtake it: it is given its own row's first fragment instead.
 */
static void
send_large_row(RfStreamDest *dest, TupleTableSlot *slot)
{
	uint32		length;
	uint32		bytes = rf_encoder_measure_large(dest->encoder, slot);
	uint8	   *place = rf_flow_place(dest->flow, bytes);
	const uint8 *batch = rf_encoder_large_row(dest->encoder, slot, place, bytes, &length);
	uint32		part = Min(length, dest->buffer.length);
	uint32		flags = RF_SLOT_FIRST | (part == length ? RF_SLOT_LAST : 0);

	dest->batches++;
	dest->bytes += length;
	dest->filling = false;
	for (;;)
	{
		rf_flow_submit_from(dest->flow, &dest->buffer, batch, place != NULL, part, flags,
							part == length ? 1 : 0);
		batch += part;
		length -= part;
		if (length == 0)
			return;
		CHECK_FOR_INTERRUPTS();
		if (!rf_stream_acquire(dest->flow, &dest->buffer))
		{
			dest->stopped = true;
			return;
		}
		part = Min(length, dest->buffer.length);
		flags = part == length ? RF_SLOT_LAST : 0;
	}
}

/* Rows follow that travel as columns. */
static void
leave_tuples(RfStreamDest *dest)
{
	if (batch_rows(dest) > 0)
	{
		flush_slot(dest);
		return;
	}
	dest->with_tuples = false;
	rf_encoder_begin(dest->encoder, dest->buffer.data, dest->buffer.length);
}

/*
 * Takes one row of the query. Starts, fills and sends batches; returns false when the reader wants
 * no more.
 */
static bool
stream_receive(TupleTableSlot *slot, DestReceiver *self)
{
	RfStreamDest *dest = (RfStreamDest *) self;

	if (unlikely(dest->with_tuples))
		leave_tuples(dest);
	for (;;)
	{
		if (!dest->filling && (dest->stopped || !begin_batch(dest)))
			return false;
		switch (rf_encoder_add(dest->encoder, slot))
		{
			case RF_ENCODE_DONE:
				dest->rows++;
				return likely(!rf_stream_tick) || rf_stream_dest_flush(dest);
			case RF_ENCODE_FULL:
				if (dest->flow == NULL)
					leave_private(dest);
				else
					flush_slot(dest);
				break;
			case RF_ENCODE_TOO_LARGE:
				if (dest->flow == NULL)
					leave_private(dest);
				else
				{
					send_large_row(dest, slot);
					dest->rows++;
					return !dest->stopped;
				}
				break;
		}
	}
}

bool
rf_stream_dest_takes_tuples(RfStreamDest *dest, TupleDesc table)
{
	return rf_encoder_takes_tuples(dest->encoder, table);
}

int
rf_stream_dest_add_tuples(RfStreamDest *dest, const HeapTupleHeader *tuples, int count)
{
	/* The start of a batch, the switch to another and odd rows are the slot's business. */
	if (!dest->filling || dest->with_tuples)
		return 0;
	count = rf_encoder_add_tuples(dest->encoder, tuples, count);
	dest->rows += count;
	if (unlikely(rf_stream_tick))
		(void) rf_stream_dest_flush(dest);
	return count;
}

/*
 * Begin a batch of tuples in the slot that is ours, or in the next one; false: it cannot be, or the
 * reader has stopped, as the next row finds out.
 */
static bool
begin_tuples(RfStreamDest *dest)
{
	int			entries;

	if (dest->filling && batch_rows(dest) > 0)
		flush_slot(dest);
	if (!dest->filling && !rf_stream_acquire(dest->flow, &dest->buffer))
	{
		dest->stopped = true;
		return false;
	}
	entries = dest->only_way == RF_REGION_COPY ? 0 :
		rf_flow_takes_pages(dest->flow, dest->pin_limit);
	if (entries > 0)
	{
		if (!rf_flow_await_credit(dest->flow))
		{
			/* The slot stays ours, with nothing in it. */
			rf_encoder_begin(dest->encoder, dest->buffer.data, dest->buffer.length);
			dest->filling = dest->stopped = true;
			return false;
		}
		if (rf_flow_credit(dest->flow) == 0)
			entries = 0;
	}
	dest->direct = entries > 0;
	dest->with_tuples = rf_tuples_begin(dest->tuples, dest->buffer.data, dest->buffer.length,
										entries);
	if (!dest->with_tuples)
	{
		/* Slots stay as small as this one is. */
		dest->tuples = NULL;
		rf_encoder_begin(dest->encoder, dest->buffer.data, dest->buffer.length);
	}
	dest->filling = true;
	rf_start_flush_timer();
	return dest->with_tuples;
}

bool
rf_stream_dest_takes_page(RfStreamDest *dest)
{
	if (dest->tuples == NULL)
		return false;
	if (dest->flow == NULL && dest->private_batch == NULL)
		leave_private(dest);
	if (dest->flow == NULL || dest->stopped)
		return false;
	if (dest->hold > 0)
	{
		dest->hold--;
		return false;
	}
	if (dest->sparse)
		return false;
	return (dest->with_tuples && rf_tuples_has_room(dest->tuples) &&
			!(dest->direct && rf_flow_is_pinning(dest->flow))) || begin_tuples(dest);
}

/* Not where a device could leave out the heads of its tuples: that is seen by their list. */
bool
rf_stream_dest_takes_whole(const RfStreamDest *dest)
{
	return dest->only_way == RF_REGION_BOX ||
		(dest->only_way == RF_REGION_AUTO &&
		 (dest->whole > 0 || !dest->direct || !may_stride(dest)));
}

/* A page has so many bytes of rows to send: returns true if too few are on pages now. */
static bool
is_sparse(RfStreamDest *dest, uint32 packed)
{
	if (!dest->narrow || dest->only_way != RF_REGION_AUTO)
		return false;
	dest->density = dest->density == 0 ?
		packed :
		(dest->density * (DENSITY_WEIGHT - 1) + packed) / DENSITY_WEIGHT;
	dest->sparse = dest->density * (dest->sparse ? DENSE_PART : SPARSE_PART) < BLCKSZ;
	return dest->sparse;
}

void
rf_stream_dest_saw_page(RfStreamDest *dest, const uint16 *lengths, int count)
{
	uint32		packed = 0;

	if (!dest->sparse || count == 0)
		return;
	for (int i = 0; i < count; i++)
		packed += TYPEALIGN(8, lengths[i] - RF_TUPLE_SKIPPED);
	(void) is_sparse(dest, packed);
}

/* `count` rows of a page were added; below 0: it has rows that cannot. */
static bool
page_added(RfStreamDest *dest, int count)
{
	if (count < 0)
	{
		dest->hold = HOLD_PAGES;
		return false;
	}
	dest->rows += count;
	dest->page_rows += count;
	return true;
}

/* Keeps the page pinned because its bytes are sent in place. */
static bool
keep_page(RfStreamDest *dest, Buffer buffer)
{
	return dest->direct && !BufferIsLocal(buffer) && rf_flow_pin(dest->flow, buffer);
}

int
rf_stream_dest_add_page(RfStreamDest *dest, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	RfTupleExtent extent;
	int			count = rf_tuples_look(dest->tuples, page, &extent);
	uint32		between;
	bool		direct;

	if (count > 0 && is_sparse(dest, extent.packed))
		return -1;
	if (!page_added(dest, count) || count == 0)
		return count;
	dest->whole -= dest->whole > 0;
	direct = keep_page(dest, buffer);
	between = rf_tuples_add_page(dest->tuples, page, count, &extent, direct);
	rf_region_count(&dest->regions, RF_REGION_BOX, extent.packed,
					between + extent.box - extent.packed);
	dest->regions.uncopied_bytes += direct ? between + extent.box : 0;
	return count;
}

/*
 * A page with the bytes between its rows, or its rows alone, gathered or copied to the slot: the
 * cheapest of these. A box that cannot stay where it is is copied, too, as one piece. `fragments`:
 * NULL, nothing can be gathered. `stride`: NULL, they are not so regular, or the device has no such
 * entries.
 */
static RfRegionMode
page_way(const RfStreamDest *dest, const RfTupleExtent *extent, int count,
		 const RfTupleFragments *fragments, const RfTupleStride *stride)
{
	RfRegionShape shape = {
	.rows = count, .useful = extent->packed, .fragments = count, .box = extent->box};
	RfRegionEstimate estimate;
	double		box;
	double		gather = INFINITY;

	if (rf_tuples_entries(dest->tuples) < 1)
		stride = NULL;
	if (dest->only_way == RF_REGION_STRIDED)
		return stride != NULL ? RF_REGION_STRIDED : RF_REGION_COPY;
	if (dest->only_way == RF_REGION_GATHER)
		return fragments != NULL ? RF_REGION_GATHER : RF_REGION_COPY;
	if (dest->only_way != RF_REGION_AUTO)
		return dest->only_way;
	if (rf_is_disabled(RF_PAGE_GATHERS))
		fragments = NULL;
	if (rf_is_disabled(RF_PAGE_STRIDES))
		stride = NULL;
	if (!dest->costs_known)
		return extent->packed * 2 >= extent->box ? RF_REGION_BOX : RF_REGION_COPY;
	(void) rf_region_choose(&dest->costs, RF_REGION_AUTO, 0, &shape, &estimate);
	box = rf_is_disabled(RF_PAGE_BOXES) ? INFINITY : estimate.box;
	if (rf_is_disabled(RF_PAGE_COPIES))
		estimate.copy = INFINITY;
	if (!dest->direct)
		box += (double) extent->box * rf_shared->calibration.copy_ns / (1024 * 1024);
	if (fragments != NULL && dest->costs.gather[0][0] > 0)
	{
		RfRegionEstimate gathered;

		/* Gathers adjoining bytes, with the headers of their rows. */
		shape.useful = fragments->bytes;
		shape.fragments = fragments->count;
		shape.box = Max(extent->box, fragments->bytes);
		(void) rf_region_choose(&dest->costs, RF_REGION_GATHER, RF_MAX_SGE, &shape, &gathered);
		gather = gathered.gather;
	}
	if (stride != NULL)
	{
		RfRegionShape regular = {.rows = count,
			.useful = (uint64) count * stride->element,
			.fragments = count,
			.box = (uint64) (count - 1) * stride->stride + stride->element,
		.strided = 1};
		RfRegionEstimate strided;

		(void) rf_region_choose(&dest->costs, RF_REGION_AUTO, 0, &regular, &strided);
		if (strided.strided < Min(box, estimate.copy) && strided.strided < gather)
			return RF_REGION_STRIDED;
	}
	if (gather < Min(box, estimate.copy))
		return RF_REGION_GATHER;
	return box <= estimate.copy ? RF_REGION_BOX : RF_REGION_COPY;
}

static inline bool
is_close(uint32 value, uint32 other)
{
	return value <= other + other / 4 && other <= value + value / 4;
}

/*
 * Choosing costs the sender as much as sending a page of few rows: the choice for a page holds for
 * similar pages after it, if they can be sent from where they are whenever that page could.
 */
static bool
is_like_decided(const RfStreamDest *dest, const RfTupleExtent *extent)
{
	return dest->direct == dest->decided_direct && is_close(extent->packed, dest->decided.packed) &&
		is_close(extent->box, dest->decided.box) &&
		is_close(extent->fragments, dest->decided.fragments);
}

bool
rf_stream_dest_add_page_tuples(RfStreamDest *dest, Buffer buffer, const HeapTupleHeader *tuples,
							   const uint16 *lengths, int count)
{
	RfPageTuples set = {BufferGetPage(buffer), tuples, lengths, count};
	RfTupleExtent extent;
	RfTupleFragments fragments;
	RfTupleStride stride;
	RfRegionMode way;
	bool		may_gather = false;
	bool		regular = false;
	uint32		uncopied = 0;
	uint32		between = 0;

	if (count == 0)
		return true;
	if (dest->sparse)
		return false;			/* as the look at it as a whole found */
	if (!rf_tuples_measure(dest->tuples, &set, &extent))
		return page_added(dest, -1);
	if (is_sparse(dest, extent.packed))
		return false;
	if (dest->decision_left > 0 && is_like_decided(dest, &extent))
	{
		dest->decision_left--;
		way = dest->decision;
	}
	else
	{
		may_gather = dest->direct &&
			(dest->only_way == RF_REGION_AUTO || dest->only_way == RF_REGION_GATHER) &&
			extent.fragments <= rf_tuples_entries(dest->tuples);
		regular = dest->direct && may_stride(dest) && rf_tuples_regular(&set, &stride);
		if (may_gather)
			rf_tuples_fragments(&set, &fragments);
		way = page_way(dest, &extent, count, may_gather ? &fragments : NULL,
					   regular ? &stride : NULL);

		/*
		 * Not where gathering only lacked entries in this batch; and other ways need the values
		 * just found.
		 */
		dest->decided = extent;
		dest->decided_direct = dest->direct;
		dest->decision = way;
		dest->decision_left = dest->only_way == RF_REGION_AUTO &&
			(way == RF_REGION_BOX || way == RF_REGION_COPY) &&
			(may_gather || !dest->direct || extent.fragments > RF_TUPLE_PARTS) ? HOLD_PAGES : 0;
	}
	Assert(way == RF_REGION_BOX || way == RF_REGION_COPY || (way == RF_REGION_STRIDED && regular) ||
		   (way == RF_REGION_GATHER && may_gather));
	if (way != RF_REGION_STRIDED)
		dest->whole = HOLD_PAGES;
	if (way != RF_REGION_COPY && keep_page(dest, buffer))
		uncopied = way == RF_REGION_BOX ? extent.box :
			way == RF_REGION_STRIDED ? (uint32) count * stride.element :
			fragments.bytes;
	else if (way != RF_REGION_BOX)
		way = RF_REGION_COPY;
	if (way == RF_REGION_STRIDED)
		rf_tuples_stride(dest->tuples, &set, &stride);
	else if (way == RF_REGION_GATHER)
		rf_tuples_gather(dest->tuples, &set, &fragments);
	else
		between = rf_tuples_add(dest->tuples, &set, &extent, way == RF_REGION_BOX, uncopied > 0);
	rf_region_count(&dest->regions, way, extent.packed,
					between + (extent.box > extent.packed ? extent.box - extent.packed : 0));
	dest->regions.uncopied_bytes += uncopied + between;
	return page_added(dest, count);
}

static void
stream_shutdown(DestReceiver *self)
{
}

static void
stream_destroy(DestReceiver *self)
{
}

static RfRegionMode
only_way(void)
{
	static const struct
	{
		RfTechnique technique;
		RfRegionMode way;
	}			ways[] = {
		{RF_PAGE_COPIES, RF_REGION_COPY}, {RF_PAGE_BOXES, RF_REGION_BOX},
		{RF_PAGE_GATHERS, RF_REGION_GATHER},
		{RF_PAGE_STRIDES, RF_REGION_STRIDED}
	};
	RfRegionMode only = RF_REGION_AUTO;
	int			left = 0;

	for (int i = 0; i < lengthof(ways); i++)
	{
		if (!rf_is_disabled(ways[i].technique))
		{
			only = ways[i].way;
			left++;
		}
	}
	return left == 1 ? only : RF_REGION_AUTO;
}

RfStreamDest *
rf_stream_dest_create(const RfStreamRequest *request, const RfStreamColumn *columns, int64 since)
{
	RfStreamDest *dest = palloc0(sizeof(RfStreamDest));

	dest->pub.receiveSlot = stream_receive;
	dest->pub.rStartup = stream_startup;
	dest->pub.rShutdown = stream_shutdown;
	dest->pub.rDestroy = stream_destroy;
	dest->pub.mydest = DestCopyOut; /* to the executor just "not the client" */
	dest->request = request;
	dest->columns = columns;
	dest->context = CurrentMemoryContext;
	dest->only_way = only_way();
	dest->since = since;
	dest->exchange_wait_us = rf_exchange_slept_us;
	return dest;
}

DestReceiver *
rf_stream_dest_receiver(RfStreamDest *dest)
{
	return &dest->pub;
}

bytea *
rf_stream_dest_reply(RfStreamDest *dest, const char *plan)
{
	RfStreamReply reply = {0};
	const RfFlowStats *stats;
	Size		length;
	bytea	   *answer;

	if (flush_timer != MAX_TIMEOUTS)
		disable_timeout(flush_timer, false);
	if (dest->flow == NULL)
		reply.inline_length = dest->filling && dest->rows > 0 ? rf_encoder_finish(dest->encoder) :
			0;
	else
	{
		if (!dest->stopped && dest->filling && batch_rows(dest) > 0)
			flush_slot(dest);
		if (!dest->stopped)
			dest->stopped = !rf_flow_finish(dest->flow);
		stats = &rf_flow_entry(dest->flow)->stats;
		reply.work_requests = atomic_load_explicit(&stats->work_requests, memory_order_relaxed);
		reply.merged = atomic_load_explicit(&stats->merged, memory_order_relaxed);
		reply.chained = atomic_load_explicit(&stats->chained, memory_order_relaxed);
		reply.credit_stalls = atomic_load_explicit(&stats->credit_stalls, memory_order_relaxed);
		reply.waits = atomic_load_explicit(&stats->waits, memory_order_relaxed);
		reply.wait_us = atomic_load_explicit(&stats->wait_us, memory_order_relaxed);
		rf_flow_close(dest->flow);
		reply.used_flow = 1;
	}
	reply.wire_version = RF_WIRE_VERSION;
	reply.wrote = TransactionIdIsValid(GetTopTransactionIdIfAny());
	reply.rows = dest->rows;
	reply.batches = dest->batches;
	reply.bytes = dest->bytes;
	reply.page_rows = dest->page_rows;
	reply.pages_box = dest->regions.boxes;
	reply.pages_packed = dest->regions.copies;
	reply.pages_strided = dest->regions.strided;
	reply.useful_bytes = dest->regions.useful_bytes;
	reply.gap_bytes = dest->regions.gap_bytes;
	reply.pages_gathered = dest->regions.gathers;
	reply.uncopied_bytes = dest->regions.uncopied_bytes;
	reply.run_us = rf_now_us() - dest->since;
	reply.exchange_wait_us = rf_exchange_slept_us - dest->exchange_wait_us;

	length = sizeof(reply) + reply.inline_length + strlen(plan);
	answer = palloc(VARHDRSZ + length);
	SET_VARSIZE(answer, VARHDRSZ + length);
	memcpy(VARDATA(answer), &reply, sizeof(reply));
	if (reply.inline_length > 0)
		memcpy(VARDATA(answer) + sizeof(reply), dest->private_batch, reply.inline_length);
	memcpy(VARDATA(answer) + sizeof(reply) + reply.inline_length, plan, strlen(plan));
	if (dest->encoder != NULL)
		rf_encoder_destroy(dest->encoder);
	return answer;
}
