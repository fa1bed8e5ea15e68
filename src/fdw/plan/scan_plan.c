/*
 * scan_plan.c
 *		The planner callbacks: size, paths and plan of a scan of one foreign table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "foreign/fdwapi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/compat.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"


/* Assumed size of a remote table of which nothing is known here. */
#define UNKNOWN_TABLE_PAGES		10

uint64		rf_batch_statements = 0;

typedef struct EcMatchContext
{
	Expr	   *current;		/* the member now being dealt with, or NULL */
	List	   *done;			/* members dealt with before */
} EcMatchContext;

/*
 * Called by core for each foreign table: collects its RfRelInfo and sets the estimated number and
 * width of its rows.
 */
void
rdmaGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	RfRelInfo  *info;

	rf_identify_rows(root, baserel);
	info = rf_relinfo_build(root, baserel, foreigntableid);
	if (info->opts.use_remote_estimate)
	{
		rf_estimate_rel(root, baserel);
		baserel->rows = info->est.rows;
		baserel->reltarget->width = info->est.width;
		return;
	}

	/*
	 * ANALYZE leaves no rows in the catalog for a table that was empty then. Nothing here hears of
	 * rows that came since, as they need not come from here, so that is no more believed than if
	 * it had never been analyzed.
	 */
	if (baserel->tuples <= 0)
	{
		if (baserel->pages == 0)
			baserel->pages = UNKNOWN_TABLE_PAGES;
		baserel->tuples = ((double) baserel->pages * BLCKSZ) /
			(baserel->reltarget->width + MAXALIGN(SizeofHeapTupleHeader));
	}
	set_baserel_size_estimates(root, baserel);
	rf_estimate_rel(root, baserel);
	rf_note_unique_keys(root, info);
}

/*
 * Returns true if this equivalence member is an expression of our relation that we have not dealt
 * with.
 */
static bool
ec_member_matches(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec,
				  EquivalenceMember *em, void *arg)
{
	EcMatchContext *cxt = (EcMatchContext *) arg;

	if (cxt->current != NULL)
		return equal(cxt->current, em->em_expr);
	if (list_member(cxt->done, em->em_expr))
		return false;
	cxt->current = em->em_expr;
	return true;
}

/* Adds the parameterization that a join clause would need, if the clause can be shipped. */
static List *
add_parameterization(PlannerInfo *root, RelOptInfo *baserel, RestrictInfo *rinfo, List *ppis)
{
	Relids		required_outer;

	if (!join_clause_is_movable_to(rinfo, baserel) ||
		!rf_is_shippable_expr(root, baserel, rinfo->clause))
		return ppis;

	required_outer = bms_union(rinfo->clause_relids, baserel->lateral_relids);
	required_outer = bms_del_member(required_outer, baserel->relid);
	if (bms_is_empty(required_outer))
		return ppis;

	return list_append_unique_ptr(ppis, get_baserel_parampathinfo(root, baserel, required_outer));
}

/*
 * Adds a path for each set of outer relations whose values restrict the scan, from join clauses and
 * equivalence classes; the data node's planner estimates them.
 */
static void
add_parameterized_paths(PlannerInfo *root, RelOptInfo *baserel)
{
	List	   *ppis = NIL;
	ListCell   *lc;

	foreach(lc, baserel->joininfo)
		ppis = add_parameterization(root, baserel, lfirst_node(RestrictInfo, lc), ppis);

	/* Equality clauses are not in joininfo but implied by equivalence classes. */
	if (baserel->has_eclass_joins)
	{
		EcMatchContext cxt = {NULL, NIL};

		for (;;)
		{
			List	   *clauses;

			cxt.current = NULL;
			clauses = generate_implied_equalities_for_column(root, baserel, ec_member_matches,
															 &cxt, baserel->lateral_referencers);
			if (cxt.current == NULL)
				break;
			foreach(lc, clauses)
				ppis = add_parameterization(root, baserel, lfirst_node(RestrictInfo, lc), ppis);
			cxt.done = lappend(cxt.done, cxt.current);
		}
	}

	foreach(lc, ppis)
	{
		ParamPathInfo *ppi = (ParamPathInfo *) lfirst(lc);
		RfEstimate	est;

		rf_estimate(root, baserel, ppi->ppi_clauses, NIL, NULL, &est);
		/* Every path with this parameterization must agree on the number of rows. */
		ppi->ppi_rows = est.rows;
		add_path(baserel, (Path *)
				 rf_create_foreignscan_path(root, baserel, NULL, est.rows, est.startup_cost,
											est.total_cost, NIL, ppi->ppi_req_outer, NULL, NIL));
	}
}

