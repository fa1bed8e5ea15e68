/*
 * remote_index.c - indexes of data nodes' tables: their descriptions here, and the cost of probing
 * one; and how unevenly the rows are distributed over the nodes.
 *
 * ANALYZE fetches the table's indexes from the data node, like its other statistics: the columns of
 * each, whether it is unique, and its correlation with the order of the table. They are stored as
 * statistics, in a row of pg_statistic for the table as a whole (attribute 0), as an array of
 * float4 in a slot of a kind for private use; so they are dropped with the table, and are
 * transactional. No view shows that row.
 *
 * For a table on several nodes another slot of the same row has the fraction of its rows on each
 * node.
 *
 * The planner core does not see them, because it would make local paths of them. They only change
 * the estimated cost of a statement, as each data node's planner finds such indexes itself.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/itup.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "libpq-fe.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/sql_text.h"

#include "fdw/deparse/deparse.h"

#include "catalog.h"

/* From the range that pg_statistic.h reserves for private use. */
#define STATISTIC_KIND_INDEXES	21477
#define STATISTIC_KIND_NODES	21478

/*
 * The largest part may exceed an equal one by this factor: hashing of few keys, and sampling, can
 * cause that much.
 */
#define EVEN_WITHIN				0.25

/* Precedes each index's columns in the array */
enum
{
	NUMBER_UNIQUE,
	NUMBER_CORRELATION,
	NUMBER_COLUMNS,
	NUMBERS_AHEAD
};

/* ---------- ANALYZE ---------- */

/* Returns NULL without indexes. */
static ArrayType *
describe_indexes(Relation relation, PGresult *result)
{
	int			rows = PQntuples(result);
	Datum	   *numbers = palloc((rows * (NUMBERS_AHEAD + 1) + 1) * sizeof(Datum));
	int			count = 0;
	int			next;

	for (int row = 0; row < rows; row = next)
	{
		int			first = count;
		int			columns = 0;
		bool		known = true;
		double		correlation = 0;

		count += NUMBERS_AHEAD;
		for (next = row;
			 next < rows && strcmp(PQgetvalue(result, next, 0), PQgetvalue(result, row, 0)) == 0;
			 next++)
		{
			AttrNumber	attno = InvalidAttrNumber;

			if (known && !PQgetisnull(result, next, 2))
				attno = rf_find_column(relation, PQgetvalue(result, next, 2));

			/*
			 * columns after an expression, or after a column that is unknown here, are not usable
			 */
			known = attno != InvalidAttrNumber;
			if (!known)
				continue;
			numbers[count++] = Float4GetDatum(attno);
			columns++;
		}
		if (columns == 0)
		{
			count = first;
			continue;
		}
		numbers[first + NUMBER_UNIQUE] = Float4GetDatum(known &&
														*PQgetvalue(result, row, 1) == 't');
		/* 0 if it is not known */
		(void) rf_answer_double(result, row, 3, -1, 1, &correlation);
		numbers[first + NUMBER_CORRELATION] = Float4GetDatum(correlation);
		numbers[first + NUMBER_COLUMNS] = Float4GetDatum(columns);
	}
	return count == 0 ?
		NULL :
		construct_array(numbers, count, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT);
}

/* NULL: the table is on one node, or has no rows. */
static ArrayType *
describe_parts(const double *node_rows, int nodes)
{
	Datum	   *parts = palloc(nodes * sizeof(Datum));
	double		total = 0;

	for (int i = 0; i < nodes; i++)
		total += node_rows[i];
	if (nodes < 2 || total <= 0)
		return NULL;
	for (int i = 0; i < nodes; i++)
		parts[i] = Float4GetDatum((float4) (node_rows[i] / total));
	return construct_array(parts, nodes, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT);
}

