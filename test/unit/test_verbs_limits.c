/*
 * test_verbs_limits.c - the verbs provider on devices that this machine does not have. The file has
 * its own libibverbs: partitions of a port, completion queues that are small or cannot be enlarged,
 * events of a device. No data moves.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "rdma_fdw/provider.h"

#define PEERS		256			/* that an engine may have */
#define KEYS		4			/* of a port's table */

static int	failures;

static void
check(bool good, const char *name)
{
	printf("%s - %s\n", good ? "ok" : "not ok", name);
	failures += !good;
}

/* ---------- the device ---------- */

static struct
{
	int			max_cqe;
	bool		resizes;
	uint16_t	keys[KEYS];		/* partitions */
	uint8_t		gid;			/* last byte */
	enum ibv_port_state state;
	enum ibv_event_type events[4];
	int			event_count;
	int			acknowledged;

	/* What was asked of it. */
	int			queues;
	int			entries;		/* of the largest queue */
	uint16_t	init_index;
	int			rtr_index;		/* -1: not named */
}			fake;

static struct ibv_device device = {.name = "fake_0",.transport_type = IBV_TRANSPORT_IB};

struct ibv_device **(ibv_get_device_list) (int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	*count = 1;
	return list;
}

void
ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *
ibv_get_device_name(struct ibv_device *one)
{
	return one->name;
}

static int
poll_nothing(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	return 0;
}

static int
take_receives(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return 0;
}

static int
take_sends(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return 0;
}

struct ibv_context *
ibv_open_device(struct ibv_device *one)
{
	struct ibv_context *context = calloc(1, sizeof(*context));

	context->device = one;
	context->async_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	context->ops.poll_cq = poll_nothing;
	context->ops.post_recv = take_receives;
	context->ops.post_send = take_sends;
	return context;
}

int
ibv_close_device(struct ibv_context *context)
{
	close(context->async_fd);
	free(context);
	return 0;
}

int
ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr)
	{
		.max_qp_wr = 16384, .max_sge = 30, .max_cqe = fake.max_cqe, .max_pd = 1000, .max_qp = 1000,
			.phys_port_cnt = 1, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
			.atomic_cap = IBV_ATOMIC_HCA
	};
	return 0;
}

int
			(ibv_query_port) (struct ibv_context *context, uint8_t port,
							  struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *) out;

	attr->state = fake.state;
	attr->active_mtu = IBV_MTU_4096;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	attr->lid = 7;
	attr->max_msg_sz = 1u << 30;
	attr->pkey_tbl_len = KEYS;
	return 0;
}

int
ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 * key)
{
	*key = htons(fake.keys[index]);
	return 0;
}

ssize_t
_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t count,
					 uint32_t flags, size_t size)
{
	entries[0] = (struct ibv_gid_entry) {.port_num = 1,.gid_type = IBV_GID_TYPE_IB};
	entries[0].gid.raw[0] = 0xfe;
	entries[0].gid.raw[1] = 0x80;
	entries[0].gid.raw[15] = fake.gid;
	return 1;
}

struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = context;
	return pd;
}

int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	channel->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return channel;
}

int
ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

static void
note_entries(struct ibv_cq *cq, int entries)
{
	cq->cqe = entries;
	if (entries > fake.entries)
		fake.entries = entries;
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
			  struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq;

	if (entries > fake.max_cqe)
	{
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	cq->context = context;
	note_entries(cq, entries);
	fake.queues++;
	return cq;
}

int
ibv_resize_cq(struct ibv_cq *cq, int entries)
{
	if (!fake.resizes)
		return EOPNOTSUPP;
	if (entries > fake.max_cqe)
		return EINVAL;
	note_entries(cq, entries);
	return 0;
}

int
ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->qp_num = 1;
	return qp;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (attr->qp_state == IBV_QPS_INIT)
		fake.init_index = attr->pkey_index;
	if (attr->qp_state == IBV_QPS_RTR)
		fake.rtr_index = mask & IBV_QP_PKEY_INDEX ? attr->pkey_index : -1;
	return 0;
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

int
ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (fake.event_count == 0)
		return -1;
	event->event_type = fake.events[--fake.event_count];
	event->element.port_num = 1;
	return 0;
}

void
ibv_ack_async_event(struct ibv_async_event *event)
{
	fake.acknowledged++;
}

/* ---------- devices and queue pairs ---------- */

