/*
 * join.c
 *		Joins on the data node: of two relations of one server (core sees to that, and to one user),
 *		which may be joins themselves.
 *
 * Joins that are refused run here, as usual.
 *
 * Under row locks, UPDATE and DELETE the executor may recheck a row with new versions of some
 * table's part of it (EvalPlanQual).  The join keeps a local join of the same tables below it for
 * that, which never runs otherwise, and fetches whole rows of its tables for it to start from.
 * Only changes of rows that are here, locked or written by the query, make the executor look again.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "fdw/deparse/deparse.h"

#include "plan.h"

#define BEHIND_EXISTS "a column is wanted that cannot be had behind EXISTS"

/*
 * A column inside EXISTS may be needed only for its equality with another column: an equality of
 * the EXISTS then shows that a column outside of it can replace it.
 */
static void
add_stand_ins(RfRelInfo *info)
{
	ListCell   *lc;

	info->join.stand_ins = list_concat_copy(info->join.outer->join.stand_ins,
											info->join.inner->join.stand_ins);
	foreach(lc, info->join.type == JOIN_SEMI ? info->join.clauses : NIL)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		bool		left;
		Var		   *hidden;
		Var		   *visible;

		if (rinfo->mergeopfamilies == NIL || !is_opclause(rinfo->clause))
			continue;
		left = bms_is_subset(rinfo->left_relids, info->join.inner->rel->relids);
		hidden = (Var *) (left ? get_leftop(rinfo->clause) : get_rightop(rinfo->clause));
		visible = (Var *) (left ? get_rightop(rinfo->clause) : get_leftop(rinfo->clause));
		if (IsA(hidden, Var) && IsA(visible, Var) && hidden->vartype == visible->vartype &&
			hidden->varcollid == visible->varcollid &&
			bms_is_member(hidden->varno, info->join.inner->rel->relids) &&
			bms_is_member(visible->varno, info->join.outer->rel->relids))
			info->join.stand_ins = lappend(info->join.stand_ins, list_make2(hidden, visible));
	}
}

/* For a join of partitions, the relids of the whole tables. */
static Relids
whole_relids(RelOptInfo *rel)
{
	return IS_OTHER_REL(rel) ? rel->top_parent_relids : rel->relids;
}

/*
 * Returns true if it is computed over this very join, and not over one of its sides. From 16 on the
 * places where something is computed contain outer joins, too, and not always all relations below
 * these.
 */
static bool
is_computed_over(PlannerInfo *root, RfRelInfo *info, PlaceHolderVar *placeholder)
{
	Relids		relids = rf_evaluated_at(root, placeholder);

	return bms_is_subset(relids, whole_relids(info->rel)) &&
		!bms_is_subset(relids, whole_relids(info->join.outer->rel)) &&
		!bms_is_subset(relids, whole_relids(info->join.inner->rel));
}

/*
 * The columns that these expressions need.  A placeholder is one, which the data node computes,
 * unless it is computed over this very join: then it can be computed here, from its own columns.
 */
static List *
columns_for(PlannerInfo *root, RfRelInfo *info, Node *exprs)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, pull_var_clause(exprs, PVC_INCLUDE_PLACEHOLDERS))
	{
		PlaceHolderVar *placeholder = (PlaceHolderVar *) lfirst(lc);

		if (IsA(placeholder, PlaceHolderVar) && is_computed_over(root, info, placeholder))
			columns = list_concat(columns,
								  columns_for(root, info, (Node *) placeholder->phexpr));
		else
			columns = lappend(columns, placeholder);
	}
	return columns;
}

/* Returns true if it is computed without anything that is inside EXISTS. */
static bool
is_computed_outside_exists(PlannerInfo *root, RfRelInfo *info, PlaceHolderVar *placeholder)
{
	ListCell   *lc;

	if (bms_is_subset(rf_evaluated_at(root, placeholder), info->join.hidden_relids))
		return false;
	foreach(lc, pull_var_clause((Node *) placeholder->phexpr, PVC_RECURSE_PLACEHOLDERS))
	{
		if (bms_is_member(lfirst_node(Var, lc)->varno, info->join.hidden_relids))
			return false;
	}
	return true;
}

/*
 * Every column that is wanted must be a plain one, a whole row, or a placeholder that the data node
 * can compute: tableoid has no remote counterpart. Columns of relations inside EXISTS cannot be had
 * either, unless another column stands in for them, but whole rows of them can be left NULL where
 * they are only asked for to be rechecked, and will not be. Returns the obstacle, or NULL.
 */
