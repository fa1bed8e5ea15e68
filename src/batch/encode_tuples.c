/*
 * encode_tuples.c - batches of heap tuples as they lie on their pages (wire.h, section 3).
 *
 * Does: describe the table's attributes once, copy visible tuples, with what lies between them or
 * one behind the other, and list where they are. Looks at nothing of a tuple but two flags. Does
 * not: decide who may see such bytes, or which form is cheaper; fetch what lies in a TOAST table
 * (measure says that a page has such rows).
 *
 * Tuples are copied from a page that is pinned, not locked. That is enough. Who moves or removes
 * tuples (pruning, VACUUM) needs a cleanup lock, for which nobody else may have a pin; who adds one
 * puts it below all tuples that were there when their list was made under the share lock. What may
 * change under our eyes is what others write into headers in place under a lock that we do not hold:
 * transaction ids, the address, flags of t_infomask and t_infomask2 that tell of them. The reader
 * ignores those bytes and bits. Number of attributes, HEAP_HASNULL, HEAP_HASEXTERNAL, t_hoff, null
 * bitmap and attributes stay as they were stored: they are written before the tuple has a line
 * pointer, and in-place updates happen in system catalogs only, which do not travel like this.
 * Both flag words are aligned and written as a whole, so none is seen half written.
 *
 * All memory belongs to one backend.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc_details.h"
#include "mb/pg_wchar.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "storage/bufpage.h"

#include "coding.h"

StaticAssertDecl(sizeof(ItemIdData) == sizeof(uint32), "line pointers have 4 bytes");

struct RfTupleWriter
{
	uint8	   *base;			/* the batch being filled */
	uint32		capacity;
	uint32		used;
	uint32		rows;
	uint32		runs;
	uint8	   *prologue;		/* header, description, values of old tuples: how each batch begins */
	uint32		prologue_length;
	bool		toasted;		/* tuples may point to values elsewhere */
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

		/* An attribute that is wanted twice is not worth a list. */
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

/* Does a wanted attribute of this tuple lie in the TOAST table? */
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
rf_tuples_measure(const RfTupleWriter *writer, const HeapTupleHeader *tuples, const uint16 *lengths,
				  int count, RfTupleExtent *extent)
{
	const char *start = (const char *) tuples[0];
	const char *end = start;
	uint32		packed = 0;

	for (int i = 0; i < count; i++)
	{
		const char *tuple = (const char *) tuples[i];

		if (!may_travel(writer, tuples[i]))
			return false;
		start = Min(start, tuple);
		end = Max(end, tuple + lengths[i]);
		packed += TYPEALIGN(8, lengths[i] - RF_TUPLE_SKIPPED);
	}
	extent->start = start + RF_TUPLE_SKIPPED;
	extent->box = end - extent->start;
	extent->packed = packed;
	return true;
}

bool
rf_tuples_begin(RfTupleWriter *writer, void *buffer, uint32 capacity)
{
	Assert(((uintptr_t) buffer & 7) == 0);
	/* Room for any page at least. */
	if (capacity < writer->prologue_length + sizeof(RfTupleRun) + 2 * BLCKSZ)
		return false;
	writer->base = buffer;
	writer->capacity = capacity & ~(uint32) 7;
	writer->used = writer->prologue_length;
	writer->rows = 0;
	writer->runs = 0;
	memcpy(writer->base, writer->prologue, writer->prologue_length);
	return true;
}

bool
rf_tuples_has_room(const RfTupleWriter *writer)
{
	return writer->used + sizeof(RfTupleRun) + MaxHeapTuplesPerPage * sizeof(uint32) + BLCKSZ <=
		writer->capacity;
}

/*
 * Begin a run behind the items' place; returns where its bytes go. What only fills up is cleared:
 * the reader gets nothing that was in this memory before.
 */
static uint8 *
begin_run(RfTupleWriter *writer, uint32 base, int count, uint32 length)
{
	RfTupleRun	run = {length, count, base};
	uint8	   *head = writer->base + writer->used;
	uint32		used = TYPEALIGN(8, writer->used + sizeof(run) + count * sizeof(uint32));
	uint8	   *data = writer->base + used;

	memset(data - sizeof(uint32), 0, sizeof(uint32));
	memcpy(head, &run, sizeof(run));
	memset(data + length, 0, TYPEALIGN(8, length) - length);
	writer->used = used + TYPEALIGN(8, length);
	writer->runs++;
	Assert(writer->used <= writer->capacity);
	return data;
}

void
rf_tuples_add(RfTupleWriter *writer, const char *page, const HeapTupleHeader *tuples,
			  const uint16 *lengths, int count, const RfTupleExtent *extent, bool box)
{
	uint32	   *items = (uint32 *) (writer->base + writer->used + sizeof(RfTupleRun));
	uint8	   *data;

	writer->rows += count;
	if (box)
	{
		data = begin_run(writer, extent->start - page, count, extent->box);
		for (int i = 0; i < count; i++)
			items[i] = RF_ITEM((const char *) tuples[i] - page, lengths[i]);
		memcpy(data, extent->start, extent->box);
	}
	else
	{
		uint32		at = 0;

		data = begin_run(writer, RF_TUPLE_SKIPPED, count, extent->packed);
		for (int i = 0; i < count; i++)
		{
			uint32		length = lengths[i] - RF_TUPLE_SKIPPED;

			items[i] = RF_ITEM(at, lengths[i]);
			memcpy(data + at, (const char *) tuples[i] + RF_TUPLE_SKIPPED, length);
			for (at += length; (at & 7) != 0; at++)
				data[at] = 0;
		}
	}
}

int
rf_tuples_add_page(RfTupleWriter *writer, Page page)
{
	PageHeader	header = (PageHeader) page;
	int			item_count = PageGetMaxOffsetNumber(page);
	uint32		base = TYPEALIGN_DOWN(8, header->pd_upper);
	uint32	   *items = (uint32 *) (writer->base + writer->used + sizeof(RfTupleRun));
	uint32		length = header->pd_special - base;
	int			rows = 0;

	for (int i = 0; i < item_count; i++)
		rows += ItemIdIsNormal(&header->pd_linp[i]);
	for (int i = 0; i < item_count && writer->toasted; i++)
	{
		ItemId		item = &header->pd_linp[i];

		if (ItemIdIsNormal(item) && !may_travel(writer, (HeapTupleHeader) PageGetItem(page, item)))
			return -1;
	}
	if (rows == 0)
		return 0;
	writer->rows += rows;
	memcpy(begin_run(writer, base, item_count, length), page + base, length);
	memcpy(items, header->pd_linp, item_count * sizeof(uint32));
	return rows;
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

	header->length = writer->used;
	header->row_count = writer->rows;
	layout->run_count = writer->runs;
	return writer->used;
}
