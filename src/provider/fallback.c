/*
 * fallback.c - two providers as one: an RDMA device, and the software transport for peers that the
 * device does not reach.
 *
 * A domain belongs to one of the two, and so do all objects made in it. A completion queue consists
 * of one of each; the second one is polled only while a queue pair uses it, so that a device that
 * reaches all peers costs no more than it does alone.
 *
 * device_caps reports the capabilities of the first; the software transport has all of them except
 * strided entries.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fallback.h"

struct RfDevice
{
	const RfProvider *providers[2];
	RfDevice   *devices[2];
};

struct RfDomain
{
	const RfProvider *provider;
	RfDomain   *domain;
	int			which;
};

struct RfCq
{
	RfDevice   *device;
	RfCq	   *cqs[2];
	int			epoll;			/* readable when either is */
	int			turn;			/* which is polled first; the lane's alone */

	/*
	 * Queue pairs of the second. The main thread counts up before the lane knows of the queue
	 * pair, the lane counts down.
	 */
	_Atomic uint32_t second_users;
};

struct RfQp
{
	const RfProvider *provider;
	RfQp	   *qp;
	RfCq	   *cq;
	int			which;
};

static bool
no_memory(RfError *error)
{
	return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
}

/* ---------- device ---------- */

static void
device_close(RfDevice *device)
{
	for (int i = 0; i < 2; i++)
		if (device->devices[i] != NULL)
			device->providers[i]->device_close(device->devices[i]);
	free(device);
}

RfDevice *
rf_fallback_device(const RfProvider *first, RfDevice *first_device, const RfProvider *second,
				   RfDevice *second_device, RfError *error)
{
	RfDevice   *device = calloc(1, sizeof(RfDevice));

	if (device == NULL)
	{
		first->device_close(first_device);
		second->device_close(second_device);
		(void) no_memory(error);
		return NULL;
	}
	*device = (RfDevice)
	{
		{first, second}, {first_device, second_device}
	};
	return device;
}

static RfDevice *
device_open(const RfProviderConfig *config, RfError *error)
{
	RfDevice   *verbs = rf_provider_verbs.device_open(config, error);
	RfDevice   *soft;

	if (verbs == NULL)
		return NULL;
	soft = rf_provider_soft.device_open(config, error);
	if (soft == NULL)
	{
		rf_provider_verbs.device_close(verbs);
		return NULL;
	}
	return rf_fallback_device(&rf_provider_verbs, verbs, &rf_provider_soft, soft, error);
}

static void
device_caps(RfDevice *device, RfDeviceCaps *caps)
{
	device->providers[0]->device_caps(device->devices[0], caps);
}

static int
device_fd(RfDevice *device)
{
	return device->providers[0]->device_fd != NULL ?
		device->providers[0]->device_fd(device->devices[0]) : -1;
}

static RfDeviceEvent
device_event(RfDevice *device, char *text, size_t size)
{
	return device->providers[0]->device_event(device->devices[0], text, size);
}

/* ---------- domains and regions ---------- */

static RfDomain *
create_domain(RfDevice *device, int which, RfError *error)
{
	RfDomain   *domain = calloc(1, sizeof(RfDomain));

	if (domain == NULL)
	{
		(void) no_memory(error);
		return NULL;
	}
	domain->which = which;
	domain->provider = device->providers[which];
	domain->domain = domain->provider->domain_create(device->devices[which], error);
	if (domain->domain == NULL)
	{
		free(domain);
		return NULL;
	}
	return domain;
}

static RfDomain *
domain_create(RfDevice *device, RfError *error)
{
	return create_domain(device, 0, error);
}

static RfDomain *
domain_fallback(RfDevice *device, RfError *error)
{
	return create_domain(device, 1, error);
}

static void
domain_destroy(RfDomain *domain)
{
	domain->provider->domain_destroy(domain->domain);
	free(domain);
}

static bool
domain_quiet(RfDomain *domain)
{
	return domain->provider->domain_quiet(domain->domain);
}

static RfRegion *
region_register(RfDomain *domain, void *addr, size_t length, int fd, RfError *error)
{
	return domain->provider->region_register(domain->domain, addr, length, fd, error);
}

static RfRegion *
source_register(RfDomain *domain, void *addr, size_t length, RfError *error)
{
	return domain->provider->source_register(domain->domain, addr, length, error);
}

static void
region_deregister(RfDomain *domain, RfRegion *region)
{
	domain->provider->region_deregister(domain->domain, region);
}

/* ---------- completion queues ---------- */

static void
cq_destroy(RfCq *cq)
{
	for (int i = 0; i < 2; i++)
		if (cq->cqs[i] != NULL)
			cq->device->providers[i]->cq_destroy(cq->cqs[i]);
	if (cq->epoll >= 0)
		close(cq->epoll);
	free(cq);
}

