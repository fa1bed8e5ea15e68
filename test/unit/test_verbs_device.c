/*
 * test_verbs_device.c - how rdma_fdw.device names a device and its port, and the messages where an
 * RDMA device cannot be opened. Runs with and without a device; the memlock limit can only be too
 * small for a device that is there.
 */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/provider/verbs_device.c"

static int	failures;

static void
check(bool good, const char *name, const RfError *error)
{
	printf("%s - %s\n", good ? "ok" : "not ok", name);
	fflush(stdout);
	if (!good)
	{
		printf("# kind %d, %s / %s / %s\n", error->kind, error->message, error->detail,
			   error->hint);
		failures++;
	}
}

static RfDevice *
open_device(const RfProviderConfig *config, RfError *error)
{
	if (error != NULL)
		memset(error, 0, sizeof(*error));
	return rf_provider_verbs.device_open(config, error);
}

static void
test_names(void)
{
	static const struct
	{
		const char *wanted;
		int			port;
		int			partition;
	}			names[] = {
		{"mlx5_1:1:0x8001", 1, 0x8001}, {"mlx5_1:2:0xA", 2, 0xA}, {"mlx5_1:1:0x", -1},
		{"mlx5_1:1:0x18001", -1}, {"mlx5_1:1:8001", -1}, {"mlx5_1:1:0x8000", -1},
		{"mlx5_1:1:0x1g", -1}, {"mlx5_1::0x8001", -1}, {"mlx5_1:0x8001", -1},
		{NULL, 0}, {"", 0}, {"mlx5_1", 0}, {"mlx5_1:2", 2}, {"mlx5_1:255", 255}, {"mlx5_1:", -1},
		{"mlx5_1:0", -1}, {"mlx5_1:256", -1}, {"mlx5_1:1000", -1}, {"mlx5_1:-1", -1},
		{"mlx5_1:a", -1}, {"mlx5_1:2a", -1}, {"mlx5_1/2", -1}, {"mlx5_10", -1}, {"mlx5_10:1", -1},
		{"mlx5_", -1}, {":1", -1}
	};
	RfError		error = {0};
	bool		good = true;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		int			partition;
		int			port = wanted_port(names[i].wanted, "mlx5_1", &partition);
		bool		right = port == names[i].port &&
			(port < 0 || partition == names[i].partition);

		if (!right)
			printf("# \"%s\" asks for port %d, partition %x\n", names[i].wanted, port, partition);
		good = good && right;
	}
	check(good, "rdma_fdw.device is a name, with a port or a port and a partition", &error);
}

/* In a process of its own, because a limit that is lowered stays low. */
static void
test_memlock(void)
{
	RfProviderConfig config = {.gid_index = -1,.memory_to_register = (size_t) 1 << 30};
	RfError		error;
	int			status;
	pid_t		child;

	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		struct rlimit limit = {64 << 10, 128 << 10};

		/* Root may lock any amount. */
		if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
			(getuid() == 0 &&
			 (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)))
			_exit(2);
		failures = 0;
		if (open_device(&(RfProviderConfig) {.gid_index = -1}, &error) == NULL)
		{
			check(error.kind == RF_ERROR_CONFIGURATION &&
				  strstr(error.message, "no RDMA device") != NULL &&
				  strstr(error.hint, "rdma_fdw.provider") != NULL,
				  "no device at all", &error);
			_exit(failures);
		}
		check(open_device(&config, &error) == NULL && error.kind == RF_ERROR_RESOURCES &&
			  strstr(error.message, "memlock") != NULL &&
			  strstr(error.detail, "128 kB") != NULL &&
			  strstr(error.detail, "1048576 kB") != NULL &&
			  strstr(error.hint, "LimitMEMLOCK") != NULL,
			  "a memlock limit too small is named, with both numbers and the remedy", &error);
		config.memory_to_register = 4096;
		(void) open_device(&config, &error);
		check(strstr(error.message, "memlock") == NULL,
			  "a memlock limit that is large enough is not", &error);
		_exit(failures);
	}
	waitpid(child, &status, 0);
	failures += WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(void)
{
	RfProviderConfig config = {.gid_index = -1,.device = "no_such_device"};
	RfError		error;

	check(open_device(&config, &error) == NULL && error.kind == RF_ERROR_CONFIGURATION &&
		  strstr(error.message, "no_such_device") != NULL &&
		  strstr(error.hint, "rdma_fdw.device") != NULL,
		  "a device that is not there", &error);
	test_names();
	check(open_device(&config, NULL) == NULL, "a caller who does not ask why", &error);
	test_memlock();
	return failures ? 1 : 0;
}
