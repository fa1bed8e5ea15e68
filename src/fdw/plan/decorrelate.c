/*
 * decorrelate.c
 *		Correlated aggregates become joins, so that data nodes can compute them.
 *
 *		SELECT ... FROM o WHERE o.x < (SELECT avg(i.y) FROM i WHERE i.k = o.k AND i.z > 5)
 * is run by core row by row: here one statement to all nodes for every row of o. It means the same as
 *		SELECT ... FROM o LEFT JOIN (SELECT i.k, avg(i.y) AS value FROM i WHERE i.z > 5 GROUP BY i.k) s
 *			ON s.k = o.k WHERE o.x < s.value
 * as there is at most one group for each row of o: the equality must be of the btree family that the
 * grouping uses. Where there is none the aggregate of no rows takes its place: NULL of most, 0 of
 * count(). The planner makes an inner join of it where NULL would fail.
 *
 * If conditions thin out the tables that the correlated columns come from, most groups are not
 * wanted. Then the sub-select reads only what has a partner among their rows:
 *		... WHERE i.z > 5 AND EXISTS (SELECT FROM o WHERE i.k = o.k AND <conditions on o>)
 *
 * A sub-select in ON is joined to the side that it depends on, which keeps that side's rows as they are;
 * one above a grouping (in HAVING, or the SELECT list) below it, and its aggregates are grouped by as well:
 * they are the same in all rows of a group, as what it depends on is grouped by.
 *
 * Which of these is the cheapest only the planner can say, so it plans all of them. What the
 * sub-select makes of its aggregates is evaluated after the join, for the rows for which it was before;
 * conditions and arguments of aggregates may be evaluated for more rows, as with any join.
 *
 * Papers: Kim: On Optimizing an SQL-like Nested Query (TODS 1982), with the outer join that count()
 * needs by Ganski and Wong (SIGMOD 1987); the reduction is the magic set of Seshadri, Pirahesh,
 * Leung: Complex Query Decorrelation (ICDE 1996).
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_class.h"
#include "access/transam.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parse_clause.h"
#include "parser/parse_oper.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "rdma_fdw/guc.h"

#include "plan.h"

static planner_hook_type previous_planner = NULL;

/* An equality that correlates. */
typedef struct Correlation
{
	OpExpr	   *op;				/* as it was in the sub-select */
	int			inside;			/* which of its arguments is the sub-select's, 0 or 1 */
	Expr	   *outer;			/* the other, in terms of the query around it */
} Correlation;

typedef struct RewriteContext
{
	int			depth;			/* of the query in the statement */
	bool		reduce;			/* read only rows that have a partner */
	Query	   *query;			/* whose sub-selects are dealt with */
	List	   *conditions;		/* its WHERE, before that; NIL in ON */
	JoinExpr   *join;			/* in the ON of this; NULL: elsewhere */
	bool		grouped;		/* above the grouping */
	List	   *group_values;	/* Vars to group by, too */
	int			joined;			/* sub-selects that have become joins */
	int			reduced;		/* those of them that are reduced */
} RewriteContext;

/* ---------- which queries qualify ---------- */

/* Every table in it is one of the same server with nodes, which goes to *server. */
static bool
reads_nodes_only(Node *node, Oid *server)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;
		ForeignTable *table;

		if (rte->rtekind == RTE_JOIN || rte->rtekind == RTE_SUBQUERY)
			return false;
		if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_FOREIGN_TABLE ||
			rte->tablesample != NULL || rte->securityQuals != NIL)
			return true;
		table = GetForeignTable(rte->relid);
		if (!OidIsValid(*server) && rf_server_nodes(GetForeignServer(table->serverid)) != NIL)
			*server = table->serverid;
		return table->serverid != *server;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_nodes_only, server, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_nodes_only, server);
}

/* Does it refer to a query that is more than `levels` above it? */
static bool
looks_beyond(Node *node, int levels, int depth)
{
	for (int level = levels + 1; level <= depth; level++)
	{
		if (contain_vars_of_level(node, level) || contain_aggs_of_level(node, level))
			return true;
	}
	return false;
}

