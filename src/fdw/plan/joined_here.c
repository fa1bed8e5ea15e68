/*
 * joined_here.c
 *		Why a statement does not join a table that it could be joined with: for EXPLAIN (VERBOSE).
 *
 * The planner tries pairs of relations. Of each pair whose one side is a statement and the other
 * one table the reason is noted with the statement: the join cannot be done on the data node, or it
 * can and something else was expected to cost less. The plan shows the notes of the statements that
 * it has in the end. Local tables are not mentioned.
 */
#include "postgres.h"

#include "foreign/fdwapi.h"
#include "lib/stringinfo.h"

#include "plan.h"

typedef struct Note
{
	Index		other;			/* the table, in the range table */
	bool		possible;		/* it can be done, but is not */
	const char *reason;
} Note;

/*
 * The statement of a relation whose rows are here, see local_rows.c; or NULL. ours: one of this
 * wrapper's.
 */
static RfRelInfo *
local_rows_of(RelOptInfo *ours, RelOptInfo *rel)
{
	RfRelInfo  *info = rel->fdwroutine != NULL &&
		rel->fdwroutine->GetForeignPlan == ours->fdwroutine->GetForeignPlan ?
		(RfRelInfo *) rel->fdw_private :
		NULL;

	return info != NULL && info->local ? info : NULL;
}

/* It can be done, but is not. */
static const char *
why_dearer(RelOptInfo *rel, RelOptInfo *other)
{
	RfRelInfo  *sent = local_rows_of(rel, other);

	if (sent != NULL)
		return psprintf("%s, and to send its rows was expected to cost more", sent->apart);
	if (local_rows_of(rel, rel) != NULL)
		return psprintf("it is on server \"%s\", and to send these rows there was expected to "
						"cost more",
						((RfRelInfo *) other->fdw_private)->server->servername);
	return "another way was expected to cost less";
}

/* The note on this table; NULL if there is no note yet. */
static Note *
find_note(struct RfJoinNotes *notes, Index other)
{
	ListCell   *lc;

	foreach(lc, notes->notes)
	{
		Note	   *note = (Note *) lfirst(lc);

		if (note->other == other)
			return note;
	}
	return NULL;
}

void
rf_note_join_of(RelOptInfo *rel, RelOptInfo *other, const char *reason)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	Note	   *note;
	MemoryContext caller;

	if (other->reloptkind != RELOPT_BASEREL || info == NULL || info->notes == NULL ||
		(local_rows_of(rel, other) != NULL && local_rows_of(rel, other)->apart == NULL))
		return;
	note = find_note(info->notes, other->relid);
	/* in one order of the two it can be done, and in the other one perhaps not */
	if (note != NULL && (reason != NULL || note->possible))
		return;

	caller = MemoryContextSwitchTo(rf_memory_of(rel));
	if (note == NULL)
	{
		note = palloc0(sizeof(Note));
		note->other = other->relid;
		info->notes->notes = lappend(info->notes->notes, note);
	}
	note->possible = reason == NULL;
	note->reason = reason != NULL ? pstrdup(reason) : why_dearer(rel, other);
	MemoryContextSwitchTo(caller);
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
