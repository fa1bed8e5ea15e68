/*
 * bench.h - the engine without PostgreSQL: the parameters of a run, and its results.
 *
 * node.c runs one load between two nodes: each a process with real lanes over a real provider, real
 * flows, and threads in place of the backends. Over the simulated provider, which lives in one
 * process, the nodes are threads of it. techniques.c says which loads show a technique; main.c runs
 * them in turns and prints medians.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lane_thread.h"

#define BENCH_GROUPS		4
#define BENCH_MAX_FLOWS		1024
#define BENCH_MAX_THREADS	64

#define BENCH_MAX_CONSUMERS	4
#define BENCH_VALUE_MEMORY	((size_t) 64 << 20)

/*
 * How a group's messages find their consumers. Of each kind other than BENCH_FLOWS there is one
 * group in a load, and its flows are producers x consumers.
 */
typedef enum BenchKind
{
	BENCH_FLOWS = 0,			/* each thread has flows of its own */
	BENCH_STATIC,				/* in turn */
	BENCH_BALANCE,				/* to the consumer with most free receive buffers */
	BENCH_VALUES				/* as BENCH_FLOWS, but messages that need not fit a slot
								 * (values.c); one flow and thread */
} BenchKind;

/* Flows that are used alike. `threads` producers share them; 0 threads = no such group. */
typedef struct BenchGroup
{
	int			flows;
	int			threads;
	BenchKind	kind;
	int			consumers;		/* threads of the other side, unless BENCH_FLOWS */
	uint32_t	pause_us[BENCH_MAX_CONSUMERS];	/* that each takes for a message */
	uint32_t	slots;			/* per flow, on both sides */
	uint32_t	pool;			/* receive buffers that all its flows share; 0 = each has its own.
								 * One consumer, one peer */
	bool		granted;		/* of the pool: all are free */
	uint32_t	slot_size;		/* with the header of 64 bytes */
	uint32_t	length;			/* payload of a message; 0 = a full slot */
	uint32_t	burst;			/* messages that come at once, then a gap; 0 = as fast as it goes */
	uint32_t	gap_us;			/* mean; the gaps are random */
	uint32_t	weight;			/* of each flow; 0 = the default */
	RfValueMode values;			/* BENCH_VALUES: where a message is laid out */
	bool		single;			/* and each is a stream of its own, of which nothing stays
								 * registered */
	bool		fill;			/* producer writes whole messages; else the first 8 bytes */
	bool		copy;			/* consumer copies messages before releasing them */
	bool		latency;		/* measure from submit to sight */
} BenchGroup;

typedef struct BenchLoad
{
	const char *name;
	const char *transport;		/* shm, tcp, verbs, sim */
	int			lanes;
	int			peers;			/* connection sets between the two nodes */
	bool		apart;			/* each node has cores of its own, as two machines have; otherwise
								 * any thread may run anywhere */
	uint32_t	milliseconds;
	uint64_t	window;			/* bytes that the producer's node has in flight at most; 0 = no
								 * limit */
	BenchGroup	groups[BENCH_GROUPS];	/* flows are dealt out to the peers in turn */

	/*
	 * Wake-ups alone: no lane and no backends on the producer's side, but one thread that posts to
	 * the consumer's lane, looks for the effect in its flow without sleeping, and releases. One
	 * flow, the first group's.
	 */
	bool		drive;
	uint32_t	drive_burst;	/* messages; 0 for no bursts */
	uint32_t	drive_gap_us;	/* within a burst, from effect to the next post */
	uint32_t	drive_idle_us;	/* between bursts */
	RfLaneConfig lane;			/* the settings of lane_thread.h, starting from bench_defaults() */
} BenchLoad;

