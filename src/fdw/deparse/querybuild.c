/*
 * querybuild.c
 *		The text of the remote statement.
 *
 * The frame (SELECT list, FROM, WHERE, GROUP BY, ..., locking) is written here; querybuild_expr.c
 * prints the expressions.  The result reads like what a user would type:
 *		SELECT a, b FROM public.t WHERE (a > 5)
 *		SELECT count(*), r1.a FROM public.t r1 JOIN public.u r2 ON ((r1.b = r2.b)) GROUP BY 2
 */
#include "postgres.h"

#include "access/table.h"
#include "common/int.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/plan_node.h"

#include "deparse.h"
#include "planned_exchange.h"
#include "querybuild.h"

static void append_from(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed,
						List **conds);

/*
 * A whole row of a table: one value of a type that the data node does not know, NULL where an outer
 * join found no row. Moved rows are rows that UPDATE writes, which an outer join never
 * null-extends.
 */
static char *
print_whole_row(Var *var, BuildContext *cxt)
{
	Relation	table = table_open(planner_rt_fetch(var->varno, cxt->root)->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(table);
	bool		moved = rf_item_of(cxt, var->varno) != NULL;
	StringInfoData buf;
	bool		first = true;

	initStringInfo(&buf);
	if (!moved)
		appendStringInfo(&buf, "CASE WHEN (r%d.*) IS DISTINCT FROM NULL THEN ", var->varno);
	appendStringInfoString(&buf, "ROW(");
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attno - 1);
		Var		   *column;

		if (att->attisdropped)
			continue;
		column = makeVar(var->varno, attno, att->atttypid, att->atttypmod, att->attcollation, 0);
		appendStringInfo(&buf, "%s%s", first ? "" : ", ",
						 rf_print_in_statement((Node *) column, cxt));
		first = false;
	}
	table_close(table, NoLock);
	appendStringInfoString(&buf, moved ? ")" : ") END");
	return buf.data;
}

/*
 * A column of the SELECT list. Whole rows are columns of their own; those inside EXISTS are not
 * needed, and equal columns replace those inside EXISTS.
 */
static char *
print_column(Node *expr, BuildContext *cxt, RfRelInfo *info)
{
	bool		hidden = IsA(expr, Var) &&
		bms_is_member(((Var *) expr)->varno, info->join.hidden_relids);
	TableRef   *item = IsA(expr, Var) ? rf_item_of(cxt, ((Var *) expr)->varno) : NULL;

	/* the result of a FROM item is a column, regardless of its inside, except inside EXISTS */
	if (item != NULL && rf_item_column(item, (Expr *) expr) != 0 &&
		!bms_is_subset(item->derived->rel->relids, info->join.hidden_relids))
		return rf_print_in_statement(expr, cxt);
	if (IsA(expr, Var) && ((Var *) expr)->varattno == 0)
		return hidden ? "NULL" : print_whole_row((Var *) expr, cxt);
	return rf_print_in_statement(hidden ? (Node *) rf_stand_in(info, (Var *) expr) : expr, cxt);
}

/* A cast to the expression's own type, behind the printed expression. */
static void
append_cast(StringInfo buf, Node *expr)
{
	appendStringInfo(buf, "::%s", format_type_with_typemod(exprType(expr), exprTypmod(expr)));
}

/*
 * The value that INSERT assigns to a column. Its type is the local column's, to which the remote
 * column converts again: without a cast of ours, as an explicit cast would cut off too long values.
 * But the rounding of numbers and times is not left to it.
 */
