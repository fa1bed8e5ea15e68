/*
 * sim.c - the simulated provider (see sim.h): an in-memory fabric with delays, overtaking and faults by a seed.
 *
 * It moves bytes only inside one process and knows no sockets. It is stricter than hardware where a caller could get
 * away with a mistake: space for work requests returns only with a polled signaled completion, completion queues that
 * overflow are counted, and payload that changes before its completion is counted.
 *
 * Sharing: everything below is read and written under fabric.lock, by callers' threads and the fabric thread alike. Objects are
 * freed by their destroy calls. Memory of regions is written by whoever steps, under the lock; a poll takes the same
 * lock, which is what makes landed bytes visible to the poller.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sim.h"

typedef struct SimRegion
{
	RfRegion	pub;			/* first */
	struct SimRegion *next;
} SimRegion;

struct RfDevice
{
	int			unused;			/* the fabric is the device */
};

struct RfDomain
{
	SimRegion  *regions;
};

typedef struct SimEntry
{
	RfWc		wc;
	RfQp	   *qp;
	uint64_t	covers;			/* RF_WC_WRITE: posts of its queue pair up to this one are done with */
} SimEntry;

struct RfCq
{
	SimEntry   *entries;		/* ring, grows: an overflow is counted, not suffered */
	size_t		size;
	size_t		head;
	size_t		count;
	int			depth;
	int			fd;
	bool		armed;
	RfProviderStats stats;
};

typedef struct SimWr
{
	struct SimWr *next;
	RfWr		wr;
	RfSge		sge[RF_MAX_SGE];
	uint64_t	number;			/* counts posts of the queue pair, from 1 */
	uint64_t	hash;
	RfWcStatus	bad;			/* found at post; reported when it is this one's turn */
	int			phase;			/* pieces landed */
	uint64_t	found;			/* compare-and-swap: what was there */
	uint64_t	ack_at;			/* with a service time */
	bool		executed;
	bool		stalled;		/* counted as an RNR stall already */
} SimWr;

struct RfQp
{
	RfQp	   *next;
	uint32_t	number;
	RfDomain   *domain;
	RfCq	   *cq;
	RfQpConfig	config;
	RfQp	   *peer;
	bool		connected;
	bool		error;
	bool		held;
	SimWr	   *first;			/* oldest not acknowledged */
	SimWr	   *last;
	uint64_t	posted;
	uint64_t	freed;
	uint64_t	exec_due;
	uint64_t	ack_due;
	uint64_t	recv_unpolled;
	uint64_t	fail_at;		/* number of the post to fail, 0 = none */
	bool		fail_after;
};

static struct
{
	pthread_mutex_t lock;
	pthread_cond_t work;
	RfSimConfig config;
	RfSimCounters counters;
	uint64_t	rng;
	uint64_t	now;
	uint64_t	adapter_free;	/* with a service time: when the adapter has done the last one */
	uint64_t	outstanding;	/* of all queue pairs, to the acknowledgement */
	RfQp	   *qps;
	uint32_t	next_qp;
	uint32_t	next_key;
	pthread_t	thread;
	bool		threaded;
	bool		stop;
}			fabric = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.config = {.seed = 1},
	.rng = 1,
	.next_key = 1
};

static void
lock(void)
{
	pthread_mutex_lock(&fabric.lock);
}

static void
unlock(void)
{
	pthread_mutex_unlock(&fabric.lock);
}

