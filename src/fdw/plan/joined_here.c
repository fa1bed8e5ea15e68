/*
 * joined_here.c
 *		Why a statement does not join a table that it could be joined with: for EXPLAIN (VERBOSE).
 *
 * The planner tries pairs of relations. Of each pair whose one side is a statement and the other one
 * table the reason is noted with the statement: the join cannot be done on the data node, or it can
 * and something else was expected to cost less. The plan shows the notes of the statements that it has
 * in the end. Local tables are not mentioned.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "parser/parsetree.h"

#include "plan.h"

/* It can be done. */
#define DEARER "another way was expected to cost less"

typedef struct Note
{
	Index		other;			/* the table, in the range table */
	const char *reason;
} Note;

void
rf_note_join_of(RelOptInfo *rel, RelOptInfo *other, const char *reason)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	Note	   *added;
	ListCell   *lc;

	if (other->reloptkind != RELOPT_BASEREL || info == NULL || info->notes == NULL)
		return;
	foreach(lc, info->notes->notes)
	{
		Note	   *known = (Note *) lfirst(lc);

		if (known->other != other->relid)
			continue;
		/* in one order of the two it can be done, and in the other one perhaps not */
		if (reason == NULL)
			known->reason = DEARER;
		return;
	}
	added = palloc(sizeof(Note));
	added->other = other->relid;
	added->reason = reason != NULL ? reason : DEARER;
	info->notes->notes = lappend(info->notes->notes, added);
}

void
rf_note_join(RelOptInfo *outerrel, RelOptInfo *innerrel, const char *reason)
{
	rf_note_join_of(outerrel, innerrel, reason);
	rf_note_join_of(innerrel, outerrel, reason);
}

/* Lines of text, one for each reason, after the names of the tables that have it. */
List *
rf_joined_here(PlannerInfo *root, RfRelInfo *info)
{
	List	   *lines = NIL;
	Relids		done = NULL;
	ListCell   *lc;
	ListCell   *other;

	if (info->notes == NULL || bms_is_subset(root->all_baserels, info->rel->relids))
		return NIL;
	foreach(lc, info->notes->notes)
	{
		Note	   *first = (Note *) lfirst(lc);
		StringInfoData line;

		if (bms_is_member(first->other, done))
			continue;
		initStringInfo(&line);
		for_each_cell(other, info->notes->notes, lc)
		{
			Note	   *same = (Note *) lfirst(other);

			if (strcmp(same->reason, first->reason) != 0)
				continue;
			appendStringInfo(&line, "%s%s", line.len == 0 ? "with " : ", ",
							 planner_rt_fetch(same->other, root)->eref->aliasname);
			done = bms_add_member(done, same->other);
		}
		appendStringInfo(&line, ": %s", first->reason);
		lines = lappend(lines, makeString(line.data));
	}
	return lines;
}
