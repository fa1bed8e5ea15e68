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
 * Rows of a replicated table go to all of its nodes, encoded once. Each lock is taken on the first
 * node before it is taken on any further node: the further nodes get a batch when the first node
 * has written the batch's rows and released its buffer, and the end of a request when the first
 * node has answered the request. So two statements that write the same rows wait for each other on
 * the first node only. Statements that write such a table row by row keep the same order
 * (modify.c). A batch is kept here until the further nodes get it; at most one is kept for each of
 * the first node's buffers.
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

/* One of the nodes that get all rows. */
typedef struct LoadNode
{
	RfLoad	   *load;
	RfSession  *session;
	dlist_node	collecting;		/* in session->collecting while rows are in private memory */

	/* The request that runs now; session->load is the load. */
	uint64		id;
	RfPipeline	pipeline;
	RfFlowHandle *flow;
	RfBuffer	buffer;			/* slot being filled */

	uint64		written;		/* rows that the node reported, since rf_load_finish */
	RfLoadStats stats;
} LoadNode;

/* Private memory for one batch. */
typedef struct KeptBatch
{
	uint8	   *data;
	uint32		size;			/* bytes of memory; 0: NULL */
	uint32		length;
	uint32		rows;
	uint64		end;			/* as many slots of the first node's flow, from the first on, end
								 * with it */
} KeptBatch;

struct RfLoad
{
	LoadNode   *nodes;			/* in the order in which rows are locked there */
	int			node_count;
	RfLoadSpec	spec;
	MemoryContext context;
	MemoryContextCallback gone;
	RfStreamColumn *columns;	/* how values travel */
	RfEncoder  *encoder;		/* NULL: no row came yet */
	bool		mixed;			/* no encoder serves all nodes: rows are refused */

	/*
	 * A ring: batches that only the first node has got, the oldest first. The batch that is being
	 * filled follows them, unless it is in a slot of a flow.
	 */
	KeptBatch	kept[RF_MAX_SLOTS + 1];
	int			kept_first;
	int			kept_count;
	uint32		private_size;	/* of a batch that travels inline; bytes */
	bool		filling;		/* a batch has been begun */
	int			level;			/* nest level of the (sub)transaction that rows in private memory
								 * belong to */
	ErrorData  *error;			/* error of writing rows for another user */
	bool		interrupted;	/* another user took the session: inline only */
	int			singles;		/* latest batches of one row each, for another user */
	int			refused;		/* rows, since a batch was tried */

	/* The request that runs now, or that rows are collected for */
	uint64		rows;
	uint64		batches;
	uint64		bytes;
};

/* rf_load_watch */
static pg_atomic_uint64 *watched_rows = NULL;
static pg_atomic_uint64 *watched_bytes = NULL;

static void load_gone(void *arg);
static void stop_collecting(RfLoad *load);
static void write_older(RfLoad *load);
static void end_request(RfLoad *load);
static void remote_stopped(LoadNode *node) __attribute__((noreturn));

RfLoad *
rf_load_create(RfSession *const *sessions, int count, const RfLoadSpec *spec)
{
	RfLoad	   *load = palloc0(sizeof(RfLoad));

	load->nodes = palloc0_array(LoadNode, count);
	load->node_count = count;
	for (int i = 0; i < count; i++)
	{
		load->nodes[i].load = load;
		load->nodes[i].session = sessions[i];
	}
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
	for (int i = 0; i < load->node_count; i++)
		dlist_push_tail(&load->nodes[i].session->collecting, &load->nodes[i].collecting);
}

static void
stop_collecting(RfLoad *load)
{
	for (int i = 0; i < load->node_count; i++)
	{
		LoadNode   *node = &load->nodes[i];

		if (node->collecting.next != NULL)
			dlist_delete(&node->collecting);
		node->collecting.next = NULL;
	}
	load->filling = false;
}

