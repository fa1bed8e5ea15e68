/*
 * provider.h - the interface of a transport to the engine.
 *
 * A provider moves bytes between registered memory of two engines and tells about it by
 * completions. It knows nothing of flows, batches or SQL. Every provider keeps the same contract,
 * so that everything above this line runs unchanged over verbs, over the software providers and
 * over the simulated one of the unit tests:
 *
 *  - posting never blocks and never fails: every failure arrives as a completion with a status;
 *  - a queue pair executes its work requests in order; nothing is promised between queue pairs;
 *  - a WRITE_IMM is announced to the remote completion queue after all bytes of it, and of every
 *    earlier work request of the same queue pair, are visible there; polling the payload itself
 *    proves nothing;
 *  - unsignaled work requests complete silently unless they fail; a signaled completion covers all
 *    earlier work requests of its queue pair; a failed work request always completes, and
 *    everything behind it is FLUSHED;
 *  - the provider keeps receives posted for immediates itself;
 *  - a successful completion says that the device needs the payload no more. Most devices have the
 *    peer's acknowledgement by then; an iWARP device has not, and what the peer's device refuses
 *    ends the queue pair later;
 *  - a completion's memory may be reused by the caller as soon as the completion was polled.
 *
 * Threads: device, domain, region and queue pair set-up calls come from the engine's main thread. A
 * completion queue and the queue pairs attached to it are polled, posted to and armed by one thread
 * only (its lane); a provider that shares state between the two (regions of a domain, for example)
 * locks it itself. qp_connect comes from the main thread before the lane knows the queue pair;
 * qp_destroy from the lane.
 *
 * No PostgreSQL header may be included here or in any provider.
 */
#ifndef RF_PROVIDER_H
#define RF_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/tls.h"

#define RF_MAX_SGE			30	/* entries in one work request, at most */
#define RF_MAX_MESSAGE		(8u << 20)	/* bytes in one work request, at most */
#define RF_MAX_STRIDE		UINT16_MAX	/* bytes from one element of a strided entry to the next,
										 * at most */
#define RF_QP_BLOB_SIZE		128 /* data that two queue pairs exchange to connect */

typedef struct RfDevice RfDevice;	/* an opened device, or the software provider's state */
typedef struct RfDomain RfDomain;	/* protection domain: one per peer */
typedef struct RfCq RfCq;		/* completion queue: one per lane */
typedef struct RfQp RfQp;		/* queue pair: one per lane and peer */

/* A registered region. The provider allocates it; the caller reads it. */
typedef struct RfRegion
{
	void	   *addr;
	size_t		length;
	uint32_t	lkey;			/* names it in local scatter-gather entries */
	uint32_t	rkey;			/* names it to the peer; 0 = nothing does (source_register), never
								 * otherwise */
} RfRegion;

typedef struct RfProviderConfig
{
	const char *device;			/* verbs: NAME, NAME:PORT or NAME:PORT:0xPARTITION, NULL or "" =
								 * best; without PORT the first active one, without PARTITION any
								 * that the peer is in, too */
	int			gid_index;		/* verbs: -1 = choose by score */
	int			traffic_class;	/* verbs: GRH traffic class (DSCP << 2) */
	int			service_level;
	int			timeout;		/* verbs: local ACK timeout exponent, 4.096 us * 2^n */
	size_t		memory_to_register; /* bytes, at most, for the memlock check */
	int			lanes;			/* completion queues, and queue pairs to each peer */
	int			max_wr;			/* of a queue pair, as in RfQpConfig */
	int			max_recv;
	bool		soft_tcp_only;	/* soft: never map the peer's memory (for tests and control
								 * measurements) */
} RfProviderConfig;