static void
append_assigned(StringInfo buf, BuildContext *cxt, RfRelInfo *info, Node *value)
{
	Oid			type = exprType(value);

	if (IsA(value, Const) && ((Const *) value)->constisnull)
		appendStringInfoString(buf, "NULL");
	else if (rf_is_local_value(value) || (IsA(value, Const) && type == TEXTOID))
		appendStringInfoString(buf, rf_assigned_parameter(value, cxt));
	else
		appendStringInfoString(buf, print_column(value, cxt, info));
	if (!IsA(value, Const) && strip_implicit_coercions(value) != value && exprTypmod(value) >= 0 &&
		(type == NUMERICOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID || type == TIMEOID ||
		 type == TIMETZOID || type == INTERVALOID))
		append_cast(buf, value);
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

/*
 * A query without rows and with these columns, for a node without a partition. Their collations do
 * not matter.
 */
static void
append_nothing(StringInfo buf, List *tlist)
{
	ListCell   *lc;

	appendStringInfoString(buf, "SELECT");
	foreach(lc, tlist)
	{
		appendStringInfo(buf, "%s NULL", lc == list_head(tlist) ? "" : ",");
		append_cast(buf, (Node *) lfirst_node(TargetEntry, lc)->expr);
	}
	appendStringInfoString(buf, " WHERE false");
}

/* "(SELECT ...) r5(c1, c2)" */
static char *
select_item(BuildContext *cxt, RfRelInfo *info)
{
	RfSelect   *first = info->select;
	RfSelect   *select = first;
	StringInfoData buf;
	ListCell   *lc;

	if (info->parts != NIL)
	{
		select = list_nth(info->parts, cxt->node->place);
		cxt->node->own = true;
	}
	initStringInfo(&buf);
	appendStringInfoChar(&buf, '(');
	if (select != NULL)
		rf_append_select(&buf, cxt, select);
	else
		append_nothing(&buf, first->tlist);
	appendStringInfo(&buf, ") %s", rf_statement_table_name(cxt, info->rel->relid));
	while (first->left != NULL)
		first = first->left;
	foreach(lc, first->tlist)
		appendStringInfo(&buf, "%sc%d%s", lc == list_head(first->tlist) ? "(" : ", ",
						 lfirst_node(TargetEntry, lc)->resno, lnext(first->tlist, lc) ? "" : ")");
	return buf.data;
}

/*
 * One foreign table in FROM. If closed, its conditions go inside; the sub-select uses the names of
 * the table's columns, so the outside is unaffected.
 */
static void
append_table(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed, List **conds)
{
	char	   *name = rf_statement_table_name(cxt, info->rel->relid);
	List	   *own = print_conditions(cxt, info->remote_conds);
	const char *item;

	if (info->select != NULL)
		item = select_item(cxt, info);
	else
		item = psprintf("%s %s", info->relation_name, name);

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

/* Returns true if its FROM item has more than one table. Tables in EXISTS are not in FROM. */
static bool
is_join_item(BuildContext *cxt, RfRelInfo *info)
{
	if (info->join.outer == NULL || rf_from_item(cxt, info) != NULL)
		return false;
	if (info->join.type == JOIN_SEMI || info->join.type == JOIN_ANTI)
		return is_join_item(cxt, info->join.outer);
	return true;
}

static char *
exists_condition(RfRelInfo *info, const char *inner, List *conds)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s (SELECT FROM %s",
					 info->join.type == JOIN_SEMI ? "EXISTS" : "NOT EXISTS", inner);
	append_conditions(&text, " WHERE ", conds);
	appendStringInfoChar(&text, ')');
	return text.data;
}

/*
 * Two sides of a join in FROM. Conditions of a side that must hold before the join go to WHERE if
 * the join cannot add rows that fail them (inner join, outer side of a left join), to ON for the
 * nullable side, and inside a side of a full join, where both of the former would be wrong. A semi
 * or anti join's inner side goes into EXISTS, which is an ordinary condition.
 */
static void
append_join(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed, List **conds)
{
	bool		exists = info->join.type == JOIN_SEMI || info->join.type == JOIN_ANTI;
	bool		outer_closed = info->join.type == JOIN_FULL ||
		(closed && (info->join.type == JOIN_LEFT || exists));
	bool		inner_closed = info->join.type == JOIN_FULL ||
		(closed && info->join.type == JOIN_RIGHT);
	List	   *outer_conds = NIL;
	List	   *inner_conds = NIL;
	List	   *on;
	List	   *own;
	const char *words = "JOIN";
	StringInfoData outer;
	StringInfoData inner;

	cxt->at = info;
	on = print_conditions(cxt, info->join.clauses);
	cxt->at = NULL;
	own = print_conditions(cxt, info->remote_conds);
	initStringInfo(&outer);
	initStringInfo(&inner);
	append_from(&outer, cxt, info->join.outer, outer_closed, &outer_conds);
	append_from(&inner, cxt, info->join.inner, inner_closed, &inner_conds);

	switch (info->join.type)
	{
		case JOIN_SEMI:
		case JOIN_ANTI:
			appendStringInfoString(buf, outer.data);
			*conds = list_concat(*conds, outer_conds);
			*conds = lappend(*conds,
							 exists_condition(info, inner.data, list_concat(on, inner_conds)));
			*conds = list_concat(*conds, own);
			return;
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
			elog(ERROR, "unsupported join type %d", (int) info->join.type);
	}

	appendStringInfo(buf, "%s %s ", outer.data, words);
	/* joins associate to the left, so a join on the right needs parentheses */
	if (is_join_item(cxt, info->join.inner))
		appendStringInfo(buf, "(%s)", inner.data);
	else
		appendStringInfoString(buf, inner.data);
	if (on == NIL)
		appendStringInfoString(buf, " ON true");
	append_conditions(buf, " ON ", on);
}

/*
 * Appends the FROM item of a base or join relation, and to *conds the conditions on its rows that
 * the item does not contain. closed: there must be no such conditions; see rf_can_close() in
 * join.c.
 */
static void
append_from(StringInfo buf, BuildContext *cxt, RfRelInfo *info, bool closed, List **conds)
{
	const char *item = rf_from_item(cxt, info);

	if (item != NULL)
		appendStringInfoString(buf, item);
	else if (info->join.outer != NULL)
		append_join(buf, cxt, info, closed, conds);
	else
		append_table(buf, cxt, info, closed, conds);
}

/*
 * A grouping column is named by its position in the SELECT list: then it need not be repeated, and
 * may be a constant. Above the grouping the list may lack it; there a constant gets a cast, since
 * an integer alone would be a position and other constants an error. So does a parameter, which may
 * be a constant in the query around a sub-select. Implicit casts are not printed by themselves.
 */
static void
append_group_column(StringInfo buf, BuildContext *cxt, List *tlist, Index sortgroupref)
{
	TargetEntry *tle = rf_sortgroupref_tle(sortgroupref, tlist);
	Node	   *expr;
	Node	   *bare;

	if (tle != NULL)
	{
		appendStringInfo(buf, "%d", tle->resno);
		return;
	}
	expr = (Node *) get_sortgroupref_tle(sortgroupref, cxt->root->processed_tlist)->expr;
	appendStringInfoString(buf, rf_print_in_statement(expr, cxt));
	bare = strip_implicit_coercions(expr);
	if (IsA(bare, Const) || IsA(bare, Param) || exprType(bare) != exprType(expr))
		append_cast(buf, expr);
}

static void
append_group_by(StringInfo buf, BuildContext *cxt, List *tlist)
{
	Query	   *parse = cxt->root->parse;
	ListCell   *lc;

	if (parse->groupingSets != NIL)
	{
		/* the planner has flattened the grouping sets into a plain list */
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

	/* all of them, even those our planner found redundant: the rest might be empty */
	foreach(lc, parse->groupClause)
	{
		SortGroupClause *group = lfirst_node(SortGroupClause, lc);

		appendStringInfoString(buf, lc == list_head(parse->groupClause) ? " GROUP BY " : ", ");
		append_group_column(buf, cxt, tlist, group->tleSortGroupRef);
	}
	if (parse->groupClause == NIL && !parse->hasAggs)
		appendStringInfoString(buf, " GROUP BY ()");
}

/* The sort keys of the pathkeys, RfSortKeys; *exprs: those expressions that must be written. */
static List *
sort_keys(BuildContext *cxt, RfRelInfo *info, List *pathkeys, List **exprs)
{
	List	   *keys = NIL;
	ListCell   *lc;

	*exprs = NIL;
	foreach(lc, pathkeys)
	{
		RfSortKey  *key = palloc(sizeof(RfSortKey));

		if (!rf_sort_key(cxt->root, info->rel, lfirst_node(PathKey, lc), key))
			elog(ERROR, "no expression of the foreign relation for a sort key");
		keys = lappend(keys, key);
		if (key->expr != NULL)
			*exprs = lappend(*exprs, key->expr);
	}
	return keys;
}

/* The position of an expression among the columns, from 1; 0: not among them. */
static int
place_among(List *columns, Node *expr)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		if (equal(lfirst(lc), expr))
			return foreach_current_index(lc) + 1;
	}
	return 0;
}

