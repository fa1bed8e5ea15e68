/*
 * test_batch_race.c - a batch that changes while it is read. A second thread flips bytes of it, as
 * a hostile or broken peer could in a receive buffer; in any case the reader must stay inside the
 * batch (which is exactly one malloc long, so ASan sees the first byte beyond).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "batch_reader.h"

#define ROWS		8
#define ROUNDS		30000

typedef struct Victim
{
	uint8_t    *batch;
	uint8_t    *original;
	uint32_t	length;
	_Atomic bool done;
} Victim;

static uint32_t
next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/*
 * Changes a byte, most often a small one in front (descriptors, offsets), and puts it right again.
 */
static void *
flip(void *arg)
{
	Victim	   *victim = arg;
	uint32_t	state = 20261121;

	while (!atomic_load_explicit(&victim->done, memory_order_relaxed))
	{
		uint32_t	at = next_random(&state) % victim->length;
		volatile uint8_t *byte = &victim->batch[at];

		*byte = next_random(&state);
		if (next_random(&state) % 4 != 0)
			*byte ^= 1;
		for (uint32_t i = next_random(&state) % 64; i > 0; i--)
			(void) *byte;
		*byte = victim->original[at];
	}
	return NULL;
}

static void
put32(uint8_t *to, uint32_t value)
{
	memcpy(to, &value, sizeof(value));
}

/* A column of ROWS offsets to copies of one value; returns where the next thing may begin. */
static uint32_t
add_column(uint8_t *batch, int i, RfColumnKind kind, uint32_t at, const void *value, uint32_t size)
{
	RfBatchColumn column = {0};

	column.kind = kind;
	column.width = 4;
	column.data_offset = at;
	memcpy(batch + sizeof(RfBatchHeader) + i * sizeof(column), &column, sizeof(column));
	at += 4 * ROWS;
	for (int row = 0; row < ROWS; row++)
	{
		at = (at + 7) & ~7u;
		put32(batch + column.data_offset + 4 * row, at);
		memcpy(batch + at, value, size);
		at += size;
	}
	return (at + 7) & ~7u;
}

/* A value with a four-byte varlena header. */
static uint32_t
varlena(uint8_t *to, const uint32_t *words, uint32_t count)
{
	put32(to, (4 + 4 * count) << 2);
	memcpy(to + 4, words, 4 * count);
	return 4 + 4 * count;
}

int
main(void)
{
	static const RfImage bytes = {RF_IMAGE_BYTES, 0, 0, 0, NULL};
	static const RfImage numeric = {RF_IMAGE_NUMERIC, 0, 0, 0, NULL};
	static const RfImage int_array = {RF_IMAGE_ARRAY, 23, 4, 4, NULL};
	static const RfImage text_array = {RF_IMAGE_ARRAY, 25, -1, 4, &bytes};
	static const RfImage int4 = {RF_IMAGE_INT4, 0, 0, 0, NULL};
	static const RfImage range = {RF_IMAGE_RANGE, 3904, 4, 4, &int4};
	static const RfImage numrange = {RF_IMAGE_RANGE, 3906, -1, 4, &numeric};
	static const RfImage tsvector = {RF_IMAGE_TSVECTOR, 0, 0, 0, NULL};
	static const RfImage jsonb = {RF_IMAGE_JSONB, 0, 0, 0, NULL};
	const RfImage *const images[] = {&bytes, &numeric, &int_array, &text_array,
		&range, &numrange, &tsvector, &jsonb,
	NULL, NULL, &bytes};
	const uint32_t digits[] = {0x00018000};
	const uint32_t ints[] = {1, 0, 23, 3, 1, 10, 20, 30};
	const uint32_t texts[] = {1, 0, 25, 2, 1, (4 + 4) << 2, 0x61616161, (4 + 4) << 2, 0x62626262};
	const uint32_t bounds[] = {17 << 2, 3904, 1, 5, 0x02};	/* flags in one byte */

	/* [1, 2): values with one-byte headers */
	const uint8_t numbers[] = {19 << 2, 0, 0, 0, 0x42, 0x0f, 0, 0, 0x0b, 0,
	0x80, 1, 0, 0x0b, 0, 0x80, 2, 0, 0x02};
	const uint32_t lexemes[] = {2, (1 << 1), (1 << 1) | (1 << 12), 0x00006261};

	/* ["ab", ["cccc"]]: list of two, one of them a list */
	const uint32_t json[] = {0x40000002, 0x00000002, 0x5000000e, 0x00006261,
	0x40000001, 0x00000004, 0x63636363};
	const uint8_t short_text[] = {(4 << 1) | 1, 'a', 'b', 'c'};
	const uint8_t blob[] = {3, 0, 0, 0, 'x', 'y', 'z', 0};
	uint8_t		build[8192] = {0};
	uint8_t		value[64];
	const int	columns = sizeof(images) / sizeof(images[0]);
	RfBatchHeader header = {RF_BATCH_MAGIC, 0, ROWS, columns, 0};
	Victim		victim = {0};
	pthread_t	thread;
	uint32_t	at = sizeof(header) + columns * sizeof(RfBatchColumn);
	uint32_t	read = 0;
	int			i = 0;

#define VARLENA(words) \
	at = add_column(build, i++, RF_COLUMN_VARLENA, at, value, \
					varlena(value, words, sizeof(words) / 4))
	at = add_column(build, i++, RF_COLUMN_VARLENA, at, short_text, sizeof(short_text));
	VARLENA(digits);
	VARLENA(ints);
	VARLENA(texts);
	at = add_column(build, i++, RF_COLUMN_VARLENA, at, bounds, 17);
	at = add_column(build, i++, RF_COLUMN_VARLENA, at, numbers, sizeof(numbers));
	VARLENA(lexemes);
	VARLENA(json);
	at = add_column(build, i++, RF_COLUMN_BINARY, at, blob, sizeof(blob));
	at = add_column(build, i++, RF_COLUMN_TEXT, at, blob, sizeof(blob));
	VARLENA(texts);
	header.length = at;
	memcpy(build, &header, sizeof(header));

	victim.length = at;
	victim.original = build;
	victim.batch = malloc(at);
	if (victim.batch == NULL)
		return 2;
	memcpy(victim.batch, build, at);
	if (!read_batch(victim.batch, at, images) || rejected != 0)
	{
		printf("not ok - the batch is good before anybody touches it\n");
		return 1;
	}
#if defined(__SANITIZE_THREAD__)
	return 0;					/* the race itself is under test */
#endif
	if (pthread_create(&thread, NULL, flip, &victim) != 0)
		return 2;
	for (int round = 0; round < ROUNDS; round++)
		read += read_batch(victim.batch, at, images);
	atomic_store(&victim.done, true);
	pthread_join(thread, NULL);

	printf("# %u of %d rounds found a good header, %u values were refused\n", read, ROUNDS,
		   rejected);

	/* The flipping thread leaves things as they were. */
	rejected = 0;
	printf("%s - a batch that changes is read without leaving it, and reads well afterwards\n",
		   read_batch(victim.batch, at, images) && rejected == 0 ? "ok" : "not ok");
	free(victim.batch);
	return 0;
}
