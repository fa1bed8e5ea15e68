/*
 * node_drive.c - drives the other exchanges while one of them waits.
 *
 * Every node runs the same statement, but each by its own plan: where one builds its hash table
 * from exchange 2 and then probes with exchange 1, another may do it the other way round. If a node
 * sent rows of an exchange only when its plan asks for them, the first would wait for rows of 2
 * from the second and the second for rows of 1 from the first.
 *
 * Rule. While exchange W waits, the backend also drives every exchange X of the statement whose
 * number is not above W's: it runs X's query, sends, and keeps in X's store the rows for itself.
 * Excepted are those whose query is being run further up the stack.
 *
 * Why nothing hangs: docs/architecture.md, "Why exchanges cannot deadlock". It needs of this file
 * that the exchange with the lowest number that some node waits for is driven by every node; that
 * to drive never waits, as a store takes every batch; and that a node which has ended
 * (rf_exchange_finish_all), or waits for the reader of its result (rf_exchange_acquire), drives
 * all.
 *
 * The coordinator's rows (sender.c). Their exchanges have the lowest numbers, no query on any node,
 * and a producer that waits for no row: it takes the rows of the result while it cannot send.
 *
 * Rows in use. A stored row stays until the reader asks for the next one. Driving X invalidates any
 * other row that X gave out last, if it points into memory of X's query or of a batch
 * (state->reader.lent). A reader that copies the rows it takes, like Sort, has no use for the row
 * once it has given control back. So, with C the nearest such reader above X:
 *
 * - No other exchange is below C: nothing can wait before the row is done with. It is lent, and any
 *   waiting process may drive X all the same.
 * - Another exchange is below C, or there is no C (state->reader.exposed): the row is copied as
 *   long as other exchanges may wait. Only the last exchange that is read lends its rows then, and
 *   only the reader of the result can still be waited for. With a C, X may be driven meanwhile.
 *   Without, rows leave while X is being read, and their reader must take them: it takes them from
 *   any node, and while it waits for one it stores the rows that come from the other nodes
 *   (scan_nodes.c).
 */
#include "node.h"

#include "executor/executor.h"
#include "libpq/pqcomm.h"
/* only for the way to the client, see store.c */
#undef ENABLE_GSS
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "tcop/tcopprot.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/serve.h"
#include "base/clock.h"

/*
 * Batches received, and steps of the query run, for an exchange that is not being read, before
 * turning to the next one.
 */
#define BATCHES_PER_TURN	4
#define STEPS_PER_TURN		4

/* Interval at which a sleeper checks that the client is still connected. */
#define CLIENT_CHECK_MS		1000

static bool
may_drive(const ExchangeState *state, const ExchangeState *waiting)
{
	if (state == NULL || state == waiting || !rf_exchange_is_free(state, waiting != NULL))
		return false;
	return waiting == NULL || state->spec->number <= waiting->spec->number;
}

/* Drive one exchange that is not being read. True: it made progress. */
static bool
drive(ExchangeState *state)
{
	bool		moved = false;

	state->reader.lent = false;
	for (int batches = 0; batches < BATCHES_PER_TURN && rf_exchange_receive(state); batches++)
	{
		moved = true;
		if (state->in.loaded)
			rf_exchange_store_received(state);
		if (state->in.ended)
			break;
	}
	for (int steps = 0; steps < STEPS_PER_TURN; steps++)
	{
		ExchangeStep step;

		/* Own rows are taken one by one, so that a step has about as many rows either way. */
		for (int rows = 0; (step = rf_exchange_produce(state)) == STEP_OWN_ROW && rows < 64; rows++)
			rf_exchange_store_own(state);
		if (step == STEP_STUCK)
			break;
		moved = true;
	}
	return moved;
}

/* `waiting` NULL: all. */
static bool
drive_others(ExchangeSet *set, const ExchangeState *waiting)
{
	bool		moved = false;

	for (int i = 0; i < set->count; i++)
	{
		ExchangeState *state = set->members[i].state;

		if (may_drive(state, waiting))
			moved |= drive(state);
	}
	return moved;
}

/*
 * Sleeps until one of the exchanges that may be driven now can go on. Notices a coordinator that
 * has gone, since a query that waits for nodes sends nothing.
 */
