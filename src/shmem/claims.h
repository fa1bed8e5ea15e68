/*
 * claims.h - how processes take entries of two tables in shared memory: peers, and tokens for
 * readers. A backend fills an entry in, and the engine's main thread reads it.
 *
 * Whoever changes an entry's word by compare-and-swap has the entry, and nobody waits for that. A
 * process that is stopped in between keeps one entry, and holds up nobody. One that is killed takes
 * the server's other processes and this memory with it. layout.h says what the words mean
 * (RfPeerState, RfToken).
 *
 * Plain C.
 */
#ifndef RF_CLAIMS_H
#define RF_CLAIMS_H

#include "layout.h"

static inline bool
rf_same_node(const RfNodeId *a, const RfNodeId *b)
{
	return a->system_identifier == b->system_identifier && a->generation == b->generation;
}

/*
 * Take a free entry for a node. True: *index is CLAIMED, with no address and no token yet, or it is
 * RF_NO_PEER when none is free. False: a waiter came before we had entry *index, which is as it was:
 * wake its waiters and try again.
 */
extern bool rf_claim_peer(RfShared *shared, const RfNodeId *node, bool accepted, int *index);

/*
 * Become a waiter of the node's entry that is, or will be, its connection: its index, and in
 * *attempt which use of the entry that is. RF_NO_PEER when there is none. `accepted`: of this
 * node's own two, the one that was accepted; any one of another node is as good. A waiter takes
 * itself off RfPeer.waiters.
 */
extern int	rf_claim_wait(RfShared *shared, const RfNodeId *node, bool accepted,
						  uint32_t *attempt);

/*
 * A token for a client, for so long, issued to an SQL role. Of a role with role_limit tokens the one
 * that expires first gives way; when all places are taken, that of the role with most. False:
 * processes that do not go on have all of them.
 */
extern bool rf_token_put(RfShared *shared, const uint8_t id[16],
						 const uint8_t secret[RF_TOKEN_SIZE], const RfNodeId *client,
						 uint32_t role, uint32_t role_limit, int64_t lifetime_us);

/*
 * The engine's main thread, which is alone in this: a token that was issued, and who may use it.
 * Unless `keep`, nobody will find it again.
 */
extern bool rf_token_take(RfShared *shared, const uint8_t id[16],
						  uint8_t secret[RF_TOKEN_SIZE], RfNodeId *client, bool keep);

#endif
