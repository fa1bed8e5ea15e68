/*
 * group.c - a member of a group of flows: descriptions, connections, waiting and the end; the
 * common part of producers and consumers.
 *
 * A group owns nothing that its flows and its memory context do not own already: at an abort the
 * flows close with their resource owner (flow.c) and the rest goes with the context.
 */
#include "postgres.h"

#include "group_int.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "shmem/peer_table.h"

/* ---------- descriptions ---------- */

RfGroupDesc *
rf_group_desc_parse(const void *bytes, size_t length)
{
	RfGroupDesc *desc = palloc(Max(length, sizeof(RfGroupDesc)));
	RfError		error;

	memcpy(desc, bytes, length);
	if (!rf_group_desc_check(desc, length, &error))
		rf_raise(&error, RF_NO_PEER);
	return desc;
}

RfGroupDesc *
rf_group_desc_make(const RfGroupShape *shape, const RfNodeId *nodes)
{
	size_t		size = rf_group_desc_size(shape->kind, shape->producers, shape->consumers);
	RfGroupDesc *desc = palloc0(Max(size, sizeof(RfGroupDesc)));
	uint8_t		id[16];
	RfError		error;

	if (!pg_strong_random(id, sizeof(id)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random identity for a flow")));
	if (!rf_group_desc_init(desc, shape, id, nodes, &error))
		rf_raise(&error, RF_NO_PEER);
	return desc;
}

/* ---------- connections ---------- */

void
rf_group_greet(RfHelloRequest *request)
{
	rf_engine_require();
	rf_hello_request(request, true);
}

/* Until rdma_fdw.connect_timeout after that time. */
static void
wait_out_timeout(TimestampTz start)
{
	static uint32 event = 0;
	long		left;

	if (event == 0)
		event = rf_wait_event_new("RdmaConnectRefused");
	while ((left = rf_connect_timeout -
			TimestampDifferenceMilliseconds(start, GetCurrentTimestamp())) > 0)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * An ordinary role told us where to connect: the answer, if there is any, is not for it, or it
 * could have this server look at ports for it. The log has it. A port that refuses at once, a port
 * that belongs to something else and a filtered port take the same time.
 */
__attribute__((noreturn)) static void
raise_not_connected(const char *host, TimestampTz start, const RfError *error)
{
	if (has_privs_of_role(GetUserId(), ROLE_PG_MONITOR))
		rf_raise(error, RF_NO_PEER);
	ereport(LOG_SERVER_ONLY,
			(errmsg("this node's engine could not connect to the engine of node \"%s\": %s", host,
					error->message),
			 error->detail[0] ? errdetail_internal("%s", error->detail) : 0,
			 error->hint[0] ? errhint("%s", error->hint) : 0));
	wait_out_timeout(start);
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("this node's engine could not connect to the engine of node \"%s\"", host),
			 errhint("The log of this node says why, and so do errors of members of pg_monitor.")));
}

int
rf_group_connect(const char *host, const void *hello, size_t length, RfAddressFilter allowed)
{
	TimestampTz start = GetCurrentTimestamp();
	RfHelloReply reply = {0};
	RfError		error = {0};
	bool		spent = false;
	int			peer;

	rf_engine_require();
	if (length == sizeof(reply))
		memcpy(&reply, hello, sizeof(reply));
	if (length != sizeof(reply) || memchr(reply.address, 0, sizeof(reply.address)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the answer of a node to rdma_internal.hello is not valid")));
	if (reply.wire_version != RF_WIRE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("node \"%s\" speaks wire version %u, this node %d", host,
						reply.wire_version, RF_WIRE_VERSION),
				 errhint("Upgrade rdma_fdw on %s node.",
						 RF_WIRE_BEHIND(reply.wire_version, "that", "this"))));
	peer = rf_peer_find(&reply.node, false);
	if (peer == RF_NO_PEER)
		peer = rf_peer_connect(host, &reply, allowed, &spent, &error);
	if (peer == RF_NO_PEER && spent)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("%s", error.message),
				 errdetail("%s", error.detail)));
	if (peer == RF_NO_PEER)
		raise_not_connected(host, start, &error);
	return peer;
}

int
rf_group_peer(const RfNodeId *node, bool producer_side)
{
	int			peer = rf_peer_wait(node, producer_side);

	if (peer == RF_NO_PEER)
		ereport(ERROR,
				(errcode(rf_peer_missing_sqlstate(node)),
				 errmsg("this node's engine is not connected to another member's node"),
				 errdetail("The node's identity in its rdma.stat_engine is %s.",
						   rf_node_text(node)),
				 errhint("It was restarted, or its connection was lost; repeat the query. "
						 "rdma_fdw.connect_timeout is how long it is waited for.")));
	return peer;
}

