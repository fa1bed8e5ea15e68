/*
 * vector_expr.c - finds the kernels of expressions and conditions.
 *
 * Tables, by the OIDs of built-in functions, say what there are kernels for: arithmetic,
 * comparisons and tests of text. Numbers are int64, or float8 by its bits; a numeric is an integer
 * with a scale. A constant is a column that was filled once.
 *
 * NOT has no kernel, but planners turn it into other operators.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "rdma_fdw/compat.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "kernels.h"

/* The largest scale of a column; products of larger ones do not fit. */
#define MAX_SCALE	12
#define MAX_BYTES	8

/* Values of a list that are compared one by one; core looks for a longer list's by hashes. */
#define MAX_LIST		16

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
	BOTH_SIZES(DIV, OP_DIVIDE), {F_FLOAT8DIV, OP_DIVIDE, 0},
	{F_FLOAT8PL, OP_ADD, 0}, {F_FLOAT8MI, OP_SUBTRACT, 0}, {F_FLOAT8MUL, OP_MULTIPLY, 0},
	{F_NUMERIC_ADD, OP_ADD, 0}, {F_NUMERIC_SUB, OP_SUBTRACT, 0}, {F_NUMERIC_MUL, OP_MULTIPLY, 0},
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

static const struct
{
	Oid			function;
	bool		wanted;			/* or the opposite */
	bool		is_like;
	bool		is_bpchar;
}			text_tests[] = {

	{F_TEXTEQ, true, false, false}, {F_TEXTNE, false, false, false},
	{F_BPCHAREQ, true, false, true}, {F_BPCHARNE, false, false, true},
	{F_TEXTLIKE, true, true, false}, {F_TEXTNLIKE, false, true, false},
	{F_BPCHARLIKE, true, true, true}, {F_BPCHARNLIKE, false, true, true},
};

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

static RfExpr *
make_case(RfCondition *test, RfExpr *then, RfExpr *otherwise)
{
	RfExpr	   *expr = make_expr(OP_CASE, then->type);

	expr->test = test;
	expr->left = then;
	expr->right = otherwise;
	expr->bytes = then->bytes;
	expr->scale = then->scale;
	return expr;
}

/* NULL in all rows, of the same type as another expression. */
static RfExpr *
make_null(const RfExpr *like)
{
	RfExpr	   *expr = make_constant(like->type, 0);

	expr->bytes = like->bytes;
	expr->scale = like->scale;
	expr->has_nulls = true;
	memset(expr->nulls, true, RF_BATCH_ROWS * sizeof(bool));
	return expr;
}

RfExpr *
rf_expr_where(const RfExprContext *context, Node *condition, RfExpr *expr)
{
	RfCondition *test = rf_condition_compile(context, condition);

	if (test == NULL)
		return NULL;
	if (expr == NULL)
		expr = make_constant(RF_VALUE_INTEGER, 1);
	return make_case(test, expr, make_null(expr));
}

static bool
is_null_constant(Node *node)
{
	return node == NULL || (IsA(node, Const) && ((Const *) node)->constisnull);
}

/*
 * CASE WHEN condition THEN ...: arms are NULL, or of one type, and of one scale, as the scale of a
 * sum is that of the values which it has got.
 */
