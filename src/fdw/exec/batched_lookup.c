/*
 * batched_lookup.c
 *		Looks rows up on data nodes by the values of parameters, for many values at once
 *		(plan/lookahead_plan.c).
 *
 * The scan below has a statement that takes arrays of values. When a value is asked for of which no
 * rows are known, the statement gets it and all other values that are expected (lookahead.c), and
 * the rows of each are kept, so that a value that comes again needs no statement either. A value
 * alone, when no further values are expected, is asked for as a scan would: its rows are handed on
 * as they come, and are kept only if they are few and all of them were read.
 *
 * Values are the same if their bytes are, so an equal one with other bytes is looked up again. They
 * and their rows live in memory contexts that are emptied as a whole: both before rows are read
 * ahead, when they have become larger than half of hash_mem, the rows' context also before a batch,
 * and when a batch outgrows hash_mem. Then its rows were too many, and fewer values are looked up
 * at once from there on. All state is of one backend and one execution.
 *
 * A lookup by keys (plan/lookup_paths.c) has a statement for an array of keys, and finds the key of
 * each row here, by the operator of the join. When the keys sent are more than were worth it, all
 * rows of the table are read instead, once, and kept by the scan. A batch more is another
 * statement, which sees rows that this transaction has written on the data node since the
 * statement before, and this query must not show. So there is only one wherever something could
 * write between two: where the query writes or locks rows, calls functions that are not built in,
 * or hands out its rows in portions. Then the statement has all keys that will follow, or asks for
 * all rows if memory has no place for these, and what does not fit is taken from the rows that the
 * scan has kept.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "lookup_state.h"

/* Values are expected for no more than would find so many rows, as far as is known. */
#define ROWS_EXPECTED	20000

/*
 * Asks for more of them only if that has paid: a value takes less time than this, or less than half
 * of its time in the statement before, with fewer. Otherwise the time is not spent in round trips,
 * and a value that is not wanted in the end would be expensive.
 */
#define CHEAP_VALUE_MS	0.1
#define FEW_VALUES		8

/* Values at once. Of keys, which the planner has priced, see RF_KEYS_MAX. */
#define MOST_VALUES		1000

/* Rows of a value that was looked up alone are kept if they are no more than these. */
#define ROWS_KEPT		1000

typedef struct KnownEntry
{
	Known	   *known;
	uint32		hash;
	char		status;
} KnownEntry;

static uint32 hash_known(const RfLookup *lookup, const Known *known);
static bool same_known(const RfLookup *lookup, const Known *one, const Known *other);

#define SH_PREFIX known
#define SH_ELEMENT_TYPE KnownEntry
#define SH_KEY_TYPE Known *
#define SH_KEY known
#define SH_HASH_KEY(tb, key) hash_known((tb)->private_data, key)
#define SH_EQUAL(tb, a, b) same_known((tb)->private_data, a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* The lookups of all plans that are set up in this backend. */
static dlist_head lookups = DLIST_STATIC_INIT(lookups);

/* ---------- values ---------- */

static uint32
hash_known(const RfLookup *lookup, const Known *known)
{
	Keys	   *keys = lookup->keys;
	uint32		hash = 0;

	if (keys != NULL)
		return known->isnull[0] ? 0 :
			DatumGetUInt32(FunctionCall1Coll(known->of_row ? &keys->hash_column : &keys->hash_key,
											 keys->collation, known->values[0]));
	for (int i = 0; i < lookup->params.count; i++)
	{
		const ValueType *type = &lookup->params.types[i];

		hash = hash_combine(hash, known->isnull[i] ? 0 :
							datum_image_hash(known->values[i], type->by_value, type->length));
	}
	return hash;
}

/* A row's column is the second one if any is. */
static bool
same_known(const RfLookup *lookup, const Known *one, const Known *other)
{
	Keys	   *keys = lookup->keys;

	if (keys != NULL && (one->isnull[0] || other->isnull[0]))
		return one->isnull[0] && other->isnull[0];
	if (keys != NULL)
		return DatumGetBool(FunctionCall2Coll(other->of_row ? &keys->equal : &keys->same_key,
											  keys->collation, other->values[0], one->values[0]));
	for (int i = 0; i < lookup->params.count; i++)
	{
		const ValueType *type = &lookup->params.types[i];

		if (one->isnull[i] != other->isnull[i] ||
			(!one->isnull[i] &&
			 !datum_image_eq(one->values[i], other->values[i], type->by_value, type->length)))
			return false;
	}
	return true;
}