/*
 * SELECT ... FOR UPDATE and the like lock the remote rows, with the strength and the manner of
 * waiting that were asked for.  Rows that a condition evaluated here then drops are locked, too.
 * table: "" or " OF r1".  NULL: this table's rows are not locked.
 */
static const char *
table_locking(PlannerInfo *root, Index relid, const char *table)
{
	PlanRowMark *mark = get_plan_rowmark(root->rowMarks, relid);
	const char *strength = NULL;
	const char *waiting = "";

	if (rf_is_written(root, relid))
		return psprintf("FOR UPDATE%s", table);
	if (mark == NULL)
		return NULL;

	switch (mark->strength)
	{
		case LCS_NONE:
			return NULL;		/* the query locks another table, and this one is only re-read */
		case LCS_FORKEYSHARE:
			strength = "FOR KEY SHARE";
			break;
		case LCS_FORSHARE:
			strength = "FOR SHARE";
			break;
		case LCS_FORNOKEYUPDATE:
			strength = "FOR NO KEY UPDATE";
			break;
		case LCS_FORUPDATE:
			strength = "FOR UPDATE";
			break;
	}

	switch (mark->waitPolicy)
	{
		case LockWaitBlock:
			break;
		case LockWaitSkip:
			waiting = " SKIP LOCKED";
			break;
		case LockWaitError:
			waiting = " NOWAIT";
			break;
	}
	return psprintf("%s%s%s", strength, table, waiting);
}

/* GetForeignPaths: the table alone, in orders that are of use, for workers, and with parameters */
void
rdmaGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	RfRelInfo  *info = (RfRelInfo *) baserel->fdw_private;
	const RfEstimate *est = &info->est;
	Cost		total_cost = est->total_cost + rf_lock_cost(root, baserel);

	add_path(baserel, (Path *)
			 rf_create_foreignscan_path(root, baserel, NULL, baserel->rows, est->startup_cost,
										total_cost, NIL, baserel->lateral_relids, NULL, NIL));
	rf_add_sorted_paths(root, baserel, NULL, NIL);
	rf_add_partial_path(root, baserel, baserel->relids, NULL, NIL);

	/*
	 * Nothing here says whether the remote table has an index that makes a look-up per outer row
	 * cheap; only the data node knows.
	 */
	if (info->opts.use_remote_estimate)
		add_parameterized_paths(root, baserel);
}

/*
 * The locks of all tables of a base or join relation; NULL without locks. A node cannot lock rows
 * that it joins with rows of an exchange, neither there nor at their origin: if another transaction
 * writes one before it is found by its ctid, the node's transaction fails to serialize.
 */
static const char *
locking_clause(PlannerInfo *root, RelOptInfo *rel)
{
	StringInfoData buf;
	int			relid = -1;

	RfFragment *fragment = ((RfRelInfo *) rel->fdw_private)->fragment;

	if (IS_UPPER_REL(rel) || (fragment != NULL && fragment->exchanges))
		return NULL;
	if (IS_SIMPLE_REL(rel))
		return table_locking(root, rel->relid, "");
	initStringInfo(&buf);
	while ((relid = bms_next_member(rel->relids, relid)) >= 0)
	{
		const char *locking = table_locking(root, relid, psprintf(" OF r%d", relid));

		if (locking != NULL)
			appendStringInfo(&buf, "%s%s", buf.len == 0 ? "" : " ", locking);
	}
	return buf.len == 0 ? NULL : buf.data;
}

/*
 * The clauses of a base relation's path are the conditions sorted at the start, plus join clauses
 * if the path is parameterized: those are sorted now.
 */
