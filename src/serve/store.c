/*
 * store.c - rdma_internal.store(): insert rows that another node sends as column batches, or write
 * rows that it names by table and ctid (store_update.c).
 *
 * The rows are a relation of an ordinary INSERT: INSERT INTO t(...) SELECT * FROM
 * rdma_internal.receive() AS ..., run through SPI. So everything that holds for an INSERT holds
 * here by construction, because the server's own ModifyTable does it: the caller's rights on table
 * and columns, row security, defaults and identity of columns that are not sent, generated columns,
 * constraints, indexes, triggers per row and per statement, partitions, views.
 * rdma_internal.receive() is never called: wherever it stands in a query that rdma_internal.store()
 * plans, a custom scan replaces it that hands rows out as they arrive, without storing them. Plain
 * tables take many rows at a time (store_insert.c).
 *
 * Values come as images of the writer's types where these are built in, else as text. A column
 * whose type here differs gets the value's text, as it would from a parameter. Types of the
 * relation are base types without modifiers, so that INSERT's assignment applies lengths and checks
 * domains.
 *
 * Code of the caller's choice runs inside the INSERT (triggers, defaults, views' rules) and may
 * name rdma_internal.receive() itself. It gets rows only with the types that they have, checked
 * when the query is planned and again when a plan, which may be an older plan, starts; and only
 * while the request lasts, for any cursor that it leaves behind.
 *
 * Errors say which of the rows they are about where that is known, and nothing of the statements
 * that are run here, which the writing node never wrote.
 *
 * Everything belongs to this backend. One request runs at a time, but triggers may start further
 * requests inside it.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
/*
 * Only the way to the client is wanted; the headers of Kerberos that come with it may not be
 * installed. The layout does not change.
 */
#undef ENABLE_GSS
#include "libpq/libpq.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parser.h"
#include "parser/parse_func.h"
#include "rdma_fdw/as_role.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/reassemble.h"
#include "rdma_fdw/serve.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "request.h"
#include "store.h"

/* While rows are awaited: look this often whether our client is still there. */
#define CLIENT_CHECK_MS		1000

PG_FUNCTION_INFO_V1(rdma_store);
PG_FUNCTION_INFO_V1(rdma_receive);

/* A column whose type here differs from the type of its values. */
typedef struct Conversion
{
	AttrNumber	attr;			/* of the rows, from 0 */
	FmgrInfo	output;
	FmgrInfo	input;
	Oid			input_param;
} Conversion;

/* One request, between rdma_internal.store() and the scan that reads its rows. */
typedef struct Incoming
{
	struct Incoming *outer;
	uint64		number;			/* of the request in this session: its address is used again */
	const RfStoreRequest *request;
	const char *relation;		/* for messages */
	Oid			receive;		/* OID of rdma_internal.receive() */
	TupleDesc	sent;			/* as values come */
	TupleDesc	wanted;			/* as the INSERT takes them */
	const char *conflict;		/* ON CONFLICT of the INSERT, or NULL */
	bytea	   *batch;			/* all rows, or NULL: they come by flow */
	List	   *statements;		/* that are run for it, the outermost first */
	uint64		row;			/* being read or written, from 1; 0 before the first */
	ItemPointer ctid;			/* the row that is updated or deleted; NULL for an INSERT */
	void		(*write) (void *keeper);	/* rf_store_keeps_rows */
	void	   *keeper;
	RfStoreReply reply;
} Incoming;

typedef struct ReceiveState
{
	CustomScanState css;		/* first */
	Incoming   *incoming;		/* good while it is the current one and has this number: */
	uint64		number;
	RfDecoder  *decoder;
	RfFlowHandle *flow;
	RfBuffer	buffer;
	bool		holding;
	bool		started;
	bool		ended;
	RfReassembly copy;			/* of batches that came in pieces */
	int			conversion_count;
	Conversion *conversions;
	MemoryContext values;		/* converted values of one row */
} ReceiveState;

