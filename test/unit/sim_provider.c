/*
 * sim_provider.c - the calls of the simulated provider (see sim.h). sim.c carries out posted
 * requests.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sim_private.h"

static RfDevice *
sim_device_open(const RfProviderConfig *config, RfError *error)
{
	RfDevice   *device = calloc(1, sizeof(RfDevice));

	if (device == NULL)
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
	return device;
}

static void
sim_device_close(RfDevice *device)
{
	free(device);
}

static void
sim_device_caps(RfDevice *device, RfDeviceCaps *caps)
{
	memset(caps, 0, sizeof(*caps));
	strcpy(caps->provider, "sim");
	strcpy(caps->device, "simulated");
	strcpy(caps->port_state, "active");
	caps->gid_index = -1;
	caps->max_message = RF_MAX_MESSAGE;
	caps->max_sge = RF_MAX_SGE;
	caps->max_qp_wr = 16384;
	caps->atomics = true;
	sim_lock();
	caps->max_strided = sim_fabric.config.strided;
	sim_unlock();
}

static RfDomain *
sim_domain_create(RfDevice *device, RfError *error)
{
	RfDomain   *domain = calloc(1, sizeof(RfDomain));

	if (domain == NULL)
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
	return domain;
}

static void
sim_domain_destroy(RfDomain *domain)
{
	if (domain->regions != NULL)
	{
		fprintf(stderr, "sim: domain destroyed before its regions\n");
		abort();
	}
	free(domain);
}

/* The fabric carries out the writes, and drops writes of a queue pair that is gone. */
static bool
sim_domain_quiet(RfDomain *domain)
{
	return true;
}

static RfRegion *
sim_region_register(RfDomain *domain, void *addr, size_t length, int fd, RfError *error)
{
	SimRegion  *region = calloc(1, sizeof(SimRegion));

	if (region == NULL)
	{
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
		return NULL;
	}
	sim_lock();
	region->pub.addr = addr;
	region->pub.length = length;
	region->pub.lkey = region->pub.rkey = sim_fabric.next_key++;
	region->next = domain->regions;
	domain->regions = region;
	sim_unlock();
	return &region->pub;
}

static RfRegion *
sim_source_register(RfDomain *domain, void *addr, size_t length, RfError *error)
{
	RfRegion   *region = sim_region_register(domain, addr, length, -1, error);

	if (region != NULL)
		region->rkey = 0;
	return region;
}

static void
sim_region_deregister(RfDomain *domain, RfRegion *pub)
{
	sim_lock();
	for (SimRegion **link = &domain->regions; *link != NULL; link = &(*link)->next)
	{
		if (&(*link)->pub == pub)
		{
			*link = (*link)->next;
			break;
		}
	}
	sim_unlock();
	free(pub);
}

static RfCq *
sim_cq_create(RfDevice *device, int depth, RfError *error)
{
	RfCq	   *cq = calloc(1, sizeof(RfCq));

	if (cq != NULL)
	{
		cq->depth = depth;
		cq->size = 16;
		cq->entries = malloc(cq->size * sizeof(SimEntry));
		cq->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (cq->entries != NULL && cq->fd >= 0)
			return cq;
		if (cq->fd >= 0)
			close(cq->fd);
		free(cq->entries);
		free(cq);
	}
	rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "could not create a completion queue");
	return NULL;
}

static void
sim_cq_destroy(RfCq *cq)
{
	close(cq->fd);
	free(cq->entries);
	free(cq);
}

static int
sim_cq_fd(RfCq *cq)
{
	return cq->fd;
}

