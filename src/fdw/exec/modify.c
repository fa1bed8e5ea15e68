/*
 * modify.c - execution of statements that write a foreign table: INSERT, UPDATE, DELETE, COPY FROM,
 * rows routed to it, TRUNCATE.
 *
 * Rows go as column batches (remote.h, loads), those of updates and deletes with the tableoid and
 * ctid by which each is found, unless the result of a row is needed before the next one: RETURNING,
 * a view's check option, local row triggers. Then there is one statement per row. A source that
 * reads the same node for every row would end each batch early, so most of its rows go one by one,
 * too. With batches an error of the data node may be reported later than its row, but before the
 * statement's end: loads finish at the end of ExecutorRun, those of unread WITH queries at the end
 * of ExecutorFinish, those of COPY after its last row. Any earlier use of the same session sees all
 * rows up to then (remote/load.c), so triggers and functions see no difference. A partial load is
 * rolled back with the (sub)transaction, like any failed statement.
 *
 * A table of a server with nodes is written on those nodes (exchange.h): on the one given by the
 * hash of its key, on all of them, or in turn if there is no rule. Rows whose key an UPDATE assigns
 * are kept until its end (modify_move.c).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"

#include "fdw/catalog/catalog.h"
#include "fdw/deparse/deparse.h"
#include "fdw/plan/plan.h"
#include "fdw/plan/plan_private.h"
#include "remote/placement.h"

#include "exec.h"
#include "modify_state.h"

/* States with loads, of all executor runs in this backend. */
static dlist_head open_loads = DLIST_STATIC_INIT(open_loads);

void
rf_complain_of_copies(Relation rel, UserMapping *first, uint64 first_rows, UserMapping *other,
					  uint64 rows)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("copies of replicated table \"%s\" differ", RelationGetRelationName(rel)),
			 errdetail("Server \"%s\" wrote " UINT64_FORMAT
					   " rows, server \"%s\" " UINT64_FORMAT ".",
					   GetForeignServer(first->serverid)->servername, first_rows,
					   GetForeignServer(other->serverid)->servername, rows),
			 errhint("rdma.check_distribution() compares the copies.")));
}

/* ---------- loads end with the executor's run ---------- */

/* COPY's own error context has ended when the last rows are written. */
static void
finish_target(ModifyTarget *target, uint64 *written)
{
	ErrorContextCallback callback = {error_context_stack, rf_copy_error_context, target->lines};

	if (target->lines)
		error_context_stack = &callback;
	rf_load_finish(target->load, written);
	error_context_stack = callback.previous;
}

/*
 * Data nodes may have dropped rows (ON CONFLICT, triggers): the number that the statement really
 * wrote is known only now.
 */
static void
finish_load(ModifyState *state)
{
	uint64	   *here = palloc_array(uint64, state->target_count);
	uint64		rows = 0;
	uint64		written = 0;

	if (state->moves)
		written = rf_row_moves_finish(state, &rows);
	for (int i = 0; i < state->target_count; i++)
	{
		ModifyTarget *target = &state->targets[i];

		if (target->load == NULL)
			continue;
		finish_target(target, here);
		for (int j = 1; j < state->target_count && rf_modify_is_replicated(state); j++)
		{
			if (here[j] != here[0])
				rf_complain_of_copies(state->rel, target->user, here[0], state->targets[j].user,
									  here[j]);
		}
		rows += target->rows;
		written += here[0];
		target->rows = 0;
	}
	pfree(here);
	if (written >= rows)
		return;
	if (state->copy)
		rf_copy_drop(rows - written);
	else if (state->counted)
		state->estate->es_processed -= Min(rows - written, state->estate->es_processed);
}

void
rf_finish_loads(EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &open_loads)
	{
		ModifyState *state = dlist_container(ModifyState, node, iter.cur);

		if (state->estate == estate)
			finish_load(state);
	}
}

static void
forget_load(void *arg)
{
	ModifyState *state = arg;

	if (state->node.next != NULL)
		dlist_delete(&state->node);
	state->node.next = NULL;
}

/* ---------- beginning ---------- */

/* Rows of the state are written at the latest when the executor's run ends. */
static void
await_end(ModifyState *state)
{
	dlist_push_tail(&open_loads, &state->node);
	state->gone.func = forget_load;
	state->gone.arg = state;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &state->gone);
}

/*
 * part: the statement's part that is the same for all partitions to which its rows may be routed.
 */
