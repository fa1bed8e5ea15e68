/*
 * nodes_common.c
 *		Tables of other servers whose nodes a server with nodes stands for, too, as tables of that
 *		one.
 *
 * A query may read tables of several servers that have nodes in common. Where all nodes of one
 * server are nodes of another, its tables are to this query tables of the other: the nodes that it
 * has not have no rows of them. So is a table of a server that is one of the nodes itself, and a
 * sub-select in FROM that the server can do. Their own scans do not change. Servers with the same
 * nodes become the one of which the query reads most, because rows move to where that one's are.
 *
 * Their rows lie where their own server's buckets say, and its nodes have other numbers here. Only
 * if each bucket is proved to lie on the node that the other server's buckets name, rows with equal
 * keys of both are on one node. Otherwise the server's buckets are a layout, which is good for
 * joins with tables that have the same.
 *
 * UPDATE and DELETE find their rows with tables that become some of the target's server, but the
 * target stays.
 *
 * Does not: servers of which each has a node that the other has not, which would need a set of
 * nodes that no server stands for; and servers with compute nodes.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"

/* A server with nodes of which the query reads tables with one role's rights. */
typedef struct Home
{
	Oid			serverid;
	Oid			userid;
	int			number;			/* in the order of the query's tables */
	double		bytes;			/* that the query reads of its tables */
	RfRelInfo  *info;			/* of one of them */
} Home;

/*
 * Returns true for a relation with a statement for one server. A partitioned table's nodes are no
 * server's nodes.
 */
static bool
is_of_one_server(RelOptInfo *rel)
{
	RfRelInfo  *info = rel != NULL && rf_is_our_rel(rel) ? (RfRelInfo *) rel->fdw_private : NULL;

	return info != NULL && !IS_DUMMY_REL(rel) && !list_member_oid(info->nodes, rel->serverid);
}

static int
compare_homes(const ListCell *a, const ListCell *b)
{
	const Home *left = (const Home *) lfirst(a);
	const Home *right = (const Home *) lfirst(b);

	if (list_length(left->info->nodes) != list_length(right->info->nodes))
		return list_length(left->info->nodes) > list_length(right->info->nodes) ? -1 : 1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return left->number - right->number;
}

/*
 * The servers of the query level, ordered so that no server comes behind another server that its
 * tables can be tables of.
 */
static List *
find_homes(PlannerInfo *root)
{
	List	   *homes = NIL;

	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];
		RfRelInfo  *info;
		Home	   *home = NULL;
		ListCell   *lc;

		if (rel == NULL || rel->reloptkind != RELOPT_BASEREL || !is_of_one_server(rel))
			continue;
		info = (RfRelInfo *) rel->fdw_private;
		if (info->fragment == NULL || info->compute != NIL)
			continue;
		foreach(lc, homes)
		{
			Home	   *known = (Home *) lfirst(lc);

			if (known->serverid == rel->serverid && known->userid == rel->userid)
				home = known;
		}
		if (home == NULL)
		{
			home = palloc0(sizeof(Home));
			home->serverid = rel->serverid;
			home->userid = rel->userid;
			home->number = list_length(homes);
			home->info = info;
			homes = lappend(homes, home);
		}
		home->bytes += rel->rows * rel->reltarget->width;
	}
	list_sort(homes, compare_homes);
	return homes;
}

/* The nodes that the statement of a relation reads, of any server. */
static List *
nodes_of(RelOptInfo *rel)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;

	return info->nodes != NIL ? info->nodes : list_make1_oid(rel->serverid);
}

/* The server that the relation is to be one of; NULL: its own. */
static Home *
home_of(List *homes, RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, homes)
	{
		Home	   *home = (Home *) lfirst(lc);

		if (home->userid != rel->userid || !rf_are_among(nodes_of(rel), home->info->nodes))
			continue;
		return home->serverid == rel->serverid ? NULL : home;
	}
	return NULL;
}

/* The layout in terms of the other server's nodes. */
static RfLayout *
layout_there(RfRelInfo *own, RfLayout *layout, Home *home)
{
	RfLayout   *result = palloc0(sizeof(RfLayout));
	List	   *nodes = home->info->nodes;

	result->place = -1;
	if (own->nodes == NIL)
		result->place = rf_place_of(nodes, own->server->serverid);
	else if (layout != NULL && layout->place >= 0)
		result->place = rf_place_of(nodes, list_nth_oid(own->nodes, layout->place));
	else
	{
		result->serverid = layout != NULL ? layout->serverid : own->server->serverid;
		for (int i = 0; i < list_length(own->nodes); i++)
		{
			if (layout == NULL || list_member_int(layout->nodes, i))
				result->nodes = lappend_int(result->nodes,
											rf_place_of(nodes, list_nth_oid(own->nodes, i)));
		}
	}
	return result;
}

