/*
 * key_join_plan.c
 * 	Key joins: a foreign table joined with rows that are anywhere but on its server. A join by data
 * 	nodes is as good as a table, if they need not move rows for it.
 *
 * The rows that drive the join are read first, the data node is asked for rows of the table whose
 * column is among their keys ("key = ANY ($1)"), and its answer is matched here (exec/key_join.c).
 * So of a big table only rows with partners cross. The driving rows come from any path: a local
 * table, VALUES, a function, a CTE, another server.
 *
 * A key join is a custom path with two children: the driving path, and a scan of the foreign table
 * with one condition more, whose parameter the join sets. Of several equalities the cheapest is
 * sent, and the rest are checked here.
 *
 * Not made: joins that data nodes can do, and joins that keep rows of the table without partners,
 * so LEFT, ANTI and FULL joins with the table on the preserved side. In a semi join whose outer
 * side is the table the inner side drives: "big.k IN (SELECT k FROM small)".
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "rdma_fdw/compat.h"

#include "fdw/catalog/catalog.h"
#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

/*
 * Estimates of rows with partners are rough. The rows that stay on the data node must be worth so
 * many round trips, or the join is left to core.
 */
#define LEAST_GAIN			1.0

/* One way to do a join. */
typedef struct KeyJoin
{
	PlannerInfo *root;
	RelOptInfo *joinrel;
	RelOptInfo *driver;
	RelOptInfo *table;
	RfRelInfo  *info;			/* the table's */
	JoinType	jointype;
	bool		reversed;		/* a semi join whose inner side drives */

	/* the equality that is sent; rinfo NULL if there is no such equality */
	RestrictInfo *rinfo;
	Expr	   *driver_key;
	Var		   *table_key;
	Oid			opno;			/* table_key op driver_key */
	Expr	   *condition;		/* the conditions that the data node evaluates */
	double		keys;
	double		rows;			/* that cross */
	RfKeyJoinCosts costs;
} KeyJoin;

static Plan *plan_key_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						   List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {RF_KEY_JOIN_NAME, plan_key_join, NULL};

/* ---------- which equality ---------- */

