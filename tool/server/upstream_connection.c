/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server/upstream_connection.h"

#include "tool/failure.h"
#include "tool/server/negotiation.h"

#include "nbd/protocol.h"
#include "nbd/tls/ktls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	SMALLEST_BLOCK = 512,
	LARGEST_BLOCK =
		4096, /* the smallest page of any machine: no device of 6.1 has larger blocks */
};

/* Limit of a whole negotiation with a remote server.  A server that hangs, or vanishes without
 * closing the connection, would block the caller forever: nothing is in flight whose loss TCP would
 * notice. */
#define URI_LIMIT_MS 30000

/* A host name may have several addresses, some of which may never answer: how long one is tried
 * before the next one is tried as well. */
#define NEXT_ADDRESS_MS 3000

/* Takes a large request at once; with Linux's default of 208 KiB, the sender would wait for the
 * receiver. */
#define SEND_BUFFER (2 << 20)

/* Bytes of a record of the server: see upstream_connection_bytes_left(). */
#define SERVER_RECORD 4096

/* The flags that the kernel's client knows. */
#define KERNEL_FLAGS                                                                               \
	(NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_ROTATIONAL |      \
	 NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_CAN_MULTI_CONN)

static void
take_over(struct upstream_connection *connection, struct negotiation *negotiation)
{
	const struct nbd_client_handshake *result = &negotiation->handshake;
	int buffer = SEND_BUFFER, fd = negotiation_take(negotiation);

	/* Beyond net.core.wmem_max, for which it needs the privilege that we have; what isn't
	 * possible is only slower. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	*connection = (struct upstream_connection){
		.fd = fd,
		.most_bytes = ktls_bytes(negotiation->record_limit),
		.size = result->size,
		.block_size = CLAMP(result->smallest_block, SMALLEST_BLOCK, LARGEST_BLOCK),
		.flags = (uint16_t)(NBD_FLAG_HAS_FLAGS | (result->flags & KERNEL_FLAGS)),
	};
	if (*negotiation->cipher)
		g_snprintf(connection->tls, sizeof(connection->tls), "%s kernel",
			   negotiation->cipher);
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

/* `reasons`: of the addresses that have failed; or "". */
static bool
timed_out(gint64 end, const char *reasons, GError **error)
{
	return g_get_monotonic_time() >= end &&
	       !failure(error, ETIMEDOUT, "the server hasn't answered for %d seconds%s%s",
			URI_LIMIT_MS / 1000, *reasons ? "; " : "", reasons);
}

/* Until all of them, which have begun, are ready. */
static bool
negotiate_all(struct negotiations *negotiations, gint64 end, GError **error)
{
	for (;;) {
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
		if (timed_out(end, "", error))
			return false;
		negotiations_wait(negotiations->all, negotiations->begun, end);
	}
}

static void
take_all(struct upstream_connection *const *connections, struct negotiations *negotiations)
{
	for (unsigned int i = 0; i < negotiations->begun; i++)
		take_over(connections[i], &negotiations->all[i]);
}

bool
upstream_connections_over_sockets(struct upstream_connection *const *connections, const int *fds,
				  unsigned int count, GError **error)
{
	const struct negotiation_aim aim = {.export = ""};
	struct negotiations negotiations;
	GError *why = NULL;
	bool done;

	negotiations_init(&negotiations, count);
	for (; negotiations.begun < count; negotiations.begun++)
		negotiation_begin(&negotiations.all[negotiations.begun], fds[negotiations.begun],
				  &aim);
	done = negotiate_all(&negotiations, G_MAXINT64, &why);
	if (done)
		take_all(connections, &negotiations);
	else
		g_propagate_prefixed_error(error, why, "the server ended the negotiation: ");
	negotiations_fini(&negotiations);
	return done;
}

/* ---- a server by its addresses */

/* The first that is ready, or NULL with the reasons of those that have failed.  *open: how many may
 * still be. */
static struct negotiation *
find_ready(struct negotiations *negotiations, unsigned int *open, GString *reasons)
{
	*open = 0;
	g_string_truncate(reasons, 0);
	for (unsigned int i = 0; i < negotiations->begun; i++) {
		struct negotiation *one = &negotiations->all[i];

		negotiation_advance(one);
		if (one->state == NEGOTIATION_READY)
			return one;
		if (one->state == NEGOTIATION_FAILED)
			g_string_append_printf(reasons, "%s%s", reasons->len ? "; " : "",
					       one->reason);
		else
			++*open;
	}
	return NULL;
}

/* One address after the other, each a moment after the one before it, or at once when one has
 * failed, until one is ready: its number, or -1. */
static int
negotiate_any(struct negotiations *negotiations, const GArray *addresses,
	      const struct negotiation_aim *aim, gint64 end, GError **error)
{
	g_autoptr(GString) reasons = g_string_new(NULL);
	unsigned int open, failed = 0;
	gint64 next = 0;

	for (;;) {
		struct negotiation *ready;

		if (negotiations->begun < negotiations->count && g_get_monotonic_time() >= next) {
			const unsigned int i = negotiations->begun++;

			negotiation_connect(&negotiations->all[i],
					    &g_array_index(addresses, struct nbd_address, i), aim);
			next = g_get_monotonic_time() + NEXT_ADDRESS_MS * 1000;
		}
		ready = find_ready(negotiations, &open, reasons);
		if (ready)
			return (int)(ready - negotiations->all);
		if (open == 0 && negotiations->begun == negotiations->count) {
			failure(error, EPROTO, "%s", reasons->str);
			return -1;
		}
		if (timed_out(end, reasons->str, error))
			return -1;
		if (negotiations->begun - open > failed)
			next = 0;
		else
			negotiations_wait(negotiations->all, negotiations->begun,
					  negotiations->begun < negotiations->count ? MIN(end, next)
										    : end);
		failed = negotiations->begun - open;
	}
}

/* The address that answered is in *answered. */
static bool
connect_first(struct upstream_connection *connection, const GArray *addresses,
	      const struct negotiation_aim *aim, gint64 end, unsigned int *answered, GError **error)
{
	struct negotiations negotiations;
	int ready;

	negotiations_init(&negotiations, addresses->len);
	ready = negotiate_any(&negotiations, addresses, aim, end, error);
	if (ready >= 0) {
		*answered = (unsigned int)ready;
		take_over(connection, &negotiations.all[ready]);
	}
	negotiations_fini(&negotiations);
	return ready >= 0;
}

static bool
connect_others(struct upstream_connection *const *connections, unsigned int count,
	       const struct nbd_address *address, const struct negotiation_aim *aim, gint64 end,
	       GError **error)
{
	struct negotiations negotiations;
	bool done;

	negotiations_init(&negotiations, count);
	for (; negotiations.begun < count; negotiations.begun++)
		negotiation_connect(&negotiations.all[negotiations.begun], address, aim);
	done = negotiate_all(&negotiations, end, error);
	if (done)
		take_all(connections, &negotiations);
	negotiations_fini(&negotiations);
	return done;
}

static bool
connect_all(struct upstream_connection *const *connections, unsigned int count, bool several,
	    const GArray *addresses, const struct negotiation_aim *aim, GError **error)
{
	const gint64 end = g_get_monotonic_time() + URI_LIMIT_MS * 1000;
	unsigned int answered = 0;
	bool done;

	if (!connect_first(connections[0], addresses, aim, end, &answered, error))
		return false;
	if (several && !(connections[0]->flags & NBD_FLAG_CAN_MULTI_CONN))
		done = failure(
			error, EOPNOTSUPP,
			"the server doesn't allow several connections (multi-conn): leave out --connections");
	else
		done = connect_others(connections + 1, count - 1,
				      &g_array_index(addresses, struct nbd_address, answered), aim,
				      end, error);
	if (!done)
		upstream_connection_close(connections[0]);
	return done;
}

static bool
connect_to(struct upstream_connection *const *connections, unsigned int count, bool several,
	   const struct nbd_uri *uri, const struct upstream_tls *tls, GError **error)
{
	struct negotiation_aim aim = {.export = uri->export, .hostname = tls->hostname};
	g_autoptr(GArray) addresses = NULL;
	bool done;

	if (tls->wanted)
		aim.credentials = upstream_tls_credentials(tls, error);
	if (tls->wanted && !aim.credentials)
		return false;
	addresses = nbd_uri_addresses(uri, error);
	done = addresses && connect_all(connections, count, several, addresses, &aim, error);
	tls_credentials_unref(aim.credentials);
	return done;
}

bool
upstream_connections_to_uri(struct upstream_connection *const *connections, unsigned int count,
			    bool several, const char *uri, const struct upstream_tls *tls,
			    GError **error)
{
	struct nbd_uri parsed;
	GError *why = NULL;
	bool done = nbd_uri_parse(uri, &parsed, error);

	if (done && !connect_to(connections, count, several, &parsed, tls, &why)) {
		g_propagate_prefixed_error(error, why, "%s: ", uri);
		done = false;
	}
	nbd_uri_fini(&parsed);
	return done;
}

void
upstream_connection_close(struct upstream_connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
}

/*
 * The kernel counts no records, but bytes.  Of our own, where a record is full, its data are most
 * of its bytes.  A smaller one counts for less: the limit (RFC 8446, 5.5) is about how many blocks
 * of 16 bytes the cipher takes, and it takes less than one for each 13 bytes on the wire of the
 * smallest record that the nbd driver sends, which has 28 bytes of data and 22 around them.
 *
 * Its records are the server's own business: GnuTLS changes the keys after so many, and that ends
 * the connection.  The requests in flight then have to wait for their timeout, so it is better to
 * be first: the server's records are taken for replies to reads of 4 KiB.
 */
uint64_t
upstream_connection_bytes_left(const struct upstream_connection *connection)
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
