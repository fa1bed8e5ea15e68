/*
 * flow_kinds_test.c - members of a group of flows as SQL functions, for test/t/072_flow_kinds.pl,
 * and a member of several groups that sends any bytes, for test/t/085_exchange.pl.
 *
 * A producer sends batches whose content names their sender and their number; a consumer checks
 * every byte and answers with figures that make losses, duplicates and disorder visible: counts,
 * sums that do not depend on the order, and a hash that does. Nothing here is timed, except a
 * consumer that is told to be slow.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "rdma_fdw/group.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(kinds_greet);
PG_FUNCTION_INFO_V1(kinds_connect);
PG_FUNCTION_INFO_V1(kinds_make);
PG_FUNCTION_INFO_V1(kinds_merge);
PG_FUNCTION_INFO_V1(kinds_extend);
PG_FUNCTION_INFO_V1(kinds_listen);
PG_FUNCTION_INFO_V1(kinds_open);
PG_FUNCTION_INFO_V1(kinds_join);
PG_FUNCTION_INFO_V1(kinds_produce);
PG_FUNCTION_INFO_V1(kinds_consume);
PG_FUNCTION_INFO_V1(kinds_expected);
PG_FUNCTION_INFO_V1(kinds_exchange);
PG_FUNCTION_INFO_V1(kinds_listen_all);
PG_FUNCTION_INFO_V1(kinds_lie);

/* The member that this session is, from listen or open to the end of the transaction. */
static RfGroup *group = NULL;
static RfGroupDesc *group_desc = NULL;

static void
forget_group(XactEvent event, void *argument)
{
	group = NULL;
}

/* The start of every part of a batch. */
typedef struct TestPart
{
	uint32		producer;
	uint32		part;			/* of the batch */
	uint64		batch;			/* of the producer */
	uint32		parts;
	uint32		consumer;		/* repartition: its receiver */
} TestPart;

static bytea *
to_bytea(const void *data, size_t length)
{
	bytea	   *result = palloc(VARHDRSZ + length);

	SET_VARSIZE(result, VARHDRSZ + length);
	memcpy(VARDATA(result), data, length);
	return result;
}

static RfGroupDesc *
desc_argument(FunctionCallInfo fcinfo, int n)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(n);

	return rf_group_desc_parse(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
}

static RfNodeId
node_argument(bytea * greeting)
{
	RfHelloRequest request;

	if (VARSIZE_ANY_EXHDR(greeting) != sizeof(request))
		elog(ERROR, "not a greeting");
	memcpy(&request, VARDATA_ANY(greeting), sizeof(request));
	return request.node;
}

/* greet() bytea: names this node, in the form that rdma_internal.hello() elsewhere takes */
Datum
kinds_greet(PG_FUNCTION_ARGS)
{
	RfHelloRequest request;

	rf_group_greet(&request);
	PG_RETURN_BYTEA_P(to_bytea(&request, sizeof(request)));
}

/* connect(host text, hello bytea) integer */
Datum
kinds_connect(PG_FUNCTION_ARGS)
{
	bytea	   *hello = PG_GETARG_BYTEA_PP(1);

	PG_RETURN_INT32(rf_group_connect(text_to_cstring(PG_GETARG_TEXT_PP(0)), VARDATA_ANY(hello),
									 VARSIZE_ANY_EXHDR(hello), NULL));
}

/*
 * make(kind integer, producers bytea[], consumers bytea[], slots integer, slot_size integer) bytea;
 * members by their nodes' greetings
 */
Datum
kinds_make(PG_FUNCTION_ARGS)
{
	RfNodeId	nodes[2 * RF_GROUP_MAX_MEMBERS];
	int			counts[2];
	int			count = 0;
	RfGroupShape shape;
	RfGroupDesc *desc;

	for (int side = 0; side < 2; side++)
	{
		Datum	   *elements;

		deconstruct_array(PG_GETARG_ARRAYTYPE_P(1 + side), BYTEAOID, -1, false, TYPALIGN_INT,
						  &elements, NULL, &counts[side]);
		for (int i = 0; i < counts[side] && count < (int) lengthof(nodes); i++)
			nodes[count++] = node_argument(DatumGetByteaPP(elements[i]));
	}
	shape = (RfGroupShape)
	{
		PG_GETARG_INT32(0), counts[0], counts[1], PG_GETARG_INT32(3), PG_GETARG_INT32(4)
	};
	desc = rf_group_desc_make(&shape, nodes);
	PG_RETURN_BYTEA_P(to_bytea(desc, desc->length));
}

