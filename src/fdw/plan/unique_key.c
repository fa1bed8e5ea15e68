/*
 * unique_key.c
 *		Joins by a unique key of several columns, as the planner core estimates those by a foreign
 *		key.
 *
 * For a join by several columns the core multiplies the selectivities of each. Of the columns of
 * one key that is too few rows, by the number of values of all but one of them: thousands of times.
 * Local tables have foreign keys, from which it learns that a row finds one partner; foreign tables
 * have no foreign keys here. But a unique key, which ANALYZE has fetched, with all its columns
 * equated to columns of one other relation says nearly as much: no row finds more than one, and it
 * is hardly joined with where most rows find no partner. So it goes onto the core's list of foreign
 * keys, already matched to the conditions of the query. The data nodes' foreign keys refer to such
 * a key; a key of a single column tells the core nothing that it does not know from the number of
 * values.
 *
 * Where the other columns are unique as well, the smaller table refers to the larger one. And only
 * a real foreign key could tell whether semi and anti joins find a partner.
 */
#include "postgres.h"

#include "parser/parsetree.h"

#include "fdw/catalog/catalog.h"

#include "plan.h"

/* The column of the relation that the expression is; InvalidAttrNumber if it is no column. */
static AttrNumber
column_of(Node *node, Index relid)
{
	Var		   *var = (Var *) node;

	while (IsA(var, RelabelType))
		var = (Var *) ((RelabelType *) var)->arg;
	return IsA(var, Var) && var->varno == relid && var->varlevelsup == 0 && var->varattno > 0 ?
		var->varattno : InvalidAttrNumber;
}

/* The class's member that is that column, or for InvalidAttrNumber any column, of the relation. */
static EquivalenceMember *
find_member(EquivalenceClass *ec, Index relid, AttrNumber column)
{
	ListCell   *lc;

	foreach(lc, ec->ec_members)
	{
		EquivalenceMember *em = lfirst_node(EquivalenceMember, lc);
		AttrNumber	found = em->em_is_child ? InvalidAttrNumber :
			column_of((Node *) em->em_expr, relid);

		if (found != InvalidAttrNumber && (column == InvalidAttrNumber || found == column))
			return em;
	}
	return NULL;
}

/*
 * Returns true if there is an equivalence class with column place of the key and a column of the
 * other relation.
 */
static bool
match_class(PlannerInfo *root, RelOptInfo *rel, ForeignKeyOptInfo *key, int place)
{
	int			i = -1;

	while ((i = bms_next_member(rel->eclass_indexes, i)) >= 0)
	{
		EquivalenceClass *ec = list_nth_node(EquivalenceClass, root->eq_classes, i);
		EquivalenceMember *em = ec->ec_has_volatile ?
			NULL :
			find_member(ec, key->con_relid, InvalidAttrNumber);

		if (em == NULL || find_member(ec, key->ref_relid, key->confkey[place]) == NULL)
			continue;
		key->conkey[place] = column_of((Node *) em->em_expr, key->con_relid);
		key->eclass[place] = ec;
		key->fk_eclass_member[place] = em;
		key->nmatched_ec++;
		key->nconst_ec += ec->ec_has_const ? 1 : 0;
		return true;
	}
	return false;
}

/* Conditions of outer joins are of no class. */
static bool
match_clauses(RelOptInfo *rel, ForeignKeyOptInfo *key, int place)
{
	ListCell   *lc;

	foreach(lc, rel->joininfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (!rinfo->can_join || rinfo->mergeopfamilies == NIL)
			continue;
		for (int side = 0; side < 2; side++)
		{
			AttrNumber	other = column_of(list_nth(((OpExpr *) rinfo->clause)->args, 1 - side),
										  key->con_relid);

			if (other == InvalidAttrNumber ||
				column_of(list_nth(((OpExpr *) rinfo->clause)->args, side), key->ref_relid) !=
				key->confkey[place])
				continue;
			key->conkey[place] = other;
			key->rinfos[place] = lappend(key->rinfos[place], rinfo);
			key->nmatched_ri++;
			break;
		}
	}
	key->nmatched_rcols += key->rinfos[place] != NIL ? 1 : 0;
	return key->rinfos[place] != NIL;
}

