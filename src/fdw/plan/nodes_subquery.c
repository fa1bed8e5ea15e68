/*
 * nodes_subquery.c
 *		Set operations and sub-selects that several data nodes run at once.
 *
 * Every node runs the statement over its own rows, so rows that an operation compares must be on
 * one node: both branches are placed by hash of the same columns, or are moved there. UNION ALL
 * compares nothing. Rows that are everywhere are good for the right side of INTERSECT and EXCEPT,
 * and in other operations both sides must be so, or one node sends its own to the place of the
 * rest. With compute nodes all branches may go there instead.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"

#include "plan.h"


/* The placement of a SELECT's rows; keys are columns and the expression hashed for each. */
typedef struct SelectPlace
{
	RfPlacement placement;
	List	   *columns;		/* IntList */
	List	   *exprs;
	int			exchanges;
	List	   *strategies;
} SelectPlace;

static Expr *
bare_column(RfSelect *select, int attno)
{
	ListCell   *lc;

	foreach(lc, select->tlist)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;

		if (lfirst_node(TargetEntry, lc)->resno != attno)
			continue;
		return rf_hashable_key(expr, select->info);
	}
	return NULL;
}

/*
 * Each of several nodes would count to the limit, and give a row where there is nothing to group.
 */
static bool
counts_all_rows(RfSelect *select)
{
	Query	   *parse = select->root->parse;

	if (select->info->fragment->placement == RF_PLACED_EVERYWHERE)
		return false;
	return select->limit || select->pathkeys != NIL ||
		(select->info->upper.grouped &&
		 (parse->groupClause == NIL || list_member(parse->groupingSets, NIL)));
}

/*
 * The placement of a branch's rows in terms of its columns: the place of a set operation's rows
 * depends on it. Returns false if the branch cannot be used by every node for itself.
 */
static bool
place_branch(RfSelect *select, SelectPlace *place)
{
	RfRelInfo  *info = select->info;
	RfFragment *fragment = info->fragment;
	bool		everywhere = fragment->placement == RF_PLACED_EVERYWHERE;
	ListCell   *lc;

	if ((everywhere && fragment->exchanges && !fragment->computed) || counts_all_rows(select))
		return false;
	/* layouts other than by hash are not known above it */
	place->placement = fragment->layout != NULL ? RF_PLACED_ANYWHERE : fragment->placement;
	place->exchanges = fragment->exchanges;
	place->strategies = list_copy(fragment->strategies);
	foreach(lc, place->placement == RF_PLACED_BY_HASH ? fragment->keys : NIL)
	{
		ListCell   *column;
		int			attno = 0;

		foreach(column, select->tlist)
		{
			Expr	   *expr = bare_column(select, lfirst_node(TargetEntry, column)->resno);

			if (expr == NULL || IsA(expr, Const) || !list_member((List *) lfirst(lc), expr))
				continue;
			attno = lfirst_node(TargetEntry, column)->resno;
			place->columns = lappend_int(place->columns, attno);
			place->exprs = lappend(place->exprs, expr);
			break;
		}
		if (attno == 0)
		{
			place->placement = RF_PLACED_ANYWHERE;
			place->columns = place->exprs = NIL;
			break;
		}
	}
	return true;
}

/*
 * The expressions to hash for these columns (NIL: any) of a branch, by column; false: its rows
 * cannot be moved by them.
 */
static bool
can_move(RfSelect *select, List *columns)
{
	ListCell   *lc;

	if (select->left != NULL || select->info->upper.scan != NULL ||
		select->info->fragment->moved != NULL || rf_is_set_operation(select->info) ||
		select->limit || columns == NIL || !rf_can_move(select->root, select->info))
		return false;
	foreach(lc, columns)
	{
		Expr	   *expr = bare_column(select, lfirst_int(lc));

		if (expr == NULL || !contain_var_clause((Node *) expr) || contain_subplans((Node *) expr))
			return false;
	}
	return true;
}

/*
 * The branch's rows without duplicates on the same node; NULL: that may not be asked for. Each
 * column has to be one of a table, because equal values may give different results of an
 * expression, and must be equal there where it is here.
 */
