/*
 * load.c - rows to a table of the data node, as column batches: the stream's opposite direction.
 *
 * Rows are first encoded into private memory of the inline limit. If the statement ends before that
 * is full they travel inside one call of rdma_internal.store(); else that call opens a flow towards
 * the data node's session, which writes while it reads, and rows are encoded in the flow's slots
 * from then on. This backend is the flow's producer, the session over there its consumer.
 *
 * A running load keeps its session busy, as a running stream does. The next user of the session
 * finishes the load first, which only ends one request: later rows start another one. Two loads
 * that alternate, as partitions of one table may, would end requests after every few rows, so a
 * load that was interrupted continues inline only, in pieces as large as a receive buffer.
 *
 * Any other use of the session may look at the rows, so all rows of its loads are written first
 * (rf_session_settle), in the (sub)transaction that they belong to and in the order in which the
 * loads began to collect them. A failure of that may be caught by the user's code that used the
 * session, a subtransaction deeper; the load remembers it and fails with it when it goes on. When
 * that happens behind every single row, a batch only adds to the cost of a row, and the load
 * refuses most rows: their statement writes them one by one.
 *
 * Errors over there come by libpq; the flow only tells that nobody reads any more (STOP),
 * and then the answer is awaited. All memory is the caller's query's; a reset callback lets go of
 * session and flow when an error takes it away.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "storage/ipc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "shmem/peer_table.h"
#include "rdma_fdw/sql_text.h"
#include "session.h"
#include "waiting.h"

#define STORE_SQL	"SELECT rdma_internal.store($1, $2, $3, $4, $5)"

/* After this many batches of one row, this many rows are refused before another batch is tried. */
#define SINGLE_BATCHES	2
#define REFUSED_ROWS	64

struct RfLoad
{
	RfSession  *session;
	RfLoadSpec	spec;
	MemoryContext context;
	MemoryContextCallback gone;
	RfStreamColumn *columns;	/* how values travel */
	RfEncoder  *encoder;		/* NULL: no row came yet */
	char	   *private_batch;
	uint32		private_size;
	bool		filling;		/* a batch has been begun */
	dlist_node	collecting;		/* in session->collecting while rows are in private memory */
	int			level;			/* nest level of the (sub)transaction that those rows belong to */
	ErrorData  *error;			/* error of writing rows for another user */
	bool		interrupted;	/* another user took the session: inline only */
	int			singles;		/* latest batches of one row each, for another user */
	int			refused;		/* rows, since a batch was tried */
	uint64		id;				/* of the running request */
	RfPipeline	pipeline;

	/* The request that runs now; session->load is this one. */
	RfFlowHandle *flow;
	RfBuffer	buffer;			/* slot being filled */
	uint64		rows;			/* of this request */
	uint64		batches;
	uint64		bytes;

	uint64		written;		/* rows that the data node reported, since rf_load_finish */
	RfLoadStats stats;
};

/* rf_load_watch */
static pg_atomic_uint64 *watched_rows = NULL;
static pg_atomic_uint64 *watched_bytes = NULL;

static void load_gone(void *arg);
static void stop_collecting(RfLoad *load);
static void write_older(RfLoad *load);
static void send_request(RfLoad *load, const char *batch, uint32 length);
static PGresult *take_result(RfLoad *load, bool wait_for_flow);
static void end_request(RfLoad *load);
static void remote_stopped(RfLoad *load) __attribute__((noreturn));

RfLoad *
rf_load_create(RfSession *session, const RfLoadSpec *spec)
{
	RfLoad	   *load = palloc0(sizeof(RfLoad));

	load->session = session;
	load->spec = *spec;
	load->context = CurrentMemoryContext;
	load->columns = palloc0(sizeof(RfStreamColumn) * Max(spec->column_count, 1));
	for (int i = 0; i < spec->column_count; i++)
	{
		Oid			type = getBaseType(TupleDescAttr(spec->desc, spec->attnums[i] - 1)->atttypid);

		/*
		 * A user-defined type may be a different one on the data node, so its values go as text,
		 * as parameters would. So do types whose images the data node takes from nobody.
		 */
		rf_column_wanted(type, -1, false, &load->columns[i]);
		if (load->columns[i].type_oid == 0)
			load->columns[i].type_name[0] = '\0';
	}
	load->private_size = Max(spec->inline_limit, 8192);
	load->gone.func = load_gone;
	load->gone.arg = load;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &load->gone);
	return load;
}

