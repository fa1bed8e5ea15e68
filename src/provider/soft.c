/*
 * soft.c - the software provider: devices, domains, regions, completion queues and the life of
 * queue pairs.
 *
 * For machines without an RDMA device, and between two engines of one host. It keeps the contract
 * of provider.h; soft_shm.c (AF_UNIX socket given to qp_connect) and soft_stream.c (TCP socket)
 * transfer the bytes. It opens no connection itself and starts no thread: the caller's polls drive
 * it, and cq_fd is readable when there is work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft.h"

#define SOCKET_BUFFER		(4 << 20)	/* asked for when the kernel allows that much */
#define IDLE_SOCKET_CHECK	128 /* polls of a spinning caller between looks at the local sockets */
#define FULL_POLLS			16	/* full polls in a row until one polls the peers, too */

static bool
no_memory(RfError *error)
{
	return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
}

/* ---------- device ---------- */

static int
read_limit(const char *path)
{
	FILE	   *file = fopen(path, "re");
	int			value = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%d", &value) != 1)
		value = 0;
	fclose(file);
	return value;
}

/*
 * An explicit size turns the kernel's automatic sizes off, and is limited to wmem_max or rmem_max.
 * So it helps only if these limits were raised.
 */
static RfDevice *
soft_device_open(const RfProviderConfig *config, RfError *error)
{
	RfDevice   *device = calloc(1, sizeof(RfDevice));

	if (device == NULL)
	{
		no_memory(error);
		return NULL;
	}
	device->stream_only = config != NULL && config->soft_tcp_only;
	if (read_limit("/proc/sys/net/core/wmem_max") >= SOCKET_BUFFER)
		device->sndbuf = SOCKET_BUFFER;
	if (read_limit("/proc/sys/net/core/rmem_max") >= SOCKET_BUFFER)
		device->rcvbuf = SOCKET_BUFFER;
	return device;
}

static void
soft_device_close(RfDevice *device)
{
	free(device);
}

static void
soft_device_caps(RfDevice *device, RfDeviceCaps *caps)
{
	memset(caps, 0, sizeof(*caps));
	snprintf(caps->provider, sizeof(caps->provider), "soft");
	snprintf(caps->device, sizeof(caps->device), "%s",
			 device->stream_only ? "tcp" : "shared memory, tcp");
	snprintf(caps->port_state, sizeof(caps->port_state), "active");
	caps->gid_index = -1;
	caps->max_message = RF_MAX_MESSAGE;
	caps->max_sge = RF_MAX_SGE;
	caps->max_qp_wr = 16384;
	caps->atomics = true;
	caps->needs_socket = true;
}

/* ---------- domains and regions ---------- */

static RfDomain *
soft_domain_create(RfDevice *device, RfError *error)
{
	RfDomain   *domain = calloc(1, sizeof(RfDomain));
	pthread_rwlockattr_t attributes;

	if (domain == NULL)
	{
		no_memory(error);
		return NULL;
	}
	if (getrandom(&domain->id, sizeof(domain->id), 0) != sizeof(domain->id))
	{
		free(domain);
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "could not get random bytes: %m");
		return NULL;
	}
	domain->device = *device;
	domain->next_key = 1;
	/* lanes that copy all the time must not starve a registration by the main thread */
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&domain->lock, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	return domain;
}

static void
free_region(RfSoftRegion *region)
{
	if (region->fd >= 0)
		close(region->fd);
	free(region);
}

static void
free_leaving(RfQp **link)
{
	RfQp	   *qp = *link;

	*link = qp->next;
	close(qp->sock);
	free(qp);
}

static bool
soft_domain_quiet(RfDomain *domain)
{
	bool		quiet;

	pthread_rwlock_wrlock(&domain->lock);
	for (RfQp **link = &domain->leaving; *link != NULL;)
	{
		if (rf_soft_shm_left(*link))
			free_leaving(link);
		else
			link = &(*link)->next;
	}
	quiet = domain->leaving == NULL;
	pthread_rwlock_unlock(&domain->lock);
	return quiet;
}

