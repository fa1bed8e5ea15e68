/*
 * node_set.c - the exchanges of a session's next statement, and the functions that set them up.
 *
 * The coordinator calls these functions through its sessions, inside the transaction that will run
 * the statement: rdma_internal.exchange_connect() for pairs of nodes that are not connected yet,
 * then rdma_internal.exchange_listen() on every node, then, with all their answers merged,
 * rdma_internal.exchange_open() on every node. The result is the session's set: the next statement
 * that contains rdma_internal.exchange() takes it, and it ends with that statement, or with the
 * transaction.
 *
 * Does: check descriptions, make the flows, count. Does not: plan or run anything.
 */
#include "node.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"
#include "base/result_row.h"
#include "shmem/peer_table.h"

PG_FUNCTION_INFO_V1(rdma_exchange_greet);
PG_FUNCTION_INFO_V1(rdma_exchange_connect);
PG_FUNCTION_INFO_V1(rdma_exchange_listen);
PG_FUNCTION_INFO_V1(rdma_exchange_open);
PG_FUNCTION_INFO_V1(rdma_exchange_stats);

ExchangeSet *rf_exchange_set = NULL;

/* The counters of the session's last set, for rdma_internal.exchange_stats(). */
static ExchangeCounters last_counters[EXCHANGE_MAX];
static int	last_count = 0;

__attribute__((noreturn)) static void
bad_setup(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("invalid set-up of an exchange"),
			 errdetail_internal("%s", problem),
			 errhint("These functions are called by rdma_fdw of a coordinator, not by users.")));
}

static bytea *
to_bytea(const void *data, size_t length)
{
	bytea	   *result = palloc(VARHDRSZ + length);

	SET_VARSIZE(result, VARHDRSZ + length);
	memcpy(VARDATA(result), data, length);
	return result;
}

/* ---------- life of the set ---------- */

static void
publish_counters(ExchangeSet *set)
{
	for (int i = 0; i < last_count; i++)
	{
		if (last_counters[i].process_rows != NULL)
			pfree(last_counters[i].process_rows);
		if (last_counters[i].taken_rows != NULL)
			pfree(last_counters[i].taken_rows);
	}
	last_count = 0;
	for (; last_count < set->count; last_count++)
	{
		ExchangeCounters *last = &last_counters[last_count];

		*last = set->members[last_count].counters;
		if (last->process_rows != NULL)
			last->process_rows = MemoryContextStrdup(TopMemoryContext, last->process_rows);
		if (last->taken_rows != NULL)
			last->taken_rows = MemoryContextStrdup(TopMemoryContext, last->taken_rows);
	}
}

static void
close_set(void)
{
	ExchangeSet *set = rf_exchange_set;

	rf_exchange_set = NULL;
	rf_statement_workers = RF_WORKERS_UNKNOWN;
	if (set == NULL)
		return;
	for (int i = 0; i < set->count; i++)
	{
		if (set->members[i].in != NULL)
			rf_group_close(set->members[i].in);
		if (set->members[i].out != NULL)
			rf_group_close(set->members[i].out);
	}
	MemoryContextDelete(set->context);
}

/* The flows go with the transaction's resource owner, the memory with its context. */
static void
transaction_over(XactEvent event, void *argument)
{
	if (event != XACT_EVENT_ABORT && event != XACT_EVENT_COMMIT && event != XACT_EVENT_PREPARE)
		return;
	rf_exchange_set = NULL;
	rf_statement_workers = RF_WORKERS_UNKNOWN;
}

/*
 * The set ends with the subtransaction in which it was made, or in which the statement that uses it
 * runs: that statement has failed and its plan nodes are gone. A subtransaction of a function that
 * the statement calls does not end it.
 */
static void
subtransaction_over(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
					void *argument)
{
	ExchangeSet *set = rf_exchange_set;

	if (set == NULL)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB &&
		(set->subid == mine || (set->estate != NULL && set->taken_subid == mine)))
		close_set();
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		if (set->subid == mine)
			set->subid = parent;
		if (set->taken_subid == mine)
			set->taken_subid = parent;
	}
}

/*
 * Makes the session's set for the exchanges of its next statement; an unused earlier set is closed.
 * ERROR if a running statement still has one.
 */
