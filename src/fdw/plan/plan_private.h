/*
 * plan_private.h
 * 		Data that planning passes to execution: the lists in fdw_private of ForeignScan and
 * 		ModifyTable.
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

/*
 * Data that planning passes to execution: ForeignScan.fdw_private
 *
 * A List with one member per value below, in this order.  The node types are copyable, so plans
 * can be cached.  The values of the remote parameters are ForeignScan.fdw_exprs, in the order of
 * $1, $2, ...; evaluate them when the scan starts and after every rescan with changed parameters.
 */
typedef enum RfScanPrivateIndex
{
	/* String: the complete remote statement, for a session with search_path = pg_catalog */
	RF_SCAN_SQL,

	/*
	 * IntList: for every remote output column, in order, the attribute number here that it fills
	 * (ctid is SelfItemPointerAttributeNumber, the remote tableoid RF_ROW_TABLE). Attributes not
	 * listed are NULL. An empty list means rows without columns: only their number matters.
	 */
	RF_SCAN_ATTRS,
	/* OidList: type of each remote parameter; the data node gets their names */
	RF_SCAN_PARAM_TYPES,
	/* IntList: RfFetchOptions, made by rf_fetch_options_list() */
	RF_SCAN_FETCH,
	/* Float: rows the planner expects to cross the wire, for progress and for buffer choice */
	RF_SCAN_ROWS,
	/* Boolean: the statement takes row locks, so it must not run as read-only */
	RF_SCAN_LOCKS_ROWS,
	/* String: the remote relation's name, for error context */
	RF_SCAN_RELATION,

	/*
	 * OidList: for every remote output column the deserial function that its values, states of an
	 * aggregate, will go through; InvalidOid for other columns. Empty without states.
	 */
	RF_SCAN_STATES,
	/* String: EXPLAIN's description of a join or an upper relation; empty for a table */
	RF_SCAN_DESCRIPTION,
	/* List: NIL for an ordinary server, else see RfScanNodesIndex */
	RF_SCAN_NODES,
	/* OidList: the user whose rights it has; InvalidOid: the current user */
	RF_SCAN_USER,
	/* Boolean: set operations, whose columns belong to no relation of the planner */
	RF_SCAN_SET_OPERATION,

	/*
	 * List: NIL, or below a key join the statement for all rows (String). RF_SCAN_SQL then asks
	 * for those whose keys are in an array, its last parameter, which the join sets.
	 */
	RF_SCAN_ALL_SQL,
	/* List of Strings, for EXPLAIN: which joins are done here, and why */
	RF_SCAN_JOINED_HERE,

	/*
	 * List of IntLists, of each remote parameter that is a column of local rows: its place, and
	 * its number, which RF_LOCAL_PARAM made. Their node sets them.
	 */
	RF_SCAN_LOCAL,

	/*
	 * List: NIL, or the statement for many values of the parameters (String), see lookahead_plan.c
	 */
	RF_SCAN_BATCH,

	/*
	 * String: how rows are locked one by one when they are returned, as in the query: "FOR UPDATE
	 * SKIP LOCKED", see late_locks.c. Empty: they are not.
	 */
	RF_SCAN_LATE_LOCK,
	RF_SCAN_NPRIVATE
} RfScanPrivateIndex;

/* RF_SCAN_NODES of a server that stands for many nodes: the statement runs on several of them. */
typedef enum RfScanNodesIndex
{
	/* OidList: the servers of the nodes, in order */
	RF_NODES_SERVERS,
	/* IntList: places in that list of the nodes that run the statement */
	RF_NODES_PLACES,

	/*
	 * List of the statement's exchanges, number = place + 1: each list_make3(String kind,
	 * "repartition" or "replicate"; Float: rows that move; String: its description in EXPLAIN; two
	 * IntLists: the members (places in RF_NODES_PLACES) that run its query, and the members that
	 * receive its rows).
	 */
	RF_NODES_EXCHANGES,

	/*
	 * List of the keys by which every node's rows are sorted, for merging; NIL: in any order. Each
	 * list_make2(IntList: attribute of the scan tuple, nulls first; OidList: sort operator,
	 * collation)
	 */
	RF_NODES_MERGE,

	/*
	 * IntList: places in ForeignScan.fdw_exprs of the values that all distribution keys have, in
	 * order, coerced to the keys' types: only the node given by their hash runs the statement.
	 * NIL: all nodes run it. They may follow the values of the remote parameters or be among them.
	 */
	RF_NODES_PRUNE,
	/* OidList: types, then collations of the distribution keys; NIL with RF_NODES_PRUNE */
	RF_NODES_KEYS,
	/* String: the strategy, for EXPLAIN; empty for a plain scan */
	RF_NODES_STRATEGY,
	/* NIL: the nodes that store the rows also join them; else see RfScanComputeIndex */
	RF_NODES_COMPUTE,

	/*
	 * List of Strings, by place: where nodes have different tables; NIL: all run the same
	 * statement
	 */
	RF_NODES_SQL,
	/* Boolean: any of the servers can run the statement, RF_NODES_PLACES has the first */
	RF_NODES_ANY,
	RF_NODES_N
} RfScanNodesIndex;

