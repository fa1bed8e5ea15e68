/*
 * partialize.c - rdma_internal.partialize(aggregate, NULL::type): the aggregate's transition state.
 *
 * The function is a mark and never runs. Before a query is planned it gives way to the aggregate
 * under it, whose type becomes its state's: the state's own, bytea for internal states, which leave
 * as their serial function writes them. The planner then makes an ordinary plan of it; afterwards
 * each Agg node that ends such aggregates is told to stop at the states: a plain Agg gives partial
 * aggregates, an Agg that combines the states of parallel workers goes on doing so and leaves out
 * the final function. So the query has its usual cost, and core could have made its plan for
 * workers.
 *
 * In between the aggregates are known by a location that no parser gives: planning neither reads
 * nor changes it.
 *
 * Any other way to compute the aggregate (a foreign server) would give its result instead of its
 * state, so foreign tables are not asked while such a query is planned.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"
#include "parser/parse_agg.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"
#include "utils/builtins.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#define MARK_LOCATION	(-0x52444D)

/* While the planner is at a query with marks in it. */
static bool planning_states = false;

PG_FUNCTION_INFO_V1(rdma_partialize);

/*
 * Reached only where the planner does not see it: without the hook, or where no query is planned.
 */
Datum
rdma_partialize(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rdma_internal.partialize cannot be used here"),
			 errdetail("It stands directly over an aggregate of a query, on a server that has "
					   "rdma_fdw in shared_preload_libraries.")));
}

/*
 * The mark's function in this database; InvalidOid when it is missing, or when somebody else's
 * bears the name. Cheap: two look-ups of caches that also remember missing entries.
 */
static Oid
mark_function(void)
{
	Oid			types[2] = {ANYOID, ANYELEMENTOID};
	Oid			schema = get_namespace_oid("rdma_internal", true);
	HeapTuple	tuple;
	Form_pg_proc form;
	Oid			result = InvalidOid;

	if (!OidIsValid(schema))
		return InvalidOid;
	tuple = SearchSysCache3(PROCNAMEARGSNSP, CStringGetDatum("partialize"),
							PointerGetDatum(buildoidvector(types, 2)), ObjectIdGetDatum(schema));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	if (form->prolang == ClanguageId)
	{
		bool		isnull;
		Datum		source = SysCacheGetAttr(PROCNAMEARGSNSP, tuple, Anum_pg_proc_prosrc, &isnull);

		if (!isnull && strcmp(TextDatumGetCString(source), "rdma_partialize") == 0)
			result = form->oid;
	}
	ReleaseSysCache(tuple);
	return result;
}

static bool
contains_mark(Node *node, Oid *mark)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == *mark)
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, contains_mark, mark, 0);
	return expression_tree_walker(node, contains_mark, mark);
}

/* ---------------------------------------------------------------------------------------------
 * Before planning
 * ---------------------------------------------------------------------------------------------
 */

/* Why this aggregate has no state that could leave; NULL if it has. */
static const char *
why_not_partial(Aggref *agg, Form_pg_aggregate form)
{
	if (AGGKIND_IS_ORDERED_SET(agg->aggkind))
		return "It is an ordered-set aggregate.";
	if (agg->aggdistinct != NIL)
		return "It has DISTINCT.";
	if (agg->aggorder != NIL)
		return "It has ORDER BY.";
	if (!OidIsValid(form->aggcombinefn))
		return "It has no combine function.";
	if (form->aggtranstype == INTERNALOID &&
		(!OidIsValid(form->aggserialfn) || !OidIsValid(form->aggdeserialfn)))
		return "Its state is internal, and it has no serial functions.";

	/* the planner replaces it by the first row of an index, which is the result */
	if (OidIsValid(form->aggsortop) && OidIsValid(form->aggfinalfn))
		return "It has a sort operator and a final function.";
	return NULL;
}

