/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source_connection.h"

#include "tool/failure.h"
#include "tool/link/negotiation.h"

#include "nbd/protocol.h"
#include "nbd/tls/ktls.h"
#include "nbd/tls/session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Takes a large request at once; with Linux's default of 208 KiB, the sender would wait for the
 * receiver. */
#define SEND_BUFFER (2 << 20)

/* Bytes of a record of the server: see source_connection_bytes_left(). */
#define SERVER_RECORD 4096

/* Between two looks at something else. */
#define LOOK_US 200000

static void
take_over(struct source_connection *connection, struct negotiation *negotiation)
{
	int buffer = SEND_BUFFER, fd = negotiation_take(negotiation);

	/* Beyond net.core.wmem_max, for which it needs the privilege that we have; what isn't
	 * possible is only slower. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	*connection = (struct source_connection){
		.fd = fd,
		.session = negotiation_take_session(negotiation),
		.most_bytes = ktls_bytes(negotiation->record_limit),
		.export = export_facts_of(&negotiation->handshake),
	};
	if (*negotiation->cipher)
		g_snprintf(connection->tls, sizeof(connection->tls), "%s %s", negotiation->cipher,
			   connection->session ? "proxy" : "kernel");
}

/* ---- several at once */

struct negotiations {
	unsigned int count, begun; /* of .all; the others are not begun yet */
	struct negotiation *all;
};

static void
negotiations_init(struct negotiations *negotiations, unsigned int count)
{
	*negotiations = (struct negotiations){
		.count = count,
		.all = g_new(struct negotiation, count),
	};
}

static void
negotiations_fini(struct negotiations *negotiations)
{
	for (unsigned int i = 0; i < negotiations->begun; i++)
		negotiation_end(&negotiations->all[i]);
	g_free(negotiations->all);
}

/* When a negotiation is to be over. */
struct deadline {
	gint64 end; /* g_get_monotonic_time(); G_MAXINT64: never */
	unsigned int limit_ms;
};

static struct deadline
deadline_after(unsigned int limit_ms)
{
	return (struct deadline){g_get_monotonic_time() + limit_ms * G_GINT64_CONSTANT(1000),
				 limit_ms};
}

/* `reasons`: of the addresses that have failed; or "". */
static bool
timed_out(const struct deadline *deadline, const char *reasons, GError **error)
{
	return g_get_monotonic_time() >= deadline->end &&
	       !failure(error, ETIMEDOUT, "the server hasn't answered for %u seconds%s%s",
			(deadline->limit_ms + 999) / 1000, *reasons ? "; " : "", reasons);
}

/* Until all of them, which have begun, are ready. */
static bool
negotiate_all(struct negotiations *negotiations, const struct deadline *deadline,
	      const struct source_pastime *pastime, GError **error)
{
	for (;;) {
		gint64 until = deadline->end;
		unsigned int ready = 0;

		for (unsigned int i = 0; i < negotiations->begun; i++) {
			struct negotiation *one = &negotiations->all[i];

			negotiation_advance(one);
			if (one->state == NEGOTIATION_FAILED)
				return failure(error, EPROTO, "%s", one->reason);
			ready += one->state == NEGOTIATION_READY;
		}
		if (ready == negotiations->begun)
			return true;
		if (timed_out(deadline, "", error))
			return false;
		if (pastime) {
			pastime->look(pastime->data);
			until = MIN(until, g_get_monotonic_time() + LOOK_US);
		}
		negotiations_wait(negotiations->all, negotiations->begun, until);
	}
}

static void
take_all(struct source_connection *const *connections, struct negotiations *negotiations)
{
	for (unsigned int i = 0; i < negotiations->begun; i++)
		take_over(connections[i], &negotiations->all[i]);
}

bool
source_connections_over_sockets(struct source_connection *const *connections, const int *fds,
				unsigned int count, unsigned int limit_ms,
				const struct source_pastime *pastime, GError **error)
{
	const struct negotiation_aim aim = {.export = ""};
	const struct deadline deadline =
		limit_ms ? deadline_after(limit_ms) : (struct deadline){.end = G_MAXINT64};
	struct negotiations negotiations;
	GError *why = NULL;
	bool done;

	negotiations_init(&negotiations, count);
	for (; negotiations.begun < count; negotiations.begun++)
		negotiation_begin(&negotiations.all[negotiations.begun], fds[negotiations.begun],
				  &aim);
	done = negotiate_all(&negotiations, &deadline, pastime, &why);
	if (done)
		take_all(connections, &negotiations);
	else if (failure_is(why, ETIMEDOUT))
		g_propagate_error(error, why);
	else
		g_propagate_prefixed_error(error, why, "the server ended the negotiation: ");
	negotiations_fini(&negotiations);
	return done;
}

/* ---- one of several servers, by its addresses */

/* The first that is ready, or NULL with the reasons of those that have failed.  *open: how many may
 * still be. */
static struct negotiation *
find_ready(struct negotiations *negotiations, const struct source_targets *targets,
	   unsigned int *open, GString *reasons)
{
	*open = 0;
	g_string_assign(reasons, targets->unknown->str);
	for (unsigned int i = 0; i < negotiations->begun; i++) {
		const struct source_server *server = source_targets_server(targets, i);
		struct negotiation *one = &negotiations->all[i];

		negotiation_advance(one);
		if (one->state == NEGOTIATION_READY) {
			const struct export_facts facts = export_facts_of(&one->handshake);
			g_autoptr(GError) why = NULL;

			if (!server->device || export_facts_fit(server->device, &facts, &why))
				return one;
			/* It can't take the place of the device's. */
			negotiation_fail(one, why->message);
		}
		if (one->state == NEGOTIATION_FAILED)
			source_server_add_reason(server, reasons, one->reason);
		else
			++*open;
	}
	return NULL;
}

/* Begins with the next target.  Returns when the one after it is to begin. */
static gint64
begin_next(struct negotiations *negotiations, const struct source_targets *targets,
	   unsigned int limit_ms)
{
	const unsigned int i = negotiations->begun++;

	negotiation_connect(&negotiations->all[i],
			    &g_array_index(targets->all, struct source_target, i).address,
			    &source_targets_server(targets, i)->aim);
	return g_get_monotonic_time() +
	       source_targets_head_start(targets, i, limit_ms) * G_GINT64_CONSTANT(1000);
}

/* One target after the other, each a moment after the one before it, or at once when one has
 * failed, until one is ready: its number, or -1. */
static int
negotiate_any(struct negotiations *negotiations, const struct source_targets *targets,
	      const struct deadline *deadline, GError **error)
{
	g_autoptr(GString) reasons = g_string_new(NULL);
	unsigned int open, failed = 0;
	gint64 next = 0;

	for (;;) {
		struct negotiation *ready;

		if (negotiations->begun < negotiations->count && g_get_monotonic_time() >= next)
			next = begin_next(negotiations, targets, deadline->limit_ms);
		ready = find_ready(negotiations, targets, &open, reasons);
		if (ready)
			return (int)(ready - negotiations->all);
		if (open == 0 && negotiations->begun == negotiations->count) {
			failure(error, EPROTO, "%s", reasons->str);
			return -1;
		}
		if (timed_out(deadline, reasons->str, error))
			return -1;
		if (negotiations->begun - open > failed)
			next = 0;
		else
			negotiations_wait(negotiations->all, negotiations->begun,
					  negotiations->begun < negotiations->count
						  ? MIN(deadline->end, next)
						  : deadline->end);
		failed = negotiations->begun - open;
	}
}

/* The target that answered is in *answered. */
static bool
connect_first(struct source_connection *connection, const struct source_targets *targets,
	      const struct deadline *deadline, unsigned int *answered, GError **error)
{
	struct negotiations negotiations;
	int ready;

	negotiations_init(&negotiations, targets->all->len);
	ready = negotiate_any(&negotiations, targets, deadline, error);
	if (ready >= 0) {
		*answered = (unsigned int)ready;
		take_over(connection, &negotiations.all[ready]);
	}
	negotiations_fini(&negotiations);
	return ready >= 0;
}

/* To the same address: all connections of a device lead to one server. */
static bool
connect_others(struct source_connection *const *connections, unsigned int count,
	       const struct source_targets *targets, unsigned int answered,
	       const struct deadline *deadline, GError **error)
{
	const struct source_target *target =
		&g_array_index(targets->all, struct source_target, answered);
	struct negotiations negotiations;
	bool done;

	negotiations_init(&negotiations, count);
	for (; negotiations.begun < count; negotiations.begun++)
		negotiation_connect(&negotiations.all[negotiations.begun], &target->address,
				    &targets->servers[target->server].aim);
	done = negotiate_all(&negotiations, deadline, NULL, error);
	if (done)
		take_all(connections, &negotiations);
	negotiations_fini(&negotiations);
	return done;
}

static bool
connect_all(struct source_connection *const *connections, unsigned int count, bool several,
	    const struct source_targets *targets, unsigned int limit_ms, unsigned int *server,
	    GError **error)
{
	const struct deadline deadline = deadline_after(limit_ms);
	unsigned int answered = 0;
	bool done;

	if (!connect_first(connections[0], targets, &deadline, &answered, error))
		return false;
	if (several && !(connections[0]->export.flags & NBD_FLAG_CAN_MULTI_CONN))
		done = failure(
			error, EOPNOTSUPP,
			"the server doesn't allow several connections (multi-conn): leave out --connections");
	else
		done = connect_others(connections + 1, count - 1, targets, answered, &deadline,
				      error);
	if (!done)
		source_connection_close(connections[0]);
	*server = g_array_index(targets->all, struct source_target, answered).server;
	return done;
}

bool
source_connections_to_servers(struct source_connection *const *connections, unsigned int count,
			      bool several, const struct source_search *search,
			      unsigned int limit_ms, unsigned int *server, GError **error)
{
	struct source_targets targets;
	GError *why = NULL;
	bool done = source_targets_find(&targets, search, error);

	if (done && !connect_all(connections, count, several, &targets, limit_ms, server, &why)) {
		g_propagate_prefixed_error(error, why, "%s: ", search->uri);
		done = false;
	}
	source_targets_fini(&targets);
	return done;
}

void
source_connection_close(struct source_connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
	tls_session_free(connection->session);
	connection->session = NULL;
}

/*
 * The kernel counts bytes, and the limit is one of blocks that the cipher encrypts (RFC 8446, 5.5).
 * In the smallest record that the nbd driver sends (28 bytes of data, and 22 around them), it
 * encrypts less than one block for each 13 bytes on the wire, and less in larger ones.
 *
 * The server changes its keys after so many records, and that ends the connection.  The requests in
 * flight then wait for their timeout, so it is better to be first: the server's records are taken
 * for replies to reads of 4 KiB.
 */
uint64_t
source_connection_bytes_left(const struct source_connection *connection)
{
	struct tcp_info info = {.tcpi_state = 0};
	socklen_t length = sizeof(info);
	uint64_t gone;

	if (connection->most_bytes == 0 || connection->fd < 0)
		return UINT64_MAX;
	/* The socket can't be asked: there is no reason to wait for its end. */
	if (getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
		return 0;
	gone = MAX(info.tcpi_bytes_sent,
		   info.tcpi_bytes_received * (TLS_RECORD_DATA / SERVER_RECORD));
	return connection->most_bytes > gone ? connection->most_bytes - gone : 0;
}
