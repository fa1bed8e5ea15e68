/*
 * listener.c - listens on TCP and on a local name, and accepts connections.
 *
 * Anybody can connect; nobody is trusted before setup.c has seen a proof. So the number of
 * connections without proof is limited (crowd.c), each has a deadline, and when descriptors run
 * out, accepting pauses instead of spinning.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "postmaster/postmaster.h"

#include "rdma_fdw/guc.h"

#include "engine_int.h"

#define RF_ACCEPT_AT_ONCE		64
#define RF_LISTEN_BACKLOG		4096	/* the kernel has a limit of its own: net.core.somaxconn */
#define RF_FIRST_BYTES_S		3	/* the kernel hands over a connection that stays silent for
									 * this long anyway */
#define RF_ACCEPT_PAUSE_US		1000000

static int64_t paused_until = 0;

/*
 * The first entry of listen_addresses, or the loopback address when the server listens on local
 * sockets only.
 */
static void
listen_host(char *host, size_t size)
{
	const char *from = rf_listen_address && rf_listen_address[0] ? rf_listen_address :
		ListenAddresses;
	size_t		length;

	while (from && (*from == ' ' || *from == ','))
		from++;
	length = from ? strcspn(from, ", ") : 0;
	if (length == 0)
		strlcpy(host, "127.0.0.1", size);
	else
		strlcpy(host, from, Min(size, length + 1));
}

static int
bind_tcp(const struct addrinfo *address)
{
	int			on = 1;
	int			off = 0;
	int			first_bytes = RF_FIRST_BYTES_S;
	int			fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	(void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* An engine speaks first, so the kernel can hold back connections that stay silent. */
	(void) setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &first_bytes, sizeof(first_bytes));
	if (address->ai_family == AF_INET6)
		(void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, RF_LISTEN_BACKLOG) != 0)
	{
		int			saved_errno = errno;

		close(fd);
		errno = saved_errno;
		return -1;
	}
	return fd;
}

static uint32_t
local_port(int fd)
{
	struct sockaddr_storage address;
	socklen_t	length = sizeof(address);

	memset(&address, 0, sizeof(address));
	if (getsockname(fd, (struct sockaddr *) &address, &length) != 0)
		return 0;
	return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &address)->sin6_port :
				 ((struct sockaddr_in *) &address)->sin_port);
}

bool
rf_listen(RfError *error)
{
	char		host[256];
	char		port[16];
	struct addrinfo hints;
	struct addrinfo *found = NULL;
	struct addrinfo *one;
	struct sockaddr_un name;
	socklen_t	name_length;
	bool		any;
	int			rc;
	int			fd = -1;

	listen_host(host, sizeof(host));
	any = strcmp(host, "*") == 0;
	snprintf(port, sizeof(port), "%d", rf_engine_port);
	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
	rc = getaddrinfo(any ? NULL : host, port, &hints, &found);
	if (rc != 0)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL, "Set rdma_fdw.listen_address.",
						"could not translate \"%.100s\" to an address: %s", host, gai_strerror(rc));

	/*
	 * For "*" an IPv6 socket accepts both protocols where there is IPv6. For a name prefer an IPv4
	 * address: localhost, which often resolves to ::1 first, must be reachable at 127.0.0.1.
	 */
	for (one = found; fd < 0 && one != NULL; one = one->ai_next)
	{
		if (one->ai_family == (any ? AF_INET6 : AF_INET))
			fd = bind_tcp(one);
	}
	for (one = found; fd < 0 && one != NULL; one = one->ai_next)
		fd = bind_tcp(one);
	freeaddrinfo(found);
	if (fd < 0)
		return rf_error(error, RF_ERROR_CONFIGURATION, NULL,
						"Set rdma_fdw.listen_address and rdma_fdw.engine_port.",
						"could not listen on address %.80s, port %d: %s", host, rf_engine_port,
						strerror(errno));
	rf_engine->listen_tcp.kind = RF_SOURCE_LISTEN;
	rf_engine->listen_tcp.fd = fd;
	atomic_store(&rf_shared->engine_port, local_port(fd));

	/* The local name is for engines on this host; without it they use TCP. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	name_length = rf_socket_local_address(&name, rf_shared->engine_local_name);
	if (fd < 0 || bind(fd, (struct sockaddr *) &name, name_length) != 0 ||
		listen(fd, RF_LISTEN_BACKLOG) != 0)
	{
		ereport(LOG,
				(errcode_for_socket_access(),
				 errmsg("rdma_fdw engine: could not listen on a local socket, engines of this "
						"host will use TCP: %m")));
		if (fd >= 0)
			close(fd);
		fd = -1;
		rf_shared->engine_local_name[0] = '\0';
	}
	rf_engine->listen_local.kind = RF_SOURCE_LISTEN;
	rf_engine->listen_local.fd = fd;

	if (!rf_watch(&rf_engine->listen_tcp, EPOLLIN) ||
		(fd >= 0 && !rf_watch(&rf_engine->listen_local, EPOLLIN)))
	{
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "could not watch a socket: %s",
				 strerror(errno));
		rf_unwatch(&rf_engine->listen_tcp);
		close(rf_engine->listen_tcp.fd);
		if (fd >= 0)
			close(fd);
		return false;
	}
	return true;
}

void
rf_listener_event(RfSource *source)
{
	int			i;

	/* Accept no more in this round: other sources are waiting too. */
	for (i = 0; i < RF_ACCEPT_AT_ONCE; i++)
	{
		struct sockaddr_storage address = {0};
		socklen_t	length = sizeof(address);
		int			fd = accept4(source->fd, (struct sockaddr *) &address, &length,
								 SOCK_CLOEXEC | SOCK_NONBLOCK);
		RfConnection *connection;
		RfConnection *victim;

		if (fd < 0)
		{
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			{
				ereport(LOG,
						(errcode_for_socket_access(),
						 errmsg("rdma_fdw engine: could not accept a connection: %m")));
				rf_unwatch(&rf_engine->listen_tcp);
				rf_unwatch(&rf_engine->listen_local);
				paused_until = rf_now_us() + RF_ACCEPT_PAUSE_US;
			}
			return;
		}
		if (source == &rf_engine->listen_tcp)
			rf_socket_options(fd);
		else if (!rf_socket_same_user(fd))
		{
			atomic_fetch_add(&rf_shared->counters.garbage_connections, 1);
			close(fd);
			continue;
		}
		connection = rf_connection_new(fd, true);
		if (connection == NULL)
		{
			close(fd);
			continue;
		}
		/* Its first message has usually arrived already, and takes an engine out of the crowd. */
		victim = rf_crowd_enter(connection, &address);
		if (victim != NULL)
		{
			RfError		error = {0};

			rf_error(&error, RF_ERROR_PROTOCOL, NULL, NULL,
					 "too many connections that prove nothing");
			rf_connection_fail(victim, &error);
		}
		rf_connection_event(connection, EPOLLIN);
	}
}

void
rf_listener_timers(int64_t now)
{
	if (paused_until == 0 || now < paused_until)
		return;
	paused_until = 0;
	(void) rf_watch(&rf_engine->listen_tcp, EPOLLIN);
	if (rf_engine->listen_local.fd >= 0)
		(void) rf_watch(&rf_engine->listen_local, EPOLLIN);
}

int64_t
rf_listener_deadline(void)
{
	return paused_until == 0 ? INT64_MAX : paused_until;
}
