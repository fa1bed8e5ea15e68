/*
 * exchange_text.c
 * 		Calls of rdma.exchange() in the text of a statement: which rows move, how, and under which
 * 		names their columns are returned.
 */
#include "postgres.h"

#include <math.h>

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "deparse.h"
#include "querybuild.h"

/* A node has clearly more rows than the others if it has so many times the average. */
#define UNEVEN	1.5

/* In dollar quotes that do not occur in it: the text stays readable at any depth of nesting. */
static char *
quote_statement(const char *name, const char *text)
{
	char	   *quote = psprintf("$%s", name);

	while (strstr(text, quote) != NULL)
		quote = psprintf("%sx", quote);
	return psprintf("%s$%s%s$", quote, text, quote);
}

/* "keys=1,2": the positions of the keys among the columns, which are extended by missing ones. */
static void
append_key_columns(StringInfo buf, List *keys, List **columns)
{
	ListCell   *lc;

	foreach(lc, keys)
	{
		if (!list_member(*columns, lfirst(lc)))
			*columns = lappend(*columns, lfirst(lc));
		for (int i = 0; i < list_length(*columns); i++)
		{
			if (equal(list_nth(*columns, i), lfirst(lc)))
			{
				appendStringInfo(buf, "%s%d", lc == list_head(keys) ? " keys=" : ",", i + 1);
				break;
			}
		}
	}
}

/* Rows that move go where the rows of tables with such keys are. */
static void
append_map(StringInfo buf, RfRelInfo *move)
{
	RfBuckets  *buckets;

	if (move->fragment->replicate || move->fragment->computed)
		return;
	buckets = rf_server_buckets(move->server);
	if (buckets == NULL || buckets->in_turn)
		return;					/* nodes do the same without it */
	for (int i = 0; i < buckets->count; i++)
		appendStringInfo(buf, "%s%d", i == 0 ? " map=" : ",", buckets->places[i]);
}

/*
 * The number of distinct values of an expression in the rows that move. Of a table's rows joins leave some: core
 * takes all of its values to be among them, if there are as many rows. As with conditions on the table itself,
 * some of its values have lost all of their rows.
 */
static double
distinct_values(PlannerInfo *root, RfRelInfo *move, Node *expr)
{
	Var		   *var = (Var *) expr;
	double		moved = move->fragment->moved->retrieved_rows;
	RelOptInfo *table = IsA(var, Var) && bms_is_member(var->varno, move->rel->relids) ?
		root->simple_rel_array[var->varno] : NULL;
	double		values;

	if (table == NULL || table->rows <= moved || move->fragment->moved->distinct)
		return estimate_num_groups(root, list_make1(expr), moved, NULL, NULL);
	values = Max(estimate_num_groups(root, list_make1(expr), table->rows, NULL, NULL), 1);
	return values * (1 - pow(1 - moved / table->rows, table->rows / values));
}

/* How many values a column has in all rows of its table; 0: it is no table. */
static double
table_values(PlannerInfo *root, Var *var)
{
	RelOptInfo *table = root->simple_rel_array[var->varno];

	return table == NULL || table->tuples <= 0 ? 0 : estimate_num_groups(root, list_make1(var), table->tuples, NULL, NULL);
}

/*
 * The number of distinct values per column that the remote planner may expect in one node's rows.
 */
static void
append_distinct(StringInfo buf, PlannerInfo *root, RfRelInfo *move, List *columns, double rows)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Node	   *expr = (Node *) lfirst(lc);
		double		distinct = -1;

		if (!IsA(expr, Aggref) && !IsA(expr, Const))
		{
			distinct = distinct_values(root, move, expr);
			if (!move->fragment->replicate && list_member(move->fragment->move_keys, expr))
				distinct *= rf_node_share(move);
			distinct = Max(Min(distinct, rows), 1);
			/* of a table's column semi and anti joins expect as many as the table has, however few rows are left */
			if (IsA(expr, Var) && rf_moves_in_place(move) && bms_is_member(((Var *) expr)->varno, move->rel->relids))
				distinct = Max(distinct, table_values(root, (Var *) expr) * rf_node_share(move));
		}
		appendStringInfo(buf, "%s%.0f", lc == list_head(columns) ? " distinct=" : ",", distinct);
	}
}

