/*
 * deadlock.c - detects cycles of transactions that wait for each other across several nodes, or
 * across a node and this server.
 *
 * PostgreSQL detects the cycles within one server. Here each node is asked which of its processes
 * waits for which. A process that serves a session of a backend here counts as that backend. The
 * answers and the waits here form one graph. When a backend has waited for a node for longer than
 * deadlock_timeout, a worker in its database searches the graph, and searches again after a moment.
 * Nodes are asked one after the other, so a cycle found once may never have existed; a cycle found
 * twice is real, because its waits cannot end by themselves. Of the transactions in it that wait
 * for a node, the youngest is cancelled and raises the error.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"
#include "base/result_row.h"
#include "shmem/layout.h"
#include "session.h"
#include "waiting.h"

#define RF_DEADLOCK_ASK_MS		5000	/* for one node */
#define RF_DEADLOCK_LOOK_MS		300
#define RF_DEADLOCK_AGAIN_MS	50	/* between the two searches */
#define RF_DEADLOCK_LINGER_MS	5000	/* the worker stays this long without a waiting backend */

/* pid 0: a prepared transaction, which waits for nothing */
#define EDGES_SQL \
	"SELECT w.pid, b.pid FROM (SELECT DISTINCT pid FROM pg_catalog.pg_locks WHERE NOT granted) w," \
	" pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) b(pid) WHERE b.pid " \
	"OPERATOR(pg_catalog.>) 0"

PGDLLEXPORT void rf_deadlock_worker_main(Datum arg);

PG_FUNCTION_INFO_V1(rdma_locks);

typedef struct Process
{
	uint64		cluster;
	int			pid;
} Process;

typedef struct Edge
{
	Oid			serverid;		/* InvalidOid: here */
	int			waiting_pid;	/* as that server reports */
	int			blocking_pid;
	Process		waiting;		/* a backend here, if it is one's session */
	Process		blocking;
} Edge;

typedef struct Graph
{
	RfWaiter   *waiters;
	int			waiter_count;
	List	   *edges;			/* of Edge * */
} Graph;

/* ---------- the graph ---------- */

static bool
same(Process a, Process b)
{
	return a.cluster == b.cluster && a.pid == b.pid;
}

/*
 * A backend that no longer waits, although its session does, has given up: it was chosen as the
 * victim, or cancelled, and a cancel request is on its way to the session. Nothing holds it up.
 */
static bool
gave_up(const Graph *graph, const Edge *edge)
{
	if (!OidIsValid(edge->serverid) && edge->waiting_pid == edge->waiting.pid)
		return false;			/* it waits here */
	for (int i = 0; i < graph->waiter_count; i++)
	{
		if (graph->waiters[i].pid == edge->waiting.pid &&
			edge->waiting.cluster == GetSystemIdentifier())
			return graph->waiters[i].since == 0;
	}
	return false;
}

/* The backend here that a node's process serves; else the process itself. */
static Process
identify(const Graph *graph, uint64 cluster, int pid)
{
	for (int i = 0; i < graph->waiter_count; i++)
	{
		for (int k = 0; k < graph->waiters[i].session_count; k++)
		{
			const RfWaitingSession *session = &graph->waiters[i].sessions[k];

			if (session->cluster == cluster && session->remote_pid == pid)
				return (Process) {GetSystemIdentifier(), graph->waiters[i].pid};
		}
	}
	return (Process) {cluster, pid};
}

static void
add_edge(Graph *graph, Oid serverid, uint64 cluster, int waiting_pid, int blocking_pid)
{
	Edge	   *edge = palloc(sizeof(Edge));

	edge->serverid = serverid;
	edge->waiting_pid = waiting_pid;
	edge->blocking_pid = blocking_pid;
	edge->waiting = identify(graph, cluster, waiting_pid);
	edge->blocking = identify(graph, cluster, blocking_pid);
	graph->edges = lappend(graph->edges, edge);
}

/* Adds the waits for locks on this server to the graph. */
static void
add_local_edges(Graph *graph)
{
	MemoryContext caller = CurrentMemoryContext;

	SPI_connect();
	if (SPI_execute(EDGES_SQL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read locks");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		HeapTuple	row = SPI_tuptable->vals[i];
		int			waiter = DatumGetInt32(SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &isnull));
		int			blocker = DatumGetInt32(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &isnull));
		MemoryContext old = MemoryContextSwitchTo(caller);

		add_edge(graph, InvalidOid, GetSystemIdentifier(), waiter, blocker);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
}

static void
add_remote_edges(Graph *graph, RfSession *session)
{
	PGresult   *result = rf_session_ask(session, EDGES_SQL, 2, 0, PG_INT32_MAX);

	for (int i = 0; i < PQntuples(result); i++)
	{
		int64		waiter;
		int64		blocker;

		if (!rf_answer_int64(result, i, 0, 1, PG_INT32_MAX, &waiter) ||
			!rf_answer_int64(result, i, 1, 1, PG_INT32_MAX, &blocker))
			rf_session_bad_answer(session, result, EDGES_SQL);
		add_edge(graph, session->serverid, session->node.cluster, waiter, blocker);
	}
	PQclear(result);
}