/*
 * ORDER BY reads a bare name as a column of the SELECT list, where an expression may have the name
 * of its function: returns true if a column of the table could be misread so.
 */
static bool
names_may_clash(List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		if (!IsA(lfirst(lc), Var))
			return true;
	}
	return false;
}

/*
 * With DISTINCT and set operations a key must be one of the columns, and its number names it
 * without doubt. A number also names a key whose name could be another column's.
 */
static void
append_order_by(StringInfo buf, BuildContext *cxt, RfRelInfo *info, List *columns, List *keys,
				List *pathkeys)
{
	bool		numbers = info->upper.distinct || rf_is_set_operation(info);
	bool		clash = !cxt->qualified && names_may_clash(columns);
	const char *before = " ORDER BY ";
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, keys, lc2, pathkeys)
	{
		RfSortKey  *key = (RfSortKey *) lfirst(lc);
		Node	   *expr = (Node *) key->expr;
		bool		nulls_first = lfirst_node(PathKey, lc2)->pk_nulls_first;
		bool		descending;

		if (expr == NULL)
			continue;
		appendStringInfoString(buf, before);
		before = ", ";
		if (numbers || (clash && IsA(expr, Var)))
		{
			int			place = place_among(columns, expr);

			if (place == 0)
				elog(ERROR, "a sort key is not among the columns of the statement");
			appendStringInfo(buf, "%d", place);
		}
		else
		{
			appendStringInfoString(buf, rf_print_in_statement(expr, cxt));
			/* an implicit cast is not written; without it the order may differ */
			if (exprType(strip_implicit_coercions(expr)) != exprType(expr))
				append_cast(buf, expr);
		}

		/* either the type's "<" or its ">", see rf_is_shippable_sort() */
		descending = key->sortop != lookup_type_cache(exprType(expr), TYPECACHE_LT_OPR)->lt_opr;
		if (descending)
			appendStringInfoString(buf, " DESC");
		if (nulls_first != descending)
			appendStringInfoString(buf, nulls_first ? " NULLS FIRST" : " NULLS LAST");
	}
}

