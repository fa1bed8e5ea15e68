/*
 * ncr_mask.c - bitmaps of rows: making one per destination, and gathering the elements they
 * select, with vector registers where the processor has them.
 *
 * A word of the bitmap stands for 64 elements. A few selected elements are moved one by one, a full
 * word as a block, and otherwise eight elements at a time go through a register: a shuffle brings
 * the selected elements to its front, all of it is stored, and the next eight overwrite the
 * unselected rest. The stores reach behind the selected elements, so the last elements are moved
 * one by one: nothing is ever written behind the end.
 */
#include <stdatomic.h>

#include "ncr.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define VECTORS_X86 1
#endif

/*
 * With up to this many of 64, elements are moved one by one: measured, the shuffles cost as much
 * from there on.
 */
#define FEW		12

static inline __attribute__((always_inline))
uint32_t
count_bits(const uint64_t *mask, uint32_t count)
{
	uint32_t	selected = 0;

	for (size_t word = 0; word < count / 64; word++)
		selected += (uint32_t) __builtin_popcountll(mask[word]);
	if (count % 64 != 0)
		selected += (uint32_t) __builtin_popcountll(rf_mask_word(mask, count, count / 64));
	return selected;
}

/* The elements of one word, one by one. Inlined with a constant width it is a load and a store. */
static inline __attribute__((always_inline))
uint8_t *
move_each(uint8_t *to, const uint8_t *from, size_t width, uint64_t bits)
{
	while (bits != 0)
	{
		memcpy(to, from + (size_t) __builtin_ctzll(bits) * width, width);
		to += width;
		bits &= bits - 1;
	}
	return to;
}

/* The elements of one word, run by run: for wide elements. */
static uint8_t *
move_runs(uint8_t *to, const uint8_t *from, size_t width, uint64_t bits)
{
	while (bits != 0)
	{
		unsigned	begin = (unsigned) __builtin_ctzll(bits);
		uint64_t	rest = ~(bits >> begin);
		unsigned	length = rest == 0 ? 64 - begin : (unsigned) __builtin_ctzll(rest);

		memcpy(to, from + begin * width, length * width);
		to += length * width;
		bits = begin + length >= 64 ? 0 : bits & (~(uint64_t) 0 << (begin + length));
	}
	return to;
}

/* Moves the selected elements among 64 of one width, and may write up to 64 elements. */
typedef uint8_t *(*MoveWord) (uint8_t *to, const uint8_t *from, uint64_t bits);

static inline __attribute__((always_inline)) size_t
gather(uint8_t *to, const uint8_t *from, size_t width, const uint64_t *mask, uint32_t count,
	   MoveWord move)
{
	uint8_t    *begin = to;
	uint8_t    *end = to;

	if (move != NULL)
		end += count_bits(mask, count) * width;
	for (size_t word = 0; word < RF_MASK_WORDS(count); word++, from += 64 * width)
	{
		uint64_t	bits = rf_mask_word(mask, count, word);

		if (bits == ~(uint64_t) 0)
		{
			memcpy(to, from, 64 * width);
			to += 64 * width;
		}
		else if (move != NULL && (size_t) (end - to) >= 64 * width && count - word * 64 >= 64 &&
				 __builtin_popcountll(bits) > FEW)
			to = move(to, from, bits);
		else
			to = move_each(to, from, width, bits);
	}
	return (size_t) (to - begin);
}

#ifdef VECTORS_X86

/* Entry m: the indexes of the bits of m, a byte each, in ascending order. */
#define PLACE(m, i)	((((m) >> (i)) & 1) ? (uint64_t) (i) << (8 * __builtin_popcount((m) & ((1 << (i)) - 1))) : 0)
#define PLACES(m)	(PLACE(m, 0) | PLACE(m, 1) | PLACE(m, 2) | PLACE(m, 3) | \
					 PLACE(m, 4) | PLACE(m, 5) | PLACE(m, 6) | PLACE(m, 7))