/*
 * RF_NODES_COMPUTE: rows come from the compute nodes only. A compute node that also stores rows
 * runs the unchanged statement.
 */
typedef enum RfScanComputeIndex
{
	/* IntList: their places */
	RF_COMPUTE_PLACES,
	/* Integer: nodes at the places before this one store rows */
	RF_COMPUTE_HOLDERS,
	/* String: for nodes that only store rows: the exchanges that send them, no columns, no rows */
	RF_COMPUTE_SEND_SQL,
	/* String: for nodes that store no rows: the statement without the queries of these exchanges */
	RF_COMPUTE_JOIN_SQL
} RfScanComputeIndex;

/* Readers of the list, so that only this file depends on its layout. */
static inline const char *
rf_scan_sql(ForeignScan *plan)
{
	return strVal(list_nth(plan->fdw_private, RF_SCAN_SQL));
}

static inline List *
rf_scan_attrs(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_ATTRS);
}

static inline List *
rf_scan_param_types(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_PARAM_TYPES);
}

static inline List *
rf_fetch_options_list(const RfFetchOptions *fetch)
{
	List	   *values = list_make5_int(fetch->fetch_size, fetch->receive_buffers,
										fetch->receive_buffer_size, fetch->inline_limit,
										fetch->read_in_place);

	values = lappend_int(values, fetch->async_capable);
	values = lappend_int(values, fetch->accept_pages);
	return lappend_int(values, fetch->trusted);
}

static inline RfFetchOptions
rf_fetch_options(const List *values)
{
	RfFetchOptions fetch;

	fetch.fetch_size = list_nth_int(values, 0);
	fetch.receive_buffers = list_nth_int(values, 1);
	fetch.receive_buffer_size = list_nth_int(values, 2);
	fetch.inline_limit = list_nth_int(values, 3);
	fetch.read_in_place = list_nth_int(values, 4) != 0;
	fetch.async_capable = list_nth_int(values, 5);
	fetch.accept_pages = list_nth_int(values, 6) != 0;
	fetch.trusted = list_nth_int(values, 7) != 0;
	return fetch;
}

static inline RfFetchOptions
rf_scan_fetch_options(ForeignScan *plan)
{
	return rf_fetch_options((List *) list_nth(plan->fdw_private, RF_SCAN_FETCH));
}

static inline double
rf_scan_expected_rows(ForeignScan *plan)
{
	return floatVal(list_nth(plan->fdw_private, RF_SCAN_ROWS));
}

static inline bool
rf_scan_locks_rows(ForeignScan *plan)
{
	return boolVal(list_nth(plan->fdw_private, RF_SCAN_LOCKS_ROWS));
}

static inline const char *
rf_scan_relation(ForeignScan *plan)
{
	return strVal(list_nth(plan->fdw_private, RF_SCAN_RELATION));
}

static inline List *
rf_scan_states(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_STATES);
}

static inline const char *
rf_scan_description(ForeignScan *plan)
{
	return strVal(list_nth(plan->fdw_private, RF_SCAN_DESCRIPTION));
}

static inline Oid
rf_scan_userid(ForeignScan *plan)
{
	Oid			userid = linitial_oid((List *) list_nth(plan->fdw_private, RF_SCAN_USER));

	return OidIsValid(userid) ? userid : GetUserId();
}

static inline List *
rf_scan_joined_here(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_JOINED_HERE);
}