static void
sort_scan_clauses(PlannerInfo *root, RelOptInfo *baserel, List *scan_clauses,
				  List **remote_exprs, List **local_exprs)
{
	RfRelInfo  *info = (RfRelInfo *) baserel->fdw_private;
	ListCell   *lc;

	foreach(lc, scan_clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant)
			continue;
		if (list_member_ptr(info->remote_conds, rinfo))
			*remote_exprs = lappend(*remote_exprs, rinfo->clause);
		else if (list_member_ptr(info->local_conds, rinfo))
			*local_exprs = lappend(*local_exprs, rinfo->clause);
		else if (restriction_is_securely_promotable(rinfo, baserel) &&
				 rf_is_shippable_expr(root, baserel, rinfo->clause))
			*remote_exprs = lappend(*remote_exprs, rinfo->clause);
		else
			*local_exprs = lappend(*local_exprs, rinfo->clause);
	}
}

/*
 * A child of Append returns exactly the required columns, so every row of a slot as wide as its
 * table would have to be projected. Its slot gets only those columns, in the order required.
 * Returns the slot's columns (NIL: the table's), and changes the attributes that the remote columns
 * fill to match. Not if rows may be rechecked, which takes whole rows.
 */
static List *
narrow_slot(PlannerInfo *root, RelOptInfo *rel, List *tlist, List *local_exprs, List **attrs)
{
	Oid			relid = planner_rt_fetch(rel->relid, root)->relid;
	Bitmapset  *used = NULL;
	List	   *wanted = NIL;
	List	   *slot = NIL;
	List	   *filled = NIL;
	ListCell   *lc;
	int			attno;

	if (rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return NIL;
	for (PlannerInfo *r = root; r != NULL; r = r->parent_root)
	{
		if (r->parse->commandType != CMD_SELECT || r->rowMarks != NIL)
			return NIL;
	}
	pull_varattnos((Node *) tlist, rel->relid, &used);
	pull_varattnos((Node *) local_exprs, rel->relid, &used);
	if (bms_is_empty(used) || bms_next_member(used, -1) <= -FirstLowInvalidHeapAttributeNumber)
		return NIL;				/* no columns, system columns, or the whole row */

	foreach(lc, tlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

		if (IsA(var, Var) && var->varno == rel->relid)
			wanted = list_append_unique_int(wanted, var->varattno);
	}
	attno = -1;
	while ((attno = bms_next_member(used, attno)) >= 0)
		wanted = list_append_unique_int(wanted, attno + FirstLowInvalidHeapAttributeNumber);

	foreach(lc, *attrs)
	{
		int			at = 0;

		while (at < list_length(wanted) && list_nth_int(wanted, at) != lfirst_int(lc))
			at++;
		if (at == list_length(wanted))
			return NIL;			/* a column is fetched that is not required */
		filled = lappend_int(filled, at + 1);
	}
	foreach(lc, wanted)
	{
		Oid			type;
		int32		typmod;
		Oid			collation;

		attno = lfirst_int(lc);
		get_atttypetypmodcoll(relid, attno, &type, &typmod, &collation);
		slot = lappend(slot, makeTargetEntry((Expr *) makeVar(rel->relid, attno, type,
															  typmod, collation, 0),
											 list_length(slot) + 1,
											 get_attname(relid, attno, false), false));
	}
	*attrs = filled;
	return slot;
}

List *
rf_prune_nodes(RfRelInfo *info, List **exprs)
{
	List	   *keys = NIL;
	List	   *collations = NIL;
	ListCell   *lc;

	foreach(lc, rf_single_node_values(info->fragment))
	{
		Node	   *value = (Node *) lfirst(lc);

		*exprs = lappend(*exprs, value);
		keys = lappend_oid(keys, exprType(value));
		collations = lappend_oid(collations, exprCollation(value));
	}
	return list_concat(keys, collations);
}

char *
rf_join_strategies(List *names)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, names)
		appendStringInfo(&buf, "%s%s", lc == list_head(names) ? "" : ", ", (char *) lfirst(lc));
	return buf.data;
}

/*
 * All nodes run the statement, but of rows that all of them have one gives them all. Where compute
 * nodes work, all do their part, and rows come only from the compute nodes. columns: the scan
 * tuple's, NIL: the table's.
 */
