/*
 * test_admission.c - the admission window alone: its bound, shares of lanes, no stop for good.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/admit.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

#define SLOT	(256u << 10)

static void
test_window(void)
{
	RfAdmissionStats stats = {0};
	uint64_t	window = 4 * SLOT;
	uint64_t	own[3] = {0};

	/* One lane fills it, no lane exceeds it. */
	while (rf_admission_take(window, &stats, 0, own[0], SLOT))
		own[0] += SLOT;
	CHECK(own[0] == 4 * SLOT && atomic_load(&stats.high_water) == 4 * SLOT);
	CHECK(rf_admission_room(window, &stats, 0, own[0]) == 0);
	CHECK(!rf_admission_take(window, &stats, 1, 0, 1));

	/*
	 * While another waits, the first leaves it the bytes that it returns, until both have the
	 * same.
	 */
	rf_admission_wait(&stats, 1);
	CHECK(rf_admission_give(&stats, SLOT) == 1u << 1);
	own[0] -= SLOT;
	CHECK(!rf_admission_take(window, &stats, 0, own[0], SLOT));
	CHECK(rf_admission_take(window, &stats, 1, own[1], SLOT));
	own[1] += SLOT;
	rf_admission_wait(&stats, 0);
	CHECK(rf_admission_give(&stats, SLOT) == 3);
	own[0] -= SLOT;
	CHECK(!rf_admission_take(window, &stats, 0, own[0], SLOT) &&
		  rf_admission_take(window, &stats, 1, own[1], SLOT));
	own[1] += SLOT;
	CHECK(own[0] == own[1]);

	/* A lane that stops waiting reports it, and the other may have all. */
	CHECK(rf_admission_stop_waiting(&stats, 1) == 1);
	(void) rf_admission_give(&stats, own[1]);
	CHECK(rf_admission_take(window, &stats, 0, own[0], 2 * SLOT));
	(void) rf_admission_give(&stats, own[0] + 2 * SLOT);
	(void) rf_admission_stop_waiting(&stats, 0);
	CHECK(atomic_load(&stats.in_flight) == 0 && atomic_load(&stats.waiting) == 0);

	/* A slot larger than the window goes alone, and two lanes with such slots take turns. */
	window = SLOT / 2;
	rf_admission_wait(&stats, 0);
	rf_admission_wait(&stats, 1);
	atomic_store(&stats.last, 1);
	for (int i = 0; i < 10; i++)
	{
		CHECK(!rf_admission_take(window, &stats, 1 - i % 2, 0, SLOT));
		CHECK(rf_admission_take(window, &stats, i % 2, 0, SLOT));
		CHECK(!rf_admission_take(window, &stats, 1 - i % 2, 0, SLOT));
		(void) rf_admission_give(&stats, SLOT);
	}
}

int
main(void)
{
	test_window();
	printf("ok - the window is never passed, lanes share it, nobody waits for ever\n");
	return 0;
}
