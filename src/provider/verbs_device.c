/*
 * verbs_device.c - the verbs provider's device: its choice, its address, and the limit of locked
 * memory.
 *
 * Does: choice of device, port and GID; the check of the memlock limit; protection domains and
 * memory regions. Does not: move data (verbs.c).
 *
 * Nothing is opened before device_open, which only the engine calls: a device must not be inherited
 * by forked processes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rdma/rdma_cma.h>

#include "verbs.h"

#define MAX_GIDS		1024
#define IWARP_SCORE		3		/* among those of addresses: below RoCE v2, above RoCE v1 */

#define SOFT_HINT		"Or set rdma_fdw.provider to soft, which needs no device."

typedef struct Region
{
	RfRegion	region;			/* first: the caller's pointer */
	struct ibv_mr *mr;
} Region;

/* ---------- locked memory ---------- */

/* Returns true if this process may lock memory beyond its limit (CAP_IPC_LOCK). */
static bool
may_lock_any(void)
{
	FILE	   *status = fopen("/proc/self/status", "re");
	char		line[256];
	unsigned long long caps = 0;

	if (status == NULL)
		return false;
	while (fgets(line, sizeof(line), status) != NULL)
	{
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	}
	fclose(status);
	return (caps & (1ULL << 14)) != 0;
}

static bool
memlock_error(RfError *error, size_t wanted, rlim_t limit)
{
	char		detail[192];

	snprintf(detail, sizeof(detail),
			 "The server may lock %llu kB (ulimit -l); the buffers need up to %llu kB, and queues "
			 "some more.",
			 (unsigned long long) limit / 1024, (unsigned long long) wanted / 1024);
	return rf_error(error, RF_ERROR_RESOURCES, detail,
					"Start the server with a higher limit: LimitMEMLOCK=infinity in its systemd "
					"unit, or memlock in "
					"/etc/security/limits.conf. Or lower rdma_fdw.buffer_memory.",
					"the memlock limit is too small for RDMA buffers");
}

/*
 * Fails now, with a reason, rather than at the first registration. The soft limit is raised as far
 * as the hard one allows. Queues are locked as well; they are small compared with the slack of one
 * eighth.
 */
static bool
check_memlock(size_t wanted, RfError *error)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || may_lock_any())
		return true;
	if (limit.rlim_cur < limit.rlim_max)
	{
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
			(void) getrlimit(RLIMIT_MEMLOCK, &limit);
	}
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted + wanted / 8)
		return memlock_error(error, wanted, limit.rlim_cur);
	return true;
}

/* ---------- addresses ---------- */

