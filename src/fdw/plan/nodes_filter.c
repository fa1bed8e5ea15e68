/*
 * nodes_filter.c
 * 	Moved rows that have no partners among other moved rows are dropped before they leave.
 *
 * The filters themselves, and their use there: src/exchange/node_filter.c. Here: which rows may be
 * filtered by which, and whether that costs less. The rows of a join's two sides, see nodes_join.c;
 * and, below, the rows that a sub-select groups.
 */
#include "postgres.h"

#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/selfuncs.h"

#include "plan.h"

double
rf_survivors(PlannerInfo *root, RelOptInfo *side, RelOptInfo *other, List *equalities)
{
	SpecialJoinInfo semi = {.type = T_SpecialJoinInfo, .jointype = JOIN_SEMI};
	List	   *clauses = NIL;
	ListCell   *lc;

	semi.min_lefthand = semi.syn_lefthand = side->relids;
	semi.min_righthand = semi.syn_righthand = other->relids;
	/* bare equalities, in which nothing is kept of a join that is not the query's */
	foreach(lc, equalities)
		clauses = lappend(clauses, ((RfEquality *) lfirst(lc))->clause);
	return clauselist_selectivity(root, clauses, 0, JOIN_SEMI, &semi);
}

bool
rf_can_filter(const RfRelInfo *move, const RfRelInfo *other)
{
	if (move->fragment->moved->fragment->placement == RF_PLACED_EVERYWHERE ||
		rf_is_divided(other) ||
		move->fragment->moved->fragment->computed)
		return false;
	return rf_is_disabled(RF_EXCHANGE_FILTER_COSTS) ||
		(rf_filter_may_pay(move, other) &&
		 other->est.retrieved_rows * rf_node_share(other) <= RF_FILTER_ROWS(rf_node_count(move)));
}

RfRelInfo *
rf_filtered_move(RfRelInfo *move, RfRelInfo *other, double survivors)
{
	RfRelInfo  *result;

	result = palloc(sizeof(RfRelInfo));
	*result = *move;
	result->fragment = palloc(sizeof(RfFragment));
	*result->fragment = *move->fragment;
	result->fragment->filter = other;
	result->fragment->survivors = survivors;
	rf_estimate_move(result);
	return !rf_is_disabled(RF_EXCHANGE_FILTER_COSTS) &&
		result->rel_total_cost >= move->rel_total_cost ? NULL : result;
}

void
rf_note_rows(RfRelInfo *move)
{
	move->fragment->noted = true;
	rf_estimate_move(move);
}

/* ---------- rows that a sub-select groups ---------- */

/* Returns true if rows of different keys go to the nodes by nothing but these keys' hash. */
static bool
is_hashed(RfRelInfo *move, int keys)
{
	RfFragment *fragment = move->fragment;

	return fragment->moved != NULL && !fragment->replicate && !fragment->computed &&
		fragment->heavy == NULL && list_length(fragment->move_keys) == keys;
}

/*
 * The moved rows that each row of `info` has come from, and which went by the keys by which those
 * are placed; NULL if there are no such rows.
 */
static RfRelInfo *
find_origin(RfRelInfo *info, List *keys)
{
	RfRelInfo  *origin;
	ListCell   *lc;
	ListCell   *key;

	if (info->fragment->moved == NULL)
	{
		/* a table, or rows of a sub-select */
		if (info->join.outer == NULL || info->join.type == JOIN_FULL ||
			info->join.type == JOIN_RIGHT)
			return NULL;
		origin = find_origin(info->join.outer, keys);
		return origin == NULL && info->join.type == JOIN_INNER ?
			find_origin(info->join.inner, keys) :
			origin;
	}
	/* rows that stay in place move only where the planner has let them be noted */
	if (!is_hashed(info, list_length(keys)) || (rf_moves_in_place(info) && !info->fragment->noted))
		return NULL;
	forboth(lc, info->fragment->move_keys, key, keys)
	{
		if (!list_member((List *) lfirst(key), lfirst(lc)))
			return NULL;
	}
	return info;
}

/*
 * The rows that the sub-select groups, if they move and each group has the rows of one value of the
 * keys; by these the sub-select is placed. NULL: it does anything else. Then groups without
 * partners need no rows.
 */
