/*
 * shippable.c
 *		May the data node evaluate an expression in our stead?
 *
 * Yes, if every type, function and operator in it is built in (or belongs to an extension that the
 * server's "extensions" option vouches for), if nothing in it is volatile or stable, if its
 * collations come from columns of the foreign table, and if the deparser can print each node.
 * A node kind that is not listed here is refused: the printer does not only print some nodes
 * wrongly, it crashes on some.  A stable part without columns is a value that is computed here and
 * sent along.
 *
 * Collations.  The two nodes need not agree on what the default collation is, nor have the same
 * named ones.  What is the same by definition is the collation of a foreign column: the data node
 * uses its own column's.  So a collation-sensitive operation is shipped only if its input collation
 * was brought in by a column of the foreign table, or by an explicit COLLATE "C" or "POSIX", which
 * are the same everywhere.  Each subexpression is given one of three states: its result has no
 * collation worth mentioning (or just the default one), it has one that both nodes know, or it has
 * one from elsewhere.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "deparse.h"

typedef enum CollationOrigin
{
	ORIGIN_NONE,				/* not collatable, or the default collation of no one's column */
	ORIGIN_COLUMN,				/* a foreign column's, or an explicit "C" */
	ORIGIN_ELSEWHERE			/* anything else, or a conflict */
} CollationOrigin;

typedef struct CollationState
{
	Oid			collation;
	CollationOrigin origin;
} CollationState;

typedef struct WalkContext
{
	PlannerInfo *root;
	Relids		relids;			/* whose columns the data node has; others' are parameters */
	RfRelInfo  *info;
	bool		in_case_test;	/* CaseTestExpr is legal here */
} WalkContext;

static bool walk(Node *node, WalkContext *cxt, CollationState *result);
static bool walk_list(List *nodes, WalkContext *cxt, CollationState *merged);
static bool walk_case(CaseExpr *expr, WalkContext *cxt, CollationState *inner);
static bool walk_aggregate(Aggref *agg, WalkContext *cxt, CollationState *inner);
static bool walk_window(WindowFunc *func, WalkContext *cxt, CollationState *inner);
static bool walk_subplan(SubPlan *subplan, WalkContext *cxt);

/*
 * Everything in template databases has an OID below this and is the same on every node of one
 * version.  Other objects count if their extension is listed in the server's option.
 */
static bool
is_shippable_object(Oid objectid, Oid classid, RfRelInfo *info)
{
	Oid			extension;

	if (objectid < FirstGenbkiObjectId)
		return true;
	if (info->opts.extensions == NIL)
		return false;
	extension = getExtensionOfObject(classid, objectid);
	return OidIsValid(extension) && list_member_oid(info->opts.extensions, extension);
}

/*
 * Values of these types mean something else on another node (OIDs of objects), or their text
 * depends on a setting that we cannot pin (money), or are not values of a definite type.
 */
bool
rf_is_shippable_type(Oid type, RfRelInfo *info)
{
	Oid			element;

	if (rf_type_names_objects(type))
		return false;
	switch (type)
	{
		case MONEYOID:
		case RECORDOID:
		case RECORDARRAYOID:
		case UNKNOWNOID:
			return false;
		default:
			break;
	}
	if (get_typtype(type) == TYPTYPE_PSEUDO)
		return false;
	/* An array goes where its elements go; it is no member of an extension on its own. */
	element = get_element_type(type);
	if (OidIsValid(element))
		return rf_is_shippable_type(element, info);
	return is_shippable_object(type, TypeRelationId, info);
}

static bool
is_shippable_function(Oid funcid, RfRelInfo *info)
{
	return is_shippable_object(funcid, ProcedureRelationId, info);
}

static bool
is_shippable_operator(Oid opno, RfRelInfo *info)
{
	return is_shippable_object(opno, OperatorRelationId, info);
}