static void
begin_graph(Graph *graph)
{
	memset(graph, 0, sizeof(*graph));
	graph->waiter_count = rf_waiting_list(&graph->waiters);
	add_local_edges(graph);
}

/* ---------- circles ---------- */

static const char *
server_name(Oid serverid)
{
	ForeignServer *server = NULL;

	if (OidIsValid(serverid))
		server = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	return server ? server->servername : NULL;
}

static void
describe_edge(StringInfo text, const Edge *edge)
{
	const char *name = server_name(edge->serverid);

	if (text->len > 0)
		appendStringInfoChar(text, '\n');
	if (name && same(edge->waiting, edge->blocking))
		appendStringInfo(text, "Process %d waits on server \"%s\" for its own session of another "
						 "role.", edge->waiting.pid, name);
	else if (name)
		appendStringInfo(text, "Process %d waits on server \"%s\" for process %d.",
						 edge->waiting.pid, name, edge->blocking.pid);
	else
		appendStringInfo(text, "Process %d waits for process %d.", edge->waiting.pid,
						 edge->blocking.pid);
}

/*
 * Searches a path from `from` to `goal` over edges that were not visited yet. Its edges go to *way.
 */
static bool
find_way(const Graph *graph, Process from, Process goal, List **gone, List **way)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, graph->edges)
	{
		Edge	   *edge = lfirst(lc);

		if (!same(edge->waiting, from) || list_member_ptr(*gone, edge) || gave_up(graph, edge))
			continue;
		*gone = lappend(*gone, edge);
		if (same(edge->blocking, goal) || find_way(graph, edge->blocking, goal, gone, way))
		{
			*way = lcons(edge, *way);
			return true;
		}
	}
	return false;
}

/* That server itself detects a cycle of its own processes. */
static bool
is_distributed(List *way)
{
	ListCell   *lc;
	Edge	   *before = llast(way);

	foreach(lc, way)
	{
		Edge	   *edge = lfirst(lc);

		if (edge->serverid != before->serverid || edge->waiting_pid != before->blocking_pid)
			return true;
		before = edge;
	}
	return false;
}

/* The youngest of the backends in a cycle that wait for a node. */
static RfWaiter *
youngest(const Graph *graph, List *way)
{
	RfWaiter   *found = NULL;
	ListCell   *lc;

	foreach(lc, way)
	{
		Edge	   *edge = lfirst(lc);

		for (int i = 0; i < graph->waiter_count; i++)
		{
			RfWaiter   *waiter = &graph->waiters[i];

			if (edge->waiting.cluster == GetSystemIdentifier() &&
				edge->waiting.pid == waiter->pid && waiter->since != 0 &&
				(found == NULL || waiter->started > found->started))
				found = waiter;
		}
	}
	return found;
}

/*
 * Returns the backend that has to give up: one of a cycle in which some backend has waited for
 * long. NULL: there is no such cycle.
 */
static RfWaiter *
find_victim(const Graph *graph, List **way)
{
	for (int i = 0; i < graph->waiter_count; i++)
	{
		Process		process = {GetSystemIdentifier(), graph->waiters[i].pid};
		List	   *gone = NIL;

		*way = NIL;
		if (rf_waiting_is_long(&graph->waiters[i]) &&
			find_way(graph, process, process, &gone, way) && is_distributed(*way))
			return youngest(graph, *way);
	}
	return NULL;
}

/* ---------- the worker ---------- */

typedef struct AskedNode
{
	uint64		cluster;
	Oid			serverid;
	Oid			userid;
} AskedNode;

/*
 * Nodes that did not answer, so that other searches do not wait for them. After each new one the
 * worker starts again.
 */
static List *shunned = NIL;
static uint64 asking = 0;

static bool
is_shunned(uint64 cluster)
{
	ListCell   *lc;

	foreach(lc, shunned)
	{
		if (*(uint64 *) lfirst(lc) == cluster)
			return true;
	}
	return false;
}

static void
shun(uint64 cluster)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	uint64	   *entry = palloc(sizeof(uint64));

	*entry = cluster;
	shunned = lappend(shunned, entry);
	MemoryContextSwitchTo(old);
}

/* Each node, once, that a backend which has waited for long is connected with. */
static List *
nodes_of_waiters(const Graph *graph)
{
	List	   *nodes = NIL;

	for (int i = 0; i < graph->waiter_count; i++)
	{
		if (!rf_waiting_is_long(&graph->waiters[i]))
			continue;
		for (int k = 0; k < graph->waiters[i].session_count; k++)
		{
			const RfWaitingSession *session = &graph->waiters[i].sessions[k];
			AskedNode  *node;
			ListCell   *lc;
			bool		known = session->cluster == GetSystemIdentifier() ||
				is_shunned(session->cluster);

			foreach(lc, nodes)
				known |= ((AskedNode *) lfirst(lc))->cluster == session->cluster;
			if (known)
				continue;
			node = palloc(sizeof(AskedNode));
			node->cluster = session->cluster;
			node->serverid = session->serverid;
			node->userid = session->userid;
			nodes = lappend(nodes, node);
		}
	}
	return nodes;
}

