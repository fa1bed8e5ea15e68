/*
 * querybuild_expr.c
 * 		Expressions in the text of a remote statement.
 *
 * They are printed by the server's own deparser. It gets a made-up range table with one entry
 * per foreign table, a CTE reference whose columns have the remote names: the deparser prints such
 * names as they are, never looks them up in the catalogs, and omits the qualification when told
 * that there is one relation.
 *
 * deparse_expression() is preferred over pg_get_querydef() because it adds no line breaks, takes no
 * locks and does not scribble on its input. Only window functions need the latter, which alone
 * prints their OVER.
 *
 * Everything that reaches the deparser has passed shippable.c. Nodes that must never reach it are
 * converted first: parameters of the executor and columns of other relations become numbered
 * external parameters (PARAM_EXEC crashes the deparser of PostgreSQL 17 and later), sub-selects are
 * marked by numbers and replaced by their text.
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "rdma_fdw/batch.h"

#include "deparse.h"
#include "querybuild.h"

/* Parameters of a statement have smaller numbers: the protocol counts them in 16 bits. */
#define FIRST_SUBSELECT_MARK	100000

static Node *rewrite_mutator(Node *node, BuildContext *cxt);

char *
rf_remote_relation_name(const RfTableOptions *opts)
{
	return psprintf("%s.%s", quote_identifier(opts->schema_name),
					quote_identifier(opts->table_name));
}

const char *
rf_remote_column(Oid relid, AttrNumber attno)
{
	if (!OidIsValid(relid))
		return psprintf("c%d", attno);
	if (attno == RF_ROW_TABLE)
		return "tableoid";
	return attno == SelfItemPointerAttributeNumber ? "ctid" : rf_column_name(relid, attno);
}

/* The name of a table in the statement; unique, also across its sub-selects. */
char *
rf_statement_table_name(BuildContext *cxt, Index relid)
{
	return cxt->outer == NULL ? psprintf("r%u", relid) :
		psprintf("s%d_r%u", cxt->subplan->plan_id, relid);
}

/* The foreign table of a relation, or InvalidOid for a SELECT. */
Oid
rf_statement_table(PlannerInfo *root, Index relid)
{
	RelOptInfo *rel = root->simple_rel_array[relid];
	RfRelInfo  *info = rel ? (RfRelInfo *) rel->fdw_private : NULL;

	return info != NULL && info->select != NULL ? InvalidOid : planner_rt_fetch(relid, root)->relid;
}

/* The item that supplies a foreign table's columns, or the table itself. */
static TableRef *
table_of(BuildContext *cxt, Index relid)
{
	BuildContext *top = rf_whole_context(cxt);
	TableRef   *table = rf_item_of(cxt, relid);
	ListCell   *lc;

	if (table != NULL)
		return table;
	foreach(lc, top->tables)
	{
		table = (TableRef *) lfirst(lc);
		if (table->derived == NULL && table->relid == relid && table->root == cxt->root)
			return table;
	}
	Assert(cxt->root != NULL);	/* an expression by itself names no other table */
	table = palloc0(sizeof(TableRef));
	table->relid = relid;
	table->root = cxt->root;
	table->name = rf_statement_table_name(cxt, relid);
	table->foreigntableid = rf_statement_table(cxt->root, relid);
	top->tables = lappend(top->tables, table);
	return table;
}

/* Its position in the made-up range table, from one. */
static int
table_number(BuildContext *cxt, TableRef *wanted)
{
	ListCell   *lc;

	foreach(lc, rf_whole_context(cxt)->tables)
	{
		if (lfirst(lc) == wanted)
			return foreach_current_index(lc) + 1;
	}
	elog(ERROR, "table %s is not among the tables of its statement", wanted->name);
}

/*
 * The number of a remote column in its made-up relation. Two local columns may map to the same
 * remote one; they share a number, as the deparser renames duplicates.
 */