static inline List *
rf_scan_local_params(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_LOCAL);
}

static inline bool
rf_scan_is_set_operation(ForeignScan *plan)
{
	return boolVal(list_nth(plan->fdw_private, RF_SCAN_SET_OPERATION));
}

/* NULL: not below a key join */
static inline const char *
rf_scan_all_sql(ForeignScan *plan)
{
	List	   *sql = (List *) list_nth(plan->fdw_private, RF_SCAN_ALL_SQL);

	return sql == NIL ? NULL : strVal(linitial(sql));
}

/* NIL: an ordinary server */
static inline List *
rf_scan_nodes(ForeignScan *plan)
{
	return (List *) list_nth(plan->fdw_private, RF_SCAN_NODES);
}

static inline List *
rf_scan_nodes_member(ForeignScan *plan, RfScanNodesIndex member)
{
	return (List *) list_nth(rf_scan_nodes(plan), member);
}

/* NULL if there is no such statement */
static inline const char *
rf_scan_batch_sql(ForeignScan *plan)
{
	List	   *sql = (List *) list_nth(plan->fdw_private, RF_SCAN_BATCH);

	return sql == NIL ? NULL : strVal(linitial(sql));
}

static inline const char *
rf_scan_late_lock(ForeignScan *plan)
{
	return strVal(list_nth(plan->fdw_private, RF_SCAN_LATE_LOCK));
}

/*
 * Servers any of which can run the statement; NIL: that is fixed, or the values of a key decide it.
 */
static inline List *
rf_scan_any(ForeignScan *plan)
{
	return boolVal(list_nth(rf_scan_nodes(plan), RF_NODES_ANY)) ?
		rf_scan_nodes_member(plan, RF_NODES_SERVERS) :
		NIL;
}

static inline const char *
rf_scan_strategy(ForeignScan *plan)
{
	return strVal(list_nth(rf_scan_nodes(plan), RF_NODES_STRATEGY));
}

/* ---------- key joins ---------- */

#define RF_KEY_JOIN_NAME	"Key Join"

/* Stands for the keys in a condition while a statement is made; no parameter of a plan has it. */
#define RF_KEYS_PARAM		(-1)

#define RF_KEYS_FIRST		64	/* rows whose keys are sent first where only the first rows may be
								 * wanted */
#define RF_KEYS_GROWTH		8	/* each batch may have so many times the rows of the one before, */
#define RF_KEYS_MAX			10000	/* but no more keys than this, */
#define RF_KEYS_MAX_BYTES	(1024 * 1024)	/* and no more of their bytes */

/* The planner's estimates; execution compares them with the actual rows. */
typedef struct RfKeyJoinCosts
{
	Cost		round_trip;
	Cost		key;			/* -1: the data node has no index for it, as far as is known */
	Cost		row;			/* that crosses */
	Cost		planned;		/* all batches of keys */
	Cost		whole;			/* all rows of the table */
} RfKeyJoinCosts;

/* CustomScan.custom_exprs, in terms of the joined row: the driving columns, then the table's */
typedef enum RfKeyJoinExprs
{
	RF_KEY_JOIN_DRIVER_KEY,		/* Expr */
	RF_KEY_JOIN_EQUALITY,		/* of the keys, for EXPLAIN */
	RF_KEY_JOIN_QUALS			/* List: the join's other conditions */
} RfKeyJoinExprs;

/* CustomScan.custom_private */
typedef enum RfKeyJoinPrivateIndex
{
	RF_KEY_JOIN_TYPE,			/* Integer: JoinType of driving rows with the table's */
	RF_KEY_JOIN_REVERSED,		/* Boolean: a semi join that gives rows of the table */
	RF_KEY_JOIN_FIRST_ROWS,		/* Boolean: begin with a small batch */
	RF_KEY_JOIN_OPERATOR,		/* OidList: column of the table = key, and the collation */
	RF_KEY_JOIN_COSTS,			/* List of Floats: RfKeyJoinCosts */
	RF_KEY_JOIN_COLUMN,			/* Integer: the place from 0 of the compared column in the scan's
								 * rows */
	RF_KEY_JOIN_NPRIVATE
} RfKeyJoinPrivateIndex;

