/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/negotiation.h"

#include "server/access/identity.h"
#include "server/connection/conn.h"
#include "server/connection/offer.h"
#include "server/connection/peer.h"
#include "server/connection/throttle.h"

#include "common/cleanup.h"

#include <stdlib.h>

void
negotiation_free(struct conn_negotiation *negotiation)
{
	if (!negotiation)
		return;
	free(negotiation->applicant.refused);
	free(negotiation->applicant.rule);
	free(negotiation);
}

void
negotiation_end(struct conn *conn)
{
	const struct nbd_handshake *handshake =
		conn->negotiation ? &conn->negotiation->handshake : NULL;

	/* A handshake that ended with a reason was told by that. */
	if (handshake && handshake->needs_tls && !handshake->secure && !handshake->reason)
		conn_warn(conn, "TLS is required, and the client did not begin it (its URI would "
				"begin with nbds)");
	negotiation_free(steal_pointer(&conn->negotiation));
}

static void
negotiation_send_output(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;

	conn->outbox.parts[0] = (struct iovec){negotiation->bytes, negotiation->output.used};
	transport_send(&conn->transport, conn->outbox.parts, 1);
}

void
negotiation_start(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;
	struct nbd_handshake_config config = conn->worker->config->handshake;

	negotiation->applicant = (struct applicant){.exports = conn->worker->config->exports,
						    .identity = conn->identity};
	config.data = &negotiation->applicant;
	/* A private client may use the control socket, too; and a client with a key may still show
	 * it. */
	if (config.tls == NBD_TLS_REQUIRED &&
	    (conn->identity->private ||
	     (conn->worker->config->tls_spares_unix && conn->identity->kind == IDENTITY_UNIX)))
		config.tls = NBD_TLS_ALLOWED;
	negotiation->output = (struct nbd_output){.bytes = negotiation->bytes,
						  .size = sizeof(negotiation->bytes)};
	nbd_handshake_init(&negotiation->handshake, &config);
	nbd_handshake_greet(&negotiation->handshake, &negotiation->output);
	negotiation_send_output(conn);
}

static void
negotiation_set_limits(struct conn *conn)
{
	const struct worker_config *config = conn->worker->config;
	struct limiter *limiters[LIMIT_SCOPES] = {NULL};

	if (config->limiters)
		config->limiters(config->exports, conn->offer, conn->client, limiters);
	throttle_set_limiters(conn, limiters);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++)
		limiter_release(limiters[scope]);
}

static void
negotiation_end_handshake(struct conn *conn, enum nbd_handshake_result result)
{
	const struct nbd_handshake *handshake = &conn->negotiation->handshake;

	if (result == NBD_HANDSHAKE_TRANSMISSION) {
		conn->queue.session = handshake->session;
		/* Some clients send longer requests than they are told to, as other servers take
		 * them. */
		conn->queue.session.max_payload =
			(uint32_t)buffers_longest(&conn->queue.pool->buffers);
		conn->offer = offer_of(handshake->session.export);
		conn->client = conn->negotiation->applicant.client;
		conn->negotiation->finished = true;
		negotiation_set_limits(conn);
		/* Notes the changes so far: others change the image from now on. */
		peer_may_change(conn);
		return;
	}
	if (result == NBD_HANDSHAKE_STARTTLS) {
		conn->negotiation->secures = true;
		return;
	}
	/* The exports have logged a refusal of the export that the client asked for. */
	if (handshake->reason &&
	    !(handshake->option == NBD_OPT_EXPORT_NAME && conn->negotiation->applicant.was_refused))
		conn_warn(conn, handshake->reason);
	conn_close(conn);
}

bool
negotiation_waits(const struct conn *conn)
{
	return transport_sends(&conn->transport) || conn->negotiation->look;
}

enum negotiation_next
negotiation_feed(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;
	struct intake *intake = &conn->intake;
	enum nbd_handshake_result result;
	size_t consumed;

	if (negotiation_waits(conn) || negotiation->finished || negotiation->secures ||
	    conn_is_closing(conn))
		return NEGOTIATION_WAITS;
	result = nbd_handshake_feed(&negotiation->handshake, intake->bytes + intake->start,
				    intake_length(intake), &consumed, &negotiation->output);
	intake_take(intake, consumed);
	intake_rewind(intake);
	if (result != NBD_HANDSHAKE_MORE && result != NBD_HANDSHAKE_FULL &&
	    result != NBD_HANDSHAKE_WAITS)
		negotiation_end_handshake(conn, result);
	if (negotiation->output.used > 0) {
		negotiation_send_output(conn);
		return NEGOTIATION_WAITS;
	}
	if (result == NBD_HANDSHAKE_WAITS)
		return NEGOTIATION_LOOKS;
	return negotiation->finished ? NEGOTIATION_OVER : NEGOTIATION_RECEIVES;
}

enum negotiation_next
negotiation_sent(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;

	negotiation->output.used = 0;
	if (negotiation->secures)
		return conn_is_closing(conn) ? NEGOTIATION_WAITS : NEGOTIATION_SECURES;
	return negotiation->finished ? NEGOTIATION_OVER : negotiation_feed(conn);
}

void
negotiation_secured(struct conn *conn)
{
	struct applicant *applicant = &conn->negotiation->applicant;

	/* Nothing stays of what was negotiated in clear. */
	free(steal_pointer(&applicant->refused));
	applicant->was_refused = false;
	conn->negotiation->secures = false;
	nbd_handshake_secured(&conn->negotiation->handshake);
}
