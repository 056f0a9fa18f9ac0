/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/negotiation.h"

#include "nbd/client_handshake.h"
#include "nbd/tls/ktls.h"
#include "nbd/tls/session.h"

#include <errno.h>
#include <glib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * ---- inside of TLS: the TLS handshake, the rest of the NBD handshake, and the hand-over of the
 * keys to the kernel, or of the session.  Uses the socket only to hand over the keys.
 */

enum negotiation_tls_result {
	NEGOTIATION_TLS_SENDS,    /* all output is to be sent before the next step */
	NEGOTIATION_TLS_RECEIVES, /* bytes must come before the next step */
	NEGOTIATION_TLS_READY,    /* the NBD handshake has ended */
	NEGOTIATION_TLS_FAILED,   /* .reason says why */
};

struct negotiation_tls {
	struct tls_session *session;
	bool secured;                      /* the TLS handshake has ended */
	bool asked;                        /* the NBD handshake goes on inside */
	struct tls_input input;            /* in .received */
	char reason[NBD_STRING_MAX + 256]; /* a sentence */
	uint8_t received[4096];
};

static enum negotiation_tls_result
tls_fail(struct negotiation_tls *tls, const char *reason)
{
	snprintf(tls->reason, sizeof(tls->reason), "%s", reason);
	return NEGOTIATION_TLS_FAILED;
}

/* GnuTLS's words are whole sentences, here they are a part of one. */
static enum negotiation_tls_result
tls_fail_by_library(struct negotiation_tls *tls)
{
	const char *reason = tls_session_reason(tls->session);
	size_t length = strlen(reason);

	while (length > 0 && strchr(". ", reason[length - 1]))
		length--;
	snprintf(tls->reason, sizeof(tls->reason), "TLS: %.*s", (int)length, reason);
	return NEGOTIATION_TLS_FAILED;
}

/* After TLS_MORE: what was said is sent first. */
static enum negotiation_tls_result
send_or_receive(const struct nbd_output *output)
{
	return output->used > 0 ? NEGOTIATION_TLS_SENDS : NEGOTIATION_TLS_RECEIVES;
}

static enum negotiation_tls_result
shake_hands(struct negotiation_tls *tls, struct nbd_output *output)
{
	switch (tls_session_handshake(tls->session, &tls->input, output)) {
	case TLS_DONE: tls->secured = true; return NEGOTIATION_TLS_SENDS;
	case TLS_MORE: return send_or_receive(output);
	case TLS_FULL: return NEGOTIATION_TLS_SENDS;
	case TLS_CLOSED:
	case TLS_FAILED: break;
	}
	return tls_fail_by_library(tls);
}

/* Encrypts what the NBD handshake says; it fits in one record. */
static bool
tls_encrypt(struct negotiation_tls *tls, const struct nbd_output *clear, struct nbd_output *output)
{
	size_t taken;

	return clear->used == 0 || (tls_session_write(tls->session, clear->bytes, clear->used,
						      &taken, output) == TLS_DONE &&
				    taken == clear->used);
}

static enum negotiation_tls_result
tls_ask(struct negotiation_tls *tls, struct nbd_client_handshake *handshake,
	struct nbd_output *output)
{
	uint8_t room[NBD_CLIENT_ROOM];
	struct nbd_output clear = {.bytes = room, .size = sizeof(room)};

	nbd_client_handshake_secured(handshake, &clear);
	tls->asked = true;
	return tls_encrypt(tls, &clear, output) ? NEGOTIATION_TLS_SENDS : tls_fail_by_library(tls);
}

static enum negotiation_tls_result
tls_feed(struct negotiation_tls *tls, const uint8_t *bytes, size_t length,
	 struct nbd_client_handshake *handshake, struct nbd_output *output)
{
	uint8_t room[NBD_CLIENT_ROOM];
	struct nbd_output clear = {.bytes = room, .size = sizeof(room)};

	switch (nbd_client_handshake_feed(handshake, bytes, length, &clear)) {
	case NBD_CLIENT_MORE:
		return tls_encrypt(tls, &clear, output) ? NEGOTIATION_TLS_SENDS
							: tls_fail_by_library(tls);
	case NBD_CLIENT_READY: return NEGOTIATION_TLS_READY;
	case NBD_CLIENT_FAILED:
	case NBD_CLIENT_TLS: break;
	}
	return tls_fail(tls, handshake->reason);
}

