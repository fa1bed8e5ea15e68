/*
 * lookahead_plan.c
 *		Foreign scans that run once for each row of another plan, for many rows at once instead.
 *
 * A sub-select that depends on a row of the query around it, and the inner side of a nested loop,
 * ask the data nodes anew for each row, a round trip each. Where they could not become joins
 * (decorrelate.c), finished plans change here: a Lookahead reads rows ahead of the node that the
 * sub-select or loop belongs to, and tells Batched Lookups, which take the foreign scans' places,
 * the values that their parameters will have for these rows. A lookup that is then asked for the
 * first of them sends all values in one statement, and keeps the rows for each (exec/lookahead.c,
 * exec/batched_lookup.c). The kept rows are found by the values of the parameters, so that rows are
 * right for any rows read ahead, and a value that comes again costs no round trip at all.
 *
 * More is asked for than without it only where rows are not read to the end. Nothing is that a CASE
 * or the like could have prevented, as it might be an error.
 *
 * The plans change after setrefs.c: columns are numbered as the executor finds them. Plans of
 * UPDATE, DELETE and MERGE, and of statements that lock rows, may run again for one row, with
 * another version of it. They change only where the planner has chosen to look rows up by keys
 * (lookup_paths.c), whose scan stays as it was.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "plan.h"
#include "plan_private.h"

/* Plan nodes that are added get numbers far above core's. */
#define FIRST_PLAN_NODE		1000000


typedef struct Changes
{
	PlannedStmt *statement;
	bool		keys_only;		/* only lookups by keys get a Lookahead */
	int			nodes;			/* added */
	int			lookups;
} Changes;

/* The values that parameters get from a row of some plan node, and the lookups that use them. */
typedef struct Site
{
	List	   *params;			/* IntList */
	List	   *values;			/* Exprs */
	List	   *lookups;		/* IntList */
} Site;

static Plan *change_plan(Changes *changes, Plan *plan);

/* ---------- lookups ---------- */

static bool
is_ours(Plan *plan, const char *name)
{
	return IsA(plan, CustomScan) &&
		((CustomScan *) plan)->methods == GetCustomScanMethods(name, false);
}

/*
 * Returns true if it differs from the rows of the scan's statement, or has a column that only the
 * table's own slot has.
 */
static bool
varies(Node *node, void *context)
{
	Scan	   *scan = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return scan->scanrelid != 0 && ((Var *) node)->varno == scan->scanrelid &&
			((Var *) node)->varattno <= 0;
	return IsA(node, SubPlan) || (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC) ||
		expression_tree_walker(node, varies, context);
}

/*
 * Returns true if all of its work can be done for many values at once. Each row is computed once,
 * so it must be the same each time.
 */
static bool
is_batchable(ForeignScan *scan)
{
	Plan	   *plan = &scan->scan.plan;

	return scan->operation == CMD_SELECT && plan->initPlan == NIL && rf_is_our_scan(scan) &&
		rf_scan_plan(scan)->batch_sql != NULL && !varies((Node *) plan->targetlist, scan) &&
		!varies((Node *) plan->qual, scan) &&
		!contain_volatile_functions((Node *) plan->targetlist) &&
		!contain_volatile_functions((Node *) plan->qual);
}

/* Replaces the table's columns by the scan tuple's. */
static Node *
to_scan_tuple(Node *node, void *context)
{
	ForeignScan *scan = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && scan->scan.scanrelid != 0 &&
		((Var *) node)->varno == scan->scan.scanrelid)
	{
		Var		   *var = (Var *) node;
		ListCell   *lc;

		foreach(lc, rf_scan_plan(scan)->attrs)
		{
			if (lfirst_int(lc) == var->varattno)
				return (Node *) makeVar(INDEX_VAR, foreach_current_index(lc) + 1, var->vartype,
										var->vartypmod, var->varcollid, 0);
		}
		/* a column that nobody looks at */
		return (Node *) makeNullConst(var->vartype, var->vartypmod, var->varcollid);
	}
	return expression_tree_mutator(node, to_scan_tuple, context);
}