typedef struct RfDeviceCaps
{
	char		provider[16];	/* "verbs", "soft", "sim" */
	char		device[64];
	char		gid[48];		/* verbs: textual GID in use, iWARP: IP address; soft: "" */
	char		gid_type[16];	/* "RoCEv2", "RoCEv1", "IB", "iWARP", "" */
	int			gid_index;
	int			port;
	char		port_state[16]; /* "active", ... */
	char		partitions[128];	/* verbs, not iWARP: their keys, "0xffff, 0x8001" */
	bool		limited_member; /* of all partitions: reaches full members only */
	int			mtu;			/* bytes, 0 where it means nothing */
	uint32_t	max_message;
	int			max_sge;
	int			max_qp_wr;		/* work requests one queue pair holds */
	int			max_peers;		/* verbs: that there is room for at least; else 0 */
	int			max_inline;
	bool		atomics;		/* remote compare-and-swap available */
	bool		thread_domains; /* a doorbell of its own per lane */
	bool		needs_socket;	/* qp_connect wants a connected stream socket */
	int			max_strided;	/* strided entries that one queue pair may have out: RF_MAX_SGE or
								 * more; 0 if the device has no strided entries */
} RfDeviceCaps;

/* What a device tells about itself. */
typedef enum RfDeviceEvent
{
	RF_DEVICE_QUIET = 0,		/* nothing more now */
	RF_DEVICE_CHANGED,			/* worth a line in the log; device_caps may have changed */
	RF_DEVICE_DEAD				/* it works no more, unless it is closed and opened again */
} RfDeviceEvent;

typedef enum RfWrOpcode
{
	RF_WR_WRITE = 1,			/* RDMA WRITE, silent at the target */
	RF_WR_WRITE_IMM,			/* RDMA WRITE (0 bytes allowed) that ends in a completion with imm
								 * at the target */

	/*
	 * If the 8 bytes at remote_addr are `compare`, make them `swap`, in one step towards all other
	 * work of this kind that goes through the same device; their old value is in sge[0] when the
	 * completion is polled (one entry of 8 bytes; silent at the target, like WRITE). remote_addr
	 * is a multiple of 8, else RF_WC_LOCAL. Only where RfDeviceCaps.atomics, else the same. Over
	 * shared memory it is atomic towards processors too, over TCP only towards operations in the
	 * target's completion queue, and devices promise no more than the first.
	 */
	RF_WR_COMPARE_SWAP
} RfWrOpcode;

typedef struct RfSge
{
	const void *addr;
	uint32_t	length;
	uint32_t	lkey;
} RfSge;

/*
 * An entry that is no run of bytes but elements of equal size, equally far apart: the device leaves
 * the gaps out (D-RDMA, section 3.1; an interleaved key of an mlx5 device). The entry's addr is the
 * first element's, its length the sum of all elements. The gaps need not be readable by anybody but
 * have to belong to the same region.
 */
typedef struct RfStrided
{
	int			entry;			/* of the request's sge; ascending */
	uint32_t	element;		/* bytes, at least 1; length is a multiple */
	uint32_t	stride;			/* bytes from one to the next: element .. RF_MAX_STRIDE */
} RfStrided;

/*
 * A work request. The caller owns it and its arrays until rf post returns; the payload until its
 * completion.
 */
typedef struct RfWr
{
	struct RfWr *next;			/* the chain: same queue pair, one post, one doorbell */
	uint64_t	wr_id;			/* comes back in the completion */
	RfWrOpcode	opcode;
	bool		signaled;
	int			num_sge;		/* 0 .. RF_MAX_SGE */
	const RfSge *sge;

	/*
	 * Strided entries of a WRITE or WRITE_IMM. No more of them, in all requests of the queue pair
	 * whose completion was not polled, than RfDeviceCaps.max_strided, else RF_WC_LOCAL.
	 */
	int			num_strided;
	const RfStrided *strided;
	uint64_t	remote_addr;
	uint32_t	rkey;
	uint32_t	imm;			/* host byte order on both ends */
	uint64_t	compare;		/* RF_WR_COMPARE_SWAP, host byte order */
	uint64_t	swap;
} RfWr;

