/*
 * vector_expr.c - expressions and conditions on the columns of a batch.
 *
 * Two tables, by the OIDs of built-in functions, say what there are kernels for: arithmetic and
 * comparisons. Numbers are int64, or float8 by its bits; a numeric is an integer with a scale. A
 * constant is a column that was filled once.
 *
 * A result that may be an error, or that an int64 does not hold, marks its row.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "nodes/nodeFuncs.h"
#include "rdma_fdw/compat.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "kernels.h"

/* The largest scale of a column; products of larger ones do not fit. */
#define MAX_SCALE	12
#define MAX_BYTES	8

typedef enum ExprOp
{
	OP_COLUMN,					/* its values are the vector's */
	OP_NUMERIC,					/* made from references */
	OP_CONSTANT,
	OP_ADD,
	OP_SUBTRACT,
	OP_MULTIPLY,
	OP_TO_FLOAT
} ExprOp;

typedef enum Comparison
{
	TEST_EQ, TEST_NE, TEST_LESS, TEST_LE, TEST_MORE, TEST_GE, TEST_NONE
} Comparison;

/* Integers of several sizes, as core has a function for each pair. */
#define BOTH_SIZES(suffix, value) \
	{F_INT2##suffix, value, 2}, {F_INT4##suffix, value, 4}, {F_INT8##suffix, value, 8}, \
	{F_INT24##suffix, value, 4}, {F_INT42##suffix, value, 4}, {F_INT28##suffix, value, 8}, \
	{F_INT82##suffix, value, 8}, {F_INT48##suffix, value, 8}, {F_INT84##suffix, value, 8}

static const struct
{
	Oid			function;
	ExprOp		op;
	int			bytes;			/* of an integer result; 0: it is of the arguments' type */
}			arithmetic[] = {

	BOTH_SIZES(PL, OP_ADD), BOTH_SIZES(MI, OP_SUBTRACT), BOTH_SIZES(MUL, OP_MULTIPLY),
	{F_FLOAT8PL, OP_ADD, 0}, {F_FLOAT8MI, OP_SUBTRACT, 0}, {F_FLOAT8MUL, OP_MULTIPLY, 0},
	{F_NUMERIC_ADD, OP_ADD, 0}, {F_NUMERIC_SUB, OP_SUBTRACT, 0}, {F_NUMERIC_MUL, OP_MULTIPLY, 0},
};

#define ALL_COMPARISONS(type) \
	{F_##type##EQ, TEST_EQ}, {F_##type##NE, TEST_NE}, {F_##type##LT, TEST_LESS}, \
	{F_##type##LE, TEST_LE}, {F_##type##GT, TEST_MORE}, {F_##type##GE, TEST_GE}

static const struct
{
	Oid			function;
	Comparison	comparison;
}			comparisons[] = {

	ALL_COMPARISONS(INT2), ALL_COMPARISONS(INT4), ALL_COMPARISONS(INT8), ALL_COMPARISONS(INT24),
	ALL_COMPARISONS(INT42), ALL_COMPARISONS(INT28), ALL_COMPARISONS(INT82), ALL_COMPARISONS(INT48),
	ALL_COMPARISONS(INT84), ALL_COMPARISONS(FLOAT8), ALL_COMPARISONS(NUMERIC_),
	ALL_COMPARISONS(DATE_), ALL_COMPARISONS(TIMESTAMP_), ALL_COMPARISONS(TIMESTAMPTZ_),
};

/* A date with a constant timestamp; of equality there is no need. */
static const struct
{
	Oid			function;
	Comparison	comparison;
}			date_comparisons[] = {

	{F_DATE_LT_TIMESTAMP, TEST_LESS}, {F_DATE_LE_TIMESTAMP, TEST_LE},
	{F_DATE_GT_TIMESTAMP, TEST_MORE}, {F_DATE_GE_TIMESTAMP, TEST_GE},
};

/* Casts that change no integer. */
static const Oid same_value[] = {
	F_INT4_INT2, F_INT8_INT2, F_INT8_INT4, F_NUMERIC_INT2, F_NUMERIC_INT4, F_NUMERIC_INT8
};
static const Oid to_float[] = {F_FLOAT8_INT2, F_FLOAT8_INT4, F_FLOAT8_INT8};

static bool
is_among(Oid function, const Oid *list, int count)
{
	for (int i = 0; i < count; i++)
		if (list[i] == function)
			return true;
	return false;
}

/* ---------- expressions ---------- */

static RfExpr *
make_expr(ExprOp op, RfValueType type)
{
	RfExpr	   *expr = palloc0(sizeof(RfExpr));

	expr->op = op;
	expr->type = type;
	expr->bytes = MAX_BYTES;
	expr->values = palloc0(RF_BATCH_ROWS * sizeof(int64));
	expr->nulls = palloc0(RF_BATCH_ROWS * sizeof(bool));
	return expr;
}

/* What values of this type are here; false: it has no kernels. */
static bool
value_type(Oid type, int32 typmod, RfValueType *value, int *bytes, int *scale)
{
	*bytes = MAX_BYTES;
	*scale = 0;
	switch (type)
	{
		case INT2OID:
			*bytes = 2;
			*value = RF_VALUE_INTEGER;
			return true;
		case INT4OID:
		case DATEOID:
			*bytes = 4;
			*value = RF_VALUE_INTEGER;
			return true;
		case INT8OID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*value = RF_VALUE_INTEGER;
			return true;
		case FLOAT8OID:
			*value = RF_VALUE_FLOAT;
			return true;
		case NUMERICOID:
			/* as numeric_typmod_scale(): 11 bits, with a sign */
			if (typmod < (int32) VARHDRSZ)
				return false;
			*scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
			*value = RF_VALUE_SCALED;
			return *scale >= 0 && *scale <= MAX_SCALE;
		default:
			return false;
	}
}

static RfExpr *
make_constant(RfValueType type, int64 value)
{
	RfExpr	   *expr = make_expr(OP_CONSTANT, type);

	expr->constant = true;
	for (int i = 0; i < RF_BATCH_ROWS; i++)
		expr->values[i] = value;
	return expr;
}

/* A constant; NULL: it is NULL, of another type, or too long. */
static RfExpr *
compile_datum(Oid type, Datum datum, bool isnull)
{
	RfExpr	   *expr;
	RfValueType value;
	int			bytes;
	int			scale = 0;
	int64		number;

	if (isnull)
		return NULL;
	if (type == NUMERICOID)
	{
		if (!rf_scaled_constant(datum, &number, &scale) || scale > MAX_SCALE)
			return NULL;
		expr = make_constant(RF_VALUE_SCALED, number);
		expr->scale = scale;
		return expr;
	}
	if (!value_type(type, -1, &value, &bytes, &scale))
		return NULL;
	number = bytes == 2 ? DatumGetInt16(datum) :
		bytes == 4 ? DatumGetInt32(datum) : DatumGetInt64(datum);
	expr = make_constant(value, number);
	expr->bytes = bytes;
	return expr;
}

/* The value of a parameter that is known before the statement runs. */
static const ParamExternData *
known_param(const RfExprContext *context, const Param *param)
{
	if (param->paramkind != PARAM_EXTERN || context->params == NULL ||
		context->params->paramFetch != NULL || param->paramid < 1 ||
		param->paramid > context->params->numParams)
		return NULL;
	return &context->params->params[param->paramid - 1];
}

/* A constant, or a parameter that is one. */
static bool
known_value(const RfExprContext *context, Node *node, Oid *type, Datum *value, bool *isnull)
{
	if (IsA(node, Const))
	{
		*type = ((Const *) node)->consttype;
		*value = ((Const *) node)->constvalue;
		*isnull = ((Const *) node)->constisnull;
		return true;
	}
	if (IsA(node, Param))
	{
		const ParamExternData *param = known_param(context, (Param *) node);

		if (param == NULL || param->ptype != ((Param *) node)->paramtype)
			return false;
		*type = param->ptype;
		*value = param->value;
		*isnull = param->isnull;
		return true;
	}
	return false;
}

/* A column of the table, or what stands for it in the target list of the scan. */
static RfExpr *
compile_var(const RfExprContext *context, Var *var)
{
	Form_pg_attribute att;
	RfVector   *vector;
	RfExpr	   *expr;
	RfValueType type;
	int			bytes;
	int			scale;

	if (var->varno == OUTER_VAR && context->outer != NIL)
	{
		RfExprContext inner = *context;

		inner.outer = NIL;
		return rf_expr_compile(&inner, (Node *)
							   list_nth_node(TargetEntry, context->outer, var->varattno - 1)->expr);
	}
	if (var->varno != context->relid || var->varattno < 1 ||
		var->varattno > context->desc->natts)
		return NULL;
	att = TupleDescAttr(context->desc, var->varattno - 1);
	if (att->atttypid != var->vartype ||
		!value_type(att->atttypid, att->atttypmod, &type, &bytes, &scale) ||
		(vector = rf_deform_want(context->deform, var->varattno)) == NULL)
		return NULL;
	expr = make_expr(type == RF_VALUE_SCALED ? OP_NUMERIC : OP_COLUMN, type);
	expr->vector = vector;
	expr->bytes = bytes;
	expr->scale = scale;
	if (expr->op == OP_COLUMN)
		expr->values = vector->values;
	expr->nulls = vector->nulls;
	return expr;
}

/* Multiplies a scaled value so that it has a larger scale. */
static RfExpr *
rescale(RfExpr *expr, int scale)
{
	RfExpr	   *product;
	int64		factor = 1;

	if (expr->scale == scale)
		return expr;
	for (int i = expr->scale; i < scale; i++)
		factor *= 10;
	product = make_expr(OP_MULTIPLY, RF_VALUE_SCALED);
	product->left = expr;
	product->right = make_constant(RF_VALUE_SCALED, factor);
	product->scale = scale;
	return product;
}

/* Both of the same type and, if it is scaled, of the same scale; false: they are not. */
static bool
make_alike(RfExpr **left, RfExpr **right)
{
	int			scale = Max((*left)->scale, (*right)->scale);

	if ((*left)->type != (*right)->type)
		return false;
	if ((*left)->type == RF_VALUE_SCALED)
	{
		*left = rescale(*left, scale);
		*right = rescale(*right, scale);
	}
	return true;
}

/* Arithmetic: the arguments become alike, but for products of scaled values. */
static RfExpr *
compile_operator(const RfExprContext *context, Oid function, List *args)
{
	RfExpr	   *left;
	RfExpr	   *right;
	RfExpr	   *expr;
	int			entry = 0;
	int			scale;

	while (entry < lengthof(arithmetic) && arithmetic[entry].function != function)
		entry++;
	if (entry == lengthof(arithmetic) ||
		(left = rf_expr_compile(context, linitial(args))) == NULL ||
		(right = rf_expr_compile(context, lsecond(args))) == NULL)
		return NULL;
	scale = left->scale + right->scale;
	if (arithmetic[entry].op == OP_MULTIPLY ? left->type != right->type || scale > 2 * MAX_SCALE :
		!make_alike(&left, &right))
		return NULL;
	expr = make_expr(arithmetic[entry].op, left->type);
	expr->left = left;
	expr->right = right;
	expr->scale = expr->op == OP_MULTIPLY ? scale : left->scale;
	if (arithmetic[entry].bytes > 0)
		expr->bytes = arithmetic[entry].bytes;
	return expr;
}

/* Casts of integers. */
static RfExpr *
compile_cast(const RfExprContext *context, FuncExpr *call)
{
	RfExpr	   *from;
	RfExpr	   *expr;
	bool		same = is_among(call->funcid, same_value, lengthof(same_value));

	if (!same && !is_among(call->funcid, to_float, lengthof(to_float)))
		return NULL;
	from = rf_expr_compile(context, linitial(call->args));
	if (from == NULL || from->type != RF_VALUE_INTEGER)
		return NULL;
	if (!same)
	{
		expr = make_expr(OP_TO_FLOAT, RF_VALUE_FLOAT);
		expr->left = from;
		return expr;
	}
	/* adding nothing, in the new type */
	expr = make_expr(OP_ADD, call->funcresulttype == NUMERICOID ? RF_VALUE_SCALED :
					 RF_VALUE_INTEGER);
	expr->left = from;
	expr->right = make_constant(expr->type, 0);
	expr->bytes = call->funcresulttype == INT4OID ? 4 : MAX_BYTES;
	return expr;
}

RfExpr *
rf_expr_compile(const RfExprContext *context, Node *node)
{
	Oid			type;
	Datum		value;
	bool		isnull;

	check_stack_depth();
	if (known_value(context, node, &type, &value, &isnull))
		return compile_datum(type, value, isnull);
	switch (nodeTag(node))
	{
		case T_Var:
			return compile_var(context, (Var *) node);
		case T_OpExpr:
			return list_length(((OpExpr *) node)->args) != 2 ? NULL :
				compile_operator(context, ((OpExpr *) node)->opfuncid, ((OpExpr *) node)->args);
		case T_FuncExpr:
			return list_length(((FuncExpr *) node)->args) != 1 ? NULL :
				compile_cast(context, (FuncExpr *) node);
		case T_RelabelType:
			/* numeric(p, s) as numeric: values stay as they are */
			return exprType((Node *) ((RelabelType *) node)->arg) !=
				((RelabelType *) node)->resulttype ? NULL :
				rf_expr_compile(context, (Node *) ((RelabelType *) node)->arg);
		default:
			return NULL;
	}
}

/* ---------- their values ---------- */

#define ROWS(batch, row) \
	for (int i_ = 0, row; i_ < (batch)->selected && (row = (batch)->selection[i_], true); i_++)

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
		ROWS(batch, row)
			expr->nulls[row] = (left->has_nulls && left->nulls[row]) ||
				(right != NULL && right->has_nulls && right->nulls[row]);
}

/* Integers that leave the range of their type are an error in core. */
#define INTEGERS(overflows) \
	do { \
		ROWS(batch, row) \
		{ \
			int64		value; \
			bool		wrong = overflows(left[row], right[row], &value); \
			expr->values[row] = value; \
			batch->marks[row] |= wrong || value < least || value > most; \
		} \
	} while (0)

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
	else
		INTEGERS(__builtin_mul_overflow);
}

/*
 * A result that is not finite, or a product of 0 without a factor of 0, may be an error in core.
 */
#define FLOATS(operator, is_odd) \
	do { \
		ROWS(batch, row) \
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
	else
		FLOATS(*, value == 0 && a != 0 && b != 0);
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
	switch ((ExprOp) expr->op)
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
			ROWS(batch, row)
				expr->values[row] = as_bits((double) expr->left->values[row]);
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

/* ---------- conditions ---------- */

struct RfCondition
{
	Comparison	comparison;		/* of left and right; */
	RfExpr	   *left;
	RfExpr	   *right;
	RfVector   *vector;			/* or of a column's NULLs, */
	bool		wants_null;
	const char *text;			/* or of its text */
	int			length;
	bool		blanks;			/* trailing ones do not count */
};

static RfCondition *
compile_null_test(const RfExprContext *context, NullTest *test)
{
	Var		   *var = (Var *) test->arg;
	RfVector   *vector;
	RfCondition *condition;

	if (test->argisrow || !IsA(var, Var) || var->varno != context->relid ||
		(vector = rf_deform_want(context->deform, var->varattno)) == NULL)
		return NULL;
	condition = palloc0(sizeof(RfCondition));
	condition->comparison = TEST_NONE;
	condition->vector = vector;
	condition->wants_null = test->nulltesttype == IS_NULL;
	return condition;
}

/*
 * A column of text with a constant: for equality, deterministic collations compare bytes. bpchar
 * leaves trailing blanks out.
 */
static RfCondition *
compile_text(const RfExprContext *context, OpExpr *op)
{
	bool		blanks = op->opfuncid == F_BPCHAREQ || op->opfuncid == F_BPCHARNE;
	Node	   *side = linitial(op->args);
	Var		   *var;
	RfVector   *vector;
	RfCondition *condition;
	struct varlena *text;
	Oid			type;
	Datum		value;
	bool		isnull;

	if (!OidIsValid(op->inputcollid) ||
		(op->inputcollid != DEFAULT_COLLATION_OID &&
		 !get_collation_isdeterministic(op->inputcollid)) ||
		!known_value(context, lsecond(op->args), &type, &value, &isnull) || isnull ||
		(type != TEXTOID && type != VARCHAROID && type != BPCHAROID))
		return NULL;
	if (IsA(side, RelabelType))
		side = (Node *) ((RelabelType *) side)->arg;
	var = (Var *) side;
	if (!IsA(var, Var) || var->varno != context->relid ||
		(var->vartype != TEXTOID && var->vartype != VARCHAROID && var->vartype != BPCHAROID) ||
		blanks != (var->vartype == BPCHAROID) ||
		(vector = rf_deform_want(context->deform, var->varattno)) == NULL)
		return NULL;
	condition = palloc0(sizeof(RfCondition));
	condition->comparison = op->opfuncid == F_TEXTEQ || op->opfuncid == F_BPCHAREQ ? TEST_EQ :
		TEST_NE;
	condition->vector = vector;
	text = PG_DETOAST_DATUM_PACKED(value);
	condition->text = VARDATA_ANY(text);
	condition->length = VARSIZE_ANY_EXHDR(text);
	condition->blanks = blanks;
	while (blanks && condition->length > 0 && condition->text[condition->length - 1] == ' ')
		condition->length--;
	return condition;
}

/*
 * date < timestamp asks for a day: the first one that does not begin before that moment. Infinite
 * dates are the least and the largest number.
 */
static RfExpr *
compile_day(const RfExprContext *context, Node *node, Comparison comparison)
{
	Oid			type;
	Datum		value;
	bool		isnull;
	int64		moment;
	int64		day;

	if (!known_value(context, node, &type, &value, &isnull) || isnull || type != TIMESTAMPOID)
		return NULL;
	moment = DatumGetTimestamp(value);
	if (TIMESTAMP_NOT_FINITE(moment))
		return NULL;
	day = moment / USECS_PER_DAY;
	if (moment % USECS_PER_DAY < 0)
		day--;
	if (day * USECS_PER_DAY != moment &&
		(comparison == TEST_LESS || comparison == TEST_GE))
		day++;
	return make_constant(RF_VALUE_INTEGER, day);
}

/* Compares two expressions, or a date with a constant timestamp. */
static RfCondition *
compile_comparison(const RfExprContext *context, OpExpr *op)
{
	RfCondition *condition = palloc0(sizeof(RfCondition));

	condition->comparison = TEST_NONE;
	for (int i = 0; i < lengthof(comparisons); i++)
		if (comparisons[i].function == op->opfuncid)
			condition->comparison = comparisons[i].comparison;
	if (condition->comparison != TEST_NONE)
		condition->right = rf_expr_compile(context, lsecond(op->args));
	for (int i = 0; i < lengthof(date_comparisons); i++)
		if (date_comparisons[i].function == op->opfuncid)
		{
			condition->comparison = date_comparisons[i].comparison;
			condition->right = compile_day(context, lsecond(op->args), condition->comparison);
		}
	if (condition->right == NULL ||
		(condition->left = rf_expr_compile(context, linitial(op->args))) == NULL ||
		!make_alike(&condition->left, &condition->right))
		return NULL;
	return condition;
}

/* A condition that has a kernel; NULL: it has none. */
RfCondition *
rf_condition_compile(const RfExprContext *context, Node *node)
{
	OpExpr	   *op = (OpExpr *) node;

	if (IsA(node, NullTest))
		return compile_null_test(context, (NullTest *) node);
	if (!IsA(node, OpExpr) || list_length(op->args) != 2)
		return NULL;
	switch (op->opfuncid)
	{
		case F_TEXTEQ:
		case F_TEXTNE:
		case F_BPCHAREQ:
		case F_BPCHARNE:
			return compile_text(context, op);
		default:
			return compile_comparison(context, op);
	}
}

/* Marked rows stay: core decides about them. */
#define KEEP(test) \
	do { \
		int			kept = 0; \
		ROWS(batch, row) \
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

/* Rows whose text has the constant's bytes, or has others. */
static void
compare_text(const RfCondition *condition, RfBatch *batch)
{
	bool		wants_equal = condition->comparison == TEST_EQ;
	int			kept = 0;

	ROWS(batch, row)
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
		while (condition->blanks && length > condition->length && text[length - 1] == ' ')
			length--;
		kept += (length == condition->length &&
				 memcmp(text, condition->text, length) == 0) == wants_equal;
	}
	batch->selected = kept;
}

/* Shortens the selection; a comparison with NULL is not true. */
void
rf_condition_apply(RfCondition *condition, RfBatch *batch)
{
	if (condition->vector != NULL)
	{
		const bool *nulls = condition->vector->nulls;

		if (condition->comparison == TEST_NONE)
		{
			KEEP(nulls[row] == condition->wants_null);
			return;
		}
		if (condition->vector->has_nulls)
			drop_nulls(batch, nulls);
		compare_text(condition, batch);
		return;
	}
	rf_expr_eval(condition->left, batch);
	rf_expr_eval(condition->right, batch);
	if (condition->left->has_nulls)
		drop_nulls(batch, condition->left->nulls);
	if (condition->right->has_nulls)
		drop_nulls(batch, condition->right->nulls);
	compare(condition, batch);
}
