/*
 * handshake.c - see handshake.h. Any byte that arrives here may come from anybody who can reach the
 * engine's port.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>


#include "shmem/layout.h"

#include "handshake.h"

static bool
hmac(uint8_t out[RF_HMAC_SIZE], const uint8_t secret[RF_TOKEN_SIZE], const char *label,
	 const void *first, size_t first_length, const void *second, size_t second_length)
{
	uint8_t		text[16 + 2 * sizeof(RfControlHello)];
	size_t		used = strlen(label);
	unsigned int length = 0;

	memcpy(text, label, used);
	memcpy(text + used, first, first_length);
	used += first_length;
	memcpy(text + used, second, second_length);
	used += second_length;
	return HMAC(EVP_sha256(), secret, RF_TOKEN_SIZE, text, used, out, &length) != NULL &&
		length == RF_HMAC_SIZE;
}

/*
 * Each side's proof covers both introductions, so neither the nonces nor the offers can be replaced
 * on the way.
 */
static bool
proof_matches(const RfHandshake *hs, bool initiators, const uint8_t secret[RF_TOKEN_SIZE],
			  const uint8_t claimed[RF_HMAC_SIZE])
{
	bool		we_initiate = hs->state == RF_HS_WAIT_WELCOME;
	const RfControlHello *hello = we_initiate ? &hs->own : &hs->remote;
	const RfControlHello *challenge = we_initiate ? &hs->remote : &hs->own;
	uint8_t		right[RF_HMAC_SIZE];

	return hmac(right, secret, initiators ? "initiator" : "acceptor", hello, sizeof(*hello),
				challenge, sizeof(*challenge)) &&
		CRYPTO_memcmp(right, claimed, RF_HMAC_SIZE) == 0;
}

uint32_t
rf_control_frame(uint8_t *out, RfControlType type, const void *payload, uint32_t length)
{
	RfControlHeader header = {RF_CONTROL_MAGIC, (uint16_t) type, RF_WIRE_VERSION, length, 0};

	memcpy(out, &header, sizeof(header));
	if (length > 0)
		memcpy(out + sizeof(header), payload, length);
	return sizeof(header) + length;
}

bool
rf_control_is(const uint8_t *in, RfControlType type, uint32_t length)
{
	RfControlHeader header;

	memcpy(&header, in, sizeof(header));
	return header.magic == RF_CONTROL_MAGIC && header.type == type &&
		header.version == RF_WIRE_VERSION && header.length == length && header.reserved == 0;
}

bool
rf_handshake_put(RfHandshake *hs, RfControlType type, const void *payload, uint32_t length)
{
	uint32_t	need = hs->out_used + sizeof(RfControlHeader) + length;

	if (length > RF_CONTROL_MAX || need > RF_CONTROL_OUT_MAX)
		return false;
	if (need > hs->out_room)
	{
		uint32_t	room = hs->out_room ? hs->out_room : 1024;
		uint8_t    *bigger;

		while (room < need)
			room *= 2;
		bigger = realloc(hs->out, room);
		if (bigger == NULL)
			return false;
		hs->out = bigger;
		hs->out_room = room;
	}
	hs->out_used += rf_control_frame(hs->out + hs->out_used, type, payload, length);
	return true;
}

void
rf_handshake_sent(RfHandshake *hs, uint32_t length)
{
	memmove(hs->out, hs->out + length, hs->out_used - length);
	hs->out_used -= length;
}

void
rf_handshake_initiator(RfHandshake *hs, const RfControlHello *own, const uint8_t token_id[16],
					   const uint8_t secret[RF_TOKEN_SIZE])
{
	memset(hs, 0, sizeof(*hs));
	hs->state = RF_HS_WAIT_CHALLENGE;
	hs->own = *own;
	memcpy(hs->token_id, token_id, sizeof(hs->token_id));
	memcpy(hs->secret, secret, sizeof(hs->secret));
	rf_handshake_put(hs, RF_CONTROL_HELLO, own, sizeof(*own));
}

void
rf_handshake_acceptor(RfHandshake *hs, const RfControlHello *own)
{
	memset(hs, 0, sizeof(*hs));
	hs->state = RF_HS_WAIT_FIRST;
	hs->own = *own;
}

void
rf_handshake_free(RfHandshake *hs)
{
	free(hs->out);
	OPENSSL_cleanse(hs, sizeof(*hs));
	hs->state = RF_HS_FAILED;
}

