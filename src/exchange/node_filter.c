/*
 * node_filter.c - rows of an exchange that have no partners in another one are not sent.
 *
 * Two exchanges bring the sides of a join together by the hash of what it equates. Where the
 * coordinator says so ("filter=1"), a row of the second that has no partner is not needed. So each
 * node notes the keys of the first one's rows as they come to it, and when it has them all it tells
 * the nodes that have rows of the second for it: a Bloom filter, in blocks of 64 bits, of the
 * hashes by which rows are routed. They look each row up in the filter of the node that it is meant
 * for, right after it was hashed: what is dropped is neither divided nor encoded. NULLs need no
 * care: what has the same hash is kept.
 *
 * Order. The second exchange's query begins when the first one's rows are all here, so rows for
 * this node itself always meet its filter. Then this node sends its filter, as the first thing on
 * its flows, and waits a moment for those of the others. One that comes later is used from then on.
 * Without a filter from a node, all its rows go there: filters are never needed for an answer to be
 * right. If the first exchange is not read to its end here, or cannot be driven now, there is no
 * filter of this node. Why this cannot hang: node_drive.c.
 *
 * A filter that lets most rows pass is no longer looked at. One that drops more rows of a table
 * than the conditions of the scan do is looked at before these are: then most rows' other columns
 * need not be found. Where nobody has a key, the query does not run.
 *
 * Does: filters, and whose are here. Does not: route, send, receive. All memory is the statement's.
 */
#include "node.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "rdma_fdw/compat.h"

/*
 * All filters that a node has; the smallest one; and one for an estimate of a few rows, to begin
 * with.
 */
#define ALL_BYTES		(8u << 20)
#define LEAST_BITS		6		/* 2^6 words */
#define FIRST_WORDS		16384

/*
 * Four bits of a word per key. Half as large as long as less than an eighth of the bits are set; of
 * no use when more than this part is: then every eighth key without partners passes.
 */
#define SPARSE			0.125
#define CROWDED			0.6

/* How long this node waits for the filters of other nodes once it has its own. */
#define PATIENCE_MS		50

/* After so many rows, less than this part of them must have been dropped to give up. */
#define LOOK_ROWS		16384
#define LOOK_DROPPED	0.3

/*
 * A scan with conditions has looked at this many rows: from here on its filter runs before the
 * conditions if the filter drops more rows. A filter costs about as much as a cheap condition, and
 * needs fewer columns.
 */
#define EARLY_ROWS		1024

/* About the next four tuples. */
#define PREFETCH_BYTES	512

/* One node's filter: a key's word is words[key >> shift]. */
typedef struct Filter
{
	const uint64 *words;
	int			shift;
} Filter;

/* Lets everything pass, as the filter of rows for all nodes and of a node that said nothing. */
static const uint64 all_set[2] = {~UINT64CONST(0), ~UINT64CONST(0)};
static const Filter open_filter = {all_set, 63};

/* Goes where a filter is expected, when there is none. */
static const RfFilterHeader no_filter = {RF_FILTER_MAGIC, 0};

/* The keys of the rows that have come by an exchange, as bits. */
struct ExchangeKeys
{
	RfRoute    *route;
	int			key_count;
	Datum	   *values;			/* of one row's keys */
	bool	   *isnull;
	MemoryContext scratch;
	RfFilterHeader *header;		/* words follow */
	uint64	   *words;
	int			bits;			/* 2^bits of them */
	bool		complete;
};

/* The filters of an exchange: for each consumer, which rows have partners there. */
struct ExchangeFilters
{
	Filter	   *of;				/* by place; that for all consumers is open */
	bool	   *heard;			/* of consumers: nothing more comes */
	int			missing;		/* how many of them were not heard yet */
	bool		on;
	TimestampTz until;			/* that is how long other nodes are waited for; 0: not yet */
	uint64		looked;			/* since the last filter came: rows, */
	uint64		dropped;		/* and of these */

