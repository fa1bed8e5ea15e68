/*
 * nodes_join.c
 *		Joins over several data nodes: the ways to bring matching rows together, and their costs.
 *
 * Two rows that join must be on one node; a row that an outer join keeps without a partner must be
 * found to have none on one node only. So
 *		co-located		both sides are hashed by keys that the join equates, or one is everywhere
 *		repartition one	one side goes to where the other's keys say
 *		repartition both	by what the join equates
 *		replicate		one side goes to all nodes
 * and a side that is everywhere, or goes there, must not be one whose rows the join keeps, or gives
 * once, as every node would do so. What has no statement here is joined by the coordinator (pull).
 *
 * A server with compute nodes may have both sides sent there, and joined there in any of these
 * ways. What is there stays there: what it is joined with further up follows.
 *
 * Both sides may have several statements, each with rows placed otherwise; so every pair of them is
 * tried every way, and the cheapest for each place of the result is kept. What a join further up
 * needs may make a dearer one the better.
 */
#include "postgres.h"

#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"

#include "rdma_fdw/compat.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"


/* One join of a pair of statements. */
typedef struct JoinWay
{
	RfStrategy	strategy;
	RfRelInfo  *outer;
	RfRelInfo  *inner;
	RfPlacement placement;
	List	   *keys;
	RfLayout   *layout;
} JoinWay;

typedef struct JoinContext
{
	PlannerInfo *root;
	JoinType	jointype;
	List	   *equalities;		/* of RfEquality */
	List	   *ways;			/* found so far */
} JoinContext;

static bool
is_everywhere(RfRelInfo *info)
{
	return info->fragment->placement == RF_PLACED_EVERYWHERE;
}

/*
 * The expressions that equal the result's keys: for an inner join also those that it equates to
 * them, for others only those on a side that is not null-extended.
 */
static List *
joined_keys(JoinContext *cxt, List *keys)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (cxt->jointype != JOIN_INNER)
		return keys;
	foreach(lc, keys)
	{
		List	   *key = list_copy((List *) lfirst(lc));
		ListCell   *equal;

		foreach(equal, cxt->equalities)
		{
			RfEquality *equality = (RfEquality *) lfirst(equal);

			if (list_member(key, equality->outer))
				key = list_append_unique(key, equality->inner);
			else if (list_member(key, equality->inner))
				key = list_append_unique(key, equality->outer);
		}
		result = lappend(result, key);
	}
	return result;
}

/* Of the rows that a semi or anti join tests for partners only different ones count. */
static RfRelInfo *
move_inner(JoinContext *cxt, RfRelInfo *inner, List *keys, bool computed)
{
	return cxt->jointype == JOIN_SEMI || cxt->jointype == JOIN_ANTI ?
		rf_move_different(cxt->root, inner, keys, computed) :
		rf_move(cxt->root, inner, keys, computed);
}

static void
add_way(JoinContext *cxt, RfStrategy strategy, RfRelInfo *outer, RfRelInfo *inner, RfRelInfo *place)
{
	JoinWay    *way = palloc0(sizeof(JoinWay));

	way->strategy = strategy;
	way->outer = outer;
	way->inner = inner;
	way->placement = place->fragment->placement;
	if (way->placement == RF_PLACED_BY_HASH)
	{
		/* either side's key may be the NULL that a full join made */
		if (cxt->jointype == JOIN_FULL)
			way->placement = RF_PLACED_ANYWHERE;
		else
		{
			way->keys = joined_keys(cxt, place->fragment->keys);
			way->layout = place->fragment->layout;
		}
	}
	cxt->ways = lappend(cxt->ways, way);
}

/* Both sides hashed by keys that are equated. */
static bool
is_colocated(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner)
{
	RfFragment *left = outer->fragment;
	RfFragment *right = inner->fragment;

	if (left->placement != RF_PLACED_BY_HASH || right->placement != RF_PLACED_BY_HASH ||
		list_length(left->keys) != list_length(right->keys) ||
		!rf_same_layout(left->layout, right->layout))
		return false;
	for (int i = 0; i < list_length(left->keys); i++)
	{
		if (!rf_keys_agree(list_nth(left->keys, i), list_nth(right->keys, i), cxt->equalities))
			return false;
	}
	return true;
}

