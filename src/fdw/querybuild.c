/*
 * querybuild.c
 *		The text of the remote statement.
 *
 * The frame (SELECT list, FROM, locking) is written here; expressions are printed by the server's
 * own deparser.  It is given a made-up range table with one entry, a CTE reference whose columns
 * bear the remote names: the deparser takes such names as they come, never looks into the catalogs
 * for them, and leaves out the qualification as long as there is one relation.  So the result reads
 * like what a user would type: SELECT a, b FROM public.t WHERE (a > 5).
 *
 * deparse_expression() is preferred over pg_get_querydef() because it breaks no lines, takes no
 * locks and does not scribble on its input.
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
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "rdma_fdw/fdw.h"

typedef struct RewriteContext
{
	Index		relid;			/* of the foreign table in the query */
	Oid			foreigntableid;
	bool		for_estimate;
	List	   *colnames;		/* remote column names so far, String */
	List	   *params;			/* expressions whose values become $1, $2, ... */
	List	   *param_types;
} RewriteContext;

char *
rf_remote_relation_name(const RfTableOptions *opts)
{
	return psprintf("%s.%s", quote_identifier(opts->schema_name),
					quote_identifier(opts->table_name));
}

static const char *
remote_column(Oid relid, AttrNumber attno)
{
	return attno == SelfItemPointerAttributeNumber ? "ctid" : rf_column_name(relid, attno);
}

/*
 * The number of a remote column in the made-up relation.  Two columns here may stand for the same
 * remote one; it then gets one number, as the deparser renames duplicates.
 */
static AttrNumber
column_number(RewriteContext *cxt, AttrNumber attno)
{
	const char *name = remote_column(cxt->foreigntableid, attno);
	ListCell   *lc;

	foreach(lc, cxt->colnames)
	{
		if (strcmp(strVal(lfirst(lc)), name) == 0)
			return foreach_current_index(lc) + 1;
	}
	cxt->colnames = lappend(cxt->colnames, makeString(pstrdup(name)));
	return list_length(cxt->colnames);
}

static int
param_number(RewriteContext *cxt, Node *node)
{
	ListCell   *lc;

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

static Node *
rewrite_mutator(Node *node, RewriteContext *cxt)
{
	if (node == NULL)
		return NULL;

	if (IsA(node, Var) && ((Var *) node)->varno == cxt->relid)
	{
		Var		   *var = (Var *) node;

		/* A new node, so that nothing of the original (varnosyn!) can mislead the deparser. */
		return (Node *) makeVar(1, column_number(cxt, var->varattno), var->vartype,
								var->vartypmod, var->varcollid, 0);
	}

	if (IsA(node, Var) || IsA(node, Param))
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
 * pg_catalog, constants must read the same whatever the other session's settings are.
 */
int
rf_neutral_settings(void)
{
	int			nestlevel = NewGUCNestLevel();

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

/* Prints one condition; a List of them is printed by the caller with AND between. */
static char *
print_expression(Node *expr, RewriteContext *cxt)
{
	PlannedStmt *stmt = makeNode(PlannedStmt);
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_CTE;
	rte->ctename = "r1";
	rte->eref = makeAlias("r1", cxt->colnames);
	rte->inFromCl = true;
	stmt->commandType = CMD_SELECT;
	stmt->rtable = list_make1(rte);

	return deparse_expression(expr, deparse_context_for_plan_tree(stmt, list_make1("r1")),
							  false, false);
}

char *
rf_print_expr(Index relid, Oid foreigntableid, Expr *expr, List **params, List **param_types)
{
	RewriteContext cxt = {relid, foreigntableid, false, NIL, *params, *param_types};
	int			nestlevel = rf_neutral_settings();
	char	   *text = print_expression(rewrite_mutator((Node *) expr, &cxt), &cxt);

	AtEOXact_GUC(true, nestlevel);
	*params = cxt.params;
	*param_types = cxt.param_types;
	return text;
}

/* Appends the SELECT list and fills retrieved_attrs, which has the same order. */
static void
append_columns(StringInfo buf, Relation rel, Bitmapset *attrs_used, List **retrieved_attrs)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		whole_row = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, attrs_used);
	AttrNumber	ctid = SelfItemPointerAttributeNumber;

	*retrieved_attrs = NIL;
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		if (TupleDescAttr(desc, attno - 1)->attisdropped)
			continue;
		if (whole_row || bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, attrs_used))
			*retrieved_attrs = lappend_int(*retrieved_attrs, attno);
	}
	if (bms_is_member(ctid - FirstLowInvalidHeapAttributeNumber, attrs_used))
		*retrieved_attrs = lappend_int(*retrieved_attrs, ctid);

	for (int i = 0; i < list_length(*retrieved_attrs); i++)
	{
		AttrNumber	attno = list_nth_int(*retrieved_attrs, i);

		appendStringInfo(buf, "%s%s", i == 0 ? " " : ", ",
						 quote_identifier(remote_column(RelationGetRelid(rel), attno)));
	}
}

void
rf_build_scan_query(PlannerInfo *root, RelOptInfo *baserel, Bitmapset *attrs_used,
					List *conditions, const char *locking, bool for_estimate,
					RfRemoteQuery *out)
{
	RfRelInfo  *info = (RfRelInfo *) baserel->fdw_private;
	Oid			foreigntableid = planner_rt_fetch(baserel->relid, root)->relid;
	RewriteContext cxt = {baserel->relid, foreigntableid, for_estimate};
	StringInfoData buf;
	Relation	rel;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "SELECT");

	/* Planner or executor hold a lock already */
	rel = table_open(foreigntableid, NoLock);
	append_columns(&buf, rel, attrs_used, &out->retrieved_attrs);
	table_close(rel, NoLock);

	/* ONLY is not wanted: what has children there is one table to us */
	appendStringInfo(&buf, " FROM %s", info->relation_name);

	if (conditions != NIL)
	{
		int			nestlevel = rf_neutral_settings();
		ListCell   *lc;

		foreach(lc, conditions)
		{
			Node	   *expr = rewrite_mutator((Node *) lfirst(lc), &cxt);
			char	   *text = print_expression(expr, &cxt);

			/* Operators come with parentheses, a bare column or function does not need any. */
			appendStringInfo(&buf, "%s%s", lc == list_head(conditions) ? " WHERE " : " AND ", text);
		}

		AtEOXact_GUC(true, nestlevel);
	}

	if (locking != NULL)
		appendStringInfo(&buf, " %s", locking);

	out->sql = buf.data;
	out->params = cxt.params;
	out->param_types = cxt.param_types;
}