static void
sim_cq_arm(RfCq *cq)
{
	uint64_t	ignored;

	sim_lock();
	if (read(cq->fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
		abort();
	cq->armed = true;
	sim_unlock();
}

static int
sim_cq_poll(RfCq *cq, RfWc *wc, int max)
{
	int			done = 0;

	sim_lock();
	while (done < max && cq->count > 0)
	{
		SimEntry   *entry = &cq->entries[cq->head];

		wc[done++] = entry->wc;
		if (entry->wc.opcode == RF_WC_WRITE)
		{
			entry->qp->freed = entry->covers;
			entry->qp->strided_freed = entry->covers_strided;
		}
		else if (entry->wc.opcode == RF_WC_RECV_IMM)
		{
			entry->qp->recv_unpolled--;
			pthread_cond_signal(&sim_fabric.work);
		}
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	sim_unlock();
	return done;
}

static void
sim_cq_stats(RfCq *cq, RfProviderStats *stats)
{
	sim_lock();
	*stats = cq->stats;
	sim_unlock();
}

static RfQp *
sim_qp_create(RfDomain *domain, RfCq *cq, const RfQpConfig *config, RfError *error)
{
	RfQp	   *qp = calloc(1, sizeof(RfQp));

	if (qp == NULL)
	{
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
		return NULL;
	}
	qp->domain = domain;
	qp->cq = cq;
	qp->config = *config;
	sim_lock();
	qp->number = ++sim_fabric.next_qp;
	qp->next = sim_fabric.qps;
	sim_fabric.qps = qp;
	sim_unlock();
	return qp;
}

static void
sim_qp_local(RfQp *qp, uint8_t blob[RF_QP_BLOB_SIZE])
{
	memset(blob, 0, RF_QP_BLOB_SIZE);
	memcpy(blob, &qp->number, sizeof(qp->number));
}

static void
join(RfQp *qp, RfQp *peer)
{
	qp->peer = peer;
	qp->connected = true;
	pthread_cond_signal(&sim_fabric.work);
}

static bool
sim_qp_connect(RfQp *qp, const uint8_t blob[RF_QP_BLOB_SIZE], int sock, const RfTlsKey *key,
			   RfError *error)
{
	uint32_t	number;
	RfQp	   *peer;

	if (sock >= 0)
		close(sock);
	memcpy(&number, blob, sizeof(number));
	sim_lock();
	for (peer = sim_fabric.qps; peer != NULL && peer->number != number; peer = peer->next)
		;
	if (peer == NULL)
	{
		sim_unlock();
		return rf_error(error, RF_ERROR_CONNECTION, NULL, NULL, "no simulated queue pair %u",
						number);
	}
	join(qp, peer);
	sim_unlock();
	return true;
}

void
rf_sim_connect(RfQp *a, RfQp *b)
{
	sim_lock();
	join(a, b);
	join(b, a);
	sim_unlock();
}

static void
sim_qp_post(RfQp *qp, RfWr *chain)
{
	sim_lock();
	qp->cq->stats.posts++;
	for (RfWr *wr = chain; wr != NULL; wr = wr->next)
	{
		SimWr	   *swr = calloc(1, sizeof(SimWr));

		if (swr == NULL)
			abort();
		swr->number = ++qp->posted;
		swr->wr = *wr;
		swr->wr.next = NULL;
		swr->wr.sge = swr->sge;
		swr->wr.strided = swr->strided;
		swr->strided_number = qp->strided_posted;
		if (wr->num_sge > 0 && wr->num_sge <= RF_MAX_SGE)
			memcpy(swr->sge, wr->sge, wr->num_sge * sizeof(RfSge));
		else if (wr->num_sge != 0)
			swr->wr.num_sge = 0;
		if (rf_strided_valid(wr) && wr->num_strided <= RF_MAX_SGE)
		{
			if (wr->num_strided > 0)
				memcpy(swr->strided, wr->strided, wr->num_strided * sizeof(RfStrided));
			swr->strided_number = qp->strided_posted += wr->num_strided;
		}
		else
		{
			swr->wr.num_strided = 0;
			swr->bad = RF_WC_LOCAL;
		}
		qp->cq->stats.work_requests++;
		if (qp->error || !qp->connected)
		{
			sim_push_write(qp, swr, RF_WC_FLUSHED);
			free(swr);
			continue;
		}
		qp->cq->stats.bytes += sim_message_length(&swr->wr);
		if (wr->num_sge < 0 || wr->num_sge > RF_MAX_SGE)
			swr->bad = RF_WC_LOCAL;
		else if (swr->bad == RF_WC_SUCCESS)
			swr->bad = sim_check_local(qp, &swr->wr);
		if (wr->num_strided > 0 &&
			qp->strided_posted - qp->strided_freed > (uint64_t) sim_fabric.config.strided)
			swr->bad = RF_WC_LOCAL;
		if (qp->posted - qp->freed > qp->config.max_wr)
		{
			sim_fabric.counters.wr_overflows++;
			swr->bad = RF_WC_LOCAL;
		}
		if (sim_fabric.config.check_payload && swr->bad == RF_WC_SUCCESS)
			swr->hash = sim_hash_payload(&swr->wr);
		sim_fabric.outstanding++;
		if (sim_next_to_execute(qp) == NULL)
			qp->exec_due = sim_fabric.now + sim_delay();
		if (qp->last != NULL)
			qp->last->next = swr;
		else
			qp->first = swr;
		qp->last = swr;
		if (sim_fabric.config.in_turn)
			sim_line_up(qp);
	}
	pthread_cond_signal(&sim_fabric.work);
	sim_unlock();
}

static void
sim_qp_destroy(RfQp *qp)
{
	RfCq	   *cq = qp->cq;
	size_t		kept = 0;

	sim_lock();
	for (RfQp **link = &sim_fabric.qps; *link != NULL; link = &(*link)->next)
	{
		if (*link == qp)
		{
			*link = qp->next;
			break;
		}
	}
	for (RfQp *other = sim_fabric.qps; other != NULL; other = other->next)
	{
		if (other->peer == qp)
		{
			other->peer = NULL;
			sim_fail_qp(other, RF_WC_TRANSPORT, true);
		}
	}
	if (qp->busy)
		sim_leave_line(qp);
	while (qp->first != NULL)
	{
		SimWr	   *swr = qp->first;

		qp->first = swr->next;
		sim_fabric.outstanding--;
		free(swr);
	}
	for (size_t i = 0; i < cq->count; i++)
	{
		SimEntry	entry = cq->entries[(cq->head + i) % cq->size];

		if (entry.qp != qp)
			cq->entries[(cq->head + kept++) % cq->size] = entry;
	}
	cq->count = kept;
	sim_unlock();
	free(qp);
}

const RfProvider rf_provider_sim = {
	.name = "sim",
	.device_open = sim_device_open,
	.device_close = sim_device_close,
	.device_caps = sim_device_caps,
	.domain_create = sim_domain_create,
	.domain_destroy = sim_domain_destroy,
	.domain_quiet = sim_domain_quiet,
	.region_register = sim_region_register,
	.source_register = sim_source_register,
	.region_deregister = sim_region_deregister,
	.cq_create = sim_cq_create,
	.cq_destroy = sim_cq_destroy,
	.cq_fd = sim_cq_fd,
	.cq_arm = sim_cq_arm,
	.cq_poll = sim_cq_poll,
	.qp_create = sim_qp_create,
	.qp_local = sim_qp_local,
	.qp_connect = sim_qp_connect,
	.qp_post = sim_qp_post,
	.qp_destroy = sim_qp_destroy,
	.cq_stats = sim_cq_stats
};
