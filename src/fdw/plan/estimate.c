/*
 * estimate.c
 *		Rows, width and costs of a foreign scan.
 *
 * Without use_remote_estimate: from pg_class and pg_statistic here, as if the tables were local;
 * the cost of a join, a grouping or a sort there is estimated as if it were done here, with the
 * indexes that ANALYZE found there. With it: the data node is asked for its planner's estimate of
 * the very statement we would send, and only conditions that are evaluated here are estimated here.
 */
#include "postgres.h"

#include <math.h>

#include "libpq-fe.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "utils/float.h"
#include "utils/selfuncs.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"

#include "fdw/catalog/catalog.h"
#include "fdw/deparse/deparse.h"

#include "plan.h"

/*
 * Moving a row costs fdw_tuple_cost, and this for each of its bytes.  bench/scan pulls 6 million
 * rows of 2 columns (12 bytes) in 0.43 s and of 16 columns (about 120 bytes) in 1.08 s, which is 60
 * ns a row and 1 ns a byte; a local scan of the same rows takes 0.69 s, 115 ns a row that the
 * planner takes for 0.012 to 0.03.  So 0.01 is about 100 ns, which makes the default of
 * fdw_tuple_cost right.
 */
#define BYTE_COST				0.0001
#define COST_OF_A_SECOND		1e5
#define COPY_BYTE_COST			(BYTE_COST / 10)

/*
 * The first is for a query's way there and back, and for starting it: it stands for about a
 * millisecond, as in one machine room.
 */
#define DEFAULT_FDW_STARTUP_COST	100.0
#define DEFAULT_ROUND_TRIP_US		1000
#define DEFAULT_FDW_TUPLE_COST		0.01

/*
 * Sorting there is worth a little more than sorting here: an index may do it, and if not, both
 * nodes have something to do at the same time.
 */
#define REMOTE_SORT_DISCOUNT	0.95

/*
 * The cost of setting up an exchange: several round trips to all nodes, a few hundred microseconds;
 * with compute nodes there are more of them.
 */
#define EXCHANGE_COST			50.0

/*
 * Per row that is looked up in a filter, as in a hash table: about 5 ns, at the 2 us that a unit of
 * a scan's costs takes. And per row that is noted in one, with its two bytes, which all other nodes
 * get.
 */
#define FILTER_LOOK_COST		cpu_operator_cost
#define FILTER_NOTE_COST		(3 * cpu_operator_cost)
#define FILTER_BYTES			2

/* The part of work that could overlap with other work but waits for it. */
#define COMPUTE_WAIT			0.25

/*
 * See prefer_remote(). The first is beyond the difference that the planner ignores (1 %), so that a
 * cheaper start here does not decide; where nodes may have to exchange rows for it, that is left
 * open.
 */
#define TIE_DISCOUNT			0.985
#define NODES_TIE_DISCOUNT		0.995
#define FORCED_DISCOUNT			0.0001

/*
 * The first line of EXPLAIN, e.g. "Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)".  The last
 * parenthesis is the one: names of relations come before it and may contain others. False: it is
 * something else.
 */
static bool
parse_explain_line(const char *line, double *rows, int *width, Cost *startup_cost, Cost *total_cost)
{
	const char *costs = strrchr(line, '(');

	return costs != NULL &&
		sscanf(costs, "(cost=%lf..%lf rows=%lf width=%d)", startup_cost, total_cost, rows,
			   width) == 4 &&
		isfinite(*startup_cost) && isfinite(*total_cost) && isfinite(*rows) &&
		*startup_cost >= 0 && *total_cost >= *startup_cost && *rows >= 0 && *width >= 0;
}

/* Asks the node's planner for rows and costs of the statement by EXPLAIN. */
static void
ask_data_node(RfRelInfo *info, const char *sql, double *rows, int *width, Cost *startup_cost,
			  Cost *total_cost)
{
	RfSession  *session = rf_session_get(info->user, false);
	char	   *explain = psprintf("EXPLAIN (COSTS TRUE, VERBOSE FALSE, FORMAT TEXT) %s", sql);
	PGresult   *result = rf_session_ask(session, explain, 1, 1, PG_INT32_MAX);
	char	   *line = pstrdup(PQgetvalue(result, 0, 0));

	PQclear(result);
	if (!parse_explain_line(line, rows, width, startup_cost, total_cost))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not read the estimate of server \"%s\"",
						rf_session_server_name(session)),
				 errdetail("EXPLAIN returned: %s", line),
				 errhint("Turn off use_remote_estimate for this foreign table or server.")));
}