/* merge(bytea, bytea) bytea */
Datum
kinds_merge(PG_FUNCTION_ARGS)
{
	RfGroupDesc *desc = desc_argument(fcinfo, 0);
	RfError		error;

	if (!rf_group_desc_merge(desc, desc_argument(fcinfo, 1), &error))
		elog(ERROR, "%s", error.message);
	PG_RETURN_BYTEA_P(to_bytea(desc, desc->length));
}

/* extend(desc bytea, producer boolean, greeting bytea) bytea: one member more */
Datum
kinds_extend(PG_FUNCTION_ARGS)
{
	RfGroupDesc *desc = desc_argument(fcinfo, 0);
	RfNodeId	node = node_argument(PG_GETARG_BYTEA_PP(2));
	bool		producer = PG_GETARG_BOOL(1);
	RfGroupDesc *bigger = palloc0(desc->length + RF_GROUP_MAX_MEMBERS * 2 * sizeof(RfNodeId));
	RfError		error;

	if (!rf_group_desc_extend(bigger, desc, producer ? RF_FLOW_PRODUCER : RF_FLOW_CONSUMER, &node,
							  &error))
		elog(ERROR, "%s", error.message);
	PG_RETURN_BYTEA_P(to_bytea(bigger, bigger->length));
}

/* Become a member until the end of the transaction. */
static RfGroupDesc *
become(FunctionCallInfo fcinfo, bool listen)
{
	static bool registered = false;
	MemoryContext context = MemoryContextSwitchTo(TopTransactionContext);
	ResourceOwner owner = CurrentResourceOwner;

	if (!registered)
		RegisterXactCallback(forget_group, NULL);
	registered = true;
	CurrentResourceOwner = TopTransactionResourceOwner;
	group_desc = desc_argument(fcinfo, 0);
	group = listen ? rf_group_listen(group_desc, PG_GETARG_INT32(1), RF_GROUP_ANY) :
		rf_group_open_begin(group_desc, PG_GETARG_INT32(1), RF_GROUP_ANY);
	if (!listen)
		rf_group_open_end(group);
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(context);
	return group_desc;
}

/* listen(desc bytea, consumer integer) bytea: the description with this consumer's addresses */
Datum
kinds_listen(PG_FUNCTION_ARGS)
{
	RfGroupDesc *desc = become(fcinfo, true);

	PG_RETURN_BYTEA_P(to_bytea(desc, desc->length));
}

/* open(desc bytea, producer integer) */
Datum
kinds_open(PG_FUNCTION_ARGS)
{
	(void) become(fcinfo, false);
	PG_RETURN_VOID();
}

/* join(desc bytea) bytea: the group has grown */
Datum
kinds_join(PG_FUNCTION_ARGS)
{
	RfGroupDesc *desc;
	ResourceOwner owner = CurrentResourceOwner;

	if (group == NULL)
		elog(ERROR, "not a member");
	desc = desc_argument(fcinfo, 0);
	CurrentResourceOwner = TopTransactionResourceOwner;
	rf_group_join(group, desc);
	CurrentResourceOwner = owner;
	PG_RETURN_BYTEA_P(to_bytea(desc, desc->length));
}

/* ---------- as polling does, but waiting ---------- */

/* False: no consumer wants more. */
static bool
acquire(int consumer, RfGroupBuffer *buffer)
{
	RfAcquire	result;

	while ((result = rf_group_try_acquire(group, consumer, buffer)) == RF_ACQUIRE_FULL)
		(void) rf_groups_wait(&group, 1, PGINVALID_SOCKET, -1);
	return result == RF_ACQUIRED;
}

/* False: all consumers stopped. */
static bool
finish(void)
{
	RfAcquire	result;

	while ((result = rf_group_try_finish(group)) == RF_ACQUIRE_FULL)
		(void) rf_groups_wait(&group, 1, PGINVALID_SOCKET, -1);
	return result == RF_ACQUIRED;
}

