/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/listener.h"

#include "server/daemon/activation.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* After <sys/socket.h>, which it needs. */
#include <linux/vm_sockets.h>

/* Room for a batch of replies, or a large one: with Linux's default of 208 KiB, the sender has to
 * wait for the receiver. */
#define UNIX_SEND_BUFFER (2 << 20)

/* A client whose machine is gone without a word is noticed after a minute: when a connection has
 * been silent for 30 seconds, three questions go out 10 seconds apart. */
#define KEEPALIVE_IDLE     30
#define KEEPALIVE_INTERVAL 10
#define KEEPALIVE_COUNT    3

/* ---- addresses */

union socket_address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
	struct sockaddr_un local;
	struct sockaddr_vm vm;
	struct sockaddr_storage storage;
};

static void
socket_address_inet(const struct sockaddr *address, socklen_t length, char *text, size_t size)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(text, size, "unknown address");
	else
		snprintf(text, size, address->sa_family == AF_INET6 ? "[%.48s]:%.5s" : "%.48s:%.5s",
			 host, port);
}

/* The address of `length` bytes as a user would write it: "127.0.0.1:10809". */
static void
socket_address_text(const union socket_address *address, socklen_t length, char *text, size_t size)
{
	const struct sockaddr_un *local = &address->local;
	const struct sockaddr_vm *vm = &address->vm;
	size_t path = length > offsetof(struct sockaddr_un, sun_path)
			      ? length - offsetof(struct sockaddr_un, sun_path)
			      : 0;

	switch (address->any.sa_family) {
	case AF_INET:
	case AF_INET6: socket_address_inet(&address->any, length, text, size); break;
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

/* Returns whether clients of other machines can have this address, or reach it. */
static bool
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

/* Returns whether a socket that listens on `wide` also gets the clients of the TCP address
 * `narrow`: both are the same, or `wide` is that of all networks. */
static bool
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

/* ---- peers */

static void
listener_set_option(int fd, int level, int name, int value)
{
	/* Without the option, the socket is only slower. */
	setsockopt(fd, level, name, &value, sizeof(value));
}

/* The kernel reserves twice of what is asked for, and tells that. */
static int
peer_send_buffer(int fd)
{
	int size = 0;
	socklen_t length = sizeof(size);

	return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length) < 0 ? 0 : size;
}

/* More than net.core.wmem_max needs a privilege, which the server may have had before. */
static void
peer_enlarge_send_buffer(int fd)
{
	static struct log_limit once = LOG_LIMIT_INIT(1, UINT32_MAX);
	int size = UNIX_SEND_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0 &&
	    peer_send_buffer(fd) < size)
		listener_set_option(fd, SOL_SOCKET, SO_SNDBUF, size);
	if (peer_send_buffer(fd) < size && log_limit_pass(&once, NULL))
		log_info("unix sockets send from %d bytes instead of %d, so large reads are "
			 "slower: set net.core.wmem_max to %d (sysctl)",
			 peer_send_buffer(fd), size, size);
}

static void
peer_prepare_unix(int fd, char peer[PEER_MAX])
{
	struct ucred who;
	socklen_t length = sizeof(who);

	peer_enlarge_send_buffer(fd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0)
		snprintf(peer, PEER_MAX, "unix (pid %d, uid %u)", (int)who.pid,
			 (unsigned int)who.uid);
	else
		snprintf(peer, PEER_MAX, "unix");
}

void
peer_prepare(int fd, char peer[PEER_MAX])
{
	union socket_address address;
	socklen_t length = sizeof(address);

	if (getpeername(fd, &address.any, &length) < 0) {
		snprintf(peer, PEER_MAX, "a client that is gone");
		return;
	}
	if (address.any.sa_family == AF_UNIX) {
		peer_prepare_unix(fd, peer);
		return;
	}
	listener_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	listener_set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE);
	listener_set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL);
	listener_set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
	listener_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	socket_address_text(&address, length, peer, PEER_MAX);
}

int
listener_accept(struct listener *listener, char peer[PEER_MAX])
{
	int fd = accept_or_pause(&listener->pause, listener->fd, SOCK_CLOEXEC, listener->text);

	if (fd >= 0)
		peer_prepare(fd, peer);
	return fd;
}

/* ---- opening */

/* A name may have one address twice, and several names, or "any" beside a name, have the same one.
 * Returns whether some listener gets the clients of the address; closes those whose clients a
 * socket with the address will get. */
