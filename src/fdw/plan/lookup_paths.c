/*
 * lookup_paths.c
 * 	Joins that look rows up by keys: a foreign table joined with rows that are anywhere but on its
 * 	server. A join by data nodes is as good as a table, if they need not move rows for it.
 *
 * 	The join is a nested loop of core's. Its outer side comes from any path: a local table, VALUES,
 * 	a function, a CTE, another server. Its inner side is a Batched Lookup above a scan of the
 * 	foreign table with one condition more ("key = ANY ($1)"). In the finished plan a Lookahead
 * 	stands above the outer side (lookahead_plan.c): it reads rows in advance, so that the data node
 * 	is asked for the rows with many keys at once, and only rows with partners cross. Of several
 * 	equalities the cheapest is sent, and the loop checks the rest.
 *
 * 	Core does not make such paths, as it prices a lookup for each row of the outer side. Here the
 * 	price is one round trip for thousands of keys.
 *
 * 	There is no such path for joins that data nodes can do, and for joins that keep rows of the
 * 	table without partners.
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
	Path	   *driver;
	RelOptInfo *table;
	RfRelInfo  *info;			/* the table's */
	JoinType	jointype;

	/* the equality that is sent; rinfo NULL if there is no such equality */
	RestrictInfo *rinfo;
	Expr	   *driver_key;
	Var		   *table_key;
	Oid			opno;			/* table_key op driver_key */
	Expr	   *condition;		/* the conditions that the data node evaluates */
	Relids		driver_relids;	/* of driver_key */
	double		keys;
	double		rows;			/* that cross */
	Cost		row_cost;
	Cost		cost;			/* of all batches of keys */
	double		key_rows;		/* the cost of sending a key, in rows that cross */
	double		most_rows;		/* the cost of reading all rows, in rows that cross */
} KeyJoin;

static Plan *plan_lookup(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						 List *clauses, List *custom_plans);

static Plan *plan_lookahead(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
							List *clauses, List *custom_plans);

static const CustomPathMethods lookup_methods = {RF_LOOKUP_NAME, plan_lookup, NULL};
static const CustomPathMethods lookahead_methods = {RF_LOOKAHEAD_NAME, plan_lookahead, NULL};

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
	while (info->join.outer != NULL)
	{
		bool		outer = bms_is_member(column->varno, info->join.outer->rel->relids);

		*others += (outer ? info->join.inner : info->join.outer)->rel_total_cost;
		info = outer ? info->join.outer : info->join.inner;
	}
	return info->table != NULL && info->upper.scan == NULL && info->select == NULL &&
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
	double		all = info->est.retrieved_rows;
	double		values = estimate_num_groups(root, list_make1(join->table_key), all, NULL, NULL);
	Cost		others;
	RfRelInfo  *table = table_of(info, join->table_key, &others);
	double		batches;
	Cost		work;
	bool		indexed;
	RfProbeCost probe = {0};

	join->keys = estimate_num_groups(root, key, join->driver->rows, NULL, NULL);
	join->rows = clamp_row_est(all * Min(join->keys / Max(values, 1), 1));
	batches = ceil(join->keys / RF_KEYS_MAX);
	join->row_cost = info->opts.fdw_tuple_cost + cpu_tuple_cost +
		info->opts.byte_cost * info->est.width;
	work = info->rel_total_cost;
	/* the tables joined with it there are read for each batch, but joined with fewer rows */
	if (table != NULL)
	{
		others += Max(info->rel_total_cost - table->rel_total_cost - others, 0) * join->rows /
			Max(all, 1);
		work = table->rel_total_cost + others;
	}
	indexed = table != NULL && table->rel->tuples > 0 &&
		rf_probe_cost(root, table, list_make1(join->rinfo), join->keys, rf_node_share(table), true,
					  &probe);
	if (indexed)
		work = Min(work * batches, join->keys * probe.cost + others * batches);
	else if (batches > 1)
		return false;
	work += join->keys * (2 * cpu_operator_cost + info->opts.byte_cost *
						  get_typavgwidth(exprType((Node *) join->driver_key), -1));
	join->cost = batches * info->opts.fdw_startup_cost + work + join->rows * join->row_cost;
	join->key_rows = (info->opts.fdw_startup_cost / RF_KEYS_MAX + probe.cost) / join->row_cost;
	join->most_rows = indexed ? Max(join->cost, info->est.total_cost / 4) / join->row_cost : 0;
	return true;
}