/* Bytes from the start of a strided entry to the end of its last element. */
static inline uint64_t
rf_strided_extent(const RfSge *sge, const RfStrided *strided)
{
	return (uint64_t) (sge->length / strided->element - 1) * strided->stride + strided->element;
}

/* Returns true if the strided entries obey the contract, for any capability of the device. */
static inline bool
rf_strided_valid(const RfWr *wr)
{
	int			next = 0;

	if (wr->num_strided < 0 || wr->num_strided > wr->num_sge ||
		(wr->num_strided > 0 && wr->opcode == RF_WR_COMPARE_SWAP))
		return false;
	for (int i = 0; i < wr->num_strided; i++)
	{
		const RfStrided *strided = &wr->strided[i];

		if (strided->entry < next || strided->entry >= wr->num_sge || strided->element == 0 ||
			strided->stride < strided->element || strided->stride > RF_MAX_STRIDE ||
			wr->sge[strided->entry].length == 0 ||
			wr->sge[strided->entry].length % strided->element != 0)
			return false;
		next = strided->entry + 1;
	}
	return true;
}

typedef enum RfWcStatus
{
	RF_WC_SUCCESS = 0,
	RF_WC_FLUSHED,				/* the queue pair was in error or is being destroyed */
	RF_WC_REMOTE_ACCESS,		/* rkey, address or length refused by the peer */
	RF_WC_TRANSPORT,			/* peer or link lost, retries exceeded */
	RF_WC_LOCAL					/* local key, length or resource */
} RfWcStatus;

typedef enum RfWcOpcode
{
	RF_WC_WRITE = 1,			/* a work request of ours */
	RF_WC_RECV_IMM,				/* the peer's WRITE_IMM has landed here */
	RF_WC_DISCONNECTED			/* the queue pair failed without a work request of ours (peer
								 * closed, link cut) */
} RfWcOpcode;

typedef struct RfWc
{
	uint64_t	wr_id;			/* RF_WC_WRITE only */
	void	   *qp_context;		/* the context given to qp_create */
	RfWcStatus	status;
	RfWcOpcode	opcode;
	uint32_t	imm;			/* RF_WC_RECV_IMM only */
	uint32_t	byte_len;		/* RF_WC_RECV_IMM only: bytes of that WRITE_IMM */
} RfWc;

typedef struct RfQpConfig
{
	int			max_wr;			/* work requests outstanding, at most */
	int			max_recv;		/* immediates in flight towards us that must not stall */
	void	   *context;
} RfQpConfig;

typedef struct RfProviderStats
{
	uint64_t	posts;			/* doorbells: verbs ibv_post_send, TCP writev, shm chain */
	uint64_t	work_requests;
	uint64_t	bytes;
	uint64_t	completions;
	uint64_t	events;			/* wake-ups through the file descriptor */
} RfProviderStats;