/* The nodes that may store these rows: places among the members. */
static List *
nodes_of(RfRelInfo *info)
{
	List	   *places = NIL;

	if (info->fragment->computed)
		return list_copy(info->compute);
	for (int i = 0; i < list_length(info->nodes); i++)
		places = lappend_int(places, i);
	return places;
}

/* Rows that all nodes have are sent by one node only. */
static List *
sending_nodes(RfRelInfo *moved)
{
	List	   *places = nodes_of(moved);

	return moved->fragment->placement == RF_PLACED_EVERYWHERE ? list_make1_int(linitial_int(places)) : places;
}

/* The number of the exchange that it is filtered by, which is in the statement already; 0: none. */
static int
filter_of(BuildContext *cxt, RfRelInfo *move)
{
	ListCell   *lc;

	foreach(lc, cxt->tables)
	{
		TableRef   *table = (TableRef *) lfirst(lc);

		if (move->fragment->filter != NULL && table->derived == move->fragment->filter && table->root == cxt->root)
			return table->exchange;
	}
	return 0;
}

/* For EXPLAIN: "repartition 2:2 on o_orderkey" */
static char *
describe_exchange(BuildContext *inner, RfRelInfo *move, int filter)
{
	RfFragment *fragment = move->fragment;
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	appendStringInfo(&buf, "%s %d:%d", fragment->replicate ? "replicate" : "repartition",
					 list_length(sending_nodes(fragment->moved)), rf_node_count(move));
	foreach(lc, fragment->move_keys)
	{
		Var		   *var = (Var *) lfirst(lc);

		appendStringInfoString(&buf, lc == list_head(fragment->move_keys) ? " on " : ", ");
		if (IsA(var, Var))
		{
			RangeTblEntry *rte = planner_rt_fetch(var->varno, inner->root);

			appendStringInfoString(&buf, quote_identifier(rte->rtekind == RTE_RELATION ?
														  get_attname(rte->relid, var->varattno, false) :
														  get_rte_attribute_name(rte, var->varattno)));
		}
		else
			appendStringInfoString(&buf, rf_print_in_statement((Node *) var, inner));
	}
	if (fragment->heavy != NULL)
		appendStringInfoString(&buf, fragment->spread ? ", heavy keys spread" : ", heavy keys broadcast");
	if (filter > 0)
		appendStringInfo(&buf, ", filtered by exchange %d", filter);
	return buf.data;
}

/*
 * An exchange: its number, the statement whose rows move, printed in a context of its own in which
 * parameters have the same numbers, and the columns that it returns. An inner exchange has a lower
 * number than the one around it; rdma.exchange() depends on that.
 */