static bool
has_sublinks_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	return IsA(node, SubLink) || expression_tree_walker(node, has_sublinks_walker, unused);
}

static void
collect_conjuncts(Node *quals, List **conjuncts)
{
	ListCell   *lc;

	if (quals == NULL)
		return;
	if (IsA(quals, List))
	{
		foreach(lc, (List *) quals)
			collect_conjuncts(lfirst(lc), conjuncts);
	}
	else if (is_andclause(quals))
	{
		foreach(lc, ((BoolExpr *) quals)->args)
			collect_conjuncts(lfirst(lc), conjuncts);
	}
	else
		*conjuncts = lappend(*conjuncts, quals);
}

static Node *
and_of(List *conjuncts)
{
	if (list_length(conjuncts) <= 1)
		return conjuncts == NIL ? NULL : linitial(conjuncts);
	return (Node *) makeBoolExpr(AND_EXPR, conjuncts, -1);
}

/* ---------- the aggregate of no rows ---------- */

/*
 * Without a final function it is the initial state. Of built-in ones with a final function it is
 * NULL, but hypothetical sets.
 */
static Node *
aggregate_of_nothing(Aggref *agg)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(agg->aggfnoid));
	Form_pg_aggregate form;
	Node	   *result = NULL;
	Datum		initial;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", agg->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	initial = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &isnull);
	if (AGGKIND_IS_ORDERED_SET(form->aggkind))
		result = NULL;
	else if (OidIsValid(form->aggfinalfn) ? agg->aggfnoid < FirstGenbkiObjectId : isnull)
		result = (Node *) makeNullConst(agg->aggtype, -1, agg->aggcollid);
	else if (!OidIsValid(form->aggfinalfn) && form->aggtranstype == agg->aggtype)
	{
		Oid			input;
		Oid			param;
		int16		length;
		bool		byval;

		getTypeInputInfo(agg->aggtype, &input, &param);
		get_typlenbyval(agg->aggtype, &length, &byval);
		result = (Node *) makeConst(agg->aggtype, -1, agg->aggcollid, length,
									OidInputFunctionCall(input, TextDatumGetCString(initial), param, -1),
									false, byval);
	}
	ReleaseSysCache(tuple);
	return result;
}

/* The aggregates of an expression, each once; true: there is something that is not to be taken apart. */
static bool
collect_aggregates_walker(Node *node, List **aggregates)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		if (aggregate_of_nothing((Aggref *) node) == NULL)
			return true;
		*aggregates = list_append_unique(*aggregates, node);
		return false;
	}
	if (IsA(node, GroupingFunc) || IsA(node, SubLink))
		return true;
	return expression_tree_walker(node, collect_aggregates_walker, aggregates);
}

/* ---------- the sub-select ---------- */

/* An equality of one of its own expressions and one of the query around, fit to group by. */
static Correlation *
make_correlation(OpExpr *op, int depth)
{
	Correlation *result = palloc(sizeof(Correlation));
	Node	   *inner;
	Node	   *outer;
	TypeCacheEntry *type;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || op->opretset ||
		has_sublinks_walker((Node *) op, NULL))
		return NULL;
	result->op = op;
	result->inside = contain_vars_of_level(linitial(op->args), 0) ? 0 : 1;
	inner = list_nth(op->args, result->inside);
	outer = list_nth(op->args, 1 - result->inside);
	if (!contain_vars_of_level(inner, 0) || looks_beyond(inner, 0, depth) ||
		contain_vars_of_level(outer, 0) || !contain_vars_of_level(outer, 1) || looks_beyond(outer, 1, depth) ||
		contain_aggs_of_level(outer, 1))
		return NULL;

	type = lookup_type_cache(exprType(inner), TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR | TYPECACHE_BTREE_OPFAMILY);
	if (!OidIsValid(type->btree_opf) || !OidIsValid(type->eq_opr) || !OidIsValid(type->lt_opr) ||
		get_op_opfamily_strategy(op->opno, type->btree_opf) != BTEqualStrategyNumber ||
		!op_strict(op->opno))
		return NULL;
	/* two collations may not agree on what is equal */
	if ((OidIsValid(op->inputcollid) && !get_collation_isdeterministic(op->inputcollid)) ||
		(OidIsValid(exprCollation(inner)) && !get_collation_isdeterministic(exprCollation(inner))))
		return NULL;

	result->outer = copyObject((Expr *) outer);
	IncrementVarSublevelsUp((Node *) result->outer, -1, 1);
	return result;
}

