/*
 * scan_async.c - several data nodes at work for one query at the same time.
 *
 * Two ways. Append asks its children asynchronously when the planner said so
 * (rdmaIsForeignPathAsyncCapable): rows come from whichever node has some, at the price of more
 * work per row in Append. Otherwise scans that the plan is going to read anyway are started when
 * the first one is, so that their nodes have planned, sorted, aggregated and filled their buffers
 * when the reader gets to them, at no price per row.
 *
 * Does: the callbacks of asynchronous execution, and the early start. Does not: read rows
 * (scan_exec.c). All state is one backend's.
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
 * arrive with a latch, so older ones would sleep on.
 */
static bool
append_heeds_latch(void)
{
	int			version = atoi(GetConfigOption("server_version_num", false, false));

	return version >= 180000 || (version >= 170005 && version < 180000) ||
		(version >= 160009 && version < 170000) || (version >= 150013 && version < 160000);
}

/*
 * A row that comes asynchronously costs Append about two local tuples' worth more. Unless the
 * option says yes or no, that must be little against the work that the nodes do at the same time:
 * when most of what they read crosses, the reader is what everybody waits for.
 */
bool
rdmaIsForeignPathAsyncCapable(ForeignPath *path)
{
	RfRelInfo  *info = (RfRelInfo *) path->path.parent->fdw_private;
	RfTableOptions *opts = &info->opts;
	Cost		remote = path->path.total_cost - opts->fdw_startup_cost -
		(opts->fdw_tuple_cost + cpu_tuple_cost) * Max(info->retrieved_rows, path->path.rows);

	/*
	 * Below INTERSECT and EXCEPT the planner has put a constant into every row that says which branch
	 * it is of, and those of the first must come first.
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
 * Is the session taken by another child of the same Append? Then ours starts when that one is read
 * to its end; starting now would store the rest of it away. The same when so many children have
 * their streams open that there may be no buffers for another.
 *
 * But that one must be read on, or we would wait for ever. While Append is about to sleep
 * (`sleeping`), all its children are asked for rows or have just given one in this round. If the
 * one in front is not asked, nor was since we saw it so the last time, then Append only wants to be
 * rid of its requests, before a rescan.
 *
 * A child whose rest was stored away since Append asked it, by a sub-plan of another child's, is in
 * front, too: its socket is among those that Append waits for already, and cannot be added again.
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

		if (other == state || other->request == NULL ||
			other->request->requestor != state->request->requestor ||
			other->parts->stream == NULL ||
			!(rf_stream_is_running(other->parts->stream) ||
			  (other->started && other->request->callback_pending)))
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
	if (!sleeping || in_front->request->callback_pending)
		return true;
	if (state->seen == in_front && state->seen_requests == in_front->requests)
		return false;
	state->seen = in_front;
	state->seen_requests = in_front->requests;
	return true;
}

/* A row, or the end, if one is here; false: it is not. */
static bool
produce(AsyncRequest *areq, bool sleeping)
{
	ForeignScanState *node = (ForeignScanState *) areq->requestee;
	RfScanState *state = (RfScanState *) node->fdw_state;
	TupleTableSlot *slot;

	state->request = areq;
	state->starved = false;
	if (must_queue(state, sleeping))
		return false;
	/* Not ExecProcNode: whoever called us counts rows and time. */
	slot = node->ss.ps.ExecProcNodeReal(&node->ss.ps);
	if (TupIsNull(slot) && state->starved)
		return false;
	ExecAsyncRequestDone(areq, slot);
	return true;
}

void
rdmaForeignAsyncRequest(AsyncRequest *areq)
{
	((RfScanState *) ((ForeignScanState *) areq->requestee)->fdw_state)->requests++;
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
 * request that is pending, again after every wake-up. What has come meanwhile is handed over here.
 * Otherwise produce() has told the lane to set the latch when a buffer comes. The socket makes
 * Append sleep at all, and wakes it for the answer and for errors. A queued child adds nothing: the
 * one it waits for either adds that socket or has just given a row, and then nobody sleeps.
 *
 * To hand a row over may take a sub-plan, whose scans wait with the same latch and may have had the
 * rows of the other children stored: those, asked before, would not be waked any more. So Append is
 * made to ask all of them again.
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
		AddWaitEventToSet(append->as_eventset, WL_SOCKET_READABLE, rf_stream_socket(state->parts->stream),
						  NULL, areq);
}

/* ---------- early start ---------- */

/*
 * Finds the scans below `node` that will be read if the node is. sure: to its end, not only until
 * somebody above has enough. A join's side is found although it is not read when the other one is
 * empty: that costs a query for nothing, but being late costs every join its time.
 */
static void
find_scans(PlanState *node, bool sure, PlanState *append, List **scans)
{
	switch (nodeTag(node))
	{
		case T_ForeignScanState:
			{
				ForeignScanState *scan = (ForeignScanState *) node;
				RfScanState *state = (RfScanState *) scan->fdw_state;

				if (scan->fdwroutine->IterateForeignScan == rdmaIterateForeignScan && state != NULL &&
					((ForeignScan *) node->plan)->operation == CMD_SELECT)
				{
					state->append = append;
					*scans = lappend(*scans, state);
				}
				return;
			}
		case T_AppendState:
			{
				AppendState *parent = (AppendState *) node;

				/* only the first child is surely read by somebody who stops early */
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
 * Nothing else of this query may want the session before the scan is read, or its rows would have
 * to be stored: so all other scans of the same server must be later children of the same Append.
 */
static bool
has_session_to_itself(RfScanState *state)
{
	dlist_iter	iter;

	dlist_foreach(iter, &rf_open_scans)
	{
		RfScanState *other = dlist_container(RfScanState, node, iter.cur);

		if (other != state && rf_scans_share_node(other, state) && !other->ended &&
			(state->append == NULL || other->append != state->append))
			return false;
	}
	return true;
}

static bool
sessions_are_idle(RfScanState *state)
{
	for (int i = 0; i < state->part_count; i++)
	{
		if (rf_session_is_busy(rf_session_get(rf_scan_part_user(&state->parts[i]), true)))
			return false;
	}
	return true;
}

/*
 * The first scan of a query that runs in one go has started: start others. They see the same
 * snapshot, as the remote transaction's is taken by its first command whenever that is; scans with
 * parameters or row locks are left alone, because what they do depends on when they do it.
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

		if (left > 0 && !state->started && !state->ended && state->param_count == 0 &&
			state->fetch.async_capable != 0 && has_session_to_itself(state) && sessions_are_idle(state))
		{
			rf_scan_start(state);
			left -= state->part_count;
		}
	}
	list_free(scans);
}