/* Folds what a child brought into what its siblings brought. */
static void
merge_collation(CollationState *into, const CollationState *child)
{
	if (child->origin == ORIGIN_NONE || into->origin == ORIGIN_ELSEWHERE)
		return;
	if (into->origin == ORIGIN_NONE || child->origin == ORIGIN_ELSEWHERE)
	{
		*into = *child;
		return;
	}

	/* Both come from columns: an explicit collation beats the default, two of them conflict. */
	if (into->collation == child->collation || child->collation == DEFAULT_COLLATION_OID)
		return;
	if (into->collation == DEFAULT_COLLATION_OID)
		into->collation = child->collation;
	else
		into->origin = ORIGIN_ELSEWHERE;
}

/*
 * Functions that are passed a collation because an argument is text, and do not look at it.
 * Equality is among them because a default collation is always deterministic.
 */
static bool
ignores_collation(Oid funcid)
{
	switch (funcid)
	{
		case F_TEXTEQ:
		case F_TEXTNE:
		case F_BPCHAREQ:
		case F_BPCHARNE:
		case F_TEXTCAT:
		case F_LENGTH_TEXT:
		case F_LENGTH_BPCHAR:
		case F_CHAR_LENGTH_TEXT:
		case F_CHARACTER_LENGTH_TEXT:
		case F_OCTET_LENGTH_TEXT:
		case F_OCTET_LENGTH_BPCHAR:
		case F_SUBSTR_TEXT_INT4:
		case F_SUBSTR_TEXT_INT4_INT4:
		case F_SUBSTRING_TEXT_INT4:
		case F_SUBSTRING_TEXT_INT4_INT4:
		case F_LEFT:
		case F_RIGHT:
		case F_DATE_PART_TEXT_DATE:
		case F_DATE_PART_TEXT_TIME:
		case F_DATE_PART_TEXT_TIMETZ:
		case F_DATE_PART_TEXT_TIMESTAMP:
		case F_DATE_PART_TEXT_INTERVAL:
		case F_EXTRACT_TEXT_DATE:
		case F_EXTRACT_TEXT_TIME:
		case F_EXTRACT_TEXT_TIMETZ:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_EXTRACT_TEXT_INTERVAL:
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_INTERVAL:
		case F_TIMEZONE_TEXT_TIMESTAMP:
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
		case F_JSON_OBJECT_FIELD:
		case F_JSON_OBJECT_FIELD_TEXT:
		case F_JSONB_OBJECT_FIELD:
		case F_JSONB_OBJECT_FIELD_TEXT:
		case F_JSON_EXTRACT_PATH:
		case F_JSON_EXTRACT_PATH_TEXT:
		case F_JSONB_EXTRACT_PATH:
		case F_JSONB_EXTRACT_PATH_TEXT:
		case F_JSONB_EXISTS:
		case F_JSONB_EXISTS_ANY:
		case F_JSONB_EXISTS_ALL:
			return true;
		default:
			return false;
	}
}

/*
 * May a function that is given this collation be shipped, considering where its inputs' come from?
 */
static bool
input_collation_ok(Oid inputcollid, Oid funcid, const CollationState *inner)
{
	if (!OidIsValid(inputcollid))
		return true;
	if (inner->origin == ORIGIN_COLUMN)
		return inputcollid == inner->collation;
	return inner->origin == ORIGIN_NONE && inputcollid == DEFAULT_COLLATION_OID &&
		ignores_collation(funcid);
}

/* The state of a node whose result has this collation, from the state of its inputs. */
static CollationState
derived_collation(Oid collation, const CollationState *inner)
{
	CollationState state = {collation, ORIGIN_ELSEWHERE};

	if (!OidIsValid(collation))
		state.origin = ORIGIN_NONE;
	else if (inner->origin == ORIGIN_COLUMN && inner->collation == collation)
		state.origin = ORIGIN_COLUMN;
	else if (collation == DEFAULT_COLLATION_OID)
		state.origin = ORIGIN_NONE;
	return state;
}

/*
 * For values that do not come from the foreign table: constants, parameters, outer columns.  A type
 * that has a collation of its own (name) has the same one on every node.
 */
