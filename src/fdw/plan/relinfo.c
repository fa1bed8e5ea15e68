/*
 * relinfo.c
 * 	Collects the planner's knowledge about one foreign table: its options, which of the query's
 * 	conditions the data node evaluates, and which columns must cross the wire.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"

#include "fdw/catalog/catalog.h"
#include "fdw/deparse/deparse.h"
#include "shmem/peers.h"

#include "plan.h"

/* Rows of a query may be more; with fewer there is little to gain. */
#define ROWS_AT_ONCE	10

char *
rf_local_name(RangeTblEntry *rte)
{
	const char *name = get_rel_name(rte->relid);
	const char *schema = get_namespace_name(get_rel_namespace(rte->relid));
	char	   *qualified = quote_qualified_identifier(schema, name);

	if (strcmp(rte->eref->aliasname, name) == 0)
		return qualified;
	return psprintf("%s %s", qualified, quote_identifier(rte->eref->aliasname));
}

const RfDistribution *
rf_distribution_of(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);

	return rf_server_nodes(GetForeignServer(GetForeignServerIdByRelId(relid))) != NIL ?
		rf_table_distribution(relid) :
		NULL;
}

bool
rf_writes_partition_key(Relation rel, List *target_attrs)
{
	Bitmapset  *key = NULL;
	ListCell   *lc;

	if (!rel->rd_rel->relispartition)
		return false;
	pull_varattnos((Node *) RelationGetPartitionQual(rel), 1, &key);
	foreach(lc, target_attrs)
	{
		if (bms_is_member(lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber, key))
			return true;
	}
	return false;
}

/* The nodes that may take part in a statement. Only another node computes for a single node. */
static void
find_members(RfRelInfo *info)
{
	List	   *compute = rf_server_compute_nodes(info->server);
	ListCell   *lc;

	info->members = list_union_oid(info->nodes, compute);
	if (list_length(info->members) > RF_MAX_PEERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("server \"%s\" has %d nodes and compute nodes", info->server->servername,
						list_length(info->members)),
				 errdetail("There can be at most %d.", RF_MAX_PEERS)));
	foreach(lc, list_length(info->members) > 1 ? compute : NIL)
	{
		for (int i = 0; i < list_length(info->members); i++)
		{
			if (list_nth_oid(info->members, i) == lfirst_oid(lc))
				info->compute = lappend_int(info->compute, i);
		}
	}
}

/* Returns true if the query locks or writes a local table. */
bool
rf_rows_may_be_rechecked(PlannerInfo *root)
{
	ListCell   *lc;
	int			relid = -1;

	foreach(lc, root->rowMarks)
	{
		PlanRowMark *mark = lfirst_node(PlanRowMark, lc);

		if (!mark->isParent && RowMarkRequiresRowShareLock(mark->markType))
			return true;
	}
	if (root->parse->commandType != CMD_UPDATE && root->parse->commandType != CMD_DELETE &&
		root->parse->commandType != CMD_MERGE)
		return false;
	while ((relid = bms_next_member(root->leaf_result_relids, relid)) >= 0)
	{
		if (planner_rt_fetch(relid, root)->relkind != RELKIND_FOREIGN_TABLE)
			return true;
	}
	return false;
}

/*
 * Nodes cannot lock rows of joins over several nodes. They can find the rows for UPDATE and DELETE:
 * a row comes with its key, which tells the node to which its ctid belongs.
 */
bool
rf_nodes_may_join(PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->rowMarks)
	{
		if (lfirst_node(PlanRowMark, lc)->strength != LCS_NONE)
			return false;
	}
	return root->parse->commandType != CMD_MERGE && !rf_rows_may_be_rechecked(root);
}

