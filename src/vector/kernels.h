/*
 * kernels.h - inside the room of columns: the rows of one page as columns, and expressions on them.
 *
 * A batch is what is visible on one page. Values stay in the places of their rows; which rows count
 * says a selection, an ascending list of places. A marked row stays selected: core decides about
 * it, and what kernels compute for it is not looked at.
 */
#ifndef RF_KERNELS_H
#define RF_KERNELS_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "nodes/params.h"
#include "nodes/primnodes.h"

#include "rdma_fdw/vector.h"

#define RF_BATCH_ROWS	MaxHeapTuplesPerPage

/* Kernels know how releases up to 18 store values, and what states of aggregates they have. */
#define RF_KERNELS_KNOW_SERVER	(PG_VERSION_NUM < 190000)

/* How a stored attribute is read. */
typedef enum RfVectorKind
{
	RF_VECTOR_1,				/* integers of so many bytes; 8 also the bits of a float8 */
	RF_VECTOR_2,
	RF_VECTOR_4,
	RF_VECTOR_8,
	RF_VECTOR_REF				/* where a value of variable length lies */
} RfVectorKind;

/* An attribute of the table. Values of NULLs are 0. */
typedef struct RfVector
{
	RfVectorKind kind;
	bool		has_nulls;		/* in this batch; otherwise no flag is set */
	int64	   *values;
	const char **refs;
	bool	   *nulls;
} RfVector;

typedef struct RfBatch
{
	uint32		number;			/* of the batch, from 1 */
	int			rows;
	int			selected;
	const char *page;			/* BLCKSZ bytes */
	uint16		selection[RF_BATCH_ROWS];
	uint8		marks[RF_BATCH_ROWS];
} RfBatch;

/* ---------- deform.c ---------- */

typedef struct RfDeform RfDeform;

/* NULL: tuples of this table cannot be taken apart so. */
extern RfDeform *rf_deform_create(TupleDesc desc);

/* An attribute (from 1) that will be found for each batch; NULL: not one of its type. */
extern RfVector *rf_deform_want(RfDeform *deform, AttrNumber attr);
extern void rf_deform_page(RfDeform *deform, const RfPageScan *scan);

/* ---------- scaled.c: numerics as integers ---------- */

/*
 * Numerics of a column with exactly `scale` digits behind the point, times 10^scale, for the
 * selected rows; marks those with another value. A NULL gives 0.
 */
extern void rf_scaled_read(const RfVector *vector, RfBatch *batch, int scale, int64 *to);

/* The same of any constant, with its own scale; false: it does not fit. */
extern bool rf_scaled_constant(Datum numeric, int64 *to, int *scale);
extern Datum rf_scaled_numeric(int128 value, int scale);

/* The image of a state of sum(numeric) and avg(numeric), or of these of int8, of so many rows. */
extern bytea * rf_scaled_state(int64 rows, int128 sum, int scale, bool of_numerics);

/* ---------- vector_expr.c ---------- */

typedef enum RfValueType
{
	RF_VALUE_INTEGER,			/* also dates and timestamps */
	RF_VALUE_SCALED,
	RF_VALUE_FLOAT				/* float8: its bits in `values` */
} RfValueType;

typedef enum ExprOp
{
	OP_COLUMN,					/* its values are the vector's */
	OP_NUMERIC,					/* made from references */
	OP_CONSTANT,
	OP_ADD,
	OP_SUBTRACT,
	OP_MULTIPLY,
	OP_DIVIDE,
	OP_TO_FLOAT,
	OP_CASE						/* left where `test` holds, otherwise right */
} ExprOp;

typedef struct RfExpr
{
	ExprOp		op;
	RfValueType type;
	int			bytes;			/* INTEGER: of the SQL type */
	int			scale;			/* SCALED */
	RfVector   *vector;
	struct RfExpr *left;
	struct RfExpr *right;
	struct RfCondition *test;
	uint32		batch;			/* whose values these are; constants: always */
	bool		constant;
	bool		has_nulls;
	int64	   *values;
	bool	   *nulls;
} RfExpr;