/*
 * The equalities of the join with the keys of one side: they determine where the other's rows go;
 * or NIL.
 */
static List *
partners(JoinContext *cxt, RfRelInfo *stays, bool outer_stays)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (stays->fragment->placement != RF_PLACED_BY_HASH || stays->fragment->layout != NULL)
		return NIL;
	foreach(lc, stays->fragment->keys)
	{
		RfEquality *partner = NULL;
		ListCell   *equal;

		foreach(equal, cxt->equalities)
		{
			RfEquality *equality = (RfEquality *) lfirst(equal);

			if (list_member((List *) lfirst(lc), outer_stays ? equality->outer : equality->inner))
				partner = equality;
		}
		if (partner == NULL)
			return NIL;
		result = lappend(result, partner);
	}
	return result;
}

/*
 * Most rows of one side have the same few keys: they stay apart, in turn on all nodes, and the
 * other side's rows with these keys go to all nodes. So the other side must be one that may be
 * everywhere.
 */
static void
treat_heavy_keys(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner)
{
	RfRelInfo  *spread = outer;
	char	   *heavy = NULL;

	/* a node that sends alone has all keys, and sends each row once only if it is not broadcast */
	if (is_everywhere(outer->fragment->moved) || is_everywhere(inner->fragment->moved))
		return;
	if (cxt->jointype != JOIN_FULL)
		heavy = rf_heavy_keys(cxt->root, outer, linitial(outer->fragment->move_keys));
	if (heavy == NULL && cxt->jointype == JOIN_INNER)
	{
		spread = inner;
		heavy = rf_heavy_keys(cxt->root, inner, linitial(inner->fragment->move_keys));
	}
	if (heavy == NULL)
		return;
	outer->fragment->heavy = inner->fragment->heavy = heavy;
	spread->fragment->spread = true;
	/* rows with one key are on all nodes now */
	outer->fragment->placement = inner->fragment->placement = RF_PLACED_ANYWHERE;
}

/* Would the join lose no row if this side had only rows with partners in the other one? */
static bool
needs_partners(JoinContext *cxt, bool outer)
{
	switch (cxt->jointype)
	{
		case JOIN_INNER:
		case JOIN_SEMI:
			return true;
		case JOIN_LEFT:
		case JOIN_ANTI:
			return !outer;
		default:
			return false;
	}
}

/* The side as it costs when only rows that have partners in the other one move, or NULL. */
static RfRelInfo *
filtered_side(JoinContext *cxt, RfRelInfo *side, RfRelInfo *other, List *equalities)
{
	return !rf_can_filter(side, other) ? NULL :
		rf_filtered_move(side, other, rf_survivors(cxt->root, side->rel, other->rel, equalities));
}

/*
 * The same of the inner side, moved, of what `inner` has. To move only different rows all have to
 * be compared first, which may cost more than to look all up in a filter.
 */
static RfRelInfo *
filtered_inner_side(JoinContext *cxt, RfRelInfo *moved, RfRelInfo *inner, RfRelInfo *other,
					List *equalities)
{
	RfRelInfo  *result = filtered_side(cxt, moved, other, equalities);
	RfRelInfo  *all;

	if (moved->fragment->moved == inner)
		return result;
	all = rf_move(cxt->root, inner, moved->fragment->move_keys, false);
	/* as treat_heavy_keys() has decided */
	all->fragment->heavy = moved->fragment->heavy;
	all->fragment->spread = moved->fragment->spread;
	all->fragment->placement = moved->fragment->placement;
	all = filtered_side(cxt, all, other, equalities);
	if (all != NULL && all->rel_total_cost < (result != NULL ? result : moved)->rel_total_cost)
		return all;
	return result;
}

