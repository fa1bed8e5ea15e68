/*
 * verbs.c - the verbs provider: reliable connected queue pairs over libibverbs, and the provider's
 * table of functions.
 *
 * Does: creating, connecting by exchanged blobs, and destroying queue pairs. Does not: completion
 * queues and failures (verbs_cq.c), posting (verbs_post.c), connections and immediates of iWARP
 * devices (verbs_iwarp.c), choice of device and registered memory (verbs_device.c).
 *
 * Threads: queue pairs are created and connected by the main thread, everything else is done by the
 * lane of the completion queue; a queue pair that no lane knows yet may also be destroyed by the
 * main thread. The completion queue's `lock` protects shared state: it is held while the queue is
 * polled, and while its table of queue pairs or its list of ailing queue pairs changes.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "verbs.h"

#define RD_ATOMIC		16		/* reads and atomics in flight, at most */
#define MIN_RNR_TIMER	12		/* 0.64 ms */
#define HOP_LIMIT		64
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
	uint16_t	partitions[MAX_PARTITIONS];
} Blob;

static_assert(sizeof(Blob) <= RF_QP_BLOB_SIZE, "blob too large");

/* ---------- queue pairs: life ---------- */

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
		.pkey_index = device->partition_index[0],
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
		(device->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0)};
	struct ibv_pd *pd;

	qp->partition = attr.pkey_index;
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

		rf_verbs_post_recvs(qp, number);
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
		!rf_verbs_reserve_entries(cq, qp, error) || !start_qp(qp, error) ||
		!enter_cq(cq, qp, error))
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
	for (int i = 0; i < MAX_PARTITIONS; i++)
		blob.partitions[i] = htons(device->partitions[i]);
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

/*
 * Finds the index of the partition that both ends use. `sent` has the peer's keys in network order;
 * a peer that sends no key counts as a member of the default partition.
 */
static bool
choose_partition(RfDevice *device, const uint16_t sent[MAX_PARTITIONS], uint16_t *index,
				 RfError *error)
{
	uint16_t	peer[MAX_PARTITIONS];
	char		detail[192];
	int			common;

	for (int i = 0; i < MAX_PARTITIONS; i++)
		peer[i] = ntohs(sent[i]);
	if (peer[0] == 0)
		peer[0] = DEFAULT_PARTITION;
	common = rf_verbs_common_partition(device, peer);
	if (common >= 0)
	{
		*index = device->partition_index[common];
		return true;
	}
	snprintf(detail, sizeof(detail), "The first key of port %d of device \"%s\" is 0x%04x, the "
			 "peer's is 0x%04x.", device->port, ibv_get_device_name(device->context->device),
			 device->partitions[0], peer[0]);
	return rf_error(error, RF_ERROR_CONFIGURATION, detail,
					"Let the subnet manager put both ports into one partition, one of them as a "
					"full member, and check rdma_fdw.device on both nodes.",
					"the two nodes' RDMA ports have no partition in common");
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
	uint16_t	partition = 0;
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
	if (!choose_partition(device, blob.partitions, &partition, error))
		return false;

	rtr = (struct ibv_qp_attr)
	{
		.qp_state = IBV_QPS_RTR,
			.path_mtu = (enum ibv_mtu) (peer_mtu < own_mtu ? peer_mtu : own_mtu),
			.dest_qp_num = ntohl(blob.qpn),
			.rq_psn = ntohl(blob.psn),
			.max_dest_rd_atomic = (uint8_t) rd_atomic(device),
			.min_rnr_timer = MIN_RNR_TIMER,
			.pkey_index = partition,
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
	/* Where INIT said the same, nothing depends on the device's taking it twice. */
	if (ibv_modify_qp(qp->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
					  (partition != qp->partition ? IBV_QP_PKEY_INDEX : 0)) != 0)
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
		rf_verbs_stash(qp->cq);
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
		rf_verbs_unlist_ailing(qp);
	rf_iwarp_link_destroy(qp);
	if (qp->qp != NULL)
		ibv_destroy_qp(qp->qp);
	qp->qp = NULL;
	cq->qps[slot] = NULL;

	/*
	 * The slot may be reused at once: no reference to it may be left, neither in the queue nor in
	 * the stash.
	 */
	rf_verbs_stash(cq);
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
	.cq_create = rf_verbs_cq_create,
	.cq_destroy = rf_verbs_cq_destroy,
	.cq_fd = rf_verbs_cq_fd,
	.cq_arm = rf_verbs_cq_arm,
	.cq_poll = rf_verbs_cq_poll,
	.qp_create = qp_create,
	.qp_local = qp_local,
	.qp_number = qp_number,
	.qp_connect = qp_connect,
	.qp_post = rf_verbs_post,
	.qp_destroy = qp_destroy,
	.cq_stats = rf_verbs_cq_stats
};
