/*
 * peer_table.c - this node's identity, and functions on the table of peers for backends and the
 * engine's main thread. The protocol of its words is at RfPeer; claims.c has the functions that
 * need no server.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "arena.h"
#include "claims.h"
#include "layout.h"
#include "peer_table.h"

void
rf_type_image(RfTypeImage *image)
{
	double		one = 1.0;
	uint64_t	bits;

	memcpy(&bits, &one, sizeof(bits));
	memset(image, 0, sizeof(*image));
	image->byte_order_mark = 0x01020304;
	image->sizeof_datum = sizeof(Datum);
	image->maximum_alignment = MAXIMUM_ALIGNOF;
	image->float8_by_value = FLOAT8PASSBYVAL;
	image->name_data_length = NAMEDATALEN;
	image->double_format = (uint32_t) (bits >> 32);
	image->image_version = 1;
}

const char *
rf_node_text(const RfNodeId *node)
{
	char	   *text = palloc0(2 * sizeof(*node) + 1);

	(void) hex_encode((const char *) node, sizeof(*node), text);
	return text;
}

void
rf_node_self(RfNodeId *node, RfTypeImage *image)
{
	if (node)
		*node = rf_shared->node;
	if (image)
		rf_type_image(image);
}

void
rf_hello_request(RfHelloRequest *request, bool need_token)
{
	memset(request, 0, sizeof(*request));
	request->wire_version = RF_WIRE_VERSION;
	request->need_token = need_token;
	rf_node_self(&request->node, &request->image);
	memcpy(request->key, rf_shared->public_key, sizeof(request->key));
}

int
rf_peer_find(const RfNodeId *node, bool producer_side)
{
	bool		self = rf_same_node(node, &rf_shared->node);
	int			i;

	if (atomic_load(&rf_shared->engine_pid) == 0)
		return RF_NO_PEER;
	for (i = 0; i < RF_MAX_PEERS; i++)
	{
		RfPeer	   *peer = &rf_shared->peers[i];

		if (atomic_load(&peer->state) == RF_PEER_CONNECTED && rf_same_node(&peer->node, node) &&
			(!self || (peer->accepted != 0) == producer_side))
			return i;
	}
	return RF_NO_PEER;
}

void
rf_peers_wake(int peer)
{
	ConditionVariableBroadcast(&rf_wait_points->peer[peer]);
}

int
rf_peer_claim(const RfNodeId *node, bool accepted)
{
	int			index;

	while (!rf_claim_peer(rf_shared, node, accepted, &index))
		rf_peers_wake(index);
	return index;
}