static void
begin_load(ModifyState *state, ModifyTableState *part, CmdType operation,
		   const RfTableOptions *opts, const char *conflict)
{
	bool		by_place = state->place_count > 0;
	int			count = list_length(state->attrs) + state->place_count;
	AttrNumber *attnums = palloc(sizeof(AttrNumber) * count);
	const char **names = palloc(sizeof(char *) * count);
	RfLoadSpec *spec = palloc0(sizeof(RfLoadSpec));
	List	   *columns = state->attrs;
	int			i = 0;
	ListCell   *lc;

	spec->desc = RelationGetDescr(state->rel);
	if (by_place)
	{
		columns = list_concat_copy(state->key, state->attrs);
		spec->desc = CreateTemplateTupleDesc(count);
		TupleDescInitEntry(spec->desc, 1, "ctid", TIDOID, -1, 0);
		TupleDescInitEntry(spec->desc, 2, "tableoid", OIDOID, -1, 0);
		for (; i < 2; i++)
		{
			attnums[i] = i + 1;
			names[i] = NameStr(TupleDescAttr(spec->desc, i)->attname);
		}
	}
	foreach(lc, columns)
	{
		if (by_place)
			TupleDescCopyEntry(spec->desc, i + 1, RelationGetDescr(state->rel), lfirst_int(lc));
		attnums[i] = by_place ? i + 1 : lfirst_int(lc);
		names[i++] = pstrdup(rf_column_name(RelationGetRelid(state->rel), lfirst_int(lc)));
	}
	if (by_place)
	{
		rf_tupdesc_finish(spec->desc);
		state->sent = MakeSingleTupleTableSlot(spec->desc, &TTSOpsVirtual);
		state->values = state->sent->tts_values;
		state->isnull = state->sent->tts_isnull;
	}
	spec->operation = operation;
	spec->place_count = state->place_count;
	spec->sql = state->sql;
	spec->part = part;
	spec->relation = rf_remote_relation_name(opts);
	spec->column_count = count;
	spec->column_names = names;
	spec->attnums = attnums;
	spec->conflict = conflict;
	spec->receive_buffers = opts->fetch.receive_buffers < 0 ? rf_receive_buffers :
		opts->fetch.receive_buffers;
	spec->receive_buffer_size = TYPEALIGN(4096, opts->fetch.receive_buffer_size < 0 ?
										  rf_receive_buffer_size * 1024 :
										  opts->fetch.receive_buffer_size);
	spec->inline_limit = opts->fetch.inline_limit < 0 ? rf_inline_limit * 1024 :
		opts->fetch.inline_limit;
	state->load_spec = spec;

	await_end(state);
}

static bool
has_row_triggers(TriggerDesc *triggers, CmdType operation)
{
	if (triggers == NULL)
		return false;
	switch (operation)
	{
		case CMD_UPDATE:
			return triggers->trig_update_before_row || triggers->trig_update_after_row;
		case CMD_DELETE:
			return triggers->trig_delete_before_row || triggers->trig_delete_after_row;
		default:
			return triggers->trig_insert_before_row || triggers->trig_insert_after_row;
	}
}

/* A load only counts rows. RETURNING, of a constant too, and check options are about each row. */
static bool
may_load(const ModifyTableState *mtstate, const ResultRelInfo *result_rel,
		 const RfTableOptions *opts, List *attrs, List *retrieved_attrs)
{
	const ModifyTable *plan = (const ModifyTable *) mtstate->ps.plan;	/* NULL: COPY */

	return opts->batch_size != 1 && (attrs != NIL || mtstate->operation == CMD_DELETE) &&
		retrieved_attrs == NIL && !has_row_triggers(result_rel->ri_TrigDesc, mtstate->operation) &&
		(plan == NULL || (plan->returningLists == NIL && plan->withCheckOptionLists == NIL));
}

/* The types of ctid, tableoid, and the columns of the key. */
static List *
place_types(const ModifyState *state)
{
	TupleDesc	desc = RelationGetDescr(state->rel);
	List	   *types = list_make2_oid(TIDOID, OIDOID);
	ListCell   *lc;

	foreach(lc, state->key)
		types = lappend_oid(types, TupleDescAttr(desc, lfirst_int(lc) - 1)->atttypid);
	return types;
}

