/*
 * test_handshake.c - the control protocol's parser and state machine (src/engine/handshake.c): both
 * roles against each other in pieces of every size, and every way of being wrong that a byte stream
 * has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/engine/handshake.h"

static int	failures;

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static void
introduce(RfControlHello *hello, uint64_t node)
{
	memset(hello, 0, sizeof(*hello));
	hello->node.words[0] = node;
	hello->node.words[1] = node * 3;
	hello->image.byte_order_mark = 0x01020304;
	memset(hello->nonce, (int) node, sizeof(hello->nonce));
	hello->lanes = 2;
	hello->provider = 1;
	strcpy(hello->local_name, "somewhere");
}

/*
 * Move the queued bytes, at most `piece` bytes at a time; collect the messages for the caller of
 * `to`.
 */
static RfHandshakeStep
deliver(RfHandshake *from, RfHandshake *to, uint32_t piece, RfControlMessage *messages, int *count,
		RfError *error)
{
	while (from->out_used > 0)
	{
		uint8_t    *place;
		uint32_t	room = rf_handshake_room(to, &place);
		uint32_t	take = room < piece ? room : piece;
		RfHandshakeStep step;

		if (take > from->out_used)
			take = from->out_used;
		memcpy(place, from->out, take);
		rf_handshake_sent(from, take);
		rf_handshake_filled(to, take);
		step = rf_handshake_step(to, &messages[*count], error);
		if (step == RF_STEP_FAILED)
			return step;
		if (step == RF_STEP_MESSAGE)
			(*count)++;
	}
	return RF_STEP_MORE;
}

static const uint8_t token_id[16] = "token id 16 byte";
static const uint8_t secret[RF_TOKEN_SIZE] = "a secret of 32 bytes, all of it";
static const uint8_t other_secret[RF_TOKEN_SIZE] = "another secret of 32 bytes here";

static void
whole_handshake(uint32_t piece)
{
	RfHandshake initiator;
	RfHandshake acceptor;
	RfControlHello a;
	RfControlHello b;
	RfControlMessage messages[64];
	RfControlQp qp = {0};
	RfControlOpen open = {.producer_flow = 5, .consumer_flow = 6, .key = 77, .lane = 1};
	uint64_t	stamp = 12345;
	RfError		error;
	int			count = 0;
	bool		good = true;
	char		name[80];

	introduce(&a, 1);
	introduce(&b, 2);
	rf_handshake_initiator(&initiator, &a, token_id, secret);
	rf_handshake_acceptor(&acceptor, &b);
	good &= deliver(&initiator, &acceptor, piece, messages, &count, &error) == RF_STEP_MORE &&
		count == 0;
	good &= acceptor.state == RF_HS_WAIT_PROOF;
	good &= deliver(&acceptor, &initiator, piece, messages, &count, &error) == RF_STEP_MORE &&
		count == 0;
	good &= deliver(&initiator, &acceptor, piece, messages, &count, &error) == RF_STEP_MORE &&
		count == 1;
	good &= messages[0].type == RF_CONTROL_PROOF &&
		memcmp(messages[0].u.proof.token_id, token_id, 16) == 0;
	good &= !rf_handshake_verify(&acceptor, other_secret, &messages[0].u.proof);
	good &= rf_handshake_verify(&acceptor, secret, &messages[0].u.proof);
	good &= rf_handshake_welcome(&acceptor, secret, token_id, 2, 1);
	count = 0;
	good &= deliver(&acceptor, &initiator, piece, messages, &count, &error) == RF_STEP_MORE &&
		count == 1;
	good &= messages[0].type == RF_CONTROL_WELCOME && messages[0].u.welcome.lanes == 2 &&
		initiator.state == RF_HS_SETUP;

	count = 0;
	qp.lane = 1;
	memset(qp.blob, 9, sizeof(qp.blob));
	rf_handshake_put(&initiator, RF_CONTROL_QP, &qp, sizeof(qp));
	rf_handshake_put(&initiator, RF_CONTROL_READY, NULL, 0);
	rf_handshake_put(&initiator, RF_CONTROL_PING, &stamp, sizeof(stamp));
	good &= deliver(&initiator, &acceptor, piece, messages, &count, &error) == RF_STEP_MORE &&
		count == 2;
	good &= messages[0].type == RF_CONTROL_QP && messages[0].u.qp.blob[127] == 9 &&
		messages[1].type == RF_CONTROL_READY;
	rf_handshake_up(&acceptor);
	rf_handshake_up(&initiator);
	count = 0;
	good &= deliver(&acceptor, &initiator, piece, messages, &count, &error) == RF_STEP_MORE &&
		count == 1;
	good &= messages[0].type == RF_CONTROL_PONG && messages[0].u.stamp == stamp;
	count = 0;
	rf_handshake_put(&acceptor, RF_CONTROL_OPEN, &open, sizeof(open));
	rf_handshake_put(&acceptor, RF_CONTROL_BYE, NULL, 0);
	good &= deliver(&acceptor, &initiator, piece, messages, &count, &error) == RF_STEP_MORE &&
		count == 2;
	good &= messages[0].type == RF_CONTROL_OPEN && messages[0].u.open.key == 77 &&
		messages[1].type == RF_CONTROL_BYE;
	snprintf(name, sizeof(name), "whole handshake in pieces of %u bytes", piece);
	check(good, name);
	rf_handshake_free(&initiator);
	rf_handshake_free(&acceptor);
}

