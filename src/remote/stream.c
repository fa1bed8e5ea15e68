/*
 * stream.c - a remote query whose rows arrive as column batches: by a flow, or inside libpq's
 * answer when they are few.
 *
 * It starts rdma.stream() on the data node, hands out batches as they come, puts fragments
 * together, and checks at the end that all came. One stream runs per session at a time: when the
 * session is needed for something else, the rest of it is stored here first. It does not look into
 * batches.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "shmem/peer_table.h"
#include "session.h"

static void send_request(RfStream *stream, const RfStreamSpec *spec, int peer);
static RfStreamPoll fetch(RfStream *stream, bool wait, const void **batch, uint32 *length);
static bool take_buffer(RfStream *stream, const void **batch, uint32 *length);
static void close_flow(RfStream *stream);
static bool store(RfStream *stream, bool wait);
static void finish_exchange(RfStream *stream);

void
rf_stream_start(RfSession *session, const RfStreamSpec *spec, RfStream **owner_ref)
{
	MemoryContext context;
	RfStream   *stream;
	int			peer;

	*owner_ref = NULL;
	rf_session_settle(session);
	rf_engine_require();
	peer = spec->shared || spec->inline_limit < sizeof(RfBatchHeader) ? rf_session_peer(session) :
		rf_session_try_peer(session);

	context = AllocSetContextCreate(TopMemoryContext, "rdma_fdw stream", ALLOCSET_SMALL_SIZES);
	stream = MemoryContextAllocZero(context, sizeof(RfStream));
	stream->session = session;
	stream->context = context;
	stream->resowner = CurrentResourceOwner;
	stream->level = rf_transaction_target(session);
	stream->state = RF_STREAM_ENDED;	/* nothing runs yet */
	stream->owner_ref = owner_ref;
	dlist_push_tail(&session->streams, &stream->node);
	*owner_ref = stream;

	stream->sql = MemoryContextStrdup(context, spec->sql);
	stream->source = MemoryContextStrdup(context, spec->source);
	stream->in_place = spec->in_place;
	stream->moved = spec->moved;
	stream->owner = spec->owner;
	stream->keep = spec->keep;
	stream->receive_buffers = spec->receive_buffers;
	stream->receive_buffer_size = spec->receive_buffer_size;
	rf_reassembly_init(&stream->copy, context, stream->source, spec->receive_buffer_size);
	stream->stats.streams = 1;

	stream->inline_only = peer == RF_NO_PEER;
	if (!stream->inline_only)
		stream->flow = rf_flow_listen(peer, spec->receive_buffers, spec->receive_buffer_size,
									  spec->estimated_rows < 1e18 ? (uint64) spec->estimated_rows : 0);
	send_request(stream, spec, peer);
}

/* text[] in its binary form, which needs no quoting */
void
rf_append_text_array(StringInfo buf, int count, const char *const *values)
{
	bool		nulls = false;

#define PUT32(v) do { uint32 be_ = pg_hton32((uint32) (v)); appendBinaryStringInfo(buf, (char *) &be_, 4); } while (0)
	for (int i = 0; i < count; i++)
		nulls |= values[i] == NULL;
	PUT32(count > 0 ? 1 : 0);
	PUT32(nulls);
	PUT32(TEXTOID);
	if (count > 0)
	{
		PUT32(count);
		PUT32(1);
	}
	for (int i = 0; i < count; i++)
	{
		if (values[i] == NULL)
			PUT32(-1);
		else
		{
			uint32		length = strlen(values[i]);

			PUT32(length);
			appendBinaryStringInfo(buf, values[i], length);
		}
	}
#undef PUT32
}