static AttrNumber
column_number(TableRef *table, Var *wanted)
{
	const char *name;
	ListCell   *lc;

	if (table->derived != NULL)
	{
		AttrNumber	number = rf_item_column(table, (Expr *) wanted);

		if (number == 0)
			elog(ERROR, "column %d of relation %d does not come out of %s", wanted->varattno,
				 wanted->varno, table->name);
		return number;
	}
	name = rf_remote_column(table->foreigntableid, wanted->varattno);
	foreach(lc, table->colnames)
	{
		if (strcmp(strVal(lfirst(lc)), name) == 0)
			return foreach_current_index(lc) + 1;
	}
	table->colnames = lappend(table->colnames, makeString(pstrdup(name)));
	return list_length(table->colnames);
}

static int
param_number(BuildContext *cxt, Node *node)
{
	ListCell   *lc;

	cxt = rf_whole_context(cxt);
	foreach(lc, cxt->params)
	{
		if (equal(lfirst(lc), node))
			return foreach_current_index(lc) + 1;
	}
	cxt->params = lappend(cxt->params, node);
	cxt->param_types = lappend_oid(cxt->param_types, exprType(node));
	return list_length(cxt->params);
}

/*
 * For EXPLAIN there is no value, and a bare NULL would be folded away. A scalar sub-select hides it
 * from the remote planner: "( SELECT NULL::integer)".
 */
static Node *
unknown_value(Oid type, int32 typmod, Oid collation)
{
	Query	   *query = makeNode(Query);
	SubLink    *sublink = makeNode(SubLink);
	Const	   *null = makeNullConst(type, typmod, collation);

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->jointree = makeFromExpr(NIL, NULL);
	query->targetList = list_make1(makeTargetEntry((Expr *) null, 1, NULL, false));

	sublink->subLinkType = EXPR_SUBLINK;
	sublink->subselect = (Node *) query;
	sublink->location = -1;
	return (Node *) sublink;
}

static Node *
make_column(BuildContext *cxt, TableRef *table, AttrNumber attno, Node *node)
{
	/* A new node, so that no field of the original (varnosyn!) can mislead the deparser. */
	return (Node *) makeVar(table_number(cxt, table), attno, exprType(node), exprTypmod(node),
							exprCollation(node), 0);
}

/*
 * The key by which rows were moved, where it has the value of the same expression: see
 * from_items.c.
 */
static Node *
moved_key(BuildContext *cxt, Node *node)
{
	ListCell   *lc;

	foreach(lc, cxt->at != NULL && !IsA(node, Var) ? rf_whole_context(cxt)->tables : NIL)
	{
		TableRef   *table = (TableRef *) lfirst(lc);
		RfRelInfo  *derived = table->derived;
		ListCell   *expr;

		if (derived == NULL || derived->fragment == NULL ||
			(derived != cxt->at && derived != cxt->at->join.outer &&
			 derived != cxt->at->join.inner) ||
			!list_member(derived->fragment->move_keys, node))
			continue;
		foreach(expr, table->exprs)
		{
			if (equal(lfirst(expr), node))
				return make_column(cxt, table, foreach_current_index(expr) + 1, node);
		}
	}
	return NULL;
}

/*
 * The expression with a cast to its type, if it is a constant, which could be read as the number of
 * a column, or if its own cast is implicit, because the context that implies it is gone.
 */
static Node *
with_type(Node *node)
{
	Node	   *bare = strip_implicit_coercions(node);

	if (!IsA(node, Const) && bare == node)
		return node;
	return (Node *) makeRelabelType((Expr *) bare, exprType(node), exprTypmod(node),
									exprCollation(node), COERCE_EXPLICIT_CAST);
}

/*
 * A placeholder is a column of the item that contains its relations. Without such an item no join
 * has null-extended it: see is_subselect() in from_items.c.
 */
