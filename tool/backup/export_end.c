/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/export_end.h"

#include "common/log.h"
#include "tool/backup/export_connection.h"
#include "tool/backup/interruption.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct export_end {
	struct end end;
	struct export_end_options options; /* its texts are copies: connections are made again */
	uint64_t size;                     /* bytes */
	bool tells_allocation;             /* the server has base:allocation */
	bool can_flush;
	int count; /* of the connections; at least 1 */
	struct export_connection connections[END_POLLED_MAX];
	GQueue waiting;      /* requests that are not sent */
	unsigned int losses; /* of connections */
	gint64 last_answer;  /* us, monotonic; or when there was nothing to ask */
	GError *why;         /* the last attempt to connect has failed; or NULL */
};

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

/* What is done, for errors. */
static const char *const export_said[] = {
	[END_READ] = "reading",  [END_WRITE] = "writing",    [END_ZERO] = "zeroing",
	[END_SYNC] = "flushing", [END_MAP] = "asking about",
};

static void
export_finish(struct export_end *export, struct end_request *request, int failed)
{
	GError *error = NULL;

	export->last_answer = g_get_monotonic_time();
	if (failed)
		failure_errno(&error, failed,
			      "%s: %s %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT,
			      export->options.uri, export_said[request->operation],
			      request->piece.length, request->piece.offset);
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

static bool
export_turn(struct end *end, const struct pollfd *polled, int count, GError **error)
{
	struct export_end *export = of_end(end);
	struct end_request *request;
	int failed;

	for (int i = 0; i < count; i++) {
		struct export_connection *connection = &export->connections[i];

		export_connection_notify(connection, &polled[i]);
		/* What comes after an answer may lose the connection. */
		while (connection->handle &&
		       (request = export_connection_answered(connection, &failed)))
			export_finish(export, request, failed);
		if (connection->handle && export_connection_is_lost(connection))
			export_lose(export, connection);
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

/* Carries out one request while no others are in flight. */
static bool
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
	if (export->size < export->options.least_size)
		return failure(error, ENOSPC,
			       "%s is too small: it has %" G_GUINT64_FORMAT
			       " bytes, and %" G_GUINT64_FORMAT " are needed",
			       export->options.uri, export->size, export->options.least_size);
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

/* ---- what the server tells of its blocks */

/* Bytes that one request asks about: a whole number of blocks. */
#define AT_ONCE (UINT64_C(1) << 31)

/* Bytes between two parts that it's better to ask about, too: each question takes a round trip. */
#define GAP_MAX (UINT64_C(64) << 20)

/* Bounds for the answers of a server. A hostile server can then neither fill the memory nor keep a
 * backup busy for ever. */
#define GRAIN         4096      /* bytes: a shorter part is no hole, and no part without changes */
#define PARTS_MAX     (1 << 24) /* of a plan: what comes after them is data, or changed */
#define SHORT_ANSWERS (1 << 16) /* that tell of less than a grain, though more was asked about */

#define FLAG_ZERO     2 /* of base:allocation */
#define FLAG_DIRTY    1 /* of a dirty bitmap */

/* Gets what the server tells of a part of the image, from its beginning on. */
typedef void (*take_range)(uint64_t offset, uint64_t length, uint32_t flags, GArray *plan);

/* Whether a part may be left out of what is copied: it is safe to copy too much. */
static bool
is_kept_apart(uint64_t length, const GArray *plan)
{
	return length >= GRAIN && plan->len < PARTS_MAX;
}

static void
take_changed(uint64_t offset, uint64_t length, uint32_t flags, GArray *plan)
{
	if ((flags & FLAG_DIRTY) || !is_kept_apart(length, plan))
		plan_add(plan, offset, length, false);
}

static void
take_allocated(uint64_t offset, uint64_t length, uint32_t flags, GArray *plan)
{
	plan_add(plan, offset, length, (flags & FLAG_ZERO) && is_kept_apart(length, plan));
}

/* Returns how many bytes the entries cover; the last one may be longer than what was asked for. */
static uint64_t
take_entries(const struct map_request *map, take_range take, GArray *plan)
{
	const struct part *piece = &map->request.piece;
	uint64_t covered = 0;

	for (guint i = 0; i + 1 < map->entries->len && covered < piece->length; i += 2) {
		const uint64_t length =
			MIN(g_array_index(map->entries, uint32_t, i), piece->length - covered);

		take(piece->offset + covered, length, g_array_index(map->entries, uint32_t, i + 1),
		     plan);
		covered += length;
	}
	return covered;
}

/* All of a range, in as many requests as the server wants. */
static bool
map_range(struct export_end *export, struct map_request *map, const struct part *range,
	  take_range take, GArray *plan, GError **error)
{
	uint64_t offset = range->offset, length = range->length;

	while (length) {
		uint64_t covered;

		map->request.piece =
			(struct part){.offset = offset, .length = MIN(length, AT_ONCE)};
		if (!export_end_ask(export, &map->request, error))
			return false;
		covered = take_entries(map, take, plan);
		if (!covered)
			return failure(
				error, EPROTO,
				"%s: the server reports nothing about %s at %" G_GUINT64_FORMAT,
				export->options.uri, map->context, offset);
		if (covered < MIN(length, GRAIN) && ++map->short_answers > SHORT_ANSWERS)
			return failure(
				error, EPROTO,
				"%s: the server described fewer than %d bytes of %s in each of %d answers: the whole map would take too long",
				export->options.uri, GRAIN, map->context, SHORT_ANSWERS);
		offset += covered;
		length -= covered;
	}
	return true;
}

static bool
map_ranges(struct export_end *export, const char *context, GArray *ranges, take_range take,
	   GArray *plan, GError **error)
{
	struct map_request map = {
		.request.operation = END_MAP,
		.context = context,
		.entries = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
	};
	bool done = true;

	for (guint i = 0; i < ranges->len && done; i++)
		done = map_range(export, &map, plan_part(ranges, i), take, plan, error);
	g_array_unref(map.entries);
	if (plan->len >= PARTS_MAX)
		log_warning("%s: the map of %s has over %d parts; everything after them is copied",
			    export->options.uri, context, PARTS_MAX);
	return done;
}

bool
export_end_changed(struct end *end, const char *bitmap, GArray *plan, GError **error)
{
	struct export_end *export = (struct export_end *)end;
	g_autofree char *context = g_strconcat(BITMAP_CONTEXT, bitmap, NULL);
	g_autoptr(GArray) all = plan_new();

	plan_add(all, 0, export->size, false);
	return map_ranges(export, context, all, take_changed, plan, error);
}

bool
export_end_allocated(struct end *end, GArray *wanted, GArray *plan, GError **error)
{
	struct export_end *export = (struct export_end *)end;
	g_autoptr(GArray) bridged = NULL;
	g_autoptr(GArray) told = NULL;

	if (!export->tells_allocation) {
		for (guint i = 0; i < wanted->len; i++)
			plan_add(plan, plan_part(wanted, i)->offset, plan_part(wanted, i)->length,
				 false);
		return true;
	}
	bridged = plan_bridged(wanted, GAP_MAX);
	told = plan_new();
	if (!map_ranges(export, CONTEXT_BASE, bridged, take_allocated, told, error))
		return false;
	plan_add_common(plan, told, wanted);
	return true;
}
