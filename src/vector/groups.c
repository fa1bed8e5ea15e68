/*
 * groups.c - aggregates on columns, inside the states of core's Agg node.
 *
 * The Agg node asks the node below it for rows and advances its states with each. It gets few: the
 * first row of each group, for which it makes the group, and the rows that kernels cannot take. All
 * further rows are added here to the group's states, while the node waits for its next row. States
 * that are numbers are changed in place; sums of numerics and of int8 are kept aside and added at
 * the end, by core's combine functions. So the node's own code makes groups, limits their memory,
 * has the errors, and computes results. Memory of this file counts as the node's, which begins to
 * spill at its usual limit; rows of a group for which it has no room are its own.
 *
 * Which group a row belongs to is known by the bytes of its keys: rows with the same bytes are in
 * the same group, whatever the type's equality is. Groups with several spellings are known several
 * times.
 *
 * Sums of floats are added in the order of rows, so rows that were taken are added before the node
 * gets one.
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/nodeAgg.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rdma_fdw/compat.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "kernels.h"

#define MAX_KEYS		8

/* Above FEW_GROUPS groups, the planner must expect ENOUGH_ROWS rows of each. */
#define FEW_GROUPS		4096
#define ENOUGH_ROWS		8

/* Places of the table; at most half of them are taken. */
#define FIRST_PLACES	256
#define MAX_PLACES		(1 << 25)

/* Groups are allocated together, in pieces of PIECE_BYTES; a larger group has its own piece. */
#define PIECE_BYTES		8192

/* Bytes of text in a key: with the length they are two words. */
#define TEXT_BYTES		15

/*
 * If the Agg node got more than half of the first LOOK_ROWS rows, or of twice as many rows as there
 * are groups, it gets all further rows.
 */
#define LOOK_ROWS		10000

/* Sums and numbers up to these do not leave the range of a float within a batch. */
#define LARGE_SUM		1e300
#define LARGE_FLOAT		1e290

typedef enum TransKind
{
	TRANS_COUNT,
	TRANS_SUM,					/* int8 */
	TRANS_AVERAGE,				/* an array of count and sum */
	TRANS_WIDE_SUM,				/* kept aside */
	TRANS_FLOAT_SUM,
	TRANS_LEAST,
	TRANS_MOST,
	TRANS_FLOAT_LEAST,
	TRANS_FLOAT_MOST,
	TRANS_WIDE_LEAST,			/* numerics, kept aside */
	TRANS_WIDE_MOST
} TransKind;

/* Transition functions, by the number of their arguments besides the state. */
static const struct
{
	Oid			function;
	int			args;
	TransKind	kind;
}			functions[] = {

	{F_INT8INC, 0, TRANS_COUNT},
	{F_INT8INC_ANY, 1, TRANS_COUNT},
	{F_INT2_SUM, 1, TRANS_SUM},
	{F_INT4_SUM, 1, TRANS_SUM},
	{F_INT2_AVG_ACCUM, 1, TRANS_AVERAGE},
	{F_INT4_AVG_ACCUM, 1, TRANS_AVERAGE},
	{F_INT8_AVG_ACCUM, 1, TRANS_WIDE_SUM},
	{F_NUMERIC_AVG_ACCUM, 1, TRANS_WIDE_SUM},
	{F_FLOAT8PL, 1, TRANS_FLOAT_SUM},
	{F_INT2SMALLER, 1, TRANS_LEAST},
	{F_INT4SMALLER, 1, TRANS_LEAST},
	{F_INT8SMALLER, 1, TRANS_LEAST},
	{F_DATE_SMALLER, 1, TRANS_LEAST},
	{F_TIMESTAMP_SMALLER, 1, TRANS_LEAST},
	{F_TIMESTAMPTZ_SMALLER, 1, TRANS_LEAST},
	{F_INT2LARGER, 1, TRANS_MOST},
	{F_INT4LARGER, 1, TRANS_MOST},
	{F_INT8LARGER, 1, TRANS_MOST},
	{F_DATE_LARGER, 1, TRANS_MOST},
	{F_TIMESTAMP_LARGER, 1, TRANS_MOST},
	{F_TIMESTAMPTZ_LARGER, 1, TRANS_MOST},
	{F_FLOAT8SMALLER, 1, TRANS_FLOAT_LEAST},
	{F_FLOAT8LARGER, 1, TRANS_FLOAT_MOST},
	{F_NUMERIC_SMALLER, 1, TRANS_WIDE_LEAST},
	{F_NUMERIC_LARGER, 1, TRANS_WIDE_MOST},
};

