/*
 * key_join.c
 * 	Running a key join (plan/key_join_plan.c): batches of driving rows, whose keys a foreign scan
 * 	asks its data node for, and the received rows are matched with them here.
 *
 * A batch lies in a hash table by key. It grows from batch to batch, up to as many keys as may be
 * sent at once, and so the first rows come early. Where batches cost more than was planned, or
 * there are more keys than one statement may have and no other may follow, all rows of the table
 * are read instead, once: the driving rows that are left go through memory in batches as large as
 * hash_mem allows, and from the second of these on the table's rows are read from where they were
 * stored.
 *
 * Another batch is another statement on the data node. It sees the rows that this transaction has
 * written there since the previous statement, which this query must not show. So there is only one
 * statement wherever something could write between two: where the query writes or locks rows, calls
 * functions that are not built in, or hands out its rows in portions.
 *
 * All state is of one backend and one execution.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"

#include "fdw/plan/plan_private.h"
#include "exec.h"
#include "scan_state.h"

/* How many rows are read between two looks at the memory they take. */
#define ROWS_BETWEEN_LOOKS	64
#define FIRST_PLACES		256 /* of keys in the hash table, a power of two */
#define ROWS_CHUNK_SIZE		(32 * 1024)

/* A driving row. Its tuple follows. */
typedef struct KeyRow
{
	struct KeyRow *next;		/* in the batch */
	struct KeyRow *same;		/* next one with its key */
	bool		matched;
} KeyRow;

#define KEY_ROW_TUPLE(row)	((MinimalTuple) ((char *) (row) + MAXALIGN(sizeof(KeyRow))))

/* In the hash table: a key is in the first place that was free from the one of its hash on. */
typedef struct Key
{
	KeyRow	   *rows;			/* NULL: the place is free */
	Datum		value;
	uint32		hash;
} Key;

typedef enum KeyJoinPhase
{
	PHASE_READ,					/* a batch is due */
	PHASE_MATCH,				/* rows of the table come */
	PHASE_UNMATCHED,			/* driving rows without partners are given out */
	PHASE_END
} KeyJoinPhase;

typedef struct KeyJoinState
{
	CustomScanState css;		/* must be first */
	PlanState  *driver;
	ForeignScanState *table;

	JoinType	jointype;
	bool		reversed;
	bool		first_rows;
	RfKeyJoinCosts costs;
	ExprState  *driver_key;
	ExprState  *quals;			/* the join's other conditions */
	TupleTableSlot *row_slot;	/* a driving row out of the batch */
	int			driver_columns;
	int			table_columns;
	int			key_column;		/* in the joined row */

	/* keys */
	FmgrInfo	hash_driver;
	FmgrInfo	hash_table;
	FmgrInfo	driver_equal;	/* two keys */
	FmgrInfo	equal;			/* a column of the table and a key */
	Oid			collation;
	Oid			key_type;
	int16		key_length;
	bool		key_by_value;
	char		key_align;

	/* the batch, in this context, which is reset with each */
	MemoryContext batch;
	char	   *free;			/* room for rows, which are never freed one by one */
	Size		free_size;
	KeyRow	   *first;
	KeyRow	   *last;
	Key		   *places;
	uint32		place_count;	/* at least twice as many as keys */
	uint32		key_count;
	Size		key_bytes;
	int64		row_limit;

	KeyJoinPhase phase;
	bool		driver_ended;
	bool		may_repeat;		/* there may be another statement */
	bool		all_rows;		/* all rows of the table are read, not only rows with the keys */
	bool		asked;			/* the scan was used before */
	TupleTableSlot *table_row;	/* the scan's, that is being matched */
	KeyRow	   *candidate;		/* next driving row for it */
	KeyRow	   *unmatched;		/* next one to look at */
	Cost		spent;
	double		batch_rows;		/* of the table, for this batch */

	/* for EXPLAIN */
	uint64		batches;
	uint64		keys_sent;
	bool		read_all;
} KeyJoinState;

/* ---------- begin and end ---------- */