static CollationState
visitor_collation(Oid collation, Oid type)
{
	CollationState state = {collation, ORIGIN_ELSEWHERE};

	if (!OidIsValid(collation) || collation == DEFAULT_COLLATION_OID ||
		collation == get_typcollation(type))
		state.origin = ORIGIN_NONE;
	return state;
}

/* Casts through text, where the text does not depend on settings. */
static bool
is_plain_text_type(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case NUMERICOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case UUIDOID:
			return true;
		default:
			return false;
	}
}

static bool
walk_list(List *nodes, WalkContext *cxt, CollationState *merged)
{
	ListCell   *lc;

	foreach(lc, nodes)
	{
		CollationState state = {InvalidOid, ORIGIN_NONE};

		if (!walk((Node *) lfirst(lc), cxt, &state))
			return false;
		merge_collation(merged, &state);
	}
	return true;
}

/*
 * "CASE x WHEN y" prints right only if every WHEN still is "CaseTestExpr = y"; once the planner has
 * inlined the operator it is not.
 */
static bool
walk_case(CaseExpr *expr, WalkContext *cxt, CollationState *inner)
{
	CollationState arg = {InvalidOid, ORIGIN_NONE};
	ListCell   *lc;

	if (expr->arg && !walk((Node *) expr->arg, cxt, &arg))
		return false;

	foreach(lc, expr->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);
		CollationState state = {InvalidOid, ORIGIN_NONE};

		if (expr->arg)
		{
			OpExpr	   *op = (OpExpr *) when->expr;
			Node	   *left;
			CollationState right = {InvalidOid, ORIGIN_NONE};

			if (!IsA(op, OpExpr) || list_length(op->args) != 2)
				return false;
			left = strip_implicit_coercions(linitial(op->args));
			if (!IsA(left, CaseTestExpr) ||
				!is_shippable_operator(op->opno, cxt->info) ||
				!walk(lsecond(op->args), cxt, &right))
				return false;
			merge_collation(&right, &arg);
			if (!input_collation_ok(op->inputcollid, get_opcode(op->opno), &right))
				return false;
		}
		else if (!walk((Node *) when->expr, cxt, &state))
			return false;

		state.collation = InvalidOid;
		state.origin = ORIGIN_NONE;
		if (!walk((Node *) when->result, cxt, &state))
			return false;
		merge_collation(inner, &state);
	}

	if (expr->defresult)
	{
		CollationState state = {InvalidOid, ORIGIN_NONE};

		if (!walk((Node *) expr->defresult, cxt, &state))
			return false;
		merge_collation(inner, &state);
	}
	return true;
}

/*
 * A sub-select with its arguments, which are expressions of the query around it, and with its left
 * side: "x op ANY (SELECT ...)", where op's right operand is what the sub-select gives, as it is.
 */
static bool
walk_subplan(SubPlan *subplan, WalkContext *cxt)
{
	CollationState state = {InvalidOid, ORIGIN_NONE};
	OpExpr	   *test = (OpExpr *) subplan->testexpr;
	Param	   *param;
	ListCell   *lc;

	if (!rf_subselect_is_shippable(cxt->root, cxt->info, subplan))
		return false;
	foreach(lc, subplan->args)
	{
		state.collation = InvalidOid;
		state.origin = ORIGIN_NONE;
		if (!walk((Node *) lfirst(lc), cxt, &state) || state.origin == ORIGIN_ELSEWHERE)
			return false;
	}
	if (test == NULL)
		return true;
	if (!IsA(test, OpExpr) || list_length(test->args) != 2)
		return false;
	param = (Param *) lsecond(test->args);
	if (!IsA(param, Param) || param->paramkind != PARAM_EXEC ||
		list_length(subplan->paramIds) != 1 || param->paramid != linitial_int(subplan->paramIds))
		return false;
	state = visitor_collation(param->paramcollid, param->paramtype);
	return is_shippable_operator(test->opno, cxt->info) &&
		walk_list(list_make1(linitial(test->args)), cxt, &state) &&
		input_collation_ok(test->inputcollid, get_opcode(test->opno), &state);
}

