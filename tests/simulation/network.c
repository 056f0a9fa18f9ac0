/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/network.h"

#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/event.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BUFFER   ((size_t)128 << 10)
#define PORTIONS 64
#define BACKLOG  32

struct network_mood network_mood;

struct portion {
	size_t size;
	int64_t at; /* when it arrives */
};

/* What is on its way to a socket, and what has arrived. */
struct stream {
	uint8_t *bytes; /* BUFFER; as a ring */
	size_t start, size;
	struct portion portions[PORTIONS];
	unsigned int count;
	int64_t last_at, end_at, reset_at; /* FOR_EVER: does not come */
};

struct socket {
	struct description description;
	int family;
	unsigned int who; /* the client, of a server's socket */
	bool server;      /* it is, or was, a descriptor */
	struct stream input;
	struct socket *peer; /* NULL: closed, or not connected */
	bool sent_end;
	bool deaf;     /* it receives nothing any more */
	bool vanished; /* nobody owns it, until its peer is closed */
	struct listener *listener;
	struct socket *next;
};

struct listener {
	struct socket *owner;
	struct file *file; /* of a unix socket */
	unsigned int port;
	bool listens;
	struct socket *waiting[BACKLOG];
	unsigned int count;
	struct listener *next;
};

static struct listener *listeners;
static struct socket *sockets;

/* ---- streams */

static int64_t
network_delay(const struct socket *to)
{
	int64_t delay;

	if (to->family == AF_UNIX)
		return 0;
	delay = (int64_t)chance_below((uint64_t)network_mood.delay + 1);
	return event_strikes(network_mood.lag, "a lag of the network") ? delay * 1000 : delay;
}

/* When something arrives that is sent now: in order. */
static int64_t
stream_arrival(struct socket *to)
{
	struct stream *stream = &to->input;
	const int64_t at = scheduler_now() + network_delay(to);

	if (at > stream->last_at)
		stream->last_at = at;
	scheduler_note_time(stream->last_at);
	return stream->last_at;
}

static size_t
stream_arrived(const struct stream *stream)
{
	size_t size = 0;

	for (unsigned int i = 0; i < stream->count; i++) {
		if (stream->portions[i].at <= scheduler_now())
			size += stream->portions[i].size;
	}
	return size;
}

static size_t
stream_room(const struct stream *stream)
{
	return stream->count < PORTIONS ? BUFFER - stream->size : 0;
}

static void
stream_put(struct socket *to, const uint8_t *bytes, size_t size)
{
	struct stream *stream = &to->input;
	const int64_t at = stream_arrival(to);

	for (size_t i = 0; i < size;) {
		const size_t place = (stream->start + stream->size + i) % BUFFER;
		const size_t n = size - i < BUFFER - place ? size - i : BUFFER - place;

		memcpy(stream->bytes + place, bytes + i, n);
		i += n;
	}
	stream->size += size;
	if (stream->count && stream->portions[stream->count - 1].at == at)
		stream->portions[stream->count - 1].size += size;
	else
		stream->portions[stream->count++] = (struct portion){size, at};
}

static void
stream_peek(const struct stream *stream, uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size;) {
		const size_t place = (stream->start + i) % BUFFER;
		const size_t n = size - i < BUFFER - place ? size - i : BUFFER - place;

		memcpy(bytes + i, stream->bytes + place, n);
		i += n;
	}
}

static void
stream_drop(struct stream *stream, size_t size)
{
	stream->start = (stream->start + size) % BUFFER;
	stream->size -= size;
	while (size) {
		struct portion *first = &stream->portions[0];
		const size_t n = first->size < size ? first->size : size;

		first->size -= n;
		size -= n;
		if (first->size)
			break;
		stream->count--;
		memmove(first, first + 1, stream->count * sizeof(*first));
	}
}

/* ---- sockets */

static struct socket *
socket_new(int family)
{
	struct socket *socket = calloc(1, sizeof(*socket));

	socket->family = family;
	socket->input.bytes = malloc(BUFFER);
	socket->input.end_at = socket->input.reset_at = FOR_EVER;
	socket->next = sockets;
	sockets = socket;
	return socket;
}