/* Where these are in the rows of the plan */
static void
find_place(ModifyState *state, List *tlist)
{
	state->place_attnos = palloc_array(AttrNumber, state->place_count);
	for (int i = 0; i < state->place_count; i++)
	{
		char		name[NAMEDATALEN];

		if (i < 2)
			strlcpy(name, i == 0 ? "ctid" : RF_TABLE_JUNK_NAME, sizeof(name));
		else
			rf_key_junk_name(RelationGetRelid(state->rel), list_nth_int(state->key, i - 2),
							 name);
		state->place_attnos[i] = ExecFindJunkAttributeInTlist(tlist, name);
		if (!AttributeNumberIsValid(state->place_attnos[i]))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("the statistics of foreign table \"%s\" changed while a statement was "
							"planned",
							RelationGetRelationName(state->rel)),
					 errdetail("Its rows are told by other columns now: column %s is missing.",
							   name),
					 errhint("Try the statement again.")));
	}
}

static ModifyState *
create_state(ResultRelInfo *result_rel, EState *estate, CmdType operation, const char *sql,
			 List *targets, List *retrieved_attrs, List *key)
{
	ModifyState *state = palloc0(sizeof(ModifyState));
	TupleDesc	desc = RelationGetDescr(result_rel->ri_RelationDesc);
	List	   *types = NIL;
	ListCell   *lc;

	state->estate = estate;
	state->rel = result_rel->ri_RelationDesc;
	rf_use_servers(estate, RelationGetRelid(state->rel));
	state->context = CurrentMemoryContext;
	state->sql = sql;
	state->key = key;
	rf_modify_find_targets(state, result_rel);
	if (operation != CMD_INSERT)
		types = place_types(state);
	state->place_count = list_length(types);
	foreach(lc, targets)
	{
		Form_pg_attribute att = TupleDescAttr(desc, lfirst_int(lc) - 1);

		/* the data node computes generated columns */
		if (att->attgenerated != '\0')
			continue;
		state->attrs = lappend_int(state->attrs, lfirst_int(lc));
		types = lappend_oid(types, att->atttypid);
	}
	state->writer = rf_value_writer_create(types);
	state->values = palloc0(sizeof(Datum) * Max(list_length(types), 1));
	state->isnull = palloc0(sizeof(bool) * Max(list_length(types), 1));
	state->param_count = list_length(types);
	state->has_returning = retrieved_attrs != NIL;
	if (state->has_returning)
		state->reader = rf_result_reader_create(RelationGetDescr(state->rel),
												RelationGetRelationName(state->rel),
												retrieved_attrs);
	return state;
}

/*
 * Prepares writes row by row: by a load where many rows may come, by moves where an UPDATE assigns
 * the distribution key, else by one statement of each row.
 */
void
rdmaBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *result_rel, List *fdw_private,
					   int subplan_index, int eflags)
{
	RfModifyPlan *plan = rf_plan_node_of(RfModifyPlan, fdw_private);
	ForeignTable *table;
	RfTableOptions opts;
	ModifyState *state;
	const char *conflict = NULL;

	/* without a state EXPLAIN shows only the plan */
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state = create_state(result_rel, mtstate->ps.state, mtstate->operation, plan->sql,
						 plan->targets, plan->retrieved, plan->key);
	state->copy_sql = plan->copy_sql;
	if (mtstate->operation == CMD_INSERT)
		conflict = rf_modify_begin_conflict(state, mtstate, plan);
	table = GetForeignTable(RelationGetRelid(state->rel));
	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	if (plan->move_delete != NULL)
	{
		state->moves = rf_row_moves_create(state->rel, plan->move_delete, plan->move_insert,
										   place_types(state));
		await_end(state);
	}
	else if (state->copy_sql == NULL &&
			 may_load(mtstate, result_rel, &opts, state->attrs, plan->retrieved))
		begin_load(state, mtstate, mtstate->operation, &opts, conflict);
	state->counted = mtstate->canSetTag;
	state->check_partition = state->rel->rd_rel->relispartition &&
		(mtstate->operation == CMD_INSERT ||
		 (mtstate->operation == CMD_UPDATE && rf_writes_partition_key(state->rel, state->attrs)));
	if (state->place_count > 0)
		find_place(state, outerPlanState(mtstate)->plan->targetlist);
	if (state->distribution == NULL)
		(void) rf_modify_target(state, 0);
	result_rel->ri_FdwState = state;
}

