/*
 * exchange_text.c
 * 		Calls of rdma_internal.exchange() in the text of a statement: which rows move, how, and
 * 		under which names their columns are returned.
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

/* A node is uneven if it has this many times the average rows. */
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

/* "keys=1,2": the positions of the keys among the columns, which are extended by missing keys. */
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
	int			nodes = list_length(move->nodes);
	bool		in_turn;

	if (move->fragment->replicate || move->fragment->computed)
		return;
	buckets = rf_server_buckets(move->server);
	if (buckets == NULL)
		return;
	in_turn = buckets->count % nodes == 0;
	for (int i = 0; i < buckets->count && in_turn; i++)
		in_turn = buckets->places[i] == i % nodes;
	if (in_turn)
		return;					/* nodes do the same without it */
	for (int i = 0; i < buckets->count; i++)
		appendStringInfo(buf, "%s%d", i == 0 ? " map=" : ",", buckets->places[i]);
}

/*
 * The table whose column the expression is, if the rows that move have its values as often as they
 * come; else NULL.
 */
static RelOptInfo *
table_of(PlannerInfo *root, RfRelInfo *move, Node *expr)
{
	return IsA(expr, Var) && bms_is_member(((Var *) expr)->varno, move->rel->relids) &&
		!move->fragment->moved->upper.distinct ?
		root->simple_rel_array[((Var *) expr)->varno] :
		NULL;
}

/*
 * The number of distinct values of an expression in the rows that move. Of a table's rows joins
 * leave some: core takes all of its values to be among them, if there are as many rows. As with
 * conditions on the table itself, some of its values have lost all of their rows.
 */
static double
distinct_values(PlannerInfo *root, RfRelInfo *move, Node *expr)
{
	double		moved = move->fragment->moved->est.retrieved_rows;
	RelOptInfo *table = table_of(root, move, expr);
	double		values;

	if (table == NULL || table->rows <= moved)
		return estimate_num_groups(root, list_make1(expr), moved, NULL, NULL);
	values = Max(estimate_num_groups(root, list_make1(expr), table->rows, NULL, NULL), 1);
	return values * (1 - pow(1 - moved / table->rows, table->rows / values));
}

/*
 * How many values a table's column has, before any conditions and joins; 0 if it is no column of a
 * table, or not known.
 */
static double
table_values(PlannerInfo *root, RfRelInfo *move, Node *expr)
{
	RelOptInfo *table = table_of(root, move, expr);
	VariableStatData stats;
	bool		is_default;
	double		values;

	if (table == NULL || table->tuples < 1)
		return 0;
	examine_variable(root, expr, 0, &stats);
	values = get_variable_numdistinct(&stats, &is_default);
	ReleaseVariableStats(stats);
	return is_default ? 0 : values;
}

/*
 * The number of distinct values per column that the remote planner may expect in one node's rows.
 *
 * It counts on them in two ways. To an inner join they are the values that rows may have: with the
 * values of a few rows that are left it expects too many rows if it does not know of the other
 * side's either, as ANALYZE finds too few values where equal values lie together. To a semi or anti
 * join they are the values that are there, on its inner side no more than rows. So where the table
 * has many more than rows are left it is the table's. On the outer side, which seldom moves, that
 * join expects the table's, too, however few are left.
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
			bool		divided = !move->fragment->replicate &&
				list_member(move->fragment->move_keys, expr);
			double		share = divided ? rf_node_share(move) : 1;
			double		values = table_values(root, move, expr) * share;

			distinct = Max(Min(distinct_values(root, move, expr) * share, rows), 1);
			if (rf_moves_in_place(move) || values > 2 * rows)
				distinct = Max(distinct, values);
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

	return moved->fragment->placement == RF_PLACED_EVERYWHERE ?
		list_make1_int(linitial_int(places)) :
		places;
}

/*
 * The number of the exchange that it is filtered by, which is in the statement already; 0 if it is
 * not filtered.
 */
