/*
 * placement.h
 *		What is on record about servers with nodes: the extension's table rdma.placement.
 */
#ifndef RF_PLACEMENT_H
#define RF_PLACEMENT_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* Columns of rdma.placement. */
enum
{
	PLACEMENT_SERVER = 1,
	PLACEMENT_SET_ID,
	PLACEMENT_VERSION,
	PLACEMENT_NODES,
	PLACEMENT_MEMBERS,
	PLACEMENT_BUCKETS,
	PLACEMENT_SERVERID,			/* not read */
	PLACEMENT_NODEIDS,			/* not read */
	PLACEMENT_VERSIONS,
	PLACEMENT_TIMELINES,
	PLACEMENT_COLUMNS = PLACEMENT_TIMELINES
};

/*
 * The nodes of one server with nodes. A node's number is its place in `nodes`, from 0. It changes
 * only when another node is removed, and neither the order nor the names in option "nodes" have a
 * say in it. A row is in bucket hash % bucket_count.
 */
typedef struct RfPlacementRecord
{
	char	   *server;			/* the server with nodes */
	Oid			serverid;		/* InvalidOid: it was dropped, and the record has no meaning */
	char	   *set_id;			/* of this set of nodes, a UUID as text */
	char	   *version;		/* of its placement */
	int			node_count;
	char	  **versions;		/* of the placement when what lies on each node changed last */
	char	  **nodes;			/* names of their servers */
	bool	   *binds_all;		/* has the server's owner the rights of the owner of the node's
								 * server? */
	char	  **members;		/* UUIDs of the databases that they lead to; NULL: not known yet */
	int64	   *timelines;		/* the newest that each was seen on; 0: the first */
	int			bucket_count;
	uint16	   *buckets;		/* the number of each bucket's node */
} RfPlacementRecord;

/*
 * The record of a server with nodes, in the current memory context; NULL: it has no record.
 */
extern RfPlacementRecord *rf_placement_find(const char *server);

/*
 * What a database must say of itself (rdma_internal.memberships) if a server leads to it: one
 * RfPlacementPart for each set of nodes in which it is known. In the current memory context; NIL:
 * nothing.
 *
 * A record binds all sessions on a node if the owner of its server has the rights of the owner of
 * the node's server. Others may have records, too, which bind only transactions that use their
 * servers: no role can keep others from a node that it may use.
 */
typedef struct RfPlacementPart
{
	const RfPlacementRecord *record;
	int			number;
} RfPlacementPart;

extern List *rf_placement_parts(const char *node);

/*
 * This transaction uses a server with nodes: from now on its record binds. Before a session for it
 * is handed out (rf_session_get). Nothing for other servers, and cheap.
 */
extern void rf_placement_use(Oid serverid);

/* Is there any server whose use has to be told? */
extern bool rf_placement_may_use(void);

/* Changes when any record may have changed, or other ones bind. */
extern uint64 rf_placement_generation(void);

/* The table; InvalidOid: the database has none. */
extern Oid	rf_placement_table(void);

/* All sessions read the records again when the transaction has committed. */
extern void rf_placement_invalidate(void);

/*
 * The column of a query that asks for it, with the comma before it; empty if there is nothing to
 * ask.
 */
extern char *rf_placement_question(List *parts);

/*
 * ERROR if the answer is not what is on record, but for the version of the placement, which is for
 * rf_placement_differs and rf_placement_complain. NULL: the database has no such function.
 */
extern void rf_placement_check(List *parts, const char *answer);

/*
 * The version of the placement in the answer, as text; NULL: the database is no node of this set.
 */
extern const char *rf_placement_version(const RfPlacementPart *part, const char *answer);

/* The timeline in the answer; 0: it has none. */
extern int64 rf_placement_timeline(const RfPlacementPart *part, const char *answer);

/* Has the answer a later timeline than one of the records? */
extern bool rf_placement_is_later(List *parts, const char *answer);

/*
 * The part of which the answer has another version than the record, in `there`, or an older
 * timeline; NULL: there is none. Whoever reads or writes rows then would do so where they were, or
 * will be.
 */
extern RfPlacementPart *rf_placement_differs(List *parts, const char *answer, char **there);
extern void rf_placement_complain(const RfPlacementPart *part, const char *there)
			__attribute__((noreturn));

/* ---------- timeline.c ---------- */

/*
 * At commit of a transaction that has used the node: puts the timelines of the answer on record
 * where they are later. Never waits; what it could not write is for the next transaction.
 */
extern void rf_timeline_keep(const char *node, const char *answer);

#endif							/* RF_PLACEMENT_H */
