/*
 * store_insert.c - many rows at a time into a plain table, for the INSERT that
 * rdma_internal.store() runs.
 *
 * ModifyTable stores row by row: a page is locked and a WAL record written for each. COPY FROM
 * collects rows and stores them together; here the same is done with the rows that arrive, in the
 * executor state that ExecutorStart has set up: rights were checked there, and statement triggers,
 * generated columns, constraints, indexes, and AFTER ROW triggers are called as ModifyTable calls
 * them, in COPY's order. Any step that may look at a row before the next one is stored, or decide
 * where it goes, stays with ModifyTable: BEFORE ROW triggers, row security, check options, ON
 * CONFLICT, partitions, views, volatile defaults.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "rdma_fdw/compat.h"
#include "utils/rel.h"

#include "store.h"

/* As much as COPY collects. */
#define MAX_ROWS	1000
#define MAX_BYTES	65535

typedef struct Pending
{
	ModifyTableState *node;
	ResultRelInfo *target;
	BulkInsertState bulk;
	TupleTableSlot *slots[MAX_ROWS];	/* made when first needed */
	int			count;
	Size		bytes;
} Pending;

/* Writes the rows that wait, of this Pending. */
static void
flush(void *keeper)
{
	Pending    *pending = keeper;
	ModifyTableState *node = pending->node;
	EState	   *estate = node->ps.state;
	ResultRelInfo *target = pending->target;
	TriggerDesc *triggers = target->ri_TrigDesc;
	bool		after = triggers != NULL &&
		(triggers->trig_insert_after_row || triggers->trig_insert_new_table);
	MemoryContext caller;

	if (pending->count == 0)
		return;

	/* errors left behind concern these rows only */
	caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
	table_multi_insert(target->ri_RelationDesc, pending->slots, pending->count,
					   estate->es_output_cid, 0, pending->bulk);
	MemoryContextSwitchTo(caller);

	for (int i = 0; i < pending->count; i++)
	{
		List	   *recheck = NIL;

		rf_store_at_row(pending->count - 1 - i);
		if (target->ri_NumIndices > 0)
			recheck = rf_insert_index_tuples(target, pending->slots[i], estate);
		if (after || recheck != NIL)
			ExecARInsertTriggers(estate, target, pending->slots[i], recheck,
								 node->mt_transition_capture);
		list_free(recheck);
		ExecClearTuple(pending->slots[i]);
	}
	if (node->canSetTag)
		estate->es_processed += pending->count;
	pending->count = 0;
	pending->bytes = 0;
	ResetPerTupleExprContext(estate);
}

/* In place of ExecModifyTable: the whole INSERT in one call. */
static TupleTableSlot *
insert_all(PlanState *pstate)
{
	ModifyTableState *node = castNode(ModifyTableState, pstate);
	EState	   *estate = node->ps.state;
	ResultRelInfo *target = node->resultRelInfo;
	Relation	rel = target->ri_RelationDesc;
	Pending    *pending;

	if (node->mt_done)
		return NULL;
	if (node->fireBSTriggers)
	{
		ExecBSInsertTriggers(estate, node->rootResultRelInfo);
		node->fireBSTriggers = false;
	}
	if (rel->rd_rel->relhasindex && target->ri_IndexRelationDescs == NULL)
		ExecOpenIndices(target, false);
	pending = palloc0(sizeof(Pending));
	pending->node = node;
	pending->target = target;
	pending->bulk = GetBulkInsertState();

	rf_store_keeps_rows(flush, pending);
	for (;;)
	{
		TupleTableSlot *row;
		TupleTableSlot *slot;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(estate);
		row = ExecProcNode(outerPlanState(node));
		if (TupIsNull(row))
			break;
		if (pending->slots[pending->count] == NULL)
			pending->slots[pending->count] = table_slot_create(rel, NULL);
		slot = ExecCopySlot(pending->slots[pending->count], row);
		slot->tts_tableOid = RelationGetRelid(rel);
		if (rel->rd_att->constr != NULL)
		{
			if (rel->rd_att->constr->has_generated_stored)
				ExecComputeStoredGenerated(target, estate, slot, CMD_INSERT);
			ExecConstraints(target, slot, estate);
		}
		/* a partition that rows are sent to by its own name */
		if (rel->rd_rel->relispartition)
			ExecPartitionCheck(target, slot, estate, true);
		pending->count++;
		pending->bytes += ExecFetchSlotHeapTuple(slot, true, NULL)->t_len;
		if (pending->count == MAX_ROWS || pending->bytes >= MAX_BYTES)
			flush(pending);
	}
	flush(pending);
	rf_store_keeps_rows(NULL, NULL);
	rf_store_at_no_row();

	FreeBulkInsertState(pending->bulk);
	table_finish_bulk_insert(rel, 0);
	for (int i = 0; i < MAX_ROWS && pending->slots[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(pending->slots[i]);
	pfree(pending);
	ExecASInsertTriggers(estate, node->rootResultRelInfo, node->mt_transition_capture);
	node->mt_done = true;
	return NULL;
}

void
rf_store_insert_together(ModifyTableState *node)
{
	ModifyTable *plan = castNode(ModifyTable, node->ps.plan);
	ResultRelInfo *target = node->resultRelInfo;
	TriggerDesc *triggers = target->ri_TrigDesc;

	if (node->operation != CMD_INSERT || node->mt_nrels != 1 || node->rootResultRelInfo != target ||
		node->mt_partition_tuple_routing != NULL || plan->onConflictAction != ONCONFLICT_NONE ||
		plan->returningLists != NIL || target->ri_WithCheckOptions != NIL ||
		target->ri_RelationDesc->rd_rel->relkind != RELKIND_RELATION ||
		target->ri_RelationDesc->rd_tableam != GetHeapamTableAmRoutine())
		return;
	if (triggers != NULL && (triggers->trig_insert_before_row || triggers->trig_insert_instead_row))
		return;
	/* a sequence's next value is the one volatile default that does not look at the table */
	if (contain_volatile_functions_not_nextval((Node *) outerPlan(plan)->targetlist))
		return;
	ExecSetExecProcNode(&node->ps, insert_all);
}