static bool
is_ipv4_mapped(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

/*
 * Higher is better; 0 = not usable. RoCE v1 cannot be routed, link-local addresses need both ends
 * on one link.
 */
static int
gid_score(const struct ibv_gid_entry *entry)
{
	static const union ibv_gid none;

	if (memcmp(&entry->gid, &none, sizeof(none)) == 0)
		return 0;
	switch (entry->gid_type)
	{
		case IBV_GID_TYPE_ROCE_V2:
			if (is_ipv4_mapped(&entry->gid))
				/* 169.254.0.0/16 is a link-local address, too */
				return entry->gid.raw[12] == 169 && entry->gid.raw[13] == 254 ? 3 : 6;
			return entry->gid.raw[0] == 0xfe && (entry->gid.raw[1] & 0xc0) == 0x80 ? 4 : 5;
		case IBV_GID_TYPE_IB:
			return 5;
		case IBV_GID_TYPE_ROCE_V1:
			return is_ipv4_mapped(&entry->gid) ? 2 : 1;
	}
	return 0;
}

static const char *
gid_type_text(uint32_t type)
{
	switch (type)
	{
		case IBV_GID_TYPE_ROCE_V2:
			return "RoCEv2";
		case IBV_GID_TYPE_ROCE_V1:
			return "RoCEv1";
		case IBV_GID_TYPE_IB:
			return "IB";
	}
	return "";
}

static const char *
port_state_text(enum ibv_port_state state)
{
	switch (state)
	{
		case IBV_PORT_DOWN:
			return "down";
		case IBV_PORT_INIT:
			return "init";
		case IBV_PORT_ARMED:
			return "armed";
		case IBV_PORT_ACTIVE:
			return "active";
		case IBV_PORT_ACTIVE_DEFER:
			return "active defer";
		default:
			return "unknown";
	}
}

static int
mtu_bytes(enum ibv_mtu mtu)
{
	return 128 << mtu;
}

/*
 * Returns true if the connection manager would use this device for connections from the address.
 */
static bool
leads_to(struct rdma_event_channel *channel, const char *name, struct sockaddr *address)
{
	struct rdma_cm_id *id;
	bool		same;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
		return false;
	same = rdma_bind_addr(id, address) == 0 && id->verbs != NULL &&
		strcmp(ibv_get_device_name(id->verbs->device), name) == 0;
	rdma_destroy_id(id);
	return same;
}

/* Finds the device's IP address: an IPv4 address if it has one, never a link-local one. */
static bool
find_address(RfDevice *device, RfError *error)
{
	const char *name = ibv_get_device_name(device->context->device);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ifaddrs *all = NULL;
	const void *found = NULL;

	if (channel == NULL)
		return rf_error(error, RF_ERROR_CONFIGURATION, strerror(errno), RF_IWARP_HINT,
						"no RDMA connection manager for iWARP device \"%s\"", name);
	(void) getifaddrs(&all);
	for (int family = AF_INET; found == NULL; family = AF_INET6)
	{
		for (struct ifaddrs *one = all; one != NULL && found == NULL; one = one->ifa_next)
		{
			const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *) one->ifa_addr;

			if (one->ifa_addr == NULL || one->ifa_addr->sa_family != family ||
				(family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr)) ||
				!leads_to(channel, name, one->ifa_addr))
				continue;
			memcpy(&device->address, one->ifa_addr, family == AF_INET ?
				   sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
			found = family == AF_INET ?
				(void *) &((struct sockaddr_in *) &device->address)->sin_addr :
				(void *) &((struct sockaddr_in6 *) &device->address)->sin6_addr;
			(void) inet_ntop(family, found, device->gid_text, sizeof(device->gid_text));
		}
		if (family == AF_INET6)
			break;
	}
	freeifaddrs(all);
	rdma_destroy_event_channel(channel);
	if (found == NULL)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Give the network interface of the device an IP address. "
						"Or set rdma_fdw.provider to soft, which needs no device.",
						"iWARP device \"%s\" has no IP address", name);
	return true;
}

/* ---------- partitions ---------- */

static bool
same_partition(int one, int other)
{
	return (one & ~FULL_MEMBER) == (other & ~FULL_MEMBER);
}

/*
 * Takes the keys of the port's partitions from its table: all, or the wanted one. False: it is not
 * there.
 */
static bool
read_partitions(RfDevice *device, RfError *error)
{
	int			count = 0;

	memset(device->partitions, 0, sizeof(device->partitions));
	for (int i = 0; i < device->port_attr.pkey_tbl_len && count < MAX_PARTITIONS; i++)
	{
		__be16		key;

		if (ibv_query_pkey(device->context, device->port, i, &key) != 0 ||
			same_partition(ntohs(key), 0) ||
			(device->wanted_partition != 0 &&
			 !same_partition(ntohs(key), device->wanted_partition)))
			continue;
		device->partitions[count] = ntohs(key);
		device->partition_index[count++] = (uint16_t) i;
	}
	if (count == 0 && device->wanted_partition == 0)
	{
		device->partitions[0] = DEFAULT_PARTITION;
		device->partition_index[0] = 0;
	}
	return device->partitions[0] != 0 ||
		rf_error(error, RF_ERROR_CONFIGURATION, NULL,
				 "Let the subnet manager put the port into the partition, or name no partition in "
				 "rdma_fdw.device.",
				 "port %d of RDMA device \"%s\" is not in partition 0x%04x", device->port,
				 ibv_get_device_name(device->context->device), device->wanted_partition);
}

/*
 * Of the partitions that both ends are in, the partition with the highest rank is used. A higher
 * number ranks higher; the default partition has the highest number. Of two keys with one number,
 * the key of a full member ranks higher.
 */
static int
partition_rank(uint16_t key)
{
	return (key & ~FULL_MEMBER) << 1 | (key & FULL_MEMBER) >> 15;
}

int
rf_verbs_common_partition(const RfDevice *device, const uint16_t peer[MAX_PARTITIONS])
{
	int			best = -1;

	for (int i = 0; i < MAX_PARTITIONS && device->partitions[i] != 0; i++)
	{
		uint16_t	own = device->partitions[i];

		for (int k = 0; k < MAX_PARTITIONS; k++)
		{
			if (same_partition(own, peer[k]) && ((own | peer[k]) & FULL_MEMBER) != 0 &&
				(best < 0 || partition_rank(own) > partition_rank(device->partitions[best])))
				best = i;
		}
	}
	return best;
}