/* The aggregate instead of the mark. */
static Aggref *
marked_aggregate(FuncExpr *mark)
{
	Aggref	   *agg = linitial(mark->args);
	Oid			types[FUNC_MAX_ARGS];
	int			count;
	HeapTuple	tuple;
	Form_pg_aggregate form;
	const char *problem;
	Oid			state;

	if (!IsA(agg, Aggref))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rdma_internal.partialize must stand directly over an aggregate")));
	if (agg->agglevelsup != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rdma_internal.partialize cannot stand over an aggregate of an outer "
						"query")));

	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(agg->aggfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", agg->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	problem = why_not_partial(agg, form);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("aggregate %s cannot be computed in part", format_procedure(agg->aggfnoid)),
				 errdetail("%s", problem)));
	state = form->aggtranstype;
	ReleaseSysCache(tuple);

	if (state == INTERNALOID)
		state = BYTEAOID;
	else
	{
		count = get_aggregate_argtypes(agg, types);
		state = resolve_aggregate_transtype(agg->aggfnoid, state, types, count);
	}
	if (mark->funcresulttype != state)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the state of aggregate %s is of type %s, not %s",
						format_procedure(agg->aggfnoid), format_type_be(state),
						format_type_be(mark->funcresulttype)),
				 errhint("Write rdma_internal.partialize(..., NULL::%s).", format_type_be(state))));

	agg = copyObject(agg);
	agg->aggtype = state;
	agg->aggcollid = mark->funccollid;
	agg->location = MARK_LOCATION;
	return agg;
}

/*
 * Aggregates of this query, so many levels up, that have no mark: of those whose result is their
 * state it makes no difference.
 */
static bool
mark_others(Node *node, Index *level)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && ((Aggref *) node)->agglevelsup == *level &&
		((Aggref *) node)->location != MARK_LOCATION)
	{
		Aggref	   *agg = (Aggref *) node;
		HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(agg->aggfnoid));
		Form_pg_aggregate form;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for aggregate %u", agg->aggfnoid);
		form = (Form_pg_aggregate) GETSTRUCT(tuple);
		if (OidIsValid(form->aggfinalfn) || form->aggtranstype == INTERNALOID ||
			why_not_partial(agg, form) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("aggregate %s must stand under rdma_internal.partialize, too",
							format_procedure(agg->aggfnoid)),
					 errdetail("One query gives states of all its aggregates or results of all.")));
		ReleaseSysCache(tuple);
		agg->location = MARK_LOCATION;
	}
	if (IsA(node, Query))
	{
		bool		result;

		(*level)++;
		result = query_tree_walker((Query *) node, mark_others, level, 0);
		(*level)--;
		return result;
	}
	return expression_tree_walker(node, mark_others, level);
}

typedef struct MarkContext
{
	Oid			mark;
	bool		found;			/* in the query at hand, not in those below */
} MarkContext;

static Node *replace_marks(Node *node, MarkContext *cxt);

static Query *
replace_in_query(Query *query, Oid mark)
{
	MarkContext cxt = {mark, false};
	Index		level = 0;

	query_tree_mutator(query, replace_marks, &cxt, QTW_DONT_COPY_QUERY);
	if (!cxt.found)
		return query;
	if (query->groupingSets != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rdma_internal.partialize cannot be used with grouping sets")));
	(void) query_tree_walker(query, mark_others, &level, 0);
	return query;
}

static Node *
replace_marks(Node *node, MarkContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
		return (Node *) replace_in_query((Query *) node, cxt->mark);
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == cxt->mark)
	{
		cxt->found = true;
		/* in its arguments and FILTER there may be queries */
		return expression_tree_mutator((Node *) marked_aggregate((FuncExpr *) node), replace_marks,
									   cxt);
	}
	return expression_tree_mutator(node, replace_marks, cxt);
}

/* ---------------------------------------------------------------------------------------------
 * After planning
 * ---------------------------------------------------------------------------------------------
 */

static bool
contains_marked(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && ((Aggref *) node)->location == MARK_LOCATION)
		return true;
	return expression_tree_walker(node, contains_marked, unused);
}

static bool
split_aggregates(Node *node, AggSplit *split)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		((Aggref *) node)->aggsplit = *split;
		((Aggref *) node)->location = -1;
	}
	return expression_tree_walker(node, split_aggregates, split);
}

