/*
 * plan_text.c - once loaded, a session runs no plan as the planner made it: each is printed and
 * read again, as for parallel workers, and then copied, as for the plan cache.
 *
 * ERROR when the printed forms of these differ.
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/nodes.h"
#include "optimizer/planner.h"

#include "rdma_fdw/compat.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static planner_hook_type previous_planner_hook;

/*
 * What core prints in another way once it was read: places in the query's text are -1 then, and an
 * array without elements is NULL, which PostgreSQL 16 and later print as "<>". In strings, core
 * escapes parentheses.
 */
static char *
without_differences(char *text)
{
	static const char name[] = "location ";
	char	   *to = text;

	for (const char *from = text; (*to = *from) != '\0'; from++)
	{
		if (strncmp(from, name, strlen(name)) == 0)
			from += strlen(name) + strspn(from + strlen(name), "-0123456789") - 1;
		else if (strncmp(from, "()", 2) == 0)
		{
			*to++ = '<';
			*to++ = '>';
			from++;
		}
		else
			to++;
	}
	return text;
}

static PlannedStmt *
read_plan(Query *parse, const char *query_string, int options,
		  ParamListInfo params RF_EXPLAIN_PARAM)
{
	PlannedStmt *plan = previous_planner_hook != NULL ?
		previous_planner_hook(parse, query_string, options, params RF_EXPLAIN) :
		standard_planner(parse, query_string, options, params RF_EXPLAIN);
	char	   *text;
	char	   *again;

	/* core reads no utility statements */
	if (plan->utilityStmt != NULL)
		return plan;
	text = nodeToString(plan);
	plan = copyObject((PlannedStmt *) stringToNode(text));
	again = without_differences(nodeToString(plan));
	without_differences(text);
	if (strcmp(text, again) != 0)
	{
		int			at = 0;

		while (text[at] == again[at])
			at++;
		at -= Min(at, 40);
		elog(ERROR, "a plan has changed: \"%.80s\" is now \"%.80s\"", text + at, again + at);
	}
	return plan;
}

void
_PG_init(void)
{
	previous_planner_hook = planner_hook;
	planner_hook = read_plan;
}
