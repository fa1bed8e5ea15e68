/*
 * encode_tuples.c - batches of heap tuples in the form of their pages (wire.h, section 3).
 *
 * Does: describe the table's attributes once, copy visible tuples, with the gaps between them or
 * without, or refer to them on their pages, and list their offsets. Reads only two flags of a
 * tuple. Does not: decide which roles may see such bytes, or which form is cheaper; fetch values
 * from a TOAST table (measure reports that a page has such rows).
 *
 * Tuples are copied, or sent, from a page that is pinned, not locked. That is enough. Moving or
 * removing tuples (pruning, VACUUM) needs a cleanup lock, which excludes other pins; a new tuple is
 * placed below all tuples that were there when their list was made under the share lock. Only the
 * header fields that other backends write in place, under a lock that we do not hold, can change
 * meanwhile: transaction ids, the address, flags of t_infomask and t_infomask2 that tell of them.
 * The reader ignores those bytes and bits. Number of attributes, HEAP_HASNULL, HEAP_HASEXTERNAL,
 * t_hoff, null bitmap and attributes stay as they were stored: they are written before the tuple
 * has a line pointer, and in-place updates happen in system catalogs only, which are never sent
 * this way. Both flag words are aligned and written as a whole. A copy that goes byte by byte, or a
 * device that reads in pieces of its own choice, may see one half old and half new; but each
 * relevant bit stays the same in its byte, so that is harmless, too. The same holds for a box: the
 * bytes between its tuples may change while it is sent, by an insertion into free space or by a
 * reader's hint bits; its items list the tuples that were there under the lock.
 *
 * A box that begins where the buffer behind the last box's page begins goes on with its run, as far
 * as line pointers reach: the bytes between, the end of one page and the header of the next, are an
 * ordinary gap, and fewer entries carry more pages. Buffers of tables that were read sequentially
 * are arranged like this.
 *
 * All memory belongs to one backend.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc_details.h"
#include "mb/pg_wchar.h"
#include "port/pg_bitutils.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "storage/bufpage.h"

#include "coding.h"

StaticAssertDecl(sizeof(ItemIdData) == sizeof(uint32), "line pointers have 4 bytes");

/*
 * Bytes between two boxes that are cheaper to send than two more entries and the header of a run.
 */
#define MAX_BETWEEN			1024

struct RfTupleWriter
{
	uint8	   *base;			/* the batch being filled */
	uint32		capacity;
	uint32		used;			/* bytes of the batch */
	uint32		own;			/* of these, the bytes at base; the rest is on pages */
	uint32		rows;
	uint32		runs;
	int			entries;		/* of a work request; 0: nothing stays on its page */
	int			used_entries;	/* by the parts */
	int			part_count;
	uint32		parted;			/* own bytes that parts have */
	RfTuplePart parts[RF_TUPLE_PARTS + 1];

	/*
	 * The run that may continue with the next page. It is written to the buffer, which other
	 * processes can write, only when it ends.
	 */
	bool		run_open;
	RfTupleRun	run;
	uint32		run_at;			/* where, at base */
	const char *run_page;		/* first page */
	const char *run_start;		/* first byte */
	const char *next_page;
	uint8	   *prologue;		/* header, description, values of old tuples */
	uint32		prologue_length;
	bool		toasted;		/* tuples may have values in a TOAST table */
	int			natts;			/* attributes described */
	RfTupleAttr *attrs;			/* in the prologue */
};

/* Appends a value that tuples lack to the prologue, which grows. */
static uint32
add_missing(RfTupleWriter *writer, Form_pg_attribute att, Datum value)
{
	uint32		at = writer->prologue_length;
	const void *bytes;
	Size		size;
	uint64		image = 0;

	if (att->attlen == -1)
	{
		bytes = PG_DETOAST_DATUM_PACKED(value);
		size = VARSIZE_ANY(bytes);
	}
	else if (att->attbyval)
	{
		store_att_byval(&image, value, att->attlen);
		bytes = &image;
		size = att->attlen;
	}
	else
	{
		bytes = DatumGetPointer(value);
		size = att->attlen;
	}
	writer->prologue_length = TYPEALIGN(8, at + size);
	writer->prologue = repalloc(writer->prologue, writer->prologue_length);
	memset(writer->prologue + at, 0, writer->prologue_length - at);
	memcpy(writer->prologue + at, bytes, size);
	return at;
}