	/* of a scan with conditions */
	uint64		scanned;		/* since the last filter came: rows */
	double		failed;			/* the part of them that the conditions drop */
	bool		early;			/* the filters come before the conditions */
	int			last_attr;		/* the last attribute of the table that is a key */
	AttrNumber *attrs;			/* the keys, from 0 */
	Datum	   *values;			/* of one row */
	bool	   *isnull;
};

/* ---------- the bits ---------- */

static inline uint64
bits_of(uint64 key)
{
	return (UINT64CONST(1) << (key >> 22 & 63)) | (UINT64CONST(1) << (key >> 28 & 63)) |
		(UINT64CONST(1) << (key >> 34 & 63)) | (UINT64CONST(1) << (key >> 40 & 63));
}

static inline void
add_key(ExchangeKeys *keys, uint64 hash)
{
	uint64		key = hash * RF_FILTER_FACTOR;

	keys->words[key >> (64 - keys->bits)] |= bits_of(key);
}

/* The part of the bits that are set. */
static double
density(const ExchangeKeys *keys)
{
	int			bytes = sizeof(uint64) << keys->bits;

	return (double) pg_popcount((const char *) keys->words, bytes) / bytes / BITS_PER_BYTE;
}

/* As if it had been half as large from the beginning: a key's word is the same one bit higher. */
static void
fold(ExchangeKeys *keys)
{
	keys->bits--;
	for (size_t i = 0; i < (size_t) 1 << keys->bits; i++)
		keys->words[i] = keys->words[2 * i] | keys->words[2 * i + 1];
}

/* ---------- noting keys ---------- */

/*
 * Two words for each row that is expected, and not few: there may be many more, and what is not
 * needed is folded away.
 */
static void
begin_keys(ExchangeState *state, TupleDesc desc)
{
	const ExchangeSpec *spec = state->spec;
	MemoryContext caller = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);
	ExchangeKeys *keys = palloc0(sizeof(ExchangeKeys));
	double		most = Min((double) RF_FILTER_MAX_WORDS,
						   ALL_BYTES / sizeof(uint64) / state->member->desc->consumers);

	if (spec->key_count != state->member->keys_wanted)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no exchange can be filtered by exchange %d", spec->number),
				 errdetail("They have different numbers of keys.")));
	keys->route = rf_exchange_spec_route(spec, desc);
	keys->key_count = spec->key_count;
	keys->values = palloc(spec->key_count * sizeof(Datum));
	keys->isnull = palloc(spec->key_count * sizeof(bool));
	keys->scratch = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw filter",
										  ALLOCSET_SMALL_SIZES);
	keys->bits = LEAST_BITS;
	while (1 << keys->bits < Max(spec->rows * 2, FIRST_WORDS) && 2 << keys->bits <= most)
		keys->bits++;
	keys->header = palloc0(sizeof(RfFilterHeader) + (sizeof(uint64) << keys->bits));
	keys->words = (uint64 *) (keys->header + 1);
	state->partners.keys = keys;
	MemoryContextSwitchTo(caller);
}

void
rf_filter_add_own(ExchangeState *state)
{
	int			own = state->member->consumer;

	for (uint32 row = 0; row < state->routing.rows->count; row++)
	{
		if (state->routing.places[row] == own ||
			state->routing.places[row] == state->routing.consumers)
			add_key(state->partners.keys, state->routing.hashes[row]);
	}
}

void
rf_filter_add_batch(ExchangeState *state)
{
	ExchangeKeys *keys = state->partners.keys;
	TupleTableSlot *row = state->store.arriving;
	MemoryContext caller = MemoryContextSwitchTo(keys->scratch);

	ExecClearTuple(row);
	while (rf_decoder_next(state->in.decoder, row->tts_values, row->tts_isnull))
	{
		for (int i = 0; i < keys->key_count; i++)
		{
			keys->values[i] = row->tts_values[state->spec->keys[i] - 1];
			keys->isnull[i] = row->tts_isnull[state->spec->keys[i] - 1];
		}
		add_key(keys, rf_route_hash(keys->route, keys->values, keys->isnull));
		MemoryContextReset(keys->scratch);
	}
	MemoryContextSwitchTo(caller);
}