/* The scan tuple's columns, as a join's scan has them. */
static List *
scan_columns(Changes *changes, ForeignScan *scan)
{
	List	   *columns = NIL;
	ListCell   *lc;

	if (scan->scan.scanrelid == 0 || scan->fdw_scan_tlist != NIL)
		return copyObject(scan->fdw_scan_tlist);
	foreach(lc, rf_scan_plan(scan)->attrs)
	{
		Oid			relid = rt_fetch(scan->scan.scanrelid, changes->statement->rtable)->relid;
		Oid			type;
		int32		typmod;
		Oid			collation;

		get_atttypetypmodcoll(relid, lfirst_int(lc), &type, &typmod, &collation);
		columns = lappend(columns,
						  makeTargetEntry((Expr *) makeVar(scan->scan.scanrelid, lfirst_int(lc),
														   type, typmod, collation, 0),
										  list_length(columns) + 1,
										  get_attname(relid, lfirst_int(lc), false), false));
	}
	return columns;
}

/* "dist.sale s" */
static char *
table_name(Changes *changes, Index relid)
{
	RangeTblEntry *rte = rt_fetch(relid, changes->statement->rtable);
	const char *name = get_rel_name(rte->relid);
	char	   *full = quote_qualified_identifier(get_namespace_name(get_rel_namespace(rte->relid)),
												  name);

	if (strcmp(rte->eref->aliasname, name) == 0)
		return full;
	return psprintf("%s %s", full, quote_identifier(rte->eref->aliasname));
}

/*
 * The scan with the statement for many values. Its rows are the scan's rows, with the keys that
 * they are sorted by and the place of the values behind their columns. The rows of each value are
 * sorted, so merging the rows of several nodes sorts them where there is one value only.
 */
static ForeignScan *
batched_scan(Changes *changes, ForeignScan *scan, List **sort)
{
	ForeignScan *result = copyObject(scan);
	Plan	   *plan = &result->scan.plan;
	List	   *columns = scan_columns(changes, scan);
	bool		narrow = scan->scan.scanrelid != 0 && scan->fdw_scan_tlist == NIL;
	RfScanPlan *single = rf_scan_plan(scan);
	RfScanPlan *batch = rf_scan_plan(result);
	List	   *attrs = NIL;
	List	   *types = NIL;
	List	   *nulls = NIL;
	TargetEntry *place;
	ListCell   *lc;

	foreach(lc, single->attrs)
		attrs = lappend_int(attrs, narrow ? foreach_current_index(lc) + 1 : lfirst_int(lc));
	place = makeTargetEntry((Expr *) makeNullConst(INT8OID, -1, InvalidOid),
							list_length(columns) + 1, pstrdup("place"), false);
	attrs = lappend_int(attrs, place->resno);
	batch->local_places = batch->local_params = NIL;
	foreach(lc, single->param_types)
	{
		Oid			type = get_array_type(lfirst_oid(lc));

		types = lappend_oid(types, type);
		batch->local_places = lappend_int(batch->local_places, foreach_current_index(lc));
		nulls = lappend(nulls, makeNullConst(type, -1, get_typcollation(type)));
	}
	batch->local_places = lappend_int(batch->local_places, list_length(types));
	types = lappend_oid(types, INT8ARRAYOID);
	nulls = lappend(nulls, makeNullConst(INT8ARRAYOID, -1, InvalidOid));

	plan->targetlist = (List *) to_scan_tuple((Node *) plan->targetlist, scan);
	plan->qual = (List *) to_scan_tuple((Node *) plan->qual, scan);
	*sort = NIL;
	foreach(lc, batch->nodes != NULL ? batch->nodes->merge : NIL)
	{
		RfMergeKey *key = lfirst(lc);
		RfMergeKey *behind = copyObject(key);
		AttrNumber	attno = key->attno;
		Expr	   *expr;
		Var		   *var;

		if (narrow)
		{
			int			at = 0;

			while (list_nth_int(single->attrs, at) != attno)
				at++;
			attno = at + 1;
		}
		expr = list_nth_node(TargetEntry, columns, attno - 1)->expr;
		var = makeVar(INDEX_VAR, attno, exprType((Node *) expr), exprTypmod((Node *) expr),
					  exprCollation((Node *) expr), 0);
		plan->targetlist = lappend(plan->targetlist,
								   makeTargetEntry((Expr *) var,
												   list_length(plan->targetlist) + 1,
												   NULL, true));
		key->attno = attno;
		behind->attno = 0;
		*sort = lappend(*sort, behind);
	}
	plan->targetlist = lappend(
							   plan->targetlist,
							   makeTargetEntry((Expr *) makeVar(INDEX_VAR, place->resno,
																INT8OID, -1, InvalidOid, 0),
											   list_length(plan->targetlist) + 1, NULL, true));

	plan->plan_node_id = FIRST_PLAN_NODE + changes->nodes++;
	plan->async_capable = false;
	plan->extParam = plan->allParam = NULL;
	plan->lefttree = NULL;
	result->scan.scanrelid = 0;
	result->fdw_scan_tlist = lappend(columns, place);
	result->fdw_exprs = nulls;
	result->fdw_recheck_quals = NIL;
	result->fsSystemCol = false;
	batch->sql = batch->batch_sql;
	batch->batch_sql = NULL;
	batch->attrs = attrs;
	batch->param_types = types;
	if (batch->states != NIL)
		batch->states = lappend_oid(batch->states, InvalidOid);
	if (scan->scan.scanrelid != 0)
		batch->description = table_name(changes, scan->scan.scanrelid);
	if (batch->nodes != NULL)
		batch->nodes->prune = batch->nodes->keys = NIL;
	return result;
}

