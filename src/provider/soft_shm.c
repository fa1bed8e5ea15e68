/*
 * soft_shm.c - the software provider between two processes of one host.
 *
 * A WRITE is a memcpy by the poster into its mapping of the peer's memfd; an immediate goes through
 * a ring in a memfd of the receiver, which is woken only if its completion queue is armed. The
 * local socket carries descriptors, notes of regions and wake-ups (RfSoftNote), and its end reports
 * the peer's death. Nothing else is sent on it.
 *
 * The peer is authenticated but not trusted: descriptors must be memfds that cannot shrink and are
 * as long as announced, so that no access here can fault, and positions of the rings are checked.
 * Nothing the peer holds can make us wait: notes are sent and read with MSG_DONTWAIT. (An eventfd
 * for wake-ups would be cheaper, but the peer could fill it and clear its O_NONBLOCK, which both
 * ends share.) A peer that was given a memfd could write to all of it at any time; the engine
 * therefore lends a memfd to one peer only.
 *
 * When is a memfd that was lent free for another peer? The writes are the peer's own memcpy, and we
 * cannot stop a copy that has begun: a peer that was stopped in it (SIGSTOP, a frozen container,
 * swap) continues when it wakes. Only the peer's own report ends them. Each end of a queue pair
 * shuts its socket down for writing after its last copy, and only then: rf_soft_fail and
 * rf_soft_shm_destroy are called by the thread that copies, between two copies, and nothing is
 * copied over a queue pair that has failed. So the end of the stream, read here, comes after all
 * writes of that queue pair; and a process that dies causes the same end without more writes.
 * Therefore qp_destroy keeps the socket until that end was read (RfDomain.leaving), and
 * domain_quiet is true when it was read from the sockets of all queue pairs of the domain. Neither
 * end waits for the other before it shuts down.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "soft.h"

#define MAX_MAPPINGS	4096
#define NOTES_AT_ONCE	1024

typedef enum Outcome
{
	OUTCOME_DONE,
	OUTCOME_WAIT,				/* try again when something has changed */
	OUTCOME_REFUSED,			/* *status has the reason */
	OUTCOME_DEAD				/* the queue pair failed meanwhile */
} Outcome;

static size_t
inbox_bytes(uint64_t ring_size)
{
	return sizeof(RfSoftInbox) + ring_size * sizeof(RfSoftSlot);
}

/* ---------- notes: sending ---------- */

/*
 * 0 or an errno. A note is far smaller than a socket's buffer granularity: it goes out whole or not
 * at all.
 */
