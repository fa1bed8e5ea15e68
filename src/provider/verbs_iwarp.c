/*
 * verbs_iwarp.c - what differs on an iWARP device: RDMA over TCP.
 *
 * Connections. A queue pair cannot be connected by exchanged numbers: the device opens a TCP
 * connection, through the connection manager (librdmacm). The blob is the address of a listener of
 * the completion queue, a random number that a request for this queue pair must carry, and how
 * many SENDs it has receives for. The end with the greater number connects, the other accepts.
 * Events of the connection manager make the descriptor of the completion queue readable, and are
 * processed when it is polled, so that nobody waits in qp_connect. Requests posted meanwhile are
 * held.
 *
 * Immediates. There is no WRITE with immediate: a WRITE and a SEND of eight bytes take its place,
 * in one chain. The peer's device completes the SEND after the WRITE has landed.
 *
 * Receives. A SEND that finds no receive ends an iWARP connection, so the peer grants them: SENDs
 * without a grant are held. Requests on an unconnected queue pair, and these, keep their order.
 *
 * Completions. A device may send from the memory of an unsignaled request after the completion of
 * a later one (siw does), so all are signaled, and completions nobody asked for are dropped.
 *
 * Inline. What is short goes along with its request: siw copies it later, at times by a thread that
 * cannot read the process's memory, and then the connection ends (Linux 6.1).
 *
 * Failing. A device need not complete requests that are posted to a queue pair in the error state,
 * but has let go of all when the change of state returns. So the marker (verbs.c) is imitated, and
 * a request without a completion by then gets one from the ring.
 *
 * The end that accepts sends nothing before the first bytes of the other end are there (RFC 5044,
 * 7.1); so the other one grants nothing as soon as it is connected.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <rdma/rdma_cma.h>

#include "verbs.h"

#define NONCE_SIZE		16
#define RESOLVE_MS		5000	/* the kernel's answer where the peer is */
#define BACKLOG			1024
#define GRANT			UINT32_MAX	/* in place of a length: imm more receives */

/* The blob that two queue pairs exchange. Big-endian on the wire. */
typedef struct Blob
{
	uint32_t	magic;
	uint32_t	port;
	uint32_t	ipv6;
	uint32_t	window;
	uint8_t		address[16];
	uint8_t		nonce[NONCE_SIZE];
} Blob;

_Static_assert(sizeof(Blob) <= RF_QP_BLOB_SIZE, "blob too large");

/* What a SEND carries. Big-endian on the wire. */
typedef struct Note
{
	uint32_t	imm;
	uint32_t	length;
} Note;

/* A request that waits, with its entries behind it. */
typedef struct Held
{
	struct Held *next;
	RfWr		wr;
	RfSge		sge[];
} Held;

struct RfIwarpPort
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	int			epoll;			/* readable when a completion or an event is there */
	int			unready;		/* queue pairs whose connection is not made yet */
};

struct RfIwarpLink
{
	uint8_t		nonce[NONCE_SIZE];
	uint8_t		peer_nonce[NONCE_SIZE];
	struct rdma_cm_id *id;		/* the connection; NULL until this end connects or accepts */
	bool		unready;		/* counted in RfIwarpPort.unready */
	bool		asked;			/* the peer's blob is there */
	bool		connects;		/* this end connects */
	uint32_t	window;			/* SENDs without a grant, at most */
	uint32_t	peer_window;
	uint32_t	credits;		/* SENDs that the peer has receives for */
	uint32_t	batch;			/* receives granted at once */
	uint32_t	used;			/* receives used since the last grant */
	uint32_t	next_receive;	/* place of the next one to post */
	uint32_t	send_mask;		/* places of notes to send, less one */
	Held	   *held;
	Held	  **held_end;
	Note	   *notes;			/* send_mask + 1 notes to send; a note that grants no receive; a
								 * note that grants RECV_BATCH receives; max_recv notes to receive
								 * into */
	struct ibv_mr *mr;
	struct ibv_sge sges[RECV_BATCH];
};

/* ---------- completion queues ---------- */

void
rf_iwarp_port_destroy(RfIwarpPort *port)
{
	if (port == NULL)
		return;
	if (port->listener != NULL)
		rdma_destroy_id(port->listener);
	if (port->channel != NULL)
		rdma_destroy_event_channel(port->channel);
	if (port->epoll >= 0)
		close(port->epoll);
	free(port);
}

