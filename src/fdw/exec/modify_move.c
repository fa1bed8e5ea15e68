/*
 * modify_move.c - UPDATE of a distribution key: a row whose new key belongs to another node is
 * deleted on its node and inserted on that one, as PostgreSQL does with rows that change their
 * partition.
 *
 * The statement finds all rows before the first is written. A scan of a node that starts or starts
 * again later would otherwise find rows that have moved there, and update them once more. Rows that
 * leave their node are deleted first, so that keys which they give up are free for others.
 *
 * What refers to a row by a foreign key would follow its deletion, by ON DELETE CASCADE for
 * example, where the user meant an update: nodes whose table is referenced so are refused.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/sql_text.h"

#include "fdw/deparse/deparse.h"
#include "fdw/options/option.h"

#include "modify_state.h"

/* The columns before those that say which row it is, and those of the row. */
enum
{
	MOVE_FROM,
	MOVE_TO,
	MOVE_PLACE
};

struct RfRowMoves
{
	Relation	rel;
	int			row_at;			/* columns before those of the row */
	Tuplestorestate *rows;
	uint64		count;
	TupleTableSlot *kept;		/* a row of the store */
	TupleTableSlot *row;		/* its part that is the table's row */
	Datum	   *values;			/* of a row to be stored */
	bool	   *isnull;
	const char *delete_sql;
	const char *insert_sql;
	List	   *inserted;		/* attributes that are parameters of the INSERT */
	RfValueWriter *delete_writer;
	RfValueWriter *insert_writer;
	RfCommand **deletes;		/* of each node; NULL: not used yet */
	RfCommand **inserts;
	MemoryContext context;
};

RfRowMoves *
rf_row_moves_create(Relation rel, const char *delete_sql, const char *insert_sql, List *place_types)
{
	RfRowMoves *moves = palloc0_object(RfRowMoves);
	TupleDesc	row = RelationGetDescr(rel);
	int			row_at = MOVE_PLACE + list_length(place_types);
	TupleDesc	desc = CreateTemplateTupleDesc(row_at + row->natts);
	List	   *types = NIL;
	ListCell   *lc;

	moves->rel = rel;
	moves->row_at = row_at;
	moves->context = CurrentMemoryContext;
	moves->delete_sql = delete_sql;
	moves->insert_sql = insert_sql;
	TupleDescInitEntry(desc, MOVE_FROM + 1, "from", INT4OID, -1, 0);
	TupleDescInitEntry(desc, MOVE_TO + 1, "to", INT4OID, -1, 0);
	foreach(lc, place_types)
		TupleDescInitEntry(desc, MOVE_PLACE + foreach_current_index(lc) + 1, "place",
						   lfirst_oid(lc), -1, 0);
	for (int i = 1; i <= row->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(row, i - 1);

		TupleDescCopyEntry(desc, row_at + i, row, i);
		/* the data node computes generated columns */
		if (att->attisdropped || att->attgenerated != '\0')
			continue;
		moves->inserted = lappend_int(moves->inserted, i);
		types = lappend_oid(types, att->atttypid);
	}
	rf_tupdesc_finish(desc);
	moves->kept = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	moves->row = MakeSingleTupleTableSlot(row, &TTSOpsVirtual);
	moves->values = palloc_array(Datum, desc->natts);
	moves->isnull = palloc0_array(bool, desc->natts);
	moves->rows = tuplestore_begin_heap(false, false, work_mem);
	moves->delete_writer = rf_value_writer_create(place_types);
	moves->insert_writer = rf_value_writer_create(types);
	return moves;
}