RfTupleWriter *
rf_tuples_create(TupleDesc table, bool toasted, int column_count, const AttrNumber *attmap,
				 const RfStreamColumn *wanted, uint32 flags, int reader_encoding)
{
	RfTupleWriter *writer;
	RfBatchHeader header = {0};
	RfTupleLayout layout = {0};
	RfTupleAttr *attrs;
	int			natts = 0;

	for (int i = 0; i < column_count; i++)
		natts = Max(natts, attmap[i]);
	if (natts == 0)
		return NULL;
	attrs = palloc0(sizeof(RfTupleAttr) * natts);
	for (int i = 0; i < column_count; i++)
	{
		Form_pg_attribute att = TupleDescAttr(table, attmap[i] - 1);
		RfCoding	coding = rf_coding_choose(att, &wanted[i], flags,
											  reader_encoding == GetDatabaseEncoding());
		RfTupleAttr *attr = &attrs[attmap[i] - 1];

		/* An attribute selected twice is too rare for a list. */
		if (attr->column != 0 ||
			(coding.kind != RF_COLUMN_BYVAL && coding.kind != RF_COLUMN_BYREF &&
			 coding.kind != RF_COLUMN_VARLENA))
			return NULL;
		attr->column = i + 1;
		attr->type = coding.type;
	}

	writer = palloc0(sizeof(RfTupleWriter));
	writer->natts = natts;
	writer->toasted = toasted;
	writer->prologue_length = sizeof(header) + sizeof(layout) + sizeof(RfTupleAttr) * natts;
	writer->prologue = palloc(writer->prologue_length);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(table, i);

		if (att->attlen < -1)
			return NULL;
		attrs[i].length = att->attlen;
		attrs[i].align = rf_align_bytes(att->attalign);
		attrs[i].by_value = att->attbyval;
		if (attrs[i].column != 0 && table->constr != NULL && table->constr->missing != NULL &&
			table->constr->missing[i].am_present)
			attrs[i].missing_offset = add_missing(writer, att, table->constr->missing[i].am_value);
	}
	header.magic = RF_BATCH_MAGIC;
	header.column_count = column_count;
	header.flags = RF_BATCH_PAGES;
	layout.attr_count = natts;
	memcpy(writer->prologue, &header, sizeof(header));
	memcpy(writer->prologue + sizeof(header), &layout, sizeof(layout));
	memcpy(writer->prologue + sizeof(header) + sizeof(layout), attrs, sizeof(RfTupleAttr) * natts);
	writer->attrs = attrs;
	return writer;
}

/* Returns true if a wanted attribute of this tuple is in the TOAST table. */
static bool
wants_pointer(const RfTupleWriter *writer, HeapTupleHeader tuple)
{
	const char *data = (const char *) tuple + tuple->t_hoff;
	int			natts = Min(writer->natts, HeapTupleHeaderGetNatts(tuple));
	uint32		offset = 0;

	for (int i = 0; i < natts; i++)
	{
		const RfTupleAttr *attr = &writer->attrs[i];

		if ((tuple->t_infomask & HEAP_HASNULL) && att_isnull(i, tuple->t_bits))
			continue;
		if (attr->length == -1)
		{
			if (data[offset] == 0)
				offset = TYPEALIGN(attr->align, offset);
			if (attr->column != 0 && VARATT_IS_EXTERNAL(data + offset))
				return true;
			offset += VARSIZE_ANY(data + offset);
		}
		else
			offset = TYPEALIGN(attr->align, offset) + attr->length;
	}
	return false;
}

static inline bool
may_travel(const RfTupleWriter *writer, HeapTupleHeader tuple)
{
	return likely((tuple->t_infomask & HEAP_HASEXTERNAL) == 0) || !wants_pointer(writer, tuple);
}