static const char *
why_not_fetched(PlannerInfo *root, RfRelInfo *info, List *exprs, bool never_rechecked)
{
	Relids		relids = info->rel->relids;
	ListCell   *lc;

	foreach(lc, exprs)
	{
		Var		   *var = (Var *) lfirst(lc);

		if (IsA(var, PlaceHolderVar))
		{
			if (!is_computed_outside_exists(root, info, (PlaceHolderVar *) var))
				return BEHIND_EXISTS;
			if (!rf_is_shippable_expr(root, info->rel, (Expr *) var))
				return rf_why_not_shippable(root, info->rel, ((PlaceHolderVar *) var)->phexpr);
			continue;
		}
		if (!IsA(var, Var) || !bms_is_member(var->varno, relids))
			return "it gives a column of another relation";
		if (var->varattno < 0 && var->varattno != SelfItemPointerAttributeNumber &&
			!RF_IS_ROW_TABLE(var))
			return psprintf("system column %s is wanted",
							get_rte_attribute_name(planner_rt_fetch(var->varno, root),
												   var->varattno));
		if (bms_is_member(var->varno, info->join.hidden_relids) &&
			(var->varattno == 0 ? !never_rechecked : rf_stand_in(info, var) == NULL))
			return BEHIND_EXISTS;
	}
	return NULL;
}

static bool
fetches_ctid(List *exprs)
{
	ListCell   *lc;

	foreach(lc, exprs)
	{
		Var		   *var = (Var *) lfirst(lc);

		if (IsA(var, Var) && var->varattno == SelfItemPointerAttributeNumber)
			return true;
	}
	return false;
}

/*
 * Sorts the join's clauses into ON, WHERE and the clauses that stay here. Not NULL: why the join
 * cannot be sent, or "": nobody is told.
 *
 * An outer join's own clauses decide which rows get NULLs, so all of them must go; those from WHERE
 * above it, and an inner join's, may stay.  All clauses of a semi join belong into its EXISTS;
 * those made from an equivalence class look as if they came from WHERE.
 */
static const char *
classify_clauses(PlannerInfo *root, RelOptInfo *joinrel, List *restrictlist)
{
	RfRelInfo  *info = (RfRelInfo *) joinrel->fdw_private;
	ListCell   *lc;

	foreach(lc, restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		bool		shippable;

		if (rinfo->pseudoconstant)
			return "";			/* core's gating Result needs the join to be here; 15 and 16 do not
								 * ask */
		shippable = rf_is_shippable_expr(root, joinrel, rinfo->clause);

		if (info->join.type == JOIN_INNER)
		{
			if (shippable)
				info->join.clauses = lappend(info->join.clauses, rinfo);
			else
				info->local_conds = lappend(info->local_conds, rinfo);
		}
		else if (info->join.type == JOIN_SEMI || !RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids))
		{
			if (!shippable)
				return rf_why_not_shippable(root, joinrel, rinfo->clause);
			info->join.clauses = lappend(info->join.clauses, rinfo);
		}
		else
		{
			if (shippable)
				info->remote_conds = lappend(info->remote_conds, rinfo);
			else
				info->local_conds = lappend(info->local_conds, rinfo);
		}
	}
	return NULL;
}

/*
 * Conditions that a side evaluates here can be evaluated after the join just as well where the join
 * neither turns the side's columns to NULL nor hides them.  Not with security barriers about: the
 * join's own conditions would see rows that the side's were to hide.
 */
static bool
take_local_conds(PlannerInfo *root, RfRelInfo *info, RfRelInfo *side, bool preserved)
{
	if (side->local_conds == NIL)
		return true;
	if (!preserved || root->qual_security_level > 0)
		return false;
	info->local_conds = list_concat(info->local_conds, side->local_conds);
	return true;
}

static Relids
clause_relids(List *rinfos)
{
	Relids		relids = NULL;
	ListCell   *lc;

	foreach(lc, rinfos)
		relids = bms_add_members(relids, lfirst_node(RestrictInfo, lc)->clause_relids);
	return relids;
}

/*
 * Returns true if the join gives the same result as another pair of the same tables, whose columns
 * were found to be possible.
 */
static bool
has_same_columns(PlannerInfo *root, const RfRelInfo *info, const RfRelInfo *known)
{
	return known != NULL && root->placeholder_list == NIL &&
		bms_is_empty(info->join.hidden_relids) &&
		bms_is_empty(known->join.hidden_relids) && info->local_conds == NIL &&
		known->local_conds == NIL;
}