static void
store_facts(Relation relation, ArrayType *indexes, ArrayType *parts)
{
	Relation	catalog = table_open(StatisticRelationId, RowExclusiveLock);
	Oid			relid = RelationGetRelid(relation);
	Datum		values[Natts_pg_statistic] = {0};
	bool		nulls[Natts_pg_statistic] = {0};
	HeapTuple	old = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
									  Int16GetDatum(InvalidAttrNumber), BoolGetDatum(false));
	HeapTuple	tuple;

	values[Anum_pg_statistic_starelid - 1] = ObjectIdGetDatum(relid);
	values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(InvalidAttrNumber);
	values[Anum_pg_statistic_stakind1 - 1] = Int16GetDatum(indexes == NULL ? 0 :
														   STATISTIC_KIND_INDEXES);
	values[Anum_pg_statistic_stanumbers1 - 1] = PointerGetDatum(indexes);
	values[Anum_pg_statistic_stakind2 - 1] = Int16GetDatum(parts == NULL ? 0 :
														   STATISTIC_KIND_NODES);
	values[Anum_pg_statistic_stanumbers2 - 1] = PointerGetDatum(parts);
	for (int i = 0; i < STATISTIC_NUM_SLOTS; i++)
	{
		nulls[Anum_pg_statistic_stanumbers1 - 1 + i] = i > 1 || (i == 0 ? indexes : parts) == NULL;
		nulls[Anum_pg_statistic_stavalues1 - 1 + i] = true;
	}
	tuple = heap_form_tuple(RelationGetDescr(catalog), values, nulls);
	if (HeapTupleIsValid(old))
	{
		tuple->t_self = old->t_self;
		CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
		ReleaseSysCache(old);
	}
	else
		CatalogTupleInsert(catalog, tuple);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
	/* a table with children is analyzed twice in one command */
	CommandCounterIncrement();
}

void
rf_import_indexes(Relation relation, RfSession *session, const RfTableOptions *opts,
				  const double *node_rows, int nodes)
{
	PGresult   *volatile result = NULL;
	StringInfoData sql;

	/* only access methods that find rows by a value; GiST and similar methods search otherwise */
	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT i.indexrelid, i.indisunique, a.attname, s.correlation"
					 " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = "
					 "i.indexrelid"
					 " JOIN pg_catalog.pg_am m ON m.oid = c.relam AND m.amname IN ('btree', 'hash')"
					 " CROSS JOIN LATERAL pg_catalog.generate_series(0, i.indnkeyatts - 1) AS "
					 "k(place)"
					 " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum "
					 "= i.indkey[k.place]"
					 " LEFT JOIN pg_catalog.pg_stats s ON s.schemaname = %s AND s.tablename = %s "
					 "AND s.attname = a.attname"
					 " AND s.inherited = EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE "
					 "inhparent = i.indrelid)"
					 " WHERE i.indrelid = %s::pg_catalog.regclass AND i.indisvalid AND i.indpred "
					 "IS NULL"
					 " ORDER BY i.indexrelid, k.place",
					 quote_literal_cstr(opts->schema_name), quote_literal_cstr(opts->table_name),
					 quote_literal_cstr(rf_remote_relation_name(opts)));
	PG_TRY();
	{
		result = rf_session_ask(session, sql.data, 4, 0, PG_INT32_MAX);
		store_facts(relation, describe_indexes(relation, result), describe_parts(node_rows, nodes));
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();
}

/* ---------- planning ---------- */

List *
rf_remote_indexes(Oid relid)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
										Int16GetDatum(InvalidAttrNumber), BoolGetDatum(false));
	List	   *indexes = NIL;
	AttStatsSlot slot;

	if (!HeapTupleIsValid(tuple))
		return NIL;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_INDEXES, InvalidOid, ATTSTATSSLOT_NUMBERS))
	{
		for (int i = 0; i + NUMBERS_AHEAD < slot.nnumbers;)
		{
			RfIndex    *index = palloc0(sizeof(RfIndex));

			index->unique = slot.numbers[i + NUMBER_UNIQUE] != 0;
			index->correlation = slot.numbers[i + NUMBER_CORRELATION];
			index->column_count = (int) slot.numbers[i + NUMBER_COLUMNS];
			i += NUMBERS_AHEAD;
			if (index->column_count < 1 || index->column_count > slot.nnumbers - i)
				break;
			index->columns = palloc(index->column_count * sizeof(AttrNumber));
			for (int column = 0; column < index->column_count; column++)
				index->columns[column] = (AttrNumber) slot.numbers[i++];
			indexes = lappend(indexes, index);
		}
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return indexes;
}

double
rf_largest_part(Oid relid, int nodes)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
										Int16GetDatum(InvalidAttrNumber), BoolGetDatum(false));
	double		largest = 0;
	AttStatsSlot slot;

	if (!HeapTupleIsValid(tuple))
		return 0;
	if (get_attstatsslot(&slot, tuple, STATISTIC_KIND_NODES, InvalidOid, ATTSTATSSLOT_NUMBERS))
	{
		/* the server had other nodes at that time */
		for (int i = 0; i < slot.nnumbers && slot.nnumbers == nodes; i++)
			largest = Max(largest, slot.numbers[i]);
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(tuple);
	return largest * nodes > 1 + EVEN_WITHIN ? largest : 0;
}

