/*
 * vector_eval.c - values of expressions on a batch's columns, and rows for which conditions hold.
 *
 * A result that may be an error, or that an int64 does not hold, marks its row. Both arms of a CASE
 * are computed for all rows, so a row may be marked for an arm that core does not evaluate for it.
 *
 * A row stays where a condition is true: OR and AND need not tell false from NULL. A marked row
 * stays in each part of a condition. OR has its expressions computed for all rows before it looks
 * at any, because an expression is computed once a batch.
 */
#include "postgres.h"

#include <math.h>

#include "rdma_fdw/compat.h"
#include "utils/float.h"

#include "kernels.h"

static void find_rows(RfCondition *condition, RfBatch *batch, bool *holds);

/* ---------- their values ---------- */

static inline int64
as_bits(double value)
{
	int64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void
combine_nulls(RfExpr *expr, const RfBatch *batch)
{
	const RfExpr *left = expr->left;
	const RfExpr *right = expr->right;

	expr->has_nulls = left->has_nulls || (right != NULL && right->has_nulls);
	if (expr->has_nulls)
		RF_ROWS(batch, row)
			expr->nulls[row] = (left->has_nulls && left->nulls[row]) ||
				(right != NULL && right->has_nulls && right->nulls[row]);
}

/* Integers that leave the range of their type are an error in core. */
#define INTEGERS(overflows) \
	do { \
		RF_ROWS(batch, row) \
		{ \
			int64		value; \
			bool		wrong = overflows(left[row], right[row], &value); \
			expr->values[row] = value; \
			batch->marks[row] |= wrong || value < least || value > most; \
		} \
	} while (0)

/* Is the quotient an error, or may be? */
static inline bool
divide_overflow(int64 a, int64 b, int64 *quotient)
{
	*quotient = 0;
	if (b == 0 || b == -1)
		return true;
	*quotient = a / b;
	return false;
}

/* Results out of the range of the type, and quotients by 0 and -1, are marked. */
static void
eval_integers(RfExpr *expr, RfBatch *batch)
{
	const int64 *left = expr->left->values;
	const int64 *right = expr->right->values;
	bool		narrow = expr->type == RF_VALUE_INTEGER;
	int64		least = !narrow || expr->bytes == 8 ? PG_INT64_MIN :
		expr->bytes == 4 ? PG_INT32_MIN : PG_INT16_MIN;
	int64		most = !narrow || expr->bytes == 8 ? PG_INT64_MAX :
		expr->bytes == 4 ? PG_INT32_MAX : PG_INT16_MAX;

	if (expr->op == OP_ADD)
		INTEGERS(__builtin_add_overflow);
	else if (expr->op == OP_SUBTRACT)
		INTEGERS(__builtin_sub_overflow);
	else if (expr->op == OP_DIVIDE)
		INTEGERS(divide_overflow);
	else
		INTEGERS(__builtin_mul_overflow);
}

/* A result that is not finite, or 0 without a factor or dividend of 0, may be an error in core. */
#define FLOATS(operator, is_odd) \
	do { \
		RF_ROWS(batch, row) \
		{ \
			double		a = rf_float_of(left[row]); \
			double		b = rf_float_of(right[row]); \
			double		value = a operator b; \
			expr->values[row] = as_bits(value); \
			batch->marks[row] |= !isfinite(value) || (is_odd); \
		} \
	} while (0)

static void
eval_floats(RfExpr *expr, RfBatch *batch)
{
	const int64 *left = expr->left->values;
	const int64 *right = expr->right->values;

	if (expr->op == OP_ADD)
		FLOATS(+, false);
	else if (expr->op == OP_SUBTRACT)
		FLOATS(-, false);
	else if (expr->op == OP_DIVIDE)
		FLOATS(/, b == 0 || (value == 0 && a != 0));
	else
		FLOATS(*, value == 0 && a != 0 && b != 0);
}

static void
eval_case(RfExpr *expr, RfBatch *batch)
{
	const RfExpr *left = expr->left;
	const RfExpr *right = expr->right;
	bool		holds[RF_BATCH_ROWS];

	find_rows(expr->test, batch, holds);
	expr->has_nulls = left->has_nulls || right->has_nulls;
	RF_ROWS(batch, row)
		expr->values[row] = holds[row] ? left->values[row] : right->values[row];
	if (expr->has_nulls)
		RF_ROWS(batch, row)
	{
		const RfExpr *arm = holds[row] ? left : right;

		expr->nulls[row] = arm->has_nulls && arm->nulls[row];
	}
}

void
rf_expr_eval(RfExpr *expr, RfBatch *batch)
{
	if (expr->constant || expr->batch == batch->number)
		return;
	expr->batch = batch->number;
	if (expr->left != NULL)
		rf_expr_eval(expr->left, batch);
	if (expr->right != NULL)
		rf_expr_eval(expr->right, batch);
	switch (expr->op)
	{
		case OP_CONSTANT:
			break;
		case OP_COLUMN:
			expr->has_nulls = expr->vector->has_nulls;
			break;
		case OP_NUMERIC:
			expr->has_nulls = expr->vector->has_nulls;
			rf_scaled_read(expr->vector, batch, expr->scale, expr->values);
			break;
		case OP_TO_FLOAT:
			combine_nulls(expr, batch);
			RF_ROWS(batch, row)
				expr->values[row] = as_bits((double) expr->left->values[row]);
			break;
		case OP_CASE:
			eval_case(expr, batch);
			break;
		default:
			combine_nulls(expr, batch);
			if (expr->type == RF_VALUE_FLOAT)
				eval_floats(expr, batch);
			else
				eval_integers(expr, batch);
			break;
	}
}

/* ---------- which rows stay ---------- */

/* Marked rows stay: core decides about them. */
#define KEEP(test) \
	do { \
		int			kept = 0; \
		RF_ROWS(batch, row) \
		{ \
			batch->selection[kept] = row; \
			kept += batch->marks[row] | (test); \
		} \
		batch->selected = kept; \
	} while (0)

#define COMPARE(value) \
	do { \
		switch (condition->comparison) \
		{ \
			case TEST_EQ: \
				KEEP(value##_eq(left[row], right[row])); \
				break; \
			case TEST_NE: \
				KEEP(!value##_eq(left[row], right[row])); \
				break; \
			case TEST_LESS: \
				KEEP(value##_lt(left[row], right[row])); \
				break; \
			case TEST_LE: \
				KEEP(!value##_lt(right[row], left[row])); \
				break; \
			case TEST_MORE: \
				KEEP(value##_lt(right[row], left[row])); \
				break; \
			default: \
				KEEP(!value##_lt(left[row], right[row])); \
				break; \
		} \
	} while (0)

#define integer_eq(a, b)	((a) == (b))
#define integer_lt(a, b)	((a) < (b))
/* core's own: NaN equals itself, and is the largest */
#define float_eq(a, b)		float8_eq(rf_float_of(a), rf_float_of(b))
#define float_lt(a, b)		float8_lt(rf_float_of(a), rf_float_of(b))

static void
compare(const RfCondition *condition, RfBatch *batch)
{
	const int64 *left = condition->left->values;
	const int64 *right = condition->right->values;

	if (condition->left->type == RF_VALUE_FLOAT)
		COMPARE(float);
	else
		COMPARE(integer);
}

/* Leaves rows whose value is not NULL. */
static void
drop_nulls(RfBatch *batch, const bool *nulls)
{
	KEEP(!nulls[row]);
}

/* Is the text what the pieces say? */
static inline bool
matches(const RfCondition *condition, const char *text, int length)
{
	const Piece *first = condition->pieces;
	const Piece *last = first + condition->piece_count - 1;

	if (first == last)
		return length == first->length && memcmp(text, first->text, length) == 0;
	length -= first->length + last->length;
	if (length < 0 || memcmp(text, first->text, first->length) != 0 ||
		memcmp(text + first->length + length, last->text, last->length) != 0)
		return false;
	text += first->length;
	for (const Piece *piece = first + 1; piece < last; piece++)
	{
		const char *found = memmem(text, length, piece->text, piece->length);

		if (found == NULL)
			return false;
		found += piece->length;
		length -= found - text;
		text = found;
	}
	return true;
}

/* Values that are compressed, or stored elsewhere, are core's. */
static void
compare_text(const RfCondition *condition, RfBatch *batch)
{
	int			kept = 0;

	RF_ROWS(batch, row)
	{
		const char *value = condition->vector->refs[row];
		const char *text;
		int			length;

		batch->selection[kept] = row;
		/* a marked row may have NULL */
		if (unlikely(batch->marks[row] || VARATT_IS_EXTERNAL(value) ||
					 VARATT_IS_COMPRESSED(value)))
		{
			batch->marks[row] = 1;
			kept++;
			continue;
		}
		text = VARDATA_ANY(value);
		length = VARSIZE_ANY_EXHDR(value);
		while (condition->blanks && length > condition->pieces->length && text[length - 1] == ' ')
			length--;
		kept += matches(condition, text, length) == condition->wanted;
	}
	batch->selected = kept;
}

/* Computes the condition's expressions for all rows that are selected now. */
static void
eval_parts(RfCondition *condition, RfBatch *batch)
{
	ListCell   *lc;

	if (condition->kind == CONDITION_COMPARE)
	{
		rf_expr_eval(condition->left, batch);
		rf_expr_eval(condition->right, batch);
	}
	foreach(lc, condition->parts)
		eval_parts(lfirst(lc), batch);
}

/* Leaves rows for which some part holds; each part sees the rows left out by those before it. */
static void
apply_any(RfCondition *condition, RfBatch *batch)
{
	uint16		rows[RF_BATCH_ROWS];
	bool		kept[RF_BATCH_ROWS];
	int			count = batch->selected;
	ListCell   *lc;

	eval_parts(condition, batch);
	memcpy(rows, batch->selection, count * sizeof(uint16));
	memset(kept, 0, batch->rows);
	foreach(lc, condition->parts)
	{
		rf_condition_apply(lfirst(lc), batch);
		RF_ROWS(batch, row)
			kept[row] = true;
		batch->selected = 0;
		for (int i = 0; i < count; i++)
		{
			batch->selection[batch->selected] = rows[i];
			batch->selected += !kept[rows[i]];
		}
	}
	batch->selected = 0;
	for (int i = 0; i < count; i++)
	{
		batch->selection[batch->selected] = rows[i];
		batch->selected += kept[rows[i]];
	}
}

/* Shortens the selection; a comparison with NULL is not true. */
void
rf_condition_apply(RfCondition *condition, RfBatch *batch)
{
	const bool *nulls;
	ListCell   *lc;

	switch (condition->kind)
	{
		case CONDITION_COMPARE:
			rf_expr_eval(condition->left, batch);
			rf_expr_eval(condition->right, batch);
			if (condition->left->has_nulls)
				drop_nulls(batch, condition->left->nulls);
			if (condition->right->has_nulls)
				drop_nulls(batch, condition->right->nulls);
			compare(condition, batch);
			break;
		case CONDITION_NULLS:
			nulls = condition->vector->nulls;
			KEEP(nulls[row] == condition->wanted);
			break;
		case CONDITION_TEXT:
			if (condition->vector->has_nulls)
				drop_nulls(batch, condition->vector->nulls);
			compare_text(condition, batch);
			break;
		case CONDITION_ANY:
			apply_any(condition, batch);
			break;
		case CONDITION_ALL:
			foreach(lc, condition->parts)
				rf_condition_apply(lfirst(lc), batch);
			break;
	}
}

/* Says of each selected row whether the condition holds; all stay. */
static void
find_rows(RfCondition *condition, RfBatch *batch, bool *holds)
{
	uint16		rows[RF_BATCH_ROWS];
	int			count = batch->selected;

	eval_parts(condition, batch);
	memcpy(rows, batch->selection, count * sizeof(uint16));
	memset(holds, 0, batch->rows);
	rf_condition_apply(condition, batch);
	RF_ROWS(batch, row)
		holds[row] = true;
	memcpy(batch->selection, rows, count * sizeof(uint16));
	batch->selected = count;
}