static uint64_t
random_u64(void)
{
	/* splitmix64 */
	uint64_t	z = (fabric.rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static bool
chance(uint32_t ppm)
{
	return ppm > 0 && random_u64() % 1000000 < ppm;
}

static uint64_t
random_delay(void)
{
	uint32_t	low = fabric.config.delay_min;
	uint32_t	high = fabric.config.delay_max;

	return high <= low ? low : low + random_u64() % (high - low + 1);
}

/* ---------- completion queues ---------- */

static void
cq_push(RfCq *cq, RfQp *qp, const RfWc *wc, uint64_t covers)
{
	if (cq->count == cq->size)
	{
		size_t		bigger = cq->size * 2;
		SimEntry   *entries = malloc(bigger * sizeof(SimEntry));

		if (entries == NULL)
			abort();
		for (size_t i = 0; i < cq->count; i++)
			entries[i] = cq->entries[(cq->head + i) % cq->size];
		free(cq->entries);
		cq->entries = entries;
		cq->size = bigger;
		cq->head = 0;
	}
	cq->entries[(cq->head + cq->count) % cq->size] = (SimEntry)
	{
		*wc, qp, covers
	};
	cq->count++;
	if (cq->count > cq->depth)
		fabric.counters.cq_overflows++;
	cq->stats.completions++;
	if (cq->armed)
	{
		uint64_t	one = 1;

		cq->armed = false;
		cq->stats.events++;
		if (write(cq->fd, &one, sizeof(one)) != sizeof(one))
			abort();
	}
}

static void
push_write(RfQp *qp, SimWr *swr, RfWcStatus status)
{
	RfWc		wc = {
		.wr_id = swr->wr.wr_id,
		.qp_context = qp->config.context,
		.status = status,
		.opcode = RF_WC_WRITE
	};

	cq_push(qp->cq, qp, &wc, swr->number);
}

static void
push_disconnected(RfQp *qp)
{
	RfWc		wc = {
		.qp_context = qp->config.context,
		.status = RF_WC_TRANSPORT,
		.opcode = RF_WC_DISCONNECTED
	};

	cq_push(qp->cq, qp, &wc, 0);
}

/* Take the oldest work request off, telling about it unless it succeeded silently. */
static void
retire_first(RfQp *qp, RfWcStatus status)
{
	SimWr	   *swr = qp->first;

	qp->first = swr->next;
	if (qp->first == NULL)
		qp->last = NULL;
	if (status != RF_WC_SUCCESS || swr->wr.signaled)
		push_write(qp, swr, status);
	fabric.outstanding--;
	free(swr);
}

/* The queue pair is dead: its oldest work request gets `status`, the others FLUSHED. */
static void
fail_qp(RfQp *qp, RfWcStatus status, bool tell)
{
	bool		had_work = qp->first != NULL;

	if (qp->error)
		return;
	qp->error = true;
	fabric.counters.failures++;
	/* both orders occur on hardware: the event about the connection is not ordered with the completions */
	if (had_work && tell && random_u64() & 1)
	{
		push_disconnected(qp);
		tell = false;
	}
	while (qp->first != NULL)
	{
		retire_first(qp, status);
		status = RF_WC_FLUSHED;
	}
	if (tell)
		push_disconnected(qp);
}

static void
cut_link(RfQp *qp)
{
	RfQp	   *peer = qp->peer;

	fail_qp(qp, RF_WC_TRANSPORT, true);
	if (peer != NULL)
		fail_qp(peer, RF_WC_TRANSPORT, true);
}

/* ---------- execution ---------- */

static SimRegion *
find_region(RfDomain *domain, uint32_t key)
{
	for (SimRegion *region = domain->regions; region != NULL; region = region->next)
	{
		if (region->pub.rkey == key)
			return region;
	}
	return NULL;
}

static bool
in_region(SimRegion *region, uint64_t addr, uint64_t length)
{
	uint64_t	base;

	if (region == NULL)
		return false;
	base = (uint64_t) (uintptr_t) region->pub.addr;
	return addr >= base && length <= region->pub.length && addr - base <= region->pub.length - length;
}

static uint64_t
message_length(const RfWr *wr)
{
	uint64_t	length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sge[i].length;
	return length;
}

static uint64_t
hash_payload(const RfWr *wr)
{
	uint64_t	hash = 0xcbf29ce484222325ull;

	for (int i = 0; i < wr->num_sge; i++)
	{
		const uint8_t *byte = wr->sge[i].addr;

		for (uint32_t k = 0; k < wr->sge[i].length; k++)
			hash = (hash ^ byte[k]) * 0x100000001b3ull;
	}
	return hash;
}

static RfWcStatus
check_local(RfQp *qp, const RfWr *wr)
{
	if (wr->num_sge < 0 || wr->num_sge > RF_MAX_SGE || message_length(wr) > RF_MAX_MESSAGE ||
		wr->opcode < RF_WR_WRITE || wr->opcode > RF_WR_COMPARE_SWAP ||
		(wr->opcode == RF_WR_COMPARE_SWAP && (wr->num_sge != 1 || wr->sge[0].length != sizeof(uint64_t) ||
												 wr->remote_addr % sizeof(uint64_t) != 0)))
		return RF_WC_LOCAL;
	for (int i = 0; i < wr->num_sge; i++)
	{
		if (wr->sge[i].length > 0 &&
			!in_region(find_region(qp->domain, wr->sge[i].lkey), (uint64_t) (uintptr_t) wr->sge[i].addr,
					   wr->sge[i].length))
			return RF_WC_LOCAL;
	}
	return RF_WC_SUCCESS;
}

/* Copy bytes [from, to) of the message. */
static void
land_bytes(const RfWr *wr, uint64_t from, uint64_t to)
{
	uint64_t	position = 0;

	for (int i = 0; i < wr->num_sge && position < to; i++)
	{
		uint64_t	end = position + wr->sge[i].length;
		uint64_t	low = from > position ? from : position;
		uint64_t	high = to < end ? to : end;

		if (low < high)
			memmove((char *) (uintptr_t) wr->remote_addr + low,
					(const char *) wr->sge[i].addr + (low - position), high - low);
		position = end;
	}
}

static SimWr *
next_to_execute(RfQp *qp)
{
	SimWr	   *swr = qp->first;

	while (swr != NULL && swr->executed)
		swr = swr->next;
	return swr;
}

static bool
can_execute(RfQp *qp, SimWr *swr)
{
	RfQp	   *peer = qp->peer;

	if (swr == NULL)
		return false;
	if (swr->wr.opcode == RF_WR_WRITE_IMM && swr->bad == RF_WC_SUCCESS && peer != NULL && !peer->error &&
		peer->recv_unpolled >= peer->config.max_recv)
	{
		if (!swr->stalled)
			fabric.counters.rnr_stalls++;
		swr->stalled = true;
		return false;
	}
	return true;
}

/* Everything before `swr` has been executed and is implicitly acknowledged by its negative answer. */
static void
fail_at(RfQp *qp, SimWr *swr, RfWcStatus status)
{
	RfQp	   *peer = qp->peer;

	while (qp->first != swr)
		retire_first(qp, RF_WC_SUCCESS);
	fail_qp(qp, status, false);
	if (peer != NULL)
		fail_qp(peer, RF_WC_FLUSHED, true);
}

/*
 * The capacity of an adapter whose cache holds the state of so many work requests: it rises with their number until the latency is
 * hidden, and falls when they do not fit any more.
 */
static void
occupy_adapter(void)
{
	uint64_t	cost = fabric.config.service;
	uint32_t	cache = fabric.config.cache;

	if (cache > 0 && fabric.outstanding > cache)
		cost = cost * fabric.outstanding / cache;
	fabric.adapter_free = fabric.now + cost;
}

static void
execute(RfQp *qp, SimWr *swr)
{
	RfQp	   *peer = qp->peer;
	const RfWr *wr = &swr->wr;
	uint64_t	length = message_length(wr);
	uint64_t	half;

	qp->exec_due = fabric.now + random_delay();
	if (swr->bad == RF_WC_SUCCESS)
		swr->bad = check_local(qp, wr);
	if (swr->bad != RF_WC_SUCCESS)
	{
		fail_at(qp, swr, swr->bad);
		return;
	}
	if (peer == NULL || peer->error)
	{
		cut_link(qp);
		return;
	}
	if (swr->phase == 0)
	{
		bool		named = qp->fail_at == swr->number;

		if (named ? !qp->fail_after : chance(fabric.config.fail_ppm / 2))
		{
			cut_link(qp);
			return;
		}
	}
	if (length > 0 && !in_region(find_region(peer->domain, wr->rkey), wr->remote_addr, length))
	{
		fail_at(qp, swr, RF_WC_REMOTE_ACCESS);
		return;
	}

	half = length / 2;
	if (wr->opcode == RF_WR_COMPARE_SWAP)
	{
		/* the old value travels back with the acknowledgement */
		swr->found = wr->compare;
		(void) atomic_compare_exchange_strong((_Atomic uint64_t *) (uintptr_t) wr->remote_addr, &swr->found, wr->swap);
	}
	else if (fabric.config.tear && length > 1 && swr->phase < 2)
	{
		if (swr->phase == 0)
			land_bytes(wr, half, length);
		else
			land_bytes(wr, 0, half);
		swr->phase++;
		return;
	}
	else if (swr->phase == 0)
		land_bytes(wr, 0, length);

	if (fabric.config.check_payload && hash_payload(wr) != swr->hash)
		fabric.counters.payload_changed++;
	if (wr->opcode == RF_WR_WRITE_IMM)
	{
		RfWc		wc = {
			.qp_context = peer->config.context,
			.status = RF_WC_SUCCESS,
			.opcode = RF_WC_RECV_IMM,
			.imm = wr->imm,
			.byte_len = (uint32_t) length
		};

		peer->recv_unpolled++;
		cq_push(peer->cq, peer, &wc, 0);
	}
	swr->executed = true;
	fabric.counters.executed++;
	occupy_adapter();
	swr->ack_at = fabric.now + fabric.config.latency;
	if (swr == qp->first)
		qp->ack_due = swr->ack_at + random_delay();
	if (qp->fail_at == swr->number || chance(fabric.config.fail_ppm / 2))
		cut_link(qp);
}

static void
acknowledge(RfQp *qp)
{
	const RfWr *wr = &qp->first->wr;

	if (wr->opcode == RF_WR_COMPARE_SWAP &&
		in_region(find_region(qp->domain, wr->sge[0].lkey), (uint64_t) (uintptr_t) wr->sge[0].addr, sizeof(uint64_t)))
		memcpy((void *) wr->sge[0].addr, &qp->first->found, sizeof(uint64_t));
	else if (fabric.config.check_payload && hash_payload(&qp->first->wr) != qp->first->hash)
		fabric.counters.payload_changed++;
	retire_first(qp, RF_WC_SUCCESS);
	qp->ack_due = fabric.now + random_delay();
	if (qp->first != NULL && qp->first->ack_at > qp->ack_due)
		qp->ack_due = qp->first->ack_at;
}

/* Earliest due event; among equals a random one. */
static bool
step_locked(void)
{
	RfQp	   *best = NULL;
	SimWr	   *best_wr = NULL;
	uint64_t	best_due = 0;
	uint64_t	ties = 0;

	for (RfQp *qp = fabric.qps; qp != NULL; qp = qp->next)
	{
		SimWr	   *swr;

		if (qp->held || qp->error || !qp->connected)
			continue;
		swr = next_to_execute(qp);
		for (int kind = 0; kind < 2; kind++)
		{
			bool		possible = kind == 0 ? can_execute(qp, swr) : qp->first != NULL && qp->first->executed;
			uint64_t	due = kind == 0 ? qp->exec_due : qp->ack_due;

			if (!possible)
				continue;
			if (kind == 0 && due < fabric.adapter_free)
				due = fabric.adapter_free;
			if (due < fabric.now)
				due = fabric.now;
			if (best == NULL || due < best_due)
				ties = 0;
			else if (due > best_due)
				continue;
			if (random_u64() % ++ties == 0)
			{
				best = qp;
				best_wr = kind == 0 ? swr : NULL;
				best_due = due;
			}
		}
	}
	if (best == NULL)
		return false;
	fabric.now = best_due;
	fabric.counters.steps++;
	if (best_wr != NULL)
		execute(best, best_wr);
	else
		acknowledge(best);
	return true;
}

bool
rf_sim_step(void)
{
	bool		stepped;

	lock();
	stepped = step_locked();
	unlock();
	return stepped;
}

uint64_t
rf_sim_run(uint64_t max)
{
	uint64_t	done = 0;

	while (done < max && rf_sim_step())
		done++;
	return done;
}

uint64_t
rf_sim_pending(void)
{
	uint64_t	pending = 0;

	lock();
	for (RfQp *qp = fabric.qps; qp != NULL; qp = qp->next)
	{
		if (qp->held || qp->error || !qp->connected)
			continue;
		for (SimWr *swr = qp->first; swr != NULL; swr = swr->next)
			pending++;
	}
	unlock();
	return pending;
}

void
rf_sim_configure(const RfSimConfig *config)
{
	static const RfSimConfig quiet = {.seed = 1};

	lock();
	fabric.config = config ? *config : quiet;
	fabric.rng = fabric.config.seed;
	unlock();
}

void
rf_sim_reset(const RfSimConfig *config)
{
	rf_sim_configure(config);
	lock();
	if (fabric.qps != NULL)
	{
		fprintf(stderr, "rf_sim_reset: queue pairs still exist\n");
		abort();
	}
	memset(&fabric.counters, 0, sizeof(fabric.counters));
	fabric.now = fabric.adapter_free = 0;
	fabric.outstanding = 0;
	fabric.next_qp = 0;
	fabric.next_key = 1;
	unlock();
}

uint64_t
rf_sim_now(void)
{
	uint64_t	now;

	lock();
	now = fabric.now;
	unlock();
	return now;
}

void
rf_sim_cut(RfQp *qp)
{
	lock();
	cut_link(qp);
	unlock();
}

void
rf_sim_hold(RfQp *qp, bool hold)
{
	lock();
	qp->held = hold;
	pthread_cond_signal(&fabric.work);
	unlock();
}

void
rf_sim_fail_nth(RfQp *qp, uint64_t n, bool after)
{
	lock();
	qp->fail_at = qp->posted + n;
	qp->fail_after = after;
	unlock();
}

void
rf_sim_counters(RfSimCounters *counters)
{
	lock();
	*counters = fabric.counters;
	unlock();
}

/* ---------- the fabric thread ---------- */

static void *
fabric_main(void *unused)
{
	lock();
	while (!fabric.stop)
	{
		uint32_t	pause = fabric.config.step_sleep_us;

		if (!step_locked())
		{
			pthread_cond_wait(&fabric.work, &fabric.lock);
			continue;
		}
		if (pause > 0)
			pause = random_u64() % (pause + 1);
		unlock();
		if (pause > 0)
			usleep(pause);
		else
			sched_yield();
		lock();
	}
	unlock();
	return NULL;
}

bool
rf_sim_start(void)
{
	fabric.stop = false;
	fabric.threaded = pthread_create(&fabric.thread, NULL, fabric_main, NULL) == 0;
	return fabric.threaded;
}

void
rf_sim_stop(void)
{
	if (!fabric.threaded)
		return;
	lock();
	fabric.stop = true;
	pthread_cond_signal(&fabric.work);
	unlock();
	pthread_join(fabric.thread, NULL);
	fabric.threaded = false;
}

/* ---------- the provider's functions ---------- */

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

/* The fabric carries out the writes, and drops those of a queue pair that is gone. */
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
	lock();
	region->pub.addr = addr;
	region->pub.length = length;
	region->pub.lkey = region->pub.rkey = fabric.next_key++;
	region->next = domain->regions;
	domain->regions = region;
	unlock();
	return &region->pub;
}

static void
sim_region_deregister(RfDomain *domain, RfRegion *pub)
{
	lock();
	for (SimRegion **link = &domain->regions; *link != NULL; link = &(*link)->next)
	{
		if (&(*link)->pub == pub)
		{
			*link = (*link)->next;
			break;
		}
	}
	unlock();
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

	lock();
	if (read(cq->fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
		abort();
	cq->armed = true;
	unlock();
}

static int
sim_cq_poll(RfCq *cq, RfWc *wc, int max)
{
	int			done = 0;

	lock();
	while (done < max && cq->count > 0)
	{
		SimEntry   *entry = &cq->entries[cq->head];

		wc[done++] = entry->wc;
		if (entry->wc.opcode == RF_WC_WRITE)
			entry->qp->freed = entry->covers;
		else if (entry->wc.opcode == RF_WC_RECV_IMM)
		{
			entry->qp->recv_unpolled--;
			pthread_cond_signal(&fabric.work);
		}
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	unlock();
	return done;
}

static void
sim_cq_stats(RfCq *cq, RfProviderStats *stats)
{
	lock();
	*stats = cq->stats;
	unlock();
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
	lock();
	qp->number = ++fabric.next_qp;
	qp->next = fabric.qps;
	fabric.qps = qp;
	unlock();
	return qp;
}

static void
sim_qp_local(RfQp *qp, uint8_t blob[RF_QP_BLOB_SIZE])
{
	memset(blob, 0, RF_QP_BLOB_SIZE);
	memcpy(blob, &qp->number, sizeof(qp->number));
}

static bool
sim_qp_connect(RfQp *qp, const uint8_t blob[RF_QP_BLOB_SIZE], int sock, RfError *error)
{
	uint32_t	number;
	RfQp	   *peer;

	if (sock >= 0)
		close(sock);
	memcpy(&number, blob, sizeof(number));
	lock();
	for (peer = fabric.qps; peer != NULL && peer->number != number; peer = peer->next)
		;
	if (peer == NULL)
	{
		unlock();
		return rf_error(error, RF_ERROR_CONNECTION, NULL, NULL, "no simulated queue pair %u", number);
	}
	qp->peer = peer;
	qp->connected = true;
	pthread_cond_signal(&fabric.work);
	unlock();
	return true;
}

bool
rf_sim_connect(RfQp *a, RfQp *b, RfError *error)
{
	uint8_t		blob_a[RF_QP_BLOB_SIZE];
	uint8_t		blob_b[RF_QP_BLOB_SIZE];

	sim_qp_local(a, blob_a);
	sim_qp_local(b, blob_b);
	return sim_qp_connect(a, blob_b, -1, error) && sim_qp_connect(b, blob_a, -1, error);
}

static void
sim_qp_post(RfQp *qp, RfWr *chain)
{
	lock();
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
		if (wr->num_sge > 0 && wr->num_sge <= RF_MAX_SGE)
			memcpy(swr->sge, wr->sge, wr->num_sge * sizeof(RfSge));
		else if (wr->num_sge != 0)
			swr->wr.num_sge = 0;
		qp->cq->stats.work_requests++;
		if (qp->error || !qp->connected)
		{
			push_write(qp, swr, RF_WC_FLUSHED);
			free(swr);
			continue;
		}
		qp->cq->stats.bytes += message_length(&swr->wr);
		if (wr->num_sge < 0 || wr->num_sge > RF_MAX_SGE)
			swr->bad = RF_WC_LOCAL;
		else
			swr->bad = check_local(qp, &swr->wr);
		if (qp->posted - qp->freed > qp->config.max_wr)
		{
			fabric.counters.wr_overflows++;
			swr->bad = RF_WC_LOCAL;
		}
		if (fabric.config.check_payload && swr->bad == RF_WC_SUCCESS)
			swr->hash = hash_payload(&swr->wr);
		fabric.outstanding++;
		if (next_to_execute(qp) == NULL)
			qp->exec_due = fabric.now + random_delay();
		if (qp->last != NULL)
			qp->last->next = swr;
		else
			qp->first = swr;
		qp->last = swr;
	}
	pthread_cond_signal(&fabric.work);
	unlock();
}

static void
sim_qp_destroy(RfQp *qp)
{
	RfCq	   *cq = qp->cq;
	size_t		kept = 0;

	lock();
	for (RfQp **link = &fabric.qps; *link != NULL; link = &(*link)->next)
	{
		if (*link == qp)
		{
			*link = qp->next;
			break;
		}
	}
	for (RfQp *other = fabric.qps; other != NULL; other = other->next)
	{
		if (other->peer == qp)
		{
			other->peer = NULL;
			fail_qp(other, RF_WC_TRANSPORT, true);
		}
	}
	while (qp->first != NULL)
	{
		SimWr	   *swr = qp->first;

		qp->first = swr->next;
		fabric.outstanding--;
		free(swr);
	}
	for (size_t i = 0; i < cq->count; i++)
	{
		SimEntry	entry = cq->entries[(cq->head + i) % cq->size];

		if (entry.qp != qp)
			cq->entries[(cq->head + kept++) % cq->size] = entry;
	}
	cq->count = kept;
	unlock();
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