static void
set_up_keys(KeyJoinState *join, CustomScan *plan)
{
	List	   *operators = list_nth(plan->custom_private, RF_KEY_JOIN_OPERATOR);
	Oid			opno = linitial_oid(operators);
	RegProcedure hash_table;
	RegProcedure hash_driver;
	Oid			table_equal;
	Oid			driver_equal;

	join->collation = lsecond_oid(operators);
	if (!get_op_hash_functions(opno, &hash_table, &hash_driver) ||
		!get_compatible_hash_operators(opno, &table_equal, &driver_equal))
		elog(ERROR, "operator %u of a key join cannot be hashed", opno);
	fmgr_info(hash_table, &join->hash_table);
	fmgr_info(hash_driver, &join->hash_driver);
	fmgr_info(get_opcode(opno), &join->equal);
	fmgr_info(get_opcode(driver_equal), &join->driver_equal);
	join->key_type = getBaseType(exprType(list_nth(plan->custom_exprs, RF_KEY_JOIN_DRIVER_KEY)));
	get_typlenbyvalalign(join->key_type, &join->key_length, &join->key_by_value, &join->key_align);
}

/*
 * Starts both children and prepares the expressions over the joined row. Nothing is read before the
 * first row is wanted.
 */
static void
begin_key_join(CustomScanState *css, EState *estate, int eflags)
{
	KeyJoinState *join = (KeyJoinState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;

	join->driver = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	join->table = castNode(ForeignScanState,
						   ExecInitNode(lsecond(plan->custom_plans), estate, eflags));
	css->custom_ps = list_make2(join->driver, join->table);
	join->jointype = intVal(list_nth(plan->custom_private, RF_KEY_JOIN_TYPE));
	join->reversed = boolVal(list_nth(plan->custom_private, RF_KEY_JOIN_REVERSED));
	join->first_rows = boolVal(list_nth(plan->custom_private, RF_KEY_JOIN_FIRST_ROWS));
	join->costs = rf_key_join_costs(plan);
	join->driver_key = ExecInitExpr(list_nth(plan->custom_exprs, RF_KEY_JOIN_DRIVER_KEY),
									&css->ss.ps);
	join->quals = ExecInitQual(list_nth(plan->custom_exprs, RF_KEY_JOIN_QUALS), &css->ss.ps);
	join->row_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(join->driver),
											&TTSOpsMinimalTuple);
	join->driver_columns = ExecGetResultType(join->driver)->natts;
	join->table_columns = ExecGetResultType(&join->table->ss.ps)->natts;
	join->key_column = join->driver_columns +
		intVal(list_nth(plan->custom_private, RF_KEY_JOIN_COLUMN));
	set_up_keys(join, plan);
	join->batch = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw key join",
										ALLOCSET_DEFAULT_SIZES);
	join->row_limit = join->first_rows ? RF_KEYS_FIRST : PG_INT64_MAX;
}

static void
end_key_join(CustomScanState *css)
{
	ListCell   *lc;

	foreach(lc, css->custom_ps)
		ExecEndNode((PlanState *) lfirst(lc));
}

/*
 * Starts again with reading driving rows; the table's scan starts again when the first keys are
 * there.
 */
static void
rescan_key_join(CustomScanState *css)
{
	KeyJoinState *join = (KeyJoinState *) css;
	ListCell   *lc;

	foreach(lc, css->custom_ps)
	{
		if (css->ss.ps.chgParam != NULL)
			UpdateChangedParamSet((PlanState *) lfirst(lc), css->ss.ps.chgParam);
	}
	if (join->driver->chgParam == NULL)
		ExecReScan(join->driver);
	/* the table's scan is, when keys are there */
	ExecClearTuple(join->row_slot);
	MemoryContextReset(join->batch);
	join->phase = PHASE_READ;
	join->driver_ended = false;
	join->all_rows = false;
	join->candidate = NULL;
	join->spent = 0;
	join->row_limit = join->first_rows ? RF_KEYS_FIRST : PG_INT64_MAX;
}

/* Another statement may follow only if nothing can write to the data node between them. */
static bool
may_repeat(KeyJoinState *join)
{
	EState	   *estate = join->css.ss.ps.state;
	PlannedStmt *plan = estate->es_plannedstmt;
	ListCell   *lc;

	if (join->reversed || !rf_scan_whole_run(estate) || estate->es_epq_active != NULL ||
		plan == NULL || plan->commandType != CMD_SELECT || plan->hasModifyingCTE ||
		plan->rowMarks != NIL)
		return false;
	/* as in rows_may_stay_in_place() */
	foreach(lc, plan->invalItems)
	{
		if (lfirst_node(PlanInvalItem, lc)->cacheId == PROCOID)
			return false;
	}
	return true;
}