/* The remote transaction's beginning, if it has not begun, and the query: one round trip. */
static void
send_request(RfStream *stream, const RfStreamSpec *spec, int peer)
{
	RfSession  *session = stream->session;
	PGconn	   *conn = session->conn;
	RfStreamRequest request;
	RfTypeImage image;
	RfNodeId	node;
	StringInfoData head;
	StringInfoData types;
	StringInfoData values;
	const char *arguments[4];
	int			lengths[4];
	int			formats[4] = {1, 1, 1, 1};
	MemoryContext save = MemoryContextSwitchTo(stream->context);
	bool		sent;

	rf_node_self(&node, &image);
	memset(&request, 0, sizeof(request));
	request.wire_version = RF_WIRE_VERSION;
	if (memcmp(&image, &session->hello.image, sizeof(image)) != 0)
		request.flags |= RF_STREAM_PORTABLE;
#ifdef USE_LZ4
	/* Tuples come as they are stored, with values compressed in any way that major has. */
	else if (spec->accept_pages && session->hello.server_version_num / 10000 == PG_VERSION_NUM / 10000)
		request.flags |= RF_STREAM_PAGES;
#endif
	if (spec->shared)
		request.flags |= RF_STREAM_FLOW;
	request.node = node;
	if (stream->inline_only)
		request.flags |= RF_STREAM_INLINE;
	else
	{
		rf_flow_address(stream->flow, &request.consumer_flow, &request.key);
		request.bandwidth = atomic_load(&rf_shared->peers[peer].bandwidth);
	}
	request.inline_limit = spec->inline_limit;
	request.encoding = GetDatabaseEncoding();
	request.column_count = spec->column_count;

	initStringInfo(&head);
	appendBinaryStringInfo(&head, (char *) &request, sizeof(request));
	if (spec->column_count > 0)
		appendBinaryStringInfo(&head, (const char *) spec->columns, spec->column_count * sizeof(RfStreamColumn));
	initStringInfo(&types);
	rf_append_text_array(&types, spec->param_count, spec->param_types);
	initStringInfo(&values);
	rf_append_text_array(&values, spec->param_count, spec->param_values);

	arguments[0] = head.data;
	lengths[0] = head.len;
	arguments[1] = spec->sql;
	lengths[1] = strlen(spec->sql);
	arguments[2] = types.data;
	lengths[2] = types.len;
	arguments[3] = values.data;
	lengths[3] = values.len;

	/*
	 * From here on an error finds the session busy, and the end of the transaction puts that right.
	 */
	stream->state = RF_STREAM_RUNNING;
	session->running = stream;
	sent = PQenterPipelineMode(conn) == 1 &&
		rf_session_send_begin(session, rf_transaction_target(session), &stream->begin_results) &&
		(session->shared ?
		 PQsendQueryParams(conn, RF_STREAM_SQL, 4, rf_stream_types, arguments, lengths, formats, 1) :
		 PQsendQueryPrepared(conn, session->stream_statement, 4, arguments, lengths, formats, 1)) &&
		PQpipelineSync(conn);
	if (!sent)
		rf_session_lost(session);
	rf_session_flush(session);

	pfree(head.data);
	pfree(types.data);
	pfree(values.data);
	MemoryContextSwitchTo(save);
}

/* ---------- reading ---------- */

static void
release_held(RfStream *stream)
{
	if (stream->holding)
	{
		stream->holding = false;
		if (stream->reader)
			(void) rf_reader_copied(stream->reader, &stream->buffer);
		else
			rf_flow_release(stream->flow, &stream->buffer);
	}
}

static void
drop_retained(RfStream *stream)
{
	if (stream->retained)
		pfree(stream->retained);
	stream->retained = NULL;
}

void
rf_stream_release(RfStream *stream)
{
	release_held(stream);
	drop_retained(stream);
}

static RfStreamPoll
next_batch(RfStream *stream, bool wait, const void **batch, uint32 *length)
{
	if (stream->state == RF_STREAM_LOST)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the remaining rows of \"%s\" are gone", stream->source),
				 errdetail("They were being read from server \"%s\" in a subtransaction that was rolled back.",
						   stream->session->server_name)));
	if (stream->storing > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the remaining rows of \"%s\" are gone", stream->source),
				 errdetail("They were being stored, since another query needed the connection to server \"%s\", when that query failed.",
						   stream->session->server_name)));

	drop_retained(stream);
	if (stream->keep && stream->state == RF_STREAM_RUNNING)
		rf_stream_store(stream);
	if (stream->spooled && rf_spool_get(stream->spool, batch, length))
		return RF_STREAM_BATCH;
	return fetch(stream, wait, batch, length);
}

