/*
 * hosts.c - limits the addresses that a coordinator may have this node's engine connect to:
 * rdma_fdw.exchange_hosts.
 *
 * The coordinator tells the nodes of a distributed statement where to connect, with the rights of
 * an ordinary role. Without a limit, any role that may log in could make this server open
 * connections to every host that it can reach. Host names are looked up first, and the numeric
 * address that will be used is compared, so a name cannot change its meaning in between.
 */
#include "postgres.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "libpq/ifaddr.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"

typedef struct Dialled
{
	struct sockaddr_storage address;
	bool		whole_net;		/* samenet, else samehost */
	bool		found;
} Dialled;

static void
compare_interface(struct sockaddr *address, struct sockaddr *netmask, void *arg)
{
	Dialled    *dialled = arg;
	struct sockaddr_storage own = {0};
	struct sockaddr_storage mask = {0};
	size_t		size = address->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
		sizeof(struct sockaddr_in6);

	if (dialled->found || address->sa_family != dialled->address.ss_family)
		return;
	memcpy(&own, address, size);
	if (dialled->whole_net)
		memcpy(&mask, netmask, size);
	else
		pg_sockaddr_cidr_mask(&mask, NULL, address->sa_family);
	dialled->found = pg_range_sockaddr(&dialled->address, &own, &mask);
}

static bool
is_near(const struct sockaddr_storage *address, bool whole_net)
{
	Dialled		dialled = {.address = *address,.whole_net = whole_net};

	if (pg_foreach_ifaddr(compare_interface, &dialled) < 0)
		ereport(LOG,
				(errmsg("could not list the network interfaces: %m")));
	return dialled.found;
}

static struct addrinfo *
look_up(const char *host, bool numeric)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = numeric ? AI_NUMERICHOST : 0};
	struct addrinfo *found;

	return getaddrinfo(host, NULL, &hints, &found) == 0 ? found : NULL;
}

/* Parse "address/bits" as a network; false: it is not one. */
static bool
parse_network(const char *entry, struct sockaddr_storage *net, struct sockaddr_storage *mask)
{
	const char *slash = strrchr(entry, '/');
	struct addrinfo *found = look_up(pnstrdup(entry, slash - entry), true);
	bool		good = found != NULL;

	if (good)
	{
		memset(net, 0, sizeof(*net));
		memcpy(net, found->ai_addr, found->ai_addrlen);
		good = pg_sockaddr_cidr_mask(mask, unconstify(char *, slash + 1), net->ss_family) == 0;
		freeaddrinfo(found);
	}
	return good;
}

/* Returns true if the entry of rdma_fdw.exchange_hosts covers the address. Looks up host names. */
static bool
matches(const char *entry, const struct sockaddr_storage *address)
{
	struct sockaddr_storage net;
	struct sockaddr_storage mask;
	struct addrinfo *found;
	bool		same = false;

	if (strcmp(entry, "all") == 0)
		return true;
	if (strcmp(entry, "samehost") == 0 || strcmp(entry, "samenet") == 0)
		return is_near(address, strcmp(entry, "samenet") == 0);
	if (strchr(entry, '/') != NULL)
		return parse_network(entry, &net, &mask) && net.ss_family == address->ss_family &&
			pg_range_sockaddr(address, &net, &mask);
	found = look_up(entry, false);
	for (struct addrinfo *one = found; one != NULL && !same; one = one->ai_next)
	{
		if (one->ai_family != address->ss_family)
			continue;
		memset(&net, 0, sizeof(net));
		memcpy(&net, one->ai_addr, one->ai_addrlen);
		pg_sockaddr_cidr_mask(&mask, NULL, net.ss_family);
		same = pg_range_sockaddr(address, &net, &mask);
	}
	if (found != NULL)
		freeaddrinfo(found);
	return same;
}

bool
rf_exchange_host_allowed(const struct sockaddr *address, size_t length)
{
	struct sockaddr_storage dialled = {0};
	List	   *entries;
	ListCell   *lc;

	if (length > sizeof(dialled) ||
		(address->sa_family != AF_INET && address->sa_family != AF_INET6))
		return false;
	memcpy(&dialled, address, length);
	/* SplitGUCList scribbles on its input; it was checked when it was set */
	if (!SplitGUCList(pstrdup(rf_exchange_hosts), ',', &entries))
		return false;
	foreach(lc, entries)
	{
		if (matches(lfirst(lc), &dialled))
			return true;
	}
	return false;
}

bool
rf_check_exchange_hosts(char **newval, void **extra, GucSource source)
{
	struct sockaddr_storage net;
	struct sockaddr_storage mask;
	List	   *entries;
	ListCell   *lc;

	if (!SplitGUCList(pstrdup(*newval), ',', &entries))
	{
		GUC_check_errdetail("List syntax is invalid.");
		return false;
	}
	foreach(lc, entries)
	{
		const char *entry = lfirst(lc);

		if (strchr(entry, '/') != NULL && !parse_network(entry, &net, &mask))
		{
			GUC_check_errdetail("\"%s\" is not a network in CIDR notation.", entry);
			return false;
		}
	}
	return true;
}