/* A key that is NULL. */
static bool
equals_nothing(const RfLookup *lookup, const Known *known)
{
	return lookup->keys != NULL && known->isnull[0];
}

static void
forget_all(RfLookup *lookup)
{
	KnownValues *known = &lookup->known;

	MemoryContextReset(known->context);
	MemoryContextReset(known->rows);
	known->table = known_create(known->context, 64, lookup);
	memset(&known->expected, 0, sizeof(known->expected));
	memset(&known->order, 0, sizeof(known->order));
	known->next = 0;
	lookup->rows.current = NULL;
}

/* Frees the rows of all values but keeps the list of expected values. */
static void
forget_rows(RfLookup *lookup)
{
	known_iterator each;
	KnownEntry *entry;

	MemoryContextReset(lookup->known.rows);
	known_start_iterate(lookup->known.table, &each);
	while ((entry = known_iterate(lookup->known.table, &each)) != NULL)
	{
		entry->known->rows = NULL;
		entry->known->row_count = entry->known->row_space = 0;
		entry->known->complete = equals_nothing(lookup, entry->known);
	}
}

/* Its size as a part of hash_mem */
static double
share_kept(MemoryContext context)
{
	return MemoryContextMemAllocated(context, true) / (double) get_hash_memory_limit();
}

/* Returns true if the parameters have these values, byte for byte. */
static bool
are_current(const LookupParams *params, const Known *known)
{
	for (int i = 0; i < params->count; i++)
	{
		const ValueType *type = &params->types[i];

		if (known->isnull[i] != params->isnull[i] ||
			(!known->isnull[i] && known->values[i] != params->values[i] &&
			 (type->by_value ||
			  !datum_image_eq(known->values[i], params->values[i], false, type->length))))
			return false;
	}
	return true;
}

static void
append_known(KnownValues *values, KnownList *list, Known *known)
{
	if (list->count == list->space)
	{
		list->space = Max(list->count * 2, 64);
		list->values = list->values == NULL ?
			MemoryContextAlloc(values->context, sizeof(Known *) * list->space) :
			repalloc_huge(list->values, sizeof(Known *) * list->space);
	}
	list->values[list->count++] = known;
}

/*
 * The entry of the values that the parameters have now; a new entry if they are unknown. Without
 * looking for it if it is next in the order of the Lookahead, so that memory is read in sequence.
 */
static Known *
current_values(RfLookup *lookup, bool wanted)
{
	ExprContext *econtext = lookup->css.ss.ps.ps_ExprContext;
	const LookupParams *params = &lookup->params;
	const KnownList *order = &lookup->known.order;
	MemoryContext caller;
	KnownEntry *entry;
	Known		values = {0};
	Known	   *added;
	bool		found;

	ResetExprContext(econtext);
	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	values.values = params->values;
	values.isnull = params->isnull;
	for (int i = 0; i < params->count; i++)
		values.values[i] = ExecEvalExpr((ExprState *) list_nth(params->exprs, i), econtext,
										&values.isnull[i]);
	if (wanted && lookup->known.next < order->count &&
		are_current(params, order->values[lookup->known.next]))
	{
		MemoryContextSwitchTo(caller);
		return order->values[lookup->known.next++];
	}
	entry = known_insert(lookup->known.table, &values, &found);
	if (!found)
	{
		MemoryContextSwitchTo(lookup->known.context);
		added = palloc0(sizeof(Known) + (sizeof(Datum) + sizeof(bool)) * params->count);
		added->values = (Datum *) (added + 1);
		added->isnull = (bool *) (added->values + params->count);
		for (int i = 0; i < params->count; i++)
		{
			const ValueType *type = &params->types[i];

			added->isnull[i] = values.isnull[i];
			added->values[i] = values.isnull[i] ? (Datum) 0 :
				datumCopy(values.values[i], type->by_value, type->length);
		}
		added->part = lookup->single == NULL ?
			-1 :
			rf_single_node(lookup->single, econtext, lookup->part_count);
		added->complete = equals_nothing(lookup, added);
		entry->known = added;
	}
	MemoryContextSwitchTo(caller);
	return entry->known;
}