/* The side for which it pays more is filtered, if there is one. `source`: what moves as *inner. */
static void
add_filter(JoinContext *cxt, RfRelInfo **outer, RfRelInfo **inner, RfRelInfo *source,
		   List *equalities, bool computed)
{
	RfRelInfo  *filtered_outer = NULL;
	RfRelInfo  *filtered_inner = NULL;

	if (rf_is_disabled(RF_EXCHANGE_FILTERS) || computed)
		return;
	if (needs_partners(cxt, true))
		filtered_outer = filtered_side(cxt, *outer, *inner, equalities);
	if (needs_partners(cxt, false))
		filtered_inner = filtered_inner_side(cxt, *inner, source, *outer, equalities);
	if (filtered_outer != NULL && filtered_inner != NULL)
	{
		if (filtered_outer->rel_total_cost + (*inner)->rel_total_cost <
			filtered_inner->rel_total_cost + (*outer)->rel_total_cost)
			filtered_inner = NULL;
		else
			filtered_outer = NULL;
	}
	if (filtered_outer != NULL)
	{
		rf_note_rows(*inner);
		*outer = filtered_outer;
	}
	if (filtered_inner != NULL)
	{
		rf_note_rows(*outer);
		*inner = filtered_inner;
	}
}

static void
repartition_both(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner, List *equalities,
				 bool computed)
{
	RfRelInfo  *place = rf_move(cxt->root, outer, rf_equal_exprs(equalities, true), computed);
	RfRelInfo  *other = move_inner(cxt, inner, rf_equal_exprs(equalities, false), computed);

	if (list_length(equalities) == 1)
		treat_heavy_keys(cxt, place, other);
	add_filter(cxt, &place, &other, inner, equalities, computed);
	add_way(cxt, RF_STRATEGY_REPARTITION_BOTH, place, other, place);
}

static List *
swapped(List *equalities)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, equalities)
	{
		RfEquality *equality = palloc(sizeof(RfEquality));

		*equality = *(RfEquality *) lfirst(lc);
		equality->outer = ((RfEquality *) lfirst(lc))->inner;
		equality->inner = ((RfEquality *) lfirst(lc))->outer;
		result = lappend(result, equality);
	}
	return result;
}

/*
 * Both sides are, or go, where their rows meet, which `place` is one of. What a sub-select has
 * moved there and grouped may be filtered by the other side's rows, which then are the outer side:
 * these are told of first.
 */
static void
join_in_place(JoinContext *cxt, RfStrategy strategy, RfRelInfo *outer, RfRelInfo *inner,
			  RfRelInfo *place)
{
	RfRelInfo  *noted = outer;
	RfRelInfo  *filtered = NULL;

	if (!rf_is_disabled(RF_EXCHANGE_FILTERS) && needs_partners(cxt, false))
		filtered = rf_filtered_select(cxt->root, &noted, inner, cxt->equalities);
	if (filtered == NULL && !rf_is_disabled(RF_EXCHANGE_FILTERS) && cxt->jointype == JOIN_INNER)
	{
		noted = inner;
		filtered = rf_filtered_select(cxt->root, &noted, outer, swapped(cxt->equalities));
	}
	if (filtered != NULL)
		add_way(cxt, strategy, noted, filtered, noted);
	if (filtered == NULL || !rf_is_disabled(RF_EXCHANGE_FILTER_COSTS))
		add_way(cxt, strategy, outer, inner, place);
}

/*
 * One side goes to where the other's keys say; filtered, if that pays, by the other one's rows,
 * which are looked at for that where they are. By all equalities, or a single one,
 * repartition_both() tries this, too.
 */
static void
repartition_one(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner, bool outer_stays,
				List *equalities, bool computed)
{
	bool		tried = list_length(equalities) == 1 ||
		list_length(equalities) == list_length(cxt->equalities);
	RfRelInfo  *filtered = NULL;
	RfRelInfo  *stays;
	RfRelInfo  *moves;

	if (!outer_stays)
		moves = rf_move(cxt->root, outer, rf_equal_exprs(equalities, true), computed);
	else
		moves = move_inner(cxt, inner, rf_equal_exprs(equalities, false), computed);
	stays = outer_stays ? outer : inner;
	if (!rf_is_disabled(RF_EXCHANGE_FILTERS) && !computed && rf_can_move(cxt->root, stays) &&
		needs_partners(cxt, !outer_stays) &&
		(!tried || rf_exchange_strategy == RF_STRATEGY_REPARTITION_ONE))
	{
		stays = outer_stays ? rf_move(cxt->root, outer, rf_equal_exprs(equalities, true), false) :
			move_inner(cxt, inner, rf_equal_exprs(equalities, false), false);
		filtered = outer_stays ? filtered_inner_side(cxt, moves, inner, stays, equalities) :
			filtered_side(cxt, moves, stays, equalities);
	}
	if (filtered != NULL)
	{
		rf_note_rows(stays);
		add_way(cxt, RF_STRATEGY_REPARTITION_ONE, outer_stays ? stays : filtered,
				outer_stays ? filtered : stays, outer_stays ? stays : filtered);
		if (rf_is_disabled(RF_EXCHANGE_FILTER_COSTS))
			return;
	}
	if (outer_stays)
		join_in_place(cxt, RF_STRATEGY_REPARTITION_ONE, outer, moves, outer);
	else
		join_in_place(cxt, RF_STRATEGY_REPARTITION_ONE, moves, inner, moves);
}

