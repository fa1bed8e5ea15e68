/*
 * decorrelate.c
 *		Correlated sub-selects become joins, so that data nodes can compute them.
 *
 *		SELECT ... FROM o WHERE o.x < (SELECT avg(i.y) FROM i WHERE i.k = o.k AND i.z > 5)
 * is run by core row by row: here one statement to all nodes for every row of o. It means the same
 * as
 *		SELECT ... FROM o LEFT JOIN
 *			(SELECT i.k, avg(i.y) AS value FROM i WHERE i.z > 5 GROUP BY i.k) s
 *			ON s.k = o.k WHERE o.x < s.value
 * as there is at most one group for each row of o: the equality must be of the btree family that
 * the grouping uses. For rows without a group the aggregate of no rows takes its place: NULL of
 * most, 0 of count(). The planner makes an inner join of it where NULL would fail.
 *
 * If conditions thin out the tables that the correlated columns come from, most groups are not
 * wanted. Then the sub-select reads only rows with a partner among their rows:
 *		... WHERE i.z > 5 AND EXISTS (SELECT FROM o WHERE i.k = o.k AND <conditions on o>)
 *
 * A sub-select in ON is joined to the side that it depends on, which keeps that side's rows as they
 * are; a sub-select above a grouping (in HAVING, or the SELECT list) below it, and its aggregates
 * are grouped by as well: they are the same in all rows of a group, as its outer columns are
 * grouped by.
 *
 * decorrelate_exists.c does the same for EXISTS, IN and NOT IN, and decorrelate_rows.c for
 * conditions that compare rows of both queries in other ways.
 *
 * Which of these is the cheapest only the planner can say, so it plans all of them. Expressions of
 * its aggregates are evaluated after the join, for the same rows as before; conditions and
 * arguments of aggregates may be evaluated for more rows, as with any join.
 *
 * Papers: Kim: On Optimizing an SQL-like Nested Query (TODS 1982), with the outer join that count()
 * needs by Ganski and Wong (SIGMOD 1987); the reduction is the magic set of Seshadri, Pirahesh,
 * Leung: Complex Query Decorrelation (ICDE 1996).
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parse_clause.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "forms.h"
#include "plan.h"

/* ---------- the sub-selects of one query ---------- */

/* The results of sub-selects above the grouping are grouping columns. */
static void
group_by_values(Query *query, List *values)
{
	ListCell   *lc;

	foreach(lc, values)
	{
		Var		   *var = lfirst_node(Var, lc);
		TargetEntry *tle = makeTargetEntry((Expr *) var, list_length(query->targetList) + 1, NULL,
										   true);
		SortGroupClause *group = makeNode(SortGroupClause);

		query->targetList = lappend(query->targetList, tle);
		group->tleSortGroupRef = assignSortGroupRef(tle, query->targetList);
		get_sort_group_operators(var->vartype, true, true, false, &group->sortop, &group->eqop,
								 NULL, &group->hashable);
		query->groupClause = lappend(query->groupClause, group);
	}
}

/*
 * NOT of the replacement of EXISTS: that a column of an outer join IS NOT NULL. The planner expects
 * that such a column is hardly ever NULL, and so next to no rows. It knows nothing of whether a
 * truth value is distinct from false, and expects half of them, as of NOT EXISTS.
 */
static Node *
not_found(Node *found)
{
	DistinctExpr *result = makeNode(DistinctExpr);

	result->opno = BooleanEqualOperator;
	result->opfuncid = F_BOOLEQ;
	result->opresulttype = BOOLOID;
	result->args = list_make2(found, makeBoolConst(false, false));
	result->location = -1;
	return (Node *) make_notclause((Expr *) result);
}

static Node *
replace_mutator(Node *node, RfRewrite *cxt)
{
	if (node == NULL)
		return NULL;
	if (is_notclause(node) && IsA(get_notclausearg(node), SubLink))
	{
		Node	   *condition = replace_mutator((Node *) get_notclausearg(node), cxt);

		return IsA(condition, NullTest) ? not_found(condition) :
			(Node *) make_notclause((Expr *) condition);
	}
	if (IsA(node, SubLink))
	{
		Node	   *replacement = rf_replace_sublink(cxt, (SubLink *) node, false);

		if (replacement != NULL)
			return replacement;
		if (((SubLink *) node)->subLinkType == EXISTS_SUBLINK &&
			(replacement = rf_exists_once((SubLink *) node)) != NULL)
		{
			cxt->joined++;
			return replacement;
		}
	}
	/* its sub-selects have had their turn */
	if (IsA(node, Query))
		return node;
	/* arguments of aggregates are below the grouping */
	if (IsA(node, Aggref) && cxt->grouped)
	{
		cxt->grouped = false;
		node = expression_tree_mutator(node, replace_mutator, cxt);
		cxt->grouped = true;
		return node;
	}
	return expression_tree_mutator(node, replace_mutator, cxt);
}

