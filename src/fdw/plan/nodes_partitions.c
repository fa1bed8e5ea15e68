/*
 * nodes_partitions.c
 *		Partitioned tables with partitions on several servers, as tables of these nodes.
 *
 * Where a query joins such tables, the servers that hold their partitions act as the nodes of a
 * server with nodes: each joins its own part, after rows have moved if need be (nodes_join.c), and
 * operations above the join follow. To each node the table is a SELECT of its own partitions, so
 * every node gets a text of its own (querybuild.c); nothing else of it differs.
 *
 * All partitioned tables of a query level get the same nodes, the union of their nodes, so that
 * they can be joined; a table that has no partition there is empty there. Rows lie where the bounds
 * of the partitions say, which core trusts as well: if a hash partitioned table's remainders lie on
 * the nodes in turn, then that is where rows are moved to by the same key, too. Any other bounds
 * are a layout, which is good for joins with tables that have the same.
 *
 * The parents' own scans remain core's Append.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "partitioning/partbounds.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "fdw/deparse/deparse.h"
#include "shmem/peers.h"

#include "plan.h"

typedef struct Parent
{
	RelOptInfo *rel;
	List	   *columns;		/* that the query wants, Vars */
	List	   *leaves;			/* of RfSelect */
} Parent;

/*
 * In the order of the partitions; false if one of them is not our foreign table, or lacks a column.
 */
static bool
collect_leaves(PlannerInfo *root, RelOptInfo *rel, List *exprs, Parent *parent)
{
	ListCell   *lc;

	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *appinfo = lfirst_node(AppendRelInfo, lc);
		RelOptInfo *child;
		RfRelInfo  *info;
		RfSelect   *select;
		List	   *columns;
		List	   *tlist = NIL;
		List	   *known = NIL;
		ListCell   *column;
		ListCell   *var;

		if (appinfo->parent_relid != rel->relid)
			continue;
		child = root->simple_rel_array[appinfo->child_relid];
		if (child == NULL || IS_DUMMY_REL(child))
			continue;
		columns = (List *) adjust_appendrel_attrs(root, (Node *) exprs, 1, &appinfo);
		if (planner_rt_fetch(child->relid, root)->inh)
		{
			if (!collect_leaves(root, child, columns, parent))
				return false;
			continue;
		}
		info = (RfRelInfo *) child->fdw_private;
		if (info == NULL || !rf_is_our_rel(child) || info->nodes != NIL ||
			!bms_is_empty(child->lateral_relids) || child->userid != rel->userid)
			return false;
		forboth(column, columns, var, parent->columns)
		{
			Expr	   *expr = (Expr *) lfirst(column);

			if (exprType((Node *) expr) != lfirst_node(Var, var)->vartype ||
				exprCollation((Node *) expr) != lfirst_node(Var, var)->varcollid)
				return false;
			tlist = lappend(tlist,
							makeTargetEntry(expr, lfirst_node(Var, var)->varattno, NULL, false));
			/* other expressions can be fetched as they are, but for nothing else */
			if (rf_is_shippable_type(exprType((Node *) expr), info))
				known = lappend(known, llast(tlist));
		}
		select = rf_make_select(root, child, known, NIL, false);
		if (select == NULL)
			return false;
		select->tlist = tlist;
		parent->leaves = lappend(parent->leaves, select);
	}
	return true;
}

/* The partitioned tables of this query level whose partitions are all ours, as Parents. */
static List *
find_parents(PlannerInfo *root)
{
	List	   *parents = NIL;

	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];
		RangeTblEntry *rte = root->simple_rte_array[i];
		Parent	   *parent = palloc0(sizeof(Parent));

		if (rel == NULL || rel->reloptkind != RELOPT_BASEREL || rte->rtekind != RTE_RELATION ||
			!rte->inh || rel->fdw_private != NULL || IS_DUMMY_REL(rel) ||
			!bms_is_empty(rel->lateral_relids) ||
			!rf_wanted_columns(root, rel, NIL, &parent->columns))
			continue;
		parent->rel = rel;
		if (collect_leaves(root, rel, parent->columns, parent) && parent->leaves != NIL)
			parents = lappend(parents, parent);
	}
	return parents;
}

/* Which of the parent's own partitions it belongs to. */
static int
partition_of(PlannerInfo *root, RelOptInfo *parent, RfSelect *leaf)
{
	Index		relid = leaf->source->relid;

	while (root->append_rel_array[relid]->parent_relid != parent->relid)
		relid = root->append_rel_array[relid]->parent_relid;
	for (int i = 0; i < parent->nparts; i++)
	{
		if (parent->part_rels[i] != NULL && parent->part_rels[i]->relid == relid)
			return i;
	}
	elog(ERROR, "relation %u is no partition of relation %u", relid, parent->relid);
}