/*
 * Fills joinrel's info. known: the info of another pair of sides, or NULL. Not NULL: why the data
 * node cannot do this join, or "".
 */
static const char *
why_not_sent(PlannerInfo *root, RelOptInfo *joinrel, const RfRelInfo *known, List *restrictlist)
{
	RfRelInfo  *info = (RfRelInfo *) joinrel->fdw_private;
	RfRelInfo  *outer = info->join.outer;
	RfRelInfo  *inner = info->join.inner;
	bool		exists;
	const char *why;
	List	   *columns;
	List	   *local_columns;
	ListCell   *lc;

	exists = info->join.type == JOIN_SEMI || info->join.type == JOIN_ANTI;

	why = classify_clauses(root, joinrel, restrictlist);
	if (why != NULL)
		return why;
	if (!take_local_conds(root, info, outer,
						  info->join.type != JOIN_RIGHT && info->join.type != JOIN_FULL) ||
		!take_local_conds(root, info, inner,
						  info->join.type == JOIN_INNER || info->join.type == JOIN_RIGHT))
		return "a condition of one side is evaluated here, before the join";

	info->join.hidden_relids = bms_union(outer->join.hidden_relids, inner->join.hidden_relids);
	if (exists)
		info->join.hidden_relids = bms_add_members(info->join.hidden_relids, inner->rel->relids);
	add_stand_ins(info);

	/*
	 * Columns hidden below cannot be compared here.  That includes "a LEFT JOIN b ... WHERE b.x IS
	 * NULL AND b.y > 5": the planner made an anti join of it and dropped IS NULL, so that it
	 * cannot be sent as the left join that it was either.
	 */
	if (bms_overlap(clause_relids(info->join.clauses),
					bms_union(outer->join.hidden_relids, inner->join.hidden_relids)) ||
		bms_overlap(clause_relids(info->remote_conds), info->join.hidden_relids))
		return BEHIND_EXISTS;

	if (info->join.type == JOIN_FULL && fetches_ctid(joinrel->reltarget->exprs))
		return "ctid is wanted of rows that may be NULL";

	if (has_same_columns(root, info, known))
	{
		info->tlist = known->tlist;
		return NULL;
	}
	columns = columns_for(root, info, (Node *) joinrel->reltarget->exprs);
	local_columns = columns_for(root, info,
								(Node *) extract_actual_clauses(info->local_conds, false));
	why = why_not_fetched(root, info, columns, !rf_rows_may_be_rechecked(root));
	if (why == NULL)
		why = why_not_fetched(root, info, local_columns, false);
	if (why != NULL)
		return why;

	info->tlist = add_to_flat_tlist(add_to_flat_tlist(NIL, columns), local_columns);
	foreach(lc, info->nodes != NIL ? info->tlist : NIL)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		tle->resjunk = IsA(var, Var) && var->varattno == 0 && !rf_row_is_wanted(root, var->varno);
	}
	return NULL;
}

/*
 * To the nodes right joins are left joins that are seen from the other side, and so are some
 * further kinds.
 */
static bool
is_seen_already(const RfRelInfo *known, JoinType jointype, const RelOptInfo *outerrel,
				const RelOptInfo *innerrel)
{
	return jointype == JOIN_RIGHT ||
		(known != NULL && known->fragment->choices->last_outer == innerrel &&
		 known->fragment->choices->last_inner == outerrel);
}

/*
 * Called by core for each pair of relations. Makes the join's statement, or its choices over
 * several nodes, and adds its paths. If data nodes cannot do the join, the reason is noted for
 * EXPLAIN.
 */