static void
soft_domain_destroy(RfDomain *domain)
{
	while (domain->leaving != NULL)
		free_leaving(&domain->leaving);
	for (int i = 0; i < domain->count; i++)
		free_region(domain->regions[i]);
	pthread_rwlock_destroy(&domain->lock);
	free(domain->regions);
	free(domain);
}

RfSoftRegion *
rf_soft_region(RfDomain *domain, uint32_t key, int *hint)
{
	if (*hint < domain->count && domain->regions[*hint]->pub.lkey == key)
		return domain->regions[*hint];
	for (int i = 0; i < domain->count; i++)
	{
		if (domain->regions[i]->pub.lkey == key)
		{
			*hint = i;
			return domain->regions[i];
		}
	}
	return NULL;
}

/*
 * Our own copy of the descriptor, for queue pairs that connect later. A peer that maps it must be
 * sure that it never shrinks (an access beyond the end would kill the peer), hence the seal.
 */
static bool
keep_descriptor(RfSoftRegion *region, int fd, RfError *error)
{
	struct stat status;
	int			seals;

	if (fd < 0)
		return true;
	if (fstat(fd, &status) != 0 || status.st_size < (off_t) region->pub.length)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL, NULL,
						"descriptor of a memory region is shorter than the region");
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 ||
		((seals & F_SEAL_SHRINK) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0))
		return rf_error(error, RF_ERROR_CONFIGURATION, strerror(errno), NULL,
						"descriptor of a memory region is not a memfd that can be sealed");
	region->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (region->fd < 0)
		return rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"could not duplicate the descriptor of a memory region");
	return true;
}

/*
 * Adds a region to the domain and announces it to the peers over shared memory. A source has no
 * remote key: peers can never write there.
 */
static RfRegion *
add_region(RfDomain *domain, void *addr, size_t length, int fd, bool source, RfError *error)
{
	RfSoftRegion *region = calloc(1, sizeof(RfSoftRegion));

	if (region == NULL)
	{
		no_memory(error);
		return NULL;
	}
	region->fd = -1;
	region->pub.addr = addr;
	region->pub.length = length;
	if (!keep_descriptor(region, fd, error))
	{
		free(region);
		return NULL;
	}

	pthread_rwlock_wrlock(&domain->lock);
	if (domain->count == domain->size)
	{
		int			size = domain->size ? domain->size * 2 : 16;
		RfSoftRegion **regions = realloc(domain->regions, size * sizeof(*regions));

		if (regions == NULL)
		{
			pthread_rwlock_unlock(&domain->lock);
			free_region(region);
			no_memory(error);
			return NULL;
		}
		domain->regions = regions;
		domain->size = size;
	}
	region->pub.lkey = domain->next_key++;
	region->pub.rkey = source ? 0 : region->pub.lkey;
	domain->regions[domain->count++] = region;
	if (region->fd >= 0)
	{
		for (RfQp *qp = domain->announce; qp != NULL; qp = qp->shm.announce_next)
			rf_soft_shm_announce(qp, RF_SOFT_NOTE_REGION, region);
	}
	pthread_rwlock_unlock(&domain->lock);
	return &region->pub;
}

static RfRegion *
soft_region_register(RfDomain *domain, void *addr, size_t length, int fd, RfError *error)
{
	return add_region(domain, addr, length, fd, false, error);
}

static RfRegion *
soft_source_register(RfDomain *domain, void *addr, size_t length, RfError *error)
{
	return add_region(domain, addr, length, -1, true, error);
}

/*
 * Takes the region out of the domain and tells peers over shared memory. Holding the lock waits for
 * copies that read it.
 */
static void
soft_region_deregister(RfDomain *domain, RfRegion *pub)
{
	RfSoftRegion *region = (RfSoftRegion *) pub;

	pthread_rwlock_wrlock(&domain->lock);
	for (int i = 0; i < domain->count; i++)
	{
		if (domain->regions[i] == region)
		{
			domain->regions[i] = domain->regions[--domain->count];
			break;
		}
	}
	if (region->fd >= 0)
	{
		for (RfQp *qp = domain->announce; qp != NULL; qp = qp->shm.announce_next)
			rf_soft_shm_announce(qp, RF_SOFT_NOTE_GONE, region);
	}
	pthread_rwlock_unlock(&domain->lock);
	free_region(region);
}

