/*
 * join_memory.c
 *		What a statement of a join keeps of the memory in which its ways were found.
 *
 * Most ways to join a pair of sides are found for nothing. A large query has ten thousands of them,
 * and fresh memory for each would take longer than all else: nodes_join.c makes them in the memory
 * of the pair, and what a statement keeps of them is copied from there.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"

/* The expressions; those in the pair's memory are copied. */
static List *
keep_exprs(List *exprs, MemoryContext pair)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, exprs)
		result = lappend(result, GetMemoryChunkContext(lfirst(lc)) == pair ?
						 copyObject(lfirst(lc)) : lfirst(lc));
	return result;
}

List *
rf_keep_keys(List *keys, MemoryContext pair)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, keys)
		result = lappend(result, keep_exprs((List *) lfirst(lc), pair));
	return result;
}

RfRelInfo *
rf_keep_side(RfRelInfo *side, MemoryContext pair, List **known)
{
	RfRelInfo  *copy;
	RfFragment *fragment;
	ListCell   *lc;

	if (side == NULL || GetMemoryChunkContext(side) != pair)
		return side;
	foreach(lc, *known)
	{
		if (linitial((List *) lfirst(lc)) == side)
			return lsecond((List *) lfirst(lc));
	}
	copy = palloc(sizeof(RfRelInfo));
	*copy = *side;
	*known = lappend(*known, list_make2(side, copy));
	if (copy->select != NULL && GetMemoryChunkContext(copy->select) == pair)
	{
		copy->select = palloc(sizeof(RfSelect));
		*copy->select = *side->select;
		copy->select->info = rf_keep_side(copy->select->info, pair, known);
	}
	copy->upper.scan = rf_keep_side(copy->upper.scan, pair, known);
	if (GetMemoryChunkContext(side->fragment) != pair)
		return copy;
	copy->fragment = fragment = palloc(sizeof(RfFragment));
	*fragment = *side->fragment;
	fragment->keys = rf_keep_keys(fragment->keys, pair);
	fragment->move_keys = keep_exprs(fragment->move_keys, pair);
	fragment->heavy = fragment->heavy != NULL ? pstrdup(fragment->heavy) : NULL;
	fragment->moved = rf_keep_side(fragment->moved, pair, known);
	fragment->filter = rf_keep_side(fragment->filter, pair, known);
	return copy;
}
