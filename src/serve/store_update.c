/*
 * store_update.c - rdma_internal.store() for UPDATE and DELETE of rows that the writing node has
 * read before: each of the rows that arrive names one by its ctid and table, and holds its new
 * values.
 *
 * One prepared statement runs per row, as if the writer had sent it by itself: in the order of the
 * rows, each as a command of its own that sees the ones before, so a row that is named twice is
 * written once. What is saved is the round trip, parsing and conversion to text and back. The rows
 * are those of SELECT * FROM rdma_internal.receive(); they go to the statement as they come and are
 * kept nowhere.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "executor/spi.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

#include "rdma_fdw/compat.h"
#include "store.h"

typedef struct RowWriter
{
	DestReceiver dest;			/* first */
	const char *relation;
	RfRowLocker *locker;
	SPIPlanPtr	plan;
	char	   *nulls;			/* for SPI: 'n' or ' ' */
	uint64		written;
} RowWriter;

static void
begin_rows(DestReceiver *dest, int operation, TupleDesc desc)
{
	MemoryContext caller = CurrentMemoryContext;

	/* inside the one that reads the rows, until end_rows */
	SPI_connect();
	MemoryContextSwitchTo(caller);
}

/*
 * A row of the query: locks the row that its first two columns name, and writes it by the prepared
 * UPDATE or DELETE.
 */
static bool
write_row(TupleTableSlot *slot, DestReceiver *dest)
{
	RowWriter  *writer = (RowWriter *) dest;
	MemoryContext caller = CurrentMemoryContext;
	int			count = slot->tts_tupleDescriptor->natts;
	ItemPointer ctid;
	int			result;

	slot_getallattrs(slot);
	if (slot->tts_isnull[0] || slot->tts_isnull[1])
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a row for \"%s\" has no ctid or no tableoid", writer->relation)));
	ctid = (ItemPointer) DatumGetPointer(slot->tts_values[0]);
	for (int i = 0; i < count; i++)
		writer->nulls[i] = slot->tts_isnull[i] ? 'n' : ' ';
	rf_lock_row(writer->locker, DatumGetObjectId(slot->tts_values[1]), ctid);
	rf_store_at_ctid(ctid);
	result = SPI_execute_plan(writer->plan, slot->tts_values, writer->nulls, false, 0);
	if (result < 0 && result != SPI_OK_REWRITTEN)
		elog(ERROR, "rdma_internal.store could not write a row: %s",
			 SPI_result_code_string(result));
	if (SPI_processed > 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("a row of \"%s\" cannot be told from others", writer->relation),
				 errdetail("It is in a foreign table of this node, and " UINT64_FORMAT
						   " rows of that are at the same place (ctid).",
						   (uint64) SPI_processed),
				 errhint("Write a statement whose conditions the data node can evaluate.")));
	MemoryContextSwitchTo(caller);
	writer->written += SPI_processed;
	return true;
}

static void
end_rows(DestReceiver *dest)
{
	SPI_finish();
}

static void
destroy_writer(DestReceiver *dest)
{
}

uint64
rf_store_by_ctid(const char *relation, TupleDesc rows, int place_count, const char *row_types,
				 bool delete, List **statements)
{
	List	   *names = textToQualifiedNameList(cstring_to_text(relation));
	Oid			relid = RangeVarGetRelid(makeRangeVarFromNameList(names), NoLock, false);
	RowWriter	writer = {0};
	SPIExecuteOptions options = {0};
	Oid		   *types = palloc(sizeof(Oid) * rows->natts);
	StringInfoData sql;
	char	   *reading = psprintf("SELECT * FROM rdma_internal.receive() AS r(%s)", row_types);

	initStringInfo(&sql);
	appendStringInfo(&sql, delete ? "DELETE FROM %s" : "UPDATE %s SET ", relation);
	for (int i = 0; i < rows->natts; i++)
	{
		types[i] = TupleDescAttr(rows, i)->atttypid;
		if (i >= place_count)
			appendStringInfo(&sql, "%s%s = $%d", i > place_count ? ", " : "",
							 quote_identifier(NameStr(TupleDescAttr(rows, i)->attname)), i + 1);
	}
	appendStringInfoString(&sql, " WHERE ctid OPERATOR(pg_catalog.=) $1"
						   " AND tableoid OPERATOR(pg_catalog.=) $2");
	for (int i = 2; i < place_count; i++)
		appendStringInfo(&sql, " AND rdma_internal.is_key(%s, $%d)",
						 quote_identifier(NameStr(TupleDescAttr(rows, i)->attname)), i + 1);

	*statements = list_make2(reading, sql.data);
	rf_store_show(sql.data);
	writer.relation = relation;
	writer.locker = rf_row_locker_create(relid, delete);
	writer.nulls = palloc(rows->natts);
	writer.plan = SPI_prepare(sql.data, rows->natts, types);
	if (writer.plan == NULL)
		elog(ERROR, "rdma_internal.store could not prepare \"%s\": %s", sql.data,
			 SPI_result_code_string(SPI_result));
	/* kept beyond the SPI connection that reads, in which it is used */
	if (SPI_keepplan(writer.plan) != 0)
		elog(ERROR, "rdma_internal.store could not keep a plan");
	writer.dest.receiveSlot = write_row;
	writer.dest.rStartup = begin_rows;
	writer.dest.rShutdown = end_rows;
	writer.dest.rDestroy = destroy_writer;
	writer.dest.mydest = DestTuplestore;	/* not DestNone, which SPI takes for "throw it away" */
	options.dest = &writer.dest;
	PG_TRY();
	{
		int			result = SPI_execute_extended(reading, &options);

		if (result != SPI_OK_SELECT)
			elog(ERROR, "rdma_internal.store read its rows with result %d", result);
	}
	PG_FINALLY();
	{
		SPI_freeplan(writer.plan);
	}
	PG_END_TRY();
	rf_row_locker_end(writer.locker);
	return writer.written;
}