/* ---------- completion queues ---------- */

static RfCq *
soft_cq_create(RfDevice *device, int depth, RfError *error)
{
	RfCq	   *cq = calloc(1, sizeof(RfCq));
	struct epoll_event event = {.events = EPOLLIN};

	(void) device;
	if (cq == NULL)
	{
		no_memory(error);
		return NULL;
	}
	cq->depth = depth < 16 ? 16 : depth;
	cq->size = cq->depth;
	cq->entries = malloc(cq->size * sizeof(RfSoftEntry));
	cq->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	cq->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (cq->entries == NULL || cq->event < 0 || cq->epoll < 0 ||
		epoll_ctl(cq->epoll, EPOLL_CTL_ADD, cq->event, &event) != 0)
	{
		rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
				 "could not create a completion queue");
		if (cq->event >= 0)
			close(cq->event);
		if (cq->epoll >= 0)
			close(cq->epoll);
		free(cq->entries);
		free(cq);
		return NULL;
	}
	pthread_mutex_init(&cq->lock, NULL);
	return cq;
}

static void
soft_cq_destroy(RfCq *cq)
{
	close(cq->event);
	close(cq->epoll);
	pthread_mutex_destroy(&cq->lock);
	free(cq->entries);
	free(cq);
}

static int
soft_cq_fd(RfCq *cq)
{
	return cq->epoll;
}

/*
 * The descriptor is readable from here to the next cq_arm, so one write serves every completion in
 * between.
 */
void
rf_soft_signal(RfCq *cq)
{
	uint64_t	one = 1;

	cq->armed = false;
	/* fails only if the counter is full, and then it is readable anyway */
	if (write(cq->event, &one, sizeof(one)) < 0)
		return;
}

/*
 * Consumes the events that made the descriptor readable for the last arming: our own, and WAKE
 * notes.
 */
static void
consume_readiness(RfCq *cq)
{
	struct epoll_event events[16];
	int			count = epoll_wait(cq->epoll, events, 16, 0);
	bool		woken = false;

	cq->arming = true;
	for (int i = 0; i < count; i++)
	{
		RfQp	   *qp = events[i].data.ptr;
		uint64_t	ignored;

		if (qp == NULL)
			woken |= read(cq->event, &ignored, sizeof(ignored)) > 0;
		else if (qp->kind == RF_SOFT_SHM && !qp->failed)
		{
			rf_soft_shm_socket(qp);
			woken = true;
		}
	}
	cq->arming = false;
	if (woken && !cq->event_counted)
		cq->stats.events++;
	cq->event_counted = false;
}

static void
soft_cq_arm(RfCq *cq)
{
	pthread_mutex_lock(&cq->lock);
	/* this comes first: a later event belongs to the new arming */
	consume_readiness(cq);
	cq->armed = true;
	for (RfQp *qp = cq->qps; qp != NULL; qp = qp->next)
	{
		if (qp->failed)
			continue;
		if (qp->kind == RF_SOFT_SHM)
			atomic_store(&qp->shm.in->armed, 1);
		else
			rf_soft_watch(qp, rf_soft_stream_unsent(qp) ? EPOLLIN | EPOLLOUT : EPOLLIN);
	}
	pthread_mutex_unlock(&cq->lock);
}

bool
rf_soft_watch(RfQp *qp, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = qp};

	if (qp->poll_events == events)
		return true;
	if (epoll_ctl(qp->cq->epoll, qp->poll_events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, qp->sock,
				  &event) != 0)
		return false;
	qp->poll_events = events;
	return true;
}

/*
 * Stores a completion until it is polled. Grows only if the caller posts more than it announced.
 */