static bool
watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* A listener on any free port of the device's address. */
static bool
start_listener(RfIwarpPort *port, RfDevice *device)
{
	for (int tries = 0; tries < 8; tries++)
	{
		struct sockaddr_storage address = device->address;

		if (rdma_create_id(port->channel, &port->listener, NULL, RDMA_PS_TCP) != 0)
			return false;
		if (rdma_bind_addr(port->listener, (struct sockaddr *) &address) == 0 &&
			rdma_listen(port->listener, BACKLOG) == 0)
			return true;

		/* The connection manager may choose a port that a socket has. */
		rdma_destroy_id(port->listener);
		port->listener = NULL;
	}
	return false;
}

RfIwarpPort *
rf_iwarp_port_create(RfCq *cq, RfError *error)
{
	RfIwarpPort *port = calloc(1, sizeof(RfIwarpPort));
	int			flags;

	if (port == NULL)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL,
						"out of memory for a completion queue");
		return NULL;
	}
	port->epoll = epoll_create1(EPOLL_CLOEXEC);
	port->channel = rdma_create_event_channel();
	if (port->epoll < 0 || port->channel == NULL || !watch(port->epoll, cq->channel->fd) ||
		!watch(port->epoll, port->channel->fd) ||
		(flags = fcntl(port->channel->fd, F_GETFL)) < 0 ||
		fcntl(port->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
		!start_listener(port, cq->device))
	{
		(void) rf_error(error, RF_ERROR_CONFIGURATION, strerror(errno), RF_IWARP_HINT,
						"iWARP device \"%s\" does not listen for connections",
						ibv_get_device_name(cq->device->context->device));
		rf_iwarp_port_destroy(port);
		return NULL;
	}
	return port;
}

int
rf_iwarp_port_fd(RfIwarpPort *port)
{
	return port->epoll;
}

/* ---------- notes ---------- */

static Note *
grant_note(RfIwarpLink *link, bool some)
{
	return &link->notes[link->send_mask + 1 + some];
}

static Note *
receive_note(RfIwarpLink *link, uint32_t place)
{
	return &link->notes[link->send_mask + 3 + place];
}

static struct ibv_sge
note_entry(const RfIwarpLink *link, const Note *note)
{
	return (struct ibv_sge) {(uintptr_t) note, sizeof(Note), link->mr->lkey};
}

void
rf_iwarp_prepare_receives(RfQp *qp, uint32_t number)
{
	RfIwarpLink *link = qp->link;

	for (uint32_t i = 0; i < number; i++)
	{
		link->sges[i] = note_entry(link, receive_note(link, link->next_receive));
		qp->recvs[i].wr_id = MAKE_ID(qp->slot, ID_RECV, link->next_receive);
		qp->recvs[i].sg_list = &link->sges[i];
		qp->recvs[i].num_sge = 1;
		link->next_receive = (link->next_receive + 1) % qp->max_recv;
	}
}

void
rf_iwarp_announce(RfQp *qp, const RfWr *wr, uint32_t length, struct ibv_send_wr *send,
				  struct ibv_sge *entry)
{
	RfIwarpLink *link = qp->link;
	Note	   *note = &link->notes[qp->head & link->send_mask];

	*note = (Note)
	{
		htonl(wr->imm), htonl(length)
	};
	*entry = note_entry(link, note);
	memset(send, 0, sizeof(*send));
	send->wr_id = MAKE_ID(qp->slot, wr->signaled ? ID_SEND : ID_SILENT, qp->head);
	send->sg_list = entry;
	send->num_sge = 1;
	send->opcode = IBV_WR_SEND;
	send->send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	link->credits--;
}

/* Grants the peer a batch of receives, or none. */
static void
grant(RfQp *qp, bool some)
{
	struct ibv_sge entry = note_entry(qp->link, grant_note(qp->link, some));
	struct ibv_send_wr send = {
		.wr_id = MAKE_ID(qp->slot, ID_GRANT, 0),
		.sg_list = &entry,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE
	};
	struct ibv_send_wr *bad;

	if (!qp->failed && ibv_post_send(qp->qp, &send, &bad) != 0)
		rf_verbs_fail(qp, RF_WC_FLUSHED);
}

static void
count_ready(RfQp *qp)
{
	pthread_mutex_lock(&qp->cq->lock);
	if (qp->link->unready)
		qp->cq->port->unready--;
	qp->link->unready = false;
	pthread_mutex_unlock(&qp->cq->lock);
}

