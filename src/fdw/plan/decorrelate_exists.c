/*
 * decorrelate_exists.c
 *		EXISTS and IN where the planner makes no semi join of them, and values.
 *
 * It does so only for conditions of WHERE and ON. Below OR, and in other expressions, they are run
 * row by row, or hashed by the coordinator, as IN is everywhere if its sub-select refers to the
 * query around it, and NOT IN. The sub-select becomes a query for the rows that are asked for,
 * which decorrelate_select.c groups and joins, or a condition that the planner understands:
 *		x IN (SELECT y FROM i WHERE i.k = o.k)		EXISTS (SELECT FROM i WHERE i.k = o.k AND x = y)
 *		x NOT IN (SELECT y FROM i)					NOT EXISTS (SELECT FROM i WHERE x = y) AND
 *			(NOT EXISTS (SELECT FROM i) OR x IS NOT NULL AND NOT EXISTS (SELECT FROM i WHERE y IS
 *			NULL))
 * The last two are asked for once in a statement, unless they depend on the row as well.
 *
 * A value of a row that is found by conditions is an aggregate, too:
 *		(SELECT y FROM i WHERE i.k = o.k)			(SELECT only_value(first_two(y)) FROM
 *													i WHERE ...)
 *		(SELECT y ... ORDER BY z LIMIT 1)			(SELECT (first_two(y ORDER BY z))[1] FROM i
 *													WHERE ...)
 *		ARRAY(SELECT y ... ORDER BY z)				(SELECT coalesce(array_agg(y ORDER BY z), '{}')
 *													FROM i WHERE ...)
 * The first is an error where there are more rows, but only for rows that ask
 * (serve/single_value.c).
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_func.h"
#include "rewrite/rewriteManip.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "forms.h"

/* Returns true if LIMIT, if there is one, lets a row pass. */
static bool
limit_keeps_existence(Query *sub)
{
	Const	   *count = (Const *) eval_const_expressions(NULL, sub->limitCount);

	if (sub->limitOffset != NULL)
		return false;
	return count == NULL ||
		(IsA(count, Const) && (count->constisnull || DatumGetInt64(count->constvalue) > 0));
}

/* A column of the sub-select in place of the parameter of IN that stands for it. */
static Node *
column_mutator(Node *node, Query *sub)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_SUBLINK)
	{
		TargetEntry *tle = list_nth_node(TargetEntry, sub->targetList,
										 ((Param *) node)->paramid - 1);

		return copyObject((Node *) tle->expr);
	}
	return expression_tree_mutator(node, column_mutator, sub);
}

/*
 * An expression of the query around, with parameters for columns of the sub-select, as one inside
 * of it.
 */
static Node *
as_seen_inside(Node *expr, Query *sub)
{
	expr = copyObject(expr);
	IncrementVarSublevelsUp(expr, 1, 0);
	return column_mutator(expr, sub);
}

/* Tables of the nodes, joins and conditions, perhaps DISTINCT, ORDER BY and LIMIT. */
static bool
is_plain_select(Query *sub)
{
	Oid			server = InvalidOid;

	return IsA(sub, Query) && sub->commandType == CMD_SELECT && !sub->hasAggs &&
		sub->groupClause == NIL && sub->groupingSets == NIL && sub->havingQual == NULL &&
		!sub->hasWindowFuncs && !sub->hasTargetSRFs && !sub->hasDistinctOn &&
		sub->setOperations == NULL && sub->rowMarks == NIL && sub->cteList == NIL &&
		sub->jointree->fromlist != NIL && !contain_volatile_functions((Node *) sub) &&
		!rf_reads_others((Node *) sub, &server) && OidIsValid(server);
}

