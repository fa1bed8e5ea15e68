/*
 * copy.c - COPY FROM into a foreign table, beyond rows routed to it (modify.c): its count, and the
 * input line of a data node's error.
 *
 * COPY counts every row that it hands over. The number of rows that the data node drops is known
 * only when a load is finished, and is then subtracted from the command's tag. Rows that travel in
 * batches are also refused later than they are read; the line of each row is kept until then.
 */
#include "postgres.h"

#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "tcop/utility.h"

#include "rdma_fdw/compat.h"

#include "exec.h"

/* Per load: with more changes than this, the older half of them is dropped. */
#define MAX_RUNS	(1 << 20)

/* From this row on, each row came from the line after that of the row before. */
typedef struct LineRun
{
	uint64		row;			/* from 1 */
	uint64		line;
} LineRun;

struct RfCopyLines
{
	CopyFromState copy;			/* NULL: not known before the first row */
	LineRun    *runs;
	int			count;
	int			room;
};

static ProcessUtility_hook_type previous_process_utility = NULL;

/* For the innermost COPY FROM: rows that the data nodes dropped. NULL: no such COPY runs. */
static uint64 *dropped = NULL;

/* The COPY FROM whose current line is set to the row of an error. */
static CopyFromState located = NULL;

/* What runs without this hook. */
static void
run_utility(PlannedStmt *statement, const char *query, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
			DestReceiver *dest, QueryCompletion *completion)
{
	if (previous_process_utility)
		previous_process_utility(statement, query, read_only_tree, context, params, environment,
								 dest, completion);
	else
		standard_ProcessUtility(statement, query, read_only_tree, context, params, environment,
								dest, completion);
}

static void
process_utility(PlannedStmt *statement, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
				DestReceiver *dest, QueryCompletion *completion)
{
	uint64	   *outer = dropped;
	uint64		here = 0;

	if (!IsA(statement->utilityStmt, CopyStmt) ||
		!castNode(CopyStmt, statement->utilityStmt)->is_from)
	{
		run_utility(statement, query, read_only_tree, context, params, environment, dest,
					completion);
		return;
	}
	dropped = &here;
	PG_TRY();
	{
		run_utility(statement, query, read_only_tree, context, params, environment, dest,
					completion);
	}
	PG_FINALLY();
	{
		dropped = outer;
		located = NULL;
	}
	PG_END_TRY();
	if (completion)
		completion->nprocessed -= Min(here, completion->nprocessed);
}

void
rf_copy_install_hook(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

bool
rf_copy_counts(void)
{
	return dropped != NULL;
}

void
rf_copy_drop(uint64 rows)
{
	if (dropped)
		*dropped += rows;
}

RfCopyLines *
rf_copy_lines_create(void)
{
	return palloc0(sizeof(RfCopyLines));
}

/* Finds the CopyFromState through COPY's own error context. */
static CopyFromState
find_copy(void)
{
	for (ErrorContextCallback *context = error_context_stack; context; context = context->previous)
	{
		if (context->callback == CopyFromErrorCallback)
			return (CopyFromState) context->arg;
	}
	return NULL;
}

static void
add_run(RfCopyLines *lines, uint64 row, uint64 line)
{
	if (lines->runs != NULL && lines->count == MAX_RUNS)
	{
		lines->count /= 2;
		memmove(lines->runs, lines->runs + lines->count, sizeof(LineRun) * lines->count);
	}
	if (lines->runs == NULL)
	{
		lines->room = 8;
		lines->runs = MemoryContextAlloc(GetMemoryChunkContext(lines),
										 sizeof(LineRun) * lines->room);
	}
	else if (lines->count == lines->room)
	{
		lines->room *= 2;
		lines->runs = repalloc(lines->runs, sizeof(LineRun) * lines->room);
	}
	lines->runs[lines->count].row = row;
	lines->runs[lines->count++].line = line;
}

void
rf_copy_line(RfCopyLines *lines, uint64 row)
{
	const LineRun *last = lines->count > 0 ? &lines->runs[lines->count - 1] : NULL;
	uint64		line;

	if (unlikely(lines->copy == NULL))
	{
		lines->copy = find_copy();
		if (lines->copy == NULL)
			return;
	}
	line = lines->copy->cur_lineno;
	if (last == NULL || line - last->line != row - last->row)
		add_run(lines, row, line);
}

void
rf_copy_failed(void *owner, uint64 row)
{
	RfCopyLines *lines = owner;

	for (int i = lines->count - 1; i >= 0; i--)
	{
		if (lines->runs[i].row > row)
			continue;

		/* as COPY itself does for rows that it buffers */
		lines->copy->cur_lineno = lines->runs[i].line + (row - lines->runs[i].row);
		lines->copy->line_buf_valid = false;
		located = lines->copy;
		return;
	}
}

void
rf_copy_error_context(void *arg)
{
	RfCopyLines *lines = arg;

	if (lines->copy && located == lines->copy)
		CopyFromErrorCallback(located);
}
