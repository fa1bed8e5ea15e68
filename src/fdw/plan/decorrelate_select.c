/*
 * decorrelate_select.c
 * 	One sub-select in an expression becomes a grouped sub-select that is joined to the query; see
 * 	decorrelate.c for the reason.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "forms.h"

/* ---------- the aggregate of no rows ---------- */

/*
 * Without a final function it is the initial state. For built-in aggregates with a final function
 * it is NULL, except for hypothetical sets.
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
		result = (Node *) makeConst(
									agg->aggtype, -1, agg->aggcollid, length,
									OidInputFunctionCall(input, TextDatumGetCString(initial), param,
														 -1),
									false, byval);
	}
	ReleaseSysCache(tuple);
	return result;
}

/*
 * The aggregates of an expression, each once; true: there is something that is not to be taken
 * apart.
 */
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
static RfCorrelation *
make_correlation(OpExpr *op, int depth)
{
	RfCorrelation *result = palloc(sizeof(RfCorrelation));
	Node	   *inner;
	Node	   *outer;
	TypeCacheEntry *type;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || op->opretset ||
		rf_has_sublinks((Node *) op))
		return NULL;
	result->op = op;
	result->inside = contain_vars_of_level(linitial(op->args), 0) ? 0 : 1;
	inner = list_nth(op->args, result->inside);
	outer = list_nth(op->args, 1 - result->inside);
	if (!contain_vars_of_level(inner, 0) || rf_looks_beyond(inner, 0, depth) ||
		contain_vars_of_level(outer, 0) || !contain_vars_of_level(outer, 1) ||
		rf_looks_beyond(outer, 1, depth) || contain_aggs_of_level(outer, 1))
		return NULL;

	type = lookup_type_cache(exprType(inner),
							 TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR | TYPECACHE_BTREE_OPFAMILY);
	if (!OidIsValid(type->btree_opf) || !OidIsValid(type->eq_opr) || !OidIsValid(type->lt_opr) ||
		get_op_opfamily_strategy(op->opno, type->btree_opf) != BTEqualStrategyNumber ||
		!op_strict(op->opno) || type_is_rowtype(exprType(inner)))
		return NULL;
	/* two collations may not agree on equality */
	if ((OidIsValid(op->inputcollid) && !get_collation_isdeterministic(op->inputcollid)) ||
		(OidIsValid(exprCollation(inner)) && !get_collation_isdeterministic(exprCollation(inner))))
		return NULL;

	result->outer = copyObject((Expr *) outer);
	IncrementVarSublevelsUp((Node *) result->outer, -1, 1);
	return result;
}

/*
 * Removes the correlated conditions from its WHERE: equalities, conditions on the outer query alone
 * (in its terms), without which there are no rows, and other conditions on both, to which these
 * rows have to be brought.
 */