typedef struct Trans
{
	TransKind	kind;
	RfExpr	   *arg;			/* its argument; NULL for count(*), and where `vector` is enough */
	RfVector   *vector;			/* whose NULLs are not counted; or NULL */
	int			aside;			/* its place among a group's sums that are kept aside */
} Trans;

typedef struct Aside
{
	int64		count;
	int128		value;
} Aside;

typedef struct Member
{
	AggStatePerGroup states;	/* of core's node */
	uint64		words[FLEXIBLE_ARRAY_MEMBER];	/* of the keys; behind them the Asides */
} Member;

typedef struct Place
{
	uint64		hash;
	Member	   *member;			/* NULL: free */
} Place;

struct RfGroups
{
	AggState   *agg;
	RfRowFilter *filter;
	MemoryContext context;		/* groups */
	MemoryContext scratch;
	int			trans_count;
	Trans	   *trans;
	List	   *computed;		/* columns of the scan that it computes: RfExprs */
	int			asides;
	int			key_count;		/* 0: one group */
	RfVector   *keys[MAX_KEYS];
	int			words;			/* of a row's keys */
	uint64	   *row_words;
	uint64		row_hash[RF_BATCH_ROWS];
	bool		is_known[RF_BATCH_ROWS];	/* whether the words say its keys */
	Member	   *of_row[RF_BATCH_ROWS];	/* NULL: not yet known */
	int			pending_count;
	uint16		pending[RF_BATCH_ROWS]; /* rows that were taken */
	int			group_count;
	Size		member_bytes;
	char	   *piece;			/* its unused rest */
	Size		piece_left;
	uint32		places;			/* a power of 2; 0: there is no table yet */
	Place	   *table;
	double		look_rows;
	uint64		rows;			/* that passed, */
	uint64		by_node;		/* and of these, that the node got */
	bool		hopeless;
};

/* ---------- which nodes ---------- */

static bool
is_float(TransKind kind)
{
	return kind == TRANS_FLOAT_SUM || kind == TRANS_FLOAT_LEAST || kind == TRANS_FLOAT_MOST;
}

/* The column of the scan behind one of the node's, of any type. */
static RfVector *
find_column(const RfExprContext *context, AttrNumber column)
{
	Var		   *var = (Var *) list_nth_node(TargetEntry, context->outer, column - 1)->expr;

	if (!IsA(var, Var) || var->varno != context->relid)
		return NULL;
	return rf_deform_want(context->deform, var->varattno);
}

/* Only whether it is NULL matters. */
static bool
compile_counted(const RfExprContext *context, Node *arg, Trans *trans)
{
	if (IsA(arg, Var) && ((Var *) arg)->varno == OUTER_VAR)
		trans->vector = find_column(context, ((Var *) arg)->varattno);
	if (trans->vector == NULL)
		trans->arg = rf_expr_compile(context, arg);
	return trans->vector != NULL || trans->arg != NULL;
}

/* Finds the kernel of one of the node's aggregates; false: it has none. */
static bool
compile_trans(RfGroups *groups, const RfExprContext *context, AggStatePerTrans pertrans,
			  Trans *trans)
{
	Aggref	   *aggref = pertrans->aggref;
	RfValueType wanted;
	int			entry = 0;

	while (entry < lengthof(functions) && (functions[entry].function != pertrans->transfn_oid ||
										   functions[entry].args != list_length(aggref->args)))
		entry++;
	if (entry == lengthof(functions) || aggref->aggdistinct != NIL || aggref->aggorder != NIL)
		return false;
	trans->kind = functions[entry].kind;
	if (trans->kind == TRANS_COUNT && aggref->aggfilter == NULL)
		return aggref->args == NIL ||
			compile_counted(context, (Node *) linitial_node(TargetEntry, aggref->args)->expr,
							trans);
	if (aggref->args != NIL)
	{
		trans->arg = rf_expr_compile(context,
									 (Node *) linitial_node(TargetEntry, aggref->args)->expr);
		if (trans->arg == NULL)
			return false;
	}
	/* all functions leave NULLs out, so rows without the condition have NULL */
	if (aggref->aggfilter != NULL)
		trans->arg = rf_expr_where(context, (Node *) aggref->aggfilter, trans->arg);
	if (trans->arg == NULL || trans->kind == TRANS_COUNT)
		return trans->arg != NULL;
	wanted = is_float(trans->kind) ? RF_VALUE_FLOAT :
		pertrans->transfn_oid == F_NUMERIC_AVG_ACCUM || trans->kind >= TRANS_WIDE_LEAST ?
		RF_VALUE_SCALED : RF_VALUE_INTEGER;
	if (trans->kind == TRANS_WIDE_SUM || trans->kind >= TRANS_WIDE_LEAST)
		trans->aside = groups->asides++;
	return trans->arg->type == wanted;
}

