/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/export_connection.h"

#include "tool/backup/interruption.h"
#include "tool/failure.h"
#include "tool/link/peer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECT_SECONDS 10

/* A request that is on its way. */
struct flight {
	struct end_request *request;
	int64_t cookie; /* libnbd's */
	bool answered;
	int error; /* of the answer; errno */
};

/* What libnbd says, without the name of its function.  Caller frees. */
static char *
last_error(void)
{
	const char *text = libnbd.get_error(), *rest;

	if (!text)
		return g_strdup("unknown error");
	rest = g_str_has_prefix(text, "nbd_") ? strstr(text, ": ") : NULL;
	return g_strdup(rest ? rest + 2 : text);
}

/* ---- to connect */

static bool
ask_for_contexts(struct nbd_handle *handle, const struct export_end_options *options)
{
	bool done = libnbd.add_meta_context(handle, CONTEXT_BASE) == 0;

	for (int i = 0; i < EXPORT_END_BITMAPS && done; i++) {
		g_autofree char *context = g_strconcat(BITMAP_CONTEXT, options->bitmaps[i], NULL);

		if (options->bitmaps[i])
			done = libnbd.add_meta_context(handle, context) == 0;
	}
	return done;
}

/* Until the handshake is over. */
static bool
export_shake_hands(struct nbd_handle *handle, const char *uri, GError **error)
{
	const gint64 end = g_get_monotonic_time() + CONNECT_SECONDS * G_USEC_PER_SEC;
	int r = libnbd.aio_connect_uri(handle, uri);
	g_autofree char *why = NULL;

	while (r >= 0 && libnbd.aio_is_ready(handle) != 1) {
		if (libnbd.aio_is_dead(handle) == 1 || libnbd.aio_is_closed(handle) == 1)
			return failure(error, ENOTCONN, "%s: the server closed the connection",
				       uri);
		if (!interruption_check(error))
			return false;
		if (g_get_monotonic_time() >= end)
			return failure(error, ENOTCONN, "%s: no answer within %d seconds", uri,
				       CONNECT_SECONDS);
		r = libnbd.poll(handle, 250);
	}
	if (r >= 0)
		return true;
	why = last_error();
	return failure(error, ENOTCONN, "%s: %s", uri, why);
}

static bool
check_bitmaps(struct nbd_handle *handle, const struct export_end_options *options, GError **error)
{
	for (int i = 0; i < EXPORT_END_BITMAPS; i++) {
		const char *name = options->bitmaps[i];
		g_autofree char *context = g_strconcat(BITMAP_CONTEXT, name, NULL);

		if (name && libnbd.can_meta_context(handle, context) != 1)
			return failure(
				error, ENOENT,
				"%s: what has changed since \"%s\" is unknown, because the server "
				"has no context %s: take a full backup (with --bitmap, begin the "
				"checkpoint before it)",
				options->uri, name, context);
	}
	return true;
}

static bool
export_check(struct nbd_handle *handle, const struct export_end_options *options, GError **error)
{
	const int64_t most = libnbd.get_block_size(handle, LIBNBD_SIZE_MAXIMUM);

	if (options->writable && libnbd.is_read_only(handle) == 1)
		return failure(error, EROFS, "%s is read-only", options->uri);
	if (most > 0 && most < PLAN_DATA_MAX)
		return failure(error, ENOTSUP,
			       "%s takes requests of at most %" G_GINT64_FORMAT
			       " bytes, and nbdloop sends up to %d",
			       options->uri, most, PLAN_DATA_MAX);
	return check_bitmaps(handle, options, error);
}

bool
export_connection_open(struct export_connection *connection,
		       const struct export_end_options *options, GError **error)
{
	struct nbd_handle *handle = libnbd.create();

	if (!handle)
		return failure_errno(error, ENOMEM, "%s", options->uri);
	if (libnbd.set_uri_allow_local_file(handle, true) == 0 &&
	    ask_for_contexts(handle, options) && export_shake_hands(handle, options->uri, error) &&
	    export_check(handle, options, error)) {
		peer_watch(libnbd.aio_get_fd(handle), options->seconds);
		connection->handle = handle;
		connection->since = g_get_monotonic_time();
		return true;
	}
	failure_errno(error, ENOMEM, "%s", options->uri); /* unless there is another error */
	libnbd.close(handle);
	return false;
}

/* ---- requests */

/* libnbd calls this while it holds its lock: it can't be asked for anything here. */
static int
flight_answered(void *data, int *error)
{
	struct flight *flight = data;

	flight->answered = true;
	flight->error = *error;
	return 0; /* libnbd keeps the command: see export_connection_answered() */
}

static int
take_extents(void *data, const char *context, uint64_t offset, uint32_t *entries, size_t count,
	     int *error)
{
	struct map_request *map = data;

	(void)offset, (void)error;
	if (g_str_equal(context, map->context))
		g_array_append_vals(map->entries, entries, (guint)count);
	return 0;
}

/* For a server that can't make zeroes itself.  Never written to, but not const: as a constant, it
 * would be in the program's file. */
