/*
 * node_probe.c - prices probes of a table's index in the index's order, in statements of a
 * coordinator.
 *
 * Where few rows are joined with a large table, the planner has to compare probing an index with
 * reading the whole table. It prices each page that a probe reads as a random one, and ignores the
 * order of the probes. But we may choose that order: rows that are sorted by the index's columns
 * walk through the index from one end to the other, and so through a table that is stored in the
 * same order. So there is one more way to join: sort the rows, of an exchange or of other tables,
 * then a nested loop, with pages priced as a bitmap heap scan prices those it reads in order.
 *
 * The coordinator prices probes in the same way (src/fdw/catalog/remote_index.c).
 */
#include "node.h"

#include <math.h>

#include "access/amapi.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/optimizer.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"

#define MULTICOLUMN_CORRELATION	0.75

/* As DEFAULT_PAGE_CPU_MULTIPLIER: operators' costs for each page of a descent */
#define PAGE_OF_DESCENT			50.0

/*
 * The pages that one descent has passed are in the processor's caches for the next one, if that
 * leads close by. 75,000 probes of an index of three million rows, all in memory, take 0.16 s in
 * order, 0.31 s in random order.
 */
#define ORDERED_DESCENT			0.5


/*
 * The more pages are read in order, the closer they are to each other: as in
 * cost_bitmap_heap_scan(). It never takes longer than to read all.
 */
static Cost
reading_cost(const RfProbes *probes, double touched, double pages, bool sorted)
{
	double		random_cost = probes->random_page_cost;

	if (!sorted)
		return touched * random_cost;
	touched = Min(touched, pages);
	return Min(touched *
			   (random_cost - (random_cost - probes->seq_page_cost) * sqrt(touched / pages)),
			   pages * probes->seq_page_cost);
}

double
rf_probe_cost_of_pages(PlannerInfo *root, const RfProbes *probes, bool sorted)
{
	double		count = Max(probes->count, 1);
	double		heap_pages = Max(probes->heap_pages, 1);
	double		index_pages = Max(probes->index_pages, 1);
	double		share = probes->tuples / Max(probes->heap_tuples, 1);
	double		leaves = Max(ceil(share * index_pages), 1);
	double		run = Max(ceil(share * heap_pages), 1);

	/*
	 * While relations are still being sized, the planner's total of pages does not include this
	 * relation's.
	 */
	double		competing = index_pages + Max(heap_pages - root->total_table_pages, 0);
	Cost		scattered;
	Cost		ordered;
	Cost		index;
	Cost		descent = PAGE_OF_DESCENT * cpu_operator_cost * probes->index_levels;

	/* a single probe has no order, and its pages are adjacent (cost_index()) */
	if (count <= 1)
	{
		scattered = index_pages_fetched(probes->tuples, heap_pages, competing, root) *
			probes->random_page_cost;
		ordered = probes->random_page_cost + (run - 1) * probes->seq_page_cost;
		index = leaves * probes->random_page_cost;
	}
	else
	{
		scattered = index_pages_fetched(probes->tuples * count, heap_pages, competing, root) *
			probes->random_page_cost;
		ordered = reading_cost(probes,
							   index_pages_fetched(run * count, heap_pages, competing, root),
							   heap_pages, sorted);
		index = reading_cost(probes,
							 index_pages_fetched(leaves * count, index_pages, competing, root),
							 index_pages, sorted);
		if (sorted)
			descent *= ORDERED_DESCENT;
	}
	return descent +
		(index + probes->heap_share * (scattered + probes->correlation * probes->correlation *
									   (ordered - scattered))) /
		count;
}

/*
 * Returns true if it reads an exchange. So EXPLAIN of such a statement by hand shows the same plan
 * as for a coordinator.
 */
static bool
reads_exchange(PlannerInfo *root, RelOptInfo *rel)
{
	int			member = -1;

	while ((member = bms_next_member(rel->relids, member)) >= 0)
	{
		RelOptInfo *base = root->simple_rel_array[member];

		if (base == NULL || base->rtekind != RTE_FUNCTION || base->cheapest_total_path == NULL)
			continue;
		/* where gathering costs nothing its path may be the cheapest */
		if (rf_exchange_is_path(base->cheapest_total_path) ||
			(base->partial_pathlist != NIL &&
			 rf_exchange_is_path(linitial(base->partial_pathlist))))
			return true;
	}
	return false;
}

/*
 * The order of the outer rows that equals the index order, for the leading columns compared with
 * them.
 */