/* Raises no error. The abort that called this cancels the session's commands. */
void
rf_load_lose(RfLoad *load)
{
	stop_collecting(load);
	for (int i = 0; i < load->node_count; i++)
	{
		LoadNode   *node = &load->nodes[i];
		RfFlowHandle *flow = node->flow;

		node->flow = NULL;
		if (node->session->load == load)
			node->session->load = NULL;
		if (flow && !proc_exit_inprogress)
			rf_flow_close(flow);
	}
}

static void
load_gone(void *arg)
{
	rf_load_lose((RfLoad *) arg);
}

/* Raises the data node's error; clears result. The error may name the row that caused it. */
__attribute__((noreturn)) static void
raise_reply(LoadNode *node, PGresult *result)
{
	RfLoad	   *load = node->load;
	uint64		row = rf_error_row(result);

	if (row > 0 && row <= load->rows && load->spec.failed)
		load->spec.failed(load->spec.owner, node->stats.rows + row);
	rf_session_raise(node->session, result, load->spec.sql);
}

/* ---------- the request ---------- */

/*
 * Whether values are images, and the encoding of text, depends on the nodes, which say so in their
 * greetings.
 */
static void
create_encoder(RfLoad *load)
{
	MemoryContext caller;
	uint32		flags = 0;
	int			encoding = -1;

	for (int i = 0; i < load->node_count; i++)
	{
		RfSession  *session = load->nodes[i].session;
		bool		portable;
		int			here;

		if (!session->engines.hello_valid)
		{
			/* it may open a savepoint, into which rows of an outer level's loads must not fall */
			rf_session_settle(session);
			rf_session_hello(session, false);
		}
		here = rf_session_encoding(session, &portable);
		load->mixed |= i > 0 && here != encoding;
		encoding = here;
		if (portable)
			flags = RF_STREAM_PORTABLE;
	}
	caller = MemoryContextSwitchTo(load->context);
	load->encoder = rf_encoder_create(load->spec.desc, load->spec.column_count, load->spec.attnums,
									  load->columns, flags, encoding);
	MemoryContextSwitchTo(caller);
}

/*
 * The remote transaction's beginning, if it has not begun, and the request; with a batch that is
 * all of it, or NULL for a flow.
 */
static void
send_request(LoadNode *node, const uint8 *batch, uint32 length)
{
	static const Oid types[] = {BYTEAOID, TEXTOID, TEXTARRAYOID, BYTEAOID, TEXTOID};
	RfLoad	   *load = node->load;
	RfSession  *session = node->session;
	PGconn	   *conn = session->conn;
	RfStoreRequest request;
	RfTypeImage image;
	StringInfoData head;
	StringInfoData names;
	const char *arguments[5];
	int			lengths[5];
	int			formats[5] = {1, 1, 1, 1, 1};
	bool		sent;

	if (!pg_strong_random(&node->id, sizeof(node->id)))
		elog(ERROR, "could not generate a random number");
	memset(&request, 0, sizeof(request));
	request.wire_version = RF_WIRE_VERSION;
	request.flags = load->spec.operation == CMD_UPDATE ? RF_STORE_UPDATE :
		load->spec.operation == CMD_DELETE ? RF_STORE_DELETE :
		load->spec.conflict ? RF_STORE_ON_CONFLICT :
		0;
	rf_node_self(&request.node, &image);
	request.id = node->id;
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
	arguments[3] = (const char *) batch;
	lengths[3] = length;
	arguments[4] = load->spec.conflict;
	lengths[4] = load->spec.conflict ? strlen(load->spec.conflict) : 0;

	/*
	 * From here on an error finds the session busy, and the end of the transaction puts that
	 * right.
	 */
	session->load = load;
	rf_session_will_write(session);
	sent = rf_pipeline_begin(session, load->level, &node->pipeline) &&
		PQsendQueryParams(conn, STORE_SQL, 5, types, arguments, lengths, formats, 1);
	rf_pipeline_send(session, sent);
	pfree(head.data);
	pfree(names.data);
	node->stats.requests++;
}