void
rdmaGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
						RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	RfRelInfo  *outer = (RfRelInfo *) outerrel->fdw_private;
	RfRelInfo  *inner = (RfRelInfo *) innerrel->fdw_private;
	Path	   *local_join = NULL;
	RfRelInfo  *info;
	RfRelInfo  *known;
	const char *why;

	if (rf_push_down != RF_PUSH_DOWN_ALL || rf_is_grouped_early(joinrel))
		return;

	/*
	 * One statement is enough, whichever pair of relations it was found with; not for many nodes.
	 */
	known = (RfRelInfo *) joinrel->fdw_private;
	if (known != NULL && known->fragment == NULL)
		return;

	switch (jointype)
	{
		case JOIN_INNER:
		case JOIN_LEFT:
		case JOIN_RIGHT:
		case JOIN_FULL:
		case JOIN_SEMI:
		case JOIN_ANTI:
			break;
		default:
			return;
	}

	/*
	 * A side that is not a single statement has no info. Local rows by themselves are joined here.
	 */
	if (outer == NULL || inner == NULL || (outer->local && inner->local))
		return;
	if (outer->nodes != NIL && is_seen_already(known, jointype, outerrel, innerrel))
		return;
	/* partitions on several servers have the first of these for theirs, as far as core knows */
	if (!equal(outer->nodes, inner->nodes))
		why = "it lies on other nodes";
	else if (!bms_is_empty(joinrel->lateral_relids))
		why = "one refers to columns of another table (LATERAL)";
	else if (outer->nodes != NIL && !rf_nodes_may_join(root))
		why = "a join over several nodes can neither lock rows nor be part of MERGE";
	else
		why = NULL;
	if (why == NULL && rf_rows_may_be_rechecked(root))
	{
		/*
		 * it gets only columns that its tables' scans give, so these leave no conditions to it
		 */
		if (outer->local_conds == NIL && inner->local_conds == NIL)
			local_join = GetExistingLocalJoinPath(joinrel);
		if (local_join == NULL)
			why = "rows may have to be looked at again, and a condition is evaluated here";
	}
	if (why != NULL)
	{
		rf_note_join(outerrel, innerrel, why);
		return;
	}

	info = palloc0(sizeof(RfRelInfo));
	info->rel = joinrel;
	info->join.outer = outer;
	info->join.inner = inner;
	info->join.type = jointype;
	info->local_rels = list_concat_copy(outer->local_rels, inner->local_rels);
	rf_merge_options(info, outer->local ? inner : outer, outer->local ? outer : inner);
	joinrel->fdw_private = info;
	info->notes = known ? known->notes : rf_make_join_notes();
	why = why_not_sent(root, joinrel, known, extra->restrictlist);
	if (why != NULL)
	{
		pfree(info);
		joinrel->fdw_private = known;
		if (why[0] != '\0')
			rf_note_join(outerrel, innerrel, why);
		return;
	}

	info->local_conds_sel = clauselist_selectivity(root, info->local_conds, 0, JOIN_INNER, NULL);
	cost_qual_eval(&info->local_conds_cost, info->local_conds, root);
	info->rel_total_cost = -1;

	if (info->nodes != NIL)
	{
		rf_join_choices(root, joinrel, info, known, extra->restrictlist);
		pfree(info);
		return;
	}
	rf_note_join(outerrel, innerrel, NULL);
	rf_estimate_rel(root, joinrel);
	if (info->opts.use_remote_estimate)
	{
		joinrel->rows = info->est.rows;
		joinrel->reltarget->width = info->est.width;
	}
	rf_add_path(root, joinrel, (Path *)
				rf_create_foreign_join_path(root, joinrel, info->est.rows, info->est.startup_cost,
											info->est.total_cost, NIL, local_join,
											extra->restrictlist,
											NIL));
	rf_add_sorted_paths(root, joinrel, local_join, extra->restrictlist);
	rf_add_partial_path(root, joinrel, joinrel->relids, NULL, extra->restrictlist);
}

/* ---------- joins with relations that are no statement of the same server ---------- */

/* Returns true if there are foreign tables of ours in this query or a query in its FROM. */
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

const char *
rf_why_apart(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *other)
{
	RangeTblEntry *rte;

	if (other->reloptkind != RELOPT_BASEREL)
		return NULL;
	rte = planner_rt_fetch(other->relid, root);
	if (rf_is_our_rel(other) && other->fdw_private != NULL)
	{
		List	   *nodes = ((RfRelInfo *) rel->fdw_private)->nodes;
		List	   *others = ((RfRelInfo *) other->fdw_private)->nodes;

		if (other->serverid != rel->serverid && nodes != NIL && others != NIL &&
			!rf_are_among(nodes, others) && !rf_are_among(others, nodes))
			return psprintf("it is on server \"%s\", and each of the two servers has nodes that "
							"the other has not",
							GetForeignServer(other->serverid)->servername);
		if (other->serverid != rel->serverid)
			return psprintf("it is on server \"%s\"",
							GetForeignServer(other->serverid)->servername);
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
	reason = rf_why_apart(root, rel, other);
	if (reason != NULL)
		rf_note_join_of(rel, other, reason);
}

/* A pair for which core does not ask the wrapper. */
void
rf_note_unasked_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
					 RelOptInfo *innerrel)
{
	if (rf_is_our_rel(joinrel))
		return;
	note_unasked(root, outerrel, innerrel);
	note_unasked(root, innerrel, outerrel);
}
