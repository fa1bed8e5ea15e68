/*
 * statement_begin.c - begins a statement on its nodes.
 *
 * Which nodes the statement can use is decided here, once. A node that joined later would need a
 * snapshot that matches the snapshots of the first nodes, which read and write by then; so a node
 * that cannot be connected now is down for this statement, also if it comes back a moment later.
 *
 * It gets a number, and in READ COMMITTED one snapshot of its nodes (statement_snapshot.c).
 *
 * From REPEATABLE READ on the transaction has one snapshot of all nodes (snapshot.c). As it cannot
 * know its later needs, it begins with the nodes that it names: a transaction block names whole
 * servers. Nodes that an earlier transaction of this session needed too late are begun together
 * with its first nodes. So a transaction that is tried again succeeds.
 */
#include "postgres.h"

#include "access/xact.h"
#include "foreign/foreign.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "session.h"

bool
rf_statement_wants_all(void)
{
	List	   *open;
	bool		first;

	if (rf_snapshot_mode != RF_SNAPSHOT_COMMON || !IsolationUsesXactSnapshot() ||
		(IsolationIsSerializable() && !rf_allow_snapshot_isolation) || !IsTransactionBlock())
		return false;
	open = rf_session_list_open();
	first = open == NIL;
	list_free(open);
	return first;
}

static bool
has_mapping(const RfRemembered *entry)
{
	return SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(entry->serverid)) &&
		OidIsValid(rf_mapping_id(entry->userid, entry->serverid));
}

/*
 * Returns these users and, if earlier transactions needed one of their nodes too late, all that are
 * remembered with them.
 */
static List *
add_remembered(List *users)
{
	List	   *all = list_copy(users);
	List	   *open;
	bool		any = false;
	ListCell   *lc;

	if (rf_snapshot_remembered() == NIL)
		return all;
	open = rf_session_list_open();
	if (open != NIL)
	{
		list_free(open);
		return all;
	}
	foreach(lc, users)
	{
		UserMapping *user = lfirst(lc);

		any |= rf_snapshot_is_remembered(user->serverid, user->userid);
	}
	foreach(lc, rf_snapshot_remembered())
	{
		RfRemembered *entry = lfirst(lc);

		if (any && has_mapping(entry))
			all = lappend(all, rf_user_mapping(entry->userid, entry->serverid));
	}
	return all;
}

/*
 * The users' sessions that can be connected; *count: how many. The remaining users are left out of
 * the statement, now or by an earlier call for it.
 */
static RfSession **
connect_all(List *users, uint64 statement, int *count)
{
	RfSession **sessions = palloc(sizeof(RfSession *) * Max(list_length(users), 1));
	ListCell   *lc;

	*count = 0;
	foreach(lc, users)
	{
		UserMapping *user = lfirst(lc);
		RfSession  *session = rf_session_find(user->umid);

		if (session->loss.left_out == statement)
			continue;
		sessions[*count] = rf_session_try(user);
		if (sessions[*count] != NULL)
			(*count)++;
		else
			session->loss.left_out = statement;
	}
	return sessions;
}

/*
 * One node of each choice: a node that the statement uses anyway, or the most suitable. Returns the
 * users with the chosen nodes.
 */
static List *
choose(List *users, List *choices, uint64 statement)
{
	List	   *all = list_copy(users);
	int			count;
	RfSession **sessions = connect_all(users, statement, &count);
	ListCell   *lc;

	foreach(lc, choices)
	{
		RfNodeChoice *choice = lfirst(lc);
		ListCell   *other;

		*choice->user = NULL;
		foreach(other, all)
		{
			UserMapping *user = lfirst(other);

			if (user->userid == choice->userid &&
				list_member_oid(choice->servers, user->serverid) &&
				rf_session_find(user->umid)->loss.left_out != statement)
			{
				*choice->user = user;
				rf_session_find(user->umid)->xact.reads_copies |= list_length(choice->servers) > 1;
				break;
			}
		}
		if (*choice->user == NULL)
		{
			(void) rf_session_get_any(statement, choice->userid, choice->servers, choice->user);
			all = lappend(all, *choice->user);
		}
	}
	pfree(sessions);
	return all;
}

/* In READ COMMITTED. */
static void
begin_statement(List *users, uint64 statement)
{
	int			count;
	RfSession **sessions = connect_all(users, statement, &count);

	rf_statement_snapshot_together(sessions, count, statement);
	pfree(sessions);
}

static void
begin_together(List *users, uint64 statement)
{
	int			count;
	RfSession **sessions = connect_all(users, statement, &count);

	rf_sessions_begin(sessions, count);
	pfree(sessions);
}

/* From REPEATABLE READ on. */
static void
begin_transaction(List *users, uint64 statement)
{
	List	   *volatile all = add_remembered(users);

	if (list_length(all) == list_length(users))
	{
		if (list_length(users) > 1)
			begin_together(users, statement);
	}
	else
	{
		/* a node that is gone must not make every later transaction fail */
		PG_TRY();
		{
			begin_together(all, statement);
		}
		PG_CATCH();
		{
			rf_snapshot_forget();
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	list_free(all);
}

uint64
rf_statement_begin(List *users, List *choices, RfOpenStatements open)
{
	static uint64 statements = 0;
	uint64		statement = ++statements;
	List	   *all = choices == NIL ? users : choose(users, choices, statement);

	rf_statement_snapshots_end(open);
	if (rf_snapshot_is_common())
	{
		if (IsolationUsesXactSnapshot())
			begin_transaction(all, statement);
		else if (list_length(all) > 1)
			begin_statement(all, statement);
	}
	if (all != users)
		list_free(all);
	return statement;
}

void
rf_statement_keep(List *users, uint64 statement)
{
	int			count;
	RfSession **sessions = connect_all(users, statement, &count);

	rf_statement_snapshot_keep(sessions, count, statement);
	pfree(sessions);
}

void
rf_statement_restart(RfSession *const *sessions, int count, uint64 statement)
{
	for (int i = 0; i < count; i++)
		rf_session_abort_transaction(sessions[i]);
	if (IsolationUsesXactSnapshot())
		rf_sessions_begin(sessions, count);
	else if (statement != 0)
		rf_statement_snapshot_together(sessions, count, statement);
}
