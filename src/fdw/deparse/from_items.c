/*
 * from_items.c
 * 		FROM items that replace several tables and compute columns: calls of
 * 		rdma_internal.exchange(), and sub-selects.
 *
 * An expression below an outer join does not have the value of the equal expression above it: the
 * join turns it to NULL, for any value that it has for NULLs. So expressions are never matched with
 * the columns of an item by their structure. Besides plain columns, which mean the same everywhere,
 * only two kinds of columns are used, and both are identified by the place where they were
 * computed:
 *
 * - Placeholders. The planner makes one for an expression of a subquery below an outer join that is
 *   used above it. It has a number, and ph_eval_at lists the relations over which it is computed.
 *   Each item that contains these relations has it as a column. The nullable side of an outer join
 *   becomes a sub-select for that purpose:
 * 		a r1 LEFT JOIN (SELECT r2.x, COALESCE(r2.y, 0) FROM b r2) q1(c1, c2) ON ((r1.x = q1.c1))
 * - Keys by which rows were moved. They are used in the ON of the join for which the rows moved,
 *   and in a statement that reads only these rows. There is no outer join in between.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "deparse.h"
#include "querybuild.h"

Relids
rf_evaluated_at(PlannerInfo *root, PlaceHolderVar *placeholder)
{
	ListCell   *lc;

	foreach(lc, root->placeholder_list)
	{
		PlaceHolderInfo *phinfo = lfirst_node(PlaceHolderInfo, lc);

		if (phinfo->phid == placeholder->phid)
			return bms_is_empty(phinfo->ph_lateral) ? phinfo->ph_eval_at : NULL;
	}
	return placeholder->phrels;
}

/*
 * The placeholders of this base or join relation that are used above it and the data node can
 * compute.
 */
static List *
placeholders_of(PlannerInfo *root, RfRelInfo *info)
{
	List	   *exprs;
	List	   *result = NIL;
	ListCell   *lc;

	if (root->placeholder_list == NIL)
		return NIL;
	/* conditions evaluated here will apply above the item that it becomes part of */
	exprs = list_concat_copy(info->rel->reltarget->exprs, rf_bare_clauses(info->local_conds));
	foreach(lc, pull_var_clause((Node *) exprs, PVC_RECURSE_AGGREGATES |
								PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS))
	{
		if (IsA(lfirst(lc), PlaceHolderVar) && rf_is_shippable_expr(root, info->rel, lfirst(lc)))
			result = list_append_unique(result, lfirst(lc));
	}
	return result;
}

/* Returns true if the join adds rows in which all columns of this side are NULL. */
static bool
is_nullable(const RfJoin *join, const RfRelInfo *side)
{
	return join->type == JOIN_FULL || (join->type == JOIN_LEFT && side == join->inner) ||
		(join->type == JOIN_RIGHT && side == join->outer);
}

/*
 * Returns true if the statement would compute it outside all items. relids: where it is evaluated.
 */
static bool
is_computed_outside(RfRelInfo *info, Relids relids)
{
	const RfJoin *join = &info->join;

	if (info->fragment != NULL && info->fragment->moved != NULL)
		return false;
	if (join->outer != NULL && bms_is_subset(relids, join->outer->rel->relids))
		return !is_nullable(join, join->outer) && is_computed_outside(join->outer, relids);
	if (join->outer != NULL && bms_is_subset(relids, join->inner->rel->relids))
		return !is_nullable(join, join->inner) && is_computed_outside(join->inner, relids);
	return true;
}

/* Returns true if this side of an outer join must be a sub-select. */
static bool
is_subselect(PlannerInfo *root, RfRelInfo *join, RfRelInfo *side)
{
	ListCell   *lc;

	if (!is_nullable(&join->join, side) ||
		(side->fragment != NULL && side->fragment->moved != NULL))
		return false;
	/* conditions of its own cannot go to ON here */
	if (join->join.type == JOIN_FULL && !rf_can_close(side))
		return true;
	foreach(lc, placeholders_of(root, side))
	{
		if (is_computed_outside(side, rf_evaluated_at(root, lfirst_node(PlaceHolderVar, lc))))
			return true;
	}
	return false;
}

bool
rf_reads_items(PlannerInfo *root, RfRelInfo *info)
{
	if (info->local_rels != NIL || (info->fragment != NULL && info->fragment->exchanges))
		return true;
	return info->join.outer != NULL &&
		(is_subselect(root, info, info->join.outer) || is_subselect(root, info, info->join.inner) ||
		 rf_reads_items(root, info->join.outer) || rf_reads_items(root, info->join.inner));
}