static RfCq *
cq_create(RfDevice *device, int depth, RfError *error)
{
	RfCq	   *cq = calloc(1, sizeof(RfCq));

	if (cq == NULL)
	{
		(void) no_memory(error);
		return NULL;
	}
	cq->device = device;
	cq->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (cq->epoll < 0)
		(void) rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"could not create a completion queue");
	for (int i = 0; i < 2 && cq->epoll >= 0; i++)
	{
		struct epoll_event event = {.events = EPOLLIN};

		cq->cqs[i] = device->providers[i]->cq_create(device->devices[i], depth, error);
		if (cq->cqs[i] == NULL)
			break;
		if (epoll_ctl(cq->epoll, EPOLL_CTL_ADD, device->providers[i]->cq_fd(cq->cqs[i]), &event) ==
			0)
			continue;
		(void) rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"could not watch a completion queue");
		device->providers[i]->cq_destroy(cq->cqs[i]);
		cq->cqs[i] = NULL;
		break;
	}
	if (cq->cqs[1] == NULL)
	{
		cq_destroy(cq);
		return NULL;
	}
	return cq;
}

static int
cq_fd(RfCq *cq)
{
	return cq->epoll;
}

static bool
second_used(RfCq *cq)
{
	return atomic_load_explicit(&cq->second_users, memory_order_acquire) > 0;
}

static void
cq_arm(RfCq *cq)
{
	cq->device->providers[0]->cq_arm(cq->cqs[0]);
	if (second_used(cq))
		cq->device->providers[1]->cq_arm(cq->cqs[1]);
}

static int
cq_poll(RfCq *cq, RfWc *wc, int max)
{
	int			count;

	if (!second_used(cq))
		return cq->device->providers[0]->cq_poll(cq->cqs[0], wc, max);

	/* In turns, so that a busy one does not keep the other waiting. */
	cq->turn = 1 - cq->turn;
	count = cq->device->providers[cq->turn]->cq_poll(cq->cqs[cq->turn], wc, max);
	if (count < max)
		count += cq->device->providers[1 - cq->turn]->cq_poll(cq->cqs[1 - cq->turn], wc + count,
															  max - count);
	return count;
}

static void
cq_stats(RfCq *cq, RfProviderStats *stats)
{
	RfProviderStats second;

	cq->device->providers[0]->cq_stats(cq->cqs[0], stats);
	cq->device->providers[1]->cq_stats(cq->cqs[1], &second);
	stats->posts += second.posts;
	stats->work_requests += second.work_requests;
	stats->bytes += second.bytes;
	stats->completions += second.completions;
	stats->events += second.events;
}

/* ---------- queue pairs ---------- */

static RfQp *
qp_create(RfDomain *domain, RfCq *cq, const RfQpConfig *config, RfError *error)
{
	RfQp	   *qp = calloc(1, sizeof(RfQp));

	if (qp == NULL)
	{
		(void) no_memory(error);
		return NULL;
	}
	qp->provider = domain->provider;
	qp->cq = cq;
	qp->which = domain->which;
	qp->qp = qp->provider->qp_create(domain->domain, cq->cqs[qp->which], config, error);
	if (qp->qp == NULL)
	{
		free(qp);
		return NULL;
	}
	if (qp->which == 1)
		atomic_fetch_add(&cq->second_users, 1);
	return qp;
}

static void
qp_local(RfQp *qp, uint8_t blob[RF_QP_BLOB_SIZE])
{
	qp->provider->qp_local(qp->qp, blob);
}

static bool
qp_connect(RfQp *qp, const uint8_t blob[RF_QP_BLOB_SIZE], int sock, const RfTlsKey *key,
		   RfError *error)
{
	return qp->provider->qp_connect(qp->qp, blob, sock, key, error);
}

static void
qp_post(RfQp *qp, RfWr *chain)
{
	qp->provider->qp_post(qp->qp, chain);
}

static uint32_t
qp_number(RfQp *qp, bool *thread_domain)
{
	*thread_domain = false;
	return qp->provider->qp_number != NULL ? qp->provider->qp_number(qp->qp, thread_domain) : 0;
}

static void
qp_destroy(RfQp *qp)
{
	qp->provider->qp_destroy(qp->qp);
	if (qp->which == 1)
		atomic_fetch_sub(&qp->cq->second_users, 1);
	free(qp);
}

const RfProvider rf_provider_fallback = {
	.name = "verbs",
	.device_open = device_open,
	.device_close = device_close,
	.device_caps = device_caps,
	.device_fd = device_fd,
	.device_event = device_event,
	.domain_create = domain_create,
	.domain_fallback = domain_fallback,
	.domain_destroy = domain_destroy,
	.domain_quiet = domain_quiet,
	.region_register = region_register,
	.source_register = source_register,
	.region_deregister = region_deregister,
	.cq_create = cq_create,
	.cq_destroy = cq_destroy,
	.cq_fd = cq_fd,
	.cq_arm = cq_arm,
	.cq_poll = cq_poll,
	.qp_create = qp_create,
	.qp_local = qp_local,
	.qp_connect = qp_connect,
	.qp_post = qp_post,
	.qp_number = qp_number,
	.qp_destroy = qp_destroy,
	.cq_stats = cq_stats
};
