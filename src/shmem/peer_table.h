/*
 * peer_table.h - this node's identity, and finding and taking entries of the peer table, for
 * backends and the engine's main thread. Tokens: claims.h.
 */
#ifndef RF_PEER_TABLE_H
#define RF_PEER_TABLE_H

#include "rdma_fdw/wire.h"

/* The layout of values in memory in this build. */
extern void rf_type_image(RfTypeImage *image);

/* An identity as it is shown: the hash's bytes in their order. Palloc'd. */
extern const char *rf_node_text(const RfNodeId *node);

/* Our side of a hello, and the type image; either may be NULL. */
extern void rf_node_self(RfNodeId *node, RfTypeImage *image);

/* The request that this node passes to rdma_internal.hello() of another node. */
extern void rf_hello_request(RfHelloRequest *request, bool need_token);

/*
 * Index of the CONNECTED entry for a node, or RF_NO_PEER. `producer_side` matters only for a node
 * connected to itself: the reader uses the entry that connected, the data node's session the
 * accepted entry.
 */
extern int	rf_peer_find(const RfNodeId *node, bool producer_side);

/*
 * Takes a free entry for a node, state CLAIMED; returns RF_NO_PEER if there is no free entry. The
 * caller owns it until it stores the next state.
 */
extern int	rf_peer_claim(const RfNodeId *node, bool accepted);

/* The entry's state has changed: wakes backends that wait for it. */
extern void rf_peers_wake(int peer);

#endif