/* For rows that are routed to the table, or that COPY reads: there was no planning. */
void
rdmaBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *result_rel)
{
	ModifyTable *plan = castNode(ModifyTable, mtstate->ps.plan);
	EState	   *estate = mtstate->ps.state;
	Relation	rel = result_rel->ri_RelationDesc;
	ForeignTable *table = GetForeignTable(RelationGetRelid(rel));
	List	   *targets = rf_all_columns(rel);
	List	   *retrieved = NIL;
	RfTableOptions opts;
	RfRowWrite	write;
	ModifyState *state;
	RfConflict	conflict = {NULL};
	char	   *sql;
	Index		rti;

	/* The rows that were moved here would be found and updated again. */
	if (plan && plan->operation == CMD_UPDATE &&
		(result_rel->ri_usesFdwDirectModify || result_rel->ri_FdwState))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot route tuples into foreign table to be updated \"%s\"",
						RelationGetRelationName(rel))));

	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	if (plan && plan->onConflictAction == ONCONFLICT_NOTHING)
		conflict.sql = " ON CONFLICT DO NOTHING";
	else if (plan && plan->onConflictAction != ONCONFLICT_NONE)
		elog(ERROR, "unexpected ON CONFLICT specification: %d", (int) plan->onConflictAction);

	/*
	 * RETURNING and check options refer to a partition by the range table index of its root or, in
	 * an UPDATE, of its first target.
	 */
	rti = result_rel->ri_RangeTableIndex;
	if (rti == 0)
	{
		rti = result_rel->ri_RootResultRelInfo ?
			result_rel->ri_RootResultRelInfo->ri_RangeTableIndex :
			0;
		if (plan && plan->operation == CMD_UPDATE && rti == plan->rootRelation)
			rti = mtstate->resultRelInfo[0].ri_RangeTableIndex;
	}
	write = (RfRowWrite)
	{
		rel, &opts, rti, result_rel->ri_WithCheckOptions, result_rel->ri_returningList, targets
	};
	sql = rf_insert_sql(&write, &conflict, &retrieved);
	state = create_state(result_rel, estate, CMD_INSERT, sql, targets, retrieved, NIL);

	/*
	 * An UPDATE that moves rows reads and deletes on the same sessions, so batches would stay
	 * small. Without a plan it is COPY, unless another command counts the rows.
	 */
	if (mtstate->operation == CMD_INSERT && (plan != NULL || rf_copy_counts()) &&
		may_load(mtstate, result_rel, &opts, state->attrs, retrieved))
	{
		state->copy = plan == NULL;
		begin_load(state, mtstate, CMD_INSERT, &opts, conflict.sql);
	}
	state->counted = plan != NULL && mtstate->canSetTag;

	/* routing found the partition, but a trigger may change the row; COPY checks by itself */
	state->check_partition = plan != NULL && rel->rd_rel->relispartition && rel->trigdesc &&
		rel->trigdesc->trig_insert_before_row;
	if (state->distribution == NULL)
		(void) rf_modify_target(state, 0);
	result_rel->ri_FdwState = state;
}

/* ---------- one row ---------- */

/* False: the load refused the row, and the target's command must write it. */
static bool
add_to_load(ModifyState *state, ModifyTarget *target, TupleTableSlot *slot)
{
	target->rows++;
	if (target->lines)
		rf_copy_line(target->lines, target->rows);
	if (rf_load_add(target->load, slot))
		return true;
	target->rows--;
	if (target->command == NULL)
		rf_modify_create_command(state, target);
	return false;
}

/* The node for a new row. */
static ModifyTarget *
choose_target(ModifyState *state, TupleTableSlot *slot)
{
	if (state->distribution == NULL)
		return &state->targets[0];
	if (state->route)
		return rf_modify_target(state, rf_modify_place_of_row(state, slot));
	return rf_modify_target(state, state->turn++ % state->target_count);
}

/*
 * Runs the statement on all nodes, with the values: on the first node by one round trip, because
 * two statements that write the same row must meet there, then on all further nodes by one round
 * trip together. If the first node wrote no row, the further nodes run it only if `always` is set.
 * Returns the number of rows that each node wrote, palloc'd. The values may lie in the slot, so the
 * last node's result is what the slot gets.
 */
static int *
execute_everywhere(ModifyState *state, TupleTableSlot *slot, bool always)
{
	bool		alone = state->target_count == 1;
	int		   *rows = palloc0_array(int, state->target_count);

	rows[0] = rf_modify_execute(state, rf_modify_target(state, 0), alone ? slot : NULL);
	if (!alone && (always || rows[0] > 0))
		rf_modify_execute_others(state, slot, rows);
	return rows;
}

