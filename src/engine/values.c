/*
 * values.c - see values.h.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shmem/layout.h"

#include "values.h"

#define MAX_REGISTRATIONS	512
#define MB					(1u << 20)

typedef struct Registration
{
	RfRegion   *region;			/* NULL: free */
	RfDomain   *domain;
	int			peer;
	uint32_t	unit;
	uint32_t	units;
	uint32_t	users;			/* pieces within it */
	uint64_t	used_at;		/* RfValues.clock when it was taken or returned last */
} Registration;

struct RfValues
{
	RfShared   *shared;
	const RfProvider *provider;
	uint64_t	limit;
	uint64_t	unused;			/* bytes of registrations without users */
	uint64_t	clock;
	uint32_t	units;
	Registration registrations[MAX_REGISTRATIONS];
	uint8_t		map[];			/* for each unit: pieces that hold it */
};

RfValues *
rf_values_create(RfShared *shared, const RfProvider *provider, uint64_t limit)
{
	uint32_t	units = (uint32_t) (shared->value_size / RF_VALUE_UNIT);
	RfValues   *values = calloc(1, sizeof(RfValues) + units);

	if (values == NULL)
		return NULL;
	values->shared = shared;
	values->provider = provider;
	values->limit = limit;
	values->units = units;
	atomic_store(&shared->values.used, 0);
	atomic_store(&shared->values.registered, 0);
	for (int peer = 0; peer < RF_MAX_PEERS; peer++)
		atomic_store(&shared->peers[peer].value_registered, 0);
	return values;
}

/* Shows backends whether a registration is available. */
static void
show_peer(RfValues *values, int peer)
{
	uint64_t	most = 0;

	for (int i = 0; i < MAX_REGISTRATIONS; i++)
	{
		const Registration *r = &values->registrations[i];
		uint64_t	bytes = (uint64_t) r->units * RF_VALUE_UNIT;

		if (r->region != NULL && r->users == 0 && r->peer == peer && bytes > most)
			most = bytes;
	}
	atomic_store_explicit(&values->shared->peers[peer].value_registered, most,
						  memory_order_relaxed);
}

static void
drop(RfValues *values, Registration *r)
{
	uint64_t	bytes = (uint64_t) r->units * RF_VALUE_UNIT;

	values->provider->region_deregister(r->domain, r->region);
	atomic_fetch_sub(&values->shared->values.registered, bytes);
	if (r->users == 0)
		values->unused -= bytes;
	r->region = NULL;
	show_peer(values, r->peer);
}

/*
 * Drops the least recently used registrations, until no more than `bytes` are unused; true: at
 * least one was dropped.
 */
static bool
evict(RfValues *values, uint64_t bytes)
{
	bool		some = false;

	while (values->unused > bytes)
	{
		Registration *oldest = NULL;

		for (int i = 0; i < MAX_REGISTRATIONS; i++)
		{
			Registration *r = &values->registrations[i];

			if (r->region != NULL && r->users == 0 &&
				(oldest == NULL || r->used_at < oldest->used_at))
				oldest = r;
		}
		if (oldest == NULL)
			break;
		drop(values, oldest);
		atomic_fetch_add(&values->shared->values.evictions, 1);
		some = true;
	}
	return some;
}

void
rf_values_destroy(RfValues *values)
{
	for (int i = 0; i < MAX_REGISTRATIONS; i++)
	{
		if (values->registrations[i].region != NULL)
			drop(values, &values->registrations[i]);
	}
	free(values);
}

/*
 * First free run of `units` within [from, to) that begins at a multiple of them, so that runs of
 * powers of two fill the memory without holes and recur. UINT32_MAX if there is no such run.
 */
static uint32_t
find_run(const RfValues *values, uint32_t from, uint32_t to, uint32_t units)
{
	for (uint32_t start = (from + units - 1) / units * units; start + units <= to; start += units)
	{
		uint32_t	unit = start;

		while (unit < start + units && values->map[unit] == 0)
			unit++;
		if (unit == start + units)
			return start;
	}
	return UINT32_MAX;
}

static void
hold_run(RfValues *values, uint32_t unit, uint32_t units, RfPiece *piece)
{
	for (uint32_t i = unit; i < unit + units; i++)
	{
		if (values->map[i]++ == 0)
			atomic_fetch_add(&values->shared->values.used, RF_VALUE_UNIT);
	}
	piece->unit = unit;
	piece->units = units;
}

