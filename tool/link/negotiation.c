/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/negotiation.h"

#include "tool/link/negotiation_tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* How soon connect() is called again for a unix socket whose backlog is full, in milliseconds: the
 * kernel doesn't tell when there is room. */
#define QUEUE_MS 10

static void
negotiation_fail(struct negotiation *negotiation, const char *reason)
{
	negotiation->state = NEGOTIATION_FAILED;
	negotiation->reason = g_strdup(reason);
	close(negotiation->fd);
	negotiation->fd = -1;
}

void
negotiation_begin(struct negotiation *negotiation, int fd, const struct negotiation_aim *aim)
{
	negotiation->fd = fd;
	negotiation->state = NEGOTIATION_GOES_ON;
	negotiation->reason = NULL;
	negotiation->aim = aim;
	negotiation->sent = 0;
	negotiation->tls = NULL;
	negotiation->cipher[0] = '\0';
	negotiation->record_limit = 0;
	negotiation->output =
		(struct nbd_output){.bytes = negotiation->room, .size = sizeof(negotiation->room)};
	nbd_client_handshake_init(&negotiation->handshake, aim->export, aim->credentials != NULL);
}

static void
try_to_connect(struct negotiation *negotiation)
{
	const struct nbd_address *address = negotiation->address;

	if (connect(negotiation->fd, (const struct sockaddr *)&address->address, address->length) ==
		    0 ||
	    errno == EINPROGRESS)
		negotiation->state = NEGOTIATION_CONNECTING;
	else if (errno == EAGAIN && address->address.ss_family == AF_UNIX)
		negotiation->state = NEGOTIATION_IS_QUEUED;
	else
		negotiation_fail(negotiation, g_strerror(errno));
}

