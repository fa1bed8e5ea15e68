/*
 * grouping_sets.c
 *		GROUP BY with several grouping sets becomes two groupings, the first of which data nodes can
 *		compute.
 *
 *		SELECT a, b, sum(x), avg(y) FROM t GROUP BY ROLLUP (a, b)
 * means the same as
 *		SELECT a, b, sum(x), sum(y) / sum(n) FROM
 *			(SELECT a, b, sum(x) AS x, sum(y) AS y, count(y) AS n FROM t GROUP BY a, b) GROUP BY
 *			ROLLUP (a, b)
 * The planner makes partial aggregates of one grouping only, so without that all rows of t come
 * here. The first grouping is by the columns of all sets; if that leaves almost as many rows, the
 * planner finds that one grouping is cheaper.
 *
 * All aggregates must be computable from their own results: count, sum, min, max and the aggregates
 * of booleans and bits, and avg of exact numbers, whose quotient of sum and count is avg()'s
 * result.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"

#include "forms.h"

#define FIRST_RELATION	1		/* the number of the first grouping in the query */
#define GROUP_RELATION	2		/* and of its grouping columns (18) */

typedef struct Steps
{
	Query	   *first;
	List	   *keys;			/* the grouping keys, as they stand above the grouping; columns 1,
								 * 2, ... of `first` */
	List	   *refs;			/* their sort and group references */
	Index		group_relation; /* 18: columns of this relation are the grouping keys; else 0 */
	bool		failed;			/* something cannot be computed of the first grouping */
} Steps;

static Expr *
column_number(const Steps *steps, int number)
{
	Node	   *expr = (Node *) list_nth_node(TargetEntry, steps->first->targetList, number - 1)
	->expr;

	return (Expr *) makeVar(FIRST_RELATION, number, exprType(expr), exprTypmod(expr),
							exprCollation(expr), 0);
}

/* The column of the first grouping that has this value. */
static Expr *
first_column(Steps *steps, Expr *expr)
{
	int			number = 0;
	ListCell   *lc;

	foreach(lc, steps->first->targetList)
	{
		if (number == 0 && equal(lfirst_node(TargetEntry, lc)->expr, expr))
			number = foreach_current_index(lc) + 1;
	}
	if (number == 0)
	{
		TargetEntry *tle;

		number = list_length(steps->first->targetList) + 1;
		tle = makeTargetEntry(expr, number, psprintf("column%d", number), false);
		steps->first->targetList = lappend(steps->first->targetList, tle);
	}
	return column_number(steps, number);
}

/* ---------- aggregates ---------- */

/* Makes an aggregate of the same rows as `agg`. */
static Expr *
first_aggregate(Steps *steps, const Aggref *agg, Oid function, Oid type)
{
	Aggref	   *result = castNode(Aggref, copyObjectImpl(agg));

	result->aggfnoid = function;
	result->aggtype = type;
	return first_column(steps, (Expr *) result);
}

static Expr *
second_aggregate(Oid function, Oid type, Expr *column, Oid collation)
{
	Aggref	   *result = makeNode(Aggref);

	result->aggfnoid = function;
	result->aggtype = type;
	result->aggcollid = result->inputcollid = collation;
	result->aggargtypes = list_make1_oid(exprType((Node *) column));
	result->args = list_make1(makeTargetEntry(column, 1, NULL, false));
	result->aggkind = AGGKIND_NORMAL;
	result->aggsplit = AGGSPLIT_SIMPLE;
	result->aggno = result->aggtransno = -1;
	result->location = -1;
	return (Expr *) result;
}

/* As a bigint; a value that does not fit is the same error as in one grouping. */
static Expr *
sum_of_counts(Expr *column)
{
	return (Expr *) makeFuncExpr(
								 F_INT8_NUMERIC, INT8OID,
								 list_make1(second_aggregate(F_SUM_INT8, NUMERICOID, column,
															 InvalidOid)),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CAST);
}