static Node *
rewrite_placeholder(PlaceHolderVar *placeholder, BuildContext *cxt)
{
	Relids		relids = rf_evaluated_at(cxt->root, placeholder);
	TableRef   *table = rf_item_of(cxt, bms_next_member(relids, -1));
	AttrNumber	number;

	/* there may be items for a part of it */
	if (table == NULL || !bms_is_subset(relids, table->derived->rel->relids))
		return with_type(rewrite_mutator((Node *) placeholder->phexpr, cxt));
	number = rf_item_column(table, (Expr *) placeholder);
	if (number == 0)
		elog(ERROR, "placeholder %u does not come out of %s", placeholder->phid, table->name);
	return make_column(cxt, table, number, (Node *) placeholder);
}

static Param *
external_param(Node *node, int number)
{
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = number;
	param->paramtype = exprType(node);
	param->paramtypmod = exprTypmod(node);
	param->paramcollid = exprCollation(node);
	param->location = -1;
	return param;
}

/* First a sub-select is printed as a mark; finish_text() replaces it. */
static Node *
subselect_mark(BuildContext *cxt, Node *subplan, char *text)
{
	cxt = rf_whole_context(cxt);
	cxt->subselects = lappend(cxt->subselects, text);
	return (Node *) external_param(subplan,
								   FIRST_SUBSELECT_MARK + list_length(cxt->subselects) - 1);
}

/*
 * A value that is not known there: a parameter, or a column that the statement gets many values of.
 */
static Node *
value_from_here(BuildContext *cxt, Node *node)
{
	BuildContext *top = rf_whole_context(cxt);
	int			number = param_number(cxt, node);
	Node	   *param;

	if (top->batched)
		return subselect_mark(cxt, node, psprintf("batch.p%d", number));
	param = (Node *) external_param(node, number);
	if (!top->writes)
		return param;
	return (Node *) makeRelabelType((Expr *) param, exprType(node), -1, exprCollation(node),
									COERCE_EXPLICIT_CAST);
}

static bool
is_column_printed(Node *node, void *context)
{
	return node != NULL &&
		(IsA(node, Var) || expression_tree_walker(node, is_column_printed, context));
}

static bool
is_mark_printed(Node *node, void *context)
{
	return node != NULL &&
		(IsA(node, Param) || expression_tree_walker(node, is_mark_printed, context));
}

/*
 * A sub-plan is the planner's form of a sub-select; rf_subselect() gives its statement. The text
 * has columns of the query around it where the executor would pass parameters. "x op ANY (SELECT
 * ...)" is an operator with a sub-select as its right side.
 */
static Node *
rewrite_subplan(SubPlan *subplan, BuildContext *cxt)
{
	BuildContext inner = {0};
	RfRelInfo  *info = rf_subselect(cxt->root, subplan, &inner.root);
	StringInfoData text;
	OpExpr	   *test;

	if (info == NULL)
		elog(ERROR, "sub-plan %d is no statement of a data node", subplan->plan_id);
	inner.relids = (info->upper.scan ? info->upper.scan : info)->rel->relids;
	inner.for_estimate = cxt->for_estimate;
	inner.outer = cxt;
	inner.subplan = subplan;
	rf_forget_items(cxt, inner.root);

	initStringInfo(&text);
	switch (subplan->subLinkType)
	{
		case EXISTS_SUBLINK:
			appendStringInfoString(&text, "EXISTS (");
			break;
		case ALL_SUBLINK:
			appendStringInfoString(&text, "ALL (");
			break;
		case ANY_SUBLINK:
			appendStringInfoString(&text, "ANY (");
			break;
		case ARRAY_SUBLINK:
			appendStringInfoString(&text, "ARRAY(");
			break;
		default:
			appendStringInfoChar(&text, '(');
			break;
	}
	rf_append_statement(&text, &inner, info, rf_subselect_columns(info), info->planned.conditions,
						info->planned.pathkeys, info->planned.limit);
	appendStringInfoChar(&text, ')');

	if (subplan->testexpr == NULL)
		return subselect_mark(cxt, (Node *) subplan, text.data);
	test = (OpExpr *) copyObject(castNode(OpExpr, subplan->testexpr));
	test->args = list_make2(rewrite_mutator(linitial(test->args), cxt),
							subselect_mark(cxt, lsecond(test->args), text.data));
	return (Node *) test;
}