/* No value is as good as NULL. */
static bool
is_null(Node *value)
{
	return value == NULL || (IsA(value, Const) && ((Const *) value)->constisnull);
}

static void
append_limit_value(StringInfo buf, const char *word, Node *value, BuildContext *cxt)
{
	if (is_null(value))
		return;
	if (IsA(value, Const))
		appendStringInfo(buf, " %s " INT64_FORMAT, word,
						 DatumGetInt64(((Const *) value)->constvalue));
	else
		appendStringInfo(buf, " %s %s", word, rf_print_in_statement(value, cxt));
}

/* So many rows and the offset may be more than a number of rows can be; then there is no limit. */
static void
append_limit_sum(StringInfo buf, Node *count, Node *offset, BuildContext *cxt)
{
	if (IsA(count, Const) && IsA(offset, Const))
	{
		int64		sum;

		if (!pg_add_s64_overflow(DatumGetInt64(((Const *) count)->constvalue),
								 DatumGetInt64(((Const *) offset)->constvalue), &sum))
			appendStringInfo(buf, " LIMIT " INT64_FORMAT, sum);
		return;
	}
	/* LEAST passes over NULL, which is no limit, too */
	appendStringInfo(buf, " LIMIT LEAST((%s)::numeric + (%s), " INT64_FORMAT ")::bigint",
					 rf_print_in_statement(count, cxt), rf_print_in_statement(offset, cxt),
					 PG_INT64_MAX);
}

/*
 * With several nodes the first rows after the offset may all come from one node, so each returns
 * offset plus limit rows; OFFSET is applied afterwards.
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
	}
	else if (is_null(count) || is_null(offset))
		append_limit_value(buf, "LIMIT", count, cxt);
	else
		append_limit_sum(buf, count, offset, cxt);
}

/* Sub-selects in a statement of one table refer to that table by its name. */
static bool
has_subselects(BuildContext *cxt, RfRelInfo *info, List *columns, List *conditions, List *sorted)
{
	return contain_subplans((Node *) columns) ||
		contain_subplans((Node *) rf_bare_clauses(conditions)) ||
		contain_subplans((Node *) info->upper.having) || contain_subplans((Node *) sorted) ||
		(info->upper.scan != NULL && contain_subplans((Node *) cxt->root->processed_tlist));
}