/*
 * Removes the correlated conditions from its WHERE: equalities, and conditions on the outer query
 * alone (in its terms), without which there are no rows.
 */
static bool
take_correlations(Query *sub, int depth, List **correlations, List **conditions)
{
	List	   *conjuncts = NIL;
	List	   *rest = NIL;
	ListCell   *lc;

	collect_conjuncts(sub->jointree->quals, &conjuncts);
	foreach(lc, conjuncts)
	{
		Node	   *clause = lfirst(lc);

		if (!contain_vars_of_level(clause, 1))
			rest = lappend(rest, clause);
		else if (contain_vars_of_level(clause, 0))
		{
			Correlation *correlation = make_correlation((OpExpr *) clause, depth);

			if (correlation == NULL)
				return false;
			*correlations = lappend(*correlations, correlation);
		}
		else
		{
			if (has_sublinks_walker(clause, NULL) || looks_beyond(clause, 1, depth) ||
				contain_aggs_of_level(clause, 1))
				return false;
			clause = copyObject(clause);
			IncrementVarSublevelsUp(clause, -1, 1);
			*conditions = lappend(*conditions, clause);
		}
	}
	sub->jointree->quals = and_of(rest);
	return *correlations != NIL;
}

static bool
is_plain_aggregate(Query *sub)
{
	return sub->commandType == CMD_SELECT && sub->hasAggs && sub->groupClause == NIL &&
		sub->groupingSets == NIL && sub->havingQual == NULL && !sub->hasWindowFuncs &&
		!sub->hasTargetSRFs && sub->distinctClause == NIL && sub->sortClause == NIL &&
		sub->limitCount == NULL && sub->limitOffset == NULL && sub->setOperations == NULL &&
		sub->rowMarks == NIL && sub->cteList == NIL && sub->jointree->fromlist != NIL &&
		list_length(sub->targetList) == 1;
}

/* ---------- reduction to rows that have a partner ---------- */

static bool
forget_joins_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
#if PG_VERSION_NUM >= 160000
	/* an outer join above the table there is none around its copy */
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == 0)
		((Var *) node)->varnullingrels = NULL;
#endif
	return expression_tree_walker(node, forget_joins_walker, unused);
}

/* A condition on these tables only that can stand with copies of them in EXISTS in a sub-select. */
static bool
is_condition_on(Node *clause, Bitmapset *tables, int depth, Oid server)
{
	Relids		relids = pull_varnos_of_level(NULL, clause, 0);

	if (bms_is_empty(relids) || !bms_is_subset(relids, tables) || looks_beyond(clause, 0, depth) ||
		contain_volatile_functions(clause))
		return false;
	if (!has_sublinks_walker(clause, NULL))
		return true;
	/* those become semi joins */
	return IsA(clause, SubLink) &&
		(((SubLink *) clause)->subLinkType == ANY_SUBLINK || ((SubLink *) clause)->subLinkType == EXISTS_SUBLINK) &&
		!reads_nodes_only(((SubLink *) clause)->subselect, &server);
}