/* Where the statement's rows lie on the other server's nodes. */
static RfFragment *
place_there(RfRelInfo *own, Home *home)
{
	RfFragment *fragment = palloc0(sizeof(RfFragment));
	bool		all = rf_are_among(home->info->nodes, own->nodes);

	if (own->fragment != NULL)
		*fragment = *own->fragment;
	else
		fragment->placement = RF_PLACED_BY_HASH;
	switch (fragment->placement)
	{
		case RF_PLACED_ANYWHERE:
			break;
		case RF_PLACED_BY_HASH:
			if (own->nodes == NIL || fragment->layout != NULL ||
				!rf_have_same_buckets(own, home->info))
				fragment->layout = layout_there(own, fragment->layout, home);
			break;
		case RF_PLACED_EVERYWHERE:
			if (all)
				break;
			/* of rows that some nodes have, one node's */
			fragment->placement = RF_PLACED_BY_HASH;
			fragment->layout = palloc0(sizeof(RfLayout));
			fragment->layout->place = rf_place_of(home->info->nodes, linitial_oid(own->nodes));
			break;
	}
	if (!all && own->nodes != NIL)
		fragment->largest_part = Max(fragment->largest_part, 1.0 / list_length(own->nodes));
	fragment->single_node = rf_has_single_node(fragment);
	return fragment;
}

/* For each of the other server's nodes the tables that it has to read; NIL: all have the same. */
static List *
parts_there(RfRelInfo *own, RfSelect *select, RfFragment *fragment, Home *home)
{
	List	   *nodes = own->nodes != NIL ? own->nodes : list_make1_oid(own->server->serverid);
	int			only = rf_only_place(fragment);
	List	   *parts = NIL;
	bool		same = true;
	ListCell   *lc;

	foreach(lc, home->info->nodes)
	{
		bool		has = list_member_oid(nodes, lfirst_oid(lc)) &&
			(only < 0 || only == foreach_current_index(lc));

		parts = lappend(parts, has ? select : NULL);
		same &= has;
	}
	return same ? NIL : parts;
}

/* Nodes without a part name the types of its columns. */
static bool
are_types_known(List *tlist, RfRelInfo *info)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		if (!rf_is_shippable_type(exprType((Node *) lfirst_node(TargetEntry, lc)->expr), info))
			return false;
	}
	return true;
}

/*
 * The table's statement, as a SELECT of another query level: in this level the table's columns are
 * the SELECT's columns. NULL if it has no statement.
 */
static RfSelect *
select_of_table(PlannerInfo *root, RelOptInfo *rel, List *columns)
{
	PlannerInfo *level = makeNode(PlannerInfo);
	RelOptInfo *table = makeNode(RelOptInfo);
	RfRelInfo  *info = palloc(sizeof(RfRelInfo));
	List	   *tlist = NIL;
	ListCell   *lc;

	*level = *root;
	*table = *rel;
	*info = *(RfRelInfo *) rel->fdw_private;
	level->simple_rel_array = palloc_array(RelOptInfo *, root->simple_rel_array_size);
	memcpy(level->simple_rel_array, root->simple_rel_array,
		   sizeof(RelOptInfo *) * root->simple_rel_array_size);
	level->simple_rel_array[rel->relid] = table;
	table->fdw_private = info;
	info->rel = table;
	foreach(lc, columns)
		tlist = lappend(tlist,
						makeTargetEntry(lfirst(lc), lfirst_node(Var, lc)->varattno, NULL, false));
	return rf_make_select(level, table, tlist, NIL, false);
}

/*
 * Exchanges know nodes by their numbers, and so do layouts, which can get new numbers unless they
 * are of partitions.
 */
static bool
may_follow(RfRelInfo *own, Home *home)
{
	RfFragment *fragment = own->fragment;

	return !fragment->computed && (!fragment->exchanges || equal(own->nodes, home->info->nodes)) &&
		(fragment->layout == NULL || fragment->layout->scheme == NULL);
}

/*
 * One of the relation's statements, own, as one of the other server; NULL: its nodes cannot run it.
 */
static RfRelInfo *
statement_there(PlannerInfo *root, RelOptInfo *rel, RfRelInfo *own, List *columns, Home *home)
{
	RfSelect   *select = own->select != NULL ? own->select : select_of_table(root, rel, columns);
	RfRelInfo  *info;
	ListCell   *lc;

	if (select == NULL || (own->fragment != NULL && !may_follow(own, home)))
		return NULL;
	info = palloc0(sizeof(RfRelInfo));
	info->rel = rel;
	info->server = home->info->server;
	info->nodes = info->members = home->info->nodes;
	info->opts = own->opts;
	info->opts.use_remote_estimate = false;
	/* common properties of all nodes */
	info->opts.extensions = home->info->opts.extensions;
	info->description = own->select == NULL || own->nodes != NIL ?
		rf_description(own) :
		psprintf("(%s) %s", rf_description(own),
				 quote_identifier(
								  planner_rt_fetch(rel->relid, root)->eref->aliasname));
	info->relation_name = info->description;
	info->select = select;
	info->fragment = place_there(own, home);
	info->parts = parts_there(own, select, info->fragment, home);
	if (info->parts != NIL && !are_types_known(select->tlist, info))
		return NULL;
	/* conditions on a table are in its SELECT, those on a sub-select outside */
	if (own->select != NULL)
		info->remote_conds = own->remote_conds;
	info->tlist = add_to_flat_tlist(NIL, columns);
	foreach(lc, columns)
		info->attrs_used = bms_add_member(info->attrs_used, lfirst_node(Var, lc)->varattno -
										  FirstLowInvalidHeapAttributeNumber);
	info->local_conds_sel = 1;
	info->rel_startup_cost = -1;
	info->rel_total_cost = -1;
	return info;
}

