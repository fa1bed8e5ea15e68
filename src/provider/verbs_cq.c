/*
 * verbs_cq.c - the verbs provider's completion queues: their life, entries for queue pairs, arming,
 * polling, and the order of a failing queue pair's completions.
 *
 * How failures stay in order: every work request gets a place in its queue pair's ring before it
 * goes to the device. A failing queue pair is moved to the error state and gets one last request,
 * the marker, whose completion proves that the device has finished all before it; only then are the
 * requests that never went to the device completed from the ring.
 *
 * Threads and `lock`: see verbs.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

#define POLL_BATCH		64		/* completions taken by one ibv_poll_cq */
#define QUEUE_SHARE		16		/* queue pairs that the second completion queue is made for, half
								 * of what the third is */

/* ---------- completion queues ---------- */

void
rf_verbs_cq_destroy(RfCq *cq)
{
	rf_iwarp_port_destroy(cq->port);
	for (int i = 0; i < cq->queue_count; i++)
		ibv_destroy_cq(cq->queues[i].cq);
	if (cq->td != NULL)
		ibv_dealloc_td(cq->td);
	if (cq->channel != NULL)
		ibv_destroy_comp_channel(cq->channel);
	pthread_mutex_destroy(&cq->lock);
	free(cq->stash);
	free(cq);
}

/* One more queue of the device, of as many entries at most. */
static bool
add_queue(RfCq *cq, int depth)
{
	RfVerbsQueue *queue = &cq->queues[cq->queue_count];

	if (depth > cq->device->attr.max_cqe)
		depth = cq->device->attr.max_cqe;
	if (cq->queue_count == MAX_QUEUES)
	{
		errno = ENOSPC;
		return false;
	}
	queue->cq = ibv_create_cq(cq->device->context, depth, queue, cq->channel, 0);
	if (queue->cq == NULL)
		return false;
	queue->depth = queue->cq->cqe;
	queue->needed = 0;
	queue->armed = false;
	cq->queue_count++;
	return true;
}

RfCq *
rf_verbs_cq_create(RfDevice *device, int depth, RfError *error)
{
	RfCq	   *cq = calloc(1, sizeof(RfCq));
	pthread_mutexattr_t attr;
	int			flags;

	if (cq == NULL)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL,
						"out of memory for a completion queue");
		return NULL;
	}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&cq->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	cq->device = device;
	if (depth < 1)
		depth = 1;
	cq->channel = ibv_create_comp_channel(device->context);
	if (cq->channel == NULL || !add_queue(cq, depth) ||
		(flags = fcntl(cq->channel->fd, F_GETFL)) < 0 ||
		fcntl(cq->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"the RDMA device has no completion queue of %d entries for us", depth);
		rf_verbs_cq_destroy(cq);
		return NULL;
	}
	if (device->iwarp && (cq->port = rf_iwarp_port_create(cq, error)) == NULL)
	{
		rf_verbs_cq_destroy(cq);
		return NULL;
	}
	if (device->thread_domains)
	{
		struct ibv_td_init_attr attr = {0};

		/* They can run out; then the lane's queue pairs share a doorbell with other lanes. */
		cq->td = ibv_alloc_td(device->context, &attr);
	}
	return cq;
}

int
rf_verbs_cq_fd(RfCq *cq)
{
	return cq->port != NULL ? rf_iwarp_port_fd(cq->port) : cq->channel->fd;
}

/*
 * A consumed event is acknowledged at once, an unconsumed event never. A queue without a consumed
 * event since it was armed is still armed, or its event will make the descriptor readable.
 */
void
rf_verbs_cq_arm(RfCq *cq)
{
	struct ibv_cq *source;
	void	   *context;
	bool		armed = false;

	pthread_mutex_lock(&cq->lock);
	if (cq->port != NULL)
		rf_iwarp_progress(cq, true);
	for (int i = 0; i < cq->queue_count; i++)
		armed |= cq->queues[i].armed;
	while (armed && ibv_get_cq_event(cq->channel, &source, &context) == 0)
	{
		((RfVerbsQueue *) context)->armed = false;
		ibv_ack_cq_events(source, 1);
		rf_verbs_count(&cq->events, 1);
	}
	for (int i = 0; i < cq->queue_count; i++)
	{
		if (!cq->queues[i].armed)
			cq->queues[i].armed = ibv_req_notify_cq(cq->queues[i].cq, 0) == 0;
	}
	pthread_mutex_unlock(&cq->lock);
}

