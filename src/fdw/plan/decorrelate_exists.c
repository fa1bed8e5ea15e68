/*
 * decorrelate_exists.c
 *		EXISTS and IN where the planner makes no semi join of them.
 *
 * It does so only for conditions of WHERE and ON. Below OR, and in other expressions, they are run row by
 * row, or hashed by the coordinator, as IN is everywhere if its sub-select refers to the query around it,
 * and NOT IN. The sub-select becomes a query for the rows that are asked for, which decorrelate_select.c
 * groups and joins, or a condition that the planner understands:
 *		x IN (SELECT y FROM i WHERE i.k = o.k)		EXISTS (SELECT FROM i WHERE i.k = o.k AND x = y)
 *		x NOT IN (SELECT y FROM i)					NOT EXISTS (SELECT FROM i WHERE x = y) AND
 *			(NOT EXISTS (SELECT FROM i) OR x IS NOT NULL AND NOT EXISTS (SELECT FROM i WHERE y IS NULL))
 * The last two are asked for once in a statement, unless they depend on the row as well.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "decorrelate.h"

/* Does LIMIT let a row pass, if there is one? */
static bool
limit_keeps_existence(Query *sub)
{
	Const	   *count = (Const *) eval_const_expressions(NULL, sub->limitCount);

	if (sub->limitOffset != NULL)
		return false;
	return count == NULL || (IsA(count, Const) && (count->constisnull || DatumGetInt64(count->constvalue) > 0));
}

/* A column of the sub-select in place of the parameter of IN that stands for it. */
static Node *
column_mutator(Node *node, Query *sub)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_SUBLINK)
	{
		TargetEntry *tle = list_nth_node(TargetEntry, sub->targetList, ((Param *) node)->paramid - 1);

		return copyObject((Node *) tle->expr);
	}
	return expression_tree_mutator(node, column_mutator, sub);
}

/* An expression of the query around, with parameters for columns of the sub-select, as one inside of it. */
static Node *
as_seen_inside(Node *expr, Query *sub)
{
	expr = copyObject(expr);
	IncrementVarSublevelsUp(expr, 1, 0);
	return column_mutator(expr, sub);
}

static bool
asks_for_rows(SubLink *sublink)
{
	Query	   *sub = (Query *) sublink->subselect;
	Oid			server = InvalidOid;

	if (!IsA(sub, Query) || sub->commandType != CMD_SELECT || sub->hasAggs || sub->groupClause != NIL ||
		sub->groupingSets != NIL || sub->havingQual != NULL || sub->hasWindowFuncs || sub->hasTargetSRFs ||
		sub->hasDistinctOn || sub->setOperations != NULL || sub->rowMarks != NIL || sub->cteList != NIL ||
		sub->jointree->fromlist == NIL || contain_volatile_functions((Node *) sub))
		return false;
	if (sublink->subLinkType == ANY_SUBLINK)
	{
		if (sub->limitCount != NULL || sub->limitOffset != NULL || rf_has_sublinks(sublink->testexpr) ||
			contain_volatile_functions(sublink->testexpr) || contain_aggs_of_level(sublink->testexpr, 0))
			return false;
	}
	else if (sublink->subLinkType != EXISTS_SUBLINK || !limit_keeps_existence(sub))
		return false;
	return !rf_reads_others((Node *) sub, &server) && OidIsValid(server);
}

/* The rows of its FROM and WHERE that fulfil this as well. */
static Query *
rows_with(SubLink *sublink, Node *condition)
{
	Query	   *sub = copyObject((Query *) sublink->subselect);

	if (condition != NULL)
		sub->jointree->quals = make_and_qual(sub->jointree->quals, condition);
	sub->targetList = NIL;
	sub->distinctClause = NIL;
	sub->sortClause = NIL;
	sub->limitCount = NULL;
	return sub;
}

Query *
rf_existence(SubLink *sublink)
{
	if (!asks_for_rows(sublink))
		return NULL;
	return rows_with(sublink, sublink->subLinkType == EXISTS_SUBLINK ? NULL :
					 as_seen_inside(sublink->testexpr, (Query *) sublink->subselect));
}

static Node *
make_exists(Query *sub)
{
	SubLink    *result = makeNode(SubLink);

	result->subLinkType = EXISTS_SUBLINK;
	result->subselect = (Node *) sub;
	result->location = -1;
	return (Node *) result;
}

static Node *
make_not(Node *condition)
{
	return (Node *) makeBoolExpr(NOT_EXPR, list_make1(condition), -1);
}

Node *
rf_exists_for_in(SubLink *sublink)
{
	Query	   *sub = rf_existence(sublink);

	return sub == NULL ? NULL : make_exists(sub);
}

static bool
is_column(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	return (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_SUBLINK) || expression_tree_walker(node, is_column, unused);
}

/*
 * One comparison by an equality of btree, which gives NULL of NULL only: rows, and values of composite types,
 * may be NULL in part.
 */
Node *
rf_exists_for_not_in(SubLink *sublink)
{
	Query	   *sub = (Query *) sublink->subselect;
	OpExpr	   *op = (OpExpr *) sublink->testexpr;
	Node	   *x;
	Node	   *y;
	Node	   *equals;
	Node	   *nulls;
	Node	   *nothing;

	if (op == NULL || !IsA(op, OpExpr) || list_length(op->args) != 2 || !op_strict(op->opno) || !asks_for_rows(sublink))
		return NULL;
	x = linitial(op->args);
	y = lsecond(op->args);
	if (is_column(x, NULL) || !is_column(y, NULL) || type_is_rowtype(exprType(x)) || type_is_rowtype(exprType(y)) ||
		get_op_opfamily_strategy(op->opno, lookup_type_cache(exprType(y), TYPECACHE_BTREE_OPFAMILY)->btree_opf) != BTEqualStrategyNumber)
		return NULL;

	equals = make_not(make_exists(rows_with(sublink, as_seen_inside((Node *) op, sub))));
	nulls = make_not(make_exists(rows_with(sublink, rf_null_test(as_seen_inside(y, sub), IS_NULL))));
	nulls = (Node *) makeBoolExpr(AND_EXPR, list_make2(rf_null_test(copyObject(x), IS_NOT_NULL), nulls), -1);
	nothing = make_not(make_exists(rows_with(sublink, NULL)));
	return (Node *) makeBoolExpr(AND_EXPR, list_make2(equals, makeBoolExpr(OR_EXPR, list_make2(nothing, nulls), -1)), -1);
}
