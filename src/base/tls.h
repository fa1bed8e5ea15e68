/*
 * tls.h - TLS 1.3 over a connected stream socket, between two ends that have a secret in common.
 *
 * The secret is an external pre-shared key, used with a fresh X25519 exchange (psk_dhe_ke): an
 * attacker that learns it later cannot read earlier traffic. There are no certificates, tickets or
 * early data, and no other version or suite than TLS_AES_256_GCM_SHA384: an end that wants another
 * gets an error.
 *
 * It looks like a non-blocking socket: sending takes as many bytes as it can, receiving gives the
 * bytes that are there, and errno tells why there are no bytes. The handshake happens on the way,
 * as its parts are received. The socket stays the caller's. One thread at a time uses an object.
 * Plain C.
 */
#ifndef RF_TLS_H
#define RF_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "error.h"

#define RF_TLS_KEY_SIZE		32
#define RF_TLS_RECORD		16384	/* bytes of a full record; as many are counted for a smaller
									 * one */
/*
 * Bytes until keys are made anew: 2^22 full records. AES-GCM is good for 2^24.5 of one key (RFC
 * 8446, 5.5).
 */
#define RF_REKEY_AFTER		(UINT64_C(64) << 30)
#define RF_TLS_TEXT			"TLS 1.3 AES-256-GCM"

typedef struct RfTls RfTls;

/* The shared knowledge of both ends of a socket, and which of them begins. */
typedef struct RfTlsKey
{
	uint8_t		secret[RF_TLS_KEY_SIZE];
	bool		client;
	uint64_t	rekey_after;	/* bytes sent, in full records, until the keys of this direction
								 * are made anew */
} RfTlsKey;

/*
 * records: how many leave in one send, and about as many are read at a time. NULL: *error says why.
 * The client's first message leaves at once.
 */
extern RfTls *rf_tls_new(int sock, const RfTlsKey *key, int records, RfError *error);
extern void rf_tls_free(RfTls *tls);

/*
 * How many bytes of the pieces were taken, which may be some of them; they are on their way, though
 * perhaps not in the socket (rf_tls_unsent). -1: nothing was taken, and errno is EAGAIN, or the
 * reason that broke the connection (EPROTO: bytes that TLS refuses, rf_tls_reason). Without pieces
 * only waiting bytes are sent.
 */
extern ssize_t rf_tls_send(RfTls *tls, const struct iovec *pieces, int count);

/*
 * As recv: bytes, 0 = the other end has closed, -1 with errno as above. Nothing unauthenticated is
 * given.
 */
extern ssize_t rf_tls_receive(RfTls *tls, void *to, size_t size);

/* Taken bytes wait for room in the socket. */
extern bool rf_tls_unsent(const RfTls *tls);

/*
 * More can be received though the socket may be empty: since the last EAGAIN, something was read
 * ahead.
 */
extern bool rf_tls_unread(const RfTls *tls);

/*
 * The other end has proved that it has the secret. Until then nothing is taken and nothing given.
 */
extern bool rf_tls_ready(const RfTls *tls);

/*
 * A secret that only the two ends of this connection have, another for each context. Only if ready.
 */
extern bool rf_tls_export(RfTls *tls, const void *context, size_t size,
						  uint8_t secret[RF_TLS_KEY_SIZE]);

/* After EPROTO: the reason. */
extern const char *rf_tls_reason(const RfTls *tls);

#endif