/* From now on its private memory has rows. */
static void
start_collecting(RfLoad *load)
{
	load->level = GetCurrentTransactionNestLevel();
	dlist_push_tail(&load->session->collecting, &load->collecting);
}

static void
stop_collecting(RfLoad *load)
{
	if (load->collecting.next != NULL)
		dlist_delete(&load->collecting);
	load->collecting.next = NULL;
	load->filling = false;
}

/* Raises no error. The abort that called this cancels the session's commands. */
void
rf_load_lose(RfLoad *load)
{
	RfFlowHandle *flow = load->flow;

	load->flow = NULL;
	if (load->session->load == load)
		load->session->load = NULL;
	stop_collecting(load);
	if (flow && !proc_exit_inprogress)
		rf_flow_close(flow);
}

static void
load_gone(void *arg)
{
	rf_load_lose((RfLoad *) arg);
}

/* Raises the data node's error; clears result. The error may name the row that caused it. */
__attribute__((noreturn)) static void
raise_reply(RfLoad *load, PGresult *result)
{
	uint64		row = rf_error_row(result);

	if (row > 0 && row <= load->rows && load->spec.failed)
		load->spec.failed(load->spec.owner, load->stats.rows + row);
	rf_session_raise(load->session, result, load->spec.sql);
}

/* ---------- the request ---------- */

/* Whether values are images depends on the other node, which says so in its greeting. */
static void
create_encoder(RfLoad *load)
{
	RfSession  *session = load->session;
	MemoryContext caller;
	bool		portable;
	int			encoding;

	if (!session->engines.hello_valid)
	{
		/* it may open a savepoint, into which rows of an outer level's loads must not fall */
		rf_session_settle(session);
		rf_session_hello(session, false);
	}
	encoding = rf_session_encoding(session, &portable);
	caller = MemoryContextSwitchTo(load->context);
	load->encoder = rf_encoder_create(
									  load->spec.desc, load->spec.column_count, load->spec.attnums,
									  load->columns, portable ? RF_STREAM_PORTABLE : 0, encoding);
	load->private_batch = palloc_extended(load->private_size, MCXT_ALLOC_HUGE);
	MemoryContextSwitchTo(caller);
}

/*
 * The remote transaction's beginning, if it has not begun, and the request; with a batch that is
 * all of it, or NULL for a flow.
 */
static void
send_request(RfLoad *load, const char *batch, uint32 length)
{
	static const Oid types[] = {BYTEAOID, TEXTOID, TEXTARRAYOID, BYTEAOID, TEXTOID};
	RfSession  *session = load->session;
	PGconn	   *conn = session->conn;
	RfStoreRequest request;
	RfTypeImage image;
	StringInfoData head;
	StringInfoData names;
	const char *arguments[5];
	int			lengths[5];
	int			formats[5] = {1, 1, 1, 1, 1};
	bool		sent;

	if (!pg_strong_random(&load->id, sizeof(load->id)))
		elog(ERROR, "could not generate a random number");
	memset(&request, 0, sizeof(request));
	request.wire_version = RF_WIRE_VERSION;
	request.flags = load->spec.operation == CMD_UPDATE ? RF_STORE_UPDATE :
		load->spec.operation == CMD_DELETE ? RF_STORE_DELETE :
		load->spec.conflict ? RF_STORE_ON_CONFLICT :
		0;
	rf_node_self(&request.node, &image);
	request.id = load->id;
	request.receive_buffers = load->spec.receive_buffers;
	request.receive_buffer_size = load->spec.receive_buffer_size;
	request.column_count = load->spec.column_count;
	request.place_count = load->spec.place_count;

	initStringInfo(&head);
	appendBinaryStringInfo(&head, (char *) &request, sizeof(request));
	if (load->spec.column_count > 0)
		appendBinaryStringInfo(&head, (const char *) load->columns,
							   load->spec.column_count * sizeof(RfStreamColumn));
	initStringInfo(&names);
	rf_append_text_array(&names, load->spec.column_count, load->spec.column_names);
	arguments[0] = head.data;
	lengths[0] = head.len;
	arguments[1] = load->spec.relation;
	lengths[1] = strlen(load->spec.relation);
	arguments[2] = names.data;
	lengths[2] = names.len;
	arguments[3] = batch;
	lengths[3] = length;
	arguments[4] = load->spec.conflict;
	lengths[4] = load->spec.conflict ? strlen(load->spec.conflict) : 0;

	/*
	 * From here on an error finds the session busy, and the end of the transaction puts that
	 * right.
	 */
	session->load = load;
	rf_session_will_write(session);
	sent = rf_pipeline_begin(session, load->level, &load->pipeline) &&
		PQsendQueryParams(conn, STORE_SQL, 5, types, arguments, lengths, formats, 1);
	rf_pipeline_send(session, sent);
	pfree(head.data);
	pfree(names.data);
	load->stats.requests++;
}