/* Adds the row to the table's copy on each node. */
static TupleTableSlot *
insert_everywhere(ModifyState *state, TupleTableSlot *slot)
{
	ModifyTarget *first = rf_modify_target(state, 0);
	int		   *rows;
	int			inserted;

	if (first->load && add_to_load(state, first, slot))
		return slot;
	rf_modify_take_values(state, slot, 0);
	rows = execute_everywhere(state, slot, true);
	inserted = rows[0];
	for (int i = 1; i < state->target_count; i++)
	{
		if (rows[i] != inserted)
			rf_complain_of_copies(state->rel, first->user, inserted, state->targets[i].user,
								  rows[i]);
	}
	pfree(rows);
	return inserted > 0 ? slot : NULL;
}

/* Before the first row */
static inline void
begin_writing(ModifyState *state, EState *estate)
{
	if (likely(state->writing))
		return;
	state->writing = true;
	rf_scan_before_write(estate);
}

TupleTableSlot *
rdmaExecForeignInsert(EState *estate, ResultRelInfo *result_rel, TupleTableSlot *slot,
					  TupleTableSlot *plan_slot)
{
	ModifyState *state = result_rel->ri_FdwState;
	ModifyTarget *target;

	begin_writing(state, estate);
	if (state->check_partition)
		ExecPartitionCheck(result_rel, slot, estate, true);
	if (state->conflict)
		rf_modify_note_conflict(state, slot);
	if (rf_modify_is_replicated(state))
		return insert_everywhere(state, slot);
	target = choose_target(state, slot);
	if (target->load && add_to_load(state, target, slot))
		return slot;
	rf_modify_take_values(state, slot, 0);
	return rf_modify_execute(state, target, slot) > 0 ? slot : NULL;
}

/* What names the row there becomes the first values. */
static void
take_place(ModifyState *state, TupleTableSlot *plan_slot)
{
	if (state->sent)
		ExecClearTuple(state->sent);
	for (int i = 0; i < state->place_count; i++)
		state->values[i] = ExecGetJunkAttribute(plan_slot, state->place_attnos[i],
												&state->isnull[i]);
	if (state->isnull[0] || state->isnull[1])
		elog(ERROR, "a row to be written has no place");
}

/* The node of the row whose place was taken. */
static int
old_node(ModifyState *state)
{
	for (int i = 0; i < state->distribution->key_count; i++)
	{
		state->key_values[i] = state->values[2 + i];
		state->key_isnull[i] = state->isnull[2 + i];
	}
	return rf_modify_place_of_key(state);
}

/*
 * The node that has the row: its old key determines it. Planning refused rows that node and ctid do
 * not identify.
 */
static ModifyTarget *
find_target(ModifyState *state, ResultRelInfo *result_rel, TupleTableSlot *slot, bool update)
{
	int			place;

	if (state->distribution == NULL)
		return &state->targets[0];
	place = old_node(state);

	/* The statement assigns no key; a trigger may have assigned one. */
	if (update && result_rel->ri_TrigDesc && result_rel->ri_TrigDesc->trig_update_before_row &&
		rf_modify_place_of_row(state, slot) != place)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a trigger of foreign table \"%s\" moves a row to another node",
						RelationGetRelationName(state->rel)),
				 errhint("Delete the row and insert it again.")));
	return rf_modify_target(state, place);
}

/*
 * The row whose place was taken is locked on the first node, where it was read; what the first node
 * does not write, as the statement has written it before, no other node does.
 */
static TupleTableSlot *
write_everywhere(ModifyState *state, TupleTableSlot *slot)
{
	int		   *rows = execute_everywhere(state, slot, false);
	bool		written = rows[0] > 0;

	for (int i = 0; i < state->target_count && written; i++)
	{
		ModifyTarget *target = &state->targets[i];

		if (rows[i] == 0)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not serialize access due to concurrent update"),
					 errdetail("A row of replicated table \"%s\" is not on server \"%s\" as it is "
							   "on server \"%s\".",
							   RelationGetRelationName(state->rel),
							   GetForeignServer(target->user->serverid)->servername,
							   GetForeignServer(state->targets[0].user->serverid)->servername),
					 errhint("Try the transaction again. rdma.check_distribution() tells whether "
							 "the copies differ.")));
		if (rows[i] > 1)
			rf_modify_ambiguous(state->rel, rows[i], target->user->serverid);
	}
	pfree(rows);
	return written ? slot : NULL;
}

