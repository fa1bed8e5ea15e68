/*
 * main.c - the engine's bench: run each technique's loads in turns, print the results, and the
 * table of techniques.
 *
 *		engine_bench [-r rounds | -b minutes] [-m milliseconds per run] [-t transport] [technique
 *		...]
 *
 * Without -r there are as many rounds as fit into -b minutes, at most 11: the techniques' loads are
 * counted first, without running them. Where it is, and for how long, goes to stderr.
 *
 * Prints lines of tab-separated values. "series": medians of one variant. "row": one line of the
 * table: a ratio (or a figure) with its goal and the paper's value. "note": a figure that cannot be
 * measured here. run.sh makes files, plots and a table of them.
 */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "techniques.h"

#define MOST_ROUNDS		11
/* Additional cost of a run: processes, connections, memory. */
#define SETUP_MS(transport)	(strcmp(transport, "verbs") == 0 ? 1500 : 100)

uint32_t	bench_ms = 300;
int			bench_rounds = 1;
int			bench_most_nodes = 256;
bool		bench_counting = false;
static uint64_t round_ms;		/* one round of everything that was asked for */
static uint64_t done_ms;		/* of all rounds */
static int64_t began;
static bool failed;

/* ---------- metrics ---------- */

double
bench_bandwidth(const BenchResult *result)
{
	return (double) result->bytes / result->seconds;
}

double
bench_cpu(const BenchResult *result)
{
	return (result->cpu[0] + result->cpu[1]) / ((double) result->bytes / 1e9);
}

double
bench_cpu_share(const BenchResult *result)
{
	return (result->cpu[0] + result->cpu[1]) / result->seconds;
}

double
bench_p50(const BenchResult *result)
{
	return result->p50;
}

double
bench_p99(const BenchResult *result)
{
	return result->p99;
}

double
bench_memory(const BenchResult *result)
{
	return (double) result->memory;
}

double
bench_throttled(const BenchResult *result)
{
	return (double) result->throttled;
}

double
bench_merged(const BenchResult *result)
{
	return (double) result->merged;
}

double
bench_chained(const BenchResult *result)
{
	return (double) result->chained;
}

double
bench_merged_while_throttled(const BenchResult *result)
{
	return (double) result->merged_while_throttled;
}

double
bench_in_place(const BenchResult *result)
{
	return (double) result->in_place;
}

double
bench_registrations(const BenchResult *result)
{
	return (double) result->registrations;
}

double
bench_receive_memory(const BenchResult *result)
{
	return (double) result->receive_memory;
}

double
bench_lost_claims(const BenchResult *result)
{
	uint64_t	got = result->claims + result->claims_asked;

	return got == 0 ? 0 : (double) result->claims_lost / (double) got;
}

double
bench_asked(const BenchResult *result)
{
	uint64_t	got = result->claims + result->claims_asked;

	return got == 0 ? 0 : (double) result->claims_asked / (double) got;
}

double
bench_high_water(const BenchResult *result)
{
	return (double) result->high_water;
}

double
bench_requests(const BenchResult *result)
{
	return (double) result->work_requests / (double) result->messages;
}

double
bench_doorbells(const BenchResult *result)
{
	return (double) result->doorbells / (double) result->work_requests;
}

/* ---------- medians ---------- */

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