/* EXISTS (SELECT FROM tables WHERE correlations AND conditions); NULL: it would keep all rows. */
static Node *
partner_exists(RewriteContext *cxt, List *correlations, Oid server)
{
	Query	   *exists = makeNode(Query);
	SubLink    *sublink = makeNode(SubLink);
	Bitmapset  *tables = NULL;
	List	   *conjuncts = NIL;
	List	   *from = NIL;
	int			member = -1;
	ListCell   *lc;

	foreach(lc, correlations)
	{
		Node	   *outer = (Node *) ((Correlation *) lfirst(lc))->outer;
		Var		   *var;

		while (IsA(outer, RelabelType))
			outer = (Node *) ((RelabelType *) outer)->arg;
		/* an expression of a row that an outer join made of NULLs may be anything */
		var = (Var *) outer;
		if (!IsA(var, Var) || var->varattno <= 0 ||
			reads_nodes_only((Node *) rt_fetch(var->varno, cxt->query->rtable), &server) ||
			rt_fetch(var->varno, cxt->query->rtable)->rtekind != RTE_RELATION)
			return NULL;
		tables = bms_add_member(tables, var->varno);
	}
	foreach(lc, cxt->conditions)
	{
		if (is_condition_on(lfirst(lc), tables, cxt->depth, server))
			conjuncts = lappend(conjuncts, copyObject(lfirst(lc)));
	}
	if (conjuncts == NIL)
		return NULL;

	foreach(lc, correlations)
	{
		Correlation *correlation = (Correlation *) lfirst(lc);
		OpExpr	   *op = copyObject(correlation->op);

		IncrementVarSublevelsUp(list_nth(op->args, correlation->inside), 1, 0);
		list_nth_cell(op->args, 1 - correlation->inside)->ptr_value = copyObject(correlation->outer);
		conjuncts = lappend(conjuncts, op);
	}
	/* numbers become smaller or stay, in this order none is taken for another */
	while ((member = bms_next_member(tables, member)) >= 0)
	{
		RangeTblEntry *rte = copyObject(rt_fetch(member, cxt->query->rtable));
		RangeTblRef *ref = makeNode(RangeTblRef);

#if PG_VERSION_NUM >= 160000
		if (rte->perminfoindex != 0)
		{
			RTEPermissionInfo *permissions = getRTEPermissionInfo(cxt->query->rteperminfos, rte);

			exists->rteperminfos = lappend(exists->rteperminfos, copyObject(permissions));
			rte->perminfoindex = list_length(exists->rteperminfos);
		}
#endif
		exists->rtable = lappend(exists->rtable, rte);
		ref->rtindex = list_length(exists->rtable);
		from = lappend(from, ref);
		ChangeVarNodes((Node *) conjuncts, member, ref->rtindex, 0);
	}
	(void) forget_joins_walker((Node *) conjuncts, NULL);

	exists->commandType = CMD_SELECT;
	exists->querySource = QSRC_ORIGINAL;
	exists->canSetTag = true;
	exists->jointree = makeFromExpr(from, and_of(conjuncts));
	exists->hasSubLinks = has_sublinks_walker((Node *) conjuncts, NULL);
	sublink->subLinkType = EXISTS_SUBLINK;
	sublink->subselect = (Node *) exists;
	sublink->location = -1;
	return (Node *) sublink;
}

/* ---------- the join ---------- */

/* Makes it a sub-select that gives a row per group: the keys, and the aggregates. */
static void
group_by_correlations(Query *sub, List *correlations, List *aggregates)
{
	List	   *tlist = NIL;
	ListCell   *lc;

	foreach(lc, correlations)
	{
		Correlation *correlation = (Correlation *) lfirst(lc);
		Expr	   *inner = list_nth(correlation->op->args, correlation->inside);
		int			number = foreach_current_index(lc) + 1;
		TargetEntry *tle = makeTargetEntry(copyObject(inner), number, psprintf("key%d", number), false);
		SortGroupClause *group = makeNode(SortGroupClause);

		tle->ressortgroupref = group->tleSortGroupRef = number;
		get_sort_group_operators(exprType((Node *) inner), true, true, false, &group->sortop, &group->eqop,
								 NULL, &group->hashable);
		tlist = lappend(tlist, tle);
		sub->groupClause = lappend(sub->groupClause, group);
	}
	foreach(lc, aggregates)
	{
		int			number = list_length(tlist) + 1;

		tlist = lappend(tlist, makeTargetEntry(lfirst(lc), number, psprintf("value%d", foreach_current_index(lc) + 1), false));
	}
	sub->targetList = tlist;
}

