/*
 * statement.h
 * 		The description of one remote statement, RfRelInfo, and facts derived from it. Planning
 * 		fills it in, the other files of this folder write its text. All of it lives in the planner's
 * 		memory.
 */
#ifndef RF_STATEMENT_H
#define RF_STATEMENT_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

#include "rdma_fdw/exchange.h"
#include "fdw/options/option.h"

/*
 * The place of a row is more than its ctid. System columns that have no meaning for remote rows are
 * used for the rest: the OID of the table on the node, and the number of the scan's part that it
 * came from. A Var of the first has another type than the system column, so it is told from the
 * query's own use of that.
 */
#define RF_ROW_TABLE	MaxTransactionIdAttributeNumber
#define RF_ROW_PART		MinCommandIdAttributeNumber
#define RF_IS_ROW_TABLE(var) ((var)->varattno == RF_ROW_TABLE && (var)->vartype == OIDOID)

typedef enum RfStates
{
	RF_STATES_UNKNOWN,
	RF_STATES_OURS,				/* aggregates' states have our format on the data nodes */
	RF_STATES_FOREIGN
} RfStates;

typedef enum RfAnswer
{
	RF_ANSWER_UNKNOWN,			/* not asked yet */
	RF_ANSWER_NO,
	RF_ANSWER_YES
} RfAnswer;

/*
 * A SELECT within a statement: of another query level, of one of an Append's relations, or a set
 * operation of two of those. (subquery.c)
 */
typedef struct RfSelect
{
	/* a set operation; otherwise left is NULL */
	SetOperation op;
	bool		all;
	bool		computed;		/* by the server's compute nodes */
	struct RfSelect *left;
	struct RfSelect *right;

	/* a SELECT */
	PlannerInfo *root;
	struct RfRelInfo *info;		/* its statement */
	List	   *tlist;			/* its columns, TargetEntries */
	List	   *pathkeys;		/* its order, if required */
	bool		limit;			/* with its query's LIMIT */
	Cost		startup_cost;
	Cost		total_cost;
	RelOptInfo *subquery;		/* its relation in the query around it; NULL: part of that query */

	RelOptInfo *source;			/* gives server and user; set operations: one of them */
	Bitmapset  *collated;		/* columns, from 1, whose collation the data node shares with us */
} RfSelect;

/* A join: its two sides and how they are joined (join.c) */
typedef struct RfJoin
{
	struct RfRelInfo *outer;	/* NULL: it is no join */
	struct RfRelInfo *inner;
	JoinType	type;
	List	   *clauses;		/* RestrictInfos of ON, or of EXISTS */
	Relids		hidden_relids;	/* relations inside EXISTS, whose columns are invisible outside */
	List	   *stand_ins;		/* of Lists: a Var inside EXISTS, an equal one outside it */
} RfJoin;

/* The clauses above a base or join relation: grouping, windows, DISTINCT, columns (upper.c) */
typedef struct RfUpper
{
	RelOptInfo *scanrel;		/* the relation below; NULL in a base or join relation */
	struct RfRelInfo *scan;		/* its statement */
	List	   *having;			/* bare conditions that the data node evaluates */
	RelOptInfo *ordered;		/* of the ordered relation: the one whose statement is sorted */
	RfStates	states;			/* set when first needed */
	bool		grouped;		/* GROUP BY, HAVING, aggregates */
	bool		partial;		/* grouped, but aggregates stop at their transition states */
	bool		windowed;		/* window functions */
	bool		distinct;		/* DISTINCT */
	bool		projected;		/* the query's columns, with sub-selects */
} RfUpper;

/* The plan made for a statement, and the conditions in it: see rf_subselect() */
typedef struct RfPlanned
{
	ForeignScan *plan;
	List	   *conditions;
	List	   *pathkeys;
	bool		limit;
} RfPlanned;

typedef struct RfEstimate
{
	double		rows;			/* after all conditions */
	double		retrieved_rows; /* rows that cross the wire */
	int			width;			/* bytes per row that cross it */
	Cost		startup_cost;
	Cost		total_cost;
} RfEstimate;

/*
 * Planner state of one foreign relation (RelOptInfo.fdw_private). Planning makes thousands: beyond
 * 512 bytes each takes 1024.
 *
 * Base relations, join relations and upper relations (grouping, windows, DISTINCT) all have one,
 * with one remote SELECT for each: a join's FROM consists of its two sides, and an upper relation
 * adds its clause to the SELECT over upper.scanrel. ORDER BY and LIMIT belong to paths.
 */