static bool
take_correlations(RfRewrite *cxt, Query *sub, Oid server, List **correlations, List **conditions,
				  bool *requested)
{
	int			depth = cxt->depth + 1;
	List	   *conjuncts = NIL;
	List	   *rest = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	rf_collect_conjuncts(sub->jointree->quals, &conjuncts);
	foreach(lc, conjuncts)
	{
		Node	   *clause = lfirst(lc);
		RfCorrelation *correlation;

		if (!contain_vars_of_level(clause, 1))
			rest = lappend(rest, clause);
		else if (contain_vars_of_level(clause, 0) &&
				 (correlation = make_correlation((OpExpr *) clause, depth)) != NULL)
			*correlations = lappend(*correlations, correlation);
		else if (rf_has_sublinks(clause) || rf_looks_beyond(clause, 1, depth) ||
				 contain_aggs_of_level(clause, 1))
			return false;
		else if (contain_vars_of_level(clause, 0))
			others = lappend(others, clause);
		else
		{
			clause = copyObject(clause);
			IncrementVarSublevelsUp(clause, -1, 1);
			*conditions = lappend(*conditions, clause);
		}
	}
	sub->jointree->quals = rf_and_of(rest);
	*requested = others != NIL;
	if (others == NIL)
		return *correlations != NIL;

	foreach(lc, *correlations)
		others = lappend(others, ((RfCorrelation *) lfirst(lc))->op);
	return rf_request_rows(cxt, sub, others, server, correlations);
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

/* ---------- the join ---------- */

/* Makes it a sub-select that gives a row per group: the keys, and the aggregates. */
static void
group_by_correlations(Query *sub, List *correlations, List *aggregates)
{
	List	   *tlist = NIL;
	ListCell   *lc;

	foreach(lc, correlations)
	{
		RfCorrelation *correlation = (RfCorrelation *) lfirst(lc);
		Expr	   *inner = list_nth(correlation->op->args, correlation->inside);
		int			number = foreach_current_index(lc) + 1;
		TargetEntry *tle = makeTargetEntry(copyObject(inner), number, psprintf("key%d", number),
										   false);
		SortGroupClause *group = makeNode(SortGroupClause);

		tle->ressortgroupref = group->tleSortGroupRef = number;
		get_sort_group_operators(exprType((Node *) inner), true, true, false, &group->sortop,
								 &group->eqop, NULL, &group->hashable);
		tlist = lappend(tlist, tle);
		sub->groupClause = lappend(sub->groupClause, group);
	}
	foreach(lc, aggregates)
	{
		int			number = list_length(tlist) + 1;

		tlist = lappend(tlist,
						makeTargetEntry(lfirst(lc), number,
										psprintf("value%d", foreach_current_index(lc) + 1), false));
	}
	sub->targetList = tlist;
}

static Var *
joined_column(Query *sub, Index relid, Index join, int number)
{
	TargetEntry *tle = list_nth_node(TargetEntry, sub->targetList, number - 1);
	Var		   *var = makeVar(relid, number, exprType((Node *) tle->expr),
							  exprTypmod((Node *) tle->expr), exprCollation((Node *) tle->expr), 0);

#if PG_VERSION_NUM >= 160000
	if (join != 0)
		var->varnullingrels = bms_make_singleton(join);
#endif
	return var;
}

/*
 * LEFT JOIN it to a part of FROM, or (NULL) to all that the query reads so far; returns the numbers
 * of its relation and the join.
 */
static void
join_subselect(RfRewrite *cxt, Node **part, Query *sub, List *correlations, List *conditions,
			   Index *relid, Index *joinid)
{
	Query	   *query = cxt->query;
	RangeTblEntry *join_rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	JoinExpr   *join = makeNode(JoinExpr);
	ListCell   *lc;

	query->rtable = lappend(query->rtable, rf_subselect_relation(sub, "subselect"));
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
		join->larg = list_length(query->jointree->fromlist) == 1 ?
			linitial(query->jointree->fromlist) :
			(Node *) makeFromExpr(query->jointree->fromlist, NULL);
	join->rarg = (Node *) ref;
	foreach(lc, correlations)
	{
		RfCorrelation *correlation = (RfCorrelation *) lfirst(lc);
		OpExpr	   *op = copyObject(correlation->op);

		list_nth_cell(op->args, correlation->inside)->ptr_value =
			joined_column(sub, *relid, 0, foreach_current_index(lc) + 1);
		list_nth_cell(op->args, 1 - correlation->inside)->ptr_value = correlation->outer;
		conditions = lappend(conditions, op);
	}
	join->quals = rf_and_of(conditions);
	if (part != NULL)
		*part = (Node *) join;
	else
		query->jointree->fromlist = list_make1(join);
}

/* The side of a join that all of it depends on, or NULL. */
static Node **
side_of(JoinExpr *join, List *correlations, List *conditions)
{
	Relids		relids = pull_varnos(NULL, (Node *) conditions);
	ListCell   *lc;

	foreach(lc, correlations)
		relids = bms_add_members(relids,
								 pull_varnos(NULL, (Node *) ((RfCorrelation *) lfirst(lc))->outer));
	if (bms_is_subset(relids, rf_relations_of(join->larg)))
		return &join->larg;
	return bms_is_subset(relids, rf_relations_of(join->rarg)) ? &join->rarg : NULL;
}

/*
 * Returns true if the columns that it depends on are the same in all rows of a group, and its
 * aggregates can be grouped by. The grouping's equality must be of the same family as the
 * correlation's.
 */
static bool
depends_on_group(Query *query, List *correlations, List *conditions, List *aggregates)
{
	ListCell   *lc;

	if (conditions != NIL)
		return false;
	foreach(lc, correlations)
	{
		RfCorrelation *correlation = (RfCorrelation *) lfirst(lc);
		Node	   *inner = list_nth(correlation->op->args, correlation->inside);
		Oid			family = lookup_type_cache(exprType(inner), TYPECACHE_BTREE_OPFAMILY)
		->btree_opf;
		bool		found = false;
		ListCell   *group;

		foreach(group, query->groupClause)
		{
			SortGroupClause *clause = lfirst_node(SortGroupClause, group);

			found |= equal(get_sortgroupclause_expr(clause, query->targetList),
						   correlation->outer) &&
				get_op_opfamily_strategy(clause->eqop, family) == BTEqualStrategyNumber;
		}
		if (!found)
			return false;
	}
	foreach(lc, aggregates)
	{
		TypeCacheEntry *type = lookup_type_cache(exprType(lfirst(lc)),
												 TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR);

		if (!OidIsValid(type->eq_opr) || !OidIsValid(type->lt_opr))
			return false;
	}
	return true;
}

/* Maps the sub-select's results to the columns of its aggregates after the join. */
typedef struct ValueContext
{
	Query	   *sub;
	Index		relid;			/* its number in the query, and the join's */
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
		CaseWhen   *when;
		CaseExpr   *result;
		int			place = 0;

		while (!equal(list_nth(cxt->aggregates, place), node))
			place++;
		value = joined_column(cxt->sub, cxt->relid, cxt->joinid, keys + place + 1);
		if (((Const *) nothing)->constisnull)
			return (Node *) value;

		/* a key that has met its equal is not NULL */
		when = makeNode(CaseWhen);
		when->expr = (Expr *) rf_null_test(
										   (Node *) joined_column(cxt->sub, cxt->relid, cxt->joinid,
																  1),
										   IS_NULL);
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

Node *
rf_replace_sublink(RfRewrite *cxt, SubLink *sublink, bool null_is_false)
{
	Query	   *sub = (Query *) sublink->subselect;
	int			depth = cxt->depth + 1;
	List	   *correlations = NIL;
	List	   *conditions = NIL;
	Oid			server = InvalidOid;
	ValueContext value = {0};
	Node	  **part = NULL;
	Node	   *expr = NULL;
	bool		requested;

	if (sublink->subLinkType == EXISTS_SUBLINK ||
		(sublink->subLinkType == ANY_SUBLINK && null_is_false))
		sub = rf_existence(sublink);
	else if ((sublink->subLinkType == EXPR_SUBLINK || sublink->subLinkType == ARRAY_SUBLINK) &&
			 IsA(sub, Query))
	{
		sub = !is_plain_aggregate(sub) || sublink->subLinkType == ARRAY_SUBLINK ?
			rf_as_aggregate(sublink) :
			contain_volatile_functions((Node *) sub) ? NULL :
			copyObject(sub);
		if (sub != NULL)
			expr = (Node *) linitial_node(TargetEntry, sub->targetList)->expr;
	}
	else
		return NULL;
	if (sub == NULL || rf_reads_others((Node *) sub, &server) || !OidIsValid(server) ||
		collect_aggregates_walker(expr, &value.aggregates) || rf_looks_beyond(expr, 1, depth) ||
		contain_aggs_of_level(expr, 1))
		return NULL;
	value.sub = sub;
	sub->targetList = NIL;
	if (!take_correlations(cxt, sub, server, &correlations, &conditions, &requested) ||
		rf_looks_beyond((Node *) sub, 0, depth) ||
		rf_looks_beyond((Node *) value.aggregates, 0, depth))
		return NULL;
	if (cxt->join != NULL && (part = side_of(cxt->join, correlations, conditions)) == NULL)
		return NULL;
	if (cxt->grouped && !depends_on_group(cxt->query, correlations, conditions, value.aggregates))
		return NULL;

	if (cxt->reduce && !requested)
	{
		Node	   *exists = rf_partner_exists(cxt, correlations, server);

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
	if (expr != NULL)
	{
		IncrementVarSublevelsUp(expr, -1, 1);
		expr = value_mutator(expr, &value);
	}
	else
		expr = rf_null_test((Node *) joined_column(sub, value.relid, value.joinid, 1), IS_NOT_NULL);
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

Node *
rf_reduce_exists(RfRewrite *cxt, SubLink *sublink)
{
	Query	   *sub = cxt->reduce ? rf_existence(sublink) : NULL;
	List	   *conjuncts = NIL;
	List	   *correlations = NIL;
	RfRewrite	around = *cxt;
	Oid			server = InvalidOid;
	Node	   *exists;
	ListCell   *lc;

	if (sub == NULL || rf_reads_others((Node *) sub, &server))
		return NULL;
	/* neither itself nor its like */
	around.conditions = NIL;
	foreach(lc, cxt->conditions)
	{
		if (!rf_has_sublinks(lfirst(lc)))
			around.conditions = lappend(around.conditions, lfirst(lc));
	}
	rf_collect_conjuncts(sub->jointree->quals, &conjuncts);
	foreach(lc, conjuncts)
	{
		RfCorrelation *correlation = make_correlation(lfirst(lc), cxt->depth + 1);

		if (correlation != NULL)
			correlations = lappend(correlations, correlation);
	}
	if (correlations == NIL || (exists = rf_partner_exists(&around, correlations, server)) == NULL)
		return NULL;
	sub->jointree->quals = make_and_qual(sub->jointree->quals, exists);
	sub->hasSubLinks = true;
	cxt->reduced++;
	return rf_exists_of(sub);
}
