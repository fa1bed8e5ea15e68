/*
 * parallel_plan.c
 *		When a scan, a pushed join or a pushed aggregate may be read by parallel workers, and the
 *		path
 *		for it.
 *
 * Its gain: rows are decoded, filtered, joined and aggregated here by several processes. Its cost:
 * core's price for workers, and a copy of every batch. Parallel and asynchronous scans exclude each
 * other: core asks an Append for rows asynchronously only if it is not parallel.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "foreign/foreign.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"

#include "shmem/share.h"

#include "plan.h"

/* A table set to asynchronous scans gets them, unless it is set to parallel scans as well. */
static bool
is_wanted(const RfTableOptions *opts)
{
	return opts->parallel_scan == 1 || (opts->parallel_scan < 0 && opts->fetch.async_capable != 1);
}

/*
 * "Safe" means here that partial paths may be made; all other paths are taken back in compat.h.
 */
bool
rdmaIsForeignScanParallelSafe(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	ForeignTable *table = GetForeignTable(rte->relid);
	RfTableOptions opts;

	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	return is_wanted(&opts);
}

/* ---------- one stream per server at a time ---------- */

/*
 * A session runs one query at a time, and a parallel scan's rows cannot be stored when another scan
 * needs the session: so no other part of the whole query may read from that server, or from one of
 * its nodes. The query is planned from the inside out; parts that are not planned yet are judged by
 * their text.
 */
/* That are read for a table of this one, or that its rows may go to. */
static List *
servers_of(ForeignServer *server)
{
	List	   *nodes = rf_server_nodes(server);

	return nodes == NIL ? list_make1_oid(server->serverid) :
		list_concat_unique_oid(nodes, rf_server_compute_nodes(server));
}

/* servers, all without nodes */
static bool
table_is_on(Oid relid, char relkind, List *servers)
{
	if (relkind == RELKIND_FOREIGN_TABLE)
	{
		ListCell   *lc;

		foreach(lc, servers_of(GetForeignServer(GetForeignServerIdByRelId(relid))))
		{
			if (list_member_oid(servers, lfirst_oid(lc)))
				return true;
		}
		return false;
	}
	/* of partitions and children nothing is known yet */
	return relkind == RELKIND_PARTITIONED_TABLE || has_subclass(relid);
}

static bool
query_reads_from(Node *node, List *servers)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_RELATION && table_is_on(rte->relid, rte->relkind, servers);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, query_reads_from, servers,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, query_reads_from, servers);
}

/*
 * Returns true if the query of this planner reads from one of the servers other than for `relids`.
 * *unplanned counts subqueries that do and are not planned, or just being planned. *streams: of all
 * other foreign tables.
 */
static bool
others_read_from(PlannerInfo *root, Relids relids, List *servers, int *unplanned, int *streams)
{
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];
		RangeTblEntry *rte = root->simple_rte_array[i];

		/*
		 * It is not referenced, or is the parent of children; without a relation it may also be a
		 * branch of a set operation that is not planned yet.
		 */
		if ((rel == NULL && (root->parse->setOperations == NULL || rte == NULL)) ||
			(rte->rtekind == RTE_SUBQUERY && rte->inh) || bms_is_member(i, relids))
			continue;
		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE)
		{
			Oid			server = GetForeignServerIdByRelId(rte->relid);

			if (table_is_on(rte->relid, rte->relkind, servers))
				return true;
			*streams += list_length(servers_of(GetForeignServer(server)));
		}
		else if (rte->rtekind == RTE_SUBQUERY && rel != NULL && rel->subroot != NULL)
		{
			if (others_read_from(rel->subroot, NULL, servers, unplanned, streams))
				return true;
		}
		else if (rte->rtekind == RTE_SUBQUERY && query_reads_from((Node *) rte->subquery, servers))
			(*unplanned)++;
	}
	return false;
}

/* servers of the statement, which reads relids */
static bool
has_servers_to_itself(PlannerInfo *root, Relids relids, List *servers)
{
	int			unplanned = 0;
	int			streams = list_length(servers);
	ListCell   *lc;

	/* a function that only the leader may run might read from there, too */
	if (root->glob->maxParallelHazard != PROPARALLEL_SAFE)
		return false;
	/* all streams start at the same time and want their buffers */
	if (others_read_from(root, relids, servers, &unplanned, &streams) || unplanned > 0 ||
		streams > rf_stream_limit())
		return false;

	foreach(lc, root->glob->subroots)
	{
		if (others_read_from((PlannerInfo *) lfirst(lc), NULL, servers, &unplanned, &streams))
			return false;
	}
	/* the query that is being planned contains us */
	for (PlannerInfo *outer = root->parent_root; outer != NULL; outer = outer->parent_root)
	{
		/* a CTE or sublink: the rest of the outer query is not known yet */
		if (outer->simple_rel_array == NULL)
			return false;
		unplanned = 0;
		if (others_read_from(outer, NULL, servers, &unplanned, &streams) || unplanned > 1)
			return false;
	}
	return true;
}

/* ---------- the path ---------- */

/* As core does for a table: another worker for every three times as many pages. */
static int
worker_count(RfRelInfo *info)
{
	double		bytes = info->est.retrieved_rows * (info->est.width + SizeofHeapTupleHeader);
	double		pages = ceil(bytes / BLCKSZ);
	double		threshold = Max(min_parallel_table_scan_size, 1);
	int			workers = 0;

	for (; pages >= threshold && workers < RF_SHARE_MEMBERS - 1; threshold *= 3)
		workers++;
	if (info->opts.parallel_scan == 1)
		workers = Max(workers, 1);
	return Min(workers, max_parallel_workers_per_gather);
}

void
rf_add_partial_path(PlannerInfo *root, RelOptInfo *rel, Relids relids, PathTarget *target,
					List *fdw_restrictinfo)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	ForeignPath *path;
	RfEstimate	est;
	int			workers;

	if (!rel->consider_parallel || !bms_is_empty(rel->lateral_relids) || !is_wanted(&info->opts) ||
		info->select != NULL || info->local_rels != NIL)
		return;
	/* a statement with exchanges may have to begin again, when a node has no buffers */
	if (info->fragment != NULL && info->fragment->exchanges)
		return;
	workers = worker_count(info);
	if (workers <= 0 || !has_servers_to_itself(root, relids, info->nodes != NIL ? info->nodes :
											   list_make1_oid(info->server->serverid)))
		return;

	rf_estimate_partial(info, rf_parallel_divisor(workers), &est);
	if (info->upper.scanrel != NULL)
		path = rf_create_foreign_upper_path(root, rel, target, est.rows, est.startup_cost,
											est.total_cost, NIL, rf_path_private(info, 0));
	else if (IS_JOIN_REL(rel))
		path = rf_create_foreign_join_path(root, rel, est.rows, est.startup_cost, est.total_cost,
										   NIL, NULL, fdw_restrictinfo, rf_path_private(info, 0));
	else
		path = rf_create_foreignscan_path(root, rel, target, est.rows, est.startup_cost,
										  est.total_cost, NIL, NULL, NULL,
										  rf_path_private(info, 0));
	path->path.parallel_safe = true;
	path->path.parallel_aware = true;
	path->path.parallel_workers = workers;
	add_partial_path(rel, (Path *) path);
}
