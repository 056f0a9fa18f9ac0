/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each direction of a connection has one batch of bytes on its way.  The next is received when that
 * was sent: so whoever sends faster than the other side receives is slowed down by its own socket.
 */
#include "tool/link/proxy.h"

#include "common/log.h"
#include "nbd/protocol.h"
#include "nbd/tls/session.h"
#include "nbd/wire.h"

#include <errno.h>
#include <glib.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	BATCH_RECORDS = 8,
	BATCH = BATCH_RECORDS * TLS_RECORD_DATA, /* bytes */
	MOVES = 64,  /* of one connection, before others have their turn */
	EVENTS = 64, /* taken from the kernel at once */
};

/* One of its two sockets. */
struct end {
	struct link *link;
	int fd;
	bool ready; /* may have bytes to be received */
	bool hung;  /* no more of them will come than those that are there */
};

/* Where the kernel's stream of requests stands. */
struct requests {
	uint8_t header[NBD_REQUEST_SIZE];
	size_t have;          /* bytes of the header */
	size_t payload;       /* bytes of a write's data that are still to come */
	bool disconnect_last; /* the last request is NBD_CMD_DISC: the device is being detached */
};

struct link {
	struct end kernel, server;
	struct tls_session *session;
	const char *place;
	bool again;    /* it has had its turn, and can go on */
	bool over;     /* both sockets are closed */
	bool goodbye;  /* TLS's own end is in `sealed` */
	bool finished; /* the server is gone; the kernel gets what has come */
	struct requests requests;
	/* From the kernel to the server; clear[clear_at...clear_end - 1] is to be encrypted, and
	 * sealed, but for the first `sent` bytes, to be sent. */
	size_t clear_at, clear_end;
	struct nbd_output sealed;
	size_t sent;
	/* From the server to the kernel; opened[opened_at...opened_end - 1] is to be sent. */
	struct tls_input input; /* in .received */
	size_t opened_at, opened_end;
	uint8_t clear[BATCH], sealed_room[BATCH_RECORDS * TLS_ROOM];
	uint8_t received[BATCH], opened[BATCH];
};

/* ---- the end of a connection */

static void
close_end(struct end *end)
{
	close(end->fd);
	end->fd = -1;
}

static void
end_link(struct link *link)
{
	close_end(&link->kernel);
	close_end(&link->server);
	tls_session_free(link->session);
	link->session = NULL;
	link->over = true;
}

static void
link_fail_in_tls(struct link *link)
{
	log_error("%s: TLS: %s", link->place, tls_session_reason(link->session));
	link->finished = true;
}

/* ---- requests */

static void
end_header(struct requests *requests)
{
	const unsigned int type = wire_load16(requests->header + 6);

	requests->have = 0;
	requests->disconnect_last = type == NBD_CMD_DISC;
	if (type == NBD_CMD_WRITE)
		requests->payload = wire_load32(requests->header + 24);
}

static void
requests_follow(struct requests *requests, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		const bool payload = requests->payload > 0;
		const size_t left = payload ? requests->payload
					    : sizeof(requests->header) - requests->have,
			     n = MIN(length, left);

		if (payload) {
			requests->payload -= n;
		} else {
			memcpy(requests->header + requests->have, bytes, n);
			requests->have += n;
		}
		if (!payload && n == left)
			end_header(requests);
		bytes += n;
		length -= n;
	}
}

/* ---- sockets */

/* The number of bytes; 0: none, now; -1: it has ended. */
static ssize_t
end_receive(struct end *end, uint8_t *bytes, size_t size)
{
	ssize_t n = recv(end->fd, bytes, size, MSG_DONTWAIT);

	if (n > 0) {
		/* After fewer bytes than there was room for, the socket is empty, and epoll tells
		 * when that changes. */
		end->ready = (size_t)n == size || end->hung;
		return n;
	}
	if (n < 0 && errno == EINTR)
		return 0;
	end->ready = false;
	if (n < 0 && errno == EAGAIN && !end->hung)
		return 0;
	end->hung = true;
	return -1;
}

