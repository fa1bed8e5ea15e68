/*
 * exchange.h
 *		The room src/exchange/: queries over several data nodes at once.
 *
 * Does: finds the nodes of a server that has several, and the placement of its tables' rows. The
 * sections below move rows between data nodes: one for the data nodes, one for the coordinator.
 * Does not: connect (remote/), decode (batch/), move bytes (flow/ and below).
 *
 * All memory of this header belongs to one backend. Needs PostgreSQL.
 */
#ifndef RDMA_FDW_EXCHANGE_H
#define RDMA_FDW_EXCHANGE_H

#include "postgres.h"

#include "access/attnum.h"
#include "executor/execdesc.h"
#include "foreign/foreign.h"
#include "nodes/pathnodes.h"
#include "nodes/pg_list.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "utils/guc.h"

#include "rdma_fdw/compat.h"

/* The number by which the planner divides work that workers share with their leader, as core's. */
static inline double
rf_parallel_divisor(int workers)
{
	double		leader = parallel_leader_participation ? 1.0 - 0.3 * workers : 0;

	return workers + Max(leader, 0);
}

/* ---------------------------------------------------------------------------------------------
 * Servers that stand for many nodes, and their tables (nodes.c)
 * ---------------------------------------------------------------------------------------------
 */

/*
 * The servers named by option "nodes", in the order of the numbers that are on record:
 * rf_bucket_place gives a row's place in this list. NIL: an ordinary server. ERROR when the option
 * names different servers than the record, or one of them does not exist, belongs to another
 * wrapper, or has nodes itself.
 */
extern List *rf_server_nodes(ForeignServer *server);	/* OidList */

/*
 * Rows distributed by a key lie in buckets, by the remainder of their hash, and each bucket on one
 * node. Tables of one server share the buckets: rows with equal keys are on one node.
 */
typedef struct RfBuckets
{
	int			count;
	uint16	   *places;			/* of each bucket's node */
} RfBuckets;

/*
 * Returns the buckets of a server with nodes, in the current memory context; NULL: an ordinary
 * server.
 */
extern RfBuckets *rf_server_buckets(ForeignServer *server);

static inline int
rf_bucket_place(const RfBuckets *buckets, uint64 hash)
{
	return buckets->places[hash % (uint64) buckets->count];
}

/*
 * The servers named by option "compute_nodes": rows move to them to be joined. A server may be in
 * both lists. NIL: the nodes that store the rows join them. ERROR as above.
 */
extern List *rf_server_compute_nodes(ForeignServer *server);	/* OidList */

struct RfSession;

/*
 * rf_statement_session for a statement on a server with nodes (or, without them, on that itself).
 * The ERROR of a node that cannot be reached says which tables it has, and the remedy.
 */
extern struct RfSession *rf_node_session(uint64 statement, UserMapping *user, Oid serverid);

/*
 * The caller's user mapping for a node, or a future node, of a server with nodes. ERROR if the
 * server's owner may not use it, as for a table on it. Every connection to a node by its name asks
 * here.
 */
extern UserMapping *rf_node_mapping(ForeignServer *server, const char *node);

/* The names in one of these options, checked for form only. */
extern List *rf_node_names(const char *option, const char *value);	/* of char * */

typedef enum RfPlacement
{
	RF_PLACED_ANYWHERE,			/* each row on one node, which one is not known */
	RF_PLACED_BY_HASH,			/* on the node given by the hash of its key */
	RF_PLACED_EVERYWHERE		/* all rows on every node */
} RfPlacement;

typedef struct RfDistribution
{
	RfPlacement placement;
	int			key_count;
	AttrNumber *keys;			/* columns of the foreign table, in the order of the option */
	Oid		   *types;
	Oid		   *collations;
} RfDistribution;

/*
 * The distribution of a foreign table whose server has nodes, in the current memory context. ERROR
 * when a key is not a column, or its type cannot be hashed.
 */
extern RfDistribution *rf_table_distribution(Oid foreigntableid);

/* ---------------------------------------------------------------------------------------------
 * Which node a row belongs to (route.c)
 * ---------------------------------------------------------------------------------------------
 */

