/*
 * compare_snapshots.c - the node's answers to a reader that compares its snapshots of several
 * nodes.
 *
 * A coordinator keeps its own commits and its snapshots of several nodes apart (remote/gate.c).
 * Commits of other coordinators it cannot hold back. So once it has the snapshots it asks the nodes
 * whether some transaction is visible in one of them and not in another
 * (remote/other_coordinators.c). A transaction commits nowhere before it is prepared everywhere. So
 * on the node whose snapshot does not see it, its part is prepared or has been committed since, and
 * is in the log of parts (part_log.c):
 *
 *	1. rdma_internal.unseen_parts there names it, and how long ago it was prepared;
 *	2. rdma_internal.seen_parts on the other nodes looks for its name. Where it has been committed
 *	   for less long than that, it is in the log, or the log does not reach back that far.
 *
 * PostgreSQL itself decides from the snapshot and the transaction ID which transactions a snapshot
 * sees.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/snapmgr.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/wire.h"
#include "base/clock.h"
#include "base/result_row.h"
#include "kept_snapshot.h"
#include "part_log.h"


PG_FUNCTION_INFO_V1(rdma_other_parts_age);
PG_FUNCTION_INFO_V1(rdma_unseen_parts);
PG_FUNCTION_INFO_V1(rdma_seen_parts);

static uint64 transaction_position = 0; /* of the log behind this transaction's snapshot, from
										 * REPEATABLE READ on; 0: not known */

static void
at_transaction_end(XactEvent event, void *arg)
{
	transaction_position = 0;
}

static void
note_position(void)
{
	static bool watching = false;

	if (!watching)
		RegisterXactCallback(at_transaction_end, NULL);
	watching = true;
	transaction_position = rf_part_log_position();
}

/*
 * rdma_internal.other_parts_age(coordinator bigint): rf_part_log_others_age, of the transaction's
 * snapshot from REPEATABLE READ on
 */
Datum
rdma_other_parts_age(PG_FUNCTION_ARGS)
{
	note_position();
	PG_RETURN_INT64(rf_part_log_others_age((uint64) PG_GETARG_INT64(0)));
}

/*
 * The snapshot of the reader's statement, or (0) of the transaction; and where the log was behind
 * it.
 */
static Snapshot
find_snapshot(uint64 statement, uint64 *position)
{
	RfStreamSnapshot request = {statement};

	if (statement != 0)
		return rf_kept_snapshot(&request, position);
	*position = transaction_position;
	return GetActiveSnapshot();
}

/* All transactions that are so old have ended before any snapshot that there is. */
static bool
is_ancient(const RfTransactionPart *part)
{
	return U64FromFullTransactionId(ReadNextFullTransactionId()) -
		U64FromFullTransactionId(part->xid) >=
		PG_INT32_MAX;
}

static bool
is_visible(const RfTransactionPart *part, Snapshot snapshot)
{
	TransactionId xid = XidFromFullTransactionId(part->xid);

	return is_ancient(part) || (!XidInMVCCSnapshot(xid, snapshot) && TransactionIdDidCommit(xid));
}

typedef struct Unseen
{
	uint64		coordinator;
	TransactionId xmin;
} Unseen;

static bool
may_be_unseen(const RfTransactionPart *part, const void *arg)
{
	const Unseen *unseen = arg;

	return part->coordinator != unseen->coordinator &&
		!TransactionIdPrecedes(XidFromFullTransactionId(part->xid), unseen->xmin);
}

/*
 * rdma_internal.unseen_parts(coordinator bigint, statement bigint, OUT part bigint, OUT age bigint,
 * OUT owner bigint): the parts of other coordinators that the snapshot does not see, prepared or
 * committed; by the name that the transaction has on all nodes; how long ago, in microseconds, they
 * were prepared; and whose they are. A row of NULLs: there may be further parts, which the log does
 * not have any more.
 */
Datum
rdma_unseen_parts(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	Unseen		unseen = {(uint64) PG_GETARG_INT64(0)};
	uint64		position;
	Snapshot	snapshot;
	RfTransactionPart *parts;
	int			count;

	InitMaterializedSRF(fcinfo, 0);
	snapshot = find_snapshot((uint64) PG_GETARG_INT64(1), &position);
	unseen.xmin = snapshot->xmin;
	parts = rf_part_log_collect(may_be_unseen, &unseen, &count);
	for (int i = 0; i < count; i++)
	{
		if (is_visible(&parts[i], snapshot))
			continue;
		rf_put_number(&row, parts[i].name);
		rf_put_number(&row, (uint64) (rf_now_us() - parts[i].prepared_us));
		rf_put_number(&row, parts[i].coordinator);
		rf_end_row(&row);
	}
	if (!rf_part_log_is_complete(snapshot, position))
		rf_end_row(&row);
	return (Datum) 0;
}

static bool
is_named(const RfTransactionPart *part, const void *arg)
{
	return part->name == *(const uint64 *) arg;
}

static bool
may_be_seen(uint64 name, int64 age, Snapshot snapshot)
{
	int			count;
	RfTransactionPart *parts = rf_part_log_collect(is_named, &name, &count);
	bool		seen = count == 0 && !rf_part_log_reaches(age);

	for (int i = 0; i < count && !seen; i++)
		seen = is_visible(&parts[i], snapshot);
	pfree(parts);
	return seen;
}

/*
 * rdma_internal.seen_parts(statement bigint, parts bigint[], ages bigint[]): does the snapshot see
 * one of these, which another node's does not, or may it?
 */
Datum
rdma_seen_parts(PG_FUNCTION_ARGS)
{
	Datum	   *names;
	Datum	   *ages;
	bool	   *name_nulls;
	bool	   *age_nulls;
	int			count;
	int			age_count;
	uint64		position;
	Snapshot	snapshot = find_snapshot((uint64) PG_GETARG_INT64(0), &position);
	bool		seen = false;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &names, &name_nulls, &count);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &ages, &age_nulls, &age_count);
	if (age_count != count)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("there are %d parts, and %d ages", count, age_count)));
	for (int i = 0; i < count && !seen; i++)
	{
		CHECK_FOR_INTERRUPTS();
		seen = name_nulls[i] || age_nulls[i] ||
			may_be_seen((uint64) DatumGetInt64(names[i]), DatumGetInt64(ages[i]), snapshot);
	}
	PG_RETURN_BOOL(seen);
}
