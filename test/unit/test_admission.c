/*
 * test_admission.c - the policies alone, in time of the test's own: the window's bound, shares of
 * lanes, no stop for good, and where the delay policy settles on a link with a queue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma_fdw/admission.h"
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
	RfAdmission *window = rf_admission_new(&rf_admission_window_policy, 4 * SLOT);
	uint64_t	own[3] = {0};

	/* One lane fills it, none exceeds it. */
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
	CHECK(rf_admission_give(window, &stats, SLOT, 10) == 1u << 1);
	own[0] -= SLOT;
	CHECK(!rf_admission_take(window, &stats, 0, own[0], SLOT));
	CHECK(rf_admission_take(window, &stats, 1, own[1], SLOT));
	own[1] += SLOT;
	rf_admission_wait(&stats, 0);
	CHECK(rf_admission_give(window, &stats, SLOT, 10) == 3);
	own[0] -= SLOT;
	CHECK(!rf_admission_take(window, &stats, 0, own[0], SLOT) &&
		  rf_admission_take(window, &stats, 1, own[1], SLOT));
	own[1] += SLOT;
	CHECK(own[0] == own[1]);

	/* A lane that stops waiting reports it, and the other may have all. */
	CHECK(rf_admission_stop_waiting(&stats, 1) == 1);
	(void) rf_admission_give(window, &stats, own[1], 10);
	CHECK(rf_admission_take(window, &stats, 0, own[0], 2 * SLOT));
	(void) rf_admission_give(window, &stats, own[0] + 2 * SLOT, 10);
	(void) rf_admission_stop_waiting(&stats, 0);
	CHECK(atomic_load(&stats.in_flight) == 0 && atomic_load(&stats.waiting) == 0);
	rf_admission_unuse(window);

	/* A slot larger than the window goes alone, and two lanes with such slots take turns. */
	window = rf_admission_new(&rf_admission_window_policy, SLOT / 2);
	rf_admission_wait(&stats, 0);
	rf_admission_wait(&stats, 1);
	atomic_store(&stats.last, 1);
	for (int i = 0; i < 10; i++)
	{
		CHECK(!rf_admission_take(window, &stats, 1 - i % 2, 0, SLOT));
		CHECK(rf_admission_take(window, &stats, i % 2, 0, SLOT));
		CHECK(!rf_admission_take(window, &stats, 1 - i % 2, 0, SLOT));
		(void) rf_admission_give(window, &stats, SLOT, 10);
	}
	rf_admission_unuse(window);
}

/*
 * A link of `rate` bytes per microsecond with a base delay: the sender keeps in flight what the
 * policy lets it. Returns the mean bytes in flight of the last tenth.
 */
static double
settle(const RfAdmissionPolicy *policy, uint64_t window, double rate, double base_us,
	   double *worst_us)
{
	static double sent_at[1 << 16];
	RfAdmissionStats stats = {0};
	RfAdmission *admission = rf_admission_new(policy, window);
	double		now = 0;
	double		link_free = 0;
	double		sum = 0;
	uint64_t	head = 0;
	uint64_t	tail = 0;
	uint64_t	own = 0;
	int			steps = 100000;
	int			counted = 0;
	static double done_at[1 << 16];

	*worst_us = 0;
	for (int i = 0; i < steps; i++)
	{
		double		delay;

		while (rf_admission_take(admission, &stats, 0, own, SLOT / 4))
		{
			own += SLOT / 4;
			sent_at[head % (1 << 16)] = now;
			link_free = (link_free > now ? link_free : now) + SLOT / 4 / rate;
			done_at[head++ % (1 << 16)] = link_free + base_us;
		}
		CHECK(tail < head);
		now = done_at[tail % (1 << 16)];
		delay = now - sent_at[tail++ % (1 << 16)];
		own -= SLOT / 4;
		if (i >= steps - steps / 10)
		{
			sum += (double) atomic_load(&stats.in_flight);
			counted++;
			if (delay > *worst_us)
				*worst_us = delay;
		}
		(void) rf_admission_give(admission, &stats, SLOT / 4, (uint32_t) delay);
	}
	CHECK(atomic_load(&stats.high_water) <= window);
	rf_admission_unuse(admission);
	return sum / counted;
}

static void
test_delay(void)
{
	double		worst;
	double		mean;

	/*
	 * A slow link, 100 MB/s: a window of 64 MB would queue for 640 ms. The policy keeps the delay
	 * near its threshold, and the link busy.
	 */
	mean = settle(&rf_admission_window_policy, 64u << 20, 100, 50, &worst);
	CHECK(worst > 500000);
	mean = settle(&rf_admission_delay_policy, 64u << 20, 100, 50, &worst);
	printf("# 100 MB/s: %.0f kB in flight, delay at most %.1f ms\n", mean / 1024, worst / 1000);
	CHECK(worst < 2 * RF_DELAY_HIGH_US);
	CHECK(mean > 100 * 50);		/* more than the link holds: it never runs dry */

	/*
	 * A fast one with a long way, 10 GB/s and 300 us: the way alone holds 3 MB, and that much has
	 * to be let out.
	 */
	mean = settle(&rf_admission_delay_policy, 64u << 20, 10000, 300, &worst);
	printf("# 10 GB/s, 300 us: %.0f kB in flight, delay at most %.1f ms\n", mean / 1024,
		   worst / 1000);
	CHECK(mean > 10000 * 300 && worst < 2 * RF_DELAY_HIGH_US);

	/* Below the window where that is the bound. */
	mean = settle(&rf_admission_delay_policy, 1u << 20, 10000, 300, &worst);
	CHECK(mean <= 1u << 20 && mean > 0.7 * (1u << 20));
}

int
main(void)
{
	test_window();
	printf("ok - the window is never passed, lanes share it, nobody waits for ever\n");
	test_delay();
	printf("ok - the delay policy settles\n");
	return 0;
}