static void
use(RfValues *values, Registration *r, RfPiece *piece)
{
	if (r->users++ == 0)
		values->unused -= (uint64_t) r->units * RF_VALUE_UNIT;
	r->used_at = ++values->clock;
	piece->registration = (int32_t) (r - values->registrations);
	show_peer(values, r->peer);
}

static Registration *
free_entry(RfValues *values)
{
	for (int i = 0; i < MAX_REGISTRATIONS; i++)
	{
		if (values->registrations[i].region == NULL && values->registrations[i].users == 0)
			return &values->registrations[i];
	}
	return NULL;
}

/* Registers the run for the peer, and holds it. */
static bool
register_run(RfValues *values, int peer, RfDomain *domain, uint32_t unit, uint32_t units,
			 RfPiece *piece, RfError *error)
{
	RfValueStats *stats = &values->shared->values;
	uint64_t	bytes = (uint64_t) units * RF_VALUE_UNIT;
	uint64_t	bound = values->shared->value_size + values->limit;
	Registration *r = free_entry(values);
	uint64_t	excess = atomic_load(&stats->registered) + bytes;

	/*
	 * Cached registrations give way to needed registrations: at the bound, if all entries are
	 * used, or if the device is full.
	 */
	excess -= excess < bound ? excess : bound;
	if (r == NULL && excess == 0)
		excess = 1;
	if (excess > 0 && evict(values, values->unused > excess ? values->unused - excess : 0))
		r = free_entry(values);
	if (r != NULL && atomic_load(&stats->registered) + bytes <= bound)
	{
		uint8_t    *address = values->shared->value_memory + (size_t) unit * RF_VALUE_UNIT;

		r->region = values->provider->source_register(domain, address, bytes, error);
		if (r->region == NULL && evict(values, 0))
			r->region = values->provider->source_register(domain, address, bytes, error);
		if (r->region != NULL)
		{
			error->kind = RF_ERROR_NONE;
			r->domain = domain;
			r->peer = peer;
			r->unit = unit;
			r->units = units;
			values->unused += bytes;
			atomic_fetch_add(&stats->registered, bytes);
			atomic_fetch_add(&stats->registrations, 1);
			hold_run(values, unit, units, piece);
			use(values, r, piece);
			return true;
		}
	}
	return false;
}

bool
rf_values_take(RfValues *values, int peer, RfDomain *domain, uint64_t size, RfPiece *piece,
			   RfError *error)
{
	RfValueStats *stats = &values->shared->values;
	uint32_t	units = (uint32_t) ((size + RF_VALUE_UNIT - 1) / RF_VALUE_UNIT);
	uint32_t	unit;

	error->kind = RF_ERROR_NONE;
	for (int i = 0; i < MAX_REGISTRATIONS; i++)
	{
		Registration *r = &values->registrations[i];

		if (r->region == NULL || r->domain != domain || r->units < units)
			continue;
		unit = find_run(values, r->unit, r->unit + r->units, units);
		if (unit == UINT32_MAX)
			continue;
		hold_run(values, unit, units, piece);
		use(values, r, piece);
		atomic_fetch_add(&stats->hits, 1);
		return true;
	}

	unit = units > 0 ? find_run(values, 0, values->units, units) : UINT32_MAX;
	if (unit != UINT32_MAX && register_run(values, peer, domain, unit, units, piece, error))
		return true;
	atomic_fetch_add(&stats->refused, 1);
	return false;
}

bool
rf_values_share(RfValues *values, int peer, RfDomain *domain, const RfPiece *of, RfPiece *piece,
				RfError *error)
{
	RfValueStats *stats = &values->shared->values;
	bool		room = of->units > 0;

	error->kind = RF_ERROR_NONE;
	for (uint32_t i = 0; i < of->units; i++)
		room &= values->map[of->unit + i] < UINT8_MAX;
	for (int i = 0; i < MAX_REGISTRATIONS && room; i++)
	{
		Registration *r = &values->registrations[i];

		if (r->region == NULL || r->domain != domain || r->unit > of->unit ||
			r->unit + r->units < of->unit + of->units)
			continue;
		hold_run(values, of->unit, of->units, piece);
		use(values, r, piece);
		atomic_fetch_add(&stats->hits, 1);
		return true;
	}
	if (room && register_run(values, peer, domain, of->unit, of->units, piece, error))
		return true;
	atomic_fetch_add(&stats->refused, 1);
	return false;
}

uint8_t *
rf_values_address(RfValues *values, const RfPiece *piece)
{
	return values->shared->value_memory + (size_t) piece->unit * RF_VALUE_UNIT;
}