/*
 * Computes the hash of a row's key columns as PostgreSQL's hash partitioning does, so hash %
 * modulus is the remainder that satisfies_hash_partition() tests. Values that are equal by an
 * operator of the types' default hash families have the same hash.
 */
typedef struct RfRoute RfRoute;

/*
 * Returns true if rows can be routed by values of this type, with the same result on every node.
 * Not when it has no extended hash function or hashes OIDs (enumerations, reg*).
 */
extern bool rf_route_type(Oid type);

struct RfRows;

/* In the current memory context. ERROR for a type that rf_route_type refuses. */
extern RfRoute *rf_route_create(int key_count, const Oid *types, const Oid *collations);

/*
 * values[i] is the i-th key. NULLs are ignored; if all values are NULL the hash is 0. May detoast
 * in the current memory context.
 */
extern uint64 rf_route_hash(RfRoute *route, const Datum *values, const bool *isnull);

/*
 * The hashes of all rows, computed column by column; the i-th key is column keys[i] (from 1).
 * Values are detoasted in `scratch`, which is reset meanwhile.
 */
extern void rf_route_hash_rows(RfRoute *route, const AttrNumber *keys, const struct RfRows *rows,
							   uint64 *hashes, MemoryContext scratch);

/*
 * ---------------------------------------------------------------------------------------------
 * A data node's side (spec.c, node_*.c): SQL functions exchange and exchange_* of rdma_internal
 * ---------------------------------------------------------------------------------------------
 *
 * A distributed statement runs on all of its nodes at once, each running the same text.
 * An input whose rows have to move stands in it as
 *
 *		FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=1000', 'SELECT ...')
 *			AS x(c1 bigint, ...)
 *
 * and is, on every node, producer and consumer at once: it runs the inner query, sends its rows to
 * the nodes they belong to and returns its own part, from its own rows and from the rows of other
 * nodes.
 *
 * A node that only receives rows may be given an empty query: it does not have the tables.
 *
 *		number		which of the statement's exchanges, from 1. An exchange inside another has a
 *					lower
 *					number than that
 *		kind		repartition: by hash of the keys; replicate: all rows to all nodes
 *		keys		columns of the inner query, from 1
 *		rows		estimated, that come out on one node; distinct: the same for the values of each
 *					column
 *					(-1 or missing: unknown)
 *		map			numbers of nodes, from 0: a row goes to the node at hash % their count; without
 *					it, to hash %
 *					nodes
 *		heavy		spread:HASH,... or broadcast:HASH,...: rows whose key has one of these hashes
 *					(rf_route_hash) go to the nodes in turn, or to all of them
 *		filter		the number of another exchange, lower than its own, by as many keys: rows need
 *					not come out
 *					that have no row with equal keys there. Both have all nodes as producers and
 *					consumers
 *
 * Set-up: rdma_internal.exchange_listen() on all members, rdma_internal.exchange_open() on all with
 * the merged descriptions (group.h; all of RF_GROUP_REPARTITION), then the statement. A member's
 * pair with itself has no flow and stays unknown in the description.
 */

/* Called once, when the library is loaded. */
extern void rf_exchange_register(void);

/*
 * Plans a statement by `plan`, on a node: exchanges that are in it and not in its plan are started
 * with it, and sent rows by the other nodes. The second is the only path of
 * rdma_internal.exchange(). The next two make other plans for a node: probes of an index in its
 * order, and workers that send rows. The last has the coordinator's statistics of a column; false:
 * it is no exchange's.
 */
struct VariableStatData;
extern PlannedStmt *rf_exchange_plan(Query *parse, const char *query_string, int cursor_options,
									 ParamListInfo params,
									 planner_hook_type plan RF_EXPLAIN_PARAM);
extern void rf_exchange_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern void rf_exchange_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
								   RelOptInfo *innerrel, JoinType jointype,
								   JoinPathExtraData *extra);
extern void rf_exchange_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
									RelOptInfo *output, void *extra);
extern bool rf_exchange_stats(RangeTblEntry *rte, AttrNumber attnum,
							  struct VariableStatData *vardata);

/*
 * The query has started: finds its exchanges. And before it finishes: moves what is left of their
 * rows.
 */
extern void rf_exchange_started(QueryDesc *query);
extern void rf_exchange_finish(QueryDesc *query);

