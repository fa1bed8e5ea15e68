/*
 * group_desc.h - the description of a group of flows, in the form that its members exchange;
 * group.h explains its purpose. Plain C.
 */
#ifndef RF_GROUP_DESC_H
#define RF_GROUP_DESC_H

#include "layout.h"

/*
 * Other modules use it (test/modules/flow_kinds); since PostgreSQL 16 extensions are built with
 * hidden symbols.
 */
#pragma GCC visibility push(default)

#define RF_GROUP_MAX_MEMBERS	256 /* of either side */
#define RF_GROUP_ANY			(-1)

typedef enum RfGroupKind
{
	RF_GROUP_BALANCE = 2,
	RF_GROUP_REPARTITION
} RfGroupKind;

/*
 * One piece of memory, 8-aligned, in the layout of wire.h: it is sent in the form in which it is
 * used.
 */
typedef RfGroupHeader RfGroupDesc;

/* Bytes of a description; 0 if this shape is impossible. */
extern size_t rf_group_desc_size(uint32_t kind, uint32_t producers, uint32_t consumers);

typedef struct RfGroupShape
{
	RfGroupKind kind;
	uint32_t	producers;
	uint32_t	consumers;
	uint32_t	slot_count;		/* of each pair's flow */
	uint32_t	slot_size;
} RfGroupShape;

/*
 * nodes: the producers' nodes, then the consumers'. `desc` has room for rf_group_desc_size().
 */
extern bool rf_group_desc_init(RfGroupDesc *desc, const RfGroupShape *shape, const uint8_t id[16],
							   const RfNodeId *nodes, RfError *error);

/*
 * Returns true if this is a complete and valid description. It came from the wire, and was copied
 * to aligned memory.
 */
extern bool rf_group_desc_check(const RfGroupDesc *desc, size_t length, RfError *error);

/* Takes over the addresses that `from` knows. It must be the same group, else *error. */
extern bool rf_group_desc_merge(RfGroupDesc *into, const RfGroupDesc *from, RfError *error);

/*
 * The group with one more producer or consumer, whose addresses are empty; `to` has room for it. A
 * consumer only for RF_GROUP_BALANCE.
 */
extern bool rf_group_desc_extend(RfGroupDesc *to, const RfGroupDesc *from, RfFlowRole role,
								 const RfNodeId *node, RfError *error);

extern const RfNodeId *rf_group_desc_node(const RfGroupDesc *desc, RfFlowRole role,
										  uint32_t member);
extern RfGroupAddress *rf_group_desc_pair(RfGroupDesc *desc, uint32_t producer, uint32_t consumer);

#pragma GCC visibility pop

#endif