/*
 * Returns true if this is the data node's word where to send. It comes as a parameter's new value,
 * in front of the answer.
 */
static bool
flow_address(RfLoad *load, uint32 *index, uint64 *key)
{
	const char *value = PQparameterStatus(load->session->conn, RF_STORE_PARAMETER);
	unsigned long long id;
	unsigned long long found;

	if (value == NULL || sscanf(value, "%llx %u %llx", &id, index, &found) != 3 || id != load->id)
		return false;
	*key = found;
	return true;
}

/*
 * Take results until the pipeline's end, or, if asked, until the flow's address came (then NULL).
 * The session is free again when a result is returned.
 */
static PGresult *
take_result(RfLoad *load, bool wait_for_flow)
{
	RfSession  *session = load->session;
	uint32		index;
	uint64		key;

	PG_TRY();
	{
		while (!rf_pipeline_take(session, &load->pipeline))
		{
			if (wait_for_flow && flow_address(load, &index, &key))
				goto done;
			rf_session_await_input(session);
		}
		session->load = NULL;
done:	;
	}
	PG_CATCH();
	{
		rf_pipeline_clear(&load->pipeline);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return rf_pipeline_result(&load->pipeline);
}

/* The answer to a whole request: an error, or counts that must equal those sent. */
static void
check_reply(RfLoad *load, PGresult *result)
{
	RfSession  *session = load->session;
	RfStoreReply reply;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		raise_reply(load, result);
	if (PQntuples(result) != 1 || PQnfields(result) != 1 ||
		PQgetlength(result, 0, 0) != sizeof(reply))
	{
		PQclear(result);
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("server \"%s\" answered a store request with something else",
						session->server_name)));
	}
	memcpy(&reply, PQgetvalue(result, 0, 0), sizeof(reply));
	PQclear(result);
	if (reply.wire_version != RF_WIRE_VERSION || reply.rows != load->rows ||
		reply.batches != load->batches || reply.bytes != load->bytes)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the rows for \"%s\" did not arrive complete on server \"%s\"",
						load->spec.relation, session->server_name),
				 errdetail("Sent " UINT64_FORMAT " rows in " UINT64_FORMAT
						   " batches of " UINT64_FORMAT " bytes; " UINT64_FORMAT
						   " rows in " UINT64_FORMAT " batches of " UINT64_FORMAT " bytes arrived.",
						   load->rows, load->batches, load->bytes, reply.rows, reply.batches,
						   reply.bytes)));
	load->written += reply.written;
	load->stats.rows += load->rows;
	load->stats.batches += load->batches;
	load->stats.bytes += load->bytes;
	load->rows = load->batches = load->bytes = 0;
}

/* ---------- sending ---------- */

void
rf_load_watch(pg_atomic_uint64 *rows, pg_atomic_uint64 *bytes)
{
	watched_rows = rows;
	watched_bytes = bytes;
}

/* Once for each batch. */
static void
count_sent(uint32 rows, uint32 bytes)
{
	if (watched_rows == NULL)
		return;
	pg_atomic_write_u64(watched_rows, pg_atomic_read_u64(watched_rows) + rows);
	pg_atomic_write_u64(watched_bytes, pg_atomic_read_u64(watched_bytes) + bytes);
}

/* The other side stopped reading before the end: it says why over libpq. */
static void
remote_stopped(RfLoad *load)
{
	PGresult   *result;

	rf_flow_close(load->flow);
	load->flow = NULL;
	result = take_result(load, false);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		raise_reply(load, result);
	PQclear(result);
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("server \"%s\" stopped reading rows for \"%s\" before their end",
					load->session->server_name, load->spec.relation)));
}