static void
complete_keys(ExchangeKeys *keys)
{
	double		part = density(keys);

	while (keys->bits > LEAST_BITS && part < SPARSE)
	{
		fold(keys);
		part = density(keys);
	}
	keys->header->magic = RF_FILTER_MAGIC;
	keys->header->word_count = part < CROWDED ? 1 << keys->bits : 0;
	keys->complete = true;
}

/* ---------- begin ---------- */

static void
begin_early(ExchangeFilters *filters, const ExchangeState *state)
{
	const ExchangeSpec *spec = state->spec;

	filters->attrs = palloc(spec->key_count * sizeof(AttrNumber));
	filters->values = palloc(spec->key_count * sizeof(Datum));
	filters->isnull = palloc(spec->key_count * sizeof(bool));
	for (int i = 0; i < spec->key_count; i++)
	{
		filters->attrs[i] = state->routing.rows->columns[spec->keys[i] - 1].attr;
		filters->last_attr = Max(filters->last_attr, filters->attrs[i] + 1);
	}
}

static void
begin_filters(ExchangeState *state)
{
	ExchangeMember *member = state->member;
	int			consumers = member->desc->consumers;
	ExchangeFilters *filters = palloc0(sizeof(ExchangeFilters));

	filters->of = palloc((consumers + 1) * sizeof(Filter));
	for (int i = 0; i <= consumers; i++)
		filters->of[i] = open_filter;
	filters->heard = palloc0(consumers * sizeof(bool));
	filters->missing = consumers - 1;
	/* rows of heavy keys have no place of their own */
	state->partners.asks_first = state->input.scan != NULL &&
		state->input.scan->ss.ps.qual != NULL &&
		state->spec->heavy_count == 0;
	if (state->partners.asks_first)
		begin_early(filters, state);
	state->partners.filters = filters;
}

void
rf_filter_begin(ExchangeState *state, TupleDesc desc)
{
	ExchangeMember *member = state->member;
	int			filter = state->spec->filter;

	if (member->keys_wanted > 0 && member->consumer >= 0)
		begin_keys(state, desc);
	if (filter == 0)
		return;
	/* filters go the way of rows */
	if (member->producer < 0 || member->producer != member->consumer ||
		member->desc->producers != member->desc->consumers)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("exchange %d cannot be filtered", state->spec->number),
				 errdetail("Its rows do not go to the nodes that they come from.")));
	begin_filters(state);
	member = &state->set->members[filter - 1];
	member->keys_wanted = state->spec->key_count;
	if (member->state != NULL && member->state->partners.keys == NULL && member->consumer >= 0)
		begin_keys(member->state, member->state->store.arriving->tts_tupleDescriptor);
}

/* ---------- this node's ---------- */

static void
use_filter(ExchangeFilters *filters, int consumer, const uint64 *words, uint32 count)
{
	filters->of[consumer] = (Filter) {words, 64 - pg_leftmost_one_pos32(count)};
	filters->on = true;
	filters->looked = filters->dropped = filters->scanned = 0;
	filters->early = false;
}

static bool
is_empty(const Filter *filter)
{
	/* the open one says so in its first word */
	for (size_t i = 0; i < (size_t) 1 << (64 - filter->shift); i++)
	{
		if (filter->words[i] != 0)
			return false;
	}
	return true;
}

const void *
rf_filter_message(ExchangeState *state, uint32 *length)
{
	ExchangeState *source = state->set->members[state->spec->filter - 1].state;
	ExchangeFilters *filters = state->partners.filters;
	ExchangeKeys *keys = source == NULL ||
		source->partners.cut_short ? NULL : source->partners.keys;

	if (keys != NULL && !rf_exchange_has_arrived(source))
	{
		if (rf_exchange_is_free(source, true))
			return NULL;
		keys = NULL;
	}
	filters->until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PATIENCE_MS);
	if (keys == NULL)
	{
		*length = sizeof(no_filter);
		return &no_filter;
	}
	if (!keys->complete)
		complete_keys(keys);
	if (keys->header->word_count > 0)
		use_filter(filters, state->member->consumer, keys->words, keys->header->word_count);
	*length = sizeof(RfFilterHeader) + keys->header->word_count * sizeof(uint64);
	return keys->header;
}