static List *
order_of_probes(PlannerInfo *root, IndexPath *path, RelOptInfo *outerrel)
{
	List	   *pathkeys = NIL;
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, lc);
		RestrictInfo *rinfo = clause->rinfo;
		Oid			family = path->indexinfo->sortopfamily[clause->indexcol];
		EquivalenceClass *class;

		/* an equality with a value that is the same for all rows changes no order */
		if (bms_is_subset(rinfo->clause_relids, path->path.parent->relids))
			continue;
		class = bms_is_subset(rinfo->left_relids, outerrel->relids) ? rinfo->left_ec :
			rinfo->right_ec;
		if (clause->indexcol != list_length(pathkeys) || rinfo->mergeopfamilies == NIL ||
			class == NULL || class->ec_has_volatile || class->ec_has_const ||
			!list_member_oid(class->ec_opfamilies, family))
			break;
		while (class->ec_merged != NULL)
			class = class->ec_merged;
		pathkeys = lappend(pathkeys,
						   make_canonical_pathkey(root, class, family, RF_SORT_ASCENDING, false));
	}
	return pathkeys;
}

/*
 * The rows that the average probe finds, as a fraction of core's assumption. It assumes that each
 * value that ANALYZE has found in the column has as many rows, and ANALYZE finds far too few values
 * where rows of the same value lie side by side, as line items of an order do. The estimate of the
 * join also knows how many values the outer rows have.
 */
static Selectivity
found_of_assumed(PlannerInfo *root, IndexPath *path, RelOptInfo *outerrel, JoinPathExtraData *extra)
{
	SpecialJoinInfo inner_join = *extra->sjinfo;
	Selectivity fraction = 1;
	ListCell   *lc;

	inner_join.jointype = JOIN_INNER;
	foreach(lc, path->indexclauses)
	{
		RestrictInfo *rinfo = lfirst_node(IndexClause, lc)->rinfo;
		Selectivity assumed;

		if (!bms_overlap(rinfo->clause_relids, outerrel->relids))
			continue;
		assumed = clause_selectivity(root, (Node *) rinfo, path->path.parent->relid, JOIN_INNER,
									 NULL);
		if (assumed > 0)
			fraction *= Min(
							clause_selectivity(root, (Node *) rinfo, 0, JOIN_INNER, &inner_join) /
							assumed,
							1);
	}
	return fraction;
}

/*
 * The number of probes that core assumed, as get_loop_count(): of the rows of IN and EXISTS, which
 * it may make unique, only so many as they have values.
 */
