/*
 * subquery.c
 *		Sub-selects and set operations as parts of a remote statement.
 *
 * A subquery that the planner could not merge into the query around it (it has aggregates,
 * DISTINCT, LIMIT, set operations) is planned first; if the result is one statement for a data
 * node, the subquery is a table of that data node to the query around it, and so are all children
 * of a parent (of UNION ALL, inheritance or partitions) that lie on the same one: joins,
 * aggregates, sorting and limits above them are made as above any foreign table. Set operations
 * themselves are an upper relation whose statement is made of its branches' statements.
 *
 * A subquery RTE cannot be the target of a ForeignScan, so the scan belongs to an upper relation
 * that nothing but its path knows, below a projection that does nothing.
 *
 * The planner has tables of a subquery checked for permissions when it comes to that subquery's
 * plan. Here there is no such plan, as if the subquery had been proved empty;
 * rf_subqueries_are_remote() sees to it that the check is made as in that case.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/compat.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"


/* ---------------------------------------------------------------------------------------------
 * SELECTs
 * ---------------------------------------------------------------------------------------------
 */

/*
 * The columns that a subquery gives, as branch of a set operation in the operation's types. NIL: it
 * has no columns, or they have other types where nothing can be done about it.
 */
static List *
output_columns(PlannerInfo *root, RfRelInfo *info, SetOperationStmt *op)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, root->processed_tlist)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		if (tle->resjunk)
			continue;
		tle->resno = list_length(columns) + 1;
		columns = lappend(columns, tle);
		if (op == NULL)
			continue;
		if (tle->resno > list_length(op->colTypes))
			return NIL;
		if (exprType((Node *) tle->expr) != list_nth_oid(op->colTypes, tle->resno - 1))
		{
			/* other values may be the same in the other type */
			if (info->upper.distinct || rf_is_set_operation(info))
				return NIL;
			tle->expr = (Expr *) coerce_to_common_type(NULL, (Node *) tle->expr,
													   list_nth_oid(op->colTypes, tle->resno - 1),
													   "UNION");
			tle->ressortgroupref = 0;
		}
		if (exprCollation((Node *) tle->expr) != list_nth_oid(op->colCollations, tle->resno - 1))
			return NIL;
	}
	return columns;
}

/*
 * The statement that a path of a subquery's last relation sends, if nothing else has to be done;
 * else NULL.
 */
static RfSelect *
path_select(PlannerInfo *root, Path *path, SetOperationStmt *op)
{
	ForeignPath *foreign;
	RelOptInfo *rel;
	RfRelInfo  *info;
	void	   *before;
	bool		ordered = root->parse->sortClause != NIL;
	List	   *columns;
	RfSelect   *select = NULL;

	/* columns are computed by the data node or not at all */
	while (IsA(path, ProjectionPath))
		path = ((ProjectionPath *) path)->subpath;
	foreign = (ForeignPath *) path;
	rel = path->parent;
	if (!IsA(path, ForeignPath) || path->param_info != NULL || path->parallel_aware ||
		foreign->fdw_outerpath != NULL || !rf_is_our_rel(rel))
		return NULL;
	if (ordered && !pathkeys_contained_in(root->sort_pathkeys, path->pathkeys))
		return NULL;

	info = rf_path_info(foreign);
	if (info->upper.grouped && rf_groups_by_constant(root))
		return NULL;
	columns = output_columns(root, info, op);
	if (columns == NIL)
		return NULL;
	before = rel->fdw_private;
	rel->fdw_private = info;
	select = rf_make_select(root, rel, columns,
							ordered || rf_path_has_limit(foreign) ? path->pathkeys : NIL,
							rf_path_has_limit(foreign));
	rel->fdw_private = before;
	if (select != NULL)
		select->total_cost = Min(select->total_cost, path->total_cost);
	return select;
}

/* OFFSET 0 without LIMIT: how users say that a subquery is to be computed for itself. */
static bool
is_fenced(Query *query)
{
	Const	   *offset = (Const *) query->limitOffset;

	return query->limitCount == NULL && offset != NULL && IsA(offset, Const) &&
		!offset->constisnull && DatumGetInt64(offset->constvalue) == 0;
}

/*
 * Returns true if a planned subquery can be part of a statement at all. Rows hidden by security
 * barriers must not reach conditions that the data node could evaluate below them. Sub-plans that
 * run here need a plan that they are initialized for.
 */