static int
filter_of(BuildContext *cxt, RfRelInfo *move)
{
	/* the last one: a SELECT that is printed twice has two */
	for (int i = list_length(cxt->moves); move->fragment->filter != NULL && i-- > 0;)
	{
		TableRef   *table = (TableRef *) list_nth(cxt->moves, i);

		if (table->derived == move->fragment->filter)
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

			appendStringInfoString(
								   &buf,
								   quote_identifier(rte->rtekind == RTE_RELATION ?
													get_attname(rte->relid, var->varattno, false) :
													get_rte_attribute_name(rte, var->varattno)));
		}
		else
			appendStringInfoString(&buf, rf_print_in_statement((Node *) var, inner));
	}
	if (fragment->heavy != NULL)
		appendStringInfoString(&buf,
							   fragment->spread ? ", heavy keys spread" : ", heavy keys broadcast");
	if (filter > 0)
		appendStringInfo(&buf, ", filtered by exchange %d", filter);
	return buf.data;
}

/* An exchange whose rows may be needed in several places. */
typedef struct ReadableExchange
{
	const char *movement;		/* how they move: the specification for rdma_internal.exchange()
								 * without numbers and estimates */
	const char *statement;
	const char *columns;
	List	   *from;			/* nodes, which may differ for other servers with the same tables */
	List	   *to;
	int			number;
	int			readers;
	RfPlannedExchange *planned;
	char	   *described;		/* for one reader */
} ReadableExchange;

/* The same rows that move in the same way; NULL if this is the first. */
static ReadableExchange *
find_readable(const List *readable, const ReadableExchange *wanted)
{
	ListCell   *lc;

	foreach(lc, readable)
	{
		ReadableExchange *other = (ReadableExchange *) lfirst(lc);

		if (strcmp(other->statement, wanted->statement) == 0 &&
			strcmp(other->movement, wanted->movement) == 0 &&
			strcmp(other->columns, wanted->columns) == 0 && equal(other->from, wanted->from) &&
			equal(other->to, wanted->to))
			return other;
	}
	return NULL;
}

/* Let an item read the rows of that exchange, if there is one. */
static bool
read_other(TableRef *table, ReadableExchange *other, const char *spec, const char *columns)
{
	if (other == NULL)
		return false;
	other->readers++;
	other->planned->description = psprintf("%s, %d readers", other->described, other->readers);
	table->exchange = other->number;
	table->name = psprintf("x%d_%d", other->number, other->readers);
	table->item = psprintf("rdma_internal.exchange('number=%d %s reader=%d', '') AS %s(%s)",
						   other->number,
						   spec, other->readers, table->name, columns);
	return true;
}

/* "c1 integer, c2 text", which the names are added to. */
static char *
define_columns(TableRef *table, bool collated)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, table->exprs)
	{
		Node	   *expr = (Node *) lfirst(lc);
		Oid			collation = exprCollation(expr);
		char	   *name = psprintf("c%d", foreach_current_index(lc) + 1);

		table->colnames = lappend(table->colnames, makeString(name));
		appendStringInfo(&buf, "%s%s %s", lc == list_head(table->exprs) ? "" : ", ", name,
						 format_type_with_typemod(exprType(expr), exprTypmod(expr)));
		if (collated && OidIsValid(collation) && collation != get_typcollation(exprType(expr)))
			appendStringInfo(&buf, " COLLATE %s", quote_identifier(get_collation_name(collation)));
	}
	return buf.data;
}

/* Appends how many different values each column of local rows has; a node gets `rows` rows. */
static void
append_local_distinct(StringInfo buf, PlannerInfo *root, RfRelInfo *derived, List *columns,
					  double rows)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		bool		divided = rf_is_divided(derived) &&
			list_member(derived->fragment->move_keys, lfirst(lc));
		double		distinct = estimate_num_groups(root, list_make1(lfirst(lc)),
												   derived->rel->rows, NULL, NULL);

		if (divided)
			distinct *= rf_node_share(derived);
		appendStringInfo(buf, "%s%.0f", lc == list_head(columns) ? " distinct=" : ",",
						 Max(Min(distinct, rows), 1));
	}
}

