/*
 * modify_target.c - where the rows of a written foreign table go: its data nodes, the sessions,
 * commands and loads that write there, and the node of a key.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "libpq-fe.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"

#include "fdw/deparse/deparse.h"
#include "fdw/plan/plan.h"

#include "modify_state.h"

void
rf_modify_find_targets(ModifyState *state, ResultRelInfo *result_rel)
{
	ForeignTable *table = GetForeignTable(RelationGetRelid(state->rel));
	Oid			userid = rf_modify_userid(result_rel, state->estate);
	List	   *nodes = rf_server_nodes(GetForeignServer(table->serverid));
	ListCell   *lc;

	if (nodes == NIL)
		nodes = list_make1_oid(table->serverid);
	else
	{
		state->distribution = rf_table_distribution(RelationGetRelid(state->rel));
		/* a random start, so that many small statements fill all nodes evenly */
		state->turn = pg_prng_uint32(&pg_global_prng_state);
		if (state->distribution->placement == RF_PLACED_BY_HASH)
		{
			RfDistribution *distribution = state->distribution;

			state->route = rf_route_create(distribution->key_count, distribution->types,
										   distribution->collations);
			state->buckets = rf_server_buckets(GetForeignServer(table->serverid));
			state->key_values = palloc0_array(Datum, distribution->key_count);
			state->key_isnull = palloc0_array(bool, distribution->key_count);
		}
	}
	state->target_count = list_length(nodes);
	state->targets = palloc0_array(ModifyTarget, state->target_count);
	foreach(lc, nodes)
		state->targets[foreach_current_index(lc)].user = rf_user_mapping(userid, lfirst_oid(lc));
}

void
rf_modify_lock_first(Relation rel, RfCommand *command, bool delete)
{
	ForeignTable *table = GetForeignTable(RelationGetRelid(rel));
	RfTableOptions opts;

	rf_table_options(table, GetForeignServer(table->serverid), &opts);
	rf_command_precede(command,
					   psprintf("SELECT rdma_internal.lock_row(%s, $2, $1, %s)",
								quote_literal_cstr(rf_remote_relation_name(&opts)),
								delete ? "true" : "false"),
					   2);
}

void
rf_modify_create_command(ModifyState *state, ModifyTarget *target)
{
	MemoryContext caller = MemoryContextSwitchTo(state->context);

	bool		copy = state->copy_sql != NULL && target != &state->targets[0];

	target->command = rf_command_create(target->session, copy ? state->copy_sql : state->sql,
										state->param_count, true);
	if (state->distribution != NULL && state->place_count > 0 && !copy)
		rf_modify_lock_first(state->rel, target->command, state->attrs == NIL);
	MemoryContextSwitchTo(caller);
}

/*
 * With the first node that a row goes to, and those whose transactions must begin together with
 * that one's.
 */
static void
begin_statement(ModifyState *state, const ModifyTarget *target)
{
	bool		all = rf_statement_wants_all() || state->copy_sql != NULL;
	List	   *users = NIL;

	if (state->statement != 0)
		return;
	for (int i = 0; i < state->target_count; i++)
	{
		if (all || &state->targets[i] == target)
			users = lappend(users, state->targets[i].user);
	}
	state->statement = rf_statement_begin(users, NIL, rf_scan_open_statements());
	list_free(users);
}

static void
open_session(ModifyState *state, ModifyTarget *target)
{
	begin_statement(state, target);
	target->session = rf_node_session(state->statement, target->user,
									  GetForeignTable(RelationGetRelid(state->rel))->serverid);
}

/* Creates one load for `count` targets, and stores it in the first of them. */
static void
create_load(ModifyState *state, ModifyTarget *targets, int count)
{
	RfLoadSpec	spec = *state->load_spec;
	RfSession **sessions = palloc_array(RfSession *, count);

	for (int i = 0; i < count; i++)
	{
		if (targets[i].session == NULL)
			open_session(state, &targets[i]);
		sessions[i] = targets[i].session;
	}
	if (state->copy)
	{
		spec.failed = rf_copy_failed;
		spec.owner = targets->lines = rf_copy_lines_create();
	}
	targets->load = rf_load_create(sessions, count, &spec);
	pfree(sessions);
}

