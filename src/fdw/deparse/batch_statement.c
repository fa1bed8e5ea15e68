/*
 * batch_statement.c
 * 		The text of a remote statement that runs for many values of its parameters.
 */
#include "postgres.h"

#include <ctype.h>

#include "utils/guc.h"

#include "rdma_fdw/batch.h"

#include "deparse.h"
#include "querybuild.h"

/* "(c1, c2)"; nothing for no columns */
static void
append_names(StringInfo buf, const char *before, const char *prefix, int count, const char *after)
{
	for (int i = 1; i <= count; i++)
		appendStringInfo(buf, "%s%s%d", i == 1 ? before : ", ", prefix, i);
	if (count > 0)
		appendStringInfoString(buf, after);
}

/* It would be an array there. Also true for a literal that looks like one. */
static bool
has_parameter(const char *text)
{
	while ((text = strchr(text, '$')) != NULL)
	{
		if (isdigit((unsigned char) *++text))
			return true;
	}
	return false;
}

char *
rf_batch_statement(PlannerInfo *root, RelOptInfo *rel, List *conditions, List *pathkeys, bool limit,
				   const RfRemoteQuery *query)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	RfRelInfo  *scan = info->upper.scan ? info->upper.scan : info;
	NodeText	node = {0};
	BuildContext cxt = {root, scan->rel->relids};
	int			count = list_length(query->param_types);
	List	   *columns;
	List	   *attrs;
	StringInfoData inside;
	StringInfoData buf;
	int			nestlevel;

	Assert(query->exchanges == NIL && query->node_sql == NIL);
	nestlevel = rf_neutral_settings(RF_TEXT_ALL);
	cxt.node = &node;
	cxt.batched = true;
	/* with the same numbers */
	cxt.params = list_truncate(list_copy(query->params), count);
	cxt.param_types = list_copy(query->param_types);
	columns = rf_statement_columns(root, rel, &attrs);
	if (!IS_SIMPLE_REL(rel) || info->select != NULL)
		conditions = scan->remote_conds;
	initStringInfo(&inside);
	rf_append_statement(&inside, &cxt, info, columns, conditions, pathkeys, limit);
	AtEOXact_GUC(true, nestlevel);
	if (cxt.unbatched || list_length(cxt.params) != count || has_parameter(inside.data))
		return NULL;
	initStringInfo(&buf);
	appendStringInfoString(&buf, "SELECT ");
	append_names(&buf, "", "q.c", list_length(columns), ", ");
	appendStringInfoString(&buf, "batch.place FROM unnest(");
	append_names(&buf, "", "$", count + 1, ") AS batch(");
	append_names(&buf, "", "p", count, ", place), LATERAL (");
	appendStringInfo(&buf, "%s) AS q", inside.data);
	append_names(&buf, "(", "c", list_length(columns), ")");
	return buf.data;
}