static ExchangeSet *
new_set(int count)
{
	static bool registered = false;
	MemoryContext context;

	if (!registered)
	{
		RegisterXactCallback(transaction_over, NULL);
		RegisterSubXactCallback(subtransaction_over, NULL);
		registered = true;
	}
	if (rf_exchange_set != NULL && rf_exchange_set->estate != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("a statement of this session still uses its exchanges"),
				 errhint("Close the cursor that runs it.")));
	close_set();
	context = AllocSetContextCreate(TopTransactionContext, "rdma_fdw exchanges",
									ALLOCSET_DEFAULT_SIZES);
	rf_exchange_set = MemoryContextAllocZero(context,
											 offsetof(ExchangeSet,
													  members) + count * sizeof(ExchangeMember));
	rf_exchange_set->context = context;
	rf_exchange_set->count = count;
	rf_exchange_set->subid = GetCurrentSubTransactionId();
	return rf_exchange_set;
}

/* The member for the exchange of a plan node, in the set that is then that statement's. */
static ExchangeMember *
member_of(const ExchangeState *state, EState *estate)
{
	int			number = state->spec->number;

	if (rf_exchange_set == NULL || !rf_exchange_set->opened || number > rf_exchange_set->count)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("exchange %d is not set up in this session",
						number),
				 errhint("rdma_internal.exchange is part of the statements that a coordinator "
						 "sends to all nodes of a distributed query: "
						 "query a foreign table of a server with option \"nodes\" instead.")));
	if (rf_exchange_set->estate == NULL)
	{
		rf_exchange_set->estate = estate;
		rf_exchange_set->taken_subid = GetCurrentSubTransactionId();
	}
	else if (rf_exchange_set->estate != estate && rf_exchange_set->starting == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("exchange %d is used by another statement of this session", number)));
	return &rf_exchange_set->members[number - 1];
}

ExchangeMember *
rf_exchange_take(ExchangeState *state, EState *estate)
{
	ExchangeMember *member = member_of(state, estate);

	if (member->state != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("exchange %d is in the statement twice", state->spec->number)));
	member->state = state;
	state->set = rf_exchange_set;
	if (member->consumer >= 0)
		rf_exchange_set->unread++;
	return member;
}

void
rf_exchange_join(ExchangeState *state, EState *estate)
{
	ExchangeMember *member = member_of(state, estate);
	MemoryContext caller = MemoryContextSwitchTo(rf_exchange_set->context);

	member->readers = lappend(member->readers, state);
	MemoryContextSwitchTo(caller);
}

void
rf_exchange_give_back(ExchangeMember *member)
{
	ExchangeSet *set = rf_exchange_set;

	member->state = NULL;
	for (int i = 0; i < set->count; i++)
	{
		if (set->members[i].state != NULL)
			return;
	}
	publish_counters(set);
	close_set();
}

/* ---------- arguments ---------- */

static Datum *
group_argument(ArrayType *array, int *count)
{
	Datum	   *elements;
	bool	   *nulls;

	if (ARR_NDIM(array) > 1)
		bad_setup("The groups are not a list.");
	deconstruct_array(array, BYTEAOID, -1, false, TYPALIGN_INT, &elements, &nulls, count);
	if (*count < 1 || *count > EXCHANGE_MAX)
		bad_setup("The number of groups is zero or too large.");
	for (int i = 0; i < *count; i++)
	{
		if (nulls[i])
			bad_setup("A group is NULL.");
	}
	return elements;
}

/* Adds a name to the list, unless the list has it. */
static void
add_name(char *names, size_t size, const char *name)
{
	if (strstr(names, name) != NULL)
		return;
	if (names[0] != '\0')
		strlcat(names, ",", size);
	strlcat(names, name, size);
}

/* The transport and encryption of the connections with the other members, each combination once. */
static void
name_connections(ExchangeMember *member)
{
	ExchangeCounters *counters = &member->counters;

	for (int side = 0; side < 2; side++)
	{
		RfFlowRole	role = side == 0 ? RF_FLOW_CONSUMER : RF_FLOW_PRODUCER;
		int			own = side == 0 ? member->consumer : member->producer;
		uint32		count = side == 0 ? member->desc->consumers : member->desc->producers;

		for (uint32 i = 0; i < count && (side == 0 ? member->out : member->in) != NULL; i++)
		{
			int			peer = (int) i == own ? RF_NO_PEER :
				rf_peer_find(rf_group_desc_node(member->desc, role, i), side == 0);

			if (peer == RF_NO_PEER)
				continue;
			add_name(counters->transport, sizeof(counters->transport),
					 rf_shared->peers[peer].transport);
			add_name(counters->encryption, sizeof(counters->encryption),
					 rf_shared->peers[peer].encryption);
		}
	}
}

