/*
 * querybuild.c
 *		The text of the remote statement.
 *
 * The frame (SELECT list, FROM, WHERE, GROUP BY, ..., locking) is written here; expressions are
 * printed by the server's own deparser.  It is given a made-up range table with one entry per
 * foreign table, a CTE reference whose columns bear the remote names: the deparser takes such names
 * as they come, never looks into the catalogs for them, and leaves out the qualification when told
 * that there is one relation.  So the result reads like what a user would type:
 *		SELECT a, b FROM public.t WHERE (a > 5)
 *		SELECT count(*), r1.a FROM public.t r1 JOIN public.u r2 ON ((r1.b = r2.b)) GROUP BY 2
 *
 * deparse_expression() is preferred over pg_get_querydef() because it breaks no lines, takes no
 * locks and does not scribble on its input.  Only window functions need the latter, which alone
 * prints their OVER.
 *
 * Everything that reaches the deparser has passed shippable.c.  What must not reach it in any case
 * is converted first: parameters of the executor and columns of other relations become numbered
 * external parameters (PARAM_EXEC crashes the deparser of PostgreSQL 17 and later).
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/typcache.h"

#include "rdma_fdw/fdw.h"
#include "rdma_fdw/fragment.h"
#include "querybuild.h"

/* Parameters of a statement have smaller numbers: the protocol counts them in 16 bits. */
#define FIRST_SUBSELECT_MARK	100000

static void append_from(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed,
						List **conds);
static Node *rewrite_mutator(Node *node, BuildContext *cxt);

/* Sub-selects share tables and parameters with the statement that they stand in. */
static BuildContext *
whole(BuildContext *cxt)
{
	while (cxt->outer != NULL)
		cxt = cxt->outer;
	return cxt;
}

char *
rf_remote_relation_name(const RfTableOptions *opts)
{
	return psprintf("%s.%s", quote_identifier(opts->schema_name),
					quote_identifier(opts->table_name));
}

static const char *
remote_column(Oid relid, AttrNumber attno)
{
	if (!OidIsValid(relid))
		return psprintf("c%d", attno);
	return attno == SelfItemPointerAttributeNumber ? "ctid" : rf_column_name(relid, attno);
}

/* What a table is called in the statement; no two have the same name, whatever sub-select they are in. */
static char *
table_name(BuildContext *cxt, Index relid)
{
	return cxt->outer == NULL ? psprintf("r%u", relid) : psprintf("s%d_r%u", cxt->subplan->plan_id, relid);
}

/* The foreign table that a relation is, or InvalidOid: it is a SELECT. */
static Oid
table_of(PlannerInfo *root, Index relid)
{
	RelOptInfo *rel = root->simple_rel_array[relid];
	RfRelInfo  *info = rel ? (RfRelInfo *) rel->fdw_private : NULL;

	return info != NULL && info->select != NULL ? InvalidOid : planner_rt_fetch(relid, root)->relid;
}

/* Where a foreign table stands in the made-up range table, counted from one. */
static int
table_number(BuildContext *cxt, Index relid)
{
	BuildContext *top = whole(cxt);
	TableRef   *table;
	ListCell   *lc;

	foreach(lc, top->tables)
	{
		table = (TableRef *) lfirst(lc);
		if (table->move ? bms_is_member(relid, table->move->rel->relids) :
			table->relid == relid && table->root == cxt->root)
			return foreach_current_index(lc) + 1;
	}
	table = palloc0(sizeof(TableRef));
	table->relid = relid;
	table->root = cxt->root;
	table->name = table_name(cxt, relid);
	table->foreigntableid = table_of(cxt->root, relid);
	top->tables = lappend(top->tables, table);
	return list_length(top->tables);
}

/*
 * The number of a remote column in its made-up relation.  Two columns here may stand for the same
 * remote one; it then gets one number, as the deparser renames duplicates.
 */