static void
socket_forget(struct socket *socket)
{
	struct socket **at = &sockets;

	while (*at != socket)
		at = &(*at)->next;
	*at = socket->next;
	free(socket->input.bytes);
	free(socket);
}

static bool
socket_is_reset(const struct socket *socket)
{
	return socket->input.reset_at <= scheduler_now();
}

static bool
socket_has_end(const struct socket *socket)
{
	return socket->input.end_at <= scheduler_now() || socket_is_reset(socket);
}

static void
socket_send_end(struct socket *socket, bool reset)
{
	struct socket *peer = socket->peer;
	int64_t at;

	if (!peer || (socket->sent_end && !reset))
		return;
	socket->sent_end = true;
	at = stream_arrival(peer);
	if (reset)
		peer->input.reset_at = at;
	else
		peer->input.end_at = at;
}

/* Bytes that nobody has read make it a reset. */
static int64_t
socket_close(struct socket *socket, bool reset)
{
	struct socket *peer = socket->peer;
	int64_t at = scheduler_now();

	socket_send_end(socket, reset || stream_arrived(&socket->input) > 0);
	if (peer) {
		at = peer->input.last_at;
		peer->peer = NULL;
		if (peer->vanished)
			socket_forget(peer);
	}
	socket_forget(socket);
	return at;
}

static short
socket_events(struct description *description)
{
	struct socket *socket = (struct socket *)description;
	const bool reset = socket_is_reset(socket), ended = socket_has_end(socket);
	short events = 0;

	if (socket->listener)
		return socket->listener->count ? POLLIN : 0;
	if (ended || stream_arrived(&socket->input))
		events |= POLLIN;
	if (ended)
		events |= POLLRDHUP;
	if (reset)
		events |= POLLERR | POLLHUP;
	if (ended && (socket->sent_end || !socket->peer || socket->peer->deaf))
		events |= POLLHUP;
	if (reset || !socket->peer || stream_room(&socket->peer->input) > BUFFER / 3)
		events |= POLLOUT;
	return events;
}

static long
socket_unread(struct description *description)
{
	return (long)stream_arrived(&((struct socket *)description)->input);
}

static void
socket_free(struct description *description)
{
	struct socket *socket = (struct socket *)description;
	struct listener *listener = socket->listener;

	if (listener) {
		struct listener **at = &listeners;

		while (*at != listener)
			at = &(*at)->next;
		*at = listener->next;
		for (unsigned int i = 0; i < listener->count; i++)
			socket_close(listener->waiting[i], true);
		if (listener->file) {
			listener->file->listener = NULL;
			disk_put(listener->file);
		}
		free(listener);
	}
	socket_close(socket, false);
}

static long
socket_receive(struct socket *socket, void *bytes, size_t size, bool peek)
{
	size_t n = stream_arrived(&socket->input);

	if (socket_is_reset(socket))
		return -ECONNRESET;
	if (!n)
		return socket_has_end(socket) ? 0 : -EAGAIN;
	if (n > size)
		n = size;
	/* Linux gives all that is there: the server takes fewer bytes for all. Bytes come in parts
	 * since they are sent in parts. */
	stream_peek(&socket->input, bytes, n);
	if (!peek)
		stream_drop(&socket->input, n);
	return (long)n;
}

static long
socket_transmit(struct socket *socket, const void *bytes, size_t size)
{
	size_t room;

	if (socket_is_reset(socket))
		return -ECONNRESET;
	if (socket->sent_end)
		return -EPIPE;
	/* Before the peer's end has arrived, nobody knows that it drops what is sent. */
	if (!socket->peer || socket->peer->deaf)
		return socket_has_end(socket) ? -EPIPE : (long)size;
	room = stream_room(&socket->peer->input);
	if (!room)
		return -EAGAIN;
	if (size > room)
		size = room;
	if (size > 1 && event_strikes(16, "a short send"))
		size = chance_between(1, size);
	stream_put(socket->peer, bytes, size);
	return (long)size;
}

static ssize_t
socket_read(struct description *description, void *bytes, size_t size)
{
	return socket_receive((struct socket *)description, bytes, size, false);
}

