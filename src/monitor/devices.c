/*
 * devices.c - rdma.devices: the devices of this machine, and the device that the engine uses.
 *
 * RDMA devices are listed from sysfs. No device is opened: only the engine does that, and a backend
 * that opened one would hold it.
 */
#include "postgres.h"

#include <dirent.h>
#include <unistd.h>

#include "base/result_row.h"
#include "shmem/layout.h"


PG_FUNCTION_INFO_V1(rdma_devices);

#define SYSFS	"/sys/class/infiniband"

/* First line of a small file, "" if it is missing. */
static void
read_line(char *line, size_t size, const char *path)
{
	FILE	   *file = fopen(path, "re");

	line[0] = '\0';
	if (file == NULL)
		return;
	if (fgets(line, size, file) == NULL)
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	fclose(file);
}

/* sysfs says "4: ACTIVE" */
static const char *
behind_colon(const char *line)
{
	const char *colon = strchr(line, ':');

	if (colon == NULL)
		return line;
	return colon[1] == ' ' ? colon + 2 : colon + 1;
}

/* A row of rdma.devices. Empty texts and zeros are shown as NULL. */
typedef struct PortRow
{
	const char *provider;
	const char *device;
	int			port;
	char		state[64];
	char		link_layer[64];
	char		rate[64];
	char		netdev[64];
	int			mtu;
	const char *gid;
	const char *gid_type;
	bool		in_use;			/* by this server's engine */
} PortRow;

/* Adds one row of rdma.devices: a port of a device, or a software transport. */
static void
put_row(RfRow *row, const PortRow *port)
{
	rf_put_text(row, port->provider);
	rf_put_text(row, port->device);
	rf_put_if(row, port->port != 0, Int32GetDatum(port->port));
	rf_put_text(row, port->state);
	rf_put_text(row, port->link_layer);
	rf_put_text(row, port->rate);
	rf_put_text(row, port->netdev);
	rf_put_if(row, port->mtu != 0, Int32GetDatum(port->mtu));
	rf_put_text(row, port->gid);
	rf_put_text(row, port->gid_type);
	rf_put(row, BoolGetDatum(port->in_use));

	/* Only the engine, which has it open, can tell. */
	if (port->in_use)
	{
		Assert(rf_shared != NULL);
		rf_put(row, BoolGetDatum(rf_shared->device.atomics));
		rf_put(row, BoolGetDatum(rf_shared->device.thread_domains));
		rf_put_int(row, rf_shared->device.max_strided);
	}
	rf_end_row(row);
}

/*
 * Adds the row of one port, from files of the kernel; the engine knows the rest of the port that it
 * uses.
 */
static void
put_port(RfRow *result, const char *device, int port)
{
	const RfDeviceCaps *used = rf_shared ? &rf_shared->device : NULL;
	PortRow		row = {
	.provider = "verbs", .device = device, .port = port, .gid = "", .gid_type = ""};
	char		path[MAXPGPATH];
	char		line[64];

	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/state", device, port);
	read_line(line, sizeof(line), path);
	strlcpy(row.state, behind_colon(line), sizeof(row.state));
	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/link_layer", device, port);
	read_line(row.link_layer, sizeof(row.link_layer), path);
	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/rate", device, port);
	read_line(row.rate, sizeof(row.rate), path);
	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/gid_attrs/ndevs/0", device, port);
	read_line(row.netdev, sizeof(row.netdev), path);
	if (used && strcmp(used->provider, "verbs") == 0 && strcmp(used->device, device) == 0 &&
		used->port == port)
	{
		row.mtu = used->mtu;
		row.gid = used->gid;
		row.gid_type = used->gid_type;
		row.in_use = true;
	}
	put_row(result, &row);
}

/* The software transport is always there. */
static void
put_soft(RfRow *result)
{
	PortRow		row = {.provider = "soft",
		.device = "shared memory, tcp",
		.state = "ACTIVE",
		.gid = "",
	.gid_type = ""};

	if (rf_shared && strcmp(rf_shared->device.provider, "soft") == 0)
	{
		row.device = rf_shared->device.device;
		row.in_use = true;
	}
	put_row(result, &row);
}

/*
 * rdma.devices: a row per port of each RDMA device of this machine, and rows for the software
 * transports.
 */
Datum
rdma_devices(PG_FUNCTION_ARGS)
{
	RfRow		result = RF_ROW(fcinfo);
	DIR		   *devices;
	struct dirent *device;

	InitMaterializedSRF(fcinfo, 0);
	devices = opendir(SYSFS);
	while (devices != NULL && (device = readdir(devices)) != NULL)
	{
		int			port;

		if (device->d_name[0] == '.')
			continue;
		for (port = 1; port < 256; port++)
		{
			char		path[MAXPGPATH];

			snprintf(path, sizeof(path), SYSFS "/%s/ports/%d", device->d_name, port);
			if (access(path, F_OK) != 0)
				break;
			put_port(&result, device->d_name, port);
		}
	}
	if (devices != NULL)
		closedir(devices);
	put_soft(&result);
	return (Datum) 0;
}