/* Rows that are on the only compute node, or go there, are all in one place. */
static void
gather(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner)
{
	bool		moves = !outer->fragment->computed || !inner->fragment->computed;

	if ((!outer->fragment->computed && !rf_can_move(cxt->root, outer)) ||
		(!inner->fragment->computed && !rf_can_move(cxt->root, inner)))
		return;
	if (!outer->fragment->computed)
		outer = rf_move(cxt->root, outer, NIL, true);
	if (!inner->fragment->computed)
		inner = move_inner(cxt, inner, NIL, true);
	add_way(cxt, moves ? RF_STRATEGY_REPLICATE : RF_STRATEGY_COLOCATED, outer, inner, outer);
}

/*
 * What one side's rows can be spread over the compute nodes by when the other side's go to all of
 * them: one of its sides of each equality, or without any a column.
 */
static List *
spreading_keys(JoinContext *cxt, RfRelInfo *info, bool outer)
{
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, cxt->equalities)
	{
		RfEquality *equality = (RfEquality *) lfirst(lc);

		keys = list_append_unique(keys, outer ? equality->outer : equality->inner);
	}
	foreach(lc, keys == NIL ? rf_visible_columns(cxt->root, info) : NIL)
	{
		Expr	   *key = rf_hashable_key((Expr *) lfirst(lc), info);

		if (key != NULL && IsA(key, Var))
			return list_make1(key);
	}
	return keys;
}

/* Both sides go to the compute nodes, one of them to all. */
static void
replicate_to_compute(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner)
{
	ListCell   *lc;

	foreach(lc, cxt->jointype != JOIN_FULL ? spreading_keys(cxt, outer, true) : NIL)
	{
		RfRelInfo  *moved = rf_move(cxt->root, outer, list_make1(lfirst(lc)), true);

		add_way(cxt, RF_STRATEGY_REPLICATE, moved, move_inner(cxt, inner, NIL, true), moved);
	}
	foreach(lc, cxt->jointype == JOIN_INNER ? spreading_keys(cxt, inner, false) : NIL)
	{
		RfRelInfo  *moved = move_inner(cxt, inner, list_make1(lfirst(lc)), true);

		add_way(cxt, RF_STRATEGY_REPLICATE, rf_move(cxt->root, outer, NIL, true), moved, moved);
	}
}

/*
 * All ways to join this statement with that one where the rows are, or, computed, on the compute
 * nodes.
 */