/* For EXPLAIN: "repartition 1:2 on id", from this node */
static char *
describe_flow(BuildContext *cxt, RfRelInfo *derived)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	appendStringInfo(&buf, rf_is_divided(derived) ? "repartition 1:%d on " : "replicate 1:%d",
					 Max(list_length(derived->nodes), 1));
	foreach(lc, rf_is_divided(derived) ? derived->fragment->move_keys : NIL)
	{
		RangeTblEntry *rte = planner_rt_fetch(derived->rel->relid, cxt->root);
		AttrNumber	attno = lfirst_node(Var, lc)->varattno;

		appendStringInfo(&buf, "%s%s", buf.data[buf.len - 1] == ' ' ? "" : ", ",
						 quote_identifier(get_rte_attribute_name(rte, attno)));
	}
	return buf.data;
}

void
rf_set_flow_item(BuildContext *cxt, TableRef *table)
{
	RfRelInfo  *derived = table->derived;
	bool		divided = rf_is_divided(derived);
	double		rows = Max(derived->rel->rows * (divided ? rf_node_share(derived) : 1), 1);
	List	   *columns = table->exprs;
	int			number = 0;
	RfPlannedExchange *planned;
	StringInfoData spec;

	while (list_nth(cxt->flow_rels, number) != derived->rel)
		number++;
	planned = list_nth(cxt->exchanges, number);
	planned->replicate = !divided;
	planned->rows = derived->rel->rows;
	initStringInfo(&spec);
	appendStringInfo(&spec, "number=%d kind=%s", number + 1,
					 divided ? "repartition" : "replicate");
	if (divided)
		append_key_columns(&spec, derived->fragment->move_keys, &columns);
	Assert(list_length(columns) == list_length(table->exprs));
	appendStringInfo(&spec, " rows=%.0f", rows);
	append_local_distinct(&spec, cxt->root, derived, columns, rows);
	if (divided)
		append_map(&spec, derived);
	planned->spec = spec.data;
	planned->description = describe_flow(cxt, derived);
	table->colnames = NIL;
	table->item = psprintf("rdma_internal.exchange('%s', '') AS %s(%s)", planned->spec, table->name,
						   define_columns(table, false));
}

/* The statement whose rows move. True: it is the same on all nodes. */
static bool
print_moved(StringInfo buf, BuildContext *inner, RfRelInfo *moved, List *columns)
{
	RfRelInfo  *scan = moved->upper.scan ? moved->upper.scan : moved;
	bool		others = inner->node != NULL && inner->node->own;
	bool		own;

	if (inner->node != NULL)
		inner->node->own = false;
	rf_append_statement(buf, inner, moved, columns, scan->remote_conds, NIL, false);
	own = inner->node != NULL && inner->node->own;
	if (inner->node != NULL)
		inner->node->own |= others;
	return !own;
}

/*
 * An exchange: its number, the statement whose rows move, printed in a context of its own in which
 * parameters have the same numbers, and the columns that it returns. An inner exchange has a lower
 * number than the one around it; rdma_internal.exchange() depends on that.
 *
 * Where the statement needs the same rows in another place, in the same way, they move once, and
 * that place reads the rows of the first exchange, without a query. A statement has no exchange
 * twice, so these are statements without exchanges inside.
 */