/* The column, maybe as another type of the same form; NULL: it is something else. */
static Var *
bare_column(Expr *expr)
{
	while (IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	return IsA(expr, Var) && ((Var *) expr)->varattno > 0 ? (Var *) expr : NULL;
}

/*
 * key = ANY ($n). A column that is text here may be of an enum or another type there, which has no
 * operator with text: it is compared as its local type.
 */
static Expr *
make_condition(Expr *column, OpExpr *equality, Oid opno, Oid key_type, Oid key_collation)
{
	ScalarArrayOpExpr *condition = makeNode(ScalarArrayOpExpr);
	Param	   *keys = makeNode(Param);
	Oid			type = exprType((Node *) column);

	if (type == TEXTOID || type == BPCHAROID)
		column = (Expr *) makeRelabelType((Expr *) bare_column(column), type, -1,
										  exprCollation((Node *) column), COERCE_EXPLICIT_CAST);
	keys->paramkind = PARAM_EXEC;
	keys->paramid = RF_KEYS_PARAM;
	keys->paramtype = get_array_type(key_type);
	keys->paramtypmod = -1;
	keys->paramcollid = key_collation;
	keys->location = -1;
	condition->opno = opno;
	condition->opfuncid = get_opcode(opno);
	condition->useOr = true;
	condition->inputcollid = equality->inputcollid;
	condition->args = list_make2(column, keys);
	condition->location = -1;
	return (Expr *) condition;
}

/*
 * The table in a statement that has a column, and the cost of reading the tables joined with it
 * there; NULL: it does not come from a table as it lies on the nodes.
 */
static RfRelInfo *
table_of(RfRelInfo *info, Var *column, Cost *others)
{
	*others = 0;
	while (info->outer != NULL)
	{
		bool		outer = bms_is_member(column->varno, info->outer->rel->relids);

		*others += (outer ? info->inner : info->outer)->rel_total_cost;
		info = outer ? info->outer : info->inner;
	}
	return info->table != NULL && info->scan == NULL && info->select == NULL &&
		info->rel->relid == column->varno ? info : NULL;
}

/*
 * Costs of sending this equality's keys. Without an index that serves, a batch of keys takes the
 * data node a scan of the whole table, so there can be only one.
 */
static bool
cost_keys(KeyJoin *join)
{
	RfRelInfo  *info = join->info;
	PlannerInfo *root = join->root;
	List	   *key = list_make1(join->driver_key);
	double		all = info->retrieved_rows;
	double		values = estimate_num_groups(root, list_make1(join->table_key), all, NULL, NULL);
	Cost		others;
	RfRelInfo  *table = table_of(info, join->table_key, &others);
	double		batches;
	Cost		work;
	RfProbeCost probe;

	join->keys = estimate_num_groups(root, key, join->driver->rows, NULL, NULL);
	join->rows = clamp_row_est(all * Min(join->keys / Max(values, 1), 1));
	batches = ceil(join->keys / RF_KEYS_MAX);
	/* a join that is driven from its inner side has one batch only */
	if (join->reversed && batches > 1)
		return false;
	join->costs.round_trip = info->opts.fdw_startup_cost;
	join->costs.row = info->opts.fdw_tuple_cost + cpu_tuple_cost +
		info->opts.byte_cost * info->width;
	join->costs.key = -1;
	work = info->rel_total_cost;
	/* the tables joined with it there are read for each batch, but joined with fewer rows */
	if (table != NULL)
	{
		others += Max(info->rel_total_cost - table->rel_total_cost - others, 0) * join->rows /
			Max(all, 1);
		work = table->rel_total_cost + others;
	}
	if (table != NULL && table->rel->tuples > 0 &&
		rf_probe_cost(root, table, list_make1(join->rinfo), join->keys, rf_node_share(table), true,
					  &probe))
	{
		join->costs.key = probe.cost;
		work = Min(work * batches, join->keys * probe.cost + others * batches);
	}
	else if (batches > 1)
		return false;
	work += join->keys * (2 * cpu_operator_cost + info->opts.byte_cost *
						  get_typavgwidth(exprType((Node *) join->driver_key), -1));
	join->costs.whole = info->total_cost;
	join->costs.planned = batches * join->costs.round_trip + work + join->rows * join->costs.row;
	return true;
}

/* Sides of a hashable equality of the join, if its keys can be sent; false: they cannot. */
static bool
match_equality(KeyJoin *join, RestrictInfo *rinfo)
{
	OpExpr	   *op = (OpExpr *) rinfo->clause;
	bool		left = bms_is_subset(rinfo->left_relids, join->driver->relids);
	Expr	   *column;
	Oid			key_type;
	Oid			table_eq;
	Oid			driver_eq;

	if (!OidIsValid(rinfo->hashjoinoperator) || !is_opclause(op) || list_length(op->args) != 2 ||
		!bms_is_subset(left ? rinfo->right_relids : rinfo->left_relids, join->table->relids) ||
		!bms_is_subset(left ? rinfo->left_relids : rinfo->right_relids, join->driver->relids))
		return false;
	/* an outer join's own clauses only; and no row may be seen that a security barrier hides */
	if ((IS_OUTER_JOIN(join->jointype) && RINFO_IS_PUSHED_DOWN(rinfo, join->joinrel->relids)) ||
		!restriction_is_securely_promotable(rinfo, join->table))
		return false;

	join->driver_key = (Expr *) (left ? get_leftop(op) : get_rightop(op));
	column = (Expr *) (left ? get_rightop(op) : get_leftop(op));
	join->table_key = bare_column(column);
	join->opno = left ? get_commutator(op->opno) : op->opno;
	if (join->table_key == NULL ||
		bms_is_member(join->table_key->varno, join->info->hidden_relids) ||
		!OidIsValid(join->opno) || !op_strict(join->opno) ||
		!get_compatible_hash_operators(join->opno, &table_eq, &driver_eq))
		return false;
	key_type = getBaseType(exprType((Node *) join->driver_key));
	if (!OidIsValid(get_array_type(key_type)))
		return false;
	join->condition = make_condition(column, op, join->opno, key_type,
									 exprCollation((Node *) join->driver_key));
	join->rinfo = rinfo;
	return rf_is_shippable_expr(join->root, join->table, join->condition) && cost_keys(join);
}

/* The one whose keys cost least. */
static bool
find_equality(KeyJoin *join, List *restrictlist)
{
	KeyJoin		best = *join;
	ListCell   *lc;

	best.rinfo = NULL;
	foreach(lc, restrictlist)
	{
		KeyJoin		candidate = *join;

		if (match_equality(&candidate, lfirst_node(RestrictInfo, lc)) &&
			(best.rinfo == NULL || candidate.costs.planned < best.costs.planned))
			best = candidate;
	}
	*join = best;
	return join->rinfo != NULL;
}

/* ---------- paths ---------- */

/*
 * Splits the join's clauses, apart from the key's, into its own and the clauses that filter its
 * rows.
 */
static void
split_clauses(KeyJoin *join, List *restrictlist, List **own, List **filter)
{
	Index		last_level = join->root->qual_security_level;
	ListCell   *lc;

	*own = NIL;
	*filter = NIL;

	/*
	 * clauses of outer security barriers after clauses of inner barriers, as order_qual_clauses()
	 * has it
	 */
	for (Index level = 0; level <= last_level; level++)
	{
		foreach(lc, restrictlist)
		{
			RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

			if (rinfo == join->rinfo || Min(rinfo->security_level, last_level) != level)
				continue;
			if (IS_OUTER_JOIN(join->jointype) && RINFO_IS_PUSHED_DOWN(rinfo, join->joinrel->relids))
				*filter = lappend(*filter, rinfo->clause);
			else
				*own = lappend(*own, rinfo->clause);
		}
	}
}

/* Where only the first rows may be wanted, the first batch of keys is a small one. */
static bool
wants_first_rows(PlannerInfo *root)
{
	return root->tuple_fraction > 0 && root->parse->commandType == CMD_SELECT &&
		root->rowMarks == NIL;
}

static void
cost_path(KeyJoin *join, Path *path, Path *driver, List *own, List *filter)
{
	QualCost	own_cost;
	QualCost	filter_cost;
	double		pairs = Max(join->rows, path->rows);
	double		first = 1;
	Cost		start;
	Cost		run_cost;

	cost_qual_eval(&own_cost, own, join->root);
	cost_qual_eval(&filter_cost, filter, join->root);
	run_cost = driver->total_cost - driver->startup_cost +
		driver->rows * (cpu_tuple_cost + 2 * cpu_operator_cost) +
		join->costs.planned - join->costs.round_trip +
		join->rows * cpu_operator_cost + pairs * own_cost.per_tuple +
		path->rows * (cpu_tuple_cost + filter_cost.per_tuple);
	if (wants_first_rows(join->root))
		first = Min(RF_KEYS_FIRST / Max(driver->rows, 1), 1);
	start = driver->startup_cost + join->costs.round_trip + own_cost.startup + filter_cost.startup;
	path->startup_cost = start + first * (driver->total_cost - driver->startup_cost);
	path->total_cost = start + run_cost;
}

/*
 * Adds the key join's path if an equality can send keys and the rows that need not cross are worth
 * the round trips.
 */
static void
add_key_join(KeyJoin *join, JoinPathExtraData *extra)
{
	RfRelInfo  *info = join->info;
	Path	   *driver = join->driver->cheapest_total_path;
	List	   *restrictlist = list_copy(extra->restrictlist);
	List	   *own;
	List	   *filter;
	CustomPath *path;
	ForeignPath *scan;
	ParamPathInfo *param_info;
	Relids		required_outer;
	List	   *private;

	/* the driving rows must not depend on the table's */
	if (driver == NULL || bms_overlap(PATH_REQ_OUTER(driver), join->joinrel->relids) ||
		!find_equality(join, restrictlist))
		return;
	if ((info->retrieved_rows - join->rows) * join->costs.row +
		rf_lock_cost(join->root, join->table) <
		LEAST_GAIN * join->costs.round_trip)
		return;
	private = lappend(rf_path_private(info, 0), join->condition);
	scan = IS_SIMPLE_REL(join->table) ?
		rf_create_foreignscan_path(join->root, join->table, NULL, join->rows,
								   join->costs.round_trip, join->costs.planned, NIL, NULL,
								   NULL, private) :
		rf_create_foreign_join_path(join->root, join->table, join->rows,
									join->costs.round_trip, join->costs.planned, NIL, NULL,
									NIL, private);
	required_outer = calc_non_nestloop_required_outer(driver, &scan->path);
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = join->joinrel;
	path->path.pathtarget = join->joinrel->reltarget;
	param_info = get_joinrel_parampathinfo(join->root, join->joinrel, driver, &scan->path,
										   extra->sjinfo, required_outer, &restrictlist);
	path->path.param_info = param_info;
	path->path.rows = param_info != NULL ? param_info->ppi_rows : join->joinrel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_paths = list_make2(driver, scan);
	rf_custom_join_path(path, driver, extra->restrictlist);
	split_clauses(join, restrictlist, &own, &filter);
	cost_path(join, &path->path, driver, own, filter);

	private = rf_key_join_private(join->jointype, join->reversed, wants_first_rows(join->root),
								  join->opno, castNode(OpExpr, join->rinfo->clause)->inputcollid,
								  &join->costs);
	path->custom_private = lappend(list_make5(own, filter, join->rinfo->clause, join->driver_key,
											  join->table_key), private);
	add_path(join->joinrel, &path->path);
}

/*
 * The cheapest statement of a join that moves no rows, as each batch of keys would move them again,
 * and is the same on all nodes, as is the statement that asks for all rows.
 */
static RfRelInfo *
join_statement(PlannerInfo *root, RelOptInfo *rel)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfRelInfo  *best = NULL;
	ListCell   *lc;

	/*
	 * no clause may be evaluated below a security barrier, nor may rows be locked, or found again
	 * by a local join
	 */
	if (!bms_is_empty(rel->lateral_relids) || root->qual_security_level > 0 ||
		root->rowMarks != NIL || rf_rows_may_be_rechecked(root))
		return NULL;
	foreach(lc, info->fragment ? info->fragment->choices->infos : list_make1(info))
	{
		RfRelInfo  *choice = (RfRelInfo *) lfirst(lc);

		if (choice->outer != NULL && choice->local_conds == NIL && choice->local_rels == NIL &&
			!rf_differs_by_node(choice) &&
			(choice->fragment == NULL ||
			 (!choice->fragment->exchanges && !choice->fragment->computed)) &&
			(best == NULL || choice->total_cost < best->total_cost))
			best = choice;
	}
	return best;
}

