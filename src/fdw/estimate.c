/*
 * estimate.c
 *		Rows, width and costs of a foreign scan.
 *
 * Without use_remote_estimate: from pg_class and pg_statistic here, as if the table were local.
 * With it: the data node is asked what its planner thinks of the very statement we would send, and
 * only conditions that are evaluated here are estimated here.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "libpq-fe.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"

#include "rdma_fdw/fdw.h"
#include "rdma_fdw/remote.h"

/*
 * The first line of EXPLAIN, e.g. "Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)".  The last
 * parenthesis is the one: names of relations come before it and may contain others.
 */
static void
parse_explain_line(const char *line, double *rows, int *width, Cost *startup_cost,
				   Cost *total_cost)
{
	const char *costs = strrchr(line, '(');

	if (costs == NULL ||
		sscanf(costs, "(cost=%lf..%lf rows=%lf width=%d)",
			   startup_cost, total_cost, rows, width) != 4)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not read the remote server's estimate"),
				 errdetail("EXPLAIN returned: %s", line),
				 errhint("Turn off use_remote_estimate for this foreign table or server.")));
}

static void
ask_data_node(RfRelInfo *info, const char *sql, double *rows, int *width, Cost *startup_cost,
			  Cost *total_cost)
{
	RfSession  *session = rf_session_get(info->user, true);
	char	   *explain = psprintf("EXPLAIN (COSTS TRUE, VERBOSE FALSE, FORMAT TEXT) %s", sql);
	PGresult   *volatile result = NULL;

	PG_TRY();
	{
		result = rf_session_query(session, explain);
		if (PQntuples(result) < 1 || PQnfields(result) != 1)
			elog(ERROR, "EXPLAIN on the remote server returned no plan");
		parse_explain_line(PQgetvalue(result, 0, 0), rows, width, startup_cost, total_cost);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();
}

static List *
bare_clauses(List *rinfos)
{
	return extract_actual_clauses(rinfos, false);
}

/* Remote estimate of the scan with these join conditions pushed as far as possible. */
static void
estimate_remotely(PlannerInfo *root, RelOptInfo *baserel, List *join_conds,
				  double *rows, double *retrieved_rows, int *width,
				  Cost *startup_cost, Cost *total_cost)
{
	RfRelInfo  *info = (RfRelInfo *) baserel->fdw_private;
	RfRemoteQuery query;
	List	   *remote_join_conds;
	List	   *local_join_conds;
	List	   *conditions;
	QualCost	local_cost;
	Selectivity local_sel;

	rf_classify_conditions(root, baserel, join_conds, &remote_join_conds, &local_join_conds);
	conditions = list_concat(bare_clauses(info->remote_conds), bare_clauses(remote_join_conds));

	rf_build_scan_query(root, baserel, info->attrs_used, conditions, NULL, true, &query);
	ask_data_node(info, query.sql, retrieved_rows, width, startup_cost, total_cost);
	*retrieved_rows = clamp_row_est(*retrieved_rows);

	/* What stays here thins the rows out further. */
	local_sel = clauselist_selectivity(root, local_join_conds, baserel->relid, JOIN_INNER, NULL) *
		info->local_conds_sel;
	*rows = clamp_row_est(*retrieved_rows * local_sel);

	*startup_cost += info->local_conds_cost.startup;
	*total_cost += info->local_conds_cost.startup +
		info->local_conds_cost.per_tuple * *retrieved_rows;
	cost_qual_eval(&local_cost, local_join_conds, root);
	*startup_cost += local_cost.startup;
	*total_cost += local_cost.startup + local_cost.per_tuple * *retrieved_rows;
}

/*
 * As for a sequential scan of a local table of this size.  The data node does that work, but while
 * it does we wait, so it is our cost.
 */
static void
estimate_locally(PlannerInfo *root, RelOptInfo *baserel, List *join_conds,
				 double *rows, double *retrieved_rows, int *width,
				 Cost *startup_cost, Cost *total_cost)
{
	RfRelInfo  *info = (RfRelInfo *) baserel->fdw_private;
	QualCost	join_cost;
	Cost		run_cost;

	*rows = baserel->rows;
	if (join_conds != NIL)
		*rows = clamp_row_est(*rows * clauselist_selectivity(root, join_conds, baserel->relid,
															 JOIN_INNER, NULL));
	*width = baserel->reltarget->width;

	/* The conditions evaluated here see more rows than they let through. */
	*retrieved_rows = clamp_row_est(*rows / Max(info->local_conds_sel, 1e-10));
	*retrieved_rows = Min(*retrieved_rows, Max(baserel->tuples, 1.0));

	cost_qual_eval(&join_cost, join_conds, root);
	*startup_cost = baserel->baserestrictcost.startup + join_cost.startup;
	run_cost = seq_page_cost * baserel->pages +
		(cpu_tuple_cost + baserel->baserestrictcost.per_tuple + join_cost.per_tuple) *
		baserel->tuples;
	*total_cost = *startup_cost + run_cost;
}

void
rf_estimate_scan(PlannerInfo *root, RelOptInfo *baserel, List *join_conds,
				 double *rows, int *width, Cost *startup_cost, Cost *total_cost)
{
	RfRelInfo  *info = (RfRelInfo *) baserel->fdw_private;
	double		retrieved_rows;

	if (join_conds == NIL && info->rel_total_cost >= 0)
	{
		/* Asked before: the remote estimate costs a round trip. */
		*rows = info->rows;
		*width = info->width;
		*startup_cost = info->rel_startup_cost;
		*total_cost = info->rel_total_cost;
		retrieved_rows = info->retrieved_rows;
	}
	else
	{
		if (info->opts.use_remote_estimate)
			estimate_remotely(root, baserel, join_conds, rows, &retrieved_rows, width,
							  startup_cost, total_cost);
		else
			estimate_locally(root, baserel, join_conds, rows, &retrieved_rows, width,
							 startup_cost, total_cost);

		if (join_conds == NIL)
		{
			info->rows = *rows;
			info->width = *width;
			info->retrieved_rows = retrieved_rows;
			info->rel_startup_cost = *startup_cost;
			info->rel_total_cost = *total_cost;
		}
	}

	/* Ours: starting a remote query, and moving and handling each row that crosses. */
	*startup_cost += info->opts.fdw_startup_cost;
	*total_cost += info->opts.fdw_startup_cost +
		(info->opts.fdw_tuple_cost + cpu_tuple_cost) * retrieved_rows;
}
