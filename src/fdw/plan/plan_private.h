/*
 * plan_private.h
 *		What planning hands to execution: the lists in fdw_private of ForeignScan and ModifyTable.
 */
#ifndef RF_PLAN_PRIVATE_H
#define RF_PLAN_PRIVATE_H

#include "postgres.h"

#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "nodes/value.h"

#include "fdw/options/option.h"

/*
 * What planning hands to execution: ForeignScan.fdw_private
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
	 * (ctid is SelfItemPointerAttributeNumber).  Attributes not listed are NULL.  An empty list
	 * means rows without columns: only how many there are matters.
	 */
	RF_SCAN_ATTRS,
	/* OidList: type of each remote parameter; the data node is given their names */
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
	 * aggregate, will go through; InvalidOid for others.  Empty: there are none.
	 */
	RF_SCAN_STATES,
	/* String: what EXPLAIN says of a join or an upper relation; empty for a table */
	RF_SCAN_DESCRIPTION,
	/* List: NIL for an ordinary server, else as RfScanNodesIndex says */
	RF_SCAN_NODES,
	/* OidList: whose rights it has; InvalidOid: whoever runs it */
	RF_SCAN_USER,
	/* Boolean: set operations, whose columns are nobody's for the planner */
	RF_SCAN_SET_OPERATION,
	RF_SCAN_NPRIVATE
} RfScanPrivateIndex;

/* RF_SCAN_NODES of a server that stands for many nodes: the statement runs on several of them. */
typedef enum RfScanNodesIndex
{
	/* OidList: the node servers, in order */
	RF_NODES_SERVERS,
	/* IntList: places in it of those that run the statement */
	RF_NODES_PLACES,
	/*
	 * List of the statement's exchanges, number = place + 1: each list_make3(String kind,
	 * "repartition" or "replicate"; Float: rows that move; String: what EXPLAIN says of it; two
	 * IntLists: the members (places in RF_NODES_PLACES) that run its query, and those that its rows
	 * come out on).
	 */
	RF_NODES_EXCHANGES,
	/*
	 * List of the keys by which every node's rows are sorted, so that they are merged; NIL: in any
	 * order. Each list_make2(IntList: attribute of the scan tuple, nulls first; OidList: sort
	 * operator, collation)
	 */
	RF_NODES_MERGE,
	/*
	 * IntList: places in ForeignScan.fdw_exprs of the values that all distribution keys have, in
	 * order, coerced to the keys' types: only the node that their hash says runs the statement.
	 * NIL: no such. They may stand behind the values of the remote parameters or among them.
	 */
	RF_NODES_PRUNE,
	/* OidList: types, then collations of the distribution keys; NIL with RF_NODES_PRUNE */
	RF_NODES_KEYS,
	/* String: the strategy, for EXPLAIN; empty for a plain scan */
	RF_NODES_STRATEGY,
	/* NIL: who holds the rows joins them, too; else as RfScanComputeIndex says */
	RF_NODES_COMPUTE,
	/* List of Strings, by place: where nodes have different tables; NIL: all run the same statement */
	RF_NODES_SQL,
	RF_NODES_N
} RfScanNodesIndex;

/*
 * RF_NODES_COMPUTE: rows come from the compute nodes only. One that holds rows as well runs the
 * statement as it is.
 */
typedef enum RfScanComputeIndex
{
	/* IntList: their places */
	RF_COMPUTE_PLACES,
	/* Integer: the places before this one hold rows */
	RF_COMPUTE_HOLDERS,
	/* String: what those run that hold rows only: the exchanges that send them, no columns, no rows */
	RF_COMPUTE_SEND_SQL,
	/* String: what those run that hold none: the statement without the queries of these exchanges */
	RF_COMPUTE_JOIN_SQL
} RfScanComputeIndex;

/* Readers of the list, so that its layout is known in one place. */
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
	List	   *values = list_make5_int(fetch->fetch_size, fetch->receive_buffers, fetch->receive_buffer_size,
										fetch->inline_limit, fetch->read_in_place);

	values = lappend_int(values, fetch->async_capable);
	values = lappend_int(values, fetch->accept_pages);
	return lappend_int(values, fetch->trusted);
}

static inline RfFetchOptions
rf_scan_fetch_options(ForeignScan *plan)
{
	List	   *values = (List *) list_nth(plan->fdw_private, RF_SCAN_FETCH);
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

static inline bool
rf_scan_is_set_operation(ForeignScan *plan)
{
	return boolVal(list_nth(plan->fdw_private, RF_SCAN_SET_OPERATION));
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

static inline const char *
rf_scan_strategy(ForeignScan *plan)
{
	return strVal(list_nth(rf_scan_nodes(plan), RF_NODES_STRATEGY));
}

/* What takes the scan's place in ForeignScan.fdw_private where data nodes write by themselves. */
typedef enum RfDirectPrivateIndex
{
	RF_DIRECT_SQL,				/* String */
	RF_DIRECT_PARAM_TYPES,		/* OidList */
	RF_DIRECT_RETRIEVED,		/* IntList: attributes that RETURNING gives, in order */
	RF_DIRECT_SET_PROCESSED		/* Boolean: rows count for the statement */
} RfDirectPrivateIndex;

/* ModifyTable's fdw_private: what planning hands to execution */
typedef enum RfModifyPrivateIndex
{
	RF_MODIFY_SQL,				/* String */
	RF_MODIFY_TARGETS,			/* IntList: attributes that are written */
	RF_MODIFY_RETRIEVED,		/* IntList: attributes that RETURNING gives, in order */
	RF_MODIFY_DO_NOTHING,		/* Boolean: ON CONFLICT DO NOTHING */
	RF_MODIFY_NPRIVATE
} RfModifyPrivateIndex;

#endif
