/*
 * sim.c - the fabric of the simulated provider (see sim.h): its clock, the execution of requests
 * and acknowledged next, and the faults, all by a seed. sim_provider.c has the provider's calls.
 *
 * It moves bytes only inside one process and knows no sockets. Both files are stricter than
 * hardware where a caller could get away with a mistake: space for work requests returns only with
 * a polled signaled completion, completion queues that overflow are counted, and payload that
 * changes before its completion is counted.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "sim_private.h"

SimFabric	sim_fabric = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.config = {.seed = 1},
	.rng = 1,
	.next_key = 1
};

static uint64_t
random_u64(void)
{
	/* splitmix64 */
	uint64_t	z = (sim_fabric.rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static bool
chance(uint32_t ppm)
{
	return ppm > 0 && random_u64() % 1000000 < ppm;
}

uint64_t
sim_delay(void)
{
	uint32_t	low = sim_fabric.config.delay_min;
	uint32_t	high = sim_fabric.config.delay_max;

	return high <= low ? low : low + random_u64() % (high - low + 1);
}

/* ---------- completion queues ---------- */

static void
cq_push(RfCq *cq, RfQp *qp, const RfWc *wc, uint64_t covers, uint64_t covers_strided)
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
		*wc, qp, covers, covers_strided
	};
	cq->count++;
	if (cq->count > cq->depth)
		sim_fabric.counters.cq_overflows++;
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

void
sim_push_write(RfQp *qp, SimWr *swr, RfWcStatus status)
{
	RfWc		wc = {
		.wr_id = swr->wr.wr_id,
		.qp_context = qp->config.context,
		.status = status,
		.opcode = RF_WC_WRITE
	};

	cq_push(qp->cq, qp, &wc, swr->number, swr->strided_number);
}

static void
push_disconnected(RfQp *qp)
{
	RfWc		wc = {
		.qp_context = qp->config.context,
		.status = RF_WC_TRANSPORT,
		.opcode = RF_WC_DISCONNECTED
	};

	cq_push(qp->cq, qp, &wc, 0, 0);
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
		sim_push_write(qp, swr, status);
	sim_fabric.outstanding--;
	free(swr);
}

/* The queue pair is dead: its oldest work request gets `status`, the others FLUSHED. */
void
sim_fail_qp(RfQp *qp, RfWcStatus status, bool tell)
{
	bool		had_work = qp->first != NULL;

	if (qp->error)
		return;
	qp->error = true;
	sim_fabric.counters.failures++;

	/*
	 * both orders occur on hardware: the event about the connection is not ordered with the
	 * completions
	 */
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

	sim_fail_qp(qp, RF_WC_TRANSPORT, true);
	if (peer != NULL)
		sim_fail_qp(peer, RF_WC_TRANSPORT, true);
}

/* ---------- execution ---------- */

static SimRegion *
find_region(RfDomain *domain, uint32_t key)
{
	for (SimRegion *region = domain->regions; region != NULL; region = region->next)
	{
		if (region->pub.lkey == key)
			return region;
	}
	return NULL;
}

/* The same by the key that a peer knows it by. */
static SimRegion *
find_remote(RfDomain *domain, uint32_t key)
{
	SimRegion  *region = find_region(domain, key);

	return region != NULL && region->pub.rkey == key ? region : NULL;
}

static bool
in_region(SimRegion *region, uint64_t addr, uint64_t length)
{
	uint64_t	base;

	if (region == NULL)
		return false;
	base = (uint64_t) (uintptr_t) region->pub.addr;
	return addr >= base && length <= region->pub.length &&
		addr - base <= region->pub.length - length;
}

uint64_t
sim_message_length(const RfWr *wr)
{
	uint64_t	length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sge[i].length;
	return length;
}

/* The strided description of an entry, or NULL. */
static const RfStrided *
strided_at(const RfWr *wr, int entry)
{
	for (int i = 0; i < wr->num_strided; i++)
		if (wr->strided[i].entry == entry)
			return &wr->strided[i];
	return NULL;
}

