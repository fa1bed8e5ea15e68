/*
 * handshake.h - the control protocol between two engines (wire.h, section 1) as a state machine
 * over bytes.
 *
 * It cuts the byte stream into messages, checks every length, type, state, number and string,
 * proves and verifies knowledge of the token, and queues the answers. Sockets, the storage of
 * tokens, queue pairs and flows are left to the caller, which reads bytes into the place that
 * rf_handshake_room names and sends the queued bytes. Plain C and libcrypto; one thread; no shared
 * memory.
 */
#ifndef RF_HANDSHAKE_H
#define RF_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tls.h"
#include "rdma_fdw/provider.h"
#include "rdma_fdw/wire.h"

typedef enum RfHandshakeState
{
	RF_HS_WAIT_CHALLENGE = 1,	/* initiator, HELLO queued */
	RF_HS_WAIT_WELCOME,			/* initiator, PROOF queued */
	RF_HS_WAIT_FIRST,			/* acceptor: HELLO or ATTACH */
	RF_HS_WAIT_PROOF,			/* acceptor, CHALLENGE queued */
	RF_HS_DECIDE,				/* acceptor: the caller looks up the token: rf_handshake_verify,
								 * then _welcome or _refuse */
	RF_HS_ATTACH,				/* acceptor: the caller decides about a data socket; nothing more
								 * is read here */
	RF_HS_SETUP,				/* proven; queue pairs are exchanged */
	RF_HS_UP,					/* flows may be opened */
	RF_HS_FAILED
} RfHandshakeState;

typedef struct RfControlMessage
{
	RfControlType type;
	union
	{
		RfControlProof proof;
		RfControlWelcome welcome;
		RfControlRefused refused;
		RfControlAttach attach;
		RfControlQp qp;
		RfControlLinked linked;
		RfControlOpen open;
		RfControlOpened opened;
		RfControlOpenFailed open_failed;
		uint64_t	stamp;		/* PING, PONG */
	}			u;
} RfControlMessage;

typedef enum RfHandshakeStep
{
	RF_STEP_MORE = 1,			/* read more bytes: rf_handshake_room */
	RF_STEP_MESSAGE,			/* *message is for the caller; call again */
	RF_STEP_FAILED				/* error says why; close (a queued REFUSED may be sent first) */
} RfHandshakeStep;

typedef struct RfHandshake
{
	RfHandshakeState state;
	RfControlHello own;
	RfControlHello remote;
	bool		crossing;		/* REFUSED, because the other side connects to us */
	uint8_t		token_id[16];
	uint8_t		secret[RF_TOKEN_SIZE];
	uint32_t	in_used;
	uint8_t		in[sizeof(RfControlHeader) + RF_CONTROL_MAX];
	uint8_t    *out;			/* malloc */
	uint32_t	out_used;
	uint32_t	out_room;
} RfHandshake;

/* More than this queued for a peer that does not read ends the connection. */
#define RF_CONTROL_OUT_MAX	(1u << 20)

extern void rf_handshake_initiator(RfHandshake *hs, const RfControlHello *own,
								   const uint8_t token_id[16], const uint8_t secret[RF_TOKEN_SIZE]);
extern void rf_handshake_acceptor(RfHandshake *hs, const RfControlHello *own);
extern void rf_handshake_free(RfHandshake *hs);

/*
 * Sets *place to where the next bytes go, and returns how many at most: never beyond the current
 * message, so that the bytes after an ATTACH stay in the socket. 0: a complete message waits for
 * rf_handshake_step.
 */
extern uint32_t rf_handshake_room(RfHandshake *hs, uint8_t **place);
extern void rf_handshake_filled(RfHandshake *hs, uint32_t length);
extern RfHandshakeStep rf_handshake_step(RfHandshake *hs, RfControlMessage *message,
										 RfError *error);

/* Queues a message. False: too much is queued already. */
extern bool rf_handshake_put(RfHandshake *hs, RfControlType type, const void *payload,
							 uint32_t length);
extern void rf_handshake_sent(RfHandshake *hs, uint32_t length);

/* Acceptor, in RF_HS_DECIDE. */
extern bool rf_handshake_verify(const RfHandshake *hs, const uint8_t secret[RF_TOKEN_SIZE],
								const RfControlProof *proof);
extern bool rf_handshake_welcome(RfHandshake *hs, const uint8_t secret[RF_TOKEN_SIZE],
								 const uint8_t connection_id[16], uint32_t lanes,
								 uint32_t provider);
extern void rf_handshake_refuse(RfHandshake *hs, uint32_t reason, const char *message);

/* The result of both introductions. Either end may call it once it has both. */
extern RfEncryption rf_handshake_encryption(const RfHandshake *hs);

/* The secret for TLS on the control connection. Either end has it after WELCOME. */
extern bool rf_handshake_tls_secret(const RfHandshake *hs, bool initiator,
									const uint8_t secret[RF_TOKEN_SIZE],
									uint8_t tls_secret[RF_TLS_KEY_SIZE]);

/* Both ends are READY: flows may be opened from now on. */
extern void rf_handshake_up(RfHandshake *hs);

/* ATTACH of a data socket, and its answer. */
extern void rf_attach_fill(RfControlAttach *attach, const uint8_t secret[RF_TOKEN_SIZE],
						   const uint8_t connection_id[16], uint32_t lane);
extern bool rf_attach_verify(const RfControlAttach *attach, const uint8_t secret[RF_TOKEN_SIZE]);
extern void rf_attached_fill(RfControlAttached *attached, const uint8_t secret[RF_TOKEN_SIZE],
							 const uint8_t connection_id[16], uint32_t lane);
extern bool rf_attached_verify(const RfControlAttached *attached,
							   const uint8_t secret[RF_TOKEN_SIZE], const uint8_t connection_id[16],
							   uint32_t lane);

/* Writes a whole message into `out`, which has room for header and payload. Returns its length. */
extern uint32_t rf_control_frame(uint8_t *out, RfControlType type, const void *payload,
								 uint32_t length);

/* Returns true if this is the header of such a message with a payload of that length. */
extern bool rf_control_is(const uint8_t *in, RfControlType type, uint32_t length);

#endif
