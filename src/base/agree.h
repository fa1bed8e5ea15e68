/*
 * agree.h - a secret that two engines share without anybody sending it: X25519 and HKDF-SHA256.
 *
 * Plain C and libcrypto. May run in any process and thread.
 */
#ifndef RF_AGREE_H
#define RF_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "rdma_fdw/wire.h"

/* A key pair from random numbers. False: libcrypto cannot. */
extern bool rf_key_make(uint8_t private_key[RF_KEY_SIZE], uint8_t public_key[RF_KEY_SIZE]);

/*
 * The identity of the engine with this key: the first bytes of the key's hash. False: libcrypto
 * cannot.
 */
extern bool rf_key_identity(const uint8_t public_key[RF_KEY_SIZE], RfNodeId *node);

/*
 * The secret of a token: only the two ends can compute it, each from `own_private` and the other
 * engine's public key. `initiator` and `acceptor` are the public keys of both. False: the other key
 * is invalid.
 */
extern bool rf_key_agree(const uint8_t own_private[RF_KEY_SIZE],
						 const uint8_t other_public[RF_KEY_SIZE],
						 const uint8_t token_id[RF_TOKEN_ID_SIZE],
						 const uint8_t initiator[RF_KEY_SIZE], const uint8_t acceptor[RF_KEY_SIZE],
						 uint8_t secret[RF_TOKEN_SIZE]);

#endif