/* Returns true if the query sorts by a column of the table that is not in the SELECT list. */
static bool
sorts_by_others(List *columns, List *sorted)
{
	ListCell   *lc;

	foreach(lc, sorted)
	{
		if (IsA(lfirst(lc), Var) && place_among(columns, (Node *) lfirst(lc)) == 0)
			return true;
	}
	return false;
}

/* Set operations: the columns belong to the operation, and have no names of their own. */
static void
append_set_operation(StringInfo buf, BuildContext *cxt, RfRelInfo *info, List *pathkeys, bool limit)
{
	List	   *columns = get_tlist_exprs(info->tlist, true);
	List	   *sorted;

	rf_append_select(buf, cxt, info->select);
	append_order_by(buf, cxt, info, columns, sort_keys(cxt, info, pathkeys, &sorted), pathkeys);
	if (limit)
		append_limit(buf, cxt, info);
}

/* The statement of a relation, or one with these columns instead of its own. */
void
rf_append_statement(StringInfo buf, BuildContext *cxt, RfRelInfo *info, List *columns,
					List *conditions, List *pathkeys, bool limit)
{
	RfRelInfo  *scan = info->upper.scan ? info->upper.scan : info;
	List	   *conds = NIL;
	List	   *sorted;
	List	   *keys;
	StringInfoData from;
	ListCell   *lc;

	if (rf_is_set_operation(info))
	{
		append_set_operation(buf, cxt, info, pathkeys, limit);
		return;
	}

	keys = sort_keys(cxt, info, pathkeys, &sorted);
	cxt->qualified |= scan->join.outer != NULL || cxt->outer != NULL ||
		has_subselects(cxt, info, columns, conditions, sorted) ||
		(names_may_clash(columns) && sorts_by_others(columns, sorted));
	rf_add_items(cxt, scan);
	if (rf_from_item(cxt, scan) != NULL)
		cxt->at = scan;

	appendStringInfoString(buf, info->upper.distinct ? "SELECT DISTINCT" : "SELECT");
	foreach(lc, columns)
	{
		Node	   *expr = (Node *) lfirst(lc);
		Node	   *bare = strip_implicit_coercions(expr);

		appendStringInfoString(buf, lc == list_head(columns) ? " " : ", ");
		if (cxt->assigned)
		{
			append_assigned(buf, cxt, info, expr);
			continue;
		}
		if (!cxt->qualified && !cxt->items && IsA(expr, Var))
		{
			Var		   *var = (Var *) expr;
			Oid			table = rf_statement_table(cxt->root, var->varno);

			appendStringInfoString(buf, quote_identifier(rf_remote_column(table, var->varattno)));
		}
		else
			appendStringInfoString(buf, print_column(expr, cxt, info));

		/*
		 * printed without its implicit cast, the expression would have another type, in which
		 * other values may be equal
		 */
		if (bare != expr && (cxt->typed || exprType(bare) != exprType(expr)))
			append_cast(buf, expr);
	}

	initStringInfo(&from);
	if (scan->join.outer != NULL || cxt->items)
	{
		append_from(&from, cxt, scan, false, &conds);
		conds = list_concat(conds, print_conditions(cxt, cxt->keys));
	}
	else
	{
		if (scan->select != NULL)
			appendStringInfoString(&from, select_item(cxt, scan));
		else
		{
			appendStringInfoString(&from, scan->relation_name);
			if (cxt->qualified)
				appendStringInfo(&from, " %s", rf_statement_table_name(cxt, scan->rel->relid));
		}
		conds = print_conditions(cxt, conditions);
	}
	appendStringInfo(buf, " FROM %s", from.data);
	append_conditions(buf, " WHERE ", conds);

	if (info->upper.grouped)
	{
		/* a sub-select may have other columns, so they have no numbers */
		append_group_by(buf, cxt, cxt->outer == NULL ? info->tlist : NIL);
		append_conditions(buf, " HAVING ", print_conditions(cxt, info->upper.having));
	}
	append_order_by(buf, cxt, info, columns, keys, pathkeys);
	if (limit)
		append_limit(buf, cxt, info);
}