static void
find_ways(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner, bool computed)
{
	bool		outer_moves = rf_can_move(cxt->root, outer);
	bool		inner_moves = rf_can_move(cxt->root, inner);

	/* those that need not move are there */
	bool		outer_stays = outer->fragment->computed == computed;
	bool		inner_stays = inner->fragment->computed == computed;
	List	   *equalities;

	if (computed && list_length(outer->compute) == 1)
	{
		gather(cxt, outer, inner);
		return;
	}

	/*
	 * A replicated side meets its partners everywhere. But if it is the preserved side, each node
	 * would keep its unmatched rows: then one node must send its copy to the nodes given by the
	 * other side's keys.
	 */
	if (outer_stays && inner_stays)
	{
		if (is_everywhere(inner) && (is_everywhere(outer) || cxt->jointype != JOIN_FULL))
		{
			add_way(cxt, RF_STRATEGY_COLOCATED, outer, inner, outer);
			return;
		}
		if (is_everywhere(outer) && cxt->jointype == JOIN_INNER)
		{
			add_way(cxt, RF_STRATEGY_COLOCATED, outer, inner, inner);
			return;
		}
		if (is_colocated(cxt, outer, inner))
			join_in_place(cxt, RF_STRATEGY_COLOCATED, outer, inner, outer);
	}

	if (inner_moves && outer_stays)
	{
		equalities = partners(cxt, outer, true);
		if (equalities != NIL)
			repartition_one(cxt, outer, inner, true, equalities, computed);
		if (cxt->jointype != JOIN_FULL && !is_everywhere(outer))
			add_way(cxt, RF_STRATEGY_REPLICATE, outer, move_inner(cxt, inner, NIL, computed),
					outer);
	}
	if (outer_moves && inner_stays)
	{
		equalities = partners(cxt, inner, false);
		if (equalities != NIL)
			repartition_one(cxt, outer, inner, false, equalities, computed);
		if (cxt->jointype == JOIN_INNER)
			add_way(cxt, RF_STRATEGY_REPLICATE, rf_move(cxt->root, outer, NIL, computed), inner,
					inner);
	}
	if (!outer_moves || !inner_moves)
		return;
	if (!outer_stays && !inner_stays)
		replicate_to_compute(cxt, outer, inner);
	if (cxt->equalities == NIL)
		return;
	repartition_both(cxt, outer, inner, cxt->equalities, computed);
	/* one key only is less even, but may be what stands above needs */
	for (int i = 0; list_length(cxt->equalities) > 1 && i < list_length(cxt->equalities); i++)
		repartition_both(cxt, outer, inner, list_make1(list_nth(cxt->equalities, i)), computed);
}

static bool
way_is_computed(JoinWay *way)
{
	return way->outer->fragment->computed;
}

/* The ways that settings ask for, if there are any: where, and among those, which. */
static List *
preferred_ways(List *ways)
{
	List	   *places = NIL;
	List	   *preferred = NIL;
	ListCell   *lc;

	foreach(lc, ways)
	{
		if (rf_is_disabled(RF_COMPUTE_NODE_COSTS) && way_is_computed(lfirst(lc)))
			places = lappend(places, lfirst(lc));
	}
	if (places == NIL)
		places = ways;
	foreach(lc, places)
	{
		if (((JoinWay *) lfirst(lc))->strategy == rf_exchange_strategy)
			preferred = lappend(preferred, lfirst(lc));
	}
	return preferred == NIL ? places : preferred;
}

static char *
strategy_name(RfStrategy strategy)
{
	switch (strategy)
	{
		case RF_STRATEGY_COLOCATED:
			return "co-located";
		case RF_STRATEGY_REPARTITION_ONE:
			return "repartition one";
		case RF_STRATEGY_REPARTITION_BOTH:
			return "repartition both";
		case RF_STRATEGY_REPLICATE:
			return "replicate";
		default:
			elog(ERROR, "strategy %d is none of a statement", (int) strategy);
	}
}

/*
 * The statement of a join that is done in this way: its sides, moved where needed, and where its
 * rows lie.
 */
static RfRelInfo *
make_join(RfRelInfo *joined, JoinWay *way, RfChoices *choices)
{
	RfRelInfo  *info = palloc(sizeof(RfRelInfo));
	RfFragment *fragment = palloc0(sizeof(RfFragment));

	*info = *joined;
	info->outer = way->outer;
	info->inner = way->inner;
	info->fragment = fragment;
	fragment->placement = way->placement;
	fragment->keys = way->keys;
	fragment->layout = way->layout;
	fragment->choices = choices;
	fragment->exchanges = way->outer->fragment->exchanges + way->inner->fragment->exchanges;
	fragment->single_node = rf_has_single_node(fragment);
	fragment->computed = way_is_computed(way);
	fragment->sending = way->outer->fragment->sending + way->inner->fragment->sending;
	/* a side that moves, or is everywhere, is even */
	fragment->largest_part = Max(way->outer->fragment->largest_part,
								 way->inner->fragment->largest_part);
	fragment->strategies = lappend(list_concat_copy(way->outer->fragment->strategies,
													way->inner->fragment->strategies),
								   strategy_name(way->strategy));
	return info;
}

/* Most ways are worse than those that were found before, which needs no estimate of the join. */
static bool
is_hopeless(JoinWay *way, RfChoices *choices)
{
	RfFragment	fragment = {0};

	fragment.placement = way->placement;
	fragment.keys = way->keys;
	fragment.layout = way->layout;
	fragment.computed = way_is_computed(way);
	return rf_is_no_choice(choices, &fragment, rf_least_join_cost(way->outer, way->inner));
}