static ssize_t
socket_write(struct description *description, const void *bytes, size_t size)
{
	return socket_transmit((struct socket *)description, bytes, size);
}

static const struct description_kind kind_socket = {
	.name = "a socket",
	.events = socket_events,
	.read = socket_read,
	.write = socket_write,
	.unread = socket_unread,
	.free = socket_free,
};

static struct socket *
socket_find(int fd)
{
	return (struct socket *)descriptor_find(fd, &kind_socket);
}

/* ---- the clients' side */

static struct listener *
listener_find(const char *address)
{
	const struct file *file = disk_find(address);
	struct listener *listener = listeners;

	if (file)
		return file->listener;
	while (listener && (listener->file || listener->port != (unsigned int)atoi(address)))
		listener = listener->next;
	return listener;
}

struct socket *
network_connect(const char *address, unsigned int who)
{
	struct listener *listener = listener_find(address);
	struct socket *socket, *other;

	if (!listener || !listener->listens || listener->count == BACKLOG)
		return NULL;
	socket = socket_new(listener->owner->family);
	other = socket_new(listener->owner->family);
	socket->peer = other;
	other->peer = socket;
	other->who = who;
	listener->waiting[listener->count++] = other;
	return socket;
}

bool
network_is_readable(struct socket *socket)
{
	return stream_arrived(&socket->input) || socket_has_end(socket);
}

static bool
socket_is_readable(void *data)
{
	return network_is_readable(data);
}

bool
network_await(struct socket *socket, int64_t until)
{
	return network_is_readable(socket) ||
	       scheduler_wait("bytes from the server", socket_is_readable, socket, until);
}

static bool
socket_is_writable(void *data)
{
	return socket_events(data) & POLLOUT;
}

int
network_send(struct socket *socket, const void *bytes, size_t size)
{
	while (size) {
		const long n = socket_transmit(socket, bytes, size);

		if (n == -EAGAIN) {
			scheduler_wait("room in a socket", socket_is_writable, socket, FOR_EVER);
			continue;
		}
		if (n < 0)
			return -EPIPE;
		bytes = (const char *)bytes + n;
		size -= (size_t)n;
		if (chance_once_in(4))
			scheduler_yield();
	}
	return 0;
}

int
network_try(struct socket *socket, const void *bytes, size_t size)
{
	long n = 1;

	while (size && n > 0) {
		n = socket_transmit(socket, bytes, size);
		if (n > 0) {
			bytes = (const char *)bytes + n;
			size -= (size_t)n;
		}
	}
	return n > 0 ? 0 : n == -EAGAIN ? -EAGAIN : -EPIPE;
}

int
network_receive(struct socket *socket, void *bytes, size_t size, int64_t until)
{
	while (size) {
		const long n = socket_receive(socket, bytes, size, false);

		if (n == -EAGAIN) {
			if (!scheduler_wait("bytes from the server", socket_is_readable, socket,
					    until))
				return -ETIMEDOUT;
			continue;
		}
		if (n <= 0)
			return -ECONNRESET;
		bytes = (char *)bytes + n;
		size -= (size_t)n;
	}
	return 0;
}

void
network_send_end(struct socket *socket)
{
	socket_send_end(socket, false);
}

static bool
socket_is_alone(void *data)
{
	return !((const struct socket *)data)->peer;
}

bool
network_await_end(struct socket *socket, int64_t until)
{
	socket_send_end(socket, false);
	socket->deaf = true;
	return scheduler_wait("the server's end of a connection", socket_is_alone, socket, until);
}

bool
network_has_orphans(void)
{
	for (const struct socket *socket = sockets; socket; socket = socket->next) {
		if (socket->server && !socket->listener &&
		    (!socket->peer || socket->peer->vanished || socket->peer->deaf))
			return true;
	}
	return false;
}

int64_t
network_close(struct socket *socket, bool reset)
{
	return socket_close(socket, reset);
}

int64_t
network_vanish(struct socket *socket)
{
	struct socket *peer = socket->peer;

	if (!peer || socket->family == AF_UNIX)
		return socket_close(socket, false);
	socket->vanished = true;
	peer->input.reset_at =
		stream_arrival(peer) +
		(int64_t)chance_between(1, chance_once_in(2) ? 300 : 20000) * MILLISECOND;
	scheduler_note_time(peer->input.reset_at);
	return peer->input.reset_at;
}