/* The set without columns has a row, and a count, where there are no rows to group. */
static Expr *
or_zero(Expr *count)
{
	CoalesceExpr *result = makeNode(CoalesceExpr);

	result->coalescetype = INT8OID;
	result->args = list_make2(count, makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
											   Int64GetDatum(0), false, FLOAT8PASSBYVAL));
	result->location = -1;
	return (Expr *) result;
}

/* NULL by zero, if there is no value, is NULL. */
static Expr *
quotient(Steps *steps, const Aggref *avg, Oid sum, Oid sumtype)
{
	Expr	   *total = first_aggregate(steps, avg, sum, sumtype);
	Expr	   *count = first_aggregate(steps, avg, F_COUNT_ANY, INT8OID);
	OpExpr	   *result = makeNode(OpExpr);

	result->opno = OpernameGetOprid(list_make2(makeString("pg_catalog"), makeString("/")),
									NUMERICOID, NUMERICOID);
	result->opfuncid = F_NUMERIC_DIV;
	result->opresulttype = NUMERICOID;
	result->args = list_make2(second_aggregate(sumtype == INT8OID ? F_SUM_INT8 : F_SUM_NUMERIC,
											   NUMERICOID, total, InvalidOid),
							  second_aggregate(F_SUM_INT8, NUMERICOID, count, InvalidOid));
	result->location = -1;
	return (Expr *) result;
}

/*
 * Aggregates without a final function: their state is their result. If its combine function is also
 * its transition function, the aggregate of results is the aggregate of all rows.
 */
static Expr *
aggregate_of_itself(Steps *steps, const Aggref *agg)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(agg->aggfnoid));
	Form_pg_aggregate form;
	Expr	   *result = NULL;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", agg->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	(void) SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &isnull);
	if (!OidIsValid(form->aggfinalfn) && form->aggtranstype == agg->aggtype && isnull &&
		list_length(agg->args) == 1)
	{
		if (form->aggcombinefn == F_INT8PL)
			result = sum_of_counts(first_aggregate(steps, agg, agg->aggfnoid, agg->aggtype));
		else if (form->aggcombinefn == form->aggtransfn &&
				 linitial_oid(agg->aggargtypes) == agg->aggtype)
		{
			result = second_aggregate(agg->aggfnoid, agg->aggtype,
									  first_aggregate(steps, agg, agg->aggfnoid, agg->aggtype),
									  agg->inputcollid);
			((Aggref *) result)->aggcollid = agg->aggcollid;
		}
	}
	ReleaseSysCache(tuple);
	return result;
}

/*
 * The aggregate of all rows of a group of the second grouping, from the results of the first; NULL:
 * not possible.
 */
static Expr *
second_of(Steps *steps, const Aggref *agg)
{
	if (agg->aggfnoid >= FirstGenbkiObjectId || agg->aggkind != AGGKIND_NORMAL ||
		agg->aggorder != NIL || agg->aggdistinct != NIL || agg->aggvariadic ||
		agg->agglevelsup != 0 || contain_volatile_functions((Node *) agg))
		return NULL;
	switch (agg->aggfnoid)
	{
		case F_COUNT_:
		case F_COUNT_ANY:
			return or_zero(sum_of_counts(first_aggregate(steps, agg, agg->aggfnoid, INT8OID)));
		case F_SUM_INT8:
		case F_SUM_NUMERIC:
			return second_aggregate(F_SUM_NUMERIC, NUMERICOID,
									first_aggregate(steps, agg, agg->aggfnoid, NUMERICOID),
									InvalidOid);
		case F_AVG_INT2:
			return quotient(steps, agg, F_SUM_INT2, INT8OID);
		case F_AVG_INT4:
			return quotient(steps, agg, F_SUM_INT4, INT8OID);
		case F_AVG_INT8:
			return quotient(steps, agg, F_SUM_INT8, NUMERICOID);
		case F_AVG_NUMERIC:
			return quotient(steps, agg, F_SUM_NUMERIC, NUMERICOID);
		default:
			return aggregate_of_itself(steps, agg);
	}
}

