/*
 * analyze.c
 * 		ANALYZE of a foreign table: fetches a sample of the remote rows.
 *
 * The data node reduces the sample where possible, so that a large table does not cross the wire
 * for thirty thousand rows. It comes by libpq through a cursor: the rows are few, and are needed as
 * heap tuples, not as column batches.
 *
 * For a table of a server with nodes each node supplies its share of the sample; for a replicated
 * one the first node supplies all.
 *
 * With analyze_sampling 'import' no rows are fetched, only the results of the data node's own
 * ANALYZE. In any case the list of the table's indexes is fetched.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "foreign/fdwapi.h"
#include "funcapi.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/sampling.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/sql_text.h"

#include "fdw/deparse/deparse.h"
#include "remote/placement.h"

#include "catalog.h"

#define SAMPLE_CURSOR	"rdma_fdw_sample"
#define SAMPLE_FETCH	10000

/* Request this much more than needed, so that random sampling seldom returns too few rows. */
#define SAMPLE_MARGIN	1.1

/* Pages and rows that a table may be said to have */
#define MOST_OF_ALL		1e18

typedef struct RemoteSize
{
	char		relkind;
	double		pages;
	double		tuples;			/* 0: the data node does not know it */
} RemoteSize;

typedef struct SampleState
{
	Relation	relation;
	AttInMetadata *in;
	int			depends;		/* RF_TEXT_*, of any column's text */
	Form_pg_attribute current;	/* the column being converted, for the error context */
	List	   *attnums;		/* of the remote columns, in order */
	Datum	   *values;
	bool	   *isnull;
	HeapTuple  *rows;
	int			targrows;
	int			numrows;
	double		rowsseen;
	double		rowstoskip;
	ReservoirStateData reservoir;
	MemoryContext row_context;	/* for the values of one row */
	MemoryContext tuple_context;	/* holds the sample */
} SampleState;

/* The sessions on all nodes that store different rows, as a List of pointers. */
static List *
open_sessions(Relation relation, RfTableOptions *opts)
{
	ForeignTable *table = GetForeignTable(RelationGetRelid(relation));
	ForeignServer *server = GetForeignServer(table->serverid);
	List	   *nodes = rf_server_nodes(server);
	List	   *sessions = NIL;
	UserMapping *user = NULL;
	ListCell   *lc;

	rf_placement_use(server->serverid);
	rf_table_options(table, server, opts);
	if (nodes == NIL)
		nodes = list_make1_oid(server->serverid);
	else if (rf_table_distribution(RelationGetRelid(relation))->placement == RF_PLACED_EVERYWHERE)
		return list_make1(rf_session_get_any(0, relation->rd_rel->relowner, nodes, &user));

	/* With the rights of the table's owner: anyone may run ANALYZE, autovacuum included. */
	foreach(lc, nodes)
		sessions = lappend(
						   sessions,
						   rf_node_session(0,
										   rf_user_mapping(relation->rd_rel->relowner,
														   lfirst_oid(lc)),
										   server->serverid));
	return sessions;
}

/* A relation with children is one table to us, so the sizes of the children count, too. */
static RemoteSize
ask_node_size(RfSession *session, const RfTableOptions *opts)
{
	RemoteSize	size = {0};
	PGresult   *volatile result = NULL;
	StringInfoData sql;
	char	   *name = quote_literal_cstr(rf_remote_relation_name(opts));

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "WITH RECURSIVE tree(oid) AS (SELECT %s::regclass::oid"
					 " UNION SELECT i.inhrelid FROM pg_inherits i, tree WHERE i.inhparent = "
					 "tree.oid)"
					 " SELECT (SELECT relkind FROM pg_class WHERE oid = %s::regclass),"
					 " sum(pg_relation_size(c.oid)) / current_setting('block_size')::int8,"
					 " CASE WHEN min(c.reltuples) FILTER (WHERE c.relkind <> 'p') >= 0"
					 " THEN sum(c.reltuples) FILTER (WHERE c.relkind <> 'p') ELSE 0 END"
					 " FROM tree JOIN pg_class c USING (oid)",
					 name, name);

	PG_TRY();
	{
		result = rf_session_ask(session, sql.data, 3, 1, 1);
		size.relkind = PQgetvalue(result, 0, 0)[0];
		if ((!PQgetisnull(result, 0, 1) &&
			 !rf_answer_double(result, 0, 1, 0, MOST_OF_ALL, &size.pages)) ||
			(!PQgetisnull(result, 0, 2) &&
			 !rf_answer_double(result, 0, 2, 0, MOST_OF_ALL, &size.tuples)))
			rf_session_bad_answer(session, NULL, sql.data);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();

	return size;
}

