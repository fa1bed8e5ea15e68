/*
 * shippable.c
 * 		Can the data node evaluate an expression instead of us?
 *
 * Yes, if every type, function and operator in it is built in (or belongs to an extension that the
 * server's "extensions" option lists), if nothing in it is volatile or stable, if its collations
 * come from columns of the foreign table, and if the deparser can print each node. A node kind that
 * is not listed here is refused: the deparser prints some nodes wrongly and crashes on more. A
 * stable part without columns is computed here and sent as a parameter.
 *
 * Collations. The two nodes may have different default collations and different named collations.
 * Only the collation of a foreign column is the same by definition: the data node uses its own
 * column's. So a collation-sensitive operation is shipped only if its input collation comes from a
 * column of the foreign table, or by an explicit COLLATE "C" or "POSIX", which are the same
 * everywhere. Each subexpression has one of three states: its result has no relevant collation (or
 * just the default one), a collation that both nodes know, or one from elsewhere.
 */
#include "postgres.h"

#include "access/sysattr.h"
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
	ORIGIN_NONE,				/* not collatable, or the default collation but not of a column */
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
	Relids		relids;			/* the data node has their columns; other columns are parameters */
	RfRelInfo  *info;
	bool		in_case_test;	/* CaseTestExpr is legal here */
} WalkContext;

static bool walk(Node *node, WalkContext *cxt, CollationState *result);
static bool walk_list(List *nodes, WalkContext *cxt, CollationState *merged);
static bool walk_case(CaseExpr *expr, WalkContext *cxt, CollationState *inner);
static bool walk_aggregate(Aggref *agg, WalkContext *cxt, CollationState *inner);
static bool walk_window(WindowFunc *func, WalkContext *cxt, CollationState *inner);
static bool walk_subplan(SubPlan *subplan, WalkContext *cxt);

/* Merges the state of one child into its siblings' state. */
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
 * Functions that get a collation because an argument is text, and ignore it. Equality is among them
 * because a default collation is always deterministic.
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
 * Returns true if a function with this input collation may be shipped, given the origin of its
 * inputs' collations.
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

/* The state of a node with this result collation, from the state of its inputs. */
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
 * For values that do not come from the foreign table: constants, parameters, outer columns. A type
 * with a collation of its own (name) has the same one on every node.
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
 * "CASE x WHEN y" prints correctly only while every WHEN is "CaseTestExpr = y", which it is not
 * after the planner has inlined the operator.
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
				!rf_is_shippable_operator(op->opno, cxt->info) ||
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
 * side: "x op ANY (SELECT ...)", where op's right operand is the unchanged result of the
 * sub-select.
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
	return rf_is_shippable_operator(test->opno, cxt->info) &&
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

/* The data node has the collation of a foreign column; a SELECT's column depends on its inputs. */
static bool
is_collated(RfSelect *select, Var *var)
{
	return select == NULL || bms_is_member(var->varattno, select->collated);
}

/*
 * A column of a table of the statement, or a parameter: whole rows and most system columns stay
 * here. *result gets the origin of its collation.
 */
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
		collated = !OidIsValid(var->varcollid) ||
			(!rf_is_local(cxt->root, var->varno) && is_collated(select_of(var, cxt), var));
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

/* Checks a function's arguments, and whether it may have this input collation. */
static bool
walk_arguments(List *args, Oid inputcollid, Oid funcid, WalkContext *cxt, CollationState *inner)
{
	return walk_list(args, cxt, inner) && input_collation_ok(inputcollid, funcid, inner);
}

/*
 * An array's cast prints as a plain cast; the element expression only decides whether it is
 * shippable.
 */
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

/* A boolean result of pairwise comparisons, each with a collation of its own. */
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

		if (!rf_is_shippable_operator(lfirst_oid(op), cxt->info) ||
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

				if (func->funcretset || !rf_is_shippable_function(func->funcid, info) ||
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

				if (op->opretset || !rf_is_shippable_operator(op->opno, info) ||
					!walk_arguments(op->args, op->inputcollid, get_opcode(op->opno), cxt, &inner))
					return false;
				*result = derived_collation(op->opcollid, &inner);
				return true;
			}

		case T_ScalarArrayOpExpr:
			{
				ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) node;

				/* a boolean */
				return rf_is_shippable_operator(op->opno, info) &&
					walk_arguments(op->args, op->inputcollid, get_opcode(op->opno), cxt, &inner);
			}

		case T_MinMaxExpr:
			{
				MinMaxExpr *minmax = (MinMaxExpr *) node;
				TypeCacheEntry *type = lookup_type_cache(minmax->minmaxtype, TYPECACHE_CMP_PROC);

				if (!OidIsValid(type->cmp_proc) ||
					!rf_is_shippable_function(type->cmp_proc, info) ||
					!walk_arguments(minmax->args, minmax->inputcollid, type->cmp_proc, cxt, &inner))
					return false;
				*result = derived_collation(minmax->minmaxcollid, &inner);
				return true;
			}

		case T_Aggref:
			if (!info->upper.grouped || !walk_aggregate((Aggref *) node, cxt, &inner))
				return false;
			*result = derived_collation(((Aggref *) node)->aggcollid, &inner);
			return true;

		case T_GroupingFunc:
			return info->upper.grouped && ((GroupingFunc *) node)->agglevelsup == 0 &&
				walk_list(((GroupingFunc *) node)->args, cxt, &inner);

		case T_WindowFunc:
			if (!info->upper.windowed || !walk_window((WindowFunc *) node, cxt, &inner))
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
 * Returns whether the expression is shippable, for any type of its result; if so *result has the
 * origin of its collation.
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
			/* for a row it would examine the fields */
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

			/* Row constructors, SQL value functions and nodes that a later release adds. */
			return false;
	}
}

