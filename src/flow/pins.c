/*
 * pins.c - see pins.h.
 */
#include "postgres.h"

#include "pins.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* However large its share is: more than the pages on their way at a time. */
#define MAX_PINS			256

struct RfPins
{
	ResourceOwner owner;
	int			limit;
	int			first;
	int			count;
	int			of_newest;		/* pins of the newest slot */
	struct
	{
		Buffer		buffer;
		uint64		slot;
	}			ring[FLEXIBLE_ARRAY_MEMBER];
};

int
rf_pins_share(void)
{
	return Min(NBuffers / MaxBackends, MAX_PINS);
}

RfPins *
rf_pins_create(int limit)
{
	RfPins	   *pins = MemoryContextAllocZero(TopMemoryContext, offsetof(RfPins, ring) +
											  limit * sizeof(pins->ring[0]));

	pins->limit = limit;
	pins->owner = ResourceOwnerCreate(NULL, "rdma_fdw pages");
	return pins;
}

bool
rf_pins_add(RfPins *pins, Buffer buffer, uint64 slot)
{
	ResourceOwner caller = CurrentResourceOwner;
	int			newest = (pins->first + pins->count - 1 + pins->limit) % pins->limit;
	int			place = (newest + 1) % pins->limit;

	if (pins->count == pins->limit)
		return false;
	pins->of_newest = pins->count > 0 && pins->ring[newest].slot == slot ? pins->of_newest + 1 : 1;
	CurrentResourceOwner = pins->owner;
	IncrBufferRefCount(buffer);
	CurrentResourceOwner = caller;
	pins->ring[place].buffer = buffer;
	pins->ring[place].slot = slot;
	pins->count++;
	return true;
}

void
rf_pins_release(RfPins *pins, uint64 end)
{
	ResourceOwner caller = CurrentResourceOwner;

	CurrentResourceOwner = pins->owner;
	while (pins->count > 0 && pins->ring[pins->first].slot < end)
	{
		Buffer		buffer = pins->ring[pins->first].buffer;

		pins->first = (pins->first + 1) % pins->limit;
		pins->count--;
		ReleaseBuffer(buffer);
	}
	CurrentResourceOwner = caller;
}

bool
rf_pins_first(const RfPins *pins, uint64 *slot)
{
	if (pins->count == 0)
		return false;
	*slot = pins->ring[pins->first].slot;
	return true;
}

bool
rf_pins_half(const RfPins *pins, uint64 slot)
{
	int			newest = (pins->first + pins->count - 1 + pins->limit) % pins->limit;

	return pins->count > 0 && pins->ring[newest].slot == slot &&
		pins->of_newest >= (pins->limit + 1) / 2;
}

void
rf_pins_destroy(RfPins *pins)
{
	rf_pins_release(pins, PG_UINT64_MAX);
	ResourceOwnerDelete(pins->owner);
	pfree(pins);
}
