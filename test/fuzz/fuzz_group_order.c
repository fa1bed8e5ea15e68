/*
 * fuzz_group_order.c - messages about the progress of a replicating group (RfOrderHeader: how many
 * slots have arrived at a consumer, and the log of their order). Whatever the other consumers send,
 * this consumer delivers only slots that have arrived here, the slots of a batch together, and
 * nothing after the end; it neither reads nor writes outside its own state and the message.
 *
 * The first three input bytes say how many producers, consumers and slots there are, and which
 * consumer this is. Each of the following bytes is a step, with a member in its upper half.
 */
#include <stdlib.h>
#include <string.h>

#include "shmem/group_order.h"

#define MOST	4
#define ROOM	64

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Test
{
	RfOrder    *order;
	uint32_t	producers;
	uint32_t	consumers;
	uint32_t	slots;
	uint32_t	me;
	uint64_t	arrived[MOST];
	uint64_t	delivered[MOST];
	bool		ended[MOST];
	bool		last[MOST][MOST];	/* of a producer's slots that wait: does a batch end there */
	bool		last_arrived[MOST]; /* with its newest slot */
	int			torn;			/* the producer whose batch is being delivered, or -1 */
	bool		over;			/* there is nothing more to deliver */
	const uint8_t *data;
	size_t		size;
} Test;

static void
require(bool good)
{
	if (!good)
		abort();
}

static uint8_t
take(Test *test)
{
	if (test->size == 0)
		return 0;
	test->size--;
	return *test->data++;
}

/* A slot arrives, as far as this consumer has a buffer for it. */
static void
arrive(Test *test, uint32_t producer, bool last)
{
	uint64_t	slot = test->arrived[producer];

	if (test->ended[producer] || slot - test->delivered[producer] >= test->slots)
		return;
	test->last[producer][slot % test->slots] = test->last_arrived[producer] = last;
	test->arrived[producer]++;
	rf_order_arrived(test->order, producer, last);
}

/* A stream that ends within a batch is refused before (shmem/slots.c). */
static void
end(Test *test, uint32_t producer)
{
	if (test->ended[producer] ||
		(test->arrived[producer] > 0 && !test->last_arrived[producer]))
		return;
	rf_order_ended(test->order, producer);
	test->ended[producer] = true;
}

/* The bytes are the input's; with a right kind and number of bytes when `fit` is set. */
static void
hear(Test *test, uint32_t from, bool fit)
{
	uint32_t	count = fit && test->me == 0 ? test->producers : take(test) % 16;
	uint32_t	width = test->me == 0 ? sizeof(uint64_t) : sizeof(uint16_t);
	uint32_t	length = fit ? sizeof(RfOrderHeader) + count * width : take(test);
	uint8_t    *message = malloc(length > 0 ? length : 1);
	RfError		error = {0};

	for (uint32_t i = 0; i < length; i++)
	{
		bool		first_byte = (i - sizeof(RfOrderHeader)) % width == 0;

		message[i] = first_byte && (!fit || i >= sizeof(RfOrderHeader)) ? take(test) : 0;
	}
	if (fit)
	{
		RfOrderHeader header = {.count = count};

		header.kind = test->me == 0 ? RF_ORDER_ARRIVALS : RF_ORDER_LOG;
		header.flags = take(test) % 4;
		header.first = take(test);
		memcpy(message, &header, sizeof(header));
	}
	/* as group_consume.c asks */
	if (!rf_order_told(test->order, from) &&
		!rf_order_read(test->order, from, message, length, &error))
	{
		require(error.kind == RF_ERROR_PROTOCOL && error.message[0] != '\0');
		/* the group fails then */
		test->size = 0;
	}
	free(message);
}

static void
tell(Test *test, uint32_t to)
{
	uint8_t    *message = malloc(ROOM);

	require(rf_order_write(test->order, to, message, ROOM) <= ROOM);
	free(message);
}

static void
decide(Test *test)
{
	RfError		error = {0};

	if (test->me == 0 && !rf_order_decide(test->order, &error))
	{
		require(error.kind == RF_ERROR_PROTOCOL);
		test->size = 0;
	}
}

static void
deliver(Test *test)
{
	uint32_t	producer = UINT32_MAX;
	bool		last;
	RfOrderNext next = rf_order_next(test->order, &producer);

	if (next == RF_ORDER_SLOT)
	{
		require(!test->over && producer < test->producers);
		require(test->delivered[producer] < test->arrived[producer]);
		/* the first consumer orders whole batches; every other consumer follows its log */
		require(test->me != 0 || test->torn < 0 || test->torn == (int) producer);
		last = test->last[producer][test->delivered[producer]++ % test->slots];
		test->torn = last ? -1 : (int) producer;
	}
	else if (next == RF_ORDER_END)
	{
		for (uint32_t i = 0; i < test->producers; i++)
			require(test->ended[i] && test->delivered[i] == test->arrived[i]);
	}
	test->over |= next == RF_ORDER_END || next == RF_ORDER_STOP;
}

static void
step(Test *test)
{
	uint8_t		byte = take(test);
	uint32_t	producer = (byte >> 4) % test->producers;
	uint32_t	other = (byte >> 4) % test->consumers;

	switch (byte % 8)
	{
		case 0:
		case 1:
			arrive(test, producer, byte & 1);
			break;
		case 2:
			end(test, producer);
			break;
		case 3:
			if (byte >> 4 == 15)
				rf_order_drain(test->order);
			else
				decide(test);
			break;
		case 4:
			hear(test, other, false);
			break;
		case 5:
			hear(test, test->me == 0 ? 1 + other % (test->consumers - 1) : 0, true);
			break;
		case 6:
			tell(test, other);
			break;
		default:
			deliver(test);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Test		test = {.data = data, .size = size, .torn = -1};

	if (size < 3)
		return 0;
	test.producers = 1 + take(&test) % MOST;
	test.consumers = 2 + take(&test) % (MOST - 1);
	test.slots = 1 + *test.data % MOST;
	test.me = take(&test) / MOST % test.consumers;
	test.order = malloc(rf_order_size(test.producers, test.consumers, test.slots));
	rf_order_init(test.order, test.producers, test.consumers, test.me, test.slots);
	while (test.size > 0)
		step(&test);
	free(test.order);
	return 0;
}