static int
send_note(int sock, const RfSoftNote *note, const int *fds, int fd_count)
{
	union
	{
		char		bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	}			control;
	struct iovec iov = {(void *) note, sizeof(*note)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t		sent;

	if (fd_count > 0)
	{
		struct cmsghdr *header;

		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
	}
	do
		sent = fd_count == 0 ? send(sock, note, sizeof(*note), MSG_NOSIGNAL | MSG_DONTWAIT) :
			sendmsg(sock, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? errno : 0;
}

static int
send_region_note(RfQp *qp, uint16_t type, const RfSoftRegion *region)
{
	RfSoftNote	note = {
		.magic = RF_SOFT_MAGIC,
		.type = type,
		.rkey = region->pub.rkey,
		.addr = (uintptr_t) region->pub.addr,
		.length = region->pub.length
	};
	int			error = send_note(qp->sock, &note, &region->fd,
								  type == RF_SOFT_NOTE_REGION ? 1 : 0);

	if (error == 0)
		atomic_fetch_add(&qp->shm.in->announced, 1);
	return error;
}

static bool
socket_is_full(int error)
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ETOOMANYREFS;
}

/*
 * Wakes the peer. False: the kernel had no memory for it, try again. A full socket already holds a
 * note that wakes it.
 */
static bool
wake(RfQp *qp)
{
	RfSoftNote	note = {.magic = RF_SOFT_MAGIC, .type = RF_SOFT_NOTE_WAKE};
	int			error = send_note(qp->sock, &note, NULL, 0);

	return error != ENOMEM && error != ENOBUFS;
}

/*
 * Sends the peer a note about a region. Under RfDomain.lock, exclusive; main thread. If the socket
 * is full, the lane sends the note later; the lane sees any other failure of the socket as the end
 * of the connection.
 */
void
rf_soft_shm_announce(RfQp *qp, uint16_t type, const RfSoftRegion *region)
{
	RfSoftBacklog **link = &qp->shm.backlog;
	RfSoftBacklog *kept;

	if (qp->shm.backlog == NULL && !socket_is_full(send_region_note(qp, type, region)))
		return;
	kept = malloc(sizeof(RfSoftBacklog));
	if (kept == NULL)
	{
		/* the lane reads an end; only the lane may send ours (see above) */
		shutdown(qp->sock, SHUT_RD);
		return;
	}
	kept->next = NULL;
	kept->type = type;
	kept->rkey = region->pub.rkey;
	while (*link != NULL)
		link = &(*link)->next;
	*link = kept;
	atomic_store(&qp->shm.in->behind, 1);
	rf_soft_watch(qp, EPOLLIN | EPOLLOUT);
}

/*
 * Sends announcements of regions that found no room before. As long as some are left the peer does
 * not use data that refers to them.
 */
static void
send_backlog(RfQp *qp)
{
	RfDomain   *domain = qp->domain;

	pthread_rwlock_wrlock(&domain->lock);
	while (qp->shm.backlog != NULL)
	{
		RfSoftBacklog *kept = qp->shm.backlog;
		RfSoftRegion gone = {.pub = {.rkey = kept->rkey}, .fd = -1};
		int			hint = 0;
		RfSoftRegion *region = kept->type == RF_SOFT_NOTE_GONE ?
			&gone :
			rf_soft_region(domain, kept->rkey, &hint);

		/*
		 * a region deregistered while it waited here is never announced; the peer ignores its GONE
		 * note
		 */
		if (region != NULL && socket_is_full(send_region_note(qp, kept->type, region)))
			break;
		qp->shm.backlog = kept->next;
		free(kept);
	}
	if (qp->shm.backlog == NULL)
	{
		atomic_store(&qp->shm.in->behind, 0);
		rf_soft_watch(qp, EPOLLIN);
	}
	pthread_rwlock_unlock(&domain->lock);
}

/* ---------- notes: receiving ---------- */

/* Maps a passed descriptor; NULL unless it is a memfd of at least that size that cannot shrink. */
static void *
map_passed(int fd, uint64_t length)
{
	struct stat status;
	int			seals = fcntl(fd, F_GET_SEALS);
	void	   *memory;

	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || length == 0 || length > SIZE_MAX / 2)
		return NULL;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || (uint64_t) status.st_size < length)
		return NULL;
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static bool
take_hello(RfQp *qp, const RfSoftNote *note)
{
	if (qp->shm.out != NULL || qp->shm.note_fd_count != 1)
		return false;
	if (note->ring_size == 0 || note->ring_size > RF_SOFT_MAX_RING ||
		(note->ring_size & (note->ring_size - 1)) != 0)
		return false;
	qp->shm.out = map_passed(qp->shm.note_fds[0], inbox_bytes(note->ring_size));
	if (qp->shm.out == NULL)
		return false;
	qp->shm.out_size = note->ring_size;
	return true;
}

static RfSoftMapping *
find_mapping(RfSoftPeer *peer, uint32_t rkey, int *hint)
{
	if (*hint < peer->count && peer->mappings[*hint].rkey == rkey)
		return &peer->mappings[*hint];
	for (int i = 0; i < peer->count; i++)
	{
		if (peer->mappings[i].rkey == rkey)
		{
			*hint = i;
			return &peer->mappings[i];
		}
	}
	return NULL;
}

/* Every queue pair of the domain gets a note of every region; the first one maps it. */
static bool
take_region(RfQp *qp, const RfSoftNote *note)
{
	RfSoftPeer *peer = qp->shm.peer;
	RfSoftMapping *known = find_mapping(peer, note->rkey, &qp->mapping_hint);
	void	   *memory;

	if (qp->shm.note_fd_count != 1 || note->rkey == 0 || note->addr + note->length < note->addr)
		return false;
	if (known != NULL)
		return known->addr == note->addr && known->length == note->length;
	if (peer->count == peer->size)
	{
		int			size = peer->size ? peer->size * 2 : 16;
		RfSoftMapping *mappings = size > MAX_MAPPINGS ?
			NULL :
			realloc(peer->mappings, size * sizeof(*mappings));

		if (mappings == NULL)
			return false;
		peer->mappings = mappings;
		peer->size = size;
	}
	memory = map_passed(qp->shm.note_fds[0], note->length);
	if (memory == NULL)
		return false;
	peer->mappings[peer->count++] = (RfSoftMapping)
	{
		.rkey = note->rkey, .addr = note->addr, .length = note->length, .memory = memory
	};
	return true;
}

