/*
 * techniques.c - for each technique of the engine, loads with and without it, and the expected
 * effect.
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
	BenchLoad	load = {.name = name,
		.transport = transport,
		.lanes = 1,
		.peers = 1,
		.apart = true,
		.milliseconds = bench_ms,
	.lane = bench_defaults()};

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

	snprintf(name, sizeof(names[0]), size >= 1u << 20 ? "%uM" : "%uk",
			 size >= 1u << 20 ? size >> 20 : size >> 10);
	return name;
}

/*
 * Geyer et al. 3.1, figures 4 and 5: throughput test (the receiver releases at once) and consume
 * test (it copies first) over the size and the number of receive buffers.
 */
static void
multi_buffer(const char *transport)
{
	static const uint32_t sizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10,
	512 << 10, 1 << 20, 4 << 20};
	static const uint32_t buffers[] = {1, 2, 4, 7};
	static const char *const names[2][4] = {
		{"throughput, 1 buffer", "throughput, 2 buffers", "throughput, 4 buffers",
		"throughput, 7 buffers"},
	{"consume, 1 buffer", "consume, 2 buffers", "consume, 4 buffers", "consume, 7 buffers"}};

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
					.flows = 1,
						.threads = 1,
						.slots = buffers[b],
						.slot_size = sizes[s],
						.copy = copy == 1
				};
			}
		series = bench_series("multi-buffer", size_name(sizes[s]), loads, 8);
		if (sizes[s] < 256 << 10 || sizes[s] > 1 << 20)
			continue;
		snprintf(what, sizeof(what), "bandwidth, consume test, 2 over 1 buffer of %s",
				 size_name(sizes[s]));
		bench_row("multi-buffer", transport, what, bench_ratio(&series, bench_bandwidth, 5, 4),
				  true, target(transport, "shm", 1.4),
				  "2 buffers keep 0.97 of the throughput test's peak, 1 buffer collapses (Geyer, "
				  "fig. 5)");
		snprintf(what, sizeof(what), "bandwidth, 7 over 2 buffers of %s", size_name(sizes[s]));
		bench_row("multi-buffer", transport, what, bench_ratio(&series, bench_bandwidth, 7, 5),
				  true, NAN, "3 and 4 buffers like 2");
		if (strcmp(transport, "shm") == 0)
		{
			double		ratios[bench_rounds];

			bench_step("multi-buffer", transport, "the copies alone", 2 * bench_ms);
			for (int r = 0; !bench_counting && r < bench_rounds; r++)
			{
				double		one = bench_copies(sizes[s], 1);

				ratios[r] = bench_copies(sizes[s], 2) / one;
			}
			snprintf(what, sizeof(what), "2 over 1 buffer of %s, the two copies alone",
					 size_name(sizes[s]));
			bench_row("multi-buffer", transport, what, bench_middle(ratios, bench_rounds), true,
					  NAN, "-");
		}
	}
	if (strcmp(transport, "shm") == 0)
		bench_note(
				   "multi-buffer",
				   "the copies alone are two threads, each on its core, that only copy and spin: "
				   "what the machine gives a second buffer, which hides the shorter copy behind "
				   "the longer. With few buffers of 256k all lines lie in the two cores' own "
				   "caches, writing takes several times as long as reading, and there is little to "
				   "hide; what the engine gains beyond that are its own wake-ups");
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
	bench_row("merge", transport, "CPU per byte, both over single",
			  bench_ratio(&series, bench_cpu, 3, 0), false, target(transport, "tcp", 0.6),
			  "less (RDMAbox, fig. 4)");
	bench_row("merge", transport, "work requests per message",
			  bench_median(&series, bench_requests, 3), false, target(transport, "tcp", 0.5),
			  "0.87 of all I/O (11.5 M / 13.2 M)");
	bench_row("merge", transport, "doorbells per work request, chain alone",
			  bench_median(&series, bench_doorbells, 2), false, target(transport, "tcp", 0.25),
			  "chains of up to 32");
	bench_row("merge", transport, "merged, with merge off", bench_median(&series, bench_merged, 2),
			  false, 0, "-");
	bench_row("merge", transport, "chained, with chain off",
			  bench_median(&series, bench_chained, 1), false, 0, "-");
	bench_row("merge", transport, "work requests per message, off",
			  bench_median(&series, bench_requests, 0), true, NAN, "-");

	for (int v = 0; v < 4; v += 3)
	{
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 1, .threads = 1, .slots = 16, .slot_size = 4096, .burst = 1,
				.gap_us = strcmp(transport, "verbs") == 0 ? 5000 : 100, .latency = true
		};
	}
	loads[1] = loads[3];
	series = bench_series("merge", "1 producer", loads, 2);
	bench_row("merge", transport, "p50 latency, both over single, 1 producer",
			  bench_ratio(&series, bench_p50, 1, 0), false, target(transport, "tcp", 1.1),
			  "never waits for company");
}