typedef struct RfRelInfo
{
	ForeignTable *table;		/* base relations only */
	ForeignServer *server;
	List	   *nodes;			/* OidList: its data nodes; NIL: an ordinary server */
	List	   *members;		/* OidList: these, then the compute nodes that are not among them */
	List	   *compute;		/* IntList: places of the compute nodes among the members; NIL
								 * without compute nodes */
	RfDistribution *distribution;	/* of base relations of such a server, else NULL */
	UserMapping *user;			/* only with use_remote_estimate, else NULL */
	List	   *indexes;		/* base relations: RfIndex, found by ANALYZE on the data node */
	RfTableOptions opts;
	/* joins and moved rows have neither: see rf_relation_names() */
	char	   *relation_name;	/* remote name, quoted, after ONLY if wanted; of other relations:
								 * all of their names */
	char	   *description;	/* for EXPLAIN: local names and how they are joined */
	struct RfJoinNotes *notes;	/* for EXPLAIN: why it joins no more, see joined_here.c */

	List	   *remote_conds;	/* RestrictInfos evaluated on the data node */
	List	   *local_conds;	/* evaluated here; RestrictInfos, of upper relations bare */
	Bitmapset  *attrs_used;		/* base relations: columns wanted, offset by
								 * FirstLowInvalidHeapAttributeNumber */

	RelOptInfo *rel;			/* the relation that this is the statement of */
	struct RfRelInfo *alone;	/* of a table that is one of another server to this query: its own
								 * statement, else NULL */
	struct RfFragment *fragment;	/* of a server with nodes: where its rows lie (below) */

	/*
	 * A table that is replaced by a SELECT: a subquery, or all children of a parent; its columns
	 * are named c1, c2, ... there. Or the statement of a relation of set operations.
	 */
	RfSelect   *select;

	/*
	 * A partitioned table with partitions on several servers, or a table that some of the nodes
	 * have, see nodes_partitions.c and nodes_common.c: for each node the SELECT of its part, NULL
	 * if it has no part; one of them is "select". NIL: all have the same SELECT.
	 */
	List	   *parts;

	RfJoin		join;			/* join relations */
	RfUpper		upper;			/* upper relations */

	/*
	 * columns of the remote SELECT as TargetEntries; for base relations only if a SELECT replaces
	 * them. Junk columns are not fetched.
	 */
	List	   *tlist;

	RfPlanned	planned;

	/*
	 * The relations of this query level whose rows are here and go with the statement,
	 * RelOptInfos: see local_rows.c. local: it is one of them.
	 */
	List	   *local_rels;
	const char *apart;			/* local: why the nodes do not have its rows anyway, for EXPLAIN;
								 * NULL: nobody asks */
	bool		local;
	RfAnswer	movable;		/* rf_can_move() */

	Selectivity local_conds_sel;
	QualCost	local_conds_cost;

	RfEstimate	est;

	/* the same costs without ours per query and per row; -1: not computed yet */
	Cost		rel_startup_cost;
	Cost		rel_total_cost;
	Cost		least_read;		/* of inner joins, see rf_least_read(); 0: not computed yet */
} RfRelInfo;

StaticAssertDecl(sizeof(RfRelInfo) <= 512, "RfRelInfo takes 1024 bytes of each context");

/*
 * Stands for the values of a column of local rows while a statement is made; no parameter of a plan
 * has such a number. RF_KEYS_PARAM is above them.
 */
#define RF_LOCAL_PARAM(relid, attno) \
	(-2 - ((int) (relid) * (MaxTupleAttributeNumber + 1) + (attno)))

/* The column that a SortGroupClause refers to, or NULL. */
extern TargetEntry *rf_sortgroupref_tle(Index sortgroupref, List *tlist);

/*
 * Names of all tables, for messages, and the description for EXPLAIN. Of the thousands of joins
 * that are planned few are asked for them, so these are put together then.
 */
extern char *rf_relation_names(const RfRelInfo *info);
extern char *rf_description(const RfRelInfo *info);

/* RestrictInfos or bare expressions to bare expressions */
extern List *rf_bare_clauses(List *clauses);

/*
 * the column that replaces this one of hidden_relids in the SELECT list, because a condition of the
 * join equates them; or NULL
 */
extern Expr *rf_stand_in(RfRelInfo *info, Var *hidden);

/* Returns true for the relation of set operations. */
static inline bool
rf_is_set_operation(RfRelInfo *info)
{
	return info->select != NULL && info->rel->reloptkind == RELOPT_UPPER_REL;
}

