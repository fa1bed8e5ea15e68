/*
 * plan.c - statements and their plans, kept by query text.
 *
 * Does: parse a query once per session and let PostgreSQL's plan cache decide when to plan it
 * again, so that a nested loop's rescans and point lookups pay for planning a few times only; read
 * parameter values. Does not: execute.
 *
 * The list belongs to the backend; entries live in contexts of their own below CacheMemoryContext.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "lib/ilist.h"
#include "nodes/parsenodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parse_type.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/serve.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define MAX_STATEMENTS		64
#define MAX_PARAMETERS		65535	/* the protocol's limit */

/*
 * A plan without values is estimated by usual assumptions, such as that few values are NULL or that
 * an array has ten elements, and can be far worse than it seems, even if it does not seem to be
 * better. All that it can save is the planning. So a statement that is expected to take more than
 * so many times of that is planned for its values.
 */
#define LONG				10

typedef struct StatementParam
{
	Oid			type;
	int32		typmod;
	Oid			io_param;
	FmgrInfo	input;
} StatementParam;

struct RfStatement
{
	dlist_node	node;
	MemoryContext context;
	char	   *query;
	Size		query_length;
	ArrayType  *type_names;		/* as it came; NULL: no parameters */
	int			param_count;
	StatementParam *params;
	bool		only_built_in;	/* types whose meaning does not depend on anything */
	int			workers;		/* the most that its plans may have; -1: as many as the settings
								 * allow */
	CachedPlanSource *source;
};

static dlist_head statements = DLIST_STATIC_INIT(statements);
static int	statement_count = 0;

int			rf_statement_workers = RF_WORKERS_UNKNOWN;
bool		rf_statement_is_planned = false;

static void
forget(RfStatement *statement)
{
	dlist_delete(&statement->node);
	statement_count--;
	DropCachedPlan(statement->source);
	MemoryContextDelete(statement->context);
}

static bool
same_types(ArrayType *ours, ArrayType *theirs)
{
	if (ours == NULL || theirs == NULL)
		return ours == theirs;
	return VARSIZE(ours) == VARSIZE(theirs) && memcmp(ours, theirs, VARSIZE(ours)) == 0;
}

/* Members of a one-dimensional text array. */
static int
text_array(ArrayType *array, const char *what, Datum **values, bool **nulls)
{
	int			count;

	*values = NULL;
	*nulls = NULL;
	if (array == NULL || ARR_NDIM(array) == 0)
		return 0;
	if (ARR_NDIM(array) != 1 || ARR_ELEMTYPE(array) != TEXTOID)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s of rdma_internal.stream must be a one-dimensional array of text",
						what)));
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, values, nulls, &count);
	return count;
}

/* Resolve the types' names under the session's search_path; allocates in the current context. */
static void
resolve_types(RfStatement *statement)
{
	Datum	   *names;
	bool	   *nulls;
	int			count = text_array(statement->type_names, "parameter_types", &names, &nulls);

	if (count > MAX_PARAMETERS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_ARGUMENTS),
				 errmsg("rdma_internal.stream takes at most %d parameters", MAX_PARAMETERS)));
	statement->param_count = count;
	statement->params = palloc0(sizeof(StatementParam) * Max(count, 1));
	statement->only_built_in = true;
	for (int i = 0; i < count; i++)
	{
		StatementParam *param = &statement->params[i];
		Oid			function;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("the type of parameter $%d is NULL", i + 1)));
#if PG_VERSION_NUM >= 160000
		(void) parseTypeString(TextDatumGetCString(names[i]), &param->type, &param->typmod, NULL);
#else
		parseTypeString(TextDatumGetCString(names[i]), &param->type, &param->typmod, false);
#endif
		getTypeInputInfo(param->type, &function, &param->io_param);
		fmgr_info_cxt(function, &param->input, CurrentMemoryContext);
		if (param->type >= FirstGenbkiObjectId)
			statement->only_built_in = false;
	}
}

/* One plain SELECT (or VALUES, TABLE, WITH ... SELECT); ERROR for anything else. */
static RawStmt *
parse_one_select(const char *query)
{
	List	   *parsed = pg_parse_query(query);

	if (list_length(parsed) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rdma_internal.stream runs exactly one SELECT statement"),
				 errdetail("The query text has %d statements.", list_length(parsed))));
	return linitial_node(RawStmt, parsed);
}

static void
check_is_select(List *queries, CommandTag tag)
{
	Query	   *query;

	query = list_length(queries) == 1 ? linitial_node(Query, queries) : NULL;
	if (query == NULL || query->commandType != CMD_SELECT || query->utilityStmt != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rdma_internal.stream runs SELECT statements only, not %s",
						GetCommandTagName(tag))));
	if (query->hasModifyingCTE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rdma_internal.stream does not run data-modifying statements in WITH")));
}