static bool
take_gone(RfQp *qp, const RfSoftNote *note)
{
	RfSoftMapping *known = find_mapping(qp->shm.peer, note->rkey, &qp->mapping_hint);

	if (known != NULL)
	{
		munmap(known->memory, known->length);
		*known = qp->shm.peer->mappings[--qp->shm.peer->count];
	}
	return true;
}

static bool
take_note(RfQp *qp)
{
	const RfSoftNote *note = &qp->shm.note;
	bool		good = false;

	if (note->magic != RF_SOFT_MAGIC)
		return false;
	if (note->type == RF_SOFT_NOTE_HELLO)
		return take_hello(qp, note);
	if (qp->shm.out == NULL)
		return false;
	if (note->type == RF_SOFT_NOTE_WAKE)
	{
		/* read before the caller slept; our own event must keep it awake instead */
		if (!qp->cq->arming)
			rf_soft_signal(qp->cq);
		return true;
	}
	pthread_rwlock_wrlock(&qp->domain->lock);
	if (note->type == RF_SOFT_NOTE_REGION)
		good = take_region(qp, note);
	else if (note->type == RF_SOFT_NOTE_GONE)
		good = take_gone(qp, note);
	pthread_rwlock_unlock(&qp->domain->lock);
	qp->shm.notes_read++;
	return good;
}

static void
close_note_fds(RfQp *qp)
{
	while (qp->shm.note_fd_count > 0)
		close(qp->shm.note_fds[--qp->shm.note_fd_count]);
}

/*
 * Descriptors of one recvmsg; too many, or some that the kernel had to drop, make the note invalid.
 */
static bool
keep_fds(RfQp *qp, struct msghdr *message)
{
	bool		good = (message->msg_flags & MSG_CTRUNC) == 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
		 header = CMSG_NXTHDR(message, header))
	{
		int			count;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (int i = 0; i < count; i++)
		{
			int			fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
			if (good && qp->shm.note_fd_count < 1)
				qp->shm.note_fds[qp->shm.note_fd_count++] = fd;
			else
			{
				close(fd);
				good = false;
			}
		}
	}
	return good;
}

static void drain_inbox(RfQp *qp, bool all);
static bool notes_wait(RfQp *qp);

/*
 * Reads notes from the socket, up to a limit: the rest keeps it readable. False: that was the end
 * of the queue pair.
 */
static bool
read_notes(RfQp *qp)
{
	for (int i = 0;; i++)
	{
		union
		{
			char		bytes[CMSG_SPACE(4 * sizeof(int))];
			struct cmsghdr align;
		}			control;
		struct iovec iov = {(char *) &qp->shm.note + qp->shm.note_have,
		sizeof(qp->shm.note) - qp->shm.note_have};
		struct msghdr message = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control)
		};
		ssize_t		got;
		bool		good;

		if (i >= NOTES_AT_ONCE)
			return true;
		got = recvmsg(qp->sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return true;
		if (got <= 0)
			break;
		good = keep_fds(qp, &message);
		qp->shm.note_have += got;
		if (good && qp->shm.note_have < sizeof(qp->shm.note))
			continue;
		good = good && take_note(qp);
		qp->shm.note_have = 0;
		close_note_fds(qp);
		if (!good)
			break;
		/* mostly alone; if not, the socket stays readable, and announced notes are waited for */
		if (qp->shm.note.type == RF_SOFT_NOTE_WAKE && !notes_wait(qp))
			return true;
	}
	/* data written before the end counts */
	drain_inbox(qp, true);
	rf_soft_fail(qp, RF_WC_FLUSHED, true);
	return false;
}

/* The socket is readable or has room again. */
void
rf_soft_shm_socket(RfQp *qp)
{
	if (read_notes(qp) && atomic_load(&qp->shm.in->behind))
		send_backlog(qp);
}

/* ---------- data ---------- */

/* Waits for notes that the peer sent before data that refers to them, if necessary. */
static bool
notes_wait(RfQp *qp)
{
	return (int64_t) (atomic_load(&qp->shm.out->announced) - qp->shm.notes_read) > 0;
}

