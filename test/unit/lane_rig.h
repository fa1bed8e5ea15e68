/*
 * lane_rig.h - two nodes in one process for the tests of lanes and flows: tables, arenas, lanes
 * over the simulated fabric, and the part of the engine's main thread that opens and frees flows.
 * Backends are the test's threads; they use the slot logic that real backends use.
 */
#ifndef LANE_RIG_H
#define LANE_RIG_H

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/lane_thread.h"
#include "shmem/slots.h"

#include "sim.h"

#define RIG_FLOWS		64
#define RIG_SLOT_MAX	16384
#define RIG_BACKENDS	64
#define RIG_MAX_LANES	4
#define RIG_POOLS		8
#define RIG_PAGES		16		/* at the start of value memory; no flow that places values may run
								 * beside */
#define RIG_PAGE_SIZE	8192
#ifndef RIG_PATIENCE
#define RIG_PATIENCE	60		/* seconds until something that must come has failed to; only
								 * reached on failure */
#endif

/* Print where and stop: a test that goes on after a broken promise says nothing. */
#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

typedef struct RigNode
{
	RfShared   *shared;
	RfLaneThread *lanes[RIG_MAX_LANES];
	RfDevice   *device;
	RfDomain   *domain;
	RfRegion   *region;
	RfQp	   *qps[RIG_MAX_LANES]; /* one per lane, as the engines have it */
	uint8_t    *arena;
	uint8_t    *values;			/* value memory, which is the pool of pages, too: each producer has
								 * a piece of the size of its slots */
	RfRegion   *source;			/* registration of all of it */
	bool		attached[RIG_FLOWS];	/* the main thread's own record */
	RfLaneProof proofs[RIG_MAX_LANES];
	int			proven;			/* lanes */
	bool		linked;			/* there are queue pairs */
	bool		connected;		/* and all lanes of both nodes are proven */
	int			dropping;		/* lanes that have not let go of a lost connection yet */
} RigNode;

extern RigNode rig_nodes[2];
extern RfLaneConfig rig_config; /* change before rig_start */
extern int	rig_lanes;			/* of each node; the same */
extern int	rig_max_strided;	/* and strided entries that may be out; the fabric's setting says
								 * so, too */
extern int	rig_max_sge;		/* entries that a work request may have */
extern const RfProvider *rig_provider;	/* of the lanes: rf_provider_sim, or a wrapper */
extern _Atomic uint64_t rig_wakes;
extern _Atomic uint64_t rig_lost;
extern bool rig_reconnect;		/* connect again after a loss */
extern bool rig_fewer_slots;	/* producers have 1 to all of the reader's number of slots, by the
								 * key */
extern void (*rig_half_open) (uint32_t consumer_flow);	/* if set: called when the consumer's side
														 * is open, the producer's not yet */

extern void rig_start(const RfSimConfig *sim);
extern void rig_stop(void);
extern bool rig_connected(void);

/*
 * Cuts the link of one lane, or stops the other side from hearing node 0 on it; does nothing if
 * there is no connection.
 */
extern void rig_cut(int lane);
extern void rig_hold(int lane, bool hold);

/* A node's messages on a lane are lost. */
extern void rig_drop(int node, int lane, bool drop);

/* A backend: index names its semaphore. */
extern void rig_sleep(int backend, int timeout_ms);

/* Consumer: claim and listen; LISTENING. Blocks while the table is full. */
extern uint32_t rig_listen(int node, int backend, uint32_t slot_count, uint32_t slot_size,
						   uint64_t key);

/*
 * Shared receive pool `number` of a node, all free; its flows are gone. The same as rig_listen with
 * one of them; and its buffers that nobody holds.
 */
extern RfReceivePool *rig_pool(int node, int number, uint32_t count, uint32_t size, bool claim);
extern uint32_t rig_listen_pooled(int node, int backend, RfReceivePool *pool, uint32_t slot_count,
								  uint64_t key);
extern uint32_t rig_pool_idle(const RfReceivePool *pool);
extern _Atomic int rig_pool_users[RIG_POOLS];	/* flows of node 1 that have it */

/*
 * Producer: claims, and opens towards the other node's flow. UINT32_MAX if that is refused (no
 * listener, no connection).
 */
extern uint32_t rig_open(int node, int backend, uint32_t remote_flow, uint64_t key);
extern void rig_close(int node, uint32_t flow, bool stop, bool abandoned);
extern void rig_ring(int node, uint32_t flow);

/* Producer: wait for a free slot; NULL: stopped or failed. */
extern uint8_t *rig_acquire(int node, int backend, uint32_t flow, RfSlotCursor *cursor);
extern bool rig_finish(int node, int backend, uint32_t flow, RfSlotCursor *cursor);

/* Consumer: next slot, waiting for it. RF_READ_NOTHING: the flow failed or the remote ended. */
extern RfSlotRead rig_read(int node, int backend, uint32_t flow, RfSlotCursor *cursor,
						   RfSlotHeader *header, uint8_t **payload);

/*
 * Sum of a counter of RfLane over the lanes of a node: rig_lane_sum(0, offsetof(RfLane, doorbells))
 */
extern uint64_t rig_lane_sum(int node, size_t counter);

/* All entries of both nodes become FREE. */
extern bool rig_all_free(void);

extern uint64_t rig_random(uint64_t *state);
extern double rig_seconds(void);

#endif
