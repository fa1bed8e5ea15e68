/*
 * verbs.c - the verbs provider: completion queues and reliable connected queue pairs over
 * libibverbs.
 *
 * Does: queues, connecting by exchanged blobs, polling, arming, and turning every failure into
 * completions. Does not: posting (verbs_post.c), connections and immediates of iWARP devices
 * (verbs_iwarp.c), choice of device and registered memory (verbs_device.c).
 *
 * How failures stay in order: every work request gets a place in its queue pair's ring before it
 * goes to the device. A failing queue pair is moved to the error state and gets one last request,
 * the marker, whose completion proves that the device has finished all before it; only then are the
 * requests that never went to the device completed from the ring.
 *
 * Threads: queue pairs are created and connected by the main thread, everything else is done by the
 * lane of the completion queue; a queue pair that no lane knows yet may also be destroyed by the
 * main thread. The completion queue's `lock` protects shared state: it is held while the queue is
 * polled, and while its table of queue pairs or its list of ailing queue pairs changes.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "verbs.h"

#define POLL_BATCH		64		/* completions taken by one ibv_poll_cq */
#define RD_ATOMIC		16		/* reads and atomics in flight, at most */
#define MIN_RNR_TIMER	12		/* 0.64 ms */
#define HOP_LIMIT		64
#define QUEUE_SHARE		16		/* queue pairs that one more completion queue is made for */
#define FAREWELL_US		5000	/* how long qp_destroy waits until the peer has been told */

/*
 * How often a device sends a packet again that is not acknowledged: as often as it can. Soft-RoCE
 * counts packets that overtake each other, too, and has no limit at 7; then rdma_fdw.peer_timeout
 * ends it.
 */
#define RETRY_COUNT		7

/* The blob that two queue pairs exchange. Big-endian on the wire. */
typedef struct Blob
{
	uint32_t	magic;
	uint32_t	qpn;
	uint32_t	psn;
	uint32_t	mtu;			/* enum ibv_mtu */
	uint32_t	rd_atomic;
	uint32_t	lid;
	uint32_t	ethernet;
	uint8_t		gid[16];
} Blob;

static_assert(sizeof(Blob) <= RF_QP_BLOB_SIZE, "blob too large");

/* ---------- completion queues ---------- */

static void
cq_destroy(RfCq *cq)
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

static RfCq *
cq_create(RfDevice *device, int depth, RfError *error)
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
		cq_destroy(cq);
		return NULL;
	}
	if (device->iwarp && (cq->port = rf_iwarp_port_create(cq, error)) == NULL)
	{
		cq_destroy(cq);
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

static int
cq_fd(RfCq *cq)
{
	return cq->port != NULL ? rf_iwarp_port_fd(cq->port) : cq->channel->fd;
}

/*
 * A consumed event is acknowledged at once, an unconsumed event never. A queue without a consumed
 * event since it was armed is still armed, or its event will make the descriptor readable.
 */
static void
cq_arm(RfCq *cq)
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

static void
cq_stats(RfCq *cq, RfProviderStats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->posts = atomic_load_explicit(&cq->posts, memory_order_relaxed);
	stats->work_requests = atomic_load_explicit(&cq->work_requests, memory_order_relaxed);
	stats->bytes = atomic_load_explicit(&cq->bytes, memory_order_relaxed);
	stats->completions = atomic_load_explicit(&cq->completions, memory_order_relaxed);
	stats->events = atomic_load_explicit(&cq->events, memory_order_relaxed);
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
static void
stash_completions(RfCq *cq)
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

static void
unlist_ailing(RfQp *qp)
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
		stash_completions(qp->cq);
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

static void
post_recvs(RfQp *qp, uint32_t number)
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
					post_recvs(qp, qp->recv_batch);
			}
			return out->opcode == RF_WC_RECV_IMM;

		case ID_SILENT:
			if (wc->status == IBV_WC_SUCCESS)
				return false;
			/* FALLTHROUGH */
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
			unlist_ailing(qp);
	}
	return n;
}

static int
cq_poll(RfCq *cq, RfWc *wc, int max)
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

/* ---------- queue pairs: life ---------- */