uint32_t
rf_values_lkey(RfValues *values, const RfPiece *piece)
{
	return values->registrations[piece->registration].region->lkey;
}

void
rf_values_return(RfValues *values, RfPiece *piece)
{
	if (piece->units == 0)
		return;
	for (uint32_t i = piece->unit; i < piece->unit + piece->units; i++)
	{
		if (--values->map[i] == 0)
			atomic_fetch_sub(&values->shared->values.used, RF_VALUE_UNIT);
	}
	piece->units = 0;
	if (piece->registration >= 0)
	{
		Registration *r = &values->registrations[piece->registration];

		r->used_at = ++values->clock;
		if (--r->users == 0 && r->region != NULL)
		{
			values->unused += (uint64_t) r->units * RF_VALUE_UNIT;
			(void) evict(values, values->limit);
			show_peer(values, r->peer);
		}
	}
}

void
rf_values_mark(RfValues *values, const uint8_t *address, uint64_t size, RfPiece *piece)
{
	uint64_t	offset = (uint64_t) (address - values->shared->value_memory);

	piece->units = 0;
	piece->registration = -1;
	if (size == 0 || offset > values->shared->value_size ||
		size > values->shared->value_size - offset)
		return;
	hold_run(values, (uint32_t) (offset / RF_VALUE_UNIT), (uint32_t) (size / RF_VALUE_UNIT), piece);
}

void
rf_values_peer_gone(RfValues *values, RfDomain *domain)
{
	/*
	 * An entry that pieces still name stays allocated, without a region, until the last one is
	 * returned.
	 */
	for (int i = 0; i < MAX_REGISTRATIONS; i++)
	{
		if (values->registrations[i].region != NULL && values->registrations[i].domain == domain)
			drop(values, &values->registrations[i]);
	}
}

/* ---------- costs ---------- */

#define MEASURED_UNITS		4	/* at most: memory that is touched for it */
#define COPY_TARGET			(256u << 10)	/* as large as a slot */
#define ROUNDS				5	/* the fastest counts: slower runs were disturbed */

static int64_t
clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Nanoseconds to register and deregister so much; 0: impossible. */
static int64_t
register_ns(const RfProvider *provider, RfDomain *domain, uint8_t *memory, size_t size)
{
	int64_t		best = INT64_MAX;

	for (int i = 0; i < ROUNDS; i++)
	{
		RfError		error;
		int64_t		start = clock_ns();
		RfRegion   *region = provider->source_register(domain, memory, size, &error);

		if (region == NULL)
			return 0;
		provider->region_deregister(domain, region);
		if (clock_ns() - start < best)
			best = clock_ns() - start;
	}
	return best;
}

static int64_t
copy_ns(const uint8_t *memory, size_t size, uint8_t *target)
{
	int64_t		best = INT64_MAX;

	for (int i = 0; i < ROUNDS; i++)
	{
		int64_t		start = clock_ns();

		for (size_t at = 0; at < size; at += COPY_TARGET)
		{
			memcpy(target, memory + at, COPY_TARGET);
			__asm__ volatile (""::"r" (target):"memory");
		}
		if (clock_ns() - start < best)
			best = clock_ns() - start;
	}
	return best;
}

void
rf_values_calibrate(RfShared *shared, const RfProvider *provider, RfDevice *device)
{
	RfCalibration *costs = &shared->calibration;
	uint32_t	units = (uint32_t) (shared->value_size / RF_VALUE_UNIT);
	size_t		size;
	RfError		error;
	RfDomain   *domain = NULL;
	uint8_t    *target;
	int64_t		one;
	int64_t		all;

	costs->copy_ns = costs->register_ns = costs->register_mb_ns = 0;
	if (units < 2)
		return;
	units = units < MEASURED_UNITS ? units : MEASURED_UNITS;
	size = (size_t) units * RF_VALUE_UNIT;
	target = malloc(COPY_TARGET);
	if (target != NULL)
		domain = provider->domain_create(device, &error);
	if (domain != NULL)
	{
		one = register_ns(provider, domain, shared->value_memory, RF_VALUE_UNIT);
		all = register_ns(provider, domain, shared->value_memory, size);
		if (one > 0 && all > 0)
		{
			costs->register_mb_ns = all > one ? (uint32_t) ((all - one) / (units - 1)) : 0;
			costs->register_ns = one > costs->register_mb_ns ?
				(uint32_t) (one - costs->register_mb_ns) : 0;
			costs->copy_ns = (uint32_t) (copy_ns(shared->value_memory, size, target) / units);
		}
		provider->domain_destroy(domain);
	}
	free(target);
}
