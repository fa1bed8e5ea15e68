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

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "portability/instr_time.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/sortsupport.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "lookahead.h"
#include "scan_state.h"

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

/* Values of all parameters, and the rows that are known to belong to them */
typedef struct Known
{
	Datum	   *values;
	bool	   *isnull;
	int			part;			/* of the scan, which alone has rows for them; -1: any */
	MinimalTuple *rows;
	MinimalTuple only_row;		/* if there is space for one */
	int			row_count;
	int			row_space;
	bool		complete;		/* these are all of its rows */
	bool		expected;		/* it is in `expected` of its lookup */
	bool		of_row;			/* a row's column, to find the key */
	uint64		pass;			/* of the lookup, that reads its rows */
} Known;

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

typedef struct ValueType
{
	Oid			type;
	int16		length;
	bool		by_value;
	char		align;
} ValueType;

/* A lookup by keys */
typedef struct Keys
{
	FmgrInfo	hash_key;
	FmgrInfo	hash_column;
	FmgrInfo	same_key;		/* two keys */
	FmgrInfo	equal;			/* a column and a key */
	Oid			collation;
	int			column;			/* in the scan's rows */
	double		key_rows;		/* the cost of sending a key, in rows */
	double		most;			/* after lookups that cost this many rows, all are read */
	bool		first_rows;		/* begin with few keys */

	/* since the Lookahead started: */
	bool		one_statement;	/* there may be no other */
	bool		asked;
	bool		all_rows;		/* the statement asks for all */
	bool		more;			/* keys will follow those expected */
	double		spent;			/* in rows */
} Keys;

struct RfLookup
{
	CustomScanState css;		/* must be first */
	dlist_node	node;			/* in `lookups` */
	MemoryContextCallback gone;
	int			number;
	ForeignScanState *scan;
	Datum	   *values_now;		/* of the parameters */
	bool	   *isnull_now;
	List	   *params;			/* ExprStates; further parameters of the scan may follow them */
	int			param_count;
	Keys	   *keys;			/* NULL: each row comes with the place of its values */
	RfSingleNode *single;		/* which node has the rows for their values; NULL: any may */
	int			part_count;		/* of the scan */
	ValueType  *types;			/* of the parameters */
	int			column_count;	/* of a row */
	int			sort_count;		/* keys behind the columns */
	SortSupport sort;

	MemoryContext kept;			/* values */
	MemoryContext rows_kept;	/* their rows */
	known_hash *known;			/* in it, as all that follow */
	Known	  **expected;
	int			expected_count;
	int			expected_space;
	Known	  **order;			/* all values that the Lookahead has told, in its order, in which
								 * the plan above asks for them */
	int			order_count;
	int			order_space;
	int			order_next;
	Known	   *current;		/* whose rows are handed on; NULL: ask for the parameters' values */
	int			next;			/* of them */
	bool		direct;			/* the rows come from the scan */
	int			most;			/* values at once, as more have found too many rows */

	MemoryContext sent;			/* the arrays of the last statement */
	TupleTableSlot *row;		/* columns and keys, to copy */
	TupleTableSlot *kept_row;

	int			sent_values;	/* in the last statement, */
	instr_time	sent_at;
	double		value_ms;		/* and the time that each took; 0: not known */
	double		value_ms_before;	/* the same with the last other number of values */

	uint64		pass;			/* of the scan */