/* The columns of a base relation's statement; fills retrieved_attrs, which has the same order. */
static List *
base_columns(PlannerInfo *root, RelOptInfo *rel, List **retrieved_attrs)
{
	Bitmapset  *used = ((RfRelInfo *) rel->fdw_private)->attrs_used;
	const AttrNumber low = FirstLowInvalidHeapAttributeNumber;

	/* Planner or executor hold a lock already */
	Relation	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(table);
	AttrNumber	ctid = SelfItemPointerAttributeNumber;
	List	   *columns = NIL;

	*retrieved_attrs = NIL;
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

		/* a whole row needs all of them */
		if (att->attisdropped ||
			(!bms_is_member(0 - low, used) && !bms_is_member(attno - low, used)))
			continue;
		*retrieved_attrs = lappend_int(*retrieved_attrs, attno);
		columns = lappend(columns, makeVar(rel->relid, attno, att->atttypid, att->atttypmod,
										   att->attcollation, 0));
	}
	table_close(table, NoLock);
	if (bms_is_member(ctid - low, used))
	{
		*retrieved_attrs = lappend_int(*retrieved_attrs, ctid);
		columns = lappend(columns, makeVar(rel->relid, ctid, TIDOID, -1, InvalidOid, 0));
	}
	if (bms_is_member(RF_ROW_TABLE - low, used))
	{
		*retrieved_attrs = lappend_int(*retrieved_attrs, RF_ROW_TABLE);
		columns = lappend(columns, makeVar(rel->relid, RF_ROW_TABLE, OIDOID, -1, InvalidOid, 0));
	}
	return columns;
}

List *
rf_statement_columns(PlannerInfo *root, RelOptInfo *rel, List **retrieved_attrs)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	List	   *columns = NIL;
	ListCell   *lc;

	if (IS_SIMPLE_REL(rel) && info->select == NULL)
		return base_columns(root, rel, retrieved_attrs);
	*retrieved_attrs = NIL;
	foreach(lc, info->tlist)
	{
		if (lfirst_node(TargetEntry, lc)->resjunk)
			continue;
		columns = lappend(columns, lfirst_node(TargetEntry, lc)->expr);
		*retrieved_attrs = lappend_int(*retrieved_attrs, lfirst_node(TargetEntry, lc)->resno);
	}
	return columns;
}

/* The exchanges of rows that are here, whose fields rf_set_flow_item() sets. */
static List *
flow_exchanges(List *rels)
{
	List	   *exchanges = NIL;

	for (int i = 0; i < list_length(rels); i++)
		exchanges = lappend(exchanges, rf_make_plan_node(RfPlannedExchange));
	return exchanges;
}

RfRemoteQuery *
rf_build_query(PlannerInfo *root, RelOptInfo *rel, List *conditions, List *pathkeys, bool limit,
			   const char *locking, bool for_estimate, List *flow_rels)
{
	RfRemoteQuery *out = palloc0(sizeof(RfRemoteQuery));
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfRelInfo  *scan = info->upper.scan ? info->upper.scan : info;
	NodeText	node = {0};
	BuildContext cxt = {root, scan->rel->relids};
	BuildContext fresh;
	StringInfoData buf;
	List	   *columns;
	int			nestlevel = rf_neutral_settings(RF_TEXT_ALL);

	cxt.for_estimate = for_estimate;
	cxt.flow_rels = flow_rels;
	cxt.exchanges = flow_exchanges(flow_rels);
	cxt.node = &node;
	columns = rf_statement_columns(root, rel, &out->retrieved_attrs);
	if (!IS_SIMPLE_REL(rel) || info->select != NULL)
	{
		cxt.keys = conditions;
		conditions = scan->remote_conds;
	}
	fresh = cxt;
	initStringInfo(&buf);
	rf_append_statement(&buf, &cxt, info, columns, conditions, pathkeys, limit);
	if (locking != NULL)
		appendStringInfo(&buf, " %s", locking);

	out->sql = buf.data;
	out->node_sql = node.own ? list_make1(makeString(buf.data)) : NIL;
	for (node.place = 1; node.own && node.place < list_length(info->nodes); node.place++)
	{
		BuildContext other = fresh;

		/* the same parameters, and all nodes get a value even if only one needs it */
		other.exchanges = flow_exchanges(flow_rels);
		other.params = cxt.params;
		other.param_types = cxt.param_types;
		initStringInfo(&buf);
		rf_append_statement(&buf, &other, info, columns, conditions, pathkeys, limit);
		Assert(list_length(other.exchanges) == list_length(cxt.exchanges) && other.leaving == NIL);
		cxt.params = other.params;
		cxt.param_types = other.param_types;
		out->node_sql = lappend(out->node_sql, makeString(buf.data));
	}

	AtEOXact_GUC(true, nestlevel);

	out->params = cxt.params;
	out->param_types = cxt.param_types;
	out->exchanges = cxt.exchanges;
	out->send_sql = cxt.leaving == NIL ? NULL : rf_sending_statement(cxt.leaving);
	out->join_sql = cxt.leaving == NIL ? NULL : rf_computing_statement(out->sql, cxt.leaving);
	return out;
}

