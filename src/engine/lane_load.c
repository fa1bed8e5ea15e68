/*
 * lane_load.c - which lane a new flow gets; see lane_load.h.
 *
 * The load of a lane is its processor time, not the number of its flows: an idle stream needs no
 * processor time.
 */
#include "lane_load.h"

/*
 * Measures the load anew if the last look is long enough ago. The first look has nothing to compare
 * with: the counters are older than this engine, if an earlier one ended.
 */
static void
look(RfLaneLoad *load, const RfLane *lanes, uint32_t count, int64_t now)
{
	if (now - load->at < LANE_LOAD_US)
		return;
	for (uint32_t i = 0; i < count; i++)
	{
		uint64_t	total = atomic_load(&lanes[i].busy_us);

		load->busy_us[i] = load->at == 0 ? 0 : total - load->before_us[i];
		load->before_us[i] = total;
	}
	load->at = now;
}

/*
 * The lane with the least processor time between the last two looks; of equal lanes, that with
 * fewer flows. A flow that was opened since then counts as the average of all.
 */
uint32_t
rf_lane_choose(RfLaneLoad *load, const RfLane *lanes, const uint32_t *flows, uint32_t count,
			   uint32_t usable, int64_t now)
{
	uint64_t	busy = 0;
	uint32_t	all = 1;
	uint32_t	best = 0;

	look(load, lanes, count, now);
	for (uint32_t i = 0; i < usable; i++)
	{
		uint64_t	less = load->busy_us[best];

		busy += load->busy_us[i];
		all += flows[i];
		if (load->busy_us[i] < less || (load->busy_us[i] == less && flows[i] < flows[best]))
			best = i;
	}
	load->busy_us[best] += busy / all + 1;
	return best;
}