/* False: the end. */
static bool
read_part(RfGroupBuffer *buffer)
{
	RfFlowPoll	result;

	while ((result = rf_group_poll(group, buffer)) == RF_POLL_EMPTY)
		(void) rf_groups_wait(&group, 1, PGINVALID_SOCKET, -1);
	return result == RF_POLL_BUFFER;
}

/* ---------- the contents of batches ---------- */

static uint64
mix(uint64 hash, uint64 value)
{
	hash ^= value + UINT64CONST(0x9E3779B97F4A7C15) + (hash << 6) + (hash >> 2);
	return hash * UINT64CONST(1099511628211);
}

/*
 * expected(producers integer, batches bigint) bigint: the sum of all batches that so many producers
 * send
 */
Datum
kinds_expected(PG_FUNCTION_ARGS)
{
	uint64		sum = 0;

	for (int producer = 0; producer < PG_GETARG_INT32(0); producer++)
		for (uint64 batch = 0; batch < PG_GETARG_INT64(1); batch++)
			sum += mix(producer, batch);
	PG_RETURN_INT64((int64) sum);
}

static uint8
filling(const TestPart *part)
{
	return (uint8) (part->producer * 31 + part->batch * 7 + part->part);
}

/*
 * produce(producer integer, consumers integer, first bigint, batches bigint, bytes integer, finish
 * boolean) text: batches number `first` and on; every seventh batch has up to three parts.
 * Repartition: to consumer hash(batch) mod consumers, without waiting for one while other consumers
 * have room. Answers "finished" or "stopped", and how many batches were handed over.
 */
Datum
kinds_produce(PG_FUNCTION_ARGS)
{
	uint32		producer = PG_GETARG_INT32(0);
	int			consumers = PG_GETARG_INT32(1);
	uint64		first = PG_GETARG_INT64(2);
	uint64		batches = PG_GETARG_INT64(3);
	uint32		bytes = PG_GETARG_INT32(4);
	uint64		sent = 0;
	bool		stopped = false;
	bool		keyed;
	uint64	   *next;			/* per destination, the batch it looks at next */
	int			destinations;
	int			open;

	if (group == NULL)
		elog(ERROR, "not a member");
	keyed = group_desc->kind == RF_GROUP_REPARTITION;
	destinations = keyed ? consumers : 1;
	next = palloc(destinations * sizeof(uint64));
	for (int i = 0; i < destinations; i++)
		next[i] = first;

	for (open = destinations; open > 0;)
	{
		bool		moved = false;

		for (int to = 0; to < destinations; to++)
		{
			RfGroupBuffer buffer;
			TestPart	part = {.producer = producer,.consumer = to};
			RfAcquire	result = RF_ACQUIRED;

			if (next[to] == PG_UINT64_MAX)
				continue;
			while (keyed && next[to] < first + batches && mix(producer, next[to]) % consumers != to)
				next[to]++;
			if (next[to] >= first + batches)
			{
				next[to] = PG_UINT64_MAX;
				open--;
				moved = true;
				continue;
			}
			part.batch = next[to];
			part.parts = part.batch % 7 == 3 ? 1 + part.batch % 3 : 1;
			for (part.part = 0; part.part < part.parts && result == RF_ACQUIRED; part.part++)
			{
				uint32		flags = (part.part == 0 ?
									 RF_SLOT_FIRST : 0) | (part.part + 1 == part.parts ?
														   RF_SLOT_LAST : 0);
				uint32		length;

				CHECK_FOR_INTERRUPTS();
				/* Once a batch has begun, its rest waits. */
				if (part.part == 0)
					result = rf_group_try_acquire(group, keyed ? to : RF_GROUP_ANY, &buffer);
				else if (!acquire(keyed ? to : RF_GROUP_ANY, &buffer))
					result = RF_ACQUIRE_STOPPED;
				if (result != RF_ACQUIRED)
					break;
				length = Max(Min(bytes, buffer.buffer.length) - (uint32) (part.batch % 100),
							 sizeof(part));
				memset(buffer.buffer.data + sizeof(part), filling(&part), length - sizeof(part));
				memcpy(buffer.buffer.data, &part, sizeof(part));
				rf_group_submit(group, &buffer, length, flags, flags & RF_SLOT_LAST ? 1 : 0);
			}
			if (result == RF_ACQUIRED)
			{
				next[to]++;
				sent++;
				moved = true;
			}
			else if (result == RF_ACQUIRE_STOPPED)
			{
				next[to] = PG_UINT64_MAX;
				stopped = moved = true;
				open--;
			}
		}
		if (!moved)
			(void) rf_groups_wait(&group, 1, PGINVALID_SOCKET, -1);
	}

	if (PG_GETARG_BOOL(5))
	{
		stopped = !finish() || stopped;
		rf_group_close(group);
	}
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s " UINT64_FORMAT, stopped ? "stopped" : "finished",
											  sent)));
}