typedef struct BenchResult
{
	double		seconds;
	uint64_t	messages;
	uint64_t	bytes;			/* payload, as the consumers saw it */
	uint64_t	group_bytes[BENCH_GROUPS];
	double		cpu[2];			/* seconds, of the producer's and the consumer's node */
	uint64_t	work_requests;	/* these of the producer's lanes */
	uint64_t	doorbells;
	uint64_t	merged;
	uint64_t	chained;
	uint64_t	credit_stalls;
	uint64_t	throttled;
	uint64_t	merged_while_throttled;
	uint64_t	high_water;		/* bytes in flight under the window */
	uint64_t	in_place;		/* bytes sent from value memory */
	uint64_t	registrations;	/* of value memory */
	RfCalibration calibration;	/* measured costs of copying and registering */
	uint64_t	polls;			/* these of both nodes' lanes */
	uint64_t	sleeps;
	uint64_t	receive_memory; /* bytes of all receive buffers */
	uint64_t	claims;			/* buffers of a pool: won, */
	uint64_t	claims_lost;	/* attempts that found one taken, */
	uint64_t	claims_asked;	/* and asked for */
	uint64_t	memory;			/* bytes that the flows and connections cost the producer's node
								 * beyond their buffers */
	double		p50;			/* us, of the groups that measure it */
	double		p99;
} BenchResult;

extern RfLaneConfig bench_defaults(void);

/* False: it failed, the reason is printed. */
extern bool bench_run(const BenchLoad *load, BenchResult *result);

/* Lost attempts per claim of threads that want buffers of one pool (claims.c), for bench_ms. */
extern double bench_claims(int claimants, int buffers, bool backoff, double *claims_per_second);

/* Bytes per second from core to core over `buffers` buffers, for bench_ms (copies.c). */
extern double bench_copies(size_t size, int buffers);

extern int64_t bench_now_ns(void);

/*
 * This thread, and the threads it starts, on the first half of the cores or on the second. Nothing
 * changes where there is only one.
 */
extern void bench_part_cores(bool first);

/* ---------- main.c, for techniques.c ---------- */

#define BENCH_MAX_VARIANTS	32

typedef struct BenchSeries
{
	int			variants;
	int			rounds;
	BenchResult *results;		/* [round][variant] */
} BenchSeries;

typedef double (*BenchMetric) (const BenchResult *result);

extern double bench_bandwidth(const BenchResult *result);	/* bytes per second */
extern double bench_cpu(const BenchResult *result); /* seconds of both nodes per GB */
extern double bench_cpu_share(const BenchResult *result);	/* cores in use, both nodes */
extern double bench_p50(const BenchResult *result);
extern double bench_p99(const BenchResult *result);
extern double bench_memory(const BenchResult *result);	/* bytes, see BenchResult */
extern double bench_throttled(const BenchResult *result);
extern double bench_merged(const BenchResult *result);
extern double bench_chained(const BenchResult *result);
extern double bench_in_place(const BenchResult *result);
extern double bench_registrations(const BenchResult *result);
extern double bench_merged_while_throttled(const BenchResult *result);
extern double bench_high_water(const BenchResult *result);
extern double bench_receive_memory(const BenchResult *result);
extern double bench_lost_claims(const BenchResult *result); /* per buffer that was got */
extern double bench_asked(const BenchResult *result);	/* share of the buffers that were asked for */
extern double bench_requests(const BenchResult *result);	/* work requests per message */
extern double bench_doorbells(const BenchResult *result);	/* per work request */

/*
 * A technique is about to run something that takes so long in each round: says so on stderr. Before
 * the first, every technique is called once to add this up; functions that it calls while
 * bench_counting must return without doing anything.
 */
extern void bench_step(const char *technique, const char *transport, const char *x,
					   uint64_t milliseconds);
extern bool bench_counting;

/*
 * Run the loads in turns, bench_rounds times, and print a line of medians for each: technique, x,
 * variant, figures.
 */
extern BenchSeries bench_series(const char *technique, const char *x, const BenchLoad *loads,
								int count);

/* Median over the rounds of metric(variant) or of metric(variant) / metric(base). */
extern double bench_median(const BenchSeries *series, BenchMetric metric, int variant);
extern double bench_ratio(const BenchSeries *series, BenchMetric metric, int variant, int base);

/* A line of the table. `target` is compared: at_least or at most; NAN = only told. */
extern void bench_row(const char *technique, const char *transport, const char *what, double value,
					  bool at_least, double target, const char *paper);
extern void bench_note(const char *technique, const char *format,...)
			__attribute__((format(printf, 2, 3)));

extern int	bench_rounds;
extern int	bench_most_nodes;	/* of an exchange between simulated nodes */
extern double bench_middle(double *values, int count);	/* median; sorts them */
extern uint32_t bench_ms;		/* per run */

#endif
