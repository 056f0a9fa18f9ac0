/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server/upstream_connection.h"

#include "tool/failure.h"
#include "tool/server/nbd_uri.h"

#include "nbd/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <libnbd.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	SMALLEST_BLOCK = 512,
	LARGEST_BLOCK =
		4096, /* the smallest page of any machine: no device of 6.1 has larger blocks */
};

/* For all of a negotiation with somebody else's server.  One that hangs, or is gone without a word,
 * would keep its caller forever: nothing is in flight whose loss TCP would notice. */
#define URI_LIMIT_MS 30000

/* A server's name may have several addresses, of which some answer nothing: so long the first has
 * to itself. */
#define NEXT_ADDRESS_MS 3000

/* A large request in one go; Linux's default of 208 KiB makes the sender wait for its receiver. */
#define SEND_BUFFER (2 << 20)

/* libnbd's last error, without the name of the function that failed there: "nbd_aio_connect_uri:
 * connect: No such file". */
static const char *
reason(void)
{
	const char *text = nbd_get_error();
	size_t name = text ? strcspn(text, ": ") : 0;

	if (!text)
		return "unknown error";
	if (g_str_has_prefix(text, "nbd_") && g_str_has_prefix(text + name, ": "))
		text += name + strlen(": ");
	return g_str_has_prefix(text, "connect: ") ? text + strlen("connect: ") : text;
}

static void
handle_cleanup(struct nbd_handle **handle)
{
	nbd_close(*handle);
}
#define HANDLE_CLEANUP __attribute__((cleanup(handle_cleanup)))

static struct nbd_handle *
handle_new(GError **error)
{
	struct nbd_handle *handle = nbd_create();

	if (!handle)
		return FAILURE_NULL(error, ENOMEM, "no connection can be made: %s", reason());
	/* The kernel knows neither. */
	nbd_set_request_structured_replies(handle, false);
#ifdef LIBNBD_HAVE_NBD_SET_REQUEST_EXTENDED_HEADERS
	nbd_set_request_extended_headers(handle, false);
#endif
	return handle;
}

static uint16_t
flags_of(struct nbd_handle *handle)
{
	const struct {
		int (*has)(struct nbd_handle *handle);
		uint16_t flag;
	} all[] = {
		{nbd_is_read_only, NBD_FLAG_READ_ONLY},
		{nbd_can_flush, NBD_FLAG_SEND_FLUSH},
		{nbd_can_fua, NBD_FLAG_SEND_FUA},
		{nbd_is_rotational, NBD_FLAG_ROTATIONAL},
		{nbd_can_trim, NBD_FLAG_SEND_TRIM},
		{nbd_can_zero, NBD_FLAG_SEND_WRITE_ZEROES},
		{nbd_can_multi_conn, NBD_FLAG_CAN_MULTI_CONN},
	};
	uint16_t flags = NBD_FLAG_HAS_FLAGS;

	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		if (all[i].has(handle) == 1)
			flags |= all[i].flag;
	}
	return flags;
}

static unsigned int
block_size_of(struct nbd_handle *handle)
{
	int64_t smallest = nbd_get_block_size(handle, LIBNBD_SIZE_MINIMUM);

	return (unsigned int)CLAMP(smallest, SMALLEST_BLOCK, LARGEST_BLOCK);
}

