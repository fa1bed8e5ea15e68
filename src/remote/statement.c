/*
 * statement.c - begins a statement on its nodes.
 *
 * It gets a number, and in READ COMMITTED one snapshot of its nodes (statement_snapshot.c).
 *
 * From REPEATABLE READ on the transaction has one snapshot of all nodes (snapshot.c). As it cannot know
 * its later needs, it begins with what it names: a transaction block names whole servers. Nodes that an
 * earlier transaction of this session needed too late are begun together with those that it had. So a
 * transaction that is tried again succeeds.
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
		(SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(entry->userid),
							   ObjectIdGetDatum(entry->serverid)) ||
		 SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
							   ObjectIdGetDatum(entry->serverid)));
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
			all = lappend(all, GetUserMapping(entry->userid, entry->serverid));
	}
	return all;
}

/*
 * Those of the users' sessions that can be connected; *count: how many. A node that cannot be may not be
 * needed; whoever needs it says why. statement: that leaves it out, 0: the transaction does.
 */
static RfSession **
connect_all(List *users, uint64 statement, int *count)
{
	RfSession **sessions = palloc(sizeof(RfSession *) * list_length(users));
	ListCell   *lc;

	*count = 0;
	foreach(lc, users)
	{
		ErrorData  *error = NULL;

		sessions[*count] = rf_session_try(lfirst(lc), &error);
		if (sessions[*count] != NULL)
			(*count)++;
		else
		{
			FreeErrorData(error);
			rf_session_find(((UserMapping *) lfirst(lc))->umid)->left_out = statement;
		}
	}
	return sessions;
}

static void
begin_statement(List *users, uint64 statement)
{
	RfSession **sessions;
	int			count;

	if (!rf_snapshot_is_common() || list_length(users) < 2)
		return;
	sessions = connect_all(users, statement, &count);
	rf_statement_snapshot_together(sessions, count, statement);
	pfree(sessions);
}

static void
begin_together(List *users)
{
	int			count;
	RfSession **sessions = connect_all(users, 0, &count);

	rf_snapshot_of_transaction(sessions, count);
	pfree(sessions);
}

static void
begin_transaction(List *users)
{
	List	   *volatile all;

	if (!rf_snapshot_is_common())
		return;
	all = add_remembered(users);
	if (list_length(all) == list_length(users))
	{
		if (list_length(users) > 1)
			begin_together(users);
	}
	else
	{
		/* a node that is gone must not make every later transaction fail */
		PG_TRY();
		{
			begin_together(all);
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
rf_statement_begin(List *users, RfOpenStatements open)
{
	static uint64 statements = 0;
	uint64		statement = ++statements;

	rf_statement_snapshots_end(open);
	if (IsolationUsesXactSnapshot())
		begin_transaction(users);
	else
		begin_statement(users, statement);
	return statement;
}

void
rf_statement_keep(List *users, uint64 statement)
{
	int			count;
	RfSession **sessions = connect_all(users, IsolationUsesXactSnapshot() ? 0 : statement, &count);

	rf_statement_snapshot_keep(sessions, count, statement);
	pfree(sessions);
}

void
rf_statement_begin_again(RfSession *const *sessions, int count, uint64 statement)
{
	if (IsolationUsesXactSnapshot())
		rf_snapshot_of_transaction(sessions, count);
	else
		rf_statement_snapshot_together(sessions, count, statement);
}
