/*
 * conflict.c
 *		INSERT ... ON CONFLICT with columns, or with DO UPDATE, into a foreign table.
 *
 * Core looks for the unique index of the target before it asks a wrapper. A foreign table has no
 * index; the nodes' tables have the unique indexes. So rf_take_conflicts() takes the clause out of
 * the query before core plans it, and planning of the remote INSERT puts it there. In between, the
 * target's entry of the range table has it, in the field of TABLESAMPLE, which the target of an
 * INSERT cannot have: core copies that field with the query, simplifies its expressions with the
 * values of parameters, and leaves it out of the plan. The query keeps the rights that the clause
 * takes.
 *
 * DO NOTHING without columns is left to core, which asks for no index then.
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"

#include "fdw/catalog/catalog.h"
#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

void
rf_take_conflicts(Query *query)
{
	OnConflictExpr *conflict = query->onConflict;
	RangeTblEntry *target;
	ListCell   *lc;

	foreach(lc, query->cteList)
		rf_take_conflicts((Query *) lfirst_node(CommonTableExpr, lc)->ctequery);
	if (conflict == NULL ||
		(conflict->action == ONCONFLICT_NOTHING && conflict->arbiterElems == NIL))
		return;
	target = rt_fetch(query->resultRelation, query->rtable);
	if (target->relkind != RELKIND_FOREIGN_TABLE || !rf_is_own_table(target->relid))
		return;
	target->tablesample = (TableSampleClause *) conflict;
	query->onConflict = NULL;
}

static OnConflictExpr *
conflict_of(PlannerInfo *root, Index target)
{
	Node	   *clause = (Node *) planner_rt_fetch(target, root)->tablesample;

	return clause != NULL && IsA(clause, OnConflictExpr) ? (OnConflictExpr *) clause : NULL;
}

/* ERROR; reason: a sentence */
__attribute__((noreturn)) static void
refuse(Relation rel, const char *reason, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("ON CONFLICT cannot be executed for foreign table \"%s\"",
					RelationGetRelationName(rel)),
			 errdetail("%s", reason),
			 hint ? errhint("%s", hint) : 0));
}

/* IntList: those of the conflict's elements that are columns, not expressions */
static List *
columns_of(const OnConflictExpr *conflict)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, conflict->arbiterElems)
	{
		Var		   *var = (Var *) lfirst_node(InferenceElem, lc)->expr;

		if (IsA(var, Var))
			columns = lappend_int(columns, var->varattno);
	}
	return columns;
}

/* Rows that are equal in the columns of the conflict have to be on one node. */
static void
check_columns(Relation rel, const OnConflictExpr *conflict)
{
	const RfDistribution *distribution = rf_distribution_of(rel);
	List	   *compared = columns_of(conflict);
	ListCell   *lc;

	if (distribution == NULL || distribution->placement == RF_PLACED_EVERYWHERE)
		return;
	if (distribution->placement != RF_PLACED_BY_HASH)
		refuse(rel, "Nothing says on which node a row is: the table has no option "
			   "\"distributed_by\".", NULL);
	for (int i = 0; i < distribution->key_count; i++)
	{
		int			attno = distribution->keys[i];
		const char *name = get_attname(RelationGetRelid(rel), attno, false);

		if (!list_member_int(compared, attno))
			refuse(rel, psprintf("Rows that are equal in the columns of the conflict may be on "
								 "different nodes: column \"%s\" of the distribution key is not "
								 "among them.", name),
				   psprintf("Name column \"%s\" in ON CONFLICT, and in the unique index of the "
							"nodes' tables.", name));
		foreach(lc, conflict->onConflictSet)
		{
			TargetEntry *entry = lfirst_node(TargetEntry, lc);
			Var		   *value = (Var *) strip_implicit_coercions((Node *) entry->expr);

			if (entry->resno == attno &&
				!(IsA(value, Var) && value->varno == (int) conflict->exclRelIndex &&
				  value->varattno == attno))
				refuse(rel, psprintf("DO UPDATE would move the row to another node: it assigns "
									 "column \"%s\" of the distribution key.", name),
					   "Leave the assignment out.");
		}
	}
}