/*
 * Returns true if this is the data node's word where to send. It comes as a parameter's new value,
 * in front of the answer.
 */
static bool
flow_address(LoadNode *node, uint32 *index, uint64 *key)
{
	const char *value = PQparameterStatus(node->session->conn, RF_STORE_PARAMETER);
	unsigned long long id;
	unsigned long long found;

	if (value == NULL || sscanf(value, "%llx %u %llx", &id, index, &found) != 3 || id != node->id)
		return false;
	*key = found;
	return true;
}

/*
 * Take results until the pipeline's end, or, if asked, until the flow's address came (then NULL).
 * The session is free again when a result is returned.
 */
static PGresult *
take_result(LoadNode *node, bool wait_for_flow)
{
	RfSession  *session = node->session;
	uint32		index;
	uint64		key;

	PG_TRY();
	{
		while (!rf_pipeline_take(session, &node->pipeline))
		{
			if (wait_for_flow && flow_address(node, &index, &key))
				goto done;
			rf_session_await_input(session);
		}
		session->load = NULL;
done:	;
	}
	PG_CATCH();
	{
		rf_pipeline_clear(&node->pipeline);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return rf_pipeline_result(&node->pipeline);
}

/* The answer to a whole request: an error, or counts that must equal those sent. */
static void
check_reply(LoadNode *node, PGresult *result)
{
	RfLoad	   *load = node->load;
	RfSession  *session = node->session;
	RfStoreReply reply;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		raise_reply(node, result);
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
	node->written += reply.written;
	node->stats.rows += load->rows;
	node->stats.batches += load->batches;
	node->stats.bytes += load->bytes;
}

/* All nodes have: a next request begins with the next row. */
static void
all_answered(RfLoad *load)
{
	load->rows = load->batches = load->bytes = 0;
}

/* ---------- sending ---------- */

void
rf_load_watch(pg_atomic_uint64 *rows, pg_atomic_uint64 *bytes)
{
	watched_rows = rows;
	watched_bytes = bytes;
}

/* Once for each batch and node. */
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
remote_stopped(LoadNode *node)
{
	PGresult   *result;

	rf_flow_close(node->flow);
	node->flow = NULL;
	result = take_result(node, false);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		raise_reply(node, result);
	PQclear(result);
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("server \"%s\" stopped reading rows for \"%s\" before their end",
					node->session->server_name, node->load->spec.relation)));
}

/* Waits for a slot of the node's flow; of a first node among several also for a receive buffer. */
static void
acquire(LoadNode *node)
{
	RfLoad	   *load = node->load;
	bool		going = true;

	rf_waiting_begin();
	if (load->node_count > 1 && node == load->nodes)
		going = rf_flow_await_credit(node->flow);
	going = going && rf_flow_acquire(node->flow, &node->buffer);
	rf_waiting_end();
	if (!going)
		remote_stopped(node);
}

/*
 * A batch of private memory, in as many fragments as it needs. The first goes to the slot that is
 * held, if one is.
 */
static void
send_batch(LoadNode *node, const uint8 *batch, bool placed, uint32 length, uint32 rows, bool held)
{
	uint32		flags = RF_SLOT_FIRST;

	count_sent(rows, length);
	while (length > 0)
	{
		uint32		part;

		CHECK_FOR_INTERRUPTS();
		if (!held)
			acquire(node);
		held = false;
		part = Min(length, node->buffer.length);
		if (part == length)
			flags |= RF_SLOT_LAST;
		rf_flow_submit_from(node->flow, &node->buffer, batch, placed, part, flags,
							part == length ? rows : 0);
		batch += part;
		length -= part;
		flags = 0;
	}
}

static void
free_batch(KeptBatch *batch)
{
	if (batch->data != NULL)
		pfree(batch->data);
	batch->data = NULL;
	batch->size = 0;
}