bool
rf_row_is_wanted(PlannerInfo *root, Index relid)
{
	Query	   *parse = root->parse;
	Bitmapset  *attrs = NULL;
	ListCell   *lc;

	if ((parse->commandType != CMD_UPDATE && parse->commandType != CMD_DELETE) ||
		rf_rows_may_be_rechecked(root) || bms_is_member(relid, root->all_result_relids) ||
		IS_OTHER_REL(find_base_rel(root, relid)))
		return true;
	foreach(lc, parse->targetList)
	{
		if (!lfirst_node(TargetEntry, lc)->resjunk)
			pull_varattnos((Node *) lfirst(lc), relid, &attrs);
	}
	pull_varattnos((Node *) parse->returningList, relid, &attrs);
	pull_varattnos((Node *) parse->jointree, relid, &attrs);
	return bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, attrs);
}

/*
 * Returns true if there is a sub-select that may not be evaluated, though the expression around it
 * is.
 */
static bool
has_conditional_sublink(Node *node, void *context)
{
	bool	   *within = context;
	bool		inside = true;

	if (node == NULL || IsA(node, Query))
		return false;
	if (IsA(node, SubLink) || IsA(node, SubPlan) || IsA(node, AlternativeSubPlan))
		return *within;
	if (IsA(node, CaseExpr) || IsA(node, CoalesceExpr) || is_orclause(node))
		context = &inside;
	return expression_tree_walker(node, has_conditional_sublink, context);
}

/*
 * How many rows of the query around it a sub-select that depends on these is asked for at once
 * (lookahead_plan.c), at the least, so that they share a round trip: 1 if that may not be.
 */
static double
rows_at_once(PlannerInfo *root)
{
	PlannerInfo *around = root->parent_root;
	PlannerInfo *top = root;
	bool		within = false;

	while (top->parent_root != NULL)
		top = top->parent_root;
	/* it may be inside of set operations, or of another sub-select */
	while (around != NULL && around->plan_params == NIL)
		around = around->parent_root;
	if (around == NULL || rf_is_disabled(RF_LOOKAHEAD) ||
		(top->parse->commandType != CMD_SELECT && top->parse->commandType != CMD_INSERT) ||
		top->parse->rowMarks != NIL ||
		has_conditional_sublink((Node *) around->parse->targetList, &within) ||
		has_conditional_sublink((Node *) around->parse->jointree, &within) ||
		has_conditional_sublink(around->parse->havingQual, &within))
		return 1;
	return ROWS_AT_ONCE;
}

RfRelInfo *
rf_relinfo_build(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));
	ListCell   *lc;

	baserel->fdw_private = info;
	info->rel = baserel;
	info->notes = rf_make_join_notes();

	info->table = GetForeignTable(foreigntableid);
	info->server = GetForeignServer(info->table->serverid);
	rf_table_options(info->table, info->server, &info->opts);
	rf_transfer_costs(info->server, &info->opts);
	info->opts.at_once = rows_at_once(root);
	info->nodes = rf_server_nodes(info->server);
	if (info->nodes != NIL)
	{
		find_members(info);
		info->distribution = rf_table_distribution(foreigntableid);
		/* no node knows the tables of all of them */
		info->opts.use_remote_estimate = false;
	}
	if (!info->opts.use_remote_estimate)
		info->indexes = rf_remote_indexes(foreigntableid);
	info->relation_name = rf_remote_relation_name(&info->opts);
	if (info->nodes != NIL && rf_says_only(planner_rt_fetch(baserel->relid, root)))
		info->relation_name = psprintf("ONLY %s", info->relation_name);
	info->description = rf_local_name(planner_rt_fetch(baserel->relid, root));

	/*
	 * Planning asks the data node only for estimates.  Otherwise the mapping is not needed yet, so
	 * users without one can plan (and EXPLAIN).
	 */
	if (info->opts.use_remote_estimate)
		info->user = rf_user_mapping(rf_rel_userid(baserel), info->server->serverid);

	rf_classify_conditions(root, baserel, baserel->baserestrictinfo,
						   &info->remote_conds, &info->local_conds);

	pull_varattnos((Node *) baserel->reltarget->exprs, baserel->relid, &info->attrs_used);
	if (info->nodes != NIL && !rf_row_is_wanted(root, baserel->relid))
		info->attrs_used = bms_del_member(info->attrs_used, 0 - FirstLowInvalidHeapAttributeNumber);
	foreach(lc, info->local_conds)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		pull_varattnos((Node *) rinfo->clause, baserel->relid, &info->attrs_used);
	}
	/* elsewhere it is the query's xmax */
	if (!rf_is_written(root, baserel->relid) && !rf_is_locked_late(root, baserel))
		info->attrs_used = bms_del_member(info->attrs_used,
										  RF_ROW_TABLE - FirstLowInvalidHeapAttributeNumber);

	info->local_conds_sel = clauselist_selectivity(root, info->local_conds, baserel->relid,
												   JOIN_INNER, NULL);
	cost_qual_eval(&info->local_conds_cost, info->local_conds, root);
	info->rel_startup_cost = -1;
	info->rel_total_cost = -1;
	if (info->nodes != NIL)
		rf_place_table(root, info);

	return info;
}