static RfExpr *
compile_case(const RfExprContext *context, CaseExpr *node)
{
	List	   *whens = node->args;
	RfExpr	   *result = NULL;

	if (node->arg != NULL)
		return NULL;
	if (!is_null_constant((Node *) node->defresult) &&
		(result = rf_expr_compile(context, (Node *) node->defresult)) == NULL)
		return NULL;
	for (int i = list_length(whens) - 1; i >= 0; i--)
	{
		CaseWhen   *when = list_nth_node(CaseWhen, whens, i);
		RfCondition *test = rf_condition_compile(context, (Node *) when->expr);
		RfExpr	   *then;

		if (test == NULL)
			return NULL;
		if (!is_null_constant((Node *) when->result))
			then = rf_expr_compile(context, (Node *) when->result);
		else
			then = result == NULL ? NULL : make_null(result);
		if (then == NULL)
			return NULL;
		if (result == NULL)
			result = make_null(then);
		if (then->type != result->type || then->scale != result->scale)
			return NULL;
		result = make_case(test, then, result);
	}
	return result;
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
		case T_CaseExpr:
			return compile_case(context, (CaseExpr *) node);
		case T_RelabelType:
			/* numeric(p, s) as numeric: values stay as they are */
			return exprType((Node *) ((RelabelType *) node)->arg) !=
				((RelabelType *) node)->resulttype ? NULL :
				rf_expr_compile(context, (Node *) ((RelabelType *) node)->arg);
		default:
			return NULL;
	}
}

/* ---------- conditions ---------- */

static RfCondition *
make_condition(ConditionKind kind)
{
	RfCondition *condition = palloc0(sizeof(RfCondition));

	condition->kind = kind;
	return condition;
}