/* The private memory that is filled next, of so many bytes. */
static KeptBatch *
private_batch(RfLoad *load, uint32 bytes)
{
	KeptBatch  *batch = &load->kept[(load->kept_first + load->kept_count) % lengthof(load->kept)];

	if (batch->size < bytes)
	{
		free_batch(batch);
		batch->data = MemoryContextAllocExtended(load->context, bytes, MCXT_ALLOC_HUGE);
		batch->size = bytes;
	}
	return batch;
}

/* No larger batch is kept for other rows' sake. */
static uint64
most_kept(const RfLoad *load)
{
	return (uint64) load->spec.receive_buffers * load->spec.receive_buffer_size;
}

/* The other nodes get the batches whose rows the first node has written, or all that are kept. */
static void
forward(RfLoad *load, bool all)
{
	while (load->kept_count > 0)
	{
		KeptBatch  *batch = &load->kept[load->kept_first];

		if (!all && atomic_load(&rf_flow_entry(load->nodes[0].flow)->credit) < batch->end)
			return;
		for (int i = 1; i < load->node_count; i++)
			send_batch(&load->nodes[i], batch->data, false, batch->length, batch->rows, false);
		if (batch->size > most_kept(load))
			free_batch(batch);
		load->kept_first = (load->kept_first + 1) % lengthof(load->kept);
		load->kept_count--;
	}
}

/* The batch in private memory goes out over the flow. */
static void
send_private(RfLoad *load, uint32 length, uint32 rows)
{
	KeptBatch  *batch = private_batch(load, length);
	LoadNode   *first = &load->nodes[0];

	batch->length = length;
	batch->rows = rows;
	load->filling = false;
	load->batches++;
	load->bytes += length;
	send_batch(first, batch->data, false, length, rows, false);
	if (load->node_count == 1)
		return;
	batch->end = first->buffer.sequence + 1;
	load->kept_count++;
	forward(load, false);
}

/*
 * Before a request: no other one runs there, and all transactions there have begun, as beginning
 * one may need the others' sessions.
 */
static void
prepare_sessions(RfLoad *load)
{
	RfSession **sessions = palloc_array(RfSession *, load->node_count);

	for (int i = 0; i < load->node_count; i++)
	{
		sessions[i] = load->nodes[i].session;
		rf_session_free(sessions[i]);
		if (sessions[i]->conn == NULL || sessions[i]->broken)
			rf_session_lost(sessions[i]);
	}
	if (load->node_count > 1)
		rf_sessions_begin(sessions, load->node_count);
	pfree(sessions);
}

/* The node has been sent a request for a flow. */
static void
open_flow(LoadNode *node, int peer)
{
	RfLoad	   *load = node->load;
	RfSession  *session = node->session;
	PGresult   *result = take_result(node, true);
	uint32		index;
	uint64		key;

	if (result != NULL || !flow_address(node, &index, &key))
	{
		check_reply(node, result);
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("server \"%s\" did not wait for the rows for \"%s\"",
						session->server_name, load->spec.relation)));
	}
	node->flow = rf_flow_open(peer, index, key);
	if (node->flow == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("server \"%s\" does not wait for the rows for \"%s\" any more",
						session->server_name, load->spec.relation)));
	node->stats.flows++;
}

/* From now on rows go over flows. The first node has its locks when the others are asked. */
static void
start_flow(RfLoad *load)
{
	uint32		rows = load->filling ? rf_encoder_rows(load->encoder) : 0;
	int		   *peers = palloc_array(int, load->node_count);

	write_older(load);
	stop_collecting(load);
	prepare_sessions(load);
	rf_engine_require();
	for (int i = 0; i < load->node_count; i++)
		peers[i] = rf_session_peer(load->nodes[i].session);
	send_request(&load->nodes[0], NULL, 0);
	open_flow(&load->nodes[0], peers[0]);
	for (int i = 1; i < load->node_count; i++)
		send_request(&load->nodes[i], NULL, 0);
	for (int i = 1; i < load->node_count; i++)
		open_flow(&load->nodes[i], peers[i]);
	pfree(peers);
	if (rows > 0)
		send_private(load, rf_encoder_finish(load->encoder), rows);
}