/* Joins one more FROM item of a relation to those in buf. */
static void
append_item(StringInfo buf, BuildContext *cxt, RfRelInfo *rel, const char *words, const char *item)
{
	if (buf->len == 0)
		appendStringInfoString(buf, item);
	else if (is_join_item(cxt, rel))
		appendStringInfo(buf, " %s (%s)", words, item);
	else
		appendStringInfo(buf, " %s %s", words, item);
}

/*
 * Removes the target from the join: its conditions and its join conditions with the rest go to
 * *conds, the rest to buf, which stays empty if only EXISTS remains. False: it cannot be removed.
 *
 * A relation outer-joined to the target and further relations may be outer-joined to these alone,
 * if its join conditions do not refer to the target.
 */
static bool
take_target(StringInfo buf, BuildContext *cxt, RfRelInfo *info, Index target, List **conds)
{
	List	   *on;
	bool		in_outer;
	RfRelInfo  *other;
	StringInfoData item;

	if (info->join.outer == NULL)
	{
		*conds = list_concat(*conds, print_conditions(cxt, info->remote_conds));
		return true;
	}
	in_outer = bms_is_member(target, info->join.outer->rel->relids);
	other = in_outer ? info->join.inner : info->join.outer;
	if (!take_target(buf, cxt, in_outer ? info->join.outer : info->join.inner, target, conds))
		return false;

	on = print_conditions(cxt, info->join.clauses);
	initStringInfo(&item);
	if (info->join.type == JOIN_INNER)
	{
		append_from(&item, cxt, other, false, conds);
		append_item(buf, cxt, other, "CROSS JOIN", item.data);
		*conds = list_concat(*conds, on);
	}
	else if (in_outer && (info->join.type == JOIN_SEMI || info->join.type == JOIN_ANTI))
	{
		append_from(&item, cxt, other, false, &on);
		*conds = lappend(*conds, exists_condition(info, item.data, on));
	}
	else if (buf->len > 0 && info->join.type == (in_outer ? JOIN_LEFT : JOIN_RIGHT))
	{
		ListCell   *lc;

		foreach(lc, info->join.clauses)
		{
			if (bms_is_member(target, lfirst_node(RestrictInfo, lc)->clause_relids))
				return false;
		}
		append_from(&item, cxt, other, false, &on);
		append_item(buf, cxt, other, "LEFT JOIN", item.data);
		if (on == NIL)
			appendStringInfoString(buf, " ON true");
		append_conditions(buf, " ON ", on);
	}
	else
		return false;
	*conds = list_concat(*conds, print_conditions(cxt, info->remote_conds));
	return true;
}

