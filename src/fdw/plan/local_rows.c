/*
 * local_rows.c
 * 	Rows of this node as input of a remote statement: rows of local tables, VALUES, functions, WITH
 * 	queries and tables of other servers. The data nodes join them, and group and sort the result.
 *
 * Such a relation counts as one of the server that most of the query's rows come from: all of its
 * nodes have it. In the statement it is unnest() of array parameters, one for each column, or, if
 * its rows turn out to be many, an exchange whose only producer is this node. Where many are
 * expected they may also go to the nodes that keys say (nodes_join.c), always by exchange. Its own
 * paths remain: one of them gives the rows. So the path of such a statement is a custom path with
 * the relation's path (local_rows_paths.c, exec/local_rows_exec.c).
 *
 * Does not: rows that are locked or written, or may be looked at again, and rows behind security
 * barriers; sub-selects in FROM, whose plan core makes once; volatile functions and conditions, as
 * a row may be read twice; statements within other statements, whose relations belong to another
 * level of the query; servers that have compute nodes, or are asked for estimates.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

/* A table of a server that statements with local rows can run on. */
static bool
may_be_home(RelOptInfo *rel)
{
	RfRelInfo  *info = rel != NULL && rel->reloptkind == RELOPT_BASEREL && rf_is_our_rel(rel) ?
		(RfRelInfo *) rel->fdw_private : NULL;

	return info != NULL && !IS_DUMMY_REL(rel) && info->compute == NIL &&
		!info->opts.use_remote_estimate && !list_member_oid(info->nodes, rel->serverid) &&
		(info->nodes == NIL || info->fragment != NULL);
}

/* A table of the server and role of which the query reads most; NULL if there is no such table. */
static RelOptInfo *
find_home(PlannerInfo *root)
{
	RelOptInfo *home = NULL;
	double		most = -1;

	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];
		double		bytes = 0;

		if (!may_be_home(rel))
			continue;
		for (int j = i; j < root->simple_rel_array_size; j++)
		{
			RelOptInfo *other = root->simple_rel_array[j];

			if (may_be_home(other) && other->serverid == rel->serverid &&
				other->userid == rel->userid)
				bytes += other->rows * other->reltarget->width;
		}
		if (bytes > most)
		{
			home = rel;
			most = bytes;
		}
	}
	return home;
}

/* Returns true if its values can be in an array, and mean the same on the data node. */
static bool
can_be_sent(Oid type, RfRelInfo *home)
{
	return OidIsValid(get_array_type(type)) && !OidIsValid(get_element_type(type)) &&
		rf_is_shippable_type(type, home);
}

/* A table of a server of which the query reads nothing else, or it would be joined there. */
static bool
is_alone_on_its_server(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *home)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;

	if (info == NULL || info->table == NULL || info->alone != NULL ||
		rel->serverid == home->serverid || rel->userid != home->userid)
		return false;
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *other = root->simple_rel_array[i];

		if (other != NULL && other != rel && other->serverid == rel->serverid)
			return false;
	}
	return true;
}

/* Whose rights it is read with, see core's set_foreign_rel_properties(). */
static Oid
reader_of(RelOptInfo *rel)
{
	return OidIsValid(rel->userid) ? rel->userid : GetUserId();
}

/* Returns true if its rows may be read again. A WITH query is computed once. */
static bool
is_repeatable(RelOptInfo *rel, RangeTblEntry *rte)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		if (contain_volatile_functions((Node *) lfirst_node(RestrictInfo, lc)->clause))
			return false;
	}
	return !contain_volatile_functions((Node *) rte->functions) &&
		!contain_volatile_functions((Node *) rte->tablefunc) &&
		!contain_volatile_functions((Node *) rte->values_lists);
}

/*
 * Returns true if the relation's rows can go with a statement of home's server: repeatable, without
 * lateral references, and with columns that may travel in arrays (*columns).
 */
