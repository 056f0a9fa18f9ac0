/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/export_end.h"

#include "tool/backup/export_end_state.h"
#include "tool/backup/interruption.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include "common/log.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes of an export.  A server that means harm could keep a backup busy for ever with a larger
 * one: to ask which parts of this one are holes takes minutes. */
#define SIZE_LIMIT (UINT64_C(64) << 50)

static struct export_end *
of_end(struct end *end)
{
	return (struct export_end *)end;
}

/* ---- lost connections */

static void
export_lose(struct export_end *export, struct export_connection *connection)
{
	export_connection_lose(connection, &export->waiting);
	export->losses++;
}

static uint64_t
zero_max_of(struct nbd_handle *handle)
{
	return libnbd.can_zero(handle) == 1 ? PLAN_ZERO_MAX : PLAN_DATA_MAX;
}

/* Whether a further connection is to an export like that of the first one: requests were cut, and
 * flushes are sent, by what that could do. */
static bool
is_the_same(struct export_end *export, struct nbd_handle *handle, GError **error)
{
	const uint64_t size = (uint64_t)libnbd.get_size(handle);

	if (size != export->size)
		return failure(error, EINVAL,
			       "%s had %" G_GUINT64_FORMAT " bytes, and has %" G_GUINT64_FORMAT
			       " now: begin again",
			       export->options.uri, export->size, size);
	return (zero_max_of(handle) == export->end.zero_max &&
		(libnbd.can_flush(handle) == 1) == export->can_flush &&
		(export->count == 1 || libnbd.can_multi_conn(handle) == 1)) ||
	       failure(error, EINVAL,
		       "%s can't do now what it could before (zeroes, flushes, or several "
		       "connections): begin again",
		       export->options.uri);
}

/* True, although a connection can't be made now: export->why says why. */
static bool
make_again(struct export_end *export, GError **error)
{
	const gint64 now = g_get_monotonic_time();

	for (int i = 0; i < export->count; i++) {
		struct export_connection *connection = &export->connections[i];

		if (connection->handle || now < connection->next_try)
			continue;
		g_clear_error(&export->why);
		connection->next_try = now + G_USEC_PER_SEC;
		if (export_connection_open(connection, &export->options, &export->why)) {
			if (!is_the_same(export, connection->handle, error))
				return false;
			continue;
		}
		if (!failure_is(export->why, ENOTCONN))
			return failure_pass(error, &export->why);
		break; /* the others would have to wait, too */
	}
	return true;
}

static bool
is_idle(const struct export_end *export)
{
	bool idle = g_queue_is_empty((GQueue *)&export->waiting);

	for (int i = 0; i < export->count; i++)
		idle = idle && g_queue_is_empty((GQueue *)&export->connections[i].flights);
	return idle;
}

/* A connection that doesn't answer for half of the time is made again; but not during a flush,
 * which a new connection would only begin anew: there, the kernel finds out that a connection is
 * lost. */
static bool
check_time(struct export_end *export, GError **error)
{
	const gint64 now = g_get_monotonic_time(),
		     limit = (gint64) export->options.seconds * G_USEC_PER_SEC;

	if (is_idle(export))
		export->last_answer = now;
	if (now - export->last_answer > limit)
		return failure(error, ETIMEDOUT, "%s: no answer for %u seconds%s%s",
			       export->options.uri, export->options.seconds,
			       export->why ? "; the last attempt to connect: " : "",
			       export->why ? export->why->message : "");
	for (int i = 0; i < export->count; i++) {
		struct export_connection *connection = &export->connections[i];

		if (connection->handle && export_connection_is_due(connection) &&
		    now - connection->since > limit / 2)
			export_lose(export, connection);
	}
	return true;
}

/* ---- requests */

static const char *
said_of(const struct end_request *request)
{
	static const char *const said[] = {
		[END_READ] = "reading",  [END_WRITE] = "writing",    [END_ZERO] = "zeroing",
		[END_SYNC] = "flushing", [END_MAP] = "asking about",
	};

	return said[request->operation];
}

static void
export_finish(struct export_end *export, struct end_request *request, int failed)
{
	GError *error = NULL;

	export->last_answer = g_get_monotonic_time();
	if (failed)
		failure_errno(&error, failed,
			      "%s: %s %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT,
			      export->options.uri, said_of(request), request->piece.length,
			      request->piece.offset);
	request->done(request, error);
}

