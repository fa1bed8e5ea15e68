/*
 * serve.h - the data node's side of a stream: rdma_internal.hello and rdma_internal.stream. Needs
 * PostgreSQL.
 *
 * Does: introduce this node, run one SELECT with the caller's rights inside the caller's
 * transaction, and send its rows as column batches: in the answer itself when they are few, over a
 * flow otherwise. Does not: touch the network (flow/), or know how rows become batches (batch/).
 *
 * Everything here belongs to one backend; nothing is shared.
 */
#ifndef RF_SERVE_H
#define RF_SERVE_H

#include "postgres.h"

#include <signal.h>

#include "access/htup.h"
#include "executor/execdesc.h"
#include "nodes/params.h"
#include "nodes/pathnodes.h"
#include "optimizer/planner.h"
#include "storage/buf.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/guc.h"
#include "utils/plancache.h"
#include "utils/relcache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/flow.h"
#include "rdma_fdw/wire.h"

/* ---------- plan.c: statements and their plans, kept by text ---------- */

typedef struct RfStatement RfStatement;

/*
 * The statement for a query text and the names of its parameters' types (NULL if there are no
 * parameters), parsed and checked to be one SELECT, whose plans have at most so many parallel
 * workers, for any settings of the session (less than 0: as many as these do). Kept for the life of
 * the session; the least recently used one makes room. The pointer is good until the next call.
 */
extern RfStatement *rf_statement_get(const char *query, ArrayType *type_names, int workers);

/*
 * The values of its parameters, by the types' input functions, in the current memory context; NULL
 * without parameters.
 */
extern ParamListInfo rf_statement_params(RfStatement *statement, ArrayType *values);

/*
 * True while a coordinator's statement is being planned. Then the results of unnest() of known
 * arrays have statistics (array_stats.c), and rows may be looked up in the order of an index
 * (exchange/node_probe.c). Other clients' statements are planned as core does.
 */
extern bool rf_statement_is_planned;

/* A plan, held by the current resource owner until ReleaseCachedPlan. */
extern CachedPlan *rf_statement_plan(RfStatement *statement, ParamListInfo params);

/* The most that each of so many nodes of a statement on this machine may have; -1: any number. */
extern int	rf_workers_allowed(int nodes);

/*
 * The same of the session's next statement, by the knowledge that its exchanges have of its nodes;
 * or RF_WORKERS_UNKNOWN.
 */
extern int	rf_statement_workers;

#define RF_WORKERS_UNKNOWN	(-2)

/* Returns true if a statement just planned calls something that must not run in parallel mode. */
extern bool rf_statement_is_unsafe(RfStatement *statement);

/*
 * Microseconds for which this process's statements have slept because exchanges waited for other
 * nodes. The exchange room adds.
 */
extern uint64 rf_exchange_slept_us;

/* ---------- array_stats.c ---------- */

/*
 * Statistics of a column for the planner, in the form that ANALYZE stores: so many different
 * values, and NULLs.
 */
struct VariableStatData;
extern void rf_set_distinct_stats(struct VariableStatData *vardata, AttrNumber attnum,
								  double distinct, double null_part);

/*
 * Sets them for a column that unnest() gives of a known array, while a coordinator's statement is
 * planned. False: it is another.
 */
extern bool rf_array_stats(RangeTblEntry *rte, AttrNumber attnum, struct VariableStatData *vardata);

/* ---------- hello.c ---------- */

/* Check hook of rdma_fdw.engine_address. */
extern bool rf_check_engine_address(char **newval, void **extra, GucSource source);

/* ---------- partialize.c ---------- */

/* Plans a statement, by `plan`, in which rdma_internal.partialize() may stand. */
extern PlannedStmt *rf_partialize_plan(Query *parse, const char *query_string, int cursor_options,
									   ParamListInfo params,
									   planner_hook_type plan RF_EXPLAIN_PARAM);

/* While such a statement is planned: a relation whose paths are there, and nothing above it. */
extern void rf_partialize_rel(RelOptInfo *rel);

/* ---------- kept_snapshot.c: snapshots that were kept for a reader's statements ---------- */

/*
 * Around the executor's start and run. Each of the first two returns true if it made a kept
 * snapshot the active one: rf_kept_snapshot_started is called then once the query has started, and
 * its snapshot is popped when the run has ended.
 */
extern bool rf_kept_snapshot_start(QueryDesc *query);
extern void rf_kept_snapshot_started(QueryDesc *query);
extern bool rf_kept_snapshot_run(QueryDesc *query);

/* ---------- store.c: rows that another node writes here ---------- */

extern void rf_store_register(void);

/* The only path of rdma_internal.receive(): a scan of these rows. */
extern void rf_store_paths(RelOptInfo *rel, RangeTblEntry *rte);

/* The query has started: if it inserts such rows, plain tables take many at a time. */
extern void rf_store_started(QueryDesc *query);

/* ---------- dest.c: the DestReceiver ---------- */

typedef struct RfStreamDest RfStreamDest;

/*
 * How a receiver waits for a free slot: rf_flow_acquire(), or a function that another room has set
 * when the library was loaded. That function must do the same, and may do work of its own
 * meanwhile.
 */
