/*
 * soft.h - shared by the files of the software provider; no other file includes it.
 *
 * soft.c holds devices, domains, regions, completion queues and the life of queue pairs. soft_shm.c
 * moves bytes between two processes of one host through mapped memory, soft_stream.c over a byte
 * stream. Neither knows flows or batches.
 *
 * Locks, in the order in which they are taken:
 *   RfCq.lock      everything of a completion queue and of the queue pairs attached to it. The
 *                  lane takes it for each call; the main thread takes it only to connect a queue
 *                  pair, or to destroy a queue pair that never reached its lane.
 *   RfDomain.lock  (read-write) regions, the peers' announcements, the list of queue pairs to
 *   announce to. Held shared while payload is
 *                  copied, so that a region or mapping that is taken away is never written to
 *                  afterwards.
 */
#ifndef RF_SOFT_H
#define RF_SOFT_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "rdma_fdw/provider.h"

#define RF_SOFT_MAGIC		0x31465352u /* "RSF1" */
#define RF_SOFT_VERSION		1
#define RF_SOFT_STAGE		(16 * 1024) /* bytes read ahead of the frame that is being received */
#define RF_SOFT_IOV			1024	/* IOV_MAX: two per work request give chains of 512 */
#define RF_SOFT_BURST		(4u << 20)	/* bytes one queue pair moves per call before the next
										 * one's turn */
#define RF_SOFT_RECORDS		16	/* full records of TLS in one send: a slot of the usual size */
#define RF_SOFT_MAX_RING	(64 * 1024) /* immediates a peer may have in flight towards us */

/* The content of qp_local's blob. */
typedef struct RfSoftBlob
{
	uint32_t	magic;
	uint16_t	version;
	uint16_t	stream_only;
	uint64_t	domain_id;		/* random: equal values share the announced regions */
} RfSoftBlob;

struct RfDevice
{
	bool		stream_only;
	int			sndbuf;			/* 0 = leave the kernel's automatic size */
	int			rcvbuf;
};

typedef struct RfSoftRegion
{
	RfRegion	pub;			/* first: callers hold a pointer to it */
	int			fd;				/* ours, -1 = cannot be passed on */
} RfSoftRegion;

/* A peer's region, mapped here. */
typedef struct RfSoftMapping
{
	uint32_t	rkey;
	uint64_t	addr;			/* in the peer's address space */
	uint64_t	length;
	char	   *memory;
} RfSoftMapping;

/*
 * The regions that one peer's domain has announced; shared by the queue pairs to it. Under
 * RfDomain.lock.
 */
typedef struct RfSoftPeer
{
	struct RfSoftPeer *next;
	uint64_t	domain_id;
	int			users;
	RfSoftMapping *mappings;
	int			count;
	int			size;
} RfSoftPeer;

struct RfDomain
{
	pthread_rwlock_t lock;
	uint64_t	id;
	struct RfDevice device;		/* a copy of its settings */
	uint32_t	next_key;
	RfSoftRegion **regions;
	int			count;
	int			size;
	RfSoftPeer *peers;
	RfQp	   *announce;		/* connected over shared memory, linked by announce_next */
	RfQp	   *leaving;		/* destroyed over shared memory, their peers may still be writing;
								 * linked by next */
};

/*
 * Immediates on their way from one process to another: a ring in a memfd of the receiver. The
 * receiver creates, maps and unmaps it and closes the descriptor; the sender maps and unmaps its
 * own view. Neither end trusts words of its peer that it reads: positions are kept privately and
 * compared.
 */
typedef struct RfSoftSlot
{
	uint32_t	imm;
	uint32_t	length;
} RfSoftSlot;

typedef struct RfSoftInbox
{
	alignas(64) _Atomic uint64_t head;	/* sender, after the slot and all payload (release);
										 * receiver acquires */
				alignas(64) _Atomic uint64_t tail;	/* receiver, after it has read the slot
													 * (release); sender acquires */
				alignas(64) _Atomic uint32_t armed; /* receiver sets, checks again; the clearer
													 * sends WAKE */
				alignas(64) _Atomic uint32_t waiting;	/* sender sets when the ring is full; the
														 * receiver clears it and sends WAKE */
				alignas(64) _Atomic uint64_t announced; /* receiver: notes it has put into the
														 * socket */
	_Atomic uint32_t behind;	/* receiver: notes that did not fit into the socket yet */
	alignas(64) RfSoftSlot slots[];
} RfSoftInbox;

