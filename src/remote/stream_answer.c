/*
 * stream_answer.c - processes the data node's answer to a stream's request over libpq: waits for
 * it, compares it with the rows that came over the flow, and, of several nodes, finds the node
 * whose error caused the other errors.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "rdma_fdw/sql_text.h"

#include "session.h"

/* How long a stream that lost its connection waits for another node's reason. */
#define BLAME_MS		1000

/* The remote command has ended. So has a stream that nobody reads. */
static void
finish_exchange(RfStream *stream)
{
	RfSession  *session = stream->session;
	PGresult   *result = stream->answer.result;
	RfStreamReply reply;

	session->running = NULL;
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 &&
		PQnfields(result) == 1 && PQgetlength(result, 0, 0) >= (int) sizeof(reply))
	{
		memcpy(&reply, PQgetvalue(result, 0, 0), sizeof(reply));
		session->xact.wrote |= reply.wrote != 0;
	}
	if (stream->state == RF_STREAM_STOPPING &&
		PQresultStatus(stream->answer.result) != PGRES_TUPLES_OK)
	{
		stream->state = RF_STREAM_ENDED;
		session->failed = stream;
	}
	else if (stream->state == RF_STREAM_STOPPING)
	{
		dlist_delete(&stream->node);
		rf_stream_free(stream);
	}
	else
		stream->state = RF_STREAM_ENDED;
}

bool
rf_stream_collect(RfStream *stream)
{
	RfSession  *session = stream->session;

	Assert(session->running == stream);
	if (!rf_pipeline_take(session, &stream->answer))
		return false;
	finish_exchange(stream);
	return true;
}

/* ---------- the member at fault ---------- */

static bool
has_class(const PGresult *result, const char *class)
{
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;

	return state != NULL && strncmp(state, class, 2) == 0;
}

/*
 * The stream's statement has failed (stream->answer.result). If it lost the connection to another
 * node, that node's own error is the one to show, if it comes soon. Returns the stream with the
 * error to show.
 */
static RfStream *
find_culprit(RfStream *stream)
{
	RfStreamSet *set = stream->set;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), BLAME_MS);

	while (has_class(stream->answer.result, "08"))
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
		bool		running = false;

		for (int i = 0; i < set->count; i++)
		{
			RfStream   *other = set->members[i];

			if (other == NULL || other == stream)
				continue;
			if (rf_stream_is_awaited(other))
			{
				if (!PQconsumeInput(other->session->conn))
					rf_session_lost(other->session);
				if (!rf_stream_collect(other))
				{
					running = true;
					continue;
				}
				other = set->members[i];	/* a stream that nobody reads may be gone */
			}
			if (other != NULL && other->answer.result != NULL &&
				PQresultStatus(other->answer.result) != PGRES_TUPLES_OK &&
				!has_class(other->answer.result, "08"))
				return other;
		}
		if (!running || left <= 0)
			break;
		(void) rf_stream_set_wait(stream, left);
	}
	return stream;
}

/* Returns true if a lack of buffers is the reason, and no other reason is known yet. */
bool
rf_stream_set_lacks_buffers(RfStream *stream)
{
	return stream->set->may_retry && has_class(find_culprit(stream)->answer.result, "53");
}

__attribute__((noreturn)) static void
blame(RfStream *stream)
{
	RfStream   *culprit = find_culprit(stream);
	ErrorContextCallback callback = {error_context_stack, rf_stream_error_context, culprit};
	PGresult   *result = culprit->answer.result;

	error_context_stack = &callback;
	culprit->answer.result = NULL;
	rf_session_raise(culprit->session, result, culprit->sql);
}

/* ---------- the counts ---------- */

static void
incomplete(RfStream *stream, const char *what, uint64 expected, uint64 got)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the rows of \"%s\" did not arrive complete from server \"%s\"",
					stream->source, stream->session->server_name),
			 errdetail("Expected " UINT64_FORMAT " %s, got " UINT64_FORMAT ".", expected,
					   what, got)));
}

/* If the rows did not fit the answer, it has the reason why there is no flow. */
static void
raise_no_engine(RfStream *stream)
{
	const RfError *error = &stream->session->engines.error;
	const char *state = PQresultErrorField(stream->answer.result, PG_DIAG_SQLSTATE);

	if (error->kind == RF_ERROR_NONE || state == NULL || strcmp(state, "08003") != 0)
		return;
	ereport(ERROR,
			(errcode(rf_error_sqlstate(error->kind)),
			 errmsg_internal("%s", error->message),
			 errdetail("The rows of \"%s\" from server \"%s\" do not fit option inline_limit, "
					   "and only those that do come without the engines.",
					   stream->source, stream->session->server_name),
			 error->hint[0] ? errhint("%s", error->hint) : 0));
}

/*
 * Takes the numbers of the answer, and the text of the node's plan behind them and the rows. The
 * answer has such a text only if it was asked for.
 */