/* A consumer's account. */
typedef struct Tally
{
	int64		batches;
	uint64		sum;
	uint64		hash;
	Datum		counts[RF_GROUP_MAX_MEMBERS];
	TestPart	before;
} Tally;

/* Check a part; true when a batch ends with it. */
static bool
tally_part(Tally *tally, const RfGroupBuffer *buffer, RfGroupKind kind, uint32 consumer)
{
	TestPart	part;
	uint32		flags = buffer->buffer.flags;

	if (buffer->buffer.length < sizeof(part))
		elog(ERROR, "a part is too short");
	memcpy(&part, buffer->buffer.data, sizeof(part));
	if (part.producer != buffer->member || part.part >= part.parts ||
		((flags & RF_SLOT_FIRST) != 0) != (part.part == 0) ||
		((flags & RF_SLOT_LAST) != 0) != (part.part + 1 == part.parts))
		elog(ERROR, "a part is not what its flags say");
	if (part.part > 0 && (part.producer != tally->before.producer ||
						  part.batch != tally->before.batch ||
						  part.part != tally->before.part + 1))
		elog(ERROR, "a batch is torn apart");
	if (kind == RF_GROUP_REPARTITION && part.consumer != consumer)
		elog(ERROR, "a batch came to the wrong consumer");
	for (uint32 i = sizeof(part); i < buffer->buffer.length; i++)
		if (buffer->buffer.data[i] != filling(&part))
			elog(ERROR, "a batch has wrong bytes");
	tally->before = part;
	if ((flags & RF_SLOT_LAST) == 0)
		return false;
	tally->sum += mix(part.producer, part.batch);
	tally->hash = mix(mix(tally->hash, part.producer), part.batch);
	tally->counts[part.producer]++;
	tally->batches++;
	return true;
}