static AttrNumber
column_number(TableRef *table, Var *wanted)
{
	const char *name;
	ListCell   *lc;

	if (table->move != NULL)
	{
		foreach(lc, table->exprs)
		{
			Var		   *var = (Var *) lfirst(lc);

			if (IsA(var, Var) && var->varno == wanted->varno && var->varattno == wanted->varattno)
				return foreach_current_index(lc) + 1;
		}
		elog(ERROR, "column %d of relation %d is not among those that move", wanted->varattno,
			 wanted->varno);
	}
	if (table->item != NULL)
		return wanted->varattno;
	name = remote_column(table->foreigntableid, wanted->varattno);
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

	cxt = whole(cxt);
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
 * For EXPLAIN there is no value, and a bare NULL would be folded away.  A scalar sub-select keeps
 * the remote planner from knowing it: "( SELECT NULL::integer)".
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

/* A computed column, such as an aggregate, that comes out of an exchange; else NULL. */
static Node *
moved_column(BuildContext *cxt, Node *node)
{
	ListCell   *lc;

	foreach(lc, cxt->tables)
	{
		TableRef   *table = (TableRef *) lfirst(lc);
		ListCell   *expr;

		foreach(expr, table->exprs)
		{
			if (!IsA(lfirst(expr), Var) && equal(lfirst(expr), node))
				return (Node *) makeVar(foreach_current_index(lc) + 1, foreach_current_index(expr) + 1,
										exprType(node), exprTypmod(node), exprCollation(node), 0);
		}
	}
	return NULL;
}

/* A sub-select as it is printed first; put_subselects() writes it out. */
static Node *
subselect_mark(BuildContext *cxt, Node *subplan, char *text)
{
	Param	   *param = makeNode(Param);

	cxt = whole(cxt);
	cxt->subselects = lappend(cxt->subselects, text);
	param->paramkind = PARAM_EXTERN;
	param->paramid = FIRST_SUBSELECT_MARK + list_length(cxt->subselects) - 1;
	param->paramtype = exprType(subplan);
	param->paramtypmod = exprTypmod(subplan);
	param->paramcollid = exprCollation(subplan);
	param->location = -1;
	return (Node *) param;
}

/*
 * A sub-plan is the planner's form of a sub-select; rf_subselect() says which statement it is.  It
 * is written with the columns of the query around it where the executor would hand them in by
 * parameters.  "x op ANY (SELECT ...)" is an operator with a sub-select for its right side.
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
	inner.relids = (info->scan ? info->scan : info)->rel->relids;
	inner.for_estimate = cxt->for_estimate;
	inner.outer = cxt;
	inner.subplan = subplan;

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
	rf_append_statement(&text, &inner, info, rf_subselect_columns(info), info->plan_conditions,
						info->plan_pathkeys, info->plan_limit);
	appendStringInfoChar(&text, ')');

	if (subplan->testexpr == NULL)
		return subselect_mark(cxt, (Node *) subplan, text.data);
	test = (OpExpr *) copyObject(castNode(OpExpr, subplan->testexpr));
	test->args = list_make2(rewrite_mutator(linitial(test->args), cxt),
							subselect_mark(cxt, lsecond(test->args), text.data));
	return (Node *) test;
}

/*
 * What the executor's parameter stands for in a sub-select: an expression of the query around it, or
 * of the one around that.  NULL: something else.
 */
static Node *
outer_value(Param *param, BuildContext *cxt)
{
	if (param->paramkind != PARAM_EXEC)
		return NULL;
	for (; cxt->outer != NULL; cxt = cxt->outer)
	{
		ListCell   *id;
		ListCell   *arg;

		forboth(id, cxt->subplan->parParam, arg, cxt->subplan->args)
		{
			if (lfirst_int(id) == param->paramid)
				return rewrite_mutator((Node *) lfirst(arg), cxt->outer);
		}
	}
	return NULL;
}

static Node *
rewrite_mutator(Node *node, BuildContext *cxt)
{
	Node	   *column;

	if (node == NULL)
		return NULL;

	if (IsA(node, AlternativeSubPlan))
		node = (Node *) linitial(((AlternativeSubPlan *) node)->subplans);
	if (IsA(node, SubPlan))
		return rewrite_subplan((SubPlan *) node, cxt);
	if (IsA(node, Param) && (column = outer_value((Param *) node, cxt)) != NULL)
		return column;

	if (cxt->moves && !IsA(node, Var) && (column = moved_column(cxt, node)) != NULL)
		return column;

	if (IsA(node, Var) && bms_is_member(((Var *) node)->varno, cxt->relids))
	{
		Var		   *var = (Var *) node;
		int			number = table_number(cxt, var->varno);

		/* A new node, so that nothing of the original (varnosyn!) can mislead the deparser. */
		return (Node *) makeVar(number,
								column_number(list_nth(whole(cxt)->tables, number - 1), var),
								var->vartype, var->vartypmod, var->varcollid, 0);
	}

	if (IsA(node, Var) || IsA(node, Param) || rf_is_local_value(node))
	{
		Param	   *param;

		if (cxt->for_estimate)
			return unknown_value(exprType(node), exprTypmod(node), exprCollation(node));

		param = makeNode(Param);
		param->paramkind = PARAM_EXTERN;
		param->paramid = param_number(cxt, node);
		param->paramtype = exprType(node);
		param->paramtypmod = exprTypmod(node);
		param->paramcollid = exprCollation(node);
		param->location = -1;
		return (Node *) param;
	}

	if (IsA(node, Aggref) && ((Aggref *) node)->aggsplit != AGGSPLIT_SIMPLE)
		return rewrite_mutator((Node *) rf_partial_agg_expr((Aggref *) node), cxt);

	/* The planner makes COLLATE a relabelling, or part of a constant, which print without it. */
	if ((IsA(node, RelabelType) || IsA(node, Const)) && rf_is_explicit_collation(node))
	{
		CollateExpr *collate = makeNode(CollateExpr);
		Node	   *arg = copyObject(node);

		exprSetCollation(arg, get_typcollation(exprType(node)));
		/* often the collation is all that the relabelling changes */
		if (IsA(node, RelabelType) && exprType((Node *) ((RelabelType *) node)->arg) == exprType(node))
			arg = (Node *) ((RelabelType *) node)->arg;
		collate->arg = (Expr *) rewrite_mutator(arg, cxt);
		collate->collOid = exprCollation(node);
		collate->location = -1;
		return (Node *) collate;
	}

	return expression_tree_mutator(node, rewrite_mutator, cxt);
}

static void
force_setting(const char *name, const char *value)
{
	const char *current = GetConfigOption(name, false, false);

	if (strcmp(current, value) != 0)
		(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Settings that the printed text depends on.  Names must be right for a session that searches only
 * pg_catalog, constants must read the same whatever the other session's settings are.  A change of
 * search_path is the dear one, as it has the next name looked up anew.
 */
int
rf_neutral_settings(bool names)
{
	int			nestlevel = NewGUCNestLevel();

	if (names)
		force_setting("search_path", "pg_catalog");
	/* DateStyle's current value includes the field order, so it cannot be compared by name */
	if (DateStyle != USE_ISO_DATES)
		force_setting("datestyle", "ISO");
	if (IntervalStyle != INTSTYLE_POSTGRES)
		force_setting("intervalstyle", "postgres");
	if (extra_float_digits < 3)
		force_setting("extra_float_digits", "3");
	return nestlevel;
}

/* The made-up range table as it is now: printing one expression may add to it. */
static List *
made_up_range_table(BuildContext *cxt, List **names)
{
	List	   *rtable = NIL;
	ListCell   *lc;

	*names = NIL;
	foreach(lc, whole(cxt)->tables)
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

/*
 * With window functions in it an expression is printed as the only column of a query without FROM,
 * which has the windows it refers to: " SELECT rank() OVER (ORDER BY r1.a)".
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

		window->name = NULL;
		window->refname = NULL;
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
	query->jointree = makeFromExpr(NIL, NULL);
	query->hasWindowFuncs = true;

	text = pg_get_querydef(query, false);
	while (isspace((unsigned char) *text))
		text++;
	Assert(strncmp(text, "SELECT ", 7) == 0);
	return text + 7;
}

/*
 * Replaces the marks of sub-selects by their text.  A mark is "$" and a number that no parameter
 * has, outside of quotes.  The deparser doubles quotes inside of quotes, so that counting them tells
 * where one is; there are no comments and no dollar quotes.
 */
static char *
put_subselects(const char *text, List *subselects)
{
	StringInfoData buf;
	char		quote = '\0';

	if (subselects == NIL)
		return pstrdup(text);
	initStringInfo(&buf);
	while (*text != '\0')
	{
		if (*text == quote)
			quote = '\0';
		else if (quote == '\0' && (*text == '\'' || *text == '"'))
			quote = *text;
		else if (quote == '\0' && *text == '$')
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

/* Operators come with parentheses around them, a bare column or function does not need any. */
char *
rf_print_in_statement(Node *expr, BuildContext *cxt)
{
	BuildContext *top = whole(cxt);
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
	text = put_subselects(text, top->subselects);
	top->subselects = outer_subselects;
	return text;
}

char *
rf_print_expr(Index relid, Oid foreigntableid, Expr *expr, List **params, List **param_types)
{
	BuildContext cxt = {NULL, bms_make_singleton(relid)};
	TableRef   *table = palloc0(sizeof(TableRef));
	int			nestlevel = rf_neutral_settings(true);
	char	   *text;

	table->relid = relid;
	table->name = psprintf("r%u", relid);
	table->foreigntableid = foreigntableid;
	cxt.tables = list_make1(table);
	cxt.params = *params;
	cxt.param_types = *param_types;
	text = rf_print_in_statement((Node *) expr, &cxt);

	AtEOXact_GUC(true, nestlevel);
	*params = cxt.params;
	*param_types = cxt.param_types;
	return text;
}

/*
 * A whole row of a table: as one value of no type that the data node knows, NULL where an outer join
 * has found none.
 */
static char *
print_whole_row(Var *var, BuildContext *cxt)
{
	Relation	table = table_open(planner_rt_fetch(var->varno, cxt->root)->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(table);
	StringInfoData buf;
	bool		first = true;

	initStringInfo(&buf);
	appendStringInfo(&buf, "CASE WHEN (r%d.*) IS DISTINCT FROM NULL THEN ROW(", var->varno);
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		if (TupleDescAttr(desc, attno - 1)->attisdropped)
			continue;
		appendStringInfo(&buf, "%sr%d.%s", first ? "" : ", ", var->varno,
						 quote_identifier(remote_column(RelationGetRelid(table), attno)));
		first = false;
	}
	table_close(table, NoLock);
	appendStringInfoString(&buf, ") END");
	return buf.data;
}

/* A column of the SELECT list.  Whole rows stand alone there; those inside of EXISTS are not needed. */
static char *
print_column(Node *expr, BuildContext *cxt, Relids hidden)
{
	if (IsA(expr, Var) && ((Var *) expr)->varattno == 0)
		return bms_is_member(((Var *) expr)->varno, hidden) ? "NULL" : print_whole_row((Var *) expr, cxt);
	return rf_print_in_statement(expr, cxt);
}

/* Appends printed conditions with AND between them. */
static void
append_conditions(StringInfo buf, const char *before, List *conds)
{
	ListCell   *lc;

	foreach(lc, conds)
		appendStringInfo(buf, "%s%s", lc == list_head(conds) ? before : " AND ",
						 (char *) lfirst(lc));
}

/* Expressions or RestrictInfos to printed conditions. */
static List *
print_conditions(BuildContext *cxt, List *exprs)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rf_bare_clauses(exprs))
		result = lappend(result, rf_print_in_statement((Node *) lfirst(lc), cxt));
	return result;
}

/* "(SELECT ...) r5(c1, c2)" */
static char *
select_item(BuildContext *cxt, RfRelInfo *info)
{
	RfSelect   *first = info->select;
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '(');
	rf_append_select(&buf, cxt, first);
	appendStringInfo(&buf, ") %s", table_name(cxt, info->rel->relid));
	while (first->left != NULL)
		first = first->left;
	foreach(lc, first->tlist)
		appendStringInfo(&buf, "%sc%d%s", lc == list_head(first->tlist) ? "(" : ", ",
						 lfirst_node(TargetEntry, lc)->resno, lnext(first->tlist, lc) ? "" : ")");
	return buf.data;
}

/*
 * One foreign table in FROM.  Closed, its conditions go inside; the sub-select bears the names of
 * the table's columns, so nothing outside sees a difference.
 */
static void
append_table(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed, List **conds)
{
	char	   *name = table_name(cxt, info->rel->relid);
	List	   *own = print_conditions(cxt, info->remote_conds);
	const char *item;

	if (info->select != NULL)
		item = select_item(cxt, info);
	else if (info->fragment != NULL && info->fragment->subselect != NULL)
		item = rf_from_item(cxt, info);
	else
		item = psprintf("%s %s", info->relation_name, name);

	/* ONLY is not wanted: what has children there is one table to us */
	if (closed && own != NIL)
	{
		appendStringInfo(buf, "(SELECT * FROM %s", item);
		append_conditions(buf, " WHERE ", own);
		appendStringInfo(buf, ") %s", name);
		return;
	}
	appendStringInfoString(buf, item);
	*conds = list_concat(*conds, own);
}

/* Is its FROM item more than one table?  What stands in EXISTS is not in FROM. */
static bool
is_join_item(RfRelInfo *info)
{
	if (info->outer == NULL)
		return false;
	if (info->jointype == JOIN_SEMI || info->jointype == JOIN_ANTI)
		return is_join_item(info->outer);
	return true;
}

static char *
exists_condition(RfRelInfo *info, const char *inner, List *conds)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s (SELECT FROM %s", info->jointype == JOIN_SEMI ? "EXISTS" : "NOT EXISTS", inner);
	append_conditions(&text, " WHERE ", conds);
	appendStringInfoChar(&text, ')');
	return text.data;
}

/*
 * Two sides of a join in FROM.  Conditions of a side that must hold before the join stand in WHERE
 * where the join cannot add rows that fail them (inner join, outer side of a left join), in ON for
 * the side that gets NULLs, and inside a side of a full join, as both of the former would be wrong
 * there.  A semi or anti join's inner side goes into EXISTS, which is a condition like others.
 */
static void
append_join(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed, List **conds)
{
	bool		exists = info->jointype == JOIN_SEMI || info->jointype == JOIN_ANTI;
	bool		outer_closed = info->jointype == JOIN_FULL ||
		(closed && (info->jointype == JOIN_LEFT || exists));
	bool		inner_closed = info->jointype == JOIN_FULL ||
		(closed && info->jointype == JOIN_RIGHT);
	List	   *outer_conds = NIL;
	List	   *inner_conds = NIL;
	List	   *on = print_conditions(cxt, info->joinclauses);
	List	   *own = print_conditions(cxt, info->remote_conds);
	const char *words = "JOIN";
	StringInfoData outer;
	StringInfoData inner;

	initStringInfo(&outer);
	initStringInfo(&inner);
	append_from(&outer, cxt, info->outer, outer_closed, &outer_conds);
	append_from(&inner, cxt, info->inner, inner_closed, &inner_conds);

	switch (info->jointype)
	{
		case JOIN_SEMI:
		case JOIN_ANTI:
			{
				appendStringInfoString(buf, outer.data);
				*conds = list_concat(*conds, outer_conds);
				*conds = lappend(*conds, exists_condition(info, inner.data, list_concat(on, inner_conds)));
				*conds = list_concat(*conds, own);
				return;
			}
		case JOIN_INNER:
			if (closed)
				on = list_concat(list_concat(list_concat(on, outer_conds), inner_conds), own);
			else
				*conds = list_concat(list_concat(list_concat(*conds, outer_conds), inner_conds),
									 own);
			break;
		case JOIN_LEFT:
			words = "LEFT JOIN";
			on = list_concat(on, inner_conds);
			*conds = list_concat(list_concat(*conds, outer_conds), own);
			break;
		case JOIN_RIGHT:
			words = "RIGHT JOIN";
			on = list_concat(on, outer_conds);
			*conds = list_concat(list_concat(*conds, inner_conds), own);
			break;
		case JOIN_FULL:
			words = "FULL JOIN";
			Assert(outer_conds == NIL && inner_conds == NIL);
			*conds = list_concat(*conds, own);
			break;
		default:
			elog(ERROR, "unsupported join type %d", (int) info->jointype);
	}

	appendStringInfo(buf, "%s %s ", outer.data, words);
	/* joins associate to the left, so a join on the right needs parentheses */
	if (is_join_item(info->inner))
		appendStringInfo(buf, "(%s)", inner.data);
	else
		appendStringInfoString(buf, inner.data);
	if (on == NIL)
		appendStringInfoString(buf, " ON true");
	append_conditions(buf, " ON ", on);
}

/*
 * Appends the FROM item of a base or join relation, and to *conds the conditions on its rows that
 * are not in it.  closed: there must be none of those; see rf_can_close() in join.c.
 */
static void
append_from(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed, List **conds)
{
	if (info->fragment != NULL && info->fragment->moved != NULL)
		appendStringInfoString(buf, rf_from_item(cxt, info));
	else if (info->outer != NULL)
		append_join(buf, cxt, info, closed, conds);
	else
		append_table(buf, cxt, info, closed, conds);
}

/*
 * A column to group by is named by its position in the SELECT list: then it need not be repeated,
 * and a constant can be one.  Above the grouping it may have gone from the list.
 */
static void
append_group_column(StringInfo buf, BuildContext *cxt, List *tlist, Index sortgroupref)
{
	TargetEntry *tle = rf_sortgroupref_tle(sortgroupref, tlist);

	if (tle != NULL)
		appendStringInfo(buf, "%d", tle->resno);
	else
	{
		tle = get_sortgroupref_tle(sortgroupref, cxt->root->processed_tlist);
		appendStringInfoString(buf, rf_print_in_statement((Node *) tle->expr, cxt));
	}
}

static void
append_group_by(StringInfo buf, BuildContext *cxt, List *tlist)
{
	Query	   *parse = cxt->root->parse;
	ListCell   *lc;

	if (parse->groupingSets != NIL)
	{
		/* the planner has made a plain list of sets of what was written */
		appendStringInfoString(buf, " GROUP BY GROUPING SETS (");
		foreach(lc, parse->groupingSets)
		{
			List	   *set = (List *) lfirst(lc);
			ListCell   *ref;

			appendStringInfoString(buf, lc == list_head(parse->groupingSets) ? "(" : ", (");
			foreach(ref, set)
			{
				if (ref != list_head(set))
					appendStringInfoString(buf, ", ");
				append_group_column(buf, cxt, tlist, lfirst_int(ref));
			}
			appendStringInfoChar(buf, ')');
		}
		appendStringInfoChar(buf, ')');
		return;
	}

	/* all of them, whatever our planner found redundant: what remains might be empty */
	foreach(lc, parse->groupClause)
	{
		SortGroupClause *group = lfirst_node(SortGroupClause, lc);

		appendStringInfoString(buf, lc == list_head(parse->groupClause) ? " GROUP BY " : ", ");
		append_group_column(buf, cxt, tlist, group->tleSortGroupRef);
	}
	if (parse->groupClause == NIL && !parse->hasAggs)
		appendStringInfoString(buf, " GROUP BY ()");
}

static void
append_order_by(StringInfo buf, BuildContext *cxt, RfRelInfo *info, List *pathkeys)
{
	ListCell   *lc;

	foreach(lc, pathkeys)
	{
		PathKey    *pathkey = lfirst_node(PathKey, lc);
		Oid			sortop;
		Expr	   *expr = rf_pathkey_expr(cxt->root, info->rel, pathkey, &sortop);
		TargetEntry *tle;
		bool		descending;

		if (expr == NULL)
			elog(ERROR, "no expression of the foreign relation for a sort key");
		appendStringInfoString(buf, lc == list_head(pathkeys) ? " ORDER BY " : ", ");

		/* with DISTINCT the expression must be one of the columns, beyond doubt */
		tle = info->distinct || rf_is_set_operation(info) ? tlist_member(expr, info->tlist) : NULL;
		if (tle != NULL)
			appendStringInfo(buf, "%d", tle->resno);
		else
			appendStringInfoString(buf, rf_print_in_statement((Node *) expr, cxt));

		/* either the type's "<" or its ">", see rf_is_shippable_sort() */
		descending = sortop != lookup_type_cache(exprType((Node *) expr), TYPECACHE_LT_OPR)->lt_opr;
		if (descending)
			appendStringInfoString(buf, " DESC");
		if (pathkey->pk_nulls_first != descending)
			appendStringInfoString(buf, pathkey->pk_nulls_first ? " NULLS FIRST" : " NULLS LAST");
	}
}

static void
append_limit_value(StringInfo buf, const char *word, Node *value, BuildContext *cxt)
{
	if (value == NULL || (IsA(value, Const) && ((Const *) value)->constisnull))
		return;
	if (IsA(value, Const))
		appendStringInfo(buf, " %s " INT64_FORMAT, word, DatumGetInt64(((Const *) value)->constvalue));
	else
		appendStringInfo(buf, " %s %s", word, rf_print_in_statement(value, cxt));
}

/*
 * Of several nodes' rows the first after the offset may all be one node's, so each has to give as
 * many as there may be before the end; OFFSET comes after.
 */
static void
append_limit(StringInfo buf, BuildContext *cxt, RfRelInfo *info)
{
	Query	   *parse = cxt->root->parse;
	Node	   *count = parse->limitCount;
	Node	   *offset = parse->limitOffset;

	if (info->fragment == NULL || info->fragment->placement == RF_PLACED_EVERYWHERE)
	{
		append_limit_value(buf, "LIMIT", count, cxt);
		append_limit_value(buf, "OFFSET", offset, cxt);
		return;
	}
	if (count == NULL || (IsA(count, Const) && ((Const *) count)->constisnull))
		return;
	if (offset == NULL || (IsA(offset, Const) && ((Const *) offset)->constisnull))
		append_limit_value(buf, "LIMIT", count, cxt);
	else
		appendStringInfo(buf, " LIMIT (%s) + (%s)", rf_print_in_statement(count, cxt),
						 rf_print_in_statement(offset, cxt));
}

/* Sub-selects in a statement of one table refer to that table by its name. */
static bool
has_subselects(BuildContext *cxt, RfRelInfo *info, List *columns, List *conditions)
{
	return contain_subplans((Node *) columns) || contain_subplans((Node *) rf_bare_clauses(conditions)) ||
		contain_subplans((Node *) info->having) ||
		(info->scan != NULL && contain_subplans((Node *) cxt->root->processed_tlist));
}

/* The statement of a relation, or one with these columns instead of its own. */
void
rf_append_statement(StringInfo buf, BuildContext *cxt, RfRelInfo *info, List *columns,
				 List *conditions, List *pathkeys, bool limit)
{
	RfRelInfo  *scan = info->scan ? info->scan : info;
	List	   *conds = NIL;
	StringInfoData from;
	ListCell   *lc;

	if (rf_is_set_operation(info))
	{
		rf_append_select(buf, cxt, info->select);
		append_order_by(buf, cxt, info, pathkeys);
		if (limit)
			append_limit(buf, cxt, info);
		return;
	}

	cxt->qualified = scan->outer != NULL || cxt->outer != NULL ||
		has_subselects(cxt, info, columns, conditions);
	rf_add_exchanges(cxt, scan);

	appendStringInfoString(buf, info->distinct ? "SELECT DISTINCT" : "SELECT");
	foreach(lc, columns)
	{
		Var		   *var = (Var *) lfirst(lc);

		appendStringInfoString(buf, lc == list_head(columns) ? " " : ", ");
		if (!cxt->qualified && !cxt->moves && IsA(var, Var))
			appendStringInfoString(buf, quote_identifier(remote_column(table_of(cxt->root, var->varno),
																	   var->varattno)));
		else
			appendStringInfoString(buf, print_column((Node *) var, cxt, info->hidden_relids));
		/* what is written as it was, without a cast that is only implied, would have another type */
		if (cxt->typed && strip_implicit_coercions((Node *) var) != (Node *) var)
			appendStringInfo(buf, "::%s", format_type_with_typemod(exprType((Node *) var),
																   exprTypmod((Node *) var)));
	}

	initStringInfo(&from);
	if (scan->outer != NULL || cxt->moves)
		append_from(&from, cxt, scan, false, &conds);
	else
	{
		if (scan->select != NULL)
			appendStringInfoString(&from, select_item(cxt, scan));
		else
		{
			appendStringInfoString(&from, scan->relation_name);
			if (cxt->qualified)
				appendStringInfo(&from, " %s", table_name(cxt, scan->rel->relid));
		}
		conds = print_conditions(cxt, conditions);
	}
	appendStringInfo(buf, " FROM %s", from.data);
	append_conditions(buf, " WHERE ", conds);

	if (info->grouped)
	{
		/* a sub-select's columns may be others, so they have no numbers */
		append_group_by(buf, cxt, cxt->outer == NULL ? info->tlist : NIL);
		append_conditions(buf, " HAVING ", print_conditions(cxt, info->having));
	}
	append_order_by(buf, cxt, info, pathkeys);
	if (limit)
		append_limit(buf, cxt, info);
}

/* The columns of a base relation's statement; fills retrieved_attrs, which has the same order. */
static List *
base_columns(PlannerInfo *root, RelOptInfo *rel, List **retrieved_attrs)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	/* Planner or executor hold a lock already */
	Relation	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(table);
	AttrNumber	ctid = SelfItemPointerAttributeNumber;
	bool		whole_row = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, info->attrs_used);
	List	   *columns = NIL;
	ListCell   *lc;

	*retrieved_attrs = NIL;
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		if (TupleDescAttr(desc, attno - 1)->attisdropped)
			continue;
		if (whole_row || bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, info->attrs_used))
			*retrieved_attrs = lappend_int(*retrieved_attrs, attno);
	}
	if (bms_is_member(ctid - FirstLowInvalidHeapAttributeNumber, info->attrs_used))
		*retrieved_attrs = lappend_int(*retrieved_attrs, ctid);

	foreach(lc, *retrieved_attrs)
	{
		AttrNumber	attno = lfirst_int(lc);
		Form_pg_attribute attribute = TupleDescAttr(desc, attno - 1);

		if (attno == ctid)
			columns = lappend(columns, makeVar(rel->relid, ctid, TIDOID, -1, InvalidOid, 0));
		else
			columns = lappend(columns, makeVar(rel->relid, attno, attribute->atttypid,
											   attribute->atttypmod, attribute->attcollation, 0));
	}
	table_close(table, NoLock);
	return columns;
}

