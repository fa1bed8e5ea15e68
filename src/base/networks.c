/*
 * networks.c - see networks.h. Numbers only: no name is looked up.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "networks.h"

#define RF_NETWORK_TEXT		64

typedef struct Network
{
	int			family;			/* 0 if the entry is not an address */
	unsigned char bytes[16];
	int			bits;
} Network;

/* Parses an address or a network in CIDR notation; the family stays 0 if it is neither. */
static void
parse(char *text, Network *network)
{
	char	   *slash = strchr(text, '/');
	char	   *end;
	long		bits;
	int			most;

	memset(network, 0, sizeof(*network));
	if (slash != NULL)
		*slash = '\0';
	network->family = inet_pton(AF_INET, text, network->bytes) == 1 ? AF_INET :
		inet_pton(AF_INET6, text, network->bytes) == 1 ? AF_INET6 : 0;
	most = network->family == AF_INET ? 32 : 128;
	network->bits = most;
	if (slash == NULL)
		return;
	*slash = '/';
	bits = strtol(slash + 1, &end, 10);
	if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > most)
		network->family = 0;
	network->bits = (int) bits;
}

/* Returns the next entry, at *from, and its text; false at the end. */
static bool
next_entry(const char **from, Network *network, char text[RF_NETWORK_TEXT])
{
	size_t		length;

	*from += strspn(*from, ", ");
	length = strcspn(*from, ", ");
	if (length == 0)
		return false;
	memset(network, 0, sizeof(*network));
	memset(text, 0, RF_NETWORK_TEXT);
	memcpy(text, *from, length < RF_NETWORK_TEXT ? length : RF_NETWORK_TEXT - 1);
	if (length < RF_NETWORK_TEXT)
		parse(text, network);
	*from += length;
	return true;
}

bool
rf_networks_valid(const char *list, char *wrong, size_t size)
{
	Network		network;
	char		text[RF_NETWORK_TEXT];

	while (next_entry(&list, &network, text))
	{
		if (network.family != 0)
			continue;
		snprintf(wrong, size, "%s", text);
		return false;
	}
	return true;
}

static bool
same_bits(const unsigned char *one, const unsigned char *two, int bits)
{
	return memcmp(one, two, bits / 8) == 0 &&
		(bits % 8 == 0 || (one[bits / 8] ^ two[bits / 8]) >> (8 - bits % 8) == 0);
}

bool
rf_networks_have(const char *list, const struct sockaddr *address)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *) address;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *) address;
	const unsigned char *bytes = (const unsigned char *) &four->sin_addr;
	int			family = address->sa_family;
	Network		network;
	char		text[RF_NETWORK_TEXT];

	if (family == AF_INET6)
	{
		bytes = six->sin6_addr.s6_addr;
		if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		{
			family = AF_INET;
			bytes += 12;
		}
	}
	else if (family != AF_INET)
		return false;
	while (next_entry(&list, &network, text))
	{
		if (network.family == family && same_bits(bytes, network.bytes, network.bits))
			return true;
	}
	return false;
}