static void
push(RfQp *qp, const RfWc *wc)
{
	RfCq	   *cq = qp->cq;

	if (cq->count == cq->size)
	{
		size_t		size = cq->size * 2;
		RfSoftEntry *entries = malloc(size * sizeof(RfSoftEntry));

		/*
		 * only completions of misuse (posting on into a dead queue pair, never polling) can be
		 * lost here
		 */
		if (entries == NULL)
			return;
		for (size_t i = 0; i < cq->count; i++)
			entries[i] = cq->entries[(cq->head + i) % cq->size];
		free(cq->entries);
		cq->entries = entries;
		cq->size = size;
		cq->head = 0;
	}
	cq->entries[(cq->head + cq->count) % cq->size] = (RfSoftEntry)
	{
		*wc, qp
	};
	cq->count++;
	cq->stats.completions++;
}

void
rf_soft_complete(RfQp *qp, uint64_t wr_id, RfWcStatus status)
{
	RfWc		wc = {
		.wr_id = wr_id,
		.qp_context = qp->config.context,
		.status = status,
		.opcode = RF_WC_WRITE
	};

	push(qp, &wc);
}

void
rf_soft_received(RfQp *qp, uint32_t imm, uint32_t length)
{
	RfWc		wc = {
		.qp_context = qp->config.context,
		.status = RF_WC_SUCCESS,
		.opcode = RF_WC_RECV_IMM,
		.imm = imm,
		.byte_len = length
	};

	push(qp, &wc);
}

static int
take_completions(RfCq *cq, RfWc *wc, int max)
{
	int			taken = 0;

	while (taken < max && cq->count > 0)
	{
		wc[taken++] = cq->entries[cq->head].wc;
		if (++cq->head == cq->size)
			cq->head = 0;
		cq->count--;
	}
	return taken;
}

static void
progress(RfCq *cq)
{
	struct epoll_event events[16];
	int			count;

	for (RfQp *qp = cq->qps; qp != NULL; qp = qp->next)
	{
		if (qp->failed)
			continue;
		if (qp->kind == RF_SOFT_SHM)
			rf_soft_shm_progress(qp);
		else
		{
			if (qp->unread)
				rf_soft_stream_receive(qp);
			if (!qp->failed && rf_soft_stream_unsent(qp))
				rf_soft_stream_send(qp);
		}
	}

	/*
	 * Streams move only by system calls. Local sockets only carry notes of regions and the end of
	 * the peer, which may wait for a number of polls, but not for as many copies.
	 */
	if (cq->streams == 0 && !cq->armed && ++cq->tick % IDLE_SOCKET_CHECK != 0 &&
		cq->stats.bytes - cq->looked_at < RF_SOFT_BURST)
		return;
	cq->looked_at = cq->stats.bytes;
	count = epoll_wait(cq->epoll, events, 16, 0);
	for (int i = 0; i < count; i++)
	{
		RfQp	   *qp = events[i].data.ptr;

		if (cq->armed && !cq->event_counted)
		{
			cq->event_counted = true;
			cq->stats.events++;
		}
		if (qp == NULL || qp->failed)
			continue;
		if (qp->kind == RF_SOFT_SHM)
			rf_soft_shm_socket(qp);
		else
		{
			if (events[i].events & ~EPOLLOUT)
				rf_soft_stream_receive(qp);
			if (!qp->failed)
				rf_soft_stream_send(qp);
		}
	}
}

/* Returns completions, and drives the queue pairs' transports: they have no thread of their own. */
static int
soft_cq_poll(RfCq *cq, RfWc *wc, int max)
{
	int			taken;

	pthread_mutex_lock(&cq->lock);
	taken = take_completions(cq, wc, max);
	/* a caller that fills every poll with its own completions must hear of its peers as well */
	if (taken < max || ++cq->full_polls == FULL_POLLS)
	{
		cq->full_polls = 0;
		progress(cq);
		taken += take_completions(cq, wc + taken, max - taken);
	}
	/* completions that the caller had no room for must wake it like later ones */
	if (cq->armed && (cq->count > 0 || cq->unread > 0))
		rf_soft_signal(cq);
	pthread_mutex_unlock(&cq->lock);
	return taken;
}