/* Sides of a hashable equality of the join, if its keys can be sent; false: they cannot. */
static bool
match_equality(KeyJoin *join, RestrictInfo *rinfo)
{
	OpExpr	   *op = (OpExpr *) rinfo->clause;
	Relids		relids = join->driver->parent->relids;
	bool		left = bms_is_subset(rinfo->left_relids, relids);
	Expr	   *column;
	Oid			key_type;
	Oid			table_eq;
	Oid			driver_eq;

	if (!OidIsValid(rinfo->hashjoinoperator) || !is_opclause(op) || list_length(op->args) != 2 ||
		!bms_is_subset(left ? rinfo->right_relids : rinfo->left_relids, join->table->relids) ||
		!bms_is_subset(left ? rinfo->left_relids : rinfo->right_relids, relids))
		return false;
	/* an outer join's own clauses only; and no row may be seen that a security barrier hides */
	if ((IS_OUTER_JOIN(join->jointype) && RINFO_IS_PUSHED_DOWN(rinfo, join->joinrel->relids)) ||
		!restriction_is_securely_promotable(rinfo, join->table))
		return false;

	join->driver_relids = left ? rinfo->left_relids : rinfo->right_relids;
	join->driver_key = (Expr *) (left ? get_leftop(op) : get_rightop(op));
	column = (Expr *) (left ? get_rightop(op) : get_leftop(op));
	join->table_key = bare_column(column);
	join->opno = left ? get_commutator(op->opno) : op->opno;
	if (join->table_key == NULL || bms_is_empty(join->driver_relids) ||
		bms_is_member(join->table_key->varno, join->info->join.hidden_relids) ||
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
			(best.rinfo == NULL || candidate.cost < best.cost))
			best = candidate;
	}
	*join = best;
	return join->rinfo != NULL;
}

/* ---------- paths ---------- */

/* Where only the first rows may be wanted, the first batch of keys is a small one. */
static bool
wants_first_rows(PlannerInfo *root)
{
	return root->tuple_fraction > 0 && root->parse->commandType == CMD_SELECT &&
		root->rowMarks == NIL;
}

/* The nested loop's costs, where the lookups of thousands of its outer rows are one statement. */
static void
cost_path(KeyJoin *join, Path *path, List *clauses)
{
	Path	   *driver = join->driver;
	QualCost	quals;
	double		first = 1;
	Cost		start;
	Cost		run_cost;

	cost_qual_eval(&quals, clauses, join->root);
	run_cost = driver->total_cost - driver->startup_cost +
		driver->rows * (cpu_tuple_cost + 2 * cpu_operator_cost) +
		join->cost - join->info->opts.fdw_startup_cost +
		join->rows * cpu_operator_cost + Max(join->rows, path->rows) * quals.per_tuple +
		path->rows * cpu_tuple_cost;
	if (wants_first_rows(join->root))
		first = Min(RF_KEYS_FIRST / Max(driver->rows, 1), 1);
	start = driver->startup_cost + join->info->opts.fdw_startup_cost + quals.startup;
	path->startup_cost = start + first * (driver->total_cost - driver->startup_cost);
	path->total_cost = start + run_cost;
}

/* The outer side, of which only the columns are kept that the loop needs. */
static Path *
lookahead_path(Path *driver)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *driver;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.parallel_aware = path->path.parallel_safe = false;
	path->path.parallel_workers = 0;
	path->methods = &lookahead_methods;
	path->custom_paths = list_make1(driver);
	return &path->path;
}

/* The inner side: the scan below asks for the rows with the keys that the lookup sets. */
static Path *
lookup_path(KeyJoin *join)
{
	CustomPath *path = makeNode(CustomPath);
	RfLookupPlan *ours = rf_make_plan_node(RfLookupPlan);
	List	   *private = lappend(rf_path_private(join->info, 0), join->condition);
	Cost		startup_cost = join->info->opts.fdw_startup_cost;
	ForeignPath *scan = IS_SIMPLE_REL(join->table) ?
		rf_create_foreignscan_path(join->root, join->table, NULL, join->rows, startup_cost,
							   join->cost, NIL, NULL, NULL, private) :
		rf_create_foreign_join_path(join->root, join->table, join->rows, startup_cost, join->cost,
								NIL, NULL, NIL, private);

	path->path.pathtype = T_CustomScan;
	path->path.parent = join->table;
	path->path.pathtarget = join->table->reltarget;
	path->path.param_info = makeNode(ParamPathInfo);
	path->path.param_info->ppi_req_outer = join->driver_relids;
	path->path.rows = path->path.param_info->ppi_rows =
		clamp_row_est(join->rows / Max(join->keys, 1));
	path->path.startup_cost = scan->path.startup_cost;
	path->path.total_cost = scan->path.total_cost;
	path->methods = &lookup_methods;
	path->custom_paths = list_make1(scan);
	ours->operator = list_make2_oid(join->opno,
									castNode(OpExpr, join->rinfo->clause)->inputcollid);
	ours->key_rows = join->key_rows;
	ours->most = join->most_rows;
	ours->first_rows = wants_first_rows(join->root);
	path->custom_private = list_make4(ours, join->driver_key, join->rinfo->clause, join->table_key);
	return &path->path;
}

/*
 * Adds the nested loop if an equality can send keys and the rows that need not cross are worth the
 * round trips.
 */