static const RfQpConfig size = {.max_wr = 512,.max_recv = 1024};

/* A device that can do everything, with the default partition. */
static void
reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.max_cqe = 4 << 20;
	fake.resizes = true;
	fake.keys[0] = 0xffff;
	fake.gid = 1;
	fake.state = IBV_PORT_ACTIVE;
}

static RfDevice *
open_device(const char *wanted, RfError *error)
{
	RfProviderConfig config = {.device = wanted, .gid_index = -1, .lanes = 1,
	.max_wr = size.max_wr, .max_recv = size.max_recv};

	memset(error, 0, sizeof(*error));
	return rf_provider_verbs.device_open(&config, error);
}

/* How many peers a lane gets queue pairs to, and how many the device says it has room for. */
static int
count_peers(int *said, RfError *error)
{
	RfDevice   *opened = open_device(NULL, error);
	RfCq	   *cq = rf_provider_verbs.cq_create(opened, 8192, error);
	RfDomain   *domain = rf_provider_verbs.domain_create(opened, error);
	RfQp	   *qps[PEERS];
	RfDeviceCaps caps;
	int			count = 0;

	rf_provider_verbs.device_caps(opened, &caps);
	*said = caps.max_peers;
	while (count < PEERS &&
		   (qps[count] = rf_provider_verbs.qp_create(domain, cq, &size, error)) != NULL)
		count++;
	for (int i = 0; i < count; i++)
		rf_provider_verbs.qp_destroy(qps[i]);
	rf_provider_verbs.domain_destroy(domain);
	rf_provider_verbs.cq_destroy(cq);
	rf_provider_verbs.device_close(opened);
	return count;
}

static void
test_queues(void)
{
	RfError		error;
	int			said;

	reset();
	fake.resizes = false;
	check(count_peers(&said, &error) == PEERS && said >= PEERS && fake.queues <= 8,
		  "a device that cannot enlarge completion queues has room for all peers");
	reset();
	fake.max_cqe = 32767;
	check(count_peers(&said, &error) == PEERS && said >= PEERS && fake.entries <= 32767,
		  "a device with queues of 32,767 entries (soft-RoCE) has room for all peers");
	reset();
	check(count_peers(&said, &error) == PEERS && said >= PEERS && fake.queues == 1,
		  "a device that enlarges queues needs one");
	reset();
	fake.max_cqe = 8191;
	check(count_peers(&said, &error) >= said && said == 75 && error.kind == RF_ERROR_RESOURCES &&
		  strstr(error.hint, "rdma.check") != NULL,
		  "a device with queues of 8,191 entries says how many peers it has room for");
}

/*
 * Connects a queue pair of a device with `own` partitions to one of a device with `other`; the
 * partition's index, or -1.
 */
static int
connect_partitions(const char *wanted, const uint16_t own[KEYS], const uint16_t other[KEYS],
				   RfError *error)
{
	uint8_t		blobs[2][RF_QP_BLOB_SIZE] = {0};
	int			index = -1;

	for (int side = 0; side < 2; side++)
	{
		RfDevice   *opened;
		RfCq	   *cq;
		RfDomain   *domain;
		RfQp	   *qp;

		/* First the peer, for its blob. */
		memcpy(fake.keys, side == 0 ? other : own, sizeof(fake.keys));
		opened = open_device(side == 0 ? NULL : wanted, error);
		if (opened == NULL)
			return -1;
		cq = rf_provider_verbs.cq_create(opened, 8192, error);
		domain = rf_provider_verbs.domain_create(opened, error);
		qp = rf_provider_verbs.qp_create(domain, cq, &size, error);
		rf_provider_verbs.qp_local(qp, blobs[side]);
		if (side == 1 && rf_provider_verbs.qp_connect(qp, blobs[0], -1, NULL, error))
			index = fake.rtr_index >= 0 ? fake.rtr_index : fake.init_index;
		rf_provider_verbs.qp_destroy(qp);
		rf_provider_verbs.domain_destroy(domain);
		rf_provider_verbs.cq_destroy(cq);
		rf_provider_verbs.device_close(opened);
	}
	return index;
}

