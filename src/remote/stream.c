/*
 * stream.c - a remote query whose rows arrive as column batches: by a flow, or inside libpq's
 * answer when they are few.
 *
 * It starts rdma_internal.stream() on the data node, hands out batches as they come, and puts
 * fragments together. stream_answer.c checks that all came, stream_end.c ends streams. One stream
 * runs per session at a time: when the session is needed for something else, the rest of it is
 * stored here first. It does not look into batches.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "shmem/peer_table.h"
#include "rdma_fdw/sql_text.h"
#include "base/clock.h"
#include "session.h"
#include "waiting.h"

static void send_request(RfStream *stream, const RfStreamSpec *spec, int peer);
static RfStreamPoll fetch(RfStream *stream, bool wait, const void **batch, uint32 *length);
static bool take_buffer(RfStream *stream, const void **batch, uint32 *length);
static bool store(RfStream *stream, bool wait);

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
	stream->shared = spec->shared;
	stream->receive_buffers = spec->receive_buffers;
	stream->receive_buffer_size = spec->receive_buffer_size;
	rf_reassembly_init(&stream->copy, context, stream->source, spec->receive_buffer_size);
	stream->stats.streams = 1;
	stream->started = spec->timed ? rf_now_us() : 0;
	stream->plan = spec->explain != 0 ? spec->plan : NULL;

	stream->inline_only = peer == RF_NO_PEER;
	if (!stream->inline_only)
		stream->flow = rf_flow_listen(peer, spec->receive_buffers, spec->receive_buffer_size,
									  spec->estimated_rows < 1e18 ? (uint64) spec->estimated_rows :
									  0);
	send_request(stream, spec, peer);
}

/* The remote transaction's beginning, if it has not begun, and the query: one round trip. */
static void
send_request(RfStream *stream, const RfStreamSpec *spec, int peer)
{
	RfSession  *session = stream->session;
	PGconn	   *conn = session->conn;
	RfStreamRequest request;
	RfStreamSnapshot snapshot;
	RfSnapshotUse use;
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
	if (memcmp(&image, &session->engines.hello.image, sizeof(image)) != 0)
		request.flags |= RF_STREAM_PORTABLE;
#ifdef USE_LZ4
	/* Tuples come as they are stored, with values compressed in any way that major has. */
	else if (spec->accept_pages &&
			 session->engines.hello.server_version_num / 10000 == PG_VERSION_NUM / 10000)
		request.flags |= RF_STREAM_PAGES;
#endif
	if (spec->shared)
		request.flags |= RF_STREAM_FLOW;
	request.flags |= spec->explain;
	request.flags |= (uint32) Min(spec->nodes_there, RF_STREAM_NODES_MAX) << RF_STREAM_NODES_SHIFT;
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

	use = rf_statement_snapshot(session, spec->statement, &snapshot);
	if (use != RF_SNAPSHOT_OWN)
		request.flags |= use == RF_SNAPSHOT_KEEP ? RF_STREAM_KEEP : RF_STREAM_KEPT;

	initStringInfo(&head);
	appendBinaryStringInfo(&head, (char *) &request, sizeof(request));
	if (spec->column_count > 0)
		appendBinaryStringInfo(&head, (const char *) spec->columns,
							   spec->column_count * sizeof(RfStreamColumn));
	if (use != RF_SNAPSHOT_OWN)
		appendBinaryStringInfo(&head, (const char *) &snapshot, sizeof(snapshot));
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
	 * From here on an error finds the session busy, and the end of the transaction puts that
	 * right.
	 */
	stream->state = RF_STREAM_RUNNING;
	session->running = stream;
	sent = rf_pipeline_begin(session, rf_transaction_target(session), &stream->answer) &&
		(session->node.pooled ?
		 PQsendQueryParams(conn, RF_STREAM_SQL, 4, rf_stream_types, arguments, lengths, formats,
						   1) :
		 PQsendQueryPrepared(conn, session->prepared.stream, 4, arguments, lengths, formats, 1));
	rf_pipeline_send(session, sent);

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

/*
 * The next batch: kept rows first, then the stream's own. Rows that were lost with a subtransaction
 * or a failed query are an ERROR.
 */
static RfStreamPoll
next_batch(RfStream *stream, bool wait, const void **batch, uint32 *length)
{
	if (stream->state == RF_STREAM_LOST)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the remaining rows of \"%s\" are gone",
						stream->source),
				 errdetail("They were being read from server \"%s\" in a subtransaction that was "
						   "rolled back.",
						   stream->session->server_name)));
	if (stream->storing > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the remaining rows of \"%s\" are gone",
						stream->source),
				 errdetail("They were being stored, since another query needed the connection to "
						   "server \"%s\", when that query failed.",
						   stream->session->server_name)));

	drop_retained(stream);
	if (stream->keep && stream->state == RF_STREAM_RUNNING)
		rf_stream_store(stream);
	if (stream->stored != NULL && rf_batches_next(stream->stored, batch, length))
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

/* This stream has data, which is read before the other streams of the set are polled. */
static void
pass_others(RfStream *stream)
{
	RfStreamSet *set = stream->set;

	for (int i = 0; set != NULL && i < set->count; i++)
	{
		if (set->members[i] != NULL && set->members[i] != stream && set->members[i]->reader != NULL)
			rf_reader_pass(set->members[i]->reader);
	}
}

