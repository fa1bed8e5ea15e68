/*
 * segment.c - see segment.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment.h"

#define HUGE_PAGE		(2u << 20)
#define NOT_MAPPED		UINT32_MAX

/* The generation of each segment that this process has mapped. 0 came by fork. */
static uint32_t mapped[RF_MAX_SEGMENTS];

/*
 * Maps the file at addr in place of the present mapping. In an engine addr must not be free for a
 * moment: its lanes map the memory of peers wherever the kernel finds room, and would lose to us,
 * without an error, the memory that they got there. But a MAP_FIXED that the file refuses leaves
 * addr free, and one of huge pages refuses when there are not enough. So it is asked elsewhere
 * first; a file keeps the huge pages that it has reserved.
 */
static bool
map_at(uint8_t *addr, size_t size, int fd)
{
	void	   *first = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bool		good;

	if (first == MAP_FAILED)
		return false;
	/* They were free: a mapping could not be made before, not even the one below. */
	if (first == (void *) addr)
		return true;
	good = mmap(addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
	if (!good)
	{
		int			saved_errno = errno;

		/* The kernel itself is out of memory. */
		(void) mmap(addr, size, PROT_NONE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		errno = saved_errno;
	}
	(void) munmap(first, size);
	return good;
}

static int
create(uint8_t *addr, size_t size, bool huge)
{
	int			fd = memfd_create("rdma_fdw segment",
								  MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0));

	/* A peer with the descriptor could otherwise truncate the file while we use it. */
	if (fd >= 0 && ftruncate(fd, (off_t) size) == 0 && map_at(addr, size, fd) &&
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	if (fd >= 0)
	{
		int			saved_errno = errno;

		close(fd);
		errno = saved_errno;
	}
	return -1;
}

int
rf_segment_create(uint8_t *addr, size_t size, bool huge_pages, RfError *error)
{
	int			fd = huge_pages ? create(addr, size, true) : -1;

	if (fd < 0)
		fd = create(addr, size, false);
	if (fd < 0)
		rf_error(error, RF_ERROR_RESOURCES, NULL, "Lower rdma_fdw.buffer_memory.",
				 "could not make a segment of %zu kB of buffer memory: %s", size / 1024,
				 strerror(errno));
	return fd;
}

/*
 * Processes that map it find zeros, and only an old peer's writes fill it again. Huge pages that
 * were reserved for it are touched first: they could not be given back otherwise.
 */
static void
give_back_pages(const RfSegment *segment, size_t size)
{
	struct stat status;

	if (fstat(segment->fd, &status) == 0 && status.st_blksize >= HUGE_PAGE)
	{
		for (size_t at = 0; at < size; at += (size_t) status.st_blksize)
			(void) *(volatile uint8_t *) (segment->addr + at);
	}
	(void) fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t) size);
	close(segment->fd);
}

bool
rf_segment_renew(RfSegment *segments, uint32_t index, size_t size, bool huge_pages,
				 RfError *error)
{
	RfSegment  *segment = &segments[index];
	struct stat status;
	int			fd;

	if (segment->fd >= 0)
		give_back_pages(segment, size);
	segment->fd = -1;
	fd = rf_segment_create(segment->addr, size, huge_pages, error);
	if (fd < 0)
		return false;
	if (fstat(fd, &status) != 0)
	{
		close(fd);
		return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL,
						"could not look at a segment of buffer memory: %s", strerror(errno));
	}
	segment->fd = fd;
	segment->inode = status.st_ino;
	mapped[index] = atomic_load(&segment->generation) + 1;
	atomic_store(&segment->generation, mapped[index]);
	return true;
}

void
rf_segment_forget(RfSegment *segment)
{
	if (atomic_load(&segment->generation) > 0)
		segment->fd = -1;
}

/*
 * The engine's descriptor, opened through its process: any process of the same user may do that,
 * and sending a descriptor in a message would make the engine wait for us or us for it.
 */
bool
rf_segment_attach(RfSegment *segments, uint32_t index, size_t size, int32_t engine_pid,
				  RfError *error)
{
	RfSegment  *segment = &segments[index];
	uint32_t	generation = atomic_load(&segment->generation);
	char		path[64];
	struct stat status;
	int			fd;
	bool		good;

	if (mapped[index] == generation)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", engine_pid, segment->fd);
	errno = ESRCH;
	fd = engine_pid > 0 && segment->fd >= 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return rf_error(error, RF_ERROR_CONNECTION,
						"It is opened through the engine's process, which has ended or is hidden.",
						"Repeat the query; the engine starts again by itself.",
						"could not open a segment of buffer memory: %s", strerror(errno));
	good = fstat(fd, &status) == 0 && status.st_ino == segment->inode &&
		(size_t) status.st_size == size;
	if (good)
	{
		mapped[index] = NOT_MAPPED;
		good = map_at(segment->addr, size, fd);
	}
	close(fd);
	if (!good)
		return rf_error(error, RF_ERROR_CONNECTION, NULL,
						"Repeat the query; the engine starts again by itself.",
						"a segment of buffer memory is not there any more");
	mapped[index] = generation;
	return true;
}