BuildContext
rf_open_inner(BuildContext *cxt, PlannerInfo *root, Relids relids)
{
	BuildContext inner = {root, relids};

	inner.for_estimate = cxt->for_estimate;
	inner.node = cxt->node;
	inner.typed = true;
	inner.writes = rf_whole_context(cxt)->writes;
	inner.batched = rf_whole_context(cxt)->batched;
	inner.outer = cxt->outer;
	inner.subplan = cxt->subplan;
	inner.flow_rels = cxt->flow_rels;
	inner.exchanges = cxt->exchanges;
	inner.readable = cxt->readable;
	inner.moves = cxt->moves;
	inner.leaving = cxt->leaving;
	inner.params = cxt->params;
	inner.param_types = cxt->param_types;
	return inner;
}

void
rf_close_inner(BuildContext *cxt, BuildContext *inner)
{
	if (inner->unbatched)
		rf_whole_context(cxt)->unbatched = true;
	cxt->exchanges = inner->exchanges;
	cxt->readable = inner->readable;
	cxt->moves = inner->moves;
	cxt->leaving = inner->leaving;
	cxt->params = inner->params;
	cxt->param_types = inner->param_types;
}

/* "(SELECT r2.x, COALESCE(r2.y, 0) FROM b r2) q2(c1, c2)" */
static void
add_subselect(BuildContext *cxt, RfRelInfo *info)
{
	BuildContext *top = rf_whole_context(cxt);
	BuildContext inner = rf_open_inner(cxt, cxt->root, info->rel->relids);
	TableRef   *table = palloc0(sizeof(TableRef));
	StringInfoData item;

	table->root = cxt->root;
	table->derived = info;
	table->exprs = rf_visible_columns(cxt->root, info);
	/* a column list cannot be empty */
	if (table->exprs == NIL)
		table->exprs = list_make1(makeBoolConst(true, false));

	inner.qualified = true;
	initStringInfo(&item);
	appendStringInfoChar(&item, '(');
	rf_append_statement(&item, &inner, info, table->exprs, info->remote_conds, NIL, false);
	rf_close_inner(cxt, &inner);

	table->name = cxt->outer == NULL ? psprintf("q%d", list_length(top->tables) + 1) :
		psprintf("s%d_q%d", cxt->subplan->plan_id, list_length(top->tables) + 1);
	appendStringInfo(&item, ") %s(", table->name);
	for (int i = 1; i <= list_length(table->exprs); i++)
	{
		char	   *name = psprintf("c%d", i);

		table->colnames = lappend(table->colnames, makeString(name));
		appendStringInfo(&item, "%s%s", i == 1 ? "" : ", ", name);
	}
	appendStringInfoChar(&item, ')');
	table->item = item.data;
	top->tables = lappend(top->tables, table);
	cxt->items = true;
}

/*
 * "unnest($1, $2) l3(c1, c2)". The data node is told the types of the parameters, and so knows the
 * columns' types. Or "rdma_internal.exchange('number=1 ...', '') l3(c1 integer, c2 text)", where
 * the parameters are only counted. derived: the rows, or the move of them.
 */
static void
add_local_rows(BuildContext *cxt, RfRelInfo *info, RfRelInfo *derived)
{
	TableRef   *table = palloc0(sizeof(TableRef));
	StringInfoData item;
	StringInfoData names;
	ListCell   *lc;

	table->root = cxt->root;
	table->derived = derived;
	table->name = psprintf("l%d", info->rel->relid);
	initStringInfo(&item);
	initStringInfo(&names);
	foreach(lc, info->tlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;
		Param	   *values = makeNode(Param);
		char	   *name = psprintf("c%d", foreach_current_index(lc) + 1);

		values->paramkind = PARAM_EXEC;
		values->paramid = RF_LOCAL_PARAM(var->varno, var->varattno);
		values->paramtype = get_array_type(var->vartype);
		values->paramtypmod = -1;
		values->paramcollid = var->varcollid;
		values->location = -1;
		table->exprs = lappend(table->exprs, var);
		table->colnames = lappend(table->colnames, makeString(name));
		appendStringInfo(&item, "%s%s", item.len == 0 ? "unnest(" : ", ",
						 rf_print_in_statement((Node *) values, cxt));
		appendStringInfo(&names, "%s%s", names.len == 0 ? "" : ", ", name);
	}
	table->item = psprintf("%s) %s(%s)", item.data, table->name, names.data);
	if (cxt->flow_rels != NIL)
		rf_set_flow_item(cxt, table);
	rf_whole_context(cxt)->tables = lappend(rf_whole_context(cxt)->tables, table);
	cxt->items = true;
}

static void
add_side(BuildContext *cxt, RfRelInfo *join, RfRelInfo *side)
{
	if (is_subselect(cxt->root, join, side))
		add_subselect(cxt, side);
	else
		rf_add_items(cxt, side);
}

