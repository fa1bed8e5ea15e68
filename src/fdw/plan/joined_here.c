/*
 * joined_here.c
 *		Why a statement does not join a table that it could be joined with: for EXPLAIN (VERBOSE).
 *
 * The planner tries pairs of relations. Of each pair whose one side is a statement and the other one
 * table the reason is noted with the statement: the join cannot be done on the data node, or it can
 * and something else was expected to cost less. What is noted with the statements that the plan has
 * in the end is what it shows. Local tables are not mentioned.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"

/* It can be done. */
#define DEARER "another way was expected to cost less"

typedef struct Note
{
	Index		other;			/* the table, in the range table */
	const char *reason;
} Note;

/* Of one relation, for all its statements. */
struct RfJoinNotes
{
	List	   *notes;			/* of Note, one for each table */
};

struct RfJoinNotes *
rf_make_join_notes(void)
{
	return palloc0(sizeof(struct RfJoinNotes));
}

static void
note(RelOptInfo *rel, RelOptInfo *other, const char *reason)
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
	note(outerrel, innerrel, reason);
	note(innerrel, outerrel, reason);
}

/* Are there foreign tables of ours in this query or one in its FROM? */
static bool
reads_ours(PlannerInfo *root)
{
	for (int i = 1; root != NULL && i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];

		if (rel != NULL && (rf_is_our_rel(rel) || reads_ours(rel->subroot)))
			return true;
	}
	return false;
}

/* Why a statement cannot be joined with this; NULL: that needs no reason. */
static const char *
reason_of_table(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *other)
{
	RangeTblEntry *rte;

	if (other->reloptkind != RELOPT_BASEREL)
		return NULL;
	rte = planner_rt_fetch(other->relid, root);
	if (rf_is_our_rel(other) && other->fdw_private != NULL)
	{
		if (other->serverid != rel->serverid)
			return psprintf("it is on server \"%s\"", GetForeignServer(other->serverid)->servername);
		if (other->userid != rel->userid)
			return "it is read with the rights of another role";
		return NULL;
	}
	if (rte->rtekind == RTE_SUBQUERY && reads_ours(other->subroot))
		return "it is a sub-select that is computed here";
	if (rte->rtekind == RTE_CTE)
		return "it is a WITH query, which is computed here";
	if (rte->rtekind == RTE_RELATION && rte->inh && !rf_is_our_rel(other))
		return "its partitions or children are read one by one";
	return NULL;
}

static void
note_unasked(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *other)
{
	const char *reason;

	if (!rf_is_our_rel(rel) || rel->fdw_private == NULL)
		return;
	reason = reason_of_table(root, rel, other);
	if (reason != NULL)
		note(rel, other, reason);
}

/* A pair for which core does not ask the wrapper. */
void
rf_note_unasked_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel)
{
	if (rf_is_our_rel(joinrel))
		return;
	note_unasked(root, outerrel, innerrel);
	note_unasked(root, innerrel, outerrel);
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
