/*
 * other_coordinators.c - checks that snapshots of several nodes agree on commits of other
 * coordinators there.
 *
 * The gate (gate.c) holds back this coordinator's commits while snapshots are taken, not the
 * commits of other coordinators. So each node says with its snapshot how long ago it committed
 * something for another coordinator. Where that was before the first snapshot was asked for, and
 * nothing is prepared, they agree. Else the nodes compare: which of these transactions a snapshot
 * does not see, and whether another snapshot sees one of them. See serve/compare_snapshots.c. That
 * is one round trip, and one more where transactions are just being committed. Snapshots that
 * disagree are taken again.
 *
 * This is about transactions that commit on several nodes. Of two transactions one after the other,
 * each on a node of its own, the later may show without the earlier.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "lib/stringinfo.h"

#include "base/clock.h"
#include "rdma_fdw/sql_text.h"
#include "session.h"

/*
 * How long to try, and how long to wait in between: nodes that are told to commit at the same time
 * do so within milliseconds.
 */
#define RF_OTHERS_TIMEOUT_MS	10000
#define RF_OTHERS_PAUSE_MS		2

#define UNSEEN_FIELDS			3

/*
 * A committing transaction from the last comparison; 0 if there was no such transaction. For
 * messages.
 */
static uint64 committing = 0;

char *
rf_others_sql(const RfSession *session)
{
	if (!session->node.compares)
		return pstrdup("SELECT 1");
	return psprintf("SELECT rdma_internal.other_parts_age(" INT64_FORMAT ")",
					(int64) GetSystemIdentifier());
}

void
rf_others_note(RfSession *session, const PGresult *result)
{
	RfOthers   *others = &session->snapshot.others;

	if (!rf_answer_has(result, 1, 1, 1) || strcmp(PQfname(result, 0), "other_parts_age") != 0)
		return;
	/* 0: as if it had not said anything */
	others->taken_us = rf_answer_int64(result, 0, 0, 0, PG_INT64_MAX, &others->age_us) ?
		rf_now_us() : 0;
}

static bool
are_quiet(List *sessions, const RfOthers *const *others)
{
	int64		first = PG_INT64_MAX;
	bool		quiet = true;
	ListCell   *lc;

	foreach(lc, sessions)
		first = Min(first, others[foreach_current_index(lc)]->asked_us);
	foreach(lc, sessions)
	{
		const RfOthers *mine = others[foreach_current_index(lc)];

		/* its answer may not have been read */
		quiet &= !((RfSession *) lfirst(lc))->node.compares ||
			(mine->taken_us > 0 && mine->age_us > mine->taken_us - first);
	}
	return quiet;
}

/* Rows that parallel workers read, or are about to read, cannot be put aside for a question. */
static void
check_not_shared(RfSession *session)
{
	dlist_iter	iter;

	dlist_foreach(iter, &session->streams)
	{
		RfStream   *stream = dlist_container(RfStream, node, iter.cur);

		if (stream->shared && stream->state == RF_STREAM_RUNNING)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not take one snapshot of several nodes"),
					 errdetail("Another node was connected while parallel workers read rows from "
							   "server \"%s\".",
							   session->server_name),
					 errhint("Try the transaction again. With rdma_fdw.snapshot = each_node each "
							 "node has a snapshot of its own.")));
	}
}

/*
 * All at the same time; `take` gets the result of each. If that returns false, the answer is not
 * valid.
 */
static void
ask(List *sessions, const char *sql, bool (*take) (const PGresult *result, void *arg), void *arg)
{
	ListCell   *lc;

	foreach(lc, sessions)
	{
		if (((RfSession *) lfirst(lc))->node.compares)
			check_not_shared(lfirst(lc));
	}
	foreach(lc, sessions)
	{
		RfSession  *session = lfirst(lc);

		if (!session->node.compares)
			continue;
		/* a transaction that begins for a command that is about to be sent has nothing else */
		if (!session->xact.untouched)
			rf_session_settle(session);
		if (PQtransactionStatus(session->conn) == PQTRANS_ACTIVE ||
			PQpipelineStatus(session->conn) != PQ_PIPELINE_OFF)
			elog(ERROR, "server \"%s\" was asked for its snapshot while a command ran there",
				 session->server_name);
		if (!rf_session_send(session, sql))
			rf_session_lost(session);
		rf_session_flush(session);
	}
	foreach(lc, sessions)
	{
		PGresult   *result;

		if (!((RfSession *) lfirst(lc))->node.compares)
			continue;
		result = rf_session_last_result(lfirst(lc));
		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			rf_session_raise(lfirst(lc), result, sql);
		if (!take(result, arg))
			rf_session_bad_answer(lfirst(lc), result, sql);
		PQclear(result);
	}
}