/* Returns whether node is shippable; if so *result has the origin of its collation. */
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

/* For a type with that ordering, is it the operator of plain ORDER BY or ORDER BY ... DESC? */
static bool
is_default_ordering(Oid sortop, Oid type)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);

	return OidIsValid(sortop) && (sortop == entry->lt_opr || sortop == entry->gt_opr);
}

/* Sorting by text depends on the collation, even if no collation was mentioned. */
static bool
walk_sort_key(Node *expr, Oid sortop, WalkContext *cxt)
{
	CollationState state = {InvalidOid, ORIGIN_NONE};
	Oid			collation = exprCollation(expr);

	if (!is_default_ordering(sortop, exprType(expr)) ||
		!rf_is_shippable_operator(sortop, cxt->info) || !walk(expr, cxt, &state))
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
 * The whole aggregate, or its state. DISTINCT needs no check of its own, as its columns are among
 * the arguments and their types define the equality.
 */
static bool
walk_aggregate(Aggref *agg, WalkContext *cxt, CollationState *inner)
{
	ListCell   *lc;

	if (agg->agglevelsup != 0 ||
		!rf_is_shippable_function(agg->aggfnoid, cxt->info) ||
		func_volatile(agg->aggfnoid) != PROVOLATILE_IMMUTABLE ||
		!(cxt->info->upper.partial ? rf_partial_agg_is_shippable(cxt->root, cxt->info, agg) :
		  agg->aggsplit == AGGSPLIT_SIMPLE) ||
		!walk_list(agg->aggdirectargs, cxt, inner))
		return false;

	foreach(lc, agg->args)
	{
		CollationState state = {InvalidOid, ORIGIN_NONE};
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!walk((Node *) tle->expr, cxt, &state))
			return false;
		/* a sort column brings no collation into the result, but its own is checked below */
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

/*
 * Returns true if the data node can evaluate this window function: function, arguments, filter, and
 * the window's clauses including the functions of its frame.
 */
static bool
walk_window(WindowFunc *func, WalkContext *cxt, CollationState *inner)
{
	WindowClause *window = NULL;
	CollationState state = {InvalidOid, ORIGIN_NONE};
	List	   *tlist = cxt->root->processed_tlist;
	ListCell   *lc;

	if (rf_ignores_nulls(func) ||
		!rf_is_shippable_function(func->winfnoid, cxt->info) ||
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
		 rf_is_shippable_function(window->startInRangeFunc, cxt->info)) &&
		(!OidIsValid(window->endInRangeFunc) ||
		 rf_is_shippable_function(window->endInRangeFunc, cxt->info));
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

/*
 * Returns true if the expression depends on a row, and so is no value that is the same for the
 * whole query.
 */
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

/* Replaces such values by parameters, so that the rest shows whether it is immutable. */
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
	cxt->relids = cxt->info->upper.scanrel ? cxt->info->upper.scanrel->relids : rel->relids;
	cxt->in_case_test = false;
}

bool
rf_is_shippable_expr(PlannerInfo *root, RelOptInfo *rel, Expr *expr)
{
	return rf_push_down != RF_PUSH_DOWN_NONE && rf_nodes_can_evaluate(root, rel, expr);
}

bool
rf_nodes_can_evaluate(PlannerInfo *root, RelOptInfo *rel, Expr *expr)
{
	WalkContext cxt;
	CollationState state = {InvalidOid, ORIGIN_NONE};

	init_context(&cxt, root, rel);
	if (!walk((Node *) expr, &cxt, &state))
		return false;

	/* The data node would not know this result collation. */
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
 * Pseudoconstant conditions are included for joins and upper relations; for a table core puts a
 * gating Result above the scan, and the statement omits them.
 *
 * A condition that must not see rows hidden by a security barrier stays here, unless it is
 * leakproof: the data node would not preserve the order of evaluation.
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
