/*
 * decorrelate_rows.c
 * 	Sub-selects that read only rows for which the query around them asks.
 *
 * The tables that the columns from outside come from stand in the sub-select once more, with the
 * conditions on them. Where it compares these columns by equality only, that is a semi join
 * which spares groups. Where it compares them in another way, it groups by them:
 *		SELECT ... FROM o WHERE o.x < (SELECT avg(i.y) FROM i WHERE i.k = o.k AND i.z > o.z)
 * means the same as
 *		SELECT ... FROM o LEFT JOIN
 *			(SELECT d.k, d.z, avg(i.y) AS value FROM i, (SELECT DISTINCT k, z FROM o) d
 *			 WHERE i.k = d.k AND i.z > d.z GROUP BY d.k, d.z) s
 *			ON s.k = o.k AND s.z = o.z WHERE o.x < s.value
 * if no row of i fulfils the conditions where a column of o is NULL.
 *
 * Paper: Seshadri, Pirahesh, Leung: Complex Query Decorrelation (ICDE 1996), whose magic table d
 * is.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "forms.h"
#include "plan.h"

static bool
forget_joins_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
#if PG_VERSION_NUM >= 160000
	/* an outer join above the table is not above its copy */
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

	if (bms_is_empty(relids) || !bms_is_subset(relids, tables) ||
		rf_looks_beyond(clause, 0, depth) || contain_volatile_functions(clause))
		return false;
	if (!rf_has_sublinks(clause))
		return true;
	/* those become semi joins */
	return IsA(clause, SubLink) &&
		(((SubLink *) clause)->subLinkType == ANY_SUBLINK ||
		 ((SubLink *) clause)->subLinkType == EXISTS_SUBLINK) &&
		!rf_reads_others(((SubLink *) clause)->subselect, &server);
}

/* Returns true if this relation of the query around is a table of these nodes. */
static bool
is_table_of(RfRewrite *cxt, Index relid, Oid server)
{
	RangeTblEntry *rte = rt_fetch(relid, cxt->query->rtable);

	return rte->rtekind == RTE_RELATION && !rf_reads_others((Node *) rte, &server);
}

static bool
is_column_of(RfRewrite *cxt, Var *var, Oid server)
{
	return IsA(var, Var) && var->varattno > 0 && is_table_of(cxt, var->varno, server);
}

/* The conditions on these tables that the query around has, copies. */
static List *
conditions_on(RfRewrite *cxt, Bitmapset *tables, Oid server)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, cxt->conditions)
	{
		if (is_condition_on(lfirst(lc), tables, cxt->depth, server))
			result = lappend(result, copyObject(lfirst(lc)));
	}
	return result;
}

/* A table that is written is only read where it stands again. */
#if PG_VERSION_NUM >= 160000
static void
read_only(RTEPermissionInfo * table)
#else
static void
read_only(RangeTblEntry *table)
#endif
{
	table->requiredPerms &= ACL_SELECT;
	table->insertedCols = table->updatedCols = NULL;
}

/*
 * With the tables that conditions join to these and that have conditions of their own: of inner
 * joins, which leave no row without them.
 */
static Bitmapset *
with_filters(RfRewrite *cxt, Bitmapset *tables, Oid server)
{
	Bitmapset  *filtered = NULL;
	bool		grown = cxt->inner_joins;
	ListCell   *lc;

	foreach(lc, cxt->conditions)
	{
		Relids		relids = pull_varnos_of_level(NULL, lfirst(lc), 0);
		int			relid;

		if (bms_get_singleton_member(relids, &relid) &&
			is_condition_on(lfirst(lc), relids, cxt->depth, server) &&
			is_table_of(cxt, relid, server))
			filtered = bms_add_member(filtered, relid);
	}
	while (grown)
	{
		grown = false;
		foreach(lc, cxt->conditions)
		{
			Relids		added = bms_difference(pull_varnos_of_level(NULL, lfirst(lc), 0), tables);

			if (bms_membership(added) == BMS_SINGLETON && bms_is_subset(added, filtered) &&
				bms_overlap(pull_varnos_of_level(NULL, lfirst(lc), 0), tables))
			{
				tables = bms_union(tables, added);
				grown = true;
			}
		}
	}
	return tables;
}

/*
 * SELECT columns FROM tables of the query around WHERE conjuncts, which are in its terms, and are
 * changed.
 */
