/*
 * form_exchanges.c - prepares a statement on several nodes: connects the engines of all pairs of
 * them, and forms the flow groups of its exchanges. The coordinator does it over its sessions,
 * with one command to all nodes at a time.
 *
 * The nodes' side is rdma_internal.exchange_greet, _connect, _listen and _open. The data of the
 * groups never passes here.
 *
 * When a node has no buffers left, all nodes return theirs and the statement tries again a little
 * later. The first statement to fail frees its buffers for the rest, so of several statements that
 * wait for each other's buffers one can go on. On one coordinator only one statement retries at a
 * time, or all would keep failing each other; statements of several coordinators are separated by
 * their pauses.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/group.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/sql_text.h"

#include "node.h"
#include "shmem/peer_table.h"

#define GREET_SQL	"SELECT rdma_internal.exchange_greet()"
#define HELLO_SQL	\
	"SELECT rdma_internal.hello(g) FROM unnest($1::bytea[]) WITH ORDINALITY AS u(g, n) ORDER BY n"
#define CONNECT_SQL	\
	"SELECT rdma_internal.exchange_connect(h, r) FROM unnest($1::text[], $2::bytea[]) AS u(h, r)"

/*
 * Engines wait only briefly for buffers while groups are formed, because the wait may be futile;
 * afterwards the session's own value is in force again.
 */
#define LISTEN_SQL	\
	"SELECT d, was " \
	"FROM (SELECT pg_catalog.current_setting('rdma_fdw.buffer_wait') AS was OFFSET 0) s, " \
	"pg_catalog.set_config('rdma_fdw.buffer_wait', $3::text, true) AS now, " \
	"LATERAL unnest(rdma_internal.exchange_listen($1::int, $2::bytea[], $4::int[], $5::int[])) " \
	"WITH ORDINALITY AS u(d, n) " \
	"WHERE now IS NOT NULL ORDER BY n"
#define OPEN_SQL	\
	"SELECT pg_catalog.set_config('rdma_fdw.buffer_wait', $3::text, true) " \
	"FROM (SELECT rdma_internal.exchange_open($1::int, $2::bytea[]) OFFSET 0) s"

/* A class of advisory locks that SQL functions cannot take: theirs are 1 and 2. */
#define TURN_LOCK_CLASS	3

/* How often to try if engines lose their connection, or stop while they connect. */
#define CONNECT_TRIES	3

/* Before the n-th attempt. */
#define FIRST_PAUSE_MS	10
#define LONGEST_PAUSE_MS	1000
#define FIRST_BUFFER_WAIT_MS	500

/*
 * Bytes of send buffers that a node has for an exchange: up to nine nodes have the usual megabyte
 * for each other one. Buffers below the least cost more to send than to fill.
 */
#define SEND_MEMORY		(8u << 20)
#define LEAST_BUFFER	(16u << 10)
#define MOST_HALVINGS	2

/* How many flows this session's role may have on its node. */
#define FLOWS_SQL	\
	"SELECT pg_catalog.current_setting('rdma_fdw.max_flows')::int * " \
	"CASE WHEN r.rolsuper THEN 100 " \
	"ELSE pg_catalog.current_setting('rdma_fdw.role_share')::int END / 100 " \
	"FROM pg_catalog.pg_roles r WHERE r.rolname = current_user"

/* Pairs of engines that this backend has connected, or found connected. */
typedef struct Pair
{
	RfNodeId	one;
	RfNodeId	other;
} Pair;

static HTAB *pairs = NULL;

/* Commands on all sessions, and their answers. */
typedef struct Round
{
	int			count;
	RfSession  *const *sessions;
	RfCommand **commands;
	PGresult  **results;
	MemoryContextCallback gone;
} Round;

typedef enum Outcome
{
	DONE,
	NO_BUFFERS,					/* try again later */
	NOT_CONNECTED,				/* a connection was lost, or an attempt vanished */
} Outcome;

/* ---------- rounds ---------- */

static void
clear_results(void *arg)
{
	Round	   *round = arg;

	for (int i = 0; i < round->count; i++)
	{
		PQclear(round->results[i]);
		round->results[i] = NULL;
	}
}

static Round *
new_round(RfSession *const *sessions, int count)
{
	Round	   *round = palloc0(sizeof(Round));

	round->count = count;
	round->sessions = sessions;
	round->commands = palloc0(sizeof(RfCommand *) * count);
	round->results = palloc0(sizeof(PGresult *) * count);
	round->gone.func = clear_results;
	round->gone.arg = round;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &round->gone);
	return round;
}