uint32_t
rf_handshake_room(RfHandshake *hs, uint8_t **place)
{
	uint32_t	want = sizeof(RfControlHeader);

	*place = hs->in + hs->in_used;
	if (hs->in_used >= sizeof(RfControlHeader))
	{
		RfControlHeader header;

		memcpy(&header, hs->in, sizeof(header));

		/* rf_handshake_step refuses a message that is too long; nothing is read for it. */
		if (header.length > RF_CONTROL_MAX)
			return 0;
		want += header.length;
	}
	return want - hs->in_used;
}

void
rf_handshake_filled(RfHandshake *hs, uint32_t length)
{
	hs->in_used += length;
}

/*
 * Strings of the other side appear in logs and in errors of SQL sessions: they must be printable
 * ASCII, and terminated.
 */
static bool
clean_string(char *string, size_t size)
{
	size_t		i;

	if (memchr(string, '\0', size) == NULL)
		return false;
	for (i = 0; string[i] != '\0'; i++)
	{
		if ((unsigned char) string[i] < 0x20 || (unsigned char) string[i] > 0x7e)
			string[i] = '?';
	}
	return true;
}

static bool
check_hello(RfHandshake *hs, const RfControlHeader *header, const uint8_t *payload, RfError *error)
{
	RfControlHello *remote = &hs->remote;

	memcpy(remote, payload, sizeof(*remote));
	if ((remote->node.words[0] == 0 && remote->node.words[1] == 0) ||
		remote->lanes < 1 || remote->lanes > RF_MAX_LANES ||
		remote->provider < 1 || remote->provider > RF_OFFER_ALL ||
		remote->encryption > RF_ENCRYPTION_REQUIRE || remote->reserved != 0 ||
		!clean_string(remote->local_name, sizeof(remote->local_name)))
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"malformed introduction of another engine");
	if (remote->image.byte_order_mark != hs->own.image.byte_order_mark)
		return rf_error(error, RF_ERROR_VERSION, NULL, NULL,
						"the other node has another byte order");
	return true;
}

static bool
check_open(const RfControlOpen *open)
{
	return open->producer_flow < RF_MAX_FLOWS && open->consumer_flow < RF_MAX_FLOWS &&
		open->lane < RF_MAX_LANES && open->reserved == 0;
}

static bool
check_opened(const RfControlOpened *opened)
{
	uint64_t	buffers = opened->pool_buffers > 0 ? opened->pool_buffers : opened->slot_count;
	uint64_t	size = buffers * opened->slot_size;

	if (opened->pool_buffers > RF_RECEIVE_MAX || opened->pool_claimable > opened->pool_buffers ||
		(opened->pool_buffers > 0 && opened->remote_addr < RF_RECEIVE_WORDS))
		return false;
	return opened->producer_flow < RF_MAX_FLOWS && opened->consumer_flow < RF_MAX_FLOWS &&
		opened->slot_count >= 1 && opened->slot_count <= RF_MAX_SLOTS &&
		opened->slot_size >= 4096 && opened->slot_size <= RF_MAX_MESSAGE &&
		opened->slot_size % 4096 == 0 && opened->rkey != 0 && opened->remote_addr != 0 &&
		opened->remote_addr <= UINT64_MAX - size && opened->weight >= 1 &&
		opened->weight <= RF_MAX_WEIGHT;
}

static bool
check_linked(const RfControlLinked *linked)
{
	return linked->rkey != 0 && linked->reserved == 0 && linked->number != 0 &&
		linked->remote_addr != 0 &&
		linked->remote_addr <= UINT64_MAX - (uint64_t) RF_MAX_LANES * RF_PROOF_SIZE;
}

static bool
check_welcome(const RfHandshake *hs, const RfControlWelcome *welcome)
{
	return welcome->lanes >= 1 && welcome->lanes <= hs->own.lanes &&
		welcome->lanes <= hs->remote.lanes &&
		(welcome->provider == RF_OFFER_SOFT || welcome->provider == RF_OFFER_VERBS) &&
		(welcome->provider & hs->own.provider & hs->remote.provider) != 0 &&
		(welcome->provider == RF_OFFER_SOFT ||
		 rf_handshake_encryption(hs) != RF_ENCRYPTION_REQUIRE);
}

static bool
check_reason(uint32_t reason)
{
	return reason > RF_ERROR_NONE && reason <= RF_ERROR_GONE;
}