/*
 * Reserves entries for all requests that the queue pair could complete at once: in a queue that has
 * room, in the last one made larger, or in one more. A device need not be able to enlarge queues,
 * and has a limit.
 */
static bool
reserve_entries(RfCq *cq, RfQp *qp, RfError *error)
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
			 add_queue(cq, QUEUE_SHARE * qp->needed))
		qp->queue = &cq->queues[cq->queue_count - 1];
	if (qp->queue != NULL)
		qp->queue->needed += qp->needed;
	pthread_mutex_unlock(&cq->lock);
	if (qp->queue == NULL)
	{
		char		detail[192];

		snprintf(detail, sizeof(detail),
				 "It needs %d entries. The device's queues hold %d, and a lane has %d: %s.",
				 qp->needed, cq->device->attr.max_cqe, cq->queue_count, strerror(errno));
		return rf_error(error, RF_ERROR_RESOURCES, detail,
						"More lanes (rdma_fdw.engine_lanes) have more queues.",
						"no room in the RDMA completion queues for another peer");
	}
	return true;
}

/* A slot in the table. */
static bool
enter_cq(RfCq *cq, RfQp *qp, RfError *error)
{
	bool		ok;
	uint32_t	slot = 0;

	pthread_mutex_lock(&cq->lock);
	while (slot < MAX_QPS && cq->qps[slot] != NULL)
		slot++;
	ok = slot < MAX_QPS;
	if (ok)
	{
		qp->slot = slot;
		cq->qps[slot] = qp;
	}
	pthread_mutex_unlock(&cq->lock);
	return ok ||
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "too many queue pairs in one lane");
}

static void
free_qp(RfQp *qp)
{
	rf_iwarp_link_destroy(qp);
	if (qp->qp != NULL)
		ibv_destroy_qp(qp->qp);
	rf_mlx5_free_keys(qp->keys);
	if (qp->parent != NULL)
		ibv_dealloc_pd(qp->parent);
	if (qp->queue != NULL)
	{
		pthread_mutex_lock(&qp->cq->lock);
		qp->queue->needed -= qp->needed;
		pthread_mutex_unlock(&qp->cq->lock);
	}
	free(qp->ring);
	free(qp);
}

