/*
 * late_locks.c
 *		SELECT ... LIMIT n FOR UPDATE (or SHARE, ...) over several nodes: rows are locked when they
 *		are returned.
 *
 * Elsewhere a scan locks the rows that it reads, in the same statement. Here each node would have
 * to lock as many rows as all of them return, and SKIP LOCKED would hide those from other sessions:
 * a job queue would look empty while jobs are left. So the scan locks nothing, and LockRows, which
 * core puts below Limit, has each row locked on its node by RefetchForeignRow (exec/lock_rows.c),
 * until there are enough. That is a round trip for each row. Where one node alone has all rows,
 * LIMIT and locks are sent to it, as to any server.
 *
 * Core asks for the kind of a row mark before anything is planned, and shows no more than the entry
 * of the range table. So the queries concerned are found before that, and a field that tables do
 * not use marks their tables.
 *
 * A row's place is more than its ctid: the junk column for LockRows becomes a row of ctid,
 * RF_ROW_TABLE and RF_ROW_PART. To write a row takes the first two and its key (modify_plan.c).
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/prep.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "rdma_fdw/exchange.h"

#include "plan.h"
#include "plan_private.h"


/* For a table the field has no meaning to core, which copies it with the query. */
#define LOCKED_LATE(rte)	((rte)->self_reference)

static bool
is_on_nodes(const RangeTblEntry *rte)
{
	ForeignServer *server;

	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_FOREIGN_TABLE ||
		(rte->inh && has_subclass(rte->relid)))
		return false;
	server = GetForeignServer(GetForeignTable(rte->relid)->serverid);
	return GetFdwRoutineByServerId(server->serverid)->GetForeignRowMarkType ==
		rdmaGetForeignRowMarkType &&
		rf_server_nodes(server) != NIL;
}

/* Are its rows given out as they come, so that a LIMIT above it ends its reading? */
static bool
passes_limit_on(const Query *query)
{
	return query->sortClause == NIL && query->groupClause == NIL && query->groupingSets == NIL &&
		query->distinctClause == NIL && !query->hasAggs && query->havingQual == NULL &&
		!query->hasWindowFuncs && query->setOperations == NULL;
}

static void mark(Query *query, bool limited);

static bool
mark_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		mark((Query *) node, false);
		return false;
	}
	return expression_tree_walker(node, mark_walker, NULL);
}

static bool
has_limit(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return ((Query *) node)->limitCount != NULL ||
			query_tree_walker((Query *) node, has_limit, NULL, QTW_IGNORE_CTE_SUBQUERIES);
	return expression_tree_walker(node, has_limit, NULL);
}

/*
 * limited: the query around it has a LIMIT for its rows. Of WITH queries as many rows are read as a
 * query that names them asks for.
 */
static void
mark(Query *query, bool limited)
{
	bool		within;
	ListCell   *lc;

	limited |= query->limitCount != NULL;
	foreach(lc, limited ? query->rowMarks : NIL)
	{
		RangeTblEntry *rte = rt_fetch(lfirst_node(RowMarkClause, lc)->rti, query->rtable);

		if (is_on_nodes(rte))
			LOCKED_LATE(rte) = true;
	}
	within = limited && passes_limit_on(query);
	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY && rte->subquery != NULL)
			mark(rte->subquery, within);
	}
	foreach(lc, query->cteList)
		mark((Query *) lfirst_node(CommonTableExpr, lc)->ctequery,
			 limited || has_limit((Node *) query, NULL));
	(void) query_tree_walker(query, mark_walker, NULL,
							 QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
}

void
rf_mark_late_locks(Query *query)
{
	mark(query, false);
}

RowMarkType
rdmaGetForeignRowMarkType(RangeTblEntry *rte, LockClauseStrength strength)
{
	if (!LOCKED_LATE(rte))
		return ROW_MARK_COPY;
	switch (strength)
	{
		case LCS_FORKEYSHARE:
			return ROW_MARK_KEYSHARE;
		case LCS_FORSHARE:
			return ROW_MARK_SHARE;
		case LCS_FORNOKEYUPDATE:
			return ROW_MARK_NOKEYEXCLUSIVE;
		case LCS_FORUPDATE:
			return ROW_MARK_EXCLUSIVE;
		default:
			return ROW_MARK_COPY;
	}
}