/*
 * Plain memcpy also for large payload: stores that bypass the cache were measured at 1.4 times the
 * CPU per byte, both processes together, because the reader reads the bytes at once and finds them
 * in the shared cache.
 */
static void
copy_payload(char *to, const RfWr *wr)
{
	for (int i = 0; i < wr->num_sge; i++)
	{
		if (wr->sge[i].length > 0)
			memcpy(to, wr->sge[i].addr, wr->sge[i].length);
		to += wr->sge[i].length;
	}
}

static bool
ring_has_room(RfQp *qp)
{
	return qp->shm.out_head - atomic_load(&qp->shm.out->tail) < qp->shm.out_size;
}

/* Check and copy under the domain's lock. */
static Outcome
write_payload(RfQp *qp, const RfWr *wr, uint32_t *length, RfWcStatus *status)
{
	RfSoftMapping *mapping;
	char	   *memory;

	*status = rf_soft_check_local(qp, wr, length);
	if (*status != RF_WC_SUCCESS)
		return OUTCOME_REFUSED;
	if (*length == 0)
		return OUTCOME_DONE;
	mapping = find_mapping(qp->shm.peer, wr->rkey, &qp->mapping_hint);
	if (mapping == NULL && (atomic_load(&qp->shm.out->behind) || notes_wait(qp)))
		return OUTCOME_WAIT;
	*status = RF_WC_REMOTE_ACCESS;
	if (mapping == NULL ||
		!rf_soft_inside(mapping->addr, mapping->length, wr->remote_addr, *length))
		return OUTCOME_REFUSED;
	memory = mapping->memory + (wr->remote_addr - mapping->addr);
	if (wr->opcode == RF_WR_COMPARE_SWAP)
	{
		uint64_t	found = wr->compare;

		/* the peer's region begins in the middle of a word */
		if ((uintptr_t) memory % sizeof(uint64_t) != 0)
			return OUTCOME_REFUSED;
		(void) atomic_compare_exchange_strong((_Atomic uint64_t *) memory, &found, wr->swap);
		memcpy((void *) wr->sge[0].addr, &found, sizeof(found));
	}
	else
		copy_payload(memory, wr);
	return OUTCOME_DONE;
}

/*
 * Executes one work request over shared memory: copies the payload and puts an immediate into the
 * receiver's ring. OUTCOME_WAIT if the ring is full or the receiver is not there yet.
 */
static Outcome
execute(RfQp *qp, const RfWr *wr, RfWcStatus *status)
{
	Outcome		outcome;
	uint32_t	length;

	if (qp->shm.out == NULL || notes_wait(qp))
	{
		if (!read_notes(qp))
			return OUTCOME_DEAD;
		if (qp->shm.out == NULL)
			return OUTCOME_WAIT;
	}
	if (wr->opcode == RF_WR_WRITE_IMM && !ring_has_room(qp))
	{
		if (qp->shm.out_head - atomic_load(&qp->shm.out->tail) > qp->shm.out_size)
		{
			rf_soft_fail(qp, RF_WC_TRANSPORT, true);
			return OUTCOME_DEAD;
		}
		/* announce that we wait, then check once more: the receiver does it in reverse order */
		atomic_store(&qp->shm.out->waiting, 1);
		if (!ring_has_room(qp))
			return OUTCOME_WAIT;
	}
	pthread_rwlock_rdlock(&qp->domain->lock);
	outcome = write_payload(qp, wr, &length, status);
	pthread_rwlock_unlock(&qp->domain->lock);
	if (outcome == OUTCOME_DONE)
	{
		qp->cq->stats.bytes += length;
		if (wr->opcode == RF_WR_WRITE_IMM)
		{
			qp->shm.out->slots[qp->shm.out_head & (qp->shm.out_size - 1)] = (RfSoftSlot)
			{
				wr->imm, length
			};
			/* sequentially consistent, because the armed flag is read next */
			atomic_store(&qp->shm.out->head, ++qp->shm.out_head);
			qp->shm.kick_due = true;
		}
	}
	return outcome;
}

