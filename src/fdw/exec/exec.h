/*
 * exec.h
 * 		Execution: the wrapper's callbacks, and the functions that the files of this folder share.
 */
#ifndef RF_EXEC_H
#define RF_EXEC_H

#include "postgres.h"

#include "foreign/fdwapi.h"
#include "foreign/foreign.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/remote.h"

struct ExplainState;
struct pg_result;

/*
 * COPY FROM into foreign tables. COPY counts the rows that it hands over; rf_copy_drop() reports
 * how many of them were not written. rf_copy_counts(): is that number used now? The first three are
 * called for each command: before it, after it, with an error or not, and to correct its count.
 */
typedef struct RfCopyCommand
{
	bool		counted;		/* it is COPY FROM */
	uint64		dropped;		/* rows that were not written */
	uint64	   *outer;
} RfCopyCommand;

extern void rf_copy_begin(RfCopyCommand *command, Node *statement);
extern void rf_copy_end(const RfCopyCommand *command);
extern void rf_copy_count(const RfCopyCommand *command, QueryCompletion *completion);
extern bool rf_copy_counts(void);
extern void rf_copy_drop(uint64 rows);

/*
 * Which of several nodes alone has the rows of a statement (single_node.c), in the current memory
 * context. values: ExprStates of the distribution key's values, which are kept; keys: their types,
 * then their collations. rf_single_node: the node's place among the node_count nodes of the server.
 */
typedef struct RfSingleNode RfSingleNode;

extern RfSingleNode *rf_single_node_create(List *values, List *keys, Oid serverid);
extern int	rf_single_node(RfSingleNode *single, ExprContext *econtext, int node_count);

/* The innermost utility command that runs, for the options of EXPLAIN; or NULL. */
extern const Node *rf_running_command;

/*
 * The input lines of the rows of a load, allocated in the current memory context. rf_copy_line: its
 * next row, numbered from 1, comes from COPY's current line. rf_copy_failed (RfLoadSpec.failed):
 * makes COPY's error context name a row's line; rf_copy_error_context replaces that context after
 * COPY's own has ended.
 */
typedef struct RfCopyLines RfCopyLines;

extern RfCopyLines *rf_copy_lines_create(void);
extern void rf_copy_line(RfCopyLines *lines, uint64 row);
extern void rf_copy_failed(void *lines, uint64 row);
extern void rf_copy_error_context(void *lines);

/*
 * The statement is about to write on nodes: scans that were not started yet, of cursors and
 * statements around it as well, see the rows that were there before. Other parts of it that write
 * do so, too. (scan_start.c)
 */
extern void rf_scan_before_write(EState *estate);

/* Around each run of the executor (scan_start.c): which plans are run to their end in one go. */
typedef struct RfWholeRun
{
	EState	   *estate;
	PlanState  *plan;
} RfWholeRun;

extern void rf_scan_run_begins(RfWholeRun *around, QueryDesc *query, uint64 count);
extern void rf_scan_run_ended(const RfWholeRun *around);

/*
 * The executor's run has ended, or its finish: rows that wait to be written on nodes are
 * (modify.c).
 */
extern void rf_finish_loads(EState *estate);

/* Statements whose scans have begun and not ended (scan_start.c). */
extern RfOpenStatements rf_scan_open_statements(void);

/*
 * A statement is about to use a foreign table (InvalidOid: the tables that it names): the records
 * of the servers bind its sessions (rf_placement_use). Tables of several servers may be in one
 * scan, so the scan's server is not enough.
 */
extern void rf_use_servers(EState *estate, Oid relid);

extern void rdmaBeginForeignScan(ForeignScanState *node, int eflags);
extern TupleTableSlot *rdmaIterateForeignScan(ForeignScanState *node);
extern bool rdmaRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot);
extern void rdmaReScanForeignScan(ForeignScanState *node);
extern void rdmaEndForeignScan(ForeignScanState *node);
extern void rdmaExplainForeignScan(ForeignScanState *node, struct ExplainState *es);