/* The SELECT that a column of the statement comes from, or NULL. */
static RfSelect *
select_of(Var *var, WalkContext *cxt)
{
	RelOptInfo *rel = cxt->root->simple_rel_array[var->varno];
	RfRelInfo  *info = rel ? (RfRelInfo *) rel->fdw_private : NULL;

	return info ? info->select : NULL;
}

/* A foreign column's collation the data node has; of a SELECT's it depends on what it is made of. */
static bool
is_collated(RfSelect *select, Var *var)
{
	return select == NULL || bms_is_member(var->varattno, select->collated);
}

static bool
walk_var(Var *var, WalkContext *cxt, CollationState *result)
{
	bool		collated;

	if (var->varlevelsup != 0)
		return false;
	if (bms_is_member(var->varno, cxt->relids))
	{
		/* whole rows and the coordinator's own system columns stay here */
		if (var->varattno == 0 ||
			(var->varattno < 0 && var->varattno != SelfItemPointerAttributeNumber))
			return false;
		collated = !OidIsValid(var->varcollid) || is_collated(select_of(var, cxt), var);
	}
	else
		collated = var->varno == 0 && is_collated(cxt->info->select, var);

	if (collated)
	{
		result->collation = var->varcollid;
		result->origin = OidIsValid(var->varcollid) ? ORIGIN_COLUMN : ORIGIN_NONE;
	}
	else
		*result = visitor_collation(var->varcollid, var->vartype);
	return true;
}

static bool
walk_subscripts(SubscriptingRef *ref, WalkContext *cxt, CollationState *result)
{
	CollationState subscripts = {InvalidOid, ORIGIN_NONE};
	CollationState container = {InvalidOid, ORIGIN_NONE};

	/* The subscripts' collations have no bearing on the element's. */
	if (ref->refassgnexpr != NULL ||
		!walk_list(ref->refupperindexpr, cxt, &subscripts) ||
		!walk_list(ref->reflowerindexpr, cxt, &subscripts) ||
		!walk((Node *) ref->refexpr, cxt, &container))
		return false;
	*result = derived_collation(ref->refcollid, &container);
	return true;
}

/* A function's arguments, and whether it may be given this collation. */
static bool
walk_arguments(List *args, Oid inputcollid, Oid funcid, WalkContext *cxt, CollationState *inner)
{
	return walk_list(args, cxt, inner) && input_collation_ok(inputcollid, funcid, inner);
}

/* An array's cast prints as a plain cast; the element expression only decides if it is ours. */
static bool
walk_array_cast(ArrayCoerceExpr *coerce, WalkContext *cxt, CollationState *inner)
{
	CollationState element = {InvalidOid, ORIGIN_NONE};
	bool		outer_case_test = cxt->in_case_test;
	bool		ok;

	if (!walk((Node *) coerce->arg, cxt, inner))
		return false;
	cxt->in_case_test = true;
	ok = walk((Node *) coerce->elemexpr, cxt, &element);
	cxt->in_case_test = outer_case_test;
	return ok;
}

/* A boolean made of comparisons in pairs, each with a collation of its own. */
static bool
walk_row_comparison(RowCompareExpr *row, WalkContext *cxt)
{
	ListCell   *left;
	ListCell   *right;
	ListCell   *op;
	ListCell   *collation;

	forfour(left, row->largs, right, row->rargs, op, row->opnos, collation, row->inputcollids)
	{
		CollationState pair = {InvalidOid, ORIGIN_NONE};

		if (!is_shippable_operator(lfirst_oid(op), cxt->info) ||
			!walk_arguments(list_make2(lfirst(left), lfirst(right)), lfirst_oid(collation),
							get_opcode(lfirst_oid(op)), cxt, &pair))
			return false;
	}
	return true;
}