/* Messages on the local socket; memfds are attached. */
typedef enum RfSoftNoteType
{
	RF_SOFT_NOTE_HELLO = 1,		/* one descriptor: inbox */
	RF_SOFT_NOTE_REGION,		/* one descriptor */
	RF_SOFT_NOTE_GONE,			/* the region was deregistered */
	RF_SOFT_NOTE_WAKE			/* wakes a receiver that has armed itself, or a sender that waits
								 * for room */
} RfSoftNoteType;

typedef struct RfSoftNote
{
	uint32_t	magic;
	uint16_t	type;
	uint16_t	reserved;
	uint32_t	rkey;
	uint32_t	ring_size;		/* HELLO */
	uint64_t	addr;
	uint64_t	length;
} RfSoftNote;

typedef struct RfSoftBacklog	/* a note that waits for room in the socket */
{
	struct RfSoftBacklog *next;
	uint16_t	type;
	uint32_t	rkey;
} RfSoftBacklog;

/*
 * Messages on a byte stream: a frame, then `length` bytes of payload for the writes. Little-endian,
 * no holes.
 */
#define RF_SOFT_FRAME_MAGIC	0x5246
#define RF_SOFT_MAX_SWAPS	16	/* compare-and-swaps a peer may have sent that are not answered;
								 * like a device's max_dest_rd_atomic */
#define RF_SOFT_FRAME_ACK_ME 0x1	/* answer with an ACK as soon as it is executed */

typedef enum RfSoftOpcode
{
	RF_SOFT_WRITE = 1,
	RF_SOFT_WRITE_IMM,
	RF_SOFT_NOTHING,			/* replaces a work request that failed at the sender */
	RF_SOFT_ACK,				/* addr = work requests executed so far */
	RF_SOFT_NAK,				/* addr = number of the work request that was refused; the stream
								 * ends here */
	RF_SOFT_SWAP,				/* compare-and-swap; payload: the value to compare with, the value
								 * to store */
	RF_SOFT_SWAPPED				/* answer and ACK: addr = old value, imm, rkey = request's number */
} RfSoftOpcode;

typedef struct RfSoftFrame
{
	uint16_t	magic;
	uint8_t		opcode;
	uint8_t		flags;
	uint32_t	length;
	uint64_t	addr;
	uint32_t	rkey;
	uint32_t	imm;
} RfSoftFrame;

/* A work request that could not be completed inside post. */
typedef struct RfSoftWr
{
	RfWr		wr;				/* its sge points to the array below */
	uint32_t	length;			/* of a good one */
	RfWcStatus	bad;			/* found at post; reported in its turn */
	RfSoftFrame frame;
	uint64_t	swaps;			/* stream: compare-and-swaps of the queue pair up to here, this one
								 * included */
	RfSge		sge[RF_MAX_SGE];
} RfSoftWr;

typedef enum RfSoftKind
{
	RF_SOFT_UNCONNECTED = 0,
	RF_SOFT_SHM,
	RF_SOFT_STREAM
} RfSoftKind;

/* Over shared memory (soft_shm.c) */
typedef struct RfSoftShm
{
	RfQp	   *announce_next;	/* in RfDomain.announce */
	RfSoftPeer *peer;
	RfSoftInbox *in;			/* ours, the peer fills it */
	uint64_t	in_size;
	uint64_t	in_tail;
	RfSoftInbox *out;			/* the peer's; NULL until its HELLO was read */
	uint64_t	out_size;
	uint64_t	out_head;
	bool		kick_due;		/* an immediate went out since the last kick */
	uint64_t	notes_read;
	RfSoftNote	note;			/* being received */
	size_t		note_have;
	int			note_fds[1];
	int			note_fd_count;
	RfSoftBacklog *backlog;		/* under RfDomain.lock */
} RfSoftShm;

/* Over a byte stream, sending (soft_stream.c) */
typedef struct RfSoftSending
{
	uint64_t	sent;			/* number of the first work request not sent completely */
	uint64_t	offset;			/* bytes of it that are sent, frame included */
	RfSoftFrame control;		/* ACK or NAK on its way */
	size_t		control_left;	/* bytes of it still to send */
	bool		ack_due;
	uint64_t	swaps_posted;
	uint64_t	swaps_answered;
	RfSoftFrame answers[RF_SOFT_MAX_SWAPS]; /* SWAPPED that wait for their turn, a ring */
	uint32_t	answers_head;
	uint32_t	answers_count;
} RfSoftSending;

/* Over a byte stream, receiving (soft_stream.c) */
typedef struct RfSoftReceiving
{
	uint64_t	executed;		/* the peer's work requests */
	RfSoftFrame frame;
	bool		in_payload;
	uint64_t	done;			/* payload bytes of it that have landed */
	uint64_t	swap[2];		/* payload of SWAP */
	char	   *stage;
	size_t		stage_head;
	size_t		stage_count;
} RfSoftReceiving;

