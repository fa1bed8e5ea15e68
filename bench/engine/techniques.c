/*
 * techniques.c - for each technique of the engine, loads with and without it, and what is to be seen.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "techniques.h"

#define ARRAY_LENGTH(array)	((int) (sizeof(array) / sizeof((array)[0])))

static BenchLoad
base_load(const char *transport, const char *name)
{
	BenchLoad	load = {
		.name = name, .transport = transport, .lanes = 1, .peers = 1, .milliseconds = bench_ms,
		.lane = bench_defaults()
	};

	return load;
}

/* A target holds on the transport named; elsewhere the row only tells. */
static double
target(const char *transport, const char *on, double value)
{
	return strcmp(transport, on) == 0 ? value : NAN;
}

static const char *
size_name(uint32_t size)
{
	static char names[4][16];
	static int	next;
	char	   *name = names[next++ % 4];

	snprintf(name, sizeof(names[0]), size >= 1u << 20 ? "%uM" : "%uk", size >= 1u << 20 ? size >> 20 : size >> 10);
	return name;
}

/*
 * Geyer et al. 3.1, figures 4 and 5: throughput test (the receiver releases at once) and consume test (it copies first) over the size and
 * the number of receive buffers.
 */
static void
multi_buffer(const char *transport)
{
	static const uint32_t sizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20};
	static const uint32_t buffers[] = {1, 2, 4, 7};
	static const char *const names[2][4] = {
		{"throughput, 1 buffer", "throughput, 2 buffers", "throughput, 4 buffers", "throughput, 7 buffers"},
		{"consume, 1 buffer", "consume, 2 buffers", "consume, 4 buffers", "consume, 7 buffers"}
	};

	for (int s = 0; s < ARRAY_LENGTH(sizes); s++)
	{
		BenchLoad	loads[8];
		BenchSeries series;
		char		what[64];

		for (int copy = 0; copy < 2; copy++)
			for (int b = 0; b < 4; b++)
			{
				BenchLoad  *load = &loads[copy * 4 + b];

				*load = base_load(transport, names[copy][b]);
				load->groups[0] = (BenchGroup)
				{
					.flows = 1, .threads = 1, .slots = buffers[b], .slot_size = sizes[s], .copy = copy == 1
				};
			}
		series = bench_series("multi-buffer", size_name(sizes[s]), loads, 8);
		if (sizes[s] < 256 << 10 || sizes[s] > 1 << 20)
			continue;
		snprintf(what, sizeof(what), "bandwidth, consume test, 2 over 1 buffer of %s", size_name(sizes[s]));
		bench_row("multi-buffer", transport, what, bench_ratio(&series, bench_bandwidth, 5, 4), true,
				  target(transport, "shm", 1.4),
				  "2 buffers keep 0.97 of the throughput test's peak, 1 buffer collapses (Geyer, fig. 5)");
		snprintf(what, sizeof(what), "bandwidth, 7 over 2 buffers of %s", size_name(sizes[s]));
		bench_row("multi-buffer", transport, what, bench_ratio(&series, bench_bandwidth, 7, 5), true, NAN,
				  "3 and 4 buffers like 2");
	}
}

/* RDMAbox IV-A, figures 3 and 4: 8 producers write 4 kB that lie side by side. */
static void
merge_chain(const char *transport)
{
	static const char *const names[] = {"single", "merge", "chain", "merge and chain"};
	BenchLoad	loads[4];
	BenchSeries series;

	for (int v = 0; v < 4; v++)
	{
		loads[v] = base_load(transport, names[v]);
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 8, .threads = 8, .slots = 16, .slot_size = 4096
		};
		if (v == 0 || v == 2)
			loads[v].lane.merge_limit = 0;
		if (v == 0 || v == 1)
			loads[v].lane.chain_limit = 1;
	}
	series = bench_series("merge", "8 producers", loads, 4);
	bench_row("merge", transport, "bandwidth, both over single, 8 producers of 4 kB",
			  bench_ratio(&series, bench_bandwidth, 3, 0), true, target(transport, "tcp", 1.5),
			  "hybrid 1.16 to 1.48 over single, 1.08 to 1.23 over chain alone (RDMAbox)");
	bench_row("merge", transport, "CPU per byte, both over single", bench_ratio(&series, bench_cpu, 3, 0), false, target(transport, "tcp", 0.6),
			  "less (RDMAbox, fig. 4)");
	bench_row("merge", transport, "work requests per message", bench_median(&series, bench_requests, 3), false, target(transport, "tcp", 0.5),
			  "0.87 of all I/O (11.5 M / 13.2 M)");
	bench_row("merge", transport, "doorbells per work request, chain alone", bench_median(&series, bench_doorbells, 2), false,
			  target(transport, "tcp", 0.25),
			  "chains of up to 32");
	bench_row("merge", transport, "work requests per message, off", bench_median(&series, bench_requests, 0), true, NAN, "-");

	for (int v = 0; v < 4; v += 3)
	{
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 1, .threads = 1, .slots = 16, .slot_size = 4096, .burst = 1, .gap_us = 100, .latency = true
		};
	}
	loads[1] = loads[3];
	series = bench_series("merge", "1 producer", loads, 2);
	bench_row("merge", transport, "p50 latency, both over single, 1 producer", bench_ratio(&series, bench_p50, 1, 0), false,
			  target(transport, "tcp", 1.1),
			  "never waits for company");
}

/* RDMAbox IV-B, algorithm 3, figure 9. */
static void
polling(const char *transport)
{
	static const uint32_t times[] = {0, 30, 200};
	static const char *const names[] = {"event", "adaptive, 30 us", "adaptive, 200 us"};
	BenchLoad	loads[3];
	BenchSeries series;

	for (int v = 0; v < 3; v++)
	{
		loads[v] = base_load(transport, names[v]);
		loads[v].lane.poll_us = times[v];
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 1, .threads = 1, .slots = 16, .slot_size = 4096, .burst = 8, .gap_us = 1000, .latency = true
		};
	}
	series = bench_series("polling", "bursts", loads, 3);
	bench_row("polling", transport, "p50 latency on bursts, adaptive over event", bench_ratio(&series, bench_p50, 1, 0), false, NAN, "-");
}

const Technique techniques[] = {
	{"multi-buffer", {"shm", "tcp", "verbs"}, multi_buffer},
	{"merge", {"tcp", "shm", "verbs"}, merge_chain},
	{"polling", {"shm", "tcp", "verbs"}, polling},
	{NULL}
};