void
negotiation_connect(struct negotiation *negotiation, const struct nbd_address *address,
		    const struct negotiation_aim *aim)
{
	const int on = 1;
	int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	negotiation_begin(negotiation, fd, aim);
	negotiation->address = address;
	if (fd < 0) {
		negotiation_fail(negotiation, g_strerror(errno));
		return;
	}
	/* A request is sent at once, and not with the next one. */
	if (address->address.ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	try_to_connect(negotiation);
}

/* Once the socket can be written to. */
static void
finish_connecting(struct negotiation *negotiation)
{
	struct pollfd news = {.fd = negotiation->fd, .events = POLLOUT};
	socklen_t length = sizeof(int);
	int err = 0;

	if (poll(&news, 1, 0) <= 0)
		return;
	if (getsockopt(negotiation->fd, SOL_SOCKET, SO_ERROR, &err, &length) < 0)
		err = errno;
	if (err)
		negotiation_fail(negotiation, g_strerror(err));
	else
		negotiation->state = NEGOTIATION_GOES_ON;
}

/* Why a connection is over: `err`, 0 at the end of the stream.  Servers seldom say why they end a
 * TLS handshake, so that nobody can try out users and keys. */
static const char *
explain_end(const struct negotiation *negotiation, int err)
{
	if (negotiation->tls && (err == 0 || err == ECONNRESET || err == EPIPE))
		return "the server closed the connection in the TLS handshake: it may not accept the "
		       "key or certificate, and its log may say why";
	return err ? g_strerror(err) : "the server closed the connection";
}

/* Whether all output was sent. */
static bool
negotiation_send(struct negotiation *negotiation)
{
	struct nbd_output *output = &negotiation->output;
	ssize_t n;

	if (output->used == 0)
		return true;
	n = send(negotiation->fd, output->bytes + negotiation->sent,
		 output->used - negotiation->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		negotiation_fail(negotiation, explain_end(negotiation, errno));
	if (n < 0)
		return false;
	negotiation->sent += (size_t)n;
	if (negotiation->sent < output->used)
		return false;
	output->used = negotiation->sent = 0;
	return true;
}

/* Whether bytes have come; *length of them. */
static bool
negotiation_receive(struct negotiation *negotiation, uint8_t *bytes, size_t size, size_t *length)
{
	ssize_t n = recv(negotiation->fd, bytes, size, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		negotiation_fail(negotiation, explain_end(negotiation, n < 0 ? errno : 0));
		return false;
	}
	*length = (size_t)n;
	return true;
}

/* The result of a handshake, after each feeding. */
static void
take_result(struct negotiation *negotiation, enum nbd_client_result result)
{
	switch (result) {
	case NBD_CLIENT_MORE: break;
	case NBD_CLIENT_READY: negotiation->state = NEGOTIATION_READY; break;
	case NBD_CLIENT_FAILED: negotiation_fail(negotiation, negotiation->handshake.reason); break;
	case NBD_CLIENT_TLS:
		negotiation->tls = negotiation_tls_new(negotiation->aim);
		if (!negotiation->tls)
			negotiation_fail(negotiation, g_strerror(ENOMEM));
		break;
	}
}

static bool
step_in_the_clear(struct negotiation *negotiation)
{
	uint8_t bytes[4096];
	size_t length;

	if (!negotiation_receive(negotiation, bytes, sizeof(bytes), &length))
		return false;
	take_result(negotiation, nbd_client_handshake_feed(&negotiation->handshake, bytes, length,
							   &negotiation->output));
	return true;
}

/* The server may want to know why.  It doesn't matter whether it gets that. */
static void
send_alert(struct negotiation *negotiation)
{
	if (negotiation->output.used > 0)
		send(negotiation->fd, negotiation->output.bytes, negotiation->output.used,
		     MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The keys go to the kernel, or stay here for a proxy. */
static bool
finish_tls(struct negotiation *negotiation)
{
	struct negotiation_tls *tls = negotiation->tls;

	if (!negotiation_tls_finish(tls, negotiation->cipher, sizeof(negotiation->cipher)))
		return false;
	return negotiation->aim->proxy ||
	       negotiation_tls_hand_over(tls, negotiation->fd, &negotiation->record_limit);
}

static bool
step_in_tls(struct negotiation *negotiation)
{
	struct negotiation_tls *tls = negotiation->tls;
	size_t size, length;
	uint8_t *place;

	switch (negotiation_tls_step(tls, &negotiation->handshake, &negotiation->output)) {
	case NEGOTIATION_TLS_SENDS: return true;
	case NEGOTIATION_TLS_RECEIVES:
		place = negotiation_tls_room(tls, &size);
		if (!negotiation_receive(negotiation, place, size, &length))
			return false;
		negotiation_tls_received(tls, length);
		return true;
	case NEGOTIATION_TLS_READY:
		if (finish_tls(negotiation)) {
			negotiation->state = NEGOTIATION_READY;
			return false;
		}
		break;
	case NEGOTIATION_TLS_FAILED: break;
	}
	send_alert(negotiation);
	negotiation_fail(negotiation, negotiation_tls_reason(tls));
	return false;
}

void
negotiation_advance(struct negotiation *negotiation)
{
	if (negotiation->state == NEGOTIATION_IS_QUEUED)
		try_to_connect(negotiation);
	if (negotiation->state == NEGOTIATION_CONNECTING)
		finish_connecting(negotiation);
	while (negotiation->state == NEGOTIATION_GOES_ON && negotiation_send(negotiation) &&
	       (negotiation->tls ? step_in_tls(negotiation) : step_in_the_clear(negotiation)))
		;
}

void
negotiation_refuse(struct negotiation *negotiation, const char *reason)
{
	negotiation_fail(negotiation, reason);
}

void
negotiations_wait(const struct negotiation *all, unsigned int count, gint64 until)
{
	g_autofree struct pollfd *fds = g_new0(struct pollfd, count);
	bool queued = false;
	gint64 left = until == G_MAXINT64 ? -1 : MAX(until - g_get_monotonic_time(), 0) / 1000 + 1;

	for (unsigned int i = 0; i < count; i++) {
		const bool connecting = all[i].state == NEGOTIATION_CONNECTING;
		const bool goes_on = all[i].state == NEGOTIATION_GOES_ON;

		fds[i].fd = connecting || goes_on ? all[i].fd : -1;
		fds[i].events = connecting || all[i].output.used > 0 ? POLLOUT : POLLIN;
		queued = queued || all[i].state == NEGOTIATION_IS_QUEUED;
	}
	if (queued && (left < 0 || left > QUEUE_MS))
		left = QUEUE_MS;
	poll(fds, count, (int)left);
}

int
negotiation_take(struct negotiation *negotiation)
{
	int fd = negotiation->fd;

	negotiation->fd = -1;
	return fd;
}

struct tls_session *
negotiation_take_session(struct negotiation *negotiation)
{
	return negotiation->tls && negotiation->aim->proxy
		       ? negotiation_tls_take_session(negotiation->tls)
		       : NULL;
}

void
negotiation_end(struct negotiation *negotiation)
{
	if (negotiation->fd >= 0)
		close(negotiation->fd);
	negotiation_tls_free(negotiation->tls);
	g_free(negotiation->reason);
}