bool
rf_tuples_measure(const RfTupleWriter *writer, const RfPageTuples *set, RfTupleExtent *extent)
{
	const HeapTupleHeader *tuples = set->tuples;
	const uint16 *lengths = set->lengths;
	int			count = set->count;
	const char *start = (const char *) tuples[0];
	const char *end = start;
	uint32		packed = 0;
	int			fragments = 0;
	const char *before = NULL;
	const char *behind = NULL;

	for (int i = 0; i < count; i++)
	{
		const char *tuple = (const char *) tuples[i];
		const char *next = tuple + MAXALIGN(lengths[i]);

		if (!may_travel(writer, tuples[i]))
			return false;
		start = Min(start, tuple);
		end = Max(end, tuple + lengths[i]);
		packed += TYPEALIGN(8, lengths[i] - RF_TUPLE_SKIPPED);
		fragments += tuple != behind && next != before;
		before = tuple;
		behind = next;
	}
	extent->fragments = fragments;
	extent->start = start + RF_TUPLE_SKIPPED;
	extent->box = end - extent->start;
	extent->packed = packed;
	return true;
}

bool
rf_tuples_begin(RfTupleWriter *writer, void *buffer, uint32 capacity, int entries)
{
	Assert(((uintptr_t) buffer & 7) == 0);
	/* Space for any page at least. */
	if (capacity < writer->prologue_length + sizeof(RfTupleRun) + 2 * BLCKSZ)
		return false;
	writer->base = buffer;
	writer->capacity = capacity & ~(uint32) 7;
	writer->used = writer->own = writer->prologue_length;
	writer->rows = 0;
	writer->runs = 0;
	writer->entries = Min(entries, RF_TUPLE_PARTS);
	writer->used_entries = writer->part_count = 0;
	writer->parted = 0;
	writer->run_open = false;
	memcpy(writer->base, writer->prologue, writer->prologue_length);
	return true;
}

/* Entries of the parts so far, and of the run that has not ended. */
static inline int
used_entries(const RfTupleWriter *writer)
{
	return writer->used_entries + (writer->run_open ? 2 : 0);
}

bool
rf_tuples_has_room(const RfTupleWriter *writer)
{
	/* Two entries: its line pointers and it; or one for a copy at the end. */
	if (writer->entries > 0 && used_entries(writer) + 2 > writer->entries)
		return false;
	return writer->used + sizeof(RfTupleRun) + (MaxHeapTuplesPerPage + 1) * sizeof(uint32) +
		MAX_BETWEEN + BLCKSZ <=
		writer->capacity;
}

int
rf_tuples_entries(const RfTupleWriter *writer)
{
	return Max(writer->entries - used_entries(writer) - 1, 0);
}

static inline void
add_part(RfTupleWriter *writer, const char *at, uint32 length)
{
	RfTuplePart *part = &writer->parts[writer->part_count++];

	part->own = writer->own - writer->parted;
	part->length = length;
	part->at = at;
	part->element = part->stride = 0;
	writer->parted = writer->own;
	writer->used_entries += (part->own > 0) + (length > 0);
	Assert(writer->used_entries <= writer->entries);
}

static void
end_run(RfTupleWriter *writer)
{
	if (!writer->run_open)
		return;
	if (writer->run.item_count % 2 != 0)
	{
		memset(writer->base + writer->own, 0, sizeof(uint32));
		writer->own += sizeof(uint32);
		writer->used += sizeof(uint32);
	}
	memcpy(writer->base + writer->run_at, &writer->run, sizeof(RfTupleRun));
	add_part(writer, writer->run_start, writer->run.length);
	writer->run_open = false;
}

/*
 * Begins a run behind the space for its items; returns the address for its bytes. Padding is
 * cleared: the reader gets no former content of this memory.
 */
static uint8 *
begin_run(RfTupleWriter *writer, uint32 base, int count, uint32 length)
{
	RfTupleRun	run = {length, count, base};
	uint8	   *head;
	uint32		items;
	uint8	   *data;

	end_run(writer);
	head = writer->base + writer->own;
	items = TYPEALIGN(8, sizeof(run) + count * sizeof(uint32));
	data = head + items;
	memset(data - sizeof(uint32), 0, sizeof(uint32));
	memcpy(head, &run, sizeof(run));
	memset(data + length, 0, TYPEALIGN(8, length) - length);
	writer->own += items + TYPEALIGN(8, length);
	writer->used += items + TYPEALIGN(8, length);
	writer->runs++;
	Assert(writer->used <= writer->capacity);
	return data;
}