static enum negotiation_tls_result
tls_hear(struct negotiation_tls *tls, struct nbd_client_handshake *handshake,
	 struct nbd_output *output)
{
	uint8_t bytes[4096];
	size_t length;

	switch (tls_session_read(tls->session, &tls->input, bytes, sizeof(bytes), &length)) {
	case TLS_DONE: return tls_feed(tls, bytes, length, handshake, output);
	case TLS_MORE: return send_or_receive(output);
	case TLS_FULL: return NEGOTIATION_TLS_SENDS;
	case TLS_CLOSED: return tls_fail(tls, "the server closed the connection");
	case TLS_FAILED: break;
	}
	return tls_fail_by_library(tls);
}

/* ---- the connection */

/* How soon connect() is called again for a unix socket whose backlog is full, in milliseconds: the
 * kernel doesn't tell when there is room. */
#define QUEUE_MS 10

void
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
		negotiation->tls = g_new0(struct negotiation_tls, 1);
		if (tls_session_new(&negotiation->tls->session, negotiation->aim->credentials,
				    negotiation->aim->hostname) != 0)
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

/* After READY, and before another byte is received.  The keys go to the kernel, or stay here for a
 * proxy. */
static bool
finish_tls(struct negotiation *negotiation)
{
	struct negotiation_tls *tls = negotiation->tls;
	char reason[KTLS_REASON_MAX] = "";
	int r;

	/* The server speaks only when it is asked now, so nothing may be left: whatever it is, the
	 * kernel would take it for the beginning of a reply, or of a record. */
	if (tls->input.length > 0 || tls_session_has_data(tls->session) ||
	    !tls_session_at_record(tls->session)) {
		tls_fail(tls, "the server sent more than its answers");
		return false;
	}
	snprintf(negotiation->cipher, sizeof(negotiation->cipher), "%s",
		 tls_session_describe(tls->session));
	if (negotiation->aim->proxy)
		return true;
	negotiation->record_limit = ktls_record_limit(tls->session);
	r = ktls_begin(tls->session, negotiation->fd, reason);
	if (r != 0)
		snprintf(tls->reason, sizeof(tls->reason),
			 "the kernel can't take over TLS (%s): %s", negotiation->cipher,
			 r < 0 ? g_strerror(-r) : reason);
	return r == 0;
}

static bool
step_in_tls(struct negotiation *negotiation)
{
	struct negotiation_tls *tls = negotiation->tls;
	struct nbd_client_handshake *handshake = &negotiation->handshake;
	struct nbd_output *output = &negotiation->output; /* empty */
	size_t length;

	switch (!tls->secured ? shake_hands(tls, output)
		: tls->asked  ? tls_hear(tls, handshake, output)
			      : tls_ask(tls, handshake, output)) {
	case NEGOTIATION_TLS_SENDS: return true;
	case NEGOTIATION_TLS_RECEIVES:
		if (!negotiation_receive(negotiation, tls->received, sizeof(tls->received),
					 &length))
			return false;
		tls->input = (struct tls_input){.bytes = tls->received, .length = length};
		return true;
	case NEGOTIATION_TLS_READY:
		if (finish_tls(negotiation)) {
			negotiation->state = NEGOTIATION_READY;
			return false;
		}
		break;
	case NEGOTIATION_TLS_FAILED: break;
	}
	/* The server may want to know why.  It doesn't matter whether it gets that. */
	if (output->used > 0)
		send(negotiation->fd, output->bytes, output->used, MSG_NOSIGNAL | MSG_DONTWAIT);
	negotiation_fail(negotiation, tls->reason);
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
		       ? g_steal_pointer(&negotiation->tls->session)
		       : NULL;
}

void
negotiation_end(struct negotiation *negotiation)
{
	if (negotiation->fd >= 0)
		close(negotiation->fd);
	if (negotiation->tls)
		tls_session_free(negotiation->tls->session); /* wipes the keys */
	g_free(negotiation->tls);
	g_free(negotiation->reason);
}