/*
 * An Agg node with marked aggregates: its own aggregates end there, states from below come as
 * arguments.
 */
static void
end_at_states(Agg *agg)
{
	AggSplit	split = AGGSPLIT_INITIAL_SERIAL;

	if (!contains_marked((Node *) agg->plan.targetlist, NULL) &&
		!contains_marked((Node *) agg->plan.qual, NULL))
		return;
	if (DO_AGGSPLIT_SKIPFINAL(agg->aggsplit))
		split = agg->aggsplit;	/* the lower one of two: it gives states already */
	else if (DO_AGGSPLIT_COMBINE(agg->aggsplit))
		split = AGGSPLITOP_COMBINE | AGGSPLITOP_DESERIALIZE | AGGSPLITOP_SERIALIZE |
			AGGSPLITOP_SKIPFINAL;
	agg->aggsplit = split;
	split_aggregates((Node *) agg->plan.targetlist, &split);
	split_aggregates((Node *) agg->plan.qual, &split);
}

static void finish_plan(Plan *plan);

static void
finish_plans(List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		finish_plan((Plan *) lfirst(lc));
}

/*
 * Makes the Agg nodes on top of this finished plan stop at their states, below the nodes that only
 * pass rows on, and corrects the types that these nodes declare.
 */
static void
finish_plan(Plan *plan)
{
	List	   *scanned = NIL;

	if (plan == NULL)
		return;
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_Agg:
			end_at_states((Agg *) plan);
			break;
		case T_Append:
			finish_plans(((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			finish_plans(((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			finish_plan(((SubqueryScan *) plan)->subplan);
			break;
		case T_ForeignScan:
			scanned = ((ForeignScan *) plan)->fdw_scan_tlist;
			break;
		case T_CustomScan:
			scanned = ((CustomScan *) plan)->custom_scan_tlist;
			finish_plans(((CustomScan *) plan)->custom_plans);
			break;
		default:
			break;
	}
	if (contains_marked((Node *) scanned, NULL) ||
		contains_marked((Node *) plan->targetlist, NULL) ||
		contains_marked((Node *) plan->qual, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compute the state of an aggregate with this plan"),
				 errdetail("Another extension's plan node computes the aggregate as a whole.")));
	finish_plan(plan->lefttree);
	finish_plan(plan->righttree);
}

/* ---------------------------------------------------------------------------------------------
 * Hooks
 * ---------------------------------------------------------------------------------------------
 */

/* Foreign tables keep scanning and joining, but compute nothing above that. */
void
rf_partialize_rel(RelOptInfo *rel)
{
	if (planning_states && rel->fdwroutine != NULL && rel->fdwroutine->GetForeignUpperPaths != NULL)
	{
		FdwRoutine *routine = palloc(sizeof(FdwRoutine));

		*routine = *rel->fdwroutine;
		routine->GetForeignUpperPaths = NULL;
		rel->fdwroutine = routine;
	}
}

/* Could there be an aggregate?  Most small queries need no further look. */
static bool
may_aggregate(Query *query)
{
	ListCell   *lc;

	if (query->hasAggs || query->hasSubLinks || query->cteList != NIL)
		return true;
	foreach(lc, query->rtable)
	{
		if (lfirst_node(RangeTblEntry, lc)->rtekind == RTE_SUBQUERY)
			return true;
	}
	return false;
}

PlannedStmt *
rf_partialize_plan(Query *parse, const char *query_string, int cursor_options, ParamListInfo params,
				   planner_hook_type plan RF_EXPLAIN_PARAM)
{
	bool		outer = planning_states;
	Oid			mark = may_aggregate(parse) ? mark_function() : InvalidOid;
	PlannedStmt *result;

	planning_states = OidIsValid(mark) && contains_mark((Node *) parse, &mark);
	PG_TRY();
	{
		if (planning_states)
			replace_in_query(parse, mark);
		result = plan(parse, query_string, cursor_options, params RF_EXPLAIN);
		if (planning_states)
		{
			finish_plan(result->planTree);
			finish_plans(result->subplans);
		}
	}
	PG_FINALLY();
	{
		planning_states = outer;
	}
	PG_END_TRY();
	return result;
}
