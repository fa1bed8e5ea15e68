/*
 * test_values.c - value memory of the engine (src/engine/values.c) over a provider that only
 * counts, and where a producer lays out its rows (src/shmem/value.c): pieces never overlap,
 * registered memory is used or cached, the cache keeps the most recently used memory and no more
 * than its limit, a peer that goes takes its registrations along, and a row is never laid out where
 * an earlier row may still be read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shmem/value.h"

#include "../../src/engine/values.h"

#define UNITS		16
#define SIZE		((uint64_t) UNITS * RF_VALUE_UNIT)
#define MB			((uint64_t) 1 << 20)
#define PEERS		3
#define FLOWS		3

static int	failures;
static uint64_t registered;		/* bytes */
static uint64_t registrations;
static uint64_t capacity = UINT64_MAX;	/* the device's limit */
static RfShared *shared;
static RfDomain *domains[PEERS] = {(RfDomain *) &failures, (RfDomain *) &registered,
(RfDomain *) &capacity};

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static RfRegion *
source_register(RfDomain *domain, void *addr, size_t length, RfError *error)
{
	RfRegion   *region;

	if (registered + length > capacity)
	{
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "no more regions");
		return NULL;
	}
	region = calloc(1, sizeof(*region));
	region->addr = addr;
	region->length = length;
	region->lkey = (uint32_t) ++registrations;
	registered += length;
	return region;
}

static void
region_deregister(RfDomain *domain, RfRegion *region)
{
	registered -= region->length;
	free(region);
}

static RfDomain *
domain_create(RfDevice *device, RfError *error)
{
	return domains[0];
}

static void
domain_destroy(RfDomain *domain)
{
}

static const RfProvider provider = {
	.name = "counting", .domain_create = domain_create, .domain_destroy = domain_destroy,
	.source_register = source_register, .region_deregister = region_deregister
};

static bool
take(RfValues *values, int peer, uint64_t size, RfPiece *piece)
{
	RfError		error = {0};

	return rf_values_take(values, peer, domains[peer], size, piece, &error);
}

static uint64_t
figure(const _Atomic uint64_t *counter)
{
	return atomic_load(counter);
}

static void
test_cache(void)
{
	RfValues   *values = rf_values_create(shared, &provider, SIZE);
	RfPiece		a = {0};
	RfPiece		b = {0};
	RfPiece		c = {0};
	uint32_t	lkey;
	uint64_t	before;

	memset(&shared->values, 0, sizeof(shared->values));
	check(take(values, 0, 4 * MB, &a) && registered == 4 * MB &&
		  figure(&shared->values.registrations) == 1,
		  "a piece is registered");
	check(figure(&shared->values.used) == 4 * MB && figure(&shared->peers[0].value_registered) == 0,
		  "and shown as used");
	lkey = rf_values_lkey(values, &a);
	rf_values_return(values, &a);
	check(registered == 4 * MB && figure(&shared->values.used) == 0 &&
		  figure(&shared->peers[0].value_registered) == 4 * MB,
		  "returned, it stays registered");
	check(take(values, 0, 2 * MB, &a) && rf_values_lkey(values, &a) == lkey &&
		  figure(&shared->values.hits) == 1 && registered == 4 * MB,
		  "a smaller one for the same peer is within it");
	check(take(values, 0, 2 * MB, &b) && rf_values_lkey(values, &b) == lkey && a.unit != b.unit &&
		  figure(&shared->values.hits) == 2,
		  "and a second one beside that");
	check(take(values, 1, 2 * MB, &c) && registered == 6 * MB && c.unit != a.unit &&
		  c.unit != b.unit,
		  "another peer gets its own memory and registration");
	rf_values_return(values, &c);
	check(take(values, 1, 8 * MB, &c) && figure(&shared->values.registrations) == 3,
		  "a larger one than is registered is registered");
	rf_values_return(values, &c);
	rf_values_return(values, &a);
	rf_values_return(values, &b);
	check(take(values, 0, 8 * MB, &a) && rf_values_address(values, &a) == shared->value_memory,
		  "memory that was registered for one peer serves another when it is free");
	rf_values_return(values, &a);

	check(!take(values, 0, SIZE + 1, &a) && a.units == 0 && figure(&shared->values.refused) == 1,
		  "more than there is is refused");

	rf_values_destroy(values);
	check(registered == 0, "nothing stays registered");

	before = figure(&shared->values.evictions);
	values = rf_values_create(shared, &provider, 10 * MB);
	check(take(values, 1, 8 * MB, &a) && take(values, 0, 8 * MB, &b),
		  "more than may stay is in use");
	rf_values_return(values, &a);
	rf_values_return(values, &b);
	check(registered == 8 * MB && figure(&shared->values.evictions) > before &&
		  figure(&shared->values.registered) == registered,
		  "returned, some of it goes");
	check(figure(&shared->peers[0].value_registered) == 8 * MB, "the one that was used last stays");
	check(take(values, 0, 8 * MB, &a) && figure(&shared->values.hits) == 3,
		  "and is there to be used");
	rf_values_return(values, &a);
	rf_values_destroy(values);

	values = rf_values_create(shared, &provider, 0);
	check(take(values, 0, 8 * MB, &a) && registered == 8 * MB, "what is in use is not evicted");
	rf_values_return(values, &a);
	check(registered == 0, "but when it is returned, if nothing may stay");
	rf_values_destroy(values);

	values = rf_values_create(shared, &provider, SIZE);
	capacity = 4 * MB;
	check(take(values, 0, 4 * MB, &a), "a device that takes 4 MB");
	check(!take(values, 1, 2 * MB, &b) && b.units == 0 && figure(&shared->values.used) == 4 * MB,
		  "takes no more");
	rf_values_return(values, &a);
	check(take(values, 1, 2 * MB, &b) && registered == 2 * MB,
		  "but what is only cached makes room");
	rf_values_return(values, &b);
	capacity = UINT64_MAX;
	rf_values_destroy(values);
	check(registered == 0, "nothing stays registered");
}