/* ---------- the joined row ---------- */

/*
 * Puts a row into its columns, from `at` on; NULL: they are NULL. The slot is in use again once
 * joined_row() was called.
 */
static void
fill_columns(KeyJoinState *join, int at, int count, TupleTableSlot *row)
{
	TupleTableSlot *slot = join->css.ss.ss_ScanTupleSlot;

	if (row == NULL)
	{
		memset(slot->tts_isnull + at, true, sizeof(bool) * count);
		return;
	}
	slot_getallattrs(row);
	memcpy(slot->tts_values + at, row->tts_values, sizeof(Datum) * count);
	memcpy(slot->tts_isnull + at, row->tts_isnull, sizeof(bool) * count);
}

static void
fill_driver(KeyJoinState *join, KeyRow *row)
{
	ExecStoreMinimalTuple(KEY_ROW_TUPLE(row), join->row_slot, false);
	fill_columns(join, 0, join->driver_columns, join->row_slot);
}

/* The columns are all there. */
static TupleTableSlot *
joined_row(KeyJoinState *join)
{
	TupleTableSlot *slot = join->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	return ExecStoreVirtualTuple(slot);
}

/* ---------- reading a batch ---------- */

/* The key with this hash and value, by the operator, or the free place for it. */
static Key *
find_key(KeyJoinState *join, uint32 hash, FmgrInfo *equal, Datum value)
{
	uint32		place = hash & (join->place_count - 1);

	for (;;)
	{
		Key		   *key = &join->places[place];

		if (key->rows == NULL ||
			(key->hash == hash &&
			 DatumGetBool(FunctionCall2Coll(equal, join->collation, value, key->value))))
			return key;
		place = (place + 1) & (join->place_count - 1);
	}
}

/* Doubles the table of keys. */
static void
double_places(KeyJoinState *join)
{
	Key		   *old = join->places;
	uint32		count = join->place_count;

	join->place_count *= 2;
	join->places = MemoryContextAllocExtended(join->batch, sizeof(Key) * join->place_count,
											  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint32 i = 0; i < count; i++)
	{
		uint32		place = old[i].hash & (join->place_count - 1);

		if (old[i].rows == NULL)
			continue;
		while (join->places[place].rows != NULL)
			place = (place + 1) & (join->place_count - 1);
		join->places[place] = old[i];
	}
	pfree(old);
}

/* The key with this value, made if it is missing: then the caller adds a row to it at once. */
static Key *
key_of_driver(KeyJoinState *join, Datum value)
{
	uint32		hash;
	Key		   *key;
	MemoryContext caller;

	if (join->key_length == -1)
		value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
	hash = DatumGetUInt32(FunctionCall1Coll(&join->hash_driver, join->collation, value));
	key = find_key(join, hash, &join->driver_equal, value);
	if (key->rows != NULL)
		return key;
	if (join->key_count >= join->place_count / 2)
	{
		double_places(join);
		key = find_key(join, hash, &join->driver_equal, value);
	}
	caller = MemoryContextSwitchTo(join->batch);
	key->value = datumCopy(value, join->key_by_value, join->key_length);
	MemoryContextSwitchTo(caller);
	key->hash = hash;
	join->key_count++;
	join->key_bytes += datumGetSize(value, join->key_by_value, join->key_length);
	return key;
}

/* A copy of the row, without the overhead of an allocation. */
static KeyRow *
copy_row(KeyJoinState *join, TupleTableSlot *slot)
{
	bool		should_free;
	MinimalTuple tuple = ExecFetchSlotMinimalTuple(slot, &should_free);
	Size		size = MAXALIGN(sizeof(KeyRow)) + MAXALIGN(tuple->t_len);
	KeyRow	   *row;

	if (size > join->free_size)
	{
		join->free_size = Max(size, ROWS_CHUNK_SIZE);
		join->free = MemoryContextAllocHuge(join->batch, join->free_size);
	}
	row = (KeyRow *) join->free;
	join->free += size;
	join->free_size -= size;
	memcpy(KEY_ROW_TUPLE(row), tuple, tuple->t_len);
	if (should_free)
		heap_free_minimal_tuple(tuple);
	return row;
}