/* The data node's EXPLAIN of the statement itself, and the conditions that are evaluated here. */
static void
estimate_remotely(PlannerInfo *root, RelOptInfo *rel, List *join_conds, List *pathkeys, bool limit,
				  RfEstimate *est)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfRemoteQuery *query;
	List	   *remote_join_conds = NIL;
	List	   *local_join_conds = NIL;
	List	   *conditions = NIL;
	QualCost	local_cost;
	Selectivity local_sel = info->local_conds_sel;

	if (IS_SIMPLE_REL(rel))
	{
		rf_classify_conditions(root, rel, join_conds, &remote_join_conds, &local_join_conds);
		conditions = rf_bare_clauses(list_concat_copy(info->remote_conds, remote_join_conds));
	}
	query = rf_build_query(root, rel, conditions, pathkeys, limit, NULL, true, NIL);
	ask_data_node(info, query->sql, &est->retrieved_rows, &est->width, &est->startup_cost,
				  &est->total_cost);
	est->retrieved_rows = clamp_row_est(est->retrieved_rows);

	/* Conditions that are evaluated here reduce the rows further. */
	local_sel *= clauselist_selectivity(root, local_join_conds, rel->relid, JOIN_INNER, NULL);
	est->rows = clamp_row_est(est->retrieved_rows * local_sel);

	cost_qual_eval(&local_cost, local_join_conds, root);
	local_cost.startup += info->local_conds_cost.startup;
	local_cost.per_tuple += info->local_conds_cost.per_tuple;
	est->startup_cost += local_cost.startup;
	est->total_cost += local_cost.startup + local_cost.per_tuple * est->retrieved_rows;
}

/*
 * As for a sequential scan of a local table of this size, or a look-up by an index. The data node
 * does that work, but while it does we wait, so it is our cost.
 */
static void
estimate_base(PlannerInfo *root, RelOptInfo *baserel, List *join_conds, RfEstimate *est)
{
	RfRelInfo  *info = (RfRelInfo *) baserel->fdw_private;
	QualCost	base_cost = baserel->baserestrictcost;
	QualCost	join_cost;
	QualCost	cost;
	RfProbeCost probe;

	est->rows = baserel->rows;
	if (join_conds != NIL)
		est->rows = clamp_row_est(est->rows * clauselist_selectivity(root, join_conds,
																	 baserel->relid,
																	 JOIN_INNER, NULL));
	est->width = baserel->reltarget->width;

	/* The conditions evaluated here see more rows than they let through. */
	est->retrieved_rows = clamp_row_est(est->rows / Max(info->local_conds_sel, 1e-10));
	est->retrieved_rows = Min(est->retrieved_rows, Max(baserel->tuples, 1.0));

	if (contain_subplans((Node *) rf_bare_clauses(info->remote_conds)))
	{
		cost_qual_eval(&base_cost, info->local_conds, root);
		rf_remote_qual_cost(&cost, info->remote_conds, root);
		base_cost.startup += cost.startup;
		base_cost.per_tuple += cost.per_tuple;
	}
	rf_remote_qual_cost(&join_cost, join_conds, root);
	est->startup_cost = base_cost.startup + join_cost.startup;
	est->total_cost = est->startup_cost + rf_node_share(info) *
		(seq_page_cost * baserel->pages +
			 (cpu_tuple_cost + base_cost.per_tuple + join_cost.per_tuple) *
		 baserel->tuples);
	if (rf_probe_cost(root, info, join_conds, 1, rf_node_share(info), false, &probe))
		est->total_cost = Min(est->total_cost,
							  est->startup_cost + probe.cost + join_cost.per_tuple * probe.tuples);
}

static bool
has_hashable_clause(List *rinfos)
{
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (OidIsValid(rinfo->hashjoinoperator) || rinfo->mergeopfamilies != NIL)
			return true;
	}
	return false;
}

static Cost
sort_cost(PlannerInfo *root, List *pathkeys, double rows, int width, double limit_tuples,
		  Cost *startup_cost)
{
	Path		path;

	rf_cost_sort(&path, root, pathkeys, 0, rows, width, limit_tuples);
	if (startup_cost != NULL)
		*startup_cost = path.startup_cost;
	return path.total_cost;
}

/* Returns true for a table as it lies on the nodes, in which they can look rows up. */
static bool
can_be_probed(const RfRelInfo *info)
{
	return info->indexes != NIL && IS_SIMPLE_REL(info->rel) && info->upper.scan == NULL &&
		(info->fragment == NULL || info->fragment->moved == NULL);
}

static bool
is_inner_join(const RfRelInfo *info)
{
	return info->join.outer != NULL && info->join.type == JOIN_INNER && info->upper.scan == NULL &&
		(info->fragment == NULL || info->fragment->moved == NULL);
}

/*
 * The cost of looking a row of the driver up in a table of the probed side. Where that is an inner
 * join, the node may join the driver with one of its tables first, and then with the rest: *others
 * gets their cost.
 */