/* The columns of the plan below, in a node with a scan tuple that is its row. */
static List *
columns_below(List *targetlist)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		columns = lappend(
						  columns,
						  makeTargetEntry((Expr *) makeVar(OUTER_VAR, tle->resno,
														   exprType(expr), exprTypmod(expr),
														   exprCollation(expr), 0),
										  tle->resno, tle->resname, false));
	}
	return columns;
}

/* As many of them, handed on unchanged */
static List *
same_columns(List *targetlist)
{
	List	   *columns = copyObject(targetlist);
	ListCell   *lc;

	foreach(lc, columns)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		tle->expr = (Expr *) makeVar(INDEX_VAR, tle->resno, exprType(expr), exprTypmod(expr),
									 exprCollation(expr), 0);
	}
	return columns;
}

/* A node of ours above a plan, which it takes the place of. */
static CustomScan *
node_above(Changes *changes, Plan *above, Plan *plan, const char *name)
{
	CustomScan *result = makeNode(CustomScan);
	Plan	   *node = &result->scan.plan;

	node->startup_cost = above->startup_cost;
	node->total_cost = above->total_cost;
	node->plan_rows = above->plan_rows;
	node->plan_width = above->plan_width;
	node->plan_node_id = FIRST_PLAN_NODE + changes->nodes++;
	node->extParam = bms_copy(above->extParam);
	node->allParam = bms_copy(above->allParam);
	node->lefttree = plan;
	result->methods = GetCustomScanMethods(name, false);
	return result;
}

