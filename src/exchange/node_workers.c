/*
 * node_workers.c - Custom Scan (RdmaProducer): below a Gather at the top of an exchange's query, it
 * makes the Gather's workers producers.
 *
 * In a worker it takes all rows of its part of the plan, finds the nodes they belong to, drops rows
 * without partners, and encodes the rest, with the code that a query without workers uses
 * (node_out.c): a full send buffer there is a batch for the leader here (node_queues.c). It returns
 * no row, so Gather has no rows to pass on, which would cost more than to make them.
 *
 * The leader takes rows of its own part directly, not through Gather. It asks that for a row only
 * to start the workers and to see which of them have ended: it gets an empty one as long as not all
 * have, so that it never sleeps there. A worker that comes late, or not at all, leaves its part of
 * the plan to the other processes.
 *
 * Such a plan may be run by somebody else, too, as it is cached by its text: then rows pass
 * through.
 *
 * Does: plan, run and explain the node. Does not: route, send.
 */
#include "node.h"

#include "mb/pg_wchar.h"
#include "access/parallel.h"
#include "commands/explain.h"
#include "executor/execParallel.h"
#include "executor/executor.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/vector.h"

static const char producer_name[] = "RdmaProducer";

/* At the place in shared memory that Gather gives to the node. Written before any worker starts. */
typedef struct SharedProducer
{
	bool		linked;			/* it makes producers; otherwise rows pass through, and no more
								 * follows */
	Size		desc;			/* where these are, from here: the group's description, */
	Size		collations;		/* of the columns, an Oid each, */
	Size		filters;
	Size		queues;
	char		spec[FLEXIBLE_ARRAY_MEMBER];
} SharedProducer;

typedef struct ProducerState
{
	CustomScanState css;		/* first */
	ExchangeState *exchange;	/* in the leader: whose query this is; NULL: nobody's */
	TupleTableSlot *empty;
	SharedProducer *shared;		/* in a worker */
	char	   *process_rows;	/* "5/7/6": rows that the leader and each worker took */
} ProducerState;

bool		rf_workers_wanted = false;

/* ---------- begin and end ---------- */

static PlanState *
input_of(ProducerState *producer)
{
	return linitial(producer->css.custom_ps);
}

static void
begin_producer(CustomScanState *node, EState *estate, int eflags)
{
	CustomScan *scan = castNode(CustomScan, node->ss.ps.plan);
	PlanState  *input = ExecInitNode(linitial(scan->custom_plans), estate, eflags);

	rf_columns_below(&input);
	node->custom_ps = list_make1(input);
	((ProducerState *) node)->empty = ExecInitExtraTupleSlot(
															 estate,
															 ExecGetResultType(&node->ss.ps),
															 &TTSOpsVirtual);
}

static void
end_producer(CustomScanState *node)
{
	ExecEndNode(linitial(node->custom_ps));
}

static void
rescan_producer(CustomScanState *node)
{
	ExecReScan(linitial(node->custom_ps));
}

/* ---------- memory shared by the processes ---------- */

static ExchangeQueueShape
shape_of(const ExchangeState *state, int workers)
{
	const RfGroupDesc *desc = state->member->desc;

	return (ExchangeQueueShape)
	{
		workers, desc->consumers, state->member->consumer,
			desc->slot_size - sizeof(RfSlotHeader)
	};
}

static const char *
spec_of(const ExchangeState *state)
{
	return rf_exchange_plan_of(state->css.ss.ps.plan)->spec;
}

/* Where its parts are. */
static Size
lay_out(const ExchangeState *state, int workers, SharedProducer *shared)
{
	ExchangeQueueShape shape = shape_of(state, workers);

	shared->linked = true;
	shared->desc = MAXALIGN(offsetof(SharedProducer, spec) + strlen(spec_of(state)) + 1);
	shared->collations = shared->desc + MAXALIGN(state->member->desc->length);
	shared->filters = shared->collations +
		MAXALIGN(state->store.arriving->tts_tupleDescriptor->natts * sizeof(Oid));
	shared->queues = shared->filters + rf_filter_shared_size(state);
	return shared->queues + rf_queues_size(&shape);
}

static Size
estimate_shared(CustomScanState *node, ParallelContext *pcxt)
{
	const ExchangeState *state = ((ProducerState *) node)->exchange;
	SharedProducer layout;

	return state == NULL ? sizeof(SharedProducer) : lay_out(state, pcxt->nworkers, &layout);
}

/*
 * Fills the shared memory from which a worker can make its exchange: specification, group,
 * collations, filters and queues.
 */