/* ---------- errors ---------- */

static void
describe_group(void *argument)
{
	const RfGroup *group = argument;
	char		id[2 * sizeof(group->id) + 1];

	for (size_t i = 0; i < sizeof(group->id); i++)
		snprintf(id + 2 * i, 3, "%02x", group->id[i]);
	errcontext("%s %u of %s flow %s", group->role == RF_FLOW_PRODUCER ? "producer" : "consumer",
			   group->member, group->kind == RF_GROUP_BALANCE ? "balance" : "repartition", id);
}

void
rf_group_begin_context(ErrorContextCallback *context, RfGroup *group)
{
	context->callback = describe_group;
	context->arg = group;
	context->previous = error_context_stack;
	error_context_stack = context;
}

void
rf_group_end_context(ErrorContextCallback *context)
{
	error_context_stack = context->previous;
}

/* format has one %u, for the member at the other end */
void
rf_group_fail(const GroupPair *pair, const char *format, uint32 member)
{
	RfError		error;
	char		message[sizeof(error.message)];

	snprintf(message, sizeof(message), format, member);
	(void) rf_error(&error, RF_ERROR_CONNECTION, NULL,
					"Its own session, or the server log of its node, says why.", "%s", message);
	rf_raise(&error, rf_flow_entry(pair->flow)->peer);
}

/* ---------- life ---------- */

RfGroup *
rf_group_new(const RfGroupDesc *desc, const RfGroupEnd *end, uint32 member)
{
	RfGroup    *group = palloc0(sizeof(RfGroup));
	RfFlowRole	role = end->role;

	if (member >= (role == RF_FLOW_PRODUCER ? desc->producers : desc->consumers))
		elog(ERROR, "member %u is not in the flow's description", member);
	group->context = CurrentMemoryContext;
	group->kind = desc->kind;
	group->role = role;
	group->end = end;
	group->member = member;
	memcpy(group->id, desc->id, sizeof(group->id));
	group->slot_count = desc->slot_count;
	group->slot_size = desc->slot_size;
	group->turn.torn = -1;
	rf_group_grow(group, role == RF_FLOW_PRODUCER ? desc->consumers : desc->producers);
	return group;
}

void
rf_group_grow(RfGroup *group, uint32 pair_count)
{
	GroupPair  *pairs = MemoryContextAllocZero(group->context, pair_count * sizeof(GroupPair));

	if (group->pair_count > 0)
	{
		memcpy(pairs, group->pairs, group->pair_count * sizeof(GroupPair));
		pfree(group->pairs);
		pfree(group->free_buffers);
	}
	group->pairs = pairs;
	group->free_buffers = MemoryContextAllocZero(group->context, pair_count * sizeof(uint32));
	group->pair_count = pair_count;
}

void
rf_group_join(RfGroup *group, RfGroupDesc *desc)
{
	ErrorContextCallback context;

	rf_group_begin_context(&context, group);
	if (memcmp(group->id, desc->id, sizeof(group->id)) != 0)
		elog(ERROR, "the description is another flow's");
	if (group->finishing)
		elog(ERROR, "members cannot join a flow that has ended");
	group->end->join(group, desc);
	rf_group_end_context(&context);
}

void
rf_group_close(RfGroup *group)
{
	for (uint32 i = 0; i < group->pair_count; i++)
	{
		if (group->pairs[i].flow != NULL)
			rf_flow_close(group->pairs[i].flow);
		group->pairs[i].flow = NULL;
	}
	if (group->pool != NULL)
		rf_receive_close(group->pool);
	group->pool = NULL;
}

/* ---------- waiting ---------- */

int
rf_groups_wait(RfGroup *const *groups, int count, int socket, long timeout_ms)
{
	return rf_groups_wait_also(groups, count, NULL, socket, timeout_ms);
}

int
rf_groups_wait_also(RfGroup *const *groups, int count, const RfFlowSleep *also, int socket,
					long timeout_ms)
{
	uint32		most = 0;
	int			sleep_count = 0;
	int			events;
	RfFlowSleep *sleeps;
	ErrorContextCallback context;

	for (int i = 0; i < count; i++)
		most += groups[i]->pair_count;
	sleeps = palloc((most + 1) * sizeof(RfFlowSleep));
	for (int i = 0; i < count; i++)
		sleep_count += groups[i]->end->sleeps(groups[i], sleeps + sleep_count);
	if (also != NULL)
		sleeps[sleep_count++] = *also;

	if (count == 1)
		rf_group_begin_context(&context, groups[0]);
	events = rf_flow_wait_any(sleeps, sleep_count, socket, timeout_ms);
	if (count == 1)
		rf_group_end_context(&context);
	pfree(sleeps);
	return events;
}