typedef struct Unseen
{
	StringInfoData parts;		/* elements of an array */
	StringInfoData ages;
	bool		complete;
} Unseen;

/*
 * Adds the parts that one node's snapshot does not see to the list. Returns false if the answer is
 * not valid.
 */
static bool
take_unseen(const PGresult *result, void *arg)
{
	Unseen	   *unseen = arg;

	for (int i = 0; i < PQntuples(result); i++)
	{
		const char *separator = unseen->parts.len > 0 ? "," : "";
		int64		part;
		int64		age;
		int64		owner;

		if (PQnfields(result) == UNSEEN_FIELDS && PQgetisnull(result, i, 0))
		{
			unseen->complete = false;
			continue;
		}
		if (!rf_answer_int64(result, i, 0, PG_INT64_MIN, PG_INT64_MAX, &part) ||
			!rf_answer_int64(result, i, 1, PG_INT64_MIN, PG_INT64_MAX, &age) ||
			!rf_answer_int64(result, i, 2, PG_INT64_MIN, PG_INT64_MAX, &owner))
			return false;
		appendStringInfo(&unseen->parts, "%s" INT64_FORMAT, separator, part);
		appendStringInfo(&unseen->ages, "%s" INT64_FORMAT, separator, age);
		committing = (uint64) owner;
	}
	return true;
}

static bool
take_seen(const PGresult *result, void *arg)
{
	bool		seen = rf_answer_is_true(result, 0, 0);

	*(bool *) arg |= seen;
	return PQntuples(result) == 1 && PQnfields(result) == 1 &&
		(seen || strcmp(PQgetvalue(result, 0, 0), "f") == 0);
}

bool
rf_others_agree(List *sessions, const RfOthers *const *others, uint64 statement)
{
	Unseen		unseen = {.complete = true};
	int64		began_us = rf_now_us();
	bool		seen = false;
	char	   *sql;

	committing = 0;
	if (are_quiet(sessions, others))
		return true;
	initStringInfo(&unseen.parts);
	initStringInfo(&unseen.ages);
	sql = psprintf("SELECT part, age, owner FROM rdma_internal.unseen_parts(" INT64_FORMAT
				   ", " UINT64_FORMAT ")",
				   (int64) GetSystemIdentifier(), statement);
	ask(sessions, sql, take_unseen, &unseen);
	pfree(sql);
	if (unseen.complete && unseen.parts.len > 0)
	{
		sql = psprintf("SELECT rdma_internal.seen_parts(" UINT64_FORMAT ", '{%s}', '{%s}')",
					   statement,
					   unseen.parts.data, unseen.ages.data);
		ask(sessions, sql, take_seen, &seen);
		pfree(sql);
		/* by then parts are older than was said */
		seen |= rf_now_us() - began_us > RF_PARTS_SLACK_US;
	}
	pfree(unseen.parts.data);
	pfree(unseen.ages.data);
	return unseen.complete && !seen;
}

static int
detail(void)
{
	if (committing == 0)
		return errdetail("Other coordinators have committed transactions meanwhile.");
	return errdetail("A transaction of the coordinator with system identifier " UINT64_FORMAT
					 " has committed on some of them, "
					 "and not yet on others.",
					 committing);
}

void
rf_others_await(TimestampTz *deadline)
{
	TimestampTz now = GetCurrentTimestamp();

	if (*deadline == 0)
		*deadline = TimestampTzPlusMilliseconds(now, RF_OTHERS_TIMEOUT_MS);
	if (now >= *deadline)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not take one snapshot of several nodes"),
				 detail(),
				 errhint("The view rdma.transactions of that coordinator shows it, and why it is "
						 "not finished.")));
	rf_session_pause(rf_session_wait_event(), RF_OTHERS_PAUSE_MS);
}

void
rf_others_raise(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not take one snapshot of several nodes"),
			 detail(),
			 errhint("Try the transaction again. With rdma_fdw.snapshot = each_node each node "
					 "has a snapshot of its own.")));
}
