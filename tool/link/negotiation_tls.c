/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/negotiation_tls.h"

#include "nbd/tls/ktls.h"
#include "nbd/tls/session.h"

#include <glib.h>

#include <stdio.h>
#include <string.h>

struct negotiation_tls {
	struct tls_session *session;
	bool secured;           /* the TLS handshake has ended */
	bool asked;             /* the NBD handshake goes on inside */
	struct tls_input input; /* in .received */
	char reason[NBD_STRING_MAX + 256];
	uint8_t received[4096];
};

struct negotiation_tls *
negotiation_tls_new(const struct negotiation_aim *aim)
{
	struct negotiation_tls *tls = g_new0(struct negotiation_tls, 1);

	if (tls_session_new(&tls->session, aim->credentials, aim->hostname) == 0)
		return tls;
	g_free(tls);
	return NULL;
}

void
negotiation_tls_free(struct negotiation_tls *tls)
{
	if (!tls)
		return;
	tls_session_free(tls->session);
	g_free(tls);
}

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

enum negotiation_tls_result
negotiation_tls_step(struct negotiation_tls *tls, struct nbd_client_handshake *handshake,
		     struct nbd_output *output)
{
	if (!tls->secured)
		return shake_hands(tls, output);
	return tls->asked ? tls_hear(tls, handshake, output) : tls_ask(tls, handshake, output);
}

uint8_t *
negotiation_tls_room(struct negotiation_tls *tls, size_t *size)
{
	*size = sizeof(tls->received);
	return tls->received;
}

void
negotiation_tls_received(struct negotiation_tls *tls, size_t length)
{
	tls->input = (struct tls_input){.bytes = tls->received, .length = length};
}

/* The server speaks only when it is asked now, so nothing may be left: whatever it is, the kernel
 * would take it for the beginning of a reply, or of a record. */
static bool
has_rest(const struct negotiation_tls *tls)
{
	return tls->input.length > 0 || tls_session_has_data(tls->session) ||
	       !tls_session_at_record(tls->session);
}

bool
negotiation_tls_finish(struct negotiation_tls *tls, char *cipher, size_t size)
{
	if (has_rest(tls)) {
		tls_fail(tls, "the server sent more than its answers");
		return false;
	}
	snprintf(cipher, size, "%s", tls_session_describe(tls->session));
	return true;
}

bool
negotiation_tls_hand_over(struct negotiation_tls *tls, int fd, uint64_t *record_limit)
{
	char reason[KTLS_REASON_MAX] = "";
	int r;

	*record_limit = ktls_record_limit(tls->session);
	r = ktls_begin(tls->session, fd, reason);
	if (r == 0)
		return true;
	snprintf(tls->reason, sizeof(tls->reason), "the kernel can't take over TLS (%s): %s",
		 tls_session_describe(tls->session), r < 0 ? g_strerror(-r) : reason);
	return false;
}

struct tls_session *
negotiation_tls_take_session(struct negotiation_tls *tls)
{
	return g_steal_pointer(&tls->session);
}

const char *
negotiation_tls_reason(const struct negotiation_tls *tls)
{
	return tls->reason;
}