/*
 * Those in a condition, of which NULL is as good as false. The planner makes semi joins of EXISTS
 * and IN, and anti joins of NOT EXISTS, where they are `conjuncts` of WHERE and ON, but not of IN
 * with a sub-select that refers to the query around it, nor of NOT IN.
 */
static Node *
replace_in_condition(Node *node, RfRewrite *cxt, bool conjuncts)
{
	Node	   *replacement = NULL;

	if (node == NULL)
		return NULL;
	if (IsA(node, List) || is_andclause(node) || is_orclause(node))
	{
		List	   *args = IsA(node, List) ? (List *) node : ((BoolExpr *) node)->args;
		List	   *result = NIL;
		ListCell   *lc;

		foreach(lc, args)
			result = lappend(result, replace_in_condition(lfirst(lc), cxt,
														  conjuncts && !is_orclause(node)));
		return IsA(node, List) ? (Node *) result :
			(Node *) makeBoolExpr(((BoolExpr *) node)->boolop, result, -1);
	}
	if (is_notclause(node) && IsA(get_notclausearg(node), SubLink))
	{
		SubLink    *sublink = (SubLink *) get_notclausearg(node);

		if (sublink->subLinkType == EXISTS_SUBLINK && conjuncts &&
			contain_vars_of_level(sublink->subselect, 1))
		{
			replacement = rf_reduce_exists(cxt, sublink);
			return replacement == NULL ?
				node :
				(Node *) makeBoolExpr(NOT_EXPR, list_make1(replacement), -1);
		}
		if (sublink->subLinkType == ANY_SUBLINK &&
			(replacement = rf_exists_for_not_in(sublink)) != NULL)
		{
			cxt->joined++;
			return replace_in_condition(replacement, cxt, conjuncts);
		}
	}
	if (IsA(node, SubLink))
	{
		SubLink    *sublink = (SubLink *) node;
		bool		correlated = contain_vars_of_level(sublink->subselect, 1);

		if (conjuncts && (correlated || sublink->subLinkType == ANY_SUBLINK) &&
			(replacement = rf_reduce_exists(cxt, sublink)) != NULL)
			return replacement;
		if (sublink->subLinkType == EXISTS_SUBLINK && conjuncts && correlated)
			return node;
		if (sublink->subLinkType == ANY_SUBLINK && !conjuncts)
			replacement = rf_replace_sublink(cxt, sublink, true);
		else if (sublink->subLinkType == ANY_SUBLINK && correlated &&
				 (replacement = rf_exists_for_in(sublink)) != NULL)
			cxt->joined++;
		if (replacement != NULL)
			return replacement;
	}
	return replace_mutator(node, cxt);
}

/* Those in ON. A FULL JOIN takes no conditions but on both sides. */
static void
replace_in_joins(Node *part, RfRewrite *cxt)
{
	ListCell   *lc;

	if (IsA(part, FromExpr))
	{
		foreach(lc, ((FromExpr *) part)->fromlist)
			replace_in_joins(lfirst(lc), cxt);
	}
	else if (IsA(part, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) part;

		replace_in_joins(join->larg, cxt);
		replace_in_joins(join->rarg, cxt);
		if (join->jointype == JOIN_FULL || join->quals == NULL)
			return;
		cxt->join = join;
		join->quals = replace_in_condition(join->quals, cxt, true);
		cxt->join = NULL;
	}
}

static bool
has_outer_join(Node *node, void *unused)
{
	if (node == NULL || IsA(node, Query))
		return false;
	return (IsA(node, JoinExpr) && ((JoinExpr *) node)->jointype != JOIN_INNER) ||
		expression_tree_walker(node, has_outer_join, NULL);
}

/*
 * The conditions that hold for the rows of tables wherever they are in a row of the query:
 * conditions of WHERE and joins. An outer join has not asked about rows that it keeps, but about
 * the rows that it joins to them.
 */
static void
collect_conditions(Node *part, List **conditions)
{
	ListCell   *lc;

	if (IsA(part, FromExpr))
	{
		foreach(lc, ((FromExpr *) part)->fromlist)
			collect_conditions(lfirst(lc), conditions);
		rf_collect_conjuncts(((FromExpr *) part)->quals, conditions);
	}
	else if (IsA(part, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) part;
		List	   *asked = NIL;
		Relids		left;
		Relids		right;

		collect_conditions(join->larg, conditions);
		collect_conditions(join->rarg, conditions);
		rf_collect_conjuncts(join->quals, &asked);
		left = rf_relations_of(join->larg);
		right = rf_relations_of(join->rarg);
		foreach(lc, asked)
		{
			Relids		relids = pull_varnos(NULL, lfirst(lc));

			if ((join->jointype == JOIN_INNER || join->jointype == JOIN_RIGHT ||
				 bms_overlap(relids, right)) &&
				(join->jointype == JOIN_INNER || join->jointype == JOIN_LEFT ||
				 bms_overlap(relids, left)))
				*conditions = lappend(*conditions, lfirst(lc));
		}
	}
}