/*
 * Shared memory of rdma.stat_moves (progress.c), asked for and made when the library is preloaded.
 */
extern void rf_moves_shmem_request(void);
extern void rf_moves_shmem_startup(void);

/*
 * Returns true if this node's engine may connect to the address at a coordinator's request.
 * rdma_fdw.exchange_hosts decides (hosts.c). Looks up the host names in it.
 */
struct sockaddr;
extern bool rf_exchange_host_allowed(const struct sockaddr *address, size_t length);
extern bool rf_check_exchange_hosts(char **newval, void **extra, GucSource source);

/* ---------- the cost of probing an index (node_probe.c) ---------- */

struct PlannerInfo;

typedef struct RfProbes
{
	double		count;			/* of all of them */
	double		tuples;			/* that one finds */
	double		heap_pages;
	double		heap_tuples;
	double		heap_share;		/* of the heap's pages, that have to be read at all */
	double		index_pages;
	int			index_levels;	/* pages that a descent passes */
	double		correlation;	/* of the index's order and the heap's */
	double		random_page_cost;
	double		seq_page_cost;
} RfProbes;

/*
 * The average cost per probe of the descent, and of reading index and heap pages; sorted: the
 * probes come in index order. Otherwise like cost_index(), genericcostestimate() and
 * btcostestimate().
 */
extern double rf_probe_cost_of_pages(struct PlannerInfo *root, const RfProbes *probes, bool sorted);

/* ---------------------------------------------------------------------------------------------
 * Forming the exchanges of a statement, by the coordinator (form_exchanges.c)
 * ---------------------------------------------------------------------------------------------
 */
typedef struct RfExchangeSpec
{
	List	   *producers;		/* IntList: members that run the inner query */
	List	   *consumers;		/* IntList: members that its rows come out on */
	uint32		buffers;		/* of each pair of nodes */
	uint32		buffer_size;	/* bytes of each */
	struct RfSender *sender;	/* this backend is its only producer, which forming the group
								 * connects; else NULL */
} RfExchangeSpec;

/*
 * Before the statement is sent: member i of all exchanges is the node of sessions[i]; exchange
 * number i + 1 is specs[i]. The sessions are idle and were obtained with in_transaction. Waits up
 * to rf_exchange_wait() for buffers, without holding any meanwhile. statement: rf_statement_begin.
 * ERROR when it fails. Flows of senders belong to the current resource owner.
 */
extern void rf_exchange_form(struct RfSession *const *sessions, int count,
							 const RfExchangeSpec *specs, int spec_count, uint64 statement);

/*
 * Rows of this backend as the input of an exchange (sender.c). The nodes give its call of
 * rdma_internal.exchange() an empty query.
 */
typedef struct RfSender RfSender;

/*
 * spec: the argument of rdma_internal.exchange(). The sender reads the plan's remaining rows; until
 * it has, the plan must use no session. Its memory is a child of the current memory context.
 */
extern RfSender *rf_sender_create(const char *spec, PlanState *plan);

/*
 * Sends what can be sent now; *moved: something was. False: all was sent, and received. ERROR when
 * a node is lost.
 */
extern bool rf_sender_send(RfSender *sender, bool *moved);

/* Sleeps until one of them may go on, something else sets the latch, or a while has passed. */
extern void rf_senders_wait(RfSender *const *senders, int count);

/* Adds up the rows that were read, and the bytes sent to all nodes. */
extern void rf_sender_count(const RfSender *sender, uint64 *rows, uint64 *bytes);

/* Ends its flows, at any time, and its memory. */
extern void rf_sender_close(RfSender *sender);

/*
 * Connects the engines of all pairs of these nodes, also of pairs that are known to be connected.
 * Tries again when an attempt vanishes. ERROR when a pair cannot be connected.
 */
extern void rf_exchange_connect_nodes(struct RfSession *const *sessions, int count);

/*
 * Called before the n-th attempt to get buffers, while holding no buffers: waits for a while and
 * until no other statement of this server is attempting. The turn ends when all nodes have their
 * buffers, or with the transaction.
 */
extern void rf_exchange_take_turn(int attempt);
extern void rf_exchange_end_turn(void);

#endif							/* RDMA_FDW_EXCHANGE_H */