/* ---------- the query ---------- */

/* Column number of `first` that has this sort and group reference; 0 if there is no such column. */
static int
number_of_ref(const Steps *steps, Index ref)
{
	ListCell   *lc;

	foreach(lc, steps->refs)
	{
		if ((Index) lfirst_int(lc) == ref)
			return foreach_current_index(lc) + 1;
	}
	return 0;
}

/*
 * Its meaning is in its references; the arguments stand as they did below the grouping, also in 18.
 */
static Node *
grouping_above(Steps *steps, const GroupingFunc *grouping)
{
	GroupingFunc *result = makeNode(GroupingFunc);
	ListCell   *lc;

	*result = *grouping;
	result->args = NIL;
	foreach(lc, grouping->refs)
	{
		int			number = number_of_ref(steps, lfirst_int(lc));

		if (number == 0 || grouping->agglevelsup != 0)
			steps->failed = true;
		else
			result->args = lappend(result->args, column_number(steps, number));
	}
	return (Node *) result;
}

/* Translates an expression above the grouping into terms of the first grouping. */
static Node *
above_mutator(Node *node, Steps *steps)
{
	ListCell   *lc;

	if (node == NULL || steps->failed)
		return node;
	if (steps->group_relation == 0)
	{
		/* two of them may be equal, and each is NULL in its own sets */
		int			number = IsA(node, TargetEntry) ?
			number_of_ref(steps, ((TargetEntry *) node)->ressortgroupref) :
			0;

		if (number != 0)
		{
			TargetEntry *tle = flatCopyTargetEntry((TargetEntry *) node);

			tle->expr = column_number(steps, number);
			return (Node *) tle;
		}
		foreach(lc, steps->keys)
		{
			if (equal(node, lfirst(lc)))
				return (Node *) first_column(steps, lfirst(lc));
		}
	}
	if (IsA(node, Aggref))
	{
		Expr	   *second = second_of(steps, (Aggref *) node);

		steps->failed |= second == NULL;
		return (Node *) second;
	}
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == 0)
		steps->failed |= steps->group_relation == 0 ||
			((Var *) node)->varno != steps->group_relation;
	else if (IsA(node, SubLink))
		steps->failed = true;
	if (IsA(node, GroupingFunc))
		return grouping_above(steps, (GroupingFunc *) node);
	return expression_tree_mutator(node, above_mutator, steps);
}

/* The expression of a column that the query groups by. */
static Expr *
key_below(Query *query, Index group_relation, Expr *key)
{
#if PG_VERSION_NUM >= 180000
	if (group_relation != 0)
		return IsA(key, Var) && ((Var *) key)->varlevelsup == 0 &&
			((Var *) key)->varno == group_relation ?
			list_nth(rt_fetch(group_relation, query->rtable)->groupexprs,
					 ((Var *) key)->varattno - 1) :
			NULL;
#endif
	return key;
}

