/*
 * select.c
 *		The text of a SELECT that is part of a statement, and of a set operation of several.
 */
#include "postgres.h"

#include "querybuild.h"

static void
append_plain(StringInfo buf, BuildContext *cxt, RfSelect *select)
{
	RfRelInfo  *scan = select->info->upper.scan ? select->info->upper.scan : select->info;
	BuildContext inner = rf_open_inner(cxt, select->root, scan->rel->relids);
	RfRelInfo	info = *select->info;
	List	   *columns = NIL;
	ListCell   *lc;

	/* grouping and sort columns are named by their positions in this list */
	if (info.upper.scan != NULL)
		info.tlist = select->tlist;
	foreach(lc, select->tlist)
		columns = lappend(columns, lfirst_node(TargetEntry, lc)->expr);
	rf_append_statement(buf, &inner, &info, columns, scan->remote_conds, select->pathkeys,
						select->limit);
	rf_close_inner(cxt, &inner);
}

static void
append_branch(StringInfo buf, BuildContext *cxt, RfSelect *branch, bool parentheses)
{
	if (parentheses)
		appendStringInfoChar(buf, '(');
	rf_append_select(buf, cxt, branch);
	if (parentheses)
		appendStringInfoChar(buf, ')');
}

void
rf_append_select(StringInfo buf, BuildContext *cxt, RfSelect *select)
{
	static const char *const words[] = {
		[SETOP_UNION] = "UNION", [SETOP_INTERSECT] = "INTERSECT", [SETOP_EXCEPT] = "EXCEPT"
	};
	RfSelect   *left = select->left;

	if (left == NULL)
	{
		append_plain(buf, cxt, select);
		return;
	}
	append_branch(buf, cxt, left, left->left ? left->op != select->op || left->all != select->all :
				  left->pathkeys != NIL || left->limit || rf_is_set_operation(left->info));
	appendStringInfo(buf, " %s%s ", words[select->op], select->all ? " ALL" : "");
	append_branch(buf, cxt, select->right, select->right->left || select->right->pathkeys != NIL ||
				  select->right->limit || rf_is_set_operation(select->right->info));
}