/*
 * RDMAbox IV-B, algorithm 3, figure 9. One lane and one thread that posts to it, each with its
 * core, so that nothing but the lane's waiting is measured: bursts with pauses that are too short
 * to sleep in, and nothing at all.
 *
 * The driving thread stands for the network, which takes no core from the lane. Left to itself (the
 * last two) the scheduler puts the two on one core for most of the time, since a woken thread goes
 * where its waker runs; the thread that waits for the effect keeps that core, and a lane that tries
 * on keeps away the thread it waits for.
 */
static void
polling(const char *transport)
{
	static const struct
	{
		const char *name;
		RfPollingMode mode;
	}			modes[] = {
		{"event", RF_POLLING_EVENT},
		{"event batch", RF_POLLING_EVENT_BATCH},
		{"hybrid", RF_POLLING_HYBRID},
		{"adaptive", RF_POLLING_ADAPTIVE},
		{"busy", RF_POLLING_BUSY},
		{"event, any core", RF_POLLING_EVENT},
		{"adaptive, any core", RF_POLLING_ADAPTIVE}
	};
	BenchLoad	loads[7];
	BenchSeries series;

	for (int v = 0; v < 7; v++)
	{
		loads[v] = base_load(transport, modes[v].name);
		loads[v].apart = v < 5;
		loads[v].lane.polling_mode = modes[v].mode;
		loads[v].drive = true;
		loads[v].drive_burst = 50;
		loads[v].drive_gap_us = 10;
		loads[v].drive_idle_us = 5000;
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 1, .slots = 16, .slot_size = 4096
		};
	}
	series = bench_series("polling", "bursts", loads, 7);
	bench_row("polling", transport, "p50 latency on bursts, adaptive over event",
			  bench_ratio(&series, bench_p50, 3, 0), false, target(transport, "shm", 0.2),
			  "adaptive near busy polling, event mode far behind (RDMAbox, fig. 9)");
	bench_row("polling", transport, "CPU on bursts, adaptive over busy",
			  bench_ratio(&series, bench_cpu_share, 3, 4), false, NAN, "between event and busy");
	bench_row("polling", transport, "p50 latency on bursts, adaptive over event, any core",
			  bench_ratio(&series, bench_p50, 6, 5), false, NAN, "-");
	if (strcmp(transport, "shm") == 0)
		bench_note(
				   "polling",
				   "the lane has a core of its own, as beside a network; where the thread that "
				   "drives it may share that core (any core), it does so for most of the time on "
				   "two, and then neither way of waiting gets a completion before that thread lets "
				   "go");
	for (int v = 0; v < 5; v++)
	{
		loads[v].drive_burst = 0;
		loads[v].drive_idle_us = 20000;
	}
	series = bench_series("polling", "idle", loads, 5);
	bench_row("polling", transport, "CPU when idle, adaptive over busy",
			  bench_ratio(&series, bench_cpu_share, 3, 4), false, target(transport, "shm", 0.05),
			  "event mode's");
}

/*
 * RDMAbox IV-A, figure 5: 16 flows offer more than the transport takes, and one sends little, now
 * and then. The transport serves writes in the order in which they come, so the delay of the small
 * flow shows how much is in flight.
 */
