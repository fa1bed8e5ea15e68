/*
 * gate.h - lets several nodes be seen as one database (gate.c).
 *
 * A commit on several nodes happens on one after the other, and so do the snapshots of a statement
 * that reads them. The gate keeps the two apart: many commits may be inside at the same time, or
 * many that take snapshots, never both. It is one for all databases of this cluster, as they may
 * share nodes.
 *
 * Nothing that may wait for a row runs inside: the backend that has locked the row may be waiting
 * outside.
 */
#ifndef RF_GATE_H
#define RF_GATE_H

#include "postgres.h"

typedef enum RfGateSide
{
	RF_GATE_COMMIT,
	RF_GATE_SNAPSHOT
} RfGateSide;

/*
 * Waits, interruptibly, until nobody of the other side is inside; in the order of arrival. Left at
 * the end of the (sub)transaction at the latest. Entering to commit counts a commit.
 */
extern void rf_gate_enter(RfGateSide side);
extern void rf_gate_leave(RfGateSide side);

/*
 * Called before the local commit by a backend that enters the gate after it, where an error would
 * be fatal: allocates the resources for entering, so that it does not fail.
 */
extern void rf_gate_reserve(void);

/*
 * For a commit on one node alone: nobody takes snapshots when it begins. It need not be inside
 * until its end: a statement that comes in meanwhile sees it or does not, and no later commit
 * begins before the snapshots are all taken.
 */
extern void rf_gate_pass(void);

/*
 * The number of times that a commit on nodes has begun, or one on several has come to its end.
 * Snapshots of which the first was taken after it was read, and the last in the gate while it is
 * the same, are one.
 */
extern uint64 rf_gate_count(void);

/* For a snapshot that need not match other snapshots. */
#define RF_GATE_NEVER	PG_UINT64_MAX

/* One on several nodes has come to its end. Raises nothing. */
extern void rf_gate_finished(void);

/* For rdma.stat_gate: snapshots of several nodes were taken, or taken again. */
extern void rf_gate_note_snapshots(bool again);

#endif