/* The rows in private memory become a request of their own, on the first node before the others. */
static void
send_inline(RfLoad *load)
{
	uint32		rows = rf_encoder_rows(load->encoder);
	uint32		length;
	const uint8 *batch;

	write_older(load);
	length = rf_encoder_finish(load->encoder);
	stop_collecting(load);
	prepare_sessions(load);
	batch = private_batch(load, length)->data;
	load->batches = 1;
	load->bytes = length;
	send_request(&load->nodes[0], batch, length);
	check_reply(&load->nodes[0], take_result(&load->nodes[0], false));
	for (int i = 1; i < load->node_count; i++)
		send_request(&load->nodes[i], batch, length);
	for (int i = 1; i < load->node_count; i++)
		check_reply(&load->nodes[i], take_result(&load->nodes[i], false));
	for (int i = 0; i < load->node_count; i++)
		count_sent(rows, length);
	all_answered(load);
}

/* The batch that was begun goes out over the flow. */
static void
flush_batch(RfLoad *load)
{
	LoadNode   *node = &load->nodes[0];
	uint32		rows = rf_encoder_rows(load->encoder);
	uint32		length = rf_encoder_finish(load->encoder);

	if (load->node_count > 1)
	{
		send_private(load, length, rows);
		return;
	}
	rf_flow_submit(node->flow, &node->buffer, length, RF_SLOT_FIRST | RF_SLOT_LAST, rows);
	load->filling = false;
	load->batches++;
	load->bytes += length;
	count_sent(rows, length);
}

/* A request of another load, or of this one, runs on one of the nodes. */
static bool
is_taken(const RfLoad *load)
{
	for (int i = 0; i < load->node_count; i++)
	{
		if (load->nodes[i].session->load != NULL)
			return true;
	}
	return false;
}

static void
leave_private(RfLoad *load)
{
	load->singles = 0;

	/* An empty batch that is too small for its row leaves no choice. */
	if ((load->interrupted || is_taken(load)) && rf_encoder_rows(load->encoder) > 0)
		send_inline(load);
	else
		start_flow(load);
}

/* Returns true if the next batch would be written with a single row, as the latest batches were. */
static bool
is_refused(RfLoad *load)
{
	if (!load->mixed && (load->nodes[0].flow != NULL || load->singles < SINGLE_BATCHES))
		return false;
	if (!load->mixed && load->refused == REFUSED_ROWS)
	{
		load->refused = 0;
		return false;
	}
	load->refused++;
	for (int i = 0; i < load->node_count; i++)
		load->nodes[i].stats.refused++;
	return true;
}

/* One node's batches are made in the slots of its flow, a batch for several in private memory. */
static void
begin_batch(RfLoad *load)
{
	LoadNode   *first = &load->nodes[0];
	uint32		size = first->flow == NULL ? load->private_size :
		load->spec.receive_buffer_size - (uint32) sizeof(RfSlotHeader);

	if (first->flow != NULL && load->node_count == 1)
	{
		acquire(first);
		rf_encoder_begin(load->encoder, first->buffer.data, first->buffer.length);
	}
	else
	{
		rf_encoder_begin(load->encoder, private_batch(load, size)->data, size);
		if (first->flow == NULL)
			start_collecting(load);
	}
	load->filling = true;
}

/*
 * Sends a row that does not fit a buffer, over the flow. What several nodes get is not kept if it
 * is larger than all buffers: the request ends with it.
 */