static RfRelInfo *
different_rows(RfSelect *select)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, select->tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!IsA(tle->expr, Var) || (OidIsValid(exprCollation((Node *) tle->expr)) &&
									 !bms_is_member(tle->resno, select->collated)))
			return NULL;
		exprs = lappend(exprs, tle->expr);
	}
	return rf_different_rows(select->root, select->info, exprs);
}

/* unique: the operation leaves no equal rows. */
static void
move(RfSelect *select, SelectPlace *place, List *columns, bool computed, bool unique)
{
	RfRelInfo  *different = unique ? different_rows(select) : NULL;
	ListCell   *lc;

	place->exprs = NIL;
	foreach(lc, columns)
		place->exprs = lappend(place->exprs, bare_column(select, lfirst_int(lc)));
	select->info = rf_move(select->root, select->info, place->exprs, computed);
	if (different != NULL)
	{
		different = rf_move(select->root, different, place->exprs, computed);
		if (rf_nodes_cost(different) < rf_nodes_cost(select->info))
			select->info = different;
	}
	select->startup_cost = select->info->rel_startup_cost;
	select->total_cost = select->info->rel_total_cost;
	place->columns = columns;
	place->placement = RF_PLACED_BY_HASH;
	place->exchanges = select->info->fragment->exchanges;
}

/* Columns that both sides can be moved by. */
static List *
common_columns(RfSelect *left, RfSelect *right)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, left->tlist)
	{
		int			attno = lfirst_node(TargetEntry, lc)->resno;

		if (can_move(left, list_make1_int(attno)) && can_move(right, list_make1_int(attno)) &&
			rf_same_hash(bare_column(left, attno), bare_column(right, attno)))
			columns = lappend_int(columns, attno);
	}
	return columns;
}

static bool
same_hashes(List *a, List *b)
{
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, a, lc2, b)
	{
		if (!rf_same_hash(lfirst(lc), lfirst(lc2)))
			return false;
	}
	return true;
}

/* Returns true if this side could be moved to the place of the other side. */
static bool
can_follow(RfSelect *select, SelectPlace *other)
{
	ListCell   *lc;
	ListCell   *expr;

	if (other->placement != RF_PLACED_BY_HASH || !can_move(select, other->columns))
		return false;
	forboth(lc, other->columns, expr, other->exprs)
	{
		if (!rf_same_hash(bare_column(select, lfirst_int(lc)), lfirst(expr)))
			return false;
	}
	return true;
}

static bool place_select(RfSelect *select, SelectPlace *place);

/*
 * Decides where the rows of a set operation's branches meet: where they lie if that is enough, else
 * by moving one branch or both. Returns false if no way is possible.
 */
static bool
place_operation(RfSelect *select, SelectPlace *place)
{
	SelectPlace left = {0};
	SelectPlace right = {0};
	bool		union_all = select->op == SETOP_UNION && select->all;
	char	   *strategy = "co-located";
	List	   *columns;

	if (!place_select(select->left, &left) || !place_select(select->right, &right))
		return false;

	if (left.placement == RF_PLACED_EVERYWHERE && right.placement == RF_PLACED_EVERYWHERE)
		 /* whichever node runs it */ ;
	else if (left.placement == RF_PLACED_BY_HASH && right.placement == RF_PLACED_BY_HASH &&
			 equal(left.columns, right.columns) && same_hashes(left.exprs, right.exprs))
		 /* they are where they belong */ ;
	else if (left.placement == RF_PLACED_BY_HASH && right.placement == RF_PLACED_EVERYWHERE &&
			 select->op != SETOP_UNION)
		 /* all that a row could be compared with is there */ ;
	else if (union_all && left.placement != RF_PLACED_EVERYWHERE &&
			 right.placement != RF_PLACED_EVERYWHERE)
		left.placement = RF_PLACED_ANYWHERE;
	else if (can_follow(select->right, &left))
	{
		move(select->right, &right, left.columns, false, !select->all);
		strategy = "repartition one";
	}
	else if (can_follow(select->left, &right))
	{
		move(select->left, &left, right.columns, false, !select->all);
		strategy = "repartition one";
	}
	else if ((columns = common_columns(select->left, select->right)) != NIL)
	{
		move(select->left, &left, columns, false, !select->all);
		move(select->right, &right, columns, false, !select->all);
		strategy = "repartition both";
	}
	else
		return false;

	place->placement = left.placement;
	if (place->placement == RF_PLACED_BY_HASH)
	{
		place->columns = left.columns;
		place->exprs = left.exprs;
	}
	place->exchanges = left.exchanges + right.exchanges;
	place->strategies = list_concat(left.strategies, right.strategies);
	if (!union_all || strcmp(strategy, "co-located") != 0)
		place->strategies = lappend(place->strategies, strategy);
	return true;
}

