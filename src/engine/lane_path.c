/*
 * lane_path.c - checks that a lane's connections transfer data: the proof of a new one, and the end
 * of one without progress.
 *
 * A device may retry forever (rxe does), and TCP nearly does, so the lane limits the
 * time of a work request. Plain C; the lane's thread only.
 */
#include "lane.h"

/*
 * A connection without progress is checked again after this time before it is given up: if this
 * process was stopped, it first reads the bytes that have arrived meanwhile.
 */
#define GRACE_US	1000000

/* ---------- proof ---------- */

void
rf_lane_path_prove(RfLaneThread *lane, int peer)
{
	LaneConnection *connection = &lane->connections[peer];
	const RfLaneProof *proof = connection->proof;
	RfWr		wr;

	if (connection->qp == NULL || connection->failed || proof == NULL)
		return;
	wr = (RfWr)
	{
		.wr_id = LANE_PROOF_ID,
			.opcode = RF_WR_WRITE_IMM,
			.signaled = true,
			.num_sge = 1,
			.sge = &proof->source,
			.remote_addr = proof->remote_addr,
			.rkey = proof->rkey,
			.imm = RF_IMM(RF_IMM_PATH, RF_PATH_PROOF, 0)
	};
	lane->config.provider->qp_post(connection->qp, &wr);
}

static void
tell_if_proven(RfLaneThread *lane, int peer)
{
	LaneConnection *connection = &lane->connections[peer];

	if (connection->proof_sent && connection->proof_seen)
	{
		rf_lane_mail_begin(connection);
		connection->proof = NULL;
		rf_lane_notice(lane, RF_LANE_CONNECTION_PROVEN, peer, 0);
	}
}

void
rf_lane_path_acknowledged(RfLaneThread *lane, int peer)
{
	lane->connections[peer].proof_sent = true;
	tell_if_proven(lane, peer);
}

bool
rf_lane_path_seen(RfLaneThread *lane, int peer, const RfWc *wc, RfError *error)
{
	LaneConnection *connection = &lane->connections[peer];
	const RfLaneProof *proof = connection->proof;
	bool		right = wc->byte_len == RF_PROOF_SIZE && RF_IMM_VALUE(wc->imm) == 0;

	if (proof == NULL || connection->proof_seen)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer proves a connection that is proven");
	for (size_t i = 0; i < RF_PROOF_SIZE / sizeof(uint64_t) && right; i++)
		right = proof->landing[i] == proof->number;
	if (!right)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"bytes that came over a new data connection are not the requested ones");
	connection->proof_seen = true;
	tell_if_proven(lane, peer);
	return true;
}

/* ---------- progress ---------- */

static void
give_up(RfLaneThread *lane, int peer)
{
	RfError		error;

	(void) rf_error(&error, RF_ERROR_CONNECTION, "Sent data is not acknowledged.",
					"rdma_fdw.peer_timeout is how long data that does not get through is waited "
					"for.",
					"no data got through for %u ms", lane->config.peer_timeout_ms);
	rf_lane_lost(lane, peer, &error);
}

void
rf_lane_path_watch(RfLaneThread *lane)
{
	int64_t		timeout_us = (int64_t) lane->config.peer_timeout_ms * 1000;

	lane->watch_at = INT64_MAX;
	for (int peer = 0; peer < RF_MAX_PEERS && timeout_us > 0; peer++)
	{
		LaneConnection *connection = &lane->connections[peer];
		int64_t		due = connection->progress_at + timeout_us;

		if (connection->qp == NULL || connection->failed ||
			connection->posted == connection->completed)
			continue;
		if (connection->overdue)
			due += GRACE_US;
		if (due <= lane->now && connection->overdue)
		{
			give_up(lane, peer);
			continue;
		}
		if (due <= lane->now)
		{
			connection->overdue = true;
			due = lane->now + GRACE_US;
			connection->progress_at = lane->now - timeout_us;
		}
		if (due < lane->watch_at)
			lane->watch_at = due;
	}
}
