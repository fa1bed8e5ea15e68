/*
 * state.c - is the image of an aggregate's transition state consistent? Plain C, so that it can be
 * fuzzed alone.
 *
 * PostgreSQL's deserial functions trust their input, because it comes from their own serial
 * function: they allocate by a digit count, and use a weight as an index. States from another node
 * are checked here first. All numbers are in network byte order.
 *
 * Does: check counts against the image, and numbers against the largest possible sums of numerics.
 * Does not: check that a sum is the sum of some rows; a wrong one gives a wrong result.
 */
#include "batch_check.h"

/*
 * A numeric has a weight of up to 32767 digits (base 10000) and 16383 decimal digits behind the
 * point; the sum of 2^64 squares has twice that and 5 more.
 */
#define MAX_WEIGHT			(2 * 32767 + 16)
#define MIN_WEIGHT			(-2 * (16383 / 4 + 1) - 16)
#define MAX_SCALE			(2 * 16383)
#define SIGN_NEGATIVE		0x4000
#define BASE				10000

typedef struct Reader
{
	const uint8_t *at;
	uint32_t	left;
	bool		damaged;
} Reader;

static uint32_t
read16(Reader *reader)
{
	uint32_t	value;

	if (reader->left < 2)
	{
		reader->damaged = true;
		return 0;
	}
	value = (uint32_t) rf_load8(reader->at) << 8 | rf_load8(reader->at + 1);
	reader->at += 2;
	reader->left -= 2;
	return value;
}

static int32_t
read32(Reader *reader)
{
	uint32_t	high = read16(reader);

	return (int32_t) (high << 16 | read16(reader));
}

static int64_t
read64(Reader *reader)
{
	uint64_t	high = (uint32_t) read32(reader);

	return (int64_t) (high << 32 | (uint32_t) read32(reader));
}

static void
expect(Reader *reader, bool condition)
{
	if (!condition)
		reader->damaged = true;
}

/* Digit count, weight, sign, scale, digits. */
static void
read_sum(Reader *reader)
{
	int32_t		digits = read32(reader);
	int32_t		weight = read32(reader);
	int32_t		sign = read32(reader);
	int32_t		scale = read32(reader);

	expect(reader, digits >= 0 && (uint32_t) digits <= reader->left / 2);
	expect(reader, weight >= MIN_WEIGHT && weight <= MAX_WEIGHT);
	expect(reader, sign == 0 || sign == SIGN_NEGATIVE);
	expect(reader, scale >= 0 && scale <= MAX_SCALE);
	/* after the scale's digits only padding of the last group */
	expect(reader, digits <= MAX_WEIGHT - MIN_WEIGHT + 1);
	for (int32_t i = 0; i < digits && !reader->damaged; i++)
		expect(reader, read16(reader) < BASE);
}

static void
read_count(Reader *reader)
{
	expect(reader, read64(reader) >= 0);
}

bool
rf_state_check(RfImageKind kind, const uint8_t *payload, uint32_t length)
{
	Reader		reader = {payload, length, false};

	read_count(&reader);		/* rows */
	switch (kind)
	{
		case RF_IMAGE_NUMERIC_SUM:
		case RF_IMAGE_NUMERIC_SQUARES:
			read_sum(&reader);
			if (kind == RF_IMAGE_NUMERIC_SQUARES)
				read_sum(&reader);
			{
				int32_t		max_scale = read32(&reader);

				expect(&reader, max_scale >= 0 && max_scale <= MAX_SCALE);
			}
			for (int i = 0; i < 4; i++)
				read_count(&reader);	/* rows of that scale, NaNs, both infinities */
			break;
		case RF_IMAGE_INTEGER_SUM:
			read_sum(&reader);
			break;
		case RF_IMAGE_INTEGER_SQUARES:
			read_sum(&reader);
			read_sum(&reader);
			break;
		case RF_IMAGE_WIDE_SUM:
		case RF_IMAGE_WIDE_SQUARES:
			/* any 128 bits are a number */
			for (int i = 0; i < (kind == RF_IMAGE_WIDE_SUM ? 2 : 4); i++)
				(void) read64(&reader);
			break;
		case RF_IMAGE_INTERVAL_SUM:
			(void) read64(&reader); /* time, days, months: any are an interval */
			(void) read32(&reader);
			(void) read32(&reader);
			read_count(&reader);	/* both infinities */
			read_count(&reader);
			break;
		default:
			return false;
	}
	return !reader.damaged && reader.left == 0;
}