/* Updates or deletes the row that plan_slot names; NULL: it is not there any more. */
static TupleTableSlot *
write_row(ResultRelInfo *result_rel, TupleTableSlot *slot, TupleTableSlot *plan_slot, bool update)
{
	ModifyState *state = result_rel->ri_FdwState;
	ModifyTarget *target;
	int			rows;

	take_place(state, plan_slot);
	if (update)
		rf_modify_take_values(state, slot, state->place_count);
	if (state->copy_sql != NULL)
		return write_everywhere(state, slot);
	target = find_target(state, result_rel, slot, update);
	if (target->load && add_to_load(state, target, ExecStoreVirtualTuple(state->sent)))
		return slot;
	rows = rf_modify_execute(state, target, slot);
	if (rows > 1)
		rf_modify_ambiguous(state->rel, rows, InvalidOid);
	return rows > 0 ? slot : NULL;
}

TupleTableSlot *
rdmaExecForeignUpdate(EState *estate, ResultRelInfo *result_rel, TupleTableSlot *slot,
					  TupleTableSlot *plan_slot)
{
	ModifyState *state = result_rel->ri_FdwState;

	begin_writing(state, estate);
	if (state->check_partition)
		ExecPartitionCheck(result_rel, slot, estate, true);
	if (state->moves)
	{
		int			from;

		take_place(state, plan_slot);
		from = old_node(state);
		rf_row_moves_add(state, from, rf_modify_place_of_row(state, slot), slot);
		return slot;
	}
	return write_row(result_rel, slot, plan_slot, true);
}

TupleTableSlot *
rdmaExecForeignDelete(EState *estate, ResultRelInfo *result_rel, TupleTableSlot *slot,
					  TupleTableSlot *plan_slot)
{
	begin_writing(result_rel->ri_FdwState, estate);
	return write_row(result_rel, slot, plan_slot, false);
}

/* ---------- the end ---------- */

void
rdmaEndForeignModify(EState *estate, ResultRelInfo *result_rel)
{
	ModifyState *state = result_rel->ri_FdwState;

	if (state == NULL || (state->load_spec == NULL && state->moves == NULL))
		return;
	finish_load(state);
	forget_load(state);
	if (state->moves)
		rf_row_moves_end(state->moves);
}

void
rdmaEndForeignInsert(EState *estate, ResultRelInfo *result_rel)
{
	rdmaEndForeignModify(estate, result_rel);
}

