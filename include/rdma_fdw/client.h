/*
 * client.h - a backend's requests to its engine (src/client/client.c).
 *
 * Everything goes through shared memory; a backend opens no socket to an engine.
 */
#ifndef RF_CLIENT_H
#define RF_CLIENT_H

#include "postgres.h"

#include "base/error.h"
#include "rdma_fdw/wire.h"

/* Returns true if an engine may connect to this address. */
struct sockaddr;
typedef bool (*RfAddressFilter) (const struct sockaddr *address, size_t length);

/*
 * ERROR with the line to add to postgresql.conf when the library was not preloaded, or when the
 * engine does not run.
 */
extern void rf_engine_require(void);

extern void rf_engine_wake_main(void);

/*
 * Like rf_peer_find, but waits for a connection that is being set up: a data node's session may be
 * asked for a stream a moment before its own engine has finished connecting, although the reader's
 * engine has. A node that was connected before may come back, so this waits for it up to
 * rdma_fdw.connect_timeout. RF_NO_PEER if there is no connection; interruptible.
 */
extern int	rf_peer_wait(const RfNodeId *node, bool producer_side);

/* SQLSTATE of the error when there is no connection: the attempt failed, or nobody tried. */
extern int	rf_peer_missing_sqlstate(const RfNodeId *node);

/*
 * Connect (or wait for another session's attempt) for rdma_fdw.connect_timeout at most;
 * interruptible. Returns the index, or RF_NO_PEER when the engines do not come together, and *error
 * says why. ERROR when this node's engine does not run, or may not connect. allowed: see there;
 * NULL: any address is. *spent: the attempt vanished, and with it, perhaps, the token of `hello`:
 * try again with a new one.
 */
extern int	rf_peer_connect(const char *host, const RfHelloReply *hello, RfAddressFilter allowed,
							bool *spent, RfError *error);

/*
 * The current role's share of `total` places in shared memory (rdma_fdw.role_share).
 */
extern uint32 rf_role_limit(uint32 total);

/* Data node: a one-time token for a reader's engine, valid for RfShared.invited_ms. */
extern void rf_token_issue(const RfHelloRequest *request, uint8_t id[RF_TOKEN_ID_SIZE]);

/* Raise an error reported by a thread or through shared memory; `peer` may be RF_NO_PEER. */
extern void rf_raise(const RfError *error, int peer) __attribute__((noreturn));

#endif
