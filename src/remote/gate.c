/*
 * gate.c - the gate between commits on nodes and the snapshots of statements that read several.
 *
 * It is a lock of the server's lock manager with a tag of its own, in two modes that agree with
 * themselves and not with each other. So waiting for it is seen by the deadlock detector and in
 * pg_locks, backends that come later do not overtake, and no backend can leave without giving it
 * back.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/steps.h"

#include "base/result_row.h"
#include "gate.h"

/* PostgreSQL itself uses no lock of this type. */
#define GATE_TAG_FIELD	0x72646D61	/* "rdma" */

PG_FUNCTION_INFO_V1(rdma_stat_gate);

/* All are counters that backends add to. */
typedef struct GateShared
{
	pg_atomic_uint64 count;		/* rf_gate_count */
	pg_atomic_uint64 entered[2];	/* by RfGateSide */
	pg_atomic_uint64 waited[2];
	pg_atomic_uint64 waited_us[2];
	pg_atomic_uint64 renewed;
} GateShared;

static GateShared *gate = NULL; /* NULL: the library was not preloaded */

static const LOCKMODE modes[2] = {RowExclusiveLock, ShareLock};

void
rf_gate_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(GateShared));
}

void
rf_gate_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	gate = ShmemInitStruct("rdma_fdw gate", sizeof(GateShared), &found);
	if (!found)
	{
		pg_atomic_init_u64(&gate->count, 1);
		pg_atomic_init_u64(&gate->renewed, 0);
		for (int i = 0; i < 2; i++)
		{
			pg_atomic_init_u64(&gate->entered[i], 0);
			pg_atomic_init_u64(&gate->waited[i], 0);
			pg_atomic_init_u64(&gate->waited_us[i], 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

static void
set_tag(LOCKTAG *tag)
{
	tag->locktag_field1 = 0;	/* of no database */
	tag->locktag_field2 = GATE_TAG_FIELD;
	tag->locktag_field3 = 0;
	tag->locktag_field4 = 0;
	tag->locktag_type = LOCKTAG_USERLOCK;
	tag->locktag_lockmethodid = DEFAULT_LOCKMETHOD;
}

void
rf_gate_reserve(void)
{
	LOCKTAG		tag;

	/*
	 * A mode that conflicts with no mode of the gate keeps the shared entries of the tag and of
	 * this process until the transaction ends. An attempt leaves private memory for the other one
	 * free.
	 */
	set_tag(&tag);
	(void) LockAcquire(&tag, AccessShareLock, false, false);
	if (LockAcquire(&tag, modes[RF_GATE_COMMIT], false, true) != LOCKACQUIRE_NOT_AVAIL)
		LockRelease(&tag, modes[RF_GATE_COMMIT], false);
}

void
rf_gate_enter(RfGateSide side)
{
	LOCKTAG		tag;
	instr_time	since;
	instr_time	now;

	set_tag(&tag);
	if (LockAcquire(&tag, modes[side], false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		INSTR_TIME_SET_CURRENT(since);
		(void) LockAcquire(&tag, modes[side], false, false);
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, since);
		if (gate != NULL)
		{
			pg_atomic_fetch_add_u64(&gate->waited[side], 1);
			pg_atomic_fetch_add_u64(&gate->waited_us[side], INSTR_TIME_GET_MICROSEC(now));
		}
	}
	if (side == RF_GATE_SNAPSHOT)
		rf_step("snapshot_gate", 0);
	if (gate == NULL)
		return;
	if (side == RF_GATE_COMMIT)
	{
		pg_atomic_fetch_add_u64(&gate->entered[side], 1);
		pg_atomic_fetch_add_u64(&gate->count, 1);
	}
}

void
rf_gate_leave(RfGateSide side)
{
	LOCKTAG		tag;

	if (side == RF_GATE_SNAPSHOT)
		rf_step("snapshots_taken", 0);
	set_tag(&tag);
	LockRelease(&tag, modes[side], false);
}

void
rf_gate_pass(void)
{
	rf_gate_enter(RF_GATE_COMMIT);
	rf_gate_leave(RF_GATE_COMMIT);
}

uint64
rf_gate_count(void)
{
	return gate != NULL ? pg_atomic_read_u64(&gate->count) : 0;
}

void
rf_gate_finished(void)
{
	if (gate != NULL)
		pg_atomic_fetch_add_u64(&gate->count, 1);
}

void
rf_gate_note_snapshots(bool again)
{
	if (gate == NULL)
		return;
	pg_atomic_fetch_add_u64(&gate->entered[RF_GATE_SNAPSHOT], 1);
	if (again)
		pg_atomic_fetch_add_u64(&gate->renewed, 1);
}

/* rdma_internal.stat_gate(): since the server started; no row if the library was not preloaded */
Datum
rdma_stat_gate(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);

	InitMaterializedSRF(fcinfo, 0);
	if (gate == NULL)
		return (Datum) 0;
	for (int side = 0; side < 2; side++)
	{
		rf_put_number(&row, pg_atomic_read_u64(&gate->entered[side]));
		rf_put_number(&row, pg_atomic_read_u64(&gate->waited[side]));
		rf_put_number(&row, pg_atomic_read_u64(&gate->waited_us[side]));
	}
	rf_put_number(&row, pg_atomic_read_u64(&gate->renewed));
	rf_end_row(&row);
	return (Datum) 0;
}