static bool
listeners_cover(struct listener **listeners, const union socket_address *address)
{
	while (*listeners) {
		struct listener *listener = *listeners;
		union socket_address own = {.any.sa_family = AF_UNSPEC};
		socklen_t length = sizeof(own);

		getsockname(listener->fd, &own.any, &length);
		if (socket_address_covers(&own, address))
			return true;
		if (!socket_address_covers(address, &own)) {
			listeners = &listener->next;
			continue;
		}
		*listeners = listener->next;
		close(listener->fd);
		free(listener);
	}
	return false;
}

/* Takes over the descriptor, unless it fails. */
static int
listeners_add(struct listener **listeners, int fd, const struct unix_socket *file, bool private)
{
	struct listener **end = listeners, *listener = calloc(1, sizeof(*listener));
	union socket_address address;
	socklen_t length = sizeof(address);

	if (!listener)
		return -ENOMEM;
	*listener = (struct listener){.fd = fd, .private = private, .pause = ACCEPT_PAUSE_INIT};
	listener->file = file ? *file : (struct unix_socket){.fd = -1};
	if (getsockname(fd, &address.any, &length) == 0) {
		socket_address_text(&address, length, listener->text, sizeof(listener->text));
		listener->network = socket_address_is_network(&address);
	}
	while (*end)
		end = &(*end)->next;
	*end = listener;
	return 0;
}

int
listeners_add_unix(struct listener **listeners, const char *path, bool private, char **error)
{
	struct unix_socket file;
	int r = unix_socket_listen(&file, path, private ? S_IRUSR | S_IWUSR : 0, "unix socket",
				   error);

	if (r < 0)
		return r;
	r = listeners_add(listeners, file.fd, &file, private);
	if (r < 0)
		unix_socket_close(&file);
	return r;
}