/* The number of bytes that were sent; -1: it has ended. */
static ssize_t
end_transmit(const struct end *end, const uint8_t *bytes, size_t length)
{
	ssize_t n = send(end->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return n;
}

/* ---- to the server; each function returns whether something was done */

static bool
send_sealed(struct link *link)
{
	ssize_t n = end_transmit(&link->server, link->sealed.bytes + link->sent,
				 link->sealed.used - link->sent);

	link->finished = link->finished || n < 0;
	if (n <= 0)
		return n < 0;
	link->sent += (size_t)n;
	if (link->sent == link->sealed.used)
		link->sent = link->sealed.used = 0;
	return true;
}

/* The kernel sends a write's header before its data: one record for both is less work for either
 * side than two. */
static bool
is_worth_a_record(const struct link *link)
{
	const struct requests *requests = &link->requests;

	return (requests->have == 0 && requests->payload == 0) ||
	       link->clear_end - link->clear_at >= TLS_RECORD_DATA ||
	       link->clear_end == sizeof(link->clear);
}

static bool
link_seal(struct link *link)
{
	size_t taken;

	if (tls_session_write(link->session, link->clear + link->clear_at,
			      link->clear_end - link->clear_at, &taken, &link->sealed) != TLS_DONE)
		link_fail_in_tls(link);
	link->clear_at += taken;
	if (link->clear_at == link->clear_end)
		link->clear_at = link->clear_end = 0;
	return true;
}

static bool
receive_clear(struct link *link)
{
	uint8_t *place = link->clear + link->clear_end;
	ssize_t n = end_receive(&link->kernel, place, sizeof(link->clear) - link->clear_end);

	if (n <= 0)
		return n < 0;
	link->clear_end += (size_t)n;
	requests_follow(&link->requests, place, (size_t)n);
	return true;
}

/* The kernel is gone.  It has said so if the device was detached; then the server hears it, too.
 * Else the kernel sends again what was not answered, on another connection.  What waits here and in
 * the socket may not reach the server after that: it could be an old write onto a newer one. */
static bool
take_leave(struct link *link)
{
	const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	while (!link->requests.disconnect_last && link->clear_end < sizeof(link->clear) &&
	       receive_clear(link) && link->kernel.ready)
		;
	if (!link->requests.disconnect_last) {
		setsockopt(link->server.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		end_link(link);
	}
	return true;
}

static bool
say_goodbye(struct link *link)
{
	if (link->goodbye) {
		end_link(link);
	} else {
		tls_session_close(link->session, &link->sealed);
		link->goodbye = true;
	}
	return true;
}

static bool
go_up(struct link *link)
{
	struct pollfd state = {.fd = link->kernel.fd, .events = POLLRDHUP};

	/* Asks the socket, and not epoll's events: they are older if this process has waited for a
	 * processor since. */
	if (link->sent < link->sealed.used && poll(&state, 1, 0) > 0)
		link->kernel.hung = link->kernel.ready = true;
	if (link->kernel.hung && !link->requests.disconnect_last)
		return take_leave(link);
	if (link->sent < link->sealed.used)
		return send_sealed(link);
	if (link->clear_at < link->clear_end && is_worth_a_record(link))
		return link_seal(link);
	if (link->kernel.hung)
		return say_goodbye(link);
	return link->kernel.ready && receive_clear(link);
}

/* ---- to the kernel */

static bool
send_opened(struct link *link)
{
	ssize_t n = end_transmit(&link->kernel, link->opened + link->opened_at,
				 link->opened_end - link->opened_at);

	/* The kernel has hung up, and epoll tells that. */
	link->opened_at = n < 0 ? link->opened_end : link->opened_at + (size_t)n;
	if (link->opened_at == link->opened_end)
		link->opened_at = link->opened_end = 0;
	return n != 0;
}

/* Decrypts all that has come, as far as there is room. */
static bool
open_records(struct link *link)
{
	enum tls_result result = TLS_DONE;
	size_t length;

	while (result == TLS_DONE && link->opened_end < sizeof(link->opened)) {
		result = tls_session_read(link->session, &link->input,
					  link->opened + link->opened_end,
					  sizeof(link->opened) - link->opened_end, &length);
		link->opened_end += length;
	}
	if (result == TLS_FAILED)
		link_fail_in_tls(link);
	link->finished = link->finished || result == TLS_CLOSED;
	return true;
}

static bool
go_down(struct link *link)
{
	ssize_t n;

	if (link->opened_at < link->opened_end)
		return send_opened(link);
	if (link->finished) {
		end_link(link);
		return true;
	}
	if (link->input.length > 0 || tls_session_has_data(link->session))
		return open_records(link);
	if (!link->server.ready)
		return false;
	n = end_receive(&link->server, link->received, sizeof(link->received));
	link->finished = link->finished || n < 0;
	link->input = (struct tls_input){.bytes = link->received, .length = (size_t)MAX(n, 0)};
	return n != 0;
}

/* ---- the loop */

/* Goes on until it has to wait. */
static void
link_advance(struct link *link)
{
	bool moved = true;

	for (unsigned int i = 0; moved && !link->over && i < MOVES; i++) {
		moved = !link->finished && go_up(link);
		moved = (!link->over && go_down(link)) || moved;
	}
	link->again = moved && !link->over;
}

/* Edges only: each connection notes what it has not yet received. */
static bool
end_watch(int epoll, struct end *end)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				    .data.ptr = end};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, end->fd, &event) == 0;
}