static bool
may_be_part(PlannerInfo *root, RangeTblEntry *rte)
{
	return root != NULL && !rte->security_barrier && root->qual_security_level == 0 &&
		root->init_plans == NIL && root->rowMarks == NIL && !root->hasRecursion &&
		!is_fenced(root->parse) && root->parse->commandType == CMD_SELECT;
}

/* Returns true if these are the columns of the operation without conversion. */
static bool
are_columns_of(List *columns, SetOperationStmt *op)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		if (lfirst_node(TargetEntry, lc)->resno > list_length(op->colTypes) ||
			exprType((Node *) lfirst_node(TargetEntry, lc)->expr) !=
			list_nth_oid(op->colTypes, lfirst_node(TargetEntry, lc)->resno - 1))
			return false;
	}
	return true;
}

/*
 * The statement below DISTINCT in a branch of an operation that leaves no equal rows anyway:
 * several nodes can move its rows to where they are compared. NULL: it is another branch.
 */
static RfSelect *
select_below_distinct(PlannerInfo *root, SetOperationStmt *op)
{
	Query	   *parse = root->parse;
	RelOptInfo *stage;
	RelOptInfo *rel;
	RfRelInfo  *info;
	List	   *columns;

	if (op == NULL || op->all || parse->distinctClause == NIL || parse->hasDistinctOn ||
		parse->hasTargetSRFs || parse->hasAggs || parse->groupClause != NIL ||
		parse->groupingSets != NIL || parse->havingQual != NULL || parse->hasWindowFuncs ||
		parse->limitCount != NULL || parse->limitOffset != NULL)
		return NULL;
	stage = fetch_upper_rel(root, UPPERREL_DISTINCT, NULL);
	info = (RfRelInfo *) stage->fdw_private;
	if (info == NULL || !rf_is_our_rel(stage) || info->fragment == NULL ||
		info->upper.scanrel == NULL)
		return NULL;
	rel = info->upper.scanrel;
	columns = output_columns(root, (RfRelInfo *) rel->fdw_private, op);
	return columns != NIL && are_columns_of(columns, op) ?
		rf_make_select(root, rel, columns, NIL, false) :
		NULL;
}

/* A planned subquery; op: the set operation that it is a branch of, or NULL. */
static RfSelect *
subquery_select(RelOptInfo *rel, RangeTblEntry *rte, SetOperationStmt *op)
{
	PlannerInfo *root = rel->subroot;
	RfSelect   *below;
	ListCell   *lc;

	if (!may_be_part(root, rte))
		return NULL;
	below = select_below_distinct(root, op);
	if (below != NULL)
	{
		below->subquery = rel;
		return below;
	}
	foreach(lc, fetch_upper_rel(root, UPPERREL_FINAL, NULL)->pathlist)
	{
		RfSelect   *select = path_select(root, (Path *) lfirst(lc), op);

		if (select != NULL)
		{
			select->subquery = rel;
			return select;
		}
	}
	return NULL;
}

/*
 * The relation of the last stage of a subquery that gives all rows which grouping and the like
 * leave.
 */
static RelOptInfo *
last_stage(PlannerInfo *root)
{
	Query	   *parse = root->parse;

	if (parse->setOperations != NULL || parse->limitCount != NULL || parse->limitOffset != NULL ||
		parse->hasTargetSRFs)
		return NULL;
	if (parse->distinctClause != NIL)
		return fetch_upper_rel(root, UPPERREL_DISTINCT, NULL);
	if (parse->hasWindowFuncs)
		return fetch_upper_rel(root, UPPERREL_WINDOW, NULL);
	return fetch_upper_rel(root, UPPERREL_GROUP_AGG, NULL);
}

/*
 * A planned subquery over several nodes: all statements of its last stage, which differ in the
 * placement of rows, because the query above may make a more expensive one the better. Their order
 * does not matter. NIL if there are no statements.
 */
static List *
nodes_selects(RelOptInfo *rel, RangeTblEntry *rte)
{
	PlannerInfo *root = rel->subroot;
	RelOptInfo *stage;
	RfRelInfo  *info;
	List	   *columns;
	List	   *selects = NIL;
	ListCell   *lc;

	if (!may_be_part(root, rte) || (stage = last_stage(root)) == NULL ||
		stage->fdw_private == NULL || !rf_is_our_rel(stage))
		return NIL;
	info = (RfRelInfo *) stage->fdw_private;
	if (info->fragment == NULL || (info->upper.grouped && rf_groups_by_constant(root)) ||
		(columns = output_columns(root, info, NULL)) == NIL)
		return NIL;
	foreach(lc, info->fragment->choices->infos)
	{
		RfSelect   *select;

		stage->fdw_private = lfirst(lc);
		select = rf_make_select(root, stage, columns, NIL, false);
		if (select == NULL)
			continue;
		select->subquery = rel;
		selects = lappend(selects, select);
	}
	stage->fdw_private = info;
	return selects;
}

