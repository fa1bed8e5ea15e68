/*
 * commit.h - shared by the files of atomic commit.
 *
 * A transaction that wrote on several nodes, or on one and here, is prepared on each node. The
 * decision is one row per node in the table rdma.decisions, written and flushed by the local
 * transaction's own commit: where a row is there the node commits, where it is missing the node
 * rolls back. Then the nodes hear COMMIT PREPARED.
 *
 * commit_state.c   messages of backends and the resolver in shared memory
 * decision.c       the table
 * commit.c         the end of a transaction, in its backend
 * recover.c        finishing the parts that other backends left, on one node
 * resolver.c       the background workers that do so
 */
#ifndef RF_COMMIT_H
#define RF_COMMIT_H

#include "postgres.h"

#include "utils/timestamp.h"

#include "rdma_fdw/remote.h"

#define RF_GID_SIZE		128		/* PostgreSQL allows 200 */

/*
 * The name of one node's part of a transaction. Never used again: `life` is new whenever shared
 * memory is, `number` counts within one. The database is part of it because several may share
 * nodes.
 */
typedef struct RfGid
{
	uint64		cluster;		/* system identifier of the coordinator */
	Oid			database;
	uint64		life;
	uint64		number;			/* of the transaction; never 0 */
	uint32		part;			/* of its nodes, from 1 */
} RfGid;

extern void rf_gid_print(const RfGid *gid, char *text); /* RF_GID_SIZE bytes */

/* Returns true for a name of this database of this cluster, of any life. Else *gid is undefined. */
extern bool rf_gid_parse(const char *text, RfGid *gid);

/* The common prefix of all names of this database, for queries: allocated. */
extern char *rf_gid_prefix(void);

/* ---------- shared memory (commit_state.c) ---------- */

/*
 * A part that its backend could not finish. Written by backends under the lock, and by the
 * resolver, which also takes it away when it is finished.
 */
typedef struct RfUnresolved
{
	Oid			database;
	Oid			serverid;
	Oid			userid;			/* the local user whose mapping has it */
	uint64		node;			/* system identifier of the cluster that has it */
	bool		commit;			/* the decision */
	TimestampTz since;
	char		gid[RF_GID_SIZE];	/* "": a node that could not be asked for its parts */
	char		problem[128];	/* why the resolver could not finish it; "" = it has not tried */
} RfUnresolved;

/*
 * False if the library was not preloaded, so that nobody would finish the parts that a backend
 * leaves.
 */
extern bool rf_commit_available(void);

/*
 * Begin: a new number, and its transaction counts as active until rf_commit_end. Raises an ERROR
 * when there is no room for another database.
 */
extern uint64 rf_commit_begin(void);
extern uint64 rf_commit_life(void);
extern TimestampTz rf_commit_life_start(void);

/* These functions raise no error; they are called when nothing may fail any more. */
extern void rf_commit_written(void);	/* rows of this database are there to be removed */
extern void rf_commit_unresolved(Oid serverid, Oid userid, uint64 node, const char *gid,
								 bool commit);
extern void rf_commit_end(void);

/* Returns true if the backend that has it is still at it. `gid` is of this life. */
extern bool rf_commit_is_active(const RfGid *gid);

/* This database's; an array in the current memory context. */
extern int	rf_commit_list(RfUnresolved **list);

/* The resolver knows that this one is finished; or why it is not, adding it if nobody has. */
extern void rf_commit_resolved(const char *gid);
extern void rf_commit_problem(const RfUnresolved *part, const char *problem);

/*
 * Returns true if a transaction of any database has committed, and is not finished on one of these
 * nodes. The gate keeps further transactions from becoming so.
 */
extern bool rf_commit_in_doubt_on(const uint64 *nodes, int count);

/* Rows of this database's table that were written before the server started are all gone. */
extern bool rf_commit_past_is_over(void);
extern void rf_commit_past_over(void);

/* The node was asked; or the server is no node any more, and its entry is of no use. */
extern void rf_commit_asked(Oid serverid, Oid userid, bool gone);

/* For launcher and workers: a database that has something to do. */
typedef struct RfCommitWork
{
	Oid			database;
	bool		ask_all;		/* nodes may have something that is known nowhere here */
	bool		rows;			/* finished transactions left rows */
	bool		unresolved;
	bool		past_is_over;	/* see rf_commit_past_is_over */
} RfCommitWork;

/* Returns true if the database knows of a part that is decided and not finished. */
extern bool rf_commit_is_unresolved(Oid database);

/* The database is gone, and so is the knowledge of it. */
extern void rf_commit_forget_database(Oid database);

extern void rf_commit_launcher(bool here);	/* this process is told when there is more to do; or no
											 * more */
extern int	rf_commit_work(RfCommitWork **list);
extern void rf_commit_ask_all(Oid database);

/* A worker takes the work that `ask_all` and `rows` describe, before it looks. */
extern void rf_commit_take(RfCommitWork *work);

/* ---------- the table (decision.c) ---------- */

typedef struct RfDecision
{
	char		gid[RF_GID_SIZE];
	Oid			serverid;
	Oid			userid;
	uint64		node;			/* system identifier of the cluster that has it */
	TimestampTz decided;
} RfDecision;

/* The table's OID; InvalidOid: the extension in this database is older. */
extern Oid	rf_decision_table(void);
extern void rf_decision_write(Oid table, const RfDecision *decisions, int count);

/* Rows that are committed at the moment of the call: an array in the current memory context. */
extern int	rf_decision_read(RfDecision **decisions);

/*
 * Deletes rows by GID. Needs rf_decision_lock, which has one process at a time remove rows until
 * the end of the transaction; false if another process does.
 */
extern bool rf_decision_lock(void);
extern void rf_decision_delete(const char *const *gids, int count);

/* ---------- the end of a transaction (commit.c) ---------- */

/*
 * Sends a command that ends a level; and its answer. Raises an ERROR unless the command did its
 * work.
 */
extern void rf_commit_send_end(RfSession *session, const char *sql);
extern void rf_commit_await_end(RfSession *session, const char *sql, int depth, bool commit);

/*
 * Asks whether the session's transaction wrote. It comes before PREPARE in every session, so the
 * last command of a session that may still prepare is one of the two.
 */
#define RF_WROTE_SQL	"SELECT pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL"
#define RF_PREPARE_SQL	"PREPARE TRANSACTION "

/* Before the local commit: all remote transactions are ended or prepared. */
extern void rf_commit_before(void);

/* After it: prepared parts are committed. Raises nothing. */
extern void rf_commit_after(void);

/*
 * Returns true if the answer to ROLLBACK PREPARED says that nothing is prepared any more. NULL
 * stands for no answer.
 */
extern bool rf_commit_rolled_back(const PGresult *result);

/* The end of the local transaction: unfinished parts are left to the resolver. */
extern void rf_commit_finish(bool commit);

/* ---------- finishing parts that backends left (recover.c) ---------- */

/*
 * Finishes on the session's node the parts that transactions of this database left there, as far as
 * its role may, and removes their rows. Needs rf_decision_lock. Raises an ERROR when the node
 * cannot be asked; notes the parts that have to be looked at again. Returns how many it finished.
 */
extern int	rf_recover_node(RfSession *session, Oid serverid, Oid userid);

/*
 * Removes the rows of a server, or of a user mapping, that is gone. It could only be dropped
 * because nothing of it was in doubt, so they are of finished transactions, which a crash kept from
 * going. Needs rf_decision_lock.
 */
extern void rf_recover_gone(Oid serverid, Oid userid);

#endif