static bool
asks_for_rows(SubLink *sublink)
{
	Query	   *sub = (Query *) sublink->subselect;

	if (!is_plain_select(sub))
		return false;
	if (sublink->subLinkType == ANY_SUBLINK)
	{
		if (sub->limitCount != NULL || sub->limitOffset != NULL ||
			rf_has_sublinks(sublink->testexpr) || contain_volatile_functions(sublink->testexpr) ||
			contain_aggs_of_level(sublink->testexpr, 0))
			return false;
	}
	else if (sublink->subLinkType != EXISTS_SUBLINK || !limit_keeps_existence(sub))
		return false;
	return true;
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

Node *
rf_exists_of(Query *sub)
{
	SubLink    *result = makeNode(SubLink);

	result->subLinkType = EXISTS_SUBLINK;
	result->subselect = (Node *) sub;
	result->location = -1;
	return (Node *) result;
}

/*
 * (SELECT true FROM ... LIMIT 1) IS TRUE: of EXISTS the planner forgets that one row is enough, and
 * the nodes would compute all of them. It expects that half of all rows pass, as it does for
 * EXISTS. With IS NOT NULL it would expect that nearly all do, and nearly no row with NOT in front.
 */
static Node *
make_exists_once(Query *sub)
{
	SubLink    *value = makeNode(SubLink);
	BooleanTest *result = makeNode(BooleanTest);

	sub->targetList = list_make1(makeTargetEntry((Expr *) makeBoolConst(true, false), 1, NULL,
												 false));
	sub->limitCount = (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(1),
										 false, FLOAT8PASSBYVAL);
	sub->limitOption = LIMIT_OPTION_COUNT;
	value->subLinkType = EXPR_SUBLINK;
	value->subselect = (Node *) sub;
	value->location = -1;
	result->arg = (Expr *) value;
	result->booltesttype = IS_TRUE;
	result->location = -1;
	return (Node *) result;
}

Node *
rf_exists_once(SubLink *sublink)
{
	if (contain_vars_of_level(sublink->subselect, 1) || !asks_for_rows(sublink))
		return NULL;
	return make_exists_once(rows_with(sublink, NULL));
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

	return sub == NULL ? NULL : rf_exists_of(sub);
}

static bool
is_column(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	return (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_SUBLINK) ||
		expression_tree_walker(node, is_column, unused);
}

/*
 * One comparison by an equality of btree, which gives NULL of NULL only: rows, and values of
 * composite types, may be NULL in part.
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
	Node	   *(*exists) (Query *sub);

	if (op == NULL || !IsA(op, OpExpr) || list_length(op->args) != 2 || !op_strict(op->opno) ||
		!asks_for_rows(sublink))
		return NULL;
	x = linitial(op->args);
	y = lsecond(op->args);
	if (is_column(x, NULL) || !is_column(y, NULL) ||
		type_is_rowtype(exprType(x)) || type_is_rowtype(exprType(y)) ||
		get_op_opfamily_strategy(
								 op->opno, lookup_type_cache(exprType(y), TYPECACHE_BTREE_OPFAMILY)
								 ->btree_opf) != BTEqualStrategyNumber)
		return NULL;

	equals = make_not(rf_exists_of(rows_with(sublink, as_seen_inside((Node *) op, sub))));
	exists = contain_vars_of_level((Node *) sub, 1) ? rf_exists_of : make_exists_once;
	nulls = make_not(exists(rows_with(sublink, rf_null_test(as_seen_inside(y, sub), IS_NULL))));
	nulls = (Node *) makeBoolExpr(AND_EXPR,
								  list_make2(rf_null_test(copyObject(x), IS_NOT_NULL), nulls), -1);
	nothing = make_not(exists(rows_with(sublink, NULL)));
	return (Node *) makeBoolExpr(
								 AND_EXPR,
								 list_make2(equals,
											makeBoolExpr(OR_EXPR, list_make2(nothing, nulls), -1)),
								 -1);
}

/* ---------- values ---------- */

/* A function of ours; InvalidOid where the extension is not in the database. */
static Oid
own_function(const char *name, Oid argument)
{
	return LookupFuncName(list_make2(makeString("rdma_internal"), makeString(pstrdup(name))), 1,
						  &argument, true);
}

/* LIMIT 1 */
static bool
is_one(Node *limit)
{
	Const	   *count = (Const *) eval_const_expressions(NULL, limit);

	return count != NULL && IsA(count, Const) && !count->constisnull &&
		DatumGetInt64(count->constvalue) == 1;
}

/* aggregate(value ORDER BY the sub-select's sort keys), an array */
static Aggref *
make_aggregate(Oid aggregate, Query *sub, TargetEntry *value, Oid array)
{
	Aggref	   *result = makeNode(Aggref);
	Oid			type = exprType((Node *) value->expr);
	ListCell   *lc;

	result->aggfnoid = aggregate;
	result->aggtype = array;
	result->aggcollid = result->inputcollid = exprCollation((Node *) value->expr);
	result->aggargtypes = list_make1_oid(type);
	result->aggkind = AGGKIND_NORMAL;
	result->aggsplit = AGGSPLIT_SIMPLE;
	result->aggno = result->aggtransno = -1;
	result->location = -1;
	result->args = list_make1(value);
	foreach(lc, sub->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->resjunk && tle->ressortgroupref != 0)
		{
			result->args = lappend(result->args, tle);
			tle->resno = list_length(result->args);
		}
	}
	result->aggorder = sub->sortClause;
	return result;
}