/*
 * The statement of a relation with whose scan keys can be sent; NULL if there is no such statement.
 */
static RfRelInfo *
statement_for_keys(PlannerInfo *root, RelOptInfo *rel)
{
	RfRelInfo  *info = rf_is_our_rel(rel) ? rf_own_statement(rel) : NULL;
	ListCell   *lc;

	if (IS_DUMMY_REL(rel) || info == NULL)
		return NULL;
	if (rel->reloptkind == RELOPT_JOINREL)
		return join_statement(root, rel);
	/* the join does not expect one above the scan */
	foreach(lc, rel->baserestrictinfo)
	{
		if (lfirst_node(RestrictInfo, lc)->pseudoconstant)
			return NULL;
	}
	return IS_SIMPLE_REL(rel) && rel->rtekind == RTE_RELATION &&
		bms_is_empty(rel->lateral_relids) && info->table != NULL &&
		info->select == NULL ?
		info :
		NULL;
}

void
rf_key_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
				  RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	KeyJoin		join = {root, joinrel};
	ListCell   *lc;

	if (jointype != JOIN_INNER && jointype != JOIN_LEFT && jointype != JOIN_SEMI &&
		jointype != JOIN_ANTI)
		return;

	/*
	 * Joins that the data nodes can do are theirs, unless they need rows from here for it. They
	 * still may with the next pair of sides, for which core's own join has to stay where rows may
	 * be rechecked.
	 */
	if ((joinrel->fdw_private != NULL && ((RfRelInfo *) joinrel->fdw_private)->local_rels == NIL) ||
		(joinrel->fdwroutine != NULL && rf_rows_may_be_rechecked(root)))
		return;
	/* core's gating Result stands above its own joins only */
	foreach(lc, extra->restrictlist)
	{
		if (lfirst_node(RestrictInfo, lc)->pseudoconstant)
			return;
	}
	join.jointype = jointype;
	for (int side = 0; side < (jointype == JOIN_SEMI ? 2 : 1); side++)
	{
		join.reversed = side == 1;
		join.driver = join.reversed ? innerrel : outerrel;
		join.table = join.reversed ? outerrel : innerrel;
		join.info = statement_for_keys(root, join.table);
		if (join.info != NULL)
			add_key_join(&join, extra);
	}
}

