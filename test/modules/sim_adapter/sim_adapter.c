/*
 * sim_adapter.c - a libibverbs whose only device, sim_0, is the simulated adapter of the unit
 * tests: the provider for verbs, and all above it, run over it unchanged.
 *
 * A server takes it for the real library if LD_PRELOAD names it. All bytes stay in one process, so
 * the nodes of such a test are databases of one cluster, whose engine connects to itself. Time is
 * the clock's (RfSimConfig.by_clock). The file that the environment variable SIM_ADAPTER names has
 * the limits of the adapter, three numbers of 32 bits as in RfSimConfig: service, latency, cache.
 * They may change while it runs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "sim_private.h"

/* Nothing else of this library can be taken for a symbol of the server or of its extension. */
#pragma GCC visibility push(default)

#define POLL_BATCH		64

typedef struct Limits
{
	uint32_t	service;
	uint32_t	latency;
	uint32_t	cache;
} Limits;

/* What libibverbs' own functions look at lies behind the public part of a device. */
static struct
{
	struct ibv_device device;
	void	   *beyond[64];
}			sim = {.device = {.name = "sim_0",.transport_type = IBV_TRANSPORT_IB}};

static const volatile Limits *limits;

typedef struct Domain
{
	struct ibv_pd pd;			/* first, as in the structures below */
	RfDomain   *domain;
} Domain;

typedef struct Region
{
	struct ibv_mr mr;
	RfRegion   *region;
} Region;

/* A channel serves one queue, whose descriptor it has. */
typedef struct Channel
{
	struct ibv_comp_channel channel;
	struct ibv_cq *cq;
} Channel;

typedef struct Queue
{
	struct ibv_cq cq;
	RfCq	   *sim_cq;
} Queue;

typedef struct Pair
{
	struct ibv_qp qp;
	RfQp	   *sim_qp;
	uint64_t	receive;		/* wr_id of its receives */
} Pair;

/* ---------- the device ---------- */

/* Takes over the limits if they have changed. */
static void
take_limits(void)
{
	RfSimConfig config = {.seed = 1, .by_clock = true, .service = limits->service,
	.latency = limits->latency, .cache = limits->cache};

	if (sim_fabric.config.service != config.service ||
		sim_fabric.config.latency != config.latency || sim_fabric.config.cache != config.cache)
		rf_sim_configure(&config);
}

static int
poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *out)
{
	static const enum ibv_wc_status status[] = {
		[RF_WC_SUCCESS] = IBV_WC_SUCCESS, [RF_WC_FLUSHED] = IBV_WC_WR_FLUSH_ERR,
		[RF_WC_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR, [RF_WC_TRANSPORT] = IBV_WC_RETRY_EXC_ERR,
		[RF_WC_LOCAL] = IBV_WC_LOC_PROT_ERR
	};
	RfWc		wc[POLL_BATCH];
	int			count;

	count = rf_provider_sim.cq_poll(((Queue *) cq)->sim_cq, wc,
									max < POLL_BATCH ? max : POLL_BATCH);
	for (int i = 0; i < count; i++)
	{
		Pair	   *pair = wc[i].qp_context;

		out[i] = (struct ibv_wc)
		{
			.qp_num = pair->qp.qp_num, .status = status[wc[i].status],
				.wr_id = wc[i].wr_id, .opcode = IBV_WC_RDMA_WRITE
		};
		if (wc[i].opcode == RF_WC_WRITE)
			continue;
		out[i].wr_id = pair->receive;
		out[i].opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		out[i].imm_data = htonl(wc[i].imm);
		out[i].byte_len = wc[i].byte_len;
	}
	return count;
}

static int
req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	rf_provider_sim.cq_arm(((Queue *) cq)->sim_cq);
	return 0;
}

/* The adapter takes as many immediates as the queue pair was made for. */
static int
post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	((Pair *) qp)->receive = wr->wr_id;
	return 0;
}