static RfNodesPlan *
scan_nodes(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path, List *columns,
		   RfRemoteQuery *query, bool locks_rows)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfNodesPlan *nodes;
	RfComputePlan *compute;
	bool		computed;

	if (info->nodes == NIL)
		return NULL;
	nodes = rf_make_plan_node(RfNodesPlan);
	computed = info->fragment->computed;
	nodes->servers = list_copy(computed ? info->members : info->nodes);
	if (info->fragment->placement == RF_PLACED_EVERYWHERE && !computed)
	{
		Assert(!info->fragment->exchanges);
		nodes->places = list_make1_int(0);
		/* lock on the first node, so that concurrent lockers conflict */
		nodes->any = list_length(nodes->servers) > 1 && !locks_rows;
	}
	else
	{
		/* of rows that each of several compute nodes has there is no statement, see nodes_join.c */
		Assert(info->fragment->placement != RF_PLACED_EVERYWHERE ||
			   list_length(info->compute) == 1);
		nodes->places = rf_only_places(info->fragment);
		if (nodes->places == NIL)
		{
			for (int i = 0; i < list_length(nodes->servers); i++)
				nodes->places = lappend_int(nodes->places, i);
		}
		if (info->fragment->placement != RF_PLACED_EVERYWHERE && list_length(nodes->places) > 1 &&
			!rf_merge_keys(root, rel, columns, path->path.pathkeys, &nodes->merge))
			elog(ERROR, "rows of several nodes cannot be merged by these keys");
	}
	nodes->keys = rf_prune_nodes(info, &query->params);
	for (int i = list_length(query->params) - list_length(nodes->keys) / 2;
		 i < list_length(query->params); i++)
		nodes->prune = lappend_int(nodes->prune, i);
	nodes->exchanges = query->exchanges;
	nodes->strategy = rf_join_strategies(info->fragment->strategies);
	nodes->node_sql = query->node_sql;
	if (computed)
	{
		compute = nodes->compute = rf_make_plan_node(RfComputePlan);
		compute->places = list_copy(info->compute);
		compute->holders = list_length(info->nodes);
		compute->send_sql = query->send_sql;
		compute->join_sql = query->join_sql;
	}
	return nodes;
}

/*
 * The join that rechecks rows returns the scan's columns, and does not evaluate the scan's
 * conditions.
 */
static Plan *
recheck_plan(Plan *plan, List *columns, List *local_exprs, bool parallel_safe)
{
	ListCell   *lc;

	foreach(lc, local_exprs)
	{
		plan->qual = list_delete(plan->qual, lfirst(lc));
		/* an inner join has its conditions here, or there as join conditions */
		if (IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin))
		{
			Join	   *join = (Join *) plan;

			if (join->jointype == JOIN_INNER)
				join->joinqual = list_delete(join->joinqual, lfirst(lc));
		}
	}
	return change_plan_targetlist(plan, columns, parallel_safe);
}

/* Names for errors: "table.column". */
static void
name_columns(PlannerInfo *root, List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;
		RangeTblEntry *rte;

		if (!IsA(var, Var) || tle->resname != NULL)
			continue;
		rte = planner_rt_fetch(var->varno, root);
		tle->resname = psprintf("%s.%s", rte->eref->aliasname,
								var->varattno == 0 ? "*" :
								get_rte_attribute_name(rte, var->varattno));
	}
}

/*
 * Below a lookup by keys: the statement with the condition on the keys in place of the one for all
 * rows, whose text is returned. The keys take the parameter's place in the list, as a constant that
 * the lookup overrides: to core they are no parameter of the plan.
 */
static char *
add_keys(PlannerInfo *root, RelOptInfo *rel, List *remote_exprs, Expr *condition,
		 const char *locking, RfRemoteQuery **query)
{
	RfRemoteQuery *all = *query;
	int			place = list_length(all->params);
	Param	   *keys;

	*query = rf_build_query(root, rel, lappend(list_copy(remote_exprs), condition), NIL, false,
							locking, false, NIL);
	keys = list_length((*query)->params) == place + 1 ? llast((*query)->params) : NULL;
	if (keys == NULL || !IsA(keys, Param) || keys->paramid != RF_KEYS_PARAM)
		elog(ERROR, "the keys are not the last parameter of a remote statement");
	(*query)->params = lappend(list_copy(all->params),
							   makeNullConst(keys->paramtype, -1, keys->paramcollid));
	return all->sql;
}