static void
ready(RfQp *qp)
{
	count_ready(qp);
	qp->connected = true;
	rf_iwarp_release(qp);
}

bool
rf_iwarp_received(RfQp *qp, const struct ibv_wc *wc, RfWc *out)
{
	RfIwarpLink *link = qp->link;
	uint32_t	place = (uint32_t) wc->wr_id;
	Note		note;

	/* An empty SEND is the peer's farewell. */
	if (wc->byte_len != sizeof(Note) || place >= qp->max_recv)
		return false;
	note = *receive_note(link, place);
	note = (Note) {ntohl(note.imm), ntohl(note.length)};
	if (note.length == GRANT)
	{
		if (note.imm > link->peer_window - link->credits)
			return false;
		link->credits += note.imm;
		if (link->unready)
			ready(qp);
		rf_iwarp_release(qp);
		return true;
	}
	if (note.length > RF_MAX_MESSAGE)
		return false;
	out->opcode = RF_WC_RECV_IMM;
	out->imm = note.imm;
	out->byte_len = note.length;
	if (++link->used == link->batch)
	{
		link->used = 0;
		grant(qp, true);
	}
	return true;
}

/* ---------- requests that wait ---------- */

bool
rf_iwarp_admits(const RfQp *qp, const RfWr *chain)
{
	const RfIwarpLink *link = qp->link;
	uint32_t	sends = 0;

	if (qp->failed || !link->asked)
		return true;
	if (!qp->connected || link->held != NULL)
		return false;
	for (; chain != NULL && sends <= link->credits; chain = chain->next)
	{
		sends += chain->opcode == RF_WR_WRITE_IMM;
		for (int i = 0; i < chain->num_sge; i++)
		{
			if (chain->sge[i].length == 0)
				return false;
		}
	}
	return sends <= link->credits;
}

/*
 * Without memory the queue pair fails, and the rest of the chain completes with it. Empty entries
 * are left out: siw of Linux 6.1 crashes the kernel at one.
 */
void
rf_iwarp_hold(RfQp *qp, const RfWr *chain)
{
	RfIwarpLink *link = qp->link;

	for (; chain != NULL; chain = chain->next)
	{
		size_t		entries = (size_t) chain->num_sge * sizeof(RfSge);
		Held	   *held = malloc(sizeof(Held) + entries);

		if (held == NULL)
		{
			pthread_mutex_lock(&qp->cq->lock);
			rf_verbs_fail(qp, RF_WC_LOCAL);
			pthread_mutex_unlock(&qp->cq->lock);
			rf_verbs_post_now(qp, (RfWr *) chain);
			return;
		}
		held->next = NULL;
		held->wr = *chain;
		held->wr.next = NULL;
		/* No iWARP device has strided entries: the request is refused in its turn. */
		held->wr.num_strided = chain->num_strided != 0 ? -1 : 0;
		held->wr.sge = held->sge;
		held->wr.num_sge = 0;
		for (int i = 0; i < chain->num_sge; i++)
		{
			if (chain->sge[i].length > 0)
				held->sge[held->wr.num_sge++] = chain->sge[i];
		}
		*link->held_end = held;
		link->held_end = &held->next;
	}
}

/* In one chain; of a failed queue pair, all. */
void
rf_iwarp_release(RfQp *qp)
{
	RfIwarpLink *link = qp->link;
	Held	   *first = link->held;
	Held	  **end = &link->held;
	Held	   *last = NULL;
	uint32_t	sends = 0;

	if (!qp->connected && !qp->failed)
		return;
	while (*end != NULL &&
		   (qp->failed || (*end)->wr.opcode != RF_WR_WRITE_IMM || sends < link->credits))
	{
		sends += (*end)->wr.opcode == RF_WR_WRITE_IMM;
		if (last != NULL)
			last->wr.next = &(*end)->wr;
		last = *end;
		end = &last->next;
	}
	if (last == NULL)
		return;
	link->held = last->next;
	if (link->held == NULL)
		link->held_end = &link->held;
	last->next = NULL;
	rf_verbs_post_now(qp, &first->wr);
	while (first != NULL)
	{
		Held	   *next = first->next;

		free(first);
		first = next;
	}
}

/* ---------- connections ---------- */