/*
 * Rows without a key have no partners. Of those with the same key one is enough to tell whether a
 * row of the table has a partner. In memory that is reset with each row.
 */
static void
add_row(KeyJoinState *join, TupleTableSlot *slot, Datum value, bool isnull)
{
	Key		   *key = NULL;
	KeyRow	   *row;

	if (!isnull)
		key = key_of_driver(join, value);
	else if (join->jointype != JOIN_LEFT && join->jointype != JOIN_ANTI)
		return;
	if (join->reversed && join->quals == NULL && key->rows != NULL)
		return;
	row = copy_row(join, slot);
	row->matched = false;
	row->next = NULL;
	row->same = NULL;
	if (join->last == NULL)
		join->first = row;
	else
		join->last->next = row;
	join->last = row;
	if (key != NULL)
	{
		row->same = key->rows;
		key->rows = row;
	}
}

static void
start_batch(KeyJoinState *join)
{
	ExecClearTuple(join->row_slot);
	MemoryContextReset(join->batch);
	join->free_size = 0;
	join->first = join->last = NULL;
	join->place_count = FIRST_PLACES;
	join->places = MemoryContextAllocZero(join->batch, sizeof(Key) * join->place_count);
	join->key_count = 0;
	join->key_bytes = 0;
	join->batch_rows = 0;
}

/*
 * Returns true if the batch has as many keys as can be sent. If no other statement may follow, it
 * goes on without them: all rows of the table will be read.
 */
static bool
keys_are_enough(KeyJoinState *join, int64 rows)
{
	bool		full;

	if (join->all_rows)
		return false;
	full = join->key_count >= RF_KEYS_MAX || join->key_bytes >= RF_KEYS_MAX_BYTES;
	if (join->may_repeat)
		return full || rows >= join->row_limit;
	join->all_rows = full;
	return false;
}

/*
 * A reversed join's batch contains all driving rows, since a second batch would give rows of the
 * table again that the first gave. Where the table's conditions are all in the key it has a row per
 * key.
 */
static bool
memory_is_full(KeyJoinState *join, int64 rows)
{
	if (rows == 0 || rows % ROWS_BETWEEN_LOOKS != 0 || join->reversed ||
		MemoryContextMemAllocated(join->batch, true) < get_hash_memory_limit())
		return false;
	join->all_rows = join->all_rows || !join->may_repeat;
	return true;
}

/*
 * Reads driving rows into the batch until it has enough keys or memory is full; each row is filed
 * under its key.
 */
static void
read_batch(KeyJoinState *join)
{
	ExprContext *econtext = join->css.ss.ps.ps_ExprContext;

	start_batch(join);
	for (int64 rows = 0; !keys_are_enough(join, rows) && !memory_is_full(join, rows); rows++)
	{
		TupleTableSlot *slot = ExecProcNode(join->driver);
		MemoryContext caller;
		Datum		value;
		bool		isnull;

		if (TupIsNull(slot))
		{
			join->driver_ended = true;
			break;
		}
		fill_columns(join, 0, join->driver_columns, slot);
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = joined_row(join);
		caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		value = ExecEvalExpr(join->driver_key, econtext, &isnull);
		add_row(join, slot, value, isnull);
		MemoryContextSwitchTo(caller);
	}
}

/* ---------- asking for the table's rows ---------- */

static ArrayType *
keys_to_send(KeyJoinState *join)
{
	Datum	   *values = palloc(sizeof(Datum) * join->key_count);
	int			count = 0;

	for (uint32 place = 0; place < join->place_count; place++)
	{
		if (join->places[place].rows != NULL)
			values[count++] = join->places[place].value;
	}
	return construct_array(values, count, join->key_type, join->key_length, join->key_by_value,
						   join->key_align);
}

static void
ask(KeyJoinState *join)
{
	if (join->all_rows)
		rf_scan_ask_all(join->table, !join->driver_ended);
	else
	{
		MemoryContext caller = MemoryContextSwitchTo(join->batch);

		rf_scan_set_keys(join->table, PointerGetDatum(keys_to_send(join)));
		MemoryContextSwitchTo(caller);
		join->keys_sent += join->key_count;
	}
	if (join->asked)
		ExecReScan(&join->table->ss.ps);
	join->asked = true;
	join->batches++;
	join->read_all = join->read_all || join->all_rows;
}