static Incoming *incoming = NULL;
static uint64 last_number = 0;

static Plan *plan_receive(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						  List *clauses, List *plans);
static Node *create_receive(CustomScan *scan);
static void begin_receive(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec_receive(CustomScanState *node);
static void end_receive(CustomScanState *node);
static void rescan_receive(CustomScanState *node);

static const CustomPathMethods path_methods = {"RdmaReceive", plan_receive, NULL};
static const CustomScanMethods scan_methods = {"RdmaReceive", create_receive};
static const CustomExecMethods exec_methods = {
	.CustomName = "RdmaReceive",
	.BeginCustomScan = begin_receive,
	.ExecCustomScan = exec_receive,
	.EndCustomScan = end_receive,
	.ReScanCustomScan = rescan_receive,
};

static const RfRequestKind store_request = {
	"rdma_internal.store", "writing", sizeof(RfStoreRequest), offsetof(RfStoreRequest, column_count)
};

static void
bad_request(const char *problem)
{
	rf_request_bad(&store_request, problem);
}

/* Images of these are one another's. */
static bool
is_text(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == BPCHAROID;
}

static void
not_for_users(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rdma_internal.receive is not for users"),
			 errdetail("It names the rows that another node sends to rdma_internal.store.")));
}

/* ---------- planning: the custom scan in rdma_internal.receive()'s place ---------- */

static bool
names_wanted_types(RangeTblFunction *function)
{
	ListCell   *lc;

	if (list_length(function->funccoltypes) != incoming->wanted->natts)
		return false;
	foreach(lc, function->funccoltypes)
	{
		if (lfirst_oid(lc) != TupleDescAttr(incoming->wanted, foreach_current_index(lc))->atttypid)
			return false;
	}
	return true;
}

void
rf_store_paths(RelOptInfo *rel, RangeTblEntry *rte)
{
	CustomPath *path;
	RangeTblFunction *function;

	if (incoming == NULL || rte->rtekind != RTE_FUNCTION || list_length(rte->functions) != 1 ||
		rte->funcordinality)
		return;
	function = linitial_node(RangeTblFunction, rte->functions);
	if (!IsA(function->funcexpr, FuncExpr) ||
		castNode(FuncExpr, function->funcexpr)->funcid != incoming->receive ||
		!names_wanted_types(function))
		return;

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;
	path->path.total_cost = rel->rows * cpu_tuple_cost;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	rel->pathlist = NIL;
	rel->partial_pathlist = NIL;
	add_path(rel, &path->path);
}

/*
 * Makes the custom scan of rdma_internal.receive(). It has no relation, so the request's columns
 * become its list of columns.
 */
static Plan *
plan_receive(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			 List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *columns = NIL;

	/* The request's columns describe the rows, as there is no table. */
	for (int i = 0; i < incoming->wanted->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(incoming->wanted, i);

		columns = lappend(columns,
						  makeTargetEntry((Expr *) makeVar(rel->relid, i + 1, att->atttypid,
														   att->atttypmod, att->attcollation, 0),
										  i + 1, NULL, false));
	}
	scan->flags = path->flags;
	scan->methods = &scan_methods;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	scan->scan.scanrelid = 0;
	scan->custom_scan_tlist = columns;
	scan->custom_relids = bms_make_singleton(rel->relid);
	return &scan->scan.plan;
}

static Node *
create_receive(CustomScan *scan)
{
	ReceiveState *state = (ReceiveState *) newNode(sizeof(ReceiveState), T_CustomScanState);

	state->css.methods = &exec_methods;
	return (Node *) state;
}

/* ---------- rows ---------- */