void
rf_add_exchange(BuildContext *cxt, RfRelInfo *move)
{
	RfFragment *fragment = move->fragment;
	RfRelInfo  *moved = fragment->moved;
	RfRelInfo  *scan = moved->upper.scan ? moved->upper.scan : moved;
	BuildContext inner = rf_open_inner(cxt, cxt->root, scan->rel->relids);
	TableRef   *table = palloc0(sizeof(TableRef));

	/*
	 * without a filter, which may come too late: a plan made for too few rows can be the worst of
	 * all
	 */
	double		rows = moved->est.retrieved_rows * rf_node_share(move);
	StringInfoData keys;
	StringInfoData statement;
	StringInfoData spec;
	StringInfoData places;
	char	   *quoted;
	ReadableExchange *wanted = palloc0(sizeof(ReadableExchange));
	bool		may_share;
	int			filter = filter_of(cxt, move);

	table->root = cxt->root;
	table->derived = move;
	table->exprs = rf_visible_columns(cxt->root, moved);

	initStringInfo(&keys);
	append_key_columns(&keys, fragment->move_keys, &table->exprs);
	/* a column list cannot be empty */
	if (table->exprs == NIL)
		table->exprs = list_make1(makeBoolConst(true, false));
	initStringInfo(&statement);
	may_share = print_moved(&statement, &inner, moved, table->exprs) && filter == 0 &&
		!fragment->computed && !moved->fragment->computed;

	initStringInfo(&places);
	append_map(&places, move);
	if (fragment->heavy != NULL)
		appendStringInfo(&places, " heavy=%s:%s", fragment->spread ? "spread" : "broadcast",
						 fragment->heavy);
	initStringInfo(&spec);
	appendStringInfo(&spec, "kind=%s%s rows=%.0f",
					 fragment->replicate ? "replicate" : "repartition", keys.data, Max(rows, 1));
	append_distinct(&spec, cxt->root, move, table->exprs, rows);
	appendStringInfoString(&spec, places.data);
	if (filter > 0)
		appendStringInfo(&spec, " filter=%d", filter);
	if (moved->fragment->largest_part * list_length(sending_nodes(moved)) > UNEVEN)
		appendStringInfoString(&spec, " uneven=1");

	wanted->movement = psprintf("%d%s%s", fragment->replicate, keys.data, places.data);
	wanted->statement = statement.data;
	wanted->columns = define_columns(table, true);
	wanted->from = sending_nodes(moved);
	wanted->to = nodes_of(move);
	cxt->tables = lappend(cxt->tables, table);
	cxt->moves = inner.moves = lappend(inner.moves, table);
	cxt->items = true;
	if (may_share &&
		read_other(table, find_readable(inner.readable, wanted), spec.data, wanted->columns))
		return;

	wanted->number = list_length(inner.exchanges) + 1;
	wanted->readers = 1;
	wanted->described = describe_exchange(&inner, move, filter);
	wanted->planned = rf_make_plan_node(RfPlannedExchange);
	wanted->planned->replicate = fragment->replicate;
	wanted->planned->rows = move->est.retrieved_rows;
	wanted->planned->description = wanted->described;
	wanted->planned->spec = pstrdup("");
	wanted->planned->producers = wanted->from;
	wanted->planned->consumers = wanted->to;
	table->name = psprintf("x%d", wanted->number);
	table->exchange = wanted->number;
	quoted = quote_statement(table->name, statement.data);
	table->item = psprintf("rdma_internal.exchange('number=%d %s', %s) AS %s(%s)", wanted->number,
						   spec.data,
						   quoted, table->name, wanted->columns);
	rf_close_inner(cxt, &inner);
	cxt->exchanges = lappend(cxt->exchanges, wanted->planned);
	if (may_share)
		cxt->readable = lappend(cxt->readable, wanted);
	if (fragment->computed && !moved->fragment->computed)
		cxt->leaving = lappend(cxt->leaving,
							   list_make2(makeString(table->item), makeString(quoted)));
}

/* A node that runs it does not receive rows, so it does not have these items either. */
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

/* An empty query stands for a query that other nodes run. Each has its own quotes. */
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
