/*
 * fuzz_batch.c - everything the decoder believes about a batch, fed with arbitrary bytes.
 *
 * First byte of the input: 0 = a whole batch, read value by value as the decoder does; 255 = one of
 * heap tuples; otherwise an image of kind (byte mod number of kinds). Whatever the checks accept is then read to its end, so
 * that a sanitizer sees a bound that is too wide.
 */
#include "batch_reader.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_image(uint8_t selector, const uint8_t *payload, uint32_t length)
{
	static const RfImage numeric = {RF_IMAGE_NUMERIC, 0, 0, 0, NULL};
	static const uint8_t aligns[] = {1, 2, 4, 8};
	RfImage		image = {0};

	image.kind = selector % (RF_IMAGE_LAST + 1);
	selector /= RF_IMAGE_LAST + 1;
	image.type = 23;
	image.element_align = aligns[selector % 4];
	if ((selector / 4) % 2 == 0)
		image.element_length = (selector / 8) % 2 == 0 ? image.element_align : 16;
	else
	{
		image.element_length = -1;
		if (image.element_align < 4)
			image.element_align = 4;
		image.element = (selector / 8) % 2 == 0 ? &numeric : NULL;
	}
	sink += rf_image_check(&image, payload, length);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *copy;

	if (size < 1)
		return 0;
	/* Of exactly that size, and aligned, as the decoder makes sure. */
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