/* ---------- filters of other nodes ---------- */

bool
rf_filter_is_complete(ExchangeState *state)
{
	const ExchangeFilters *filters = state->partners.filters;

	return filters->missing == 0 || state->in.ended || GetCurrentTimestamp() >= filters->until;
}

bool
rf_filter_is_empty(const ExchangeState *state)
{
	for (int consumer = 0; consumer < state->routing.consumers; consumer++)
	{
		if (!is_empty(&state->partners.filters->of[consumer]))
			return false;
	}
	return true;
}

long
rf_filter_patience(const ExchangeState *state)
{
	const ExchangeFilters *filters = state->partners.filters;

	/* while its own is still being sent, room for that is what it waits for */
	if (filters->until == 0 || state->sending.parcel.data != NULL || state->input.started ||
		state->sending.production != PRODUCTION_RUNNING)
		return -1;
	return TimestampDifferenceMilliseconds(GetCurrentTimestamp(), filters->until);
}

bool
rf_filter_receive(ExchangeState *state, int consumer, const void *message, uint32 length)
{
	ExchangeFilters *filters = state->partners.filters;
	RfFilterHeader header;

	if (length < sizeof(header))
		return false;
	memcpy(&header, message, sizeof(header));
	if (header.magic != RF_FILTER_MAGIC)
		return false;
	if (filters->heard[consumer] || header.word_count > RF_FILTER_MAX_WORDS ||
		(header.word_count > 0 && (header.word_count < 1 << LEAST_BITS ||
								   (header.word_count & (header.word_count - 1)) != 0)) ||
		length != sizeof(header) + header.word_count * sizeof(uint64))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("node %d sent a damaged filter for exchange %d", consumer,
						state->spec->number)));
	filters->heard[consumer] = true;
	filters->missing--;
	if (header.word_count > 0)
	{
		Size		size = header.word_count * sizeof(uint64);
		uint64	   *words = MemoryContextAlloc(state->css.ss.ps.state->es_query_cxt, size);

		memcpy(words, (const char *) message + sizeof(header), size);
		use_filter(filters, consumer, words, header.word_count);
	}
	return true;
}

/* ---------- rows ---------- */

bool
rf_filter_is_on(const ExchangeState *state)
{
	return state->partners.filters->on && !state->partners.filters->early;
}

/* It has dropped too little to go on. */
static bool
is_useless(const ExchangeFilters *filters)
{
	return filters->looked >= LOOK_ROWS && filters->dropped < filters->looked * LOOK_DROPPED;
}

/* Is it of use, and does it drop more of the rows than the conditions of the scan do? */
static bool
goes_first(const ExchangeFilters *filters, double failed)
{
	return filters->dropped > filters->looked * Max(failed, LOOK_DROPPED);
}

/* After rows were looked up that fulfil the conditions: the next ones before that? */
static void
settle_order(ExchangeState *state)
{
	ExchangeFilters *filters = state->partners.filters;

	if (!state->partners.asks_first || filters->looked < EARLY_ROWS ||
		filters->scanned < filters->looked)
		return;
	filters->failed = 1 - (double) filters->looked / filters->scanned;
	filters->early = goes_first(filters, filters->failed);
	state->partners.asks_first = filters->early;
	if (filters->early)
		filters->looked = filters->dropped = 0;
}

