/*
 * lane_chain.c - the work requests of a lane: collected in a chain per peer; one post sends a
 * chain, at the end of the round or when it is full.
 *
 * lane_flow.c and lane_claim.c decide which work requests go into a chain, queue.c decides when it
 * is posted. Plain C; only the lane's thread calls it.
 */
#include <string.h>

#include "lane.h"

/* Posts the chain of a peer: one call, one doorbell. */
static void
post_chain(RfLaneThread *lane, LaneConnection *connection)
{
	uint32_t	count = connection->chain;

	if (count == 0)
		return;
	for (uint32_t i = 0; i + 1 < count; i++)
		connection->wrs[i].next = &connection->wrs[i + 1];
	/* Its completion frees all of the chain's room in the send queue. */
	connection->wrs[count - 1].next = NULL;
	if (!connection->wrs[count - 1].signaled)
		lane_count(&lane->lane->signaled, 1);
	connection->wrs[count - 1].signaled = true;
	connection->unsignaled = 0;
	connection->chain = 0;
	connection->chain_strided = 0;
	lane->config.provider->qp_post(connection->qp, connection->wrs);
	lane_count(&lane->lane->doorbells, 1);
}

void
rf_lane_post_chains(RfLaneThread *lane)
{
	for (int i = 0; i < lane->touched_count; i++)
	{
		LaneConnection *connection = &lane->connections[lane->touched[i]];

		connection->touched = false;
		post_chain(lane, connection);
	}
	lane->touched_count = 0;
}

/* Immediates that wait for the end of the round have a place. */
static uint64_t
places_taken(const LaneConnection *connection)
{
	return connection->posted - connection->completed + (connection->mail.count > 0);
}

bool
rf_lane_has_room(RfLaneThread *lane, int peer)
{
	uint64_t	taken = places_taken(&lane->connections[peer]);

	return taken < lane->config.max_wr && rf_throttle_room(&lane->throttle, taken);
}

void
rf_lane_no_room(RfLaneThread *lane, int peer)
{
	LaneConnection *connection = &lane->connections[peer];

	if (places_taken(connection) >= lane->config.max_wr)
		return;
	rf_throttle_wait(&lane->throttle);
	lane_count(&lane->lane->qps[peer].waits, 1);
}

/* A work request was put into the chain: updates throttle and rdma.qps. */
static void
show_post(RfLaneThread *lane, int peer, uint32_t bytes)
{
	RfLaneQp   *shown = &lane->lane->qps[peer];
	uint64_t	outstanding = lane->connections[peer].posted - lane->connections[peer].completed;

	rf_throttle_post(&lane->throttle, outstanding, lane->now);
	atomic_store_explicit(&shown->outstanding, (uint32_t) outstanding, memory_order_relaxed);
	if (outstanding > atomic_load_explicit(&shown->outstanding_max, memory_order_relaxed))
		atomic_store_explicit(&shown->outstanding_max, (uint32_t) outstanding,
							  memory_order_relaxed);
	lane_count(&shown->work_requests, 1);
	lane_count(&shown->bytes, bytes);
}

/* The place after the last entry of the chain. */
static const RfSge *
next_sge(const LaneConnection *connection)
{
	const RfWr *last = connection->wrs + connection->chain - 1;

	return connection->chain == 0 ? connection->sges : last->sge + last->num_sge;
}

void
rf_lane_stride(RfLaneThread *lane, int peer, RfWr *wr, const RfStrided *strided, int count)
{
	LaneConnection *connection = &lane->connections[peer];

	wr->strided = connection->strided + connection->chain_strided;
	wr->num_strided = count;
	memcpy(connection->strided + connection->chain_strided, strided,
		   (size_t) count * sizeof(RfStrided));
	connection->posts[connection->posted % lane->config.max_wr].strided = (uint32_t) count;
	connection->chain_strided += (uint32_t) count;
	connection->strided_out += (uint32_t) count;
}

void
rf_lane_touch(RfLaneThread *lane, int peer)
{
	if (lane->connections[peer].touched)
		return;
	lane->connections[peer].touched = true;
	lane->touched[lane->touched_count++] = peer;
}

RfWr *
rf_lane_request(RfLaneThread *lane, int peer, int32_t flow, uint32_t kind, uint32_t slots,
				uint32_t bytes, uint32_t admitted)
{
	LaneConnection *connection = &lane->connections[peer];
	LanePost   *post;
	const RfSge *sge;
	RfWr	   *wr;

	sge = next_sge(connection);
	if (connection->chain == lane->config.chain_limit || sge > connection->sges + RF_MAX_CHAIN)
	{
		post_chain(lane, connection);
		sge = connection->sges;
	}
	rf_lane_touch(lane, peer);
	lane_path_posting(lane, connection);
	wr = &connection->wrs[connection->chain];
	memset(wr, 0, sizeof(*wr));
	wr->sge = sge;
	wr->opcode = RF_WR_WRITE_IMM;
	wr->wr_id = ++connection->posted;
	connection->unsignaled += bytes;
	if (connection->unsignaled >= LANE_SIGNAL_BYTES || lane->config.signal_all)
	{
		wr->signaled = true;
		connection->unsignaled = 0;
		lane_count(&lane->lane->signaled, 1);
	}
	post = &connection->posts[connection->posted % lane->config.max_wr];
	post->flow = flow;
	post->slots = (uint16_t) slots;
	post->kind = (uint16_t) kind;
	post->admitted = admitted;
	lane->queue.in_flight += admitted;
	post->bytes = bytes;
	post->strided = 0;
	show_post(lane, peer, bytes);

	if (connection->chain > 0)
		lane_count(&lane->lane->chained, 1);
	if (flow != LANE_NO_FLOW)
	{
		lane_count(&lane->flows[flow].stats.chained, connection->chain > 0);
		lane_count(&lane->flows[flow].stats.work_requests, 1);
	}
	connection->chain++;
	lane_count(&lane->lane->work_requests, 1);
	lane_count(&lane->lane->requests, slots > 0 ? slots : 1);
	lane_count(&lane->lane->bytes_sent, bytes);
	if (bytes > 0)
		atomic_fetch_add_explicit(&lane->config.shared->peers[peer].bytes_sent, bytes,
								  memory_order_relaxed);
	return wr;
}