/* With VERBOSE the statements; with ANALYZE the nodes that got rows, and counters of a load. */
void
rdmaExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *result_rel, List *fdw_private,
						 int subplan_index, ExplainState *es)
{
	RfModifyPlan *plan = rf_plan_node_of(RfModifyPlan, fdw_private);
	ModifyState *state = result_rel->ri_FdwState;
	List	   *names = NIL;

	for (int i = 0; es->analyze && state && state->distribution && i < state->target_count; i++)
	{
		if (state->targets[i].session != NULL)
			names = lappend(names,
							GetForeignServer(state->targets[i].user->serverid)->servername);
	}
	if (names != NIL)
		ExplainPropertyList("Nodes Written", names, es);
	if (!es->verbose)
		return;
	ExplainPropertyText("Remote SQL", plan->sql, es);
	if (plan->copy_sql != NULL)
		ExplainPropertyText("Remote SQL on Other Nodes", plan->copy_sql, es);
	if (plan->move_delete != NULL)
	{
		ExplainPropertyText("Remote SQL on the Former Node", plan->move_delete, es);
		ExplainPropertyText("Remote SQL on the New Node", plan->move_insert, es);
	}
	if (es->analyze && state && state->load_spec)
	{
		RfLoadStats sum = {0};

		for (int i = 0; i < state->target_count; i++)
		{
			bool		copies = rf_modify_is_replicated(state);
			RfLoad	   *load = state->targets[copies ? 0 : i].load;
			const RfLoadStats *stats;

			if (load == NULL)
				continue;
			stats = rf_load_stats(load, copies ? i : 0);
			sum.rows += stats->rows;
			sum.batches += stats->batches;
			sum.bytes += stats->bytes;
			sum.requests += stats->requests;
			sum.flows += stats->flows;
			sum.refused += stats->refused;
			sum.waits += stats->waits;
			sum.wait_us += stats->wait_us;
			if (state->distribution && es->format == EXPLAIN_FORMAT_TEXT)
				ExplainPropertyText(
									"Loaded Node",
									psprintf("%s rows=" UINT64_FORMAT,
											 GetForeignServer(state->targets[i].user->serverid)
											 ->servername,
											 stats->rows),
									es);
		}
		if (sum.refused > 0 || es->format != EXPLAIN_FORMAT_TEXT)
			ExplainPropertyUInteger("Rows Written One by One", NULL, sum.refused, es);
		if (es->format == EXPLAIN_FORMAT_TEXT)
		{
			ExplainPropertyText("Loaded",
								psprintf("rows=" UINT64_FORMAT " batches=" UINT64_FORMAT
										 " bytes=" UINT64_FORMAT " requests=" UINT64_FORMAT
										 " flows=" UINT64_FORMAT,
										 sum.rows, sum.batches, sum.bytes, sum.requests, sum.flows),
								es);
			if (es->timing && sum.flows > 0)
				ExplainPropertyText("Waited",
									psprintf("%.3f ms in " UINT64_FORMAT " waits",
											 sum.wait_us / 1000.0, sum.waits),
									es);
			return;
		}
		ExplainPropertyUInteger("Loaded Rows", NULL, sum.rows, es);
		ExplainPropertyUInteger("Loaded Batches", NULL, sum.batches, es);
		ExplainPropertyUInteger("Loaded Bytes", NULL, sum.bytes, es);
		ExplainPropertyUInteger("Load Requests", NULL, sum.requests, es);
		ExplainPropertyUInteger("Load Flows", NULL, sum.flows, es);
		if (es->timing)
		{
			ExplainPropertyUInteger("Load Waits", NULL, sum.waits, es);
			ExplainPropertyFloat("Load Wait Time", "ms", sum.wait_us / 1000.0, 3, es);
		}
	}
}

/*
 * Truncates the tables on all nodes that have them, one statement for each node. The first node
 * locks the tables before any other node is asked. Two TRUNCATEs that asked all nodes at once could
 * each get the locks of some nodes, and wait for each other.
 */
void
rdmaExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	StringInfoData sql;
	ForeignServer *server = NULL;
	List	   *nodes;
	RfSession **sessions;
	PGresult  **results;
	ListCell   *lc;

	initStringInfo(&sql);
	foreach(lc, rels)
	{
		Relation	rel = lfirst(lc);
		ForeignTable *table = GetForeignTable(RelationGetRelid(rel));
		RfTableOptions opts;

		server = GetForeignServer(table->serverid);
		rf_table_options(table, server, &opts);
		if (!opts.truncatable)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("foreign table \"%s\" does not allow truncates",
							RelationGetRelationName(rel))));
		appendStringInfo(&sql, "%s%s%s", lc == list_head(rels) ? "TRUNCATE " : ", ",
						 rf_server_nodes(server) != NIL &&
						 rf_truncates_only(RelationGetRelid(rel)) ?
						 "ONLY " :
						 "",
						 rf_remote_relation_name(&opts));
	}
	Assert(server != NULL);		/* core calls once per server */
	appendStringInfo(&sql, " %s IDENTITY %s", restart_seqs ? "RESTART" : "CONTINUE",
					 behavior == DROP_CASCADE ? "CASCADE" : "RESTRICT");
	rf_placement_use(server->serverid);
	nodes = rf_server_nodes(server);
	if (nodes == NIL)
		nodes = list_make1_oid(server->serverid);
	sessions = palloc_array(RfSession *, list_length(nodes));
	results = palloc_array(PGresult *, list_length(nodes));
	foreach(lc, nodes)
	{
		UserMapping *user = rf_user_mapping(GetUserId(), lfirst_oid(lc));

		sessions[foreach_current_index(lc)] = rf_node_session(0, user, server->serverid);
	}
	if (list_length(nodes) > 1)
		rf_sessions_begin(sessions, list_length(nodes));
	PQclear(rf_session_execute(sessions[0], sql.data));
	if (list_length(nodes) > 1)
		rf_sessions_execute(sessions + 1, list_length(nodes) - 1, sql.data, false, results);
	for (int i = 0; i < list_length(nodes) - 1; i++)
		PQclear(results[i]);
}