/* The query as it is up to the grouping, by the columns of all sets. Its aggregates follow. */
static bool
make_first(Query *query, Steps *steps)
{
	Query	   *first = steps->first = copyObject(query);
	ListCell   *lc;

	first->targetList = first->groupClause = first->groupingSets = first->windowClause = NIL;
	first->distinctClause = first->sortClause = NIL;
	first->havingQual = first->limitCount = first->limitOffset = NULL;
	first->groupDistinct = first->hasWindowFuncs = first->hasDistinctOn = false;
#if PG_VERSION_NUM >= 180000
	if (query->hasGroupRTE)
	{
		/* the last one, as the parser makes it */
		steps->group_relation = list_length(query->rtable);
		if (rt_fetch(steps->group_relation, query->rtable)->rtekind != RTE_GROUP)
			return false;
		first->rtable = list_truncate(first->rtable, list_length(first->rtable) - 1);
		first->hasGroupRTE = false;
	}
#endif
	foreach(lc, query->groupClause)
	{
		SortGroupClause *clause = copyObject(lfirst_node(SortGroupClause, lc));
		Expr	   *above = (Expr *) get_sortgroupclause_expr(clause, query->targetList);
		Expr	   *below = key_below(query, steps->group_relation, above);
		int			number = list_length(first->targetList) + 1;
		TargetEntry *tle;

		/* a constant is equal to further constants that nobody groups by */
		if (below == NULL || !contain_vars_of_level((Node *) below, 0) ||
			contain_volatile_functions((Node *) below) || rf_has_sublinks((Node *) below))
			return false;
		tle = makeTargetEntry(copyObject(below), number, psprintf("column%d", number), false);
		tle->ressortgroupref = clause->tleSortGroupRef = number;
		first->targetList = lappend(first->targetList, tle);
		first->groupClause = lappend(first->groupClause, clause);
		steps->keys = lappend(steps->keys, above);
		steps->refs = lappend_int(steps->refs, lfirst_node(SortGroupClause, lc)->tleSortGroupRef);
	}
	return steps->keys != NIL;
}

/* Moves all up to the grouping into a sub-select. */
static void
read_first(Query *query, Steps *steps)
{
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *rtable = list_make1(rf_subselect_relation(steps->first, "grouped"));

	steps->first->hasAggs = list_length(steps->first->targetList) > list_length(steps->keys);
#if PG_VERSION_NUM >= 180000
	if (steps->group_relation != 0)
	{
		RangeTblEntry *group = rt_fetch(steps->group_relation, query->rtable);
		ListCell   *lc;

		foreach(lc, group->groupexprs)
			lfirst(lc) = first_column(steps, lfirst(lc));
		rtable = lappend(rtable, group);
		if (steps->group_relation != GROUP_RELATION)
		{
			ChangeVarNodes((Node *) query->targetList, steps->group_relation, GROUP_RELATION, 0);
			ChangeVarNodes(query->havingQual, steps->group_relation, GROUP_RELATION, 0);
		}
	}
#endif
	IncrementVarSublevelsUp((Node *) steps->first, 1, 1);
	query->rtable = rtable;
#if PG_VERSION_NUM >= 160000
	query->rteperminfos = NIL;
#endif
	ref->rtindex = FIRST_RELATION;
	query->jointree = makeFromExpr(list_make1(ref), NULL);
	query->cteList = NIL;
	query->hasRecursive = query->hasSubLinks = false;
}

/*
 * Changes the query to group in two steps: by all columns first, and its groups by the grouping
 * sets. Returns false, with the query unchanged, if that is not possible.
 */
static bool
group_in_steps(Query *query)
{
	Steps		steps = {0};
	List	   *tlist;
	Node	   *having;

	if (query->commandType != CMD_SELECT || query->groupingSets == NIL ||
		query->setOperations != NULL || query->hasTargetSRFs || query->hasModifyingCTE ||
		query->rowMarks != NIL || query->jointree->fromlist == NIL ||
		rf_has_sublinks((Node *) query->windowClause) || rf_has_sublinks(query->limitCount) ||
		rf_has_sublinks(query->limitOffset) || !make_first(query, &steps))
		return false;
	tlist = (List *) above_mutator((Node *) query->targetList, &steps);
	having = above_mutator(query->havingQual, &steps);
	if (steps.failed)
		return false;
	query->targetList = tlist;
	query->havingQual = having;
	read_first(query, &steps);
	return true;
}

static bool
group_walker(Node *node, int *count)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		(void) query_tree_walker((Query *) node, group_walker, count, 0);
		*count += group_in_steps((Query *) node);
		return false;
	}
	return expression_tree_walker(node, group_walker, count);
}

int
rf_group_in_steps(Query *statement)
{
	int			count = 0;

	(void) group_walker((Node *) statement, &count);
	return count;
}