ModifyTarget *
rf_modify_target(ModifyState *state, int i)
{
	ModifyTarget *target = &state->targets[i];

	if (unlikely(target->load == NULL && target->command == NULL))
	{
		MemoryContext caller = MemoryContextSwitchTo(state->context);
		bool		copies = rf_modify_is_replicated(state);

		if (target->session == NULL)
			open_session(state, target);
		if (state->load_spec && (i == 0 || !copies))
			create_load(state, target, copies ? state->target_count : 1);
		else
			rf_modify_create_command(state, target);
		MemoryContextSwitchTo(caller);
	}
	return target;
}

int
rf_modify_place_of_key(ModifyState *state)
{
	MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(state->estate));
	uint64		hash = rf_route_hash(state->route, state->key_values, state->key_isnull);

	MemoryContextSwitchTo(caller);
	return rf_bucket_place(state->buckets, hash);
}

int
rf_modify_place_of_row(ModifyState *state, TupleTableSlot *slot)
{
	RfDistribution *distribution = state->distribution;

	for (int i = 0; i < distribution->key_count; i++)
		state->key_values[i] = slot_getattr(slot, distribution->keys[i], &state->key_isnull[i]);
	return rf_modify_place_of_key(state);
}

void
rf_modify_take_values(ModifyState *state, TupleTableSlot *slot, int at)
{
	ListCell   *lc;

	foreach(lc, state->attrs)
	{
		state->values[at] = slot_getattr(slot, lfirst_int(lc), &state->isnull[at]);
		at++;
	}
}

/* The number of rows that it tells of; the first goes into the slot, if it is returned. */
static int
read_rows(ModifyState *state, PGresult *result, TupleTableSlot *slot)
{
	int			rows;

	if (!state->has_returning)
		return atoi(PQcmdTuples(result));
	rows = PQntuples(result);
	if (rows > 0 && slot)
		rf_read_result(state->reader, result, 0, slot);
	return rows;
}

int
rf_modify_execute(ModifyState *state, ModifyTarget *target, TupleTableSlot *slot)
{
	PGresult   *volatile result;
	volatile int rows = 0;

	result = rf_command_execute(target->command,
								rf_write_values(state->writer, state->values, state->isnull));
	PG_TRY();
	{
		rows = read_rows(state, result, slot);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();
	return rows;
}

void
rf_modify_execute_others(ModifyState *state, TupleTableSlot *slot, int *rows)
{
	int			count = state->target_count - 1;
	RfCommand **commands = palloc_array(RfCommand *, count);
	PGresult  **results = palloc_array(PGresult *, count);

	for (int i = 0; i < count; i++)
		commands[i] = rf_modify_target(state, i + 1)->command;
	rf_commands_execute(commands, count,
						rf_write_values(state->writer, state->values, state->isnull), results);
	PG_TRY();
	{
		for (int i = 0; i < count; i++)
			rows[i + 1] = read_rows(state, results[i], i == count - 1 ? slot : NULL);
	}
	PG_FINALLY();
	{
		for (int i = 0; i < count; i++)
			PQclear(results[i]);
	}
	PG_END_TRY();
	pfree(commands);
	pfree(results);
}

/*
 * A row of the data node is identified by tableoid and ctid. That is one row, but of a foreign
 * table there that itself stands for several tables. The statement has written other rows as well.
 */
void
rf_modify_ambiguous(Relation rel, int rows, Oid copy)
{
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 errmsg("a row of foreign table \"%s\" cannot be told from others",
					RelationGetRelationName(rel)),
			 OidIsValid(copy) ?
			 errdetail("%d rows of server \"%s\" are like it.", rows,
					   GetForeignServer(copy)->servername) :
			 errdetail("It is in a foreign table of the data node, and %d rows of that are at the "
					   "same place (ctid).",
					   rows),
			 OidIsValid(copy) ?
			 errhint("Give the table a primary key on its nodes, and ANALYZE it.") :
			 errhint("Write a statement whose conditions the data node can evaluate.")));
}