static void
add_expected(KnownValues *values, Known *known)
{
	if (known->complete || known->expected)
		return;
	known->expected = true;
	append_known(values, &values->expected, known);
}

static void
expect_nothing(KnownList *expected)
{
	for (int i = 0; i < expected->count; i++)
		expected->values[i]->expected = false;
	expected->count = 0;
}

RfLookup *
rf_lookup_find(EState *estate, int number)
{
	dlist_iter	iter;

	dlist_foreach(iter, &lookups)
	{
		RfLookup   *lookup = dlist_container(RfLookup, node, iter.cur);

		if (lookup->css.ss.ps.state == estate && lookup->number == number)
			return lookup;
	}
	return NULL;
}

/* Another statement may follow only if nothing can write to the data node between them. */
static bool
is_one_statement(EState *estate)
{
	PlannedStmt *plan = estate->es_plannedstmt;
	ListCell   *lc;

	if (!rf_scan_whole_run(estate) || estate->es_epq_active != NULL || plan == NULL ||
		plan->commandType != CMD_SELECT || plan->hasModifyingCTE || plan->rowMarks != NIL)
		return true;
	/* as in rows_may_stay_in_place() */
	foreach(lc, plan->invalItems)
	{
		if (lfirst_node(PlanInvalItem, lc)->cacheId == PROCOID)
			return true;
	}
	return false;
}

/*
 * The number of rows whose keys are expected next. When the plan above has started again, rows of
 * earlier statements go where the scan has other parameters now, and where there may be one
 * statement only, which would not ask for them again.
 */
static int
begin_keys(RfLookup *lookup, int rows, bool first)
{
	Keys	   *keys = lookup->keys;

	if (first)
	{
		keys->one_statement = is_one_statement(lookup->css.ss.ps.state);
		keys->asked = keys->all_rows = false;
		keys->spent = 0;
		lookup->pace.most = INT_MAX;
		if (keys->one_statement ||
			bms_overlap(lookup->css.ss.ps.chgParam, lookup->scan->ss.ps.plan->allParam))
			forget_all(lookup);
	}
	return keys->first_rows && !keys->one_statement && !keys->all_rows ?
		Max(rows, RF_KEYS_FIRST) : INT_MAX;
}

/* How many values are worth a statement: no more, if more of them took no less time each. */
static int
values_worth(const LookupPace *pace)
{
	return pace->sent_values < FEW_VALUES || pace->value_ms < CHEAP_VALUE_MS ||
		pace->value_ms * 2 < pace->value_ms_before ? INT_MAX : pace->sent_values;
}

int
rf_lookup_begin(RfLookup *lookup, int rows, bool first)
{
	KnownValues *known = &lookup->known;
	const LookupCounters *counters = &lookup->counters;
	uint64		found = counters->read_values == 0 ? 1 : counters->rows / counters->read_values;

	/* values that were expected and never came are not wanted any more */
	expect_nothing(&known->expected);
	known->order.count = known->next = 0;
	if (share_kept(known->context) + share_kept(known->rows) > 0.5)
		forget_all(lookup);
	if (lookup->keys != NULL)
		return begin_keys(lookup, rows, first);
	return (int) Max(Min(Min(rows, MOST_VALUES),
						 Min(ROWS_EXPECTED / Max(found, 1),
							 Min(values_worth(&lookup->pace), lookup->pace.most))), 1);
}

bool
rf_lookup_expect(RfLookup *lookup)
{
	const Keys *keys = lookup->keys;
	KnownValues *values = &lookup->known;
	Known	   *known = current_values(lookup, false);

	add_expected(values, known);
	append_known(values, &values->order, known);
	return keys == NULL ||
		((keys->all_rows || values->expected.count < RF_KEYS_MAX) &&
		 share_kept(values->context) < 0.5);
}

void
rf_lookup_expected(RfLookup *lookup, bool more)
{
	if (lookup->keys != NULL)
		lookup->keys->more = more;
}

/* ---------- begin and end ---------- */

/* After an error core does not call End, but frees the query's memory. */
static void
query_memory_gone(void *arg)
{
	RfLookup   *lookup = arg;

	if (lookup->node.next != NULL)
		dlist_delete(&lookup->node);
	lookup->node.next = NULL;
}

