/*
 * verbs.h - shared by the files of the verbs provider. No other file includes it.
 *
 * verbs_device.c finds, checks and opens the device, and has protection domains and memory regions.
 * verbs.c has completion queues and queue pairs, verbs_post.c posts, verbs_iwarp.c implements
 * connections and immediates on iWARP devices, verbs_mlx5.c strided entries on mlx5 devices.
 * Plain C over libibverbs and, for iWARP, librdmacm.
 */
#ifndef RF_VERBS_H
#define RF_VERBS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include "rdma_fdw/provider.h"

#define RF_VERBS_RESERVE	8	/* send queue entries beyond max_wr: the marker and the farewell */
#define MAX_QPS			4096	/* queue pairs on one completion queue */
#define MAX_QUEUES		16		/* queues of the device that make up one completion queue */
#define SCRATCH			256		/* work requests handed over by one ibv_post_send */
#define RECV_BATCH		32		/* receives posted again by one ibv_post_recv */
#define MAX_PARTITIONS	16		/* of a port, that are used */
#define FULL_MEMBER		0x8000	/* bit of a partition key: reaches limited members, too */
#define DEFAULT_PARTITION 0xffff	/* key of a port that no subnet manager has given another key */

/*
 * The device's wr_id: table slot of the queue pair, kind, low half of the ring position. In a
 * failed completion only this, the status and the number of the queue pair are valid.
 */
#define ID_SEND			0u
#define ID_RECV			1u
#define ID_MARKER		2u
#define ID_FAREWELL		3u
#define ID_GRANT		4u		/* iWARP: a SEND that grants receives */
#define ID_SILENT		5u		/* iWARP: like ID_SEND, but only a failure is for the caller */
#define MAKE_ID(slot, kind, position) \
	((uint64_t) (slot) << 48 | (uint64_t) (kind) << 32 | (uint32_t) (position))

/* How the blobs of queue pairs begin. */
#define RF_BLOB_VERBS	0x52465601	/* "RFV", version 1 */
#define RF_BLOB_IWARP	0x52464901	/* "RFI", version 1 */

/* Written by device_open and device_event: by the main thread, which alone reads what changes. */
struct RfDevice
{
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	uint8_t		port;
	int			wanted_gid;		/* rdma_fdw.gid_index: -1 = choose by score */
	int			wanted_partition;	/* number in rdma_fdw.device: 0 = all */
	uint16_t	partitions[MAX_PARTITIONS]; /* keys of the port's partitions; 0 ends them */
	uint16_t	partition_index[MAX_PARTITIONS];	/* of the key in the port's table */
	int			gid_index;
	union ibv_gid gid;
	char		gid_text[48];
	const char *gid_type;
	bool		iwarp;			/* addressed by IP address, through the connection manager */
	struct sockaddr_storage address;	/* iWARP: the device's */
	bool		ethernet;		/* RoCE: addressed by GID; else InfiniBand: by LID, and by GID
								 * across subnets */
	uint32_t	max_message;
	int			max_sge;
	bool		thread_domains;
	bool		atomics;
	int			max_strided;	/* set by rf_mlx5_probe */
	int			max_peers;
	int			traffic_class;
	int			service_level;
	int			timeout;
};

typedef struct RfVerbsKeys RfVerbsKeys; /* verbs_mlx5.c */
typedef struct RfIwarpPort RfIwarpPort; /* verbs_iwarp.c */
typedef struct RfIwarpLink RfIwarpLink; /* verbs_iwarp.c */

struct RfDomain
{
	RfDevice   *device;
	struct ibv_pd *pd;
};

/* A completion queue of the device. */
typedef struct RfVerbsQueue
{
	struct ibv_cq *cq;
	int			depth;			/* entries */
	int			needed;			/* entries all its queue pairs could fill at once */
	bool		armed;			/* and no event was consumed since */
} RfVerbsQueue;

struct RfCq
{
	RfDevice   *device;
	struct ibv_comp_channel *channel;
	struct ibv_td *td;			/* NULL if the device has no channel */
	RfIwarpPort *port;			/* NULL unless the device is an iWARP device */

	pthread_mutex_t lock;		/* guards all down to stash_size; a holder may lock it again */
	RfVerbsQueue queues[MAX_QUEUES];	/* more than one where one has no room for all peers */
	int			queue_count;
	int			turn;			/* which is polled first */
	RfQp	   *qps[MAX_QPS];
	RfQp	   *ailing;			/* failed queue pairs with requests that never went to the device */
	struct ibv_wc *stash;		/* completions taken early, by qp_destroy */
	int			stash_count;
	int			stash_next;
	int			stash_size;