static Var *
joined_column(Query *sub, Index relid, Index join, int number)
{
	TargetEntry *tle = list_nth_node(TargetEntry, sub->targetList, number - 1);
	Var		   *var = makeVar(relid, number, exprType((Node *) tle->expr), exprTypmod((Node *) tle->expr),
							  exprCollation((Node *) tle->expr), 0);

#if PG_VERSION_NUM >= 160000
	if (join != 0)
		var->varnullingrels = bms_make_singleton(join);
#endif
	return var;
}

/*
 * LEFT JOIN it to a part of FROM, or (NULL) to all that the query reads so far; returns the numbers of its
 * relation and the join.
 */
static void
join_subselect(RewriteContext *cxt, Node **part, Query *sub, List *correlations, List *conditions,
			   Index *relid, Index *joinid)
{
	Query	   *query = cxt->query;
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblEntry *join_rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	JoinExpr   *join = makeNode(JoinExpr);
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, sub->targetList)
		names = lappend(names, makeString(pstrdup(lfirst_node(TargetEntry, lc)->resname)));
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = sub;
	rte->eref = makeAlias("subselect", names);
	rte->inFromCl = true;
	query->rtable = lappend(query->rtable, rte);
	ref->rtindex = *relid = list_length(query->rtable);

	join_rte->rtekind = RTE_JOIN;
	join_rte->jointype = JOIN_LEFT;
	join_rte->eref = makeAlias("unnamed_join", NIL);
	join_rte->inFromCl = true;
	query->rtable = lappend(query->rtable, join_rte);
	join->rtindex = *joinid = list_length(query->rtable);

	join->jointype = JOIN_LEFT;
	if (part != NULL)
		join->larg = *part;
	else
		join->larg = list_length(query->jointree->fromlist) == 1 ? linitial(query->jointree->fromlist) :
			(Node *) makeFromExpr(query->jointree->fromlist, NULL);
	join->rarg = (Node *) ref;
	foreach(lc, correlations)
	{
		Correlation *correlation = (Correlation *) lfirst(lc);
		OpExpr	   *op = copyObject(correlation->op);

		list_nth_cell(op->args, correlation->inside)->ptr_value =
			joined_column(sub, *relid, 0, foreach_current_index(lc) + 1);
		list_nth_cell(op->args, 1 - correlation->inside)->ptr_value = correlation->outer;
		conditions = lappend(conditions, op);
	}
	join->quals = and_of(conditions);
	if (part != NULL)
		*part = (Node *) join;
	else
		query->jointree->fromlist = list_make1(join);
}

static Relids
relations_of(Node *part)
{
	Relids		relids = NULL;
	ListCell   *lc;

	if (IsA(part, RangeTblRef))
		return bms_make_singleton(((RangeTblRef *) part)->rtindex);
	if (IsA(part, JoinExpr))
		return bms_add_member(bms_union(relations_of(((JoinExpr *) part)->larg), relations_of(((JoinExpr *) part)->rarg)),
							  ((JoinExpr *) part)->rtindex);
	foreach(lc, castNode(FromExpr, part)->fromlist)
		relids = bms_add_members(relids, relations_of(lfirst(lc)));
	return relids;
}

/* The side of a join that all of it depends on, or NULL. */
static Node **
side_of(JoinExpr *join, List *correlations, List *conditions)
{
	Relids		relids = pull_varnos(NULL, (Node *) conditions);
	ListCell   *lc;

	foreach(lc, correlations)
		relids = bms_add_members(relids, pull_varnos(NULL, (Node *) ((Correlation *) lfirst(lc))->outer));
	if (bms_is_subset(relids, relations_of(join->larg)))
		return &join->larg;
	return bms_is_subset(relids, relations_of(join->rarg)) ? &join->rarg : NULL;
}