static void
acquire(RfLoad *load)
{
	bool		stopped;

	rf_waiting_begin();
	stopped = !rf_flow_acquire(load->flow, &load->buffer);
	rf_waiting_end();
	if (stopped)
		remote_stopped(load);
}

/*
 * A batch of private memory, in as many fragments as it needs. The first goes to the slot that is
 * held, if one is.
 */
static void
send_batch(RfLoad *load, const uint8 *batch, bool placed, uint32 length, uint32 rows, bool held)
{
	uint32		flags = RF_SLOT_FIRST;

	load->batches++;
	load->bytes += length;
	count_sent(rows, length);
	while (length > 0)
	{
		uint32		part;

		CHECK_FOR_INTERRUPTS();
		if (!held)
			acquire(load);
		held = false;
		part = Min(length, load->buffer.length);
		if (part == length)
			flags |= RF_SLOT_LAST;
		rf_flow_submit_from(load->flow, &load->buffer, batch, placed, part, flags,
							part == length ? rows : 0);
		batch += part;
		length -= part;
		flags = 0;
	}
}

/* From now on rows go over a flow. */
static void
start_flow(RfLoad *load)
{
	RfSession  *session = load->session;
	uint32		rows = load->filling ? rf_encoder_rows(load->encoder) : 0;
	PGresult   *result;
	uint32		index;
	uint64		key;
	int			peer;

	write_older(load);
	rf_session_free(session);
	rf_engine_require();
	peer = rf_session_peer(session);
	send_request(load, NULL, 0);
	result = take_result(load, true);
	if (result != NULL || !flow_address(load, &index, &key))
	{
		check_reply(load, result);
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("server \"%s\" did not wait for the rows for \"%s\"",
						session->server_name, load->spec.relation)));
	}
	load->flow = rf_flow_open(peer, index, key);
	if (load->flow == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("server \"%s\" does not wait for the rows for \"%s\" any more",
						session->server_name, load->spec.relation)));
	load->stats.flows++;
	if (rows > 0)
		send_batch(load, (const uint8 *) load->private_batch, false,
				   rf_encoder_finish(load->encoder), rows, false);
	stop_collecting(load);
}

/* The rows in private memory become a request of their own. */
static void
send_inline(RfLoad *load)
{
	uint32		rows = rf_encoder_rows(load->encoder);
	uint32		length;

	write_older(load);
	rf_session_free(load->session);
	if (load->session->conn == NULL || load->session->broken)
		rf_session_lost(load->session);
	length = rf_encoder_finish(load->encoder);
	stop_collecting(load);
	load->batches = 1;
	load->bytes = length;
	send_request(load, load->private_batch, length);
	count_sent(rows, length);
	check_reply(load, take_result(load, false));
}

/* The slot's batch goes out. */
static void
flush_slot(RfLoad *load)
{
	uint32		rows = rf_encoder_rows(load->encoder);
	uint32		length = rf_encoder_finish(load->encoder);

	rf_flow_submit(load->flow, &load->buffer, length, RF_SLOT_FIRST | RF_SLOT_LAST, rows);
	load->filling = false;
	load->batches++;
	load->bytes += length;
	count_sent(rows, length);
}

static void
leave_private(RfLoad *load)
{
	load->singles = 0;

	/* An empty batch that is too small for its row leaves no choice. */
	if ((load->interrupted || load->session->load != NULL) && rf_encoder_rows(load->encoder) > 0)
		send_inline(load);
	else
		start_flow(load);
}

/* Returns true if the next batch would be written with a single row, as the latest batches were. */
static bool
is_refused(RfLoad *load)
{
	if (!load->spec.may_refuse || load->flow || load->singles < SINGLE_BATCHES)
		return false;
	if (load->refused == REFUSED_ROWS)
	{
		load->refused = 0;
		return false;
	}
	load->refused++;
	load->stats.refused++;
	return true;
}

