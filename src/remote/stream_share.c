/*
 * stream_share.c - one stream, read by the leader of a parallel query and by its workers.
 *
 * The leader alone has a session: it starts the query, waits for the answer, and compares the
 * answer's counts with what all readers took together. Workers have the address of the flow and see
 * data, the end of the stream, whose counts are checked in the flow, or that it broke.
 *
 * A stream that breaks has a reason that came to the leader by libpq, and the leader raises it when
 * it reads on; that ends the workers. A worker may not return as if all rows had been read
 * meanwhile: so it tells the leader and waits. A leader that does not read, because it waits for
 * the workers' rows or at a barrier, does not hear it: then the worker raises an error of its own.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "session.h"

/* How long a worker waits for the leader to say why a stream broke. */
#define REASON_WAIT_MS		10000

/* ---------- the leader ---------- */

void
rf_stream_share(RfStream *stream, RfStreamAddress *address)
{
	RfSession  *session = stream->session;
	MemoryContext save;

	Assert(!stream->in_place && !stream->keep && stream->reader == NULL);
	address->shared = false;
	while (stream->flow && !rf_flow_is_open(stream->flow))
	{
		int			got;

		rf_stream_check_flow(stream);
		if (rf_stream_collect(stream))
		{
			rf_stream_answered(stream);
			return;
		}
		got = rf_flow_wait(stream->flow, PQsocket(session->conn), -1);
		if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
			rf_session_lost(session);
	}

	if (!rf_flow_share(stream->flow, &address->share, &address->key))
		return;
	save = MemoryContextSwitchTo(stream->context);
	stream->reader = rf_reader_join(address->share, address->key);
	MemoryContextSwitchTo(save);
	address->shared = true;
}

/* As rf_flow_poll. */
RfFlowPoll
rf_stream_share_poll(RfStream *stream)
{
	switch (rf_reader_poll(stream->reader, &stream->buffer))
	{
		case RF_TAKE_DATA:
			return RF_POLL_BUFFER;
		case RF_TAKE_END:
			return RF_POLL_END;
		case RF_TAKE_BROKEN:
			rf_stream_check_flow(stream);	/* else libpq will tell */
			break;
		default:
			break;
	}
	return RF_POLL_EMPTY;
}

/* All readers together; also who took how much. */
void
rf_stream_share_stats(RfStream *stream)
{
	RfShareTotals totals;

	rf_flow_share_totals(stream->flow, &totals);
	stream->stats.batches = totals.batches;
	stream->stats.bytes = totals.bytes;
	stream->stats.sharers = totals.others;
	stream->stats.sharers_batches = totals.others_batches;
	rf_reader_waits(stream->reader, &stream->stats.waits, &stream->stats.wait_us);
}

void
rf_stream_share_end(RfStream *stream)
{
	const void *batch;
	uint32		length;

	if (stream->reader == NULL)
		return;
	if (!rf_flow_share_stop(stream->flow))
	{
		rf_stream_share_stats(stream);
		return;
	}
	if (rf_stream_next(stream, &batch, &length))
		elog(ERROR, "a stream goes on behind its end");
}

/* ---------- workers ---------- */

struct RfStreamReader
{
	RfFlowReader *flow;
	const char *source;
	RfBatchCopy copy;
};

RfStreamReader *
rf_stream_join(const RfStreamAddress *address, const char *source)
{
	RfFlowReader *flow = address->shared ? rf_reader_join(address->share, address->key) : NULL;
	RfStreamReader *reader;

	if (flow == NULL)
		return NULL;
	reader = palloc0(sizeof(RfStreamReader));
	reader->flow = flow;
	reader->source = source;
	reader->copy.context = CurrentMemoryContext;
	return reader;
}

/* Returns when the leader wants no more rows. */
static void
wait_for_reason(RfStreamReader *reader)
{
	RfBuffer	buffer;

	/* one that does not take part in reading surely does not hear it */
	for (long left = parallel_leader_participation ? REASON_WAIT_MS : 0; left > 0; left -= 100)
	{
		rf_reader_call_leader(reader->flow);
		(void) rf_reader_wait(reader->flow, PGINVALID_SOCKET, 100);
		if (rf_reader_poll(reader->flow, &buffer) == RF_TAKE_OVER)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("the rows of \"%s\" did not arrive complete in a parallel worker", reader->source),
			 errdetail("The stream ended short."),
			 errhint("The data node's log says why.")));
}

bool
rf_stream_reader_next(RfStreamReader *reader, const void **batch, uint32 *length)
{
	RfBuffer	buffer;

	for (;;)
	{
		switch (rf_reader_poll(reader->flow, &buffer))
		{
			case RF_TAKE_DATA:
				{
					bool		complete = rf_batch_copy_add(&reader->copy, &buffer, reader->source, NULL);

					if (!rf_reader_copied(reader->flow, &buffer))
						return false;
					if (!complete)
						break;
					*batch = reader->copy.data;
					*length = reader->copy.length;
					return true;
				}
			case RF_TAKE_END:
			case RF_TAKE_OVER:
				return false;
			case RF_TAKE_BROKEN:
				wait_for_reason(reader);
				return false;
			case RF_TAKE_NOTHING:
			case RF_TAKE_BAD:	/* raised */
				(void) rf_reader_wait(reader->flow, PGINVALID_SOCKET, -1);
				break;
		}
	}
}
