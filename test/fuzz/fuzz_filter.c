/*
 * fuzz_filter.c - the filters that nodes of a statement send each other: whatever comes as one is refused, or looked up within its
 * bytes; workers see the same filters; and a filter that a node makes itself lets every one of its keys pass, wherever it arrives.
 *
 * The first input byte says how many consumers there are, the second how many messages; each of these is a byte for the consumer, two for the
 * length, and the message. Eight bytes each that are left are hashes of keys. If the upper half of the second byte is full, the node makes a filter of them,
 * which takes time.
 */
#include "backend.h"

#include "../../src/exchange/node_filter.c"

#define ROWS	256

const TupleTableSlotOps TTSOpsBufferHeapTuple;

TimestampTz
GetCurrentTimestamp(void)
{
	return 0;
}

long
TimestampDifferenceMilliseconds(TimestampTz start, TimestampTz stop)
{
	return 0;
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name, Size least, Size first, Size most)
{
	return NULL;
}

void
MemoryContextReset(MemoryContext context)
{
}

RfRoute *
rf_exchange_spec_route(const ExchangeSpec *spec, TupleDesc desc)
{
	return NULL;
}

uint64
rf_route_hash(RfRoute *route, const Datum *values, const bool *isnull)
{
	return 0;
}

bool
rf_decoder_next(RfDecoder *decoder, Datum *values, bool *isnull)
{
	return false;
}

void
slot_getsomeattrs_int(TupleTableSlot *slot, int number)
{
}

/* An exchange with two keys between so many nodes, of which this is the first. */
static ExchangeState *
make_state(int consumers)
{
	ExchangeState *state = palloc0(sizeof(ExchangeState));
	RfGroupDesc *desc = palloc0(sizeof(RfGroupDesc));
	AttrNumber	keys[] = {1, 2};
	ExchangeSpec *spec = palloc0(sizeof(ExchangeSpec));

	desc->producers = desc->consumers = consumers;
	spec->number = 2;
	spec->filter = 1;
	spec->rows = 100;
	spec->key_count = lengthof(keys);
	spec->keys = memcpy(palloc(sizeof(keys)), keys, sizeof(keys));
	state->spec = spec;
	state->routing.consumers = consumers;
	state->member = palloc0(sizeof(ExchangeMember));
	state->member->desc = desc;
	state->member->keys_wanted = spec->key_count;
	state->css.ss.ps.state = palloc0(sizeof(EState));
	state->routing.rows = palloc0(sizeof(RfRows));
	state->routing.hashes = palloc0(ROWS * sizeof(uint64));
	state->routing.places = palloc0(ROWS * sizeof(uint16));
	return state;
}

static void
set_rows(ExchangeState *state, const uint64 *hashes, int count)
{
	state->routing.rows->count = count;
	memcpy(state->routing.hashes, hashes, count * sizeof(uint64));
	for (int i = 0; i < count; i++)
		state->routing.places[i] = hashes[i] % (state->routing.consumers + 1);
}

/* Rows that pass keep their place, the others have that which does not exist. */
static void
drop(ExchangeState *state, const uint64 *hashes, int count)
{
	int			consumers = state->routing.consumers;

	set_rows(state, hashes, count);
	rf_filter_drop(state);
	for (int i = 0; i < count; i++)
	{
		int			wanted = hashes[i] % (consumers + 1);
		int			place = state->routing.places[i];

		require(place == wanted || place == consumers + 1);
		/* rows for all consumers pass */
		require(wanted != consumers || place == consumers);
	}
}

static void
compare_with_worker(ExchangeState *state, const uint64 *hashes, int count)
{
	ExchangeState *worker = make_state(state->routing.consumers);
	Size		size = rf_filter_shared_size(state);
	uint64	   *space = palloc(size);

	rf_filter_share(state, space);
	rf_filter_attach(worker, space);
	drop(state, hashes, count);
	drop(worker, hashes, count);
	require(memcmp(state->routing.places, worker->routing.places, count * sizeof(uint16)) == 0);
}

static void
check_own(const uint64 *hashes, int count, int consumers)
{
	ExchangeState *from = make_state(consumers);
	ExchangeState *to = make_state(consumers);
	ExchangeSet *set = palloc0(offsetof(ExchangeSet, members) + sizeof(ExchangeMember));
	uint32		length;
	const void *message;

	set->members[0].state = from;
	set->count = 1;
	from->set = set;
	from->in.ended = true;
	from->sending.production = PRODUCTION_OVER;
	begin_filters(from);
	begin_keys(from, NULL);
	set_rows(from, hashes, count);
	/* all of them are the first node's */
	memset(from->routing.places, 0, count * sizeof(uint16));
	rf_filter_add_own(from);
	message = rf_filter_message(from, &length);
	begin_filters(to);
	require(message != NULL && rf_filter_receive(to, consumers - 1, memcpy(palloc(length), message, length), length));
	to->routing.rows->count = count;
	memcpy(to->routing.hashes, hashes, count * sizeof(uint64));
	for (int i = 0; i < count; i++)
		to->routing.places[i] = consumers - 1;
	rf_filter_drop(to);
	for (int i = 0; i < count; i++)
		require(to->routing.places[i] == consumers - 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64		hashes[ROWS];
	int			count = 0;
	int			messages;
	bool		own;

	if (size < 2)
		return 0;
	messages = data[1] % 8;
	own = (data[1] & 0xf0) == 0xf0;
	if (setjmp(error_place) == 0)
	{
		int			consumers = data[0] % 6 + 1;
		ExchangeState *state = make_state(consumers);

		data += 2;
		size -= 2;
		begin_filters(state);
		for (; messages > 0 && size >= 3; messages--)
		{
			int			consumer = data[0] % consumers;
			uint32		length = Min((uint32) (data[1] << 8 | data[2]), size - 3);

			(void) rf_filter_receive(state, consumer, memcpy(palloc(Max(length, 1)), data + 3, length), length);
			data += 3 + length;
			size -= 3 + length;
		}
		for (; size >= sizeof(uint64) && count < ROWS; count++, size -= sizeof(uint64))
		{
			memcpy(&hashes[count], data, sizeof(uint64));
			data += sizeof(uint64);
		}
		(void) rf_filter_is_empty(state);
		(void) rf_filter_is_complete(state);
		drop(state, hashes, count);
		compare_with_worker(state, hashes, count);
		if (own)
			check_own(hashes, count, consumers);
	}
	free_all();
	return 0;
}
