/*
 * part_log.h - which parts of distributed transactions have been prepared and committed here, see
 * part_log.c. Nobody outside the room includes it.
 */
#ifndef RF_PART_LOG_H
#define RF_PART_LOG_H

#include "postgres.h"

#include "access/transam.h"
#include "utils/snapshot.h"

typedef struct RfTransactionPart
{
	uint64		coordinator;	/* its system identifier */
	uint64		name;			/* hash of what the names of all its parts have in common */
	uint64		gid;			/* hash of its own name */
	Oid			database;		/* of this server */
	FullTransactionId xid;
	int64		prepared_us;	/* rf_now_us, when it was about to be; below 0: before this machine
								 * started */
	int64		ended_us;		/* when it had been committed; 0: it is prepared */
} RfTransactionPart;

/*
 * The log's position: taken after a snapshot, it tells later which parts may have been committed
 * since.
 */
extern uint64 rf_part_log_position(void);

/*
 * Microseconds since a part of a coordinator other than this one (a system identifier) was last
 * committed here; 0: one is prepared; PG_INT64_MAX if there was no such part.
 */
extern int64 rf_part_log_others_age(uint64 coordinator);

/*
 * Copies of those in this database of which the function says so, palloc'd. It runs under the lock.
 */
extern RfTransactionPart *rf_part_log_collect(bool (*wanted) (const RfTransactionPart *part,
															  const void *arg),
											  const void *arg, int *count);

/*
 * Returns true if the log has all parts that the snapshot does not see. position: behind the
 * snapshot; 0: not known.
 */
extern bool rf_part_log_is_complete(Snapshot snapshot, uint64 position);

/*
 * A transaction was prepared so long ago, in microseconds, on another node. Would its part be in
 * the log if it had been committed here?
 */
extern bool rf_part_log_reaches(int64 age);

#endif