void
network_end(void)
{
	while (sockets)
		socket_forget(sockets);
	while (listeners) {
		struct listener *listener = listeners;

		listeners = listener->next;
		free(listener);
	}
}

/* ---- the server's calls */

CALL(int, socket, int family, int type, int protocol)
{
	struct socket *socket = socket_new(family);

	(void)protocol;
	socket->description = (struct description){.kind = &kind_socket,
						   .flags = type & SOCK_NONBLOCK ? O_NONBLOCK : 0};
	CALL_RETURN(descriptor_open(&socket->description));
}

static long
socket_bind(struct socket *socket, const struct sockaddr *address)
{
	const char *path = ((const struct sockaddr_un *)address)->sun_path;
	struct listener *listener;

	if (address->sa_family == AF_UNIX && disk_find(path))
		return -EADDRINUSE;
	listener = calloc(1, sizeof(*listener));
	listener->owner = socket;
	if (address->sa_family == AF_UNIX) {
		listener->file = disk_make(S_IFSOCK | 0600);
		listener->file->listener = listener;
		disk_name(listener->file, path);
	} else {
		listener->port = ntohs(((const struct sockaddr_in *)address)->sin_port);
	}
	listener->next = listeners;
	listeners = listener;
	socket->listener = listener;
	return 0;
}

CALL(int, bind, int fd, const struct sockaddr *address, socklen_t length)
{
	(void)length;
	CALL_RETURN(socket_bind(socket_find(fd), address));
}

CALL(int, listen, int fd, int backlog)
{
	(void)backlog;
	socket_find(fd)->listener->listens = true;
	return 0;
}

/* Only to find out whether another server listens. */
CALL(int, connect, int fd, const struct sockaddr *address, socklen_t length)
{
	const struct listener *listener =
		listener_find(((const struct sockaddr_un *)address)->sun_path);

	(void)fd;
	(void)length;
	CALL_RETURN(listener && listener->listens ? 0 : -ECONNREFUSED);
}

static void
address_fill(const struct socket *socket, unsigned int port, unsigned int who,
	     struct sockaddr *address, socklen_t *length)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	const size_t size =
		socket->family == AF_UNIX ? offsetof(struct sockaddr_un, sun_path) : sizeof(in);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + who);
	memcpy(address, socket->family == AF_UNIX ? (void *)&un : (void *)&in,
	       size < *length ? size : *length);
	*length = (socklen_t)size;
}

CALL(int, accept4, int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	struct socket *listening = socket_find(fd), *socket;
	struct listener *listener = listening->listener;
	int r;

	if (!listener->count)
		CALL_RETURN(-EAGAIN);
	if (event_strikes(200, "a failed accept"))
		CALL_RETURN(chance_once_in(2) ? -ECONNABORTED : -EMFILE);
	socket = listener->waiting[0];
	socket->server = true;
	socket->description = (struct description){.kind = &kind_socket,
						   .flags = flags & SOCK_NONBLOCK ? O_NONBLOCK : 0};
	listener->count--;
	memmove(listener->waiting, listener->waiting + 1,
		listener->count * sizeof(listener->waiting[0]));
	r = descriptor_open(&socket->description);
	if (r >= 0 && address)
		address_fill(socket, 40000, socket->who, address, length);
	CALL_RETURN(r);
}

CALL(int, getsockname, int fd, struct sockaddr *address, socklen_t *length)
{
	struct socket *socket = socket_find(fd);

	if (!socket)
		CALL_RETURN(-ENOTSOCK);
	address_fill(socket, socket->listener ? socket->listener->port : 10809, 0, address, length);
	return 0;
}

CALL(int, getpeername, int fd, struct sockaddr *address, socklen_t *length)
{
	struct socket *socket = socket_find(fd);

	if (!socket)
		CALL_RETURN(-ENOTSOCK);
	if (!socket->peer && socket->listener)
		CALL_RETURN(-ENOTCONN);
	address_fill(socket, 40000, socket->who, address, length);
	return 0;
}