static bool
place_select(RfSelect *select, SelectPlace *place)
{
	if (select->left != NULL)
		return place_operation(select, place);
	return !select->info->fragment->computed && place_branch(select, place);
}

/* ---------- on the compute nodes ---------- */

static List *
branches(RfSelect *select)
{
	if (select->left == NULL)
		return list_make1(select);
	return list_concat(branches(select->left), branches(select->right));
}

static bool
compares_nothing(RfSelect *select)
{
	return select->left == NULL ||
		(select->op == SETOP_UNION && select->all && compares_nothing(select->left) &&
		 compares_nothing(select->right));
}

/*
 * Returns true if the branch is on the compute nodes, placed by these columns, hashed like the
 * first branch's.
 */
static bool
is_there(RfSelect *select, List *columns, RfSelect *first)
{
	SelectPlace place = {0};
	ListCell   *lc;
	ListCell   *expr;

	if (!select->info->fragment->computed || !place_branch(select, &place))
		return false;
	/* there is one only */
	if (place.placement == RF_PLACED_EVERYWHERE)
		return true;
	if (place.placement != RF_PLACED_BY_HASH || !equal(place.columns, columns))
		return false;
	forboth(lc, columns, expr, place.exprs)
	{
		if (!rf_same_hash(bare_column(first, lfirst_int(lc)), lfirst(expr)))
			return false;
	}
	return true;
}

/* Returns true if the branch can be moved by these columns, hashed like the first branch's. */
static bool
can_come(RfSelect *select, List *columns, RfSelect *first)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		if (!rf_same_hash(bare_column(first, lfirst_int(lc)), bare_column(select, lfirst_int(lc))))
			return false;
	}
	return !counts_all_rows(select) && can_move(select, columns);
}

static bool
all_meet(List *selects, List *columns)
{
	ListCell   *lc;

	foreach(lc, selects)
	{
		if (!is_there(lfirst(lc), columns, linitial(selects)) &&
			!can_come(lfirst(lc), columns, linitial(selects)))
			return false;
	}
	return columns != NIL;
}

/*
 * Columns by which equal rows meet on the compute nodes: the columns of a branch that is there, or
 * all suitable columns.
 */
static List *
meeting_columns(List *selects)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, selects)
	{
		RfSelect   *select = (RfSelect *) lfirst(lc);
		SelectPlace place = {0};

		if (select->info->fragment->computed && place_branch(select, &place) &&
			all_meet(selects, place.columns))
			return place.columns;
	}
	foreach(lc, ((RfSelect *) linitial(selects))->tlist)
	{
		int			attno = lfirst_node(TargetEntry, lc)->resno;

		if (all_meet(selects, list_make1_int(attno)))
			columns = lappend_int(columns, attno);
	}
	return all_meet(selects, columns) ? columns : NIL;
}