extern void rdmaRefetchForeignRow(EState *estate, ExecRowMark *erm, Datum rowid,
								  TupleTableSlot *slot, bool *updated);

extern void rdmaBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *result_rel,
								   List *fdw_private, int subplan_index, int eflags);
extern TupleTableSlot *rdmaExecForeignInsert(EState *estate, ResultRelInfo *result_rel,
											 TupleTableSlot *slot, TupleTableSlot *plan_slot);
extern TupleTableSlot *rdmaExecForeignUpdate(EState *estate, ResultRelInfo *result_rel,
											 TupleTableSlot *slot, TupleTableSlot *plan_slot);
extern TupleTableSlot *rdmaExecForeignDelete(EState *estate, ResultRelInfo *result_rel,
											 TupleTableSlot *slot, TupleTableSlot *plan_slot);
extern void rdmaEndForeignModify(EState *estate, ResultRelInfo *result_rel);
extern void rdmaBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *result_rel);
extern void rdmaEndForeignInsert(EState *estate, ResultRelInfo *result_rel);
extern void rdmaExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *result_rel,
									 List *fdw_private, int subplan_index, struct ExplainState *es);
extern void rdmaExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs);

/* Reports that the nodes changed their copies of a replicated table differently. */
extern void rf_complain_of_copies(Relation rel, UserMapping *first, uint64 first_rows,
								  UserMapping *other, uint64 rows) __attribute__((noreturn));

extern void rdmaBeginDirectModify(ForeignScanState *node, int eflags);
extern TupleTableSlot *rdmaIterateDirectModify(ForeignScanState *node);
extern void rdmaEndDirectModify(ForeignScanState *node);
extern void rdmaExplainDirectModify(ForeignScanState *node, struct ExplainState *es);

/*
 * values to the text of remote parameters, rows of libpq results to tuples. Both live in the memory
 * context that is current at creation; their results are valid until the next call.
 */
typedef struct RfValueWriter RfValueWriter;

extern RfValueWriter *rf_value_writer_create(List *types);	/* OidList */

/* Text of values[i], NULL for a NULL value. */
extern const char *const *rf_write_values(RfValueWriter *writer, const Datum *values,
										  const bool *isnull);

typedef struct RfResultReader RfResultReader;

/* attnums: the attributes that the result's columns fill; relation is for messages */
extern RfResultReader *rf_result_reader_create(TupleDesc desc, const char *relation, List *attnums);

/* One row of the result, into a slot of that row type. */
extern void rf_read_result(RfResultReader *reader, struct pg_result *result, int row,
						   TupleTableSlot *slot);

/* For a tuple that heap_form_tuple() made: xmin, xmax, cmin and cmax are 0, as in postgres_fdw. */
extern void rf_clear_system_columns(HeapTupleHeader row);

/* The same row's RF_ROW_TABLE and RF_ROW_PART. */
extern void rf_set_row_place(HeapTupleHeader row, Oid table, int part);

/* Lets plans have statements that get rows of this node. */
extern void rf_local_rows_register(void);

/* Lets plans look rows up for many rows of another plan at once. */
extern void rf_lookahead_register(void);
extern void rf_lookup_register(void);

extern Size rdmaEstimateDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt);
extern void rdmaInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt,
										 void *coordinate);
extern void rdmaReInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt,
										   void *coordinate);
extern void rdmaInitializeWorkerForeignScan(ForeignScanState *node, shm_toc * toc,
											void *coordinate);
extern void rdmaShutdownForeignScan(ForeignScanState *node);

extern bool rdmaIsForeignPathAsyncCapable(ForeignPath *path);
extern void rdmaForeignAsyncRequest(AsyncRequest *areq);
extern void rdmaForeignAsyncConfigureWait(AsyncRequest *areq);
extern void rdmaForeignAsyncNotify(AsyncRequest *areq);

#endif