bool
rf_load_add(RfLoad *load, TupleTableSlot *slot)
{
	uint32		length;
	uint8	   *place;
	const uint8 *batch;

	if (load->encoder == NULL)
		create_encoder(load);
	for (;;)
	{
		if (!load->filling)
		{
			if (load->error)
				ReThrowError(load->error);
			if (is_refused(load))
				return false;
			if (load->flow)
			{
				acquire(load);
				rf_encoder_begin(load->encoder, load->buffer.data, load->buffer.length);
			}
			else
			{
				rf_encoder_begin(load->encoder, load->private_batch, load->private_size);
				start_collecting(load);
			}
			load->filling = true;
		}
		switch (rf_encoder_add(load->encoder, slot))
		{
			case RF_ENCODE_DONE:
				load->rows++;
				return true;
			case RF_ENCODE_FULL:
				if (load->flow)
					flush_slot(load);
				else
					leave_private(load);
				break;
			case RF_ENCODE_TOO_LARGE:
				if (load->flow == NULL)
				{
					leave_private(load);
					break;
				}
				/* The slot that was begun takes the row's first fragment. */
				length = rf_encoder_measure_large(load->encoder, slot);
				place = rf_flow_place(load->flow, length);
				batch = rf_encoder_large_row(load->encoder, slot, place, length, &length);
				load->filling = false;
				load->rows++;
				send_batch(load, batch, place != NULL, length, 1, true);
				return true;
		}
	}
}

/* The request gets its end, and is answered. The session is free. */
static void
end_request(RfLoad *load)
{
	RfFlowHandle *flow = load->flow;
	bool		finished;

	if (load->filling && rf_encoder_rows(load->encoder) > 0)
		flush_slot(load);
	load->filling = false;
	rf_waiting_begin();
	finished = rf_flow_finish(flow);
	rf_waiting_end();
	if (!finished)
		remote_stopped(load);
	load->stats.buffers = rf_flow_entry(flow)->slot_count;
	load->stats.buffer_size = rf_flow_entry(flow)->slot_size;
	load->stats.waits += atomic_load_explicit(&rf_flow_entry(flow)->stats.waits,
											  memory_order_relaxed);
	load->stats.wait_us += atomic_load_explicit(&rf_flow_entry(flow)->stats.wait_us,
												memory_order_relaxed);
	load->flow = NULL;
	rf_flow_close(flow);
	check_reply(load, take_result(load, false));
}

/* All its rows so far are written there. */
static void
write_all(RfLoad *load)
{
	if (load->flow)
		end_request(load);
	else if (load->filling && rf_encoder_rows(load->encoder) > 0)
		send_inline(load);
	else
		stop_collecting(load);
}

/*
 * The same because of something else that happens here, perhaps in a subtransaction that survives
 * the error.
 */
static void
write_for_others(RfLoad *load)
{
	if (load->error)
		ReThrowError(load->error);
	if (load->filling && load->flow == NULL && rf_encoder_rows(load->encoder) == 1)
		load->singles++;
	else
		load->singles = 0;
	PG_TRY();
	{
		write_all(load);
	}
	PG_CATCH();
	{
		MemoryContext caller = MemoryContextSwitchTo(load->context);

		stop_collecting(load);
		load->error = CopyErrorData();
		MemoryContextSwitchTo(caller);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Before the load's private memory is written, write the earlier rows of other parts of the
 * statement and of surrounding statements. Loads of one part, as into partitions of one table, are
 * written in any order.
 */
static void
write_older(RfLoad *load)
{
	dlist_head *all = &load->session->collecting;
	bool		again = true;

	while (again)
	{
		dlist_iter	iter;

		again = false;
		dlist_foreach(iter, all)
		{
			RfLoad	   *other = dlist_container(RfLoad, collecting, iter.cur);

			if (other == load)
				break;
			if (other->spec.part == load->spec.part)
				continue;
			write_for_others(other);
			again = true;
			break;
		}
	}
}

void
rf_load_write_all(RfSession *session)
{
	dlist_head *all = &session->collecting;

	while (!dlist_is_empty(all))
		write_for_others(dlist_head_element(RfLoad, collecting, all));
}

void
rf_load_interrupt(RfLoad *load)
{
	load->interrupted = true;
	write_for_others(load);
	load->private_size = Max(load->private_size, load->spec.receive_buffer_size);
	load->private_batch = repalloc_huge(load->private_batch, load->private_size);
}

uint64
rf_load_finish(RfLoad *load)
{
	uint64		written;

	if (load->error)
		ReThrowError(load->error);
	write_all(load);
	written = load->written;
	load->written = 0;
	return written;
}

const RfLoadStats *
rf_load_stats(RfLoad *load)
{
	return &load->stats;
}