#define PLACES4(m)	PLACES(m), PLACES(m + 1), PLACES(m + 2), PLACES(m + 3)
#define PLACES16(m) PLACES4(m), PLACES4(m + 4), PLACES4(m + 8), PLACES4(m + 12)
#define PLACES64(m) PLACES16(m), PLACES16(m + 16), PLACES16(m + 32), PLACES16(m + 48)

static const uint64_t places[256] = {PLACES64(0), PLACES64(64), PLACES64(128), PLACES64(192)};

#define SSSE3	__attribute__((target("ssse3,sse4.1,popcnt")))
#define AVX2	__attribute__((target("avx2,popcnt,bmi")))

SSSE3 static uint8_t *
move_1(uint8_t *to, const uint8_t *from, uint64_t bits)
{
	for (int i = 0; i < 8; i++, from += 8, bits >>= 8)
	{
		__m128i		order = _mm_loadl_epi64((const __m128i *) &places[bits & 255]);

		_mm_storel_epi64((__m128i *) to,
						 _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *) from), order));
		to += __builtin_popcountll(bits & 255);
	}
	return to;
}

SSSE3 static uint8_t *
move_2(uint8_t *to, const uint8_t *from, uint64_t bits)
{
	for (int i = 0; i < 8; i++, from += 16, bits >>= 8)
	{
		__m128i		order = _mm_cvtepu8_epi16(
											  _mm_loadl_epi64((const __m128i *) &places[bits & 255]));

		/* Element k is bytes 2k and 2k + 1. */
		order = _mm_add_epi16(_mm_mullo_epi16(order, _mm_set1_epi16(0x0202)),
							  _mm_set1_epi16(0x0100));
		_mm_storeu_si128((__m128i *) to,
						 _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) from), order));
		to += 2 * __builtin_popcountll(bits & 255);
	}
	return to;
}

SSSE3 static uint8_t *
move_4_ssse3(uint8_t *to, const uint8_t *from, uint64_t bits)
{
	for (int i = 0; i < 16; i++, from += 16, bits >>= 4)
	{
		__m128i		order = _mm_cvtepu8_epi32(_mm_cvtsi32_si128((int) places[bits & 15]));

		/* Element k is bytes 4k to 4k + 3. */
		order = _mm_add_epi32(_mm_mullo_epi32(order, _mm_set1_epi32(0x04040404)),
							  _mm_set1_epi32(0x03020100));
		_mm_storeu_si128((__m128i *) to,
						 _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) from), order));
		to += 4 * __builtin_popcountll(bits & 15);
	}
	return to;
}

AVX2 static uint8_t *
move_4_avx2(uint8_t *to, const uint8_t *from, uint64_t bits)
{
	for (int i = 0; i < 8; i++, from += 32, bits >>= 8)
	{
		__m256i		order = _mm256_cvtepu8_epi32(
												 _mm_loadl_epi64((const __m128i *) &places[bits & 255]));

		_mm256_storeu_si256(
							(__m256i *) to,
							_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *) from),
														order));
		to += 4 * __builtin_popcountll(bits & 255);
	}
	return to;
}

AVX2 static uint8_t *
move_8(uint8_t *to, const uint8_t *from, uint64_t bits)
{
	for (int i = 0; i < 16; i++, from += 32, bits >>= 4)
	{
		__m256i		order = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int) places[bits & 15]));

		/* Element k is the words 2k and 2k + 1. */
		order = _mm256_add_epi32(order, order);
		order = _mm256_or_si256(
								order, _mm256_slli_epi64(_mm256_add_epi64(order,
																		  _mm256_set1_epi64x(1)), 32));
		_mm256_storeu_si256(
							(__m256i *) to,
							_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *) from),
														order));
		to += 8 * __builtin_popcountll(bits & 15);
	}
	return to;
}

SSSE3 static uint32_t
count_popcnt(const uint64_t *mask, uint32_t count)
{
	return count_bits(mask, count);
}

