/*
 * scan_async.c - several data nodes work for one query at the same time.
 *
 * There are two ways. Append asks its children asynchronously if the planner decided so
 * (rdmaIsForeignPathAsyncCapable): it takes rows from any node that has some, with more work per
 * row in Append. Otherwise scans that the plan is going to read anyway are started with the first
 * one, so that their nodes have planned, sorted, aggregated and filled their buffers when the
 * reader gets to them, without extra work per row.
 *
 * Does: the callbacks of asynchronous execution, and the early start. Does not: read rows
 * (scan_exec.c). All state belongs to one backend.
 */
#include "postgres.h"

#include "executor/execAsync.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "optimizer/optimizer.h"
#include "storage/latch.h"
#include "utils/guc.h"

#include "rdma_fdw/compat.h"

#include "fdw/deparse/statement.h"
#include "exec.h"
#include "scan_state.h"

/*
 * Append waits for sockets and, since minor releases of spring 2025, for the process latch. Rows
 * arrive with a latch, so older releases would keep sleeping.
 */
static bool
append_heeds_latch(void)
{
	int			version = atoi(GetConfigOption("server_version_num", false, false));

	return version >= 180000 || (version >= 170005 && version < 180000) ||
		(version >= 160009 && version < 170000) || (version >= 150013 && version < 160000);
}

/*
 * An asynchronous row costs Append about as much as two more local tuples. Unless the option is
 * set, that must be small compared with the nodes' concurrent work: if most rows that they read
 * cross the wire, the reader is the bottleneck.
 */
bool
rdmaIsForeignPathAsyncCapable(ForeignPath *path)
{
	RfRelInfo  *info = (RfRelInfo *) path->path.parent->fdw_private;
	RfTableOptions *opts = &info->opts;
	Cost		remote = path->path.total_cost - opts->fdw_startup_cost -
		(opts->fdw_tuple_cost + cpu_tuple_cost) * Max(info->est.retrieved_rows, path->path.rows);

	/*
	 * Below INTERSECT and EXCEPT the planner has added a constant to every row that identifies its
	 * branch, and rows of the first branch must come first.
	 */
	if (rf_is_set_operation(info))
	{
		ListCell   *lc;

		foreach(lc, path->path.pathtarget->exprs)
		{
			if (IsA(lfirst(lc), Const))
				return false;
		}
	}
	/* several nodes run at the same time anyway */
	if (info->nodes != NIL || !append_heeds_latch())
		return false;
	if (opts->fetch.async_capable >= 0)
		return opts->fetch.async_capable == 1;
	return remote > 4 * (2 * cpu_tuple_cost) * path->path.rows;
}

/* ---------- asynchronous Append ---------- */

/*
 * Returns true if another child of the same Append uses the session. Then ours starts after that
 * one is read to its end; starting now would spool the rest of it. The same if so many children
 * have open streams that there may be no buffers for another.
 *
 * But Append must keep reading that one, or we would wait forever. When Append is about to sleep
 * (`sleeping`), each of its children has a pending request or returned a row in this round. If the
 * child in front has no request, and had no request since we last saw it so, then Append is only
 * clearing its requests, before a rescan.
 *
 * A child whose rest was spooled since Append asked it, by a sub-plan of another child, is in
 * front, too: Append waits for its socket already, and it cannot be added again.
 */
static bool
must_queue(RfScanState *state, bool sleeping)
{
	RfScanState *in_front = NULL;
	int			running = 0;
	dlist_iter	iter;

	if (state->started)
		return false;
	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *other = dlist_container(RfScanState, node, iter.cur);

		if (other == state || other->async.request == NULL ||
			other->async.request->requestor != state->async.request->requestor ||
			other->parts->stream == NULL ||
			!(rf_stream_is_running(other->parts->stream) ||
			  (other->started && other->async.request->callback_pending)))
			continue;
		if (other->parts->user->umid == rf_scan_part_user(state->parts)->umid)
		{
			in_front = other;
			break;
		}
		if (rf_stream_is_running(other->parts->stream) && ++running >= rf_stream_limit())
			in_front = other;
	}
	if (in_front == NULL)
		return false;
	if (!sleeping || in_front->async.request->callback_pending)
		return true;
	if (state->async.seen == in_front && state->async.seen_requests == in_front->async.requests)
		return false;
	state->async.seen = in_front;
	state->async.seen_requests = in_front->async.requests;
	return true;
}