void
rf_add_exchange(BuildContext *cxt, RfRelInfo *move)
{
	RfFragment *fragment = move->fragment;
	RfRelInfo  *moved = fragment->moved;
	RfRelInfo  *scan = moved->scan ? moved->scan : moved;
	BuildContext inner = rf_open_inner(cxt, cxt->root, scan->rel->relids);
	TableRef   *table = palloc0(sizeof(TableRef));
	/* without a filter, which may come too late: a plan made for too few rows can be the worst of all */
	double		rows = moved->retrieved_rows * rf_node_share(move);
	StringInfoData keys;
	StringInfoData statement;
	StringInfoData spec;
	StringInfoData item;
	char	   *quoted;
	char	   *description;
	int			number;
	int			filter = filter_of(cxt, move);
	ListCell   *lc;

	table->root = cxt->root;
	table->derived = move;
	table->exprs = rf_visible_columns(cxt->root, moved);

	initStringInfo(&keys);
	append_key_columns(&keys, fragment->move_keys, &table->exprs);
	/* a column list cannot be empty */
	if (table->exprs == NIL)
		table->exprs = list_make1(makeBoolConst(true, false));
	initStringInfo(&statement);
	rf_append_statement(&statement, &inner, moved, table->exprs, scan->remote_conds, NIL, false);

	number = list_length(inner.exchanges) + 1;
	table->name = psprintf("x%d", number);
	table->exchange = number;
	initStringInfo(&spec);
	appendStringInfo(&spec, "number=%d kind=%s%s rows=%.0f", number,
					 fragment->replicate ? "replicate" : "repartition", keys.data, Max(rows, 1));
	append_distinct(&spec, cxt->root, move, table->exprs, rows);
	append_map(&spec, move);
	if (fragment->heavy != NULL)
		appendStringInfo(&spec, " heavy=%s:%s", fragment->spread ? "spread" : "broadcast", fragment->heavy);
	if (filter > 0)
		appendStringInfo(&spec, " filter=%d", filter);
	if (moved->fragment->largest_part * list_length(sending_nodes(moved)) > UNEVEN)
		appendStringInfoString(&spec, " uneven=1");

	initStringInfo(&item);
	appendStringInfo(&item, "rdma.exchange('%s', ", spec.data);
	quoted = quote_statement(table->name, statement.data);
	appendStringInfo(&item, "%s) AS %s(", quoted, table->name);
	foreach(lc, table->exprs)
	{
		Node	   *expr = (Node *) lfirst(lc);
		Oid			collation = exprCollation(expr);
		char	   *name = psprintf("c%d", foreach_current_index(lc) + 1);

		table->colnames = lappend(table->colnames, makeString(name));
		appendStringInfo(&item, "%s%s %s", lc == list_head(table->exprs) ? "" : ", ", name,
						 format_type_with_typemod(exprType(expr), exprTypmod(expr)));
		if (OidIsValid(collation) && collation != get_typcollation(exprType(expr)))
			appendStringInfo(&item, " COLLATE %s", quote_identifier(get_collation_name(collation)));
	}
	appendStringInfoChar(&item, ')');
	table->item = item.data;

	description = describe_exchange(&inner, move, filter);
	rf_close_inner(cxt, &inner);
	cxt->exchanges = lappend(cxt->exchanges,
							 list_make5(makeString(fragment->replicate ? "replicate" : "repartition"),
										makeFloat(psprintf("%.1f", move->retrieved_rows)),
										makeString(description),
										sending_nodes(moved), nodes_of(move)));
	if (fragment->computed && !moved->fragment->computed)
		cxt->leaving = lappend(cxt->leaving, list_make2(makeString(table->item), makeString(quoted)));
	cxt->tables = lappend(cxt->tables, table);
	cxt->items = true;
}

/* A node that runs it does not receive rows, so it has none of these items either. */
char *
rf_sending_statement(List *leaving)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, leaving)
		appendStringInfo(&buf, "%sSELECT FROM %s", buf.len == 0 ? "" : " UNION ALL ",
						 strVal(linitial(lfirst(lc))));
	return buf.data;
}

/* An empty query stands for one that other nodes run. Each has its own quotes. */
char *
rf_computing_statement(const char *sql, List *leaving)
{
	ListCell   *lc;

	foreach(lc, leaving)
	{
		const char *query = strVal(lsecond(lfirst(lc)));
		const char *found;
		StringInfoData buf;

		initStringInfo(&buf);
		while ((found = strstr(sql, query)) != NULL)
		{
			appendBinaryStringInfo(&buf, sql, found - sql);
			appendStringInfoString(&buf, "''");
			sql = found + strlen(query);
		}
		appendStringInfoString(&buf, sql);
		sql = buf.data;
	}
	return pstrdup(sql);
}