static List *
add_servers(List *servers, Parent *parent)
{
	ListCell   *lc;

	foreach(lc, parent->leaves)
		servers = list_append_unique_oid(servers, ((RfSelect *) lfirst(lc))->source->serverid);
	return servers;
}

/*
 * The servers in the order in which a hash partitioned table's remainders have them, so that its
 * rows are where moved rows would go; NIL if each has not one of the first remainders.
 */
static List *
servers_by_remainder(PlannerInfo *root, Parent *parent)
{
	PartitionBoundInfo bounds = parent->rel->boundinfo;
	List	   *servers = NIL;

	if (bounds == NULL || bounds->strategy != PARTITION_STRATEGY_HASH)
		return NIL;
	for (int i = 0; i < bounds->nindexes; i++)
	{
		ListCell   *lc;

		foreach(lc, parent->leaves)
		{
			if (partition_of(root, parent->rel, lfirst(lc)) == bounds->indexes[i])
				servers = list_append_unique_oid(servers,
												 ((RfSelect *) lfirst(lc))->source->serverid);
		}
	}
	return servers;
}

/* NIL: all partitions of each table are on the same server, or they are on too many. */
static List *
find_nodes(PlannerInfo *root, List *parents)
{
	List	   *nodes = NIL;
	bool		several = false;
	ListCell   *lc;

	foreach(lc, parents)
	{
		Parent	   *parent = (Parent *) lfirst(lc);

		if (list_length(add_servers(NIL, parent)) == 1)
			continue;
		several = true;
		if (nodes == NIL)
			nodes = servers_by_remainder(root, parent);
	}
	foreach(lc, parents)
		nodes = add_servers(nodes, (Parent *) lfirst(lc));
	return several && list_length(nodes) <= RF_MAX_PEERS ? nodes : NIL;
}

/*
 * The columns by which the table is partitioned, compared by the partitions' operators. NIL: it is
 * partitioned by something else.
 */
static List *
partition_keys(RfRelInfo *info, RelOptInfo *rel)
{
	PartitionScheme scheme = rel->part_scheme;
	List	   *keys = NIL;

	if (scheme == NULL || rel->boundinfo == NULL)
		return NIL;
	for (int i = 0; i < scheme->partnatts; i++)
	{
		Expr	   *key = rel->partexprs[i] == NIL ? NULL : linitial(rel->partexprs[i]);
		TypeCacheEntry *type;

		if (key == NULL || !IsA(key, Var) || ((Var *) key)->varattno <= 0 ||
			rf_hashable_key(key, info) == NULL ||
			(OidIsValid(scheme->partcollation[i]) &&
			 !get_collation_isdeterministic(scheme->partcollation[i])))
			return NIL;
		type = lookup_type_cache(((Var *) key)->vartype,
								 TYPECACHE_HASH_OPFAMILY | TYPECACHE_BTREE_OPFAMILY);
		if (scheme->partopfamily[i] !=
			(scheme->strategy == PARTITION_STRATEGY_HASH ? type->hash_opf : type->btree_opf))
			return NIL;
		keys = lappend(keys, rf_key_members(key, rel->baserestrictinfo));
	}
	return keys;
}

/* Returns true if the hash of the key says the place of every row as it does for moved rows. */
static bool
is_placed_in_turn(const RfLayout *layout, int nodes)
{
	PartitionBoundInfo bounds = layout->bounds;

	Assert(nodes > 0);
	if (bounds->strategy != PARTITION_STRATEGY_HASH || bounds->nindexes % nodes != 0)
		return false;
	for (int i = 0; i < bounds->nindexes; i++)
	{
		int			place = bounds->indexes[i] < 0 ? -1 : layout->places[bounds->indexes[i]];

		if (place >= 0 && place != i % nodes)
			return false;
	}
	return true;
}

static void
place_rows(PlannerInfo *root, RfRelInfo *info, Parent *parent)
{
	RelOptInfo *rel = parent->rel;
	RfFragment *fragment = info->fragment;
	List	   *servers = add_servers(NIL, parent);
	List	   *keys = partition_keys(info, rel);
	RfLayout   *layout = palloc0(sizeof(RfLayout));
	ListCell   *lc;

	fragment->placement = RF_PLACED_BY_HASH;
	fragment->layout = layout;
	layout->place = -1;
	if (keys != NIL)
	{
		layout->scheme = rel->part_scheme;
		layout->bounds = rel->boundinfo;
		layout->count = rel->nparts;
		layout->places = palloc(sizeof(int) * rel->nparts);
		for (int i = 0; i < rel->nparts; i++)
			layout->places[i] = -1;
		foreach(lc, parent->leaves)
		{
			int			part = partition_of(root, rel, lfirst(lc));
			int			place = rf_place_of(info->nodes,
											((RfSelect *) lfirst(lc))->source->serverid);

			/* partitions of one partition may be apart */
			if (layout->places[part] >= 0 && layout->places[part] != place)
			{
				keys = NIL;
				break;
			}
			layout->places[part] = place;
		}
	}
	if (keys != NIL && is_placed_in_turn(layout, list_length(info->nodes)))
		fragment->layout = NULL;
	else if (list_length(servers) == 1)
	{
		layout->place = rf_place_of(info->nodes, linitial_oid(servers));
		keys = NIL;
	}
	else if (keys == NIL)
	{
		fragment->placement = RF_PLACED_ANYWHERE;
		fragment->layout = NULL;
	}
	fragment->keys = keys;
	fragment->single_node = rf_has_single_node(fragment);
}