/* UPDATE and DELETE of a join that every node has all of bring no rows here. */
static bool
may_be_written_there(PlannerInfo *root, RfRelInfo *info)
{
	return (root->parse->commandType == CMD_UPDATE || root->parse->commandType == CMD_DELETE) &&
		!info->fragment->exchanges && !info->fragment->computed && info->local_conds == NIL &&
		bms_is_subset(root->all_baserels, info->rel->relids);
}

/*
 * Rows of a replicated table that are written one by one are read on the first node, which locks
 * them. So a join that gets them from several nodes is of no use: no statement of the nodes can
 * write by it either.
 */
static bool
writes_strewn_copies(PlannerInfo *root, RfRelInfo *info)
{
	int			relid = -1;

	if (is_everywhere(info) && !info->fragment->exchanges && !info->fragment->computed)
		return false;
	while ((relid = bms_next_member(info->rel->relids, relid)) >= 0)
	{
		RfRelInfo  *table;

		if (!rf_is_written(root, relid))
			continue;
		table = (RfRelInfo *) find_base_rel(root, relid)->fdw_private;
		if (table->distribution != NULL &&
			table->distribution->placement == RF_PLACED_EVERYWHERE)
			return true;
	}
	return false;
}

void
rf_join_choices(PlannerInfo *root, RelOptInfo *joinrel, RfRelInfo *joined, RfRelInfo *known,
				List *fdw_restrictinfo)
{
	RfChoices  *choices = known ? known->fragment->choices : palloc0(sizeof(RfChoices));
	RelOptInfo *outerrel = joined->outer->rel;
	RelOptInfo *innerrel = joined->inner->rel;
	RfRelInfo  *best = known;
	JoinContext cxt = {root, joined->jointype};
	ListCell   *lc;

	joinrel->fdw_private = known;
	if (rf_exchange_strategy == RF_STRATEGY_PULL)
	{
		rf_note_join(outerrel, innerrel, "rdma_fdw.exchange_strategy is pull");
		return;
	}
	choices->last_outer = outerrel;
	choices->last_inner = innerrel;

	cxt.equalities = rf_hashable_equalities(joined->joinclauses, outerrel->relids,
											innerrel->relids);
	foreach(lc, joined->outer->fragment->choices->infos)
	{
		ListCell   *inner;

		foreach(inner, joined->inner->fragment->choices->infos)
		{
			if (!((RfRelInfo *) lfirst(lc))->fragment->computed &&
				!((RfRelInfo *) lfirst(inner))->fragment->computed)
				find_ways(&cxt, lfirst(lc), lfirst(inner), false);
			if (rf_may_compute(joined))
				find_ways(&cxt, lfirst(lc), lfirst(inner), true);
		}
	}

	rf_note_join(outerrel, innerrel,
				 cxt.ways != NIL ? NULL : "rows of neither side can be sent to the other");
	foreach(lc, preferred_ways(cxt.ways))
	{
		RfRelInfo  *info;

		if (is_hopeless(lfirst(lc), choices))
			continue;
		info = make_join(joined, lfirst(lc), choices);
		if (writes_strewn_copies(root, info))
			continue;
		joinrel->fdw_private = info;
		rf_estimate_rel(root, joinrel);
		if (may_be_written_there(root, info))
			info->total_cost = Min(info->total_cost,
								   info->rel_total_cost + info->opts.fdw_startup_cost);
		if (!rf_add_choice(choices, info))
			continue;
		if (info->local_rels == NIL)
		{
			add_path(joinrel, (Path *)
					 rf_create_foreign_join_path(root, joinrel, info->rows, info->startup_cost,
												 info->total_cost, NIL, NULL, fdw_restrictinfo,
												 rf_path_private(info, 0)));
			rf_add_partial_path(root, joinrel, joinrel->relids, NULL, fdw_restrictinfo);
		}
		if (best == NULL || info->total_cost < best->total_cost)
			best = info;
	}
	joinrel->fdw_private = best;
	if (best != NULL && best != known && best->local_rels == NIL)
		rf_add_sorted_paths(root, joinrel, NULL, fdw_restrictinfo);
}