/* Triggers of the foreign table would not learn that a row was updated. */
static void
check_triggers(Relation rel)
{
	const TriggerDesc *triggers = rel->trigdesc;

	if (triggers != NULL &&
		(triggers->trig_update_before_row || triggers->trig_update_after_row ||
		 triggers->trig_update_before_statement || triggers->trig_update_after_statement ||
		 triggers->trig_insert_after_row))
		refuse(rel, "It has triggers of UPDATE, or AFTER INSERT FOR EACH ROW, which would not run.",
			   "Make the triggers on the nodes' tables.");
}

/*
 * A node evaluates the clause's expressions over its stored row and the row of the INSERT. A column
 * or a value by itself needs no evaluation: the node's column takes it, whatever its type is.
 */
static void
check_expression(PlannerInfo *root, RelOptInfo *row, Relation rel, Node *expr)
{
	if (expr == NULL || IsA(expr, Const) || IsA(expr, Param) || rf_is_local_value(expr) ||
		(IsA(expr, Var) && ((Var *) expr)->varattno > 0) ||
		rf_nodes_can_evaluate(root, row, (Expr *) expr))
		return;
	refuse(rel, psprintf("The nodes cannot evaluate an expression of the clause: %s.",
						 rf_why_not_shippable(root, row, (Expr *) expr)),
		   "rdma.upsert takes assignments as text, which the nodes evaluate.");
}

static void
append_columns(StringInfo buf, Relation rel, const OnConflictExpr *conflict, Index target,
			   RfConflict *result)
{
	Oid			relid = RelationGetRelid(rel);
	ListCell   *lc;

	foreach(lc, conflict->arbiterElems)
	{
		InferenceElem *element = lfirst_node(InferenceElem, lc);
		Var		   *var = (Var *) element->expr;

		if (OidIsValid(element->infercollid) || OidIsValid(element->inferopclass))
			refuse(rel, "COLLATE and operator classes in the clause have no meaning on the nodes.",
				   "Name the columns alone.");
		appendStringInfo(buf, "%s%s", lc == list_head(conflict->arbiterElems) ? " (" : ", ",
						 IsA(var, Var) ? quote_identifier(rf_column_name(relid, var->varattno)) :
						 psprintf("(%s)", rf_print_expr(target, relid, (Expr *) var, false,
														&result->params, &result->param_types)));
	}
	if (conflict->arbiterElems != NIL)
		appendStringInfoChar(buf, ')');
	if (conflict->arbiterWhere != NULL)
		appendStringInfo(buf, " WHERE %s",
						 rf_print_expr(target, relid, (Expr *) conflict->arbiterWhere, false,
									   &result->params, &result->param_types));
}

/* The assignments, and which rows they are for */
static void
append_update(StringInfo buf, Relation rel, const OnConflictExpr *conflict, Index target,
			  RfConflict *result)
{
	Oid			relid = RelationGetRelid(rel);
	ListCell   *lc;

	foreach(lc, conflict->onConflictSet)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		appendStringInfo(buf, "%s%s = %s",
						 lc == list_head(conflict->onConflictSet) ? " DO UPDATE SET " : ", ",
						 quote_identifier(rf_column_name(relid, entry->resno)),
						 rf_print_of_rows(target, conflict->exclRelIndex, relid, entry->expr, true,
										  &result->params, &result->param_types));
	}
	if (conflict->onConflictWhere != NULL)
		appendStringInfo(buf, " WHERE %s",
						 rf_print_of_rows(target, conflict->exclRelIndex, relid,
										  (Expr *) conflict->onConflictWhere, false,
										  &result->params, &result->param_types));
}