static CustomScan *
lookup(Changes *changes, ForeignScan *scan)
{
	List	   *sort;
	ForeignScan *batched = batched_scan(changes, scan, &sort);
	CustomScan *result = node_above(changes, &scan->scan.plan, &batched->scan.plan, RF_LOOKUP_NAME);
	List	   *columns = scan->scan.plan.targetlist;
	RfNodesPlan *nodes = rf_scan_plan(scan)->nodes;
	RfLookupPlan *ours = rf_make_plan_node(RfLookupPlan);

	ours->number = ++changes->lookups;
	ours->columns = list_length(columns);
	ours->sort = sort;
	if (nodes != NULL && nodes->prune != NIL)
	{
		ours->prune = nodes->prune;
		ours->keys = nodes->keys;
		ours->server = scan->fs_server;
	}
	result->custom_scan_tlist = columns_below(columns);
	result->scan.plan.targetlist = same_columns(columns);
	result->custom_exprs = scan->fdw_exprs;
	result->custom_private = list_make1(ours);
	return result;
}

/*
 * Finds scans in this plan that depend on these parameters, and otherwise only on values that exist
 * before the plan runs. Replaces foreign scans by them.
 */
static List *
lookups_in(Changes *changes, Plan **place, const Bitmapset *params, const Bitmapset *outside)
{
	Plan	   *plan = *place;
	List	   *found = NIL;
	List	  **members = NULL;
	ListCell   *lc;

	if (plan == NULL || !bms_overlap(plan->allParam, params))
		return NIL;
	foreach(lc, plan->initPlan)
	{
		ListCell   *cell = list_nth_cell(changes->statement->subplans,
										 lfirst_node(SubPlan, lc)->plan_id - 1);
		Plan	   *inside = (Plan *) lfirst(cell);

		found = list_concat(found, lookups_in(changes, &inside, params, outside));
		lfirst(cell) = inside;
	}
	if (IsA(plan, ForeignScan) || is_ours(plan, RF_LOOKUP_NAME))
	{
		if (!bms_is_subset(plan->extParam, outside))
			return found;
		if (IsA(plan, ForeignScan))
		{
			if (!is_batchable((ForeignScan *) plan))
				return found;
			*place = (Plan *) lookup(changes, (ForeignScan *) plan);
		}
		return lappend_int(found, rf_plan_node_of(RfLookupPlan,
												  ((CustomScan *) *place)->custom_private)->number);
	}
	/* parts that run on a condition, in other processes, or again and again by themselves */
	if ((IsA(plan, Result) && ((Result *) plan)->resconstantqual != NULL) || IsA(plan, Gather) ||
		IsA(plan, GatherMerge) || IsA(plan, RecursiveUnion))
		return found;
	if (IsA(plan, Append))
		members = &((Append *) plan)->appendplans;
	else if (IsA(plan, MergeAppend))
		members = &((MergeAppend *) plan)->mergeplans;
	foreach(lc, members == NULL ? NIL : *members)
	{
		Plan	   *inside = (Plan *) lfirst(lc);

		found = list_concat(found, lookups_in(changes, &inside, params, outside));
		lfirst(lc) = inside;
	}
	if (IsA(plan, SubqueryScan))
		found = list_concat(found, lookups_in(changes,
											  &((SubqueryScan *) plan)->subplan,
											  params, outside));
	found = list_concat(found, lookups_in(changes, &plan->lefttree, params, outside));
	return list_concat(found, lookups_in(changes, &plan->righttree, params, outside));
}

/* ---------- sub-selects ---------- */

/* Finds sub-selects that are evaluated whenever the expression is. */
static bool
always_evaluated(Node *node, void *context)
{
	List	  **subplans = context;

	if (node == NULL || IsA(node, Aggref) || IsA(node, WindowFunc))
		return false;
	if (IsA(node, SubPlan))
	{
		SubPlan    *subplan = (SubPlan *) node;

		if (subplan->parParam != NIL && !subplan->useHashTable &&
			subplan->subLinkType != CTE_SUBLINK && subplan->subLinkType != MULTIEXPR_SUBLINK)
			*subplans = lappend(*subplans, subplan);
		/* the expression that is compared with its rows, for each of them */
		return always_evaluated(subplan->testexpr, context);
	}
	if (IsA(node, CaseExpr))
	{
		CaseExpr   *expr = (CaseExpr *) node;

		return expr->arg != NULL ? always_evaluated((Node *) expr->arg, context) :
			always_evaluated((Node *) linitial_node(CaseWhen, expr->args)->expr, context);
	}
	if (IsA(node, CoalesceExpr))
		return always_evaluated(linitial(((CoalesceExpr *) node)->args), context);
	if (IsA(node, BoolExpr))
		return always_evaluated(linitial(((BoolExpr *) node)->args), context);
	return expression_tree_walker(node, always_evaluated, context);
}

