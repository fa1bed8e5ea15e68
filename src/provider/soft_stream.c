/*
 * soft_stream.c - the software provider over a byte stream, which is TCP between hosts.
 *
 * A work request is a frame and its payload; a chain leaves in one writev. The receiver checks key,
 * address and length before it stores the payload in place, and answers with cumulative
 * acknowledgements: a work request completes only when the peer has executed it. A forbidden
 * request is answered by a NAK, after which the stream is dead.
 *
 * With a key the same bytes travel in records of TLS (base/tls.h), of which some may have been read
 * ahead while other queue pairs have their turn: then the socket says nothing, and RfQp.unread
 * does.
 *
 * Nothing here blocks or waits; a frame may arrive and leave in any number of pieces.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "soft.h"

_Static_assert(sizeof(RfSoftFrame) == 24, "the frame has no holes");

bool
rf_soft_stream_connect(RfQp *qp, int family, const RfTlsKey *key, RfError *error)
{
	int			one = 1;
	const RfDevice *sizes = &qp->domain->device;

	qp->first = qp->last = qp->tx.sent = 1;
	qp->rx.stage = malloc(RF_SOFT_STAGE);
	if (qp->rx.stage == NULL)
		return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
	if (family == AF_INET || family == AF_INET6)
	{
		/* the caller limits the silence of the peer's kernel (TCP_USER_TIMEOUT) */
		if (setsockopt(qp->sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
			return rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
							"could not set the options of a queue pair's socket");
	}
	/* sizes only improve speed; any size that the kernel chooses works */
	if (sizes->sndbuf > 0)
		(void) setsockopt(qp->sock, SOL_SOCKET, SO_SNDBUF, &sizes->sndbuf, sizeof(int));
	if (sizes->rcvbuf > 0)
		(void) setsockopt(qp->sock, SOL_SOCKET, SO_RCVBUF, &sizes->rcvbuf, sizeof(int));
	if (key != NULL)
	{
		qp->tls = rf_tls_new(qp->sock, key, RF_SOFT_RECORDS, error);
		if (qp->tls == NULL)
			return false;
	}
	if (!rf_soft_watch(qp, EPOLLIN))
		return rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"could not watch the socket of a queue pair");
	return true;
}

void
rf_soft_stream_destroy(RfQp *qp)
{
	rf_tls_free(qp->tls);
	free(qp->rx.stage);
}

void
rf_soft_stream_set_unread(RfQp *qp, bool unread)
{
	qp->cq->unread += (int) unread - (int) qp->unread;
	qp->unread = unread;
}

/* ---------- sending ---------- */

static RfSoftWr *
kept_wr(RfQp *qp, uint64_t number)
{
	return &qp->wrs[number & (qp->wrs_size - 1)];
}

/*
 * Nothing is sent after a work request that failed here, nor more compare-and-swaps at once than
 * the peer can keep answers for: then everything waits for an answer. A peer that does not answer
 * delays only itself, and there is always room for the answers.
 */
static bool
held_back(RfQp *qp, uint64_t number)
{
	if (number > qp->first && kept_wr(qp, number - 1)->bad != RF_WC_SUCCESS)
		return true;
	return kept_wr(qp, number)->swaps > qp->tx.swaps_answered + RF_SOFT_MAX_SWAPS;
}