static RfError last_error;

/*
 * A message into a fresh acceptor or into one in the given state; true when it is refused with that
 * kind of error.
 */
static bool
refused(RfHandshakeState state, const void *bytes, uint32_t length, RfErrorKind kind)
{
	RfHandshake hs;
	RfControlHello own;
	RfControlMessage message;
	RfError		error = {0};
	const uint8_t *from = bytes;
	bool		result = false;

	introduce(&own, 2);
	rf_handshake_acceptor(&hs, &own);
	hs.state = state;
	hs.remote = own;
	for (;;)
	{
		uint8_t    *place;
		uint32_t	room = rf_handshake_room(&hs, &place);
		uint32_t	take = room < length ? room : length;

		memcpy(place, from, take);
		rf_handshake_filled(&hs, take);
		from += take;
		length -= take;
		switch (rf_handshake_step(&hs, &message, &error))
		{
			case RF_STEP_FAILED:
				last_error = error;
				result = error.kind == kind && hs.state == RF_HS_FAILED && error.message[0] != '\0';
				rf_handshake_free(&hs);
				return result;
			case RF_STEP_MORE:
			case RF_STEP_MESSAGE:
				if (length == 0)
				{
					rf_handshake_free(&hs);
					return false;
				}
		}
	}
}

static uint32_t
frame(uint8_t *out, RfControlType type, const void *payload, uint32_t length)
{
	return rf_control_frame(out, type, payload, length);
}