static void
time_is_up(void)
{
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

/*
 * One search, in a transaction of its own. Returns the backend to cancel, with the detail of its
 * error; false if there is no deadlock. A search in which a node does not answer finds nothing, and
 * the next one leaves that node out.
 */
static bool
look(TimeoutId timeout, RfWaiter *victim, char *detail, bool *anybody)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool found = false;

	*anybody = false;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	PG_TRY();
	{
		Graph		graph;
		List	   *nodes;
		List	   *way;
		ListCell   *lc;
		RfWaiter   *chosen;

		begin_graph(&graph);
		nodes = nodes_of_waiters(&graph);
		for (int i = 0; i < graph.waiter_count; i++)
			*anybody |= rf_waiting_is_long(&graph.waiters[i]);
		foreach(lc, nodes)
		{
			AskedNode  *node = lfirst(lc);
			RfSession  *session;

			asking = node->cluster;
			enable_timeout_after(timeout, RF_DEADLOCK_ASK_MS);
			session = rf_session_get(rf_user_mapping(node->userid, node->serverid), false);
			session->suspect = true;
			add_remote_edges(&graph, session);
			disable_timeout(timeout, false);
			asking = 0;
		}
		chosen = find_victim(&graph, &way);
		if (chosen != NULL)
		{
			StringInfoData text;

			initStringInfo(&text);
			foreach(lc, way)
				describe_edge(&text, lfirst(lc));
			*victim = *chosen;
			strlcpy(detail, text.data, RF_DEADLOCK_DETAIL);
			found = true;
		}
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		disable_timeout(timeout, false);
		QueryCancelPending = false;
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		AbortCurrentTransaction();
		if (asking != 0)
			shun(asking);
		asking = 0;
		*anybody = false;		/* the next search asks the remaining nodes only */
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	return found;
}

/*
 * Looks for cycles of waits in one database, cancels one backend of each cycle that is found twice,
 * and ends after nobody has waited for a while.
 */
void
rf_deadlock_worker_main(Datum arg)
{
	TimestampTz used;
	TimeoutId	timeout;
	char		detail[RF_DEADLOCK_DETAIL];

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	rf_worker_settings();
	timeout = RegisterTimeout(USER_TIMEOUT, time_is_up);
	used = GetCurrentTimestamp();
	while (!TimestampDifferenceExceeds(used, GetCurrentTimestamp(), RF_DEADLOCK_LINGER_MS))
	{
		RfWaiter	first;
		RfWaiter	second;
		bool		anybody;

		if (look(timeout, &first, detail, &anybody))
		{
			pg_usleep(RF_DEADLOCK_AGAIN_MS * 1000L);
			if (look(timeout, &second, detail, &anybody) &&
				first.pid == second.pid && first.since == second.since)
				rf_waiting_cancel(&second, detail);
		}
		if (anybody)
			used = GetCurrentTimestamp();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 RF_DEADLOCK_LOOK_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	proc_exit(0);
}

/* ---------- SQL ---------- */

static bool
may_ask(Oid serverid)
{
	return rf_server_aclcheck(serverid, GetUserId(), ACL_USAGE) == ACLCHECK_OK &&
		OidIsValid(rf_mapping_id(GetUserId(), serverid));
}

static void
put_backend(RfRow *row, Process process)
{
	rf_put_if(row, process.cluster == GetSystemIdentifier(), Int32GetDatum(process.pid));
}

/*
 * Waits of this server, and of the nodes that backends are connected with and the caller has a
 * mapping for.
 */
Datum
rdma_locks(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	Graph		graph;
	List	   *asked = NIL;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	if (rf_shared == NULL)
		return (Datum) 0;
	begin_graph(&graph);
	for (int i = 0; i < graph.waiter_count; i++)
	{
		for (int k = 0; k < graph.waiters[i].session_count; k++)
		{
			const RfWaitingSession *session = &graph.waiters[i].sessions[k];
			UserMapping *user;

			if (session->cluster == GetSystemIdentifier() ||
				list_member_oid(asked, session->serverid) || !may_ask(session->serverid))
				continue;
			asked = lappend_oid(asked, session->serverid);
			user = rf_user_mapping(GetUserId(), session->serverid);
			add_remote_edges(&graph, rf_session_get(user, false));
		}
	}
	foreach(lc, graph.edges)
	{
		Edge	   *edge = lfirst(lc);

		rf_put_text(&row, server_name(edge->serverid));
		rf_put_int(&row, edge->waiting_pid);
		rf_put_int(&row, edge->blocking_pid);
		put_backend(&row, edge->waiting);
		put_backend(&row, edge->blocking);
		rf_end_row(&row);
	}
	return (Datum) 0;
}