static Query *
select_again(RfRewrite *cxt, Bitmapset *tables, List *columns, List *conjuncts)
{
	Query	   *result = makeNode(Query);
	List	   *from = NIL;
	int			member = -1;
	ListCell   *lc;

	/* numbers become smaller or stay, so in this order they are never confused */
	while ((member = bms_next_member(tables, member)) >= 0)
	{
		RangeTblEntry *rte = copyObject(rt_fetch(member, cxt->query->rtable));
		RangeTblRef *ref = makeNode(RangeTblRef);

#if PG_VERSION_NUM >= 160000
		if (rte->perminfoindex != 0)
		{
			RTEPermissionInfo *permissions = getRTEPermissionInfo(cxt->query->rteperminfos, rte);

			permissions = copyObject(permissions);
			read_only(permissions);
			result->rteperminfos = lappend(result->rteperminfos, permissions);
			rte->perminfoindex = list_length(result->rteperminfos);
		}
#else
		read_only(rte);
#endif
		result->rtable = lappend(result->rtable, rte);
		ref->rtindex = list_length(result->rtable);
		from = lappend(from, ref);
		ChangeVarNodes((Node *) conjuncts, member, ref->rtindex, 0);
		ChangeVarNodes((Node *) columns, member, ref->rtindex, 0);
	}
	(void) forget_joins_walker((Node *) conjuncts, NULL);

	result->commandType = CMD_SELECT;
	result->querySource = QSRC_ORIGINAL;
	result->canSetTag = true;
	result->jointree = makeFromExpr(from, rf_and_of(conjuncts));
	result->hasSubLinks = rf_has_sublinks((Node *) conjuncts);
	foreach(lc, columns)
	{
		int			number = foreach_current_index(lc) + 1;

		result->targetList = lappend(result->targetList,
									 makeTargetEntry(lfirst(lc), number,
													 psprintf("key%d", number),
													 false));
	}
	return result;
}

Node *
rf_partner_exists(RfRewrite *cxt, List *correlations, Oid server)
{
	SubLink    *sublink = makeNode(SubLink);
	Bitmapset  *tables = NULL;
	List	   *conjuncts;
	ListCell   *lc;

	foreach(lc, correlations)
	{
		Node	   *outer = (Node *) ((RfCorrelation *) lfirst(lc))->outer;

		while (IsA(outer, RelabelType))
			outer = (Node *) ((RelabelType *) outer)->arg;
		/* an expression of a row that an outer join made of NULLs may be anything */
		if (!is_column_of(cxt, (Var *) outer, server))
			return NULL;
		tables = bms_add_member(tables, ((Var *) outer)->varno);
	}
	tables = with_filters(cxt, tables, server);
	conjuncts = conditions_on(cxt, tables, server);
	if (conjuncts == NIL)
		return NULL;

	foreach(lc, correlations)
	{
		RfCorrelation *correlation = (RfCorrelation *) lfirst(lc);
		OpExpr	   *op = copyObject(correlation->op);

		IncrementVarSublevelsUp(list_nth(op->args, correlation->inside), 1, 0);
		list_nth_cell(op->args, 1 - correlation->inside)
			->ptr_value = copyObject(correlation->outer);
		conjuncts = lappend(conjuncts, op);
	}
	sublink->subLinkType = EXISTS_SUBLINK;
	sublink->subselect = (Node *) select_again(cxt, tables, NIL, conjuncts);
	sublink->location = -1;
	return (Node *) sublink;
}

/* ---------- conditions of all kinds ---------- */

/*
 * Returns true if it sees a property of a column of the query around that differs between equal
 * values. A comparison of its btree family does not.
 */
static bool
tells_equals_apart_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varlevelsup == 1 &&
			!rf_equal_is_same(((Var *) node)->vartype, ((Var *) node)->varcollid);
	if (IsA(node, OpExpr) && list_length(((OpExpr *) node)->args) == 2)
	{
		ListCell   *lc;

		foreach(lc, ((OpExpr *) node)->args)
		{
			Node	   *arg = lfirst(lc);

			while (IsA(arg, RelabelType))
				arg = (Node *) ((RelabelType *) arg)->arg;
			if (IsA(arg, Var) &&
				get_op_opfamily_strategy(
										 ((OpExpr *) node)->opno,
										 lookup_type_cache(((Var *) arg)->vartype,
														   TYPECACHE_BTREE_OPFAMILY)
										 ->btree_opf) != 0)
				continue;
			if (tells_equals_apart_walker(arg, NULL))
				return true;
		}
		return false;
	}
	return expression_tree_walker(node, tells_equals_apart_walker, NULL);
}

/* Returns true if conditions hold these tables together, so that they are not multiplied. */
static bool
are_connected(Bitmapset *tables, List *conjuncts)
{
	Bitmapset  *reached = bms_make_singleton(bms_next_member(tables, -1));
	bool		grown = true;

	while (grown)
	{
		ListCell   *lc;

		grown = false;
		foreach(lc, conjuncts)
		{
			Relids		relids = pull_varnos(NULL, lfirst(lc));

			if (bms_overlap(relids, reached) && !bms_is_subset(relids, reached))
			{
				reached = bms_add_members(reached, relids);
				grown = true;
			}
		}
	}
	return bms_is_subset(tables, reached);
}