/* Byte `k` of an entry, as the device counts them. */
static inline const uint8_t *
byte_of(const RfSge *sge, const RfStrided *strided, uint64_t k)
{
	return (const uint8_t *) sge->addr +
		(strided == NULL ? k : k / strided->element * strided->stride + k % strided->element);
}

uint64_t
sim_hash_payload(const RfWr *wr)
{
	uint64_t	hash = 0xcbf29ce484222325ull;

	for (int i = 0; i < wr->num_sge; i++)
	{
		const RfStrided *strided = strided_at(wr, i);

		for (uint32_t k = 0; k < wr->sge[i].length; k++)
			hash = (hash ^ *byte_of(&wr->sge[i], strided, k)) * 0x100000001b3ull;
	}
	return hash;
}

RfWcStatus
sim_check_local(RfQp *qp, const RfWr *wr)
{
	if (wr->num_sge < 0 || wr->num_sge > RF_MAX_SGE || sim_message_length(wr) > RF_MAX_MESSAGE ||
		wr->opcode < RF_WR_WRITE || wr->opcode > RF_WR_COMPARE_SWAP ||
		(wr->opcode == RF_WR_COMPARE_SWAP &&
		 (wr->num_sge != 1 || wr->sge[0].length != sizeof(uint64_t) ||
		  wr->remote_addr % sizeof(uint64_t) != 0)))
		return RF_WC_LOCAL;
	for (int i = 0; i < wr->num_sge; i++)
	{
		const RfStrided *strided = strided_at(wr, i);

		if (wr->sge[i].length > 0 &&
			!in_region(find_region(qp->domain, wr->sge[i].lkey),
					   (uint64_t) (uintptr_t) wr->sge[i].addr,
					   strided == NULL ? wr->sge[i].length :
					   rf_strided_extent(&wr->sge[i], strided)))
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
		const RfStrided *strided = strided_at(wr, i);

		if (strided != NULL)
			for (uint64_t next; low < high; low = next)
			{
				uint64_t	into = (low - position) % strided->element;

				next = low + strided->element - into < high ? low + strided->element - into : high;
				memmove((char *) (uintptr_t) wr->remote_addr + low,
						byte_of(&wr->sge[i], strided, low - position), next - low);
			}
		else if (low < high)
			memmove((char *) (uintptr_t) wr->remote_addr + low,
					(const char *) wr->sge[i].addr + (low - position), high - low);
		position = end;
	}
}

SimWr *
sim_next_to_execute(RfQp *qp)
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

	if (swr == NULL || qp->dropping)
		return false;
	if (swr->wr.opcode == RF_WR_WRITE_IMM && swr->bad == RF_WC_SUCCESS && peer != NULL &&
		!peer->error && peer->recv_unpolled >= peer->config.max_recv)
	{
		if (!swr->stalled)
			sim_fabric.counters.rnr_stalls++;
		swr->stalled = true;
		return false;
	}
	return true;
}

static bool
can_acknowledge(RfQp *qp)
{
	return qp->first != NULL && qp->first->executed && !(qp->peer != NULL && qp->peer->dropping);
}

/*
 * Everything before `swr` has been executed and is implicitly acknowledged by its negative answer.
 */
static void
fail_at(RfQp *qp, SimWr *swr, RfWcStatus status)
{
	RfQp	   *peer = qp->peer;

	while (qp->first != swr)
		retire_first(qp, RF_WC_SUCCESS);
	sim_fail_qp(qp, status, false);
	if (peer != NULL)
		sim_fail_qp(peer, RF_WC_FLUSHED, true);
}

/*
 * The capacity of an adapter whose cache holds the state of so many work requests: it rises with
 * their number until the latency is hidden, and falls when they do not fit any more.
 */