/* The total of all nodes. The number of rows is known only if all of them know theirs. */
static RemoteSize
ask_size(List *sessions, const RfTableOptions *opts)
{
	RemoteSize	sum = {0};
	bool		known = true;
	ListCell   *lc;

	foreach(lc, sessions)
	{
		RemoteSize	size = ask_node_size((RfSession *) lfirst(lc), opts);

		sum.relkind = size.relkind;
		sum.pages += size.pages;
		sum.tuples += size.tuples;
		/* a node with an empty table knows its number of rows, too */
		known = known && (size.tuples > 0 || size.pages == 0);
	}
	if (!known)
		sum.tuples = 0;
	return sum;
}

/*
 * Appends the sampling clause, and returns the fraction of the rows that is needed; 1 means all.
 * TABLESAMPLE needs a relation with storage, and a fraction needs a known number of rows.
 */
static double
append_sampling(StringInfo sql, const char *method, char relkind, double tuples, int targrows)
{
	bool		has_storage = relkind == 'r' || relkind == 'm' || relkind == 'p';
	double		fraction;

	/* where import is impossible a sample is drawn, as by default */
	if (strcmp(method, "off") == 0 || tuples <= 0)
		return 1;
	fraction = targrows * SAMPLE_MARGIN / tuples;
	if (fraction >= 0.95)
		return 1;

	if (strcmp(method, "random") == 0 || !has_storage)
		appendStringInfo(sql, " WHERE pg_catalog.random() < %g", fraction);
	else
		appendStringInfo(sql, " TABLESAMPLE %s(%g)",
						 strcmp(method, "system") == 0 ? "SYSTEM" : "BERNOULLI", fraction * 100);
	return fraction;
}

static void
conversion_error_context(void *arg)
{
	SampleState *state = arg;

	errcontext("column \"%s\" of foreign table \"%s\"", NameStr(state->current->attname),
			   RelationGetRelationName(state->relation));
}

/*
 * Makes a tuple of the sample from a row of text, under settings in which text means the same on
 * both nodes. Input functions see NULLs, too, as domains may reject them.
 */
static HeapTuple
make_tuple(SampleState *state, PGresult *result, int row)
{
	MemoryContext old = MemoryContextSwitchTo(state->row_context);
	TupleDesc	desc = state->in->tupdesc;
	ErrorContextCallback callback = {error_context_stack, conversion_error_context, state};
	HeapTuple	tuple;
	ListCell   *lc;
	int			nestlevel = rf_neutral_settings(state->depends);

	error_context_stack = &callback;
	memset(state->isnull, true, desc->natts * sizeof(bool));
	foreach(lc, state->attnums)
	{
		int			i = lfirst_int(lc) - 1;
		int			col = foreach_current_index(lc);
		char	   *value = PQgetisnull(result, row, col) ? NULL : PQgetvalue(result, row, col);

		state->current = TupleDescAttr(desc, i);
		/* NULLs, too: a domain may reject them */
		state->values[i] = InputFunctionCall(&state->in->attinfuncs[i], value,
											 state->in->attioparams[i],
											 state->in->atttypmods[i]);
		state->isnull[i] = value == NULL;
	}
	error_context_stack = callback.previous;
	AtEOXact_GUC(true, nestlevel);

	MemoryContextSwitchTo(state->tuple_context);
	tuple = heap_form_tuple(desc, state->values, state->isnull);
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->row_context);
	return tuple;
}