static void
admission(const char *transport)
{
	static const struct
	{
		const char *name;
		uint64_t	window;
	}			variants[] = {
		{"no limit", 0},
		{"window of 256 kB", 256 << 10},
		{"window of 1 MB", 1 << 20},
		{"window of 4 MB", 4 << 20}
	};
	BenchLoad	loads[4];
	BenchSeries series;

	for (int v = 0; v < 4; v++)
	{
		loads[v] = base_load(transport, variants[v].name);
		loads[v].window = variants[v].window;
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 16, .threads = 4, .slots = 16, .slot_size = 64 << 10, .copy = true
		};
		loads[v].groups[1] = (BenchGroup)
		{
			.flows = 1,
				.threads = 1,
				.slots = 16,
				.slot_size = 4096,
				.length = 256,
				.burst = 1,
				.gap_us = 1000,
				.latency = true
		};
	}
	series = bench_series("admission", "overload", loads, 4);
	bench_row("admission", transport, "p99 latency of a small flow, 1 MB over no limit",
			  bench_ratio(&series, bench_p99, 2, 0), false,
			  target(transport, "tcp", 0.5), "p99 -98 % over Accelio, all techniques together");
	bench_row("admission", transport, "bandwidth under overload, 1 MB over no limit",
			  bench_ratio(&series, bench_bandwidth, 2, 0), true,
			  target(transport, "tcp", 1.0), "1.299");
	bench_row("admission", transport, "p99 latency of a small flow, 4 MB over no limit",
			  bench_ratio(&series, bench_p99, 3, 0), false, NAN, "-");
	bench_row("admission", transport, "bandwidth under overload, 4 MB over no limit",
			  bench_ratio(&series, bench_bandwidth, 3, 0), true, NAN, "-");
	bench_row("admission", transport, "most bytes in flight over the window of 1 MB",
			  bench_median(&series, bench_high_water, 2) / (1 << 20),
			  false, 1.0, "-");
	bench_row("admission", transport, "requests merged while they had to wait, 1 MB",
			  bench_median(&series, bench_merged_while_throttled, 2), true, 1, "-");
	bench_row("admission", transport, "times throttled, no limit",
			  bench_median(&series, bench_throttled, 0), false, 0, "-");
}

/* The largest relative distance of a group's share of the bytes from its share of the weights. */
static double
share_error(const BenchResult *result)
{
	static const double wanted[] = {4.0 / 7, 2.0 / 7, 1.0 / 7};
	double		worst = 0;

	for (int g = 0; g < 3; g++)
		worst = fmax(worst, fabs((double) result->group_bytes[g] /
								 (double) result->bytes / wanted[g] -
									 1));
	return worst;
}

/*
 * Zero-sided 7.2: three flows of one lane, all with more to send than goes out. Over shared memory
 * that takes buffers of 256 kB: 64 kB are copied in 3 us, before the threads of a flow have handed
 * over the next.
 */
static void
weights(const char *transport)
{
	static const char *const names[] = {"equal weights", "weights 4 : 2 : 1"};
	static const uint32_t values[] = {40, 20, 10};
	BenchLoad	loads[2];
	BenchSeries series;

	for (int v = 0; v < 2; v++)
	{
		loads[v] = base_load(transport, names[v]);
		loads[v].milliseconds = 2 * bench_ms;	/* so that the last buffers do not count */
		loads[v].window = 256 << 10;
		for (int g = 0; g < 3; g++)
			loads[v].groups[g] = (BenchGroup)
		{
			.flows = 1,
				.threads = 1,
				.slots = 16,
				.slot_size = strcmp(transport, "shm") == 0 ? 256 << 10 : 64 << 10,
				.weight = v == 0 ? 0 : values[g]
		};
	}
	series = bench_series("weights", "3 flows", loads, 2);
	bench_row("weights", transport, "largest error of a share, weights 4 : 2 : 1",
			  bench_median(&series, share_error, 1), false, 0.1,
			  "bandwidth follows the weights (Zero-sided, fig. 11)");
	bench_row("weights", transport, "the same with equal weights, for comparison",
			  bench_median(&series, share_error, 0), true, NAN, "-");
}

/*
 * Ren et al. 4.2, figures 4 and 8: work requests of 16 kB that may not merge, over 8 lanes' worth
 * of flows on one queue pair. Throttling gains from the caches of a NIC; these transports have no
 * such cache, so the bench shows that finding the limit costs nothing.
 */