/*
 * A box stays on its page: returns the address for its line pointers, and the number to add to
 * their offsets. `length` is a multiple of 8, and within the page. *between: bytes that are sent
 * before it.
 */
static uint32 *
box_stays(RfTupleWriter *writer, const char *page, const char *start, uint32 length, int count,
		  uint32 *delta, uint32 *between)
{
	uint32	   *items;

	*between = 0;
	if (writer->run_open && page == writer->next_page)
		*between = start - (writer->run_start + writer->run.length);
	if (!writer->run_open || page != writer->next_page || *between > MAX_BETWEEN ||
		start + length - writer->run_page > RF_ITEM_OFFSET(PG_UINT32_MAX) + 1 ||
		writer->run.item_count + count > PG_UINT16_MAX)
	{
		*between = 0;
		end_run(writer);
		writer->run_open = true;
		writer->run = (RfTupleRun) {0, 0, start - page};
		writer->run_at = writer->own;
		writer->run_page = page;
		writer->run_start = start;
		writer->own += sizeof(RfTupleRun);
		writer->used += sizeof(RfTupleRun);
		writer->runs++;
	}
	writer->used += *between + length + count * sizeof(uint32);
	writer->run.length += *between + length;
	writer->run.item_count += count;
	writer->next_page = page + BLCKSZ;
	items = (uint32 *) (writer->base + writer->own);
	writer->own += count * sizeof(uint32);
	*delta = page - writer->run_page;
	Assert(writer->used <= writer->capacity);
	return items;
}

uint32
rf_tuples_add(RfTupleWriter *writer, const RfPageTuples *set, const RfTupleExtent *extent, bool box,
			  bool direct)
{
	const char *page = set->page;
	const HeapTupleHeader *tuples = set->tuples;
	const uint16 *lengths = set->lengths;
	int			count = set->count;
	uint32		between = 0;
	uint32	   *items;
	uint8	   *data;

	writer->rows += count;
	if (box)
	{
		uint32		delta = 0;

		if (direct)
			items = box_stays(writer, page, extent->start, TYPEALIGN(8, extent->box), count, &delta,
							  &between);
		else
		{
			data = begin_run(writer, extent->start - page, count, extent->box);
			items = (uint32 *) (data - TYPEALIGN(8, count * sizeof(uint32)));
			memcpy(data, extent->start, extent->box);
		}
		for (int i = 0; i < count; i++)
			items[i] = RF_ITEM((const char *) tuples[i] - page + delta, lengths[i]);
	}
	else
	{
		uint32		at = 0;

		data = begin_run(writer, RF_TUPLE_SKIPPED, count, extent->packed);
		items = (uint32 *) (data - TYPEALIGN(8, count * sizeof(uint32)));
		for (int i = 0; i < count; i++)
		{
			uint32		length = lengths[i] - RF_TUPLE_SKIPPED;

			items[i] = RF_ITEM(at, lengths[i]);
			memcpy(data + at, (const char *) tuples[i] + RF_TUPLE_SKIPPED, length);
			for (at += length; (at & 7) != 0; at++)
				data[at] = 0;
		}
	}
	return between;
}

/* ---------- tuples gathered from their page ---------- */

#define UNIT				MAXIMUM_ALIGNOF
#define UNITS				(BLCKSZ / UNIT)

/* The first unit at or after `from` that is set, or is clear; UNITS if there is no such unit. */
static uint32
next_unit(const uint64 *map, uint32 from, bool set)
{
	while (from < UNITS)
	{
		uint64		word = (set ? map[from / 64] : ~map[from / 64]) >> (from % 64);

		if (word != 0)
			return from + pg_rightmost_one_pos64(word);
		from = (from | 63) + 1;
	}
	return UNITS;
}

/*
 * Marks the units of the page that the tuples cover, so that adjacent and overlapping ones merge,
 * and lists the runs.
 */
