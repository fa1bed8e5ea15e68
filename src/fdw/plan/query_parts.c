/*
 * query_parts.c
 * 	Parts of a parsed query: their contents, and small parts to build queries from. Used where
 * 	sub-selects become joins.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteManip.h"

#include "forms.h"
#include "plan.h"

bool
rf_has_nodes(Oid serverid)
{
	return GetFdwRoutineByServerId(serverid)->GetForeignRelSize == rdmaGetForeignRelSize &&
		rf_server_nodes(GetForeignServer(serverid)) != NIL;
}

bool
rf_reads_others(Node *node, Oid *server)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;
		ForeignTable *table;

		if (rte->rtekind == RTE_JOIN || rte->rtekind == RTE_SUBQUERY)
			return false;
		if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_FOREIGN_TABLE ||
			rte->tablesample != NULL || rte->securityQuals != NIL)
			return true;
		table = GetForeignTable(rte->relid);
		if (!OidIsValid(*server) && rf_has_nodes(table->serverid))
			*server = table->serverid;
		return table->serverid != *server;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, rf_reads_others, server, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, rf_reads_others, server);
}

static bool
reads_nodes_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE &&
			rf_has_nodes(GetForeignTable(rte->relid)->serverid);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_nodes_walker, NULL, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_nodes_walker, NULL);
}

bool
rf_reads_nodes(Node *node)
{
	return reads_nodes_walker(node, NULL);
}

bool
rf_looks_beyond(Node *node, int levels, int depth)
{
	for (int level = levels + 1; level <= depth; level++)
	{
		if (contain_vars_of_level(node, level) || contain_aggs_of_level(node, level))
			return true;
	}
	return false;
}

static bool
has_sublinks_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	return IsA(node, SubLink) || expression_tree_walker(node, has_sublinks_walker, unused);
}

bool
rf_has_sublinks(Node *node)
{
	return has_sublinks_walker(node, NULL);
}

void
rf_collect_conjuncts(Node *quals, List **conjuncts)
{
	ListCell   *lc;

	if (quals == NULL)
		return;
	if (IsA(quals, List))
	{
		foreach(lc, (List *) quals)
			rf_collect_conjuncts(lfirst(lc), conjuncts);
	}
	else if (is_andclause(quals))
	{
		foreach(lc, ((BoolExpr *) quals)->args)
			rf_collect_conjuncts(lfirst(lc), conjuncts);
	}
	else
		*conjuncts = lappend(*conjuncts, quals);
}

Node *
rf_and_of(List *conjuncts)
{
	if (list_length(conjuncts) <= 1)
		return conjuncts == NIL ? NULL : linitial(conjuncts);
	return (Node *) makeBoolExpr(AND_EXPR, conjuncts, -1);
}

Node *
rf_null_test(Node *arg, NullTestType type)
{
	NullTest   *result = makeNode(NullTest);

	result->arg = (Expr *) arg;
	result->nulltesttype = type;
	result->location = -1;
	return (Node *) result;
}

Relids
rf_relations_of(Node *part)
{
	Relids		relids = NULL;
	ListCell   *lc;

	if (IsA(part, RangeTblRef))
		return bms_make_singleton(((RangeTblRef *) part)->rtindex);
	if (IsA(part, JoinExpr))
		return bms_add_member(bms_union(rf_relations_of(((JoinExpr *) part)->larg),
										rf_relations_of(((JoinExpr *) part)->rarg)),
							  ((JoinExpr *) part)->rtindex);
	foreach(lc, castNode(FromExpr, part)->fromlist)
		relids = bms_add_members(relids, rf_relations_of(lfirst(lc)));
	return relids;
}

RangeTblEntry *
rf_subselect_relation(Query *sub, const char *name)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, sub->targetList)
		names = lappend(names, makeString(pstrdup(lfirst_node(TargetEntry, lc)->resname)));
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = sub;
	rte->eref = makeAlias(name, names);
	rte->inFromCl = true;
	return rte;
}