static bool
is_column(Node *node, Index relid, AttrNumber column)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Var) && ((Var *) node)->varno == relid && ((Var *) node)->varattno == column &&
		((Var *) node)->varlevelsup == 0;
}

/*
 * Returns true if the condition compares the column with one value, which does not come from the
 * table itself, or tests it for NULL. The latter a hash index cannot answer, but few columns have
 * no other.
 */
static bool
is_equality(RestrictInfo *rinfo, Index relid, AttrNumber column)
{
	OpExpr	   *op = (OpExpr *) rinfo->clause;

	if (IsA(op, NullTest))
		return ((NullTest *) op)->nulltesttype == IS_NULL &&
			is_column((Node *) ((NullTest *) op)->arg, relid, column);
	if (!IsA(op, OpExpr) || list_length(op->args) != 2)
		return false;
	for (int side = 0; side < 2; side++)
	{
		if (is_column(list_nth(op->args, side), relid, column) &&
			!bms_is_member(relid, side == 0 ? rinfo->right_relids : rinfo->left_relids))
			return op_mergejoinable(op->opno, exprType(linitial(op->args))) ||
				op_hashjoinable(op->opno, exprType(linitial(op->args)));
	}
	return false;
}

static RestrictInfo *
find_equality(List *rinfos, Index relid, AttrNumber column)
{
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		if (is_equality(lfirst_node(RestrictInfo, lc), relid, column))
			return lfirst_node(RestrictInfo, lc);
	}
	return NULL;
}

/* An estimate: the size of an index tuple, in pages that are 90 % full. */
static double
index_pages(RfIndex *index, Oid relid, double tuples)
{
	int			size = sizeof(IndexTupleData) + sizeof(ItemIdData);

	for (int i = 0; i < index->column_count; i++)
		size += Max(get_attavgwidth(relid, index->columns[i]), (int32) sizeof(int32));
	return ceil(tuples * size / (BLCKSZ * 0.9));
}

bool
rf_probe_cost(PlannerInfo *root, RfRelInfo *info, List *clauses, double count, double part,
			  bool sorted, RfProbeCost *result)
{
	RelOptInfo *table = info->rel;
	double		node_part = info->fragment == NULL ||
		info->fragment->placement == RF_PLACED_EVERYWHERE ?
		1 :
		rf_largest_share(info);
	double		heap_tuples = Max(table->tuples * node_part, 1);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, info->indexes)
	{
		RfIndex    *index = (RfIndex *) lfirst(lc);
		RfProbes	probes = {0};
		List	   *matched = NIL;
		Cost		cost;

		for (int i = 0; i < index->column_count; i++)
		{
			RestrictInfo *rinfo = find_equality(clauses, table->relid, index->columns[i]);

			if (rinfo == NULL)
			{
				rinfo = find_equality(info->remote_conds, table->relid, index->columns[i]);
				if (rinfo == NULL)
					break;
			}
			else
				probes.count = count;
			matched = lappend(matched, rinfo);
		}
		/* without one of the clauses it is no probe */
		if (matched == NIL || (clauses != NIL && probes.count == 0))
			continue;

		probes.tuples = table->tuples * part *
			clauselist_selectivity(root, matched, table->relid, JOIN_INNER, NULL);
		if (index->unique && list_length(matched) == index->column_count)
			probes.tuples = Min(probes.tuples, 1);
		probes.tuples = Max(probes.tuples, 0.1);
		probes.heap_pages = table->pages * node_part;
		probes.heap_tuples = heap_tuples;
		probes.heap_share = 1;
		probes.index_pages = index_pages(index, info->table->relid, heap_tuples);
		probes.correlation = index->correlation;
		/* the same factor as in btcostestimate() */
		if (!sorted && index->column_count > 1)
			probes.correlation *= 0.75;
		probes.random_page_cost = random_page_cost;
		probes.seq_page_cost = seq_page_cost;

		probes.index_levels = 1 + (int) ceil(log(Max(probes.index_pages, 1)) / log(256));
		cost = rf_probe_cost_of_pages(root, &probes, sorted) +
			cpu_operator_cost * ceil(log2(heap_tuples + 1)) +
			probes.tuples * (cpu_index_tuple_cost + cpu_operator_cost * list_length(matched) +
							 cpu_tuple_cost + table->baserestrictcost.per_tuple);
		if (found && cost >= result->cost)
			continue;
		found = true;
		result->cost = cost;
		result->tuples = probes.tuples;
	}
	return found;
}