/* A float8 whose bits are an int64. */
static inline double
rf_float_of(int64 bits)
{
	double		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Where expressions find columns, and the values of parameters. */
typedef struct RfExprContext
{
	Index		relid;			/* of the scan's columns */
	RfDeform   *deform;
	TupleDesc	desc;
	List	   *outer;			/* target list behind OUTER_VAR; NIL: there is none */
	ParamListInfo params;
} RfExprContext;

#define RF_ROWS(batch, row) \
	for (int i_ = 0, row; i_ < (batch)->selected && (row = (batch)->selection[i_], true); i_++)

/* In the current memory context; NULL: it has no kernel. */
extern RfExpr *rf_expr_compile(const RfExprContext *context, Node *node);

/* expr, or 1 without it; NULL in rows without the condition. Returns NULL: that has no kernel. */
extern RfExpr *rf_expr_where(const RfExprContext *context, Node *condition, RfExpr *expr);

/* The same for a condition. */
extern struct RfCondition *rf_condition_compile(const RfExprContext *context, Node *node);

/* ---------- vector_eval.c ---------- */

typedef enum Comparison
{
	TEST_EQ, TEST_NE, TEST_LESS, TEST_LE, TEST_MORE, TEST_GE, TEST_NONE
} Comparison;

typedef enum ConditionKind
{
	CONDITION_COMPARE,
	CONDITION_NULLS,
	CONDITION_TEXT,
	CONDITION_ANY,
	CONDITION_ALL
} ConditionKind;

typedef struct Piece
{
	const char *text;
	int			length;
} Piece;

/* A condition: which selected rows stay. */
typedef struct RfCondition
{
	ConditionKind kind;
	Comparison	comparison;		/* COMPARE: of left and right */
	RfExpr	   *left;
	RfExpr	   *right;
	RfVector   *vector;			/* NULLS, TEXT */
	bool		wanted;			/* NULLS: NULL, TEXT: like the pieces; or not */
	int			piece_count;	/* 1: the whole text; otherwise its begin, its end, and between */
	Piece	   *pieces;
	bool		blanks;			/* trailing ones do not count */
	List	   *parts;			/* ANY, ALL */
} RfCondition;

/* Values and flags of the selected rows. May mark rows. */
extern void rf_expr_eval(RfExpr *expr, RfBatch *batch);

/* Leaves the selected rows for which the condition is true, and those that are marked. */
extern void rf_condition_apply(RfCondition *condition, RfBatch *batch);

/* ---------- row_filter.c, for columns.c ---------- */

struct RfRowFilter
{
	SeqScanState *node;
	RfExprContext context;		/* deform NULL: there are no kernels */
	RfBatch		batch;
	List	   *conditions;		/* RfConditions, from the first one of the plan on */
	List	   *kept;			/* the conditions without kernels, all after these */
	ExprState  *rest;			/* for rows that passed the kernels; NULL: nothing */
	int			asked;			/* the row that the scan's slot holds; -1: none of this batch */
	uint64		rows;			/* among the first ones, */
	uint64		marked;			/* and of these, that kernels marked */
	bool		hopeless;		/* kernels do not run: core decides about each row */
};

/*
 * Takes the page's tuples apart, and leaves the rows that pass the conditions with kernels; with
 * by_core neither, since core decides about each row.
 */
extern void rf_row_filter_select(RfRowFilter *filter, RfPageScan *scan, bool by_core);

/* Has core decide about a selected row, which the scan's slot then holds. */
extern bool rf_row_filter_ask(RfRowFilter *filter, RfPageScan *scan, int row);

/* ---------- groups.c: an Agg node's rows, most of which its node does not see ---------- */

typedef struct RfGroups RfGroups;

/*
 * For the Agg node above the filter's scan. NULL: some of its aggregates has no kernel; then
 * *without is the first such Aggref, or it stays NULL where another part of the node is the reason.
 */
extern RfGroups *rf_groups_create(AggState * agg, RfRowFilter *filter, Aggref **without);

/* All groups are forgotten: the node begins anew. */
extern void rf_groups_reset(RfGroups *groups);

/* The batch's rows are selected: finds the groups and the aggregates' arguments. */
extern void rf_groups_begin_batch(RfGroups *groups);

/* Takes a row that passed; false: the Agg node itself has to, after rf_groups_settle(). */
extern bool rf_groups_take(RfGroups *groups, int row);

/*
 * Adds the rows that were taken, and returns 0; or it cannot, marks them, and returns how many they
 * are: the caller goes back to the first of them.
 */
extern int	rf_groups_settle(RfGroups *groups);

/* The Agg node got this row, and has worked at it. */
extern void rf_groups_returned(RfGroups *groups, int row);

/* There are no more rows: the node's states become complete. */
extern void rf_groups_finish(RfGroups *groups);

#endif
