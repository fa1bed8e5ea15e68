/*
 * floor.c - the least a pull can cost: its two ends as bare loops, without a network between them.
 *
 *		floor_send(table, columns)		scans the heap, deforms the columns and copies them into
 *										column chunks of a ring of
 *										4 MB, over and over; returns the rows. The sender alone.
 *		floor_fdw						a foreign table whose rows are read out of such a ring that
 *										was filled once from another
 *										table: option source is a query's table, option rows how
 *										many rows to return (the ring is
 *										read again from its start when it ends). The receiver alone:
 *										chunks, virtual slot,
 *										executor, aggregate. The first scan of a session fills the
 *										ring; do not time it.
 *
 * No pushdown, no type map, no compression of anything: what rdma_fdw needs above this is what its
 * profile has to explain.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(floor_send);
PG_FUNCTION_INFO_V1(floor_handler);
PG_FUNCTION_INFO_V1(floor_validator);

#define RING_BYTES		(4 * 1024 * 1024)
#define CHUNK_BYTES		(256 * 1024)
#define CHUNKS			(RING_BYTES / CHUNK_BYTES)
#define CHUNK_ROWS_MAX	8192

/*
 * One chunk: per column a vector of fixed-width values, or of offsets into the values that follow
 * all vectors.
 */
typedef struct Chunk
{
	char	   *data;
	int			rows;
} Chunk;

typedef struct Ring
{
	int			columns;
	int			rows_max;		/* of a chunk, so that the vectors' places are constant */
	int		   *attribute;		/* in the source, from 0 */
	int16	   *length;			/* attlen, -1 = varlena */
	bool	   *by_value;
	int		   *vector;			/* where the column's vector starts */
	int			heap;			/* where varlenas start */
	Chunk		chunk[CHUNKS];
	int			current;
	int			filled;			/* bytes of the current chunk's varlenas */
	bool		once;			/* stop when the ring is full */
} Ring;

static Ring *
ring_create(TupleDesc desc, int columns, const int *attributes)
{
	Ring	   *ring = palloc0(sizeof(Ring));
	int			width = 0,
				varlenas = 0,
				at = 0;

	ring->columns = columns;
	ring->attribute = palloc(sizeof(int) * columns);
	ring->length = palloc(sizeof(int16) * columns);
	ring->by_value = palloc(sizeof(bool) * columns);
	ring->vector = palloc(sizeof(int) * columns);
	for (int c = 0; c < columns; c++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attributes[c]);

		ring->attribute[c] = attributes[c];
		ring->length[c] = att->attlen;
		ring->by_value[c] = att->attbyval;
		if (att->attlen < 0)
			varlenas++;
		width += att->attlen < 0 ? (int) sizeof(uint32) : att->attlen;
	}
	/* Varlenas are taken as 16 bytes on average; a chunk ends early when they are longer. */
	ring->rows_max = Min(CHUNK_ROWS_MAX, (CHUNK_BYTES - 64 * columns) / (width + 16 * varlenas));
	for (int c = 0; c < columns; c++)
	{
		ring->vector[c] = at;
		at += TYPEALIGN(64, ring->rows_max *
						(ring->length[c] < 0 ? (int) sizeof(uint32) : ring->length[c]));
	}
	ring->heap = at;
	for (int i = 0; i < CHUNKS; i++)
		ring->chunk[i].data = palloc_extended(CHUNK_BYTES, MCXT_ALLOC_HUGE);
	return ring;
}

static void
ring_next(Ring *ring)
{
	ring->current = (ring->current + 1) % CHUNKS;
	ring->chunk[ring->current].rows = 0;
	ring->filled = 0;
}