void
rf_keep_statement(List *paths, RfRelInfo *info)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		ForeignPath *path = (ForeignPath *) lfirst(lc);

		if (IsA(path, ForeignPath) && path->fdw_private == NIL)
			path->fdw_private = rf_path_private(info, 0);
	}
}

/*
 * The relation as one of the other server; NULL: it cannot be. Leaves its cheapest statement as it
 * is.
 */
static RfRelInfo *
place_relation(PlannerInfo *root, RelOptInfo *rel, Home *home)
{
	RfRelInfo  *own = (RfRelInfo *) rel->fdw_private;
	RfChoices  *choices = palloc0(sizeof(RfChoices));
	RfRelInfo  *best = NULL;
	List	   *columns;
	ListCell   *lc;

	if (own->compute != NIL || own->local_conds != NIL || !bms_is_empty(rel->lateral_relids) ||
		(own->table == NULL && own->select == NULL) || !rf_wanted_columns(root, rel, NIL, &columns))
		return NULL;
	foreach(lc, own->fragment != NULL ? own->fragment->choices->infos : list_make1(own))
	{
		RfRelInfo  *info = statement_there(root, rel, lfirst(lc), columns, home);

		if (info == NULL)
			continue;
		info->alone = own;
		info->notes = own->notes;
		info->fragment->choices = choices;
		rel->fdw_private = info;
		rf_estimate_rel(root, rel);
		if (rf_add_choice(choices, info) && (best == NULL ||
											 info->est.total_cost < best->est.total_cost))
			best = info;
	}
	rel->fdw_private = own;
	return best;
}

/* All tables of a server, or no table: they are to be joined with each other as well. */
static void
place_server(PlannerInfo *root, List *rels, Home *home)
{
	List	   *infos = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, rels)
	{
		RfRelInfo  *info = place_relation(root, lfirst(lc), home);

		if (info == NULL)
			return;
		infos = lappend(infos, info);
	}
	forboth(lc, rels, lc2, infos)
	{
		RelOptInfo *rel = (RelOptInfo *) lfirst(lc);
		RfRelInfo  *own = (RfRelInfo *) rel->fdw_private;

		rel->fdw_private = lfirst(lc2);
		rel->serverid = home->serverid;
		rf_keep_statement(rel->pathlist, own);
		rf_keep_statement(rel->partial_pathlist, own);
	}
}

static bool
reads_only(PlannerInfo *root)
{
	return root->rowMarks == NIL &&
		(root->parse->commandType == CMD_SELECT || root->parse->commandType == CMD_INSERT);
}

static bool
writes_rows(PlannerInfo *root)
{
	return (root->parse->commandType == CMD_UPDATE || root->parse->commandType == CMD_DELETE) &&
		bms_membership(root->all_result_relids) == BMS_SINGLETON;
}

/* Rows that are written are found on the nodes of their own server. */
static List *
only_target(PlannerInfo *root, List *homes)
{
	RelOptInfo *target = root->simple_rel_array[root->parse->resultRelation];
	ListCell   *lc;

	foreach(lc, homes)
	{
		Home	   *home = (Home *) lfirst(lc);

		if (target != NULL && home->serverid == target->serverid && home->userid == target->userid)
			return list_make1(home);
	}
	return NIL;
}

void
rf_place_tables_of_nodes(PlannerInfo *root)
{
	List	   *homes;
	Relids		done = NULL;
	int			relid = -1;

	if (rf_is_disabled(RF_PARTITIONS) || rf_exchange_strategy == RF_STRATEGY_PULL ||
		root->qual_security_level > 0 ||
		!(writes_rows(root) ? rf_nodes_may_join(root) : reads_only(root)))
		return;
	homes = find_homes(root);
	if (writes_rows(root))
		homes = only_target(root, homes);
	while (homes != NIL && (relid = bms_next_member(root->all_baserels, relid)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[relid];
		List	   *rels = NIL;
		int			other = relid - 1;
		Home	   *home;

		if (bms_is_member(relid, done) || !is_of_one_server(rel))
			continue;
		while ((other = bms_next_member(root->all_baserels, other)) >= 0)
		{
			RelOptInfo *same = root->simple_rel_array[other];

			if (bms_is_member(other, done) || !is_of_one_server(same) ||
				same->serverid != rel->serverid || same->userid != rel->userid)
				continue;
			rels = lappend(rels, same);
			done = bms_add_member(done, other);
		}
		home = home_of(homes, rel);
		if (home != NULL)
			place_server(root, rels, home);
	}
}