/* The operator's functions, of which those for two types may differ, and the planner's numbers. */
static void
set_up_keys(RfLookup *lookup, const RfLookupPlan *plan)
{
	List	   *operator = plan->operator;
	Keys	   *keys = palloc0_object(Keys);
	RegProcedure hash_column;
	RegProcedure hash_key;
	Oid			same_column;
	Oid			same_key;

	if (!get_op_hash_functions(linitial_oid(operator), &hash_column, &hash_key) ||
		!get_compatible_hash_operators(linitial_oid(operator), &same_column, &same_key))
		elog(ERROR, "operator %u of a lookup cannot be hashed", linitial_oid(operator));
	fmgr_info(hash_column, &keys->hash_column);
	fmgr_info(hash_key, &keys->hash_key);
	fmgr_info(get_opcode(linitial_oid(operator)), &keys->equal);
	fmgr_info(get_opcode(same_key), &keys->same_key);
	keys->collation = lsecond_oid(operator);
	keys->column = plan->column;
	keys->key_rows = plan->key_rows;
	keys->most = plan->most;
	keys->first_rows = plan->first_rows;
	lookup->keys = keys;
}

static void
set_up_params(LookupParams *params, List *exprs, int count, PlanState *node)
{
	params->exprs = ExecInitExprList(exprs, node);
	params->count = count;
	params->types = palloc_array(ValueType, count);
	params->values = palloc_array(Datum, count);
	params->isnull = palloc_array(bool, count);
	for (int i = 0; i < count; i++)
	{
		ValueType  *type = &params->types[i];

		type->type = getBaseType(exprType(list_nth(exprs, i)));
		get_typlenbyvalalign(type->type, &type->length, &type->by_value, &type->align);
	}
}

/* The sort keys of a merge, and slots for columns of the rows below with these keys behind them */
static void
set_up_rows(LookupRows *rows, const RfLookupPlan *plan, TupleDesc below, EState *estate)
{
	TupleDesc	desc;
	ListCell   *lc;

	rows->column_count = plan->columns;
	rows->sort_count = list_length(plan->sort);
	rows->sort = palloc0_array(SortSupportData, Max(rows->sort_count, 1));
	foreach(lc, plan->sort)
	{
		SortSupport support = &rows->sort[foreach_current_index(lc)];
		RfMergeKey *key = lfirst(lc);

		support->ssup_cxt = estate->es_query_cxt;
		support->ssup_nulls_first = key->nulls_first;
		support->ssup_collation = key->collation;
		support->ssup_attno = rows->column_count + foreach_current_index(lc) + 1;
		PrepareSortSupportFromOrderingOp(key->operator, support);
	}
	desc = CreateTemplateTupleDesc(rows->column_count + rows->sort_count);
	for (int i = 1; i <= desc->natts; i++)
		TupleDescCopyEntry(desc, i, below, i);
	rf_tupdesc_finish(desc);
	rows->row = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	rows->kept_row = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
}

/*
 * Sets the lookup up below the executor's tree: parameters, the node that a key selects, rows, and
 * makes it known to the Lookahead above.
 */
static void
begin_lookup(CustomScanState *css, EState *estate, int eflags)
{
	RfLookup   *lookup = (RfLookup *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	RfLookupPlan *ours = rf_plan_node_of(RfLookupPlan, plan->custom_private);
	List	   *params = plan->custom_exprs;
	int			param_count;
	List	   *node_keys = NIL;
	ListCell   *lc;

	outerPlanState(css) = ExecInitNode(outerPlan(plan), estate, eflags);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	lookup->scan = (ForeignScanState *) outerPlanState(css);
	lookup->number = ours->number;
	/* behind the parameters' values it gets their places */
	param_count = list_length(rf_scan_plan((ForeignScan *) outerPlan(plan))->param_types) - 1;
	if (ours->operator != NIL)
	{
		set_up_keys(lookup, ours);
		params = list_make1(linitial(params));
		param_count = 1;
	}
	set_up_params(&lookup->params, params, param_count, &css->ss.ps);
	set_up_rows(&lookup->rows, ours, ExecGetResultType(outerPlanState(css)), estate);
	lookup->part_count = ((RfScanState *) lookup->scan->fdw_state)->part_count;
	foreach(lc, ours->prune)
		node_keys = lappend(node_keys, list_nth(lookup->params.exprs, lfirst_int(lc)));
	if (ours->prune != NIL)
		lookup->single = rf_single_node_create(node_keys, ours->keys, ours->server);

	lookup->known.context = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw values known",
												  ALLOCSET_DEFAULT_SIZES);
	lookup->known.rows = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw rows looked up",
											   ALLOCSET_DEFAULT_SIZES);
	lookup->sent = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw values looked up",
										 ALLOCSET_DEFAULT_SIZES);
	lookup->pace.most = INT_MAX;
	forget_all(lookup);

	dlist_push_head(&lookups, &lookup->node);
	lookup->gone.func = query_memory_gone;
	lookup->gone.arg = lookup;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &lookup->gone);
}