void
rf_soft_stream_post(RfQp *qp, const RfWr *wr)
{
	uint32_t	length;
	RfWcStatus	bad;
	RfSoftWr   *kept;

	pthread_rwlock_rdlock(&qp->domain->lock);
	bad = rf_soft_check_local(qp, wr, &length);
	pthread_rwlock_unlock(&qp->domain->lock);
	kept = rf_soft_append(qp, wr, bad);
	if (kept == NULL)
		return;
	kept->frame = (RfSoftFrame)
	{
		.magic = RF_SOFT_FRAME_MAGIC,
			.opcode = wr->opcode == RF_WR_WRITE ? RF_SOFT_WRITE : RF_SOFT_WRITE_IMM,
			.flags = wr->signaled ? RF_SOFT_FRAME_ACK_ME : 0,
			.length = kept->length,
			.addr = wr->remote_addr,
			.rkey = wr->rkey,
			.imm = wr->imm
	};
	if (wr->opcode == RF_WR_COMPARE_SWAP && kept->bad == RF_WC_SUCCESS)
	{
		qp->tx.swaps_posted++;
		kept->length = 2 * sizeof(uint64_t);
		kept->frame.opcode = RF_SOFT_SWAP;
		kept->frame.length = kept->length;
	}
	kept->swaps = qp->tx.swaps_posted;

	/*
	 * a request that failed here is still sent: its answer shows that everything before it is done
	 */
	if (kept->bad != RF_WC_SUCCESS)
	{
		kept->length = 0;
		kept->frame.opcode = RF_SOFT_NOTHING;
		kept->frame.flags = RF_SOFT_FRAME_ACK_ME;
		kept->frame.length = 0;
	}
	qp->cq->stats.bytes += kept->length;
}

bool
rf_soft_stream_unsent(RfQp *qp)
{
	if (qp->tls != NULL)
	{
		if (rf_tls_unsent(qp->tls))
			return true;
		if (!rf_tls_ready(qp->tls))
			return false;		/* until the peer answers nothing can leave */
	}
	if (qp->tx.control_left > 0 || qp->tx.answers_count > 0 || qp->tx.ack_due)
		return true;
	return qp->tx.sent < qp->last && (qp->tx.offset > 0 || !held_back(qp, qp->tx.sent));
}

typedef struct Gather
{
	struct iovec *iov;
	int			count;
	size_t		bytes;
} Gather;

static void
add_piece(Gather *gather, const void *addr, size_t length, size_t *skip)
{
	if (*skip >= length)
	{
		*skip -= length;
		return;
	}
	gather->iov[gather->count].iov_base = (char *) addr + *skip;
	gather->iov[gather->count].iov_len = length - *skip;
	gather->bytes += length - *skip;
	gather->count++;
	*skip = 0;
}

static void
add_wr(Gather *gather, const RfSoftWr *kept, size_t skip)
{
	add_piece(gather, &kept->frame, sizeof(kept->frame), &skip);
	if (kept->length == 0)
		return;
	if (kept->frame.opcode == RF_SOFT_SWAP)
	{
		add_piece(gather, &kept->wr.compare, sizeof(uint64_t), &skip);
		add_piece(gather, &kept->wr.swap, sizeof(uint64_t), &skip);
		return;
	}
	for (int i = 0; i < kept->wr.num_sge; i++)
	{
		if (kept->wr.sge[i].length > 0)
			add_piece(gather, kept->wr.sge[i].addr, kept->wr.sge[i].length, &skip);
	}
}

static void
add_control(Gather *gather, RfQp *qp)
{
	size_t		skip = sizeof(qp->tx.control) - qp->tx.control_left;

	add_piece(gather, &qp->tx.control, sizeof(qp->tx.control), &skip);
}

/* Accounts for the bytes that the socket took, in the order of gather_output. */
static void
output_left(RfQp *qp, size_t bytes)
{
	for (;;)
	{
		RfSoftWr   *kept;
		size_t		rest;

		if (qp->tx.control_left > 0 && qp->tx.offset == 0)
		{
			size_t		part = bytes < qp->tx.control_left ? bytes : qp->tx.control_left;

			qp->tx.control_left -= part;
			bytes -= part;
			if (qp->tx.control_left > 0)
				return;
		}
		if (bytes == 0)
			return;
		kept = kept_wr(qp, qp->tx.sent);
		rest = sizeof(kept->frame) + kept->length - qp->tx.offset;
		if (bytes < rest)
		{
			qp->tx.offset += bytes;
			return;
		}
		bytes -= rest;
		qp->tx.sent++;
		qp->tx.offset = 0;
	}
}

