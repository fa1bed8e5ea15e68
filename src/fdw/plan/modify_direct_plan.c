/*
 * modify_direct_plan.c - whether the data node can do an UPDATE or DELETE by itself, and the
 * statement for it; modify_direct.c runs it.
 *
 * It is possible when all conditions are evaluated there and all new values can be; of a join
 * (UPDATE ... FROM, DELETE ... USING) when the join is made there. Core asks only where no trigger,
 * check option or generated column here wants to see rows. On a server with nodes each of them runs
 * the statement over its rows, or over its copy of all of them.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "rdma_fdw/guc.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

/*
 * The scan of the target, or of a join with it, below ModifyTable; NULL when something stands
 * between.
 */
static ForeignScan *
find_scan(ModifyTable *plan, Index rtindex, int subplan_index)
{
	Plan	   *subplan = outerPlan(plan);

	if (IsA(subplan, Append))
	{
		if (subplan_index < list_length(((Append *) subplan)->appendplans))
			subplan = (Plan *) list_nth(((Append *) subplan)->appendplans, subplan_index);
	}
	else if (IsA(subplan, Result) && outerPlan(subplan) != NULL && IsA(outerPlan(subplan), Append))
	{
		Append	   *append = (Append *) outerPlan(subplan);

		if (subplan_index < list_length(append->appendplans))
			subplan = (Plan *) list_nth(append->appendplans, subplan_index);
	}
	if (IsA(subplan, ForeignScan) &&
		(((ForeignScan *) subplan)->scan.scanrelid == rtindex ||
		 (((ForeignScan *) subplan)->scan.scanrelid == 0 &&
		  bms_is_member(rtindex, ((ForeignScan *) subplan)->fs_relids))))
		return (ForeignScan *) subplan;
	return NULL;
}

/*
 * The columns of a join that RETURNING reads: the target's columns one by one, whole rows of other
 * tables. False: some of them are not available.
 */
static bool
returned_columns(PlannerInfo *root, RelOptInfo *joinrel, Index target, List *returning,
				 List **columns)
{
	Relation	rel = table_open(planner_rt_fetch(target, root)->relid, NoLock);
	List	   *vars = NIL;
	bool		possible = true;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) returning, PVC_INCLUDE_PLACEHOLDERS))
	{
		Var		   *var = (Var *) lfirst(lc);

		if (IsA(var, Var) && var->varno == target && var->varattno == TableOidAttributeNumber)
			continue;
		if (!IsA(var, Var) || var->varattno < 0 || !bms_is_member(var->varno, joinrel->relids))
			possible = false;
		else if (var->varno == target && var->varattno == 0)
		{
			ListCell   *column;

			foreach(column, rf_all_columns(rel))
			{
				Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel),
													  lfirst_int(column) - 1);

				vars = lappend(vars, makeVar(target, att->attnum, att->atttypid, att->atttypmod,
											 att->attcollation, 0));
			}
		}
		else
			vars = lappend(vars, var);
	}
	table_close(rel, NoLock);
	*columns = add_to_flat_tlist(NIL, vars);
	return possible;
}

/*
 * The scan's row now has the columns that RETURNING needs. Its former columns stay, as NULL, for
 * references that the target list still has.
 */
static List *
with_former_columns(List *columns, List *former)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, former)
		exprs = lappend(exprs, lfirst_node(TargetEntry, lc)->expr);
	return add_to_flat_tlist(columns, exprs);
}

/*
 * The scan's target list holds what names rows, and the new values, which nobody asks for any more;
 * computed from rows that RETURNING gives they could even fail. Only a column stays: where
 * RETURNING wants the same one of another table, this is where it is looked for. values: false
 * where an Append is above the scan.
 */
static List *
without_values(List *tlist, bool values)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		if (IsA(entry->expr, Var) ? RF_IS_ROW_TABLE((Var *) entry->expr) :
			values && !entry->resjunk)
			entry->expr = (Expr *) makeNullConst(exprType((Node *) entry->expr),
												 exprTypmod((Node *) entry->expr),
												 exprCollation((Node *) entry->expr));
		result = lappend(result, entry);
	}
	return result;
}

