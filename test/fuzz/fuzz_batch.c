/*
 * fuzz_batch.c - everything the decoder believes about a batch, fed with arbitrary bytes.
 *
 * First byte of the input: 0 = a whole batch, read value by value as the decoder does; 255 = one of
 * heap tuples; otherwise an image of kind (byte mod number of kinds), with an element of kind (byte
 * / number of kinds). Everything that the checks accept is then read to its end, so that a
 * sanitizer sees a bound that is too wide.
 */
#include "batch_reader.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_image(uint8_t selector, const uint8_t *payload, uint32_t length)
{
	static const RfImage elements[] = {{RF_IMAGE_INT4}, {RF_IMAGE_INT8}, {RF_IMAGE_NUMERIC},
	{RF_IMAGE_TEXT}, {RF_IMAGE_DATE}, {RF_IMAGE_TIMETZ},
	{RF_IMAGE_NAME}, {RF_IMAGE_JSONB}};
	static const int16_t lengths[] = {4, 8, -1, -1, 4, 12, 64, -1};
	static const uint8_t aligns[] = {4, 8, 4, 4, 4, 8, 1, 4};
	uint32_t	element = selector / (RF_IMAGE_LAST + 1) % 8;
	RfImage		image = {0};

	image.kind = selector % (RF_IMAGE_LAST + 1);
	image.type = 23;
	image.element = &elements[element];
	image.element_length = lengths[element];
	image.element_align = aligns[element];
	sink += rf_image_check(&image, payload, length);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *copy;

	if (size < 1)
		return 0;
	/* Has exactly that size, and is aligned, as the decoder makes sure. */
	copy = malloc(size > 1 ? size - 1 : 1);
	if (copy == NULL)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (data[0] == 0)
		read_batch(copy, size - 1, NULL);
	else if (data[0] == 255)
		read_tuples(copy, size - 1);
	else
		read_image(data[0], copy, size - 1);
	free(copy);
	return 0;
}