static bool
probe_cost(PlannerInfo *root, List *clauses, RfRelInfo *driver, RfRelInfo *probed, double rows,
		   bool sorted, RfProbeCost *probe, Cost *others)
{
	double		part = 1;

	if (!can_be_probed(probed))
	{
		for (int side = 0; is_inner_join(probed) && side < 2; side++)
		{
			RfRelInfo  *table = side == 0 ? probed->join.outer : probed->join.inner;
			RfRelInfo  *other = side == 0 ? probed->join.inner : probed->join.outer;

			if (!probe_cost(root, clauses, driver, table, rows, sorted, probe, others))
				continue;
			*others += other->rel_total_cost +
				other->est.retrieved_rows * rf_node_share(other) *
				(cpu_operator_cost + cpu_tuple_cost) +
					rows * probe->tuples * cpu_operator_cost;
			return true;
		}
		return false;
	}
	/* each node looks all rows up, and has some of the partners */
	if (probed->fragment != NULL && driver->fragment != NULL &&
		driver->fragment->placement == RF_PLACED_EVERYWHERE &&
		probed->fragment->placement != RF_PLACED_EVERYWHERE)
		part = rf_largest_share(probed);
	return rf_probe_cost(root, probed, clauses, rows, part, sorted, probe);
}

/*
 * A join that looks the driver's rows up in an index of the probed side, as they come or sorted in
 * the index's order, whichever costs less; see node_probe.c. A semi join whose inner side drives
 * has to make its rows unique. Costs do not include the rows that come out of it.
 */
static bool
estimate_probing(PlannerInfo *root, RfRelInfo *info, RfRelInfo *driver, RfRelInfo *probed,
				 Cost *startup_cost, Cost *total_cost)
{
	double		share = rf_node_share(driver);
	double		rows = driver->est.retrieved_rows * share;
	Cost		startup = driver->rel_startup_cost;
	Cost		total = driver->rel_total_cost;
	bool		existence = info->join.type == JOIN_SEMI || info->join.type == JOIN_ANTI;
	Cost		others = 0;
	Cost		ordered_others = 0;
	Cost		sorting;
	RfProbeCost probe;
	RfProbeCost ordered;

	if (!can_be_probed(probed) && (existence || !is_inner_join(probed)))
		return false;
	if (driver == info->join.inner && existence)
	{
		List	   *exprs = NIL;
		ListCell   *lc;

		if (info->join.type == JOIN_ANTI)
			return false;
		foreach(lc, info->join.clauses)
		{
			RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

			if (!OidIsValid(rinfo->hashjoinoperator))
				return false;
			exprs = lappend(exprs, bms_is_subset(rinfo->left_relids, driver->rel->relids) ?
							get_leftop(rinfo->clause) : get_rightop(rinfo->clause));
		}
		if (exprs == NIL)
			return false;
		total += rows * cpu_operator_cost * list_length(exprs);
		rows = Min(rows, estimate_num_groups(root, exprs, driver->est.retrieved_rows, NULL, NULL));
		startup = total;
		total += rows * cpu_tuple_cost;
	}
	if (!probe_cost(root, info->join.clauses, driver, probed, rows, false, &probe, &others) ||
		!probe_cost(root, info->join.clauses, driver, probed, rows, true, &ordered,
					&ordered_others))
		return false;

	sorting = sort_cost(root, NIL, rows, driver->est.width, -1, NULL);
	if (sorting + ordered_others + rows * ordered.cost < others + rows * probe.cost)
	{
		total += ordered_others + sorting;
		startup = total;
		probe = ordered;
	}
	else
		total += others;
	/* after the first partner there is nothing more to look for: as in final_cost_nestloop() */
	if (existence && driver == info->join.outer)
	{
		double		partners = probe.tuples * probed->est.retrieved_rows / Max(probed->rel->tuples,
																			   1);

		if (partners > 1)
			probe.cost *= 2 / (partners + 1);
	}
	*startup_cost = startup;
	*total_cost = total + rows * probe.cost;
	return true;
}

/*
 * Less is not read of a side of a join: of a table in which rows are looked up, there may be almost
 * nothing to read.
 */
static Cost
least_read(RfRelInfo *info)
{
	Cost		outer;
	Cost		inner;

	if (can_be_probed(info))
		return 0;
	if (!is_inner_join(info))
		return info->rel_total_cost;
	if (info->least_read == 0)
	{
		outer = least_read(info->join.outer);
		inner = least_read(info->join.inner);
		info->least_read = info->rel_total_cost;
		if (outer < info->join.outer->rel_total_cost)
			info->least_read = outer + info->join.inner->rel_total_cost;
		if (inner < info->join.inner->rel_total_cost)
			info->least_read = Min(info->least_read, inner + info->join.outer->rel_total_cost);
	}
	return info->least_read;
}

