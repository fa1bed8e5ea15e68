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
 * Rows of the coordinator (local_rows.c) are on all nodes or, where they are many, go to the nodes
 * that keys say, from the coordinator.
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
#include "utils/float.h"

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

/* What a place must cost to be no better than a known one, if nobody has asked yet. */
#define NOT_ASKED	(-1)

/* A statement of one side, and what is known of all joins with it before any is made. */
typedef struct JoinSide
{
	RfRelInfo  *info;
	bool		moves;
	List	   *partners;		/* see partners() */

	RfLeast		here;			/* its rows where they are */
	RfLeast		replicated;		/* moved to all nodes */
	RfLeast		moved;			/* moved by keys */
	RfLeast		filtered;		/* the same, where either side may be filtered */
	bool		may_be_filtered;
	/* see is_worth() */
	Cost		dearer_here;	/* of a join where its rows are */
	Cost		dearer_there;	/* and where the other side's are that go to them */
} JoinSide;

/* Equalities by which both sides move. */
typedef struct JoinKeys
{
	List	   *equalities;
	Cost		dearer;
} JoinKeys;

typedef struct JoinContext
{
	PlannerInfo *root;
	RelOptInfo *joinrel;
	JoinType	jointype;
	bool		computed;		/* it is about ways on the compute nodes */
	RfChoices  *choices;		/* the statements that were found before */
	Cost		cheapest;		/* of these */
	RfLeastJoin least;			/* costs of the join itself */
	List	   *equalities;		/* of RfEquality */
	int			key_count;
	JoinKeys   *keys;			/* all of them, and each */
	bool		possible;		/* there are ways */
	List	   *ways;			/* the ways found so far that may be cheap enough */
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

/*
 * Returns true if the join has this column or placeholder, whatever outer joins may make it NULL
 * (Var.varnullingrels).
 */
static bool
has_column(RelOptInfo *joinrel, Node *column)
{
	ListCell   *lc;

	foreach(lc, joinrel->reltarget->exprs)
	{
		Node	   *expr = (Node *) lfirst(lc);

		if (IsA(column, Var) && IsA(expr, Var) &&
			((Var *) expr)->varno == ((Var *) column)->varno &&
			((Var *) expr)->varattno == ((Var *) column)->varattno)
			return true;
		if (IsA(column, PlaceHolderVar) && IsA(expr, PlaceHolderVar) &&
			((PlaceHolderVar *) expr)->phid == ((PlaceHolderVar *) column)->phid)
			return true;
	}
	return false;
}

/*
 * Returns true if something above the join can use the expression: all of its columns are columns
 * of the join.
 */
static bool
is_seen_above(RelOptInfo *joinrel, Expr *expr)
{
	ListCell   *lc;

	if (IsA(expr, Var))
		return has_column(joinrel, (Node *) expr);
	foreach(lc, pull_var_clause((Node *) expr, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		if (!has_column(joinrel, lfirst(lc)))
			return false;
	}
	return true;
}

/*
 * Returns true if it matters to anything above the join that its rows lie where these keys say, as
 * an order matters or not: that needs an expression of each key. Otherwise a join with a dozen
 * relations has as many statements as keys, that differ in nothing but keys which nobody asks for.
 * Rows that are written are found by keys that are not among the columns.
 */
static bool
are_useful_keys(JoinContext *cxt, List *keys)
{
	ListCell   *lc;

	if (IS_OTHER_REL(cxt->joinrel) ||
		(cxt->root->parse->commandType != CMD_SELECT &&
		 cxt->root->parse->commandType != CMD_INSERT))
		return true;
	foreach(lc, keys)
	{
		ListCell   *member;
		bool		seen = false;

		foreach(member, (List *) lfirst(lc))
			seen = seen || is_seen_above(cxt->joinrel, lfirst(member));
		if (!seen)
			return false;
	}
	return true;
}

/* A semi or anti join needs each key of its inner side once. */
static RfRelInfo *
move_inner(JoinContext *cxt, RfRelInfo *inner, List *keys, bool computed)
{
	return !inner->local && (cxt->jointype == JOIN_SEMI || cxt->jointype == JOIN_ANTI) ?
		rf_move_different(cxt->root, inner, keys, computed) :
		rf_move(cxt->root, inner, keys, computed);
}

/* One side as it is where the equalities' keys say. */
static RfRelInfo *
move_by(JoinContext *cxt, RfRelInfo *side, bool outer, List *equalities, bool computed)
{
	List	   *keys = rf_equal_exprs(equalities, outer);

	return outer ? rf_move(cxt->root, side, keys, computed) :
		move_inner(cxt, side, keys, computed);
}

/* The placement of a join where this side's rows are. */
static RfPlacement
joined_placement(JoinContext *cxt, const RfFragment *side, List **keys, RfLayout **layout)
{
	if (side->placement != RF_PLACED_BY_HASH)
		return side->placement;
	/* either side's key may be the NULL that a full join made */
	if (cxt->jointype == JOIN_FULL)
		return RF_PLACED_ANYWHERE;
	*keys = joined_keys(cxt, side->keys);
	*layout = side->layout;
	if (side->layout == NULL && !are_useful_keys(cxt, *keys))
	{
		*keys = NIL;
		return RF_PLACED_ANYWHERE;
	}
	return RF_PLACED_BY_HASH;
}

/* The same where the equalities' keys move both sides. */
static RfPlacement
moved_placement(JoinContext *cxt, List *equalities, List **keys, RfLayout **layout)
{
	RfFragment	moved = {.placement = RF_PLACED_BY_HASH};
	ListCell   *lc;

	foreach(lc, equalities)
		moved.keys = lappend(moved.keys, list_make1(((RfEquality *) lfirst(lc))->outer));
	return joined_placement(cxt, &moved, keys, layout);
}

/* Returns true if something above the join may need rows where this equality's key moves them. */
static bool
is_useful_key(JoinContext *cxt, List *equalities)
{
	List	   *keys = NIL;
	RfLayout   *layout = NULL;

	return moved_placement(cxt, equalities, &keys, &layout) == RF_PLACED_BY_HASH;
}

static void
add_way(JoinContext *cxt, RfStrategy strategy, RfRelInfo *outer, RfRelInfo *inner, RfRelInfo *place)
{
	JoinWay    *way = palloc0(sizeof(JoinWay));

	way->strategy = strategy;
	way->outer = outer;
	way->inner = inner;
	way->placement = joined_placement(cxt, place->fragment, &way->keys, &way->layout);
	cxt->ways = lappend(cxt->ways, way);
}

/*
 * Returns false if a statement whose rows lie as well was found before and costs less than the
 * lower bound of this join. The join is done where the rows of `place` are; place NULL: where the
 * equalities' keys move the outer side's rows. A pair of relations can be joined in hundreds of
 * ways: most of them end here, before their moves are planned. The caller keeps *dearer, the cost
 * of the statement that was found before, for the next call with the same place. If a setting asks
 * for a strategy, all ways are planned.
 */
static bool
is_worth(JoinContext *cxt, const RfFragment *place, List *equalities, const RfLeast *outer,
		 const RfLeast *inner, Cost *dearer)
{
	RfFragment	joined = {0};
	Cost		least;

	cxt->possible = true;
	if (cxt->computed || rf_exchange_strategy != RF_STRATEGY_AUTO || cxt->choices->infos == NIL)
		return true;
	least = rf_least_cost(&cxt->least, outer, inner);
	if (least < cxt->cheapest)
		return true;
	if (*dearer == NOT_ASKED)
	{
		joined.placement = place != NULL ?
			joined_placement(cxt, place, &joined.keys, &joined.layout) :
			moved_placement(cxt, equalities, &joined.keys, &joined.layout);
		*dearer = rf_dearer_choice(cxt->choices, &joined, get_float8_infinity());
	}
	return least < *dearer;
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
	if (filtered_outer != NULL && filtered_inner != NULL &&
		filtered_outer->rel_total_cost + (*inner)->rel_total_cost <
		filtered_inner->rel_total_cost + (*outer)->rel_total_cost)
		filtered_inner = NULL;
	if (filtered_inner != NULL)
	{
		rf_note_rows(*outer);
		*inner = filtered_inner;
	}
	else if (filtered_outer != NULL)
	{
		rf_note_rows(*inner);
		*outer = filtered_outer;
	}
}

static void
repartition_both(JoinContext *cxt, RfRelInfo *outer, RfRelInfo *inner, List *equalities,
				 bool computed)
{
	RfRelInfo  *place = move_by(cxt, outer, true, equalities, computed);
	RfRelInfo  *other = move_by(cxt, inner, false, equalities, computed);

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
	RfRelInfo  *stays = outer_stays ? outer : inner;
	RfRelInfo  *moves = move_by(cxt, outer_stays ? inner : outer, !outer_stays, equalities,
								computed);

	if (!rf_is_disabled(RF_EXCHANGE_FILTERS) && !computed && rf_can_move(cxt->root, stays) &&
		needs_partners(cxt, !outer_stays) &&
		(!tried || rf_exchange_strategy == RF_STRATEGY_REPARTITION_ONE))
	{
		stays = move_by(cxt, stays, outer_stays, equalities, false);
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

/* The same where one of the sides has to be a sub-select, which join_in_place() may filter. */
static bool
is_worth_in_place(JoinContext *cxt, JoinSide *place, JoinSide *other)
{
	return place->info->select != NULL || other->info->select != NULL ||
		is_worth(cxt, place->info->fragment, NIL, &place->here, &other->here,
				 &place->dearer_here);
}

/* One of the sides, or both, go where the keys of the other, or of the join, say. */
static void
find_moves(JoinContext *cxt, JoinSide *left, JoinSide *right)
{
	RfRelInfo  *outer = left->info;
	RfRelInfo  *inner = right->info;
	bool		filters = left->may_be_filtered || right->may_be_filtered;
	RfLeast    *outer_moved = filters ? &left->filtered : &left->moved;
	RfLeast    *inner_moved = filters ? &right->filtered : &right->moved;

	/* those that need not move are there */
	bool		outer_stays = outer->fragment->computed == cxt->computed;
	bool		inner_stays = inner->fragment->computed == cxt->computed;

	if (right->moves && outer_stays)
	{
		if (left->partners != NIL &&
			(outer->select != NULL ||
			 is_worth(cxt, outer->fragment, NIL, &left->here, inner_moved, &left->dearer_here)))
			repartition_one(cxt, outer, inner, true, left->partners, cxt->computed);
		if (cxt->jointype != JOIN_FULL && !is_everywhere(outer) && !rf_may_divide(inner) &&
			is_worth(cxt, outer->fragment, NIL, &left->here, &right->replicated,
					 &left->dearer_here))
			add_way(cxt, RF_STRATEGY_REPLICATE, outer, move_inner(cxt, inner, NIL, cxt->computed),
					outer);
	}
	if (left->moves && inner_stays)
	{
		if (right->partners != NIL &&
			(inner->select != NULL ||
			 is_worth(cxt, NULL, right->partners, outer_moved, &right->here,
					  &right->dearer_there)))
			repartition_one(cxt, outer, inner, false, right->partners, cxt->computed);
		/* rows that are on all nodes are joined there by find_ways() */
		if (cxt->jointype == JOIN_INNER && !(outer_stays && is_everywhere(outer)) &&
			!rf_may_divide(outer) &&
			is_worth(cxt, inner->fragment, NIL, &left->replicated, &right->here,
					 &right->dearer_here))
			add_way(cxt, RF_STRATEGY_REPLICATE, rf_move(cxt->root, outer, NIL, cxt->computed),
					inner, inner);
	}
	if (!left->moves || !right->moves)
		return;
	if (!outer_stays && !inner_stays)
		replicate_to_compute(cxt, outer, inner);
	/* one key only is less even, but may be what stands above needs */
	for (int i = 0; i < cxt->key_count; i++)
	{
		if ((i == 0 || is_useful_key(cxt, cxt->keys[i].equalities)) &&
			is_worth(cxt, NULL, cxt->keys[i].equalities, outer_moved, inner_moved,
					 &cxt->keys[i].dearer))
			repartition_both(cxt, outer, inner, cxt->keys[i].equalities, cxt->computed);
	}
}

/* All ways to join this statement with that one, where the rows are, or on the compute nodes. */
static void
find_ways(JoinContext *cxt, JoinSide *left, JoinSide *right)
{
	RfRelInfo  *outer = left->info;
	RfRelInfo  *inner = right->info;
	bool		both_stay = outer->fragment->computed == cxt->computed &&
		inner->fragment->computed == cxt->computed;

	if (cxt->computed && list_length(outer->compute) == 1)
	{
		gather(cxt, outer, inner);
		return;
	}

	/*
	 * A replicated side meets its partners everywhere. But if it is the preserved side, each node
	 * would keep its unmatched rows: then one node must send its copy to the nodes given by the
	 * other side's keys.
	 */
	if (both_stay)
	{
		if (is_everywhere(inner) && (is_everywhere(outer) || cxt->jointype != JOIN_FULL))
		{
			if (is_worth(cxt, outer->fragment, NIL, &left->here, &right->here, &left->dearer_here))
				add_way(cxt, RF_STRATEGY_COLOCATED, outer, inner, outer);
			if (!rf_may_divide(inner))
				return;
		}
		else if (is_everywhere(outer) && cxt->jointype == JOIN_INNER)
		{
			if (is_worth(cxt, inner->fragment, NIL, &left->here, &right->here, &right->dearer_here))
				add_way(cxt, RF_STRATEGY_COLOCATED, outer, inner, inner);
			if (!rf_may_divide(outer))
				return;
		}
		/* that it is not worth it is seen sooner, but does not show that it is possible */
		if ((!cxt->possible || is_worth_in_place(cxt, left, right)) &&
			is_colocated(cxt, outer, inner) && is_worth_in_place(cxt, left, right))
			join_in_place(cxt, RF_STRATEGY_COLOCATED, outer, inner, outer);
	}
	find_moves(cxt, left, right);
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
	info->join.outer = way->outer;
	info->join.inner = way->inner;
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
	Cost		least = rf_least_join_cost(way->outer, way->inner);

	fragment.placement = way->placement;
	fragment.keys = way->keys;
	fragment.layout = way->layout;
	fragment.computed = way_is_computed(way);
	return rf_dearer_choice(choices, &fragment, least) <= least;
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

/* All statements of one side. */
static JoinSide *
make_sides(JoinContext *cxt, List *infos, bool outer)
{
	JoinSide   *sides = palloc0(list_length(infos) * sizeof(JoinSide));
	bool		different = !outer &&
		(cxt->jointype == JOIN_SEMI || cxt->jointype == JOIN_ANTI);
	ListCell   *lc;

	foreach(lc, infos)
	{
		JoinSide   *side = &sides[foreach_current_index(lc)];
		RfRelInfo  *info = (RfRelInfo *) lfirst(lc);

		side->info = info;
		side->moves = rf_can_move(cxt->root, info);
		side->partners = partners(cxt, info, outer);
		rf_least_read(info, &side->here);
		rf_least_move(info, true, false, different, &side->replicated);
		rf_least_move(info, false, false, different, &side->moved);
		rf_least_move(info, false, true, different, &side->filtered);
		side->may_be_filtered = !rf_is_disabled(RF_EXCHANGE_FILTERS) &&
			(rf_may_be_filtered(info) || rf_is_disabled(RF_EXCHANGE_FILTER_COSTS));
		side->dearer_here = side->dearer_there = NOT_ASKED;
	}
	return sides;
}

/* The keys by which both sides may move. */
static void
make_keys(JoinContext *cxt)
{
	int			count = list_length(cxt->equalities);

	if (count == 0)
		return;
	cxt->keys = palloc((count + 1) * sizeof(JoinKeys));
	cxt->keys[cxt->key_count++] = (JoinKeys) {cxt->equalities, NOT_ASKED};
	for (int i = 0; count > 1 && i < count; i++)
	{
		List	   *single = list_make1(list_nth(cxt->equalities, i));

		cxt->keys[cxt->key_count++] = (JoinKeys) {single, NOT_ASKED};
	}
}

/* All ways to join any statement of one side with any of the other one. */
static void
find_all_ways(JoinContext *cxt, RfRelInfo *joined)
{
	List	   *outers = joined->join.outer->fragment->choices->infos;
	List	   *inners = joined->join.inner->fragment->choices->infos;
	JoinSide   *left = make_sides(cxt, outers, true);
	JoinSide   *right = make_sides(cxt, inners, false);

	make_keys(cxt);
	for (int i = 0; i < list_length(outers); i++)
	{
		for (int j = 0; j < list_length(inners); j++)
		{
			cxt->computed = false;
			if (!left[i].info->fragment->computed && !right[j].info->fragment->computed)
				find_ways(cxt, &left[i], &right[j]);
			cxt->computed = true;
			if (rf_may_compute(joined))
				find_ways(cxt, &left[i], &right[j]);
		}
	}
}

/*
 * Adds to the join the statements for one pair of sides that pay. Each begins as a copy of
 * `joined`, which is not kept.
 */
void
rf_join_choices(PlannerInfo *root, RelOptInfo *joinrel, RfRelInfo *joined, RfRelInfo *known,
				List *fdw_restrictinfo)
{
	RfChoices  *choices = known ? known->fragment->choices : palloc0(sizeof(RfChoices));
	RelOptInfo *outerrel = joined->join.outer->rel;
	RelOptInfo *innerrel = joined->join.inner->rel;
	RfRelInfo  *best = known;
	JoinContext cxt = {root, joinrel, joined->join.type};
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext pair;
	List	   *kept = NIL;
	ListCell   *lc;

	joinrel->fdw_private = known;
	if (rf_exchange_strategy == RF_STRATEGY_PULL)
	{
		rf_note_join(outerrel, innerrel, "rdma_fdw.exchange_strategy is pull");
		return;
	}
	choices->last_outer = outerrel;
	choices->last_inner = innerrel;

	/* core makes its table of joins when somebody first looks for one in a long list */
	(void) find_join_rel(root, joinrel->relids);
	pair = AllocSetContextCreate(caller, "rdma_fdw join", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(pair);
	cxt.equalities = rf_hashable_equalities(joined->join.clauses, outerrel->relids,
											innerrel->relids);
	cxt.choices = choices;
	cxt.cheapest = rf_cheapest_choice(choices);
	rf_least_of_join(root, joined, &cxt.least);
	find_all_ways(&cxt, joined);
	MemoryContextSwitchTo(caller);
	rf_note_join(outerrel, innerrel,
				 cxt.possible || cxt.ways != NIL ? NULL :
				 "rows of neither side can be sent to the other");
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
			info->est.total_cost = Min(info->est.total_cost,
									   info->rel_total_cost + info->opts.fdw_startup_cost);
		if (!rf_add_choice(choices, info))
		{
			pfree(info->fragment);
			pfree(info);
			continue;
		}
		info->join.outer = rf_keep_side(info->join.outer, pair, &kept);
		info->join.inner = rf_keep_side(info->join.inner, pair, &kept);
		info->fragment->keys = rf_keep_keys(info->fragment->keys, pair);
		rf_add_path(root, joinrel, (Path *)
					rf_create_foreign_join_path(root, joinrel, info->est.rows,
												info->est.startup_cost,
												info->est.total_cost, NIL, NULL, fdw_restrictinfo,
												rf_path_private(info, 0)));
		rf_add_partial_path(root, joinrel, joinrel->relids, NULL, fdw_restrictinfo);
		if (best == NULL || info->est.total_cost < best->est.total_cost)
			best = info;
	}
	list_free_deep(kept);
	MemoryContextDelete(pair);
	joinrel->fdw_private = best;
	if (best != NULL && best != known)
		rf_add_sorted_paths(root, joinrel, NULL, fdw_restrictinfo);
}