static bool
is_suitable(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *home, List **columns)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	ListCell   *lc;

	switch (rte->rtekind)
	{
		case RTE_RELATION:
			/* its rights decide which statistics the planner may use */
			if (reader_of(rel) != reader_of(home))
				return false;
			break;
		case RTE_CTE:
			if (rte->self_reference)
				return false;
			break;
		case RTE_FUNCTION:
		case RTE_TABLEFUNC:
		case RTE_VALUES:
			break;
		default:
			return false;
	}
	if ((rel->fdwroutine != NULL &&
		 !(rf_is_our_rel(rel) && is_alone_on_its_server(root, rel, home))) ||
		!is_repeatable(rel, rte) || IS_DUMMY_REL(rel) || !bms_is_empty(rel->lateral_relids) ||
		!bms_is_empty(rel->lateral_referencers) ||
		!rf_wanted_columns(root, rel, NIL, columns) || *columns == NIL)
		return false;
	foreach(lc, rel->reltarget->exprs)
	{
		if (!IsA(lfirst(lc), Var) ||
			!can_be_sent(exprType(lfirst(lc)), (RfRelInfo *) home->fdw_private))
			return false;
	}
	return true;
}

/* The relation's statement, made like the statement of a table which all nodes have. */
static void
place_relation(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *home, List *columns)
{
	RfRelInfo  *other = (RfRelInfo *) home->fdw_private;
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));
	const char *alias = planner_rt_fetch(rel->relid, root)->eref->aliasname;
	Path	   *path = rf_cheapest_path(rel);

	if (path == NULL)
		return;
	/* its own paths run its own statement, if it is a foreign table */
	if (rel->fdw_private != NULL)
	{
		info->alone = (RfRelInfo *) rel->fdw_private;
		rf_keep_statement(rel->pathlist, info->alone);
		rf_keep_statement(rel->partial_pathlist, info->alone);
	}
	info->apart = rf_why_apart(root, home, rel);
	info->notes = info->alone != NULL ? info->alone->notes : NULL;
	info->rel = rel;
	info->server = other->server;
	info->nodes = other->nodes;
	info->members = other->members;
	info->opts = other->opts;
	info->local = true;
	info->local_rels = list_make1(rel);
	info->relation_name = pstrdup(quote_identifier(alias));
	info->description = psprintf("rows of %s", info->relation_name);
	info->tlist = add_to_flat_tlist(NIL, columns);
	info->local_conds_sel = 1;
	info->est.rows = info->est.retrieved_rows = rel->rows;
	info->est.width = rel->reltarget->width;
	/* their text is made once, and goes to each node, which scans the result of unnest() */
	info->rel_startup_cost = path->total_cost + rel->rows *
		(2 * cpu_operator_cost * list_length(columns) +
			 info->opts.byte_cost * info->est.width * Max(list_length(info->nodes), 1));
	info->rel_total_cost = info->rel_startup_cost + rel->rows * cpu_tuple_cost;
	info->est.startup_cost = info->rel_startup_cost;
	info->est.total_cost = info->rel_total_cost;
	if (info->nodes != NIL)
	{
		info->fragment = palloc0(sizeof(RfFragment));
		info->fragment->placement = RF_PLACED_EVERYWHERE;
		info->fragment->choices = palloc0(sizeof(RfChoices));
		info->fragment->choices->infos = list_make1(info);
	}
	rel->fdw_private = info;
	rel->fdwroutine = home->fdwroutine;
	rel->serverid = home->serverid;
	rel->userid = home->userid;
	rel->useridiscurrent = home->useridiscurrent;
}

void
rf_place_local_rows(PlannerInfo *root)
{
	RelOptInfo *home;
	int			relid = -1;

	if (rf_is_disabled(RF_LOCAL_ROWS) || root->rowMarks != NIL || root->qual_security_level > 0 ||
		(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT) ||
		bms_membership(root->all_baserels) != BMS_MULTIPLE || (home = find_home(root)) == NULL)
		return;
	while ((relid = bms_next_member(root->all_baserels, relid)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[relid];
		List	   *columns;

		if (is_suitable(root, rel, home, &columns))
			place_relation(root, rel, home, columns);
	}
}