static void
wrong_bytes(void)
{
	uint8_t		out[sizeof(RfControlHeader) + RF_CONTROL_MAX];
	RfControlHello hello;
	RfControlHeader header;
	uint32_t	length;
	uint64_t	stamp = 1;

	introduce(&hello, 1);
	check(refused(RF_HS_WAIT_FIRST, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 26, RF_ERROR_PROTOCOL),
		  "HTTP is refused");
	memset(out, 0, sizeof(out));
	check(refused(RF_HS_WAIT_FIRST, out, 64, RF_ERROR_PROTOCOL), "zeros are refused");

	length = frame(out, RF_CONTROL_HELLO, &hello, sizeof(hello));
	memcpy(&header, out, sizeof(header));
	header.length = 0xffffffff;
	memcpy(out, &header, sizeof(header));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_PROTOCOL),
		  "a length beyond the limit is refused before anything is read for it");
	header.length = sizeof(hello) - 1;
	memcpy(out, &header, sizeof(header));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_PROTOCOL),
		  "a HELLO that is too short is refused");
	header.length = sizeof(hello);
	header.reserved = 1;
	memcpy(out, &header, sizeof(header));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_PROTOCOL),
		  "a reserved word that is set is refused");
	header.reserved = 0;
	header.version = 77;
	memcpy(out, &header, sizeof(header));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_VERSION),
		  "a later version is refused as that");
	check(strstr(last_error.hint, "on this node") != NULL, "and this node is to be upgraded");
	header.version = RF_WIRE_VERSION - 1;
	memcpy(out, &header, sizeof(header));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_VERSION),
		  "an earlier version is refused as that");
	check(strstr(last_error.hint, "on the other node") != NULL,
		  "and the other one is to be upgraded");

	hello.lanes = 0;
	length = frame(out, RF_CONTROL_HELLO, &hello, sizeof(hello));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_PROTOCOL), "no lanes are refused");
	hello.lanes = 1000;
	length = frame(out, RF_CONTROL_HELLO, &hello, sizeof(hello));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_PROTOCOL), "too many lanes are refused");
	hello.lanes = 1;
	memset(hello.local_name, 'x', sizeof(hello.local_name));
	length = frame(out, RF_CONTROL_HELLO, &hello, sizeof(hello));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_PROTOCOL),
		  "a name without an end is refused");
	introduce(&hello, 1);
	hello.image.byte_order_mark = 0x04030201;
	length = frame(out, RF_CONTROL_HELLO, &hello, sizeof(hello));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_VERSION),
		  "another byte order is refused");

	length = frame(out, RF_CONTROL_PING, &stamp, sizeof(stamp));
	check(refused(RF_HS_WAIT_FIRST, out, length, RF_ERROR_PROTOCOL),
		  "PING before HELLO is refused");
	check(refused(RF_HS_WAIT_PROOF, out, length, RF_ERROR_PROTOCOL),
		  "PING before PROOF is refused");
	check(refused(RF_HS_DECIDE, out, length, RF_ERROR_PROTOCOL),
		  "anything before the decision is refused");
	check(refused(RF_HS_ATTACH, out, length, RF_ERROR_PROTOCOL),
		  "anything behind ATTACH is refused");
	check(!refused(RF_HS_UP, out, length, RF_ERROR_PROTOCOL), "PING is good when up");
	length = frame(out, 999, &stamp, sizeof(stamp));
	check(refused(RF_HS_UP, out, length, RF_ERROR_PROTOCOL), "an unknown type is refused");
}

static bool
open_refused(RfControlOpen open)
{
	uint8_t		out[256];

	return refused(RF_HS_UP, out, frame(out, RF_CONTROL_OPEN, &open, sizeof(open)),
				   RF_ERROR_PROTOCOL);
}

static bool
opened_refused(RfControlOpened opened)
{
	uint8_t		out[256];

	return refused(RF_HS_UP, out, frame(out, RF_CONTROL_OPENED, &opened, sizeof(opened)),
				   RF_ERROR_PROTOCOL);
}

