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

#include "rdma_fdw/compat.h"

#include "exec.h"

/* Per load: with more changes than this, the older half of them is dropped. */
#define MAX_RUNS	(1 << 20)

/* From this row on, each row came from the line behind the previous row's. */
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

/* For the innermost COPY FROM: rows that the data nodes dropped. NULL: no such COPY runs. */
static uint64 *dropped = NULL;

/* The COPY FROM whose current line is set to the row of an error. */
static CopyFromState located = NULL;

void
rf_copy_begin(RfCopyCommand *command, Node *statement)
{
	*command = (RfCopyCommand)
	{
		.counted = IsA(statement, CopyStmt) && castNode(CopyStmt, statement)->is_from,
			.outer = dropped
	};
	if (command->counted)
		dropped = &command->dropped;
}

void
rf_copy_end(const RfCopyCommand *command)
{
	if (!command->counted)
		return;
	dropped = command->outer;
	located = NULL;
}

void
rf_copy_count(const RfCopyCommand *command, QueryCompletion *completion)
{
	if (completion)
		completion->nprocessed -= Min(command->dropped, completion->nprocessed);
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

/*
 * Notes that from this row on rows came from this line on. Beyond MAX_RUNS the older half is
 * forgotten; errors are about late rows.
 */
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