static void
occupy_adapter(const RfWr *wr)
{
	uint64_t	cost = (uint64_t) sim_fabric.config.service * (1 + 2 * (uint64_t) wr->num_strided);
	uint32_t	cache = sim_fabric.config.cache;

	if (cache > 0 && sim_fabric.outstanding > cache)
		cost = cost * sim_fabric.outstanding / cache;
	sim_fabric.adapter_free = sim_fabric.now + cost;
}

static void
execute(RfQp *qp, SimWr *swr)
{
	RfQp	   *peer = qp->peer;
	const RfWr *wr = &swr->wr;
	uint64_t	length = sim_message_length(wr);
	uint64_t	half;

	qp->exec_due = sim_fabric.now + sim_delay();
	if (swr->bad == RF_WC_SUCCESS)
		swr->bad = sim_check_local(qp, wr);
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

		if (named ? !qp->fail_after : chance(sim_fabric.config.fail_ppm / 2))
		{
			cut_link(qp);
			return;
		}
	}
	if (length > 0 && !in_region(find_remote(peer->domain, wr->rkey), wr->remote_addr, length))
	{
		fail_at(qp, swr, RF_WC_REMOTE_ACCESS);
		return;
	}

	half = length / 2;
	if (wr->opcode == RF_WR_COMPARE_SWAP)
	{
		/* the old value travels back with the acknowledgement */
		swr->found = wr->compare;
		(void) atomic_compare_exchange_strong((_Atomic uint64_t *) (uintptr_t) wr->remote_addr,
											  &swr->found, wr->swap);
	}
	else if (sim_fabric.config.tear && length > 1 && swr->phase < 2)
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

	if (sim_fabric.config.check_payload && sim_hash_payload(wr) != swr->hash)
		sim_fabric.counters.payload_changed++;
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
		cq_push(peer->cq, peer, &wc, 0, 0);
	}
	swr->executed = true;
	sim_fabric.counters.executed++;
	sim_fabric.counters.strided += (uint64_t) wr->num_strided;
	occupy_adapter(wr);
	swr->ack_at = sim_fabric.now + sim_fabric.config.latency;
	if (swr == qp->first)
		qp->ack_due = swr->ack_at + sim_delay();
	if (qp->fail_at == swr->number || chance(sim_fabric.config.fail_ppm / 2))
		cut_link(qp);
}

static void
acknowledge(RfQp *qp)
{
	const RfWr *wr = &qp->first->wr;

	if (wr->opcode == RF_WR_COMPARE_SWAP &&
		in_region(find_region(qp->domain, wr->sge[0].lkey), (uint64_t) (uintptr_t) wr->sge[0].addr,
				  sizeof(uint64_t)))
		memcpy((void *) wr->sge[0].addr, &qp->first->found, sizeof(uint64_t));
	else if (sim_fabric.config.check_payload && sim_hash_payload(&qp->first->wr) != qp->first->hash)
		sim_fabric.counters.payload_changed++;
	retire_first(qp, RF_WC_SUCCESS);
	qp->ack_due = sim_fabric.now + sim_delay();
	if (qp->first != NULL && qp->first->ack_at > qp->ack_due)
		qp->ack_due = qp->first->ack_at;
}

void
sim_line_up(RfQp *qp)
{
	if (qp->busy)
		return;
	qp->busy = true;
	qp->next_busy = NULL;
	if (sim_fabric.busy_count++ == 0)
		sim_fabric.busy_first = qp;
	else
		sim_fabric.busy_last->next_busy = qp;
	sim_fabric.busy_last = qp;
}

void
sim_leave_line(RfQp *qp)
{
	RfQp	   *next;

	for (uint32_t left = sim_fabric.busy_count; left > 0; left--)
	{
		next = sim_fabric.busy_first;
		sim_fabric.busy_first = next->next_busy;
		sim_fabric.busy_count--;
		next->busy = false;
		if (next != qp)
			sim_line_up(next);
	}
}

