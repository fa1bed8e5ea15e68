/*
 * verbs.h - what the two files of the verbs provider share. Nobody else includes it.
 *
 * verbs_device.c finds, checks and opens the device, and has protection domains and memory regions.
 * verbs.c has completion queues and queue pairs. Plain C over libibverbs.
 */
#ifndef RF_VERBS_H
#define RF_VERBS_H

#include <infiniband/verbs.h>

#include "rdma_fdw/provider.h"

#define RF_VERBS_RESERVE	8		/* send queue entries beyond max_wr: the marker and the farewell */

/*
 * Written by device_open; read-only afterwards, except `async` events, which device_caps (main
 * thread) drains.
 */
struct RfDevice
{
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	uint8_t		port;
	int			gid_index;
	union ibv_gid gid;
	char		gid_text[48];
	const char *gid_type;
	bool		ethernet;		/* RoCE: addressed by GID; else InfiniBand: by LID, and by GID across subnets */
	enum ibv_mtu mtu;
	uint32_t	max_message;
	int			max_sge;
	bool		thread_domains;
	bool		atomics;
	int			traffic_class;
	int			service_level;
	int			timeout;
	int			retry_count;
	int			rnr_retry;
};

struct RfDomain
{
	RfDevice   *device;
	struct ibv_pd *pd;
};

extern RfDevice *rf_verbs_device_open(const RfProviderConfig *config, RfError *error);
extern void rf_verbs_device_close(RfDevice *device);
extern void rf_verbs_device_caps(RfDevice *device, RfDeviceCaps *caps);
extern RfDomain *rf_verbs_domain_create(RfDevice *device, RfError *error);
extern void rf_verbs_domain_destroy(RfDomain *domain);
extern bool rf_verbs_domain_quiet(RfDomain *domain);
extern RfRegion *rf_verbs_region_register(RfDomain *domain, void *addr, size_t length, int fd,
										  RfError *error);
extern void rf_verbs_region_deregister(RfDomain *domain, RfRegion *region);

#endif