static double
assumed_probes(PlannerInfo *root, IndexPath *path)
{
	double		result = 0;
	int			member = -1;

	while ((member = bms_next_member(PATH_REQ_OUTER(&path->path), member)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[member];
		double		rows;
		ListCell   *lc;

		if (rel == NULL)
			continue;
		rows = rel->rows;
		foreach(lc, root->join_info_list)
		{
			SpecialJoinInfo *sjinfo = lfirst_node(SpecialJoinInfo, lc);
			double		all = 1;
			int			inside = -1;

			if (sjinfo->jointype != JOIN_SEMI ||
				!bms_is_member(path->path.parent->relid, sjinfo->syn_lefthand) ||
				!bms_is_member(member, sjinfo->syn_righthand))
				continue;
			while ((inside = bms_next_member(sjinfo->syn_righthand, inside)) >= 0)
				all *= root->simple_rel_array[inside] == NULL ?
					1 :
					root->simple_rel_array[inside]->rows;
			rows = Min(rows, estimate_num_groups(root, sjinfo->semi_rhs_exprs, all, NULL, NULL));
		}
		if (result == 0 || rows < result)
			result = rows;
	}
	return Max(result, 1);
}

/*
 * A copy of the probing path with the cost of ordered probes that find this fraction of the rows
 * that core assumes. Core's own path is not changed.
 */
static Path *
probed_in_order(PlannerInfo *root, IndexPath *path, double rows, Selectivity found)
{
	IndexOptInfo *index = path->indexinfo;
	RelOptInfo *table = path->path.parent;
	IndexPath  *result = makeNode(IndexPath);
	RfProbes	probes = {0};
	Cost		startup_cost;
	Cost		total_cost;
	Selectivity selectivity;
	double		pages;
	Cost		saved;

	probes.count = assumed_probes(root, path);
	((amcostestimate_function) index->amcostestimate) (root, path, probes.count, &startup_cost,
													   &total_cost, &selectivity,
													   &probes.correlation, &pages);
	get_tablespace_page_costs(table->reltablespace, &probes.random_page_cost,
							  &probes.seq_page_cost);
	probes.tuples = clamp_row_est(selectivity * table->tuples);
	probes.heap_pages = table->pages;
	probes.heap_tuples = table->tuples;
	probes.heap_share = path->path.pathtype == T_IndexOnlyScan ? 1 - table->allvisfrac : 1;
	probes.index_pages = index->pages;
	probes.index_levels = index->tree_height + 1;
	saved = rf_probe_cost_of_pages(root, &probes, false) +
		(1 - found) * probes.tuples *
		(cpu_index_tuple_cost + cpu_operator_cost * list_length(path->indexclauses) +
			 cpu_tuple_cost + table->baserestrictcost.per_tuple);
	/* for several columns the first one's correlation was reduced, as btcostestimate() does */
	if (index->nkeycolumns > 1)
		probes.correlation /= MULTICOLUMN_CORRELATION;
	probes.count = rows;
	probes.tuples = clamp_row_est(found * probes.tuples);
	saved -= rf_probe_cost_of_pages(root, &probes, true);

	*result = *path;
	result->path.rows = clamp_row_est(found * path->path.rows);
	result->path.total_cost = Max(path->path.total_cost - saved, path->path.startup_cost);
	return &result->path;
}

/* Sum over all processes that share them. */
static double
all_rows(Path *path)
{
	return path->parallel_workers > 0 ? path->rows * rf_parallel_divisor(path->parallel_workers) :
		path->rows;
}

/* This path of an exchange whose rows workers share, for so many of them. */
static Path *
with_workers(Path *path, int workers)
{
	double		share = rf_parallel_divisor(path->parallel_workers) / rf_parallel_divisor(workers);
	CustomPath *result = makeNode(CustomPath);

	*result = *(CustomPath *) path;
	result->path.parallel_workers = workers;
	result->path.rows = clamp_row_est(path->rows * share);
	result->path.total_cost = path->startup_cost + (path->total_cost - path->startup_cost) * share;
	return &result->path;
}

/*
 * The rows, shared by workers. An exchange of few rows has few of them, but to look these up may be
 * as much work as to scan the pages of the table that they lead to.
 */
static Path *
shared_rows(Path *rows, RelOptInfo *table)
{
	int			workers;

	if (!rf_exchange_is_path(rows))
		return rows;
	workers = compute_parallel_worker(table, Min(all_rows(rows), table->pages), -1,
									  max_parallel_workers_per_gather);
	return workers > rows->parallel_workers ? with_workers(rows, workers) : rows;
}

/*
 * A nested loop of these outer rows, sorted. Workers that share the rows sort their own part, so
 * each walks through the index, and through the table, by itself. Pages that one has read are there
 * for the next one, but they are not divided among them any more than the pages of a parallel scan,
 * which core charges to each process: 750,000 probes of three million rows by eight processes,
 * 94,000 each, take 1.5 times as much processor time as to hash all rows, 72,000 take two thirds.
 */
static NestPath *
ordered_loop(PlannerInfo *root, RelOptInfo *joinrel, Path *outer, IndexPath *inner, List *pathkeys,
			 JoinType jointype, JoinPathExtraData *extra)
{
	Path	   *probed = probed_in_order(root, inner, outer->rows,
										 found_of_assumed(root, inner, outer->parent, extra));
	JoinCostWorkspace workspace;

	if (!pathkeys_contained_in(pathkeys, outer->pathkeys))
		outer = (Path *) create_sort_path(root, outer->parent, outer, pathkeys, -1);
	rf_initial_cost_nestloop(root, &workspace, jointype, outer, probed, extra);
	return create_nestloop_path(root, joinrel, jointype, &workspace, extra, outer, probed,
								extra->restrictlist,
								build_join_pathkeys(root, joinrel, jointype, pathkeys), NULL);
}

void
rf_exchange_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
					   RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	Path	   *outer = outerrel->cheapest_total_path;
	bool		unique = jointype == JOIN_UNIQUE_OUTER;
	ListCell   *lc;

	if ((jointype != JOIN_INNER && jointype != JOIN_LEFT && jointype != JOIN_SEMI &&
		 jointype != JOIN_ANTI && !unique) ||
		innerrel->rtekind != RTE_RELATION || !IS_SIMPLE_REL(innerrel) ||
		!bms_is_empty(joinrel->lateral_relids) || outer == NULL ||
		!bms_is_empty(PATH_REQ_OUTER(outer)) ||
		(!rf_statement_is_planned && !reads_exchange(root, outerrel)))
		return;
	if (unique)
	{
		outer = rf_unique_path(root, outerrel, outer, extra->sjinfo);
		if (outer == NULL)
			return;
		jointype = JOIN_INNER;
	}

	foreach(lc, innerrel->pathlist)
	{
		IndexPath  *path = (IndexPath *) lfirst(lc);
		List	   *pathkeys;

		if (!IsA(path, IndexPath) || bms_is_empty(PATH_REQ_OUTER(&path->path)) ||
			path->indexinfo->sortopfamily == NULL ||
			!bms_is_subset(PATH_REQ_OUTER(&path->path), outerrel->relids))
			continue;
		pathkeys = order_of_probes(root, path, outerrel);
		if (pathkeys == NIL)
			continue;
		add_path(joinrel,
				 (Path *) ordered_loop(root, joinrel, outer, path, pathkeys, jointype, extra));
		/* workers would make their own shares unique */
		if (!unique && joinrel->consider_parallel && path->path.parallel_safe &&
			outerrel->partial_pathlist != NIL)
			add_partial_path(
							 joinrel,
							 (Path *) ordered_loop(
												   root, joinrel,
												   shared_rows(linitial(outerrel->partial_pathlist),
															   innerrel),
												   path, pathkeys, jointype, extra));
	}
}