/* array[1] */
static Node *
first_of(Expr *array, Oid type, Oid element, int32 typmod, Oid collation)
{
	SubscriptingRef *result = makeNode(SubscriptingRef);

	result->refcontainertype = type;
	result->refelemtype = result->refrestype = element;
	result->reftypmod = typmod;
	result->refcollid = collation;
	result->refupperindexpr = list_make1(
										 makeConst(INT4OID, -1, InvalidOid, sizeof(int32),
												   Int32GetDatum(1), false, true));
	result->refexpr = array;
	return (Node *) result;
}

/* array, or an empty one of no rows */
static Node *
not_nothing(Expr *array, Oid type, Oid element, Oid collation)
{
	CoalesceExpr *result = makeNode(CoalesceExpr);

	result->coalescetype = type;
	result->coalescecollid = collation;
	result->args = list_make2(array, makeConst(type, -1, collation, -1,
											   PointerGetDatum(construct_empty_array(element)),
											   false, false));
	result->location = -1;
	return (Node *) result;
}

Query *
rf_as_aggregate(SubLink *sublink)
{
	Query	   *sub = (Query *) sublink->subselect;
	bool		whole = sublink->subLinkType == ARRAY_SUBLINK;
	Oid			first_two = own_function("first_two", ANYELEMENTOID);
	Oid			only_value = own_function("only_value", ANYARRAYOID);
	TargetEntry *value = NULL;
	Node	   *expr;
	Aggref	   *agg;
	Oid			type;
	Oid			array;
	Oid			collation;
	int32		typmod;
	ListCell   *lc;

	if (!OidIsValid(first_two) || !OidIsValid(only_value) || !is_plain_select(sub) ||
		sub->distinctClause != NIL || sub->limitOffset != NULL ||
		(sub->limitCount != NULL &&
		 (whole || !is_one(sub->limitCount) || sub->limitOption == LIMIT_OPTION_WITH_TIES)))
		return NULL;
	sub = copyObject(sub);
	if (sub->limitCount == NULL && !whole)
		sub->sortClause = NIL;
	foreach(lc, sub->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!tle->resjunk)
			value = tle;
		else if (sub->sortClause == NIL)
			tle->ressortgroupref = 0;
		if (rf_has_sublinks((Node *) tle->expr))
			return NULL;
	}
	Assert(value != NULL);		/* the grammar gives it one column */
	expr = (Node *) value->expr;
	type = exprType(expr);
	typmod = exprTypmod(expr);
	collation = exprCollation(expr);
	array = get_array_type(type);	/* not of arrays */
	if (!OidIsValid(array))
		return NULL;
	value->resno = 1;
	if (sub->sortClause == NIL)
		value->ressortgroupref = 0;
	agg = make_aggregate(whole ? F_ARRAY_AGG_ANYNONARRAY : first_two, sub, value, array);

	if (whole)
		expr = not_nothing((Expr *) agg, array, type, collation);
	else if (sub->limitCount != NULL)
		expr = first_of((Expr *) agg, array, type, typmod, collation);
	else
	{
		expr = (Node *) makeFuncExpr(only_value, type, list_make1(agg), collation, collation,
									 COERCE_EXPLICIT_CALL);
		/* the columns of the query keep their lengths */
		if (typmod != -1)
			expr = (Node *) makeRelabelType((Expr *) expr, type, typmod, collation,
											COERCE_IMPLICIT_CAST);
	}
	sub->targetList = list_make1(makeTargetEntry((Expr *) expr, 1, NULL, false));
	sub->sortClause = NIL;
	sub->limitCount = NULL;
	sub->hasAggs = true;
	return sub;
}
