/*
 * networks.h - lists of networks, as settings have them: "10.0.0.0/8, fd00::/8, 192.0.2.7". Plain
 * C.
 */
#ifndef RF_NETWORKS_H
#define RF_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* False: an entry is neither an address nor a network; it is put into `wrong`, cut to its size. */
extern bool rf_networks_valid(const char *list, char *wrong, size_t size);

/*
 * Returns true if the address is in one of them. An IPv4 address that is written as an IPv6 address
 * counts as IPv4.
 */
extern bool rf_networks_have(const char *list, const struct sockaddr *address);

#endif