/*
 * The scan computes columns for each row, also such as nobody looks at, because that may be an
 * error: so they need kernels. What is volatile has none.
 */
static bool
compile_computed(RfGroups *groups, const RfExprContext *scan)
{
	ListCell   *lc;

	foreach(lc, groups->filter->node->ss.ps.plan->targetlist)
	{
		Node	   *node = (Node *) lfirst_node(TargetEntry, lc)->expr;
		RfExpr	   *expr;

		if (IsA(node, Var) || IsA(node, Const))
			continue;
		expr = rf_expr_compile(scan, node);
		if (expr == NULL)
			return false;
		groups->computed = lappend(groups->computed, expr);
	}
	return true;
}

RfGroups *
rf_groups_create(AggState * agg, RfRowFilter *filter, Aggref **without)
{
	Agg		   *plan = (Agg *) agg->ss.ps.plan;
	RfExprContext context = filter->context;
	RfGroups   *groups = palloc0(sizeof(RfGroups));

	*without = NULL;
	context.outer = filter->node->ss.ps.plan->targetlist;
	if ((plan->aggstrategy != AGG_PLAIN && plan->aggstrategy != AGG_HASHED) ||
		plan->groupingSets != NIL || plan->chain != NIL || DO_AGGSPLIT_COMBINE(plan->aggsplit) ||
		plan->numCols > MAX_KEYS || context.deform == NULL ||
		(plan->numCols > 0 && plan->numGroups > FEW_GROUPS &&
		 (double) plan->numGroups * ENOUGH_ROWS > filter->node->ss.ps.plan->plan_rows))
		return NULL;
	groups->agg = agg;
	groups->filter = filter;
	if (!compile_computed(groups, &filter->context))
		return NULL;
	groups->trans_count = agg->numtrans;
	groups->trans = palloc0(Max(agg->numtrans, 1) * sizeof(Trans));
	for (int i = 0; i < agg->numtrans; i++)
	{
		if (!compile_trans(groups, &context, &agg->pertrans[i], &groups->trans[i]) ||
		/* taken rows are asked about again where a sum gets too large */
			(is_float(groups->trans[i].kind) &&
			 contain_volatile_functions((Node *) filter->kept)))
		{
			*without = agg->pertrans[i].aggref;
			return NULL;
		}
	}
	groups->key_count = plan->numCols;
	groups->words = 1;			/* which are NULL */
	for (int i = 0; i < plan->numCols; i++)
	{
		groups->keys[i] = find_column(&context, plan->grpColIdx[i]);
		if (groups->keys[i] == NULL)
			return NULL;
		groups->words += groups->keys[i]->kind == RF_VECTOR_REF ? 2 : 1;
	}
	groups->row_words = palloc(RF_BATCH_ROWS * groups->words * sizeof(uint64));
	groups->member_bytes = offsetof(Member, words) + groups->words * sizeof(uint64) +
		groups->asides * sizeof(Aside);
	groups->look_rows = Max(LOOK_ROWS, 2.0 * plan->numGroups);
	/* below memory that the node counts */
	groups->context = AllocSetContextCreate(plan->aggstrategy == AGG_HASHED ? agg->hash_metacxt :
											CurrentMemoryContext, "rdma_fdw groups",
											ALLOCSET_SMALL_SIZES);
	groups->scratch = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw states",
											ALLOCSET_SMALL_SIZES);
	return groups;
}

void
rf_groups_reset(RfGroups *groups)
{
	MemoryContextReset(groups->context);
	groups->table = NULL;
	groups->places = 0;
	groups->piece_left = 0;
	groups->group_count = 0;
	groups->pending_count = 0;
}

/* ---------- which group ---------- */

