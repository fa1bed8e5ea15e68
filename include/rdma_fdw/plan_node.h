/*
 * plan_node.h
 * 		Structures that planning passes to execution, with named fields. A table of the fields
 * 		is all that PostgreSQL needs to copy, compare, print and read them: plans are cached,
 * 		and parallel workers get them as text.
 */
#ifndef RF_PLAN_NODE_H
#define RF_PLAN_NODE_H

#include "postgres.h"

#include "nodes/extensible.h"

/* How a field is copied and printed. */
typedef enum RfFieldKind
{
	RF_FIELD_INT,				/* int, or an enumeration */
	RF_FIELD_BOOL,
	RF_FIELD_OID,
	RF_FIELD_DOUBLE,
	RF_FIELD_STRING,			/* char *, may be NULL */
	RF_FIELD_NODE				/* Node * or List *, may be NULL */
} RfFieldKind;

typedef struct RfField
{
	const char *name;
	RfFieldKind kind;
	Size		offset;
} RfField;

/*
 * A type of node. The structure begins with an ExtensibleNode; all further fields are in the table.
 */
typedef struct RfPlanNode
{
	ExtensibleNodeMethods methods;	/* first: the callbacks get to the fields through it */
	const RfField *fields;
	int			field_count;
} RfPlanNode;

#define RF_FIELD(type, field, kind) {#field, RF_FIELD_##kind, offsetof(type, field)}
#define RF_PLAN_NODE(type, fields) \
	{{#type, sizeof(type), rf_plan_node_copy, rf_plan_node_equal, rf_plan_node_out, \
	rf_plan_node_read}, fields, lengthof(fields)}

/* The callbacks in RF_PLAN_NODE */
extern void rf_plan_node_copy(ExtensibleNode * copy, const ExtensibleNode * node);
extern bool rf_plan_node_equal(const ExtensibleNode * a, const ExtensibleNode * b);
extern void rf_plan_node_out(StringInfo buf, const ExtensibleNode * node);
extern void rf_plan_node_read(ExtensibleNode * node);

/* When the library is loaded, in every process: the types live as long. */
extern void rf_plan_nodes_register(const RfPlanNode *types, int count);

/* A node of a registered type, all zero, in the current memory context. */
#define rf_make_plan_node(type) ((type *) rf_plan_node_make(#type))
extern ExtensibleNode * rf_plan_node_make(const char *name);

/* The node of that type that is the list's only member. */
#define rf_plan_node_of(type, list) ((type *) rf_plan_node_only(#type, list))

static inline void *
rf_plan_node_only(const char *name, const List *list)
{
	ExtensibleNode *node = linitial_node(ExtensibleNode, list);

	Assert(list_length(list) == 1 && strcmp(node->extnodename, name) == 0);
	return node;
}

#endif