bool
rf_stream_next(RfStream *stream, const void **batch, uint32 *length)
{
	return next_batch(stream, true, batch, length) == RF_STREAM_BATCH;
}

RfStreamPoll
rf_stream_try(RfStream *stream, const void **batch, uint32 *length)
{
	return next_batch(stream, false, batch, length);
}

/* Half of the segments: other sessions may read from other nodes. */
int
rf_stream_limit(void)
{
	return rf_shared != NULL ? Max(rf_shared->segment_count / 2, 1) : 1;
}

bool
rf_stream_is_running(const RfStream *stream)
{
	return stream->state == RF_STREAM_RUNNING;
}

pgsocket
rf_stream_socket(const RfStream *stream)
{
	return PQsocket(stream->session->conn);
}

/* The flow knows its peer's address only; the user knows servers. */
void
rf_stream_error_context(void *arg)
{
	RfStream   *stream = arg;

	errcontext("rows of \"%s\" from server \"%s\"", stream->source, stream->session->server_name);
}

/* Raises what made the flow fail, if it did. */
void
rf_stream_check_flow(RfStream *stream)
{
	ErrorContextCallback callback = {error_context_stack, rf_stream_error_context, stream};

	error_context_stack = &callback;
	(void) rf_flow_opened(stream->flow);
	error_context_stack = callback.previous;
}

/* Next batch as it comes from the other side. */
static RfStreamPoll
fetch(RfStream *stream, bool wait, const void **batch, uint32 *length)
{
	RfSession  *session = stream->session;
	ErrorContextCallback callback = {error_context_stack, rf_stream_error_context, stream};

	release_held(stream);
	while (!stream->replied)
	{
		int			got;
		bool		may_leave = !wait && !(stream->reader != NULL && stream->copy.open);

		if (stream->flow && !stream->flow_ended)
		{
			RfFlowPoll	poll;

			error_context_stack = &callback;
			poll = stream->reader ? rf_stream_share_poll(stream) :
				rf_flow_poll(stream->flow, &stream->buffer);
			error_context_stack = callback.previous;
			if (poll == RF_POLL_BUFFER)
			{
				bool		complete;

				error_context_stack = &callback;
				complete = take_buffer(stream, batch, length);
				error_context_stack = callback.previous;
				if (complete)
					return RF_STREAM_BATCH;
				continue;
			}
			if (poll == RF_POLL_END)
				stream->flow_ended = true;
		}

		if (!wait && !PQconsumeInput(session->conn))
			rf_session_lost(session);
		if (rf_stream_collect(stream))
		{
			if (stream->set && PQresultStatus(stream->result) != PGRES_TUPLES_OK && rf_stream_set_lacks_buffers(stream))
				return RF_STREAM_NO_BUFFERS;
			rf_stream_answered(stream);
			break;
		}
		/* not with the first parts of a batch that others would read if we did not: the rest is on its way */
		if (may_leave)
		{
			bool		ready = false;

			error_context_stack = &callback;
			if (stream->flow && !stream->flow_ended && stream->reader == NULL)
				ready = rf_flow_prepare_wait(stream->flow);
			error_context_stack = callback.previous;
			if (!ready)
				return RF_STREAM_NOTHING;
			continue;
		}

		/* Only data or an answer make us go on: an ended flow still has its answer to come. */
		error_context_stack = &callback;
		if (stream->reader)
			got = rf_reader_wait(stream->reader, PQsocket(session->conn), -1);
		else if (stream->flow && !stream->flow_ended)
			got = rf_flow_wait(stream->flow, PQsocket(session->conn), -1);
		else
			got = rf_session_wait(session, WL_SOCKET_READABLE, -1);
		error_context_stack = callback.previous;
		if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
			rf_session_lost(session);
	}

	if (stream->inline_batch && !stream->inline_read)
	{
		stream->inline_read = true;
		*batch = stream->inline_batch;
		*length = stream->reply.inline_length;
		return RF_STREAM_BATCH;
	}
	return RF_STREAM_END;
}