/*
 * Examines one port: sets the device's port, address and MTU and returns the address' score, or 0
 * with the reason in error. Settings that override the choice are only checked.
 */
static int
look_at_port(RfDevice *device, struct ibv_gid_entry *gids, int port, const RfProviderConfig *config,
			 RfError *error)
{
	const char *name = ibv_get_device_name(device->context->device);
	struct ibv_port_attr attr;
	const struct ibv_gid_entry *best = NULL;
	ssize_t		count;
	int			best_score = 0;

	if (ibv_query_port(device->context, (uint8_t) port, &attr) != 0)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Check rdma_fdw.device.",
						"port %d of RDMA device \"%s\" cannot be queried: %s", port, name,
						strerror(errno));
	if (attr.state != IBV_PORT_ACTIVE)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Bring the network interface of the device up and check its cable. "
						SOFT_HINT,
						"port %d of RDMA device \"%s\" is not active but %s", port, name,
						port_state_text(attr.state));

	device->port = (uint8_t) port;
	device->port_attr = attr;
	device->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	if (device->iwarp)
	{
		device->gid_type = "iWARP";
		return find_address(device, error) ? IWARP_SCORE : 0;
	}
	if (!read_partitions(device, error))
		return 0;
	count = ibv_query_gid_table(device->context, gids, MAX_GIDS, 0);
	for (ssize_t i = 0; i < count; i++)
	{
		int			score = gid_score(&gids[i]);

		if (gids[i].port_num != (uint32_t) port)
			continue;
		if (config->gid_index >= 0 && gids[i].gid_index != (uint32_t) config->gid_index)
			continue;
		if (score > best_score)
		{
			best_score = score;
			best = &gids[i];
		}
	}
	if (best == NULL && config->gid_index >= 0)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Set rdma_fdw.gid_index to -1 to choose by score.",
						"port %d of RDMA device \"%s\" has no GID %d", port, name,
						config->gid_index);
	if (best == NULL)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Give the network interface of the device an IP address. " SOFT_HINT,
						"port %d of RDMA device \"%s\" has no GID", port, name);

	device->gid_index = (int) best->gid_index;
	device->gid = best->gid;
	device->gid_type = gid_type_text(best->gid_type);
	if (inet_ntop(AF_INET6, best->gid.raw, device->gid_text, sizeof(device->gid_text)) == NULL)
		device->gid_text[0] = '\0';
	return best_score;
}

/*
 * The port of this device that `wanted` asks for, NAME or NAME:PORT as other RDMA programs have it,
 * or NAME:PORT:0xPARTITION: 0 for its first active port, -1 if another device is wanted. The number
 * of the partition is 0 for all.
 */
static int
wanted_port(const char *wanted, const char *name, int *partition)
{
	size_t		length = strlen(name);
	size_t		digits;
	int			port = 0;
	int			end = 0;

	*partition = 0;
	if (wanted == NULL || wanted[0] == '\0')
		return 0;
	if (strncmp(wanted, name, length) != 0)
		return -1;
	wanted += length;
	if (wanted[0] == '\0')
		return 0;
	(void) sscanf(wanted, ":%3d%n", &port, &end);
	wanted += end;
	if (strncmp(wanted, ":0x", 3) == 0)
	{
		wanted += 3;
		digits = strspn(wanted, "0123456789abcdefABCDEF");
		if (digits < 1 || digits > 4)
			return -1;
		*partition = (int) strtol(wanted, NULL, 16);
		if (same_partition(*partition, 0))
			return -1;
		wanted += digits;
	}
	return port > 0 && port <= UINT8_MAX && wanted[0] == '\0' ? port : -1;
}