/*
 * Are the columns that it depends on the same in all rows of a group, and can its aggregates be
 * grouped by? The grouping's equality must be of the same family as the correlation's.
 */
static bool
depends_on_group(Query *query, List *correlations, List *conditions, List *aggregates)
{
	ListCell   *lc;

	if (conditions != NIL)
		return false;
	foreach(lc, correlations)
	{
		Correlation *correlation = (Correlation *) lfirst(lc);
		Node	   *inner = list_nth(correlation->op->args, correlation->inside);
		Oid			family = lookup_type_cache(exprType(inner), TYPECACHE_BTREE_OPFAMILY)->btree_opf;
		bool		found = false;
		ListCell   *group;

		foreach(group, query->groupClause)
		{
			SortGroupClause *clause = lfirst_node(SortGroupClause, group);

			found |= equal(get_sortgroupclause_expr(clause, query->targetList), correlation->outer) &&
				get_op_opfamily_strategy(clause->eqop, family) == BTEqualStrategyNumber;
		}
		if (!found)
			return false;
	}
	foreach(lc, aggregates)
	{
		TypeCacheEntry *type = lookup_type_cache(exprType(lfirst(lc)), TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR);

		if (!OidIsValid(type->eq_opr) || !OidIsValid(type->lt_opr))
			return false;
	}
	return true;
}

/* The results of sub-selects above the grouping are grouping columns. */
static void
group_by_values(Query *query, List *values)
{
	ListCell   *lc;

	foreach(lc, values)
	{
		Var		   *var = lfirst_node(Var, lc);
		TargetEntry *tle = makeTargetEntry((Expr *) var, list_length(query->targetList) + 1, NULL, true);
		SortGroupClause *group = makeNode(SortGroupClause);

		query->targetList = lappend(query->targetList, tle);
		group->tleSortGroupRef = assignSortGroupRef(tle, query->targetList);
		get_sort_group_operators(var->vartype, true, true, false, &group->sortop, &group->eqop, NULL, &group->hashable);
		query->groupClause = lappend(query->groupClause, group);
	}
}

/* What the sub-select gave, of what its aggregates are after the join. */
typedef struct ValueContext
{
	Query	   *sub;
	Index		relid;			/* its number in the query, and that of the join */
	Index		joinid;
	List	   *aggregates;
} ValueContext;

static Node *
value_mutator(Node *node, ValueContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref))
	{
		int			keys = list_length(cxt->sub->targetList) - list_length(cxt->aggregates);
		Node	   *nothing = aggregate_of_nothing((Aggref *) node);
		Var		   *value;
		NullTest   *unmatched;
		CaseWhen   *when;
		CaseExpr   *result;
		int			place = 0;

		while (!equal(list_nth(cxt->aggregates, place), node))
			place++;
		value = joined_column(cxt->sub, cxt->relid, cxt->joinid, keys + place + 1);
		if (((Const *) nothing)->constisnull)
			return (Node *) value;

		/* a key that has met its equal is not NULL */
		unmatched = makeNode(NullTest);
		unmatched->arg = (Expr *) joined_column(cxt->sub, cxt->relid, cxt->joinid, 1);
		unmatched->nulltesttype = IS_NULL;
		unmatched->location = -1;
		when = makeNode(CaseWhen);
		when->expr = (Expr *) unmatched;
		when->result = (Expr *) nothing;
		when->location = -1;
		result = makeNode(CaseExpr);
		result->casetype = value->vartype;
		result->casecollid = value->varcollid;
		result->args = list_make1(when);
		result->defresult = (Expr *) value;
		result->location = -1;
		return (Node *) result;
	}
	return expression_tree_mutator(node, value_mutator, cxt);
}