/* A buffer came: a whole batch, or a part of one. True when *batch is complete. */
static bool
take_buffer(RfStream *stream, const void **batch, uint32 *length)
{
	RfBuffer   *buffer = &stream->buffer;
	bool		whole = rf_reassembly_is_whole(&stream->copy, buffer);
	bool		complete;

	stream->holding = true;
	if (unlikely(INSTR_TIME_IS_ZERO(stream->first_time)))
		rf_link_begin(stream);
	if (whole && stream->in_place)
	{
		stream->stats.batches++;
		stream->stats.bytes += buffer->length;
		*batch = buffer->data;
		*length = buffer->length;
		return true;
	}

	complete = rf_reassembly_add(&stream->copy, buffer);
	release_held(stream);
	if (!whole)
		stream->stats.fragments++;
	if (!complete)
		return false;
	stream->stats.batches++;
	stream->stats.bytes += stream->copy.length;
	*batch = stream->copy.data;
	*length = stream->copy.length;
	return true;
}

/*
 * Take what libpq has, without waiting. True when the answer is complete and the session is free
 * again; what it says is in stream->result. Raises an error when the connection is lost.
 */
bool
rf_stream_collect(RfStream *stream)
{
	RfSession  *session = stream->session;
	PGconn	   *conn = session->conn;
	int			empty = 0;

	Assert(session->running == stream);
	while (!PQisBusy(conn))
	{
		PGresult   *result = PQgetResult(conn);
		ExecStatusType status = PQresultStatus(result);

		if (result == NULL)
		{
			/* one stands behind every command */
			if (++empty > 1 || PQstatus(conn) != CONNECTION_OK)
				rf_session_lost(session);
			continue;
		}
		empty = 0;
		if (status == PGRES_PIPELINE_SYNC)
		{
			PQclear(result);
			if (!PQexitPipelineMode(conn))
				rf_session_lost(session);
			finish_exchange(stream);
			return true;
		}
		if (PQstatus(conn) != CONNECTION_OK)
		{
			if (stream->result == NULL)
				stream->result = result;
			else
				PQclear(result);
			rf_session_lost(session);
		}

		stream->results++;
		if (stream->results <= stream->begin_results && rf_has_begun(result))
		{
			if (stream->results == stream->begin_results)
				session->unsure = false;
			PQclear(result);
		}
		else if (stream->result == NULL && status != PGRES_PIPELINE_ABORTED)
			stream->result = result;	/* the answer, or the first error */
		else
			PQclear(result);
	}
	return false;
}

/* The remote command is over. A stream that nobody reads is over, too. */
static void
finish_exchange(RfStream *stream)
{
	RfSession  *session = stream->session;
	PGresult   *result = stream->result;
	RfStreamReply reply;

	session->running = NULL;
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 &&
		PQnfields(result) == 1 && PQgetlength(result, 0, 0) >= (int) sizeof(reply))
	{
		memcpy(&reply, PQgetvalue(result, 0, 0), sizeof(reply));
		session->wrote |= reply.wrote != 0;
	}
	if (stream->state == RF_STREAM_STOPPING && PQresultStatus(stream->result) != PGRES_TUPLES_OK)
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

static void
incomplete(RfStream *stream, const char *what, uint64 expected, uint64 got)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the rows of \"%s\" did not arrive complete from server \"%s\"",
					stream->source, stream->session->server_name),
			 errdetail("Expected " UINT64_FORMAT " %s, got " UINT64_FORMAT ".", expected, what, got)));
}

/* If the rows did not fit the answer, the reason is why there is nothing else. */
static void
raise_no_engine(RfStream *stream)
{
	const RfError *error = &stream->session->engine_error;
	const char *state = PQresultErrorField(stream->result, PG_DIAG_SQLSTATE);

	if (error->kind == RF_ERROR_NONE || state == NULL || strcmp(state, "08003") != 0)
		return;
	ereport(ERROR,
			(errcode(rf_error_sqlstate(error->kind)),
			 errmsg_internal("%s", error->message),
			 errdetail("The rows of \"%s\" from server \"%s\" do not fit option inline_limit, and only those that do come without the engines.",
					   stream->source, stream->session->server_name),
			 error->hint[0] ? errhint("%s", error->hint) : 0));
}