extern bool (*rf_stream_acquire) (RfFlowHandle *flow, RfBuffer *buffer);

/* The request's bytes must outlive the receiver. since: rf_now_us() when it came. */
extern RfStreamDest *rf_stream_dest_create(const RfStreamRequest *request,
										   const RfStreamColumn *columns, int64 since);
extern DestReceiver *rf_stream_dest_receiver(RfStreamDest *dest);

/*
 * Rows will come in slots that hold more than the result's columns: the i-th one is attribute
 * attmap[i] of desc. Replaces the receiver's rStartup; attmap must outlive the receiver.
 */
extern void rf_stream_dest_start_raw(RfStreamDest *dest, TupleDesc desc, const AttrNumber *attmap,
									 int column_count);

/*
 * Rows from the tuples of one heap page, once start_raw was called with the table's descriptor:
 * returns how many it took from the front, less than count when the next one has to come in a slot.
 * takes_tuples: will it take any?
 */
extern bool rf_stream_dest_takes_tuples(RfStreamDest *dest, TupleDesc table);
extern int	rf_stream_dest_add_tuples(RfStreamDest *dest, const HeapTupleHeader *tuples, int count);

/*
 * The same as they lie on their page, to a reader that wants pages, once offered; only for tables
 * that rf_may_ship_pages() allows. No more than pin_limit pages are kept pinned. For each page ask
 * first whether it can be taken: this may wait.
 */
extern bool rf_stream_dest_wants_pages(const RfStreamDest *dest);
extern void rf_stream_dest_offer_pages(RfStreamDest *dest, Relation table, const AttrNumber *attmap,
									   int column_count, int pin_limit);
extern bool rf_stream_dest_takes_page(RfStreamDest *dest);

/* Reports the rows of a page that could not be sent as it is; they decide about the next pages. */
extern void rf_stream_dest_saw_page(RfStreamDest *dest, const uint16 *lengths, int count);

/*
 * Returns true if a page whose tuples are all visible is best sent whole, for any shape of its
 * tuples.
 */
extern bool rf_stream_dest_takes_whole(const RfStreamDest *dest);

/*
 * Send a locked page whose tuples are all visible. Returns its number of rows; below 0: they have
 * to be sent as columns. The stream may keep the page pinned until it was sent.
 */
extern int	rf_stream_dest_add_page(RfStreamDest *dest, Buffer buffer);

/* Send visible tuples of a pinned page; false: they have to be sent as columns. */
extern bool rf_stream_dest_add_page_tuples(RfStreamDest *dest, Buffer buffer,
										   const HeapTupleHeader *tuples, const uint16 *lengths,
										   int count);

/*
 * rf_stream_tick is set when rows have waited for rdma_fdw.flush_time; code that makes rows without
 * passing each to the receiver then calls flush, which sends the rows it has, and returns false
 * when the reader has stopped.
 */
extern volatile sig_atomic_t rf_stream_tick;
extern bool rf_stream_dest_flush(RfStreamDest *dest);

/*
 * The timer behind it, for other code that holds rows back: it increments rf_flush_ticks once when
 * rdma_fdw.flush_time is over, and sets the latch. Starting it while it runs does nothing.
 */
extern volatile uint32 rf_flush_ticks;
extern void rf_start_flush_timer(void);

/*
 * The query has no more rows: end the stream, wait for the reader's acknowledgement, and return the
 * answer, a bytea. plan: the text of EXPLAIN behind it, or "".
 */
extern bytea * rf_stream_dest_reply(RfStreamDest *dest, const char *plan);

/* ---------- permit.c: which tables' pages may be sent ---------- */

/* A command is about to run: SECURITY LABEL may give a table the label that allows it. */
extern void rf_permit_label(Node *statement);

/*
 * Returns true if the session's role may see all bytes of this table, the only one that the
 * statement reads. Its rows would be sent as they are stored.
 */
extern bool rf_may_ship_pages(const PlannedStmt *statement, Relation table);

/* ---------- part_log.c: parts of distributed transactions that were prepared here ---------- */

/* A command that ends a prepared transaction. */
typedef struct RfPreparedEnd
{
	char	   *gid;			/* NULL: it is another command */
	bool		commit;
} RfPreparedEnd;

/* Called before each command and, if it succeeded, after it. */
extern void rf_part_log_begin(RfPreparedEnd *end, Node *statement);
extern void rf_part_log_ended(const RfPreparedEnd *end);

extern void rf_part_log_shmem_request(void);
extern void rf_part_log_shmem_startup(void);

/* ---------- scan.c: bare table scans without projection ---------- */

/*
 * Run the started query row by row past the executor's projection if it is a bare sequential scan;
 * false: it is not.
 */
extern bool rf_run_bare_scan(QueryDesc *query, RfStreamDest *dest);

/*
 * The plan of a started query, or a part of it, as the scan that it is, with the table's attribute
 * of each column; NULL: it is more than a sequential scan of plain columns, or the executor has to
 * count its rows.
 */
extern struct SeqScanState *rf_bare_scan(struct PlanState *plan, AttrNumber **attmap, int *count);

#endif