/* The cost of the batch decides how the next one is done. */
static void
settle_batch(KeyJoinState *join)
{
	if (join->all_rows)
		return;
	join->spent += join->costs.round_trip + Max(join->costs.key, 0) * join->key_count +
		join->batch_rows * join->costs.row;
	if (join->costs.key < 0 || join->spent > Max(join->costs.planned, join->costs.whole / 4))
		join->all_rows = true;
	if (join->row_limit < PG_INT64_MAX / RF_KEYS_GROWTH)
		join->row_limit *= RF_KEYS_GROWTH;
}

/* The driving rows with the key of the table's row, which is in the joined row. */
static KeyRow *
find_partners(KeyJoinState *join)
{
	TupleTableSlot *slot = join->css.ss.ss_ScanTupleSlot;
	Datum		value = slot->tts_values[join->key_column];
	uint32		hash;

	if (slot->tts_isnull[join->key_column])
		return NULL;
	hash = DatumGetUInt32(FunctionCall1Coll(&join->hash_table, join->collation, value));
	return find_key(join, hash, &join->equal, value)->rows;
}

/*
 * The table's next row, and in join->candidate the entry it may join with. Returns false at the
 * end.
 */
static bool
next_table_row(KeyJoinState *join)
{
	ExprContext *econtext = join->css.ss.ps.ps_ExprContext;
	MemoryContext caller;

	join->table_row = ExecProcNode(&join->table->ss.ps);
	if (TupIsNull(join->table_row))
		return false;
	join->batch_rows++;
	ExecClearTuple(join->css.ss.ss_ScanTupleSlot);
	fill_columns(join, join->driver_columns, join->table_columns, join->table_row);
	/* hashing may leave something behind */
	ResetExprContext(econtext);
	caller = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	join->candidate = find_partners(join);
	MemoryContextSwitchTo(caller);
	return true;
}

/* ---------- rows ---------- */

/*
 * Tries the candidates of the table's row; returns false when they give no further row of the join.
 */
static bool
match_candidates(KeyJoinState *join)
{
	ExprContext *econtext = join->css.ss.ps.ps_ExprContext;
	TupleTableSlot *slot = join->css.ss.ss_ScanTupleSlot;
	bool		one_is_enough = join->jointype == JOIN_ANTI ||
		(join->jointype == JOIN_SEMI && !join->reversed);

	/* somebody above has made it a row of its own, whose values go with it */
	if (join->candidate != NULL && TTS_SHOULDFREE(slot))
	{
		ExecClearTuple(slot);
		fill_columns(join, join->driver_columns, join->table_columns, join->table_row);
	}
	while (join->candidate != NULL)
	{
		KeyRow	   *row = join->candidate;

		CHECK_FOR_INTERRUPTS();
		join->candidate = row->same;
		/* one partner is enough for the driving row */
		if (row->matched && one_is_enough)
			continue;
		fill_driver(join, row);
		if (join->quals != NULL)
		{
			ResetExprContext(econtext);
			econtext->ecxt_scantuple = joined_row(join);
			if (!ExecQual(join->quals, econtext))
			{
				InstrCountFiltered2(&join->css.ss.ps, 1);
				continue;
			}
		}
		row->matched = true;
		if (join->jointype == JOIN_ANTI)
			continue;
		/* and for the table's */
		if (join->reversed)
			join->candidate = NULL;
		return true;
	}
	return false;
}

static bool
next_unmatched(KeyJoinState *join)
{
	if (join->jointype != JOIN_LEFT && join->jointype != JOIN_ANTI)
		return false;
	while (join->unmatched != NULL)
	{
		KeyRow	   *row = join->unmatched;

		join->unmatched = row->next;
		if (row->matched)
			continue;
		fill_driver(join, row);
		fill_columns(join, join->driver_columns, join->table_columns, NULL);
		return true;
	}
	return false;
}