/*
 * The expression behind an executor parameter in a sub-select: one of the query around it, or of
 * the one around that, whose context is then stored in *cxt. NULL: something else.
 */
static Node *
outer_argument(Param *param, BuildContext **cxt)
{
	if (param->paramkind != PARAM_EXEC)
		return NULL;
	for (BuildContext *inner = *cxt; inner->outer != NULL; inner = inner->outer)
	{
		ListCell   *id;
		ListCell   *arg;

		forboth(id, inner->subplan->parParam, arg, inner->subplan->args)
		{
			if (lfirst_int(id) == param->paramid)
			{
				*cxt = inner->outer;
				return (Node *) lfirst(arg);
			}
		}
	}
	return NULL;
}

/*
 * Returns true for a plain column of a table, possibly of the query around. Also of type varchar,
 * which a comparison relabels as text.
 */
static bool
is_bare_column(Node *node, BuildContext *cxt)
{
	Node	   *outer;

	if (IsA(node, RelabelType) && ((RelabelType *) node)->relabelformat == COERCE_IMPLICIT_CAST &&
		exprCollation((Node *) ((RelabelType *) node)->arg) == exprCollation(node))
		node = (Node *) ((RelabelType *) node)->arg;
	if (IsA(node, Param) && (outer = outer_argument((Param *) node, &cxt)) != NULL)
		return is_bare_column(outer, cxt);
	return IsA(node, Var) && bms_is_member(((Var *) node)->varno, cxt->relids);
}

/*
 * Returns true if the parser would resolve this operator between a value of this type and a bare
 * literal.
 */
static bool
is_understood(Oid opno, Oid left, Oid right)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));
	Form_pg_operator form;
	List	   *name;
	Operator	found;
	bool		same;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", opno);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	name = list_make2(makeString(get_namespace_name(form->oprnamespace)),
					  makeString(pstrdup(NameStr(form->oprname))));
	ReleaseSysCache(tuple);
	found = oper(NULL, name, left, right, true, -1);
	if (found == NULL)
		return false;
	same = oprid(found) == opno;
	ReleaseSysCache(found);
	return same;
}

/*
 * A literal that is compared with a bare column is printed without its type; the data node's parser
 * derives it from the column, whose type may differ there, such as an enum or a date that is text
 * here. Numbers and similar types print without a type, or need one.
 */
static List *
open_literals(List *args, Oid opno, bool any_element, BuildContext *cxt)
{
	int			place = IsA(linitial(args), Const) && !any_element ? 0 : 1;
	Const	   *literal = (Const *) list_nth(args, place);
	Node	   *column = (Node *) list_nth(args, 1 - place);
	Oid			type;
	Oid			vartype;
	Oid			output;
	bool		is_varlena;
	Const	   *bare;

	if (!IsA(literal, Const) || literal->constisnull || !is_bare_column(column, cxt))
		return args;
	type = any_element ? get_element_type(literal->consttype) : literal->consttype;
	if (type != exprType(column) || rf_is_explicit_collation((Node *) literal))
		return args;
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
		case BITOID:
		case VARBITOID:
			return args;
		default:
			break;
	}
	column = strip_implicit_coercions(column);
	vartype = exprType(column);
	if (!is_understood(opno, place == 0 ? UNKNOWNOID : vartype, place == 0 ? vartype : UNKNOWNOID))
		return args;
	getTypeOutputInfo(literal->consttype, &output, &is_varlena);
	bare = makeConst(UNKNOWNOID, -1, InvalidOid, -2,
					 CStringGetDatum(OidOutputFunctionCall(output, literal->constvalue)), false,
					 false);
	return place == 0 ? list_make2(bare, column) : list_make2(column, bare);
}

