/*
 * waiting.h - which backends wait for nodes, so that deadlocks over several nodes are found.
 *
 * waiting.c    the backends' entries in shared memory
 * deadlock.c   the graph of waits, and the process that looks for circles in it
 */
#ifndef RF_WAITING_H
#define RF_WAITING_H

#include "postgres.h"

#include "utils/timestamp.h"

#include "rdma_fdw/remote.h"

#define RF_WAITING_SESSIONS	256 /* of one backend; more are not found in circles */
#define RF_DEADLOCK_DETAIL	512

/* A connection of a backend: which server process, on which node, serves it. */
typedef struct RfWaitingSession
{
	uint64		cluster;		/* system identifier of the node */
	int			remote_pid;
	Oid			serverid;
	Oid			userid;			/* whose mapping it was made with */
} RfWaitingSession;

/* A copy of a backend's entry. */
typedef struct RfWaiter
{
	int			procno;
	int			pid;
	TimestampTz started;		/* its transaction; valid while it waits */
	TimestampTz since;			/* it waits for a node; 0: it does not */
	int			session_count;
	RfWaitingSession *sessions;
} RfWaiter;

/* ---------- the backend; without the preloaded library these do nothing ---------- */

/* A connection was made, or is closed. */
extern void rf_waiting_connected(const RfWaitingSession *session);
extern void rf_waiting_disconnected(uint64 cluster, int remote_pid);

/*
 * It begins to wait for a node, or goes on with it; the answer came, or it gave up. Between the
 * two, whenever it was woken: raises the ERROR if it was chosen to end a deadlock.
 */
extern void rf_waiting_begin(void);
extern void rf_waiting_end(void);
extern void rf_waiting_check(void);

/* ---------- the processes that look ---------- */

/*
 * For the launcher: databases in which somebody waits for longer than a deadlock may last (an array
 * of OIDs in the current memory context), and in how many milliseconds to look again; -1: nobody
 * waits, and this process's latch is set when somebody does.
 */
extern int	rf_waiting_databases(Oid **databases, long *look_again_ms);

/* Backends of this database with connections; an array in the current memory context. */
extern int	rf_waiting_list(RfWaiter **waiters);
extern bool rf_waiting_is_long(const RfWaiter *waiter);

/* Have it raise an error, if it is still in the same wait. */
extern void rf_waiting_cancel(const RfWaiter *waiter, const char *detail);

#endif