/* All but the last. */
static inline List *
rf_key_join_private(JoinType jointype, bool reversed, bool first_rows, Oid operator, Oid collation,
					const RfKeyJoinCosts *costs)
{
	/* with a fraction, as in RF_SCAN_ROWS */
	List	   *numbers = list_make5(makeFloat(psprintf("%.4f", costs->round_trip)),
									 makeFloat(psprintf("%.4f", costs->key)),
									 makeFloat(psprintf("%.4f", costs->row)),
									 makeFloat(psprintf("%.4f", costs->planned)),
									 makeFloat(psprintf("%.4f", costs->whole)));

	return list_make5(makeInteger(jointype), makeBoolean(reversed), makeBoolean(first_rows),
					  list_make2_oid(operator, collation), numbers);
}

static inline RfKeyJoinCosts
rf_key_join_costs(CustomScan *plan)
{
	List	   *numbers = (List *) list_nth(plan->custom_private, RF_KEY_JOIN_COSTS);
	RfKeyJoinCosts costs;

	costs.round_trip = floatVal(linitial(numbers));
	costs.key = floatVal(lsecond(numbers));
	costs.row = floatVal(lthird(numbers));
	costs.planned = floatVal(lfourth(numbers));
	costs.whole = floatVal(list_nth(numbers, 4));
	return costs;
}

/* ---------- local rows ---------- */

/*
 * CustomScan: custom_plans are the statement, with the plans above it, the plan that runs instead
 * if there are too many rows, and the plans that give the rows. custom_private has an IntList for
 * each of the statement's RF_SCAN_LOCAL: which of the latter plans, and which of its columns, both
 * from 0.
 */
#define RF_LOCAL_ROWS_NAME	"Local Rows"

/* Rows that one relation may be expected to have, and rows that it may turn out to have. */
#define RF_LOCAL_ROWS_PLANNED	10000
#define RF_LOCAL_BYTES_PLANNED	(1024 * 1024)
#define RF_LOCAL_ROWS_MAX		100000
#define RF_LOCAL_BYTES_MAX		(16 * 1024 * 1024)

/* ---------- lookahead (lookahead_plan.c) ---------- */

/*
 * Reads rows ahead, and tells batched lookups the values that the parameters will have for them.
 * CustomScan.custom_exprs: those values, in terms of a row; custom_private: two IntLists, the
 * numbers of the parameters and of the lookups.
 */
#define RF_LOOKAHEAD_NAME	"Lookahead"

/*
 * Stands for a foreign scan with parameters, and has one below it with the statement for many
 * values of these. CustomScan.custom_exprs: the scan's; custom_private: see RfLookupPrivateIndex.
 */
#define RF_LOOKUP_NAME		"Batched Lookup"

typedef enum RfLookupPrivateIndex
{
	RF_LOOKUP_NUMBER,			/* IntList: its number in the plan, and how many columns a row has */

	/*
	 * List of the keys by which the rows of several nodes are sorted, each behind the row's
	 * columns, in order: as in RF_NODES_MERGE, but for the attribute, which is 0
	 */
	RF_LOOKUP_SORT,

	/*
	 * NIL, or how the values tell the only node that has rows for them: RF_NODES_PRUNE,
	 * RF_NODES_KEYS, and an OidList of the server
	 */
	RF_LOOKUP_NODE,
	RF_LOOKUP_NPRIVATE
} RfLookupPrivateIndex;

/* ---------- writes ---------- */

/* A table that ModifyTable writes row by row: the only member of its list of ModifyTable's fdwPrivLists */
typedef struct RfModifyPlan
{
	ExtensibleNode node;
	char	   *sql;
	List	   *targets;		/* IntList: written attributes */
	List	   *retrieved;		/* IntList: attributes returned by RETURNING, in order */
	bool		do_nothing;		/* ON CONFLICT DO NOTHING */
	char	   *move_delete;	/* the statements for rows that move to another node: there, */
	char	   *move_insert;	/* and here; NULL: rows stay */
	List	   *key;			/* IntList: the columns that name a row beside its place */
	char	   *copy_sql;		/* for the copies of a replicated table's row on other nodes than the
								 * first; or NULL */
} RfModifyPlan;

/* Data nodes write by themselves: takes the place of RfScanPlan. fdw_exprs: the parameters' values. */
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