/* Creates the device's queue pair and brings it to INIT with all receives posted. */
static bool
start_qp(RfQp *qp, RfError *error)
{
	RfDevice   *device = qp->domain->device;
	struct ibv_qp_init_attr init = {
		.send_cq = qp->queue->cq,
		.recv_cq = qp->queue->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = qp->max_send,
			.max_recv_wr = qp->max_recv,
			.max_send_sge = (uint32_t) device->max_sge,
			.max_recv_sge = 1,
			.max_inline_data = device->iwarp ? RF_IWARP_INLINE : 0
		}
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
		.port_num = device->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
		(device->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0)};
	struct ibv_pd *pd;

	if (qp->cq->td != NULL)
	{
		struct ibv_parent_domain_init_attr parent = {.pd = qp->domain->pd,.td = qp->cq->td};

		qp->parent = ibv_alloc_parent_domain(device->context, &parent);
	}
	pd = qp->parent != NULL ? qp->parent : qp->domain->pd;
	qp->qp = device->max_strided > 0 ? rf_mlx5_create_qp(qp, pd, &init) : ibv_create_qp(pd, &init);
	if (qp->qp == NULL)
		return rf_error(error, RF_ERROR_RESOURCES, strerror(errno),
						"Check the memlock limit of the server (ulimit -l).",
						"the RDMA device cannot create a queue pair of %u requests", qp->max_wr);
	if (ibv_modify_qp(qp->qp, &attr,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
		return rf_error(error, RF_ERROR_INTERNAL, strerror(errno), NULL,
						"an RDMA queue pair cannot be initialized");
	return true;
}

static void
fill_recvs(RfQp *qp)
{
	for (int i = 0; i < RECV_BATCH; i++)
	{
		qp->recvs[i].wr_id = MAKE_ID(qp->slot, ID_RECV, 0);
		qp->recvs[i].next = i + 1 < RECV_BATCH ? &qp->recvs[i + 1] : NULL;
	}
	for (uint32_t done = 0; done < qp->max_recv && !qp->failed;)
	{
		uint32_t	number = qp->max_recv - done < RECV_BATCH ? qp->max_recv - done : RECV_BATCH;

		post_recvs(qp, number);
		done += number;
	}
}

/*
 * Creates a queue pair on the completion queue and reserves entries for all of its work requests
 * and receives there. Fails if the device's limits do not allow so many.
 */
static RfQp *
qp_create(RfDomain *domain, RfCq *cq, const RfQpConfig *config, RfError *error)
{
	int			limit = domain->device->attr.max_qp_wr;
	RfQp	   *qp;

	if (config->max_wr < 1 || config->max_recv < 1 ||
		config->max_wr > rf_verbs_max_wr(domain->device) || config->max_recv > limit)
	{
		(void) rf_error(error, RF_ERROR_CONFIGURATION, NULL, NULL,
						"queue pairs of %d and %d requests were asked for, the RDMA device's limit "
						"is %d",
						config->max_wr, config->max_recv, limit);
		return NULL;
	}
	qp = calloc(1, sizeof(RfQp));
	if (qp == NULL)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a queue pair");
		return NULL;
	}
	qp->cq = cq;
	qp->domain = domain;
	qp->context = config->context;
	qp->max_wr = (uint32_t) config->max_wr;

	/*
	 * Used receives are posted again in batches; receives of an incomplete batch are not available
	 * to the peer.
	 */
	qp->recv_batch = RECV_BATCH;
	qp->max_recv = (uint32_t) config->max_recv + RECV_BATCH - 1;
	qp->max_send = qp->max_wr + RF_VERBS_RESERVE;
	if (domain->device->iwarp)
	{
		/* Besides: grants, and the farewell. With fewer receives the peer waits for grants. */
		qp->max_recv += RF_IWARP_GRANTS + 1;
		if (qp->max_recv > (uint32_t) limit)
			qp->max_recv = (uint32_t) limit;
		qp->max_send = 2 * qp->max_wr + (uint32_t) rf_verbs_reserve(domain->device);
	}
	else if (qp->max_recv > (uint32_t) limit)
	{
		qp->max_recv = (uint32_t) config->max_recv;
		qp->recv_batch = 1;
	}
	qp->needed = (int) qp->max_send + 2 * domain->device->max_strided + (int) qp->max_recv;
	qp->ring_size = 1;
	while (qp->ring_size < qp->max_wr)
		qp->ring_size *= 2;
	qp->ring = calloc(qp->ring_size, sizeof(uint64_t));
	if (qp->ring == NULL || getrandom(&qp->psn, sizeof(qp->psn), 0) != sizeof(qp->psn))
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a queue pair");
		free_qp(qp);
		return NULL;
	}
	qp->psn &= 0xffffff;
	if ((domain->device->iwarp && !rf_iwarp_link_create(qp, error)) ||
		!reserve_entries(cq, qp, error) || !start_qp(qp, error) || !enter_cq(cq, qp, error))
	{
		free_qp(qp);
		return NULL;
	}
	fill_recvs(qp);
	if (qp->failed)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"the RDMA device takes no receives");
		pthread_mutex_lock(&cq->lock);
		cq->qps[qp->slot] = NULL;
		pthread_mutex_unlock(&cq->lock);
		free_qp(qp);
		return NULL;
	}
	return qp;
}

static uint32_t
rd_atomic(const RfDevice *device)
{
	int			limit = device->attr.max_qp_rd_atom < device->attr.max_qp_init_rd_atom ?
		device->attr.max_qp_rd_atom : device->attr.max_qp_init_rd_atom;

	return (uint32_t) (limit < RD_ATOMIC ? limit : RD_ATOMIC);
}

/* The description of the queue pair for the peer's qp_connect. */
static void
qp_local(RfQp *qp, uint8_t bytes[RF_QP_BLOB_SIZE])
{
	RfDevice   *device = qp->domain->device;
	Blob		blob = {
		.magic = htonl(RF_BLOB_VERBS),
		.qpn = htonl(qp->qp->qp_num),
		.psn = htonl(qp->psn),
		.mtu = htonl((uint32_t) device->port_attr.active_mtu),
		.rd_atomic = htonl(rd_atomic(device)),
		.lid = htonl(device->port_attr.lid),
		.ethernet = htonl(device->ethernet)
	};

	if (qp->link != NULL)
	{
		rf_iwarp_local(qp, bytes);
		return;
	}
	memcpy(blob.gid, device->gid.raw, sizeof(blob.gid));
	memset(bytes, 0, RF_QP_BLOB_SIZE);
	memcpy(bytes, &blob, sizeof(blob));
}