static void
test_peer_gone(void)
{
	RfValues   *values = rf_values_create(shared, &provider, SIZE);
	RfPiece		a = {0};
	RfPiece		b = {0};
	RfPiece		c = {0};

	check(take(values, 0, 4 * MB, &a) && take(values, 0, 2 * MB, &b) && take(values, 1, 2 * MB, &c),
		  "two peers have pieces");
	rf_values_return(values, &b);
	rf_values_peer_gone(values, domains[0]);
	check(registered == 2 * MB && figure(&shared->peers[0].value_registered) == 0,
		  "one goes with its registrations, also of what is in use");
	check(figure(&shared->values.used) == 6 * MB, "the memory stays in use");
	check(take(values, 2, 4 * MB, &b) && b.unit != a.unit, "and nobody else gets it");
	rf_values_return(values, &b);
	rf_values_return(values, &a);
	check(figure(&shared->values.used) == 2 * MB && registered == 6 * MB, "until it is returned");
	check(take(values, 0, 4 * MB, &a) && registered == 10 * MB,
		  "a new connection's domain is registered anew");
	rf_values_return(values, &a);
	rf_values_return(values, &c);
	rf_values_destroy(values);
	check(registered == 0, "nothing stays registered");

	values = rf_values_create(shared, &provider, SIZE);
	rf_values_mark(values, shared->value_memory + 2 * MB, 4 * MB, &a);
	check(figure(&shared->values.used) == 4 * MB, "what a backend of before still uses is marked");
	check(!take(values, 0, SIZE, &b), "and not given away");
	rf_values_return(values, &a);
	check(take(values, 0, SIZE, &b), "until it is returned");
	rf_values_return(values, &b);
	rf_values_mark(values, shared->value_memory + SIZE - MB, 2 * MB, &a);
	check(a.units == 0, "what is not value memory is not marked");
	rf_values_destroy(values);
}

static uint64_t
random_u64(uint64_t *state)
{
	uint64_t	x = (*state += 0x9e3779b97f4a7c15ull);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	return x ^ (x >> 31);
}

