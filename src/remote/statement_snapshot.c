/*
 * statement_snapshot.c - one snapshot for all that a statement does on nodes.
 *
 * The first command that a statement sends to a node has the node keep its snapshot for the later
 * commands (serve/kept_snapshot.c). From REPEATABLE READ on it is always the transaction's, but
 * without rows that the transaction writes afterwards. A statement that writes on nodes before all
 * of its scans have begun has them keep it first.
 *
 * In READ COMMITTED each remote command takes a snapshot of its own. Where a statement uses several
 * nodes, all are told to keep one before it begins, together in the gate (gate.c). The transactions
 * there need not begin for that: they may have written, and other statements may go on with
 * snapshots of before.
 *
 * Some nodes may begin again, when their buffers did not suffice. Their new snapshots match the
 * snapshots of the statement's other nodes if nothing was committed since those were taken; if
 * something was, and nothing was done under those, all are taken again. Else it is an error. The
 * same goes for commits of other coordinators, which the gate does not hold back
 * (other_coordinators.c).
 *
 * Rows are written under the statement's snapshot where one statement of the node finds and writes
 * them. A row that is named by its place (ctid) was found before; it is written with the command's
 * own snapshot, which sees a version that was locked when it was found, and that is newer than the
 * statement's snapshot.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "base/clock.h"
#include "gate.h"
#include "session.h"

/* When the last statement began. */
static RfOpenStatements open_then = {0, 0};

void
rf_statement_snapshots_end(RfOpenStatements open)
{
	open_then = open;
}

void
rf_statement_snapshots_forget(RfSession *session)
{
	list_free_deep(session->snapshot.of_statements);
	session->snapshot.of_statements = NIL;
}

/* Returns NULL if it has no snapshot. */
static RfStatementSnapshot *
find(RfSession *session, uint64 statement)
{
	ListCell   *lc;

	if (session->xact.depth == 0)
		rf_statement_snapshots_forget(session);
	foreach(lc, session->snapshot.of_statements)
	{
		RfStatementSnapshot *entry = lfirst(lc);

		if (entry->statement == statement)
			return entry;
	}
	return NULL;
}

/* As the node forgets them when it keeps the snapshot of this statement. */
static void
forget_over(List **snapshots, uint64 statement)
{
	ListCell   *lc;

	foreach(lc, *snapshots)
	{
		RfStatementSnapshot *entry = lfirst(lc);

		if (entry->statement >= open_then.oldest &&
			(entry->statement <= open_then.newest || entry->statement >= statement))
			continue;
		*snapshots = foreach_delete_current(*snapshots, lc);
		pfree(entry);
	}
}

/* count: the gate's, read before the snapshot is taken or in the gate */
static RfStatementSnapshot *
note(RfSession *session, uint64 statement, uint64 count)
{
	List	  **snapshots = &session->snapshot.of_statements;
	RfStatementSnapshot *entry = find(session, statement);
	MemoryContext caller;

	if (entry == NULL)
	{
		forget_over(snapshots, statement);
		caller = MemoryContextSwitchTo(TopMemoryContext);
		entry = palloc(sizeof(RfStatementSnapshot));
		entry->statement = statement;
		*snapshots = lappend(*snapshots, entry);
		MemoryContextSwitchTo(caller);
	}
	entry->count = count;
	entry->used = false;
	memset(&entry->others, 0, sizeof(entry->others));
	return entry;
}

static void
name(uint64 statement, RfStreamSnapshot *snapshot)
{
	snapshot->statement = statement;
	snapshot->oldest = open_then.oldest;
	snapshot->outer = open_then.newest;
	snapshot->coordinator = GetSystemIdentifier();
}

bool
rf_statement_snapshot_send(RfSession *session, const RfStreamSnapshot *snapshot, uint32 flags)
{
	struct
	{
		RfStreamRequest request;
		RfStreamSnapshot snapshot;
	}			message;
	const char *values[4] = {(const char *) &message, "", NULL, NULL};
	int			lengths[4] = {sizeof(message), 0, 0, 0};
	int			formats[4] = {1, 1, 1, 1};

	StaticAssertStmt(sizeof(message) == sizeof(RfStreamRequest) + sizeof(RfStreamSnapshot),
					 "there are bytes between");
	memset(&message, 0, sizeof(message));
	message.request.wire_version = RF_WIRE_VERSION;
	message.request.flags = flags | RF_STREAM_NO_QUERY;
	message.snapshot = *snapshot;
	if (session->prepared.has_stream)
		return PQsendQueryPrepared(session->conn, session->prepared.stream, 4, values, lengths,
								   formats, 1) == 1;
	return PQsendQueryParams(session->conn, RF_STREAM_SQL, 4, rf_stream_types, values, lengths,
							 formats, 1) == 1;
}

/* ---------- in the gate ---------- */

