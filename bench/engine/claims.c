/*
 * claims.c - buffers that many claim by compare-and-swap, with and without the backoff of
 * src/engine/backoff.h.
 *
 * The word that is swapped is real and so are the claimants, threads; the time of an attempt on the
 * network is slept, so that few cores are enough. The attempt is decided in the middle of its round
 * trip.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "engine/backoff.h"

#define ROUND_TRIP_NS	200000
#define HOLD_NS			2000000

typedef struct Claims
{
	atomic_int	words[64];
	int			buffers;
	int64_t		stop_at;
	bool		backoff;
} Claims;

typedef struct Claimant
{
	Claims	   *claims;
	uint64_t	seed;
	uint64_t	won;
	uint64_t	lost;
	pthread_t	thread;
} Claimant;

static void
wait_ns(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t) (ns / 1000000000),
	.tv_nsec = (long) (ns % 1000000000)};

	nanosleep(&time, NULL);
}

static void *
claim(void *argument)
{
	Claimant   *claimant = argument;
	Claims	   *claims = claimant->claims;
	uint64_t	random = claimant->seed;
	RfBackoff	backoff;

	rf_backoff_init(&backoff, ROUND_TRIP_NS, 1, claimant->seed, (uint64_t) bench_now_ns());
	while (bench_now_ns() < claims->stop_at)
	{
		uint32_t	lost = 0;

		if (!rf_backoff_begin(&backoff))
			break;
		while (bench_now_ns() < claims->stop_at)
		{
			atomic_int *word;
			int			free_word = 0;
			bool		won;

			random = random * 6364136223846793005ull + 1442695040888963407ull;
			word = &claims->words[(random >> 33) % (uint64_t) claims->buffers];
			wait_ns(ROUND_TRIP_NS / 2);
			won = atomic_compare_exchange_strong(word, &free_word, 1);
			wait_ns(ROUND_TRIP_NS / 2);
			if (won)
			{
				claimant->won++;
				wait_ns(HOLD_NS);
				atomic_store(word, 0);
				break;
			}
			claimant->lost++;
			lost++;
			if (claims->backoff)
				wait_ns(rf_backoff_lost(&backoff, lost, (uint64_t) bench_now_ns()));
		}
		if (claims->backoff)
			rf_backoff_won(&backoff, (uint64_t) bench_now_ns());
		else
			rf_backoff_gave_up(&backoff);
	}
	return NULL;
}

double
bench_claims(int claimants, int buffers, bool backoff, double *claims_per_second)
{
	Claims		claims = {.buffers = buffers, .backoff = backoff};
	Claimant   *all = calloc((size_t) claimants, sizeof(Claimant));
	uint64_t	won = 0;
	uint64_t	lost = 0;

	claims.stop_at = bench_now_ns() + (int64_t) bench_ms * 1000000;
	for (int i = 0; i < claimants; i++)
	{
		all[i].claims = &claims;
		all[i].seed = (uint64_t) i + 1;
		if (pthread_create(&all[i].thread, NULL, claim, &all[i]) != 0)
			abort();
	}
	for (int i = 0; i < claimants; i++)
	{
		pthread_join(all[i].thread, NULL);
		won += all[i].won;
		lost += all[i].lost;
	}
	free(all);
	*claims_per_second = (double) won * 1000 / bench_ms;
	return won == 0 ? 0 : (double) lost / (double) won;
}