void
rf_build_query(PlannerInfo *root, RelOptInfo *rel, List *conditions, List *pathkeys, bool limit,
			   const char *locking, bool for_estimate, RfRemoteQuery *out)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfRelInfo  *scan = info->scan ? info->scan : info;
	BuildContext cxt = {root, scan->rel->relids};
	StringInfoData buf;
	List	   *columns = NIL;
	int			nestlevel = rf_neutral_settings(true);
	ListCell   *lc;

	cxt.for_estimate = for_estimate;
	if (IS_SIMPLE_REL(rel) && info->select == NULL)
		columns = base_columns(root, rel, &out->retrieved_attrs);
	else
	{
		out->retrieved_attrs = NIL;
		foreach(lc, info->tlist)
		{
			if (lfirst_node(TargetEntry, lc)->resjunk)
				continue;
			columns = lappend(columns, lfirst_node(TargetEntry, lc)->expr);
			out->retrieved_attrs = lappend_int(out->retrieved_attrs, lfirst_node(TargetEntry, lc)->resno);
		}
		conditions = scan->remote_conds;
	}
	initStringInfo(&buf);
	rf_append_statement(&buf, &cxt, info, columns, conditions, pathkeys, limit);
	if (locking != NULL)
		appendStringInfo(&buf, " %s", locking);

	AtEOXact_GUC(true, nestlevel);

	out->sql = buf.data;
	out->params = cxt.params;
	out->param_types = cxt.param_types;
	out->exchanges = cxt.exchanges;
	out->send_sql = cxt.leaving == NIL ? NULL : rf_sending_statement(cxt.leaving);
	out->join_sql = cxt.leaving == NIL ? NULL : rf_computing_statement(buf.data, cxt.leaving);
}

