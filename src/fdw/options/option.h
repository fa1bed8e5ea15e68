/*
 * option.h - options of servers, foreign tables and their columns, in the form that the rest of
 * src/fdw reads. All memory belongs to the calling backend.
 */
#ifndef RF_OPTION_H
#define RF_OPTION_H

#include "postgres.h"

#include "foreign/foreign.h"
#include "utils/rel.h"

/* How rows are fetched: table option, else server option, else the setting of the same name. */
typedef struct RfFetchOptions
{
	int			fetch_size;		/* expected rows per fetch, a hint; 0: not given */
	int			receive_buffers;	/* buffers per flow; -1: rdma_fdw.receive_buffers */
	int			receive_buffer_size;	/* bytes of each; -1: rdma_fdw.receive_buffer_size */
	int			inline_limit;	/* bytes that may come inside libpq's answer; -1:
								 * rdma_fdw.inline_limit; 0: never */
	int			async_capable;	/* run beside other scans: 0 no, 1 yes, -1 if profitable */
	bool		read_in_place;	/* rows may point into receive buffers, which the data node's
								 * engine could write; see batch/decode.c */
	bool		accept_pages;	/* accept unchanged heap pages if the data node offers them */
	bool		trusted;		/* values in the data node's storage format are checked only for
								 * lengths and pointers that exceed them */
} RfFetchOptions;

/* All planner options of one foreign table. */
typedef struct RfTableOptions
{
	const char *schema_name;	/* remote schema and table, never NULL */
	const char *table_name;
	bool		use_remote_estimate;
	bool		updatable;
	bool		truncatable;
	int			batch_size;		/* 1: rows are inserted one by one; else in column batches.  0: not
								 * given */
	double		fdw_startup_cost;	/* -1 when not given, until rf_transfer_costs() */
	double		fdw_tuple_cost;
	double		byte_cost;		/* set by rf_transfer_costs() */
	double		at_once;		/* while planning: a statement that moves no rows runs for so many
								 * rows around it */
	int			parallel_scan;	/* parallel workers: 0 no, 1 also for few rows, -1 if profitable */
	const char *analyze_sampling;	/* off, auto, random, system, bernoulli or import */
	List	   *extensions;		/* OIDs of extensions whose objects may be shipped */
	RfFetchOptions fetch;
} RfTableOptions;

/*
 * Reads the options of server and table (the table wins).  Allocated in the current
 * memory context.
 */
extern void rf_table_options(ForeignTable *table, ForeignServer *server, RfTableOptions *opts);

/* Remote name of a column of a foreign table: its column_name option, else its local name. */
extern const char *rf_column_name(Oid relid, AttrNumber attno);

/* Numbers of the columns that are not dropped, in order, as an IntList. */
extern List *rf_all_columns(Relation rel);

#endif