/* ---------- plan ---------- */

/* Returns true for the same column, maybe set to NULL by an outer join. */
static bool
is_same_column(Node *one, Node *other)
{
	if (IsA(one, Var) && IsA(other, Var))
		return ((Var *) one)->varno == ((Var *) other)->varno &&
			((Var *) one)->varattno == ((Var *) other)->varattno &&
			((Var *) one)->varlevelsup == ((Var *) other)->varlevelsup;
	return IsA(one, PlaceHolderVar) && IsA(other, PlaceHolderVar) &&
		((PlaceHolderVar *) one)->phid == ((PlaceHolderVar *) other)->phid;
}

/* NULL: it is not among them. */
static Node *
find_column(Node *column, List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Node	   *other = lfirst(lc);

		if (IsA(other, TargetEntry))
			other = (Node *) ((TargetEntry *) other)->expr;
		if (is_same_column(column, other))
			return other;
	}
	return NULL;
}

/*
 * Columns of the joined row: first the driving rows', then the table's. From 16 on a column knows
 * which outer joins may have set it to NULL, so it has to look the same above the join. The
 * relation says how; the plan may get its list of columns only later.
 */
static List *
joined_columns(RelOptInfo *rel, List *plans)
{
	Node	   *exprs = (Node *) rel->reltarget->exprs;
	List	   *wanted = pull_var_clause(exprs, PVC_INCLUDE_PLACEHOLDERS);
	List	   *columns = NIL;
	ListCell   *plan;
	ListCell   *lc;

	wanted = list_concat(wanted, pull_var_clause(exprs, PVC_RECURSE_PLACEHOLDERS));
	foreach(plan, plans)
	{
		foreach(lc, ((Plan *) lfirst(plan))->targetlist)
		{
			Node	   *expr = (Node *) lfirst_node(TargetEntry, lc)->expr;
			Node	   *above = find_column(expr, wanted);

			columns = lappend(columns, makeTargetEntry(copyObject((Expr *) (above ? above : expr)),
													   list_length(columns) + 1, NULL, false));
		}
	}
	return columns;
}