/* The remote command ended: with an error, or with counts that must be those of what came. */
void
rf_stream_answered(RfStream *stream)
{
	PGresult   *result = stream->result;
	RfStreamReply *reply = &stream->reply;
	int			length;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		if (stream->inline_only)
			raise_no_engine(stream);
		if (stream->set)
			rf_stream_set_blame(stream);
		stream->result = NULL;
		rf_session_raise(stream->session, result, stream->sql);
	}

	length = PQntuples(result) == 1 && PQnfields(result) == 1 ? PQgetlength(result, 0, 0) : 0;
	if (length >= (int) sizeof(RfStreamReply))
		memcpy(reply, PQgetvalue(result, 0, 0), sizeof(RfStreamReply));
	if (length < (int) sizeof(RfStreamReply) || reply->wire_version != RF_WIRE_VERSION ||
		reply->inline_length != length - sizeof(RfStreamReply) ||
		(reply->used_flow && reply->inline_length > 0))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("server \"%s\" answered a stream request with something else",
						stream->session->server_name)));

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
		stream->result = NULL;
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
	stream->replied = true;
	if (reply->used_flow)
		rf_link_observe(stream);
	close_flow(stream);
}

/* ---------- ending ---------- */

static void
add_flow_stats(RfFlowHandle *flow, RfStreamStats *stats)
{
	const RfFlow *entry = rf_flow_entry(flow);

	stats->waits += atomic_load_explicit(&entry->stats.waits, memory_order_relaxed);
	stats->wait_us += atomic_load_explicit(&entry->stats.wait_us, memory_order_relaxed);
	stats->credits += atomic_load_explicit(&entry->stats.credits_sent, memory_order_relaxed);
	if (atomic_load_explicit(&entry->stats.slots, memory_order_relaxed) > 0)
	{
		stats->buffers = entry->slot_count;
		stats->buffer_size = entry->slot_size;
		if (rf_shared && entry->peer >= 0 && entry->peer < RF_MAX_PEERS)
			strlcpy(stats->transport, rf_shared->peers[entry->peer].transport, sizeof(stats->transport));
	}
}

/* Ours goes back; the sender is told to stop if it has not ended. */
static void
close_flow(RfStream *stream)
{
	RfFlowHandle *flow = stream->flow;

	if (flow == NULL)
		return;
	if (stream->reader && !proc_exit_inprogress)
		rf_stream_share_stats(stream);
	stream->flow = NULL;
	stream->reader = NULL;
	stream->holding = false;
	/*
	 * An ending backend closes its flows before it aborts its transaction; the handle is gone then.
	 */
	if (proc_exit_inprogress)
		return;
	add_flow_stats(flow, &stream->stats);
	if (atomic_load(&rf_flow_entry(flow)->state) == RF_FLOW_FAILED)
		stream->session->suspect = true;
	rf_flow_close(flow);
}

/* What the owner reads must not be in the way of what is to be stored. */
static void
make_way(RfStream *stream)
{
	if (stream->holding)
	{
		if (stream->moved == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("server \"%s\" cannot be used while rows of \"%s\" are being read",
							stream->session->server_name, stream->source),
					 errdetail("The rows being read lie in a receive buffer that must be freed first."),
					 errhint("Set receive_buffers to 1 for that table, which makes it copy its rows.")));
		(void) rf_reassembly_add(&stream->copy, &stream->buffer);
		stream->moved(stream->owner, stream->copy.data, stream->copy.length);
	}

	/*
	 * The owner goes on reading what it has; further batches need memory of their own. While a batch
	 * is being put together there the owner has none: it stays, and its other pieces join it.
	 */
	if (stream->retained == NULL)
		stream->retained = rf_reassembly_detach(&stream->copy);

	/*
	 * An error from here on, which a subtransaction may survive, leaves some rows stored and a batch
	 * nowhere; then this stays.
	 */
	stream->storing++;
}