/* The next row of the join, before the conditions that filter it; NULL: there are no more. */
static TupleTableSlot *
next_row(KeyJoinState *join)
{
	for (;;)
	{
		switch (join->phase)
		{
			case PHASE_READ:
				if (join->batches == 0)
					join->may_repeat = may_repeat(join);
				if (join->driver_ended)
				{
					join->phase = PHASE_END;
					break;
				}
				read_batch(join);
				join->unmatched = join->first;
				join->phase = PHASE_MATCH;
				if (join->key_count == 0)
					join->phase = PHASE_UNMATCHED;
				else
					ask(join);
				break;
			case PHASE_MATCH:
				if (match_candidates(join))
					return joined_row(join);
				if (!next_table_row(join))
				{
					settle_batch(join);
					join->phase = PHASE_UNMATCHED;
				}
				break;
			case PHASE_UNMATCHED:
				if (next_unmatched(join))
					return joined_row(join);
				join->phase = PHASE_READ;
				break;
			case PHASE_END:
				return NULL;
		}
	}
}

/* The next joined row that passes the quals, projected. */
static TupleTableSlot *
exec_key_join(CustomScanState *css)
{
	KeyJoinState *join = (KeyJoinState *) css;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *slot;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		slot = next_row(join);
		if (slot == NULL)
			return NULL;
		econtext->ecxt_scantuple = slot;
		if (css->ss.ps.qual != NULL && !ExecQual(css->ss.ps.qual, econtext))
		{
			InstrCountFiltered1(&css->ss.ps, 1);
			continue;
		}
		return css->ss.ps.ps_ProjInfo != NULL ? ExecProject(css->ss.ps.ps_ProjInfo) : slot;
	}
}

/* ---------- EXPLAIN ---------- */

static const char *
join_name(KeyJoinState *join)
{
	switch (join->jointype)
	{
		case JOIN_INNER:
			return "Inner";
		case JOIN_LEFT:
			return "Left";
		case JOIN_SEMI:
			return join->reversed ? "Right Semi" : "Semi";
		case JOIN_ANTI:
			return "Anti";
		default:
			elog(ERROR, "unexpected type %d of a key join", (int) join->jointype);
	}
}

/* EXPLAIN: the join's type and conditions; with ANALYZE how many keys went in how many batches. */
static void
explain_key_join(CustomScanState *css, List *ancestors, ExplainState *es)
{
	KeyJoinState *join = (KeyJoinState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
	List	   *quals = list_nth(plan->custom_exprs, RF_KEY_JOIN_QUALS);
	Node	   *expr = list_nth(plan->custom_exprs, RF_KEY_JOIN_EQUALITY);
	Instrumentation *instrument = css->ss.ps.instrument;

	ExplainPropertyText("Join Type", join_name(join), es);
	ExplainPropertyText("Key Cond", deparse_expression(expr, context, true, false), es);
	if (quals != NIL)
	{
		expr = (Node *) make_ands_explicit(quals);
		ExplainPropertyText("Join Filter", deparse_expression(expr, context, true, false), es);
	}
	if (!es->analyze)
		return;
	if (instrument != NULL && instrument->nfiltered2 > 0)
		ExplainPropertyFloat("Rows Removed by Join Filter", NULL,
							 instrument->nfiltered2 / Max(instrument->nloops, 1), 0, es);
	ExplainPropertyUInteger("Keys Sent", NULL, join->keys_sent, es);
	ExplainPropertyUInteger("Key Batches", NULL, join->batches, es);
	if (join->read_all)
		ExplainPropertyBool("All Rows Read", true, es);
}

/* ---------- registration ---------- */

static const CustomExecMethods exec_methods = {
	.CustomName = RF_KEY_JOIN_NAME,
	.BeginCustomScan = begin_key_join,
	.ExecCustomScan = exec_key_join,
	.EndCustomScan = end_key_join,
	.ReScanCustomScan = rescan_key_join,
	.ExplainCustomScan = explain_key_join
};

static Node *
create_state(CustomScan *plan)
{
	KeyJoinState *join = (KeyJoinState *) newNode(sizeof(KeyJoinState), T_CustomScanState);

	join->css.methods = &exec_methods;
	return (Node *) join;
}

static const CustomScanMethods scan_methods = {RF_KEY_JOIN_NAME, create_state};

void
rf_key_join_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