typedef struct Substitution
{
	Node	   *old;
	Node	   *new;
} Substitution;

static Node *
substitute_mutator(Node *node, Substitution *substitution)
{
	if (node == NULL || IsA(node, Query))
		return node;
	if (equal(node, substitution->old))
		return copyObject(substitution->new);
	return expression_tree_mutator(node, substitute_mutator, substitution);
}

/*
 * Columns that the query groups by are below the grouping; a column that equals one above it is
 * grouped by.
 */
static void
replace_in_groups(Query *query, RfRewrite *cxt)
{
	for (int i = 0; i < list_length(query->targetList); i++)
	{
		TargetEntry *tle = list_nth_node(TargetEntry, query->targetList, i);
		int			joined = cxt->joined;
		Substitution substitution;

		if (tle->ressortgroupref == 0 ||
			get_sortgroupref_clause_noerr(tle->ressortgroupref, query->groupClause) == NULL)
			continue;
		substitution.old = (Node *) tle->expr;
		substitution.new = replace_mutator(substitution.old, cxt);
		if (cxt->joined == joined)
			continue;
		query->targetList = (List *) substitute_mutator((Node *) query->targetList, &substitution);
		query->havingQual = substitute_mutator(query->havingQual, &substitution);
#if PG_VERSION_NUM >= 180000
		foreach_node(RangeTblEntry, rte, query->rtable)
			if (rte->rtekind == RTE_GROUP)
			rte->groupexprs = (List *) substitute_mutator((Node *) rte->groupexprs, &substitution);
#endif
	}
}

/* ---------- the statement ---------- */

static bool decorrelate_walker(Node *node, RfRewrite *cxt);

/*
 * UPDATE or DELETE of a table of nodes. A row that has changed since it was found is an error
 * there, as it is with any join; a table that is here would have it looked at again, with the
 * values of before.
 */
static bool
writes_nodes(Query *query)
{
	Oid			server = InvalidOid;

	return (query->commandType == CMD_UPDATE || query->commandType == CMD_DELETE) &&
		!rf_reads_others((Node *) rt_fetch(query->resultRelation, query->rtable), &server) &&
		OidIsValid(server);
}

/* The sub-selects of one query, after those inside of them. */
static void
decorrelate_query(Query *query, RfRewrite *around)
{
	RfRewrite	cxt = *around;
	List	   *conditions = NIL;
	bool		inner_joins;

	cxt.depth++;
#if PG_VERSION_NUM >= 180000
	/* grouping expressions instead of references to them */
	if (query->hasGroupRTE && query->hasSubLinks)
	{
		query->targetList = (List *) flatten_group_exprs(NULL, query, (Node *) query->targetList);
		query->havingQual = flatten_group_exprs(NULL, query, query->havingQual);
	}
#endif
	(void) query_tree_walker(query, decorrelate_walker, &cxt, 0);
	around->joined = cxt.joined;
	around->reduced = cxt.reduced;
	if (!query->hasSubLinks || !(query->commandType == CMD_SELECT || writes_nodes(query)) ||
		query->jointree->fromlist == NIL || query->rowMarks != NIL || query->setOperations != NULL)
		return;

	cxt.query = query;
	cxt.conditions = NIL;
	cxt.join = NULL;
	cxt.grouped = false;
	cxt.group_values = NIL;
	collect_conditions((Node *) query->jointree, &conditions);
	conditions = copyObject(conditions);
	inner_joins = !has_outer_join((Node *) query->jointree, NULL);
	replace_in_joins((Node *) query->jointree, &cxt);
	cxt.conditions = conditions;
	cxt.inner_joins = inner_joins;
	query->jointree->quals = replace_in_condition(query->jointree->quals, &cxt, true);
	/* columns that are NULL in some grouping sets have a value below */
	if (query->groupingSets == NIL)
	{
		replace_in_groups(query, &cxt);
		cxt.grouped = query->hasAggs || query->groupClause != NIL || query->havingQual != NULL;
		query->havingQual = replace_in_condition(query->havingQual, &cxt, false);
		query->targetList = (List *) replace_mutator((Node *) query->targetList, &cxt);
		group_by_values(query, cxt.group_values);
	}
	around->joined = cxt.joined;
	around->reduced = cxt.reduced;
}

static bool
decorrelate_walker(Node *node, RfRewrite *cxt)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		decorrelate_query((Query *) node, cxt);
		return false;
	}
	return expression_tree_walker(node, decorrelate_walker, cxt);
}

Query *
rf_decorrelated(const Query *statement, bool reduce, int *joined, int *reduced)
{
	Query	   *result = castNode(Query, copyObjectImpl(statement));
	RfRewrite	cxt = {0};

	cxt.depth = -1;
	cxt.reduce = reduce;
	decorrelate_query(result, &cxt);
	*joined = cxt.joined;
	*reduced = cxt.reduced;
	return result;
}