/* Random takes, returns and peers that leave, against a plain account. */
static bool
random_run(uint64_t seed)
{
	RfValues   *values;
	RfPiece		pieces[8];
	uint64_t	state = seed;
	uint64_t	limit = random_u64(&state) % 20 * MB;
	bool		good = true;

	memset(pieces, 0, sizeof(pieces));
	values = rf_values_create(shared, &provider, limit);
	capacity = random_u64(&state) % 2 ? UINT64_MAX : (random_u64(&state) % 24 + 1) * MB;
	for (int step = 0; step < 300 && good; step++)
	{
		RfPiece    *piece = &pieces[random_u64(&state) % 8];
		uint64_t	used = 0;
		uint8_t		owners[UNITS] = {0};

		switch (random_u64(&state) % 8)
		{
			case 1:
				rf_values_peer_gone(values, domains[random_u64(&state) % PEERS]);
				break;
			default:
				if (piece->units > 0)
					rf_values_return(values, piece);
				else
					(void) take(values, (int) (random_u64(&state) % PEERS),
								MB << random_u64(&state) % 5, piece);
		}
		for (int i = 0; i < 8; i++)
		{
			used += (uint64_t) pieces[i].units * RF_VALUE_UNIT;
			for (uint32_t unit = 0; unit < pieces[i].units; unit++)
				good = good && pieces[i].unit + unit < UNITS &&
					owners[pieces[i].unit + unit]++ == 0;
		}
		good = good && figure(&shared->values.used) == used &&
			figure(&shared->values.registered) == registered &&
			registered <= SIZE + limit && registered <= capacity;
	}
	for (int i = 0; i < 8; i++)
		rf_values_return(values, &pieces[i]);
	good = good && figure(&shared->values.used) == 0 && registered <= limit;
	rf_values_destroy(values);
	capacity = UINT64_MAX;
	if (!good || registered != 0)
		printf("# seed %llu\n", (unsigned long long) seed);
	return good && registered == 0;
}

static void
test_share(void)
{
	RfValues   *values = rf_values_create(shared, &provider, 0);
	RfPiece		a = {0};
	RfPiece		b = {0};
	RfPiece		c = {0};
	RfPiece		other = {0};
	RfError		error = {0};

	memset(&shared->values, 0, sizeof(shared->values));
	check(!rf_values_share(values, 1, domains[1], &a, &b, &error),
		  "what is not there cannot be shared");
	check(take(values, 0, 2 * MB, &a) && rf_values_share(values, 1, domains[1], &a, &b, &error) &&
		  b.unit == a.unit && b.units == a.units && registered == 4 * MB &&
		  figure(&shared->values.used) == 2 * MB,
		  "the same memory, registered for another peer");
	check(rf_values_share(values, 0, domains[0], &a, &c, &error) && registered == 4 * MB &&
		  rf_values_lkey(values, &c) == rf_values_lkey(values, &a), "and once more for the first");
	rf_values_return(values, &a);
	check(take(values, 2, 2 * MB, &other) && other.unit != b.unit &&
		  figure(&shared->values.used) == 4 * MB,
		  "it is nobody else's while one has it");
	rf_values_peer_gone(values, domains[1]);
	check(registered == 4 * MB, "a peer that goes takes its registration along");
	rf_values_return(values, &c);
	rf_values_return(values, &b);
	check(figure(&shared->values.used) == 2 * MB && registered == 2 * MB,
		  "the last one gives it back");
	check(take(values, 0, 2 * MB, &a) && a.unit == 0, "and somebody else gets it");
	capacity = registered;
	check(!rf_values_share(values, 1, domains[1], &a, &b, &error) && b.units == 0 &&
		  error.kind != RF_ERROR_NONE && figure(&shared->values.used) == 4 * MB,
		  "refused by the device: nothing is held");
	capacity = UINT64_MAX;
	rf_values_return(values, &a);
	rf_values_return(values, &other);
	rf_values_destroy(values);
	check(registered == 0 && figure(&shared->values.used) == 0, "all is given back");
}

/* ---------- the producer's side ---------- */

static RfFlow *flow;
static RfSlotCursor cursor;

/* The engine's answer. */
static void
grant(uint64_t offset)
{
	flow->value.memory = shared->value_memory + offset;
	flow->value.size = flow->value.wanted;
	atomic_store(&flow->value.state, RF_VALUE_GRANTED);
}

static RfValueStep
place(RfValueMode mode, uint64_t bytes, uint8_t **at)
{
	return rf_value_place(shared, flow, &cursor, mode, bytes, at);
}