/* Copies the slot's columns; false when `once` and the ring is full. */
static bool
ring_put(Ring *ring, TupleTableSlot *slot)
{
	for (;;)
	{
		Chunk	   *chunk = &ring->chunk[ring->current];
		int			row = chunk->rows,
					c;

		if (row < ring->rows_max)
		{
			for (c = 0; c < ring->columns; c++)
			{
				Datum		value = slot->tts_values[ring->attribute[c]];
				char	   *vector = chunk->data + ring->vector[c];

				if (slot->tts_isnull[ring->attribute[c]])
					elog(ERROR, "floor does not measure nulls");
				if (ring->by_value[c])
				{
					switch (ring->length[c])
					{
						case 1:
							((int8 *) vector)[row] = DatumGetChar(value);
							break;
						case 2:
							((int16 *) vector)[row] = DatumGetInt16(value);
							break;
						case 4:
							((int32 *) vector)[row] = DatumGetInt32(value);
							break;
						default:
							((int64 *) vector)[row] = DatumGetInt64(value);
							break;
					}
				}
				else if (ring->length[c] > 0)
					memcpy(vector + (Size) row * ring->length[c], DatumGetPointer(value),
						   ring->length[c]);
				else
				{
					struct varlena *image = (struct varlena *) DatumGetPointer(value);
					int			size = VARSIZE_ANY(image);
					int			at = ring->heap + ring->filled;

					if (!VARATT_IS_SHORT(image))
						at = TYPEALIGN(4, at);
					if (at + size > CHUNK_BYTES)
						break;
					memcpy(chunk->data + at, image, size);
					((uint32 *) vector)[row] = (uint32) at;
					ring->filled = at + size - ring->heap;
				}
			}
			if (c == ring->columns)
			{
				chunk->rows++;
				return true;
			}
			if (row == 0)
				elog(ERROR, "row does not fit a chunk");
		}
		if (ring->once && ring->current == CHUNKS - 1)
			return false;
		ring_next(ring);
	}
}

/* Scans `relid` into the ring; returns the rows. */
static int64
ring_scan(Ring *ring, Relation relation)
{
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	int			deform = 0;
	int64		rows = 0;

	for (int c = 0; c < ring->columns; c++)
		deform = Max(deform, ring->attribute[c] + 1);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getsomeattrs(slot, deform);
		if (!ring_put(ring, slot))
			break;
		rows++;
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	return rows;
}

/* "a, b" as attribute numbers from 0 */
static int
parse_columns(TupleDesc desc, const char *names, int **attributes)
{
	List	   *list;
	ListCell   *cell;
	int			n = 0;

	if (!SplitIdentifierString(pstrdup(names), ',', &list))
		elog(ERROR, "bad list of columns \"%s\"", names);
	*attributes = palloc(sizeof(int) * Max(list_length(list), 1));
	foreach(cell, list)
	{
		int			number = 0;

		for (int i = 0; i < desc->natts; i++)
			if (strcmp(NameStr(TupleDescAttr(desc, i)->attname), (char *) lfirst(cell)) == 0)
				number = i + 1;
		if (number <= 0)
			elog(ERROR, "no column \"%s\"", (char *) lfirst(cell));
		(*attributes)[n++] = number - 1;
	}
	return n;
}

Datum
floor_send(PG_FUNCTION_ARGS)
{
	Relation	relation = table_open(PG_GETARG_OID(0), AccessShareLock);
	int		   *attributes;
	int			columns = parse_columns(RelationGetDescr(relation),
										text_to_cstring(PG_GETARG_TEXT_PP(1)), &attributes);
	Ring	   *ring = ring_create(RelationGetDescr(relation), columns, attributes);
	int64		rows = ring_scan(ring, relation);

	table_close(relation, AccessShareLock);
	PG_RETURN_INT64(rows);
}

/* ---- the receiver ---- */

typedef struct Filled
{
	Oid			foreign_table;
	Ring	   *ring;
	int			chunks;			/* how many hold rows */
	struct Filled *next;
} Filled;

static Filled *filled_rings = NULL;

typedef struct ReceiverState
{
	Filled	   *source;
	int64		rows_left;
	int			chunk;
	int			row;
} ReceiverState;

static char *
table_option(Oid foreign_table, const char *name)
{
	ListCell   *cell;

	foreach(cell, GetForeignTable(foreign_table)->options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, name) == 0)
			return defGetString(option);
	}
	elog(ERROR, "floor_fdw: option \"%s\" is missing", name);
	return NULL;
}

/* The ring of a foreign table's rows, filled from its source when the session first needs it. */
static Filled *
filled_ring(Relation foreign)
{
	MemoryContext before;
	Relation	source;
	StringInfoData names;
	Filled	   *f;
	List	   *name;
	int		   *attributes;
	int			columns;

	for (f = filled_rings; f != NULL; f = f->next)
		if (f->foreign_table == RelationGetRelid(foreign))
			return f;

	before = MemoryContextSwitchTo(TopMemoryContext);
	initStringInfo(&names);
	for (int i = 0; i < RelationGetDescr(foreign)->natts; i++)
		appendStringInfo(&names, "%s%s", i ? "," : "",
						 NameStr(TupleDescAttr(RelationGetDescr(foreign), i)->attname));
	name = textToQualifiedNameList(
								   cstring_to_text(table_option(RelationGetRelid(foreign), "source")));
	source = table_openrv(makeRangeVarFromNameList(name), AccessShareLock);
	columns = parse_columns(RelationGetDescr(source), names.data, &attributes);
	f = palloc0(sizeof(Filled));
	f->foreign_table = RelationGetRelid(foreign);
	f->ring = ring_create(RelationGetDescr(source), columns, attributes);
	f->ring->once = true;
	ring_scan(f->ring, source);
	while (f->chunks < CHUNKS && f->ring->chunk[f->chunks].rows > 0)
		f->chunks++;
	f->next = filled_rings;
	filled_rings = f;
	table_close(source, AccessShareLock);
	MemoryContextSwitchTo(before);
	return f;
}