/* Text of at most 15 bytes as two words; false: it is longer, or stored elsewhere. */
static inline bool
read_text(const char *value, const char *page, uint64 *words)
{
	char		bytes[TEXT_BYTES + 1] = {0};
	Size		length;

	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		return false;
	length = VARSIZE_ANY_EXHDR(value);
	if (length > TEXT_BYTES)
		return false;
	if (length == 1)
		bytes[0] = *VARDATA_ANY(value);
	else
		memcpy(bytes, VARDATA_ANY(value), length);
	bytes[TEXT_BYTES] = length;
	memcpy(words, bytes, sizeof(bytes));
	return true;
}

/* The words of all selected rows. */
static void
read_keys(RfGroups *groups)
{
	const RfBatch *batch = &groups->filter->batch;
	int			place = 1;

	for (int i = 0; i < batch->selected; i++)
	{
		int			row = batch->selection[i];

		groups->row_words[row * groups->words] = 0;
		groups->is_known[row] = true;
	}
	for (int key = 0; key < groups->key_count; key++)
	{
		const RfVector *vector = groups->keys[key];

		for (int i = 0; i < batch->selected; i++)
		{
			int			row = batch->selection[i];
			uint64	   *words = groups->row_words + row * groups->words;

			if (unlikely(vector->nulls[row]))
			{
				words[0] |= UINT64CONST(1) << key;
				words[place] = 0;
				if (vector->kind == RF_VECTOR_REF)
					words[place + 1] = 0;
			}
			else if (vector->kind == RF_VECTOR_REF)
				groups->is_known[row] &= read_text(vector->refs[row], batch->page, words + place);
			else
				words[place] = vector->values[row];
		}
		place += vector->kind == RF_VECTOR_REF ? 2 : 1;
	}
}

static inline uint64
hash_words(const RfGroups *groups, const uint64 *words)
{
	uint64		hash = words[0];

	for (int i = 1; i < groups->words; i++)
	{
		hash = (hash ^ words[i]) * UINT64CONST(0x9E3779B97F4A7C15);
		hash ^= hash >> 32;
	}
	return hash;
}

static inline Place *
first_place(const RfGroups *groups, uint64 hash)
{
	return &groups->table[hash & (groups->places - 1)];
}

/* The place of the group with these words in the table, or where it would be. */
static inline Place *
find_place(const RfGroups *groups, uint64 hash, const uint64 *words)
{
	Place	   *place = first_place(groups, hash);

	while (place->member != NULL)
	{
		uint64		differ = place->hash ^ hash;

		for (int i = 0; differ == 0 && i < groups->words; i++)
			differ = words[i] ^ place->member->words[i];
		if (differ == 0)
			break;
		if (++place == groups->table + groups->places)
			place = groups->table;
	}
	return place;
}

static inline Member *
find_group(const RfGroups *groups, int row)
{
	return groups->is_known[row] && groups->places > 0 ?
		find_place(groups, groups->row_hash[row],
				   groups->row_words + row * groups->words)->member : NULL;
}

/* Twice as many places, or the first ones. */
static void
grow_table(RfGroups *groups)
{
	Place	   *old = groups->table;
	uint32		count = groups->places;

	groups->places = count == 0 ? FIRST_PLACES : 2 * count;
	groups->table = MemoryContextAllocZero(groups->context, groups->places * sizeof(Place));
	for (uint32 i = 0; i < count; i++)
		if (old[i].member != NULL)
			*find_place(groups, old[i].hash, old[i].member->words) = old[i];
	if (old != NULL)
		pfree(old);
}

static Member *
make_member(RfGroups *groups)
{
	Member	   *member;

	if (groups->piece_left < groups->member_bytes)
	{
		groups->piece_left = Max(PIECE_BYTES, groups->member_bytes);
		groups->piece = MemoryContextAllocZero(groups->context, groups->piece_left);
	}
	member = (Member *) groups->piece;
	groups->piece += groups->member_bytes;
	groups->piece_left -= groups->member_bytes;
	return member;
}

static inline Aside *
asides_of(const RfGroups *groups, Member *member)
{
	return (Aside *) (member->words + groups->words);
}