static void
test_partitions(void)
{
	static const struct
	{
		const char *name;
		const char *wanted;
		uint16_t	own[KEYS];
		uint16_t	other[KEYS];
		int			index;
	}			cases[] = {
		{"both are in the default partition", NULL, {0xffff}, {0xffff}, 0},
		{"the default partition is in another place of the table", NULL,
		{0x8001, 0, 0xffff}, {0xffff}, 2},
		{"it comes before others", NULL, {0x8001, 0xffff}, {0x8001, 0xffff}, 1},
		{"not if both are limited members of it", NULL, {0x7fff, 0x8001}, {0x7fff, 0x0001}, 1},
		{"a limited member reaches a full one", NULL, {0x0002}, {0x8002}, 0},
		{"a port in both ways goes as a full member", NULL, {0x7fff, 0xffff}, {0x7fff, 0xffff}, 1},
		{"the greatest number", NULL, {0x8001, 0x8003, 0x8002}, {0x8003, 0x8002, 0x8001}, 1},
		{"the one that is named", "fake_0:1:0x1", {0xffff, 0x8001}, {0x8001, 0xffff}, 1},
		{"limited members do not reach each other", NULL, {0x7fff}, {0x7fff}, -1},
		{"no partition in common", NULL, {0x8001}, {0x8002}, -1},
		{"the port is not in the one that is named", "fake_0:1:0x8005", {0xffff}, {0xffff}, -1}
	};
	RfError		error;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char		name[128];
		int			index;

		reset();
		index = connect_partitions(cases[i].wanted, cases[i].own, cases[i].other, &error);
		snprintf(name, sizeof(name), "partitions: %s", cases[i].name);
		check(index == cases[i].index &&
			  (index >= 0 || (error.kind == RF_ERROR_CONFIGURATION &&
							  strstr(error.hint, "rdma_fdw.device") != NULL)), name);
	}
}

/* The device's next event, as text; NULL: another kind. */
static const char *
next_event(RfDevice *opened, enum ibv_event_type type, RfDeviceEvent kind)
{
	static char text[256];

	fake.events[fake.event_count++] = type;
	return rf_provider_verbs.device_event(opened, text, sizeof(text)) == kind ? text : NULL;
}

static bool
tells(RfDevice *opened, enum ibv_event_type type, RfDeviceEvent kind, const char *what)
{
	const char *text = next_event(opened, type, kind);

	return text != NULL && (what == NULL || strstr(text, what) != NULL);
}

static void
test_events(void)
{
	RfError		error;
	RfDevice   *opened;
	RfDeviceCaps caps;
	bool		good;

	reset();
	opened = open_device(NULL, &error);
	fake.state = IBV_PORT_DOWN;
	good = tells(opened, IBV_EVENT_PORT_ERR, RF_DEVICE_CHANGED, "is down");
	rf_provider_verbs.device_caps(opened, &caps);
	check(good && strcmp(caps.port_state, "down") == 0, "events: the port is down");
	fake.state = IBV_PORT_ACTIVE;
	good = tells(opened, IBV_EVENT_PORT_ACTIVE, RF_DEVICE_CHANGED, "is active");
	rf_provider_verbs.device_caps(opened, &caps);
	check(good && strcmp(caps.port_state, "active") == 0, "events: the port is active");

	fake.gid = 2;
	good = tells(opened, IBV_EVENT_GID_CHANGE, RF_DEVICE_CHANGED, "fe80::2 in place of fe80::1");
	rf_provider_verbs.device_caps(opened, &caps);
	check(good && strcmp(caps.gid, "fe80::2") == 0, "events: another GID is taken at once");

	fake.keys[0] = 0x7fff;
	fake.keys[1] = 0x0004;
	good = tells(opened, IBV_EVENT_PKEY_CHANGE, RF_DEVICE_CHANGED, "partition keys");
	rf_provider_verbs.device_caps(opened, &caps);
	check(good && strcmp(caps.partitions, "0x7fff, 0x0004") == 0 && caps.limited_member,
		  "events: other partition keys are taken at once");

	check(tells(opened, IBV_EVENT_COMM_EST, RF_DEVICE_QUIET, NULL),
		  "events: what concerns a queue pair is acknowledged and not told");
	check(tells(opened, IBV_EVENT_DEVICE_FATAL, RF_DEVICE_DEAD, "failed"),
		  "events: the device failed");
	check(fake.acknowledged == 6 && fake.event_count == 0, "events: all are acknowledged");
	rf_provider_verbs.device_close(opened);
}

int
main(void)
{
	test_queues();
	test_partitions();
	test_events();
	return failures ? 1 : 0;
}