/* ---------------------------------------------------------------------------------------------
 * Relations
 * ---------------------------------------------------------------------------------------------
 */

/* Names of tables, for messages, and of relations, for EXPLAIN; and one set of options. */
static void
describe_select(RfRelInfo *info, RfSelect *select)
{
	static const char *const words[] = {
		[SETOP_UNION] = "UNION", [SETOP_INTERSECT] = "INTERSECT", [SETOP_EXCEPT] = "EXCEPT"
	};
	RfRelInfo	left = {0};
	RfRelInfo	right = {0};

	if (select->left == NULL)
	{
		info->relation_name = rf_relation_names(select->info);
		info->description = rf_description(select->info);
		info->server = select->info->server;
		info->nodes = select->info->nodes;
		info->members = select->info->members;
		info->compute = select->info->compute;
		info->opts = select->info->opts;
		info->user = select->info->user;
		return;
	}
	describe_select(&left, select->left);
	describe_select(&right, select->right);
	rf_merge_options(info, &left, &right);
	info->relation_name = psprintf("%s, %s", left.relation_name, right.relation_name);
	info->description = psprintf(select->left->left && select->left->op == select->op &&
								 select->left->all == select->all ?
								 "%s %s%s (%s)" :
								 "(%s) %s%s (%s)",
								 left.description, words[select->op], select->all ? " ALL" : "",
								 right.description);
}

static RfSelect *
copy_select(RfSelect *select)
{
	RfSelect   *copy = palloc(sizeof(RfSelect));

	*copy = *select;
	if (select->left != NULL)
	{
		copy->left = copy_select(select->left);
		copy->right = copy_select(select->right);
	}
	return copy;
}

/* It where its rows are and, if there are compute nodes, there: placing a table moves its rows. */
static List *
with_places(RfSelect *select)
{
	RfSelect   *first = select;
	RfSelect   *there;

	while (first->left != NULL)
		first = first->left;
	if (select->left == NULL || first->info->nodes == NIL || !rf_may_compute(first->info))
		return list_make1(select);
	there = copy_select(select);
	there->computed = true;
	return list_make2(select, there);
}

/* The relation is the select's, of its server; NULL: its nodes cannot run it. */
static RfRelInfo *
set_select(RelOptInfo *rel, RfSelect *select)
{
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));

	describe_select(info, select);
	if (info->nodes != NIL && (info->fragment = rf_place_select(select, rel->relid)) == NULL)
		return NULL;
	info->rel = rel;
	info->notes = rf_make_join_notes();
	info->select = select;
	info->local_conds_sel = 1;
	info->rel_startup_cost = -1;
	info->rel_total_cost = -1;
	rel->fdw_private = info;
	rel->serverid = select->source->serverid;
	rel->userid = select->source->userid;
	rel->useridiscurrent = select->source->useridiscurrent;
	rel->fdwroutine = select->source->fdwroutine;
	return info;
}

static void
unset_select(RelOptInfo *rel)
{
	rel->fdw_private = NULL;
	rel->serverid = InvalidOid;
	rel->useridiscurrent = false;
	rel->fdwroutine = NULL;
}

/* All children of a parent as one UNION ALL. */
static RfSelect *
children_select(PlannerInfo *root, RelOptInfo *rel)
{
	RfSelect   *select = NULL;
	List	   *columns;
	ListCell   *lc;

	if (!rf_wanted_columns(root, rel, NIL, &columns))
		return NULL;
	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *appinfo = lfirst_node(AppendRelInfo, lc);
		RelOptInfo *child;
		RfSelect   *branch;
		List	   *tlist = NIL;
		ListCell   *column;

		if (appinfo->parent_relid != rel->relid)
			continue;
		child = root->simple_rel_array[appinfo->child_relid];
		if (child == NULL || IS_DUMMY_REL(child))
			continue;
		if (child->fdw_private == NULL || !rf_is_our_rel(child) ||
			!bms_is_empty(child->lateral_relids))
			return NULL;
		foreach(column, columns)
		{
			Var		   *var = lfirst_node(Var, column);
			Expr	   *expr = (Expr *) list_nth(appinfo->translated_vars, var->varattno - 1);

			if (expr == NULL || exprType((Node *) expr) != var->vartype ||
				exprCollation((Node *) expr) != var->varcollid)
				return NULL;
			tlist = lappend(tlist, makeTargetEntry(expr, var->varattno, NULL, false));
		}
		branch = rf_make_select(root, child, tlist, NIL, false);
		if (branch == NULL)
			return NULL;
		select = select == NULL ? branch : rf_combine_selects(SETOP_UNION, true, select, branch);
		if (select == NULL)
			return NULL;
	}
	/* of a single one core makes no Append, and we nothing that is not there */
	return select != NULL && select->left != NULL ? select : NULL;
}

