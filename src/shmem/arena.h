/*
 * arena.h - creation of the extension's shared memory, in the postmaster, and its parts beside the
 * main structure.
 */
#ifndef RF_ARENA_H
#define RF_ARENA_H

#include "postgres.h"

#include "storage/condition_variable.h"

#include "peers.h"

/*
 * Where backends wait for a peer's state to change. Beside RfShared because a condition variable is
 * PostgreSQL's.
 */
typedef struct RfWaitPoints
{
	ConditionVariable peer[RF_MAX_PEERS];
} RfWaitPoints;

extern RfWaitPoints *rf_wait_points;

/* For the hooks shmem_request and shmem_startup. */
extern void rf_arena_request(void);
extern void rf_arena_startup(void);

/* The maximum of bytes that the engine may register with a device. */
extern uint64_t rf_engine_lockable(void);

#endif
