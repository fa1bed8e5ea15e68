/*
 * deform.c - the wanted attributes of a page's tuples as columns.
 *
 * They are found attribute by attribute over all tuples of the page: no step depends on the one for
 * the tuple before, so that the processor works at several tuples at a time. Attributes before the
 * first one of variable length lie at fixed offsets. A page with a tuple that has NULLs among the
 * attributes, or is older than one of them, is taken apart tuple by tuple.
 *
 * Does: find values where they are stored. Does not: look into values of variable length, or fetch
 * values out of TOAST tables.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "rdma_fdw/compat.h"

#include "batch/coding.h"
#include "kernels.h"

/* An attribute, up to the last wanted one. */
typedef struct Step
{
	int16		length;			/* -1: varlena */
	uint8		align;
	int32		offset;			/* in a tuple without NULLs; -1: behind a varlena */
	RfVector   *vector;			/* NULL: not wanted */
} Step;

struct RfDeform
{
	TupleDesc	desc;
	int			natts;			/* up to the last wanted one */
	int32		walk_start;		/* offset of the first varlena before alignment */
	Step		steps[FLEXIBLE_ARRAY_MEMBER];
};

RfDeform *
rf_deform_create(TupleDesc desc)
{
	RfDeform   *deform = palloc0(offsetof(RfDeform, steps) + desc->natts * sizeof(Step));
	int32		offset = 0;

	deform->desc = desc;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Step	   *step = &deform->steps[i];

		if (att->attlen < -1)
			return NULL;
		step->length = att->attlen;
		step->align = rf_align_bytes(att->attalign);
		step->offset = -1;
		if (att->attlen < 0 || offset < 0)
			offset = -1;
		else
		{
			step->offset = TYPEALIGN(step->align, offset);
			offset = step->offset + att->attlen;
		}
	}
	return deform;
}

RfVector *
rf_deform_want(RfDeform *deform, AttrNumber attr)
{
	Form_pg_attribute att;
	Step	   *step;
	RfVector   *vector;

	if (attr < 1 || attr > deform->desc->natts)
		return NULL;
	att = TupleDescAttr(deform->desc, attr - 1);
	step = &deform->steps[attr - 1];
	if (step->vector != NULL)
		return step->vector;
	if (att->attisdropped || !(att->attbyval || att->attlen == -1))
		return NULL;
	vector = palloc0(sizeof(RfVector));
	vector->kind = att->attlen == -1 ? RF_VECTOR_REF :
		att->attlen == 1 ? RF_VECTOR_1 :
		att->attlen == 2 ? RF_VECTOR_2 :
		att->attlen == 4 ? RF_VECTOR_4 : RF_VECTOR_8;
	vector->values = palloc0(RF_BATCH_ROWS * sizeof(int64));
	vector->refs = palloc0(RF_BATCH_ROWS * sizeof(char *));
	vector->nulls = palloc0(RF_BATCH_ROWS * sizeof(bool));
	step->vector = vector;
	deform->natts = Max(deform->natts, attr);
	deform->walk_start = 0;
	for (int i = 0; i < deform->natts && deform->steps[i].offset >= 0; i++)
		deform->walk_start = deform->steps[i].offset + deform->steps[i].length;
	return vector;
}

/* ---------- tuples without NULLs ---------- */

#define READ_FIXED(type) \
	do { \
		for (int i = 0; i < count; i++) \
			vector->values[i] = *(const type *) (data[i] + offset); \
	} while (0)

/* An attribute at the same offset in all tuples. */
static void
read_fixed(RfVector *vector, const char *const *data, int count, int32 offset)
{
	switch (vector->kind)
	{
		case RF_VECTOR_1:
			READ_FIXED(int8);
			break;
		case RF_VECTOR_2:
			READ_FIXED(int16);
			break;
		case RF_VECTOR_4:
			READ_FIXED(int32);
			break;
		case RF_VECTOR_8:
			READ_FIXED(int64);
			break;
		case RF_VECTOR_REF:
			pg_unreachable();
	}
}

/* Where a varlena begins, if the attribute before it ends here. */
static inline const char *
begin_varlena(const char *at, uint8 align)
{
	/* A byte other than padding begins a short value, which is not aligned. */
	return *at == 0 ? (const char *) TYPEALIGN(align, at) : at;
}

static inline const char *
end_varlena(const char *value)
{
	if (likely(VARATT_IS_SHORT(value) && !VARATT_IS_EXTERNAL(value)))
		return value + VARSIZE_SHORT(value);
	return value + VARSIZE_ANY(value);
}

#define WALK_FIXED(store) \
	do { \
		for (int i = 0; i < count; i++) \
		{ \
			const char *value = (const char *) TYPEALIGN(step->align, at[i]); \
			store; \
			at[i] = value + step->length; \
		} \
	} while (0)