/* The length that a message of this type must have; -1: the state does not expect this type. */
static int32_t
expected_length(RfHandshakeState state, uint16_t type)
{
	switch (state)
	{
		case RF_HS_WAIT_FIRST:
			return type == RF_CONTROL_HELLO ? (int32_t) sizeof(RfControlHello) :
				type == RF_CONTROL_ATTACH ? (int32_t) sizeof(RfControlAttach) : -1;
		case RF_HS_WAIT_PROOF:
			return type == RF_CONTROL_PROOF ? (int32_t) sizeof(RfControlProof) : -1;
		case RF_HS_WAIT_CHALLENGE:
			return type == RF_CONTROL_CHALLENGE ? (int32_t) sizeof(RfControlHello) :
				type == RF_CONTROL_REFUSED ? (int32_t) sizeof(RfControlRefused) : -1;
		case RF_HS_WAIT_WELCOME:
			return type == RF_CONTROL_WELCOME ? (int32_t) sizeof(RfControlWelcome) :
				type == RF_CONTROL_REFUSED ? (int32_t) sizeof(RfControlRefused) : -1;
		case RF_HS_SETUP:
		case RF_HS_UP:
			switch (type)
			{
				case RF_CONTROL_PING:
				case RF_CONTROL_PONG:
					return sizeof(uint64_t);
				case RF_CONTROL_BYE:
				case RF_CONTROL_BROKEN:
					return 0;
				case RF_CONTROL_QP:
					return state == RF_HS_SETUP ? (int32_t) sizeof(RfControlQp) : -1;
				case RF_CONTROL_LINKED:
					return state == RF_HS_SETUP ? (int32_t) sizeof(RfControlLinked) : -1;
				case RF_CONTROL_READY:
					return state == RF_HS_SETUP ? 0 : -1;
				case RF_CONTROL_OPEN:
					return state == RF_HS_UP ? (int32_t) sizeof(RfControlOpen) : -1;
				case RF_CONTROL_OPENED:
					return state == RF_HS_UP ? (int32_t) sizeof(RfControlOpened) : -1;
				case RF_CONTROL_OPEN_FAILED:
					return state == RF_HS_UP ? (int32_t) sizeof(RfControlOpenFailed) : -1;
				default:
					return -1;
			}
		default:
			return -1;
	}
}

/*
 * Processes one complete message of the current state: the steps of the handshake are answered
 * here; all else goes to the caller in *message, with *for_caller set. Returns false with *error if
 * the connection has to end.
 */