bool
rf_is_locked_late(PlannerInfo *root, RelOptInfo *rel)
{
	PlanRowMark *rowmark = IS_SIMPLE_REL(rel) ? get_plan_rowmark(root->rowMarks, rel->relid) : NULL;

	return rowmark != NULL && LOCKED_LATE(planner_rt_fetch(rel->relid, root)) &&
		RowMarkRequiresRowShareLock(rowmark->markType);
}

/* The relation's rows have to come with it. */
static Node *
require_column(RelOptInfo *rel, AttrNumber attno, Oid type)
{
	Var		   *var = makeVar(rel->relid, attno, type, -1, InvalidOid, 0);
	Relids	   *needed = &rel->attr_needed[attno - rel->min_attr];

	if (bms_is_empty(*needed))
		rel->reltarget->exprs = lappend(rel->reltarget->exprs, copyObject(var));
	*needed = bms_add_member(*needed, 0);
	return (Node *) var;
}

/*
 * True: the query itself reads the column. The column by which a row is found again is in no
 * condition, and has another type.
 */
static bool
is_read(RelOptInfo *rel, AttrNumber attno)
{
	Bitmapset  *needed = rel->attr_needed[attno - rel->min_attr];
	Bitmapset  *used = NULL;
	ListCell   *lc;

	foreach(lc, rel->reltarget->exprs)
	{
		if (!IsA(lfirst(lc), Var) || !RF_IS_ROW_TABLE((Var *) lfirst(lc)))
			pull_varattnos(lfirst(lc), rel->relid, &used);
	}
	pull_varattnos((Node *) rf_bare_clauses(rel->baserestrictinfo), rel->relid, &used);
	return !bms_is_subset(needed, bms_make_singleton(0)) ||
		bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, used);
}

/* The query's own use of these columns would show what the scan puts there. */
static void
check_columns(PlannerInfo *root, RelOptInfo *rel)
{
	/* the planner notes of the whole table what its children are asked for */
	RelOptInfo *whole = rel;

	if (rf_is_written(root, rel->relid) && !bms_is_empty(rel->top_parent_relids))
		whole = find_base_rel(root, bms_singleton_member(rel->top_parent_relids));
	if (is_read(whole, RF_ROW_TABLE) || is_read(whole, RF_ROW_PART))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read xmax and cmin of foreign table \"%s\" while single rows of it "
						"are written or locked",
						get_rel_name(planner_rt_fetch(rel->relid, root)->relid)),
				 errhint("Leave them out. They have no meaning for rows of foreign tables.")));
}

void
rf_identify_rows(PlannerInfo *root, RelOptInfo *rel)
{
	char		name[NAMEDATALEN];
	bool		late = rf_is_locked_late(root, rel);
	ListCell   *lc;

	if (late || rf_is_written(root, rel->relid))
		check_columns(root, rel);
	if (!late)
		return;
	snprintf(name, sizeof(name), "ctid%u", get_plan_rowmark(root->rowMarks, rel->relid)->rowmarkId);
	foreach(lc, root->processed_tlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		RowExpr    *row;

		if (!tle->resjunk || tle->resname == NULL || strcmp(tle->resname, name) != 0)
			continue;
		row = makeNode(RowExpr);
		row->args = list_make3(require_column(rel, SelfItemPointerAttributeNumber, TIDOID),
							   require_column(rel, RF_ROW_TABLE, OIDOID),
							   require_column(rel, RF_ROW_PART, CIDOID));
		row->row_typeid = RECORDOID;
		row->row_format = COERCE_EXPLICIT_CALL;
		row->location = -1;
		tle->expr = (Expr *) row;
		return;
	}
	elog(ERROR, "could not find junk column %s", name);
}

/* ---------- tables that are written ---------- */

bool
rf_is_written(PlannerInfo *root, Index relid)
{
	return bms_is_member(relid, root->all_result_relids) &&
		(root->parse->commandType == CMD_UPDATE || root->parse->commandType == CMD_DELETE);
}

/*
 * The scan of a table that UPDATE or DELETE write by a join which is done here locks rows without
 * partners, too, and other sessions wait for them. Not to do so is worth another round trip.
 */
Cost
rf_lock_cost(PlannerInfo *root, RelOptInfo *rel)
{
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;

	if (rel->reloptkind != RELOPT_BASEREL || !rf_is_written(root, rel->relid) ||
		bms_membership(root->all_baserels) != BMS_MULTIPLE)
		return 0;
	return info->opts.fdw_startup_cost + info->est.retrieved_rows * cpu_tuple_cost;
}