/* Hand a row over in `slots` slots. */
static void
hand_over(const uint8_t *at, int slots)
{
	for (int i = 0; i < slots; i++)
		(void) rf_slot_place(flow, &cursor, at + (size_t) i * 1000, 1000, 0, 0);
}

static void
begin(void)
{
	rf_slots_reset(flow);
	memset(&cursor, 0, sizeof(cursor));
	atomic_store(&flow->state, RF_FLOW_OPEN);
	flow->slot_count = RF_MAX_SLOTS;
	flow->slot_size = 4096;
	flow->memory.buffers = calloc(RF_MAX_SLOTS, 4096);
}

static void
test_place(void)
{
	uint8_t    *first = NULL;
	uint8_t    *second = NULL;
	uint8_t    *third = NULL;

	begin();
	check(place(RF_VALUES_OFF, MB, &first) == RF_VALUE_COPY &&
		  atomic_load(&flow->value.state) == RF_VALUE_NONE, "off: copied, nothing asked");
	check(place(RF_VALUES_ON, SIZE, &first) == RF_VALUE_COPY, "what cannot fit is not asked for");
	check(place(RF_VALUES_ON, 900000, &first) == RF_VALUE_ASKED && flow->value.wanted == 2 * MB,
		  "on: asks for two halves");
	check(place(RF_VALUES_ON, 900000, &first) == RF_VALUE_WAIT &&
		  !rf_slots_ready(flow, &cursor, RF_WAIT_VALUE), "and waits");
	grant(MB);
	check(rf_slots_ready(flow, &cursor, RF_WAIT_VALUE), "for the answer");
	check(place(RF_VALUES_ON, 900000, &first) == RF_VALUE_IN_PLACE &&
		  first == shared->value_memory + MB, "the first half");
	hand_over(first, 3);
	check(place(RF_VALUES_ON, 100000, &second) == RF_VALUE_IN_PLACE && second >= first + 900000 &&
		  second + 100000 <= first + MB &&
		  (uintptr_t) second % RF_CACHE_LINE == 0, "a row behind the other");
	hand_over(second, 2);
	check(flow->placed[4].offset == second - flow->value.memory + 1000 &&
		  flow->placed[4].length == 1000 &&
		  atomic_load(&flow->status[4]) == RF_SLOT_PLACED,
		  "the entry says where a slot's payload lies");
	check(place(RF_VALUES_ON, 600000, &third) == RF_VALUE_IN_PLACE && third == first + MB,
		  "the other half");
	hand_over(third, 2);
	check(place(RF_VALUES_ON, 600000, &first) == RF_VALUE_WAIT, "full: wait for the first half");
	atomic_store(&flow->completed, 4);
	check(!rf_slots_ready(flow, &cursor, RF_WAIT_VALUE) &&
		  place(RF_VALUES_ON, 600000, &first) == RF_VALUE_WAIT, "all of it");
	atomic_store(&flow->completed, 5);
	check(rf_slots_ready(flow, &cursor, RF_WAIT_VALUE) &&
		  place(RF_VALUES_ON, 600000, &first) == RF_VALUE_IN_PLACE &&
		  first == flow->value.memory, "then it is begun anew");
	hand_over(first, 2);

	check(place(RF_VALUES_ON, 3 * MB, &first) == RF_VALUE_WAIT && cursor.value.wait == 9,
		  "a larger row waits until all has left");
	atomic_store(&flow->completed, 9);
	check(place(RF_VALUES_ON, 3 * MB, &first) == RF_VALUE_ASKED && flow->value.wanted == 8 * MB,
		  "and asks for a larger piece");
	atomic_store(&flow->value.state, RF_VALUE_REFUSED);
	check(place(RF_VALUES_ON, 3 * MB, &first) == RF_VALUE_COPY, "refused: copied");
	check(place(RF_VALUES_ON, 3 * MB, &first) == RF_VALUE_ASKED, "the next one asks again");
	atomic_store(&flow->stop, RF_STOP_CLEAN);
	check(rf_slots_ready(flow, &cursor, RF_WAIT_VALUE) &&
		  place(RF_VALUES_ON, 3 * MB, &first) == RF_VALUE_COPY,
		  "a reader that stops ends the wait");
	free(flow->memory.buffers);
}