bool
rf_build_join_modify(PlannerInfo *root, RelOptInfo *joinrel, Index target, List *returning,
					 RfDirectModify *statement)
{
	RfRelInfo  *info = (RfRelInfo *) find_base_rel(root, target)->fdw_private;
	Oid			relid = planner_rt_fetch(target, root)->relid;
	BuildContext cxt = {root, joinrel->relids};
	int			nestlevel = rf_neutral_settings(RF_TEXT_ALL);
	bool		update = statement->operation == CMD_UPDATE;
	StringInfoData buf;
	StringInfoData others;
	List	   *conds = NIL;
	bool		possible;
	ListCell   *lc;
	ListCell   *lc2;

	cxt.qualified = true;
	cxt.writes = true;
	rf_add_items(&cxt, (RfRelInfo *) joinrel->fdw_private);
	initStringInfo(&buf);
	appendStringInfo(&buf, "%s %s r%u", update ? "UPDATE" : "DELETE FROM", info->relation_name,
					 target);
	forboth(lc, statement->targets, lc2, statement->target_attrs)
		appendStringInfo(&buf, "%s%s = %s", lc == list_head(statement->targets) ? " SET " : ", ",
						 quote_identifier(rf_column_name(relid, lfirst_int(lc2))),
						 rf_print_assigned((Node *) lfirst_node(TargetEntry, lc)->expr, &cxt));

	initStringInfo(&others);
	possible = take_target(&others, &cxt, (RfRelInfo *) joinrel->fdw_private, target, &conds);
	if (others.len > 0)
		appendStringInfo(&buf, " %s %s", update ? "FROM" : "USING", others.data);
	append_conditions(&buf, " WHERE ", conds);
	foreach(lc, returning)
		appendStringInfo(&buf, "%s%s", lc == list_head(returning) ? " RETURNING " : ", ",
						 print_column((Node *) lfirst_node(TargetEntry, lc)->expr, &cxt,
									  (RfRelInfo *) joinrel->fdw_private));

	AtEOXact_GUC(true, nestlevel);
	if (possible && !bms_is_empty(pull_varnos(root, (Node *) cxt.params)))
		elog(ERROR, "a column of no relation of a remote statement");
	statement->sql = buf.data;
	statement->params = cxt.params;
	statement->param_types = cxt.param_types;
	return possible;
}

/*
 * The queries of exchanges are literals in the statement around them, which so knows neither a
 * parameter that is used only there, nor its type. A query that nothing reads names them.
 */
static char *
declare_parameters(BuildContext *cxt)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, cxt->exchanges != NIL ? cxt->param_types : NIL)
	{
		int			number = foreach_current_index(lc) + 1;

		if (!bms_is_member(number, cxt->assigned_params))
			appendStringInfo(&buf, "%s($%d)::%s",
							 buf.len == 0 ? "WITH parameters AS (SELECT " : ", ", number,
							 format_type_be(lfirst_oid(lc)));
	}
	if (buf.len > 0)
		appendStringInfoString(&buf, ") ");
	return buf.data;
}

void
rf_build_insert(PlannerInfo *root, RfRelInfo *info, Oid relid, const char *conflict, bool named,
				RfDirectModify *statement)
{
	RfRelInfo  *scan = info->upper.scan ? info->upper.scan : info;
	BuildContext cxt = {root, scan->rel->relids};
	int			nestlevel = rf_neutral_settings(RF_TEXT_ALL);
	ForeignTable *table = GetForeignTable(relid);
	RfTableOptions opts;
	NodeText	node = {0};
	StringInfoData buf;
	ListCell   *lc;

	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s%s", rf_remote_relation_name(&opts),
					 named ? " AS t" : "");
	foreach(lc, statement->target_attrs)
		appendStringInfo(&buf, "%s%s", lc == list_head(statement->target_attrs) ? "(" : ", ",
						 quote_identifier(rf_column_name(relid, lfirst_int(lc))));
	appendStringInfoString(&buf, ") ");
	cxt.node = &node;
	cxt.assigned = true;
	cxt.writes = true;
	rf_append_statement(&buf, &cxt, info, get_tlist_exprs(statement->targets, true),
						IS_SIMPLE_REL(info->rel) && info->select == NULL && info->fragment == NULL ?
						info->planned.conditions : scan->remote_conds, NIL, false);
	if (conflict)
		appendStringInfoString(&buf, conflict);
	statement->sql = psprintf("%s%s", declare_parameters(&cxt), buf.data);
	AtEOXact_GUC(true, nestlevel);
	Assert(!node.own && cxt.leaving == NIL);
	statement->params = cxt.params;
	statement->param_types = cxt.param_types;
	statement->exchanges = cxt.exchanges;
}
