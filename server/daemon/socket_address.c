/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/socket_address.h"

#include <netdb.h>
#include <stddef.h>
#include <stdio.h>

static void
describe_inet(const struct sockaddr *address, socklen_t length, char *text, size_t size)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(text, size, "unknown address");
	else
		snprintf(text, size, address->sa_family == AF_INET6 ? "[%.48s]:%.5s" : "%.48s:%.5s",
			 host, port);
}

void
socket_address_text(const union socket_address *address, socklen_t length, char *text, size_t size)
{
	const struct sockaddr_un *local = &address->local;
	const struct sockaddr_vm *vm = &address->vm;
	size_t path = length > offsetof(struct sockaddr_un, sun_path)
			      ? length - offsetof(struct sockaddr_un, sun_path)
			      : 0;

	switch (address->any.sa_family) {
	case AF_INET:
	case AF_INET6: describe_inet(&address->any, length, text, size); break;
	case AF_UNIX:
		/* Nameless, or in the abstract namespace, which begins with a NUL. */
		if (path > 0 && local->sun_path[0] != '\0')
			snprintf(text, size, "%.*s", (int)path, local->sun_path);
		else if (path > 1)
			snprintf(text, size, "@%.*s", (int)path - 1, local->sun_path + 1);
		else
			snprintf(text, size, "unix");
		break;
	case AF_VSOCK:
		if (vm->svm_cid == VMADDR_CID_ANY)
			snprintf(text, size, "vsock port %u", vm->svm_port);
		else
			snprintf(text, size, "vsock %u:%u", vm->svm_cid, vm->svm_port);
		break;
	default: snprintf(text, size, "address family %d", address->any.sa_family);
	}
}

bool
socket_address_is_network(const union socket_address *address)
{
	const struct in6_addr *six = &address->six.sin6_addr;

	if (address->any.sa_family == AF_INET)
		return ntohl(address->four.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	if (address->any.sa_family != AF_INET6)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(six))
		return six->s6_addr[12] != IN_LOOPBACKNET;
	return !IN6_IS_ADDR_LOOPBACK(six);
}

bool
socket_address_covers(const union socket_address *wide, const union socket_address *narrow)
{
	const struct in6_addr *all = &wide->six.sin6_addr, *one = &narrow->six.sin6_addr;

	if (wide->any.sa_family != narrow->any.sa_family)
		return false;
	if (wide->any.sa_family == AF_INET)
		return wide->four.sin_port == narrow->four.sin_port &&
		       (wide->four.sin_addr.s_addr == htonl(INADDR_ANY) ||
			wide->four.sin_addr.s_addr == narrow->four.sin_addr.s_addr);
	return wide->any.sa_family == AF_INET6 && wide->six.sin6_port == narrow->six.sin6_port &&
	       (IN6_IS_ADDR_UNSPECIFIED(all) ||
		(IN6_ARE_ADDR_EQUAL(all, one) &&
		 wide->six.sin6_scope_id == narrow->six.sin6_scope_id));
}