static void
floor_size(PlannerInfo *root, RelOptInfo *rel, Oid foreign_table)
{
	rel->rows = atof(table_option(foreign_table, "rows"));
	rel->tuples = rel->rows;
}

static void
floor_paths(PlannerInfo *root, RelOptInfo *rel, Oid foreign_table)
{
	add_path(rel, (Path *)
			 create_foreignscan_path(root, rel, NULL, rel->rows,
#if PG_VERSION_NUM >= 180000
									 0,
#endif
									 0, rel->rows * 0.01, NIL, rel->lateral_relids, NULL,
#if PG_VERSION_NUM >= 170000
									 NIL,
#endif
									 NIL));
}

static ForeignScan *
floor_plan(PlannerInfo *root, RelOptInfo *rel, Oid foreign_table, ForeignPath *path, List *tlist,
		   List *clauses, Plan *outer)
{
	return make_foreignscan(tlist, extract_actual_clauses(clauses, false), rel->relid, NIL, NIL,
							NIL, NIL, outer);
}

static void
floor_begin(ForeignScanState *node, int eflags)
{
	ReceiverState *state = palloc0(sizeof(ReceiverState));

	node->fdw_state = state;
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state->source = filled_ring(node->ss.ss_currentRelation);
	state->rows_left = atoll(table_option(RelationGetRelid(node->ss.ss_currentRelation), "rows"));
}

static TupleTableSlot *
floor_iterate(ForeignScanState *node)
{
	ReceiverState *state = node->fdw_state;
	Ring	   *ring = state->source->ring;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	const char *data;
	int			row;

	ExecClearTuple(slot);
	if (state->rows_left == 0)
		return slot;
	state->rows_left--;
	if (state->row == ring->chunk[state->chunk].rows)
	{
		state->row = 0;
		state->chunk = (state->chunk + 1) % state->source->chunks;
	}
	row = state->row++;
	data = ring->chunk[state->chunk].data;
	for (int c = 0; c < ring->columns; c++)
	{
		const char *vector = data + ring->vector[c];

		slot->tts_isnull[c] = false;
		if (!ring->by_value[c])
			slot->tts_values[c] = ring->length[c] > 0 ?
				PointerGetDatum(vector + (Size) row * ring->length[c]) :
				PointerGetDatum(data + ((const uint32 *) vector)[row]);
		else if (ring->length[c] == 8)
			slot->tts_values[c] = Int64GetDatum(((const int64 *) vector)[row]);
		else if (ring->length[c] == 4)
			slot->tts_values[c] = Int32GetDatum(((const int32 *) vector)[row]);
		else if (ring->length[c] == 2)
			slot->tts_values[c] = Int16GetDatum(((const int16 *) vector)[row]);
		else
			slot->tts_values[c] = CharGetDatum(((const int8 *) vector)[row]);
	}
	return ExecStoreVirtualTuple(slot);
}

static void
floor_rescan(ForeignScanState *node)
{
	ReceiverState *state = node->fdw_state;

	state->chunk = state->row = 0;
	state->rows_left = atoll(table_option(RelationGetRelid(node->ss.ss_currentRelation), "rows"));
}

static void
floor_end(ForeignScanState *node)
{
}

Datum
floor_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = floor_size;
	routine->GetForeignPaths = floor_paths;
	routine->GetForeignPlan = floor_plan;
	routine->BeginForeignScan = floor_begin;
	routine->IterateForeignScan = floor_iterate;
	routine->ReScanForeignScan = floor_rescan;
	routine->EndForeignScan = floor_end;
	PG_RETURN_POINTER(routine);
}

Datum
floor_validator(PG_FUNCTION_ARGS)
{
	PG_RETURN_VOID();
}