static void
credits(const char *transport)
{
	static const char *const names[] = {"4", "6", "8", "10", "12", "no limit", "automatic"};
	static const int32_t limits[] = {4, 6, 8, 10, 12, 0, RF_CREDIT_AUTO};
	BenchLoad	loads[7];
	BenchSeries series;
	int			best = 0;

	for (int v = 0; v < 7; v++)
	{
		loads[v] = base_load(transport, names[v]);
		loads[v].milliseconds = bench_ms < 500 ? 1000 : 2 * bench_ms;	/* a stable phase is 480 ms */
		loads[v].lane.credit_limit = limits[v];
		loads[v].lane.merge_limit = 0;
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 4, .threads = 4, .slots = 16, .slot_size = 16 << 10
		};
	}
	series = bench_series("credits", "C_max", loads, 7);
	for (int v = 1; v < 6; v++)
		if (bench_median(&series, bench_bandwidth, v) >
			bench_median(&series, bench_bandwidth, best))
			best = v;
	bench_row("credits", transport, "bandwidth, C_max found by trying over the best fixed one",
			  bench_ratio(&series, bench_bandwidth, 6, best), true,
			  strcmp(transport, "verbs") == 0 ? NAN : 0.95,
			  "up to 5.0 over no limit with 96 threads on one NIC (SMART)");
	bench_row("credits", transport, "bandwidth, best fixed one over no limit",
			  bench_ratio(&series, bench_bandwidth, best, 5), true, NAN, "-");
	if (strcmp(transport, "tcp") == 0)
		bench_note(
				   "credits",
				   "the gain needs a NIC whose cache of outstanding requests overflows. "
				   "test/unit/test_throttle.c has one that is simulated, and the choice against "
				   "every fixed limit there; rdma.stat_lanes and rdma.qps show limit and decisions "
				   "of a real one");
}

/*
 * Balance shortens the longest of the consumers' times for the same work; bandwidth while all are
 * busy shows it without an end.
 */
static void
balance(const char *transport)
{
	static const char *const names[] = {"static", "balance"};
	BenchLoad	loads[2];
	BenchSeries series;

	for (int v = 0; v < 2; v++)
	{
		loads[v] = base_load(transport, names[v]);
		loads[v].milliseconds = 2 * bench_ms;
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = 3, .threads = 1, .kind = v == 0 ? BENCH_STATIC : BENCH_BALANCE, .consumers = 3,
				.pause_us = {6000, 4000, 2000}, .slots = 4, .slot_size = 64 << 10
		};
	}
	series = bench_series("balance", "speeds 1 : 1.5 : 3", loads, 2);
	bench_row("balance", transport, "bandwidth, balance over static, consumers at 1 : 1.5 : 3",
			  bench_ratio(&series, bench_bandwidth, 1, 0), true, target(transport, "shm", 1.4),
			  "1.52: 3.2 s static, 2.1 s balanced (Zero-sided, fig. 9)");
}

/*
 * Ren et al. 4.3, figure 9: claimants of one pool's buffers. Interleaved as the other techniques;
 * there is no flow, so there are no lines of figures.
 */
static void
backoff(const char *transport)
{
	static const int claimants[] = {16, 32};

	for (int c = 0; c < 2; c++)
	{
		double		sums[2] = {0};
		double		rates[2] = {0};
		char		what[64];

		snprintf(what, sizeof(what), "%d claimants", claimants[c]);
		bench_step("backoff", transport, what, 2 * bench_ms);
		for (int r = 0; !bench_counting && r < bench_rounds; r++)
			for (int with = 0; with < 2; with++)
			{
				double		rate;

				sums[with] += bench_claims(claimants[c], 4, with == 1, &rate);
				rates[with] += rate;
			}
		snprintf(what, sizeof(what), "lost attempts per claim, immediate retries, %d claimants",
				 claimants[c]);
		bench_row("backoff", transport, what, sums[0] / bench_rounds, true, NAN,
				  "11.5 per update (SMART)");
		snprintf(what, sizeof(what), "lost attempts per claim, backoff, %d claimants",
				 claimants[c]);
		bench_row("backoff", transport, what, sums[1] / bench_rounds, true, NAN, "1.1 per update");
		snprintf(what, sizeof(what), "the second over the first, %d claimants", claimants[c]);
		bench_row("backoff", transport, what, sums[1] / sums[0], false, 0.2, "0.1");
		snprintf(what, sizeof(what), "claims per second, backoff over immediate, %d claimants",
				 claimants[c]);
		bench_row("backoff", transport, what, rates[1] / rates[0], true, NAN,
				  "1.6, where attempts take the NIC's time");
	}
	bench_note(
			   "backoff",
			   "a round trip is slept here (200 us) and an attempt costs the network nothing, so "
			   "only the attempts show what backoff saves; that it brings more claims per second "
			   "needs a NIC whose atomic unit is busy");
}