/* Returns true if it has columns of local rows, whose remote types equal the local types. */
static bool
reads_local_rows(Node *node, BuildContext *cxt)
{
	ListCell   *lc;

	/* an expression by itself has no root */
	foreach(lc, cxt->root == NULL ?
			NIL :
			pull_var_clause(node, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
							PVC_RECURSE_PLACEHOLDERS))
	{
		Var		   *var = lfirst_node(Var, lc);

		if (bms_is_member(var->varno, cxt->relids) && rf_is_local(cxt->root, var->varno))
			return true;
	}
	return false;
}

/*
 * A column that is text here may be an enum or of another type there, which has no operator with
 * text: beside local rows it is compared as its local type.
 */
static List *
cast_beside_local_rows(List *args, BuildContext *cxt)
{
	for (int i = 0; i < 2; i++)
	{
		Node	   *column = list_nth(args, i);
		Node	   *bare = strip_implicit_coercions(column);
		Oid			type = exprType(column);

		if ((type != TEXTOID && type != BPCHAROID) || !IsA(bare, Var) ||
			!is_bare_column(column, cxt) || reads_local_rows(bare, cxt) ||
			!reads_local_rows(list_nth(args, 1 - i), cxt))
			continue;
		column = (Node *) makeRelabelType((Expr *) bare, type, -1, exprCollation(column),
										  COERCE_EXPLICIT_CAST);
		return i == 0 ? list_make2(column, lsecond(args)) : list_make2(linitial(args), column);
	}
	return args;
}

