/*
 * claims.h - how processes take entries of two tables in shared memory: peers, and tokens for
 * readers. A backend fills an entry in, and the engine's main thread reads it.
 *
 * The process that changes an entry's word by compare-and-swap owns the entry; no process waits for
 * that. A process that is stopped in between keeps one entry and delays nobody. If it is killed,
 * the server restarts all processes and this memory. layout.h explains the words (RfPeerState,
 * RfToken).
 *
 * Plain C.
 */
#ifndef RF_CLAIMS_H
#define RF_CLAIMS_H

#include "layout.h"

static inline bool
rf_same_node(const RfNodeId *a, const RfNodeId *b)
{
	return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/*
 * Takes a free entry for a node. True: *index is CLAIMED, with no address and no token yet, or
 * RF_NO_PEER if no entry is free. False: a waiter came before we owned entry *index, which is
 * unchanged: wake its waiters and try again.
 */
extern bool rf_claim_peer(RfShared *shared, const RfNodeId *node, bool accepted, int *index);

/*
 * Becomes a waiter of the node's entry that is, or will be, its connection: returns its index, and
 * in *attempt the entry's use. RF_NO_PEER if there is no such entry. `accepted`: of this node's own
 * two, the accepted one; any entry of another node will do. A waiter decrements RfPeer.waiters
 * itself.
 */
extern int	rf_claim_wait(RfShared *shared, const RfNodeId *node, bool accepted,
						  uint32_t *attempt);

/*
 * Stores a token for a client, valid for so long, issued to an SQL role. If the role has role_limit
 * tokens, it replaces the token that expires first; if all entries are taken, a token of the role
 * with most. False: stopped processes own all entries.
 */
extern bool rf_token_put(RfShared *shared, const uint8_t id[16],
						 const uint8_t secret[RF_TOKEN_SIZE], const RfNodeId *client,
						 uint32_t role, uint32_t role_limit, int64_t lifetime_us);

/*
 * For the engine's main thread only. rf_token_issuer: the role that an issued token is for, and how
 * many its tokens may be. rf_token_take: finds an issued token, and the role that may use it;
 * unless `keep`, it is removed.
 */
extern bool rf_token_issuer(RfShared *shared, const uint8_t id[16], uint32_t *role,
							uint32_t *role_limit);
extern bool rf_token_take(RfShared *shared, const uint8_t id[16],
						  uint8_t secret[RF_TOKEN_SIZE], RfNodeId *client, bool keep);

#endif