static int
listeners_open_socket(struct listener **listeners, const struct sockaddr *address, socklen_t length)
{
	int CLEANUP_CLOSE fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	listener_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	/* IPv4 has a socket of its own. */
	if (address->sa_family == AF_INET6)
		listener_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (bind(fd, address, length) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	r = listeners_add(listeners, fd, NULL, false);
	if (r == 0)
		steal_fd(&fd);
	return r;
}

/* Where to listen on TCP. */
struct inet_place {
	const char *host; /* NULL: all networks */
	unsigned int port;
	bool optional;           /* it is no error if none of its addresses exists */
	const char *option;      /* that names the host */
	const char *port_option; /* that names the port */
};

static int
inet_place_fail(const struct inet_place *place, const union socket_address *address,
		socklen_t length, int r, char **error)
{
	const char *way_out = "", *option = "";
	char text[96];

	socket_address_text(address, length, text, sizeof(text));
	if (r == -EADDRINUSE) {
		way_out = "; choose another port, with ";
		option = place->port_option;
	} else if (r == -EINVAL && address->any.sa_family == AF_INET6 &&
		   !address->six.sin6_scope_id) {
		way_out = "; add the interface of a link-local address, as in fe80::1%eth0";
	}
	return error_set(error, r, "cannot listen on %s: %s%s%s", text, strerror(-r), way_out,
			 option);
}

/* Returns 0 if the address has a listener now, and 1 if this machine does not have it. */
static int
inet_place_open_address(struct listener **listeners, const struct inet_place *place,
			const struct addrinfo *found, char **error)
{
	union socket_address address = {.any.sa_family = AF_UNSPEC};
	int r;

	memcpy(&address, found->ai_addr, found->ai_addrlen);
	if (listeners_cover(listeners, &address))
		return 0;
	r = listeners_open_socket(listeners, &address.any, found->ai_addrlen);
	if (r == 0)
		return 0;
	if (found->ai_family == AF_INET6 && (r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT))
		return 1;
	return inet_place_fail(place, &address, found->ai_addrlen, r, error);
}

static int
inet_place_open(struct listener **listeners, const struct inet_place *place, char **error)
{
	const char *host = place->host;
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *addresses;
	bool some = place->optional;
	char service[16];
	int r;

	snprintf(service, sizeof(service), "%u", place->port);
	r = getaddrinfo(host, service, &hints, &addresses);
	if (r != 0)
		return error_set(error, -EINVAL, "%s=%s: %s", place->option, host ? host : "any",
				 r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	for (const struct addrinfo *found = addresses; r >= 0 && found; found = found->ai_next) {
		r = inet_place_open_address(listeners, place, found, error);
		some = some || r == 0;
	}
	freeaddrinfo(addresses);
	if (r < 0 || some)
		return r < 0 ? r : 0;
	return error_set(error, -EADDRNOTAVAIL, "cannot listen on %s: %s", host ? host : "any",
			 strerror(EADDRNOTAVAIL));
}

/* "[::1]", as in a URI, is "::1". Caller frees. */
static char *
address_without_brackets(const char *address)
{
	const size_t length = strlen(address);

	return *address == '[' && address[length - 1] == ']' ? strndup(address + 1, length - 2)
							     : strdup(address);
}

static int
listeners_open_addresses(struct listener **listeners, const struct server_config *config,
			 char **error)
{
	struct inet_place place = {
		.host = "127.0.0.1",
		.port = config->port ? config->port : DEFAULT_PORT,
		.option = "--address",
		.port_option = "--port",
	};
	int r = 0;

	if (!config->address) {
		r = inet_place_open(listeners, &place, error);
		place.host = "::1";
		place.optional = true;
		return r < 0 ? r : inet_place_open(listeners, &place, error);
	}
	for (char **address = config->address; r == 0 && *address; address++) {
		char *CLEANUP_FREE host = address_without_brackets(*address);

		if (!host)
			return -ENOMEM;
		place.host = strcmp(host, "any") == 0 ? NULL : host;
		r = inet_place_open(listeners, &place, error);
	}
	return r;
}

int
listeners_add_inet(struct listener **listeners, const char *host, unsigned int port,
		   const char *option, char **error)
{
	const struct inet_place place = {
		.host = strcmp(host, "any") == 0 ? NULL : host,
		.port = port,
		.option = option,
		.port_option = option,
	};

	return inet_place_open(listeners, &place, error);
}

static int
listeners_open_vsock(struct listener **listeners, unsigned int port, char **error)
{
	const union socket_address address = {
		.vm = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port}};
	int r = listeners_open_socket(listeners, &address.any, sizeof(address.vm));

	return r < 0 ? error_set(error, r, "cannot listen on vsock port %u: %s%s", port,
				 strerror(-r),
				 r == -EAFNOSUPPORT ? "; the kernel module vsock is missing" : "")
		     : 0;
}

static int
listeners_take_passed(struct listener **listeners, unsigned int count)
{
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < count; i++) {
		int fd = ACTIVATION_FIRST + (int)i;

		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		r = listeners_add(listeners, fd, NULL, false);
	}
	return r;
}

static int
listeners_check_networks(const struct listener *listener, const struct server_config *config,
			 char **error)
{
	if (config->tls == TLS_CHOICE_OFF || config_tls(config) != TLS_CHOICE_OFF)
		return 0;
	while (listener && !listener->network)
		listener = listener->next;
	if (!listener)
		return 0;
	return error_set(error, -CONFIG_MISTAKE,
			 "other machines can reach %s, and without TLS, everybody there can read "
			 "and change the exports: use --tls-certificates=DIR or --tls-psk=FILE "
			 "(nbdloop keys makes them), or say --tls=off if you trust that network",
			 listener->text);
}

int
listeners_open(struct listener **listeners, const struct server_config *config, unsigned int passed,
	       char **error)
{
	const bool somewhere =
		passed > 0 || config->unix_socket || config->vsock || config->fd || config->fd_from;
	int r;

	*listeners = NULL;
	*error = NULL;
	r = listeners_take_passed(listeners, passed);
	for (char **path = config->unix_socket; r == 0 && path && *path; path++)
		r = listeners_add_unix(listeners, *path, false, error);
	if (r == 0 && config->vsock)
		r = listeners_open_vsock(listeners, config->vsock, error);
	if (r == 0 && (config->port || config->address || !somewhere))
		r = listeners_open_addresses(listeners, config, error);
	if (r == 0)
		r = listeners_check_networks(*listeners, config, error);
	if (r < 0)
		listeners_close(listeners);
	return r;
}

void
listeners_close(struct listener **listeners)
{
	while (*listeners) {
		struct listener *listener = *listeners;

		*listeners = listener->next;
		if (listener->file.fd >= 0)
			unix_socket_close(&listener->file);
		else
			close(listener->fd);
		free(listener);
	}
}