static bool
walk_placeholder(PlaceHolderVar *placeholder, WalkContext *cxt, CollationState *result)
{
	Relids		relids = rf_evaluated_at(cxt->root, placeholder);

	return placeholder->phlevelsup == 0 &&
		!bms_is_empty(relids) && bms_is_subset(relids, cxt->relids) &&
		walk((Node *) placeholder->phexpr, cxt, result);
}

/* Function calls in any syntax. A result that is not text has no collation, and *result stays. */
static bool
walk_call(Node *node, WalkContext *cxt, CollationState *result)
{
	CollationState inner = {InvalidOid, ORIGIN_NONE};
	RfRelInfo  *info = cxt->info;

	switch (nodeTag(node))
	{
		case T_FuncExpr:
			{
				FuncExpr   *func = (FuncExpr *) node;

				if (func->funcretset || !is_shippable_function(func->funcid, info) ||
					!walk_arguments(func->args, func->inputcollid, func->funcid, cxt, &inner))
					return false;
				*result = derived_collation(func->funccollid, &inner);
				return true;
			}

		case T_OpExpr:
		case T_DistinctExpr:	/* the same struct under other tags */
		case T_NullIfExpr:
			{
				OpExpr	   *op = (OpExpr *) node;

				if (op->opretset || !is_shippable_operator(op->opno, info) ||
					!walk_arguments(op->args, op->inputcollid, get_opcode(op->opno), cxt, &inner))
					return false;
				*result = derived_collation(op->opcollid, &inner);
				return true;
			}

		case T_ScalarArrayOpExpr:
			{
				ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) node;

				/* a boolean */
				return is_shippable_operator(op->opno, info) &&
					walk_arguments(op->args, op->inputcollid, get_opcode(op->opno), cxt, &inner);
			}

		case T_MinMaxExpr:
			{
				MinMaxExpr *minmax = (MinMaxExpr *) node;
				TypeCacheEntry *type = lookup_type_cache(minmax->minmaxtype, TYPECACHE_CMP_PROC);

				if (!OidIsValid(type->cmp_proc) || !is_shippable_function(type->cmp_proc, info) ||
					!walk_arguments(minmax->args, minmax->inputcollid, type->cmp_proc, cxt, &inner))
					return false;
				*result = derived_collation(minmax->minmaxcollid, &inner);
				return true;
			}

		case T_Aggref:
			if (!info->grouped || !walk_aggregate((Aggref *) node, cxt, &inner))
				return false;
			*result = derived_collation(((Aggref *) node)->aggcollid, &inner);
			return true;

		case T_GroupingFunc:
			return info->grouped && ((GroupingFunc *) node)->agglevelsup == 0 &&
				walk_list(((GroupingFunc *) node)->args, cxt, &inner);

		case T_WindowFunc:
			if (!info->windowed || !walk_window((WindowFunc *) node, cxt, &inner))
				return false;
			*result = derived_collation(((WindowFunc *) node)->wincollid, &inner);
			return true;

		default:
			return false;
	}
}

/* Casts and conditional expressions: their collation comes from their inputs. */
static bool
walk_conversion(Node *node, WalkContext *cxt, CollationState *result)
{
	CollationState inner = {InvalidOid, ORIGIN_NONE};

	switch (nodeTag(node))
	{
		case T_RelabelType:
			if (!walk((Node *) ((RelabelType *) node)->arg, cxt, &inner))
				return false;
			break;

		case T_CoerceViaIO:
			{
				CoerceViaIO *coerce = (CoerceViaIO *) node;

				if (!is_plain_text_type(exprType((Node *) coerce->arg)) ||
					!is_plain_text_type(coerce->resulttype) ||
					!walk((Node *) coerce->arg, cxt, &inner))
					return false;
				break;
			}

		case T_ArrayCoerceExpr:
			if (!walk_array_cast((ArrayCoerceExpr *) node, cxt, &inner))
				return false;
			break;

		case T_CaseExpr:
			if (!walk_case((CaseExpr *) node, cxt, &inner))
				return false;
			break;

		case T_CoalesceExpr:
			if (!walk_list(((CoalesceExpr *) node)->args, cxt, &inner))
				return false;
			break;

		case T_ArrayExpr:
			if (!walk_list(((ArrayExpr *) node)->elements, cxt, &inner))
				return false;
			break;

		default:
			return false;
	}

	*result = derived_collation(exprCollation(node), &inner);
	if (IsA(node, RelabelType) && rf_is_explicit_collation(node))
		result->origin = ORIGIN_COLUMN;
	return true;
}