static void
soft_cq_stats(RfCq *cq, RfProviderStats *stats)
{
	pthread_mutex_lock(&cq->lock);
	*stats = cq->stats;
	pthread_mutex_unlock(&cq->lock);
}

/* ---------- queue pairs ---------- */

static RfQp *
soft_qp_create(RfDomain *domain, RfCq *cq, const RfQpConfig *config, RfError *error)
{
	RfQp	   *qp = calloc(1, sizeof(RfQp));

	if (qp == NULL)
	{
		no_memory(error);
		return NULL;
	}
	qp->domain = domain;
	qp->cq = cq;
	qp->config = *config;
	qp->sock = -1;
	qp->wrs_size = 16;
	while (qp->wrs_size < config->max_wr)
		qp->wrs_size *= 2;
	qp->wrs = malloc(qp->wrs_size * sizeof(RfSoftWr));
	if (qp->wrs == NULL)
	{
		free(qp);
		no_memory(error);
		return NULL;
	}
	return qp;
}

static void
soft_qp_local(RfQp *qp, uint8_t blob[RF_QP_BLOB_SIZE])
{
	RfSoftBlob	mine = {
		.magic = RF_SOFT_MAGIC,
		.version = RF_SOFT_VERSION,
		.stream_only = qp->domain->device.stream_only,
		.domain_id = qp->domain->id
	};

	memset(blob, 0, RF_QP_BLOB_SIZE);
	memcpy(blob, &mine, sizeof(mine));
}

/*
 * Connects the queue pair to the described peer over the socket, which decides the transport:
 * shared memory over a local socket without TLS, a byte stream otherwise. The socket belongs to the
 * queue pair from here on.
 */
static bool
soft_qp_connect(RfQp *qp, const uint8_t blob[RF_QP_BLOB_SIZE], int sock, const RfTlsKey *key,
				RfError *error)
{
	RfCq	   *cq = qp->cq;
	RfSoftBlob	peer;
	struct sockaddr_storage address = {0};
	socklen_t	length = sizeof(address);
	int			flags;
	bool		connected;

	pthread_mutex_lock(&cq->lock);
	qp->sock = sock;
	memcpy(&peer, blob, sizeof(peer));
	flags = sock < 0 ? -1 : fcntl(sock, F_GETFL);
	if (peer.magic != RF_SOFT_MAGIC || peer.version != RF_SOFT_VERSION)
		connected = rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
							 "description of the peer's queue pair is not one of the software "
							 "provider");
	else if (flags < 0 || getsockname(sock, (struct sockaddr *) &address, &length) != 0 ||
			 fcntl(sock, F_SETFL, flags | O_NONBLOCK) != 0)
		connected = rf_error(error, RF_ERROR_INTERNAL, strerror(errno), NULL,
							 "socket for a queue pair cannot be used");
	else
	{
		/* both ends reach the same result: see stream_only in the blob */
		qp->kind = address.ss_family == AF_UNIX && !peer.stream_only &&
			!qp->domain->device.stream_only ?
			RF_SOFT_SHM :
			RF_SOFT_STREAM;
		if (qp->kind == RF_SOFT_STREAM)
			connected = rf_soft_stream_connect(qp, address.ss_family, key, error);
		else if (key == NULL)
			connected = rf_soft_shm_connect(qp, peer.domain_id, error);
		else
			connected = rf_error(error, RF_ERROR_INTERNAL, NULL, NULL,
								 "memory is not passed over a socket under TLS");
	}
	if (connected)
	{
		qp->next = cq->qps;
		cq->qps = qp;
		if (qp->kind == RF_SOFT_STREAM)
			cq->streams++;
	}
	else
		qp->failed = true;
	pthread_mutex_unlock(&cq->lock);
	return connected;
}

/*
 * The queue pair is dead: its oldest work request gets `status`, the others FLUSHED, and the peer
 * sees the end of the socket. `tell`: also report DISCONNECTED, because no work request of ours
 * explains it.
 */