/* A column of the scan, as it is or relabelled; NULL: it is none. */
static Var *
find_var(const RfExprContext *context, Node *node)
{
	Var		   *var;

	if (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	var = (Var *) node;
	if (IsA(var, Var) && var->varno == OUTER_VAR && context->outer != NIL)
	{
		RfExprContext inner = *context;

		inner.outer = NIL;
		return find_var(&inner, (Node *)
						list_nth_node(TargetEntry, context->outer, var->varattno - 1)->expr);
	}
	return IsA(var, Var) && var->varno == context->relid ? var : NULL;
}

static RfCondition *
compile_null_test(const RfExprContext *context, NullTest *test)
{
	Var		   *var = find_var(context, (Node *) test->arg);
	RfVector   *vector;
	RfCondition *condition;

	if (test->argisrow || var == NULL ||
		(vector = rf_deform_want(context->deform, var->varattno)) == NULL)
		return NULL;
	condition = make_condition(CONDITION_NULLS);
	condition->vector = vector;
	condition->wanted = test->nulltesttype == IS_NULL;
	return condition;
}

/*
 * The pieces of a pattern between its per cent signs. False: it has other signs, or the encoding
 * has characters that contain bytes of others.
 */
static bool
split_pattern(RfCondition *condition, const char *pattern, int length)
{
	const char *end = pattern + length;

	if (pg_database_encoding_max_length() > 1 && GetDatabaseEncoding() != PG_UTF8)
		return false;
	condition->pieces = palloc((length + 1) * sizeof(Piece));
	for (const char *at = pattern;; at++)
	{
		if (at < end && (*at == '_' || *at == '\\'))
			return false;
		if (at < end && *at != '%')
			continue;
		condition->pieces[condition->piece_count].text = pattern;
		condition->pieces[condition->piece_count++].length = at - pattern;
		if (at == end)
			return true;
		pattern = at + 1;
	}
}

/*
 * A column of text with a constant: under deterministic collations equality and LIKE are of bytes.
 * bpchar leaves trailing blanks out of equality.
 */
static RfCondition *
compile_text(const RfExprContext *context, OpExpr *op, bool wanted, bool is_like, bool is_bpchar)
{
	Var		   *var = find_var(context, linitial(op->args));
	RfVector   *vector;
	RfCondition *condition;
	struct varlena *text;
	int			length;
	Oid			type;
	Datum		value;
	bool		isnull;

	if (!OidIsValid(op->inputcollid) ||
		(op->inputcollid != DEFAULT_COLLATION_OID &&
		 !get_collation_isdeterministic(op->inputcollid)) ||
		!known_value(context, lsecond(op->args), &type, &value, &isnull) || isnull ||
		(type != TEXTOID && type != VARCHAROID && type != BPCHAROID) || var == NULL ||
		(var->vartype != TEXTOID && var->vartype != VARCHAROID && var->vartype != BPCHAROID) ||
		is_bpchar != (var->vartype == BPCHAROID) ||
		(vector = rf_deform_want(context->deform, var->varattno)) == NULL)
		return NULL;
	condition = make_condition(CONDITION_TEXT);
	condition->wanted = wanted;
	condition->vector = vector;
	condition->blanks = is_bpchar && !is_like;
	text = PG_DETOAST_DATUM_PACKED(value);
	length = VARSIZE_ANY_EXHDR(text);
	if (is_like)
		return split_pattern(condition, VARDATA_ANY(text), length) ? condition : NULL;
	condition->piece_count = 1;
	condition->pieces = palloc(sizeof(Piece));
	condition->pieces->text = VARDATA_ANY(text);
	while (condition->blanks && length > 0 && condition->pieces->text[length - 1] == ' ')
		length--;
	condition->pieces->length = length;
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
	RfCondition *condition = make_condition(CONDITION_COMPARE);

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

/* x = ANY (array) is an OR, x <> ALL (array) an AND of comparisons with each value. */
static RfCondition *
compile_list(const RfExprContext *context, ScalarArrayOpExpr *op)
{
	RfCondition *condition = make_condition(op->useOr ? CONDITION_ANY : CONDITION_ALL);
	Oid			type;
	Oid			element;
	Datum		value;
	bool		isnull;
	int16		length;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			count;

	if (!known_value(context, lsecond(op->args), &type, &value, &isnull) || isnull ||
		!OidIsValid(element = get_element_type(type)))
		return NULL;
	get_typlenbyvalalign(element, &length, &byval, &align);
	deconstruct_array(DatumGetArrayTypeP(value), element, length, byval, align, &values, &nulls,
					  &count);
	for (int i = 0; i < count && count <= MAX_LIST; i++)
	{
		OpExpr	   *one = makeNode(OpExpr);
		RfCondition *part;

		if (nulls[i] && op->useOr)
			continue;
		one->opno = op->opno;
		one->opfuncid = op->opfuncid;
		one->opresulttype = BOOLOID;
		one->inputcollid = op->inputcollid;
		one->args = list_make2(linitial(op->args),
							   makeConst(element, -1, op->inputcollid, length, values[i],
										 nulls[i], byval));
		part = rf_condition_compile(context, (Node *) one);
		if (part == NULL)
			return NULL;
		condition->parts = lappend(condition->parts, part);
	}
	/* a list without values compares nothing, but core computes x */
	return condition->parts == NIL ? NULL : condition;
}

/* AND, OR. */
static RfCondition *
compile_bool(const RfExprContext *context, BoolExpr *expr)
{
	RfCondition *condition = make_condition(expr->boolop == OR_EXPR ? CONDITION_ANY :
											CONDITION_ALL);
	ListCell   *lc;

	if (expr->boolop == NOT_EXPR)
		return NULL;
	foreach(lc, expr->args)
	{
		RfCondition *part = rf_condition_compile(context, lfirst(lc));

		if (part == NULL)
			return NULL;
		condition->parts = lappend(condition->parts, part);
	}
	return condition;
}

/* A condition that has a kernel; NULL: it has none. */
RfCondition *
rf_condition_compile(const RfExprContext *context, Node *node)
{
	OpExpr	   *op = (OpExpr *) node;

	check_stack_depth();
	if (IsA(node, NullTest))
		return compile_null_test(context, (NullTest *) node);
	if (IsA(node, BoolExpr))
		return compile_bool(context, (BoolExpr *) node);
	if (IsA(node, ScalarArrayOpExpr))
		return compile_list(context, (ScalarArrayOpExpr *) node);
	if (!IsA(node, OpExpr) || list_length(op->args) != 2)
		return NULL;
	for (int i = 0; i < lengthof(text_tests); i++)
		if (text_tests[i].function == op->opfuncid)
			return compile_text(context, op, text_tests[i].wanted, text_tests[i].is_like,
								text_tests[i].is_bpchar);
	return compile_comparison(context, op);
}
