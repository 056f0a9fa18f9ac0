/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of sockets: as text, and which clients they get.
 */
#ifndef SERVER_DAEMON_SOCKET_ADDRESS_H
#define SERVER_DAEMON_SOCKET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* After <sys/socket.h>, which it needs. */
#include <linux/vm_sockets.h>

union socket_address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
	struct sockaddr_un local;
	struct sockaddr_vm vm;
	struct sockaddr_storage storage;
};

/* The address of `length` bytes as a user would write it: "127.0.0.1:10809". */
void
socket_address_text(const union socket_address *address, socklen_t length, char *text, size_t size);

/* Returns whether clients of other machines can have this address, or reach it. */
bool
socket_address_is_network(const union socket_address *address);

/* Returns whether a socket that listens on `wide` also gets the clients of the TCP address
 * `narrow`: both are the same, or `wide` is that of all networks. */
bool
socket_address_covers(const union socket_address *wide, const union socket_address *narrow);

#endif