void
rf_verbs_cq_stats(RfCq *cq, RfProviderStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->posts = atomic_load_explicit(&cq->posts, memory_order_relaxed);
	stats->work_requests = atomic_load_explicit(&cq->work_requests, memory_order_relaxed);
	stats->bytes = atomic_load_explicit(&cq->bytes, memory_order_relaxed);
	stats->completions = atomic_load_explicit(&cq->completions, memory_order_relaxed);
	stats->events = atomic_load_explicit(&cq->events, memory_order_relaxed);
}

/*
 * Reserves entries for all requests that the queue pair could complete at once: in a queue that has
 * room, in the last one made larger, or in one more. A device need not be able to enlarge queues,
 * and has a limit.
 */
bool
rf_verbs_reserve_entries(RfCq *cq, RfQp *qp, RfError *error)
{
	RfVerbsQueue *last;
	int			depth;

	pthread_mutex_lock(&cq->lock);
	for (int i = 0; i < cq->queue_count && qp->queue == NULL; i++)
	{
		if (cq->queues[i].needed + qp->needed <= cq->queues[i].depth)
			qp->queue = &cq->queues[i];
	}
	last = &cq->queues[cq->queue_count - 1];
	depth = last->needed + qp->needed;
	if (qp->queue == NULL && depth <= cq->device->attr.max_cqe &&
		ibv_resize_cq(last->cq, depth) == 0)
	{
		last->depth = last->cq->cqe;
		qp->queue = last;
	}
	else if (qp->queue == NULL && qp->needed <= cq->device->attr.max_cqe &&
			 add_queue(cq, QUEUE_SHARE * cq->queue_count * qp->needed))
		qp->queue = &cq->queues[cq->queue_count - 1];
	if (qp->queue != NULL)
		qp->queue->needed += qp->needed;
	pthread_mutex_unlock(&cq->lock);
	if (qp->queue == NULL)
	{
		char		detail[192];

		snprintf(detail, sizeof(detail),
				 "It needs %d entries. The device's queues hold %d, and a lane has %d of %d: %s.",
				 qp->needed, cq->device->attr.max_cqe, cq->queue_count, MAX_QUEUES,
				 strerror(errno));
		return rf_error(error, RF_ERROR_RESOURCES, detail,
						"Connect with fewer nodes. rdma.check says how many there is room for.",
						"no room in the RDMA completion queues for another peer");
	}
	return true;
}

/* ---------- completions ---------- */

/* Takes up to `max` completions from the device; fewer: there are no more. */
static int
poll_device(RfCq *cq, int max, struct ibv_wc *wc)
{
	int			taken = 0;

	cq->turn = (cq->turn + 1) % cq->queue_count;
	for (int i = 0; i < cq->queue_count && taken < max; i++)
	{
		RfVerbsQueue *queue = &cq->queues[(cq->turn + i) % cq->queue_count];
		int			got = ibv_poll_cq(queue->cq, max - taken, wc + taken);

		taken += got > 0 ? got : 0;
	}
	return taken;
}

/* Without memory for it the queue pair fails: a completion is lost. */
static void
stash_one(RfQp *owner, const struct ibv_wc *wc)
{
	RfCq	   *cq = owner->cq;

	if (cq->stash_count == cq->stash_size && cq->stash_next > 0)
	{
		memmove(cq->stash, cq->stash + cq->stash_next,
				(size_t) (cq->stash_count - cq->stash_next) * sizeof(struct ibv_wc));
		cq->stash_count -= cq->stash_next;
		cq->stash_next = 0;
	}
	if (cq->stash_count == cq->stash_size)
	{
		int			size = cq->stash_size == 0 ? 256 : cq->stash_size * 2;
		struct ibv_wc *grown = realloc(cq->stash, (size_t) size * sizeof(struct ibv_wc));

		if (grown == NULL)
		{
			rf_verbs_fail(owner, RF_WC_FLUSHED);
			return;
		}
		cq->stash = grown;
		cq->stash_size = size;
	}
	cq->stash[cq->stash_count++] = *wc;
}

/* Takes all completions from the queue, to be polled later. */
void
rf_verbs_stash(RfCq *cq)
{
	struct ibv_wc batch[POLL_BATCH];
	int			got;

	while ((got = poll_device(cq, POLL_BATCH, batch)) > 0)
	{
		for (int i = 0; i < got; i++)
		{
			uint32_t	slot = (uint32_t) (batch[i].wr_id >> 48);
			uint32_t	kind = (uint32_t) (batch[i].wr_id >> 32) & 0xffff;
			RfQp	   *owner = slot < MAX_QPS ? cq->qps[slot] : NULL;

			if (owner == NULL || owner->qp->qp_num != batch[i].qp_num)
				continue;
			if (kind == ID_FAREWELL)
				owner->parting = false;
			else
				stash_one(owner, &batch[i]);
		}
	}
}