void
rf_filter_drop(ExchangeState *state)
{
	ExchangeFilters *filters = state->partners.filters;
	const Filter *of = filters->of;
	const uint64 *hashes = state->routing.hashes;
	uint16	   *places = state->routing.places;
	uint32		count = state->routing.rows->count;
	uint16		nowhere = state->routing.consumers + 1;
	uint32		passed = 0;

	for (uint32 row = 0; row < count; row++)
	{
		uint16		place = places[row];
		uint64		key = hashes[row] * RF_FILTER_FACTOR;
		uint64		bits = bits_of(key);
		bool		has = (of[place].words[key >> of[place].shift] & bits) == bits;

		places[row] = has ? place : nowhere;
		passed += has;
	}
	state->member->counters.rows_filtered += count - passed;
	filters->looked += count;
	filters->dropped += count - passed;
	if (is_useless(filters))
		filters->on = false;
	else
		settle_order(state);
}

/* Where the row with this hash goes; there are no heavy keys. */
static inline int
place_of(const ExchangeState *state, uint64 hash)
{
	if (state->spec->map != NULL)
		return state->spec->map[hash % (uint64) state->spec->map_count];
	if (state->routing.consumer_mask != 0)
		return hash & state->routing.consumer_mask;
	return hash % (uint64) state->routing.consumers;
}

bool
rf_filter_passes(ExchangeState *state, TupleTableSlot *slot)
{
	ExchangeFilters *filters = state->partners.filters;
	int			key_count = state->spec->key_count;
	MemoryContext caller;
	uint64		hash;
	uint64		key;
	uint64		bits;
	const Filter *filter;

	if (!filters->early)
	{
		filters->scanned++;
		return true;
	}
	/* the next tuples of an all-visible page were not read yet, and lie before this one */
	if (TTS_IS_BUFFERTUPLE(slot))
		__builtin_prefetch((const char *) ((HeapTupleTableSlot *) slot)->tuple->t_data -
						   PREFETCH_BYTES);
	slot_getsomeattrs(slot, filters->last_attr);
	for (int i = 0; i < key_count; i++)
	{
		filters->values[i] = slot->tts_values[filters->attrs[i]];
		filters->isnull[i] = slot->tts_isnull[filters->attrs[i]];
	}
	caller = MemoryContextSwitchTo(state->routing.hashing);
	hash = rf_route_hash(state->routing.route, filters->values, filters->isnull);
	if (unlikely(!state->routing.hashing->isReset))
		MemoryContextReset(state->routing.hashing);
	MemoryContextSwitchTo(caller);

	key = hash * RF_FILTER_FACTOR;
	bits = bits_of(key);
	filter = &filters->of[place_of(state, hash)];
	filters->looked++;
	if ((filter->words[key >> filter->shift] & bits) == bits)
		return true;
	filters->dropped++;
	state->member->counters.rows_filtered++;
	/* the first rows differed from the rest */
	if (filters->looked >= LOOK_ROWS && !goes_first(filters, filters->failed))
	{
		filters->early = state->partners.asks_first = false;
		filters->looked = filters->dropped = 0;
	}
	return false;
}

/* ---------- workers of the query ---------- */

/* For each place the number of words, 0 for an open filter, then the words. */
static uint32
words_of(const Filter *filter)
{
	return filter->words == all_set ? 0 : (uint32) 1 << (64 - filter->shift);
}

Size
rf_filter_shared_size(const ExchangeState *state)
{
	Size		size = 0;

	for (int i = 0; state->partners.filters != NULL && i <= state->routing.consumers; i++)
		size += sizeof(uint64) * (1 + words_of(&state->partners.filters->of[i]));
	return size;
}

void
rf_filter_share(const ExchangeState *state, uint64 *space)
{
	for (int i = 0; state->partners.filters != NULL && i <= state->routing.consumers; i++)
	{
		const Filter *filter = &state->partners.filters->of[i];

		*space++ = words_of(filter);
		memcpy(space, filter->words, words_of(filter) * sizeof(uint64));
		space += words_of(filter);
	}
}

void
rf_filter_attach(ExchangeState *state, const uint64 *space)
{
	if (state->spec->filter == 0)
		return;
	begin_filters(state);
	for (int i = 0; i <= state->member->desc->consumers; i++)
	{
		uint32		count = (uint32) *space++;

		if (count > 0)
			use_filter(state->partners.filters, i, space, count);
		space += count;
	}
}
