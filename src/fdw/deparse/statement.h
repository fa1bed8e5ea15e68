/*
 * statement.h
 *		The description of one remote statement, RfRelInfo, and what can be read off it. Planning fills it
 *		in, the other files of this folder write its text. All of it belongs to the planner.
 */
#ifndef RF_STATEMENT_H
#define RF_STATEMENT_H

#include "postgres.h"

#include "foreign/foreign.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

#include "rdma_fdw/exchange.h"
#include "fdw/options/option.h"

/*
 * Planner state of one foreign relation (RelOptInfo.fdw_private)
 *
 * Base relations, join relations and upper relations (grouping, windows, DISTINCT) all have one.
 * One remote SELECT stands for each: a join's FROM is made of its two sides, and an upper relation
 * adds its clause to the SELECT over "scanrel".  ORDER BY and LIMIT belong to paths.
 */
typedef enum RfStates
{
	RF_STATES_UNKNOWN,
	RF_STATES_OURS,				/* aggregates' states mean the same on the data nodes as here */
	RF_STATES_FOREIGN
} RfStates;

/*
 * A SELECT within a statement: of another query level, of one of the relations that an Append would
 * read, or a set operation of two of those.  (subquery.c)
 */
typedef struct RfSelect
{
	/* a set operation; left is NULL in others */
	SetOperation op;
	bool		all;
	bool		computed;		/* by the server's compute nodes */
	struct RfSelect *left;
	struct RfSelect *right;

	/* a SELECT */
	PlannerInfo *root;
	struct RfRelInfo *info;		/* its statement */
	List	   *tlist;			/* its columns, TargetEntries */
	List	   *pathkeys;		/* its order, if that matters */
	bool		limit;			/* with its query's LIMIT */
	Cost		startup_cost;
	Cost		total_cost;
	RelOptInfo *subquery;		/* what the query around it knows it as; NULL: part of that query */

	RelOptInfo *source;			/* whose server and user; of set operations, of one of them */
	Bitmapset  *collated;		/* columns, from 1, whose collation the data node knows as we do */
} RfSelect;

typedef struct RfRelInfo
{
	ForeignTable *table;		/* base relations only */
	ForeignServer *server;
	List	   *nodes;			/* OidList: the servers that the server stands for; NIL: an ordinary one */
	List	   *members;		/* OidList: these, and behind them compute nodes that are none of them */
	List	   *compute;		/* IntList: places of the compute nodes among the members; NIL: none */
	RfDistribution *distribution;	/* of base relations of such a server, else NULL */
	UserMapping *user;			/* only with use_remote_estimate, else NULL */
	List	   *indexes;		/* of base relations: RfIndex, those that ANALYZE found on the data node */
	RfTableOptions opts;
	char	   *relation_name;	/* remote name, quoted; of others than base relations: all of them */
	char	   *description;	/* for EXPLAIN: local names and how they are joined */

	List	   *remote_conds;	/* RestrictInfos evaluated on the data node */
	List	   *local_conds;	/* evaluated here; RestrictInfos, of upper relations bare */
	Bitmapset  *attrs_used;		/* base relations: columns wanted, offset by
								 * FirstLowInvalidHeapAttributeNumber */

	RelOptInfo *rel;			/* the relation that this is the statement of */
	struct RfFragment *fragment;	/* of a server with nodes: where its rows lie, see fragment.h */

	/*
	 * A table that is a SELECT: a subquery, or all children of a parent; its columns are named c1,
	 * c2, ... there.  Or the relation of set operations, whose statement it is.
	 */
	RfSelect   *select;

	/*
	 * A partitioned table with partitions on several servers, see nodes_partitions.c: for each of
	 * its nodes the SELECT of those that are there, NULL where there are none; one of them is "select".
	 */
	List	   *parts;

	/* join relations */
	struct RfRelInfo *outer;
	struct RfRelInfo *inner;
	JoinType	jointype;
	List	   *joinclauses;	/* RestrictInfos of ON, or of EXISTS */
	Relids		hidden_relids;	/* relations inside EXISTS, whose columns nothing outside can see */
	List	   *stand_ins;		/* of Lists: a Var inside EXISTS, and one that equals it and may be outside of it */

	/* upper relations */
	RelOptInfo *scanrel;		/* the base or join relation below; NULL in one of those */
	struct RfRelInfo *scan;		/* its statement */
	bool		grouped;		/* GROUP BY, HAVING, aggregates */
	List	   *having;			/* bare conditions that the data node evaluates */
	bool		partial;		/* grouped, but aggregates stop at their transition states */
	RfStates	states;			/* asked when first needed */
	bool		windowed;		/* window functions */
	bool		distinct;		/* DISTINCT */
	bool		projected;		/* the query's columns, with sub-selects */
	RelOptInfo *ordered;		/* of the ordered relation: the one whose statement is sorted */

	/*
	 * columns of the remote SELECT as TargetEntries; not for base relations unless they are a SELECT.
	 * Junk ones are not fetched.
	 */
	List	   *tlist;

	/* the plan that was made of it, and what went into its statement: see rf_subselect() */
	ForeignScan *plan;
	List	   *plan_conditions;
	List	   *plan_pathkeys;
	bool		plan_limit;

	Selectivity local_conds_sel;
	QualCost	local_conds_cost;

	double		rows;			/* after all conditions */
	double		retrieved_rows; /* rows that cross the wire */
	int			width;			/* bytes per row that cross it */
	Cost		startup_cost;
	Cost		total_cost;

	/* without our per-query and per-row charges; -1: not computed yet */
	Cost		rel_startup_cost;
	Cost		rel_total_cost;
} RfRelInfo;