static RfStatement *
build_statement(const char *query, ArrayType *type_names)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "rdma_fdw statement",
												  ALLOCSET_SMALL_SIZES);
	RfStatement *statement;
	RawStmt    *parsed;
	List	   *queries;
	Oid		   *types;
	CommandTag	tag;

	/*
	 * Until it is complete, everything hangs below the caller's context: an error leaves nothing
	 * behind.
	 */
	MemoryContextSwitchTo(context);
	statement = palloc0(sizeof(RfStatement));
	statement->context = context;
	statement->query = pstrdup(query);
	statement->query_length = strlen(query);
	if (type_names != NULL)
	{
		statement->type_names = palloc(VARSIZE(type_names));
		memcpy(statement->type_names, type_names, VARSIZE(type_names));
	}
	resolve_types(statement);
	types = palloc(sizeof(Oid) * Max(statement->param_count, 1));
	for (int i = 0; i < statement->param_count; i++)
		types[i] = statement->params[i].type;
	MemoryContextSwitchTo(caller);

	parsed = parse_one_select(query);
	tag = CreateCommandTag(parsed->stmt);
	statement->source = CreateCachedPlan(parsed, query, tag);
	queries = pg_analyze_and_rewrite_fixedparams(parsed, query, types, statement->param_count,
												 NULL);
	check_is_select(queries, tag);
	/* columns of tables may get other types; how values travel is decided anew each time */
	CompleteCachedPlan(statement->source, queries, NULL, types, statement->param_count, NULL, NULL,
					   CURSOR_OPT_PARALLEL_OK, false);

	/* From here nothing can fail. */
	SaveCachedPlan(statement->source);
	MemoryContextSetParent(context, CacheMemoryContext);
	dlist_push_head(&statements, &statement->node);
	statement_count++;
	return statement;
}

RfStatement *
rf_statement_get(const char *query, ArrayType *type_names, int workers)
{
	Size		length = strlen(query);
	RfStatement *built;
	dlist_iter	iter;

	if (workers < 0 || workers >= max_parallel_workers_per_gather)
		workers = -1;
	if (type_names != NULL && ARR_NDIM(type_names) == 0)
		type_names = NULL;
	dlist_foreach(iter, &statements)
	{
		RfStatement *statement = dlist_container(RfStatement, node, iter.cur);

		if (statement->query_length != length || memcmp(statement->query, query, length) != 0 ||
			statement->workers != workers || !same_types(statement->type_names, type_names))
			continue;
		if (!statement->only_built_in)
		{
			/* The type of that name may have changed by now, and nothing tells us. */
			forget(statement);
			break;
		}
		dlist_move_head(&statements, &statement->node);
		return statement;
	}
	while (statement_count >= MAX_STATEMENTS)
		forget(dlist_tail_element(RfStatement, node, &statements));
	built = build_statement(query, type_names);
	built->workers = workers;
	return built;
}

ParamListInfo
rf_statement_params(RfStatement *statement, ArrayType *array)
{
	Datum	   *values;
	bool	   *nulls;
	int			count = text_array(array, "parameter_values", &values, &nulls);
	ParamListInfo params;

	if (count != statement->param_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rdma_internal.stream got %d parameter values for %d parameter types",
						count, statement->param_count)));
	if (count == 0)
		return NULL;
	params = makeParamList(count);
	for (int i = 0; i < count; i++)
	{
		StatementParam *from = &statement->params[i];
		ParamExternData *to = &params->params[i];

		to->ptype = from->type;
		to->pflags = PARAM_FLAG_CONST;
		to->isnull = nulls[i];
		to->value = InputFunctionCall(&from->input,
									  nulls[i] ? NULL : TextDatumGetCString(values[i]),
									  from->io_param, from->typmod);
	}
	return params;
}

/*
 * The planner of each node takes all cores of its machine for its own. Where several work at the
 * same statement there, more processes than cores only cost the time to start them.
 */
int
rf_workers_allowed(int nodes)
{
	long		cores = rf_cores > 0 ? rf_cores : sysconf(_SC_NPROCESSORS_ONLN);

	return nodes > 1 && cores > 0 ? (int) Max(cores / nodes - 1, 0) : -1;
}

/* Returns true for a plan without values, which core has chosen, of a long statement. */
static bool
needs_values(const CachedPlanSource *source, const CachedPlan *plan)
{
	double		planning;
	double		custom;

	if (plan != source->gplan || source->num_custom_plans == 0 ||
		plan_cache_mode != PLAN_CACHE_MODE_AUTO)
		return false;
	/* as core reckons, which adds it to the costs of plans made for values */
	planning = 1000 * cpu_operator_cost *
		(list_length(linitial_node(PlannedStmt, plan->stmt_list)->rtable) + 1);
	custom = source->total_custom_cost / source->num_custom_plans - planning;
	return custom > LONG * planning;
}

/*
 * The plan for these values. If core's plan without values is expected to take long, the statement
 * is planned for its values from now on.
 */
static CachedPlan *
get_plan(CachedPlanSource *source, ParamListInfo params)
{
	bool		saved = rf_statement_is_planned;
	CachedPlan *plan;

	rf_statement_is_planned = true;
	PG_TRY();
	{
		plan = GetCachedPlan(source, params, CurrentResourceOwner, NULL);
		if (needs_values(source, plan))
		{
			ReleaseCachedPlan(plan, CurrentResourceOwner);
			source->cursor_options |= CURSOR_OPT_CUSTOM_PLAN;
			plan = GetCachedPlan(source, params, CurrentResourceOwner, NULL);
		}
	}
	PG_FINALLY();
	{
		rf_statement_is_planned = saved;
	}
	PG_END_TRY();
	return plan;
}

CachedPlan *
rf_statement_plan(RfStatement *statement, ParamListInfo params)
{
	CachedPlan *plan;
	int			nest_level;

	if (statement->workers < 0)
		return get_plan(statement->source, params);
	nest_level = NewGUCNestLevel();
	(void) set_config_option("max_parallel_workers_per_gather", psprintf("%d", statement->workers),
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	plan = get_plan(statement->source, params);
	AtEOXact_GUC(true, nest_level);
	return plan;
}

bool
rf_statement_is_unsafe(RfStatement *statement)
{
	return max_parallel_hazard(linitial_node(Query, statement->source->query_list)) ==
		PROPARALLEL_UNSAFE;
}
