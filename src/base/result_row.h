/*
 * result_row.h - a row of a function that returns a set, filled from left to right.
 */
#ifndef RF_RESULT_ROW_H
#define RF_RESULT_ROW_H

#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#define RF_ROW_COLUMNS	48

/* All zero but for the function's result; used again for each row. */
typedef struct RfRow
{
	ReturnSetInfo *result;
	int			count;
	Datum		values[RF_ROW_COLUMNS];
	bool		nulls[RF_ROW_COLUMNS];
} RfRow;

#define RF_ROW(fcinfo)	{(ReturnSetInfo *) (fcinfo)->resultinfo}

/* NULL unless it is known */
static inline void
rf_put_if(RfRow *row, bool known, Datum value)
{
	row->nulls[row->count] = !known;
	row->values[row->count++] = value;
}

static inline void
rf_put(RfRow *row, Datum value)
{
	rf_put_if(row, true, value);
}

static inline void
rf_put_int(RfRow *row, int value)
{
	rf_put(row, Int32GetDatum(value));
}

static inline void
rf_put_number(RfRow *row, uint64 value)
{
	rf_put(row, Int64GetDatum((int64) value));
}

/* NULL for no text, and for an empty one */
static inline void
rf_put_text(RfRow *row, const char *value)
{
	bool		known = value != NULL && value[0] != '\0';

	rf_put_if(row, known, known ? CStringGetTextDatum(value) : (Datum) 0);
}

/* Stores the row, after InitMaterializedSRF. Columns that were not put are NULL. */
static inline void
rf_end_row(RfRow *row)
{
	while (row->count < row->result->setDesc->natts)
		rf_put_if(row, false, (Datum) 0);
	tuplestore_putvalues(row->result->setResult, row->result->setDesc, row->values, row->nulls);
	row->count = 0;
}

#endif