	/* Written by the lane, read by anyone. */
	_Atomic uint64_t posts;
	_Atomic uint64_t work_requests;
	_Atomic uint64_t bytes;
	_Atomic uint64_t completions;
	_Atomic uint64_t events;
	/* Used by the lane only; an iWARP device needs an entry of its own for each note. */
	struct ibv_send_wr scratch[SCRATCH];
	struct ibv_sge notes[SCRATCH];
};

struct RfQp
{
	RfCq	   *cq;
	RfVerbsQueue *queue;		/* of cq; NULL: no entries are reserved */
	RfDomain   *domain;
	struct ibv_pd *parent;		/* parent domain with the lane's thread domain, or NULL */
	struct ibv_qp *qp;
	RfVerbsKeys *keys;			/* NULL where the device has no strided entries */
	RfIwarpLink *link;			/* NULL unless the device is an iWARP device */
	void	   *context;
	uint32_t	slot;
	uint32_t	psn;
	uint16_t	partition;		/* index that INIT got */
	uint32_t	max_wr;
	uint32_t	max_send;		/* entries of the send queue */
	uint32_t	max_recv;
	uint32_t	recv_batch;
	int			needed;

	bool		connected;
	bool		failed;			/* in the error state; only the marker still goes to the device */
	bool		told;			/* the caller has seen a failure */
	bool		drained;		/* the device has finished everything */
	bool		listed;			/* in cq->ailing */
	bool		parting;		/* the farewell was sent */
	RfWcStatus	first;			/* status of the first request that never went to the device */
	RfQp	   *next_ailing;

	uint64_t   *ring;			/* the caller's wr_id by position */
	uint32_t	ring_size;		/* power of two */
	uint64_t	head;			/* given by the caller */
	uint64_t	posted;			/* of these, given to the device */
	uint64_t	completed;		/* of these, done; completed <= posted <= head */
	uint32_t	taken;			/* receives used since the last batch was posted */
	struct ibv_recv_wr recvs[RECV_BATCH];
};

static inline void
rf_verbs_count(_Atomic uint64_t *counter, uint64_t add)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
						  memory_order_relaxed);
}

/* Functions of RfProvider. (verbs_cq.c, as are all down to rf_verbs_imitate) */
extern RfCq *rf_verbs_cq_create(RfDevice *device, int depth, RfError *error);
extern void rf_verbs_cq_destroy(RfCq *cq);
extern int	rf_verbs_cq_fd(RfCq *cq);
extern void rf_verbs_cq_arm(RfCq *cq);
extern void rf_verbs_cq_stats(RfCq *cq, RfProviderStats *stats);
extern int	rf_verbs_cq_poll(RfCq *cq, RfWc *wc, int max);

/* Gives the queue pair a queue of the device with qp->needed free entries; false with *error. */
extern bool rf_verbs_reserve_entries(RfCq *cq, RfQp *qp, RfError *error);

/* Posts the next receives, at most RECV_BATCH; the queue pair fails if the device refuses them. */
extern void rf_verbs_post_recvs(RfQp *qp, uint32_t number);

/* Under RfCq.lock: takes all completions from the device, to be polled later. */
extern void rf_verbs_stash(RfCq *cq);

/* Under RfCq.lock: the queue pair has requests that the device never gets; it is destroyed. */
extern void rf_verbs_list_ailing(RfQp *qp);
extern void rf_verbs_unlist_ailing(RfQp *qp);

/* Under RfCq.lock: to the error state; `first` is the status of the first of those requests. */
extern void rf_verbs_fail(RfQp *qp, RfWcStatus first);

/* Under RfCq.lock: a completion as if the device had it; polled after all that it has now. */
extern void rf_verbs_imitate(RfQp *qp, uint32_t kind, enum ibv_wc_status status);

/* False, with the reason: the peer's blob is one of another kind of device, or no blob. */
extern bool rf_verbs_same_kind(const uint8_t bytes[RF_QP_BLOB_SIZE], uint32_t own, RfError *error);

extern void rf_verbs_post(RfQp *qp, RfWr *chain);

/* A chain that waits for nothing more. (verbs_post.c) */
extern void rf_verbs_post_now(RfQp *qp, RfWr *chain);

/*
 * The connection of a queue pair of an iWARP device, and what takes the place of immediates there.
 * All but posting under RfCq.lock. (verbs_iwarp.c)
 */
#define RF_IWARP_GRANTS		66	/* SENDs that grant receives: under way at once, and one */
#define RF_IWARP_INLINE		32	/* bytes that a request takes along, at most */
#define RF_IWARP_HINT	"Load rdma_ucm, and check that the server's user may open " \
						"/dev/infiniband/rdma_cm."