/* All branches go to the compute nodes, unless they are there. */
static bool
place_computed(RfSelect *select, SelectPlace *place, Cost *sending)
{
	List	   *selects = branches(select);
	List	   *columns = meeting_columns(selects);
	bool		anywhere = columns == NIL && compares_nothing(select);
	int			moved = 0;
	ListCell   *lc;

	if (columns == NIL && !anywhere)
		return false;
	foreach(lc, selects)
	{
		RfSelect   *branch = (RfSelect *) lfirst(lc);
		List	   *by = anywhere ? common_columns(branch, branch) : columns;
		SelectPlace to = {0};

		if (branch->info->fragment->computed && anywhere)
		{
			if (!place_branch(branch, &to) || to.placement == RF_PLACED_EVERYWHERE)
				return false;
		}
		else if (anywhere || !is_there(branch, by, linitial(selects)))
		{
			if (!can_come(branch, by, branch))
				return false;
			move(branch, &to, by, true, false);
			moved++;
		}
		*sending += branch->info->fragment->sending;
		place->exchanges += branch->info->fragment->exchanges;
		place->strategies = list_concat(place->strategies,
										list_copy(branch->info->fragment->strategies));
	}
	if (!anywhere || moved > 0)
		place->strategies = lappend(place->strategies, moved == 0 ? "co-located" :
									moved == 1 ? "repartition one" : "repartition both");
	place->placement = anywhere ? RF_PLACED_ANYWHERE : RF_PLACED_BY_HASH;
	place->columns = columns;
	return true;
}

/* A key in terms of the select's columns, and values that are the same in all rows. */
static List *
outer_key(RfSelect *select, Index relid, List *key)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, key)
	{
		Expr	   *expr = (Expr *) lfirst(lc);
		ListCell   *column;

		if (!contain_var_clause((Node *) expr))
			result = lappend(result, expr);
		foreach(column, select->tlist)
		{
			TargetEntry *tle = lfirst_node(TargetEntry, column);

			if (equal(rf_hashable_key(tle->expr, select->info), expr))
				result = lappend(result, makeVar(relid, tle->resno, exprType((Node *) tle->expr),
												 exprTypmod((Node *) tle->expr),
												 exprCollation((Node *) tle->expr), 0));
		}
	}
	return result;
}

/* A sub-select that is in nothing but FROM may go where its rows lie. */
static RfFragment *
place_alone(RfSelect *select, Index relid)
{
	RfFragment *inside = select->info->fragment;
	RfFragment *fragment = palloc(sizeof(RfFragment));
	ListCell   *lc;

	if (counts_all_rows(select))
		return NULL;
	*fragment = *inside;
	fragment->moved = NULL;
	fragment->keys = NIL;
	foreach(lc, inside->keys)
	{
		List	   *key = outer_key(select, relid, (List *) lfirst(lc));

		fragment->keys = lappend(fragment->keys, key);
		if (key == NIL)
			fragment->placement = RF_PLACED_ANYWHERE;
	}
	if (fragment->placement != RF_PLACED_BY_HASH)
	{
		fragment->keys = NIL;
		fragment->layout = NULL;
	}
	fragment->single_node = rf_has_single_node(fragment);
	return fragment;
}

RfFragment *
rf_place_select(RfSelect *select, Index relid)
{
	SelectPlace place = {0};
	RfFragment *fragment;
	Cost		sending = 0;

	if (select->left == NULL)
		return place_alone(select, relid);
	if (rf_exchange_strategy == RF_STRATEGY_PULL ||
		!(select->computed ? place_computed(select, &place, &sending) :
		  place_select(select, &place)))
		return NULL;
	fragment = palloc0(sizeof(RfFragment));
	fragment->computed = select->computed;
	fragment->sending = sending;
	fragment->placement = place.placement;
	fragment->exchanges = place.exchanges;
	fragment->strategies = place.strategies;
	fragment->keys = place.columns;
	return fragment;
}

void
rf_name_select_keys(RfRelInfo *info)
{
	RfFragment *fragment = info->fragment;
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, fragment->keys)
	{
		List	   *key = NIL;
		ListCell   *column;

		foreach(column, info->tlist)
		{
			Var		   *var = (Var *) lfirst_node(TargetEntry, column)->expr;

			if (IsA(var, Var) && var->varattno == lfirst_int(lc))
				key = list_make1(var);
		}
		keys = lappend(keys, key);
	}
	fragment->keys = keys;
}