/* Rewrites the arguments of a comparison. */
static Node *
rewrite_comparison(Node *node, BuildContext *cxt)
{
	if (IsA(node, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *op = makeNode(ScalarArrayOpExpr);

		*op = *(ScalarArrayOpExpr *) node;
		op->args = open_literals(op->args, op->opno, true, cxt);
		node = (Node *) op;
	}
	else if (list_length(((OpExpr *) node)->args) == 2)
	{
		OpExpr	   *op = palloc(sizeof(OpExpr));	/* or the same struct under another tag */

		*op = *(OpExpr *) node;
		op->args = open_literals(op->args, op->opno, false, cxt);
		op->args = cast_beside_local_rows(op->args, cxt);
		node = (Node *) op;
	}
	return expression_tree_mutator(node, rewrite_mutator, cxt);
}

static Node *
rewrite_mutator(Node *node, BuildContext *cxt)
{
	BuildContext *outer = cxt;
	Node	   *column;

	if (node == NULL)
		return NULL;

	if (IsA(node, AlternativeSubPlan))
		node = (Node *) linitial(((AlternativeSubPlan *) node)->subplans);
	if (IsA(node, SubPlan))
		return rewrite_subplan((SubPlan *) node, cxt);
	if (IsA(node, Param) && (column = outer_argument((Param *) node, &outer)) != NULL)
		return rewrite_mutator(column, outer);

	if ((column = moved_key(cxt, node)) != NULL)
		return column;
	if (IsA(node, PlaceHolderVar))
		return rewrite_placeholder((PlaceHolderVar *) node, cxt);

	if (IsA(node, Var) && bms_is_member(((Var *) node)->varno, cxt->relids))
	{
		TableRef   *table = table_of(cxt, ((Var *) node)->varno);

		return make_column(cxt, table, column_number(table, (Var *) node), node);
	}

	if (IsA(node, Var) || IsA(node, Param) || rf_is_local_value(node))
	{
		if (cxt->for_estimate)
			return unknown_value(exprType(node), exprTypmod(node), exprCollation(node));
		return value_from_here(cxt, node);
	}

	if (IsA(node, Aggref) && ((Aggref *) node)->aggsplit != AGGSPLIT_SIMPLE)
		return rewrite_mutator((Node *) rf_partial_agg_expr((Aggref *) node), cxt);
	if (IsA(node, Aggref) && rf_whole_context(cxt)->batched)
	{
		Node	   *result = expression_tree_mutator(node, rewrite_mutator, cxt);

		/*
		 * without columns of its own SQL would take it for an aggregate of the statement around it
		 */
		if (is_mark_printed(result, NULL) && !is_column_printed(result, NULL))
			rf_whole_context(cxt)->unbatched = true;
		return result;
	}

	/*
	 * The planner turns COLLATE into a relabelling, or part of a constant; both print without it.
	 */
	if ((IsA(node, RelabelType) || IsA(node, Const)) && rf_is_explicit_collation(node))
	{
		CollateExpr *collate = makeNode(CollateExpr);
		Node	   *arg = copyObject(node);

		exprSetCollation(arg, get_typcollation(exprType(node)));
		/* often the relabelling changes the collation only */
		if (IsA(node, RelabelType) &&
			exprType((Node *) ((RelabelType *) node)->arg) == exprType(node))
			arg = (Node *) ((RelabelType *) node)->arg;
		collate->arg = (Expr *) rewrite_mutator(arg, cxt);
		collate->collOid = exprCollation(node);
		collate->location = -1;
		return (Node *) collate;
	}

	if (IsA(node, OpExpr) || IsA(node, DistinctExpr) || IsA(node, ScalarArrayOpExpr))
		return rewrite_comparison(node, cxt);

	return expression_tree_mutator(node, rewrite_mutator, cxt);
}

/* The current made-up range table: printing one expression may add to it. */
static List *
made_up_range_table(BuildContext *cxt, List **names)
{
	List	   *rtable = NIL;
	ListCell   *lc;

	*names = NIL;
	foreach(lc, rf_whole_context(cxt)->tables)
	{
		TableRef   *table = (TableRef *) lfirst(lc);
		RangeTblEntry *rte = makeNode(RangeTblEntry);

		rte->rtekind = RTE_CTE;
		rte->ctename = table->name;
		rte->eref = makeAlias(rte->ctename, table->colnames);
		rte->inFromCl = true;
		rtable = lappend(rtable, rte);
		*names = lappend(*names, rte->ctename);
	}
	return rtable;
}

static bool
contains_window_function(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, WindowFunc))
		return true;
	return expression_tree_walker(node, contains_window_function, unused);
}

static char *
without_space(char *text)
{
	while (isspace((unsigned char) *text))
		text++;
	return text;
}

/*
 * An expression with window functions is printed as the only column of a query without FROM that
 * has its windows: " SELECT rank() OVER (ORDER BY r1.a)".
 */
static char *
print_windowed(Node *expr, BuildContext *cxt)
{
	Query	   *query = makeNode(Query);
	List	   *tlist = cxt->root->processed_tlist;
	List	   *names;
	char	   *text;
	ListCell   *lc;

	query->commandType = CMD_SELECT;
	query->targetList = list_make1(makeTargetEntry((Expr *) expr, 1, NULL, false));
	foreach(lc, cxt->root->parse->windowClause)
	{
		WindowClause *window = copyObject(lfirst_node(WindowClause, lc));
		ListCell   *sort;

		/* written out: the parser has copied the clauses of a referenced window into it */
		window->name = NULL;
		window->refname = NULL;
		window->copiedOrder = false;
		window->startOffset = rewrite_mutator(window->startOffset, cxt);
		window->endOffset = rewrite_mutator(window->endOffset, cxt);
		query->windowClause = lappend(query->windowClause, window);
		foreach(sort, list_concat_copy(window->partitionClause, window->orderClause))
		{
			Index		ref = lfirst_node(SortGroupClause, sort)->tleSortGroupRef;
			TargetEntry *tle = get_sortgroupref_tle(ref, tlist);
			TargetEntry *junk;

			if (rf_sortgroupref_tle(ref, query->targetList) != NULL)
				continue;
			junk = makeTargetEntry((Expr *) rewrite_mutator((Node *) tle->expr, cxt),
								   list_length(query->targetList) + 1, NULL, true);
			junk->ressortgroupref = ref;
			query->targetList = lappend(query->targetList, junk);
		}
	}
	query->rtable = made_up_range_table(cxt, &names);
	/* columns of a single relation would be printed without its name, regardless of FROM */
	if (cxt->qualified && list_length(query->rtable) == 1)
		query->rtable = lappend(query->rtable, copyObject(linitial(query->rtable)));
	query->jointree = makeFromExpr(NIL, NULL);
	query->hasWindowFuncs = true;

	text = pg_get_querydef(query, false);
	text = without_space(text);
	Assert(strncmp(text, "SELECT", 6) == 0);
	/* some expressions begin on a line of their own */
	return without_space(text + 6);
}