void
rf_tuples_fragments(const RfPageTuples *set, RfTupleFragments *fragments)
{
	const char *page = set->page;
	const HeapTupleHeader *tuples = set->tuples;
	const uint16 *lengths = set->lengths;
	int			count = set->count;
	uint64	   *map = fragments->map;

	memset(fragments, 0, sizeof(*fragments));
	for (int i = 0; i < count; i++)
	{
		uint32		first = ((const char *) tuples[i] - page) / UNIT;
		uint32		end = first + (lengths[i] + UNIT - 1) / UNIT;

		for (; first < end; first = (first | 63) + 1)
			map[first / 64] |= (~UINT64CONST(0) << (first % 64)) &
				(end / 64 > first / 64 ? ~UINT64CONST(0) : (UINT64CONST(1) << (end % 64)) - 1);
	}
	for (uint32 at = next_unit(map, 0, true); at < UNITS;)
	{
		uint32		end = next_unit(map, at, false);

		if (fragments->count < RF_TUPLE_PARTS)
		{
			fragments->start[fragments->count] = at * UNIT;
			fragments->length[fragments->count] = (end - at) * UNIT;
		}
		fragments->count++;
		fragments->bytes += (end - at) * UNIT;
		at = next_unit(map, end, true);
	}
}

void
rf_tuples_gather(RfTupleWriter *writer, const RfPageTuples *set, const RfTupleFragments *fragments)
{
	const char *page = set->page;
	const HeapTupleHeader *tuples = set->tuples;
	const uint16 *lengths = set->lengths;
	int			count = set->count;
	RfTupleRun	run = {fragments->bytes, count, 0};
	uint32	   *items;
	uint32		room = TYPEALIGN(8, sizeof(run) + count * sizeof(uint32));
	uint16		before[lengthof(fragments->map)];	/* bytes of the words in front */
	uint32		bytes = 0;

	end_run(writer);
	Assert(fragments->count <= rf_tuples_entries(writer));
	for (int w = 0; w < lengthof(fragments->map); w++)
	{
		before[w] = bytes;
		bytes += pg_popcount64(fragments->map[w]) * UNIT;
	}
	memcpy(writer->base + writer->own, &run, sizeof(run));
	memset(writer->base + writer->own + room - sizeof(uint32), 0, sizeof(uint32));
	items = (uint32 *) (writer->base + writer->own + sizeof(run));
	for (int i = 0; i < count; i++)
	{
		uint32		unit = ((const char *) tuples[i] - page) / UNIT;
		uint64		in_front = fragments->map[unit / 64] & ((UINT64CONST(1) << (unit % 64)) - 1);

		items[i] = RF_ITEM(before[unit / 64] + pg_popcount64(in_front) * UNIT, lengths[i]);
	}
	writer->own += room;
	writer->used += room + bytes;
	writer->rows += count;
	writer->runs++;
	for (int i = 0; i < fragments->count; i++)
		add_part(writer, page + fragments->start[i], fragments->length[i]);
}

/* ---------- tuples at equal distances ---------- */

bool
rf_tuples_regular(const RfPageTuples *set, RfTupleStride *stride)
{
	const HeapTupleHeader *tuples = set->tuples;
	const uint16 *lengths = set->lengths;
	int			count = set->count;
	const char *first = (const char *) tuples[0];
	ptrdiff_t	distance;

	if (count < 2)
		return false;
	/* Pages are filled from their end. */
	distance = (const char *) tuples[1] - first;
	for (int i = 1; i < count; i++)
		if ((const char *) tuples[i] - first != i * distance || lengths[i] != lengths[0])
			return false;
	stride->element = MAXALIGN(lengths[0]) - RF_TUPLE_SKIPPED;
	stride->stride = distance < 0 ? -distance : distance;
	stride->start = (distance < 0 ? (const char *) tuples[count - 1] : first) + RF_TUPLE_SKIPPED;
	return stride->stride >= stride->element;
}