/* Store what comes. False: that was not all, and no more is here now. */
static bool
store(RfStream *stream, bool wait)
{
	const void *batch;
	uint32		length;
	RfStreamPoll got;

	while ((got = fetch(stream, wait, &batch, &length)) == RF_STREAM_BATCH)
	{
		if (stream->reader)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("server \"%s\" cannot be used while a parallel scan reads the rows of \"%s\" from it",
							stream->session->server_name, stream->source),
					 errhint("Set option parallel_scan of that foreign table or server to false.")));
		/* a result that came inline is here already, and can be read again */
		if (stream->inline_batch)
		{
			stream->inline_read = false;
			stream->storing--;
			return true;
		}
		if (stream->spool == NULL)
			stream->spool = rf_spool_create(stream->context, stream->resowner);
		rf_spool_put(stream->spool, batch, length);
	}
	if (got == RF_STREAM_NOTHING)
		return false;
	if (stream->spool)
	{
		stream->stats.spooled_bytes += rf_spool_bytes(stream->spool);
		rf_spool_rewind(stream->spool);
		stream->spooled = true;
	}
	stream->storing--;
	return true;
}

/*
 * Store the rest of a running stream here, so that its session is free; and that of all others of
 * its set, since their nodes may only go on when all of them do.
 */
void
rf_stream_store(RfStream *stream)
{
	RfStreamSet *set = stream->set;
	bool		all;

	if (set == NULL)
	{
		make_way(stream);
		(void) store(stream, true);
		return;
	}

	set->may_retry = false;
	for (int i = 0; i < set->count; i++)
	{
		if (set->members[i] != NULL && rf_stream_is_running(set->members[i]))
			make_way(set->members[i]);
	}
	for (;;)
	{
		all = true;
		for (int i = 0; i < set->count; i++)
		{
			if (set->members[i] != NULL && rf_stream_is_running(set->members[i]) &&
				!store(set->members[i], false))
				all = false;
		}
		if (all)
			return;
		(void) rf_stream_set_wait(stream, -1);
	}
}

/* Raises what voided the remote transaction, as far as that is known. */
void
rf_session_raise_void(RfSession *session)
{
	PGresult   *result = session->failed ? session->failed->result : NULL;

	if (result == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
				 errmsg("the transaction on server \"%s\" is aborted", session->server_name)));
	session->failed->result = NULL;
	rf_session_raise(session, result, session->failed->sql);
}

void
rf_session_settle(RfSession *session)
{
	rf_load_write_all(session);
	rf_session_free(session);
}

void
rf_session_free(RfSession *session)
{
	if (session->load)
		rf_load_interrupt(session->load);

	/* an error of the drained query is one here as well: the remote transaction is void */
	if (session->running && session->running->state == RF_STREAM_RUNNING)
		rf_stream_store(session->running);

	while (session->running && !rf_stream_collect(session->running))
	{
		int			got = rf_session_wait(session, WL_SOCKET_READABLE, -1);

		if ((got & WL_SOCKET_READABLE) && !PQconsumeInput(session->conn))
			rf_session_lost(session);
	}

	/*
	 * A query that was told to stop had failed before it heard that: nothing more can be done in
	 * this remote transaction.
	 */
	if (session->failed)
		rf_session_raise_void(session);
}

bool
rf_stream_rewind(RfStream *stream)
{
	if (stream->state == RF_STREAM_LOST)
		return true;			/* reading tells */
	if (stream->state == RF_STREAM_RUNNING)
		return false;
	if (stream->inline_batch)
	{
		stream->inline_read = false;
		return true;
	}
	if (stream->keep && stream->spooled)
	{
		rf_spool_rewind(stream->spool);
		return true;
	}
	return stream->replied && stream->reply.rows == 0;
}

