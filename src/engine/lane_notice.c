/*
 * lane_notice.c - a lane's notices: events for the main thread, wake-ups for other lanes. Plain C.
 */
#include <string.h>
#include <unistd.h>

#include "shmem/ring.h"
#include "lane.h"

void
rf_lane_notice(RfLaneThread *lane, RfLaneEventKind kind, int peer, uint32_t flow)
{
	LaneNotice *notice;
	uint64_t	one = 1;

	/*
	 * Never full: a flow is detached once and a connection lost and dropped once before the main
	 * thread, which reads the notice first, attaches or adds it again.
	 */
	pthread_mutex_lock(&lane->talk.lock);
	notice = &lane->talk.notices[lane->talk.notice_head++ % lane->talk.notice_size];
	notice->kind = kind;
	notice->peer = peer;
	notice->flow = flow;
	pthread_mutex_unlock(&lane->talk.lock);

	/* Fails only if the counter is full, and then it is readable anyway. */
	if (write(lane->config.main_wake_fd, &one, sizeof(one)) < 0)
		return;
}

bool
rf_lane_event(RfLaneThread *lane, RfLaneEvent *event)
{
	bool		found;

	memset(event, 0, sizeof(*event));
	pthread_mutex_lock(&lane->talk.lock);
	found = lane->talk.notice_tail != lane->talk.notice_head;
	if (found)
	{
		LaneNotice *notice = &lane->talk.notices[lane->talk.notice_tail++ % lane->talk.notice_size];

		event->kind = notice->kind;
		event->peer = notice->peer;
		event->flow = notice->flow;
		if (notice->kind == RF_LANE_CONNECTION_LOST)
			event->error = lane->talk.lost_errors[notice->peer];
	}
	pthread_mutex_unlock(&lane->talk.lock);
	return found;
}

void
rf_lane_lost(RfLaneThread *lane, int peer, const RfError *error)
{
	LaneConnection *connection = &lane->connections[peer];

	if (connection->failed)
		return;
	connection->failed = true;
	connection->chain = 0;
	pthread_mutex_lock(&lane->talk.lock);
	lane->talk.lost_errors[peer] = *error;
	pthread_mutex_unlock(&lane->talk.lock);
	rf_lane_notice(lane, RF_LANE_CONNECTION_LOST, peer, 0);
}

void
rf_lane_wake_others(RfLaneThread *lane, uint32_t mask)
{
	for (uint32_t i = 0; mask >> i != 0; i++)
	{
		if ((mask >> i & 1) != 0 && i != lane->lane->number)
			rf_lane_wake(&lane->config.shared->lanes[i]);
	}
}