/* Returns the node's report on other coordinators; nothing where no snapshot was asked for. */
static int64
await_pipeline(RfSession *session, RfPipeline *pipeline, TimestampTz deadline)
{
	PGresult   *result;
	RfKeepReply reply = {0};

	while (!rf_pipeline_take(session, pipeline))
		rf_snapshot_await_input(session, deadline);
	result = rf_pipeline_result(pipeline);
	if (result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK)
		rf_session_raise(session, result, RF_STREAM_SQL);
	if (result != NULL && PQntuples(result) == 1 && PQgetlength(result, 0, 0) == sizeof(reply))
		memcpy(&reply, PQgetvalue(result, 0, 0), sizeof(reply));
	PQclear(result);
	return reply.others_age;
}

/*
 * To all at the same time: begin (sub)transactions that are missing and, with a snapshot, keep it.
 * An unused session stays fresh. An error below a savepoint voids no more than the work below it
 * there. Returns each session's report on other coordinators, palloc'd.
 */
static RfOthers *
run_on_all(List *sessions, const RfStreamSnapshot *snapshot)
{
	RfOthers   *others = palloc0_array(RfOthers, list_length(sessions));
	int64		asked_us = rf_now_us();
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RF_BEGIN_TIMEOUT_MS);
	RfPipeline *pipelines = palloc0_array(RfPipeline, list_length(sessions));
	List	   *volatile beginning = NIL;
	ListCell   *lc;

	PG_TRY();
	{
		foreach(lc, sessions)
		{
			RfSession  *session = lfirst(lc);
			bool		fresh = rf_session_is_fresh(session);
			bool		sent;

			if (session->xact.depth == 0)
				beginning = lappend(beginning, session);
			sent = rf_pipeline_begin(session, rf_transaction_target(session),
									 &pipelines[foreach_current_index(lc)]) &&
				(snapshot == NULL ||
				 rf_statement_snapshot_send(session, snapshot, RF_STREAM_KEEP));
			session->xact.untouched = fresh;
			rf_pipeline_send(session, sent);
		}
		foreach(lc, sessions)
		{
			RfOthers   *mine = &others[foreach_current_index(lc)];

			mine->age_us = await_pipeline(lfirst(lc), &pipelines[foreach_current_index(lc)],
										  deadline);
			mine->asked_us = asked_us;
			mine->taken_us = rf_now_us();
		}
	}
	PG_CATCH();
	{
		for (int i = 0; i < list_length(sessions); i++)
			rf_pipeline_clear(&pipelines[i]);
		rf_snapshot_give_up(beginning);
		PG_RE_THROW();
	}
	PG_END_TRY();
	list_free(beginning);
	pfree(pipelines);
	return others;
}

static List *
without(List *sessions, uint64 statement)
{
	List	   *missing = NIL;
	ListCell   *lc;

	foreach(lc, sessions)
	{
		if (find(lfirst(lc), statement) == NULL)
			missing = lappend(missing, lfirst(lc));
	}
	return missing;
}

/*
 * A session whose snapshot would not match the snapshots taken now; a used one, if there is one.
 */
static RfSession *
find_older(List *sessions, uint64 statement, uint64 count, bool *used)
{
	RfSession  *older = NULL;
	ListCell   *lc;

	*used = false;
	foreach(lc, sessions)
	{
		RfStatementSnapshot *entry = find(lfirst(lc), statement);

		if (entry != NULL && entry->count != count)
			older = lfirst(lc);
		if (entry != NULL && entry->used)
			*used = true;
	}
	return older;
}

__attribute__((noreturn)) static void
raise_conflict(RfSession *older)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not take one snapshot of several nodes"),
			 errdetail("Transactions have committed since this statement began on server \"%s\".",
					   older->server_name),
			 errhint("Try the transaction again. With rdma_fdw.snapshot = each_node each node "
					 "has a snapshot of its own.")));
}

/* False: a transaction is in doubt. */
static bool
take(List *sessions, uint64 statement, const uint64 *nodes)
{
	volatile bool taken = false;
	volatile bool again = false;
	RfSession  *volatile conflict = NULL;
	RfStreamSnapshot snapshot;

	name(statement, &snapshot);
	rf_gate_enter(RF_GATE_SNAPSHOT);
	PG_TRY();
	{
		uint64		count = rf_gate_count();
		bool		used;
		RfSession  *older = find_older(sessions, statement, count, &used);

		if (older != NULL && used)
			conflict = older;
		else if (!rf_commit_in_doubt_on(nodes, list_length(sessions)))
		{
			List	   *taking = older != NULL ? sessions : without(sessions, statement);
			RfOthers   *others;
			ListCell   *lc;

			others = run_on_all(taking, &snapshot);
			foreach(lc, taking)
				note(lfirst(lc), statement, count)->others = others[foreach_current_index(lc)];
			pfree(others);
			taken = true;
			again = older != NULL;
		}
	}
	PG_FINALLY();
	{
		rf_gate_leave(RF_GATE_SNAPSHOT);
	}
	PG_END_TRY();
	if (conflict)
		raise_conflict(conflict);
	if (taken)
		rf_gate_note_snapshots(again);
	return taken;
}