/* How many of the statement's nodes are on this machine: the nodes that shared memory connects. */
static int
nodes_here(const ExchangeSet *set)
{
	int			most = 1;

	for (int i = 0; i < set->count; i++)
	{
		const RfGroupDesc *desc = set->members[i].desc;

		for (int side = 0; side < 2; side++)
		{
			RfFlowRole	role = side == 0 ? RF_FLOW_CONSUMER : RF_FLOW_PRODUCER;
			int			own = side == 0 ? set->members[i].consumer : set->members[i].producer;
			int			count = 0;

			for (uint32 place = 0; place < (side == 0 ? desc->consumers : desc->producers); place++)
			{
				const RfNodeId *node = rf_group_desc_node(desc, role, place);
				int			peer = (int) place == own ? RF_NO_PEER : rf_peer_find(node, side == 0);

				count += (int) place == own ||
					(peer != RF_NO_PEER && strcmp(rf_shared->peers[peer].transport, "shm") == 0);
			}
			most = Max(most, count);
		}
	}
	return most;
}

static RfGroupDesc *
parse_group(Datum element)
{
	bytea	   *bytes = DatumGetByteaPP(element);
	RfGroupDesc *desc = rf_group_desc_parse(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));

	if (desc->kind != RF_GROUP_REPARTITION)
		bad_setup("A group's flows are not of the repartitioning kind.");
	return desc;
}

/* This session's place in the i-th of `count` groups, or -1. */
static int
place_argument(FunctionCallInfo fcinfo, int argument, int i, int count, int members, int otherwise)
{
	int			place = otherwise;

	if (!PG_ARGISNULL(argument))
	{
		Datum	   *elements;
		bool	   *nulls;
		int			given;

		deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), INT4OID, 4, true, TYPALIGN_INT,
						  &elements, &nulls, &given);
		if (given != count)
			bad_setup("There is not one place for each group.");
		place = nulls[i] ? -1 : DatumGetInt32(elements[i]);
	}
	if (place < -1 || place >= members)
		bad_setup("The member is not in a group.");
	return place;
}

static Datum
groups_result(ExchangeSet *set)
{
	Datum	   *elements = palloc(set->count * sizeof(Datum));

	for (int i = 0; i < set->count; i++)
		elements[i] = PointerGetDatum(to_bytea(set->members[i].desc, set->members[i].desc->length));
	return PointerGetDatum(construct_array(elements, set->count, BYTEAOID, -1, false,
										   TYPALIGN_INT));
}

/* ---------- functions ---------- */

/* exchange_greet() bytea: the argument for rdma_internal.hello() on another node */
Datum
rdma_exchange_greet(PG_FUNCTION_ARGS)
{
	RfHelloRequest request;

	rf_group_greet(&request);
	PG_RETURN_BYTEA_P(to_bytea(&request, sizeof(request)));
}

/*
 * exchange_connect(host text, hello bytea): connects this node's engine with the engine that sent
 * hello
 */
Datum
rdma_exchange_connect(PG_FUNCTION_ARGS)
{
	char	   *host = text_to_cstring(PG_GETARG_TEXT_PP(0));
	bytea	   *hello = PG_GETARG_BYTEA_PP(1);
	RfHelloReply reply;

	(void) rf_group_connect(host, VARDATA_ANY(hello), VARSIZE_ANY_EXHDR(hello),
							rf_exchange_host_allowed);
	memcpy(&reply, VARDATA_ANY(hello), sizeof(reply));
	if (reply.encoding != GetDatabaseEncoding())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the database on node \"%s\" has another encoding than this one's %s",
						host, GetDatabaseEncodingName()),
				 errhint("Databases that exchange rows must have the same encoding.")));
	PG_RETURN_VOID();
}

/*
 * exchange_listen(member integer, groups bytea[], producers integer[], consumers integer[])
 * bytea[]: the groups with this session's addresses. Without the arrays the member is producer and
 * consumer `member` of all groups.
 */