static void
add_loop(KeyJoin *join, JoinPathExtraData *extra)
{
	List	   *clauses = list_copy(extra->restrictlist);
	JoinCostWorkspace workspace;
	Path	   *lookahead;
	Path	   *lookup;
	NestPath   *path;
	Relids		required_outer;

	/* the driving rows must not depend on the table's */
	if (bms_overlap(PATH_REQ_OUTER(join->driver), join->joinrel->relids) ||
		!find_equality(join, clauses))
		return;
	if ((join->info->est.retrieved_rows - join->rows) * join->row_cost +
		rf_lock_cost(join->root, join->table) <
		LEAST_GAIN * join->info->opts.fdw_startup_cost)
		return;
	lookahead = lookahead_path(join->driver);
	lookup = lookup_path(join);
	required_outer = calc_nestloop_required_outer(join->driver->parent->relids,
												  PATH_REQ_OUTER(join->driver),
												  join->table->relids, join->driver_relids);
	rf_initial_cost_nestloop(join->root, &workspace, join->jointype, lookahead, lookup, extra);
	path = create_nestloop_path(join->root, join->joinrel, join->jointype, &workspace, extra,
								lookahead, lookup, clauses,
								build_join_pathkeys(join->root, join->joinrel, join->jointype,
													join->driver->pathkeys),
								required_outer);

	/* the lookup checks one equality, and no other clause that core would leave to it */
	(void) get_joinrel_parampathinfo(join->root, join->joinrel, join->driver,
									 linitial(((CustomPath *) lookup)->custom_paths),
									 extra->sjinfo, required_outer, &clauses);
	clauses = list_delete_ptr(clauses, join->rinfo);
	path->jpath.joinrestrictinfo = clauses;
	cost_path(join, &path->jpath.path, clauses);
	add_path(join->joinrel, (Path *) path);
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

		if (choice->join.outer != NULL && choice->local_conds == NIL && choice->local_rels == NIL &&
			!rf_differs_by_node(choice) &&
			(choice->fragment == NULL ||
			 (!choice->fragment->exchanges && !choice->fragment->computed)) &&
			(best == NULL || choice->est.total_cost < best->est.total_cost))
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
rf_lookup_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
				RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	KeyJoin		join = {root, joinrel, outerrel->cheapest_total_path, innerrel};

	if ((jointype != JOIN_INNER && jointype != JOIN_LEFT && jointype != JOIN_SEMI &&
		 jointype != JOIN_ANTI && jointype != JOIN_UNIQUE_OUTER) ||
		join.driver == NULL || !enable_nestloop)
		return;

	/*
	 * Joins that the data nodes can do are theirs, unless they need rows from here for it. They
	 * still may with the next pair of sides, for which core's own join has to stay where rows may
	 * be rechecked.
	 */
	if ((joinrel->fdw_private != NULL && ((RfRelInfo *) joinrel->fdw_private)->local_rels == NIL) ||
		(joinrel->fdwroutine != NULL && rf_rows_may_be_rechecked(root)))
		return;
	join.info = statement_for_keys(root, join.table);
	if (join.info == NULL)
		return;
	join.jointype = jointype;
	if (jointype == JOIN_UNIQUE_OUTER)
	{
		join.jointype = JOIN_INNER;
		join.driver = rf_unique_path(root, outerrel, join.driver, extra->sjinfo);
		if (join.driver == NULL)
			return;
	}
	add_loop(&join, extra);
}

/* ---------- plan ---------- */

/* The place of the compared column in the scan's rows, from 0. */
static int
place_in(Var *column, List *tlist)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

		if (IsA(var, Var) && var->varno == column->varno && var->varattno == column->varattno)
			return foreach_current_index(lc);
	}
	elog(ERROR, "a foreign scan does not give the column that it is joined by");
}

/* A node of ours above a plan whose rows it gives. lookahead_plan.c adds its numbers. */
static CustomScan *
node_above(Plan *plan, List *tlist, const char *name)
{
	CustomScan *result = makeNode(CustomScan);

	result->methods = GetCustomScanMethods(name, false);
	result->scan.plan.targetlist = tlist;
	result->scan.plan.lefttree = plan;
	result->custom_scan_tlist = copyObject(plan->targetlist);
	return result;
}

static Plan *
plan_lookahead(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			   List *custom_plans)
{
	CustomScan *result = node_above(linitial(custom_plans), tlist, RF_LOOKAHEAD_NAME);

	result->custom_private = list_make1(rf_make_plan_node(RfLookaheadPlan));
	return &result->scan.plan;
}

static Plan *
plan_lookup(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			List *custom_plans)
{
	Plan	   *scan = linitial(custom_plans);
	CustomScan *result = node_above(scan, tlist, RF_LOOKUP_NAME);
	RfLookupPlan *ours = copyObject(linitial(path->custom_private));

	result->custom_exprs = list_make2(lsecond(path->custom_private), lthird(path->custom_private));
	ours->columns = list_length(scan->targetlist);
	ours->column = place_in(lfourth(path->custom_private), scan->targetlist);
	result->custom_private = list_make1(ours);
	rf_batch_statements++;
	return &result->scan.plan;
}
