/*
 * statement.c - begins the transactions of a statement's nodes together.
 *
 * A transaction that cannot know its later needs begins with what it names. In REPEATABLE READ a
 * transaction block names whole servers. Nodes that an earlier transaction of this session needed
 * too late are begun together with those that it had. So a transaction that is tried again
 * succeeds.
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

	if (rf_snapshot_remembered() == NIL ||
		!(IsTransactionBlock() || IsolationUsesXactSnapshot() || rf_snapshot_remembers_function()))
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
 * A node that cannot be connected may not be needed; whoever needs it says why. If it can be connected
 * by then, its snapshot would be another one than those that the others have since.
 */
static void
begin_together(List *users, List *others)
{
	RfSession **sessions = palloc(sizeof(RfSession *) * list_length(users));
	List	   *kept = NIL;
	int			count = 0;
	ListCell   *lc;

	foreach(lc, users)
	{
		ErrorData  *error = NULL;

		sessions[count] = rf_session_try(lfirst(lc), &error);
		if (sessions[count] != NULL)
			count++;
		else
		{
			FreeErrorData(error);
			rf_session_find(((UserMapping *) lfirst(lc))->umid)->left_out = true;
		}
	}
	foreach(lc, others)
		kept = lappend(kept, rf_session_find(((UserMapping *) lfirst(lc))->umid));
	rf_snapshot_together(sessions, count, kept, false);
	list_free(kept);
	pfree(sessions);
}

void
rf_statement_begin(List *users, List *others)
{
	List	   *volatile all;
	ListCell   *lc;

	if (rf_snapshot_mode != RF_SNAPSHOT_COMMON ||
		(IsolationIsSerializable() && !rf_allow_snapshot_isolation))
		return;
	foreach(lc, users)
		rf_session_find(((UserMapping *) lfirst(lc))->umid)->left_out = false;
	all = add_remembered(users);
	if (list_length(all) == list_length(users))
	{
		if (list_length(users) > 1)
			begin_together(users, others);
	}
	else
	{
		/* a node that is gone must not make every later transaction fail */
		PG_TRY();
		{
			begin_together(all, others);
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