/*
 * Appends the literal at text and returns its end.  The deparser writes backslashes as they are; in
 * E'' they mean the same under any standard_conforming_strings.
 */
static const char *
append_literal(StringInfo buf, const char *text)
{
	const char *end = text + 1;
	bool		escape = false;

	while (*end != '\'' || *++end == '\'')
		escape |= *end++ == '\\';
	if (escape)
		appendStringInfoChar(buf, ESCAPE_STRING_SYNTAX);
	for (; text < end; text++)
	{
		if (*text == '\\')
			appendStringInfoChar(buf, '\\');
		appendStringInfoChar(buf, *text);
	}
	return end;
}

/*
 * The deparser's output, with literals that any session reads alike and the texts of sub-selects in
 * place of their marks. A mark is "$" and a number above all parameters, outside quotes; there are
 * no comments and no dollar quotes. A quote inside quotes is doubled.
 */
static char *
finish_text(const char *text, List *subselects)
{
	StringInfoData buf;

	initStringInfo(&buf);
	while (*text != '\0')
	{
		if (*text == '\'')
		{
			text = append_literal(&buf, text);
			continue;
		}
		if (*text == '"')
		{
			const char *end = strchr(text + 1, '"') + 1;

			appendBinaryStringInfo(&buf, text, end - text);
			text = end;
			continue;
		}
		if (*text == '$')
		{
			char	   *end;
			long		number = strtol(text + 1, &end, 10) - FIRST_SUBSELECT_MARK;

			if (number >= 0)
			{
				appendStringInfoString(&buf, (char *) list_nth(subselects, number));
				text = end;
				continue;
			}
		}
		appendStringInfoChar(&buf, *text++);
	}
	return buf.data;
}

/* Operators are printed in parentheses; a bare column or function does not need any. */
char *
rf_print_in_statement(Node *expr, BuildContext *cxt)
{
	BuildContext *top = rf_whole_context(cxt);
	List	   *outer_subselects = top->subselects;
	PlannedStmt *stmt;
	List	   *names;
	char	   *text;

	top->subselects = NIL;
	expr = rewrite_mutator(expr, cxt);
	if (contains_window_function(expr, NULL))
		text = print_windowed(expr, cxt);
	else
	{
		stmt = makeNode(PlannedStmt);
		stmt->commandType = CMD_SELECT;
		stmt->rtable = made_up_range_table(cxt, &names);
		text = deparse_expression(expr, deparse_context_for_plan_tree(stmt, names),
								  cxt->qualified, false);
	}
	text = finish_text(text, top->subselects);
	top->subselects = outer_subselects;
	return text;
}

char *
rf_print_assigned(Node *expr, BuildContext *cxt)
{
	Node	   *value = IsA(expr, RelabelType) ? (Node *) ((RelabelType *) expr)->arg : expr;

	if (!IsA(value, Param) && !rf_is_local_value(value))
		return rf_print_in_statement(expr, cxt);
	return rf_assigned_parameter(value, cxt);
}