Cost
rf_least_join_cost(RfRelInfo *outer, RfRelInfo *inner)
{
	return Min(outer->rel_total_cost + least_read(inner),
			   inner->rel_total_cost + least_read(outer));
}

void
rf_least_read(RfRelInfo *info, RfLeast *least)
{
	Cost		probed = least_read(info);

	least->total = info->rel_total_cost;
	least->probed = probed < info->rel_total_cost ? probed : get_float8_infinity();
	least->rows = info->est.retrieved_rows * rf_node_share(info);
}

/* A node has a part of the rows of the join, at the least an even one. */
void
rf_least_of_join(PlannerInfo *root, const RfRelInfo *joined, RfLeastJoin *least)
{
	double		rows = joined->rel->rows /
	Max(list_length(joined->nodes), list_length(joined->compute));
	QualCost	on_cost;
	QualCost	where_cost;

	rf_remote_qual_cost(&on_cost, joined->join.clauses, root);
	rf_remote_qual_cost(&where_cost, joined->remote_conds, root);
	least->hashable = has_hashable_clause(joined->join.clauses);
	least->pair = cpu_operator_cost + on_cost.per_tuple;
	least->fixed = on_cost.startup + where_cost.startup + joined->local_conds_cost.startup +
		rows * (cpu_tuple_cost + where_cost.per_tuple);
	if (least->hashable)
		least->fixed += rows * on_cost.per_tuple;
}

Cost
rf_least_cost(const RfLeastJoin *join, const RfLeast *outer, const RfLeast *inner)
{
	Cost		least = outer->total + inner->total;

	if (join->hashable)
		least += Min(outer->rows, inner->rows) * (cpu_operator_cost + cpu_tuple_cost) +
			Max(outer->rows, inner->rows) * cpu_operator_cost;
	else
		least += outer->rows * inner->rows * join->pair;
	return Min(least, Min(outer->total + inner->probed, outer->probed + inner->total)) +
		join->fixed;
}

/*
 * Which join the data node will choose is not known.  With an equality a hash join is near enough,
 * or few rows are looked up in an index; without one every pair of rows has to be looked at.
 */
static void
estimate_join(PlannerInfo *root, RelOptInfo *joinrel, RfEstimate *est)
{
	RfRelInfo  *info = (RfRelInfo *) joinrel->fdw_private;
	RfRelInfo  *outer = info->join.outer;
	RfRelInfo  *inner = info->join.inner;

	/* one node's part of each */
	double		outer_rows = outer->est.retrieved_rows * rf_node_share(outer);
	double		inner_rows = inner->est.retrieved_rows * rf_node_share(inner);
	double		rows;
	QualCost	on_cost;
	QualCost	where_cost;
	Cost		run_cost;

	est->rows = joinrel->rows;
	est->width = joinrel->reltarget->width;
	est->retrieved_rows = clamp_row_est(est->rows / Max(info->local_conds_sel, 1e-10));
	est->retrieved_rows = Max(Min(est->retrieved_rows,
								  outer->est.retrieved_rows * inner->est.retrieved_rows),
							  est->rows);

	rf_remote_qual_cost(&on_cost, info->join.clauses, root);
	rf_remote_qual_cost(&where_cost, info->remote_conds, root);
	est->startup_cost = outer->rel_startup_cost + inner->rel_startup_cost +
		on_cost.startup + where_cost.startup + info->local_conds_cost.startup;
	run_cost = outer->rel_total_cost - outer->rel_startup_cost +
		inner->rel_total_cost - inner->rel_startup_cost;
	rows = est->retrieved_rows * rf_node_share(info);
	if (has_hashable_clause(info->join.clauses))
	{
		double		build_rows = Min(outer_rows, inner_rows);
		double		probe_rows = Max(outer_rows, inner_rows);

		est->startup_cost += build_rows * (cpu_operator_cost + cpu_tuple_cost);
		run_cost += probe_rows * cpu_operator_cost + rows * on_cost.per_tuple;
	}
	else
		run_cost += outer_rows * inner_rows * (cpu_operator_cost + on_cost.per_tuple);

	for (int side = 0; side < 2; side++)
	{
		Cost		startup_cost;
		Cost		total_cost;

		/* the preserved side drives, and the side that is tested for partners is probed */
		if (info->join.type == JOIN_FULL || info->join.type == (side == 0 ? JOIN_RIGHT :
																JOIN_LEFT) ||
			!estimate_probing(root, info, side == 0 ? outer : inner, side == 0 ? inner : outer,
							  &startup_cost, &total_cost))
			continue;
		startup_cost += on_cost.startup + where_cost.startup + info->local_conds_cost.startup;
		total_cost += on_cost.startup + where_cost.startup + info->local_conds_cost.startup +
			rows * on_cost.per_tuple;
		if (total_cost >= est->startup_cost + run_cost)
			continue;
		est->startup_cost = startup_cost;
		run_cost = total_cost - startup_cost;
	}

	run_cost += rows * (cpu_tuple_cost + where_cost.per_tuple) +
		est->retrieved_rows * info->local_conds_cost.per_tuple;
	est->total_cost = est->startup_cost + run_cost;
}

