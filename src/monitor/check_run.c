/*
 * check_run.c - rdma.check(server): runs the steps (check.c), of which each adds rows.
 *
 * A step that fails gives a row and not an error, and ends the check where the next steps need it;
 * each runs in a subtransaction of its own, so the session survives. A server with nodes is checked
 * at each of them.
 *
 * It is used when something hangs, so it must not hang itself: all steps that need the other node
 * share a time limit, and a step that it ends gives a row as well.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timeout.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "base/result_row.h"
#include "check.h"

PG_FUNCTION_INFO_V1(rdma_check);

#define SLACK_MS			5000	/* beyond the time that the engines need to find out that
									 * nothing gets through */
#define CLEANUP_MS			30000	/* time to end a step that hangs with its session */

/* ---------- time ---------- */

/* Time in which the engines find out any problem. */
static int
limit_ms(void)
{
	return Min((int64) rf_connect_timeout + rf_peer_timeout + SLACK_MS, INT_MAX / 2);
}

static volatile sig_atomic_t time_is_up = false;

/* Cancels the step. A cancel of the user's own that is pending stays that. */
static void
end_step(void)
{
	if (QueryCancelPending)
		return;
	time_is_up = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

static TimeoutId
step_timeout(void)
{
	static bool registered = false;
	static TimeoutId id;

	if (!registered)
		id = RegisterTimeout(USER_TIMEOUT, end_step);
	registered = true;
	return id;
}

/* The step has ended, in time or not. True: it was ended by us. */
static bool
stop_clock(Check *check)
{
	bool		ended;

	if (check->deadline == 0)
		return false;
	disable_timeout(step_timeout(), false);
	ended = time_is_up;
	if (ended)
		QueryCancelPending = false;
	time_is_up = false;
	return ended;
}

/* ---------- steps ---------- */

/* Run a step; an error becomes its row. False: it failed. */
static bool
run_step(Check *check, const CheckStep *step)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool good = true;

	if (check->deadline != 0)
		enable_timeout_at(step_timeout(), check->deadline);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(old);
	PG_TRY();
	{
		step->step(check);
		(void) stop_clock(check);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(old);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;
		char	   *value;
		bool		ended = stop_clock(check);

		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(old);
		CurrentResourceOwner = owner;

		/* The user wants to stop, not to learn about it. */
		if ((error->sqlerrcode == ERRCODE_QUERY_CANCELED && !ended) ||
			error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
			ReThrowError(error);
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			problem(check, step->item,
					psprintf("not known: there was no answer within %d s", limit_ms() / 1000),
					"See that this node and the other one are not overloaded, and that packets get "
					"through in both directions.");
		else
		{
			value = error->detail ? psprintf("%s (%s)", error->message, error->detail) :
				error->message;
			problem(check, step->item, value, error->hint ? error->hint : step->fix ? step->fix :
					"The server logs of this node and of the other one say more.");
		}
		good = false;
	}
	PG_END_TRY();
	return good;
}

/* The next rows are about another node. */
static void
start_clock(Check *check)
{
	check->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), limit_ms());
}

static void
run_steps(Check *check, const CheckStep *steps)
{
	for (; steps->item != NULL && !check->stop; steps++)
	{
		if (!run_step(check, steps))
			check->stop = true;
	}
}

/*
 * rdma.check(server): runs the steps for this node, and with a server the steps for it or its
 * nodes, one after the other.
 */
Datum
rdma_check(PG_FUNCTION_ARGS)
{
	bool		all_reached = true;
	RfRow		row = RF_ROW(fcinfo);
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	List	   *nodes = rf_server_nodes(server);
	Check		check;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	memset(&check, 0, sizeof(check));
	check.context = CurrentMemoryContext;
	check.serverid = server->serverid;
	check.server = server->servername;
	check.nodes = nodes;
	info(&check, "time limit",
		 psprintf("%d s%s", (limit_ms() + CLEANUP_MS) / 1000, nodes == NIL ? "" : " for each node"),
		 "rdma_fdw.connect_timeout and rdma_fdw.peer_timeout make most of it.");
	run_steps(&check, rf_check_here);
	start_clock(&check);
	if (!check.stop && nodes == NIL)
	{
		run_steps(&check, rf_check_there);
		run_steps(&check, rf_check_tables);
	}
	else if (!check.stop)
	{
		foreach(cell, nodes)
		{
			ForeignServer *node = GetForeignServer(lfirst_oid(cell));

			check.node = node->servername;
			check.serverid = node->serverid;
			check.session = NULL;
			check.stop = false;
			start_clock(&check);
			run_steps(&check, rf_check_there);
			run_steps(&check, rf_check_among_nodes);
			all_reached &= !check.stop;
		}
		check.node = NULL;
		start_clock(&check);
		if (all_reached)
			run_steps(&check, rf_check_between_nodes);
	}
	foreach(cell, check.rows)
	{
		CheckRow   *one = lfirst(cell);

		rf_put_text(&row, one->item);
		rf_put_text(&row, one->status);
		rf_put_text(&row, one->value);
		rf_put_text(&row, one->fix);
		rf_end_row(&row);
	}
	return (Datum) 0;
}