/* Each node's part of the table; NULL if it has no part. */
static List *
parts_of_nodes(Parent *parent, List *nodes)
{
	List	   *parts = NIL;
	ListCell   *node;

	foreach(node, nodes)
	{
		RfSelect   *part = NULL;
		ListCell   *lc;

		foreach(lc, parent->leaves)
		{
			RfSelect   *leaf = (RfSelect *) lfirst(lc);

			if (leaf->source->serverid == lfirst_oid(node))
				part = part == NULL ? leaf : rf_combine_selects(SETOP_UNION, true, part, leaf);
		}
		parts = lappend(parts, part);
	}
	return parts;
}

/* Options of all partitions; a capability counts only if all of their servers have it. */
static void
merge_leaf_options(RfRelInfo *info, List *leaves)
{
	ListCell   *lc;

	foreach(lc, leaves)
	{
		RfRelInfo  *leaf = ((RfSelect *) lfirst(lc))->info;
		List	   *extensions = NIL;
		ListCell   *extension;

		if (lc == list_head(leaves))
		{
			info->server = leaf->server;
			info->opts = leaf->opts;
			continue;
		}
		foreach(extension, info->opts.extensions)
		{
			if (list_member_oid(leaf->opts.extensions, lfirst_oid(extension)))
				extensions = lappend_oid(extensions, lfirst_oid(extension));
		}
		rf_merge_options(info, info, leaf);
		info->opts.extensions = extensions;
	}
	info->opts.use_remote_estimate = false;
	info->user = NULL;
}

/*
 * Makes the statement of a partitioned table over the servers of its partitions, so that joins can
 * use it. Does nothing if a node without partitions could not name the types of its columns.
 */
static void
place_parent(PlannerInfo *root, Parent *parent, List *nodes)
{
	RelOptInfo *rel = parent->rel;
	RfRelInfo  *info = palloc0(sizeof(RfRelInfo));
	RfSelect   *first = linitial(parent->leaves);
	ListCell   *lc;

	info->rel = rel;
	info->notes = rf_make_join_notes();
	merge_leaf_options(info, parent->leaves);
	info->nodes = nodes;
	info->members = nodes;
	info->description = rf_local_name(planner_rt_fetch(rel->relid, root));
	info->relation_name = info->description;
	info->parts = parts_of_nodes(parent, nodes);
	if (list_member_ptr(info->parts, NULL))
	{
		/* types that are known only where values of them exist cannot be named there */
		foreach(lc, parent->columns)
		{
			if (!rf_is_shippable_type(lfirst_node(Var, lc)->vartype, info))
				return;
		}
	}
	info->select = palloc(sizeof(RfSelect));
	*info->select = *first;
	foreach(lc, parent->leaves)
		info->select->collated = bms_intersect(info->select->collated,
											   ((RfSelect *) lfirst(lc))->collated);
	info->tlist = add_to_flat_tlist(NIL, parent->columns);
	foreach(lc, parent->columns)
		info->attrs_used = bms_add_member(info->attrs_used, lfirst_node(Var, lc)->varattno -
										  FirstLowInvalidHeapAttributeNumber);
	info->local_conds_sel = 1;
	info->rel_startup_cost = -1;
	info->rel_total_cost = -1;
	info->fragment = palloc0(sizeof(RfFragment));
	info->fragment->choices = palloc0(sizeof(RfChoices));
	info->fragment->choices->infos = list_make1(info);
	place_rows(root, info, parent);

	rel->fdw_private = info;
	rel->serverid = linitial_oid(nodes);
	rel->userid = first->source->userid;
	rel->useridiscurrent = first->source->useridiscurrent;
	rel->fdwroutine = first->source->fdwroutine;
	rf_estimate_rel(root, rel);
}

void
rf_place_partitioned_tables(PlannerInfo *root)
{
	List	   *parents;
	List	   *nodes;
	ListCell   *lc;

	if (rf_is_disabled(RF_PARTITIONS) || rf_exchange_strategy == RF_STRATEGY_PULL ||
		bms_membership(root->all_baserels) != BMS_MULTIPLE)
		return;
	parents = find_parents(root);
	nodes = find_nodes(root, parents);
	foreach(lc, nodes == NIL ? NIL : parents)
		place_parent(root, (Parent *) lfirst(lc), nodes);
}