	/* for EXPLAIN and for later estimates */
	uint64		statements;
	uint64		values;			/* in them */
	uint64		rows;			/* found for them, as far as all were read */
	uint64		read_values;	/* whose rows were all read */
	uint64		lookups;
	bool		read_all;
};

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
	for (int i = 0; i < lookup->param_count; i++)
	{
		const ValueType *type = &lookup->types[i];

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
	for (int i = 0; i < lookup->param_count; i++)
	{
		const ValueType *type = &lookup->types[i];

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
	MemoryContextReset(lookup->kept);
	MemoryContextReset(lookup->rows_kept);
	lookup->known = known_create(lookup->kept, 64, lookup);
	lookup->expected = NULL;
	lookup->expected_count = lookup->expected_space = 0;
	lookup->order = NULL;
	lookup->order_count = lookup->order_space = lookup->order_next = 0;
	lookup->current = NULL;
}

/* Frees the rows of all values but keeps the list of expected values. */
static void
forget_rows(RfLookup *lookup)
{
	known_iterator each;
	KnownEntry *entry;

	MemoryContextReset(lookup->rows_kept);
	known_start_iterate(lookup->known, &each);
	while ((entry = known_iterate(lookup->known, &each)) != NULL)
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
are_current(const RfLookup *lookup, const Known *known)
{
	for (int i = 0; i < lookup->param_count; i++)
	{
		const ValueType *type = &lookup->types[i];

		if (known->isnull[i] != lookup->isnull_now[i] ||
			(!known->isnull[i] && known->values[i] != lookup->values_now[i] &&
			 (type->by_value ||
			  !datum_image_eq(known->values[i], lookup->values_now[i], false, type->length))))
			return false;
	}
	return true;
}

/* A place more in an array of values. */
static Known **
with_space(RfLookup *lookup, Known **values, int count, int *space)
{
	if (count < *space)
		return values;
	*space = Max(count * 2, 64);
	return values == NULL ? MemoryContextAlloc(lookup->kept, sizeof(Known *) * *space) :
		repalloc_huge(values, sizeof(Known *) * *space);
}

/*
 * The entry of the values that the parameters have now; a new entry if they are unknown. Without
 * looking for it if it is next in the order of the Lookahead, so that memory is read in sequence.
 */
static Known *
current_values(RfLookup *lookup, bool wanted)
{
	ExprContext *econtext = lookup->css.ss.ps.ps_ExprContext;
	MemoryContext caller;
	KnownEntry *entry;
	Known		values = {0};
	Known	   *added;
	bool		found;

	ResetExprContext(econtext);
	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	values.values = lookup->values_now;
	values.isnull = lookup->isnull_now;
	for (int i = 0; i < lookup->param_count; i++)
		values.values[i] = ExecEvalExpr((ExprState *) list_nth(lookup->params, i), econtext,
										&values.isnull[i]);
	if (wanted && lookup->order_next < lookup->order_count &&
		are_current(lookup, lookup->order[lookup->order_next]))
	{
		MemoryContextSwitchTo(caller);
		return lookup->order[lookup->order_next++];
	}
	entry = known_insert(lookup->known, &values, &found);
	if (!found)
	{
		MemoryContextSwitchTo(lookup->kept);
		added = palloc0(sizeof(Known) + (sizeof(Datum) + sizeof(bool)) * lookup->param_count);
		added->values = (Datum *) (added + 1);
		added->isnull = (bool *) (added->values + lookup->param_count);
		for (int i = 0; i < lookup->param_count; i++)
		{
			const ValueType *type = &lookup->types[i];

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
add_expected(RfLookup *lookup, Known *known)
{
	if (known->complete || known->expected)
		return;
	lookup->expected = with_space(lookup, lookup->expected, lookup->expected_count,
								  &lookup->expected_space);
	known->expected = true;
	lookup->expected[lookup->expected_count++] = known;
}

static void
expect_nothing(RfLookup *lookup)
{
	for (int i = 0; i < lookup->expected_count; i++)
		lookup->expected[i]->expected = false;
	lookup->expected_count = 0;
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
		lookup->most = INT_MAX;
		if (keys->one_statement ||
			bms_overlap(lookup->css.ss.ps.chgParam, lookup->scan->ss.ps.plan->allParam))
			forget_all(lookup);
	}
	return keys->first_rows && !keys->one_statement && !keys->all_rows ?
		Max(rows, RF_KEYS_FIRST) : INT_MAX;
}

int
rf_lookup_begin(RfLookup *lookup, int rows, bool first)
{
	uint64		found = lookup->read_values == 0 ? 1 : lookup->rows / lookup->read_values;
	int			worth = lookup->sent_values < FEW_VALUES || lookup->value_ms < CHEAP_VALUE_MS ||
		lookup->value_ms * 2 < lookup->value_ms_before ? INT_MAX : lookup->sent_values;

	/* values that were expected and never came are not wanted any more */
	expect_nothing(lookup);
	lookup->order_count = lookup->order_next = 0;
	if (share_kept(lookup->kept) + share_kept(lookup->rows_kept) > 0.5)
		forget_all(lookup);
	if (lookup->keys != NULL)
		return begin_keys(lookup, rows, first);
	return (int) Max(Min(Min(rows, MOST_VALUES),
						 Min(ROWS_EXPECTED / Max(found, 1), Min(worth, lookup->most))), 1);
}

bool
rf_lookup_expect(RfLookup *lookup)
{
	Keys	   *keys = lookup->keys;
	Known	   *known = current_values(lookup, false);

	add_expected(lookup, known);
	lookup->order = with_space(lookup, lookup->order, lookup->order_count, &lookup->order_space);
	lookup->order[lookup->order_count++] = known;
	return keys == NULL ||
		((keys->all_rows || lookup->expected_count < RF_KEYS_MAX) &&
		 share_kept(lookup->kept) < 0.5);
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

/*
 * Sets the lookup up below the executor's tree: the types of the parameters, the node that a key
 * selects, the sort keys of a merge and the slots of the rows, and makes it known to the Lookahead
 * above.
 */
static void
begin_lookup(CustomScanState *css, EState *estate, int eflags)
{
	RfLookup   *lookup = (RfLookup *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	RfLookupPlan *ours = rf_plan_node_of(RfLookupPlan, plan->custom_private);
	List	   *params = ours->operator == NIL ? plan->custom_exprs :
		list_make1(linitial(plan->custom_exprs));
	List	   *node_keys = NIL;
	TupleDesc	below;
	TupleDesc	desc;
	ListCell   *lc;

	outerPlanState(css) = ExecInitNode(outerPlan(plan), estate, eflags);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	lookup->scan = (ForeignScanState *) outerPlanState(css);
	lookup->number = ours->number;
	lookup->column_count = ours->columns;
	lookup->params = ExecInitExprList(params, &css->ss.ps);
	if (ours->operator != NIL)
		set_up_keys(lookup, ours);
	/* behind the parameters' values it gets their places */
	lookup->param_count = ours->operator != NIL ? 1 :
		list_length(rf_scan_plan((ForeignScan *) outerPlan(plan))->param_types) - 1;
	lookup->types = palloc_array(ValueType, lookup->param_count);
	lookup->values_now = palloc_array(Datum, lookup->param_count);
	lookup->isnull_now = palloc_array(bool, lookup->param_count);
	for (int i = 0; i < lookup->param_count; i++)
	{
		ValueType  *type = &lookup->types[i];

		type->type = getBaseType(exprType(list_nth(params, i)));
		get_typlenbyvalalign(type->type, &type->length, &type->by_value, &type->align);
	}
	lookup->part_count = ((RfScanState *) lookup->scan->fdw_state)->part_count;
	foreach(lc, ours->prune)
		node_keys = lappend(node_keys, list_nth(lookup->params, lfirst_int(lc)));
	if (ours->prune != NIL)
		lookup->single = rf_single_node_create(node_keys, ours->keys, ours->server);
	lookup->sort_count = list_length(ours->sort);
	lookup->sort = palloc0_array(SortSupportData, Max(lookup->sort_count, 1));
	foreach(lc, ours->sort)
	{
		SortSupport support = &lookup->sort[foreach_current_index(lc)];
		RfMergeKey *key = lfirst(lc);

		support->ssup_cxt = estate->es_query_cxt;
		support->ssup_nulls_first = key->nulls_first;
		support->ssup_collation = key->collation;
		support->ssup_attno = lookup->column_count + foreach_current_index(lc) + 1;
		PrepareSortSupportFromOrderingOp(key->operator, support);
	}

	below = ExecGetResultType(outerPlanState(css));
	desc = CreateTemplateTupleDesc(lookup->column_count + lookup->sort_count);
	for (int i = 1; i <= desc->natts; i++)
		TupleDescCopyEntry(desc, i, below, i);
	lookup->row = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	lookup->kept_row = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	lookup->kept = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw values known",
										 ALLOCSET_DEFAULT_SIZES);
	lookup->rows_kept = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw rows looked up",
											  ALLOCSET_DEFAULT_SIZES);
	lookup->sent = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw values looked up",
										 ALLOCSET_DEFAULT_SIZES);
	lookup->most = INT_MAX;
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
	if (lookup->row != NULL)
	{
		ExecDropSingleTupleTableSlot(lookup->row);
		ExecDropSingleTupleTableSlot(lookup->kept_row);
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
	lookup->current = NULL;
}

/* ---------- statements ---------- */

/*
 * Builds the parameter arrays for the values that belong to a part (-1: all), and an array of their
 * 1-based positions. Returns NULL if there are no such values. Each is accompanied by its place
 * among all, from 1.
 */
static Datum *
arrays_for(RfLookup *lookup, Known *const *values, int count, int part)
{
	Datum	   *arrays = palloc_array(Datum, lookup->param_count + 1);
	Datum	   *members = palloc_array(Datum, count);
	bool	   *isnull = palloc0_array(bool, count);
	int			taken = 0;
	int			lower = 1;

	for (int i = 0; i < count; i++)
	{
		if (part < 0 || values[i]->part == part)
			members[taken++] = Int64GetDatum(i + 1);
	}
	if (taken == 0)
		return NULL;
	arrays[lookup->param_count] = PointerGetDatum(construct_md_array(
																	 members, isnull, 1, &taken, &lower, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	for (int i = 0; i < lookup->param_count; i++)
	{
		const ValueType *type = &lookup->types[i];

		taken = 0;
		for (int j = 0; j < count; j++)
		{
			if (part >= 0 && values[j]->part != part)
				continue;
			members[taken] = values[j]->values[i];
			isnull[taken++] = values[j]->isnull[i];
		}
		arrays[i] = PointerGetDatum(construct_md_array(members, isnull, 1, &taken, &lower,
													   type->type, type->length, type->by_value,
													   type->align));
	}
	return arrays;
}

/*
 * Lets the scan ask for the rows with these keys or for all, or read what it has kept of them once
 * more.
 */
static void
send_keys(RfLookup *lookup, Known *const *values, int count)
{
	Keys	   *keys = lookup->keys;
	const ValueType *type = &lookup->types[0];
	Datum	   *members;

	if (keys->one_statement && keys->asked)
		return;
	/* the first statement is for all */
	if (keys->one_statement && lookup->expected_count > 0)
	{
		values = lookup->expected;
		count = lookup->expected_count;
		keys->all_rows = keys->more;
	}
	else if (keys->asked && keys->spent > keys->most)
		keys->all_rows = true;
	keys->asked = true;
	if (keys->all_rows)
	{
		lookup->statements += lookup->read_all ? 0 : 1;
		lookup->read_all = true;
		rf_scan_ask_all(lookup->scan, keys->one_statement || keys->more);
		return;
	}
	members = palloc_array(Datum, count);
	for (int i = 0; i < count; i++)
		members[i] = values[i]->values[0];
	rf_scan_set_keys(lookup->scan,
					 PointerGetDatum(construct_array(members, count, type->type, type->length,
													 type->by_value, type->align)),
					 keys->one_statement);
	keys->spent += count * keys->key_rows;
	lookup->values += count;
	lookup->statements++;
}

/* Starts the scan with these values. */
static void
send(RfLookup *lookup, Known *const *values, int count)
{
	MemoryContext caller;
	Datum	  **parts;

	lookup->pass++;
	for (int i = 0; i < count; i++)
		values[i]->pass = lookup->pass;
	if (lookup->keys == NULL || !lookup->keys->one_statement || !lookup->keys->asked)
		MemoryContextReset(lookup->sent);
	caller = MemoryContextSwitchTo(lookup->sent);
	if (lookup->keys != NULL)
		send_keys(lookup, values, count);
	else if (lookup->single == NULL)
		rf_scan_set_local(lookup->scan, arrays_for(lookup, values, count, -1));
	else
	{
		parts = palloc_array(Datum *, lookup->part_count);
		for (int i = 0; i < lookup->part_count; i++)
			parts[i] = arrays_for(lookup, values, count, i);
		rf_scan_set_local_by_part(lookup->scan, parts);
	}
	MemoryContextSwitchTo(caller);
	if (count != lookup->sent_values)
		lookup->value_ms_before = lookup->value_ms;
	lookup->sent_values = count;
	INSTR_TIME_SET_CURRENT(lookup->sent_at);
	ExecReScan(&lookup->scan->ss.ps);
	if (lookup->keys != NULL)
		return;
	lookup->statements++;
	lookup->values += count;
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
	entry = known_lookup(lookup->known, &values);
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
	int			natts = lookup->row->tts_tupleDescriptor->natts;
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
	ExecClearTuple(lookup->row);
	memcpy(lookup->row->tts_values, slot->tts_values, sizeof(Datum) * natts);
	memcpy(lookup->row->tts_isnull, slot->tts_isnull, sizeof(bool) * natts);
	return ExecStoreVirtualTuple(lookup->row);
}

static void
keep(RfLookup *lookup, Known *known, TupleTableSlot *row)
{
	MemoryContext caller = MemoryContextSwitchTo(lookup->rows_kept);

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

/* The last statement's rows are here. */
static void
note_time(RfLookup *lookup)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, lookup->sent_at);
	lookup->value_ms = INSTR_TIME_GET_MILLISEC(now) / lookup->sent_values;
}

static void
all_read(RfLookup *lookup, Known *known, uint64 rows)
{
	known->complete = true;
	known->expected = false;
	lookup->rows += rows;
	lookup->read_values++;
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
	RfLookup   *lookup = arg;

	for (int i = 0; i < lookup->sort_count; i++)
	{
		int			order = ApplySortComparator(one->keys[i], one->isnull[i], other->keys[i],
												other->isnull[i], &lookup->sort[i]);

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
sort_rows(RfLookup *lookup, Known *known)
{
	MemoryContext caller;
	SortedRow  *rows;

	if (lookup->sort_count == 0 || known->row_count < 2)
		return;
	caller = MemoryContextSwitchTo(lookup->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	rows = palloc_array(SortedRow, known->row_count);
	for (int i = 0; i < known->row_count; i++)
	{
		ExecStoreMinimalTuple(known->rows[i], lookup->kept_row, false);
		slot_getallattrs(lookup->kept_row);
		rows[i].row = known->rows[i];
		rows[i].keys = palloc_array(Datum, lookup->sort_count);
		rows[i].isnull = palloc_array(bool, lookup->sort_count);
		for (int j = 0; j < lookup->sort_count; j++)
		{
			rows[i].keys[j] = lookup->kept_row->tts_values[lookup->column_count + j];
			rows[i].isnull[j] = lookup->kept_row->tts_isnull[lookup->column_count + j];
		}
	}
	qsort_arg(rows, known->row_count, sizeof(SortedRow), compare_rows, lookup);
	for (int i = 0; i < known->row_count; i++)
		known->rows[i] = rows[i].row;
	MemoryContextSwitchTo(caller);
}

/*
 * Asks for all rows of this value and of further values that are expected. False: they are too
 * many, and no rows are known any more; fewer values may do.
 */
static bool
look_up_expected(RfLookup *lookup, Known *wanted)
{
	Known	  **expected = lookup->expected;
	int			count = Min(lookup->expected_count, lookup->most);
	int			at = 0;
	TupleTableSlot *row;
	Known	   *known;

	/* the rows of earlier values have been handed on */
	if (share_kept(lookup->rows_kept) > 0.5)
		forget_rows(lookup);
	while (expected[at] != wanted)
		at++;
	expected[at] = expected[0];
	expected[0] = wanted;
	/* some may have been read in part */
	for (int i = 0; i < count; i++)
		expected[i]->row_count = 0;
	send(lookup, expected, count);
	while ((row = receive(lookup, expected, count, &known)) != NULL)
	{
		keep(lookup, known, row);
		if (share_kept(lookup->rows_kept) > 1)
		{
			lookup->most = Max(count / FEW_VALUES, 1);
			forget_rows(lookup);
			return false;
		}
	}
	note_time(lookup);
	for (int i = 0; i < count; i++)
	{
		ResetExprContext(lookup->css.ss.ps.ps_ExprContext);
		sort_rows(lookup, expected[i]);
		all_read(lookup, expected[i], expected[i]->row_count);
	}
	lookup->expected_count -= count;
	memmove(expected, expected + count, sizeof(Known *) * lookup->expected_count);
	return true;
}

/*
 * Rows of a value alone are handed on as they come, which may end before all are read. The only
 * statement has to end first.
 */
static bool
is_worth_keeping(RfLookup *lookup)
{
	return Min(lookup->expected_count, lookup->most) > 1 ||
		(lookup->keys != NULL && lookup->keys->one_statement && !lookup->keys->asked);
}

/* Selects the rows of the current values to be handed on. */
static void
find_rows(RfLookup *lookup)
{
	Known	   *known = current_values(lookup, true);

	lookup->lookups++;
	lookup->direct = false;
	lookup->next = 0;
	if (!known->complete)
	{
		add_expected(lookup, known);
		while (is_worth_keeping(lookup) && !look_up_expected(lookup, known))
			;
	}
	if (!known->complete)
	{
		expect_nothing(lookup);
		known->row_count = 0;
		send(lookup, &known, 1);
		lookup->direct = true;
	}
	lookup->current = known;
}

/* A row as it comes. next counts them; they are kept as long as they are few. */
static TupleTableSlot *
next_direct(RfLookup *lookup)
{
	Known	   *known = lookup->current;
	TupleTableSlot *row = receive(lookup, &known, 1, &known);

	if (row == NULL)
	{
		known = lookup->current;
		lookup->direct = false;
		note_time(lookup);
		/* rows that were not kept have to be asked for again */
		if (known->row_count == lookup->next)
			all_read(lookup, known, lookup->next);
		lookup->next = known->row_count;
		return NULL;
	}
	if (known->row_count == lookup->next && lookup->next < ROWS_KEPT)
		keep(lookup, known, row);
	lookup->next++;
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
	TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;
	TupleTableSlot *row;

	CHECK_FOR_INTERRUPTS();
	if (lookup->current == NULL)
		find_rows(lookup);
	if (lookup->direct)
		row = next_direct(lookup);
	else if (lookup->next == lookup->current->row_count)
		row = NULL;
	else
	{
		row = ExecStoreMinimalTuple(lookup->current->rows[lookup->next++], lookup->kept_row, false);
		slot_getallattrs(row);
	}
	ExecClearTuple(slot);
	if (row == NULL)
		return slot;
	memcpy(slot->tts_values, row->tts_values, sizeof(Datum) * lookup->column_count);
	memcpy(slot->tts_isnull, row->tts_isnull, sizeof(bool) * lookup->column_count);
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
	ExplainPropertyUInteger("Lookups", NULL, lookup->lookups, es);
	ExplainPropertyUInteger("Values Sent", NULL, lookup->values, es);
	ExplainPropertyUInteger("Statements", NULL, lookup->statements, es);
	if (lookup->read_all)
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
