/*
 * insert_direct_plan.c - whether the data node can do an INSERT ... SELECT by itself, and the
 * statement for it; modify_direct.c runs it.
 *
 * It is possible when the rows come from one scan of the target's server, all conditions are
 * evaluated there and all values can be: then no row comes here. Core asks only where no trigger,
 * check option or generated column here wants to see rows.
 *
 * On a server with nodes a row must be written on the node that its key says. Where the rows lie
 * there already, each node writes its own, or its copies of all of them. Else they go there by an
 * exchange, from node to node.
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

/* The relation of the only scan below ModifyTable, if it is one of a table, a join or a SELECT. */
static RelOptInfo *
scanned_rel(PlannerInfo *root, ForeignScan *scan)
{
	int			relid;
	RelOptInfo *rel;

	if (bms_get_singleton_member(scan->fs_relids, &relid))
		rel = find_base_rel(root, relid);
	else
		rel = find_join_rel(root, scan->fs_relids);
	if (rel == NULL || !rf_is_our_rel(rel) || rel->fdw_private == NULL ||
		((RfRelInfo *) rel->fdw_private)->planned.plan != scan)
		return NULL;
	return rel;
}

/* The values of all columns that are not dropped. False: the node cannot compute one. */
static bool
take_values(PlannerInfo *root, RelOptInfo *scanned, ForeignScan *scan, Relation target,
			RfDirectModify *statement)
{
	ListCell   *lc;

	statement->target_attrs = rf_all_columns(target);
	foreach(lc, statement->target_attrs)
	{
		TargetEntry *value = get_tle_by_resno(scan->scan.plan.targetlist, lfirst_int(lc));

		if (value == NULL || value->resjunk || !rf_is_shippable_expr(root, scanned, value->expr) ||
			(IsA(value->expr, Var) && ((Var *) value->expr)->varattno <= 0))
			return false;
		statement->targets = lappend(statement->targets, value);
	}
	return statement->target_attrs != NIL;
}

/*
 * The keys that place the target's rows, as the node will hash them; NIL: it cannot. Not the result
 * of a conversion that the column does again, and perhaps refuses.
 */
static List *
key_values(RfRelInfo *info, ForeignScan *scan, const RfDistribution *distribution)
{
	List	   *keys = NIL;

	for (int i = 0; i < distribution->key_count; i++)
	{
		TargetEntry *value = get_tle_by_resno(scan->scan.plan.targetlist, distribution->keys[i]);
		Expr	   *key = rf_hashable_key(value->expr, info);

		if (key == NULL || strip_implicit_coercions((Node *) key) != (Node *) key)
			return NIL;
		keys = lappend(keys, key);
	}
	return keys;
}

/* Returns true if the rows lie where these values of theirs say. */
static bool
lie_there(const RfFragment *fragment, List *keys)
{
	if (fragment->placement != RF_PLACED_BY_HASH || fragment->layout != NULL ||
		fragment->computed || list_length(fragment->keys) != list_length(keys))
		return false;
	for (int i = 0; i < list_length(keys); i++)
	{
		if (!rf_keys_agree(list_nth(fragment->keys, i), list_make1(list_nth(keys, i)), NIL))
			return false;
	}
	return true;
}

/*
 * The rows where they are to be written: as they are, or moved. NULL: they come here instead. The
 * rows of a SELECT that all nodes have may differ between nodes, by a LIMIT or the order of a
 * window; and each node would keep whichever of two conflicting rows its own scan finds first.
 */
static RfRelInfo *
at_target(PlannerInfo *root, RfRelInfo *info, ForeignScan *scan, Oid target, bool keeps_first)
{
	RfDistribution *distribution;
	List	   *keys;

	if (info->fragment == NULL)
		return info;
	distribution = rf_table_distribution(target);
	if (list_length(info->nodes) == 1 && !info->fragment->computed)
		return info;
	if (distribution->placement == RF_PLACED_EVERYWHERE)
		return info->fragment->placement == RF_PLACED_EVERYWHERE && !info->fragment->exchanges &&
			!info->fragment->computed && !rf_reads_select(info) && !keeps_first ? info : NULL;
	if (distribution->placement != RF_PLACED_BY_HASH)
		return NULL;
	keys = key_values(info, scan, distribution);
	if (keys == NIL)
		return NULL;
	if (lie_there(info->fragment, keys))
		return info;
	if (rf_exchange_strategy == RF_STRATEGY_PULL || info->fragment->computed ||
		info->fragment->layout != NULL || !rf_can_move(root, info))
		return NULL;
	info = rf_move(root, info, keys, false);
	info->fragment->strategies = lappend(list_copy(info->fragment->strategies), "repartition one");
	return rf_has_flows(info) ? info : NULL;
}

bool
rf_plan_direct_insert(PlannerInfo *root, ModifyTable *plan, Index target)
{
	RfDirectModify statement = {.operation = CMD_INSERT};
	RangeTblEntry *rte = planner_rt_fetch(target, root);
	ForeignServer *server = GetForeignServer(GetForeignServerIdByRelId(rte->relid));
	ForeignScan *scan = (ForeignScan *) outerPlan(plan);
	RfConflict	conflict;
	RelOptInfo *scanned;
	RfRelInfo  *info;
	RfDirectPlan *direct;
	Relation	rel;
	bool		possible;

	if (!IsA(scan, ForeignScan) || scan->scan.plan.qual != NIL || scan->scan.plan.initPlan != NIL ||
		plan->returningLists != NIL || root->rowMarks != NIL)
		return false;
	scanned = scanned_rel(root, scan);
	if (scanned == NULL || scanned->serverid != server->serverid ||
		scanned->userid != rf_planned_userid(root, rte))
		return false;
	info = (RfRelInfo *) scanned->fdw_private;
	if (info->local_conds != NIL || rf_differs_by_node(info) || info->server == NULL ||
		info->server->serverid != server->serverid || !equal(info->nodes, rf_server_nodes(server)))
		return false;

	rel = table_open(rte->relid, NoLock);	/* locked by the planner */
	possible = !rel->rd_rel->relispartition && take_values(root, scanned, scan, rel, &statement);
	rf_conflict(root, rel, target, plan->onConflictAction, 0, &conflict);
	table_close(rel, NoLock);
	if (!possible || conflict.params != NIL)
		return false;
	info = at_target(root, info, scan, rte->relid, plan->onConflictAction == ONCONFLICT_NOTHING);
	if (info == NULL)
		return false;

	rf_build_insert(root, info, rte->relid, conflict.sql, conflict.columns != NIL, &statement);
	if (!bms_is_empty(pull_varnos(root, (Node *) statement.params)))
		return false;
	scan->operation = CMD_INSERT;
	scan->resultRelation = target;
	scan->fdw_exprs = statement.params;
	direct = rf_make_plan_node(RfDirectPlan);
	direct->sql = statement.sql;
	direct->param_types = statement.param_types;
	direct->set_processed = plan->canSetTag;
	if (info->nodes != NIL && info->fragment->placement == RF_PLACED_BY_HASH)
		direct->keys = rf_prune_nodes(info, &scan->fdw_exprs);
	direct->exchanges = statement.exchanges;
	direct->fetch = info->opts.fetch;
	direct->strategy = info->fragment == NULL ? pstrdup("") :
		info->fragment->exchanges == 0 ? pstrdup("co-located") :
		rf_join_strategies(info->fragment->strategies);
	scan->fdw_private = list_make1(direct);
	scan->fdw_recheck_quals = NIL;
	scan->scan.plan.async_capable = false;
	return true;
}