double
bench_middle(double *values, int count)
{
	qsort(values, (size_t) count, sizeof(double), compare_doubles);
	return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double
bench_median(const BenchSeries *series, BenchMetric metric, int variant)
{
	double		values[series->rounds];

	for (int r = 0; r < series->rounds; r++)
		values[r] = metric(&series->results[r * series->variants + variant]);
	return bench_middle(values, series->rounds);
}

double
bench_ratio(const BenchSeries *series, BenchMetric metric, int variant, int base)
{
	double		values[series->rounds];

	for (int r = 0; r < series->rounds; r++)
		values[r] = metric(&series->results[r * series->variants + variant]) /
			metric(&series->results[r * series->variants + base]);
	return bench_middle(values, series->rounds);
}

/* ---------- progress ---------- */

void
bench_step(const char *technique, const char *transport, const char *x, uint64_t milliseconds)
{
	double		part;
	int			seconds = (int) ((bench_now_ns() - began) / 1000000000);

	if (bench_counting)
	{
		round_ms += milliseconds;
		return;
	}
	part = (double) done_ms / (double) (round_ms * (uint64_t) bench_rounds);
	fprintf(stderr, "%d:%02d  %3.0f %%  %s, %s%s%s\n", seconds / 60, seconds % 60, 100 * part,
			technique, transport, x[0] == '\0' ? "" : ", ", x);
	done_ms += milliseconds * (uint64_t) bench_rounds;
}

/* ---------- output ---------- */

BenchSeries
bench_series(const char *technique, const char *x, const BenchLoad *loads, int count)
{
	static BenchResult *results;	/* good until the next series */
	BenchSeries series = {.variants = count, .rounds = bench_rounds};
	uint64_t	milliseconds = 0;

	free(results);
	series.results = results = calloc((size_t) (bench_rounds * count), sizeof(BenchResult));
	for (int v = 0; v < count; v++)
		milliseconds += loads[v].milliseconds + SETUP_MS(loads[v].transport);
	bench_step(technique, loads[0].transport, x, milliseconds);
	if (bench_counting)
		return series;
	for (int r = 0; r < bench_rounds; r++)
		for (int v = 0; v < count; v++)
			if (!bench_run(&loads[v], &series.results[r * count + v]))
			{
				fprintf(stderr, "bench: %s, %s: the run failed\n", technique, loads[v].name);
				exit(1);
			}
	for (int v = 0; v < count; v++)
	{
		/* A run without messages has no figures per message. */
		bool		idle = series.results[v].messages == 0;

		printf("series\t%s\t%s\t%s\t%s\t%.1f\t%.4f\t%.3f\t%.1f\t%.1f\t%.3f\t%.3f\n", technique,
			   loads[v].transport, x, loads[v].name,
			   bench_median(&series, bench_bandwidth, v) / 1e6,
			   idle ? 0 : bench_median(&series, bench_cpu, v),
			   bench_median(&series, bench_cpu_share, v), bench_median(&series, bench_p50, v),
			   bench_median(&series, bench_p99, v),
			   idle ? 0 : bench_median(&series, bench_requests, v),
			   idle || loads[v].drive ? 0 : bench_median(&series, bench_doorbells, v));
	}
	fflush(stdout);
	return series;
}

void
bench_row(const char *technique, const char *transport, const char *what, double value,
		  bool at_least, double target, const char *paper)
{
	bool		reached = isnan(target) || (at_least ? value >= target : value <= target);
	char		wanted[32] = "-";

	if (bench_counting)
		return;
	if (!isnan(target))
		snprintf(wanted, sizeof(wanted), "%s %.2f", at_least ? ">=" : "<=", target);
	printf("row\t%s\t%s\t%s\t%.3g\t%s\t%s\t%s\n", technique, transport, what, value, wanted,
		   isnan(target) ? "" : reached ? "yes" : "NO", paper);
	fflush(stdout);
	failed |= !reached;
}

void
bench_note(const char *technique, const char *format,...)
{
	va_list		arguments;

	if (bench_counting)
		return;
	printf("note\t%s\t", technique);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
}

static void
run_techniques(const char *transport, char **names, int count)
{
	for (const Technique *t = techniques; t->name != NULL; t++)
	{
		bool		wanted = count == 0;

		for (int i = 0; i < count; i++)
			wanted |= strcmp(names[i], t->name) == 0;
		for (const char *const *on = t->transports; wanted && *on != NULL; on++)
			if (transport == NULL ? strcmp(*on, "verbs") != 0 && strcmp(*on, "fabric") != 0 :
				strcmp(*on, transport) == 0)
				t->run(*on);
	}
}

int
main(int argc, char **argv)
{
	const char *transport = NULL;
	double		minutes = 8;
	int			rounds = 0;
	int			option;

	while ((option = getopt(argc, argv, "r:b:m:t:n:")) != -1)
	{
		if (option == 'r')
			rounds = atoi(optarg);
		else if (option == 'b')
			minutes = atof(optarg);
		else if (option == 'm')
			bench_ms = (uint32_t) atoi(optarg);
		else if (option == 't')
			transport = optarg;
		else if (option == 'n')
			bench_most_nodes = atoi(optarg);
		else
			return 2;
	}
	/* As in a server process: a peer that closes first is an error of a write. */
	signal(SIGPIPE, SIG_IGN);
	if (rounds < 0 || bench_ms < 1)
		return 2;
	bench_counting = true;
	run_techniques(transport, argv + optind, argc - optind);
	bench_counting = false;
	if (rounds == 0 && round_ms > 0)
		rounds = (int) fmin(minutes * 60000 / (double) round_ms, MOST_ROUNDS);
	bench_rounds = rounds < 1 ? 1 : rounds;
	fprintf(stderr, "%d rounds of %u ms a run: about %.1f minutes\n", bench_rounds, bench_ms,
			(double) round_ms * bench_rounds / 60000);
	printf("rounds\t%d\t%u\n", bench_rounds, bench_ms);
	began = bench_now_ns();
	run_techniques(transport, argv + optind, argc - optind);
	return failed ? 3 : 0;
}