static Datum
tally_row(FunctionCallInfo fcinfo, Tally *tally, const char *how, int producers)
{
	TupleDesc	tupdesc;
	Datum		values[5];
	bool		nulls[5] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = CStringGetTextDatum(how);
	values[1] = Int64GetDatum(tally->batches);
	values[2] = Int64GetDatum((int64) tally->sum);
	values[3] = Int64GetDatum((int64) tally->hash);
	values[4] = PointerGetDatum(construct_array(tally->counts, producers, INT8OID, 8,
												FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * consume(desc bytea, consumer integer, stop_after bigint, leave_after bigint, pause_us integer,
 * pause_after bigint) returns (how, batches, sum, hash, per_producer bigint[]): read to the end;
 * sum does not depend on the order of batches, hash does. pause_us per batch; pause_after: return
 * after so many batches and stay a member.
 */
Datum
kinds_consume(PG_FUNCTION_ARGS)
{
	RfGroupDesc *desc = desc_argument(fcinfo, 0);
	uint32		consumer = PG_GETARG_INT32(1);
	int64		stop_after = PG_GETARG_INT64(2);
	int64		leave_after = PG_GETARG_INT64(3);
	int			pause_us = PG_GETARG_INT32(4);
	int64		pause_after = PG_GETARG_INT64(5);
	const char *how = "ended";
	Tally		tally = {0};
	RfGroupBuffer buffer;

	if (group == NULL)
		elog(ERROR, "not a member");
	while (read_part(&buffer))
	{
		bool		whole = tally_part(&tally, &buffer, desc->kind, consumer);

		rf_group_release(group, &buffer);
		if (!whole)
			continue;
		if (pause_us > 0)
		{
			/* pg_usleep and not the latch, which batches set all the time. */
			pg_usleep(pause_us);
			CHECK_FOR_INTERRUPTS();
		}
		if (tally.batches == leave_after)
			rf_group_leave(group);
		if (tally.batches == stop_after)
		{
			rf_group_stop(group);
			how = "stopped";
			break;
		}
		if (tally.batches == pause_after)
			PG_RETURN_DATUM(tally_row(fcinfo, &tally, "paused", desc->producers));
	}
	rf_group_close(group);
	PG_RETURN_DATUM(tally_row(fcinfo, &tally, how, desc->producers));
}

/*
 * exchange(desc bytea, member integer, batches bigint, bytes integer) returns the same as consume:
 * producer and consumer of one group in one backend, after listen. Neither may wait for one side
 * while the other could go on.
 */
Datum
kinds_exchange(PG_FUNCTION_ARGS)
{
	RfGroupDesc *desc = desc_argument(fcinfo, 0);
	uint32		member = PG_GETARG_INT32(1);
	uint64		batches = PG_GETARG_INT64(2);
	uint32		bytes = PG_GETARG_INT32(3);
	ResourceOwner owner = CurrentResourceOwner;
	uint64		next = 0;
	bool		finished = false;
	bool		ended = false;
	Tally		tally = {0};
	RfGroup    *both[2];

	if (group == NULL)
		elog(ERROR, "not a member");
	CurrentResourceOwner = TopTransactionResourceOwner;
	both[0] = rf_group_open_begin(desc, member, RF_GROUP_ANY);
	rf_group_open_end(both[0]);
	CurrentResourceOwner = owner;
	both[1] = group;

	while (!finished || !ended)
	{
		bool		moved = false;
		RfGroupBuffer buffer;

		if (next < batches)
		{
			TestPart	part = {.producer = member,.batch = next,.parts = 1};
			bool		keyed = desc->kind == RF_GROUP_REPARTITION;

			part.consumer = keyed ? mix(member, next) % desc->consumers : 0;
			if (rf_group_try_acquire(both[0], keyed ? (int) part.consumer : RF_GROUP_ANY,
									 &buffer) == RF_ACQUIRED)
			{
				uint32		length = Min(bytes, buffer.buffer.length);

				memset(buffer.buffer.data + sizeof(part), filling(&part), length - sizeof(part));
				memcpy(buffer.buffer.data, &part, sizeof(part));
				rf_group_submit(both[0], &buffer, length, RF_SLOT_FIRST | RF_SLOT_LAST, 1);
				next++;
				moved = true;
			}
		}
		else if (!finished)
			moved = finished = rf_group_try_finish(both[0]) != RF_ACQUIRE_FULL;

		if (!ended)
		{
			RfFlowPoll	result = rf_group_poll(group, &buffer);

			if (result == RF_POLL_BUFFER)
			{
				(void) tally_part(&tally, &buffer, desc->kind, member);
				rf_group_release(group, &buffer);
			}
			ended = result == RF_POLL_END;
			moved = moved || result != RF_POLL_EMPTY;
		}
		if (!moved)
			(void) rf_groups_wait(both, 2, PGINVALID_SOCKET, -1);
		CHECK_FOR_INTERRUPTS();
	}
	rf_group_close(both[0]);
	rf_group_close(both[1]);
	PG_RETURN_DATUM(tally_row(fcinfo, &tally, "ended", desc->producers));
}

/* ---------- a member of exchanges that sends given messages ---------- */

#define LIES_MAX	4

/* The group that receives, as `group`. */
static RfGroup *listening[LIES_MAX];

static int
descs_argument(FunctionCallInfo fcinfo, RfGroupDesc **descs)
{
	Datum	   *elements;
	int			count;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), BYTEAOID, -1, false, TYPALIGN_INT, &elements, NULL,
					  &count);
	if (count > LIES_MAX)
		elog(ERROR, "too many groups");
	for (int i = 0; i < count; i++)
	{
		bytea	   *bytes = DatumGetByteaPP(elements[i]);

		descs[i] = rf_group_desc_parse(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	}
	return count;
}

/*
 * listen_all(descs bytea[], member integer) bytea[]: the descriptions with this member's addresses
 */
Datum
kinds_listen_all(PG_FUNCTION_ARGS)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
	ResourceOwner owner = CurrentResourceOwner;
	int			member = PG_GETARG_INT32(1);
	RfGroupDesc *descs[LIES_MAX];
	Datum		filled[LIES_MAX];
	int			count = descs_argument(fcinfo, descs);

	CurrentResourceOwner = TopTransactionResourceOwner;
	for (int i = 0; i < count; i++)
	{
		listening[i] = rf_group_listen(descs[i], member, member);
		filled[i] = PointerGetDatum(to_bytea(descs[i], descs[i]->length));
	}
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(caller);
	PG_RETURN_ARRAYTYPE_P(construct_array(filled, count, BYTEAOID, -1, false, TYPALIGN_INT));
}

/*
 * lie(descs bytea[], member integer, number integer, messages bytea[], part integer): sends these
 * in the places of batches to the first member of one of the groups (from 1), in parts of so many
 * bytes, and nothing else; takes all that comes.
 */
Datum
kinds_lie(PG_FUNCTION_ARGS)
{
	int			member = PG_GETARG_INT32(1);
	int			number = PG_GETARG_INT32(2) - 1;
	uint32		part = PG_GETARG_INT32(4);
	ResourceOwner owner = CurrentResourceOwner;
	RfGroupDesc *descs[LIES_MAX];
	RfGroup    *groups[2 * LIES_MAX];
	bool		over[2 * LIES_MAX] = {false};
	int			count = descs_argument(fcinfo, descs);
	int			left = 2 * count;
	Datum	   *messages;
	int			message_count;
	int			next = 0;
	uint32		sent = 0;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(3), BYTEAOID, -1, false, TYPALIGN_INT, &messages, NULL,
					  &message_count);
	CurrentResourceOwner = TopTransactionResourceOwner;
	for (int i = 0; i < count; i++)
	{
		groups[i] = rf_group_open_begin(descs[i], member, member);
		rf_group_open_end(groups[i]);
		groups[count + i] = listening[i];
	}
	CurrentResourceOwner = owner;
	while (left > 0)
	{
		bool		moved = false;

		for (int i = 0; i < 2 * count; i++)
		{
			RfGroupBuffer buffer;
			RfFlowPoll	result;

			if (over[i])
				continue;
			if (i == number && next < message_count)
			{
				bytea	   *message = DatumGetByteaPP(messages[next]);
				uint32		all = VARSIZE_ANY_EXHDR(message);
				RfAcquire	acquired = rf_group_try_acquire(groups[i], 0, &buffer);

				if (acquired == RF_ACQUIRED)
				{
					uint32		length = Min(Min(part, all - sent), buffer.buffer.length);
					uint32		flags = sent == 0 ? RF_SLOT_FIRST : 0;

					memcpy(buffer.buffer.data, VARDATA_ANY(message) + sent, length);
					sent += length;
					rf_group_submit(groups[i], &buffer, length,
									flags | (sent == all ? RF_SLOT_LAST : 0), 0);
				}
				if (acquired == RF_ACQUIRE_STOPPED || (acquired == RF_ACQUIRED && sent == all))
				{
					next++;
					sent = 0;
				}
				moved |= acquired != RF_ACQUIRE_FULL;
				continue;
			}
			if (i < count)
				over[i] = rf_group_try_finish(groups[i]) != RF_ACQUIRE_FULL;
			else if ((result = rf_group_poll(groups[i], &buffer)) == RF_POLL_BUFFER)
			{
				rf_group_release(groups[i], &buffer);
				moved = true;
			}
			else
				over[i] = result == RF_POLL_END;
			left -= over[i];
			moved |= over[i];
		}
		if (!moved)
			(void) rf_groups_wait(groups, 2 * count, PGINVALID_SOCKET, -1);
		CHECK_FOR_INTERRUPTS();
	}
	for (int i = 0; i < 2 * count; i++)
		rf_group_close(groups[i]);
	PG_RETURN_VOID();
}