/*
 * Returns whether the expression may be shipped, whatever the type of its result; if so *result
 * says where its collation comes from.
 */
static bool
walk_node(Node *node, WalkContext *cxt, CollationState *result)
{
	CollationState inner = {InvalidOid, ORIGIN_NONE};

	switch (nodeTag(node))
	{
		case T_Var:
			return walk_var((Var *) node, cxt, result);

		case T_Const:
			*result = visitor_collation(((Const *) node)->constcollid,
										((Const *) node)->consttype);
			if (rf_is_explicit_collation(node))
				result->origin = ORIGIN_COLUMN;
			return true;

		case T_Param:
			*result = visitor_collation(((Param *) node)->paramcollid, ((Param *) node)->paramtype);
			return ((Param *) node)->paramkind == PARAM_EXTERN ||
				((Param *) node)->paramkind == PARAM_EXEC;

		case T_CaseTestExpr:
			*result = visitor_collation(((CaseTestExpr *) node)->collation,
										((CaseTestExpr *) node)->typeId);
			return cxt->in_case_test;

		case T_SubscriptingRef:
			return walk_subscripts((SubscriptingRef *) node, cxt, result);

		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_MinMaxExpr:
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
			return walk_call(node, cxt, result);

		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CaseExpr:
		case T_CoalesceExpr:
		case T_ArrayExpr:
			return walk_conversion(node, cxt, result);

		case T_BoolExpr:
			return walk_list(((BoolExpr *) node)->args, cxt, &inner);

		case T_NullTest:
			/* of a row it would look into the fields */
			return !((NullTest *) node)->argisrow &&
				walk((Node *) ((NullTest *) node)->arg, cxt, &inner);

		case T_BooleanTest:
			return walk((Node *) ((BooleanTest *) node)->arg, cxt, &inner);

		case T_RowCompareExpr:
			return walk_row_comparison((RowCompareExpr *) node, cxt);

		case T_AlternativeSubPlan:
			return walk_node(linitial(((AlternativeSubPlan *) node)->subplans), cxt, result);

		case T_SubPlan:
			*result = visitor_collation(exprCollation(node), exprType(node));
			return walk_subplan((SubPlan *) node, cxt);

		case T_PlaceHolderVar:
			return walk_placeholder((PlaceHolderVar *) node, cxt, result);

		default:

			/* Row constructors, SQL value functions and whatever a later release adds. */
			return false;
	}
}

/* Returns whether node may be shipped; if so *result says where its collation comes from. */
static bool
walk(Node *node, WalkContext *cxt, CollationState *result)
{
	if (node == NULL)
		return true;
	check_stack_depth();

	if (rf_is_local_value(node))
		*result = visitor_collation(exprCollation(node), exprType(node));
	else if (!walk_node(node, cxt, result))
		return false;
	return rf_is_shippable_type(exprType(node), cxt->info);
}

/* Of a type that has it, the operator is what plain ORDER BY or ORDER BY ... DESC means. */
static bool
is_default_ordering(Oid sortop, Oid type)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);

	return OidIsValid(sortop) && (sortop == entry->lt_opr || sortop == entry->gt_opr);
}

/* Sorting by a text needs to know the collation, even where none was mentioned. */
static bool
walk_sort_key(Node *expr, Oid sortop, WalkContext *cxt)
{
	CollationState state = {InvalidOid, ORIGIN_NONE};
	Oid			collation = exprCollation(expr);

	if (!is_default_ordering(sortop, exprType(expr)) || !is_shippable_operator(sortop, cxt->info) ||
		!walk(expr, cxt, &state))
		return false;
	if (!OidIsValid(collation))
		return true;
	if (state.origin == ORIGIN_COLUMN)
		return state.collation == collation;
	/* name's own collation is the same everywhere */
	return state.origin == ORIGIN_NONE && collation != DEFAULT_COLLATION_OID;
}