void
rf_soft_fail(RfQp *qp, RfWcStatus status, bool tell)
{
	if (qp->failed)
		return;
	qp->failed = true;
	epoll_ctl(qp->cq->epoll, EPOLL_CTL_DEL, qp->sock, NULL);
	shutdown(qp->sock, SHUT_WR);
	if (qp->kind == RF_SOFT_STREAM)
	{
		qp->cq->streams--;
		rf_soft_stream_set_unread(qp, false);
	}
	for (; qp->first < qp->last; qp->first++)
	{
		rf_soft_complete(qp, qp->wrs[qp->first & (qp->wrs_size - 1)].wr.wr_id, status);
		status = RF_WC_FLUSHED;
	}
	if (tell)
	{
		RfWc		wc = {
			.qp_context = qp->config.context,
			.status = RF_WC_TRANSPORT,
			.opcode = RF_WC_DISCONNECTED
		};

		push(qp, &wc);
	}
}

/* Under RfDomain.lock, shared. */
RfWcStatus
rf_soft_check_local(RfQp *qp, const RfWr *wr, uint32_t *length)
{
	uint64_t	total = 0;

	*length = 0;
	if (wr->num_sge < 0 || wr->num_sge > RF_MAX_SGE || wr->num_strided != 0 ||
		wr->opcode < RF_WR_WRITE || wr->opcode > RF_WR_COMPARE_SWAP)
		return RF_WC_LOCAL;
	for (int i = 0; i < wr->num_sge; i++)
	{
		const RfSge *sge = &wr->sge[i];
		RfSoftRegion *region;

		if (sge->length == 0)
			continue;
		region = rf_soft_region(qp->domain, sge->lkey, &qp->region_hint);
		if (region == NULL || !rf_soft_inside((uintptr_t) region->pub.addr, region->pub.length,
											  (uintptr_t) sge->addr, sge->length))
			return RF_WC_LOCAL;
		total += sge->length;
	}
	if (total > RF_MAX_MESSAGE)
		return RF_WC_LOCAL;
	if (wr->opcode == RF_WR_COMPARE_SWAP &&
		(wr->num_sge != 1 || total != sizeof(uint64_t) || wr->remote_addr % sizeof(uint64_t) != 0))
		return RF_WC_LOCAL;
	*length = (uint32_t) total;
	return RF_WC_SUCCESS;
}

/*
 * Keeps a work request until it completes. One beyond max_wr is kept as well, to fail when its turn
 * comes. NULL: out of memory; the queue pair has failed and the work request is flushed.
 */
RfSoftWr *
rf_soft_append(RfQp *qp, const RfWr *wr, RfWcStatus bad)
{
	uint64_t	count = qp->last - qp->first;
	RfSoftWr   *kept;

	if (count >= qp->config.max_wr || wr->num_sge < 0 || wr->num_sge > RF_MAX_SGE)
		bad = RF_WC_LOCAL;
	if (count == qp->wrs_size)
	{
		RfSoftWr   *wrs = malloc(qp->wrs_size * 2 * sizeof(RfSoftWr));

		if (wrs == NULL)
		{
			rf_soft_fail(qp, RF_WC_FLUSHED, false);
			rf_soft_complete(qp, wr->wr_id, RF_WC_LOCAL);
			return NULL;
		}
		for (uint64_t number = qp->first; number < qp->last; number++)
		{
			kept = &wrs[number & (qp->wrs_size * 2 - 1)];
			*kept = qp->wrs[number & (qp->wrs_size - 1)];
			kept->wr.sge = kept->sge;
		}
		free(qp->wrs);
		qp->wrs = wrs;
		qp->wrs_size *= 2;
	}
	kept = &qp->wrs[qp->last++ & (qp->wrs_size - 1)];
	kept->wr = *wr;
	kept->wr.next = NULL;
	kept->wr.sge = kept->sge;
	kept->bad = bad;
	kept->length = 0;
	if (bad == RF_WC_SUCCESS && wr->num_sge > 0)
	{
		memcpy(kept->sge, wr->sge, wr->num_sge * sizeof(RfSge));
		for (int i = 0; i < wr->num_sge; i++)
			kept->length += wr->sge[i].length;
	}
	return kept;
}

