/*
 * not_shippable.c
 *		Which part of an expression the data node cannot evaluate, in words.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "rdma_fdw/compat.h"

#include "deparse.h"

typedef struct FindContext
{
	PlannerInfo *root;
	RelOptInfo *rel;
	Node	   *found;
} FindContext;

/* The arguments of these stand for themselves. */
static bool
has_plain_arguments(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_NullTest:
		case T_BooleanTest:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_ArrayExpr:
			return true;
		default:
			return false;
	}
}

/* The smallest part that cannot be sent: its own parts can. */
static bool
find_part(Node *node, FindContext *cxt)
{
	if (node == NULL)
		return false;
	if (IsA(node, List))
		return expression_tree_walker(node, find_part, cxt);
	if (rf_is_shippable_expr(cxt->root, cxt->rel, (Expr *) node))
		return false;
	if (!has_plain_arguments(node) || !expression_tree_walker(node, find_part, cxt))
		cxt->found = node;
	return true;
}

static char *
describe_function(Oid funcid, const char *name, bool known)
{
	switch (func_volatile(funcid))
	{
		case PROVOLATILE_VOLATILE:
			return psprintf("%s is volatile", name);
		case PROVOLATILE_STABLE:
			return psprintf("%s depends on the session", name);
		default:
			if (!known)
				return psprintf("%s is not known to be the same there (option \"extensions\")",
								name);
			return psprintf("%s has a collation or a type that may mean something else there",
							name);
	}
}

char *
rf_why_not_shippable(PlannerInfo *root, RelOptInfo *rel, Expr *expr)
{
	FindContext cxt = {root, rel, NULL};
	RfRelInfo  *info = (RfRelInfo *) rel->fdw_private;
	Oid			type;

	find_part((Node *) expr, &cxt);
	if (cxt.found == NULL)
		return "a condition cannot be sent";	/* not as a whole, though each part can */
	type = exprType(cxt.found);
	switch (nodeTag(cxt.found))
	{
		case T_FuncExpr:
			{
				Oid			funcid = ((FuncExpr *) cxt.found)->funcid;

				return describe_function(funcid, psprintf("function %s", format_procedure(funcid)),
										 rf_is_shippable_function(funcid, info));
			}
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			{
				OpExpr	   *op = (OpExpr *) cxt.found;

				return describe_function(get_opcode(op->opno),
										 psprintf("operator %s", format_operator(op->opno)),
										 rf_is_shippable_operator(op->opno, info));
			}
		case T_ScalarArrayOpExpr:
			{
				Oid			opno = ((ScalarArrayOpExpr *) cxt.found)->opno;

				return describe_function(get_opcode(opno),
										 psprintf("operator %s", format_operator(opno)),
										 rf_is_shippable_operator(opno, info));
			}
		case T_SubPlan:
		case T_AlternativeSubPlan:
			return "a sub-select in a condition is computed here";
		default:
			break;
	}
	if (!rf_is_shippable_type(type, info))
		return psprintf("values of type %s may mean something else there", format_type_be(type));
	if (IsA(cxt.found, Var) && ((Var *) cxt.found)->varattno < 0)
		return "a condition has a system column";
	return "a condition has a part that cannot be sent";
}
