/*
 * arena.c - shared memory of the extension: the main structure and the arena of segments.
 *
 * Runs in the postmaster, at start and again at every crash restart. Each segment is a memfd of its
 * own, because a descriptor that is passed to another engine opens all of it; all lie in one
 * address range that is reserved once and mapped before any child is forked, so a buffer has the
 * same address in every process. A crash restart makes new memfds and a new identity: the new
 * processes do not use memory that a peer still maps or writes.
 *
 * Does not lend or allocate (pool.c), and opens no device.
 */
#include "postgres.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "storage/pg_shmem.h"
#include "storage/shmem.h"

#include "rdma_fdw/guc.h"
#include "base/agree.h"
#include "arena.h"
#include "share.h"

#define RF_HUGE_PAGE	(2 * 1024 * 1024)
#define LEAST_SEGMENT	((size_t) 8 << 20)	/* of buffer memory that has three of them */
#define LARGEST_SEGMENT	((size_t) 1 << 30)
#define PROCESSORS_PER_LANE	8
#define MOST_LANES		4		/* unless a setting says more */

RfShared   *rf_shared = NULL;
RfWaitPoints *rf_wait_points = NULL;
RfShare    *rf_shares = NULL;

/*
 * The postmaster's own, inherited by its children. Kept over a crash restart so that descriptors
 * and addresses are reused or returned.
 */
static uint8_t *arena_base = NULL;
static int	arena_fds[RF_MAX_SEGMENTS];
static uint32_t arena_fd_count = 0;
static uint8_t *value_memory = NULL;
static size_t value_size = 0;
static int	event_fds[RF_MAX_LANES + 1];
static bool events_made = false;

static size_t
shared_size(void)
{
	return RF_SHARED_SIZE(rf_max_flows);
}

void
rf_arena_request(void)
{
	RequestAddinShmemSpace(shared_size());
	RequestAddinShmemSpace(sizeof(RfWaitPoints));
	RequestAddinShmemSpace(mul_size(rf_max_flows, sizeof(RfShare)));
}

static void
out_of_memory(const char *what, size_t size)
{
	int			saved_errno = errno;

	errno = saved_errno;
	ereport(FATAL,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("rdma_fdw could not %s of %zu kB of buffer memory: %m", what, size / 1024),
			 errhint("Lower rdma_fdw.buffer_memory.")));
}

/*
 * Bytes of the pieces in which the buffer memory is lent: a peer reaches the pieces that were lent
 * to it and nothing else, and the buffers of a stream are in one piece. A sixteenth of the memory,
 * so that several peers get some; of little memory more, so that streams with large buffers have
 * room.
 */
static size_t
segment_bytes(void)
{
	size_t		memory = (size_t) rf_buffer_memory * 1024;
	size_t		size = Max(memory / 16, LEAST_SEGMENT);

	size = Min(Min(size, memory / 3), LARGEST_SEGMENT);
	return Max(size / RF_HUGE_PAGE, 1) * RF_HUGE_PAGE;
}