/*
 * All moved rows are looked up in the filter, and the rows of the other side are noted in a filter
 * that all nodes get.
 */
static Cost
filter_cost(const RfRelInfo *move, const RfRelInfo *filter)
{
	const RfRelInfo *moved = move->fragment->moved;
	double		noted = filter->est.retrieved_rows * rf_node_share(filter);

	return EXCHANGE_COST + moved->est.retrieved_rows * rf_node_share(moved) * FILTER_LOOK_COST +
		noted * FILTER_NOTE_COST +
		noted * FILTER_BYTES * (rf_node_count(move) - 1) * move->opts.byte_cost;
}

bool
rf_filter_may_pay(const RfRelInfo *move, const RfRelInfo *filter)
{
	return move->fragment->moved->rel_total_cost + EXCHANGE_COST + filter_cost(move, filter) <
		move->rel_total_cost;
}

/* Rows of this node that come divided: each to one node, where a node gets a part of them. */
static Cost
divided_cost(const RfRelInfo *info, Cost *startup_cost)
{
	int			nodes = list_length(info->nodes);

	*startup_cost = info->rel_startup_cost + EXCHANGE_COST -
		info->est.rows * info->opts.byte_cost * info->est.width * (nodes - 1);
	return *startup_cost + info->est.rows / nodes * cpu_tuple_cost;
}

/* The most that a move adds to the costs of its rows, apart from those of its exchange. */
static Cost
moving_cost(const RfRelInfo *info, bool replicate, Cost *arriving)
{
	int			nodes = list_length(info->nodes);
	double		rows = info->est.retrieved_rows * rf_node_share(info);

	*arriving = info->est.retrieved_rows / (replicate ? 1 : nodes) * cpu_tuple_cost;
	return *arriving + rows * (nodes - 1) / (replicate ? 1 : nodes) *
		(info->opts.fdw_tuple_cost + info->opts.byte_cost * info->est.width);
}

/* The cheapest of the ways in which the rows may come is a lower bound of all. */
void
rf_least_move(const RfRelInfo *info, bool replicate, bool filters, bool different, RfLeast *least)
{
	Cost		arriving;
	Cost		cost = moving_cost(info, replicate, &arriving);
	Cost		filtered = EXCHANGE_COST +
		info->est.retrieved_rows * rf_node_share(info) * FILTER_LOOK_COST;

	least->rows = info->est.retrieved_rows / (replicate ? 1 : list_length(info->nodes));
	/* filtered, or noted where they are */
	if (filters)
	{
		cost = Min(cost, Min(arriving, filtered));
		least->rows = 0;
	}
	if (different)
		cost = least->rows = 0;
	least->total = info->rel_total_cost + EXCHANGE_COST + cost;
	if (rf_may_divide(info))
		least->total = divided_cost(info, &arriving);
	least->probed = get_float8_infinity();
}

bool
rf_may_be_filtered(const RfRelInfo *info)
{
	Cost		arriving;

	return moving_cost(info, false, &arriving) > EXCHANGE_COST +
		info->est.retrieved_rows * rf_node_share(info) * FILTER_LOOK_COST;
}

/*
 * Each node sends all rows but its own part to other nodes, as they come. The
 * nodes send and receive at the same time, so the cost is that of one node. A batch is encoded once
 * for all that get it, and decoded by each. With compute nodes all rows cross: the sending nodes
 * have one half of the work, the receiving nodes the other half. With a filter all rows are looked
 * up, and rows that have partners move.
 */
void
rf_estimate_move(RfRelInfo *move)
{
	RfRelInfo  *moved = move->fragment->moved;
	RfRelInfo  *filter = move->fragment->filter;
	double		survivors = filter != NULL ? move->fragment->survivors : 1;
	int			nodes = rf_node_count(move);
	double		rows = moved->est.retrieved_rows * rf_node_share(moved);
	double		arriving = moved->est.retrieved_rows * survivors * rf_node_share(move);
	double		crossing = rows * survivors * (nodes - 1) / (move->fragment->replicate ? 1 : nodes);
	Cost		row_cost = move->opts.fdw_tuple_cost + move->opts.byte_cost * move->est.width;
	Cost		cost;

	if (rf_is_divided(move))
	{
		move->rel_total_cost = divided_cost(moved, &move->rel_startup_cost);
		return;
	}

	/* without that nobody would move them */
	if (move->fragment->noted && rf_moves_in_place(move))
		crossing = 0;
	cost = crossing * row_cost + cpu_tuple_cost * arriving;

	if (filter != NULL)
	{
		move->est.retrieved_rows = clamp_row_est(moved->est.retrieved_rows * survivors);
		cost += filter_cost(move, filter);
	}

	if (move->fragment->computed && !moved->fragment->computed)
	{
		move->fragment->sending = moved->rel_total_cost +
			rows * (move->fragment->replicate ? nodes : 1) * row_cost / 2;
		move->rel_startup_cost = 2 * EXCHANGE_COST;
		move->rel_total_cost = 2 * EXCHANGE_COST + arriving * (row_cost / 2 + cpu_tuple_cost);
		return;
	}
	move->rel_startup_cost = moved->rel_startup_cost + EXCHANGE_COST;
	move->rel_total_cost = moved->rel_total_cost + EXCHANGE_COST + cost;
}

