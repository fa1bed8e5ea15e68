/*
 * not_shippable.c
 *		Which part of an expression the data node cannot evaluate, in words.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

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

/*
 * The name of the function or operator that the node calls, its function, and whether the data node
 * has it; NULL: the node is no call.
 */
static char *
called(Node *node, RfRelInfo *info, Oid *funcid, bool *known)
{
	Oid			opno;

	switch (nodeTag(node))
	{
		case T_FuncExpr:
			*funcid = ((FuncExpr *) node)->funcid;
			*known = rf_is_shippable_function(*funcid, info);
			return psprintf("function %s", format_procedure(*funcid));
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			opno = ((OpExpr *) node)->opno;
			break;
		case T_ScalarArrayOpExpr:
			opno = ((ScalarArrayOpExpr *) node)->opno;
			break;
		default:
			return NULL;
	}
	*funcid = get_opcode(opno);
	*known = rf_is_shippable_operator(opno, info);
	return psprintf("operator %s", format_operator(opno));
}

/* Why not a part whose own parts can be sent. */
static char *
describe_part(Node *part, RfRelInfo *info)
{
	Oid			type = exprType(part);
	Oid			funcid;
	bool		known;
	char	   *name = called(part, info, &funcid, &known);

	if (name != NULL && func_volatile(funcid) == PROVOLATILE_VOLATILE)
		return psprintf("%s is volatile", name);
	if (name != NULL && func_volatile(funcid) == PROVOLATILE_STABLE)
		return psprintf("%s depends on the session", name);
	if (name != NULL && !known)
		return psprintf("%s is not known to be the same there (option \"extensions\")", name);
	if (IsA(part, SubPlan) || IsA(part, AlternativeSubPlan))
		return "a sub-select in a condition is computed here";
	if (IsA(part, Var) && ((Var *) part)->varattno == 0)
		return "a condition has a whole row";
	if (IsA(part, Var) && ((Var *) part)->varattno < 0)
		return "a condition has a system column";
	if (!rf_is_shippable_type(type, info))
		return psprintf("values of type %s may mean something else there", format_type_be(type));
	if (name != NULL)
		return psprintf("%s has a collation that may mean something else there", name);
	if (IsA(part, CoerceViaIO))
		return psprintf("a cast between types %s and %s may depend on the session",
						format_type_be(exprType((Node *) ((CoerceViaIO *) part)->arg)),
						format_type_be(type));
	return "a condition has a part that cannot be sent";
}

char *
rf_why_not_shippable(PlannerInfo *root, RelOptInfo *rel, Expr *expr)
{
	FindContext cxt = {root, rel, NULL};

	find_part((Node *) expr, &cxt);
	if (cxt.found == NULL)
		return "a condition cannot be sent";	/* not as a whole, though each part can */
	return describe_part(cxt.found, (RfRelInfo *) rel->fdw_private);
}

List *
rf_filtered_here(PlannerInfo *root, RelOptInfo *rel, List *conditions)
{
	List	   *reasons = NIL;
	ListCell   *lc;

	if (rf_push_down == RF_PUSH_DOWN_NONE)
		return NIL;
	foreach(lc, conditions)
	{
		const char *reason = rf_is_shippable_expr(root, rel, lfirst(lc)) ?
			"a security barrier hides rows from a condition" :
			rf_why_not_shippable(root, rel, lfirst(lc));

		reasons = list_append_unique(reasons, makeString(pstrdup(reason)));
	}
	return reasons;
}
