/*
 * plan_private.h
 * 		Data that planning passes to execution: the structures in the private lists of ForeignScan,
 * 		ModifyTable and CustomScan. Their fields are in plan_private.c, too.
 */
#ifndef RF_PLAN_PRIVATE_H
#define RF_PLAN_PRIVATE_H

#include "postgres.h"

#include "access/sysattr.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "nodes/value.h"

#include "rdma_fdw/plan_node.h"

#include "fdw/deparse/planned_exchange.h"
#include "fdw/options/option.h"

/* ---------- scans ---------- */

/*
 * The columns by which every node's rows are sorted, or the rows of a batched lookup: one of a
 * list, the first is the most significant.
 */
typedef struct RfMergeKey
{
	ExtensibleNode node;
	int			attno;			/* of the scan tuple; of a lookup's rows 0: it is behind their
								 * columns */
	bool		nulls_first;
	Oid			operator;		/* that sorts */
	Oid			collation;
} RfMergeKey;

/*
 * Rows come from the compute nodes only. A compute node that also stores rows runs the unchanged
 * statement.
 */
typedef struct RfComputePlan
{
	ExtensibleNode node;
	List	   *places;			/* IntList: of the compute nodes */
	int			holders;		/* nodes at the places before this one store rows */
	char	   *send_sql;		/* for nodes that only store rows: the exchanges that send them; it
								 * has no columns and no rows */
	char	   *join_sql;		/* for nodes that store no rows: without the queries of these
								 * exchanges */
} RfComputePlan;

/* The server stands for many nodes: the statement runs on several of them. */
typedef struct RfNodesPlan
{
	ExtensibleNode node;
	List	   *servers;		/* OidList: of the nodes, in order */
	List	   *places;			/* IntList: places there of the nodes that run the statement */
	List	   *exchanges;		/* RfPlannedExchanges; members are places in `places` */
	List	   *merge;			/* RfMergeKeys; NIL: rows come in any order */

	/*
	 * IntList: places in ForeignScan.fdw_exprs of the values that all distribution keys have, in
	 * order, coerced to the keys' types: only the node given by their hash runs the statement.
	 * NIL: all nodes run it. They may follow the values of the remote parameters or be among them.
	 */
	List	   *prune;
	List	   *keys;			/* OidList: types, then collations of the distribution keys; NIL
								 * with `prune` */
	char	   *strategy;		/* for EXPLAIN; empty for a plain scan */
	RfComputePlan *compute;		/* NULL: the nodes that store the rows also join them */
	List	   *node_sql;		/* Strings, by place: where nodes have different tables; NIL: all
								 * run the same statement */
	bool		any;			/* any of the servers can run it, `places` has the first */
} RfNodesPlan;

/*
 * The statement that reads rows of this node by flow. It has the parameters of the statement that
 * reads them from arrays. Its first exchanges carry these rows, in the order of the inputs.
 */
typedef struct RfFlowPlan
{
	ExtensibleNode node;
	char	   *sql;
	List	   *node_sql;		/* as RfNodesPlan.node_sql */
	List	   *exchanges;		/* RfPlannedExchanges */
} RfFlowPlan;

/*
 * The only member of ForeignScan.fdw_private. The values of the remote parameters are
 * ForeignScan.fdw_exprs, in the order of $1, $2, ...; evaluate them when the scan starts and after
 * every rescan with changed parameters.
 */
typedef struct RfScanPlan
{
	ExtensibleNode node;
	char	   *sql;			/* the complete remote statement, for a session with search_path =
								 * pg_catalog */

	/*
	 * IntList: for every remote output column, in order, the attribute number here that it fills
	 * (ctid is SelfItemPointerAttributeNumber, the remote tableoid RF_ROW_TABLE). Attributes not
	 * listed are NULL. An empty list means rows without columns: only their number matters.
	 */
	List	   *attrs;
	List	   *param_types;	/* OidList: of the remote parameters; the data node gets their
								 * names */
	RfFetchOptions fetch;
	double		rows;			/* expected to cross the wire, for progress and for buffer choice */
	char	   *relation;		/* the remote relation's name, for error context */

	/*
	 * OidList: for every remote output column the deserial function that its values, states of an
	 * aggregate, will go through; InvalidOid for other columns. Empty without states.
	 */
	List	   *states;
	char	   *description;	/* in EXPLAIN, of a join or an upper relation; empty for a table */
	RfNodesPlan *nodes;			/* NULL for an ordinary server */
	Oid			userid;			/* whose rights it has; InvalidOid: the current user's */
	bool		set_operation;	/* its columns belong to no relation of the planner */

	/*
	 * NULL, or below a key join the statement for all rows. `sql` then asks for those whose keys
	 * are in an array, its last parameter, which the join sets.
	 */
	char	   *all_sql;
	List	   *joined_here;	/* Strings, for EXPLAIN: which joins are done here, and why */
	List	   *filtered_here;	/* the same: why conditions are evaluated here */

	/*
	 * IntLists: the places of the remote parameters that are columns of local rows, and their
	 * numbers, which RF_LOCAL_PARAM made. Their node sets them.
	 */
	List	   *local_places;
	List	   *local_params;
	RfFlowPlan *flow;			/* the same statement for many of these rows; NULL without them */
	char	   *batch_sql;		/* the statement for many values of the parameters, see
								 * lookahead_plan.c; or NULL */
	char	   *late_lock;		/* how rows are locked one by one when they are returned, as in the
								 * query: "FOR UPDATE SKIP LOCKED", see late_locks.c; empty: they
								 * are not */
} RfScanPlan;

static inline RfScanPlan *
rf_scan_plan(const ForeignScan *plan)
{
	return rf_plan_node_of(RfScanPlan, plan->fdw_private);
}