static void
sleep_until_moved(ExchangeSet *set, ExchangeState *waiting, const RfFlowSleep *also)
{
	RfGroup    *groups[2 * EXCHANGE_MAX];
	int			count = 0;
	long		timeout = CLIENT_CHECK_MS;
	int64		since = rf_now_us();
	int			events;

	for (int i = 0; i < set->count; i++)
	{
		ExchangeMember *member = &set->members[i];

		if (member->state == NULL ||
			(member->state != waiting && !may_drive(member->state, waiting)))
			continue;
		if (member->in != NULL)
			groups[count++] = member->in;
		if (member->out != NULL && member->state->sending.production != PRODUCTION_OVER)
			groups[count++] = member->out;
		if (member->in != NULL || member->out != NULL)
			member->counters.stalls++;
		if (unlikely(member->state->partners.filters != NULL) &&
			rf_filter_patience(member->state) >= 0)
			timeout = Min(timeout, rf_filter_patience(member->state));
	}
	events = rf_groups_wait_also(groups, count, also, PGINVALID_SOCKET, timeout);
	/* else the flow counts it: the reader is waited for */
	if (also == NULL)
		rf_exchange_slept_us += rf_now_us() - since;
	if ((events & WL_TIMEOUT) && whereToSendOutput == DestRemote && !pq_check_connection())
		ereport(FATAL,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("connection to the coordinator was lost")));
}

void
rf_exchange_sleep(ExchangeState *waiting)
{
	if (!drive_others(waiting->set, waiting))
		sleep_until_moved(waiting->set, waiting, NULL);
}

/* Returns true if a plan node belongs to the query of another, unfinished exchange. */
static bool
is_inside(const ExchangeSet *set, const ExchangeState *state)
{
	for (int i = 0; i < set->count; i++)
	{
		const ExchangeState *around = set->members[i].state;

		if (around != NULL && around->input.query != NULL &&
			around->input.query->estate == state->css.ss.ps.state)
			return around->sending.production != PRODUCTION_OVER;
	}
	return false;
}

/* Returns true if such a query reads its rows. */
static bool
is_read_inside(const ExchangeSet *set, const ExchangeState *state)
{
	ListCell   *lc;

	foreach(lc, state->member->readers)
	{
		if (is_inside(set, lfirst(lc)))
			return true;
	}
	return is_inside(set, state);
}

void
rf_exchange_finish_all(ExchangeSet *set)
{
	for (;;)
	{
		bool		moved;
		bool		over = true;

		for (int i = 0; i < set->count; i++)
		{
			ExchangeState *state = set->members[i].state;

			if (state != NULL && !is_read_inside(set, state))
				rf_exchange_stop_reading(state);
		}
		moved = drive_others(set, NULL);

		for (int i = 0; i < set->count; i++)
		{
			ExchangeState *state = set->members[i].state;

			over = over && (state == NULL || state->sending.production == PRODUCTION_OVER);
		}
		if (over)
			return;
		CHECK_FOR_INTERRUPTS();
		if (!moved)
			sleep_until_moved(set, NULL, NULL);
	}
}

bool
rf_exchange_acquire(RfFlowHandle *flow, RfBuffer *buffer)
{
	RfFlowSleep also = {flow, RF_WAIT_SLOTS};
	RfAcquire	result;

	if (rf_exchange_set == NULL || rf_exchange_set->estate == NULL)
		return rf_flow_acquire(flow, buffer);
	while ((result = rf_flow_try_acquire(flow, buffer)) == RF_ACQUIRE_FULL)
	{
		if (!drive_others(rf_exchange_set, NULL))
			sleep_until_moved(rf_exchange_set, NULL, &also);
		CHECK_FOR_INTERRUPTS();
	}
	return result == RF_ACQUIRED;
}

/* ---------- which rows may be in use while other exchanges wait ---------- */

static bool
contains_exchange(PlanState *tree, void *context)
{
	if (tree == NULL)
		return false;
	return rf_exchange_is_state(tree) || planstate_tree_walker(tree, contains_exchange, context);
}

typedef struct InspectContext
{
	bool		nested;			/* the tree belongs to an exchange's query */
	bool		busy;			/* has_busy_subplan() of the whole tree */
	bool		copied;			/* a reader above copies the rows that it takes */
	bool		exposed;		/* another exchange is below the nearest such reader, or there is
								 * no such reader */
	bool		again;			/* may be asked for its rows again */
	bool		appended;		/* an Append is between it and the next Gather above */
} InspectContext;

