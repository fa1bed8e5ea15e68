/*
 * peers.h - numbers of peers, and sets of them. Plain C.
 */
#ifndef RF_PEERS_H
#define RF_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#define RF_MAX_PEERS		256 /* nodes that an engine is connected with at one time */
#define RF_NO_PEER			(-1)
#define RF_SEVERAL_PEERS	(-2)	/* RfSegment.peer: shared receive pools */

/* One bit per peer. */
typedef struct RfPeerSet
{
	uint64_t	words[RF_MAX_PEERS / 64];
} RfPeerSet;

static inline void
rf_peers_add(RfPeerSet *set, int peer)
{
	set->words[peer / 64] |= UINT64_C(1) << (peer % 64);
}

static inline bool
rf_peers_has(const RfPeerSet *set, int peer)
{
	return (set->words[peer / 64] >> (peer % 64) & 1) != 0;
}

static inline uint32_t
rf_peers_count(const RfPeerSet *set)
{
	uint32_t	count = 0;

	for (int word = 0; word < RF_MAX_PEERS / 64; word++)
		count += (uint32_t) __builtin_popcountll(set->words[word]);
	return count;
}

#endif
