/*
 * remote_index.c
 *		Indexes of data nodes' tables: what is known of them here, and what it costs to probe one.
 *
 * ANALYZE asks the data node which indexes the table has, as it does for all else that is known of
 * the table. Of each: its columns, whether it is unique, and how far the table lies in its order. They
 * are kept where statistics are, in a row of pg_statistic that is of no column but of the table as a
 * whole (attribute 0), as an array of float4 in a slot of a kind for private use; so they go away with
 * the table, and change with the transaction. No view shows that row.
 *
 * The planner core does not see them: it would make paths of them here. They only change what a
 * statement is thought to cost, as each data node's planner will look for such indexes itself.
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

#include "fdw/deparse/deparse.h"

#include "catalog.h"

/* From the range that pg_statistic.h leaves to private use. */
#define STATISTIC_KIND_INDEXES	21477

/* Ahead of each index's columns in the array */
enum
{
	NUMBER_UNIQUE,
	NUMBER_CORRELATION,
	NUMBER_COLUMNS,
	NUMBERS_AHEAD
};

/* ---------- ANALYZE ---------- */

/* NULL: there are none. */
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

		count += NUMBERS_AHEAD;
		for (next = row; next < rows && strcmp(PQgetvalue(result, next, 0), PQgetvalue(result, row, 0)) == 0; next++)
		{
			AttrNumber	attno = InvalidAttrNumber;

			if (known && !PQgetisnull(result, next, 2))
				attno = rf_find_column(relation, PQgetvalue(result, next, 2));
			/* what stands behind an expression, or a column that is not known here, is of no use */
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
		numbers[first + NUMBER_UNIQUE] = Float4GetDatum(known && *PQgetvalue(result, row, 1) == 't');
		numbers[first + NUMBER_CORRELATION] = Float4GetDatum(strtof(PQgetvalue(result, row, 3), NULL));
		numbers[first + NUMBER_COLUMNS] = Float4GetDatum(columns);
	}
	return count == 0 ? NULL : construct_array(numbers, count, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT);
}

static void
store_indexes(Relation relation, ArrayType *numbers)
{
	Relation	catalog = table_open(StatisticRelationId, RowExclusiveLock);
	Oid			relid = RelationGetRelid(relation);
	Datum		values[Natts_pg_statistic] = {0};
	bool		nulls[Natts_pg_statistic] = {0};
	HeapTuple	old = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid), Int16GetDatum(InvalidAttrNumber),
									  BoolGetDatum(false));
	HeapTuple	tuple;

	values[Anum_pg_statistic_starelid - 1] = ObjectIdGetDatum(relid);
	values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(InvalidAttrNumber);
	values[Anum_pg_statistic_stakind1 - 1] = Int16GetDatum(numbers == NULL ? 0 : STATISTIC_KIND_INDEXES);
	values[Anum_pg_statistic_stanumbers1 - 1] = PointerGetDatum(numbers);
	for (int i = 0; i < STATISTIC_NUM_SLOTS; i++)
	{
		nulls[Anum_pg_statistic_stanumbers1 - 1 + i] = i > 0 || numbers == NULL;
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
rf_import_indexes(Relation relation, RfSession *session, const RfTableOptions *opts)
{
	PGresult   *volatile result = NULL;
	StringInfoData sql;

	/* only those that find a value, whatever rows they have it for; GiST and the like find other things */
	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT i.indexrelid, i.indisunique, a.attname, s.correlation"
					 " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid"
					 " JOIN pg_catalog.pg_am m ON m.oid = c.relam AND m.amname IN ('btree', 'hash')"
					 " CROSS JOIN LATERAL pg_catalog.generate_series(0, i.indnkeyatts - 1) AS k(place)"
					 " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.place]"
					 " LEFT JOIN pg_catalog.pg_stats s ON s.schemaname = %s AND s.tablename = %s AND s.attname = a.attname"
					 " AND s.inherited = EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhparent = i.indrelid)"
					 " WHERE i.indrelid = %s::pg_catalog.regclass AND i.indisvalid AND i.indpred IS NULL"
					 " ORDER BY i.indexrelid, k.place",
					 quote_literal_cstr(opts->schema_name), quote_literal_cstr(opts->table_name),
					 quote_literal_cstr(rf_remote_relation_name(opts)));
	PG_TRY();
	{
		result = rf_session_query(session, sql.data);
		if (PQnfields(result) != 4)
			elog(ERROR, "unexpected answer to the question for a remote table's indexes");
		store_indexes(relation, describe_indexes(relation, result));
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
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid), Int16GetDatum(InvalidAttrNumber),
										BoolGetDatum(false));
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

/* Does the condition ask for one value of the column, which does not come from the table itself? */
static bool
is_equality(RestrictInfo *rinfo, Index relid, AttrNumber column)
{
	OpExpr	   *op = (OpExpr *) rinfo->clause;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2)
		return false;
	for (int side = 0; side < 2; side++)
	{
		Var		   *var = list_nth(op->args, side);

		while (IsA(var, RelabelType))
			var = (Var *) ((RelabelType *) var)->arg;
		if (IsA(var, Var) && var->varno == relid && var->varattno == column && var->varlevelsup == 0 &&
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

/* A guess: what an index tuple needs, in pages that are full to nine tenths. */
static double
index_pages(RfIndex *index, Oid relid, double tuples)
{
	int			size = sizeof(IndexTupleData) + sizeof(ItemIdData);

	for (int i = 0; i < index->column_count; i++)
		size += Max(get_attavgwidth(relid, index->columns[i]), (int32) sizeof(int32));
	return ceil(tuples * size / (BLCKSZ * 0.9));
}

bool
rf_probe_cost(PlannerInfo *root, RfRelInfo *info, List *clauses, double count, double part, bool sorted,
			  RfProbeCost *result)
{
	RelOptInfo *table = info->rel;
	double		node_part = info->fragment == NULL || info->fragment->placement == RF_PLACED_EVERYWHERE ? 1 :
		1.0 / rf_node_count(info);
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

		probes.tuples = table->tuples * part * clauselist_selectivity(root, matched, table->relid, JOIN_INNER, NULL);
		if (index->unique && list_length(matched) == index->column_count)
			probes.tuples = Min(probes.tuples, 1);
		probes.tuples = Max(probes.tuples, 0.1);
		probes.heap_pages = table->pages * node_part;
		probes.heap_tuples = heap_tuples;
		probes.heap_share = 1;
		probes.index_pages = index_pages(index, info->table->relid, heap_tuples);
		probes.correlation = index->correlation;
		/* as btcostestimate() takes it for */
		if (!sorted && index->column_count > 1)
			probes.correlation *= 0.75;
		probes.random_page_cost = random_page_cost;
		probes.seq_page_cost = seq_page_cost;

		cost = rf_probe_reading_cost(root, &probes, sorted) +
			cpu_operator_cost * (ceil(log2(heap_tuples + 1)) +
								 50 * (1 + ceil(log(Max(probes.index_pages, 1)) / log(256)))) +
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