static bool inspect(PlanState *node, void *argument);

/* Plans of CTEs are read once; CTE scans keep the rows until a parameter changes. */
static bool
is_cte(const SubPlanState *subplan)
{
	return subplan->subplan->subLinkType == CTE_SUBLINK;
}

/*
 * Other init plans and subplans run whenever an expression needs them, while any rows may be in
 * use.
 */
static bool
has_busy_subplan(PlanState *node, void *context)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	foreach(lc, node->initPlan)
	{
		if (!is_cte(lfirst(lc)) &&
			contains_exchange(lfirst_node(SubPlanState, lc)->planstate, NULL))
			return true;
	}
	foreach(lc, node->subPlan)
	{
		if (contains_exchange(lfirst_node(SubPlanState, lc)->planstate, NULL))
			return true;
	}
	return planstate_tree_walker(node, has_busy_subplan, context);
}

static bool
count_exchanges(PlanState *tree, void *count)
{
	if (tree == NULL)
		return false;
	if (rf_exchange_is_state(tree))
		++* (int *) count;
	return planstate_tree_walker(tree, count_exchanges, count);
}

/* The input of a reader that copies the rows it takes. */
static void
inspect_copied(PlanState *input, const InspectContext *above, bool again)
{
	InspectContext context = {above->nested, above->busy, .copied = true, .again = again,
	.appended = above->appended};
	int			count = 0;

	(void) count_exchanges(input, &count);
	context.exposed = above->busy || count > 1;
	(void) inspect(input, &context);
}

static bool
inspect(PlanState *node, void *argument)
{
	InspectContext context = *(InspectContext *) argument;
	bool		again = context.again;
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (rf_exchange_is_state(node))
	{
		ExchangeState *state = (ExchangeState *) node;

		state->reader.nested = context.nested;
		state->reader.copied = context.copied;
		state->reader.exposed = context.exposed;
		state->reader.keep |= context.again;
		state->sharing.appended = context.appended;
	}
	switch (nodeTag(node))
	{
		case T_HashState:
		case T_SortState:
		case T_AggState:
			inspect_copied(outerPlanState(node), &context, context.again);
			break;
		case T_SetOpState:
			/* Since 18 this node has two inputs and may read them alternately. */
			if (innerPlanState(node) == NULL)
				inspect_copied(outerPlanState(node), &context, context.again);
			else
				(void) planstate_tree_walker(node, inspect, &context);
			break;
		case T_MaterialState:

			/*
			 * This node keeps its input, too, if asked to, unless something below it changes
			 * between scans.
			 */
			inspect_copied(outerPlanState(node), &context, context.again &&
						   ((((MaterialState *) node)->eflags & EXEC_FLAG_REWIND) == 0 ||
							!bms_is_empty(node->plan->extParam)));
			break;
		case T_NestLoopState:
			(void) inspect(outerPlanState(node), &context);
			context.again = true;
			(void) inspect(innerPlanState(node), &context);
			break;
		case T_GatherState:
		case T_GatherMergeState:
			context.appended = false;
			(void) planstate_tree_walker(node, inspect, &context);
			break;
		case T_AppendState:
		case T_MergeAppendState:
			context.appended = true;
			(void) planstate_tree_walker(node, inspect, &context);
			break;
		case T_RecursiveUnionState:
			context.again = true;
			__attribute__((fallthrough));
		default:
			(void) planstate_tree_walker(node, inspect, &context);
			break;
	}
	/* The walker has visited these, too, but as if they were inputs. */
	foreach(lc, node->initPlan)
		inspect_copied(lfirst_node(SubPlanState, lc)->planstate, &context,
					   again || !is_cte(lfirst(lc)));
	foreach(lc, node->subPlan)
		inspect_copied(lfirst_node(SubPlanState, lc)->planstate, &context, true);
	return false;
}

void
rf_exchange_inspect(PlanState *tree, bool nested)
{
	InspectContext context = {.nested = nested, .busy = has_busy_subplan(tree, NULL)};
	int			count = 0;

	(void) count_exchanges(tree, &count);
	context.exposed = nested || context.busy || count > 1;
	(void) inspect(tree, &context);
}