static void
end_lookup(CustomScanState *css)
{
	RfLookup   *lookup = (RfLookup *) css;

	query_memory_gone(lookup);
	if (lookup->rows.row != NULL)
	{
		ExecDropSingleTupleTableSlot(lookup->rows.row);
		ExecDropSingleTupleTableSlot(lookup->rows.kept_row);
	}
	ExecEndNode(outerPlanState(css));
}

/*
 * The scan starts when there are values for it. In EvalPlanQual it has another row each time, and
 * no Lookahead says so.
 */
static void
rescan_lookup(CustomScanState *css)
{
	RfLookup   *lookup = (RfLookup *) css;

	if (lookup->keys != NULL && css->ss.ps.state->es_epq_active != NULL)
	{
		forget_all(lookup);
		lookup->keys->asked = false;
	}
	lookup->rows.current = NULL;
}

/* ---------- rows ---------- */

/* The rows of the last statement are here. */
static void
note_end(LookupPace *pace)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, pace->sent_at);
	pace->value_ms = INSTR_TIME_GET_MILLISEC(now) / pace->sent_values;
}

/* The key of this pass that the row has; NULL: it has another key. */
static Known *
find_key(RfLookup *lookup, TupleTableSlot *slot)
{
	int			column = lookup->keys->column;
	Known		values = {.values = &slot->tts_values[column],
	.isnull = &slot->tts_isnull[column], .of_row = true};
	ExprContext *econtext = lookup->css.ss.ps.ps_ExprContext;
	MemoryContext caller;
	KnownEntry *entry;

	if (slot->tts_isnull[column])
		return NULL;
	/* hashing may leave something behind */
	ResetExprContext(econtext);
	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	entry = known_lookup(lookup->known.table, &values);
	MemoryContextSwitchTo(caller);
	return entry == NULL || entry->known->pass != lookup->pass ? NULL : entry->known;
}

/*
 * The scan's next row, without the place of its values among these, which are *known; NULL at the
 * end.
 */
static TupleTableSlot *
receive(RfLookup *lookup, Known *const *values, int count, Known **known)
{
	TupleTableSlot *row = lookup->rows.row;
	int			natts = row->tts_tupleDescriptor->natts;
	TupleTableSlot *slot;
	int64		place;

	do
	{
		CHECK_FOR_INTERRUPTS();
		slot = ExecProcNode(&lookup->scan->ss.ps);
		if (TupIsNull(slot))
			return NULL;
		slot_getallattrs(slot);
		if (lookup->keys != NULL)
		{
			lookup->keys->spent++;
			*known = find_key(lookup, slot);
		}
		else
		{
			place = slot->tts_isnull[natts] ? 0 : DatumGetInt64(slot->tts_values[natts]);
			if (place < 1 || place > count)
				ereport(ERROR, errcode(ERRCODE_FDW_ERROR),
						errmsg("a data node found rows for value " INT64_FORMAT " of %d", place,
							   count));
			*known = values[place - 1];
		}
	} while (*known == NULL);
	ExecClearTuple(row);
	memcpy(row->tts_values, slot->tts_values, sizeof(Datum) * natts);
	memcpy(row->tts_isnull, slot->tts_isnull, sizeof(bool) * natts);
	return ExecStoreVirtualTuple(row);
}

static void
keep(KnownValues *values, Known *known, TupleTableSlot *row)
{
	MemoryContext caller = MemoryContextSwitchTo(values->rows);

	if (known->row_space == 0)
	{
		known->row_space = 1;
		known->rows = &known->only_row;
	}
	else if (known->row_count == known->row_space)
	{
		known->row_space *= 4;
		if (known->rows == &known->only_row)
		{
			known->rows = palloc_array(MinimalTuple, known->row_space);
			known->rows[0] = known->only_row;
		}
		else
			known->rows = repalloc_huge(known->rows, sizeof(MinimalTuple) * known->row_space);
	}
	known->rows[known->row_count++] = ExecCopySlotMinimalTuple(row);
	MemoryContextSwitchTo(caller);
}