static inline Oid
rf_scan_userid(const ForeignScan *plan)
{
	Oid			userid = rf_scan_plan(plan)->userid;

	return OidIsValid(userid) ? userid : GetUserId();
}

/*
 * Servers any of which can run the statement; NIL: that is fixed, or the values of a key decide it.
 */
static inline List *
rf_scan_any(const ForeignScan *plan)
{
	RfNodesPlan *nodes = rf_scan_plan(plan)->nodes;

	return nodes->any ? nodes->servers : NIL;
}


/* ---------- local rows ---------- */

/*
 * CustomScan: custom_plans are the statement, with the plans above it, and the plans that give the
 * rows. custom_private: RfLocalRowsPlan.
 */
#define RF_LOCAL_ROWS_NAME	"Local Rows"

/* IntLists, for each of the statement's local_params, both from 0 */
typedef struct RfLocalRowsPlan
{
	ExtensibleNode node;
	List	   *inputs;			/* which of the plans that give the rows */
	List	   *columns;		/* which of its columns */
	bool		by_flow;		/* the statement has no arrays, also for few rows */
} RfLocalRowsPlan;

/* ---------- lookahead (lookahead_plan.c) ---------- */

/*
 * Reads rows ahead, and tells batched lookups the values that the parameters will have for them.
 * CustomScan.custom_exprs: those values, in terms of a row; custom_private: RfLookaheadPlan.
 */
#define RF_LOOKAHEAD_NAME	"Lookahead"

typedef struct RfLookaheadPlan
{
	ExtensibleNode node;
	List	   *params;			/* IntList: the numbers of the parameters */
	List	   *lookups;		/* IntList: the numbers of the lookups */
} RfLookaheadPlan;

/*
 * Stands for a foreign scan with parameters, and has one below it with the statement for many
 * values of these. CustomScan.custom_exprs: the scan's; custom_private: RfLookupPlan.
 */
#define RF_LOOKUP_NAME		"Batched Lookup"

typedef struct RfLookupPlan
{
	ExtensibleNode node;
	int			number;			/* of the lookup in the plan */
	int			columns;		/* that a row has */
	List	   *sort;			/* RfMergeKeys by which the rows of several nodes are sorted; each
								 * is behind the row's columns, in order */

	/*
	 * How the values tell the only node that has rows for them: as in RfNodesPlan, and the server.
	 * NIL: all nodes may have rows.
	 */
	List	   *prune;
	List	   *keys;
	Oid			server;

	/*
	 * These describe a lookup by keys (lookup_paths.c). Its custom_exprs are the key and the
	 * equality, for EXPLAIN, and its scan has a statement for all rows.
	 */
	List	   *operator;		/* OidList: column = key, and the collation; NIL: not by keys */
	int			column;			/* its place in the scan's rows, from 0 */
	double		key_rows;		/* the cost of sending a key, in rows */
	double		most;			/* after lookups that cost this many rows, all are read */
	bool		first_rows;		/* begin with few keys */
} RfLookupPlan;


/* Stands for the keys in a condition while a statement is made; no parameter of a plan has it. */
#define RF_KEYS_PARAM		(-1)

#define RF_KEYS_FIRST		64	/* rows whose keys are sent first where only the first rows may be
								 * wanted */
#define RF_KEYS_MAX			10000	/* keys that are sent at once */

/* ---------- writes ---------- */

/* ON CONFLICT of an INSERT */
typedef struct RfConflict
{
	char	   *sql;			/* of the remote INSERT; NULL: there is no such clause */
	List	   *columns;		/* DO UPDATE: IntList, those of the conflict; NIL: DO NOTHING */
	List	   *params;			/* expressions whose values become $n in sql: the numbers follow
								 * those of the row's values */
	List	   *param_types;	/* OidList */
} RfConflict;

/*
 * A table that ModifyTable writes row by row: the only member of its list of ModifyTable's
 * fdwPrivLists
 */
typedef struct RfModifyPlan
{
	ExtensibleNode node;
	char	   *sql;
	List	   *targets;		/* IntList: written attributes */
	List	   *retrieved;		/* IntList: attributes returned by RETURNING, in order */
	RfConflict	conflict;		/* of an INSERT */
	char	   *move_delete;	/* the statements for rows that move to another node: there, */
	char	   *move_insert;	/* and here; NULL: rows stay */
	List	   *key;			/* IntList: the columns that name a row beside its place */
	char	   *copy_sql;		/* for the copies of a replicated table's row on other nodes than
								 * the first; or NULL */
} RfModifyPlan;

/*
 * Data nodes write by themselves: takes the place of RfScanPlan. fdw_exprs: the parameters' values.
 */
typedef struct RfDirectPlan
{
	ExtensibleNode node;
	char	   *sql;
	List	   *param_types;	/* OidList */
	List	   *retrieved;		/* IntList: attributes returned by RETURNING, in order */
	bool		set_processed;	/* its rows are part of the statement's count */
	List	   *keys;			/* OidList, as RfNodesPlan.keys: fdw_exprs has the keys' values
								 * behind the parameters'; NIL: all nodes write */
	List	   *exchanges;		/* of INSERT: RfPlannedExchanges */
	RfFetchOptions fetch;		/* for the buffers of these */
	char	   *strategy;		/* for EXPLAIN of INSERT over nodes; otherwise empty */
} RfDirectPlan;

static inline RfDirectPlan *
rf_direct_plan(ForeignScan *plan)
{
	return rf_plan_node_of(RfDirectPlan, plan->fdw_private);
}

/* Makes these structures known to PostgreSQL, see plan_node.h. */
extern void rf_plan_private_register(void);

#endif