static void
wrong_numbers(void)
{
	RfControlOpen open = {.producer_flow = 1, .consumer_flow = 2, .key = 3, .lane = 0};
	RfControlOpened opened = {.producer_flow = 1,
		.consumer_flow = 2,
		.remote_addr = 4096,
		.rkey = 5,
		.slot_count = 4,
		.slot_size = 262144,
	.weight = 10};
	RfControlOpened wrong;
	RfControlOpenFailed failed = {.producer_flow = 1, .reason = RF_ERROR_RESOURCES};
	RfControlQp qp = {0};
	RfControlLinked linked = {.remote_addr = 4096, .rkey = 1, .number = 1};
	RfControlLinked crooked;
	uint8_t		out[1024];

	check(!open_refused(open), "a good OPEN passes");
	open.consumer_flow = RF_MAX_FLOWS;
	check(open_refused(open), "OPEN of a flow that cannot be is refused");
	open.consumer_flow = 2;
	open.lane = 16;
	check(open_refused(open), "OPEN on a lane that cannot be is refused");

	check(!opened_refused(opened), "a good OPENED passes");
	wrong = opened;
	wrong.slot_count = 0;
	check(opened_refused(wrong), "OPENED with no slots is refused");
	wrong.slot_count = RF_MAX_SLOTS + 1;
	check(opened_refused(wrong), "OPENED with too many slots is refused");
	wrong = opened;
	wrong.slot_size = 5000;
	check(opened_refused(wrong), "OPENED with an odd slot size is refused");
	wrong.slot_size = 0x80000000u;
	check(opened_refused(wrong), "OPENED with a giant slot size is refused");
	wrong = opened;
	wrong.remote_addr = UINT64_MAX - 4096;
	check(opened_refused(wrong), "OPENED whose buffers wrap around is refused");
	wrong = opened;
	wrong.rkey = 0;
	check(opened_refused(wrong), "OPENED without a key is refused");
	wrong = opened;
	wrong.weight = 0;
	check(opened_refused(wrong), "OPENED without a weight is refused");
	wrong.weight = 101;
	check(opened_refused(wrong), "OPENED with too large a weight is refused");

	wrong = opened;
	wrong.remote_addr = 8192;
	wrong.pool_buffers = 16;
	wrong.pool_claimable = 14;
	check(!opened_refused(wrong), "a good OPENED with a shared receive pool passes");
	wrong.pool_claimable = 17;
	check(opened_refused(wrong), "OPENED with more buffers to claim than there are is refused");
	wrong.pool_claimable = 14;
	wrong.pool_buffers = 65;
	check(opened_refused(wrong), "OPENED with too large a pool is refused");
	wrong.pool_buffers = 16;
	wrong.remote_addr = 64;
	check(opened_refused(wrong), "OPENED without room for the words of a pool is refused");
	wrong.remote_addr = UINT64_MAX - 8 * 262144;
	check(opened_refused(wrong), "OPENED whose pool wraps around is refused");

	memset(failed.message, 'x', sizeof(failed.message));
	check(refused(RF_HS_UP, out, frame(out, RF_CONTROL_OPEN_FAILED, &failed, sizeof(failed)),
				  RF_ERROR_PROTOCOL),
		  "OPEN_FAILED with a message without an end is refused");
	strcpy(failed.message, "x");
	failed.reason = 1000;
	check(refused(RF_HS_UP, out, frame(out, RF_CONTROL_OPEN_FAILED, &failed, sizeof(failed)),
				  RF_ERROR_PROTOCOL),
		  "OPEN_FAILED with an unknown reason is refused");
	qp.lane = 99;
	check(refused(RF_HS_SETUP, out, frame(out, RF_CONTROL_QP, &qp, sizeof(qp)), RF_ERROR_PROTOCOL),
		  "QP of a lane that cannot be is refused");
	check(refused(RF_HS_UP, out, frame(out, RF_CONTROL_QP, &qp, sizeof(qp)), RF_ERROR_PROTOCOL),
		  "QP when up is refused");

	check(!refused(RF_HS_SETUP, out, frame(out, RF_CONTROL_LINKED, &linked, sizeof(linked)),
				   RF_ERROR_PROTOCOL),
		  "a good LINKED passes");
	check(refused(RF_HS_UP, out, frame(out, RF_CONTROL_LINKED, &linked, sizeof(linked)),
				  RF_ERROR_PROTOCOL),
		  "LINKED when up is refused");
	crooked = linked;
	crooked.rkey = 0;
	check(refused(RF_HS_SETUP, out, frame(out, RF_CONTROL_LINKED, &crooked, sizeof(crooked)),
				  RF_ERROR_PROTOCOL),
		  "LINKED without a key is refused");
	crooked = linked;
	crooked.number = 0;
	check(refused(RF_HS_SETUP, out, frame(out, RF_CONTROL_LINKED, &crooked, sizeof(crooked)),
				  RF_ERROR_PROTOCOL),
		  "LINKED without a number is refused");
	crooked = linked;
	crooked.remote_addr = UINT64_MAX - RF_PROOF_SIZE;
	check(refused(RF_HS_SETUP, out, frame(out, RF_CONTROL_LINKED, &crooked, sizeof(crooked)),
				  RF_ERROR_PROTOCOL),
		  "LINKED whose memory wraps around is refused");
	for (int state = RF_HS_SETUP; state <= RF_HS_UP; state++)
		check(!refused(state, out, frame(out, RF_CONTROL_BROKEN, NULL, 0), RF_ERROR_PROTOCOL),
			  "BROKEN passes before and after");
	check(refused(RF_HS_WAIT_WELCOME, out, frame(out, RF_CONTROL_BROKEN, NULL, 0),
				  RF_ERROR_PROTOCOL),
		  "but not before the proof of the token");
}