static bool
handle(RfHandshake *hs, const RfControlHeader *header, uint8_t *payload, RfControlMessage *message,
	   bool *for_caller, RfError *error)
{
	bool		good = true;

	message->type = header->type;
	*for_caller = true;
	switch (header->type)
	{
		case RF_CONTROL_HELLO:
			if (!check_hello(hs, header, payload, error))
				return false;
			hs->state = RF_HS_WAIT_PROOF;
			*for_caller = false;
			return rf_handshake_put(hs, RF_CONTROL_CHALLENGE, &hs->own, sizeof(hs->own)) ||
				rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");

		case RF_CONTROL_CHALLENGE:
			{
				RfControlProof proof;

				if (!check_hello(hs, header, payload, error))
					return false;
				memcpy(proof.token_id, hs->token_id, sizeof(proof.token_id));
				hs->state = RF_HS_WAIT_WELCOME;
				*for_caller = false;
				if (!hmac(proof.hmac, hs->secret, "initiator", &hs->own, sizeof(hs->own),
						  &hs->remote, sizeof(hs->remote)) ||
					!rf_handshake_put(hs, RF_CONTROL_PROOF, &proof, sizeof(proof)))
					return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL,
									"could not compute a proof");
				return true;
			}

		case RF_CONTROL_PROOF:
			memcpy(&message->u.proof, payload, sizeof(RfControlProof));
			hs->state = RF_HS_DECIDE;
			return true;

		case RF_CONTROL_WELCOME:
			memcpy(&message->u.welcome, payload, sizeof(RfControlWelcome));
			if (!proof_matches(hs, false, hs->secret, message->u.welcome.hmac))
				return rf_error(error, RF_ERROR_AUTHENTICATION, NULL, NULL,
								"the other engine does not know the token of its node");
			good = check_welcome(hs, &message->u.welcome);
			hs->state = RF_HS_SETUP;
			break;

		case RF_CONTROL_REFUSED:
			memcpy(&message->u.refused, payload, sizeof(RfControlRefused));
			hs->crossing = message->u.refused.reason == RF_REFUSED_CROSSING;
			good = (hs->crossing || check_reason(message->u.refused.reason)) &&
				clean_string(message->u.refused.message, sizeof(message->u.refused.message));
			if (good)
				return rf_error(error,
								hs->crossing ? RF_ERROR_CONNECTION : message->u.refused.reason,
								NULL, NULL, "the other engine refused the connection: %s",
								message->u.refused.message);
			break;

		case RF_CONTROL_ATTACH:
			memcpy(&message->u.attach, payload, sizeof(RfControlAttach));
			good = message->u.attach.lane < RF_MAX_LANES && message->u.attach.reserved == 0;
			hs->state = RF_HS_ATTACH;
			break;

		case RF_CONTROL_QP:
			memcpy(&message->u.qp, payload, sizeof(RfControlQp));
			good = message->u.qp.lane < RF_MAX_LANES && message->u.qp.reserved == 0;
			break;

		case RF_CONTROL_LINKED:
			memcpy(&message->u.linked, payload, sizeof(RfControlLinked));
			good = check_linked(&message->u.linked);
			break;

		case RF_CONTROL_OPEN:
			memcpy(&message->u.open, payload, sizeof(RfControlOpen));
			good = check_open(&message->u.open);
			break;

		case RF_CONTROL_OPENED:
			memcpy(&message->u.opened, payload, sizeof(RfControlOpened));
			good = check_opened(&message->u.opened);
			break;

		case RF_CONTROL_OPEN_FAILED:
			memcpy(&message->u.open_failed, payload, sizeof(RfControlOpenFailed));
			good = message->u.open_failed.producer_flow < RF_MAX_FLOWS &&
				check_reason(message->u.open_failed.reason) &&
				clean_string(message->u.open_failed.message,
							 sizeof(message->u.open_failed.message));
			break;

		case RF_CONTROL_PING:
			*for_caller = false;
			return rf_handshake_put(hs, RF_CONTROL_PONG, payload, sizeof(uint64_t)) ||
				rf_error(error, RF_ERROR_CONNECTION, NULL, NULL, "the other engine does not read");

		case RF_CONTROL_PONG:
			memcpy(&message->u.stamp, payload, sizeof(uint64_t));
			break;

		default:
			break;
	}
	if (!good)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"malformed control message of type %u from another engine",
						(unsigned) header->type);
	return true;
}

RfHandshakeStep
rf_handshake_step(RfHandshake *hs, RfControlMessage *message, RfError *error)
{
	while (hs->in_used >= sizeof(RfControlHeader))
	{
		RfControlHeader header;
		int32_t		expected;
		bool		for_caller;

		if (hs->state == RF_HS_FAILED || hs->state == RF_HS_DECIDE || hs->state == RF_HS_ATTACH)
		{
			rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL, "bytes from another engine out of turn");
			hs->state = RF_HS_FAILED;
			return RF_STEP_FAILED;
		}

		memcpy(&header, hs->in, sizeof(header));
		expected = expected_length(hs->state, header.type);
		if (header.magic != RF_CONTROL_MAGIC || header.reserved != 0 ||
			header.length > RF_CONTROL_MAX)
		{
			rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL, "bytes that are not of another engine");
			hs->state = RF_HS_FAILED;
			return RF_STEP_FAILED;
		}
		if (header.version != RF_WIRE_VERSION)
		{
			rf_error(error, RF_ERROR_VERSION, NULL,
					 RF_WIRE_BEHIND(header.version, "Upgrade rdma_fdw on the other node.",
									"Upgrade rdma_fdw on this node."),
					 "the other engine speaks wire version %u, this one %u",
					 (unsigned) header.version, RF_WIRE_VERSION);
			if (hs->state == RF_HS_WAIT_FIRST)
				rf_handshake_refuse(hs, RF_ERROR_VERSION, "another wire version of rdma_fdw");
			hs->state = RF_HS_FAILED;
			return RF_STEP_FAILED;
		}
		if (expected < 0 || header.length != (uint32_t) expected)
		{
			rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
					 "unexpected control message of type %u and %u bytes from another engine",
					 (unsigned) header.type, (unsigned) header.length);
			hs->state = RF_HS_FAILED;
			return RF_STEP_FAILED;
		}
		if (hs->in_used < sizeof(header) + header.length)
			break;
		hs->in_used = 0;
		if (!handle(hs, &header, hs->in + sizeof(header), message, &for_caller, error))
		{
			if (hs->state == RF_HS_WAIT_FIRST && error->kind == RF_ERROR_VERSION)
				rf_handshake_refuse(hs, RF_ERROR_VERSION, error->message);
			hs->state = RF_HS_FAILED;
			return RF_STEP_FAILED;
		}
		if (for_caller)
			return RF_STEP_MESSAGE;
	}
	return RF_STEP_MORE;
}