AVX2 static size_t
gather_avx2(void *to, const void *from, uint32_t width, const uint64_t *mask, uint32_t count)
{
	switch (width)
	{
		case 1:
			return gather(to, from, 1, mask, count, move_1);
		case 2:
			return gather(to, from, 2, mask, count, move_2);
		case 4:
			return gather(to, from, 4, mask, count, move_4_avx2);
		default:
			return gather(to, from, 8, mask, count, move_8);
	}
}

SSSE3 static size_t
gather_ssse3(void *to, const void *from, uint32_t width, const uint64_t *mask, uint32_t count)
{
	switch (width)
	{
		case 1:
			return gather(to, from, 1, mask, count, move_1);
		case 2:
			return gather(to, from, 2, mask, count, move_2);
		case 4:
			return gather(to, from, 4, mask, count, move_4_ssse3);
		default:
			return gather(to, from, 8, mask, count, NULL);
	}
}

#endif							/* VECTORS_X86 */

typedef enum Vectors
{
	VECTORS_UNKNOWN = 0,
	VECTORS_PLAIN,
	VECTORS_SSSE3,
	VECTORS_AVX2
} Vectors;

static const char *const names[] = {"", "plain", "ssse3", "avx2"};
static _Atomic int vectors;		/* Each thread that finds it unknown stores the same value. */

static Vectors
best_vectors(void)
{
#ifdef VECTORS_X86
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi"))
		return VECTORS_AVX2;
	if (__builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
		__builtin_cpu_supports("popcnt"))
		return VECTORS_SSSE3;
#endif
	return VECTORS_PLAIN;
}

static Vectors
vectors_here(void)
{
	int			known = atomic_load_explicit(&vectors, memory_order_relaxed);

	if (known == VECTORS_UNKNOWN)
	{
		known = best_vectors();
		atomic_store_explicit(&vectors, known, memory_order_relaxed);
	}
	return (Vectors) known;
}

const char *
rf_mask_vectors(void)
{
	return names[vectors_here()];
}

bool
rf_mask_limit(const char *name)
{
	Vectors		best = best_vectors();

	for (int i = VECTORS_PLAIN; name != NULL && i <= VECTORS_AVX2; i++)
	{
		if (strcmp(names[i], name) != 0)
			continue;
		if (i > (int) best)
			return false;
		atomic_store_explicit(&vectors, i, memory_order_relaxed);
		return true;
	}
	if (name == NULL)
		atomic_store_explicit(&vectors, best, memory_order_relaxed);
	return name == NULL;
}

uint32_t
rf_mask_count(const uint64_t *mask, uint32_t count)
{
#ifdef VECTORS_X86
	if (vectors_here() != VECTORS_PLAIN)
		return count_popcnt(mask, count);
#endif
	return count_bits(mask, count);
}

size_t
rf_mask_gather(void *to, const void *from, uint32_t width, const uint64_t *mask, uint32_t count)
{
	uint8_t    *out = to;

	if (width == 1 || width == 2 || width == 4 || width == 8)
	{
#ifdef VECTORS_X86
		Vectors		here = vectors_here();

		if (here == VECTORS_AVX2)
			return gather_avx2(to, from, width, mask, count);
		if (here == VECTORS_SSSE3)
			return gather_ssse3(to, from, width, mask, count);
#endif
		switch (width)
		{
			case 1:
				return gather(to, from, 1, mask, count, NULL);
			case 2:
				return gather(to, from, 2, mask, count, NULL);
			case 4:
				return gather(to, from, 4, mask, count, NULL);
			default:
				return gather(to, from, 8, mask, count, NULL);
		}
	}
	if (width == 16)			/* each in one register, on any processor */
		return gather(to, from, 16, mask, count, NULL);
	if (width == 0)
		return 0;
	for (size_t word = 0; word < RF_MASK_WORDS(count); word++)
		out = move_runs(out, (const uint8_t *) from + word * 64 * width, width,
						rf_mask_word(mask, count, word));
	return (size_t) (out - (uint8_t *) to);
}