/* The offers and demands of both ends decide what may be chosen. */
static bool
welcome_demanded(uint32_t own, uint32_t remote, uint32_t chosen, RfEncryption demand)
{
	RfHandshake initiator;
	RfHandshake acceptor;
	RfControlHello a;
	RfControlHello b;
	RfControlMessage messages[8];
	RfError		error;
	int			count = 0;
	bool		taken;

	introduce(&a, 1);
	introduce(&b, 2);
	a.provider = own;
	b.provider = remote;
	b.encryption = demand;
	rf_handshake_initiator(&initiator, &a, token_id, secret);
	rf_handshake_acceptor(&acceptor, &b);
	deliver(&initiator, &acceptor, 4096, messages, &count, &error);
	deliver(&acceptor, &initiator, 4096, messages, &count, &error);
	deliver(&initiator, &acceptor, 4096, messages, &count, &error);
	rf_handshake_welcome(&acceptor, secret, token_id, 2, chosen);
	taken = deliver(&acceptor, &initiator, 4096, messages, &count, &error) == RF_STEP_MORE;
	rf_handshake_free(&initiator);
	rf_handshake_free(&acceptor);
	return taken;
}

static bool
welcome_taken(uint32_t own, uint32_t remote, uint32_t chosen)
{
	return welcome_demanded(own, remote, chosen, RF_ENCRYPTION_AUTO);
}

static void
offers(void)
{
	check(!welcome_demanded(RF_OFFER_ALL, RF_OFFER_ALL, RF_OFFER_VERBS, RF_ENCRYPTION_REQUIRE) &&
		  welcome_demanded(RF_OFFER_ALL, RF_OFFER_ALL, RF_OFFER_SOFT, RF_ENCRYPTION_REQUIRE),
		  "a device may not be chosen where encryption is required");
	check(welcome_taken(RF_OFFER_ALL, RF_OFFER_ALL, RF_OFFER_VERBS) &&
		  welcome_taken(RF_OFFER_ALL, RF_OFFER_ALL, RF_OFFER_SOFT) &&
		  welcome_taken(RF_OFFER_ALL, RF_OFFER_SOFT, RF_OFFER_SOFT) &&
		  welcome_taken(RF_OFFER_VERBS, RF_OFFER_ALL, RF_OFFER_VERBS),
		  "one that both offer may be chosen");
	check(!welcome_taken(RF_OFFER_ALL, RF_OFFER_SOFT, RF_OFFER_VERBS) &&
		  !welcome_taken(RF_OFFER_VERBS, RF_OFFER_ALL, RF_OFFER_SOFT) &&
		  !welcome_taken(RF_OFFER_ALL, RF_OFFER_ALL, RF_OFFER_ALL) &&
		  !welcome_taken(RF_OFFER_ALL, RF_OFFER_ALL, 0),
		  "nothing else may");
}