void
rf_verbs_imitate(RfQp *qp, uint32_t kind, enum ibv_wc_status status)
{
	struct ibv_wc wc = {
		.wr_id = MAKE_ID(qp->slot, kind, 0),
		.status = status,
		.qp_num = qp->qp->qp_num
	};

	stash_one(qp, &wc);
}

/* ---------- failing ---------- */

void
rf_verbs_list_ailing(RfQp *qp)
{
	if (qp->listed || qp->head == qp->posted)
		return;
	qp->listed = true;
	qp->next_ailing = qp->cq->ailing;
	qp->cq->ailing = qp;
}

void
rf_verbs_unlist_ailing(RfQp *qp)
{
	for (RfQp **link = &qp->cq->ailing; *link != NULL; link = &(*link)->next_ailing)
	{
		if (*link == qp)
		{
			*link = qp->next_ailing;
			break;
		}
	}
	qp->listed = false;
}

/* `first`: the status of the first request that never went to the device. */
void
rf_verbs_fail(RfQp *qp, RfWcStatus first)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_send_wr marker = {
		.wr_id = MAKE_ID(qp->slot, ID_MARKER, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_send_wr *bad;

	if (qp->failed)
		return;
	qp->failed = true;
	qp->first = first;
	if (qp->link != NULL)
	{
		(void) ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
		rf_verbs_stash(qp->cq);
		rf_verbs_imitate(qp, ID_MARKER, IBV_WC_SUCCESS);
		rf_iwarp_release(qp);
	}
	/* Without a marker no completion would come; then posted requests count as done. */
	else if (ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE) != 0 ||
			 ibv_post_send(qp->qp, &marker, &bad) != 0)
	{
		qp->drained = true;
		qp->completed = qp->posted;
	}
	rf_verbs_list_ailing(qp);
}

/* ---------- polling ---------- */

static RfWcStatus
wc_status(enum ibv_wc_status status)
{
	switch (status)
	{
		case IBV_WC_SUCCESS:
			return RF_WC_SUCCESS;
		case IBV_WC_WR_FLUSH_ERR:
			return RF_WC_FLUSHED;
		case IBV_WC_REM_ACCESS_ERR:
		case IBV_WC_REM_INV_REQ_ERR:
		case IBV_WC_REM_OP_ERR:
		case IBV_WC_REM_INV_RD_REQ_ERR:
			return RF_WC_REMOTE_ACCESS;
		case IBV_WC_LOC_LEN_ERR:
		case IBV_WC_LOC_QP_OP_ERR:
		case IBV_WC_LOC_PROT_ERR:
		case IBV_WC_LOC_ACCESS_ERR:
		case IBV_WC_LOC_EEC_OP_ERR:
		case IBV_WC_MW_BIND_ERR:
			return RF_WC_LOCAL;
		default:
			return RF_WC_TRANSPORT;
	}
}

void
rf_verbs_post_recvs(RfQp *qp, uint32_t number)
{
	struct ibv_recv_wr *bad;

	if (qp->link != NULL)
		rf_iwarp_prepare_receives(qp, number);
	qp->recvs[number - 1].next = NULL;
	if (ibv_post_recv(qp->qp, qp->recvs, &bad) != 0)
		rf_verbs_fail(qp, RF_WC_FLUSHED);
	if (number < RECV_BATCH)
		qp->recvs[number - 1].next = &qp->recvs[number];
}

/* Reports once that the queue pair failed, if no work request's completion does. */
static bool
tell_disconnected(RfQp *qp, RfWc *out)
{
	rf_verbs_fail(qp, RF_WC_FLUSHED);
	if (qp->told)
		return false;
	qp->told = true;
	out->opcode = RF_WC_DISCONNECTED;
	out->status = RF_WC_TRANSPORT;
	return true;
}

/* What a receive brought. False: the end. */
static bool
received(RfQp *qp, const struct ibv_wc *wc, RfWc *out)
{
	out->status = RF_WC_SUCCESS;
	if (qp->link != NULL)
		return rf_iwarp_received(qp, wc, out);
	/* A SEND is the peer's farewell. */
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		return false;
	out->opcode = RF_WC_RECV_IMM;
	out->imm = ntohl(wc->imm_data);
	out->byte_len = wc->byte_len;
	return true;
}

