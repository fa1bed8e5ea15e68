/*
 * serializable.c - restricts SERIALIZABLE to one node, or to local tables.
 *
 * A node sees the conflicts between transactions on itself. Each node sees a part of a cycle that
 * goes over two nodes, or over a node and this server, and both commit transactions that one of
 * them alone would refuse. So a serializable transaction that uses more than one of them is
 * refused, unless its user accepts snapshot isolation (rdma_fdw.allow_snapshot_isolation).
 *
 * The local tables that the transaction used are known by their locks, which it holds to its end.
 * They are examined when the first node is used, and again before the commit.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "session.h"

#define HINT	"Use REPEATABLE READ, or accept as much by rdma_fdw.allow_snapshot_isolation."

/*
 * A table with local rows that the transaction has locked; InvalidOid if there is no such table.
 * Temporary tables do not count, as no other session can use them.
 */
static Oid
local_table(void)
{
	LockData   *locks = GetLockStatusData();
	Oid			found = InvalidOid;

	for (int i = 0; i < locks->nelements && !OidIsValid(found); i++)
	{
		LockInstanceData *lock = &locks->locks[i];
		Oid			relid = lock->locktag.locktag_field2;
		char		kind;

		if (lock->pid != MyProcPid || lock->holdMask == 0 ||
			lock->locktag.locktag_type != LOCKTAG_RELATION ||
			lock->locktag.locktag_field1 != MyDatabaseId || relid < FirstNormalObjectId)
			continue;
		kind = get_rel_relkind(relid);
		if ((kind == RELKIND_RELATION || kind == RELKIND_MATVIEW) &&
			get_rel_persistence(relid) != RELPERSISTENCE_TEMP)
			found = relid;
	}
	return found;
}

static void
refuse_local(RfSession *session)
{
	Oid			table = local_table();

	if (OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a SERIALIZABLE transaction cannot use server \"%s\" and local tables",
						session->server_name),
				 errdetail("It used table \"%s\". Neither side sees all conflicts with other "
						   "transactions.",
						   get_rel_name(table)),
				 errhint(HINT)));
}

void
rf_serializable_begin(RfSession *session)
{
	RfSession  *other;

	if (!IsolationIsSerializable() || rf_allow_snapshot_isolation)
		return;
	other = rf_session_other(session);
	if (other != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a SERIALIZABLE transaction cannot use several nodes"),
				 errdetail("It used server \"%s\", and needs server \"%s\". "
						   "Neither sees all conflicts with other transactions.",
						   other->server_name, session->server_name),
				 errhint(HINT)));
	refuse_local(session);
}

void
rf_serializable_commit(RfSession *session)
{
	if (IsolationIsSerializable() && !rf_allow_snapshot_isolation)
		refuse_local(session);
}