/*
 * Collects the next output: the rest of a partly sent work request; then the control frame (which
 * goes only between two work requests), or an answer or a new acknowledgement; then further work
 * requests.
 */
static void
gather_output(RfQp *qp, Gather *gather)
{
	uint64_t	number = qp->tx.sent;

	if (qp->tx.offset > 0)
		add_wr(gather, kept_wr(qp, number++), qp->tx.offset);
	/* answers before an acknowledgement of later requests */
	if (qp->tx.control_left == 0 && qp->tx.answers_count > 0)
	{
		qp->tx.control = qp->tx.answers[qp->tx.answers_head++ % RF_SOFT_MAX_SWAPS];
		qp->tx.answers_count--;
		qp->tx.control_left = sizeof(qp->tx.control);
	}
	else if (qp->tx.control_left == 0 && qp->tx.ack_due)
	{
		qp->tx.ack_due = false;
		qp->tx.control = (RfSoftFrame)
		{
			.magic = RF_SOFT_FRAME_MAGIC,
				.opcode = RF_SOFT_ACK,
				.addr = qp->rx.executed
		};
		qp->tx.control_left = sizeof(qp->tx.control);
	}
	if (qp->tx.control_left > 0)
		add_control(gather, qp);
	while (number < qp->last && !held_back(qp, number) &&
		   gather->count + 1 + RF_MAX_SGE <= RF_SOFT_IOV && gather->bytes < RF_SOFT_BURST)
		add_wr(gather, kept_wr(qp, number++), 0);
}

