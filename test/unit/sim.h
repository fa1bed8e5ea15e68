/*
 * sim.h - the simulated provider: one in-memory fabric per process, steered by a seed.
 *
 * rf_provider_sim keeps provider.h's contract and uses all the freedom that the contract leaves:
 * work requests of different queue pairs overtake each other, payload bytes become visible early,
 * late and in pieces, acknowledgements come long after the data, and queue pairs fail between any
 * two of these. The same seed and the same calls give the same run. Unit tests and benches only;
 * never part of the extension.
 *
 * Use, single-threaded:
 *		rf_sim_reset(&(RfSimConfig){.seed = 7, .delay_max = 20});
 *		device = rf_provider_sim.device_open(NULL, &error);  ... domains, queues, queue pairs as
 *		with any provider ...
 *		rf_sim_connect(qp_a, qp_b);			or qp_local + qp_connect with sock = -1 on both ends
 *		rf_provider_sim.qp_post(qp_a, &wr);
 *		while (rf_sim_step())				one event: a piece of payload, an immediate, an
 *											acknowledgement
 *			... poll ...
 *
 * Use with threads: rf_sim_start() runs a fabric thread that steps whenever something is pending;
 * rf_sim_stop() joins it. Calls of the provider may then come from any thread as provider.h says;
 * one mutex covers the fabric.
 */
#ifndef RF_SIM_H
#define RF_SIM_H

#include "rdma_fdw/provider.h"

typedef struct RfSimConfig
{
	uint64_t	seed;
	uint32_t	delay_min;		/* an event of a queue pair is due this many steps after its
								 * predecessor at the earliest */
	uint32_t	delay_max;		/* and at the latest; 0 = at once */
	uint32_t	fail_ppm;		/* chance per work request, in millionths, that its queue pair
								 * fails (before or after execution) */
	uint32_t	step_sleep_us;	/* threads: the fabric thread pauses up to this long between steps;
								 * 0 = never */
	uint32_t	service;		/* steps that the adapter, which all queue pairs share, takes for a
								 * work request; 0 for no such steps */
	uint32_t	latency;		/* with service: steps from execution to acknowledgement, of many
								 * requests at once */
	uint32_t	cache;			/* with service: that many outstanding fit its cache, with more
								 * each takes longer in proportion; 0 = any */
	bool		by_clock;		/* threads: a step is a microsecond, and nothing is due before its
								 * time */
	bool		in_turn;		/* queue pairs with work take turns, due or not: for fabrics of
								 * thousands. From rf_sim_reset on, without delays */
	int			strided;		/* RfDeviceCaps.max_strided; with service, each strided entry takes
								 * as long as two work requests more */
	bool		tear;			/* payload lands in pieces, last piece first */
	bool		check_payload;	/* count work requests whose payload changed between post and
								 * completion (costs a hash of it) */
} RfSimConfig;

typedef struct RfSimCounters
{
	uint64_t	steps;
	uint64_t	executed;		/* work requests whose bytes all landed */
	uint64_t	failures;		/* queue pairs failed by fail_ppm, rf_sim_cut or a violation */
	uint64_t	payload_changed;	/* see check_payload: a sender reused memory too early */
	uint64_t	cq_overflows;	/* completions beyond a queue's depth: fatal on real hardware */
	uint64_t	wr_overflows;	/* posts beyond max_wr (space returns when a signaled completion is
								 * polled) */
	uint64_t	strided;		/* of executed: strided entries that landed */
	uint64_t	rnr_stalls;		/* immediates that had to wait because max_recv of them were not
								 * polled yet */
} RfSimCounters;

/*
 * Start over with an empty fabric; all objects of the provider must be destroyed by then. NULL =
 * seed 1, no delays, no faults.
 */
extern void rf_sim_reset(const RfSimConfig *config);

/* Change delays and faults in mid-run. */
extern void rf_sim_configure(const RfSimConfig *config);

/* Execute the next due event (time jumps to it); false when nothing is pending. */
extern bool rf_sim_step(void);

/* Step until nothing is pending or `max` steps are done; returns the steps done. */
extern uint64_t rf_sim_run(uint64_t max);

/* Events that wait, of queue pairs that are not held. */
extern uint64_t rf_sim_pending(void);

/* Time so far, in steps. */
extern uint64_t rf_sim_now(void);

/* Connect two queue pairs of this process with each other. */
extern void rf_sim_connect(RfQp *a, RfQp *b);

/*
 * Link of the queue pair cut: both ends fail, work requests in flight complete with
 * RF_WC_TRANSPORT, then FLUSHED.
 */
extern void rf_sim_cut(RfQp *qp);

/*
 * A peer that stopped: this queue pair's requests are neither executed nor acknowledged until
 * released. Nothing fails by itself.
 */
extern void rf_sim_hold(RfQp *qp, bool hold);

/*
 * A path that is dead in one direction: this queue pair's messages are lost, including its
 * acknowledgements. The device retries forever; nothing fails by itself.
 */
extern void rf_sim_drop(RfQp *qp, bool drop);

/*
 * Fail exactly the n-th work request posted from now on this queue pair (1 = the next); after = its
 * bytes land nevertheless.
 */
extern void rf_sim_fail_nth(RfQp *qp, uint64_t n, bool after);

extern void rf_sim_counters(RfSimCounters *counters);

/* The fabric thread. */
extern bool rf_sim_start(void);
extern void rf_sim_stop(void);

#endif