static void
send_command(Round *round, int i, const char *sql, int param_count, const char *const *values)
{
	round->commands[i] = rf_command_create(round->sessions[i], sql, param_count, false);
	rf_command_send(round->commands[i], values);
}

/* The receiver raises the error. */
static void
raise_result(Round *round, int i)
{
	PGresult   *result = round->results[i];

	round->results[i] = NULL;
	rf_command_raise(round->commands[i], result);
}

/*
 * Receives all answers. Raises an error that a repetition cannot cure; of several errors,
 * preferably an error that does not just report the loss of another node. The first of the other
 * errors goes to *culprit.
 */
static Outcome
receive(Round *round, int *culprit)
{
	Outcome		outcome = DONE;
	int			lost = -1;

	*culprit = -1;
	for (int i = 0; i < round->count; i++)
	{
		if (round->commands[i] != NULL)
			round->results[i] = rf_command_receive(round->commands[i]);
	}
	for (int i = 0; i < round->count; i++)
	{
		PGresult   *result = round->results[i];
		const char *state;

		if (round->commands[i] == NULL || PQresultStatus(result) == PGRES_TUPLES_OK ||
			PQresultStatus(result) == PGRES_COMMAND_OK)
			continue;
		state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
		if (state != NULL && strncmp(state, "53", 2) == 0)
		{
			if (outcome != NO_BUFFERS)
				*culprit = i;
			outcome = NO_BUFFERS;
		}
		else if (state != NULL && strcmp(state, "08003") == 0)
		{
			if (outcome == DONE)
			{
				*culprit = i;
				outcome = NOT_CONNECTED;
			}
		}
		else if (state != NULL && strncmp(state, "08", 2) == 0)
			lost = i;
		else
			raise_result(round, i);
	}
	if (outcome == DONE && lost >= 0)
		raise_result(round, lost);
	return outcome;
}

/* A round in which every error is raised. */
static void
receive_all(Round *round)
{
	int			culprit;

	if (receive(round, &culprit) != DONE)
		raise_result(round, culprit);
}

/* The same command without parameters to all. */
static void
run_on_all(RfSession *const *sessions, int count, const char *sql)
{
	Round	   *round = new_round(sessions, count);

	for (int i = 0; i < count; i++)
		send_command(round, i, sql, 0, NULL);
	receive_all(round);
	clear_results(round);
}

static void
append_bytes(StringInfo array, const void *bytes, size_t length)
{
	appendStringInfoString(array, array->len == 0 ? "{\"\\\\x" : ",\"\\\\x");
	for (size_t i = 0; i < length; i++)
		appendStringInfo(array, "%02x", ((const uint8 *) bytes)[i]);
	appendStringInfoChar(array, '"');
}

/* detail: NULL, or what is wrong */
__attribute__((noreturn)) static void
raise_answer(Round *round, int i, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("server \"%s\" answered the setting up of an exchange with something else",
					rf_session_server_name(round->sessions[i])),
			 detail != NULL ? errdetail_internal("%s.", detail) : 0));
}

static void
expect_rows(Round *round, int i, int rows, int columns)
{
	if (PQntuples(round->results[i]) != rows || PQnfields(round->results[i]) != columns)
		raise_answer(round, i, NULL);
}

/* ---------- pairs that are connected ---------- */

static bool
is_connected(const RfNodeId *one, const RfNodeId *other)
{
	Pair		pair;

	memset(&pair, 0, sizeof(pair));
	pair.one = *one;
	pair.other = *other;
	return pairs != NULL && hash_search(pairs, &pair, HASH_FIND, NULL) != NULL;
}