char *
rf_assigned_parameter(Node *value, BuildContext *cxt)
{
	/* a number of its own, which the relabelling keeps other places from taking */
	cxt->params = lappend(cxt->params, makeRelabelType((Expr *) value, exprType(value), -1,
													   exprCollation(value), COERCE_EXPLICIT_CAST));
	cxt->param_types = lappend_oid(cxt->param_types, exprType(value));
	cxt->assigned_params = bms_add_member(cxt->assigned_params, list_length(cxt->params));
	return psprintf("$%d", list_length(cxt->params));
}

/* Columns are those of these tables; with several of them they have their table's name. */
static char *
print_alone(List *tables, Relids relids, Expr *expr, bool assigned, List **params,
			List **param_types)
{
	BuildContext cxt = {NULL, relids};
	int			nestlevel = rf_neutral_settings(RF_TEXT_ALL);
	char	   *text;

	cxt.tables = tables;
	cxt.qualified = list_length(tables) > 1;
	cxt.params = *params;
	cxt.param_types = *param_types;
	cxt.writes = true;
	text = assigned ? rf_print_assigned((Node *) expr, &cxt) :
		rf_print_in_statement((Node *) expr, &cxt);

	AtEOXact_GUC(true, nestlevel);
	*params = cxt.params;
	*param_types = cxt.param_types;
	return text;
}

/* A value without its type, which the column there gives it: of an enum the name may differ. */
static char *
assigned_literal(const Const *value)
{
	int			nestlevel = rf_neutral_settings(RF_TEXT_ALL);
	char	   *text = "NULL";
	Oid			output;
	bool		varlena;

	getTypeOutputInfo(value->consttype, &output, &varlena);
	if (!value->constisnull)
		text = quote_literal_cstr(OidOutputFunctionCall(output, value->constvalue));
	AtEOXact_GUC(true, nestlevel);
	return text;
}

static TableRef *
table_alone(Index relid, const char *name, Oid foreigntableid)
{
	TableRef   *table = palloc0(sizeof(TableRef));

	table->relid = relid;
	table->name = pstrdup(name);
	table->foreigntableid = foreigntableid;
	return table;
}

char *
rf_print_expr(Index relid, Oid foreigntableid, Expr *expr, bool assigned,
			  List **params, List **param_types)
{
	return print_alone(list_make1(table_alone(relid, psprintf("r%u", relid), foreigntableid)),
					   bms_make_singleton(relid), expr, assigned, params, param_types);
}

char *
rf_print_of_rows(Index relid, Index excluded, Oid foreigntableid, Expr *expr, bool assigned,
				 List **params, List **param_types)
{
	if (assigned && IsA(expr, Const))
		return assigned_literal((Const *) expr);
	return print_alone(list_make2(table_alone(relid, "t", foreigntableid),
								  table_alone(excluded, "excluded", foreigntableid)),
					   bms_add_member(bms_make_singleton(relid), excluded), expr, assigned, params,
					   param_types);
}

/* The text is as finish_text() leaves it: a quote inside quotes is doubled, as a backslash is. */
char *
rf_with_literals(const char *sql, int first, int count, const char *const *values)
{
	StringInfoData buf;

	initStringInfo(&buf);
	while (*sql != '\0')
	{
		char	   *end;
		long		number;

		if (*sql == '\'' || *sql == '"')
		{
			const char *closing = strchr(sql + 1, *sql) + 1;

			appendBinaryStringInfo(&buf, sql, closing - sql);
			sql = closing;
			continue;
		}
		if (*sql == '$' && (number = strtol(sql + 1, &end, 10) - first) >= 0 && number < count)
		{
			appendStringInfoString(&buf, values[number] == NULL ? "NULL" :
								   quote_literal_cstr(values[number]));
			sql = end;
			continue;
		}
		appendStringInfoChar(&buf, *sql++);
	}
	return buf.data;
}