/* An equality by which rows can be grouped and joined; NULL if the type has no such equality. */
static OpExpr *
make_equality(Var *inner, Var *outer)
{
	TypeCacheEntry *type = lookup_type_cache(inner->vartype, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR);
	Oid			input;
	Oid			other;
	Expr	   *args[2] = {(Expr *) inner, (Expr *) outer};

	if (!OidIsValid(type->eq_opr) || !OidIsValid(type->lt_opr) || !op_strict(type->eq_opr) ||
		type_is_rowtype(inner->vartype) ||
		(OidIsValid(inner->varcollid) && !get_collation_isdeterministic(inner->varcollid)))
		return NULL;
	op_input_types(type->eq_opr, &input, &other);
	for (int i = 0; i < 2; i++)
	{
		if (input != inner->vartype && !IsPolymorphicType(input))
			args[i] = (Expr *) makeRelabelType(args[i], input, -1, inner->varcollid,
											   COERCE_IMPLICIT_CAST);
	}
	return (OpExpr *) make_opclause(type->eq_opr, BOOLOID, false, args[0], args[1], InvalidOid,
									inner->varcollid);
}

typedef struct RequestContext
{
	List	   *columns;		/* of the query around, without levels and joins */
	Index		relid;			/* their source in the sub-select */
} RequestContext;

static Var *
plain_column(Var *var)
{
	return makeVar(var->varno, var->varattno, var->vartype, var->vartypmod, var->varcollid, 0);
}

/* Replaces columns of the query around by columns of the rows that ask. */
static Node *
request_mutator(Node *node, RequestContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == 1)
	{
		Var		   *result = plain_column((Var *) node);
		int			number = 1;
		ListCell   *lc;

		foreach(lc, cxt->columns)
		{
			if (equal(lfirst(lc), result))
				number = foreach_current_index(lc) + 1;
		}
		return (Node *) makeVar(cxt->relid, number, result->vartype, result->vartypmod,
								result->varcollid, 0);
	}
	return expression_tree_mutator(node, request_mutator, cxt);
}

bool
rf_request_rows(RfRewrite *cxt, Query *sub, List *clauses, Oid server, List **correlations)
{
	RequestContext request = {NIL, list_length(sub->rtable) + 1};
	Bitmapset  *tables = NULL;
	List	   *not_null = NIL;
	List	   *equalities = NIL;
	List	   *conjuncts;
	List	   *names = NIL;
	Node	   *all;
	Query	   *rows;
	RangeTblEntry *rte;
	RangeTblRef *ref;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		ListCell   *lc2;

		if (tells_equals_apart_walker(lfirst(lc), NULL))
			return false;
		foreach(lc2, pull_vars_of_level(lfirst(lc), 1))
		{
			Var		   *outer = copyObject(lfirst_node(Var, lc2));
			Var		   *column = plain_column(outer);
			RfCorrelation *correlation;

			if (!contain_nonstrict_functions(lfirst(lc)))
				not_null = list_append_unique(not_null, column);
			if (list_member(request.columns, column))
				continue;
			request.columns = lappend(request.columns, column);
			tables = bms_add_member(tables, column->varno);

			outer->varlevelsup = 0;
			correlation = palloc(sizeof(RfCorrelation));
			correlation->inside = 0;
			correlation->outer = (Expr *) outer;
			correlation->op = make_equality(makeVar(request.relid, list_length(request.columns),
													column->vartype, column->vartypmod,
													column->varcollid, 0),
											outer);
			if (correlation->op == NULL || !is_column_of(cxt, outer, server))
				return false;
			equalities = lappend(equalities, correlation);
		}
	}
	tables = with_filters(cxt, tables, server);
	conjuncts = conditions_on(cxt, tables, server);
	if (list_difference(request.columns, not_null) != NIL || !are_connected(tables, conjuncts))
		return false;

	*correlations = equalities;
	all = request_mutator((Node *) makeBoolExpr(AND_EXPR, clauses, -1), &request);
	sub->jointree->quals = make_and_qual(sub->jointree->quals, all);
	rows = select_again(cxt, tables, copyObject(request.columns), conjuncts);
	foreach(lc, rows->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		SortGroupClause *clause = makeNode(SortGroupClause);

		tle->ressortgroupref = clause->tleSortGroupRef = tle->resno;
		get_sort_group_operators(exprType((Node *) tle->expr), true, true, false, &clause->sortop,
								 &clause->eqop, NULL, &clause->hashable);
		rows->distinctClause = lappend(rows->distinctClause, clause);
		names = lappend(names, makeString(pstrdup(tle->resname)));
	}
	rte = makeNode(RangeTblEntry);
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = rows;
	rte->eref = makeAlias("requested", names);
	rte->inFromCl = true;
	sub->rtable = lappend(sub->rtable, rte);
	ref = makeNode(RangeTblRef);
	ref->rtindex = request.relid;
	sub->jointree->fromlist = lappend(sub->jointree->fromlist, ref);
	return true;
}