/*
 * Nodes that store rows keep sending while compute nodes work, but not all of the time: a hash
 * table must be built before it is probed. A node with both roles runs them serially.
 */
static Cost
with_sending(const RfRelInfo *info, Cost cost)
{
	if (info->fragment == NULL || !info->fragment->computed)
		return cost;
	if (list_length(info->members) < list_length(info->nodes) + list_length(info->compute))
		return cost + info->fragment->sending;
	return Max(cost, info->fragment->sending) + COMPUTE_WAIT * Min(cost, info->fragment->sending);
}

Cost
rf_nodes_cost(const RfRelInfo *info)
{
	return with_sending(info, info->rel_total_cost);
}

/*
 * tlist has the columns of a child of a partitioned table as its own; later stages may lack some.
 */
static double
group_count(PlannerInfo *root, List *clauses, List *tlist, double rows)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Index		ref = lfirst_node(SortGroupClause, lc)->tleSortGroupRef;
		TargetEntry *tle = rf_sortgroupref_tle(ref, tlist);

		if (tle == NULL)
			tle = get_sortgroupref_tle(ref, root->processed_tlist);
		exprs = lappend(exprs, tle->expr);
	}
	return exprs == NIL ? 1 : estimate_num_groups(root, exprs, rows, NULL, NULL);
}

/* Grouping and DISTINCT as if by hashing, a window by sorting; all of it before the first row. */
static void
estimate_upper(PlannerInfo *root, RelOptInfo *rel, RfEstimate *est)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfRelInfo  *scan = info->upper.scan;
	Query	   *parse = root->parse;
	double		share = rf_node_share(info);

	/* one node's, as all of this is, until the end */
	double		rows = scan->est.retrieved_rows * share;
	Cost		startup_cost = scan->rel_startup_cost;
	Cost		run_cost = scan->rel_total_cost - scan->rel_startup_cost;
	ListCell   *lc;

	est->width = 0;
	foreach(lc, info->tlist)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, lc)->expr;

		est->width += get_typavgwidth(exprType(expr), exprTypmod(expr));
	}

	if (info->upper.grouped)
	{
		AggClauseCosts costs = {0};
		double		groups;

		if (parse->hasAggs)
			get_agg_clause_costs(root, info->upper.partial ? AGGSPLIT_INITIAL_SERIAL :
								 AGGSPLIT_SIMPLE,
								 &costs);
		rf_discount_subselects(&costs.transCost, (Node *) info->tlist);
		groups = group_count(root, parse->groupClause, info->tlist, scan->est.retrieved_rows);
		/* each node has its own groups, or rows of all of them */
		groups = info->upper.partial ? Max(Min(groups, rows), 1) : Max(groups * share, 1);
		/* the sets of a rollup are prefixes of the first, rarely larger than it all together */
		if (parse->groupingSets != NIL)
			groups = Min(groups * 2, rows);
		startup_cost += run_cost + costs.transCost.startup + costs.finalCost.startup +
			rows * (costs.transCost.per_tuple +
					cpu_operator_cost * list_length(parse->groupClause));
		run_cost = groups * (costs.finalCost.per_tuple + cpu_tuple_cost);
		rows = groups;
		if (info->upper.having != NIL)
		{
			QualCost	cost;

			rf_remote_qual_cost(&cost, info->upper.having, root);
			startup_cost += cost.startup;
			run_cost += cost.per_tuple * rows;
			rows = clamp_row_est(rows * clauselist_selectivity(root, info->upper.having, 0,
															   JOIN_INNER, NULL));
		}
	}
	if (info->upper.windowed)
	{
		foreach(lc, parse->windowClause)
		{
			WindowClause *window = lfirst_node(WindowClause, lc);

			startup_cost += run_cost;
			run_cost = rows * (cpu_tuple_cost + cpu_operator_cost *
							   (list_length(window->partitionClause) +
								list_length(window->orderClause)));
			if (window->partitionClause != NIL || window->orderClause != NIL)
				startup_cost += sort_cost(root, NIL, rows, est->width, -1, NULL) *
					REMOTE_SORT_DISCOUNT;
		}
	}
	if (info->upper.distinct)
	{
		double		groups = group_count(root, parse->distinctClause, root->processed_tlist,
										 rows / share);

		groups = Max(groups * share, 1);

		startup_cost += run_cost + rows * cpu_operator_cost * list_length(parse->distinctClause);
		run_cost = groups * cpu_tuple_cost;
		rows = groups;
	}

	rows /= share;
	est->retrieved_rows = rows;
	est->rows = clamp_row_est(rows * info->local_conds_sel);
	est->startup_cost = startup_cost + info->local_conds_cost.startup;
	est->total_cost = est->startup_cost + run_cost + rows * info->local_conds_cost.per_tuple;
}