static void
remember_connected(const RfNodeId *one, const RfNodeId *other)
{
	Pair		pair;

	if (pairs == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(Pair);
		ctl.entrysize = sizeof(Pair);
		pairs = hash_create("rdma_fdw connected nodes", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	memset(&pair, 0, sizeof(pair));
	pair.one = *one;
	pair.other = *other;
	(void) hash_search(pairs, &pair, HASH_ENTER, NULL);
}

static void
forget_connected(void)
{
	if (pairs != NULL)
		hash_destroy(pairs);
	pairs = NULL;
}

/* ---------- attempts ---------- */

/* The exchanges of a statement, and its nodes. */
typedef struct Forming
{
	RfSession  *const *sessions;
	int			count;
	RfNodeId   *nodes;
	const RfExchangeSpec *specs;
	int			spec_count;
	uint64		statement;
	bool		fresh;			/* the sessions' remote transactions have not been used yet */
	int			not_connected;	/* attempts that ended so */
	Round	   *failed;			/* of an attempt that was not DONE, */
	int			culprit;		/* and the member whose result has the reason */
	ErrorData  *error;			/* or the reason, if it was found here */
} Forming;

static void
init_forming(Forming *forming, RfSession *const *sessions, int count)
{
	memset(forming, 0, sizeof(*forming));
	forming->sessions = sessions;
	forming->count = count;
	forming->nodes = palloc(sizeof(RfNodeId) * count);
	forming->fresh = true;
	for (int i = 0; i < count; i++)
	{
		forming->nodes[i] = *rf_session_node(sessions[i]);
		forming->fresh = forming->fresh && rf_session_is_fresh(sessions[i]);
	}
}

/* A failed attempt ends the remote transactions that began with it; older ones have a savepoint. */
static void
begin_attempt(const Forming *forming)
{
	if (!forming->fresh)
		run_on_all(forming->sessions, forming->count, "SAVEPOINT rdma_fdw_exchange");
}

static void
keep_attempt(const Forming *forming)
{
	if (!forming->fresh)
		run_on_all(forming->sessions, forming->count, "RELEASE SAVEPOINT rdma_fdw_exchange");
}

/* Raises the error of the last attempt. */
__attribute__((noreturn)) static void
raise_failure(Forming *forming)
{
	if (forming->error != NULL)
		ReThrowError(forming->error);
	raise_result(forming->failed, forming->culprit);
	pg_unreachable();
}

/* After an outcome that was not DONE; raises its error if there were too many NOT_CONNECTED. */
static void
undo_attempt(Forming *forming, Outcome outcome)
{
	if (outcome == NOT_CONNECTED && ++forming->not_connected == CONNECT_TRIES)
		raise_failure(forming);
	for (int i = 0; i < forming->spec_count; i++)
	{
		if (forming->specs[i].sender != NULL)
			rf_sender_disconnect(forming->specs[i].sender);
	}
	if (outcome == NOT_CONNECTED)
		forget_connected();
	if (!forming->fresh)
	{
		run_on_all(forming->sessions, forming->count, "ROLLBACK TO SAVEPOINT rdma_fdw_exchange");
		run_on_all(forming->sessions, forming->count, "RELEASE SAVEPOINT rdma_fdw_exchange");
	}
	else
		rf_statement_restart(forming->sessions, forming->count, forming->statement);
}

/* ---------- connections ---------- */

/* Node i connects to each later node j to which it has no connection: missing[i][j]. */
static bool
find_missing(int count, const RfNodeId *nodes, bool *missing)
{
	bool		any = false;

	for (int i = 0; i < count; i++)
	{
		for (int j = i + 1; j < count; j++)
		{
			bool		wanted = !is_connected(&nodes[i], &nodes[j]);

			/* several servers of one postmaster have one engine */
			for (int k = 0; wanted && k < i * count + j; k++)
			{
				if (missing[k] && memcmp(&nodes[k / count], &nodes[i], sizeof(RfNodeId)) == 0 &&
					memcmp(&nodes[k % count], &nodes[j], sizeof(RfNodeId)) == 0)
					wanted = false;
			}
			missing[i * count + j] = wanted;
			any |= wanted;
		}
	}
	return any;
}

/* Not where all rows come from here. */
static bool
moves_between_nodes(const Forming *forming)
{
	for (int i = 0; i < forming->spec_count; i++)
	{
		if (forming->specs[i].sender == NULL)
			return true;
	}
	return false;
}

/*
 * Three rounds: each node's greeting, a token for each node that will connect, the connections.
 * NOT_CONNECTED, with `failed` and `culprit`: an engine stopped meanwhile, and its token may have
 * been used.
 */
static Outcome
connect_pairs(Forming *forming)
{
	RfSession  *const *sessions = forming->sessions;
	int			count = forming->count;
	const RfNodeId *nodes = forming->nodes;
	bool	   *missing = palloc0(sizeof(bool) * count * count);
	int		   *taken;
	Round	   *greetings;
	Round	   *answers;
	Round	   *connects;
	Outcome		outcome;

	if (!find_missing(count, nodes, missing))
	{
		pfree(missing);
		return DONE;
	}

	greetings = new_round(sessions, count);
	for (int i = 0; i < count; i++)
		send_command(greetings, i, GREET_SQL, 0, NULL);
	receive_all(greetings);

	answers = new_round(sessions, count);
	for (int j = 0; j < count; j++)
	{
		StringInfoData requests;

		initStringInfo(&requests);
		for (int i = 0; i < j; i++)
		{
			if (!missing[i * count + j])
				continue;
			expect_rows(greetings, i, 1, 1);
			rf_append_array_member(&requests, PQgetvalue(greetings->results[i], 0, 0));
		}
		if (requests.len > 0)
		{
			const char *values[1];

			appendStringInfoChar(&requests, '}');
			values[0] = requests.data;
			send_command(answers, j, HELLO_SQL, 1, values);
		}
	}
	receive_all(answers);

	connects = new_round(sessions, count);
	taken = palloc0(sizeof(int) * count);
	for (int i = 0; i < count; i++)
	{
		StringInfoData hosts;
		StringInfoData hellos;

		initStringInfo(&hosts);
		initStringInfo(&hellos);
		for (int j = i + 1; j < count; j++)
		{
			if (!missing[i * count + j])
				continue;
			if (taken[j] >= PQntuples(answers->results[j]))
				expect_rows(answers, j, taken[j] + 1, 1);
			rf_append_array_member(&hosts, rf_session_host(sessions[j]));
			rf_append_array_member(&hellos, PQgetvalue(answers->results[j], taken[j]++, 0));
		}
		if (hosts.len > 0)
		{
			const char *values[2];

			appendStringInfoChar(&hosts, '}');
			appendStringInfoChar(&hellos, '}');
			values[0] = hosts.data;
			values[1] = hellos.data;
			send_command(connects, i, CONNECT_SQL, 2, values);
		}
	}
	outcome = receive(connects, &forming->culprit);
	/* these hold tokens */
	clear_results(greetings);
	clear_results(answers);
	forming->failed = connects;
	if (outcome == NO_BUFFERS)
		raise_result(connects, forming->culprit);
	if (outcome != DONE)
		return outcome;

	for (int k = 0; k < count * count; k++)
	{
		if (missing[k])
			remember_connected(&nodes[k / count], &nodes[k % count]);
	}
	clear_results(connects);
	return DONE;
}

void
rf_exchange_connect_nodes(RfSession *const *sessions, int count)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw exchange",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Forming		forming;

	rf_sessions_begin(sessions, count);
	init_forming(&forming, sessions, count);
	forget_connected();
	for (;;)
	{
		Outcome		outcome;

		begin_attempt(&forming);
		outcome = connect_pairs(&forming);
		if (outcome == DONE)
			break;
		undo_attempt(&forming, outcome);
	}
	keep_attempt(&forming);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/* ---------- groups ---------- */

/* All descriptions as they are now, for the member's command. */
static char *
descriptions_literal(RfGroupDesc **descs, int count)
{
	StringInfoData array;

	initStringInfo(&array);
	for (int i = 0; i < count; i++)
		append_bytes(&array, descs[i], descs[i]->length);
	appendStringInfoChar(&array, '}');
	return array.data;
}

/* The fields that a member filled in. */
static void
merge_answer(Round *round, int member, RfGroupDesc **descs, int count)
{
	PGresult   *result = round->results[member];

	expect_rows(round, member, count, 2);
	for (int i = 0; i < count; i++)
	{
		size_t		length;
		unsigned char *bytes = PQunescapeBytea((unsigned char *) PQgetvalue(result, i, 0), &length);
		void	   *copy;
		RfError		error;

		if (bytes == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory")));
		copy = palloc0(Max(length, sizeof(RfGroupDesc)));
		memcpy(copy, bytes, length);
		PQfreemem(bytes);
		if (!rf_group_desc_check(copy, length, &error) ||
			!rf_group_desc_merge(descs[i], copy, &error))
			raise_answer(round, member, error.message);
	}
}

/* The nodes of one side of a group. Returns how many. */
static int
side_nodes(List *members, const RfNodeId *nodes, RfNodeId *side)
{
	ListCell   *lc;

	foreach(lc, members)
		side[foreach_current_index(lc)] = nodes[lfirst_int(lc)];
	return list_length(members);
}

/* This node alone. Returns 1. */
static int
this_node(RfNodeId *side)
{
	RfTypeImage image;

	rf_node_self(side, &image);
	return 1;
}

/*
 * The nodes open their ends meanwhile. NO_BUFFERS, with the error, where one has no buffers for
 * rows of this node: the sender's flows are closed then.
 */
static Outcome
open_senders(Forming *forming, RfGroupDesc *const *descs)
{
	MemoryContext context = CurrentMemoryContext;
	volatile Outcome outcome = DONE;

	PG_TRY();
	{
		for (int i = 0; i < forming->spec_count; i++)
		{
			if (forming->specs[i].sender != NULL)
				rf_sender_connect(forming->specs[i].sender, descs[i], forming->sessions,
								  forming->count);
		}
	}
	PG_CATCH();
	{
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_INSUFFICIENT_RESOURCES)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		forming->error = CopyErrorData();
		FlushErrorState();
		outcome = NO_BUFFERS;
	}
	PG_END_TRY();
	return outcome;
}

/* The member's place in one side of each group, NULL where it has no place. */
static char *
places_literal(const RfExchangeSpec *specs, int spec_count, bool producers, int member)
{
	StringInfoData array;

	initStringInfo(&array);
	for (int i = 0; i < spec_count; i++)
	{
		List	   *members = producers ? specs[i].producers : specs[i].consumers;
		int			place = 0;

		while (place < list_length(members) && list_nth_int(members, place) != member)
			place++;
		appendStringInfoChar(&array, i == 0 ? '{' : ',');
		if (place == list_length(members))
			appendStringInfoString(&array, "NULL");
		else
			appendStringInfo(&array, "%d", place);
	}
	appendStringInfoChar(&array, '}');
	return array.data;
}

/*
 * The buffers that a producer has for one consumer. Beyond a few consumers the sum of its buffers
 * is limited: they get smaller, and the last there are fewer of. After attempts that found no
 * buffers it wants less.
 */
static void
fit_buffers(RfGroupShape *shape, int attempt)
{
	uint32		consumers = Max(shape->consumers, 2) - 1;
	uint32		fair = SEND_MEMORY / consumers;

	fair = Min(fair, shape->slot_count * shape->slot_size) >> Min(attempt, MOST_HALVINGS);
	if (fair < shape->slot_count * LEAST_BUFFER)
		shape->slot_count = Min(shape->slot_count, 2);
	shape->slot_size = Min(shape->slot_size, Max(fair / shape->slot_count, LEAST_BUFFER));
	shape->slot_size = TYPEALIGN_DOWN(RF_MIN_SLOT_SIZE, shape->slot_size);
}

/*
 * One attempt to form the exchanges' groups: all consumers listen, then all producers open. Later
 * attempts ask for smaller buffers. Returns DONE, or why another attempt is needed; other errors
 * are raised.
 */
static Outcome
form_groups(Forming *forming, int attempt)
{
	int			buffer_wait_ms = Min(FIRST_BUFFER_WAIT_MS << Min(attempt, 5),
									 Max(rf_exchange_wait(), 1));
	int			count = forming->count;
	const RfExchangeSpec *specs = forming->specs;
	int			spec_count = forming->spec_count;
	RfGroupDesc **descs = palloc(sizeof(RfGroupDesc *) * spec_count);
	RfNodeId   *members = palloc(sizeof(RfNodeId) * (count + 1) * 2);
	Round	   *listens = new_round(forming->sessions, count);
	Round	   *opens = new_round(forming->sessions, count);
	Outcome		outcome;
	char	   *literal;

	forming->error = NULL;
	for (int i = 0; i < spec_count; i++)
	{
		int			producers = specs[i].sender != NULL ? this_node(members) :
			side_nodes(specs[i].producers, forming->nodes, members);
		int			consumers = side_nodes(specs[i].consumers, forming->nodes, members + producers);
		RfGroupShape shape = {RF_GROUP_REPARTITION, producers, consumers, specs[i].buffers,
		specs[i].buffer_size};

		fit_buffers(&shape, attempt);
		descs[i] = rf_group_desc_make(&shape, members);
	}

	literal = descriptions_literal(descs, spec_count);
	for (int i = 0; i < count; i++)
	{
		const char *values[5] = {psprintf("%d", i), literal, psprintf("%d", buffer_wait_ms),
		places_literal(specs, spec_count, true, i), places_literal(specs, spec_count, false, i)};

		send_command(listens, i, LISTEN_SQL, 5, values);
	}
	forming->failed = listens;
	outcome = receive(listens, &forming->culprit);
	if (outcome != DONE)
		return outcome;
	for (int i = 0; i < count; i++)
		merge_answer(listens, i, descs, spec_count);

	literal = descriptions_literal(descs, spec_count);
	for (int i = 0; i < count; i++)
	{
		const char *values[3] = {psprintf("%d", i), literal, PQgetvalue(listens->results[i], 0, 1)};

		send_command(opens, i, OPEN_SQL, 3, values);
	}
	clear_results(listens);
	forming->failed = opens;
	outcome = receive(opens, &forming->culprit);
	if (outcome != DONE)
		return outcome;
	clear_results(opens);
	return open_senders(forming, descs);
}

/* One lock, taken once, of the transaction: an error releases it. */
static void
turn_lock(LOCKTAG *tag)
{
	SET_LOCKTAG_ADVISORY(*tag, InvalidOid, 0, 0, TURN_LOCK_CLASS);
}

void
rf_exchange_end_turn(void)
{
	LOCKTAG		tag;

	turn_lock(&tag);
	if (rf_lock_held_by_me(&tag, ExclusiveLock))
		(void) LockRelease(&tag, ExclusiveLock, false);
}

void
rf_exchange_take_turn(int attempt)
{
	static uint32 event = 0;
	LOCKTAG		tag;
	long		ms = Min((long) FIRST_PAUSE_MS << Min(attempt, 10), LONGEST_PAUSE_MS);

	if (event == 0)
		event = rf_wait_event_new("RdmaFdwExchange");
	ms = 1 + (long) (pg_prng_double(&pg_global_prng_state) * ms);
	if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, event) &
		WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	turn_lock(&tag);
	if (!rf_lock_held_by_me(&tag, ExclusiveLock))
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* Flows that this member's exchanges and its result need. */
static uint32
flows_of(const Forming *forming, int member)
{
	uint32		flows = 1;

	for (int i = 0; i < forming->spec_count; i++)
	{
		const RfExchangeSpec *spec = &forming->specs[i];
		bool		produces = list_member_int(spec->producers, member);
		bool		consumes = list_member_int(spec->consumers, member);

		flows += produces ? list_length(spec->consumers) - consumes : 0;
		flows += consumes ? list_length(spec->producers) - produces : 0;
	}
	return flows;
}

/*
 * After a failed attempt: no other one can do better where a node's server does not have so many
 * flows at all.
 */
static void
check_flows(const Forming *forming)
{
	Round	   *round = new_round(forming->sessions, forming->count);

	for (int i = 0; i < forming->count; i++)
		send_command(round, i, FLOWS_SQL, 0, NULL);
	receive_all(round);
	for (int i = 0; i < forming->count; i++)
	{
		uint32		flows = 0;
		int64		limit;

		expect_rows(round, i, 1, 1);
		if (!rf_answer_int64(round->results[i], 0, 0, 0, PG_UINT32_MAX, &limit))
			raise_answer(round, i, NULL);
		for (int j = 0; j < forming->count; j++)
		{
			if (memcmp(&forming->nodes[j], &forming->nodes[i], sizeof(RfNodeId)) == 0)
				flows += flows_of(forming, j);
		}
		if (flows > limit)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("the statement needs %u flows of rdma_fdw on the node of server "
							"\"%s\", where its role may have %u",
							flows,
							rf_session_server_name(forming->sessions[i]),
							(uint32) limit),
					 errdetail("It has %d exchanges between %d nodes.",
							   forming->spec_count, forming->count),
					 errhint("Increase rdma_fdw.max_flows or rdma_fdw.role_share there, or set "
							 "rdma_fdw.exchange_strategy to pull.")));
	}
	clear_results(round);
}

void
rf_exchange_form(RfSession *const *sessions, int count, const RfExchangeSpec *specs, int spec_count,
				 uint64 statement)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw exchange",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), rf_exchange_wait());
	Forming		forming;

	init_forming(&forming, sessions, count);
	forming.specs = specs;
	forming.spec_count = spec_count;
	forming.statement = statement;
	for (int attempt = 0;; attempt++)
	{
		Outcome		outcome;

		begin_attempt(&forming);
		if (attempt == 1)
			check_flows(&forming);
		outcome = moves_between_nodes(&forming) ? connect_pairs(&forming) : DONE;
		if (outcome == DONE)
			outcome = form_groups(&forming, attempt);
		if (outcome == DONE)
			break;
		if (outcome == NO_BUFFERS && GetCurrentTimestamp() >= deadline)
			raise_failure(&forming);
		undo_attempt(&forming, outcome);
		if (outcome == NO_BUFFERS)
			rf_exchange_take_turn(attempt);
	}
	keep_attempt(&forming);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}