void
rf_row_moves_add(ModifyState *state, int from, int to, TupleTableSlot *row)
{
	RfRowMoves *moves = state->moves;
	TupleDesc	desc = moves->kept->tts_tupleDescriptor;

	slot_getallattrs(row);
	moves->values[MOVE_FROM] = Int32GetDatum(from);
	moves->values[MOVE_TO] = Int32GetDatum(to);
	memcpy(moves->values + MOVE_PLACE, state->values, sizeof(Datum) * state->place_count);
	memcpy(moves->isnull + MOVE_PLACE, state->isnull, sizeof(bool) * state->place_count);
	memcpy(moves->values + moves->row_at, row->tts_values,
		   sizeof(Datum) * (desc->natts - moves->row_at));
	memcpy(moves->isnull + moves->row_at, row->tts_isnull,
		   sizeof(bool) * (desc->natts - moves->row_at));
	tuplestore_putvalues(moves->rows, desc, moves->values, moves->isnull);
	moves->count++;
}

/* The next row of the store, and in moves->row the table's. False: there is none. */
static bool
next_row(RfRowMoves *moves, Tuplestorestate *rows)
{
	if (!tuplestore_gettupleslot(rows, true, false, moves->kept))
		return false;
	slot_getallattrs(moves->kept);
	ExecClearTuple(moves->row);
	memcpy(moves->row->tts_values, moves->kept->tts_values + moves->row_at,
		   sizeof(Datum) * moves->row->tts_tupleDescriptor->natts);
	memcpy(moves->row->tts_isnull, moves->kept->tts_isnull + moves->row_at,
		   sizeof(bool) * moves->row->tts_tupleDescriptor->natts);
	ExecStoreVirtualTuple(moves->row);
	return true;
}

static int
place(const RfRowMoves *moves, int column)
{
	return DatumGetInt32(moves->kept->tts_values[column]);
}

/* A command of one node. */
static RfCommand *
command(RfRowMoves *moves, RfCommand **commands, int i, ModifyTarget *target, const char *sql,
		int param_count)
{
	MemoryContext caller;

	if (commands[i] == NULL)
	{
		caller = MemoryContextSwitchTo(moves->context);
		commands[i] = rf_command_create(target->session, sql, param_count, true);
		if (commands == moves->deletes)
			rf_modify_lock_first(moves->rel, commands[i], true);
		MemoryContextSwitchTo(caller);
	}
	return commands[i];
}

/* Rows that it wrote. */
static int
execute(RfCommand *command, const char *const *values)
{
	PGresult   *result = rf_command_execute(command, values);
	int			rows = atoi(PQcmdTuples(result));

	PQclear(result);
	return rows;
}

/* ERROR if the deletion of a row on the node would do something to rows of other tables. */
static void
check_references(const RfRowMoves *moves, ModifyTarget *target)
{
	ForeignTable *table = GetForeignTable(RelationGetRelid(moves->rel));
	RfTableOptions opts;
	PGresult   *result;
	char	   *name;
	char	   *sql;
	char	   *constraint = NULL;

	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	name = quote_literal_cstr(rf_remote_relation_name(&opts));
	sql = psprintf("SELECT c.conname, c.conrelid::pg_catalog.regclass"
				   " FROM pg_catalog.pg_constraint c"
				   " WHERE c.contype = 'f' AND c.confdeltype IN ('c', 'n', 'd')"
				   " AND (c.confrelid = %s::pg_catalog.regclass OR c.confrelid IN"
				   " (SELECT p.relid FROM pg_catalog.pg_partition_tree(%s::pg_catalog.regclass) p))"
				   " LIMIT 1",
				   name, name);
	result = rf_session_ask(target->session, sql, 2, 0, 1);
	if (PQntuples(result) > 0)
		constraint = psprintf("Constraint \"%s\" of table %s",
							  rf_message_text(PQgetvalue(result, 0, 0)),
							  rf_message_text(PQgetvalue(result, 0, 1)));
	PQclear(result);
	if (constraint)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot move rows of foreign table \"%s\" to another node",
						RelationGetRelationName(moves->rel)),
				 errdetail("%s on server \"%s\" refers to them, with an ON DELETE action: their "
						   "deletion would not be an update to it.",
						   constraint,
						   GetForeignServer(target->user->serverid)->servername),
				 errhint("Insert the rows with their new keys, change what refers to them, then "
						 "delete the old ones.")));
}