void
rf_stream_stats_add(const RfStreamStats *own, RfStreamStats *stats)
{
	stats->streams += own->streams;
	stats->inlined += own->inlined;
	stats->rows += own->rows;
	stats->batches += own->batches;
	stats->bytes += own->bytes;
	stats->fragments += own->fragments;
	stats->waits += own->waits;
	stats->wait_us += own->wait_us;
	stats->spooled_bytes += own->spooled_bytes;
	stats->credits += own->credits;
	stats->work_requests += own->work_requests;
	stats->merged += own->merged;
	stats->chained += own->chained;
	stats->credit_stalls += own->credit_stalls;
	stats->sender_waits += own->sender_waits;
	stats->sender_wait_us += own->sender_wait_us;
	stats->page_rows += own->page_rows;
	stats->pages_box += own->pages_box;
	stats->pages_packed += own->pages_packed;
	stats->useful_bytes += own->useful_bytes;
	stats->gap_bytes += own->gap_bytes;
	stats->pages_gathered += own->pages_gathered;
	stats->pages_strided += own->pages_strided;
	stats->uncopied_bytes += own->uncopied_bytes;
	stats->sharers |= own->sharers;
	for (int i = 0; i < RF_STREAM_SHARERS; i++)
		stats->sharers_batches[i] += own->sharers_batches[i];
	if (own->transport[0] != '\0')
	{
		stats->buffers = own->buffers;
		stats->buffer_size = own->buffer_size;
		strlcpy(stats->transport, own->transport, sizeof(stats->transport));
	}
}

void
rf_stream_stats(RfStream *stream, RfStreamStats *stats)
{
	rf_stream_stats_add(&stream->stats, stats);
	if (stream->flow)
		add_flow_stats(stream->flow, stats);
}

/*
 * Nobody reads it any more; if it runs, it stays until its libpq answer has come. Raises nothing.
 */
void
rf_stream_abandon(RfStream *stream)
{
	if (stream->owner_ref)
		*stream->owner_ref = NULL;
	stream->owner_ref = NULL;
	close_flow(stream);
	if (stream->session->running == stream)
		stream->state = RF_STREAM_STOPPING;
	else
	{
		dlist_delete(&stream->node);
		rf_stream_free(stream);
	}
}

void
rf_stream_close(RfStream *stream, RfStreamStats *stats)
{
	if (stats)
		rf_stream_stats(stream, stats);
	if (stream->spool)
		rf_spool_close(stream->spool);
	rf_stream_abandon(stream);
}

void
rf_stream_orphan(RfStream *stream)
{
	/* its resource owner, and with it flow and files, is gone or going */
	stream->owner_ref = NULL;
	stream->moved = NULL;
	rf_stream_abandon(stream);
}

/*
 * At the rollback of the (sub)transaction that it was started in. A cursor that was made further out
 * lives on: what it still reads in a receive buffer goes with the flow.
 */
static void
lose_flow(RfStream *stream)
{
	if (stream->holding && stream->moved)
		stream->moved(stream->owner, NULL, 0);
	close_flow(stream);
}

/* The same, and its remote command is being cancelled. */
void
rf_stream_lose(RfStream *stream)
{
	lose_flow(stream);
	stream->session->running = NULL;
	if (stream->owner_ref)
		stream->state = RF_STREAM_LOST;
	else
	{
		dlist_delete(&stream->node);
		rf_stream_free(stream);
	}
}

/*
 * The subtransaction ends. Its streams become the outer one's, or, before its resource owners are
 * released, let go of their flows: their owners may live a little longer.
 */
void
rf_stream_end_level(RfSession *session, int level, bool commit)
{
	dlist_iter	iter;

	dlist_foreach(iter, &session->streams)
	{
		RfStream   *stream = dlist_container(RfStream, node, iter.cur);

		if (stream->level < level)
			continue;
		if (commit)
			stream->level = level - 1;
		else
			lose_flow(stream);
	}
}

/*
 * A resource owner is released. Streams of it that are still there belong to a cursor that failed in
 * a subtransaction, and whose memory may live on for long; their flows and files are closed by that
 * owner, too, before or after this.
 */
void
rf_stream_release_owner(RfSession *session, ResourceOwner owner)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &session->streams)
	{
		RfStream   *stream = dlist_container(RfStream, node, iter.cur);

		if (stream->resowner != owner)
			continue;
		stream->flow = NULL;
		stream->reader = NULL;
		stream->holding = false;
		stream->spool = NULL;
		rf_stream_abandon(stream);
	}
}

/* Taken out of its session's list already. */
void
rf_stream_free(RfStream *stream)
{
	if (stream->owner_ref)
		*stream->owner_ref = NULL;
	if (stream->session->failed == stream)
		stream->session->failed = NULL;
	close_flow(stream);
	if (stream->set)
		rf_stream_set_leave(stream);
	PQclear(stream->result);
	MemoryContextDelete(stream->context);
}