static void
begin_receive(CustomScanState *node, EState *estate, int eflags)
{
	ReceiveState *state = (ReceiveState *) node;
	TupleDesc	planned = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	int			count;
	AttrNumber *attnums;

	if (incoming == NULL)
		not_for_users();
	state->incoming = incoming;
	state->number = incoming->number;
	count = incoming->sent->natts;
	if (planned->natts != count)
		not_for_users();
	for (int i = 0; i < count; i++)
	{
		if (TupleDescAttr(planned, i)->atttypid != TupleDescAttr(incoming->wanted, i)->atttypid)
			not_for_users();
	}
	attnums = palloc(sizeof(AttrNumber) * Max(count, 1));
	state->conversions = palloc0(sizeof(Conversion) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		Oid			from = TupleDescAttr(incoming->sent, i)->atttypid;
		Oid			to = TupleDescAttr(incoming->wanted, i)->atttypid;
		Conversion *conversion = &state->conversions[state->conversion_count];
		Oid			function;
		bool		is_varlena;

		attnums[i] = i + 1;
		if (from == to)
			continue;
		getTypeOutputInfo(from, &function, &is_varlena);
		fmgr_info(function, &conversion->output);
		getTypeInputInfo(to, &function, &conversion->input_param);
		fmgr_info(function, &conversion->input);
		conversion->attr = i;
		state->conversion_count++;
	}
	state->decoder = rf_decoder_create(incoming->sent, count, attnums, incoming->relation, false);
	rf_reassembly_init(&state->copy, estate->es_query_cxt, incoming->relation,
					   incoming->request->receive_buffer_size);
	state->values = AllocSetContextCreate(estate->es_query_cxt, "rdma_fdw converted values",
										  ALLOCSET_DEFAULT_SIZES);
}

/* Tell the writer where to send. It waits for that, so the message must leave now. */
static void
start_flow(ReceiveState *state)
{
	const RfStoreRequest *request = state->incoming->request;
	StringInfoData message;
	uint32		index;
	uint64		key;
	int			peer;

	if (whereToSendOutput != DestRemote)
		bad_request("There is no client to tell where to send.");
	rf_engine_require();
	peer = rf_peer_wait(&request->node, true);
	if (peer == RF_NO_PEER)
		ereport(ERROR,
				(errcode(rf_peer_missing_sqlstate(&request->node)),
				 errmsg("the writing node's engine is not connected to this node"),
				 errhint("It connects when the next query begins; run the statement again. "
						 "rdma_fdw.connect_timeout is how long it is waited for.")));
	state->flow = rf_flow_listen(peer, request->receive_buffers, request->receive_buffer_size, 0);
	rf_flow_address(state->flow, &index, &key);

	pq_beginmessage(&message, 'S');
	pq_sendstring(&message, RF_STORE_PARAMETER);
	pq_sendstring(&message, psprintf("%llx %u %llx", (unsigned long long) request->id, index,
									 (unsigned long long) key));
	pq_endmessage(&message);
	pq_flush();
}

/* A whole batch from the flow, read in place unless it came in fragments; false at the end. */
static bool
next_from_flow(ReceiveState *state, const void **batch, uint32 *length)
{
	if (state->flow == NULL)
		start_flow(state);
	for (;;)
	{
		if (state->holding)
		{
			if (state->incoming->write)
				state->incoming->write(state->incoming->keeper);
			rf_flow_release(state->flow, &state->buffer);
		}
		state->holding = false;
		for (;;)
		{
			/* looked at first: the poll must see the slots sent before the end */
			bool		over = atomic_load(&rf_flow_entry(state->flow)->remote_end) != 0;
			RfFlowPoll	poll = rf_flow_poll(state->flow, &state->buffer);

			if (poll == RF_POLL_END)
				return false;
			if (poll == RF_POLL_BUFFER)
				break;
			if (over)
				ereport(ERROR,
						(errcode(ERRCODE_CONNECTION_FAILURE),
						 errmsg("the writing node gave up before the end of the rows for \"%s\"",
								state->incoming->relation)));
			if (rf_flow_wait(state->flow, NULL, PGINVALID_SOCKET, CLIENT_CHECK_MS) & WL_TIMEOUT &&
				!pq_check_connection())
				ereport(FATAL,
						(errcode(ERRCODE_CONNECTION_FAILURE),
						 errmsg("connection to the writing node was lost")));
		}
		state->holding = true;
		if (rf_reassembly_is_whole(&state->copy, &state->buffer))
		{
			*batch = state->buffer.data;
			*length = state->buffer.length;
			return true;
		}
		if (rf_reassembly_add(&state->copy, &state->buffer))
		{
			*batch = state->copy.data;
			*length = state->copy.length;
			return true;
		}
	}
}