/* The connection with the fewest requests; NULL: all are lost. */
static struct export_connection *
export_idlest(struct export_end *export)
{
	struct export_connection *best = NULL;

	for (int i = 0; i < export->count; i++) {
		struct export_connection *connection = &export->connections[i];

		if (connection->handle &&
		    (!best || connection->flights.length < best->flights.length))
			best = connection;
	}
	return best;
}

static void
send_waiting(struct export_end *export)
{
	struct export_connection *connection;

	while (!g_queue_is_empty(&export->waiting) && (connection = export_idlest(export))) {
		struct end_request *request = g_queue_pop_head(&export->waiting);
		GError *error = NULL;

		if (export_connection_send(connection, request, &error))
			continue;
		if (error) {
			request->done(request, error);
			continue;
		}
		g_queue_push_head(&export->waiting, request);
		export_lose(export, connection);
	}
}

static void
export_start(struct end *end, struct end_request *request)
{
	struct export_end *export = of_end(end);

	if (is_idle(export))
		export->last_answer = g_get_monotonic_time();
	g_queue_push_tail(&export->waiting, request);
	send_waiting(export);
}

static int
export_prepare(struct end *end, struct pollfd polled[END_POLLED_MAX])
{
	struct export_end *export = of_end(end);

	for (int i = 0; i < export->count; i++)
		export_connection_prepare(&export->connections[i], &polled[i]);
	return export->count;
}

static void
export_take_answers(struct export_end *export, struct export_connection *connection)
{
	struct end_request *request;
	int failed;

	while ((request = export_connection_answered(connection, &failed)))
		export_finish(export, request, failed);
	if (export_connection_is_lost(connection))
		export_lose(export, connection);
}

static bool
export_turn(struct end *end, const struct pollfd *polled, int count, GError **error)
{
	struct export_end *export = of_end(end);

	for (int i = 0; i < count; i++) {
		struct export_connection *connection = &export->connections[i];

		export_connection_notify(connection, &polled[i]);
		if (connection->handle)
			export_take_answers(export, connection);
	}
	if (!make_again(export, error) || !check_time(export, error))
		return false;
	send_waiting(export);
	return true;
}

/* ---- one request at a time */

struct asked {
	struct end_request *request;
	bool done;
	GError *error;
};

/* The only one, as these are for one thread. */
static struct asked asked;

static void
asked_done(struct end_request *request, GError *error)
{
	asked.done = request == asked.request;
	asked.error = error;
}

bool
export_end_ask(struct export_end *export, struct end_request *request, GError **error)
{
	struct pollfd polled[END_POLLED_MAX];

	asked = (struct asked){.request = request};
	request->done = asked_done;
	export_start(&export->end, request);
	while (!asked.done) {
		int count = export_prepare(&export->end, polled);

		poll(polled, (nfds_t)count, 250);
		if (!interruption_check(error) || !export_turn(&export->end, polled, count, error))
			return false;
	}
	return !asked.error || failure_pass(error, &asked.error);
}

static bool
sync_export(struct end *end, GError **error)
{
	struct export_end *export = of_end(end);
	struct end_request request = {.operation = END_SYNC};

	/* Without flushes there is only one way for a server: to have written what it has
	 * answered.  The user was warned. */
	return !export->can_flush || export_end_ask(export, &request, error);
}

static unsigned int
export_losses(const struct end *end)
{
	return ((const struct export_end *)end)->losses;
}

/* ---- its life */

static void
export_stop(struct end *end)
{
	struct export_end *export = of_end(end);

	for (int i = 0; i < export->count; i++) {
		if (export->connections[i].handle)
			export_connection_lose(&export->connections[i], &export->waiting);
	}
	g_queue_clear(&export->waiting);
}

static void
free_export(struct end *end)
{
	struct export_end *export = of_end(end);

	export_stop(end);
	g_clear_error(&export->why);
	for (int i = 0; i < EXPORT_END_BITMAPS; i++)
		g_free((char *)export->options.bitmaps[i]);
	g_free(end->name);
	g_free(export);
}

static const struct end_kind export_end_kind = {
	.start = export_start,
	.sync = sync_export,
	.prepare = export_prepare,
	.turn = export_turn,
	.stop = export_stop,
	.losses = export_losses,
	.free = free_export,
};