static void
all_read(LookupCounters *counters, Known *known, uint64 rows)
{
	known->complete = true;
	known->expected = false;
	counters->rows += rows;
	counters->read_values++;
}

typedef struct SortedRow
{
	MinimalTuple row;
	Datum	   *keys;
	bool	   *isnull;
} SortedRow;

static int
compare_rows(const void *a, const void *b, void *arg)
{
	const SortedRow *one = a;
	const SortedRow *other = b;
	const LookupRows *rows = arg;

	for (int i = 0; i < rows->sort_count; i++)
	{
		int			order = ApplySortComparator(one->keys[i], one->isnull[i], other->keys[i],
												other->isnull[i], &rows->sort[i]);

		if (order != 0)
			return order;
	}
	return 0;
}

/*
 * Several nodes have sorted their own, for each value. The scan has merged them as if there was
 * one.
 */
static void
sort_rows(LookupRows *rows, MemoryContext scratch, Known *known)
{
	MemoryContext caller;
	SortedRow  *sorted;

	if (rows->sort_count == 0 || known->row_count < 2)
		return;
	caller = MemoryContextSwitchTo(scratch);
	sorted = palloc_array(SortedRow, known->row_count);
	for (int i = 0; i < known->row_count; i++)
	{
		ExecStoreMinimalTuple(known->rows[i], rows->kept_row, false);
		slot_getallattrs(rows->kept_row);
		sorted[i].row = known->rows[i];
		sorted[i].keys = palloc_array(Datum, rows->sort_count);
		sorted[i].isnull = palloc_array(bool, rows->sort_count);
		for (int j = 0; j < rows->sort_count; j++)
		{
			sorted[i].keys[j] = rows->kept_row->tts_values[rows->column_count + j];
			sorted[i].isnull[j] = rows->kept_row->tts_isnull[rows->column_count + j];
		}
	}
	qsort_arg(sorted, known->row_count, sizeof(SortedRow), compare_rows, rows);
	for (int i = 0; i < known->row_count; i++)
		known->rows[i] = sorted[i].row;
	MemoryContextSwitchTo(caller);
}

/*
 * Asks for all rows of this value and of further values that are expected. False: they are too
 * many, and no rows are known any more; fewer values may do.
 */
static bool
look_up_expected(RfLookup *lookup, Known *wanted)
{
	KnownList  *list = &lookup->known.expected;
	Known	  **expected = list->values;
	int			count = Min(list->count, lookup->pace.most);
	ExprContext *econtext = lookup->css.ss.ps.ps_ExprContext;
	int			at = 0;
	TupleTableSlot *row;
	Known	   *known;

	/* the rows of earlier values have been handed on */
	if (share_kept(lookup->known.rows) > 0.5)
		forget_rows(lookup);
	while (expected[at] != wanted)
		at++;
	expected[at] = expected[0];
	expected[0] = wanted;
	/* some may have been read in part */
	for (int i = 0; i < count; i++)
		expected[i]->row_count = 0;
	rf_lookup_send(lookup, expected, count);
	while ((row = receive(lookup, expected, count, &known)) != NULL)
	{
		keep(&lookup->known, known, row);
		if (share_kept(lookup->known.rows) > 1)
		{
			lookup->pace.most = Max(count / FEW_VALUES, 1);
			forget_rows(lookup);
			return false;
		}
	}
	note_end(&lookup->pace);
	for (int i = 0; i < count; i++)
	{
		ResetExprContext(econtext);
		sort_rows(&lookup->rows, econtext->ecxt_per_tuple_memory, expected[i]);
		all_read(&lookup->counters, expected[i], expected[i]->row_count);
	}
	list->count -= count;
	memmove(expected, expected + count, sizeof(Known *) * list->count);
	return true;
}

/*
 * Rows of a value alone are handed on as they come, which may end before all are read. The only
 * statement has to end first.
 */
static bool
is_worth_keeping(RfLookup *lookup)
{
	return Min(lookup->known.expected.count, lookup->pace.most) > 1 ||
		(lookup->keys != NULL && lookup->keys->one_statement && !lookup->keys->asked);
}