/* Duplicates are found by hashing. */
static double
select_costs(RfSelect *select, Cost *startup_cost, Cost *total_cost)
{
	double		rows;

	if (select->left == NULL)
	{
		*startup_cost += select->startup_cost;
		*total_cost += select->total_cost;
		return select->info->est.retrieved_rows;
	}
	rows = select_costs(select->left, startup_cost, total_cost) +
		select_costs(select->right, startup_cost, total_cost);
	*total_cost += rows * cpu_tuple_cost * 0.5;
	if (select->op != SETOP_UNION || !select->all)
	{
		*total_cost += rows * cpu_operator_cost * list_length(select->tlist);
		*startup_cost = *total_cost;
	}
	return rows;
}

/* The work of the busiest node for its partitions. */
static void
part_costs(List *parts, Cost *startup_cost, Cost *total_cost)
{
	Cost		most = 0;
	ListCell   *lc;

	foreach(lc, parts)
	{
		Cost		startup = 0;
		Cost		total = 0;

		if (lfirst(lc) != NULL)
			(void) select_costs((RfSelect *) lfirst(lc), &startup, &total);
		most = Max(most, total);
	}
	*total_cost += most;
}

/* A sub-select in FROM, or set operations; core has estimated how many rows come of them. */
static void
estimate_select(RelOptInfo *rel, RfEstimate *est)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;

	est->rows = clamp_row_est(rel->rows);
	est->retrieved_rows = clamp_row_est(est->rows / Max(info->local_conds_sel, 1e-10));
	est->width = rel->reltarget->width;
	est->startup_cost = info->local_conds_cost.startup;
	est->total_cost = est->retrieved_rows * info->local_conds_cost.per_tuple;
	if (info->parts != NIL)
		part_costs(info->parts, &est->startup_cost, &est->total_cost);
	else
		select_costs(info->select, &est->startup_cost, &est->total_cost);
	est->total_cost = Max(est->total_cost, est->startup_cost);
}

/* The relation's own estimate, without order and limit, from RfRelInfo or made now. */
static void
estimate_plain(PlannerInfo *root, RelOptInfo *rel, List *join_conds, RfEstimate *est)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;

	if (join_conds == NIL && info->rel_total_cost >= 0)
	{
		*est = info->est;
		est->startup_cost = info->rel_startup_cost;
		est->total_cost = info->rel_total_cost;
	}
	else if (info->opts.use_remote_estimate)
		estimate_remotely(root, rel, join_conds, NIL, false, est);
	else if (info->select != NULL)
		estimate_select(rel, est);
	else if (info->upper.scanrel != NULL)
		estimate_upper(root, rel, est);
	else if (IS_JOIN_REL(rel))
		estimate_join(root, rel, est);
	else
		estimate_base(root, rel, join_conds, est);
}

void
rf_transfer_costs(ForeignServer *server, RfTableOptions *opts)
{
	RfLink		link = {0};

	if (rf_measured_costs && (opts->fdw_startup_cost < 0 || opts->fdw_tuple_cost < 0))
		rf_server_link(server, &link);
	opts->byte_cost = BYTE_COST;
	if (opts->fdw_startup_cost < 0)
		opts->fdw_startup_cost = DEFAULT_FDW_STARTUP_COST +
			COST_OF_A_SECOND / 1e6 * Max((double) link.round_trip_us - DEFAULT_ROUND_TRIP_US, 0);
	if (opts->fdw_tuple_cost < 0)
	{
		opts->fdw_tuple_cost = DEFAULT_FDW_TUPLE_COST;
		/* decoding overlaps with receiving: the slower one counts */
		if (link.bandwidth > 0)
			opts->byte_cost = Max(BYTE_COST, COST_OF_A_SECOND / link.bandwidth);
	}
}

/* Ours: starting a remote query, and moving and handling each row that crosses. */
static void
add_transfer(RfRelInfo *info, RfEstimate *est)
{
	Cost		start = info->opts.fdw_startup_cost;

	if (info->fragment == NULL || !info->fragment->exchanges)
		start /= Max(info->opts.at_once, 1);
	est->startup_cost += start;
	est->total_cost = with_sending(info, est->total_cost) + start +
		(info->opts.fdw_tuple_cost + info->opts.byte_cost * est->width + cpu_tuple_cost) *
		est->retrieved_rows;
}