/* Finds the groups of all selected rows; what this reads comes from memory for all at a time. */
static void
find_groups(RfGroups *groups)
{
	const RfBatch *batch = &groups->filter->batch;

	for (int i = 0; i < batch->selected; i++)
	{
		int			row = batch->selection[i];

		groups->row_hash[row] = hash_words(groups, groups->row_words + row * groups->words);
		if (groups->places > 0)
			__builtin_prefetch(first_place(groups, groups->row_hash[row]));
	}
	for (int i = 0; groups->places > 0 && i < batch->selected; i++)
		__builtin_prefetch(first_place(groups, groups->row_hash[batch->selection[i]])->member);
	for (int i = 0; i < batch->selected; i++)
	{
		Member	   *member = find_group(groups, batch->selection[i]);

		groups->of_row[batch->selection[i]] = member;
		if (member != NULL)
			__builtin_prefetch(member->states);
	}
}

void
rf_groups_begin_batch(RfGroups *groups)
{
	RfBatch    *batch = &groups->filter->batch;
	ListCell   *lc;

	groups->hopeless |= groups->filter->hopeless;
	if (groups->hopeless)
	{
		if (groups->group_count > 0)
			rf_groups_finish(groups);
		/* then nobody looks at columns */
		groups->filter->hopeless |= groups->filter->conditions == NIL;
		return;
	}
	foreach(lc, groups->computed)
		rf_expr_eval(lfirst(lc), batch);
	for (int i = 0; i < groups->trans_count; i++)
		if (groups->trans[i].arg != NULL)
			rf_expr_eval(groups->trans[i].arg, batch);
	read_keys(groups);
	find_groups(groups);
}

void
rf_groups_returned(RfGroups *groups, int row)
{
	AggState   *agg = groups->agg;
	AggStatePerGroup states = agg->aggstrategy == AGG_PLAIN ? agg->pergroups[0] :
		agg->hash_pergroup[0];
	const uint64 *words = groups->row_words + row * groups->words;
	Place	   *place;

	/* the node has spilled the row: it has no room for this group */
	if (states == NULL || groups->hopeless || !groups->is_known[row] ||
		find_group(groups, row) != NULL)
		return;
	if (2 * groups->group_count >= groups->places)
	{
		if (groups->places == MAX_PLACES)
			return;
		grow_table(groups);
	}
	place = find_place(groups, groups->row_hash[row], words);
	place->hash = groups->row_hash[row];
	place->member = make_member(groups);
	place->member->states = states;
	memcpy(place->member->words, words, groups->words * sizeof(uint64));
	groups->group_count++;
}

bool
rf_groups_take(RfGroups *groups, int row)
{
	groups->rows++;
	if (!groups->hopeless && !groups->filter->batch.marks[row])
	{
		if (groups->of_row[row] == NULL)
			groups->of_row[row] = find_group(groups, row);
		if (groups->of_row[row] != NULL)
		{
			groups->pending[groups->pending_count++] = row;
			return true;
		}
	}
	groups->by_node++;
	if (groups->rows > groups->look_rows && groups->by_node > groups->rows / 2)
		groups->hopeless = true;
	return false;
}

/* ---------- states ---------- */

#define EACH_ROW(group, row) \
	for (int i_ = 0, row; i_ < groups->pending_count && \
		 (row = groups->pending[i_], group = groups->of_row[row], true); i_++)

/* Returns false if a sum of floats may leave the range. */
static bool
sums_fit(const RfGroups *groups, int number)
{
	const RfExpr *arg = groups->trans[number].arg;
	bool		fit = true;
	Member	   *group;

	EACH_ROW(group, row)
	{
		AggStatePerGroup state = &group->states[number];

		if (arg->has_nulls && arg->nulls[row])
			continue;
		fit &= fabs(rf_float_of(arg->values[row])) <= LARGE_FLOAT &&
			(state->noTransValue || fabs(DatumGetFloat8(state->transValue)) <= LARGE_SUM);
	}
	return fit;
}

static void
count_rows(RfGroups *groups, int number)
{
	const Trans *trans = &groups->trans[number];
	const bool *nulls = trans->vector != NULL && trans->vector->has_nulls ? trans->vector->nulls :
		trans->arg != NULL && trans->arg->has_nulls ? trans->arg->nulls : NULL;
	Member	   *group;

	EACH_ROW(group, row)
	{
		AggStatePerGroup state = &group->states[number];

		if (nulls == NULL || !nulls[row])
			state->transValue = Int64GetDatum(DatumGetInt64(state->transValue) + 1);
	}
}