/* The column that a SortGroupClause refers to, or NULL. */
extern TargetEntry *rf_sortgroupref_tle(Index sortgroupref, List *tlist);

/* RestrictInfos or bare expressions to bare expressions */
extern List *rf_bare_clauses(List *clauses);

/*
 * the column that stands for this one of hidden_relids in the SELECT list, as a condition of the
 * join says that they are equal; or NULL
 */
extern Expr *rf_stand_in(RfRelInfo *info, Var *hidden);

/* Is it the relation of set operations? */
static inline bool
rf_is_set_operation(RfRelInfo *info)
{
	return info->select != NULL && info->rel->reloptkind == RELOPT_UPPER_REL;
}

/* Is there a SELECT in its FROM, or is it made of such?  Those refer to nothing outside of them. */
extern bool rf_reads_select(RfRelInfo *info);

/* All statements of one relation, and the pair that joins were last made of. */
typedef struct RfChoices
{
	List	   *infos;			/* of RfRelInfo, each with rows placed otherwise */
	RelOptInfo *last_outer;
	RelOptInfo *last_inner;
} RfChoices;

/*
 * Where rows with equal keys lie, if not on the node that the keys' hash says: where the partitions
 * are that these bounds say, or all on one node, without keys. Such rows meet those of the same
 * layout; nothing is moved to where they are.
 */
typedef struct RfLayout
{
	int			place;			/* of the only node, or -1 */
	struct PartitionSchemeData *scheme;
	struct PartitionBoundInfoData *bounds;
	int			count;			/* partitions */
	int		   *places;			/* of each; -1: it has no rows */
} RfLayout;

typedef struct RfFragment
{
	RfPlacement placement;
	List	   *keys;			/* placed by hash: per key a List of all expressions equal to it */
	RfLayout   *layout;			/* placed by hash, but by other rules; NULL: by the hash of the nodes */
	RfChoices  *choices;		/* of its relation; NULL in what is moved */
	bool		exchanges;		/* something moves below, so all nodes have to run it */
	bool		single_node;	/* the keys have fixed values, so one node has all rows */
	bool		computed;		/* the rows lie on the server's compute nodes, by hash of these or all on each */
	Cost		sending;		/* computed: what one of the nodes that hold the tables' rows does for it */
	List	   *strategies;		/* for EXPLAIN: char *, of the joins below */

	/* what moves */
	RfRelInfo  *moved;			/* the rows of this; NULL: nothing moves here */
	bool		replicate;		/* to all nodes; else to where the hash of move_keys says */
	List	   *move_keys;		/* Exprs */
	char	   *heavy;			/* for rdma.exchange(): hashes of keys that most rows have, or NULL */
	bool		spread;			/* rows with those go to all nodes in turn; else each to all of them */
} RfFragment;

/* How many nodes the rows may lie on. */
static inline int
rf_node_count(const RfRelInfo *info)
{
	return list_length(info->fragment->computed ? info->compute : info->nodes);
}

/* The part of all rows that one node has, at best. */
extern double rf_node_share(const RfRelInfo *info);

/* Can the FROM item be written such that no condition is left outside of it? */
extern bool rf_can_close(RfRelInfo *info);

#endif