static void
send_large(RfLoad *load, TupleTableSlot *slot)
{
	LoadNode   *first = &load->nodes[0];
	uint32		length = rf_encoder_measure_large(load->encoder, slot);
	uint8	   *place;
	const uint8 *batch;

	load->rows++;
	if (load->node_count > 1)
	{
		place = private_batch(load, length)->data;
		(void) rf_encoder_large_row(load->encoder, slot, place, length, &length);
		send_private(load, length, 1);
		if (length > most_kept(load))
			end_request(load);
		return;
	}
	place = rf_flow_place(first->flow, length);
	batch = rf_encoder_large_row(load->encoder, slot, place, length, &length);
	load->filling = false;
	load->batches++;
	load->bytes += length;
	/* The slot that was begun takes the row's first fragment. */
	send_batch(first, batch, place != NULL, length, 1, true);
}

bool
rf_load_add(RfLoad *load, TupleTableSlot *slot)
{
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
			begin_batch(load);
		}
		switch (rf_encoder_add(load->encoder, slot))
		{
			case RF_ENCODE_DONE:
				load->rows++;
				return true;
			case RF_ENCODE_FULL:
				if (load->nodes[0].flow)
					flush_batch(load);
				else
					leave_private(load);
				break;
			case RF_ENCODE_TOO_LARGE:
				if (load->nodes[0].flow == NULL)
				{
					leave_private(load);
					break;
				}
				send_large(load, slot);
				return true;
		}
	}
}

/* The node's flow gets its end, and the request is answered. The session is free. */
static void
end_flow(LoadNode *node)
{
	RfFlowHandle *flow = node->flow;
	bool		finished;

	rf_waiting_begin();
	finished = rf_flow_finish(flow);
	rf_waiting_end();
	if (!finished)
		remote_stopped(node);
	node->stats.buffers = rf_flow_entry(flow)->slot_count;
	node->stats.buffer_size = rf_flow_entry(flow)->slot_size;
	node->stats.waits += atomic_load_explicit(&rf_flow_entry(flow)->stats.waits,
											  memory_order_relaxed);
	node->stats.wait_us += atomic_load_explicit(&rf_flow_entry(flow)->stats.wait_us,
												memory_order_relaxed);
	node->flow = NULL;
	rf_flow_close(flow);
	check_reply(node, take_result(node, false));
}

/* What the end of the rows locks, as foreign keys do, is locked on the first node first, too. */
static void
end_request(RfLoad *load)
{
	if (load->filling && rf_encoder_rows(load->encoder) > 0)
		flush_batch(load);
	load->filling = false;
	end_flow(&load->nodes[0]);
	forward(load, true);
	for (int i = 1; i < load->node_count; i++)
		end_flow(&load->nodes[i]);
	all_answered(load);
}

/* All its rows so far are written there. */
static void
write_all(RfLoad *load)
{
	if (load->nodes[0].flow)
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
	if (load->filling && load->nodes[0].flow == NULL && rf_encoder_rows(load->encoder) == 1)
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
	for (int i = 0; i < load->node_count; i++)
	{
		dlist_iter	iter;

restart:
		dlist_foreach(iter, &load->nodes[i].session->collecting)
		{
			RfLoad	   *other = dlist_container(LoadNode, collecting, iter.cur)->load;

			if (other == load)
				break;
			if (other->spec.part == load->spec.part)
				continue;
			write_for_others(other);
			goto restart;
		}
	}
}

void
rf_load_write_all(RfSession *session)
{
	dlist_head *all = &session->collecting;

	while (!dlist_is_empty(all))
		write_for_others(dlist_head_element(LoadNode, collecting, all)->load);
}

void
rf_load_interrupt(RfLoad *load)
{
	load->interrupted = true;
	write_for_others(load);
	load->private_size = Max(load->private_size, load->spec.receive_buffer_size);
}

void
rf_load_finish(RfLoad *load, uint64 *written)
{
	if (load->error)
		ReThrowError(load->error);
	write_all(load);
	for (int i = 0; i < load->node_count; i++)
	{
		written[i] = load->nodes[i].written;
		load->nodes[i].written = 0;
	}
}

const RfLoadStats *
rf_load_stats(RfLoad *load, int node)
{
	return &load->nodes[node].stats;
}