/* The first value of a group becomes its state: strict functions, and sums of integers. */
#define FIRST_OR(first, next) \
	EACH_ROW(group, row) \
	{ \
		AggStatePerGroup state = &group->states[number]; \
		int64		value = arg->values[row]; \
		if (arg->has_nulls && arg->nulls[row]) \
			continue; \
		if (unlikely(state->transValueIsNull)) \
		{ \
			state->transValue = first; \
			state->transValueIsNull = false; \
			state->noTransValue = false; \
		} \
		else \
			state->transValue = next; \
	}

/* In core's functions the state is the first argument: the value stays where they are equal. */
#define FLOAT_STATE		DatumGetFloat8(state->transValue)
#define FLOAT_VALUE		rf_float_of(value)

/* States that are one number. */
static void
advance_numbers(RfGroups *groups, int number)
{
	const RfExpr *arg = groups->trans[number].arg;
	Member	   *group;

	switch (groups->trans[number].kind)
	{
		case TRANS_SUM:
			FIRST_OR(Int64GetDatum(value),
					 Int64GetDatum((int64) ((uint64) DatumGetInt64(state->transValue) +
											(uint64) value)));
			break;
		case TRANS_LEAST:
			FIRST_OR(Int64GetDatum(value),
					 Int64GetDatum(Min(DatumGetInt64(state->transValue), value)));
			break;
		case TRANS_MOST:
			FIRST_OR(Int64GetDatum(value),
					 Int64GetDatum(Max(DatumGetInt64(state->transValue), value)));
			break;
		case TRANS_FLOAT_SUM:
			FIRST_OR(Float8GetDatum(FLOAT_VALUE), Float8GetDatum(FLOAT_STATE + FLOAT_VALUE));
			break;
		case TRANS_FLOAT_LEAST:
			FIRST_OR(Float8GetDatum(FLOAT_VALUE),
					 Float8GetDatum(float8_lt(FLOAT_STATE, FLOAT_VALUE) ? FLOAT_STATE :
									FLOAT_VALUE));
			break;
		default:
			FIRST_OR(Float8GetDatum(FLOAT_VALUE),
					 Float8GetDatum(float8_gt(FLOAT_STATE, FLOAT_VALUE) ? FLOAT_STATE :
									FLOAT_VALUE));
			break;
	}
}

/* Core's functions change the array in place, too. */
static void
advance_averages(RfGroups *groups, int number)
{
	const RfExpr *arg = groups->trans[number].arg;
	Member	   *group;

	EACH_ROW(group, row)
	{
		AggStatePerGroup state = &group->states[number];
		int64	   *count_and_sum = (int64 *) ARR_DATA_PTR((ArrayType *)
														   DatumGetPointer(state->transValue));

		if (arg->has_nulls && arg->nulls[row])
			continue;
		count_and_sum[0]++;
		count_and_sum[1] += arg->values[row];
	}
}

#define EACH_ASIDE(change) \
	EACH_ROW(group, row) \
	{ \
		Aside	   *aside = asides_of(groups, group) + groups->trans[number].aside; \
		int64		value = arg->values[row]; \
		if (arg->has_nulls && arg->nulls[row]) \
			continue; \
		change; \
		aside->count++; \
	}

static void
advance_asides(RfGroups *groups, int number)
{
	const RfExpr *arg = groups->trans[number].arg;
	Member	   *group;

	switch (groups->trans[number].kind)
	{
		case TRANS_WIDE_SUM:
			EACH_ASIDE(aside->value += value);
			break;
		case TRANS_WIDE_LEAST:
			EACH_ASIDE(if (aside->count == 0 || value < aside->value) aside->value = value);
			break;
		default:
			EACH_ASIDE(if (aside->count == 0 || value > aside->value) aside->value = value);
			break;
	}
}

int
rf_groups_settle(RfGroups *groups)
{
	int			count = groups->pending_count;

	if (count == 0)
		return 0;
	for (int i = 0; i < groups->trans_count; i++)
	{
		if (groups->trans[i].kind != TRANS_FLOAT_SUM || sums_fit(groups, i))
			continue;
		for (int row = 0; row < count; row++)
			groups->filter->batch.marks[groups->pending[row]] = 1;
		groups->rows -= count;
		groups->pending_count = 0;
		return count;
	}
	for (int i = 0; i < groups->trans_count; i++)
	{
		switch (groups->trans[i].kind)
		{
			case TRANS_COUNT:
				count_rows(groups, i);
				break;
			case TRANS_AVERAGE:
				advance_averages(groups, i);
				break;
			case TRANS_WIDE_SUM:
			case TRANS_WIDE_LEAST:
			case TRANS_WIDE_MOST:
				advance_asides(groups, i);
				break;
			default:
				advance_numbers(groups, i);
				break;
		}
	}
	groups->pending_count = 0;
	return 0;
}

