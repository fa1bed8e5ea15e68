/*
 * modify_convert.c - converts values of single rows for libpq: to the text of parameters, and back
 * from the text of results. Column batches do not use this.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "libpq-fe.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"

#include "exec.h"

struct RfValueWriter
{
	int			count;
	int			depends;		/* RF_TEXT_*, of any value's text */
	FmgrInfo   *out;
	const char **text;
	MemoryContext context;
};

struct RfResultReader
{
	AttInMetadata *in;
	int			depends;		/* RF_TEXT_*, of any column's text */
	char	   *relation;
	List	   *attnums;
	Datum	   *values;
	bool	   *isnull;
	AttrNumber	current;
	MemoryContext context;
};

RfValueWriter *
rf_value_writer_create(List *types)
{
	RfValueWriter *writer = palloc0(sizeof(RfValueWriter));
	ListCell   *lc;

	writer->count = list_length(types);
	writer->out = palloc0(sizeof(FmgrInfo) * Max(writer->count, 1));
	writer->text = palloc0(sizeof(char *) * Max(writer->count, 1));
	writer->context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw parameters",
											ALLOCSET_SMALL_SIZES);
	foreach(lc, types)
	{
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(lfirst_oid(lc), &function, &is_varlena);
		fmgr_info(function, &writer->out[foreach_current_index(lc)]);
		writer->depends |= rf_text_depends(lfirst_oid(lc));
	}
	return writer;
}

const char *const *
rf_write_values(RfValueWriter *writer, const Datum *values, const bool *isnull)
{
	MemoryContext caller;
	int			nestlevel;

	MemoryContextReset(writer->context);
	if (writer->count == 0)
		return writer->text;
	nestlevel = rf_neutral_settings(writer->depends);
	caller = MemoryContextSwitchTo(writer->context);
	for (int i = 0; i < writer->count; i++)
		writer->text[i] = isnull[i] ? NULL : OutputFunctionCall(&writer->out[i], values[i]);
	MemoryContextSwitchTo(caller);
	AtEOXact_GUC(true, nestlevel);
	return writer->text;
}

RfResultReader *
rf_result_reader_create(TupleDesc desc, const char *relation, List *attnums)
{
	RfResultReader *reader = palloc0(sizeof(RfResultReader));

	reader->in = TupleDescGetAttInMetadata(desc);
	reader->depends = rf_row_text_depends(desc) & ~RF_TEXT_NAMES;
	reader->relation = pstrdup(relation);
	reader->attnums = attnums;
	reader->values = palloc0(sizeof(Datum) * desc->natts);
	reader->isnull = palloc0(sizeof(bool) * desc->natts);
	reader->context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw result",
											ALLOCSET_SMALL_SIZES);
	return reader;
}

void
rf_clear_system_columns(HeapTupleHeader row)
{
	HeapTupleHeaderSetXmin(row, InvalidTransactionId);
	HeapTupleHeaderSetXmax(row, InvalidTransactionId);
	HeapTupleHeaderSetCmin(row, InvalidTransactionId);
}

void
rf_set_row_place(HeapTupleHeader row, Oid table, int part)
{
	HeapTupleHeaderSetXmax(row, table);
	HeapTupleHeaderSetCmin(row, part);
}

static void
conversion_error_context(void *arg)
{
	RfResultReader *reader = arg;

	if (reader->current > 0)
		errcontext("column \"%s\" of foreign table \"%s\"",
				   NameStr(TupleDescAttr(reader->in->tupdesc, reader->current - 1)->attname),
				   reader->relation);
}

void
rf_read_result(RfResultReader *reader, PGresult *result, int row, TupleTableSlot *slot)
{
	TupleDesc	desc = reader->in->tupdesc;
	ErrorContextCallback callback = {error_context_stack, conversion_error_context, reader};
	MemoryContext caller = MemoryContextSwitchTo(reader->context);
	HeapTuple	tuple;
	ItemPointer ctid = NULL;
	ListCell   *lc;
	int			nestlevel;

	if (PQnfields(result) != list_length(reader->attnums))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("remote query result does not match the foreign table \"%s\"",
						reader->relation),
				 errdetail("It has %d columns instead of %d.", PQnfields(result),
						   list_length(reader->attnums))));
	MemoryContextReset(reader->context);
	memset(reader->isnull, true, desc->natts * sizeof(bool));
	nestlevel = rf_neutral_settings(reader->depends);
	error_context_stack = &callback;
	foreach(lc, reader->attnums)
	{
		int			column = foreach_current_index(lc);
		int			i = lfirst_int(lc) - 1;
		char	   *value = PQgetisnull(result, row, column) ? NULL :
			PQgetvalue(result, row, column);

		if (lfirst_int(lc) == SelfItemPointerAttributeNumber)
		{
			if (value == NULL)
				ereport(ERROR,
						(errcode(ERRCODE_FDW_ERROR),
						 errmsg("a row of foreign table \"%s\" has no place (ctid)",
								reader->relation)));
			ctid = (ItemPointer) DatumGetPointer(DirectFunctionCall1(tidin,
																	 CStringGetDatum(value)));
			continue;
		}
		reader->current = i + 1;
		/* NULLs too: a domain may reject them */
		reader->values[i] = InputFunctionCall(&reader->in->attinfuncs[i], value,
											  reader->in->attioparams[i],
											  reader->in->atttypmods[i]);
		reader->isnull[i] = value == NULL;
	}
	error_context_stack = callback.previous;
	AtEOXact_GUC(true, nestlevel);
	reader->current = 0;
	MemoryContextSwitchTo(caller);

	/* the slot may be of any kind, and keeps a copy of its own */
	MemoryContextSwitchTo(slot->tts_mcxt);
	tuple = heap_form_tuple(desc, reader->values, reader->isnull);
	rf_clear_system_columns(tuple->t_data);
	if (ctid)
		tuple->t_self = tuple->t_data->t_ctid = *ctid;
	MemoryContextSwitchTo(caller);
	ExecForceStoreHeapTuple(tuple, slot, true);
}