/* Vitter's algorithm: every row seen so far has the same chance to be in the sample. */
static void
take_row(SampleState *state, PGresult *result, int row)
{
	int			pos = -1;

	if (state->numrows < state->targrows)
		pos = state->numrows++;
	else
	{
		if (state->rowstoskip < 0)
			state->rowstoskip = reservoir_get_next_S(&state->reservoir, state->rowsseen,
													 state->targrows);
		if (state->rowstoskip <= 0)
		{
			pos = (int) (state->targrows * sampler_random_fract(&state->reservoir.randstate));
			heap_freetuple(state->rows[pos]);
			state->rows[pos] = NULL;
		}
		state->rowstoskip -= 1;
	}

	if (pos >= 0)
		state->rows[pos] = make_tuple(state, result, row);
	state->rowsseen += 1;
}

/* Fetches the next rows into the sample; false at the end. */
static bool
fetch_some(RfSession *session, SampleState *state)
{
	char	   *sql = psprintf("FETCH %d FROM " SAMPLE_CURSOR, SAMPLE_FETCH);
	PGresult   *result = rf_session_ask(session, sql,
										list_length(state->attnums), 0, SAMPLE_FETCH);
	volatile int n = 0;

	PG_TRY();
	{
		n = PQntuples(result);
		for (int row = 0; row < n; row++)
			take_row(state, result, row);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();

	return n == SAMPLE_FETCH;
}

static void
fetch_rows(RfSession *session, SampleState *state, const char *sql)
{
	PQclear(rf_session_query(session, psprintf("DECLARE " SAMPLE_CURSOR " CURSOR FOR %s", sql)));
	while (fetch_some(session, state))
		CHECK_FOR_INTERRUPTS();
	PQclear(rf_session_query(session, "CLOSE " SAMPLE_CURSOR));
}

/*
 * ANALYZE does not change the catalog when it gets no rows, so imported statistics stay. The
 * statistics of a parent need the rows of its children. Core does not pass the purpose of the call,
 * but reports it as progress.
 */
static bool
rows_are_not_needed(Relation relation)
{
	return !relation->rd_rel->relhassubclass && MyBEEntry != NULL && pgstat_track_activities &&
		MyBEEntry->st_progress_command == PROGRESS_COMMAND_ANALYZE &&
		MyBEEntry->st_progress_command_target == RelationGetRelid(relation);
}

/*
 * ANALYZE's sample: imports the node's own statistics where that is wanted and enough, and
 * otherwise reads a random sample from each node, of a size in proportion to the node's rows.
 */
static int
acquire_sample_rows(Relation relation, int elevel, HeapTuple *rows, int targrows,
					double *totalrows, double *totaldeadrows)
{
	TupleDesc	desc = RelationGetDescr(relation);
	RfTableOptions opts;
	List	   *sessions = open_sessions(relation, &opts);
	RemoteSize	size = ask_size(sessions, &opts);
	SampleState state = {0};
	StringInfoData sql;
	double	   *node_rows = palloc0(list_length(sessions) * sizeof(double));
	double		fraction;
	ListCell   *lc;

	if (strcmp(opts.analyze_sampling, "import") == 0 && list_length(sessions) == 1 &&
		rows_are_not_needed(relation))
	{
		int			columns;

		rf_import_indexes(relation, linitial(sessions), &opts, NULL, 0);
		columns = rf_import_statistics(relation, linitial(sessions), &opts);
		if (columns > 0)
		{
			ereport(elevel,
					(errmsg("\"%s\": table contains %.0f rows, "
							"statistics of %d columns were imported",
							RelationGetRelationName(relation), size.tuples, columns)));
			*totalrows = size.tuples;
			*totaldeadrows = 0;
			return 0;
		}
	}

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT");
	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attisdropped)
			continue;
		appendStringInfo(&sql, "%s%s", state.attnums == NIL ? " " : ", ",
						 quote_identifier(rf_column_name(RelationGetRelid(relation), i + 1)));
		state.attnums = lappend_int(state.attnums, i + 1);
	}
	appendStringInfo(&sql, " FROM %s", rf_remote_relation_name(&opts));
	fraction = append_sampling(&sql, opts.analyze_sampling, size.relkind, size.tuples, targrows);

	state.relation = relation;
	state.in = TupleDescGetAttInMetadata(desc);
	state.depends = rf_row_text_depends(desc) & ~RF_TEXT_NAMES;
	state.values = palloc0(desc->natts * sizeof(Datum));
	state.isnull = palloc0(desc->natts * sizeof(bool));
	state.rows = rows;
	state.targrows = targrows;
	state.rowstoskip = -1;
	state.tuple_context = CurrentMemoryContext;
	state.row_context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw sample row",
											  ALLOCSET_SMALL_SIZES);
	reservoir_init_selection_state(&state.reservoir, targrows);

	foreach(lc, sessions)
	{
		double		before = state.rowsseen;

		fetch_rows((RfSession *) lfirst(lc), &state, sql.data);
		node_rows[foreach_current_index(lc)] = state.rowsseen - before;
	}
	MemoryContextDelete(state.row_context);
	rf_import_indexes(relation, linitial(sessions), &opts, node_rows, list_length(sessions));

	/* The sample tells more than the data node's statistics, which may be old. */
	*totalrows = rint(state.rowsseen / fraction);
	*totaldeadrows = 0;

	ereport(elevel,
			(errmsg("\"%s\": table contains %.0f rows, %d rows in sample",
					RelationGetRelationName(relation), *totalrows, state.numrows)));
	return state.numrows;
}

