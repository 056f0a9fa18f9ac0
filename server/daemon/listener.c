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

/* ---- addresses as text */

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

static void
describe(const struct sockaddr *address, socklen_t length, char *text, size_t size)
{
	const struct sockaddr_un *local = (const struct sockaddr_un *)address;
	const struct sockaddr_vm *vm = (const struct sockaddr_vm *)address;
	size_t path = length > offsetof(struct sockaddr_un, sun_path)
			      ? length - offsetof(struct sockaddr_un, sun_path)
			      : 0;

	switch (address->sa_family) {
	case AF_INET:
	case AF_INET6: describe_inet(address, length, text, size); break;
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
	default: snprintf(text, size, "address family %d", address->sa_family);
	}
}

/* ---- peers */

static void
set_option(int fd, int level, int name, int value)
{
	/* Without the option, the socket is only slower. */
	setsockopt(fd, level, name, &value, sizeof(value));
}

/* The kernel reserves twice of what is asked for, and tells that. */
static int
send_buffer(int fd)
{
	int size = 0;
	socklen_t length = sizeof(size);

	return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length) < 0 ? 0 : size;
}

/* More than net.core.wmem_max needs a privilege, which the server may have had before. */
static void
enlarge_send_buffer(int fd)
{
	static struct log_limit once = LOG_LIMIT_INIT(1, UINT32_MAX);
	int size = UNIX_SEND_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0 &&
	    send_buffer(fd) < size)
		set_option(fd, SOL_SOCKET, SO_SNDBUF, size);
	if (send_buffer(fd) < size && log_limit_pass(&once, NULL))
		log_info("unix sockets send from %d bytes instead of %d, so large reads are "
			 "slower: set net.core.wmem_max to %d (sysctl)",
			 send_buffer(fd), size, size);
}

static void
prepare_unix(int fd, char peer[PEER_MAX])
{
	struct ucred who;
	socklen_t length = sizeof(who);

	enlarge_send_buffer(fd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0)
		snprintf(peer, PEER_MAX, "unix (pid %d, uid %u)", (int)who.pid,
			 (unsigned int)who.uid);
	else
		snprintf(peer, PEER_MAX, "unix");
}