/* Returns a row, or the end, if one is here; false: not yet. */
static bool
produce(AsyncRequest *areq, bool sleeping)
{
	ForeignScanState *node = (ForeignScanState *) areq->requestee;
	RfScanState *state = (RfScanState *) node->fdw_state;
	TupleTableSlot *slot;

	state->async.request = areq;
	state->async.starved = false;
	if (must_queue(state, sleeping))
		return false;
	/* Not ExecProcNode: the caller counts rows and time. */
	slot = node->ss.ps.ExecProcNodeReal(&node->ss.ps);
	if (TupIsNull(slot) && state->async.starved)
		return false;
	ExecAsyncRequestDone(areq, slot);
	return true;
}

void
rdmaForeignAsyncRequest(AsyncRequest *areq)
{
	((RfScanState *) ((ForeignScanState *) areq->requestee)->fdw_state)->async.requests++;
	if (!produce(areq, false))
		ExecAsyncRequestPending(areq);
}

void
rdmaForeignAsyncNotify(AsyncRequest *areq)
{
	if (!produce(areq, false))
		ExecAsyncRequestPending(areq);
}

/*
 * Append is about to sleep until a socket is readable or the latch is set, and calls this for every
 * request that is pending, again after every wake-up. Rows that have arrived meanwhile are returned
 * here. Otherwise produce() has told the lane to set the latch when a buffer comes. Append sleeps
 * only if there is a socket, which also wakes it for the answer and for errors. A queued child adds
 * nothing: the one it waits for either adds that socket or has just returned a row, and then Append
 * does not sleep.
 *
 * Returning a row may run a sub-plan, whose scans wait with the same latch and may have spooled the
 * rows of the other children: those, asked before, would not be woken any more. So Append must ask
 * all of them again.
 */
void
rdmaForeignAsyncConfigureWait(AsyncRequest *areq)
{
	ForeignScanState *node = (ForeignScanState *) areq->requestee;
	RfScanState *state = (RfScanState *) node->fdw_state;
	AppendState *append = (AppendState *) areq->requestor;
	uint64		starts = rf_scan_starts;
	bool		produced;

	Assert(areq->callback_pending);
	produced = produce(areq, true);
	if (produced || rf_scan_starts != starts)
		SetLatch(MyLatch);
	if (produced)
	{
		areq->callback_pending = false;
		if (areq->requestee->instrument)
			InstrUpdateTupleCount(areq->requestee->instrument, TupIsNull(areq->result) ? 0.0 : 1.0);
		ExecAsyncResponse(areq);
	}
	else if (state->parts->stream != NULL)
		AddWaitEventToSet(append->as_eventset, WL_SOCKET_READABLE,
						  rf_stream_socket(state->parts->stream), NULL, areq);
}

/* ---------- early start ---------- */

/* The state of a scan of this wrapper; NULL: the node is another wrapper's, or writes. */
static RfScanState *
state_of_scan(ForeignScanState *node)
{
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *state = dlist_container(RfScanState, node, iter.cur);

		if (state->scan == node)
			return state;
	}
	return NULL;
}

/*
 * Finds the scans below `node` that will be read if the node is. sure: it is read to its end, not
 * only until an upper node has enough rows. A join's side is included although it is not read if
 * the other one is empty: that wastes one query, but a late start would delay every join.
 */