/* An attribute behind one of variable length; `at` moves on to its end. */
static void
walk(const Step *step, const char **at, int count)
{
	RfVector   *vector = step->vector;

	if (step->length == -1 && vector == NULL)
		for (int i = 0; i < count; i++)
			at[i] = end_varlena(begin_varlena(at[i], step->align));
	else if (step->length == -1)
		for (int i = 0; i < count; i++)
		{
			vector->refs[i] = begin_varlena(at[i], step->align);
			at[i] = end_varlena(vector->refs[i]);
		}
	else if (vector == NULL)
		WALK_FIXED((void) 0);
	else if (vector->kind == RF_VECTOR_1)
		WALK_FIXED(vector->values[i] = *(const int8 *) value);
	else if (vector->kind == RF_VECTOR_2)
		WALK_FIXED(vector->values[i] = *(const int16 *) value);
	else if (vector->kind == RF_VECTOR_4)
		WALK_FIXED(vector->values[i] = *(const int32 *) value);
	else
		WALK_FIXED(vector->values[i] = *(const int64 *) value);
}

/* ---------- any tuples ---------- */

static inline void
read_one(RfVector *vector, int row, const char *value)
{
	switch (vector->kind)
	{
		case RF_VECTOR_1:
			vector->values[row] = *(const int8 *) value;
			break;
		case RF_VECTOR_2:
			vector->values[row] = *(const int16 *) value;
			break;
		case RF_VECTOR_4:
			vector->values[row] = *(const int32 *) value;
			break;
		case RF_VECTOR_8:
			vector->values[row] = *(const int64 *) value;
			break;
		case RF_VECTOR_REF:
			vector->refs[row] = value;
			break;
	}
}

static inline void
note_null(RfVector *vector, int row)
{
	vector->has_nulls = true;
	vector->nulls[row] = true;
	vector->values[row] = 0;
	vector->refs[row] = NULL;
}

/* The tuple is older than the column. */
static pg_noinline void
note_missing(const RfDeform *deform, int attr, int row)
{
	RfVector   *vector = deform->steps[attr].vector;
	bool		is_null;
	Datum		value = getmissingattr(deform->desc, attr + 1, &is_null);

	if (is_null)
		note_null(vector, row);
	else if (vector->kind == RF_VECTOR_REF)
		vector->refs[row] = DatumGetPointer(value);
	else
		vector->values[row] = vector->kind == RF_VECTOR_1 ? (int8) DatumGetChar(value) :
			vector->kind == RF_VECTOR_2 ? DatumGetInt16(value) :
			vector->kind == RF_VECTOR_4 ? DatumGetInt32(value) : DatumGetInt64(value);
}

/* Finds the attributes of one tuple, which may have NULLs or lack the last ones. */
static void
read_tuple(const RfDeform *deform, HeapTupleHeader tuple, int row)
{
	int			there = Min(deform->natts, (int) HeapTupleHeaderGetNatts(tuple));
	bool		has_nulls = (tuple->t_infomask & HEAP_HASNULL) != 0;
	const char *at = (const char *) tuple + tuple->t_hoff;

	for (int i = 0; i < there; i++)
	{
		const Step *step = &deform->steps[i];

		if (has_nulls && att_isnull(i, tuple->t_bits))
		{
			if (step->vector != NULL)
				note_null(step->vector, row);
			continue;
		}
		at = step->length == -1 ? begin_varlena(at, step->align) :
			(const char *) TYPEALIGN(step->align, at);
		if (step->vector != NULL)
			read_one(step->vector, row, at);
		at = step->length == -1 ? end_varlena(at) : at + step->length;
	}
	for (int i = there; i < deform->natts; i++)
		if (deform->steps[i].vector != NULL)
			note_missing(deform, i, row);
}

void
rf_deform_page(RfDeform *deform, const RfPageScan *scan)
{
	const char *data[RF_BATCH_ROWS];
	const char *at[RF_BATCH_ROWS];
	int			count = scan->count;
	int			plain;

	for (int i = 0; i < deform->natts; i++)
	{
		RfVector   *vector = deform->steps[i].vector;

		if (vector != NULL && vector->has_nulls)
		{
			memset(vector->nulls, 0, RF_BATCH_ROWS * sizeof(bool));
			vector->has_nulls = false;
		}
	}
	for (plain = 0; plain < count && rf_tuple_is_plain(scan->tuples[plain], deform->natts); plain++)
	{
		data[plain] = (const char *) scan->tuples[plain] + scan->tuples[plain]->t_hoff;
		at[plain] = data[plain] + deform->walk_start;
	}
	if (plain < count)
	{
		for (int i = 0; i < count; i++)
			read_tuple(deform, scan->tuples[i], i);
		return;
	}
	for (int i = 0; i < deform->natts; i++)
	{
		const Step *step = &deform->steps[i];

		if (step->offset < 0)
			walk(step, at, count);
		else if (step->vector != NULL)
			read_fixed(step->vector, data, count, step->offset);
	}
}