static void
read_reply(RfStream *stream)
{
	PGresult   *result = stream->answer.result;
	RfStreamReply *reply = &stream->reply;
	uint32		length = 0;

	if (PQntuples(result) == 1 && PQnfields(result) == 1)
		length = PQgetlength(result, 0, 0);
	if (length >= sizeof(RfStreamReply))
		memcpy(reply, PQgetvalue(result, 0, 0), sizeof(RfStreamReply));
	if (length < sizeof(RfStreamReply) || reply->wire_version != RF_WIRE_VERSION ||
		reply->inline_length > length - sizeof(RfStreamReply) ||
		(stream->plan == NULL && reply->inline_length != length - sizeof(RfStreamReply)) ||
		(reply->used_flow && reply->inline_length > 0))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("server \"%s\" answered a stream request with something else",
						stream->session->server_name)));
	if (stream->plan == NULL)
		return;
	resetStringInfo(stream->plan);
	appendStringInfoString(stream->plan,
						   rf_message_text(PQgetvalue(result, 0, 0) + sizeof(RfStreamReply) +
										   reply->inline_length));
}

void
rf_streams_finish(RfStream *const *streams, int count)
{
	/* a node may wait for the reader of another one */
	for (int i = 0; i < count; i++)
	{
		if (streams[i] != NULL && streams[i]->state == RF_STREAM_RUNNING)
			rf_stream_close_flow(streams[i]);
	}
	for (int i = 0; i < count; i++)
	{
		RfStream   *stream = streams[i];
		PGresult   *result;

		if (stream == NULL || stream->state != RF_STREAM_RUNNING)
			continue;
		while (!rf_stream_collect(stream))
			rf_session_await_input(stream->session);
		result = stream->answer.result;
		if (PQresultStatus(result) == PGRES_TUPLES_OK)
		{
			read_reply(stream);
			continue;
		}
		stream->answer.result = NULL;
		rf_session_raise(stream->session, result, stream->sql);
	}
}

void
rf_stream_answered(RfStream *stream)
{
	PGresult   *result = stream->answer.result;
	RfStreamReply *reply = &stream->reply;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		if (stream->inline_only)
			raise_no_engine(stream);
		if (stream->set)
			blame(stream);
		stream->answer.result = NULL;
		rf_session_raise(stream->session, result, stream->sql);
	}

	read_reply(stream);
	if (reply->used_flow)
	{
		uint64		rows;
		uint64		bytes;

		if (!stream->flow_ended)
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("the rows of \"%s\" did not arrive complete from server \"%s\"",
							stream->source, stream->session->server_name),
					 errdetail("The stream ended short.")));
		if (stream->reader)
			rf_stream_share_stats(stream);
		rf_flow_totals(stream->flow, &rows, &bytes);
		if (rows != reply->rows)
			incomplete(stream, "rows", reply->rows, rows);
		if (bytes != reply->bytes || bytes != stream->stats.bytes)
			incomplete(stream, "bytes", reply->bytes, stream->stats.bytes);
		if (reply->batches != stream->stats.batches)
			incomplete(stream, "batches", reply->batches, stream->stats.batches);
		PQclear(result);
		stream->answer.result = NULL;
	}
	else if (reply->inline_length > 0)
	{
		RfBatchHeader header;

		if (reply->inline_length < sizeof(header))
			incomplete(stream, "bytes", sizeof(header), reply->inline_length);
		stream->inline_batch = PQgetvalue(result, 0, 0) + sizeof(RfStreamReply);
		memcpy(&header, stream->inline_batch, sizeof(header));
		if (header.row_count != reply->rows)
			incomplete(stream, "rows", reply->rows, header.row_count);
		stream->stats.inlined = 1;
		stream->stats.batches = 1;
		stream->stats.bytes = reply->inline_length;
	}
	else
	{
		if (reply->rows != 0)
			incomplete(stream, "rows", reply->rows, 0);
		stream->stats.inlined = 1;
	}
	stream->stats.rows = reply->rows;
	stream->stats.work_requests = reply->work_requests;
	stream->stats.merged = reply->merged;
	stream->stats.chained = reply->chained;
	stream->stats.credit_stalls = reply->credit_stalls;
	stream->stats.sender_waits = reply->waits;
	stream->stats.sender_wait_us = reply->wait_us;
	stream->stats.page_rows = reply->page_rows;
	stream->stats.pages_box = reply->pages_box;
	stream->stats.pages_packed = reply->pages_packed;
	stream->stats.useful_bytes = reply->useful_bytes;
	stream->stats.gap_bytes = reply->gap_bytes;
	stream->stats.pages_gathered = reply->pages_gathered;
	stream->stats.pages_strided = reply->pages_strided;
	stream->stats.uncopied_bytes = reply->uncopied_bytes;
	/* rows in the answer; and of batches that workers took, this process sees the end alone */
	if (!reply->used_flow || stream->reader != NULL)
		rf_stream_note_time(stream);
	rf_stream_note_run(stream);
	stream->replied = true;
	if (reply->used_flow)
		rf_link_observe(stream);
	rf_stream_close_flow(stream);
}