static unsigned char zeroes[PLAN_DATA_MAX];

static int64_t
send_command(struct nbd_handle *handle, struct flight *flight)
{
	const nbd_completion_callback completion = {.callback = flight_answered,
						    .user_data = flight};
	struct end_request *request = flight->request;
	struct map_request *map = (struct map_request *)request; /* END_MAP */
	const struct part *piece = &request->piece;

	switch (request->operation) {
	case END_READ:
		return libnbd.aio_pread(handle, request->data, piece->length, piece->offset,
					completion, 0);
	case END_WRITE:
		return libnbd.aio_pwrite(handle, request->data, piece->length, piece->offset,
					 completion, 0);
	case END_ZERO:
		if (libnbd.can_zero(handle) == 1)
			return libnbd.aio_zero(handle, piece->length, piece->offset, completion, 0);
		return libnbd.aio_pwrite(handle, zeroes, piece->length, piece->offset, completion,
					 0);
	case END_SYNC: return libnbd.aio_flush(handle, completion, 0);
	case END_MAP:
		g_array_set_size(map->entries, 0); /* it may be sent again */
		return libnbd.aio_block_status(
			handle, piece->length, piece->offset,
			(nbd_extent_callback){.callback = take_extents, .user_data = map},
			completion, 0);
	}
	return -1;
}

bool
export_connection_send(struct export_connection *connection, struct end_request *request,
		       GError **error)
{
	struct flight *flight = g_new0(struct flight, 1);
	g_autofree char *why = NULL;

	if (g_queue_is_empty(&connection->flights))
		connection->since = g_get_monotonic_time();
	/* First, because it may be answered at once. */
	flight->request = request;
	g_queue_push_tail(&connection->flights, flight);
	flight->cookie = send_command(connection->handle, flight);
	if (flight->cookie >= 0)
		return true;
	why = last_error();
	g_queue_pop_tail(&connection->flights);
	g_free(flight);
	if (!export_connection_is_lost(connection))
		failure(error, EINVAL, "%s", why);
	return false;
}

void
export_connection_prepare(const struct export_connection *connection, struct pollfd *polled)
{
	unsigned int direction;

	*polled = (struct pollfd){.fd = -1}; /* poll() leaves it out */
	if (!connection->handle || export_connection_is_lost(connection))
		return;
	direction = libnbd.aio_get_direction(connection->handle);
	polled->fd = libnbd.aio_get_fd(connection->handle);
	polled->events = (short)((direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
				 (direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0));
}

void
export_connection_notify(struct export_connection *connection, const struct pollfd *polled)
{
	if (!connection->handle || polled->fd < 0)
		return;
	/* Only one of them: the first may change what the handle waits for. */
	if (polled->revents & (POLLIN | POLLHUP | POLLERR))
		libnbd.aio_notify_read(connection->handle);
	else if (polled->revents & POLLOUT)
		libnbd.aio_notify_write(connection->handle);
}

struct end_request *
export_connection_answered(struct export_connection *connection, int *failed)
{
	const bool lost = export_connection_is_lost(connection);

	for (GList *link = connection->flights.head; link; link = link->next) {
		struct flight *flight = link->data;
		struct end_request *request = flight->request;
		int done;

		/* What a lost connection has not carried out comes with an error, and ESHUTDOWN
		 * says that the server ends. */
		if (!flight->answered || (flight->error && (lost || flight->error == ESHUTDOWN)))
			continue;
		/* Only now libnbd looks whether the data of a read is complete; what is missing
		 * would be zeroes. */
		done = libnbd.aio_command_completed(connection->handle, (uint64_t)flight->cookie);
		*failed = flight->error || done == 1 ? flight->error : EIO;
		g_queue_delete_link(&connection->flights, link);
		g_free(flight);
		connection->since = g_get_monotonic_time();
		return request;
	}
	return NULL;
}

static bool
is_shut_down(const struct export_connection *connection)
{
	for (GList *link = connection->flights.head; link; link = link->next) {
		const struct flight *flight = link->data;

		if (flight->answered && flight->error == ESHUTDOWN)
			return true;
	}
	return false;
}

bool
export_connection_is_due(const struct export_connection *connection)
{
	for (const GList *link = connection->flights.head; link; link = link->next) {
		const struct flight *flight = link->data;

		if (flight->request->operation != END_SYNC)
			return true;
	}
	return false;
}

bool
export_connection_is_lost(const struct export_connection *connection)
{
	return !connection->handle || libnbd.aio_is_dead(connection->handle) == 1 ||
	       libnbd.aio_is_closed(connection->handle) == 1 || is_shut_down(connection);
}

void
export_connection_lose(struct export_connection *connection, GQueue *unanswered)
{
	struct flight *flight;

	libnbd.close(connection->handle);
	connection->handle = NULL;
	connection->next_try = g_get_monotonic_time() + G_USEC_PER_SEC / 4;
	while ((flight = g_queue_pop_tail(&connection->flights))) {
		g_queue_push_head(unanswered, flight->request);
		g_free(flight);
	}
}