static int
begin_link(struct link *link, const struct proxied *connection, const char *place, int epoll)
{
	link->place = place;
	link->session = connection->session;
	link->kernel = (struct end){.link = link, .fd = connection->kernel, .ready = true};
	link->server = (struct end){.link = link, .fd = connection->server, .ready = true};
	link->sealed =
		(struct nbd_output){.bytes = link->sealed_room, .size = sizeof(link->sealed_room)};
	link->again = true;
	return end_watch(epoll, &link->kernel) && end_watch(epoll, &link->server) ? 0 : -errno;
}

/* Returns whether any connection is left, and in *again whether one can go on at once. */
static bool
advance_all(struct link **links, unsigned int count, bool *again)
{
	bool left = false;

	*again = false;
	for (unsigned int i = 0; i < count; i++) {
		if (links[i]->again)
			link_advance(links[i]);
		left = left || !links[i]->over;
		*again = *again || links[i]->again;
	}
	return left;
}

static void
links_serve(int epoll, struct link **links, unsigned int count)
{
	struct epoll_event events[EVENTS];
	bool again;

	while (advance_all(links, count, &again)) {
		int n = epoll_wait(epoll, events, EVENTS, again ? 0 : -1);

		for (int i = 0; i < n; i++) {
			struct end *end = events[i].data.ptr;

			/* A closed socket tells nothing more, but may have told before. */
			if (end->link->over)
				continue;
			end->hung =
				end->hung || events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
			end->ready = end->ready || end->hung || events[i].events & EPOLLIN;
			end->link->again = true;
		}
	}
}

int
proxy_run(const struct proxied *connections, unsigned int count, const char *place)
{
	struct link **links = g_new(struct link *, count);
	int epoll = epoll_create1(EPOLL_CLOEXEC), r = epoll < 0 ? -errno : 0;

	for (unsigned int i = 0; i < count; i++) {
		int begun;

		links[i] = g_new0(struct link, 1);
		begun = begin_link(links[i], &connections[i], place, epoll);
		r = r ? r : begun;
	}
	if (r == 0)
		links_serve(epoll, links, count);
	for (unsigned int i = 0; i < count; i++) {
		if (!links[i]->over)
			end_link(links[i]);
		g_free(links[i]);
	}
	g_free(links);
	if (epoll >= 0)
		close(epoll);
	return r;
}