typedef struct RfProvider
{
	const char *name;

	RfDevice   *(*device_open) (const RfProviderConfig *config, RfError *error);
	void		(*device_close) (RfDevice *device);
	void		(*device_caps) (RfDevice *device, RfDeviceCaps *caps);

	/*
	 * A descriptor that is readable when the device has something to tell, and what it has to
	 * tell: one sentence of at most `size` bytes a call, until it is quiet. NULL: a device that
	 * tells nothing. The effect on a queue pair arrives as completions anyway.
	 */
	int			(*device_fd) (RfDevice *device);
	RfDeviceEvent (*device_event) (RfDevice *device, char *text, size_t size);

	RfDomain   *(*domain_create) (RfDevice *device, RfError *error);

	/*
	 * A domain whose queue pairs do without the device, over the software transport: for a peer
	 * that the device does not reach. Its queue pairs need sockets, and have neither strided
	 * entries nor compare-and-swaps that are atomic towards the device's. Returns NULL if there is
	 * no fallback beside this provider.
	 */
	RfDomain   *(*domain_fallback) (RfDevice *device, RfError *error);
	void		(*domain_destroy) (RfDomain *domain);	/* after its queue pairs and regions */

	/*
	 * After all queue pairs of the domain are destroyed: returns true if their peers can no longer
	 * write into the memory of its regions. Where a device or this process carries the writes out,
	 * never. Where the peer does (shared memory), it is false until the peer has noticed the end,
	 * or is dead: a peer that was stopped in the middle of a copy finishes it whenever it goes on.
	 * True for good once it is true. Memory that is not quiet belongs to that peer and must be
	 * lent to nobody else. Does not block; ask again.
	 */
	bool		(*domain_quiet) (RfDomain *domain);

	/*
	 * Register memory in one peer's domain, local read and write and remote write. `fd` is the
	 * memfd that is mapped at addr (offset 0): the soft provider passes it to a peer on the same
	 * host, verbs ignores it. Regions may be registered before or after the domain's queue pairs
	 * connect; a peer may use the rkey as soon as it learns it in any way.
	 */
	RfRegion   *(*region_register) (RfDomain *domain, void *addr, size_t length, int fd,
									RfError *error);

	/*
	 * Register memory of any kind that this domain's work requests may send from and that no peer
	 * can name: its rkey is 0. It must stay mapped until it is deregistered.
	 */
	RfRegion   *(*source_register) (RfDomain *domain, void *addr, size_t length, RfError *error);
	void		(*region_deregister) (RfDomain *domain,
									  RfRegion *region);	/* either kind; nothing that reads it
															 * is out */

	RfCq	   *(*cq_create) (RfDevice *device, int depth, RfError *error);
	void		(*cq_destroy) (RfCq *cq);	/* after its queue pairs */
	int			(*cq_fd) (RfCq *cq);	/* readable when an armed queue has something; one fd for
										 * the queue's life */
	void		(*cq_arm) (RfCq *cq);	/* then poll once more, then block on cq_fd; consumes old
										 * readiness */
	int			(*cq_poll) (RfCq *cq, RfWc *wc, int max);	/* never blocks; drives progress where
															 * software must */

	RfQp	   *(*qp_create) (RfDomain *domain, RfCq *cq, const RfQpConfig *config, RfError *error);
	void		(*qp_local) (RfQp *qp, uint8_t blob[RF_QP_BLOB_SIZE]);

	/*
	 * Connect to the peer's queue pair, described by its blob. `sock` is a connected,
	 * authenticated, non-blocking stream socket to the peer's engine for this queue pair alone
	 * (AF_UNIX when both engines run on one host, else TCP), or -1 when the device does not need
	 * one; the queue pair owns it from here, also on failure. With a key, of which the peer has
	 * the other half, all that the socket carries goes under TLS, and nothing gets through to a
	 * peer without it; only for sockets that no memory is passed over. NULL: as it is.
	 */
	bool		(*qp_connect) (RfQp *qp, const uint8_t blob[RF_QP_BLOB_SIZE], int sock,
							   const RfTlsKey *key, RfError *error);
	void		(*qp_post) (RfQp *qp, RfWr *chain);

	/*
	 * For people: the device's number of the queue pair (0 if it has no number), and whether it
	 * has its own lane's doorbell. NULL: neither exists here.
	 */
	uint32_t	(*qp_number) (RfQp *qp, bool *thread_domain);

	void		(*qp_destroy) (RfQp *qp);	/* outstanding work requests vanish; their buffers are
											 * no longer read or written */
	void		(*cq_stats) (RfCq *cq, RfProviderStats *stats); /* sums over its queue pairs */
} RfProvider;

extern const RfProvider rf_provider_verbs;
extern const RfProvider rf_provider_soft;
extern const RfProvider rf_provider_fallback;	/* verbs, with soft beside it
												 * (src/provider/fallback.c) */
extern const RfProvider rf_provider_sim;	/* unit tests and benches only: see test/unit/sim.h */

#endif