/*
 * Ren et al. 4.3 again, and the purpose of a shared receive pool: memory for the reader's buffers
 * by the number of senders, its cost, and how claims of a reader's buffers that are all taken,
 * because it is slow, go with and without backoff.
 */
static void
receive_pool(const char *transport)
{
	static const char *const names[] = {"own buffers", "claimed", "granted"};
	static const int producers[] = {2, 8, 32};
	double		memory[2][3];

	for (int p = 0; p < 3; p++)
	{
		BenchLoad	loads[3];
		BenchSeries series;
		char		x[32];
		char		what[96];

		for (int v = 0; v < 3; v++)
		{
			loads[v] = base_load(transport, names[v]);
			loads[v].groups[0] = (BenchGroup)
			{
				.flows = producers[p],
					.threads = producers[p],
					.kind = BENCH_STATIC,
					.consumers = 1,
					.slots = 4,
					.slot_size = 256 << 10,
					.pool = v > 0 ? 16 : 0,
					.granted = v == 2
			};
		}
		snprintf(x, sizeof(x), "%d senders", producers[p]);
		series = bench_series("receive pool", x, loads, 3);
		for (int v = 0; v < 2; v++)
			memory[v][p] = bench_median(&series, bench_receive_memory, v) / (1 << 20);
		snprintf(what, sizeof(what), "MB of receive buffers, own, %s", x);
		bench_row("receive pool", transport, what, memory[0][p], false, NAN, "-");
		snprintf(what, sizeof(what), "MB of receive buffers, shared, %s", x);
		bench_row("receive pool", transport, what, memory[1][p], false, NAN, "-");
		snprintf(what, sizeof(what), "bandwidth, claimed over own, %s", x);
		bench_row("receive pool", transport, what, bench_ratio(&series, bench_bandwidth, 1, 0),
				  true, NAN, "-");
		snprintf(what, sizeof(what), "bandwidth, granted over own, %s", x);
		bench_row("receive pool", transport, what, bench_ratio(&series, bench_bandwidth, 2, 0),
				  true, NAN, "-");
	}
	bench_row("receive pool", transport, "shared buffers, 32 senders over 2",
			  memory[1][2] / memory[1][0], false, 1, "-");

	for (int p = 16; p <= 32; p *= 2)
	{
		static const char *const how[] = {"immediate retries", "backoff"};
		BenchLoad	loads[2];
		BenchSeries series;
		char		x[32];
		char		what[96];

		for (int v = 0; v < 2; v++)
		{
			loads[v] = base_load(transport, how[v]);
			loads[v].lane.claim_at_once = v == 0;
			loads[v].groups[0] = (BenchGroup)
			{
				.flows = p, .threads = p, .kind = BENCH_STATIC, .consumers = 1, .pause_us =
				{
					200
				},
					.slots = 4, .slot_size = 16 << 10, .pool = 8
			};
		}
		snprintf(x, sizeof(x), "%d claimants", p);
		series = bench_series("claims", x, loads, 2);
		for (int v = 0; v < 2; v++)
		{
			snprintf(what, sizeof(what), "lost attempts per buffer, %s, %s", how[v], x);
			bench_row("claims", transport, what, bench_median(&series, bench_lost_claims, v), true,
					  NAN, v == 0 ? "11.5 per update (SMART)" : "1.1 per update");
		}
		snprintf(what, sizeof(what), "the second over the first, %s", x);
		bench_row("claims", transport, what, bench_ratio(&series, bench_lost_claims, 1, 0), false,
				  0.2, "0.1");
		snprintf(what, sizeof(what), "buffers that were asked for in the end, %s", x);
		bench_row("claims", transport, what, bench_median(&series, bench_asked, 1), true, NAN, "-");
		snprintf(what, sizeof(what), "bandwidth, backoff over immediate, %s", x);
		bench_row("claims", transport, what, bench_ratio(&series, bench_bandwidth, 1, 0), true, NAN,
				  "1.6");
		snprintf(what, sizeof(what), "CPU per byte, backoff over immediate, %s", x);
		bench_row("claims", transport, what, bench_ratio(&series, bench_cpu, 1, 0), false, NAN,
				  "-");
	}
}