/* A pooler may have us wait for one of its connections. */
static void
begin_behind_poolers(List *sessions)
{
	List	   *beginning = NIL;
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);

		if (session->node.pooled && session->xact.depth == 0)
			beginning = lappend(beginning, session);
	}
	if (beginning != NIL)
		pfree(run_on_all(beginning, NULL));
	list_free(beginning);
}

/*
 * Checks that the snapshots agree on commits of other coordinators. If not they will be taken
 * again. ERROR: one of them has been used.
 */
static bool
agree(List *sessions, uint64 statement)
{
	const RfOthers **others = palloc_array(const RfOthers *, list_length(sessions));
	bool		used = false;
	bool		agreed;
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RfStatementSnapshot *entry = find(lfirst(lc), statement);

		others[foreach_current_index(lc)] = &entry->others;
		used |= entry->used;
	}
	agreed = rf_others_agree(sessions, others, statement);
	pfree(others);
	if (!agreed && used)
		rf_others_raise();
	foreach(lc, sessions)
	{
		if (!agreed)
			find(lfirst(lc), statement)->count = RF_GATE_NEVER;
	}
	return agreed;
}

/* Other sessions that have a snapshot of the statement. */
static List *
add_others(List *sessions, uint64 statement)
{
	List	   *open = rf_session_list_open();
	ListCell   *lc;

	foreach(lc, open)
	{
		if (find(lfirst(lc), statement) != NULL)
			sessions = list_append_unique_ptr(sessions, lfirst(lc));
	}
	list_free(open);
	return sessions;
}

void
rf_statement_snapshot_together(RfSession *const *sessions, int count, uint64 statement)
{
	List	   *all = NIL;
	List	   *missing;
	uint64	   *nodes;
	TimestampTz deadline = 0;
	TimestampTz others_deadline = 0;
	ListCell   *lc;

	if (!rf_snapshot_is_common())
		return;
	for (int i = 0; i < count; i++)
		all = list_append_unique_ptr(all, sessions[i]);
	all = add_others(all, statement);
	missing = without(all, statement);
	if (list_length(all) > 1 && missing != NIL)
	{
		nodes = palloc_array(uint64, list_length(all));
		foreach(lc, all)
		{
			RfSession  *session = lfirst(lc);
			RfStatementSnapshot *entry = find(session, statement);

			nodes[foreach_current_index(lc)] = session->node.cluster;
			if (entry == NULL || !entry->used)
				rf_session_settle(session);
		}
		for (;;)
		{
			if (rf_snapshot_is_in_doubt(nodes, list_length(all)))
			{
				rf_snapshot_await_resolver(&deadline);
				continue;
			}
			begin_behind_poolers(missing);
			if (!take(all, statement, nodes))
				continue;
			if (agree(all, statement))
				break;
			rf_others_await(&others_deadline);
		}
		pfree(nodes);
	}
	list_free(missing);
	list_free(all);
}

void
rf_statement_snapshot_keep(RfSession *const *sessions, int count, uint64 statement)
{
	List	   *missing = NIL;
	RfStreamSnapshot snapshot;
	RfOthers   *others;
	ListCell   *lc;

	if (IsolationUsesXactSnapshot())
		rf_sessions_begin(sessions, count);
	else
		rf_statement_snapshot_together(sessions, count, statement);
	for (int i = 0; i < count; i++)
	{
		if (find(sessions[i], statement) == NULL)
			missing = list_append_unique_ptr(missing, sessions[i]);
	}
	if (missing == NIL)
		return;
	foreach(lc, missing)
		rf_session_settle(lfirst(lc));
	name(statement, &snapshot);
	others = run_on_all(missing, &snapshot);
	foreach(lc, missing)
		note(lfirst(lc), statement, rf_gate_count())->others = others[foreach_current_index(lc)];
	pfree(others);
	list_free(missing);
}

/* ---------- commands ---------- */

static bool
others_have(RfSession *session, uint64 statement)
{
	List	   *others = add_others(NIL, statement);
	bool		any = others != NIL;

	list_free(others);
	return any;
}

bool
rf_statement_snapshot_join(RfSession *session, uint64 statement, RfStreamSnapshot *snapshot)
{
	RfStatementSnapshot *entry;

	if (statement == 0)
		return false;
	entry = find(session, statement);
	/* in place of a node that was lost */
	if (entry == NULL && !IsolationUsesXactSnapshot() && rf_snapshot_is_common() &&
		others_have(session, statement))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not take one snapshot of several nodes"),
				 errdetail("The statement began without server \"%s\".", session->server_name),
				 errhint("Try the transaction again.")));
	if (entry == NULL)
		return false;
	entry->used = true;
	name(statement, snapshot);
	return true;
}

RfSnapshotUse
rf_statement_snapshot(RfSession *session, uint64 statement, RfStreamSnapshot *snapshot)
{
	if (rf_statement_snapshot_join(session, statement, snapshot))
		return RF_SNAPSHOT_KEPT;
	if (statement == 0)
		return RF_SNAPSHOT_OWN;
	note(session, statement, rf_gate_count())->used = true;
	name(statement, snapshot);
	return RF_SNAPSHOT_KEEP;
}