/* The join's own conditions are about columns before they are NULL; here all are of one row. */
static Node *
on_joined_row(Node *node, List *columns)
{
	Node	   *column;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		column = find_column(node, columns);
		if (column != NULL)
			return copyObject(column);
	}
	return expression_tree_mutator(node, on_joined_row, columns);
}

static int
place_in(Node *column, List *tlist)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		if (is_same_column(column, (Node *) lfirst_node(TargetEntry, lc)->expr))
			return foreach_current_index(lc);
	}
	elog(ERROR, "a foreign scan does not give the column that it is joined by");
}

/*
 * Makes the CustomScan of a key join's path; its expressions refer to the joined row, in the order
 * of RfKeyJoinExprs.
 */
static Plan *
plan_key_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			  List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *columns = joined_columns(rel, custom_plans);
	List	   *own = linitial(path->custom_private);
	List	   *filter = lsecond(path->custom_private);
	Node	   *equality = lthird(path->custom_private);
	Node	   *driver_key = lfourth(path->custom_private);
	Node	   *table_key = list_nth(path->custom_private, 4);
	int			place;

	scan->methods = GetCustomScanMethods(RF_KEY_JOIN_NAME, false);
	scan->flags = path->flags;
	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = (List *) on_joined_row((Node *) filter, columns);
	scan->custom_scan_tlist = columns;
	scan->custom_plans = custom_plans;
	/* In the order of RfKeyJoinExprs */
	scan->custom_exprs = list_make3(on_joined_row(driver_key, columns),
									on_joined_row(equality, columns),
									on_joined_row((Node *) own, columns));
	place = place_in(table_key, ((Plan *) lsecond(custom_plans))->targetlist);
	scan->custom_private = lappend(list_copy(list_nth(path->custom_private, 5)),
								   makeInteger(place));
	Assert(list_length(scan->custom_private) == RF_KEY_JOIN_NPRIVATE);
	return &scan->scan.plan;
}