void
rf_tuples_stride(RfTupleWriter *writer, const RfPageTuples *set, const RfTupleStride *stride)
{
	const HeapTupleHeader *tuples = set->tuples;
	const uint16 *lengths = set->lengths;
	int			count = set->count;
	uint32		bytes = (uint32) count * stride->element;
	RfTupleRun	run = {bytes, count, RF_TUPLE_SKIPPED};
	uint32		room = TYPEALIGN(8, sizeof(run) + count * sizeof(uint32));
	uint32	   *items;

	end_run(writer);
	memcpy(writer->base + writer->own, &run, sizeof(run));
	memset(writer->base + writer->own + room - sizeof(uint32), 0, sizeof(uint32));
	items = (uint32 *) (writer->base + writer->own + sizeof(run));
	for (int i = 0; i < count; i++)
	{
		uint32		place = ((const char *) tuples[i] + RF_TUPLE_SKIPPED - stride->start) /
		stride->stride;

		items[i] = RF_ITEM(place * stride->element, lengths[i]);
	}
	writer->own += room;
	writer->used += room + bytes;
	writer->rows += count;
	writer->runs++;
	add_part(writer, stride->start, bytes);
	writer->parts[writer->part_count - 1].element = stride->element;
	writer->parts[writer->part_count - 1].stride = stride->stride;
}

/* ---------- whole pages ---------- */

int
rf_tuples_look(const RfTupleWriter *writer, Page page, RfTupleExtent *extent)
{
	PageHeader	header = (PageHeader) page;
	int			item_count = PageGetMaxOffsetNumber(page);
	uint32		base = TYPEALIGN_DOWN(8, header->pd_upper);
	const uint32 *items = (const uint32 *) header->pd_linp;
	uint32		rows = 0;
	uint32		packed = 0;

	/* Without branches, as words: a page has hundreds. */
	for (int i = 0; i < item_count; i++)
	{
		uint32		item = items[i];
		uint32		normal = RF_ITEM_STATE(item) == RF_ITEM_NORMAL;

		rows += normal;
		packed += (RF_ITEM_LENGTH(item) - RF_TUPLE_SKIPPED + 7) & ~7u & -normal;
	}
	for (int i = 0; i < item_count && writer->toasted; i++)
	{
		ItemId		item = &header->pd_linp[i];

		if (ItemIdIsNormal(item) && !may_travel(writer, (HeapTupleHeader) PageGetItem(page, item)))
			return -1;
	}
	extent->start = (const char *) page + base;
	extent->box = header->pd_special - base;
	extent->packed = packed;
	extent->fragments = 0;
	return rows;
}

uint32
rf_tuples_add_page(RfTupleWriter *writer, Page page, int rows, const RfTupleExtent *extent,
				   bool direct)
{
	const ItemIdData *from = ((PageHeader) page)->pd_linp;
	int			count = PageGetMaxOffsetNumber(page);
	uint32		delta = 0;
	uint32		between = 0;
	uint32	   *items;

	if (direct)
		items = box_stays(writer, page, extent->start, extent->box, count, &delta, &between);
	else
	{
		uint8	   *data = begin_run(writer, extent->start - (const char *) page, count,
									 extent->box);

		memcpy(data, extent->start, extent->box);
		items = (uint32 *) (data - TYPEALIGN(8, count * sizeof(uint32)));
	}
	writer->rows += rows;
	if (delta == 0)
		memcpy(items, from, count * sizeof(uint32));
	else
	{
		/* Line pointers that are not normal hold no offset and do not count. */
		for (int i = 0; i < count; i++)
			items[i] = ItemIdIsNormal(&from[i]) ?
				RF_ITEM(ItemIdGetOffset(&from[i]) + delta, ItemIdGetLength(&from[i])) :
				0;
	}
	return between;
}

uint32
rf_tuples_rows(const RfTupleWriter *writer)
{
	return writer->rows;
}

uint32
rf_tuples_finish(RfTupleWriter *writer)
{
	RfBatchHeader *header = (RfBatchHeader *) writer->base;
	RfTupleLayout *layout = (RfTupleLayout *) (header + 1);

	end_run(writer);
	if (writer->part_count > 0 && writer->own > writer->parted)
		add_part(writer, NULL, 0);
	header->length = writer->used;
	header->row_count = writer->rows;
	layout->run_count = writer->runs;
	return writer->used;
}

int
rf_tuples_parts(const RfTupleWriter *writer, const RfTuplePart **parts)
{
	*parts = writer->parts;
	return writer->part_count;
}