static void
make_arena(RfShared *shared)
{
	size_t		size = segment_bytes();
	size_t		count = (size_t) rf_buffer_memory * 1024 / size;
	size_t		total;
	RfError		error;
	size_t		i;

	Assert(count >= 2 && count <= RF_MAX_SEGMENTS);
	/* PostgreSQL's own setting. With "on", too, this memory may be of small pages. */
	shared->huge_pages = huge_pages != HUGE_PAGES_OFF;

	/* Half of the memory in small segments. */
	shared->segment_size = size;
	if (count >= 4 && size > RF_SMALL_SEGMENT)
	{
		shared->small_segments = Min(count / 2 * (size / RF_SMALL_SEGMENT),
									 RF_MAX_SEGMENTS - (count - count / 2));
		count -= count / 2;
	}
	count += shared->small_segments;
	shared->segment_count = count;
	total = rf_segment_offset(shared, count);

	/*
	 * The setting is fixed for the postmaster's life, so the range reserved at start fits every
	 * later arena.
	 */
	if (arena_base == NULL)
	{
		uint8_t    *range = mmap(NULL, total + RF_HUGE_PAGE, PROT_NONE,
								 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (range == MAP_FAILED)
			out_of_memory("reserve addresses", total);
		arena_base = (uint8_t *) TYPEALIGN(RF_HUGE_PAGE, (uintptr_t) range);
	}
	else
	{
		for (i = 0; i < arena_fd_count; i++)
			close(arena_fds[i]);
		arena_fd_count = 0;
		if (mmap(arena_base, total, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
			out_of_memory("take back addresses", total);
	}

	for (i = 0; i < count; i++)
	{
		uint8_t    *addr = arena_base + rf_segment_offset(shared, i);
		int			fd = rf_segment_create(addr, rf_segment_bytes(shared, i), shared->huge_pages,
										   &error);

		if (fd < 0)
			ereport(FATAL,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("rdma_fdw %s", error.message),
					 errhint("%s", error.hint)));
		arena_fds[arena_fd_count++] = fd;
		shared->segments[i].fd = fd;
		shared->segments[i].addr = addr;
		shared->segments[i].peer = RF_NO_PEER;
	}
}

/*
 * No peer maps value memory, so it needs no descriptor. It is new after a crash restart, at any
 * address: no earlier process is left.
 */
static void
make_value_memory(RfShared *shared)
{
	size_t		size = (size_t) rf_buffer_memory * 1024 / 4 / RF_HUGE_PAGE * RF_HUGE_PAGE;
	void	   *memory = MAP_FAILED;

	if (value_memory != NULL)
		(void) munmap(value_memory, value_size);
	value_memory = NULL;
	if (size == 0)
		return;
	if (shared->huge_pages)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (memory == MAP_FAILED)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		out_of_memory("map the values", size);
	shared->value_memory = value_memory = memory;
	shared->value_size = value_size = size;
}

/*
 * The number of lanes: rdma_fdw.engine_lanes, or one for so many of the processors that this server
 * may use. A lane takes one whole at most, and several backends are needed to keep it busy.
 */
static int
lane_number(void)
{
	cpu_set_t	processors;
	int			number;

	if (rf_engine_lanes > 0)
		return rf_engine_lanes;
	number = sched_getaffinity(0, sizeof(processors), &processors) == 0 ?
		CPU_COUNT(&processors) : 1;
	return Min(Max(number / PROCESSORS_PER_LANE, 1), MOST_LANES);
}

/* Eventfds carry no content, so they outlive a crash restart. */
static void
make_events(RfShared *shared)
{
	static int	lanes;
	int			i;

	if (!events_made)
	{
		lanes = lane_number();
		for (i = 0; i <= lanes; i++)
		{
			event_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
			if (event_fds[i] < 0)
				ereport(FATAL,
						(errcode_for_file_access(),
						 errmsg("rdma_fdw could not create an event descriptor: %m")));
		}
		events_made = true;
	}
	shared->engine_wake_fd = event_fds[lanes];
	for (i = 0; i < lanes; i++)
	{
		shared->lanes[i].number = i;
		shared->lanes[i].wake_fd = event_fds[i];
	}
	shared->lane_count = (uint32_t) lanes;
}

void
rf_arena_startup(void)
{
	bool		found;
	int			i;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	rf_shared = ShmemInitStruct("rdma_fdw", shared_size(), &found);
	if (!found)
	{
		/* Not the errors behind the flows: they are always written before they are read. */
		memset(rf_shared, 0, sizeof(RfShared) + mul_size(rf_max_flows, sizeof(RfFlow)));
		if (!rf_key_make(rf_shared->private_key, rf_shared->public_key) ||
			!rf_key_identity(rf_shared->public_key, &rf_shared->node))
			ereport(FATAL,
					(errmsg("rdma_fdw could not make a key of its engine: "
							"libcrypto cannot do X25519")));
		rf_shared->max_flows = rf_max_flows;
		atomic_store(&rf_shared->flow_counts.reached, Min(rf_max_flows, RF_FIRST_FLOWS));
		rf_shared->page_memory = (uint8_t *) BufferBlocks;
		rf_shared->page_memory_size = (uint64_t) NBuffers * BLCKSZ;
		rf_shared->page_size = BLCKSZ;
		make_arena(rf_shared);
		make_value_memory(rf_shared);
		make_events(rf_shared);
	}
	rf_wait_points = ShmemInitStruct("rdma_fdw wait points", sizeof(RfWaitPoints), &found);
	if (!found)
	{
		for (i = 0; i < RF_MAX_PEERS; i++)
			ConditionVariableInit(&rf_wait_points->peer[i]);
	}
	rf_shares = ShmemInitStruct("rdma_fdw shared flows", mul_size(rf_max_flows, sizeof(RfShare)),
								&found);
	if (!found)
		memset(rf_shares, 0, mul_size(rf_max_flows, sizeof(RfShare)));
	LWLockRelease(AddinShmemInitLock);
}

uint64_t
rf_engine_lockable(void)
{
	uint64		bytes = rf_segment_offset(rf_shared, rf_shared->segment_count);

	return rf_shared->value_size == 0 ? bytes : bytes + 2 * rf_shared->value_size;
}
