/*
 * row_names.c
 * 	Names of rows in a query over several nodes that are valid on each of them only: ctid, and ONLY.
 *
 * A ctid names a row of one table of one node. Rows of two nodes have the same one, so a condition
 * on it would find rows that were not meant, and a DELETE would delete them. It may be shown, as a
 * column of the outermost query's result, which nothing there compares, and one may ask whether
 * there is one at all (IS NULL). Every other use is refused. The ctid that finds rows again to
 * write them (modify_plan.c) is not in the query.
 *
 * ONLY leaves out the partitions and children that the table has on its nodes. The planner forgets
 * it: to it, a table without children here needs no ONLY. So it is noted where nothing else looks
 * after parsing, in inFromCl.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "foreign/foreign.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "storage/lockdefs.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/exchange.h"

#include "forms.h"
#include "plan.h"

static bool check_walker(Node *node, List *queries);

static bool
is_table_of_nodes(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE &&
		rf_has_nodes(GetForeignTable(relid)->serverid);
}

static bool
is_on_several_nodes(Oid relid)
{
	return is_table_of_nodes(relid) &&
		list_length(rf_server_nodes(GetForeignServer(GetForeignServerIdByRelId(relid)))) > 1;
}

/*
 * One of the table and its partitions and children that lies on several nodes; InvalidOid if there
 * is no such table.
 */
static Oid
member_on_several_nodes(const RangeTblEntry *rte)
{
	ListCell   *lc;

	if (rte->relkind == RELKIND_FOREIGN_TABLE && is_on_several_nodes(rte->relid))
		return rte->relid;
	if (!rte->inh || !has_subclass(rte->relid))
		return InvalidOid;
	foreach(lc, find_all_inheritors(rte->relid, NoLock, NULL))
	{
		if (is_on_several_nodes(lfirst_oid(lc)))
			return lfirst_oid(lc);
	}
	return InvalidOid;
}

static bool
is_ctid(const Node *node)
{
	return node != NULL && IsA(node, Var) &&
		((const Var *) node)->varattno == SelfItemPointerAttributeNumber;
}

static void
check_ctid(const Var *var, List *queries)
{
	Query	   *query = list_nth(queries, var->varlevelsup);
	RangeTblEntry *rte = rt_fetch(var->varno, query->rtable);
	Oid			relid = rte->rtekind == RTE_RELATION ? member_on_several_nodes(rte) : InvalidOid;

	if (OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use ctid of foreign table \"%s\" to tell rows apart",
						get_rel_name(relid)),
				 errdetail("The table is on several nodes, and rows of two nodes can have the "
						   "same ctid. It can only be a column of the outermost query's result."),
				 errhint("Use a key of the table instead.")));
}

/* Without columns that only show a ctid. */
static List *
without_shown(List *tlist)
{
	List	   *rest = NIL;
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (!is_ctid((Node *) entry->expr) || entry->ressortgroupref != 0)
			rest = lappend(rest, entry);
	}
	return rest;
}

/*
 * Looks for forbidden uses of ctid in one query, and notes for its tables on several nodes whether
 * the statement said ONLY.
 */
static bool
check_query(Query *query, List *queries)
{
	Query		part = *query;
	Index		target = query->commandType == CMD_INSERT ? query->resultRelation : 0;
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Index		rti = foreach_current_index(lc) + 1;

		/* the table that an INSERT writes comes without children, too */
		if (rte->rtekind == RTE_RELATION)
			rte->inFromCl = rte->inh || rti == target || !is_table_of_nodes(rte->relid);
	}
	if (queries == NIL)
	{
		part.targetList = without_shown(query->targetList);
		part.returningList = without_shown(query->returningList);
	}
	return query_tree_walker(&part, check_walker, lcons(query, list_copy(queries)), 0);
}

static bool
check_walker(Node *node, List *queries)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return check_query((Query *) node, queries);
	if (IsA(node, NullTest) && is_ctid((Node *) ((NullTest *) node)->arg))
		return false;
	if (is_ctid(node))
		check_ctid((Var *) node, queries);
	return expression_tree_walker(node, check_walker, queries);
}

void
rf_check_row_names(Query *query)
{
	(void) check_query(query, NIL);
}
