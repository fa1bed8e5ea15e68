/*
 * fuzz_group_desc.c - descriptions of groups of flows, as coordinators send them to nodes: what rf_group_desc_check() takes has a shape
 * whose every address is within its bytes, can be merged with another one, and extended.
 *
 * The first input byte says what is done with the rest: bit 0 merge with what the second half makes of it, bits 1 and 2 extend
 * by a producer or a consumer.
 */
#include <stdlib.h>
#include <string.h>

#include "shmem/group_desc.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool good)
{
	if (!good)
		abort();
}

/* Each address once, all of them within the description. */
static void
walk(RfGroupDesc *desc, size_t size)
{
	const uint8_t *end = (const uint8_t *) desc + size;

	for (uint32_t i = 0; i < desc->producers; i++)
		require((const uint8_t *) (rf_group_desc_node(desc, RF_FLOW_PRODUCER, i) + 1) <= end);
	for (uint32_t i = 0; i < desc->consumers; i++)
		require((const uint8_t *) (rf_group_desc_node(desc, RF_FLOW_CONSUMER, i) + 1) <= end);
	for (uint32_t consumer = 0; consumer < desc->consumers; consumer++)
	{
		for (uint32_t producer = 0; producer < desc->producers; producer++)
		{
			RfGroupAddress *address = rf_group_desc_pair(desc, producer, consumer);

			require((const uint8_t *) (address + 1) <= end);
			require(address->known <= 1 && address->flow < RF_MAX_FLOWS);
		}
	}
}

static void
merge(RfGroupDesc *desc, size_t size, const uint8_t *changes, size_t count)
{
	RfGroupDesc *other = malloc(size);
	RfError		error;

	memcpy(other, desc, size);
	for (size_t i = 0; i + 2 < count; i += 3)
		((uint8_t *) other)[(changes[i] << 8 | changes[i + 1]) % size] = changes[i + 2];
	if (rf_group_desc_check(other, size, &error) && rf_group_desc_merge(desc, other, &error))
	{
		require(rf_group_desc_check(desc, size, &error));
		walk(desc, size);
	}
	free(other);
}

static void
extend(const RfGroupDesc *desc, RfFlowRole role)
{
	size_t		size = rf_group_desc_size(desc->kind, desc->producers + (role == RF_FLOW_PRODUCER), desc->consumers + (role == RF_FLOW_CONSUMER));
	RfGroupDesc *to = malloc(size > 0 ? size : 1);
	RfNodeId	node = {{1, 2}};
	RfError		error;

	if (rf_group_desc_extend(to, desc, role, &node, &error))
	{
		require(rf_group_desc_check(to, size, &error));
		walk(to, size);
	}
	free(to);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	RfGroupDesc *desc;
	RfError		error;
	uint8_t		mode;
	size_t		length;

	if (size < 3)
		return 0;
	mode = data[0];
	/* what is changed for a merge comes behind it */
	length = mode & 1 ? (size_t) (data[1] << 8 | data[2]) % (size - 2) : size - 3;
	data += 3;
	size -= 3;
	if (length > size)
		length = size;
	desc = malloc(length > 0 ? length : 1);
	memcpy(desc, data, length);
	if (rf_group_desc_check(desc, length, &error))
	{
		walk(desc, length);
		if (mode & 1)
			merge(desc, length, data + length, size - length);
		if (mode & 2)
			extend(desc, RF_FLOW_PRODUCER);
		if (mode & 4)
			extend(desc, RF_FLOW_CONSUMER);
	}
	else
		require(error.kind != RF_ERROR_NONE && error.message[0] != '\0');
	free(desc);
	return 0;
}