void
rf_soft_shm_post(RfQp *qp, const RfWr *wr)
{
	RfWcStatus	status = RF_WC_LOCAL;
	Outcome		outcome = OUTCOME_WAIT;

	if (qp->first == qp->last)
		outcome = execute(qp, wr, &status);
	switch (outcome)
	{
		case OUTCOME_DONE:
			if (wr->signaled)
				rf_soft_complete(qp, wr->wr_id, RF_WC_SUCCESS);
			break;
		case OUTCOME_WAIT:
			rf_soft_append(qp, wr, RF_WC_SUCCESS);
			break;
		case OUTCOME_REFUSED:
			rf_soft_complete(qp, wr->wr_id, status);
			rf_soft_shm_kick(qp);
			rf_soft_fail(qp, RF_WC_FLUSHED, false);
			break;
		case OUTCOME_DEAD:
			rf_soft_complete(qp, wr->wr_id, RF_WC_FLUSHED);
			break;
	}
}

/* Wakes the peer if it sleeps; once for all immediates of a chain. */
void
rf_soft_shm_kick(RfQp *qp)
{
	if (!qp->shm.kick_due)
		return;
	qp->shm.kick_due = false;
	if (atomic_load(&qp->shm.out->armed) && atomic_exchange(&qp->shm.out->armed, 0) && !wake(qp))
	{
		atomic_store(&qp->shm.out->armed, 1);
		qp->shm.kick_due = true;
	}
}

static void
drain_inbox(RfQp *qp, bool all)
{
	RfCq	   *cq = qp->cq;
	uint64_t	head = atomic_load(&qp->shm.in->head);
	uint64_t	before = qp->shm.in_tail;

	if (head - qp->shm.in_tail > qp->shm.in_size)
	{
		if (!all)
			rf_soft_fail(qp, RF_WC_TRANSPORT, true);
		return;
	}
	while (qp->shm.in_tail != head && (all || cq->count < cq->depth))
	{
		RfSoftSlot	slot = qp->shm.in->slots[qp->shm.in_tail++ & (qp->shm.in_size - 1)];

		rf_soft_received(qp, slot.imm, slot.length);
	}
	if (qp->shm.in_tail != before)
	{
		atomic_store(&qp->shm.in->tail, qp->shm.in_tail);
		if (atomic_load(&qp->shm.in->waiting) && atomic_exchange(&qp->shm.in->waiting, 0) &&
			!wake(qp))
			atomic_store(&qp->shm.in->waiting, 1);
	}
}

/* All progress that needs no system call. */
void
rf_soft_shm_progress(RfQp *qp)
{
	drain_inbox(qp, false);

	/*
	 * the side that cleared the flag has sent WAKE, or is about to, or the socket shows its death
	 */
	if (qp->cq->armed && !atomic_load(&qp->shm.in->armed))
		qp->cq->armed = false;
	while (!qp->failed && qp->first < qp->last)
	{
		RfSoftWr   *kept = &qp->wrs[qp->first & (qp->wrs_size - 1)];
		RfWcStatus	status = kept->bad;
		Outcome		outcome = kept->bad ? OUTCOME_REFUSED : execute(qp, &kept->wr, &status);

		if (outcome == OUTCOME_WAIT)
			break;
		if (outcome == OUTCOME_REFUSED)
		{
			rf_soft_shm_kick(qp);
			rf_soft_fail(qp, status, false);
		}
		else if (outcome == OUTCOME_DONE)
		{
			qp->first++;
			if (kept->wr.signaled)
				rf_soft_complete(qp, kept->wr.wr_id, RF_WC_SUCCESS);
		}
	}
	if (!qp->failed)
		rf_soft_shm_kick(qp);
}

/* ---------- set-up and end ---------- */