/* Sort clauses over the columns of tlist. */
static bool
walk_sort_clauses(List *clauses, List *tlist, WalkContext *cxt)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Node	   *expr = (Node *) get_sortgroupref_tle(clause->tleSortGroupRef, tlist)->expr;

		if (!walk_sort_key(expr, clause->sortop, cxt))
			return false;
	}
	return true;
}

/*
 * The whole aggregate, or its state.  DISTINCT needs no look of its own, as its columns are among
 * the arguments and equality is what their types say.
 */
static bool
walk_aggregate(Aggref *agg, WalkContext *cxt, CollationState *inner)
{
	ListCell   *lc;

	if (agg->agglevelsup != 0 ||
		!is_shippable_function(agg->aggfnoid, cxt->info) ||
		func_volatile(agg->aggfnoid) != PROVOLATILE_IMMUTABLE ||
		!(cxt->info->partial ? rf_partial_agg_is_shippable(cxt->root, cxt->info, agg) :
		  agg->aggsplit == AGGSPLIT_SIMPLE) ||
		!walk_list(agg->aggdirectargs, cxt, inner))
		return false;

	foreach(lc, agg->args)
	{
		CollationState state = {InvalidOid, ORIGIN_NONE};
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!walk((Node *) tle->expr, cxt, &state))
			return false;
		/* what only sorts the input brings no collation, but its own is checked below */
		if (!tle->resjunk)
			merge_collation(inner, &state);
	}
	if (!walk_sort_clauses(agg->aggorder, agg->args, cxt))
		return false;
	if (agg->aggfilter != NULL)
	{
		CollationState state = {InvalidOid, ORIGIN_NONE};

		if (!walk((Node *) agg->aggfilter, cxt, &state))
			return false;
	}
	return input_collation_ok(agg->inputcollid, agg->aggfnoid, inner);
}

static bool
walk_window(WindowFunc *func, WalkContext *cxt, CollationState *inner)
{
	WindowClause *window = NULL;
	CollationState state = {InvalidOid, ORIGIN_NONE};
	List	   *tlist = cxt->root->processed_tlist;
	ListCell   *lc;

	if (!is_shippable_function(func->winfnoid, cxt->info) ||
		func_volatile(func->winfnoid) != PROVOLATILE_IMMUTABLE ||
		!walk_list(func->args, cxt, inner) ||
		!walk((Node *) func->aggfilter, cxt, &state) ||
		!input_collation_ok(func->inputcollid, func->winfnoid, inner))
		return false;

	foreach(lc, cxt->root->parse->windowClause)
	{
		if (lfirst_node(WindowClause, lc)->winref == func->winref)
			window = lfirst_node(WindowClause, lc);
	}
	if (window == NULL)
		return false;
	foreach(lc, window->partitionClause)
	{
		Index		ref = lfirst_node(SortGroupClause, lc)->tleSortGroupRef;

		if (!walk((Node *) get_sortgroupref_tle(ref, tlist)->expr, cxt, &state))
			return false;
	}
	return walk_sort_clauses(window->orderClause, tlist, cxt) &&
		walk(window->startOffset, cxt, &state) && walk(window->endOffset, cxt, &state) &&
		(!OidIsValid(window->startInRangeFunc) ||
		 is_shippable_function(window->startInRangeFunc, cxt->info)) &&
		(!OidIsValid(window->endInRangeFunc) ||
		 is_shippable_function(window->endInRangeFunc, cxt->info));
}