/* As rf_flow_poll, of a flow that parallel workers read as well. */
static RfFlowPoll
poll_shared(RfStream *stream)
{
	switch (rf_reader_poll(stream->reader, &stream->buffer))
	{
		case RF_TAKE_DATA:
			pass_others(stream);
			return RF_POLL_BUFFER;
		case RF_TAKE_END:
			return RF_POLL_END;
		case RF_TAKE_BROKEN:
			rf_stream_check_flow(stream);	/* else libpq reports it */
			break;
		default:
			rf_reader_require_engine(stream->reader);
			break;
	}
	return RF_POLL_EMPTY;
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
			poll = stream->reader ? poll_shared(stream) :
				rf_flow_poll(stream->flow, &stream->buffer);
			error_context_stack = callback.previous;
			if (poll == RF_POLL_BUFFER)
			{
				bool		complete;

				error_context_stack = &callback;
				complete = take_buffer(stream, batch, length);
				error_context_stack = callback.previous;
				if (!complete)
					continue;
				rf_stream_note_time(stream);
				return RF_STREAM_BATCH;
			}
			if (poll == RF_POLL_END)
				stream->flow_ended = true;
		}

		if (!wait && !PQconsumeInput(session->conn))
			rf_session_lost(session);
		if (rf_stream_collect(stream))
		{
			/*
			 * a reader that waits for the next batch has no other stream to look at, and gets the
			 * node's error
			 */
			if (!wait && stream->set && PQresultStatus(stream->answer.result) != PGRES_TUPLES_OK &&
				rf_stream_set_lacks_buffers(stream))
				return RF_STREAM_NO_BUFFERS;
			rf_stream_answered(stream);
			break;
		}

		/*
		 * not with the first parts of a batch that another process would read if we did not: the
		 * rest is on its way
		 */
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

		/* Only data or an answer ends the wait: an ended flow still waits for its answer. */
		error_context_stack = &callback;
		rf_waiting_begin();
		if (stream->reader)
			got = rf_reader_wait(stream->reader, &session->wait, PQsocket(session->conn), -1);
		else if (stream->flow && !stream->flow_ended)
			got = rf_flow_wait(stream->flow, &session->wait, PQsocket(session->conn), -1);
		else
			got = rf_session_wait(session, WL_SOCKET_READABLE, -1);
		rf_waiting_check();
		if (got != 0)
			rf_waiting_end();
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

/* A buffer arrived: a whole batch, or a part of one. Returns true when *batch is complete. */
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

/* ---------- storing ---------- */

/* The batch that the owner reads must not block storing the next batches. */
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
					 errdetail("The rows being read lie in a receive buffer that must be freed "
							   "first."),
					 errhint("Set receive_buffers to 1 for that table, which makes it copy its "
							 "rows.")));
		(void) rf_reassembly_add(&stream->copy, &stream->buffer);
		stream->moved(stream->owner, stream->copy.data, stream->copy.length);
	}

	/*
	 * The owner continues to read its current batch, so further batches need memory of their own.
	 * While a batch is being assembled, the owner has no batch: the partial batch stays, and its
	 * other pieces join it.
	 */
	if (stream->retained == NULL)
		stream->retained = rf_reassembly_detach(&stream->copy);

	/*
	 * An error from here on, which a subtransaction may survive, leaves some rows stored and a
	 * batch lost; then this flag stays set.
	 */
	stream->storing++;
}

static void
store_batch(RfStream *stream, const void *batch, uint32 length)
{
	if (stream->stored == NULL)
		stream->stored =
			rf_batches_open(rf_batches_create(stream->keep ? RF_BATCHES_KEPT : RF_BATCHES_ONCE,
											  stream->context, stream->resowner), 1, NULL);
	(void) rf_batches_put(rf_batches_of(stream->stored), batch, length);
	stream->stats.spooled_bytes += length;
}

/* Stores arriving rows, until nothing more is here now, or ever. */
static RfStreamPoll
store_coming(RfStream *stream, bool wait)
{
	const void *batch;
	uint32		length;
	RfStreamPoll got;

	while ((got = fetch(stream, wait, &batch, &length)) == RF_STREAM_BATCH)
	{
		if (stream->shared)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("server \"%s\" cannot be used while a parallel scan reads the rows "
							"of \"%s\" from it",
							stream->session->server_name, stream->source),
					 errhint("Set option parallel_scan of that foreign table or server to "
							 "false.")));
		/* a result that came inline is here already, and can be read again */
		if (stream->inline_batch)
		{
			stream->inline_read = false;
			return RF_STREAM_END;
		}
		store_batch(stream, batch, length);
	}
	return got;
}

RfStreamPoll
rf_stream_put_aside(RfStream *stream, const void *batch, uint32 length)
{
	Assert(!stream->keep);		/* all of such a stream is stored before any is read */
	if (stream->inline_batch)
		stream->inline_read = false;
	else if (batch != NULL)
		store_batch(stream, batch, length);
	return store_coming(stream, false);
}

/* Stores the rest. False: that was not all, and nothing more is here now. */
static bool
store(RfStream *stream, bool wait)
{
	if (store_coming(stream, wait) == RF_STREAM_NOTHING)
		return false;
	stream->storing--;
	return true;
}

/*
 * Store the rest of a running stream here, so that its session is free; and the rest of all other
 * streams of its set, since their nodes depend on each other.
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
	if (stream->keep && stream->stored != NULL)
	{
		rf_batches_rewind(stream->stored);
		return true;
	}
	return stream->replied && stream->reply.rows == 0;
}
