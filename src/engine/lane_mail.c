/*
 * lane_mail.c - immediates of several flows to one peer, in one work request.
 *
 * A join over many nodes sends more immediates than batches: credit, claims, grants, ends. All that
 * a lane has for one peer in one round, of whatever flow, exchange or statement, leave together as
 * an RfMail: adjacent bytes, one request (RDMAbox 5.1). They never wait for company: the round ends
 * with the mail. One alone leaves as an immediate.
 *
 * Order. A mail is the last request of the round, and its words have the order in which the flows
 * sent them. So a word never overtakes a DATA immediate or another word of the same flow, as the
 * peer's checks require. Words and DATA of different flows have no order.
 *
 * Places. A place of the peer's memory, and of ours with the same number, is written again when the
 * peer said that it has read it (RfMail.read, or RF_PATH_READ where nothing else is sent) and when
 * our request is complete. Without a free place immediates leave alone: nothing waits for a peer.
 *
 * Plain C; the lane's thread only.
 */
#include <string.h>

#include "lane.h"

_Static_assert(RF_MAILS * sizeof(RfMail) == RF_PROOF_SIZE, "mails fill the memory of a proof");

/* So many unread ones are told to the peer with an immediate of its own. */
#define TELL_AFTER		(RF_MAILS / 2)

void
rf_lane_mail_begin(LaneConnection *connection)
{
	const RfLaneProof *proof = connection->proof;

	connection->mail.source = (RfMail *) proof->source.addr;
	connection->mail.landing = (const RfMail *) proof->landing;
	connection->mail.remote_addr = proof->remote_addr;
	connection->mail.lkey = proof->source.lkey;
	connection->mail.rkey = proof->rkey;
}

static uint32_t
next_place(const LaneMail *mail)
{
	return mail->sent % RF_MAILS;
}

static bool
has_place(const RfLaneThread *lane, const LaneMail *mail)
{
	return mail->source != NULL && lane->config.merge_limit > 0 &&
		mail->sent - mail->done < RF_MAILS && mail->sent - mail->read_there < RF_MAILS;
}

static void
send_alone(RfLaneThread *lane, int peer, int32_t flow, uint32_t imm)
{
	RfWr	   *wr = rf_lane_request(lane, peer, flow, RF_IMM_KIND(imm), 0, 0, 0);

	wr->imm = imm;
}

/* Puts the words that wait into the chain. They have room there. */
static void
close_mail(RfLaneThread *lane, int peer)
{
	LaneMail   *mail = &lane->connections[peer].mail;
	uint32_t	place = next_place(mail);
	uint32_t	count = mail->count;
	uint32_t	bytes = (uint32_t) ((1 + count) * sizeof(uint32_t));
	RfMail	   *source = &mail->source[place];
	RfWr	   *wr;

	mail->count = 0;
	if (count == 1)
	{
		send_alone(lane, peer, mail->flows[place][0], mail->words[0]);
		return;
	}
	source->read = mail->told = mail->read;
	memcpy(source->words, mail->words, count * sizeof(uint32_t));
	wr = rf_lane_request(lane, peer, LANE_NO_FLOW, RF_IMM_PATH, count, bytes, 0);
	*(RfSge *) wr->sge = (RfSge)
	{
		(const uint8_t *) source, bytes, mail->lkey
	};
	wr->num_sge = 1;
	wr->remote_addr = mail->remote_addr + place * sizeof(RfMail);
	wr->rkey = mail->rkey;
	wr->imm = RF_IMM(RF_IMM_PATH, RF_PATH_MAIL + place, count);
	lane_count(&lane->lane->merged, count - 1);
	mail->sent++;
}

void
rf_lane_mail_close(RfLaneThread *lane)
{
	for (int i = 0; i < lane->touched_count; i++)
	{
		if (lane->connections[lane->touched[i]].mail.count > 0)
			close_mail(lane, lane->touched[i]);
	}
}