/* The connection could not be made, or ended. */
static void
lost(RfQp *qp)
{
	count_ready(qp);
	if (qp->failed)
		return;
	rf_verbs_fail(qp, RF_WC_FLUSHED);
	rf_verbs_imitate(qp, ID_RECV, IBV_WC_WR_FLUSH_ERR);
}

/* One read or atomic request in flight is the least that devices take for granted. */
static struct rdma_conn_param
parameters(const RfQp *qp)
{
	return (struct rdma_conn_param)
	{
		.responder_resources = 1,
			.initiator_depth = 1,
			.qp_num = qp->qp->qp_num
	};
}

static void
accept_request(RfQp *qp)
{
	struct rdma_conn_param param = parameters(qp);

	if (rdma_accept(qp->link->id, &param) != 0)
		lost(qp);
}

/* A request carries the number of the queue pair that it is for, or is refused. */
static void
request(RfCq *cq, struct rdma_cm_id *id, const uint8_t nonce[NONCE_SIZE])
{
	for (int i = 0; i < MAX_QPS; i++)
	{
		RfQp	   *qp = cq->qps[i];

		if (qp == NULL || qp->failed || qp->link->id != NULL ||
			CRYPTO_memcmp(qp->link->nonce, nonce, NONCE_SIZE) != 0)
			continue;
		id->context = qp;
		qp->link->id = id;
		if (qp->link->asked)
			accept_request(qp);
		return;
	}
	(void) rdma_reject(id, NULL, 0);
	(void) rdma_destroy_id(id);
}

static void
connect_route(RfQp *qp)
{
	struct rdma_conn_param param = parameters(qp);

	param.private_data = qp->link->peer_nonce;
	param.private_data_len = NONCE_SIZE;
	if (rdma_connect(qp->link->id, &param) != 0)
		lost(qp);
}

static void
established(RfQp *qp)
{
	if (!qp->link->connects || qp->failed)
		return;
	grant(qp, false);
	ready(qp);
}

void
rf_iwarp_progress(RfCq *cq, bool all)
{
	struct rdma_cm_event *event;

	while ((all || cq->port->unready > 0) &&
		   rdma_get_cm_event(cq->port->channel, &event) == 0)
	{
		enum rdma_cm_event_type type = event->event;
		struct rdma_cm_id *id = event->id;
		uint8_t		nonce[NONCE_SIZE] = {0};

		if (type == RDMA_CM_EVENT_CONNECT_REQUEST &&
			event->param.conn.private_data_len >= NONCE_SIZE)
			memcpy(nonce, event->param.conn.private_data, NONCE_SIZE);

		/* At once: an object is destroyed only when its events are acknowledged. */
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
			request(cq, id, nonce);
		else if (id->context == NULL)
			continue;
		else if (type == RDMA_CM_EVENT_ADDR_RESOLVED)
		{
			if (rdma_resolve_route(id, RESOLVE_MS) != 0)
				lost(id->context);
		}
		else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED)
			connect_route(id->context);
		else if (type == RDMA_CM_EVENT_ESTABLISHED)
			established(id->context);
		else if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			lost(id->context);
	}
}

/* ---------- queue pairs ---------- */

bool
rf_iwarp_link_create(RfQp *qp, RfError *error)
{
	RfIwarpLink *link = calloc(1, sizeof(RfIwarpLink));
	size_t		notes = (size_t) qp->ring_size + 2 + qp->max_recv;

	qp->link = link;
	if (link == NULL || (link->notes = calloc(notes, sizeof(Note))) == NULL ||
		getrandom(link->nonce, NONCE_SIZE, 0) != NONCE_SIZE)
		return rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a queue pair");
	link->held_end = &link->held;
	pthread_mutex_lock(&qp->cq->lock);
	link->unready = true;
	qp->cq->port->unready++;
	pthread_mutex_unlock(&qp->cq->lock);
	link->send_mask = qp->ring_size - 1;
	link->window = qp->max_recv - (RECV_BATCH - 1) - RF_IWARP_GRANTS - 1;
	link->batch = link->window / 32 > 0 ? link->window / 32 : 1;
	*grant_note(link, false) = (Note)
	{
		0, htonl(GRANT)
	};
	*grant_note(link, true) = (Note)
	{
		htonl(link->batch), htonl(GRANT)
	};
	link->mr = ibv_reg_mr(qp->domain->pd, link->notes, notes * sizeof(Note),
						  IBV_ACCESS_LOCAL_WRITE);
	if (link->mr == NULL)
		return rf_error(error, RF_ERROR_RESOURCES, strerror(errno),
						"Check the memlock limit of the server (ulimit -l).",
						"the RDMA device cannot register the notes of a queue pair");
	return true;
}