static int
create_inbox(RfQp *qp, RfError *error)
{
	int			fd = memfd_create("rdma_fdw immediates", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void	   *memory = MAP_FAILED;

	qp->shm.in_size = 16;
	while (qp->shm.in_size < qp->config.max_recv && qp->shm.in_size < RF_SOFT_MAX_RING)
		qp->shm.in_size *= 2;
	if (fd >= 0 && ftruncate(fd, inbox_bytes(qp->shm.in_size)) == 0 &&
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		memory = mmap(NULL, inbox_bytes(qp->shm.in_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
					  0);
	if (memory == MAP_FAILED)
	{
		rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
				 "could not create shared memory for a queue pair");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	qp->shm.in = memory;
	/* one needless wake-up is better than a lost one: the queue may be armed already */
	atomic_store(&qp->shm.in->armed, 1);
	return fd;
}

/*
 * The entry of the peer's domain, with one user more; made for its first queue pair. Returns NULL
 * if memory is short.
 */
static RfSoftPeer *
join_peer(RfDomain *domain, uint64_t domain_id)
{
	RfSoftPeer *peer;

	for (peer = domain->peers; peer != NULL; peer = peer->next)
	{
		if (peer->domain_id == domain_id)
		{
			peer->users++;
			return peer;
		}
	}
	peer = calloc(1, sizeof(RfSoftPeer));
	if (peer != NULL)
	{
		peer->domain_id = domain_id;
		peer->users = 1;
		peer->next = domain->peers;
		domain->peers = peer;
	}
	return peer;
}

static void
leave_peer(RfDomain *domain, RfSoftPeer *peer)
{
	if (--peer->users > 0)
		return;
	for (RfSoftPeer **link = &domain->peers; *link != NULL; link = &(*link)->next)
	{
		if (*link == peer)
		{
			*link = peer->next;
			break;
		}
	}
	for (int i = 0; i < peer->count; i++)
		munmap(peer->mappings[i].memory, peer->mappings[i].length);
	free(peer->mappings);
	free(peer);
}

bool
rf_soft_shm_connect(RfQp *qp, uint64_t peer_domain, RfError *error)
{
	RfDomain   *domain = qp->domain;
	RfSoftNote	hello = {.magic = RF_SOFT_MAGIC, .type = RF_SOFT_NOTE_HELLO};
	int			inbox = create_inbox(qp, error);
	int			failure;

	if (inbox < 0)
		return false;
	hello.ring_size = (uint32_t) qp->shm.in_size;

	pthread_rwlock_wrlock(&domain->lock);
	qp->shm.peer = join_peer(domain, peer_domain);
	failure = qp->shm.peer == NULL ? ENOMEM : send_note(qp->sock, &hello, &inbox, 1);
	if (failure == 0 && !rf_soft_watch(qp, EPOLLIN))
		failure = errno;
	if (failure == 0)
	{
		qp->shm.announce_next = domain->announce;
		domain->announce = qp;
		for (int i = 0; i < domain->count; i++)
		{
			if (domain->regions[i]->fd >= 0)
				rf_soft_shm_announce(qp, RF_SOFT_NOTE_REGION, domain->regions[i]);
		}
	}
	pthread_rwlock_unlock(&domain->lock);
	close(inbox);
	if (failure != 0)
		return rf_error(error, RF_ERROR_CONNECTION, strerror(failure), NULL,
						"could not pass shared memory to the peer");
	return true;
}

void
rf_soft_shm_destroy(RfQp *qp)
{
	RfDomain   *domain = qp->domain;

	pthread_rwlock_wrlock(&domain->lock);
	for (RfQp **link = &domain->announce; *link != NULL; link = &(*link)->shm.announce_next)
	{
		if (*link == qp)
		{
			*link = qp->shm.announce_next;
			break;
		}
	}
	while (qp->shm.backlog != NULL)
	{
		RfSoftBacklog *kept = qp->shm.backlog;

		qp->shm.backlog = kept->next;
		free(kept);
	}
	if (qp->shm.peer != NULL)
		leave_peer(domain, qp->shm.peer);
	pthread_rwlock_unlock(&domain->lock);

	close_note_fds(qp);
	if (qp->shm.out != NULL)
		munmap(qp->shm.out, inbox_bytes(qp->shm.out_size));
	if (qp->shm.in != NULL)
		munmap(qp->shm.in, inbox_bytes(qp->shm.in_size));

	epoll_ctl(qp->cq->epoll, EPOLL_CTL_DEL, qp->sock, NULL);
	shutdown(qp->sock, SHUT_WR);
	pthread_rwlock_wrlock(&domain->lock);
	qp->next = domain->leaving;
	domain->leaving = qp;
	pthread_rwlock_unlock(&domain->lock);
}

/*
 * Returns true if the peer of a destroyed queue pair has reported its end. Its earlier notes are
 * dropped; the kernel closes their descriptors.
 */
bool
rf_soft_shm_left(RfQp *qp)
{
	char		notes[4096];

	/* bounded: the peer may send without pause */
	for (int i = 0; i < 64; i++)
	{
		ssize_t		got = recv(qp->sock, notes, sizeof(notes), MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == ENOMEM))
			return false;
		if (got <= 0)
			return true;
	}
	return false;
}
