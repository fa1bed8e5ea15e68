/*
 * group_desc.c - the description of a group of flows: make, check, merge, extend.
 *
 * Plain C. A description is one piece of memory that is sent unchanged (wire.h). A receiver checks
 * it once; after that its shape is given by its header.
 */
#include <string.h>

#include "group_desc.h"

static RfNodeId *
nodes_of(const RfGroupDesc *desc)
{
	return (RfNodeId *) (desc + 1);
}

static RfGroupAddress *
addresses_of(const RfGroupDesc *desc)
{
	return (RfGroupAddress *) (nodes_of(desc) + desc->producers + desc->consumers);
}

size_t
rf_group_desc_size(uint32_t kind, uint32_t producers, uint32_t consumers)
{
	if ((kind != RF_GROUP_BALANCE && kind != RF_GROUP_REPARTITION) ||
		producers < 1 || producers > RF_GROUP_MAX_MEMBERS ||
		consumers < 1 || consumers > RF_GROUP_MAX_MEMBERS)
		return 0;
	return sizeof(RfGroupHeader) + (producers + consumers) * sizeof(RfNodeId) +
		(size_t) producers * consumers * sizeof(RfGroupAddress);
}

bool
rf_group_desc_init(RfGroupDesc *desc, const RfGroupShape *shape, const uint8_t id[16],
				   const RfNodeId *nodes, RfError *error)
{
	uint32_t	producers = shape->producers;
	uint32_t	consumers = shape->consumers;
	size_t		size = rf_group_desc_size(shape->kind, producers, consumers);

	if (size == 0)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL, NULL,
						"no flow of this kind can have %u producers and %u consumers",
						producers, consumers);
	memset(desc, 0, size);
	desc->magic = RF_GROUP_MAGIC;
	desc->version = RF_WIRE_VERSION;
	desc->kind = (uint16_t) shape->kind;
	desc->length = (uint32_t) size;
	desc->producers = (uint16_t) producers;
	desc->consumers = (uint16_t) consumers;
	memcpy(desc->id, id, sizeof(desc->id));
	desc->slot_count = shape->slot_count;
	desc->slot_size = shape->slot_size;
	memcpy(nodes_of(desc), nodes, (producers + consumers) * sizeof(RfNodeId));
	return rf_group_desc_check(desc, size, error);
}

bool
rf_group_desc_check(const RfGroupDesc *desc, size_t length, RfError *error)
{
	const char *what = NULL;

	if (length < sizeof(RfGroupHeader) || desc->magic != RF_GROUP_MAGIC)
		what = "It does not begin with its header.";
	else if (desc->version != RF_WIRE_VERSION)
		return rf_error(error, RF_ERROR_VERSION, NULL,
						RF_WIRE_BEHIND(desc->version,
									   "Upgrade rdma_fdw on the node that planned the query.",
									   "Upgrade rdma_fdw on this node."),
						"the description of a flow has version %u, this node speaks %u",
						desc->version, RF_WIRE_VERSION);
	else if (rf_group_desc_size(desc->kind, desc->producers, desc->consumers) == 0)
		what = "Its kind or its number of members cannot be.";
	else if (desc->length != length ||
			 rf_group_desc_size(desc->kind, desc->producers, desc->consumers) != length)
		what = "Its length does not match its number of members.";
	else if (desc->slot_count < 1 || desc->slot_count > RF_MAX_SLOTS ||
			 desc->slot_size < RF_MIN_SLOT_SIZE || desc->slot_size > RF_MAX_SLOT_SIZE ||
			 desc->slot_size % RF_MIN_SLOT_SIZE != 0)
		what = "Its buffers have an impossible size or number.";
	else
	{
		const RfGroupAddress *addresses = addresses_of(desc);

		for (uint32_t i = 0; i < (uint32_t) desc->producers * desc->consumers; i++)
		{
			if (addresses[i].known > 1 || addresses[i].flow >= RF_MAX_FLOWS ||
				(addresses[i].known == 0 && (addresses[i].flow != 0 || addresses[i].key != 0)))
				what = "An address in it does not belong to a flow.";
		}
	}
	if (what == NULL)
		return true;
	return rf_error(error, RF_ERROR_PROTOCOL, what, NULL, "the description of a flow is not valid");
}

bool
rf_group_desc_merge(RfGroupDesc *into, const RfGroupDesc *from, RfError *error)
{
	RfGroupAddress *to = addresses_of(into);
	const RfGroupAddress *other = addresses_of(from);

	if (into->length != from->length || memcmp(into, from, sizeof(RfGroupHeader)) != 0 ||
		memcmp(nodes_of(into), nodes_of(from),
			   (into->producers + into->consumers) * sizeof(RfNodeId)) != 0)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"descriptions of two flows cannot be merged");
	for (uint32_t i = (uint32_t) into->producers * into->consumers; i-- > 0;)
	{
		if (other[i].known == 0)
			continue;
		if (to[i].known != 0 && memcmp(&to[i], &other[i], sizeof(to[i])) != 0)
			return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
							"two members of a flow claim the same place");
		to[i] = other[i];
	}
	return true;
}

bool
rf_group_desc_extend(RfGroupDesc *to, const RfGroupDesc *from, RfFlowRole role,
					 const RfNodeId *node,
					 RfError *error)
{
	uint32_t	producers = from->producers + (role == RF_FLOW_PRODUCER ? 1 : 0);
	uint32_t	consumers = from->consumers + (role == RF_FLOW_CONSUMER ? 1 : 0);
	size_t		size = rf_group_desc_size(from->kind, producers, consumers);

	if (size == 0 || (role == RF_FLOW_CONSUMER && from->kind != RF_GROUP_BALANCE))
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL, NULL,
						"no member can join a flow of this kind");
	memset(to, 0, size);
	*to = *from;
	to->length = (uint32_t) size;
	to->producers = (uint16_t) producers;
	to->consumers = (uint16_t) consumers;
	memcpy(nodes_of(to), nodes_of(from), from->producers * sizeof(RfNodeId));
	memcpy(nodes_of(to) + producers, nodes_of(from) + from->producers,
		   from->consumers * sizeof(RfNodeId));
	nodes_of(to)[role == RF_FLOW_PRODUCER ? producers - 1 : producers + consumers - 1] = *node;
	for (uint32_t consumer = 0; consumer < from->consumers; consumer++)
		memcpy(addresses_of(to) + consumer * producers,
			   addresses_of(from) + consumer * from->producers,
			   from->producers * sizeof(RfGroupAddress));
	return true;
}

const RfNodeId *
rf_group_desc_node(const RfGroupDesc *desc, RfFlowRole role, uint32_t member)
{
	return nodes_of(desc) + (role == RF_FLOW_PRODUCER ? 0 : desc->producers) + member;
}

RfGroupAddress *
rf_group_desc_pair(RfGroupDesc *desc, uint32_t producer, uint32_t consumer)
{
	return addresses_of(desc) + consumer * desc->producers + producer;
}