static bool
has_subplan(Node *node, void *context)
{
	return node != NULL &&
		(IsA(node, SubPlan) || expression_tree_walker(node, has_subplan, context));
}

/* The values that a node takes from its input, or computes itself for all nodes above */
static bool
is_input(Node *node)
{
	return IsA(node, Var) || IsA(node, Aggref) || IsA(node, WindowFunc) || IsA(node, GroupingFunc);
}

static bool
collect_inputs(Node *node, void *context)
{
	List	  **inputs = context;

	if (node == NULL)
		return false;
	if (is_input(node))
	{
		*inputs = list_append_unique(*inputs, node);
		return false;
	}
	return expression_tree_walker(node, collect_inputs, context);
}

/* Inputs to columns of the row, where they are in this list */
static Node *
inputs_to_columns(Node *node, void *context)
{
	List	   *inputs = context;
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	foreach(lc, is_input(node) ? inputs : NIL)
	{
		if (equal(lfirst(lc), node))
			return (Node *) makeVar(INDEX_VAR, foreach_current_index(lc) + 1, exprType(node),
									exprTypmod(node), exprCollation(node), 0);
	}
	return expression_tree_mutator(node, inputs_to_columns, context);
}

/* Returns true if its target list may become any other list. */
static bool
can_project(Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_ValuesScan:
		case T_CteScan:
		case T_WorkTableScan:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
		case T_Agg:
		case T_Group:
		case T_WindowAgg:
			return true;
		case T_ForeignScan:
			return ((ForeignScan *) plan)->operation == CMD_SELECT;
		case T_Result:
			return plan->lefttree != NULL;
		default:
			return false;
	}
}

/*
 * The values that the sub-selects' parameters get from a row. Only columns: anything else might
 * fail for a row that is not wanted in the end.
 */
static Site
site_of_subplans(Changes *changes, List *subplans)
{
	Site		site = {NIL, NIL, NIL};
	ListCell   *lc;

	foreach(lc, subplans)
	{
		SubPlan    *subplan = lfirst_node(SubPlan, lc);
		ListCell   *cell = list_nth_cell(changes->statement->subplans, subplan->plan_id - 1);
		Plan	   *plan = (Plan *) lfirst(cell);
		Bitmapset  *params = NULL;
		bool		columns = true;
		List	   *found;
		ListCell   *param;
		ListCell   *value;

		forboth(param, subplan->parParam, value, subplan->args)
		{
			params = bms_add_member(params, lfirst_int(param));
			columns = columns && IsA(lfirst(value), Var);
		}
		found = columns ? lookups_in(changes, &plan, params, plan->extParam) : NIL;
		lfirst(cell) = plan;
		if (found == NIL)
			continue;
		site.params = list_concat(site.params, subplan->parParam);
		site.values = list_concat(site.values, subplan->args);
		site.lookups = list_concat_unique_int(site.lookups, found);
	}
	return site;
}

static void
add_site(CustomScan *lookahead, const Site *site, List *inputs)
{
	RfLookaheadPlan *ours = rf_make_plan_node(RfLookaheadPlan);

	lookahead->custom_exprs = (List *) inputs_to_columns((Node *) site->values, inputs);
	ours->params = list_copy(site->params);
	ours->lookups = list_copy(site->lookups);
	lookahead->custom_private = list_make1(ours);
}