/* Translates the device's completion. False: the caller does not need it. */
static bool
translate(RfCq *cq, const struct ibv_wc *wc, RfWc *out)
{
	uint32_t	slot = (uint32_t) (wc->wr_id >> 48);
	uint32_t	kind = (uint32_t) (wc->wr_id >> 32) & 0xffff;
	RfQp	   *qp = slot < MAX_QPS ? cq->qps[slot] : NULL;
	uint64_t	position;

	if (qp == NULL || qp->qp->qp_num != wc->qp_num)
		return false;
	memset(out, 0, sizeof(*out));
	out->qp_context = qp->context;
	switch (kind)
	{
		case ID_RECV:
			if (wc->status != IBV_WC_SUCCESS || !received(qp, wc, out))
				return tell_disconnected(qp, out);
			if (++qp->taken == qp->recv_batch)
			{
				qp->taken = 0;
				if (!qp->failed)
					rf_verbs_post_recvs(qp, qp->recv_batch);
			}
			return out->opcode == RF_WC_RECV_IMM;

		case ID_SILENT:
			if (wc->status == IBV_WC_SUCCESS)
				return false;
			__attribute__((fallthrough));
		case ID_SEND:
			position = qp->completed + (uint32_t) ((uint32_t) wc->wr_id - (uint32_t) qp->completed);
			if (position >= qp->posted)
				return false;	/* given up by fail_qp before it came */
			out->opcode = RF_WC_WRITE;
			out->wr_id = qp->ring[position & (qp->ring_size - 1)];
			out->status = wc_status(wc->status);
			qp->completed = position + 1;
			if (out->status != RF_WC_SUCCESS)
			{
				qp->told = true;
				rf_verbs_fail(qp, RF_WC_FLUSHED);
			}
			return true;

		case ID_FAREWELL:
			qp->parting = false;
			return false;

		case ID_GRANT:
			return wc->status != IBV_WC_SUCCESS && tell_disconnected(qp, out);

		default:
			/* The marker: the device has finished everything, on an iWARP device silently. */
			qp->drained = true;
			if (qp->link != NULL)
				qp->posted = qp->completed;
			else
				qp->completed = qp->posted;
			rf_verbs_list_ailing(qp);
			return false;
	}
}

/* Completions of requests that never went to the device. */
static int
poll_ailing(RfCq *cq, RfWc *wc, int max)
{
	int			n = 0;

	for (RfQp *qp = cq->ailing, *next; qp != NULL && n < max; qp = next)
	{
		next = qp->next_ailing;
		if (!qp->drained && qp->completed < qp->posted)
			continue;
		for (; qp->posted < qp->head && n < max; n++)
		{
			memset(&wc[n], 0, sizeof(wc[n]));
			wc[n].opcode = RF_WC_WRITE;
			wc[n].wr_id = qp->ring[qp->posted & (qp->ring_size - 1)];
			wc[n].qp_context = qp->context;
			wc[n].status = qp->first;
			qp->first = RF_WC_FLUSHED;
			qp->told = true;
			qp->completed = ++qp->posted;
		}
		if (qp->posted == qp->head)
			rf_verbs_unlist_ailing(qp);
	}
	return n;
}

int
rf_verbs_cq_poll(RfCq *cq, RfWc *wc, int max)
{
	struct ibv_wc batch[POLL_BATCH];
	int			n = 0;

	pthread_mutex_lock(&cq->lock);
	if (cq->port != NULL)
		rf_iwarp_progress(cq, false);
	while (n < max)
	{
		int			want = max - n < POLL_BATCH ? max - n : POLL_BATCH;
		int			got;

		/* Older ones first; a queue pair that fails may have put more there. */
		if (cq->stash_next < cq->stash_count)
		{
			struct ibv_wc oldest = cq->stash[cq->stash_next++];

			n += translate(cq, &oldest, &wc[n]);
			continue;
		}
		got = poll_device(cq, want, batch);
		for (int i = 0; i < got; i++)
			n += translate(cq, &batch[i], &wc[n]);
		if (got < want && cq->stash_next == cq->stash_count)
			break;
	}
	if (cq->ailing != NULL)
		n += poll_ailing(cq, wc + n, max - n);
	pthread_mutex_unlock(&cq->lock);
	if (n > 0)
		rf_verbs_count(&cq->completions, (uint64_t) n);
	return n;
}
