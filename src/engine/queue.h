/*
 * queue.h - the merge queue of a lane: the flows that have slots to send, in the order of their
 * turns.
 *
 * A request is a READY slot that has credit. Requests of one flow are adjacent, so an entry here
 * stands for all of a flow's requests, and slots that become READY while it waits merge with them:
 * the work request is made only when its turn comes (RDMAbox, section IV-A). There is one queue per
 * lane for its writes; it reads nothing remote, so there is no other direction. The lane has the
 * role of the "earliest arrival": the doorbell that wakes it makes it take everything that is
 * queued, later doorbells find their bit set and return.
 *
 * A flow waits in one of two lists: in the lane's own, for its turn and for the admission window;
 * or parked at its connection, while that connection's send queue is full. Control messages
 * (credit, STOP, END, PROBE) do not wait for turns and windows, only for room in the send queue.
 *
 * Without contention a flow sends all its slots at once. When flows compete, because the window or
 * a send queue is full and more than one waits, they take turns by deficit round robin: each turn
 * gives a flow bytes in proportion to its weight (Shreedhar and Varghese 1995).
 *
 * The lane's thread only. Plain C.
 */
#ifndef RF_QUEUE_H
#define RF_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "lane_thread.h"

#define LANE_NONE			(-1)

/*
 * Bytes of a turn, times the flow's weight: waiting slots should merge, and with the default weight
 * a turn has two or three buffers of 64 kB. But no flow's turn is larger than QUEUE_TURN_MAX: that
 * fits into the buffers of a flow (1 MB by default), so that it has something to send in each of
 * its turns.
 */
#define QUEUE_TURN_BYTES	(16u << 10)
#define QUEUE_TURN_MAX		(800u << 10)

/*
 * Lists of flows by their index. A flow has a link for each kind, so it is in one list of a kind.
 */
typedef enum LaneLinkKind
{
	LANE_LINK_QUEUE = 0,		/* for its turn, or for room in the send queue */
	LANE_LINK_CLAIM,			/* attempt scheduled (producer), buffers asked (consumer) */
	LANE_LINK_STARVING,			/* all credit is used */
	LANE_LINKS
} LaneLinkKind;

typedef struct LaneLink
{
	int32_t		next;
	int32_t		previous;
} LaneLink;

typedef struct LaneList
{
	LaneLinkKind kind;
	int32_t		head;			/* LANE_NONE: empty */
	int32_t		tail;
	uint32_t	count;
} LaneList;

typedef enum QueuePlace
{
	QUEUE_NOWHERE = 0,
	QUEUE_LANE,
	QUEUE_PARKED
} QueuePlace;

/* A flow's part. */
typedef struct QueueEntry
{
	uint8_t		place;			/* QueuePlace */
	bool		held_up;		/* it could not be sent at its first check */
	uint32_t	contention;		/* the competition that `deficit` belongs to */
	int64_t		deficit;		/* bytes it may still send in this turn; negative: sent ahead */
	uint64_t	since_round;	/* queued in this round of the lane */
} QueueEntry;

typedef struct LaneQueue
{
	LaneList	list;
	uint32_t	parked;			/* flows in the lists of the connections */
	bool		contended;		/* the last run left a flow waiting */
	uint32_t	contention;		/* counts competitions */
	uint32_t	heaviest;		/* largest weight seen in this one */
	int64_t		throttled_at;	/* us: the window is full since then; 0 = it is not */
	uint64_t	given;			/* RfAdmissionStats.given before the last run */
	uint64_t	in_flight;		/* bytes of this lane in flight under the window */
} LaneQueue;

/* The result of a flow's turn. */
typedef enum QueueResult
{
	QUEUE_DONE,					/* nothing more to send now */
	QUEUE_SPENT,				/* there is more, the turn is over */
	QUEUE_PARK,					/* its connection's send queue is full */
	QUEUE_THROTTLED				/* the window is full */
} QueueResult;

struct LaneConnection;

/* Checks a flow that has waited: rf_lane_flow_serve. */
typedef void LaneServe (RfLaneThread *lane, uint32_t flow);

/*
 * A flow's turn: sends slots until at least `budget` bytes are sent; *bytes is their number.
 * rf_lane_flow_send.
 */
typedef QueueResult LaneSend (RfLaneThread *lane, uint32_t flow, uint64_t budget, uint64_t *bytes);

extern void rf_queue_init(RfLaneThread *lane);

/* The flow has slots to send. */
extern void rf_queue_add(RfLaneThread *lane, uint32_t flow);

/* Its connection's send queue is full: serves it again when there is room. */
extern void rf_queue_park(RfLaneThread *lane, uint32_t flow);

/* The flow is over. */
extern void rf_queue_remove(RfLaneThread *lane, uint32_t flow);

/*
 * There is room in the connection's send queue: serves the flows that are parked there, once each.
 */
extern void rf_queue_unpark(RfLaneThread *lane, struct LaneConnection *connection,
							LaneServe *serve);

/*
 * A control message to the flow's peer. False: no room, the flow is parked and will be served
 * again.
 */
extern bool rf_queue_message(RfLaneThread *lane, uint32_t flow, RfImmKind kind, uint64_t value);

/* Gives flows their turns, as long as anything may be sent. True if anything was. */
extern bool rf_queue_run(RfLaneThread *lane, LaneSend *send);

/* Returns true if the window, which had no room for this lane, got some since. */
extern bool rf_queue_may_continue(RfLaneThread *lane);

#endif