static bool
connect_error(RfError *error, RfDevice *device, const char *step)
{
	char		detail[192];

	snprintf(detail, sizeof(detail), "%s: %s. Device \"%s\", port %d, GID %d (%s).", step,
			 strerror(errno), ibv_get_device_name(device->context->device), device->port,
			 device->gid_index, device->gid_text);
	return rf_error(error, RF_ERROR_CONNECTION, detail,
					"Both nodes must reach each other through their RDMA devices: check "
					"rdma_fdw.device and "
					"rdma_fdw.gid_index on both.",
					"an RDMA queue pair cannot be connected to the peer");
}

static uint32_t
qp_number(RfQp *qp, bool *thread_domain)
{
	*thread_domain = qp->parent != NULL;
	return qp->qp->qp_num;
}

bool
rf_verbs_same_kind(const uint8_t bytes[RF_QP_BLOB_SIZE], uint32_t own, RfError *error)
{
	uint32_t	magic;

	memcpy(&magic, bytes, sizeof(magic));
	magic = ntohl(magic);
	if (magic == own)
		return true;
	if (magic == RF_BLOB_VERBS || magic == RF_BLOB_IWARP)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Check rdma_fdw.device on both nodes.",
						"one node's RDMA device is an iWARP device, the other's is not");
	return rf_error(error, RF_ERROR_PROTOCOL, NULL,
					"Check that rdma_fdw.provider is the same on both nodes.",
					"the peer's description of its RDMA queue pair is not valid");
}