/* The statement of a scan of the target alone. */
static void
table_statement(PlannerInfo *root, const ForeignScan *scan, RfDirectModify *statement)
{
	Index		target = scan->scan.scanrelid;
	Oid			relid = planner_rt_fetch(target, root)->relid;
	StringInfoData sql;
	Relation	rel;
	ListCell   *lc;
	ListCell   *lc2;

	initStringInfo(&sql);
	appendStringInfo(&sql, "%s%s", statement->operation == CMD_UPDATE ? "UPDATE " : "DELETE FROM ",
					 ((RfRelInfo *) find_base_rel(root, target)->fdw_private)->relation_name);
	forboth(lc, statement->targets, lc2, statement->target_attrs)
		appendStringInfo(&sql, "%s%s = %s", lc == list_head(statement->targets) ? " SET " : ", ",
						 quote_identifier(rf_column_name(relid, lfirst_int(lc2))),
						 rf_print_expr(target, relid, lfirst_node(TargetEntry, lc)->expr, true,
									   &statement->params, &statement->param_types));
	foreach(lc, scan->fdw_recheck_quals)
		appendStringInfo(&sql, "%s%s",
						 lc == list_head(scan->fdw_recheck_quals) ? " WHERE " : " AND ",
						 rf_print_expr(target, relid, (Expr *) lfirst(lc), false,
									   &statement->params, &statement->param_types));
	if (statement->returning)
	{
		rel = table_open(relid, NoLock);	/* locked by the planner */
		rf_append_returning(&sql, rel, target, false, NIL, statement->returning,
							&statement->retrieved);
		table_close(rel, NoLock);
	}
	statement->sql = sql.data;
}

/*
 * The statement of a join, or of a scan whose target needs a name. scanned: its relation. False:
 * there is no such statement.
 */
static bool
join_statement(PlannerInfo *root, RelOptInfo *scanned, Index target, ForeignScan *scan,
			   RfDirectModify *statement)
{
	List	   *columns = NIL;
	ListCell   *lc;

	if (statement->returning &&
		!returned_columns(root, scanned, target, statement->returning, &columns))
		return false;
	if (!rf_build_join_modify(root, scanned, target, columns, statement))
		return false;
	foreach(lc, columns)
		statement->retrieved = lappend_int(statement->retrieved,
										   lfirst_node(TargetEntry, lc)->resno);
	if (scan->scan.scanrelid == 0)
		scan->fdw_scan_tlist = with_former_columns(columns, scan->fdw_scan_tlist);
	/* no row is rechecked any more */
	outerPlan(scan) = NULL;
	return true;
}

/*
 * Returns true if each node of the scan's server can run the statement for itself. It must find
 * there the partners of its rows of the target; for a replicated target all of them, and new values
 * that are the same on all nodes. New values from other tables need not be: where a row has several
 * partners any of them is taken. read: the relations that new values are made of.
 */
static bool
nodes_can_write(PlannerInfo *root, RelOptInfo *scanned, Index target, Relids read)
{
	RfFragment *fragment = ((RfRelInfo *) scanned->fdw_private)->fragment;
	RfRelInfo  *table = (RfRelInfo *) find_base_rel(root, target)->fdw_private;

	if (fragment == NULL || IS_SIMPLE_REL(scanned))
		return true;
	if (fragment->exchanges || fragment->computed ||
		rf_differs_by_node((RfRelInfo *) scanned->fdw_private))
		return false;
	if (table->distribution->placement != RF_PLACED_EVERYWHERE || list_length(table->nodes) == 1)
		return true;
	return fragment->placement == RF_PLACED_EVERYWHERE &&
		bms_is_subset(read, bms_make_singleton(target));
}