bool
rf_handshake_verify(const RfHandshake *hs, const uint8_t secret[RF_TOKEN_SIZE],
					const RfControlProof *proof)
{
	return hs->state == RF_HS_DECIDE && proof_matches(hs, true, secret, proof->hmac);
}

bool
rf_handshake_welcome(RfHandshake *hs, const uint8_t secret[RF_TOKEN_SIZE],
					 const uint8_t connection_id[16], uint32_t lanes, uint32_t provider)
{
	RfControlWelcome welcome;

	memset(&welcome, 0, sizeof(welcome));
	memcpy(welcome.connection_id, connection_id, sizeof(welcome.connection_id));
	welcome.lanes = lanes;
	welcome.provider = provider;
	if (hs->state != RF_HS_DECIDE || !hmac(welcome.hmac, secret, "acceptor", &hs->remote,
										   sizeof(hs->remote), &hs->own, sizeof(hs->own)))
		return false;
	hs->state = RF_HS_SETUP;
	return rf_handshake_put(hs, RF_CONTROL_WELCOME, &welcome, sizeof(welcome));
}

void
rf_handshake_refuse(RfHandshake *hs, uint32_t reason, const char *message)
{
	RfControlRefused refused;

	memset(&refused, 0, sizeof(refused));
	refused.reason = reason;
	snprintf(refused.message, sizeof(refused.message), "%.180s", message);
	rf_handshake_put(hs, RF_CONTROL_REFUSED, &refused, sizeof(refused));
	hs->state = RF_HS_FAILED;
}

RfEncryption
rf_handshake_encryption(const RfHandshake *hs)
{
	return hs->own.encryption > hs->remote.encryption ? hs->own.encryption : hs->remote.encryption;
}

bool
rf_handshake_tls_secret(const RfHandshake *hs, bool initiator, const uint8_t secret[RF_TOKEN_SIZE],
						uint8_t tls_secret[RF_TLS_KEY_SIZE])
{
	const RfControlHello *hello = initiator ? &hs->own : &hs->remote;
	const RfControlHello *challenge = initiator ? &hs->remote : &hs->own;

	return hs->state == RF_HS_SETUP &&
		hmac(tls_secret, secret, "tls", hello, sizeof(*hello), challenge, sizeof(*challenge));
}

void
rf_handshake_up(RfHandshake *hs)
{
	hs->state = RF_HS_UP;
	OPENSSL_cleanse(hs->secret, sizeof(hs->secret));
}

void
rf_attach_fill(RfControlAttach *attach, const uint8_t secret[RF_TOKEN_SIZE],
			   const uint8_t connection_id[16], uint32_t lane)
{
	memset(attach, 0, sizeof(*attach));
	memcpy(attach->connection_id, connection_id, sizeof(attach->connection_id));
	attach->lane = lane;
	hmac(attach->hmac, secret, "attach", connection_id, 16, &lane, sizeof(lane));
}

bool
rf_attach_verify(const RfControlAttach *attach, const uint8_t secret[RF_TOKEN_SIZE])
{
	uint8_t		right[RF_HMAC_SIZE];

	return hmac(right, secret, "attach", attach->connection_id, 16, &attach->lane,
				sizeof(attach->lane)) &&
		CRYPTO_memcmp(right, attach->hmac, RF_HMAC_SIZE) == 0;
}

void
rf_attached_fill(RfControlAttached *attached, const uint8_t secret[RF_TOKEN_SIZE],
				 const uint8_t connection_id[16], uint32_t lane)
{
	memset(attached, 0, sizeof(*attached));
	hmac(attached->hmac, secret, "attached", connection_id, 16, &lane, sizeof(lane));
}

bool
rf_attached_verify(const RfControlAttached *attached, const uint8_t secret[RF_TOKEN_SIZE],
				   const uint8_t connection_id[16], uint32_t lane)
{
	uint8_t		right[RF_HMAC_SIZE];

	return hmac(right, secret, "attached", connection_id, 16, &lane, sizeof(lane)) &&
		CRYPTO_memcmp(right, attached->hmac, RF_HMAC_SIZE) == 0;
}