/* Deletes on their nodes what moves; the rest goes to the rows that it returns. */
static Tuplestorestate *
delete_moving(ModifyState *state)
{
	RfRowMoves *moves = state->moves;
	Tuplestorestate *found = tuplestore_begin_heap(false, false, work_mem);

	while (next_row(moves, moves->rows))
	{
		int			from = place(moves, MOVE_FROM);

		if (from != place(moves, MOVE_TO))
		{
			ModifyTarget *target = rf_modify_target(state, from);
			int			rows;

			if (moves->deletes[from] == NULL)
				check_references(moves, target);
			rows = execute(command(moves, moves->deletes, from, target, moves->delete_sql,
								   state->place_count),
						   rf_write_values(moves->delete_writer,
										   moves->kept->tts_values + MOVE_PLACE,
										   moves->kept->tts_isnull + MOVE_PLACE));
			if (rows > 1)
				rf_modify_ambiguous(moves->rel, rows, InvalidOid);
			if (rows == 0)
				continue;
		}
		tuplestore_puttupleslot(found, moves->kept);
	}
	return found;
}

/* Writes the new version of a row on the node that it now belongs to. */
static void
insert_moved(ModifyState *state, Datum *values, bool *isnull)
{
	RfRowMoves *moves = state->moves;
	int			to = place(moves, MOVE_TO);
	ModifyTarget *target = rf_modify_target(state, to);
	int			i = 0;
	ListCell   *lc;

	foreach(lc, moves->inserted)
	{
		values[i] = slot_getattr(moves->row, lfirst_int(lc), &isnull[i]);
		i++;
	}
	if (execute(command(moves, moves->inserts, to, target, moves->insert_sql, i),
				rf_write_values(moves->insert_writer, values, isnull)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a row of foreign table \"%s\" was not taken by the node that it moves to",
						RelationGetRelationName(moves->rel)),
				 errdetail("A trigger or rule on server \"%s\" left it out.",
						   GetForeignServer(target->user->serverid)->servername)));
}

uint64
rf_row_moves_finish(ModifyState *state, uint64 *rows)
{
	RfRowMoves *moves = state->moves;
	MemoryContext caller = MemoryContextSwitchTo(moves->context);
	Datum	   *values = palloc_array(Datum, list_length(moves->inserted) + 1);
	bool	   *isnull = palloc_array(bool, list_length(moves->inserted) + 1);
	Tuplestorestate *found;
	uint64		written = 0;

	*rows = moves->count;
	if (moves->deletes == NULL)
	{
		moves->deletes = palloc0_array(RfCommand *, state->target_count);
		moves->inserts = palloc0_array(RfCommand *, state->target_count);
	}
	found = delete_moving(state);
	while (next_row(moves, found))
	{
		int			from = place(moves, MOVE_FROM);
		int			here = 1;

		CHECK_FOR_INTERRUPTS();
		if (from != place(moves, MOVE_TO))
			insert_moved(state, values, isnull);
		else
		{
			memcpy(state->values, moves->kept->tts_values + MOVE_PLACE,
				   sizeof(Datum) * state->place_count);
			memcpy(state->isnull, moves->kept->tts_isnull + MOVE_PLACE,
				   sizeof(bool) * state->place_count);
			rf_modify_take_values(state, moves->row, state->place_count);
			here = rf_modify_execute(state, rf_modify_target(state, from), NULL);
			if (here > 1)
				rf_modify_ambiguous(moves->rel, here, InvalidOid);
		}
		written += here;
	}
	ExecClearTuple(moves->row);
	ExecClearTuple(moves->kept);
	tuplestore_end(found);
	tuplestore_clear(moves->rows);
	moves->count = 0;
	pfree(values);
	pfree(isnull);
	MemoryContextSwitchTo(caller);
	return written;
}

void
rf_row_moves_end(RfRowMoves *moves)
{
	tuplestore_end(moves->rows);
	ExecDropSingleTupleTableSlot(moves->kept);
	ExecDropSingleTupleTableSlot(moves->row);
}