/* Joins one more FROM item of a relation to those in buf. */
static void
append_item(StringInfo buf, RfRelInfo *rel, const char *words, const char *item)
{
	if (buf->len == 0)
		appendStringInfoString(buf, item);
	else if (is_join_item(rel))
		appendStringInfo(buf, " %s (%s)", words, item);
	else
		appendStringInfo(buf, " %s %s", words, item);
}

/*
 * The target leaves the join: its conditions and those that join it with the rest go to *conds, the
 * rest to buf, which stays empty if that is EXISTS only.  False: it cannot leave.
 *
 * Something outer-joined to the target and others may be so joined to the others alone, as long as
 * the target has no say in it.
 */
static bool
take_target(StringInfo buf, BuildContext *cxt, RfRelInfo *info, Index target, List **conds)
{
	List	   *on;
	bool		in_outer;
	RfRelInfo  *other;
	StringInfoData item;

	if (info->outer == NULL)
	{
		*conds = list_concat(*conds, print_conditions(cxt, info->remote_conds));
		return true;
	}
	in_outer = bms_is_member(target, info->outer->rel->relids);
	other = in_outer ? info->inner : info->outer;
	if (!take_target(buf, cxt, in_outer ? info->outer : info->inner, target, conds))
		return false;

	on = print_conditions(cxt, info->joinclauses);
	initStringInfo(&item);
	if (info->jointype == JOIN_INNER)
	{
		append_from(&item, cxt, other, false, conds);
		append_item(buf, other, "CROSS JOIN", item.data);
		*conds = list_concat(*conds, on);
	}
	else if (in_outer && (info->jointype == JOIN_SEMI || info->jointype == JOIN_ANTI))
	{
		append_from(&item, cxt, other, false, &on);
		*conds = lappend(*conds, exists_condition(info, item.data, on));
	}
	else if (buf->len > 0 && info->jointype == (in_outer ? JOIN_LEFT : JOIN_RIGHT))
	{
		ListCell   *lc;

		foreach(lc, info->joinclauses)
		{
			if (bms_is_member(target, lfirst_node(RestrictInfo, lc)->clause_relids))
				return false;
		}
		append_from(&item, cxt, other, false, &on);
		append_item(buf, other, "LEFT JOIN", item.data);
		if (on == NIL)
			appendStringInfoString(buf, " ON true");
		append_conditions(buf, " ON ", on);
	}
	else
		return false;
	*conds = list_concat(*conds, print_conditions(cxt, info->remote_conds));
	return true;
}

