/*
 * lane_load.h - which lane a new flow gets: that with the least load.
 *
 * The engine's main thread only. Plain C.
 */
#ifndef RF_LANE_LOAD_H
#define RF_LANE_LOAD_H

#include "shmem/layout.h"

#define LANE_LOAD_US	100000	/* how long the load of lanes is measured, at least */

/* The processor time of the lanes, when flows are spread over them. */
typedef struct RfLaneLoad
{
	int64_t		at;				/* us: when it was looked at */
	uint64_t	before_us[RF_MAX_LANES];	/* in all, then */
	uint64_t	busy_us[RF_MAX_LANES];	/* between the last two looks, and what later flows are
										 * expected to add */
} RfLaneLoad;

/*
 * The number of the lane for one more flow. `lanes` and `flows`, the flows that each has, have
 * `count` entries; the flow may have one of the first `usable`, which is the number that its peer
 * has, too. `now`: us, monotonic.
 */
extern uint32_t rf_lane_choose(RfLaneLoad *load, const RfLane *lanes, const uint32_t *flows,
							   uint32_t count, uint32_t usable, int64_t now);

#endif
