/*
 * modify_plan.c - planning of statements that write foreign tables: which columns, which remote
 * statement.
 *
 * A row is found again by its remote tableoid and ctid; on a server with nodes by its distribution
 * key, too, which determines the node, and which the node compares. A replicated table's rows are
 * read and locked on the first node, and found on the other nodes by a unique key.
 * modify_direct_plan.c plans writes that the data node can do by itself in one statement.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/inherit.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/typcache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"

#include "fdw/catalog/catalog.h"
#include "fdw/deparse/deparse.h"

#include "plan.h"
#include "plan_private.h"

/* Nodes can look for its values: an operator of every PostgreSQL says which are equal. */
static bool
is_comparable(Relation rel, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);
	Oid			equal;

	if (att->attisdropped || type_is_rowtype(att->atttypid))
		return false;
	equal = lookup_type_cache(getBaseType(att->atttypid), TYPECACHE_EQ_OPR)->eq_opr;
	return OidIsValid(equal) && equal < FirstGenbkiObjectId;
}

/* The columns of the index; NIL: they do not name one row. */
static List *
unique_columns(Relation rel, const RfIndex *index)
{
	List	   *columns = NIL;

	for (int i = 0; i < index->column_count; i++)
	{
		AttrNumber	attno = index->columns[i];

		if (!index->unique || attno > RelationGetDescr(rel)->natts || !is_comparable(rel, attno) ||
			!TupleDescAttr(RelationGetDescr(rel), attno - 1)->attnotnull)
			return NIL;
		columns = lappend_int(columns, attno);
	}
	return columns;
}

/*
 * The columns that say which row is meant, beside its place: the distribution key; of a replicated
 * table a unique key, or all columns if ANALYZE has found no such key. NIL: there are none.
 */
static List *
row_key(Relation rel, const RfDistribution *distribution)
{
	List	   *key = NIL;
	ListCell   *lc;

	for (int i = 0; distribution != NULL && i < distribution->key_count; i++)
		key = lappend_int(key, distribution->keys[i]);
	if (distribution == NULL || distribution->placement != RF_PLACED_EVERYWHERE)
		return key;
	foreach(lc, rf_remote_indexes(RelationGetRelid(rel)))
	{
		List	   *columns = unique_columns(rel, (RfIndex *) lfirst(lc));

		if (columns != NIL && (key == NIL || list_length(columns) < list_length(key)))
			key = columns;
	}
	foreach(lc, key == NIL ? rf_all_columns(rel) : NIL)
	{
		if (is_comparable(rel, lfirst_int(lc)))
			key = lappend_int(key, lfirst_int(lc));
	}
	return key;
}

void
rdmaAddForeignUpdateTargets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte,
							Relation target_relation)
{
	Var		   *var = makeVar(rtindex, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);
	List	   *key = row_key(target_relation, rf_distribution_of(target_relation));
	ListCell   *lc;

	add_row_identity_var(root, var, rtindex, "ctid");
	var = makeVar(rtindex, RF_ROW_TABLE, OIDOID, -1, InvalidOid, 0);
	add_row_identity_var(root, var, rtindex, RF_TABLE_JUNK_NAME);
	foreach(lc, key)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(target_relation),
											  lfirst_int(lc) - 1);
		char		name[NAMEDATALEN];

		/* the name is kept */
		rf_key_junk_name(RelationGetRelid(target_relation), att->attnum, name);
		var = makeVar(rtindex, att->attnum, att->atttypid, att->atttypmod, att->attcollation, 0);
		add_row_identity_var(root, var, rtindex, pstrdup(name));
	}
}

void
rf_key_junk_name(Oid relid, AttrNumber attno, char *name)
{
	snprintf(name, NAMEDATALEN, "rdma_key_%u_%d", relid, attno);
}

/* ERROR if the table's server has nodes and single rows of it cannot be written. */
static void
check_distributed_write(Relation rel, CmdType operation, const RfDistribution *distribution,
						List *key)
{
	if (operation != CMD_INSERT && distribution != NULL && key == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot %s single rows of foreign table \"%s\"",
						operation == CMD_UPDATE ? "update" : "delete",
						RelationGetRelationName(rel)),
				 distribution->placement == RF_PLACED_EVERYWHERE ?
				 errdetail("The table is replicated, and no column of it can be compared.") :
				 errdetail("Nothing says on which node a row is: the table has no option "
						   "\"distributed_by\"."),
				 errhint("Write a statement whose conditions and new values the data nodes can "
						 "evaluate.")));
}

static bool
is_generated(Relation rel, AttrNumber attno)
{
	return TupleDescAttr(RelationGetDescr(rel), attno - 1)->attgenerated != '\0';
}

static void
append_returned(StringInfo buf, const char *column, AttrNumber attno, List **retrieved_attrs)
{
	appendStringInfo(buf, "%s%s", *retrieved_attrs == NIL ? " RETURNING " : ", ", column);
	*retrieved_attrs = lappend_int(*retrieved_attrs, attno);
}

/*
 * RETURNING the columns that the caller's RETURNING, view checks or AFTER triggers read: the remote
 * row may differ from the sent row. Of the system columns, ctid is the remote row's; a row that
 * comes back has the rest, too.
 */
