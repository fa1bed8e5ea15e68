/*
 * socket.c - sockets to other engines: their options, their addresses, and starting a connection.
 */
#include "postgres.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/networks.h"
#include "rdma_fdw/guc.h"

#include "engine_int.h"

socklen_t
rf_socket_local_address(struct sockaddr_un *address, const char *name)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	strlcpy(address->sun_path + 1, name, sizeof(address->sun_path) - 1);
	return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
}

void
rf_socket_address(int fd, char *text, size_t size)
{
	struct sockaddr_storage address;
	socklen_t	length = sizeof(address);

	if (getpeername(fd, (struct sockaddr *) &address, &length) != 0 ||
		getnameinfo((struct sockaddr *) &address, length, text, size, NULL, 0, NI_NUMERICHOST) != 0)
		strlcpy(text, "local socket", size);
}

bool
rf_socket_trusted(int fd)
{
	struct sockaddr_storage address = {0};
	socklen_t	length = sizeof(address);

	return getpeername(fd, (struct sockaddr *) &address, &length) == 0 &&
		rf_networks_have(rf_trusted_networks, (struct sockaddr *) &address);
}

/*
 * Descriptors of memory are passed over a local socket. Processes of one user can reach each
 * other's memory anyway; rows go to another user's engine over TCP. The kernel tells which user
 * made the other end.
 */
bool
rf_socket_same_user(int fd)
{
	struct ucred other;
	socklen_t	length = sizeof(other);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == geteuid();
}

/*
 * For control and data connections over TCP. Bytes that the other host's kernel does not
 * acknowledge for peer_timeout mean the same as an engine that does not answer for as long. A
 * changed setting affects control connections at once and data connections when they are made
 * again; they end with their control connection anyway.
 */
void
rf_socket_options(int fd)
{
	int			on = 1;
	unsigned int timeout = rf_peer_timeout;

	(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
	(void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* Begins to connect, without waiting. Returns the socket, or -1 with *error. */
static int
connect_to(const struct sockaddr *address, socklen_t length, RfError *error)
{
	int			fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
	{
		rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "could not create a socket: %s",
				 strerror(errno));
		return -1;
	}
	if (address->sa_family != AF_UNIX)
		rf_socket_options(fd);
	if (connect(fd, address, length) != 0 && errno != EINPROGRESS)
	{
		rf_error(error, RF_ERROR_CONNECTION, NULL, NULL, "could not connect: %s", strerror(errno));
		close(fd);
		return -1;
	}
	return fd;
}

int
rf_start_connect(const char *address, uint32_t port, RfError *error)
{
	struct addrinfo hints;
	struct addrinfo *found = NULL;
	char		service[16];
	int			fd;

	snprintf(service, sizeof(service), "%u", port);
	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	if (getaddrinfo(address, service, &hints, &found) != 0)
	{
		rf_error(error, RF_ERROR_CONFIGURATION, NULL, NULL, "\"%.100s\" is not an address",
				 address);
		return -1;
	}
	fd = connect_to(found->ai_addr, found->ai_addrlen, error);
	freeaddrinfo(found);
	return fd;
}

int
rf_start_connect_local(const char *name)
{
	struct sockaddr_un address;
	socklen_t	length = rf_socket_local_address(&address, name);
	RfError		error;
	int			fd = connect_to((struct sockaddr *) &address, length, &error);

	if (fd >= 0 && !rf_socket_same_user(fd))
	{
		close(fd);
		fd = -1;
	}
	return fd;
}

int
rf_start_connect_like(int control_fd, RfError *error)
{
	struct sockaddr_storage address = {0};
	socklen_t	length = sizeof(address);

	if (getpeername(control_fd, (struct sockaddr *) &address, &length) != 0)
	{
		rf_error(error, RF_ERROR_CONNECTION, NULL, NULL, "could not connect: %s", strerror(errno));
		return -1;
	}
	return connect_to((struct sockaddr *) &address, length, error);
}