/* It has no SEND, which only says farewell: the peer sees the queue pair's end. */
static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	take_limits();
	for (; wr != NULL; wr = wr->next)
	{
		RfWr		one = {
			.wr_id = wr->wr_id,
			.opcode = wr->opcode == IBV_WR_RDMA_WRITE ? RF_WR_WRITE :
				wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? RF_WR_WRITE_IMM : RF_WR_COMPARE_SWAP,
			.signaled = (wr->send_flags & IBV_SEND_SIGNALED) != 0,
			.num_sge = wr->num_sge,
			.sge = (const RfSge *) wr->sg_list,
			.remote_addr = wr->wr.rdma.remote_addr,
			.rkey = wr->wr.rdma.rkey,
			.imm = ntohl(wr->imm_data)
		};

		*bad = wr;
		if (wr->opcode == IBV_WR_SEND)
			return EOPNOTSUPP;
		if (one.opcode == RF_WR_COMPARE_SWAP)
		{
			one.remote_addr = wr->wr.atomic.remote_addr;
			one.rkey = wr->wr.atomic.rkey;
			one.compare = wr->wr.atomic.compare_add;
			one.swap = wr->wr.atomic.swap;
		}
		rf_provider_sim.qp_post(((Pair *) qp)->sim_qp, &one);
	}
	return 0;
}

struct ibv_device **(ibv_get_device_list) (int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &sim.device;
	*count = 1;
	return list;
}

void
ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *
ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* Starts the fabric; signals belong to other threads. */
struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context = calloc(1, sizeof(*context));
	const char *file = getenv("SIM_ADAPTER");
	int			fd = file == NULL ? -1 : open(file, O_RDONLY | O_CLOEXEC);
	void	   *memory = mmap(NULL, sizeof(Limits), PROT_READ, MAP_SHARED, fd, 0);
	sigset_t	all;
	sigset_t	before;

	if (memory == MAP_FAILED)
	{
		fprintf(stderr, "sim_adapter: no limits in SIM_ADAPTER\n");
		return NULL;
	}
	close(fd);
	limits = memory;
	take_limits();
	context->device = device;
	context->async_fd = eventfd(0, EFD_CLOEXEC);
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	context->ops.post_recv = post_recv;
	context->ops.post_send = post_send;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	(void) rf_sim_start();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return context;
}

int
ibv_close_device(struct ibv_context *context)
{
	rf_sim_stop();
	close(context->async_fd);
	free(context);
	return 0;
}

int
ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr)
	{
		.max_qp_wr = 16384, .max_sge = RF_MAX_SGE, .max_cqe = 4 << 20, .max_pd = 1000,
			.max_qp = 1000, .phys_port_cnt = 1, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
			.atomic_cap = IBV_ATOMIC_HCA
	};
	return 0;
}

int
			(ibv_query_port) (struct ibv_context *context, uint8_t port,
							  struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *) out;

	attr->state = IBV_PORT_ACTIVE;
	attr->active_mtu = IBV_MTU_4096;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	attr->lid = 1;
	attr->max_msg_sz = RF_MAX_MESSAGE;
	attr->pkey_tbl_len = 1;
	return 0;
}

int
ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 * key)
{
	*key = htons(0xffff);
	return 0;
}

ssize_t
_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t count,
					 uint32_t flags, size_t size)
{
	entries[0] = (struct ibv_gid_entry) {.port_num = 1,.gid_type = IBV_GID_TYPE_IB};
	entries[0].gid.raw[0] = 0xfe;
	entries[0].gid.raw[1] = 0x80;
	entries[0].gid.raw[15] = 1;
	return 1;
}

int
ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	errno = EAGAIN;
	return -1;
}

void
ibv_ack_async_event(struct ibv_async_event *event)
{
}

/* ---------- memory ---------- */

/* The simulated adapter locks no memory, so no limit on locked memory counts. */
int
getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
	int			result = prlimit(0, resource, NULL, limit);

	if (resource == RLIMIT_MEMLOCK)
		limit->rlim_cur = RLIM_INFINITY;
	return result;
}

struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	Domain	   *domain = calloc(1, sizeof(*domain));
	RfError		error;

	domain->pd.context = context;
	domain->domain = rf_provider_sim.domain_create(NULL, &error);
	return &domain->pd;
}

int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	rf_provider_sim.domain_destroy(((Domain *) pd)->domain);
	free(pd);
	return 0;
}

/* Without remote access a region has a key, too, by which the adapter does not find it. */
struct ibv_mr *(ibv_reg_mr) (struct ibv_pd *pd, void *addr, size_t length, int access)
{
	Region	   *region = calloc(1, sizeof(*region));
	RfDomain   *domain = ((Domain *) pd)->domain;
	RfError		error;

	region->region = access & IBV_ACCESS_REMOTE_WRITE ?
		rf_provider_sim.region_register(domain, addr, length, -1, &error) :
		rf_provider_sim.source_register(domain, addr, length, &error);
	region->mr = (struct ibv_mr)
	{
		.context = pd->context, .pd = pd, .addr = addr, .length = length,
			.lkey = region->region->lkey, .rkey = region->region->lkey
	};
	return &region->mr;
}

int
ibv_dereg_mr(struct ibv_mr *mr)
{
	rf_provider_sim.region_deregister(((Domain *) mr->pd)->domain, ((Region *) mr)->region);
	free(mr);
	return 0;
}

/* ---------- completion queues ---------- */

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	Channel    *channel = calloc(1, sizeof(*channel));

	channel->channel.context = context;
	channel->channel.fd = eventfd(0, EFD_CLOEXEC);
	return &channel->channel;
}

int
ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
			  struct ibv_comp_channel *channel, int vector)
{
	Queue	   *queue = calloc(1, sizeof(*queue));
	RfError		error;

	queue->cq.context = context;
	queue->cq.cq_context = cq_context;
	queue->cq.cqe = entries;
	queue->sim_cq = rf_provider_sim.cq_create(NULL, entries, &error);
	(void) dup3(channel->fd, queue->sim_cq->fd, O_CLOEXEC);
	((Channel *) channel)->cq = &queue->cq;
	return &queue->cq;
}

int
ibv_resize_cq(struct ibv_cq *cq, int entries)
{
	((Queue *) cq)->sim_cq->depth = cq->cqe = entries;
	return 0;
}

int
ibv_destroy_cq(struct ibv_cq *cq)
{
	rf_provider_sim.cq_destroy(((Queue *) cq)->sim_cq);
	free(cq);
	return 0;
}

int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	uint64_t	events;

	if (read(channel->fd, &events, sizeof(events)) < 0)
		return -1;
	*cq = ((Channel *) channel)->cq;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
}

/* ---------- queue pairs ---------- */

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	Pair	   *pair = calloc(1, sizeof(*pair));
	RfQpConfig	config = {.max_wr = (int) init->cap.max_send_wr,
	.max_recv = (int) init->cap.max_recv_wr, .context = pair};
	RfError		error;

	pair->qp.context = pd->context;
	pair->qp.pd = pd;
	pair->sim_qp = rf_provider_sim.qp_create(((Domain *) pd)->domain,
											 ((Queue *) init->send_cq)->sim_cq, &config, &error);
	pair->qp.qp_num = pair->sim_qp->number;
	return &pair->qp;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	RfQp	   *sim_qp = ((Pair *) qp)->sim_qp;
	uint8_t		blob[RF_QP_BLOB_SIZE] = {0};
	RfError		error;

	if (attr->qp_state == IBV_QPS_ERR)
		rf_sim_cut(sim_qp);
	if (attr->qp_state != IBV_QPS_RTR)
		return 0;
	memcpy(blob, &attr->dest_qp_num, sizeof(attr->dest_qp_num));
	return rf_provider_sim.qp_connect(sim_qp, blob, -1, NULL, &error) ? 0 : ENXIO;
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	rf_provider_sim.qp_destroy(((Pair *) qp)->sim_qp);
	free(qp);
	return 0;
}