/* An acceptor that does not know the secret, or that changes the offers. */
static void
wrong_proofs(void)
{
	RfHandshake initiator;
	RfHandshake acceptor;
	RfControlHello a;
	RfControlHello b;
	RfControlMessage messages[8];
	RfControlAttach attach;
	RfControlAttached attached;
	RfError		error;
	int			count = 0;

	introduce(&a, 1);
	introduce(&b, 2);
	rf_handshake_initiator(&initiator, &a, token_id, secret);
	rf_handshake_acceptor(&acceptor, &b);
	deliver(&initiator, &acceptor, 4096, messages, &count, &error);
	deliver(&acceptor, &initiator, 4096, messages, &count, &error);
	deliver(&initiator, &acceptor, 4096, messages, &count, &error);
	acceptor.remote.lanes = 1;
	check(!rf_handshake_verify(&acceptor, secret, &messages[0].u.proof),
		  "a proof over another introduction does not match");
	acceptor.remote.lanes = 2;
	rf_handshake_welcome(&acceptor, other_secret, token_id, 2, 1);
	check(deliver(&acceptor, &initiator, 4096, messages, &count, &error) == RF_STEP_FAILED &&
		  error.kind == RF_ERROR_AUTHENTICATION,
		  "an acceptor that does not know the token is refused");
	rf_handshake_free(&initiator);
	rf_handshake_free(&acceptor);

	rf_handshake_initiator(&initiator, &a, token_id, secret);
	rf_handshake_acceptor(&acceptor, &b);
	rf_handshake_refuse(&acceptor, RF_ERROR_RESOURCES, "full\nup");
	check(deliver(&acceptor, &initiator, 1, messages, &count, &error) == RF_STEP_FAILED &&
		  error.kind == RF_ERROR_RESOURCES && strstr(error.message, "full?up") != NULL,
		  "REFUSED brings its reason, cleaned");
	rf_handshake_free(&initiator);
	rf_handshake_free(&acceptor);

	rf_handshake_initiator(&initiator, &a, token_id, secret);
	rf_handshake_acceptor(&acceptor, &b);
	rf_handshake_refuse(&acceptor, RF_REFUSED_CROSSING, "crossing");
	check(deliver(&acceptor, &initiator, 7, messages, &count, &error) == RF_STEP_FAILED &&
		  initiator.crossing,
		  "REFUSED for a crossing connection is told apart");
	rf_handshake_free(&initiator);
	rf_handshake_free(&acceptor);

	rf_attach_fill(&attach, secret, token_id, 3);
	check(rf_attach_verify(&attach, secret), "ATTACH verifies");
	check(!rf_attach_verify(&attach, other_secret), "ATTACH with another secret does not");
	attach.lane = 4;
	check(!rf_attach_verify(&attach, secret), "ATTACH for another lane does not");

	rf_attached_fill(&attached, secret, token_id, 3);
	check(rf_attached_verify(&attached, secret, token_id, 3), "ATTACHED verifies");
	check(!rf_attached_verify(&attached, other_secret, token_id, 3),
		  "ATTACHED with another secret does not");
	check(!rf_attached_verify(&attached, secret, token_id, 4), "nor for another lane");
	check(!rf_attached_verify(&attached, secret, secret, 3), "nor for another connection");
	rf_attach_fill(&attach, secret, token_id, 3);
	memcpy(attached.hmac, attach.hmac, sizeof(attached.hmac));
	check(!rf_attached_verify(&attached, secret, token_id, 3), "nor does the question sent back");
}

/*
 * Two ends with their policies, which somebody on the way may replace; 0: no connection, else 1 +
 * the policy of both.
 */
