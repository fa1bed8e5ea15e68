/*
 * clock.h - the time, in the units and from the clocks that all rooms use. Plain C.
 */
#ifndef RF_CLOCK_H
#define RF_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
rf_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Microseconds, for deadlines; the same in all processes of this machine. */
static inline int64_t
rf_now_us(void)
{
	return rf_clock_ns(CLOCK_MONOTONIC) / 1000;
}

/* Microseconds since 1970, for people to read. */
static inline int64_t
rf_wall_us(void)
{
	return rf_clock_ns(CLOCK_REALTIME) / 1000;
}

#endif
