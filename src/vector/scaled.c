/*
 * scaled.c - numerics as integers times a power of ten.
 *
 * A column numeric(p, s) has values with s digits behind the point, which a stored value says of
 * itself: only such values are read here. So the scale of each result follows from the types, as
 * core's does from the values.
 *
 * Does: short numerics of at most four digits of base 10000; images of states of sums. Does not:
 * NaN, infinities, longer values; their rows are marked.
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq/pqformat.h"
#include "rdma_fdw/compat.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "kernels.h"

/* The short form of core's numerics, in which values are stored. */
#define SHORT_MASK		0xC000
#define SHORT_FORM		0x8000
#define SHORT_NEGATIVE	0x2000
#define SHORT_DSCALE(h)	(((h) & 0x1F80) >> 7)
#define SHORT_WEIGHT(h)	((((h) & 0x0040) ? ~0x3F : 0) | ((h) & 0x3F))
#define STATE_NEGATIVE	0x4000

#define HEADER_BYTES	3		/* of the value, and of the short form */
#define MOST_DIGITS		4

static const int64 power10000[] = {
	1, 10000, 100000000, INT64CONST(1000000000000), INT64CONST(10000000000000000)
};

/* Values up to these can be multiplied by those. */
static const int64 limit10000[] = {
	PG_INT64_MAX, PG_INT64_MAX / 10000, PG_INT64_MAX / 100000000,
	PG_INT64_MAX / INT64CONST(1000000000000), PG_INT64_MAX / INT64CONST(10000000000000000)
};

static const int64 group_rest[] = {1, 1000, 100, 10};

/* The digits of base 10000, the most significant one first, as a number. */
static inline int64
read_digits(const char *at, int digits)
{
#ifdef WORDS_BIGENDIAN
	int64		result = 0;

	for (int i = 0; i < digits; i++)
	{
		uint16		digit;

		memcpy(&digit, at + i * sizeof(digit), sizeof(digit));
		result = result * 10000 + digit;
	}
	return result;
#else
	uint64		x;

	/* Without a branch that depends on the value: it would often be mispredicted. */
	memcpy(&x, at, sizeof(x));
	x = digits == 0 ? 0 : x << (16 * (MOST_DIGITS - digits));
	return (int64) ((x & 0xffff) * 10000 + ((x >> 16) & 0xffff)) * 100000000 +
		((x >> 32) & 0xffff) * 10000 + (x >> 48);
#endif
}

/*
 * A stored numeric with exactly `scale` digits behind the point, times 10^scale; returns false if
 * it is another one, or does not fit. divisor: what is too much in whole groups of four digits.
 */
static inline bool
read_one(const char *value, const char *page, int scale, int64 divisor, int64 *to)
{
	char		copy[HEADER_BYTES + MOST_DIGITS * sizeof(int16)];
	int			bytes;
	int			digits;
	int			shift;
	uint16		head;
	int64		result;

	if (unlikely(!VARATT_IS_SHORT(value) || VARATT_IS_EXTERNAL(value)))
		return false;
	bytes = VARSIZE_SHORT(value);
	digits = (bytes - HEADER_BYTES) / (int) sizeof(int16);
	if (unlikely(bytes < HEADER_BYTES || digits > MOST_DIGITS))
		return false;
	/* So many bytes are read whatever its length: not beyond the page. */
	if (unlikely((uintptr_t) value - (uintptr_t) page > BLCKSZ - sizeof(copy)))
	{
		memset(copy, 0, sizeof(copy));
		memcpy(copy, value, bytes);
		value = copy;
	}
	memcpy(&head, value + 1, sizeof(head));
	if (unlikely((head & SHORT_MASK) != SHORT_FORM || SHORT_DSCALE(head) != scale))
		return false;
	result = read_digits(value + HEADER_BYTES, digits);

	/* times 10000 so often */
	shift = digits == 0 ? 0 : (scale + 3) / 4 - (digits - 1 - SHORT_WEIGHT(head));
	if (unlikely((unsigned) shift > MOST_DIGITS || result > limit10000[shift]))
		return false;
	result *= power10000[shift];
	if (divisor > 1)
	{
		int64		quotient = result / divisor;

		if (unlikely(quotient * divisor != result))
			return false;
		result = quotient;
	}
	*to = (head & SHORT_NEGATIVE) ? -result : result;
	return true;
}

#define READ_ALL(divisor) \
	do { \
		for (int i = 0; i < batch->selected; i++) \
		{ \
			int			row = batch->selection[i]; \
			to[row] = 0; \
			if (likely(!vector->nulls[row]) && \
				unlikely(!read_one(vector->refs[row], batch->page, scale, divisor, &to[row]))) \
				batch->marks[row] = 1; \
		} \
	} while (0)

void
rf_scaled_read(const RfVector *vector, RfBatch *batch, int scale, int64 *to)
{
	switch (scale % 4)
	{
		case 0:
			READ_ALL(1);
			break;
		case 1:
			READ_ALL(1000);
			break;
		case 2:
			READ_ALL(100);
			break;
		default:
			READ_ALL(10);
			break;
	}
}

bool
rf_scaled_constant(Datum numeric, int64 *to, int *scale)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, numeric));
	char	   *point = strchr(text, '.');
	size_t		length;

	if (strspn(text, "-0123456789.") != strlen(text))
		return false;
	length = strlen(text);
	*scale = 0;
	if (point != NULL)
	{
		*scale = length - (point - text) - 1;
		memmove(point, point + 1, *scale + 1);
	}
	if (strlen(text) > 18)
		return false;
	*to = strtoll(text, NULL, 10);
	return true;
}

Datum
rf_scaled_numeric(int128 value, int scale)
{
	char		text[64];
	char	   *at = text + sizeof(text);
	uint128		rest = value < 0 ? -(uint128) value : (uint128) value;
	int			n = 0;

	*--at = '\0';
	do
	{
		if (n++ == scale && scale > 0)
			*--at = '.';
		*--at = '0' + (int) (rest % 10);
		rest /= 10;
	} while (rest > 0 || n <= scale);
	if (value < 0)
		*--at = '-';
	return DirectFunctionCall3(numeric_in, CStringGetDatum(at), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* As numericvar_serialize() of core: digit count, weight, sign, scale, digits. */
static void
send_sum(StringInfo image, int128 sum, int scale)
{
	int			groups = (scale + 3) / 4;
	uint128		rest = sum < 0 ? -(uint128) sum : (uint128) sum;
	int16		digits[16];
	int			count = 0;
	int			last = 0;

	rest *= group_rest[scale % 4];
	for (; rest > 0; rest /= 10000)
		digits[count++] = rest % 10000;
	while (last < count && digits[last] == 0)
		last++;
	pq_sendint32(image, count - last);
	pq_sendint32(image, count == 0 ? 0 : count - 1 - groups);
	pq_sendint32(image, sum < 0 ? STATE_NEGATIVE : 0);
	pq_sendint32(image, scale);
	for (int i = count - 1; i >= last; i--)
		pq_sendint16(image, digits[i]);
}

bytea *
rf_scaled_state(int64 rows, int128 sum, int scale, bool of_numerics)
{
	StringInfoData image;

	pq_begintypsend(&image);
	pq_sendint64(&image, rows);
	send_sum(&image, sum, scale);
	if (of_numerics)
	{
		pq_sendint32(&image, scale);	/* the largest one */
		pq_sendint64(&image, rows); /* rows of that */
		for (int i = 0; i < 3; i++)
			pq_sendint64(&image, 0);	/* NaNs, both infinities */
	}
	return pq_endtypsend(&image);
}