/* One event of the queue pair that is first in line, among the pairs that can have one. */
static bool
step_in_turn(void)
{
	for (uint32_t left = sim_fabric.busy_count; left > 0; left--)
	{
		RfQp	   *qp = sim_fabric.busy_first;
		SimWr	   *swr;
		bool		possible;

		sim_fabric.busy_first = qp->next_busy;
		sim_fabric.busy_count--;
		qp->busy = false;
		if (qp->first == NULL)
			continue;
		swr = sim_next_to_execute(qp);
		possible = !qp->held && !qp->error && qp->connected;
		if (possible && can_execute(qp, swr))
			execute(qp, swr);
		else if (possible && can_acknowledge(qp))
			acknowledge(qp);
		else
			possible = false;
		if (qp->first != NULL)
			sim_line_up(qp);
		if (possible)
		{
			sim_fabric.now++;
			sim_fabric.counters.steps++;
			return true;
		}
	}
	return false;
}

/*
 * Returns the queue pair whose next event is due first, a random one if several are due then; NULL
 * if no queue pair has an event. *best_wr: the request to be executed, NULL for an acknowledgement.
 */
static RfQp *
next_event(SimWr **best_wr, uint64_t *best_due)
{
	RfQp	   *best = NULL;
	uint64_t	ties = 0;

	for (RfQp *qp = sim_fabric.qps; qp != NULL; qp = qp->next)
	{
		SimWr	   *swr;

		if (qp->held || qp->error || !qp->connected)
			continue;
		swr = sim_next_to_execute(qp);
		for (int kind = 0; kind < 2; kind++)
		{
			bool		possible = kind == 0 ? can_execute(qp, swr) : can_acknowledge(qp);
			uint64_t	due = kind == 0 ? qp->exec_due : qp->ack_due;

			if (!possible)
				continue;
			if (kind == 0 && due < sim_fabric.adapter_free)
				due = sim_fabric.adapter_free;
			if (due < sim_fabric.now)
				due = sim_fabric.now;
			if (best == NULL || due < *best_due)
				ties = 0;
			else if (due > *best_due)
				continue;
			if (random_u64() % ++ties == 0)
			{
				best = qp;
				*best_wr = kind == 0 ? swr : NULL;
				*best_due = due;
			}
		}
	}
	return best;
}

/* Carries out an event that next_event has found. */
static void
step_to(RfQp *qp, SimWr *swr, uint64_t due)
{
	sim_fabric.now = due;
	sim_fabric.counters.steps++;
	if (swr != NULL)
		execute(qp, swr);
	else
		acknowledge(qp);
}

static bool
step_locked(void)
{
	SimWr	   *swr;
	uint64_t	due;
	RfQp	   *qp;

	if (sim_fabric.config.in_turn)
		return step_in_turn();
	qp = next_event(&swr, &due);
	if (qp != NULL)
		step_to(qp, swr, due);
	return qp != NULL;
}

bool
rf_sim_step(void)
{
	bool		stepped;

	sim_lock();
	stepped = step_locked();
	sim_unlock();
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

	sim_lock();
	for (RfQp *qp = sim_fabric.qps; qp != NULL; qp = qp->next)
	{
		if (qp->held || qp->error || !qp->connected)
			continue;
		for (SimWr *swr = qp->first; swr != NULL; swr = swr->next)
			pending++;
	}
	sim_unlock();
	return pending;
}

void
rf_sim_configure(const RfSimConfig *config)
{
	static const RfSimConfig quiet = {.seed = 1};

	sim_lock();
	sim_fabric.config = config ? *config : quiet;
	sim_fabric.rng = sim_fabric.config.seed;
	sim_unlock();
}

void
rf_sim_reset(const RfSimConfig *config)
{
	rf_sim_configure(config);
	sim_lock();
	if (sim_fabric.qps != NULL)
	{
		fprintf(stderr, "rf_sim_reset: queue pairs still exist\n");
		abort();
	}
	memset(&sim_fabric.counters, 0, sizeof(sim_fabric.counters));
	sim_fabric.now = sim_fabric.adapter_free = 0;
	sim_fabric.outstanding = 0;
	sim_fabric.next_qp = 0;
	sim_fabric.next_key = 1;
	sim_unlock();
}