static bool
qp_connect(RfQp *qp, const uint8_t bytes[RF_QP_BLOB_SIZE], int sock, const RfTlsKey *key,
		   RfError *error)
{
	RfDevice   *device = qp->domain->device;
	Blob		blob;
	uint32_t	peer_mtu;
	uint32_t	own_mtu = (uint32_t) device->port_attr.active_mtu;
	uint32_t	peer_rd_atomic;
	struct ibv_qp_attr rtr;
	struct ibv_qp_attr rts;

	if (sock >= 0)
		close(sock);
	if (qp->link != NULL)
	{
		bool		good;

		pthread_mutex_lock(&qp->cq->lock);
		good = rf_iwarp_connect(qp, bytes, error);
		pthread_mutex_unlock(&qp->cq->lock);
		return good;
	}
	if (!rf_verbs_same_kind(bytes, RF_BLOB_VERBS, error))
		return false;
	memcpy(&blob, bytes, sizeof(blob));
	peer_mtu = ntohl(blob.mtu);
	peer_rd_atomic = ntohl(blob.rd_atomic);
	if (peer_mtu < IBV_MTU_256 || peer_mtu > IBV_MTU_4096 ||
		ntohl(blob.qpn) > 0xffffff || ntohl(blob.psn) > 0xffffff || ntohl(blob.lid) > 0xffff)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL,
						"Check that rdma_fdw.provider is the same on both nodes.",
						"the peer's description of its RDMA queue pair is not valid");
	if ((ntohl(blob.ethernet) != 0) != device->ethernet)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Check rdma_fdw.device on both nodes.",
						"one node's RDMA device speaks Ethernet (RoCE), the other's InfiniBand");

	rtr = (struct ibv_qp_attr)
	{
		.qp_state = IBV_QPS_RTR,
			.path_mtu = (enum ibv_mtu) (peer_mtu < own_mtu ? peer_mtu : own_mtu),
			.dest_qp_num = ntohl(blob.qpn),
			.rq_psn = ntohl(blob.psn),
			.max_dest_rd_atomic = (uint8_t) rd_atomic(device),
			.min_rnr_timer = MIN_RNR_TIMER,
			.ah_attr =
		{
			.dlid = (uint16_t) ntohl(blob.lid),
				.sl = (uint8_t) device->service_level,
				.port_num = device->port
		}
	};
	/* InfiniBand needs the global address only when the peer is in another subnet. */
	if (device->ethernet || memcmp(blob.gid, device->gid.raw, 8) != 0)
	{
		rtr.ah_attr.is_global = 1;
		memcpy(rtr.ah_attr.grh.dgid.raw, blob.gid, sizeof(blob.gid));
		rtr.ah_attr.grh.sgid_index = (uint8_t) device->gid_index;
		rtr.ah_attr.grh.hop_limit = HOP_LIMIT;
		rtr.ah_attr.grh.traffic_class = (uint8_t) device->traffic_class;
	}
	if (ibv_modify_qp(qp->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
		return connect_error(error, device, "Ready to receive");

	rts = (struct ibv_qp_attr)
	{
		.qp_state = IBV_QPS_RTS,
			.sq_psn = qp->psn,
			.timeout = (uint8_t) device->timeout,
			.retry_cnt = RETRY_COUNT,
			.rnr_retry = 7,		/* without end: the receiver's device answers, and
								 * rdma_fdw.peer_timeout ends it */
			.max_rd_atomic = (uint8_t) (peer_rd_atomic < rd_atomic(device) ? peer_rd_atomic :
										rd_atomic(device))
	};
	if (ibv_modify_qp(qp->qp, &rts,
					  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0)
		return connect_error(error, device, "Ready to send");
	qp->connected = true;
	return true;
}

/*
 * Informs the peer, as a closed socket would: an empty SEND. It need not arrive; the engines'
 * control connection, or the peer's own retries, show the end as well.
 */
static void
say_farewell(RfQp *qp)
{
	struct ibv_send_wr farewell = {
		.wr_id = MAKE_ID(qp->slot, ID_FAREWELL, 0),
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_send_wr *bad;
	int64_t		until = rf_now_us() + FAREWELL_US;

	if (!qp->connected || qp->failed || ibv_post_send(qp->qp, &farewell, &bad) != 0)
		return;
	qp->parting = true;
	while (qp->parting && rf_now_us() < until)
		stash_completions(qp->cq);
}

/*
 * Destroys the queue pair. Completions of it that are still in the queue are taken out first,
 * because another queue pair may get its slot at once.
 */
static void
qp_destroy(RfQp *qp)
{
	RfCq	   *cq = qp->cq;
	uint32_t	slot = qp->slot;

	pthread_mutex_lock(&cq->lock);
	say_farewell(qp);
	if (qp->listed)
		unlist_ailing(qp);
	rf_iwarp_link_destroy(qp);
	if (qp->qp != NULL)
		ibv_destroy_qp(qp->qp);
	qp->qp = NULL;
	cq->qps[slot] = NULL;

	/*
	 * The slot may be reused at once: no reference to it may be left, neither in the queue nor in
	 * the stash.
	 */
	stash_completions(cq);
	for (int i = cq->stash_next; i < cq->stash_count; i++)
	{
		if (cq->stash[i].wr_id >> 48 == slot)
			cq->stash[i].wr_id = UINT64_MAX;
	}
	pthread_mutex_unlock(&cq->lock);
	free_qp(qp);
}

const RfProvider rf_provider_verbs = {
	.name = "verbs",
	.device_open = rf_verbs_device_open,
	.device_close = rf_verbs_device_close,
	.device_caps = rf_verbs_device_caps,
	.device_fd = rf_verbs_device_fd,
	.device_event = rf_verbs_device_event,
	.domain_create = rf_verbs_domain_create,
	.domain_destroy = rf_verbs_domain_destroy,
	.domain_quiet = rf_verbs_domain_quiet,
	.region_register = rf_verbs_region_register,
	.source_register = rf_verbs_source_register,
	.region_deregister = rf_verbs_region_deregister,
	.cq_create = cq_create,
	.cq_destroy = cq_destroy,
	.cq_fd = cq_fd,
	.cq_arm = cq_arm,
	.cq_poll = cq_poll,
	.qp_create = qp_create,
	.qp_local = qp_local,
	.qp_number = qp_number,
	.qp_connect = qp_connect,
	.qp_post = rf_verbs_post,
	.qp_destroy = qp_destroy,
	.cq_stats = cq_stats
};