/*
 * The expressions move to a Lookahead above the node, which hands their inputs on. NULL if that
 * does not help.
 */
static CustomScan *
move_above(Changes *changes, Plan *plan, List *subplans, List *moved)
{
	Site		site = site_of_subplans(changes, subplans);
	List	   *inputs = NIL;
	List	   *columns = NIL;
	CustomScan *result;
	ListCell   *lc;

	if (site.lookups == NIL)
		return NULL;
	(void) collect_inputs((Node *) plan->targetlist, &inputs);
	(void) collect_inputs((Node *) moved, &inputs);
	foreach(lc, inputs)
		columns = lappend(columns, makeTargetEntry(copyObject(lfirst(lc)), list_length(columns) + 1,
												   NULL, false));
	result = node_above(changes, plan, plan, RF_LOOKAHEAD_NAME);
	result->custom_scan_tlist = columns_below(columns);
	result->scan.plan.targetlist = (List *) inputs_to_columns((Node *) plan->targetlist, inputs);
	result->scan.plan.qual = (List *) inputs_to_columns((Node *) moved, inputs);
	add_site(result, &site, inputs);
	plan->targetlist = columns;
	return result;
}

/*
 * Sub-selects in WHERE, and those in the SELECT list, which only the rows need that are left.
 * Conditions stay in their order: rows that a security barrier or a policy hides are not shown to
 * conditions behind it.
 */
static Plan *
look_ahead_above(Changes *changes, Plan *plan)
{
	List	   *subplans = NIL;
	List	   *moved = NIL;
	List	   *stay = NIL;
	CustomScan *above;
	ListCell   *lc;

	if (!can_project(plan))
		return plan;
	foreach(lc, plan->qual)
	{
		if (moved == NIL && !has_subplan(lfirst(lc), NULL))
		{
			stay = lappend(stay, lfirst(lc));
			continue;
		}
		/* the remaining conditions are asked for the rows that the first one leaves */
		if (moved == NIL)
			(void) always_evaluated(lfirst(lc), &subplans);
		moved = lappend(moved, lfirst(lc));
	}
	above = move_above(changes, plan, subplans, moved);
	if (above != NULL)
	{
		plan->qual = stay;
		plan = &above->scan.plan;
	}
	subplans = NIL;
	(void) always_evaluated((Node *) plan->targetlist, &subplans);
	above = move_above(changes, plan, subplans, NIL);
	return above != NULL ? &above->scan.plan : plan;
}

/* ---------- nested loops ---------- */

/* lookup_paths.c has made it. */
static bool
is_lookup_by_keys(Plan *plan)
{
	return is_ours(plan, RF_LOOKUP_NAME) &&
		rf_plan_node_of(RfLookupPlan, ((CustomScan *) plan)->custom_private)->operator != NIL;
}

/*
 * The lookups of the inner side's scans that depend on the outer rows, as far as the statement may
 * have such. A lookup by keys gets its number.
 */
static List *
lookups_of_loop(Changes *changes, NestLoop *loop, const Bitmapset *params)
{
	Plan	  **inner = &loop->join.plan.righttree;
	RfLookupPlan *ours;

	if (!is_lookup_by_keys(*inner))
		return changes->keys_only ? NIL :
			lookups_in(changes, inner, params, (*inner)->extParam);
	ours = rf_plan_node_of(RfLookupPlan, ((CustomScan *) *inner)->custom_private);
	ours->number = ++changes->lookups;
	return list_make1_int(ours->number);
}

/*
 * Puts a Lookahead above the outer side, with the parameters and lookups of the loop. Where
 * lookup_paths.c has put a Lookahead there, it gets these. A parameter's value is the Lookahead's
 * column of the same number: Vars cannot be compared, as PostgreSQL 16 and later leave in them
 * which outer joins can make them NULL.
 */