static void
prepare_tcp(int fd)
{
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

void
peer_prepare(int fd, char peer[PEER_MAX])
{
	union {
		struct sockaddr any;
		struct sockaddr_storage storage;
	} address;
	socklen_t length = sizeof(address);

	if (getpeername(fd, &address.any, &length) < 0) {
		snprintf(peer, PEER_MAX, "a client that is gone");
		return;
	}
	if (address.any.sa_family == AF_UNIX) {
		prepare_unix(fd, peer);
		return;
	}
	prepare_tcp(fd);
	describe(&address.any, length, peer, PEER_MAX);
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

static bool
is_network(const struct sockaddr *address)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

	if (address->sa_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	if (address->sa_family != AF_INET6)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		return six->sin6_addr.s6_addr[12] != IN_LOOPBACKNET;
	return !IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* Takes over the descriptor. */
static int
add_listener(struct listener **listeners, int fd, const struct unix_socket *file)
{
	struct listener **end = listeners, *listener = calloc(1, sizeof(*listener));
	union {
		struct sockaddr any;
		struct sockaddr_storage storage;
	} address;
	socklen_t length = sizeof(address);

	if (!listener)
		return -ENOMEM;
	*listener = (struct listener){.fd = fd, .pause = ACCEPT_PAUSE_INIT};
	listener->file = file ? *file : (struct unix_socket){.fd = -1};
	if (getsockname(fd, &address.any, &length) == 0) {
		describe(&address.any, length, listener->text, sizeof(listener->text));
		listener->network = is_network(&address.any);
	}
	while (*end)
		end = &(*end)->next;
	*end = listener;
	return 0;
}

static int
open_unix(struct listener **listeners, const char *path, mode_t mode, char **error)
{
	struct unix_socket file;
	int r = unix_socket_listen(&file, path, mode, "unix socket", error);

	if (r == 0)
		r = add_listener(listeners, file.fd, &file);
	return r;
}

int
listeners_add_unix(struct listener **listeners, const char *path, char **error)
{
	return open_unix(listeners, path, 0, error);
}

int
listeners_add_private(struct listener **listeners, const char *path, char **error)
{
	int r = open_unix(listeners, path, S_IRUSR | S_IWUSR, error);

	while (r == 0 && *listeners) {
		if (!(*listeners)->next)
			(*listeners)->private = true;
		listeners = &(*listeners)->next;
	}
	return r;
}

static int
open_socket(struct listener **listeners, const struct sockaddr *address, socklen_t length)
{
	int CLEANUP_CLOSE fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	/* IPv4 has a socket of its own. */
	if (address->sa_family == AF_INET6)
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (bind(fd, address, length) < 0)
		return -errno;
	if (listen(fd, SOMAXCONN) < 0)
		return -errno;
	r = add_listener(listeners, fd, NULL);
	if (r == 0)
		steal_fd(&fd);
	return r;
}

/* Whether the error means that this machine has no IPv6, or not this IPv6 address. */
static bool
is_absent(const struct addrinfo *address, int r)
{
	return address->ai_family == AF_INET6 && (r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT);
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
open_inet(struct listener **listeners, const struct inet_place *place, char **error)
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
	int r, absent = 0;

	snprintf(service, sizeof(service), "%u", place->port);
	r = getaddrinfo(host, service, &hints, &addresses);
	if (r != 0)
		return error_set(error, -EINVAL, "%s=%s: %s", place->option, host ? host : "any",
				 r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	for (const struct addrinfo *address = addresses; r == 0 && address;
	     address = address->ai_next) {
		r = open_socket(listeners, address->ai_addr, address->ai_addrlen);
		if (r < 0 && is_absent(address, r)) {
			absent = r;
			r = 0;
		} else if (r < 0) {
			char text[96];

			describe(address->ai_addr, address->ai_addrlen, text, sizeof(text));
			r = error_set(error, r, "cannot listen on %s: %s%s%s%s", text, strerror(-r),
				      r == -EADDRINUSE ? "; choose another port (" : "",
				      r == -EADDRINUSE ? place->port_option : "",
				      r == -EADDRINUSE ? ")" : "");
		} else {
			some = true;
		}
	}
	freeaddrinfo(addresses);
	if (r < 0 || some)
		return r;
	return error_set(error, absent, "cannot listen on %s: %s", host ? host : "any",
			 strerror(-absent));
}

static int
open_addresses(struct listener **listeners, const struct server_config *config, char **error)
{
	struct inet_place place = {
		.host = "127.0.0.1",
		.port = config->port ? config->port : DEFAULT_PORT,
		.option = "--address",
		.port_option = "--port",
	};
	int r = 0;

	if (!config->address) {
		r = open_inet(listeners, &place, error);
		place.host = "::1";
		place.optional = true;
		return r < 0 ? r : open_inet(listeners, &place, error);
	}
	for (char **address = config->address; r == 0 && *address; address++) {
		place.host = strcmp(*address, "any") == 0 ? NULL : *address;
		r = open_inet(listeners, &place, error);
	}
	return r;
}

int
listeners_add_inet(struct listener **listeners, const char *host, unsigned int port,
		   const char *option, char **error)
{
	const struct inet_place place = {
		.host = host, .port = port, .option = option, .port_option = option};

	return open_inet(listeners, &place, error);
}

static int
open_vsock(struct listener **listeners, unsigned int port, char **error)
{
	const union {
		struct sockaddr any;
		struct sockaddr_vm vm;
	} address = {.vm = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port}};
	int r = open_socket(listeners, &address.any, sizeof(address.vm));

	return r < 0 ? error_set(error, r, "cannot listen on vsock port %u: %s%s", port,
				 strerror(-r),
				 r == -EAFNOSUPPORT ? "; the kernel module vsock is missing" : "")
		     : 0;
}

static int
take_passed(struct listener **listeners, unsigned int count)
{
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < count; i++) {
		int fd = ACTIVATION_FIRST + (int)i;

		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		r = add_listener(listeners, fd, NULL);
	}
	return r;
}

static int
check_networks(const struct listener *listener, const struct server_config *config, char **error)
{
	if (config->tls == TLS_CHOICE_OFF || config_tls(config) != TLS_CHOICE_OFF)
		return 0;
	while (listener && !listener->network)
		listener = listener->next;
	if (!listener)
		return 0;
	return error_set(error, -EINVAL,
			 "other machines can reach %s, and without TLS, everybody there can read "
			 "and change the exports: use --tls-certificates=DIR or --tls-psk=FILE "
			 "(nbdloop keys makes them), or say --tls=off if you trust that network",
			 listener->text);
}

int
listeners_open(struct listener **listeners, const struct server_config *config, unsigned int passed,
	       char **error)
{
	bool somewhere = passed > 0 || config->unix_socket || config->vsock || config->fd;
	int r;

	*listeners = NULL;
	*error = NULL;
	r = take_passed(listeners, passed);
	for (char **path = config->unix_socket; r == 0 && path && *path; path++)
		r = open_unix(listeners, *path, 0, error);
	if (r == 0 && config->vsock)
		r = open_vsock(listeners, config->vsock, error);
	if (r == 0 && (config->port || config->address || !somewhere))
		r = open_addresses(listeners, config, error);
	if (r == 0)
		r = check_networks(*listeners, config, error);
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