/* Selects the rows of the current values to be handed on. */
static void
find_rows(RfLookup *lookup)
{
	LookupRows *rows = &lookup->rows;
	Known	   *known = current_values(lookup, true);

	lookup->counters.lookups++;
	rows->direct = false;
	rows->next = 0;
	if (!known->complete)
	{
		add_expected(&lookup->known, known);
		while (is_worth_keeping(lookup) && !look_up_expected(lookup, known))
			;
	}
	if (!known->complete)
	{
		expect_nothing(&lookup->known.expected);
		known->row_count = 0;
		rf_lookup_send(lookup, &known, 1);
		rows->direct = true;
	}
	rows->current = known;
}

/* A row as it comes. next counts them; they are kept as long as they are few. */
static TupleTableSlot *
next_direct(RfLookup *lookup)
{
	LookupRows *rows = &lookup->rows;
	Known	   *known = rows->current;
	TupleTableSlot *row = receive(lookup, &known, 1, &known);

	if (row == NULL)
	{
		known = rows->current;
		rows->direct = false;
		note_end(&lookup->pace);
		/* rows that were not kept have to be asked for again */
		if (known->row_count == rows->next)
			all_read(&lookup->counters, known, rows->next);
		rows->next = known->row_count;
		return NULL;
	}
	if (known->row_count == rows->next && rows->next < ROWS_KEPT)
		keep(&lookup->known, known, row);
	rows->next++;
	return row;
}

/*
 * The next row for the current values, as a virtual tuple: from the rows that are kept for them, or
 * straight from the scan.
 */
static TupleTableSlot *
exec_lookup(CustomScanState *css)
{
	RfLookup   *lookup = (RfLookup *) css;
	LookupRows *rows = &lookup->rows;
	TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;
	TupleTableSlot *row;

	CHECK_FOR_INTERRUPTS();
	if (rows->current == NULL)
		find_rows(lookup);
	if (rows->direct)
		row = next_direct(lookup);
	else if (rows->next == rows->current->row_count)
		row = NULL;
	else
	{
		row = ExecStoreMinimalTuple(rows->current->rows[rows->next++], rows->kept_row, false);
		slot_getallattrs(row);
	}
	ExecClearTuple(slot);
	if (row == NULL)
		return slot;
	memcpy(slot->tts_values, row->tts_values, sizeof(Datum) * rows->column_count);
	memcpy(slot->tts_isnull, row->tts_isnull, sizeof(bool) * rows->column_count);
	ExecStoreVirtualTuple(slot);
	if (css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	css->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

/* ---------- EXPLAIN ---------- */

static void
explain_lookup(CustomScanState *css, List *ancestors, ExplainState *es)
{
	RfLookup   *lookup = (RfLookup *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	RfLookupPlan *ours = rf_plan_node_of(RfLookupPlan, plan->custom_private);

	if (ours->operator != NIL)
		ExplainPropertyText("Key Cond",
							deparse_expression(lsecond(plan->custom_exprs),
											   set_deparse_context_plan(es->deparse_cxt,
																		&plan->scan.plan,
																		ancestors),
											   true, false), es);
	if (ours->prune != NIL)
		ExplainPropertyText("Each Value", "to one of the nodes", es);
	if (!es->analyze)
		return;
	ExplainPropertyUInteger("Lookups", NULL, lookup->counters.lookups, es);
	ExplainPropertyUInteger("Values Sent", NULL, lookup->counters.values, es);
	ExplainPropertyUInteger("Statements", NULL, lookup->counters.statements, es);
	if (lookup->counters.read_all)
		ExplainPropertyBool("All Rows Read", true, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = RF_LOOKUP_NAME,
	.BeginCustomScan = begin_lookup,
	.ExecCustomScan = exec_lookup,
	.EndCustomScan = end_lookup,
	.ReScanCustomScan = rescan_lookup,
	.ExplainCustomScan = explain_lookup
};

static Node *
create_state(CustomScan *plan)
{
	RfLookup   *lookup = (RfLookup *) newNode(sizeof(RfLookup), T_CustomScanState);

	lookup->css.methods = &exec_methods;
	return (Node *) lookup;
}

static const CustomScanMethods scan_methods = {RF_LOOKUP_NAME, create_state};

void
rf_lookup_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