/*
 * Loads the next batch of the request, which came with it or comes over the flow; returns false at
 * the end.
 */
static bool
next_batch(ReceiveState *state)
{
	Incoming   *from = state->incoming;
	const void *batch;
	uint32		length;

	if (from->batch == NULL)
	{
		if (!next_from_flow(state, &batch, &length))
			return false;
	}
	else if (state->started)
		return false;
	else
	{
		batch = VARDATA_ANY(from->batch);
		length = VARSIZE_ANY_EXHDR(from->batch);
	}
	state->started = true;
	from->row = from->reply.rows + 1;
	rf_decoder_load(state->decoder, batch, length);
	from->reply.batches++;
	from->reply.bytes += length;
	return true;
}

static void
convert(ReceiveState *state, Datum *values, bool *isnull)
{
	MemoryContext caller;

	MemoryContextReset(state->values);
	caller = MemoryContextSwitchTo(state->values);
	for (int i = 0; i < state->conversion_count; i++)
	{
		Conversion *conversion = &state->conversions[i];
		AttrNumber	attr = conversion->attr;

		if (!isnull[attr])
			values[attr] = InputFunctionCall(&conversion->input,
											 OutputFunctionCall(&conversion->output, values[attr]),
											 conversion->input_param, -1);
	}
	MemoryContextSwitchTo(caller);
}

void
rf_store_at_row(uint64 back)
{
	incoming->row = incoming->reply.rows - back;
}

void
rf_store_at_no_row(void)
{
	incoming->row = 0;
	incoming->ctid = NULL;
}

void
rf_store_keeps_rows(void (*write) (void *keeper), void *keeper)
{
	incoming->write = write;
	incoming->keeper = keeper;
}

void
rf_store_at_ctid(ItemPointer ctid)
{
	incoming->ctid = ctid;
}

/*
 * The next row of the request, converted where a column's type differs here. ERROR if the scan
 * outlives its request.
 */
static TupleTableSlot *
next_row(ScanState *node)
{
	ReceiveState *state = (ReceiveState *) node;
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (state->ended)
		return slot;
	if (incoming != state->incoming || incoming->number != state->number)
		not_for_users();
	state->incoming->row = state->incoming->reply.rows + 1;
	state->incoming->ctid = NULL;
	while (!rf_decoder_next(state->decoder, slot->tts_values, slot->tts_isnull))
	{
		if (!next_batch(state))
		{
			rf_store_at_no_row();
			state->ended = true;
			return slot;
		}
	}
	state->incoming->reply.rows++;
	if (state->conversion_count > 0)
		convert(state, slot->tts_values, slot->tts_isnull);
	return ExecStoreVirtualTuple(slot);
}