/* Opens one device and chooses its port, if not given. NULL with the reason in error. */
static RfDevice *
open_candidate(struct ibv_device *candidate, int port, int partition,
			   const RfProviderConfig *config, int *score, RfError *error)
{
	const char *name = ibv_get_device_name(candidate);
	RfDevice   *device = calloc(1, sizeof(RfDevice));
	struct ibv_gid_entry *gids = calloc(MAX_GIDS, sizeof(struct ibv_gid_entry));

	*score = 0;
	if (device == NULL || gids == NULL)
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL,
						"out of memory for RDMA device \"%s\"", name);
	else if (candidate->transport_type != IBV_TRANSPORT_IB &&
			 candidate->transport_type != IBV_TRANSPORT_IWARP)
		(void) rf_error(error, RF_ERROR_CONFIGURATION, NULL, SOFT_HINT,
						"RDMA device \"%s\" is neither RoCE nor InfiniBand nor iWARP", name);
	else if ((device->context = rf_mlx5_open(candidate)) == NULL &&
			 (device->context = ibv_open_device(candidate)) == NULL)
		(void) rf_error(error, RF_ERROR_CONFIGURATION, strerror(errno),
						"Check that the server's user may open /dev/infiniband/uverbs*. " SOFT_HINT,
						"RDMA device \"%s\" cannot be opened", name);
	else if (ibv_query_device(device->context, &device->attr) != 0)
		(void) rf_error(error, RF_ERROR_CONFIGURATION, strerror(errno), NULL,
						"RDMA device \"%s\" cannot be queried", name);
	else
	{
		int			last = port > 0 ? port : device->attr.phys_port_cnt;

		device->iwarp = candidate->transport_type == IBV_TRANSPORT_IWARP;
		device->wanted_partition = partition;
		for (int i = port > 0 ? port : 1; i <= last && *score == 0; i++)
			*score = look_at_port(device, gids, i, config, error);
	}
	free(gids);
	if (*score == 0)
	{
		rf_verbs_device_close(device);
		return NULL;
	}
	return device;
}

static RfDevice *
choose_device(const RfProviderConfig *config, RfError *error)
{
	bool		named = config->device != NULL && config->device[0] != '\0';
	int			count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	RfDevice   *best = NULL;
	int			best_score = 0;
	bool		found = false;
	char		names[192] = "";

	for (int i = 0; list != NULL && i < count; i++)
	{
		RfDevice   *device;
		int			partition;
		int			port = wanted_port(config->device, ibv_get_device_name(list[i]), &partition);
		int			score;
		size_t		used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", used == 0 ? "Devices found: " : ", ",
				 ibv_get_device_name(list[i]));
		if (port < 0)
			continue;
		found = true;
		device = open_candidate(list[i], port, partition, config, &score, error);
		if (device != NULL && score > best_score)
		{
			if (best != NULL)
				rf_verbs_device_close(best);
			best = device;
			best_score = score;
		}
		else if (device != NULL)
			rf_verbs_device_close(device);
	}
	if (list != NULL)
		ibv_free_device_list(list);

	/* If no device is usable, the last one's reason stays in error. */
	if (!found && named)
		(void) rf_error(error, RF_ERROR_CONFIGURATION,
						names[0] ? names : "This machine has no RDMA device.",
						"Check rdma_fdw.device; \"rdma link\" lists the devices.",
						"there is no RDMA device \"%s\"", config->device);
	else if (!found)
		(void) rf_error(
						error, RF_ERROR_CONFIGURATION, NULL,
						"Load the adapter's driver and ib_uverbs; \"rdma link\" lists the "
						"devices. " SOFT_HINT,
						"this machine has no RDMA device");
	return best;
}

/*
 * The peers that there is room for at least: each lane has a queue pair to each peer, in a
 * protection domain of the peer's own. The first completion queue of a lane may stay small.
 */
static int
room_for_peers(const RfDevice *device, const RfProviderConfig *config)
{
	int			entries = config->max_wr * (device->iwarp ? 2 : 1) + config->max_recv +
		RECV_BATCH + rf_verbs_reserve(device);
	int			peers = (MAX_QUEUES - 1) * (device->attr.max_cqe / entries);

	if (config->lanes > 0 && device->attr.max_qp / config->lanes < peers)
		peers = device->attr.max_qp / config->lanes;
	return device->attr.max_pd < peers ? device->attr.max_pd : peers;
}

/* ---------- the provider's calls ---------- */