/* Under RfCq.lock, unless a field says otherwise */
struct RfQp
{
	RfQp	   *next;			/* in RfCq.qps; when destroyed, in RfDomain.leaving */
	RfDomain   *domain;
	RfCq	   *cq;
	RfQpConfig	config;
	RfSoftKind	kind;
	bool		failed;
	int			sock;
	RfTls	   *tls;			/* byte stream that sends and receives; NULL = the socket itself */
	bool		unread;			/* it has read more than was taken from it yet; counted in
								 * RfCq.unread */
	uint32_t	poll_events;	/* epoll's; shm: under RfDomain.lock, stream: RfCq.lock */
	int			mapping_hint;
	int			region_hint;

	/* posted and not completed: numbers [first, last), each at wrs[number & (wrs_size - 1)] */
	RfSoftWr   *wrs;
	uint64_t	wrs_size;
	uint64_t	first;
	uint64_t	last;

	RfSoftShm	shm;
	RfSoftSending tx;
	RfSoftReceiving rx;
};

typedef struct RfSoftEntry
{
	RfWc		wc;
	RfQp	   *qp;
} RfSoftEntry;

struct RfCq
{
	pthread_mutex_t lock;
	int			epoll;			/* result of cq_fd: holds the eventfd and the sockets */
	int			event;			/* for our own thread: readable until the next cq_arm */
	bool		armed;
	bool		arming;			/* in cq_arm */
	bool		event_counted;
	uint32_t	tick;
	uint32_t	full_polls;		/* in a row */
	uint64_t	looked_at;		/* stats.bytes at the last look at the sockets */
	RfQp	   *qps;			/* connected queue pairs */
	int			streams;		/* of them over byte streams and alive */
	int			unread;			/* of these, with bytes that no socket will tell of */
	RfSoftEntry *entries;		/* ring of completions not polled yet */
	size_t		size;
	size_t		head;
	size_t		count;
	size_t		depth;			/* nothing more is received from peers while so many wait */
	RfProviderStats stats;
	struct iovec iov[RF_SOFT_IOV];
};

static inline bool
rf_soft_inside(uint64_t base, uint64_t size, uint64_t addr, uint64_t length)
{
	return addr >= base && length <= size && addr - base <= size - length;
}

/* soft.c; all under RfCq.lock */
extern void rf_soft_signal(RfCq *cq);
extern void rf_soft_complete(RfQp *qp, uint64_t wr_id, RfWcStatus status);
extern void rf_soft_received(RfQp *qp, uint32_t imm, uint32_t length);
extern RfSoftWr *rf_soft_append(RfQp *qp, const RfWr *wr, RfWcStatus bad);
extern void rf_soft_fail(RfQp *qp, RfWcStatus status, bool tell);
extern bool rf_soft_watch(RfQp *qp, uint32_t events);

/*
 * Under RfDomain.lock, shared at least; NULL if there is no such local key. *hint caches its
 * position. A peer's key is the same number, but is valid only for a region with this rkey.
 */
extern RfSoftRegion *rf_soft_region(RfDomain *domain, uint32_t key, int *hint);
extern RfWcStatus rf_soft_check_local(RfQp *qp, const RfWr *wr, uint32_t *length);

/* soft_shm.c */
extern bool rf_soft_shm_connect(RfQp *qp, uint64_t peer_domain, RfError *error);
extern void rf_soft_shm_post(RfQp *qp, const RfWr *wr);
extern void rf_soft_shm_kick(RfQp *qp);
extern void rf_soft_shm_progress(RfQp *qp);
extern void rf_soft_shm_socket(RfQp *qp);
extern void rf_soft_shm_destroy(RfQp *qp);
extern bool rf_soft_shm_left(RfQp *qp);
extern void rf_soft_shm_announce(RfQp *qp, uint16_t type, const RfSoftRegion *region);

/* soft_stream.c */
extern bool rf_soft_stream_connect(RfQp *qp, int family, const RfTlsKey *key, RfError *error);
extern void rf_soft_stream_post(RfQp *qp, const RfWr *wr);
extern bool rf_soft_stream_unsent(RfQp *qp);
extern void rf_soft_stream_send(RfQp *qp);
extern void rf_soft_stream_receive(RfQp *qp);
extern void rf_soft_stream_set_unread(RfQp *qp, bool unread);
extern void rf_soft_stream_destroy(RfQp *qp);

#endif