static bool
recheck_row(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
exec_receive(CustomScanState *node)
{
	return ExecScan(&node->ss, next_row, recheck_row);
}

static void
rescan_receive(CustomScanState *node)
{
	if (((ReceiveState *) node)->started)
		elog(ERROR, "rows that were received cannot be read again");
}

static void
end_receive(CustomScanState *node)
{
	ReceiveState *state = (ReceiveState *) node;

	if (state->flow)
		rf_flow_close(state->flow);
	state->flow = NULL;
	if (state->decoder)
		rf_decoder_destroy(state->decoder);
	state->decoder = NULL;
}

/* Stands in queries only to be replaced. */
Datum
rdma_receive(PG_FUNCTION_ARGS)
{
	not_for_users();
	PG_RETURN_NULL();
}

/* ---------- the request ---------- */

static RfStoreRequest *
read_request(bytea * bytes, RfStreamColumn **columns)
{
	void	   *trailer;
	RfStoreRequest *request = rf_request_read(&store_request, bytes, columns, &trailer);

	if (request->flags > RF_STORE_DELETE || (request->flags & (request->flags - 1)) != 0)
		bad_request("It has unknown flags, or several.");
	if (request->place_count > request->column_count ||
		(request->flags >= RF_STORE_UPDATE ? request->place_count < 2 : request->place_count != 0))
		bad_request("Its number of columns that name a row does not fit its flags.");
	if (request->receive_buffers < 1 || request->receive_buffers > RF_MAX_SLOTS ||
		request->receive_buffer_size < 4096 || request->receive_buffer_size > 4 * 1024 * 1024 ||
		request->receive_buffer_size % 4096 != 0)
		bad_request("Its receive buffers are not possible.");
	return request;
}

/*
 * The relation's type of a column, without domain and modifier; text if it has no such column,
 * which the INSERT will tell.
 */
static Oid
column_type(Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return getBaseType(att->atttypid);
	}
	return TEXTOID;
}

/*
 * A type that the writer says its values have. A type other than a plain value's is refused before
 * anything trusts it.
 */
static Oid
sent_type(const RfStreamColumn *column)
{
	Oid			type = column->type_oid;
	char		kind;

	if (type == InvalidOid)
		return InvalidOid;
	kind = type < FirstGenbkiObjectId ? get_typtype(type) : '\0';
	if (kind != TYPTYPE_BASE && kind != TYPTYPE_RANGE && kind != TYPTYPE_MULTIRANGE)
		bad_request("A column has no type that values can be sent in.");
	return type;
}

static List *
relation_name(const char *qualified)
{
	return textToQualifiedNameList(cstring_to_text(qualified));
}

/* The rows name others, by ctid and tableoid. */
static bool
writes_by_ctid(Incoming *in)
{
	return (in->request->flags & (RF_STORE_UPDATE | RF_STORE_DELETE)) != 0;
}

/* Fills in both row types, and returns the column definition list of rdma_internal.receive(). */
static char *
describe_rows(Incoming *in, RfStreamColumn *columns, ArrayType *names)
{
	Relation	rel = table_openrv(makeRangeVarFromNameList(relation_name(in->relation)),
								   RowExclusiveLock);
	int			count = in->request->column_count;
	StringInfoData types;
	Datum	   *datums;
	bool	   *nulls;
	int			given;

	if (ARR_NDIM(names) > 1 || ARR_ELEMTYPE(names) != TEXTOID)
		bad_request("Its column names are not a list.");
	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &datums, &nulls, &given);
	if (given != count)
		bad_request("It has not one name for each column.");

	initStringInfo(&types);
	in->sent = CreateTemplateTupleDesc(count);
	in->wanted = CreateTemplateTupleDesc(count);
	for (int i = 0; i < count; i++)
	{
		char	   *name;
		Oid			sent = sent_type(&columns[i]);
		Oid			wanted;

		if (nulls[i])
			bad_request("A column has no name.");
		name = TextDatumGetCString(datums[i]);
		wanted = i < 2 && writes_by_ctid(in) ? (i == 0 ? TIDOID : OIDOID) : column_type(rel, name);
		if (sent == InvalidOid || (is_text(sent) && is_text(wanted)))
			sent = wanted;
		TupleDescInitEntry(in->sent, i + 1, name, sent, -1, 0);
		TupleDescInitEntry(in->wanted, i + 1, name, wanted, -1, 0);

		/*
		 * "typmod given": without it char and bit would be named as the types of one character or
		 * bit
		 */
		appendStringInfo(&types, "%sc%d %s", i == 0 ? "" : ", ", i + 1,
						 format_type_extended(wanted, -1,
											  FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY));
	}
	rf_tupdesc_finish(in->sent);
	rf_tupdesc_finish(in->wanted);
	if (writes_by_ctid(in) &&
		(TupleDescAttr(in->sent, 0)->atttypid != TIDOID ||
		 TupleDescAttr(in->sent, 1)->atttypid != OIDOID))
		bad_request("Its first columns are not ctid and tableoid.");
	table_close(rel, NoLock);
	return types.data;
}