bool
rdmaAnalyzeForeignTable(Relation relation, AcquireSampleRowsFunc *func, BlockNumber *totalpages)
{
	RfTableOptions opts;
	RemoteSize	size = ask_size(open_sessions(relation, &opts), &opts);

	*func = acquire_sample_rows;
	*totalpages = (BlockNumber) Min(size.pages, (double) MaxBlockNumber);
	return true;
}

/*
 * rdma.import_statistics(relation): imports them without ANALYZE. Returns the number of columns
 * with statistics.
 */
PG_FUNCTION_INFO_V1(rdma_import_statistics);

/*
 * rdma.import_statistics(table): stores the node's statistics of the table here, without reading
 * rows, with the rights of the table's owner as ANALYZE does.
 */
Datum
rdma_import_statistics(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	relation;
	RfTableOptions opts;
	List	   *sessions;
	RemoteSize	size;
	int			columns;
	RfRole		before;

	/* before the lock, which is ANALYZE's */
	if (!rf_may_analyze(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(relid));
	relation = table_open(relid, ShareUpdateExclusiveLock);
	if (relation->rd_rel->relkind != RELKIND_FOREIGN_TABLE ||
		GetFdwRoutineForRelation(relation, false)->AnalyzeForeignTable != rdmaAnalyzeForeignTable)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a foreign table of rdma_fdw",
						RelationGetRelationName(relation))));

	/*
	 * As in ANALYZE: the owner chose types and their checks, which must not run with the rights,
	 * the settings or the search_path of another caller. An error restores all three at the end of
	 * the (sub)transaction.
	 */
	rf_role_begin(&before, relation->rd_rel->relowner);
	sessions = open_sessions(relation, &opts);
	if (list_length(sessions) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("statistics of foreign table \"%s\" cannot be imported",
						RelationGetRelationName(relation)),
				 errdetail("Its rows lie on several nodes, each of which has statistics of its "
						   "own rows."),
				 errhint("Use ANALYZE.")));
	size = ask_size(sessions, &opts);
	rf_import_indexes(relation, linitial(sessions), &opts, NULL, 0);
	columns = rf_import_statistics(relation, linitial(sessions), &opts);
	if (columns == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("remote table %s has no statistics", rf_remote_relation_name(&opts)),
				 errhint("Run ANALYZE on the remote server, as a user who may read the table.")));
	rf_update_relstats(relation, (BlockNumber) Min(size.pages, (double) MaxBlockNumber),
					   size.tuples);
	rf_role_end(&before);
	table_close(relation, NoLock);
	PG_RETURN_INT32(columns);
}