char *
rf_build_join_modify(PlannerInfo *root, RelOptInfo *joinrel, Index target, CmdType operation,
					 List *values, List *attnums, List *returning, List **params, List **param_types)
{
	RfRelInfo  *info = (RfRelInfo *) find_base_rel(root, target)->fdw_private;
	Oid			relid = planner_rt_fetch(target, root)->relid;
	BuildContext cxt = {root, joinrel->relids};
	int			nestlevel = rf_neutral_settings(true);
	bool		update = operation == CMD_UPDATE;
	StringInfoData buf;
	StringInfoData others;
	List	   *conds = NIL;
	bool		possible;
	ListCell   *lc;
	ListCell   *lc2;

	cxt.qualified = true;
	initStringInfo(&buf);
	appendStringInfo(&buf, "%s %s r%u", update ? "UPDATE" : "DELETE FROM", info->relation_name, target);
	forboth(lc, values, lc2, attnums)
		appendStringInfo(&buf, "%s%s = %s", lc == list_head(values) ? " SET " : ", ",
						 quote_identifier(rf_column_name(relid, lfirst_int(lc2))),
						 rf_print_in_statement((Node *) lfirst_node(TargetEntry, lc)->expr, &cxt));

	initStringInfo(&others);
	possible = take_target(&others, &cxt, (RfRelInfo *) joinrel->fdw_private, target, &conds);
	if (others.len > 0)
		appendStringInfo(&buf, " %s %s", update ? "FROM" : "USING", others.data);
	append_conditions(&buf, " WHERE ", conds);
	foreach(lc, returning)
		appendStringInfo(&buf, "%s%s", lc == list_head(returning) ? " RETURNING " : ", ",
						 print_column((Node *) lfirst_node(TargetEntry, lc)->expr, &cxt, NULL));

	AtEOXact_GUC(true, nestlevel);
	*params = cxt.params;
	*param_types = cxt.param_types;
	return possible ? buf.data : NULL;
}