/*
 * The data node's work and the network are not shared out, nor do they begin earlier. Handling rows
 * is: decoding them, and conditions evaluated here. Each batch is copied before, at the speed of
 * memory.
 */
void
rf_estimate_partial(RfRelInfo *info, double divisor, RfEstimate *est)
{
	double		rows = info->est.retrieved_rows;
	Cost		handling = rows * (info->opts.fdw_tuple_cost + cpu_tuple_cost +
								   (BYTE_COST + COPY_BYTE_COST) * info->est.width);
	Cost		local = rows * info->local_conds_cost.per_tuple;
	Cost		network = rows * (info->opts.byte_cost - BYTE_COST) * info->est.width;
	Cost		run_cost = info->rel_total_cost - info->rel_startup_cost;

	local = Min(local, run_cost);
	est->rows = clamp_row_est(info->est.rows / divisor);
	est->retrieved_rows = clamp_row_est(rows / divisor);
	est->width = info->est.width;
	est->startup_cost = info->opts.fdw_startup_cost + info->rel_startup_cost;
	est->total_cost = est->startup_cost + run_cost - local + network + (handling + local) / divisor;
}

/*
 * Aggregates and limits of few rows cost the same by the book wherever they are done, or differ by
 * an estimate of a width. Then the data node shall do it: rows that our estimate missed stay off
 * the wire, and a row that a limit here does not ask for has often crossed already, as the data
 * node fills a batch before it sends it.
 */
static void
prefer_remote(RfRelInfo *info, bool upper, RfEstimate *est)
{
	double		discount = 1;

	if (upper)
		discount = info->nodes == NIL ? TIE_DISCOUNT : NODES_TIE_DISCOUNT;
	/* of the joins that settings ask for each has to be chosen */
	if (info->fragment != NULL &&
		((info->fragment->strategies != NIL && rf_exchange_strategy != RF_STRATEGY_AUTO) ||
		 (info->fragment->computed && rf_is_disabled(RF_COMPUTE_NODE_COSTS))))
		discount *= FORCED_DISCOUNT;
	est->startup_cost *= discount;
	est->total_cost *= discount;
}

/*
 * Dear columns are computed of the rows that are left after ORDER BY and LIMIT, as the planner
 * there knows.
 */
static void
add_projection(PlannerInfo *root, RfRelInfo *info, RfEstimate *est)
{
	QualCost	cost;

	if (!info->upper.projected || info->opts.use_remote_estimate)
		return;
	rf_remote_qual_cost(&cost, get_tlist_exprs(info->tlist, true), root);
	est->startup_cost += cost.startup;
	est->total_cost += cost.startup + cost.per_tuple * est->retrieved_rows;
}

void
rf_estimate(PlannerInfo *root, RelOptInfo *rel, List *join_conds, List *pathkeys,
			const FinalPathExtraData *limit, RfEstimate *est)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;

	if (info->opts.use_remote_estimate && (pathkeys != NIL || limit != NULL))
		estimate_remotely(root, rel, join_conds, pathkeys, limit != NULL, est);
	else
	{
		estimate_plain(root, rel, join_conds, est);
		if (pathkeys != NIL)
		{
			Cost		sort_startup;
			Cost		run_cost = est->total_cost - est->startup_cost;
			Cost		total;

			total = sort_cost(root, pathkeys, est->retrieved_rows * rf_node_share(info), est->width,
							  limit != NULL && limit->count_est > 0 ?
							  limit->count_est + (double) Max(limit->offset_est, 0) : -1,
							  &sort_startup);
			est->startup_cost += run_cost + sort_startup * REMOTE_SORT_DISCOUNT;
			est->total_cost = est->startup_cost + total - sort_startup;
		}
		if (limit != NULL)
		{
			adjust_limit_rows_costs(&est->retrieved_rows, &est->startup_cost, &est->total_cost,
									limit->offset_est, limit->count_est);
			est->rows = est->retrieved_rows;
		}
	}
	add_projection(root, info, est);
	add_transfer(info, est);
	prefer_remote(info, limit != NULL || info->upper.scanrel != NULL || info->select != NULL, est);
}

void
rf_estimate_rel(PlannerInfo *root, RelOptInfo *rel)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfEstimate	est;

	estimate_plain(root, rel, NIL, &est);
	info->rel_startup_cost = est.startup_cost;
	info->rel_total_cost = est.total_cost;
	add_transfer(info, &est);
	prefer_remote(info, info->upper.scanrel != NULL || info->select != NULL, &est);
	info->est = est;
}
