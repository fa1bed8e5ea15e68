/*
 * fragment.h
 *		Planning of statements that several data nodes run at once (fragments).
 *
 * Every node runs the same SQL text, but for the names of partitions (nodes_partitions.c). A
 * relation of a server with nodes has one or more statements, RfRelInfo, that differ in where their rows lie: its choices. What must move between nodes is an
 * RfRelInfo of its own, over another one whose rows it moves; in the text it is a call of
 * rdma.exchange() in FROM.
 *
 * All memory belongs to the planner.
 */
#ifndef RDMA_FDW_FRAGMENT_H
#define RDMA_FDW_FRAGMENT_H

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/fdw.h"
#include "rdma_fdw/guc.h"

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

/* ---------- nodes_placement.c: where rows lie ---------- */

/* Of a foreign table whose info has nodes; sets info->fragment. */
extern void rf_place_table(PlannerInfo *root, RfRelInfo *info);

/* What is known to equal a key, with what these conditions, RestrictInfos, say of its value. */
extern List *rf_key_members(Expr *key, List *rinfos);

/* How many nodes the rows may lie on. */
static inline int
rf_node_count(const RfRelInfo *info)
{
	return list_length(info->fragment->computed ? info->compute : info->nodes);
}

/* May the server's compute nodes get rows? */
static inline bool
rf_may_compute(const RfRelInfo *info)
{
	return info->compute != NIL && rf_compute_nodes != RF_COMPUTE_OFF;
}

/* Are rows that are equal in the keys in the same place by both layouts? */
extern bool rf_same_layout(const RfLayout *a, const RfLayout *b);

/* The place of the only node that has to run the statement, if that is known; else -1. */
extern int	rf_only_place(const RfFragment *fragment);

/* Has one node all rows, and runs the statement alone? */
extern bool rf_has_single_node(RfFragment *fragment);

/* The part of all rows that one node has, at best. */
extern double rf_node_share(const RfRelInfo *info);

/*
 * Adds a statement to the choices of its relation unless there is one at least as good; true if it
 * was added.
 */
extern bool rf_add_choice(RfChoices *choices, RfRelInfo *info);

/* An equality of an expression of either side, both without casts, that a hash can serve. */
typedef struct RfEquality
{
	Expr	   *outer;
	Expr	   *inner;
} RfEquality;

/* Those among RestrictInfos of a join, as a List of RfEquality. */
extern List *rf_hashable_equalities(List *rinfos, Relids outer, Relids inner);

/* Without casts, if rows can be hashed by it such that all nodes agree; else NULL. */
extern Expr *rf_hashable_key(Expr *expr, RfRelInfo *info);

/* Have equal values of both the same hash? False if there is none for one of them. */
extern bool rf_same_hash(Expr *a, Expr *b);

/* The same hash for equal values: one list of expressions has a member of the other, or a partner. */
extern bool rf_keys_agree(List *outer_key, List *inner_key, List *equalities);

/* Are all keys among these expressions?  Then rows that agree in those are on one node. */
extern bool rf_placed_by(RfRelInfo *info, List *exprs);

/*
 * If nothing moves and all keys have fixed values, these, in order: the statement needs to run only
 * on the node that their hash says; else NIL.
 */
extern List *rf_single_node_values(RfFragment *fragment);

/*
 * The rows of this, sent to all nodes (keys NIL) or to where the hash of the keys says: among the
 * nodes where they are, or, computed, among the compute nodes. Of rows that are everywhere, which can
 * only be sent by keys or to others, one node sends its own.
 */
extern RfRelInfo *rf_move(PlannerInfo *root, RfRelInfo *info, List *keys, bool computed);

/* Its costs; those of all nodes together for a statement without bringing the result here. (estimate.c) */
extern void rf_estimate_move(RfRelInfo *move);
extern Cost rf_nodes_cost(const RfRelInfo *info);

/*
 * Hashes of the values of this key that are so frequent that the node they belong to would have much
 * more to do than others, as text; NULL: there are none.
 */
extern char *rf_heavy_keys(PlannerInfo *root, RfRelInfo *info, Expr *key);

/* Can they be moved at all? */
extern bool rf_can_move(PlannerInfo *root, RfRelInfo *info);

/* The columns of it that something above may want, as Exprs. */
extern List *rf_visible_columns(PlannerInfo *root, RfRelInfo *info);

/* ---------- nodes_join.c: joins ---------- */

/*
 * Makes all statements for this join out of those of its sides; joined says how, apart from where.
 * known is what stood for joinrel before, found with other sides, or NULL.
 */
extern void rf_join_choices(PlannerInfo *root, RelOptInfo *joinrel, RfRelInfo *joined,
							RfRelInfo *known, List *fdw_restrictinfo);

/* Not where rows are locked, or may have to be looked at again here. (join.c) */
extern bool rf_nodes_may_join(PlannerInfo *root);

/* Can the FROM item be written such that no condition is left outside of it? (join.c) */
extern bool rf_can_close(RfRelInfo *info);

/* ---------- nodes_subquery.c: SELECTs within a statement ---------- */

/*
 * Where the rows of it lie, after some of it has been moved if need be; relid: the relation that it is
 * the statement of. Keys of set operations are numbers of columns until rf_name_select_keys(). NULL:
 * the nodes cannot run it each for itself.
 */
extern RfFragment *rf_place_select(RfSelect *select, Index relid);

/* The keys in terms of info->tlist, which is complete. One that nobody wants equals nothing. */
extern void rf_name_select_keys(RfRelInfo *info);

/* ---------- nodes_upper.c: what stands above joins ---------- */

extern void rf_upper_choices(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
							 RelOptInfo *output_rel, void *extra);

/*
 * From upper.c, also for one node: the statement with the stage's clause over the one in
 * input_rel->fdw_private, which becomes output_rel's; NULL when the data node cannot do it.
 */
extern RfRelInfo *rf_build_upper(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
								 RelOptInfo *output_rel, void *extra, PathTarget **columns);
extern void rf_set_ordered(RelOptInfo *ordered_rel, RelOptInfo *input_rel);
extern PathTarget *rf_upper_target(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *rel);
extern bool rf_limit_is_shippable(PlannerInfo *root, RelOptInfo *rel, FinalPathExtraData *extra);

#endif							/* RDMA_FDW_FRAGMENT_H */