static bool
has_column(const AttrNumber *columns, int count, int column)
{
	for (int i = 0; i < count; i++)
	{
		if (columns[i] == column)
			return true;
	}
	return false;
}

/* Returns true if the relation has a unique index on some of these columns. */
static bool
is_unique(PlannerInfo *root, RelOptInfo *rel, const AttrNumber *columns, int count)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		bool		unique = index->unique && index->immediate && index->indpred == NIL;

		for (int i = 0; unique && i < index->nkeycolumns; i++)
			unique = has_column(columns, count, index->indexkeys[i]);
		if (unique)
			return true;
	}
	foreach(lc, rte->relkind == RELKIND_FOREIGN_TABLE ? rf_remote_indexes(rte->relid) : NIL)
	{
		RfIndex    *index = (RfIndex *) lfirst(lc);
		bool		unique = index->unique;

		for (int i = 0; unique && i < index->column_count; i++)
			unique = has_column(columns, count, index->columns[i]);
		if (unique)
			return true;
	}
	return false;
}

/*
 * Returns true if the first relation is on the inner side of a semi or anti join, and the second on
 * its outer side.
 */
static bool
is_looked_for(PlannerInfo *root, Index inner, Index outer)
{
	ListCell   *lc;

	foreach(lc, root->join_info_list)
	{
		SpecialJoinInfo *join = lfirst_node(SpecialJoinInfo, lc);

		if ((join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI) &&
			bms_is_member(inner, join->syn_righthand) && bms_is_member(outer, join->syn_lefthand))
			return true;
	}
	return false;
}

/* The other relation's columns as the key, and ours as referring columns. */
static void
turn_round(ForeignKeyOptInfo *key)
{
	Index		relid = key->con_relid;

	key->con_relid = key->ref_relid;
	key->ref_relid = relid;
	for (int i = 0; i < key->nkeys; i++)
	{
		AttrNumber	column = key->conkey[i];

		key->conkey[i] = key->confkey[i];
		key->confkey[i] = column;
		if (key->eclass[i] != NULL)
			key->fk_eclass_member[i] = find_member(key->eclass[i], key->con_relid, key->conkey[i]);
	}
}

/*
 * All columns of the unique index with the columns of the other relation that the query equates
 * them to; NULL if a column has no such partner.
 */
static ForeignKeyOptInfo *
match_index(PlannerInfo *root, RelOptInfo *rel, RfIndex *index, Index other)
{
	ForeignKeyOptInfo *key = makeNode(ForeignKeyOptInfo);

	key->con_relid = other;
	key->ref_relid = rel->relid;
	key->nkeys = index->column_count;
	for (int i = 0; i < index->column_count; i++)
	{
		key->confkey[i] = index->columns[i];
		if (!match_class(root, rel, key, i) && !match_clauses(rel, key, i))
			return NULL;
	}
	return key;
}

void
rf_note_unique_keys(PlannerInfo *root, RfRelInfo *info)
{
	RelOptInfo *rel = info->rel;
	ListCell   *lc;

	if (rel->reloptkind != RELOPT_BASEREL)
		return;
	foreach(lc, info->indexes)
	{
		RfIndex    *index = (RfIndex *) lfirst(lc);

		if (!index->unique || index->column_count < 2 || index->column_count > INDEX_MAX_KEYS)
			continue;
		for (int relid = 1; relid < root->simple_rel_array_size; relid++)
		{
			RelOptInfo *other = root->simple_rel_array[relid];
			ForeignKeyOptInfo *key;

			if (other == NULL || other == rel || other->reloptkind != RELOPT_BASEREL)
				continue;
			key = match_index(root, rel, index, relid);
			if (key == NULL)
				continue;
			if (other->tuples > rel->tuples && is_unique(root, other, key->conkey, key->nkeys))
				turn_round(key);
			if (!is_looked_for(root, key->ref_relid, key->con_relid))
				root->fkey_list = lappend(root->fkey_list, key);
		}
	}
}