/*
 * Returns true if its FROM contains a SELECT, at any level. Those refer to nothing outside
 * themselves.
 */
extern bool rf_reads_select(RfRelInfo *info);

/*
 * Returns true if it reads something of which each node has a part of its own, so that the texts
 * differ.
 */
extern bool rf_differs_by_node(RfRelInfo *info);

/* All alternative statements of one relation, and the last pair of sides of a join. */
typedef struct RfChoices
{
	List	   *infos;			/* of RfRelInfo, each with another placement of the rows */
	RelOptInfo *last_outer;
	RelOptInfo *last_inner;
	List	   *heavy;			/* of tables: Lists of a key, the number of nodes, and
								 * rf_heavy_keys() */
} RfChoices;

/*
 * The placement of rows with equal keys if not by the keys' hash: by partitions with these bounds,
 * by the buckets of another server, or, without keys, all on one node. Such rows can be joined in
 * place with rows of the same layout; no rows are moved to match a layout.
 */
typedef struct RfLayout
{
	int			place;			/* of the only node, or -1 */
	Oid			serverid;		/* whose buckets say the node, or InvalidOid */
	List	   *nodes;			/* IntList: with it, the places of that server's nodes */
	struct PartitionSchemeData *scheme;
	struct PartitionBoundInfoData *bounds;
	int			count;			/* partitions */
	int		   *places;			/* of each; -1: its rows are not read */
} RfLayout;

typedef struct RfFragment
{
	RfPlacement placement;
	List	   *keys;			/* placed by hash: per key a List of all expressions equal to it */
	RfLayout   *layout;			/* placed by these rules; NULL: by the nodes' hash */
	RfChoices  *choices;		/* of its relation; NULL in moved rows */
	int			exchanges;		/* so often rows move below; if at all, all nodes have to run it */
	bool		single_node;	/* the keys have fixed values, so one node has all rows */
	bool		computed;		/* rows are on the compute nodes, by hash or all on each */
	Cost		sending;		/* computed: cost on a node that stores the tables' rows */
	double		largest_part;	/* fraction of the rows on the node with most; 0: even, or
								 * replicated */
	List	   *strategies;		/* for EXPLAIN: char *, of the joins below */

	/* moved rows */
	RfRelInfo  *moved;			/* the source of the rows; NULL: nothing moves here */
	bool		replicate;		/* to all nodes; else to the nodes given by the hash of move_keys */
	List	   *move_keys;		/* Exprs */
	char	   *heavy;			/* for rdma_internal.exchange(): hashes of the most frequent keys,
								 * or NULL */
	bool		spread;			/* such rows go to the nodes in turn; else to all */
	RfRelInfo  *filter;			/* moved, too: rows without a partner in these need not move; NULL:
								 * all move */
	double		survivors;		/* with it: the part of the rows that has partners */
	bool		noted;			/* moved: the other side is filtered by these rows */
} RfFragment;

/* The number of nodes that may have the rows. */
static inline int
rf_node_count(const RfRelInfo *info)
{
	return list_length(info->fragment->computed ? info->compute : info->nodes);
}

/* The fraction of distributed rows that the node with most of them has. */
static inline double
rf_largest_share(const RfRelInfo *info)
{
	return Max(info->fragment->largest_part, 1.0 / rf_node_count(info));
}

/* The fraction of all rows on the node with most of them, for which all nodes wait. */
extern double rf_node_share(const RfRelInfo *info);

/* Returns true for a relation that the statement reads and whose rows go with it. */
extern bool rf_is_local(PlannerInfo *root, Index relid);

/* Rows of this node that are more than these come to the nodes by flow. */
#define RF_FEW_LOCAL_ROWS	10000

/* Returns true for such rows, which can come to the nodes that the hash of keys says. */
static inline bool
rf_may_divide(const RfRelInfo *info)
{
	return info->local && info->fragment != NULL && info->est.rows > RF_FEW_LOCAL_ROWS;
}

/* Returns true for a move of such rows, which comes from this node. */
extern bool rf_is_divided(const RfRelInfo *move);

/* Returns true if there is such a move in the statement: then local rows never come as arrays. */
extern bool rf_divides_local(const RfRelInfo *info);

/* Returns true if the FROM item can contain all conditions. */
extern bool rf_can_close(RfRelInfo *info);

/*
 * Returns true if the rows of this move are already where they would go. Then an exchange only
 * looks at their keys: it can have the other side's rows filtered.
 */
extern bool rf_moves_in_place(const RfRelInfo *move);

#endif
