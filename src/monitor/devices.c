/*
 * devices.c - rdma.devices: what this machine has to move data with, and what the engine uses.
 *
 * RDMA devices are listed from sysfs. No device is opened: that is the engine's, and a backend that
 * opened one would hold it.
 */
#include "postgres.h"

#include <dirent.h>
#include <unistd.h>

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "rdma_fdw/flow.h"

PG_FUNCTION_INFO_V1(rdma_devices);

#define SYSFS	"/sys/class/infiniband"
#define COLUMNS	14

/* First line of a small file, "" when there is none. */
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

static Datum
text_or_null(const char *value, bool *isnull)
{
	*isnull = value[0] == '\0';
	return *isnull ? (Datum) 0 : CStringGetTextDatum(value);
}

static void
put_device(ReturnSetInfo *result, const char *provider, const char *device, int port, const char *state,
		   const char *link_layer, const char *rate, const char *netdev, int mtu, const char *gid, const char *gid_type, bool in_use)
{
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS] = {false};

	values[0] = text_or_null(provider, &nulls[0]);
	values[1] = text_or_null(device, &nulls[1]);
	values[2] = Int32GetDatum(port);
	nulls[2] = port == 0;
	values[3] = text_or_null(state, &nulls[3]);
	values[4] = text_or_null(link_layer, &nulls[4]);
	values[5] = text_or_null(rate, &nulls[5]);
	values[6] = text_or_null(netdev, &nulls[6]);
	values[7] = Int32GetDatum(mtu);
	nulls[7] = mtu == 0;
	values[8] = text_or_null(gid, &nulls[8]);
	values[9] = text_or_null(gid_type, &nulls[9]);
	values[10] = BoolGetDatum(in_use);

	/* Only the engine, which has it open, can tell. */
	nulls[11] = nulls[12] = nulls[13] = !in_use;
	if (in_use)
	{
		values[11] = BoolGetDatum(rf_shared->device.atomics);
		values[12] = BoolGetDatum(rf_shared->device.thread_domains);
		values[13] = Int32GetDatum(rf_shared->device.max_strided);
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void
put_port(ReturnSetInfo *result, const char *device, int port)
{
	const RfDeviceCaps *used = rf_shared ? &rf_shared->device : NULL;
	bool		in_use = used && strcmp(used->provider, "verbs") == 0 && strcmp(used->device, device) == 0 && used->port == port;
	char		path[MAXPGPATH];
	char		state[64];
	char		link_layer[64];
	char		rate[64];
	char		netdev[64];
	char		line[64];

	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/state", device, port);
	read_line(line, sizeof(line), path);
	strlcpy(state, behind_colon(line), sizeof(state));
	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/link_layer", device, port);
	read_line(link_layer, sizeof(link_layer), path);
	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/rate", device, port);
	read_line(rate, sizeof(rate), path);
	snprintf(path, sizeof(path), SYSFS "/%s/ports/%d/gid_attrs/ndevs/0", device, port);
	read_line(netdev, sizeof(netdev), path);
	put_device(result, "verbs", device, port, state, link_layer, rate, netdev,
			   in_use ? used->mtu : 0, in_use ? used->gid : "", in_use ? used->gid_type : "", in_use);
}

Datum
rdma_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
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
			put_port(result, device->d_name, port);
		}
	}
	if (devices != NULL)
		closedir(devices);

	/* The software transport is always there. */
	put_device(result, "soft", rf_shared && strcmp(rf_shared->device.provider, "soft") == 0 ? rf_shared->device.device : "shared memory, tcp",
			   0, "ACTIVE", "", "", "", 0, "", "", rf_shared && strcmp(rf_shared->device.provider, "soft") == 0);
	return (Datum) 0;
}