static void
look_ahead_of_loop(Changes *changes, NestLoop *loop)
{
	Plan	   *outer = loop->join.plan.lefttree;
	CustomScan *result = (CustomScan *) outer;
	Bitmapset  *params = NULL;
	Site		site = {NIL, NIL, NIL};
	ListCell   *lc;

	foreach(lc, loop->nestParams)
	{
		NestLoopParam *param = lfirst_node(NestLoopParam, lc);

		if (param->paramval->varno != OUTER_VAR)
			return;
		params = bms_add_member(params, param->paramno);
		site.params = lappend_int(site.params, param->paramno);
		site.values = lappend(site.values, param->paramval);
	}
	site.lookups = lookups_of_loop(changes, loop, params);
	if (site.lookups == NIL)
		return;
	if (!is_ours(outer, RF_LOOKAHEAD_NAME) || result->custom_exprs != NIL)
	{
		result = node_above(changes, outer, outer, RF_LOOKAHEAD_NAME);
		result->custom_scan_tlist = columns_below(outer->targetlist);
		result->scan.plan.targetlist = same_columns(outer->targetlist);
		loop->join.plan.lefttree = &result->scan.plan;
	}
	foreach(lc, site.values)
		lfirst(lc) = get_tle_by_resno(result->scan.plan.targetlist,
									  lfirst_node(Var, lc)->varattno)->expr;
	add_site(result, &site, NIL);
}

/* ---------- plans ---------- */

static void
change_plans(Changes *changes, List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = change_plan(changes, (Plan *) lfirst(lc));
}

static Plan *
change_plan(Changes *changes, Plan *plan)
{
	if (plan == NULL || IsA(plan, Gather) || IsA(plan, GatherMerge))
		return plan;
	check_stack_depth();
	/* a lookup by keys runs its scan itself: no node may come between */
	if (!is_lookup_by_keys(plan))
		plan->lefttree = change_plan(changes, plan->lefttree);

	/*
	 * a merge join goes back to a row of an index or a projection, which no other node than theirs
	 * lets it
	 */
	if (!IsA(plan, MergeJoin) ||
		!(IsA(plan->righttree, IndexScan) || IsA(plan->righttree, IndexOnlyScan) ||
		  IsA(plan->righttree, Result)))
		plan->righttree = change_plan(changes, plan->righttree);
	if (IsA(plan, Append))
		change_plans(changes, ((Append *) plan)->appendplans);
	else if (IsA(plan, MergeAppend))
		change_plans(changes, ((MergeAppend *) plan)->mergeplans);
	else if (IsA(plan, SubqueryScan))
		((SubqueryScan *) plan)->subplan = change_plan(changes, ((SubqueryScan *) plan)->subplan);
	else if (is_ours(plan, RF_LOCAL_ROWS_NAME))
		change_plans(changes, ((CustomScan *) plan)->custom_plans);
	else if (IsA(plan, NestLoop) && ((NestLoop *) plan)->nestParams != NIL)
		look_ahead_of_loop(changes, (NestLoop *) plan);
	return changes->keys_only ? plan : look_ahead_above(changes, plan);
}

void
rf_look_ahead(PlannedStmt *result, CmdType command, int cursor_options, uint64 before)
{
	Changes		changes = {result, false, 0, 0};
	ListCell   *lc;

	/*
	 * a statement planned in between, for a function say, may have had some; then nothing is found
	 * here
	 */
	if (rf_batch_statements == before)
		return;
	changes.keys_only = rf_is_disabled(RF_LOOKAHEAD) ||
		(command != CMD_SELECT && command != CMD_INSERT) ||
		result->hasModifyingCTE || result->rowMarks != NIL ||
		(cursor_options & CURSOR_OPT_SCROLL) != 0;
	result->planTree = change_plan(&changes, result->planTree);
	foreach(lc, result->subplans)
	{
		if (lfirst(lc) != NULL)
			lfirst(lc) = change_plan(&changes, (Plan *) lfirst(lc));
	}
}