/*
 * Notes the parameters that carry columns of local rows. The Local Rows node fills them; core sees
 * constants.
 */
static void
take_local_params(List *params, RfScanPlan *plan)
{
	ListCell   *lc;

	foreach(lc, params)
	{
		Param	   *param = (Param *) lfirst(lc);

		if (!IsA(param, Param) || param->paramkind != PARAM_EXEC ||
			param->paramid > RF_LOCAL_PARAM(0, 0))
			continue;
		plan->local_places = lappend_int(plan->local_places, foreach_current_index(lc));
		plan->local_params = lappend_int(plan->local_params, param->paramid);
		lfirst(lc) = makeNullConst(param->paramtype, -1, param->paramcollid);
	}
}

/* The statement where the rows of this node are many: with the same parameters. */
static RfFlowPlan *
flow_plan(const RfRemoteQuery *by_flow, const RfRemoteQuery *query)
{
	RfFlowPlan *flow = rf_make_plan_node(RfFlowPlan);

	if (list_length(by_flow->params) != list_length(query->params))
		elog(ERROR, "the forms of a remote statement differ in their parameters");
	flow->sql = by_flow->sql;
	flow->node_sql = by_flow->node_sql;
	flow->exchanges = by_flow->exchanges;
	return flow;
}

/* A value that is there before the scan is asked: to compute it is no error. */
static bool
is_there_before(Node *value)
{
	if (IsA(value, RelabelType))
		return is_there_before((Node *) ((RelabelType *) value)->arg);
	/* to the type of the key, which has all values of it; another's cast may be anything */
	if (IsA(value, FuncExpr) && ((FuncExpr *) value)->funcformat == COERCE_IMPLICIT_CAST &&
		((FuncExpr *) value)->funcid < FirstGenbkiObjectId)
		return is_there_before(linitial(((FuncExpr *) value)->args));
	return IsA(value, Var) || IsA(value, Const) ||
		(IsA(value, Param) && ((Param *) value)->paramkind == PARAM_EXEC);
}

/* The statement for many values of the parameters. NULL: there is no such statement. */
static char *
batch_statement(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path, List *conditions,
				const RfRemoteQuery *query, const RfNodesPlan *nodes)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	char	   *sql;
	ListCell   *lc;

	if (query->param_types == NIL || query->exchanges != NIL || query->node_sql != NIL ||
		info->local_rels != NIL || rf_is_set_operation(info) || path->path.parallel_workers > 0 ||
		path->path.parallel_aware)
		return NULL;
	if (nodes != NULL && nodes->compute != NULL)
		return NULL;
	foreach(lc, query->params)
	{
		if (!is_there_before((Node *) lfirst(lc)))
			return NULL;
	}
	foreach(lc, query->param_types)
	{
		if (!OidIsValid(get_array_type(lfirst_oid(lc))))
			return NULL;
	}
	foreach(lc, query->retrieved_attrs)
	{
		if (lfirst_int(lc) <= 0)
			return NULL;
	}
	sql = rf_batch_statement(root, rel, conditions, path->path.pathkeys, rf_path_has_limit(path),
							 query);
	if (sql != NULL)
		rf_batch_statements++;
	return sql;
}

/*
 * Creates the ForeignScan of a base, join or upper relation; the last two have no scanrelid, but
 * columns of their own.
 */