static void
initialize_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	ExchangeState *state = ((ProducerState *) node)->exchange;
	SharedProducer *shared = coordinate;
	ExchangeQueueShape shape;
	MemoryContext caller;
	Oid		   *collations;

	memset(shared, 0, sizeof(SharedProducer));
	if (state == NULL || pcxt->nworkers == 0)
		return;
	shape = shape_of(state, pcxt->nworkers);
	(void) lay_out(state, pcxt->nworkers, shared);
	memcpy(shared->spec, spec_of(state), strlen(spec_of(state)) + 1);
	memcpy((char *) shared + shared->desc, state->member->desc, state->member->desc->length);
	collations = (Oid *) ((char *) shared + shared->collations);
	for (int i = 0; i < state->store.arriving->tts_tupleDescriptor->natts; i++)
		collations[i] = TupleDescAttr(state->store.arriving->tts_tupleDescriptor, i)->attcollation;
	rf_filter_share(state, (uint64 *) ((char *) shared + shared->filters));
	caller = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	state->workers.queues = rf_queues_create(&shape, (char *) shared + shared->queues, pcxt->seg);
	MemoryContextSwitchTo(caller);
}

static void
reinitialize_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	if (((ProducerState *) node)->exchange != NULL)
		elog(ERROR, "the query of an exchange is run again");
}

static void
initialize_worker(CustomScanState *node, shm_toc * toc, void *coordinate)
{
	((ProducerState *) node)->shared = coordinate;
}

/* ---------- rows ---------- */

/* The part of an exchange that a worker needs to route rows and to encode them. */
static ExchangeState *
make_worker(ProducerState *producer)
{
	SharedProducer *shared = producer->shared;
	EState	   *estate = producer->css.ss.ps.state;
	ExchangeState *state = palloc0(sizeof(ExchangeState));
	const Oid  *collations = (const Oid *) ((char *) shared + shared->collations);
	TupleDesc	desc = CreateTupleDescCopy(ExecGetResultType(input_of(producer)));

	for (int i = 0; i < desc->natts; i++)
	{
		TupleDescAttr(desc, i)->atttypmod = -1;
		TupleDescAttr(desc, i)->attcollation = collations[i];
	}
	state->css.ss.ps.state = estate;
	state->spec = rf_exchange_spec_parse(shared->spec);
	state->member = palloc0(sizeof(ExchangeMember));
	state->member->desc = (RfGroupDesc *) ((char *) shared + shared->desc);
	state->member->consumer = -1;
	state->input.node = input_of(producer);
	state->input.started = true;
	state->reader.over = true;
	state->sending.production = PRODUCTION_RUNNING;
	state->workers.queue =
		rf_queue_attach((char *) shared + shared->queues, ParallelWorkerNumber);
	state->sending.encoding = GetDatabaseEncoding();
	rf_exchange_begin_sending(state, desc);
	state->routing.spread_turn += ParallelWorkerNumber + 1;
	rf_filter_attach(state, (const uint64 *) ((char *) shared + shared->filters));
	return state;
}

/* Worker: routes all rows of its part of the query into its queue, and counts them at the end. */
static void
produce_all(ProducerState *producer)
{
	MemoryContext caller = MemoryContextSwitchTo(producer->css.ss.ps.state->es_query_cxt);
	ExchangeState *state = make_worker(producer);

	while (state->sending.production != PRODUCTION_OVER)
	{
		CHECK_FOR_INTERRUPTS();
		(void) rf_exchange_produce(state);
	}
	rf_exchange_end_sending(state);
	rf_queue_end(state->workers.queue, state->input.rows, state->member->counters.rows_filtered);
	if (producer->css.ss.ps.instrument != NULL)
		producer->css.ss.ps.instrument->tuplecount += state->input.rows;
	MemoryContextSwitchTo(caller);
}

static TupleTableSlot *
exec_producer(CustomScanState *node)
{
	ProducerState *producer = (ProducerState *) node;
	ExchangeState *state = producer->exchange;

	if (producer->shared != NULL && producer->shared->linked)
	{
		produce_all(producer);
		return NULL;
	}
	if (state == NULL)
		return ExecProcNode(input_of(producer));
	if (state->input.over && state->workers.gather->nreaders == 0)
		return NULL;
	return ExecStoreAllNullTuple(producer->empty);
}

/* The workers have ended, and their shared memory is still there. */
static void
shutdown_producer(CustomScanState *node)
{
	ProducerState *producer = (ProducerState *) node;
	ExchangeState *state = producer->exchange;
	int			workers;
	uint64	   *rows;
	uint64		sum = state == NULL ? 0 : state->input.rows;
	uint64		filtered;
	StringInfoData text;
	MemoryContext caller;

	if (state == NULL || state->workers.queues == NULL)
		return;
	caller = MemoryContextSwitchTo(state->set->context);
	workers = state->workers.gather->pei->pcxt->nworkers;
	rows = palloc0(workers * sizeof(uint64));
	rf_queues_count(state->workers.queues, rows, &filtered);
	state->member->counters.rows_filtered += filtered;
	initStringInfo(&text);
	appendStringInfo(&text, UINT64_FORMAT, state->input.rows);
	for (int i = 0; i < workers; i++)
	{
		appendStringInfo(&text, "/" UINT64_FORMAT, rows[i]);
		sum += rows[i];
	}
	producer->process_rows = state->member->counters.taken_rows = text.data;
	/* the executor has counted empty rows; the workers' rows are added to this node's later */
	if (node->ss.ps.instrument != NULL)
		node->ss.ps.instrument->tuplecount = state->input.rows;
	if (state->workers.gather->ps.instrument != NULL)
		state->workers.gather->ps.instrument->tuplecount = sum;
	MemoryContextSwitchTo(caller);
}