/* The replacement of the sub-select in an expression; NULL: it stays. */
static Node *
replace_sublink(RewriteContext *cxt, SubLink *sublink)
{
	Query	   *sub = (Query *) sublink->subselect;
	int			depth = cxt->depth + 1;
	List	   *correlations = NIL;
	List	   *conditions = NIL;
	Oid			server = InvalidOid;
	ValueContext value = {0};
	Node	  **part = NULL;
	Node	   *expr;

	if (sublink->subLinkType != EXPR_SUBLINK || !IsA(sub, Query) || !is_plain_aggregate(sub) ||
		contain_volatile_functions((Node *) sub) || reads_nodes_only((Node *) sub, &server) || !OidIsValid(server))
		return NULL;
	value.sub = sub = copyObject(sub);
	expr = (Node *) linitial_node(TargetEntry, sub->targetList)->expr;
	if (collect_aggregates_walker(expr, &value.aggregates) || looks_beyond(expr, 1, depth) ||
		contain_aggs_of_level(expr, 1) ||
		!take_correlations(sub, depth, &correlations, &conditions) ||
		looks_beyond((Node *) sub->jointree, 0, depth) || looks_beyond((Node *) value.aggregates, 0, depth))
		return NULL;
	sub->targetList = NIL;
	if (looks_beyond((Node *) sub, 0, depth))
		return NULL;
	if (cxt->join != NULL && (part = side_of(cxt->join, correlations, conditions)) == NULL)
		return NULL;
	if (cxt->grouped && !depends_on_group(cxt->query, correlations, conditions, value.aggregates))
		return NULL;

	if (cxt->reduce)
	{
		Node	   *exists = partner_exists(cxt, correlations, server);

		if (exists != NULL)
		{
			sub->jointree->quals = make_and_qual(sub->jointree->quals, exists);
			sub->hasSubLinks = true;
			cxt->reduced++;
		}
	}
	group_by_correlations(sub, correlations, value.aggregates);
	join_subselect(cxt, part, sub, correlations, conditions, &value.relid, &value.joinid);
	cxt->joined++;

	/* It is evaluated as before, for the same rows: only the aggregates may be for more of them. */
	IncrementVarSublevelsUp(expr, -1, 1);
	expr = value_mutator(expr, &value);
	if (cxt->grouped)
	{
		ListCell   *lc;

		foreach(lc, pull_var_clause(expr, 0))
		{
			if (lfirst_node(Var, lc)->varno == value.relid)
				cxt->group_values = list_append_unique(cxt->group_values, lfirst(lc));
		}
	}
	return expr;
}

static Node *
replace_mutator(Node *node, RewriteContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, SubLink))
	{
		Node	   *replacement = replace_sublink(cxt, (SubLink *) node);

		if (replacement != NULL)
			return replacement;
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

/* Those in ON. A FULL JOIN takes no conditions but on both sides. */
static void
replace_in_joins(Node *part, RewriteContext *cxt)
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
		join->quals = replace_mutator(join->quals, cxt);
		cxt->join = NULL;
	}
}

/* ---------- the statement ---------- */

static bool decorrelate_walker(Node *node, RewriteContext *cxt);

/* The sub-selects of one query, after those inside of them. */
static void
decorrelate_query(Query *query, RewriteContext *around)
{
	RewriteContext cxt = *around;

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
	if (!query->hasSubLinks || query->commandType != CMD_SELECT || query->jointree->fromlist == NIL ||
		query->rowMarks != NIL || query->setOperations != NULL)
		return;

	cxt.query = query;
	cxt.conditions = NIL;
	cxt.join = NULL;
	cxt.grouped = false;
	cxt.group_values = NIL;
	replace_in_joins((Node *) query->jointree, &cxt);
	collect_conjuncts(copyObject(query->jointree->quals), &cxt.conditions);
	query->jointree->quals = replace_mutator(query->jointree->quals, &cxt);
	/* columns that are NULL in some grouping sets have a value below */
	if (query->groupingSets == NIL)
	{
		cxt.grouped = query->hasAggs || query->groupClause != NIL || query->havingQual != NULL;
		query->havingQual = replace_mutator(query->havingQual, &cxt);
		query->targetList = (List *) replace_mutator((Node *) query->targetList, &cxt);
		group_by_values(query, cxt.group_values);
	}
	around->joined = cxt.joined;
	around->reduced = cxt.reduced;
}