void
rf_store_show(const char *sql)
{
	rf_request_show(&store_request, sql);
}

/* ERROR if the clause, text from the caller, ends the INSERT and begins another command. */
static void
check_single(const char *sql)
{
	List	   *statements = raw_parser(sql, RAW_PARSE_DEFAULT);
	Node	   *statement = list_length(statements) == 1 ?
		linitial_node(RawStmt, statements)->stmt : NULL;

	if (statement == NULL || !IsA(statement, InsertStmt) ||
		((InsertStmt *) statement)->onConflictClause == NULL ||
		rf_returns((InsertStmt *) statement))
		bad_request("It has something other than ON CONFLICT.");
}

/* Runs the INSERT of a request; returns the number of rows that were inserted. */
static uint64
insert_rows(Incoming *in, const char *row_types)
{
	StringInfoData sql;
	int			result;

	initStringInfo(&sql);
	appendStringInfo(&sql, "INSERT INTO %s%s", in->relation, in->conflict ? " AS t" : "");
	for (int i = 0; i < in->wanted->natts; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? "(" : ", ",
						 quote_identifier(NameStr(TupleDescAttr(in->wanted, i)->attname)));
	appendStringInfo(&sql, ") SELECT * FROM rdma_internal.receive() AS r(%s)", row_types);
	if (in->conflict)
	{
		appendStringInfoString(&sql, in->conflict);
		check_single(sql.data);
	}
	in->statements = list_make1(sql.data);
	rf_store_show(sql.data);
	result = SPI_execute(sql.data, false, 0);
	if (result != SPI_OK_INSERT && result != SPI_OK_REWRITTEN)
		elog(ERROR, "rdma_internal.store ran \"%s\" with result %d", sql.data, result);
	return SPI_processed;
}

void
rf_store_started(QueryDesc *query)
{
	PlanState  *node = query->planstate;
	PlanState  *source;

	if (incoming == NULL || node == NULL || !IsA(node, ModifyTableState))
		return;
	source = outerPlanState(node);
	if (IsA(source, CustomScanState) && ((CustomScanState *) source)->methods == &exec_methods)
	{
		pgstat_report_query_id(query->plannedstmt->queryId, true);
		rf_store_insert_together((ModifyTableState *) node);
	}
}

void
rf_store_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}

/* Cuts this line off if the context ends with it. Then it is cut off. */
static bool
cut_line(char *context, const char *line)
{
	size_t		length;
	size_t		wanted = strlen(line);
	char	   *found;

	if (context == NULL || (length = strlen(context)) < wanted)
		return false;
	found = context + length - wanted;
	if (strcmp(found, line) != 0 || (found != context && found[-1] != '\n'))
		return false;
	*(found == context ? found : found - 1) = '\0';
	return true;
}

/*
 * In a PG_CATCH: the error goes on, without SPI's lines about the statements that
 * rdma_internal.store() runs, which are the outermost of its context, and with the row.
 */
