/*
 * lookup_state.h
 *		The state of a lookup by the values of parameters (batched_lookup.c), which sends its
 *		statements in lookup_send.c.
 */
#ifndef RF_LOOKUP_STATE_H
#define RF_LOOKUP_STATE_H

#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "portability/instr_time.h"
#include "utils/sortsupport.h"

#include "lookahead.h"
#include "scan_state.h"

/* Values of all parameters, and the rows that are known to belong to them */
typedef struct Known
{
	Datum	   *values;
	bool	   *isnull;
	int			part;			/* of the scan, which alone has rows for them; -1: any */
	MinimalTuple *rows;
	MinimalTuple only_row;		/* if there is space for one */
	int			row_count;
	int			row_space;
	bool		complete;		/* these are all of its rows */
	bool		expected;		/* it is in the list of expected values */
	bool		of_row;			/* a row's column, to find the key */
	uint64		pass;			/* of the lookup, that reads its rows */
} Known;

typedef struct ValueType
{
	Oid			type;
	int16		length;
	bool		by_value;
	char		align;
} ValueType;

/* A lookup by keys */
typedef struct Keys
{
	FmgrInfo	hash_key;
	FmgrInfo	hash_column;
	FmgrInfo	same_key;		/* two keys */
	FmgrInfo	equal;			/* a column and a key */
	Oid			collation;
	int			column;			/* in the scan's rows */
	double		key_rows;		/* the cost of sending a key, in rows */
	double		most;			/* after lookups that cost this many rows, all are read */
	bool		first_rows;		/* begin with few keys */

	/* since the Lookahead started: */
	bool		one_statement;	/* there may be no other */
	bool		asked;
	bool		all_rows;		/* the statement asks for all */
	bool		more;			/* keys will follow those expected */
	double		spent;			/* in rows */
} Keys;

/* The parameters, whose values rows are looked up for */
typedef struct LookupParams
{
	List	   *exprs;			/* ExprStates; further parameters of the scan may follow them */
	int			count;
	ValueType  *types;
	Datum	   *values;			/* that they have now */
	bool	   *isnull;
} LookupParams;

typedef struct KnownList
{
	Known	  **values;
	int			count;
	int			space;
} KnownList;

/* Values of which rows are known or expected. The contexts are emptied as a whole. */
typedef struct KnownValues
{
	MemoryContext context;		/* of the values, and of all that follow */
	MemoryContext rows;			/* of their rows */
	struct known_hash *table;
	KnownList	expected;
	KnownList	order;			/* all values that the Lookahead has told, in its order, in which
								 * the plan above asks for them */
	int			next;			/* in it */
} KnownValues;

/* How many values are looked up at once, by what the last statements took */
typedef struct LookupPace
{
	int			most;			/* as more have found too many rows */
	int			sent_values;	/* in the last statement, */
	instr_time	sent_at;
	double		value_ms;		/* and the time that each took; 0: not known */
	double		value_ms_before;	/* the same with the last other number of values */
} LookupPace;

/* Rows on their way to the plan above */
typedef struct LookupRows
{
	Known	   *current;		/* whose rows are handed on; NULL: ask for the parameters' values */
	int			next;			/* of them */
	bool		direct;			/* they come from the scan */
	TupleTableSlot *row;		/* columns and keys, to copy */
	TupleTableSlot *kept_row;
	int			column_count;	/* of a row */
	int			sort_count;		/* keys behind the columns */
	SortSupport sort;
} LookupRows;

/* For EXPLAIN and for later estimates */
typedef struct LookupCounters
{
	uint64		statements;
	uint64		values;			/* in them */
	uint64		rows;			/* found for them, as far as all were read */
	uint64		read_values;	/* whose rows were all read */
	uint64		lookups;
	bool		read_all;
} LookupCounters;

struct RfLookup
{
	CustomScanState css;		/* must be first */
	dlist_node	node;			/* in `lookups` */
	MemoryContextCallback gone;
	int			number;
	ForeignScanState *scan;
	LookupParams params;
	Keys	   *keys;			/* NULL: each row comes with the place of its values */
	RfSingleNode *single;		/* which node has the rows for their values; NULL: any may */
	int			part_count;		/* of the scan */
	KnownValues known;
	LookupPace	pace;
	LookupRows	rows;
	MemoryContext sent;			/* the arrays of the last statement */
	uint64		pass;			/* of the scan */
	LookupCounters counters;
};

/*
 * Starts the scan again, with these values as parameters. A lookup by keys may start it without
 * values instead: it then reads all rows of the table, or the rows that an earlier scan has kept.
 * The rows that the scan returns belong to a new pass.
 */
extern void rf_lookup_send(RfLookup *lookup, Known *const *values, int count);

#endif							/* RF_LOOKUP_STATE_H */