bool
rf_is_explicit_collation(Node *node)
{
	Oid			collation = exprCollation(node);

	if ((collation != C_COLLATION_OID && collation != POSIX_COLLATION_OID) ||
		collation == get_typcollation(exprType(node)))
		return false;
	return IsA(node, Const) ||
		(IsA(node, RelabelType) &&
		 exprCollation((Node *) ((RelabelType *) node)->arg) != collation);
}

static bool
contains_columns(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_PlaceHolderVar:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_SubLink:
		case T_CaseTestExpr:	/* part of something */
		case T_CoerceToDomainValue:
			return true;
		default:
			return expression_tree_walker(node, contains_columns, unused);
	}
}

bool
rf_is_local_value(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcretset)
				return false;
			break;
		case T_OpExpr:
		case T_CoerceViaIO:
		case T_RelabelType:
		case T_SQLValueFunction:
		case T_CaseExpr:
		case T_CoalesceExpr:
			break;
		default:
			return false;
	}
	return contain_mutable_functions(node) && !contain_volatile_functions(node) &&
		!contains_columns(node, NULL);
}

/* Values of that kind as parameters, so that what remains shows whether it is immutable. */
static Node *
hide_local_values(Node *node, void *unused)
{
	if (node == NULL)
		return NULL;
	if (rf_is_local_value(node))
		return (Node *) makeNullConst(exprType(node), exprTypmod(node), exprCollation(node));
	return expression_tree_mutator(node, hide_local_values, unused);
}

/* Even "immutable built-in" excludes now(), random() and casts that depend on the time zone. */
static bool
is_immutable(Node *expr)
{
	return !contain_mutable_functions(expr) ||
		!contain_mutable_functions(hide_local_values(expr, NULL));
}

static void
init_context(WalkContext *cxt, PlannerInfo *root, RelOptInfo *rel)
{
	cxt->root = root;
	cxt->info = (RfRelInfo *) rel->fdw_private;
	cxt->relids = cxt->info->scanrel ? cxt->info->scanrel->relids : rel->relids;
	cxt->in_case_test = false;
}

bool
rf_is_shippable_expr(PlannerInfo *root, RelOptInfo *rel, Expr *expr)
{
	WalkContext cxt;
	CollationState state = {InvalidOid, ORIGIN_NONE};

	if (rf_push_down == RF_PUSH_DOWN_NONE)
		return false;
	init_context(&cxt, root, rel);
	if (!walk((Node *) expr, &cxt, &state))
		return false;

	/* A result collation that both nodes do not know would be lost on the way. */
	if (state.origin == ORIGIN_ELSEWHERE)
		return false;

	return is_immutable((Node *) expr);
}

bool
rf_is_known_collation(PlannerInfo *root, RelOptInfo *rel, Expr *expr)
{
	WalkContext cxt;
	CollationState state = {InvalidOid, ORIGIN_NONE};

	init_context(&cxt, root, rel);
	return walk((Node *) expr, &cxt, &state) && state.origin == ORIGIN_COLUMN;
}

bool
rf_is_shippable_sort(PlannerInfo *root, RelOptInfo *rel, Expr *expr, Oid sortop)
{
	WalkContext cxt;

	init_context(&cxt, root, rel);
	return walk_sort_key((Node *) expr, sortop, &cxt) && is_immutable((Node *) expr);
}

/*
 * Pseudoconstant conditions are among them for joins and upper relations; core puts a gating Result
 * above the scan of a table, whose own statement goes without.
 *
 * A condition that must not see rows hidden by a security barrier stays here, unless it is
 * leakproof: on the data node nothing would keep the order.
 */
void
rf_classify_conditions(PlannerInfo *root, RelOptInfo *baserel, List *conditions,
					   List **remote_conds, List **local_conds)
{
	ListCell   *lc;

	*remote_conds = NIL;
	*local_conds = NIL;

	foreach(lc, conditions)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (restriction_is_securely_promotable(rinfo, baserel) &&
			rf_is_shippable_expr(root, baserel, rinfo->clause))
			*remote_conds = lappend(*remote_conds, rinfo);
		else
			*local_conds = lappend(*local_conds, rinfo);
	}
}