ForeignScan *
rdmaGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid foreigntableid,
				   ForeignPath *best_path, List *tlist, List *scan_clauses, Plan *outer_plan)
{
	RfRelInfo  *info = rf_path_info(best_path);
	bool		simple = IS_SIMPLE_REL(rel);	/* never a SELECT, see rf_create_select_path() */
	bool		limit = rf_path_has_limit(best_path);
	List	   *remote_exprs = NIL;
	List	   *local_exprs = NIL;
	RfScanPlan *plan = rf_make_plan_node(RfScanPlan);
	const char *locking;
	const char *late_lock = "";
	List	   *slot = info->tlist;
	Expr	   *keys = rf_path_keys(best_path);
	ListCell   *lc;
	RfRemoteQuery *query;
	RfRemoteQuery *by_flow = NULL;

	rel->fdw_private = info;
	/* core takes it from here: joins may have it as a table of nodes */
	if (info->alone == NULL && info->table != NULL && simple)
		rel->serverid = info->server->serverid;
	locking = locking_clause(root, rel);
	/* without LockRows above it: the statement does it all */
	if (locking != NULL && rf_is_locked_late(root, rel) && !limit)
	{
		late_lock = locking;
		locking = NULL;
	}

	rf_subqueries_are_remote(info);
	if (simple)
		sort_scan_clauses(root, rel, scan_clauses, &remote_exprs, &local_exprs);
	else
		local_exprs = rf_bare_clauses(info->local_conds);

	if (info->local_rels != NIL)
		by_flow = rf_build_query(root, rel, remote_exprs, best_path->path.pathkeys, limit, NULL,
								 false, info->local_rels);
	query = rf_divides_local(info) ? by_flow :
		rf_build_query(root, rel, remote_exprs, best_path->path.pathkeys, limit, locking, false,
					   NIL);
	if (keys != NULL)
		plan->all_sql = add_keys(root, rel, remote_exprs, keys, locking, &query);
	take_local_params(query->params, plan);
	if (info->local_rels != NIL)
		plan->flow = flow_plan(by_flow, query);
	/* a column of no relation in the statement is a parameter, handed in by a nested loop */
	if (!bms_is_subset(pull_varnos(root, (Node *) query->params), PATH_REQ_OUTER(&best_path->path)))
		elog(ERROR, "a parameter of a remote statement has no value");

	if (simple)
		slot = narrow_slot(root, rel, tlist, local_exprs, &query->retrieved_attrs);
	else if (outer_plan != NULL)
		outer_plan = recheck_plan(outer_plan, slot, local_exprs, best_path->path.parallel_safe);

	if (!simple)
		name_columns(root, slot);

	foreach(lc, info->upper.partial ? info->tlist : NIL)
		plan->states = lappend_oid(plan->states,
								   rf_state_deserialfn(lfirst_node(TargetEntry, lc)->expr));

	plan->nodes = scan_nodes(root, rel, best_path, slot, query,
							 locking != NULL || late_lock[0] != '\0');
	if (keys == NULL && locking == NULL && plan->local_params == NIL)
		plan->batch_sql = batch_statement(root, rel, best_path, remote_exprs, query, plan->nodes);
	plan->sql = query->sql;
	plan->attrs = query->retrieved_attrs;
	plan->param_types = query->param_types;
	plan->fetch = info->opts.fetch;
	plan->rows = limit || keys != NULL ? best_path->path.rows : info->est.retrieved_rows;
	plan->relation = rf_relation_names(info);
	plan->description = simple ? pstrdup("") : rf_description(info);
	plan->userid = rel->userid;
	plan->set_operation = rf_is_set_operation(info);
	plan->joined_here = IS_UPPER_REL(rel) ? NIL : rf_joined_here(root, info);
	plan->filtered_here = rf_filtered_here(root, rel, local_exprs);
	plan->late_lock = pstrdup(late_lock);

	/*
	 * The conditions evaluated remotely are needed again if a row mark makes the executor recheck
	 * a row (EvalPlanQual).  If nothing can, sub-selects shall not look as if they were run here.
	 */
	info->planned.conditions = simple ? remote_exprs :
		(info->upper.scan ? info->upper.scan : info)->remote_conds;
	info->planned.pathkeys = best_path->path.pathkeys;
	info->planned.limit = limit;
	if ((simple && slot != NIL) ||
		(root->parse->commandType == CMD_SELECT && root->rowMarks == NIL &&
		 contain_subplans((Node *) remote_exprs)))
		remote_exprs = NIL;
	info->planned.plan = make_foreignscan(tlist, local_exprs, rel->relid, query->params,
										  list_make1(plan),
										  slot, remote_exprs, outer_plan);
	return info->planned.plan;
}

bool
rf_is_our_rel(RelOptInfo *rel)
{
	return rel->fdwroutine != NULL && rel->fdwroutine->GetForeignPlan == rdmaGetForeignPlan;
}

bool
rf_is_our_scan(ForeignScan *plan)
{
	return GetFdwRoutineByServerId(plan->fs_server)->GetForeignPlan == rdmaGetForeignPlan;
}