/* The further connections: a server that doesn't take them all has fewer. */
static void
connect_more(struct export_end *export)
{
	g_autoptr(GError) why = NULL;

	if (libnbd.can_multi_conn(export->connections[0].handle) != 1)
		return;
	while (export->count < (int)export->options.connections && !why) {
		struct export_connection *connection = &export->connections[export->count];

		if (!export_connection_open(connection, &export->options, &why))
			break;
		export->count++;
		if (!is_the_same(export, connection->handle, &why)) {
			export->count--;
			libnbd.close(g_steal_pointer(&connection->handle));
		}
	}
}

static bool
take_facts(struct export_end *export, GError **error)
{
	struct nbd_handle *handle = export->connections[0].handle;

	export->count = 1;
	export->size = (uint64_t)libnbd.get_size(handle);
	if (export->size > SIZE_LIMIT)
		return failure(error, EFBIG,
			       "%s: the server says that it has %" G_GUINT64_FORMAT
			       " bytes; nbdloop copies at most %" G_GUINT64_FORMAT " (64 PiB)",
			       export->options.uri, export->size, SIZE_LIMIT);
	export->end.zero_max = zero_max_of(handle);
	export->tells_allocation = libnbd.can_meta_context(handle, CONTEXT_BASE) == 1;
	export->can_flush = libnbd.can_flush(handle) == 1;
	export->last_answer = g_get_monotonic_time();
	if (export->options.writable && !export->can_flush)
		log_warning("%s can't flush: whether the data is on its disk is not known",
			    export->options.uri);
	return true;
}

struct end *
export_end_open(const struct export_end_options *options, GError **error)
{
	struct export_end *export;

	if (!libnbd_library_load(error) ||
	    !nbd_uri_check_for_libnbd(options->uri, libnbd_library_knows_hostname(), error))
		return NULL;
	export = g_new0(struct export_end, 1);
	export->end = (struct end){.kind = &export_end_kind, .name = g_strdup(options->uri)};
	export->options = *options;
	export->options.uri = export->end.name;
	for (int i = 0; i < EXPORT_END_BITMAPS; i++)
		export->options.bitmaps[i] = g_strdup(options->bitmaps[i]);
	if (!export_connection_open(&export->connections[0], &export->options, error) ||
	    !take_facts(export, error)) {
		free_export(&export->end);
		return NULL;
	}
	connect_more(export);
	return &export->end;
}

uint64_t
export_end_size(const struct end *end)
{
	return ((const struct export_end *)end)->size;
}

pid_t
export_end_server(const struct end *end)
{
	const struct export_end *export = (const struct export_end *)end;
	struct ucred peer = {.pid = 0};
	socklen_t size = sizeof(peer);

	if (!export->connections[0].handle ||
	    getsockopt(libnbd.aio_get_fd(export->connections[0].handle), SOL_SOCKET, SO_PEERCRED,
		       &peer, &size) < 0)
		return 0;
	return peer.pid;
}

/* ---- its connections, as the server sees them */

/* The name may be followed by what TLS tells of the client, in parentheses. */
static bool
begins_with(const char *client, const char *name)
{
	const char *rest = g_str_has_prefix(client, name) ? client + strlen(name) : NULL;

	return rest && (!*rest || *rest == ' ');
}

static bool
is_inet_client(const struct sockaddr *address, socklen_t length, const char *client)
{
	const bool six = address->sa_family == AF_INET6;
	char host[NI_MAXHOST], port[NI_MAXSERV];
	g_autofree char *name = NULL, *mapped = NULL;

	if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return false;
	name = g_strdup_printf(six ? "[%s]:%s" : "%s:%s", host, port);
	/* A socket that takes IPv6 and IPv4. */
	mapped = g_strdup_printf("[::ffff:%s]:%s", host, port);
	return begins_with(client, name) || begins_with(client, mapped);
}

static bool
is_client(const struct export_connection *connection, const char *client)
{
	union {
		struct sockaddr any;
		struct sockaddr_storage storage;
	} address;
	socklen_t length = sizeof(address);
	char process[32];

	if (!connection->handle ||
	    getsockname(libnbd.aio_get_fd(connection->handle), &address.any, &length) < 0)
		return false;
	if (address.any.sa_family != AF_UNIX)
		return is_inet_client(&address.any, length, client);
	snprintf(process, sizeof(process), "unix (pid %d,", (int)getpid());
	return begins_with(client, process);
}

bool
export_end_is_client(const struct end *end, const char *client)
{
	const struct export_end *export = (const struct export_end *)end;
	bool found = false;

	for (int i = 0; i < export->count && !found; i++)
		found = is_client(&export->connections[i], client);
	return found;
}
