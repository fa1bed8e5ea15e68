/*
 * fuzz_handshake.c - for any bytes on a control connection, the parser (src/engine/handshake.c)
 * reads no byte it does not have, and hands on only messages whose every number is within its
 * limits.
 *
 * The first input byte says in which state the connection is (low nibble) and whether the rest
 * arrives in small pieces (bit 7); the secret is known here, so that states behind the proof are
 * reached by setting them.
 */
#include <stdlib.h>
#include <string.h>

#include "shmem/layout.h"

#include "../../src/engine/handshake.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[RF_TOKEN_SIZE] = "a secret of 32 bytes, all of it";

static void
require(bool good)
{
	if (!good)
		abort();
}

static void
introduce(RfControlHello *hello)
{
	memset(hello, 0, sizeof(*hello));
	hello->node.words[0] = 7;
	hello->node.words[1] = 9;
	hello->image.byte_order_mark = 0x01020304;
	hello->lanes = 4;
	hello->provider = 1;
}

static bool
ends(const char *string, size_t size)
{
	return memchr(string, '\0', size) != NULL;
}

/* The properties on which the callers rely. */
static void
check_message(RfHandshake *hs, const RfControlMessage *message)
{
	switch (message->type)
	{
		case RF_CONTROL_PROOF:
			require(hs->state == RF_HS_DECIDE && hs->remote.lanes >= 1 &&
					hs->remote.lanes <= RF_MAX_LANES);
			require(ends(hs->remote.local_name, sizeof(hs->remote.local_name)));
			if (rf_handshake_verify(hs, secret, &message->u.proof))
				rf_handshake_welcome(hs, secret, message->u.proof.token_id, 1, 1);
			else
				rf_handshake_refuse(hs, RF_ERROR_AUTHENTICATION, "no");
			break;
		case RF_CONTROL_WELCOME:
			require(message->u.welcome.lanes >= 1 && message->u.welcome.lanes <= hs->own.lanes);
			break;
		case RF_CONTROL_ATTACH:
			require(hs->state == RF_HS_ATTACH && message->u.attach.lane < RF_MAX_LANES);
			rf_attach_verify(&message->u.attach, secret);
			break;
		case RF_CONTROL_QP:
			require(message->u.qp.lane < RF_MAX_LANES);
			break;
		case RF_CONTROL_LINKED:
			require(message->u.linked.rkey != 0 && message->u.linked.number != 0 &&
					message->u.linked.remote_addr != 0);
			require(message->u.linked.remote_addr + (uint64_t) RF_MAX_LANES * RF_PROOF_SIZE >
					message->u.linked.remote_addr);
			break;
		case RF_CONTROL_OPEN:
			require(message->u.open.producer_flow < RF_MAX_FLOWS &&
					message->u.open.consumer_flow < RF_MAX_FLOWS &&
					message->u.open.lane < RF_MAX_LANES);
			break;
		case RF_CONTROL_OPENED:
			require(message->u.opened.slot_count >= 1 &&
					message->u.opened.slot_count <= RF_MAX_SLOTS &&
					message->u.opened.slot_size >= 4096 &&
					message->u.opened.slot_size <= RF_MAX_MESSAGE);
			/* In a pool it is the pool's buffers that follow each other. */
			require(message->u.opened.remote_addr +
					message->u.opened.slot_size *
					(uint64_t) (message->u.opened.pool_buffers > 0 ?
								message->u.opened.pool_buffers :
								message->u.opened.slot_count) >
					message->u.opened.remote_addr);
			break;
		case RF_CONTROL_OPEN_FAILED:
			require(message->u.open_failed.reason > RF_ERROR_NONE &&
					message->u.open_failed.reason <= RF_ERROR_GONE &&
					ends(message->u.open_failed.message, sizeof(message->u.open_failed.message)));
			break;
		case RF_CONTROL_READY:
			rf_handshake_up(hs);
			break;
		case RF_CONTROL_PONG:
		case RF_CONTROL_BYE:
		case RF_CONTROL_BROKEN:
			break;
		default:
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	RfHandshake *hs;
	RfControlHello own;
	RfError		error;
	size_t		piece;

	if (size < 1)
		return 0;
	hs = malloc(sizeof(*hs));
	introduce(&own);
	if ((data[0] & 15) < 2)
	{
		rf_handshake_initiator(hs, &own, secret, secret);
		hs->state = (data[0] & 15) == 0 ? RF_HS_WAIT_CHALLENGE : RF_HS_WAIT_WELCOME;
	}
	else
	{
		rf_handshake_acceptor(hs, &own);
		if ((data[0] & 15) >= 3)
			hs->state = (data[0] & 15) == 3 ? RF_HS_WAIT_PROOF : (data[0] & 15) == 4 ? RF_HS_SETUP :
				(data[0] & 15) == 5 ? RF_HS_UP : RF_HS_WAIT_FIRST;
	}
	hs->remote = own;
	piece = data[0] & 0x80 ? 3 : SIZE_MAX;
	data++;
	size--;

	for (;;)
	{
		RfControlMessage message;
		uint8_t    *place;
		size_t		room = rf_handshake_room(hs, &place);
		RfHandshakeStep step;

		if (room > piece)
			room = piece;
		if (room > size)
			room = size;
		require(place + room <= hs->in + sizeof(hs->in));
		memcpy(place, data, room);
		rf_handshake_filled(hs, (uint32_t) room);
		data += room;
		size -= room;
		memset(&error, 0, sizeof(error));
		step = rf_handshake_step(hs, &message, &error);
		require(hs->out_used <= RF_CONTROL_OUT_MAX);
		if (step == RF_STEP_FAILED)
		{
			require(error.kind != RF_ERROR_NONE && error.message[0] != '\0' &&
					hs->state == RF_HS_FAILED);
			break;
		}
		if (step == RF_STEP_MESSAGE)
			check_message(hs, &message);
		else if (size == 0)
			break;
	}
	rf_handshake_free(hs);
	free(hs);
	return 0;
}