/* Sends one message of several pieces, without a signal or a wait. */
static ssize_t
write_pieces(RfQp *qp, const Gather *gather)
{
	struct msghdr message = {.msg_iov = gather->iov, .msg_iovlen = gather->count};
	ssize_t		sent;

	if (qp->tls != NULL)
		return rf_tls_send(qp->tls, gather->iov, gather->count);
	do
		sent = sendmsg(qp->sock, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent;
}

static void
connection_lost(RfQp *qp)
{
	rf_soft_fail(qp, RF_WC_FLUSHED, true);
}

/* Sends until everything is out or the socket is full. */
void
rf_soft_stream_send(RfQp *qp)
{
	for (;;)
	{
		Gather		gather = {.iov = qp->cq->iov};
		ssize_t		sent;

		gather_output(qp, &gather);
		if (gather.count == 0 && (qp->tls == NULL || !rf_tls_unsent(qp->tls)))
			return;
		sent = write_pieces(qp, &gather);
		qp->cq->stats.posts++;
		if (sent < 0)
		{
			if (errno == EFAULT)
				rf_soft_fail(qp, RF_WC_LOCAL, false);	/* payload unmapped before its completion */

			/*
			 * the peer's last messages are still unread: let the receiver reach the end
			 */
			else if (errno == ENOMEM || errno == ENOBUFS || errno == EAGAIN || errno == EPIPE ||
					 errno == ECONNRESET)
				return;
			else
				connection_lost(qp);
			return;
		}
		output_left(qp, sent);
		if (sent < gather.bytes || gather.count == 0)
			return;
	}
}

/* ---------- receiving ---------- */

/* The peer violated the protocol: refuse work request `executed` + 1 and end the stream. */
static void
refuse(RfQp *qp)
{
	Gather		gather = {.iov = qp->cq->iov};

	if (qp->tx.offset > 0)
		add_wr(&gather, kept_wr(qp, qp->tx.sent), qp->tx.offset);
	if (qp->tx.control_left > 0)
		add_control(&gather, qp);
	for (; qp->tx.answers_count > 0; qp->tx.answers_count--)
	{
		size_t		skip = 0;

		add_piece(&gather, &qp->tx.answers[qp->tx.answers_head++ % RF_SOFT_MAX_SWAPS],
				  sizeof(RfSoftFrame), &skip);
	}

	/*
	 * if it does not fit into the socket at once the peer learns of it only by the end of the
	 * stream
	 */
	if (gather.count == 0 || write_pieces(qp, &gather) == gather.bytes)
	{
		RfSoftFrame nak = {
			.magic = RF_SOFT_FRAME_MAGIC,
			.opcode = RF_SOFT_NAK,
			.addr = qp->rx.executed + 1
		};

		*gather.iov = (struct iovec)
		{
			&nak, sizeof(nak)
		};
		gather.count = 1;
		(void) write_pieces(qp, &gather);
	}
	rf_soft_fail(qp, RF_WC_FLUSHED, true);
}

/*
 * The oldest one has been executed. False: a compare-and-swap that was not answered before its
 * acknowledgement.
 */
static bool
retire(RfQp *qp)
{
	RfSoftWr   *kept = kept_wr(qp, qp->first);

	if (kept->swaps > qp->tx.swaps_answered)
		return false;
	qp->first++;
	if (kept->wr.signaled)
		rf_soft_complete(qp, kept->wr.wr_id, RF_WC_SUCCESS);
	return true;
}

/* The peer has executed everything up to `number`. */
static void
acknowledged(RfQp *qp, uint64_t number)
{
	if (number >= qp->tx.sent)
	{
		refuse(qp);
		return;
	}
	while (qp->first <= number)
	{
		RfWcStatus	bad = kept_wr(qp, qp->first)->bad;

		if (bad != RF_WC_SUCCESS)
		{
			rf_soft_fail(qp, bad, false);
			return;
		}
		if (!retire(qp))
		{
			refuse(qp);
			return;
		}
	}
}

/* The answer to the oldest compare-and-swap without one. */
static void
answered(RfQp *qp)
{
	uint64_t	number = (uint64_t) qp->rx.frame.imm << 32 | qp->rx.frame.rkey;
	RfSoftWr   *kept;
	RfWcStatus	status;
	uint32_t	length;

	if (number < qp->first || number >= qp->tx.sent)
	{
		refuse(qp);
		return;
	}
	kept = kept_wr(qp, number);
	if (kept->frame.opcode != RF_SOFT_SWAP || kept->swaps != qp->tx.swaps_answered + 1)
	{
		refuse(qp);
		return;
	}
	pthread_rwlock_rdlock(&qp->domain->lock);
	status = rf_soft_check_local(qp, &kept->wr, &length);
	if (status == RF_WC_SUCCESS)
		memcpy((void *) kept->wr.sge[0].addr, &qp->rx.frame.addr, sizeof(uint64_t));
	pthread_rwlock_unlock(&qp->domain->lock);
	qp->tx.swaps_answered++;
	kept->bad = status;			/* its region is gone: reported in its turn */
	acknowledged(qp, number);
}

/*
 * The peer has executed everything before `number` and refused that one, which may be only partly
 * sent.
 */
static void
refused(RfQp *qp, uint64_t number)
{
	if (number < qp->first || number > qp->tx.sent || number >= qp->last)
	{
		connection_lost(qp);
		return;
	}
	while (qp->first < number && retire(qp))
		;
	rf_soft_fail(qp, qp->first == number ? RF_WC_REMOTE_ACCESS : RF_WC_TRANSPORT, false);
}

/* Executes the compare-and-swap in qp->rx.frame. False: refused. */
static bool
swap_here(RfQp *qp)
{
	const RfSoftFrame *rx = &qp->rx.frame;
	RfSoftRegion *region;
	uint64_t	found = qp->rx.swap[0];
	bool		good;

	pthread_rwlock_rdlock(&qp->domain->lock);
	region = rf_soft_region(qp->domain, rx->rkey, &qp->mapping_hint);
	good = region != NULL && region->pub.rkey == rx->rkey && rx->addr % sizeof(uint64_t) == 0 &&
		rf_soft_inside((uintptr_t) region->pub.addr, region->pub.length, rx->addr,
					   sizeof(uint64_t)) &&
		qp->tx.answers_count < RF_SOFT_MAX_SWAPS;
	if (good)
		(void) atomic_compare_exchange_strong((_Atomic uint64_t *) (uintptr_t) rx->addr, &found,
											  qp->rx.swap[1]);
	pthread_rwlock_unlock(&qp->domain->lock);
	if (!good)
	{
		refuse(qp);
		return false;
	}
	qp->tx.answers[(qp->tx.answers_head + qp->tx.answers_count++) % RF_SOFT_MAX_SWAPS] =
		(RfSoftFrame)
	{
		.magic = RF_SOFT_FRAME_MAGIC,
			.opcode = RF_SOFT_SWAPPED,
			.addr = found,
			.imm = (uint32_t) ((qp->rx.executed + 1) >> 32),
			.rkey = (uint32_t) (qp->rx.executed + 1)
	};
	return true;
}

static void
executed_one(RfQp *qp)
{
	if (qp->rx.frame.opcode == RF_SOFT_SWAP && !swap_here(qp))
		return;
	qp->rx.executed++;
	if (qp->rx.frame.opcode == RF_SOFT_WRITE_IMM)
		rf_soft_received(qp, qp->rx.frame.imm, qp->rx.frame.length);
	if (qp->rx.frame.flags & RF_SOFT_FRAME_ACK_ME)
		qp->tx.ack_due = true;
	qp->rx.in_payload = false;
}

/*
 * The address for the rest of the payload; NULL if the region does not exist (any more). Under
 * RfDomain.lock, shared.
 */
static char *
landing_place(RfQp *qp)
{
	const RfSoftFrame *rx = &qp->rx.frame;
	RfSoftRegion *region;

	if (rx->opcode == RF_SOFT_SWAP)
		return (char *) qp->rx.swap + qp->rx.done;
	region = rf_soft_region(qp->domain, rx->rkey, &qp->mapping_hint);
	if (region == NULL || region->pub.rkey != rx->rkey ||
		!rf_soft_inside((uintptr_t) region->pub.addr, region->pub.length, rx->addr, rx->length))
		return NULL;
	return (char *) (uintptr_t) rx->addr + qp->rx.done;
}

/* A whole frame is in qp->rx.frame. */
static void
take_frame(RfQp *qp)
{
	const RfSoftFrame *rx = &qp->rx.frame;

	if (rx->magic != RF_SOFT_FRAME_MAGIC || rx->length > RF_MAX_MESSAGE ||
		(rx->flags & ~RF_SOFT_FRAME_ACK_ME) != 0)
	{
		refuse(qp);
		return;
	}
	switch (rx->opcode)
	{
		case RF_SOFT_WRITE:
		case RF_SOFT_WRITE_IMM:
			qp->rx.done = 0;
			if (rx->length == 0)
				executed_one(qp);
			else
				qp->rx.in_payload = true;
			break;
		case RF_SOFT_SWAP:
			if (rx->length != sizeof(qp->rx.swap))
				refuse(qp);
			else
			{
				qp->rx.done = 0;
				qp->rx.in_payload = true;
			}
			break;
		case RF_SOFT_SWAPPED:
			if (rx->length != 0)
				refuse(qp);
			else
				answered(qp);
			break;
		case RF_SOFT_NOTHING:
			if (rx->length != 0)
				refuse(qp);
			else
				executed_one(qp);
			break;
		case RF_SOFT_ACK:
			acknowledged(qp, rx->addr);
			break;
		case RF_SOFT_NAK:
			refused(qp, rx->addr);
			break;
		default:
			refuse(qp);
			break;
	}
}

/* Consumes the bytes that were read ahead. */
static void
take_stage(RfQp *qp)
{
	while (!qp->failed && qp->rx.stage_count > 0)
	{
		const char *from = qp->rx.stage + qp->rx.stage_head;
		size_t		part;

		if (!qp->rx.in_payload)
		{
			if (qp->rx.stage_count < sizeof(qp->rx.frame))
				break;
			part = sizeof(qp->rx.frame);
			memcpy(&qp->rx.frame, from, part);
			take_frame(qp);
		}
		else
		{
			char	   *to;

			part = qp->rx.frame.length - qp->rx.done;
			if (part > qp->rx.stage_count)
				part = qp->rx.stage_count;
			pthread_rwlock_rdlock(&qp->domain->lock);
			to = landing_place(qp);
			if (to != NULL)
				memcpy(to, from, part);
			pthread_rwlock_unlock(&qp->domain->lock);
			if (to == NULL)
			{
				refuse(qp);
				return;
			}
			qp->rx.done += part;
			if (qp->rx.done == qp->rx.frame.length)
				executed_one(qp);
		}
		qp->rx.stage_head += part;
		qp->rx.stage_count -= part;
	}
	if (qp->rx.stage_count == 0)
		qp->rx.stage_head = 0;
}

/*
 * Reads once: the rest of a payload directly to its place, and the following bytes to the stage;
 * under TLS one record at most, to one of the two. Returns recvmsg's result; *no_place: the place
 * is gone.
 */
static ssize_t
read_once(RfQp *qp, size_t *asked, bool *no_place)
{
	struct iovec iov[2];
	struct msghdr message = {.msg_iov = iov};
	size_t		payload = 0;
	ssize_t		got;

	*no_place = false;
	if (qp->rx.stage_head > 0)
	{
		memmove(qp->rx.stage, qp->rx.stage + qp->rx.stage_head, qp->rx.stage_count);
		qp->rx.stage_head = 0;
	}
	pthread_rwlock_rdlock(&qp->domain->lock);
	if (qp->rx.in_payload)
	{
		char	   *to = landing_place(qp);

		if (to == NULL)
		{
			pthread_rwlock_unlock(&qp->domain->lock);
			*no_place = true;
			return 0;
		}
		payload = qp->rx.frame.length - qp->rx.done;
		iov[message.msg_iovlen++] = (struct iovec)
		{
			to, payload
		};
	}
	iov[message.msg_iovlen++] = (struct iovec)
	{
		qp->rx.stage + qp->rx.stage_count, RF_SOFT_STAGE - qp->rx.stage_count
	};
	*asked = payload + RF_SOFT_STAGE - qp->rx.stage_count;
	if (qp->tls != NULL)
		got = rf_tls_receive(qp->tls, iov[0].iov_base, iov[0].iov_len);
	else
	{
		do
			got = recvmsg(qp->sock, &message, MSG_DONTWAIT);
		while (got < 0 && errno == EINTR);
	}
	pthread_rwlock_unlock(&qp->domain->lock);
	if (got > 0)
	{
		size_t		landed = got < payload ? got : payload;

		qp->rx.done += landed;
		qp->rx.stage_count += got - landed;
	}
	return got;
}

/*
 * Receives until the socket is empty, the completion queue is full or it is the next queue pair's
 * turn.
 */
void
rf_soft_stream_receive(RfQp *qp)
{
	RfCq	   *cq = qp->cq;
	size_t		budget = RF_SOFT_BURST;

	while (cq->count < cq->depth)
	{
		size_t		asked;
		bool		no_place;
		ssize_t		got = read_once(qp, &asked, &no_place);

		if (no_place)
		{
			refuse(qp);
			return;
		}
		if (got < 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS))
			break;
		if (got <= 0)
		{
			connection_lost(qp);
			return;
		}
		if (qp->rx.in_payload && qp->rx.done == qp->rx.frame.length)
			executed_one(qp);
		take_stage(qp);
		if (qp->failed)
			return;
		if (got >= budget || (got < asked && qp->tls == NULL))
			break;
		budget -= got;
	}
	if (qp->tls != NULL)
		rf_soft_stream_set_unread(qp, rf_tls_unread(qp->tls));
}