/* Two rows of one statement that would update the same row are an error; these tell them. */
static List *
compared_columns(Relation rel, const OnConflictExpr *conflict)
{
	List	   *columns = columns_of(conflict);
	bool		possible = conflict->arbiterWhere == NULL &&
		list_length(columns) == list_length(conflict->arbiterElems);
	ListCell   *lc;

	foreach(lc, columns)
	{
		Oid			type = TupleDescAttr(RelationGetDescr(rel), lfirst_int(lc) - 1)->atttypid;
		TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR);

		possible &= OidIsValid(entry->eq_opr) && op_hashjoinable(entry->eq_opr, type);
	}
	if (!possible)
		refuse(rel, "Rows of one statement that update the same row are told by columns: the "
			   "clause has an expression, a condition, or a column of a type that is not hashed.",
			   "Use rdma.upsert, or name a unique index of columns.");
	return columns;
}

/* Only values that are known when the statement begins */
static bool
is_computed_later(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind != PARAM_EXTERN)
		return true;
	return IsA(node, SubPlan) || expression_tree_walker(node, is_computed_later, NULL);
}

void
rf_conflict(PlannerInfo *root, Relation rel, Index target, OnConflictAction core, int row_params,
			RfConflict *result)
{
	const OnConflictExpr *conflict = conflict_of(root, target);
	ForeignTable *table = GetForeignTable(RelationGetRelid(rel));
	RfRelInfo  *info;
	RelOptInfo *rows;
	StringInfoData buf;
	ListCell   *lc;

	memset(result, 0, sizeof(*result));
	if (conflict == NULL)
	{
		if (core == ONCONFLICT_NOTHING)
			result->sql = pstrdup(" ON CONFLICT DO NOTHING");
		else if (core != ONCONFLICT_NONE)
			elog(ERROR, "unexpected ON CONFLICT specification: %d", (int) core);
		return;
	}
	if (rf_conflict_selects(conflict))
		refuse(rel, "DO SELECT returns rows of the data node that the statement does not write.",
			   "Use DO NOTHING, and read the rows by another statement.");
	check_columns(rel, conflict);
	info = palloc0(sizeof(RfRelInfo));
	rf_table_options(table, GetForeignServer(table->serverid), &info->opts);
	rows = makeNode(RelOptInfo);
	rows->fdw_private = info;
	rows->relids = bms_make_singleton(target);
	foreach(lc, conflict->arbiterElems)
		check_expression(root, rows, rel, lfirst_node(InferenceElem, lc)->expr);
	check_expression(root, rows, rel, conflict->arbiterWhere);

	/* the row's values have the first numbers */
	for (int i = 0; i < row_params; i++)
	{
		result->params = lappend(result->params, makeNullConst(INT4OID, -1, InvalidOid));
		result->param_types = lappend_oid(result->param_types, INT4OID);
	}
	initStringInfo(&buf);
	appendStringInfoString(&buf, " ON CONFLICT");
	append_columns(&buf, rel, conflict, target, result);
	if (conflict->action == ONCONFLICT_NOTHING)
		appendStringInfoString(&buf, " DO NOTHING");
	else
	{
		check_triggers(rel);
		/* to core the row is a new one, whose OLD is NULL */
		if (rf_has_old_columns((Node *) root->parse->returningList, NULL))
			refuse(rel, "RETURNING has columns of OLD, and the data node returns the row as it is "
				   "after DO UPDATE.", "Read the row before, or leave OLD out.");
		rows->relids = bms_add_member(rows->relids, conflict->exclRelIndex);
		foreach(lc, conflict->onConflictSet)
		{
			TargetEntry *entry = lfirst_node(TargetEntry, lc);

			if (rf_writes_partition_key(rel, list_make1_int(entry->resno)))
				refuse(rel, "DO UPDATE may make a row that does not belong to the partition that "
					   "the table is.", "Make UPDATE and INSERT of it.");
			check_expression(root, rows, rel, (Node *) entry->expr);
		}
		check_expression(root, rows, rel, conflict->onConflictWhere);
		result->columns = compared_columns(rel, conflict);
		append_update(&buf, rel, conflict, target, result);
	}
	result->sql = buf.data;
	result->params = list_copy_tail(result->params, row_params);
	result->param_types = list_copy_tail(result->param_types, row_params);
	if (is_computed_later((Node *) result->params, NULL))
		refuse(rel, "A sub-select in the clause is computed while the statement runs.",
			   "Use rdma.upsert, or make two statements of it.");
}