CALL(int, setsockopt, int fd, int level, int name, const void *value, socklen_t length)
{
	(void)fd;
	(void)level;
	(void)name;
	(void)value;
	(void)length;
	return 0;
}

CALL(int, getsockopt, int fd, int level, int name, void *value, socklen_t *length)
{
	const struct socket *socket = socket_find(fd);
	struct ucred user = {.pid = 4711};

	if (!socket)
		CALL_RETURN(-ENOTSOCK);
	user.uid = socket->who ? 1000 + socket->who : 0;
	if (level == SOL_SOCKET && name == SO_PEERCRED) {
		memcpy(value, &user, sizeof(user));
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_PEERGROUPS) {
		*length = 0;
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_SNDBUF) {
		*(int *)value = (int)BUFFER;
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_ERROR) {
		*(int *)value = 0;
		return 0;
	}
	CALL_RETURN(-ENOPROTOOPT);
}

static long
call_receive(int fd, void *bytes, size_t size, int flags)
{
	struct socket *socket = socket_find(fd);

	if (!socket)
		return -ENOTSOCK;
	if (event_strikes(300, "EINTR of a socket"))
		return -EINTR;
	return socket_receive(socket, bytes, size, flags & MSG_PEEK);
}

CALL(ssize_t, recv, int fd, void *bytes, size_t size, int flags)
{
	CALL_RETURN(call_receive(fd, bytes, size, flags));
}

CALL(ssize_t, recvmsg, int fd, struct msghdr *message, int flags)
{
	(void)message;
	(void)flags;
	trace_fail("recvmsg() on %d is not simulated", fd);
}

static long
call_send(int fd, const void *bytes, size_t size)
{
	struct socket *socket = socket_find(fd);

	if (!socket)
		return -ENOTSOCK;
	if (event_strikes(300, "EINTR of a socket"))
		return -EINTR;
	return socket_transmit(socket, bytes, size);
}

CALL(ssize_t, send, int fd, const void *bytes, size_t size, int flags)
{
	(void)flags;
	CALL_RETURN(call_send(fd, bytes, size));
}

CALL(ssize_t, sendto, int fd, const void *bytes, size_t size, int flags,
     const struct sockaddr *address, socklen_t length)
{
	(void)flags;
	(void)address;
	(void)length;
	CALL_RETURN(call_send(fd, bytes, size));
}

CALL(ssize_t, sendmsg, int fd, const struct msghdr *message, int flags)
{
	size_t done = 0;

	(void)flags;
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *iov = &message->msg_iov[i];
		const long n = iov->iov_len ? call_send(fd, iov->iov_base, iov->iov_len) : 0;

		if (n < 0 && !done)
			CALL_RETURN(n);
		if (n < 0)
			break;
		done += (size_t)n;
		if ((size_t)n < iov->iov_len)
			break;
	}
	return (ssize_t)done;
}

CALL(int, shutdown, int fd, int how)
{
	struct socket *socket = socket_find(fd);

	if (!socket)
		CALL_RETURN(-ENOTSOCK);
	if (how != SHUT_RD)
		socket_send_end(socket, false);
	if (how != SHUT_WR && socket->input.end_at == FOR_EVER) {
		socket->input.end_at = scheduler_now();
	}
	return 0;
}

/* The only address is 127.0.0.1. */
CALL(int, getaddrinfo, const char *host, const char *service, const struct addrinfo *hints,
     struct addrinfo **found)
{
	static struct sockaddr_in address;
	static struct addrinfo only;

	(void)host;
	(void)hints;
	address = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(service)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	only = (struct addrinfo){
		.ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_addr = (struct sockaddr *)&address,
		.ai_addrlen = sizeof(address),
	};
	*found = &only;
	return 0;
}

CALL(void, freeaddrinfo, struct addrinfo *found)
{
	(void)found;
}

CALL(int, getnameinfo, const struct sockaddr *address, socklen_t length, char *host,
     socklen_t host_size, char *service, socklen_t service_size, int flags)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;

	(void)length;
	(void)flags;
	inet_ntop(AF_INET, &in->sin_addr, host, (socklen_t)host_size);
	snprintf(service, service_size, "%u", ntohs(in->sin_port));
	return 0;
}