bool
rdmaPlanDirectModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index)
{
	RfDirectModify statement = {.operation = plan->operation};
	ForeignScan *scan;
	RelOptInfo *scanned;
	bool		join;
	bool		named;
	bool		leaves;
	const RfDistribution *distribution;
	Relids		read = NULL;
	RfDirectPlan *direct;
	Oid			relid;
	Relation	rel;
	ListCell   *lc;
	ListCell   *lc2;

	/* of one table it is as good as its scan: the node finds the rows by the same conditions */
	if (rf_push_down == RF_PUSH_DOWN_NONE)
		return false;
	if (plan->operation == CMD_INSERT)
		return rf_push_down == RF_PUSH_DOWN_ALL &&
			rf_plan_direct_insert(root, plan, resultRelation);
	if (plan->operation != CMD_UPDATE && plan->operation != CMD_DELETE)
		return false;
	scan = find_scan(plan, resultRelation, subplan_index);
	if (scan == NULL || scan->scan.plan.qual != NIL)
		return false;
	join = scan->scan.scanrelid == 0;
	named = join;
	scanned = join ? find_join_rel(root, scan->fs_relids) : find_base_rel(root, resultRelation);
	if (scanned == NULL || scanned->fdw_private == NULL)
		return false;
	relid = planner_rt_fetch(resultRelation, root)->relid;

	if (plan->operation == CMD_UPDATE)
	{
		get_translated_update_targetlist(root, resultRelation, &statement.targets,
										 &statement.target_attrs);
		forboth(lc, statement.targets, lc2, statement.target_attrs)
		{
			if (lfirst_int(lc2) <= InvalidAttrNumber)
				elog(ERROR, "system-column update is not supported");
			if (!rf_is_shippable_expr(root, scanned, lfirst_node(TargetEntry, lc)->expr))
				return false;
			read = bms_add_members(read, pull_varnos(root, lfirst(lc)));
		}
	}
	if (!nodes_can_write(root, scanned, resultRelation, read))
		return false;

	/* whether new rows belong to the partition, and to the node, is looked at row by row */
	distribution = rf_own_statement(find_base_rel(root, resultRelation))->distribution;
	rel = table_open(relid, NoLock);	/* locked by the planner */
	leaves = rf_writes_partition_key(rel, statement.target_attrs) ||
		(plan->operation == CMD_UPDATE && rf_assigns_key(root, resultRelation, distribution));
	table_close(rel, NoLock);
	if (leaves)
		return false;

	/* sub-selects need the target to have a name, as it has among other tables */
	if (contain_subplans((Node *) statement.targets) ||
		contain_subplans((Node *) scan->fdw_recheck_quals))
	{
		if (!join && plan->returningLists)
			return false;
		named = true;
	}

	if (plan->returningLists)
		statement.returning = (List *) list_nth(plan->returningLists, subplan_index);
	if (!named)
		table_statement(root, scan, &statement);
	else if (!join_statement(root, scanned, resultRelation, scan, &statement))
		return false;

	scan->operation = plan->operation;
	scan->resultRelation = resultRelation;
	scan->fdw_exprs = statement.params;
	direct = rf_make_plan_node(RfDirectPlan);
	direct->sql = statement.sql;
	direct->param_types = statement.param_types;
	direct->retrieved = statement.retrieved;
	direct->set_processed = plan->canSetTag;
	if (((RfRelInfo *) scanned->fdw_private)->nodes != NIL)
		direct->keys = rf_prune_nodes((RfRelInfo *) scanned->fdw_private, &scan->fdw_exprs);
	direct->strategy = pstrdup("");
	scan->fdw_private = list_make1(direct);
	scan->scan.plan.targetlist = without_values(scan->scan.plan.targetlist,
												outerPlan(plan) == (Plan *) scan);

	/*
	 * Conditions evaluated by the data node are not evaluated again, and asynchronous execution is
	 * only for reading.
	 */
	scan->fdw_recheck_quals = NIL;
	scan->scan.plan.async_capable = false;
	return true;
}