Datum
rdma_exchange_listen(PG_FUNCTION_ARGS)
{
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext caller = CurrentMemoryContext;
	Datum	   *groups;
	int			count;
	ExchangeSet *set;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		bad_setup("Member and groups must not be NULL.");
	groups = group_argument(PG_GETARG_ARRAYTYPE_P(1), &count);
	set = new_set(count);
	set->member = PG_GETARG_INT32(0);
	MemoryContextSwitchTo(set->context);
	for (int i = 0; i < count; i++)
	{
		ExchangeMember *member = &set->members[i];

		member->desc = parse_group(groups[i]);
		member->producer = place_argument(fcinfo, 2, i, count, member->desc->producers,
										  set->member);
		member->consumer = place_argument(fcinfo, 3, i, count, member->desc->consumers,
										  set->member);
	}
	CurrentResourceOwner = TopTransactionResourceOwner;
	for (int i = 0; i < count; i++)
	{
		ExchangeMember *member = &set->members[i];

		if (member->consumer < 0)
			continue;
		member->in = rf_group_listen(member->desc, member->consumer, member->producer);
		/* the other members open at once, or their coordinator does not mean it */
		rf_group_lend_for(member->in, atomic_load(&rf_shared->invited_ms));
	}
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(caller);
	PG_RETURN_DATUM(groups_result(set));
}

/*
 * exchange_open(member integer, groups bytea[]): all members listen, and these are their addresses
 */
Datum
rdma_exchange_open(PG_FUNCTION_ARGS)
{
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext caller = CurrentMemoryContext;
	ExchangeSet *set = rf_exchange_set;
	Datum	   *groups;
	int			count;
	RfError		error;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		bad_setup("Member and groups must not be NULL.");
	groups = group_argument(PG_GETARG_ARRAYTYPE_P(1), &count);
	if (set == NULL || set->opened || set->count != count || set->member != PG_GETARG_INT32(0))
		bad_setup("This session does not listen for these groups.");
	for (int i = 0; i < count; i++)
	{
		if (set->members[i].in != NULL)
			rf_group_require_lent(set->members[i].in);
	}
	MemoryContextSwitchTo(set->context);
	CurrentResourceOwner = TopTransactionResourceOwner;
	for (int i = 0; i < count; i++)
	{
		ExchangeMember *member = &set->members[i];
		RfGroupDesc *merged = parse_group(groups[i]);

		if (!rf_group_desc_merge(member->desc, merged, &error))
			rf_raise(&error, RF_NO_PEER);
		for (uint32 consumer = 0; consumer < member->desc->consumers &&
			 member->producer >= 0; consumer++)
		{
			if ((int) consumer != member->consumer &&
				!rf_group_desc_pair(member->desc, member->producer, consumer)->known)
				bad_setup("A consumer of a group does not listen yet.");
		}
		pfree(merged);
		if (member->producer >= 0)
			member->out = rf_group_open_begin(member->desc, member->producer, member->consumer);
	}
	/* the engines open all of them meanwhile */
	for (int i = 0; i < count; i++)
	{
		if (set->members[i].out != NULL)
			rf_group_open_end(set->members[i].out);
		name_connections(&set->members[i]);
	}
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(caller);
	set->opened = true;
	rf_statement_workers = rf_workers_allowed(nodes_here(set));
	PG_RETURN_VOID();
}

/* exchange_stats() setof record: counters of the session's last exchanges */
Datum
rdma_exchange_stats(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < last_count; i++)
	{
		const ExchangeCounters *counters = &last_counters[i];

		rf_put_int(&row, i + 1);
		rf_put_number(&row, counters->rows_out);
		rf_put_number(&row, counters->bytes_out);
		rf_put_number(&row, counters->rows_in);
		rf_put_number(&row, counters->bytes_in);
		rf_put_number(&row, counters->rows_local);
		rf_put_number(&row, counters->stalls);
		rf_put_number(&row, counters->spilled_bytes);
		rf_put(&row, CStringGetTextDatum(counters->transport));
		rf_put_text(&row, counters->process_rows);
		rf_put(&row, CStringGetTextDatum(counters->encryption));
		rf_put_number(&row, counters->rows_filtered);
		rf_put_text(&row, counters->taken_rows);
		rf_end_row(&row);
	}
	return (Datum) 0;
}
