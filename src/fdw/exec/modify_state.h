/*
 * modify_state.h - what the execution of one written foreign table knows: modify.c drives it,
 * modify_move.c keeps rows that change their node, modify_target.c has the nodes.
 */
#ifndef RF_MODIFY_STATE_H
#define RF_MODIFY_STATE_H

#include "postgres.h"

#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "utils/relcache.h"

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"

#include "exec.h"

typedef struct RfRowMoves RfRowMoves;
typedef struct RfConflictKeys RfConflictKeys;
struct RfModifyPlan;

/* One data node; sessions are opened for the first row that goes there. */
typedef struct ModifyTarget
{
	UserMapping *user;
	RfSession  *session;		/* NULL: no row went there yet */
	RfCommand  *command;		/* row by row; NULL: no row was sent this way yet */
	RfLoad	   *load;			/* in column batches; NULL: every row goes by the command. Of a
								 * replicated table the first node has it, for all nodes */
	uint64		rows;			/* given to the load since it was last finished */
	RfCopyLines *lines;			/* of COPY's rows; NULL: another statement */
} ModifyTarget;

typedef struct ModifyState
{
	EState	   *estate;
	Relation	rel;
	MemoryContext context;

	ModifyTarget *targets;
	int			target_count;
	RfDistribution *distribution;	/* NULL: an ordinary server, one target */
	uint64		statement;		/* rf_statement_begin; 0: no row has gone anywhere yet */
	RfRoute    *route;
	RfBuckets  *buckets;
	Datum	   *key_values;
	bool	   *key_isnull;
	uint32		turn;			/* of targets, for rows without a rule of placement */

	/* row by row */
	const char *sql;
	const char *copy_sql;		/* as RfModifyPlan.copy_sql; NULL: all nodes run `sql` */
	List	   *attrs;			/* attributes whose values are parameters */
	int			param_count;
	bool		writing;		/* rf_scan_before_write was called */

	/*
	 * updates and deletes: so many of the values, the first ones, are ctid, tableoid and key of
	 * the row there
	 */
	List	   *key;			/* as RfModifyPlan.key */
	int			place_count;
	AttrNumber *place_attnos;	/* where these are in the plan's rows */
	RfValueWriter *writer;
	Datum	   *values;
	bool	   *isnull;
	bool		has_returning;
	bool		check_partition;	/* new rows may not belong to the partition that the table is */
	RfResultReader *reader;

	/* in column batches */
	RfLoadSpec *load_spec;		/* NULL: row by row */
	TupleTableSlot *sent;		/* updates and deletes: what is in `values` */
	dlist_node	node;			/* in open_loads */
	bool		counted;		/* its rows are part of the statement's count */
	bool		copy;			/* it is COPY's */

	RfConflictKeys *conflict;	/* ON CONFLICT DO UPDATE: of the rows so far; or NULL */

	/* updates of the distribution key: rows wait for the end, see modify_move.c */
	RfRowMoves *moves;
	MemoryContextCallback gone;
} ModifyState;

/* Every node has all rows. */
static inline bool
rf_modify_is_replicated(const ModifyState *state)
{
	return state->distribution != NULL &&
		state->distribution->placement == RF_PLACED_EVERYWHERE;
}

/* Those of the table's server; none has a session yet. */
extern void rf_modify_find_targets(ModifyState *state, ResultRelInfo *result_rel);

/* For rows that go to the node one by one. */
extern void rf_modify_create_command(ModifyState *state, ModifyTarget *target);

/*
 * The node with the bucket of state->key_values, or of the keys of a row. Detoasted copies are
 * freed with the row.
 */
extern int	rf_modify_place_of_key(ModifyState *state);
extern int	rf_modify_place_of_row(ModifyState *state, TupleTableSlot *slot);

/*
 * The i-th node, ready for writing: it has a load or a command. A load of all nodes is ready with
 * the first.
 */
extern ModifyTarget *rf_modify_target(ModifyState *state, int i);

/* Stores the row's new values after those already at the front. */
extern void rf_modify_take_values(ModifyState *state, TupleTableSlot *slot, int at);

/*
 * Runs the statement with the values; returns the number of rows it wrote there. The first of them
 * goes into the slot if it returns any and slot is not NULL.
 */
extern int	rf_modify_execute(ModifyState *state, ModifyTarget *target, TupleTableSlot *slot);

/*
 * The same on all nodes but the first, at the same time; there is another one. rows[i] is the i-th
 * node's, and the last node's first row goes into the slot.
 */
extern void rf_modify_execute_others(ModifyState *state, TupleTableSlot *slot, int *rows);

/*
 * The row that the command names by ctid and tableoid, its first parameters, is locked before: a
 * join of several nodes has found it without that. An ERROR (40001) if it has changed, or is not
 * there.
 */
extern void rf_modify_lock_first(Relation rel, RfCommand *command, bool delete);

/* Raises an error: rows of the table cannot be told from each other by tableoid and ctid. */
extern void rf_modify_ambiguous(Relation rel, int rows, Oid copy) __attribute__((noreturn));

/*
 * modify_conflict.c: puts the values of parameters into an INSERT's ON CONFLICT, in state->sql,
 * too, and returns the clause, or NULL. Then each row, before it is sent: an ERROR if an earlier
 * row of the statement has the same values in the columns of DO UPDATE's conflict.
 */
extern const char *rf_modify_begin_conflict(ModifyState *state, ModifyTableState *node,
											const struct RfModifyPlan *plan);
extern void rf_modify_note_conflict(ModifyState *state, TupleTableSlot *slot);

/*
 * Rows of which an UPDATE assigns the distribution key. rf_row_moves_create: the statements are
 * those of RfModifyPlan, place_types are the types of what says which row it is, in the current
 * memory context. rf_row_moves_add: keeps the new row of what state->values name on node `from` and
 * shall be on node `to`. rf_row_moves_finish: writes them, and returns how many were still there;
 * *rows: how many were added. rf_row_moves_end: frees what is not freed with the memory context.
 */
extern RfRowMoves *rf_row_moves_create(Relation rel, const char *delete_sql,
									   const char *insert_sql, List *place_types);
extern void rf_row_moves_add(ModifyState *state, int from, int to, TupleTableSlot *row);
extern uint64 rf_row_moves_finish(ModifyState *state, uint64 *rows);
extern void rf_row_moves_end(RfRowMoves *moves);

#endif
