/*
 * bench.c - rdma.bench(server, ...) measures a flow between two live nodes; rdma.zero_pages() makes
 * the rows that it moves.
 *
 * As Geyer et al. 3 measure it: in the throughput test the reader releases each receive buffer at
 * once, in the consume test it copies it first. The data node's side is an ordinary stream whose
 * rows are pages of zeros, one to a buffer, so the way equals a foreign scan's from the encoder to
 * the receive buffer; it lacks a plan that makes rows and an executor that uses them.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"
#include "shmem/layout.h"
#include "monitor.h"

PG_FUNCTION_INFO_V1(rdma_bench);
PG_FUNCTION_INFO_V1(rdma_zero_pages);

#define MAX_BYTES			(INT64CONST(1) << 40)
#define MAX_PAGE			(16 * 1024 * 1024)
#define BATCH_OVERHEAD		128 /* more than the headers of a batch with one value, aligned */

/* ---------- the data node's side ---------- */

typedef struct Pages
{
	bytea	   *page;			/* a full one; every row is the same datum */
	int64		left;
} Pages;

/*
 * Pages of zeros, `bytes` in sum, the last one shorter. No more memory than one of them, however
 * many.
 */
Datum
rdma_zero_pages(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	Pages	   *pages;
	int64		length;

	if (SRF_IS_FIRSTCALL())
	{
		int64		bytes = PG_GETARG_INT64(0);
		int32		page = PG_GETARG_INT32(1);

		if (bytes < 0 || bytes > MAX_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("bytes must be between 0 and %lld", (long long) MAX_BYTES)));
		if (page < 1 || page > MAX_PAGE)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("page_size must be between 1 and %d", MAX_PAGE)));
		call = SRF_FIRSTCALL_INIT();
		pages = MemoryContextAlloc(call->multi_call_memory_ctx, sizeof(Pages));
		pages->page = MemoryContextAllocZero(call->multi_call_memory_ctx,
											 VARHDRSZ + Min(bytes, page));
		SET_VARSIZE(pages->page, VARHDRSZ + Min(bytes, page));
		pages->left = bytes;
		call->user_fctx = pages;
	}
	call = SRF_PERCALL_SETUP();
	pages = call->user_fctx;
	CHECK_FOR_INTERRUPTS();
	if (pages->left == 0)
		SRF_RETURN_DONE(call);
	length = VARSIZE(pages->page) - VARHDRSZ;
	if (pages->left < length)
	{
		length = pages->left;
		SET_VARSIZE(pages->page, VARHDRSZ + length);
	}
	pages->left -= length;
	SRF_RETURN_NEXT(call, PointerGetDatum(pages->page));
}

/* ---------- the reader's side ---------- */

/* Read `bytes` of zeros; returns the seconds it took. */
static double
read_zeros(UserMapping *user, int64 bytes, uint32 buffer_size, uint32 buffers, bool copy,
		   RfStreamStats *stats)
{
	uint32		page = buffer_size - sizeof(RfSlotHeader) - BATCH_OVERHEAD;
	char	   *sql = psprintf("SELECT rdma.zero_pages(" INT64_FORMAT ", %u)", bytes, page);
	char	   *target = copy ? palloc(buffer_size) : NULL;
	RfStreamColumn column;
	RfStreamSpec spec;
	RfStream   *stream = NULL;
	const void *batch;
	uint32		length;
	instr_time	start;
	instr_time	end;

	memset(&spec, 0, sizeof(spec));
	rf_column_wanted(BYTEAOID, -1, false, &column);
	spec.sql = sql;
	spec.source = "rdma.bench";
	spec.column_count = 1;
	spec.columns = &column;
	spec.receive_buffers = buffers;
	spec.receive_buffer_size = buffer_size;
	spec.in_place = true;
	spec.estimated_rows = ceil((double) bytes / page);

	INSTR_TIME_SET_CURRENT(start);
	rf_stream_start(rf_session_get(user, true), &spec, &stream);
	PG_TRY();
	{
		while (rf_stream_next(stream, &batch, &length))
		{
			CHECK_FOR_INTERRUPTS();
			if (copy && length <= buffer_size)
				memcpy(target, batch, length);
		}
	}
	PG_CATCH();
	{
		/* `stream` lives on this stack. */
		if (stream)
			rf_stream_orphan(stream);
		PG_RE_THROW();
	}
	PG_END_TRY();
	INSTR_TIME_SET_CURRENT(end);
	rf_stream_close(stream, stats);
	INSTR_TIME_SUBTRACT(end, start);
	if (target)
		pfree(target);
	pfree(sql);
	return INSTR_TIME_GET_DOUBLE(end);
}

static int32
int_argument(FunctionCallInfo fcinfo, int number, const char *name, int32 missing, int32 low,
			 int32 high)
{
	int32		value = PG_ARGISNULL(number) ? missing : PG_GETARG_INT32(number);

	if (value < low || value > high)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between %d and %d", name, low, high)));
	return value;
}

/*
 * rdma.bench(server, bytes, ...): pulls so many bytes of pages of zeros through an ordinary stream,
 * after a short one that makes the connection, and returns the speed and the waits.
 */
Datum
rdma_bench(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[11];
	bool		nulls[11] = {false};
	UserMapping *user;
	RfStreamStats stats;
	int64		bytes;
	int32		kilobytes;
	uint32		buffer_size;
	uint32		buffers;
	bool		copy;
	double		seconds;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("server and bytes must not be null")));
	bytes = PG_GETARG_INT64(1);
	if (bytes < 1 || bytes > MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bytes must be between 1 and %lld", (long long) MAX_BYTES)));
	kilobytes = int_argument(fcinfo, 2, "buffer_size", rf_receive_buffer_size,
							 RF_MIN_SLOT_SIZE / 1024, RF_MAX_SLOT_SIZE / 1024);
	buffers = int_argument(fcinfo, 3, "buffers", rf_receive_buffers, 1, RF_MAX_SLOTS);
	copy = PG_ARGISNULL(4) || PG_GETARG_BOOL(4);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	user = rf_monitor_mapping(GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false));
	rf_engine_require();

	/* The first stream makes missing connections. */
	buffer_size = (uint32) kilobytes * 1024 / RF_MIN_SLOT_SIZE * RF_MIN_SLOT_SIZE;
	memset(&stats, 0, sizeof(stats));
	(void) read_zeros(user, 1, buffer_size, buffers, false, &stats);

	memset(&stats, 0, sizeof(stats));
	seconds = read_zeros(user, bytes, buffer_size, buffers, false, &stats);
	values[0] = Float8GetDatum(bytes / 1e6 / seconds);
	nulls[1] = !copy;
	if (copy)
	{
		seconds = read_zeros(user, bytes, buffer_size, buffers, true, &stats);
		values[1] = Float8GetDatum(bytes / 1e6 / seconds);
	}
	values[2] = Int64GetDatum(stats.batches);
	values[3] = Int64GetDatum(stats.waits);
	values[4] = Int64GetDatum(stats.sender_waits);
	values[5] = Int64GetDatum(stats.work_requests);
	values[6] = Int64GetDatum(stats.merged);
	values[7] = Int64GetDatum(stats.chained);
	values[8] = Int64GetDatum(stats.credit_stalls);
	values[9] = CStringGetTextDatum(rf_shared->device.provider);
	values[10] = CStringGetTextDatum(stats.transport);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
