/*
 * plan_node.c - copies, compares, prints and reads nodes of plans by the tables of their fields.
 */
#include "postgres.h"

#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "nodes/readfuncs.h"

#include "rdma_fdw/plan_node.h"

#define FIELD(node, field, type) (*(type *) ((char *) (node) + (field)->offset))

static const RfPlanNode *
type_of(const ExtensibleNode * node)
{
	return (const RfPlanNode *) GetExtensibleNodeMethods(node->extnodename, false);
}

void
rf_plan_nodes_register(const RfPlanNode *types, int count)
{
	for (int i = 0; i < count; i++)
		RegisterExtensibleNodeMethods(&types[i].methods);
}

ExtensibleNode *
rf_plan_node_make(const char *name)
{
	const		ExtensibleNodeMethods *methods = GetExtensibleNodeMethods(name, false);
	ExtensibleNode *node = (ExtensibleNode *) palloc0(methods->node_size);

	NodeSetTag(node, T_ExtensibleNode);
	node->extnodename = methods->extnodename;
	return node;
}

/* Core has made `copy`, and its name. */
void
rf_plan_node_copy(ExtensibleNode * copy, const ExtensibleNode * node)
{
	const RfPlanNode *type = type_of(node);

	memcpy((char *) copy + sizeof(ExtensibleNode), (const char *) node + sizeof(ExtensibleNode),
		   type->methods.node_size - sizeof(ExtensibleNode));
	for (int i = 0; i < type->field_count; i++)
	{
		const RfField *field = &type->fields[i];

		if (field->kind == RF_FIELD_STRING && FIELD(node, field, char *) != NULL)
			FIELD(copy, field, char *) = pstrdup(FIELD(node, field, char *));
		else if (field->kind == RF_FIELD_NODE)
			FIELD(copy, field, void *) = copyObjectImpl(FIELD(node, field, void *));
	}
}

static bool
same_text(const char *a, const char *b)
{
	return a != NULL && b != NULL ? strcmp(a, b) == 0 : a == b;
}

/* Returns true if both nodes, of one type, have an equal value in this field. */
static bool
same_field(const RfField *field, const ExtensibleNode * a, const ExtensibleNode * b)
{
	switch (field->kind)
	{
		case RF_FIELD_INT:
			return FIELD(a, field, int) == FIELD(b, field, int);
		case RF_FIELD_BOOL:
			return FIELD(a, field, bool) == FIELD(b, field, bool);
		case RF_FIELD_OID:
			return FIELD(a, field, Oid) == FIELD(b, field, Oid);
		case RF_FIELD_DOUBLE:
			return FIELD(a, field, double) == FIELD(b, field, double);
		case RF_FIELD_STRING:
			return same_text(FIELD(a, field, char *), FIELD(b, field, char *));
		case RF_FIELD_NODE:
			return equal(FIELD(a, field, void *), FIELD(b, field, void *));
	}
	return false;
}

bool
rf_plan_node_equal(const ExtensibleNode * a, const ExtensibleNode * b)
{
	const RfPlanNode *type = type_of(a);

	for (int i = 0; i < type->field_count; i++)
	{
		if (!same_field(&type->fields[i], a, b))
			return false;
	}
	return true;
}

/*
 * As core's outfuncs.c prints the fields of its nodes, " :name value". Before 17 core prints an
 * empty string as it prints NULL.
 */
void
rf_plan_node_out(StringInfo buf, const ExtensibleNode * node)
{
	const RfPlanNode *type = type_of(node);
	char		number[DOUBLE_SHORTEST_DECIMAL_LEN];

	for (int i = 0; i < type->field_count; i++)
	{
		const RfField *field = &type->fields[i];

		appendStringInfo(buf, " :%s ", field->name);
		switch (field->kind)
		{
			case RF_FIELD_INT:
				appendStringInfo(buf, "%d", FIELD(node, field, int));
				break;
			case RF_FIELD_BOOL:
				appendStringInfoString(buf, FIELD(node, field, bool) ? "true" : "false");
				break;
			case RF_FIELD_OID:
				appendStringInfo(buf, "%u", FIELD(node, field, Oid));
				break;
			case RF_FIELD_DOUBLE:
				double_to_shortest_decimal_buf(FIELD(node, field, double), number);
				appendStringInfoString(buf, number);
				break;
			case RF_FIELD_STRING:
				if (FIELD(node, field, char *) != NULL && *FIELD(node, field, char *) == '\0')
					appendStringInfoString(buf, "\"\"");
				else
					outToken(buf, FIELD(node, field, char *));
				break;
			case RF_FIELD_NODE:
				outNode(buf, FIELD(node, field, void *));
				break;
		}
	}
}

/* The text that rf_plan_node_out() has printed, and outToken() in it */
static char *
read_text(const char *token, int length)
{
	if (length == 0)
		return NULL;
	return length == 2 && memcmp(token, "\"\"", 2) == 0 ? pstrdup("") : debackslash(token, length);
}

/* As core's readfuncs.c: the fields come in the table's order. */
void
rf_plan_node_read(ExtensibleNode * node)
{
	const RfPlanNode *type = type_of(node);

	for (int i = 0; i < type->field_count; i++)
	{
		const RfField *field = &type->fields[i];
		const char *token;
		int			length;

		(void) pg_strtok(&length);	/* the name */
		if (field->kind == RF_FIELD_NODE)
		{
			FIELD(node, field, void *) = nodeRead(NULL, 0);
			continue;
		}
		token = pg_strtok(&length);
		switch (field->kind)
		{
			case RF_FIELD_INT:
				FIELD(node, field, int) = atoi(token);
				break;
			case RF_FIELD_BOOL:
				FIELD(node, field, bool) = *token == 't';
				break;
			case RF_FIELD_OID:
				FIELD(node, field, Oid) = (Oid) strtoul(token, NULL, 10);
				break;
			case RF_FIELD_DOUBLE:
				FIELD(node, field, double) = strtod(token, NULL);
				break;
			case RF_FIELD_STRING:
				FIELD(node, field, char *) = read_text(token, length);
				break;
			case RF_FIELD_NODE:
				break;
		}
	}
}