/*
 * Not in a paper: the cost of many peers and flows. The peers are connection sets to one process,
 * which has every table and queue that as many nodes would have on this side.
 */
static void
scale(const char *transport)
{
	static const struct
	{
		const char *name;
		int			peers;
		int			flows;
	}			sizes[] = {
		{"1 peer, 1000 flows", 1, 1000},
		{"8 peers, 1000 flows", 8, 1000},
		{"64 peers, 1000 flows", 64, 1000},
		{"64 peers, 64 flows", 64, 64},
		{"1 peer, 8 flows", 1, 8}
	};
	BenchLoad	loads[5];
	BenchSeries series;

	for (int v = 0; v < 5; v++)
	{
		loads[v] = base_load(transport, sizes[v].name);
		loads[v].lanes = 4;
		loads[v].peers = sizes[v].peers;
		loads[v].groups[0] = (BenchGroup)
		{
			.flows = sizes[v].flows, .threads = 8, .slots = 4, .slot_size = 16384
		};
	}
	series = bench_series("scale", "4 lanes", loads, 5);
	if (strcmp(transport, "sim") == 0)
		bench_note(
				   "scale",
				   "the simulated fabric looks through all queue pairs for its next event, so over "
				   "it the ratio is that of the simulation, not of the lanes");
	if (strcmp(transport, "shm") == 0)
		bench_note(
				   "scale",
				   "64 peers take 1.4 to 1.5 times the CPU per byte of one, and two cores have no "
				   "more of it. A profile gives two fifths of the difference to the lanes, which "
				   "post to 64 queue pairs in turn where they had one (doorbells per work "
				   "request), and the rest to the backends' part, which is woken for fewer "
				   "messages at a time");
	if (strcmp(transport, "shm") == 0)
		bench_note(
				   "scale",
				   "doorbells of their own for the lanes (thread domains) and the cache of a NIC "
				   "with hundreds of queue pairs cannot be seen without a NIC; rdma.qps shows the "
				   "thread domain and what is outstanding on each queue pair of a real one");
	bench_row("scale", transport, "bandwidth, 64 peers over 1, 4 lanes, 1,000 flows",
			  bench_ratio(&series, bench_bandwidth, 2, 0), true, target(transport, "shm", 0.8),
			  "-");
	bench_row("scale", transport, "CPU per byte, 64 peers over 1",
			  bench_ratio(&series, bench_cpu, 2, 0), false, NAN, "-");
	bench_row("scale", transport, "doorbells per work request, 1 peer",
			  bench_median(&series, bench_doorbells, 0), false, NAN, "-");
	bench_row("scale", transport, "doorbells per work request, 64 peers",
			  bench_median(&series, bench_doorbells, 2), false, NAN, "-");
	bench_row("scale", transport, "bandwidth, 1,000 flows over 8, 1 peer",
			  bench_ratio(&series, bench_bandwidth, 0, 4), true, NAN, "-");
	bench_row("scale", transport, "bytes of memory per idle flow, 4 lanes",
			  (double) sizeof(RfFlow) + (bench_median(&series, bench_memory, 0) -
										 bench_median(&series, bench_memory, 4)) /
			  (1000 - 8) / (strcmp(transport, "sim") == 0 ? 2 : 1),
			  false, 1024, "about 50 bytes per flow pair in the switch (Zero-sided)");
	bench_row("scale", transport, "bytes of memory per idle peer with 4 queue pairs",
			  (double) sizeof(RfPeer) + (bench_median(&series, bench_memory, 2) -
										 bench_median(&series, bench_memory, 0)) /
			  63 / (strcmp(transport, "sim") == 0 ? 2 : 1),
			  false, NAN, "-");
}

/* The variant with the most bandwidth of two. */
static int
better(const BenchSeries *series, int a, int b)
{
	return bench_median(series, bench_bandwidth, a) > bench_median(series, bench_bandwidth, b) ? a :
		b;
}

/*
 * RDMAbox, figure 5: values that lie in memory of their own are copied to registered buffers, or
 * their memory is registered. Each one for itself, so that a registration serves once, and many of
 * one stream; and the automatic choice between both.
 */
