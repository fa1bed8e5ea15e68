/*
 * test_slot_parts.c - parts of a slot that lie on pages (src/shmem/slot_parts.c): which bytes
 * become entries of a work request, and that nothing outside the slot and the pool of pages ever
 * does. And taking back slots of which some are on their way (src/shmem/slots.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shmem/slot_parts.h"
#include "shmem/slots.h"


#define PAGE		8192
#define PAGES		16
#define ROOM		65472

static int	failures;
static int	passed;
static uint8_t slot[ROOM];
static uint8_t pool[PAGES * PAGE];
static RfPartsPlace place = {.slot = slot,
	.slot_lkey = 7,
	.room = ROOM,
	.pages = pool,
	.pages_size = sizeof(pool),
	.page_size = PAGE,
	.pages_lkey = 9,
.max_entries = RF_MAX_SGE};

static void
check(bool condition, const char *what)
{
	printf("%s - %s\n", condition ? "ok" : "not ok", what);
	failures += !condition;
	passed += condition;
}

/* 0: refused, or the number of entries */
static int
describe(const RfPart *parts, int count)
{
	RfPartsEntries found;

	return rf_parts_describe(parts, count, &place, &found);
}

#define REFUSED(...) (describe((const RfPart[]) {__VA_ARGS__}, sizeof((const RfPart[]) {__VA_ARGS__}) / sizeof(RfPart)) == 0)

static void
entries(void)
{
	RfPart		parts[] = {{100, 3, 1000, 7192}, {0, 4, 0, 32}, {24, 5, 8, 16384}, {16, 0, 0, 0}};
	RfPartsEntries found;
	const RfSge *sge = found.sge;
	int			count = rf_parts_describe(parts, 4, &place, &found);

	check(count == 6 && found.bytes == 140 + 7192 + 32 + 16384 &&
		  found.page_bytes == 7192 + 32 + 16384,
		  "as many entries and bytes as there are");
	check(sge[0].addr == slot && sge[0].length == 100 && sge[0].lkey == 7 &&
		  sge[3].addr == slot + 100 && sge[3].length == 24 && sge[5].addr == slot + 124 &&
		  sge[5].length == 16,
		  "what is the slot's own follows its own");
	check(sge[1].addr == pool + 3 * PAGE + 1000 && sge[1].length == 7192 && sge[1].lkey == 9 &&
		  sge[2].addr == pool + 4 * PAGE && sge[4].addr == pool + 5 * PAGE + 8 &&
		  sge[4].length == 16384,
		  "the others lie on their pages, also on several");
}

static void
bounds(void)
{
	RfPart		many[RF_SLOT_PARTS + 1];

	check(!REFUSED({8, PAGES - 1, PAGE - 8, 8}), "the last bytes of the pool");
	check(REFUSED({8, PAGES - 1, PAGE - 8, 9}), "one byte behind it");
	check(REFUSED({8, PAGES - 3, 0, 3 * PAGE + 1}), "several pages that reach behind it");
	check(REFUSED({8, PAGES, 0, 1}), "a page behind it");
	check(REFUSED({8, UINT32_MAX, UINT16_MAX, UINT16_MAX}), "a page far away");
	check(REFUSED({8, 0, PAGE, 8}), "an offset that is no place on a page");
	check(REFUSED({ROOM + 1, 0, 0, 0}), "more own bytes than the slot has");
	check(!REFUSED({ROOM, 0, 0, 0}), "as many as it has");
	check(REFUSED({ROOM - 8, 0, 0, 16}), "more than the reader's buffer holds");
	check(!REFUSED({ROOM - 8, 0, 0, 8}), "as much as it holds");
	check(REFUSED({8, 0, 0, 60000}, {8, 0, 0, 6000}), "more in several parts");
	check(REFUSED({UINT32_MAX, 0, 0, 8}, {UINT32_MAX - 7, 0, 0, 8}), "lengths that wrap around");
	check(describe(many, 0) == 0 && describe(many, RF_SLOT_PARTS + 1) == 0 &&
		  describe(many, -1) == 0,
		  "no parts, too many, fewer than none");
	for (int i = 0; i <= RF_SLOT_PARTS; i++)
		many[i] = (RfPart) {8, 1, 0, 8};
	check(describe(many, RF_MAX_SGE / 2) == RF_MAX_SGE && describe(many, RF_MAX_SGE / 2 + 1) == 0,
		  "no more entries than a work request has");
	place.max_entries = 2;
	check(describe(many, 1) == 2 && describe(many, 2) == 0, "of a device with two");
	place.max_entries = RF_MAX_SGE;
	place.pages_size = 0;
	check(REFUSED({8, 0, 0, 8}) && !REFUSED({8, 0, 0, 0}),
		  "no page of a pool that is not registered");
	place.pages_size = sizeof(pool);
}