/*
 * Posts the chain in order. Each request either starts at once, waits for its turn, or completes
 * with an error; the call never fails.
 */
static void
soft_qp_post(RfQp *qp, RfWr *chain)
{
	RfCq	   *cq = qp->cq;

	pthread_mutex_lock(&cq->lock);
	for (RfWr *wr = chain; wr != NULL; wr = wr->next)
	{
		cq->stats.work_requests++;
		if (qp->failed || qp->kind == RF_SOFT_UNCONNECTED)
			rf_soft_complete(qp, wr->wr_id, RF_WC_FLUSHED);
		else if (qp->kind == RF_SOFT_SHM)
			rf_soft_shm_post(qp, wr);
		else
			rf_soft_stream_post(qp, wr);
	}
	if (!qp->failed && qp->kind == RF_SOFT_SHM)
	{
		cq->stats.posts++;
		rf_soft_shm_kick(qp);
	}
	else if (!qp->failed && qp->kind == RF_SOFT_STREAM)
	{
		rf_soft_stream_send(qp);
		/* unsent bytes wait for room in the socket, also if the caller sleeps already */
		if (cq->armed && !qp->failed && rf_soft_stream_unsent(qp))
			rf_soft_watch(qp, EPOLLIN | EPOLLOUT);
	}
	if (cq->armed && cq->count > 0)
		rf_soft_signal(cq);
	pthread_mutex_unlock(&cq->lock);
}

/*
 * Takes the queue pair out of its completion queue, with the completions that were not polled, and
 * closes its connection. Payload that a peer over shared memory is still copying is the transport's
 * business.
 */
static void
soft_qp_destroy(RfQp *qp)
{
	RfCq	   *cq = qp->cq;
	size_t		kept = 0;

	pthread_mutex_lock(&cq->lock);
	for (RfQp **link = &cq->qps; *link != NULL; link = &(*link)->next)
	{
		if (*link == qp)
		{
			*link = qp->next;
			if (qp->kind == RF_SOFT_STREAM && !qp->failed)
			{
				cq->streams--;
				rf_soft_stream_set_unread(qp, false);
			}
			break;
		}
	}
	for (size_t i = 0; i < cq->count; i++)
	{
		RfSoftEntry entry = cq->entries[(cq->head + i) % cq->size];

		if (entry.qp != qp)
			cq->entries[(cq->head + kept++) % cq->size] = entry;
	}
	cq->count = kept;
	free(qp->wrs);
	if (qp->kind == RF_SOFT_SHM)
		rf_soft_shm_destroy(qp);
	else
	{
		if (qp->kind == RF_SOFT_STREAM)
			rf_soft_stream_destroy(qp);
		if (qp->sock >= 0)
			close(qp->sock);
		free(qp);
	}
	pthread_mutex_unlock(&cq->lock);
}

const RfProvider rf_provider_soft = {
	.name = "soft",
	.device_open = soft_device_open,
	.device_close = soft_device_close,
	.device_caps = soft_device_caps,
	.domain_create = soft_domain_create,
	.domain_destroy = soft_domain_destroy,
	.domain_quiet = soft_domain_quiet,
	.region_register = soft_region_register,
	.source_register = soft_source_register,
	.region_deregister = soft_region_deregister,
	.cq_create = soft_cq_create,
	.cq_destroy = soft_cq_destroy,
	.cq_fd = soft_cq_fd,
	.cq_arm = soft_cq_arm,
	.cq_poll = soft_cq_poll,
	.qp_create = soft_qp_create,
	.qp_local = soft_qp_local,
	.qp_connect = soft_qp_connect,
	.qp_post = soft_qp_post,
	.qp_destroy = soft_qp_destroy,
	.cq_stats = soft_cq_stats
};
