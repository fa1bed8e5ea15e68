/*
 * catalog.h
 *		The coordinator's knowledge of remote tables: ANALYZE, IMPORT FOREIGN SCHEMA, statistics, indexes.
 */
#ifndef RF_CATALOG_H
#define RF_CATALOG_H

#include "postgres.h"

#include "foreign/fdwapi.h"

#include "fdw/deparse/statement.h"

struct RfSession;

/*
 * Indexes of the data node's table, as ANALYZE found them.  Those of the first node,
 * as the tables of the others are the same.
 */
typedef struct RfIndex
{
	int			column_count;
	AttrNumber *columns;		/* of the foreign table, the index's first ones, up to one that is not known here */
	bool		unique;
	double		correlation;	/* of the first column's order and the table's */
} RfIndex;

extern List *rf_remote_indexes(Oid relid);

/* The catalog gets those that the table has on the data node. */
extern void rf_import_indexes(Relation relation, struct RfSession *session, const RfTableOptions *opts);

typedef struct RfProbeCost
{
	Cost		cost;			/* of one probe */
	double		tuples;			/* that it finds, before other conditions */
} RfProbeCost;

/*
 * What it costs a data node to find rows of the table by an index: by these clauses (RestrictInfos) of
 * a join for each of `count` rows of its other side, in the index's order or not, or, without clauses,
 * once by the table's own conditions.  part: how much of what there is for one row is on the node that
 * looks for it.  False: no index serves.
 */
extern bool rf_probe_cost(PlannerInfo *root, RfRelInfo *info, List *clauses, double count, double part,
						  bool sorted, RfProbeCost *result);

/* The column of the foreign table that is this one of the data node's; 0: there is none. */
extern AttrNumber rf_find_column(Relation relation, const char *remote_name);

/*
 * Writes pg_statistic of a foreign table from what the data node's ANALYZE found; how many columns
 * there was something for.  Takes effect in the next command.
 */
extern int	rf_import_statistics(Relation relation, struct RfSession *session, const RfTableOptions *opts);

extern bool rdmaAnalyzeForeignTable(Relation relation, AcquireSampleRowsFunc *func,
									BlockNumber *totalpages);

extern List *rdmaImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverOid);

#endif