void
rf_append_returning(StringInfo buf, Relation rel, Index rti, bool whole_row, List *check_options,
					List *returning, List **retrieved_attrs)
{
	Bitmapset  *used = NULL;
	ListCell   *lc;

	*retrieved_attrs = NIL;
	pull_varattnos((Node *) check_options, rti, &used);
	pull_varattnos((Node *) returning, rti, &used);
	whole_row = whole_row || bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	foreach(lc, rf_all_columns(rel))
	{
		AttrNumber	attno = lfirst_int(lc);

		if (!whole_row && !bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, used))
			continue;
		append_returned(buf, quote_identifier(rf_column_name(RelationGetRelid(rel), attno)), attno,
						retrieved_attrs);
	}
	used = bms_del_member(used, TableOidAttributeNumber - FirstLowInvalidHeapAttributeNumber);
	if (bms_next_member(used, -1) + FirstLowInvalidHeapAttributeNumber < 0 && !bms_is_empty(used))
		append_returned(buf, "ctid", SelfItemPointerAttributeNumber, retrieved_attrs);
}

static int
insert_params(const RfRowWrite *write)
{
	int			count = 0;
	ListCell   *lc;

	foreach(lc, write->target_attrs)
		count += !is_generated(write->rel, lfirst_int(lc));
	return count;
}

char *
rf_insert_sql(const RfRowWrite *write, const RfConflict *conflict, List **retrieved_attrs)
{
	Relation	rel = write->rel;
	List	   *target_attrs = write->target_attrs;
	StringInfoData buf;
	ListCell   *lc;
	int			param = 0;

	initStringInfo(&buf);
	appendStringInfo(&buf, "INSERT INTO %s%s", rf_remote_relation_name(write->opts),
					 conflict && conflict->columns ? " AS t" : "");
	foreach(lc, target_attrs)
		appendStringInfo(&buf, "%s%s", lc == list_head(target_attrs) ? "(" : ", ",
						 quote_identifier(rf_column_name(RelationGetRelid(rel), lfirst_int(lc))));
	if (target_attrs == NIL)
		appendStringInfoString(&buf, " DEFAULT VALUES");
	else
	{
		appendStringInfoString(&buf, ") VALUES (");
		foreach(lc, target_attrs)
		{
			if (lc != list_head(target_attrs))
				appendStringInfoString(&buf, ", ");
			if (is_generated(rel, lfirst_int(lc)))
				appendStringInfoString(&buf, "DEFAULT");
			else
				appendStringInfo(&buf, "$%d", ++param);
		}
		appendStringInfoChar(&buf, ')');
	}
	if (conflict && conflict->sql)
		appendStringInfoString(&buf, conflict->sql);
	rf_append_returning(&buf, rel, write->rti,
						rel->trigdesc && rel->trigdesc->trig_insert_after_row, write->check_options,
						write->returning, retrieved_attrs);
	return buf.data;
}

/* Parameters that say which row it is: ctid, tableoid, and the columns of its key. */
static int
place_params(const RfRowWrite *write)
{
	return 2 + list_length(write->key);
}

/* For another copy, ctid and tableoid are parameters that have no meaning. */
static void
append_place(StringInfo buf, const RfRowWrite *write)
{
	ListCell   *lc;

	appendStringInfoString(buf, write->copy ?
						   " WHERE $1::tid IS NOT NULL AND $2::oid IS NOT NULL" :
						   " WHERE ctid = $1 AND tableoid = $2");
	foreach(lc, write->key)
	{
		const char *column = quote_identifier(rf_column_name(RelationGetRelid(write->rel),
															 lfirst_int(lc)));
		int			param = foreach_current_index(lc) + 3;

		if (!write->copy)
			appendStringInfo(buf, " AND rdma_internal.is_key(%s, $%d)", column, param);
		else if (TupleDescAttr(RelationGetDescr(write->rel), lfirst_int(lc) - 1)->attnotnull)
			appendStringInfo(buf, " AND %s = $%d", column, param);
		else
			appendStringInfo(buf, " AND (%s = $%d OR %s IS NULL AND $%d IS NULL)", column, param,
							 column, param);
	}
}

/* The first parameters are place_params(). */
static char *
update_sql(const RfRowWrite *write, List **retrieved_attrs)
{
	Relation	rel = write->rel;
	List	   *target_attrs = write->target_attrs;
	StringInfoData buf;
	ListCell   *lc;
	int			param = place_params(write);

	initStringInfo(&buf);
	appendStringInfo(&buf, "UPDATE %s SET ", rf_remote_relation_name(write->opts));
	foreach(lc, target_attrs)
	{
		appendStringInfo(&buf, "%s%s = ", lc == list_head(target_attrs) ? "" : ", ",
						 quote_identifier(rf_column_name(RelationGetRelid(rel), lfirst_int(lc))));
		if (is_generated(rel, lfirst_int(lc)))
			appendStringInfoString(&buf, "DEFAULT");
		else
			appendStringInfo(&buf, "$%d", ++param);
	}
	append_place(&buf, write);
	rf_append_returning(&buf, rel, write->rti,
						rel->trigdesc && rel->trigdesc->trig_update_after_row, write->check_options,
						write->returning, retrieved_attrs);
	return buf.data;
}