__attribute__((noreturn)) static void
raise_without_statements(Incoming *in, MemoryContext caller)
{
	StringInfoData context;
	ErrorData  *error;
	ListCell   *lc;

	MemoryContextSwitchTo(caller);
	error = CopyErrorData();
	FlushErrorState();
	foreach(lc, in->statements)
	{
		if (!cut_line(error->context, psprintf(_("SQL statement \"%s\""), (char *) lfirst(lc))))
			break;
	}
	initStringInfo(&context);
	if (error->context && error->context[0] != '\0')
		appendStringInfo(&context, "%s\n", error->context);
	if (in->ctid)
		appendStringInfo(&context, "row (%u,%u) of \"%s\"\n",
						 ItemPointerGetBlockNumberNoCheck(in->ctid),
						 ItemPointerGetOffsetNumberNoCheck(in->ctid), in->relation);
	if (in->row > 0)
		appendStringInfo(&context, RF_STORE_ROW_CONTEXT "\n", (unsigned long long) in->row);
	error->context = context.len > 0 ? pnstrdup(context.data, context.len - 1) : NULL;
	ReThrowError(error);
}

/*
 * rdma_internal.store(): runs the INSERT, UPDATE or DELETE of a writing node. Its rows come with
 * the request or over a flow; the statement reads them through rdma_internal.receive().
 */
Datum
rdma_store(PG_FUNCTION_ARGS)
{
	Incoming	in = {0};
	RfStreamColumn *columns;
	MemoryContext caller = CurrentMemoryContext;
	const char *command;
	char	   *row_types;
	bytea	   *answer;
	RfRole		before;
	bool		as_owner;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		bad_request("Request, relation and columns must not be NULL.");
	in.request = read_request(PG_GETARG_BYTEA_PP(0), &columns);
	if (in.request->column_count == 0)
		bad_request("It has no columns.");
	if (in.request->column_count == in.request->place_count ? in.request->flags == RF_STORE_UPDATE :
		in.request->flags == RF_STORE_DELETE)
		bad_request("Its number of columns does not fit its flags.");
	command = in.request->flags == RF_STORE_UPDATE ? "UPDATE" :
		in.request->flags == RF_STORE_DELETE ? "DELETE" :
		"INSERT";
	/* said before the lock below is refused, which a standby does with another error */
	PreventCommandIfReadOnly(command);
	PreventCommandIfParallelMode(command);
	in.number = ++last_number;
	in.relation = NameListToQuotedString(relation_name(text_to_cstring(PG_GETARG_TEXT_PP(1))));
	in.conflict = PG_ARGISNULL(4) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(4));
	if ((in.conflict != NULL) != (in.request->flags == RF_STORE_ON_CONFLICT))
		bad_request("Its flags do not fit its ON CONFLICT.");
	in.batch = PG_ARGISNULL(3) ? NULL : PG_GETARG_BYTEA_PP(3);
	in.receive = LookupFuncName(list_make2(makeString("rdma_internal"), makeString("receive")), 0,
								NULL,
								false);
	in.reply.wire_version = RF_WIRE_VERSION;
	as_owner = rf_owner_begin_if_set(&before);
	if (as_owner && in.conflict != NULL)
		bad_request("Rows that are stored as their table's owner have no ON CONFLICT.");
	row_types = describe_rows(&in, columns, PG_GETARG_ARRAYTYPE_P(2));

	SPI_connect();
	in.outer = incoming;
	incoming = &in;
	PG_TRY();
	{
		in.reply.written = writes_by_ctid(&in) ?
			rf_store_by_ctid(in.relation, in.wanted, in.request->place_count, row_types,
							 in.request->flags == RF_STORE_DELETE, &in.statements) :
			insert_rows(&in, row_types);
	}
	PG_CATCH();
	{
		incoming = in.outer;
		raise_without_statements(&in, caller);
	}
	PG_END_TRY();
	incoming = in.outer;
	SPI_finish();
	if (as_owner)
		rf_role_end(&before);

	answer = palloc(VARHDRSZ + sizeof(RfStoreReply));
	SET_VARSIZE(answer, VARHDRSZ + sizeof(RfStoreReply));
	memcpy(VARDATA(answer), &in.reply, sizeof(RfStoreReply));
	PG_RETURN_BYTEA_P(answer);
}