void
rf_add_items(BuildContext *cxt, RfRelInfo *info)
{
	bool		inner_first;

	if (rf_is_divided(info))
		add_local_rows(cxt, info->fragment->moved, info);
	else if (info->fragment != NULL && info->fragment->moved != NULL)
		rf_add_exchange(cxt, info);
	if (info->fragment != NULL && info->fragment->moved != NULL)
		return;
	if (info->local)
		add_local_rows(cxt, info, info);
	if (info->join.outer == NULL)
		return;

	/*
	 * While a node waits for the rows of an exchange it stores rows of exchanges with lower
	 * numbers. Compute nodes first wait for the rows of their hash table: the smaller side. An
	 * exchange that filters another exchange comes before that.
	 */
	inner_first = info->fragment != NULL && info->fragment->computed &&
		info->join.inner->est.retrieved_rows * info->join.inner->est.width <
		info->join.outer->est.retrieved_rows * info->join.outer->est.width;
	if (info->join.outer->fragment != NULL && info->join.outer->fragment->filter != NULL)
		inner_first = true;
	add_side(cxt, info, inner_first ? info->join.inner : info->join.outer);
	add_side(cxt, info, inner_first ? info->join.outer : info->join.inner);
}

const char *
rf_from_item(BuildContext *cxt, RfRelInfo *info)
{
	ListCell   *lc;

	foreach(lc, rf_whole_context(cxt)->tables)
	{
		TableRef   *table = (TableRef *) lfirst(lc);

		if (table->derived == info && table->root == cxt->root)
			return table->item;
	}
	return NULL;
}

void
rf_forget_items(BuildContext *cxt, PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, rf_whole_context(cxt)->tables)
	{
		TableRef   *table = (TableRef *) lfirst(lc);

		if (table->derived != NULL && table->root == root)
			table->root = NULL;
	}
}

/* An item is added after its inner items, which are invisible outside it. */
TableRef *
rf_item_of(BuildContext *cxt, Index relid)
{
	List	   *tables = rf_whole_context(cxt)->tables;

	for (int i = list_length(tables) - 1; i >= 0; i--)
	{
		TableRef   *table = (TableRef *) list_nth(tables, i);

		if (table->derived != NULL && table->root == cxt->root &&
			bms_is_member(relid, table->derived->rel->relids))
			return table;
	}
	return NULL;
}

/* The same column, regardless of joins above it. */
static bool
is_column(Expr *a, Expr *b)
{
	if (IsA(a, Var) && IsA(b, Var))
		return ((Var *) a)->varno == ((Var *) b)->varno &&
			((Var *) a)->varattno == ((Var *) b)->varattno;
	return IsA(a, PlaceHolderVar) && IsA(b, PlaceHolderVar) &&
		((PlaceHolderVar *) a)->phid == ((PlaceHolderVar *) b)->phid;
}

AttrNumber
rf_item_column(TableRef *table, Expr *column)
{
	ListCell   *lc;

	foreach(lc, table->exprs)
	{
		if (is_column(lfirst(lc), column))
			return foreach_current_index(lc) + 1;
	}
	return 0;
}

static Expr *
table_column(PlannerInfo *root, Index relid, AttrNumber attno)
{
	Oid			type = TIDOID;
	int32		typmod = -1;
	Oid			collation = InvalidOid;

	if (attno == RF_ROW_TABLE)
		type = OIDOID;
	else if (attno != SelfItemPointerAttributeNumber)
		get_atttypetypmodcoll(planner_rt_fetch(relid, root)->relid, attno, &type, &typmod,
							  &collation);
	return (Expr *) makeVar(relid, attno, type, typmod, collation, 0);
}

/* UPDATE builds a new row from the whole old one: all its columns. */
static List *
add_row(PlannerInfo *root, List *columns, Index relid)
{
	/* The planner has locked it. */
	Relation	rel = table_open(planner_rt_fetch(relid, root)->relid, NoLock);
	ListCell   *lc;

	foreach(lc, rf_all_columns(rel))
		columns = list_append_unique(columns, table_column(root, relid, lfirst_int(lc)));
	table_close(rel, NoLock);
	return columns;
}

/* Its own columns, or the used columns of the table. */
static List *
plain_columns(PlannerInfo *root, RfRelInfo *info)
{
	Index		relid = info->rel->relid;
	List	   *columns = NIL;
	ListCell   *lc;
	int			member = -1;

	foreach(lc, info->tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		if (tle->resjunk)
			continue;
		if (IsA(var, Var) && var->varattno == 0 &&
			bms_is_member(var->varno, root->all_result_relids))
			columns = add_row(root, columns, var->varno);
		else
			columns = list_append_unique(columns, var);
	}
	if (info->tlist != NIL || relid == 0)
		return columns;

	while ((member = bms_next_member(info->attrs_used, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno == 0 && bms_is_member(relid, root->all_result_relids))
			columns = add_row(root, columns, relid);
		else if (attno != 0)
			columns = list_append_unique(columns, table_column(root, relid, attno));
		else
			columns = lappend(columns,
							  makeWholeRowVar(planner_rt_fetch(relid, root), relid, 0, false));
	}
	return columns;
}

List *
rf_visible_columns(PlannerInfo *root, RfRelInfo *info)
{
	return list_concat_unique(plain_columns(root, info), placeholders_of(root, info));
}