uint64_t
rf_sim_now(void)
{
	uint64_t	now;

	sim_lock();
	now = sim_fabric.now;
	sim_unlock();
	return now;
}

void
rf_sim_cut(RfQp *qp)
{
	sim_lock();
	cut_link(qp);
	sim_unlock();
}

void
rf_sim_hold(RfQp *qp, bool hold)
{
	sim_lock();
	qp->held = hold;
	pthread_cond_signal(&sim_fabric.work);
	sim_unlock();
}

void
rf_sim_drop(RfQp *qp, bool drop)
{
	sim_lock();
	qp->dropping = drop;
	pthread_cond_signal(&sim_fabric.work);
	sim_unlock();
}

void
rf_sim_fail_nth(RfQp *qp, uint64_t n, bool after)
{
	sim_lock();
	qp->fail_at = qp->posted + n;
	qp->fail_after = after;
	sim_unlock();
}

void
rf_sim_counters(RfSimCounters *counters)
{
	sim_lock();
	*counters = sim_fabric.counters;
	sim_unlock();
}

/* ---------- the fabric thread ---------- */

/*
 * Carries out the next event, or waits: until it is due, or for a call that may have made one. The
 * fabric's time is the clock's, microseconds. While there is always something to do it may be
 * behind, by what timers are late, and makes up for it; after a pause it is set.
 */
static void
step_by_clock(void)
{
	SimWr	   *swr;
	uint64_t	due;
	RfQp	   *qp = next_event(&swr, &due);
	uint64_t	clock = (uint64_t) rf_now_us();

	if (qp == NULL)
	{
		pthread_cond_wait(&sim_fabric.work, &sim_fabric.lock);
		sim_fabric.now = (uint64_t) rf_now_us();
	}
	else if (due > clock)
	{
		struct timespec until;

		(void) clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += (long) (due - clock) * 1000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		(void) pthread_cond_timedwait(&sim_fabric.work, &sim_fabric.lock, &until);
	}
	else
		step_to(qp, swr, due);
}

static void *
fabric_main(void *unused)
{
	const struct timespec moment = {0, 1000};
	unsigned int steps = 0;

	prctl(PR_SET_TIMERSLACK, 1);
	sim_lock();
	while (!sim_fabric.stop)
	{
		uint32_t	pause = sim_fabric.config.step_sleep_us;
		bool		stepped;

		if (sim_fabric.config.by_clock)
		{
			step_by_clock();
			continue;
		}
		stepped = step_locked();

		/* With hundreds of threads it is long until this one runs again. */
		for (int i = 0; stepped && sim_fabric.config.in_turn && i < 256 && step_locked(); i++)
			;
		if (!stepped)
		{
			pthread_cond_wait(&sim_fabric.work, &sim_fabric.lock);
			continue;
		}
		if (pause > 0)
			pause = random_u64() % (pause + 1);
		sim_unlock();

		/*
		 * Other threads shall run between two steps, but not each time: beside other work on the
		 * machine, sched_yield() is over only when all that is ready has had its turn. A short
		 * sleep ends sooner.
		 */
		if (pause > 0)
			usleep(pause);
		else if (++steps % 16 == 0)
			nanosleep(&moment, NULL);
		sim_lock();
	}
	sim_unlock();
	return NULL;
}

bool
rf_sim_start(void)
{
	sim_fabric.stop = false;
	sim_fabric.threaded = pthread_create(&sim_fabric.thread, NULL, fabric_main, NULL) == 0;
	return sim_fabric.threaded;
}

void
rf_sim_stop(void)
{
	if (!sim_fabric.threaded)
		return;
	sim_lock();
	sim_fabric.stop = true;
	pthread_cond_signal(&sim_fabric.work);
	sim_unlock();
	pthread_join(sim_fabric.thread, NULL);
	sim_fabric.threaded = false;
}