static int
agreed(RfEncryption own, RfEncryption remote, RfEncryption own_heard, RfEncryption remote_heard,
	   bool *same_secret)
{
	RfHandshake initiator;
	RfHandshake acceptor;
	RfControlHello a;
	RfControlHello b;
	RfControlMessage messages[8];
	uint8_t		secrets[2][RF_TLS_KEY_SIZE];
	RfError		error;
	int			count = 0;
	int			result = 0;

	introduce(&a, 1);
	introduce(&b, 2);
	a.encryption = own;
	b.encryption = remote;
	rf_handshake_initiator(&initiator, &a, token_id, secret);
	rf_handshake_acceptor(&acceptor, &b);
	((RfControlHello *) (initiator.out + sizeof(RfControlHeader)))->encryption = own_heard;
	deliver(&initiator, &acceptor, 4096, messages, &count, &error);
	((RfControlHello *) (acceptor.out + sizeof(RfControlHeader)))->encryption = remote_heard;
	deliver(&acceptor, &initiator, 4096, messages, &count, &error);
	deliver(&initiator, &acceptor, 4096, messages, &count, &error);
	/* An acceptor that does not look is caught by the initiator. */
	if (rf_handshake_verify(&acceptor, secret, &messages[0].u.proof) || own_heard != own ||
		remote_heard != remote)
	{
		bool		verified = rf_handshake_verify(&acceptor, secret, &messages[0].u.proof);

		rf_handshake_welcome(&acceptor, secret, token_id, 2, RF_OFFER_SOFT);
		if (deliver(&acceptor, &initiator, 4096, messages, &count, &error) == RF_STEP_MORE)
			result = verified && rf_handshake_encryption(&initiator) ==
				rf_handshake_encryption(&acceptor) ?
				1 + rf_handshake_encryption(&initiator) :
				-1;
	}
	*same_secret = result > 0 && rf_handshake_tls_secret(&initiator, true, secret, secrets[0]) &&
		rf_handshake_tls_secret(&acceptor, false, secret, secrets[1]) &&
		memcmp(secrets[0], secrets[1], RF_TLS_KEY_SIZE) == 0 &&
		memcmp(secrets[0], secret, RF_TLS_KEY_SIZE) != 0;
	rf_handshake_free(&initiator);
	rf_handshake_free(&acceptor);
	return result;
}

static void
policies(void)
{
	bool		good = true;
	bool		refused_all = true;
	bool		same_secret;
	RfControlHello hello;
	uint8_t		out[sizeof(RfControlHeader) + sizeof(hello)];

	for (int own = RF_ENCRYPTION_OFF; own <= RF_ENCRYPTION_REQUIRE; own++)
		for (int remote = RF_ENCRYPTION_OFF; remote <= RF_ENCRYPTION_REQUIRE; remote++)
		{
			good &= agreed(own, remote, own, remote, &same_secret) ==
				1 + (own > remote ? own : remote) &&
				same_secret;
			for (int heard = RF_ENCRYPTION_OFF; heard <= RF_ENCRYPTION_REQUIRE; heard++)
			{
				refused_all &= heard == own ||
					agreed(own, remote, heard, remote, &same_secret) == 0;
				refused_all &= heard == remote ||
					agreed(own, remote, own, heard, &same_secret) == 0;
			}
		}
	check(good, "the stricter of two policies holds at both ends, and they have a secret for it");
	check(refused_all, "a policy that was changed on the way is the end, whatever became of it");
	introduce(&hello, 3);
	hello.encryption = RF_ENCRYPTION_REQUIRE + 1;
	check(refused(RF_HS_WAIT_FIRST, out, frame(out, RF_CONTROL_HELLO, &hello, sizeof(hello)),
				  RF_ERROR_PROTOCOL),
		  "an unknown policy is refused");
}

static void
queue_limit(void)
{
	RfHandshake hs;
	RfControlHello own;
	uint64_t	stamp = 0;
	uint32_t	puts = 0;

	introduce(&own, 1);
	rf_handshake_acceptor(&hs, &own);
	while (rf_handshake_put(&hs, RF_CONTROL_PING, &stamp, sizeof(stamp)))
		puts++;
	check(hs.out_used <= RF_CONTROL_OUT_MAX && puts == RF_CONTROL_OUT_MAX / 24,
		  "a peer that does not read fills a bounded queue");
	rf_handshake_free(&hs);
}

int
main(void)
{
	uint32_t	piece;

	for (piece = 1; piece <= 4096; piece *= 2)
		whole_handshake(piece);
	whole_handshake(13);
	wrong_bytes();
	wrong_numbers();
	wrong_proofs();
	offers();
	policies();
	queue_limit();
	return failures ? 1 : 0;
}
