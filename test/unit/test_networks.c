/*
 * test_networks.c - lists of networks (src/base/networks.c).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/networks.h"

static int	failures;

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static bool
has(const char *list, const char *address)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, address, &four.sin_addr) == 1)
		return rf_networks_have(list, (struct sockaddr *) &four);
	return inet_pton(AF_INET6, address, &six.sin6_addr) == 1 &&
		rf_networks_have(list, (struct sockaddr *) &six);
}

static bool
wrong(const char *list, const char *entry)
{
	char		found[16];

	return !rf_networks_valid(list, found, sizeof(found)) &&
		strncmp(found, entry, sizeof(found) - 1) == 0;
}

int
main(void)
{
	static const char list[] = "10.0.0.0/8, 192.168.4.0/23,fd00:1:2::/47 ,203.0.113.9";
	struct sockaddr local = {.sa_family = AF_UNIX};
	char		ignored[8];

	check(rf_networks_valid(list, ignored, sizeof(ignored)) &&
		  rf_networks_valid("", ignored, sizeof(ignored)) &&
		  rf_networks_valid("0.0.0.0/0,::/0", ignored, sizeof(ignored)),
		  "lists that are right");
	check(wrong("10.0.0.0/33", "10.0.0.0/33") && wrong("::/129", "::/129") &&
		  wrong("10.0.0.0/", "10.0.0.0/") && wrong("10.0.0.0/-1", "10.0.0.0/-1") &&
		  wrong("10.0.0.0/8x", "10.0.0.0/8x") && wrong("10.0.0/8", "10.0.0/8") &&
		  wrong("10.0.0.0/8, somehost", "somehost") && wrong("/8", "/8") &&
		  wrong("10.0.0.0/ 8", "10.0.0.0/") &&
		  wrong("10.0.0.0/4294967304", "10.0.0.0/4294967304"),
		  "and wrong");
	check(wrong("fd00:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/8",
				"fd00:0000:0000:"),
		  "one that is too long");
	check(has(list, "10.0.0.0") && has(list, "10.255.255.255") && !has(list, "11.0.0.0") &&
		  !has(list, "9.255.255.255"),
		  "whole bytes");
	check(has(list, "192.168.4.1") && has(list, "192.168.5.255") && !has(list, "192.168.6.0") &&
		  !has(list, "192.168.3.255"),
		  "and parts");
	check(has(list, "fd00:1:2::1") && has(list, "fd00:1:3:ffff::") && !has(list, "fd00:1:4::1"),
		  "of IPv6");
	check(has(list, "203.0.113.9") && !has(list, "203.0.113.8"), "one address");
	check(has(list, "::ffff:10.1.2.3") && !has(list, "::ffff:11.1.2.3") && !has(list, "::10.1.2.3"),
		  "IPv4 inside IPv6");
	check(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::1") && has("::/0", "::1") &&
		  !has("::/0", "1.2.3.4"),
		  "everything of one kind");
	check(!has("", "127.0.0.1") && !rf_networks_have("0.0.0.0/0,::/0", &local),
		  "nothing, and what is no address");
	return failures ? 1 : 0;
}