extern RfIwarpPort *rf_iwarp_port_create(RfCq *cq, RfError *error);
extern void rf_iwarp_port_destroy(RfIwarpPort *port);
extern int	rf_iwarp_port_fd(RfIwarpPort *port);
extern void rf_iwarp_progress(RfCq *cq, bool all);	/* all: also if all are connected */
extern bool rf_iwarp_link_create(RfQp *qp, RfError *error); /* sets qp->link, also on failure */
extern void rf_iwarp_link_destroy(RfQp *qp);
extern void rf_iwarp_local(RfQp *qp, uint8_t blob[RF_QP_BLOB_SIZE]);
extern bool rf_iwarp_connect(RfQp *qp, const uint8_t blob[RF_QP_BLOB_SIZE], RfError *error);

/* The places where the next receives land. */
extern void rf_iwarp_prepare_receives(RfQp *qp, uint32_t number);

/* What a receive brought: an immediate, or nothing for the caller. False: the end. */
extern bool rf_iwarp_received(RfQp *qp, const struct ibv_wc *wc, RfWc *out);

/* Returns true if the whole chain may go to the device now, as it is. */
extern bool rf_iwarp_admits(const RfQp *qp, const RfWr *chain);

/* Keeps a copy of the chain until it may go. */
extern void rf_iwarp_hold(RfQp *qp, const RfWr *chain);

/* Posts what does not need to wait any more. */
extern void rf_iwarp_release(RfQp *qp);

/* The SEND that announces a WRITE of `length` bytes. */
extern void rf_iwarp_announce(RfQp *qp, const RfWr *wr, uint32_t length, struct ibv_send_wr *send,
							  struct ibv_sge *note);

/*
 * The send queue entries beyond those of the caller's requests: the marker, the farewell, requests
 * that precede strided entries, grants.
 */
static inline int
rf_verbs_reserve(const RfDevice *device)
{
	return RF_VERBS_RESERVE + 2 * device->max_strided + (device->iwarp ? RF_IWARP_GRANTS : 0);
}

/* A WRITE_IMM is two requests to an iWARP device. */
static inline int
rf_verbs_max_wr(const RfDevice *device)
{
	return (device->attr.max_qp_wr - rf_verbs_reserve(device)) / (device->iwarp ? 2 : 1);
}

/*
 * NULL: not an mlx5 device, or it cannot be opened this way; open it like any other. (verbs_mlx5.c)
 */
extern struct ibv_context *rf_mlx5_open(struct ibv_device *device);

/* Sets device->max_strided. */
extern void rf_mlx5_probe(RfDevice *device);

/* Replaces ibv_create_qp if the device has strided entries; sets qp->keys, also on failure. */
extern struct ibv_qp *rf_mlx5_create_qp(RfQp *qp, struct ibv_pd *pd,
										const struct ibv_qp_init_attr *init);
extern void rf_mlx5_free_keys(RfVerbsKeys *keys);

/*
 * The entries of a valid request at this position, each strided one through a key of its own; valid
 * until the batch is posted. NULL: too few keys are free.
 */
extern struct ibv_sge *rf_mlx5_entries(RfQp *qp, const RfWr *wr, uint64_t position);

/*
 * Before a batch that starts at position `first`: gives the keys their layouts. Returns false if
 * the device does not accept the batch.
 */
extern bool rf_mlx5_configure(RfQp *qp, uint64_t first);

/*
 * Returns the partition for a queue pair to a peer, as a place in device->partitions; -1 if this
 * port and the peer's port have no partition in common. Both ends choose the same partition.
 */
extern int	rf_verbs_common_partition(const RfDevice *device,
									  const uint16_t peer[MAX_PARTITIONS]);

extern RfDevice *rf_verbs_device_open(const RfProviderConfig *config, RfError *error);
extern void rf_verbs_device_close(RfDevice *device);
extern void rf_verbs_device_caps(RfDevice *device, RfDeviceCaps *caps);
extern int	rf_verbs_device_fd(RfDevice *device);
extern RfDeviceEvent rf_verbs_device_event(RfDevice *device, char *text, size_t size);
extern RfDomain *rf_verbs_domain_create(RfDevice *device, RfError *error);
extern void rf_verbs_domain_destroy(RfDomain *domain);
extern bool rf_verbs_domain_quiet(RfDomain *domain);
extern RfRegion *rf_verbs_region_register(RfDomain *domain, void *addr, size_t length, int fd,
										  RfError *error);
extern RfRegion *rf_verbs_source_register(RfDomain *domain, void *addr, size_t length,
										  RfError *error);
extern void rf_verbs_region_deregister(RfDomain *domain, RfRegion *region);

#endif