RfDevice *
rf_verbs_device_open(const RfProviderConfig *config, RfError *error)
{
	RfDevice   *device;
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td;
	int			flags;

	/* First the device: without one, a limit for its buffers is not the problem. */
	device = choose_device(config, error);
	if (device == NULL)
		return NULL;
	if (!check_memlock(config->memory_to_register, error))
	{
		rf_verbs_device_close(device);
		return NULL;
	}

	device->wanted_gid = config->gid_index;
	device->traffic_class = config->traffic_class;
	device->service_level = config->service_level;
	device->timeout = config->timeout;
	device->max_message = RF_MAX_MESSAGE;
	if (device->port_attr.max_msg_sz != 0 && device->port_attr.max_msg_sz < device->max_message)
		device->max_message = device->port_attr.max_msg_sz;
	device->max_sge = device->attr.max_sge < RF_MAX_SGE ? device->attr.max_sge : RF_MAX_SGE;
	device->atomics = device->attr.atomic_cap != IBV_ATOMIC_NONE && !device->iwarp;
	rf_mlx5_probe(device);
	device->max_peers = room_for_peers(device, config);

	td = ibv_alloc_td(device->context, &td_attr);
	if (td != NULL)
	{
		struct ibv_pd *pd = ibv_alloc_pd(device->context);
		struct ibv_parent_domain_init_attr parent_attr = {.pd = pd,.td = td};
		struct ibv_pd *parent = pd != NULL ?
			ibv_alloc_parent_domain(device->context, &parent_attr) :
			NULL;

		device->thread_domains = parent != NULL;
		if (parent != NULL)
			ibv_dealloc_pd(parent);
		if (pd != NULL)
			ibv_dealloc_pd(pd);
		ibv_dealloc_td(td);
	}

	flags = fcntl(device->context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(device->context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
	{
		(void) rf_error(error, RF_ERROR_INTERNAL, strerror(errno), NULL,
						"the RDMA device's event file cannot be made non-blocking");
		rf_verbs_device_close(device);
		return NULL;
	}
	return device;
}

void
rf_verbs_device_close(RfDevice *device)
{
	if (device == NULL)
		return;
	if (device->context != NULL)
		ibv_close_device(device->context);
	free(device);
}

int
rf_verbs_device_fd(RfDevice *device)
{
	return device->context->async_fd;
}

/*
 * Looks at the port again: new connections use its GID of now. A port that is down keeps what it
 * had.
 */
static void
look_again(RfDevice *device)
{
	RfProviderConfig config = {.gid_index = device->wanted_gid};
	struct ibv_gid_entry *gids = calloc(MAX_GIDS, sizeof(struct ibv_gid_entry));

	if (gids != NULL && !device->iwarp)
		(void) look_at_port(device, gids, device->port, &config, NULL);
	free(gids);
}

/* What an event of the port, or of the device, means; NULL: nothing for people. */
static const char *
event_text(enum ibv_event_type type)
{
	switch (type)
	{
		case IBV_EVENT_DEVICE_FATAL:
			return "failed";
		case IBV_EVENT_PORT_ERR:
			return "is down";
		case IBV_EVENT_PORT_ACTIVE:
			return "is active";
		case IBV_EVENT_GID_CHANGE:
			return "has other GIDs";
		case IBV_EVENT_LID_CHANGE:
			return "has another LID";
		case IBV_EVENT_PKEY_CHANGE:
			return "has other partition keys";
		default:
			return NULL;
	}
}

/* An event must be acknowledged before its object can be destroyed. */
RfDeviceEvent
rf_verbs_device_event(RfDevice *device, char *text, size_t size)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(device->context, &event) == 0)
	{
		enum ibv_event_type type = event.event_type;
		int			port = event.element.port_num;
		const char *name = ibv_get_device_name(device->context->device);
		const char *what = event_text(type);
		char		before[sizeof(device->gid_text)];

		ibv_ack_async_event(&event);
		if (type == IBV_EVENT_DEVICE_FATAL)
		{
			snprintf(text, size, "RDMA device \"%s\" %s", name, what);
			return RF_DEVICE_DEAD;
		}
		if (what == NULL || port != device->port)
			continue;
		memcpy(before, device->gid_text, sizeof(before));
		look_again(device);
		if (strcmp(before, device->gid_text) != 0)
			snprintf(text, size, "port %d of RDMA device \"%s\" %s: GID %s in place of %s", port,
					 name, what, device->gid_text, before);
		else
			snprintf(text, size, "port %d of RDMA device \"%s\" %s", port, name, what);
		return RF_DEVICE_CHANGED;
	}
	return RF_DEVICE_QUIET;
}