bool
rf_lane_mail_add(RfLaneThread *lane, uint32_t index, RfImmKind kind, uint64_t value)
{
	const LaneFlow *local = lane->local[index];
	LaneMail   *mail = &lane->connections[local->peer].mail;
	uint32_t	imm = RF_IMM(kind, local->remote_flow, value);

	if (mail->count == 0 && !rf_lane_has_room(lane, local->peer))
		return false;
	if (mail->count == 0 && !has_place(lane, mail))
	{
		send_alone(lane, local->peer, (int32_t) index, imm);
		return true;
	}
	mail->flows[next_place(mail)][mail->count] = (int32_t) index;
	mail->words[mail->count++] = imm;
	rf_lane_touch(lane, local->peer);
	if (mail->count == RF_MAIL_WORDS)
		close_mail(lane, local->peer);
	return true;
}

/*
 * Tells the peer how many of its mails were read, if it may be waiting for places. Without room for
 * that it is tried again when a mail of the peer arrives or one of ours is complete.
 */
static void
tell_if_due(RfLaneThread *lane, int peer)
{
	LaneMail   *mail = &lane->connections[peer].mail;

	if (mail->read - mail->told < TELL_AFTER || mail->count > 1 || !rf_lane_has_room(lane, peer))
		return;
	send_alone(lane, peer, LANE_NO_FLOW, RF_IMM(RF_IMM_PATH, RF_PATH_READ, mail->read));
	mail->told = mail->read;
}

void
rf_lane_mail_posted(RfLaneThread *lane, LaneConnection *connection, const LanePost *post,
					void (*done) (RfLaneThread *lane, const LanePost *post))
{
	LaneMail   *mail = &connection->mail;
	uint32_t	place = mail->done % RF_MAILS;

	/* RF_PATH_READ has no words. */
	if (post->slots > 0)
		mail->done++;
	for (uint32_t i = 0; i < post->slots; i++)
	{
		if (RF_IMM_KIND(mail->source[place].words[i]) == RF_IMM_END)
			done(lane, &(LanePost) {.flow = mail->flows[place][i], .kind = RF_IMM_END});
	}
	tell_if_due(lane, (int) (connection - lane->connections));
}

static bool
peer_has_read(LaneMail *mail, uint16_t read, RfError *error)
{
	uint32_t	more = (uint16_t) (read - mail->read_there);

	if (more > mail->sent - mail->read_there)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer read mails that were not sent");
	mail->read_there += more;
	return true;
}

int
rf_lane_mail_arrived(RfLaneThread *lane, int peer, const RfWc *wc, uint32_t *words,
					 RfError *error)
{
	LaneMail   *mail = &lane->connections[peer].mail;
	uint32_t	count = RF_IMM_VALUE(wc->imm);
	RfMail		copy;

	if (mail->source != NULL && RF_IMM_FLOW(wc->imm) == RF_PATH_READ && wc->byte_len == 0)
		return peer_has_read(mail, (uint16_t) count, error) ? 0 : -1;
	if (mail->source == NULL || RF_IMM_FLOW(wc->imm) != RF_PATH_MAIL + mail->read % RF_MAILS ||
		count < 2 || count > RF_MAIL_WORDS || wc->byte_len != (1 + count) * sizeof(uint32_t))
	{
		(void) rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer sent a mail that is not the next one");
		return -1;
	}

	/* Copied before it is checked. */
	memcpy(&copy, &mail->landing[mail->read % RF_MAILS], wc->byte_len);
	mail->read++;
	if (!peer_has_read(mail, (uint16_t) copy.read, error))
		return -1;
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	kind = RF_IMM_KIND(copy.words[i]);

		if (kind == RF_IMM_DATA || kind == RF_IMM_PATH)
		{
			(void) rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
							"the peer sent a mail with an immediate of kind %u", kind);
			return -1;
		}
		words[i] = copy.words[i];
	}
	lane_count(&lane->lane->immediates, count - 1);
	tell_if_due(lane, peer);
	return (int) count;
}