static bool
take_over(struct upstream_connection *connection, struct nbd_handle *handle, GError **error)
{
	int64_t size = nbd_get_size(handle);
	int buffer = SEND_BUFFER, fd = fcntl(nbd_aio_get_fd(handle), F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return failure(error, errno, "a connection can't be kept: %s", g_strerror(errno));
	if (size < 0) {
		close(fd);
		return failure(error, EPROTO, "the server doesn't tell the size: %s", reason());
	}
	/* Beyond net.core.wmem_max, for which it needs the privilege that we have; what isn't
	 * possible is only slower. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	*connection = (struct upstream_connection){
		.fd = fd,
		.size = (uint64_t)size,
		.block_size = block_size_of(handle),
		.flags = flags_of(handle),
	};
	return true;
}

bool
upstream_connection_over_socket(struct upstream_connection *connection, int fd, GError **error)
{
	struct nbd_handle *HANDLE_CLEANUP handle = handle_new(error);

	if (!handle) {
		close(fd);
		return false;
	}
	if (nbd_connect_socket(handle, fd) < 0)
		return failure(error, EPROTO, "the server ended the negotiation: %s", reason());
	return take_over(connection, handle, error);
}

/* The kernel's own sockets; a socket of another family would only fail later, without a reason. */
static bool
kernel_can_take(struct nbd_handle *handle, const char *uri, GError **error)
{
	int family = 0;
	socklen_t length = sizeof(family);

	if (nbd_get_tls_negotiated(handle) == 1)
		return failure(
			error, EOPNOTSUPP,
			"%s: the kernel's nbd driver can't encrypt (TLS).  Use a tunnel, such as "
			"ssh -L, and an nbd:// or nbd+unix:// URI",
			uri);
	if (getsockopt(nbd_aio_get_fd(handle), SOL_SOCKET, SO_DOMAIN, &family, &length) < 0 ||
	    (family != AF_INET && family != AF_INET6 && family != AF_UNIX))
		return failure(error, EOPNOTSUPP,
			       "%s: the kernel's nbd driver takes TCP and unix sockets only", uri);
	return true;
}

/* ---- a server by its addresses */

struct attempts {
	const char *uri;             /* as the user named it */
	char **uris;                 /* with an address each */
	struct nbd_handle **handles; /* as many; NULL: not begun yet, or it has failed */
	unsigned int count, begun;
	gint64 next_begins; /* g_get_monotonic_time() */
	GString *reasons;   /* of those that have failed */
};

static void
attempts_cleanup(struct attempts *attempts)
{
	for (unsigned int i = 0; i < attempts->begun; i++)
		nbd_close(attempts->handles[i]);
	g_free(attempts->handles);
	g_strfreev(attempts->uris);
	g_string_free(attempts->reasons, true);
}
#define ATTEMPTS_CLEANUP __attribute__((cleanup(attempts_cleanup)))

/* The next one begins at once then. */
static void
give_up(struct attempts *attempts, unsigned int i)
{
	g_string_append_printf(attempts->reasons, "%s%s", attempts->reasons->len ? "; " : "",
			       reason());
	nbd_close(attempts->handles[i]);
	attempts->handles[i] = NULL;
	attempts->next_begins = 0;
}

static bool
begin_next(struct attempts *attempts, GError **error)
{
	unsigned int i = attempts->begun;

	attempts->handles[i] = handle_new(error);
	if (!attempts->handles[i])
		return false;
	attempts->begun++;
	attempts->next_begins = g_get_monotonic_time() + NEXT_ADDRESS_MS * 1000;
	nbd_set_uri_allow_local_file(attempts->handles[i], true);
	if (nbd_aio_connect_uri(attempts->handles[i], attempts->uris[i]) < 0)
		give_up(attempts, i);
	return true;
}

/* Waits for news of any of those that were begun, no longer than until then. */
static void
wait_for_answers(const struct attempts *attempts, gint64 end)
{
	g_autofree struct pollfd *fds = g_new0(struct pollfd, attempts->count);
	gint64 left;

	if (attempts->begun < attempts->count)
		end = MIN(end, attempts->next_begins);
	for (unsigned int i = 0; i < attempts->count; i++) {
		struct nbd_handle *handle = i < attempts->begun ? attempts->handles[i] : NULL;
		unsigned int direction = handle ? nbd_aio_get_direction(handle) : 0;

		fds[i].fd = handle ? nbd_aio_get_fd(handle) : -1;
		fds[i].events = (short)((direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
					(direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0));
	}
	left = (end - g_get_monotonic_time()) / 1000 + 1;
	poll(fds, attempts->count, (int)MAX(left, 0));
}

/* The first that is ready, which is the caller's then, or NULL.  *open: how many may still be. */
static struct nbd_handle *
take_answers(struct attempts *attempts, unsigned int *open)
{
	*open = 0;
	for (unsigned int i = 0; i < attempts->begun; i++) {
		struct nbd_handle *handle = attempts->handles[i];

		if (!handle)
			continue;
		if (nbd_aio_is_connecting(handle) && nbd_poll(handle, 0) < 0) {
			give_up(attempts, i);
		} else if (nbd_aio_is_ready(handle)) {
			attempts->handles[i] = NULL;
			return handle;
		} else if (!nbd_aio_is_connecting(handle)) {
			give_up(attempts, i);
		} else {
			++*open;
		}
	}
	return NULL;
}

static struct nbd_handle *
negotiate(struct attempts *attempts, GError **error)
{
	const gint64 end = g_get_monotonic_time() + URI_LIMIT_MS * 1000;

	for (;;) {
		struct nbd_handle *handle;
		unsigned int open;

		if (attempts->begun < attempts->count &&
		    g_get_monotonic_time() >= attempts->next_begins && !begin_next(attempts, error))
			return NULL;
		handle = take_answers(attempts, &open);
		if (handle)
			return handle;
		if (open == 0 && attempts->begun == attempts->count)
			return FAILURE_NULL(error, EPROTO, "%s: %s", attempts->uri,
					    attempts->reasons->str);
		if (g_get_monotonic_time() >= end)
			return FAILURE_NULL(error, ETIMEDOUT,
					    "%s: the server hasn't answered for %d seconds%s%s",
					    attempts->uri, URI_LIMIT_MS / 1000,
					    attempts->reasons->len ? "; " : "",
					    attempts->reasons->str);
		wait_for_answers(attempts, end);
	}
}

bool
upstream_connection_to_uri(struct upstream_connection *connection, const char *uri, GError **error)
{
	struct attempts ATTEMPTS_CLEANUP attempts = {
		.uri = uri, .uris = nbd_uri_addresses(uri), .reasons = g_string_new(NULL)};
	struct nbd_handle *HANDLE_CLEANUP handle = NULL;

	attempts.count = g_strv_length(attempts.uris);
	attempts.handles = g_new0(struct nbd_handle *, attempts.count);
	handle = negotiate(&attempts, error);
	return handle && kernel_can_take(handle, uri, error) &&
	       take_over(connection, handle, error);
}
