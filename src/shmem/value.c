/*
 * value.c - chooses the memory in which a producer builds a row that does not fit a slot: its
 * flow's piece of value memory, from where it is sent, or private memory, from where it is copied
 * into the slots.
 *
 * Registering memory costs time as copying does, and pays only when it is used often enough (in
 * RDMAbox, figure 5, where a buffer is registered for each use, copying is faster up to 928 kB). A
 * stream does not know how many large rows it will have. So it copies until copying has cost as
 * much as a piece would have cost, and then asks for one (the "ski rental" rule): never more than
 * twice the cheaper of the two, at once if registering costs almost nothing or an earlier stream's
 * registration is available, never for a single row if copying it is cheaper.
 *
 * The piece has two halves. Rows are built one after another in one half while the rows of the
 * other half are sent; a half is reused when the last slot of its rows has been sent, so memory
 * that a device may still read is never written.
 *
 * Plain C, one backend's own; it never sleeps, never rings and never raises.
 */
#include <string.h>

#include "value.h"

#define MB				(1u << 20)
#define ROUND(bytes)	(((bytes) + RF_CACHE_LINE - 1) & ~(uint64_t) (RF_CACHE_LINE - 1))

/*
 * Bytes of the piece for rows of this size: powers of two, so that pieces recur and fit each
 * other's registrations.
 */
static uint64_t
piece_size(uint64_t bytes)
{
	uint64_t	half = RF_VALUE_UNIT;

	while (half < ROUND(bytes))
		half *= 2;
	return 2 * half;
}

/* Returns true if copying has cost as much as requesting the piece would. */
static bool
pays(const RfShared *shared, const RfFlow *flow, uint64_t copied, uint64_t piece)
{
	const RfCalibration *costs = &shared->calibration;
	uint64_t	ask_ns = 2 * (uint64_t) costs->sleep_ns;	/* the main thread wakes, and we do */

	if (costs->copy_ns == 0)
		return false;
	if (atomic_load_explicit(&shared->peers[flow->peer].value_registered,
							 memory_order_relaxed) < piece)
		ask_ns += costs->register_ns + piece / MB * costs->register_mb_ns;
	return (double) copied / MB * costs->copy_ns >= (double) ask_ns;
}

RfValueStep
rf_value_place(const RfShared *shared, RfFlow *flow, RfSlotCursor *cursor, RfValueMode mode,
			   uint64_t bytes, uint8_t **place)
{
	RfValueCursor *value = &cursor->value;
	uint64_t	piece = piece_size(bytes);
	uint64_t	completed = atomic_load(&flow->completed);
	uint32_t	state = atomic_load(&flow->value.state);

	if (mode == RF_VALUES_OFF || piece > shared->value_size || piece > UINT32_MAX ||
		atomic_load(&flow->stop) != RF_STOP_NONE)
		return RF_VALUE_COPY;
	value->wait = 0;
	if (state == RF_VALUE_WANTED)
		return RF_VALUE_WAIT;

	if (state == RF_VALUE_GRANTED && bytes <= flow->value.size / 2)
	{
		uint64_t	half_size = flow->value.size / 2;

		if (value->used + bytes > half_size)
		{
			if (completed < value->until[1 - value->half])
			{
				value->wait = value->until[1 - value->half];
				return RF_VALUE_WAIT;
			}
			value->half = 1 - value->half;
			value->used = 0;
		}
		*place = flow->value.memory + value->half * half_size + value->used;
		value->used += ROUND(bytes);
		return RF_VALUE_IN_PLACE;
	}

	if (state == RF_VALUE_REFUSED)
	{
		/*
		 * No second request for the same row, nor, if the reason was the cost, before as much was
		 * copied again.
		 */
		atomic_store(&flow->value.state, RF_VALUE_NONE);
		value->copied = 0;
		return RF_VALUE_COPY;
	}
	if (mode == RF_VALUES_AUTO && !pays(shared, flow, value->copied + bytes, piece))
	{
		value->copied += bytes;
		return RF_VALUE_COPY;
	}

	/* Slots sent from a piece that is too small must be out before it is given back. */
	if (state == RF_VALUE_GRANTED && completed < cursor->next)
	{
		value->wait = cursor->next;
		return RF_VALUE_WAIT;
	}
	memset(value, 0, sizeof(*value));
	flow->value.wanted = piece;
	flow->value_of = 0;
	atomic_store(&flow->value.state, RF_VALUE_WANTED);
	return RF_VALUE_ASKED;
}

uint8_t *
rf_value_common(const RfShared *shared, RfFlow *const *flows, uint32_t count, RfValueMode mode,
				uint64_t copied, bool *ask)
{
	uint64_t	size = (uint64_t) flows[0]->slot_count * flows[0]->slot_size;
	uint32_t	first = atomic_load(&flows[0]->value.state);
	bool		granted = first == RF_VALUE_GRANTED;

	*ask = false;
	size = (size + RF_VALUE_UNIT - 1) / RF_VALUE_UNIT * RF_VALUE_UNIT;
	if (mode == RF_VALUES_OFF || size > shared->value_size || size > UINT32_MAX)
		return NULL;
	if (first == RF_VALUE_NONE && (mode == RF_VALUES_ON || pays(shared, flows[0], copied, size)))
	{
		flows[0]->value.wanted = size;
		flows[0]->value_of = 0;
		atomic_store(&flows[0]->value.state, RF_VALUE_WANTED);
		*ask = true;
	}
	for (uint32_t i = 1; i < count && first == RF_VALUE_GRANTED; i++)
	{
		uint32_t	state = atomic_load(&flows[i]->value.state);

		granted = granted && state == RF_VALUE_GRANTED &&
			flows[i]->value.memory == flows[0]->value.memory;
		if (state != RF_VALUE_NONE)
			continue;
		flows[i]->value.wanted = size;
		flows[i]->value_of = 1 + (uint32_t) (flows[0] - shared->flows);
		atomic_store(&flows[i]->value.state, RF_VALUE_WANTED);
		*ask = true;
	}
	return granted ? flows[0]->value.memory : NULL;
}
