/*
 * sim_private.h - shared by sim.c and sim_provider.c: the objects of the simulated provider (see
 * sim.h) and the fabric that carries out their work requests.
 *
 * Sharing: all of it is read and written under sim_fabric.lock, by callers' threads and the fabric
 * thread alike. Objects are freed by their destroy calls. Memory of regions is written by the
 * thread that steps, under the lock; a poll takes the same lock, which makes landed bytes visible
 * to the poller.
 */
#ifndef RF_SIM_PRIVATE_H
#define RF_SIM_PRIVATE_H

#include <pthread.h>

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
	uint64_t	covers;			/* RF_WC_WRITE: posts of its queue pair up to this one are done
								 * with */
	uint64_t	covers_strided; /* and strided entries */
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
	RfStrided	strided[RF_MAX_SGE];
	uint64_t	number;			/* counts posts of the queue pair, from 1 */
	uint64_t	strided_number; /* and strided entries, including this request's */
	uint64_t	hash;
	RfWcStatus	bad;			/* found at post; reported when it is this one's turn */
	int			phase;			/* pieces landed */
	uint64_t	found;			/* compare-and-swap: the previous value */
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
	bool		dropping;		/* its messages are lost */
	SimWr	   *first;			/* oldest not acknowledged */
	SimWr	   *last;
	uint64_t	posted;
	uint64_t	freed;
	uint64_t	strided_posted;
	uint64_t	strided_freed;
	uint64_t	exec_due;
	uint64_t	ack_due;
	uint64_t	recv_unpolled;
	uint64_t	fail_at;		/* number of the post to fail, 0 for no failure */
	bool		fail_after;
	RfQp	   *next_busy;		/* in_turn */
	bool		busy;
};

typedef struct SimFabric
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
	RfQp	   *busy_first;		/* in_turn: queue pairs with work requests, and some that have
								 * failed since */
	RfQp	   *busy_last;
	uint32_t	busy_count;
	uint32_t	next_qp;
	uint32_t	next_key;
	pthread_t	thread;
	bool		threaded;
	bool		stop;
} SimFabric;

extern SimFabric sim_fabric;

static inline void
sim_lock(void)
{
	pthread_mutex_lock(&sim_fabric.lock);
}

static inline void
sim_unlock(void)
{
	pthread_mutex_unlock(&sim_fabric.lock);
}

/* sim.c. Called with the lock held. */

/* Steps until an event is due, by the seed. */
extern uint64_t sim_delay(void);

extern uint64_t sim_message_length(const RfWr *wr);
extern uint64_t sim_hash_payload(const RfWr *wr);

/* RF_WC_LOCAL for a request that is malformed or reads outside its domain's regions. */
extern RfWcStatus sim_check_local(RfQp *qp, const RfWr *wr);

/* Oldest request whose bytes have not all landed, or NULL. */
extern SimWr *sim_next_to_execute(RfQp *qp);

/* Push the completion of a request. */
extern void sim_push_write(RfQp *qp, SimWr *swr, RfWcStatus status);

/* in_turn: at the end of the line, unless it is in it. */
extern void sim_line_up(RfQp *qp);
extern void sim_leave_line(RfQp *qp);

/* The queue pair is dead; `tell`: a DISCONNECTED comes as well. */
extern void sim_fail_qp(RfQp *qp, RfWcStatus status, bool tell);

#endif