static void
explain_producer(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ProducerState *producer = (ProducerState *) node;

	if (es->analyze && es->timing && producer->process_rows != NULL)
		ExplainPropertyText("Rows per Process", producer->process_rows, es);
}

/* ---------- plan ---------- */

static const CustomExecMethods exec_methods = {
	.CustomName = producer_name,
	.BeginCustomScan = begin_producer,
	.ExecCustomScan = exec_producer,
	.EndCustomScan = end_producer,
	.ReScanCustomScan = rescan_producer,
	.ShutdownCustomScan = shutdown_producer,
	.ExplainCustomScan = explain_producer,
	.EstimateDSMCustomScan = estimate_shared,
	.InitializeDSMCustomScan = initialize_shared,
	.ReInitializeDSMCustomScan = reinitialize_shared,
	.InitializeWorkerCustomScan = initialize_worker,
};

static Node *
create_state(CustomScan *scan)
{
	ProducerState *producer = (ProducerState *) newNode(sizeof(ProducerState), T_CustomScanState);

	producer->css.methods = &exec_methods;
	return (Node *) producer;
}

static const CustomScanMethods scan_methods = {producer_name, create_state};

static Plan *
plan_producer(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			  List *plans)
{
	CustomScan *scan = makeNode(CustomScan);

	scan->methods = &scan_methods;
	scan->flags = path->flags;
	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->custom_scan_tlist = copyObject(((Plan *) linitial(plans))->targetlist);
	scan->custom_plans = plans;
	return &scan->scan.plan;
}

static const CustomPathMethods path_methods = {producer_name, plan_producer, NULL};

/*
 * One more way to run the whole query: its partial plan, with producers above it, and a Gather that
 * passes no rows on. To route and encode rows is about an operator's work for each, which no other
 * path has in its costs: so the workers' part of it is taken off here.
 */
void
rf_exchange_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
						RelOptInfo *output, void *extra)
{
	Path	   *partial;
	PathTarget *target;
	CustomPath *producer;
	GatherPath *gather;
	double		no_rows = 0;
	double		divisor;

	if (!rf_workers_wanted || stage != UPPERREL_FINAL || root->query_level != 1 ||
		!parallel_leader_participation || !output->consider_parallel ||
		input->partial_pathlist == NIL || root->parse->commandType != CMD_SELECT ||
		root->parse->rowMarks != NIL || ((FinalPathExtraData *) extra)->limit_needed)
		return;
	partial = linitial(input->partial_pathlist);
	/* core does not say what the columns of set operations are */
	target = root->upper_targets[UPPERREL_FINAL] != NULL ? root->upper_targets[UPPERREL_FINAL] :
		input->cheapest_total_path->pathtarget;
	if (!equal(partial->pathtarget->exprs, target->exprs))
		return;
	producer = makeNode(CustomPath);
	producer->path.pathtype = T_CustomScan;
	producer->path.parent = output;
	producer->path.pathtarget = partial->pathtarget;
	producer->path.parallel_aware = true;
	producer->path.parallel_safe = true;
	producer->path.parallel_workers = partial->parallel_workers;
	producer->path.rows = partial->rows;
	producer->path.startup_cost = partial->startup_cost;
	producer->path.total_cost = partial->total_cost;
	producer->custom_paths = list_make1(partial);
	producer->methods = &path_methods;
	gather = create_gather_path(root, output, &producer->path, producer->path.pathtarget, NULL,
								&no_rows);
	divisor = rf_parallel_divisor(partial->parallel_workers);
	gather->path.rows = clamp_row_est(partial->rows * divisor);
	gather->path.total_cost = Max(gather->path.total_cost -
								  (gather->path.rows - partial->rows) * cpu_operator_cost,
								  gather->path.startup_cost);
	add_path(output, &gather->path);
}

void
rf_workers_link(ExchangeState *state)
{
	GatherState *gather = (GatherState *) state->input.query->planstate;
	ProducerState *producer;

	if (!IsA(gather, GatherState) || !IsA(outerPlanState(gather), CustomScanState) ||
		!parallel_leader_participation)
		return;
	producer = (ProducerState *) outerPlanState(gather);
	if (producer->css.methods != &exec_methods)
		return;
	producer->exchange = state;
	state->workers.gather = gather;
	state->input.node = input_of(producer);
}

void
rf_workers_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