static void
registration(const char *transport)
{
	static const uint32_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
	static const char *const names[] = {"once, copied", "once, registered",
		"once, automatic", "stream, copied",
	"stream, registered", "stream, automatic"};
	static const RfValueMode modes[] = {RF_VALUES_OFF, RF_VALUES_ON, RF_VALUES_AUTO};
	const char *paper = "copying is ahead up to 928 kB, registering above it (RDMAbox, fig. 5)";
	double		wanted = strcmp(transport, "verbs") == 0 ? NAN : 0.9;
	double		product[2] = {1, 1};
	double		worst[2] = {INFINITY, INFINITY};
	double		off = 0;
	RfCalibration costs = {0};

	for (int s = 0; s < ARRAY_LENGTH(sizes); s++)
	{
		BenchLoad	loads[6];
		BenchSeries series;
		char		what[96];

		for (int v = 0; v < 6; v++)
		{
			loads[v] = base_load(transport, names[v]);
			/* Several messages of 16 MB, also where everything is emulated. */
			loads[v].milliseconds = strcmp(transport, "verbs") == 0 ? 5 * bench_ms : bench_ms;
			loads[v].groups[0] = (BenchGroup)
			{
				.flows = 1,
					.threads = 1,
					.kind = BENCH_VALUES,
					.slots = 4,
					.slot_size = 256 << 10,
					.length = sizes[s],
					.values = modes[v % 3],
					.single = v < 3,
					.copy = true
			};
		}
		series = bench_series("registration", size_name(sizes[s]), loads, 6);
		for (int once = 1; once >= 0; once--)
		{
			int			v = once ? 0 : 3;
			double		chosen;

			snprintf(what, sizeof(what), "bandwidth, registered over copied, %s, %s",
					 once ? "each once" : "one stream", size_name(sizes[s]));
			bench_row("registration", transport, what,
					  bench_ratio(&series, bench_bandwidth, v + 1, v), true, NAN,
					  once ? paper : "-");
			chosen = bench_ratio(&series, bench_bandwidth, v + 2, better(&series, v, v + 1));
			product[once] *= chosen;
			worst[once] = fmin(worst[once], chosen);
			off += bench_median(&series, bench_in_place, v) +
				bench_median(&series, bench_registrations, v);
		}
		snprintf(what, sizeof(what), "CPU per byte, registered over copied, one stream, %s",
				 size_name(sizes[s]));
		bench_row("registration", transport, what, bench_ratio(&series, bench_cpu, 4, 3), false,
				  NAN, "-");
		costs = series.results[0].calibration;
	}
	for (int once = 1; once >= 0; once--)
	{
		char		what[96];

		snprintf(what, sizeof(what), "bandwidth, automatic over the better, %s, mean of sizes",
				 once ? "each once" : "one stream");
		bench_row("registration", transport, what, pow(product[once], 1.0 / ARRAY_LENGTH(sizes)),
				  true, wanted, "-");
		snprintf(what, sizeof(what), "bandwidth, automatic over the better, %s, worst size",
				 once ? "each once" : "one stream");
		bench_row("registration", transport, what, worst[once], true, NAN, "-");
	}
	bench_row("registration", transport, "registrations and bytes in place, off", off, false, 0,
			  "-");
	bench_note(
			   "registration",
			   "over %s a MB takes %.0f us to copy into buffers and %.1f us + %.1f us per MB to "
			   "register, in pages of 4 kB",
			   transport, costs.copy_ns / 1e3, costs.register_ns / 1e3, costs.register_mb_ns / 1e3);
}

const Technique techniques[] = {
	{"multi-buffer", {"shm", "tcp", "verbs"}, multi_buffer},
	{"merge", {"tcp", "shm", "verbs"}, merge_chain},
	{"polling", {"shm", "tcp", "verbs"}, polling},
	{"admission", {"tcp", "shm", "verbs"}, admission},
	{"weights", {"tcp", "shm"}, weights},
	{"credits", {"tcp", "shm", "verbs"}, credits},
	{"registration", {"shm", "tcp", "verbs"}, registration},
	{"balance", {"shm", "tcp", "verbs"}, balance},
	{"backoff", {"memory"}, backoff},
	{"pool", {"shm", "tcp", "verbs"}, receive_pool},
	{"scale", {"shm", "tcp", "sim"}, scale},
	{"nodes", {"fabric"}, bench_nodes_growth},
	{NULL}
};
