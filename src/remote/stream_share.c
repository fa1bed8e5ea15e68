/*
 * stream_share.c - streams of one statement, read by the leader of a parallel query and by its
 * workers.
 *
 * The leader alone has sessions: it starts the query, waits for the answer, and compares the
 * answer's counts with the rows that all readers took together. Workers have the address of the
 * flow and see data, the end of the stream, whose counts are checked in the flow, or that it broke.
 *
 * With streams from several nodes, each process takes a batch from each in turn, if it has one: so
 * no node's buffers stay full while another node's are emptied, and no process sleeps while rows
 * are here. A process that takes from one stream passes on its duty to poll the rest (share.h).
 *
 * A stream that breaks has a reason that came to the leader by libpq, and the leader raises it when
 * it reads on; that ends the workers. A worker may not return as if all rows had been read
 * meanwhile: so it tells the leader and waits. A leader that does not read, because it waits for
 * the workers' rows or at a barrier, does not hear it: then the worker raises an error of its own.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "optimizer/optimizer.h"
#include "storage/latch.h"

#include "rdma_fdw/compat.h"
#include "session.h"

/* How long a worker waits for the leader to report why a stream broke. */
#define REASON_WAIT_MS		10000

StaticAssertDecl(RF_STREAM_SHARERS == RF_SHARE_MEMBERS, "all that may join are counted");

/* ---------- the leader ---------- */

void
rf_stream_share(RfStream *stream, RfStreamAddress *address)
{
	RfSession  *session = stream->session;
	MemoryContext save;

	Assert(stream->shared && !stream->in_place && !stream->keep && stream->reader == NULL);
	address->shared = false;
	/* a stream that has been stored, or closed, is out of the workers' reach */
	if (stream->flow == NULL)
		elog(ERROR, "the rows of \"%s\" cannot be shared with parallel workers any more",
			 stream->source);
	while (!rf_flow_is_open(stream->flow))
	{
		int			got;

		rf_stream_check_flow(stream);
		if (rf_stream_collect(stream))
		{
			rf_stream_answered(stream);
			return;
		}
		got = rf_flow_wait(stream->flow, &session->wait, PQsocket(session->conn), -1);
		if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
			rf_session_lost(session);
	}

	rf_flow_share(stream->flow, &address->share, &address->key);
	save = MemoryContextSwitchTo(stream->context);
	stream->reader = rf_reader_join(address->share, address->key, 0);
	MemoryContextSwitchTo(save);
	address->shared = true;
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
	int			count;
	int			next;			/* the stream to look at first */
	const char *source;
	RfReassembly copy;			/* of one stream at a time */
	RfFlowReader *flows[FLEXIBLE_ARRAY_MEMBER]; /* NULL: all was taken */
};

RfStreamReader *
rf_stream_join(const RfStreamAddress *addresses, int count, const char *source)
{
	RfStreamReader *reader = palloc0(offsetof(RfStreamReader, flows) +
									 sizeof(RfFlowReader *) * count);

	reader->count = count;
	/* not all to the same one at first */
	reader->next = ParallelWorkerNumber % count;
	reader->source = source;
	rf_reassembly_init(&reader->copy, CurrentMemoryContext, source, 0);
	for (int i = 0; i < count; i++)
	{
		if (addresses[i].shared)
			reader->flows[i] = rf_reader_join(addresses[i].share, addresses[i].key,
											  ParallelWorkerNumber + 1);
	}
	return reader;
}

/* Returns when the leader wants no more rows. */
static void
wait_for_reason(RfStreamReader *reader, RfFlowReader *broken)
{
	RfBuffer	buffer;

	/* a leader that does not read surely does not hear it */
	for (long left = parallel_leader_participation ? REASON_WAIT_MS : 0; left > 0; left -= 100)
	{
		rf_reader_call_leader(broken);
		(void) rf_reader_wait(broken, NULL, PGINVALID_SOCKET, 100);
		if (rf_reader_poll(broken, &buffer) == RF_TAKE_OVER)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("the rows of \"%s\" did not arrive complete in a parallel worker",
					reader->source),
			 errdetail("The stream ended short."), errhint("The data node's log says why.")));
}

/* We do not poll the other streams again soon. */
static void
turn_to(RfStreamReader *reader, int place)
{
	for (int i = 0; i < reader->count; i++)
	{
		if (i != place && reader->flows[i] != NULL)
			rf_reader_pass(reader->flows[i]);
	}
}

/*
 * Polls one stream once. RF_TAKE_NOTHING: nothing is there, or only a part of a batch (copy.open).
 */
static RfShareTake
take_from(RfStreamReader *reader, int place)
{
	RfFlowReader *flow = reader->flows[place];
	RfBuffer	buffer;
	RfShareTake take;

	while ((take = rf_reader_poll(flow, &buffer)) == RF_TAKE_DATA)
	{
		uint32		checksum;
		bool		complete;

		turn_to(reader, place);
		/* The copy counts if the flow was not closed meanwhile: its checksum comes last. */
		checksum = buffer.checksum;
		buffer.checksum = 0;
		complete = rf_reassembly_add(&reader->copy, &buffer);
		if (!rf_reader_copied(flow, &buffer))
			return RF_TAKE_OVER;
		if (complete)
		{
			rf_check_batch(reader->copy.data, reader->copy.length, checksum);
			break;
		}
	}
	return take;
}

bool
rf_stream_reader_next(RfStreamReader *reader, const void **batch, uint32 *length)
{
	for (;;)
	{
		RfFlowReader *starved = NULL;

		for (int i = 0; i < reader->count; i++)
		{
			int			place = (reader->next + i) % reader->count;

			if (reader->flows[place] == NULL)
				continue;
			switch (take_from(reader, place))
			{
				case RF_TAKE_DATA:
					*batch = reader->copy.data;
					*length = reader->copy.length;
					reader->next = (place + 1) % reader->count;
					return true;
				case RF_TAKE_END:
				case RF_TAKE_OVER:

					/*
					 * The leader closes each stream when it has seen its end, and all of them when
					 * it wants no more.
					 */
					rf_reassembly_void(&reader->copy);
					reader->flows[place] = NULL;
					continue;
				case RF_TAKE_BROKEN:
					turn_to(reader, place);
					wait_for_reason(reader, reader->flows[place]);
					return false;
				case RF_TAKE_NOTHING:
				case RF_TAKE_BAD:	/* raised */
					break;
			}
			starved = reader->flows[place];
			/* the rest of the batch is for us alone, and we take nothing else until it is here */
			if (reader->copy.open)
			{
				reader->next = place;
				break;
			}
		}
		if (starved == NULL)
			return false;
		(void) rf_reader_wait(starved, NULL, PGINVALID_SOCKET, -1);
	}
}