/* The statement of this select as the relation's; NULL: it cannot be. */
static RfRelInfo *
select_info(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, RfSelect *select)
{
	RfRelInfo  *info = set_select(rel, select);
	List	   *columns;
	ListCell   *lc;

	if (info == NULL)
		return NULL;
	if (info->nodes != NIL && select->left == NULL)
		info->description = psprintf("(%s) %s", info->description,
									 quote_identifier(rte->eref->aliasname));
	if (!rte->inh)				/* children have met theirs */
	{
		rf_classify_conditions(root, rel, rel->baserestrictinfo, &info->remote_conds,
							   &info->local_conds);
		info->local_conds_sel = clauselist_selectivity(root, info->local_conds, rel->relid,
													   JOIN_INNER, NULL);
		cost_qual_eval(&info->local_conds_cost, info->local_conds, root);
	}
	if (!rf_wanted_columns(root, rel, rf_bare_clauses(info->local_conds), &columns))
		return NULL;
	info->tlist = add_to_flat_tlist(NIL, columns);
	foreach(lc, columns)
		info->attrs_used = bms_add_member(info->attrs_used, lfirst_node(Var, lc)->varattno -
										  FirstLowInvalidHeapAttributeNumber);
	if (info->fragment != NULL && select->left != NULL)
		rf_name_select_keys(info);
	rf_estimate_rel(root, rel);
	return info;
}

/*
 * A query that only reads the rows of a single statement gains nothing over the scan of that
 * statement; a query that joins or groups them does.
 */
void
rf_select_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	RfSelect   *select = NULL;
	List	   *selects = NIL;
	RfChoices  *choices = palloc0(sizeof(RfChoices));
	RfRelInfo  *best = NULL;
	bool		reads = root->rowMarks == NIL &&
		(root->parse->commandType == CMD_SELECT || root->parse->commandType == CMD_INSERT);
	ListCell   *lc;

	/* A routine without our fdw_private is another wrapper's. */
	if (rel->fdw_private != NULL || rel->fdwroutine != NULL ||
		(rel->reloptkind != RELOPT_BASEREL && rel->reloptkind != RELOPT_OTHER_MEMBER_REL) ||
		!bms_is_empty(rel->lateral_relids) || root->qual_security_level > 0 || IS_DUMMY_REL(rel))
		return;
	if (reads && rte->inh && rte->rtekind == RTE_RELATION && rel->reloptkind == RELOPT_BASEREL)
	{
		rf_place_partitioned_tables(root);
		if (rel->fdw_private != NULL)
			return;
	}
	if (!reads)
	{
		/* a table that nodes write may be joined with it; core makes its own scan */
		if (rte->rtekind == RTE_SUBQUERY && !rte->inh && rf_nodes_may_join(root))
			selects = nodes_selects(rel, rte);
	}
	else if (rte->inh && (rte->rtekind == RTE_SUBQUERY || rte->rtekind == RTE_RELATION))
		select = children_select(root, rel);
	else if (rte->rtekind == RTE_SUBQUERY)
	{
		selects = nodes_selects(rel, rte);
		if (selects == NIL)
			select = subquery_select(rel, rte, NULL);
	}
	if (select != NULL)
		selects = with_places(select);

	foreach(lc, selects)
	{
		RfRelInfo  *info = select_info(root, rel, rte, lfirst(lc));

		if (info == NULL)
			continue;
		if (info->fragment != NULL)
			info->fragment->choices = choices;
		if (info->fragment == NULL || (rf_add_choice(choices, info) &&
									   (best == NULL ||
										info->est.total_cost < best->est.total_cost)))
			best = info;
	}
	if (best == NULL)
	{
		unset_select(rel);
		return;
	}
	rel->fdw_private = best;
	if (!reads)
		return;
	if (best->select->left != NULL)
		add_path(rel, rf_create_select_path(root, rel, &best->est, NIL));
	rf_add_sorted_paths(root, rel, NULL, NIL);
}