static char *
delete_sql(const RfRowWrite *write, List **retrieved_attrs)
{
	Relation	rel = write->rel;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "DELETE FROM %s", rf_remote_relation_name(write->opts));
	append_place(&buf, write);
	rf_append_returning(&buf, rel, write->rti,
						rel->trigdesc && rel->trigdesc->trig_delete_after_row, NIL,
						write->returning, retrieved_attrs);
	return buf.data;
}

/* Columns that an UPDATE assigns, and generated columns that follow from them. */
static List *
updated_columns(PlannerInfo *root, Index rti)
{
	Bitmapset  *updated = get_rel_all_updated_cols(root, find_base_rel(root, rti));
	List	   *columns = NIL;
	int			member = -1;

	while ((member = bms_next_member(updated, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno <= InvalidAttrNumber)
			elog(ERROR, "system-column update is not supported");
		columns = lappend_int(columns, attno);
	}
	return columns;
}

bool
rf_assigns_key(PlannerInfo *root, Index rti, const RfDistribution *distribution)
{
	List	   *columns = updated_columns(root, rti);

	for (int i = 0; distribution != NULL && i < distribution->key_count; i++)
	{
		if (list_member_int(columns, distribution->keys[i]))
			return true;
	}
	return false;
}

/*
 * The statements that take a row from its node and put it on another node. They run after
 * all rows were found, so nobody can be given the nodes' version of the new row.
 */
static void
move_sql(const RfRowWrite *write, RfModifyPlan *plan)
{
	RfRowWrite	insert = {write->rel, write->opts, write->rti, .key = write->key};
	List	   *retrieved = NIL;

	if (write->returning || write->check_options ||
		(write->rel->trigdesc && write->rel->trigdesc->trig_update_after_row))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot update the distribution key of foreign table \"%s\" this way",
						RelationGetRelationName(write->rel)),
				 errdetail("Rows move to other nodes at the end of the statement, too late for "
						   "RETURNING, AFTER triggers here, and check options of views."),
				 errhint("Leave RETURNING out, or delete the rows and insert them again.")));
	insert.target_attrs = rf_all_columns(write->rel);
	plan->move_delete = delete_sql(&insert, &retrieved);
	plan->move_insert = rf_insert_sql(&insert, NULL, &retrieved);
}

List *
rdmaPlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation, int subplan_index)
{
	RangeTblEntry *rte = planner_rt_fetch(resultRelation, root);
	Relation	rel = table_open(rte->relid, NoLock);	/* locked by the planner */
	ForeignTable *table = GetForeignTable(rte->relid);
	RfTableOptions opts;
	RfRowWrite	write = {rel, &opts, resultRelation};
	const RfDistribution *distribution = rf_distribution_of(rel);
	RfModifyPlan *result = rf_make_plan_node(RfModifyPlan);

	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	write.key = row_key(rel, distribution);
	check_distributed_write(rel, plan->operation, distribution, write.key);
	if (plan->withCheckOptionLists)
		write.check_options = (List *) list_nth(plan->withCheckOptionLists, subplan_index);
	if (plan->returningLists)
		write.returning = (List *) list_nth(plan->returningLists, subplan_index);

	switch (plan->operation)
	{
		case CMD_INSERT:
			write.target_attrs = rf_all_columns(rel);
			rf_conflict(root, rel, resultRelation, plan->onConflictAction, insert_params(&write),
						&result->conflict);
			result->sql = rf_insert_sql(&write, &result->conflict, &result->retrieved);
			break;
		case CMD_UPDATE:
			/* a BEFORE trigger may change any column */
			if (rel->trigdesc && rel->trigdesc->trig_update_before_row)
				write.target_attrs = rf_all_columns(rel);
			else
				write.target_attrs = updated_columns(root, resultRelation);
			result->sql = update_sql(&write, &result->retrieved);
			write.copy = true;
			result->copy_sql = update_sql(&write, &result->retrieved);
			break;
		case CMD_DELETE:
			result->sql = delete_sql(&write, &result->retrieved);
			write.copy = true;
			result->copy_sql = delete_sql(&write, &result->retrieved);
			break;
		default:
			elog(ERROR, "unexpected operation: %d", (int) plan->operation);
	}
	/* of values that a trigger assigns, execution finds out */
	write.copy = false;
	if (plan->operation == CMD_UPDATE && rf_assigns_key(root, resultRelation, distribution))
		move_sql(&write, result);
	if (distribution == NULL || distribution->placement != RF_PLACED_EVERYWHERE)
		result->copy_sql = NULL;
	table_close(rel, NoLock);
	result->targets = write.target_attrs;
	result->key = write.key;
	return list_make1(result);
}

int
rdmaIsForeignRelUpdatable(Relation rel)
{
	ForeignTable *table = GetForeignTable(RelationGetRelid(rel));
	RfTableOptions opts;

	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	return opts.updatable ? (1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE) : 0;
}