static RfRelInfo *
find_grouped(RfRelInfo *info)
{
	RfSelect   *select = info->select;
	RfRelInfo  *grouped;
	RfRelInfo  *move;
	ListCell   *lc;
	ListCell   *key;

	if (select == NULL || select->left != NULL || info->parts != NIL || info->fragment->computed ||
		info->fragment->placement != RF_PLACED_BY_HASH || rf_is_set_operation(info))
		return NULL;
	grouped = select->info;
	move = grouped->upper.scan;
	if (!(grouped->upper.grouped || grouped->upper.distinct) || grouped->upper.windowed ||
		grouped->upper.projected ||
		select->root->parse->groupingSets != NIL || move == NULL ||
		move->fragment->filter != NULL || !is_hashed(move, list_length(info->fragment->keys)))
		return NULL;
	forboth(lc, move->fragment->move_keys, key, info->fragment->keys)
	{
		bool		found = false;
		ListCell   *lc2;

		foreach(lc2, (List *) lfirst(key))
		{
			Var		   *var = (Var *) lfirst(lc2);
			TargetEntry *tle;

			if (!IsA(var, Var) || var->varno != info->rel->relid)
				continue;
			tle = get_tle_by_resno(select->tlist, var->varattno);
			found |= tle != NULL && equal(rf_hashable_key(tle->expr, grouped), lfirst(lc));
		}
		if (!found)
			return NULL;
	}
	return move;
}

/* The equalities of the sides' keys, in their order. */
static List *
equal_keys(RfRelInfo *outer, RfRelInfo *inner, List *equalities)
{
	List	   *result = NIL;
	ListCell   *left;
	ListCell   *right;
	ListCell   *lc;

	forboth(left, outer->fragment->keys, right, inner->fragment->keys)
	{
		foreach(lc, equalities)
		{
			RfEquality *equality = (RfEquality *) lfirst(lc);

			if (list_member((List *) lfirst(left), equality->outer) &&
				list_member((List *) lfirst(right), equality->inner))
				break;
		}
		if (lc == NULL)
			return NIL;
		result = lappend(result, lfirst(lc));
	}
	return result;
}

/* The rows where they are, looked at as rows that move are. */
static RfRelInfo *
note_in_place(PlannerInfo *root, RfRelInfo *info, List *equalities)
{
	RfRelInfo  *move;

	if (info->fragment->placement != RF_PLACED_BY_HASH || info->fragment->layout != NULL ||
		info->fragment->computed || !rf_can_move(root, info))
		return NULL;
	move = rf_move(root, info, rf_equal_exprs(equalities, true), false);
	rf_note_rows(move);
	return move;
}

/*
 * The fraction of the groups whose keys some of the origin's rows have. The sub-select's columns
 * tell nothing of that: they have no statistics before PostgreSQL 17, and conditions on its groups
 * are asked after the filter.
 */
static double
surviving_groups(PlannerInfo *root, RfRelInfo *inner, RfRelInfo *move, RfRelInfo *origin,
				 List *equalities)
{
	return Min(estimate_num_groups(root, rf_equal_exprs(equalities, true),
								   origin->est.retrieved_rows,
								   NULL, NULL) /
			   estimate_num_groups(inner->select->root, move->fragment->move_keys,
								   move->est.retrieved_rows, NULL, NULL),
			   1);
}

RfRelInfo *
rf_filtered_select(PlannerInfo *root, RfRelInfo **outer, RfRelInfo *inner, List *equalities)
{
	RfRelInfo  *move = find_grouped(inner);
	List	   *used = move == NULL ? NIL : equal_keys(*outer, inner, equalities);
	RfRelInfo  *origin;
	RfRelInfo  *noted = *outer;
	RfRelInfo  *filtered;
	RfRelInfo  *grouped;
	RfRelInfo  *result;
	double		survivors;
	Cost		saved;

	if (used == NIL)
		return NULL;
	origin = find_origin(*outer, (*outer)->fragment->keys);
	if (origin == NULL)
		origin = noted = note_in_place(root, *outer, used);
	if (origin == NULL || !equal(origin->nodes, move->nodes) || !rf_can_filter(move, origin))
		return NULL;
	survivors = surviving_groups(root, inner, move, origin, used);
	filtered = rf_filtered_move(move, origin, survivors);
	if (filtered == NULL)
		return NULL;
	*outer = noted;

	/* the same statement over fewer rows, of which other ways read the existing one */
	result = palloc(sizeof(RfRelInfo));
	*result = *inner;
	result->select = palloc(sizeof(RfSelect));
	*result->select = *inner->select;
	result->select->info = grouped = palloc(sizeof(RfRelInfo));
	*grouped = *inner->select->info;
	grouped->upper.scan = filtered;
	saved = move->rel_total_cost - filtered->rel_total_cost +
		Max(grouped->rel_total_cost - move->rel_total_cost, 0) * (1 - survivors);
	result->rel_total_cost = Max(result->rel_total_cost - saved, filtered->rel_total_cost);
	result->rel_startup_cost = Min(result->rel_startup_cost, result->rel_total_cost);
	result->est.retrieved_rows = clamp_row_est(result->est.retrieved_rows * survivors);
	result->est.rows = clamp_row_est(result->est.rows * survivors);
	return result;
}