/* One statement gets the fetch options of its first table that has any. */
void
rf_merge_options(RfRelInfo *info, RfRelInfo *outer, RfRelInfo *inner)
{
	info->server = outer->server;
	info->nodes = outer->nodes;
	info->members = outer->members;
	info->compute = outer->compute;
	info->opts = outer->opts;
	info->opts.use_remote_estimate |= inner->opts.use_remote_estimate;
	info->opts.fetch.async_capable = Max(outer->opts.fetch.async_capable,
										 inner->opts.fetch.async_capable);
	info->opts.parallel_scan = outer->opts.parallel_scan == 0 || inner->opts.parallel_scan == 0 ?
		0 :
		Max(outer->opts.parallel_scan, inner->opts.parallel_scan);
	info->opts.fetch.read_in_place &= inner->opts.fetch.read_in_place;
	info->opts.fetch.trusted &= inner->opts.fetch.trusted;
	info->opts.fetch.fetch_size = Max(outer->opts.fetch.fetch_size, inner->opts.fetch.fetch_size);
	if (info->opts.fetch.receive_buffers < 0)
		info->opts.fetch.receive_buffers = inner->opts.fetch.receive_buffers;
	if (info->opts.fetch.receive_buffer_size < 0)
		info->opts.fetch.receive_buffer_size = inner->opts.fetch.receive_buffer_size;
	if (info->opts.fetch.inline_limit < 0)
		info->opts.fetch.inline_limit = inner->opts.fetch.inline_limit;
	info->user = outer->user ? outer->user : inner->user;
}

RelOptInfo *
rf_scanned_rel(RelOptInfo *rel)
{
	RelOptInfo *scanned;

	if (!IS_SIMPLE_REL(rel) || ((RfRelInfo *) rel->fdw_private)->select == NULL)
		return rel;
	scanned = makeNode(RelOptInfo);
	scanned->reloptkind = RELOPT_OTHER_UPPER_REL;
	scanned->relids = rel->relids;
	scanned->reltarget = rel->reltarget;
	scanned->serverid = rel->serverid;
	scanned->userid = rel->userid;
	scanned->useridiscurrent = rel->useridiscurrent;
	scanned->fdwroutine = rel->fdwroutine;
	scanned->fdw_private = rel->fdw_private;
	rf_allow_strategies(scanned, rel);
	return scanned;
}

Path *
rf_create_select_path(PlannerInfo *root, RelOptInfo *rel, RfEstimate *est, List *pathkeys)
{
	ForeignPath *scan;

	scan = rf_create_foreign_upper_path(root, rf_scanned_rel(rel), rel->reltarget, est->rows,
										est->startup_cost, est->total_cost, pathkeys,
										rf_path_private(rel->fdw_private, 0));

	return (Path *) create_projection_path(root, rel, (Path *) scan, rel->reltarget);
}