/* The connection goes before the queue pair that it has, the notes after it. */
void
rf_iwarp_link_destroy(RfQp *qp)
{
	RfIwarpLink *link = qp->link;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (link == NULL)
		return;
	count_ready(qp);
	if (link->id != NULL)
	{
		(void) ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
		(void) rdma_destroy_id(link->id);
	}
	if (qp->qp != NULL)
		ibv_destroy_qp(qp->qp);
	qp->qp = NULL;
	while (link->held != NULL)
	{
		Held	   *next = link->held->next;

		free(link->held);
		link->held = next;
	}
	if (link->mr != NULL)
		ibv_dereg_mr(link->mr);
	free(link->notes);
	free(link);
	qp->link = NULL;
}

void
rf_iwarp_local(RfQp *qp, uint8_t bytes[RF_QP_BLOB_SIZE])
{
	const struct sockaddr_storage *address = &qp->domain->device->address;
	Blob		blob = {
		.magic = htonl(RF_BLOB_IWARP),
		.port = htonl(ntohs(rdma_get_src_port(qp->cq->port->listener))),
		.ipv6 = htonl(address->ss_family == AF_INET6),
		.window = htonl(qp->link->window)
	};

	if (address->ss_family == AF_INET6)
		memcpy(blob.address, &((const struct sockaddr_in6 *) address)->sin6_addr, 16);
	else
		memcpy(blob.address, &((const struct sockaddr_in *) address)->sin_addr, 4);
	memcpy(blob.nonce, qp->link->nonce, NONCE_SIZE);
	memset(bytes, 0, RF_QP_BLOB_SIZE);
	memcpy(bytes, &blob, sizeof(blob));
}

/* The address in a blob, with its port. */
static struct sockaddr_storage
peer_address(const Blob *blob)
{
	struct sockaddr_storage address = {0};

	if (ntohl(blob->ipv6) != 0)
	{
		struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *) &address;

		ipv6->sin6_family = AF_INET6;
		ipv6->sin6_port = htons((uint16_t) ntohl(blob->port));
		memcpy(&ipv6->sin6_addr, blob->address, 16);
	}
	else
	{
		struct sockaddr_in *ipv4 = (struct sockaddr_in *) &address;

		ipv4->sin_family = AF_INET;
		ipv4->sin_port = htons((uint16_t) ntohl(blob->port));
		memcpy(&ipv4->sin_addr, blob->address, 4);
	}
	return address;
}

bool
rf_iwarp_connect(RfQp *qp, const uint8_t bytes[RF_QP_BLOB_SIZE], RfError *error)
{
	RfDevice   *device = qp->domain->device;
	RfIwarpLink *link = qp->link;
	struct sockaddr_storage own = device->address;
	struct sockaddr_storage peer;
	Blob		blob;
	int			order;

	if (!rf_verbs_same_kind(bytes, RF_BLOB_IWARP, error))
		return false;
	memcpy(&blob, bytes, sizeof(blob));
	order = memcmp(link->nonce, blob.nonce, NONCE_SIZE);
	if (ntohl(blob.port) == 0 || ntohl(blob.port) > UINT16_MAX ||
		ntohl(blob.ipv6) > 1 || ntohl(blob.window) == 0 || order == 0)
		return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
						"the peer's description of its iWARP queue pair is not valid");
	memcpy(link->peer_nonce, blob.nonce, NONCE_SIZE);
	link->peer_window = link->credits = ntohl(blob.window);
	link->connects = order > 0;
	link->asked = true;
	if (!link->connects)
	{
		if (link->id != NULL)
			accept_request(qp);
		return true;
	}
	peer = peer_address(&blob);
	if (link->id == NULL &&
		(rdma_create_id(qp->cq->port->channel, &link->id, qp, RDMA_PS_TCP) != 0 ||
		 rdma_resolve_addr(link->id, (struct sockaddr *) &own, (struct sockaddr *) &peer,
						   RESOLVE_MS) != 0))
		return rf_error(error, RF_ERROR_CONNECTION, strerror(errno),
						"Both nodes must reach each other through their RDMA devices: check "
						"rdma_fdw.device on both.",
						"an iWARP queue pair cannot be connected to the peer");
	return true;
}