/* With any parts, entries lie within the two memories and within the limits. */
static void
random_parts(void)
{
	uint64_t	state = 88172645463325252ULL;
	int			wrong = 0;
	int			taken = 0;

	for (int i = 0; i < 200000; i++)
	{
		RfPart		parts[4];
		RfPartsEntries found;
		uint64_t	sum = 0;
		int			count;

		for (int k = 0; k < 4; k++)
		{
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			parts[k] = (RfPart)
			{
				(uint32_t) (state % 5 == 0 ? state >> 32 : state >> 48),
					(uint32_t) (state >> 8) % (PAGES + 1),
					(uint16_t) ((state >> 16) % (PAGE + 100)),
					(uint16_t) ((state >> 24) % (state % 3 == 0 ? 65536 : 9000))
			};
		}
		count = rf_parts_describe(parts, 4, &place, &found);
		taken += count > 0;
		for (int k = 0; k < count; k++)
		{
			const uint8_t *base = found.sge[k].lkey == 7 ? slot : pool;
			size_t		size = found.sge[k].lkey == 7 ? sizeof(slot) : sizeof(pool);
			const uint8_t *at = found.sge[k].addr;

			wrong += at < base || at > base + size ||
				found.sge[k].length > (size_t) (base + size - at);
			sum += found.sge[k].length;
		}
		wrong += count > 0 &&
			(sum != found.bytes || found.bytes > ROOM || found.page_bytes > found.bytes);
	}
	check(wrong == 0 && taken > 100, "random parts stay inside, or are refused");
}

static void
withdrawing(void)
{
	RfFlow	   *flow = aligned_alloc(RF_CACHE_LINE, sizeof(RfFlow));
	RfSlotCursor cursor = {.next = 13};

	memset(flow, 0, sizeof(*flow));
	flow->slot_count = 4;
	/* slot 9 is done, 10 is on its way, 11 and 12 are handed over */
	atomic_store(&flow->completed, 10);
	atomic_store(&flow->status[10 % 4], RF_SLOT_IN_FLIGHT);
	atomic_store(&flow->status[11 % 4], RF_SLOT_GATHERED);
	atomic_store(&flow->status[12 % 4], RF_SLOT_GATHERED);
	check(rf_slots_withdraw(flow, &cursor, 9) == 11, "one is on its way");
	check(atomic_load(&flow->status[11 % 4]) == RF_SLOT_FILLING,
		  "the one behind it was taken back");
	check(rf_slots_withdraw(flow, &cursor, 9) == 11, "asked again, the answer is the same");
	atomic_store(&flow->completed, 11);
	atomic_store(&flow->status[10 % 4], RF_SLOT_FREE);
	check(rf_slots_withdraw(flow, &cursor, 9) == 11, "that one is done");
	atomic_store(&flow->status[11 % 4], RF_SLOT_READY);
	atomic_store(&flow->status[12 % 4], RF_SLOT_IN_FLIGHT);
	check(rf_slots_withdraw(flow, &cursor, 9) == 13, "the last one is on its way");
	atomic_store(&flow->status[12 % 4], RF_SLOT_GATHERED);
	check(rf_slots_withdraw(flow, &cursor, 9) == 11 &&
		  atomic_load(&flow->status[11 % 4]) == RF_SLOT_READY,
		  "one without pages may be sent, and is no reason to wait");
	cursor.next = 11;
	check(rf_slots_withdraw(flow, &cursor, 11) == 11, "nothing was handed over");
	free(flow);
}

int
main(void)
{
	entries();
	bounds();
	random_parts();
	withdrawing();
	printf("%d passed, %d failed\n", passed, failures);
	return failures > 0;
}
