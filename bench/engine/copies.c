/*
 * copies.c - the benefit of a second receive buffer on this machine's cores and caches, without any
 * engine: one thread writes buffers that another, on another core, copies out before it gives them
 * back. Both spin. It is the consume test with nothing in it but the two copies.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

typedef struct Copies
{
	size_t		size;
	uint64_t	buffers;
	uint8_t    *source;
	uint8_t    *shared;
	uint8_t    *target;
	int64_t		stop_at;
	_Atomic uint64_t written;
	_Atomic uint64_t released;
	atomic_bool last;			/* `written` is final */
} Copies;

static void
copy(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
	__asm__ volatile (""::"r" (to):"memory");
}

static void *
write_buffers(void *argument)
{
	Copies	   *copies = argument;

	bench_part_cores(true);
	for (uint64_t i = 0; bench_now_ns() < copies->stop_at; i++)
	{
		size_t		place = i % copies->buffers * copies->size;

		while (i - atomic_load(&copies->released) >= copies->buffers)
			sched_yield();
		copy(copies->shared + place, copies->source + place, copies->size);
		atomic_store(&copies->written, i + 1);
	}
	atomic_store(&copies->last, true);
	return NULL;
}

static void *
read_buffers(void *argument)
{
	Copies	   *copies = argument;

	bench_part_cores(false);
	for (uint64_t i = 0;;)
	{
		bool		last = atomic_load(&copies->last);

		if (atomic_load(&copies->written) > i)
		{
			copy(copies->target, copies->shared + i % copies->buffers * copies->size, copies->size);
			atomic_store(&copies->released, ++i);
		}
		else if (last)
			return NULL;
		else
			sched_yield();
	}
}

double
bench_copies(size_t size, int buffers)
{
	size_t		all = size * (size_t) buffers;
	uint8_t    *memory = mmap(NULL, 2 * all + size, PROT_READ | PROT_WRITE,
							  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int64_t		begin = bench_now_ns();
	Copies		copies = {.size = size,
		.buffers = (uint64_t) buffers,
		.source = memory,
		.shared = memory + all,
		.target = memory + 2 * all,
	.stop_at = begin + (int64_t) bench_ms * 1000000};
	pthread_t	threads[2];
	int64_t		end;

	if (memory == MAP_FAILED ||
		pthread_create(&threads[0], NULL, write_buffers, &copies) != 0 ||
		pthread_create(&threads[1], NULL, read_buffers, &copies) != 0)
		abort();
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	end = bench_now_ns();
	munmap(memory, 2 * all + size);
	return (double) copies.released * (double) size / ((double) (end - begin) * 1e-9);
}