static void
find_scans(PlanState *node, bool sure, PlanState *append, List **scans)
{
	switch (nodeTag(node))
	{
		case T_ForeignScanState:
			{
				RfScanState *state = state_of_scan((ForeignScanState *) node);

				if (state != NULL)
				{
					state->async.append = append;
					*scans = lappend(*scans, state);
				}
				return;
			}
		case T_AppendState:
			{
				AppendState *parent = (AppendState *) node;

				/* an upper node that stops early surely reads only the first child */
				if (parent->as_prune_state != NULL)
					return;
				for (int i = 0; i < (sure ? parent->as_nplans : Min(parent->as_nplans, 1)); i++)
					find_scans(parent->appendplans[i], sure, node, scans);
				return;
			}
		case T_MergeAppendState:
			{
				MergeAppendState *parent = (MergeAppendState *) node;

				if (parent->ms_prune_state != NULL)
					return;
				for (int i = 0; i < parent->ms_nplans; i++)
					find_scans(parent->mergeplans[i], sure, node, scans);
				return;
			}
		case T_LimitState:
			find_scans(outerPlanState(node), false, append, scans);
			return;
		case T_SortState:
			find_scans(outerPlanState(node), true, append, scans);
			return;
		case T_AggState:
			find_scans(outerPlanState(node),
					   sure || ((Agg *) node->plan)->aggstrategy == AGG_PLAIN ||
					   ((Agg *) node->plan)->aggstrategy == AGG_HASHED, append, scans);
			return;
		case T_ResultState:
			if (outerPlanState(node) != NULL && ((ResultState *) node)->resconstantqual == NULL)
				find_scans(outerPlanState(node), sure, append, scans);
			return;
		case T_SubqueryScanState:
			find_scans(((SubqueryScanState *) node)->subplan, sure, append, scans);
			return;
		case T_MaterialState:
		case T_IncrementalSortState:
		case T_UniqueState:
		case T_WindowAggState:
		case T_ProjectSetState:
			find_scans(outerPlanState(node), sure, append, scans);
			return;
		case T_HashState:
			find_scans(outerPlanState(node), true, NULL, scans);
			return;
		case T_HashJoinState:
		case T_MergeJoinState:
			find_scans(innerPlanState(node), sure, NULL, scans);
			find_scans(outerPlanState(node), sure, NULL, scans);
			return;
		case T_NestLoopState:
			find_scans(outerPlanState(node), sure, NULL, scans);
			return;
		default:
			return;
	}
}

/*
 * No other part of this query may need the session before the scan is read, or its rows would have
 * to be spooled: so all other scans of the same server must be later children of the same Append.
 */
static bool
has_session_to_itself(RfScanState *state)
{
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *other = dlist_container(RfScanState, node, iter.cur);

		if (other != state && rf_scans_share_node(other, state) && !other->ended &&
			(state->async.append == NULL || other->async.append != state->async.append))
			return false;
	}
	return true;
}

static bool
sessions_are_idle(RfScanState *state)
{
	for (int i = 0; i < state->part_count; i++)
	{
		if (rf_session_is_busy(rf_scan_part_session(&state->parts[i])))
			return false;
	}
	return true;
}

/*
 * The first scan of a query that runs to its end in one call has started: start the remaining
 * scans. They see the same snapshot, as the first command of the remote transaction takes it at any
 * time. Scans with parameters or row locks are not started, because their result depends on the
 * time of their start.
 */
void
rf_scan_start_early(EState *estate, PlanState *top)
{
	PlannedStmt *plan = estate->es_plannedstmt;
	List	   *scans = NIL;
	int			left = rf_stream_limit() - 1;
	ListCell   *lc;

	if (plan == NULL || plan->commandType != CMD_SELECT || plan->hasModifyingCTE ||
		plan->rowMarks != NIL || estate->es_epq_active != NULL)
		return;
	find_scans(top, true, NULL, &scans);
	foreach(lc, scans)
	{
		RfScanState *state = lfirst(lc);

		if (left > 0 && !state->started && !state->ended && state->params.count == 0 &&
			state->fetch.async_capable != 0 && has_session_to_itself(state) &&
			sessions_are_idle(state))
		{
			rf_scan_start(state);
			left -= state->part_count;
		}
	}
	list_free(scans);
}