static bool
decorrelate_walker(Node *node, RewriteContext *cxt)
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

/* Has the statement sub-selects in expressions? This costs next to nothing for all others. */
static bool
has_sublinks(Query *query)
{
	ListCell   *lc;

	if (query->hasSubLinks)
		return true;
	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY && has_sublinks(rte->subquery))
			return true;
	}
	foreach(lc, query->cteList)
	{
		if (has_sublinks((Query *) lfirst_node(CommonTableExpr, lc)->ctequery))
			return true;
	}
	return false;
}

/* An equality of both sides, by which the rows of a FULL JOIN can be matched. */
static bool
compares_sides(Node *clause, Relids left, Relids right)
{
	OpExpr	   *op = (OpExpr *) clause;
	Relids		first;
	Relids		second;

	if (!IsA(clause, OpExpr) || list_length(op->args) != 2 ||
		!(op_mergejoinable(op->opno, exprType(linitial(op->args))) || op_hashjoinable(op->opno, exprType(linitial(op->args)))))
		return false;
	first = pull_varnos(NULL, linitial(op->args));
	second = pull_varnos(NULL, lsecond(op->args));
	return !bms_is_empty(first) && !bms_is_empty(second) &&
		((bms_is_subset(first, left) && bms_is_subset(second, right)) ||
		 (bms_is_subset(first, right) && bms_is_subset(second, left)));
}

/*
 * A FULL JOIN with another condition can be planned only where the planner finds that it need not be one,
 * or that nothing is to be read. It may not find that for a statement with more joins.
 */
static bool
has_fragile_join(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_fragile_join, NULL, 0);
	if (IsA(node, JoinExpr) && ((JoinExpr *) node)->jointype == JOIN_FULL)
	{
		JoinExpr   *join = (JoinExpr *) node;
		Relids		left = relations_of(join->larg);
		Relids		right = relations_of(join->rarg);
		List	   *conjuncts = NIL;
		bool		found = false;
		ListCell   *lc;

		collect_conjuncts(join->quals, &conjuncts);
		foreach(lc, conjuncts)
			found |= compares_sides(lfirst(lc), left, right);
		if (!found)
			return true;
	}
	return expression_tree_walker(node, has_fragile_join, NULL);
}

static PlannedStmt *
plan_one(Query *query, const char *text, int options, ParamListInfo params)
{
	return previous_planner ? previous_planner(query, text, options, params) :
		standard_planner(query, text, options, params);
}

static PlannedStmt *
cheaper(PlannedStmt *a, PlannedStmt *b)
{
	return a == NULL || b->planTree->total_cost < a->planTree->total_cost ? b : a;
}

static PlannedStmt *
plan_statement(Query *query, const char *text, int options, ParamListInfo params)
{
	RewriteContext cxt = {0};
	RewriteContext reduced = {0};
	Query	   *joins;
	Query	   *reduced_joins = NULL;
	PlannedStmt *best = NULL;

	if (rf_decorrelate == RF_DECORRELATE_OFF || rf_push_down != RF_PUSH_DOWN_ALL ||
		!has_sublinks(query) || has_fragile_join((Node *) query, NULL))
		return plan_one(query, text, options, params);

	cxt.depth = reduced.depth = -1;
	joins = copyObject(query);
	decorrelate_query(joins, &cxt);
	if (cxt.joined == 0)
		return plan_one(query, text, options, params);
	reduced.reduce = true;
	reduced_joins = copyObject(query);
	decorrelate_query(reduced_joins, &reduced);

	/* the planner scribbles on its input */
	if (rf_decorrelate == RF_DECORRELATE_AUTO)
		best = plan_one(query, text, options, params);
	best = cheaper(best, plan_one(joins, text, options, params));
	if (reduced.reduced > 0)
		best = cheaper(best, plan_one(reduced_joins, text, options, params));
	return best;
}

void
rf_decorrelate_install_hook(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_statement;
}