/* ---------------------------------------------------------------------------------------------
 * Set operations
 * ---------------------------------------------------------------------------------------------
 */

/* The operation over exactly these branches; *below gets the branches of node. */
static SetOperationStmt *
find_operation(Node *node, Relids relids, Relids *below)
{
	SetOperationStmt *op = (SetOperationStmt *) node;
	SetOperationStmt *found;
	Relids		left = NULL;
	Relids		right = NULL;

	if (IsA(node, RangeTblRef))
	{
		*below = bms_make_singleton(((RangeTblRef *) node)->rtindex);
		return NULL;
	}
	found = find_operation(op->larg, relids, &left);
	if (found == NULL)
		found = find_operation(op->rarg, relids, &right);
	*below = bms_union(left, right);
	return found == NULL && bms_equal(*below, relids) ? op : found;
}

static RfSelect *
operation_select(PlannerInfo *root, Node *node, SetOperationStmt *around)
{
	SetOperationStmt *op = (SetOperationStmt *) node;
	RfSelect   *left;

	if (IsA(node, RangeTblRef))
	{
		int			rti = ((RangeTblRef *) node)->rtindex;

		return subquery_select(root->simple_rel_array[rti], root->simple_rte_array[rti], around);
	}
	/* its rows would be converted after they are compared */
	if (around != NULL && (!equal(op->colTypes, around->colTypes) ||
						   !equal(op->colCollations, around->colCollations)))
		return NULL;
	left = operation_select(root, op->larg, op);
	return left == NULL ?
		NULL :
		rf_combine_selects(op->op, op->all, left, operation_select(root, op->rarg, op));
}

/* The leftmost branch, whose columns give theirs the names. */
static Index
first_branch(Node *node)
{
	while (IsA(node, SetOperationStmt))
		node = ((SetOperationStmt *) node)->larg;
	return castNode(RangeTblRef, node)->rtindex;
}

/*
 * The planner gives the columns of set operations to relation 0, and INTERSECT and EXCEPT one more
 * that tells the branches apart, which means nothing above and stays NULL.
 */
void
rf_set_operation_paths(PlannerInfo *root, RelOptInfo *rel)
{
	Relids		below;
	SetOperationStmt *op;
	RfSelect   *select;
	RfChoices  *choices = palloc0(sizeof(RfChoices));
	RfRelInfo  *best = NULL;
	PathTarget *target;
	List	   *tlist = NIL;
	ListCell   *lc;

	if (root->hasRecursion || rel->reloptkind != RELOPT_UPPER_REL || rel->fdw_private != NULL ||
		rel->pathlist == NIL || root->parse->rowMarks != NIL)
		return;
	op = find_operation(root->parse->setOperations, rel->relids, &below);
	select = op ? operation_select(root, (Node *) op, NULL) : NULL;
	if (select == NULL)
		return;

	rel->rows = ((Path *) linitial(rel->pathlist))->rows;
	target = ((Path *) linitial(rel->pathlist))->pathtarget;
	foreach(lc, rel->reltarget->exprs)
	{
		Var		   *var = (Var *) lfirst(lc);
		TargetEntry *tle;

		if (!IsA(var, Var) || var->varno != 0)
			return;
		var = copyObject(var);
		var->varnosyn = first_branch((Node *) op);
		var->varattnosyn = var->varattno;
		tle = makeTargetEntry((Expr *) var, var->varattno, NULL,
							  var->varattno > list_length(op->colTypes));
		tle->resname = tle->resjunk ? "branch" :
			get_rte_attribute_name(root->simple_rte_array[var->varnosyn], var->varattno);
		tlist = lappend(tlist, tle);
	}

	foreach(lc, with_places(select))
	{
		RfRelInfo  *info = set_select(rel, lfirst(lc));

		if (info == NULL)
			continue;
		info->tlist = tlist;
		if (info->fragment != NULL)
		{
			rf_name_select_keys(info);
			info->fragment->choices = choices;
		}
		rf_estimate_rel(root, rel);
		if (info->fragment != NULL && !rf_add_choice(choices, info))
			continue;
		if (best == NULL || info->est.total_cost < best->est.total_cost)
			best = info;
		add_path(rel, (Path *) rf_create_foreign_upper_path(root, rel, target, info->est.rows,
															info->est.startup_cost,
															info->est.total_cost,
															NIL, rf_path_private(info, 0)));
	}
	if (best == NULL)
		unset_select(rel);
	else
		rel->fdw_private = best;
}