/* What the device has, and the state of its port now. */
void
rf_verbs_device_caps(RfDevice *device, RfDeviceCaps *caps)
{
	struct ibv_port_attr attr;

	memset(caps, 0, sizeof(*caps));
	snprintf(caps->provider, sizeof(caps->provider), "verbs");
	snprintf(caps->device, sizeof(caps->device), "%s",
			 ibv_get_device_name(device->context->device));
	snprintf(caps->gid, sizeof(caps->gid), "%s", device->gid_text);
	snprintf(caps->gid_type, sizeof(caps->gid_type), "%s", device->gid_type);
	caps->gid_index = device->gid_index;
	caps->port = device->port;
	if (ibv_query_port(device->context, device->port, &attr) != 0)
		attr.state = IBV_PORT_NOP;
	snprintf(caps->port_state, sizeof(caps->port_state), "%s", port_state_text(attr.state));
	caps->limited_member = device->partitions[0] != 0;
	for (int i = 0; i < MAX_PARTITIONS && device->partitions[i] != 0; i++)
	{
		size_t		used = strlen(caps->partitions);

		if ((device->partitions[i] & FULL_MEMBER) != 0)
			caps->limited_member = false;
		snprintf(caps->partitions + used, sizeof(caps->partitions) - used, "%s0x%04x",
				 i > 0 ? ", " : "", device->partitions[i]);
	}
	caps->max_peers = device->max_peers;
	caps->mtu = mtu_bytes(device->port_attr.active_mtu);
	caps->max_message = device->max_message;
	caps->max_sge = device->max_sge;
	caps->max_qp_wr = rf_verbs_max_wr(device);
	caps->max_inline = 0;		/* not used: only immediates are sent without payload */
	caps->atomics = device->atomics;
	caps->thread_domains = device->thread_domains;
	caps->needs_socket = false;
	caps->max_strided = device->max_strided;
}

RfDomain *
rf_verbs_domain_create(RfDevice *device, RfError *error)
{
	RfDomain   *domain = calloc(1, sizeof(RfDomain));

	if (domain != NULL)
	{
		domain->device = device;
		domain->pd = ibv_alloc_pd(device->context);
	}
	if (domain == NULL || domain->pd == NULL)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, strerror(errno), NULL,
						"no RDMA protection domain to be had");
		free(domain);
		return NULL;
	}
	return domain;
}

void
rf_verbs_domain_destroy(RfDomain *domain)
{
	ibv_dealloc_pd(domain->pd);
	free(domain);
}

/* The device executes the peers' requests, and refuses them once the queue pair is gone. */
bool
rf_verbs_domain_quiet(RfDomain *domain)
{
	return true;
}

/*
 * Registers memory with the device. The error of a full memlock limit names the limit, as this is
 * the usual reason.
 */
static RfRegion *
register_memory(RfDomain *domain, void *addr, size_t length, unsigned int access, RfError *error)
{
	Region	   *region = calloc(1, sizeof(Region));
	struct rlimit limit;

	if (region == NULL)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for an RDMA region");
		return NULL;
	}
	region->mr = ibv_reg_mr(domain->pd, addr, length, access);
	if (region->mr != NULL && region->mr->rkey == 0)
	{
		/*
		 * A legal key, but for callers 0 means "no key": while this one is held, the next one
		 * differs.
		 */
		struct ibv_mr *zero = region->mr;

		region->mr = ibv_reg_mr(domain->pd, addr, length, access);
		ibv_dereg_mr(zero);
	}
	if (region->mr == NULL)
	{
		int			failure = errno;

		if (failure == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
			limit.rlim_cur != RLIM_INFINITY)
			(void) memlock_error(error, length, limit.rlim_cur);
		else
			(void) rf_error(error, RF_ERROR_RESOURCES, strerror(failure), NULL,
							"the RDMA device cannot register %zu bytes", length);
		free(region);
		return NULL;
	}
	region->region.addr = addr;
	region->region.length = length;
	region->region.lkey = region->mr->lkey;
	region->region.rkey = region->mr->rkey;
	return &region->region;
}

RfRegion *
rf_verbs_region_register(RfDomain *domain, void *addr, size_t length, int fd, RfError *error)
{
	return register_memory(domain, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						   (domain->device->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0), error);
}

/* Without remote access the device refuses the key to every peer. */
RfRegion *
rf_verbs_source_register(RfDomain *domain, void *addr, size_t length, RfError *error)
{
	RfRegion   *region = register_memory(domain, addr, length, 0, error);

	if (region != NULL)
		region->rkey = 0;
	return region;
}

void
rf_verbs_region_deregister(RfDomain *domain, RfRegion *region)
{
	Region	   *mine = (Region *) region;

	ibv_dereg_mr(mine->mr);
	free(mine);
}
