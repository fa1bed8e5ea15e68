/*
 * modify_conflict.c - INSERT ... ON CONFLICT: values of the clause's parameters, and rows that
 * would be updated twice.
 *
 * PostgreSQL refuses to update a row twice in one command. The rows of one statement here go to a
 * node in several commands, and the node compares the rows of each command only. So this file keeps
 * the keys of all rows of DO UPDATE until the statement ends, some hundred bytes for each row.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "rdma_fdw/compat.h"

#include "fdw/deparse/deparse.h"
#include "fdw/plan/plan.h"
#include "fdw/plan/plan_private.h"

#include "modify_state.h"

/* Freed with the executor's state. */
struct RfConflictKeys
{
	TupleHashTable table;
	TupleTableSlot *key;		/* of one row */
	List	   *columns;		/* IntList */
};

/* The values are computed once; they are the same for all rows. */
static const char *const *
parameter_texts(ModifyTableState *node, const RfModifyPlan *plan)
{
	ExprContext *context = GetPerTupleExprContext(node->ps.state);
	int			count = list_length(plan->conflict.params);
	Datum	   *values = palloc_array(Datum, count);
	bool	   *isnull = palloc_array(bool, count);
	ListCell   *lc;

	foreach(lc, plan->conflict.params)
	{
		ExprState  *expr = ExecInitExpr((Expr *) lfirst(lc), &node->ps);
		int			i = foreach_current_index(lc);

		values[i] = ExecEvalExprSwitchContext(expr, context, &isnull[i]);
	}
	return rf_write_values(rf_value_writer_create(plan->conflict.param_types), values, isnull);
}

/* Values are compared by the default operators of their types, as planning made sure they have. */
static RfConflictKeys *
create_keys(ModifyState *state, ModifyTableState *node, List *columns)
{
	RfConflictKeys *keys = palloc0(sizeof(RfConflictKeys));
	TupleDesc	whole = RelationGetDescr(state->rel);
	int			count = list_length(columns);
	TupleDesc	desc = CreateTemplateTupleDesc(count);
	AttrNumber *attnos = palloc_array(AttrNumber, count);
	Oid		   *operators = palloc_array(Oid, count);
	Oid		   *collations = palloc_array(Oid, count);
	Oid		   *equal;
	FmgrInfo   *hash;
	ListCell   *lc;

	foreach(lc, columns)
	{
		int			i = foreach_current_index(lc);
		Form_pg_attribute att = TupleDescAttr(whole, lfirst_int(lc) - 1);

		TupleDescCopyEntry(desc, i + 1, whole, lfirst_int(lc));
		attnos[i] = i + 1;
		operators[i] = lookup_type_cache(att->atttypid, TYPECACHE_EQ_OPR)->eq_opr;
		collations[i] = att->attcollation;
	}
	rf_tupdesc_finish(desc);
	execTuplesHashPrepare(count, operators, &equal, &hash);
	keys->columns = columns;
	keys->key = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	keys->table = rf_build_tuple_hash(&node->ps, desc, &TTSOpsVirtual, count, attnos, equal, hash,
									  collations, CurrentMemoryContext,
									  AllocSetContextCreate(CurrentMemoryContext,
															"rdma_fdw keys of ON CONFLICT",
															ALLOCSET_DEFAULT_SIZES),
									  GetPerTupleMemoryContext(node->ps.state));
	return keys;
}

const char *
rf_modify_begin_conflict(ModifyState *state, ModifyTableState *node, const RfModifyPlan *plan)
{
	int			count = list_length(plan->conflict.params);
	const char *const *values;

	if (plan->conflict.columns != NIL)
		state->conflict = create_keys(state, node, plan->conflict.columns);
	if (count == 0)
		return plan->conflict.sql;
	values = parameter_texts(node, plan);
	state->sql = rf_with_literals(plan->sql, state->param_count + 1, count, values);
	return rf_with_literals(plan->conflict.sql, state->param_count + 1, count, values);
}

void
rf_modify_note_conflict(ModifyState *state, TupleTableSlot *slot)
{
	RfConflictKeys *keys = state->conflict;
	bool		unknown = false;
	bool		isnew;
	ListCell   *lc;

	ExecClearTuple(keys->key);
	foreach(lc, keys->columns)
	{
		int			i = foreach_current_index(lc);

		keys->key->tts_values[i] = slot_getattr(slot, lfirst_int(lc), &keys->key->tts_isnull[i]);
		unknown |= keys->key->tts_isnull[i];
	}
	/* NULL is in conflict with nothing */
	if (unknown)
		return;
	ExecStoreVirtualTuple(keys->key);
	(void) LookupTupleHashEntry(keys->table, keys->key, &isnew, NULL);
	if (!isnew)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("ON CONFLICT DO UPDATE command cannot affect row a second time"),
				 errdetail("Rows for foreign table \"%s\" are equal in the columns of the "
						   "conflict.", RelationGetRelationName(state->rel)),
				 errhint("Ensure that no rows proposed for insertion within the same command have "
						 "duplicate constrained values.")));
}