/* ---------- what was kept aside ---------- */

/* Calls a function of aggregates as the node does, in the scratch memory. */
static Datum
call(RfGroups *groups, Oid function, Oid collation, NullableDatum first, NullableDatum second,
	 bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 2);
	FmgrInfo	flinfo;
	Datum		result;

	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 2, collation, (Node *) groups->agg, NULL);
	fcinfo->args[0] = first;
	fcinfo->args[1] = second;
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

/* A sum joins the node's state, which is a pointer to memory of the node. */
static void
combine_sum(RfGroups *groups, int number, AggStatePerGroup state, const Aside *aside)
{
	bool		numerics = groups->agg->pertrans[number].transfn_oid == F_NUMERIC_AVG_ACCUM;
	bytea	   *image = rf_scaled_state(aside->count, aside->value,
										groups->trans[number].arg->scale, numerics);
	NullableDatum bytes = {PointerGetDatum(image), false};
	NullableDatum nothing = {(Datum) 0, false};
	NullableDatum old = {state->transValue, state->transValueIsNull};
	NullableDatum added = {0};

	added.value = call(groups, numerics ? F_NUMERIC_AVG_DESERIALIZE : F_INT8_AVG_DESERIALIZE,
					   InvalidOid, bytes, nothing, &added.isnull);
	state->transValue = call(groups, numerics ? F_NUMERIC_AVG_COMBINE : F_INT8_AVG_COMBINE,
							 InvalidOid, old, added, &state->transValueIsNull);
	state->noTransValue = false;
}

/* A least or largest numeric is one more value for the node's function. */
static void
advance_value(RfGroups *groups, int number, AggStatePerGroup state, const Aside *aside)
{
	AggStatePerTrans pertrans = &groups->agg->pertrans[number];
	MemoryContext lasting = groups->agg->curaggcontext->ecxt_per_tuple_memory;
	NullableDatum old = {state->transValue, state->transValueIsNull};
	int			scale = groups->trans[number].arg->scale;
	NullableDatum value = {rf_scaled_numeric(aside->value, scale), false};
	Datum		result = value.value;
	bool		isnull = false;
	MemoryContext caller;

	if (!old.isnull)
		result = call(groups, pertrans->transfn_oid, pertrans->aggCollation, old, value, &isnull);
	if (!old.isnull && DatumGetPointer(result) == DatumGetPointer(old.value))
		return;
	caller = MemoryContextSwitchTo(lasting);
	state->transValue = datumCopy(result, pertrans->transtypeByVal, pertrans->transtypeLen);
	MemoryContextSwitchTo(caller);
	if (!old.isnull)
		pfree(DatumGetPointer(old.value));
	state->transValueIsNull = false;
	state->noTransValue = false;
}

void
rf_groups_finish(RfGroups *groups)
{
	AggState   *agg = groups->agg;
	ExprContext *around = agg->curaggcontext;
	MemoryContext caller = MemoryContextSwitchTo(groups->scratch);

	agg->curaggcontext = agg->aggstrategy == AGG_HASHED ? agg->hashcontext : agg->aggcontexts[0];
	for (uint32 at = 0; at < groups->places && groups->asides > 0; at++)
	{
		Member	   *group = groups->table[at].member;

		if (group == NULL)
			continue;
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < groups->trans_count; i++)
		{
			Aside	   *aside = asides_of(groups, group) + groups->trans[i].aside;
			TransKind	kind = groups->trans[i].kind;

			if ((kind != TRANS_WIDE_SUM && kind < TRANS_WIDE_LEAST) || aside->count == 0)
				continue;
			if (kind == TRANS_WIDE_SUM)
				combine_sum(groups, i, &group->states[i], aside);
			else
				advance_value(groups, i, &group->states[i], aside);
		}
		MemoryContextReset(groups->scratch);
	}
	MemoryContextSwitchTo(caller);
	agg->curaggcontext = around;
	rf_groups_reset(groups);
}