/* Calls of the automatic choice until it asks. */
static int
rows_until_asked(uint64_t bytes)
{
	uint8_t    *at;
	int			rows = 0;

	begin();
	while (rows < 1000 && place(RF_VALUES_AUTO, bytes, &at) == RF_VALUE_COPY)
		rows++;
	free(flow->memory.buffers);
	return rows;
}

static void
test_choice(void)
{
	RfCalibration *costs = &shared->calibration;

	memset(costs, 0, sizeof(*costs));
	check(rows_until_asked(MB) == 1000, "costs unknown: always copied");
	costs->copy_ns = 50000;
	costs->sleep_ns = 10000;
	check(rows_until_asked(MB) == 0, "registering costs nothing: at once");
	check(rows_until_asked(100000) == 4, "but not before copying has cost as much as asking");
	costs->register_mb_ns = 150000;
	check(rows_until_asked(MB) == 6, "registering 2 MB costs as much as copying 6: copied 6 times");
	check(rows_until_asked(4 * MB) == 6, "whatever the size");
	atomic_store(&shared->peers[0].value_registered, 4 * MB);
	check(rows_until_asked(2 * MB) == 0 && rows_until_asked(4 * MB) == 6,
		  "a registration at hand is taken at once");
	atomic_store(&shared->peers[0].value_registered, 0);
	costs->register_mb_ns = 10000;
	costs->register_ns = 30000;
	check(rows_until_asked(MB) == 1 && rows_until_asked(2 * MB) == 0,
		  "a single row from the size on where registering is cheaper");
}

/* The first flow's piece for all of them. */
static void
test_common(void)
{
	RfFlow	   *flows[FLOWS];
	bool		ask;

	for (int i = 0; i < FLOWS; i++)
	{
		flows[i] = &shared->flows[i];
		rf_slots_reset(flows[i]);
		flows[i]->slot_count = 4;
		flows[i]->slot_size = 64 << 10;
	}
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_OFF, SIZE, &ask) == NULL && !ask,
		  "off: nothing in common");
	memset(&shared->calibration, 0, sizeof(shared->calibration));
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_AUTO, SIZE, &ask) == NULL && !ask,
		  "costs unknown: copied");
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_ON, 0, &ask) == NULL && ask &&
		  flows[0]->value.wanted == MB && flows[0]->value_of == 0 &&
		  atomic_load(&flows[1]->value.state) == RF_VALUE_NONE,
		  "the first flow asks for all its slots");
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_ON, 0, &ask) == NULL && !ask, "once");
	flow = flows[0];
	grant(MB);
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_ON, 0, &ask) == NULL && ask &&
		  flows[2]->value_of == 1 && atomic_load(&flows[2]->value.state) == RF_VALUE_WANTED,
		  "then the others ask for the same");
	flow = flows[1];
	grant(MB);
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_ON, 0, &ask) == NULL && !ask,
		  "not before all have it");
	flow = flows[2];
	grant(MB);
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_ON, 0, &ask) ==
		  shared->value_memory + MB &&
		  !ask,
		  "then it is theirs");
	atomic_store(&flow->value.state, RF_VALUE_REFUSED);
	check(rf_value_common(shared, flows, FLOWS, RF_VALUES_ON, 0, &ask) == NULL && !ask,
		  "one that is refused is enough to copy");
	flow = &shared->flows[0];
}

int
main(void)
{
	int			good = 0;

	shared = calloc(1, RF_SHARED_SIZE(FLOWS));
	shared->max_flows = FLOWS;
	shared->value_size = SIZE;
	shared->value_memory = aligned_alloc(RF_VALUE_UNIT, SIZE);
	flow = &shared->flows[0];
	memset(shared->value_memory, 0, SIZE);
	test_cache();
	test_peer_gone();
	test_share();
	test_common();
	for (uint64_t seed = 1; seed <= 500; seed++)
		good += random_run(seed);
	check(good == 500, "500 random runs");
	test_place();
	test_choice();
	memset(&shared->calibration, 0, sizeof(shared->calibration));
	rf_values_calibrate(shared, &provider, NULL);
	check(shared->calibration.copy_ns > 0 && registered == 0,
		  "what copying and registering cost is measured");
	free(shared->value_memory);
	free(shared);
	return failures > 0;
}
