/*
 * statement.c
 * 		Facts derived from the description of a remote statement, RfRelInfo, without planning.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "statement.h"


List *
rf_bare_clauses(List *clauses)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *clause = (Node *) lfirst(lc);

		if (IsA(clause, RestrictInfo))
			clause = (Node *) ((RestrictInfo *) clause)->clause;
		result = lappend(result, clause);
	}
	return result;
}

/*
 * The statement whose names this one, which is no join, uses; or the statement itself.
 */
static const RfRelInfo *
named_as(const RfRelInfo *info)
{
	if (info->fragment != NULL && info->fragment->moved != NULL)
		return info->fragment->moved;
	return info->upper.scan != NULL ? info->upper.scan : info;
}

char *
rf_relation_names(const RfRelInfo *info)
{
	if (info->relation_name != NULL)
		return info->relation_name;
	if (named_as(info) != info)
		return rf_relation_names(named_as(info));
	return psprintf("%s, %s", rf_relation_names(info->join.outer),
					rf_relation_names(info->join.inner));
}

/* The join's name in EXPLAIN. */
static const char *
join_name(JoinType jointype)
{
	switch (jointype)
	{
		case JOIN_INNER:
			return "INNER";
		case JOIN_LEFT:
			return "LEFT";
		case JOIN_RIGHT:
			return "RIGHT";
		case JOIN_FULL:
			return "FULL";
		case JOIN_SEMI:
			return "SEMI";
		case JOIN_ANTI:
			return "ANTI";
		default:
			elog(ERROR, "unsupported join type %d", (int) jointype);
	}
}

char *
rf_description(const RfRelInfo *info)
{
	if (info->description != NULL)
		return info->description;
	if (named_as(info) != info)
		return rf_description(named_as(info));
	return psprintf("(%s) %s JOIN (%s)", rf_description(info->join.outer),
					join_name(info->join.type), rf_description(info->join.inner));
}

TargetEntry *
rf_sortgroupref_tle(Index sortgroupref, List *tlist)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		if (lfirst_node(TargetEntry, lc)->ressortgroupref == sortgroupref)
			return lfirst_node(TargetEntry, lc);
	}
	return NULL;
}

Expr *
rf_stand_in(RfRelInfo *info, Var *hidden)
{
	ListCell   *lc;

	foreach(lc, info->join.stand_ins)
	{
		List	   *pair = (List *) lfirst(lc);

		if (!equal(linitial(pair), hidden))
			continue;
		if (!bms_is_member(lsecond_node(Var, pair)->varno, info->join.hidden_relids))
			return lsecond(pair);
		return rf_stand_in(info, lsecond(pair));
	}
	return NULL;
}

/*
 * Returns true if the FROM item of this relation can contain all of its conditions. See
 * append_join() in querybuild.c. Otherwise it has to be a sub-select.
 */
bool
rf_can_close(RfRelInfo *info)
{
	if (info->join.outer == NULL)
		return true;
	switch (info->join.type)
	{
		case JOIN_INNER:
			return true;		/* all of them move to ON */
		case JOIN_LEFT:
			return info->remote_conds == NIL && rf_can_close(info->join.outer);
		case JOIN_RIGHT:
			return info->remote_conds == NIL && rf_can_close(info->join.inner);
		case JOIN_FULL:
			return info->remote_conds == NIL;
		default:
			return false;		/* EXISTS is a condition */
	}
}

bool
rf_reads_select(RfRelInfo *info)
{
	return info->select != NULL || (info->upper.scan != NULL &&
									rf_reads_select(info->upper.scan)) ||
		(info->join.outer != NULL &&
		 (rf_reads_select(info->join.outer) || rf_reads_select(info->join.inner))) ||
		(info->fragment != NULL && info->fragment->moved != NULL &&
		 rf_reads_select(info->fragment->moved));
}

bool
rf_is_local(PlannerInfo *root, Index relid)
{
	RelOptInfo *rel = root->simple_rel_array[relid];

	return rel != NULL && rel->fdw_private != NULL && ((RfRelInfo *) rel->fdw_private)->local;
}

bool
rf_differs_by_node(RfRelInfo *info)
{
	return info->parts != NIL || (info->upper.scan != NULL &&
								  rf_differs_by_node(info->upper.scan)) ||
		(info->join.outer != NULL &&
		 (rf_differs_by_node(info->join.outer) || rf_differs_by_node(info->join.inner))) ||
		(info->fragment != NULL && info->fragment->moved != NULL &&
		 rf_differs_by_node(info->fragment->moved));
}

double
rf_node_share(const RfRelInfo *info)
{
	if (info->fragment == NULL || info->fragment->placement == RF_PLACED_EVERYWHERE ||
		info->fragment->single_node ||
		(info->fragment->layout != NULL && info->fragment->layout->place >= 0))
		return 1;
	return rf_largest_share(info);
}

bool
rf_moves_in_place(const RfRelInfo *move)
{
	RfFragment *source = move->fragment->moved->fragment;
	List	   *keys = move->fragment->move_keys;

	if (source->placement != RF_PLACED_BY_HASH || source->layout != NULL ||
		move->fragment->computed || source->computed ||
		list_length(source->keys) != list_length(keys))
		return false;
	for (int i = 0; i < list_length(keys); i++)
	{
		if (!list_member((List *) list_nth(source->keys, i), list_nth(keys, i)))
			return false;
	}
	return true;
}

bool
rf_is_divided(const RfRelInfo *move)
{
	ListCell   *lc;

	if (move->fragment == NULL || move->fragment->moved == NULL || move->fragment->replicate ||
		!rf_may_divide(move->fragment->moved))
		return false;
	foreach(lc, move->fragment->move_keys)
	{
		/* nodes compute keys, here they are columns */
		if (!IsA(lfirst(lc), Var))
			return false;
	}
	return true;
}

bool
rf_divides_local(const RfRelInfo *info)
{
	return info != NULL &&
		(rf_is_divided(info) || rf_divides_local(info->join.outer) ||
		 rf_divides_local(info->join.inner) ||
		 rf_divides_local(info->upper.scan) ||
		 (info->fragment != NULL && rf_divides_local(info->fragment->moved)));
}
